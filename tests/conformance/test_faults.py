"""Faults that code reviews miss and ledgers cannot see: each is made on purpose, and each must be caught.

Every fault runs the real gate and the real synthesizer with one thing wrong. The sound version of the same run must
not be accused. Half the noise, for every method, is in ``test_sampled_audit.py``. With nine audits at 1e-5 the whole
file raises a false alarm with probability below 1e-4; seeds are fixed, so a result stays what it is.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import understudy as us
from understudy.auditing.sampled_audit import sampled_audit
from understudy.privacy.gate import gate as gate_module
from understudy.privacy.gate.gate import Gate
from understudy.privacy.gate.measurement_steps import query_of
from understudy.privacy.promise.event import Sensitivity
from understudy.privacy.randomness.streams import SeededStream
from understudy.synth.methods import histogram as histogram_module
from understudy.synth.shared import margin_methods as margins_module
from understudy.synth.shared.method import configure

EPSILON, RUNS, FALSE_ALARM = "1.5", 1600, 1e-5
SCHEMA = us.Schema(
    attributes=(us.Attribute(name="a", levels=("x", "y")), us.Attribute(name="b", levels=("p", "q", "r")))
)
COMMON = (0, 0, 0, 1, 1, 3, 4)  # cell 5 is empty on side 0; one person is in it on side 1
NEIGHBOURS = {"replace": ((*COMMON, 4), (*COMMON, 5)), "add_remove": (COMMON, (*COMMON, 5))}


def audit(observe):
    return sampled_audit(observe, claimed=float(EPSILON), runs=RUNS, alpha=FALSE_ALARM, factor=2.0)


@pytest.fixture
def make(memory_source):
    """Runs a method on one side and hands back its synthesis; ``plan`` is made once, faults and all."""

    def prepare(method, unit, *, people=NEIGHBOURS, change=lambda plan: plan, stream=SeededStream, **options):
        sources = [memory_source(SCHEMA, cells) for cells in people[unit]]
        plan = us.plan(SCHEMA, method=method, budget=us.PureDP(epsilon=EPSILON), unit=unit, **options)
        changed = change(plan)
        synthesizer = configure(plan.method, plan.options)

        def run(side, seed):
            source = stream(seed)
            return synthesizer.run(
                changed, SCHEMA, Gate(source=sources[side], schema=SCHEMA, plan=changed, stream=source), source
            )

        return run

    return prepare


def values_of(synthesis):
    return np.concatenate([one.values.ravel() for one in synthesis.measurements])


def test_sensitivity_forgotten_under_replace(make, monkeypatch):
    sound = make("histogram", "replace")
    assert not audit(lambda side, seed: values_of(sound(side, seed))).caught
    one_cell = Sensitivity(l1=1, l2_squared=1, linf=1)
    for module in (gate_module, histogram_module, margins_module):
        monkeypatch.setattr(module, "margin_sensitivity", lambda *args: one_cell)
    wrong = make("histogram", "replace")
    assert audit(lambda side, seed: values_of(wrong(side, seed))).caught


@pytest.mark.full
def test_the_full_epsilon_for_every_fresh_copy(make):
    few = {"replace": ((0, 0), (0, 5))}

    def every_copy(plan):
        full = replace(plan.steps[0].event, epsilon=Fraction(EPSILON))
        return replace(
            plan, budget=us.PureDP(epsilon=100), steps=tuple(replace(step, event=full) for step in plan.steps)
        )

    def rows(synthesis):
        return np.array([sum(int(table.counts(SCHEMA.names).ravel()[5]) for table in synthesis.tables)])

    sound = make("dirichlet", "replace", people=few, copies=8, rows=2)
    assert not audit(lambda side, seed: rows(sound(side, seed))).caught
    wrong = make("dirichlet", "replace", people=few, copies=8, rows=2, change=every_copy)
    assert audit(lambda side, seed: rows(wrong(side, seed))).caught


@pytest.mark.full
def test_levels_read_from_the_data(make, monkeypatch):
    """Noise on the cells that occur and no others: the list of cells is itself a disclosure."""
    occurring = []
    honest = Gate._measure_one

    def only_occurring(self, query, **more):
        measured = honest(self, query, **more)
        seen = self._counts(query.margin) > 0
        occurring.append(int(seen.sum()))
        return replace(measured, values=np.where(seen, measured.values, 0))

    monkeypatch.setattr(Gate, "_measure_one", only_occurring)
    wrong = make("histogram", "replace")
    assert audit(lambda side, seed: values_of(wrong(side, seed))).caught
    assert len(set(occurring)) == 2


class RestartedStream(SeededStream):
    """Draws the same noise for every table."""

    __slots__ = ("seed",)

    def __init__(self, seed):
        super().__init__(seed)
        self.seed = seed

    def discrete_laplace(self, scale, size):
        return SeededStream(self.seed).discrete_laplace(scale, 64)[:size]


@pytest.mark.full
def test_one_stream_reused_for_two_tables(memory_source):
    """The same noise on the same cells twice, of two tables that differ: the noise cancels in their difference."""
    budget = us.PureDP(epsilon=EPSILON)
    plan = us.plan(SCHEMA, method="ipf", budget=budget, margins="a, b", split="equal")
    sources = [memory_source(SCHEMA, (*COMMON, last)) for last in (0, 5)]

    def observe(stream):
        def one_run(side, seed):
            gate = Gate(source=sources[side], schema=SCHEMA, plan=plan, stream=stream(seed))
            one, other = (measured.values for measured in gate.measure([query_of(step) for step in plan.steps]))
            return np.concatenate([one, other, one - other[:2]])

        return one_run

    assert not audit(observe(SeededStream)).caught
    assert audit(observe(RestartedStream)).caught


@pytest.mark.full
def test_the_exact_number_of_rows_under_add_remove(make):
    def rows(synthesis):
        return np.array([synthesis.tables[0].rows])

    sound = make("histogram", "add_remove")
    assert not audit(lambda side, seed: rows(sound(side, seed))).caught
    exact = [len(people) for people in NEIGHBOURS["add_remove"]]
    assert audit(lambda side, seed: np.array([exact[side] + 0 * rows(sound(side, seed))[0]])).caught
