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


def test_tables_are_never_mixed_and_public_facts_decide_which_answer(source):
    precise, rough = grown(source, rho="1/10"), grown(source, rho="1/100000")
    for release, use in ((precise, "newest"), (rough, None)):
        asked = ask(release, QUESTION, rng=np.random.default_rng(0))
        expected = as_first_made(release) if use is None else release
        options = {} if use is None else {"use": use}
        assert asked.estimates == ask(expected, QUESTION, rng=np.random.default_rng(0), **options).estimates
        assert asked.labels == ("valid",)


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
