"""What a confirmation costs: from public facts alone, for the width of an interval that an analyst wants.

An analyst never names an epsilon. The price is the smallest rho with which the answer from one fresh noisy table, with
the release where that helps, is expected to be as narrow as wanted; what the choice of the question costs included. It
is found by rehearsal: the table is filled with what the release itself says, the noise is that of the rho in question,
and ``infer`` answers. Nothing is drawn from the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, log10

import numpy as np

from understudy.core.exact_numbers import to_text
from understudy.core.measurement import Measurement
from understudy.core.schema import Schema
from understudy.errors import InputError, UnsupportedError
from understudy.inference.answer import Answer
from understudy.inference.evidence import public_records
from understudy.inference.joined_tables import ANY_QUESTION, CONFIRMED
from understudy.inference.labels import RANGE, VALID, worst
from understudy.inference.noise_aware import estimated_records
from understudy.inference.weighting import chosen_weights
from understudy.privacy.gate.measurement_steps import measure_step, query_of
from understudy.privacy.promise.calibrate import noise_for
from understudy.privacy.promise.definition import ZCDP, Unit
from understudy.privacy.promise.plan import Plan
from understudy.privacy.promise.sensitivity import margin_sensitivity
from understudy.release.growing import add_measurement, require_growing
from understudy.release.table_release import Release
from understudy.serving.asking import WRONG, Asked, finite, width_of, widths_sold, wrong_verdict

METHOD = "confirm"  # of the plan of a confirmation
MOST_CELLS = 20_000  # of the table that decides a question
LEAST_RHO = Fraction(1, 10**7)
STEPS = 7  # halvings of the range of rho, on a logarithmic scale
DIGITS = 3  # of a price, rounded up
DRAWS = 1000  # of a rehearsal
AIMED = 0.93  # of the wanted width: what comes out differs a little from what was rehearsed
ROOM_FOR_LABEL = 2.0  # times the price at which a rehearsed answer gets its label
REHEARSED = {"account": "", "run": "", "head": "", "sequence": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a confirmation costs, and how the answer will look. ``rho`` is 0 if the release says enough already."""

    rho: Fraction
    width: float
    width_now: float | None  # of the answer from the release; none if it has no answer
    width_expected: float
    margin: tuple[str, ...]
    cells: int
    label_now: str
    label_expected: str

    @property
    def free(self) -> bool:
        return self.rho == 0

    def to_json(self) -> dict[str, object]:
        return {
            "rho": to_text(self.rho), "free": self.free, "width": self.width, "width_now": self.width_now,
            "width_expected": self.width_expected, "table": list(self.margin), "cells": self.cells,
            "label_now": self.label_now, "label_expected": self.label_expected,
        }  # fmt: skip


def confirmation_plan(
    schema: Schema, unit: Unit, margin: tuple[str, ...], rho: Fraction, *, label: str, notes: tuple[str, ...] = ()
) -> Plan:
    """The plan of one fresh measurement: the table that decides a question, with the noise that rho buys."""
    sensitivity = margin_sensitivity(schema, margin, unit)
    if sensitivity.l1 == 0:
        raise UnsupportedError("the numbers that this question is about are public for this release; ask it for free.")
    budget = ZCDP(rho=rho)
    (noise,) = noise_for(budget, [sensitivity])
    cells = int(schema.allowed(margin).sum())
    step = measure_step(label=label, margin=margin, noise=noise, sensitivity=sensitivity, cells=cells)
    return Plan(
        schema_fingerprint=schema.declared.fingerprint, method=METHOD, budget=budget, unit=unit, copies=1, rows=None,
        records=None, steps=(step,), notes=notes,
    )  # fmt: skip


def deciding_table(asked: Asked, release: Release) -> tuple[str, ...]:
    """The attributes of the one table that decides a question: with the weight, where rows stand for people by one."""
    schema = release.schema
    margin = asked.estimand(schema).margin
    margin = schema.margin({*margin, *chosen_weights(release, asked.weighted)})
    if not margin:
        raise UnsupportedError("this question is about no attribute; there is nothing to measure.")
    if schema.cells(margin) > MOST_CELLS:
        raise UnsupportedError(
            f"the table that decides this question has {schema.cells(margin):,} cells, and at most {MOST_CELLS:,} are "
            "measured for one question. Ask about fewer attributes."
        )
    return margin


def price(release: Release, asked: Asked, width: float, *, most: Fraction) -> Price:
    """The price of an interval of some width; ``most`` is the largest rho that could be paid.

    The label is as good as a larger price would make it: a narrow interval with a worse label is not sold instead.
    Refused with the narrowest width that can be had, if that is wider than wanted. Free if the release answers so
    narrowly already, or if this very question was sold for such a width before, whatever came out.
    """
    if finite(width, "the width of the interval") <= 0:
        raise InputError("the width of the interval must be positive.")
    require_growing(release)
    margin = deciding_table(asked, release)
    cells = int(release.schema.allowed(margin).sum())
    now = _answer_now(release, asked)

    def priced(rho: Fraction, expected: float, label: str) -> Price:
        return Price(
            rho=rho, width=float(width), width_now=None if now is None else width_of(now), width_expected=expected,
            margin=margin, cells=cells, label_now="none" if now is None else now.validity, label_expected=label,
        )  # fmt: skip

    if now is not None and _known(release, asked, width, now):
        return priced(Fraction(0), width_of(now), now.validity)
    if most < LEAST_RHO:
        raise UnsupportedError("nothing is left of the budget, so nothing can be confirmed on the data.")
    rehearsed = _rehearsal(release, asked, margin)
    best = rehearsed(most)
    if not {VALID, RANGE} & set(best.labels):
        why = "; ".join(text for text in best.warnings if text != ANY_QUESTION)
        raise UnsupportedError(
            f"a confirmation is not sold here: with all that is left of the budget the answer would still be "
            f"{best.validity}. {why[:1].upper()}{why[1:]}."
        )
    if width_of(best) > width:
        raise UnsupportedError(
            f"an interval of width {width:g} cannot be had: with all that is left of the budget it would be about "
            f"{width_of(best):.3g} wide. Part of the width is the sampling of people, which no budget makes narrower."
        )
    low, high, answer, by_label = log10(LEAST_RHO), log10(most), best, False
    for _ in range(STEPS):
        middle = (low + high) / 2
        tried = rehearsed(_rounded_up(10**middle, most))
        narrow = width_of(tried) <= AIMED * width
        if narrow and worst((tried.validity, best.validity)) == best.validity:
            high, answer = middle, tried
        else:
            low, by_label = middle, by_label or narrow
    if by_label:  # at the edge of its label the noise itself would decide about it
        high = min(high + log10(ROOM_FOR_LABEL), log10(most))
        answer = rehearsed(_rounded_up(10**high, most))
    return priced(_rounded_up(10**high, most), width_of(answer), answer.validity)


def already_answered(release: Release, asked: Asked, width: float) -> bool:
    """Whether a release answers a question as narrowly as wanted, so that nothing has to be bought."""
    now = _answer_now(release, asked)
    return now is not None and _known(release, asked, width, now)


def _known(release: Release, asked: Asked, width: float, now: Answer) -> bool:
    sold = [note for one in release.provenance.added for note in one.plan.notes]
    if any(width_sold <= width for width_sold in widths_sold(asked, sold)):
        return True
    enough = now.validity in (VALID, RANGE) and width_of(now) <= width
    if asked.margin is None or not enough:
        return enough
    return len(now.estimates) == 1 and now.validity == VALID and wrong_verdict(asked, now) <= WRONG


def _answer_now(release: Release, asked: Asked) -> Answer | None:
    try:
        return asked.answered(release)
    except UnsupportedError:  # what the release cannot say is what a confirmation is for
        return None


def _rehearsal(release: Release, asked: Asked, margin: tuple[str, ...]) -> _Rehearsed:
    schema, unit = release.schema, release.statement.unit
    counts = release.coded(1).counts(margin).astype(np.float64)
    people = float(public_records(release) or estimated_records(release))
    values = np.rint(counts * max(people, 0.0) / max(counts.sum(), 1.0)).astype(np.int64)
    return _Rehearsed(release=release, asked=asked, margin=margin, values=values, schema=schema, unit=unit)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Rehearsed:
    """Answers with a table that the release itself fills, as if it had been measured."""

    release: Release
    asked: Asked
    margin: tuple[str, ...]
    values: np.ndarray
    schema: Schema
    unit: Unit

    def __call__(self, rho: Fraction) -> Answer:
        plan = confirmation_plan(self.schema, self.unit, self.margin, rho, label="rehearsed confirmation")
        query = query_of(plan.steps[0])
        table = Measurement(margin=self.margin, values=self.values, mechanism=query.mechanism, label=query.label)
        grown = add_measurement(self.release, table, plan=plan, ledger=REHEARSED)
        return self.asked.answered(grown, draws=DRAWS, use=CONFIRMED)


def _rounded_up(rho: float, most: Fraction) -> Fraction:
    """A price with few digits, not below ``rho`` and not above ``most``.

    >>> _rounded_up(0.00123456, Fraction(1))
    Fraction(31, 25000)
    """
    places = DIGITS - 1 - floor(log10(rho))
    found = Fraction(ceil(rho * 10**places), 10**places)
    return max(min(found, most), LEAST_RHO)
