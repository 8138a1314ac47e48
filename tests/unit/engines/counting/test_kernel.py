"""Dense counting: both kernels against brute force, whatever the sizes, threads, flushes and coverings."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.core.schema import Attribute, Schema
from understudy.core.table import CodedTable
from understudy.engines.counting import kernel as kernels
from understudy.engines.counting.kernel import Layout, NumbaKernel, NumpyKernel, kernel_for
from understudy.engines.counting.tally import JOINT_CELLS, Tally, covering
from understudy.errors import InputError, InternalError

KERNELS = ("numba", "numpy")
SIZES = (1, 2, 3, 255, 256, 257, 70_000)


def smallest(size):
    return np.min_scalar_type(size - 1)


def random_columns(sizes, rows, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, size, rows).astype(smallest(size)) for size in sizes]


def brute_force(sizes, columns, margin):
    """By the textbook: one 64-bit cell number per row."""
    shape = tuple(sizes[column] for column in margin)
    if not margin:
        return np.array(len(columns[0]))
    flat = np.ravel_multi_index([columns[column].astype(np.int64) for column in margin], shape)
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)


def counted(sizes, margins, batches, **options):
    with Tally(sizes, margins, **options) as tally:
        for batch in batches:
            tally.add(batch)
        return tally.tables()


def assert_same(tables, sizes, columns, margins):
    for table, margin in zip(tables, margins, strict=True):
        assert table.dtype == np.int64
        np.testing.assert_array_equal(table, brute_force(sizes, columns, margin))


@st.composite
def questions(draw):
    sizes = draw(st.lists(st.sampled_from(SIZES), min_size=1, max_size=5))
    margins = [m for k in range(5) for m in itertools.permutations(range(len(sizes)), k)]
    margins = [m for m in margins if np.prod([sizes[c] for c in m], dtype=float) <= 2e6]
    chosen = draw(st.lists(st.sampled_from(margins), max_size=6))
    return sizes, chosen, draw(st.lists(st.integers(0, 40), max_size=5)), draw(st.integers(0, 2**32 - 1))


@given(questions(), st.sampled_from([1, 3]), st.sampled_from([7, 2**31]), st.sampled_from([0, 300, 2**22]))
@settings(max_examples=120, deadline=None)
def test_both_kernels_are_brute_force(question, threads, flush_rows, cells_per_thread):
    sizes, margins, lengths, seed = question
    columns = random_columns(sizes, sum(lengths), seed)
    ends = np.cumsum(lengths, dtype=int)[:-1] if lengths else []
    batches = list(zip(*(np.split(column, ends) for column in columns), strict=True)) if lengths else []
    for name in KERNELS:
        tables = counted(
            sizes,
            margins,
            batches,
            kernel=name,
            threads=threads,
            flush_rows=flush_rows,
            cells_per_thread=cells_per_thread,
        )
        assert_same(tables, sizes, columns, margins)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("rows", [4095, 4096, 4097, 300_000])
def test_rows_around_a_block_and_a_piece(name, rows):
    sizes = (2, 10, 256, 257)
    columns = random_columns(sizes, rows)
    margins = [*itertools.combinations(range(4), 2), (3, 1, 0), (0,)]
    assert_same(counted(sizes, margins, [columns], kernel=name), sizes, columns, margins)


@pytest.mark.parametrize("name", KERNELS)
def test_many_threads_and_batches_lose_no_row(name):
    sizes = (2, 5, 30, 400)
    columns = random_columns(sizes, 200_000)
    batches = [[column[start : start + 1000] for column in columns] for start in range(0, 200_000, 1000)]
    margins = list(itertools.combinations(range(4), 2))
    for cells in (0, 2**22):  # shared tables, and one set of tables per thread
        tables = counted(sizes, margins, batches, kernel=name, threads=8, cells_per_thread=cells, flush_rows=1500)
        assert_same(tables, sizes, columns, margins)


@pytest.mark.parametrize("name", KERNELS)
def test_large_attributes_in_one_table(name):
    sizes = (10_000, 3, 10_000)
    columns = random_columns(sizes, 50_000)
    margins = [(0,), (2, 1), (0, 1), (1, 0)]
    assert_same(counted(sizes, margins, [columns], kernel=name), sizes, columns, margins)


@pytest.mark.parametrize("name", KERNELS)
def test_counts_beyond_32_bits_are_kept_by_flushing(name):
    """A thread's counts start near the end of 32 bits: with a flush in time nothing is lost, without one it is."""
    columns = [np.zeros(10, np.uint8)]
    near = 2**32 - 5
    for flush_rows, expected in ((near + 9, near + 10), (2**33, 5)):
        with Tally((2,), [(0,)], kernel=name, threads=1, flush_rows=flush_rows) as tally:
            tally.add([column[:0] for column in columns])
            tally.add([column[:1] for column in columns])
            counter = tally._idle[0]
            counter.counts[0], counter.rows = near, near
            tally.add(columns)
            assert tally.tables()[0].tolist() == [expected, 0]


def test_many_margins_at_once():
    sizes = [2 + number % 4 for number in range(40)]
    columns = random_columns(sizes, 3000)
    margins = [*itertools.combinations(range(40), 2), *itertools.combinations(range(12), 3)]
    assert_same(counted(sizes, margins, [columns], kernel="numba"), sizes, columns, margins)
    assert len(covering(sizes, margins)) < len(margins) / 5


def test_thousands_of_single_columns_are_covered_each_once():
    sizes = [2 + column % 7 for column in range(10_000)]
    tables = covering(sizes, [(column,) for column in range(0, 10_000, 2)])
    assert sorted(column for table in tables for column in table) == list(range(0, 10_000, 2))
    assert len(tables) < 1_000
    assert max(prod(sizes[column] for column in table) for table in tables) <= JOINT_CELLS


@given(st.lists(st.integers(1, 50), min_size=1, max_size=9), st.data())
@settings(max_examples=100, deadline=None)
def test_a_covering_covers_every_margin_within_its_limit(sizes, data):
    subset = st.lists(st.integers(0, len(sizes) - 1), max_size=4, unique=True).map(tuple)
    margins = data.draw(st.lists(subset, max_size=12))
    limit = data.draw(st.sampled_from([1, 100, 5000]))
    tables = covering(sizes, margins, limit)
    for margin in margins:
        assert not margin or any(set(margin) <= set(table) for table in tables)
    for table in tables:
        inside = {tuple(sorted(margin)) for margin in margins if set(margin) <= set(table)}
        assert table in inside or np.prod([sizes[column] for column in table]) <= limit
        assert inside  # no table is counted for nothing
    assert len(tables) <= len(set(map(frozenset, margins)))


def test_ten_mixed_columns_need_a_fifth_of_the_tables():
    sizes = (2, 2, 3, 5, 7, 10, 16, 30, 60, 100)
    assert len(covering(sizes, list(itertools.combinations(range(10), 2)))) == 9


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_code_outside_its_attribute_is_our_bug_and_never_a_write_outside_the_table(name, threads):
    for sizes, column in (((3, 2), np.array([0, 3], np.uint8)), ((3, 2), np.array([0, -1]))):
        with pytest.raises(InternalError, match="outside its attribute"):
            counted(sizes, [(0, 1)], [[column, np.array([0, 1], np.uint8)]], kernel=name, threads=threads)


def test_an_error_of_the_reader_leaves_no_thread_behind():
    import threading

    def broken():
        yield random_columns((2,), 100)
        raise InputError("unreadable")

    with pytest.raises(InputError, match="unreadable"):
        counted((2,), [(0,)], broken(), kernel="numba", threads=2)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("understudy-count")]


def test_a_table_beyond_32_bits_is_refused():
    with pytest.raises(InternalError, match="2\\^32"):
        Layout.of((2**16, 2**16), [(0, 1)])


def test_the_kernel_goes_by_work_and_can_be_chosen(monkeypatch):
    monkeypatch.delenv(kernels.VARIABLE, raising=False)
    assert isinstance(kernel_for(10), NumpyKernel)
    assert isinstance(kernel_for(10, "numba"), NumbaKernel)
    assert isinstance(kernel_for(2**40), NumbaKernel)
    assert isinstance(kernel_for(2**40, "numpy"), NumpyKernel)
    monkeypatch.setenv(kernels.VARIABLE, "numpy")
    assert isinstance(kernel_for(2**40), NumpyKernel)
    monkeypatch.setenv(kernels.VARIABLE, "fortran")
    with pytest.raises(InputError, match=r"UNDERSTUDY_KERNEL \('fortran'\) must be one of auto, numba, numpy"):
        kernel_for(10)


def test_without_numba_counting_is_right_and_says_that_it_is_slow():
    """In a process of its own, where numba cannot be imported."""
    script = (
        "import sys, warnings; sys.modules['numba'] = None\n"
        "import numpy as np\n"
        "from understudy.engines.counting.tally import Tally\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    with Tally((2, 3), [(1, 0)], rows=10**9) as tally:\n"
        "        for _ in range(3): tally.add([np.array([0, 1, 1], np.uint8), np.array([2, 2, 2], np.uint8)])\n"
        "        print(tally.tables()[0].tolist())\n"
        "print(len(caught), caught[0].message)\n"
        "from understudy.engines.counting.kernel import kernel_for\n"
        "try: kernel_for(1, 'numba')\n"
        "except ValueError as problem: print(problem)\n"
    )
    environment = {key: value for key, value in os.environ.items() if key != kernels.VARIABLE}
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    lines = result.stdout.splitlines()
    assert lines[0] == "[[0, 0], [0, 0], [3, 6]]"
    assert lines[1].startswith("1 numba cannot be imported")
    assert "Install numba" in lines[1]
    assert lines[2].startswith("UNDERSTUDY_KERNEL is numba, which cannot be imported")


def test_numba_is_not_loaded_for_little_work():
    script = (
        "import sys, numpy as np, understudy.engines.systems.local.source\n"
        "from understudy.engines.counting.tally import Tally\n"
        "with Tally((2,), [(0,)]) as tally: tally.add([np.zeros(1000, np.uint8)]); tally.tables()\n"
        "print('numba' in sys.modules)\n"
    )
    environment = {key: value for key, value in os.environ.items() if key != kernels.VARIABLE}
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert result.stdout.strip() == "False"


def test_the_tally_agrees_with_a_coded_table():
    schema = Schema(
        attributes=tuple(Attribute(name=n, levels=tuple(range(s))) for n, s in (("a", 3), ("b", 4), ("c", 300)))
    )
    columns = random_columns(schema.shape(), 5000, 3)
    table = CodedTable(schema=schema, columns=dict(zip(schema.names, columns, strict=True)))
    for tables in (counted(schema.shape(), [(2, 0), (1,)], [columns], kernel=name) for name in KERNELS):
        np.testing.assert_array_equal(tables[0], table.counts(("c", "a")))
        np.testing.assert_array_equal(tables[1], table.counts(("b",)))
