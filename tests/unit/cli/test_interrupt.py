"""Ctrl-C: exit code 130, what was done is said, and never that it is a bug."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

import understudy as us
from understudy.cli import failures, output


def test_what_was_done_is_said(capsys):
    def stopped():
        with output.working("rehearsing") as progress:
            progress(3, 40)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert "stopped while rehearsing: 3 of 40 steps were done" in capsys.readouterr().err


@pytest.mark.parametrize("problem", [RuntimeError("Query interrupted"), us.UnderstudyError("could not be grouped.")])
def test_an_error_that_comes_of_an_interrupt_is_none(folder, run, monkeypatch, problem):
    def stopped(*given, **more):
        raise problem

    monkeypatch.setattr(us, "plan", stopped)
    monkeypatch.setattr(failures, "_interrupts", [signal.SIGINT])
    shown = run("plan --schema people.toml --epsilon 1", code=130).stderr
    assert "interrupted" in shown
    assert "bug" not in shown


def test_a_command_that_is_stopped_ends_with_130(folder):
    """The real thing: a process, a signal, an exit code."""
    code = (
        "import sys, time, understudy as us\n"
        "from understudy.cli import main\n"
        "def slow(*given, **more):\n"
        "    print('begun', file=sys.stderr, flush=True)\n"
        "    try: time.sleep(60)\n"
        "    except KeyboardInterrupt: raise RuntimeError('a library failed')\n"
        "us.plan = slow\n"
        "sys.argv = ['understudy', 'plan', '--schema', 'people.toml', '--epsilon', '1']\n"
        "main.main()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline().strip() == "begun"
    time.sleep(0.2)  # into the sleep
    os.kill(process.pid, signal.SIGINT)
    shown = process.communicate(timeout=60)[1]
    assert process.returncode == 130, shown
    assert "interrupted" in shown
    assert "bug" not in shown


@pytest.mark.parametrize("fails", [True, False])
def test_an_evaluation_stopped_inside_a_library_says_what_is_finished_too(folder, run, monkeypatch, fails):
    """Ctrl-C in a compiled loop became another error, or a part that could not be done: nothing was said, or exit 0."""
    from understudy.core.result import Section
    from understudy.evaluation import risk

    run("synthesize people.csv --schema people.toml --method independent --epsilon 1 --out release")

    def stopped(*given, **more):
        failures._interrupts.append(signal.SIGINT)
        if fails:
            raise SystemError("a loop returned a result with an exception set")
        return Section()

    monkeypatch.setattr(failures, "_interrupts", [])
    monkeypatch.setattr(risk, "person_part", stopped)
    shown = run("attack release --confidential people.csv --out risk", code=130)
    assert "Finished before: anonymity" in shown.stdout
    assert "bug" not in shown.stderr
    assert not (folder / "risk").exists()


def test_what_an_evaluation_had_found_is_kept(folder, run, monkeypatch):
    """Stopped after the first measures: they are named, and their tables are there; a whole run takes them away."""
    from understudy.evaluation import risk

    run("synthesize people.csv --schema people.toml --method independent --epsilon 1 --out release")

    def stopped(*given, **more):
        raise KeyboardInterrupt

    whole = risk.person_part
    monkeypatch.setattr(risk, "person_part", stopped)
    shown = run("attack release --confidential people.csv --out risk", code=130)
    assert "Finished before: anonymity" in shown.stdout
    assert (folder / "risk.unfinished" / "uniqueness" / "attacks.csv").is_file()
    assert not (folder / "risk").exists()
    assert (folder / "risk.unfinished").stat().st_mode & 0o077 == 0
    monkeypatch.setattr(risk, "person_part", whole)
    run("attack release --confidential people.csv --out risk")
    assert (folder / "risk" / "attacks.csv").is_file()
    assert not (folder / "risk.unfinished").exists()
