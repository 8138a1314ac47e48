"""Draws of synthetic commutes, destination by destination: what a mechanism is, and the two urns.

The destination is fixed, so neighbours differ in one destination only; each destination's draw depends on its own
records and its own substream. See docs/theory/commute.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from understudy.core.exact import to_text
from understudy.core.mechanism import Stream
from understudy.errors import InternalError, UnsupportedError
from understudy.privacy.commute_prior import SizedPrior
from understudy.privacy.draws import indexed_words
from understudy.privacy.event import Event

Integers = NDArray[np.int64]
RETAIN_BITS = 32
MOST_WORDS = 2**31


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Block:
    """The records of some destinations, each with its cell: confidential. Pairs of d lie at starts[d]:starts[d+1]."""

    destinations: Integers
    starts: Integers
    cells: Integers
    jobs: NDArray[np.int32]
    rows: Integers  # to draw for each destination

    def __repr__(self) -> str:
        return "Block(confidential)"


class FlowMechanism(Protocol):
    """A draw over the cells of each destination. ``event`` is for all destinations together."""

    name: ClassVar[str]
    covers: ClassVar[str]

    @property
    def event(self) -> Event: ...

    def draw(self, block: Block, domains: Integers, stream: Stream, *purpose: str | int) -> Integers:
        """The cell of each drawn row, sorted within each destination."""
        ...

    def to_json(self) -> dict[str, Any]: ...


def substream_key(stream: Any, *purpose: str | int) -> bytes:
    """A key for one purpose, never written anywhere. It is the same at every call: words are told apart by destination,
    so that it does not matter in which blocks, in which order or where destinations are drawn."""
    key: bytes = stream.derived_key(*purpose)
    return key


def _run_until_done(
    block: Block, key: bytes, states: NDArray[np.int8], needed: Integers, run: Callable[..., None]
) -> None:
    """Runs the loop, and again with more words of the same substreams for destinations that ran out."""
    while states.any():
        open_ones = states != 0
        counts = np.where(open_ones, needed, 0)
        if int(counts.max()) > MOST_WORDS:
            raise UnsupportedError("a destination needs too many random words; use a larger f or a coarser domain.")
        words, starts = indexed_words(key, block.destinations, counts)
        run(words, starts, counts, states)
        needed = np.where(open_ones, needed * 2 + 64, needed)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellUrn:
    """Dirichlet-multinomial draws over the cells of a public partition (Machanavajjhala et al. 2008, Algorithm 1).

    The prior of a destination is a function of its public number of records. Coarsening by public data keeps the
    guarantee (Theorem 5.1), and over fixed destinations the maximum holds for pure and approximate privacy.
    """

    priors: SizedPrior
    event: Event
    name: ClassVar[str] = "commute_urn"
    covers: ClassVar[str] = "whole_domain"

    def draw(self, block: Block, domains: Integers, stream: Stream, *purpose: str | int) -> Integers:
        from understudy.privacy import urn_compiled as loops

        _, weights, shifts = self.priors.of(block.rows)
        prefix = np.concatenate(([0], np.cumsum(block.jobs, dtype=np.int64)))
        row_starts = np.concatenate(([0], np.cumsum(block.rows)))
        _check_fits(domains, weights, shifts, np.diff(prefix[block.starts]), block.rows)
        drawn = np.empty(int(row_starts[-1]), dtype=np.int64)
        states = np.full(len(block.rows), loops.MORE_WORDS, dtype=np.int8)

        def run(words: Any, word_starts: Any, counts: Any, states: Any) -> None:
            loops.urns(
                block.starts, block.cells, prefix, domains, weights, shifts, block.rows, row_starts,
                words, word_starts, counts, drawn, states,
            )  # fmt: skip

        _run_until_done(block, substream_key(stream, *purpose, "urn"), states, block.rows + 2, run)
        return drawn

    def to_json(self) -> dict[str, Any]:
        return {"mechanism": self.name, **self.priors.to_json()}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShrunkUrn:
    """Algorithm 2, then Algorithm 1, over single places: empty places stay in the domain with a public probability.

    ``keeps`` are multiples of 2^-32, one per band of squared distance (``edges``, the last band endless); 0 means that
    the place is not in the domain (its workers are in the cell ``elsewhere``). The retained domain is never made.
    """

    priors: SizedPrior
    event: Event
    points: NDArray[np.float64]
    edges: NDArray[np.float64]
    keeps: NDArray[np.uint64]
    elsewhere: bool
    name: ClassVar[str] = "commute_shrunk_urn"
    covers: ClassVar[str] = "whole_domain"

    def draw(self, block: Block, domains: Integers, stream: Stream, *purpose: str | int) -> Integers:  # noqa: ARG002
        from understudy.privacy import urn_compiled as loops

        _, weights, shifts = self.priors.of(block.rows)
        prefix = np.concatenate(([0], np.cumsum(block.jobs, dtype=np.int64)))
        records = np.diff(prefix[block.starts])
        row_starts = np.concatenate(([0], np.cumsum(block.rows)))
        everything = np.full(len(block.rows), len(self.points) + int(self.elsewhere), dtype=np.int64)
        _check_fits(everything, weights, shifts, records, block.rows)
        drawn = np.empty(int(row_starts[-1]), dtype=np.int64)
        states = np.full(len(block.rows), loops.MORE_WORDS, dtype=np.int8)
        tries = everything * (weights / 2.0**shifts) / np.maximum(records, 1) + 1
        needed = np.minimum(block.rows * (tries * 0.25 + 2) + 64, 2.0**24).astype(np.int64)
        memory = [1 << 12]

        def run(words: Any, word_starts: Any, counts: Any, states: Any) -> None:
            while True:
                known, owners = np.empty(memory[0], np.int64), np.zeros(memory[0], np.int64)
                loops.shrunk_urns(
                    block.starts, block.cells, prefix, block.destinations, self.points, self.edges, self.keeps,
                    int(self.elsewhere), weights, shifts, block.rows, row_starts, words, word_starts, counts,
                    known, owners, np.empty(memory[0], np.bool_), drawn, states,
                )  # fmt: skip
                if not (states == loops.MORE_MEMORY).any():
                    return
                states[states == loops.MORE_MEMORY] = loops.MORE_WORDS
                memory[0] *= 8

        _run_until_done(block, substream_key(stream, *purpose, "urn"), states, needed, run)
        return drawn

    def to_json(self) -> dict[str, Any]:
        return {
            "mechanism": self.name, **self.priors.to_json(),
            "band_edges_miles": [round(float(np.sqrt(edge)), 6) for edge in self.edges],
            "retained_share_of_2^32": [int(keep) for keep in self.keeps], "elsewhere": self.elsewhere,
        }  # fmt: skip


def _check_fits(domains: Integers, weights: Integers, shifts: Integers, records: Integers, rows: Integers) -> None:
    """The urn's whole numbers must fit in 63 bits; priors have 16 digits, so this is far away."""
    largest = domains.astype(float) * weights + (records + rows).astype(float) * 2.0**shifts
    if len(largest) and float(largest.max()) >= 2.0**63:
        raise InternalError("an urn of this size does not fit in 64 bits.")


def describe(mechanisms: Sequence[FlowMechanism]) -> list[dict[str, Any]]:
    """The public parameters of some mechanisms, for a manifest."""
    return [mechanism.to_json() for mechanism in mechanisms]


__all__ = ["Block", "CellUrn", "FlowMechanism", "ShrunkUrn", "describe", "substream_key", "to_text"]
