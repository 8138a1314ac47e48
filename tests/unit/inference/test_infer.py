"""From a release alone to an answer: every kind of release, every kind of question, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from scipy.stats import binom

import understudy as us
from understudy.core.phases import told_to
from understudy.core.questions import parse_question
from understudy.errors import InputError, MissingExtraError, UnknownNameError, UnsupportedError
from understudy.inference.estimands import make_estimand

QUESTIONS = (
    ("proportion(sex == 'F')", {}),
    ("count(health == 'bad')", {}),
    ("mean(age)", {}),
    ("quantile(age, 0.9)", {}),
    ("proportion(smokes == 'yes', where=sex == 'F') - proportion(smokes == 'yes', where=sex == 'M')", {}),
    ("crosstab(sex, health)", {}),
    ("association(sex, smokes)", {}),
    ("age ~ sex", {}),
    ("smokes ~ age + sex", {"event": "yes"}),
    ("age ~ sex", {"family": "poisson"}),
    ("health ~ sex", {"family": "multinomial"}),
    ("health ~ age + sex", {"family": "ordered"}),
)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def truth(schema, shares, text, options):
    """The quantity in the population."""
    estimand = make_estimand(parse_question(text, schema, **options), schema)
    others = tuple(place for place, name in enumerate(schema.names) if name not in estimand.margin)
    groups = np.bincount(estimand.labels, weights=shares.sum(axis=others).ravel(), minlength=estimand.groups)
    return estimand.evaluate(groups[None, :])[0]


@pytest.mark.parametrize(("text", "options"), QUESTIONS, ids=lambda value: str(value)[:30])
@pytest.mark.parametrize("kind", ["noisy", "drawn"])
def test_answers_are_near_the_truth(kind, text, options, request, schema, population):
    release = request.getfixturevalue(kind)
    answer = us.infer(release, text, draws=1000, rng=rng(), **options)
    expected = truth(schema, population, text, options) * (2000 if answer.kind == "count" else 1)
    for value, error, true in zip([e.value for e in answer.estimates], answer.standard_errors, expected, strict=True):
        assert abs(value - true) < 4.5 * error + (1.0 if answer.kind == "quantile" else 0)
    assert all(one.low <= one.value <= one.high for one in answer.estimates)
    assert all(worth is None or 0 < worth <= 2000 for worth in answer.information)
    assert answer.records == 2000
    assert answer.validity in ("valid", "range", "model-based")
    json.dumps(answer.to_json(), allow_nan=False)


def test_more_noise_is_less_information_and_a_wider_interval(sample, make_release):
    wide, narrow = (
        us.infer(make_release(sample, budget=us.PureDP(epsilon=e)), "proportion(sex == 'F')", rng=rng())
        for e in ("0.1", "10")
    )
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)
    assert wide.information[0] < 1000
    assert 1900 < narrow.information[0] <= 2000
    assert narrow.information_text().endswith("of 2,000")


def test_an_answer_that_is_nearly_the_prior_says_so(sample, make_release):
    answer = us.infer(make_release(sample, budget=us.PureDP(epsilon="0.005")), "proportion(sex == 'F')", rng=rng())
    assert any("close to its prior" in text for text in answer.warnings)
    assert answer.validity == "model-based"
    assert answer.high - answer.low > 0.5


def test_several_rows_of_a_unit_are_warned_of(sample, make_release):
    release = make_release(sample, unit=us.Unit(kind="replace", rows_per_unit=3))
    assert any("up to 3 rows" in text for text in us.infer(release, "mean(age)", rng=rng()).warnings)
    everybody = us.infer(release, "proportion(age >= 16)", rng=rng())  # whatever the rows of a unit are
    assert (everybody.validity, everybody.low, everybody.high) == ("valid", 1.0, 1.0)


def test_who_watches_hears_what_an_answer_is_doing(noisy):
    heard = []
    with told_to(lambda *step: heard.append(step)):
        us.infer(noisy, "proportion(smokes == 'yes')", draws=200, rng=rng())
    assert [done for _, done, _ in heard] == [0, 1, 2, 3]
    assert {total for _, _, total in heard} == {4}


def test_missing_values_are_left_out_and_counted(noisy, sample):
    missing = sample["smokes"].null_count
    answer = us.infer(noisy, "proportion(smokes == 'yes')", rng=rng())
    assert answer.excluded == pytest.approx(missing, abs=40)
    assert any("left out" in text for text in answer.warnings)
    asked = us.infer(noisy, "proportion(missing(smokes))", rng=rng())
    assert asked.low * 2000 < missing < asked.high * 2000
    assert (asked.estimate, asked.interval) == (asked.value, (asked.low, asked.high))


def test_the_public_number_of_records_is_in_the_folder(sample, make_release, tmp_path, monkeypatch):
    """Rows chosen by the steward say nothing of n; the manifest does, where n is public."""
    release = make_release(sample, rows=500, method="dirichlet", budget=us.PureDP(epsilon=10))
    release.write(tmp_path / "release")
    again = us.read_release(tmp_path / "release")
    assert again.provenance.records == 2000
    first = us.infer(release, "proportion(sex == 'F')", rng=rng())
    second = us.infer(again, "proportion(sex == 'F')", rng=rng())
    assert (first.value, first.low) == (second.value, second.low)
    manifest = json.loads((tmp_path / "release" / "manifest.json").read_text())
    assert manifest["records"] == 2000


def test_under_add_remove_the_number_of_records_is_estimated_and_never_stated(sample, make_release, tmp_path):
    release = make_release(sample, unit="add_remove")
    assert release.provenance.records is None
    answer = us.infer(release, "count(sex == 'F')", rng=rng())
    true = sample["sex"].to_pylist().count("F")
    assert answer.records is None
    assert answer.low - 20 < true < answer.high + 20
    share = us.infer(release, "proportion(sex == 'F')", rng=rng())
    assert abs(share.value - true / 2000) < 0.03
    drawn = make_release(sample, unit="add_remove", method="dirichlet", budget=us.PureDP(epsilon=10), rows=2000)
    with pytest.raises(UnsupportedError, match="not public"):
        us.infer(drawn, "proportion(sex == 'F')")


def test_two_cells_with_a_public_total(sample, make_release):
    schema = us.Schema(attributes=(us.Attribute(name="sex", levels=("F", "M")),), ignore=("age", "smokes", "health"))
    release = make_release(sample, schema)
    assert release.measurements[0].cells == "first"
    answer = us.infer(release, "proportion(sex == 'M')", rng=rng())
    assert abs(answer.value - sample["sex"].to_pylist().count("M") / 2000) < 0.01
    assert answer.information[0] > 1900


def test_structural_zeros_are_used(make_release, sample):
    from understudy.core.structural_zeros import Condition, Impossible

    rule = Impossible(conditions=(("sex", Condition(levels=("M",))), ("health", Condition(levels=("bad",)))))
    attributes = (
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="health", levels=("bad", "fair", "good")),
    )
    schema = us.Schema(attributes=attributes, impossible=(rule,), ignore=("age", "smokes"))
    keep = np.array(sample["sex"].to_pylist()) == "F"
    data = sample.filter(keep)
    for settings in ({}, {"method": "dirichlet", "budget": us.PureDP(epsilon=8)}):
        answer = us.infer(make_release(data, schema, **settings), "crosstab(sex, health)", rng=rng(), prior=0.5)
        assert answer["sex=M, health=bad"].high == 0


def test_strata_of_known_size(make_release, sample):
    unit = us.Unit(kind="replace", fixed=("sex",))
    release = make_release(sample, method="dirichlet", budget=us.PureDP(epsilon=8), unit=unit)
    assert len(release.provenance.draws[0]["mechanisms"]) == 2
    counted = us.infer(release, "count(sex == 'F')", rng=rng())
    true = sample["sex"].to_pylist().count("F")
    assert (counted.low, counted.high) == (true, true)
    share = us.infer(release, "proportion(sex == 'F')", rng=rng())
    assert share.information[0] > 1800
    health = us.infer(release, "proportion(health == 'good', where=sex == 'F')", rng=rng())
    rows = sample.filter(np.array(sample["sex"].to_pylist()) == "F")["health"].to_pylist()
    assert abs(health.value - rows.count("good") / len(rows)) < 4 * health.standard_error
    few = make_release(sample, method="dirichlet", budget=us.PureDP(epsilon=8), unit=unit, rows=300)
    with pytest.raises(UnsupportedError, match="apportioned"):
        us.infer(few, "proportion(sex == 'F')")


def test_copies_of_noisy_counts_are_not_read_as_noise(sample, make_release):
    one, three = (us.infer(make_release(sample, copies=c), "proportion(sex == 'F')", rng=rng()) for c in (1, 3))
    assert (one.low, one.high) == (three.low, three.high)


def test_tables_without_protection_go_to_the_rule_for_them(sample, make_release):
    release = make_release(sample, budget=us.NonPrivate(), copies=3)
    answer = us.infer(release, "proportion(sex == 'F')")
    assert "T_s" in answer.method
    share = sample["sex"].to_pylist().count("F") / 2000
    assert answer.standard_error == pytest.approx(np.sqrt(share * (1 - share) / 2000 * (1 + 1 / 3)), rel=0.05)
    with pytest.raises(UnsupportedError, match=r"T_s is\. Its 95% .* would cover"):
        us.infer(release, "proportion(sex == 'F')", rule="T_p")
    with pytest.raises(InputError, match="no posterior draws"):
        answer.to_arviz()
    with pytest.raises(InputError, match="leave out"):
        us.infer(release, "mean(age)", synthesis="simple", records=2000)


def test_anybody_elses_tables(sample, schema):
    release = us.wrap([sample, sample], schema)
    with pytest.raises(UnsupportedError, match="not noise-aware"):
        us.infer(release, "proportion(sex == 'F')")
    answer = us.infer(release, "smokes ~ age + sex", synthesis="posterior", records=2000)
    assert "T_s_posterior" in answer.method
    assert answer.validity == "model-based"
    assert "not noise-aware" in answer.warnings[0]
    with pytest.raises(UnsupportedError, match="missing data"):
        us.infer(release, "mean(age)", rule="rubin")
    with pytest.raises(InputError, match="records"):
        us.infer(release, "mean(age)", synthesis="simple")
    with pytest.raises(UnknownNameError, match="simple"):
        us.infer(release, "mean(age)", synthesis="simpel", records=2000)
    counted = us.infer(release, "count(sex == 'F')", synthesis="simple", records=4000)
    assert counted.value == pytest.approx(2 * sample["sex"].to_pylist().count("F"))


def test_a_rule_never_gives_an_interval_without_width_or_outside_0_and_1(sample, schema):
    women = np.array(sample["sex"].to_pylist()) == "F"
    release = us.wrap([sample.filter(women).slice(0, 20)], schema)
    answer = us.infer(release, "proportion(sex == 'F')", synthesis="simple", records=20)
    assert answer.low < 1 == answer.high
    assert any("fewer than 30 rows" in text for text in answer.warnings)
    cells = us.infer(release, "crosstab(sex)", synthesis="simple", records=20)
    assert cells["sex=M"].low == 0 < cells["sex=M"].high


def test_delta_method_agrees_with_the_binomial_formula(sample, schema):
    release = us.wrap([sample], schema)
    answer = us.infer(release, "proportion(health == 'bad')", synthesis="simple", records=2000)
    share = sample["health"].to_pylist().count("bad") / 2000
    assert answer.value == pytest.approx(share)
    assert answer.standard_error == pytest.approx(np.sqrt(2 * share * (1 - share) / 2000), rel=1e-3)


@pytest.mark.parametrize("rule", ["T_f*", "T_p", "T_s", "rubin"])
@pytest.mark.parametrize("kind", ["noisy", "drawn"])
def test_a_rule_is_refused_for_a_private_release_with_its_coverage(kind, rule, request):
    with pytest.raises(UnsupportedError, match=r"cover|cannot even be computed"):
        us.infer(request.getfixturevalue(kind), "proportion(sex == 'F')", rule=rule)


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"question": "mean(agee)"}, UnknownNameError, "did you mean 'age'"),
        ({"level": 1.5}, InputError, "level"),
        ({"draws": 3}, InputError, "draws"),
        ({"prior": -1}, InputError, "prior"),
        ({"records": 5}, InputError, "leave out"),
        ({"rule": "T_x"}, UnknownNameError, "T_x"),
    ],
)
def test_bad_settings(noisy, settings, error, says):
    with pytest.raises(error, match=says):
        us.infer(noisy, **{"question": "mean(age)", **settings})


def test_only_a_release_is_asked(sample):
    with pytest.raises(InputError, match="needs a release"):
        us.infer(sample, "mean(age)")


def test_a_subgroup_that_may_be_empty_is_refused(sample, make_release):
    old = (np.array(sample["age"].to_pylist()) >= 64) & (np.array(sample["health"].to_pylist()) == "good")
    release = make_release(sample.filter(~old))
    with pytest.raises(UnsupportedError, match="may not exist"):
        us.infer(release, "proportion(sex == 'F', where=age >= 64 and health == 'good')", rng=rng())
    counted = us.infer(release, "count(age >= 64 and health == 'good')", rng=rng())
    assert counted.low == 0
    with pytest.raises(UnsupportedError, match="may not exist"):
        us.infer(release, "mean(age)", where="age < 16", rng=rng())


def test_separated_outcomes_are_refused(sample, make_release):
    odd = (np.array(sample["sex"].to_pylist()) == "F") & (np.array(sample["smokes"].to_pylist()) == "yes")
    release = make_release(sample.filter(~odd), budget=us.PureDP(epsilon=50))
    with pytest.raises(UnsupportedError, match="separation"):
        us.infer(release, "smokes ~ sex", event="yes", rng=rng(), prior=0.5)
    with pytest.raises(UnsupportedError, match="separation"):
        us.infer(release, "smokes ~ sex + age", event="yes", rng=rng())


@pytest.mark.parametrize("family", ["logit", "probit"])
def test_a_group_in_which_nobody_has_the_event_leaves_the_other_coefficients(sample, make_release, family):
    """The whole regression was refused."""
    health, smokes = (np.array(sample[name].to_pylist()) for name in ("health", "smokes"))
    release = make_release(sample.filter(~((health == "good") & (smokes == "yes"))), budget=us.PureDP(epsilon=20))
    answer = us.infer(release, "smokes ~ health", event="yes", family=family, rng=rng())
    shares = [np.mean(smokes[(health == name) & (smokes != None)] == "yes") for name in ("bad", "fair")]  # noqa: E711
    link = {"logit": lambda p: np.log(p / (1 - p)), "probit": NormalDist().inv_cdf}[family]
    base, fair, good = answer.estimates
    assert base.low < link(shares[0]) < base.high
    assert fair.low < link(shares[1]) - link(shares[0]) < fair.high
    assert base.high - base.low < 1
    assert good.low == -np.inf
    assert good.high < -1
    assert answer.labels == ("valid", "valid", "valid")


def test_what_no_measured_table_holds_is_refused(noisy, schema):
    """A release with two-way tables cannot tell how three attributes go together."""
    from dataclasses import replace

    whole = noisy.measurements[0]
    pairs = tuple(
        replace(whole, margin=margin, values=whole.values.sum(axis=axes))
        for margin, axes in ((("sex", "age"), (2, 3)), (("age", "smokes"), (0, 3)))
    )
    release = replace(noisy, measurements=pairs)
    with pytest.raises(UnsupportedError, match="measured no table with both sex and smokes"):
        us.infer(release, "smokes ~ age + sex", event="yes")
    both = us.infer(release, "mean(age)", rng=rng(), prior=0.5)
    assert any("least noisy" in text for text in both.warnings)


def test_answers_show_themselves(noisy, monkeypatch):
    answer = us.infer(noisy, "crosstab(sex, health)", rng=rng(), draws=500)
    frame = answer.to_frame()
    assert list(frame.columns) == ["estimate", "standard_error", "low", "high", "information", "label"]
    assert frame.loc["sex=F, health=bad", "estimate"] == answer["sex=F, health=bad"].value
    text = answer.summary()
    assert "std err" in text
    assert "[0.025" in text
    assert "Answer(crosstab" in repr(answer)
    assert "<pre>" in answer._repr_html_()
    posterior = answer.to_arviz()["posterior"]
    assert posterior["sex=F, health=bad"].shape == (1, 500)
    with pytest.raises(InputError, match="6 estimates"):
        _ = answer.value
    with pytest.raises(InputError, match="no 'sex=X'"):
        answer["sex=X"]
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(MissingExtraError, match="understudy\\[infer\\]"):
        answer.to_frame()


def test_a_generator_makes_answers_repeatable(noisy):
    first, second = (us.infer(noisy, "mean(age)", rng=rng(3)) for _ in range(2))
    assert (first.value, first.low, first.high) == (second.value, second.low, second.high)


@pytest.mark.full
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"method": "dirichlet", "budget": us.PureDP(epsilon=9)}, id="dirichlet"),
        pytest.param({"budget": us.PureDP(epsilon=1)}, id="histogram"),
    ],
)
def test_intervals_cover(settings, make_release, make_people, schema, population):
    """60 releases, three questions: at least 157 of 180 intervals of 95 percent hold the truth. A binomial count of
    the right coverage is below that with probability 1e-5, one of 83 percent coverage nine times in ten."""
    questions = ("proportion(smokes == 'yes', where=sex == 'F')", "proportion(health == 'bad')", "mean(age)")
    true = [truth(schema, population, text, {})[0] for text in questions]
    source = np.random.default_rng(12)
    hits = 0
    for run in range(60):
        data = make_people(source.multinomial(800, population.ravel()))
        release = make_release(data, seed=run, **settings)
        for text, value in zip(questions, true, strict=True):
            answer = us.infer(release, text, draws=400, rng=source)
            hits += answer.low <= value <= answer.high
    assert binom.cdf(156, 180, 0.95) < 2e-5
    assert hits >= 157


def test_nobody_tells_nothing(sample, make_release):
    release = make_release(sample, method="dirichlet")
    release = replace(release, provenance=replace(release.provenance, records=0))
    for question in ("proportion(sex == 'F')", "count(sex == 'F')", "mean(age)"):
        with pytest.raises(InputError, match="no records"):
            us.infer(release, question)


def test_counts_and_slopes_are_as_approximate_as_shares(sample, make_release):
    """All come from the prior where noise leaves nothing; only the share said so."""
    release = make_release(sample, method="dirichlet", budget=us.PureDP(epsilon="0.1"))
    for question in ("proportion(smokes == 'yes')", "count(smokes == 'yes')"):
        answer = us.infer(release, question, rng=rng())
        assert answer.validity == "model-based"
        assert any("its prior" in text for text in answer.warnings)
    answer = us.infer(release, "smokes ~ sex", event="yes", rng=rng())
    assert answer.validity == "range"
    assert all((one.low, one.high) == (-np.inf, np.inf) for one in answer.estimates)


def test_a_number_that_may_be_none_has_none_in_its_interval(sample, make_release):
    """Draws of a count are moved for the tails of the noise; 0 people stay 0."""
    few = sample.slice(0, 2)
    sexes = few["sex"].to_pylist()
    nobody = "F" if "F" not in sexes else "M"
    for seed in range(6):
        release = make_release(few, method="independent", unit="add_remove", seed=seed)
        answer = us.infer(release, f"count(sex == '{nobody}')", rng=rng())
        assert answer.low == 0 if nobody not in sexes else answer.low <= 1
        assert answer.high > 0


def test_refined_attributes_say_why_they_have_no_tables(sample, make_release):
    release = make_release(sample, method="ipf", refine="age:3", margins="sex+age, sex+smokes")
    assert us.infer(release, "mean(age)", rng=rng()).validity == "range"
    with pytest.raises(UnsupportedError, match=r"Tables with age are of merged bins \(refine\) and not published"):
        us.infer(release, "association(age, sex)")


def test_a_level_of_many_nines_is_not_shown_as_certainty(noisy):
    answer = us.infer(noisy, "proportion(sex == 'F')", level=0.999, rng=rng())
    assert "99.9% [" in repr(answer)
