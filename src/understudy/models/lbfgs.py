"""Minimise a smooth convex function by limited-memory BFGS.

Why not scipy's: it handles bounds, and its bookkeeping for them took as long as the function itself on the tens of
thousands of parameters of a large model.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from understudy.core.arrays import Floats

MEMORY = 10
SUFFICIENT = 1e-4  # Armijo's constant
SHORTEST = 2.0**-30
ROUNDING = 1e-14


def minimise(
    objective: Callable[[Floats], tuple[float, Floats]],
    start: Floats,
    *,
    small: Callable[[Floats], bool],
    max_iterations: int,
) -> tuple[Floats, int]:
    """The point where ``small(gradient)`` holds, or where ``max_iterations`` ended; and the iterations used."""
    point = start
    value, slope = objective(point)
    pairs: deque[tuple[Floats, Floats, float]] = deque(maxlen=MEMORY)
    for iteration in range(max_iterations):
        if small(slope):
            return point, iteration
        direction = -_apply_inverse(pairs, slope)
        descent = _dot(direction, slope)
        if descent >= 0:  # rounding has spoiled the memory: start over from steepest descent
            pairs.clear()
            direction, descent = -slope, -_dot(slope, slope)
        length = 1.0 if pairs else min(1.0, 1.0 / max(float(np.abs(slope).max()), 1e-300))
        while True:
            moved = point + length * direction
            new_value, new_slope = objective(moved)
            # Near the bottom the decrease drowns in the rounding of the value, which must not stop the iteration.
            if new_value <= value + SUFFICIENT * length * descent + ROUNDING * abs(value):
                break
            length /= 2
            if length < SHORTEST:
                return point, iteration  # no progress possible in floating point
        step, change = moved - point, new_slope - slope
        curvature = _dot(step, change)
        if curvature > 0:
            pairs.append((step, change, curvature))
        point, value, slope = moved, new_value, new_slope
    return point, max_iterations


def _dot(one: Floats, other: Floats) -> float:
    """A dot product in this thread.

    BLAS shares even vectors of some thousand numbers out over all processors; on a busy machine the waiting took most
    of the time of a fit.
    """
    return float(np.einsum("i,i->", one, other))


def _apply_inverse(pairs: deque[tuple[Floats, Floats, float]], slope: Floats) -> Floats:
    """The two-loop recursion (Nocedal and Wright 2006, Algorithm 7.4)."""
    result = slope.copy()
    weights = []
    for step, change, curvature in reversed(pairs):
        weight = _dot(step, result) / curvature
        result -= weight * change
        weights.append(weight)
    if pairs:
        _, change, curvature = pairs[-1]
        result *= curvature / _dot(change, change)
    for (step, change, curvature), weight in zip(pairs, reversed(weights), strict=True):
        result += (weight - _dot(change, result) / curvature) * step
    return result
