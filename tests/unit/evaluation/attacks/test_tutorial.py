"""The tutorial is executed as it stands."""

from __future__ import annotations

import doctest
from pathlib import Path

PAGE = Path(__file__).resolve().parents[4] / "docs" / "tutorials" / "risk.md"


def test_the_tutorial_runs():
    found = doctest.testfile(str(PAGE), module_relative=False)
    assert found.attempted >= 20
    assert found.failed == 0
