"""Sparse counts: the dense ones where those exist, exact where they cannot, spilled when memory is short."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.core.schema import Attribute, Schema
from understudy.engines.counting import scanned_source
from understudy.engines.reading.readers import ArrowReader
from understudy.engines.systems.local.inputs import open_local
from understudy.engines.systems.local.source import LocalSource, count_cells
from understudy.errors import InputError, SchemaError

MARKER = "ZQ7secret"
WHOLE = type("Whole", (), {"covers": "whole_domain"})()


class Batches(ArrowReader):
    def batches(self, columns):
        yield from self._table.select(list(columns)).to_batches(max_chunksize=7)


def source_of(sizes, columns):
    schema = Schema(
        attributes=tuple(Attribute(name=f"v{i}", levels=tuple(range(size))) for i, size in enumerate(sizes))
    )
    table = pa.table({name: pa.array(column, pa.int64()) for name, column in zip(schema.names, columns, strict=True)})
    return LocalSource(Batches(table), schema)


@given(st.lists(st.lists(st.integers(-5, 5) | st.integers(0, 2**63 - 1), max_size=9), max_size=5))
@settings(max_examples=25, deadline=None)
def test_cells_are_grouped_as_numpy_would(batches):
    cells, counts = count_cells(np.array(batch, np.int64) for batch in batches)
    expected = np.unique(np.array(list(itertools.chain(*batches)), np.int64), return_counts=True)
    np.testing.assert_array_equal(cells, expected[0])
    np.testing.assert_array_equal(counts, expected[1])
    assert cells.dtype == counts.dtype == np.int64


@pytest.mark.parametrize("dense_first", [0, 2**22])
def test_sparse_is_dense_without_the_empty_cells(monkeypatch, dense_first):
    monkeypatch.setattr(scanned_source, "DENSE_FIRST", dense_first)
    rng = np.random.default_rng(5)
    sizes = (3, 300, 7)
    source = source_of(sizes, [rng.integers(0, size, 2000) for size in sizes])
    for margin in (("v2", "v0"), ("v1", "v2"), ("v0", "v1", "v2"), ("v1",)):
        cells, counts = source.count_sparse(margin).open_for(WHOLE)
        dense = source.count([margin])[0].values.ravel()
        np.testing.assert_array_equal(cells, np.flatnonzero(dense))
        np.testing.assert_array_equal(counts, dense[cells])


def test_a_domain_beyond_32_bits():
    rng = np.random.default_rng(6)
    sizes = (10_000,) * 4
    columns = [rng.choice([0, 1, 9_999], 3000) for _ in sizes]
    sparse = source_of(sizes, columns).count_sparse(("v3", "v0", "v2", "v1"))
    assert sparse.domain_cells == 10**16
    flat = [((int(d) * 10**4 + int(a)) * 10**4 + int(c)) * 10**4 + int(b) for a, b, c, d in zip(*columns, strict=True)]
    expected = np.unique(flat, return_counts=True)
    cells, counts = sparse.open_for(WHOLE)
    np.testing.assert_array_equal(cells, expected[0])
    np.testing.assert_array_equal(counts, expected[1])
    assert cells.max() == 10**16 - 1


def test_an_empty_table_has_no_cells():
    cells, counts = source_of((10**5, 10**5), [[], []]).count_sparse(("v0", "v1")).open_for(WHOLE)
    assert len(cells) == len(counts) == 0


@pytest.mark.full
def test_groups_that_do_not_fit_memory_go_to_the_disk():
    """The groups alone, 16 bytes each, are more than DuckDB may hold."""
    rows = 7_000_000
    batches = [np.arange(start, rows, 20, dtype=np.int64) * 1_000_003 for start in range(20)]
    cells, counts = count_cells(batches, memory="96MB")
    np.testing.assert_array_equal(cells, np.arange(rows) * 1_000_003)
    assert (counts == 1).all()


def test_errors_of_the_reader_come_through_and_others_quote_nothing():
    schema = Schema(attributes=tuple(Attribute(name=n, levels=tuple(map(str, range(5000)))) for n in "ab"))
    table = pa.table({"a": ["1", MARKER], "b": ["2", "3"]})
    with pytest.raises(SchemaError, match="a: 1 row with a level that is not listed") as caught:
        open_local(table, schema).count_sparse(("a", "b"))
    assert MARKER not in str(caught.value)

    def broken():
        yield np.array([1])
        raise RuntimeError(MARKER)

    with pytest.raises(InputError, match="could not be grouped") as hidden:
        count_cells(broken())
    assert MARKER not in str(hidden.value)
    assert hidden.value.__suppress_context__
