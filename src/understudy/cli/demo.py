"""The demonstrations: a generated population and a ledger that refuses a second release; a city and its map."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np
import typer

import understudy as us
from understudy import api
from understudy.cli import evaluate as evaluate_commands
from understudy.cli import infer as infer_commands
from understudy.cli import ledger as ledger_commands
from understudy.cli import release as release_commands
from understudy.cli import report as report_commands
from understudy.cli import serve as serve_commands
from understudy.cli import synthesize as synthesize_commands
from understudy.cli.options import AsJson
from understudy.cli.output import print_json, say, show_command, show_table, working
from understudy.core.folders import MayReplace, explained_disk_errors, output_path, set_aside
from understudy.core.schema import Schema
from understudy.errors import BudgetError, InputError, InternalError, unknown_name

if TYPE_CHECKING:
    from understudy.commutes.commute_release import CommuteRelease
    from understudy.demo.commuters import World


MARK = "ABOUT.txt"
ABOUT = """\
Made by `understudy demo`. confidential/ plays the table that never leaves the building (nobody in it exists);
release/ is what may leave; budget.db is the ledger. The folder can be deleted.
"""
STORIES = ("people", "commute", "all")
# The story of people.
PEOPLE = 100_000
PEOPLE_ACCOUNT, PEOPLE_EPSILON = "people-2026", "1"
SHOWN_MARGIN = ("education", "smokes")
PEOPLE_DATA, PEOPLE_SCHEMA = "confidential/people.parquet", Path("people.toml")
QUESTION, MODEL = "proportion(smokes == 'yes', where=age >= 45)", "smokes ~ age + sex"
CONFIRMED, WIDTH, CONFIRMED_PEOPLE = "proportion(smokes == 'yes', where=sex == 'F')", 0.07, 10_000
BOARD, LEAFLET = Path("internal/board.html"), Path("report.html")
MADE_OF_PEOPLE = frozenset(
    {PEOPLE_DATA, str(PEOPLE_SCHEMA), "budget.db", "plan.toml", str(BOARD), str(LEAFLET), "report-registry.json"}
)
# The story of commutes.
JOBS = 120_000
CITY_ACCOUNT, CITY_EPSILON, CITY_DELTA = "commutes-2026", "2", "1e-5"
CITY_DATA, CITY_PLACES = "confidential/jobs.parquet", "places.parquet"
MADE_OF_CITY = frozenset({CITY_DATA, CITY_PLACES, "budget.db", "map.html"})
WORKPLACE_SIZES = ((1, 4), (5, 19), (20, 99), (100, None))  # jobs


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
            made |= _people(folder, out, rows or PEOPLE, judged=story == "all")
        if story == "commute":
            _begin(folder, out)
            made |= _commutes(folder, out, rows or JOBS)
        if story == "all":
            _begin(folder / "commute", out / "commute")
            made["commute"] = _commutes(folder / "commute", out / "commute", rows or JOBS)
        if story == "all":
            _confirm()
        say()
        say("Look at it:", style="bold")
        if story != "commute":
            _point_out_people(folder, out)
        if story != "people":
            _point_out_city(out / "commute" if story == "all" else out)
    if as_json:
        print_json(made)


def _confirm() -> None:
    """One answer that a validation server confirmed on the data, in a folder of its own."""
    say()
    say("A validation server: the release for free, the data for a price", style="bold")
    show_command(f'ask --server URL "{CONFIRMED}" --width {WIDTH} --confirm')
    if not serve_commands.tell_confirmation(CONFIRMED_PEOPLE, CONFIRMED, WIDTH):
        say("It is left out: it needs pip install 'understudy[serve]'.")


def _begin(folder: Path, out: Path) -> None:
    with explained_disk_errors(out):
        (folder / "confidential").mkdir(parents=True)
        (folder / MARK).write_text(ABOUT, encoding="utf-8")


def _people(folder: Path, out: Path, rows: int, *, judged: bool) -> dict[str, Any]:
    with explained_disk_errors(out):
        schema = _prepare_people(folder, rows)
    with contextlib.chdir(folder):
        say(f"A population of {rows:,} people who do not exist, in {out}{os.sep}confidential", style="bold")
        refusal = _release_and_refuse(schema)
        if judged:
            _judge(Path("release"))
    return {"rows": rows, "release": str(out / "release"), "refused": refusal}


def _commutes(folder: Path, out: Path, jobs: int) -> dict[str, Any]:
    with explained_disk_errors(out):
        world = _prepare_city(folder, jobs)
    with contextlib.chdir(folder):
        say()
        say(f"A city of {len(world.places):,} places and {jobs:,} jobs that do not exist, in {out}", style="bold")
        _tell_city(world)
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
    made = {MARK, *MADE_OF_PEOPLE, *MADE_OF_CITY}
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


def _prepare_people(folder: Path, rows: int) -> Schema:
    """Writes the files the story begins with."""
    from pyarrow import parquet

    from understudy.demo.people import make_people, small_schema

    schema = small_schema()
    (folder / PEOPLE_SCHEMA).write_text(us.write_schema(schema), encoding="utf-8")
    with working("generating a population"):
        parquet.write_table(make_people(rows), folder / PEOPLE_DATA)
    return schema


def _release_and_refuse(schema: Schema) -> str:
    """The commands, one after the other, in the folder of the demonstration; gives back the refusal."""
    out, budget = Path("release"), Path("budget.db")
    show_command(f"ledger create budget.db --account {PEOPLE_ACCOUNT} --epsilon {PEOPLE_EPSILON}")
    ledger_commands.create(ledger=budget, account=PEOPLE_ACCOUNT, epsilon=PEOPLE_EPSILON)
    show_command(f"plan --schema people.toml --epsilon {PEOPLE_EPSILON} --out plan.toml")
    synthesize_commands.plan(schema=PEOPLE_SCHEMA, epsilon=PEOPLE_EPSILON, out=Path("plan.toml"))
    common = f"--ledger budget.db --account {PEOPLE_ACCOUNT}"
    show_command(f"synthesize {PEOPLE_DATA} --schema people.toml --plan plan.toml {common} --out release")
    synthesize_commands.synthesize(
        data=[PEOPLE_DATA],
        schema=PEOPLE_SCHEMA,
        out=out,
        plan_file=Path("plan.toml"),
        ledger=budget,
        account=PEOPLE_ACCOUNT,
    )
    _compare_people(schema, out)
    show_command("verify release")
    release_commands.verify(folder=out)
    show_command(f"synthesize {PEOPLE_DATA} --schema people.toml --epsilon 0.1 {common} --out second")
    try:
        synthesize_commands.synthesize(
            data=[PEOPLE_DATA],
            schema=PEOPLE_SCHEMA,
            out=Path("second"),
            epsilon="0.1",
            ledger=budget,
            account=PEOPLE_ACCOUNT,
        )
    except BudgetError as refused:
        say(f"budget refused: {refused}", style="red")
        say("(exit code 3)")
        show_command("ledger show budget.db")
        ledger_commands.show(ledger=budget)
        return str(refused)
    raise InternalError("the ledger allowed a release beyond its limit.")


def _compare_people(schema: Schema, release: Path) -> None:
    frame = us.read_release(release).frame()
    rows = frame.slice(0, 5).to_pylist()
    show_table("The first synthetic rows", schema.names, [tuple(row.values()) for row in rows])
    (true,) = us.open_source(PEOPLE_DATA, schema).count([SHOWN_MARGIN])
    (made,) = us.open_source(frame, schema).count([SHOWN_MARGIN])
    lines = []
    for row, first in enumerate(schema[SHOWN_MARGIN[0]].code_names):
        for column, second in enumerate(schema[SHOWN_MARGIN[1]].code_names):
            pair = int(true.values[row, column]), int(made.values[row, column])
            lines.append((first, second, *pair, pair[1] - pair[0]))
    names = (*SHOWN_MARGIN, "confidential", "synthetic", "difference")
    show_table("INTERNAL: computed from confidential data, never published", names, lines, right=names[2:])


def _judge(release: Path) -> None:
    """Measure, attack, ask, and put it on one page for the board and on one for everybody."""
    made = us.read_release(release)
    show_command(f"evaluate release --confidential {PEOPLE_DATA} --model '{MODEL}'")
    with working("evaluating and attacking") as progress:
        people = us.open_source(PEOPLE_DATA, us.read_schema(PEOPLE_SCHEMA))
        result = us.evaluate(made, people, models=[MODEL], ways=(1, 2, 3), progress=progress)
    evaluate_commands.show_evaluation("release", made, result)
    show_command(f'infer release "{QUESTION}"')
    infer_commands.infer(folder=release, question=[QUESTION])
    if importlib.util.find_spec("matplotlib") is None or importlib.util.find_spec("jinja2") is None:
        say("The reports are left out: they need pip install 'understudy[report]'.")
        return
    answer = us.infer(made, QUESTION)
    BOARD.parent.mkdir()
    show_command(f'report release --confidential {PEOPLE_DATA} --model "{MODEL}" --question "{QUESTION}" --to {BOARD}')
    with working("writing"):
        us.report(made, result, answer, audience="internal", to=BOARD)
    show_command(f'report release --question "{QUESTION}" --to {LEAFLET}')
    with working("writing"):
        us.report(made, answer, audience="public", to=LEAFLET)


def _point_out_people(folder: Path, out: Path) -> None:
    """What to look at, if it was made."""
    for name, what in (
        (BOARD, "INTERNAL: the whole case for a review board; open it in a browser"),
        (LEAFLET, "what anybody may know about the release; open it in a browser"),
        ("release/README.md", "what the release is and promises, for an analyst"),
        ("release/synthetic_1.parquet", "the synthetic table"),
        ("release/manifest.json", "the promise, the plan and the hashes, for a program"),
        ("plan.toml", "what a review board signs"),
    ):
        if (folder / name).exists():
            say(f"  {out / name}: {what}")


def _prepare_city(folder: Path, jobs: int) -> World:
    """Writes the files the story begins with."""
    from pyarrow import parquet

    from understudy.demo.commuters import make_world

    with working("generating a city"):
        world = make_world("city", jobs=jobs)
        parquet.write_table(world.places_table(), folder / CITY_PLACES)
        parquet.write_table(world.flows_table(), folder / CITY_DATA)
    return world


def _tell_city(world: World) -> None:
    """The commands, one after the other, in the folder of the demonstration."""
    places = Path(CITY_PLACES)
    asked = f"--epsilon {CITY_EPSILON} --delta {CITY_DELTA}"
    show_command(f"ledger create budget.db --account {CITY_ACCOUNT} {asked} --fixed destination")
    ledger_commands.create(
        ledger=Path("budget.db"), account=CITY_ACCOUNT, epsilon=CITY_EPSILON, delta=CITY_DELTA, fixed="destination"
    )
    budget = f"{asked} --ledger budget.db --account {CITY_ACCOUNT}"
    show_command(f"synthesize {CITY_DATA} --method commute --places {CITY_PLACES} {budget} --out release")
    synthesize_commands.synthesize(
        data=[CITY_DATA],
        places=places,
        method="commute",
        epsilon=CITY_EPSILON,
        delta=CITY_DELTA,
        ledger=Path("budget.db"),
        account=CITY_ACCOUNT,
        out=Path("release"),
    )
    _compare_city(world)
    show_command("map release --out map.html")
    report_commands.draw_map(folder=Path("release"), out=Path("map.html"))


def _compare_city(world: World) -> None:
    """The average commute by the size of the workplace: what the release keeps, and what small workplaces lose."""
    parts = list(world.codes())
    true = tuple(np.concatenate([part[number] for part in parts]) for number in range(3))
    made = cast("CommuteRelease", us.read_release("release")).coded()
    sizes = world.jobs
    lines = []
    for least, most in WORKPLACE_SIZES:
        inside = (sizes >= least) & (sizes <= (most or sizes.max()))
        means = []
        for origin, destination, jobs in (true, made):
            keep = inside[destination] & (origin >= 0)
            miles = world.places.miles(origin[keep], destination[keep])
            means.append(float(np.average(miles, weights=jobs[keep])) if keep.any() else float("nan"))
        label = f"{least}-{most}" if most else f"{least} and more"
        lines.append((label, int(inside.sum()), *(f"{mean:.2f}" for mean in means)))
    names = ("jobs at the workplace", "workplaces", "mean miles, confidential", "mean miles, synthetic")
    show_table("INTERNAL: computed from confidential data, never published", names, lines, right=names[1:])


def _point_out_city(out: Path) -> None:
    """What to look at."""
    for name, what in (
        ("map.html", "where the workers of any place live; open it in a browser, it needs no network"),
        ("release/README.md", "what the release is and promises, for an analyst"),
        ("release/synthetic_1.parquet", "the synthetic jobs"),
    ):
        say(f"  {out / name}: {what}")
