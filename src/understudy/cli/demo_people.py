"""The demonstration of people: a generated population, its release, a refusal, and what a board and an analyst see."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import understudy as us
from understudy.cli import evaluate as evaluate_commands
from understudy.cli import infer as infer_commands
from understudy.cli import ledger as ledger_commands
from understudy.cli import release as release_commands
from understudy.cli import synthesize as synthesize_commands
from understudy.cli.output import say, show_command, show_table, working
from understudy.core.schema import Schema
from understudy.errors import BudgetError, InternalError

PEOPLE = 100_000
ACCOUNT, EPSILON = "people-2026", "1"
SHOWN_MARGIN = ("education", "smokes")
DATA, PUBLIC = "confidential/people.parquet", Path("people.toml")
QUESTION, MODEL = "proportion(smokes == 'yes', where=age >= 45)", "smokes ~ age + sex"
BOARD, LEAFLET = Path("internal/board.html"), Path("report.html")
MADE = frozenset({DATA, str(PUBLIC), "budget.db", "plan.toml", str(BOARD), str(LEAFLET), "report-registry.json"})


def prepare(folder: Path, rows: int) -> Schema:
    """Writes the files the story begins with."""
    from pyarrow import parquet

    from understudy.demo.people import make_people, small_schema

    schema = small_schema()
    (folder / PUBLIC).write_text(us.write_schema(schema), encoding="utf-8")
    with working("generating a population"):
        parquet.write_table(make_people(rows), folder / DATA)
    return schema


def introduce(out: Path, rows: int) -> None:
    say(f"A population of {rows:,} people who do not exist, in {out}{os.sep}confidential", style="bold")


def release_and_refuse(schema: Schema) -> str:
    """The commands, one after the other, in the folder of the demonstration; gives back the refusal."""
    out, budget = Path("release"), Path("budget.db")
    show_command(f"ledger create budget.db --account {ACCOUNT} --epsilon {EPSILON}")
    ledger_commands.create(ledger=budget, account=ACCOUNT, epsilon=EPSILON)
    show_command(f"plan --schema people.toml --epsilon {EPSILON} --out plan.toml")
    synthesize_commands.plan(schema=PUBLIC, epsilon=EPSILON, out=Path("plan.toml"))
    common = f"--ledger budget.db --account {ACCOUNT}"
    show_command(f"synthesize {DATA} --schema people.toml --plan plan.toml {common} --out release")
    synthesize_commands.synthesize(
        data=[DATA], schema=PUBLIC, out=out, plan_file=Path("plan.toml"), ledger=budget, account=ACCOUNT
    )
    _compare(schema, out)
    show_command("verify release")
    release_commands.verify(folder=out)
    show_command(f"synthesize {DATA} --schema people.toml --epsilon 0.1 {common} --out second")
    try:
        synthesize_commands.synthesize(
            data=[DATA], schema=PUBLIC, out=Path("second"), epsilon="0.1", ledger=budget, account=ACCOUNT
        )
    except BudgetError as refused:
        say(f"budget refused: {refused}", style="red")
        say("(exit code 3)")
        show_command("ledger show budget.db")
        ledger_commands.show(ledger=budget)
        return str(refused)
    raise InternalError("the ledger allowed a release beyond its limit.")


def _compare(schema: Schema, release: Path) -> None:
    frame = us.read_release(release).frame()
    rows = frame.slice(0, 5).to_pylist()
    show_table("The first synthetic rows", schema.names, [tuple(row.values()) for row in rows])
    (true,) = us.open_source(DATA, schema).count([SHOWN_MARGIN])
    (made,) = us.open_source(frame, schema).count([SHOWN_MARGIN])
    lines = []
    for row, first in enumerate(schema[SHOWN_MARGIN[0]].code_names):
        for column, second in enumerate(schema[SHOWN_MARGIN[1]].code_names):
            pair = int(true.values[row, column]), int(made.values[row, column])
            lines.append((first, second, *pair, pair[1] - pair[0]))
    names = (*SHOWN_MARGIN, "confidential", "synthetic", "difference")
    show_table("INTERNAL: computed from confidential data, never published", names, lines, right=names[2:])


def judge(release: Path) -> None:
    """Measure, attack, ask, and put it on one page for the board and on one for everybody."""
    made = us.read_release(release)
    show_command(f"evaluate release --confidential {DATA} --model '{MODEL}'")
    with working("evaluating and attacking") as progress:
        people = us.open_source(DATA, us.read_schema(PUBLIC))
        result = us.evaluate(made, people, models=[MODEL], ways=(1, 2, 3), progress=progress)
    evaluate_commands.show_evaluation("release", result)
    show_command(f'infer release "{QUESTION}"')
    infer_commands.infer(folder=release, question=QUESTION)
    if importlib.util.find_spec("matplotlib") is None or importlib.util.find_spec("jinja2") is None:
        say("The reports are left out: they need pip install 'understudy[report]'.")
        return
    answer = us.infer(made, QUESTION)
    BOARD.parent.mkdir()
    show_command(f'report release --confidential {DATA} --model "{MODEL}" --question "{QUESTION}" --to {BOARD}')
    with working("writing"):
        us.report(made, result, answer, audience="internal", to=BOARD)
    show_command(f'report release --question "{QUESTION}" --to {LEAFLET}')
    with working("writing"):
        us.report(made, answer, audience="public", to=LEAFLET)


def point_out(folder: Path, out: Path) -> None:
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
