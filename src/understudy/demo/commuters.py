"""A generated country of commuters: cities of different size, blocks in tracts in counties in states, and workers.

Nobody in it exists. Places and population are public facts of that country; its jobs are drawn from a gravity model, a
home being as likely as its residents times a decay with distance. Everything follows from a seed, and the
workers of a whole nation (140 million in 8.2 million blocks) are handed out batch by batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from understudy.commutes.models.gravity import NODE_ROOM, GravityTree, default_decay
from understudy.core.places import Places
from understudy.errors import InputError, unknown_name

if TYPE_CHECKING:
    import pyarrow as pa

SIZES = {
    "town": (400, 6_000),
    "city": (4_000, 120_000),
    "state": (60_000, 1_200_000),
    "nation": (8_206_261, 140_000_000),
}
BLOCKS_PER_TRACT, TRACTS_PER_COUNTY, COUNTIES_PER_STATE = 40, 60, 40
PEOPLE_PER_BLOCK = 40
JOBS_IN_A_BLOCK = 0.35  # share of blocks in which somebody works
BATCH_JOBS = 4_000_000


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class World:
    """A generated country: its public places, and the jobs at each of them."""

    places: Places
    jobs: NDArray[np.int64] = field()
    seed: int

    def __repr__(self) -> str:
        return f"World({len(self.places):,} places, {int(self.jobs.sum()):,} jobs)"

    @cached_property
    def tree(self) -> GravityTree:
        return GravityTree(self.places)

    def codes(
        self, batch_jobs: int = BATCH_JOBS
    ) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]]:
        """Origin, destination and jobs of every pair, by destination, in batches of about the given number of jobs."""
        from understudy.demo.commuters_compiled import homes

        tree, decay = self.tree, default_decay()
        ends = np.cumsum(self.jobs)
        cuts = np.searchsorted(ends, np.arange(batch_jobs, int(ends[-1]) + batch_jobs, batch_jobs), side="left") + 1
        first = 0
        for number, last in enumerate(np.minimum(cuts, len(self.places)).tolist()):
            if last <= first:
                continue
            jobs = self.jobs[first:last]
            starts = np.concatenate(([0], np.cumsum(jobs)))
            rng = np.random.default_rng((self.seed, 2, number))
            shares = rng.random(int(starts[-1]))
            positions = tree.rank[first:last]
            found = homes(positions, starts, shares, tree.points, tree.mass, tree.sums, tree.nodes, decay, NODE_ROOM)
            origins = tree.order[found].astype(np.int64)
            destinations = np.repeat(np.arange(first, last, dtype=np.int64), jobs)
            keys, counts = np.unique(destinations * len(self.places) + origins, return_counts=True)
            yield (
                (keys % len(self.places)).astype(np.int32),
                (keys // len(self.places)).astype(np.int32),
                counts.astype(np.int32),
            )
            first = last

    def batches(self, batch_jobs: int = BATCH_JOBS) -> Iterator[pa.RecordBatch]:
        """Counted pairs with the ids as text, for files: columns origin, destination, jobs."""
        import pyarrow as pa

        from understudy.commutes.source.places_file import texts

        for origins, destinations, jobs in self.codes(batch_jobs):
            columns: list[Any] = []
            for codes in (origins, destinations):
                used, inverse = np.unique(codes, return_inverse=True)
                indices = pa.array(inverse.astype(np.int32))
                columns.append(pa.DictionaryArray.from_arrays(indices, texts(self.places.ids[used])).cast(pa.string()))
            yield pa.record_batch([*columns, pa.array(jobs)], names=["origin", "destination", "jobs"])

    def places_table(self) -> pa.Table:
        """The public places as one table."""
        from understudy.commutes.source.places_file import places_table

        return places_table(self.places)

    def flows_table(self) -> pa.Table:
        """All counted pairs as one table; for small countries."""
        import pyarrow as pa

        return pa.Table.from_batches(self.batches())


def make_world(size: str = "city", *, places: int | None = None, jobs: int | None = None, seed: int = 0) -> World:
    """A generated country of a named size (town, city, state, nation), or with given numbers of places and jobs.

    >>> make_world("town", seed=1)
    World(400 places, 6,000 jobs)
    """
    if size not in SIZES:
        raise unknown_name("size of a world", size, SIZES)
    count = SIZES[size][0] if places is None else places
    total = SIZES[size][1] if jobs is None else jobs
    if count < 1 or total < 1:
        raise InputError("a world needs at least one place and one job.")
    rng = np.random.default_rng((seed, 1))
    latitude, longitude = _coordinates(count, rng)
    people = rng.negative_binomial(1.2, 1.2 / (1.2 + PEOPLE_PER_BLOCK), size=count)
    places_made = _numbered(latitude, longitude, people)
    attraction = np.where(rng.random(count) < JOBS_IN_A_BLOCK, rng.lognormal(0.0, 1.6, size=count), 0.0)
    if not attraction.any():
        attraction[0] = 1.0
    return World(places=places_made, jobs=rng.multinomial(total, attraction / attraction.sum()), seed=seed)


def _coordinates(count: int, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Blocks scattered around cities whose sizes follow a power law, over an area that grows with their number."""
    cities = max(1, count // 3_000)
    degrees = min(18.0, 0.12 * np.sqrt(count / 400))  # half the height of the country
    weights = 1.0 / np.arange(1, cities + 1)
    centres = rng.uniform(-1, 1, size=(cities, 2)) * (degrees * 0.8)
    home = rng.choice(cities, size=count, p=weights / weights.sum())
    spread = 0.05 * (weights[home] / weights.mean()) ** 0.3
    offset = rng.standard_t(3, size=(count, 2)) * spread[:, None]
    latitude = np.clip(42.0 + centres[home, 0] + offset[:, 0], 20.0, 64.0)
    longitude = np.clip(-90.0 + 1.4 * (centres[home, 1] + offset[:, 1]), -150.0, -30.0)
    return latitude, longitude


def _numbered(latitude: NDArray[np.float64], longitude: NDArray[np.float64], people: NDArray[np.int64]) -> Places:
    """Ids that nest as census codes do: neighbours share a tract, tracts a county, counties a state."""
    count = len(latitude)
    plain = Places(ids=np.char.zfill(np.arange(count).astype("S"), 10), latitude=latitude, longitude=longitude)
    order = GravityTree(plain).order
    number = np.arange(count)
    tract = number // BLOCKS_PER_TRACT
    county = tract // TRACTS_PER_COUNTY
    state = county // COUNTIES_PER_STATE
    # Digits: 2 state, 3 county in it, 6 tract in it, 4 block in it.
    state_code = state + 1
    county_code = state_code * 1_000 + county % COUNTIES_PER_STATE + 1
    tract_code = county_code * 1_000_000 + (tract % TRACTS_PER_COUNTY + 1) * 100
    block_code = tract_code * 10_000 + number % BLOCKS_PER_TRACT + 1
    return Places(
        ids=_digits(block_code, 15),
        latitude=latitude[order],
        longitude=longitude[order],
        areas={
            "state": _digits(state_code, 2),
            "county": _digits(county_code, 5),
            "tract": _digits(tract_code, 11),
        },
        population=people[order],
    )


def _digits(numbers: NDArray[np.int64], width: int) -> NDArray[np.bytes_]:
    """Whole numbers with leading zeros, without a loop over the numbers."""
    powers = 10 ** np.arange(width - 1, -1, -1, dtype=np.int64)
    digits = (numbers[:, None] // powers % 10 + ord("0")).astype(np.uint8)
    return np.ascontiguousarray(digits).view(f"S{width}").ravel()
