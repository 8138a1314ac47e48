"""Commands that show, before a release, what an epsilon buys and what it tells.

``advise`` takes no confidential data. On confidential data, what ``tradeoff`` prints is internal.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import understudy as us
from understudy.cli.audit import PlotFile
from understudy.cli.bundles import Protected, Reading, bundled
from understudy.cli.evaluate import read_ways
from understudy.cli.options import (
    AsJson,
    MethodOptions,
    SchemaFile,
    files_of,
    read_method_options,
    read_names,
)
from understudy.cli.output import print_json, say, show_facts, show_table, warn, working
from understudy.core.folders import release_above
from understudy.core.result import INTERNAL
from understudy.errors import DisclosureError, InputError

if TYPE_CHECKING:
    from understudy.explore.advice_result import Advice
    from understudy.explore.tradeoff_result import Tradeoff

QUESTION = "The question"
PEOPLE = "What is believed about the people"

Epsilons = Annotated[str, typer.Option("--epsilon", metavar="E1,E2,...", help="Total epsilons to look at.")]
LookAlike = Annotated[
    list[str] | None,
    typer.Option(
        "--on",
        metavar="FILE",
        help="A public look-alike (never the confidential data); may be repeated.",
        rich_help_panel=PEOPLE,
    ),
]
Keys = Annotated[str, typer.Option(metavar="A,B", help="What an intruder knows.", show_default="all attributes")]
Delta = Annotated[str | None, typer.Option(help="Total delta; without it the guarantee is pure.")]
CopyRows = Annotated[int | None, typer.Option(help="Rows of each copy.", show_default="the method's choice")]
Targets = Annotated[str, typer.Option(metavar="A,B", help="What an intruder wants.", show_default="everything else")]


@bundled
def advise(
    question: Annotated[
        str | None,
        typer.Argument(metavar="[QUESTION]", help="What analysts will ask, as for infer.", show_default=False),
    ] = None,
    *,
    accuracy: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="'QUESTION within 3%'",
            help="Find the epsilon that makes the answer so exact.",
        ),
    ] = None,
    schema: SchemaFile,
    records: Annotated[int, typer.Option(help="How many records there are, or a guess.", show_default=False)],
    epsilon: Epsilons = "0.1,0.5,1,2,5,10",
    delta: Delta = None,
    method: Annotated[str, typer.Option(help="How to synthesize; `understudy methods` lists them.")] = "auto",
    who: Protected,
    copies: Annotated[
        str, typer.Option(metavar="M1,M2,...", help="Numbers of copies to compare, where copies split the budget.")
    ] = "1,2,5,10",
    rows: CopyRows = None,
    options: MethodOptions = None,
    family: Annotated[str | None, typer.Option(help="Family of a regression.", rich_help_panel=QUESTION)] = None,
    event: Annotated[
        str | None, typer.Option(help="The level a logistic regression is about.", rich_help_panel=QUESTION)
    ] = None,
    where: Annotated[str | None, typer.Option(help="A subgroup.", rich_help_panel=QUESTION)] = None,
    level: Annotated[float, typer.Option(help="Level of the intervals.", rich_help_panel=QUESTION)] = 0.95,
    target: Annotated[
        float,
        typer.Option(help="Find the epsilon that keeps intervals within so many times the real data's width."),
    ] = 1.5,
    guess: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ATTRIBUTE=S1,S2,...",
            help="Shares of an attribute's levels, in the order of the schema; may be repeated.",
            show_default="drawn anew for each rehearsal",
            rich_help_panel=PEOPLE,
        ),
    ] = None,
    on: LookAlike = None,
    keys: Keys = "",
    targets: Targets = "",
    repeats: Annotated[int, typer.Option(help="Rehearsed releases for each number that is not exact.")] = 20,
    plot: PlotFile = None,
    as_json: AsJson = False,
) -> None:
    """Say what an epsilon will buy analysts and tell an attacker, before a release and from public facts only.

    Example: `understudy advise 'proportion(smokes == "yes")' --schema people.toml --records 20000 --plot advice.svg`

    The release is rehearsed on people who do not exist: drawn from --guess, or from a public look-alike (--on), which
    also gives replicated uniques and DiSCO. There is no argument for confidential data, and nothing is charged.
    """
    public = us.read_schema(schema)
    settings: dict[str, Any] = dict(read_method_options(options))
    if (question is None) == (accuracy is None):
        raise InputError("say what analysts will ask: QUESTION, or --for 'QUESTION within 3%'; one of them.")
    if accuracy is not None and " within " not in accuracy:
        raise InputError(f"--for {accuracy!r} must say how exact: 'mean(income) within 3%'.")
    with working("rehearsing") as progress:
        advice = us.advise(
            public,
            question or accuracy or "",
            records=records,
            epsilons=read_list(epsilon, "--epsilon"),
            delta=delta,
            method=method,
            unit=who.read() or "replace",
            copies=read_counts(copies, "--copies"),
            rows=rows,
            guess=read_guess(guess),
            on=files_of(on) if on else None,
            keys=read_names(keys),
            targets=read_names(targets),
            family=family,
            event=event,
            where=where,
            level=level,
            target=target,
            repeats=repeats,
            progress=progress,
            **settings,
        )
    document: dict[str, Any] = {}
    if plot is not None:
        document["plot"] = str(advice.curve().save(Path(plot)))
    if as_json:
        print_json({**advice.to_json(), **document})
        return
    _show_advice(advice)
    if plot is not None:
        say(f"Figure written to {document['plot']}")


def read_list(text: str, name: str) -> list[str]:
    """Numbers separated by commas, kept as the decimals they were written as."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise InputError(f"{name} ({text!r}) must be numbers such as 0.5,1,2.")
    return parts


def read_counts(text: str, name: str) -> list[int]:
    parts = read_list(text, name)
    if not all(part.isdecimal() and len(part) < 5 for part in parts):
        raise InputError(f"{name} ({text!r}) must be whole numbers such as 1,2,5.")
    return [int(part) for part in parts]


def read_guess(texts: Sequence[str] | None) -> dict[str, list[str]]:
    """Guesses such as smokes=0.75,0.25."""
    found: dict[str, list[str]] = {}
    for text in texts or ():
        name, separator, shares = text.partition("=")
        if not separator or not name.strip():
            raise InputError(f"--guess {text!r} must look like attribute=0.75,0.25.")
        if name.strip() in found:
            raise InputError(f"--guess {name.strip()} was given twice.")
        found[name.strip()] = read_list(shares, f"--guess {name.strip()}")
    return found


def _show_advice(advice: Advice) -> None:
    say(f"Advice: {advice.question}", style="bold")
    show_facts([("method", advice.method), ("unit", advice.unit), ("delta", advice.delta or 0.0)])
    for line in advice.lines:
        say(line)
    rows = advice.table.to_pylist()
    _columns(
        "What an analyst gets",
        rows,
        {"epsilon": "epsilon", "best_copies": "best copies", "quantity": "quantity", "width": "width",
         "real_width": "real data's", "ratio": "ratio", "ratio_low": "from", "ratio_high": "to"},
    )  # fmt: skip
    _columns(
        "What an attacker with every record but one gets, and classical measures",
        rows,
        {"epsilon": "epsilon", "odds": "odds", "belief_from_0.01": "from 0.01", "belief_from_0.1": "from 0.1",
         "guess_bound": "right guess", "guess_exact": "exactly", "cell_uncertainty": "cell differs", "repU": "repU %",
         "repU_null": "null", "DiSCO": "DiSCO %", "DiSCO_null": "null "},
    )  # fmt: skip
    best = advice.epsilon
    nearest = min(advice.rows, key=lambda row: abs(row.epsilon - (best if best is not None else 1.0)))
    say(nearest.attacker.words)


def _columns(heading: str, rows: Sequence[dict[str, Any]], columns: dict[str, str]) -> None:
    shown = {key: title for key, title in columns.items() if key in rows[0]}
    table = [[f"{row[key]:.4g}" if isinstance(row[key], float) else row[key] for key in shown] for row in rows]
    show_table(heading, list(shown.values()), table, right=[title for key, title in shown.items() if key != "quantity"])


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
    _show_tradeoff(result)
    if out is not None:
        say(f"All tables and the figure are in {out}")
    if plot is not None:
        say(f"Figure written to {plot}")


def _show_tradeoff(result: Tradeoff) -> None:
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
