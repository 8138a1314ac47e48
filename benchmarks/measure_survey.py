"""Weighted answers from a release of a survey: how often their intervals hold the population's truth, and how wide
they are.

Four populations are sampled again and again. ``eusilc``: the 6,000 households of the synthetic Austrian EU-SILC file,
each 20 times (296,540 people), sampled by regions (strata) and households (clusters) with unequal probabilities that
depend on the household and its income. ``informative``: 300,000 generated people, sampled one by one, the less likely
the larger their income. ``stepwise``: the same people, sampled by classes of income, the unemployed and one region more
often, so that weights jump. Constants of the package were chosen on the first two, the rule for jumps on the third.
Weights are spread about 1:50 in all.

Every (cell, seed) is one line of results in ``benchmarks/survey.csv.gz``; a run goes on where the last one stopped:
``python benchmarks/measure_survey.py run --runs 60 [--cells eusilc-6000-1-approx ...]``, then ``... show``.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import sys
import time
import warnings
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import understudy as us
from understudy.core.survey_design import Design, Weight
from understudy.inference.weighting import weighting_of

RESULTS = Path(__file__).with_name("survey.csv.gz")
FIELDS = ("cell", "seed", "question", "truth", "direct", "value", "low", "high", "label", "noise_to_largest", "people",
          "seconds")  # fmt: skip
DELTA = "1e-6"
DESIGN = "design"
LARGEST = 9  # people of a household, as everybody may know
DRAWN = 150  # samples without a release, for the width of the survey itself
PEOPLE = 20_000  # rows that stand for people, drawn from every release
TIMES = 20
SPREAD = 50.0
CELLS = (
    "eusilc-6000-1-approx", "informative-6000-1-approx", "stepwise-6000-1-approx", "eusilc-2000-1-approx",
    "informative-2000-1-approx", "eusilc-15000-1-approx", "informative-15000-1-approx", "eusilc-6000-4-approx",
    "informative-6000-4-approx", "eusilc-6000-0.5-approx", "informative-6000-0.5-approx", "eusilc-6000-1-pure",
    "informative-6000-1-pure", "stepwise-2000-1-approx", "stepwise-15000-1-approx", "census-6000-1-approx",
    "census-2000-1-approx", "eusilc-6000-1-approx-measured", "eusilc-2000-1-approx-measured",
    "eusilc-6000-1-approx-auto", "informative-6000-1-approx-auto",
)  # fmt: skip
WORKS = {"1": "work", "2": "work", "3": "unemployed", "5": "retired"}
QUESTIONS = (
    "proportion(active == 'work')",
    "proportion(sex == 'male')",
    "proportion(age >= 65)",
    "count(region == 'Vienna')",
    "count(region == 'Tyrol')",
    "count(active == 'unemployed')",
    "poverty_rate(income)",
    "mean(income)",
    "gini(income)",
)
NOT_MAIN = ("gini(income)", "proportion(age >= 65)", "proportion(sex == 'male')")
MEASURED, AUTO = "-measured", "-auto"  # how the name of a cell may end
FRESH = 1000
AREAS = {"25-00703": "Vienna", "25-00503": "Tyrol"}  # of the census: called as the others are, so as to ask the same
AGE_EDGES = (0, 16, 30, 45, 65, 80, 98)


@dataclass(frozen=True, kw_only=True)
class Population:
    """People, with the unit that is sampled and how likely it is to be drawn (up to a factor)."""

    columns: dict[str, np.ndarray]
    unit: np.ndarray  # of every person
    size: np.ndarray  # of every unit
    stratum: np.ndarray  # of every unit
    attributes: tuple[us.Attribute, ...]
    design: Design


def attributes(regions: tuple[str, ...]) -> tuple[us.Attribute, ...]:
    return (
        us.Attribute(name="region", levels=regions),
        us.Attribute(name="sex", levels=("female", "male")),
        us.Attribute(name="age", edges=AGE_EDGES, integer=True, outside="clip"),
        us.Attribute(name="active", levels=("work", "unemployed", "retired", "other")),
        us.Attribute(name="income", bounds=(0, 160000), heavy_tail=True, scale=5000, outside="clip"),
    )


def shares_of(size: np.ndarray) -> np.ndarray:
    """Sizes within a spread of 1:50 around their median."""
    middle = np.median(size)
    return np.clip(size, middle / np.sqrt(SPREAD), middle * np.sqrt(SPREAD))


@lru_cache(maxsize=4)
def population(name: str) -> Population:
    rng = np.random.default_rng(2026)
    folder = Path(os.environ.get("UNDERSTUDY_DATA", "/work/shared/data"))
    if name == "eusilc":
        people = pq.read_table(folder / "eusilc" / "eusilc.parquet").to_pandas()
        codes, first = np.unique(people["db030"].to_numpy(), return_inverse=True)
        households = len(codes)
        income = people.groupby("db030")["eqIncome"].first().to_numpy()
        region = people.groupby("db030")["db040"].first().to_numpy()
        size = np.exp(rng.normal(0, 0.8, households)) * np.maximum(income, 2000) ** 0.3
        work = people["pl030"].map(lambda one: WORKS.get(str(one), "other")).to_numpy()
        columns = {
            "region": people["db040"].to_numpy(), "sex": people["rb090"].to_numpy(),
            "age": np.maximum(people["age"].to_numpy(), 0), "active": work, "income": people["eqIncome"].to_numpy(),
        }  # fmt: skip
        columns = {key: np.tile(values, TIMES) for key, values in columns.items()}
        unit = np.concatenate([first + copy * households for copy in range(TIMES)])
        regions = tuple(sorted(set(region)))
        design = Design(
            sampling_strata="region", clusters="household", population=len(unit),
            design_effects={"region": 4.0, "sex": 0.45, "age": 1.4, "active": 1.15, "income": 3.4},
        )  # fmt: skip
        stratum, size = np.tile(region, TIMES), np.tile(size, TIMES)
    elif name == "census":
        columns, size = _census(folder / "sdnist" / "ma2019.parquet", rng)
        unit, stratum, regions = (
            np.arange(len(size)),
            columns["region"],
            tuple(str(one) for one in np.unique(columns["region"])),
        )
        design = Design(sampling_strata="region", population=len(unit))
    else:
        people = 300_000
        regions = ("Vienna", "Tyrol", "Carinthia", "Styria")
        income = np.exp(rng.normal(9.8, 0.6, people))
        active = rng.choice(4, people, p=(0.5, 0.08, 0.22, 0.2))
        income = income * np.where(active == 0, 1.3, 0.8)
        columns = {
            "region": np.array(regions)[rng.choice(4, people, p=(0.3, 0.2, 0.2, 0.3))],
            "sex": np.array(("female", "male"))[rng.choice(2, people)],
            "age": rng.integers(0, 97, people),
            "active": np.array(("work", "unemployed", "retired", "other"))[active],
            "income": np.minimum(income, 160000),
        }
        unit, stratum = np.arange(people), np.zeros(people, int)
        size = np.exp(rng.normal(0, 0.3, people)) * income**-1.2
        if name == "stepwise":
            size = np.exp(rng.normal(0, 0.15, people)) * np.where(
                income < 12000, 8.0, np.where(income < 30000, 3.0, 1.0)
            )
            size = size * np.where(active == 1, 4.0, 1.0) * np.where(columns["region"] == "Tyrol", 2.5, 1.0)
        design = Design(population=people)
    size = shares_of(size)
    return Population(
        columns=columns,
        unit=unit,
        size=size,
        stratum=np.asarray(stratum),
        attributes=attributes(regions),
        design=design,
    )


def _census(file: Path, rng: np.random.Generator) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """People with an income of at least 1, and how likely each is to be drawn."""
    people = pq.read_table(file).to_pandas()
    income = np.array([0 if one == "N" else float(one) for one in people["PINCP"]])
    people, income = people[income >= 1], income[income >= 1]
    age = people["AGEP"].astype(int).to_numpy()
    works = people["INDP_CAT"].to_numpy() != "N"
    columns = {
        "region": np.array([AREAS.get(one, one) for one in people["PUMA"]]),
        "sex": np.where(people["SEX"].to_numpy() == "1", "male", "female"),
        "age": age,
        # The last job is known, not whether it is held today: those with little income are called unemployed.
        "active": np.select(
            [works & (income < 5000), works, age >= 62], ["unemployed", "work", "retired"], default="other"
        ),
        "income": np.minimum(income, 160000),
    }
    columns = {key: np.tile(values, 50) for key, values in columns.items()}
    college = np.tile(people["EDU"].isin(["9", "10", "11", "12"]).to_numpy(), 50)
    size = np.exp(rng.normal(0, 0.5, len(college))) * np.where(college, 0.5, 1.0) * (columns["income"] + 5000) ** -0.4
    return columns, size


def chances(people: Population, n: int) -> np.ndarray:
    """The probability of every unit to be in a sample of about n people."""
    each = len(people.unit) / len(people.size)
    found = np.empty(len(people.size))
    for one in np.unique(people.stratum):
        inside = people.stratum == one
        many = max(round(n / each * inside.mean()), 2)
        found[inside] = many * people.size[inside] / people.size[inside].sum()
    return found


def sample(people: Population, n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """About n people: units by strata, without replacement, with probabilities nearly in proportion to their size."""
    chance = chances(people, n)
    drawn = []
    for one in np.unique(people.stratum):
        # Systematic sampling in random order: the chances of inclusion are exact.
        order = rng.permutation(np.flatnonzero(people.stratum == one))
        steps = np.floor(np.cumsum(chance[order]) + rng.random())
        drawn.append(order[np.diff(steps, prepend=0.0) > 0])
    units = np.concatenate(drawn)
    place = np.full(len(people.size), -1)
    place[units] = np.arange(len(units))
    rows = np.flatnonzero(place[people.unit] >= 0)
    found = {name: values[rows] for name, values in people.columns.items()}
    found["weight"] = 1 / chance[people.unit[rows]]
    found["household"] = people.unit[rows]
    return found


def truth_of(question: str, columns: dict[str, Any], weights: np.ndarray, people: float) -> float:
    """The answer from the people themselves."""
    if question.startswith(("proportion", "count")):
        inside = {
            "active == 'work'": columns["active"] == "work", "sex == 'male'": columns["sex"] == "male",
            "age >= 65": columns["age"] >= 65, "region == 'Vienna'": columns["region"] == "Vienna",
            "region == 'Tyrol'": columns["region"] == "Tyrol",
            "active == 'unemployed'": columns["active"] == "unemployed",
        }[question.partition("(")[2][:-1]]  # fmt: skip
        share = float(np.average(inside, weights=weights))
        return share if question.startswith("proportion") else share * people
    income = columns["income"]
    if question == "mean(income)":
        return float(np.average(income, weights=weights))
    order = np.argsort(income)
    upto = np.cumsum(weights[order]) / weights.sum()
    if question == "poverty_rate(income)":
        line = 0.6 * income[order][np.searchsorted(upto, 0.5)]
        return float(np.average(income < line, weights=weights))
    amounts = np.cumsum(income[order] * weights[order])
    return float(1 - 2 * np.sum((amounts / amounts[-1] - income[order] * weights[order] / amounts[-1] / 2)
                                * weights[order] / weights.sum()))  # fmt: skip


def one_run(cell: str, seed: int, questions: tuple[str, ...] = QUESTIONS) -> list[dict[str, Any]]:
    name, n, epsilon, form = cell.removesuffix(MEASURED).removesuffix(AUTO).rsplit("-", 3)
    people = population(name)
    design = people.design
    if cell.endswith(MEASURED):
        design = replace(design, design_effects=(), measure_effects=True, largest_cluster=LARGEST)
    rng = np.random.default_rng([seed, int(n)])
    drawn = sample(people, int(n), rng)
    start = time.process_time()
    weight = drawn["weight"]
    every = 1 / chances(people, int(n))
    ends = (float(np.floor(every.min())), float(np.ceil(every.max())))  # public: the design says them
    schema = us.Schema(
        attributes=people.attributes, weight=Weight(column="weight", bounds=ends, decimals=2), design=design
    )
    budget = us.PureDP(epsilon=epsilon) if form == "pure" else us.ApproxDP(epsilon=epsilon, delta=DELTA)
    table = pa.table({key: drawn[key] for key in (*people.columns, "weight", *design.clusters.split())})
    release = us.synthesize(
        us.open_source(table, schema), budget=budget, method="auto" if cell.endswith(AUTO) else "ipf"
    )
    weighting = weighting_of(release, "weight")
    every_question = len(questions) == len(QUESTIONS)
    drawn_people = us.population(release, rows=PEOPLE).to_pandas() if every_question else None
    everybody = np.ones(len(people.unit))
    found = []
    for question in questions:
        truth = truth_of(question, people.columns, everybody, len(people.unit))
        direct = truth_of(question, drawn, weight, len(people.unit))
        line = {"cell": cell, "seed": seed, "question": question, "truth": truth, "direct": direct}
        try:
            answer = us.infer(release, question, rng=np.random.default_rng(seed))
            line |= {"value": answer.value, "low": answer.low, "high": answer.high, "label": answer.validity}
        except us.UnderstudyError as problem:
            line |= {"value": "", "low": "", "high": "", "label": f"refused: {problem}"[:60]}
        line["noise_to_largest"] = _noise_scaled_to_largest(
            release, question, ends[1] / weighting.mean, weighting.records, truth
        )
        if drawn_people is not None:
            rows = {key: drawn_people[key].to_numpy() for key in people.columns}
            line["people"] = truth_of(question, rows, np.ones(PEOPLE), len(people.unit))
        found.append(line)
    for line in found:
        line["seconds"] = round(time.process_time() - start, 2)
    return found


def of_the_design(cell: str) -> list[dict[str, Any]]:
    """Answers from samples themselves, without a release: how much the design lets them vary."""
    name, n, _ = cell.rsplit("-", 2)
    people = population(name)
    start = time.process_time()
    found: dict[str, list[float]] = defaultdict(list)
    for seed in range(DRAWN):
        drawn = sample(people, int(n), np.random.default_rng([seed, 7, int(n)]))
        for question in QUESTIONS:
            found[question].append(truth_of(question, drawn, drawn["weight"], len(people.unit)))
    spent = round(time.process_time() - start, 2)
    return [
        {"cell": cell, "seed": DRAWN, "question": one, "value": float(np.std(values, ddof=1)), "seconds": spent}
        for one, values in found.items()
    ]


def of_design(cell: str) -> str:
    """The name under which the design of a cell is kept: it has the population and the number of people."""
    return f"{'-'.join(cell.split('-')[:2])}-{DESIGN}"


def _noise_scaled_to_largest(release: Any, question: str, largest: float, records: float, truth: float) -> float | str:
    """The standard error that noise scaled to the largest weight would give a share, at the noise of the same table."""
    if not question.startswith("proportion"):
        return ""
    name = question.partition("(")[2].split()[0]
    noise = next(one.mechanism.variance for one in release.measurements if set(one.margin) == {name, "weight"})
    return float(largest * np.sqrt(noise * (truth**2 + (1 - truth) ** 2)) / records)


def run(runs: int, cells: list[str], first: int, questions: tuple[str, ...]) -> None:
    warnings.simplefilter("ignore")
    done = {(line["cell"], int(line["seed"])) for line in read()}
    fresh = not RESULTS.exists()
    designs = dict.fromkeys(of_design(cell) for cell in cells)
    work = [(cell, seed) for seed in range(first, first + runs) for cell in cells] + [(cell, DRAWN) for cell in designs]
    for cell, seed in work:
        if (cell, seed) not in done:
            lines = of_the_design(cell) if cell.endswith(DESIGN) else one_run(cell, seed, questions)
            with gzip.open(RESULTS, "at", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, FIELDS)
                if fresh:
                    writer.writeheader()
                    fresh = False
                for line in lines:
                    writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in line.items()})
            print(f"{cell} {seed}: {lines[0]['seconds']} CPU s", file=sys.stderr, flush=True)


def read() -> list[dict[str, str]]:
    if not RESULTS.exists():
        return []
    with gzip.open(RESULTS, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def wilson(held: float, runs: int) -> str:
    """The 95 percent interval of a share of runs (Wilson 1927)."""
    z = 1.96
    middle, half = held + z * z / (2 * runs), z * np.sqrt(held * (1 - held) / runs + (z / (2 * runs)) ** 2)
    low, high = ((middle + sign * half) / (1 + z * z / runs) for sign in (-1, 1))
    return f"{held:.3f} ({low:.3f}-{high:.3f})"


def show(first: int) -> None:
    """A table for docs/benchmarks/surveys.md: coverage, width beside that of the real data, and the privacy part."""
    lines = [line for line in read() if line["low"] and int(line["seed"]) >= first]
    spreads = {(one["cell"], one["question"]): float(one["value"]) for one in read() if one["cell"].endswith(DESIGN)}
    groups = defaultdict(list)
    for line in lines:
        groups[line["cell"], line["question"]].append(line)
    print("| cell | question | runs | holds the truth | width | privacy part |")
    print("|---|---|---|---|---|---|")
    for (cell, question), own in groups.items():
        low, high, truth, direct, value = (
            np.array([float(one[key]) for one in own]) for key in ("low", "high", "truth", "direct", "value")
        )
        holds = float(np.mean((low <= truth) & (truth <= high)))
        design = spreads.get((of_design(cell), question))
        width = "" if design is None else f"{float(np.mean(high - low)) / (2 * 1.96 * design):.2f}"
        part = ""
        if own[0]["noise_to_largest"]:
            noise = np.sqrt(max(np.mean((value - direct) ** 2), 0.0))
            part = f"{noise / np.mean([float(one['noise_to_largest']) for one in own]):.2f}"
        print(f"| {cell} | `{question}` | {len(own)} | {wilson(holds, len(own))} | {width} | {part} |")
    _show_labels(lines)


def _show_labels(lines: list[dict[str, str]]) -> None:
    """How often answers with each label hold the truth, by cell."""
    held = defaultdict(list)
    for one in lines:
        held[one["cell"], one["label"]].append(float(one["low"]) <= float(one["truth"]) <= float(one["high"]))
    print("\n| cell | label | answers | hold the truth |\n|---|---|---|---|")
    for (cell, label), own in sorted(held.items()):
        print(f"| {cell} | {label} | {len(own)} | {wilson(float(np.mean(own)), len(own))} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("run", "show"))
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--main", action="store_true", help="only the questions that have a bar")
    parser.add_argument("--cells", nargs="*", default=list(CELLS))
    asked = parser.parse_args()
    if asked.what == "run":
        questions = tuple(one for one in QUESTIONS if not (asked.main and one in NOT_MAIN))
        run(asked.runs, asked.cells, asked.first, questions)
    show(asked.first)


if __name__ == "__main__":
    main()
