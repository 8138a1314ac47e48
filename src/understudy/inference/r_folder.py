"""A release as files for R: tables, labels, promise and noisy tables as CSV and JSON, and what inference needs.

The R package ``understudyr`` reads the folder with base R and jsonlite. What Python knows by its own code and R cannot
(which label a method allows at most, which tables were fixed beforehand, whether tables disagree) is written down here
as public facts. Every file has its hash in ``understudy-r.json``, whose own hash is in a file beside it, so that a file
edited by hand is found out.
See docs/decisions/0024-other-doors.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from fractions import Fraction
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.core.bins import as_number, bins_of, level_numbers
from understudy.core.exact_numbers import from_text
from understudy.core.measurement import Measurement
from understudy.core.schema import Attribute, level_text
from understudy.core.survey_design import calibrated_column
from understudy.engines.reading.decode import restore_types
from understudy.errors import InputError
from understudy.inference.agreement import disagreements
from understudy.inference.chosen_tables import Choice, fixed_beforehand, tables_after_choosing
from understudy.inference.evidence import is_partial, is_plain, public_records
from understudy.inference.validity import validity_of
from understudy.privacy.promise.event import GaussianNoise, GeometricNoise, GumbelMax, NoisyMax
from understudy.release.csv_file import write_csv
from understudy.release.export import NOT_VERIFIED, README, Opened, all_attributes, write_export
from understudy.release.folder import NO_PERSON, hash_file
from understudy.release.manifest import MANIFEST
from understudy.release.readme import one_line
from understudy.release.table_release import Release

FORMAT, VERSION = "understudy export for R", 1
INDEX, NOISY, SOURCE = "understudy-r.json", "noisy_tables.csv", "release-manifest.json"
OF_INDEX = "understudy-r.md5"  # the index cannot hold its own hash
LOOKS: dict[type, str] = {
    GaussianNoise: "gaussian",
    GeometricNoise: "geometric",
    GumbelMax: "gumbel_max",
    NoisyMax: "noisy_max",
}


def export_for_r(opened: Opened) -> Path:
    """Write the folder that ``understudyr`` reads."""
    release, source = opened.release, opened.source
    if source is None:
        raise InputError("an export for R carries the manifest of its release; write the release first, then export.")

    def fill(target: Path) -> None:
        manifest = (source / MANIFEST).read_text(encoding="utf-8")
        (target / SOURCE).write_text(manifest, encoding="utf-8")
        for copy in range(1, release.copies + 1):
            write_csv(coded_table(release, copy), target / f"synthetic_{copy}.csv")
        write_csv(noisy_values(release.measurements), target / NOISY)
        (target / README).write_text(_readme(release, verified=opened.verified), encoding="utf-8")
        files = {
            file.name: {"sha256": hash_file(file), "md5": _md5(file), "bytes": file.stat().st_size}
            for file in sorted(target.iterdir())
        }
        told = {**facts(release), "verified": opened.verified, "files": files}
        # R reads Inf and NaN from no JSON; none is needed.
        text = json.dumps(told, indent=1, ensure_ascii=False, allow_nan=False)
        (target / INDEX).write_text(text + "\n", encoding="utf-8")
        (target / OF_INDEX).write_text(f"{_md5(target / INDEX)}  {INDEX}\n", encoding="utf-8")

    return write_export(opened, fill)


def _md5(file: Path) -> str:
    """What base R can compute before version 4.5; it finds edits and accidents, as SHA-256 does, and no forgery."""
    return hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()


def coded_table(release: Release, copy: int) -> pa.Table:
    """One synthetic table as R reads it: a level is its number from 1, numbers and dates are themselves.

    Special codes that are texts beside numbers have stand-ins (see ``special``). Fakes of identifiers stay behind.
    """
    schema = release.schema
    columns = all_attributes(schema)
    table = restore_types(release.frame(copy).select([one.name for one in columns]), schema)
    return pa.table({one.name: _coded(one, table.column(one.name)) for one in columns})


def _coded(attribute: Attribute, column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if attribute.levels:
        return pc.add(pc.index_in(column, value_set=pa.array(attribute.levels, column.type)), 1)
    for one in special(attribute):
        if one["text"] is not None:
            column = pc.if_else(pc.equal(column, one["text"]), str(int(one["code"])), column)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = column.cast(pa.float64())
    return column


def special(attribute: Attribute) -> list[dict[str, Any]]:
    """The codes beside the bins, in order. A text gets a whole number below every number of the attribute."""
    numbers = [as_number(code) for code, _ in attribute.special if not isinstance(code, str)]
    lowest = int(np.floor(min([0.0, *([as_number(attribute.edges[0])] if attribute.edges else []), *numbers])))
    found = []
    for place, (code, label) in enumerate(attribute.special):
        text = code if isinstance(code, str) else None
        number = lowest - 1 - place if text is not None else as_number(code)
        found.append({"code": float(number), "text": text, "label": label})
    return found


def noisy_values(measurements: tuple[Measurement, ...]) -> pa.Table:
    """One row for each noisy cell; cells count from 0, the last attribute of a margin fastest."""
    sizes = [one.values.size for one in measurements]
    cells = [np.arange(size) for size in sizes]
    values = [one.values.reshape(-1) for one in measurements]
    nothing = [np.zeros(0, np.int64)]
    return pa.table({
        "table": pa.array(np.repeat(np.arange(1, len(sizes) + 1), sizes), pa.int64()),
        "cell": pa.array(np.concatenate(cells or nothing), pa.int64()),
        "value": pa.array(np.concatenate(values or nothing), pa.int64()),
    })  # fmt: skip


def facts(release: Release) -> dict[str, Any]:
    """Everything but tables and noisy values."""
    schema, statement, provenance = release.schema, release.statement, release.provenance
    inside = {one.name for one in schema.attributes}
    return {
        "format": FORMAT,
        "version": VERSION,
        "synthetic": True,
        "text": NO_PERSON,
        "package_version": provenance.package_version,
        "method": provenance.method,
        "promise": {
            "guarantee": statement.guarantee.to_json(),
            "guarantee_in_words": str(statement.guarantee),
            "unit": statement.unit.to_json(),
            "unit_in_words": statement.protected,
            "warnings": list(statement.warnings),
            "lines": list(statement.lines()),
        },
        "rows": list(release.rows),
        "records": public_records(release),
        "public_total": statement.unit.public_total,
        "rows_per_unit": statement.unit.rows_per_unit,
        "fixed": list(schema.margin(statement.unit.fixed)),
        "cells": float(schema.cells()),
        "weights": [name for name in _weights(release) if name in inside],
        "attributes": [_attribute(one, own=one.name in inside) for one in all_attributes(schema)],
        "impossible": [{name: list(codes) for name, codes in rule.codes(schema).items()} for rule in schema.zeros],
        "inference": _inference(release),
        "noisy_tables": list(_noisy_tables(release)),
    }


def _weights(release: Release) -> Iterator[str]:
    weight = release.schema.weight
    if weight is not None:
        yield weight.column
        yield from (one.column for one in weight.other)
        yield from calibrated_column(weight)


def _attribute(attribute: Attribute, *, own: bool) -> dict[str, Any]:
    """A column with its labels; ``own``: it is an attribute of the schema, and not derived from others."""
    told: dict[str, Any] = {
        "name": attribute.name,
        "label": attribute.label,
        "kind": attribute.kind,
        "own": own,
        "ordered": attribute.ordered,
        "missing": attribute.missing,
        "integer": attribute.integer,
        "bins": attribute.bins,
        "size": attribute.size,
        "code_names": list(attribute.code_names),
        "levels": [level_text(level) for level in attribute.levels],
        "level_kind": type(attribute.levels[0]).__name__ if attribute.levels else None,
        "level_labels": list(attribute.level_labels),
        "special": special(attribute),
    }
    numbers = level_numbers(attribute)
    if numbers is not None or not attribute.levels:
        bins = bins_of(attribute)
        told |= {
            "level_numbers": list(numbers or ()),
            "edges": [as_number(edge) for edge in attribute.edges],
            "edge_texts": [level_text(edge) for edge in attribute.edges],
            "low": bins.low.tolist(),
            "last": bins.last.tolist(),
            "means": bins.means().tolist(),
            "high": bins.high.tolist(),
            "whole": bins.whole,
            "log": bins.log,
            "inside": None
            if bins.cells is None or bins.shares is None
            else [bins.cells.tolist(), bins.shares.tolist()],
        }
    return told


def _inference(release: Release) -> dict[str, Any]:
    """The best label there can be and why, how the release is answered from, and how its tables were chosen."""
    allowed = validity_of(release)
    choice = Choice(release=release)
    kind = "unknown"
    if release.provenance.draws:
        kind = "plain" if is_plain(release) else "partial" if is_partial(release) else "draws"
    elif release.measurements:
        kind = "noisy"
    looks = [
        {"law": LOOKS.get(type(event), "unknown"), "scale": float(getattr(event, "scale", 0)), "repeats": repeats}
        for event, repeats in choice.looks()
    ]
    plan = release.provenance.plan
    return {
        "kind": kind,
        "best_label": allowed.status,
        "note": allowed.note,
        "looks": looks,
        "measures_every_attribute": choice.measures_every_attribute,
        "bounded_by_looks": choice.bounded_by_looks,
        "chosen_in_turn": choice.in_turn,
        "choice_among": choice.questions,
        "disagreements": [str(one) for one in disagreements(release)[:1]],
        "grown": bool(release.provenance.added),
        "rows_are_apportioned": plan is not None and plan.rows is not None,
        "draws": [[_drawn(one) for one in draw["mechanisms"]] for draw in release.provenance.draws],
    }


def _drawn(law: dict[str, Any]) -> dict[str, Any]:
    """The law of one draw; the prior count of a cell as a number too."""
    told = dict(law)
    if "prior" in told:
        told["prior_count"] = float(Fraction(from_text(str(told["prior"]), "prior")))
    return told


def _noisy_tables(release: Release) -> Iterator[dict[str, Any]]:
    fixed = {id(one) for one in fixed_beforehand(release)}
    for number, one in enumerate(release.measurements, start=1):
        law = one.mechanism.to_json()
        variance = float(one.mechanism.variance)
        yield {
            "table": number,
            "label": one.label,
            "margin": list(one.margin),
            "cells": one.cells,
            "law": law["mechanism"],
            "scale": float(one.mechanism.scale) if hasattr(one.mechanism, "scale") else None,
            "exact_scale": law.get("scale"),
            "variance": variance if isfinite(variance) else None,
            "fixed_beforehand": id(one) in fixed,
            "after_choosing": one.margin != () and _after(release, one),
        }


def _after(release: Release, measurement: Measurement) -> bool:
    """Whether a table is one of those measured after every choice of a method."""
    found = tables_after_choosing(release, measurement.margin)
    return found is not None and any(one is measurement for one in found.measurements)


def _readme(release: Release, *, verified: bool) -> str:
    lines = [
        NO_PERSON,
        "",
        *([] if verified else [NOT_VERIFIED, ""]),
        "Exported for R. Read this folder with the package understudyr, which needs R and jsonlite and no Python:",
        "",
        "  library(understudyr)",
        '  release <- read_release("this folder")',
        "  people <- as.data.frame(release)",
        "  infer(release, \"proportion(sex == 'F')\")",
        "",
        *release.statement.lines(),
        "",
        "Ordinary standard errors computed from the rows are too small: they ignore the noise that protects the data.",
        f"{INDEX}: columns, labels, the promise, the noise of every table, and the hash of every file.",
        f"synthetic_*.csv: the rows. A level is its number in {INDEX}, from 1; an empty field is missing.",
        f"{NOISY}: the noisy counts. Cells count from 0, the last attribute of a table fastest.",
        f"{SOURCE}: the manifest of the release itself, as it was.",
        f"{OF_INDEX}: the hash of {INDEX}.",
    ]
    return "".join(f"{' ' * (len(line) - len(line.lstrip(' ')))}{one_line(line)}\n" for line in lines)
