"""Two numbers together: does a correlation survive, with the trends of the fit and without them?

Run: python benchmarks/measure_numbers_together.py FOLDER [RUNS [SEED]], with the folder that holds eusilc/. One line
for each pair of columns and budget; docs/benchmarks/columns.md has them. The fit keeps rank correlations; those of the
values are shown because people look at them.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

import understudy as us
from understudy.models import fit
from understudy.models.trends import trends

ROWS = 15_000
BUDGETS = {
    "(0.3, 1e-9)": us.ApproxDP(epsilon="0.3", delta="1e-9"),
    "(1, 1e-9)": us.ApproxDP(epsilon=1, delta="1e-9"),
    "epsilon 1": us.PureDP(epsilon=1),
    "(4, 1e-9)": us.ApproxDP(epsilon=4, delta="1e-9"),
}


def pairs(folder: Path, generator: np.random.Generator) -> Iterator[tuple[str, pd.DataFrame, us.Schema]]:
    """Generated pairs, and pairs of EU-SILC."""
    normal = generator.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], ROWS)
    real = pd.read_parquet(folder / "eusilc" / "eusilc.parquet")
    income = us.Attribute(name="income", bounds=(0, 200_000), heavy_tail=True, scale=1000)
    both = tuple(us.Attribute(name=name, bounds=(-6, 6)) for name in "xy")
    skewed = tuple(us.Attribute(name=name, bounds=(0, 200), heavy_tail=True, scale=1) for name in "xy")
    age = us.Attribute(name="age", bounds=(0, 97), integer=True)
    people = pd.DataFrame({"income": real["eqIncome"].clip(0, 200_000), "age": real["age"].clip(0, 97).astype(int)})
    yield "normal, 0.6", pd.DataFrame(normal, columns=list("xy")).clip(-6, 6), us.Schema(attributes=both)
    yield (
        "log-normal",
        pd.DataFrame(np.exp(0.8 * normal), columns=list("xy")).clip(0, 200),
        us.Schema(attributes=skewed),
    )
    yield "`eqIncome`, `age`", people, us.Schema(attributes=(income, age))


def correlations(frame: pd.DataFrame) -> tuple[float, float]:
    """By ranks, and of the values."""
    numbers = frame.astype(float)
    return float(numbers.corr(method="spearman").iloc[0, 1]), float(numbers.corr().iloc[0, 1])


def measure(name: str, frame: pd.DataFrame, schema: us.Schema, budget: str, runs: int) -> None:
    said = []
    for known in (lambda *_: [], trends):
        fit.trends = known  # type: ignore[assignment]
        found = []
        for _ in range(runs):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found.append(correlations(us.synthesize(frame, schema=schema, budget=BUDGETS[budget]).to_pandas()))
        said += [f"{mean:.3f} ({low:.2f}-{high:.2f})" for mean, low, high in
                 ((np.mean(one), min(one), max(one)) for one in zip(*found, strict=True))]  # fmt: skip
    true = correlations(frame)
    print(
        f"| {name} | {budget} | {true[0]:.3f} | {said[0]} | {said[2]} | {true[1]:.3f} | {said[1]} | {said[3]} |",
        flush=True,
    )


if __name__ == "__main__":
    place, times = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5
    draw = np.random.default_rng(int(sys.argv[3]) if len(sys.argv) > 3 else None)
    print("| columns | budget | ranks | without trends | with | values | without trends | with |")
    print("|---|---|---|---|---|---|---|---|")
    for each in pairs(place, draw):
        for budget_name in BUDGETS:
            measure(*each, budget_name, times)
