"""The verb that compares budgets before a release: the noise behind each need, and what an intruder can gain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from understudy.api.plans import DEFAULT_METHOD, plan
from understudy.core.arrays import Progress
from understudy.core.exact_numbers import Number, read_exact
from understudy.core.schema import Schema
from understudy.errors import BudgetError, InputError
from understudy.privacy.promise.definition import ApproxDP, Definition, PureDP, Unit, read_unit
from understudy.privacy.promise.plan import Plan

if TYPE_CHECKING:
    from understudy.explore.attacker_beliefs import Attacker

USUAL_EPSILONS: tuple[str, ...] = ("0.25", "0.5", "1", "2", "4")
COVERED = 2.0  # standard deviations: 95.4 of 100 counts with Gaussian noise, 94.1 with geometric noise of a large scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """The noise on a count of the table that a need rests on; of several tables, of the one with the most noise."""

    need: str
    """What must be answerable."""
    table: tuple[str, ...]
    """The attributes of the table."""
    cells: int
    """How many counts it has."""
    within: float | None
    """About 19 of 20 counts are off by at most so many (two standard deviations of the noise). ``None``: the plan does
    not say, since it chooses during the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRow:
    """What one budget would give: the plan and the noise behind each need, or why there is no plan."""

    budget: Definition
    """The guarantee of the whole release."""
    plan: Plan | None
    """The plan, as ``plan`` makes it."""
    refused: str
    """Why there is none; empty otherwise."""
    needs: tuple[Behind, ...]
    """The noise behind each need, in the order of the needs."""
    attacker: Attacker
    """The most that an intruder can gain, by the guarantee alone."""


def compare_budgets(
    schema: Schema,
    *,
    epsilons: Sequence[Number] = USUAL_EPSILONS,
    delta: Number | None = None,
    unit: Unit | str = "replace",
    method: str = DEFAULT_METHOD,
    progress: Progress | None = None,
) -> tuple[BudgetRow, ...]:
    """Compare budgets from public facts alone: one plan for each epsilon. No data are touched, nothing is charged.

    Parameters
    ----------
    schema
        The public schema. Its workload says what must be answerable.
    epsilons
        The budgets.
    delta
        The delta that goes with each epsilon; without it the budgets are pure.
    unit
        Who is protected.
    method
        How the release will be made.
    progress
        Called with the plans that are made and the number of all.

    Returns
    -------
    tuple of BudgetRow
        In the order of the epsilons.

    Raises
    ------
    InputError
        If an argument is not what it should be. A budget that is too small for the method is no error: its row says so.

    Examples
    --------
    >>> import understudy as us
    >>> schema = us.Schema(attributes=(us.Attribute(name="sex", levels=("F", "M")),), workload=("crosstab(sex)",))
    >>> for row in compare_budgets(schema, epsilons=("1", "4"), method="histogram"):
    ...     print(row.budget, round(row.needs[0].within, 1), round(row.attacker.guess_bound, 2))
    pure differential privacy (epsilon = 1) 2.7 0.73
    pure differential privacy (epsilon = 4) 0.4 0.98
    """
    from understudy.explore.attacker_beliefs import attacker_at

    who, rows = read_unit(unit), []
    needs = _needs(schema)
    for number, epsilon in enumerate(epsilons):
        budget: Definition = PureDP(epsilon=epsilon) if delta is None else ApproxDP(epsilon=epsilon, delta=delta)
        made, refused = None, ""
        try:
            made = plan(schema, budget=budget, unit=who, method=method)
        except (InputError, BudgetError) as problem:
            refused = str(problem)
        bound = attacker_at(
            float(read_exact(epsilon, "epsilon")), delta=0.0 if delta is None else float(read_exact(delta, "delta")),
            unit=who,
        )  # fmt: skip
        found = () if made is None else tuple(_worst(schema, made, need, tables) for need, tables in needs)
        rows.append(BudgetRow(budget=budget, plan=made, refused=refused, needs=found, attacker=bound))
        if progress is not None:
            progress(number + 1, len(epsilons))
    return tuple(rows)


def _needs(schema: Schema) -> list[tuple[str, tuple[tuple[str, ...], ...]]]:
    from understudy.core.workload import needs_of

    stated = [(need.text, need.tables) for need in needs_of(schema)]
    return [*stated, ("each column by itself", tuple((name,) for name in schema.names))]


def _worst(schema: Schema, made: Plan, need: str, tables: Sequence[tuple[str, ...]]) -> Behind:
    """The table with the most noise. A table that is not measured by itself is a sum over a larger one that is."""
    listed = [_behind(schema, made, need, table) for table in tables]
    unknown = [one for one in listed if one.within is None]
    return unknown[0] if unknown else max(listed, key=lambda one: one.within or 0.0)


def _behind(schema: Schema, made: Plan, need: str, table: tuple[str, ...]) -> Behind:
    cells = schema.cells(table)
    spreads = [
        step.standard_deviation * math.sqrt(max(step.cells / cells, 1.0))
        for step in made.steps
        if step.action == "measure" and step.standard_deviation is not None and {*table} <= {*step.margin}
    ]
    found = Behind(need=need, table=table, cells=cells, within=None)
    return replace(found, within=COVERED * min(spreads)) if spreads else found


def read_workload(schema: Schema, lines: Sequence[str]) -> tuple[str, ...]:
    """Check what must be answerable, line by line, and give it back without doublets.

    Parameters
    ----------
    schema
        The public schema.
    lines
        Questions, one each.

    Returns
    -------
    tuple of str
        The questions.

    Raises
    ------
    InputError
        If a line cannot be read; the message quotes it.
    """
    from understudy.core.workload import read_needs

    return tuple(need.text for need in read_needs(schema, lines))
