"""A log-linear model over a small table, and noisy tables as noisy linear functions of its sufficient statistics.

log p(x) = sum over effects T of (contrast of x_T) . theta_T - log Z, one block of parameters for every set of
attributes inside a measured margin. Contrasts of k levels are the k - 1 orthonormal Helmert columns, so that a prior
of standard deviation t on the parameters is one of t sqrt(1 - 1/k) on the effect of each level.

Every cell of a measured margin is a linear function of the number of records n and of F, the sum of the contrasts over
the records, because the contrasts inside a margin span its indicators. So all noisy tables together are one linear
measurement of (n, F). With Gaussian noise, generalised least squares loses no information about n and F.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Flags, Floats
from understudy.core.schema import Schema
from understudy.errors import UnsupportedError
from understudy.models.junction_tree import Margin

SPREAD = {1: 2.5, 2: 1.5}  # prior standard deviation of effects, on the log scale, by the number of attributes
SPREAD_OF_MANY = 1.0  # of three and more
MOST_CELLS = 60_000
MOST_EFFECTS = 400
DEPENDENT = 1e-9  # singular values below this share of the largest belong to columns without information of their own


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisyTable:
    """Noisy counts of the possible cells of a margin: which ``cells`` were measured, and their noise.

    ``excess`` is the excess kurtosis of each value's noise: 0 for Gaussian noise, 3/m for m two-sided geometric ones.
    """

    margin: Margin
    cells: NDArray[np.int64]  # flat numbers of the seen cells of the margin
    values: Floats
    variances: Floats
    excess: Floats


def effects_of(margins: Sequence[Margin]) -> list[Margin]:
    """All sets of attributes inside a margin, small ones first."""
    found = {part for margin in margins for size in range(1, len(margin) + 1) for part in combinations(margin, size)}
    return sorted(found, key=lambda part: (len(part), part))


def contrasts(levels: int) -> Floats:
    """Orthonormal columns that add to zero.

    >>> c = contrasts(3)
    >>> bool(np.allclose(c @ c.T, np.eye(3) - 1 / 3))
    True
    """
    columns = np.zeros((levels, levels - 1))
    for place in range(1, levels):
        columns[:place, place - 1] = 1.0
        columns[place, place - 1] = -place
        columns[:, place - 1] /= np.sqrt(place * (place + 1))
    return columns


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Effects:
    """The design of a model: ``columns`` (possible cells by parameters) and the prior precision of the parameters."""

    margin: Margin
    shape: tuple[int, ...]
    possible: NDArray[np.int64]  # flat numbers of the possible cells of the margin
    columns: Floats
    precision: Floats

    @property
    def parameters(self) -> int:
        return int(self.columns.shape[1])

    def rows(self, margin: Margin, cells: NDArray[np.int64]) -> Flags:
        """Which possible cells lie in each of the given cells of a smaller margin: (cells, possible cells)."""
        codes = np.unravel_index(self.possible, self.shape)
        places = [self.margin.index(name) for name in margin]
        if not places:
            return np.ones((len(cells), len(self.possible)), bool)
        inside = np.ravel_multi_index([codes[place] for place in places], [self.shape[place] for place in places])
        return np.asarray(inside[None, :] == cells[:, None])

    def as_functions(self, indicators: Flags) -> Floats:
        """Coefficients (1, contrasts) of functions on the cells that the model's effects span."""
        basis = np.column_stack([np.ones(len(self.possible)), self.columns])
        found: Floats = np.linalg.lstsq(basis, indicators.T.astype(np.float64), rcond=None)[0]
        return found.T


def make_effects(
    schema: Schema,
    margin: Margin,
    margins: Sequence[Margin],
    most: int = MOST_EFFECTS,
    allowed: Flags | None = None,
) -> Effects:
    """The model over ``margin`` whose interactions are those of ``margins`` (parts of it).

    ``allowed``: which cells are possible, over levels that may have been merged; by default what the schema says.
    """
    shape = schema.shape(margin) if allowed is None else allowed.shape
    if prod(shape) > MOST_CELLS:
        raise UnsupportedError(f"the model over {', '.join(margin)} has {prod(shape):,} cells; at most {MOST_CELLS:,}.")
    sizes = dict(zip(margin, shape, strict=True))
    effects = effects_of([tuple(name for name in margin if name in one) for one in margins])
    count = sum(int(np.prod([sizes[name] - 1 for name in effect])) for effect in effects)
    if count > most:
        raise UnsupportedError(f"the model over {', '.join(margin)} has {count:,} parameters; at most {most:,}.")
    possible = np.flatnonzero((schema.allowed(margin) if allowed is None else allowed).reshape(-1))
    codes = dict(zip(margin, np.unravel_index(possible, shape), strict=True))
    single = {name: contrasts(size)[codes[name]] for name, size in sizes.items()}
    blocks: list[Floats] = []
    variances: list[Floats] = []
    for effect in effects:
        block = np.ones((len(possible), 1))
        for name in effect:
            block = (block[:, :, None] * single[name][:, None, :]).reshape(len(possible), -1)
        blocks.append(block)
        variances.append(np.full(block.shape[1], SPREAD.get(len(effect), SPREAD_OF_MANY) ** 2))
    columns = np.concatenate(blocks, axis=1) if blocks else np.zeros((len(possible), 0))
    prior = np.concatenate(variances) if variances else np.zeros(0)
    if len(possible) < prod(shape):
        columns, precision = _independent(columns, prior)
    else:
        precision = np.diag(1.0 / prior)
    return Effects(margin=margin, shape=shape, possible=possible, columns=columns, precision=precision)


def _independent(columns: Floats, prior: Floats) -> tuple[Floats, Floats]:
    """Structural zeros make effects coincide: a basis of what remains, with the prior it inherits."""
    centred = columns - columns.mean(axis=0)
    _, values, rows = np.linalg.svd(centred, full_matrices=False)
    kept = rows[values > DEPENDENT * max(float(values.max(initial=0.0)), 1e-300)]
    covariance = (kept * prior) @ kept.T
    return np.asarray(columns @ kept.T), np.linalg.inv(covariance)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reduced:
    """All noisy tables as one measurement of (n, F), or of F alone where n is public.

    ``estimate`` has covariance ``noise``. ``misfit`` measures how far the tables disagree with each other, which noise
    alone can cause: a sum of squares in noise standard deviations, with ``freedom`` degrees of freedom.
    """

    estimate: Floats
    noise: Floats
    misfit: float
    freedom: int
    cells: Floats  # coefficients (1, contrasts) of every measured value
    values: Floats
    variances: Floats
    excess: Floats

    @property
    def weights(self) -> Floats:
        """How the estimate changes with each measured value: (n and F, or F, by values)."""
        design = self.cells[:, self.cells.shape[1] - len(self.estimate) :]
        return np.asarray(self.noise @ (design / self.variances[:, None]).T)


def reduce_tables(effects: Effects, tables: Sequence[NoisyTable], records: int | None) -> Reduced:
    """Generalised least squares of the measured values on what they measure."""
    # Many tables show the same sums of the model's cells; each is expressed by the effects once, all in one solution.
    keys = [(table.margin, table.cells.tobytes()) for table in tables]
    first = dict(zip(keys, tables, strict=True))
    rows = effects.as_functions(np.concatenate([effects.rows(one.margin, one.cells) for one in first.values()]))
    ends = np.cumsum([len(one.cells) for one in first.values()])
    found = dict(zip(first, np.split(rows, ends[:-1]), strict=True))
    cells = np.concatenate([found[key] for key in keys])
    values = np.concatenate([table.values for table in tables])
    variances = np.concatenate([table.variances for table in tables])
    excess = np.concatenate([table.excess for table in tables])
    known = 0 if records is None else 1
    design = cells[:, known:]
    target = values - (0.0 if records is None else records * cells[:, 0])
    weighted = design / variances[:, None]
    information = weighted.T @ design
    noise = np.linalg.inv(information)
    noise = (noise + noise.T) / 2
    estimate = noise @ (weighted.T @ target)
    left = target - design @ estimate
    return Reduced(
        estimate=estimate,
        noise=noise,
        misfit=float((left**2 / variances).sum()),
        freedom=len(values) - design.shape[1],
        cells=cells,
        values=values,
        variances=variances,
        excess=excess,
    )


def names_in(margins: Sequence[Margin]) -> set[str]:
    """Every attribute of some margins."""
    return set(chain.from_iterable(margins))
