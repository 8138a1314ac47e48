"""What counting costs beside reading: all 45 two-way margins of ten columns, against a bare Parquet scan and DuckDB.

Every step runs in a process of its own, so that its peak memory is its own, and is timed after its libraries are
loaded; loading the compiled kernel is a step too. CPU seconds are user and system time of all threads, the least of
some repetitions. Nothing here is a test: machines differ, and the ratios within one run are what to look at.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from pyarrow import parquet
from rich.console import Console
from rich.table import Table

import understudy as us
from understudy.engines.counting.kernel import VARIABLE
from understudy.engines.counting.tally import Tally
from understudy.engines.reading.encode import Encoder
from understudy.engines.reading.readers import BATCH_ROWS, ParquetReader
from understudy.engines.systems.local.inputs import open_local

SIZES = (2, 2, 3, 5, 7, 10, 16, 30, 60, 100)
NAMES = tuple(f"c{number}" for number in range(len(SIZES)))
PAIRS = tuple(itertools.combinations(NAMES, 2))
FORMS = ("codes", "text")
DOCS = Path(__file__).parent.parent / "docs" / "benchmarks" / "machine.md"
HEADING = "## Counting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    wall: float
    cpu: float
    peak: float  # MB


def schema_of(form: str) -> us.Schema:
    return us.Schema(
        attributes=tuple(
            us.Attribute(name=name, levels=tuple(range(size)) if form == "codes" else tuple(texts_of(size)))
            for name, size in zip(NAMES, SIZES, strict=True)
        )
    )


def texts_of(size: int) -> list[str]:
    return [f"level {number}" for number in range(size)]


def write_file(path: Path, rows: int, form: str) -> None:
    """Ten skewed columns, as the smallest integers or as texts, in row groups of a million rows."""
    rng = np.random.default_rng(1)
    writer = None
    for start in range(0, rows, 2**20):
        columns = []
        for size in SIZES:
            chance = np.arange(1, size + 1) ** -0.8
            codes = rng.choice(size, min(2**20, rows - start), p=chance / chance.sum()).astype(np.uint8)
            array = pa.array(codes)
            if form == "text":
                array = pa.DictionaryArray.from_arrays(array.cast(pa.int8()), pa.array(texts_of(size)))
                array = array.dictionary_decode()
            columns.append(array)
        table = pa.table(columns, names=list(NAMES))
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def scan(path: str, _: str) -> None:
    with parquet.ParquetFile(path, pre_buffer=False) as file:
        for batch in file.iter_batches(BATCH_ROWS):
            del batch


def encode(path: str, form: str) -> None:
    schema = schema_of(form)
    encoder = Encoder(schema)
    for batch in ParquetReader([path]).batches(schema.names):
        encoder.encode(batch)


def count(path: str, form: str) -> None:
    tables = open_local(path, schema_of(form)).count(PAIRS)
    assert len(tables) == len(PAIRS)


def group(path: str, _: str) -> None:
    with duckdb.connect() as connection:
        for first, second in PAIRS:
            query = f"SELECT {first}, {second}, count(*) FROM '{path}' GROUP BY {first}, {second}"
            connection.sql(query).to_arrow_table()


def group_at_once(path: str, _: str) -> None:
    sets = ", ".join(f"({first}, {second})" for first, second in PAIRS)
    with duckdb.connect() as connection:
        query = f"SELECT {', '.join(NAMES)}, count(*) FROM '{path}' GROUP BY GROUPING SETS ({sets})"
        connection.sql(query).to_arrow_table()


def load(_: str, __: str) -> None:
    with Tally((2,), [(0,)], kernel="numba") as tally:
        tally.add([np.zeros(1, np.uint8)])
        tally.tables()


STEPS: dict[str, Callable[[str, str], None]] = {
    "scan": scan,
    "encode": encode,
    "count": count,
    "group": group,
    "group_at_once": group_at_once,
    "load": load,
}


def run_here(step: str, path: str, form: str) -> Cost:
    """Time one step, in the process made for it."""
    if step == "count" and os.environ.get(VARIABLE) != "numpy":
        load(path, form)
    with tempfile.TemporaryDirectory() as folder:  # a first small run, so that lazy imports are not measured
        small = Path(folder) / "small.parquet"
        write_file(small, 100, form)
        if step != "load":
            STEPS[step](str(small), form)
    before, wall = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    STEPS[step](path, form)
    wall, after = time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall=wall, cpu=cpu, peak=peak_memory())


def peak_memory() -> float:
    """MB. Not ``ru_maxrss``, in which a new process inherits the memory of the one that started it."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


def run_apart(step: str, path: Path, form: str, *, kernel: str = "numba") -> Cost:
    command = [sys.executable, __file__, "--step", step, "--file", str(path), "--form", form]
    result = subprocess.run(
        command, check=True, capture_output=True, text=True, env=os.environ | {VARIABLE: kernel}, timeout=1800
    )
    return Cost(**json.loads(result.stdout))


def best(costs: list[Cost]) -> Cost:
    least = min(costs, key=lambda cost: cost.cpu)
    return Cost(wall=least.wall, cpu=least.cpu, peak=max(cost.peak for cost in costs))


def measure(rows: int, repeats: int, folder: Path) -> dict[str, Cost]:
    """Every step on generated files of so many rows, in turn and again, so that a busy minute hits all alike."""
    files = {form: folder / f"{form}.parquet" for form in FORMS}
    for form, path in files.items():
        write_file(path, rows, form)
    wanted: dict[str, tuple[str, str, str]] = {
        "codes: bare scan": ("scan", "codes", "numba"),
        "codes: read and encode": ("encode", "codes", "numba"),
        "codes: read, encode and count": ("count", "codes", "numba"),
        "codes: the same with numpy": ("count", "codes", "numpy"),
        "codes: DuckDB, 45 GROUP BY": ("group", "codes", "numba"),
        "codes: DuckDB, GROUPING SETS": ("group_at_once", "codes", "numba"),
        "text: bare scan": ("scan", "text", "numba"),
        "text: read and encode": ("encode", "text", "numba"),
        "text: read, encode and count": ("count", "text", "numba"),
        "load the kernel": ("load", "codes", "numba"),
    }
    costs: dict[str, list[Cost]] = {name: [] for name in wanted}
    for _ in range(repeats):
        for name, (step, form, kernel) in wanted.items():
            costs[name].append(run_apart(step, files[form], form, kernel=kernel))
    return {name: best(found) for name, found in costs.items()}


def ratios(costs: dict[str, Cost]) -> list[tuple[str, float, str]]:
    counted = costs["codes: read, encode and count"].cpu
    duck = min(costs["codes: DuckDB, 45 GROUP BY"].cpu, costs["codes: DuckDB, GROUPING SETS"].cpu)
    text = costs["text: read, encode and count"].cpu
    return [
        ("count / bare scan", counted / costs["codes: bare scan"].cpu, "at most 3, goal 2"),
        ("count / DuckDB's cheaper way", counted / duck, "at most 0.33"),
        ("count from text / bare scan of text", text / costs["text: bare scan"].cpu, ""),
    ]


def machine() -> str:
    model = platform.processor() or platform.machine()
    with Path("/proc/cpuinfo").open() as lines:
        model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), model)
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", "pyarrow", "duckdb"))
    load = f"load average {os.getloadavg()[0]:.1f} (other work included)"
    return (
        f"{len(os.sched_getaffinity(0))} processors ({model}), Python {platform.python_version()}, {packages}; {load}"
    )


def markdown(results: dict[int, dict[str, Cost]]) -> str:
    lines = [
        HEADING,
        "",
        f"All 45 two-way margins of ten columns of {', '.join(map(str, SIZES))} codes, from Parquet "
        "(`benchmarks/bench_count.py`). CPU seconds are those of all threads, and a step includes the steps it needs; "
        "memory is the peak of a process that does nothing else, Python and its libraries included. Text is read as "
        "dictionaries, so that counting it can cost less than a bare scan. Up to 100 MB of codes are kept for the next "
        "count, which is why the smaller table takes more memory.",
        "",
        f"Machine: {machine()}.",
        "",
        "| rows | step | wall s | CPU s | peak MB |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {rows:,} | {name} | {cost.wall:.2f} | {cost.cpu:.2f} | {cost.peak:,.0f} |"
        for rows, costs in results.items()
        for name, cost in costs.items()
    ]
    lines += ["", "| rows | ratio of CPU seconds | value | wanted |", "|---|---|---|---|"]
    lines += [
        f"| {rows:,} | {name} | {value:.2f} | {wanted} |"
        for rows, costs in results.items()
        for name, value, wanted in ratios(costs)
    ]
    return "\n".join(lines) + "\n"


def write_docs(section: str) -> None:
    """Replace this benchmark's section of the page and leave the others."""
    page = (
        DOCS.read_text()
        if DOCS.exists()
        else "# Benchmarks\n\nEach section is the output of one `make bench` script.\n"
    )
    before, _, rest = page.partition(HEADING + "\n")
    after = rest[rest.index("\n## ") + 1 :] if "\n## " in rest else ""
    DOCS.write_text(f"{before.rstrip()}\n\n{section}" + (f"\n{after}" if after else ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--full", action="store_true", help="also five times as many rows, twice")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write-docs", action="store_true", help="put the tables into docs/benchmarks/machine.md")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--file", default="", help=argparse.SUPPRESS)
    parser.add_argument("--form", choices=FORMS, default="codes", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        json.dump(asdict(run_here(given.step, given.file, given.form)), sys.stdout)
        return
    results = {}
    for rows in (given.rows, given.rows * 5) if given.full else (given.rows,):
        with tempfile.TemporaryDirectory(prefix="understudy-bench-") as folder:
            results[rows] = measure(rows, given.repeats if rows == given.rows else 2, Path(folder))
        shown = Table("step", "wall s", "CPU s", "peak MB", title=f"{rows:,} rows")
        for name, cost in results[rows].items():
            shown.add_row(name, f"{cost.wall:.2f}", f"{cost.cpu:.2f}", f"{cost.peak:,.0f}")
        shown.add_section()
        for name, value, wanted in ratios(results[rows]):
            shown.add_row(name, "", f"{value:.2f}", wanted)
        Console().print(shown)
    if given.write_docs:
        write_docs(markdown(results))


if __name__ == "__main__":
    main()
