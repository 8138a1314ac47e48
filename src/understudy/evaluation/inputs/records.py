"""Rows of a table as an attacker sees them: codes of the schema, positions on a line, and what chance alone makes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from understudy.core.arrays import Flags, Floats, Integers
from understudy.core.schema import Attribute, Schema
from understudy.core.table import CodedTable
from understudy.engines.reading.values import as_number, values_of
from understudy.errors import InputError
from understudy.evaluation.shared.record_cells import numbers_of

FALSE_ALARM = 1e-4  # how rarely a holdout that shares nobody with the data may be refused
FITTING_ROUNDS = 30  # of the law of possible rows
FITTING_ROWS = 20_000
MOST_ATTEMPTS = 1_000  # of drawing enough possible rows


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


def with_nulls(coded: CodedTable, rows: pa.Table) -> pa.Table:
    """The rows with a null for every missing value, whatever stands for it in a file."""
    import pyarrow.compute as pc

    columns = {}
    for attribute in coded.schema.attributes:
        column = rows[attribute.name].combine_chunks()
        missing = coded.columns[attribute.name] == attribute.missing_code
        columns[attribute.name] = pc.if_else(pa.array(missing), None, column) if missing.any() else column
    return pa.table(columns)


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
    """Tables of the same sizes that know the release's one-way margins and the public schema, and nothing else.

    Without structural zeros the attributes are independent draws from the margins. With them the law is the one of
    greatest entropy that has these margins and no impossible row. Values are uniform in their bins.
    """
    codes = np.concatenate([copy.codes for copy in copies])
    generator = np.random.default_rng([seed, *b"null"])
    draw = _possible_rows(schema, codes, generator) if schema.impossible else _independent_rows(codes, generator)
    made = []
    for copy in copies:
        drawn = draw(len(copy))
        positions = np.column_stack(
            [_within_bins(attribute, drawn[:, j], generator) for j, attribute in enumerate(schema.attributes)]
        )
        made.append(Records(codes=drawn, positions=positions))
    return tuple(made)


def _independent_rows(codes: Integers, generator: np.random.Generator) -> Callable[[int], Integers]:
    def draw(rows: int) -> Integers:
        chosen = generator.integers(0, len(codes), (rows, codes.shape[1]))
        drawn: Integers = codes[chosen, np.arange(codes.shape[1])]
        return drawn

    return draw


def _possible_rows(schema: Schema, codes: Integers, generator: np.random.Generator) -> Callable[[int], Integers]:
    """Rows with probability proportional to a product of one factor per attribute, on possible rows only.

    The factors are fitted by iterative proportional fitting, with the margins of simulated rows: such a law has the
    greatest entropy among all that have the margins (Csiszár 1975). Its margins are right to about one percent.
    """
    wanted = [np.bincount(codes[:, j], minlength=size) / len(codes) for j, size in enumerate(schema.shape())]
    factors = [shares.copy() for shares in wanted]

    def attempt(rows: int) -> Integers:
        drawn = np.column_stack([generator.choice(len(one), rows, p=one / one.sum()) for one in factors])
        return drawn[possible(schema, drawn)]

    for _ in range(FITTING_ROUNDS):
        kept = attempt(FITTING_ROWS)
        if not len(kept):
            break
        for j, shares in enumerate(wanted):
            found = np.bincount(kept[:, j], minlength=len(shares)) / len(kept)
            seen = found > 0
            factors[j][seen] *= (shares[seen] / found[seen]) ** 0.5  # half a step: the shares are simulated

    def draw(rows: int) -> Integers:
        parts: list[Integers] = []
        left = rows
        for _ in range(MOST_ATTEMPTS):
            parts.append(attempt(max(2 * left, 256))[:left])
            left -= len(parts[-1])
            if not left:
                return np.concatenate(parts)
        raise InputError(
            "the structural zeros of the schema leave hardly any row that its one-way margins allow; there is no "
            "baseline for attacks on such a release."
        )

    return draw


def possible(schema: Schema, codes: Integers) -> Flags:
    """Which rows of codes no structural zero of the schema rules out."""
    place = {name: j for j, name in enumerate(schema.names)}
    allowed = np.ones(len(codes), bool)
    for rule in schema.impossible:
        conditions = rule.codes(schema).items()
        allowed &= ~np.logical_and.reduce([np.isin(codes[:, place[name]], chosen) for name, chosen in conditions])
    return allowed


def decided_by_schema(schema: Schema, codes: Integers, target: str, known: Iterable[str]) -> Flags:
    """Of each row: whether the structural zeros leave one value of the target, given the known attributes alone."""
    place = {name: j for j, name in enumerate(schema.names)}
    given = set(known)
    left = np.ones((len(codes), schema[target].size), bool)
    for rule in schema.impossible:
        conditions = dict(rule.codes(schema))
        if target not in conditions or not set(conditions) - {target} <= given:
            continue
        meets = np.ones(len(codes), bool)
        for name, chosen in conditions.items():
            if name != target:
                meets &= np.isin(codes[:, place[name]], chosen)
        left[np.ix_(meets, np.array(conditions[target]))] = False
    decided: Flags = left.sum(axis=1) <= 1
    return decided


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
