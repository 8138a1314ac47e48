"""What it costs to compare every two- and three-way table of a wide pair, beside a plain crosstab loop and SDMetrics.

The pair has 24 attributes of 2 to 12 levels and a million rows on each side. The pandas loop is timed on tables drawn
at random, in the same run and on the same machine, and scaled up to all of them; SDMetrics' contingency similarity is
one minus the total variation distance of a two-way table, so both its time and its values are compared.

Run it with ``python benchmarks/bench_utility.py [rows]``; the peers need pandas and sdmetrics.
"""

from __future__ import annotations

import resource
import sys
import time
import warnings
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import understudy as us
from understudy.core.table import CodedTable
from understudy.evaluation.inputs.comparison import compare
from understudy.evaluation.inputs.counted_tables import count_together
from understudy.evaluation.shared.table_measures import measure_table
from understudy.evaluation.utility import evaluate_utility

ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
SIZES = [2, 2, 3, 4, 5, 6, 8, 12] * 3
PEER_TABLES = 6  # of each way, for the pandas loop
SDMETRICS_ROWS, SDMETRICS_PAIRS = 100_000, 12


def make(rows: int, seed: int) -> dict[str, Any]:
    """Codes that depend on a common factor, so that tables are neither empty nor independent."""
    rng = np.random.default_rng(seed)
    common = rng.random(rows)
    return {
        f"a{place:02d}": ((0.6 * common + 0.4 * rng.random(rows)) * size).astype(np.uint8)
        for place, size in enumerate(SIZES)
    }


def seconds(work: Callable[[], Any]) -> tuple[float, float, Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - wall, time.process_time() - cpu, result


def crosstab_loop(first: pd.DataFrame, second: pd.DataFrame, margins: list[tuple[str, ...]]) -> list[float]:
    """What an analyst writes: one crosstab per table and side, aligned, then S_pMSE."""
    found = []
    for margin in margins:
        sides = [pd.crosstab([data[name] for name in margin[:-1]], data[margin[-1]]) for data in (first, second)]
        original, synthetic = sides[0].align(sides[1], fill_value=0)
        d, s = original.to_numpy().ravel(), synthetic.to_numpy().ravel()
        keep = d + s > 0
        n, k = d.sum(), s.sum()
        difference, expected = s - d * k / n, (s + d) * k / (n + k)
        found.append(float(np.sum(difference[keep] ** 2 / expected[keep]) / (keep.sum() - 1)))
    return found


def main() -> None:
    warnings.simplefilter("ignore")
    console = Console()
    schema = us.Schema(
        attributes=tuple(us.Attribute(name=f"a{i:02d}", levels=tuple(range(size))) for i, size in enumerate(SIZES))
    )
    coded = [CodedTable(schema=schema, columns=make(ROWS, seed)) for seed in (1, 2)]
    margins = {way: list(combinations(schema.names, way)) for way in (2, 3)}
    shown = Table("what", "tables", "wall s", "CPU s", "CPU ms per table")

    def ours() -> dict[tuple[str, ...], dict[str, Any]]:
        return {
            margin: measure_table(original, copies[0])
            for way in (2, 3)
            for margin, original, copies in count_together(coded[0], coded[1:], margins[way])
        }

    wall, cpu, found = seconds(ours)
    tables = len(found)
    shown.add_row("understudy, all measures", f"{tables:,}", f"{wall:.1f}", f"{cpu:.1f}", f"{1000 * cpu / tables:.1f}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    frames = [pd.DataFrame(one.columns) for one in coded]
    rng = np.random.default_rng(3)
    scaled = 0.0
    for way, listed in margins.items():
        chosen = [listed[place] for place in rng.choice(len(listed), PEER_TABLES, replace=False)]
        wall, cpu_peer, values = seconds(lambda chosen=chosen: crosstab_loop(*frames, chosen))
        assert np.allclose(values, [found[margin]["s_pmse"] for margin in chosen])
        scaled += cpu_peer / PEER_TABLES * len(listed)
        per_table = f"{1000 * cpu_peer / PEER_TABLES:.1f}"
        shown.add_row(f"pandas crosstab, {way}-way", f"{PEER_TABLES}", f"{wall:.1f}", f"{cpu_peer:.1f}", per_table)
    shown.add_row("pandas crosstab, scaled to all", f"{tables:,}", "", f"{scaled:.0f}", f"{1000 * scaled / tables:.1f}")
    console.print(f"{len(SIZES)} attributes, {ROWS:,} rows on each side")
    console.print(shown)
    console.print(f"the crosstab loop needs {scaled / cpu:.0f} times the CPU; peak memory before it {peak:,.0f} MB")
    sdmetrics(console)
    whole_evaluation(console)


def sdmetrics(console: Console) -> None:
    from sdmetrics.column_pairs import ContingencySimilarity

    frames = [pd.DataFrame(make(SDMETRICS_ROWS, seed)) for seed in (1, 2)]
    pairs = list(combinations(frames[0].columns, 2))[:: max(1, 276 // SDMETRICS_PAIRS)][:SDMETRICS_PAIRS]
    _, cpu, theirs = seconds(
        lambda: [ContingencySimilarity.compute(frames[0][list(pair)], frames[1][list(pair)]) for pair in pairs]
    )
    schema = us.Schema(
        attributes=tuple(us.Attribute(name=f"a{i:02d}", levels=tuple(range(size))) for i, size in enumerate(SIZES))
    )
    coded = [CodedTable(schema=schema, columns={n: f[n].to_numpy() for n in schema.names}) for f in frames]
    _, own, ours = seconds(
        lambda: [1 - measure_table(d, s[0])["tvd"] for _, d, s in count_together(coded[0], coded[1:], pairs)]
    )
    assert np.allclose(theirs, ours)
    console.print(
        f"SDMetrics ContingencySimilarity, {len(pairs)} pairs of {SDMETRICS_ROWS:,} rows: {cpu:.2f} CPU s; the same "
        f"values with all other measures: {own:.3f} CPU s ({cpu / own:.0f} times less)"
    )


def whole_evaluation(console: Console) -> None:
    """Everything but classifiers on 7 attributes and 5,000 rows: the size of Raab's S7."""
    sizes = (2, 5, 6, 5, 10, 7, 7)
    schema = us.Schema(
        attributes=tuple(us.Attribute(name=f"b{i}", levels=tuple(range(size))) for i, size in enumerate(sizes))
    )
    rng = np.random.default_rng(5)
    tables = [pa.table({f"b{i}": rng.integers(0, size, 5000) for i, size in enumerate(sizes)}) for _ in range(2)]
    release, source = us.wrap(tables[0], schema), us.open_source(tables[1], schema)
    comparison = compare(release, source)
    for families in (("margins",), None):
        _, cpu, _ = seconds(lambda families=families: evaluate_utility(comparison, families=families))
        what = "all one-, two- and three-way tables" if families else "every family of measures, classifiers too"
        console.print(f"7 attributes, 5,000 rows: {what}: {cpu:.2f} CPU s")


if __name__ == "__main__":
    main()
