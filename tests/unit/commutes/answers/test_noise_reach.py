"""How far noise reaches: against sums of its law that are listed out."""

import numpy as np
import pytest

from understudy.commutes.answers.noise_reach import noise_reach
from understudy.privacy.mechanisms.noise import DiscreteGaussian, Geometric


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99, 0.999])
@pytest.mark.parametrize("cells", [1, 2, 3, 7])
@pytest.mark.parametrize("scale", [0.4, 3, 12])
def test_the_reach_is_the_least_that_holds_the_level(scale, cells, level):
    each = np.arange(-60 * 12, 60 * 12 + 1)
    law = np.exp(-np.abs(each) / scale)
    chances = np.array([1.0])
    for _ in range(cells):
        chances = np.convolve(chances, law / law.sum())
    middle = len(chances) // 2
    within = chances[middle] + 2 * np.concatenate(([0.0], np.cumsum(chances[middle + 1 :])))
    reach = int(noise_reach(Geometric(scale=scale), cells, level))
    assert within[reach] >= level - 1e-9
    assert reach == 0 or within[reach - 1] < level


def test_wide_noise_is_computed_coarsely_and_not_too_short():
    for cells in (1, 50):
        small, large = (noise_reach(Geometric(scale=scale), cells, 0.95) / scale for scale in (500.0, 80_000.0))
        assert small * 0.999 < large < small * 1.01


def test_gaussian_noise_has_its_own_quantile():
    noise = DiscreteGaussian(scale=10)
    assert noise_reach(noise, 4, 0.95) == pytest.approx(1.96 * 20 + 0.5, abs=0.01)
