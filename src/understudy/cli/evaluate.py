"""The command that measures a release against the confidential data. What it prints and writes is internal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy import api
from understudy.cli.options import (
    AsJson,
    DatabaseQuery,
    DatabaseTable,
    Decimal,
    Delimiter,
    MissingText,
    files_of,
    read_data_options,
    read_output_path,
)
from understudy.cli.output import print_json, say, show_table, working
from understudy.core.folders import publish_folder, release_above
from understudy.core.result import Evaluation, Section
from understudy.core.schema_file import read_schema
from understudy.errors import DisclosureError, InputError

if TYPE_CHECKING:
    from understudy.release import Release

INTERNAL = "INTERNAL, computed from confidential data: keep it inside the building"
SHOWN = 8
WAYS = ("way", "tables", "mean_s_pmse", "worst_table", "worst_s_pmse", "good", "usable", "poor", "k_marginal_score")


def evaluate(
    *,
    releases: Annotated[
        list[Path],
        typer.Argument(
            metavar="RELEASE",
            help="Release folders, or (with --schema) files with anybody's synthetic table.",
            show_default=False,
        ),
    ],
    confidential: Annotated[
        list[str], typer.Option(metavar="FILE", help="The confidential data; may be repeated.", show_default=False)
    ],
    schema: Annotated[
        Path | None, typer.Option(help="The public schema (TOML).", show_default="the one in the release")
    ] = None,
    holdout: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="People of the same population who were not used; may be repeated."),
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(metavar="'Y ~ A + B'", help="A regression to compare; may be repeated.")
    ] = None,
    key: Annotated[list[str] | None, typer.Option(help="What an intruder knows; may be repeated.")] = None,
    target: Annotated[list[str] | None, typer.Option(help="What an intruder wants to know; may be repeated.")] = None,
    ways: Annotated[str, typer.Option(metavar="1,2,3", help="Of how many attributes the tables are.")] = "1,2,3",
    part: Annotated[
        list[str] | None, typer.Option(metavar="|".join(api.PARTS), help="Only this part.", show_default="both")
    ] = None,
    missing_text: MissingText = "",
    delimiter: Delimiter = None,
    decimal: Decimal = ".",
    table: DatabaseTable = None,
    query: DatabaseQuery = None,
    out: Annotated[
        Path | None, typer.Option(help="A new folder for all tables (CSV) and figures (SVG); never in a release.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how useful and how risky a release is, against the confidential data. Keep the result inside.

    Example: `understudy evaluate release/ --confidential people.parquet --model "income ~ age + sex" --out evaluation/`

    Several releases of the same data are compared by epsilon. The data are read by the schema of the release.
    """
    target_folder = None if out is None else _target(out)
    reading = read_data_options(
        missing_text=missing_text, delimiter=delimiter, decimal=decimal, table=table, query=query
    )
    named = _named(releases)
    public = None if schema is None else read_schema(schema)
    results: list[tuple[str, Release, Evaluation]] = []
    for name, path in named.items():
        release = _read(path, public, reading)
        with working(f"evaluating {name}") as progress:
            people = api.open_source(files_of(confidential), release.schema, **reading)
            others = api.open_source(files_of(holdout), release.schema, **reading) if holdout else None
            evaluation = api.evaluate(
                release,
                people,
                holdout=others,
                models=model or (),
                keys=key or (),
                targets=target or (),
                ways=_ways(ways),
                parts=part or api.PARTS,
                progress=progress,
            )
        results.append((name, release, evaluation))
    together = _together(results) if len(results) > 1 else None
    if target_folder is not None:
        with working("writing"):
            _write(target_folder, results, together)
    if as_json:
        documents = [_document(name, evaluation) for name, _, evaluation in results]
        print_json(documents[0] if together is None else {"releases": documents, "tradeoff": together.to_pylist()})
        return
    say(INTERNAL, style="bold red")
    for name, _, evaluation in results:
        _show(name, evaluation)
    if together is not None:
        columns = ("release", "guarantee", "epsilon", "s_pmse_2", "s_pmse_3", "k_marginal_2", "k_marginal_3")
        _show_frame("Utility against epsilon", together, columns, together.num_rows)
    if target_folder is not None:
        say(f"All tables and figures are in {target_folder}")


def _target(out: Path) -> Path:
    """Refused before anything is computed: a release holds nothing that was computed from confidential data."""
    inside = release_above(out)
    if inside is not None:
        raise DisclosureError(
            f"{out} lies in the release folder {inside}; an evaluation is internal. Choose a folder outside."
        )
    target = read_output_path(out)
    if target.exists():
        raise InputError(f"{target} already exists; choose another folder.")
    if not target.parent.is_dir():
        raise InputError(f"{target} cannot be written: the folder {target.parent} does not exist; create it first.")
    return target


def _named(releases: Sequence[Path]) -> dict[str, Path]:
    names = [path.resolve().name if path.is_dir() else path.stem for path in releases]
    if len(set(names)) < len(names):
        names = [f"{number}_{name}" for number, name in enumerate(names, start=1)]
    return dict(zip(names, releases, strict=True))


def _read(path: Path, schema: Any, reading: Mapping[str, Any]) -> Release:
    from understudy.release import read_release, wrap

    if path.is_dir():
        release = read_release(path)
        if schema is not None and schema.fingerprint != release.schema.fingerprint:
            raise InputError(f"--schema is not the schema of {path}; leave it out to use the release's own.")
        return release
    if schema is None:
        raise InputError(
            f"{path} is not a release folder; to evaluate a file with synthetic rows give its --schema too."
        )
    return wrap(api.synthetic_table(str(path), schema, **reading), schema)


def _ways(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 3 for part in parts):
        raise InputError(f"--ways ({text!r}) must be whole numbers such as 1,2,3.")
    return tuple(int(part) for part in parts)


def _together(results: Sequence[tuple[str, Release, Evaluation]]) -> Any:
    from understudy.utility.evaluate import against_epsilon

    return against_epsilon([(name, release, evaluation.utility) for name, release, evaluation in results])


def _write(folder: Path, results: Sequence[tuple[str, Release, Evaluation]], together: Any) -> None:
    def fill(place: Path) -> None:
        (place / "README.txt").write_text(f"{INTERNAL}.\n", encoding="utf-8")
        for name, _, evaluation in results:
            _write_one(place if len(results) == 1 else place / name, evaluation)
        if together is not None:
            _write_csv(together, place / "tradeoff.csv")
            _draw({"tradeoff": together}, place)

    publish_folder(folder, fill, private=True)


def _write_one(place: Path, evaluation: Evaluation) -> None:
    import pyarrow as pa

    place.mkdir(exist_ok=True)
    _write_csv(pa.Table.from_pylist([_finding(finding) for finding in evaluation.findings]), place / "findings.csv")
    for name, section in (("utility", evaluation.utility), ("risk", evaluation.risk)):
        filled = {title: frame for title, frame in section.frames.items() if frame.num_columns}
        if filled:
            (place / name).mkdir()
        for title, frame in filled.items():
            _write_csv(frame, place / name / f"{title}.csv")
    _draw(evaluation.utility.frames, place / "figures")


def _write_csv(frame: Any, file: Path) -> None:
    import pyarrow as pa
    from pyarrow import csv

    plain = [
        pa.array([", ".join(map(str, value or ())) for value in column.to_pylist()])
        if pa.types.is_nested(column.type)
        else column
        for column in frame.columns
    ]
    csv.write_csv(pa.table(plain, names=frame.column_names), file)


def _draw(frames: Mapping[str, Any], place: Path) -> None:
    from understudy.figures.evaluation.base import drawable, figures

    names = drawable(frames)
    if names:
        place.mkdir(exist_ok=True)
    for name in names:
        figures[name](frames).save(place / f"{name}.svg")


def _finding(finding: Any) -> dict[str, Any]:
    return {
        "code": finding.code,
        "severity": finding.severity,
        "title": finding.title,
        "value": None if finding.value is None else str(finding.value),
        "audience": finding.audience,
        "reference": finding.reference,
    }


def _document(name: str, evaluation: Evaluation) -> dict[str, Any]:
    return {
        "audience": "internal",
        "release": name,
        **{
            part: {
                "findings": [{**_finding(finding), "value": _plain(finding.value)} for finding in section.findings],
                "frames": {
                    title: [{key: _plain(value) for key, value in row.items()} for row in frame.to_pylist()]
                    for title, frame in section.frames.items()
                },
            }
            for part, section in (("utility", evaluation.utility), ("risk", evaluation.risk))
        },
    }


def _plain(value: Any) -> Any:
    """JSON has no NaN and no dates."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int | bool | list) else str(value)


def _show(name: str, evaluation: Evaluation) -> None:
    utility = evaluation.utility
    frames = (
        ("ways", f"{name}: S_pMSE of tables (1 is a correct model, below 10 good, below 30 usable)", WAYS),
        ("tables", "Worst tables", ("table", "s_pmse", "band", "tvd", "df", "covered")),
        (
            "propensity",
            "Can a classifier tell?",
            ("classifier", "s_pmse", "pmse", "specks", "po50", "auc", "null", "form"),
        ),
        ("giveaways", "What gives synthetic rows away", ("attribute", "excess", "importance")),
        (
            "regression_models",
            "Regressions",
            ("model", "family", "mean_overlap", "same_sign_percent", "same_significance_percent", "covered"),
        ),
    )
    for title, heading, columns in frames:
        if title in utility.frames and utility.frames[title].num_rows:
            frame = utility.frames[title]
            if title == "tables":
                frame = frame.sort_by([("s_pmse", "descending")])
            _show_frame(heading, frame, columns, SHOWN)
    for heading, section in (("Utility: findings", utility), ("Risk: findings", evaluation.risk)):
        _show_findings(heading, section)
    if "omissions" in utility.frames:
        _show_frame("Not computed", utility.frames["omissions"], ("measure", "what", "reason"), 2 * SHOWN)


def _show_findings(heading: str, section: Section) -> None:
    order = ("problem", "warning", "info", "good")
    listed = sorted(section.findings, key=lambda finding: order.index(finding.severity))
    if listed:
        show_table(
            heading,
            ("severity", "finding", "value"),
            [(finding.severity, finding.title, finding.value) for finding in listed],
            right=("value",),
        )


def _show_frame(heading: str, frame: Any, columns: Sequence[str], most: int) -> None:
    rows = frame.select(list(columns)).to_pylist()
    right = [name for name in columns if any(isinstance(row[name], int | float) for row in rows)]
    more = f" (first {most} of {len(rows)})" if len(rows) > most else ""
    show_table(f"{heading}{more}", columns, [tuple(row.values()) for row in rows[:most]], right=right)
