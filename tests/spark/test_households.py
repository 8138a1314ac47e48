"""Linked tables on Spark: the counts, the fingerprint and the refusals of one machine."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import understudy as us
from understudy.core.linked_schema_file import parse_any_schema
from understudy.demo.families import FAMILIES_SCHEMA, make_families
from understudy.errors import InputError, SchemaError, UnsupportedError
from understudy.households.source import open_households
from understudy.privacy.randomness.draws import KeyedStream

DERIVED = """
[[derived]]
name = "oldest"
function = "max"
of = "age"
edges = [0, 35, 50, 65, 95]
"""
WEIGHT = '[weight]\ntable = "households"\ncolumn = "hw"\nedges = [10, 30, 60]\n'
ALIKE = FAMILIES_SCHEMA.split("[roles]", maxsplit=1)[0] + FAMILIES_SCHEMA.split("other = 1 }", maxsplit=1)[1]
ALIKE = ALIKE.replace("[[impossible]]\npartner.age = { below = 18 }\n", "").split("[[rule]]")[0]
HOMES, PERSONS = ["household", "region", "income", "hw"], ["household", "person", "relation", "age", "sex", "works"]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    made = make_families(400, seed=41).to_pandas()
    made["hw"] = 20.0 + made["household"] % 30
    return made


@pytest.fixture(scope="module")
def files(frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp("homes")
    frame.drop_duplicates("household")[HOMES].to_csv(folder / "h.csv", index=False)
    frame[PERSONS].sample(frac=1, random_state=1).to_csv(folder / "p.csv", index=False)
    frame.to_parquet(folder / "flat.parquet", row_group_size=300)
    return folder


def schema(text: str = FAMILIES_SCHEMA + DERIVED + WEIGHT) -> us.LinkedSchema:
    found = parse_any_schema(text)
    assert isinstance(found, us.LinkedSchema)
    return found


def counted(source, one: us.LinkedSchema):
    """Everything that a gate can ask, under one key."""
    rows = source.rows_of(KeyedStream(key=bytes(32)))
    rows.identify(bytes(range(16)))
    wide = [tuple(pair) for pair in combinations(one.wide.names, 2)][::7]
    found = {table.margin: table.values for table in rows.count(wide)}
    found |= {table.margin: table.values for table in rows.members.count([("age",), ("age", "sex")])}
    if one.pairs is not None:
        found |= {table.margin: table.values for table in rows.pairs().count([one.pairs.names])}
    return found, rows.total(), rows.fingerprint()


@pytest.mark.parametrize("given", ["files", "frames", "flat"])
def test_spark_counts_what_one_machine_counts(given, spark, frame, files):
    one = schema()
    data = {
        "files": {"households": str(files / "h.csv"), "persons": str(files / "p.csv")},
        "frames": {
            "households": spark.createDataFrame(frame.drop_duplicates("household")[HOMES]),
            "persons": spark.createDataFrame(frame[PERSONS]).repartition(5),
        },
        "flat": str(files / "flat.parquet"),
    }[given]
    here = {"households": str(files / "h.csv"), "persons": str(files / "p.csv")}
    expected, total, fingerprint = counted(open_households(here, one), one)
    found, also, other = counted(open_households(data, one, engine="spark"), one)
    assert (also, other) == (total, fingerprint)
    assert found.keys() == expected.keys()
    for margin, values in expected.items():
        assert np.array_equal(found[margin], values), margin


def test_members_who_are_alike_are_paired_as_on_one_machine(spark, frame):
    one = schema(ALIKE)
    flat = frame.drop(columns=["relation", "hw"])
    expected = counted(open_households(flat, one), one)
    found = counted(open_households(spark.createDataFrame(flat).repartition(7), one), one)
    assert found[1:] == expected[1:]
    assert all(np.array_equal(found[0][margin], values) for margin, values in expected[0].items())


def test_a_release_of_frames_on_spark_is_verified_and_asked(spark, frame, tmp_path):
    homes = spark.createDataFrame(frame.drop_duplicates("household")[HOMES])
    persons = spark.createDataFrame(frame[PERSONS])
    release = us.synthesize(
        {"households": homes, "persons": persons}, schema=schema(), unit="household",
        budget=us.ApproxDP(epsilon=2, delta="1e-6"),
    )  # fmt: skip
    folder = release.write(tmp_path / "homes")
    assert all(check.passed for check in us.verify(folder))
    assert release.households().num_rows == 400
    assert us.infer(release, "proportion(size == 1)").estimates[0].value > 0


def test_what_does_not_fit_is_refused_without_a_value(spark, frame, tmp_path):
    one = schema()
    homes, persons = frame.drop_duplicates("household")[HOMES], frame[PERSONS]
    stranger = persons.assign(household=persons["household"].replace(7, 987654))
    twice = pd.concat([homes, homes.iloc[:1]])
    for above, below, said in ((homes, stranger, "belong to a household"), (twice, persons, "another household has")):
        data = {"households": spark.createDataFrame(above), "persons": spark.createDataFrame(below)}
        with pytest.raises(InputError, match=said) as problem:
            us.synthesize(data, schema=one, unit="household", budget=us.ApproxDP(epsilon=1, delta="1e-6"),
                          out=tmp_path / "none")  # fmt: skip
        assert "987654" not in str(problem.value)
        assert not (tmp_path / "none").exists()


def test_what_spark_needs_and_does_not_offer(spark, frame):
    with pytest.raises(InputError, match="order"):
        open_households(spark.createDataFrame(frame), schema(FAMILIES_SCHEMA.replace('id = "person"\n', "") + WEIGHT))
    with pytest.raises((SchemaError, InputError), match="relation"):
        open_households(spark.createDataFrame(frame.drop(columns="relation")), schema())
    with pytest.raises(UnsupportedError, match="on Spark"):
        open_households(spark.createDataFrame(frame), schema()).confidential_families()
