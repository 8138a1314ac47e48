"""How often the ranges beside the counts of a map hold the true count, on the generated city whose truth is known.

The formula is that of ``templates/map/uncertainty.js``, written again here. Run:
``.venv/bin/python benchmarks/measure_map_ranges.py --epsilon 0.5 2``.
"""

from __future__ import annotations

import argparse

import numpy as np

import understudy as us
from understudy.demo.gravity import make_world
from understudy.reporting.map_law import stated_law

SIZES = ((1, 4), (5, 19), (20, 99), (100, 10**9))


def measured(epsilon: str) -> list[float]:
    """Shares of true counts by home tract inside their ranges: by size of workplace, by tract of work, all together."""
    world = make_world("city")
    places, count = world.places, len(world.places)
    source = us.open_commutes(world.flows_table(), places=places)
    release = us.synthesize(source, method="commute", budget=us.ApproxDP(epsilon=epsilon, delta="1e-5"))
    _, tract = np.unique(places.areas["tract"], return_inverse=True)
    true, shown = (np.zeros((count, tract.max() + 1)) for _ in range(2))
    for origin, destination, jobs in world.codes():
        np.add.at(true, (destination, tract[origin]), jobs)
    origin, destination, jobs = release.coded()
    np.add.at(shown, (destination, tract[origin]), jobs)
    sizes = np.bincount(destination, jobs, count).astype(np.int64)
    law = stated_law(release.provenance.draws, release.statement.unit, 1, sizes)
    assert law is not None
    prior, zones = law
    works = sizes > 0
    true, shown, drawn, size = true[works], shown[works], sizes[works, None].astype(float), sizes[works]
    urn, share = drawn + prior[works, None], prior[works, None] / (drawn + prior[works, None])
    p = np.minimum((shown + 0.5) / (drawn + 1), 1)
    variance = urn**2 / drawn * p * (1 - p) * (urn + drawn) / (urn + 1)
    variance += (np.minimum(shown, drawn / zones[works, None]) / 2) ** 2
    variance, pull = np.where(shown > 0, variance, 0), share * shown

    def held(rows: np.ndarray) -> float:
        return _held(true[rows].sum(0), shown[rows].sum(0), variance[rows].sum(0), pull[rows].sum(0), drawn[rows].sum())

    single = [[held(np.array([row])) for row in np.flatnonzero((size >= low) & (size <= high))] for low, high in SIZES]
    of_work = tract[works]
    by_tract = [held(of_work == number) for number in np.unique(of_work)]
    return [*(float(np.mean(one)) for one in single), float(np.mean(by_tract)), held(np.ones(len(size), dtype=bool))]


def _held(true: np.ndarray, shown: np.ndarray, variance: np.ndarray, pull: np.ndarray, most: float) -> float:
    reach = 2 * np.sqrt(variance) + pull
    low, high = np.maximum(0, np.floor(shown - reach)), np.minimum(most, np.ceil(shown + reach))
    seen = shown > 0
    return float(((true >= low) & (true <= high))[seen].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", nargs="*", default=["0.5", "2"])
    print("| epsilon | 1-4 jobs | 5-19 | 20-99 | 100 and more | workplaces of a tract | all workplaces |")
    print("|---|---|---|---|---|---|---|")
    for epsilon in parser.parse_args().epsilon:
        print(f"| {epsilon} | " + " | ".join(f"{share:.3f}" for share in measured(epsilon)) + " |")


if __name__ == "__main__":
    main()
