"""How often the intervals of ``infer`` hold the true value for releases of commutes, where the truth is known.

Asked of every tract (or every other level): jobs of its workplaces held by residents of one other tract each, the share
from outside, who lives and works there, who only lives there, residents, and the mean distance of its workers. Run:
``.venv/bin/python benchmarks/measure_commute_answers.py --epsilon 0.5 2 8 --seeds 201 202``; ``--flows a.csv.gz
b.csv.gz --places xwalk.csv.gz --outside state`` takes files; ``--method commute_tree`` another method.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import understudy as us
from understudy.commutes.answers.ranges import CountRanges
from understudy.demo.commuters import make_world
from understudy.errors import UnsupportedError

ASKED = ("count of two areas", "share from outside", "live and work", "live only", "residents", "mean distance")


def sources(arguments: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    if arguments.flows:
        yield "files", us.open_commutes(arguments.flows, places=arguments.places, outside=arguments.outside)
        return
    for seed in arguments.seeds:
        world = make_world("city", seed=seed)
        yield f"city {seed}", us.open_commutes(world.flows_table(), places=world.places)


def held(
    source: Any, release: Any, level: str, most: int, rng: np.random.Generator
) -> dict[str, list[tuple[bool, float]]]:
    """By what is asked: whether each range held, and its width as a share of the true value."""
    places = release.places
    _, area = np.unique(places.groupings[level], return_inverse=True)
    origins, destinations, jobs = (np.asarray(part) for part in source.flows().confidential_pairs())
    miles = np.where(places.inside[origins], places.miles(origins, destinations), np.nan)
    ranges = CountRanges(release=release)
    inside = np.unique(area[places.inside & (places.groupings[level] != b"")])
    found: dict[str, list[tuple[bool, float]]] = {name: [] for name in ASKED}

    def note(name: str, true: float, value: float, reach: float) -> None:
        found[name].append((abs(true - value) <= reach + 0.5 * (name != "mean distance"), 2 * reach / max(true, 1e-9)))

    for one in rng.permutation(inside)[:most].tolist():
        here, other = area == one, area == int(rng.choice(inside))
        works = here[destinations]
        asked = {
            "count of two areas": (other, here), "live and work": (here, here), "live only": (here, ~here),
            "residents": (here, None),
        }  # fmt: skip
        if places.outside is not None:
            asked["share from outside"] = (places.outside, here)
        for name, (homes, workplaces) in asked.items():
            true = jobs[homes[origins] & (True if workplaces is None else workplaces[destinations])].sum()
            try:
                counted = ranges.count(homes, workplaces)
            except UnsupportedError:
                continue
            note(name, float(true), float(counted.value[0]), float(counted.reach()[0]))
        near = works & np.isfinite(miles)
        try:
            value, reach, _ = ranges.mean_miles(None, here)
        except UnsupportedError:
            continue
        if jobs[near].any():
            note("mean distance", float(np.average(miles[near], weights=jobs[near])), value, reach)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epsilon", nargs="+", default=["2"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[201])
    parser.add_argument("--flows", nargs="+")
    parser.add_argument("--places")
    parser.add_argument("--outside")
    parser.add_argument("--level", default="tract")
    parser.add_argument("--method", default="commute")
    parser.add_argument("--areas", type=int, default=200)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, source in sources(arguments):
        for epsilon in arguments.epsilon:
            budget = us.ApproxDP(epsilon=epsilon, delta="1e-5")
            release = us.synthesize(source, method=arguments.method, budget=budget)
            found = held(source, release, arguments.level, arguments.areas, np.random.default_rng(1))
            for asked, results in found.items():
                if results:
                    share = np.mean([one for one, _ in results])
                    width = np.median([two for _, two in results])
                    print(f"{name} {arguments.method} epsilon {epsilon} {arguments.level} {asked}: held {share:.3f} of "
                          f"{len(results)}, median width {width:.2f} of the value", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
