"""A confidential commuting table: worker records, or counted pairs of origin and destination.

Two passes over the rows (count by destination, then put each pair in its place) sort 140 million rows in about a
gigabyte and without comparing anything. Workers of the same pair are added up; a counted pair may be there once.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from understudy.commutes.source.places_file import find_column, fixed_width, read_places
from understudy.core.arrays import Codes
from understudy.core.flows import Flows, FlowSource, Partition
from understudy.core.places import Places
from understudy.core.threads import in_order
from understudy.engines.reading.readers import Reader
from understudy.engines.systems.local.inputs import open_reader
from understudy.errors import DisclosureError, InputError, InternalError, unknown_name
from understudy.privacy.gate.flow_gate import FlowTable
from understudy.privacy.randomness.fingerprint import RowSum

ORIGIN = ("origin", "h_geocode")
DESTINATION = ("destination", "w_geocode")
JOBS = ("jobs", "S000")
MOST_JOBS = 2**31 - 1  # of one pair
PLACE_TYPES = "text or whole numbers"

Problems = Counter[str]  # rows by what is wrong with them
NO_PLACE = "column '{name}' of the commutes has ROWS without a place"
NO_KNOWN_PLACE = (
    "column '{name}' of the commutes has ROWS with a place that is not among the places; give all places, of the same "
    "vintage, or correct the column"
)
NO_KNOWN_HOME = (
    f"{NO_KNOWN_PLACE}. Where homes lie in other states, as in LODES' aux files, say outside=state (--outside state)"
)
WORK_OUTSIDE = "column '{name}' of the commutes has ROWS with a workplace outside, where nobody of this table works"
NOT_ADDING_UP = "columns {names} of the commutes have ROWS that do not add up to column '{name}'"
NO_SEGMENT = "column '{name}' of the commutes has ROWS with something else than its segments ({segments})"
NO_JOBS = "column '{name}' of the commutes has ROWS without a number of jobs"
NOT_NUMBERS = "column '{name}' of the commutes has ROWS with something that is no number"
NOT_WHOLE = "column '{name}' of the commutes has ROWS with numbers of jobs that are not whole"
NEGATIVE = "column '{name}' of the commutes has ROWS with negative numbers of jobs"
TOO_MANY = f"column '{{name}}' of the commutes has ROWS with more than {MOST_JOBS:,} jobs for a pair"
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


class CommuteSource:
    """Jobs by origin and destination, opened against public places. Confidential: only the gate reads it."""

    def __init__(self, reader: Reader, places: Places, *, unit_id: str | None = None) -> None:
        self.places = places
        self._reader = reader
        self._origin = find_column(reader.columns, ORIGIN, "the commutes")
        self._destination = find_column(reader.columns, DESTINATION, "the commutes")
        hits = [name for name in JOBS if name in reader.columns]
        if len(hits) > 1:
            raise InputError(f"the commutes have both '{hits[0]}' and '{hits[1]}'; drop one.")
        self._jobs = hits[0] if hits else None
        if unit_id is not None:
            raise InputError(
                "commutes are protected job by job; a unit with several jobs is stated by rows_per_unit, which is then "
                "assumed, not enforced."
            )
        self._lookup = _Lookup(places)
        self._flows: Flows | None = None
        self._fingerprint_key: bytes | None = None

    def __repr__(self) -> str:
        return f"CommuteSource({len(self.places):,} places, confidential)"

    def __reduce__(self) -> tuple[object, ...]:
        raise DisclosureError("a source is confidential and cannot be saved; open it again where the data are.")

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        return [self._origin, self._destination] + ([self._jobs] if self._jobs else [])

    @property
    def counted(self) -> bool:
        """Whether rows are counted pairs (with a column of jobs) or one worker each."""
        return self._jobs is not None

    def total(self) -> int:
        return self.flows().total()

    def identify(self, key: bytes) -> None:
        """Use this key for the fingerprint from now on."""
        self._fingerprint_key = key

    def fingerprint(self) -> str:
        """The keyed sum over all jobs (see ``privacy.randomness.fingerprint``): a pair of several jobs counts as often,
        so counted pairs and worker records of the same jobs have the same. Confidential."""
        if self._fingerprint_key is None:
            raise InternalError("a source has a fingerprint only under a key; identify it first.")
        sums = RowSum(self._fingerprint_key)
        for origins, destinations, jobs in self.flows().confidential_pieces():
            sums.add([origins.astype(np.int64), destinations], jobs.astype(np.int64))
        return sums.text

    def check_segments(self, partitions: tuple[Partition, ...]) -> None:
        """Refuse, with the number of rows, jobs that are not each in exactly one segment of every partition."""
        problems: Problems = Counter()
        for _, _, _, bad in self.segment_batches(partitions):
            problems.update(bad)
        refuse(problems)

    def count_segments(self, table: FlowTable) -> NDArray[np.int64]:
        """Jobs by class and combination of segments, for the gate. Confidential."""
        size = table.combinations
        counts = np.zeros(table.cells, dtype=np.int64)
        for origins, destinations, segments, bad in self.segment_batches(table.segments):
            refuse(bad)
            classes = table.classify(origins, destinations)
            for number in range(size):
                counts += np.bincount(classes * size + number, segments[:, number], len(counts)).astype(np.int64)
        return counts

    def segment_columns(self, partitions: tuple[Partition, ...]) -> list[str]:
        """The columns that say in which segments jobs are; refuses what is not there."""
        if self._jobs is None:
            wanted = [one.name for one in partitions]
            if missing := [name for name in wanted if name not in self._reader.columns]:
                raise InputError(
                    f"column '{missing[0]}' is not there: where a row is one job, a partition is a column and its "
                    "segments are the values there (age=young+old). Counted pairs have a column of jobs for each "
                    "segment."
                )
            return wanted
        if len(partitions) > 1:
            told = " and ".join(one.name for one in partitions)
            raise InputError(
                f"combinations of {told} are known only where a row is one job. Counted pairs say how many jobs are in "
                f"each segment, and not in which combinations: write {','.join(one.name for one in partitions)}."
            )
        (partition,) = partitions
        if missing := [name for name in partition.columns if name not in self._reader.columns]:
            raise InputError(
                "segments of counted pairs need a column of jobs for each segment, as LODES has them: column "
                f"'{missing[0]}' is not there."
            )
        return list(partition.columns)

    def segment_batches(
        self, partitions: tuple[Partition, ...]
    ) -> Iterator[tuple[Codes, Codes, NDArray[np.int64], Problems]]:
        """Origins, destinations, jobs by combination of segments, and rows that cannot be read."""
        columns = self.segment_columns(partitions)
        size = math.prod(len(one.columns) for one in partitions)
        for batch in self._reader.batches([*self.columns, *columns]):
            (origins, destinations, jobs), bad = self._coded_rows(batch)
            own = [batch.column(len(self.columns) + number) for number in range(len(columns))]
            if jobs is None:
                segments = _one_each(own, partitions, bad)
            else:
                parts = [_whole_jobs(one, name, bad) for one, name in zip(own, columns, strict=True)]
                segments = np.zeros((0, size), dtype=np.int64) if bad else np.stack(parts, axis=1).astype(np.int64)
                if not bad and (rows := int((segments.sum(axis=1) != jobs).sum())):
                    bad[NOT_ADDING_UP.format(names=", ".join(columns), name=self._jobs)] += rows
            yield origins, destinations, segments, bad

    def flows(self) -> Flows:
        """Every pair with its jobs, by destination; the first call reads and checks the whole table."""
        if self._flows is None:
            self._flows = self._read()
            self._lookup = _Lookup(self.places)  # what was looked up in is not needed any more: 12 bytes for each place
        return self._flows

    def _read(self) -> Flows:
        in_order = self._read_in_order()
        if in_order is not None:
            return in_order
        count = len(self.places)
        sizes = np.zeros(count, dtype=np.int64)
        kept: list[tuple[Codes, Codes, Codes | None]] | None = []
        held = 0
        for origins, destinations, jobs in self.coded_batches():
            sizes += np.bincount(destinations, minlength=count)
            held += len(origins)
            if kept is not None:
                kept.append((origins, destinations, jobs))
                if held > KEPT_ROWS:
                    kept = None  # too many to hold twice, so they are read again
        starts = np.concatenate(([0], np.cumsum(sizes)))
        origin_of, jobs_of = np.empty(held, dtype=np.int32), np.ones(held, dtype=np.int32)
        following = starts[:-1].copy()
        for origins, destinations, jobs in kept if kept is not None else self.coded_batches():
            order = np.argsort(destinations, kind="stable")
            sorted_places = destinations[order]
            first = np.searchsorted(sorted_places, sorted_places, side="left")
            where = following[sorted_places] + (np.arange(len(order)) - first)
            origin_of[where] = origins[order]
            if jobs is not None:
                jobs_of[where] = jobs[order]
            following += np.bincount(destinations, minlength=count)
        return merged(self.places, starts, origin_of, jobs_of, counted=self.counted)

    def _read_in_order(self) -> Flows | None:
        """The flows of a file that lists each pair once, by destination and origin, in one pass; else nothing."""
        if self._reader.rows is None or self._jobs is None:
            return None
        origin_of, jobs_of = (np.empty(self._reader.rows, dtype=np.int32) for _ in range(2))
        ends = np.zeros(len(self.places) + 1, dtype=np.int64)
        filled, last = 0, -1
        for origins, destinations, jobs in self.coded_batches():
            keys = destinations.astype(np.int64) * len(self.places) + origins
            if len(keys) == 0:
                continue
            if keys[0] <= last or not (keys[1:] > keys[:-1]).all() or jobs is None:
                return None
            last = int(keys[-1])
            origin_of[filled : filled + len(keys)] = origins
            jobs_of[filled : filled + len(keys)] = jobs
            filled += len(keys)
            first = int(destinations[0])
            ends[first + 1 : int(destinations[-1]) + 2] += np.bincount(destinations - first)
        return Flows(places=self.places, _starts=np.cumsum(ends), _origins=origin_of[:filled], _jobs=jobs_of[:filled])

    def coded_batches(self, problems: Problems | None = None) -> Iterator[tuple[Codes, Codes, Codes | None]]:
        """Codes of origins and destinations, and jobs if rows are counted pairs; in the order of the rows.

        Rows that cannot be read are counted over the whole table and then refused, or left to the caller of
        ``problems``.
        """
        found: Problems = Counter() if problems is None else problems
        for coded, bad in in_order(self._coded, self._reader.batches(self.columns)):
            found.update(bad)
            if not found:  # the codes of a table that will be refused are not needed
                yield coded
        if problems is None:
            refuse(found)

    def _coded(self, batch: pa.RecordBatch) -> tuple[tuple[Codes, Codes, Codes | None], Problems]:
        (origins, destinations, jobs), bad = self._coded_rows(batch)
        if bad or jobs is None:
            return (origins, destinations, jobs), bad
        some = jobs > 0  # a pair counted as 0 says nothing
        return ((origins, destinations, jobs) if some.all() else (origins[some], destinations[some], jobs[some])), bad

    def _coded_rows(self, batch: pa.RecordBatch) -> tuple[tuple[Codes, Codes, Codes | None], Problems]:
        """The codes and jobs of all rows, those of no jobs too."""
        bad: Problems = Counter()
        origins = self._lookup.codes(batch.column(0), self._origin, bad, homes=True)
        destinations = self._lookup.codes(batch.column(1), self._destination, bad)
        if self.places.outside is not None and (away := int(self.places.outside[destinations].sum())):
            bad[WORK_OUTSIDE.format(name=self._destination)] += away
        if self._jobs is None:
            return (origins, destinations, None), bad
        return (origins, destinations, _whole_jobs(batch.column(2), self._jobs, bad)), bad


KEPT_ROWS = 20_000_000


def refuse_repeated(rows: int) -> None:
    """Raises if any row of counted pairs names a pair that another row has counted; ``rows`` is their number."""
    if rows:
        raise InputError(
            f"{rows:,} row(s) of the commutes give jobs for a pair of places that another row gives jobs for. Which is "
            "right cannot be known here: leave one out, or add them up (values are confidential and not shown)."
        )


def merged(places: Places, starts: NDArray[np.int64], origins: Codes, jobs: Codes, *, counted: bool = False) -> Flows:
    """Flows with the pairs of each destination sorted by origin. Workers of the same pair are added up; where rows are
    ``counted`` pairs, each may be there once, unless the home is a place outside."""
    destinations = np.repeat(np.arange(len(places), dtype=np.int32), np.diff(starts))
    same_place = destinations[1:] == destinations[:-1]
    if not (~same_place | (origins[1:] > origins[:-1])).all():
        order = np.lexsort((origins, destinations))
        origins, jobs, destinations = origins[order], jobs[order], destinations[order]
        new = np.ones(len(origins), dtype=bool)
        new[1:] = (destinations[1:] != destinations[:-1]) | (origins[1:] != origins[:-1])
        first = np.flatnonzero(new)
        if counted:  # several homes outside are one place, so their rows are added up
            twice = ~new if places.outside is None else ~new & ~places.outside[origins]
            refuse_repeated(int(twice.sum()))
        summed = np.add.reduceat(jobs.astype(np.int64), first) if len(first) else np.empty(0, dtype=np.int64)
        if len(summed) and summed.max() > MOST_JOBS:
            raise InputError(f"a pair has more than {MOST_JOBS:,} jobs, which is more than can be counted here.")
        origins, jobs, destinations = origins[first], summed.astype(np.int32), destinations[first]
    counts = np.bincount(destinations, minlength=len(places)) if len(destinations) else np.zeros(len(places), np.int64)
    return Flows(
        places=places,
        _starts=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        _origins=origins.astype(np.int32, copy=False),
        _jobs=jobs.astype(np.int32, copy=False),
    )


class _Lookup:
    """From ids to codes. The search for a number starts where the last was found; texts are looked up once a batch."""

    def __init__(self, places: Places) -> None:
        self._ids = places.ids
        outside = np.flatnonzero(np.zeros(len(places), bool) if places.outside is None else places.outside)
        self._outside = outside.astype(np.int32)  # by increasing id, as places are
        self._numbers: tuple[NDArray[np.int64], Codes] | None = None
        self._lock = threading.Lock()  # the table of numbers is made once, whichever thread needs it first

    def codes(self, column: pa.Array, name: str, bad: Problems, *, homes: bool = False) -> Codes:
        """The codes of a column; rows without a known place are counted in ``bad``, and their codes mean nothing. A
        home that is not among the places may be at a place outside."""
        unknown_here = NO_KNOWN_HOME if homes and not len(self._outside) else NO_KNOWN_PLACE
        if column.null_count:
            bad[NO_PLACE.format(name=name)] += column.null_count
            column = column.drop_null()
        if pa.types.is_integer(column.type):
            return self._by_number(column.to_numpy(zero_copy_only=False), name, bad, homes=homes)
        encoded = column if pa.types.is_dictionary(column.type) else None
        if encoded is None:
            if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
                raise InputError(f"column '{name}' of the commutes must be {PLACE_TYPES}, not {column.type}.")
            encoded = column.dictionary_encode()
        if pa.types.is_integer(encoded.dictionary.type):
            return self._by_number(encoded.dictionary_decode().to_numpy(zero_copy_only=False), name, bad, homes=homes)
        used = encoded.indices.to_numpy(zero_copy_only=False)
        distinct = fixed_width(encoded.dictionary, name)
        found, known = self._found(distinct, homes=homes)
        if unknown := int((~known[used]).sum()):
            bad[unknown_here.format(name=name)] += unknown
        codes: Codes = found[used]
        return codes

    def _found(self, distinct: NDArray[np.bytes_], *, homes: bool) -> tuple[Codes, NDArray[np.bool_]]:
        """The codes of ids, and which of them are known."""
        found = np.minimum(np.searchsorted(self._ids, distinct), len(self._ids) - 1).astype(np.int32)
        known = self._ids[found] == distinct
        if homes and len(self._outside):
            ids = self._ids[self._outside]
            ids = ids.astype(f"S{int(np.char.str_len(ids).max())}")
            begins = distinct.astype(ids.dtype)  # cut to the length of the ids outside
            at = np.minimum(np.searchsorted(ids, begins), len(ids) - 1)
            away = ~known & (ids[at] == begins)
            found, known = np.where(away, self._outside[at], found), known | away
        return found, known

    def _by_number(self, numbers: NDArray[Any], name: str, bad: Problems, *, homes: bool = False) -> Codes:
        from understudy.commutes.source.places_compiled import codes_of

        if homes and len(self._outside):  # ids are numbers that lost their leading zeros, and how they begin matters
            inside = np.delete(self._ids, self._outside)
            distinct, which = np.unique(numbers, return_inverse=True)
            width = int(np.char.str_len(inside).max())
            found, known = self._found(np.char.zfill(distinct.astype("S"), width), homes=True)
            unknown = int((~known[which]).sum())
            found = found[which]
        else:
            with self._lock:
                numbered = self._as_numbers(name)
            found, unknown = codes_of(numbers.astype(np.int64, copy=False), *numbered)
        if unknown:
            bad[(NO_KNOWN_HOME if homes and not len(self._outside) else NO_KNOWN_PLACE).format(name=name)] += unknown
        return found

    def _as_numbers(self, name: str) -> tuple[NDArray[np.int64], Codes]:
        if self._numbers is None:
            try:
                numbers = self._ids.astype(np.int64)
            except (ValueError, OverflowError):
                raise InputError(
                    f"column '{name}' of the commutes holds numbers, but the ids of the places are texts; make it text."
                ) from None
            order = np.argsort(numbers, kind="stable")
            keys = numbers[order]
            if (keys[1:] == keys[:-1]).any():
                raise InputError(
                    f"column '{name}' of the commutes holds numbers, and several ids of places read as the same "
                    "number; make it text."
                )
            self._numbers = keys, order.astype(np.int32)
        return self._numbers


def refuse(problems: Problems) -> None:
    """Raises what is wrong with rows, with their number in the whole table. Values are confidential and not shown."""
    if problems:
        told = "; ".join(f"{what.replace('ROWS', f'{rows:,} row(s)')}" for what, rows in sorted(problems.items()))
        raise InputError(f"{told} (values are confidential and not shown).")


def _one_each(columns: list[pa.Array], partitions: tuple[Partition, ...], bad: Problems) -> NDArray[np.int64]:
    """A 1 for each row, in the combination of segments that its columns name; other values are counted in ``bad``."""
    combination = np.zeros(len(columns[0]), dtype=np.int64)
    for column, one in zip(columns, partitions, strict=True):
        text = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        found = pc.index_in(text.cast(pa.string()), pa.array(one.columns))
        if rows := found.null_count:
            bad[NO_SEGMENT.format(name=one.name, segments=", ".join(one.columns))] += rows
        combination = combination * len(one.columns) + pc.fill_null(found, 0).to_numpy(zero_copy_only=False)
    segments = np.zeros((len(combination), math.prod(len(one.columns) for one in partitions)), dtype=np.int64)
    segments[np.arange(len(combination)), combination] = 1
    return segments


def _whole_jobs(column: pa.Array, name: str, bad: Problems) -> Codes:
    """Numbers of jobs. Rows without a valid number are counted in ``bad``, and their numbers mean nothing."""
    if column.null_count:
        bad[NO_JOBS.format(name=name)] += column.null_count
        column = column.drop_null()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):  # a CSV
        column = pc.utf8_trim_whitespace(column)
        numbers = pc.match_substring_regex(column, NUMBER)
        if not_numbers := len(column) - (pc.sum(numbers).as_py() or 0):
            bad[NOT_NUMBERS.format(name=name)] += not_numbers
            column = column.filter(numbers)
        column = column.cast(pa.float64())
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise InputError(f"column '{name}' of the commutes must be whole numbers, not {column.type}.")
    values = column.to_numpy(zero_copy_only=False)
    whole = (
        np.isfinite(values) & (values == np.floor(values)) if values.dtype.kind == "f" else np.ones(len(values), bool)
    )
    for what, wrong in (
        (NOT_WHOLE, ~whole),
        (NEGATIVE, whole & (values < 0)),
        (TOO_MANY, whole & (values > MOST_JOBS)),
    ):
        if rows := int(wrong.sum()):
            bad[what.format(name=name)] += rows
    return np.zeros(len(values), dtype=np.int32) if bad else np.asarray(values, dtype=np.int32)


def open_commutes(
    data: Any,
    *,
    places: Any,
    outside: str | None = None,
    engine: str | None = None,
    master: str | None = None,
    allow_insecure_cluster: bool = False,
    **reading: Any,
) -> FlowSource:
    """Open a confidential commuting table against public places. The protected unit is a job.

    Parameters
    ----------
    data
        A file, a list of files, a glob or an Arrow frame with ``origin`` and ``destination`` (or LODES' ``h_geocode``
        and ``w_geocode``). With ``jobs`` (or ``S000``) rows are counted pairs, without it each row is one worker.
    places
        What ``read_places`` gives, or a file or frame that it reads.
    outside
        ``state``: homes in other states are homes too, as in ``read_places``.
    engine
        What counts: left out, or ``spark``.
    master
        Where Spark is (``local[*]``, ``spark://host:7077``); left out in a running session and under spark-submit.
    allow_insecure_cluster
        Let keys and rows travel over a cluster without encryption.
    **reading
        How files are written, as in ``open_source``.

    Returns
    -------
    FlowSource
        The opened table. Confidential.

    Raises
    ------
    InputError
        If the columns are not there, or options do not go with the engine.
    UnknownNameError
        If there is no such engine.

    Examples
    --------
    >>> import understudy as us
    >>> from understudy.demo.commuters import make_world
    >>> world = make_world("town", seed=1)
    >>> us.open_commutes(world.flows_table(), places=world.places)
    CommuteSource(400 places, confidential)
    """
    from understudy.engines.systems.spark.inputs import is_spark_frame

    if engine == "spark" or (engine is None and is_spark_frame(data)):
        from understudy.commutes.source.spark import open_spark_commutes

        return open_spark_commutes(
            data,
            places=read_places(places, outside=outside),
            master=master,
            allow_insecure_cluster=allow_insecure_cluster,
            **reading,
        )
    if engine not in (None, "local"):
        raise unknown_name("engine", engine, ("local", "spark"))
    if master is not None or allow_insecure_cluster:
        raise InputError("master and allow_insecure_cluster go with engine 'spark'.")
    unit_id = reading.pop("unit_id", None)
    reader = open_reader(data, names=("origin", "destination"), **reading)
    return CommuteSource(reader, read_places(places, outside=outside), unit_id=unit_id)
