"""Commutes on Spark: the same release as on one machine, drawn where the pairs are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.commutes.methods import commute_tree
from understudy.demo.commuters import make_world
from understudy.engines.systems.spark import source as engine
from understudy.errors import DisclosureError, InputError, InternalError
from understudy.privacy.gate import flow_blocks
from understudy.privacy.gate.flow_blocks import LocalFlows
from understudy.privacy.gate.flow_gate import FlowTable
from understudy.privacy.mechanisms.sparse_geometric import SparseGeometric
from understudy.privacy.randomness.streams import SeededStream

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")

BUDGET = us.ApproxDP(epsilon=8, delta="1e-5")
FIXED = us.Unit(fixed=("destination",))


@pytest.fixture(scope="module")
def world():
    return make_world("town", seed=1)


@pytest.fixture(scope="module")
def skewed(world) -> pa.Table:
    """The commutes of the town, and as many again to one destination."""
    table = world.flows_table()
    jobs = int(np.sum(table["jobs"].to_numpy()))
    there = table["destination"][7].as_py()
    others = table.filter(pc.not_equal(table["destination"], there))  # a counted pair is given once
    origins = np.unique(table["origin"].to_numpy(zero_copy_only=False))[:50]
    extra = pa.table(
        {
            "origin": pa.array(origins).cast(table["origin"].type),
            "destination": pa.array([there] * 50).cast(table["destination"].type),
            "jobs": pa.array(np.full(50, jobs // 50), table["jobs"].type),
        }
    )
    return pa.concat_tables([others, extra])


def spark_frame(spark, table, folder, parts):
    path = folder / "od.parquet"
    plain = pa.table(
        {name: table[name].cast(pa.string()) for name in ("origin", "destination")} | {"jobs": table["jobs"]}
    )
    pq.write_table(plain.take(np.random.default_rng(2).permutation(plain.num_rows)), path)
    return spark.read.parquet(str(path)).repartition(parts)


@pytest.mark.parametrize(
    ("parts", "mechanism"),
    [pytest.param(1, "urn", marks=pytest.mark.full), (5, "auto"), (3, "geometric")],
)
def test_the_release_is_that_of_one_machine(spark, world, skewed, tmp_path, parts, mechanism):
    """One destination has half of all workers. Noise of the geometric mechanism too is drawn on the executors."""
    settings = {"method": "commute", "budget": BUDGET, "unit": FIXED, "copies": 2, "mechanism": mechanism}
    here = us.synthesize(us.open_commutes(skewed, places=world.places), stream=SeededStream(3), **settings)
    source = us.open_commutes(spark_frame(spark, skewed, tmp_path, parts), places=world.places)
    there = us.synthesize(source, stream=SeededStream(3), **settings)
    for copy in (1, 2):
        assert here.flows(copy).to_pylist() == there.flows(copy).to_pylist()
    assert here.provenance.events == there.provenance.events


@pytest.mark.parametrize(
    ("method", "options"),
    [("commute", {}), ("commute", {"unit": us.Unit()}), ("commute", {"flow_share": "0.2"}), ("commute_tree", {})],
    ids=["rings", "private destinations", "measured flows", "tree"],
)
def test_a_city_too_large_for_a_closure_is_broadcast(spark, world, skewed, tmp_path, monkeypatch, method, options):
    """With a limit of 0 every public value travels as one of a real city does: classifiers, divisions, whole orders."""
    monkeypatch.setattr(engine, "INLINE_BYTES", 0)
    settings = {"method": method, "budget": us.PureDP(epsilon=4), **options}
    here = us.synthesize(us.open_commutes(skewed, places=world.places), stream=SeededStream(3), **settings)
    source = us.open_commutes(spark_frame(spark, skewed, tmp_path, 3), places=world.places)
    there = us.synthesize(source, stream=SeededStream(3), **settings)
    assert here.flows().to_pylist() == there.flows().to_pylist()


def test_bad_rows_of_all_partitions_are_counted(spark, world, tmp_path):
    table = world.flows_table().slice(0, 30)
    origins = ["nowhere" if number % 3 == 0 else text for number, text in enumerate(table["origin"].to_pylist())]
    bad = table.set_column(0, "origin", pa.array(origins))
    source = us.open_commutes(spark_frame(spark, bad, tmp_path, 4), places=world.places)
    with pytest.raises(InputError, match=r"'origin' of the commutes has 10 row\(s\) with a place"):
        source.total()


def test_jobs_are_known_again_on_the_other_engine(spark, world, skewed, tmp_path):
    key = bytes(range(32))
    here = us.open_commutes(skewed, places=world.places)
    there = us.open_commutes(spark_frame(spark, skewed, tmp_path, 4), places=world.places)
    for source in (here, there):
        source.identify(key)
    assert there.fingerprint() == here.fingerprint()
    assert there.total() == here.total()
    fewer = us.open_commutes(spark_frame(spark, skewed.slice(1), tmp_path, 2), places=world.places)
    fewer.identify(key)
    assert fewer.fingerprint() != here.fingerprint()


def test_nothing_depends_on_how_destinations_are_cut_into_blocks(world, skewed, monkeypatch):
    source = us.open_commutes(skewed, places=world.places)
    made = []
    for rows in (2_000_000, 300):
        monkeypatch.setattr(flow_blocks, "BLOCK_ROWS", rows)
        made.append(us.synthesize(source, method="commute", budget=BUDGET, unit=FIXED, stream=SeededStream(3)))
    assert made[0].flows().to_pylist() == made[1].flows().to_pylist()


def test_counts_of_classes_and_what_is_refused(spark, world, skewed, tmp_path):
    frame = spark_frame(spark, skewed, tmp_path, 3)
    source = us.open_commutes(str(tmp_path / "od.parquet"), places=world.places, engine="spark")
    here = us.open_commutes(skewed, places=world.places)
    assert source.total() == here.total()
    np.testing.assert_array_equal(source.sizes(), here.flows().sizes())
    with pytest.raises(DisclosureError):
        source.flows()
    unknown = frame.selectExpr("origin", "'nowhere' AS destination", "jobs")
    with pytest.raises(InputError, match="a place that is not among the places"):
        us.open_commutes(unknown, places=world.places).total()
    with pytest.raises(InputError, match=rf"^{skewed.num_rows:,} row\(s\) of the commutes give jobs for a pair"):
        us.open_commutes(frame.union(frame), places=world.places).total()
    with pytest.raises(InputError, match="destination"):
        us.open_commutes(frame.drop("destination"), places=world.places)


def test_sparse_noise_is_drawn_where_the_pairs_are(spark, world, skewed, tmp_path):
    """Several parts of a domain, most of them empty: the cells and values of one machine, for any partitions."""
    places = len(world.places)
    table = FlowTable(
        label="pairs", cells=places**2, classify=lambda homes, jobs: jobs.astype(np.int64) * places + homes
    )
    noise, purpose = SparseGeometric(scale=1, threshold=4, domain=places**2), ("sparse", "pairs")
    assert noise.parts > 1
    here = LocalFlows(us.open_commutes(skewed, places=world.places).flows())
    expected = here.draw_sparse(table, noise, SeededStream(3), purpose)
    source = us.open_commutes(spark_frame(spark, skewed, tmp_path, 4), places=world.places)
    found = source.draw_sparse(table, noise, SeededStream(3), purpose)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(expected[0]) > 100
    stream = SeededStream(3)
    source.draw_sparse(table, noise, stream, purpose)
    with pytest.raises(InternalError, match="handed out before"):
        source.draw_sparse(table, noise, stream, purpose)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_a_method_that_measures_only(spark, world, skewed, tmp_path, monkeypatch, sparse):
    if sparse:
        monkeypatch.setattr(commute_tree, "DENSE_CELLS", 10)
        monkeypatch.setattr(commute_tree, "REPORTED_EMPTY", 100)
    settings = {"method": "commute_tree", "budget": us.PureDP(epsilon=4)}
    here, there = (
        us.synthesize(us.open_commutes(data, places=world.places), stream=SeededStream(3), **settings)
        for data in (skewed, spark_frame(spark, skewed, tmp_path, 3))
    )
    assert here.flows().to_pylist() == there.flows().to_pylist()
    assert any(one.mechanism.name == "sparse_geometric" for one in there.measurements) == sparse
    for one, other in zip(here.measurements, there.measurements, strict=True):
        np.testing.assert_array_equal(one.values, other.values)


def segmented(table: pa.Table) -> pa.Table:
    """Every job of a row is in one of two segments, which no rule divides."""
    jobs = table["jobs"].to_numpy().astype(np.int64)
    one = np.random.default_rng(4).binomial(jobs, 0.4)
    texts = {name: table[name].cast(pa.string()) for name in ("origin", "destination")}
    return pa.table(texts | {"jobs": pa.array(jobs), "F": pa.array(one), "M": pa.array(jobs - one)})


@pytest.mark.parametrize("method", ["commute", "commute_tree"])
def test_segments_are_counted_where_the_rows_are(spark, world, tmp_path, method):
    table = segmented(world.flows_table())
    pq.write_table(table, tmp_path / "od.parquet")
    options = {"method": method, "budget": us.PureDP(epsilon=4), "segments": "sex=F+M"}
    there = us.open_commutes(spark.read.parquet(str(tmp_path / "od.parquet")).repartition(3), places=world.places)
    one = us.synthesize(there, stream=SeededStream(3), **options)
    other = us.synthesize(us.open_commutes(table, places=world.places), stream=SeededStream(3), **options)
    assert one.flows().equals(other.flows())
    noisy = [{found.label: found.values.tolist() for found in made.measurements} for made in (one, other)]
    assert noisy[0] == noisy[1]
    assert "sex by work area" in noisy[0]


def test_segments_that_do_not_add_up_are_counted_over_all_partitions(spark, world, tmp_path):
    table = segmented(world.flows_table())
    wrong = table.set_column(3, "F", pc.add(table["F"], 1))
    pq.write_table(wrong, tmp_path / "od.parquet")
    source = us.open_commutes(spark.read.parquet(str(tmp_path / "od.parquet")).repartition(4), places=world.places)
    with pytest.raises(InputError, match=f"{wrong.num_rows:,} row"):
        us.synthesize(source, method="commute", budget=us.PureDP(epsilon=4), segments="sex=F+M")
    with pytest.raises(InputError, match="column 'X' is not there"):
        us.synthesize(source, method="commute", budget=us.PureDP(epsilon=4), segments="sex=F+X")
