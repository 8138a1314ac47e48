"""Intervals for shares within a subgroup if noise hides the size of the subgroup, by inverting a test.

A share q = a / b of a subgroup is far from linear in the noisy counts if noise hides b. But a - q b is linear in
them whatever b is, and has mean 0 at the true q. The interval is all q between 0 and 1 that are not rejected, given
noise and sampling (Fieller 1954). It covers as often as stated, and uses no prior. If noise hides nearly everything,
nearly every q remains, and the interval is wide.
"""

from __future__ import annotations

import numpy as np

from understudy.core.arrays import Flags, Floats
from understudy.inference.estimands import FIRST, Estimand, Part
from understudy.inference.unshrunk import PAIRS, UNSEEN, Raw

MOST_SHARES = 400  # of one answer: each takes some milliseconds
POINTS = 201  # of the interval from 0 to 1 that are tried; ends are taken outwards, to the next point
SHARES = ("proportion", "crosstab")


def is_subgroup_share(estimand: Estimand) -> bool:
    """Whether every part of a question is a share: of everybody, of a subgroup, or in every group of ``by``."""
    simple = estimand.question.kind in (*SHARES, "difference")
    return simple and all(atom.kind in SHARES for atom in estimand.question.atoms)


def numerators(part: Part, kind: str) -> list[tuple[Floats, Floats]]:
    """For each share of a part, zero or one for each group: who is in its subgroup, and who has its value."""
    count = part.count - FIRST
    eye = np.eye(count)
    if kind == "proportion":  # of every group of ``by``, or of everybody: without and with the value
        return [(eye[place] + eye[place + 1], eye[place + 1]) for place in range(0, count, 2)]
    among = np.zeros(count, np.int64) if part.base is None else part.base
    return [((among == own).astype(np.float64), one) for own, one in zip(among, eye, strict=True)]


def not_rejected(
    estimand: Estimand, raw: Raw, level: float, rng: np.random.Generator, *, which: Flags | None = None
) -> tuple[Floats, Floats]:
    """The smallest and largest value of each quantity (of those in ``which``) that the noisy values do not reject."""
    wanted = np.ones(len(estimand.names), bool) if which is None else which
    away = raw.deviations(2 * PAIRS, rng)
    parts = len(estimand.parts)
    each = 1 - (1 - level) / parts  # with two shares, both cover together at the level wanted (Bonferroni)
    found = []
    for part, member, atom in zip(estimand.parts, estimand.members, estimand.question.atoms, strict=True):
        own, deviations = raw.shares @ member[:, FIRST:], away @ member[:, FIRST:]
        ends = [
            _interval(own, deviations, inside, having, people=raw.people, level=each) if flag else (0.0, 1.0)
            for (inside, having), flag in zip(numerators(part, atom.kind), wanted, strict=True)
        ]
        found.append(np.array(ends).T)
    if parts == 1:
        return found[0][0], found[0][1]
    return found[0][0] - found[1][1], found[0][1] - found[1][0]


def _interval(
    shares: Floats, deviations: Floats, inside: Floats, having: Floats, *, people: float, level: float
) -> tuple[float, float]:
    points = np.linspace(0, 1, POINTS)
    a, b = float(shares @ having), float(shares @ inside)
    of_a, of_b = deviations @ having, deviations @ inside
    moved = np.abs(of_a[:, None] - points * of_b[:, None])  # (simulations, points)
    spread = np.sqrt(np.mean(moved**2, axis=0))
    reach = np.quantile(moved, level, axis=0, method="weibull")
    # Sampling as it would be at each point; the simulated one is that at the estimate, which may be 0.
    at_point = max(b, UNSEEN / people) * points * (1 - points) / people
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(spread > 0, reach * np.sqrt(1 + at_point / np.maximum(spread, 1e-300) ** 2), 0.0)
    kept = np.flatnonzero(np.abs(a - points * b) <= reach)
    if not len(kept):
        return 0.0, 1.0
    return float(points[max(kept[0] - 1, 0)]), float(points[min(kept[-1] + 1, POINTS - 1)])
