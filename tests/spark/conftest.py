"""One Spark session for all tests of a worker: starting one takes ten seconds and more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

MASTER = "local[2]"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here need Spark, and share one worker process so that few sessions are started."""
    for item in items:
        if "tests/spark/" in item.path.as_posix():
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session on two slots of this machine, made by the package itself."""
    from understudy.engines.spark_session import session_for

    session = session_for(MASTER)
    yield session
    session.stop()
