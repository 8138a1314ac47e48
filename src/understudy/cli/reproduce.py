"""The command that computes again what papers printed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.options import AsJson
from understudy.cli.output import print_json, say, show_table, working
from understudy.errors import InputError, InternalError, UnsupportedError

REPOSITORY = Path(__file__).resolve().parents[3]  # of a checkout; of an installed wheel some folder of the environment
PAPERS = "papers"


def load_papers() -> None:
    """Make the package ``papers`` of the checkout importable; it is not part of the wheel.

    Loaded by its place, so that no other package of this name is taken for it and the search path stays as it is.
    """
    start = REPOSITORY / PAPERS / "__init__.py"
    if PAPERS in sys.modules and getattr(sys.modules[PAPERS], "__file__", None) == str(start):
        return
    if not (REPOSITORY / "pyproject.toml").is_file() or not start.is_file():
        raise UnsupportedError(
            "the reproductions of papers are not in the installed package. They are in the folder 'papers' of "
            "understudy's source repository. Get a checkout of it, install it with 'pip install --editable .', and "
            "run 'understudy reproduce' again."
        )
    spec = importlib.util.spec_from_file_location(PAPERS, start)
    if spec is None or spec.loader is None:
        raise InternalError("the package 'papers' of the checkout cannot be loaded.")
    sys.modules[PAPERS] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[PAPERS])


def reproduce(
    *,
    papers: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PAPER", help="Papers by their short names; all of them by default.", show_default=False
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full/--quick", help="Do the long computations too, or leave them out.")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="Draw a paper's figures again (av, charest, map, raab, ruiz): .svg, .png or .pdf."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compute again the numbers that papers printed: published, computed, the reading used, a verdict for each.

    Example: `understudy reproduce raab` or `understudy reproduce raab --plot figure1.svg`

    A verdict is pass, misprint (another number was meant), differs (computed, and not what was printed), cannot (with
    the reason) or fail. A fail ends with exit code 1: it is a bug of ours.
    """
    load_papers()
    from papers import harness

    for name in papers or ():
        harness.papers[name]  # an unknown name is refused before anything is computed
    if plot is not None:
        if len(papers or ()) != 1:
            raise InputError("--plot draws the figure of one paper; name that paper.")
        with working("computing"):
            drawing = harness.draw((papers or [""])[0], full=full)
        drawing.save(plot)
        if as_json:
            print_json(drawing.table.to_pylist())
        else:
            say(f"Drawn: {plot}")
        return
    with working("computing"):
        outcomes = harness.run(papers or None, quick=not full)
    tally = harness.tally(outcomes)
    if as_json:
        print_json([outcome.to_json() for outcome in outcomes])
    else:
        show_table(
            "Printed numbers, computed again",
            ("paper", "item", "cell", "published", "computed", "verdict", "reading"),
            [(o.paper, o.item, o.cell, o.published, o.computed, o.verdict, o.reason or o.reading) for o in outcomes],
            right=("published", "computed"),
        )
        say(f"{tally.total():,} printed: {', '.join(f'{tally[verdict]} {verdict}' for verdict in harness.VERDICTS)}")
        if (again := len(outcomes) - tally.total()) > 0:
            say(f"{again:,} lines are other readings of these; each number counts once, by its worst reading.")
    if tally["fail"]:
        raise InternalError(f"{tally['fail']} printed number(s) do not come out as printed.")
