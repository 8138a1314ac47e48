"""What a release can be asked, models compared, and answers as analysts print them."""

from __future__ import annotations

import csv
import io
import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.demo.people import make_people, small_schema
from understudy.errors import InputError, UnsupportedError
from understudy.inference.printing import decimals, estimate_text
from understudy.privacy.randomness.streams import SeededStream

SCHEMA = small_schema()


def made(method, seed=1, **settings):
    settings = {"budget": us.PureDP(epsilon=4), **settings}
    people = us.open_source(make_people(2000, seed=3), SCHEMA)
    with warnings.catch_warnings(action="ignore"):
        return us.synthesize(people, method=method, stream=SeededStream(seed), **settings)


def rng():
    return np.random.default_rng(1)


@pytest.fixture(scope="module")
def some():
    return made("ipf", margins="sex+smokes, smokes+education, sex+education, region")


@pytest.fixture(scope="module")
def drawn():
    return made("dirichlet", budget=us.PureDP(epsilon=16))


def test_what_can_be_asked_is_what_is_answered(some):
    asked = us.questions(some)
    assert {one.attributes for one in asked if len(one.attributes) == 2} == {
        ("sex", "education"), ("sex", "smokes"), ("education", "smokes")}  # fmt: skip
    assert ("region", "sex") in asked.unasked
    assert asked.triples == 1
    for one in asked.about("sex"):
        answer = us.infer(some, one.question, rng=rng())
        assert answer.validity == one.label == "valid"
        halves = [(cell.high - cell.low) / 2 for cell in answer.estimates]
        # Told for a cell of average size; read with all tables together.
        assert 0.4 * one.width < np.median(halves) < 1.6 * one.width
    assert "No table holds these together" in asked.summary()
    assert len(asked.to_frame()) == len(asked) == len(asked.to_json()["tables"])


def test_tables_that_were_chosen_are_called_so_and_drawn_ones_are_all_there(drawn):
    release = made("aim", budget=us.ApproxDP(epsilon=2, delta="1e-6"), must="crosstab(sex, smokes)", rounds=2)
    labels = {one.attributes: one.label for one in us.questions(release)}
    assert labels["sex", "smokes"] == "valid"
    chosen = [one.margin for one in release.measurements if one.label.startswith("round") and len(one.margin) == 2]
    assert {labels[one] for one in chosen} == {"valid"}
    table = next(one for one in us.questions(release) if one.attributes == chosen[0] != ("sex", "smokes"))
    release = replace(
        release, provenance=replace(release.provenance, plan=replace(release.provenance.plan, adaptive=False))
    )
    same = next(one for one in us.questions(release) if one.attributes == chosen[0])
    assert 1.01 * same.width < table.width < 1.7 * same.width  # there is room for the choice
    assert len(us.questions(drawn)) == 5 + 10
    assert us.questions(drawn, "sex", "age").tables[0].width > 0


def test_asking_what_is_not_there(some):
    with pytest.raises(InputError, match="unknown"):
        us.questions(some, "nowhere")
    with pytest.raises(UnsupportedError, match="states neither"):
        us.questions(us.wrap(some.frame(), SCHEMA))
    with pytest.raises(InputError, match="needs a release"):
        us.questions("folder")


def test_a_joint_test_of_one_coefficient_is_its_p_value(some):
    answer = us.infer(some, "smokes ~ sex + education", event="yes", rng=rng())
    place = answer.names.index("sex[M]")
    assert answer.wald("sex").p_value == pytest.approx(answer.p_values[place], rel=1e-6)
    assert answer.wald("education").freedom == 3
    assert answer.wald().freedom == 4
    covariance = answer.covariance()
    assert np.sqrt(np.diag(covariance)) == pytest.approx(answer.standard_errors)
    assert np.linalg.eigvalsh(covariance).min() > 0
    with pytest.raises(InputError, match="no 'age'"):
        answer.wald("age")


def test_models_are_compared_by_the_terms_that_one_has_more(some):
    larger = us.compare_models(some, "smokes ~ sex", "smokes ~ sex + education", event="yes", rng=rng())
    assert larger.added == ("education",)
    assert larger.test == us.infer(some, "smokes ~ sex + education", event="yes", rng=rng()).wald("education")
    assert "chi-square" in larger.summary()
    for one, other, says in (
        ("smokes ~ sex", "smokes ~ education", "every term"),
        ("smokes ~ sex", "sex ~ smokes", "same outcome"),
        ("smokes ~ sex", "crosstab(sex)", "two formulas"),
    ):
        with pytest.raises(InputError, match=says):
            us.compare_models(some, one, other, rng=rng())


def test_a_model_is_checked_on_draws_as_well(drawn):
    checked = us.check_model(drawn, "smokes ~ sex + education", event="yes", rng=rng())
    assert checked.supported
    assert checked.freedom == 3
    assert 0 <= checked.p_value <= 1


def test_many_questions_share_their_draws(some):
    both = us.infer(some, ["crosstab(sex, smokes)", "crosstab(sex, smokes, percent='row')"], rng=rng())
    cells = both[0].draws.reshape(-1, 2, 2)
    assert both[1].draws == pytest.approx((cells / cells.sum(axis=2, keepdims=True)).reshape(len(cells), -1), abs=0.02)
    with pytest.raises(InputError, match="family and event"):
        us.infer(some, ["crosstab(sex, smokes)"], event="yes")


def test_percentages_add_up_in_rows_and_columns(some):
    for percent, axis in (("row", 1), ("column", 0)):
        answer = us.infer(some, f"crosstab(sex, smokes, percent='{percent}')", rng=rng())
        table = np.array([one.value for one in answer.estimates]).reshape(2, 2)
        assert table.sum(axis=axis) == pytest.approx(1, abs=0.01)
    with pytest.raises(InputError, match="percent must be"):
        us.infer(some, "crosstab(sex, smokes, percent='all')")


def test_digits_are_those_that_the_interval_bears():
    assert [decimals(*ends) for ends in ((0.1, 0.2), (0.43121, 0.43129), (100, 900), (1, 1))] == [3, 6, 0, 3]
    one = us.Estimate(value=0.123456, low=0.1, high=0.15, level=0.95, method="")
    assert estimate_text(one, percent=True, label="range") == "12.3 [10.0, 15.0] r"
    open_above = us.Estimate(value=1.5177, low=-0.141, high=np.inf, level=0.95, method="")
    assert estimate_text(open_above, percent=False, label="valid") == "1.52 [-0.14, inf]"
    says_nothing = us.Estimate(value=1.5, low=-np.inf, high=np.inf, level=0.95, method="")
    assert estimate_text(says_nothing, percent=False, label="range") == "- r"


def test_numbers_in_the_summary_have_these_digits_too(some):
    answer = us.infer(some, "proportion(sex == 'F')", rng=rng())
    ((value, error, low, high),) = answer.rounded()
    assert answer.value == pytest.approx(float(value), abs=0.05 * (answer.high - answer.low))
    assert len(value.rstrip("0")) <= 2 + decimals(answer.low, answer.high)
    assert all(text in answer.summary() for text in (value, error, low, high))


def test_a_rare_reference_level_is_named_with_what_to_ask_instead():
    """Every coefficient is open if nobody knows whether somebody of the reference level has the event."""
    generator = np.random.default_rng(2)
    group = generator.choice(["a", "b", "c"], 4000, p=[0.005, 0.195, 0.8])
    people = pa.table({"group": group, "ill": np.where(generator.random(4000) < 0.3, "yes", "no")})
    schema = us.Schema(
        attributes=(us.Attribute(name="group", levels=("a", "b", "c")), us.Attribute(name="ill", levels=("no", "yes")))
    )
    release = us.synthesize(people, schema=schema, budget=us.PureDP(epsilon="0.1"), stream=SeededStream(5))
    answer = us.infer(release, "ill ~ group", event="yes", rng=rng())
    assert not any(np.isfinite(one.low) and np.isfinite(one.high) for one in answer.estimates)
    other = "ill ~ C(group, Treatment('c'))"
    assert any(text.endswith(other) for text in answer.warnings)
    closed = us.infer(release, other, event="yes", rng=rng())
    assert sum(np.isfinite(one.low) and np.isfinite(one.high) for one in closed.estimates) == 2
    assert not any("Treatment" in text for text in closed.warnings)


def test_a_table_is_laid_out_and_every_note_is_there_once(some):
    answers = us.infer(some, ["crosstab(sex, smokes)", "smokes ~ sex"], rng=rng())
    text = us.print_answers(answers)
    assert "sex=F" in text
    assert "smokes=yes" in text
    assert text.count("records with a missing value are left out") <= 2
    assert text.count("two-sided") == 1
    latex = us.print_answers(answers, "latex")
    assert latex.count(r"\begin{tabular}") == 2
    assert r"\%" in latex
    html = answers[0].to_text("html")
    assert html.count("<tr>") == 3
    rows = list(csv.DictReader(io.StringIO(answers[0].to_text("csv"))))
    assert [(row["sex"], row["smokes"]) for row in rows] == [("F", "no"), ("F", "yes"), ("M", "no"), ("M", "yes")]
    assert float(rows[0]["estimate"]) == answers[0].estimates[0].value
    with pytest.raises(InputError, match="format"):
        answers[0].to_text("word")


def test_a_forest_shows_the_numbers_it_draws(some):
    pytest.importorskip("matplotlib")
    answer = us.infer(some, "proportion(smokes == 'yes', by=education)", rng=rng())
    drawing = answer.plot()
    assert drawing.table["name"].to_pylist() == list(answer.names)
    assert drawing.table["low"].to_pylist() == [one.low for one in answer.estimates]
    assert "education=" in drawing.svg


def test_hostile_names_are_data_in_every_format():
    schema = us.Schema(
        attributes=(us.Attribute(name="b<b>&", levels=("x_1", "$50%")), us.Attribute(name="y", levels=("a", "b")))
    )
    import pyarrow as pa

    people = pa.table({"b<b>&": ["x_1", "$50%"] * 200, "y": ["a", "b", "b", "b"] * 100})
    with warnings.catch_warnings(action="ignore"):
        release = us.synthesize(
            us.open_source(people, schema), method="histogram", budget=us.PureDP(epsilon=2), stream=SeededStream(1)
        )
    answer = us.infer(release, "crosstab(`b<b>&`, y)", rng=rng())
    assert "<b>&" not in answer.to_text("html")
    assert r"x\_1" in answer.to_text("latex")
    assert r"\$50\%" in answer.to_text("latex")
