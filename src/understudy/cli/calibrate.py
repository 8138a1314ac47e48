"""The command that finds how much noise a promise needs. It touches no data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import understudy as us
from understudy import api
from understudy.cli.audit import Cells, PlotFile, Records, Rows, read_number
from understudy.cli.bundles import Budget, bundled
from understudy.cli.options import AsJson, UnitKind
from understudy.cli.output import print_json, say, show_facts, show_table, working
from understudy.errors import InputError, unknown_name


@bundled
def calibrate(
    mechanism: Annotated[
        str, typer.Argument(metavar="dirichlet|geometric|gaussian", show_default=False, help="The mechanism.")
    ],
    *,
    amounts: Budget,
    unit: UnitKind = None,
    records: Records = None,
    rows: Rows = None,
    cells: Cells = None,
    margins: Annotated[
        int | None, typer.Option(help="How many noisy tables share the promise (for noise).", show_default="1")
    ] = None,
    rule: Annotated[
        str, typer.Option(metavar="exact|theorem|union", help="How the prior is found; theorem means Theorem 4.4.")
    ] = "exact",
    compare: Annotated[bool, typer.Option("--compare", help="Show what every rule asks for (dirichlet).")] = False,
    plot: PlotFile = None,
    as_json: AsJson = False,
) -> None:
    """Find the least noise that keeps a promise; no data are used.

    Example: `understudy calibrate dirichlet --epsilon 4.6 --delta 1e-5 --records 15 --rows 15 --cells 233726`

    dirichlet finds the prior of a draw, geometric and gaussian the scale of noise on counts.
    """
    kinds: dict[str, Any] = {
        "dirichlet": us.DirichletMultinomial,
        "geometric": us.Geometric,
        "gaussian": us.DiscreteGaussian,
    }
    if mechanism not in kinds:
        raise unknown_name("mechanism", mechanism, kinds)
    budget = amounts.read()
    extra: dict[str, Any] = {} if margins is None else {"margins": margins}
    with working("computing"):
        found = us.calibrate(
            kinds[mechanism],
            budget,
            records=records,
            rows=rows,
            cells=cells,
            unit=unit or "replace",
            rule=rule,  # type: ignore[arg-type]  # calibrate itself names the known rules
            **extra,
        )
    parameter = "prior" if mechanism == "dirichlet" else "scale"
    document: dict[str, Any] = {
        "mechanism": mechanism,
        "guarantee": budget.to_json(),
        "unit": found.unit.kind,
        parameter: float(found),
        "basis": found.basis,
    }
    if compare or plot is not None:
        document |= _compare(
            mechanism, amounts.epsilon, amounts.delta, records=records, rows=rows, cells=cells, plot=plot
        )
    if as_json:
        print_json(document)
        return
    say(f"Least noise for {budget}", style="bold")
    show_facts([(parameter, float(found)), ("basis", found.basis), ("unit", found.unit.describe())])
    if "compared" in document:
        show_table(
            "What each rule asks for",
            ("rule", "prior per cell", "prior in all", "share of Theorem 4.1"),
            [(line["rule"], line["prior"], line["prior_rows"], line["share"]) for line in document["compared"]],
            right=("prior per cell", "prior in all", "share of Theorem 4.1"),
        )
    if "plot" in document:
        say(f"Figure written to {document['plot']}")


def _compare(
    mechanism: str,
    epsilon: str | None,
    delta: str | None,
    *,
    records: int | None,
    rows: int | None,
    cells: int | None,
    plot: Path | None,
) -> dict[str, Any]:
    if mechanism != "dirichlet" or epsilon is None or delta is None or records != rows or not records or not cells:
        raise InputError(
            "--compare and --plot show priors: dirichlet with --epsilon, --delta and --rows equal to --records."
        )
    table = us.prior_table(read_number(epsilon, "epsilon"), read_number(delta, "delta"), records=records, cells=cells)
    found: dict[str, Any] = {"compared": table.to_pylist()}
    if plot is not None:
        title = f"epsilon {epsilon}, delta {delta}, {records:,} records, {cells:,} cells"
        found["plot"] = str(api.draw_priors(table, title=title).save(plot))
    return found
