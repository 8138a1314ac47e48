"""Synthesis from chosen margins (Raab's ipf), fitted jointly with the noise of every table known.

``postprocess = published`` does what Raab (2022) published instead: equal shares, negative counts set to a tiny
positive number, every table scaled to shares, iterative proportional fitting, a constant number of independent rows.
Without a guarantee (``NonPrivate``) the same is done with exact tables and a prior count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats
from understudy.core.exact_numbers import read_exact
from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.core.schema import Schema
from understudy.errors import InputError, InternalError, UnsupportedError, unknown_name
from understudy.models.fit import MAX_CELLS, Known, build_tree, structural_groups
from understudy.models.junction_tree import JunctionTree, Margin, Propagation, axes_outside, spread
from understudy.models.model import Model
from understudy.privacy.gate.gate import Gate
from understudy.privacy.gate.measurement_steps import query_of
from understudy.privacy.mechanisms.noise import Exact
from understudy.privacy.promise.calibrate import noise_for
from understudy.privacy.promise.definition import Definition, NonPrivate
from understudy.privacy.promise.event import NoNoise
from understudy.privacy.promise.plan import Option, Plan, Step
from understudy.synth.shared.bounded_tables import BoundedNoise
from understudy.synth.shared.choosing_method import RefiningMethod
from understudy.synth.shared.margin_methods import (
    check_copies,
    check_margin_sizes,
    check_model_size,
    drawn_option,
    is_public,
    known_margins,
    margin_label,
    measure_steps,
    public_records,
    read_margins,
    rows_law,
    total_of,
    whole_number,
)
from understudy.synth.shared.merged_bins import refuse_without_model
from understudy.synth.shared.method import Request, Synthesis, check_request, planned, synthesizers
from understudy.synth.shared.required_tables import LABEL, Required
from understudy.synth.shared.strata import Fitter, Strata, read_strata, synthesis_in_strata, synthesis_of

SPLITS = ("optimal", "equal")
POSTPROCESS = ("joint", "published")
PRIOR = "1"  # synthpop's default, in records over all cells of a table (Raab 2022, footnote 17)
MODEL_CELLS = 1_000_000  # the largest model in which rows follow required tables beside the margins
TINY = 1e-6  # what the published method makes of a count that is not positive

SWEEPS = 200
SETTLED = 1e-6  # largest difference in a cell, as a share of all records, at which the tables hold
STANDING = 1e-7  # largest change of a cell, as a share of all records, at which sweeps no longer change anything
CHECKED = 200  # up to so many sweeps the tables are compared after each; later only after every TOGETHER-th
TOGETHER = 20


@synthesizers.add
@dataclass(frozen=True, slots=True, kw_only=True)
class Ipf(RefiningMethod):
    """Noisy margins chosen beforehand, and the model nearest to independence that they allow.

    Raises
    ------
    UnknownNameError
        If a value is none of those that an option offers.
    InputError
        If an option is not what it should be, or options do not go together.
    """

    name: ClassVar[str] = "ipf"
    summary: ClassVar[str] = "noise on chosen margins, fitted jointly; for a handful of attributes"
    guarantees: ClassVar[tuple[str, ...]] = ("pure", "approx", "zcdp", "none")
    inference: ClassVar[str] = "valid"

    margins: str = "2"
    """Which tables are measured: a number of ways (``2``: all pairs) or a list (``sex+age, age+income``)."""
    split: str | None = None
    """How the budget is divided over the tables: ``optimal`` (least total variance; the default) or ``equal``."""
    postprocess: str = "joint"
    """``joint`` fits all tables together, with the noise of each known. ``published`` does what Raab (2022) published:
    equal shares of the budget, negative counts set to a tiny positive number, iterative proportional fitting,
    multinomial rows."""
    prior: str = PRIOR
    """Prior strength in records, spread over all cells of a table. Used with ``postprocess = published`` and without a
    guarantee only."""
    sweeps: int = SWEEPS
    """After how many sweeps iterative proportional fitting stops where tables contradict one another (Raab used 5,000).
    Used with ``postprocess = published`` and without a guarantee only."""
    noise: str = ""
    """Another noise than the usual one: ``trimmed`` (Gaussian noise that stays within ``bound`` in every table; needs a
    delta) or ``exponential`` (counts that are not negative; needs a pure epsilon and a public number of rows). Neither
    is more accurate; see docs/theory/bounded-noise.md."""
    bound: int = 0
    """With ``noise = trimmed``: how many people a noisy count may be off at most."""

    def __post_init__(self) -> None:
        RefiningMethod.__post_init__(self)  # super() does not work in a class with slots
        if self.draws == "posterior" and (self.strata or self.postprocess == "published"):
            raise InputError("draws = posterior is for one joint model of all rows; leave strata and postprocess out.")
        if self._bounded and (self.postprocess == "published" or self.refine):
            raise InputError("noise is for margins that are fitted jointly; leave postprocess and refine out.")
        if self.noise == "exponential" and self.draws == "posterior":
            raise InputError(
                "draws = posterior needs noise whose law does not depend on the count; noise = exponential is not."
            )
        if self.refine and self.postprocess == "published":
            raise InputError("refine is not what Raab published; leave postprocess out.")
        for name, value, known in (
            ("split", self.split, SPLITS),
            ("postprocess", self.postprocess, POSTPROCESS),
        ):
            if value is not None and value not in known:
                raise unknown_name(name, value, known)
        if self.postprocess == "published" and (self.split == "optimal" or self.rows_by == "rounding"):
            raise InputError(
                "postprocess = published means equal shares and multinomial rows; leave split and rows_by out."
            )
        if read_exact(self.prior, "prior") < 0:
            raise InputError(f"prior ({self.prior}) must not be negative.")
        if self.sweeps < 1:
            raise InputError(f"sweeps ({self.sweeps}) must be at least 1.")

    def plan(self, schema: Schema, request: Request) -> Plan:
        check_request(type(self), schema, request)
        check_copies(self.draws, request.copies)
        self._bounded.check(request.budget, request.unit)
        if self.draws == "posterior" and isinstance(request.budget, NonPrivate):
            raise InputError("draws = posterior is for noisy tables; without a guarantee there is no noise.")
        if self.refine:
            return self._refined().plan(schema, request, lambda merged: self._margins(read_strata(merged, self.strata)))
        strata = read_strata(schema, self.strata)
        margins = self._margins(strata)
        check_margin_sizes(schema, margins)
        inner = [strata.inside(margin) for margin in margins]
        if not any(inner):
            raise InputError(
                f"margins ({self.margins}) say nothing but how large the strata are; name some attributes that vary "
                f"inside them, such as {strata.inner[0]}."
            )
        for rules in {part.schema.zeros: part.schema for part in strata.parts}.values():
            check_model_size(rules, inner, [strata.inside(schema.margin(request.unit.fixed))])
        required = self._musts.read(schema, request.unit)
        if required and self.noise == "exponential":
            raise InputError(
                "no question is answered from counts by the exponential mechanism; leave noise or must out."
            )
        published = self._published(request.budget)
        if published and request.rows is None and not request.unit.public_total:
            raise InputError(
                "the published method draws a constant number of rows; under add_remove say how many (rows)."
            )
        if not published and self.prior != PRIOR:
            raise InputError(f"prior ({self.prior}) belongs to postprocess = published; the joint fit chooses its own.")
        if not published and self.sweeps != SWEEPS:
            raise InputError(f"sweeps ({self.sweeps}) belong to postprocess = published; the joint fit has none.")
        return planned(
            schema,
            request,
            method=self.name,
            steps=self._steps(schema, margins, request, required),
            options={**self._options(request.budget), **self._musts.options(required)},
            notes=("NO GUARANTEE: rows are drawn from a model of the exact tables.",)
            if isinstance(request.budget, NonPrivate)
            else self._bounded.notes,
        )

    @property
    def _bounded(self) -> BoundedNoise:
        return BoundedNoise(noise=self.noise, bound=self.bound)

    def _margins(self, strata: Strata) -> list[Margin]:
        """The margins asked for; a number of ways counts the attributes inside the strata."""
        counted = strata.names and whole_number(self.margins) is not None
        return strata.joined_all(read_margins(strata.parts[0].schema if counted else strata.schema, self.margins))

    def _published(self, budget: Definition) -> bool:
        return self.postprocess == "published" or isinstance(budget, NonPrivate)

    def _options(self, budget: Definition) -> dict[str, Option]:
        """What the plan records: everything that matters for this budget."""
        options: dict[str, Option] = {"margins": self.margins, "strata": self.strata}
        if self._published(budget):
            drawn = {"rows_by": self._rows_by(budget)}
            stopped = {} if self.sweeps == SWEEPS else {"sweeps": self.sweeps}
            return {**options, **drawn, "postprocess": self.postprocess, "prior": self.prior, **stopped}
        drawn = {"split": self._split(budget), "rows_by": self._rows_by(budget)}
        return {**options, **drawn, **drawn_option(self.draws), **self._bounded.options}

    def _split(self, budget: Definition) -> str:
        return self.split or ("equal" if self._published(budget) else "optimal")

    def _rows_by(self, budget: Definition) -> str:
        return "multinomial" if self._published(budget) and not self.rows_by else rows_law(self.draws, self.rows_by)

    def _steps(
        self, schema: Schema, margins: Sequence[Margin], request: Request, required: Required
    ) -> tuple[Step, ...]:
        """The margins with the rest of the budget, and the required tables. A table that is both gets both shares."""
        more = [table for table in required.tables if table not in margins]
        if not isinstance(request.budget, NonPrivate):
            steps = measure_steps(
                schema, [*margins, *more], request.unit, request.budget, self._split(request.budget),
                with_total=not self._published(request.budget), required=required.tables, set_aside=required.share,
                extra=more, noises_for=self._bounded.noises if self._bounded else noise_for,
            )  # fmt: skip
            return tuple(replace(one, label=f"{LABEL}{one.label}") if one.margin in more else one for one in steps)
        margins = [*margins, *more]
        movable = [margin for margin in margins if not is_public(schema, margin, request.unit)]
        if not movable:
            raise UnsupportedError("no unit can change any of these margins; nothing is left to protect.")
        return tuple(
            Step(
                label=f"{LABEL if margin in more else ''}{margin_label(margin)}",
                margin=margin,
                action="measure",
                event=NoNoise(),
                cells=int(schema.allowed(margin).sum()),
            )
            for margin in movable
        )

    def run(self, plan: Plan, schema: Schema, gate: Gate, stream: Stream) -> Synthesis:
        if self.refine:
            return self._refined().run(plan, schema, gate, stream)
        bounded = self._bounded
        measured = gate.measure(
            [bounded.query(step, schema, plan.unit) if bounded else query_of(step) for step in plan.steps]
        )
        known = known_margins(schema, gate, plan.unit)
        synthesis = self._rows(plan, schema, measured, records=public_records(plan, gate), stream=stream, known=known)
        if isinstance(plan.budget, NonPrivate):
            return replace(synthesis, measurements=())  # exact tables are never published, whatever is promised
        return synthesis

    def redraw(
        self, plan: Plan, schema: Schema, measured: Sequence[Measurement], records: int | None, stream: Stream
    ) -> Synthesis:
        """Tables from the measurements. This is post-processing: it may be repeated, and costs no privacy."""
        refuse_without_model(self.refine)
        return self._rows(plan, schema, measured, records=records, stream=stream, known={})

    def _rows(
        self, plan: Plan, schema: Schema, measured: Sequence[Measurement], *, records: int | None, stream: Stream,
        known: dict[Margin, NDArray[np.int64]],
    ) -> Synthesis:  # fmt: skip
        strata, rows_by = read_strata(schema, self.strata), self._rows_by(plan.budget)
        required = self._musts.read(schema, plan.unit)
        modelled = required.in_model(measured, MODEL_CELLS, [schema.margin(plan.unit.fixed)])
        if self._published(plan.budget):
            # Only shares matter to this fit, so its total is the number of rows and no record is counted for it.
            total = float(records if records is not None else plan.rows or 0)
            made = synthesis_in_strata(
                plan, strata, modelled, total=total, rows_by=rows_by, stream=stream, known=known,
                fitter=_published_fit(read_exact(self.prior, "prior"), self.sweeps),
            )  # fmt: skip
            return replace(made, measurements=tuple(measured))
        total = total_of(schema, records, measured)
        return synthesis_of(
            plan, strata, measured, total=total, stream=stream, draws=self.draws, rows_by=self.rows_by, known=known,
            modelled=modelled,
        )  # fmt: skip


def _published_fit(prior: Fraction, sweeps: int) -> Fitter:
    """Add the prior, clip, scale, fit: steps 3 and 5 to 8 of Raab (2022), section 2.

    Noise is additive, so the prior may as well be added after it.
    """

    def fitter(
        schema: Schema, measured: Sequence[Measurement], _total: float, _stream: Stream, known: Known
    ) -> tuple[Model, str]:
        tables: list[tuple[Margin, NDArray[np.float64]]] = []
        told = [one for one in measured if one.margin]
        for one, even in zip(told, even_shares(schema, [one.margin for one in told]), strict=True):
            least = 0.0 if isinstance(one.mechanism, Exact) else TINY
            raised = np.maximum(one.values + float(prior) * even, least)
            tables.append((one.margin, np.where(schema.allowed(one.margin), raised, 0.0)))
        tables += [(margin, values.astype(np.float64)) for margin, values in known.items() if values.any()]
        if not any(table.any() for _, table in tables):  # nobody there, or in this stratum, and no prior count
            model, _ = fit_ipf(schema, [(margin, schema.allowed(margin).astype(np.float64)) for margin, _ in tables])
            return model, "every table is empty and the prior count is 0, so all possible cells are alike"
        model, report = fit_ipf(schema, tables, sweeps=sweeps)
        return model, report.describe().rstrip(".")

    return fitter


# Iterative proportional fitting (Deming and Stephan 1940) on a junction tree: the fit that Raab publishes.
#
# Each table in turn is made to hold exactly, by multiplying the model with table / current margin; a sweep visits
# all. Tables that agree with one another lead to the distribution of largest entropy that has them all (Csiszar
# 1975). Noisy tables contradict one another. The sweeps then end in a cycle, because there is no fit to converge to.
# The remaining distance between the model and the tables is measured and always reported. The regularised fit
# (``models.fit``) does not have this problem and is the default. This fit is kept for comparison with what was
# published.


@dataclass(frozen=True, slots=True, kw_only=True)
class IpfReport:
    """How the sweeps ended.

    ``difference``: the largest distance of a fitted cell from its table, as a share of all records, after the last
    sweep. ``movement``: the largest change of a cell of a clique in the last sweep, on the same scale.
    """

    sweeps: int
    difference: float
    movement: float
    cells: int

    @property
    def converged(self) -> bool:
        """Whether every table holds."""
        return self.difference <= SETTLED

    def describe(self) -> str:
        """One sentence for a release's notes."""
        sizes = f"largest distance of a cell from its table {self.difference:.1e} of all records"
        if self.converged:
            return f"Iterative proportional fitting converged in {self.sweeps} sweeps; {sizes}."
        state = "stands still" if self.movement <= STANDING else "still moves"
        return (
            f"Iterative proportional fitting did NOT converge in {self.sweeps} sweeps (tables that contradict one "
            f"another cannot all hold); the model {state}, {sizes}."
        )


def fit_ipf(
    schema: Schema, tables: Sequence[tuple[Margin, Floats]], *, sweeps: int = SWEEPS, limit: int = MAX_CELLS
) -> tuple[Model, IpfReport]:
    """Sweeps over the tables from equal cells, until all hold or nothing moves.

    Tables are non-negative and are taken as shares: each is divided by its own sum.
    """
    shares = [(margin, _share(margin, table)) for margin, table in tables if margin]
    tree = build_tree(schema, [margin for margin, _ in shares], limit)
    hosted: dict[int, list[tuple[Margin, Floats]]] = {}
    for margin, share in shares:
        host = tree.host(margin)
        if host is None:
            raise InternalError(f"no clique holds {' x '.join(margin)}.")
        hosted.setdefault(host, []).append((margin, share))
    propagation = Propagation(tree)
    potentials = _start(schema, tree)
    beliefs, _ = propagation.run(potentials)
    cells = _OneClique(tree.cliques[0], beliefs[0], hosted.get(0, [])) if len(tree.cliques) == 1 else None
    difference, movement, done = _difference(tree, beliefs, hosted), 0.0, 0
    while done < sweeps and difference > SETTLED:
        if cells is None:
            times = 1
            before = [belief.copy() for belief in beliefs]
            for host, listed in hosted.items():
                # Multiplying one clique changes the margins that the other cliques must agree with.
                for factor in _make_hold(tree.cliques[host], beliefs[host], listed):
                    with np.errstate(divide="ignore"):
                        potentials[host] = potentials[host] + np.log(factor)
                beliefs, _ = propagation.run(potentials)
            movement = max(float(np.abs(now - then).max()) for now, then in zip(beliefs, before, strict=True))
        else:
            times = 1 if done < CHECKED else min(TOGETHER, sweeps - done)
            movement = cells.sweep(times)
        done += times
        difference = _difference(tree, beliefs, hosted)
        if movement <= STANDING / 10:
            break
    model = Model(tree=tree, beliefs=tuple(beliefs), total=1.0)
    return model, IpfReport(sweeps=done, difference=difference, movement=movement, cells=tree.cells)


class _OneClique:
    """All tables in one clique: the sweeps are loops over its cells, and change them in place."""

    def __init__(self, clique: Margin, belief: Floats, listed: Sequence[tuple[Margin, Floats]]) -> None:
        self._cells = belief.reshape(-1)
        self._sizes = np.array(belief.shape, dtype=np.int64)
        self._wanted = np.concatenate([share.reshape(-1) for _, share in listed])
        self._all_pairs = len(clique) > 1 and [margin for margin, _ in listed] == list(combinations(clique, 2))
        if not self._all_pairs:
            places = [
                np.broadcast_to(
                    spread(np.arange(share.size, dtype=np.float64).reshape(share.shape), margin, clique), belief.shape
                ).reshape(-1)
                for margin, share in listed
            ]
            self._places = np.array(places, dtype=np.int32)
            self._starts = np.cumsum([0, *(share.size for _, share in listed)])

    def sweep(self, times: int) -> float:
        """The largest change of a cell in the last of some sweeps."""
        from understudy.models.proportional_fitting_compiled import sweep, sweep_pairs

        if self._all_pairs:
            return float(sweep_pairs(self._cells, self._sizes, self._wanted, times))
        return float(sweep(self._cells, self._places, self._starts, self._wanted, times))


def even_shares(schema: Schema, margins: Sequence[Margin], limit: int = MAX_CELLS) -> list[Floats]:
    """The margins of a table of equal possible cells, as shares. A prior count spread by them has tables that agree."""
    tree = build_tree(schema, list(margins), limit)
    model = Model(tree=tree, beliefs=tuple(Propagation(tree).run(_start(schema, tree))[0]), total=1.0)
    return [model.project(margin) for margin in margins]


def _share(margin: Margin, table: Floats) -> Floats:
    values = np.asarray(table, dtype=np.float64)
    if not (values >= 0).all() or not values.sum() > 0:
        raise InputError(f"the table {' x '.join(margin)} must be non-negative and not empty.")
    return np.asarray(values / values.sum())


def _start(schema: Schema, tree: JunctionTree) -> list[Floats]:
    """Equal cells, none where the schema rules a combination out."""
    potentials = [np.zeros(tree.shape(clique)) for clique in tree.cliques]
    alone = [(name,) for name in schema.names]
    for margin in [*alone, *structural_groups(schema)]:
        allowed = schema.allowed(margin)
        if not allowed.all():
            host = tree.host(margin)
            if host is None:
                raise InternalError(f"no clique holds {' x '.join(margin)}.")
            mask = np.where(allowed, 0.0, -np.inf)
            potentials[host] = potentials[host] + spread(mask, margin, tree.cliques[host])
    return potentials


def _make_hold(clique: Margin, belief: Floats, listed: Sequence[tuple[Margin, Floats]]) -> list[Floats]:
    """Make each table hold in turn, in place. Gives the factors that did it, each spread over the clique."""
    factors = []
    for margin, share in listed:
        factor = spread(_ratio(share, belief.sum(axis=axes_outside(clique, margin))), margin, clique)
        belief *= factor
        factors.append(factor)
    return factors


def _ratio(share: Floats, now: Floats) -> Floats:
    return np.divide(share, now, out=np.zeros_like(share), where=now > 0)


def _difference(tree: JunctionTree, beliefs: Sequence[Floats], hosted: dict[int, list[tuple[Margin, Floats]]]) -> float:
    return max(
        float(np.abs(beliefs[host].sum(axis=axes_outside(tree.cliques[host], margin)) - share).max())
        for host, listed in hosted.items()
        for margin, share in listed
    )
