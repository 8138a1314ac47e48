"""Every method, replayed on neighbours: nothing moves by more than was charged, and nothing else is released.

See docs/theory/replay.md. In every test run a cover of all methods, units, budgets and options; with FULL=1 every pair
of a method with one of these; with PROVE=1 (``make prove``) every combination that a method offers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from replaying.cases import Case, all_cases, offered, possible_cases
from replaying.choosing import cover, pairs, parts
from replaying.replay import replay
from replaying.verdict import Tally

from understudy.commutes.methods import commute_tree
from understudy.commutes.shared.flow_method import flow_synthesizers
from understudy.households.shared.family_method import family_synthesizers
from understudy.privacy.promise.definition import GUARANTEES
from understudy.synth.shared.method import synthesizers

FULL, PROVE = (os.environ.get(name) == "1" for name in ("FULL", "PROVE"))
FEW = 6  # neighbours in a quick run


def marked() -> Iterator[Any]:
    """The cases of this run. What runs with more than plain tests is not listed here: listing it takes a minute."""
    cases = possible_cases()
    always = cover(cases, parts)
    yield from (pytest.param(case, id=case.id) for case in always)
    if FULL or PROVE:
        more = cover(cases, pairs, always)
        yield from (pytest.param(case, id=case.id, marks=pytest.mark.full) for case in more)
    if PROVE:
        seen = {case.id for case in (*always, *more)}
        yield from (pytest.param(case, id=case.id) for case in all_cases() if case.id not in seen)


@pytest.mark.parametrize("case", list(marked()))
def test_nothing_moves_by_more_than_was_charged(case):
    assert replay(case, at_most=None if FULL or PROVE else FEW) == []


def test_every_method_and_guarantee_is_replayed():
    promised = {
        (method, guarantee)
        for registry in (synthesizers, flow_synthesizers, family_synthesizers)
        for method in registry
        for guarantee in registry[method].guarantees
        if guarantee != "none"
    }
    for method, guarantee in promised:
        assert any(
            offered(case) for case in possible_cases() if (case.method, case.budget_name) == (method, guarantee)
        ), f"{method} takes no case under {guarantee}"
    assert {guarantee for _, guarantee in promised} <= set(GUARANTEES)
    assert {case.method for case in cover(possible_cases(), parts)} == {method for method, _ in promised}


def test_every_case_has_six_neighbours():
    """They follow from the table and the unit alone."""
    places = {(case.world, case.unit_name): case for case in possible_cases()}
    few = {
        place: found
        for place, case in places.items()
        if (found := len(list(case.neighbours()))) < FEW and case.world != "answers"  # two cells leave fewer
    }
    assert few == {}


@pytest.mark.parametrize(
    ("case", "reached"),
    [
        (Case(method="histogram", world="people", unit_name="three rows of an id", budget_name="pure"), "L1"),
        (Case(method="independent", world="people", unit_name="replace", budget_name="approx"), "squared L2"),
        (Case(method="independent", world="people", unit_name="replace", budget_name="zcdp"), "budget"),
        (Case(method="independent", world="codes", unit_name="replace", budget_name="approx"), "delta of codes"),
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


@pytest.mark.parametrize(
    ("method", "unit", "budget"),
    [("ipf", "replace", "pure"), ("mst", "three rows of an id", "approx"), ("histogram", "add_remove", "zcdp")],
)
def test_a_survey_weight_moves_tables_like_any_other_attribute(method, unit, budget):
    """However large the weight of a person is, and whatever it is replaced by."""
    tally = Tally()
    case = Case(method=method, world="weighted", unit_name=unit, budget_name=budget)
    assert replay(case, at_most=FEW, tally=tally) == []
    assert max(tally.nearest.values()) > 0.9


@pytest.mark.parametrize(
    ("world", "unit", "budget", "reached"),
    [
        ("clustered", "replace", "pure", "L1 of clusters"),
        ("clustered", "add_remove", "zcdp", "squared L2 of clusters"),
        ("clustered", "three rows of an id", "approx", "squared L2 of clusters"),
        ("clusters are units", "three rows of an id, add_remove", "pure", "L1 of clusters"),
    ],
)
def test_counts_of_clusters_move_by_no_more_than_was_charged(world, unit, budget, reached):
    """Pairs of neighbours and the sizes of clusters, from which design effects follow: wherever a row goes."""
    tally = Tally()
    case = Case(method="independent", world=world, unit_name=unit, budget_name=budget)
    assert replay(case, at_most=2 * FEW, tally=tally) == []
    assert 0.2 < tally.nearest[reached] <= 1


@pytest.mark.parametrize(
    ("unit", "budget"),
    [("household", "zcdp"), ("household, add_remove", "pure"), ("person alone, weighted", "approx")],
)
def test_the_weight_of_a_household_moves_with_it(unit, budget):
    case = Case(method="families", world="weighted homes", unit_name=unit, budget_name=budget)
    assert replay(case, at_most=FEW) == []


@pytest.mark.parametrize("unit", ["destination fixed", "add_remove"])
def test_noise_of_which_only_a_part_is_written_down(unit, monkeypatch):
    monkeypatch.setattr(commute_tree, "DENSE_CELLS", 0)
    case = Case(method="commute_tree", world="commutes", unit_name=unit, budget_name="pure")
    tally = Tally()
    assert replay(case, at_most=FEW, tally=tally) == []
    assert tally.nearest["L1"] == 1


@pytest.mark.parametrize(
    ("method", "unit", "budget", "options"),
    [
        ("commute", "destination fixed", "pure", {}),
        ("commute", "destination fixed", "approx", {"mechanism": "urn"}),
        ("commute", "add_remove", "pure", {}),
        ("commute_tree", "replace", "pure", {}),
    ],
)
def test_homes_outside_are_cells_like_others(method, unit, budget, options):
    """Neighbours move between homes inside and outside."""
    tally = Tally()
    case = Case(method=method, world="surrounded", unit_name=unit, budget_name=budget, options=options)
    assert replay(case, tally=tally) == []
    assert max(tally.nearest.values()) > 0.9
