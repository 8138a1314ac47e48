"""A small town and its commutes, with neighbours at the edges of rings, areas and the last distance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

import understudy as us
from understudy.core.places import DESTINATION, Places, make_places
from understudy.privacy.mechanisms.place_tree_compiled import squared_distance

Job = tuple[int, int]  # origin, destination
SEGMENT = "kind"  # the partition of the jobs into S0, S1 and S2


OUTSIDE = (8, 12)  # homes of some workers, and where neighbours move to


@lru_cache(maxsize=2)
def town(surrounded: bool = False) -> Places:
    """Sixteen places in four rows, in nested areas; two of them are homes outside, if it is surrounded."""
    number = np.arange(16)
    return make_places(
        [f"p{n:02d}" for n in number],
        41.0 + 0.03 * (number // 4),
        -71.0 + 0.05 * (number % 4),
        areas={
            "county": [f"c{n // 8}" for n in number],
            "row": [f"r{n // 4}" for n in number],
            "block": [f"b{n // 2:02d}" for n in number],
        },
        population=number * 3 + 1,
        outside=np.isin(number, OUTSIDE) if surrounded else None,
    )


@dataclass(frozen=True, kw_only=True)
class Commutes:
    jobs: tuple[Job, ...]

    def arrow(self) -> pa.Table:
        found = Counter(self.jobs)
        return pa.table({
            "origin": [f"p{origin:02d}" for origin, _ in found],
            "destination": [f"p{destination:02d}" for _, destination in found],
            "jobs": list(found.values()),
            # The segment goes with the home, so that somebody who moves is in another cell of the segments too.
            **{f"S{k}": [jobs if origin % 3 == k else 0 for (origin, _), jobs in found.items()] for k in range(3)},
        })  # fmt: skip


def commutes() -> Commutes:
    """Destinations of 1, 3, 8 and 36 jobs; most places are nobody's origin for most of them."""
    rng = np.random.default_rng(5)
    jobs: list[Job] = [(2, 0), (4, 5), (4, 5), (6, 5)]
    jobs += [(int(origin), 10) for origin in (10, 10, 10, 9, 11, 6, 14, 10)]
    jobs += [(int(origin), 3) for origin in rng.choice([2, 3, 6, 7, 8], size=36)]
    return Commutes(jobs=tuple(jobs))


@lru_cache(maxsize=1)
def last_distance() -> tuple[float, int, int]:
    """A distance whose square is exactly that of a place from a destination, and the two places."""
    points = town().points()
    for destination in (10, 3, 5):
        squares = np.array([squared_distance(points[destination], there) for there in points])
        for origin in np.argsort(-squares)[3:10]:
            near = float(np.sqrt(squares[origin]))
            for miles in (near, float(np.nextafter(near, 0)), float(np.nextafter(near, 99))):
                if miles * miles == squares[origin]:
                    return miles, int(origin), destination
    raise AssertionError("no place of this town lies exactly at a distance that a float has")


def neighbours(table: Commutes, unit: us.Unit) -> Iterator[tuple[str, Commutes]]:
    fixed = DESTINATION in unit.fixed
    jobs, many = table.jobs, unit.rows_per_unit
    _, edge, edge_destination = last_distance()
    sizes = Counter(destination for _, destination in jobs)
    largest = sizes.most_common(1)[0][0]
    firsts = {destination: jobs.index(next(job for job in jobs if job[1] == destination)) for destination in sizes}

    def numbers(destination: int) -> list[int]:
        """Rows of one unit: those of a destination, and more from others if it has too few."""
        own = [number for number, job in enumerate(jobs) if job[1] == destination][:many]
        return [*own, *(number for number in range(len(jobs)) if number not in own)][:many]

    def moved(which: list[int], origin: int, destination: int | None = None) -> Commutes:
        changed = list(jobs)
        for number in which:
            # Where the segment is fixed, it stays what it was: that of the home, by its number modulo three.
            kept = (jobs[number][0] - origin) % 3 if SEGMENT in unit.fixed else 0
            home = origin + kept - (3 if origin + kept > 15 else 0)
            changed[number] = (home, jobs[number][1] if destination is None else destination)
        return replace(table, jobs=tuple(changed))

    if unit.kind == "replace":
        yield "to a place at the last distance", moved(numbers(edge_destination), edge)
        if not fixed:
            yield "to a destination that had none", moved(numbers(0), 15, 15)
            yield "to the largest destination", moved(numbers(5), 1, largest)
            yield "from the largest destination to the smallest", moved(numbers(largest), 13, 0)
        for destination, first in firsts.items():
            empty = next(n for n in range(15, -1, -1) if (n, destination) not in jobs)
            yield f"of {sizes[destination]} jobs, to an empty place", moved(numbers(destination), empty)
            yield (
                f"of {sizes[destination]} jobs, to the destination itself",
                moved(numbers(destination), jobs[first][1]),
            )
            yield f"of {sizes[destination]} jobs, to the farthest place", moved(numbers(destination), 12)
        return
    for destination in sizes:
        left = [job for number, job in enumerate(jobs) if number not in numbers(destination)]
        yield f"removed from {sizes[destination]} jobs", replace(table, jobs=tuple(left))
    yield "added at a destination that had none", replace(table, jobs=(*jobs, *[(15, 15)] * many))
    yield "added at the largest destination", replace(table, jobs=(*jobs, *[(0, largest)] * many))
    yield "added at the last distance", replace(table, jobs=(*jobs, *[(edge, edge_destination)] * many))
