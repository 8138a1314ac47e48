"""The smallest noise scale with which several margins together keep a promise, from their exact composed loss.

Every margin of a table moves in one cell when a row comes or goes and in two when it changes. Their losses are
independent, so the exact delta(epsilon) of all margins is that of a sum (``privacy.exact.loss``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from understudy.core.exact import float_down, sqrt_up
from understudy.errors import InputError, UnsupportedError
from understudy.privacy.exact.loss import compose_losses
from understudy.privacy.exact.noise_profile import Shift, noise_losses
from understudy.privacy.mechanisms.noise import DiscreteGaussian, Geometric, NoiseMechanism
from understudy.privacy.promise.conversion import cdp_rho
from understudy.privacy.promise.definition import ZCDP, ApproxDP, Definition, PureDP

CLOSE = 1e-6  # relative width at which the search for a scale stops


def composed_delta(noise: NoiseMechanism, moved: Sequence[int], epsilon: float) -> float:
    """An upper bound on delta(epsilon) of one query per entry of ``moved``, tight to the certified error."""
    parts = [(noise_losses(noise, Shift(moved=cells)), moved.count(cells)) for cells in sorted(set(moved))]
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0].delta(epsilon)
    return compose_losses(parts).bounds(epsilon).high


def calibrated_noise(
    kind: Callable[..., NoiseMechanism], budget: Definition, moved: Sequence[int]
) -> tuple[NoiseMechanism, str]:
    """The least noise of a kind for one query per entry of ``moved`` (cells that one row moves), and why it is enough.

    A larger scale of geometric noise is a smaller one plus independent noise (docs/theory/exact-audit.md), so the
    search by halving finds the smallest. For the discrete Gaussian that is not proved: the promise is checked at the
    scale returned, and a smaller one may exist.
    """
    if not moved:
        raise InputError("there is no margin to calibrate noise for.")
    if isinstance(budget, PureDP):
        if kind is not Geometric:
            raise UnsupportedError("Gaussian noise is never purely differentially private; use Geometric or a delta.")
        return Geometric(scale=sum(moved) / budget.epsilon), "the worst case of all margins adds up to epsilon, exactly"
    if isinstance(budget, ZCDP):
        if kind is DiscreteGaussian:
            scale = sqrt_up(Fraction(sum(moved)) / (2 * budget.rho))
            return DiscreteGaussian(scale=scale), "s^2/(2 sigma^2) per margin (Canonne, Kamath and Steinke 2020)"
        raise UnsupportedError("geometric noise is not calibrated to zCDP here; use DiscreteGaussian.")
    if not isinstance(budget, ApproxDP):
        raise UnsupportedError(f"noise cannot be calibrated to {budget.title}; use pure, approx or zcdp.")
    epsilon, promise = float_down(budget.epsilon), float_down(budget.delta)

    def holds(scale: float) -> bool:
        return composed_delta(kind(scale=scale), moved, epsilon) <= promise

    high = _safe_scale(kind, budget, moved)
    if not holds(high):
        high = _first_good(holds, high)
    low = high / 2
    while holds(low):
        low, high = low / 2, low
    while high - low > CLOSE * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    how = "exact composed delta" if kind is Geometric else "exact composed delta, checked at this scale"
    return kind(scale=high), how


def _safe_scale(kind: Callable[..., NoiseMechanism], budget: ApproxDP, moved: Sequence[int]) -> float:
    """A scale that is known to be enough, to start from."""
    if kind is Geometric:
        return float(sum(moved) / budget.epsilon)
    return math.sqrt(sum(moved) / (2 * float(cdp_rho(budget.epsilon, budget.delta))))


def _first_good(holds: Callable[[float], bool], scale: float) -> float:
    """The certified error can refuse a scale that is enough; a little more noise is then accepted."""
    for _ in range(60):
        scale *= 1.02
        if holds(scale):
            return scale
    raise UnsupportedError("the composed loss could not be certified for this budget; use fewer margins.")
