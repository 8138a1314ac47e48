"""Raab (2022), Utility and Disclosure Risk for Differentially Private Synthetic Categorical Data.

The data sets S3, S5 and S7 are the first three, five and seven of these attributes of SD2011, 5,000 people of a survey
in Poland, with age and income already in their five classes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from understudy import api
from understudy.core.schema import Attribute, Schema
from understudy.core.table import CodedTable
from understudy.privacy.streams import SeededStream
from understudy.reproduce.base import CannotComputeError, Computations, Compute, data_file, papers
from understudy.utility.counting import count_together
from understudy.utility.tables import s_pmse

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
RUNS = 40
DATA_SETS = {"S3": 3, "S5": 5, "S7": 7}


def schema_of(data_set: str) -> Schema:
    return Schema(attributes=ATTRIBUTES[: DATA_SETS[data_set]])


@cache
def cross_tabulation(data_set: str) -> NDArray[np.int64]:
    """The counts of all cells, counted by the engine that releases use. SD2011 is public."""
    schema = schema_of(data_set)
    source = api.open_source(data_file("sd2011", f"{data_set}.csv"), schema, missing_text=MISSING_TEXT)
    (counts,) = source.count([schema.names])
    return counts.values


def cells(data_set: str) -> float:
    """k: cells without the missing levels."""
    return float(prod(attribute.bins for attribute in schema_of(data_set).attributes))


def empty_cells(data_set: str) -> float:
    """p0, in percent of all cells, missing levels included."""
    counts = cross_tabulation(data_set)
    return 100 * float(np.mean(counts == 0))


def uniques(data_set: str) -> float:
    """p1, in percent of all records."""
    counts = cross_tabulation(data_set)
    return 100 * float(np.sum(counts == 1)) / float(counts.sum())


def saturated_utility(data_set: str, way: int) -> float:
    """Mean S_pMSE of ``catall`` without noise, over all tables of so many attributes: rows from the data's own cells.

    A prior of one row in all is spread evenly over the cells (footnote 17). The mean of ``RUNS`` syntheses, where the
    paper has ten.
    """
    schema = schema_of(data_set)
    counts = cross_tabulation(data_set).ravel()
    original = CodedTable.from_cells(schema, np.repeat(np.arange(len(counts)), counts))
    bounds = np.cumsum(counts + 1 / len(counts))
    stream = SeededStream(2022)
    copies = []
    for run in range(RUNS):
        uniform = stream.words(int(counts.sum()), "catall", data_set, run) / 2.0**64
        drawn = np.searchsorted(bounds, uniform * bounds[-1], side="right")
        copies.append(CodedTable.from_cells(schema, np.minimum(drawn, len(counts) - 1)))
    margins = list(combinations(schema.names, way))
    scores = [
        [s_pmse(before, after) for after in drawn_tables]
        for _, before, drawn_tables in count_together(original, copies, margins)
    ]
    return float(np.mean(scores))


def replicated_uniques(data_set: str, shares: NDArray[np.float64]) -> float:
    """The expected percentage of replicated uniques when as many rows as people are drawn from cell shares, exactly.

    A cell with one person gets one of N rows with probability N p (1 - p)^(N - 1).
    """
    counts = cross_tabulation(data_set)
    people = int(counts.sum())
    own = shares.reshape(counts.shape)[counts == 1]
    return 100 * float(np.sum(np.exp(np.log(people * own) + (people - 1) * np.log1p(-own)))) / people


def saturated_uniques(data_set: str) -> float:
    """ru of ``catall``: one row of prior, spread evenly (footnote 17)."""
    counts = cross_tabulation(data_set).astype(np.float64)
    return replicated_uniques(data_set, (counts + 1 / counts.size) / (counts.sum() + 1))


def saturated_share(data_set: str) -> float:
    """ru of ``catall`` as a percentage of p1."""
    return 100 * saturated_uniques(data_set) / uniques(data_set)


def fitted_uniques(data_set: str, epsilon: float | None) -> float:
    """ru of ``ipf`` on all two-way tables, each with Laplace noise of scale M / epsilon if there is an epsilon.

    Negative counts become a tiny positive number, each table is scaled to the number of people, and the expectation
    over rows is exact; over the noise it is the mean of ``NOISE_RUNS`` fits.
    """
    if (data_set, epsilon) == NOT_CONVERGED:
        raise CannotComputeError("the paper's fit did not converge (marked with a star); ours gives about 0.98")
    counts = cross_tabulation(data_set).astype(np.float64)
    people = counts.sum()
    pairs = list(combinations(range(counts.ndim), 2))
    stream = SeededStream(2022)
    found = []
    for run in range(NOISE_RUNS if epsilon else 1):
        tables = []
        for pair in pairs:
            table = counts.sum(axis=tuple(axis for axis in range(counts.ndim) if axis not in pair), keepdims=True)
            if epsilon:
                words = stream.words(table.size, "laplace", data_set, str(epsilon), run, str(pair))
                uniform = (words.reshape(table.shape) + 0.5) / 2.0**64 - 0.5
                table = table - len(pairs) / epsilon * np.sign(uniform) * np.log1p(-2 * np.abs(uniform))
            table = np.maximum(table, TINY)
            tables.append(table * people / table.sum())
        found.append(replicated_uniques(data_set, fit_margins(tables, counts.shape) / people))
    return float(np.mean(found))


def fit_margins(tables: list[NDArray[np.float64]], shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Iterative proportional fitting from equal cells, until no table moves any more or ``SWEEPS`` are done.

    Noisy tables contradict one another, so the fit goes round in small circles; the paper marks such cells with a star.
    """
    total = float(tables[0].sum())
    fitted = np.full(shape, total / prod(shape))
    for _ in range(SWEEPS):
        moved = 0.0
        for table in tables:
            axes = tuple(axis for axis in range(len(shape)) if table.shape[axis] == 1 and shape[axis] > 1)
            now = fitted.sum(axis=axes, keepdims=True)
            moved = max(moved, float(np.abs(now - table).max()))
            fitted *= table / np.maximum(now, 1e-300)
        if moved < SETTLED * total:
            break
    share: NDArray[np.float64] = np.clip(fitted * total / fitted.sum(), 1e-300, None)
    return share


TABLE_1: dict[str, Callable[[str], float]] = {"k": cells, "p0": empty_cells, "p1": uniques}
WITH_UNIQUES = ("S5", "S7")  # S3 has none, so its ru is 0 whatever is drawn
EPSILONS = (0.01, 0.1, 0.5, 1.0, 2.0, 10.0)
NOISE_RUNS = 4
NOT_CONVERGED = ("S7", 0.5)
SWEEPS = 100
SETTLED = 1e-6  # of all people
TINY = 1e-6
TABLE_2 = {2: "catall mean two-way utility", 3: "catall mean three-way utility"}


@papers.add
def raab() -> Computations:
    computations: dict[tuple[str, str], Compute] = {
        ("Table 1", f"{data_set} {row}"): partial(compute, data_set)
        for row, compute in TABLE_1.items()
        for data_set in DATA_SETS
    }
    for data_set in DATA_SETS:
        for way, row in TABLE_2.items():
            computations["Table 2", f"{data_set} {row}"] = partial(saturated_utility, data_set, way)
    for data_set in WITH_UNIQUES:
        computations["Table 2", f"{data_set} catall ru"] = partial(saturated_uniques, data_set)
        computations["Table 2", f"{data_set} catall ru as % of p1"] = partial(saturated_share, data_set)
        computations["Table 2", f"{data_set} ipf ru"] = partial(fitted_uniques, data_set, None)
        for epsilon in EPSILONS:
            computations["Table 3", f"{data_set} eps={epsilon:g} ru"] = partial(fitted_uniques, data_set, epsilon)
    return computations
