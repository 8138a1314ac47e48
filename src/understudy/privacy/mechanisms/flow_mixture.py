"""For each destination the law that its public size asks for: answers of single jobs, or noise on its cells.

All of these laws are pure, and a job is in one destination, so the dearest law is what all of them cost together. See
docs/theory/commute.md, Theorem 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from understudy.core.arrays import Integers
from understudy.core.exact_numbers import from_text, show_up, to_text
from understudy.core.mechanism import Stream
from understudy.errors import BudgetError, InputError
from understudy.privacy.mechanisms.cell_estimates import (
    Beside,
    OutsideShares,
    answered,
    estimate,
    nearest,
    rows_of,
)
from understudy.privacy.mechanisms.draw_facts import FlowFacts
from understudy.privacy.mechanisms.flow_draws import Block, run_until_done, substream_key
from understudy.privacy.mechanisms.preconditions import epsilon_of, theorem_4_1_holds
from understudy.privacy.promise.event import Event, PureLoss
from understudy.privacy.randomness.keyed_noise import ListedCells

ANSWERS, BALANCED, NOISE = 0, 1, 2
LAWS = ("answers", "balanced", "noise")
FINEST = 64  # parts into which the shares of a small destination are told apart
CELLS_AT_ONCE = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedLaws:
    """For each step of sizes the law of its destinations and the number of their ring cells, by the least size of the
    step; and how many cells beside the rings are for homes outside, if there are such homes."""

    entries: Mapping[int, tuple[int, int]]
    outside: Mapping[int, int] = field(default_factory=dict)

    def of(self, sizes: Integers) -> tuple[Integers, Integers]:
        """The law and the cells of destinations by their sizes."""
        if not self.entries:
            return np.full_like(sizes, NOISE), np.full_like(sizes, 2)
        keys = sorted(self.entries)
        table = np.array([self.entries[key] for key in keys], dtype=np.int64)
        at = np.maximum(np.searchsorted(keys, sizes, side="right") - 1, 0)
        return table[at, 0], table[at, 1]

    def outside_of(self, sizes: Integers) -> Integers:
        """The cells outside of destinations by their sizes."""
        if not self.outside:
            return np.zeros_like(sizes)
        keys = sorted(self.outside)
        at = np.maximum(np.searchsorted(keys, sizes, side="right") - 1, 0)
        return np.array([self.outside[key] for key in keys], dtype=np.int64)[at]

    def to_json(self) -> dict[str, Any]:
        listed = sorted(self.entries.items())
        return {
            "sizes_from": [size for size, _ in listed],
            "laws": [LAWS[law] for _, (law, _) in listed],
            "cells": [cells for _, (_, cells) in listed],
        } | ({"cells_outside": [self.outside[size] for size, _ in listed]} if self.outside else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SizedLaws:
        columns = zip(data["sizes_from"], data["laws"], data["cells"], strict=True)
        entries: dict[int, tuple[int, int]] = {}
        for size, law, cells in columns:
            if law not in LAWS or int(cells) < 1 or int(size) in entries:
                raise InputError("a law that is stated is not one that can be drawn with.")
            entries[int(size)] = (LAWS.index(law), int(cells))
        beyond = [int(number) for number in data.get("cells_outside", ())]
        if beyond and (len(beyond) != len(entries) or min(beyond) < 1):
            raise InputError("a law that is stated is not one that can be drawn with.")
        return cls(entries=entries, outside=dict(zip(entries, beyond, strict=True)) if beyond else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedCells:
    """A law for each size: ``answers``, ``balanced`` noise or free ``noise``.

    ``prior`` is that of an answer: a job says its own cell, or one from ``prior`` in every cell, as a draw of one row
    from one record. ``scale`` is that of the noise. Where a public model knows the shares of the cells, which are then
    ``alike`` or, with noise, ``graded``, counts are guessed with it; else the nearest counts that can be are taken.
    """

    laws: SizedLaws
    prior: Fraction
    scale: Fraction
    claim: Event
    alike: bool = True
    graded: bool = True
    outside: OutsideShares | None = None  # where homes outside have cells of their own and a model knows their shares
    name: ClassVar[str] = "commute_mixture"
    covers: ClassVar[str] = "whole_domain"

    def event_for(self, facts: FlowFacts) -> Event:
        """Theorem 7: the loss of every law that some destination draws with must be within the claim."""
        if not isinstance(self.claim, PureLoss):
            raise BudgetError("laws by size are proved for a pure loss.")
        unit, public = facts.unit, facts.records is not None
        used = set(self.laws.of(facts.rows)[0].tolist())
        if used - {NOISE} and not public:
            raise BudgetError("answers and balanced noise tell the size of a destination; it must be public.")
        if ANSWERS in used and not np.array_equal(facts.rows, facts.records):  # type: ignore[arg-type]
            raise BudgetError("an answer is given for every job; other numbers of rows cannot be drawn.")
        moved = unit.rows_per_unit * (2 if public or unit.kind == "replace" else 1)
        costs = Fraction(moved) / self.scale if used - {ANSWERS} else Fraction(0)
        kept = costs <= self.claim.epsilon
        if ANSWERS in used and not theorem_4_1_holds(self.claim.epsilon, prior=self.prior, rows=1, unit=unit):
            kept, costs = False, max(costs, epsilon_of(self.prior, 1, unit))
        if not kept:
            raise BudgetError(
                f"a law of this draw costs epsilon = {show_up(costs)}, more than the {show_up(self.claim.epsilon)} it "
                "is charged with. Nothing was drawn."
            )
        return self.claim

    def handed(self, rows: Integers) -> Integers:
        """Answers are as many as jobs. Shares of noisy cells are told finer where there are few jobs, and so are those
        that answers and a model say together."""
        finer = rows * -(-FINEST // np.maximum(rows, 1))
        return finer if self._guessed else np.where(self.laws.of(rows)[0] == ANSWERS, rows, finer)

    @property
    def _guessed(self) -> bool:
        """Whether answers are turned into shares of cells that are not alike."""
        return self.alike and self.outside is not None

    def _beside(self, block: Block) -> Beside | None:
        if self.outside is None:
            return None
        level = self.outside.level_of[block.destinations].astype(np.int64)
        return Beside(shares=self.outside, cells=self.laws.outside_of(block.rows), level=level)

    def draw(self, block: Block, domains: Integers, stream: Stream, *purpose: str | int) -> Integers:
        handed = self.handed(block.rows)
        starts = np.concatenate(([0], np.cumsum(handed)))
        drawn = np.empty(int(starts[-1]), dtype=np.int64)
        laws = self.laws.of(block.rows)[0]
        for law in np.unique(laws).tolist():
            for which in _pieces(np.flatnonzero(laws == law), domains):
                part, cells = block.part(which), domains[which]
                if law == ANSWERS:
                    made = self._answers(part, cells, stream, *purpose)
                else:
                    made = self._noisy_rows(part, cells, stream, *purpose, balanced=law == BALANCED)
                own = handed[which]
                ends = np.cumsum(own)
                drawn[np.repeat(starts[which] - (ends - own), own) + np.arange(ends[-1])] = made
        return drawn

    def _answers(self, block: Block, domains: Integers, stream: Stream, *purpose: str | int) -> Integers:
        from understudy.privacy.mechanisms import urn_compiled as loops

        row_starts = np.concatenate(([0], np.cumsum(block.rows)))
        drawn = np.empty(int(row_starts[-1]), dtype=np.int64)
        states = np.full(len(block.rows), loops.MORE_WORDS, dtype=np.int8)
        weight, shift = np.uint64(self.prior.numerator), np.uint64(self.prior.denominator.bit_length() - 1)

        def run(words: Any, word_starts: Any, counts: Any, states: Any) -> None:
            loops.answers(
                block.starts, block.cells, block.jobs, domains, weight, shift, row_starts,
                words, word_starts, counts, drawn, states,
            )  # fmt: skip

        run_until_done(block, substream_key(stream, *purpose, "answers"), states, block.rows + 2, run)
        beside = self._beside(block)
        if not self._guessed or beside is None:
            return drawn
        starts = np.concatenate(([0], np.cumsum(domains)))
        return rows_of(answered(drawn, starts, block.rows, self.prior, beside), starts, self.handed(block.rows))

    def _noisy_rows(
        self, block: Block, domains: Integers, stream: Stream, *purpose: str | int, balanced: bool
    ) -> Integers:
        starts = np.concatenate(([0], np.cumsum(domains)))
        noisy = self._noisy(block, domains, stream, *purpose, balanced=balanced)
        if self.alike:
            shares = estimate(
                noisy, starts, block.rows, self.scale, balanced=balanced, graded=self.graded,
                beside=self._beside(block),
            )  # fmt: skip
        else:
            shares = nearest(noisy, starts, block.rows)
        return rows_of(shares, starts, self.handed(block.rows))

    def _noisy(self, block: Block, domains: Integers, stream: Stream, *purpose: str | int, balanced: bool) -> Integers:
        """Noisy counts of all cells. A destination gets the noise of its own substream, whatever is beside it."""
        listed = ListedCells(stream, block.destinations, domains)
        draw = listed.balanced if balanced else listed.discrete_laplace
        noisy = draw(self.scale, *purpose, "noise")
        where = np.repeat(np.cumsum(domains) - domains, np.diff(block.starts)) + block.cells
        np.add.at(noisy, where, block.jobs.astype(np.int64))
        return noisy

    def to_json(self) -> dict[str, Any]:
        return {
            "mechanism": self.name, **self.laws.to_json(), "prior_of_an_answer": to_text(self.prior),
            "scale_of_noise": to_text(self.scale), "alike": self.alike, "graded": self.graded,
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any], claim: Event) -> MixedCells:
        prior = from_text(data["prior_of_an_answer"], "prior_of_an_answer")
        scale = from_text(data["scale_of_noise"], "scale_of_noise")
        if prior <= 0 or scale <= 0 or prior.denominator & (prior.denominator - 1):
            raise InputError("a law that is stated is not one that can be drawn with.")
        return cls(
            laws=SizedLaws.from_json(data), prior=prior, scale=scale, claim=claim,
            alike=bool(data.get("alike", True)), graded=bool(data.get("graded", False)),
        )  # fmt: skip


def _pieces(which: Integers, domains: Integers) -> list[Integers]:
    """Destinations in groups that have not too many cells together."""
    if len(which) == 0:
        return []
    runs = np.cumsum(domains[which]) // CELLS_AT_ONCE
    return np.split(which, np.flatnonzero(np.diff(runs)) + 1)
