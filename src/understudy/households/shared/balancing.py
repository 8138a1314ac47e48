"""Households whose members together have the measured tables of members.

The model of a household rests on tables that count a household once. Where tables of single members were measured too,
many more households than needed are drawn from the model. Each gets a weight, the exponential of a sum over its members
(and over what is fixed), so the weights are the smallest change, by relative entropy, that brings the tables of members
to their noisy counts, each as near as its noise allows. Households are then picked by these weights, and exchanged for
others as long as that brings the tables of the pick nearer to those of the weights. This is post-processing: only noisy
counts and what is public are used.

Whole households are weighted and picked, so whoever belongs together stays together, and none becomes impossible.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats, Integers
from understudy.core.linked_schema import SIZE, LinkedSchema
from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.core.table import CodedTable
from understudy.households.derived import needed_numbers
from understudy.households.linked_table import LinkedTable
from understudy.households.shared.alike import Choice
from understudy.households.shared.differences import smooth_pairs, smoothed
from understudy.households.shared.families import families_of
from understudy.households.shared.nearest import nearest_slopes
from understudy.households.shared.tilting import CHOICES, member_tilt
from understudy.models.published_model import Fitted
from understudy.privacy.randomness.draws import unit_interval

TIMES, MANY, LEAST_TIMES = 8, 200_000, 2  # households drawn for each that is needed, as far as there are not too many
LEAST_POOL = 10_000
MOST_MEMBERS = 200_000  # of these households together
MOST_SOLVED = MANY  # households from which the weights are found
FEW = 10  # of these in a cell say too little of the others
LARGEST_LOG = 20.0  # of a weight, while the weights are sought
MOST_WEIGHT = 20.0  # times an equal weight: one family is not drawn again and again
HELD = 1.0  # the variance that counts of fixed attributes are given: they are known
ROUNDS, FEW_ROUNDS = 24, 6


def draw_families(
    schema: LinkedSchema,
    fitted: Fitted,
    stream: Stream,
    *purpose: str | int,
    measured: Sequence[Measurement],
    rows: int,
    fixed: Sequence[str],
) -> LinkedTable:
    """So many whole households from a fitted model, and near the tables of members, if any were measured.

    ``fixed`` are the attributes whose counts are known; households are exchanged only for others that agree on them.
    """
    noise = _noise_of_pairs(schema, measured)
    of_members = [one for one in measured if schema.is_of_members(one.margin)]
    counted = needed_numbers(schema)
    if not rows or not (of_members or counted):
        drawn = fitted.draw(schema.wide, rows, stream, *purpose, "rows")
        return families_of(schema, fitted, drawn, stream, *purpose, choice=Choice(noise=noise))
    large = _mean_size(schema, fitted)
    pool = max(LEAST_TIMES * rows, min(max(TIMES * rows, LEAST_POOL), MANY, math.ceil(MOST_MEMBERS / large)))
    drawn = fitted.draw(schema.wide, pool, stream, *purpose, "pool")
    total = sum(part.size for part in fitted.parts)
    tilt = member_tilt(schema, fitted, drawn, stream, *purpose, "tilt", of_members=of_members, noise=noise, total=total)
    choice = Choice(noise=noise, tilt=tilt, draws=CHOICES if tilt else 1)
    families = families_of(schema, fitted, drawn, stream, *purpose, "pool", choice=choice)
    tables = Tables.of(
        families,
        drawn,
        _derived_anew(families, drawn),
        of_members=of_members,
        of_homes=[one for one in measured if one.margin and one.cells == "all" and schema.is_of_households(one.margin)],
        strata=_strata(schema, drawn, fixed),
        total=total,
    )
    weights = np.minimum(tables.weights(tables.some(MOST_SOLVED).slopes()), MOST_WEIGHT * tables.each)
    chosen = _pick(tables, weights, rows, stream, *purpose)
    return _only(families, chosen[np.argsort(stream.words(rows, *purpose, "order"), kind="stable")])


def _mean_size(schema: LinkedSchema, fitted: Fitted) -> float:
    """How many members a household of the model has on average; at least one."""
    sizes, shares = np.array(schema.size_range, dtype=np.float64), np.zeros(len(schema.size_range))
    for part in fitted.parts:
        counts = part.model.project((SIZE,))
        shares += part.size * counts / counts.sum()
    return max(float(sizes @ shares) / max(float(shares.sum()), 1.0), 1.0)


def _derived_anew(families: LinkedTable, drawn: CodedTable) -> CodedTable:
    """The rows of households with what is derived as it follows from their members."""
    derived = families.derived_columns()
    return CodedTable(schema=drawn.schema, columns={**drawn.columns, **derived}) if derived else drawn


def _noise_of_pairs(schema: LinkedSchema, measured: Sequence[Measurement]) -> float:
    """The standard deviation of a cell of the table of two members, as a share of all pairs; 0 where there is none."""
    two = {slot.column(schema.anchor) for slot in schema.slots}
    for one in measured:
        if schema.is_of_pairs(one.margin):
            variance = smooth_pairs(schema, one)[1]
        elif schema.roles is None and len(two) > 1 and set(one.margin) == two:
            variance = smoothed(schema, [one])[0].mechanism.variance / 2
        else:
            continue
        return math.sqrt(variance) / max(float(one.values.sum()), 1.0)
    return 0.0


def _strata(schema: LinkedSchema, rows: CodedTable, fixed: Sequence[str]) -> Integers:
    """A number for each household that says what is known of it."""
    names = [name for name in (*schema.households.names, SIZE) if name in fixed]
    flat = np.zeros(rows.rows, dtype=np.int64)
    for name in names:
        _, codes = np.unique(rows.columns[name], return_inverse=True)
        flat = flat * (int(codes.max(initial=0)) + 1) + codes
    return np.unique(flat, return_inverse=True)[1].reshape(-1).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tables:
    """The cells that members and households are counted in, one after the other, and what the counts should be."""

    members: NDArray[np.int64]  # for each member and table of members, its cell
    homes: NDArray[np.int64]  # for each household and table of households, its cell; the last one is its stratum
    owner: Integers
    wanted: Floats
    variances: Floats
    begins: tuple[int, ...]  # where each table of members begins, and where the last one ends
    each: float  # what a household of the pool stands for before it is weighted
    as_drawn: bool  # whether tables of households count what the model drew; what is derived can differ from it
    least: int = 1  # households in a cell from which on something is said of it

    @classmethod
    def of(
        cls,
        families: LinkedTable,
        modelled: CodedTable,
        rows: CodedTable,
        *,
        of_members: Sequence[Measurement],
        of_homes: Sequence[Measurement],
        strata: Integers,
        total: float,
    ) -> Tables:
        """Tables of members should have their noisy counts, and tables of households those of the model.

        In ``modelled`` what is derived is as the model draws it, and in ``rows`` as it follows from the members.
        """
        persons, each = families.persons(), max(total, 1.0) / rows.rows
        wanted, variances, begins = [], [], [0]

        def placed(counted: CodedTable, one: Measurement) -> Integers:
            codes = tuple(counted.columns[name].astype(np.int64) for name in one.margin)
            variances.append(np.full(one.values.size, max(one.mechanism.variance, HELD)))
            begins.append(begins[-1] + one.values.size)
            return np.asarray(np.ravel_multi_index(codes, one.values.shape), dtype=np.int64) + begins[-2]

        cells = [placed(persons, one) for one in of_members]
        members = np.stack(cells, axis=1) if cells else np.zeros((len(families.owner), 0), dtype=np.int64)
        wanted = [one.values.reshape(-1).astype(np.float64) for one in of_members]
        ends = len(begins)
        homes = np.stack([*(placed(rows, one) for one in of_homes), strata + 0], axis=1)
        homes[:, -1] += begins[-1]
        known = np.full(int(strata.max()) + 1, HELD)
        of_model = np.zeros(begins[-1] + len(known) - begins[ends - 1])
        drawn = [
            np.ravel_multi_index(
                tuple(modelled.columns[name].astype(np.int64) for name in one.margin), one.values.shape
            )
            + begin
            for one, begin in zip(of_homes, begins[ends - 1 :], strict=False)
        ]
        for placed_in in (*drawn, homes[:, -1]):
            of_model += np.bincount(placed_in - begins[ends - 1], minlength=len(of_model)) * each
        return cls(
            members=members,
            homes=homes,
            owner=families.owner,
            wanted=np.concatenate([*wanted, of_model]),
            variances=np.concatenate([*variances, known]),
            begins=tuple(begins[:ends]),
            each=each,
            as_drawn=rows is modelled,
        )

    def some(self, most: int) -> Tables:
        """The same of the first households only, each of which then stands for more."""
        if len(self.homes) <= most:
            return self
        until = int(np.searchsorted(self.owner, most))
        found = replace(
            self, members=self.members[:until], homes=self.homes[:most], owner=self.owner[:until],
            each=self.each * len(self.homes) / most, least=FEW,
        )  # fmt: skip
        if not self.as_drawn:
            return found
        of_model = found.counts(np.full(most, found.each))[self.begins[-1] :]
        return replace(found, wanted=np.append(self.wanted[: self.begins[-1]], of_model))

    def held(self, weights: Floats) -> Floats:
        """The weights with every stratum as large as the model makes it."""
        strata = self.homes[:, -1] - self.homes[:, -1].min()
        now = np.bincount(strata, weights=weights)
        return np.asarray(weights * (np.bincount(strata) * self.each / now)[strata])

    def counts(self, weights: Floats) -> Floats:
        """All tables, if every household of the pool counts as often as its weight says."""
        from understudy.households.shared.tables_compiled import add_counts

        found = np.zeros(len(self.wanted))
        add_counts(self.homes, weights, found)
        add_counts(self.members, weights[self.owner], found)
        return found

    def slopes(self) -> Floats:
        """What makes the weights: those nearest to equal ones whose tables are as near to the wanted ones as they must
        (``nearest``)."""
        drawn = self.counts(np.full(len(self.homes), self.each))

        def counted(slopes: Floats) -> tuple[float, Floats]:
            weights = self.weights(slopes)
            return float(weights.sum()), self.counts(weights)

        slopes = nearest_slopes(counted, self.wanted, self.variances, self.begins)
        return np.where(drawn >= self.least * self.each, slopes, 0.0)

    def weights(self, slopes: Floats) -> Floats:
        """The weight of each household."""
        from understudy.households.shared.tables_compiled import add_values

        of_members, logs = np.zeros(len(self.members)), np.zeros(len(self.homes))
        add_values(self.members, slopes, of_members)
        add_values(self.homes, slopes, logs)
        logs += np.bincount(self.owner, weights=of_members, minlength=len(self.homes))
        return np.asarray(self.each * np.exp(np.clip(logs, -LARGEST_LOG, LARGEST_LOG)))


def _pick(tables: Tables, weights: Floats, rows: int, stream: Stream, *purpose: str | int) -> Integers:
    """The households that are kept, some of them perhaps twice: by weight, then exchanged within their stratum."""
    from understudy.households.shared.exchanging_compiled import exchange

    held = tables.held(weights)
    shares = held * (rows / held.sum())
    # Strata are as large as the model makes them; within that, members come as near to their tables as exchanges go.
    of_members, end = tables.counts(weights * (rows / weights.sum())), tables.begins[-1]
    wanted = np.append(of_members[:end], tables.counts(shares)[end:])
    strata = tables.homes[:, -1]
    chosen = _systematic(strata, shares, rows, stream, *purpose, "pick")
    counts = tables.counts(np.bincount(chosen, minlength=len(shares)).astype(np.float64))
    begins = np.searchsorted(tables.owner, np.arange(len(shares) + 1))
    for turn in range(ROUNDS if len(shares) <= MANY else FEW_ROUNDS):
        others = _systematic(strata, shares, rows, stream, *purpose, "exchange", turn)
        exchange(chosen, others, tables.members, begins, tables.homes, counts, wanted)
    return chosen


def _systematic(strata: Integers, shares: Floats, rows: int, stream: Stream, *purpose: str | int) -> Integers:
    """So many households, in the order of their strata: each stratum has its share, up to one household."""
    order = np.lexsort((stream.words(len(shares), *purpose, "order"), strata))
    ends = np.cumsum(shares[order])
    start = float(unit_interval(stream, 1, *purpose, "start")[0])
    points = (start + np.arange(rows)) * (ends[-1] / rows)
    return np.asarray(order[np.minimum(np.searchsorted(ends, points, side="right"), len(order) - 1)], dtype=np.int64)


def _only(families: LinkedTable, chosen: Integers) -> LinkedTable:
    """The chosen households in their order, each with its members."""
    begins = np.searchsorted(families.owner, np.arange(families.households.rows + 1))
    counts = np.diff(begins)[chosen]
    owner = np.repeat(np.arange(len(chosen)), counts)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(begins[chosen], counts)
    return LinkedTable(
        schema=families.schema,
        households=_rows(families.households, chosen),
        members=_rows(families.members, place),
        owner=owner.astype(np.int64),
        role=families.role[place],
    )


def _rows(table: CodedTable, places: Integers) -> CodedTable:
    return CodedTable(schema=table.schema, columns={name: codes[places] for name, codes in table.columns.items()})
