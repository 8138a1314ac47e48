"""Every picture of an evaluation is an SVG, the same each time, and hands back the table it drew."""

from __future__ import annotations

import sys
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pytest

from understudy.errors import InputError, MissingExtraError
from understudy.figures.drawing import BAD
from understudy.figures.evaluation.first_screen import GROUPS, thousand
from understudy.figures.evaluation_figure import drawable, figures, needs


def histogram(key: str, names: tuple[str, ...]) -> pa.Table:
    rows = [
        {key: name, "from": place / 4, "to": (place + 1) / 4, "original": 0.25, "synthetic": place / 6}
        for name in names
        for place in range(4)
    ]
    return pa.Table.from_pylist(rows)


def table(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows))


NAMES = ("$age$", "sex & <b>", "a_very_long_name_of_an_attribute_that_goes_on_and_on_without_an_end")
PAIRS = ((NAMES[0], NAMES[1], True), (NAMES[0], NAMES[2], False), (NAMES[1], NAMES[2], None))
INTERVALS = {"original_se": 0.5, "original_low": 0.0, "original_high": 2.0, "synthetic_low": 0.5, "synthetic_high": 2.5}


@pytest.fixture
def frames() -> dict[str, pa.Table]:
    return {
        "two_way": table(
            *({"first": a, "second": b, "s_pmse": 3.0, "band": "good", "covered": c} for a, b, c in PAIRS)
        ),
        "worst_tables": table(
            *(
                {
                    "rank": rank,
                    "table": "a x b",
                    "s_pmse": 40.0 / rank,
                    "cell": f"c{n} | $d$",
                    "original": n,
                    "synthetic": 3.0,
                }
                | {"difference": 3.0 - n}
                for rank in range(1, 6)
                for n in range(30)
            )
        ),
        "one_way": table(
            *(
                {"attribute": name, "level": f"l{n}", "original_percent": 1.0 * n, "synthetic_percent": 2.0}
                for name in NAMES
                for n in range(20)
            )
        ),
        "histograms": histogram("attribute", NAMES),
        "propensity_histogram": histogram("classifier", ("CART", "logit")),
        "regressions": table(
            *(
                dict(model=model, term=term, original=1.0, synthetic=1.5, **INTERVALS)
                for model in ("y ~ x", "z ~ x")
                for term in ("(intercept)", "x", "x[$a$]")
            )
        ),
        "rank_ranges": table(
            *(
                {"attribute": name, "record": n, "copy": m, "true_rank": 5.0, "low": 1.0 + n, "high": 2.0 + n + m}
                for name in NAMES
                for n in range(25)
                for m in (1, 2)
            )
        ),
        "rank_attribution": table(
            *({"attribute": name, "copies": 3, "helped": 0.2, "confused": 0.1} for name in NAMES)
        ),
        "attacks": table(
            *(
                {
                    "attack": "linkability",
                    "subject": name,
                    "residual": r,
                    "residual_low": r - 0.2,
                    "residual_high": r + 0.2,
                }
                for name, r in zip(NAMES, (0.1, 0.5, -0.1), strict=True)
            )
        ),
        "risk_by_epsilon": table(
            *(
                {"release": f"r{e}", "epsilon": e, "attack": attack, "residual": 0.1}
                for e in (0.1, 1.0, None)
                for attack in ("linkability", "membership")
            )
        ),
        "membership_curve": table(
            *(
                {"score": score, "false_positive_rate": x / 9, "true_positive_rate": (x / 9) ** 0.5}
                for score in ("nearest distance", "density ratio")
                for x in range(10)
            )
        ),
        "destinations": table(
            *(
                {
                    "destination": f"d{n}",
                    "workers": n,
                    "true": 5.0 / n,
                    "synthetic": 4.0 / n,
                    "true_short": None if n == 3 else 2.0,
                    "synthetic_short": 1.0,
                }
                for n in range(1, 200)
            )
        ),
        "beside": table(
            *(
                {"method": method, "strength": strength, "mean_s_pmse": 5.0 + (strength or 0.0)}
                | {"guessed_right": 0.5, "own_record": None if strength is None else 0.2, "from_margins": 0.4}
                for method, strength in (("the release", None), ("swap", 0.1), ("swap", 0.5), ("noise", 0.2))
            )
        ),
        "first_screen": table(
            *(
                {"title": f"t{n}", "sentence": "s", "of_1000": 30 if n else None, "light": ""}
                | {"first": 20, "first_means": "right", "second": 10, "second_means": "more"}
                | {"third": 0, "third_means": ""}
                for n in range(3)
            )
        ),
        "tradeoff": table(
            *({"release": f"r{e}", "epsilon": e, "s_pmse_2": 5.0, "s_pmse_3": 3.0} for e in (0.1, 1.0, None)),
        ),
    }


@pytest.mark.parametrize("light", ["red", "amber", "green"])
def test_red_people_are_only_those_of_a_red_light(light):
    """A difference that may be chance, and people told something false, are no alarm."""
    row = {"of_1000": 30, "first": 20, "second": 10, "third": 0} | {f"{name}_means": "" for name in GROUPS}
    drawn = [thousand(place, {**row, "light": light if not place else ""}).svg for place in range(3)]
    assert [BAD in one for one in drawn] == [light == "red", False, False]


@pytest.mark.parametrize("name", list(figures))
def test_a_picture_and_its_table(name, frames, tmp_path):
    drawing = figures[name](frames)
    root = ElementTree.fromstring(drawing.svg)  # noqa: S314 - our own text
    assert root.tag.endswith("svg")
    assert drawing.table.num_rows > 0
    (source,) = needs(name)
    assert set(drawing.table.column_names) <= set(frames[source].column_names)
    drawn = {tuple(row.items()) for row in drawing.table.to_pylist()}
    assert drawn <= {tuple(row.items()) for row in frames[source].to_pylist()}  # nothing invented, nothing rounded
    assert figures[name](frames).svg == drawing.svg
    assert drawing.save(tmp_path / "picture.svg").stat().st_size > 1000


def test_names_are_shown_as_they_are(frames):
    assert "$age$" in figures["two_way"](frames).svg
    assert "sex &amp; &lt;b&gt;" in figures["two_way"](frames).svg


def test_a_long_list_is_cut_to_the_worst(frames):
    drawn = figures["worst_tables"](frames).table.to_pylist()
    assert {row["rank"] for row in drawn} == {1, 2, 3}
    assert len(drawn) == 45
    assert (
        max(row["difference"] for row in frames["worst_tables"].to_pylist())
        < 15
        < max(abs(r["difference"]) for r in drawn)
    )


def test_what_can_be_drawn_follows_from_the_frames(frames):
    assert set(drawable(frames)) == set(figures)
    del frames["regressions"]
    frames["two_way"] = frames["two_way"].slice(0, 0)
    assert set(figures) - set(drawable(frames)) == {"forest", "two_way"}
    with pytest.raises(InputError, match="needs the table 'regressions'"):
        figures["forest"](frames)


def test_without_matplotlib(frames, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match="understudy\\[report\\]"):
        figures["two_way"](frames)


def test_a_model_of_intercepts_only(frames):
    rows = [row for row in frames["regressions"].to_pylist() if row["term"] == "(intercept)"]
    drawing = figures["forest"]({"regressions": pa.Table.from_pylist(rows)})
    assert drawing.table.num_rows == 0


def test_days_are_shown_as_dates():
    days = table(
        *(
            {"attribute": "admitted", "kind": "date", "from": 19_723.0 + 18 * n, "to": 19_741.0 + 18 * n}
            | {"original": 0.025, "synthetic": 0.025}
            for n in range(40)
        )
    )
    (axis,) = figures["densities"]({"histograms": days}).figure.axes
    labels = [label.get_text() for label in axis.get_xticklabels()]
    assert "2025" in labels
    assert not any("19" in label for label in labels)


def test_amounts_with_a_long_tail_have_a_log_scale_and_the_bins_that_were_found():
    rows = table(
        *(
            {"attribute": "income", "kind": "numeric", "from": 10.0**n, "to": 10.0 ** (n + 1), "original": 0.2}
            | {"synthetic": 0.2, "scale": 10.0, "found_edges": "1.0 50.0 100000.0"}
            for n in range(5)
        )
    )
    (axis,) = figures["densities"]({"histograms": rows}).figure.axes
    assert axis.get_xscale() == "symlog"
    assert "10k" in [label.get_text() for label in axis.get_xticklabels()]
    assert [50.0 in line.get_xdata() for line in axis.get_lines()] == [True]
    small = table(
        *({"attribute": "x", "kind": "numeric", "from": 10.0**n, "to": 10.0 ** (n + 1), "original": 0.2}
          | {"synthetic": 0.2, "scale": 0.001, "found_edges": ""} for n in range(-3, 2))
    )  # fmt: skip
    (axis,) = figures["densities"]({"histograms": small}).figure.axes
    assert "0.1" in [label.get_text() for label in axis.get_xticklabels()]  # 100m would be read as millions


def test_what_nobody_could_guess_is_not_drawn():
    rows = [
        {"attack": "matching", "subject": name, "guesses": made, "residual": 0.0, "residual_low": -1.0}
        | {"residual_high": 1.0}
        for name, made in (("a", 5), ("b", 0))
    ]
    drawn = figures["risk_by_attribute"]({"attacks": table(*rows)}).table
    assert drawn.column("subject").to_pylist() == ["a"]
