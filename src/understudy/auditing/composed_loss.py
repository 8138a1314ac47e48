"""Distributions of privacy loss, and what several independent releases lose together.

The loss of an output m is L = ln P(m)/Q(m). With m drawn from P, delta(epsilon) = E (1 - e^(epsilon - L))+ is the
hockey-stick divergence, and the losses of independent releases add up. The expectation grows with L, so rounding every
loss up to a grid gives an upper bound on delta and rounding it down a lower one; their difference is the certified
error. See docs/theory/exact-audit.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.arrays import Floats
from understudy.errors import InputError, InternalError

FEW = 2**16  # combinations of losses that are listed one by one
FEWEST_TRIMMED = 256  # shorter grids are kept whole
GRID_POINTS = 2**15  # of the composed distribution; direct convolution then costs about a second
ON_GRID = 1e-9  # in steps: losses this close to a grid point are on it
CONVOLUTION_ERROR = 2.0**-50  # relative, per term added: positive terms only, so nothing cancels


@dataclass(frozen=True, slots=True, kw_only=True)
class LossDistribution:
    """Losses with their probabilities under P; ``infinite`` is the probability of outputs that Q cannot give.

    ``missing`` is probability that was left out because it is too small to matter: it counts as infinite loss in an
    upper bound and as no loss at all in a lower one.
    """

    losses: Floats
    probabilities: Floats
    infinite: float = 0.0
    missing: float = 0.0

    def delta(self, epsilon: float) -> float:
        """The hockey-stick divergence; what is missing counts as lost."""
        return min(1.0, _over(self.losses, self.probabilities, epsilon) + self.infinite + self.missing)

    @property
    def largest(self) -> float:
        """The worst-case loss."""
        if self.infinite > 0 or self.missing > 0:
            return math.inf
        return float(self.losses[self.probabilities > 0].max(initial=0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaBounds:
    """delta(epsilon) lies between ``low`` and ``high``; the error of ``high`` is at most their difference."""

    low: float
    high: float

    @property
    def error(self) -> float:
        return self.high - self.low


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedLoss:
    """The summed loss of independent releases: losses and probabilities, once rounded up and once rounded down.

    ``step`` is the grid they were rounded to, 0 where nothing was rounded.
    """

    step: float
    up: tuple[Floats, Floats]
    down: tuple[Floats, Floats]
    infinite_high: float
    infinite_low: float

    def bounds(self, epsilon: float) -> DeltaBounds:
        high = _over(*self.up, epsilon) * (1 + CONVOLUTION_ERROR * len(self.up[1])) + self.infinite_high
        low = _over(*self.down, epsilon) * (1 - CONVOLUTION_ERROR * len(self.down[1])) + self.infinite_low
        return DeltaBounds(low=max(0.0, min(1.0, low)), high=min(1.0, high))


def _over(losses: Floats, chances: Floats, epsilon: float) -> float:
    """E (1 - e^(epsilon - loss))+, positive terms only."""
    over = losses > epsilon
    return math.fsum(chances[over] * -np.expm1(epsilon - losses[over]))


def compose_losses(
    parts: Sequence[tuple[LossDistribution, int]], *, step: float | None = None, tail: float = 1e-22
) -> ComposedLoss:
    """The loss of each distribution taken a number of times, all independent.

    ``step`` is the grid; by default there is none if few combinations of losses exist (all are listed), else the
    spacing of the losses themselves where they lie on one, else as fine as ``GRID_POINTS`` points allow. Up to
    ``tail`` probability at each end of each distribution is set aside, as lost in the upper bound and as harmless in
    the lower.
    """
    if not parts or any(times < 1 for _, times in parts):
        raise InputError("a composition needs at least one release, each taken at least once.")
    trimmed = [(_trim(part, tail), times) for part, times in parts]
    lost = {
        "infinite_high": _some_infinite((part.infinite + part.missing, times) for part, times in trimmed),
        "infinite_low": _some_infinite((part.infinite, times) for part, times in trimmed),
    }
    if step is None and math.prod(float(len(part.losses)) ** times for part, times in trimmed) <= FEW:
        listed = _list_all(trimmed)
        return ComposedLoss(step=0.0, up=listed, down=listed, **lost)
    spread = sum(times * (part.losses[-1] - part.losses[0]) for part, times in trimmed)
    if step is None:
        step = _lattice([part for part, _ in trimmed]) or max(spread / GRID_POINTS, 1e-12)
    if not step > 0 or not math.isfinite(step):
        raise InputError(f"step ({step}) must be a positive number.")
    if spread / step > 64 * GRID_POINTS:
        raise InputError(f"a step of {step:g} would need more than {64 * GRID_POINTS:,} grid points; use a larger one.")
    up = _convolve_all(((_on_grid(part, step, up=True), times) for part, times in trimmed), tail)
    down = _convolve_all(((_on_grid(part, step, up=False), times) for part, times in trimmed), tail)
    lost["infinite_high"] += up.missing
    return ComposedLoss(step=step, up=_losses_of(up, step), down=_losses_of(down, step), **lost)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grid:
    """Probabilities of losses first, first + 1, ... steps; ``missing`` bounds what was cut off at the ends."""

    first: int
    chances: Floats
    missing: float = 0.0

    def trimmed(self, tail: float) -> _Grid:
        low = int(np.searchsorted(np.cumsum(self.chances), tail, side="right"))
        high = len(self.chances) - int(np.searchsorted(np.cumsum(self.chances[::-1]), tail, side="right"))
        return _Grid(first=self.first + low, chances=self.chances[low:high], missing=self.missing + 2 * tail)


def _losses_of(grid: _Grid, step: float) -> tuple[Floats, Floats]:
    return np.arange(grid.first, grid.first + len(grid.chances), dtype=np.float64) * step, grid.chances


def _list_all(parts: Sequence[tuple[LossDistribution, int]]) -> tuple[Floats, Floats]:
    """Every combination of losses with its probability."""
    losses, chances = np.zeros(1), np.ones(1)
    for part, times in parts:
        for _ in range(times):
            losses = (losses[:, None] + part.losses[None, :]).ravel()
            chances = (chances[:, None] * part.probabilities[None, :]).ravel()
    return losses, chances


def _some_infinite(masses: Iterable[tuple[float, int]]) -> float:
    """The probability that at least one of the independent releases is lost: 1 - prod (1 - mass)^times."""
    return -math.expm1(sum(times * math.log1p(-mass) if mass < 1 else -math.inf for mass, times in masses))


def _trim(part: LossDistribution, tail: float) -> LossDistribution:
    """Without the ends of probability at most ``tail``: the top counts as missing, so does the bottom."""
    order = np.argsort(part.losses, kind="stable")
    losses, chances = part.losses[order], part.probabilities[order]
    if not len(losses):
        raise InternalError("a loss distribution is empty.")
    low = min(int(np.searchsorted(np.cumsum(chances), tail, side="right")), len(losses) - 1)
    high = max(len(losses) - int(np.searchsorted(np.cumsum(chances[::-1]), tail, side="right")), low + 1)
    cut = math.fsum(chances[:low]) + math.fsum(chances[high:])
    return LossDistribution(
        losses=losses[low:high],
        probabilities=chances[low:high],
        infinite=part.infinite,
        missing=part.missing + cut,
    )


def _lattice(parts: Sequence[LossDistribution]) -> float | None:
    """The spacing that all losses are multiples of, if it is one of the losses and the grid stays small."""
    values = np.unique(np.abs(np.concatenate([part.losses for part in parts])))
    positive = values[values > 1e-12]
    if not len(positive):
        return 1.0
    steps = positive / positive[0]
    on_it = np.abs(steps - np.round(steps)) <= ON_GRID
    return float(positive[0]) if on_it.all() and steps[-1] <= GRID_POINTS else None


def _on_grid(part: LossDistribution, step: float, *, up: bool) -> _Grid:
    places = part.losses / step
    near = np.round(places)
    rounded = np.where(np.abs(places - near) <= ON_GRID, near, np.ceil(places) if up else np.floor(places))
    numbers = rounded.astype(np.int64)
    first = int(numbers.min())
    return _Grid(first=first, chances=np.bincount(numbers - first, weights=part.probabilities).astype(np.float64))


def _convolve_all(parts: Iterable[tuple[_Grid, int]], tail: float) -> _Grid:
    total = _NOTHING
    for part, times in parts:
        total = _convolve(total, _power(part, times, tail), tail)
    return total


def _power(part: _Grid, times: int, tail: float) -> _Grid:
    result, square = _NOTHING, part
    while times:
        if times & 1:
            result = _convolve(result, square, tail)
        times >>= 1
        if times:
            square = _convolve(square, square, tail)
    return result


def _convolve(one: _Grid, other: _Grid, tail: float) -> _Grid:
    # Direct, not by Fourier transform: a transform is exact only to 1e-16 of the largest entry, and delta is a tail.
    # Sums concentrate, so cutting the ends off again keeps the length from growing with the number of releases.
    whole = _Grid(
        first=one.first + other.first,
        chances=np.convolve(one.chances, other.chances),
        missing=one.missing + other.missing,
    )
    return whole.trimmed(tail) if len(whole.chances) > FEWEST_TRIMMED else whole


_NOTHING = _Grid(first=0, chances=np.ones(1))
