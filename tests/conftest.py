"""What every test shares: which tests run, and where the data sets are.

Long tests are skipped, with the reason, unless FULL=1. A test that needs a browser, node, Spark, PostgreSQL or R is
skipped, with the reason, where the component is absent; with FULL=1 it runs all the same and fails, so that a full run
cannot pass by skipping.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests import postgres_cluster
from tests.repeatable import Repeatable

# Scripts that make golden values or stress the machine: they need other packages, or hours.
collect_ignore_glob = ["golden/make_*.py", "stress/*.py"]

REPOSITORY = Path(__file__).resolve().parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def full_run() -> bool:
    return os.environ.get("FULL") == "1"


def pytest_configure() -> None:
    """Hypothesis looks at the same examples each time, and at fresh ones with PROVE=1."""
    from hypothesis import settings

    settings.register_profile("repeatable", derandomize=True)
    if os.environ.get("PROVE") != "1":
        settings.load_profile("repeatable")


def _missing_for_browser() -> str | None:
    if importlib.util.find_spec("playwright") is None:
        return "needs playwright: install the extra 'dev'"
    if any(shutil.which(name) for name in BROWSERS):
        return None
    return f"needs headless Chromium, and none of {', '.join(BROWSERS)} is on the PATH"


def _missing_for_node() -> str | None:
    return None if shutil.which("node") else "needs node (18 or newer), and it is not on the PATH"


def _missing_for_spark() -> str | None:
    if importlib.util.find_spec("pyspark") is None:
        return "needs pyspark: install the extra 'spark'"
    java_home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (java_home and (Path(java_home) / "bin" / "java").exists()):
        return "needs Java, and there is no java on the PATH or in JAVA_HOME"
    return None


def _missing_for_postgres() -> str | None:
    if importlib.util.find_spec("psycopg") is None:
        return "needs psycopg: install the extra 'postgres'"
    return postgres_cluster.missing()


def _missing_for_r() -> str | None:
    if shutil.which("Rscript") is None:
        return "needs R, and there is no Rscript on the PATH (Debian: r-base-core r-cran-jsonlite)"
    return None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[None]:
    """What is made before the first test stays until the end: looking through it for garbage is in vain."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()


@pytest.fixture(scope="session", autouse=True)
def commands_built_once() -> Iterator[None]:
    """typer builds the whole command line at every call: 25 ms, for a thousand calls."""
    import typer.main
    import typer.testing

    built = cache(typer.main.get_command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", built)
        patch.setattr(typer.testing, "_get_command", built)
        yield


_repeatable = Repeatable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    _repeatable.begin(item.nodeid)


@pytest.fixture(scope="session", autouse=True)
def the_same_noise_each_time() -> Iterator[None]:
    with _repeatable.installed():
        yield


@pytest.fixture(scope="session", autouse=True)
def nothing_waits_for_the_disk() -> Iterator[None]:
    """No test cuts the power, so none has to wait until files are on the disk: milliseconds, many thousand times.

    That files are forced to the disk, and when, is tested where it is asked for. Runs that are killed are processes of
    their own, and wait.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)  # a descriptor that is not open is an error as before
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if full_run():
        return
    components = {
        "browser": _missing_for_browser(), "node": _missing_for_node(), "spark": _missing_for_spark(),
        "postgres": _missing_for_postgres(), "r": _missing_for_r(),
    }  # fmt: skip
    for item in items:
        if item.get_closest_marker("full"):
            item.add_marker(pytest.mark.skip(reason="a long test: runs with FULL=1"))
        for marker, missing in components.items():
            if missing and item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=missing))


@pytest.fixture(scope="session")
def postgres() -> Iterator[postgres_cluster.Cluster]:
    """A PostgreSQL of our own, for the tests that are marked so."""
    cluster = postgres_cluster.Cluster()
    yield cluster
    cluster.close()


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of public data sets: UNDERSTUDY_DATA, or ``shared/data`` beside the repository."""
    named = os.environ.get("UNDERSTUDY_DATA")
    folder = Path(named) if named else REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"needs the public data sets: {folder} is not a folder; set UNDERSTUDY_DATA to theirs")
    return folder


# Tests that are about what surrounds a fit or an evaluation, not about its numbers; examples of the documentation too.
SHORTENED = (
    "tests/conformance",
    "tests/browser",
    "tests/replay",
    "tests/structure/test_readme.py",
    "tests/unit/cli",
    "tests/unit/evaluation/test_person_part.py",
    "tests/unit/explore",
    "tests/unit/figures",
    "tests/unit/release",
    "tests/unit/reporting",
    "src/understudy/api",
)


@pytest.fixture(scope="module", autouse=True)
def fewer_repetitions(request: pytest.FixtureRequest) -> Iterator[None]:
    """Repetitions that only make a number more exact are fewer there: a third of the time.

    A fit to small tables chooses its prior strength by 2 trials instead of 8, with FULL=1 too, where three quarters of
    the replay went into these trials; PROVE=1 (``make prove``) takes all 8. Without FULL=1 a classifier is compared
    with 2 permutations instead of 10, and a plan is run again 4 times instead of 12 to find a person's part.
    """
    with pytest.MonkeyPatch.context() as patch:
        if request.path.relative_to(REPOSITORY).as_posix().startswith(SHORTENED):
            from understudy.evaluation import taking_part
            from understudy.evaluation.inputs import comparison
            from understudy.models import fit

            if os.environ.get("PROVE") != "1":
                patch.setattr(fit, "MOST_TRIALS", 2)
            if not full_run():
                patch.setattr(comparison, "PERMUTATIONS", 2)
                patch.setattr(taking_part, "USUAL_REFITS", taking_part.FEWEST_REFITS)
        yield


SLOWEST_SHOWN = 10
_seconds_by_file: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def budgets_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests use an epsilon of 1000 to see something without noise; what is refused to others is tested by itself."""
    from understudy.privacy.promise import definition

    for bound in ("LARGEST_EPSILON", "LARGEST_RHO", "LARGEST_DELTA", "EXPECTED_RECORDS"):
        monkeypatch.setattr(definition, bound, float("inf"))


# Files that take many minutes and whose tests share nothing: their tests are handed out one by one, and last, so that
# no worker is left alone with one of them at the end. Every other file stays on one worker, with what its tests share.
TEST_BY_TEST = ("tests/replay/test_replay.py",)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """As ``--dist loadfile``, except for those files; any other ``--dist`` is left as it is."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return nodeid if file in TEST_BY_TEST else file

        def schedule(self) -> None:
            super().schedule()
            for scope in [scope for scope in self.workqueue if scope.startswith(TEST_BY_TEST)]:
                self.workqueue.move_to_end(scope)

    return Scheduling(config, log)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds_by_file[report.nodeid.split("::")[0]] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Which files take longest, so that a suite that grows says where."""
    if not _seconds_by_file:
        return
    terminalreporter.section(f"the {SLOWEST_SHOWN} slowest files, in seconds")
    for name, seconds in _seconds_by_file.most_common(SLOWEST_SHOWN):
        terminalreporter.write_line(f"{seconds:8.1f}  {name}")
