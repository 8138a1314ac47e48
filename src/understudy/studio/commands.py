"""The commands that do the same without the page, and the files that they need."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import understudy as us
from understudy.core.folders import explained_disk_errors
from understudy.core.schema_file import write_schema
from understudy.errors import InputError

if TYPE_CHECKING:
    from understudy.studio.desk import Budget, Desk, Opened

SCHEMA, PLAN, COMMANDS = "-schema.toml", "-plan.toml", "-commands.sh"
HEAD = """\
# What the studio did for {name}, as commands. Run them in this folder.
# Whoever runs them again makes another release and pays for it again.
"""


def unit_options(unit: us.Unit) -> list[str]:
    """A unit as the command line says it."""
    words = ["--unit", unit.kind]
    words += ["--fixed", ",".join(unit.fixed)] if unit.fixed else []
    words += ["--rows-per-unit", str(unit.rows_per_unit)] if unit.rows_per_unit > 1 else []
    return words + (["--unit-id", unit.unit_id] if unit.unit_id else [])


def amount_options(epsilon: str, delta: str | None) -> list[str]:
    return ["--epsilon", epsilon, *([] if delta is None else ["--delta", delta])]


def commands(desk: Desk, *, key: Path | None = None) -> list[tuple[str, list[str]]]:
    """Each command with what it does, in order."""
    plan, budget, unit, data = desk.plan, desk.budget, desk.unit, desk.data
    assert plan is not None  # noqa: S101 - steps before
    assert budget is not None  # noqa: S101
    assert unit is not None  # noqa: S101
    assert data is not None  # noqa: S101
    file, ledger = shown_path(desk.folder, data), desk.ledger
    if not ledger.startswith("env:"):
        ledger = shown_path(desk.folder, Path(ledger))
    schema, planned, account = f"{desk.name}{SCHEMA}", f"{desk.name}{PLAN}", str(desk.account)
    again = f"{desk.name}-plan-again.toml"
    found = [("Check that every row fits the schema.", ["schema", "check", file, "--schema", schema])]
    if desk.opened is not None:
        found.append(("Open the account, if it is not open yet.", _opening(desk, desk.opened, ledger)))
    found += [
        (
            "Plan, from public facts alone. It gives the plan that is beside this file.",
            ["plan", "--schema", schema, *_budget(budget), *unit_options(unit), "--out", again],
        ),
        (
            f"Charge the account and make the release. This spends {budget.words}.",
            ["synthesize", file, "--schema", schema, "--plan", planned, "--ledger", ledger, "--account", account,
             "--out", desk.name],
        ),
        (
            "Compare with the data and attack the release. The page that it writes is internal.",
            ["report", desk.name, "--confidential", file, "--to", f"{desk.name}-internal.html"],
        ),
    ]  # fmt: skip
    check = ["verify", desk.name]
    if key is not None:
        private = shown_path(desk.folder, key)
        found.append(("Sign it.", ["sign", desk.name, "--key", private, "--ledger", ledger]))
        check += ["--key", f"{private}.pub"]
    found.append(("Check it, as everybody can.", check))
    return found


def _budget(budget: Budget) -> list[str]:
    return amount_options(budget.epsilon, budget.delta)


def _opening(desk: Desk, opened: Opened, ledger: str) -> list[str]:
    assert desk.unit is not None  # noqa: S101 - a step before
    verb = ["ledger", "create" if opened.new_ledger else "limit", ledger]
    amounts = amount_options(opened.epsilon, opened.delta)
    return [*verb, "--account", str(desk.account), *amounts, *unit_options(desk.unit)]


def script(desk: Desk, *, key: Path | None = None) -> str:
    """The commands as a shell script."""
    lines = [HEAD.format(name=desk.name)]
    for told, words in commands(desk, key=key):
        lines.append(f"# {told}\n{shlex.join(['understudy', *words])}\n")
    return "\n".join(lines)


def write_files(desk: Desk, *, key: Path | None) -> dict[str, Path]:
    """The schema, the plan and the commands beside the release."""
    assert desk.plan is not None  # noqa: S101 - steps before
    texts = {
        "schema": (SCHEMA, write_schema(desk.schema())),
        "plan": (PLAN, us.write_plan(desk.plan)),
        "commands": (COMMANDS, script(desk, key=key)),
    }
    written = {"release": desk.folder / desk.name}
    for what, (ending, text) in texts.items():
        target = desk.folder / f"{desk.name}{ending}"
        with explained_disk_errors(target):
            target.write_text(text, encoding="utf-8")
        written[what] = target
    return written


def require_free(folder: Path, name: str, *more: str) -> None:
    """Refuse a name whose files are there already.

    Raises
    ------
    InputError
        If one of them exists.
    """
    for ending in ("", SCHEMA, PLAN, COMMANDS, *more):
        if (folder / f"{name}{ending}").exists():
            raise InputError(f"{name}{ending} already exists in this folder; choose another name.")


def shown_path(folder: Path, path: Path) -> str:
    """A path as a command in this folder says it."""
    real = Path(os.path.realpath(path))
    root = Path(os.path.realpath(folder))
    if not real.is_relative_to(root):
        return str(real)
    inside = real.relative_to(root).as_posix()
    return f"./{inside}" if inside.startswith("-") else inside  # else it would be read as an option
