"""Commands that make a release: plan it, run it, finish it after a crash."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import understudy as us
from understudy import api
from understudy.api import Definition
from understudy.cli.bundles import Budget, Cluster, Identified, Reading, bundled
from understudy.cli.options import (
    RESULT,
    AsJson,
    Copies,
    DataOrTable,
    IKnow,
    Method,
    MethodOptions,
    Rows,
    files_of,
    read_method_options,
)
from understudy.cli.output import print_json, say, working
from understudy.cli.show import plan_document, release_document, show_plan, show_release
from understudy.core.folders import explained_disk_errors, output_path
from understudy.core.places import Places
from understudy.core.schema import Schema
from understudy.errors import InputError

OptionalSchema = Annotated[Path | None, typer.Option("--schema", help="The public schema (TOML).", show_default=False)]
PlacesFile = Annotated[
    Path | None,
    typer.Option("--places", help="For commutes: the public places (id, latitude, longitude, area_*, population)."),
]
Out = Annotated[
    Path, typer.Option("--out", help="The release folder to make.", rich_help_panel=RESULT, show_default=False)
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a release folder.", rich_help_panel=RESULT)]
Csv = Annotated[bool, typer.Option("--csv", help="Write CSV beside Parquet.", rich_help_panel=RESULT)]
LedgerPath = Annotated[Path | None, typer.Option("--ledger", help="The ledger that pays for the run.")]
AccountName = Annotated[str | None, typer.Option("--account", help="The account of that ledger.")]


def _request(
    *,
    method: str | None,
    budget: Definition | None,
    unit: us.Unit | None,
    copies: int | None,
    rows: int | None,
    option: list[str] | None,
) -> dict[str, Any]:
    """What was asked for, under the names of ``api.plan``; whatever was not said is left out."""
    asked = {
        "budget": budget,
        "method": method,
        "unit": unit,
        "copies": copies,
        "rows": rows,
    }
    options = read_method_options(option)
    for name in options:
        if name in (*asked, "records", "schema"):
            raise InputError(f"--option {name} is not a setting of a method; say --{name}.")
    return {name: value for name, value in asked.items() if value is not None} | options


@bundled
def plan(
    *,
    schema: OptionalSchema = None,
    places: PlacesFile = None,
    method: Method = None,
    budget: Budget,
    i_know: IKnow = False,
    who: Identified,
    copies: Copies = None,
    rows: Rows = None,
    records: Annotated[
        int | None, typer.Option(help="Rows of the confidential table, where that number is public and needed.")
    ] = None,
    option: MethodOptions = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the plan to this TOML file.", rich_help_panel=RESULT)
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace that file.", rich_help_panel=RESULT)] = False,
    as_json: AsJson = False,
) -> None:
    """Say what a release will cost and what noise it will add, without touching data.

    Example: `understudy plan --schema people.toml --epsilon 1 --out plan.toml`

    The file can be reviewed and then run exactly as it is: `understudy synthesize people.parquet --schema
    people.toml --plan plan.toml --out release/`
    """
    asked = _request(method=method, budget=budget.read(), unit=who.read(), copies=copies, rows=rows, option=option)
    public = _domain(schema, places)
    made = us.plan(public, records=records, i_know=i_know, **asked)
    advice = us.plan_advice(made, public)
    if out is not None:
        _write_text(out, us.write_plan(made), overwrite=overwrite)
    if as_json:
        print_json({**plan_document(made), "advice": list(advice)})
        return
    show_plan(made)
    for text in advice:
        say(text)
    if out is not None:
        say(f"Written to {out}")


def _write_text(path: Path, text: str, *, overwrite: bool) -> None:
    """A file that appears whole; an existing one is refused unless told otherwise."""
    target = output_path(path)
    if target.is_dir():
        raise InputError(f"{path} is a folder; name a file for the plan.")
    if not target.parent.is_dir():
        raise InputError(f"{path} cannot be written: the folder {target.parent} does not exist; create it first.")
    with explained_disk_errors(path):
        if overwrite:
            partial = target.with_name(f"{target.name}.partial")
            partial.write_text(text, encoding="utf-8")
            partial.replace(target)
            return
        try:
            with target.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            raise InputError(f"{path} already exists; choose another name, or say --overwrite.") from None


@bundled
def synthesize(
    *,
    data: DataOrTable = None,
    schema: OptionalSchema = None,
    places: PlacesFile = None,
    out: Out,
    method: Method = None,
    budget: Budget,
    i_know: IKnow = False,
    who: Identified,
    copies: Copies = None,
    rows: Rows = None,
    option: MethodOptions = None,
    plan_file: Annotated[
        Path | None, typer.Option("--plan", help="Run exactly this reviewed plan; it settles method, budget and unit.")
    ] = None,
    ledger: LedgerPath = None,
    account: AccountName = None,
    overwrite: Overwrite = False,
    csv: Csv = False,
    reading: Reading,
    cluster: Cluster,
    as_json: AsJson = False,
) -> None:
    """Make a synthetic release of a confidential table.

    Example: `understudy synthesize people.parquet --schema people.toml --epsilon 1 --ledger budget.db --account
    people-2026 --out release/`

    --epsilon and --delta are the total guarantee of the release, all copies included. The whole plan is charged to the
    account before the first draw; if the account does not allow it the exit code is 3, nothing is charged and nothing
    is drawn.

    Commutes: `understudy synthesize od.parquet --method commute --places places.parquet --guarantee approx --epsilon
    8.6 --delta 1e-5 --out release/`. Without --unit the destination is fixed and the unit is a job.
    """
    target = output_path(out)
    spending = budget.read() if plan_file is None else budget.read_if_given()
    asked = _request(method=method, budget=spending, unit=who.read(), copies=copies, rows=rows, option=option)
    public = _domain(schema, places)
    agreed = None if plan_file is None else _agreed_plan(plan_file, asked)
    if not data and cluster.engine != "spark":
        raise InputError("name the data: files, or a quoted glob.")
    with working("reading and measuring") as progress:
        release = us.synthesize(
            files_of(data) if data else None, schema=public, reading={**reading.options(), **cluster.options()},
            plan=agreed, ledger=ledger, account=account, out=target, overwrite=overwrite, csv=csv, progress=progress,
            i_know=i_know, **asked,
        )  # fmt: skip
    if as_json:
        print_json(release_document(release, out))
    else:
        show_release(release, out)


def _domain(schema: Path | None, places: Path | None) -> Schema | Places:
    """The public domain: a schema for tables, places for commutes."""
    if (schema is None) == (places is None):
        raise InputError("give the public domain: --schema FILE for a table, or --places FILE for commutes.")
    return us.read_schema(schema) if schema is not None else us.read_places(places)


def _agreed_plan(file: Path, asked: dict[str, Any]) -> us.Plan:
    if asked:
        given = ", ".join(f"--{name.replace('_', '-')}" for name in asked)
        raise InputError(f"--plan settles everything; leave out what else was given ({given}).")
    return us.read_plan(file)


@bundled
def resume(
    *,
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The folder NAME.partial-... that the run left.", show_default=False)
    ],
    data: Annotated[
        list[str] | None,
        typer.Option("--source", help="The same data again, if the run died before all was measured; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The release folder.", show_default="the one the run was started with")
    ] = None,
    reading: Reading,
    places: PlacesFile = None,
    cluster: Cluster,
    as_json: AsJson = False,
) -> None:
    """Finish a run that died after it was charged, without a new charge.

    Example: `understudy resume release.partial-0f3a9c52d1e84b67`

    Values that were measured before are never drawn again. The data are needed only if not everything was measured.
    """
    stated = api.stated_by_run(run)
    target = stated.out if out is None else output_path(out)
    if target is None:
        raise InputError(f"the run in {run} was started without a release folder; say where it goes with --out.")
    how = {**reading.options(), **cluster.options(), "unit_id": stated.unit_id}
    with working("resuming") as progress:
        in_catalogue: list[str] | None = [] if cluster.engine == "spark" and (reading.table or reading.query) else None
        release = us.resume(
            run, source=files_of(data) if data else in_catalogue, places=places, out=target, progress=progress,
            **how,
        )  # fmt: skip
    if as_json:
        print_json(release_document(release, out or target))
    else:
        show_release(release, out or target)
