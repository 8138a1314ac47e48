"""A source knows its rows again: by any reader, in any order, on a scan that was made anyway."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.commutes.source import local as commute_engine
from understudy.core.places import make_places
from understudy.engines.engine import engines
from understudy.errors import InternalError
from understudy.privacy.randomness.streams import SeededStream

KEY = bytes(range(32))
SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="place", levels=tuple(range(5000))),
        us.Attribute(name="big", levels=tuple(f"{number}" for number in range(70_000))),
        *(us.Attribute(name=f"x{number}", levels=tuple(range(300))) for number in range(12)),
    ),
    ignore=("person",),
)
"""Codes of one, two and four bytes, and more of them than fit two words."""


def table(rows=500, seed=1):
    rng = np.random.default_rng(seed)
    return pa.table({
        "sex": np.array(["F", "M"])[rng.integers(0, 2, rows)],
        "place": rng.integers(0, 5000, rows),
        "big": [str(value) for value in rng.integers(0, 70_000, rows)],
        **{f"x{number}": rng.integers(0, 300, rows) for number in range(12)},
        "person": rng.integers(0, rows // 5, rows),
    })  # fmt: skip


ROWS = table()


def fingerprint(data, *, unit=None, **reading):
    source = us.open_source(data, SCHEMA, unit_id=None if unit is None else unit.unit_id, **reading)
    if unit is not None:
        source = source.bounded(unit, SeededStream(4))
    source.identify(KEY)
    return source.fingerprint()


def test_order_files_and_formats_do_not_matter(tmp_path):
    pq.write_table(ROWS.slice(0, 200), tmp_path / "a.parquet", row_group_size=33)
    pq.write_table(ROWS.slice(200), tmp_path / "b.parquet")
    pyarrow.csv.write_csv(ROWS, tmp_path / "c.csv")
    shuffled = ROWS.take(np.random.default_rng(2).permutation(ROWS.num_rows))
    columns = ROWS.select(ROWS.column_names[::-1])
    found = {
        fingerprint(given)
        for given in (ROWS, shuffled, columns, str(tmp_path / "*.parquet"), tmp_path / "c.csv", ROWS.to_pandas())
    }
    assert len(found) == 1


@pytest.mark.parametrize("name", SCHEMA.names)
def test_one_value_of_one_row_is_seen(name):
    values = ROWS[name].to_pylist()
    values[7] = next(value for value in values if value != values[7])
    other = ROWS.set_column(ROWS.column_names.index(name), name, pa.array(values))
    assert fingerprint(other) != fingerprint(ROWS)


def test_one_row_more_or_twice_is_seen():
    found = {fingerprint(data) for data in (ROWS, ROWS.slice(1), pa.concat_tables([ROWS, ROWS.slice(0, 1)]))}
    assert len(found) == 3


@pytest.mark.parametrize("fixed", [(), ("place",)])
def test_a_bounded_source_is_known_by_the_rows_it_keeps(fixed):
    unit = us.Unit(rows_per_unit=2, unit_id="person", fixed=fixed)
    shuffled = ROWS.take(np.random.default_rng(2).permutation(ROWS.num_rows))
    assert fingerprint(ROWS, unit=unit) == fingerprint(shuffled, unit=unit) != fingerprint(ROWS)


@pytest.mark.parametrize("remembered", [0, 10**9], ids=["read again", "remembered"])
def test_it_is_made_on_the_scan_that_is_made_anyway(remembered):
    opened = us.open_source(ROWS, SCHEMA)
    opened._remembered_bytes = remembered
    scans = []
    read = opened._reader.batches

    def counted(columns):
        scans.append(columns)
        return read(columns)

    opened._reader.batches = counted
    opened.identify(KEY)
    opened.count([("sex",)])
    first = opened.fingerprint()
    assert len(scans) == 1
    opened.count([("sex",)])
    assert opened.fingerprint() == first == fingerprint(ROWS)
    assert len(scans) == (1 if remembered else 2)
    opened.identify(bytes(32))  # another run over the same source
    assert opened.fingerprint() != first


def test_without_a_key_there_is_none():
    for source in (us.open_source(ROWS, SCHEMA), commutes(FLOWS)):
        with pytest.raises(InternalError, match="identify it first"):
            source.fingerprint()


def test_every_engine_can_be_known_again():
    for name in engines:
        assert hasattr(engines[name], "identify")
        assert hasattr(engines[name], "fingerprint")


# Commutes.

PLACES = make_places(
    ids=[f"p{number:02d}" for number in range(30)], latitude=np.linspace(40, 41, 30), longitude=np.full(30, -90.0)
)


def flows(pairs=200, seed=3):
    rng = np.random.default_rng(seed)
    chosen = rng.choice(30 * 30, pairs, replace=False)  # a pair given twice is refused
    return pa.table({
        "origin": [f"p{place:02d}" for place in chosen // 30],
        "destination": [f"p{place:02d}" for place in chosen % 30],
        "jobs": rng.integers(1, 9, pairs),
    })  # fmt: skip


FLOWS = flows()


def commutes(data):
    return us.open_commutes(data, places=PLACES)


def known(data):
    source = commutes(data)
    source.identify(KEY)
    return source.fingerprint()


def workers(data):
    jobs = data["jobs"].to_numpy()
    return data.select(["origin", "destination"]).take(np.repeat(np.arange(len(jobs)), jobs))


def test_jobs_are_known_again_as_pairs_and_as_workers(monkeypatch):
    shuffled = FLOWS.take(np.random.default_rng(2).permutation(FLOWS.num_rows))
    in_order = (
        FLOWS.group_by(["origin", "destination"]).aggregate([("jobs", "sum")]).rename_columns({"jobs_sum": "jobs"})
    )
    in_order = in_order.sort_by([("destination", "ascending"), ("origin", "ascending")])
    found = {known(data) for data in (FLOWS, shuffled, workers(FLOWS), workers(shuffled), in_order)}
    from understudy.core import flows as flow_module

    monkeypatch.setattr(flow_module, "PAIRS_AT_ONCE", 7)
    assert found == {known(FLOWS)}


@pytest.mark.parametrize("change", ["one job more", "one job elsewhere", "two origins swapped", "turned around"])
def test_other_jobs_are_seen(change):
    origins, destinations, jobs = (FLOWS[name].to_pylist() for name in ("origin", "destination", "jobs"))
    if change == "one job more":
        jobs[0] += 1
    elif change == "one job elsewhere":
        jobs[0], jobs[1] = jobs[0] + 1, jobs[1] - 1
    elif change == "two origins swapped":  # the same jobs at every destination, and from every origin
        given = set(zip(origins, destinations, strict=True))
        place = next(
            row
            for row in range(1, 200)
            if jobs[row] == jobs[0] and not {(origins[row], destinations[0]), (origins[0], destinations[row])} & given
        )
        origins[0], origins[place] = origins[place], origins[0]
    else:
        origins, destinations = destinations, origins
    assert known(pa.table({"origin": origins, "destination": destinations, "jobs": jobs})) != known(FLOWS)


def test_an_empty_table_is_known_too():
    assert known(FLOWS.slice(0, 0)) == "0" * 32
    assert commute_engine.MOST_JOBS < 2**32  # what the chance of an equal sum is stated for
