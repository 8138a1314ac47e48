"""The transition law of a mechanism over every small table: inputs, outputs and log probabilities, listed.

It is refused when the list would be too long. Mechanisms with structure are audited without it. The listed law gives:

* the worst-case loss: the largest |ln P(m|n1) - ln P(m|n2)|, infinite where only one of the two can give m;
* delta(epsilon): the largest sum over m of (P(m|n1) - e^epsilon P(m|n2))+, the hockey-stick divergence, in both
  directions (Barthe and Olmedo 2013, Theorem 1): (epsilon, delta)-differential privacy holds with it and not below;
* how often the truth survives, which statistical disclosure limitation looks at.

Noise that is clamped to 0, ..., top has a finite law. Clamping to public bounds is post-processing. Under replace the
bound may be the number of rows; under add_remove it is a public largest number of rows, never the true one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np

from understudy.auditing.audit_only_laws import AcceptReject, RoundedLaplace
from understudy.auditing.composed_loss import LossDistribution
from understudy.auditing.noise_losses import FARTHEST, Noise
from understudy.auditing.transition_laws import AuditOnly
from understudy.auditing.transition_matrix import Matrix
from understudy.core.arrays import Floats, Integers
from understudy.errors import InputError, UnsupportedError
from understudy.privacy.exact.small_tables import (
    LARGEST_SPACE,
    check_size,
    choose,
    how_many,
    inputs_of,
    neighbours,
    refuse_large,
    signed_odds,
    sort_tables,
)
from understudy.privacy.mechanisms.dirichlet_law import DirichletMultinomial, PosteriorMeanMultinomial
from understudy.privacy.mechanisms.noise import DiscreteGaussian, Geometric
from understudy.privacy.promise.definition import Unit

Noised = Literal["all", "first"]
Auditable = (
    DirichletMultinomial
    | PosteriorMeanMultinomial
    | AcceptReject
    | RoundedLaplace
    | Geometric
    | DiscreteGaussian
    | AuditOnly
)
NOISES = (Geometric, DiscreteGaussian, RoundedLaplace)
DEFAULT_CELLS = 2
Table = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Space:
    """Every input and output in lexicographic order, the log law (inputs x outputs), the neighbouring inputs."""

    inputs: Integers
    outputs: Integers
    log_law: Floats
    pairs: Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """Two neighbouring tables and an output that tells them apart: ``likely`` makes it e^loss times likelier."""

    likely: tuple[int, ...]
    unlikely: tuple[int, ...]
    output: tuple[int, ...]
    loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What an audit is asked about, besides the mechanism itself."""

    records: int
    cells: int
    unit: Unit
    clamped: bool
    noised: Noised


def read_setting(
    mechanism: Auditable, *, records: int, cells: int | None, unit: Unit, clamped: bool | None, noised: Noised | None
) -> Setting:
    """Check what was asked against the mechanism, and fill in what it decides itself."""
    check_size(records, "records")
    known = _own_cells(mechanism)
    if cells is not None:
        check_size(cells, "cells")
        if known is not None and known != cells:
            raise InputError(f"cells is {cells}, and the mechanism is for a table of {known:,} cells; leave cells out.")
    counted = known or cells or DEFAULT_CELLS
    if not isinstance(mechanism, NOISES):
        if clamped is not None or noised is not None:
            raise InputError("clamped and noised speak of noise added to counts; this mechanism is of another kind.")
        return Setting(records=records, cells=counted, unit=unit, clamped=False, noised="all")
    if counted < 2 and unit.kind == "replace":
        raise InputError("in a table of one cell no row can change; use at least two cells, or add_remove.")
    two_public = counted == 2 and unit.kind == "replace"
    if clamped is None:
        clamped = isinstance(mechanism, RoundedLaplace) and two_public
    if noised is None:
        noised = "first" if clamped and two_public else "all"
    if noised not in ("all", "first"):
        raise InputError(f"noised ({noised!r}) must be 'all' or 'first'.")
    if noised == "first" and not two_public:
        raise UnsupportedError("noise on the first cell alone needs two cells and a public total, so replace.")
    return Setting(records=records, cells=counted, unit=unit, clamped=clamped, noised=noised)


def _own_cells(mechanism: Auditable) -> int | None:
    if isinstance(mechanism, DirichletMultinomial | PosteriorMeanMultinomial):
        return mechanism.cells
    if isinstance(mechanism, AcceptReject):
        return mechanism.generator.cells
    return mechanism.cells if isinstance(mechanism, AuditOnly) else None


def build_space(mechanism: Auditable, setting: Setting) -> Space:
    """List everything, or refuse."""
    unit = setting.unit
    count = how_many(setting.records, setting.cells, unit)
    if isinstance(mechanism, DirichletMultinomial | PosteriorMeanMultinomial | AcceptReject):
        drawn = mechanism.generator if isinstance(mechanism, AcceptReject) else mechanism
        refuse_large(count * choose(drawn.rows + drawn.cells - 1, drawn.cells - 1), LARGEST_SPACE, "probabilities")
        inputs = inputs_of(setting.records, setting.cells, unit)
        outputs = drawn.outputs()
        if isinstance(mechanism, AcceptReject):
            log_law = mechanism.log_matrix(inputs, unit)
        else:
            log_law = mechanism.log_pmf(outputs[None, :, :], inputs[:, None, :])
    elif isinstance(mechanism, NOISES):
        inputs, outputs, log_law = _noise_space(mechanism, setting, count)
    elif isinstance(mechanism, Matrix):
        inputs, outputs, log_law = _matrix_space(mechanism, setting, count)
    else:
        inputs, outputs, log_law = _law_space(mechanism, setting, count)
    return Space(inputs=inputs, outputs=outputs, log_law=log_law, pairs=neighbours(inputs, unit))


def _noise_space(
    mechanism: Geometric | DiscreteGaussian | RoundedLaplace, setting: Setting, count: int
) -> tuple[Integers, Integers, Floats]:
    if not setting.clamped:
        raise UnsupportedError(
            "noise that is not clamped has infinitely many outputs; epsilon, delta and the witness are computed "
            "without listing them. Ask for clamped=True to see a matrix."
        )
    top, cells = setting.records, setting.cells
    noised = 1 if setting.noised == "first" else cells
    refuse_large(count * (top + 1) ** noised, LARGEST_SPACE, "probabilities")
    inputs = inputs_of(setting.records, cells, setting.unit)
    with np.errstate(divide="ignore"):
        single = np.log(clamped_matrix(mechanism, top))
    if setting.noised == "first":
        first = np.arange(top + 1)
        return inputs, np.column_stack([first, top - first]), single[inputs[:, 0]]
    outputs = np.array(list(product(range(top + 1), repeat=cells)), dtype=np.int64)
    return (
        inputs,
        outputs,
        sum(
            (single[inputs[:, cell]][:, outputs[:, cell]] for cell in range(cells)),
            np.zeros((len(inputs), len(outputs))),
        ),
    )


def _matrix_space(mechanism: Matrix, setting: Setting, count: int) -> tuple[Integers, Integers, Floats]:
    rows, columns = mechanism.P.shape
    if rows != count:
        raise InputError(
            f"P has {rows} rows; there are {count:,} tables of {setting.records} records in {setting.cells} cells "
            f"under {setting.unit.kind}, one row for each."
        )
    refuse_large(rows * columns, LARGEST_SPACE, "probabilities")
    inputs = inputs_of(setting.records, setting.cells, setting.unit)
    if mechanism.outputs is None and columns != count:
        raise InputError(f"P has {columns} columns and {count} rows; name its columns with outputs=.")
    outputs = inputs if mechanism.outputs is None else np.array(mechanism.outputs, dtype=np.int64)
    order = np.lexsort(outputs.T[::-1])
    with np.errstate(divide="ignore"):
        return inputs, outputs[order], np.log(mechanism.P[:, order])


def _law_space(mechanism: AuditOnly, setting: Setting, count: int) -> tuple[Integers, Integers, Floats]:
    refuse_large(count * setting.cells, LARGEST_SPACE // 8, "numbers in its tables")
    inputs = inputs_of(setting.records, setting.cells, setting.unit)
    laws = []
    listed = 0
    for table in inputs.tolist():
        laws.append(mechanism.law(tuple(table)))
        listed += len(laws[-1])
        refuse_large(listed, LARGEST_SPACE // 4, "probabilities")
    outputs = sort_tables(np.array(sorted({out for law in laws for out in law}), dtype=np.int64))
    refuse_large(len(inputs) * len(outputs), LARGEST_SPACE, "probabilities")
    place = {tuple(out): number for number, out in enumerate(outputs.tolist())}
    matrix = np.zeros((len(inputs), len(outputs)))
    for number, law in enumerate(laws):
        for out, chance in law.items():
            matrix[number, place[out]] = chance
    with np.errstate(divide="ignore"):
        return inputs, outputs, np.log(matrix)


def listed_losses(space: Space) -> list[LossDistribution]:
    """The loss distribution of every neighbouring pair, in both directions."""
    odds = signed_odds(space.log_law, space.pairs)
    found = []
    for number, pair in enumerate(space.pairs):
        for side, sign in ((0, 1.0), (1, -1.0)):
            chances, losses = np.exp(space.log_law[pair[side]]), sign * odds[number]
            finite = np.isfinite(losses) & (chances > 0)
            infinite = math.fsum(chances[np.isposinf(losses)])
            found.append(
                LossDistribution(losses=losses[finite], probabilities=chances[finite], infinite=infinite)
                if finite.any()
                else LossDistribution(losses=np.zeros(1), probabilities=np.zeros(1), infinite=infinite)
            )
    return found


def hockey_stick(log_law: Floats, pairs: Integers, epsilon: float) -> Floats:
    """The divergence of each pair, larger of the two directions.

    Each term is P (1 - e^(epsilon - loss)), computed where the loss exceeds epsilon: positive terms only, so that a
    delta of 1e-300 has as many good digits as one of 0.1.
    """
    odds = signed_odds(log_law, pairs)
    best = np.zeros(len(pairs))
    for side, loss in ((0, odds), (1, -odds)):
        over = loss > epsilon
        gain = np.where(over, -np.expm1(np.where(over, epsilon - loss, 0.0)), 0.0)
        best = np.maximum(best, (np.exp(log_law[pairs[:, side]]) * gain).sum(axis=1))
    return np.minimum(best, 1.0)


def worst_witness(log_law: Floats, inputs: Integers, outputs: Integers, pairs: Integers) -> Witness | None:
    """The pair and output of the largest loss: the first in lexicographic order where several are equal."""
    if not len(pairs):
        return None
    odds = signed_odds(log_law, pairs)
    number, column = np.unravel_index(int(np.argmax(np.abs(odds))), odds.shape)
    loss = float(odds[number, column])
    likely, unlikely = pairs[number] if loss >= 0 else pairs[number][::-1]
    return Witness(
        likely=tuple(inputs[likely].tolist()),
        unlikely=tuple(inputs[unlikely].tolist()),
        output=tuple(outputs[column].tolist()),
        loss=abs(loss),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowMeasures:
    """What statistical disclosure limitation looks at: how often the truth survives (Abowd and Vilhuber, Section 3).

    ``cell_uncertainty`` is the smallest P(m_i != n_i) over tables and cells; ``truth`` the largest P(m = n).
    """

    cell_uncertainty: float
    cell: int
    cell_table: Table
    truth: float
    truth_table: Table


def row_measures(space: Space) -> RowMeasures:
    """The row measures of a listed space."""
    if space.outputs.shape[1] != space.inputs.shape[1]:
        raise UnsupportedError("outputs have other cells than inputs, so no cell can be compared with its truth.")
    law = np.exp(space.log_law)
    changed = np.stack(
        [
            (law * (space.outputs[None, :, i] != space.inputs[:, None, i])).sum(axis=1)
            for i in range(space.inputs.shape[1])
        ]
    )
    cell, number = np.unravel_index(int(np.argmin(changed)), changed.shape)
    same = (law * (space.outputs[None] == space.inputs[:, None]).all(axis=2)).sum(axis=1)
    kept = int(np.argmax(same))
    return RowMeasures(
        cell_uncertainty=float(changed[cell, number]),
        cell=int(cell),
        cell_table=tuple(space.inputs[number].tolist()),
        truth=float(same[kept]),
        truth_table=tuple(space.inputs[kept].tolist()),
    )


def upper_tail(noise: Noise, distance: int) -> float:
    """P(noise >= distance) for a distance of at least 1, without subtraction.

    >>> round(upper_tail(RoundedLaplace(scale=0.5), 1), 6)
    0.18394
    """
    scale = float(noise.scale)
    if isinstance(noise, Geometric):
        return math.exp(-distance / scale) / (1 + math.exp(-1 / scale))
    if isinstance(noise, RoundedLaplace):
        return math.exp(-(distance - 0.5) / scale) / 2
    far = np.arange(distance, distance + math.ceil(FARTHEST * scale) + 2)
    return math.fsum(np.exp(noise.log_pmf(far, np.zeros_like(far))))


def clamped_matrix(noise: Noise, top: int) -> Floats:
    """Row x, column v: P(clamp(x + noise, 0, top) = v)."""
    counts = np.arange(top + 1)
    matrix = np.exp(noise.log_pmf(counts[None, :], counts[:, None]))
    for x in range(top + 1):
        # The noise is symmetric: the part below 0 is the mirror image of the part above top.
        matrix[x, 0] = upper_tail(noise, x) if x else 1 - upper_tail(noise, 1)
        matrix[x, top] = upper_tail(noise, top - x) if x < top else 1 - upper_tail(noise, 1)
    return np.asarray(matrix)
