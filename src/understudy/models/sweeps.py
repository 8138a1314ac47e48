"""Iterative proportional fitting with an allowance for noise: ``regularised_fit``, one table at a time.

Let d be a change of one table's log factors, one number for each cell. It changes the objective by at most

    N log (sum over cells of x e^d / N) + sum over cells of (p d^2 / 2 - d b),

where x is the current expected count, N is the sum of all x, b is the noisy count minus the gradient of the penalty,
and p is the largest penalty on an effect of the table. (Effects with a smaller penalty have less curvature.) The bound
is smallest if x e^d + p d = b - shift in every cell, where one common shift makes x e^d add up to N. Wright's omega
function solves the equation of a cell, and Newton's method finds the shift. So each step lowers the objective, and no
step length has to be chosen. With p = 0 and a table that adds up to N, this is the step of iterative proportional
fitting (Deming and Stephan 1940): x becomes b. A cell with a negative noisy count goes towards 0 in a few steps; a
gradient method would need many.

The tables of one clique are visited one after another, including tables inside others. Then a message goes to the next
clique, along every edge of the junction tree and back. If cliques hold few tables each, a sweep costs about as much as
a few evaluations of the objective. If the tables form a tree and agree, one sweep is the whole fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.arrays import Floats
from understudy.models.contrasts import EffectBasis, from_effects, to_effects
from understudy.models.junction_tree import JunctionTree, Margin, axes_outside, spread
from understudy.models.trends import Penalty

FARTHEST = 30.0  # a log factor moves by at most this in one step: no cell is lost to underflow
SHIFTS = 8  # steps of Newton's method for the number of records of a table
TREND_STEP = 1.0  # a step along the trends of a table moves log factors by at most this
NOBODY = 1e-9  # records: a cell with fewer is not pushed down any further


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Along:
    """The trends of one table, which have a step of their own: the penalty on its other effects would slow them down.

    ``functions``: a row of cells for each trend. ``slope``: the gradient along each where the step begins, without the
    expected counts. ``penalty``: what is left of the penalty on each.
    """

    functions: Floats
    slope: Floats
    penalty: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Step:
    """What one table asks for: b and p of the equation above, and the number of records."""

    pulled: Floats
    stiffness: float
    total: float
    along: Along | None = None


class Sweeps:
    """Sweeps over tables that lie in cliques.

    ``tables`` are those of the basis, in its order; ``hosted`` has the numbers of those to visit in each clique.
    """

    def __init__(
        self, tree: JunctionTree, tables: Sequence[Margin], hosted: Sequence[tuple[int, Sequence[int]]],
        basis: EffectBasis,
    ) -> None:  # fmt: skip
        self._tree = tree
        self._tables = tables
        self._hosted = {host: list(numbers) for host, numbers in hosted}
        self._said = [places >= 0 for places in basis.places]
        # A step changes the effects of one table only: their places, and their norms in it.
        self._places = [places[said] for places, said in zip(basis.places, self._said, strict=True)]
        self._factors = [factors[said] for factors, said in zip(basis.factors, self._said, strict=True)]
        self._walk = _walk(tree)

    @property
    def tables_per_cell(self) -> float:
        """In how many tables a cell of the cliques lies on average: what a sweep costs in passes over the cliques."""
        cells = [float(np.prod(self._tree.shape(clique))) for clique in self._tree.cliques]
        return sum(cells[host] * len(numbers) for host, numbers in self._hosted.items()) / sum(cells)

    def run(
        self, vector: Floats, beliefs: list[Floats], *, target: Floats, penalty: Penalty, total: float, times: int
    ) -> Floats:
        """The effects after some sweeps, from effects and the beliefs that belong to them (which are used up)."""
        vector = vector.copy()
        visited = [number for numbers in self._hosted.values() for number in numbers]
        wanted = {
            number: self._cells(number, target[self._places[number]]) + total / self._said[number].size
            for number in visited
        }
        stiffness = {number: self._stiffness(number, penalty.weights) for number in visited}
        parts = {number: penalty.part(self._tables[number], self._places[number]) for number in visited}
        functions = {number: self._functions(number, part) for number, part in parts.items() if part.relieved}
        for _ in range(times):
            for clique, before in self._walk:
                if before is None:
                    for number in self._hosted.get(clique, ()):
                        places = self._places[number]
                        pull = parts[number].pull(vector[places])
                        along = None
                        if number in functions:
                            along = _along(functions[number], parts[number], pull - target[places])
                        pulled = wanted[number] - self._cells(number, pull)
                        step = _Step(pulled=pulled, stiffness=stiffness[number], total=total, along=along)
                        vector[places] += self._step(number, self._tree.cliques[clique], beliefs[clique], step)
                else:
                    self._send(beliefs, before, clique)
        return vector

    def _step(self, number: int, clique: Margin, belief: Floats, step: _Step) -> Floats:
        """One table's best change: made in its clique's belief, and returned as a change of the table's effects."""
        margin = self._tables[number]
        share = belief.sum(axis=axes_outside(clique, margin))
        change = _change(step.total * share, step.pulled, step.stiffness)
        if step.along is not None:
            change = change + _trend_change(share, change, step.along, step.total)
        factor = np.exp(change)
        factor /= float((share * factor).sum())
        belief *= spread(factor, margin, clique)
        return np.asarray(to_effects(change)[self._said[number]] * self._factors[number])

    def _cells(self, number: int, effects: Floats) -> Floats:
        """The effects of one table as its cells."""
        coefficients = np.zeros(self._said[number].shape)
        coefficients[self._said[number]] = effects * self._factors[number]
        return from_effects(coefficients)

    def _functions(self, number: int, part: Penalty) -> Floats:
        """The trends of a table that the penalty was taken off, as functions of its cells, one row for each."""
        found = []
        for one in part.relieved:
            effects = np.zeros(len(part.weights))
            effects[one.places] = one.direction
            found.append(self._cells(number, effects / self._factors[number] ** 2))
        return np.stack(found)

    def _stiffness(self, number: int, weights: Floats) -> float:
        """The largest penalty on an effect of the table, in the scale of its own cells."""
        places, factors = self._places[number], self._factors[number]
        return float((weights[places] * factors**2).max()) if places.size else 1.0

    def _send(self, beliefs: list[Floats], sender: int, receiver: int) -> None:
        """Makes a clique agree with its neighbour on what they share."""
        members, others = self._tree.cliques[sender], self._tree.cliques[receiver]
        shared = tuple(name for name in members if name in others)
        if not shared:
            return
        new = beliefs[sender].sum(axis=axes_outside(members, shared))
        old = beliefs[receiver].sum(axis=axes_outside(others, shared))
        ratio = np.divide(new, old, out=np.zeros_like(new), where=old > 0)
        beliefs[receiver] *= spread(ratio, shared, others)


def _walk(tree: JunctionTree) -> list[tuple[int, int | None]]:
    """A walk along every edge and back: a clique to work in (None), or one that gets a message from another."""
    below: dict[int, list[int]] = {}
    for clique, parent in enumerate(tree.parents):
        below.setdefault(parent, []).append(clique)
    walk: list[tuple[int, int | None]] = []
    waiting: list[tuple[int, int | None]] = [(0, None)]
    while waiting:
        clique, sender = waiting.pop()
        walk.append((clique, sender))
        if sender is None:
            for child in below.get(clique, []):
                waiting += [(clique, child), (child, None), (child, clique)]
    return walk


def _change(expected: Floats, pulled: Floats, stiffness: float) -> Floats:
    """The d with expected e^d + stiffness d = pulled - shift, cell by cell; 0 in cells that must be empty.

    The shift is common to all cells and keeps the number of records. It is found by Newton's method.
    """
    from scipy.special import wrightomega

    possible = expected > 0
    everywhere = bool(possible.all())  # then nothing has to be left out, which saves half of the passes
    total = float(expected.sum())
    log = np.log(expected if everywhere else np.where(possible, expected, 1.0))
    level = log - np.log(stiffness)
    shift, reached = 0.0, np.zeros(expected.shape)
    for _ in range(SHIFTS):
        reached = stiffness * wrightomega(level + (pulled - shift) / stiffness)  # y + stiffness (log y - log) = pulled
        if not everywhere:
            reached = np.where(possible, reached, 0.0)
        over = float(reached.sum()) - total
        bend = float((reached / (reached + stiffness)).sum())
        if abs(over) <= 1e-9 * total or bend <= 0:
            break
        shift += over / bend
    change = np.where(reached > 0, np.log(np.maximum(reached, 1e-300)) - log, -FARTHEST)
    change = np.minimum(np.maximum(change, -FARTHEST), FARTHEST)
    change = np.where(expected < NOBODY, np.maximum(change, 0.0), change)
    return change if everywhere else np.where(possible, change, 0.0)


def _along(functions: Floats, part: Penalty, slope: Floats) -> Along:
    return Along(
        functions=functions,
        slope=np.array([one.direction @ slope[one.places] for one in part.relieved]),
        penalty=np.array([(1 - one.part) * part.weights[one.places[0]] for one in part.relieved]),
    )


def _trend_change(share: Floats, change: Floats, along: Along, total: float) -> Floats:
    """What one step of Newton's method adds to a change of a table, along its trends alone.

    The change has moved the table; the penalty it adds along the trends is left to the next sweep. No log factor moves
    by more than ``TREND_STEP``, so that a step from afar does not go too far.
    """
    moved = share * np.exp(change)
    moved = (moved / moved.sum()).ravel()
    functions = along.functions.reshape(len(along.functions), -1)
    means = functions @ moved
    centred = functions - means[:, None]
    bend = total * (centred * moved) @ centred.T + np.diag(along.penalty)
    bend += 1e-9 * (np.trace(bend) + 1.0) * np.eye(len(bend))
    found = -np.linalg.solve(bend, total * means + along.slope) @ functions
    largest = float(np.abs(found).max())
    if largest > TREND_STEP:
        found *= TREND_STEP / largest
    return np.asarray(np.where(share > 0, found.reshape(share.shape), 0.0))
