"""The last act of ``understudy demo all``: a server confirms an answer at the width that is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer

import understudy as us
from understudy.cli import serve
from understudy.cli.demo import CONFIRMED, CONFIRMED_PEOPLE, WIDTH
from understudy.errors import InputError

CONFIRM = f"""
from understudy.cli.serve import tell_confirmation
assert tell_confirmation({CONFIRMED_PEOPLE}, {CONFIRMED!r}, {WIDTH})
"""


def test_the_demonstration_ends_with_a_confirmed_answer():
    """In a process of its own, as the demonstration is: server and worker are threads and use its streams."""
    pytest.importorskip("starlette", reason="the server needs the extra serve")
    pytest.importorskip("uvicorn", reason="the server needs the extra serve")
    ended = subprocess.run([sys.executable, "-c", CONFIRM], check=False, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert "valid" in ended.stdout


def test_a_demonstration_that_is_there_goes_on_with_new_tokens(tmp_path, monkeypatch):
    """The second start serves the same folder: charges and answers stay, old tokens are good no more."""
    pytest.importorskip("starlette", reason="the server needs the extra serve")
    pytest.importorskip("matplotlib", reason="the report needs the extra report")
    monkeypatch.setenv("UNDERSTUDY_DATABASE", "server.db")  # put back afterwards
    monkeypatch.setattr(serve, "DEMO_PEOPLE", 500)
    shown: list[list[tuple[str, str]]] = []
    monkeypatch.setattr(serve, "show_facts", lambda facts: shown.append(list(facts)))
    monkeypatch.setattr(serve.serving, "serve_together", lambda *_, ready, **__: ready())
    command = typer.main.get_command(serve.app)
    folder = tmp_path / "demo"
    for _ in range(2):
        command.main(["--demo", "--out", str(folder)], standalone_mode=False)
    first, second = map(dict, shown)
    assert first.keys() == second.keys() == {"analyst", "steward", "approver", "auditor"}
    assert not set(first.values()) & set(second.values())
    assert (folder / "releases" / "people" / "report.html").is_file()
    assert len(us.Ledger.open(folder / "budget.db").entries(serve.serving.DEMO_ACCOUNT)) == 2  # opened, charged once
    (tmp_path / "other").mkdir()
    with pytest.raises(InputError, match="holds no demonstration"):
        command.main(["--demo", "--out", str(tmp_path / "other")], standalone_mode=False)
