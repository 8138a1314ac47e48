"""How often ranges of changes between two years, and of segments, hold the truth, in generated states or a real one.

Two years of a state are released by one method, each with its own epsilon. With ``--lodes FOLDER`` the first year is a
real file (main, aux and crosswalk in the folder). The second is made from it, as real files of two years were not at
hand: workplaces grow or shrink by up to a fifth, homes by tract by up to a tenth, and every pair of places is drawn
anew around what that gives (Poisson), with its segments. Asked of tracts: the change of the jobs
between two tracts, of the residents, of the mean distance of those who work there, and from outside; jobs of a segment
by tract of the home and of the work, and their change. Run:
``.venv/bin/python benchmarks/measure_commute_changes.py --epsilon 2 --seeds 301 302 --method commute_tree``. Results
are written to ``--out`` as they come, one line for each answer.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

import understudy as us
from understudy.demo.lodes import SEGMENTS as SEGMENT_COLUMNS
from understudy.demo.lodes import write_state
from understudy.errors import UnsupportedError
from understudy.privacy.randomness.streams import SeededStream

SEGMENTS = "age,earnings"
ASKED = ("SA01", "SE03")


class Year:
    """One year of a state: its jobs, which are known here, and a release of them."""

    def __init__(
        self, table: pa.Table, places: Any, *, method: str, epsilon: str, stream: SeededStream | None = None
    ) -> None:
        self.source = us.open_commutes(table, places=places)
        self.places = places
        self.origins, self.destinations, self.jobs = (np.asarray(p) for p in self.source.flows().confidential_pairs())
        self.release = us.synthesize(
            self.source, method=method, budget=us.PureDP(epsilon=epsilon), segments=SEGMENTS, stream=stream
        )
        self.by_segment = {name: self._of_segment(table, name) for name in ASKED}

    def _of_segment(self, table: pa.Table, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Origin, destination and jobs of a segment: the same table, with its column as the jobs."""
        kept = table.select(["w_geocode", "h_geocode"]).append_column("S000", table[name])
        opened = us.open_commutes(kept.filter(pa.compute.greater(kept["S000"], 0)), places=self.places)
        origins, destinations, jobs = opened.flows().confidential_pairs()
        return np.asarray(origins), np.asarray(destinations), np.asarray(jobs)

    def count(self, homes: np.ndarray | None, works: np.ndarray | None, segment: str = "") -> float:
        pairs = self.by_segment[segment] if segment else (self.origins, self.destinations, self.jobs)
        origins, destinations, jobs = pairs
        kept = np.ones(len(jobs), dtype=bool)
        kept &= True if homes is None else homes[origins]
        kept &= True if works is None else works[destinations]
        return float(jobs[kept].sum())

    def mean(self, works: np.ndarray) -> float:
        near = works[self.destinations] & self.places.inside[self.origins]
        miles = self.places.miles(self.origins[near], self.destinations[near])
        return float(np.average(miles, weights=self.jobs[near])) if self.jobs[near].any() else np.nan


def read_jobs(files: list[Path]) -> pa.Table:
    """The rows of LODES files, ids as text."""
    text = {column: pa.string() for column in ("w_geocode", "h_geocode")}
    return pa.concat_tables(
        pc.read_csv(one, convert_options=pc.ConvertOptions(column_types=text)) for one in files
    ).drop_columns(["createdate"])


def another_year(table: pa.Table, seed: int) -> pa.Table:
    """A second year, made from a first."""
    rng = np.random.default_rng(seed)
    works, homes = (np.array(table[name].to_pylist()) for name in ("w_geocode", "h_geocode"))
    factor = np.ones(len(works))
    for ids, least, most in ((works, 0.8, 1.2), (homes.astype("U11"), 0.9, 1.1)):
        distinct, which = np.unique(ids, return_inverse=True)
        factor *= rng.uniform(least, most, len(distinct))[which]
    old = table["S000"].to_numpy()
    jobs = rng.poisson(old * factor)
    columns = {"w_geocode": works, "h_geocode": homes, "S000": jobs}
    for names in (SEGMENT_COLUMNS[:3], SEGMENT_COLUMNS[3:6]):
        shares = np.stack([table[name].to_numpy() for name in names], axis=1) / old[:, None]
        drawn = rng.multinomial(jobs, shares)
        columns |= {name: drawn[:, number] for number, name in enumerate(names)}
    return pa.table(columns).filter(pa.array(jobs > 0))


def two_years(folder: str, arguments: argparse.Namespace, seed: int) -> tuple[pa.Table, pa.Table, Any]:
    """The jobs of two years, and the places."""
    if arguments.lodes is not None:
        (crosswalk,) = arguments.lodes.glob("*_xwalk.csv.gz")
        state = crosswalk.name[:2]
        table = read_jobs(sorted(arguments.lodes.glob(f"{state}_od_*_JT00_*.csv.gz")))
        return table, another_year(table, seed), us.read_places(str(crosswalk), outside="state")
    first, second = (write_state(folder, size=arguments.size, year=year, seed=seed) for year in (2019, 2020))
    places = us.read_places(str(first[2]), outside="state")
    return read_jobs(list(first[:2])), read_jobs(list(second[:2])), places


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epsilon", nargs="+", default=["2"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[301])
    parser.add_argument("--method", default="commute")
    parser.add_argument("--size", default="city")
    parser.add_argument("--areas", type=int, default=40)
    parser.add_argument("--lodes", type=Path)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for epsilon in arguments.epsilon:
        found: dict[str, list[tuple[bool, float]]] = defaultdict(list)
        for seed in arguments.seeds:
            with tempfile.TemporaryDirectory() as folder:
                *tables, places = two_years(folder, arguments, seed)
                years = [
                    Year(
                        table, places, method=arguments.method, epsilon=epsilon,
                        stream=SeededStream(seed * 1000 + 2 * round(float(epsilon) * 8) + number),
                    )
                    for number, table in enumerate(tables)
                ]  # fmt: skip
                answered: dict[str, list[tuple[bool, float]]] = defaultdict(list)
                _ask(*years, answered, arguments.areas, np.random.default_rng(seed))
            if arguments.out is not None:
                line = {"method": arguments.method, "epsilon": epsilon, "seed": seed, "found": answered}
                with arguments.out.open("a") as out:
                    out.write(json.dumps(line) + "\n")
            for asked, results in answered.items():
                found[asked] += results
        for asked, results in found.items():
            held, width = np.mean([one for one, _ in results]), np.median([two for _, two in results])
            print(f"{arguments.method} epsilon {epsilon} {asked}: held {held:.3f} of {len(results)}, median width "
                  f"{width:.2f}", flush=True)  # fmt: skip


def _ask(before: Year, after: Year, found: dict[str, Any], areas: int, rng: np.random.Generator) -> None:
    places = before.places
    tracts = places.areas["tract"]
    inside = np.unique(tracts[places.inside]).tolist()

    def note(name: str, question: str, true: float, *, change: bool = True) -> None:
        try:
            answer = (
                us.infer(after.release, question, before=before.release)
                if change
                else us.infer(after.release, question)
            )
        except UnsupportedError:
            return
        if np.isfinite(true):
            held = bool(answer.low - 1e-9 <= true <= answer.high + 1e-9)
            found[name].append((held, float(answer.high - answer.low)))

    for one in rng.permutation(inside)[:areas].tolist():
        other = inside[int(rng.integers(len(inside)))]
        here, there = tracts == one, tracts == other
        name, far = one.decode(), other.decode()

        def changed(homes: np.ndarray | None, works: np.ndarray | None, segment: str = "") -> float:
            return after.count(homes, works, segment) - before.count(homes, works, segment)

        note("change between two tracts", f"count(home in tract {far}, work in tract {name})", changed(there, here))
        note("change of residents", f"count(home in tract {name})", changed(here, None))
        note("change from outside", f"count(home in outside, work in tract {name})", changed(places.outside, here))
        mean = after.mean(here) - before.mean(here)
        note("change of mean distance", f"mean_distance(work in tract {name})", mean)
        for segment in ASKED:
            by_work, by_home = (f"count({side} in tract {name}, segment {segment})" for side in ("work", "home"))
            note("segment by work", by_work, after.count(None, here, segment), change=False)
            note("segment by home", by_home, after.count(here, None, segment), change=False)
            note("change of a segment by work", by_work, changed(None, here, segment))


if __name__ == "__main__":
    main()
