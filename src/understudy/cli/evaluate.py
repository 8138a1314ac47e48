"""The command that measures a release against the confidential data. What it prints and writes is internal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import understudy as us
from understudy import api
from understudy.cli.bundles import Reading, bundled
from understudy.cli.internal import document, kept_when_stopped, plain_rows, show_findings, show_first_screen
from understudy.cli.options import (
    AsJson,
    Confidential,
    Details,
    Holdout,
    Keys,
    Models,
    ReleaseSchema,
    Targets,
    Thorough,
    files_of,
    read_names,
)
from understudy.cli.output import print_json, say, show_table, working
from understudy.core.result import INTERNAL, Evaluation, Section
from understudy.errors import InputError

if TYPE_CHECKING:
    from understudy.release.kind import AnyRelease

    Evaluated = tuple[str, AnyRelease, Evaluation]

SHOWN = 8
IN_SHORT = 3


@bundled
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
    confidential: Confidential,
    schema: ReleaseSchema = None,
    holdout: Holdout = None,
    model: Models = None,
    keys: Keys = "",
    targets: Targets = "",
    ways: Annotated[str, typer.Option(metavar="1,2,3", help="How many attributes the tables have.")] = "1,2,3",
    part: Annotated[
        list[str] | None, typer.Option(metavar="|".join(api.PARTS), help="Only this part.", show_default="both")
    ] = None,
    reading: Reading,
    out: Annotated[
        Path | None, typer.Option(help="A new folder for all tables (CSV) and figures (SVG); never in a release.")
    ] = None,
    thorough: Thorough = False,
    details: Details = False,
    as_json: AsJson = False,
) -> None:
    """Measure how useful and how risky a release is, against the confidential data. Keep the result inside.

    Example: `understudy evaluate release/ --confidential people.parquet --model "income ~ age + sex" --out evaluation/`

    Several releases of the same data are compared by epsilon. The data are read by the schema of the release.
    """
    folder = None if out is None else api.check_evaluation_target(out)
    how = reading.options()
    named = _named(releases)
    public = None if schema is None else us.read_schema(schema)
    results: list[Evaluated] = []
    with kept_when_stopped(folder) as finished:
        for name, path in named.items():
            release = us.read_synthetic(path, public, **how)
            with working(f"evaluating {name}") as progress:
                people = _opened(release, confidential, how)
                others = _opened(release, holdout, how) if holdout else None
                evaluation = us.evaluate(
                    release,
                    people,
                    holdout=others,
                    models=model or (),
                    keys=read_names(keys),
                    targets=read_names(targets),
                    ways=read_ways(ways),
                    parts=part or api.PARTS,
                    thorough=thorough,
                    progress=progress,
                    finished=finished if len(named) == 1 else partial(_of, name, finished),
                )
            results.append((name, release, evaluation))
        together = us.compare_evaluations(results)
        if folder is not None:
            with working("writing"):
                judged = {name: evaluation for name, _, evaluation in results}
                us.write_evaluation(results[0][2] if len(results) == 1 else judged, folder, together=together)
    if as_json:
        documents = [document(name, evaluation) for name, _, evaluation in results]
        compared = {name: plain_rows(frame) for name, frame in together.items()}
        print_json({"releases": documents, **compared} if compared else documents[0])
        return
    say(INTERNAL, style="bold red")
    for name, release, evaluation in results:
        if details:
            show_evaluation(name, release, evaluation)
        elif len(results) == 1:
            show_in_short(name, release, evaluation)
        else:
            first = evaluation.risk.frames.get("first_screen")
            for row in [] if first is None else first.to_pylist()[:1]:
                say(f"{name}. {row['title']}: {row['sentence']}")
    if "tradeoff" in together:
        columns = ("release", "guarantee", "epsilon", "s_pmse_2", "s_pmse_3", "k_marginal_2", "k_marginal_3")
        _show_frame("Utility against epsilon", together["tradeoff"], columns, len(results))
    if folder is not None:
        say(f"All tables and figures are in {folder}")


def _of(release: str, finished: Callable[[str, Section], None], name: str, section: Section) -> None:
    finished(f"{release}/{name}", section)


def _opened(release: AnyRelease, files: Sequence[str], how: Mapping[str, Any]) -> Any:
    return api.open_for(release, files_of(files), **how)


def _named(releases: Sequence[Path]) -> dict[str, Path]:
    names = [path.resolve().name if path.is_dir() else path.stem for path in releases]
    if len(set(names)) < len(names):
        names = [f"{number}_{name}" for number, name in enumerate(names, start=1)]
    return dict(zip(names, releases, strict=True))


def read_ways(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 3 for part in parts):
        raise InputError(f"--ways ({text!r}) must be whole numbers such as 1,2,3.")
    return tuple(int(part) for part in parts)


def show_in_short(name: str, release: AnyRelease, evaluation: Evaluation) -> None:
    """One screen: how useful, the three sentences about risk, what warns. The rest is in files and with --details."""
    utility, risk = evaluation.utility, evaluation.risk
    say(f"\n{name}: how useful", style="bold")
    for table in api.shown_tables(release):
        if table.in_short and table.name in utility.frames:
            _show_frame(table.heading, utility.frames[table.name], table.columns, IN_SHORT)
    for line in _useful(utility)[: 2 * IN_SHORT]:
        say(line)
    show_first_screen(risk, most=IN_SHORT)
    warned = [one for one in (*risk.findings, *utility.findings) if one.severity in ("problem", "warning")]
    for finding in sorted(warned, key=lambda one: one.severity)[:IN_SHORT]:
        say(f"{finding.severity}: {finding.title}")
    left = len(warned) - IN_SHORT
    say(f"{f'{left} more warnings, and all' if left > 0 else 'All'} tables and findings: --details, or --out FOLDER.")


def _useful(utility: Section) -> list[str]:
    lines = [
        f"Tables of {row['way']} attributes: {row['good']:,} good, {row['usable']:,} usable, {row['poor']:,} poor; "
        f"mean S_pMSE {row['mean_s_pmse']:.3g} (1 is a correct model, below 10 good), worst {row['worst_table']} "
        f"({row['worst_s_pmse']:.3g})"
        for row in (utility.frames["ways"].to_pylist() if "ways" in utility.frames else ())
    ]
    models = utility.frames["regression_models"].to_pylist() if "regression_models" in utility.frames else ()
    return lines + [
        f"Regression {row['model']}: mean overlap of intervals {row['mean_overlap']:.3g} (1 is the same)"
        for row in models
        if row["mean_overlap"] is not None
    ]


def show_evaluation(name: str, release: AnyRelease, evaluation: Evaluation) -> None:
    """All telling tables of an evaluation, and its findings."""
    utility = evaluation.utility
    whose = f"{name}: "  # said once, above the first table
    for table in api.shown_tables(release):
        frame = utility.frames.get(table.name)
        if frame is not None and frame.num_rows:
            frame = frame.sort_by([(table.worst, "descending")]) if table.worst else frame
            _show_frame(f"{whose}{table.heading}", frame, table.columns, SHOWN)
            whose = ""
    show_first_screen(evaluation.risk, most=20)
    for heading, section in (("Utility: findings", utility), ("Risk: findings", evaluation.risk)):
        show_findings(heading, section)
    if "omissions" in utility.frames:
        _show_frame("Not computed", utility.frames["omissions"], ("measure", "what", "reason"), 2 * SHOWN)


def _show_frame(heading: str, frame: Any, columns: Sequence[str], most: int) -> None:
    rows = frame.select(list(columns)).to_pylist()
    right = [name for name in columns if any(isinstance(row[name], int | float) for row in rows)]
    more = f" (first {most} of {len(rows)})" if len(rows) > most else ""
    show_table(f"{heading}{more}", columns, [tuple(row.values()) for row in rows[:most]], right=right)
