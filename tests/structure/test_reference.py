"""Everything public is documented, in one style, and the reference pages show it.

The style is numpydoc. A function or method describes each parameter (the types are in the signature), what it returns
and what it raises. A field of a class has a text under it in the source; that is also how options of methods are
described, for the reference and for ``understudy methods NAME``.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import inspect
import logging
import re
import textwrap
from functools import cached_property
from pathlib import Path
from typing import Any

import griffe
import pytest

from understudy.commutes.shared.flow_method import flow_synthesizers
from understudy.synth.shared.method import field_docs, options_of, synthesizers

REPOSITORY = Path(__file__).resolve().parents[2]
MADE_BY = {"unknown_name": "UnknownNameError", "missing_extra": "MissingExtraError"}  # functions that make an error
HOW = """
Write, in the docstring of {name}, as numpydoc does (https://numpydoc.readthedocs.io):

    One line that says what it does.

    Parameters
    ----------
    rows
        What it means, its unit, what the default stands for.

    Returns
    -------
    Release
        What the caller gets.

    Raises
    ------
    InputError
        When.

    Examples
    --------
    >>> ...

Fields of a class get a text under each field instead:

    rows: int
    \"\"\"How many rows are drawn.\"\"\"
"""


def reference() -> Any:
    spec = importlib.util.spec_from_file_location("reference", REPOSITORY / "docs" / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REFERENCE = reference()
FAMILIES = REFERENCE.families()
PUBLIC = {
    REFERENCE.path_of(thing): thing for family, things in FAMILIES.items() if family != "methods" for thing in things
}


def sections(text: str) -> dict[str, Any]:
    """The numpydoc sections of a docstring by kind; the last of each kind."""
    logging.getLogger("griffe").setLevel(logging.CRITICAL)
    return {one.kind.value: one for one in griffe.Docstring(inspect.cleandoc(text)).parse("numpy")}


def listed(found: dict[str, Any], kind: str) -> list[str]:
    return [item.name.lstrip("*") for item in found[kind].value] if kind in found else []


def raised(function: Any) -> set[str]:
    """The errors that a function raises by itself, by name; not those of the functions that it calls."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return {name for node in _own(tree.body[0]) if isinstance(node, ast.Raise) and (name := _error(node.exc))}


def _own(node: ast.AST) -> list[ast.AST]:
    """The nodes of a function without those of functions inside it."""
    inner = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.FunctionDef | ast.Lambda)]
    return [*inner, *(deeper for child in inner for deeper in _own(child))]


def _error(exc: ast.expr | None) -> str | None:
    if isinstance(exc, ast.Call):
        given = [word.value for word in exc.keywords if word.arg == "error"]  # unknown_name(..., error=SchemaError)
        exc = given[0] if given else exc.func
    name = exc.id if isinstance(exc, ast.Name) else exc.attr if isinstance(exc, ast.Attribute) else ""
    name = MADE_BY.get(name, name)
    return name if name.endswith(("Error", "Warning")) else None


def faults_of_function(function: Any, *, is_property: bool = False) -> list[str]:
    text = function.__doc__ or ""
    if not text.strip():
        return ["has no docstring"]
    faults = []
    found = sections(text)
    signature = inspect.signature(function)
    if not is_property:
        expected = [name for name in signature.parameters if name not in ("self", "cls")]
        documented = listed(found, "parameters")
        faults += [f"parameter '{name}' is not documented" for name in expected if name not in documented]
        faults += [
            f"parameter '{name}' is documented and not in the signature" for name in documented if name not in expected
        ]
        gives = signature.return_annotation not in (None, "None", "NoReturn", inspect.Signature.empty)
        if gives and not {"returns", "yields"} & set(found):
            faults.append("has no Returns section")
        if not gives and "returns" in found:
            faults.append("has a Returns section and returns nothing")
    named = {str(item.annotation).rpartition(".")[2] for item in found["raises"].value} if "raises" in found else set()
    faults += [f"raises {name}, which is not in its Raises section" for name in sorted(raised(function) - named)]
    return faults


def faults_of_class(kind: type) -> list[str]:
    """The class itself: its text, its fields or the parameters of its constructor, and what making one raises."""
    text = kind.__doc__ or ""
    if not text.strip() or text.startswith(f"{kind.__name__}("):  # what dataclass writes itself
        return ["has no docstring"]
    faults = []
    found = sections(text)
    named = {str(item.annotation).rpartition(".")[2] for item in found["raises"].value} if "raises" in found else set()
    if dataclasses.is_dataclass(kind) or getattr(kind, "_is_protocol", False):
        described = field_docs(kind)
        fields = [one.name for one in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else _annotated(kind)
        faults += [
            f"field '{name}' has no text under it" for name in fields if name[0] != "_" and name not in described
        ]
        own = kind.__init__ if dataclasses.is_dataclass(kind) else None  # written by hand it may take what is no field
        taken = [] if own is None or _generated(own) else [*inspect.signature(own).parameters][1:]
        more = [name for name in taken if name not in fields]
        documented = listed(found, "parameters") + listed(found, "attributes")
        faults += [f"parameter '{name}' is not documented" for name in more if name not in documented]
        faults += [
            f"'{name}' is documented in the docstring; write it under the field"
            for name in documented
            if name not in more
        ]
        checks = vars(kind).get("__post_init__")
    else:
        checks = vars(kind).get("__init__")
        if checks is not None:
            expected = [name for name in inspect.signature(checks).parameters if name != "self"]
            documented = listed(found, "parameters")
            faults += [f"parameter '{name}' is not documented" for name in expected if name not in documented]
            faults += [f"'{name}' is documented and is no parameter" for name in documented if name not in expected]
    if checks is not None and inspect.isfunction(checks) and not _generated(checks):
        faults += [f"raises {name}, which is not in its Raises section" for name in sorted(raised(checks) - named)]
    return faults


def _annotated(kind: type) -> list[str]:
    return [name for name in vars(kind).get("__annotations__", {}) if name[0] != "_"]


def _generated(function: Any) -> bool:
    return function.__code__.co_filename.startswith("<")


def faults(thing: Any) -> dict[str, list[str]]:
    """Everything that is missing, by the name of what it is missing from."""
    name = REFERENCE.path_of(thing)
    if not inspect.isclass(thing):
        return {name: found} if (found := faults_of_function(thing)) else {}
    all_faults = {name: faults_of_class(thing)}
    for member, value in REFERENCE.members(thing).items():
        function = REFERENCE.plain_function(value)
        inherited = inspect.getdoc(value) if not function.__doc__ else None
        if inherited:  # the method of a parent class says it
            continue
        all_faults[f"{name}.{member}"] = faults_of_function(
            function, is_property=isinstance(value, property | cached_property)
        )
    return {where: found for where, found in all_faults.items() if found}


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_public_is_documented(name):
    found = faults(PUBLIC[name])
    told = "\n".join(f"{where} {fault}" for where, all_faults in found.items() for fault in all_faults)
    assert not found, f"{told}\n{HOW.format(name=next(iter(found)))}"


@pytest.mark.parametrize("kind", [*synthesizers, *flow_synthesizers])
def test_every_option_of_a_method_is_documented(kind):
    method = synthesizers[kind] if kind in synthesizers else flow_synthesizers[kind]
    missing = [one["name"] for one in options_of(method) if not one["description"]]
    assert not missing, (
        f"{REFERENCE.path_of(method)}: write a text under each of the fields {', '.join(missing)}: what the option "
        "does and which values it takes."
    )
    assert not faults_of_class(method)


def test_every_family_has_its_page():
    marks = [REFERENCE.MARK.findall(page.read_text()) for page in (REPOSITORY / "docs" / "reference").glob("*.md")]
    assert sorted(name for found in marks for name in found) == sorted(FAMILIES)
    page = REFERENCE.on_page_markdown("# Functions\n\n<!-- reference: functions -->\n")
    assert re.search(r"^::: understudy\.[a-z_.]+\.plan$", page, flags=re.MULTILINE)
    page = REFERENCE.on_page_markdown("<!-- reference: methods -->\n")
    assert all(f"## {kind.name}\n" in page for kind in FAMILIES["methods"])
    assert "| `split` |  | How the budget is divided" in page


class Documented:
    """Stands for a class with faults."""

    def good(self, rows: int) -> int:
        """Do.

        Parameters
        ----------
        rows
            How many.

        Returns
        -------
        int
            As many.

        Raises
        ------
        ValueError
            If there are none.
        """
        if not rows:
            raise ValueError("none")
        return rows

    def bad(self, rows: int) -> int:
        """Do.

        Parameters
        ----------
        columns
            Not there.
        """
        if not rows:
            raise ValueError("none")
        return rows

    def silent(self) -> None: ...


@dataclasses.dataclass
class Fields:
    """One field with a text, one without."""

    told: int
    """What it is."""
    untold: int


def test_faults_are_found():
    assert faults_of_function(Documented.good) == []
    assert faults_of_function(Documented.bad) == [
        "parameter 'rows' is not documented",
        "parameter 'columns' is documented and not in the signature",
        "has no Returns section",
        "raises ValueError, which is not in its Raises section",
    ]
    assert faults_of_function(Documented.silent) == ["has no docstring"]
    assert faults_of_class(Fields) == ["field 'untold' has no text under it"]
