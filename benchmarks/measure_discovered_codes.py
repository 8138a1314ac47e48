"""Discovered codes: does every code above the printed threshold come out, and is none invented?

Run: python benchmarks/measure_discovered_codes.py FOLDER [RUNS], with the folder that holds adult/ and sdnist/. One
line for each column; docs/benchmarks/columns.md has them.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import understudy as us

BUDGET = us.ApproxDP(epsilon=1, delta="1e-9")


def columns(folder: Path) -> dict[str, pd.Series]:
    """Columns of real files, and a generated one with a long tail of rare codes."""
    people = pd.read_parquet(folder / "sdnist" / "ma2019.parquet", columns=["PUMA", "INDP_CAT", "INDP"])
    adult = pd.read_parquet(folder / "adult" / "adult.parquet")
    rank = np.random.default_rng(7).zipf(1.3, 20_000)
    found = {f"MA {name}": people[name] for name in people}
    found |= {f"Adult {name}": adult[name] for name in ("occupation", "native-country") if name in adult}
    return {**found, "Zipf (1.3)": pd.Series(rank)}


def measure(name: str, column: pd.Series, runs: int, **options: object) -> None:
    texts = column.astype("string")
    schema = us.Schema(attributes=(us.Attribute(name="code", levels="discover", missing=True, **options),))  # type: ignore[arg-type]
    plan = us.plan(schema, method="independent", budget=BUDGET, records=len(texts))
    step = plan.steps[0]
    sure = int(step.event.threshold) + 3 * (step.standard_deviation or 0.0)  # type: ignore[attr-defined]
    counts = texts.value_counts()
    wanted = set(counts.index[counts >= sure])
    missed = invented = 0
    numbers = []
    started = time.process_time()
    for _ in range(runs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = us.synthesize(texts.to_frame("code"), schema=schema, method="independent", budget=BUDGET)
        found = set(made.schema["code"].levels[:-1])
        missed += len(wanted - found)
        invented += len(found - set(counts.index))
        numbers.append(len(found))
    spent = (time.process_time() - started) / runs
    print(
        f"| {name} | {len(texts):,} | {counts.size} | {int(step.event.threshold)} | {sure:.0f} | {len(wanted)} | "  # type: ignore[attr-defined]
        f"{min(numbers)}-{max(numbers)} | {missed} | {invented} | {runs} | {spent:.1f} |",
        flush=True,
    )


if __name__ == "__main__":
    place, times = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10
    for label, values in columns(place).items():
        measure(label, values, times)
