"""Other draws over the cells of a destination: accept/reject, and geometric noise as a baseline."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from understudy.core.apportion import apportion
from understudy.core.arrays import Integers
from understudy.core.exact_numbers import to_text
from understudy.core.mechanism import Stream
from understudy.errors import BudgetError, UnsupportedError
from understudy.privacy.mechanisms.draw_facts import FlowFacts
from understudy.privacy.mechanisms.flow_draws import Block, CellUrn, claimed_loss, drawn_laws, too_costly
from understudy.privacy.mechanisms.preconditions import exact_is_known, lemma_5_2_holds
from understudy.privacy.promise.event import ApproxLoss, Event, GeometricNoise
from understudy.privacy.randomness.keyed_noise import ListedCells

MOST_TRIES = 1_000
CELLS_AT_ONCE = 2**21  # that get their noise together


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptingUrn:
    """A draw repeated until it is gamma-good for its records (Section V-A, Lemma 5.2).

    gamma-good: no cell has more than gamma (a + max(n_i - 1, 0)) rows, for the records or for the records with one of
    them moved. How often a draw was repeated stays unknown.
    """

    urn: CellUrn
    gamma: float
    name: ClassVar[str] = "commute_accept_reject"
    covers: ClassVar[str] = "whole_domain"

    def event_for(self, facts: FlowFacts) -> Event:
        """Lemma 5.2 for every kind of destination by itself: more records need not be less likely to breach."""
        claim = self.urn.claim
        loss = claimed_loss(claim, self.name)
        if not isinstance(loss, ApproxLoss) or facts.records is None or not exact_is_known(facts.unit):
            raise BudgetError("accept/reject is proved for public sizes, one job per unit and an approximate budget.")
        for law in drawn_laws(self.urn.priors, facts, each=True):
            assert law.records is not None  # noqa: S101 - checked above
            if not lemma_5_2_holds(
                loss, gamma=self.gamma, prior=law.prior, cells=law.cells, records=law.records, rows=law.rows
            ):
                raise too_costly(claim, law)
        return claim

    def draw(self, block: Block, domains: Integers, stream: Stream, *purpose: str | int) -> Integers:
        drawn = self.urn.draw(block, domains, stream, *purpose, "try", 0)
        row_starts = np.concatenate(([0], np.cumsum(block.rows)))
        waiting = [
            d for d in range(len(block.rows)) if not self._good(block, d, drawn[row_starts[d] : row_starts[d + 1]])
        ]
        for attempt in range(1, MOST_TRIES):
            if not waiting:
                return drawn
            again = []
            for d in waiting:
                one = block.part(np.array([d]))
                rows = self.urn.draw(one, domains[d : d + 1], stream, *purpose, "try", attempt)
                if self._good(one, 0, rows):
                    drawn[row_starts[d] : row_starts[d + 1]] = rows
                else:
                    again.append(d)
            waiting = again
        raise UnsupportedError("no acceptable draw was found; use a larger epsilon, or leave accept/reject out.")

    def handed(self, rows: Integers) -> Integers:
        return self.urn.handed(rows)

    def _good(self, block: Block, d: int, rows: Integers) -> bool:
        cells = block.cells[block.starts[d] : block.starts[d + 1]]
        jobs = block.jobs[block.starts[d] : block.starts[d + 1]]
        prior = float(self.urn.priors.prior(int(block.rows[d])))
        found, times = np.unique(rows, return_counts=True)
        records: dict[int, int] = {}
        for cell, count in zip(cells.tolist(), jobs.tolist(), strict=True):
            records[cell] = records.get(cell, 0) + count
        limit = {cell: self.gamma * (prior + max(count - 1, 0)) * (1 + 1e-12) for cell, count in records.items()}
        over = [
            (int(cell), int(count))
            for cell, count in zip(found, times, strict=True)
            if count > limit.get(int(cell), self.gamma * prior * (1 + 1e-12))
        ]
        if not over:
            return True
        if len(over) > 1:
            return False
        cell, count = over[0]
        have = records.get(cell, 0)
        if have == 0 or count > self.gamma * (prior + have) * (1 + 1e-12):
            return False  # a first record raises no limit, and one more does not raise this one enough
        drawn = dict(zip(found.tolist(), times.tolist(), strict=True))
        return any(
            drawn.get(other, 0) <= self.gamma * (prior + max(size - 2, 0)) * (1 + 1e-12)
            for other, size in records.items()
            if other != cell
        )

    def to_json(self) -> dict[str, Any]:
        return {**self.urn.to_json(), "mechanism": self.name, "gamma": self.gamma}


def gamma_for(epsilon: Fraction, delta: Fraction) -> float:
    """gamma with ln((gamma + 1) / (1 - delta)) = epsilon, rounded down."""
    return ((1 - float(delta)) * math.exp(float(epsilon)) - 1) * (1 - 1e-12)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyCells:
    """Geometric noise on every cell of every destination, cut off at 0: what Abowd and Vilhuber compare with.

    Released are as many rows as the public number of records, in proportion to the noisy counts. The noise is drawn
    from the keyed stream, by destination and cell, so that it can be drawn where the pairs are.
    """

    scale: Fraction
    name: ClassVar[str] = "commute_geometric"
    covers: ClassVar[str] = "whole_domain"

    def event_for(self, facts: FlowFacts) -> Event:
        """A job moves from one cell of its destination to another; the rows that are released must be public."""
        if facts.records is None:
            raise BudgetError("geometric noise per destination needs public sizes of destinations.")
        return GeometricNoise(l1=Fraction(2 * facts.unit.rows_per_unit), scale=self.scale)

    def handed(self, rows: Integers) -> Integers:
        return rows

    def draw(self, block: Block, domains: Integers, stream: Stream, *purpose: str | int) -> Integers:
        drawn = [np.empty(0, dtype=np.int64)]
        for first, last in _runs(domains):
            kept = np.maximum(self._noisy(block, domains, first, last, stream, *purpose), 0)
            ends = np.cumsum(domains[first:last])
            for cells, rows in zip(np.split(kept, ends[:-1]), block.rows[first:last].tolist(), strict=True):
                shares = apportion(cells if cells.any() else np.ones_like(cells), rows)
                drawn.append(np.repeat(np.arange(len(cells)), shares))
        return np.concatenate(drawn)

    def _noisy(
        self, block: Block, domains: Integers, first: int, last: int, stream: Stream, *purpose: str | int
    ) -> Integers:
        """Noisy counts of all cells of the destinations from ``first`` to ``last``. Whatever else is in the block, a
        destination gets the noise of its own substream."""
        listed = ListedCells(stream, block.destinations[first:last], domains[first:last])
        noisy = listed.discrete_laplace(self.scale, *purpose, "noise")
        pairs = slice(int(block.starts[first]), int(block.starts[last]))
        begin = np.cumsum(domains[first:last]) - domains[first:last]
        where = np.repeat(begin, np.diff(block.starts[first : last + 1])) + block.cells[pairs]
        np.add.at(noisy, where, block.jobs[pairs].astype(np.int64))
        return noisy

    def to_json(self) -> dict[str, Any]:
        return {"mechanism": self.name, "scale": to_text(self.scale)}


def _runs(domains: Integers) -> list[tuple[int, int]]:
    """Runs of destinations with about as many cells each."""
    runs = np.cumsum(domains) // CELLS_AT_ONCE
    cuts = [0, *(np.flatnonzero(np.diff(runs)) + 1).tolist(), len(domains)]
    return [(first, last) for first, last in pairwise(cuts) if first < last]
