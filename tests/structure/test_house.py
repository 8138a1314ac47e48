"""Rules of the house that a reader should not have to check by eye."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from papers.harness import papers
from tests.conftest import SHORTENED, TEST_BY_TEST
from understudy.commutes.shared.flow_method import flow_synthesizers
from understudy.engines.engine import engines
from understudy.evaluation.shared.attack import attacks
from understudy.evaluation.shared.measure import measures
from understudy.figures.evaluation_figure import figures
from understudy.release.kind import kinds
from understudy.synth.shared.method import synthesizers

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "src" / "understudy"
PAPERS = REPOSITORY / "papers"  # outside the wheel, under the same rules
LONGEST_FILE = 600  # lines: a file is as long as its thought, and a reader should not have to jump
LARGEST_FILE = 200_000  # bytes
# Randomness that anybody can repeat: fine for generated people and for tests, never on the way to a release.
MAY_USE_TEST_RANDOMNESS = (
    "demo/",
    "auditing/",
    "explore/",
    "inference/",
    "papers/",
    "evaluation/",
    "privacy/randomness/streams.py",
)
UNSAFE_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
UNSAFE_CALLS = {"eval", "exec", "compile", "__import__"}


def sources() -> list[Path]:
    return sorted([*PACKAGE.rglob("*.py"), *PAPERS.rglob("*.py")])


def inside(path: Path) -> str:
    return path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else REPOSITORY).as_posix()


def repeatable_randomness(tree: ast.AST) -> list[int]:
    """Lines that name the standard library's or numpy's generators."""
    return [node.lineno for node in ast.walk(tree) if _names_a_generator(node)]


def _names_a_generator(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name == "random" or alias.name.startswith("numpy.random") for alias in node.names)
    if isinstance(node, ast.ImportFrom) and not node.level:
        module = node.module or ""
        from_numpy = module == "numpy" and any(alias.name == "random" for alias in node.names)
        return from_numpy or module == "random" or module.startswith("numpy.random")
    if isinstance(node, ast.Attribute) and node.attr == "random":
        return isinstance(node.value, ast.Name) and node.value.id in ("np", "numpy")
    return False


def unsafe(tree: ast.AST) -> list[int]:
    """Lines that load code from data."""
    return [node.lineno for node in ast.walk(tree) if _loads_code(node)]


def _loads_code(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name.split(".")[0] in UNSAFE_MODULES for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").split(".")[0] in UNSAFE_MODULES
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in UNSAFE_CALLS


@pytest.mark.parametrize("path", sources(), ids=inside)
def test_source_file(path):
    text = path.read_text()
    tree = ast.parse(text)
    assert len(text.splitlines()) <= LONGEST_FILE
    assert path.name != "utils.py"
    assert unsafe(tree) == []
    if not inside(path).startswith(MAY_USE_TEST_RANDOMNESS):
        assert repeatable_randomness(tree) == []
    assert not re.search(r"\b(TODO|FIXME|XXX)\b", text)
    if text.strip():
        assert ast.get_docstring(tree), "a file says at its head what it is for"


def test_the_rules_can_be_broken():
    code = "import random\nimport numpy.random\nx = np.random.default_rng()\nfrom numpy import random\nrng.random(3)"
    assert sorted(repeatable_randomness(ast.parse(code))) == [1, 2, 3, 4]
    assert sorted(unsafe(ast.parse("import pickle\nfrom joblib import load\neval('1')\nexec('x')"))) == [1, 2, 3, 4]


def test_only_the_seeded_stream_uses_a_generator_in_streams():
    """In ``privacy/randomness/streams.py`` numpy's generator belongs to the stream that is marked as not secure."""
    tree = ast.parse((PACKAGE / "privacy" / "randomness" / "streams.py").read_text())
    places = [
        node.name
        for node in tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and repeatable_randomness(node)
    ]
    assert places == ["SeededStream"]


def committed() -> list[Path]:
    try:
        run = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout: the committed files are not known")
    return [REPOSITORY / name for name in run.stdout.split("\0") if name]


def test_no_large_file_is_committed():
    sizes = {path.name: path.stat().st_size for path in committed() if path.exists()}
    assert sizes
    assert {name: size for name, size in sizes.items() if size > LARGEST_FILE} == {}


def test_no_data_set_is_committed():
    """Real tables are looked for outside the project and never copied into it."""
    data = {".parquet", ".db", ".sqlite", ".dta", ".sav", ".sas7bdat", ".pkl"}
    assert [path.name for path in committed() if path.suffix in data] == []


def test_every_version_of_the_changelog_has_a_privacy_section():
    sections = re.split(r"^## ", (REPOSITORY / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]
    assert sections
    for section in sections:
        assert re.search(r"^### Privacy$", section, flags=re.MULTILINE), section.splitlines()[0]


def test_the_map_of_the_tree_is_true():
    """CONTRIBUTING names every folder of the package down to the second level, and no other."""
    table = re.findall(r"^\| (`.*?) \|", (REPOSITORY / "CONTRIBUTING.md").read_text(), flags=re.MULTILINE)
    named = {name for row in table for name in re.findall(r"`([a-z_/]+)`", row)}
    folders = {inside(path.parent) for path in PACKAGE.rglob("__init__.py")} - {"."}
    assert named == {folder for folder in folders if folder.count("/") < 2}


def test_a_folder_of_plug_ins_holds_plug_ins_only():
    for registry in (synthesizers, flow_synthesizers, attacks, measures, engines, figures, kinds, papers):
        for name in registry:
            assert registry[name], name


def test_what_conftest_names_is_there():
    """A file that has moved would lose its treatment without a word."""
    named = (*TEST_BY_TEST, *SHORTENED)
    assert [name for name in named if not (REPOSITORY / name).exists()] == []
