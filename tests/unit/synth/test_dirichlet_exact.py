"""The Dirichlet synthesizer under an approximate budget: the prior is that of the exact delta, and it is audited."""

from __future__ import annotations

import warnings
from fractions import Fraction

import pyarrow as pa
import pytest

import understudy as us
from understudy.core.schema import Attribute, Schema
from understudy.core.structural_zeros import Condition, Impossible
from understudy.privacy.mechanisms.dirichlet_draw import MOST_EXACT, exact_loss, exact_prior_for, prior_for
from understudy.privacy.promise.event import ApproxLoss, PureLoss, Strata
from understudy.privacy.randomness.streams import SeededStream

SCHEMA = Schema(
    attributes=(
        Attribute(name="area", levels=("n", "s", "w")),
        Attribute(name="job", levels=("none", "farm", "mine", "shop")),
        Attribute(name="sick", levels=("no", "yes")),
    ),
    impossible=(
        Impossible(conditions=(("area", Condition(levels=("s",))), ("job", Condition(levels=("mine", "farm"))))),
    ),
)
ROWS = pa.table({"area": ["n"] * 25 + ["s"] * 15, "job": ["none"] * 40, "sick": ["no"] * 30 + ["yes"] * 10})
BUDGET = us.ApproxDP(epsilon=1, delta=Fraction(1, 1000))


def make(**asked):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = us.open_source(ROWS, SCHEMA)
        return us.synthesize(source, method="dirichlet", stream=SeededStream(5), **asked)


def audited(mechanism, records, cells):
    prior, rows = Fraction(mechanism["prior"]), int(mechanism["rows"])
    draw = us.DirichletMultinomial(prior=prior, cells=cells, rows=rows)
    return us.audit(draw, records=records)


def test_the_prior_that_was_drawn_with_keeps_the_promise_and_is_smaller_than_the_pure_one():
    release = make(budget=BUDGET)
    (draw,) = release.provenance.draws
    (mechanism,) = draw["mechanisms"]
    assert audited(mechanism, 40, 20).delta(1.0) <= 1e-3
    prior = Fraction(mechanism["prior"])
    assert prior < prior_for(Fraction(1), 40, us.Unit()) / 2
    less = us.DirichletMultinomial(prior=prior * Fraction(999, 1000), cells=20, rows=40)
    assert us.audit(less, records=40).delta(1.0) > 1e-3
    assert release.provenance.events == (exact_loss(Fraction(1), Fraction(1, 1000)),)


def test_copies_split_epsilon_and_delta():
    plan = us.plan(SCHEMA, method="dirichlet", budget=BUDGET, copies=4)
    assert [(event.epsilon, event.delta) for event in plan.events] == [(Fraction(1, 4), Fraction(1, 4000))] * 4
    for draw in make(budget=BUDGET, copies=2).provenance.draws:
        assert audited(draw["mechanisms"][0], 40, 20).delta(0.5) <= 5e-4


def test_every_stratum_has_the_prior_of_its_own_size_and_cells():
    release = make(budget=BUDGET, unit=us.Unit(fixed=("area",)))
    (event,) = release.provenance.events
    assert isinstance(event, Strata)
    assert all(isinstance(part[0], ApproxLoss) for part in event.strata)
    north, south, west = release.provenance.draws[0]["mechanisms"]
    assert audited(north, 25, 8).delta(1.0) <= 1e-3
    assert audited(south, 15, 4).delta(1.0) <= 1e-3  # two jobs are impossible there
    assert int(west["rows"]) == 0
    assert Fraction(north["prior"]) != Fraction(south["prior"])


@pytest.mark.parametrize("unit", [us.Unit(kind="add_remove"), us.Unit(rows_per_unit=2)])
def test_where_the_exact_prior_is_not_proved_the_pure_one_is_used(unit):
    plan = us.plan(SCHEMA, method="dirichlet", budget=BUDGET, unit=unit, rows=40)
    assert plan.events == (PureLoss(epsilon=Fraction(1), source=plan.events[0].source),)


def test_sizes_at_the_edges():
    loss = exact_loss(Fraction(1), Fraction(1, 10**6))
    assert exact_prior_for(loss, 5, 5, 1) == 1
    assert exact_prior_for(loss, 0, 0, 5) > 0
    huge = MOST_EXACT + 1
    assert exact_prior_for(loss, huge, huge, 5) == prior_for(Fraction(1), huge, us.Unit())
