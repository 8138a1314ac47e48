"""Releases of tables: rows of people, or of anything else that a schema describes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from understudy.core.arrays import Progress
from understudy.core.counts import Source
from understudy.core.mechanism import Stream
from understudy.core.phases import tell
from understudy.core.registry import Registry
from understudy.core.result import Evaluation, EvaluationRequest, Section, ShownTable
from understudy.core.schema import Schema
from understudy.core.schema_file import parse_schema, read_schema, write_schema
from understudy.core.survey_design import check_rows, check_unit, told_of_weights
from understudy.core.table import CodedTable
from understudy.core.walsh import CONTRASTS, masks_of
from understudy.engines.opening import open_source
from understudy.engines.reading.decode import decode
from understudy.errors import InputError, RowsLeftOutWarning, UnderstudyError, unknown_name
from understudy.privacy.gate.gate import Gate
from understudy.privacy.gate.journal import Journal
from understudy.privacy.promise.amplification import said_of_population
from understudy.privacy.promise.definition import ApproxDP, NonPrivate, PureDP, Unit, read_unit, require_sane_for
from understudy.privacy.promise.plan import Plan
from understudy.privacy.randomness.fingerprint import DataKey
from understudy.release.csv_file import write_csv
from understudy.release.export import WRITERS, Opened, export_table
from understudy.release.folder import (
    CODEBOOK,
    FINDING,
    MEASUREMENTS,
    MODEL,
    SYNTHETIC_MARK,
    measurement_table,
    read_measurements,
    table_files,
)
from understudy.release.kind import DEFAULT, Check, Options, Summary, Workshop, WrittenTables, kinds, mechanisms_of
from understudy.release.manifest import provenance_of, statement_of, text_in, whole_in
from understudy.release.model_file import read_model, write_model
from understudy.release.readme import codebook_text, readme_text
from understudy.release.sampling import BYTES_PER_ROW, BYTES_PER_VALUE, available_memory, sample_again
from understudy.release.table_checks import TABLE_CHECKS
from understudy.release.table_release import Release, StoredTables
from understudy.synth.shared.expected_error import with_forecast
from understudy.synth.shared.found_columns import plan_finding, run_finding
from understudy.synth.shared.method import Request, configure, make_plan, synthesizers
from understudy.synth.shared.required_tables import with_answers

SCHEMA = "schema.toml"
DEFAULT_METHOD = "auto"
TINY_DELTA = "1e-9"
WORTH_SAYING = 2.0  # times less noise


@kinds.add
class Tables:
    """Tables under a schema, made by the methods of ``synth/methods``."""

    name: ClassVar[str] = DEFAULT
    record: ClassVar[str] = "row"
    uses: ClassVar[str] = "a release of tables is read with frame(), sampled, exported, evaluated, asked and verified"
    other_domain: ClassVar[str] = "another schema than the one the data were opened with"
    domain_file: ClassVar[str] = SCHEMA
    resumed_with: ClassVar[str] = ""
    draws_in_blocks: ClassVar[bool] = True
    asked_in_reports: ClassVar[bool] = True
    shown: ClassVar[tuple[ShownTable, ...]] = (
        ShownTable(
            name="ways",
            heading="S_pMSE of tables (1 is a correct model, below 10 good, below 30 usable)",
            columns=(
                *("way", "tables", "mean_s_pmse", "worst_table", "worst_s_pmse"),
                *("good", "usable", "poor", "k_marginal_score"),
            ),
        ),
        ShownTable(
            name="tables",
            heading="Worst tables",
            columns=("table", "s_pmse", "band", "tvd", "df", "covered"),
            worst="s_pmse",
        ),
        ShownTable(
            name="weighted",
            heading="Weighted shares, original and synthetic",
            columns=("attribute", "level", "original", "synthetic", "difference"),
        ),
        ShownTable(
            name="propensity",
            heading="Can a classifier tell?",
            columns=("classifier", "s_pmse", "pmse", "specks", "po50", "auc", "null", "form"),
        ),
        ShownTable(
            name="giveaways",
            heading="What gives synthetic rows away",
            columns=("attribute", "excess", "importance"),
        ),
        ShownTable(
            name="regression_models",
            heading="Regressions",
            columns=("model", "family", "mean_overlap", "same_sign_percent", "same_significance_percent", "covered"),
        ),
    )

    def is_domain(self, value: object) -> bool:
        return isinstance(value, Schema)

    def is_source(self, value: object) -> bool:
        """Told by its class: the source itself is not touched before it may be."""
        return callable(getattr(type(value), "count_sparse", None))

    def is_release(self, value: object) -> bool:
        return isinstance(value, Release)

    def domain_of(self, value: Source | Release) -> Schema:
        return value.schema

    def methods(self) -> Registry[Any]:
        return synthesizers

    def read_domain(self, file: Any) -> Schema:
        return read_schema(file)

    def open(self, data: Any, domain: Schema, **reading: Any) -> Source:
        return open_source(data, domain, **reading)

    def make_plan(
        self, domain: Schema, method: str | None, asked: Mapping[str, Any], options: Options, *, i_know: bool
    ) -> Plan:
        if asked["records"] is not None and not i_know:
            require_sane_for(asked["budget"], asked["records"])
        request = Request(**{**asked, "unit": read_unit(asked["unit"])})
        _require_unit(domain, request.unit)
        synthesizer = configure(method or DEFAULT_METHOD, options)

        counts_first = self.plans_by_records(method, request.unit)

        def planner(schema: Schema, asked_of_it: Request) -> Plan:
            plan = with_answers(make_plan(synthesizer, schema, asked_of_it), schema)
            return with_forecast(plan, schema, counts_first=counts_first)

        return plan_finding(planner, domain, request)

    def plans_by_records(self, method: str | None, unit: Unit) -> bool:
        """The default does, which chooses a method. How many rows stay where units are bounded is not known yet."""
        chooses = method is None or method == DEFAULT_METHOD
        return chooses and unit.public_total and unit.rows_per_unit == 1 and unit.unit_id is None

    def plan_again(self, domain: Schema, plan: Plan, request: Request) -> Plan:
        _require_unit(domain, request.unit)
        return plan_finding(configure(plan.method, plan.options).plan, domain, request, left=plan.left)

    def advice(self, domain: Schema, plan: Plan) -> tuple[str, ...]:
        """What the promise takes for granted of adjusted weights; and where a tiny delta would make the noise of a pure
        plan much smaller, with both numbers."""
        told = told_of_weights(domain)
        if not isinstance(plan.budget, PureDP):
            return told
        tiny = ApproxDP(epsilon=plan.budget.epsilon, delta=TINY_DELTA)
        request = Request(budget=tiny, unit=plan.unit, copies=plan.copies, rows=plan.rows, records=plan.records)
        try:
            other = plan_finding(configure(plan.method, plan.options).plan, domain, request)
        except UnderstudyError:  # the method offers no delta, or needs another budget
            return told
        pure, approx = _most_noise(plan), _most_noise(other)
        if pure < WORTH_SAYING * approx or not approx:
            return told
        return (
            *told,
            f"Pure protection costs noise here: its standard deviation is {pure:,.3g} on the noisiest table, and "
            f"{approx:,.3g} with --delta {TINY_DELTA} (the promise may then fail with that probability).",
        )

    def header(self, domain: Schema) -> dict[str, str]:
        return {"schema": write_schema(domain)}

    def domain_again(self, folder: Path, header: Mapping[str, Any], given: Any) -> Schema:
        if given is not None:
            raise InputError("places go with a run of commutes; this run is of a table.")
        if "schema" not in header:
            raise InputError(f"{folder} is not the folder of a run (it names no schema).")
        return parse_schema(header["schema"], str(folder))

    def bounded(self, source: Source, plan: Plan, key: DataKey) -> Source:
        """At most b rows of each unit. The key of the run's data chooses them; a resumed run keeps the same rows."""
        if plan.unit.unit_id is None:
            return source
        bounded: Source = source.bounded(plan.unit, key.bounding())  # type: ignore[attr-defined]
        if left_out := getattr(bounded, "rows_left_out", 0):
            warnings.warn(
                f"internal: {left_out:,} row(s) were left out, because their unit has more than "
                f"{plan.unit.rows_per_unit}. The number is confidential; the release does not hold it.",
                RowsLeftOutWarning,
                stacklevel=2,
            )
        return bounded

    def gate(
        self,
        source: Source | None,
        domain: Schema,
        *,
        plan: Plan,
        stream: Stream,
        journal: Journal | None,
        progress: Progress | None,
    ) -> Gate:
        return Gate(source=source, schema=domain, plan=plan, stream=stream, journal=journal, progress=progress)

    def check(self, plan: Plan, domain: Schema, gate: Gate, *, i_know: bool) -> None:
        """Reads the data once. Refuses an empty table, a delta above one in n, and a release too large for memory."""
        gate.look_ahead()
        if plan.unit.public_total:
            if gate.records == 0:
                raise InputError(
                    "the data have no rows (is it a file with column names alone?); there is nothing to release."
                )
            check_rows(domain, gate.records)
            if not i_know:
                require_sane_for(plan.budget, gate.records)
        rows = plan.rows if plan.rows is not None else gate.records if plan.unit.public_total else 0
        needed = rows * (plan.copies * len(domain.names) * BYTES_PER_VALUE + BYTES_PER_ROW)
        available = available_memory()
        if needed > available:
            raise InputError(
                f"{plan.copies} table(s) of {rows:,} rows need about {needed / 2**30:.1f} GB of memory, and "
                f"{available / 2**30:.1f} GB are available. Ask for fewer rows or copies. Nothing was charged."
            )

    def make(self, domain: Schema, gate: Gate, work: Workshop) -> Release:
        plan, stream = work.plan, work.stream
        synthesis = run_finding(configure(plan.method, plan.options).run, plan, domain, gate, stream)
        sampling = None if domain.design is None else domain.design.sampling
        if (said := said_of_population(plan.budget, sampling)) is not None:
            synthesis = replace(synthesis, notes=(*synthesis.notes, f"{said}."))
        return Release(
            schema=synthesis.found or domain,
            finding=synthesis.finding,
            provenance=work.provenance(synthesis, tuple(draw.to_json() for draw in synthesis.draws)),
            statement=work.statement((*synthesis.warnings, *told_of_weights(domain))),
            tables=tuple(_decoded(synthesis.tables, stream)),
            measurements=synthesis.measurements,
            # Without a guarantee the model may repeat exact counts, which are never published.
            fitted=None if isinstance(plan.budget, NonPrivate) else synthesis.fitted,
        )

    def keep(self, release: Release, out: Path | None) -> Release:  # noqa: ARG002 - its tables are in memory
        return release

    def sample_again(self, release: Release, *, rows: int, copies: int, stream: Stream) -> Release:
        return sample_again(release, rows=rows, copies=copies, stream=stream)

    def about(self, release: Release) -> dict[str, str]:
        return {"schema_fingerprint": release.schema.fingerprint}

    def write_beside(self, release: Release, folder: Path) -> None:
        (folder / SCHEMA).write_text(write_schema(release.schema), encoding="utf-8")
        (folder / CODEBOOK).write_text(codebook_text(release.schema), encoding="utf-8")
        if release.fitted is not None:
            write_model(release.fitted, folder / MODEL)
        if release.finding:
            pq.write_table(measurement_table(release.finding), folder / FINDING, compression="zstd")

    def write_tables(self, release: Release, folder: Path, *, csv: bool) -> WrittenTables:
        for number, table in enumerate(release.tables, start=1):
            marked = table.replace_schema_metadata({**(table.schema.metadata or {}), **SYNTHETIC_MARK})
            pq.write_table(marked, folder / f"synthetic_{number}.parquet", compression="zstd")
            if csv:
                write_csv(table, folder / f"synthetic_{number}.csv")
        return WrittenTables(rows=release.rows, hashes={})

    def readme(self, release: Release, rows: Sequence[int]) -> str:
        return readme_text(release, rows)

    def read(self, path: Path, manifest: Mapping[str, Any]) -> Release:
        schema = parse_schema((path / SCHEMA).read_text(encoding="utf-8"), str(path / SCHEMA))
        if schema.fingerprint != manifest["schema_fingerprint"]:
            raise InputError(f"the schema in {path} is not the one its manifest names.")
        book = path / CODEBOOK  # earlier releases have none
        if book.exists() and book.read_text(encoding="utf-8", errors="replace") != codebook_text(schema):
            raise InputError(f"the code book in {path} says something else than its schema.")

        def shape_of(margin: tuple[str, ...], cells: str, _: int) -> tuple[int, ...]:
            if cells == CONTRASTS:
                return tuple(masks_of(size) for size in schema.shape(margin))
            return {"all": schema.shape(margin), "first": ()}[cells]

        found = pq.read_table(path / FINDING) if FINDING in manifest["files"] else None
        return Release(
            schema=schema,
            finding=() if found is None else read_measurements(found, lambda _margin, _cells, count: (count,)),
            tables=StoredTables(
                [
                    [path / name for name in table_files(manifest["files"], copy)]
                    for copy in range(1, len(manifest["rows"]) + 1)
                ],
                [whole_in(rows) for rows in manifest["rows"]],
                schema,
            ),
            measurements=read_measurements(pq.read_table(path / MEASUREMENTS), shape_of),
            fitted=read_model(path / MODEL, schema) if MODEL in manifest["files"] else None,
            statement=statement_of(manifest),
            provenance=provenance_of(path, manifest, _draw),
        )

    def checks(self) -> tuple[Check[Release], ...]:
        return TABLE_CHECKS

    def summary(self, release: Release) -> Summary:
        schema, names = release.schema, release.schema.names
        return Summary(
            statement=release.statement,
            provenance=release.provenance,
            title=f"Synthetic table of {len(names)} attribute{'s' * (len(names) != 1)}",
            copies=release.copies,
            rows=release.rows[0],
            size=(f"{len(names)}", "attributes"),
            domain=tuple(
                {
                    "attribute": one.name,
                    "label": one.label or "",
                    "kind": one.kind,
                    "values": one.size,
                    "missing": one.missing,
                }
                for one in schema.attributes
            ),
            cells=schema.cells(),
            structural_zeros=len(schema.zeros),
            measured=tuple(
                {
                    "table": " × ".join(one.margin) or one.label or "number of rows",
                    "cells": int(schema.allowed(one.margin).sum()) if one.margin else 1,
                    "noise": str(one.mechanism),
                    "noise_sd": math.sqrt(one.mechanism.variance),
                }
                for one in release.measurements
            ),
            mechanisms=mechanisms_of(release),
            tables=release,
        )

    def evaluate(self, release: Release, confidential: Any, asked: EvaluationRequest) -> Evaluation:
        """Utility and risk, by the measures and attacks of ``evaluation/``."""
        from understudy.evaluation.inputs.comparison import compare
        from understudy.evaluation.risk import evaluate_risk
        from understudy.evaluation.shared.results import part_of
        from understudy.evaluation.utility import evaluate_utility
        from understudy.release.refitting import refitting

        comparison = compare(
            release,
            opened(confidential, release.schema),
            holdout=None if asked.holdout is None else opened(asked.holdout, release.schema),
            models=asked.models,
            ways=asked.ways,
            keys=asked.keys,
            targets=asked.targets,
            thorough=asked.thorough,
            finished=asked.finished,
            **refitting(release),
        )
        both = len(set(asked.parts)) > 1
        first, second = (0.0, 0.3 if both else 1.0), (0.3 if both else 0.0, 1.0)
        measuring, attacking = (part_of(asked.progress, *share) for share in (first, second))
        return Evaluation(
            utility=evaluate_utility(comparison, progress=measuring) if "utility" in asked.parts else Section(),
            risk=evaluate_risk(comparison, progress=attacking) if "risk" in asked.parts else Section(),
        )

    def ask(self, release: Release, question: str, *, level: float, before: Release | None) -> None:  # noqa: ARG002
        """The questions of tables are those of ``inference``."""
        if before is not None:
            raise InputError("before is for releases of commutes; compare tables of people by their answers.")

    def what_to_ask(self, release: Release) -> tuple[str, ...]:  # noqa: ARG002
        """Nothing of its own."""
        return ()

    def export(self, opened: Opened, asked: Mapping[str, Any]) -> Path:
        to, population = asked["to"], asked.get("population")
        if asked.get("by") is not None or asked.get("outlines") is not None:
            raise InputError("by and outlines are for releases of commutes; leave them out for a table of people.")
        if to in WRITERS:
            return export_table(opened, to=to, population=population)
        from understudy.inference.r_folder import export_for_r
        from understudy.release.catalogue import NAMES, describe_release

        if to not in ("r", *NAMES):
            raise unknown_name("format", str(to), (*WRITERS, "r", *NAMES))
        if population is not None:
            raise InputError(f"population goes with {', '.join(WRITERS)}; {to} describes the release as it is.")
        return export_for_r(opened) if to == "r" else describe_release(opened, to=to)

    def compared(self, results: Sequence[tuple[str, Release, Evaluation]]) -> dict[str, pa.Table]:
        """``tradeoff`` (utility against epsilon) and, where all were attacked, ``risk_by_epsilon``."""
        from understudy.evaluation.risk import risk_against_epsilon
        from understudy.evaluation.utility import against_epsilon

        tables = {"tradeoff": against_epsilon([(name, release, one.utility) for name, release, one in results])}
        if all("attacks" in one.risk.frames for _, _, one in results):
            tables["risk_by_epsilon"] = risk_against_epsilon(
                [(name, release, one.risk) for name, release, one in results]
            )
        return tables


def _most_noise(plan: Plan) -> float:
    return max((step.standard_deviation or 0.0 for step in plan.steps), default=0.0)


def opened(data: Any, schema: Schema) -> Source:
    """A source as it is, or whatever ``open_source`` opens."""
    return data if isinstance(data, Source) else open_source(data, schema)


def _draw(draw: dict[str, Any]) -> dict[str, Any]:
    """One recorded draw: its label, its margin, the law of each stratum in texts, and the public sizes of strata."""
    mechanisms = [{text_in(key): text_in(value) for key, value in one.items()} for one in draw["mechanisms"]]
    if not mechanisms or any("mechanism" not in one for one in mechanisms):
        raise TypeError
    sizes = {"sizes": [whole_in(size) for size in draw["sizes"]]} if "sizes" in draw else {}
    return {
        "label": text_in(draw["label"]),
        "margin": [text_in(name) for name in draw["margin"]],
        "mechanisms": mechanisms,
        **sizes,
    }


def _require_unit(schema: Schema, unit: Unit) -> None:
    """Refuses a unit that contradicts the schema, also in a plan from a file."""
    check_unit(schema, kind=unit.kind, unit_id=unit.unit_id, rows_per_unit=unit.rows_per_unit, fixed=unit.fixed)


def _decoded(tables: Sequence[CodedTable], stream: Stream) -> Iterator[pa.Table]:
    """The values of every copy; says how many are done."""
    for copy, table in enumerate(tables, start=1):
        tell("writing values", copy - 1, len(tables))
        yield decode(table, stream, "decode", copy)
