"""Weighted tables of an evaluation, against sums over the rows themselves."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.evaluation.inputs.comparison import compare
from understudy.evaluation.measures.weighted import weighted
from understudy.kinds.tables import Tables

EDGES = (0.999, 1.001, 9.999, 10.001)


def table(share: float, seed: int, n: int = 400) -> pa.Table:
    rng = np.random.default_rng(seed)
    weight = rng.choice([1.0, 10.0], n)
    return pa.table({"works": np.where(rng.random(n) < share + 0.3 * (weight > 5), "yes", "no"), "w": weight})


def test_weighted_shares_are_those_of_the_rows():
    schema = us.Schema(
        attributes=(us.Attribute(name="works", levels=("no", "yes")),), weight=us.Weight(column="w", edges=EDGES)
    )
    original, synthetic = table(0.3, 1), table(0.5, 2)
    found = weighted(compare(us.wrap(synthetic, schema), us.open_source(original, schema)))
    rows = {row["level"]: row for row in found.frames["weighted"].to_pylist()}
    for data, word in ((original, "original"), (synthetic, "synthetic")):
        works = data["works"].to_numpy(zero_copy_only=False) == "yes"
        assert rows["yes"][word] == pytest.approx(np.average(works, weights=data["w"].to_numpy()), abs=1e-3)
    assert found.findings[0].value == pytest.approx(abs(rows["yes"]["difference"]))
    assert found.findings[0].severity == "warning"
    assert "weighted" in {one.name for one in Tables.shown}  # a screen and a report show it


def test_without_a_weight_there_is_nothing_to_say():
    schema = us.Schema(attributes=(us.Attribute(name="works", levels=("no", "yes")),))
    plain = table(0.3, 1).select(["works"])
    assert weighted(compare(us.wrap(plain, schema), us.open_source(plain, schema))).findings == ()
