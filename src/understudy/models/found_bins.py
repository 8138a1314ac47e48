"""Bins and the density inside them, from noisy counts on a fine public grid. Post-processing: no record is seen here.

The grid is counted on several levels: its cells, groups of neighbouring cells, groups of those. One curve is fitted to
all of them: counts exp(f) with f smooth (its third differences are penalised, so that where noise hides the counts the
logarithm of the density goes on as a parabola: a tail falls as that of a log-normal or of a power does). How smooth is
decided by the marginal likelihood. Where counts stand clear of the noise they are followed instead of the curve. See
docs/theory/found-columns.md.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from itertools import pairwise

import numpy as np

from understudy.core.arrays import Floats, Integers
from understudy.core.bins import as_number, ends_of
from understudy.core.bounds import Spacing, spacing_between
from understudy.core.schema import Attribute, Edge

TOGETHER = 5  # cells of a group, and groups of a larger group
FEW = 3  # groups that are not grouped again
DAYS_ALONE = 100  # days in a range up to which each is a cell that a bin may begin with
MOST_MONTHS = 150
CLEAR = 4.5  # standard deviations by which a cell stands out of the curve: it is a spike that nobody named
SEEN = 2.5  # standard deviations of the noise: such a group of cells is no noise, if those before it are none
FAR = 6.0  # the same behind a gap: one of twenty groups of two-sided geometric noise alone is so in one release of 500
STEEP = 1.5  # the power by which a tail falls at least; with 1 or less a mean would not exist
LAST = 0.01  # of the rows: the end of a long tail, of which noisy counts show little
POSSIBLE = 2.0  # the power by which a tail may fall there, for choosing bins
TRACE = 0.05  # of the curve, that a cell has at least
ROBUST = 12.0  # squared standard deviations, beyond which a cell does not pull the curve further
PENALTIES = 10.0 ** np.arange(6.0, -1.5, -1.0)
STEPS = 40
LOGS = (-120.0, 40.0)  # of a density; a narrower range would bend the curve of a tail that falls steeply
RIDGE = 1e-9
TINY = 1e-9  # of a row, as the variance of a cell
SHARE_DIGITS = 8
HARDLY = 1e-6  # of the rows, in a bin of which nothing is known
NOTHING_KNOWN = 1e8  # times the variance of a bin: what is known of a cell that was not counted


def levels_of(attribute: Attribute) -> tuple[tuple[int, ...], ...]:
    """The public groupings that are counted: for every code of the attribute its group, on each level.

    Values that stand alone, special codes and a missing value are groups of their own on every level.
    """
    rest = attribute.size - attribute.bins
    return tuple(
        (*(int(group) for group in level), *range(int(level.max()) + 1, int(level.max()) + 1 + rest))
        for level in _cell_levels(attribute)
    )


def _cell_levels(attribute: Attribute) -> list[Integers]:
    if attribute.kind == "date":
        return _date_levels(attribute)
    alone = _stands_alone(attribute)
    levels, width = [np.arange(attribute.bins)], TOGETHER
    while (~alone).sum() > FEW * width:
        begins = np.zeros(attribute.bins, dtype=bool)
        run = 0
        for cell in range(attribute.bins):
            fresh = alone[cell] or (cell > 0 and alone[cell - 1]) or run == width
            begins[cell] = fresh
            run = 1 if fresh else run + 1
        begins[0] = True
        levels.append(np.cumsum(begins) - 1)
        width *= TOGETHER
    return levels


def _stands_alone(attribute: Attribute) -> np.ndarray:
    return np.isin(np.array(attribute.edges[:-1], dtype=object), np.array(attribute.single_values, dtype=object))


def _date_levels(attribute: Attribute) -> list[Integers]:
    days: list[datetime.date] = list(attribute.edges[:-1])  # type: ignore[arg-type]
    weekdays = np.array([day.weekday() for day in days])
    _, weekdays = np.unique(weekdays, return_inverse=True)  # a short range may lack some
    if len(days) <= DAYS_ALONE:
        return [np.arange(len(days))]
    return [_periods(days), np.asarray(weekdays, dtype=np.int64)]


def _periods(days: Sequence[datetime.date]) -> Integers:
    """Months, or years where there are too many months."""
    months = [day.year * 12 + day.month for day in days]
    if months[-1] - months[0] >= MOST_MONTHS:
        months = [month // 12 for month in months]
    return np.asarray(np.unique(months, return_inverse=True)[1], dtype=np.int64)


def starts_of_bins(attribute: Attribute) -> list[int]:
    """The cells that a bin may begin with: all, or of dates the first day of every month or year."""
    if attribute.kind != "date" or attribute.bins <= DAYS_ALONE:
        return list(range(attribute.bins))
    first = np.flatnonzero(np.diff(_date_levels(attribute)[0], prepend=-1))
    cut = [attribute.edges.index(one) for one in attribute.cuts]
    return sorted({*(int(cell) for cell in first), *(cell for cell in cut if cell < attribute.bins)})


def cell_counts(
    attribute: Attribute, noisy: Sequence[Integers], variances: Sequence[float], *, weight: bool = False
) -> Floats:
    """The counts of all cells of the grid, from the noisy counts of each level and the variance of their noise.

    ``weight``: of a survey weight, which need not fall where it is thin: a design of few weights has them anywhere
    between their bounds, and few rows with large weights stand for many people.
    """
    levels = _cell_levels(attribute)
    values = [np.asarray(one[: int(level.max()) + 1], float) for one, level in zip(noisy, levels, strict=True)]
    if attribute.kind == "date" and len(levels) == 2:
        return _day_counts(levels, values, variances)
    alone = _stands_alone(attribute) if attribute.kind != "date" else np.zeros(attribute.bins, dtype=bool)
    counts = np.zeros(attribute.bins)
    weights = 1 / np.array(variances)
    for cell in np.flatnonzero(alone):
        told = [value[level[cell]] for value, level in zip(values, levels, strict=True)]
        counts[cell] = max(float(weights @ np.array(told) / weights.sum()), 0.0)
    if (~alone).any():
        inner = [np.unique(level[~alone], return_inverse=True) for level in levels]
        told = [value[groups] for value, (groups, _) in zip(values, inner, strict=True)]
        places = [np.asarray(found) for _, found in inner]
        counts[~alone] = _smoothed(told, places, list(variances), _widths(attribute)[~alone])
        if attribute.kind != "date":
            level = min(1, len(told) - 1)  # groups of five cells, if there are any
            seen = [(one / variance**0.5, place) for one, variance, place in zip(told, variances, places, strict=True)]
            counts[~alone] = _falling_tails(attribute, counts[~alone], ~alone, seen[level], seen if weight else ())
    return counts


def curve_through_bins(grid: Attribute, places: Integers, noisy: Floats, variance: float) -> tuple[Floats, np.ndarray]:
    """A smooth curve through noisy counts of bins, as a count for each, and which bins hold a single value.

    ``places``: the bin of every cell of the grid. Bins of a single value keep their counts.
    """
    alone = _stands_alone(grid)
    single = np.isin(np.arange(len(noisy)), places[alone])
    curve = np.where(single, np.maximum(noisy, 0.0), 0.0)
    if alone.all():
        return curve, single
    cells = np.arange(int((~alone).sum()))
    told, inside = np.unique(places[~alone], return_inverse=True)
    counts = _smoothed(
        [np.zeros(len(cells)), noisy[told].astype(float)],
        [cells, inside],
        [NOTHING_KNOWN * variance, variance],
        _widths(grid)[~alone],
    )
    counts = _falling_tails(grid, counts, ~alone, (noisy[told] / variance**0.5, inside))
    curve[told] = np.bincount(inside, counts)
    return curve, single


def _falling_tails(
    attribute: Attribute,
    counts: Floats,
    inner: np.ndarray,
    seen: tuple[Floats, Integers],
    together: Sequence[tuple[Floats, Integers]] = (),
) -> Floats:
    """Counts that fall beyond the last place where they are clear of the noise, on both sides.

    A curve through noise may turn upwards in an empty tail, and a few rows there would move a mean of amounts by as
    much as all others. So beyond that place the density may not rise, and a long tail falls at least as a power of
    ``STEEP`` does. ``seen``: the counts of groups of cells in standard deviations of the noise, and each cell's group.
    Behind a gap, where there may be a second hill, a group must stand out more clearly. ``together``: the same of all
    levels, if a tail stays as it is where all rows in it together are clear of the noise.
    """
    clear, groups = seen
    heaviest = int(clear.argmax())
    edges = ends_of(attribute)
    middle = ((edges[:-1] + edges[1:]) / 2)[inner]
    long, scale = _spacing_of(attribute).long, _spacing_of(attribute).small
    at = np.arcsinh(middle / scale) if long else middle
    widths = np.diff(np.arcsinh(edges / scale) if long else edges)[inner]
    density = counts / widths
    for side in (1, -1):
        hills = np.flatnonzero(clear > FAR)
        group = int(max([heaviest, *hills]) if side > 0 else min([heaviest, *hills]))
        while 0 <= group + side < len(clear) and clear[group + side] > SEEN:
            group += side
        own = np.flatnonzero(groups == group)
        last = int(own[-1] if side > 0 else own[0])
        beyond = np.arange(last + side, len(counts) if side > 0 else -1, side)
        if not len(beyond) or any(_all_clear(*level, beyond) for level in together):
            continue
        away = np.abs(at[beyond] - at[last])
        power = STEEP if long and side * middle[last] > scale else 0.0
        fall = np.exp(-power * away)
        density[beyond] = fall * np.minimum.accumulate(np.minimum(density[beyond] / fall, density[last]))
    return np.asarray(density * widths)


def _all_clear(clear: Floats, groups: Integers, cells: Integers) -> bool:
    """Whether the groups that lie in some cells alone are clear of the noise, all of them together."""
    inside = np.isin(groups, groups[cells])
    inside[cells] = False
    whole = np.setdiff1d(groups[cells], groups[inside])
    return len(whole) > 0 and float(clear[whole].sum()) > SEEN * len(whole) ** 0.5


def _day_counts(levels: Sequence[Integers], values: Sequence[Floats], variances: Sequence[float]) -> Floats:
    """Days of a month are alike but for their day of the week, whose shares are shrunk by what the noise explains."""
    periods, weekdays = levels
    months = np.maximum(_shrunk(values[0], variances[0]), 0.0)
    length = np.bincount(periods)
    usual = np.bincount(weekdays) / len(weekdays)
    factor = np.maximum(_shrunk(values[1] / usual, float(variances[1] / (usual**2).mean())), 0.0)
    factor = factor / factor.mean() if factor.sum() > 0 else np.ones(len(usual))
    days = (months / length)[periods] * factor[weekdays]
    total = np.bincount(periods, days)
    return np.asarray(days * np.divide(months, total, out=np.zeros_like(months), where=total > 0)[periods])


def _shrunk(values: Floats, variance: float) -> Floats:
    scatter = float(values.var(ddof=1)) if len(values) > 1 else 0.0
    kept = max(0.0, 1 - variance / scatter) if scatter > 0 else 0.0
    return np.asarray(values.mean() + kept * (values - values.mean()))


def _widths(attribute: Attribute) -> Floats:
    """The widths of cells on the scale on which their density is smooth; one on average."""
    edges = ends_of(attribute)
    if attribute.heavy_tail:
        edges = np.arcsinh(edges / _spacing_of(attribute).small)
    widths = np.diff(edges)
    return np.asarray(widths / np.median(widths))


def _spacing_of(attribute: Attribute) -> Spacing:
    low, high = (as_number(end) for end in attribute.bounds)
    return spacing_between(low, high, heavy_tail=attribute.heavy_tail, scale=attribute.scale)


class _Sums:
    """What was counted, as sums of cells: the cells themselves, groups of neighbours, groups of those.

    A matrix that is added up over cells of one group is zero far from its diagonal. It is kept as its lower diagonals
    (the first is the main one), so that two hundred cells cost little.
    """

    def __init__(self, values: Sequence[Floats], levels: Sequence[Integers], variances: Sequence[float]) -> None:
        self.cells, self.levels = len(levels[0]), levels
        self.told = np.concatenate(values)
        self.noise = np.concatenate([np.full(len(one), float(var)) for one, var in zip(values, variances, strict=True)])
        self.begins = np.cumsum([0, *(len(one) for one in values)])
        order = min(3, self.cells - 1)  # of the differences that are penalised
        wide = max(int(np.ptp(np.flatnonzero(level == group))) for level in levels for group in np.unique(level))
        self.band = max(wide, order)
        partner = np.arange(self.cells) + np.arange(self.band + 1)[:, None]
        self.inside = partner < self.cells
        self.partner = np.where(self.inside, partner, 0)
        self.together = [self.inside & (level == level[self.partner]) for level in levels]
        differences = np.diff(np.eye(self.cells), n=order, axis=0)
        full = differences.T @ differences
        self.rough = np.where(self.inside, full[np.arange(self.cells), self.partner], 0.0)

    def of(self, cells: Floats) -> Floats:
        """The sums of the groups of every level."""
        sizes = np.diff(self.begins)
        return np.concatenate(
            [np.bincount(level, cells, minlength=size) for level, size in zip(self.levels, sizes, strict=True)]
        )

    def back(self, groups: Floats) -> Floats:
        """For every cell what its groups have, added up."""
        return np.asarray(sum(groups[begin:][level] for begin, level in zip(self.begins, self.levels, strict=False)))

    def products(self, counts: Floats, weights: Floats) -> Floats:
        """The diagonals of the sum over groups of weight times counts times counts of two cells of the group."""
        shared = sum(
            weights[begin:][level] * together
            for begin, level, together in zip(self.begins, self.levels, self.together, strict=False)
        )
        return np.asarray(counts * counts[self.partner] * shared)

    def times_rough(self, curve: Floats) -> Floats:
        """The matrix of penalised differences times the curve."""
        found: Floats = self.rough[0] * curve
        for offset in range(1, min(4, self.band + 1)):
            found[:-offset] += self.rough[offset, :-offset] * curve[offset:]
            found[offset:] += self.rough[offset, :-offset] * curve[:-offset]
        return found

    def full(self, diagonals: Floats) -> Floats:
        """The matrix itself."""
        found = np.zeros((self.cells, self.cells))
        rows = np.broadcast_to(np.arange(self.cells), self.partner.shape)
        found[self.partner[self.inside], rows[self.inside]] = diagonals[self.inside]
        return np.asarray(found + np.tril(found, -1).T)


def _smoothed(
    values: Sequence[Floats], levels: Sequence[Integers], variances: Sequence[float], widths: Floats
) -> Floats:
    size, cells = len(widths), len(values[0])
    if size == 1:
        return np.array([max(float(values[0][0]), 0.0)])
    sums = _Sums(values, levels, variances)
    told, noise = sums.told, sums.noise
    least = 0.05 * max(float(values[-1].sum()), 1.0) / size
    coarse = np.maximum(values[-1], least * np.bincount(levels[-1]))
    curve = np.log((coarse / np.bincount(levels[-1], widths))[levels[-1]])
    best, chosen = -np.inf, np.exp(curve) * widths
    for penalty in PENALTIES:
        for _ in range(STEPS):
            counts = np.exp(curve) * widths
            off = told - sums.of(counts)
            spread = noise.copy()
            spread[:cells] += counts
            heavy = np.maximum(spread, off**2 / ROBUST)
            heavy[cells:] = spread[cells:]
            bend = penalty * sums.rough + sums.products(counts, 1 / heavy)
            bend[0] += RIDGE
            step, log_determinant = _solved(
                sums, bend, counts * sums.back(off / heavy) - penalty * sums.times_rough(curve)
            )
            step *= min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-12))
            curve = np.clip(curve + step, *LOGS)
            if float(np.abs(step).max()) < 1e-2:
                break
        squared = off**2 / spread
        squared[:cells] = np.where(
            squared[:cells] > ROBUST,
            ROBUST * (1 + np.log(np.maximum(squared[:cells], ROBUST) / ROBUST)),
            squared[:cells],
        )
        likely = float(
            -0.5 * (squared + np.log(spread)).sum() - 0.5 * penalty * curve @ sums.times_rough(curve)
            - 0.5 * log_determinant + 0.5 * max(size - 3, 1) * np.log(penalty)
        )  # fmt: skip
        if best < likely < np.inf:  # infinite where nothing but the penalty holds the curve
            best, chosen = likely, np.exp(curve) * widths
    off = told - sums.of(chosen)
    own = np.where(
        np.abs(off[:cells]) > CLEAR * np.sqrt(variances[0] + chosen), np.maximum(chosen, off[:cells] ** 2), chosen
    )
    # Of a normal law with these variances, given the noisy sums: by the inverse of its precision.
    precision = sums.products(np.ones(size), 1 / noise)
    precision[0] += 1 / np.maximum(own, TINY)
    followed = chosen + _solved(sums, precision, sums.back(off / noise))[0]
    return np.asarray(np.maximum(followed, TRACE * chosen))  # a cell of nothing would end the tail behind it


def _solved(sums: _Sums, diagonals: Floats, right: Floats) -> tuple[Floats, float]:
    """The solution, and the logarithm of the determinant; the shortest solution where a column of nothing but noise
    leaves the curve open."""
    from scipy.linalg import cho_solve_banded, cholesky_banded

    try:
        root = cholesky_banded(diagonals, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        matrix = sums.full(diagonals)
        return np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0]), float(np.linalg.slogdet(matrix)[1])
    return np.asarray(cho_solve_banded((root, True), right, check_finite=False)), 2 * float(np.log(root[0]).sum())


def find_bins(attribute: Attribute, counts: Floats, bins: int, *, even: bool = False) -> Attribute:
    """The attribute with exactly so many bins (or as many as there are cells), and the shares of the cells inside.

    A bin begins at every cut, and holds a value that stands alone or other values, never both. Then the bin that
    matters most is halved again and again: by its share of all rows and its share of how far rows are from the median.
    With ``even`` all bins have about the same share of the rows instead, as those of a weight.
    """
    starts = starts_of_bins(attribute)
    forced = _forced(attribute)
    edges = ends_of(attribute)
    middle = (edges[:-1] + edges[1:]) / 2
    mass = counts / counts.sum() if counts.sum() > 0 else np.full(len(counts), 1 / len(counts))
    mass = _with_possible_tail(attribute, mass, middle)
    median = middle[min(int(np.searchsorted(np.cumsum(mass), 0.5)), len(mass) - 1)]
    far = mass * np.abs(middle / max(np.abs(edges).max(), 1e-300) - median / max(np.abs(edges).max(), 1e-300))
    weight = mass / 2 + (far / far.sum() / 2 if far.sum() > 0 else mass / 2)
    before = np.concatenate([[0.0], np.cumsum(weight)])
    cuts = _quantiles(starts, mass, bins) if even else _halved(starts, forced, before, max(bins, len(forced)))
    shares = np.where(counts > 0, counts, 0.0)
    inside = []
    for first, after in pairwise([*cuts, attribute.bins]):
        part = shares[first:after]
        # A trace everywhere: if there are rows in a bin that the curve had nothing in, it says nothing about them.
        part = part / max(shares.sum(), np.finfo(float).tiny) + HARDLY * _even(attribute, first, after)
        inside += [float(f"{share:.{SHARE_DIGITS}g}") for share in part]
    found = (*(attribute.edges[cut] for cut in cuts), attribute.edges[-1])
    pairs = tuple(zip(attribute.edges[:-1], inside, strict=True))
    return replace(attribute, edges=found, found=True, inside=pairs)


def _with_possible_tail(attribute: Attribute, mass: Floats, middle: Floats) -> Floats:
    """The shares of the cells, with a long tail that falls no faster than a power of ``POSSIBLE`` from its last
    hundredth on. Bins are chosen by these: they are there if the tail is longer than the noisy counts could show."""
    if not attribute.heavy_tail:
        return mass
    scale = _spacing_of(attribute).small
    at, upto = np.arcsinh(middle / scale), np.cumsum(mass)
    widths = np.diff(np.arcsinh(ends_of(attribute) / scale))
    found = mass.copy()
    for side, share in ((1, 1 - LAST), (-1, LAST)):
        last = min(int(np.searchsorted(upto, share)), len(mass) - 1)
        beyond = np.arange(last + side, len(mass) if side > 0 else -1, side)
        if side * middle[last] > scale and len(beyond):
            tail = mass[last] / widths[last] * np.exp(-POSSIBLE * np.abs(at[beyond] - at[last])) * widths[beyond]
            found[beyond] = np.maximum(found[beyond], tail)
    return np.asarray(found / found.sum())


def number_of_bins(attribute: Attribute, bins: int) -> int:
    """How many bins will be found: beside those of single values and cuts, as many as asked for and possible."""
    forced = len(_forced(attribute))
    return min(bins + forced - 1, len(starts_of_bins(attribute)))


def _even(attribute: Attribute, first: int, after: int) -> Floats:
    """The shares of cells of which nothing is known: even, and in a long tail falling as one does at least."""
    ends = ends_of(attribute)[first : after + 1]
    widths = np.diff(ends)
    if attribute.kind != "date" and _spacing_of(attribute).long:
        widths = widths / (_spacing_of(attribute).small + np.abs(ends[:-1] + ends[1:]) / 2) ** (1 + STEEP)
    return np.asarray(widths / widths.sum())


def _forced(attribute: Attribute) -> list[int]:
    """Cells that a bin begins with in any case: the first, every cut, a value that stands alone, and the one after."""
    place = {edge: cell for cell, edge in enumerate(attribute.edges[:-1])}
    asked: list[Edge] = list(attribute.cuts)
    singles = [place[one] for one in attribute.single_values]
    cells = {0, *(place[one] for one in asked if one in place), *singles, *(cell + 1 for cell in singles)}
    return sorted(cell for cell in cells if cell < attribute.bins)


def _quantiles(starts: Sequence[int], mass: Floats, bins: int) -> list[int]:
    """Where bins of about equal shares begin; each has at least one cell."""
    upto = np.concatenate([[0.0], np.cumsum(mass)])[list(starts)]
    places = [0]
    for number in range(1, min(bins, len(starts))):
        nearest = int(np.argmin(np.abs(upto - number / bins)))
        places.append(min(max(nearest, places[-1] + 1), len(starts) - (bins - number)))
    return [starts[place] for place in places]


def _halved(starts: Sequence[int], forced: Sequence[int], before: Floats, bins: int) -> list[int]:
    """Where bins begin: the forced cells, and halves of the heaviest bin until there are enough."""
    places = [starts.index(cell) for cell in forced] + [len(starts)]
    ends = np.array([*starts, len(before) - 1])
    heap = [(-float(before[ends[last]] - before[ends[first]]), first, last) for first, last in pairwise(places)]
    heapify(heap)
    done: list[int] = []
    while heap and len(heap) + len(done) < bins:
        _, first, last = heappop(heap)
        if last - first < 2:
            done.append(first)
            continue
        target = (before[ends[first]] + before[ends[last]]) / 2
        inner = before[ends[first + 1 : last]]
        cut = first + 1 + int(np.argmin(np.abs(inner - target)))
        for a, b in ((first, cut), (cut, last)):
            heappush(heap, (-float(before[ends[b]] - before[ends[a]]), a, b))
    return sorted(starts[place] for place in [*done, *(first for _, first, _ in heap)])
