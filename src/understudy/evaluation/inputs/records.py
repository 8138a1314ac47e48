"""Rows of a table as an attacker sees them: codes of the schema, positions on a line, and what chance alone makes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from understudy.core.arrays import Floats, Integers
from understudy.core.schema import Attribute, Schema
from understudy.core.table import CodedTable
from understudy.engines.reading.values import as_number, values_of
from understudy.errors import InputError
from understudy.evaluation.shared.record_cells import numbers_of

FALSE_ALARM = 1e-4  # how rarely a holdout that shares nobody with the data may be refused


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Records:
    """Rows of a table twice over: as codes of the schema, and as positions on a line.

    The position of a number or date is its value, of a level its place in the schema (the stated order of a nominal
    attribute); special codes and the missing value stand above all values, one range apart.
    """

    codes: Integers
    """The codes, rows by attributes."""
    positions: Floats
    """The positions, rows by attributes."""

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: Integers) -> Records:
        """Take some of the rows.

        Parameters
        ----------
        rows
            Their numbers.

        Returns
        -------
        Records
            These rows, in this order.
        """
        return Records(codes=self.codes[rows], positions=self.positions[rows])


def records_of(coded: CodedTable, frame: pa.Table, schema: Schema) -> Records:
    codes = np.column_stack([coded.columns[name].astype(np.int64) for name in schema.names])
    positions = np.column_stack(
        [
            codes[:, place].astype(np.float64)
            if attribute.levels
            else _positions(attribute, frame.column(attribute.name), codes[:, place])
            for place, attribute in enumerate(schema.attributes)
        ]
    )
    return Records(codes=codes, positions=positions)


def _positions(attribute: Attribute, column: pa.ChunkedArray, codes: Integers) -> Floats:
    """Numbers, or dates as days; special codes and the missing value above the range, one range apart."""
    beyond = as_number(attribute.edges[-1]) + span_of(attribute) * (1 + codes - attribute.bins)
    positions: Floats = np.where(codes < attribute.bins, values_of(column, codes, attribute), beyond)
    return positions


def span_of(attribute: Attribute) -> float:
    """The length of an attribute's range of positions."""
    if attribute.kind == "levels":
        return 1.0 if not attribute.ordered else float(max(attribute.bins - 1, 1))
    return as_number(attribute.edges[-1]) - as_number(attribute.edges[0])


def null_copies(schema: Schema, copies: tuple[Records, ...], seed: int) -> tuple[Records, ...]:
    """Tables of the same sizes, attributes independent: codes from the release's margins, values uniform in bins."""
    codes = np.concatenate([copy.codes for copy in copies])
    generator = np.random.default_rng([seed, *b"null"])
    made = []
    for copy in copies:
        rows = generator.integers(0, len(codes), copy.codes.shape)
        drawn = codes[rows, np.arange(codes.shape[1])]
        positions = np.column_stack(
            [_within_bins(attribute, drawn[:, j], generator) for j, attribute in enumerate(schema.attributes)]
        )
        made.append(Records(codes=drawn, positions=positions))
    return tuple(made)


def _within_bins(attribute: Attribute, codes: Integers, generator: np.random.Generator) -> Floats:
    if attribute.levels:
        return codes.astype(np.float64)
    edges = np.array([as_number(edge) for edge in attribute.edges])
    inside = codes < attribute.bins
    bins = np.where(inside, codes, 0)
    values = edges[bins] + (edges[bins + 1] - edges[bins]) * generator.uniform(size=len(codes))
    if attribute.integer or attribute.kind == "date":
        values = np.floor(values)
    beyond = edges[-1] + span_of(attribute) * (1 + codes - attribute.bins)
    positions: Floats = np.where(inside, values, beyond)
    return positions


def refuse_overlap(original: Records, holdout: Records) -> None:
    """Refuse a holdout that shares people with the data, as far as equal rows can show it.

    If the holdout is another sample of the same population, which of the pooled records fall into it is a matter of
    chance. Two signs against that, each a false alarm with probability ``FALSE_ALARM`` at most: among values that
    occur exactly twice in the pool, too many pairs have one record on each side; or the holdout lies wholly within
    the data, cell by cell, although by chance it hardly could. Data with few distinct rows show nothing.
    """
    from scipy.stats import binom

    (people, others), cells = numbers_of([original.positions, holdout.positions])
    here, there = np.bincount(people, minlength=cells), np.bincount(others, minlength=cells)
    total, n, h = here + there, len(original), len(holdout)
    pairs = total == 2
    chance = 2 * n * h / ((n + h) * (n + h - 1))
    split = int((here[pairs] == 1).sum())
    crossed = split > 0 and binom.sf(split - 1, int(pairs.sum()), chance) < FALSE_ALARM
    inside = False
    if np.all(there <= here):
        sizes, times = np.unique(total, return_counts=True)
        log_chance = float(np.sum(times * binom.logcdf(sizes // 2, sizes, h / (n + h))))
        inside = log_chance < np.log(FALSE_ALARM) or (n == h and bool(np.all(here == there)))
    if crossed or inside:
        raise InputError(
            "the holdout overlaps the confidential data: far more of its records equal records of the data than chance "
            "allows. A control group must be people whose data were not used; take them out before synthesis."
        )
