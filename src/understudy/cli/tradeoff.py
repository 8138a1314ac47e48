"""The command that shows what each epsilon buys on one table. On confidential data what it prints is internal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import understudy as us
from understudy.cli.advise import CopyRows, Delta, Keys, Targets, read_counts, read_list
from understudy.cli.audit import PlotFile
from understudy.cli.bundles import Protected, Reading, bundled
from understudy.cli.evaluate import read_ways
from understudy.cli.options import AsJson, SchemaFile, files_of, read_names
from understudy.cli.output import print_json, say, show_table, warn, working
from understudy.core.folders import release_above
from understudy.core.result import INTERNAL
from understudy.errors import DisclosureError, InputError

if TYPE_CHECKING:
    from understudy.explore.tradeoff_result import Tradeoff

USEFUL = {"epsilon": "epsilon", "method": "method", "copies": "copies", "s_pmse_2": "S_pMSE 2-way",
          "s_pmse_3": "3-way", "k_marginal_2": "k-marginal", "width_ratio": "width x real"}  # fmt: skip
RISKY = {"epsilon": "epsilon", "method": "method", "copies": "copies", "odds": "odds", "guess_bound": "right guess",
         "cell_uncertainty": "cell differs", "repU": "repU %", "repU_null": "null", "DiSCO": "DiSCO %",
         "DiSCO_null": "null "}  # fmt: skip
TEXT = ("method",)


@bundled
def tradeoff(
    *,
    data: Annotated[
        list[str] | None, typer.Argument(metavar="[DATA]", help="The confidential data.", show_default=False)
    ] = None,
    schema: SchemaFile,
    on: Annotated[
        list[str] | None,
        typer.Option("--on", metavar="FILE", help="A public look-alike instead of the data; may be repeated."),
    ] = None,
    epsilon: Annotated[
        str, typer.Option("--epsilon", metavar="E1,E2,...", help="Total epsilons to sweep.")
    ] = "0.1,0.5,1,2,5",
    delta: Delta = None,
    method: Annotated[
        list[str] | None, typer.Option(help="A method to sweep; may be repeated.", show_default="auto")
    ] = None,
    copies: Annotated[str, typer.Option(metavar="M1,M2,...", help="Numbers of copies to sweep.")] = "1",
    repeats: Annotated[int, typer.Option(help="Rehearsed releases of each setting.")] = 5,
    who: Protected,
    rows: CopyRows = None,
    question: Annotated[
        list[str] | None,
        typer.Option(
            help="A question whose interval is measured; may be repeated.", show_default="a share of each attribute"
        ),
    ] = None,
    keys: Keys = "",
    targets: Targets = "",
    ways: Annotated[str, typer.Option(metavar="1,2,3", help="How many attributes the tables have.")] = "1,2,3",
    reference: Annotated[bool, typer.Option(help="Also tables without a guarantee, to compare with.")] = True,
    workers: Annotated[
        int | None, typer.Option(help="Processes that share the work.", show_default="all cores")
    ] = None,
    reading: Reading,
    out: Annotated[
        Path | None,
        typer.Option(help="A folder for tables and the figure, never in a release; the same command goes on with it."),
    ] = None,
    plot: PlotFile = None,
    as_json: AsJson = False,
) -> None:
    """Sweep epsilon, methods and copies on one table: utility, risk and interval width. Keep the result inside.

    Example: `understudy tradeoff people.parquet --schema people.toml --method ipf --method aim --out tradeoff/`

    Releases are rehearsed, measured and dropped: nothing is charged, because nothing leaves. Choosing epsilon by a
    score of confidential data is not covered by the ledger; with --on the sweep runs on a public look-alike instead.
    """
    if bool(data) == bool(on):
        raise InputError("name either the confidential DATA, or a public look-alike with --on; not both, not neither.")
    for place in (out, plot):
        inside = None if place is None else release_above(place)
        if inside is not None:
            raise DisclosureError(f"{place} lies in the release folder {inside}; an exploration is internal. "
                                  "Choose a place outside.")  # fmt: skip
    source = us.open_source(files_of(data or on or []), us.read_schema(schema), **reading.options())
    with working("rehearsing") as progress:
        result = us.tradeoff(
            source if data else None,
            on=None if data else source,
            epsilons=read_list(epsilon, "--epsilon"),
            methods=method or ("auto",),
            copies=read_counts(copies, "--copies"),
            repeats=repeats,
            delta=delta,
            unit=who.read() or "replace",
            rows=rows,
            questions=question or (),
            keys=read_names(keys),
            targets=read_names(targets),
            ways=read_ways(ways),
            reference=reference,
            out=out,
            workers=workers,
            progress=progress,
        )
    written: dict[str, Any] = {} if plot is None else {"plot": str(result.map().save(plot))}
    if as_json:
        print_json({**result.to_json(), **written})
        return
    _show(result)
    if out is not None:
        say(f"All tables and the figure are in {out}")
    if plot is not None:
        say(f"Figure written to {plot}")


def _show(result: Tradeoff) -> None:
    if not result.public:
        say(INTERNAL, style="bold red")
    rows = result.table.to_pylist()
    for heading, columns in (
        (f"Utility and intervals, mean +- sd of {result.sweep.repeats} releases", USEFUL),
        ("Epsilon beside classical measures", RISKY),
    ):
        shown = {key: title for key, title in columns.items() if key in rows[0]}
        if all(row["copies"] == 1 for row in rows):
            del shown["copies"]
        table = [[_cell(row, key) for key in shown] for row in rows]
        right = [title for key, title in shown.items() if key not in TEXT]
        show_table(heading, list(shown.values()), table, right=right)
    if any(row["epsilon"] is None for row in rows):
        say("Epsilon none: drawn from the table itself without a guarantee, to compare with.")
    for reason in dict.fromkeys(row["reason"] for row in rows if row["reason"]):
        warn(f"some settings were refused: {reason}")
    say(result.note)


def _cell(row: dict[str, Any], key: str) -> object:
    value, spread = row[key], row.get(f"{key}_sd")
    if key == "epsilon":
        return "none" if value is None else f"{value:g}"
    if not isinstance(value, float):
        return value
    return f"{value:.3g} +- {spread:.1g}" if spread and not key.endswith("_null") else f"{value:.3g}"
