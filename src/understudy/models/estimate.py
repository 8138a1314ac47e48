"""Fit a distribution to noisy margins: maximum entropy relative to independence, relaxed by what the noise allows.

Minimise over theta

    N log Z(theta) - <theta, y> + (1/2N) sum_t r_t v_t |theta_t|^2,   p(x) proportional to q(x) exp(sum_t theta_t(x_t)),

where y_t are noisy tables with noise variance v_t, q is the product of consistent one-way margins and N the total. The
last term is what an allowance for noise becomes in the dual: at the optimum N mu_t - y_t = -(r_t/N) v_t theta_t, so a
table is followed closely where its noise is small and left to independence where it is large. r_t acts as a number of
prior records for independence; ``models.fit`` sets it from the noisy values alone. Everything here is
post-processing of noisy or public values.

Only sums of theta over tables matter to p: of the effect of an attribute, say, that each table with it has a part of.
Given the sum, the best parts are known in closed form. With c_t the coefficient of an effect in table t, z_t that of
y_t, s_t its norm there, p_t = r_t v_t / N and phi = sum s_t c_t: the least of sum (p_t c_t^2 / 2 - c_t z_t) is a
constant plus (phi - Z)^2 / 2W with W = sum s_t^2 / p_t and Z = sum s_t z_t / p_t. So the iteration runs over one phi
for each effect (``models.contrasts``): the same optimum, and none of the directions that only the small penalty bends.

Two ways lead there. Where the cliques hold few tables each, sweeps over the tables (``models.sweeps``), which get near
from anywhere. Where one clique holds many, a sweep would be many passes over it, and quasi-Newton steps
(``models.lbfgs``) come first; they also end what sweeps have brought near.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats
from understudy.errors import InternalError
from understudy.models.contrasts import EffectBasis, from_effects, second_moments, to_effects
from understudy.models.junction_tree import JunctionTree, Margin
from understudy.models.lattice import Lattice
from understudy.models.lbfgs import minimise
from understudy.models.propagation import Propagation, axes_outside, spread
from understudy.models.sweeps import Sweeps

Effects = Mapping[Margin, Floats]
LEAST_PRIOR = 1e-6  # records: with none at all, tables could not say how to share an effect
LEAST_SPREAD = 0.5  # records: rows are whole, so an error far below one is none, however small the noise
MANY_TABLES = 10.0  # tables in which a cell lies, from which on a sweep costs more than it brings
SWEEP = 5  # quasi-Newton iterations that a sweep is worth
NEAR = 1.0  # noise standard deviations: from what sweeps leave below it, quasi-Newton steps need no other start
BETWEEN = 4  # sweeps between two looks at what is still wrong


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Task:
    """What one solve is to reach: noisy effects with their penalties, and how near in noise standard deviations."""

    target: Floats
    penalty: Floats
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
        # A table inside another has a step of its own: its effects bend less than the stiffest of the outer table.
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
        start: Floats | None = None, tolerance: float = 0.02, max_iterations: int = 500,
    ) -> tuple[Floats, list[Floats], int, float]:  # fmt: skip
        """The effects, the clique tables, the iterations and the largest remaining error of a cell.

        Ends when no cell's error exceeds ``tolerance`` standard deviations of its noise. ``values``, ``variances`` and
        ``prior`` (in records) have one number per cell of all margins, the latter two the same for all cells of one.
        ``max_iterations`` are those of quasi-Newton steps; a sweep counts as ``SWEEP`` of them.
        """
        target, penalty = self._merged(values, np.maximum(prior, LEAST_PRIOR) / total * variances)
        task = _Task(target=target, penalty=penalty, total=total, tolerance=tolerance,
                     spreads=np.maximum(np.sqrt(variances), LEAST_SPREAD))  # fmt: skip
        vector = np.zeros(self._basis.length) if start is None else start
        used = 0
        if self._sweeps.tables_per_cell > MANY_TABLES:
            vector, used = self._by_newton(vector, task, max_iterations)
        beliefs, _ = self.beliefs(vector)
        residual = self._remaining(vector, beliefs, task)
        left = (max_iterations - used) // SWEEP
        while residual > tolerance and left > 0:
            times = min(BETWEEN, left)
            vector = self._sweeps.run(vector, beliefs, target=target, penalty=penalty, total=total, times=times)
            beliefs, _ = self.beliefs(vector)
            residual = self._remaining(vector, beliefs, task)
            left, used = left - times, used + times
        # Sweeps creep where many tables overlap; quasi-Newton steps do not. From afar they may need a fresh start.
        starts = [vector] if residual <= NEAR else [vector, np.zeros(self._basis.length)]
        for begin in starts:
            if residual <= tolerance:
                break
            found, more = self._by_newton(begin, task, max_iterations)
            reached, _ = self.beliefs(found)
            error = self._remaining(found, reached, task)
            used += more
            if error < residual:
                vector, beliefs, residual = found, reached, error
        return vector, beliefs, used, residual

    def _by_newton(self, vector: Floats, task: _Task, max_iterations: int) -> tuple[Floats, int]:
        """Minimise in variables scaled to have about unit curvature."""
        total, target, penalty = task.total, task.target, task.penalty
        scale = 1.0 / np.sqrt(total * self._curvature() + penalty + 1e-12 * total)
        latest: list[Floats] = []  # the tables at the point that was evaluated last, which is where the iteration is

        def objective(scaled: Floats) -> tuple[float, Floats]:
            phi = scaled * scale
            beliefs, log_z = self.beliefs(phi)
            latest[:] = self._outer_tables(beliefs)
            weighted = penalty * phi
            slope = total * self._means(latest) - target + weighted
            return float(total * log_z - phi @ target + 0.5 * weighted @ phi), slope * scale

        def small(slope: Floats) -> bool:
            return self._largest_error(slope / scale, latest, task) <= task.tolerance

        found, iterations = minimise(objective, vector / scale, small=small, max_iterations=max_iterations)
        return found * scale, iterations

    def _remaining(self, vector: Floats, beliefs: Sequence[Floats], task: _Task) -> float:
        outer = self._outer_tables(beliefs)
        slope = task.total * self._means(outer) - task.target + task.penalty * vector
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

    def _largest_error(self, slope: Floats, outer: Sequence[Floats], task: _Task) -> float:
        """The largest remaining error of a cell in noise standard deviations.

        A cell that should have fewer records than it has cannot be more wrong than by all it has: a negative noisy
        count asks for less than nothing, and would be called wrong for ever.
        """
        pieces = np.split(np.append(slope, 0.0)[self._places] * self._factors, self._ends[:-1])  # the constant has none
        worst = 0.0
        for piece, margin, inside, end in zip(pieces, self.margins, self._inside, self._ends, strict=True):
            errors = from_effects(piece.reshape(self.tree.shape(margin)))
            expected = task.total * outer[inside].sum(axis=axes_outside(self._outer[inside], margin))
            found = max(float(np.minimum(errors, expected).max()), -float(errors.min()))
            worst = max(worst, found / float(task.spreads[end - 1]))
        return worst


def _host(tree: JunctionTree, margin: Margin) -> int:
    host = tree.host(margin)
    if host is None:
        raise InternalError(f"no clique holds {' x '.join(margin)}.")
    return host
