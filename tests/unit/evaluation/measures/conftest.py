"""Small tables with known relations between them: a sample, bootstrap copies of it, and copies that lost something."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import understudy as us

ROWS = 2000


def make_schema(**changes) -> us.Schema:
    attributes = {
        "sex": us.Attribute(name="sex", levels=("F", "M")),
        "age": us.Attribute(name="age", edges=(0, 20, 40, 60, 100), integer=True),
        "edu": us.Attribute(name="edu", levels=("low", "mid", "high"), ordered=True, missing=True),
        "income": us.Attribute(name="income", edges=(0, 10, 20, 40, 200), special=((-8, "none"),), missing=True),
        "smokes": us.Attribute(name="smokes", levels=("no", "yes")),
    }
    return us.Schema(
        attributes=tuple({**attributes, **changes}.values()),
        impossible=(
            us.Impossible(conditions=(("age", us.Condition(below=20)), ("edu", us.Condition(levels=("high",))))),
        ),
    )


def make_people(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    sex = rng.random(rows) < 0.5
    age = rng.integers(0, 100, rows)
    edu = np.clip(rng.integers(0, 3, rows) - (age < 20), 0, 2)
    income = np.round(rng.gamma(3, 5 + 4 * edu), 2).clip(0, 200)
    works = age >= 20
    smokes = rng.random(rows) < 1 / (1 + np.exp(0.5 + 0.8 * edu - sex))
    return pa.table(
        {
            "sex": pa.array(np.where(sex, "M", "F")),
            "age": pa.array(age),
            "edu": pa.array(np.array(["low", "mid", "high"])[edu], mask=rng.random(rows) < 0.05),
            "income": pa.array(np.where(works, income, -8.0), mask=works & (rng.random(rows) < 0.1)),
            "smokes": pa.array(np.where(smokes, "yes", "no")),
        }
    )


def bootstrap(table: pa.Table, rows: int, seed: int) -> pa.Table:
    return table.take(pa.array(np.random.default_rng(seed).integers(0, table.num_rows, rows)))


def shuffled_columns(table: pa.Table, seed: int) -> pa.Table:
    """Every column in an order of its own: one-way tables stay exactly, every dependence is lost."""
    rng = np.random.default_rng(seed)
    columns = {name: table[name].take(pa.array(rng.permutation(table.num_rows))) for name in table.column_names}
    return pa.table(columns)


@pytest.fixture(scope="session")
def schema() -> us.Schema:
    return make_schema()


@pytest.fixture(scope="session")
def people() -> pa.Table:
    return make_people(ROWS, 1)


@pytest.fixture(scope="session")
def source(people, schema):
    return us.open_source(people, schema)


@pytest.fixture(scope="session")
def kit() -> SimpleNamespace:
    """The functions above, for tests that make tables of their own."""
    return SimpleNamespace(
        bootstrap=bootstrap, make_people=make_people, make_schema=make_schema, shuffled_columns=shuffled_columns
    )
