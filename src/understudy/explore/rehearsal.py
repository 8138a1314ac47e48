"""A rehearsal: the whole way from a plan to a release, with randomness that protects nobody.

Every rehearsal goes through the same gate, charge and synthesizer as a release, but with a seeded stream. The result
states "no guarantee", so it cannot be mistaken for a release even if it were kept. Nothing here writes it to a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.core.measurement import Measurement
from understudy.core.schema import Schema
from understudy.core.table import CodedTable
from understudy.errors import InputError
from understudy.privacy.mechanisms.noise import Geometric
from understudy.privacy.promise.definition import ApproxDP, Definition, NonPrivate, PureDP, Unit, read_unit
from understudy.privacy.promise.plan import Option, Plan
from understudy.privacy.randomness.streams import SeededStream
from understudy.release.run import Destination, start_run
from understudy.release.statement import Provenance, Statement
from understudy.release.table_release import Release
from understudy.synth.shared.found_columns import plan_finding
from understudy.synth.shared.method import Request, configure

HARDLY_ANY = Fraction(1, 64)  # geometric noise of this scale is 0 but for a probability of 2 exp(-64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What is asked of a release except its epsilon: method, delta, unit, copies, sizes, options."""

    schema: Schema
    method: str = "auto"
    delta: Fraction | None = None
    unit: Unit = field(default_factory=Unit)
    records: int | None = None
    rows: int | None = None
    options: Mapping[str, Option] = field(default_factory=dict)

    def budget(self, epsilon: Fraction) -> Definition:
        return PureDP(epsilon=epsilon) if self.delta is None else ApproxDP(epsilon=epsilon, delta=self.delta)

    def plan(self, epsilon: Fraction | None, copies: int = 1) -> Plan:
        """The plan of one setting; without an epsilon, of tables without a guarantee."""
        budget = NonPrivate() if epsilon is None else self.budget(epsilon)
        public = self.unit.public_total
        request = Request(
            budget=budget,
            unit=self.unit,
            copies=copies,
            rows=self.rows if public or self.rows is not None else self.records,
            records=self.records if public else None,
        )
        return plan_finding(configure(self.method, self.options).plan, self.schema, request)

    def splits(self, plan: Plan) -> bool:
        """Whether copies share the budget: each is drawn from the data themselves. Copies of noisy tables do not."""
        return any(step.action == "draw" for step in plan.steps)


def rehearse(source: Any, plan: Plan, seed: int) -> Release:
    """A run of a plan on a source, with repeatable randomness: the release carries no guarantee and says so."""
    release: Release = start_run(source, plan, Destination(), stream=SeededStream(seed))
    return release


def published(table: CodedTable, margin: tuple[str, ...]) -> Release:
    """A release as if the table itself had been published: what an analyst with the real data could conclude."""
    from understudy import __version__

    schema, records = table.schema, table.rows
    plan = Plan(
        schema_fingerprint=schema.fingerprint,
        method="histogram",
        budget=NonPrivate(),
        unit=Unit(),
        copies=1,
        rows=None,
        records=records,
        steps=(),
    )
    empty = pa.table({name: pa.array([], pa.string()) for name in schema.columns})
    return Release(
        schema=schema,
        tables=(empty,),
        measurements=(
            Measurement(margin=margin, values=table.counts(margin), mechanism=Geometric(scale=HARDLY_ANY), label="all"),
        ),
        statement=Statement(unit=Unit(), guarantee=NonPrivate()),
        provenance=Provenance(method="histogram", package_version=__version__, plan=plan, records=records),
    )


def prior_of(release: Release) -> tuple[float, int] | None:
    """The Dirichlet prior of each cell and the rows of a copy, if that is how all of a release was drawn."""
    mechanisms = [one for draw in release.provenance.draws for one in draw["mechanisms"]]
    if not mechanisms or any(one["mechanism"] != "dirichlet_multinomial" for one in mechanisms):
        return None
    if len({(one["prior"], one["rows"]) for one in mechanisms}) != 1 or len(mechanisms) != release.copies:
        return None  # strata have priors of their own
    if any("weights" in one for one in mechanisms):
        return None  # cells have priors of their own
    return float(Fraction(mechanisms[0]["prior"])), int(mechanisms[0]["rows"])


def seeds(seed: int, *purpose: int) -> int:
    """One number for the seeded stream from several, without collisions worth speaking of."""
    return int(np.random.SeedSequence([seed, *purpose]).generate_state(1, np.uint64)[0])


def unit_of_rehearsal(unit: Unit | str, schema: Schema) -> Unit:
    """The unit that a rehearsal protects: known attributes, and no column that says whose a row is.

    Rehearsed rows are drawn, or taken as they are: none is left out to keep a bound on the rows of a unit.
    """
    who = read_unit(unit)
    if who.unit_id is not None:
        raise InputError(
            f"unit_id ({who.unit_id}) says which rows of the data to leave out, and a rehearsal leaves out none; give "
            "rows_per_unit without it."
        )
    schema.margin(who.fixed)
    return who


def check_whole(value: int, name: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InputError(f"{name} ({value!r}) must be a whole number between {least:,} and {most:,}.")
    return value


def check_level(level: float) -> float:
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise InputError(f"level ({level!r}) must be between 0 and 1.")
    return level


def listed_names(names: Sequence[str] | str) -> tuple[str, ...]:
    """Names as a list, or one name alone."""
    return (names,) if isinstance(names, str) else tuple(names)
