"""The demonstration: a generated population, a release, and a ledger that refuses the second one."""

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
from understudy.cli import ledger as ledger_commands
from understudy.cli import release as release_commands
from understudy.cli import synthesize as synthesize_commands
from understudy.cli.options import AsJson, read_output_path
from understudy.cli.output import print_json, say, show_table, working
from understudy.core.folders import explained_disk_errors
from understudy.core.schema import Schema
from understudy.core.schema_file import write_schema
from understudy.errors import BudgetError, InputError, InternalError

MARK = "ABOUT.txt"
ABOUT = """\
Made by `understudy demo`. confidential/ plays the table that never leaves the building (nobody in it exists);
release/ is what may leave; budget.db is the ledger. The folder can be deleted.
"""
ACCOUNT, EPSILON = "people-2026", "1"
SHOWN_MARGIN = ("education", "smokes")


def demo(
    *,
    out: Annotated[Path, typer.Option("--out", help="Folder for everything the demonstration makes.")] = Path(
        "demo-output"
    ),
    rows: Annotated[int, typer.Option(min=1, max=10_000_000, help="People in the generated population.")] = 100_000,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier demonstration.")] = False,
    as_json: AsJson = False,
) -> None:
    """See it work: generate a population, plan, release, compare, and watch the ledger refuse a second release.

    Example: `understudy demo`

    Everything is made in one folder; nothing else is touched. The commands it shows can be typed by hand.
    """
    from understudy.demo.people import make_people, small_schema

    folder = read_output_path(out)
    _clear(folder, overwrite=overwrite)
    with explained_disk_errors(out):
        (folder / "confidential").mkdir(parents=True)
        (folder / MARK).write_text(ABOUT, encoding="utf-8")
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
    _typed(f"ledger create budget.db --account {ACCOUNT} --epsilon {EPSILON}")
    ledger_commands.create(ledger=budget, account=ACCOUNT, epsilon=EPSILON)
    _typed(f"plan --schema people.toml --epsilon {EPSILON} --out plan.toml")
    synthesize_commands.plan(schema=public, epsilon=EPSILON, out=Path("plan.toml"))
    common = f"--ledger budget.db --account {ACCOUNT}"
    _typed(f"synthesize {data} --schema people.toml --plan plan.toml {common} --out release")
    synthesize_commands.synthesize(
        data=[data], schema=public, out=out, plan_file=Path("plan.toml"), ledger=budget, account=ACCOUNT
    )
    _compare(data, schema, out)
    _typed("verify release")
    release_commands.verify(folder=out)
    _typed(f"synthesize {data} --schema people.toml --epsilon 0.1 {common} --out second")
    try:
        synthesize_commands.synthesize(
            data=[data], schema=public, out=Path("second"), epsilon="0.1", ledger=budget, account=ACCOUNT
        )
    except BudgetError as refused:
        say(f"budget refused: {refused}", style="red")
        say("(exit code 3)")
        _typed("ledger show budget.db")
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


def _typed(command: str) -> None:
    say()
    say(f"$ understudy {command}", style="bold cyan")


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
