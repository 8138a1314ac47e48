"""A reverse-mapped release has the original's margins, the synthetic ranks, no guarantee, and says so."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.core.structural_zeros import Condition, Impossible
from understudy.evaluation.shared.reverse_release import BROKEN, WARNING, reverse_mapped_release


@pytest.mark.parametrize("rows", [600, 200])
def test_margins_are_restored_exactly_whatever_the_size(schema, tables, rows):
    release = us.wrap([tables["other"].slice(0, rows), tables["null"]], schema)
    mapped = reverse_mapped_release(release, us.open_source(tables["data"], schema))
    assert mapped.copies == 2
    for copy in (1, 2):
        frame = mapped.frame(copy)
        for name in schema.names:
            before, after = (sorted(t[name].to_pylist(), key=str) for t in (tables["data"], frame))
            assert before == after


def test_it_never_carries_a_guarantee(schema, tables, tmp_path):
    mapped = reverse_mapped_release(us.wrap(tables["other"], schema), tables["data"])
    assert isinstance(mapped.statement.guarantee, us.NonPrivate)
    assert mapped.statement.warnings == (WARNING,)
    assert "reverse-mapped" in mapped.provenance.method
    written = us.read_release(mapped.write(tmp_path / "mapped"))
    assert WARNING in written.statement.warnings
    assert WARNING in (tmp_path / "mapped" / "README.md").read_text()


def test_structural_zeros_that_it_breaks_are_told():
    rule = Impossible(conditions=(("x", Condition(levels=("a",))), ("y", Condition(levels=("d",)))))
    ruled = us.Schema(
        attributes=(us.Attribute(name="x", levels=("a", "b")), us.Attribute(name="y", levels=("c", "d"))),
        impossible=(rule,),
    )
    data = pa.table({"x": ["a", "b", "b", "b"], "y": ["c", "d", "d", "d"]})
    synthetic = pa.table({"x": ["b", "b", "b", "b"], "y": ["d", "d", "c", "d"]})
    mapped = reverse_mapped_release(us.wrap(synthetic, ruled), data)
    assert mapped.statement.warnings == (WARNING, BROKEN)
    assert mapped.schema.impossible == ()
    assert sorted(mapped.frame()["x"].to_pylist()) == ["a", "b", "b", "b"]
    assert np.unique(mapped.frame()["y"].to_pylist()).tolist() == ["c", "d"]
