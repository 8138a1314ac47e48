"""The demonstrations: a generated population and a ledger that refuses a second release; a city and its map."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy import api
from understudy.cli import demo_commute, demo_people
from understudy.cli.options import AsJson
from understudy.cli.output import print_json, say
from understudy.core.folders import MayReplace, explained_disk_errors, output_path, set_aside
from understudy.errors import InputError, unknown_name

MARK = "ABOUT.txt"
ABOUT = """\
Made by `understudy demo`. confidential/ plays the table that never leaves the building (nobody in it exists);
release/ is what may leave; budget.db is the ledger. The folder can be deleted.
"""
STORIES = ("people", "commute", "all")


def demo(
    *,
    story: Annotated[str, typer.Argument(metavar="[people|commute|all]", help="What is shown.")] = STORIES[0],
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

    `understudy demo commute` generates the jobs of a city instead, releases them and draws the map. `understudy demo
    all` tells the whole story: the release is also measured, attacked, asked and put on a page for a review board, and
    the city follows.

    Everything is made in one folder; nothing else is touched. The commands it shows can be typed by hand.
    """
    if story not in STORIES:
        raise unknown_name("demonstration", story, STORIES)
    folder = output_path(out)
    made: dict[str, Any] = {"folder": str(out)}
    with set_aside(folder, require_demonstration if overwrite else None), _quiet(as_json):
        if story in ("people", "all"):
            _begin(folder, out)
            made |= _people(folder, out, rows or demo_people.PEOPLE, judged=story == "all")
        if story == "commute":
            _begin(folder, out)
            made |= _commutes(folder, out, rows or demo_commute.JOBS)
        if story == "all":
            _begin(folder / "commute", out / "commute")
            made["commute"] = _commutes(folder / "commute", out / "commute", rows or demo_commute.JOBS)
        say()
        say("Look at it:", style="bold")
        if story != "commute":
            demo_people.point_out(folder, out)
        if story != "people":
            demo_commute.point_out(out / "commute" if story == "all" else out)
    if as_json:
        print_json(made)


def _begin(folder: Path, out: Path) -> None:
    with explained_disk_errors(out):
        (folder / "confidential").mkdir(parents=True)
        (folder / MARK).write_text(ABOUT, encoding="utf-8")


def _people(folder: Path, out: Path, rows: int, *, judged: bool) -> dict[str, Any]:
    with explained_disk_errors(out):
        schema = demo_people.prepare(folder, rows)
    with contextlib.chdir(folder):
        demo_people.introduce(out, rows)
        refusal = demo_people.release_and_refuse(schema)
        if judged:
            demo_people.judge(Path("release"))
    return {"rows": rows, "release": str(out / "release"), "refused": refusal}


def _commutes(folder: Path, out: Path, jobs: int) -> dict[str, Any]:
    with explained_disk_errors(out):
        world = demo_commute.prepare(folder, jobs)
    with contextlib.chdir(folder):
        say()
        say(f"A city of {len(world.places):,} places and {jobs:,} jobs that do not exist, in {out}", style="bold")
        demo_commute.tell(world)
    return {"jobs": jobs, "release": str(out / "release"), "map": str(out / "map.html")}


@contextlib.contextmanager
def _quiet(silent: bool) -> Iterator[None]:
    """With --json the story is told to nobody: standard output belongs to the document."""
    target: Any = contextlib.redirect_stdout(io.StringIO()) if silent else contextlib.nullcontext()
    with target:
        yield


def require_demonstration(folder: Path) -> None:
    """Refuses to have a folder deleted in which there is anything that no demonstration makes."""
    mark = folder / MARK
    if mark.is_symlink() or not mark.is_file() or mark.read_bytes() != ABOUT.encode():
        raise InputError(f"{folder} was not made by `understudy demo`, so it is not replaced; choose another --out.")
    made = {MARK, *demo_people.MADE, *demo_commute.MADE}
    whole: dict[str, MayReplace] = {"release": api.require_replaceable}
    if os.path.lexists(folder / "commute"):
        whole["commute"] = require_demonstration
    for parent, folders, files in os.walk(folder):
        inside = Path(parent).relative_to(folder)
        for name in sorted((*folders, *files)):
            path, known = Path(parent, name), (inside / name).as_posix()
            if known in whole and name in folders and not path.is_symlink():
                whole[known](path)
                folders.remove(name)
            elif path.is_symlink() or not (
                known in made if name in files else any(one.startswith(f"{known}/") for one in made)
            ):
                raise InputError(
                    f"{folder} holds '{known}', which no demonstration makes, so it is not replaced; move it, or "
                    "choose another --out."
                )
