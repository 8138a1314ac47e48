"""Commands that make a release: plan it, run it, finish it after a crash."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import understudy as us
from understudy import api
from understudy.api import Definition
from understudy.cli.bundles import Budget, Cluster, OfRelease, Reading, bundled
from understudy.cli.options import (
    RESULT,
    AsJson,
    Copies,
    DataOrTable,
    IKnow,
    Method,
    MethodOptions,
    Must,
    Rows,
    Sdc,
    files_of,
    read_method_options,
)
from understudy.cli.output import print_json, say, show_facts, show_table, working
from understudy.core.folders import explained_disk_errors, output_path
from understudy.core.linked_schema import LinkedSchema
from understudy.core.places import Places
from understudy.core.schema import Schema
from understudy.errors import InputError

MOST_LISTED = 12  # tables in a note on the screen

if TYPE_CHECKING:
    from understudy.privacy.promise.plan import Plan
    from understudy.release.kind import AnyRelease

OptionalSchema = Annotated[Path | None, typer.Option("--schema", help="The public schema (TOML).", show_default=False)]
PlacesFile = Annotated[
    Path | None,
    typer.Option("--places", help="For commutes: the public places (id, latitude, longitude, area_*, population)."),
]
Outside = Annotated[
    str | None,
    typer.Option(
        "--outside", metavar="state", help="For commutes: other states are homes too, as in a LODES aux file."
    ),
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
    unit: us.Unit | str | None,
    copies: int | None,
    rows: int | None,
    must: Path | None,
    option: list[str] | None,
    sdc: bool = False,
) -> dict[str, Any]:
    """What was asked for, under the names of ``api.plan``; whatever was not said is left out."""
    asked = {
        "budget": budget,
        "method": method,
        "unit": unit,
        "copies": copies,
        "rows": rows,
        "must": None if must is None else api.read_must(must),
    }
    options = read_method_options(option) | ({"sdc": "uniques"} if sdc else {})
    for name in options:
        if name in (*asked, "records", "schema"):
            raise InputError(f"--option {name} is not a setting of a method; say --{name}.")
    return {name: value for name, value in asked.items() if value is not None} | options


@bundled
def plan(
    *,
    schema: OptionalSchema = None,
    places: PlacesFile = None,
    outside: Outside = None,
    method: Method = None,
    budget: Budget,
    i_know: IKnow = False,
    who: OfRelease,
    copies: Copies = None,
    rows: Rows = None,
    must: Must = None,
    records: Annotated[
        int | None, typer.Option(help="Rows of the confidential table, where that number is public and needed.")
    ] = None,
    option: MethodOptions = None,
    sdc: Sdc = False,
    criteria: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What you demand of the release (TOML); the report says what is met."),
    ] = None,
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
    asked = _request(method=method, budget=budget.read(), unit=who.of_linked() or who.read(), copies=copies, rows=rows,
                     must=must, option=option, sdc=sdc)  # fmt: skip
    public = _domain(schema, places, outside)
    demanded = None if criteria is None else api.read_criteria(criteria)
    made = us.plan(public, records=records, i_know=i_know, criteria=demanded, **asked)
    advice = us.plan_advice(made, public)
    if out is not None:
        _write_text(out, us.write_plan(made), overwrite=overwrite)
    if as_json:
        print_json({**plan_document(made), "advice": list(advice)})
        return
    show_plan(made)
    for text in advice:
        say(f"{text[:1].upper()}{text[1:].removesuffix('.')}.")
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
    outside: Outside = None,
    out: Out,
    method: Method = None,
    budget: Budget,
    i_know: IKnow = False,
    who: OfRelease,
    copies: Copies = None,
    rows: Rows = None,
    must: Must = None,
    option: MethodOptions = None,
    sdc: Sdc = False,
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
    8.6 --delta 1e-5 --out release/`. A state as LODES publishes it: `understudy synthesize dc_od_main_JT00_2019.csv.gz
    dc_od_aux_JT00_2019.csv.gz --places dc_xwalk.csv.gz --outside state --epsilon 2 --out release/`. Without --unit the
    destination is fixed and the unit is a job.

    Households: a schema with [[table]] reads one flat file, or two linked ones: `understudy synthesize
    households=h.csv persons=p.csv --schema homes.toml --unit household --epsilon 1 --delta 1e-6 --out release/`
    """
    target = output_path(out)
    spending = budget.read() if plan_file is None else budget.read_if_given()
    asked = _request(method=method, budget=spending, unit=who.of_linked() or who.read(), copies=copies, rows=rows,
                     must=must, option=option, sdc=sdc)  # fmt: skip
    public = _domain(schema, places, outside)
    agreed = None if plan_file is None else _agreed_plan(plan_file, asked)
    if not data and cluster.engine != "spark":
        raise InputError("name the data: files, or a quoted glob.")
    with working("reading and measuring") as progress:
        release: AnyRelease = us.synthesize(
            files_of(data) if data else None, schema=public, reading={**reading.options(), **cluster.options()},
            plan=agreed, ledger=ledger, account=account, out=target, overwrite=overwrite, csv=csv, progress=progress,
            i_know=i_know, **asked,
        )  # fmt: skip
    if as_json:
        print_json(release_document(release, out))
    else:
        show_release(release, out)


def _domain(schema: Path | None, places: Path | None, outside: str | None) -> Schema | LinkedSchema | Places:
    """The public domain: a schema for tables, places for commutes."""
    if (schema is None) == (places is None):
        raise InputError("give the public domain: --schema FILE for a table, or --places FILE for commutes.")
    if outside is not None and places is None:
        raise InputError("--outside is for commutes, and goes with --places.")
    return us.read_any_schema(schema) if schema is not None else us.read_places(places, outside=outside)


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
    outside: Outside = None,
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
    given = places if outside is None else _domain(None, places, outside)
    with working("resuming") as progress:
        in_catalogue: list[str] | None = [] if cluster.engine == "spark" and (reading.table or reading.query) else None
        release = us.resume(
            run, source=files_of(data) if data else in_catalogue, places=given, out=target, progress=progress,
            **how,
        )  # fmt: skip
    if as_json:
        print_json(release_document(release, out or target))
    else:
        show_release(release, out or target)


# How plans and releases look on the screen and in JSON.


def show_plan(plan: Plan) -> None:
    """What a run will cost and what noise it will add, for a review board."""
    say("Plan (made without touching data)", style="bold")
    show_facts(
        [
            ("method", plan.method),
            ("guarantee", str(plan.budget)),
            ("unit", plan.budget.protects(plan.unit, plan.record)),
            ("copies", plan.copies),
            ("synthetic rows", "chosen by the method" if plan.rows is None else plan.rows),
            ("options", ", ".join(f"{key} = {value}" for key, value in plan.options.items() if value != "") or "none"),
            ("criteria", ", ".join(f"{name} = {number:g}" for name, number in plan.criteria.items()) or "none"),
            ("hash", plan.hash),
        ]
    )
    show_table(
        "Steps",
        ("step", "action", "attributes", "cells", "noise sd", "times"),
        [
            (
                step.label,
                step.action,
                " x ".join(step.margin) or ("(total)" if step.cells else "(chosen during the run)"),
                step.cells or None,
                step.standard_deviation,
                f"up to {step.repeats}" if plan.adaptive else step.repeats,
            )
            for step in plan.steps
        ],
        right=("cells", "noise sd", "times"),
    )
    for note in plan.notes:
        say(note)


def plan_document(plan: Plan) -> dict[str, Any]:
    """The plan for ``--json``."""
    return {"hash": plan.hash, "plan": plan.to_json()}


def show_release(release: AnyRelease, folder: Path) -> None:
    """What was made, what it promises, what to do next."""
    statement = release.statement
    say(f"Release written to {folder}", style="bold")
    show_facts(
        [
            ("tables", ", ".join(f"{rows:,} rows" for rows in release.rows)),
            ("method", release.provenance.method),
            ("guarantee", "NO GUARANTEE" if statement.protects_nobody else str(statement.guarantee)),
            ("unit", statement.protected),
            *(("warning", warning) for warning in statement.warnings),
            ("account", "not tracked across runs" if statement.ledger is None else statement.ledger["account"]),
            *([("run", statement.ledger["run"])] if statement.ledger is not None else []),
            *(("note", on_screen(note, folder)) for note in release.provenance.notes),
        ]
    )
    say(f"Check it with: understudy verify {folder}")


def on_screen(note: str, folder: Path) -> str:
    """A note without most of a list of hundreds of tables, which the release's README holds."""
    listed = note.split("; ")
    if len(listed) <= MOST_LISTED:
        return note
    left = len(listed) - MOST_LISTED
    return f"{'; '.join(listed[:MOST_LISTED])}; and {left:,} more, all of them in {folder / 'README.md'}."


def release_document(release: AnyRelease, folder: Path) -> dict[str, Any]:
    """The release for ``--json``: what its manifest says, without opening it."""
    statement, provenance = release.statement, release.provenance
    return {
        "release": str(folder),
        "method": provenance.method,
        "guarantee": statement.guarantee.to_json(),
        "unit": statement.unit.to_json(),
        "ledger": {"tracked": False} if statement.ledger is None else {"tracked": True, **statement.ledger},
        "plan_hash": provenance.plan.hash if provenance.plan else None,
        "rows": list(release.rows),
        "warnings": list(statement.warnings),
        "notes": list(provenance.notes),
    }
