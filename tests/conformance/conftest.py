"""What the conformance tests share: a small mixed table, and sources that misbehave on purpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pytest

from understudy.core.schema import Attribute, Schema
from understudy.core.structural_zeros import Condition, Impossible
from understudy.core.table import CodedSource, CodedTable


@pytest.fixture(scope="session")
def schema() -> Schema:
    """Every kind of attribute, missing values, a special code and structural zeros, in 96 cells."""
    return Schema(
        attributes=(
            Attribute(name="sex", levels=("F", "M")),
            Attribute(name="age", edges=(0, 15, 40, 90), integer=True, missing=True),
            Attribute(name="income", edges=(0.0, 1000.0, 5000.0), special={-8: "not applicable"}, missing=True),
            Attribute(name="marital", levels=("single", "married", "widowed")),
        ),
        impossible=(
            Impossible(
                conditions=(("age", Condition(below=15)), ("marital", Condition(levels=("married", "widowed")))),
            ),
            Impossible(conditions=(("age", Condition(below=15)), ("income", Condition(above=0.0)))),
        ),
        ignore=("id",),
    )


@pytest.fixture(scope="session")
def people() -> pa.Table:
    """Sixty rows that fit the schema."""
    rng = np.random.default_rng(7)
    rows = []
    for number in range(60):
        age = None if number % 11 == 0 else int(rng.integers(0, 91))
        child = age is not None and age < 15
        income = -8.0 if child else (None if number % 7 == 0 else float(rng.uniform(0, 5000)))
        marital = "single" if child else ("single", "married", "widowed")[int(rng.integers(0, 3))]
        rows.append({"id": number, "sex": "FM"[number % 2], "age": age, "income": income, "marital": marital})
    return pa.Table.from_pylist(rows)


@pytest.fixture(scope="session")
def memory_source() -> Callable[[Schema, Sequence[int]], CodedSource]:
    """A source with one row per given cell of the full cross-tabulation."""

    def make(schema: Schema, cells: Sequence[int]) -> CodedSource:
        return CodedSource(CodedTable.from_cells(schema, np.array(cells, dtype=np.int64)))

    return make


class TouchedError(Exception):
    """Somebody touched the data."""


class RaisingSource:
    """A source that knows its public schema and raises on everything else."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def __getattr__(self, name: str) -> NoReturn:
        raise TouchedError(name)


@pytest.fixture
def raising_source(schema: Schema) -> RaisingSource:
    source = RaisingSource(schema)
    with pytest.raises(TouchedError):
        source.total()
    with pytest.raises(TouchedError):
        source.count([()])
    return source
