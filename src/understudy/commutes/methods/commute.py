"""Commuting patterns by Dirichlet-multinomial draws around each destination (Machanavajjhala et al. 2008, and beyond).

By default each destination sees the origins as rings (and sectors) of equal public gravity mass, as many as its public
number of jobs can pay for; the prior of a cell is set by the exact delta of the draw; workers are placed inside their
cell by the gravity model. A small part of the budget measures how commuting falls with distance. The published method
(single blocks, Algorithm 2, Theorem 4.4) is there by name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from understudy.commutes.models.gravity import GravityTree
from understudy.commutes.models.nested_areas import NestedAreas
from understudy.commutes.models.outside import OutsideHomes, parts_from
from understudy.commutes.models.regions import (
    AreaFactors,
    AreaRegions,
    PlaceRegions,
    RingCells,
    RingRegions,
    belief,
    belief_in_answers,
)
from understudy.commutes.shared.area_flows import FLOWS_LABEL, every_pair, expected_flows
from understudy.commutes.shared.distances_and_homes import (
    ALL_DISTANCES_LABEL,
    DISTANCES_LABEL,
    HOMES_LABEL,
    PART_OF_ALL,
    FlowModel,
    choose_level,
    fit_homes,
    home_areas,
    measure_decays,
    measure_homes,
    workers_outside,
)
from understudy.commutes.shared.flow_method import UNIT_NOTE, FlowSynthesis, check_flow_request, flow_synthesizers
from understudy.commutes.shared.priors import build_mechanism, check_rule, definition_6_notes
from understudy.commutes.shared.segments import (
    SegmentDesign,
    choose_design,
    planned_design,
    segment_designs,
    segment_part,
)
from understudy.commutes.shared.settings import (
    AREAS,
    Shrinking,
    positive,
    read_area_steps,
    read_shrinking,
    share,
)
from understudy.core.apportion import apportion
from understudy.core.arrays import Floats, Integers
from understudy.core.exact_numbers import float_up
from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.core.places import DESTINATION, PAIR, Places
from understudy.errors import InputError, UnsupportedError
from understudy.privacy.gate.flow_gate import FlowGate, FlowTable, Regions, Sink
from understudy.privacy.mechanisms.draw_facts import FlowFacts
from understudy.privacy.mechanisms.flow_draws import CellUrn, FlowMechanism
from understudy.privacy.mechanisms.flow_mixture import ANSWERS, MixedCells
from understudy.privacy.mechanisms.noise import Geometric
from understudy.privacy.mechanisms.ring_division import (
    DIVISION,
    WITH_CELLS_OUTSIDE,
    cells_of_first_division,
    usable_cells,
)
from understudy.privacy.promise.definition import ApproxDP, NonPrivate, ProbabilisticDP, PureDP
from understudy.privacy.promise.event import ApproxLoss, Event, GeometricNoise, NoNoise, PureLoss, breach_loss
from understudy.privacy.promise.plan import Plan, Step
from understudy.synth.shared.method import Request, planned

THEOREM = "docs/theory/commute.md"
SIZES_LABEL = "jobs by destination"
SIZES_SHARE = Fraction(3, 10)  # the share of epsilon for the sizes of private destinations
COARSENINGS = ("rings", "none")
FITS = 2  # how often masses are fitted to homes and decays to distances, in turn
ROWS_DRAWN = {
    "auto": "by the law that the size of each destination asks for",
    "urn": "from the Dirichlet posterior of each destination",
    "geometric": "in proportion to noisy counts of the cells of each destination",
}
SPREAD = 0.1  # variance between destinations of an area, in units of the variance between workers


def _scale(moved: int, epsilon: Fraction) -> Fraction:
    """A noise scale that a float holds exactly, rounded up, so that the charge is for the noise that is drawn."""
    return Fraction(float_up(moved / epsilon))


@flow_synthesizers.add
@dataclass(frozen=True, slots=True, kw_only=True)
class Commute:
    """Synthetic commutes, destination by destination.

    Raises
    ------
    InputError
        If an option is not what it should be, or options do not go together.
    """

    name: ClassVar[str] = "commute"
    summary: ClassVar[str] = "commuting patterns: draws over public rings around each destination, by its size"
    guarantees: ClassVar[tuple[str, ...]] = ("approx", "pure", "probabilistic", "none")

    coarsen: str = "rings"
    """Into which areas the homes around a destination are grouped: ``rings`` (adaptive; the default), ``area:LEVEL``
    (the areas of one level, or a partition of your own in a column ``area_LEVEL`` of the places),
    ``areas:place:2,tract:10,county`` (areas by distance in miles, fine ones nearby; levels must nest) or ``none``
    (single places)."""
    cut_miles: str = ""
    """Homes farther away than this many miles are one cell, the origin ``elsewhere``; nobody is left out. Empty: no
    cut."""
    shrink: str = ""
    """Domain shrinking (Algorithm 2), with ``coarsen = none``: MILES:PROBABILITY pairs such as
    ``10:1,50:0.2,200:0.0378``, the probability with which an empty place stays in the domain. Beyond the last distance
    lies ``elsewhere``."""
    rule: str = "exact"
    """How the prior is calibrated: ``exact`` (the exact privacy loss), ``theorem`` (Theorem 4.4; with ``shrink``
    Theorem 5.2) or ``accept_reject``."""
    mechanism: str = "auto"
    """The law of the draw. ``auto`` takes for each destination the one with the least expected error, by its public
    size: an answer for each job, noise that keeps the public total, or noise on every cell. It is for rings with
    rule = exact; elsewhere it means ``urn``. ``urn`` draws from the Dirichlet posterior; ``geometric`` adds plain noise
    to every cell."""
    decay_share: str = "0.05"
    """The part of epsilon that measures how many jobs there are by distance; 0 measures nothing and takes a fixed
    decay."""
    decay_level: str = "auto"
    """The level of areas for which jobs by distance are measured: ``auto`` takes the finest that stands out from the
    noise, ``none`` one table for all."""
    home_share: str = "0.03"
    """The part of epsilon that measures how many workers live in each area; 0 measures nothing and takes public
    residents."""
    flow_share: str = "0"
    """The part of epsilon that measures flows between areas, as ``commute_tree`` does; 0 measures none. Workers of an
    area are then placed by what was measured, so that one release has flows and distances of single workplaces. For
    ``rings``, in a city or a state whose places have areas."""
    prior_share: str = "auto"
    """Prior strength per record of a destination, which sets the number of cells: a positive number, or ``auto``."""
    blend: str = "auto"
    """Whether workers are placed inside their ring by a mixture of the drawn rows and the measured decay: ``auto``
    weighs them for the least expected squared error, ``none`` uses the drawn rows alone. For ``rings`` only."""
    segments: str = ""
    """Partitions of the jobs whose segments are measured and released too: ``age,earnings,industry`` (the columns of
    LODES), or columns of your own (``sex=F+M``); ``a=A1+A2*b=B1+B2`` where combinations are known, because a row is one
    job. All share ``segment_share``. A partition that the unit fixes is public by workplace."""
    segment_share: str = "0.2"
    """The part of epsilon that measures segments by area of the home and of the work, where there are ``segments``."""
    suppress_as_published: bool = False
    """Leave out workers beyond the cut, as the published release did. Without a guarantee only."""
    published_epsilon: str = "4.6"
    """The epsilon for which the published prior is computed where there is no guarantee."""
    published_delta: str = "1e-5"
    """The delta for which the published prior is computed where there is no guarantee."""

    def __post_init__(self) -> None:
        if self.coarsen not in COARSENINGS and not self.coarsen.startswith(("area:", AREAS)):
            raise InputError(
                f"coarsen ({self.coarsen!r}) must be 'rings', 'area:LEVEL', 'areas:LEVEL:MILES,...,LEVEL' or 'none'."
            )
        if self.rule not in ("exact", "theorem", "accept_reject"):
            raise InputError(f"rule ({self.rule!r}) must be 'exact', 'theorem' or 'accept_reject'.")
        if self.mechanism not in ("auto", "urn", "geometric"):
            raise InputError(f"mechanism ({self.mechanism!r}) must be 'auto', 'urn' or 'geometric'.")
        if self.coarsen.startswith(AREAS):
            read_area_steps(self.coarsen)
            if self.rule != "exact":
                raise InputError(
                    "with areas by distance every destination has its own number of cells; only rule=exact is proved "
                    "to hold for the fewest."
                )
        shrinking = read_shrinking(self.shrink)
        if shrinking is not None and (self.coarsen != "none" or self.mechanism == "geometric"):
            raise InputError("shrink is for single places and draws from an urn: say coarsen=none, and mechanism=urn.")
        if shrinking is not None and self.rule == "accept_reject":
            raise InputError("accept/reject and shrink have no guarantee together; choose one.")
        if self.coarsen == "none" and shrinking is None and self.mechanism == "geometric":
            raise InputError("geometric noise on every single place would hide everything; coarsen the domain.")
        if self.cut_miles:
            positive(self.cut_miles, "cut_miles")
            if shrinking is not None:
                raise InputError("with shrink the last distance is the cut; leave cut_miles out.")
        if self.blend not in ("auto", "none"):
            raise InputError(f"blend ({self.blend!r}) must be 'auto' or 'none'.")
        decay, homes, flows = self._shares
        if decay + homes + flows + segment_part(self.segments, self.segment_share) >= 1:
            raise InputError(
                "decay_share, home_share, flow_share and segment_share must leave something of 1 for the draw."
            )
        if flows and self.coarsen != "rings":
            raise InputError("flow_share is for coarsen=rings, where workers are placed by a model.")
        if self.prior_share != "auto":
            positive(self.prior_share, "prior_share")

    @property
    def _shares(self) -> tuple[Fraction, Fraction, Fraction]:
        """The parts of epsilon for decay, homes and flows."""
        return (
            share(self.decay_share, "decay_share"),
            share(self.home_share, "home_share"),
            share(self.flow_share, "flow_share"),
        )

    @property
    def law(self) -> str:
        """``auto`` if each destination gets a law by its size. A prior that was asked for means the urn."""
        mixed = self.coarsen == "rings" and self.rule == "exact" and self.prior_share == "auto"
        return self.mechanism if mixed or self.mechanism != "auto" else "urn"

    @property
    def shrinking(self) -> Shrinking | None:
        return read_shrinking(self.shrink)

    @property
    def cut(self) -> float | None:
        if self.shrinking is not None:
            return self.shrinking.miles[-1]
        return positive(self.cut_miles, "cut_miles") if self.cut_miles else None

    # -- planning ----------------------------------------------------------------------------------------------------

    def plan(self, places: Places, request: Request) -> Plan:
        check_flow_request(type(self), request, self.segments)
        if self.coarsen.startswith("area:"):
            places.area(self.coarsen.removeprefix("area:"))
        if self.coarsen.startswith(AREAS):
            self._nested(places)  # refuses levels that are not there or do not nest
        if self.decay_level not in ("auto", "none"):
            places.area(self.decay_level)
        self._check_unit(request)
        if self._shares[2]:
            every_pair(places)  # refuses places without areas, or with too many
        design, segment_notes = self._segment_design(request, places)
        steps = [*self._measure_steps(request, places, design)]
        event = self._draw_event(request)
        check_rule(self, event, request)
        steps += [
            Step(label=f"copy {copy}", margin=PAIR, action="draw", event=event, cells=len(places))
            for copy in range(1, request.copies + 1)
        ]
        notes = definition_6_notes(self, request)
        if request.copies > 1:
            notes.append(f"Each copy is a fresh draw: epsilon and delta are split over {request.copies}.")
        if isinstance(request.budget, NonPrivate):
            notes.append("The published method under its own rules; nothing is claimed for it here.")
        return planned(
            places,
            request,
            method=self.name,
            steps=tuple(steps),
            options=self._options(),
            notes=(UNIT_NOTE, *notes, *segment_notes),
        )

    def _options(self) -> dict[str, str | bool]:
        names = (
            "coarsen",
            "cut_miles",
            "shrink",
            "rule",
            "mechanism",
            "decay_share",
            "decay_level",
            "home_share",
            "flow_share",
            "prior_share",
            "blend",
            "segments",
            "segment_share",
        )
        given: dict[str, str | bool] = {name: getattr(self, name) for name in names}
        if not self.segments:  # plans of releases without segments stay as they were
            del given["segments"], given["segment_share"]
        return given | {
            "suppress_as_published": self.suppress_as_published,
            "published_epsilon": self.published_epsilon,
            "published_delta": self.published_delta,
        }

    def _check_unit(self, request: Request) -> None:
        unit, private = request.unit, not isinstance(request.budget, NonPrivate)
        if self.suppress_as_published and private:
            raise InputError(
                "suppress_as_published leaves out workers beyond the cut, which changes the number of workers of a "
                "destination; no theorem covers that. Use the cell 'elsewhere' (cut_miles), or guarantee none."
            )
        if not private and self.segments:
            raise InputError("without a guarantee nothing is measured with noise; leave segments out.")
        if not private and self._shares[2]:
            raise InputError("without a guarantee nothing is measured with noise; leave flow_share out.")
        if not private and self.rule != "theorem":
            raise InputError("without a guarantee only the published method is offered: say rule=theorem.")
        if not private and DESTINATION not in unit.fixed:
            raise InputError("the published method takes the destination as fixed; say fixed=destination.")
        if DESTINATION in unit.fixed:
            return
        if self.rule != "exact" or self.shrinking is not None:
            raise UnsupportedError(
                "with private destinations only rule=exact without shrink is proved (Theorems 4.1 and 6); or fix the "
                "destination, or use method commute_tree."
            )
        if self.mechanism == "geometric":
            raise UnsupportedError(
                "geometric noise per origin needs public sizes of destinations; fix the destination."
            )

    def _parts(self, request: Request) -> tuple[Fraction, Fraction, Fraction, Fraction, Fraction]:
        """Epsilon for the decay, home areas, flows, sizes of private destinations, and for all draws together."""
        budget = request.budget
        assert isinstance(budget, PureDP | ApproxDP | ProbabilisticDP)  # noqa: S101 - checked before
        rings = int(self.coarsen == "rings")
        decay, homes, flows = (budget.epsilon * part * rings for part in self._shares)
        sizes = Fraction(0) if DESTINATION in request.unit.fixed else budget.epsilon * SIZES_SHARE
        left = budget.epsilon * (1 - segment_part(self.segments, self.segment_share)) - decay - homes - flows - sizes
        if left <= 0:
            raise InputError(
                f"decay_share ({self.decay_share}), home_share ({self.home_share}) and flow_share ({self.flow_share}) "
                "leave nothing for the draws"
                f"{f'; sizes of destinations take {float(SIZES_SHARE):g}' if sizes else ''}. Give less to them."
            )
        return decay, homes, flows, sizes, left

    def _segment_design(self, request: Request, places: Places) -> tuple[SegmentDesign | None, tuple[str, ...]]:
        """In which tables segments are measured, and what the plan says about it."""
        budget, designs = request.budget, segment_designs(places, self.segments, request.unit)
        if not designs:
            return None, ()
        assert isinstance(budget, PureDP | ApproxDP | ProbabilisticDP)  # noqa: S101 - checked before
        part = segment_part(self.segments, self.segment_share)
        moved = request.unit.rows_per_unit * (2 if request.unit.kind == "replace" else 1)

        def variances_of(design: SegmentDesign) -> list[float]:
            tables = len(design.tables)
            return [Geometric(scale=_scale(moved, budget.epsilon * part / tables)).variance] * tables

        return choose_design(designs, variances_of, part)

    def _measure_steps(self, request: Request, places: Places, design: SegmentDesign | None) -> list[Step]:
        if isinstance(request.budget, NonPrivate):
            return []
        decay, homes, flows, sizes, _ = self._parts(request)
        moved = request.unit.rows_per_unit * (2 if request.unit.kind == "replace" else 1)
        steps = []
        measured = (
            (SIZES_LABEL, sizes, len(places)),
            (DISTANCES_LABEL, decay * (1 - PART_OF_ALL), 0),
            (ALL_DISTANCES_LABEL, decay * PART_OF_ALL, 0),
            (HOMES_LABEL, homes, 0),
            (FLOWS_LABEL, flows, len(every_pair(places)) if flows else 0),
        )
        tables = () if design is None else design.tables
        budget = request.budget
        assert isinstance(budget, PureDP | ApproxDP | ProbabilisticDP)  # noqa: S101 - checked before
        part = segment_part(self.segments, self.segment_share) * budget.epsilon / max(len(tables), 1)
        for label, epsilon, cells in (*measured, *((table.label, part, table.cells) for table in tables)):
            if epsilon > 0:
                noise = Geometric(scale=_scale(moved, epsilon))
                event = GeometricNoise(l1=Fraction(moved), scale=noise.scale)
                steps.append(
                    Step(
                        label=label, margin=PAIR, action="measure", event=event, cells=cells,
                        standard_deviation=math.sqrt(noise.variance),
                    )
                )  # fmt: skip
        return steps

    def _draw_event(self, request: Request) -> Event:
        """What one copy costs, all destinations together."""
        if isinstance(request.budget, NonPrivate):
            return NoNoise()
        epsilon = self._parts(request)[-1] / request.copies
        unit = request.unit
        if self.mechanism == "geometric":
            moved = 2 * unit.rows_per_unit
            return GeometricNoise(l1=Fraction(moved), scale=_scale(moved, epsilon))
        if self.law == "auto":
            return PureLoss(epsilon=epsilon, source=f"{THEOREM}, Theorem 7")
        if isinstance(request.budget, ProbabilisticDP):
            return breach_loss(epsilon, request.budget.delta / request.copies)
        if isinstance(request.budget, ApproxDP) and unit.rows_per_unit == 1:
            delta = request.budget.delta / request.copies
            theorem = self._theorem if DESTINATION in unit.fixed else "Theorem 6"
            return ApproxLoss(epsilon=epsilon, delta=delta, source=f"{THEOREM}, {theorem}")
        if self.shrinking is not None:
            raise UnsupportedError("shrink is proved for an approximate budget and one job per unit.")
        return PureLoss(epsilon=epsilon, source=f"{THEOREM}, Theorem 1")

    @property
    def _theorem(self) -> str:
        if self.shrinking is not None:
            return "Theorem 4"
        names = {"theorem": "Theorem 4.4 of the paper", "accept_reject": "Lemma 5.2 of the paper"}
        return names.get(self.rule, "Theorem 2")

    # -- running -----------------------------------------------------------------------------------------------------

    def check_sizes(self, plan: Plan, places: Places, sizes: Integers) -> None:
        """Refuse, before the charge, what public sizes make impossible. The draw is built, and its cost is computed."""
        event = next(step.event for step in plan.steps if step.action == "draw")
        rings = RingCells(cells=np.ones_like(sizes), cut=self.cut)
        mechanism, division, _ = build_mechanism(
            self, plan, places, sizes, event=event, regions=self._areas(places) or rings
        )
        drawing = np.flatnonzero(sizes)
        rows, cells = sizes[drawing], division.cells_of(drawing)
        mechanism.event_for(FlowFacts(unit=plan.unit, destinations=drawing, rows=rows, records=rows, cells=cells))

    def run(self, plan: Plan, places: Places, gate: FlowGate, stream: Stream, sink: Sink) -> FlowSynthesis:
        del stream  # every draw is made behind the gate
        fixed = DESTINATION in plan.unit.fixed
        measured: list[Measurement] = []
        if fixed:
            rows = gate.sizes()
        else:
            found, rows = self._private_sizes(plan, places, gate)
            measured.append(found)
        regions, groups_note = self._regions(plan, places, gate, rows=rows, measured=measured)
        design = planned_design(places, plan)
        for table in () if design is None else design.tables:
            scale = _planned_scale(plan, table.label)
            assert scale is not None  # noqa: S101 - planned above
            measured.append(gate.measure(table, Geometric(scale=scale)))
        draws = [s for s in plan.steps if s.action == "draw"]
        mechanism, regions, notes = build_mechanism(self, plan, places, rows, event=draws[0].event, regions=regions)
        if isinstance(regions, RingRegions) and self.blend == "auto":
            regions = replace(regions, believed=_believed(mechanism, rows))
        for copy, draw in enumerate(draws, start=1):
            gate.draw(
                mechanism, regions, rows=rows, label=draw.label, copy=copy, sink=sink,
                drop_elsewhere=self.suppress_as_published,
            )  # fmt: skip
        return FlowSynthesis(
            measurements=tuple(measured),
            draws=tuple(
                {"label": draw.label, "division": DIVISION, "mechanisms": [mechanism.to_json()]} for draw in draws
            ),
            rows_drawn=f"drawn {ROWS_DRAWN[self.law]} (each copy a fresh draw)",
            notes=(*groups_note, *notes),
        )

    def _private_sizes(self, plan: Plan, places: Places, gate: FlowGate) -> tuple[Measurement, Integers]:
        """Sizes of destinations from noisy counts: those that stand out from the noise, scaled to the public total."""
        step = next(s for s in plan.steps if s.label == SIZES_LABEL)
        assert isinstance(step.event, GeometricNoise)  # noqa: S101 - planned above
        table = FlowTable(
            label=SIZES_LABEL, cells=len(places), classify=lambda _, there: there.astype(np.int64), by_destination=True
        )
        found = gate.measure(table, Geometric(scale=step.event.scale))
        noisy = np.maximum(found.values, 0)
        scale = float(step.event.scale)
        invented = len(places) * np.exp(-np.arange(0, 200 * scale + 2) / scale) / 2
        above = np.array([int((noisy > t).sum()) for t in range(len(invented))])
        level = int(np.argmax(invented <= 0.01 * np.maximum(above, 1)))
        kept = np.where(noisy > level, noisy, 0)
        if not kept.any():
            kept = np.zeros_like(noisy)
            kept[int(noisy.argmax())] = max(int(noisy.max()), 1)
        if plan.unit.public_total:
            kept = apportion(kept, gate.records)
        return found, kept.astype(np.int64)

    def drawn_cells(
        self,
        places: Places,
        destinations: Integers,
        chosen: Integers,
        division: int,
        *,
        outside: Integers | None = None,
    ) -> Integers:
        """Over how many cells each destination draws, ``elsewhere`` included: from public facts, for ``verify``.

        ``chosen`` are the cells that a release states, and ``outside`` those for homes outside, one if it does not say;
        they matter only for rings.
        """
        regions = self._areas(places)
        if regions is not None:
            return regions.cells_of(destinations)
        made = usable_cells(chosen) if division > 1 else cells_of_first_division(chosen)
        made = made + int(self.cut is not None)
        if places.outside is None or division < WITH_CELLS_OUTSIDE:
            return made
        return made + (1 if outside is None else outside)

    def _areas(self, places: Places) -> Regions | None:
        """The division, where it needs the places alone."""
        if self.coarsen.startswith("area:"):
            return AreaRegions(places=places, level=self.coarsen.removeprefix("area:"), cut=self.cut)
        if self.coarsen.startswith(AREAS):
            return self._nested(places)
        return PlaceRegions(places=places, cut=self.cut) if self.coarsen == "none" else None

    def _nested(self, places: Places) -> NestedAreas:
        return NestedAreas(places=places, steps=read_area_steps(self.coarsen), cut=self.cut)

    def _regions(
        self,
        plan: Plan,
        places: Places,
        gate: FlowGate,
        *,
        rows: Integers,
        measured: list[Measurement],
    ) -> tuple[Regions, tuple[str, ...]]:
        areas_alone = self._areas(places)
        if areas_alone is not None:
            return areas_alone, ()
        tree = GravityTree(places)
        scale, whole_scale, home_scale, flow_scale = (
            _planned_scale(plan, label) for label in (DISTANCES_LABEL, ALL_DISTANCES_LABEL, HOMES_LABEL, FLOWS_LABEL)
        )
        jobs = gate.records if plan.unit.public_total else None
        level = choose_level(places, self.decay_level, float(scale or 1), jobs) if scale else None
        scales = None if scale is None or whole_scale is None else (scale, whole_scale)
        decays = measure_decays(gate, tree, level=level, scales=scales, weights=rows, cut=self.cut)
        measured += decays.measured or ()
        which = "for all destinations together" if level is None else f"by {level} of the destination"
        notes = [f"Jobs by distance were measured {which}." if scale else "The decay with distance is a fixed one."]
        workers: Floats | None = None
        part, inside = decays.part, rows.astype(np.float64)
        if home_scale is not None:
            areas, number = home_areas(tree, float(home_scale), float(rows.sum()))
            found = measure_homes(gate, areas, number, home_scale)
            measured.append(found)
            notes.append(f"Jobs by area of the home were measured in {number:,} areas.")
            if places.outside is not None:
                workers = workers_outside(places, areas, found.values, float(home_scale))
                if part is None:
                    part = parts_from(workers.sum(keepdims=True), np.zeros_like(rows), rows, float(home_scale))
        away = OutsideHomes.of(places, workers, part)
        if away is not None:
            inside *= 1 - away.part
        for _ in range(0 if home_scale is None else FITS):
            tree = fit_homes(
                tree, found.values.astype(float), areas, decays=decays.values, groups=decays.groups, rows=inside,
                noise=float(home_scale or 0), cut=self.cut,
            )  # fmt: skip
            decays = decays.again(tree, weights=inside, cut=self.cut)
        homes: AreaFactors | None = None
        if flow_scale is not None:
            pairs = every_pair(places)
            table = FlowTable(label=FLOWS_LABEL, cells=len(pairs), classify=pairs.lookup.classify)
            found = gate.measure(table, Geometric(scale=flow_scale))
            measured.append(found)
            notes.append(f"Jobs were measured by pairs of {len(pairs.finest):,} areas ({pairs.finest.name}).")
            model = FlowModel(
                tree=tree, areas=pairs.finest.area_of_place, number=len(pairs.finest), decays=decays.values,
                groups=decays.groups, rows=inside, cut=self.cut,
            )  # fmt: skip
            expected = model.expected()
            if away is not None:
                expected += model.from_outside(away, rows)
            flows = expected_flows(pairs, found, expected)
            homes = model.fitted(flows)
            if away is not None:
                away = model.seen_outside(away, flows)
        undivided = np.ones(len(places), dtype=np.int64)  # how many cells each destination gets is decided later
        rings = RingRegions(
            tree=tree, decays=decays.values, groups=decays.groups, cells=undivided, cut=self.cut, homes=homes, away=away
        )
        return rings, tuple(notes)


def _believed(mechanism: FlowMechanism, rows: Integers) -> Floats | None:
    """How far drawn rows are believed where workers are placed. Guessed shares are believed as they are."""
    if isinstance(mechanism, CellUrn):
        cells, weights, shifts = mechanism.priors.of(rows)
        return belief(rows, cells * weights / 2.0**shifts, SPREAD, mechanism.priors.times_of(rows))
    if not isinstance(mechanism, MixedCells):
        return None
    if mechanism.outside is not None and mechanism.alike:
        return None
    laws, cells = mechanism.laws.of(rows)
    prior = np.asarray(cells * float(mechanism.prior), dtype=np.float64)
    return np.where(laws == ANSWERS, belief_in_answers(rows, prior, SPREAD), 1.0)


def _planned_scale(plan: Plan, label: str) -> Fraction | None:
    step = next((s for s in plan.steps if s.label == label), None)
    return step.event.scale if step is not None and isinstance(step.event, GeometricNoise) else None
