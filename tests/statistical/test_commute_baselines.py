"""What ``commute`` does by default is not worse than its own baselines, in cities that it was not made for.

Baselines: everybody at the exact mean of the file (which no release may show), the same method with the fixed decay,
and plain geometric noise. The mean absolute error of the average commute to a destination, by its number of jobs.
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

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")]
CITIES = {"village": (600, 9_000, 41), "spread": (2_000, 30_000, 42), "dense": (1_000, 60_000, 43)}
EPSILONS = ("0.25", "1", "4", "10")
RUNS = 2
WORSE = 1.10  # means of two runs differ by so much where nothing differs
MILES = 0.02


@lru_cache(maxsize=1)
def accuracy():
    path = Path(__file__).parents[2] / "benchmarks" / "bench_commute_accuracy.py"
    spec = importlib.util.spec_from_file_location("bench_commute_accuracy", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@lru_cache(maxsize=4)
def opened(name):
    if name in CITIES:
        places, jobs, seed = CITIES[name]
        world = make_world("city", places=places, jobs=jobs, seed=seed)
        source = us.open_commutes(world.flows_table(), places=world.places)
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
        made = [us.synthesize(source, method="commute", budget=budget, **options) for _ in range(RUNS)]
    return np.mean([truth.of_release(release)[:4] for release in made], axis=0)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", [*CITIES, "dc"])
def test_the_default_is_not_worse_than_its_baselines(name, epsilon):
    _, truth = opened(name)
    baselines = [
        truth.everybody_at_the_mean(),
        errors(name, epsilon, decay_share="0"),
        errors(name, epsilon, mechanism="geometric"),
    ]
    best = np.min(baselines, axis=0)
    found = errors(name, epsilon)
    seen = ~np.isnan(best)  # a small town may have no destination of a size
    assert (found[seen] <= WORSE * best[seen] + MILES).all(), (found.round(3).tolist(), best.round(3).tolist())
