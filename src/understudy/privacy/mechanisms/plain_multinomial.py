"""Synthesis without protection: what agencies did before, kept for comparison and always labelled.

``PlainMultinomial`` is the saturated synthesizer of Raab et al. ("catall"): draw from the full cross-tabulation after
spreading a prior count over its possible cells. It goes through the gate like everything else and charges an infinite
loss.
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
from understudy.privacy.randomness.draws import uniform_below, uniform_possible


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainMultinomial:
    """Rows drawn with probability proportional to count + prior / cells. No guarantee."""

    prior: Fraction
    rows: int
    name: ClassVar[str] = "plain_multinomial"
    covers: ClassVar[str] = "whole_domain"

    def __init__(self, *, prior: Number, rows: int) -> None:
        object.__setattr__(self, "prior", read_exact(prior, "prior"))
        object.__setattr__(self, "rows", rows)
        if self.prior < 0:
            raise InputError(f"prior ({prior}) must not be negative.")
        if rows < 0:
            raise InputError(f"rows ({rows}) must not be negative.")

    def event_for(self, facts: TableFacts) -> Event:  # noqa: ARG002 - no guarantee, whatever is drawn
        return NoNoise()

    def draw(
        self, cells: Integers, counts: Integers, domain: Domain, stream: Stream, *purpose: str | int
    ) -> tuple[Integers, Integers]:
        """Each row is a copy of a record or, with probability prior / (n + prior), a uniform possible cell."""
        total = int(counts.sum())
        if total == 0 and self.prior == 0:
            raise InputError("the table is empty and the prior count is 0; no rows can be drawn.")
        # A row's origin is decided by one integer below n * q + p, where prior = p / q.
        weight_data = total * self.prior.denominator
        origin = uniform_below(stream, weight_data + self.prior.numerator, self.rows, *purpose, "origin").astype(
            np.int64
        )
        from_data = origin < weight_data
        drawn = np.empty(self.rows, dtype=np.int64)
        record = origin[from_data] // self.prior.denominator
        drawn[from_data] = cells[np.searchsorted(np.cumsum(counts), record, side="right")]
        drawn[~from_data] = uniform_possible(domain, int((~from_data).sum()), stream, *purpose, "prior")
        return np.unique(drawn, return_counts=True)

    def to_json(self) -> dict[str, str]:
        return {"mechanism": self.name, "prior": to_text(self.prior), "rows": str(self.rows)}
