"""Kill -9 of the web process, the worker and the database while eight analysts buy answers: the books stay right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

STRESS = Path(__file__).parents[2] / "stress" / "kill_server.py"


@pytest.mark.full
@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_killed_processes_leave_the_books_right(store):
    run = subprocess.run(
        [sys.executable, str(STRESS), "--kills", "9", "--every", "3", "--pace", "8", "--store", store],
        capture_output=True, text=True, check=False, timeout=1500,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    assert "nothing is wrong" in run.stdout
