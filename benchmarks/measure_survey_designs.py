"""Weighted answers from designs that nothing was chosen on: few weights, Poisson sampling, and two stages.

The population is that of the 6,194 Californian schools in R's package ``survey`` (``apipop``), each 20 times with a
little noise on its numbers. ``strata``: simple samples in three strata at very different rates, so that there are three
weights. ``poisson``: every school by a coin of its own, the likelier the more pupils it has; how many schools there are
is not declared. ``twostage``: districts in proportion to their schools, then five schools of each, so that most schools
have one weight and those of small districts a larger one; design effects are measured inside the budget.

``python benchmarks/measure_survey_designs.py --runs 30 [--first 400] [--epsilon 1]`` prints how often intervals held
the population's answer. It needs R with the package ``survey``.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import warnings
from collections import Counter
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

import understudy as us

TIMES, ROWS, IN_DISTRICT = 20, 3000, 5
SHARES = {"E": 0.35, "H": 0.4, "M": 0.25}
DESIGNS = ("strata", "poisson", "twostage")
COUNTIES = 6  # with names of their own
QUESTIONS = (
    "proportion(awards == 'Yes')",
    "proportion(type == 'H')",
    "proportion(county == 'Los Angeles')",
    "count(county == 'other')",
    "count(awards == 'Yes')",
    "proportion(meals >= 60)",
    "mean(enroll)",
    "quantile(enroll, 0.5)",
    "mean(api)",
    "proportion(awards == 'Yes', by=type)",
)

Columns = dict[str, np.ndarray]


@lru_cache(maxsize=1)
def population() -> tuple[Columns, np.ndarray]:
    """The schools, and the district of each."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "apipop.csv"
        command = f'library(survey); data(api); write.csv(apipop, "{file}", row.names = FALSE)'
        subprocess.run(["Rscript", "-e", command], check=True, capture_output=True)
        read = pd.read_csv(file)[["stype", "cname", "awards", "meals", "api00", "enroll", "dnum", "col.grad"]].dropna()
    largest = read["cname"].value_counts().index[:COUNTIES]
    rng, size = np.random.default_rng(77), len(read)
    found = {
        "type": read["stype"].to_numpy(),
        "county": np.where(read["cname"].isin(largest), read["cname"], "other"),
        "awards": read["awards"].to_numpy(),
        "meals": read["meals"].to_numpy(),
        "api": read["api00"].to_numpy(),
        "enroll": np.clip(read["enroll"].to_numpy(), 50, 4999),
    }
    found = {name: np.tile(values, TIMES) for name, values in found.items()}
    found["api"] = np.clip(found["api"] + rng.normal(0, 8, size * TIMES), 300, 999).round()
    found["enroll"] = np.clip(found["enroll"] * np.exp(rng.normal(0, 0.1, size * TIMES)), 50, 4999).round()
    return found, np.tile(read["dnum"].to_numpy(), TIMES) + 10000 * np.repeat(np.arange(TIMES), size)


def chances(size: np.ndarray, wanted: float) -> np.ndarray:
    """Probabilities in proportion to a size, with about so many units drawn; none above .95."""
    found = size * wanted / size.sum()
    for _ in range(5):
        found = np.minimum(found, 1)
        found *= wanted / found.sum()
    return np.minimum(found, 0.95)


def draw(kind: str, rng: np.random.Generator) -> tuple[pa.Table, us.Schema]:
    """A sample and its schema. The bounds of the weight are those that the design can give."""
    schools, district = population()
    more: Columns = {}
    design: us.Design | None = None
    if kind == "strata":
        chance, rows = np.zeros(len(district)), []
        for stratum, share in SHARES.items():
            inside, wanted = np.flatnonzero(schools["type"] == stratum), int(ROWS * share)
            rows.append(rng.choice(inside, wanted, replace=False))
            chance[inside] = wanted / len(inside)
        drawn, possible = np.concatenate(rows), 1 / chance
        design = us.Design(sampling_strata="type", population=len(district))
    elif kind == "poisson":
        chance = chances(np.clip(schools["enroll"], 60, 3000), ROWS)
        drawn, possible = np.flatnonzero(rng.random(len(district)) < chance), 1 / chance
    else:
        codes, of_school, size = np.unique(district, return_inverse=True, return_counts=True)
        first = chances(size.astype(float), ROWS / 4)
        order = rng.permutation(len(codes))
        taken = np.zeros(len(codes), bool)
        taken[order] = np.diff(np.floor(np.cumsum(first[order]) + rng.random()), prepend=0) > 0
        chance = (first * np.minimum(IN_DISTRICT, size) / size)[of_school]
        mixed = rng.permutation(len(district))
        mixed = mixed[np.argsort(of_school[mixed], kind="stable")]  # by district, in random order inside
        place = np.arange(len(mixed)) - np.repeat(np.cumsum(size) - size, size)
        drawn, possible = mixed[taken[of_school[mixed]] & (place < IN_DISTRICT)], 1 / chance
        more = {"district": of_school[drawn]}
        design = us.Design(
            clusters="district", largest_cluster=IN_DISTRICT, measure_effects=True, population=len(district)
        )
    schema = us.Schema(
        attributes=(
            us.Attribute(name="type", levels=tuple(SHARES)),
            us.Attribute(name="county", levels=tuple(sorted(set(schools["county"])))),
            us.Attribute(name="awards", levels=("No", "Yes")),
            us.Attribute(name="meals", edges=(0, 20, 40, 60, 80, 101), integer=True),
            us.Attribute(name="api", edges=tuple(range(300, 1001, 50)), integer=True),
            us.Attribute(name="enroll", bounds=(0, 5000), heavy_tail=True, outside="clip"),
        ),
        weight=us.Weight(
            column="w", decimals=2, bounds=(float(np.floor(100 * possible.min()) / 100), float(np.ceil(possible.max())))
        ),
        design=design,
    )
    columns = {name: values[drawn] for name, values in schools.items()}
    return pa.table({**columns, "w": 1 / chance[drawn], **more}), schema


def truths(question: str) -> list[float]:
    """The answers of the population."""
    schools, _ = population()
    if question.endswith("by=type)"):
        return [float(np.mean(schools["awards"][schools["type"] == one] == "Yes")) for one in SHARES]
    inside = question.partition("(")[2].rstrip(")")
    if "==" in inside or ">=" in inside:
        name, sign, value = inside.split(maxsplit=2)
        held = schools[name] == value.strip("'") if sign == "==" else schools[name] >= float(value)
        return [float(held.mean() if question.startswith("proportion") else held.sum())]
    values = schools[inside.partition(",")[0]]
    return [float(np.median(values) if question.startswith("quantile") else values.mean())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--first", type=int, default=400, help="the first seed")
    parser.add_argument("--epsilon", default="1")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    held: Counter[tuple[str, str]] = Counter()
    answers: Counter[tuple[str, str]] = Counter()
    for seed in range(asked.first, asked.first + asked.runs):
        for kind in DESIGNS:
            table, schema = draw(kind, np.random.default_rng([seed, DESIGNS.index(kind)]))
            budget = us.ApproxDP(epsilon=asked.epsilon, delta="1e-6")
            release = us.synthesize(us.open_source(table, schema), budget=budget)
            for question in QUESTIONS:
                answer = us.infer(release, question, rng=np.random.default_rng(seed))
                for one, label, truth in zip(answer.estimates, answer.labels, truths(question), strict=True):
                    for key in ((kind, label), (kind, question)):
                        answers[key] += 1
                        held[key] += one.low <= truth <= one.high
    print("| design | answers | held |\n|---|---|---|")
    for key in sorted(answers):
        print(f"| {key[0]}: {key[1]} | {answers[key]} | {held[key] / answers[key]:.3f} |")


if __name__ == "__main__":
    main()
