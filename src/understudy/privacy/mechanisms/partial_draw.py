"""Partially synthetic and hybrid tables (Little 1993, Reiter 2003): some values are real ones. Without protection.

Law: every record keeps its values of the attributes in ``keep``. Its other values are drawn from the posterior
predictive of the records that agree with it on ``keep``: an urn for each such group, with one ball for each of its
records and ``prior`` balls spread over the possible cells of the group. With probability ``real`` a record is not
drawn at all and stays as it is. If a number of ``rows`` is given, as many are drawn at random from that table, with
replacement. There is no guarantee: kept values are those of real people. It charges an infinite
loss, as it must.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from understudy.core.arrays import Integers
from understudy.core.domain import Domain
from understudy.core.exact_numbers import Number, read_exact, to_text
from understudy.core.mechanism import Stream
from understudy.errors import InputError
from understudy.privacy.mechanisms.draw_facts import TableFacts
from understudy.privacy.promise.event import Event, NoNoise
from understudy.privacy.randomness.draws import uniform_below, uniform_below_each, uniform_possible


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialDraw:
    """One row for each record: some values kept, the others drawn among the people who share them. No guarantee."""

    keep: tuple[str, ...]
    prior: Fraction
    real: Fraction
    rows: int | None
    name: ClassVar[str] = "partial"
    covers: ClassVar[str] = "whole_domain"

    def __init__(self, *, keep: tuple[str, ...], prior: Number, real: Number, rows: int | None = None) -> None:
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "keep", keep)
        object.__setattr__(self, "prior", read_exact(prior, "prior"))
        object.__setattr__(self, "real", read_exact(real, "real"))
        if self.prior < 0:
            raise InputError(f"prior ({prior}) must not be negative.")
        if not 0 <= self.real < 1:
            raise InputError(f"real ({real}) must be at least 0 and below 1: with 1 the release is the data.")

    def event_for(self, facts: TableFacts) -> Event:  # noqa: ARG002 - no guarantee, whatever is drawn
        return NoNoise()

    def draw(
        self, cells: Integers, counts: Integers, domain: Domain, stream: Stream, *purpose: str | int
    ) -> tuple[Integers, Integers]:
        shape = domain.schema.shape(domain.margin)
        records = np.repeat(cells, counts)
        codes = np.array(np.unravel_index(records, shape), dtype=np.int64)
        kept = [place for place, name in enumerate(domain.margin) if name in self.keep]
        # Records of one group stand together, and a group begins at `start` with `size` records.
        group = np.zeros(len(records), dtype=np.int64)
        if kept:
            group = np.ravel_multi_index(tuple(codes[kept]), [shape[place] for place in kept]).astype(np.int64)
        order = np.argsort(group, kind="stable")
        records, codes, group = records[order], codes[:, order], group[order]
        _, start, size = np.unique(group, return_index=True, return_counts=True)
        first, people = np.repeat(start, size), np.repeat(size, size)
        drawn = self._urns(codes, first, people, kept, domain, stream, *purpose)
        if self.real:
            stays = uniform_below(stream, self.real.denominator, len(records), *purpose, "real") < self.real.numerator
            drawn = np.where(stays, records, drawn)
        if self.rows is not None and not len(drawn):  # nobody to draw from: every possible row is alike
            drawn = uniform_possible(domain, self.rows, stream, *purpose, "nobody")
        elif self.rows is not None:
            drawn = drawn[uniform_below(stream, len(drawn), self.rows, *purpose, "rows")]
        return np.unique(drawn, return_counts=True)

    def _urns(  # noqa: PLR0917 - a purpose has any number of parts
        self, codes: Integers, first: Integers, people: Integers, kept: list[int], domain: Domain, stream: Stream,
        *purpose: str | int,
    ) -> Integers:  # fmt: skip
        """The cell of each row. With prior = p/q the ball of the r-th row of a group of n is uniform below p + (n + r)
        q: below p of the prior, then of a record, then of an earlier row."""
        rows = len(first)
        weight, unit = self.prior.numerator, self.prior.denominator
        step = np.arange(rows, dtype=np.int64) - first
        bounds = (weight + (people + step) * unit).astype(np.uint64)
        ball = uniform_below_each(stream, bounds, *purpose, "ball").astype(np.int64)
        number = (ball - weight) // unit
        from_prior = ball < weight
        from_record = ~from_prior & (number < people)
        shape = domain.schema.shape(domain.margin)
        found = np.ravel_multi_index(tuple(codes), shape).astype(np.int64)
        drawn = np.where(from_record, found[np.where(from_record, first + number, 0)], -1) if rows else found
        drawn[from_prior] = _possible_beside(codes[:, from_prior], kept, domain, stream, *purpose, "prior")
        origin = np.arange(rows)
        again = ~(from_prior | from_record)
        origin[again] = (first + number - people)[again]
        while True:
            further = origin[origin]
            if (further == origin).all():
                return np.asarray(drawn[origin], dtype=np.int64)
            origin = further

    def to_json(self) -> dict[str, str]:
        rows = {} if self.rows is None else {"rows": str(self.rows)}
        return {
            "mechanism": self.name, "keep": "+".join(self.keep), "prior": to_text(self.prior),
            "real": to_text(self.real), **rows,
        }  # fmt: skip


def _possible_beside(codes: Integers, kept: list[int], domain: Domain, stream: Stream, *purpose: str | int) -> Integers:
    """Uniform cells among the possible ones that agree with each column of codes on the kept attributes."""
    shape = domain.schema.shape(domain.margin)
    found = codes.copy()
    waiting = np.arange(codes.shape[1])
    while len(waiting):
        for place, size in enumerate(shape):
            if place not in kept:
                found[place, waiting] = uniform_below(stream, size, len(waiting), *purpose, place)
        tried = np.ravel_multi_index(tuple(found[:, waiting]), shape).astype(np.int64)
        waiting = waiting[~domain.is_possible(tried)]
    cells: Integers = np.ravel_multi_index(tuple(found), shape).astype(np.int64)
    return cells
