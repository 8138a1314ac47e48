"""Are the verdicts about risk right where the truth is known? Fresh populations, and releases that are safe or not.

Populations are those of ``benchmarks/proving``: generated ones, and columns of real files where they are at hand. For
each seed six releases are judged:

- *copy*: the data themselves, with a holdout: red, and a warning;
- *copy that claims epsilon 1*: the same as a method of this package would be judged, by refits: an alarm;
- *other people*: an independent sample of the population, with a holdout: neither red nor a warning;
- *a method at epsilon 1*, by refits: no alarm;
- *monotone*: every number by an increasing function, every level shifted to a new one: the rank attack tells as much
  as from a copy;
- and nobody is asked about an answer that the schema decides, by a loop over all levels.

    python benchmarks/measure_risk_verdicts.py 20 1    # twenty populations from seed 1
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parent / "proving"))

from populations import Population, draw_population

import understudy as us
from understudy.evaluation.inputs.comparison import compare
from understudy.evaluation.inputs.records import possible
from understudy.evaluation.risk import evaluate_risk

PEOPLE = 400
METHODS = ("independent", "ipf", "histogram", "mst", "auto")


def main(populations: int, seed: int) -> None:
    warnings.simplefilter("ignore")
    told: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    for number in range(populations):
        started = time.process_time()
        rng = np.random.default_rng([seed, number])
        population = draw_population(rng, int(rng.integers(3, 8)))
        verdicts = judge(population, rng)
        for name, right in verdicts.items():
            told[name] += right
            asked[name] += 1
        wrong = [name for name, right in verdicts.items() if not right]
        took = f"{time.process_time() - started:.0f} CPU s"
        print(number, population.kind, population.schema.shape(), "wrong:", wrong or "none", took, flush=True)
    for name in asked:
        print(f"{name}: {told[name]} of {asked[name]} right")


def judge(population: Population, rng: np.random.Generator) -> dict[str, bool]:
    """By release, whether the verdict is the one that the truth asks for."""
    schema = population.schema
    chosen = rng.choice(population.size, 3 * PEOPLE, replace=False)
    data, others, sample = (population.frame(part) for part in np.split(chosen, 3))
    verdicts = {}
    copied = us.attack(us.wrap(data, schema), data, holdout=others)
    verdicts["copy"] = "red" in lights(copied) and bool(severe(copied))
    fresh = us.attack(us.wrap(sample, schema), data, holdout=others)
    verdicts["other people"] = "red" not in lights(fresh) and not severe(fresh)
    claims = us.wrap(data, schema)
    claims = replace(claims, statement=replace(claims.statement, guarantee=us.PureDP(epsilon=1), unit=us.Unit()))
    again = compare(claims, us.open_source(data, schema), refit=lambda rows, _: us.wrap(rows, schema))
    verdicts["copy that claims epsilon 1"] = "problem" in severe(evaluate_risk(again))
    method = str(rng.choice(METHODS))
    made = us.synthesize(us.open_source(data, schema), method=method, budget=us.PureDP(epsilon=1))
    own = us.attack(made, data)
    verdicts["a method at epsilon 1: no alarm"] = "problem" not in severe(own)
    verdicts["a method at epsilon 1: not red"] = "red" not in lights(own)
    verdicts["monotone"] = monotone(population, chosen[:PEOPLE])
    if schema.impossible:
        verdicts["decided by the schema"] = nobody_decided(population, data, own)
    return verdicts


def lights(section: us.Section) -> set[str]:
    return {row["light"] for row in section.frames["in_everyday_words"].to_pylist()}


def severe(section: us.Section) -> list[str]:
    """Warnings and problems, but for the one about levels without an order, which is about the schema."""
    found = [finding for finding in section.findings if finding.code != "risk.rank_order"]
    return [finding.severity for finding in found if finding.severity in ("warning", "problem")]


def monotone(population: Population, chosen: np.ndarray) -> bool:
    """Whether the rank attack is as often right about increasing functions of the data as about a copy."""
    attributes, columns = [], {}
    data = population.frame(chosen)
    for one in population.schema.attributes:
        values = data[one.name].to_pylist()
        if one.levels:
            attributes.append(replace(one, levels=(*one.levels, *(f"new {level}" for level in one.levels))))
            columns[one.name] = [None if value is None else f"new {value}" for value in values]
        else:
            low, high = float(one.edges[0]), float(one.edges[-1])
            attributes.append(replace(one, integer=False))
            columns[one.name] = [
                None if value is None else low + (high - low) * ((float(value) - low) / (high - low)) ** 2
                for value in values
            ]
    schema = us.Schema(attributes=tuple(attributes))
    found = [
        {
            row["subject"]: (row["successes"], row["asked"])
            for row in us.attack(us.wrap(made, schema), data, only=("rank_attribution",)).frames["attacks"].to_pylist()
        }
        for made in (pa.table(columns), data)
    ]
    return found[0] == found[1]


def nobody_decided(population: Population, data: pa.Table, section: us.Section) -> bool:
    """Whether guesses of an attribute are counted only for people whose answer the schema leaves open."""
    schema = population.schema
    coded = us.open_source(data, schema).confidential_table()[0]
    codes = np.column_stack([np.asarray(coded.columns[name]) for name in schema.names])
    for row in section.frames["attacks"].to_pylist():
        target = row["subject"].split(", copy ")[0]
        if row["attack"] not in ("attribute_inference", "attribution", "rank_attribution"):
            continue
        place = schema.names.index(target)
        left = np.zeros(len(codes), np.int64)
        for code in range(schema.shape()[place]):
            other = codes.copy()
            other[:, place] = code
            left += possible(schema, other)
        if row["asked"] != int(np.sum(left > 1)):
            return False
    return True


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
