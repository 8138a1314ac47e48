"""Commutes on Spark: the same release as on one machine, drawn where the pairs are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.demo.gravity import make_world
from understudy.errors import DisclosureError, InputError, UnsupportedError
from understudy.privacy import flow_blocks
from understudy.privacy.streams import SeededStream

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
    origins = table["origin"].slice(0, 50)
    extra = pa.table(
        {
            "origin": origins.combine_chunks(),
            "destination": pa.array([table["destination"][7].as_py()] * 50).cast(table["destination"].type),
            "jobs": pa.array(np.full(50, jobs // 50), table["jobs"].type),
        }
    )
    return pa.concat_tables([table, extra])


def spark_frame(spark, table, folder, parts):
    path = folder / "od.parquet"
    plain = pa.table(
        {name: table[name].cast(pa.string()) for name in ("origin", "destination")} | {"jobs": table["jobs"]}
    )
    pq.write_table(plain.take(np.random.default_rng(2).permutation(plain.num_rows)), path)
    return spark.read.parquet(str(path)).repartition(parts)


@pytest.mark.parametrize("parts", [pytest.param(1, marks=pytest.mark.full), 5])
def test_the_release_is_that_of_one_machine(spark, world, skewed, tmp_path, parts):
    settings = {"method": "commute", "budget": BUDGET, "unit": FIXED, "copies": 2}
    here = us.synthesize(us.open_commutes(skewed, places=world.places), stream=SeededStream(3), **settings)
    source = us.open_commutes(spark_frame(spark, skewed, tmp_path, parts), places=world.places)
    there = us.synthesize(source, stream=SeededStream(3), **settings)
    for copy in (1, 2):
        assert here.flows(copy).to_pylist() == there.flows(copy).to_pylist()
    assert here.provenance.events == there.provenance.events


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
    with pytest.raises(UnsupportedError, match="must not be drawn on executors"):
        us.synthesize(
            source, method="commute", budget=us.PureDP(epsilon=8), unit=FIXED, stream=SeededStream(1),
            mechanism="geometric",
        )  # fmt: skip
    unknown = frame.selectExpr("origin", "'nowhere' AS destination", "jobs")
    with pytest.raises(InputError, match="a place that is not among the places"):
        us.open_commutes(unknown, places=world.places).total()
    with pytest.raises(InputError, match="destination"):
        us.open_commutes(frame.drop("destination"), places=world.places)


def test_a_method_that_measures_only(spark, world, skewed, tmp_path):
    settings = {"method": "commute_tree", "budget": us.PureDP(epsilon=4)}
    here, there = (
        us.synthesize(us.open_commutes(data, places=world.places), stream=SeededStream(3), **settings)
        for data in (skewed, spark_frame(spark, skewed, tmp_path, 3))
    )
    assert here.flows().to_pylist() == there.flows().to_pylist()
