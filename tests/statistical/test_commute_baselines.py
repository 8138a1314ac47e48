"""What ``commute`` does by default is not worse than its own baselines, in cities that it was not made for.

Baselines: everybody at the exact mean of the file (which no release may show), the same method with the fixed decay,
and plain geometric noise. The mean absolute error of the average commute to a destination, by its number of jobs. With
homes outside it is the commute of residents inside.
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

import understudy as us
from understudy.demo.commuters import make_world
from understudy.privacy.randomness.streams import SeededStream

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")]
CITIES = {"village": (600, 9_000, 41), "spread": (2_000, 30_000, 42), "dense": (1_000, 60_000, 43)}
EPSILONS = ("0.25", "1", "4", "10")
RUNS = 3  # with seeded noise, so that the same code gives the same verdict
WORSE = 1.10
MILES = 0.02
ERRORS = 3  # standard errors of the difference that are allowed: in a village few destinations have one size


@lru_cache(maxsize=1)
def accuracy():
    path = Path(__file__).parents[2] / "benchmarks" / "bench_commute_accuracy.py"
    spec = importlib.util.spec_from_file_location("bench_commute_accuracy", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@lru_cache(maxsize=4)
def opened(name):
    city = name.removesuffix("+outside")
    if city in CITIES:
        places, jobs, seed = CITIES[city]
        world = make_world("city", places=places, jobs=jobs, seed=seed)
        source = us.open_commutes(world.flows_table(), places=world.places)
        if city != name:
            source = accuracy().surrounded(world)
    else:
        folder = Path(os.environ.get("UNDERSTUDY_DATA", "../shared/data")) / "lodes"
        if not folder.is_dir():
            pytest.skip(f"{folder} is not there")
        source = accuracy().opened(name)
    return source, accuracy().Truth(source)


def errors(name, epsilon, **options):
    source, truth = opened(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        budget = us.ApproxDP(epsilon=epsilon, delta="1e-5")
        made = (
            us.synthesize(source, method="commute", budget=budget, stream=SeededStream(seed), **options)
            for seed in range(RUNS)
        )
        return np.array([truth.of_release(release)[:4] for release in made])


@pytest.mark.parametrize(
    ("name", "epsilon"),
    [
        *((name, epsilon) for name in (*CITIES, "dc") for epsilon in EPSILONS),
        *((f"{name}+outside", epsilon) for name in ("spread", "dc") for epsilon in ("0.25", "4")),
    ],
)
def test_the_default_is_not_worse_than_its_baselines(name, epsilon):
    _, truth = opened(name)
    ways = [errors(name, epsilon), errors(name, epsilon, decay_share="0"), errors(name, epsilon, mechanism="geometric")]
    found, *baselines = (way.mean(axis=0) for way in ways)
    best = np.min([truth.everybody_at_the_mean(), *baselines], axis=0)
    unsure = ERRORS * np.sqrt(2 / RUNS * np.mean([way.var(axis=0, ddof=1) for way in ways], axis=0))
    seen = ~np.isnan(best)  # a small town may have no destination of a size
    allowed = WORSE * best + MILES + unsure
    assert (found[seen] <= allowed[seen]).all(), (found.round(3).tolist(), best.round(3).tolist(), allowed.round(3))
