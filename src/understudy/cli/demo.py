"""The demonstrations: a generated population and a ledger that refuses a second release; a city and its map."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy import api
from understudy.cli import demo_commute
from understudy.cli import ledger as ledger_commands
from understudy.cli import release as release_commands
from understudy.cli import synthesize as synthesize_commands
from understudy.cli.options import AsJson, read_output_path
from understudy.cli.output import print_json, say, show_command, show_table, working
from understudy.core.folders import explained_disk_errors
from understudy.core.schema import Schema
from understudy.core.schema_file import write_schema
from understudy.errors import BudgetError, InputError, InternalError, unknown_name

MARK = "ABOUT.txt"
ABOUT = """\
Made by `understudy demo`. confidential/ plays the table that never leaves the building (nobody in it exists);
release/ is what may leave; budget.db is the ledger. The folder can be deleted.
"""
STORIES = ("people", "commute")
PEOPLE = 100_000
ACCOUNT, EPSILON = "people-2026", "1"
SHOWN_MARGIN = ("education", "smokes")


def demo(
    *,
    story: Annotated[str, typer.Argument(metavar="[people|commute]", help="What is released.")] = STORIES[0],
    out: Annotated[Path, typer.Option("--out", help="Folder for everything the demonstration makes.")] = Path(
        "demo-output"
    ),
    rows: Annotated[
        int | None,
        typer.Option(
            min=1, max=10_000_000, help="People or jobs to generate.", show_default="100000 people, 120000 jobs"
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier demonstration.")] = False,
    as_json: AsJson = False,
) -> None:
    """See it work: generate a population, plan, release, compare, and watch the ledger refuse a second release.

    Example: `understudy demo`

    `understudy demo commute` generates the jobs of a city instead, releases them and draws the map.

    Everything is made in one folder; nothing else is touched. The commands it shows can be typed by hand.
    """
    if story not in STORIES:
        raise unknown_name("demonstration", story, STORIES)
    folder = read_output_path(out)
    _clear(folder, overwrite=overwrite)
    with explained_disk_errors(out):
        (folder / "confidential").mkdir(parents=True)
        (folder / MARK).write_text(ABOUT, encoding="utf-8")
    if story == "commute":
        _commutes(folder, out, rows or demo_commute.JOBS, as_json=as_json)
    else:
        _people(folder, out, rows or PEOPLE, as_json=as_json)


def _commutes(folder: Path, out: Path, jobs: int, *, as_json: bool) -> None:
    with explained_disk_errors(out):
        world = demo_commute.prepare(folder, jobs)
    with _quiet(as_json), contextlib.chdir(folder):
        say(f"A city of {len(world.places):,} places and {jobs:,} jobs that do not exist, in {out}", style="bold")
        demo_commute.tell(world)
        demo_commute.point_out(out)
    if as_json:
        print_json({"folder": str(out), "jobs": jobs, "release": str(out / "release"), "map": str(out / "map.html")})


def _people(folder: Path, out: Path, rows: int, *, as_json: bool) -> None:
    from understudy.demo.people import make_people, small_schema

    with explained_disk_errors(out):
        schema = small_schema()
        (folder / "people.toml").write_text(write_schema(schema), encoding="utf-8")
        with working("generating a population"):
            from pyarrow import parquet

            parquet.write_table(make_people(rows), folder / "confidential" / "people.parquet")
    with _quiet(as_json), contextlib.chdir(folder):
        say(f"A population of {rows:,} people who do not exist, in {out}{os.sep}confidential", style="bold")
        refusal = _story(schema)
        say()
        say("Look at it:", style="bold")
        for name, what in (
            ("release/README.md", "what the release is and promises, for an analyst"),
            ("release/synthetic_1.parquet", "the synthetic table"),
            ("release/manifest.json", "the promise, the plan and the hashes, for a program"),
            ("plan.toml", "what a review board signs"),
        ):
            say(f"  {out / name}: {what}")
    if as_json:
        print_json({"folder": str(out), "rows": rows, "release": str(out / "release"), "refused": refusal})


def _story(schema: Schema) -> str:
    """The commands, one after the other, in the folder of the demonstration; gives back the refusal."""
    data, public, out, budget = "confidential/people.parquet", Path("people.toml"), Path("release"), Path("budget.db")
    show_command(f"ledger create budget.db --account {ACCOUNT} --epsilon {EPSILON}")
    ledger_commands.create(ledger=budget, account=ACCOUNT, epsilon=EPSILON)
    show_command(f"plan --schema people.toml --epsilon {EPSILON} --out plan.toml")
    synthesize_commands.plan(schema=public, epsilon=EPSILON, out=Path("plan.toml"))
    common = f"--ledger budget.db --account {ACCOUNT}"
    show_command(f"synthesize {data} --schema people.toml --plan plan.toml {common} --out release")
    synthesize_commands.synthesize(
        data=[data], schema=public, out=out, plan_file=Path("plan.toml"), ledger=budget, account=ACCOUNT
    )
    _compare(data, schema, out)
    show_command("verify release")
    release_commands.verify(folder=out)
    show_command(f"synthesize {data} --schema people.toml --epsilon 0.1 {common} --out second")
    try:
        synthesize_commands.synthesize(
            data=[data], schema=public, out=Path("second"), epsilon="0.1", ledger=budget, account=ACCOUNT
        )
    except BudgetError as refused:
        say(f"budget refused: {refused}", style="red")
        say("(exit code 3)")
        show_command("ledger show budget.db")
        ledger_commands.show(ledger=budget)
        return str(refused)
    raise InternalError("the ledger allowed a release beyond its limit.")


def _compare(data: str, schema: Schema, release: Path) -> None:
    from understudy.release.folder import read_release

    frame = read_release(release).frame()
    rows = frame.slice(0, 5).to_pylist()
    show_table("The first synthetic rows", schema.names, [tuple(row.values()) for row in rows])
    (true,) = api.open_source(data, schema).count([SHOWN_MARGIN])
    (made,) = api.open_source(frame, schema).count([SHOWN_MARGIN])
    lines = []
    for row, first in enumerate(schema[SHOWN_MARGIN[0]].code_names):
        for column, second in enumerate(schema[SHOWN_MARGIN[1]].code_names):
            pair = int(true.values[row, column]), int(made.values[row, column])
            lines.append((first, second, *pair, pair[1] - pair[0]))
    names = (*SHOWN_MARGIN, "confidential", "synthetic", "difference")
    show_table("INTERNAL: computed from confidential data, never published", names, lines, right=names[2:])


@contextlib.contextmanager
def _quiet(silent: bool) -> Iterator[None]:
    """With --json the story is told to nobody: standard output belongs to the document."""
    target: Any = contextlib.redirect_stdout(io.StringIO()) if silent else contextlib.nullcontext()
    with target:
        yield


def _clear(folder: Path, *, overwrite: bool) -> None:
    if not os.path.lexists(folder):
        return
    if not overwrite:
        raise InputError(f"{folder} already exists; choose another --out, or say --overwrite.")
    if folder.is_symlink() or not (folder / MARK).is_file() or (folder / MARK).read_text(encoding="utf-8") != ABOUT:
        raise InputError(f"{folder} was not made by `understudy demo`, so it is not replaced; choose another --out.")
    shutil.rmtree(folder)
