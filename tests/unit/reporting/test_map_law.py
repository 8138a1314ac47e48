"""What a release states about its draws reaches the map: total prior and zones, by the size of a workplace."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.privacy.definition import Unit
from understudy.reporting.map_law import stated_law

FIXED = Unit(fixed=("destination",))
URN = {
    "mechanism": "commute_urn",
    "sizes_from": [1, 10],
    "cells": [2, 8],
    "priors": ["1/2", "3/4"],
    "rows_per_job": [1, 4],
}


def test_prior_and_zones_follow_the_size_of_a_workplace():
    law = stated_law([{"label": "draw", "mechanisms": [URN]}], FIXED, 1, np.array([0, 1, 9, 10, 500]))
    assert law is not None
    prior, cells = law
    assert prior == pytest.approx([1.0, 1.0, 1.0, 6.0, 6.0])
    assert cells.tolist() == [2, 2, 2, 8, 8]


@pytest.mark.parametrize(
    ("draws", "copy"),
    [
        ([], 1),
        ([{"label": "draw", "mechanisms": [URN]}], 2),
        ([{"label": "draw", "mechanisms": [{"mechanism": "commute_geometric", "scale": "2"}]}], 1),
        ([{"label": "draw"}], 1),
    ],
)
def test_a_release_that_says_nothing_has_no_law(draws, copy):
    assert stated_law(draws, FIXED, copy, np.array([5])) is None


def test_noisy_sizes_of_private_destinations_have_no_law():
    draws = [{"label": "draw", "mechanisms": [URN]}]
    assert stated_law(draws, FIXED, 1, np.array([5])) is not None
    assert stated_law(draws, Unit(), 1, np.array([5])) is None
