"""Fit a distribution to noisy margins: maximum entropy relative to independence, relaxed by what the noise allows.

Minimise over theta

    N log Z(theta) - <theta, y> + (1/2N) sum_t r_t v_t |theta_t|^2,   p(x) proportional to q(x) exp(sum_t theta_t(x_t)),

where y_t are noisy tables with noise variance v_t, q is the product of consistent one-way margins and N the total. The
last term is what an allowance for noise becomes in the dual: at the optimum N mu_t - y_t = -(r_t/N) v_t theta_t, so a
table is followed closely where its noise is small and left to independence where it is large. r_t acts as a number of
prior records for independence; ``models.fit`` sets it from the noisy values alone. Everything here is
post-processing of noisy or public values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.errors import InternalError
from understudy.models.junction_tree import JunctionTree, Margin
from understudy.models.lattice import Lattice
from understudy.models.lbfgs import minimise
from understudy.models.propagation import Propagation, spread

Floats = NDArray[np.float64]


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
        self._shapes = [tree.shape(margin) for margin in margins]
        self._ends = np.cumsum([int(np.prod(shape)) for shape in self._shapes])
        self._base = [np.zeros(tree.shape(clique)) for clique in tree.cliques]
        for name, log_share in base.items():
            host = _host(tree, (name,))
            self._base[host] = self._base[host] + spread(log_share, (name,), tree.cliques[host])
        for margin, mask in zeros:
            host = _host(tree, margin)
            self._base[host] = self._base[host] + spread(mask, margin, tree.cliques[host])

        by_host: dict[int, list[int]] = {}
        for number, margin in enumerate(self.margins):
            by_host.setdefault(_host(tree, margin), []).append(number)
        self._hosted = [
            (host, numbers, Lattice(tree.cliques[host], tree.sizes, [self.margins[number] for number in numbers]))
            for host, numbers in by_host.items()
        ]

    def parts(self, vector: Floats) -> list[Floats]:
        """A parameter vector as one table per margin."""
        pieces = np.split(vector, self._ends[:-1])
        return [piece.reshape(shape) for piece, shape in zip(pieces, self._shapes, strict=True)]

    def beliefs(self, vector: Floats) -> tuple[list[Floats], float]:
        """Clique tables and log Z for one parameter vector."""
        potentials, parts = list(self._base), self.parts(vector)
        for host, numbers, lattice in self._hosted:
            potentials[host] = lattice.scatter(potentials[host], [parts[number] for number in numbers])
        return self._propagation.run(potentials)

    def expected(self, beliefs: Sequence[Floats]) -> Floats:
        """Probabilities of every cell of every margin, in one vector."""
        found: list[Floats] = [np.zeros(0)] * len(self.margins)
        for host, numbers, lattice in self._hosted:
            for number, table in zip(numbers, lattice.gather(beliefs[host]), strict=True):
                found[number] = table.ravel()
        return np.concatenate(found)

    def solve(
        self, values: Floats, variances: Floats, total: float, prior: float | Floats, *,
        start: Floats | None = None, tolerance: float = 0.02, max_iterations: int = 500,
    ) -> tuple[Floats, list[Floats], int, float]:  # fmt: skip
        """Minimise in variables scaled to have about unit curvature.

        Ends when no cell's error exceeds ``tolerance`` standard deviations of its noise. Returns the parameters, the
        clique tables, the iterations and the largest remaining error on that scale.
        """
        penalty = prior / total * variances
        begin = np.zeros(len(values)) if start is None else start
        # Curvature is N Cov + penalty; its diagonal at independence is cheap and close enough.
        share = self.expected(self.beliefs(np.zeros(len(values)))[0])
        scale = 1.0 / np.sqrt(total * share * (1 - share) + penalty + 1e-12 * total)
        in_noise = 1.0 / (np.sqrt(variances) * scale)

        def objective(scaled: Floats) -> tuple[float, Floats]:
            theta = scaled * scale
            beliefs, log_z = self.beliefs(theta)
            weighted = penalty * theta
            slope = total * self.expected(beliefs) - values + weighted
            return float(total * log_z - theta @ values + 0.5 * weighted @ theta), slope * scale

        def small(slope: Floats) -> bool:
            return bool(np.abs(slope * in_noise).max() <= tolerance)

        found, iterations = minimise(objective, begin / scale, small=small, max_iterations=max_iterations)
        theta = found * scale
        beliefs, _ = self.beliefs(theta)
        slope = total * self.expected(beliefs) - values + penalty * theta
        return theta, beliefs, iterations, float(np.abs(slope / np.sqrt(variances)).max())


def _host(tree: JunctionTree, margin: Margin) -> int:
    host = tree.host(margin)
    if host is None:
        raise InternalError(f"no clique holds {' x '.join(margin)}.")
    return host
