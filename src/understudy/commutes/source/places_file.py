"""Places as files: Parquet, CSV, or anything that speaks Arrow. The names of census crosswalks are understood."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from understudy.core.places import EARTH_RADIUS_MILES, Places, make_places
from understudy.engines.systems.local.inputs import open_reader
from understudy.errors import InputError

if TYPE_CHECKING:
    from understudy.commutes.source.states import State

AREA = "area_"
ID = ("id", "tabblk", "tabblk2020", "tabblk2010", "geoid", "GEOID", "geocode")
LATITUDE = ("latitude", "lat", "blklatdd", "INTPTLAT")
LONGITUDE = ("longitude", "lon", "lng", "blklondd", "INTPTLON")
POPULATION = ("population", "pop", "POP100")
NAME = ("name",)
MOST_TEXT = 2**31 - 1
CROSSWALK_AREAS = {"st": "state", "cty": "county", "trct": "tract", "bgrp": "block group"}
CROSSWALK_GROUPS = {"cbsa": "metro", "stplc": "city", "zcta": "zip", "stsldu": "state senate district"}
GROUP, NAME_OF = "also_", "name_"  # a grouping that need not nest; the names of the areas of a level
OUTSIDE = "outside"
NO_AREA = re.compile(rb"9+")  # how a crosswalk says that a block is in no area of a kind
RING = "ring"
RING_MILES = (50, 100, 250, 500, 1000)  # from the middle of the places to where the people of a state live
TRUE, FALSE = ("true", "1"), ("false", "0", "")


def read_places(data: Any, *, outside: str | None = None) -> Places:
    """Read public places from a file, glob or frame, in any order.

    Columns: ``id``, ``latitude``, ``longitude``; ``area_LEVEL`` for each level of parent areas, from coarse to fine;
    ``also_GROUP`` for groups that need not nest, such as ZIP codes; ``name_LEVEL`` for what people call the areas of a
    level or group; ``population`` and ``name`` if known; ``outside`` marks homes outside, for example other states. Of
    a census geography crosswalk (``tabblk``, ``blklatdd``, ``blklondd``, ``st``, ``cty``, ``trct``, ``cbsa``, ``zcta``,
    ``stplc``) the names are understood. Other columns are left alone.

    Parameters
    ----------
    data
        The file, glob or frame.
    outside
        ``state``: every other state of the United States is a home as well, and a home whose id begins with its code is
        there; rings (group ``ring``) are groups of states by distance. Left out, homes must be among the places.

    Returns
    -------
    Places
        The places, by increasing id.

    Raises
    ------
    InputError
        If there are no rows, a column is missing or a value is not what it should be.

    Examples
    --------
    >>> import understudy as us
    >>> from understudy.demo.commuters import make_world
    >>> us.read_places(places_table(make_world("town").places))
    Places(400; areas: state, county, tract; with population)
    """
    if outside not in (None, "state"):
        raise InputError(f"outside ({outside!r}) must be 'state', or left out.")
    if isinstance(data, Places):
        return data if outside is None else with_states(data)
    reader = open_reader(data, names=("id", "latitude", "longitude"))
    found = {
        "id": find_column(reader.columns, ID, "the places"),
        "latitude": find_column(reader.columns, LATITUDE, "the places"),
        "longitude": find_column(reader.columns, LONGITUDE, "the places"),
    }
    optional = {"population": POPULATION, "name": NAME}
    found |= {what: hit[0] for what, names in optional.items() if (hit := [n for n in names if n in reader.columns])}
    levels = {name[len(AREA) :]: name for name in reader.columns if name.startswith(AREA) and len(name) > len(AREA)}
    if not levels:
        levels = {level: name for name, level in CROSSWALK_AREAS.items() if name in reader.columns}
    groups = {name[len(GROUP) :]: name for name in reader.columns if name.startswith(GROUP) and len(name) > len(GROUP)}
    if not groups:
        groups = {group: name for name, group in CROSSWALK_GROUPS.items() if name in reader.columns}
    named = {
        level: called
        for level, name in (levels | groups).items()
        for called in (f"{NAME_OF}{level}", f"{name}name")
        if called in reader.columns
    }
    marked = [OUTSIDE] if OUTSIDE in reader.columns else []
    wanted = list(dict.fromkeys([*found.values(), *levels.values(), *groups.values(), *named.values(), *marked]))
    batches = [batch for batch in reader.batches(wanted) if batch.num_rows]
    if not batches:
        raise InputError("the file of places has no rows; give at least one place.")
    table = pa.Table.from_batches(batches)
    others = {group: _grouping(table[name], name) for group, name in groups.items()}
    areas = {level: fixed_width(table[name], name) for level, name in levels.items()}
    places = make_places(
        fixed_width(table[found["id"]], found["id"]),
        _numbers(table[found["latitude"]], "latitude"),
        _numbers(table[found["longitude"]], "longitude"),
        areas=areas,
        population=_numbers(table[found["population"]], "population") if "population" in found else None,
        names=np.array(table[found["name"]].to_pylist(), dtype=np.str_) if "name" in found else None,
        other_areas={group: ids for group, ids in others.items() if (ids != b"").any()},
        area_names={level: _names((areas | others)[level], table[called]) for level, called in named.items()},
        outside=_marks(table[OUTSIDE]) if marked else None,
    )
    return places if outside is None else with_states(places)


def with_states(places: Places) -> Places:
    """The same places and every other state of the United States as a home outside.

    All states are there, whoever commutes from them: the list is public, and nothing about it is learned from data.
    States are also grouped into rings by how far their people live from the middle of the places, to be asked by ring.
    """
    from understudy.commutes.source.states import STATES

    if places.outside is not None:
        raise InputError("the places have homes outside already; leave out outside=state.")
    own = {identifier[:2].decode() for identifier in np.unique(places.ids.astype("S2"))}
    width = int(np.char.str_len(places.ids).min())
    if not own <= set(STATES) or width <= 2:
        raise InputError(
            "outside=state needs ids that begin with the code of a state of the United States, as census blocks do; "
            "give homes outside as places of your own, marked in a column 'outside'."
        )
    others = {code: state for code, state in STATES.items() if code not in own}
    codes = np.array([code.encode() for code in others], dtype="S")
    ends = [len(places), len(others)]

    def with_codes(values: NDArray[np.bytes_]) -> NDArray[np.bytes_]:
        return np.concatenate([values, codes])

    if RING in places.groupings:
        raise InputError(f"the places have areas called '{RING}', as rings of homes outside are; rename them.")
    rings = _rings(places, others.values())
    names = places.names
    return make_places(
        with_codes(places.ids),
        np.concatenate([places.latitude, [state.latitude for state in others.values()]]),
        np.concatenate([places.longitude, [state.longitude for state in others.values()]]),
        areas={level: with_codes(values) for level, values in places.areas.items()},
        population=None
        if places.population is None
        else np.concatenate([places.population, np.zeros(len(others), dtype=np.int64)]),
        names=None if names is None else np.concatenate([names, [state.name for state in others.values()]]),
        other_areas={
            group: np.concatenate([ids, np.zeros(len(others), ids.dtype)]) for group, ids in places.other_areas.items()
        }
        | {RING: np.concatenate([np.zeros(len(places), rings.dtype), rings])},
        area_names={
            level: {**places.area_names.get(level, {}), **{code: state.name for code, state in others.items()}}
            for level in places.areas
        }
        | {group: places.area_names[group] for group in places.other_areas if group in places.area_names}
        | {RING: _ring_names()},
        outside=np.repeat([False, True], ends),
    )


def _rings(places: Places, states: Iterable[State]) -> NDArray[np.bytes_]:
    """The ring of each state: the first of ``RING_MILES`` that its distance is below."""
    middle, there = (
        np.radians(np.stack([latitude, longitude]))
        for latitude, longitude in (
            (places.latitude.mean(keepdims=True), places.longitude.mean(keepdims=True)),
            np.array([(state.latitude, state.longitude) for state in states]).T,
        )
    )
    apart = np.sin(middle[0]) * np.sin(there[0]) + np.cos(middle[0]) * np.cos(there[0]) * np.cos(there[1] - middle[1])
    miles = EARTH_RADIUS_MILES * np.arccos(np.clip(apart, -1, 1))
    return np.array([f"{number}".encode() for number in 1 + np.searchsorted(RING_MILES, miles, side="right")])


def _ring_names() -> dict[str, str]:
    """What rings are called, by their number."""
    edges = (0, *RING_MILES)
    told = [f"outside, {low} to {high} miles" for low, high in itertools.pairwise(edges)]
    return {f"{number}": text for number, text in enumerate([*told, f"outside, beyond {edges[-1]} miles"], start=1)}


def _grouping(column: pa.ChunkedArray, name: str) -> NDArray[np.bytes_]:
    """Ids of groups; a code of nines alone, or nothing, stands for a place in no group."""
    ids = fixed_width(pc.fill_null(column.cast(pa.string()), ""), name)
    distinct, which = np.unique(ids, return_inverse=True)
    none = np.array([NO_AREA.fullmatch(one) is not None for one in distinct.tolist()])
    kept: NDArray[np.bytes_] = np.where(none, b"", distinct)[which]
    return kept


def _names(ids: NDArray[np.bytes_], column: pa.ChunkedArray) -> dict[str, str]:
    """What the areas of a level are called; the first name, where there are several."""
    distinct, first = np.unique(ids, return_index=True)
    called = column.take(pa.array(first)).to_pylist()
    return {one.decode(): str(name) for one, name in zip(distinct.tolist(), called, strict=True) if one and name}


def _marks(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    if pa.types.is_boolean(column.type):
        return np.asarray(pc.fill_null(column, False).to_numpy(), dtype=bool)
    texts_of = [str(value or "").strip().lower() for value in column.to_pylist()]
    if not set(texts_of) <= {*TRUE, *FALSE}:
        raise InputError(f"column '{OUTSIDE}' of the places must be true or false.")
    return np.array([text in TRUE for text in texts_of])


def places_table(places: Places) -> pa.Table:
    """Places as an Arrow table, which ``read_places`` reads back to equal places."""
    columns: dict[str, Any] = {
        "id": texts(places.ids),
        "latitude": pa.array(places.latitude),
        "longitude": pa.array(places.longitude),
    }
    columns |= {f"{AREA}{level}": texts(values).dictionary_encode() for level, values in places.areas.items()}
    if places.population is not None:
        columns["population"] = pa.array(places.population)
    if places.names is not None:
        columns["name"] = pa.array(places.names.tolist())
    columns |= {f"{GROUP}{group}": texts(values).dictionary_encode() for group, values in places.other_areas.items()}
    for level, called in places.area_names.items():
        distinct, which = np.unique(places.groupings[level], return_inverse=True)
        names = pa.array([called.get(one.decode(), "") for one in distinct.tolist()])
        columns[f"{NAME_OF}{level}"] = pa.DictionaryArray.from_arrays(pa.array(which.astype(np.int32)), names)
    if places.outside is not None:
        columns[OUTSIDE] = pa.array(places.outside)
    return pa.table(columns)


def find_column(columns: Sequence[str], names: Iterable[str], where: str) -> str:
    """The one column with a known name. Several are refused, because it is not clear which is meant."""
    known = tuple(names)
    hits = [name for name in known if name in columns]
    if not hits:
        raise InputError(f"{where} have no column for '{known[0]}'; name it {' or '.join(repr(n) for n in known[:4])}.")
    if len(hits) > 1:
        raise InputError(f"{where} have both '{hits[0]}' and '{hits[1]}', and one of them must be meant; drop one.")
    return hits[0]


def fixed_width(column: pa.ChunkedArray, name: str) -> NDArray[np.bytes_]:
    """A text column as fixed-width UTF-8. Texts of one length, as census codes are, are taken over without a loop."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # several chunks that cannot be one array
        array = pa.concat_arrays(array.chunks)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.null_count:
        raise InputError(f"column '{name}' of the places has {array.null_count:,} missing value(s).")
    if pa.types.is_integer(array.type):
        array = array.cast(pa.large_string())
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        raise InputError(f"column '{name}' of the places must be text or whole numbers, not {array.type}.")
    lengths = pc.binary_length(array)
    width = pc.max(lengths).as_py() or 1
    if pc.min(lengths).as_py() == width:
        flat = pa.concat_arrays([array.cast(pa.large_binary())])
        start = np.frombuffer(flat.buffers()[1], dtype=np.int64)[flat.offset]
        data = np.frombuffer(flat.buffers()[2], dtype=np.uint8)[start : start + width * len(flat)]
        return np.ascontiguousarray(data).view(f"S{width}")
    return np.array([text.encode() for text in array.to_pylist()], dtype=f"S{width}")


def texts(values: NDArray[np.bytes_]) -> pa.Array:
    """Fixed-width UTF-8 as an Arrow column of text, without a Python object for each."""
    width = values.dtype.itemsize
    if len(values) * width > MOST_TEXT:  # more than the 32-bit offsets of a plain column can count
        return pa.concat_arrays([texts(half).cast(pa.large_string()) for half in np.array_split(values, 2)])
    letters = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), width)
    written = letters != 0  # shorter texts are filled up with zeros
    ends = np.concatenate(([0], np.cumsum(written.sum(axis=1)))).astype(np.int32)
    flat = letters[written] if ends[-1] < letters.size else letters
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(flat)))


def _numbers(column: pa.ChunkedArray, name: str) -> NDArray[Any]:
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        try:
            array = pc.utf8_trim_whitespace(array).cast(pa.float64())
        except pa.ArrowInvalid:
            raise InputError(f"column '{name}' of the places holds a value that is not a number.") from None
    if array.null_count:
        raise InputError(f"{array.null_count:,} place(s) have no {name}; leave such places out or complete them.")
    if not (pa.types.is_floating(array.type) or pa.types.is_integer(array.type) or pa.types.is_decimal(array.type)):
        raise InputError(f"column '{name}' of the places must be numbers, not {array.type}.")
    values = (
        array.cast(pa.float64()).to_numpy(zero_copy_only=False)
        if not pa.types.is_integer(array.type)
        else (array.to_numpy(zero_copy_only=False))
    )
    return np.asarray(values)
