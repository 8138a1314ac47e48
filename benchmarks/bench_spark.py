"""What Spark costs beside the embedded engine: two-way margins, CPU of all processes, and a model for large tables.

One process for each engine and number of attributes, with ``local[2]``: small counts come first, so that starting
Spark, the workers and the kernel is apart (and reported), then every size several times, of which the median is told.
CPU seconds are those of the whole tree: driver, JVM and Python workers. The model is fitted on the two smaller sizes
and predicts the third, for 10 and 20 attributes; 100 attributes are measured at a small size, to see how far the model
carries. ``--full`` takes 25, 50 and 100 million rows. ``--results FILE`` keeps what was measured and goes on from it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parent))
import understudy as us
from bench_count import DOCS, SIZES, machine
from understudy.engines.counting.tally import covering
from understudy.engines.systems.spark.inputs import TASK_ROWS

HEADING = "## Spark"
TICKS = os.sysconf("SC_CLK_TCK")
ROW_GROUP = 2**20
REPEATS = 3
MANY = 100  # attributes of the check
MANY_ROWS = 2_000_000


@dataclass(frozen=True)
class Cost:
    """Of one count: CPU seconds of all processes, wall seconds, peak MB of the driver, of the largest Python worker and
    of the JVM, MB shuffled, and CPU seconds before the first count."""

    cpu: float
    wall: float
    start_cpu: float
    driver_mb: float
    worker_mb: float
    jvm_mb: float
    shuffle_mb: float


@dataclass(frozen=True)
class Point:
    """What is counted: all margins of so many attributes of a file with so many rows."""

    way: str
    rows: int
    attributes: int
    ways: int


def sizes_of(attributes: int) -> list[int]:
    return [SIZES[number % len(SIZES)] for number in range(attributes)]


def schema_of(attributes: int) -> us.Schema:
    return us.Schema(
        attributes=tuple(
            us.Attribute(name=f"a{number}", levels=tuple(range(size)))
            for number, size in enumerate(sizes_of(attributes))
        )
    )


def margins_of(attributes: int, ways: int) -> list[tuple[str, ...]]:
    return list(combinations([f"a{number}" for number in range(attributes)], ways))


def tables_of(attributes: int, ways: int) -> int:
    """How many joint tables the kernel adds each row to."""
    return len(covering(sizes_of(attributes), list(combinations(range(attributes), ways))))


def cells_of(attributes: int, ways: int) -> int:
    return sum(int(np.prod(pair)) for pair in combinations(sizes_of(attributes), ways))


def write_file(path: Path, rows: int, attributes: int) -> None:
    """Skewed columns as the smallest integers; every row group is the same, which no step can make use of."""
    rng = np.random.default_rng(1)
    columns = []
    for size in sizes_of(attributes):
        chance = np.arange(1, size + 1) ** -0.8
        columns.append(pa.array(rng.choice(size, min(ROW_GROUP, rows), p=chance / chance.sum()).astype(np.uint8)))
    group = pa.table(columns, names=[f"a{number}" for number in range(attributes)])
    with pq.ParquetWriter(path, group.schema) as writer:
        for start in range(0, rows, ROW_GROUP):
            writer.write_table(group.slice(0, min(ROW_GROUP, rows - start)))


def tree(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            children = (task / "children").read_text().split()
        except OSError:  # a thread that has just ended
            continue
        for child in children:
            found += tree(int(child))
    return found


def cpu_of(pids: list[int]) -> float:
    """User and system time, of children that have ended too."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / TICKS


def peak_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def open_way(way: str, path: str, attributes: int) -> Any:
    if way == "embedded":
        return us.open_source(path, schema_of(attributes))
    if way == "files":
        return us.open_source(path, schema_of(attributes), engine="spark", master="local[2]")
    from understudy.engines.systems.spark.session import session_for

    return us.open_source(session_for("local[2]").read.parquet(path), schema_of(attributes))


def forget_peak(pid: int) -> None:
    """Peaks are counted from here."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def run_here(way: str, attributes: int, files: list[tuple[str, int]]) -> Iterator[Cost]:
    """Counts of (file, ways) one after another, in the process made for them, after small ones."""
    os.environ["UNDERSTUDY_KERNEL"] = "numba"
    me = os.getpid()
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.parquet"
        write_file(small, 2 * ROW_GROUP, attributes)
        for ways in sorted({ways for _, ways in files}):
            for _ in range(2):
                open_way(way, str(small), attributes).count(margins_of(attributes, ways))
    start_cpu = cpu_of(tree(me))
    for path, ways in files:
        for pid in tree(me):
            forget_peak(pid)
        before, shuffled, wall = cpu_of(tree(me)), shuffle_bytes(way), time.perf_counter()
        open_way(way, path, attributes).count(margins_of(attributes, ways))
        wall, pids = time.perf_counter() - wall, tree(me)
        workers = [peak_mb(pid) for pid in pids if pid != me and name_of(pid) != "java"]
        yield Cost(
            cpu=cpu_of(pids) - before,
            wall=wall,
            start_cpu=start_cpu,
            driver_mb=peak_mb(me),
            worker_mb=max(workers, default=0.0),
            jvm_mb=max((peak_mb(pid) for pid in pids if name_of(pid) == "java"), default=0.0),
            shuffle_mb=(shuffle_bytes(way) - shuffled) / 1e6,
        )


def shuffle_bytes(way: str) -> float:
    if way == "embedded":
        return 0.0
    from understudy.engines.systems.spark.session import session_for

    store = session_for("local[2]").sparkContext._jsc.sc().statusStore()
    return float(store.executorSummary("driver").totalShuffleWrite())


def run_apart(way: str, attributes: int, files: list[tuple[Path, int]]) -> Iterator[Cost]:
    given = ["--way", way, "--attributes", str(attributes), "--files", *(f"{path}:{ways}" for path, ways in files)]
    with subprocess.Popen([sys.executable, __file__, *given], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                yield Cost(**json.loads(line))
    if process.returncode:
        raise SystemExit(process.returncode)


def fit(points: list[tuple[int, int, int, float]]) -> tuple[float, float, float]:
    """CPU = fixed + rows (per value x attributes + per table x tables), by least squares with no negative part."""
    from scipy.optimize import nnls

    rows = np.array([[1.0, n * a, n * t] for n, a, t, _ in points])
    scale = rows.max(axis=0)
    found, _ = nnls(rows / scale, np.array([cpu for *_, cpu in points]))
    fixed, value, table = found / scale
    return float(fixed), float(value), float(table)


def predict(model: tuple[float, float, float], rows: int, attributes: int, ways: int) -> float:
    fixed, value, table = model
    return fixed + rows * (value * attributes + table * tables_of(attributes, ways))


def points(sizes: tuple[int, int, int]) -> list[Point]:
    """Enough to tell what a value and a table cost, the ratio at the middle size, and the check."""
    found = [Point("files", rows, attributes, 2) for attributes in (10, 20) for rows in sizes]
    found += [Point("files", rows, 10, 1) for rows in sizes[:2]]
    found += [Point("embedded", rows, 10, 2) for rows in sizes[:2]]
    return [*found, Point("files", MANY_ROWS, MANY, 2), Point("frame", MANY_ROWS, 10, 2)]


def measure(sizes: tuple[int, int, int], results: Path | None) -> dict[Point, Cost]:
    """The median of every point, by its CPU."""
    costs: dict[Point, list[Cost]] = {}
    for line in results.read_text().splitlines() if results is not None and results.exists() else ():
        costs.setdefault(Point(**json.loads(line)["point"]), []).append(Cost(**json.loads(line)["cost"]))
    wanted = points(sizes)
    for way, attributes in dict.fromkeys((one.way, one.attributes) for one in wanted):
        own = [one for one in wanted if (one.way, one.attributes) == (way, attributes)]
        missing = [one for number in range(REPEATS) for one in own if number >= len(costs.get(one, []))]
        if not missing:
            continue
        with tempfile.TemporaryDirectory(prefix="understudy-bench-") as folder:
            paths = {rows: Path(folder) / f"{rows}.parquet" for rows in {one.rows for one in own}}
            for rows, path in paths.items():
                write_file(path, rows, attributes)
            found = run_apart(way, attributes, [(paths[one.rows], one.ways) for one in missing])
            for one, cost in zip(missing, found, strict=True):
                costs.setdefault(one, []).append(cost)
                if results is not None:
                    with results.open("a") as file:
                        file.write(json.dumps({"point": asdict(one), "cost": asdict(cost)}) + "\n")
    return {one: sorted(costs[one], key=lambda cost: cost.cpu)[REPEATS // 2] for one in wanted}


def report(costs: dict[Point, Cost], sizes: tuple[int, int, int]) -> str:
    fitted = [one for one in costs if one.way == "files" and one.rows in sizes[:2] and one.attributes < MANY]
    model = fit([(one.rows, one.attributes, tables_of(one.attributes, one.ways), costs[one].cpu) for one in fitted])
    lines = [
        HEADING,
        "",
        "`benchmarks/bench_spark.py`: all two-way (or one-way) margins of Parquet files with columns of 2 to 100 codes "
        f"in one byte, on `local[2]`; medians of {REPEATS} by CPU. CPU seconds are those of driver, JVM and workers; "
        "what came before the first count (Spark, workers, kernel, small counts) is the start-up. *files*: executors "
        "read the files themselves; *frame*: a DataFrame of Spark's own Parquet reader. Memory is the peak of one "
        "process during the count.",
        "",
        f"Machine: {machine()}.",
        "",
        "| rows | attributes | ways | engine | CPU s | of embedded | wall s | start-up CPU s | driver MB | worker MB | "
        "JVM MB | shuffled MB |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one, cost in costs.items():
        own = costs.get(replace(one, way="embedded"))
        ratio = f"{cost.cpu / own.cpu:.2f}" if own is not None else ""
        lines.append(
            f"| {one.rows:,} | {one.attributes} | {one.ways} | {one.way} | {cost.cpu:.2f} | {ratio} | "
            f"{cost.wall:.1f} | {cost.start_cpu:.0f} | {cost.driver_mb:,.0f} | {cost.worker_mb:,.0f} | "
            f"{cost.jvm_mb:,.0f} | {cost.shuffle_mb:.2f} |"
        )
    fixed, value, table = model
    there, here = (costs[Point(way, sizes[1], 10, 2)].cpu for way in ("files", "embedded"))
    lines += [
        "",
        f"**Wanted: within 3 times the CPU of the embedded engine. Measured: {there / here:.2f} times** ({there:.2f} "
        f"against {here:.2f} s for {sizes[1]:,} rows). Memory of driver and workers does not grow with the rows. A "
        "DataFrame costs far more: every value goes through Spark's rows and a socket.",
        "",
        f"Model, fitted on {sizes[0]:,} and {sizes[1]:,} rows: CPU = {fixed:.2f} s + rows x ({value * 1e9:.2f} ns x "
        f"attributes + {table * 1e9:.2f} ns x joint tables of the kernel). What it says of sizes it has not seen:",
        "",
        "| rows | attributes | joint tables | predicted CPU s | measured | error |",
        "|---|---|---|---|---|---|",
    ]
    for one in (Point("files", sizes[2], 10, 2), Point("files", sizes[2], 20, 2), Point("files", MANY_ROWS, MANY, 2)):
        told, true = predict(model, one.rows, one.attributes, 2), costs[one].cpu
        lines.append(
            f"| {one.rows:,} | {one.attributes} | {tables_of(one.attributes, 2)} | {told:.2f} | {true:.2f} | "
            f"{told / true - 1:+.0%} |"
        )
    many = costs[Point("files", MANY_ROWS, MANY, 2)]
    lines += [
        "",
        f"The model does not carry to {MANY} attributes: every task then sums {len(margins_of(MANY, 2)):,} margins of "
        "joint tables that no cache holds. What follows for them is scaled from that measurement itself (tasks of a "
        "million rows; larger tasks cost less), what follows for 20 from the model.",
        "",
        "Tables that were not measured (all two-way margins). Shuffled: what the tasks of one count sent was measured "
        f"({shuffled_per_task(many, MANY_ROWS, MANY):.1f} bytes for each cell and task with {MANY} attributes, after "
        "Spark's compression), times 1,000 tasks; 8 bytes is the most. Driver: what its peak grew by for each cell "
        f"with {MANY} attributes over that with 10.",
        "",
        "| rows | attributes | margins | cells | joint tables | CPU hours | shuffled | driver memory |",
        "|---|---|---|---|---|---|---|---|",
    ]
    base = costs[Point("files", sizes[0], 10, 2)]
    per_cell = (many.driver_mb - base.driver_mb) / (cells_of(MANY, 2) - cells_of(10, 2))
    for rows in (10**9, 10**10):
        for attributes in (20, MANY):
            cells = cells_of(attributes, 2)
            cpu = rows * many.cpu / MANY_ROWS if attributes == MANY else predict(model, rows, attributes, 2)
            lines.append(
                f"| {rows:,} | {attributes} | {len(margins_of(attributes, 2)):,} | {cells:,} | "
                f"{tables_of(attributes, 2):,} | {cpu / 3600:.2f} | "
                f"{1000 * shuffled_per_task(many, MANY_ROWS, MANY) * cells / 1e9:.1f} GB | "
                f"{base.driver_mb + per_cell * cells:,.0f} MB |"
            )
    return "\n".join(lines) + "\n"


def shuffled_per_task(cost: Cost, rows: int, attributes: int) -> float:
    """Bytes sent for each cell by one task; a file of row groups of TASK_ROWS rows is one task for each."""
    return cost.shuffle_mb * 1e6 / (cells_of(attributes, 2) * -(-rows // TASK_ROWS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs=3, default=(2_000_000, 4_000_000, 8_000_000))
    parser.add_argument("--full", action="store_true", help="25, 50 and 100 million rows")
    parser.add_argument("--results", type=Path, help="a file of what was measured, to go on from")
    parser.add_argument("--write-docs", action="store_true", help="put the tables into docs/benchmarks/machine.md")
    parser.add_argument("--way", choices=("embedded", "files", "frame"), help=argparse.SUPPRESS)
    parser.add_argument("--files", nargs="+", default=(), help=argparse.SUPPRESS)
    parser.add_argument("--attributes", type=int, default=10, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.way:
        files = [(path, int(ways)) for path, _, ways in (text.rpartition(":") for text in given.files)]
        for cost in run_here(given.way, given.attributes, files):
            print(json.dumps(asdict(cost)), flush=True)
        return
    sizes = (25_000_000, 50_000_000, 100_000_000) if given.full else tuple(given.rows)
    found = measure(sizes, given.results)
    section = report(found, sizes)
    print(section)
    if given.write_docs:
        before, _, rest = DOCS.read_text().partition(HEADING + "\n")
        after = rest[rest.index("\n## ") + 1 :] if "\n## " in rest else ""
        DOCS.write_text(f"{before.rstrip()}\n\n{section}" + (f"\n{after}" if after else ""))


if __name__ == "__main__":
    main()
