"""Samples written by executors."""

from __future__ import annotations

import warnings

import pyarrow as pa

import understudy as us
from understudy.privacy.randomness.streams import SeededStream
from understudy.release.sampling import sample_again, sample_to

SCHEMA = us.Schema(
    attributes=(us.Attribute(name="a", levels=("x", "y")), us.Attribute(name="c", edges=(0, 10, 2000), integer=True))
)


def test_executors_write_what_would_be_drawn_here(spark, tmp_path):
    table = pa.table({"a": ["x", "y", "y"] * 50, "c": [1, 500, 1999] * 50})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = us.synthesize(us.open_source(table, SCHEMA), method="histogram", budget=us.PureDP(epsilon=5))
    sizes = {"block_rows": 1000, "part_blocks": 2}
    asked = {"rows": 7300, "copies": 2, **sizes}
    wanted = sample_again(release, stream=SeededStream(6), **asked)
    sample_to(release, tmp_path / "larger", session=spark, stream=SeededStream(6), overwrite=False, **asked)
    back = us.read_release(tmp_path / "larger")
    for copy in (1, 2):
        assert back.frame(copy).to_pylist() == wanted.frame(copy).to_pylist()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["larger"]
    assert len(list((tmp_path / "larger").glob("synthetic_1.part-*.parquet"))) == 4
    assert all(check.passed for check in us.verify(tmp_path / "larger"))
    assert back.statement == release.statement
    us.write_sample(release, tmp_path / "small", rows=100, engine="spark")
    assert us.read_release(tmp_path / "small").frame().num_rows == 100
