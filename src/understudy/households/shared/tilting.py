"""What further members are taken, where all are alike, so that members have their measured tables (``Tilt``).

Every member is drawn several times from the model. With l the log weights that slopes give to these draws, the expected
tables are those of the members in the rows of households, plus for each further member the mean of its draws' cells,
weighted by exp(l). They are the gradient of a convex function, the sum of the logarithms of the sums of exp(l), and are
brought to the noisy counts as near as noise says (``nearest``). The number of members does not matter: each is weighed
by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats, Integers
from understudy.core.linked_schema import COMPOSITION, SIZE, LinkedSchema
from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.core.table import CodedTable
from understudy.households.shared.alike import IN_THE_ROW, Choice, Tilt, are_independent, draws_of
from understudy.households.shared.families import families_of, parts_of
from understudy.households.shared.nearest import nearest_slopes
from understudy.models.published_model import Fitted

CHOICES = 16
MOST_MEMBERS = 25_000  # from which the slopes are found


def member_tilt(
    schema: LinkedSchema, fitted: Fitted, rows: CodedTable, stream: Stream, *purpose: str | int,
    of_members: Sequence[Measurement], noise: float, total: float,
) -> Tilt | None:  # fmt: skip
    """The tilt that brings the members of households with these rows to their tables; None where there is nothing to
    choose. ``total`` is the number of households that the tables are of."""
    if not are_independent(schema) or not of_members:
        return None
    from understudy.households.shared.tables_compiled import add_counts, add_values

    some = _some(schema, rows)
    row_only = families_of(schema, fitted, some, stream, *purpose, choice=Choice(row_only=True))
    shapes = [one.values.shape for one in of_members]
    begins = np.append(0, np.cumsum([int(np.prod(shape)) for shape in shapes])).astype(np.int64)

    def cells(persons: Mapping[str, NDArray[np.integer]]) -> Integers:
        placed = [
            np.ravel_multi_index(tuple(persons[name].astype(np.int64) for name in one.margin), shape) + begin
            for one, shape, begin in zip(of_members, shapes, begins, strict=False)
        ]
        return np.stack(placed, axis=1).astype(np.int64)

    drawn = [
        np.concatenate(one)
        for one in zip(*_all_draws(schema, fitted, some, stream, *purpose, noise=noise, cells=cells), strict=True)
    ]
    if not len(drawn[0]):
        return None
    choices, each = np.stack(drawn), max(total, 1.0) / some.rows
    size, flat = int(begins[-1]), choices.reshape(-1, choices.shape[-1])

    def counts(placed: Integers, weights: Floats) -> Floats:
        found = np.zeros(size)
        add_counts(placed, weights.reshape(-1), found)
        return found * each

    persons = dict(row_only.persons().columns)
    if SIZE in persons:  # here only of those in the row
        sizes = some.columns[SIZE].astype(np.int64)
        persons[SIZE] = sizes[row_only.owner]
    placed = cells(persons)
    beside = counts(placed, np.ones(len(placed)))

    def counted(slopes: Floats) -> tuple[float, Floats]:
        scores = np.zeros(len(flat))
        add_values(flat, slopes, scores)
        logs = scores.reshape(choices.shape[:2])
        largest = logs.max(axis=0)
        weights = np.exp(logs - largest)
        sums = weights.sum(axis=0)
        loss = each * float((np.log(sums / len(weights)) + largest).sum()) + float(slopes @ beside)
        return loss, counts(flat, weights / sums) + beside

    wanted = np.concatenate([one.values.reshape(-1).astype(np.float64) for one in of_members])
    variances = np.concatenate([np.full(one.values.size, max(one.mechanism.variance, 1.0)) for one in of_members])
    slopes = nearest_slopes(counted, wanted, variances, begins.tolist())
    tables = [
        slopes[begin : begin + int(np.prod(shape))].reshape(shape) for begin, shape in zip(begins, shapes, strict=False)
    ]
    return Tilt(margins=tuple(one.margin for one in of_members), slopes=tuple(tables))


def _some(schema: LinkedSchema, rows: CodedTable) -> CodedTable:
    """The first households, as far as they have not too many members."""
    sizes = schema.sizes[rows.columns[COMPOSITION].astype(np.int64)]
    until = max(int(np.searchsorted(np.cumsum(np.maximum(sizes - IN_THE_ROW, 0)), MOST_MEMBERS)), 1)
    if until >= rows.rows:
        return rows
    return CodedTable(schema=rows.schema, columns={name: codes[:until] for name, codes in rows.columns.items()})


def _all_draws(
    schema: LinkedSchema, fitted: Fitted, rows: CodedTable, stream: Stream, *purpose: str | int,
    noise: float, cells: Callable[[Mapping[str, NDArray[np.integer]]], Integers],
) -> Iterator[list[Integers]]:  # fmt: skip
    """For each stratum the cells of all draws of its further members."""
    choice = Choice(noise=noise, draws=CHOICES)
    for model, some, _, where in parts_of(fitted, rows, *purpose):
        draws = draws_of(schema, model, some.columns, choice, stream, *where, "further")
        yield [cells(one.persons) for one in draws]
