"""Kill whole runs at random moments and finish every one of them.

    python tests/stress/kill_runs.py 500

Each worker makes releases one after another, paying for each, and is killed with SIGKILL at a random moment. Afterwards
the ledger must verify, every journal with noise must have its charge, every run that was charged must be finished by
``resume`` without a second charge, and every release folder must be whole. ``tests/unit/release/test_kill.py`` runs the
same with fewer kills.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

import understudy as us
from understudy.privacy.gate.journal import Journal

WORKER = """
import sys, itertools, pyarrow as pa, understudy as us
from pathlib import Path
place, name = Path(sys.argv[1]), sys.argv[2]
schema = us.read_schema(place / "schema.toml")
source = us.open_source(place / "people.parquet", schema)
us.synthesize(source, budget=us.PureDP(epsilon="0.001"), ledger=place / "budget.db", account="people",
              out=place / f"{name}-warm")
print("ready", flush=True)
for number in itertools.count():
    us.synthesize(source, budget=us.PureDP(epsilon="0.001"), ledger=place / "budget.db", account="people",
                  out=place / f"{name}-{number}", copies=2)
"""


def prepare(place: Path) -> None:
    """A small population, its schema, and a ledger large enough for every run."""
    import pyarrow.parquet as pq

    schema = us.Schema(
        attributes=(
            us.Attribute(name="sex", levels=("F", "M")),
            us.Attribute(name="age", edges=(0, 30, 60, 100), integer=True),
        )
    )
    (place / "schema.toml").write_text(us.write_schema(schema))
    pq.write_table(pa.table({"sex": ["F", "M"] * 50, "age": [5, 50] * 50}), place / "people.parquet")
    us.Ledger.create(place / "budget.db").create_account("people", unit="replace", limit=us.PureDP(epsilon=1000))


def kill_once(place: Path, name: str, delay: float) -> None:
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(place), name], stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    assert worker.stdout.readline().strip() == "ready", "the worker did not start"
    time.sleep(delay)
    worker.send_signal(signal.SIGKILL)
    worker.wait()


def settle(place: Path) -> dict[str, int]:
    """Check everything and finish what was left; returns what was found."""
    ledger = us.Ledger.open(place / "budget.db")
    assert ledger.verify(), ledger.verify().problems
    charged = {entry.run for entry in ledger.entries("people") if entry.kind == "charge"}
    found = {"charged": len(charged), "without data": 0, "with data": 0, "never charged": 0}
    for folder in sorted(place.glob("*.partial-*")):
        if not (folder / "run.json").exists():  # a release being written, or a journal being made or removed
            continue
        try:
            journal = Journal.open(folder)
        except us.UnderstudyError:
            raise AssertionError(f"{folder} cannot be opened") from None
        if "run" not in journal.header:
            continue
        run = journal.header["run"]
        drawn = [entry for entry in journal.entries() if entry.kind == "measurement"]
        assert not drawn or run in charged, "noise without a charge"
        out = Path(journal.header["destination"]["out"])
        if out.exists():  # it died after the rename, before the journal was removed
            assert all(check.passed for check in us.verify(out))
            continue
        if run not in charged:
            found["never charged"] += 1
            continue
        us.resume(folder, source=None if drawn else place / "people.parquet")
        found["without data" if drawn else "with data"] += 1
    charges = [entry for entry in ledger.entries("people") if entry.kind == "charge"]
    assert len(charges) == len({entry.run for entry in charges}) == len(charged), "a run was charged twice"
    releases = [
        folder for folder in place.iterdir() if (folder / "manifest.json").exists() and not folder.name.startswith(".")
    ]
    assert len(releases) == len(charged), "a charged run has no release"
    for folder in releases:
        assert all(check.passed for check in us.verify(folder)), folder
        assert ledger.verify_against(us.read_release(folder).statement.ledger)
    return found


def kill_many(place: Path, kills: int, seed: int) -> dict[str, int]:
    prepare(place)
    chance = random.Random(seed)
    for number in range(kills):
        kill_once(place, f"run{number}", chance.uniform(0, 0.25))
    return settle(place)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(kill_many(Path(folder), int(sys.argv[1]) if len(sys.argv) > 1 else 500, seed=int(time.time())))
