"""Counts, kept rows and drawn tables are those of the embedded engine, however the rows are divided and ordered."""

from __future__ import annotations

from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.engines.counting import scanned_source
from understudy.engines.systems.spark import source as spark_engine
from understudy.privacy.randomness.streams import SeededStream

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")

ROWS = 3000
SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="age", edges=(0, 15, 40, 90), integer=True, missing=True),
        us.Attribute(name="income", edges=(0.0, 1000.0, 5000.0), special={-8: "not applicable"}),
        us.Attribute(name="place", levels=tuple(f"{number:03d}" for number in range(200))),
        us.Attribute(name="born", edges=(date(1950, 1, 1), date(1980, 1, 1), date(2027, 1, 1))),
        us.Attribute(name="flag", levels=(False, True)),
    ),
    ignore=("person",),
)
PAIRS = [(), ("sex",), ("place", "sex"), ("age", "income", "flag"), ("born", "age")]
"""The empty margin, one, two and three attributes, not in schema order."""


def people(rows: int = ROWS) -> pa.Table:
    rng = np.random.default_rng(3)
    income = np.where(rng.random(rows) < 0.1, -8.0, rng.uniform(0, 5000, rows))
    return pa.table(
        {
            "sex": pa.array(np.array(["F", "M"])[rng.integers(0, 2, rows)]),
            "age": pa.array(rng.integers(0, 91, rows), mask=rng.random(rows) < 0.05),
            "income": income,
            "place": pa.array([f"{min(int(x), 199):03d}" for x in rng.exponential(30, rows)]),
            "born": pa.array(rng.integers(-7300, 20000, rows).astype("int32"), pa.date32()),
            "flag": pa.array(rng.random(rows) < 0.3),
            "person": pa.array([f"p{x}" for x in rng.integers(0, 700, rows)]),
        }
    )


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return people()


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    """The same rows as two Parquet files of several row groups, in another order as one file, and as CSV."""
    folder = tmp_path_factory.mktemp("people")
    pq.write_table(table.slice(0, 1000), folder / "a.parquet", row_group_size=300)
    pq.write_table(table.slice(1000), folder / "b.parquet", row_group_size=450)
    pq.write_table(table.take(np.random.default_rng(1).permutation(table.num_rows)), folder / "other.parquet")
    pyarrow.csv.write_csv(table, folder / "c.csv")
    return folder


def open_every_way(spark, table, folder):
    whole = spark.read.parquet(str(folder / "other.parquet"))
    few_rows = spark.createDataFrame(table.slice(0, 3).to_pandas()).limit(0)
    return {
        "files": us.open_source(str(folder / "[ab].parquet"), SCHEMA, engine="spark"),
        "csv": us.open_source(folder / "c.csv", SCHEMA, engine="spark", master="local[2]"),
        "uri": us.open_source(f"file://{folder}/other.parquet", SCHEMA, engine="spark"),
        "frame in 1 part": us.open_source(whole.coalesce(1), SCHEMA),
        "frame in 7 parts": us.open_source(whole.repartition(7), SCHEMA),
        "frame in parts of which most are empty": us.open_source(whole.repartition(9, "sex").union(few_rows), SCHEMA),
    }


def test_counts_are_those_of_the_embedded_engine(spark, table, folder):
    expected = us.open_source(table, SCHEMA).count(PAIRS)
    for name, source in open_every_way(spark, table, folder).items():
        found = source.count(PAIRS)
        assert [one.margin for one in found] == PAIRS, name
        for one, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one.values, wanted.values, err_msg=f"{name} {one.margin}")
        assert source.total() == ROWS


def test_a_whole_table_of_every_kind_of_margin_in_several_scans(spark, table, folder, monkeypatch):
    monkeypatch.setattr(spark_engine, "CELLS_PER_SCAN", 100)  # so that one call takes several scans
    monkeypatch.setattr(scanned_source, "DENSE_FIRST", 10)
    seen = []
    source = us.open_source(str(folder / "[ab].parquet"), SCHEMA, engine="spark")
    expected = us.open_source(table, SCHEMA)
    found = source.count(PAIRS, progress=lambda done, total: seen.append((done, total)))
    assert len(seen) > 1
    assert seen[-1] == (ROWS, ROWS)
    for one, wanted in zip(found, expected.count(PAIRS), strict=True):
        np.testing.assert_array_equal(one.values, wanted.values)
    margin = ("place", "age", "sex")
    sparse, wanted = source.count_sparse(margin), expected.count_sparse(margin)
    assert sparse.domain_cells == wanted.domain_cells == 1600
    for mine, theirs in zip(sparse.open_for(Covering), wanted.open_for(Covering), strict=True):
        np.testing.assert_array_equal(mine, theirs)


class Covering:
    covers = "whole_domain"


def test_the_fingerprint_is_that_of_the_embedded_engine(spark, table, folder):
    """However rows are ordered, divided and read; and with it a run begun on one engine is finished on the other."""
    key = bytes(range(32))
    here = us.open_source(table, SCHEMA)
    here.identify(key)
    for name, source in open_every_way(spark, table, folder).items():
        source.identify(key)
        assert source.fingerprint() == here.fingerprint(), name
    other = us.open_source(str(folder / "a.parquet"), SCHEMA, engine="spark")
    other.identify(key)
    assert other.fingerprint() != here.fingerprint()


@pytest.mark.parametrize("first", ["spark", "here"])
def test_a_run_begun_on_one_engine_is_finished_on_the_other(spark, table, folder, tmp_path, monkeypatch, first):
    """With crowded units and fixed areas: both must keep the same rows."""
    from understudy.privacy.gate.journal import Journal

    append = Journal.append

    def dying(self, kind, payload):
        entry = append(self, kind, payload)
        if kind == "charged":
            raise KeyboardInterrupt
        return entry

    files = str(folder / "[ab].parquet")
    ways = {"spark": {"engine": "spark"}, "here": {}}
    unit = us.Unit(unit_id="person", fixed=("sex",))
    schema = us.Schema(attributes=SCHEMA.attributes[:3], ignore=("person", "flag", "place", "born"))
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "append", dying)
        with pytest.raises(KeyboardInterrupt):
            us.synthesize(
                us.open_source(files, schema, unit_id="person", **ways[first]),
                method="dirichlet", budget=us.PureDP(epsilon=3), unit=unit, out=tmp_path / "release",
            )  # fmt: skip
    (run,) = tmp_path.glob("release.partial-*")
    (second,) = set(ways) - {first}
    with pytest.raises(us.UnderstudyError, match="not the data"):
        us.resume(run, source=str(folder / "a.parquet"), unit_id="person", **ways[second])
    us.resume(run, source=str(folder / "other.parquet"), unit_id="person", **ways[second])
    assert all(check.passed for check in us.verify(tmp_path / "release"))


@pytest.mark.parametrize("fixed", [(), ("sex",)])
def test_the_same_rows_of_every_unit_are_kept(spark, table, folder, fixed):
    """One unit has half of all rows."""
    skewed = table.set_column(
        table.column_names.index("person"),
        "person",
        pa.array([name if number % 2 else "everybody" for number, name in enumerate(table["person"].to_pylist())]),
    )
    frame = spark.createDataFrame(skewed.to_pandas().astype({"age": "Int64"})).repartition(5)
    unit = us.Unit(rows_per_unit=2, unit_id="person", fixed=fixed)
    expected = us.open_source(skewed, SCHEMA).bounded(unit, SeededStream(9))
    margins = [("place",), ("age", "income", "flag")]
    source = us.open_source(frame, SCHEMA)
    bounded = source.bounded(unit, SeededStream(9))
    assert bounded.total() == expected.total() < ROWS
    for one, wanted in zip(bounded.count(margins), expected.count(margins), strict=True):
        np.testing.assert_array_equal(one.values, wanted.values)
    assert bounded.bounded(unit, SeededStream(1)) is bounded
    assert source.total() == ROWS
    for one in (bounded, expected):
        one.identify(bytes(32))
    assert bounded.fingerprint() == expected.fingerprint()


@pytest.mark.parametrize("strata", ["none", "auto"])
def test_tables_drawn_on_executors_are_those_drawn_here(spark, table, folder, strata, monkeypatch):
    """Also of the strata that hold nobody; and not a cell of the data is asked for."""
    monkeypatch.setattr(spark_engine.SparkSource, "count_sparse", None)
    schema = us.Schema(attributes=SCHEMA.attributes[:5], ignore=("person", "flag"))
    settings = {
        "method": "dirichlet",
        "budget": us.PureDP(epsilon=3),
        "unit": us.Unit(fixed=("place",) if strata == "auto" else ()),
        "copies": 2,
        "strata": strata,
    }
    releases = [
        us.synthesize(us.open_source(data, schema), stream=SeededStream(4), **settings)
        for data in (table, spark.read.parquet(str(folder / "other.parquet")).repartition(3))
    ]
    for copy in (1, 2):
        assert releases[0].frame(copy).equals(releases[1].frame(copy))
    assert releases[0].frame(1).num_rows == ROWS
    assert releases[0].provenance.events == releases[1].provenance.events


@pytest.mark.parametrize("method", ["histogram", "aim"])
def test_a_release_is_the_same(spark, table, folder, method):
    schema = us.Schema(attributes=SCHEMA.attributes[:3], ignore=("person", "place", "born", "flag"))
    releases = [
        us.synthesize(
            us.open_source(data, schema),
            stream=SeededStream(4),
            method=method,
            budget=us.PureDP(epsilon=1),
            unit=us.Unit(kind="add_remove", rows_per_unit=3, unit_id="person"),
        )
        for data in (table, spark.read.parquet(str(folder / "other.parquet")).repartition(3))
    ]
    assert releases[0].frame().equals(releases[1].frame())
