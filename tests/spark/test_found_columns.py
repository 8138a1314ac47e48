"""What a schema leaves open is found on a cluster as on one machine: bins, dates, and codes of a public list."""

from __future__ import annotations

from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.privacy.randomness.streams import SeededStream

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")

ROWS = 2000
SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="income", bounds=(0, 100_000), heavy_tail=True, missing=True),
        us.Attribute(name="born", bounds=(date(1990, 1, 1), date(1999, 12, 31))),
        us.Attribute(
            name="job", levels="discover", among=("1", "11", "12", "2", "21"), parents=("", "1", "1", "", "2")
        ),
    ),
    ignore=("person",),
)


def people() -> pa.Table:
    rng = np.random.default_rng(4)
    income = np.exp(rng.normal(8, 1, ROWS)).clip(0, 99_000).round(2)
    return pa.table(
        {
            "sex": pa.array(np.array(["F", "M"])[rng.integers(0, 2, ROWS)]),
            "income": pa.array(income, mask=rng.random(ROWS) < 0.1),
            "born": pa.array(rng.integers(7305, 10957, ROWS).astype("int32"), pa.date32()),
            "job": pa.array(np.array(["11", "12", "21"])[rng.choice(3, ROWS, p=[0.9, 0.002, 0.098])]),
            "person": pa.array([f"p{number // 2}" for number in range(ROWS)]),
        }
    )


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("found") / "people.parquet"
    pq.write_table(people().take(np.random.default_rng(1).permutation(ROWS)), path)
    return path


@pytest.mark.parametrize("unit", [us.Unit(), us.Unit(rows_per_unit=2, unit_id="person")], ids=["row", "two rows"])
def test_the_release_is_that_of_the_embedded_engine(spark, file, unit):
    releases = [
        us.synthesize(
            us.open_source(data, SCHEMA), stream=SeededStream(4), method="ipf", margins="sex+income, born, job",
            budget=us.ApproxDP(epsilon=4, delta="1e-4"), unit=unit,
        )
        for data in (people(), spark.read.parquet(str(file)).repartition(3))
    ]  # fmt: skip
    assert releases[0].schema == releases[1].schema
    assert releases[0].schema["job"].levels == ("11", "21", "other")
    assert releases[0].schema["income"].found
    assert releases[0].frame().equals(releases[1].frame())


def jobs() -> pa.Table:
    rng = np.random.default_rng(6)
    codes = np.array(["2221", "5120", "71", "other", "", "x" * 40, *(f"9{number:02d}" for number in range(60))])
    drawn = codes[rng.choice(len(codes), ROWS, p=[0.4, 0.3, 0.05, 0.01, 0.01, 0.02, *[0.21 / 60] * 60])]
    return people().append_column("code", pa.array(drawn, mask=rng.random(ROWS) < 0.05)).drop(["job", "born"])


@pytest.mark.parametrize(
    ("kind", "unit"), [("parquet", us.Unit()), ("csv", us.Unit(rows_per_unit=1, unit_id="person"))]
)
def test_codes_that_nobody_listed_are_found_as_by_the_embedded_engine(spark, tmp_path, unit, kind):
    """Also those of units whose rows are bounded: what is kept depends on the texts, and the texts are kept."""
    schema = us.Schema(
        attributes=(
            SCHEMA["sex"], SCHEMA["income"],
            us.Attribute(name="code", levels="discover", prefixes=(1,), longest_code=8, missing=True),
        ),
        ignore=("person",),
    )  # fmt: skip
    table = jobs()
    shuffled, path = table.take(np.random.default_rng(1).permutation(ROWS)), tmp_path / f"jobs.{kind}"
    if kind == "csv":
        shuffled.to_pandas().to_csv(path, index=False)
        table = str(path)
    else:
        pq.write_table(shuffled, path)
    del spark  # the session that engine "spark" finds
    releases = [
        us.synthesize(
            us.open_source(data, schema, **how), stream=SeededStream(4), method="ipf", margins="sex+code, income",
            budget=us.ApproxDP(epsilon=8, delta="1e-3"), unit=unit,
        )
        for data, how in ((table, {}), (str(path), {"engine": "spark", "master": "local[2]"}))
    ]  # fmt: skip
    assert releases[0].schema == releases[1].schema
    assert {"2221", "5120", "9"} <= set(releases[0].schema["code"].levels)
    assert releases[0].frame().equals(releases[1].frame())


def test_survey_weights_are_those_of_the_embedded_engine(spark, file):
    schema = us.Schema(
        attributes=(SCHEMA["sex"], us.Attribute(name="income", bounds=(0, 100_000), heavy_tail=True, missing=True)),
        weight=us.Weight(
            column="weight",
            bounds=(1, 60),
            decimals=1,
            totals=(us.Total(attribute="sex", totals={"F": 9000, "M": 8000}),),
        ),
        ignore=("born", "job", "person"),
    )
    weights = np.exp(np.random.default_rng(6).normal(2, 0.7, ROWS)).clip(1, 60).round(1)
    survey = people().append_column("weight", pa.array(weights))
    pq.write_table(survey.take(np.random.default_rng(1).permutation(ROWS)), file.with_name("survey.parquet"))
    releases = [
        us.synthesize(
            us.open_source(data, schema), stream=SeededStream(4), method="ipf",
            budget=us.ApproxDP(epsilon=4, delta="1e-4"),
        )
        for data in (survey, spark.read.parquet(str(file.with_name("survey.parquet"))).repartition(3))
    ]  # fmt: skip
    assert releases[0].schema["weight"].found
    assert releases[0].frame().equals(releases[1].frame())
    bad = survey.set_column(survey.column_names.index("weight"), "weight", pa.array([0.0, *weights[1:]]))
    pq.write_table(bad, file.with_name("bad.parquet"))
    with pytest.raises(us.errors.SchemaError, match="weight: 1 row with a weight that is negative, zero"):
        us.synthesize(
            us.open_source(spark.read.parquet(str(file.with_name("bad.parquet"))), schema),
            budget=us.PureDP(epsilon=1), method="ipf",
        )  # fmt: skip
