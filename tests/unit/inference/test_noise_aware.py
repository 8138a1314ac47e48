"""Answers from all tables of a margin-based release: validity, coverage, copies drawn from the posterior, refusals."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

import understudy as us
from understudy.core.measurement import Measurement
from understudy.core.questions import parse_question
from understudy.errors import InputError, UnknownNameError, UnsupportedError
from understudy.inference import noise_aware
from understudy.inference.estimands import make_estimand
from understudy.inference.noise_aware import NoiseAware, evidence_for, local_model
from understudy.models import posterior
from understudy.privacy.gate.measurement_steps import query_of
from understudy.privacy.randomness.streams import SeededStream
from understudy.release.statement import Provenance, Statement
from understudy.synth.shared.method import Request, configure

SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="age", edges=(16, 28, 42, 54, 64, 97), integer=True),
        us.Attribute(name="smokes", levels=("no", "yes")),
        us.Attribute(name="region", levels=("N", "E", "S")),
    )
)
MARGINS = "sex+age, sex+smokes, age+smokes, smokes+region"
SHARE = "proportion(smokes == 'yes')"
DIFFERENCE = "proportion(smokes == 'yes', where=sex == 'F') - proportion(smokes == 'yes', where=sex == 'M')"
PEOPLE = 2000


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def population() -> np.ndarray:
    """Outside the model of the four margins: sex, age and smoking interact."""
    sex, age, smokes, region = np.indices(SCHEMA.shape())
    log = -0.12 * (age - 2) ** 2 - 0.9 * smokes + 0.5 * smokes * sex - 0.2 * (age - 2) * smokes
    log = log + 0.3 * (region - 1) * smokes + 0.4 * (sex - 0.5) * (age - 2) * (smokes - 0.5)
    shares = np.exp(log)
    return shares / shares.sum()


def measured(counts: np.ndarray, generator: np.random.Generator, *, epsilon="1", unit="replace", margins=MARGINS):
    """A release as ``ipf`` would measure it, without rows: what inference reads."""
    kind = us.Unit(kind=unit)
    records = int(counts.sum()) if unit == "replace" else None
    plan = configure("ipf", {"margins": margins}).plan(
        SCHEMA, Request(budget=us.PureDP(epsilon=epsilon), unit=kind, records=records)
    )
    found = []
    for step in plan.steps:
        query = query_of(step)
        others = tuple(place for place, name in enumerate(SCHEMA.names) if name not in query.margin)
        true = counts.sum(axis=others)
        stay = np.exp(-1 / float(query.mechanism.scale))
        noise = generator.geometric(1 - stay, true.shape) - generator.geometric(1 - stay, true.shape)
        found.append(Measurement(margin=query.margin, values=true + noise, mechanism=query.mechanism))
    empty = pa.table({name: pa.array([], pa.string()) for name in SCHEMA.names})
    return us.Release(
        schema=SCHEMA,
        tables=(empty,),
        statement=Statement(unit=kind, guarantee=plan.budget),
        provenance=Provenance(method="ipf", package_version="0", plan=plan, records=records),
        measurements=tuple(found),
    )


def sample(generator: np.random.Generator, people: int = PEOPLE) -> np.ndarray:
    return generator.multinomial(people, population().ravel()).reshape(SCHEMA.shape())


def estimand_of(text: str, **options):
    return make_estimand(parse_question(text, SCHEMA, **options), SCHEMA)


def truth(text: str, **options) -> np.ndarray:
    estimand = estimand_of(text, **options)
    others = tuple(place for place, name in enumerate(SCHEMA.names) if name not in estimand.margin)
    groups = np.bincount(estimand.labels, weights=population().sum(axis=others).ravel(), minlength=estimand.groups)
    return estimand.evaluate(groups[None, :])[0]


@pytest.fixture(scope="module")
def release():
    return measured(sample(rng(1)), rng(2))


@pytest.fixture(scope="module")
def copies():
    counts = sample(rng(1))
    codes = np.unravel_index(np.repeat(np.arange(counts.size), counts.ravel()), SCHEMA.shape())
    data = pa.table(
        {
            "sex": np.array(["F", "M"])[codes[0]],
            "age": np.array([16, 28, 42, 54, 64])[codes[1]],
            "smokes": np.array(["no", "yes"])[codes[2]],
            "region": np.array(["N", "E", "S"])[codes[3]],
        }
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return us.synthesize(
            us.open_source(data, SCHEMA), method="ipf", budget=us.PureDP(epsilon=1), margins=MARGINS, copies=30,
            rows=5 * PEOPLE, draws="posterior", stream=SeededStream(4),
        )  # fmt: skip


def test_the_answer_says_how_it_was_found_and_whether_it_is_valid(release):
    share = us.infer(release, SHARE, rng=rng())
    assert share.validity == "valid"
    assert share.method.startswith("noise-aware posterior of 3 noisy tables (Laplace")
    model = us.infer(release, "smokes ~ C(age) + sex", event="yes", rng=rng())
    assert model.validity == "valid"  # three two-way tables determine a main-effects logit
    assert all(worth is None or 0 < worth <= PEOPLE for worth in (*share.information, *model.information))


def test_what_tables_do_not_determine_is_a_range_or_model_based_and_says_so(release):
    answer = us.infer(release, "proportion(smokes == 'yes', where=sex == 'F' and age < 28)", rng=rng())
    assert answer.validity == "range"
    assert any("do not determine" in text for text in answer.warnings)
    crossed = us.infer(release, "smokes ~ age * sex", event="yes", rng=rng())
    assert crossed.validity == "not determined"


def test_attributes_that_no_table_joins_have_a_range_of_shares_and_are_refused_otherwise(release):
    share = us.infer(release, "proportion(region == 'N', where=sex == 'F')", rng=rng())
    assert share.validity == "range"
    everybody = us.infer(release, "proportion(region == 'N')", rng=rng())
    assert share.low < everybody.low < everybody.high < share.high
    assert any("The nearest question with an answer: crosstab(" in text for text in share.warnings)
    with pytest.raises(UnsupportedError, match=r"no table with both sex and region.*nearest question with an answer"):
        us.infer(release, "region ~ sex + age", event="N", rng=rng())
    odds = us.infer(release, "region ~ sex", event="N", rng=rng())  # of shares, so it has a range where they have one
    assert odds.labels[0] == "range"
    assert odds.labels[1] == "not determined"
    only = replace(release, measurements=tuple(one for one in release.measurements if "region" not in one.margin))
    with pytest.raises(UnsupportedError, match="nothing about region"):
        us.infer(only, "proportion(region == 'N')", rng=rng())


def test_more_tables_tell_more_than_the_best_one(release):
    together = us.infer(release, SHARE, rng=rng())
    alone = us.infer(release, SHARE, rng=rng(), prior=0.5, draws=40_000)
    assert alone.method.startswith("exact posterior")
    assert together.high - together.low < 0.95 * (alone.high - alone.low)  # .92; draws leave an error of about .01
    assert abs(together.value - alone.value) < 3 * alone.standard_error


def test_counts_are_of_the_records_and_narrower_than_of_the_population(release):
    answer = us.infer(release, "count(smokes == 'yes')", rng=rng())
    assert answer.low == round(answer.low)  # an end just inside a whole number would leave that number out
    assert answer.high == round(answer.high)
    share = us.infer(release, SHARE, rng=rng())
    true = int(sample(rng(1))[:, :, 1].sum())
    assert abs(answer.value - true) < 4.5 * answer.standard_error
    assert answer.standard_error < PEOPLE * share.standard_error
    quiet = us.infer(measured(sample(rng(1)), rng(2), epsilon="200"), "count(smokes == 'yes')", rng=rng())
    assert abs(quiet.value - true) <= 3
    assert quiet.high - quiet.low < 6


def test_under_add_remove_the_number_of_records_is_part_of_the_posterior():
    counts = sample(rng(1))
    release = measured(counts, rng(2), unit="add_remove")
    answer = us.infer(release, "count(smokes == 'yes')", rng=rng())
    assert answer.records is None
    assert abs(answer.value - counts[:, :, 1].sum()) < 4.5 * answer.standard_error
    total = us.infer(release, "count(sex == 'F' or sex == 'M')", rng=rng())
    assert abs(total.value - PEOPLE) < 4.5 * total.standard_error


COVERAGE = {"share": (SHARE, {}), "difference": (DIFFERENCE, {}), "slopes": ("smokes ~ age + sex", {"event": "yes"})}


@pytest.mark.parametrize("kind", COVERAGE)
@pytest.mark.parametrize("epsilon", ["0.5", pytest.param("10", marks=pytest.mark.full)])
def test_intervals_cover_a_population_outside_the_model(kind, epsilon):
    """120 data sets, seeded. Bounds are those of a 95 percent interval at 5e-5 in each tail: a correct interval fails
    with probability at most 1e-4 for each quantity; intervals that leave the noise out are rejected."""
    text, options = COVERAGE[kind]
    estimand, true = estimand_of(text, **options), truth(text, **options)
    generator, runs = rng(11), 120
    hits, blind = [], []
    for _ in range(runs):
        evidence = evidence_for(measured(sample(generator), generator, epsilon=epsilon), estimand)
        values = evidence.shaped(estimand.evaluate(evidence.draws(800, generator).shares))
        low, high = np.quantile(values, [0.025, 0.975], axis=0)
        hits.append((low <= true) & (true <= high))
        middle, half = values.mean(axis=0), (high - low) / 6  # an interval a third as wide
        blind.append((middle - half <= true) & (true <= middle + half))
    least, most = binom.ppf([5e-5, 1 - 5e-5], runs, 0.95)
    assert np.all(np.sum(hits, axis=0) >= least)
    assert np.all(np.sum(hits, axis=0) <= most)
    assert np.all(np.sum(blind, axis=0) < least)


def test_values_get_the_tails_of_their_noise():
    """One two-sided geometric noise decides a share: its 97.5 percent quantile is 2.1 standard deviations."""
    counts = sample(rng(1), 200_000)
    loud = measured(counts, rng(2), epsilon="0.01", margins="smokes+region, sex+age")
    estimand = estimand_of("proportion(smokes == 'yes' and region == 'N')")
    evidence = evidence_for(loud, estimand)
    plain = estimand.evaluate(evidence.draws(20_000, rng(3)).shares)
    shaped = evidence.shaped(plain)
    ratio = [np.quantile(np.abs(one - one.mean()), 0.95) / plain.std() for one in (plain, shaped)]
    assert 1.9 < ratio[0] < 2.03
    assert 2.03 < ratio[1] < 2.2
    quiet = evidence_for(measured(counts, rng(2), epsilon="10"), estimand_of(SHARE))
    values = estimand_of(SHARE).evaluate(quiet.draws(4000, rng(3)).shares)
    assert np.allclose(quiet.shaped(values), values, atol=0.01 * values.std())


def test_uneven_weights_go_to_the_exact_posterior_of_one_table(release, monkeypatch):
    monkeypatch.setattr(posterior, "LEAST_EFFECTIVE", 10**9)
    answer = us.infer(release, SHARE, rng=rng())
    assert answer.method.startswith("exact posterior of noisy counts")


def test_uneven_weights_without_such_a_table_take_the_normal_approximation(release, monkeypatch):
    """At once, where Markov chains took minutes; what it says is held against the noisy values alone."""
    plain = us.infer(release, "smokes ~ C(age) + sex", event="yes", rng=rng())
    monkeypatch.setattr(posterior, "LEAST_EFFECTIVE", 10**9)
    normal = us.infer(release, "smokes ~ C(age) + sex", event="yes", rng=rng())
    assert normal.method.endswith("(Laplace approximation)")
    assert normal.validity == "valid"
    for first, second, error in zip(plain.estimates, normal.estimates, normal.standard_errors, strict=True):
        assert abs(first.value - second.value) < 0.5 * error
        assert abs(np.log((first.high - first.low) / (second.high - second.low))) < 0.35


def test_large_tables_go_to_the_exact_posterior(release, monkeypatch):
    def too_large(*_args, **_settings):
        raise UnsupportedError("too large")

    monkeypatch.setattr(noise_aware, "make_effects", too_large)
    assert not isinstance(evidence_for(release, estimand_of(SHARE)), NoiseAware)
    with pytest.raises(UnsupportedError, match="too large"):
        evidence_for(release, estimand_of("smokes ~ age + sex", event="yes"))


def test_collapsed_tables_keep_their_noise(release):
    local = local_model(release, ("smokes",))
    sizes = {table.margin: len(table.cells) for table in local.tables}
    assert sizes == {("smokes",): 2}
    by_cells = [float(table.variances[0]) for table in local.tables]
    single = [one.mechanism.variance for one in release.measurements if "smokes" in one.margin]
    assert by_cells == pytest.approx([single[0] * 2, single[1] * 5, single[2] * 3])


# Copies drawn from the posterior.


def test_posterior_copies_differ_as_the_posterior_does(copies):
    shares = np.array([np.mean(np.array(copies.frame(c)["smokes"].to_pylist()) == "yes") for c in range(1, 31)])
    answer = us.infer(copies, SHARE, rng=rng())
    expected = np.sqrt(answer.standard_error**2 + answer.value * (1 - answer.value) / copies.tables[0].num_rows)
    # The ratio of a standard deviation of 30 to the truth lies in this range with probability 1 - 1e-4.
    assert 0.53 < shares.std(ddof=1) / expected < 1.56
    assert abs(shares.mean() - answer.value) < 4 * expected / np.sqrt(30) + 0.5 * answer.standard_error
    assert "posterior" in " ".join(copies.provenance.notes)
    assert copies.provenance.rows_drawn.startswith("independent draws")


def test_posterior_copies_are_read_by_t_f_star_and_by_nothing_else(copies):
    answer = us.infer(copies, SHARE, rule="T_f*")
    assert answer.method == "combining rule T_f* over 30 table(s)"
    assert answer.validity == "valid"
    direct = us.infer(copies, SHARE, rng=rng())
    assert 0.5 < answer.standard_error / direct.standard_error < 2
    assert us.infer(copies, "smokes ~ age * sex", event="yes", rule="T_f*").validity == "model-based"
    fewer = us.infer(replace(copies, tables=copies.tables[:5]), SHARE, rule="T_f*")
    assert fewer.validity == "model-based"
    assert any("covers more than it says" in text for text in fewer.warnings)
    for rule in ("T_p", "T_s", "T_s_posterior"):
        with pytest.raises(UnsupportedError, match="leaves out the noise"):
            us.infer(copies, SHARE, rule=rule)
    with pytest.raises(UnsupportedError, match="Rubin"):
        us.infer(copies, SHARE, rule="rubin")


def test_copies_that_share_noise_are_refused_by_between_copy_rules(copies):
    plan = copies.provenance.plan
    options = {name: value for name, value in plan.options.items() if name != "draws"}
    shared = replace(copies, provenance=replace(copies.provenance, plan=replace(plan, options=options)))
    for rule in ("T_f*", "T_f", "T_p", "T_s"):
        with pytest.raises(UnsupportedError, match="share one set of noisy counts"):
            us.infer(shared, SHARE, rule=rule)


def test_an_unknown_rule_is_named_with_the_known_ones(copies, release):
    for one in (copies, release):
        with pytest.raises(UnknownNameError, match=r"combining rule 'T_x'.*T_f\*"):
            us.infer(one, SHARE, rule="T_x")


def test_the_readme_says_which_rule_in_which_package(copies, tmp_path):
    copies.write(tmp_path / "release")
    text = (tmp_path / "release" / "README.md").read_text()
    for word in ("T_f*", "statsmodels", "mice", "Stata", "m, kappa = 30, 5", "understudy infer"):
        assert word in text
    again = us.read_release(tmp_path / "release")
    assert us.infer(again, SHARE, rule="T_f*").value == us.infer(copies, SHARE, rule="T_f*").value


@pytest.mark.parametrize(
    ("method", "options", "copies", "error", "match"),
    [
        ("ipf", {"draws": "posterior"}, 1, InputError, "at least two copies"),
        ("mst", {"draws": "posterior"}, 1, InputError, "at least two copies"),
        ("aim", {"draws": "posterior"}, 1, InputError, "at least two copies"),
        ("auto", {"draws": "posterior"}, 1, InputError, "at least two copies"),
        ("ipf", {"draws": "posterior", "rows_by": "rounding"}, 3, InputError, "multinomial rows"),
        ("ipf", {"draws": "posterior", "strata": "sex"}, 3, InputError, "strata"),
        ("mst", {"draws": "posterior", "strata": "sex"}, 3, InputError, "strata"),
        ("ipf", {"draws": "posterior", "postprocess": "published"}, 3, InputError, "postprocess"),
        ("independent", {"draws": "prior"}, 3, UnknownNameError, "prior"),
    ],
)
def test_bad_requests_for_posterior_draws(method, options, copies, error, match):
    with pytest.raises(error, match=match):
        configure(method, options).plan(
            SCHEMA, Request(budget=us.PureDP(epsilon=1), unit=us.Unit(), records=100, copies=copies)
        )


def test_posterior_draws_need_noise():
    for method in ("ipf", "auto"):
        with pytest.raises(InputError, match="no noise"):
            configure(method, {"draws": "posterior"}).plan(
                SCHEMA, Request(budget=us.NonPrivate(), unit=us.Unit(), records=100, copies=3)
            )
