"""Small tables for attacks: mixed kinds, missing values, duplicates; a leaking release and one that knows nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import understudy as us

SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="region", levels=("north", "south", "east", "west")),
        us.Attribute(name="age", edges=(0, 18, 40, 65, 100), integer=True, missing=True),
        us.Attribute(name="school", levels=("low", "middle", "high"), ordered=True, missing=True),
        us.Attribute(name="income", edges=(0, 1000, 2000, 5000), special={-8: "not applicable"}, missing=True),
        us.Attribute(name="smokes", levels=(False, True)),
    )
)


def people(rows: int, seed: int) -> pa.Table:
    """Dependent attributes with missing values."""
    draw = np.random.default_rng(seed)
    age = draw.integers(0, 100, rows)
    school = np.clip((age // 25) + draw.integers(-1, 2, rows), 0, 2)
    income = np.round(np.clip(draw.normal(1000 + 800 * school, 400), 0, 4999), 2)
    income[age < 18] = -8
    missing = draw.uniform(size=(rows, 3)) < 0.05
    return pa.table(
        {
            "region": pa.array(np.array(["north", "south", "east", "west"])[draw.integers(0, 4, rows)]),
            "age": pa.array(age, mask=missing[:, 0]),
            "school": pa.array(np.array(["low", "middle", "high"])[school], mask=missing[:, 1]),
            "income": pa.array(income, mask=missing[:, 2]),
            "smokes": pa.array(draw.uniform(size=rows) < 0.2 + 0.2 * (school == 0)),
        }
    )


def nobody(rows: int, seed: int) -> pa.Table:
    """Independent draws from margins that anybody could write down from the schema."""
    draw = np.random.default_rng(seed)
    return pa.table(
        {
            "region": np.array(["north", "south", "east", "west"])[draw.integers(0, 4, rows)],
            "age": pa.array(draw.integers(0, 100, rows), mask=draw.uniform(size=rows) < 0.05),
            "school": np.array(["low", "middle", "high"])[draw.integers(0, 3, rows)],
            "income": np.where(draw.uniform(size=rows) < 0.2, -8, np.round(draw.uniform(0, 5000, rows), 2)),
            "smokes": draw.uniform(size=rows) < 0.25,
        }
    )


@pytest.fixture(scope="session")
def schema() -> us.Schema:
    return SCHEMA


@pytest.fixture(scope="session")
def tables() -> dict[str, pa.Table]:
    return {
        "data": people(600, 1),
        "holdout": people(600, 2),
        "other": people(600, 3),
        "null": nobody(600, 4),
        "null 2": nobody(600, 5),
        "small": people(60, 6),
    }
