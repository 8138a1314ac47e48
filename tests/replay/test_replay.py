"""Every method, replayed on neighbours: nothing moves by more than was charged, and nothing else is released.

See docs/theory/replay.md. In every test run a cover of all methods, units, budgets and options; with FULL=1 every pair
of a method with one of these; with PROVE=1 (``make prove``) every combination that a method offers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from replaying.cases import Case, all_cases
from replaying.choosing import cover, pairs, parts
from replaying.replay import replay
from replaying.verdict import Tally

from understudy.commutes.methods import commute_tree
from understudy.commutes.shared.flow_method import flow_synthesizers
from understudy.privacy.promise.definition import GUARANTEES
from understudy.synth.shared.method import synthesizers

PROVE = os.environ.get("PROVE") == "1"
FEW = 6  # neighbours in a quick run


def marked() -> Iterator[Any]:
    cases = all_cases()
    always = cover(cases, parts)
    more = cover(cases, pairs, always)
    yield from (pytest.param(case, id=case.id) for case in always)
    yield from (pytest.param(case, id=case.id, marks=pytest.mark.full) for case in more if case not in always)
    if PROVE:
        seen = {case.id for case in (*always, *more)}
        yield from (pytest.param(case, id=case.id) for case in cases if case.id not in seen)


@pytest.mark.parametrize("case", list(marked()))
def test_nothing_moves_by_more_than_was_charged(case):
    full = PROVE or os.environ.get("FULL") == "1"
    assert replay(case, at_most=None if full else FEW) == []


def test_every_method_and_guarantee_is_replayed():
    offered = {
        (method, guarantee)
        for registry in (synthesizers, flow_synthesizers)
        for method in registry
        for guarantee in registry[method].guarantees
        if guarantee != "none"
    }
    assert {(case.method, case.budget_name) for case in all_cases()} == offered
    assert {guarantee for _, guarantee in offered} <= set(GUARANTEES)
    assert {case.method for case in cover(all_cases(), parts)} == {method for method, _ in offered}


def test_every_case_has_six_neighbours():
    few = {
        case.id: found
        for case in all_cases()
        if (found := len(list(case.neighbours()))) < FEW and case.world != "answers"  # two cells leave fewer
    }
    assert few == {}


@pytest.mark.parametrize(
    ("case", "reached"),
    [
        (Case(method="histogram", world="people", unit_name="three rows of an id", budget_name="pure"), "L1"),
        (Case(method="independent", world="people", unit_name="replace", budget_name="approx"), "squared L2"),
        (Case(method="independent", world="people", unit_name="replace", budget_name="zcdp"), "budget"),
        (Case(method="dirichlet", world="people", unit_name="fixed", budget_name="approx"), "delta of a draw"),
        (Case(method="dirichlet", world="people", unit_name="replace", budget_name="pure"), "epsilon of a draw"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.method,
)
def test_neighbours_are_as_bad_as_the_charge_allows(case, reached):
    """A comparison that never comes near the charge would find nothing: here it is reached, but for rounding."""
    tally = Tally()
    assert replay(case, tally=tally) == []
    assert 0.999 < tally.nearest[reached] <= 1


@pytest.mark.parametrize("unit", ["destination fixed", "add_remove"])
def test_noise_of_which_only_a_part_is_written_down(unit, monkeypatch):
    monkeypatch.setattr(commute_tree, "DENSE_CELLS", 0)
    case = Case(method="commute_tree", world="commutes", unit_name=unit, budget_name="pure")
    tally = Tally()
    assert replay(case, at_most=FEW, tally=tally) == []
    assert tally.nearest["L1"] == 1
