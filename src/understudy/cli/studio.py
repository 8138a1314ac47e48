"""The command that opens the studio: a page on this machine, for a steward who writes no code."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.options import AsJson
from understudy.cli.output import print_json, say
from understudy.studio.application import USUAL_PORT, open_studio


def studio(
    *,
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="Where the data are, and where the release goes.")
    ] = Path(),
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port on this machine; 0 takes any.")] = USUAL_PORT,
    as_json: AsJson = False,
) -> None:
    """Make a release in the browser: choose a file, describe it, compare budgets, confirm, look, sign.

    Example: `understudy studio`

    Only this machine can reach the page, and only with the address that is printed, once. The data stay in this
    process. Nothing is spent before you confirm the amount.
    """

    def ready(address: str) -> None:
        if as_json:
            print_json({"address": address})
            return
        say("The studio is open. Its address works once, in one browser:", style="bold")
        say(address)
        say("Ctrl-C ends it.")

    open_studio(folder, port=port, say=ready)
