"""``papers/`` is no part of the wheel: the command finds it in a checkout, and without one says where it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def reproduce(source: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, with the package taken from ``source``."""
    return subprocess.run(
        [sys.executable, "-c", "from understudy.cli.main import main; main()", "reproduce", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_wheel_holds_the_package_alone():
    build = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert build == {"targets": {"wheel": {"packages": ["src/understudy"]}}}


def test_a_checkout_is_found_from_any_folder(tmp_path):
    (tmp_path / "papers.py").write_text("raise SystemExit('another package of this name')")
    shown = reproduce(REPOSITORY / "src", tmp_path, "ruiz")
    assert shown.returncode == 0, shown.stderr
    assert "0 fail" in shown.stdout


def test_an_installed_package_says_where_to_get_it(tmp_path):
    """As a wheel installs it: the package in a folder with neither ``papers/`` nor a project file beside it."""
    installed = tmp_path / "lib" / "site-packages"
    shutil.copytree(
        REPOSITORY / "src" / "understudy", installed / "understudy", ignore=shutil.ignore_patterns("__pycache__")
    )
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "__init__.py").write_text("raise SystemExit('a folder that is not the repository')")
    shown = reproduce(installed, tmp_path, "ruiz")
    assert shown.returncode == 2
    assert "folder 'papers' of understudy's source repository" in " ".join(shown.stderr.split())
    assert "Traceback" not in shown.stderr
