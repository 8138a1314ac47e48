"""Measures of synthetic commutes against values worked out by hand and against the two extremes."""

import numpy as np
import pytest

from understudy.commutes.measures import JobPairs, compare_commutes
from understudy.core.places import make_places
from understudy.errors import InputError


@pytest.fixture
def places():
    """Four places on a meridian, about 6.9 miles apart, in two areas."""
    return make_places(
        ["a", "b", "c", "d"], [40.0, 40.1, 40.2, 40.3], [-90.0] * 4, areas={"county": ["n", "n", "s", "s"]}
    )


def pairs(*listed):
    origins, destinations, jobs = zip(*listed, strict=True)
    return JobPairs(origins=np.array(origins), destinations=np.array(destinations), jobs=np.array(jobs))


def test_the_same_table_has_no_error(places):
    table = pairs((0, 0, 3), (1, 0, 2), (3, 0, 1), (2, 2, 7))
    section = compare_commutes(places, table, [table, table])
    for row in section.frames["commute_distance"].to_pylist():
        assert row["lost"] == 0
        assert row["mean_absolute_error"] in (0, None)
    assert all(row["misplaced"] == 0 for row in section.frames["flows"].to_pylist())
    assert all(row["share_of_jobs"] == 0 for row in section.frames["jobs_in_areas"].to_pylist())
    assert all(finding.audience == "internal" for finding in section.findings)
    assert [finding.severity for finding in section.findings] == ["good"] * 4


def test_values_by_hand(places):
    """One destination with two workers from next door; the synthetic ones come from home and from far away."""
    step = places.miles(np.array([0]), np.array([1]))[0]
    true = pairs((1, 0, 2), (2, 2, 6))
    synthetic = pairs((0, 0, 1), (3, 0, 1), (2, 2, 6))
    section = compare_commutes(places, true, [synthetic])
    rows = {(row["commutes"], row["workers"]): row for row in section.frames["commute_distance"].to_pylist()}
    small = rows["all", "1-4"]
    assert small["destinations"] == 1
    assert small["true_average"] == pytest.approx(step)
    assert small["bias"] == small["mean_absolute_error"] == pytest.approx(step / 2, rel=1e-6)
    assert rows["all", "5-19"]["mean_absolute_error"] == 0
    overall = 2 * step / 8
    assert small["at_overall_average"] == pytest.approx(step - overall)
    flows = {row["between"]: row for row in section.frames["flows"].to_pylist()}
    assert flows["places"]["misplaced"] == pytest.approx(2 / 8)
    assert flows["places"]["in_pairs_without_jobs"] == pytest.approx(2 / 8)
    assert flows["county"]["misplaced"] == pytest.approx(1 / 8)
    long = section.frames["long_commutes"].to_pylist()[0]
    assert long["beyond_miles"] == pytest.approx(step)
    assert (long["true_share"], long["synthetic_share"]) == (0, pytest.approx(1 / 8))
    living = {(row["level"], row["people"]): row for row in section.frames["jobs_in_areas"].to_pylist()}
    assert living["county", "living"]["mean_absolute_error"] == pytest.approx(1)
    assert living["county", "working"]["mean_absolute_error"] == 0
    classes = section.frames["distance_classes"].to_pylist()
    assert sum(row["true"] for row in classes) == 8
    assert sum(row["synthetic"] for row in classes) == 8


def test_elsewhere_and_lost_destinations_are_counted_apart(places):
    true = pairs((0, 0, 4), (-1, 0, 1), (1, 1, 2))
    synthetic = pairs((0, 0, 3), (-1, 0, 2))
    section = compare_commutes(places, true, [synthetic])
    rows = {(row["commutes"], row["workers"]): row for row in section.frames["commute_distance"].to_pylist()}
    assert rows["all", "1-4"]["lost"] == 1  # nobody works at b any more
    assert rows["all", "5-19"]["mean_absolute_error"] == 0
    elsewhere = section.frames["distance_classes"].to_pylist()[-1]
    assert (elsewhere["from"], elsewhere["true"], elsewhere["synthetic"]) == (None, 1, 2)


def test_nothing_to_compare(places):
    nothing, table = pairs((0, 0, 0)), pairs((0, 0, 1))
    with pytest.raises(InputError, match="confidential table has no jobs"):
        compare_commutes(places, nothing, [table])
    with pytest.raises(InputError, match="synthetic table 1 has no jobs"):
        compare_commutes(places, table, [nothing])
    with pytest.raises(InputError, match="whose origin is a place"):
        compare_commutes(places, pairs((-1, 0, 3)), [table])
