"""Machine code is kept between processes, and never kept beyond a change of any loop."""

from __future__ import annotations

import importlib.util
import sys

import numba
import pytest

from understudy.privacy import compiling

SOURCE = """
from understudy.privacy.compiling import compiled

@compiled
def add_one(value):
    return value + 1
"""


@pytest.fixture
def loaded(tmp_path):
    """A fresh import of the same file, as another process would make it."""
    path = tmp_path / "loops_of_a_test.py"
    path.write_text(SOURCE, encoding="utf-8")

    def load():
        spec = importlib.util.spec_from_file_location("loops_of_a_test", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        assert module.add_one(1) == 2
        return sum(module.add_one.stats.cache_hits.values())

    yield load
    sys.modules.pop("loops_of_a_test", None)


def test_machine_code_is_used_again(loaded):
    assert loaded() == 0
    assert loaded() == 1


def test_a_change_in_another_file_of_loops_makes_it_stale(loaded, monkeypatch):
    assert loaded() == 0
    monkeypatch.setattr(compiling, "source_of_all_loops", lambda: "another source")
    assert loaded() == 0
    assert loaded() == 1


def test_every_file_with_compiled_loops_is_watched():
    using = [
        path
        for path in compiling.PACKAGE.rglob("*.py")
        if "compiling import compiled" in path.read_text(encoding="utf-8") and path.name != "compiling.py"
    ]
    assert using
    assert [path.name for path in using if not path.name.endswith("compiled.py")] == []


def test_machine_code_is_kept_only_where_there_is_a_folder_for_it(monkeypatch):
    real, asked = numba.njit, []

    def without_folder(*arguments, **options):
        asked.append(options)
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return real(*arguments, **options)

    monkeypatch.setattr(numba, "njit", without_folder)
    assert compiling.compiled(lambda value: value + 1)(1) == 2
    assert asked == [{"nogil": True, "cache": True}, {"nogil": True}]
