"""What a gate asks of commutes, destination by destination: here in memory, or wherever the rows are.

Every draw of a destination is named by (purpose, copy, destination): its words do not depend on which destinations are
drawn beside it, so blocks may be cut and divided among machines as one likes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from understudy.core.arrays import Codes, Integers
from understudy.core.flows import Flows
from understudy.core.mechanism import Stream
from understudy.core.threads import in_order
from understudy.errors import InternalError
from understudy.privacy.mechanisms.flow_draws import Block, FlowMechanism, substream_key

if TYPE_CHECKING:
    from understudy.privacy.gate.flow_gate import FlowTable, Regions
    from understudy.privacy.mechanisms.sparse_geometric import SparseGeometric

Drawn = tuple[Codes, Codes, Integers]  # origins, destinations, jobs
BLOCK_ROWS = 500_000  # synthetic jobs made at a time
BLOCK_PLACES = 500_000
BLOCK_FILLED = 8_192  # destinations with rows: what each sees around it is kept while its block is drawn


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DrawOrder:
    """What is to be drawn: ``rows`` for every place, over ``cells`` public cells, ``elsewhere`` included. It is public,
    and it is what the draw was charged for."""

    mechanism: FlowMechanism
    regions: Regions
    rows: Integers
    cells: Integers
    purpose: tuple[str | int, ...]
    drop_elsewhere: bool = False

    def blocks(self) -> list[tuple[int, int]]:
        """Runs of destinations with about as many rows each."""
        return cut_blocks(self.rows)

    def inside(self, first: int, last: int) -> Integers:
        return np.asarray(np.flatnonzero(self.rows[first:last]) + first)

    def draw(self, destinations: Integers, starts: Integers, origins: Codes, jobs: Codes, stream: Stream) -> Drawn:
        """Synthetic commutes of some destinations from their pairs, which lie at starts[d]:starts[d + 1]."""
        around = self.regions.around(destinations)
        if not np.array_equal(around.domains, self.cells[destinations]):
            raise InternalError("a division has other cells than the draw was charged for; nothing was drawn.")
        block = Block(
            destinations=destinations,
            starts=starts,
            cells=around.encode(starts, origins),
            jobs=jobs,
            rows=self.rows[destinations],
        )
        drawn = self.mechanism.draw(block, around.domains, stream, *self.purpose)
        row_starts = np.concatenate(([0], np.cumsum(block.rows)))
        place_key = substream_key(stream, *self.purpose, "place")
        handed = np.concatenate(([0], np.cumsum(self.mechanism.handed(block.rows))))
        homes = around.place(row_starts, drawn, place_key, handed)
        return _counted(destinations, row_starts, homes, drop_elsewhere=self.drop_elsewhere)


@runtime_checkable
class FlowWorker(Protocol):
    """Commutes that can be counted and drawn where they are. Only the gate may ask."""

    def total(self) -> int: ...

    def sizes(self) -> Integers: ...

    def count(self, table: FlowTable) -> Integers: ...

    def draw_sparse(
        self, table: FlowTable, noise: SparseGeometric, stream: Stream, purpose: tuple[str | int, ...]
    ) -> tuple[Integers, Integers]:
        """Cells of a classification that noise over all of its cells brings above a threshold, with noisy counts."""
        ...

    def draw_blocks(self, order: DrawOrder, stream: Stream) -> Iterator[Drawn]:
        """Every block of an order, by destination."""
        ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LocalFlows:
    """Commutes in the memory of this process. Blocks are counted and drawn in threads, by default one per processor:
    what is drawn does not depend on their number."""

    flows: Flows
    threads: int | None = None

    def total(self) -> int:
        return self.flows.total()

    def sizes(self) -> Integers:
        return self.flows.sizes()

    def count(self, table: FlowTable) -> Integers:
        from understudy.privacy.gate.adding_compiled import add_jobs

        starts, origins, jobs = self.flows.open_for(_EveryCell)

        def classified(block: tuple[int, int]) -> tuple[Integers, Codes]:
            first, last = block
            pairs = slice(int(starts[first]), int(starts[last]))
            destinations = np.repeat(np.arange(first, last, dtype=np.int32), np.diff(starts[first : last + 1]))
            return table.classify(origins[pairs], destinations), jobs[pairs]

        counts = np.zeros(table.cells, dtype=np.int64)
        for classes, own in in_order(classified, cut_blocks(np.diff(starts)), self.threads):
            if not add_jobs(classes, own, counts):
                raise InternalError("a job is in a class that its table does not have.")
        return counts

    def draw_sparse(
        self, table: FlowTable, noise: SparseGeometric, stream: Stream, purpose: tuple[str | int, ...]
    ) -> tuple[Integers, Integers]:
        counts = self.count(table)
        filled = np.flatnonzero(counts)
        return noise.draw_parts(filled, counts[filled], stream, *purpose)

    def draw_blocks(self, order: DrawOrder, stream: Stream) -> Iterator[Drawn]:
        starts, origins, jobs = self.flows.open_for(order.mechanism)

        def drawn(block: tuple[int, int]) -> Drawn | None:
            inside = order.inside(*block)
            if len(inside) == 0:
                return None
            own_starts = np.concatenate(([0], np.cumsum(starts[inside + 1] - starts[inside])))
            pairs = np.repeat(starts[inside] - own_starts[:-1], np.diff(own_starts)) + np.arange(own_starts[-1])
            return order.draw(inside, own_starts, origins[pairs], jobs[pairs], stream)

        yield from (part for part in in_order(drawn, order.blocks(), self.threads) if part is not None)


class _EveryCell:
    """Counting into classes covers every cell of the classification, empty ones included."""

    covers = "whole_domain"


def cut_blocks(weights: Integers) -> list[tuple[int, int]]:
    """Runs of destinations with about as many rows each; their cuts depend on ``weights``, which are public here or
    stay inside the gate."""
    ends, filled = np.cumsum(weights), np.cumsum(weights > 0)
    blocks, first = [], 0
    while first < len(weights):
        before, filled_before = (int(ends[first - 1]), int(filled[first - 1])) if first else (0, 0)
        last = int(np.searchsorted(ends, before + BLOCK_ROWS, side="right"))
        last = min(last, int(np.searchsorted(filled, filled_before + BLOCK_FILLED, side="right")))
        last = min(max(last, first + 1), first + BLOCK_PLACES, len(weights))
        blocks.append((first, last))
        first = last
    return blocks


def _counted(destinations: Integers, starts: Integers, homes: Codes, *, drop_elsewhere: bool) -> Drawn:
    """Rows of the same pair added up, by destination and then origin."""
    number = np.repeat(np.arange(len(destinations), dtype=np.int64), np.diff(starts))
    keys = (number << 32) | (homes.astype(np.int64) + 1)  # elsewhere is -1 and comes first
    if drop_elsewhere:
        keys = keys[homes >= 0]
    keys.sort()
    new = np.ones(len(keys), dtype=bool)
    new[1:] = keys[1:] != keys[:-1]
    first = np.flatnonzero(new)
    jobs = np.diff(np.append(first, len(keys)))
    kept = keys[first]
    return (
        ((kept & 0xFFFFFFFF) - 1).astype(np.int32),
        destinations[kept >> 32].astype(np.int32),
        jobs.astype(np.int64),
    )
