"""The ``understudy`` command: every group of commands, one way to fail, stated exit codes."""

from __future__ import annotations

from typing import Annotated

import typer

from understudy.cli import (
    audit,
    demo,
    evaluate,
    explore,
    infer,
    ledger,
    release,
    report,
    reproduce,
    schema,
    serve,
    studio,
    synthesize,
)
from understudy.cli.failures import Command, Commands, notice_interrupts

HELP = """\
Differentially private synthetic data: from a confidential file to a release folder, with an honest ledger.

`understudy synthesize people.parquet --schema people.toml --epsilon 1 --out release/`

Exit codes: 0 ok, 1 a bug of ours, 2 input, 3 budget refused, 4 disclosure refused, 5 not converged, 130 interrupted.
Results go to standard output (with --json: one JSON document), everything else to standard error.
"""

app = typer.Typer(
    name="understudy",
    cls=Commands,
    help=HELP,
    rich_markup_mode="markdown",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # they print local variables, and those hold data
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from understudy import __version__

        typer.echo(f"understudy {__version__}")
        raise typer.Exit()


@app.callback()
def understudy(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    del version  # its callback has already answered


app.command("advise", rich_help_panel="Before a release")(explore.advise)
app.command("tradeoff", rich_help_panel="Before a release")(explore.tradeoff)
app.command("audit", rich_help_panel="Before a release")(audit.audit)
app.command("calibrate", rich_help_panel="Before a release")(audit.calibrate)
app.command("studio", rich_help_panel="Make a release")(studio.studio)
app.command("plan", rich_help_panel="Make a release")(synthesize.plan)
app.command("synthesize", rich_help_panel="Make a release")(synthesize.synthesize)
app.command("resume", rich_help_panel="Make a release")(synthesize.resume)
app.command("signing-key", rich_help_panel="Make a release")(release.signing_key)
app.command("sign", rich_help_panel="Make a release")(release.sign)
app.command("verify", rich_help_panel="Look at a release")(release.verify)
app.command("sample", rich_help_panel="Look at a release")(release.sample)
app.command("export", rich_help_panel="Look at a release")(release.export)
app.command("map", rich_help_panel="Look at a release")(report.draw_map)
app.command("evaluate", rich_help_panel="Look at a release")(evaluate.evaluate)
app.command("attack", rich_help_panel="Look at a release")(evaluate.attack)
app.command("infer", rich_help_panel="Look at a release")(infer.infer)
app.command("report", rich_help_panel="Look at a release")(report.report)
app.command("methods", rich_help_panel="Make a release")(release.methods)
app.add_typer(schema.app, name="schema", rich_help_panel="Make a release")
app.add_typer(ledger.app, name="ledger", rich_help_panel="Make a release")
app.command("ask", rich_help_panel="Ask the data, for a price")(serve.ask)
app.add_typer(serve.app, name="serve", rich_help_panel="Ask the data, for a price")
app.command("demo", rich_help_panel="See it work")(demo.demo)
app.command("reproduce", rich_help_panel="See it work")(reproduce.reproduce)

for group in (app, schema.app, ledger.app, serve.app):
    for registered in group.registered_commands:
        registered.cls = Command


def main() -> None:
    """Entry point of the installed command."""
    notice_interrupts()
    app(prog_name="understudy")
