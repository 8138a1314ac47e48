"""What it costs that a run can be resumed safely: the fingerprint of the data, and the ledger that follows the journal.

The fingerprint is made on the first scan of a run, so its price is the difference between that scan with a key and
without. The ledger moves one row for every answer, or for all answers of one call. CPU seconds are of all threads, the
least of some repetitions. Nothing here is a test: machines differ, and the ratios within one run are what to look at.

    python benchmarks/bench_resume.py --rows 10000000
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import understudy as us
from understudy.core.places import make_places
from understudy.privacy.gate.journal import Journal
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.ledger.store import Head

SIZES = (2, 2, 3, 5, 7, 10, 16, 30, 60, 100)  # as in bench_count.py
NAMES = tuple(f"c{number}" for number in range(len(SIZES)))
PAIRS = [(one, other) for place, one in enumerate(NAMES) for other in NAMES[place + 1 :]]
KEY = bytes(range(32))


def least(work: Callable[[], object], times: int) -> float:
    """CPU seconds of the cheapest of some repetitions."""
    spent = []
    for _ in range(times):
        before = time.process_time()
        work()
        spent.append(time.process_time() - before)
    return min(spent)


def scans(folder: Path, rows: int, times: int) -> list[tuple[str, float, float]]:
    """CPU of a first scan of a table, without and with a key, for little and for much counting."""
    rng = np.random.default_rng(1)
    columns = {name: rng.integers(0, size, rows).astype(np.uint8) for name, size in zip(NAMES, SIZES, strict=True)}
    parquet.write_table(pa.table(columns), folder / "codes.parquet")
    schema = us.Schema(
        attributes=tuple(
            us.Attribute(name=name, levels=tuple(range(size))) for name, size in zip(NAMES, SIZES, strict=True)
        )
    )

    def first_scan(margins: list[tuple[str, ...]], key: bytes | None) -> None:
        source = us.open_source(folder / "codes.parquet", schema)
        if key is not None:
            source.identify(key)
        source.count(margins)

    found = []
    for title, margins in (("ten one-way margins", [(name,) for name in NAMES]), ("all 45 pairs", PAIRS)):
        plain, keyed = (least(partial(first_scan, margins, key), times) for key in (None, KEY))
        found.append((f"{rows:,} rows of ten columns, {title}", plain, keyed))
    return found


def commutes(folder: Path, pairs: int, times: int) -> tuple[str, float, float]:
    """CPU of reading counted pairs, and of reading and hashing them."""
    rng, count = np.random.default_rng(2), 20_000
    ids = [f"{place:05d}" for place in range(count)]
    places = make_places(ids=ids, latitude=rng.uniform(40, 42, count), longitude=rng.uniform(-90, -88, count))
    codes = pa.array(ids)
    table = pa.table({
        "origin": codes.take(rng.integers(0, count, pairs)), "destination": codes.take(rng.integers(0, count, pairs)),
        "jobs": rng.integers(1, 9, pairs),
    })  # fmt: skip
    parquet.write_table(table, folder / "od.parquet")

    def read(key: bytes | None) -> None:
        source = us.open_commutes(folder / "od.parquet", places=places)
        source.flows()
        if key is not None:
            source.identify(key)
            source.fingerprint()

    plain, keyed = (least(partial(read, key), times) for key in (None, KEY))
    return f"{pairs:,} pairs of commuters, read and sorted", plain, keyed


def following(folder: Path, charges: int, answers: int) -> tuple[float, float]:
    """Wall milliseconds for each answer: to journal it, and to have a ledger of so many charges confirm it."""
    ledger = Ledger.create(folder / f"{charges}.db")
    ledger.create_account("people", unit="replace", limit=us.PureDP(epsilon=10**6))
    for number in range(charges):
        ledger.reserve(
            "people", run=f"r{number}", plan_hash="a" * 64, unit="replace", cost=us.PureDP(epsilon=1), method="x",
            journal=Head(sequence=0, hash="0"),
        )  # fmt: skip
    journal = Journal.create(folder / f"run-{charges}", {"run": "mine"})
    ledger.reserve(
        "people", run="mine", plan_hash="a" * 64, unit="replace", cost=us.PureDP(epsilon=1), method="x",
        journal=journal.head,
    )  # fmt: skip
    journal.follow(lambda known, head: ledger.advance(run="mine", known=known, head=head))
    spent = [0.0, 0.0]
    for number in range(answers):
        started = time.perf_counter()
        journal.append("measurement", {"label": str(number), "values": "x" * 2000})
        middle = time.perf_counter()
        journal.confirm()
        spent[0] += middle - started
        spent[1] += time.perf_counter() - middle
    return 1000 * spent[0] / answers, 1000 * spent[1] / answers


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=10_000_000)
    options.add_argument("--repetitions", type=int, default=3)
    options.add_argument("--answers", type=int, default=300)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measured = scans(folder, given.rows, given.repetitions)
        measured.append(commutes(folder, given.rows, given.repetitions))
        print("| first scan | CPU s | with the fingerprint | ratio |\n|---|---|---|---|")
        for title, plain, keyed in measured:
            print(f"| {title} | {plain:.2f} | {keyed:.2f} | {keyed / plain:.2f} |")
        print("\n| charges in the ledger | journal, ms per answer | ledger, ms per answer |\n|---|---|---|")
        for charges in (1, 100, 1000):
            journal, ledger = following(folder, charges, given.answers)
            print(f"| {charges:,} | {journal:.1f} | {ledger:.1f} |")
        print(f"\nLoad average {os.getloadavg()[0]:.1f}, {len(os.sched_getaffinity(0))} processors.")


if __name__ == "__main__":
    main()
