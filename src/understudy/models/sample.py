"""Rows from a fitted table. Post-processing: the table is public already, so this costs no privacy."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from understudy.core.mechanism import Stream
from understudy.errors import InputError
from understudy.privacy.randomness.draws import unit_interval

RowsBy = Literal["rounding", "multinomial"]
ROWS_BY: tuple[str, ...] = ("rounding", "multinomial")
DESCRIPTIONS = {
    "rounding": "expected counts rounded up or down at random, not drawn independently (low variance)",
    "multinomial": "independent draws from the fitted cell probabilities",
}


def draw_cells(
    weights: NDArray[np.float64], rows: int, by: str, stream: Stream, *purpose: str | int
) -> NDArray[np.int64]:
    """Flat cell numbers of ``rows`` synthetic rows, in random order.

    ``multinomial`` draws each row independently. ``rounding`` gives every cell its expected count rounded down or up,
    without bias, by systematic sampling over the cells in a random order. Without the random order, rounding would
    create dependence between attributes.
    """
    flat = np.asarray(weights, dtype=np.float64).ravel()
    if rows == 0:
        return np.zeros(0, dtype=np.int64)
    if not flat.sum() > 0:
        raise InputError("every cell of the fitted table is empty; no rows can be drawn from it.")
    if by == "multinomial":
        return _independent(flat, rows, stream, *purpose)
    if by == "rounding":
        return _rounded(flat, rows, stream, *purpose)
    raise InputError(f"rows_by ({by!r}) must be one of {', '.join(ROWS_BY)}.")


def _independent(weights: NDArray[np.float64], rows: int, stream: Stream, *purpose: str | int) -> NDArray[np.int64]:
    # Only cells with weight take part, so that rounding in the cumulative sum can never reach an empty cell.
    filled = np.flatnonzero(weights)
    upper = np.cumsum(weights[filled])
    points = unit_interval(stream, rows, *purpose) * upper[-1]
    place = np.minimum(np.searchsorted(upper, points, side="right"), len(filled) - 1)
    return np.asarray(filled[place])


def _rounded(weights: NDArray[np.float64], rows: int, stream: Stream, *purpose: str | int) -> NDArray[np.int64]:
    filled = np.flatnonzero(weights)
    expected = weights[filled] * (rows / weights[filled].sum())
    order = np.argsort(stream.words(len(filled), *purpose, "order"), kind="stable")
    upper = np.cumsum(expected[order])
    upper *= rows / upper[-1]  # the last point must not fall beyond the end through rounding
    points = np.arange(rows) + unit_interval(stream, 1, *purpose, "start")
    picked = filled[order[np.minimum(np.searchsorted(upper, points, side="right"), len(filled) - 1)]]
    return picked[np.argsort(stream.words(rows, *purpose, "shuffle"), kind="stable")]


def draw_given(
    table: NDArray[np.float64], state: NDArray[np.int64], by: str, stream: Stream, *purpose: str | int
) -> NDArray[np.int64]:
    """For each row the cell drawn from the row of ``table`` that its ``state`` names.

    ``rounding``: in each state, every cell gets its expected count rounded down or up without bias, by systematic
    sampling over the cells in a random order of that state. The cells are assigned to the rows in random order. So,
    given the state, the result is independent of everything else, as in the model, and margins of cliques keep a low
    variance.
    """
    if len(state) == 0:
        return np.zeros(0, dtype=np.int64)
    points, order = _points(state, len(table), by, stream, *purpose), None
    if by == "rounding":
        order = np.argsort(stream.words(table.size, *purpose, "order").reshape(table.shape), axis=1, kind="stable")
    weights = table if order is None else np.take_along_axis(table, order, axis=1)
    upper = np.cumsum(weights, axis=1)
    scale = np.where(upper[:, -1:] > 0, upper[:, -1:], 1.0)
    # One search for all rows: state s takes the numbers from 2s to 2s + 1, so states cannot be confused by rounding.
    marks = upper / scale + 2.0 * np.arange(len(table))[:, None]
    place = np.searchsorted(marks.ravel(), points + 2.0 * state, side="right") - state * table.shape[1]
    place = np.minimum(place, _last_filled(weights)[state])
    return np.asarray(place if order is None else order[state, place], dtype=np.int64)


def draw_inside(
    inside: NDArray[np.int64], weights: NDArray[np.float64], state: NDArray[np.int64], by: str, stream: Stream,
    *purpose: str | int,
) -> NDArray[np.int64]:  # fmt: skip
    """For each row one of the codes ``inside`` its state, with probabilities proportional to their weights.

    Every state has a code with positive weight. The law is that of ``draw_given`` with a table that has one cell in
    each column that is not empty; the table itself is not needed.
    """
    if len(state) == 0:
        return np.zeros(0, dtype=np.int64)
    totals = np.bincount(inside, weights=weights)
    points = _points(state, len(totals), by, stream, *purpose)
    filled = np.flatnonzero(weights > 0)
    mixed = stream.words(len(filled), *purpose, "order") if by == "rounding" else np.zeros(len(filled))
    order = filled[np.lexsort((mixed, inside[filled]))]
    held = inside[order]
    begins, ends = (np.searchsorted(held, np.arange(len(totals)), side=side) for side in ("left", "right"))
    upper = np.cumsum(weights[order] / totals[held])
    marks = upper - np.append(0.0, upper)[begins][held] + 2.0 * held  # as in draw_given
    place = np.searchsorted(marks, points + 2.0 * state, side="right")
    return np.asarray(order[np.clip(place, begins[state], ends[state] - 1)], dtype=np.int64)


def _points(state: NDArray[np.int64], states: int, by: str, stream: Stream, *purpose: str | int) -> NDArray[np.float64]:
    """For each row a point from 0 to 1 that names a cell: independent, or spread evenly over the rows of a state."""
    rows = len(state)
    if by != "rounding":
        return unit_interval(stream, rows, *purpose)
    dealt = np.lexsort((stream.words(rows, *purpose, "deal"), state))  # rows of one state together, at random
    sizes = np.bincount(state, minlength=states)
    first = np.cumsum(sizes) - sizes
    rank = np.empty(rows)
    rank[dealt] = np.arange(rows) - first[state[dealt]]
    return np.asarray((rank + unit_interval(stream, states, *purpose, "start")[state]) / sizes[state])


def _last_filled(weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """The last cell with weight in each row, so that rounding in a cumulative sum can never reach an empty one."""
    return np.asarray(weights.shape[1] - 1 - np.argmax(weights[:, ::-1] > 0, axis=1))
