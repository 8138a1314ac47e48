"""Whole populations, drawn from a seed: generated ones, and real files where they are at hand.

A population is a finite table of real values. The records of a setting are rows of it, drawn with replacement, so what
is true of the population is known exactly: for numbers by their values, not by their bins.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import understudy as us
from understudy.core.structural_zeros import Condition, Impossible

PEOPLE = 40_000  # of a generated population
MOST_LEVELS = 16  # of a column of a real file, to be listed as levels
DATA = Path(os.environ.get("UNDERSTUDY_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
Column = np.ndarray  # codes of levels (whole numbers, -1 where missing), or values (floats, nan where missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """A schema and the columns of everybody; ``kind`` says where it comes from."""

    kind: str
    schema: us.Schema
    columns: dict[str, Column]

    @property
    def size(self) -> int:
        return len(next(iter(self.columns.values())))

    def numeric(self, name: str) -> bool:
        return not self.schema[name].levels

    def missing(self, name: str) -> np.ndarray:
        column = self.columns[name]
        return np.isnan(column) if self.numeric(name) else column < 0

    def frame(self, rows: np.ndarray) -> pa.Table:
        """Some people as a table of values."""
        found = {}
        for attribute in self.schema.attributes:
            column = self.columns[attribute.name][rows]
            if attribute.levels:
                values = np.array([*attribute.levels, None], object)[column]
            else:
                known = np.nan_to_num(column).astype(int if attribute.integer else float)
                values = np.where(np.isnan(column), None, known)
            found[attribute.name] = pa.array(values.tolist())
        return pa.table(found)


def draw_population(rng: np.random.Generator, attributes: int, kind: str | None = None) -> Population:
    """A population of a kind that the generator chooses, if it is not given; real files only where they are.

    ``scores`` are never chosen, only given: the settings of kept seeds do not change for them.
    """
    makers = {"log-linear": log_linear, "latent classes": latent_classes, "copula": copula}
    real = real_files()
    kinds = [*makers, "real"] if real else [*makers]
    drawn = str(rng.choice(kinds))
    kind, makers = kind or drawn, {**makers, "scores": scores}
    if kind == "real":
        return resampled(rng, str(rng.choice(real)), attributes)
    return with_gaps(rng, makers[kind](rng, attributes))


def log_linear(rng: np.random.Generator, attributes: int) -> Population:
    """Each attribute depends on two earlier ones, with an interaction of all three: three-way effects."""
    sizes = rng.choice([2, 2, 3, 4, 5, 7], attributes)
    columns: dict[str, Column] = {}
    for place, size in enumerate(sizes):
        score = np.broadcast_to(rng.normal(0, 0.8, size), (PEOPLE, size)).copy()
        parents = rng.choice(place, min(place, 2), replace=False)
        for parent in parents:
            score += rng.normal(0, 0.6, (sizes[parent], size))[columns[f"a{parent}"]]
        if len(parents) == 2:
            first, second = parents
            both = rng.normal(0, rng.choice([0.0, 0.3, 0.8]), (sizes[first], sizes[second], size))
            score += both[columns[f"a{first}"], columns[f"a{second}"]]
        columns[f"a{place}"] = chosen(rng, score)
    return categories("log-linear", columns, sizes, rng)


def latent_classes(rng: np.random.Generator, attributes: int) -> Population:
    """Attributes that are independent given a class nobody sees; some levels are rare."""
    classes = int(rng.integers(2, 7))
    sizes = rng.choice([2, 2, 3, 4, 6, 9], attributes)
    of = rng.choice(classes, PEOPLE, p=rng.dirichlet(np.full(classes, 2.0)))
    rare = rng.choice([0.0, -3.0, -5.0], attributes, p=[0.5, 0.3, 0.2])
    columns = {}
    for place, size in enumerate(sizes):
        score = rng.normal(0, 1.0, (classes, size))
        score[:, -1] += rare[place]
        columns[f"a{place}"] = chosen(rng, score[of])
    return categories("latent classes", columns, sizes, rng)


def copula(rng: np.random.Generator, attributes: int) -> Population:
    """Correlated normal scores, read as ages, skewed amounts with a spike at nought, ordered and other levels."""
    factors = rng.normal(0, 1, (PEOPLE, 2))
    columns: dict[str, Column] = {}
    listed = []
    for place in range(attributes):
        loading = rng.normal(0, 0.7, 2)
        score = factors @ loading + rng.normal(0, 1, PEOPLE)
        score = score / score.std()
        kind = (
            "age" if place == 0 else "amount" if place == 1 else str(rng.choice(["levels", "levels", "age", "amount"]))
        )
        name = f"a{place}"
        if kind == "age":
            columns[name] = np.clip(np.round(45 + 18 * score), 16, 95).astype(float)
            step = int(rng.choice([1, 5, 10, 20]))
            listed.append(us.Attribute(name=name, edges=(*range(16, 96, step), 96), integer=True))
        elif kind == "amount":
            amount = np.round(np.exp(9 + float(rng.choice([0.5, 1.0])) * score), 2)
            amount[rng.random(PEOPLE) < rng.choice([0.0, 0.3])] = 0.0
            columns[name] = amount
            bins = int(rng.choice([4, 8, 16]))
            inner = np.unique(np.round(np.quantile(amount[amount > 0], np.arange(1, bins) / bins), -2))
            top = float(np.ceil(amount.max() / 1000) * 1000)
            edges = [0.0, *(float(edge) for edge in inner if 0 < edge < top), top]
            listed.append(us.Attribute(name=name, edges=tuple(edges)))
        else:
            size = int(rng.choice([2, 3, 5]))
            cuts = np.quantile(score, np.sort(rng.dirichlet(np.full(size, 2.0)).cumsum()[:-1]))
            columns[name] = np.searchsorted(cuts, score)
            levels = tuple(f"v{code}" for code in range(size))
            listed.append(us.Attribute(name=name, levels=levels, ordered=bool(rng.random() < 0.5)))
    return Population(kind="copula", schema=us.Schema(attributes=tuple(listed)), columns=columns)


def scores(rng: np.random.Generator, attributes: int) -> Population:
    """Whole numbers known one by one: scores that are nearly normal, and skewed numbers of events; some levels.

    The last bin has two values, as it does with every ``integer`` attribute; nearly nobody is in it.
    """
    factor = rng.normal(0, 1, PEOPLE)
    columns: dict[str, Column] = {}
    listed = []
    for place in range(attributes):
        score = factor * rng.normal(0, 0.8) + rng.normal(0, 1, PEOPLE)
        score = score / score.std()
        kind = str(rng.choice(["score", "events"])) if place < 2 else str(rng.choice(["score", "events", "levels"]))
        name, most = f"a{place}", int(rng.choice([9, 12]))
        if kind == "levels":
            size = int(rng.choice([2, 3, 4]))
            columns[name] = np.searchsorted(np.quantile(score, np.arange(1, size) / size), score)
            listed.append(us.Attribute(name=name, levels=tuple(f"v{code}" for code in range(size))))
            continue
        values = most / 2 + most / 7 * score if kind == "score" else np.exp(0.8 * score)
        columns[name] = np.clip(np.round(values), 0, most).astype(float)
        listed.append(us.Attribute(name=name, edges=(*range(most + 1), most + 1), integer=True))
    return Population(kind="scores", schema=us.Schema(attributes=tuple(listed)), columns=columns)


def chosen(rng: np.random.Generator, score: np.ndarray) -> Column:
    """One level for each row of scores: the largest after Gumbel noise has the chances of a softmax."""
    return np.argmax(score + rng.gumbel(size=score.shape), axis=1)


def categories(kind: str, columns: dict[str, Column], sizes: Sequence[int], rng: np.random.Generator) -> Population:
    listed = tuple(
        us.Attribute(
            name=name, levels=tuple(f"v{code}" for code in range(size)), ordered=bool(size > 2 and rng.random() < 0.3)
        )
        for name, size in zip(columns, sizes, strict=True)
    )
    return Population(kind=kind, schema=us.Schema(attributes=listed), columns=columns)


def with_gaps(rng: np.random.Generator, made: Population) -> Population:
    """Some attributes with missing values that depend on another one; perhaps a question that only some are asked."""
    columns, listed, rules = dict(made.columns), list(made.schema.attributes), []
    names = list(columns)
    if rng.random() < 0.3:
        for name in rng.choice(names, min(2, len(names)), replace=False):
            other = made.columns[names[0]]
            rate = rng.uniform(0.01, 0.1) * (1 + (other > np.median(other)))
            gone = rng.random(made.size) < rate
            columns[name] = np.where(gone, np.nan if made.numeric(name) else -1, columns[name])
            listed[names.index(name)] = replace(listed[names.index(name)], missing=True)
    asked = [name for name in names if made.schema[name].levels and not made.schema[name].ordered]
    if len(asked) > 1 and rng.random() < 0.2:  # a skip pattern: who answered the first level is not asked
        gate, follow = (str(name) for name in rng.choice(asked, 2, replace=False))
        levels = (*made.schema[follow].levels, "not asked")
        skipped = columns[gate] == 0
        columns[follow] = np.where(skipped, len(levels) - 1, columns[follow])
        place = names.index(follow)
        listed[place] = replace(listed[place], levels=levels)
        first = str(made.schema[gate].levels[0])
        others = tuple(level for level in made.schema[gate].levels if level != first)
        rules.append(Impossible(conditions={gate: Condition(levels=others), follow: Condition(levels=("not asked",))}))
        asked_of = tuple(made.schema[follow].levels)
        rules.append(Impossible(conditions={gate: Condition(levels=(first,)), follow: Condition(levels=asked_of)}))
        if (columns[gate] < 0).any() or (columns[follow] < 0).any():
            rules = []  # who did not answer the first may have been asked the second
    schema = us.Schema(attributes=tuple(listed), impossible=tuple(rules))
    return Population(kind=made.kind, schema=schema, columns=columns)


def real_files() -> list[str]:
    """The real files at hand."""
    known = {"adult": "adult/adult", "nltcs": "nltcs/nltcs", "ma2019": "sdnist/ma2019", "eusilc": "eusilc/eusilc"}
    known["sd2011"] = "sd2011/S7"
    return [name for name, path in known.items() if (DATA / f"{path}.parquet").exists()]


@cache
def real_columns(name: str) -> dict[str, tuple[us.Attribute, Column]]:
    """Every usable column of a real file: numbers by their values where the file has them, else levels."""
    folder = {"ma2019": "sdnist/ma2019", "sd2011": "sd2011/S7"}.get(name, f"{name}/{name}")
    table = pq.read_table(DATA / f"{folder}.parquet")
    numbers = {
        "adult": {"age": (0, 10, 20, 30, 40, 50, 85), "hours-per-week": (0, 20, 35, 39, 45, 60, 99)},
        "ma2019": {"AGEP": (0, 18, 30, 45, 60, 75, 100), "PINCP": None},
        "eusilc": {"age": (-1, 16, 30, 45, 60, 75, 110), "eqIncome": None, "py010n": None},
    }.get(name, {})
    domain = json.loads((DATA / "adult" / "adult-domain.json").read_text()) if name == "adult" else {}
    found: dict[str, tuple[us.Attribute, Column]] = {}
    for column in table.column_names:
        short = "".join(letter if letter.isalnum() else "_" for letter in column)
        values = table[column].to_pylist()
        if column in numbers:
            read = np.array([np.nan if one in (None, "N", "") else float(one) for one in values])
            gone = bool(np.isnan(read).any())
            edges = numbers[column]
            if edges is None:
                inside = read[~np.isnan(read)]
                inner = np.unique(np.round(np.quantile(inside, np.arange(1, 10) / 10), -2))
                top, bottom = float(np.ceil(inside.max())) + 1, float(np.floor(inside.min()))
                edges = (bottom, *(float(one) for one in inner if bottom < one < top), top)
                made = us.Attribute(name=short, edges=edges, missing=gone)
            else:
                made = us.Attribute(name=short, edges=edges, integer=True, missing=gone)
            found[short] = (made, read)
            continue
        texts = [str(one) for one in values]
        levels = sorted(set(texts)) if column not in domain else [str(code) for code in range(domain[column])]
        if 1 < len(levels) <= MOST_LEVELS:
            place = {level: code for code, level in enumerate(levels)}
            found[short] = (us.Attribute(name=short, levels=tuple(levels)), np.array([place[one] for one in texts]))
    return found


def resampled(rng: np.random.Generator, name: str, attributes: int) -> Population:
    """Some columns of a real file, as a population of its own."""
    known = real_columns(name)
    names = sorted(str(one) for one in rng.choice(list(known), min(attributes, len(known)), replace=False))
    schema = us.Schema(attributes=tuple(known[one][0] for one in names))
    return Population(kind=name, schema=schema, columns={one: known[one][1] for one in names})
