"""Protected tables keep what they promise to keep, and are compared at the utility of the release."""

from __future__ import annotations

import numpy as np
import pytest

import understudy as us
from understudy.errors import InputError, UnknownNameError
from understudy.evaluation.inputs.comparison import compare
from understudy.evaluation.shared.protections import (
    PROTECTIONS,
    compare_protections,
    protect,
    strength_for,
    two_way_distance,
)
from understudy.evaluation.shared.ranks import order_ranks


@pytest.fixture(scope="module")
def material(schema, tables):
    return compare(us.wrap(tables["other"], schema), us.open_source(tables["data"], schema))


@pytest.mark.parametrize("protection", PROTECTIONS)
def test_no_strength_changes_nothing_and_more_moves_more(material, protection):
    original = material.people
    same = protect(original, protection, 0.0, 1)
    assert np.array_equal(same.codes, original.codes)
    assert np.array_equal(same.positions, original.positions)
    distances = [two_way_distance(material, protect(original, protection, s, 1)) for s in (0.05, 0.3, 1.0)]
    assert distances == sorted(distances)
    assert distances[0] > 0


@pytest.mark.parametrize("protection", ["noise", "rank swapping"])
def test_margins_are_restored_exactly(material, protection):
    made = protect(material.people, protection, 0.2, 1)
    assert np.array_equal(np.sort(made.positions, axis=0), np.sort(material.people.positions, axis=0))


def test_swapped_ranks_stay_in_their_window(material):
    made = protect(material.people, "rank swapping", 0.1, 1)
    for j in range(made.positions.shape[1]):
        order = np.argsort(material.people.positions[:, j], kind="stable")
        values = np.sort(material.people.positions[:, j])
        place = order_ranks(material.people.positions[:, j])[order]
        window = round(0.1 * len(order))
        low = values[np.maximum(place - 1 - window, 0)]
        high = values[np.minimum(place - 1 + window, len(values) - 1)]
        moved = made.positions[order, j]
        assert np.all((low <= moved) & (moved <= high))


@pytest.mark.parametrize("protection", PROTECTIONS)
def test_the_strength_is_found(material, protection):
    wanted = two_way_distance(material, protect(material.people, protection, 0.25, material.seed))
    assert strength_for(material, protection, wanted) == pytest.approx(0.25, abs=0.02)


def test_a_comparison_at_like_utility(schema, tables):
    rows = compare_protections(us.wrap(tables["other"], schema), tables["data"], target="school").to_pylist()
    assert [row["protection"] for row in rows] == ["synthetic", *PROTECTIONS]
    for row in rows[1:]:
        assert row["two_way_distance"] == pytest.approx(rows[0]["two_way_distance"], rel=0.2)
        assert 0 <= row["true_links"] <= 1
        assert row["claims_correct"] + row["claims_false"] <= 1
    assert rows[0]["true_links"] is None


def test_a_target_that_cannot_be_attacked_is_refused(schema, tables):
    with pytest.raises(UnknownNameError, match="'schol' is unknown"):
        compare_protections(us.wrap(tables["other"], schema), tables["data"], target="schol")
    alone = us.Schema(attributes=(schema["school"],))
    made, data = (tables[name].select(["school"]) for name in ("other", "data"))
    with pytest.raises(InputError, match="only attribute"):
        compare_protections(us.wrap(made, alone), data, target="school")


def test_an_unknown_protection_is_named(material):
    with pytest.raises(UnknownNameError, match="'noise'"):
        protect(material.people, "noisy", 0.1, 0)
