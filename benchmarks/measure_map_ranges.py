"""How often the ranges beside the counts of a map hold the true count, on generated cities whose truth is known.

Counts of jobs by home tract: of single workplaces by their size, of the workplaces of a tract, of all. With ``--method
commute_tree``: of pairs of tracts, and of all workplaces. The formulas are those of ``templates/map/uncertainty.js``,
written again here. Run: ``.venv/bin/python benchmarks/measure_map_ranges.py --epsilon 0.5 2 8 --seeds 101 102``.
``--options mechanism=geometric`` is another law; ``--flows od.parquet --places places.parquet`` a file instead of
cities; ``--runs 3`` makes three releases each and prints their means and the least share that held.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import understudy as us
from understudy.commutes.map.counts_law import off_alike, pair_noise, stated_law
from understudy.commutes.map.page_arrays import SharedError
from understudy.demo.commuters import make_world

SIZES = ((1, 4), (5, 19), (20, 99), (100, 10**9))
OFF_BY, OFF_ALIKE = 0.25, SharedError(share=0.2, jobs=0.0)


Held = tuple[float, float]


class _Everything:
    covers = "whole_domain"


def worlds(arguments: argparse.Namespace) -> Iterator[tuple[str, Any, np.ndarray, np.ndarray, np.ndarray]]:
    """Where from, the source, and its origins, destinations and jobs."""
    if arguments.flows:
        source = us.open_commutes(arguments.flows, places=arguments.places)
        starts, origins, jobs = source.flows().open_for(_Everything)
        yield arguments.flows, source, origins, np.repeat(np.arange(len(starts) - 1), np.diff(starts)), jobs
        return
    for seed in arguments.seeds:
        world = make_world("city", seed=seed)
        pairs = (np.concatenate(parts) for parts in zip(*world.codes(), strict=True))
        yield f"city {seed}", us.open_commutes(world.flows_table(), places=world.places), *pairs


def measured(source: Any, pairs: list[np.ndarray], epsilon: str, options: dict[str, str]) -> list[Held]:
    """By kind of selection: the share of true counts inside their ranges, and the median ratio of width to count."""
    origin, destination, jobs = pairs
    release = us.synthesize(source, method="commute", budget=us.ApproxDP(epsilon=epsilon, delta="1e-5"), **options)
    places = release.places
    _, tract = np.unique(places.areas["tract"], return_inverse=True)
    sizes = np.bincount(destination, jobs, len(places)).astype(np.int64)
    works = np.flatnonzero(sizes)
    row = np.full(len(places), -1)
    row[works] = np.arange(len(works))
    true, shown = (np.zeros((len(works), tract.max() + 1)) for _ in range(2))
    np.add.at(true, (row[destination], tract[origin]), jobs)
    origin, destination, jobs = release.coded()
    np.add.at(shown, (row[destination], tract[origin]), jobs)
    law, why = stated_law(release.provenance, release.statement, 1, sizes[works])
    assert law is not None, why
    model, noise, zones, size = law.model[:, None], law.noise[:, None], law.cells[:, None], sizes[works, None]
    p = np.minimum((shown + 0.5) / (size + 1), 1)
    off = off_alike(release, 1) or OFF_ALIKE
    modelled = model * shown + (1 - model) * np.minimum(shown, np.maximum(size / zones, 1))
    variance = np.where(shown > 0, noise * size * p * (1 - p) + (OFF_BY * modelled) ** 2, 0)
    parts = [true, shown, variance, modelled, np.broadcast_to(size, shown.shape)]
    total = float(sizes.sum())
    found = []
    for low, high in SIZES:
        inside = (size[:, 0] >= low) & (size[:, 0] <= high)
        found.append(held([part[inside] for part in parts], off, size[inside] / total))
    of_work = tract[works]
    by_tract = [np.stack([part[of_work == one].sum(0) for one in np.unique(of_work)]) for part in parts]
    return [
        *found,
        held(by_tract, off, by_tract[4] / total),
        held([part.sum(0) for part in parts], off, np.ones(true.shape[1])),
    ]


def measured_pairs(source: Any, pairs: list[np.ndarray], epsilon: str, options: dict[str, str]) -> list[Held]:
    """The same for flows between areas: pairs of tracts, and home tracts with all workplaces together."""
    release = us.synthesize(source, method="commute_tree", budget=us.PureDP(epsilon=epsilon), **options)
    noise = pair_noise(release)
    assert noise is not None
    _, area = np.unique(release.places.areas[list(release.places.areas)[noise.level]], return_inverse=True)
    count = int(area.max()) + 1
    true, shown = (
        np.bincount(area[origin] * count + area[destination], jobs, count**2).reshape(count, count)
        for origin, destination, jobs in (pairs, release.coded())
    )
    works = int((true.sum(axis=0) > 0).sum())
    found = []
    for counts, behind, others in ((shown, true, 1), (shown.sum(axis=1), true.sum(axis=1), works)):
        reach = 2 * np.sqrt(noise.variance * others) + 0.5
        low, high = np.maximum(0, np.ceil(counts - reach)), np.floor(counts + reach)
        inside, some = (behind >= low) & (behind <= high), counts > 0
        found.append((float(inside[some].mean()), float(np.median((high - low)[some] / counts[some]))))
    return found


def held(parts: list[np.ndarray], off: SharedError, selected: np.ndarray) -> Held:
    """``selected`` is the part of all jobs that each selection has."""
    keep = parts[1] > 0
    true, shown, variance, modelled, most = (part[keep] for part in parts)
    alike = np.maximum(off.share * modelled, off.jobs * np.broadcast_to(selected, keep.shape)[keep])
    reach = 2 * np.sqrt(variance) + alike
    low, high = np.maximum(0, np.ceil(shown - reach)), np.minimum(most, np.floor(shown + reach))
    return float(((true >= low) & (true <= high)).mean()), float(np.median((high - low) / shown))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", nargs="*", default=["0.5", "2"])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0])
    parser.add_argument("--options", nargs="*", default=[])
    parser.add_argument("--method", choices=("commute", "commute_tree"), default="commute")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--flows")
    parser.add_argument("--places")
    arguments = parser.parse_args()
    options = dict(one.split("=", 1) for one in arguments.options)
    warnings.simplefilter("ignore")  # no ledger: nothing is released
    for name, source, *pairs in worlds(arguments):
        for epsilon in arguments.epsilon:
            measure = measured if arguments.method == "commute" else measured_pairs
            found = np.array([measure(source, pairs, epsilon, options) for _ in range(arguments.runs)])
            row = {"of": name, "epsilon": epsilon, "method": arguments.method, "options": options}
            row["held_and_width"] = found.mean(axis=0).round(4).tolist()
            print(json.dumps(row | {"least_held": found[..., 0].min(axis=0).round(4).tolist()}), flush=True)


if __name__ == "__main__":
    main()
