"""Bins that follow the data, privately: a fine public grid is merged into a few bins of about equal noisy mass.

The schema has the fine grid. A part of the budget measures each refined attribute's one-way margin on it; the bins are
merged by these noisy counts alone. Any margin method then chooses and measures on merged bins (the gate adds cells up
before the noise). Rows get a fine bin again, drawn by the noisy one-way margin. See docs/theory/margins.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from understudy.core.mechanism import Stream
from understudy.core.schema import Attribute, Schema
from understudy.core.workload import quoted
from understudy.errors import InputError, UnsupportedError
from understudy.models.nearest_table import nearest_table
from understudy.models.published_model import FineBins, merged_schema, spread, weights_within
from understudy.privacy.gate.gate import Gate, Groups
from understudy.privacy.gate.measurement_steps import query_of
from understudy.privacy.promise.definition import NonPrivate, Unit
from understudy.privacy.promise.plan import Plan
from understudy.synth.shared.currency import Currency
from understudy.synth.shared.margin_methods import LARGEST_MARGIN, Margin, margin_label, measure_steps, whole_number
from understudy.synth.shared.method import Request, Synthesis, Synthesizer, count_text, planned
from understudy.synth.shared.required_tables import Musts

SHARE = Fraction(1, 10)  # of the budget, for all fine one-way margins together
LEAST, MOST = 2, 200  # merged bins of one attribute


@dataclass(frozen=True, slots=True, kw_only=True)
class Refinement:
    """Which attributes are refined, and into how many bins each."""

    schema: Schema
    bins: Mapping[str, int]

    @property
    def coarse(self) -> Schema:
        """The schema that the model sees: as many levels as there will be merged bins, whichever they are."""
        return merged_schema(self.schema, dict(self.bins))

    def groups(self, fine: Mapping[str, NDArray[np.int64]]) -> Groups:
        """For each code of a refined attribute its merged code, from noisy counts."""
        return {name: self._merge(self.schema[name], fine[name], count) for name, count in self.bins.items()}

    def _merge(self, attribute: Attribute, noisy: NDArray[np.int64], count: int) -> tuple[int, ...]:
        """Neighbouring bins merged at the quantiles of the noisy counts; every merged bin has at least one."""
        inside = noisy[: attribute.bins]
        mass = np.cumsum(nearest_table(inside, max(float(inside.sum()), 1.0)))
        cuts: list[int] = []
        for number in range(1, count):
            nearest = int(np.argmin(np.abs(mass - mass[-1] * number / count))) + 1
            least, most = (cuts[-1] if cuts else 0) + 1, attribute.bins - (count - number)
            cuts.append(min(max(nearest, least), most))
        merged = np.searchsorted(cuts, np.arange(attribute.bins), side="right")
        rest = range(count, count + attribute.size - attribute.bins)
        return (*(int(code) for code in merged), *rest)

    def describe(self, groups: Groups) -> str:
        """The merged bins, for the release's notes: they follow from noisy counts and are public."""
        told = []
        for name, codes in groups.items():
            edges, bins = self.schema[name].edges, self.schema[name].bins
            starts = [edges[bin_] for bin_ in range(bins) if bin_ == 0 or codes[bin_] != codes[bin_ - 1]]
            told.append(f"{name} at {', '.join(str(edge) for edge in (*starts, edges[-1]))}")
        return f"Bins merged by noisy counts: {'; '.join(told)}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Refined:
    """A margin method that looks at merged bins: fine one-way margins first, then the method with the rest."""

    method: Synthesizer
    refine: str

    def plan(self, schema: Schema, request: Request, looks_at: Callable[[Schema], Sequence[Margin]]) -> Plan:
        """``looks_at``: which margins of a merged schema the method may look at."""
        refinement = read_refinement(schema, self.refine)
        if isinstance(request.budget, NonPrivate):
            raise InputError(
                "refine chooses bins under a guarantee; without one, make the schema's edges what you want."
            )
        fixed = [name for name in refinement.bins if name in request.unit.fixed]
        if fixed:
            raise InputError(f"'{fixed[0]}' is fixed, so its counts are public and need no refinement.")
        currency = Currency.of(request.budget)
        fine: list[Margin] = [(name,) for name in refinement.bins]
        first = measure_steps(schema, fine, request.unit, currency.part(SHARE), "optimal", with_total=False)
        method = self._inner(refinement, request.unit)
        rest = method.plan(refinement.coarse, replace(request, budget=currency.part(1 - SHARE)))
        _check_fine_sizes(schema, [*fine, *looks_at(refinement.coarse)])
        return planned(
            schema,
            request,
            method=rest.method,
            steps=(*(replace(step, label=f"{step.label} on its fine grid") for step in first), *rest.steps),
            options={
                **{name: value for name, value in rest.options.items() if name != "must"},
                "refine": self.refine,
                **({"must": self._must} if self._must else {}),
            },
            adaptive=rest.adaptive,
            read_by=rest.read_by,
            notes=("Bins are merged by noisy one-way counts; all else is looked at in merged bins.", *rest.notes),
        )

    @property
    def _must(self) -> str:
        return str(getattr(self.method, "must", ""))

    def _inner(self, refinement: Refinement, unit: Unit) -> Synthesizer:
        """The method with its required tables written out, because questions are asked about the fine grid."""
        tables = Musts(must=self._must).read(refinement.schema, unit).tables
        for table in tables:
            merged = [name for name in table if name in refinement.bins]
            if merged:
                raise InputError(
                    f"{margin_label(table)} must be measured, and refine merges the bins of '{merged[0]}' in every "
                    "table but its own, which are then not published; leave one of the two out."
                )
        lines = (f"crosstab({', '.join(map(quoted, table))})" for table in tables)
        return replace(self.method, must="\n".join(lines)) if tables else self.method  # type: ignore[type-var]

    def run(self, plan: Plan, schema: Schema, gate: Gate, stream: Stream) -> Synthesis:
        """Rows on the fine grid, from the method's rows in merged bins."""
        refinement = read_refinement(schema, self.refine)
        number = len(refinement.bins)
        measured = gate.measure([query_of(step) for step in plan.steps[:number]])
        noisy = {one.margin[0]: one for one in measured}
        groups = refinement.groups({name: one.values for name, one in noisy.items()})
        gate.merge(groups)
        rest = replace(plan, budget=Currency.of(plan.budget).part(1 - SHARE), steps=plan.steps[number:])
        synthesis = self._inner(refinement, plan.unit).run(rest, refinement.coarse, gate, stream)
        rows_by = str(plan.options["rows_by"])
        fine = tuple(
            FineBins(
                name=name, codes=codes,
                weights=weights_within(codes, noisy[name].values, noisy[name].mechanism.variance),
            )
            for name, codes in groups.items()
        )  # fmt: skip
        tables = tuple(
            spread(table, schema, fine, rows_by, stream, copy) for copy, table in enumerate(synthesis.tables, start=1)
        )
        # Tables over merged bins are not tables over the schema's cells, so they are not published.
        kept = [one for one in synthesis.measurements if not set(one.margin) & set(groups)]
        return replace(
            synthesis,
            tables=tables,
            measurements=(*measured, *kept),
            notes=(refinement.describe(groups), *synthesis.notes),
            fitted=replace(synthesis.fitted, fine=fine) if synthesis.fitted is not None else None,
        )


def _check_fine_sizes(schema: Schema, margins: Sequence[Margin]) -> None:
    """The gate counts a margin on the fine grid before it merges bins."""
    for margin in margins:
        if schema.cells(margin) > LARGEST_MARGIN:
            raise UnsupportedError(
                f"bins are merged after counting, and {margin_label(margin)} has {count_text(schema.cells(margin))} "
                f"cells on the fine grid; at most {LARGEST_MARGIN:,} are counted. Give the schema fewer, wider bins."
            )


def check_refined(refine: str, draws: str) -> None:
    """What ``refine`` does not go with, whatever the method."""
    if refine and draws == "posterior":
        raise InputError(
            "refine publishes no tables over merged bins, and copies of the posterior are not valid without "
            "them; leave "
            "draws out."
        )


def refuse_without_model(refine: str) -> None:
    """More rows of a refined release come from its model, because tables over merged bins are not kept."""
    if refine:
        raise UnsupportedError(
            "tables over merged bins are not kept in a release, and this one holds no model; no more rows can be drawn."
        )


def read_refinement(schema: Schema, text: str) -> Refinement:
    """``age:8, income:10``: numeric attributes and how many bins each is to have."""
    bins: dict[str, int] = {}
    for part in (one.strip() for one in text.split(",")):
        if not part:
            continue
        name, _, number = part.rpartition(":")
        count = whole_number(number)
        if not name or count is None:
            raise InputError(
                f'refine ({part[:100]}) must name attributes and numbers of bins, such as "age:8, income:10".'
            )
        attribute = schema[name.strip()]
        if attribute.name in bins:
            raise InputError(f"refine names '{attribute.name}' twice.")
        _check_refinable(schema, attribute, count)
        bins[attribute.name] = count
    if not bins:
        raise InputError(f'refine ({text}) must name attributes and numbers of bins, such as "age:8, income:10".')
    return Refinement(schema=schema, bins=bins)


def _check_refinable(schema: Schema, attribute: Attribute, count: int) -> None:
    if attribute.levels:
        raise InputError(f"refine merges bins, and '{attribute.name}' has levels; leave it out.")
    most = min(MOST, attribute.bins - 1)
    if most < LEAST:
        raise InputError(
            f"refine: '{attribute.name}' has {attribute.bins} bin(s), too few to merge any into {LEAST} or more; leave "
            "it out, or give the schema a finer grid."
        )
    if not LEAST <= count <= most:
        raise InputError(
            f"refine: '{attribute.name}' has {attribute.bins} bins; merge them into at least {LEAST} and at most "
            f"{most} ({count} were asked for)."
        )
    if any(attribute.name in rule.attributes for rule in schema.zeros):
        raise UnsupportedError(
            f"a structural zero is about '{attribute.name}', and a merged bin might be partly impossible; leave it out "
            "of refine."
        )
