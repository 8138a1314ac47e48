"""The sweep: its scores are those of evaluate and infer, it goes on where it stopped, and it stays inside."""

from __future__ import annotations

import json
from datetime import date
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.core.result import Section
from understudy.core.table import CodedSource
from understudy.errors import DisclosureError, InputError, UntrackedWarning
from understudy.evaluation.inputs.comparison import compare
from understudy.evaluation.risk import evaluate_risk
from understudy.evaluation.utility import evaluate_utility
from understudy.explore import tradeoff as module
from understudy.explore.rehearsal import Setup, rehearse
from understudy.explore.release_scores import risk_scores, utility_scores
from understudy.explore.sweep import Measurer, Point, Sweep, usual_questions

SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="age", edges=(0, 20, 40, 60, 100), integer=True),
        us.Attribute(name="region", levels=("N", "E", "S", "W"), missing=True),
        us.Attribute(name="born", edges=tuple(date(year, 1, 1) for year in (1920, 1980, 2020))),
    )
)
SMALL = {"methods": ("histogram",), "epsilons": ("1",), "repeats": 2, "ways": (1, 2), "workers": 1}


def people(rows: int = 250, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, rows)
    return pa.table(
        {
            "sex": np.where(rng.random(rows) < 0.3 + 0.4 * (age > 40), "F", "M"),
            "age": age,
            "region": rng.choice(["N", "E", "S", "W"], rows),
            "born": (np.datetime64("2020-01-01") - age.astype("timedelta64[D]") * 365).astype("datetime64[D]"),
        }
    )


@pytest.fixture(scope="module")
def source():
    return us.open_source(people(), SCHEMA)


def test_scores_are_those_of_evaluate(source):
    codes = source.confidential_codes()
    plan = Setup(schema=SCHEMA, method="histogram", records=codes.rows).plan(Fraction(3), 2)
    release = rehearse(CodedSource(codes), plan, 4)
    found = utility_scores(release, codes, (1, 2)) | risk_scores(release, codes, keys=("sex", "age"))
    comparison = compare(release, source, ways=(1, 2), keys=("sex", "age"))
    utility = evaluate_utility(comparison, families=("margins",))
    risk = evaluate_risk(comparison, only=("uniqueness", "attribution"))
    ways = {row["way"]: row for row in utility.frames["ways"].to_pylist()}
    for way in (1, 2):
        assert found[f"s_pmse_{way}"] == pytest.approx(ways[way]["mean_s_pmse"])
        assert found[f"k_marginal_{way}"] == pytest.approx(ways[way]["k_marginal_score"])
    unique = [row for row in risk.frames["uniqueness"].to_pylist() if row["keys"] == "sex x age"]
    assert found["repU"] == pytest.approx(np.mean([row["repU"] for row in unique]))
    assert found["UiO"] == pytest.approx(unique[0]["UiO"])
    told = [row for row in risk.frames["attribution"].to_pylist() if row["tables"] == "release"]
    by_target = [np.mean([row["DiSCO"] for row in told if row["target"] == target]) for target in ("region", "born")]
    assert found["DiSCO"] == pytest.approx(max(by_target))


def test_more_epsilon_buys_utility_and_narrow_intervals(source):
    swept = us.tradeoff(source, methods=("histogram",), epsilons=("0.05", "20"), repeats=3, ways=(1, 2), workers=1)
    little, much, none = swept.table.to_pylist()
    assert (little["epsilon"], much["epsilon"], none["epsilon"]) == (0.05, 20.0, None)
    assert little["s_pmse_2"] > 3 * much["s_pmse_2"]
    assert little["width_ratio"] > 2 * much["width_ratio"]
    assert 0.95 < much["width_ratio"] < 1.2
    assert little["cell_uncertainty"] > 0.9
    assert much["cell_uncertainty"] < 0.2
    assert much["odds"] == pytest.approx(np.exp(20))
    assert none["odds"] is None
    assert 1.2 < none["width_ratio"] < 1.6  # a second sample of the same size: sqrt 2
    assert little["s_pmse_2_sd"] > 0
    assert little["releases"] == 3


def test_findings_on_confidential_data_are_internal(source):
    inside = us.tradeoff(source, **SMALL)
    assert {finding.audience for finding in inside.findings} == {"internal"}
    assert "no ledger covers" in inside.note
    assert "INTERNAL" in inside.map().svg
    with pytest.raises(DisclosureError):
        us.Evaluation(risk=Section(findings=inside.findings)).public()
    outside = us.tradeoff(on=source, **SMALL)
    assert {finding.audience for finding in outside.findings} == {"public"}
    assert "INTERNAL" not in outside.map().svg


def test_no_release_can_be_kept(source, monkeypatch):
    """Nothing in the result holds a synthetic row, and what is rehearsed carries no guarantee."""
    seen = []
    original = module.Measurer.measure.__globals__["rehearse"]

    def watched(*arguments):
        seen.append(original(*arguments))
        return seen[-1]

    monkeypatch.setitem(module.Measurer.measure.__globals__, "rehearse", watched)
    result = us.tradeoff(source, **SMALL)
    assert seen
    assert {release.statement.guarantee.name for release in seen} == {"none"}
    assert all(isinstance(value, str | int | float | None) for line in result.lines for value in line.values())


def test_a_release_folder_is_refused(source, tmp_path):
    with pytest.warns(UntrackedWarning):
        us.synthesize(source, method="histogram", budget=us.PureDP(epsilon=1)).write(tmp_path / "release")
    before = sorted(path.name for path in (tmp_path / "release").iterdir())
    for place in ("release", "release/sweep"):
        with pytest.raises(DisclosureError, match="release folder"):
            us.tradeoff(source, out=tmp_path / place, **SMALL)
    assert sorted(path.name for path in (tmp_path / "release").iterdir()) == before


def test_an_interrupted_sweep_goes_on(source, tmp_path, monkeypatch):
    out = tmp_path / "sweep"
    calls = []
    measure = Measurer.measure

    def stops(self, point):
        if len(calls) == 2:
            raise KeyboardInterrupt
        calls.append(point)
        return measure(self, point)

    monkeypatch.setattr(Measurer, "measure", stops)
    with pytest.raises(KeyboardInterrupt):
        us.tradeoff(source, out=out, **SMALL)
    with (out / "measured.jsonl").open("a") as file:
        file.write('{"method": "histogram", "eps')  # a crash in the middle of a line
    done = []
    monkeypatch.setattr(Measurer, "measure", lambda self, point: done.append(point) or measure(self, point))
    seen = []
    result = us.tradeoff(source, out=out, progress=lambda count, total: seen.append((count, total)), **SMALL)
    assert len(done) == 2  # of four, two were there
    assert not set(done) & set(calls)
    assert len(result.lines) == 4
    assert seen[-1] == (4, 4)
    assert (out.stat().st_mode & 0o777) == 0o700
    assert {"README.txt", "tradeoff.csv", "runs.csv", "tradeoff.svg"} <= {path.name for path in out.iterdir()}
    again = us.tradeoff(source, out=out, **SMALL)
    assert again.lines == result.lines
    assert len(done) == 2


def test_another_sweep_or_other_data_are_refused(source, tmp_path):
    us.tradeoff(source, out=tmp_path / "sweep", **SMALL)
    with pytest.raises(InputError, match="differs in repeats"):
        us.tradeoff(source, out=tmp_path / "sweep", **{**SMALL, "repeats": 3})
    with pytest.raises(InputError, match="differs in data"):
        us.tradeoff(us.open_source(people(seed=2), SCHEMA), out=tmp_path / "sweep", **SMALL)
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError, match="not the folder of a sweep"):
        us.tradeoff(source, out=tmp_path / "mine", **SMALL)
    with pytest.raises(InputError, match="does not exist"):
        us.tradeoff(source, out=tmp_path / "no" / "where", **SMALL)


@pytest.mark.full
def test_several_processes_find_the_same(source):
    """Seeds belong to points, so that neither order nor number of processes matters."""
    alone = us.tradeoff(source, **SMALL)
    together = us.tradeoff(source, **{**SMALL, "workers": 2})
    assert together.lines == alone.lines


def test_a_setting_that_is_refused_is_told(source):
    swept = us.tradeoff(source, **{**SMALL, "methods": ("dirichlet",), "unit": "add_remove", "reference": False})
    assert swept.table["releases"].to_pylist() == [2]  # the number of rows drawn is the size of the table
    impossible = us.tradeoff(source, **{**SMALL, "rows": 10**12, "reference": False})
    (row,) = impossible.table.to_pylist()
    assert (row["releases"], row["refused"]) == (0, 2)
    assert row["reason"]
    json.dumps(impossible.to_json(), allow_nan=False)


def test_the_unit_of_a_sweep_is_that_of_a_release(source, tmp_path):
    """Two rows of a unit need twice the noise; a folder of another unit is another sweep."""
    plain = us.tradeoff(source, out=tmp_path / "sweep", **{**SMALL, "reference": False})
    two = us.tradeoff(source, **{**SMALL, "reference": False, "unit": us.Unit(rows_per_unit=2)})
    first, second = plain.lines[0]["cell_uncertainty"], two.lines[0]["cell_uncertainty"]
    assert first < second
    fixed = us.tradeoff(source, **{**SMALL, "reference": False, "unit": us.Unit(fixed=(SCHEMA.names[0],))})
    assert fixed.table["refused"].to_pylist() == [0]
    with pytest.raises(InputError, match="another"):
        us.tradeoff(source, out=tmp_path / "sweep", **{**SMALL, "reference": False, "unit": us.Unit(rows_per_unit=2)})


def test_the_usual_questions_can_be_asked(source):
    questions = usual_questions(SCHEMA)
    assert len(questions) == 4
    line = Measurer(
        Sweep(schema=SCHEMA, methods=("histogram",), epsilons=("1",), questions=questions),
        source.confidential_codes(),
    ).measure(Point(method="histogram", epsilon="1", copies=1, repeat=0))
    assert line["unanswered"] == 0
    assert line["width_ratio"] > 1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"epsilons": ()}, "which epsilons"),
        ({"epsilons": (0,)}, "positive"),
        ({"methods": ()}, "which methods"),
        ({"methods": ("magic",)}, "magic"),
        ({"copies": (0,)}, "copies"),
        ({"repeats": 0}, "repeats"),
        ({"delta": 1}, "delta"),
        ({"unit": "person"}, "person"),
        ({"unit": us.Unit(fixed=("nose",))}, "nose"),
        ({"unit": us.Unit(rows_per_unit=2, unit_id="who")}, "unit_id"),
        ({"questions": ("nonsense",)}, "not a question"),
        ({"keys": ("nobody",)}, "nobody"),
        ({"keys": ("sex",), "targets": ("sex",)}, "both a key and a target"),
        ({"level": 1.0}, "level"),
        ({"workers": 0}, "workers"),
        ({"ways": (0,)}, "ways"),
    ],
)
def test_bad_input_is_refused(source, changes, says):
    with pytest.raises(us.UnderstudyError, match=says):
        us.tradeoff(source, **{**SMALL, **changes})


def test_data_and_look_alike_exclude_each_other(source):
    with pytest.raises(InputError, match="either"):
        us.tradeoff(source, on=source, **SMALL)
    with pytest.raises(InputError, match="either"):
        us.tradeoff(**SMALL)
    with pytest.raises(InputError, match="schema"):
        us.tradeoff(people(), **SMALL)


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.full)])
def test_a_question_that_the_table_cannot_answer_is_counted_and_not_explained(workers):
    """The reason would speak of confidential counts; in a worker it ended the pool."""
    women = us.open_source(people(60).set_column(0, "sex", pa.array(["F"] * 60)), SCHEMA)
    asked = {**SMALL, "repeats": 1, "workers": workers, "reference": False, "ways": (1,)}
    found = us.tradeoff(women, questions=["proportion(age < 20, where=sex == 'M')"], **asked)
    assert found.table["unanswered"].to_pylist() == [1.0]
    assert found.table["reason"].to_pylist() == [None]


@pytest.mark.full
def test_a_pool_that_breaks_says_what_to_do(source, monkeypatch):
    def broken(_):
        raise module.BrokenProcessPool

    monkeypatch.setattr(module, "as_completed", broken)
    with pytest.raises(InputError, match="__main__"):
        us.tradeoff(on=source, **{**SMALL, "workers": 2})


def test_one_of_anything_need_not_be_listed(source):
    asked = {**SMALL, "repeats": 1, "reference": False, "ways": 1, "copies": 2, "epsilons": Fraction(1, 2)}
    asked |= {"methods": "independent", "questions": "proportion(sex == 'F')", "keys": "sex"}
    found = us.tradeoff(on=source, **asked)
    assert found.table.select(["epsilon", "method", "copies"]).to_pylist() == [
        {"epsilon": 0.5, "method": "independent", "copies": 2}
    ]


def test_every_number_of_ways_that_was_asked_for_is_in_the_table(source):
    found = us.tradeoff(on=source, **{**SMALL, "repeats": 1, "ways": (1, 4), "reference": False})
    for name in ("s_pmse_1", "k_marginal_1", "s_pmse_4", "k_marginal_4"):
        assert found.table[name].to_pylist()[0] is not None


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"copies": ()}, "numbers of copies"),
        ({"level": "high"}, "level"),
        ({"rows": 0}, "rows"),
        ({"seed": -1}, "seed"),
        ({"workers": 0}, "workers"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_written(source, tmp_path, changes, says):
    with pytest.raises(InputError, match=says):
        us.tradeoff(on=source, out=tmp_path / "sweep", **{**SMALL, **changes})
    assert not (tmp_path / "sweep").exists()


def test_a_name_that_no_question_can_hold_is_not_asked_about():
    odd = us.Schema(attributes=(us.Attribute(name="a`b", levels=("x", "y")), SCHEMA["sex"]))
    assert usual_questions(odd) == ("proportion(`sex` == 'F')",)
