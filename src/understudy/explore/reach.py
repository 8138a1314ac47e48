"""The smallest epsilon that keeps intervals within so many times the real data's width."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from understudy.errors import UnsupportedError
from understudy.explore.advice import Reach
from understudy.explore.widths import Rehearsals, Width

SMALLEST, LARGEST = Fraction(1, 1000), Fraction(64)
HALVINGS = 5
CLOSE = 1.02  # two epsilons that differ by less are one answer

Widths = tuple[Width, ...]


def find_epsilon(
    rehearsals: Rehearsals,
    known: Mapping[Fraction, Widths],
    copies: int,
    target: float,
    done: Callable[[], None],
    *,
    within: float | None = None,
) -> Reach:
    """By doubling and halving from what is known already, on the logarithm of epsilon.

    The same people and seeds at every epsilon make the curve smooth enough for that; its Monte Carlo error is stated.
    ``within`` asks for half the width as a share of the value instead.
    """
    if within is not None:
        real = (one for widths in known.values() for one in widths if one.value)
        own = max((one.real / 2 / abs(one.value or 1.0) for one in real), default=0.0)
        if own > within:
            reason = f"the same tables without noise are right within {100 * own:.2g}% only"
            return Reach(copies=copies, epsilon=None, ratio=None, error=None, reason=reason)
    elif all(one.ratio is None for widths in known.values() for one in widths):
        return Reach(copies=copies, epsilon=None, ratio=None, error=None, reason="the real data leave no doubt here")

    found = dict(known)

    def meets(epsilon: Fraction) -> bool:
        if epsilon not in found:
            try:
                found[epsilon] = rehearsals.widths(epsilon, copies)
            except UnsupportedError:  # none of its releases can answer: it keeps no interval within anything
                found[epsilon] = ()
            done()
        return _worst(found[epsilon], within) <= (target if within is None else within)

    high = next((epsilon for epsilon in sorted(found) if meets(epsilon)), None)
    low = max((epsilon for epsilon in found if high is None or epsilon < high), default=None)
    while high is None and low is not None and low < LARGEST:
        step = min(2 * low, LARGEST)
        high, low = (step, low) if meets(step) else (None, step)
    if high is None:
        top = max(epsilon for epsilon in found if found[epsilon])
        ratio = _worst(found[top], within)
        reason = (
            f"even at epsilon {float(top):g} intervals are {ratio:.2f} times as wide"
            if within is None
            else f"even at epsilon {float(top):g} answers are right within {100 * ratio:.2g}% only"
        )
        return Reach(copies=copies, epsilon=None, ratio=ratio, error=None, reason=reason)
    while low is None and high > SMALLEST:
        step = max(high / 2, SMALLEST)
        high, low = (step, None) if meets(step) else (high, step)
    for _ in range(HALVINGS):
        if low is None or float(high / low) < CLOSE:
            break
        middle = Fraction(f"{float(low * high) ** 0.5:.4g}")
        high, low = (middle, low) if meets(middle) else (high, middle)
    deciding = max(found[high], key=lambda one: one.ratio or 0.0)
    return Reach(
        copies=copies, epsilon=float(high), ratio=deciding.ratio, error=deciding.ratio_error, exact=deciding.exact
    )


def _worst(widths: Sequence[Width], within: float | None) -> float:
    sizes = [one.ratio if within is None else one.half_share for one in widths]
    return max((size for size in sizes if size is not None), default=float("inf"))
