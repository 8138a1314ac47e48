"""The command that hands a release to other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import understudy as us
from understudy.cli.options import AsJson
from understudy.cli.output import print_json, say, working
from understudy.core.folders import output_path


def export(
    *,
    folder: Annotated[Path, typer.Argument(metavar="RELEASE", help="The release folder.", show_default=False)],
    to: Annotated[
        str, typer.Option("--to", metavar="FORMAT", help="csv, dta (Stata) or sav (SPSS).", show_default=False)
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="A new folder for the files.", show_default="RELEASE-FORMAT beside it")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a release for other programs: CSV, Stata (dta) or SPSS (sav), one file per copy, with labels and types.

    Example: `understudy export release/ --to sav`

    Nothing is written into the release folder. README.txt beside the files repeats what the release promises, says what
    every code means, and lists names that had to be shortened.
    """
    with working("writing"):
        target = us.export(folder, to=to, out=None if out is None else output_path(out))
    files = sorted(file.name for file in target.iterdir())
    if as_json:
        print_json({"release": str(folder), "export": str(target), "format": to, "files": files})
    else:
        say(f"Exported to {target}: {', '.join(files)}")
