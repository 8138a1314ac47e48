"""A small population with known shares, and releases of it by every method that inference understands."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.privacy.randomness.streams import SeededStream

SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="age", edges=(16, 28, 42, 54, 64, 97), integer=True),
        us.Attribute(name="smokes", levels=("no", "yes"), missing=True),
        us.Attribute(name="health", levels=("bad", "fair", "good"), ordered=True),
    )
)


def shares() -> np.ndarray:
    """The share of every cell in the population."""
    sex, age, smokes, health = np.indices(SCHEMA.shape())
    log = 0.1 * sex - 0.15 * (age - 2) ** 2 + np.array([0, -1, -3])[smokes] + 0.4 * (smokes == 1) * sex
    log = log + np.array([0, 0.7, 1.2])[health] - 0.3 * age * health - 0.15 * age * (smokes == 1)
    weights = np.exp(log)
    return weights / weights.sum()


def people(counts: np.ndarray) -> pa.Table:
    """Rows for the counts of all cells."""
    codes = np.unravel_index(np.repeat(np.arange(counts.size), counts.ravel()), SCHEMA.shape())
    return pa.table(
        {
            "sex": np.array(["F", "M"])[codes[0]],
            "age": np.array([16, 28, 42, 54, 64])[codes[1]],
            "smokes": pa.array(np.array(["no", "yes", None], object)[codes[2]]),
            "health": np.array(["bad", "fair", "good"])[codes[3]],
        }
    )


def release_of(data: pa.Table, schema: us.Schema = SCHEMA, *, seed: int = 1, **settings) -> us.Release:
    settings = {"method": "histogram", "budget": us.PureDP(epsilon=1), **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return us.synthesize(us.open_source(data, schema), stream=SeededStream(seed), **settings)


@pytest.fixture(scope="session")
def sample() -> pa.Table:
    counts = np.random.default_rng(1).multinomial(2000, shares().ravel())
    return people(counts)


@pytest.fixture(scope="session")
def noisy(sample) -> us.Release:
    return release_of(sample)


@pytest.fixture(scope="session")
def drawn(sample) -> us.Release:
    return release_of(sample, method="dirichlet", budget=us.PureDP(epsilon=12), copies=2)


@pytest.fixture(scope="session")
def schema() -> us.Schema:
    return SCHEMA


@pytest.fixture(scope="session")
def population() -> np.ndarray:
    return shares()


@pytest.fixture(scope="session")
def make_release() -> Callable[..., us.Release]:
    return release_of


@pytest.fixture(scope="session")
def make_people() -> Callable[[np.ndarray], pa.Table]:
    return people
