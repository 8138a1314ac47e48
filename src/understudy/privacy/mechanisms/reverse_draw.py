"""A reverse-mapped table: synthetic rows whose values are replaced by original values of the same rank (Ruiz et al.).

Law: rows are drawn like ``PlainMultinomial``; then, attribute by attribute, the value of rank k becomes the original
value of rank k, ties ranked at random. So every margin of one attribute is the original's exactly, in the levels and
bins of the schema, and what is left of the synthesis is which values stand together. There is no guarantee: it charges
an infinite loss, as it must. What the mapping pairs into a structural zero is undone by exchanging values between rows,
which moves no margin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from understudy.core.arrays import Integers
from understudy.core.domain import Domain
from understudy.core.exact_numbers import Number, to_text
from understudy.core.mechanism import Stream
from understudy.errors import UnsupportedError
from understudy.privacy.mechanisms.draw_facts import TableFacts
from understudy.privacy.mechanisms.plain_multinomial import PlainMultinomial
from understudy.privacy.promise.event import Event
from understudy.privacy.randomness.draws import uniform_below

MOST_ROUNDS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReverseMappedDraw:
    """Rows with the original's margins. No guarantee."""

    base: PlainMultinomial
    name: ClassVar[str] = "reverse_mapped"
    covers: ClassVar[str] = "whole_domain"

    def __init__(self, *, prior: Number, rows: int) -> None:
        object.__setattr__(self, "base", PlainMultinomial(prior=prior, rows=rows))

    def event_for(self, facts: TableFacts) -> Event:
        return self.base.event_for(facts)

    def draw(
        self, cells: Integers, counts: Integers, domain: Domain, stream: Stream, *purpose: str | int
    ) -> tuple[Integers, Integers]:
        drawn, times = self.base.draw(cells, counts, domain, stream, *purpose)
        if not counts.sum() or not self.base.rows:
            return drawn, times
        synthetic = _codes(domain, np.repeat(drawn, times))
        # Another number of rows: a systematic sample of the records, so that the target is a table that could exist.
        people, rows = int(counts.sum()), self.base.rows
        chosen = (2 * np.arange(rows, dtype=np.int64) + 1) * people // (2 * rows)
        original = _codes(domain, cells[np.searchsorted(np.cumsum(counts), chosen, side="right")])
        mapped = map_back(original, synthetic, _tie_breaker(synthetic.shape[1], stream, *purpose, "ties"))
        repaired = _without_structural_zeros(mapped, domain, stream, *purpose)
        return np.unique(_cells(domain, repaired), return_counts=True)

    def to_json(self) -> dict[str, str]:
        return {"mechanism": self.name, "prior": to_text(self.base.prior), "rows": str(self.base.rows)}


def map_back(original: Integers, synthetic: Integers, ties: Integers) -> Integers:
    """Each synthetic value (attributes in rows, records in columns) by the original value of the same rank.

    There are as many records in both. Equal synthetic values are ranked by ``ties``.

    >>> map_back(np.array([[3, 1, 2]]), np.array([[10, 30, 20]]), np.arange(3)).tolist()
    [[1, 3, 2]]
    """
    mapped = np.empty_like(synthetic)
    for j, values in enumerate(synthetic):
        mapped[j, np.lexsort((ties, values))] = np.sort(original[j])
    return mapped


def _codes(domain: Domain, cells: Integers) -> Integers:
    return np.array(np.unravel_index(cells, domain.schema.shape(domain.margin)), dtype=np.int64)


def _cells(domain: Domain, codes: Integers) -> Integers:
    cells: Integers = np.ravel_multi_index(tuple(codes), domain.schema.shape(domain.margin)).astype(np.int64)
    return cells


def _tie_breaker(rows: int, stream: Stream, *purpose: str | int) -> Integers:
    order: Integers = np.argsort(stream.words(rows, *purpose), kind="stable")
    return order


def _without_structural_zeros(codes: Integers, domain: Domain, stream: Stream, *purpose: str | int) -> Integers:
    """Exchange values between rows until no row is impossible; every attribute keeps its values.

    In each round an impossible row and another, taken at random, exchange the value of one attribute, unless that makes
    more rows impossible. Exchanges that change nothing are kept, so that the search can leave a dead end. There is a
    table to be found, the original.
    """
    codes, rows = codes.copy(), codes.shape[1]
    possible = domain.is_possible(_cells(domain, codes))
    for attempt in range(MOST_ROUNDS):
        broken = np.flatnonzero(~possible)
        if not len(broken):
            return codes
        first, second = _pairs(broken, rows, stream, *purpose, attempt)
        which = uniform_below(stream, len(codes), len(first), *purpose, "attribute", attempt)
        one, other = codes[:, first], codes[:, second]  # copies
        at = np.arange(len(first))
        one[which, at], other[which, at] = codes[which, second], codes[which, first]
        fits, fits_too = (domain.is_possible(_cells(domain, pair)) for pair in (one, other))
        kept = fits.astype(int) + fits_too >= possible[first].astype(int) + possible[second]
        codes[:, first[kept]], codes[:, second[kept]] = one[:, kept], other[:, kept]
        possible[first[kept]], possible[second[kept]] = fits[kept], fits_too[kept]
    raise UnsupportedError(
        "reverse mapping pairs values anew, and no exchange of values was found that keeps every structural zero of "
        "the schema. Draw with fewer structural zeros, or use method histogram without a guarantee."
    )


def _pairs(broken: Integers, rows: int, stream: Stream, *purpose: str | int) -> tuple[Integers, Integers]:
    """Each impossible row with a row of its own: in turn any other row, and another impossible one."""
    if int(purpose[-1]) % 2:
        order = broken[_tie_breaker(len(broken), stream, *purpose, "among")]
        half = len(order) // 2
        return order[:half], order[half : 2 * half]
    partners = uniform_below(stream, rows, len(broken), *purpose, "partner")
    partners[np.isin(partners, broken)] = -1
    taken, where = np.unique(partners, return_index=True)
    return broken[where[taken >= 0]], taken[taken >= 0]
