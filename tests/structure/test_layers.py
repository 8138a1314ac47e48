"""Imports go one way, and siblings never import each other.

Every import counts: at the top of a file, inside a function, under ``TYPE_CHECKING`` (a type that is named is a
dependency that is understood), and by name through ``importlib``. A package that is not in the order below fails the
test until somebody decides where it belongs.

The command line stands above the demonstration and the reproductions of papers because it offers them as commands;
otherwise the order is the one of the design. The reproductions are in ``papers/`` of the repository, outside the
package, and keep to the same order.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE = REPOSITORY / "src"
PAPERS = "papers"
ORDER = (
    {"errors"},
    {"core"},
    {"privacy"},
    {"engines", "models", "figures"},
    {"synth"},
    {"release"},
    {"auditing", "evaluation", "inference"},
    {"commutes", "households"},
    {"explore", "reporting", "kinds"},
    {"serving"},
    {"api"},
    {"studio"},
    {"demo"},
    {PAPERS},  # generated data stand in where a paper's are not public
    {"cli"},
)
LEVEL = {name: level for level, names in enumerate(ORDER) for name in names}
# The package itself re-exports the public calls lazily: whoever imports it imports the api.
PACKAGE_ITSELF = "api"
# Packages whose use is a privacy decision, and the only files that may take it.
RESTRICTED = {
    "opendp": {"privacy/randomness/streams.py"},
    # Randomness is made in one file; signatures, which protect no person, in another.
    "cryptography": {"privacy/randomness/draws.py", "release/signing.py"},
    "duckdb": {"engines/"},
    "typer": {"cli/"},
    "rich": {"cli/"},
    "starlette": {"serving/web/", "studio/"},
    "uvicorn": {"serving/web/"},
    "psycopg": {"privacy/ledger/", "serving/database/"},
}
SHARED_WITH_STUDIO = tuple(
    f"understudy.serving.web.{name}" for name in ("forms", "guarding", "listening", "templating")
)
# The process that speaks to the network must have no way to the data: what its files, and those it shares with the
# worker, import never names a gate, a source or the worker.
WITHOUT_DATA = ("serving/web/", "serving/database/", "serving/catalogue", "serving/pricing", "serving/accounts")


def imported_modules(source: str, module: str) -> Iterator[str]:
    """Every module a file imports, by its full name; relative imports resolved."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = module.split(".")[: -node.level]
                base = ".".join([*parent, base]) if base else ".".join(parent)
            if base != "understudy":  # there only the names taken from the package say which part is meant
                yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__") and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def files() -> list[Path]:
    return sorted([*(SOURCE / "understudy").rglob("*.py"), *(REPOSITORY / PAPERS).rglob("*.py")])


def module_name(path: Path) -> str:
    root = SOURCE if path.is_relative_to(SOURCE) else REPOSITORY
    return ".".join(path.relative_to(root).with_suffix("").parts)


@cache
def imports_of(path: Path) -> tuple[str, ...]:
    """What a file imports; each file is read once for all tests."""
    return tuple(imported_modules(path.read_text(), module_name(path)))


@cache
def part_of(module: str) -> str | None:
    """The layered part a module belongs to; None for other packages and for plain facts such as the version."""
    names = module.split(".")
    if names[0] == PAPERS:
        return PAPERS
    if names[0] != "understudy" or names[1:] == ["__version__"]:
        return None
    if len(names) == 1 or names[1] == "__init__":
        return PACKAGE_ITSELF
    known = (SOURCE / "understudy" / names[1]).is_dir() or (SOURCE / "understudy" / f"{names[1]}.py").exists()
    return names[1] if known else PACKAGE_ITSELF


def violations(imports: Iterable[str], module: str) -> list[str]:
    own = part_of(module)
    found = []
    for imported in dict.fromkeys(imports):
        part = part_of(imported)
        if part is None or part == own:
            continue
        if LEVEL[part] >= LEVEL[own]:
            relation = "its sibling" if LEVEL[part] == LEVEL[own] else "the higher layer"
            found.append(f"{module} imports {imported}: {own} may not import {relation} {part}.")
    return found


def test_every_part_has_its_place():
    parts = {part_of(module_name(path)) for path in files()}
    assert parts <= set(LEVEL), f"no place in the order: {sorted(parts - set(LEVEL))}"


@pytest.mark.parametrize("path", files(), ids=module_name)
def test_imports_go_one_way(path):
    assert violations(imports_of(path), module_name(path)) == []


@pytest.mark.parametrize("path", sorted((SOURCE / "understudy" / "core").rglob("*.py")), ids=module_name)
def test_core_needs_numpy_only(path):
    outside = {name.split(".")[0] for name in imports_of(path)}
    assert outside - set(sys.stdlib_module_names) <= {"numpy", "understudy"}


def runtime_imports(source: str, module: str) -> Iterator[str]:
    """What a file imports when it runs: types that are only named under TYPE_CHECKING are left out."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    yield from imported_modules(ast.unparse(tree), module)


def passes_by_the_verbs(source: str, module: str) -> list[str]:
    """Imports of a command that reach below the verbs, but for errors and plain values of the core.

    The studio also shares what makes pages with the server.
    """
    below = {name for name in LEVEL if LEVEL[name] < LEVEL["api"]} - {"errors", "core"}
    shared = SHARED_WITH_STUDIO if module.startswith("understudy.studio") else ()
    return [name for name in runtime_imports(source, module) if part_of(name) in below and not name.startswith(shared)]


@pytest.mark.parametrize(
    "path",
    sorted([*(SOURCE / "understudy" / "cli").rglob("*.py"), *(SOURCE / "understudy" / "studio").rglob("*.py")]),
    ids=module_name,
)
def test_a_command_calls_the_verbs_and_nothing_below_them(path):
    assert passes_by_the_verbs(path.read_text(), module_name(path)) == []


def test_a_command_that_passes_by_the_verbs_is_found():
    late = "def f():\n    from understudy.release import read_release"
    assert passes_by_the_verbs(late, "understudy.cli.release") != []
    typed = "if TYPE_CHECKING:\n    from understudy.release import Release\nfrom understudy.core.schema import Schema"
    assert passes_by_the_verbs(typed, "understudy.cli.release") == []


@pytest.mark.parametrize("package", sorted(RESTRICTED))
def test_packages_that_matter_for_privacy_stay_in_their_files(package):
    allowed = RESTRICTED[package]
    for path in files():
        inside = module_name(path).removeprefix("understudy.").replace(".", "/") + ".py"
        if package in {name.split(".")[0] for name in imports_of(path)}:
            assert any(inside.startswith(place) for place in allowed), f"{inside} imports {package}"


def opens_data(module: str) -> bool:
    """Whether a module can count or draw, or leads to what can. Steps and queries are plain values."""
    gates = ("understudy.privacy.gate.", "understudy.engines.", "understudy.serving.worker", "understudy.release.run")
    return module.startswith(gates) and not module.startswith("understudy.privacy.gate.measurement_steps")


def test_the_web_process_has_no_way_to_the_data():
    found = [
        path
        for path in files()
        if module_name(path).replace(".", "/").split("understudy/")[-1].startswith(WITHOUT_DATA)
    ]
    assert len(found) > 10
    for path in found:
        assert [name for name in imports_of(path) if opens_data(name)] == [], path
    assert opens_data("understudy.engines.opening.open_source")
    assert opens_data("understudy.privacy.gate.gate")


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("understudy.core.table", "from understudy.privacy.promise.plan import Plan"),
        ("understudy.core.table", "def f():\n    import understudy.api"),
        ("understudy.core.table", "if TYPE_CHECKING:\n    from understudy.synth.shared import method"),
        ("understudy.models.nearest_table", "from understudy.engines import opening"),
        ("understudy.synth.methods.histogram", "from understudy import api"),
        ("understudy.synth.methods.histogram", "from understudy import errors, synthesize"),
        ("understudy.synth.methods.histogram", "import understudy as us"),
        (
            "understudy.synth.methods.histogram",
            "import importlib\nimportlib.import_module('understudy.release.run')",
        ),
        ("understudy.synth.methods.histogram", "from ...release import run"),
        ("understudy.demo.people", "from understudy.cli import main"),
        ("understudy.demo.people", "from papers import harness"),
        ("understudy.api", "def f():\n    from papers.reproduced import raab"),
        ("papers.harness", "from understudy.cli.main import app"),
    ],
)
def test_a_violation_is_found_however_it_is_written(module, source):
    assert violations(imported_modules(source, module), module)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("understudy.core.table", "from understudy import __version__, errors"),
        ("understudy.core.table", "from . import schema\nfrom .schema import Schema"),
        ("understudy.cli.main", "from understudy import __version__\nimport understudy as us"),
        ("understudy.cli.reproduce", "from papers import harness"),
        ("papers.reproduced.raab", "from papers.harness import items\nfrom understudy import api"),
        ("understudy.synth.methods.histogram", "from understudy.privacy.gate.gate import Gate\nimport numpy as np"),
    ],
)
def test_an_allowed_import_passes(module, source):
    assert violations(imported_modules(source, module), module) == []
