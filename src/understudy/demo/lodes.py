"""A generated state in the files in which LODES publishes one: jobs inside, jobs of people from other states, names.

Nobody in it exists. The state has the code of Rhode Island so that its neighbours are real ones; nothing else of it is
real. Segments follow rules that an analyst can look for: young workers live nearer, well paid ones farther away, and
goods are made in some tracts only.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.places import Places
from understudy.demo.commuters import World, make_world

STATE, NEIGHBOURS = "44", ("25", "09", "36")  # Rhode Island; Massachusetts, Connecticut, New York
MIDDLE = (41.7, -71.5)
FROM_OUTSIDE = 0.25  # part of the jobs whose workers live in another state
TOWNS = ("Northport", "Eastfield", "Millbrook", "Harbour Point")
SEGMENTS = ("SA01", "SA02", "SA03", "SE01", "SE02", "SE03", "SI01", "SI02", "SI03")
CROSSWALK = (
    "tabblk2020", "st", "stname", "cty", "ctyname", "trct", "trctname", "cbsa", "cbsaname", "zcta", "zctaname", "stplc",
    "stplcname", "blklatdd", "blklondd",
)  # fmt: skip


def write_state(folder: str | Path, *, size: str = "town", year: int = 2019, seed: int = 1) -> tuple[Path, Path, Path]:
    """Write a state as LODES publishes it: jobs of residents, jobs of people from outside, and the crosswalk.

    Parameters
    ----------
    folder
        Where the files go; it must exist.
    size
        ``town``, ``city`` or ``state``, as in ``make_world``.
    year
        The year in the names of the files. Another year has other jobs in the same places.
    seed
        Another seed is another state.

    Returns
    -------
    tuple[Path, Path, Path]
        The main file, the aux file and the crosswalk.
    """
    world = _moved(make_world(size, seed=seed))
    ids = _block_ids(world.places)
    rng = np.random.default_rng((seed, year))
    origins, destinations, jobs = (np.concatenate(part) for part in zip(*world.codes(), strict=True))
    jobs = jobs if year == 2019 else rng.poisson(jobs * rng.uniform(0.8, 1.25, len(world.places))[destinations])
    away = rng.binomial(jobs, FROM_OUTSIDE)
    miles = world.places.miles(origins, destinations)
    main, aux = Path(folder) / f"xx_od_main_JT00_{year}.csv.gz", Path(folder) / f"xx_od_aux_JT00_{year}.csv.gz"
    _write_jobs(main, ids[destinations], ids[origins], jobs=jobs - away, shares=_shares(miles, destinations), rng=rng)
    blocks = np.char.zfill(rng.integers(1, 30, len(away)).astype("U"), 13)
    homes = np.char.add(rng.choice(NEIGHBOURS, len(away), p=(0.6, 0.3, 0.1)), blocks)
    far = _shares(np.full(len(away), 30.0), destinations)
    _write_jobs(aux, ids[destinations], homes, jobs=away, shares=far, rng=rng)
    return main, aux, _write_crosswalk(Path(folder) / "xx_xwalk.csv.gz", world.places, ids)


def _moved(world: World) -> World:
    """The same world where the state lies whose code it has, so that its neighbours are near."""
    places, (latitude, longitude) = world.places, MIDDLE
    narrower = np.cos(np.radians(places.latitude.mean())) / np.cos(np.radians(latitude))
    moved = replace(
        places,
        latitude=places.latitude - places.latitude.mean() + latitude,
        longitude=(places.longitude - places.longitude.mean()) * narrower + longitude,
    )
    return replace(world, places=moved)


def _block_ids(places: Places) -> NDArray[np.str_]:
    """Fifteen digits: state, county, tract, block."""
    found = []
    for tract, place in zip(np.unique(places.areas["tract"], return_inverse=True)[1], range(len(places)), strict=True):
        found.append(f"{STATE}{1 + 2 * int(tract // 60):03d}{int(tract) + 1:06d}{place % 10_000:04d}")
    return np.array(found)


def _shares(miles: NDArray[np.float64], destinations: NDArray[Any]) -> list[NDArray[np.float64]]:
    """How likely a worker is in each segment of age, earnings and industry, for every pair."""
    near, goods = np.exp(-miles / 5), destinations % 7 == 0
    young, paid, made = 0.15 + 0.25 * near, 0.55 - 0.3 * near, np.where(goods, 0.6, 0.08)
    return [
        np.stack([young, 0.7 - young, np.full(len(miles), 0.3)], axis=1),
        np.stack([0.75 - paid, np.full(len(miles), 0.25), paid], axis=1),
        np.stack([made, 0.5 * (1 - made), 0.5 * (1 - made)], axis=1),
    ]


def _write_jobs(
    file: Path,
    works: NDArray[np.str_],
    homes: NDArray[np.str_],
    *,
    jobs: NDArray[Any],
    shares: list[NDArray[np.float64]],
    rng: np.random.Generator,
) -> None:
    keys, which = np.unique(np.char.add(works, homes), return_inverse=True)
    counts = np.zeros((len(keys), 1 + len(SEGMENTS)), dtype=np.int64)
    np.add.at(counts[:, 0], which, jobs)
    for number, share in enumerate(shares):
        drawn = rng.multinomial(jobs, share)
        for segment in range(3):
            np.add.at(counts[:, 1 + 3 * number + segment], which, drawn[:, segment])
    with gzip.open(file, "wt", newline="") as out:
        table = csv.writer(out)
        table.writerow(["w_geocode", "h_geocode", "S000", *SEGMENTS, "createdate"])
        for key, row in zip(keys.tolist(), counts.tolist(), strict=True):
            if row[0]:
                table.writerow([key[:15], key[15:], *row, "20260101"])


def _write_crosswalk(file: Path, places: Places, ids: NDArray[np.str_]) -> Path:
    with gzip.open(file, "wt", newline="") as out:
        table = csv.writer(out)
        table.writerow(CROSSWALK)
        for place, block in enumerate(ids.tolist()):
            tract = int(block[5:11])
            zip_code, town = f"02{800 + tract // 3:03d}", TOWNS[tract % len(TOWNS)]
            table.writerow([
                block, STATE, "Rhode Island (generated)", block[:5], f"County {int(block[2:5])}", block[:11],
                f"{tract} (County {int(block[2:5])})", "39300", "Harbour Point metro area", zip_code, zip_code,
                *((f"{STATE}{tract % len(TOWNS):05d}", f"{town} town") if tract % 5 else ("9999999", "")),
                f"{places.latitude[place]:.7f}", f"{places.longitude[place]:.7f}",
            ])  # fmt: skip
    return file
