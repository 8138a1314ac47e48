"""Rows from a table: right in distribution, and rounding invents no dependence."""

import numpy as np
import pytest
from scipy.stats import chi2

from understudy.errors import InputError
from understudy.models.sample import draw_cells
from understudy.privacy.randomness.streams import SeededStream

WEIGHTS = np.array([0.0, 5.0, 1.0, 0.0, 3.5, 0.5])


@pytest.mark.parametrize("by", ["rounding", "multinomial"])
def test_empty_cells_stay_empty_and_expectations_hold(by):
    stream = SeededStream(1)
    repeats, rows = 4000, 7
    counts = np.zeros((repeats, 6))
    for repeat in range(repeats):
        counts[repeat] = np.bincount(draw_cells(WEIGHTS, rows, by, stream, "t", repeat), minlength=6)
    assert counts[:, [0, 3]].sum() == 0
    assert (counts.sum(axis=1) == rows).all()
    expected = rows * WEIGHTS / WEIGHTS.sum()
    error = np.sqrt(rows / repeats)
    assert np.abs(counts.mean(axis=0) - expected).max() < 5 * error
    if by == "rounding":
        assert (np.abs(counts - expected) < 1).all()


def test_multinomial_has_the_multinomial_variance_and_rounding_less():
    stream = SeededStream(2)
    rows, repeats = 50, 3000
    variances = {}
    for by in ("rounding", "multinomial"):
        counts = [np.bincount(draw_cells(WEIGHTS, rows, by, stream, by, i), minlength=6)[1] for i in range(repeats)]
        variances[by] = np.var(counts)
    expected = rows * 0.5 * 0.5
    low, high = chi2.ppf([1e-6, 1 - 1e-6], repeats - 1) / (repeats - 1) * expected
    assert low < variances["multinomial"] < high
    assert variances["rounding"] <= 0.25 + 1e-9


def test_rounding_does_not_invent_dependence():
    """Independent attributes stay independent: the average table over many roundings has no association."""
    stream = SeededStream(3)
    one, other = np.array([0.2, 0.3, 0.5]), np.array([0.6, 0.3, 0.1])
    table = np.outer(one, other)
    total = np.zeros(9)
    repeats, rows = 4000, 13
    for repeat in range(repeats):
        total += np.bincount(draw_cells(table, rows, "rounding", stream, "t", repeat), minlength=9)
    mean = (total / (repeats * rows)).reshape(3, 3)
    dependence = mean - np.outer(mean.sum(axis=1), mean.sum(axis=0))
    assert np.abs(dependence).max() < 5 * 0.5 / rows / np.sqrt(repeats)


def test_same_stream_same_rows_and_other_purpose_other_rows():
    first = draw_cells(WEIGHTS, 40, "multinomial", SeededStream(4), "rows", 1)
    again = draw_cells(WEIGHTS, 40, "multinomial", SeededStream(4), "rows", 1)
    other = draw_cells(WEIGHTS, 40, "multinomial", SeededStream(4), "rows", 2)
    assert (first == again).all()
    assert (first != other).any()


def test_no_rows_and_bad_requests():
    assert len(draw_cells(WEIGHTS, 0, "rounding", SeededStream(1), "t")) == 0
    with pytest.raises(InputError, match="every cell"):
        draw_cells(np.zeros(3), 5, "rounding", SeededStream(1), "t")
    with pytest.raises(InputError, match="rows_by"):
        draw_cells(WEIGHTS, 5, "guess", SeededStream(1), "t")
