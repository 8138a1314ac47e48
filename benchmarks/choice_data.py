"""Settings that the default is held against its own methods on: generated populations and cuts of real files.

A setting is written ``KIND rows=N [columns=K] [every=2] eps=E [pure] seed=S``. Generated kinds draw their population
and its rows from the seed; a cut of a real file draws rows and columns. ``proving`` is a population of the proving
ground. So a fresh seed is a fresh setting, and ``draw_settings`` draws whole settings from one.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import understudy as us
from margin_data import load
from understudy.core.structural_zeros import Condition, Impossible
from understudy.evaluation.shared.table_measures import s_pmse

sys.path.insert(0, str(Path(__file__).resolve().parent / "proving"))
from populations import draw_population

DELTA = "1e-9"
MOST_TRIPLES = 300
REAL = ("MA", "Adult", "NLTCS", "S7")
Columns = dict[str, tuple[np.ndarray, int]]  # codes and the number of levels


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is released, under which budget; ``seed`` draws the population, the cut and the rows."""

    kind: str
    rows: int
    epsilon: str
    seed: int
    columns: int = 0  # 0: as many as the kind has
    every: int = 1  # of a real file: every so many columns, in the order of the file
    pure: bool = False

    @property
    def name(self) -> str:
        width = f" columns={self.columns}" if self.columns else ""
        every = f" every={self.every}" if self.every > 1 else ""
        return (
            f"{self.kind} rows={self.rows}{width}{every} eps={self.epsilon}{' pure' if self.pure else ''} "
            f"seed={self.seed}"
        )

    @property
    def budget(self) -> Any:
        epsilon = Fraction(self.epsilon)
        return us.PureDP(epsilon=epsilon) if self.pure else us.ApproxDP(epsilon=epsilon, delta=DELTA)


def read_setting(text: str) -> Setting:
    """A setting as it is written."""
    kind, *parts = text.split()
    told = dict(part.split("=") for part in parts if "=" in part)
    return Setting(
        kind=kind, rows=int(told["rows"]), columns=int(told.get("columns", 0)), every=int(told.get("every", 1)),
        epsilon=told["eps"], seed=int(told.get("seed", 0)), pure="pure" in parts,
    )  # fmt: skip


def draw_settings(seed: int, count: int) -> list[Setting]:
    """Settings nobody chose: kind, rows, columns and budget are drawn; every third is of the proving ground."""
    rng = np.random.default_rng(seed)
    found = []
    for place in range(count):
        kind = "proving" if place % 3 == 0 else str(rng.choice([*REAL, *KINDS]))
        columns = int(rng.choice([4, 5, 6, 8, 10, 12, 16, 20, 24]))
        found.append(
            Setting(
                kind=kind, rows=int(rng.choice([500, 1000, 2000, 5000, 10_000, 20_000])),
                columns=min(columns, COLUMNS.get(kind, columns)), pure=bool(rng.random() < 0.3),
                epsilon=str(rng.choice(["0.1", "0.3", "1", "3", "10"])), seed=int(rng.integers(10**6)),
            )
        )  # fmt: skip
    return found


def make(setting: Setting) -> tuple[us.Schema, pa.Table]:
    """The schema and the confidential rows of a setting."""
    rng = np.random.default_rng([setting.seed, setting.rows])
    if setting.kind == "proving":
        return _proving(rng, setting)
    found = _cut(setting, rng) if setting.kind in REAL else KINDS[setting.kind](rng, setting.rows, setting.columns)
    schema = us.Schema(
        attributes=tuple(us.Attribute(name=name, levels=tuple(range(size))) for name, (_, size) in found.items())
    )
    return schema, pa.table({name: pa.array(codes.astype(np.int64)) for name, (codes, _) in found.items()})


def _cut(setting: Setting, rng: np.random.Generator) -> Columns:
    """Random rows and columns of a real file."""
    schema, table, rows = load(setting.kind)
    names = list(schema.names)[:: setting.every]
    if setting.columns:
        kept = set(rng.choice(names, setting.columns, replace=False))
        names = [name for name in names if name in kept]
    taken = rng.choice(rows, min(setting.rows, rows), replace=False)
    return {name: (table[name].to_numpy()[taken], schema[name].size) for name in names}


def _proving(rng: np.random.Generator, setting: Setting) -> tuple[us.Schema, pa.Table]:
    """Rows of a population of the proving ground as codes: bins of numbers, and missing as the last level."""
    people = draw_population(rng, setting.columns or 6)
    taken = rng.integers(people.size, size=setting.rows)
    listed, columns = [], {}
    for one in people.schema.attributes:
        column = people.columns[one.name][taken]
        if one.levels:
            last, codes = len(one.levels), column
        else:
            last = len(one.edges) - 1
            codes = np.minimum(np.searchsorted(one.edges, np.nan_to_num(column), side="right") - 1, last - 1)
        codes = np.where(people.missing(one.name)[taken], last, np.maximum(codes, 0))
        listed.append(us.Attribute(name=one.name, levels=tuple(range(last + one.missing))))
        columns[one.name] = pa.array(codes.astype(np.int64))
    place = {one.name: {level: code for code, level in enumerate(one.levels)} for one in people.schema.attributes}
    rules = tuple(
        Impossible(
            conditions={
                name: Condition(levels=tuple(place[name][level] for level in condition.levels))
                for name, condition in dict(rule.conditions).items()
            }
        )
        for rule in people.schema.impossible
    )
    return us.Schema(attributes=tuple(listed), impossible=rules), pa.table(columns)


def _named(codes: list[np.ndarray], sizes: list[int]) -> Columns:
    return {f"x{place}": (one, size) for place, (one, size) in enumerate(zip(codes, sizes, strict=True))}


def sequences(rng: np.random.Generator, rows: int, columns: int) -> Columns:
    """States over time that nearly always stay, else move to a few others, and can end for good (18 levels)."""
    steps, levels = columns or 16, 18
    stay = rng.uniform(0.85, 0.98, levels)
    stay[-1] = 1.0
    moves = rng.dirichlet(np.full(levels, 0.15), levels)
    law = np.diag(stay) + (1 - stay)[:, None] * moves
    law /= law.sum(axis=1, keepdims=True)
    now = rng.choice(levels, rows, p=rng.dirichlet(np.full(levels, 0.5)))
    found = []
    for _ in range(steps):
        found.append(now)
        upper = law.cumsum(axis=1)
        now = np.minimum((upper[now] < rng.random(rows)[:, None]).sum(axis=1), levels - 1)
    return _named(found, [levels] * steps)


def loans(rng: np.random.Generator, rows: int, columns: int) -> Columns:
    """Amounts and codes of up to 1,001 levels, most of them skewed; some follow a few factors, some one another."""
    count = columns or 42
    sizes = [int(one) for one in rng.choice([2, 3, 5, 8, 12, 20, 50, 100, 300, 1001], count)]
    factors = rng.normal(size=(rows, 3))
    found: list[np.ndarray] = []
    for place, size in enumerate(sizes):
        kind = rng.choice(["alone", "factor", "copy"], p=[0.4, 0.4, 0.2])
        if kind == "copy" and place:
            other = int(rng.integers(place))
            code = found[other] * size // sizes[other]
            noise = rng.random(rows) < rng.uniform(0.02, 0.3)
            found.append(np.where(noise, rng.integers(0, size, rows), code))
            continue
        loading = rng.normal(0, 1.0, 3) * (rng.random(3) < 0.6) if kind == "factor" else np.zeros(3)
        value = factors @ loading + rng.normal(size=rows)
        rank = np.argsort(np.argsort(value)) / rows
        found.append(np.minimum((rank ** rng.uniform(1.0, 5.0) * size).astype(np.int64), size - 1))
    return _named(found, sizes)


def surveys(rng: np.random.Generator, rows: int, columns: int) -> Columns:
    """Many questions of two to six levels, most answers rare, with a few weak latent classes."""
    count, classes = columns or 60, 3
    sizes = [int(one) for one in rng.choice([2, 2, 2, 3, 4, 6], count)]
    of = rng.choice(classes, rows, p=[0.7, 0.2, 0.1])
    found = []
    for size in sizes:
        score = rng.normal(0, 0.7, (classes, size))
        score[:, 0] += rng.uniform(1.0, 4.0)
        found.append(np.argmax(score[of] + rng.gumbel(size=(rows, size)), axis=1))
    return _named(found, sizes)


def independents(rng: np.random.Generator, rows: int, columns: int) -> Columns:
    """Attributes that have nothing to do with one another."""
    sizes = [int(one) for one in rng.choice([2, 3, 5, 8, 15, 30], columns or 15)]
    return _named([rng.choice(size, rows, p=rng.dirichlet(np.full(size, 1.0))) for size in sizes], sizes)


def trees(rng: np.random.Generator, rows: int, columns: int) -> Columns:
    """Every attribute depends strongly on one earlier attribute, and on nothing else."""
    count = columns or 20
    sizes = [int(one) for one in rng.choice([2, 3, 4, 6, 9, 14], count)]
    found = [rng.choice(sizes[0], rows, p=rng.dirichlet(np.full(sizes[0], 2.0)))]
    for place in range(1, count):
        parent = int(rng.integers(place))
        law = rng.dirichlet(np.full(sizes[place], 0.4), sizes[parent])
        upper = law.cumsum(axis=1)[found[parent]]
        found.append(np.minimum((upper < rng.random(rows)[:, None]).sum(axis=1), sizes[place] - 1))
    return _named(found, sizes)


def classes(rng: np.random.Generator, rows: int, columns: int) -> Columns:
    """Attributes of 2 to 11 levels that are independent given one of six classes."""
    count = columns or 20
    sizes = [int(one) for one in rng.integers(2, 12, count)]
    of = rng.choice(6, rows, p=rng.dirichlet(np.full(6, 2.0)))
    found = []
    for size in sizes:
        score = rng.normal(0, 1.0, (6, size))[of]
        found.append(np.argmax(score + rng.gumbel(size=score.shape), axis=1))
    return _named(found, sizes)


def dense(rng: np.random.Generator, rows: int, columns: int) -> Columns:
    """Each attribute depends on two earlier ones, with interactions of all three."""
    count = columns or 12
    sizes = [int(one) for one in rng.choice([2, 2, 3, 4, 5, 7], count)]
    found: list[np.ndarray] = []
    for place, size in enumerate(sizes):
        score = np.broadcast_to(rng.normal(0, 0.8, size), (rows, size)).copy()
        parents = rng.choice(place, min(place, 2), replace=False)
        for parent in parents:
            score += rng.normal(0, 0.9, (sizes[parent], size))[found[parent]]
        if len(parents) == 2:
            first, second = parents
            score += rng.normal(0, 0.6, (sizes[first], sizes[second], size))[found[first], found[second]]
        found.append(np.argmax(score + rng.gumbel(size=score.shape), axis=1))
    return _named(found, sizes)


KINDS = {
    "sequences": sequences, "loans": loans, "surveys": surveys, "independents": independents, "trees": trees,
    "classes": classes, "dense": dense,
}  # fmt: skip


COLUMNS = {"MA": 24, "Adult": 14, "NLTCS": 16, "S7": 7}  # what a real file has


def score(schema: us.Schema, original: pa.Table, synthetic: pa.Table) -> tuple[float, float]:
    """Mean S_pMSE of all two-way tables, and of all three-way tables or a fixed sample of them."""
    sizes = dict(zip(schema.names, schema.shape(), strict=True))
    sides = [
        {name: table[name].to_numpy().astype(np.int64) for name in schema.names} for table in (original, synthetic)
    ]
    found = []
    triples = list(combinations(schema.names, 3))
    if len(triples) > MOST_TRIPLES:
        places = np.random.default_rng(0).choice(len(triples), MOST_TRIPLES, replace=False)
        triples = [triples[place] for place in places]
    for margins in (list(combinations(schema.names, 2)), triples):
        found.append(float(np.mean([_s_pmse(margin, sizes, sides) for margin in margins])))
    return found[0], found[1]


def _s_pmse(margin: tuple[str, ...], sizes: dict[str, int], sides: list[dict[str, np.ndarray]]) -> float:
    """Over the cells that somebody is in: the others count nothing."""
    shape = [sizes[name] for name in margin]
    cells = [np.ravel_multi_index([side[name] for name in margin], shape) for side in sides]
    if np.prod(np.array(shape, dtype=float)) > 1e6:
        _, joined = np.unique(np.concatenate(cells), return_inverse=True)
        cells = [joined[: len(cells[0])], joined[len(cells[0]) :]]
        count = int(joined.max()) + 1
    else:
        count = int(np.prod(shape))
    return float(s_pmse(*(np.bincount(one, minlength=count) for one in cells)))


def predicted(schema: us.Schema, original: pa.Table, synthetic: pa.Table) -> tuple[str, float, float]:
    """Train on synthetic, test on real: an outcome, and the areas under the curve of boosted trees and of a logit.

    The outcome is whether somebody is above the median of the attribute that differs most from independence of the
    others in the original (of an attribute of two levels: whether they have the second). All others predict it.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.preprocessing import OneHotEncoder

    codes = [np.column_stack([table[name].to_numpy() for name in schema.names]) for table in (original, synthetic)]
    yes = codes[0] > np.median(codes[0], axis=0)
    common = np.abs(np.corrcoef(yes + 1e-9 * np.arange(len(yes))[:, None], rowvar=False)) - np.eye(yes.shape[1])
    place = int(np.argmax(np.sort(np.nan_to_num(common), axis=0)[-3:].sum(axis=0)))
    middle = np.median(codes[0][:, place])
    truth, made = (one[:, place] > middle for one in codes)
    if truth.all() or not truth.any() or made.all() or not made.any():
        return schema.names[place], 0.5, 0.5
    others = [np.delete(one, place, axis=1) for one in codes]
    trees = HistGradientBoostingClassifier(max_iter=60, random_state=0).fit(others[1], made)
    columns = OneHotEncoder(handle_unknown="ignore", max_categories=50).fit(others[1])
    logit = LogisticRegression(max_iter=300).fit(columns.transform(others[1]), made)
    areas = [
        float(roc_auc_score(truth, chance))
        for chance in (
            trees.predict_proba(others[0])[:, 1],
            logit.predict_proba(columns.transform(others[0]))[:, 1],
        )
    ]
    return schema.names[place], areas[0], areas[1]
