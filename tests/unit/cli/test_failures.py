"""How commands end: stated exit codes, one screen, and never a value of the data."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from understudy.cli import failures, synthesize
from understudy.cli.main import app
from understudy.errors import (
    BudgetError,
    ConvergenceError,
    DisclosureError,
    InputError,
    InternalError,
    MissingExtraError,
    SchemaError,
    UnknownNameError,
    UnsupportedError,
)

MARKER = "ZQXMARKER"  # the confidential value that the fixture "run" looks for
COMMAND = "plan --schema people.toml --epsilon 1"


def raising(problem: BaseException):
    def call(*_args: object, **_more: object) -> None:
        raise problem

    return call


@pytest.mark.parametrize(
    ("problem", "code", "says"),
    [
        (InputError("wrong"), 2, "error: wrong"),
        (SchemaError("wrong"), 2, "error: wrong"),
        (UnknownNameError("wrong"), 2, "error: wrong"),
        (UnsupportedError("wrong"), 2, "error: wrong"),
        (MissingExtraError("wrong"), 2, "error: wrong"),
        (BudgetError("wrong"), 3, "budget refused: wrong"),
        (DisclosureError("wrong"), 4, "disclosure refused: wrong"),
        (ConvergenceError("wrong"), 5, "not converged: wrong"),
        (InternalError("wrong"), 1, "this is a bug in understudy: wrong"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError(MARKER), 2, "not enough memory"),
        (OSError(errno.ENOSPC, "No space left on device", "there/file"), 2, "there/file: No space left on device"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 0, ""),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
@pytest.mark.usefixtures("folder")
def test_each_kind_of_failure_has_its_exit_code(run, monkeypatch, problem, code, says):
    monkeypatch.setattr(synthesize.us, "plan", raising(problem))
    result = run(COMMAND, code=code)
    assert says in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("problem", [RuntimeError(MARKER), ValueError(MARKER), OSError(MARKER), KeyError(MARKER)])
def test_an_unexpected_exception_shows_its_type_and_place_and_not_its_message(folder, run, monkeypatch, problem):
    def deep(*_args: object, **_more: object) -> None:
        _local = MARKER
        raise problem

    monkeypatch.setattr(synthesize.us, "plan", deep)
    result = run(COMMAND, code=1)  # run() checks that the marker is nowhere
    assert "this is a bug in understudy" in result.stderr
    assert type(problem).__name__ in result.stderr
    assert "understudy/cli/synthesize.py:" in result.stderr


def test_the_traceback_is_shown_only_when_asked_for(folder, monkeypatch):
    monkeypatch.setattr(synthesize.us, "plan", raising(RuntimeError(MARKER)))
    monkeypatch.setenv("UNDERSTUDY_DEBUG", "1")
    result = CliRunner().invoke(app, COMMAND.split())
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert MARKER in result.stderr


def test_an_exception_from_elsewhere_has_a_place_too():
    assert failures._place(RuntimeError()) == "an unknown place"


def test_control_characters_of_a_name_do_not_reach_the_terminal(folder, run):
    result = run("plan --epsilon 1 --schema", "no\x1b[31msuch", code=2)
    assert "\x1b" not in result.stderr


@pytest.mark.parametrize(
    "line",
    ["plan --nonsense 3", "synthesize", "nonsense", "ledger nonsense", "plan --schema people.toml --rows x"],
)
def test_wrong_usage_ends_with_2_and_a_hint(folder, run, line):
    assert "--help" in (text := run(line, code=2).stderr) or "-h" in text


@pytest.mark.parametrize(
    "line",
    [
        *("", "plan", "synthesize", "resume", "verify", "methods", "demo", "reproduce"),
        *("schema", "schema check", "schema describe"),
        *("ledger", "ledger create", "ledger limit", "ledger show", "ledger verify"),
    ],
)
def test_every_command_explains_itself(run, line):
    text = run(f"{line} --help").stdout
    assert "Usage: understudy" in text
    groups = ("", "schema", "ledger")
    assert line in groups or "Example: understudy" in text
    assert line in groups or "--json" in text


def test_version(run):
    from understudy import __version__

    assert run("--version").stdout == f"understudy {__version__}\n"


def test_the_installed_command_keeps_its_streams_and_codes_apart(folder):
    command = Path(sys.executable).parent / "understudy"
    good = subprocess.run([command, *COMMAND.split(), "--json"], capture_output=True, text=True, check=False)
    assert (good.returncode, good.stderr) == (0, "")
    bad = subprocess.run([command, "plan", "--schema", "absent"], capture_output=True, text=True, check=False)
    assert (bad.returncode, bad.stdout) == (2, "")
    assert "Traceback" not in bad.stderr


def test_a_reader_that_leaves_early_is_no_failure(folder):
    command = Path(sys.executable).parent / "understudy"
    piped = subprocess.run(
        ["bash", "-c", f"{command} {COMMAND} --json | true; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (piped.returncode, piped.stderr) == (0, "")
