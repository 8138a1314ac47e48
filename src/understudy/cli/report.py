"""Commands that show a release to a person: a report for a review board or for everybody, and a map."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

import understudy as us
from understudy import api
from understudy.cli.bundles import Reading, bundled
from understudy.cli.options import (
    AsJson,
    Holdout,
    Keys,
    Models,
    OneRelease,
    ReleaseSchema,
    Targets,
    files_of,
    read_names,
)
from understudy.cli.output import print_json, say, working
from understudy.core.folders import output_path
from understudy.core.result import INTERNAL
from understudy.errors import InputError


@bundled
def report(
    *,
    release: OneRelease,
    to: Annotated[Path, typer.Option("--to", metavar="FILE.html", help="Where to write it.", show_default=False)],
    audience: Annotated[
        str,
        typer.Option(
            metavar="internal|public", help="Who may see it.", show_default="internal with --confidential, else public"
        ),
    ] = "",
    confidential: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="The confidential data to compare with; makes it internal; may be repeated."),
    ] = None,
    schema: ReleaseSchema = None,
    holdout: Holdout = None,
    model: Models = None,
    keys: Keys = "",
    targets: Targets = "",
    question: Annotated[
        list[str] | None,
        typer.Option(metavar="QUESTION", help='A question to answer by infer, such as "mean(age)"; may be repeated.'),
    ] = None,
    ask: Annotated[list[str] | None, typer.Option("--ask", hidden=True)] = None,
    title: Annotated[str, typer.Option(help="The heading.", show_default="from the schema")] = "",
    reading: Reading,
    as_json: AsJson = False,
) -> None:
    """Write one HTML file about a release: promise, noise, utility, risk, inference. No network, printable.

    Examples: `understudy report release/ --to report.html`,
    `understudy report release/ --confidential people.parquet --question "mean(age)" --to board.html`

    Without --confidential it is public: release facts only, with the fields of the Deployments Registry beside it as
    JSON. With it the release is evaluated first, and the report is internal: marked on every page, never in a release.
    """
    wanted = audience or ("internal" if confidential else "public")
    if confidential is None and (holdout or model or keys or targets):
        raise InputError("--holdout, --model, --keys and --targets belong to --confidential: give it too.")
    api.check_report_target(to, audience=wanted, confidential=bool(confidential))
    how = reading.options()
    if release.is_dir() and not confidential and reading != Reading():
        raise InputError("how data are written was said, and no data were named; name them with --confidential.")
    made = us.read_synthetic(release, None if schema is None else us.read_schema(schema), **how)
    with working("evaluating and writing" if confidential else "writing") as progress:
        place = us.report_release(
            made,
            to=to,
            audience=wanted,  # type: ignore[arg-type]  # checked above
            confidential=api.open_for(made, files_of(confidential), **how) if confidential else None,
            holdout=api.open_for(made, files_of(holdout), **how) if holdout else None,
            models=model or (),
            keys=read_names(keys),
            targets=read_names(targets),
            questions=[*(question or ()), *(ask or ())],  # --ask is what --question was called before
            title=title,
            progress=progress,
        )
    registry = place.with_name(f"{place.stem}-registry.json") if wanted == "public" else None
    if as_json:
        print_json({"report": str(place), "audience": wanted, "registry": None if registry is None else str(registry)})
        return
    if wanted == "internal":
        say(INTERNAL, style="bold red")
    say(f"Report written to {place}")
    if registry is not None:
        say(f"Draft record for the Deployments Registry written to {registry}")


def draw_map(
    *,
    folder: Annotated[Path, typer.Argument(metavar="RELEASE", help="The release folder.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option("--out", help="The file to write.", show_default="RELEASE-map.html beside it")
    ] = None,
    compare: Annotated[
        Path | None, typer.Option("--compare", metavar="RELEASE", help="A second release, shown beside the first.")
    ] = None,
    outlines: Annotated[
        Path | None, typer.Option("--outlines", metavar="FILE", help="Public outlines to draw below (GeoJSON).")
    ] = None,
    base: Annotated[
        Path | None,
        typer.Option("--base", metavar="FILE", help="Public water (polygons) and roads (lines), GeoJSON."),
    ] = None,
    within: Annotated[
        str | None, typer.Option("--within", metavar="LEVEL=AREA", help="Only workplaces of one area.")
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="Heading of the page.")] = None,
    miles: Annotated[bool, typer.Option("--miles", help="Begin with miles instead of kilometres.")] = False,
    copy: Annotated[int, typer.Option("--copy", help="Which synthetic table to show.")] = 1,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    show: Annotated[bool, typer.Option("--open", help="Open the map in a browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Draw a commuting release on a map: one HTML file that works offline and holds synthetic data only.

    Example: `understudy map release/ --open`

    Select a workplace or drag an area to see where its workers live, or the reverse. Up to a million synthetic jobs are
    drawn as dots; beyond that every k-th gets one, and the legend says so.
    """
    beside = folder.absolute()
    target = output_path(out or beside.with_name(f"{beside.name}-map.html"))
    with working("drawing the map"):
        file = us.commute_map(
            us.read_release(folder),  # commute_map refuses other kinds of releases in words
            to=target,
            compare=None if compare is None else us.read_release(compare),
            outlines=outlines,
            base=base,
            within=within,
            **({} if title is None else {"title": title}),
            miles=miles,
            copy=copy,
            overwrite=overwrite,
        )
    if as_json:
        print_json({"release": str(folder), "map": str(file), "bytes": file.stat().st_size})
    else:
        say(f"Wrote {file} ({file.stat().st_size / 1e6:.1f} MB). It holds synthetic data only and needs no network.")
    if show:
        webbrowser.open(file.as_uri())
