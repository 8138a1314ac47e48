"""`--help` of every command: as it was read and approved, complete, and without a word that explains nothing."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from understudy.cli.main import app

MAKER = Path(__file__).resolve().parents[2] / "golden" / "make_help.py"
spec = importlib.util.spec_from_file_location("make_help", MAKER)
make_help = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_help)
COMMANDS = dict(make_help.commands())
LEAVES = {name: command for name, command in COMMANDS.items() if not getattr(command, "commands", None)}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_is_as_approved(name):
    path = make_help.file_of(name)
    again = "after reading the difference, approve it with: .venv/bin/python tests/golden/make_help.py"
    assert path.is_file(), f"there is no approved help of '{name}'; {again}"
    assert make_help.told(name, COMMANDS[name]) == path.read_text(encoding="utf-8"), again


def test_no_approved_help_is_left_of_a_command_that_is_gone():
    assert {path.name for path in make_help.FOLDER.glob("*.txt")} == {make_help.file_of(name).name for name in COMMANDS}


@pytest.mark.parametrize("name", LEAVES)
def test_a_command_says_what_it_does_with_an_example_and_json(name):
    command = LEAVES[name]
    assert re.search(rf"Examples?: `understudy {name}\b", command.help)
    first = command.help.strip().splitlines()[0]
    assert first[0].isupper()
    assert first.rstrip().endswith(".")
    assert "--json" in {option for param in command.params for option in param.opts}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained_in_a_sentence(name):
    for param in COMMANDS[name].params:
        if param.opts == ["--help"] or param.hidden:
            continue
        text = param.help or ""
        assert text, f"{name} {param.opts}"
        assert text[0].isupper() or text.startswith(("csv", "replace")), f"{name} {param.opts}: {text}"
        assert text.endswith((".", ")")) or text.startswith("For example"), f"{name} {param.opts}: {text}"


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("columns", ["80", "160"])
def test_the_help_is_shown(name, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    result = CliRunner().invoke(app, [*name.split(), "--help"])
    assert result.exit_code == 0
    shown = [param for param in COMMANDS[name].params if not getattr(param, "hidden", False)]
    options = {option for param in shown for option in param.opts if option.startswith("--")}
    assert {option for option in options if option not in result.stdout} == set()
    assert max(map(len, result.stdout.splitlines())) <= int(columns)
