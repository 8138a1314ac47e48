"""Small worlds for the tests of the map, and the numbers a page of them must show, computed without the page's code."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from understudy.commutes.map.commute_map import Shown, render
from understudy.commutes.map.counts_law import urn_law
from understudy.commutes.map.page_arrays import MapFlows, MapPlaces
from understudy.privacy.promise.definition import ApproxDP, Unit
from understudy.release.statement import Statement

EARTH_KM = 3958.8 * 1.609344
CLASSES = 12


@dataclass(frozen=True, kw_only=True)
class City:
    places: MapPlaces
    origin: NDArray[np.int64]
    destination: NDArray[np.int64]
    jobs: NDArray[np.int64]
    prior: float | None = 4.0

    def shown(self, epsilon: str = "2", method: str = "commute", warnings: tuple[str, ...] = ()) -> Shown:
        sizes = np.bincount(self.destination, self.jobs, len(self.places)).astype(np.int64)
        zones = np.full(len(self.places), 7)
        law = None if self.prior is None else urn_law(sizes, np.full(len(self.places), self.prior), zones)
        return Shown(
            statement=Statement(
                unit=Unit(fixed=("destination",)),
                guarantee=ApproxDP(epsilon=epsilon, delta="1e-5"),
                warnings=warnings,
            ),
            method=method,
            flows=MapFlows(
                origin=self.origin,
                destination=self.destination,
                jobs=self.jobs,
                law=law,
                why_no_law="nothing public says how far it is off" if law is None else "",
            ),
        )

    def write(self, folder: Path, *others: City, title: str = "Test city", rings=(), **options) -> Path:
        shown = [self.shown(**options), *(other.shown(epsilon="4", method="other") for other in others)]
        file = folder / "map.html"
        file.write_text(render(self.places, shown, rings=list(rings), title=title, miles=False), encoding="utf-8")
        return file

    # ---- what the page must say

    def km(self) -> NDArray[np.float64]:
        """Great-circle distances of the pairs, by the spherical law of cosines; NaN where an end is not on the map."""
        latitude = np.append(np.round(self.places.latitude, 6), np.nan)
        longitude = np.append(np.round(self.places.longitude, 6), np.nan)
        a, b = np.radians(latitude[self.origin]), np.radians(latitude[self.destination])
        turn = np.radians(longitude[self.destination] - longitude[self.origin])
        inner = np.sin(a) * np.sin(b) + np.cos(a) * np.cos(b) * np.cos(turn)
        return np.where(self.origin == self.destination, 0.0, EARTH_KM * np.arccos(np.clip(inner, -1, 1)))

    def histogram(self, keep: NDArray[np.bool_], width: float) -> list[int]:
        km = self.km()
        known = keep & np.isfinite(km)
        number = np.minimum(np.floor(km[known] / width).astype(int), CLASSES - 1)
        return np.bincount(number, self.jobs[known], CLASSES).astype(int).tolist()

    def mean_km(self, keep: NDArray[np.bool_]) -> float:
        km = self.km()
        known = keep & np.isfinite(km)
        return float(np.average(km[known], weights=self.jobs[known]))


def project(latitude: float, longitude: float, middle: tuple[float, float]) -> tuple[float, float]:
    """Lambert's azimuthal equal-area projection by way of vectors: rotate the middle to the pole, then flatten."""

    def vector(north: float, east: float) -> NDArray[np.float64]:
        phi, lam = np.radians((north, east))
        return np.array([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)])

    centre, point = vector(*middle), vector(latitude, longitude)
    lam, phi = np.radians(middle[1]), np.radians(middle[0])
    east = np.array([-np.sin(lam), np.cos(lam), 0.0])
    north = np.array([-np.sin(phi) * np.cos(lam), -np.sin(phi) * np.sin(lam), np.cos(phi)])
    stretch = EARTH_KM * np.sqrt(2 / (1 + point @ centre))
    return float(stretch * (point @ east)), float(stretch * (point @ north))


def middle_of(places: MapPlaces) -> tuple[float, float]:
    known = np.isfinite(places.latitude)
    phi, lam = np.radians(places.latitude[known]), np.radians(places.longitude[known])
    x, y, z = (np.cos(phi) * np.cos(lam)).sum(), (np.cos(phi) * np.sin(lam)).sum(), np.sin(phi).sum()
    return float(np.degrees(np.arctan2(z, np.hypot(x, y)))), float(np.degrees(np.arctan2(y, x)))


def pixel_of(city: City, place: int, view: str, width: float, height: float) -> tuple[float, float]:
    """Where a place is on a map whose window (``data-view``) is given, in pixels from its upper left corner."""
    x0, y0, scale = (float(part) for part in view.split(","))
    x, y = project(city.places.latitude[place], city.places.longitude[place], middle_of(city.places))
    return (x - x0) * scale + width / 2, height / 2 - (y - y0) * scale


def small_city(names: list[str] | None = None, **options) -> City:
    """Forty places in four districts around 41.8 N, 71.4 W; five workplaces; some workers from elsewhere."""
    rng = np.random.default_rng(11)
    count = 40
    district = np.repeat(np.arange(4), 10)
    latitude = 41.8 + 0.12 * (district // 2) + rng.uniform(-0.04, 0.04, count)
    longitude = -71.4 + 0.2 * (district % 2) + rng.uniform(-0.06, 0.06, count)
    pairs = {}
    for to in (0, 7, 15, 22, 33):
        for origin in rng.integers(0, count + 1, 60):
            pairs[int(origin), to] = pairs.get((int(origin), to), 0) + 1
    keys = sorted(pairs)
    return City(
        places=MapPlaces(
            ids=[f"p{i:02d}" for i in range(count)],
            latitude=latitude,
            longitude=longitude,
            names=names or [f"Quarter {i}" for i in range(count)],
            areas={"district": [f"District {chr(65 + d)}" for d in district]},
        ),
        origin=np.array([key[0] for key in keys]),
        destination=np.array([key[1] for key in keys]),
        jobs=np.array([pairs[key] for key in keys]),
        **options,
    )


def large_city(jobs: int, places: int = 20_000) -> City:
    """Many jobs, one pair each, on a disc of places; for the limits of the page."""
    rng = np.random.default_rng(5)
    angle, radius = rng.uniform(0, 2 * np.pi, places), 0.4 * np.sqrt(rng.random(places))
    origin = rng.integers(0, places, jobs)
    return City(
        places=MapPlaces(
            ids=[f"{i:06d}" for i in range(places)],
            latitude=46.0 + radius * np.sin(angle),
            longitude=8.0 + radius * np.cos(angle) / np.cos(np.radians(46)),
        ),
        origin=origin,
        destination=np.sort(rng.integers(0, 500, jobs)),
        jobs=np.ones(jobs, dtype=np.int64),
    )
