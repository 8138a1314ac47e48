"""What Spark costs beside the embedded engine: two-way margins, CPU of all processes, and a model for large tables.

Each measurement is a process of its own with ``local[2]``. CPU seconds are those of the whole tree: driver, JVM and
Python workers. A small count comes first, so that starting Spark, the workers and the kernel is apart (and reported).
The model is fitted on the two smaller sizes and predicts the third. ``--full`` takes 50 million rows for that.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parent))
import understudy as us
from bench_count import DOCS, SIZES, machine
from understudy.engines.tally import covering

HEADING = "## Spark"
TICKS = os.sysconf("SC_CLK_TCK")
ROW_GROUP = 2**20
WAYS = (1, 2)


@dataclass(frozen=True)
class Cost:
    """Of one count: CPU seconds of all processes, wall seconds, MB of the largest Python worker and of the JVM."""

    cpu: float
    wall: float
    start_cpu: float
    worker_mb: float
    jvm_mb: float
    shuffle_mb: float


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
    from understudy.engines.spark_session import session_for

    return us.open_source(session_for("local[2]").read.parquet(path), schema_of(attributes))


def run_here(way: str, path: str, attributes: int, ways: int) -> Cost:
    """One count, in the process made for it, after a small one."""
    os.environ["UNDERSTUDY_KERNEL"] = "numba"
    margins, me = margins_of(attributes, ways), os.getpid()
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.parquet"
        write_file(small, 2 * ROW_GROUP, attributes)
        for _ in range(2):
            open_way(way, str(small), attributes).count(margins)
    start_cpu = cpu_of(tree(me))
    shuffled = shuffle_bytes(way)
    wall = time.perf_counter()
    open_way(way, path, attributes).count(margins)
    wall = time.perf_counter() - wall
    pids = tree(me)
    workers = [peak_mb(pid) for pid in pids if pid != me and name_of(pid) != "java"]
    return Cost(
        cpu=cpu_of(pids) - start_cpu,
        wall=wall,
        start_cpu=start_cpu,
        worker_mb=max(workers, default=peak_mb(me)),
        jvm_mb=max((peak_mb(pid) for pid in pids if name_of(pid) == "java"), default=0.0),
        shuffle_mb=(shuffle_bytes(way) - shuffled) / 1e6,
    )


def shuffle_bytes(way: str) -> float:
    if way == "embedded":
        return 0.0
    from understudy.engines.spark_session import session_for

    store = session_for("local[2]").sparkContext._jsc.sc().statusStore()
    return float(store.executorSummary("driver").totalShuffleWrite())


def run_apart(way: str, path: Path, attributes: int, ways: int) -> Cost:
    given = ["--way", way, "--file", str(path), "--attributes", str(attributes), "--ways", str(ways)]
    result = subprocess.run(
        [sys.executable, __file__, *given], check=True, stdout=subprocess.PIPE, text=True, timeout=3600
    )
    return Cost(**json.loads(result.stdout.splitlines()[-1]))


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


def measure(sizes: tuple[int, int, int]) -> dict[str, Any]:
    costs: dict[tuple[str, int, int, int], Cost] = {}
    with tempfile.TemporaryDirectory(prefix="understudy-bench-") as folder:
        for rows in sizes:
            for attributes in (10, 20):
                path = Path(folder) / f"{rows}-{attributes}.parquet"
                write_file(path, rows, attributes)
                for ways in WAYS:
                    if ways == 1 and (attributes == 20 or rows == sizes[-1]):
                        continue  # enough points to tell what a value and a table cost
                    costs["files", rows, attributes, ways] = run_apart("files", path, attributes, ways)
                if attributes == 10:
                    for way in ("embedded", "frame"):
                        costs[way, rows, 10, 2] = run_apart(way, path, 10, 2)
                path.unlink()
    return {"costs": costs, "sizes": sizes}


def report(found: dict[str, Any]) -> str:
    costs, sizes = found["costs"], found["sizes"]
    small = [
        (rows, attributes, tables_of(attributes, ways), cost.cpu)
        for (way, rows, attributes, ways), cost in costs.items()
        if way == "files" and rows != sizes[-1]
    ]
    model = fit(small)
    lines = [
        HEADING,
        "",
        "`benchmarks/bench_spark.py`: all two-way (or one-way) margins of Parquet files with columns of 2 to 100 "
        "codes in one byte, on `local[2]`. CPU seconds are those of driver, JVM and workers, after a small count; "
        "what came before it (Spark, workers, kernel, the small counts) is the start-up. *files*: executors read the "
        "files themselves; *frame*: a DataFrame of Spark's own Parquet reader. Memory is the peak of one process.",
        "",
        f"Machine: {machine()}.",
        "",
        "| rows | attributes | ways | engine | wall s | CPU s | of embedded | start-up CPU s | worker MB | JVM MB | "
        "shuffled MB |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (way, rows, attributes, ways), cost in costs.items():
        own = costs.get(("embedded", rows, attributes, ways))
        ratio = f"{cost.cpu / own.cpu:.2f}" if own is not None else ""
        lines.append(
            f"| {rows:,} | {attributes} | {ways} | {way} | {cost.wall:.1f} | {cost.cpu:.2f} | {ratio} | "
            f"{cost.start_cpu:.0f} | {cost.worker_mb:,.0f} | {cost.jvm_mb:,.0f} | {cost.shuffle_mb:.2f} |"
        )
    fixed, value, table = model
    lines += [
        "",
        f"Model, fitted on {sizes[0]:,} and {sizes[1]:,} rows: CPU = {fixed:.2f} s + rows x ({value * 1e9:.2f} ns x "
        f"attributes + {table * 1e9:.2f} ns x joint tables of the kernel).",
        "",
        "| rows | attributes | predicted CPU s | measured | error |",
        "|---|---|---|---|---|",
    ]
    for attributes in (10, 20):
        told, true = predict(model, sizes[-1], attributes, 2), costs["files", sizes[-1], attributes, 2].cpu
        lines.append(f"| {sizes[-1]:,} | {attributes} | {told:.2f} | {true:.2f} | {told / true - 1:+.0%} |")
    lines += [
        "",
        "What it says of tables that were not measured (all two-way margins; each task sends 8 bytes for every cell "
        "before compression, with 1,000 tasks; the driver holds them three times over):",
        "",
        "| rows | attributes | margins | cells | joint tables | CPU hours | shuffled at most | driver memory |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for rows in (10**9, 10**10):
        for attributes in (20, 100):
            cells = cells_of(attributes, 2)
            lines.append(
                f"| {rows:,} | {attributes} | {len(margins_of(attributes, 2)):,} | {cells:,} | "
                f"{tables_of(attributes, 2):,} | {predict(model, rows, attributes, 2) / 3600:.2f} | "
                f"{1000 * 8 * cells / 1e9:.1f} GB | {3 * 8 * cells / 1e6:.0f} MB |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs=3, default=(2_000_000, 4_000_000, 8_000_000))
    parser.add_argument("--full", action="store_true", help="5, 10 and 50 million rows")
    parser.add_argument("--write-docs", action="store_true", help="put the tables into docs/benchmarks.md")
    parser.add_argument("--way", choices=("embedded", "files", "frame"), help=argparse.SUPPRESS)
    parser.add_argument("--file", default="", help=argparse.SUPPRESS)
    parser.add_argument("--attributes", type=int, default=10, help=argparse.SUPPRESS)
    parser.add_argument("--ways", type=int, default=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.way:
        print(json.dumps(asdict(run_here(given.way, given.file, given.attributes, given.ways))))
        return
    found = measure((5_000_000, 10_000_000, 50_000_000) if given.full else tuple(given.rows))
    section = report(found)
    print(section)
    if given.write_docs:
        before, _, rest = DOCS.read_text().partition(HEADING + "\n")
        after = rest[rest.index("\n## ") + 1 :] if "\n## " in rest else ""
        DOCS.write_text(f"{before.rstrip()}\n\n{section}" + (f"\n{after}" if after else ""))


if __name__ == "__main__":
    main()
