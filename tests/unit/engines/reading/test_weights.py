"""Weights in the data: those that are no weights are refused and counted, whatever the schema says of the others."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

import understudy as us
from understudy.engines.reading.encode import encode_table
from understudy.errors import SchemaError


def table(weights: list[float | None]) -> pa.Table:
    return pa.table({"sex": ["F"] * len(weights), "w": pa.array(weights, pa.float64())})


def schema(outside: str) -> us.Schema:
    weight = us.Weight(column="w", bounds=(1, 50), outside=outside)
    return us.Schema(attributes=(us.Attribute(name="sex", levels=("F", "M")),), weight=weight)


@pytest.mark.parametrize("outside", ["error", "clip"])
@pytest.mark.parametrize("wrong", [-3.0, 0.0, None, math.inf, -math.inf, math.nan])
def test_what_is_no_weight_is_refused(outside, wrong):
    with pytest.raises(
        SchemaError, match="w: 2 rows with a weight that is negative, zero, missing or infinite"
    ) as told:
        encode_table(table([2.0, wrong, wrong, 3.0]), schema(outside))
    assert "did not take part" in str(told.value)


def test_whole_numbers_too():
    whole = pa.table({"sex": ["F", "F"], "w": pa.array([0, 5], pa.int64())})
    with pytest.raises(SchemaError, match="w: 1 row with a weight that is negative"):
        encode_table(whole, schema("clip"))


def test_a_weight_outside_its_bounds_is_refused_or_clipped_as_declared():
    with pytest.raises(SchemaError, match="w: 2 rows with a value outside the edges"):
        encode_table(table([0.5, 60.0, 3.0]), schema("error"))
    codes = encode_table(table([0.5, 60.0, 3.0]), schema("clip")).columns["w"]
    assert codes[0] == 0
    assert codes[1] == schema("clip")["w"].bins - 1


def test_columns_of_the_design_are_not_read():
    design = us.Design(clusters="household", replicate_weights=("r1", "r2"))
    public = us.Schema(attributes=(us.Attribute(name="sex", levels=("F",)),), design=design)
    data = pa.table({"sex": ["F"], "household": [7], "r1": [None], "r2": [-1.0]})
    assert encode_table(data, public).columns["sex"].tolist() == [0]


def test_clipped_weights_are_counted_and_others_are_not():
    import numpy as np
    import pyarrow as pa

    import understudy as us

    weight = us.Weight(column="w", bounds=(1, 10), outside="clip")
    schema = us.Schema(attributes=(us.Attribute(name="age", edges=(0, 50, 99), outside="clip"),), weight=weight)
    table = pa.table({"age": [10, 60, 300], "w": np.array([0.5, 12.0, 3.0])})
    assert us.check_data(table, schema) == 3
    assert us.clipped_weights(table, schema) == 2  # the age beyond its edges is not a weight
    assert us.clipped_weights(table.slice(2), schema) == 0
