"""Writes down what `--help` says, command by command, for the test that compares it: what a reader meets first.

Only our own words are kept (texts, names of options, defaults, panels), not how a version of the library frames them.
Run it after a change that is meant: ``.venv/bin/python tests/golden/make_help.py``, and read the difference.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "help"


def commands() -> Iterator[tuple[str, Any]]:
    """Every command and group by its name, the program itself first."""
    from typer.main import get_command

    from understudy.cli.main import app

    def walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        yield name, command
        for child, one in getattr(command, "commands", {}).items():
            yield from walk(f"{name} {child}".strip(), one)

    yield from walk("", get_command(app))


def told(name: str, command: Any) -> str:
    """The words of one command's help."""
    lines = [f"understudy {name}".strip(), "", inspect.cleandoc(command.help or ""), ""]
    for child, one in getattr(command, "commands", {}).items():
        lines.append(f"  {child} [{one.rich_help_panel or ''}]: {(one.help or '').strip().splitlines()[0]}")
    for option in command.params:
        names = "/".join([*option.opts, *option.secondary_opts])
        shown = option.show_default
        default = shown if isinstance(shown, str) else option.default if shown else None
        if option.required:
            default = "required"
        plain = default is None or default is False or callable(default) or type(default).__name__ == "Sentinel"
        given = "" if plain else f" [{default}]"
        panel = getattr(option, "rich_help_panel", None)
        metavar = f" {option.metavar}" if option.metavar else ""
        where = f" ({panel})" if isinstance(panel, str) else ""
        lines.append(f"  {names}{metavar}: {getattr(option, 'help', '') or ''}{given}{where}")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def file_of(name: str) -> Path:
    return FOLDER / f"{name.replace(' ', '_') or 'understudy'}.txt"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    kept = set()
    for name, command in commands():
        file_of(name).write_text(told(name, command), encoding="utf-8")
        kept.add(file_of(name))
    for stale in set(FOLDER.glob("*.txt")) - kept:
        stale.unlink()
    print(f"wrote {len(kept)} files into {FOLDER.name}/")
