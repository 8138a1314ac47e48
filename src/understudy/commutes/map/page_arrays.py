"""The numbers inside a map page: places and flows as typed arrays, packed small.

Columns instead of rows, the narrowest type that holds a column, gzip over all of it, base64 to fit into HTML: 100,000
commuters on 25,000 places take about half a megabyte. Coordinates are kept to a millionth of a degree (a tenth of a
metre). Pairs are sorted by destination, so a destination is written once and not with every pair.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats, Integers
from understudy.core.places import EARTH_RADIUS_MILES

NOWHERE = -(2**31)  # stands for a coordinate that is not known
ALIGNMENT = 8
KM_PER_MILE = 1.609344
WIDEST_SPREAD_KM = 0.6
TYPES = {"u1": "Uint8Array", "u2": "Uint16Array", "u4": "Uint32Array", "i4": "Int32Array", "f4": "Float32Array"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MapPlaces:
    """The places of a page. A coordinate may be missing (NaN): such a place is listed beside the map."""

    ids: Sequence[str]
    latitude: Floats
    longitude: Floats
    names: Sequence[str] | None = None
    areas: Mapping[str, Sequence[str]] = field(default_factory=dict)
    area_names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedError:
    """The possible error of the model that all workplaces share, in a home area: as a share of the jobs that follow the
    model, and in jobs for all workplaces together. Noise is as large in a small area as in a large one, so a share
    alone would say too little of the small ones."""

    share: float
    jobs: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NearErrors:
    """Noisy jobs minus shown ones by group of workplaces and band of distance (``miles`` are the edges of bands), the
    variance of the noise of each, and the group of each place."""

    miles: Floats
    group: Integers
    apart: Floats
    variance: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MapLaw:
    """How the counts of each place as a workplace came about: the share of its jobs that follows the public model, the
    variance of a count in units of a binomial one, and how many zones of homes it tells apart. ``off`` is the possible
    error of the model that all workplaces share, where the release has measured it; ``off_outside`` that of homes
    outside. ``outside`` is how many zones of homes outside it tells apart, if those have zones of their own."""

    model: Floats
    noise: Floats
    cells: Integers
    off: SharedError | None = None
    off_outside: SharedError | None = None
    near: NearErrors | None = None
    outside: Integers | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairNoise:
    """The noise of the jobs between any two areas of a level (its number, coarse to fine): all that is known where
    flows between areas were measured and nothing of single workplaces."""

    level: int
    variance: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MapFlows:
    """The synthetic jobs of one release by pair; origin ``len(places)`` is elsewhere. Without a law there are no
    ranges, or only those of whole areas (``pairs``), and ``why_no_law`` says why."""

    origin: Integers
    destination: Integers
    jobs: Integers
    law: MapLaw | None = None
    pairs: PairNoise | None = None
    why_no_law: str = ""
    segments: Mapping[str, Integers] = field(default_factory=dict)  # jobs of each pair by the name of a segment


@dataclass(slots=True)
class Packer:
    """Named arrays, one after the other."""

    directory: list[dict[str, Any]] = field(default_factory=list)
    content: bytearray = field(default_factory=bytearray)

    def add(self, name: str, values: NDArray[Any]) -> None:
        kind = TYPES[values.dtype.str[1:]]
        self._put(
            name, kind, np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<"))).tobytes(), len(values)
        )

    def add_json(self, name: str, value: object) -> None:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        self._put(name, "json", text, len(text))

    def _put(self, name: str, kind: str, content: bytes, length: int) -> None:
        self.content.extend(bytes(-len(self.content) % ALIGNMENT))
        self.directory.append({"name": name, "type": kind, "offset": len(self.content), "length": length})
        self.content.extend(content)

    def text(self) -> str:
        """Everything as base64 of gzip. No time is written into it: the same data give the same page."""
        return base64.b64encode(gzip.compress(bytes(self.content), compresslevel=9, mtime=0)).decode()


def pack_places(packer: Packer, places: MapPlaces) -> list[dict[str, str]]:
    """Adds the places and gives the levels of their areas, for the page's description of itself."""
    packer.add("latitude", microdegrees(places.latitude))
    packer.add("longitude", microdegrees(places.longitude))
    packer.add("spread", spread_km(places.latitude, places.longitude).astype(np.float32))
    packer.add_json("ids", list(places.ids))
    if places.names is not None:
        packer.add_json("names", list(places.names))
    levels = []
    for number, (level, of) in enumerate(places.areas.items()):
        areas, codes = np.unique(np.asarray(of, dtype=np.str_), return_inverse=True)
        packer.add_json(f"level_{number}_areas", areas.tolist())
        if called := places.area_names.get(level):
            packer.add_json(f"level_{number}_names", [called.get(one, one) for one in areas.tolist()])
        packer.add(f"level_{number}_of", narrow(codes))
        levels.append({"name": level})
    return levels


def pack_flows(packer: Packer, number: int, flows: MapFlows) -> None:
    """Adds the jobs of one release, pairs by destination and then by origin."""
    order = np.lexsort((flows.origin, flows.destination))
    destinations, starts = np.unique(flows.destination[order], return_index=True)
    packer.add(f"destinations_{number}", narrow(destinations))
    packer.add(f"starts_{number}", np.append(starts, len(order)).astype(np.uint32))
    packer.add(f"origin_{number}", narrow(flows.origin[order]))
    packer.add(f"jobs_{number}", narrow(flows.jobs[order]))
    for place, values in enumerate(flows.segments.values()):
        packer.add(f"segment_{number}_{place}", narrow(values[order]))
    if flows.law is not None and flows.law.near is not None:
        packer.add(f"near_{number}_of", narrow(flows.law.near.group))
        packer.add(f"near_{number}_apart", flows.law.near.apart.ravel().astype(np.float32))
    if flows.law is not None:
        packer.add(f"model_{number}", flows.law.model.astype(np.float32))
        packer.add(f"noise_{number}", flows.law.noise.astype(np.float32))
        packer.add(f"cells_{number}", narrow(flows.law.cells))
    if flows.law is not None and flows.law.outside is not None:
        packer.add(f"outside_{number}", narrow(flows.law.outside))


def pack_outlines(packer: Packer, rings: Sequence[NDArray[np.float64]], name: str = "outline") -> None:
    """Adds outlines; each is an array of latitude and longitude."""
    if rings:
        packer.add(f"{name}_starts", np.cumsum([0, *(len(ring) for ring in rings)]).astype(np.uint32))
        packer.add(f"{name}_points", microdegrees(np.concatenate(rings).ravel()))


def microdegrees(degrees: Floats) -> NDArray[np.int32]:
    known = np.isfinite(degrees)
    return np.where(known, np.rint(np.where(known, degrees, 0.0) * 1e6), NOWHERE).astype(np.int32)


def narrow(values: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers of at least 0 in the narrowest type.

    >>> narrow(np.array([0, 255])).dtype, narrow(np.array([256])).dtype, narrow(np.array([], dtype=np.int64)).dtype
    (dtype('uint8'), dtype('uint16'), dtype('uint8'))
    """
    largest = int(values.max()) if len(values) else 0
    return values.astype(np.uint8 if largest < 2**8 else np.uint16 if largest < 2**16 else np.uint32)


def spread_km(latitude: Floats, longitude: Floats) -> Floats:
    """How far the dots of each place are scattered: half-way to its nearest neighbour at another spot.

    Discs of neighbours then touch without overlapping, so density on the screen is density of jobs.
    """
    from scipy.spatial import cKDTree

    spread = np.full(len(latitude), 0.0)
    known = np.isfinite(latitude) & np.isfinite(longitude)
    phi, lam = np.radians(latitude[known]), np.radians(longitude[known])
    points = np.stack((np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)), axis=1)
    spots, which = np.unique(points, axis=0, return_inverse=True)
    if len(spots) < 2:
        spread[known] = 0.1
        return spread
    chord = cKDTree(spots).query(spots, k=2)[0][:, 1]
    km = 2 * np.arcsin(np.minimum(chord / 2, 1.0)) * EARTH_RADIUS_MILES * KM_PER_MILE
    spread[known] = np.minimum(km / 2, WIDEST_SPREAD_KM)[which.ravel()]
    return spread
