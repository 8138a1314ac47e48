"""Three ways to weighted shares, at the same budget: the weight as an attribute, clipped weighted tables, and people.

(a) and (c) come from the releases of ``measure_survey.py`` (its results are read, nothing is made anew): the answer of
``infer``, and the share among rows that stand for people. (b) is simulated here as Seeman, Si and Reiter describe it:
weights are clipped at c times the mean weight and moved a part of the way towards their mean, and the weighted table of
each attribute gets Gaussian noise for the sensitivity c. It gets the budget that the table with the weight has in (a),
and what (a) spends on finding the bins of the weight. The best c and part are picked with the truth in hand, which a
steward cannot: (b) is shown at its best.

``python benchmarks/measure_clipped_weights.py [--cells eusilc-6000-1-approx ...]``
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from typing import Any

import numpy as np

import understudy as us
from measure_survey import QUESTIONS, population, read, sample
from understudy.core.survey_design import Weight

CLIPS = (1.0, 1.5, 2.0, 3.0, 5.0, 10.0)  # times the mean weight
PARTS = (0.0, 0.25, 0.5)  # of the way to the mean
SAMPLES, DRAWS = 10, 100
FINDING = (0.20, 0.15)  # of the budget, for the bins of income and the weight, and of income alone


def noise_of(cell: str) -> dict[str, float]:
    """The standard deviation of the noise on the tables with the weight, by a plan."""
    name, n, epsilon, form = cell.rsplit("-", 3)
    people = population(name)
    schema = us.Schema(attributes=people.attributes, weight=Weight(column="weight", bounds=(5, 500)))
    budget = us.PureDP(epsilon=epsilon) if form == "pure" else us.ApproxDP(epsilon=epsilon, delta="1e-6")
    plan = us.plan(schema, method="ipf", budget=budget, records=int(n))
    return {
        next(one for one in step.margin if one != "weight"): float(step.standard_deviation or 0.0)
        for step in plan.steps
        if len(step.margin) == 2 and "weight" in step.margin
    }


def inside(question: str, columns: dict[str, Any]) -> np.ndarray:
    if "age" in question:
        return np.asarray(columns["age"] >= 65)
    name, _, level = question.partition("(")[2][:-1].partition(" == ")
    return np.asarray(columns[name] == level.strip("'"))


def clipped(cell: str, question: str) -> dict[tuple[float, float], float]:
    """The root mean squared error of a weighted share by (b), for each clip and part."""
    name, n, *_ = cell.rsplit("-", 3)
    people, spread = population(name), noise_of(cell)
    attribute = question.partition("(")[2].split()[0]
    sigma = spread[attribute] * np.sqrt((1 - FINDING[0]) / (1 - FINDING[1]))
    errors: dict[tuple[float, float], list[float]] = defaultdict(list)
    for seed in range(SAMPLES):
        rng = np.random.default_rng([seed, 3, int(n)])
        drawn = sample(people, int(n), rng)
        has, weight = inside(question, drawn), drawn["weight"] / drawn["weight"].mean()
        levels = len(next(one for one in people.attributes if one.name == attribute).code_names)
        direct = float(np.average(has, weights=weight))
        for clip in CLIPS:
            for part in PARTS:
                used = (1 - part) * np.minimum(weight, clip) + part
                largest = (1 - part) * clip + part
                noise = rng.normal(0, sigma * largest, (DRAWS, 2)) * (1.0, np.sqrt(levels - 1))
                yes, no = used[has].sum() + noise[:, 0], used[~has].sum() + noise[:, 1]
                errors[clip, part].append(float(np.mean((yes / (yes + no) - direct) ** 2)))
    return {key: float(np.sqrt(np.mean(values))) for key, values in errors.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", nargs="*", default=["eusilc-6000-1-approx", "informative-6000-1-approx"])
    asked = parser.parse_args()
    print(
        "| cell | question | (a) weight as attribute | (b) clip 2 | (b) clip 3 | (b) no clip | (b) best | (c) people |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for cell in asked.cells:
        size = len(population(cell.rsplit("-", 3)[0]).unit)
        lines = [line for line in read() if line["cell"] == cell and line["low"]]
        for question in QUESTIONS[:6]:
            own = [line for line in lines if line["question"] == question]
            scale = 1.0 if question.startswith("proportion") else size
            value, direct, people = (
                np.array([float(line[key]) for line in own]) / scale for key in ("value", "direct", "people")
            )
            by_clip = clipped(cell, question)
            best = min(by_clip, key=lambda key: by_clip[key])
            ours, rows = (float(np.sqrt(np.mean((one - direct) ** 2))) for one in (value, people))
            print(
                f"| {cell} | `{question}` | {ours:.4f} | {by_clip[2.0, 0.0]:.4f} | {by_clip[3.0, 0.0]:.4f} | "
                f"{by_clip[10.0, 0.0]:.4f} | {by_clip[best]:.4f} (clip {best[0]:g}, part {best[1]:g}) | {rows:.4f} |"
            )


if __name__ == "__main__":
    main()
