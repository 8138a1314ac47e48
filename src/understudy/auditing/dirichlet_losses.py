"""The losses of a Dirichlet-multinomial draw one by one, for composition over copies, and its worst case.

``privacy.exact.dirichlet_profile`` says why three cells are enough at any size, and computes delta.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from understudy.auditing.composed_loss import LossDistribution
from understudy.auditing.listed_space import Witness
from understudy.core.arrays import Floats
from understudy.errors import InternalError
from understudy.privacy.exact.dirichlet_profile import BLOCK, PriorShape, log_weights, worst_pairs
from understudy.privacy.mechanisms.dirichlet_law import DirichletMultinomial
from understudy.privacy.promise.definition import Unit


def loss_distributions(shape: PriorShape, records: int) -> list[LossDistribution]:
    """The loss distributions of the pairs that can be worst, under replace, for composition over copies.

    Copies are independent draws from the same table, and the worst pair of one draw is the worst of all of them:
    post-processing each copy is post-processing their collection. With two cells every split of the rows is given.
    """
    if shape.cells < 2:
        return [LossDistribution(losses=np.zeros(1), probabilities=np.ones(1))]
    if shape.cells == 2:
        priors = {(shape.smallest, shape.second), (shape.second, shape.smallest)}
        pairs = [(a + b, c + records - 1 - b, 0.0) for a, c in sorted(priors) for b in range(records)]
    else:
        pairs = worst_pairs(shape, records)
    return [_pair_losses(x, y, rest, shape.rows) for x, y, rest in pairs]


def _pair_losses(x: float, y: float, rest: float, rows: int) -> LossDistribution:
    blocks = list(_pair_blocks(x, y, rest, rows, enough=1e-18))
    losses = np.concatenate([loss.ravel() for loss, _, _ in blocks])
    chances = np.concatenate([chance.ravel() for _, chance, _ in blocks])
    kept = chances > 0
    return LossDistribution(losses=losses[kept], probabilities=chances[kept], missing=blocks[-1][2])


def _pair_blocks(x: float, y: float, rest: float, rows: int, enough: float) -> Iterator[tuple[Floats, Floats, float]]:
    """Losses and probabilities under "row in i", for blocks of values of m_j, with the probability not yet covered.

    Stops when that probability is at most ``enough``.
    """
    weight_i, weight_j, weight_rest = (log_weights(size, rows) for size in (x + 1, y, rest))
    total = log_weights(x + 1 + y + rest, rows)[rows]
    other = log_weights(x + 1 + rest, rows)
    marginal = np.exp(weight_j + other[::-1] - total)
    beyond = np.append(np.cumsum(marginal[::-1])[::-1][1:], 0.0)  # probability that m_j is larger
    gain = np.log1p(np.arange(rows + 1) / x)
    height = max(1, min(256, BLOCK // (rows + 1)))
    for start in range(0, rows + 1, height):
        there = np.arange(start, min(rows + 1, start + height))
        here = np.arange(rows + 1 - start)
        left = rows - there[:, None] - here[None, :]
        logs = weight_j[there][:, None] + weight_i[here][None, :] + weight_rest[np.maximum(left, 0)] - total
        chances = np.exp(np.where(left >= 0, logs, -np.inf))
        yield gain[here][None, :] - np.log1p(there / y)[:, None], chances, float(beyond[there[-1]])
        if beyond[there[-1]] <= enough:
            return


def epsilon(shape: PriorShape, records: int, unit: Unit) -> float:
    """The worst-case loss: Theorem 4.1 under replace; under add_remove the larger of the two directions.

    Under add_remove the worst output has all rows in a cell that gained its first row, in the largest table. Or it has
    no row in the cell that got the first row of an empty table.
    """
    if shape.cells == 1:
        return 0.0
    most = math.log1p(shape.rows / shape.smallest)
    if unit.kind == "replace":
        return most
    return max(most - math.log1p(shape.rows / (shape.total + records - 1)), math.log1p(shape.rows / shape.total))


def witness(mechanism: DirichletMultinomial, records: int, unit: Unit) -> Witness:
    """Tables and output of the worst-case loss."""
    if mechanism.cells < 2:
        raise InternalError("a table of one cell has nothing to tell apart.")
    shape = PriorShape.of(mechanism)
    cell = min(range(mechanism.cells), key=mechanism.prior.__getitem__)
    other = 0 if cell else 1

    def table(**counts: int) -> tuple[int, ...]:
        values = [0] * mechanism.cells
        values[cell], values[other] = counts.get("cell", 0), counts.get("other", 0)
        return tuple(values)

    loss = epsilon(shape, records, unit)
    if unit.kind == "replace":
        likely, unlikely = table(cell=1, other=records - 1), table(other=records)
        return Witness(likely=likely, unlikely=unlikely, output=table(cell=mechanism.rows), loss=loss)
    if loss == math.log1p(shape.rows / shape.total):
        return Witness(likely=table(), unlikely=table(other=1), output=table(cell=mechanism.rows), loss=loss)
    likely, unlikely = table(cell=1, other=records - 1), table(other=records - 1)
    return Witness(likely=likely, unlikely=unlikely, output=table(cell=mechanism.rows), loss=loss)
