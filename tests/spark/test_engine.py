"""What Spark makes of bad input, of its catalogue, of the command line, and of keys."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import understudy as us
from understudy.cli.main import app
from understudy.engines.systems.spark.source import SparkSource, closure, share
from understudy.engines.systems.spark.tasks import Broadcast
from understudy.errors import DisclosureError, InputError, InternalError, SchemaError
from understudy.privacy.randomness.streams import SeededStream
from understudy.release.folder import read_release

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")

MARKER = "Zorbl-7741"
SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="code", levels=("01", "02", "03")),
        us.Attribute(name="age", edges=(0, 50, 100), integer=True),
    ),
    ignore=("id",),
)
PEOPLE = pa.table({"code": ["01", "02", "02", "03"] * 30, "age": [5, 60, 70, 99] * 30, "id": list(range(60)) * 2})


def write(path: Path, **change) -> str:
    table = PEOPLE
    for name, values in change.items():
        table = table.drop_columns(name) if values is None else table.set_column(
            table.column_names.index(name), name, pa.array(values)
        )  # fmt: skip
    pq.write_table(table, path)
    return str(path)


def test_values_that_do_not_fit_are_counted_and_not_shown(spark, tmp_path):
    path = write(tmp_path / "a.parquet", code=["01", MARKER, MARKER, "03"] * 30, age=[5, 60, 700, 99] * 30)
    for data in (path, spark.read.parquet(path).repartition(3)):
        source = us.open_source(data, SCHEMA, engine="spark")
        with pytest.raises(SchemaError) as caught:
            source.total()
        assert "age: 30 rows with a value outside the edges" in str(caught.value)
        assert "code: 60 rows with a level that is not listed" in str(caught.value)
        assert MARKER not in str(caught.value)


def test_a_column_read_as_the_wrong_type_is_named(spark, tmp_path):
    (tmp_path / "a.csv").write_text("code,age,id\n01,5,1\n02,60,2\n")
    guessed = spark.read.csv(str(tmp_path / "a.csv"), header=True, inferSchema=True)
    with pytest.raises(SchemaError, match=r"column 'code' was read as int, and its attribute has texts such as '01'"):
        us.open_source(guessed, SCHEMA)
    as_text = spark.read.csv(str(tmp_path / "a.csv"), header=True)
    assert us.open_source(as_text, SCHEMA).total() == 2
    whole = write(tmp_path / "whole.parquet")
    for place, change in enumerate(({"code": [1, 2, 2, 3] * 30}, {"age": [True] * 120})):
        number = write(tmp_path / f"{place}.parquet", **change)
        with pytest.raises(SchemaError, match=f"column '{next(iter(change))}' was read as"):
            us.open_source([whole, number], SCHEMA, engine="spark")
    for kind, expression in (("date", "DATE '2026-01-01'"), ("boolean", "true"), ("array", "array(1)")):
        with pytest.raises(SchemaError, match=f"column 'age' was read as {kind}"):
            us.open_source(as_text.selectExpr("code", f"{expression} AS age", "id"), SCHEMA)


def test_files_that_disagree_are_refused(spark, tmp_path):
    write(tmp_path / "a.parquet")
    write(tmp_path / "b.parquet", age=None)
    for data in (str(tmp_path / "*.parquet"), f"file://{tmp_path}"):
        with pytest.raises(SchemaError, match="has other columns than"):
            us.open_source(data, SCHEMA, engine="spark")


def test_a_damaged_file_is_named(spark, tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(Path(write(tmp_path / "whole.parquet")).read_bytes()[:-40])
    with pytest.raises(InputError, match=r"a\.parquet cannot be read as Parquet"):
        us.open_source(str(path), SCHEMA, engine="spark")
    with pytest.raises(InputError, match="opening the data failed in Spark"):
        us.open_source(f"file://{path}", SCHEMA, engine="spark")
    with pytest.raises(InputError, match="there is nothing at a path that was named"):
        us.open_source(f"file://{tmp_path}/nowhere.parquet", SCHEMA, engine="spark")


def test_units_without_an_id_and_other_units(spark, tmp_path):
    path = write(tmp_path / "a.parquet", id=[None, *range(119)])
    source = us.open_source(path, SCHEMA, engine="spark")
    with pytest.raises(InputError, match=r"1 row\(s\) have no 'id'"):
        source.bounded(us.Unit(unit_id="id"), SeededStream(1))
    with pytest.raises(InputError, match="did you mean 'id'"):
        source.bounded(us.Unit(unit_id="ids"), SeededStream(1))
    with pytest.raises(InputError, match="did you mean 'id'"):
        us.open_source(path, SCHEMA, engine="spark", unit_id="idd")
    assert source.bounded(us.Unit(), SeededStream(1)) is source


def test_an_expression_that_fails_keeps_its_value_to_itself(spark):
    frame = spark.createDataFrame(PEOPLE.to_pandas()).selectExpr("code", f"CAST('{MARKER}' || age AS INT) AS age", "id")
    with pytest.raises(InputError, match="CAST_INVALID_INPUT") as caught:
        us.open_source(frame, SCHEMA).total()
    assert MARKER not in str(caught.value)


def test_data_that_change_between_scans_are_noticed(spark, tmp_path):
    path = write(tmp_path / "a.parquet")
    source = us.open_source(path, SCHEMA, engine="spark")
    assert source.total() == 120
    pq.write_table(PEOPLE.slice(0, 50), path)
    with pytest.raises(InputError, match="changed between two scans"):
        source.count([("code",)])


def test_the_catalogue_and_a_query(spark, tmp_path):
    spark.read.parquet(write(tmp_path / "a.parquet")).createOrReplaceTempView("people")
    assert us.open_source(None, SCHEMA, engine="spark", table="people").total() == 120
    older = us.open_source(None, SCHEMA, engine="spark", query="SELECT * FROM people WHERE age > 65")
    assert older.total() == 60
    with pytest.raises(InputError, match="TABLE_OR_VIEW_NOT_FOUND"):
        us.open_source(None, SCHEMA, engine="spark", table="nobody")


def test_a_source_is_not_saved_and_another_master_is_refused(spark, tmp_path):
    import pickle

    source = us.open_source(write(tmp_path / "a.parquet"), SCHEMA, engine="spark")
    assert isinstance(source, SparkSource)
    assert repr(source) == "SparkSource(2 attributes, confidential)"
    with pytest.raises(DisclosureError):
        pickle.dumps(source)
    with pytest.raises(InputError, match="is running already"):
        us.open_source(str(tmp_path / "a.parquet"), SCHEMA, engine="spark", master="local[7]")


def test_the_command_line(spark, tmp_path):
    path = write(tmp_path / "a.parquet")
    (tmp_path / "people.toml").write_text(us.write_schema(SCHEMA))
    us.Ledger.create(tmp_path / "budget.db").create_account(
        "people", unit=us.Unit(unit_id="id"), limit=us.PureDP(epsilon=1)
    )
    asked = [
        "synthesize", path, "--schema", str(tmp_path / "people.toml"), "--method", "histogram", "--epsilon", "1",
        "--unit-id", "id", "--rows-per-unit", "1", "--engine", "spark", "--master", "local[2]",
        "--ledger", str(tmp_path / "budget.db"), "--account", "people", "--out", str(tmp_path / "release"), "--json",
    ]  # fmt: skip
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["guarantee"]
    assert read_release(tmp_path / "release").frame().num_rows == 60


@pytest.mark.full
def test_spark_submit_says_where(tmp_path):
    """The command as spark-submit runs it: no master is named, and its session is used."""
    import pyspark

    import understudy.cli

    path = write(tmp_path / "a.parquet")
    (tmp_path / "people.toml").write_text(us.write_schema(SCHEMA))
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[1]",
        str(Path(understudy.cli.__path__[0]) / "__main__.py"), "synthesize", path,
        "--schema", str(tmp_path / "people.toml"), "--method", "histogram", "--epsilon", "1", "--engine", "spark",
        "--out", str(tmp_path / "release"),
    ]  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment["PYSPARK_PYTHON"] = sys.executable
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    assert read_release(tmp_path / "release").frame().num_rows == 120


KEY = bytes(range(100, 132))


def files_with(folder: Path, *wanted: bytes) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and any(text in path.read_bytes() for text in wanted)]


def test_a_key_is_in_no_temporary_file_and_no_event_log(spark, spark_folder, tmp_path):
    stream = SeededStream(1)
    stream._words._key = KEY
    forms = (KEY, KEY.hex().encode(), base64.b64encode(KEY))
    source = us.open_source(write(tmp_path / "a.parquet"), SCHEMA, engine="spark")
    bounded = source.bounded(us.Unit(unit_id="id"), stream)
    assert bounded.total() == 60
    us.synthesize(source, method="dirichlet", budget=us.PureDP(epsilon=1), stream=stream)
    source.identify(KEY)  # the key of a fingerprint goes the same way
    assert source.fingerprint()
    assert any((spark_folder / "events").rglob("*"))
    assert files_with(spark_folder, *forms) == []
    held = spark.sparkContext.broadcast(KEY)  # the way it must not go: the same look finds it
    assert files_with(spark_folder, *forms)
    held.destroy()


def test_a_task_with_a_key_never_grows_so_large_that_it_would_be_broadcast(spark):
    threshold = spark.sparkContext._jvm.PythonUtils.getBroadcastThreshold(spark.sparkContext._jsc)
    big = np.random.default_rng(1).bytes(300_000)
    assert isinstance(share(spark, big), Broadcast)  # public values may be, and are if they are large
    with pytest.raises(InternalError, match="too large"):
        closure(np.random.default_rng(1).bytes(600_000), with_key=True)
    from understudy.engines.systems.spark.source import CLOSURE_BYTES

    assert threshold > CLOSURE_BYTES
