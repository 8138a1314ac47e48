"""Who commutes where: confidential counts of jobs from origin to destination. Only the gate may hold them.

The pairs of a destination lie together, so that a method that works destination by destination reads memory in order;
a nation's 140 million jobs take about a gigabyte.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Integers
from understudy.core.counts import COVERS
from understudy.core.places import Places
from understudy.errors import DisclosureError, InternalError

PAIRS_AT_ONCE = 2**16


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Segments of which every job is in exactly one: columns of counted pairs, or where a row is one job the values of
    the column that has the partition's name."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Flows:
    """The non-empty pairs of origin and destination, by the code of the destination and then of the origin.

    The pairs of destination d are those from ``starts[d]`` to ``starts[d + 1]``. Which pairs are listed is itself
    confidential: a mechanism gets them only if its law covers every pair of the public domain.
    """

    places: Places
    _starts: Integers
    _origins: NDArray[np.int32]
    _jobs: NDArray[np.int32]

    def __post_init__(self) -> None:
        if len(self._starts) != len(self.places) + 1 or len(self._origins) != len(self._jobs):
            raise InternalError("flows need one start per place and one count per pair.")

    def __repr__(self) -> str:
        return "Flows(origin x destination, confidential)"

    def __reduce__(self) -> tuple[object, ...]:
        raise DisclosureError("counts are confidential and cannot be saved; measure them through the gate.")

    def total(self) -> int:
        return int(self._jobs.sum(dtype=np.int64))

    def sizes(self) -> Integers:
        """Jobs at each destination: confidential too, unless the unit fixes the destination."""
        sizes = np.zeros(len(self.places), dtype=np.int64)
        filled = np.flatnonzero(self._starts[1:] > self._starts[:-1])
        if len(filled):  # sums of runs, so that no running sum of the whole table is held
            sizes[filled] = np.add.reduceat(self._jobs, self._starts[filled], dtype=np.int64)
        return sizes

    def confidential_pairs(self) -> tuple[NDArray[np.int32], Integers, NDArray[np.int32]]:
        """Origin, destination and jobs of every pair, for an evaluation inside the building: what is computed from
        them is internal."""
        destinations = np.repeat(np.arange(len(self.places)), np.diff(self._starts))
        return self._origins, destinations, self._jobs

    def confidential_pieces(self) -> Iterator[tuple[NDArray[np.int32], Integers, NDArray[np.int32]]]:
        """The same, some pairs at a time: without a column of destinations as long as the table."""
        for begin in range(0, len(self._origins), PAIRS_AT_ONCE):
            end = min(begin + PAIRS_AT_ONCE, len(self._origins))
            first, last = np.searchsorted(self._starts, [begin, end - 1], side="right") - 1
            bounds = self._starts[first : last + 2].clip(begin, end)
            destinations = np.repeat(np.arange(first, last + 1), np.diff(bounds))
            yield self._origins[begin:end], destinations, self._jobs[begin:end]

    def open_for(self, mechanism: object) -> tuple[Integers, NDArray[np.int32], NDArray[np.int32]]:
        """Starts, origins and jobs, for a mechanism whose law covers every pair of the public domain."""
        if getattr(mechanism, "covers", None) not in COVERS:
            raise DisclosureError(
                f"{type(mechanism).__name__} would add noise to the listed pairs only, which reveals which pairs are "
                "not empty. Use a mechanism over the whole domain."
            )
        return self._starts, self._origins, self._jobs


class FlowSource(Protocol):
    """A confidential commuting table that can be counted by destination and origin."""

    places: Places
    """The public places between which people commute."""

    def total(self) -> int:
        """Count all jobs. Confidential.

        Returns
        -------
        int
            The number of jobs.
        """
        ...

    def flows(self) -> Flows:
        """Count the jobs of every pair of origin and destination. Confidential: for the gate alone.

        Returns
        -------
        Flows
            The non-empty pairs.
        """
        ...

    def identify(self, key: bytes) -> None:
        """Know the jobs by this key from now on.

        Parameters
        ----------
        key
            The secret key of the run.
        """
        ...

    def fingerprint(self) -> str:
        """Give the keyed sum over all jobs, the same on every engine. Confidential.

        Returns
        -------
        str
            The sum as hexadecimal text.
        """
        ...
