"""A real cluster on loopback: a master and two workers as processes, and a driver that is a process too.

One cluster and one driver serve all tests of this file, in order: the last ones lose a worker and leak on purpose.
What a look at the memory cannot see is stated in docs/tutorials/spark.md (footer statistics among others: the marker is
neither the least nor the greatest value of its column).
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.commutes.source.places_file import places_table
from understudy.demo.commuters import make_world

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
MARKER = "MmQx" + "7Vv3-secret"
KEY = bytes(range(7, 39))
ROWS = 600
WAIT = 180


class Driver:
    """The driver process; ``tell`` sends a command and waits for its answer."""

    def __init__(self, cluster: dict[str, Any], folder: Path) -> None:
        self.folder = folder
        (folder / "tmp").mkdir()
        environment = os.environ | {
            "SPARK_CONF_DIR": cluster["conf"],
            "TEST_MASTER": cluster["master"],
            "TEST_KEY": KEY.hex(),
            "TMPDIR": str(folder / "tmp"),
            "PYSPARK_PYTHON": sys.executable,
        }
        with (folder / "driver.log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / "driver.py")],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=folder,
            )

    def send(self, **command: Any) -> None:
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        answer = json.loads(self.process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return answer

    def tell(self, **command: Any) -> dict[str, Any]:
        self.send(**command)
        return self.receive()

    def pids(self) -> list[int]:
        """The driver itself and its JVM."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [self.process.pid, *map(int, children)]


def in_memory(pid: int, *wanted: bytes) -> bool:
    """Whether the memory of a process holds any of some bytes."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            span, permission = line.split()[:2]
            if not permission.startswith("r") or line.rstrip().endswith(("[vvar]", "[vsyscall]", "[vvar_vclock]")):
                continue
            start, end = (int(part, 16) for part in span.split("-"))
            tail = b""
            for place in range(start, end, 2**24):
                try:
                    memory.seek(place)
                    block = memory.read(min(2**24, end - place))
                except (OSError, OverflowError, ValueError):
                    break
                if any(text in block or text in tail + block[:100] for text in wanted):
                    return True
                tail = block[-100:]
    return False


def in_files(folder: Path, *wanted: bytes) -> list[str]:
    """Files below a folder that hold some bytes."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            found += [str(path) for text in wanted if text in content]
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def cluster(folder):
    command = [sys.executable, str(REPOSITORY / "tools" / "spark_cluster.py"), "--folder", str(folder / "spark")]
    command += ["--conf", "spark.driver.memory=512m", "--conf", "spark.sql.shuffle.partitions=4"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield json.loads(process.stdout.readline())
    process.stdin.close()
    process.wait(WAIT)


@pytest.fixture(scope="module")
def driver(cluster, folder):
    place = folder / "driver"
    place.mkdir()
    driver = Driver(cluster, place)
    yield driver
    driver.process.stdin.close()
    driver.process.wait(WAIT)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    rng = np.random.default_rng(2)
    persons = [f"A{number}" for number in rng.integers(0, 150, ROWS)]
    persons[10], persons[11], persons[ROWS // 2], persons[-1] = "A", MARKER, MARKER, "Z"
    table = pa.table(
        {
            "sex": pa.array(np.array(["F", "M"])[rng.integers(0, 2, ROWS)]),
            "place": pa.array([f"{number:03d}" for number in rng.integers(0, 39, ROWS)]),  # nobody in the last place
            "age": rng.integers(0, 91, ROWS),
            "person": persons,
        }
    )
    path = tmp_path_factory.mktemp("data") / "people.parquet"
    pq.write_table(table, path, row_group_size=100)
    return str(path)


@pytest.fixture(scope="module")
def here():
    """The driver's own functions, run here with the embedded engine."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("spark_driver", HERE / "driver.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ledger_at(place: Path) -> us.Ledger:
    ledger = us.Ledger.create(place)
    ledger.create_account("people", unit=us.Unit(kind="replace", fixed=("place",)), limit=us.PureDP(epsilon=10))
    return ledger


@pytest.fixture(scope="module")
def expected(here, path, folder):
    """The release of the embedded engine under the same key."""
    os.environ["TEST_KEY"] = KEY.hex()
    ledger_at(folder / "here.db")
    return here.release(us.open_source(path, here.SCHEMA), str(folder / "here"), str(folder / "here.db"))


def test_the_same_counts_and_the_same_release(driver, here, path, folder, expected):
    assert driver.tell(do="counts", path=path) == here.counts(path)
    ledger = ledger_at(folder / "first.db")
    assert driver.tell(do="release", path=path, out=str(folder / "first"), ledger=str(ledger.path)) == expected
    assert len(charges(ledger)) == 1


def charges(ledger: us.Ledger) -> list[Any]:
    return [entry for entry in ledger.entries() if entry.kind == "charge"]


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
def test_a_task_that_draws_twice_gives_one_draw(driver, here, folder, tmp_path):
    """Every task that draws noise of commutes fails after its first draw and runs again: the release of one machine."""
    os.environ["TEST_KEY"] = KEY.hex()
    world, seen = make_world("town", seed=1), folder / "attempts"
    seen.mkdir()
    pq.write_table(places_table(world.places), tmp_path / "places.parquet")
    pq.write_table(world.flows_table(), tmp_path / "od.parquet")
    where = {"path": str(tmp_path / "od.parquet"), "places": str(tmp_path / "places.parquet")}
    assert driver.tell(do="commutes", seen=str(seen), **where) == here.commutes(**where)
    attempts = {note.name.rpartition("-")[2] for note in seen.iterdir()}
    assert attempts == {"0", "1"}


def test_no_row_is_in_the_memory_of_the_driver(driver):
    for pid in driver.pids():
        assert not in_memory(pid, MARKER.encode(), MARKER.encode("utf-16-le"))
    assert in_memory(driver.process.pid, b"understudy.engines.systems.spark.tasks")  # the look itself works


def test_no_row_and_no_key_is_in_a_log_or_a_temporary_file(driver, folder):
    """In event logs, the logs of driver and workers, local and temporary folders; what is shuffled is encrypted."""
    keys = (KEY, KEY.hex().encode(), base64.b64encode(KEY))
    assert (folder / "spark" / "events").exists()
    assert any((folder / "spark" / "events").rglob("*"))
    assert in_files(folder, MARKER.encode(), *keys) == []


@pytest.mark.full
def test_a_worker_that_dies_changes_nothing(driver, cluster, path, folder, expected):
    """Its tasks run again elsewhere: the same table, and one charge."""
    ledger, seen = ledger_at(folder / "second.db"), folder / "seen"
    seen.mkdir()
    driver.send(do="slow release", path=path, out=str(folder / "second"), ledger=str(ledger.path), seen=str(seen))
    deadline = time.monotonic() + WAIT
    while len({note.name.split("-")[1] for note in seen.iterdir()}) < 2 or len(list(seen.iterdir())) < 4:
        assert time.monotonic() < deadline, "two executors did not begin to work"
        time.sleep(0.05)
    os.kill(cluster["pids"]["worker-1"], signal.SIGKILL)
    before = len(list(seen.iterdir()))
    assert before < 12  # in the middle of the first scan
    assert driver.receive() == expected
    assert len(list(seen.iterdir())) > 2 * 12  # two scans, and what was lost was done again
    assert len(charges(ledger)) == 1
    assert ledger.verify().ok


def test_the_look_at_the_memory_would_have_told(driver, path):
    assert driver.tell(do="leak", path=path)["rows"] == ROWS
    assert any(in_memory(pid, MARKER.encode()) for pid in driver.pids())
