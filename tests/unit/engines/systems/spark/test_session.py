"""Where Spark may run, what is refused before it is started, and what its failures become."""

from __future__ import annotations

import socket
import sys
from types import SimpleNamespace

import pyarrow as pa
import pytest

import understudy as us
from understudy.engines.systems.spark import session as spark_session
from understudy.engines.systems.spark.inputs import is_spark_frame, open_spark
from understudy.engines.systems.spark.session import (
    PROTECTIONS,
    check_java,
    check_protection,
    explained_failures,
    session_for,
)
from understudy.errors import DisclosureError, InputError, InternalError, MissingExtraError, UnsupportedError

SCHEMA = us.Schema(attributes=(us.Attribute(name="x", levels=("a", "b")),))
MARKER = "Zorbl-7741"


def session(master: str, **settings: str) -> SimpleNamespace:
    """As much of a Spark session as the checks look at."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    conf = SimpleNamespace(getAll=lambda: list(named.items()))
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, getConf=lambda: conf))


@pytest.fixture
def no_session(monkeypatch):
    """pyspark is there, and no session is running; starting one is a failure of the test."""
    pytest.importorskip("pyspark")
    started = []
    builder = SimpleNamespace(getActiveSession=lambda: None, builder=None)
    monkeypatch.setattr(spark_session, "import_spark", lambda: SimpleNamespace(SparkSession=builder))
    monkeypatch.setattr(spark_session, "_start", lambda *args, **_: started.append(args))
    for name in ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    yield monkeypatch
    assert started == []


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"spark://127.0.0.1:{server.getsockname()[1]}"


def test_without_pyspark_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    path = tmp_path / "x.csv"
    path.write_text("x\na\n")
    with pytest.raises(MissingExtraError, match=r"understudy\[spark\]"):
        us.open_source(path, SCHEMA, engine="spark", master="local[1]")
    assert us.open_source(path, SCHEMA).total() == 1  # the rest works


def test_without_java_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"needs Java 17 or newer: there is none on the PATH"):
        check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    with pytest.raises(InputError, match="JAVA_HOME is"):
        check_java()


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ('openjdk version "11.0.2" 2019-01-15', "is Java 11; Spark needs Java 17"),
        ('java version "1.8.0_392"', "is Java 8"),
        ("no idea", "of unknown version"),
    ],
)
def test_another_java_is_refused(monkeypatch, tmp_path, told, message):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{told}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(InputError, match=message):
        check_java()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21\"' >&2\n")
    check_java()


def test_a_java_that_cannot_be_run_is_refused(monkeypatch, tmp_path):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_bytes(b"\x7fELF nothing")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(InputError, match="cannot be run"):
        check_java()


@pytest.mark.usefixtures("no_session")
@pytest.mark.parametrize(
    ("master", "message"),
    [
        (None, "say master"),
        ("http://somewhere", "is not one Spark knows"),
        ("spark://", "must name a host"),
        ("spark://host:port", "must name a host"),
        ("local[2", "is not one Spark knows"),
    ],
)
def test_a_master_that_is_none_is_refused(monkeypatch, master, message):
    monkeypatch.setattr(spark_session, "check_java", lambda: None)
    with pytest.raises(InputError, match=message):
        session_for(master)


def test_a_master_that_does_not_answer_is_named_with_the_time_waited(no_session):
    no_session.setattr(spark_session, "check_java", lambda: None)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers here
        master = f"spark://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InputError, match="waited 20 seconds at most"):
            session_for(master)


def test_a_cluster_without_protection_is_refused_before_it_is_spoken_to(no_session, listening):
    no_session.setattr(spark_session, "check_java", lambda: None)
    with pytest.raises(DisclosureError, match="--allow-insecure-cluster") as caught:
        session_for(listening)
    assert all(name in str(caught.value) for name in PROTECTIONS)


def test_settings_are_found_where_spark_finds_them(no_session, listening, tmp_path):
    no_session.setattr(spark_session, "check_java", lambda: None)
    no_session.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text(
        "# a comment\nspark.authenticate true\nspark.network.crypto.enabled=true\n"
    )
    no_session.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.x=1 pyspark-shell")
    with pytest.raises(DisclosureError, match=r"spark\.io\.encryption") as caught:
        session_for(listening)
    assert "spark.authenticate:" not in str(caught.value)
    no_session.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.io.encryption.enabled=true pyspark-shell")
    begun = []
    no_session.setattr(spark_session, "_start", lambda *args, **_: begun.append(args) or session("local"))
    session_for(listening)
    assert len(begun) == 1


def test_quoted_settings_are_read_as_spark_reads_them(monkeypatch):
    quoted = '--conf "spark.x=a b" --driver-java-options "-Xss4m -Da=1" --master local[3] pyspark-shell'
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", quoted)
    expected = {"spark.x": "a b", "spark.driver.extraJavaOptions": "-Xss4m -Da=1", "spark.master": "local[3]"}
    assert spark_session._submitted() == expected
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", '--conf spark.x=1 --conf "spark.y=2')
    assert spark_session._submitted()["spark.x"] == "1"


@pytest.mark.parametrize("off", [None, *PROTECTIONS])
def test_every_protection_counts(off):
    on = {name.replace(".", "_"): "false" if name == off else "true" for name in PROTECTIONS}
    there = session("spark://host:7077", **on)
    if off is None:
        check_protection(there, allow_insecure_cluster=False)
        return
    with pytest.raises(DisclosureError, match=off):
        check_protection(there, allow_insecure_cluster=False)
    check_protection(there, allow_insecure_cluster=True)
    check_protection(session("local[4]"), allow_insecure_cluster=False)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (f"value '{MARKER}' cannot be cast", InputError, "its message may quote"),
        (f"ModuleNotFoundError: No module named 'understudy' {MARKER}", InputError, "no package 'understudy'"),
        (f"TaskError: KeyError\n{MARKER}", InternalError, r"in a task \(KeyError\)"),
        ("TaskError: DataChangedError", InputError, "data changed between two scans"),
        ("[PYTHON_VERSION_MISMATCH] Python", InputError, "another version of Python"),
    ],
)
def test_failures_of_spark_lose_their_text(text, error, message):
    py4j = pytest.importorskip("py4j.protocol")
    with pytest.raises(error, match="(?i)" + message) as caught, explained_failures("counting"):
        raise py4j.Py4JError(text)
    assert MARKER not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (pa.table({"x": ["a"]}), {}, "cannot open a Table"),
        (None, {}, "needs either data"),
        ("x.parquet", {"table": "people"}, "needs either data"),
        ("nowhere.parquet", {}, "does not exist"),
        (["hdfs://a/x.parquet", "y.parquet"], {}, "either by paths or by URIs"),
        ("hdfs://a/x.csv", {}, "CSV files are read under a path"),
        ("hdfs://a/x.parquet", {"delimiter": ";"}, "do not go with"),
    ],
)
def test_what_cannot_be_opened_is_refused_before_spark_is_started(monkeypatch, data, options, message):
    monkeypatch.setattr(spark_session, "import_spark", lambda: pytest.fail("Spark was looked for"))
    with pytest.raises(InputError, match=message):
        open_spark(data, SCHEMA, **options)


def test_other_files_are_refused_before_spark_is_started(monkeypatch, tmp_path):
    monkeypatch.setattr(spark_session, "import_spark", lambda: pytest.fail("Spark was looked for"))
    for name, options, message in (
        ("x.dta", {}, "reads CSV and Parquet"),
        ("x.parquet", {"missing_text": "NA"}, "do not go with"),
        ("x.csv", {"delimiter": ";;"}, "must be one character"),
    ):
        (tmp_path / name).touch()
        with pytest.raises(InputError, match=message):
            open_spark(str(tmp_path / name), SCHEMA, **options)


def test_a_cluster_is_for_spark_only(tmp_path):
    assert not is_spark_frame(pa.table({"x": ["a"]}))
    with pytest.raises(InputError, match="go with engine 'spark'"):
        us.open_source(pa.table({"x": ["a"]}), SCHEMA, master="local[2]")
    with pytest.raises(InputError, match="engine 'sparkle' is unknown; did you mean 'spark'"):
        us.open_source(pa.table({"x": ["a"]}), SCHEMA, engine="sparkle")


def test_a_frame_of_spark_connect_is_refused(monkeypatch):
    pytest.importorskip("pyspark")
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
    assert is_spark_frame(frame)
    with pytest.raises(UnsupportedError, match="Spark Connect"):
        us.open_source(frame, SCHEMA)
