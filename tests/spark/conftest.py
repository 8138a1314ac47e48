"""One Spark session for all tests of a worker: starting one takes ten seconds and more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

MASTER = "local[2]"


@pytest.hookimpl(tryfirst=True)  # before the root's hook, which skips by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here need Spark. A file's tests share one worker process, so that few sessions are started."""
    for item in items:
        if "tests/spark/" in item.path.as_posix():
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the session puts its temporary files and its event log."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="session")
def spark(spark_folder: Path) -> Iterator[Any]:
    """A session on two slots of this machine, made by the package itself."""
    from understudy.engines.systems.spark.session import session_for

    (spark_folder / "events").mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{spark_folder / 'events'}",
        "spark.sql.warehouse.dir": str(spark_folder / "warehouse"),
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "4",  # what two slots need; Spark's 200 take their time
    }
    arguments = " ".join(f"--conf {name}={value}" for name, value in settings.items())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_DIRS", str(spark_folder / "local"))
        patch.setenv("TMPDIR", str(spark_folder))
        patch.setenv("PYSPARK_SUBMIT_ARGS", f"{arguments} pyspark-shell")
        session = session_for(MASTER, jvm_reads=False)
    yield session
    session.stop()
