"""What a release states about its draws reaches the map: what follows the model, noise and zones, by workplace."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.commutes.map.commute_map import NO_LAW, NOISY_SIZES, noise_law, stated_law, urn_law
from understudy.privacy.promise.definition import ApproxDP, Unit
from understudy.release.statement import Provenance, Statement

FIXED = Unit(fixed=("destination",))
URN = {
    "mechanism": "commute_urn",
    "sizes_from": [1, 10],
    "cells": [2, 8],
    "priors": ["1/2", "3/4"],
    "rows_per_job": [1, 4],
}
GEOMETRIC = {"mechanism": "commute_geometric", "scale": "2"}


def stated(*mechanisms, unit=FIXED, copy=1, sizes=(5,)):
    draws = ({"label": "draw", "mechanisms": list(mechanisms)},) if mechanisms else ()
    provenance = Provenance(method="commute", package_version="0", draws=draws)
    statement = Statement(unit=unit, guarantee=ApproxDP(epsilon=2, delta="1e-5"))
    return stated_law(provenance, statement, copy, np.array(sizes))


def test_the_law_follows_the_size_of_a_workplace():
    law, why = stated(URN, sizes=(0, 1, 9, 10, 500))
    assert law is not None
    assert why == ""
    assert law.cells.tolist() == [2, 2, 2, 8, 8]
    # With 500 jobs, a prior of 6 and four rows for each job: hardly any model, and little more than a binomial.
    assert 6 / 506 <= law.model[4] < 0.05
    assert law.noise[4] == pytest.approx((506 / 500) ** 2 * (506 + 2000) / (507 * 4))
    assert law.model[1] > law.model[3] > law.model[4]


def test_less_belief_and_more_prior_are_more_model():
    sizes, cells = np.array([10, 10, 10]), np.array([4, 4, 4])
    law = urn_law(sizes, np.array([2.0, 10.0, 2.0]), cells, believed=np.array([1.0, 1.0, 0.5]))
    assert law.model == pytest.approx([2 / 12, 1 / 2, 1 - 0.5 * 10 / 12])
    assert law.noise[1] > law.noise[0] == law.noise[2]


def test_geometric_noise_has_a_law_from_its_scale():
    law, _ = stated(GEOMETRIC, sizes=(10, 4_000))
    assert law is not None
    assert law.cells.tolist() == [2, 64]
    assert law.noise[1] == pytest.approx(1 + 2 * 4 * 64 / 4_000)
    assert law.model == pytest.approx([2 / 12, 64 / 4_064])
    assert noise_law(np.array([10]), np.array([2]), 20.0).model[0] > 0.6


@pytest.mark.parametrize(
    ("mechanisms", "copy"), [((), 1), ((URN,), 2), (({"mechanism": "commute_tree"},), 1), (({},), 1)]
)
def test_a_release_that_says_nothing_has_no_law_and_a_reason(mechanisms, copy):
    assert stated(*mechanisms, copy=copy) == (None, NO_LAW)


def test_noisy_sizes_of_private_destinations_have_no_law():
    assert stated(URN)[0] is not None
    assert stated(URN, unit=Unit()) == (None, NOISY_SIZES)
