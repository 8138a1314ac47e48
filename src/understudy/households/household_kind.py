"""Releases of households, as the run, the release folder, ``verify`` and the reports see them (see release/kind.py)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.core.arrays import Progress
from understudy.core.linked_schema import LinkedSchema
from understudy.core.linked_schema_file import parse_any_schema, read_linked_schema, write_linked_schema
from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.core.phases import tell
from understudy.core.registry import Registry
from understudy.core.result import Evaluation, EvaluationRequest, ShownTable
from understudy.core.survey_design import check_unit, told_of_weights
from understudy.errors import InputError
from understudy.households.household_release import (
    FamilyTables,
    HouseholdRelease,
    check_families,
    family_tables,
    no_draw,
    readme_text,
)
from understudy.households.more_households import export_households, sample_households
from understudy.households.shared.family_method import (
    FamilySynthesizer,
    family_synthesizers,
    is_person,
    unit_of,
)
from understudy.households.source import HouseholdSource, open_households
from understudy.privacy.gate.gate import Gate
from understudy.privacy.gate.journal import Journal
from understudy.privacy.gate.linked_gate import LinkedGate, LinkedSource, is_linked
from understudy.privacy.promise.definition import NonPrivate, Unit, require_sane_for
from understudy.privacy.promise.event import Sensitivity
from understudy.privacy.promise.plan import Plan
from understudy.privacy.promise.sensitivity import linked_sensitivity
from understudy.privacy.randomness.fingerprint import DataKey
from understudy.release.checks import events_add_up, measurements_are_charged, plan_covers
from understudy.release.csv_file import write_csv
from understudy.release.export import Opened
from understudy.release.folder import MEASUREMENTS, MODEL, SYNTHETIC_MARK, read_measurements
from understudy.release.kind import Check, Options, Summary, Workshop, WrittenTables, mechanisms_of
from understudy.release.manifest import provenance_of, statement_of
from understudy.release.model_file import read_model, write_model
from understudy.release.statement import Statement
from understudy.synth.shared.method import Request, configure_from

SCHEMA = "schema.toml"
DEFAULT_METHOD = "families"


class Households:
    """Two linked tables, made by the methods of ``households/methods``."""

    name: ClassVar[str] = "households"
    record: ClassVar[str] = "household"
    uses: ClassVar[str] = (
        "a release of households is read with households() and members(), sampled, exported, evaluated, asked and "
        "verified"
    )
    other_domain: ClassVar[str] = "another schema than the one the households were opened with"
    domain_file: ClassVar[str] = SCHEMA
    resumed_with: ClassVar[str] = ""
    draws_in_blocks: ClassVar[bool] = False
    asked_in_reports: ClassVar[bool] = False
    shown: ClassVar[tuple[ShownTable, ...]] = (
        ShownTable(
            name="belonging",
            heading="What belongs together (total variation distance, 0 is equal)",
            columns=("table", "kind", "cells", "tvd"),
            worst="tvd",
            in_short=True,
        ),
        ShownTable(
            name="levels",
            heading="Tables of households and of members (mean total variation distance)",
            columns=("level", "way", "tables", "mean_tvd", "worst_table", "worst_tvd"),
            in_short=True,
        ),
    )

    def is_domain(self, value: object) -> bool:
        return isinstance(value, LinkedSchema)

    def is_source(self, value: object) -> bool:
        return isinstance(value, HouseholdSource) or is_linked(value)

    def is_release(self, value: object) -> bool:
        return isinstance(value, HouseholdRelease)

    def domain_of(self, value: HouseholdSource | HouseholdRelease) -> LinkedSchema:
        return value.schema

    def methods(self) -> Registry[Any]:
        return family_synthesizers

    def read_domain(self, file: Any) -> LinkedSchema:
        return read_linked_schema(file)

    def open(self, data: Any, domain: LinkedSchema, **reading: Any) -> HouseholdSource:
        return open_households(data, domain, **reading)

    def make_plan(
        self, domain: LinkedSchema, method: str | None, asked: Mapping[str, Any], options: Options, *, i_know: bool
    ) -> Plan:
        if asked["records"] is not None and not i_know:
            require_sane_for(asked["budget"], asked["records"])
        unit = unit_of(domain, asked["unit"])
        check_unit(domain.wide, kind=unit.kind, unit_id=unit.unit_id, rows_per_unit=1, fixed=unit.fixed)
        request = Request(**{**asked, "unit": unit})
        made: FamilySynthesizer = configure_from(family_synthesizers, method or DEFAULT_METHOD, options)
        return made.plan(domain, request)

    def plans_by_records(self, method: str | None, unit: Unit) -> bool:  # noqa: ARG002
        return False

    def plan_again(self, domain: LinkedSchema, plan: Plan, request: Request) -> Plan:
        return _method(plan).plan(domain, request)

    def advice(self, domain: LinkedSchema, plan: Plan) -> tuple[str, ...]:  # noqa: ARG002
        return told_of_weights(domain.households, domain.members)

    def header(self, domain: LinkedSchema) -> dict[str, str]:
        return {"kind": self.name, "schema": write_linked_schema(domain)}

    def domain_again(self, folder: Path, header: Mapping[str, Any], given: Any) -> LinkedSchema:
        if given is not None:
            raise InputError("places go with a run of commutes; this run is of households.")
        schema = parse_any_schema(str(header.get("schema", "")), str(folder))
        if not isinstance(schema, LinkedSchema):
            raise InputError(f"{folder} is not the folder of a run of households.")
        return schema

    def bounded(self, source: HouseholdSource, plan: Plan, key: DataKey) -> LinkedSource:  # noqa: ARG002
        """The row of each household; the key of the run's data chooses who stands in a slot, and who is left out."""
        return source.rows_of(key.bounding())

    def gate(
        self,
        source: LinkedSource | None,
        domain: LinkedSchema,
        *,
        plan: Plan,
        stream: Stream,
        journal: Journal | None,
        progress: Progress | None,
    ) -> Gate:
        """The gate of linked tables: it derives every sensitivity from query and unit."""
        return LinkedGate(source=source, linked=domain, plan=plan, stream=stream, journal=journal, progress=progress)

    def check(self, plan: Plan, domain: LinkedSchema, gate: Gate, *, i_know: bool) -> None:  # noqa: ARG002
        gate.look_ahead()
        if plan.unit.public_total and not i_know:
            require_sane_for(plan.budget, gate.records)

    def make(self, domain: LinkedSchema, gate: Gate, work: Workshop) -> HouseholdRelease:
        plan, stream = work.plan, work.stream
        synthesis = _method(plan).run(plan, domain, gate, stream)
        told = told_of_weights(domain.households, domain.members)
        tables = []
        for copy, linked in enumerate(synthesis.tables, start=1):
            tell("writing values", copy - 1, len(synthesis.tables))
            tables.append(family_tables(linked, stream, "decode", copy))
        return HouseholdRelease(
            schema=domain,
            tables=tuple(tables),
            measurements=synthesis.measurements,
            statement=_stated(domain, work.statement((*synthesis.warnings, *told))),
            provenance=work.provenance(synthesis, ()),
            fitted=None if isinstance(plan.budget, NonPrivate) else synthesis.fitted,
        )

    def keep(self, release: HouseholdRelease, out: Path | None) -> HouseholdRelease:  # noqa: ARG002 - in memory
        return release

    def sample_again(self, release: HouseholdRelease, *, rows: int, copies: int, stream: Stream) -> HouseholdRelease:
        """More households from the model of a release, at no cost; ``rows`` are households."""
        return sample_households(release, rows=rows, copies=copies, stream=stream)

    def about(self, release: HouseholdRelease) -> dict[str, str]:
        return {"kind": self.name, "schema_fingerprint": release.schema.fingerprint}

    def write_beside(self, release: HouseholdRelease, folder: Path) -> None:
        (folder / SCHEMA).write_text(write_linked_schema(release.schema), encoding="utf-8")
        if release.fitted is not None:
            write_model(release.fitted, folder / MODEL)

    def write_tables(self, release: HouseholdRelease, folder: Path, *, csv: bool) -> WrittenTables:
        for copy, both in enumerate(release.tables, start=1):
            for name, table in (("households", both.households), ("synthetic", both.members)):
                marked = table.replace_schema_metadata({**(table.schema.metadata or {}), **SYNTHETIC_MARK})
                pq.write_table(marked, folder / f"{name}_{copy}.parquet", compression="zstd")
                if csv:
                    write_csv(table, folder / f"{name}_{copy}.csv")
        return WrittenTables(rows=release.rows, hashes={})

    def readme(self, release: HouseholdRelease, rows: Sequence[int]) -> str:
        return readme_text(release, rows)

    def read(self, path: Path, manifest: Mapping[str, Any]) -> HouseholdRelease:
        schema = read_linked_schema(path / SCHEMA)
        if schema.fingerprint != manifest["schema_fingerprint"]:
            raise InputError(f"the schema in {path} is not the one its manifest names.")
        wide = schema.wide

        def shape_of(margin: tuple[str, ...], cells: str, _: int) -> tuple[int, ...]:
            return {"all": schema.counted_in(margin).shape(margin), "first": ()}[cells]

        return HouseholdRelease(
            schema=schema,
            tables=tuple(
                FamilyTables(
                    households=pq.read_table(path / f"households_{copy}.parquet"),
                    members=pq.read_table(path / f"synthetic_{copy}.parquet"),
                )
                for copy in range(1, len(manifest["rows"]) + 1)
            ),
            measurements=read_measurements(pq.read_table(path / MEASUREMENTS), shape_of),
            fitted=read_model(path / MODEL, wide) if MODEL in manifest["files"] else None,
            statement=_stated(schema, statement_of(manifest, self.record)),
            provenance=provenance_of(path, manifest, no_draw),
        )

    def checks(self) -> tuple[Check[HouseholdRelease], ...]:
        return (
            ("households", _families_fit),
            ("plan", _plan_covers),
            ("measurements", _measurements_are_charged),
            ("guarantee", lambda release: events_add_up(release.provenance, release.statement)),
        )

    def summary(self, release: HouseholdRelease) -> Summary:
        schema = release.schema
        households = release.tables[0].households.num_rows
        attributes = (*schema.households.attributes, *schema.members.attributes)
        return Summary(
            statement=release.statement,
            provenance=release.provenance,
            title=f"Synthetic households with up to {schema.at_most} members",
            copies=release.copies,
            rows=release.rows[0],
            size=(f"{households:,}", "households"),
            domain=tuple(
                {"attribute": one.name, "label": one.label, "kind": one.kind, "values": one.size,
                 "missing": one.missing}
                for one in attributes
            ),
            cells=schema.wide.cells(),
            structural_zeros=len(schema.wide.zeros),
            measured=tuple(
                {"table": " × ".join(one.margin) or "number of households", "cells": int(one.values.size),
                 "noise": str(one.mechanism), "noise_sd": math.sqrt(one.mechanism.variance)}
                for one in release.measurements
            ),
            mechanisms=mechanisms_of(release),
            tables=None,
        )  # fmt: skip

    def evaluate(self, release: HouseholdRelease, confidential: Any, asked: EvaluationRequest) -> Evaluation:
        from understudy.households.measures import evaluate_households

        source = confidential if isinstance(confidential, HouseholdSource) else self.open(confidential, release.schema)
        return evaluate_households(release, source, asked)

    # What only this kind does in its own way.

    def ask(self, release: HouseholdRelease, question: str, **how: Any) -> None:  # noqa: ARG002
        """The questions of linked tables are those of ``inference``."""
        if how.get("before") is not None:
            raise InputError("before is for releases of commutes; compare tables of people by their answers.")

    def what_to_ask(self, release: HouseholdRelease) -> tuple[str, ...]:  # noqa: ARG002
        """Nothing of its own."""
        return ()

    def export(self, opened: Opened, asked: Mapping[str, Any]) -> Path:
        """Both tables, and both joined, as files for other programs."""
        for name in ("population", "by", "outlines"):
            if asked.get(name) is not None:
                raise InputError(f"{name} does not go with linked tables; leave it out.")
        return export_households(opened.release, opened.folder, to=asked["to"])

    def compared(self, results: Sequence[tuple[str, HouseholdRelease, Evaluation]]) -> dict[str, pa.Table]:  # noqa: ARG002
        return {}


def _stated(schema: LinkedSchema, statement: Statement) -> Statement:
    """The promise, in words that say whether it is for a person or for a household."""
    return replace(statement, record="person") if is_person(schema, statement.unit) else statement


def _method(plan: Plan) -> FamilySynthesizer:
    made: FamilySynthesizer = configure_from(family_synthesizers, plan.method, plan.options)
    return made


def _families_fit(release: HouseholdRelease) -> str:
    count = sum(check_families(release, copy) for copy in range(1, release.copies + 1))
    return f"{count:,} households with their members fit together, and none is impossible"


def _plan_covers(release: HouseholdRelease) -> str:
    plan = release.provenance.plan
    if plan is None:
        raise InputError("a release of households needs its plan.")
    fingerprint = release.schema.fingerprint
    return plan_covers(plan, release.provenance, release.statement, domain=fingerprint, named="another schema")


def _measurements_are_charged(release: HouseholdRelease) -> str:
    schema, unit = release.schema, release.statement.unit

    def sensitivity_of(one: Measurement) -> Sensitivity:
        return linked_sensitivity(schema, one.margin, unit, one.cells)

    told = measurements_are_charged(release.measurements, release.provenance, sensitivity_of)
    for one in release.measurements:
        counted = schema.counted_in(one.margin)
        if one.cells == "all" and one.margin and np.any(one.values[~counted.allowed(one.margin)]):
            raise InputError(f"the measurement '{one.label}' has a value where the schema allows none.")
    return told
