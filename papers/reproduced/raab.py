"""Raab (2022), Utility and Disclosure Risk for Differentially Private Synthetic Categorical Data.

The data sets S3, S5 and S7 are the first three, five and seven of some attributes of SD2011, 5,000 people of a survey
in Poland, with age and income already in their five classes. The columns P and Ps need an extract of a census survey
that is not public here; what can be said of them is their number of cells, and what a generated table of that size has.

The syntheses behind Tables 2 and 3 are made by this package's own methods through the gate. SD2011 is public, so its
counts may be held in memory here. DP syntheses use geometric noise of scale M / epsilon on each of the M tables. It is
the whole-number counterpart of the paper's Laplace noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papers.harness import (
    CannotComputeError,
    Computations,
    Compute,
    Simulated,
    data_file,
    listed_items,
    long_allowed,
    papers,
    pictures,
)
from papers.pictures import replicated_uniques
from understudy import api
from understudy.core.schema import Attribute, Schema
from understudy.core.table import CodedSource, CodedTable
from understudy.evaluation.inputs.counted_tables import count_together
from understudy.evaluation.shared.table_measures import s_pmse
from understudy.figures.drawing import Drawing
from understudy.privacy.gate.gate import Gate
from understudy.privacy.promise.definition import Definition, NonPrivate, PureDP
from understudy.privacy.randomness.streams import SeededStream
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
EPSILONS = (0.01, 0.1, 0.5, 1.0, 2.0, 10.0)
PRIORS = ("0", "1")  # the paper's code line says 0, its footnote 17 says 1
ROWS = (
    "ru",
    "ru as % of p1",
    "mean two-way utility",
    "mean three-way utility",
    "worst three-way utility",
)
# Printed with a star: one or more fits did not converge in 5,000 sweeps, so the means are of unfinished fits. They are
# compared with fits that stop there too.
STARRED = {("S5", 0.01), ("S7", 0.01), ("S7", 0.1), ("S7", 0.5)}
SWEEPS = 5_000
QUICK_RUNS = 2  # of S7 in a quick figure
STARRED_RUNS = 10  # of S7: some six seconds of processor time each
CATALL_EPSILONS = (0.1, 0.5, 1.0, 2.0)
CATALL_RUNS = 10
USABLE = 30.0  # "those under 30 generally produce usable results"
SWEEP = ("1", "50", "500", "5000")  # prior counts
# Table 5, with age in five classes: distinct values of the attributes of the census extract, and its records.
CENSUS = {"area": 181, "year": 7, "quarters": 5, "sex": 2, "age": 5, "marital": 6, "race": 9, "hispanic": 5}
CENSUS_RECORDS = {"P": 1_035_201, "Ps": 13_309}
CENSUS_SETS = {"P3": 3, "P5": 5, "P7": 7, "Ps3": 3, "Ps5": 5, "Ps7": 7}  # attributes after the area; P7x has the area
NOT_PUBLIC = "the extract of the census survey is not public here"


def schema_of(data_set: str) -> Schema:
    if data_set not in DATA_SETS:  # an extract that is not public: what is generated in its place
        names = list(CENSUS)[:-1] if data_set == "P7x" else list(CENSUS)[1:]
        levels = zip(names, census_sizes(data_set), strict=False)
        return Schema(attributes=tuple(Attribute(name=name, levels=tuple(range(size))) for name, size in levels))
    return Schema(attributes=ATTRIBUTES[: DATA_SETS[data_set]])


@cache
def cross_tabulation(data_set: str) -> NDArray[np.int64]:
    """The counts of all cells, counted by the engine that releases use. SD2011 is public."""
    if data_set not in DATA_SETS:
        return stand_in(data_set)
    schema = schema_of(data_set)
    source = api.open_source(data_file("sd2011", f"{data_set}.csv"), schema, missing_text=MISSING_TEXT)
    (counts,) = source.count([schema.names])
    return counts.values


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
    gate = Gate(source=CodedSource(original), schema=original.schema, plan=plan, stream=stream)
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
        if method == "ipf" and (data_set, epsilon) in STARRED:
            options["sweeps"] = SWEEPS
        copies = tuple(synthesize(data_set, method, budget, seed=seed, **options)[0] for seed in range(runs))
    return score(data_set, copies)


def simulated(values: NDArray[np.float64]) -> Simulated:
    deviation = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return Simulated(mean=float(values.mean()), deviation=deviation, runs=len(values))


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
        return simulated(100 * found.uniques / max(uniques(data_set), 1e-300))
    if row == "worst three-way utility":
        if data_set not in WORST:
            return simulated(found.tables[3][1].max(axis=1))
        return simulated(found.utility_of(WORST[data_set]))
    return simulated(found.mean_utility({"mean two-way utility": 2, "mean three-way utility": 3}[row]))


def cells(data_set: str) -> float:
    """k: cells without the missing levels."""
    return float(prod(attribute.bins for attribute in schema_of(data_set).attributes))


def empty_cells(data_set: str) -> float:
    """p0, in percent of all cells, missing levels included."""
    counts = cross_tabulation(data_set)
    return 100 * float(np.mean(counts == 0))


def private_ipf(data_set: str, epsilon: float, prior: str, row: str) -> Simulated:
    """A cell of Table 3."""
    few = data_set == "S7" and (data_set, epsilon) in STARRED
    return printed(data_set, "ipf", epsilon, prior=prior, row=row, runs=STARRED_RUNS if few else RUNS)


def census_sizes(data_set: str) -> list[int]:
    """The distinct values of the attributes of one extract: the first ones, and P7x with the area in front."""
    if data_set == "P7x":
        return list(CENSUS.values())[:-1]
    return list(CENSUS.values())[1 : CENSUS_SETS[data_set] + 1]


@cache
def stand_in(data_set: str) -> NDArray[np.int64]:
    """A generated table of the extract's size: independent attributes whose shares fall as 1, 1/2, 1/3."""
    rng = np.random.default_rng(2022)
    sizes = census_sizes(data_set)
    falling = [1 / np.arange(1, size + 1) for size in sizes]
    rows = CENSUS_RECORDS["Ps" if data_set.startswith("Ps") else "P"]
    codes = [rng.choice(len(share), size=rows, p=share / share.sum()) for share in falling]
    counts = np.bincount(np.ravel_multi_index(codes, sizes), minlength=prod(sizes))
    return np.asarray(counts.reshape(sizes), dtype=np.int64)


def census_shape(data_set: str, row: str) -> float:
    found = empty_cells(data_set) if row == "p0" else uniques(data_set)
    raise CannotComputeError(f"{NOT_PUBLIC}; a generated table of its size and number of cells has {found:.2f}")


def census_synthesis(data_set: str, setting: str, row: str) -> float:
    """What can be said of a cell of Tables 2 and 3: what one synthesis of a generated table of that size gives.

    Its attributes are independent, so it says what noise and sampling do, and nothing about dependence. Taken in a full
    run only; P7x is left to ``benchmarks/measure_census_size.py``, because its table has 3.4 million cells.
    """
    if not long_allowed():
        raise CannotComputeError(f"{NOT_PUBLIC}; with --full, what a generated table of its size gives")
    if data_set == "P7x":
        raise CannotComputeError(f"{NOT_PUBLIC}; what a table of its size costs is in docs/benchmarks/tables.md")
    method = "histogram" if setting == "catall" else "ipf"
    epsilon = float(setting.removeprefix("eps=")) if setting.startswith("eps=") else None
    found = printed(data_set, method, epsilon, prior="1", row=row, runs=2 if epsilon is None else 1)
    raise CannotComputeError(
        f"{NOT_PUBLIC}; a synthesis of a generated table of its size, with independent attributes, has {found.mean:.2f}"
    )


def private_catall(data_set: str, epsilon: float) -> float:
    """Mean two-way utility of the full table with Laplace(1/epsilon) noise, clipped, scaled, drawn from."""
    return float(scores(data_set, "histogram", epsilon, "1", CATALL_RUNS).mean_utility(2).mean())


def catall_unusable(data_set: str, epsilon: float) -> float:
    """1 if its mean two-way utility is above what the paper calls usable."""
    return float(private_catall(data_set, epsilon) > USABLE)


def catall_beats_ipf(epsilon: float) -> float:
    """1 if on S3 the noisy full table has the better three-way utility of the two methods."""
    ipf = scores("S3", "ipf", epsilon, "1").mean_utility(3).mean()
    return float(scores("S3", "histogram", epsilon, "1", CATALL_RUNS).mean_utility(3).mean() < ipf)


def prior_lowers_uniques(data_set: str) -> float:
    """1 if ru of catall without noise is lower with the largest prior count than with the smallest."""
    first, last = (scores(data_set, "histogram", None, prior).uniques.mean() for prior in (SWEEP[0], SWEEP[-1]))
    return float(last < first)


def prior_damages_utility(data_set: str) -> float:
    """1 if at the largest prior count, as many prior as real records, mean two-way utility is beyond usable."""
    return float(scores(data_set, "histogram", None, SWEEP[-1]).mean_utility(2).mean() > USABLE)


def prior_matters_less_than_epsilon(data_set: str) -> float:
    """1 if in DP ipf a prior count from 1 to 50 moves utility less than halving epsilon from 1."""

    def utility(epsilon: float, prior: str) -> float:
        return float(scores(data_set, "ipf", epsilon, prior).mean_utility(2).mean())

    by_prior = abs(utility(1.0, SWEEP[1]) - utility(1.0, "1"))
    return float(by_prior < abs(utility(0.5, "1") - utility(1.0, "1")))


TABLE_1: dict[str, Callable[[str], float]] = {"k": cells, "p0": empty_cells, "p1": uniques}
CLAIMS: dict[str, tuple[str, Callable[[str], float]]] = {
    "prior counts lower ru of non-DP catall": ("S7", prior_lowers_uniques),
    "large prior counts damage utility of non-DP catall": ("S7", prior_damages_utility),
    "prior counts matter less than epsilon in DP ipf": ("S5", prior_matters_less_than_epsilon),
}


def table_cells() -> dict[tuple[str, str], Compute]:
    """Every cell of Tables 2 and 3 in the columns S3, S5 and S7."""
    found: dict[tuple[str, str], Compute] = {}
    for data_set in DATA_SETS:
        for prior in PRIORS:
            for row in ROWS:
                if data_set == "S3" and row == "ru as % of p1":
                    continue
                for epsilon in EPSILONS:
                    if (data_set, row) == ("S3", "mean three-way utility") and epsilon >= 0.5:
                        continue  # left blank in the paper: S3 has one three-way table, printed as the worst
                    cell = f"{data_set} eps={epsilon:g} {row} (prior {prior})"
                    found["Table 3", cell] = partial(private_ipf, data_set, epsilon, prior, row)
                if data_set == "S3" and row == "ru":
                    continue  # left blank in the paper
                for method, name in (("histogram", "catall"), ("ipf", "ipf")):
                    if method == "ipf" or not row.startswith("worst"):
                        cell = f"{data_set} {name} {row} (prior {prior})"
                        found["Table 2", cell] = partial(printed, data_set, method, None, prior=prior, row=row)
    return found


@papers.add
def raab() -> Computations:
    computations: dict[tuple[str, str], Compute] = {
        ("Table 1", f"{data_set} {row}"): partial(compute, data_set)
        for row, compute in TABLE_1.items()
        for data_set in DATA_SETS
    }
    computations |= table_cells()
    for entry in listed_items():
        data_set, _, row = entry["cell"].partition(" ")
        if entry["paper"] != "raab" or not data_set.startswith("P"):
            continue
        if row == "k":
            compute: Compute = partial(lambda name: float(prod(census_sizes(name))), data_set)
        else:
            setting, _, what = row.partition(" ")
            compute = partial(census_shape, data_set, row)
            if row not in ("p0", "p1"):
                compute = partial(census_synthesis, data_set, setting, what)
        computations[entry["item"], entry["cell"]] = compute
    for data_set in DATA_SETS:
        for epsilon in CATALL_EPSILONS:
            cell = f"{data_set} eps={epsilon:g} DP catall is not usable"
            computations["Section 5.2", cell] = partial(catall_unusable, data_set, epsilon)
    for epsilon in CATALL_EPSILONS:
        cell = f"S3 eps={epsilon:g} DP catall beats DP ipf"
        computations["Section 5.2", cell] = partial(catall_beats_ipf, epsilon)
    for claim, (data_set, judge) in CLAIMS.items():
        computations["Section 5.2", f"{data_set} {claim}"] = partial(judge, data_set)
    return computations


def figure_1(full: bool) -> Drawing:
    """Fig. 1: ru as % of p1 by epsilon, computed for S5 and S7, beside what Tables 2 and 3 print for all data sets.

    The extracts P and Ps are not public, so of these the published points alone are drawn. The paper draws the non-DP
    syntheses at 3, "equivalent to an epsilon of 100"; here they stand right of a line.
    """
    import pyarrow as pa

    shown = {(entry["item"], entry["cell"]): entry for entry in listed_items() if entry["paper"] == "raab"}
    rows = []
    for data_set in ("S5", "S7"):
        runs = RUNS if full or data_set == "S5" else QUICK_RUNS
        for epsilon in (*EPSILONS, None):
            place = f"eps={epsilon:g}" if epsilon else "ipf"
            entry = shown["Table 3" if epsilon else "Table 2", f"{data_set} {place} ru as % of p1 (prior 1)"]
            found = printed(data_set, "ipf", epsilon, prior="1", row="ru as % of p1", runs=runs)
            rows.append({
                "data_set": data_set, "epsilon": epsilon, "computed": found.mean,
                "published": float(entry.get("expected", entry["published"])), "runs": runs,
            })  # fmt: skip
    for data_set in ("P5", "P7", "P7x", "Ps5", "Ps7"):
        for epsilon in (*EPSILONS, None):
            place = f"eps={epsilon:g}" if epsilon else "ipf"
            entry = shown["Table 3" if epsilon else "Table 2", f"{data_set} {place} ru as % of p1"]
            rows.append({"data_set": data_set, "epsilon": epsilon, "computed": None,
                         "published": float(entry["published"]), "runs": 0})  # fmt: skip
    return replicated_uniques(pa.Table.from_pylist(rows), title="Raab (2022), Fig. 1")


pictures["raab"] = figure_1
