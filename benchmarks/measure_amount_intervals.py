"""How often the intervals of ``infer`` for numbers by their bounds alone hold the truth, on fresh populations.

    python benchmarks/measure_amount_intervals.py run RESULTS.csv [RUNS] [SEED]    # adds to the file
    python benchmarks/measure_amount_intervals.py show RESULTS.csv

People who do not exist: children (0 to 5), age, income with zeros, and whether they are poor. Every run draws 2,000 of
them and makes a release of three pairs. The truth is that of four million of the same law.
"""

from __future__ import annotations

import csv
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import understudy as us

PEOPLE, MANY = 2_000, 4_000_000
BUDGET = us.ApproxDP(epsilon=3, delta="1e-9")
PAIRS = "children+poor, children+income, children+age"
SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="children", bounds=(0, 5), integer=True),
        us.Attribute(name="age", bounds=(0, 110), integer=True),
        us.Attribute(name="income", bounds=(0, 1_000_000), integer=True, heavy_tail=True),
        us.Attribute(name="poor", levels=("no", "yes")),
    )
)
MODELS = ("poor ~ children", "children ~ poor", "income ~ children", "children ~ age")


def people(draw: np.random.Generator, size: int) -> pd.DataFrame:
    children = draw.choice(6, size, p=[0.4, 0.2, 0.22, 0.11, 0.05, 0.02])
    age = np.clip(draw.normal(48, 17, size), 18, 97).astype(int)
    income = np.exp(9.6 + 0.012 * (age - 48) - 0.08 * children + draw.normal(0, 0.6, size))
    income = np.where(draw.random(size) < 0.08, 0, income).round(-1).clip(0, 400_000).astype(int)
    poor = draw.random(size) < 1 / (1 + np.exp(1.5 - 0.25 * children))
    return pd.DataFrame({"children": children, "age": age, "income": income, "poor": np.where(poor, "yes", "no")})


def gini(values: np.ndarray) -> float:
    places = 2 * np.arange(1, len(values) + 1) - len(values) - 1
    return float(places @ np.sort(values) / (len(values) * values.sum()))


def truths() -> dict[str, tuple[float, ...]]:
    """The true values of every question; of a regression the intercept and the slope."""
    every = people(np.random.default_rng(99), MANY)
    poor = (every.poor == "yes").to_numpy(float)
    numbers = {name: every[name].to_numpy(float) for name in ("children", "age", "income")} | {"poor": poor}
    found: dict[str, tuple[float, ...]] = {
        f"mean({name})": (numbers[name].mean(),) for name in ("children", "income", "age")
    }
    found |= {
        "quantile(income, 0.5)": (np.quantile(numbers["income"], 0.5),),
        "quantile(age, 0.9)": (np.quantile(numbers["age"], 0.9),),
        "quantile(children, 0.5)": (np.quantile(numbers["children"], 0.5),),
        "proportion(income < 10000)": ((numbers["income"] < 10_000).mean(),),
        "proportion(children < 2)": ((numbers["children"] < 2).mean(),),
        "proportion(age < 30)": ((numbers["age"] < 30).mean(),),
        "gini(income)": (gini(numbers["income"]),),
        "gini(children)": (gini(numbers["children"]),),
        "std(children)": (numbers["children"].std(),),
        "poor ~ children": (-1.5, 0.25),  # as they are drawn
    }
    for model in MODELS[1:]:
        outcome, regressor = model.split(" ~ ")
        slope, intercept = np.polyfit(numbers[regressor], numbers[outcome], 1)
        found[model] = (float(intercept), float(slope))
    return found


def run(results: Path, runs: int, seed: int) -> None:
    true = truths()
    with results.open("a") as file:
        out = csv.writer(file)
        for number in range(runs):
            draw = np.random.default_rng([seed, number])
            release = us.synthesize(people(draw, PEOPLE), schema=SCHEMA, budget=BUDGET, method="ipf", margins=PAIRS)
            for question, values in true.items():
                options = {"event": "yes"} if question == "poor ~ children" else {}
                answer = us.infer(release, question, rng=draw, **options)
                for part, one, value in zip(("", "slope"), answer.estimates, values, strict=False):
                    label = (
                        answer.to_frame()["label"].iloc[int(part == "slope")] if "~" in question else answer.validity
                    )
                    out.writerow([seed, number, question, part, label, one.low, one.high, value])
            file.flush()


def show(results: Path) -> None:
    names = ("seed", "run", "question", "part", "label", "low", "high", "true")
    table = pd.read_csv(results, names=names, keep_default_na=False)
    table["covered"] = (table.low <= table.true) & (table.true <= table.high)
    print(table.groupby(["question", "part", "label"]).covered.agg(["count", "mean"]).to_string())
    print(table.groupby("label").covered.agg(["count", "mean"]).to_string())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1] == "run":
        given = [int(one) for one in sys.argv[3:]]
        run(Path(sys.argv[2]), *(given + [100, 1][len(given) :]))
    else:
        show(Path(sys.argv[2]))
