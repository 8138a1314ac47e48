"""Draws of synthetic commutes, destination by destination: what a mechanism is, and the two urns.

The destination is fixed, so neighbours differ in one destination only; each destination's draw depends on its own
records and its own substream. See docs/theory/commute.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Integers
from understudy.core.exact_numbers import show_up
from understudy.core.mechanism import Stream
from understudy.errors import BudgetError, InternalError, UnsupportedError
from understudy.privacy.mechanisms.commute_prior import SizedPrior
from understudy.privacy.mechanisms.draw_facts import FlowFacts
from understudy.privacy.mechanisms.place_bands import PlaceBands
from understudy.privacy.mechanisms.preconditions import (
    REPLACE,
    DrawLaw,
    exact_delta_holds,
    exact_is_known,
    loss_of_one_job,
    shrunk_bound,
    theorem_4_1_holds,
    theorem_6_holds,
    theorem_9_holds,
)
from understudy.privacy.promise.event import ApproxLoss, Event, NoNoise, PureLoss, promises_definition_6
from understudy.privacy.randomness.draws import indexed_words

RETAIN_BITS = 32
MOST_WORDS = 2**31
MOST_COUNTED = 200_000  # destinations around which places are counted


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

    def part(self, which: Integers) -> Block:
        """Some of the destinations."""
        lengths = np.diff(self.starts)[which]
        starts = np.concatenate(([0], np.cumsum(lengths)))
        pairs = np.repeat(self.starts[which] - starts[:-1], lengths) + np.arange(starts[-1])
        return Block(
            destinations=self.destinations[which],
            starts=starts,
            cells=self.cells[pairs],
            jobs=self.jobs[pairs],
            rows=self.rows[which],
        )


class FlowMechanism(Protocol):
    """A draw over the cells of each destination."""

    name: ClassVar[str]
    covers: ClassVar[str]

    def event_for(self, facts: FlowFacts) -> Event:
        """What a draw with these facts costs, all destinations together; raises where that is more than was set."""
        ...

    def handed(self, rows: Integers) -> Integers:
        """How many drawn rows are handed on for each destination. What is placed of them are ``rows``."""
        ...

    def draw(self, block: Block, domains: Integers, stream: Stream, *purpose: str | int) -> Integers:
        """The cell of each drawn row, sorted within each destination."""
        ...

    def to_json(self) -> dict[str, Any]: ...


def substream_key(stream: Any, *purpose: str | int) -> bytes:
    """A key for one purpose, never written anywhere. It is the same at every call: words are told apart by destination,
    so that it does not matter in which blocks, in which order or where destinations are drawn."""
    key: bytes = stream.derived_key(*purpose)
    return key


def run_until_done(
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
class DrawnLaw:
    """One prior, and the worst of the destinations that draw with it: the fewest cells and records, the most rows."""

    prior: Fraction
    rows: int
    cells: int
    records: int | None


def drawn_laws(priors: SizedPrior, facts: FlowFacts, *, each: bool = False) -> Iterator[DrawnLaw]:
    """The laws of a draw. Destinations of one step of sizes are taken together, which is sound where fewer rows and
    more cells and records lose less (Theorem 2 of docs/theory/commute.md); with ``each``, every kind stands alone."""
    rows, cells, records = facts.kinds()
    _, weights, shifts = priors.of(rows)
    drawn = rows * priors.times_of(rows)
    groups = np.arange(len(rows)) if each else priors.step_of(rows)
    for group in np.unique(groups):
        inside = np.flatnonzero(groups == group)
        yield DrawnLaw(
            prior=Fraction(int(weights[inside[0]]), 2 ** int(shifts[inside[0]])),
            rows=int(drawn[inside].max()),
            cells=int(cells[inside].min()),
            records=None if records is None else int(records[inside].min()),
        )


def breach_laws(priors: SizedPrior, facts: FlowFacts) -> Iterator[DrawLaw]:
    """What breach probabilities of the raw draw depend on, for each kind of destinations."""
    for law, count in zip(drawn_laws(priors, facts, each=True), facts.counts().tolist(), strict=True):
        if law.records is None:
            raise InternalError("breach probabilities need the public sizes of destinations.")
        yield DrawLaw(law.prior, law.cells, law.records, law.rows, count)


def claimed_loss(claim: Event, name: str) -> PureLoss | ApproxLoss:
    if not isinstance(claim, PureLoss | ApproxLoss):
        raise InternalError(f"'{name}' is set for a loss, not for '{claim.kind}'.")
    return claim


def too_costly(claim: Event, law: DrawnLaw) -> BudgetError:
    """What is said when a draw would lose more than it is charged with. All of it is public."""
    loss = claimed_loss(claim, "a draw")
    promised = f"epsilon = {show_up(loss.epsilon)}"
    promised += f", delta = {show_up(loss.delta)}" if isinstance(loss, ApproxLoss) else ""
    return BudgetError(
        f"a prior of {float(law.prior):g} with {law.rows:,} rows over {law.cells:,} cells costs more than the "
        f"{promised} it is charged with. Nothing was drawn."
    )


def _urn_keeps(loss: PureLoss | ApproxLoss, law: DrawnLaw) -> bool:
    """Theorem 4.1, or the exact delta where sizes are public, or Theorem 6 where they are not."""
    if theorem_4_1_holds(loss.epsilon, prior=law.prior, rows=law.rows, unit=REPLACE):
        return True
    if isinstance(loss, PureLoss):
        return False
    if law.records is None:
        return theorem_6_holds(loss, prior=law.prior, cells=law.cells, rows=law.rows)
    return law.cells < 2 or exact_delta_holds(
        loss, prior=law.prior, cells=law.cells, records=law.records, rows=law.rows
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CellUrn:
    """Dirichlet-multinomial draws over the cells of a public partition (Machanavajjhala et al. 2008, Algorithm 1).

    The prior of a destination is a function of its public number of rows. Coarsening by public data keeps the
    guarantee (Theorem 5.1), and over fixed destinations the maximum holds for pure and approximate privacy. ``claim``
    is the loss that the priors were set for, all destinations together.
    """

    priors: SizedPrior
    claim: Event
    name: ClassVar[str] = "commute_urn"
    covers: ClassVar[str] = "whole_domain"

    def event_for(self, facts: FlowFacts) -> Event:
        if isinstance(self.claim, NoNoise):
            return self.claim
        claim = claimed_loss(self.claim, self.name)
        if isinstance(claim, ApproxLoss) and promises_definition_6(claim):
            return self._definition_6_event(claim, facts)
        loss = loss_of_one_job(claim, facts.unit)
        for law in drawn_laws(self.priors, facts):
            if not _urn_keeps(loss, law):
                raise too_costly(self.claim, law)
        return self.claim

    def _definition_6_event(self, claim: ApproxLoss, facts: FlowFacts) -> Event:
        """Every size and number of cells by itself, and all destinations added up."""
        if not exact_is_known(facts.unit) or facts.records is None:
            raise BudgetError(
                "Definition 6 is proved for one job that is replaced, with public sizes of destinations. Nothing was "
                "drawn."
            )
        if not theorem_9_holds(claim, breach_laws(self.priors, facts)):
            raise BudgetError(
                f"the breach probabilities of all destinations add up to more than the delta = {show_up(claim.delta)} "
                f"they are charged with at epsilon = {show_up(claim.epsilon)}. Nothing was drawn."
            )
        return claim

    def draw(self, block: Block, domains: Integers, stream: Stream, *purpose: str | int) -> Integers:
        from understudy.privacy.mechanisms import urn_compiled as loops

        _, weights, shifts = self.priors.of(block.rows)
        prefix = np.concatenate(([0], np.cumsum(block.jobs, dtype=np.int64)))
        rows = self.handed(block.rows)
        row_starts = np.concatenate(([0], np.cumsum(rows)))
        _check_fits(domains, weights, shifts, np.diff(prefix[block.starts]), rows)
        drawn = np.empty(int(row_starts[-1]), dtype=np.int64)
        states = np.full(len(block.rows), loops.MORE_WORDS, dtype=np.int8)

        def run(words: Any, word_starts: Any, counts: Any, states: Any) -> None:
            loops.urns(
                block.starts, block.cells, prefix, domains, weights, shifts, rows, row_starts,
                words, word_starts, counts, drawn, states,
            )  # fmt: skip

        run_until_done(block, substream_key(stream, *purpose, "urn"), states, rows + 2, run)
        return drawn

    def handed(self, rows: Integers) -> Integers:
        return rows * self.priors.times_of(rows)

    def to_json(self) -> dict[str, Any]:
        return {"mechanism": self.name, **self.priors.to_json()}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShrunkUrn:
    """Algorithm 2, then Algorithm 1, over single places: empty places stay in the domain with a public probability.

    ``keeps`` are multiples of 2^-32, one per band of squared distance, the endless last one included; 0 means that the
    place is not in the domain (its workers are in the cell ``elsewhere``). The retained domain is never made.
    """

    priors: SizedPrior
    claim: Event
    bands: PlaceBands
    keeps: NDArray[np.uint64]
    elsewhere: bool
    name: ClassVar[str] = "commute_shrunk_urn"
    covers: ClassVar[str] = "whole_domain"

    def event_for(self, facts: FlowFacts) -> Event:
        if isinstance(self.claim, NoNoise):
            return self.claim
        loss = claimed_loss(self.claim, self.name)
        if not isinstance(loss, ApproxLoss) or facts.records is None or not exact_is_known(facts.unit):
            raise BudgetError("a shrunk domain is proved for public sizes, one job per unit and an approximate budget.")
        for law in drawn_laws(self.priors, facts):
            if self.delta_bound(loss, law, facts.destinations) > loss.delta:
                raise too_costly(self.claim, law)
        return self.claim

    def delta_bound(self, loss: ApproxLoss, law: DrawnLaw, destinations: Integers) -> float:
        """Theorem 4 of docs/theory/commute.md for the destination around which fewest places are retained."""
        assert law.records is not None  # noqa: S101 - a shrunk domain is drawn for public sizes only
        return shrunk_bound(
            loss, prior=law.prior, least_keep=self.least_keep, expected=self.fewest_retained(destinations),
            records=law.records, rows=law.rows,
        )  # fmt: skip

    @property
    def least_keep(self) -> Fraction:
        """The smallest probability with which an empty place of the domain stays in it."""
        return Fraction(int(min(keep for keep in self.keeps if keep)), 2**RETAIN_BITS)

    def fewest_retained(self, destinations: Integers) -> float:
        """The least expected number of retained places over destinations but for two places in question, all of them
        counted exactly; 0 if there are too many destinations."""
        if not 0 < len(destinations) <= MOST_COUNTED:
            return 0.0
        expected = self.bands.sizes(destinations) @ (self.keeps / 2.0**RETAIN_BITS)
        return max(float(expected.min()) - 2.0, 0.0)

    def draw(self, block: Block, domains: Integers, stream: Stream, *purpose: str | int) -> Integers:  # noqa: ARG002
        from understudy.privacy.mechanisms import urn_compiled as loops

        _, weights, shifts = self.priors.of(block.rows)
        prefix = np.concatenate(([0], np.cumsum(block.jobs, dtype=np.int64)))
        row_starts = np.concatenate(([0], np.cumsum(block.rows)))
        everything = np.full(len(block.rows), len(self.bands.points) + 1, dtype=np.int64)
        _check_fits(everything, weights, shifts, np.diff(prefix[block.starts]), block.rows)
        drawn = np.empty(int(row_starts[-1]), dtype=np.int64)
        states = np.full(len(block.rows), loops.MORE_WORDS, dtype=np.int8)
        tables, bounds = retained_tables(tuple(int(keep) for keep in self.keeps), len(self.bands.points))

        def run(words: Any, word_starts: Any, counts: Any, states: Any) -> None:
            loops.shrunk_urns(
                block.starts, block.cells, prefix, block.destinations, self.bands.points, self.bands.edges,
                self.bands.order, self.bands.sorted_points, self.bands.boxes, self.keeps > 0, tables, bounds,
                int(self.elsewhere), weights, shifts, block.rows, row_starts,
                words, word_starts, counts, drawn, states,
            )  # fmt: skip

        needed = block.rows * 2 + 8 + bounds.shape[1] * int((self.keeps > 0).sum())
        run_until_done(block, substream_key(stream, *purpose, "urn"), states, needed, run)
        return drawn

    def handed(self, rows: Integers) -> Integers:
        return rows

    def to_json(self) -> dict[str, Any]:
        return {
            "mechanism": self.name, **self.priors.to_json(),
            "band_edges_miles": [round(float(np.sqrt(edge)), 6) for edge in self.bands.edges],
            "retained_share_of_2^32": [int(keep) for keep in self.keeps], "elsewhere": self.elsewhere,
        }  # fmt: skip


@lru_cache(maxsize=8)
def retained_tables(keeps: tuple[int, ...], places: int) -> tuple[NDArray[np.uint64], Integers]:
    """For each band, tables of Binomial(2^j, f): cumulative probabilities in units of 2^-64, and where each table lies.

    A count is drawn as the sum over the binary digits of the number of places. Probabilities are computed with whole
    numbers of 128 digits outwards from the most likely count, until what is left is below 2^-64; rounding them to 2^-64
    moves each table by at most its length times 2^-64, all tables of a destination by less than 2^-44, which is counted
    in delta (docs/theory/commute.md).
    """
    digits = max(places.bit_length(), 1)
    bounds = np.zeros((len(keeps), digits, 3), dtype=np.int64)
    flat: list[list[int]] = []
    for band, keep in enumerate(keeps):
        entries: list[int] = []
        for digit in range(digits if keep else 0):
            least, cumulative = _binomial_table(2**digit, Fraction(keep, 2**RETAIN_BITS))
            bounds[band, digit] = len(entries), len(entries) + len(cumulative), least
            entries += cumulative
        flat.append(entries)
    width = max((len(entries) for entries in flat), default=0)
    tables = np.zeros((len(keeps), width), dtype=np.uint64)
    for band, entries in enumerate(flat):
        tables[band, : len(entries)] = np.array(entries, dtype=np.uint64)
    return tables, bounds


def _binomial_table(count: int, keep: Fraction) -> tuple[int, list[int]]:
    """The least count that matters, and P(X <= least + i) in units of 2^-64 for all but the last count that matters."""
    if keep == 1:
        return count, []
    odds, mode = keep / (1 - keep), int((count + 1) * keep)
    one = 1 << 128
    weights = {mode: one}
    value = one
    for hit in range(mode, count):  # upwards: P(hit + 1) / P(hit) = (count - hit) / (hit + 1) * odds
        value = value * (count - hit) * odds.numerator // ((hit + 1) * odds.denominator)
        if value < 1 << 48:
            break
        weights[hit + 1] = value
    value = one
    for hit in range(mode, 0, -1):
        value = value * hit * odds.denominator // ((count - hit + 1) * odds.numerator)
        if value < 1 << 48:
            break
        weights[hit - 1] = value
    least, total, running, cumulative = min(weights), sum(weights.values()), 0, []
    for hit in range(least, max(weights)):
        running += weights[hit]
        cumulative.append(min((running << 64) // total, (1 << 64) - 1))
    return least, cumulative


def _check_fits(domains: Integers, weights: Integers, shifts: Integers, records: Integers, rows: Integers) -> None:
    """The urn's whole numbers must fit in 63 bits; priors have 16 digits, so this is far away."""
    largest = domains.astype(float) * weights + (records + rows).astype(float) * 2.0**shifts
    if len(largest) and float(largest.max()) >= 2.0**63:
        raise InternalError("an urn of this size does not fit in 64 bits.")
