"""The command that draws a commuting release on a map."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

import understudy as us
from understudy.cli.options import AsJson
from understudy.cli.output import print_json, say, working
from understudy.core.folders import output_path


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
