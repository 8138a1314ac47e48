"""Places: the public domain of a commuting table. An attribute whose values are a file of places, not a list of levels.

Origins and destinations are places. Where they lie, which areas they belong to and how many people live there are
public facts; who commutes between them is not. A place is known to the program by its code, its position among the ids
in increasing order, so that two files with the same places mean the same whatever their order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats
from understudy.errors import InputError, unknown_name

EARTH_RADIUS_MILES = 3958.8
ELSEWHERE = "elsewhere"  # the origin of a worker who lives beyond the distance cut
ELSEWHERE_CODE = -1
ORIGIN, DESTINATION = "origin", "destination"
PAIR = (ORIGIN, DESTINATION)
MOST_PLACES = 2**31 - 2
UNINHABITED_SOUTH = -60.0  # nobody lives south of this latitude: such coordinates are probably swapped
POLE = 89.9  # nobody lives north of this latitude

Bytes = NDArray[np.bytes_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Places:
    """Where people live and work: the public domain of a commuting table.

    Raises
    ------
    InputError
        If ids are not unique and increasing, or a column does not have one value for each place.
    """

    ids: Bytes
    """The ids of the places, in increasing order."""
    latitude: Floats
    """In degrees."""
    longitude: Floats
    """In degrees."""
    areas: Mapping[str, Bytes] = field(default_factory=dict)
    """Levels of areas from coarse to fine: for each level ("county") the id of each place's area."""
    population: NDArray[np.int64] | None = None
    """A public number of residents of each place; without it every place counts as one."""
    names: NDArray[np.str_] | None = None
    """What people call the places."""
    other_areas: Mapping[str, Bytes] = field(default_factory=dict)
    """Groups of places that people ask for and that need not nest ("zip", "metro"): the id of each place's group, empty
    for a place in none. No method uses them."""
    area_names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What people call areas, by level and id."""
    outside: NDArray[np.bool_] | None = None
    """Homes outside the area that the places describe, such as another state. Nobody works there. A home that is not
    among the places is at the one whose id it begins with. Its coordinates are rough, and no distance is told of it."""
    fingerprint: str = field(init=False)
    """A hash of everything but the names."""

    def __post_init__(self) -> None:
        ids = np.asarray(self.ids)
        if ids.dtype.kind != "S" or ids.ndim != 1 or len(ids) == 0:
            raise InputError("places need at least one id; read them with read_places.")
        if len(ids) > MOST_PLACES:
            raise InputError(f"there are {len(ids):,} places; at most {MOST_PLACES:,} can be numbered.")
        _check_ids(ids)
        latitude, longitude = (np.asarray(values, dtype=np.float64) for values in (self.latitude, self.longitude))
        _check_coordinates(latitude, longitude, len(ids))
        areas = {level: _checked_area(level, values, len(ids)) for level, values in self.areas.items()}
        for level, area in areas.items():
            if (area == b"").any():
                raise InputError(f"{int((area == b'').sum()):,} place(s) have no area of level '{level}'.")
        if twice := sorted(areas.keys() & self.other_areas.keys()):
            raise InputError(
                f"'{twice[0]}' is both a level of areas and another grouping; give one of them another name."
            )
        others = {level: _checked_area(level, values, len(ids)) for level, values in self.other_areas.items()}
        object.__setattr__(self, "ids", ids)
        object.__setattr__(self, "latitude", latitude)
        object.__setattr__(self, "longitude", longitude)
        object.__setattr__(self, "areas", areas)
        object.__setattr__(self, "other_areas", others)
        object.__setattr__(self, "outside", _checked_outside(self.outside, ids))
        object.__setattr__(self, "population", _checked_population(self.population, len(ids)))
        if self.names is not None and np.asarray(self.names).shape != ids.shape:
            raise InputError(f"names need one text for each of the {len(ids):,} places.")
        object.__setattr__(self, "fingerprint", self._fingerprint())

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        levels = f"; areas: {', '.join((*self.areas, *self.other_areas))}" if self.areas or self.other_areas else ""
        if self.outside is not None:
            levels += f"; {int(self.outside.sum())} outside"
        return f"Places({len(self):,}{levels}{'' if self.population is None else '; with population'})"

    @property
    def mass(self) -> Floats:
        """What each place weighs in a gravity model: its residents, or one where that is not known.

        A place without residents keeps a small weight: nothing rules out that somebody moves in. A home outside begins
        with the weight of all places inside, as it is a whole state or county; what is measured corrects that.
        """
        mass = np.ones(len(self)) if self.population is None else np.asarray(self.population + 0.1, dtype=np.float64)
        return mass if self.outside is None else np.where(self.outside, mass[~self.outside].sum(), mass)

    def id_texts(self, codes: NDArray[Any]) -> list[str]:
        """The ids of some places as text; ``elsewhere`` for its code.

        Parameters
        ----------
        codes
            Codes of places.

        Returns
        -------
        list[str]
            One text for each code.
        """
        return [ELSEWHERE if code < 0 else self.ids[code].decode() for code in codes.tolist()]

    def codes_of(self, ids: Sequence[str]) -> NDArray[np.int32]:
        """Find the codes of some ids.

        Parameters
        ----------
        ids
            A few ids, as texts.

        Returns
        -------
        NDArray[np.int32]
            One code for each id.

        Raises
        ------
        InputError
            If an id is not among the places.
        """
        wanted = np.array([text.encode() for text in ids], dtype="S")
        found = np.searchsorted(self.ids, wanted)
        found = np.minimum(found, len(self) - 1)
        if len(wanted) and (self.ids[found] != wanted).any():
            raise InputError(f"place '{ids[int(np.argmax(self.ids[found] != wanted))]}' is not among the places.")
        return found.astype(np.int32)

    def area(self, level: str) -> Bytes:
        """Give the area of each place on one level.

        Parameters
        ----------
        level
            The name of the level.

        Returns
        -------
        Bytes
            The id of the area of each place.

        Raises
        ------
        UnknownNameError
            If there is no such level.
        """
        if level not in self.areas:
            raise unknown_name("level of areas", level, self.areas)
        return self.areas[level]

    @property
    def groupings(self) -> dict[str, Bytes]:
        """All levels of areas and other groupings by name: whatever a place can be asked by."""
        return {**self.areas, **self.other_areas}

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Which places have coordinates that a distance may be told of."""
        return np.ones(len(self), dtype=bool) if self.outside is None else ~self.outside

    def points(self) -> Floats:
        """Points on a sphere of the earth's size, in miles: straight lines between them are fast distances.

        Returns
        -------
        Floats
            Three coordinates for each place.
        """
        latitude, longitude = np.radians(self.latitude), np.radians(self.longitude)
        level = EARTH_RADIUS_MILES * np.cos(latitude)
        columns = (level * np.cos(longitude), level * np.sin(longitude), EARTH_RADIUS_MILES * np.sin(latitude))
        return np.stack(columns, axis=1)

    def miles(self, one: NDArray[Any], other: NDArray[Any]) -> Floats:
        """Great-circle distances between places, by their codes.

        Parameters
        ----------
        one
            Codes of places.
        other
            As many codes of places.

        Returns
        -------
        Floats
            The distance of each pair, in miles.
        """
        a, b = np.radians(self.latitude[one]), np.radians(self.latitude[other])
        across = np.radians(self.longitude[other] - self.longitude[one])
        half = np.sin((b - a) / 2) ** 2 + np.cos(a) * np.cos(b) * np.sin(across / 2) ** 2
        result: Floats = 2 * EARTH_RADIUS_MILES * np.arcsin(np.sqrt(np.minimum(half, 1.0)))
        return result

    def _fingerprint(self) -> str:
        digest = hashlib.sha256(b"understudy-places-1")
        named: list[tuple[str, NDArray[Any] | None]] = [
            ("ids", self.ids), ("latitude", self.latitude), ("longitude", self.longitude),
            *((f"area {level}", values) for level, values in self.areas.items()), ("population", self.population),
            *((f"group {level}", values) for level, values in self.other_areas.items()),
            ("outside", None if self.outside is None else self.outside.astype(np.uint8)),
        ]  # fmt: skip
        for name, values in named:
            if values is not None:
                digest.update(f"\n{name} {values.dtype.str} {len(values)}\n".encode())
                digest.update(np.ascontiguousarray(values).view(np.uint8).data)
        return digest.hexdigest()


def make_places(
    ids: Sequence[str] | Bytes,
    latitude: Any,
    longitude: Any,
    *,
    areas: Mapping[str, Any] | None = None,
    population: Any = None,
    names: Any = None,
    other_areas: Mapping[str, Any] | None = None,
    area_names: Mapping[str, Mapping[str, str]] | None = None,
    outside: Any = None,
) -> Places:
    """Places from columns in any order.

    >>> make_places(["b", "a"], [41.0, 41.1], [-71.0, -71.1]).ids.tolist()
    [b'a', b'b']
    """
    keys = as_bytes(ids, "id")
    order = np.argsort(keys, kind="stable") if len(keys) > 1 and (keys[1:] < keys[:-1]).any() else slice(None)

    def sorted_column(values: Any, what: str) -> Any:
        column = np.asarray(values)
        if column.shape != keys.shape:
            raise InputError(f"{what} needs one value for each of the {len(keys):,} places.")
        return column[order]

    return Places(
        ids=keys[order],
        latitude=sorted_column(latitude, "latitude"),
        longitude=sorted_column(longitude, "longitude"),
        areas={level: sorted_column(as_bytes(v, level), f"level '{level}'") for level, v in (areas or {}).items()},
        population=None if population is None else sorted_column(population, "population"),
        names=None if names is None else sorted_column(np.asarray(names, dtype=np.str_), "names"),
        other_areas={
            level: sorted_column(as_bytes(v, level), f"grouping '{level}'") for level, v in (other_areas or {}).items()
        },
        area_names=area_names or {},
        outside=None if outside is None else sorted_column(np.asarray(outside, dtype=bool), "outside"),
    )


def as_bytes(values: Any, what: str) -> Bytes:
    """Texts as UTF-8 of fixed width, which a program can hold by the million."""
    array = np.asarray(values)
    if array.dtype.kind == "S":
        return array
    if array.dtype.kind == "U":
        array = array.astype(object)
    if array.dtype.kind in "iu":
        return array.astype("S")
    if not all(isinstance(value, str) for value in array.ravel()):
        raise InputError(f"'{what}' of places must be text, with no missing values.")
    if len(array) == 0:
        raise InputError("there are no places; give at least one.")
    return np.array([value.encode() for value in array], dtype="S")


def _check_ids(ids: Bytes) -> None:
    if (ids == b"").any():
        raise InputError(f"{int((ids == b'').sum()):,} place(s) have no id.")
    if (ids == ELSEWHERE.encode()).any():
        raise InputError(f"'{ELSEWHERE}' stands for what lies beyond the distance cut and cannot be the id of a place.")
    if len(ids) > 1 and not (ids[1:] > ids[:-1]).all():
        if (ids[1:] < ids[:-1]).any():
            raise InputError("the ids of places must be in increasing order; make_places and read_places sort them.")
        twice = ids[1:][ids[1:] == ids[:-1]]
        raise InputError(
            f"{len(twice):,} place(s) are listed twice, for example '{twice[0].decode(errors='replace')}'; each id "
            "may occur once."
        )


def _check_coordinates(latitude: Floats, longitude: Floats, count: int) -> None:
    for name, values, most in (("latitude", latitude, 90.0), ("longitude", longitude, 180.0)):
        if values.shape != (count,):
            raise InputError(f"{name} needs one number for each of the {count:,} places.")
        missing = ~np.isfinite(values)
        if missing.any():
            raise InputError(f"{int(missing.sum()):,} place(s) have no {name}; leave such places out or complete them.")
        beyond = np.abs(values) > most
        if beyond.any():
            swapped = name == "latitude" and (np.abs(longitude) <= 90.0).all()
            hint = " Are latitude and longitude swapped?" if swapped else ""
            raise InputError(
                f"{int(beyond.sum()):,} place(s) have a {name} outside -{most:g} to {most:g} degrees.{hint}"
            )
    if south := int((latitude < UNINHABITED_SOUTH).sum()):
        raise InputError(
            f"{south:,} of {count:,} place(s) lie in the Antarctic; are latitude and longitude swapped there?"
        )
    if poles := int((latitude > POLE).sum()):
        raise InputError(
            f"{poles:,} place(s) lie at the North Pole, where no direction is east; correct their coordinates or leave "
            "them out."
        )


def _checked_area(level: str, values: Any, count: int) -> Bytes:
    area = np.asarray(values)
    if area.dtype.kind != "S" or area.shape != (count,):
        raise InputError(f"areas of level '{level}' need one id for each of the {count:,} places.")
    return area


def _checked_outside(outside: Any, ids: Bytes) -> NDArray[np.bool_] | None:
    """Marks of places outside, or nothing if there are none."""
    if outside is None:
        return None
    marks = np.asarray(outside, dtype=bool)
    if marks.shape != ids.shape:
        raise InputError(f"outside needs one mark for each of the {len(ids):,} places.")
    if marks.all():
        raise InputError("all places are marked as outside; somebody must work inside.")
    if not marks.any():
        return None
    if len(np.unique(np.char.str_len(ids[marks]))) > 1:
        raise InputError(
            "the ids of places outside must have one length, so that a home begins with the id of one of them only."
        )
    return marks


def _checked_population(population: Any, count: int) -> NDArray[np.int64] | None:
    if population is None:
        return None
    values = np.asarray(population)
    if values.shape != (count,):
        raise InputError(f"population needs one number for each of the {count:,} places.")
    if values.dtype.kind == "f" and np.isfinite(values).all() and (values == np.floor(values)).all():
        values = values.astype(np.int64)
    if values.dtype.kind not in "iu" or (values < 0).any():
        raise InputError("population must be whole numbers of at least 0, with none missing.")
    return values.astype(np.int64)
