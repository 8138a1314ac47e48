"""How long each step takes from a confidential file to a verified release, by number of rows and by number of cells.

CPU seconds count all threads. Nothing here is a test: machines differ.
"""

from __future__ import annotations

import resource
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyarrow import csv, parquet
from rich.console import Console
from rich.table import Table

import understudy as us
from understudy.demo.people import make_people, people_schema

# Attributes to cross: some thousand cells, and close to the largest cross that histogram takes.
SMALL = ("region", "sex", "age", "education", "smokes")
LARGE = (*SMALL, "employment", "marital", "health", "registered")
CASES = (
    ("parquet", 100_000, SMALL),
    ("csv", 100_000, SMALL),
    ("parquet", 1_000_000, SMALL),
    ("parquet", 100_000, LARGE),
)


def schema_of(kept: tuple[str, ...]) -> us.Schema:
    whole = people_schema()
    return us.Schema(
        attributes=tuple(whole[name] for name in whole.names if name in kept),
        impossible=tuple(rule for rule in whole.impossible if set(rule.attributes) <= set(kept)),
        ignore=(*whole.ignore, *(name for name in whole.names if name not in kept)),
    )


def measure(form: str, rows: int, kept: tuple[str, ...], folder: Path) -> dict[str, tuple[float, float]]:
    """Wall and CPU seconds of each step."""
    seconds: dict[str, tuple[float, float]] = {}

    @contextmanager
    def step(name: str) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        seconds[name] = time.perf_counter() - wall, time.process_time() - cpu

    data, table = folder / f"people.{form}", make_people(rows)
    if form == "csv":
        csv.write_csv(table, data)
    else:
        parquet.write_table(table, data)
    schema, budget = schema_of(kept), us.PureDP(epsilon=1)
    with step("plan"):
        plan = us.plan(schema, budget=budget)
    with step("read and count"):
        us.open_source(data, schema).count([schema.names])
    with step("synthesize"):
        release = us.synthesize(us.open_source(data, schema), plan=plan)
    with step("write"):
        release.write(folder / "release")
    with step("verify"):
        checks = us.verify(folder / "release")
    assert all(check.passed for check in checks)
    return seconds


def main() -> None:
    warnings.simplefilter("ignore", UserWarning)  # no ledger: a benchmark promises nothing
    shown = Table("file", "rows", "cells", "step", "wall s", "CPU s")
    for form, rows, kept in CASES:
        with tempfile.TemporaryDirectory() as folder:
            for name, (wall, cpu) in measure(form, rows, kept, Path(folder)).items():
                cells = schema_of(kept).cells()
                shown.add_row(form, f"{rows:,}", f"{cells:,}", name, f"{wall:.2f}", f"{cpu:.2f}")
        shown.add_section()
    Console().print(shown)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    Console().print(f"largest memory of the process: {peak:,.0f} MB")


if __name__ == "__main__":
    main()
