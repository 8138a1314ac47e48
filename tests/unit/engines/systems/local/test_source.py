"""Counting: against brute force, in one scan, within limits, and with at most b rows per unit."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from understudy.core.counts import Source
from understudy.core.schema import Attribute, Schema
from understudy.engines.counting import scanned_source
from understudy.engines.engine import DENSE_CELLS
from understudy.engines.reading.readers import ArrowReader
from understudy.engines.systems.local.inputs import open_local
from understudy.engines.systems.local.source import LocalSource
from understudy.errors import DisclosureError, InputError, SchemaError, UnknownNameError, UnsupportedError
from understudy.privacy.promise.definition import Unit
from understudy.privacy.randomness.streams import SeededStream

MARKER = "ZQ7secret"
SCHEMA = Schema(
    attributes=(
        Attribute(name="a", levels=("x", "y", "z"), missing=True),
        Attribute(name="b", edges=(0, 10, 20), integer=True, special=((-8, "none"),)),
        Attribute(name="c", levels=(False, True)),
    ),
    ignore=("id",),
)


class CountingReader(ArrowReader):
    """Small batches, and a note of every scan."""

    def __init__(self, table, size=3):
        super().__init__(table)
        self.scans = []
        self.size = size

    def batches(self, columns):
        self.scans.append(tuple(columns))
        yield from self._table.select(list(columns)).to_batches(max_chunksize=self.size)


def table(rows):
    a, b, c = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table({"a": pa.array(a, pa.string()), "b": pa.array(b, pa.int64()), "c": pa.array(c, pa.bool_())})


def place(row):
    a, b, c = row
    return ("xyz".index(a) if a else 3, 2 if b == -8 else (0 if b < 10 else 1), int(c))


rows_of = st.lists(
    st.tuples(st.sampled_from(["x", "y", "z", None]), st.sampled_from([-8, 0, 3, 9, 10, 15, 20]), st.booleans()),
    max_size=40,
)
MARGINS = [m for k in range(4) for m in itertools.permutations(("a", "b", "c"), k)]


@given(rows_of, st.sampled_from([0, 5, 2**28]), st.integers(1, 50))
@settings(max_examples=80, deadline=None)
def test_counts_are_those_of_brute_force(rows, remembered, size):
    source = LocalSource(CountingReader(table(rows), size), SCHEMA, remembered_bytes=remembered)
    places = [dict(zip("abc", place(row), strict=True)) for row in rows]
    for _ in range(2):
        for counts in source.count(MARGINS):
            expected = Counter(tuple(p[name] for name in counts.margin) for p in places)
            assert counts.values.shape == SCHEMA.shape(counts.margin)
            assert {tuple(map(int, i)): int(counts.values[tuple(i)]) for i in np.argwhere(counts.values)} == expected
        sparse = source.count_sparse(("c", "a", "b"))
        cells, values = sparse.open_for(type("Whole", (), {"covers": "whole_domain"})())
        dense = source.count([("c", "a", "b")])[0].values.ravel()
        np.testing.assert_array_equal(cells, np.flatnonzero(dense))
        np.testing.assert_array_equal(values, dense[dense > 0])
    assert source.total() == len(rows)


def test_many_margins_are_one_scan_and_codes_are_remembered():
    reader = CountingReader(table([("x", 1, True)] * 10))
    source = LocalSource(reader, SCHEMA)
    assert isinstance(source, Source)
    source.count(MARGINS)
    source.total()
    source.count(MARGINS)
    assert reader.scans == [("a", "b", "c")]
    reader = CountingReader(table([("x", 1, True)] * 10))
    source = LocalSource(reader, SCHEMA, remembered_bytes=0)
    source.count(MARGINS)
    assert source.total() == 10
    source.count(MARGINS)
    assert len(reader.scans) == 2


def test_data_that_change_between_scans_are_noticed():
    reader = CountingReader(table([("x", 1, True)] * 10))
    source = LocalSource(reader, SCHEMA, remembered_bytes=0)
    assert source.total() == 10
    reader._table = table([("x", 1, True)] * 9)
    with pytest.raises(InputError, match="changed between two scans"):
        source.count([("a",)])


def test_progress_reaches_the_last_row():
    seen = []
    source = LocalSource(CountingReader(table([("x", 1, True)] * 10), 4), SCHEMA)
    source.count([("a",)], progress=lambda *step: seen.append(step))
    source.count([("a",)], progress=lambda *step: seen.append(step))
    assert seen == [(4, 10), (8, 10), (10, 10)] * 2


def test_margins_are_checked():
    source = LocalSource(CountingReader(table([("x", 1, True)])), SCHEMA)
    with pytest.raises(UnknownNameError, match="did you mean"):
        LocalSource(CountingReader(table([])), SCHEMA).count([("aa",)])
    with pytest.raises(SchemaError, match="twice"):
        source.count([("a", "a")])
    assert source.count([]) == []


def wide(levels, count):
    schema = Schema(
        attributes=tuple(Attribute(name=f"v{i}", levels=tuple(map(str, range(levels)))) for i in range(count))
    )
    return schema, pa.table({name: pa.array([str(levels - 1), "0"]) for name in schema.names})


def test_dense_tables_have_a_limit_that_is_stated_before_any_scan():
    schema, data = wide(512, 4)
    reader = CountingReader(data)
    source = LocalSource(reader, schema)
    assert DENSE_CELLS == 512**3
    with pytest.raises(UnsupportedError, match=r"68,719,476,736 cells, above the limit of 134,217,728"):
        source.count([schema.names])
    three = [tuple(f"v{i}" for i in chosen) for chosen in itertools.combinations(range(4), 3)]
    with pytest.raises(UnsupportedError, match="several calls"):
        source.count(three)
    assert reader.scans == []


def test_sparse_counts_of_a_huge_domain():
    schema, data = wide(512, 6)
    sparse = LocalSource(CountingReader(data), schema).count_sparse(schema.names)
    assert sparse.domain_cells == 2**54
    cells, values = sparse.open_for(type("Whole", (), {"covers": "whole_domain"})())
    assert cells.tolist() == [0, 2**54 - 1]
    assert values.tolist() == [1, 1]
    with pytest.raises(DisclosureError):
        sparse.open_for(object())


def test_sparse_cells_merge_across_batches(monkeypatch):
    monkeypatch.setattr(scanned_source, "DENSE_FIRST", 0)
    rows = [("x", 1, True), ("y", 1, True), ("x", 1, True), ("z", 1, False)] * 5
    sparse = LocalSource(CountingReader(table(rows), 2), SCHEMA).count_sparse(("a",))
    cells, values = sparse.open_for(type("Whole", (), {"covers": "whole_domain"})())
    assert (cells.tolist(), values.tolist()) == ([0, 1, 2], [10, 5, 5])


def test_cells_that_overflow_64_bits_are_refused():
    schema, data = wide(512, 7)
    reader = CountingReader(data)
    source = LocalSource(reader, schema)
    assert schema.cells() == 2**63
    with pytest.raises(UnsupportedError, match=r"9\.22e\+18 cells, too many to number with 64 bits"):
        source.count_sparse(schema.names)
    with pytest.raises(UnsupportedError, match="limit"):
        source.count([schema.names])
    assert reader.scans == []
    assert source.total() == 2


def people(ids, extra=None):
    """Row number r is encoded in its values, so that a count shows exactly which rows were kept."""
    schema = Schema(attributes=(Attribute(name="row", levels=tuple(range(len(ids)))),), ignore=("id",))
    return schema, pa.table({"row": list(range(len(ids))), "id": extra if extra is not None else ids})


def kept_rows(ids, limit, seed, *, batch=4, data=None):
    schema, frame = people(ids)
    source = LocalSource(CountingReader(data or frame, batch), schema)
    bounded = source.bounded(Unit(rows_per_unit=limit, unit_id="id"), SeededStream(seed))
    values = bounded.count([("row",)])[0].values
    assert bounded.total() == values.sum()
    assert source.total() == len(ids)
    return set(np.flatnonzero(values).tolist())


@given(st.lists(st.sampled_from("abcdef"), max_size=30), st.integers(1, 4), st.integers(0, 1000), st.integers(1, 40))
@settings(max_examples=30, deadline=None)
def test_at_most_b_rows_of_every_unit_and_no_fewer_than_possible(ids, limit, seed, batch):
    kept = Counter(ids[row] for row in kept_rows(ids, limit, seed, batch=batch)) if ids else Counter()
    assert kept == {unit: min(limit, count) for unit, count in Counter(ids).items()}


def test_the_draw_of_a_unit_does_not_depend_on_other_units():
    ids = ["a", "b", "a", "c", "a", "b", "b", "a"]
    mine = [kept_rows(ids, 2, seed) & {0, 2, 4, 7} for seed in range(12)]
    assert len({frozenset(rows) for rows in mine}) > 1
    others = ["a", "q", "a", "q", "a", "q", "r", "a"]
    assert [kept_rows(others, 2, seed, batch=1) & {0, 2, 4, 7} for seed in range(12)] == mine


def test_rows_are_kept_uniformly():
    """Chi-squared over the 6 pairs of 4 rows, 600 draws: 5 degrees of freedom, P(X > 30.9) < 1e-5."""
    ids = [str(unit) for unit in range(600) for _ in range(4)]
    kept = sorted(kept_rows(ids, 2, 7, batch=1000))
    pairs = Counter((first % 4, second % 4) for first, second in zip(kept[::2], kept[1::2], strict=True))
    assert len(pairs) == 6
    assert sum((count - 100) ** 2 / 100 for count in pairs.values()) < 30.9


def test_one_bounded_source_always_keeps_the_same_rows():
    ids = ["a"] * 10
    schema, frame = people(ids)
    source = LocalSource(CountingReader(frame), schema, remembered_bytes=0)
    unit = Unit(rows_per_unit=3, unit_id="id")
    bounded = source.bounded(unit, SeededStream(1))
    first, second = (bounded.count([("row",)])[0].values for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert bounded.bounded(unit, SeededStream(2)) is bounded
    with pytest.raises(InputError, match="bounded already"):
        bounded.bounded(Unit(rows_per_unit=1, unit_id="id"), SeededStream(2))
    assert source.bounded(Unit(), SeededStream(1)) is source


def test_which_rows_are_kept_does_not_depend_on_their_order():
    rng = np.random.default_rng(4)
    schema = Schema(
        attributes=(Attribute(name="x", levels=tuple(range(50))), Attribute(name="y", levels=tuple(range(3)))),
        ignore=("id",),
    )
    frame = pa.table({"x": rng.integers(0, 50, 400), "y": rng.integers(0, 3, 400), "id": rng.integers(0, 40, 400)})
    unit = Unit(rows_per_unit=3, unit_id="id")

    def counts(table, seed=1):
        return open_local(table, schema).bounded(unit, SeededStream(seed)).count([("x", "y")])[0].values

    first = counts(frame)
    assert first.sum() == 120
    for seed in range(3):
        np.testing.assert_array_equal(counts(frame.take(np.random.default_rng(seed).permutation(400))), first)
    assert not np.array_equal(counts(frame, seed=2), first)


def test_one_id_in_two_types_is_one_unit(tmp_path):
    import pyarrow.parquet as pq

    schema = Schema(attributes=(Attribute(name="x", levels=(0, 1)),), ignore=("id",))
    for number, ids in enumerate([pa.array([7, 8]), pa.array([7.0, 9.0]), pa.array(["7", "8"])]):
        pq.write_table(pa.table({"x": [0, 1], "id": ids}), tmp_path / f"{number}.parquet")
    bounded = open_local(tmp_path / "*.parquet", schema).bounded(Unit(unit_id="id"), SeededStream(1))
    assert bounded.total() == 3


def test_unit_ids_in_csv_may_be_unlisted_when_named_on_opening(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("person,c\n01,true\n1,true\n01,false\n")
    schema = Schema(attributes=(Attribute(name="c", levels=(False, True)),))
    with pytest.raises(SchemaError, match="person"):
        open_local(path, schema)
    source = open_local(path, schema, unit_id="person")
    assert source.bounded(Unit(unit_id="person"), SeededStream(1)).total() == 2  # '01' and '1' are two people
    with pytest.raises(InputError, match="did you mean 'person'"):
        source.bounded(Unit(unit_id="persn"), SeededStream(1))
    with pytest.raises(InputError, match="did you mean 'person'"):
        open_local(path, schema, unit_id="persn")


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (pa.array(["a", None, None]), "2 row"),
        (pa.array([1.0, math.nan, 2.0]), "1 row"),
        (pa.nulls(3), "3 row"),
        (pa.array([MARKER, MARKER, None]).dictionary_encode(), "1 row"),
        (pa.array([0, 0, 1], pa.date32()), "text or a number"),
        (pa.array([[MARKER]] * 3), "cannot be read"),
    ],
)
def test_rows_without_a_usable_id_are_refused(ids, message):
    schema, frame = people([0, 1, 2], ids)
    source = LocalSource(CountingReader(frame, 2), schema)
    with pytest.raises(InputError, match=message) as caught:
        source.bounded(Unit(unit_id="id"), SeededStream(1))
    assert MARKER not in str(caught.value)


def test_missing_ids_of_csv_files_are_counted(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"id,c\n{MARKER},true\n,true\n")
    schema = Schema(attributes=(Attribute(name="c", levels=(False, True)),), ignore=("id",))
    with pytest.raises(InputError, match=r"1 row\(s\) have no 'id'") as caught:
        open_local(path, schema).bounded(Unit(unit_id="id"), SeededStream(1))
    assert MARKER not in str(caught.value)


def test_a_file_that_fails_while_its_ids_are_read_says_why(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"id,c\n{MARKER},true,3\n1,true\n")
    schema = Schema(attributes=(Attribute(name="c", levels=(False, True)),), ignore=("id",))
    with pytest.raises(InputError, match="do not have the 2 fields") as caught:
        open_local(path, schema).bounded(Unit(unit_id="id"), SeededStream(1))
    assert MARKER not in str(caught.value)


def test_later_scans_read_and_check_only_what_is_counted():
    reader = CountingReader(table([("x", 1, True), ("y", 15, False)]))
    source = LocalSource(reader, SCHEMA, remembered_bytes=0)
    first = source.count([("b",)])[0].values
    np.testing.assert_array_equal(source.count([("b",)])[0].values, first)
    source.count([()])
    source.count_sparse(("c", "a"))
    assert reader.scans == [("a", "b", "c"), ("b",), ("a",), ("a", "c")]
    reader._table = table([("x", 1, True), ("y", 77, False)])
    with pytest.raises(SchemaError, match="b: 1 row with a value outside the edges"):
        source.count([("b",)])


def test_codes_that_will_not_fit_are_not_kept_for_a_while():
    """Three bytes a row: of ten rows either all codes are remembered or, as their number is known, none ever is."""
    for room, remembers in ((30, True), (29, False)):
        source = LocalSource(CountingReader(table([("x", 1, True)] * 10)), SCHEMA, remembered_bytes=room)
        assert source._may_be_remembered() is remembers
        source.total()
        assert (source._remembered is not None) is remembers


PEAK = """
import itertools, sys
import understudy as us
schema = us.Schema(attributes=tuple(us.Attribute(name=f"c{i}", levels=tuple(range(2 + 9 * i))) for i in range(10)))
us.open_source(sys.argv[1], schema).count(list(itertools.combinations(schema.names, 2)))
print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) // 1024)
"""


@pytest.mark.full
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="peak memory is read from /proc")
def test_memory_does_not_grow_with_the_rows(tmp_path):
    """Ten columns of 64 bits: the whole of the larger file is 2.4 GB in memory."""
    rng = np.random.default_rng(0)
    peaks = []
    for millions in (10, 30):
        path = tmp_path / f"{millions}.parquet"
        chunk = pa.table({f"c{i}": rng.integers(0, 2 + 9 * i, 1_000_000) for i in range(10)})
        with parquet.ParquetWriter(path, chunk.schema) as writer:
            for _ in range(millions):
                writer.write_table(chunk)
        result = subprocess.run([sys.executable, "-c", PEAK, str(path)], capture_output=True, text=True, check=True)
        peaks.append(int(result.stdout))
    assert max(peaks) < 500
    assert peaks[1] < peaks[0] + 50
