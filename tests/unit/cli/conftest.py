"""A small confidential table, its schema, and a way to run a command and look at everything it did."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from understudy.cli.main import app

SCHEMA = """\
version = 1
[[attribute]]
name = "sex"
levels = ["F", "M"]
[[attribute]]
name = "age"
edges = [0, 15, 65, 101]
integer = true
[[attribute]]
name = "smokes"
levels = ["no", "yes"]
missing = true
[[impossible]]
age = { below = 15 }
smokes = ["no", "yes"]
[[ignore]]
columns = ["id"]
"""
MARKER = "ZQXMARKER"  # stands for a confidential value; it must never be printed


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of a steward: people.csv, people.toml."""
    rows = [f"{MARKER}{n},{'FM'[n % 2]},{(7 * n) % 100},{'' if (7 * n) % 100 < 15 else 'no'}" for n in range(120)]
    (tmp_path / "people.csv").write_text("\n".join(["id,sex,age,smokes", *rows]) + "\n")
    (tmp_path / "people.toml").write_text(SCHEMA)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UNDERSTUDY_DEBUG", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


@pytest.fixture
def run() -> Callable[..., Any]:
    """Run a command line in this process; the exit code must be the expected one, and nothing may look like a crash."""

    def call(line: str, *more: str, code: int = 0) -> Any:
        result = CliRunner().invoke(app, [*line.split(), *more])
        shown = f"{result.stdout}\n{result.stderr}"
        assert result.exit_code == code, f"{line}: exit code {result.exit_code}, not {code}\n{shown}"
        assert "Traceback" not in shown
        assert MARKER not in shown
        if code == 0:
            assert "error" not in result.stderr
        else:
            assert result.stderr.strip()
        return result

    return call


def contents(folder: Path) -> dict[str, str]:
    """Every file below a folder with its hash, to see that nothing was written and nothing charged."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def refused(folder: Path, run: Callable[..., Any]) -> Callable[..., str]:
    """Run a command that must be refused and must leave no trace; gives what it said."""

    def call(line: str, *more: str, code: int = 2, says: str = "") -> str:
        before = contents(folder)
        result = run(line, *more, code=code)
        assert contents(folder) == before, f"{line}: left something behind"
        assert says in " ".join(result.stderr.split()), result.stderr
        assert len(result.stderr.splitlines()) < 40
        return str(result.stderr)

    return call


@pytest.fixture
def ledger(folder: Path, run: Callable[..., Any]) -> Path:
    """A ledger with an account 'people' limited to epsilon 1."""
    run("ledger create budget.db --account people --epsilon 1")
    return folder / "budget.db"
