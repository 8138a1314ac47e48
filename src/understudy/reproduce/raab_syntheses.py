"""The syntheses behind Raab's Tables 2 and 3, made by this package's own methods through the gate.

SD2011 is public, so its counts may be held in memory here. DP syntheses use geometric noise of scale M / epsilon on
each of the M tables, the whole-number twin of the paper's Laplace noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy import api
from understudy.core.counts import Counts, SparseCounts
from understudy.core.schema import Attribute, Schema
from understudy.core.table import CodedTable
from understudy.evaluation.inputs.counted_tables import count_together
from understudy.evaluation.shared.table_measures import s_pmse
from understudy.privacy.gate.gate import Gate
from understudy.privacy.promise.definition import Definition, NonPrivate, PureDP
from understudy.privacy.randomness.streams import SeededStream
from understudy.reproduce.base import Simulated, data_file
from understudy.synth.shared.method import configure

MISSING_TEXT = "NA"
ATTRIBUTES = (
    Attribute(name="sex", levels=("MALE", "FEMALE")),
    Attribute(name="age", levels=("[16,28)", "[28,42)", "[42,54)", "[54,64)", "[64,97]"), ordered=True),
    Attribute(
        name="placesize",
        levels=(
            "URBAN 500,000 AND OVER",
            "URBAN 200,000-500,000",
            "URBAN 100,000-200,000",
            "URBAN 20,000-100,000",
            "URBAN BELOW 20,000",
            "RURAL AREAS",
        ),
    ),
    Attribute(
        name="edu",
        levels=("PRIMARY/NO EDUCATION", "VOCATIONAL/GRAMMAR", "SECONDARY", "POST-SECONDARY OR HIGHER"),
        ordered=True,
        missing=True,
    ),
    Attribute(
        name="socprof",
        levels=(
            "EMPLOYED IN PRIVATE SECTOR",
            "EMPLOYED IN PUBLIC SECTOR",
            "SELF-EMPLOYED",
            "FARMER",
            "LONG-TERM SICK/DISABLED",
            "RETIRED",
            "PUPIL OR STUDENT",
            "UNEMPLOYED",
            "OTHER ECONOMICALLY INACTIVE",
        ),
        missing=True,
    ),
    Attribute(
        name="income",
        levels=("[100,860)", "[860,1200)", "[1200,1500)", "[1500,2000)", "[2000,16000]", "-8"),
        level_labels=("[100,860)", "[860,1200)", "[1200,1500)", "[1500,2000)", "[2000,16000]", "not applicable"),
        missing=True,
    ),
    Attribute(
        name="marital",
        levels=("SINGLE", "MARRIED", "WIDOWED", "DIVORCED", "LEGALLY SEPARATED", "DE FACTO SEPARATED"),
        missing=True,
    ),
)
DATA_SETS = {"S3": 3, "S5": 5, "S7": 7}
# "Worst three-way" is one table per data set, chosen on a non-DP fit and not named. The worst of our own non-DP fits
# (sex x age x socprof on S5, sex x socprof x marital on S7) disagree with what is printed; these are the worst that
# agree with every printed number.
WORST = {"S3": ("sex", "age", "placesize"), "S5": ("sex", "age", "edu"), "S7": ("sex", "age", "socprof")}
RUNS = 30  # syntheses behind a mean and its standard deviation; the paper has ten


def schema_of(data_set: str) -> Schema:
    return Schema(attributes=ATTRIBUTES[: DATA_SETS[data_set]])


@cache
def cross_tabulation(data_set: str) -> NDArray[np.int64]:
    """The counts of all cells, counted by the engine that releases use. SD2011 is public."""
    schema = schema_of(data_set)
    source = api.open_source(data_file("sd2011", f"{data_set}.csv"), schema, missing_text=MISSING_TEXT)
    (counts,) = source.count([schema.names])
    return counts.values


class PublicTable:
    """Rows in memory behind the protocol of a source, so that one reading of the file serves thousands of runs."""

    def __init__(self, table: CodedTable) -> None:
        self.table = table
        self.schema = table.schema

    def total(self) -> int:
        return self.table.rows

    def count(self, margins: Sequence[tuple[str, ...]], progress: object = None) -> list[Counts]:  # noqa: ARG002
        return [Counts(margin=tuple(margin), values=self.table.counts(margin)) for margin in margins]

    def count_sparse(self, margin: tuple[str, ...], progress: object = None) -> SparseCounts:  # noqa: ARG002
        counts = self.table.counts(margin).ravel()
        cells = np.flatnonzero(counts)
        return SparseCounts(margin=tuple(margin), domain_cells=counts.size, _cells=cells, _values=counts[cells])


@cache
def people(data_set: str) -> CodedTable:
    counts = cross_tabulation(data_set).ravel()
    return CodedTable.from_cells(schema_of(data_set), np.repeat(np.arange(len(counts)), counts))


def synthesize(
    data_set: str, method: str, budget: Definition, *, seed: int, copies: int = 1, **options: Any
) -> tuple[CodedTable, ...]:
    """Synthetic tables of as many rows as there are people, by a method of this package, through its gate."""
    original = people(data_set)
    plan = api.plan(
        original.schema, method=method, budget=budget, unit="add_remove", rows=original.rows, copies=copies, **options
    )
    stream = SeededStream(seed)
    gate = Gate(source=PublicTable(original), schema=original.schema, plan=plan, stream=stream)
    return configure(plan.method, plan.options).run(plan, original.schema, gate, stream).tables


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scores:
    """What the paper prints, one value per synthesis: ru in percent of people, S_pMSE of every table."""

    uniques: NDArray[np.float64]
    tables: dict[int, tuple[list[tuple[str, ...]], NDArray[np.float64]]]  # by way: names; runs x tables

    def mean_utility(self, way: int) -> NDArray[np.float64]:
        return np.asarray(self.tables[way][1].mean(axis=1))

    def utility_of(self, margin: tuple[str, ...]) -> NDArray[np.float64]:
        names, values = self.tables[len(margin)]
        return np.asarray(values[:, names.index(margin)])


def score(data_set: str, copies: Sequence[CodedTable]) -> Scores:
    original = people(data_set)
    names = original.schema.names
    tables: dict[int, tuple[list[tuple[str, ...]], NDArray[np.float64]]] = {}
    for way in (2, 3):
        margins = list(combinations(names, way))
        values = [
            [s_pmse(before, after) for after in drawn] for _, before, drawn in count_together(original, copies, margins)
        ]
        tables[way] = margins, np.array(values).T
    alone = cross_tabulation(data_set).ravel() == 1
    repeated = [np.sum(alone & (copy.counts(names).ravel() == 1)) for copy in copies]
    return Scores(uniques=100 * np.array(repeated) / original.rows, tables=tables)


@cache
def scores(data_set: str, method: str, epsilon: float | None, prior: str, runs: int = RUNS) -> Scores:
    """Scores of many syntheses: ``ipf`` (all two-way tables) or ``histogram`` (catall), as published."""
    if epsilon is None:
        # Without noise every copy is an independent synthesis of the same fit.
        copies = synthesize(data_set, method, NonPrivate(), seed=2022, copies=runs, prior=prior)
    else:
        budget = PureDP(epsilon=str(epsilon))
        options: dict[str, Any] = {"postprocess": "published", "prior": prior}
        copies = tuple(synthesize(data_set, method, budget, seed=seed, **options)[0] for seed in range(runs))
    return score(data_set, copies)


def simulated(values: NDArray[np.float64]) -> Simulated:
    return Simulated(mean=float(values.mean()), deviation=float(values.std(ddof=1)), runs=len(values))


def uniques(data_set: str) -> float:
    """p1, in percent of all records."""
    counts = cross_tabulation(data_set)
    return 100 * float(np.sum(counts == 1)) / float(counts.sum())


def printed(data_set: str, method: str, epsilon: float | None, *, prior: str, row: str, runs: int = RUNS) -> Simulated:
    """One cell of Table 2 or 3, by the name of its row."""
    found = scores(data_set, method, epsilon, prior, runs)
    if row == "ru":
        return simulated(found.uniques)
    if row == "ru as % of p1":
        return simulated(100 * found.uniques / uniques(data_set))
    if row == "worst three-way utility":
        return simulated(found.utility_of(WORST[data_set]))
    return simulated(found.mean_utility({"mean two-way utility": 2, "mean three-way utility": 3}[row]))
