"""How far off synthetic commutes are, in miles, by the size of the destination: public files and generated cities.

python benchmarks/bench_commute_accuracy.py --of dc ri city:1 --epsilon 0.5 2 --runs 4
python benchmarks/bench_commute_accuracy.py --of dc --epsilon 0.5 --options decay_share=0
python benchmarks/bench_commute_accuracy.py --of dc --method commute_tree

Printed for each setting, one JSON line: the mean absolute error of the average commute to a destination for 1-4, 5-19,
20-99 and 100+ jobs, and total variation of tract-to-tract flows, as means over the runs; and the first four for the
baseline "everybody at the mean" of the whole file. With ``commute_tree`` also the flows of a plain baseline: geometric
noise on every pair of tracts, projected (Euclid) onto counts that are not negative and have the destinations' public
totals. ``dc`` and ``ri`` are the public LODES files in the folder ``UNDERSTUDY_DATA`` (else ``../shared/data``). Noise
of releases is the real one, so no seeds; that of the baseline has some.

``dc+outside`` takes the jobs of people from other states as well, ``city:1+outside`` makes the outer half of a city
eight homes outside. Then commutes are those of residents inside, sizes those of all jobs, and a destination for which
a release has no resident gets the mean of all of its residents.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import understudy as us
from understudy.core.places import make_places
from understudy.demo.commuters import World, make_world

SIZES = ((1, 4), (5, 19), (20, 99), (100, 10**12))
OUTSIDE = "+outside"
AUX = "dc_od_aux_JT00_2019.csv.gz"
FILES = {"dc": ("dc_od_main_JT00_2019.csv.gz", "dc_xwalk.csv.gz"), "ri": ("ri_od_2019.parquet", "ri_blocks.parquet")}


def opened(name: str) -> Any:
    """A source by its name: a public file, or a generated world such as ``city:3``; with homes outside or without."""
    name, outside = name.removesuffix(OUTSIDE), name.endswith(OUTSIDE)
    if name in FILES:
        folder = Path(os.environ.get("UNDERSTUDY_DATA", "../shared/data")) / "lodes"
        flows, places = (str(folder / file) for file in FILES[name])
        if not outside:
            return us.open_commutes(flows, places=places)
        return us.open_commutes([flows, str(folder / AUX)], places=places, outside="state")
    size, _, seed = name.partition(":")
    world = make_world(size, seed=int(seed))
    return surrounded(world) if outside else us.open_commutes(world.flows_table(), places=world.places)


def surrounded(world: World) -> Any:
    """A world whose outer half is eight homes outside, by direction: whoever works there is left out."""
    places = world.places
    points = np.stack([places.latitude, places.longitude * np.cos(np.radians(places.latitude.mean()))], axis=1)
    off = points - points.mean(axis=0)
    away = (off**2).sum(axis=1) > np.median((off**2).sum(axis=1))
    sector = ((np.arctan2(off[:, 0], off[:, 1]) + np.pi) / (2 * np.pi) * 7.999).astype(int)
    outer = [f"x{number}" for number in range(8) if (away & (sector == number)).any()]
    ids = [one.decode() for one in places.ids.tolist()]
    home = [f"x{number}" if far else one for one, far, number in zip(ids, away, sector, strict=True)]
    inside = np.flatnonzero(~away)
    middles = [points[away & (sector == int(one[1:]))].mean(axis=0) for one in outer]
    levels = {
        level: [one.decode() for one in values[inside].tolist()] + outer for level, values in places.areas.items()
    }
    made = make_places(
        [ids[one] for one in inside] + outer,
        np.concatenate([places.latitude[inside], [one[0] for one in middles]]),
        np.concatenate(
            [places.longitude[inside], [one[1] / np.cos(np.radians(places.latitude.mean())) for one in middles]]
        ),
        areas=levels,
        outside=np.repeat([False, True], [len(inside), len(outer)]),
    )
    flows = world.flows_table().to_pydict()
    beyond = {one for one, far in zip(ids, away, strict=True) if far}
    at = dict(zip(ids, home, strict=True))
    rows = [
        (at[o], d, n)
        for o, d, n in zip(flows["origin"], flows["destination"], flows["jobs"], strict=True)
        if d not in beyond
    ]
    table = pa.table(dict(zip(("origin", "destination", "jobs"), map(list, zip(*rows, strict=True)), strict=True)))
    added = table.group_by(["origin", "destination"]).aggregate([("jobs", "sum")])
    return us.open_commutes(added.rename_columns(["origin", "destination", "jobs"]), places=made)


class Truth:
    """The true average commute to every destination, and the true flows between tracts."""

    def __init__(self, source: Any) -> None:
        self.places = source.places
        self.points = self.places.points()
        self.tract = np.unique(self.places.area("tract"), return_inverse=True)[1].astype(np.int64)
        pairs = source.flows().confidential_pairs()
        self.size = np.bincount(pairs[1], pairs[2], len(self.places))
        self.near = np.bincount(pairs[1], pairs[2] * self.places.inside[pairs[0]], len(self.places))
        self.mean, self.flows = self.means(*pairs), self.tract_flows(*pairs)

    def means(self, origins: np.ndarray, destinations: np.ndarray, jobs: np.ndarray) -> np.ndarray:
        jobs = jobs * self.places.inside[origins]
        miles = np.sqrt(((self.points[origins] - self.points[destinations]) ** 2).sum(axis=1))
        near = np.bincount(destinations, jobs, len(self.places))
        overall = (miles * jobs).sum() / max(jobs.sum(), 1)
        return np.where(
            near > 0, np.bincount(destinations, miles * jobs, len(self.places)) / np.maximum(near, 1), overall
        )

    def tract_flows(self, origins: np.ndarray, destinations: np.ndarray, jobs: np.ndarray) -> np.ndarray:
        count = int(self.tract.max()) + 1
        found = np.bincount(self.tract[origins] * count + self.tract[destinations], jobs, count**2)
        return found / found.sum()

    def errors(self, mean: np.ndarray) -> list[float]:
        off = np.abs(mean - self.mean)
        sizes = np.where(self.near > 0, self.size, 0)
        return [float(off[(sizes >= low) & (sizes <= high)].mean()) for low, high in SIZES]

    def everybody_at_the_mean(self) -> list[float]:
        return self.errors(np.full(len(self.mean), (self.mean * self.near).sum() / self.near.sum()))

    def projected(self, epsilon: float, generator: np.random.Generator) -> float:
        """Total variation of tract flows with plain noise of scale 2 / epsilon, projected onto public totals."""
        count = int(self.tract.max()) + 1
        true = np.rint(self.flows.reshape(count, count) * self.size.sum())
        kept = np.exp(-epsilon / 2)
        noisy = true + generator.geometric(1 - kept, true.shape) - generator.geometric(1 - kept, true.shape)
        for destination, total in enumerate(true.sum(axis=0)):
            column = np.sort(noisy[:, destination])[::-1]
            level = (np.cumsum(column) - total) / np.arange(1, count + 1)
            noisy[:, destination] = np.maximum(noisy[:, destination] - level[column > level][-1], 0) if total else 0
        return float(np.abs(noisy - true).sum() / 2 / true.sum())

    def of_release(self, release: Any) -> list[float]:
        pairs = release.coded()
        return [*self.errors(self.means(*pairs)), float(np.abs(self.tract_flows(*pairs) - self.flows).sum() / 2)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--of", nargs="+", default=["dc", "ri", "city:1"])
    parser.add_argument("--epsilon", nargs="+", default=["0.25", "0.5", "1", "2", "4.6", "10"])
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--delta", default="1e-5")
    parser.add_argument("--method", default="commute")
    parser.add_argument("--options", nargs="*", default=[])
    asked = parser.parse_args()
    options = dict(one.split("=", 1) for one in asked.options)
    warnings.simplefilter("ignore")  # no ledger: nothing is released
    for name in asked.of:
        source = opened(name)
        truth = Truth(source)
        print(json.dumps({"of": name, "everybody at the mean": np.round(truth.everybody_at_the_mean(), 3).tolist()}))
        for epsilon in asked.epsilon:
            start, found = time.process_time(), []
            for _ in range(asked.runs):
                budget = us.ApproxDP(epsilon=epsilon, delta=asked.delta)
                found.append(truth.of_release(us.synthesize(source, method=asked.method, budget=budget, **options)))
            row = {"of": name, "epsilon": epsilon, **options, "off": np.mean(found, axis=0).round(4).tolist()}
            row["spread"] = np.std(found, axis=0, ddof=1).round(3).tolist() if asked.runs > 1 else None
            if asked.method == "commute_tree":
                plain = [truth.projected(float(epsilon), np.random.default_rng(seed)) for seed in range(asked.runs)]
                row["projected noise"] = round(float(np.mean(plain)), 4)
            print(json.dumps(row | {"cpu_s_per_run": round((time.process_time() - start) / asked.runs, 1)}), flush=True)


if __name__ == "__main__":
    main()
