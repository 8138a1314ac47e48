"""Fit a distribution to noisy margins: maximum entropy relative to independence, relaxed as far as the noise allows.

Minimise over theta

    N log Z(theta) - <theta, y> + (1/2N) sum_t r_t v_t |theta_t|^2,   p(x) proportional to q(x) exp(sum_t theta_t(x_t)),

where y_t are noisy tables with noise variance v_t, q is the product of consistent one-way margins, and N is the total.
The last term is the dual form of an allowance for noise. At the optimum N mu_t - y_t = -(r_t/N) v_t theta_t. So the
model follows a table closely if its noise is small, and stays at independence if its noise is large. r_t is the prior
strength of independence, in records; ``models.fit`` sets it from the noisy values alone. Everything here is
post-processing of noisy or public values. Trends of ordered attributes that stand clear of the noise are relieved of
their part of that term (``models.trends``).

The distribution p depends on theta only through sums over tables. For example, every table with an attribute has a part
of its main effect, and only the sum of the parts matters. Given the sum, the best parts are known in closed form. Let
c_t be the coefficient of an effect in table t, z_t that of y_t, s_t its norm there, p_t = r_t v_t / N and
phi = sum s_t c_t. The minimum of sum (p_t c_t^2 / 2 - c_t z_t) is a constant plus (phi - Z)^2 / 2W with
W = sum s_t^2 / p_t and Z = sum s_t z_t / p_t. So the iteration has one variable phi for each effect
(``models.contrasts``). The optimum is the same, and the directions in which only the small penalty has curvature are
gone.

Two algorithms are used. If each clique holds few tables, sweeps over the tables (``models.sweeps``) come first: they
get near the optimum from any start. If one clique holds many tables, a sweep would be many passes over it, and
quasi-Newton steps (``minimise``) come first. Quasi-Newton steps also finish the fit after sweeps.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats
from understudy.core.phases import tell
from understudy.errors import InternalError
from understudy.models.contrasts import EffectBasis, from_effects, second_moments, to_effects
from understudy.models.junction_tree import JunctionTree, Margin, Propagation, axes_outside, spread
from understudy.models.sweeps import Sweeps
from understudy.models.trends import Penalty, Relieved, Trend, part_to_relieve

Effects = Mapping[Margin, Floats]
LEAST_PRIOR = 1e-6  # records: with a prior strength of 0 the division of an effect among tables would be undefined
LEAST_SPREAD = 0.5  # records: an error far below one record does not matter, however small the noise
MANY_TABLES = 10.0  # if a cell lies in more tables than this on average, sweeps are too expensive
SWEEP = 5  # the cost of a sweep, in quasi-Newton iterations
STUCK = 30.0  # noise standard deviations: sweeps that stand still with a larger error ran into a corner
NEAR = 1.0  # noise standard deviations: if sweeps end below this, quasi-Newton steps start from there
BETWEEN = 4  # sweeps between two checks of the remaining error
HELD = 0.5  # records that make a cell one that holds somebody


class Solution(NamedTuple):
    """Where a solve ended. ``residual``: the largest remaining error of a table, as the root of the mean square of its
    cells, in standard deviations of its noise. ``settled``: whether further sweeps no longer move what cells hold."""

    vector: Floats
    beliefs: list[Floats]
    iterations: int
    residual: float
    settled: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Task:
    """What one solve is to reach: noisy effects with their penalties, and how near in noise standard deviations."""

    target: Floats
    penalty: Penalty
    total: float
    spreads: Floats
    tolerance: float


class Problem:
    """The objective for one set of margins; the noisy values and r may change between solves."""

    def __init__(
        self,
        tree: JunctionTree,
        margins: Sequence[Margin],
        base: Mapping[str, Floats],
        zeros: Sequence[tuple[Margin, Floats]],
        trends: Sequence[Trend] = (),
    ) -> None:
        self.tree = tree
        self.margins = tuple(margins)
        self._propagation = Propagation(tree)
        self._base = [np.zeros(tree.shape(clique)) for clique in tree.cliques]
        for name, log_share in base.items():
            host = _host(tree, (name,))
            self._base[host] = self._base[host] + spread(log_share, (name,), tree.cliques[host])
        for margin, mask in zeros:
            host = _host(tree, margin)
            self._base[host] = self._base[host] + spread(mask, margin, tree.cliques[host])
        self._shares = {name: np.exp(log_share) for name, log_share in base.items()}

        # Tables inside no other come first: they hold all effects.
        self._outer = [m for m in dict.fromkeys(self.margins) if not any(set(m) < set(other) for other in self.margins)]
        self._basis = EffectBasis(tree.sizes, [*self._outer, *self.margins])
        self._own = self._first_seen()
        by_host: dict[int, list[int]] = {}
        for number, margin in enumerate(self._outer):
            by_host.setdefault(_host(tree, margin), []).append(number)
        self._hosted = [
            (host, numbers, Lattice(tree.cliques[host], tree.sizes, [self._outer[number] for number in numbers]))
            for host, numbers in by_host.items()
        ]
        # A table inside another has a step of its own: its penalties are smaller than the largest of the outer table.
        stepped = {host: list(numbers) for host, numbers in by_host.items()}
        for number, margin in enumerate(self.margins, start=len(self._outer)):
            if margin not in self._outer:
                stepped.setdefault(_host(tree, margin), []).append(number)
        self._sweeps = Sweeps(tree, [*self._outer, *self.margins], list(stepped.items()), self._basis)
        self._inside = [
            next(number for number, outer in enumerate(self._outer) if set(margin) <= set(outer))
            for margin in self.margins
        ]
        of_measured = slice(len(self._outer), None)
        self._places = np.concatenate([places.ravel() for places in self._basis.places[of_measured]])
        self._factors = np.concatenate([factors.ravel() for factors in self._basis.factors[of_measured]])
        self._ends = np.cumsum([places.size for places in self._basis.places[of_measured]])
        self._trends = [found for trend in trends if (found := self._direction(*trend)) is not None]
        if self._trends:
            self._independent = self._means(self._outer_tables(self.beliefs(np.zeros(self._basis.length))[0]))

    def _direction(self, pair: Margin, table: Floats) -> Relieved | None:
        """A trend as a direction among the effects of its pair; none if nobody has different ranks."""
        along = to_effects(table)[1:, 1:].ravel()
        norm = float(np.sqrt(along @ along))
        if norm <= 0:
            return None
        places = np.arange(self._basis.first[pair], self._basis.first[pair] + self._basis.counts[pair])
        return Relieved(pair=pair, places=places, direction=along / norm, part=0.0)

    def _relieved(self, target: Floats, variances: Floats, total: float) -> tuple[Relieved, ...]:
        """Trends with the part of their penalty that is taken off, by how far they stand out of the noise."""
        if not self._trends:
            return ()
        said = self._places >= 0
        places = self._places[said]
        precision = np.bincount(places, self._factors[said] ** 2 / variances[said], minlength=self._basis.length)
        departure = target - total * self._independent
        found = []
        for one in self._trends:
            part = part_to_relieve(float(one.direction @ departure[one.places]), 1.0 / float(precision[one.places[0]]))
            if part > 0:
                found.append(replace(one, part=part))
        return tuple(found)

    def _first_seen(self) -> list[NDArray[np.bool_]]:
        """Which coefficients of each outer table are the first of their effect: the effect is put there."""
        seen = np.zeros(self._basis.length + 1, dtype=bool)  # the last for the constant, which is no effect
        own = []
        for places in self._basis.places[: len(self._outer)]:
            first = (places >= 0) & ~seen[places]
            seen[places[first]] = True
            own.append(first)
        return own

    def effects(self, vector: Floats) -> dict[Margin, Floats]:
        """A parameter vector by effect."""
        return {effect: vector[begin : begin + self._basis.counts[effect]]
                for effect, begin in self._basis.first.items()}  # fmt: skip

    def vector(self, effects: Effects) -> Floats:
        """The parameter vector with these effects, and 0 for others."""
        found = np.zeros(self._basis.length)
        for effect, begin in self._basis.first.items():
            if effect in effects:
                found[begin : begin + self._basis.counts[effect]] = effects[effect]
        return found

    def beliefs(self, vector: Floats) -> tuple[list[Floats], float]:
        """Clique tables and log Z for one parameter vector."""
        potentials = list(self._base)
        for host, numbers, lattice in self._hosted:
            potentials[host] = lattice.scatter(potentials[host], [self._table(number, vector) for number in numbers])
        return self._propagation.run(potentials)

    def _table(self, number: int, vector: Floats) -> Floats:
        """The log factor of an outer table: the effects that are put there."""
        own = self._own[number]
        coefficients = np.zeros(own.shape)
        coefficients[own] = vector[self._basis.places[number][own]] / self._basis.factors[number][own]
        return from_effects(coefficients)

    def _outer_tables(self, beliefs: Sequence[Floats]) -> list[Floats]:
        found: list[Floats] = [np.zeros(0)] * len(self._outer)
        for host, numbers, lattice in self._hosted:
            for number, table in zip(numbers, lattice.gather(beliefs[host]), strict=True):
                found[number] = table
        return found

    def expected(self, beliefs: Sequence[Floats]) -> Floats:
        """Probabilities of every cell of every margin, in one vector."""
        outer = self._outer_tables(beliefs)
        return np.concatenate([
            outer[inside].sum(axis=axes_outside(self._outer[inside], margin)).ravel()
            for margin, inside in zip(self.margins, self._inside, strict=True)
        ])  # fmt: skip

    def _means(self, outer: Sequence[Floats]) -> Floats:
        """The mean of every effect's function."""
        found = np.zeros(self._basis.length)
        for number, table in enumerate(outer):
            own = self._own[number]
            found[self._basis.places[number][own]] = to_effects(table)[own] / self._basis.factors[number][own]
        return found

    def _curvature(self) -> Floats:
        """The variance of every effect's function under independence."""
        found = np.zeros(self._basis.length)
        for number, margin in enumerate(self._outer):
            shares = [self._shares[name] for name in margin]
            means = np.ones(())
            for share in shares:
                means = np.multiply.outer(means, to_effects(share))
            own, factors = self._own[number], self._basis.factors[number]
            variances = (second_moments(shares) - means**2) / factors**2
            found[self._basis.places[number][own]] = variances[own]
        return found

    def solve(
        self, values: Floats, variances: Floats, total: float, prior: float | Floats, *,
        start: Floats | None = None, tolerance: float = 0.02, max_iterations: int = 500, settled: float = 0.0,
        patient: bool = True,
    ) -> Solution:  # fmt: skip
        """The effects, the clique tables, and how the solve ended.

        It ends when no table's error exceeds ``tolerance`` (see ``Solution``), or when ``BETWEEN`` sweeps move the
        expected counts by less than ``settled`` noise standard deviations. ``values``, ``variances`` and ``prior`` (in
        records) have one number for each cell of all margins; the last two are constant within a margin.
        ``max_iterations`` counts quasi-Newton steps; a sweep counts as ``SWEEP`` of them. If the steps are used up and
        the error is not small, a ``patient`` solve starts quasi-Newton steps once more, from there and from nothing.
        """
        target, weights = self._merged(values, np.maximum(prior, LEAST_PRIOR) / total * variances)
        penalty = Penalty(weights=weights, relieved=self._relieved(target, variances, total))
        task = _Task(target=target, penalty=penalty, total=total, tolerance=tolerance,
                     spreads=np.maximum(np.sqrt(variances), LEAST_SPREAD))  # fmt: skip
        vector = np.zeros(self._basis.length) if start is None else start
        used = 0
        if self._sweeps.tables_per_cell > MANY_TABLES:
            vector, used = self._by_newton(vector, task, max_iterations)
        beliefs, _ = self.beliefs(vector)
        outer = self._outer_tables(beliefs)
        residual, still = self._remaining(vector, outer, task), False
        left = (max_iterations - used) // SWEEP
        begun = max(residual, tolerance)
        while residual > tolerance and left > 0 and not still:
            tell("fitting the model", _way(begun, residual, tolerance), 100)
            times, before = min(BETWEEN, left), outer
            vector = self._sweeps.run(vector, beliefs, target=target, penalty=penalty, total=total, times=times)
            beliefs, _ = self.beliefs(vector)
            outer = self._outer_tables(beliefs)
            residual = self._remaining(vector, outer, task)
            left, used = left - times, used + times
            still = self._moved(before, outer, task) <= settled
            if still and residual > STUCK:  # where a few cells hold everybody, whatever the noisy tables say
                still = False
                break
        # Sweeps creep where many tables overlap; quasi-Newton steps do not. From afar they may need a fresh start.
        starts = [vector] if residual <= NEAR else [vector, np.zeros(self._basis.length)]
        if used and not patient:
            starts = []
        for begin in starts:
            if residual <= tolerance or still:
                break
            found, more = self._by_newton(begin, task, max_iterations)
            reached, _ = self.beliefs(found)
            error = self._remaining(found, self._outer_tables(reached), task)
            used += more
            if error < residual:
                vector, beliefs, residual = found, reached, error
        return Solution(vector, beliefs, used, residual, still)

    def _moved(self, before: Sequence[Floats], after: Sequence[Floats], task: _Task) -> float:
        """How far expected counts moved, as the root of the mean square over cells that hold somebody, in noise
        standard deviations."""
        squares, held = 0.0, 0
        for one, other, spread_of in zip(before, after, self._outer_spreads(task), strict=True):
            squares += float(((one - other) ** 2).sum()) * (task.total / spread_of) ** 2
            held += int((np.maximum(one, other) * task.total >= HELD).sum())
        return math.sqrt(squares / max(held, 1))

    def _outer_spreads(self, task: _Task) -> list[float]:
        """The noise of each outer table, once for each margin of its name."""
        of = {margin: float(task.spreads[end - 1]) for margin, end in zip(self.margins, self._ends, strict=True)}
        return [of[margin] for margin in self._outer]

    def _by_newton(self, vector: Floats, task: _Task, max_iterations: int) -> tuple[Floats, int]:
        """Minimise in variables scaled to have about unit curvature."""
        total, target, penalty = task.total, task.target, task.penalty
        scale = 1.0 / np.sqrt(total * self._curvature() + penalty.weights + 1e-12 * total)
        latest: list[Floats] = []  # the tables at the point that was evaluated last, which is where the iteration is

        def objective(scaled: Floats) -> tuple[float, Floats]:
            phi = scaled * scale
            beliefs, log_z = self.beliefs(phi)
            latest[:] = self._outer_tables(beliefs)
            weighted = penalty.pull(phi)
            slope = total * self._means(latest) - target + weighted
            return float(total * log_z - phi @ target + 0.5 * weighted @ phi), slope * scale

        def small(slope: Floats) -> bool:
            return self._largest_error(slope / scale, latest, task, enough=task.tolerance) <= task.tolerance

        found, iterations = minimise(objective, vector / scale, small=small, max_iterations=max_iterations)
        return found * scale, iterations

    def _remaining(self, vector: Floats, outer: Sequence[Floats], task: _Task) -> float:
        slope = task.total * self._means(outer) - task.target + task.penalty.pull(vector)
        return self._largest_error(slope, outer, task)

    def _merged(self, values: Floats, allowances: Floats) -> tuple[Floats, Floats]:
        """All tables' values and allowances for noise as those of effects: Z/W and 1/W (see above)."""
        pieces = np.split(values, self._ends[:-1])
        shapes = [self.tree.shape(margin) for margin in self.margins]
        coefficients = np.concatenate([
            to_effects(piece.reshape(shape)).ravel() for piece, shape in zip(pieces, shapes, strict=True)
        ])  # fmt: skip
        said = self._places >= 0
        places, factors, weights = self._places[said], self._factors[said], 1.0 / allowances[said]
        length = self._basis.length
        weight = np.bincount(places, factors**2 * weights, minlength=length)
        mean = np.bincount(places, factors * weights * coefficients[said], minlength=length)
        return mean / weight, 1.0 / weight

    def _largest_error(self, slope: Floats, outer: Sequence[Floats], task: _Task, *, enough: float = math.inf) -> float:
        """The largest remaining error of a table: the root of the mean square over its cells, in noise deviations.

        It adds no more than its square to the noise of the table; one cell of many may be off by more. If a fitted
        count is too large, its error is at most the count itself. Otherwise a negative noisy count, which no fit can
        reach, would count as an error for ever. The first error beyond ``enough`` may be returned: whoever asks whether
        all are below it need not know the others.
        """
        pieces = np.split(np.append(slope, 0.0)[self._places] * self._factors, self._ends[:-1])  # the constant has none
        worst = 0.0
        for piece, margin, inside, end in zip(pieces, self.margins, self._inside, self._ends, strict=True):
            errors = from_effects(piece.reshape(self.tree.shape(margin)))
            expected = task.total * outer[inside].sum(axis=axes_outside(self._outer[inside], margin))
            found = math.sqrt(float((np.minimum(errors, expected) ** 2).mean()))
            worst = max(worst, found / float(task.spreads[end - 1]))
            if worst > enough:
                break
        return worst


def _host(tree: JunctionTree, margin: Margin) -> int:
    host = tree.host(margin)
    if host is None:
        raise InternalError(f"no clique holds {' x '.join(margin)}.")
    return host


# Minimise a smooth convex function by limited-memory BFGS.
#
# Why not scipy's: it handles bounds, and its bookkeeping for them took as long as the function itself on the tens of
# thousands of parameters of a large model.

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
        tell("fitting the model, step by step", iteration)
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

    BLAS divides even vectors of a few thousand numbers among all processors. On a busy machine a fit spent most of its
    time waiting for them.
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


# Many margins of one clique at the price of few: partial sums are shared.
#
# Summing a clique of 147,000 cells to each of its 21 pairs one at a time takes 21 passes over it. If the largest
# attribute is removed first, a table that is ten times smaller serves many margins; with such shared partial sums two
# or three passes are enough. The same paths backwards add many small tables to the clique. If margins are very small
# (pairs of binary attributes), the calls cost more than the sums. Then several margins are computed together from a
# common table of at most SMALL cells, by one sparse matrix of zeros and ones.

SMALL = 1024


class Lattice:
    """Paths of partial sums from a clique down to each of its margins."""

    def __init__(self, clique: Margin, sizes: Mapping[str, int], margins: Sequence[Margin]) -> None:
        self._clique = clique
        self._sizes = sizes
        self._margins = [tuple(margin) for margin in margins]
        self._groups = self._grouped()
        # Each node of the lattice but the clique: the table above it, and which axis of that is summed out.
        self._above: dict[Margin, tuple[Margin, int]] = {}
        for node in self._groups:
            self._reach(node)
        # Larger tables first: a table is complete before anything is taken from it, or pushed up into it.
        self._order = sorted(self._above, key=len, reverse=True)
        # Around the axis that is summed out: cells before it, its levels, cells after it.
        self._split = {
            node: (self._cells(above[:axis]), self._sizes[above[axis]], self._cells(above[axis + 1 :]))
            for node, (above, axis) in self._above.items()
        }
        self._matrices = {node: self._sums(node, numbers) for node, numbers in self._groups.items() if numbers}

    def _grouped(self) -> dict[Margin, list[int]]:
        """Which margins are taken from which common table; none stands for a margin that is a table of its own."""
        groups: list[tuple[Margin, list[int]]] = []
        for number, margin in enumerate(self._margins):
            for place, (union, numbers) in enumerate(groups):
                wider = tuple(name for name in self._clique if name in union or name in margin)
                if self._cells(wider) <= SMALL:
                    groups[place] = (wider, [*numbers, number])
                    break
            else:
                groups.append((margin, [number]))
        merged: dict[Margin, list[int]] = {}
        for union, numbers in groups:
            merged.setdefault(union, []).extend(numbers)
        return {
            union: [] if len(numbers) == 1 and self._margins[numbers[0]] == union else numbers
            for union, numbers in merged.items()
        }

    def _sums(self, node: Margin, numbers: Sequence[int]) -> tuple[Any, list[int], Any]:
        """The matrix that sums a table to some of the margins, one after another, and its transpose."""
        from scipy import sparse

        codes = np.indices(self._shape(node)).reshape(len(node), -1)
        rows, begin = [], 0
        for number in numbers:
            margin = self._margins[number]
            cells = np.ravel_multi_index([codes[node.index(name)] for name in margin], self._shape(margin))
            rows.append(begin + cells)
            begin += self._cells(margin)
        place = np.concatenate(rows)
        columns = np.tile(np.arange(codes.shape[1]), len(numbers))
        matrix = sparse.csr_array((np.ones(len(place)), (place, columns)), shape=(begin, codes.shape[1]))
        ends = np.cumsum([self._cells(self._margins[number]) for number in numbers])
        return matrix, [int(end) for end in ends[:-1]], matrix.T.tocsr()

    def _reach(self, margin: Margin) -> None:
        if margin == self._clique or margin in self._above:
            return
        missing = [name for name in self._clique if name not in margin]
        # The smallest table already there that holds the margin, or the clique, with the smallest attributes put back.
        known = [node for node in self._above if set(margin) < set(node)]
        best = min(known, key=self._cells, default=None)
        if best is not None and self._cells(best) <= self._cells(margin) * min(self._sizes[n] for n in missing):
            above = best
            removed = [name for name in above if name not in margin]
            if len(removed) > 1:
                above = self._with(margin, min(removed, key=self._sizes.__getitem__))
                self._reach(above)
        else:
            above = self._with(margin, min(missing, key=self._sizes.__getitem__))
            self._reach(above)
        (gone,) = (name for name in above if name not in margin)
        self._above[margin] = (above, above.index(gone))

    def _cells(self, margin: Margin) -> int:
        return prod(self._sizes[name] for name in margin)

    def _with(self, margin: Margin, name: str) -> Margin:
        return tuple(other for other in self._clique if other in margin or other == name)

    def gather(self, table: Floats) -> list[Floats]:
        """The table summed to each margin."""
        sums = {self._clique: table.ravel()}
        for node in self._order:
            above = sums[self._above[node][0]].reshape(self._split[node])
            sums[node] = (above[:, 0] + above[:, 1] if above.shape[1] == 2 else above.sum(axis=1)).ravel()
        found: list[Floats] = [sums.get(margin, table) for margin in self._margins]
        for node, (matrix, ends, _) in self._matrices.items():
            for number, part in zip(self._groups[node], np.split(matrix @ sums[node], ends), strict=True):
                found[number] = part
        return [part.reshape(self._shape(margin)) for part, margin in zip(found, self._margins, strict=True)]

    def scatter(self, base: Floats, tables: Sequence[Floats]) -> Floats:
        """``base`` plus every table spread over the clique (the transpose of ``gather``)."""
        waiting: dict[Margin, Floats] = {}
        grouped = {number for numbers in self._groups.values() for number in numbers}
        for number, (margin, table) in enumerate(zip(self._margins, tables, strict=True)):
            if number not in grouped:
                waiting[margin] = waiting[margin] + table.ravel() if margin in waiting else table.ravel()
        for node, (_, _, transposed) in self._matrices.items():
            joined = transposed @ np.concatenate([tables[number].ravel() for number in self._groups[node]])
            waiting[node] = waiting[node] + joined if node in waiting else joined
        for node in reversed(self._order):
            if node in waiting:
                above, (before, levels, after) = self._above[node][0], self._split[node]
                lifted = waiting.pop(node).reshape(before, 1, after)
                if above in waiting:
                    lifted = waiting[above].reshape(before, levels, after) + lifted
                waiting[above] = np.broadcast_to(lifted, (before, levels, after)).ravel()
        if self._clique not in waiting:
            return base
        return base + waiting[self._clique].reshape(base.shape)

    def _shape(self, margin: Margin) -> tuple[int, ...]:
        return tuple(self._sizes[name] for name in margin)


def _way(begun: float, residual: float, tolerance: float) -> int:
    """How far an error that shrinks by a factor each time has come, in percent."""
    if not (math.isfinite(residual) and residual < begun and tolerance > 0):
        return 0
    return int(100 * math.log(begun / residual) / math.log(begun / tolerance))
