"""Which pairs are worth their noise, and what share of the budget each table gets: public or noisy numbers only.

The aim is the least expected L1 error, summed over all two-way tables. A pair that is measured has the error of its own
noise. One that is not has its departure from independence, as far as chosen pairs do not imply it, and the errors of
its two one-way margins. So a one-way margin counts once for every pair that rests on it.

With c cells, w pairs that rest on a table and a share s, the error is w c k s^(-1/2) under rho and w c k / s under
epsilon, k the mean absolute noise on a cell if one table got everything. The sum is least for shares in proportion to
(w c)^(2/3) and (w c)^(1/2); with S the sum of these it is k S^(3/2) and k S^2. Pairs are added as long as that grows by
less than the departure that goes away. See docs/theory/one-look.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from understudy.core.arrays import Floats, Integers

Fits = Callable[[Sequence[int]], bool]
# Chosen on MA 2019 and one generated population each of sequences, latent classes and skewed wide tables; how they did
# elsewhere stands in docs/benchmarks.md.
COUNTED = (
    0.4  # of the noise of a table: the fit takes the rest away, where cells cannot be negative or look independent
)
IMPLIED = 0.7  # of the dependence that a chain of pairs implies: a part of it is not what the chain says
WEIGHT = 10**6  # shares are whole numbers over their sum; a table gets at least one part of so many


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairChoice:
    """What is known when the pairs are chosen.

    ``one_cells``: cells of each attribute's one-way table, 0 where it is public. ``ends``: the two attributes of each
    pair, by number. ``pair_cells``: cells of each pair's table. ``departures``: how far each pair is from independence,
    in records (L1). ``most``: how far it could be. ``noise``: k. ``concentrated``: whether shares are of rho.
    """

    one_cells: Integers
    ends: Integers
    pair_cells: Integers
    departures: Floats
    most: Floats
    noise: float
    concentrated: bool

    def choose(self, fits: Fits) -> list[int]:
        """The pairs that are worth it, best first; ``fits``: whether a model holds some pairs together."""
        chosen: list[int] = []
        left = np.ones(len(self.ends), dtype=bool)
        implied = np.eye(len(self.one_cells))
        strength = np.clip(self.departures / np.maximum(self.most, 1e-9), 0.0, 1.0)
        resting = self._resting([])
        first, second = self.ends.T
        while left.any():
            unexplained = np.maximum(self.departures - implied[first, second] * self.most, 0.0)
            gains = np.where(left, unexplained - COUNTED * self._more_noise(resting, chosen), -np.inf)
            best = int(np.argmax(gains))
            if gains[best] <= 0:
                break
            left[best] = False
            if fits([*chosen, best]):
                chosen.append(best)
                resting = self._resting(chosen)
                implied = _with_edge(implied, int(first[best]), int(second[best]), IMPLIED * float(strength[best]))
        return chosen

    def shares(self, chosen: Sequence[int]) -> list[Fraction]:
        """Shares of the one-way tables that are not public and then of the pairs, which add up to one."""
        ones = self._power(self._resting(chosen) * self.one_cells)[self.one_cells > 0]
        parts = np.concatenate([ones, self._power(self.pair_cells[list(chosen)].astype(float))])
        weights = [max(1, round(WEIGHT * float(part / parts.sum()))) for part in parts]
        return [Fraction(weight, sum(weights)) for weight in weights]

    def _resting(self, chosen: Sequence[int]) -> Floats:
        """How many pairs rest on each one-way margin; the margin itself is one of them."""
        resting = np.full(len(self.one_cells), float(len(self.one_cells)))
        np.subtract.at(resting, self.ends[list(chosen)].ravel(), 1.0)
        return resting

    def _power(self, weighted: Floats) -> Floats:
        return np.asarray(weighted ** (2 / 3 if self.concentrated else 1 / 2))

    def _more_noise(self, resting: Floats, chosen: Sequence[int]) -> Floats:
        """By how much the expected error from noise grows with each pair."""
        ones = self._power(resting * self.one_cells)
        fewer = self._power((resting - 1.0) * self.one_cells) - ones
        pairs = self._power(self.pair_cells.astype(float))
        now = float(ones.sum() + pairs[list(chosen)].sum())
        then = now + pairs + fewer[self.ends].sum(axis=1)
        power = 3 / 2 if self.concentrated else 2.0
        return np.asarray(self.noise * (then**power - now**power))


def _with_edge(implied: Floats, first: int, second: int, strength: float) -> Floats:
    """How strongly attributes depend on one another along the best path, as correlations of a chain multiply."""
    through = strength * np.outer(implied[:, first], implied[second])
    return np.maximum(implied, np.maximum(through, through.T))


def shrunk_departures(noisy: Floats, explained: Floats, variance: float, most: Floats) -> Floats:
    """Departures from noisy distances: less what the noise of one-way margins explains, drawn towards their mean.

    Errors of one-way margins and departures add up like squares. What the noise of the look scatters the distances by
    is taken off by the rule of James and Stein: the largest of many noisy numbers is large mostly by its noise.
    ``most``: how large each could be.
    """
    found = np.sign(noisy) * np.sqrt(np.maximum(noisy**2 - explained**2, 0.0))  # signs keep the mean what it is
    mean = float(found.mean())
    spread = float(found.var())
    kept = max(1.0 - variance / spread, 0.0) if spread > 0 else 0.0
    return np.asarray(np.clip(mean + kept * (found - mean), 0.0, most))
