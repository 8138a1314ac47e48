"""The scripts of the map pass their own tests, under node's test runner, and join into one valid module."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from understudy.commutes.map import commute_map
from understudy.commutes.map.commute_map import MOST_DOTS
from understudy.errors import InternalError

HERE = Path(__file__).parent / "scripts"
MODULES = Path(commute_map.__file__).parent / "templates"
LONGEST_FILE = 400


@pytest.mark.node
def test_every_module_passes_its_tests():
    tests = sorted(str(file) for file in HERE.glob("*.test.mjs"))
    run = subprocess.run(["node", "--test", *tests], capture_output=True, text=True, check=False, timeout=120)
    counts = dict(re.findall(r"^. (tests|pass|fail) (\d+)$", run.stdout, re.MULTILINE))
    assert run.returncode == 0, run.stdout
    assert int(counts["tests"]) >= 35
    assert counts["fail"] == "0"


@pytest.mark.node
def test_the_joined_modules_are_one_valid_module(tmp_path):
    joined = tmp_path / "joined.mjs"
    joined.write_text(commute_map.script(), encoding="utf-8")
    run = subprocess.run(["node", "--check", joined], capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 0, run.stderr  # a name that two modules use would be an error here


def test_every_module_is_in_the_page_once_and_after_what_it_needs():
    text = commute_map.script()
    order = re.findall(r"^// ---- (\S+)$", text, re.MULTILINE)
    assert sorted(order) == sorted(file.name for file in MODULES.glob("*.js"))
    assert order[-1] == "main.js"
    assert not re.search(r"^(import|export)\b", text, re.MULTILINE)
    for name in order:
        for _, needed in commute_map.IMPORT.findall(commute_map.part(name)):
            assert order.index(needed) < order.index(name)


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"main.js": 'import { a } from "./b.js";\n', "b.js": 'import { c } from "./main.js";\n'}, "circle"),
        ({"main.js": 'import { a as b } from "./b.js";\n', "b.js": "export const a = 1;\n"}, "renames"),
    ],
)
def test_modules_that_cannot_be_joined_are_refused(monkeypatch, parts, says):
    monkeypatch.setattr(commute_map, "part", parts.__getitem__)
    with pytest.raises(InternalError, match=says):
        commute_map.script()


def test_the_modules_are_short_and_set_no_markup_from_data():
    for file in MODULES.glob("*.js"):
        text = file.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= LONGEST_FILE
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|fetch\(", text
        )
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), file.name


def test_both_languages_state_the_same_limit():
    stated = re.search(r"MOST_DOTS = ([0-9_]+);", commute_map.part("dots.js"))
    assert stated
    assert int(stated[1]) == MOST_DOTS
