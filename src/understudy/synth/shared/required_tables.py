"""Tables that every method must measure to answer what a steward named: which tables, at what price, how precise.

What is needed comes from the schema (``[[workload]]``, ``always_measure``) and from the option ``must``
(``core/workload.py`` says which tables answer a question). A share of the budget is set aside for these tables and
spent on them before anything is chosen. They are fixed beforehand, so what ``infer`` concludes from them is valid
whatever a method chooses later. A method that measures or draws the whole table holds them anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import inf, sqrt

from understudy.core.exact_numbers import read_exact
from understudy.core.measurement import Measurement
from understudy.core.schema import Schema
from understudy.core.workload import Margin, Need, lines_of, needs_of, quoted, required_tables
from understudy.errors import InputError, UnsupportedError
from understudy.models.fit import structural_groups
from understudy.models.junction_tree import tree_cells
from understudy.privacy.promise.definition import ApproxDP, NonPrivate, PureDP, Unit
from understudy.privacy.promise.plan import Option, Plan, Step
from understudy.privacy.promise.sensitivity import margin_sensitivity
from understudy.synth.shared.currency import Currency
from understudy.synth.shared.margin_methods import (
    LARGEST_MARGIN,
    is_public,
    margin_label,
    margin_step,
    power_of_answers,
    shares_by_cells,
)
from understudy.synth.shared.method import Request, count_text

SHARE = "0.5"
# Where the schema has a survey weight, every published number is weighted and comes from a table with the weight.
SHARE_WITH_WEIGHT = "0.7"
LABEL = "required: "
Z = 1.96  # of a normal law, for intervals of 95 percent
SAYS_NOTHING = 0.5  # half the width at which an interval for the share of a cell contains every share
# The same for tables that nobody asked for. An interval as wide as a fifth of all people is not worth a part of the
# accuracy of the rows: of thirteen drawn settings, those with wider intervals lost up to a third of it.
TOO_WIDE = 0.1
WIDE = 0.05  # half the width from which on a steward is told that there are too many tables
SHOWN = 12  # needs that are written out in the notes of a plan
# Shares for tables for answers, besides those for rows, if nobody says what must be answerable. They make the noise on
# rows a ninth larger (by the square root of what is left of rho, or by what is left of epsilon).
ANSWERS_OF_RHO, ANSWERS_OF_EPSILON = "0.2", "0.1"
MOST_NOISIER = 17  # under rho, noise on one of them compared with measuring it alone: every pair of 24 attributes
MOST_NOISIER_EPSILON = 11  # the same under epsilon
FEW_LEVELS = 5  # an attribute with at most this many levels is one that people condition on


@dataclass(frozen=True, slots=True, kw_only=True)
class Required:
    """What must be answerable, the tables for it, and the share of the budget that pays for them."""

    schema: Schema
    needs: tuple[Need, ...] = ()
    tables: tuple[Margin, ...] = ()
    share: Fraction = Fraction(0)
    in_rows: bool = True

    def __bool__(self) -> bool:
        return bool(self.tables)

    def left(self, currency: Currency) -> Currency:
        """The budget that the method has for everything else."""
        return replace(currency, amount=currency.amount * (1 - self.share))

    def steps(self, unit: Unit, currency: Currency) -> list[Step]:
        """The steps that measure the tables, larger ones with larger shares."""
        power = power_of_answers(self.schema, Fraction(1, 2) if currency.concentrated else Fraction(1, 3))
        if not self.in_rows:
            power = Fraction(0)  # tables for answers alone: every cell is known equally well
        parts = shares_by_cells(self.schema, self.tables, power) if self.tables else []
        return [
            replace(step, label=f"{LABEL}{step.label}")
            for step in (
                margin_step(
                    self.schema,
                    table,
                    unit,
                    currency.noise(currency.amount * self.share * part, self.schema, table, unit),
                )
                for table, part in zip(self.tables, parts, strict=True)
            )
        ]

    def in_model(self, measured: Sequence[Measurement], limit: int, always: Sequence[Margin] = ()) -> list[Measurement]:
        """The measurements that rows are fitted to.

        All that the method measured by its own choice, and of the required tables those that a model of at most
        ``limit`` cells holds beside them, in order. With ``must_rows = false`` a required table is used only where the
        method measured it once more.
        """
        own = [one for one in measured if not is_required(one)]
        if len(own) == len(measured):
            return list(measured)
        margins = {one.margin for one in own}
        sizes = dict(zip(self.schema.names, self.schema.shape(), strict=True))
        groups = [*always, *structural_groups(self.schema), *margins]
        kept = {id(one) for one in own}
        most = max(limit, tree_cells(sizes, groups))
        for one in measured:
            if id(one) in kept:
                continue
            if one.margin in margins:
                kept.add(id(one))
            elif self.in_rows and tree_cells(sizes, [*groups, one.margin]) <= most:
                groups.append(one.margin)
                kept.add(id(one))
        return [one for one in measured if id(one) in kept]

    def groups(self, limit: int, always: Sequence[Margin] = ()) -> list[Margin]:
        """The required tables that a model holds, before the method has chosen anything."""
        sizes = dict(zip(self.schema.names, self.schema.shape(), strict=True))
        held: list[Margin] = []
        for table in self.tables if self.in_rows else ():
            if tree_cells(sizes, [*always, *structural_groups(self.schema), *held, table]) <= limit:
                held.append(table)
        return held


@dataclass(frozen=True, slots=True, kw_only=True)
class Musts:
    """The options that say what must be answerable; the texts under a method's fields describe them."""

    must: str = ""
    must_share: str | None = None
    must_rows: bool = True

    def __post_init__(self) -> None:
        share = read_exact(self.must_share or SHARE, "must_share")
        if not 0 < share < 1:
            raise InputError(f"must_share ({self.must_share}) must be between 0 and 1, such as 0.5.")

    def read(self, schema: Schema, unit: Unit) -> Required:
        """The tables that a schema and the options require under a unit; those that are public need no budget."""
        needs = needs_of(schema, lines_of(self.must))
        for need in needs:
            for table in need.tables:
                if schema.cells(table) > LARGEST_MARGIN:
                    raise UnsupportedError(
                        f"what must be answerable, '{need.text}', needs the table {margin_label(table)} with "
                        f"{count_text(schema.cells(table))} cells; at most {LARGEST_MARGIN:,} are measured, whatever "
                        "the budget. Ask about fewer attributes, or use wider bins."
                    )
        tables = tuple(one for one in required_tables(schema, needs) if not is_public(schema, one, unit))
        return Required(
            schema=schema,
            needs=needs,
            tables=tables,
            share=read_exact(self.share(schema), "must_share") if tables else Fraction(0),
            in_rows=self.must_rows,
        )

    def options(self, required: Required) -> dict[str, Option]:
        """What a plan records: nothing if nothing is required."""
        said: dict[str, Option] = {"must": self.must} if self.must else {}
        if not required:
            return said
        share = self.share(required.schema)
        return {**said, "must_share": share, **({} if self.must_rows else {"must_rows": False})}

    def share(self, schema: Schema) -> str:
        """The share of the budget that the tables have to themselves, as it was given or by default."""
        return self.must_share or (SHARE if schema.weight is None else SHARE_WITH_WEIGHT)


def named_needs(schema: Schema, must: str) -> dict[str, Option]:
    """For a method that holds every table: the needs are read, and the plan records them."""
    needs_of(schema, lines_of(must))
    return {"must": must} if must else {}


def ordinary_needs(schema: Schema, request: Request, *, divided: bool) -> str:
    """What people ordinarily ask, by public facts: every pair, or the pairs of attributes with few levels.

    Under rho, noise on one table grows with the square root of their number. There are as many as keep it below
    ``MOST_NOISIER`` times what it would be alone. Where epsilon itself is ``divided``, it grows with their number. With
    a public number of people there are as many as keep an interval below ``TOO_WIDE``, pairs of few cells first; with
    none, as many as keep the noise below ``MOST_NOISIER_EPSILON`` times, and the pairs of the attribute with the
    fewest levels.
    """
    unit = request.unit
    pairs = [one for one in _pairs(schema) if schema.cells(one) <= LARGEST_MARGIN]
    people = request.records or request.rows
    if divided and people and isinstance(request.budget, PureDP | ApproxDP):
        private = sorted((one for one in pairs if not is_public(schema, one, unit)), key=schema.cells)
        l1 = max((margin_sensitivity(schema, one, unit).l1 for one in private), default=1)
        alone = Z * sqrt(2) * float(l1) / (float(ANSWERS_OF_EPSILON) * float(request.budget.epsilon))
        count = int(TOO_WIDE * people / alone)
        return "\n".join(f"crosstab({', '.join(map(quoted, one))})" for one in private[:count])
    most = MOST_NOISIER_EPSILON if divided else MOST_NOISIER**2

    def tables(lines: Sequence[str]) -> int:
        found = required_tables(schema, needs_of(schema, lines))
        return sum(not is_public(schema, one, unit) for one in found)

    if 0 < tables(["pairs()"]) <= most and len(pairs) == len(_pairs(schema)):
        return "pairs()"
    chosen: list[str] = []
    for one in sorted(schema.attributes, key=lambda one: one.size):
        more = [*chosen, f"predict({quoted(one.name)})"]
        allowed = most if chosen else MOST_NOISIER**2
        if 2 <= one.size <= FEW_LEVELS and one.name not in unit.fixed and tables(more) <= allowed:
            chosen = more
    return "\n".join(chosen)


def _pairs(schema: Schema) -> list[Margin]:
    return list(combinations(schema.names, 2))


def says_nothing(plan: Plan, schema: Schema) -> bool:
    """Whether noise hides the tables that a plan measures for unasked answers, by a public number of people."""
    widths = [_width(plan, schema, need) for need in needs_of(schema, lines_of(str(plan.options.get("must", ""))))]
    people = plan.records or plan.rows or inf
    return any(width is not None and width >= TOO_WIDE * people for width in widths)


def fewer_needs(plan: Plan, schema: Schema) -> str:
    """As many pairs as noise does not hide, those of few cells first, where a plan for all of them hides them.

    The variance of the noise grows with the number of tables, or with its square where epsilon is divided.
    """
    needs = needs_of(schema, lines_of(str(plan.options.get("must", ""))))
    pairs = sorted(
        (one for one in required_tables(schema, needs) if not is_public(schema, one, plan.unit)), key=schema.cells
    )
    widest = max((width for need in needs if (width := _width(plan, schema, need)) is not None), default=0.0)
    people = plan.records or plan.rows
    if not people or not widest:
        return ""
    count = int(len(pairs) * (TOO_WIDE * people / widest) ** 2)
    return "\n".join(f"crosstab({', '.join(map(quoted, one))})" for one in pairs[: min(count, len(pairs) - 1)])


def is_required(measurement: Measurement) -> bool:
    """Whether a table was measured because it must be."""
    return measurement.label.startswith(LABEL)


def with_answers(plan: Plan, schema: Schema) -> Plan:
    """The plan with a note on everything that must be answerable: from which table, and how wide the interval is.

    Raises
    ------
    UnsupportedError
        If an answer would be so wide that it says nothing, with about what it would take; or if the method measures
        and draws no table that has it.
    """
    needs = needs_of(schema, lines_of(str(plan.options.get("must", ""))))
    if not needs or isinstance(plan.budget, NonPrivate):
        return plan
    told = [_answer(plan, schema, need) for need in needs]
    shown = told if len(told) <= SHOWN else [*told[:SHOWN], f"and {len(told) - SHOWN} more, not written out here."]
    return replace(plan, notes=(*plan.notes, *_price(plan, schema, needs), *shown))


def _price(plan: Plan, schema: Schema, needs: Sequence[Need]) -> list[str]:
    if "must_share" not in plan.options:
        return ["The release measures or draws all tables together, so every required question can be answered."]
    share = read_exact(str(plan.options["must_share"]), "must_share")
    tables = [one for one in required_tables(schema, needs) if not is_public(schema, one, plan.unit)]
    said = [
        f"What must be answerable takes {float(share):.0%} of the budget, for {len(tables)} table(s); "
        f"{float(1 - share):.0%} is left for everything else."
    ]
    widths = [width for need in needs if (width := _width(plan, schema, need)) is not None]
    if plan.records and widths and max(widths) / plan.records > WIDE:
        said.append(
            "THE WORKLOAD USES UP THE BUDGET: it needs so many tables that the intervals will be wide. Name fewer or "
            "smaller tables, or use a larger budget."
        )
    return said


def _holding(plan: Plan, need: Need) -> list[tuple[Margin, Step]]:
    """For each table of a need the least noisy step, fixed beforehand, that holds it."""
    found = []
    for table in need.tables:
        holding = [step for step in plan.steps if step.margin and set(table) <= set(step.margin)]
        if holding:
            found.append((table, min(holding, key=lambda step: step.cells * (step.standard_deviation or 0.0) ** 2)))
    return found


def _width(plan: Plan, schema: Schema, need: Need) -> float | None:
    """Half the width, in people, of the interval for one cell of the noisiest table of a need. Only noise counts.

    If a larger table was measured, a cell of this table is a sum of several cells of the larger one.
    """
    found = [
        step.standard_deviation * sqrt(max(step.cells / schema.cells(table), 1.0))
        for table, step in _holding(plan, need)
        if step.standard_deviation is not None
    ]
    return Z * max(found) if found else None


def _answer(plan: Plan, schema: Schema, need: Need) -> str:
    held = _holding(plan, need)
    if all(is_public(schema, table, plan.unit) for table in need.tables):
        return f"{need.text}: public under this unit, and exact."
    if not held:
        raise UnsupportedError(
            f"method '{plan.method}' measures and draws no table that can answer '{need.text}', which must be "
            "answerable."
        )
    tables = "; ".join(margin_label(table) for table, _ in held[:4]) + (" and more" if len(held) > 4 else "")
    width = _width(plan, schema, need)
    if width is None:
        return f"{need.text}: from the draw ({tables})."
    if not plan.records:
        return (
            f"{need.text}: from {tables}; by the noise alone, a 95% interval for the number of people in a cell is "
            f"± {width:,.0f}."
        )
    share = width / plan.records
    if share >= SAYS_NOTHING:
        raise UnsupportedError(
            f"'{need.text}' must be answerable, but this budget is too small for it: by the noise alone, a 95% "
            "interval "
            f"for the share of a cell among {plan.records:,} people would be ± {share:.2g}. Use about "
            f"{share / SAYS_NOTHING:,.1f} times the epsilon, fewer or smaller tables, or a larger must_share."
        )
    return (
        f"{need.text}: from {tables}; by the noise alone, a 95% interval for the share of a cell among "
        f"{plan.records:,} people is ± {share:.2g}."
    )
