"""The make targets exist and say clearly what is missing; what they install and run is tried by running them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=REPOSITORY,
        env=clean,
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_is_the_default_and_lists_the_targets():
    shown = make()
    assert shown.returncode == 0
    for target in ("demo", "test", "oldest", "prove", "papers", "lint", "docs", "bench", "clean"):
        assert re.search(rf"^  {target} +\S", shown.stdout, re.MULTILINE), target


@pytest.mark.parametrize("target", ["demo", "test"])
@pytest.mark.parametrize(
    ("script", "says"),
    [
        ('case "$*" in *version_info*) exit 1;; --version) echo Python 3.9.2;; esac', "Python 3.9.2. understudy needs"),
        ('case "$*" in *ensurepip*) exit 1;; esac', "apt-get install python3-venv"),
        (None, "was not found"),
    ],
    ids=["old", "no venv", "none"],
)
def test_an_unfit_python_is_named_before_anything_is_made(tmp_path, target, script, says):
    python = tmp_path / "python3"
    if script is not None:
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
    shown = make(target, f"PYTHON={python}", f"VENV={tmp_path / 'environment'}")
    assert shown.returncode == 2
    assert says in shown.stderr
    assert not (tmp_path / "environment").exists()


def test_the_check_of_everything_runs_lint_and_every_test():
    script = REPOSITORY / ".ci" / "run"
    assert os.access(script, os.X_OK)
    text = script.read_text()
    assert "set -euo pipefail" in text
    assert re.search(r"^make lint FULL=1$", text, re.MULTILINE)
    assert re.search(r"^make test FULL=1$", text, re.MULTILINE)
    assert re.search(r"^make papers$", text, re.MULTILINE)
    assert "r-base-core" in text  # the R package is checked there and not skipped
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0


def test_the_oldest_versions_are_those_that_the_project_allows():
    shown = subprocess.run(
        [sys.executable, REPOSITORY / "tools" / "oldest.py"], capture_output=True, text=True, check=True
    )
    pins = dict(line.split("==") for line in shown.stdout.split())
    assert pins["duckdb"] == "1.5.*"
    assert pins["scikit-learn"] == "1.5.*"  # an extra counts too
    assert "pytest" not in pins  # users never meet it
