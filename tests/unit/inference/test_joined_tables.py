"""Tables that joined a release: answers hold for a question that was chosen by looking at what came before."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import understudy as us
from understudy.core.questions import parse_question
from understudy.demo.people import make_people, small_schema
from understudy.errors import UnsupportedError
from understudy.inference.ask import ask
from understudy.inference.estimands import make_estimand
from understudy.inference.joined_tables import as_first_made, half_width, tables_that_joined
from understudy.inference.labels import SELECTION
from understudy.privacy.gate.gate import Gate
from understudy.privacy.gate.measurement_steps import query_of
from understudy.privacy.randomness.streams import SeededStream
from understudy.release.growing import add_measurement
from understudy.serving.pricing import confirmation_plan

BLOCK = {"account": "people", "run": "r", "head": "h", "sequence": 2}
QUESTION = "proportion(smokes == 'yes', where=sex == 'F')"


@pytest.fixture(scope="module")
def source():
    return us.open_source(make_people(2000).select(list(small_schema().names)), small_schema())


def grown(source, *, method: str = "ipf", margin=("sex", "smokes"), rho="1/100", **options) -> us.Release:
    release = us.synthesize(source, method=method, budget=us.ZCDP(rho="0.01"), stream=SeededStream(1), **options)
    plan = confirmation_plan(release.schema, release.statement.unit, margin, Fraction(rho), label="joined")
    gate = Gate(source=source, schema=release.schema, plan=plan, stream=SeededStream(2))
    (fresh,) = gate.measure([query_of(plan.steps[0])])
    return add_measurement(release, fresh, plan=plan, ledger=BLOCK)


@pytest.mark.parametrize(("own", "seen"), [(1.0, 0.0), (1.0, 0.5), (0.5, 1.0), (0.0, 1.0)])
def test_the_interval_holds_for_the_worst_choice_of_twenty(own, seen):
    rng, runs = np.random.default_rng(0), 40_000
    looked = seen * rng.standard_normal((runs, 20))
    worst = looked[np.arange(runs), np.abs(looked).argmax(axis=1)]
    error = np.abs(worst + own * rng.standard_normal(runs))
    half = float(half_width(np.array([own]), np.array([seen]), 0.95)[0])
    missed = (error > half).mean()
    assert 0.03 < missed < 0.05 + 5 * (0.05 * 0.95 / runs) ** 0.5
    if seen:  # the usual interval does not hold
        assert (error > 1.96 * np.hypot(own, seen)).mean() > 0.06


@pytest.mark.parametrize("text", [QUESTION, "proportion(smokes == 'yes')", "smokes ~ sex"])
def test_what_the_release_shows_of_the_sample_is_found_as_by_simulation(source, text):
    """The squared correlation of the sampling error with all noisy numbers of these attributes in the release."""
    release = grown(source)
    schema = release.schema
    estimand = make_estimand(parse_question(text, schema, event="yes" if "~" in text else None), schema)
    later = tables_that_joined(release, estimand.margin)[0]
    true = source.count([estimand.margin])[0].values.ravel()
    shares = np.bincount(estimand.labels, weights=true, minlength=estimand.groups) / true.sum()
    found = later.seen(estimand, shares, float(true.sum()))
    rng, runs = np.random.default_rng(0), 6000
    cells = (shares / np.bincount(estimand.labels, minlength=estimand.groups))[estimand.labels]
    samples = rng.multinomial(int(true.sum()), cells, size=runs)
    values = estimand.evaluate(
        np.stack([np.bincount(estimand.labels, weights=one, minlength=estimand.groups) for one in samples])
    )
    shown = []
    for one in later.earlier:
        common = [name for name in estimand.margin if name in one.margin]
        if not common:
            continue
        places = tuple(1 + place for place, name in enumerate(estimand.margin) if name not in common)
        counts = samples.reshape(runs, *schema.shape(estimand.margin)).sum(axis=places).reshape(runs, -1)
        each = schema.cells(one.margin) / counts.shape[1]
        shown.append(counts + rng.normal(0, (float(one.mechanism.variance) * each) ** 0.5, counts.shape))
    known = np.column_stack([np.ones(runs), *shown])
    left = values - known @ np.linalg.lstsq(known, values, rcond=None)[0]
    np.testing.assert_allclose(found, 1 - left.var(axis=0) / values.var(axis=0), atol=0.04)


def test_the_newest_table_answers_by_itself(source):
    """Its answer does not move with the noisy values of the release, only its allowance for them does."""
    release = grown(source)
    moved = replace(
        release,
        measurements=tuple(
            one if one.label == "joined" else replace(one, values=one.values + one.values % 2)
            for one in release.measurements
        ),
    )
    here, there = (ask(one, QUESTION, rng=np.random.default_rng(0), use="newest") for one in (release, moved))
    assert here.labels == ("valid",)
    assert here.estimates == there.estimates
    assert any("any of 20 questions" in text for text in here.warnings)
    own, seen = here.parts[0]
    assert here.high - here.low >= 2 * 1.96 * np.hypot(own, seen)


def test_a_number_of_records_needs_no_allowance(source):
    answer = ask(grown(source), "count(smokes == 'yes')", rng=np.random.default_rng(0), use="newest")
    assert answer.parts[0][1] == 0


def test_all_tables_together_are_not_called_valid(source):
    answer = ask(grown(source), QUESTION, rng=np.random.default_rng(0), use="together")
    assert answer.labels == (SELECTION,)
    assert any("fixed before" in text for text in answer.warnings)


def test_public_facts_decide_which_tables_answer(source):
    """For free: a far more precise table by itself, a far noisier one not at all."""
    for rho, use in (("1/10", "newest"), ("1/100000", None)):
        release = grown(source, rho=rho)
        asked = ask(release, QUESTION, rng=np.random.default_rng(0))
        expected = as_first_made(release) if use is None else release
        options = {} if use is None else {"use": use}
        assert asked.estimates == ask(expected, QUESTION, rng=np.random.default_rng(0), **options).estimates, rho
        assert asked.labels == ("valid",)


def test_a_table_of_like_noise_is_put_together_with_the_release_and_a_far_better_one_is_not(source):
    like, better = (
        ask(grown(source, rho=rho), QUESTION, rng=np.random.default_rng(0), use="confirmed")
        for rho in ("1/2000", "1/10")
    )
    assert like.labels == better.labels == ("valid",)
    said = "together with tables that were fixed before"
    assert any(said in text for text in like.warnings)
    assert not any(said in text for text in better.warnings)
    alone = ask(grown(source, rho="1/2000"), QUESTION, rng=np.random.default_rng(0), use="newest")
    both, one = np.hypot(*like.parts[0]), np.hypot(*alone.parts[0])
    assert both < 0.85 * one  # the error itself is smaller
    assert like.parts[0][1] > alone.parts[0][1]  # though more of it was seen
    assert like.high - like.low < 1.2 * (alone.high - alone.low)


@pytest.mark.parametrize("text", [QUESTION, "count(smokes == 'yes')", "smokes ~ sex", "crosstab(sex, smokes)"])
def test_what_nobody_could_see_of_a_fused_answer_is_found_as_by_simulation(source, text):
    """The variance of the error of the least-squares answer from all tables that is left after a regression on all
    noisy numbers that were public before: from simulated samples and noise, without any of the formulas."""
    release = grown(source, rho="1/500")
    schema = release.schema
    estimand = make_estimand(parse_question(text, schema, event="yes" if "~" in text else None), schema)
    alone = tables_that_joined(release, estimand.margin)[0]
    later = alone.put_together(release.measurements[:-1], estimand.margin)
    assert later is not None
    true = source.count([estimand.margin])[0].values.ravel()
    size = int(true.sum())
    shares = np.bincount(estimand.labels, weights=true, minlength=estimand.groups) / size
    found = later.unseen(estimand, shares, float(size), plain=True)
    rng, runs = np.random.default_rng(0), 6000
    cells = (shares / np.bincount(estimand.labels, minlength=estimand.groups))[estimand.labels]
    # A number of records is about these people; everything else about the population behind them.
    samples = rng.multinomial(size, cells, size=runs) if not estimand.of_counts else np.tile(size * cells, (runs, 1))
    shape = schema.shape(estimand.margin)
    designs, noises = [], []
    for one in (*later.earlier, later.fresh):
        common = [name for name in estimand.margin if name in one.margin]
        if not common:
            continue
        places = tuple(place for place, name in enumerate(estimand.margin) if name not in common)
        unit = np.eye(len(cells)).reshape(len(cells), *shape)
        design = unit.sum(axis=tuple(1 + place for place in places)).reshape(len(cells), -1)
        each = schema.cells(one.margin) / design.shape[1]
        designs.append(design)
        noises.append(np.full(design.shape[1], float(one.mechanism.variance) * each))
    fresh = designs[-1].shape[1]
    design, noise = np.column_stack(designs), np.concatenate(noises)
    values = samples @ design + rng.normal(0, noise**0.5, (runs, len(noise)))
    # Least squares for the cells, whose sum is known.
    rows = np.vstack([design.T / noise[:, None] ** 0.5, np.full((1, len(cells)), 1e3)])
    sides = np.column_stack([values / noise**0.5, np.full(runs, 1e3 * size)])
    fitted = np.linalg.lstsq(rows, sides.T, rcond=None)[0].T

    def evaluated(tables):
        added = np.stack([np.bincount(estimand.labels, weights=one, minlength=estimand.groups) for one in tables])
        base = evaluated_at if estimand.of_counts else evaluated_at / size
        slopes = np.stack([(estimand.evaluate((base + step)[None])[0] - estimand.evaluate((base - step)[None])[0])
                           for step in np.eye(len(base)) * base.mean() * 1e-4]) / (2e-4 * base.mean())  # fmt: skip
        return (added if estimand.of_counts else added / size) @ slopes

    evaluated_at = size * shares
    errors = evaluated(fitted)
    known = np.column_stack([np.ones(runs), values[:, :-fresh]])
    left = errors - known @ np.linalg.lstsq(known, errors, rcond=None)[0]
    np.testing.assert_allclose(found, left.var(axis=0) / errors.var(axis=0), atol=0.04)
    unsplit = later.unseen(estimand, shares, float(size), plain=False)
    assert (unsplit <= found + 1e-9).all()


@pytest.mark.parametrize(
    ("sampling", "before", "fresh"), [(0.0, 1.0, 1.0), (1.0, 1.0, 1.0), (0.5, 1.0, 0.5), (2, 1, 4)]
)
def test_a_fused_interval_holds_for_somebody_who_knows_the_truth_and_chooses_the_worst(sampling, before, fresh):
    """Twenty quantities with a sampling error, the noise of a release and that of a fresh table. Whoever chooses knows
    the truth and the release, and takes the one where what is known of the fused error is largest."""
    rng, runs = np.random.default_rng(0), 40_000
    people = sampling * rng.standard_normal((runs, 20))
    noise = before**0.5 * rng.standard_normal((runs, 20))
    weight = before / (before + fresh)
    shown = sampling**2 / (sampling**2 + before)
    known = (shown + (1 - weight) * (1 - shown)) * (people + noise)  # of the fused error, from release and truth
    chosen = np.abs(known).argmax(axis=1)
    every = np.arange(runs)
    error = people + (1 - weight) * noise + weight * fresh**0.5 * rng.standard_normal((runs, 20))
    error = np.abs(error[every, chosen])
    own = weight * (fresh + sampling**2 * (1 - shown)) ** 0.5
    seen = (sampling**2 * (1 - weight**2 * (1 - shown)) + (1 - weight) ** 2 * before) ** 0.5
    half = float(half_width(np.array([own]), np.array([seen]), 0.95)[0])
    missed = (error > half).mean()
    assert 0.03 < missed < 0.05 + 5 * (0.05 * 0.95 / runs) ** 0.5
    assert (error > 1.96 * np.hypot(own, seen)).mean() > 0.1  # the usual interval does not hold


def test_tables_that_were_chosen_by_looking_are_not_put_together_with_a_fresh_one(source):
    """The tables of ``mst`` are chosen by the data, so its answers start from what the choice exaggerates."""
    release = grown(source, method="mst", rho="1/1000")
    assert release.provenance.plan is not None
    assert release.provenance.plan.adaptive
    answer = ask(release, QUESTION, rng=np.random.default_rng(0), use="confirmed")
    alone = ask(release, QUESTION, rng=np.random.default_rng(0), use="newest")
    chosen = [one for one in release.measurements[:-1] if one.margin == ("sex", "smokes")]
    named = {step.margin for step in release.provenance.plan.steps if step.action == "measure"}
    assert chosen == [] or ("sex", "smokes") not in named
    assert answer.estimates == alone.estimates


def test_a_question_that_only_a_joined_table_answers(source):
    release = grown(source, method="independent")
    with pytest.raises(UnsupportedError):
        ask(as_first_made(release), "smokes ~ sex", event="yes", rng=np.random.default_rng(0))
    answer = ask(release, "smokes ~ sex", event="yes", rng=np.random.default_rng(0))
    assert set(answer.labels) == {"valid"}


def test_questions_says_what_joined(source):
    release = grown(source, method="independent")
    labels = {one.attributes: one.label for one in us.questions(release).tables}
    assert labels["sex", "smokes"] == "valid"
