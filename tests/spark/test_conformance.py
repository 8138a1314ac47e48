"""Every synthesizer on a Spark source makes what it makes on an embedded one, without knowing it.

The same tables, measurements and events for the same key, so whatever the conformance suite says of a method on the
embedded engine holds on Spark. A plain run takes each method once; FULL=1 every guarantee and unit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.errors import InputError
from understudy.privacy.randomness.streams import SeededStream
from understudy.synth.shared.method import synthesizers

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")

BUDGETS = {
    "pure": us.PureDP(epsilon=1),
    "approx": us.ApproxDP(epsilon=1, delta="1e-6"),
    "probabilistic": us.ProbabilisticDP(epsilon=1, delta="1e-6"),
    "zcdp": us.ZCDP(rho="0.1"),
    "none": us.NonPrivate(),
}
SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="age", edges=(0, 15, 40, 90), integer=True, missing=True),
        us.Attribute(name="marital", levels=("single", "married", "widowed")),
    ),
    impossible=(
        us.Impossible(
            conditions=(
                ("age", us.Condition(below=15)),
                ("marital", us.Condition(levels=("married", "widowed"))),
            )
        ),
    ),
)


def cases() -> list[Any]:
    return [
        pytest.param(
            method,
            guarantee,
            unit,
            id=f"{method}-{guarantee}-{unit}",
            marks=[] if (number, unit) == (0, "replace") else [pytest.mark.full],
        )
        for method in synthesizers
        for number, guarantee in enumerate(synthesizers[method].guarantees)
        for unit in ("replace", "add_remove")
        if (guarantee, unit) != ("probabilistic", "add_remove")  # refused: Definition 6 is proved for replace
    ]


@pytest.fixture(scope="module")
def people() -> pa.Table:
    rng = np.random.default_rng(7)
    age = rng.integers(0, 91, 80)
    marital = np.where(age < 15, "single", rng.choice(["single", "married", "widowed"], 80))
    return pa.table(
        {
            "sex": rng.choice(["F", "M"], 80),
            "age": pa.array(age, mask=(age >= 15) & (rng.random(80) < 0.1)),
            "marital": marital,
        }
    )


@pytest.fixture(scope="module")
def frame(spark, people):
    """The same people in another order, in two partitions."""
    shuffled = people.take(np.random.default_rng(1).permutation(80)).to_pylist()
    return spark.createDataFrame(shuffled, "sex string, age long, marital string").coalesce(2)


@pytest.mark.parametrize(("method", "guarantee", "unit"), cases())
def test_the_release_is_that_of_the_embedded_engine(people, frame, method, guarantee, unit):
    settings = {"method": method, "budget": BUDGETS[guarantee], "unit": unit, "copies": 2}
    try:
        us.plan(SCHEMA, **settings)
    except InputError as refusal:
        if "rows" not in str(refusal):
            raise
        settings["rows"] = 50
    here, there = (
        us.synthesize(us.open_source(data, SCHEMA), stream=SeededStream(3), **settings) for data in (people, frame)
    )
    for copy in (1, 2):
        assert here.frame(copy).equals(there.frame(copy))
    assert here.provenance.events == there.provenance.events
    for one, other in zip(here.measurements, there.measurements, strict=True):
        np.testing.assert_array_equal(one.values, other.values)
