"""Kill runs at random moments, with kill -9, and check what they leave on the disk.

    python tests/stress/kill_ledger.py --kills 500

A worker makes runs without end: it opens a journal, reserves its charge, journals noisy answers and has the ledger
confirm each, settles, publishes a release and discards the journal. It is killed, and the folder is examined: the
ledger verifies, no answer without a charge, every journal opens, every release is whole and stands in the ledger. Then
every unfinished run is resumed and finished from its journal, under its first charge; and a copy of its folder, made
before, is refused if it would have to draw.
"""

from __future__ import annotations

import argparse
import json
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from understudy.core.folders import SCRATCH, publish_folder
from understudy.errors import BudgetError
from understudy.privacy.gate.journal import Journal, pack_array, unpack_array
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.promise.definition import PureDP, Unit

ANSWERS = 4
COST = PureDP(epsilon="0.001")
SPENT = PureDP(epsilon="0.0004")
PLAN_HASH = "5" * 64


@dataclass
class Tally:
    """What the kills left: problems are failures, the rest shows that the kills hit something."""

    kills: int = 0
    unfinished: int = 0
    charged: int = 0
    measured: int = 0
    released: int = 0
    copies_refused: int = 0
    problems: list[str] = field(default_factory=list)


def prepare(folder: Path) -> None:
    (folder / "runs").mkdir()
    (folder / "releases").mkdir()
    Ledger.create(folder / "budget.db").create_account("people", unit="replace", limit=PureDP(epsilon=1000))


def finish(folder: Path, journal: Journal) -> None:
    """One run from wherever it stands to its release: the same code for a first and a resumed run."""
    ledger, run = Ledger.open(folder / "budget.db"), journal.header["run"]
    charge = ledger.reserve(
        "people", run=run, plan_hash=PLAN_HASH, unit="replace", cost=COST, method="stress", journal=journal.head
    )
    ledger.take_up(
        "people", run=run, plan_hash=PLAN_HASH, unit=Unit(), cost=COST, block=charge.block, checksums=journal.checksums
    )
    journal.follow(lambda known, head: ledger.advance(run=run, known=known, head=head))
    for _ in range(len(journal.entries()), ANSWERS):
        answer = np.frombuffer(secrets.token_bytes(8 * 5000), dtype=np.int64)
        journal.append("measure", pack_array(answer))
        journal.confirm()
    ledger.settle(run=run, spent=SPENT)
    values = [unpack_array(entry.payload).sum().item() for entry in journal.entries()]

    def write(partial: Path) -> None:
        (partial / "manifest.json").write_text(json.dumps({"ledger": charge.block}))
        (partial / "values.json").write_text(json.dumps(values))

    target = folder / "releases" / run
    if not target.exists():  # a run may die after its release and before its journal is discarded
        publish_folder(target, write)
    journal.discard()


def work(folder: Path) -> None:
    print("ready", flush=True)
    while True:
        run = secrets.token_hex(8)
        finish(folder, Journal.create(folder / "runs" / run, {"run": run}))


def visible(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith(SCRATCH))


def examine(folder: Path, tally: Tally) -> list[Journal]:
    """Every promise about what a killed process leaves; the journals found are handed back."""
    ledger = Ledger.open(folder / "budget.db")
    tally.problems += ledger.verify().problems
    charges = {entry.run for entry in ledger.entries("people") if entry.kind == "charge"}
    journals = []
    for path in visible(folder / "runs"):
        try:
            journal = Journal.open(path)
        except ValueError as problem:
            tally.problems.append(f"a journal cannot be opened: {problem}")
            continue
        journals.append(journal)
        if journal.entries() and journal.header["run"] not in charges:
            tally.problems.append(f"run {journal.header['run']} has noise without a charge")
    for path in visible(folder / "releases"):
        try:
            block = json.loads((path / "manifest.json").read_text())["ledger"]
            complete = len(json.loads((path / "values.json").read_text())) == ANSWERS
        except (OSError, ValueError):
            complete = False
        if not complete:
            tally.problems.append(f"release {path.name} is not whole")
        elif block["run"] not in charges:
            tally.problems.append(f"release {path.name} has no charge")
    return journals


def resume(folder: Path, journals: list[Journal], tally: Tally) -> None:
    ledger = Ledger.open(folder / "budget.db")
    for journal in journals:
        before = {entry.run: entry.hash for entry in ledger.entries("people") if entry.kind == "charge"}
        run, answered = journal.header["run"], [entry.payload for entry in journal.entries()]
        tally.unfinished += 1
        tally.charged += run in before
        tally.measured += bool(answered)
        copy = Path(shutil.copytree(journal.folder, folder / f"copy-of-{run}"))
        finish(folder, journal)
        if len(answered) < ANSWERS:
            try:
                finish(folder, Journal.open(copy))
                tally.problems.append(f"a copy of run {run} drew an answer again")
            except BudgetError:
                tally.copies_refused += 1
        shutil.rmtree(copy, ignore_errors=True)
        if [entry.payload for entry in journal.entries()][: len(answered)] != answered:
            tally.problems.append(f"run {run} drew an answer twice")
        block = json.loads((folder / "releases" / run / "manifest.json").read_text())["ledger"]
        if run in before and block["head"] != before[run]:
            tally.problems.append(f"run {run} was charged twice")
        tally.problems += ledger.verify_against(block).problems


def torment(folder: Path, kills: int, seed: int) -> Tally:
    """``kills`` times: start a worker, kill it, examine what it left, resume what it had begun."""
    prepare(folder)
    tally, moments = Tally(), random.Random(seed)
    for _ in range(kills):
        worker = subprocess.Popen([sys.executable, __file__, "--work", str(folder)], stdout=subprocess.PIPE, text=True)
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        time.sleep(moments.uniform(0, 0.1))
        worker.kill()
        worker.wait()
        worker.stdout.close()
        tally.kills += 1
        journals = examine(folder, tally)
        resume(folder, journals, tally)
        for leftover in [*(folder / "runs").iterdir(), *(folder / "releases").iterdir()]:
            if leftover.name.startswith(SCRATCH):
                shutil.rmtree(leftover)
    tally.problems += [f"run {journal.header['run']} was not finished" for journal in examine(folder, tally)]
    tally.released = len(visible(folder / "releases"))
    return tally


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kills", type=int, default=500)
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.work:
        work(given.work)
    with tempfile.TemporaryDirectory() as folder:
        tally = torment(Path(folder), given.kills, given.seed)
    print(
        f"seed {given.seed}: {tally.kills} kills left {tally.unfinished} unfinished runs, {tally.charged} of them "
        f"charged, {tally.measured} with answers; {tally.copies_refused} copies refused; {tally.released} releases in "
        "the end."
    )
    for problem in tally.problems:
        print("PROBLEM:", problem)
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
