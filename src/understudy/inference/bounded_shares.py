"""Shares and means that the measured tables do not determine, or of groups whose size noise hides: what is left open.

Neither uses a prior, and both look at nothing but the release. See docs/theory/noise-aware.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from understudy.core.arrays import Flags, Floats
from understudy.core.questions import OF_EVENTS
from understudy.core.workload import quoted
from understudy.errors import UnsupportedError
from understudy.inference.estimands import FIRST, Estimand, Part
from understudy.inference.evidence import Drawn
from understudy.inference.noise_aware import (
    MOST_BOUNDED,
    Local,
    group_matrix,
    has_range,
    is_count,
    is_plain_table,
    of_kinds,
)
from understudy.inference.regression import Model
from understudy.inference.without_prior import PAIRS, UNSEEN, Raw

# The smallest and the largest share or mean over all full tables that the measured tables allow.
#
# The shares of the cells of a question are unknown; their sums to every measured table are known up to noise and
# sampling. Each sum is kept within its simultaneous 95 percent bounds (Bonferroni), and linear programs find the
# smallest and the largest share among all tables that obey. The range covers at least as often as stated. Nothing is
# assumed about interactions that were not measured.

MOST_CELLS = 3000
SMALLEST = 1e-9  # of a share, and of the part of a kind of people in a coefficient; less is rounding


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Quotient:
    """A mean over some people; a share is the mean of 1 for those who have a value and of 0 for the others.

    ``inside`` is 1 for every group of cells that it is about. ``low`` and ``high`` are the least and the largest value
    of its people, times ``inside``. ``least`` and ``most`` are the least and the largest that the mean can be.
    """

    inside: Floats
    low: Floats
    high: Floats
    least: float = 0.0
    most: float = 1.0

    @property
    def known(self) -> bool:
        """Whether people of one group have one value."""
        return bool((self.low == self.high).all())


def can_be_bounded(local: Local, estimand: Estimand) -> bool:
    """Whether a quantity is a share or a mean (within a subgroup or not), or made of them, of a table small enough for
    linear programs."""
    if not has_range(estimand) or (is_count(estimand) and local.posterior.records is None):
        return False
    few = len(estimand.names) <= MOST_BOUNDED and len(local.effects.possible) <= MOST_CELLS
    return few or _by_one_way_tables(local, estimand)


def _by_one_way_tables(local: Local, estimand: Estimand) -> bool:
    """Whether all that is known of a table of two attributes is how many people have each value."""
    return is_plain_table(estimand) and all(len(margin) < 2 for margin in local.margins)


def identified_ranges(local: Local, estimand: Estimand, level: float) -> tuple[Floats, Floats]:
    """The smallest and the largest value of each share or mean, or of a difference or a ratio of two.

    All sums keep within their bounds together, so the ends of both hold together, and so does their difference.
    """
    bounds = _bounds(local, level)
    if _by_one_way_tables(local, estimand):
        return _frechet(local, estimand, *bounds)
    if of_kinds(estimand) is not None:
        return _effects(local, estimand, *bounds)
    members = [group_matrix(local, estimand) @ own for own in estimand.members]
    if is_count(estimand) and local.posterior.records is not None:
        low, high = _extremes(*bounds, member=members[0], of=_among_all(estimand.parts[0]))
        return low * local.posterior.records, high * local.posterior.records
    found = [
        _extremes(*bounds, member=own[:, FIRST:], of=quotients(part, atom.kind))
        for part, own, atom in zip(estimand.parts, members, estimand.question.atoms, strict=True)
    ]
    return _joined(estimand, found)


def _among_all(part: Part) -> list[Quotient]:
    """The people who are counted, in every group of ``by``, as shares of everybody."""
    eye = np.eye(part.count)
    counted = (eye[place] for place in range(FIRST + 1, part.count, 2))
    return [Quotient(inside=np.ones(part.count), low=one, high=one) for one in counted]


def _joined(estimand: Estimand, found: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """The ends of a question from those of its one or two quantities."""
    if len(found) == 1:
        return found[0]
    (low, high), (other_low, other_high) = found
    if estimand.question.kind == "ratio":
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(low / other_high, posinf=np.inf), np.where(other_low > 0, high / other_low, np.inf)
    return low - other_high, high - other_low


def _frechet(local: Local, estimand: Estimand, rows: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Bounds of every cell from those of its row and its column: at most the smaller, at least their sum less 1."""
    codes = np.unravel_index(local.effects.possible, local.effects.shape)
    least, most = (np.full((2, len(rows[0])), end) for end in (0.0, 1.0))  # of the row and the column of every cell
    for one, from_below, from_above in zip(rows > 0, low, high, strict=True):
        for axis in range(2):
            if len(np.unique(codes[axis][one])) == 1:  # this sum is of one value of the attribute
                least[axis, one] = np.maximum(least[axis, one], from_below)
                most[axis, one] = np.minimum(most[axis, one], from_above)
    of_cells = np.maximum(least.sum(axis=0) - 1, 0), most.min(axis=0)
    place = (group_matrix(local, estimand) @ estimand.members[0])[:, FIRST:].argmax(axis=1)
    ends = np.zeros((2, len(estimand.names)))  # a cell that the schema rules out stays 0
    ends[:, place] = of_cells
    return ends[0], ends[1]


def _effects(local: Local, estimand: Estimand, rows: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Bounds of coefficients that are signed sums of log odds (or probits, or means): those of the shares hold
    together, and so do the sums of their ends. An end is infinite if a share may be 0 or 1."""
    loads, kinds, model = _sums_of_kinds(estimand)
    member = (group_matrix(local, estimand) @ estimand.members[0])[:, FIRST:]
    shares = np.array(_extremes(rows, low, high, member=member, of=kinds))
    least, most = kinds[0].least, kinds[0].most
    near = SMALLEST * (most - least)  # the solver's error
    shares = np.where(shares < least + near, least, np.where(shares > most - near, most, shares))
    ends = model.link(shares)
    found = np.zeros((2, len(loads)))
    for effect, load in enumerate(loads):
        involved = np.flatnonzero(load)
        with np.errstate(invalid="ignore"):
            found[:, effect] = np.sort(load[involved] * ends[:, involved], axis=0).sum(axis=1)
    return np.where(np.isnan(found[0]), -np.inf, found[0]), np.where(np.isnan(found[1]), np.inf, found[1])


def _sums_of_kinds(estimand: Estimand) -> tuple[Floats, list[Quotient], Model]:
    """How each coefficient is summed up over kinds of people, and the share or the mean of each kind."""
    part, kinds = estimand.parts[0], of_kinds(estimand)
    assert kinds is not None  # noqa: S101 - asked before
    assert part.model is not None  # noqa: S101
    assert part.ends is not None  # noqa: S101 - every regression has them
    patterns, place = kinds
    loads = np.asarray(np.linalg.inv(patterns), np.float64)
    loads[np.abs(loads) < SMALLEST] = 0.0
    of = [(place == kind).astype(np.float64) for kind in range(len(patterns))]
    return loads, [_mean(inside, part.ends) for inside in of], part.model


def _mean(inside: Floats, ends: tuple[Floats, Floats]) -> Quotient:
    low, high = ends
    return Quotient(inside=inside, low=inside * low, high=inside * high, least=float(low.min()), most=float(high.max()))


def _extremes(
    rows: Floats, low: Floats, high: Floats, *, member: Floats, of: Sequence[Quotient]
) -> tuple[Floats, Floats]:
    from scipy.optimize import linprog

    cells = rows.shape[1]
    # Charnes and Cooper: with y = p t and the subgroup scaled to 1, a ratio of sums is linear in (y, t).
    scaled = np.concatenate(
        [np.column_stack([rows, -high]), np.column_stack([-rows, low]), -np.eye(cells + 1)[-1:]], axis=0
    )
    ends = np.empty((2, len(of)))
    for place, one in enumerate(of):
        fixed = np.stack([np.append(np.ones(cells), -1.0), np.append(member @ one.inside, 0.0)])
        scale = (
            max(abs(one.least), abs(one.most)) or 1.0
        )  # an amount of thousands would be beyond the solver's tolerance
        for end, (sign, values) in enumerate(((1.0, one.low), (-1.0, one.high))):
            found = linprog(
                sign * np.append(member @ values / scale, 0.0),
                A_ub=scaled,
                b_ub=np.zeros(len(scaled)),
                A_eq=fixed,
                b_eq=np.array([0.0, 1.0]),
                method="highs",
            )
            if not found.success:
                raise UnsupportedError(
                    "no table of people agrees with the measured tables within their noise, or the subgroup may be "
                    "empty, so this has no range."
                )
            ends[end, place] = np.clip(sign * scale * found.fun, one.least, one.most)
    return ends[0], ends[1]


def _bounds(local: Local, level: float) -> tuple[Floats, Floats, Floats]:
    """Which cells each sum of a measured table holds, and its simultaneous bounds as shares of all people."""
    from scipy.special import ndtri

    posterior, reduced = local.posterior, local.reduced
    total = float(reduced.estimate[0]) if posterior.records is None else float(posterior.records)
    if total <= 0:
        raise UnsupportedError("noise hides how many people there are, so no share has a range.")
    effects = local.effects
    rows = np.concatenate([effects.rows(table.margin, table.cells) for table in local.tables if table.margin])
    rows = np.unique(rows, axis=0).astype(np.float64)
    of = effects.as_functions(rows > 0)
    estimate = np.append(total, reduced.estimate) if posterior.records is not None else reduced.estimate
    centre = of @ estimate / total
    noise = reduced.noise
    loads = of[:, 1:] if posterior.records is not None else of - np.outer(centre, np.eye(len(estimate))[0])
    variance = np.einsum("ij,jk,ik->i", loads, noise, loads) / total**2
    variance = variance + np.maximum(centre * (1 - centre), 1 / total) / total
    half = -ndtri((1 - level) / (2 * len(rows))) * np.sqrt(variance)
    return rows, np.maximum(centre - half, 0), np.minimum(centre + half, 1)


# Intervals for shares and means within a subgroup if noise hides the size of the subgroup, by inverting a test.
#
# A share q = a / b of a subgroup is far from linear in the noisy counts if noise hides b. But a - q b is linear in
# them whatever b is, and has mean 0 at the true q. The interval is all q between 0 and 1 that are not rejected, given
# noise and sampling (Fieller 1954). It covers as often as stated, and uses no prior. If noise hides nearly
# everything, nearly every q remains, and the interval is wide. A mean is a share of the way from the least to the
# largest value; its people vary at most as much as people who all have one of these two.


MOST_SHARES = 400  # of one answer: each takes some milliseconds
# Shares from 0 to 1 that are tried; ends lie between two of them. On a scale of odds small shares differ.
EVENLY = np.linspace(0, 1, 201)
BY_ODDS = np.concatenate([[0.0], 1 / (1 + np.exp(np.linspace(9, -9, 361))), [1.0]])
HALF = 0.5  # of a person: fewer are none
EVERYWHERE = np.union1d(EVENLY[::4], BY_ODDS[::2])  # means of skewed numbers are small beside the largest value


def quotients(part: Part, kind: str) -> list[Quotient]:
    """Each share or mean of a part."""
    count = part.count - FIRST
    eye = np.eye(count)
    if part.ends is not None:  # of everybody, or of every group of ``by``
        own = len(part.ends[0])
        low, high = (np.tile(one, count // own) for one in part.ends)
        return [_mean(eye[start : start + own].sum(axis=0), (low, high)) for start in range(0, count, own)]
    if kind == "proportion":  # of every group of ``by``, or of everybody: without and with the value
        found = [(eye[place] + eye[place + 1], eye[place + 1]) for place in range(0, count, 2)]
    else:
        among = np.zeros(count, np.int64) if part.base is None else part.base
        found = [((among == own).astype(np.float64), one) for own, one in zip(among, eye, strict=True)]
    return [Quotient(inside=inside, low=having, high=having) for inside, having in found]


def hidden_groups(estimand: Estimand, raw: Raw, level: float, rng: np.random.Generator) -> Flags:
    """The shares whose subgroup does not stand out from its noise, so that they are no smooth function of anything."""
    away = raw.deviations(2 * PAIRS, rng)
    found = np.zeros(len(estimand.names), bool)
    for part, member, atom in zip(estimand.parts, estimand.members, estimand.question.atoms, strict=True):
        inside = np.array([one.inside for one in quotients(part, atom.kind)]).T
        size, moved = raw.shares @ member[:, FIRST:] @ inside, np.abs(away @ member[:, FIRST:] @ inside)
        found |= size <= np.quantile(moved, level, axis=0, method="weibull")
    return found


def not_rejected(
    estimand: Estimand, raw: Raw, level: float, rng: np.random.Generator, *, which: Flags | None = None
) -> tuple[Floats, Floats, Flags]:
    """The smallest and largest value of each quantity (of those in ``which``) that the noisy values do not reject, and
    whether these are all that it can be."""
    wanted = np.ones(len(estimand.names), bool) if which is None else which
    away = raw.deviations(2 * PAIRS, rng)
    parts, people = len(estimand.parts), raw.people / estimand.variability
    each = 1 - (1 - level) / parts  # with two, both cover together at the level wanted (Bonferroni)
    found = []
    nothing = np.ones(len(wanted), bool)
    for part, member, atom in zip(estimand.parts, estimand.members, estimand.question.atoms, strict=True):
        own, deviations = raw.shares @ member[:, FIRST:], away @ member[:, FIRST:]
        listed = quotients(part, atom.kind)
        points = EVENLY if part.ends is None else EVERYWHERE
        ends = [
            _interval(own, deviations, one, people=people, level=each, points=points) if flag else (one.least, one.most)
            for one, flag in zip(listed, wanted, strict=True)
        ]
        found.append((np.array([low for low, _ in ends]), np.array([high for _, high in ends])))
        nothing &= [low <= one.least and high >= one.most for (low, high), one in zip(ends, listed, strict=True)]
    return *_joined(estimand, found), nothing


def _interval(
    shares: Floats, deviations: Floats, of: Quotient, *, people: float, level: float, points: Floats
) -> tuple[float, float]:
    """The least and the largest value of a share or a mean that is not rejected. ``points``: which are tried, from 0
    (the least that it can be) to 1."""

    def placed(values: Floats) -> tuple[float, float]:
        having = (values - of.least * of.inside) / max(of.most - of.least, np.finfo(float).tiny)
        return _share_interval(shares, deviations, of.inside, having, people=people, level=level, points=points)

    low, high = placed(of.low)
    if not of.known:
        high = placed(of.high)[1]
    return of.least + low * (of.most - of.least), of.least + high * (of.most - of.least)


def _share_interval(
    shares: Floats,
    deviations: Floats,
    inside: Floats,
    having: Floats,
    *,
    people: float,
    level: float,
    points: Floats,
) -> tuple[float, float]:
    b = float(shares @ inside)
    # Noise can make fewer than 0 or more than all people have the value. Such a number says nothing beyond 0 or all:
    # it is moved there. |a - q b| becomes smaller for every q, so no share is left out that was kept.
    a = float(np.clip(shares @ having, 0.0, max(b, 0.0)))
    of_a, of_b = deviations @ having, deviations @ inside
    # Where the subgroup does not stand out from its noise, what is not rejected is no interval around an estimate: it
    # can be a small piece of the shares far from the truth. Then every share is left open.
    if b <= np.quantile(np.abs(of_b), level, method="weibull"):
        return 0.0, 1.0
    moved = np.abs(of_a[:, None] - points * of_b[:, None])  # (simulations, points)
    spread = np.sqrt(np.mean(moved**2, axis=0))
    # Sampling as it would be at each point. What was simulated is that at the estimate, which may be less, or none.
    at_point = max(b, UNSEEN / people) * points * (1 - points)
    at_estimate = a * (1 - points) ** 2 + (b - a) * points**2 - (a - points * b) ** 2
    more = np.maximum(at_point - np.maximum(at_estimate, 0), 0) / people
    with np.errstate(divide="ignore", invalid="ignore"):
        wider = np.where(spread > 0, np.sqrt(1 + more / np.maximum(spread, 1e-300) ** 2), 0.0)
    reach, nearer = (
        np.maximum(
            wider * np.quantile(moved, one, axis=0, method="weibull"),
            NormalDist().inv_cdf((1 + one) / 2) * np.sqrt(at_point / people),  # never less than sampling alone
        )
        for one in (level, max(2 * level - 1, 0.0))
    )
    # A share so small that no number of people is too few for it is rejected on one side only, so all of the error
    # probability is there; likewise a share so large that none is too many.
    few, many = points * b <= reach, (1 - points) * b <= reach
    above, below = np.where(few & ~many, nearer, reach), np.where(many & ~few, nearer, reach)
    left = np.minimum(above - (a - points * b), below - (points * b - a))  # negative where a share is rejected
    kept = np.flatnonzero(left >= 0)
    if not len(kept):
        return 0.0, 1.0
    return _crossing(points, left, int(kept[0]), -1), _crossing(points, left, int(kept[-1]), 1)


def _crossing(points: Floats, left: Floats, kept: int, step: int) -> float:
    """Where what is left falls to 0 beyond a point that is kept, on the straight line to the next point."""
    after = kept + step
    if not 0 <= after < len(points):
        return float(points[kept])
    part = left[kept] / (left[kept] - left[after])
    return float(points[kept] + part * (points[after] - points[kept]))


def infinite_effects(estimand: Estimand, drawn: Drawn) -> Flags:
    """The coefficients that may be infinite: as far as a release can tell, some kind of people that one compares has
    nobody in it, or nobody or everybody of it has the event. Their draws are those of a prior."""
    nothing = np.zeros(len(estimand.names), bool)
    model = estimand.parts[0].model
    if of_kinds(estimand) is None or model is None or model.family == "linear":
        return nothing
    loads, kinds, _ = _sums_of_kinds(estimand)
    counts = drawn.counts.mean(axis=0) @ estimand.members[0][:, FIRST:]
    inside, events = (counts @ np.array(one).T for one in ([k.inside for k in kinds], [k.low for k in kinds]))
    few = events < HALF
    if model.family in OF_EVENTS:
        few |= inside - events < HALF
    return np.asarray((loads != 0)[:, few].any(axis=1))


def effects_not_rejected(
    estimand: Estimand, raw: Raw, level: float, rng: np.random.Generator, *, which: Flags
) -> tuple[Floats, Floats, Flags] | None:
    """The same for coefficients of a regression that has one for each kind of people; None for other questions.

    Such a coefficient is a signed sum of log odds (probits, logarithms) of shares or means among some kinds of people.
    With intervals for these that hold together (Bonferroni), the sum of their ends bounds it. An end can be infinite.
    """
    if of_kinds(estimand) is None:
        return None
    loads, kinds, model = _sums_of_kinds(estimand)
    member = estimand.members[0][:, FIRST:]
    own, deviations = raw.shares @ member, raw.deviations(2 * PAIRS, rng) @ member
    low, high = np.full((2, len(loads)), np.nan)
    nothing = np.zeros(len(loads), bool)
    known: dict[tuple[int, float], Floats] = {}  # kinds of people that several coefficients compare with
    points = BY_ODDS if model.family in OF_EVENTS else EVERYWHERE

    def ends_of(kind: int, each: float) -> Floats:
        if (kind, each) not in known:
            found = _interval(own, deviations, kinds[kind], people=raw.people, level=each, points=points)
            known[kind, each] = np.array(found)
        return known[kind, each]

    for effect in np.flatnonzero(which):
        involved = [int(kind) for kind in np.flatnonzero(loads[effect])]
        each = 1 - (1 - level) / len(involved)
        parts = [loads[effect, kind] * model.link(ends_of(kind, each)) for kind in involved]
        low[effect], high[effect] = np.sort(parts, axis=1).sum(axis=0)
        open_ended = not np.isfinite([low[effect], high[effect]]).any()
        nothing[effect] = open_ended or any(
            np.array_equal(ends_of(kind, each), [kinds[kind].least, kinds[kind].most]) for kind in involved
        )
    return low, high, nothing


def larger_reference(estimand: Estimand, raw: Raw, low: Floats, high: Floats) -> str | None:
    """What to ask instead if every coefficient of an attribute is open because its reference level is: the same
    question with the most frequent level as reference. None where that is not the reason.
    """
    atom, model = estimand.question.atoms[0], estimand.parts[0].model
    kinds = None if model is None else model.saturated()
    if (
        kinds is None
        or model is None
        or atom.formula is None
        or len(atom.formula.terms) != 1
        or np.isfinite(low[0] - high[0])
    ):
        return None
    patterns, place = kinds
    (factor, *others) = atom.formula.terms[0]
    if others or not atom.formula.intercept or len(patterns) < 3:
        return None
    people = raw.shares @ estimand.members[0][:, FIRST:] @ np.eye(len(patterns))[place]
    largest = int(np.argmax(people))
    if patterns[largest].sum() != 2:  # the intercept and one level
        return None
    level = model.columns[int(np.argmax(patterns[largest][1:])) + 1].rsplit("[", 1)[1][:-1]
    return f"{atom.formula.outcome} ~ C({quoted(factor.name)}, Treatment('{level}'))"
