"""Noise that is drawn in tasks, run here: the same values however the work is divided and however often it is done."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest

from understudy.commutes.source.spark import SparseNoiseTask, added_up
from understudy.engines.systems.spark.tasks import TaskError, gathered
from understudy.privacy.mechanisms.sparse_geometric import SparseGeometric
from understudy.privacy.randomness.draws import KeyedStream

NOISE = SparseGeometric(scale=2, threshold=5, domain=200_000)
PURPOSE = ("sparse", "pairs")


def rows(cells, jobs):
    """As they come after the shuffle: sorted by part and cell, and a row of cell -1 for every part."""
    parts = np.concatenate([cells // NOISE.part_cells, np.arange(NOISE.parts)])
    table = pa.table(
        {
            "part": parts,
            "cell": np.concatenate([cells, np.full(NOISE.parts, -1)]),
            "jobs": np.concatenate([jobs, np.zeros(NOISE.parts, np.int64)]),
        }
    )
    return table.sort_by([("part", "ascending"), ("cell", "ascending")])


@pytest.fixture(scope="module")
def jobs_by_cell():
    rng = np.random.default_rng(5)
    cells = np.sort(rng.choice(NOISE.part_cells * 2, 300, replace=False))  # nothing in the parts beyond
    return cells, rng.integers(1, 40, 300)


def task():
    made = SparseNoiseTask(key=KeyedStream(key=bytes(range(32))).hand_out(*PURPOSE), noise=NOISE, purpose=PURPOSE)
    return pickle.loads(pickle.dumps(made))  # noqa: S301 - how it travels


def drawn(batches):
    found = pa.Table.from_batches(list(task()(batches)))
    return dict(zip(*(column.to_pylist() for column in found.columns), strict=True))


def test_parts_drawn_in_tasks_are_those_drawn_on_one_machine(jobs_by_cell):
    expected = NOISE.draw_parts(*jobs_by_cell, KeyedStream(key=bytes(range(32))), *PURPOSE)
    assert NOISE.parts == 4
    sent = rows(*jobs_by_cell)
    whole = drawn(sent.to_batches())
    assert whole == dict(zip(*(one.tolist() for one in expected), strict=True))
    assert any(cell >= 2 * NOISE.part_cells for cell in whole)  # empty parts have their noise too
    assert drawn(sent.to_batches(max_chunksize=7)) == whole
    again = {}
    for part in range(NOISE.parts):  # one task for each part, twice over
        for _ in range(2):
            again |= drawn(sent.filter(pa.compute.equal(sent["part"], part)).to_batches())
    assert again == whole


def test_a_cell_that_comes_from_several_tasks_gets_one_noise(jobs_by_cell):
    cells, jobs = jobs_by_cell
    twice = np.concatenate([cells, cells]), np.concatenate([jobs - 1, np.ones_like(jobs)])
    assert drawn(rows(*twice).to_batches()) == drawn(rows(cells, jobs).to_batches())


def test_rows_are_gathered_by_their_number_over_batches():
    table = pa.table({"part": [0, 0, 0, 2, 2, 5], "cell": [-1, 3, 4, -1, 9, -1], "jobs": [0, 1, 2, 0, 3, 0]})
    for size in (1, 2, 6):
        found = [(n, [c.tolist() for c in columns]) for n, columns in gathered(table.to_batches(max_chunksize=size))]
        assert found == [(0, [[3, 4], [1, 2]]), (2, [[9], [3]]), (5, [[], []])]
    assert list(gathered([])) == []


def test_jobs_are_added_up_by_key():
    assert [one.tolist() for one in added_up(np.array([7, 2, 7]), np.array([1, 2, 3]))] == [[2, 7], [2, 4]]


def test_a_failure_in_a_task_says_nothing_about_the_data():
    with pytest.raises(TaskError, match=r"^[A-Za-z]+$"):
        list(task()([pa.record_batch([["secret"], ["secret"], ["secret"]], names=["part", "cell", "jobs"])]))
