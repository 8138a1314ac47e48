"""Releases of commutes, as the run, the release folder, ``verify`` and the reports see them (see release/kind.py)."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.commutes.commute_release import (
    PLACES,
    TABLE_SCHEMA,
    CommuteRelease,
    ParquetSink,
    coded_file,
    measurements_of,
    readme_text,
    write_tables,
)
from understudy.commutes.methods.commute import Commute
from understudy.commutes.shared.flow_method import FlowSynthesizer, flow_synthesizers, plan_commutes
from understudy.commutes.shared.segment_jobs import assign_segments
from understudy.commutes.shared.segments import TOGETHER, fixed_partitions, planned_design, released_partitions
from understudy.commutes.shared.settings import read_shrinking
from understudy.commutes.source.places_file import places_table, read_places
from understudy.core.arrays import Progress
from understudy.core.exact_numbers import from_text
from understudy.core.flows import FlowSource, Partition
from understudy.core.mechanism import Stream
from understudy.core.places import DESTINATION, Places
from understudy.core.registry import Registry
from understudy.core.result import Evaluation, EvaluationRequest, ShownTable
from understudy.errors import BudgetError, InputError, UnsupportedError
from understudy.privacy.gate.flow_gate import FlowGate
from understudy.privacy.gate.journal import Journal
from understudy.privacy.mechanisms.commute_prior import FEWEST_CELLS, SizedPrior
from understudy.privacy.mechanisms.draw_facts import FlowFacts
from understudy.privacy.mechanisms.flow_draws import CellUrn, FlowMechanism, ShrunkUrn
from understudy.privacy.mechanisms.flow_mixture import MixedCells, SizedLaws
from understudy.privacy.mechanisms.flow_variants import AcceptingUrn, NoisyCells
from understudy.privacy.mechanisms.place_bands import PlaceBands
from understudy.privacy.promise.definition import NonPrivate, Unit
from understudy.privacy.promise.event import ApproxLoss, GeometricNoise, NoNoise, PureLoss, Sensitivity
from understudy.privacy.promise.plan import Plan, Step
from understudy.privacy.randomness.fingerprint import DataKey
from understudy.release.checks import events_add_up, measurements_are_charged, plan_covers
from understudy.release.export import Opened
from understudy.release.folder import MEASUREMENTS
from understudy.release.kind import Check, Options, Summary, Workshop, WrittenTables, mechanisms_of
from understudy.release.manifest import provenance_of, statement_of, text_in
from understudy.synth.shared.method import Request, configure_from

DEFAULT_METHOD = "commute"


class Commutes:
    """Tables of jobs by origin and destination, made by the methods of ``commutes/methods``."""

    name: ClassVar[str] = "commutes"
    record: ClassVar[str] = "job"
    uses: ClassVar[str] = (
        "a release of commutes is read with flows(), asked, exported by area, evaluated, verified and mapped"
    )
    other_domain: ClassVar[str] = "other places than the ones the commutes were opened with"
    domain_file: ClassVar[str] = PLACES
    resumed_with: ClassVar[str] = " --places FILE"
    draws_in_blocks: ClassVar[bool] = False
    asked_in_reports: ClassVar[bool] = False
    shown: ClassVar[tuple[ShownTable, ...]] = (
        ShownTable(
            name="commute_distance",
            heading="Average commute of a destination, in miles",
            columns=("commutes", "workers", "destinations", "mean_absolute_error", "bias", "at_overall_average"),
            in_short=True,
        ),
        ShownTable(
            name="flows",
            heading="Jobs in the wrong pair",
            columns=("between", "misplaced", "in_pairs_without_jobs"),
        ),
        ShownTable(
            name="distance_classes",
            heading="Jobs by distance, in miles",
            columns=("from", "to", "true", "synthetic"),
        ),
    )

    def is_domain(self, value: object) -> bool:
        return isinstance(value, Places)

    def is_source(self, value: object) -> bool:
        """Decided by its class: the source itself is not touched yet."""
        return callable(getattr(type(value), "flows", None))

    def is_release(self, value: object) -> bool:
        return isinstance(value, CommuteRelease)

    def domain_of(self, value: FlowSource | CommuteRelease) -> Places:
        return value.places

    def methods(self) -> Registry[Any]:
        return flow_synthesizers

    def read_domain(self, file: Any) -> Places:
        return read_places(file)

    def open(self, data: Any, domain: Places, **reading: Any) -> FlowSource:
        from understudy.commutes.source.local import open_commutes

        given = {name: value for name, value in reading.items() if value}
        return open_commutes(data, places=domain, **given)

    def make_plan(
        self, domain: Places, method: str | None, asked: Mapping[str, Any], options: Options, *, i_know: bool
    ) -> Plan:
        del i_know  # it is about the number of records of a table
        return plan_commutes(domain, method=method or DEFAULT_METHOD, options=options, **asked)

    def plans_by_records(self, method: str | None, unit: Unit) -> bool:  # noqa: ARG002
        return False

    def plan_again(self, domain: Places, plan: Plan, request: Request) -> Plan:
        return _method(plan).plan(domain, request)

    def advice(self, domain: Places, plan: Plan) -> tuple[str, ...]:  # noqa: ARG002
        from understudy.commutes.map.map_wording import PUBLIC_SIZES, public_segments

        told = (PUBLIC_SIZES,) if DESTINATION in plan.unit.fixed else ()
        return (*told, *public_segments(plan.unit))

    def header(self, domain: Places) -> dict[str, str]:
        return {"kind": self.name, "places": domain.fingerprint}

    def domain_again(self, folder: Path, header: Mapping[str, Any], given: Any) -> Places:  # noqa: ARG002
        """Places can be a large file, and are public: they are given again, and known by their fingerprint."""
        if given is None:
            raise InputError("this run is of commutes: give its public places again (--places FILE).")
        places = read_places(given)
        if places.fingerprint != str(header.get("places")):
            raise InputError("these are not the places the run was started with.")
        return places

    def bounded(self, source: FlowSource, plan: Plan, key: DataKey) -> FlowSource:  # noqa: ARG002
        """The unit of commutes is a job, or as many as are stated; no column tells whose they are."""
        return source

    def gate(
        self,
        source: FlowSource | None,
        domain: Places,
        *,
        plan: Plan,
        stream: Stream,
        journal: Journal | None,
        progress: Progress | None,
    ) -> FlowGate:
        return FlowGate(source=source, places=domain, plan=plan, stream=stream, journal=journal, progress=progress)

    def check(self, plan: Plan, domain: Places, gate: FlowGate, *, i_know: bool) -> None:
        """Reads the data once, and refuses what public sizes make impossible."""
        del i_know  # it is about the number of records of a table
        gate.look_ahead()
        design = planned_design(domain, plan)
        gate.check_segments(() if design is None else design.parts)
        for one in fixed_partitions(plan):
            gate.segment_sizes(one)
        check_sizes = getattr(_method(plan), "check_sizes", None)
        if DESTINATION in plan.unit.fixed and check_sizes is not None:
            check_sizes(plan, domain, gate.sizes())

    def make(self, domain: Places, gate: FlowGate, work: Workshop) -> CommuteRelease:
        """Tables are drawn into the folder of the run, or into one that goes with the release."""
        plan, journal = work.plan, work.journal
        keeper = TemporaryDirectory(prefix="understudy-") if work.out is None or journal is None else None
        folder = journal.folder if journal is not None else Path(keeper.name if keeper else ".")
        sink = ParquetSink(folder, domain)
        synthesis = _method(plan).run(plan, domain, gate, work.stream, sink)
        if not isinstance(plan.budget, NonPrivate):
            warned = (f"WARNING: {text}" for text in self.advice(domain, plan))
            synthesis = replace(synthesis, notes=(*synthesis.notes, *warned))
        files = [sink.path(copy) for copy in range(1, plan.copies + 1)]
        if released_partitions(plan):
            fixed = {one.name: gate.segment_sizes(one) for one in fixed_partitions(plan)}
            files = [
                assign_segments(
                    file, file.with_name(f"segmented_{copy}.parquet"), domain, plan, fixed=fixed,
                    measurements=synthesis.measurements, stream=work.stream, copy=copy, codes=coded_file(file, domain),
                )
                for copy, file in enumerate(files, start=1)
            ]  # fmt: skip
        return CommuteRelease(
            places=domain,
            files=tuple(files),
            measurements=synthesis.measurements,
            statement=work.statement(),
            provenance=work.provenance(synthesis, synthesis.draws),
            keeper=keeper,
            drawn=True,
        )

    def sample_again(self, release: CommuteRelease, *, rows: int, copies: int, stream: Stream) -> CommuteRelease:  # noqa: ARG002
        raise UnsupportedError(f"sample works on releases of tables; {self.uses}.")

    def keep(self, release: CommuteRelease, out: Path | None) -> CommuteRelease:
        files = []
        for copy, file in enumerate(release.files, start=1):
            if out is not None:
                files.append(out / f"synthetic_{copy}.parquet")
                continue
            assert release.keeper is not None  # noqa: S101 - made with the release, as it goes to no folder
            files.append(Path(release.keeper.name) / file.name)
            if file != files[-1]:
                shutil.move(file, files[-1])
        return replace(release, files=tuple(files), drawn=False, keeper=None if out is not None else release.keeper)

    def about(self, release: CommuteRelease) -> dict[str, str]:
        return {"kind": self.name, "places_fingerprint": release.places.fingerprint}

    def write_beside(self, release: CommuteRelease, folder: Path) -> None:
        pq.write_table(places_table(release.places), folder / PLACES, compression="zstd")

    def write_tables(self, release: CommuteRelease, folder: Path, *, csv: bool) -> WrittenTables:
        return write_tables(release, folder, csv=csv)

    def readme(self, release: CommuteRelease, rows: Sequence[int]) -> str:
        return readme_text(release, rows)

    def read(self, path: Path, manifest: Mapping[str, Any]) -> CommuteRelease:
        places = read_places(str(path / PLACES))
        if places.fingerprint != manifest["places_fingerprint"]:
            raise InputError(f"the places in {path} are not those its manifest names.")
        files = tuple(path / f"synthetic_{copy}.parquet" for copy in range(1, len(manifest["rows"]) + 1))
        for file in files:
            if pq.read_schema(file).names[: len(TABLE_SCHEMA.names)] != TABLE_SCHEMA.names:
                raise InputError(f"'{file.name}' in {path} does not have the columns of a table of commutes.")
        return CommuteRelease(
            places=places,
            files=files,
            measurements=measurements_of(path / MEASUREMENTS),
            statement=statement_of(manifest, self.record),
            provenance=provenance_of(path, manifest, _draw),
        )

    def checks(self) -> tuple[Check[CommuteRelease], ...]:

        return CHECKS

    def summary(self, release: CommuteRelease) -> Summary:
        places = len(release.places)
        domain = tuple(
            {"attribute": name, "label": "", "kind": "place", "values": places, "missing": False}
            for name in ("origin", "destination")
        )
        return Summary(
            statement=release.statement,
            provenance=release.provenance,
            title=f"Synthetic commutes between {places:,} places",
            copies=release.copies,
            rows=release.rows[0],
            size=(f"{places:,}", "places"),
            domain=domain,
            cells=places * places,
            structural_zeros=0,
            measured=tuple(
                {
                    "table": one.label,
                    "cells": int(one.values.size),
                    "noise": str(one.mechanism),
                    "noise_sd": math.sqrt(one.mechanism.variance),
                }
                for one in release.measurements
            ),
            mechanisms=mechanisms_of(release),
            tables=None,
        )

    def evaluate(self, release: CommuteRelease, confidential: Any, asked: EvaluationRequest) -> Evaluation:
        """Distances, flows and jobs; attacks are made for tables of people."""
        from understudy.commutes.measures import evaluate_commutes

        if not asked.plain:
            raise InputError(
                "holdout, models, keys, targets, ways and the risk part are for tables of people; leave them out for a "
                "release of commutes."
            )
        source = confidential if self.is_source(confidential) else self.open(confidential, release.places)
        return Evaluation(utility=evaluate_commutes(release, source))

    def ask(self, release: CommuteRelease, question: str, *, level: float, before: CommuteRelease | None) -> Any:
        from understudy.commutes.answers.asking import ask_commutes

        return ask_commutes(release, question, level=level, before=before)

    def what_to_ask(self, release: CommuteRelease) -> tuple[str, ...]:
        from understudy.commutes.answers.asking import what_to_ask

        return what_to_ask(release)

    def export(self, opened: Opened, asked: Mapping[str, Any]) -> Path:
        from understudy.commutes.answers.area_files import export_areas

        if asked.get("population") is not None:
            raise InputError("population is for tables of people with weights; leave it out for a release of commutes.")
        return export_areas(
            opened.release, opened.folder, to=asked["to"], by=asked.get("by"), outlines=asked.get("outlines")
        )

    def compared(self, results: Sequence[tuple[str, CommuteRelease, Evaluation]]) -> dict[str, pa.Table]:  # noqa: ARG002
        return {}


def _method(plan: Plan) -> FlowSynthesizer:
    made: FlowSynthesizer = configure_from(flow_synthesizers, plan.method, plan.options)
    return made


def _draw(draw: dict[str, Any]) -> dict[str, Any]:
    """One recorded draw: its label, and its mechanisms, whose priors are lists with an entry for each size."""
    mechanisms = [{text_in(key): value for key, value in one.items()} for one in draw["mechanisms"]]
    for one in mechanisms:
        text_in(one["mechanism"])
    return {**draw, "label": text_in(draw["label"]), "mechanisms": mechanisms}


# What ``verify`` checks of a release of commutes, from its folder alone.


def pairs_fit(release: CommuteRelease) -> str:
    """Every pair names known places, is listed once, and has jobs."""
    for copy in range(1, release.copies + 1):
        last = -1
        for origins, destinations, jobs in release.coded_batches(copy):
            if (destinations < 0).any():
                raise InputError("a destination is not a place; only an origin can be elsewhere.")
            if (jobs < 1).any():
                raise InputError("a pair has no jobs; only pairs with jobs are listed.")
            # By destination and origin, as they are written: then a pair listed twice is seen without holding them all.
            keys = destinations.astype(np.int64) * (len(release.places) + 1) + origins + 1
            if (np.diff(keys, prepend=last) <= 0).any():
                raise InputError(
                    "pairs are not listed once each, by destination and origin in the order of the places."
                )
            last = int(keys[-1]) if len(keys) else last
    return f"all pairs of {release.copies} table(s) are between known places"


def segments_add_up(release: CommuteRelease) -> str:
    """Every partition that the plan names has its columns, the segments of each pair add up to its jobs, and copies
    have the same jobs by workplace in the segments of a fixed partition."""
    plan = release.provenance.plan
    partitions = released_partitions(plan) if plan is not None else ()
    wanted = tuple(column for one in partitions for column in one.columns)
    if release.segments != wanted:
        raise InputError("the tables do not have the columns of segments that the plan names.")
    if not wanted or plan is None:
        return "no segments"
    fixed = {one.name for one in fixed_partitions(plan)}
    public: dict[str, Any] = {}
    for copy in range(1, release.copies + 1):
        table = release.flows(copy)
        jobs = table["jobs"].to_numpy()
        for one in partitions:
            parts = np.stack([table[column].to_numpy() for column in one.columns])
            if (parts < 0).any() or (parts.sum(axis=0) != jobs).any():
                raise InputError(f"the segments of '{one.name}' do not add up to the jobs of every pair.")
            _combinations_add_up(table, one)
            if one.name in fixed:
                at = np.asarray(release.coded(copy)[1], dtype=np.int64)
                here = np.stack([np.bincount(at, part, len(release.places)) for part in parts])
                if not np.array_equal(public.setdefault(one.name, here), here):
                    raise InputError(f"copies differ in the public segments of '{one.name}'.")
    return f"segments of {len(partitions)} partition(s) add up to the jobs of every pair"


def _combinations_add_up(table: pa.Table, partition: Partition) -> None:
    """The combinations of several partitions add up to the segments of each of them."""
    if TOGETHER not in partition.name:
        return
    sums: dict[str, Any] = {}
    for column in partition.columns:
        for segment in column.split(TOGETHER):
            sums[segment] = sums.get(segment, 0) + table[column].to_numpy()
    if any((table[segment].to_numpy() != total).any() for segment, total in sums.items()):
        raise InputError(f"the combinations of '{partition.name}' do not add up to its segments.")


def _plan_covers(release: CommuteRelease) -> str:
    plan = release.provenance.plan
    if plan is None:
        raise InputError("a release of commutes needs its plan.")
    fingerprint = release.places.fingerprint
    return plan_covers(plan, release.provenance, release.statement, domain=fingerprint, named="other places")


def _measurements_are_charged(release: CommuteRelease) -> str:
    """A job is in one cell of every table that is measured, so the unit alone says how far it moves one."""
    unit = release.statement.unit
    moved, rows = (2 if unit.kind == "replace" else 1), unit.rows_per_unit
    sensitivity = Sensitivity(l1=moved * rows, l2_squared=moved * rows**2, linf=rows)
    return measurements_are_charged(release.measurements, release.provenance, lambda _: sensitivity)


def draws_are_charged(release: CommuteRelease) -> str:
    """Asks every recorded draw again what it costs, with facts that are recomputed from the folder."""
    plan, draws = release.provenance.plan, release.provenance.draws
    if plan is None:
        raise InputError("a release of commutes needs its plan.")
    steps = [step for step in plan.steps if step.action == "draw"]
    if [draw["label"] for draw in draws] != [step.label for step in steps]:
        raise InputError("the draws recorded are not those the plan announces.")
    for copy, (step, draw) in enumerate(zip(steps, draws, strict=True), start=1):
        if isinstance(step.event, NoNoise):
            continue  # no guarantee is claimed for it
        if len(draw["mechanisms"]) != 1:
            raise InputError(f"the draw '{step.label}' does not state the one mechanism it was made by.")
        for record in draw["mechanisms"]:
            mechanism = _mechanism(record, step, plan, release)
            facts = _facts(release, copy, plan, record, int(draw.get("division", 1)))
            try:
                costs = mechanism.event_for(facts)
            except BudgetError:
                raise InputError(f"the draw '{step.label}' loses more than was charged for it.") from None
            if costs != step.event:
                raise InputError(f"the draw '{step.label}' costs something else than was charged for it.")
    return f"{len(steps)} draw(s), their priors as large as what was charged for them asks for"


def _facts(release: CommuteRelease, copy: int, plan: Plan, record: Mapping[str, Any], division: int) -> FlowFacts:
    """What the cost of a draw rests on: rows from the released table, cells from the public division of the places."""
    rows = np.zeros(len(release.places), dtype=np.int64)
    for _, destinations, jobs in release.coded_batches(copy):
        np.add.at(rows, destinations, jobs)
    drawing = np.flatnonzero(rows)
    method = configure_from(flow_synthesizers, plan.method, plan.options)
    if not isinstance(method, Commute):
        raise InputError(f"method '{plan.method}' makes no draw straight from the data.")
    if "sizes_from" in record and len(drawing) and not min(record["sizes_from"], default=np.inf) <= rows[drawing].min():
        raise InputError("no prior is stated for the smallest destinations.")
    chosen, outside = rows[drawing], None
    if record["mechanism"] == MixedCells.name:
        laws = SizedLaws.from_json(record)
        chosen, outside = laws.of(chosen)[1], laws.outside_of(chosen)
    elif "sizes_from" in record:
        chosen = SizedPrior.from_json(record).of(chosen)[0]
    if method.coarsen == "rings" and "sizes_from" in record and int(chosen.min(initial=FEWEST_CELLS)) < FEWEST_CELLS:
        raise InputError("a draw over a single ring is recorded, which is never made.")
    return FlowFacts(
        unit=plan.unit,
        destinations=drawing,
        rows=rows[drawing],
        cells=method.drawn_cells(release.places, drawing, chosen, division, outside=outside),
        records=rows[drawing] if DESTINATION in plan.unit.fixed else None,
    )


def _mechanism(record: Mapping[str, Any], step: Step, plan: Plan, release: CommuteRelease) -> FlowMechanism:
    """The mechanism that a release states, with the loss that was charged for it."""
    name, event = record["mechanism"], step.event
    if name == NoisyCells.name and isinstance(event, GeometricNoise):
        return NoisyCells(scale=from_text(record["scale"], "scale"))
    if name == MixedCells.name and isinstance(event, PureLoss):
        return MixedCells.from_json(record, event)
    if name == CellUrn.name and isinstance(event, PureLoss | ApproxLoss):
        return CellUrn(priors=SizedPrior.from_json(record), claim=event)
    if name == AcceptingUrn.name and isinstance(event, ApproxLoss):
        urn = CellUrn(priors=SizedPrior.from_json(record), claim=event)
        return AcceptingUrn(urn=urn, gamma=float(record["gamma"]))
    shrinking = read_shrinking(str(plan.options.get("shrink", "")))
    if name == ShrunkUrn.name and isinstance(event, ApproxLoss) and shrinking is not None:
        if record["retained_share_of_2^32"] != shrinking.thresholds.tolist():
            raise InputError(f"the draw '{step.label}' states other probabilities of retaining a place than its plan.")
        return ShrunkUrn(
            priors=SizedPrior.from_json(record), claim=event, keeps=shrinking.thresholds, elsewhere=True,
            bands=PlaceBands(points=release.places.points(), edges=shrinking.edges),
        )  # fmt: skip
    raise InputError(f"the draw '{step.label}' is charged with an event that a draw by '{name}' does not have.")


CHECKS: tuple[tuple[str, Callable[[CommuteRelease], str]], ...] = (
    ("places", pairs_fit),
    ("segments", segments_add_up),
    ("plan", _plan_covers),
    ("measurements", _measurements_are_charged),
    ("draws", draws_are_charged),
    ("guarantee", lambda release: events_add_up(release.provenance, release.statement)),
)
