"""Drawn commutes as a file: blocks gathered into parts, texts for codes, elsewhere included."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

from understudy.commutes import commute_release
from understudy.commutes.commute_release import ParquetSink
from understudy.core.places import make_places
from understudy.release.folder import hash_file

PLACES = make_places([f"p{number}" for number in range(12)], np.linspace(40, 41, 12), [-90.0] * 12)


def blocks(rng, count):
    for _ in range(count):
        rows = int(rng.integers(0, 30))
        yield (
            rng.integers(-1, 12, rows).astype(np.int32),
            rng.integers(0, 12, rows).astype(np.int32),
            rng.integers(1, 9, rows),
        )


@pytest.mark.parametrize("group", [1, 25, 10**6])
def test_what_is_added_can_be_read_again(tmp_path, monkeypatch, group):
    monkeypatch.setattr(commute_release, "ROW_GROUP", group)
    sink = ParquetSink(tmp_path, PLACES)
    for copy in (1, 2):  # a second table starts empty
        given = list(blocks(np.random.default_rng(copy), 12))
        sink.open(copy)
        for block in given:
            sink.add(*block)
        note = sink.close()
        origins, destinations, jobs = (np.concatenate(columns) for columns in zip(*given, strict=True))
        table = pq.read_table(sink.path(copy))
        assert table["origin"].to_pylist() == PLACES.id_texts(origins)
        assert table["destination"].to_pylist() == PLACES.id_texts(destinations)
        assert table["jobs"].to_pylist() == jobs.tolist()
        assert note["sha256"] == hash_file(sink.path(copy))
        assert sink.remembered(copy, note)


def test_a_table_of_nothing_is_a_table(tmp_path):
    sink = ParquetSink(tmp_path, PLACES)
    sink.open(1)
    sink.close()
    assert pq.read_table(sink.path(1)).num_rows == 0
