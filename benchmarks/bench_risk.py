"""How long rank-based record linkage and a whole evaluation of risk take, by number of records and attributes.

Each case runs in a process of its own, so that its peak memory is its own. CPU seconds count all threads, and include
loading numba's machine code (which is compiled once per installation). Nothing here is a test: machines differ.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

import numpy as np

GROWTH = (10_000, 30_000, 100_000, 300_000, 1_000_000)
# kind, records, attributes, copies, criterion
CASES = (
    *(("link", rows, 6, 1, "sum") for rows in GROWTH),
    ("link", 100_000, 6, 3, "sum"),
    ("link", 100_000, 6, 3, "maximum"),
    ("link", 100_000, 6, 3, "minimum"),
    ("link", 1_000_000, 6, 1, "maximum"),
    ("categorical", 1_000_000, 6, 1, "sum"),
    *(("link", 20_000, width, 1, "sum") for width in (4, 8, 12, 16)),
    ("blocked", 20_000, 8, 1, "sum"),
    ("blocked", 20_000, 16, 1, "sum"),
    ("evaluate", 10_000, 6, 3, ""),
    ("evaluate", 100_000, 6, 3, ""),
    ("evaluate", 1_000_000, 6, 1, ""),
)


def blocked(original: np.ndarray, synthetic: np.ndarray, block: int = 256) -> int:
    """Every pair, a block of originals at a time: what the tree must beat."""
    ties = 0
    for start in range(0, len(original), block):
        part = original[start : start + block]
        apart = np.zeros((len(part), len(synthetic)))
        for j in range(original.shape[1]):
            apart += np.abs(part[:, j, None] - synthetic[None, :, j])
        ties += int(np.sum(apart == apart.min(axis=1, keepdims=True)))
    return ties


def run(kind: str, rows: int, width: int, copies: int, criterion: str) -> None:
    from understudy.evaluation.shared.rank_linking import link
    from understudy.evaluation.shared.ranks import mid_rank_matrix

    draw = np.random.default_rng(0)
    mix = draw.normal(size=(width, width)) / 2 + np.eye(width)
    tables = [draw.normal(size=(rows, width)) @ mix for _ in range(copies + 1)]
    if kind == "categorical":
        tables = [np.clip(np.round(2 * table), -4, 4) for table in tables]
    started = time.process_time()
    if kind == "evaluate":
        evaluate(tables)
        ties = 0
    else:
        original, *others = (mid_rank_matrix(table) for table in tables)
        if kind == "blocked":
            ties = sum(blocked(original, other) for other in others)
        elif criterion == "minimum":  # groups of the minimum are large; the distances alone
            ties = sum(len(link(original, other, criterion).distances) for other in others)
        else:
            ties = sum(int(link(original, other, criterion).sizes().sum()) for other in others)
    seconds = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "megabytes": peak, "links": ties}))


def evaluate(tables: list[np.ndarray]) -> None:
    import pyarrow as pa

    import understudy as us
    from understudy.evaluation.inputs.comparison import compare
    from understudy.evaluation.risk import evaluate_risk

    width = tables[0].shape[1]
    edges = tuple(float(edge) for edge in np.linspace(-40, 40, 17))
    schema = us.Schema(attributes=tuple(us.Attribute(name=f"x{j}", edges=edges) for j in range(width)))
    data, *copies = (pa.table({f"x{j}": table[:, j] for j in range(width)}) for table in tables)
    evaluate_risk(compare(us.wrap(copies, schema), us.open_source(data, schema)))


def main() -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("what", "records", "attributes", "copies", "criterion", "CPU seconds", "MB", title="Disclosure risk")
    for case in CASES:
        made = subprocess.run(
            [sys.executable, __file__, *map(str, case)], capture_output=True, text=True, check=True
        ).stdout
        found = json.loads(made.splitlines()[-1])
        table.add_row(
            *(f"{x:,}" if isinstance(x, int) else x for x in case),
            f"{found['seconds']:.1f}",
            f"{found['megabytes']:.0f}",
        )
        print(case, f"{found['seconds']:.1f} s, {found['megabytes']:.0f} MB", file=sys.stderr, flush=True)
    Console(width=120).print(table)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
    else:
        main()
