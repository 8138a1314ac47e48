"""The tutorial on the report is executed as it stands."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[3] / "docs" / "tutorials" / "report.md"


@pytest.mark.filterwarnings("ignore")
def test_the_tutorial_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert found.attempted >= 10
    assert found.failed == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "report.html",
        "report-registry.json",
        "board.html",
        "judged.html",
    }
