"""How far one budget goes for both: distances of single workplaces (``commute``) and flows between tracts
(``commute_tree``).

python benchmarks/bench_commute_both.py --of dc --epsilon 2 --share 0.3 --runs 2

Two releases are made of one total epsilon, ``share`` of it for the flows, and joined; joining is post-processing. For
each tract of work the homes of the first are moved from tracts that have too many jobs to tracts that have too few, by
the flows of the second. Jobs and tracts are matched in the order of their distances. In its new tract a job gets the
home that keeps the sum of the distances of its workplace as near as possible to what it was. Printed, one JSON line for
each run: errors in miles by size of the workplace and total variation of tract flows, as ``bench_commute_accuracy``
prints them, of both releases and of what is joined, and the share of jobs that were moved.
"""

from __future__ import annotations

import argparse
import json
import warnings
from typing import Any

import numpy as np

import understudy as us
from bench_commute_accuracy import Truth, opened

Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]


def joined(
    places: Any, tract: np.ndarray, single: Pairs, flows: Pairs, rng: np.random.Generator
) -> tuple[Pairs, float]:
    """The jobs of ``single`` with the tract flows of ``flows``, one row each, and the share of jobs that were moved."""
    points, count = places.points(), int(tract.max()) + 1
    origin, destination = (np.repeat(column, single[2]).astype(np.int64) for column in single[:2])
    wanted = np.zeros((count, count), dtype=np.int64)
    np.add.at(wanted, (tract[flows[1]], tract[flows[0]]), flows[2])
    miles = np.linalg.norm(points[origin] - points[destination], axis=1)
    centre = np.stack([np.bincount(tract, axis) / np.bincount(tract) for axis in points.T], axis=1)
    homes = [np.flatnonzero(tract == one) for one in range(count)]
    too_far = np.zeros(len(points))  # by which the distances of a workplace have grown so far
    moved, home = 0, origin.copy()
    for work in range(count):
        here = rng.permutation(np.flatnonzero(tract[destination] == work))
        at_home = tract[origin[here]]
        surplus = np.bincount(at_home, minlength=count) - wanted[work]
        order = np.argsort(at_home, kind="stable")
        rank = np.empty(len(here), dtype=np.int64)
        rank[order] = np.arange(len(here)) - np.searchsorted(at_home[order], at_home[order])
        leaving = here[rank < np.maximum(surplus, 0)[at_home]]
        leaving = leaving[np.argsort(miles[leaving])]
        to = np.repeat(np.arange(count), np.maximum(-surplus, 0))
        to = to[np.argsort(np.linalg.norm(centre[to] - centre[work], axis=1))]
        for job, there in zip(leaving, to, strict=True):
            at = destination[job]
            farther = np.linalg.norm(points[homes[there]] - points[at], axis=1) - miles[job]
            best = int(np.argmin(np.abs(too_far[at] + farther)))
            too_far[at] += farther[best]
            home[job] = homes[there][best]
        moved += len(leaving)
    return (home, destination, np.ones(len(home), dtype=np.int64)), moved / max(len(home), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--of", nargs="+", default=["dc"])
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--share", nargs="+", type=float, default=[0.3])
    parser.add_argument("--runs", type=int, default=2)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # no ledger: nothing is released
    rng = np.random.default_rng(1)
    for name in asked.of:
        source = opened(name)
        truth = Truth(source)
        for share in asked.share * asked.runs:
            parts = {"commute": asked.epsilon * (1 - share), "commute_tree": asked.epsilon * share}
            made = {
                method: us.synthesize(source, method=method, budget=us.PureDP(epsilon=f"{part:.6f}")).coded()
                for method, part in parts.items()
            }
            both, moved = joined(source.places, truth.tract, *made.values(), rng)
            row = {"of": name, "epsilon": asked.epsilon, "share": share, "moved": round(moved, 3)}
            for method, pairs in (made | {"joined": both}).items():
                flows = np.abs(truth.tract_flows(*pairs) - truth.flows).sum() / 2
                row[method] = np.round([*truth.errors(truth.means(*pairs)), flows], 4).tolist()
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
