"""The reference pages of the site, from the docstrings. There is no list of names to keep.

A page in ``docs/reference/`` has a line ``<!-- reference: functions -->``. mkdocs calls ``on_page_markdown``, which
puts a directive of mkdocstrings there for every function or class of that family. The families are found from
what ``understudy`` exports: a name that becomes public is on its page, and a test asks for its documentation.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import sys
import types
import typing
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from typing import Any

MARK = re.compile(r"^<!-- reference: (?P<family>[a-z-]+) -->$", re.MULTILINE)


def exported() -> list[Any]:
    """Every function and class that ``understudy`` exports, by name."""
    import understudy as us

    return [getattr(us, name) for name in us.__all__ if not name.startswith("__")]


def for_plug_ins() -> list[Any]:
    """What the author of a plug-in writes (a class that is like these), and the helpers offered for it."""
    from understudy.core.registry import Registry
    from understudy.engines.engine import Engine
    from understudy.evaluation.shared import attack, measure
    from understudy.synth.shared.method import Synthesizer

    offered = [getattr(module, name) for module in (attack, measure) for name in module.__all__]
    defined = [one for one in offered if inspect.isclass(one) or inspect.isfunction(one)]
    return list(dict.fromkeys([Registry, Synthesizer, Engine, *defined]))


def families() -> dict[str, list[Any]]:
    """Everything that is public, by page.

    ``functions`` and ``values`` are exported; ``results`` are the classes that these hand back or hold; ``methods`` are
    the registered synthesizers; ``plug-ins`` are what the author of a plug-in writes, is given and hands back.
    """
    from understudy.commutes.shared.flow_method import flow_synthesizers
    from understudy.households.shared.family_method import family_synthesizers
    from understudy.synth.shared.method import synthesizers

    functions = [one for one in exported() if not inspect.isclass(one)]
    values = [one for one in exported() if inspect.isclass(one)]
    seen = set(values)
    results = list(_new(_returned(functions) | _returned(values) | _in_fields(values), seen))
    methods: list[Any] = [synthesizers[name] for name in synthesizers]
    methods += [flow_synthesizers[name] for name in flow_synthesizers]
    methods += [family_synthesizers[name] for name in family_synthesizers]
    plug_ins = for_plug_ins()
    seen.update(plug_ins)
    plug_ins += list(_new(_named(plug_ins), seen))
    return {
        "functions": functions,
        "values": values,
        "results": results,
        "methods": methods,
        "plug-ins": plug_ins,
    }


def members(kind: type) -> dict[str, Any]:
    """The public functions and properties that a class of ours defines or inherits from one of ours."""
    found: dict[str, Any] = {}
    for owner in reversed(kind.__mro__):
        if not owner.__module__.startswith("understudy"):
            continue
        for name, value in vars(owner).items():
            if not name.startswith("_") and isinstance(
                value, types.FunctionType | property | cached_property | classmethod | staticmethod
            ):
                found[name] = value
    return found


def plain_function(member: Any) -> Any:
    """The function behind a property, a class method or a static method."""
    if isinstance(member, property):
        return member.fget
    if isinstance(member, cached_property):
        return member.func
    return member.__func__ if isinstance(member, classmethod | staticmethod) else member


def path_of(thing: Any) -> str:
    """Where a function or class is defined, as an import would write it."""
    return f"{thing.__module__}.{thing.__qualname__}"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """mkdocs: put a family where its mark is: methods as tables of options, all others as directives."""

    def listed(match: re.Match[str]) -> str:
        show = method_page if match["family"] == "methods" else (lambda thing: f"::: {path_of(thing)}\n")
        return "\n".join(show(one) for one in families()[match["family"]])

    return MARK.sub(listed, markdown)


def method_page(kind: Any) -> str:
    """One method: what ``understudy methods NAME`` prints, and what its class says about it."""
    from understudy.synth.shared.method import options_of

    about = (inspect.getdoc(kind) or "").partition("\nRaises\n")[0].strip()
    rows = []
    for option in options_of(kind):
        default = "" if option["default"] in (None, "") else f"`{option['default']}`"
        rows.append(f"| `{option['name']}` | {default} | {option['description']} |")
    head = f"## {kind.name}\n\n{about}\n\nGuarantees: {', '.join(f'`{name}`' for name in kind.guarantees)}.\n"
    return "\n".join([head, "| option | default | what it says |", "|---|---|---|", *rows, ""])


def _new(found: set[type], seen: set[Any]) -> Iterator[type]:
    for kind in sorted(found - seen, key=lambda one: one.__name__):
        seen.add(kind)
        yield kind


def _returned(things: Iterable[Any]) -> set[type]:
    """Classes of ours in what functions, methods and properties return."""
    return _annotated(things, only=("return",))


def _in_fields(kinds: Iterable[type]) -> set[type]:
    """Classes of ours that the fields of some classes hold."""
    hints = [hint for kind in kinds if dataclasses.is_dataclass(kind) for hint in hints_of(kind).values()]
    return {found for hint in hints for found in _classes(hint)}


def _named(things: Iterable[Any]) -> set[type]:
    """Classes of ours anywhere in the signatures of functions and methods."""
    return _annotated(things, only=None)


def _annotated(things: Iterable[Any], only: tuple[str, ...] | None) -> set[type]:
    found: set[type] = set()
    for thing in things:
        for member in [*members(thing).values()] if inspect.isclass(thing) else [thing]:
            hints = hints_of(plain_function(member))
            for name, hint in hints.items():
                if only is None or name in only:
                    found |= set(_classes(hint))
    return found


def hints_of(thing: Any) -> dict[str, Any]:
    """The types in a signature or of fields, with the names that the module imports for the type checker only."""
    module = sys.modules[thing.__module__]
    return typing.get_type_hints(thing, vars(module) | _for_the_checker(module))


@cache
def _for_the_checker(module: types.ModuleType) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for block in ast.parse(inspect.getsource(module)).body:
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test):
            for line in block.body:
                if isinstance(line, ast.ImportFrom):
                    home = importlib.import_module(str(line.module))
                    names |= {one.asname or one.name: getattr(home, one.name) for one in line.names}
                elif isinstance(line, ast.Import):
                    names |= {one.asname or one.name: importlib.import_module(one.name) for one in line.names}
    return names


def _classes(hint: Any) -> Iterator[type]:
    for part in typing.get_args(hint):
        yield from _classes(part)
    if inspect.isclass(hint) and hint.__module__.startswith("understudy"):
        yield hint
