"""Trimmed Gaussian noise and the exponential mechanism: their exact loss against the audit that lists everything."""

from __future__ import annotations

import math

import numpy as np
import pytest

import understudy as us
from understudy.auditing.bounded_noise import ExponentialCounts, TrimmedGaussian, calibrated_trim
from understudy.auditing.noise_losses import Shift
from understudy.errors import InputError, UnsupportedError


@pytest.mark.parametrize(("scale", "bound"), [(2.0, 3), (0.7, 2), (5.0, 4)])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 4.0])
def test_the_loss_is_that_of_all_tables(scale, bound, epsilon):
    law = us.Matrix.trimmed_gaussian(scale, bound)
    moved_two = us.audit(law, records=2, cells=2, unit="replace")
    moved_one = us.audit(law, records=2, cells=1, unit="add_remove")
    assert moved_two.delta(epsilon) == pytest.approx(law.losses(Shift(moved=2)).delta(epsilon))
    assert moved_one.delta(epsilon) == pytest.approx(law.losses(Shift(moved=1)).delta(epsilon))
    assert moved_one.epsilon == math.inf
    values, chances = law.noise()
    assert moved_one.delta(50.0) == pytest.approx(chances[0])  # what only one of two neighbours can give
    assert law.variance == pytest.approx(float(values**2 @ chances))
    less = TrimmedGaussian(scale=0.7 * scale, bound=bound).losses(Shift(moved=1))
    if epsilon == 0:
        assert less.delta(epsilon) > law.losses(Shift(moved=1)).delta(epsilon)


@pytest.mark.parametrize("moved", [1, 2])
def test_the_calibrated_scale_keeps_the_promise_and_a_smaller_one_does_not(moved):
    found = calibrated_trim(1.0, 1e-3, bound=30, moved=moved)
    shift = Shift(moved=moved)
    assert found.losses(shift).delta(1.0) <= 1e-3
    assert TrimmedGaussian(scale=0.99 * found.scale, bound=30).losses(shift).delta(1.0) > 1e-3
    assert calibrated_trim(1.0, 1e-3, bound=3, moved=moved) is None
    with pytest.raises(UnsupportedError, match="between 1 and"):
        calibrated_trim(1.0, 1e-3, bound=10_000)


@pytest.mark.parametrize("top", [1, 2, 4])
def test_the_exponential_mechanism_costs_less_than_its_theorem_says(top):
    law = us.Matrix.exponential_counts(0.5, top)
    exact = us.audit(law, records=top, cells=1, unit="add_remove")
    assert exact.epsilon == pytest.approx(law.epsilon)
    assert 0.5 <= law.epsilon * (1 + 1e-12) < 1.0
    both = us.audit(law, records=top, cells=2, unit="replace")
    assert law.epsilon <= both.epsilon <= 2 * law.epsilon + 1e-12
    assert np.allclose(law.matrix().sum(axis=1), 1)


def test_what_is_no_noise_is_refused():
    for wrong in ({"scale": 0.0, "bound": 3}, {"scale": math.inf, "bound": 3}, {"scale": 1.0, "bound": 0}):
        with pytest.raises(InputError):
            TrimmedGaussian(**wrong)
    for wrong in ({"rate": -1.0, "top": 3}, {"rate": 1.0, "top": 0}):
        with pytest.raises(InputError):
            ExponentialCounts(**wrong)
    with pytest.raises(InputError, match="above the top"):
        ExponentialCounts(rate=1.0, top=2).law((3, 0))
    with pytest.raises(UnsupportedError, match="audit only"):
        TrimmedGaussian(scale=1.0, bound=2).run(np.array([1]), None)
