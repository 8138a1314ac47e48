"""Log-linear models with a random effect (Charest 2010, Section 5.1) beside ``ipf``: utility, and coverage.

``utility``: mean S_pMSE of all two-way and three-way tables of S3, S5 and S7, rows multinomial. ``coverage``: samples
of 2,000 people from S5 as a population; how often 95 percent intervals hold the share in the population, from the
measurements (``infer``) and from ten copies by the rule T_f*. Run it with ``python benchmarks/measure_loglinear.py
utility|coverage FILE [runs]``; results are added to FILE and not computed again. ``show FILE`` prints them.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pyarrow as pa

import understudy as us
from margin_data import load, score
from understudy.privacy.randomness.streams import SeededStream

EPSILONS = ("0.1", "0.5", "1", "4")
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "histogram": ("histogram", {"rows_by": "multinomial"}),
    "ipf": ("ipf", {"rows_by": "multinomial"}),
    "main": ("loglinear", {"cells_share": "0", "rows_by": "multinomial"}),
    "main, random effect": ("loglinear", {"rows_by": "multinomial"}),
    "pairs, random effect": ("loglinear", {"effects": "pairs", "cells_share": "0.2", "rows_by": "multinomial"}),
    "ipf, posterior": ("ipf", {"draws": "posterior"}),
    "main, random effect, posterior": ("loglinear", {"draws": "posterior"}),
    "pairs, posterior": ("loglinear", {"effects": "pairs", "cells_share": "0", "draws": "posterior"}),
    "pairs, random effect, posterior": ("loglinear", {"effects": "pairs", "cells_share": "0.2", "draws": "posterior"}),
}
QUESTIONS = (  # by codes: men; men of secondary education; rural and vocational; retired women of secondary education
    "proportion(sex == 0)",
    "proportion(edu == 2 and sex == 0)",
    "proportion(placesize == 5 and edu == 1)",
    "proportion(sex == 1 and edu == 2 and socprof == 5)",
)
PEOPLE, COPIES = 2_000, 10


def utility(path: Path, runs: int) -> None:
    done = {(one["data"], one["epsilon"], one["method"], one["seed"]) for one in _read(path, "utility")}
    for seed in range(runs):
        for name in ("S3", "S5", "S7")[: 2 if seed else 3]:  # S7 once
            schema, original, _ = load(name)
            source = us.open_source(original, schema)
            for epsilon in EPSILONS:
                for told, (method, options) in METHODS.items():
                    if (name, epsilon, told, seed) in done or (name == "S7" and "posterior" in told):
                        continue
                    begun = time.process_time()
                    release = us.synthesize(
                        source, method=method, budget=us.PureDP(epsilon=epsilon), stream=SeededStream(seed),
                        copies=2 if "posterior" in told else 1, **options,
                    )  # fmt: skip
                    two, three = score(schema, original, release.frame())
                    line = {"data": name, "epsilon": epsilon, "method": told, "seed": seed, "two": two, "three": three,
                            "seconds": time.process_time() - begun}  # fmt: skip
                    _write(path, {"kind": "utility", **line})


def coverage(path: Path, runs: int) -> None:
    done = {(one["method"], one["seed"]) for one in _read(path, "coverage")}
    schema, original, _ = load("S5")
    truths = [_share(original, question) for question in QUESTIONS]
    for seed in range(runs):
        rng = np.random.default_rng([5, seed])
        sample = original.take(pa.array(rng.integers(0, original.num_rows, PEOPLE)))
        source = us.open_source(sample, schema)
        for told, (method, options) in METHODS.items():
            if "posterior" not in told or (told, seed) in done:
                continue
            release = us.synthesize(
                source, method=method, budget=us.PureDP(epsilon=1), stream=SeededStream(seed), copies=COPIES, **options
            )
            for question, truth in zip(QUESTIONS, truths, strict=True):
                for rule in (None, "T_f*"):
                    try:
                        answer = us.infer(release, question, **({"rule": rule} if rule else {}))
                    except us.UnderstudyError as problem:
                        _write(path, {"kind": "coverage", "method": told, "seed": seed, "question": question,
                                      "rule": rule or "", "refused": str(problem)[:80]})  # fmt: skip
                        continue
                    (one,) = answer.estimates
                    _write(path, {"kind": "coverage", "method": told, "seed": seed, "question": question,
                                  "rule": rule or "", "label": answer.labels[0], "width": one.high - one.low,
                                  "covers": bool(one.low <= truth <= one.high)})  # fmt: skip


def _share(original: pa.Table, question: str) -> float:
    conditions = question.removeprefix("proportion(").removesuffix(")").split(" and ")
    held = np.ones(original.num_rows, dtype=bool)
    for condition in conditions:
        name, value = condition.split(" == ")
        held &= original[name].to_numpy() == int(value)
    return float(held.mean())


def show(path: Path) -> None:
    for name in ("S3", "S5", "S7"):
        for epsilon in EPSILONS:
            found = [one for one in _read(path, "utility") if one["data"] == name and one["epsilon"] == epsilon]
            for told in METHODS:
                own = [one for one in found if one["method"] == told]
                if own:
                    two, three, spent = (mean(one[column] for one in own) for column in ("two", "three", "seconds"))
                    print(f"{name} {epsilon:>4} {told:34} {two:8.2f} {three:8.2f} {spent:6.1f}s {len(own)}")
    found = _read(path, "coverage")
    for told in METHODS:
        for question in QUESTIONS:
            for rule in ("", "T_f*"):
                own = [one for one in found if (one["method"], one["question"], one["rule"]) == (told, question, rule)]
                kept = [one for one in own if "covers" in one]
                if kept:
                    held, wide = mean(one["covers"] for one in kept), np.median([one["width"] for one in kept])
                    labels = sorted({one["label"] for one in kept})
                    print(f"{told:34} {question[:60]:60} {rule:5} {held:.3f} {wide:.3f} {len(kept)} {labels}")
                elif own:
                    print(f"{told:34} {question[:60]:60} {rule:5} refused: {own[0]['refused']}")


def _read(path: Path, kind: str) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [one for one in map(json.loads, lines) if one["kind"] == kind]


def _write(path: Path, line: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    command, where = sys.argv[1], Path(sys.argv[2])
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    if command == "show":
        show(where)
    else:
        {"utility": utility, "coverage": coverage}[command](where, runs)
