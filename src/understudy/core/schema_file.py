"""Schema files: the public description of a table as TOML that a person reviews and a program reads.

The file says everything a :class:`~understudy.core.schema.Schema` says, so ``parse_schema(write_schema(schema))`` has
the fingerprint of ``schema``. A schema file is public, so messages about it quote it.
"""

from __future__ import annotations

import datetime
import math
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from understudy.core.derived_attributes import Case, Derived
from understudy.core.discovered_codes import DISCOVER, read_classification
from understudy.core.file_format import read_file_format
from understudy.core.folders import as_path
from understudy.core.identifiers import Identifier
from understudy.core.rules import Asked, Order, Ratio, Rule
from understudy.core.schema import Attribute, Schema, Special, as_number
from understudy.core.schema_lines import (
    attribute_lines,
    condition_lines,
    derived_lines,
    file_lines,
    rule_lines,
    toml_key,
    toml_value,
)
from understudy.core.structural_zeros import Condition, Impossible
from understudy.core.survey_lines import read_design, read_weight, survey_lines
from understudy.core.workload import quoted
from understudy.errors import InputError, SchemaError, UnknownNameError, unknown_name

VERSION = 1
TOP_KEYS = (
    "version", "draft", "file", "attribute", "derived", "impossible", "rule", "ignore", "identifier", "workload",
    "weight", "design",
)  # fmt: skip
WORKLOAD_KEYS = ("table", "question", "predict")
RULE_KEYS = {
    "asked": ("asked", "asked_if", "otherwise", "if_missing"),
    "order": ("order",),
    "ratio": ("ratio", "at_least", "at_most"),
}
CONDITION_KEYS = ("levels", "below", "above")
KIND_OF_KEY: dict[str, str] = {
    "name": "a text",
    "levels": 'a list of texts, whole numbers or booleans, or "discover"',
    "edges": "a list of numbers or dates",
    "integer": "true or false",
    "outside": "a text",
    "missing": "true or false",
    "special": 'a table of codes and labels such as { -8 = "not applicable" }',
    "ordered": "true or false",
    "label": "a text",
    "level_labels": "a list of texts",
    "tree": 'a list of paths such as "health/nurse", one for each level',
    "distances": "a list of numbers for each level",
    "density": "a text",
    "decimals": "a whole number",
    "always_measure": "true or false",
    "bounds": "a list of two numbers or dates",
    "heavy_tail": "true or false",
    "clock": '"minutes" or "seconds"',
    "scale": "a number",
    "measured_in": "a text",
    "spikes": "a list of numbers",
    "cuts": "a list of numbers or dates",
    "found": "true or false",
    "inside": "a list of pairs of a number or date and a share",
    "most_codes": "a whole number above 0",
    "longest_code": "a whole number above 0",
    "prefixes": "a list of whole numbers",
    "among": "a list of texts, or the path of a CSV file",
    "parents": "a list of texts",
}
DERIVED_KINDS = {list: "a list", str: "a text", dict: "a table"}
# Keys of [[derived]] and the fields they fill.
DERIVED_KEYS = {
    "name": "name",
    "label": "label",
    "from": "sources",
    "function": "function",
    "edges": "edges",
    "levels": "levels",
    "map": "mapping",
    "cases": "cases",
    "default": "default",
}


def read_schema(path: str | os.PathLike[str]) -> Schema:
    r"""The schema in a TOML file.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    Schema
        The schema, checked.

    Raises
    ------
    InputError
        If there is no such file or it cannot be read.
    SchemaError
        If the file is not TOML, or does not describe a schema. The message names the attribute and what was expected.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "people.toml")
    >>> _ = file.write_text('version = 1\n[[attribute]]\nname = "sex"\nlevels = ["F", "M"]\n')
    >>> read_schema(file).names
    ('sex',)
    """
    text, where = schema_text(path)
    return parse_schema(text, where, folder=Path(path).parent)


def schema_text(path: str | os.PathLike[str]) -> tuple[str, str]:
    """The text of a schema file, and how messages name it."""
    where = str(as_path(path, "the schema"))
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        raise InputError(f"schema file {where} does not exist.") from None
    except IsADirectoryError:
        raise InputError(f"schema file {where} is a directory; give the TOML file inside it.") from None
    except (OSError, ValueError) as problem:
        raise InputError(f"schema file {where} cannot be read ({_reason(problem)}).") from None
    try:
        return content.decode("utf-8-sig"), where
    except UnicodeDecodeError as problem:
        line = content[: problem.start].count(b"\n") + 1
        raise InputError(f"schema file {where} is not UTF-8 text (line {line}); save it as UTF-8.") from None


def parse_schema(text: str, where: str = "schema", *, folder: Path | None = None) -> Schema:
    """The schema written in TOML text; ``where`` names the text in messages, and ``folder`` is where the paths of
    classifications begin.

    >>> parse_schema('version = 1\\n[[attribute]]\\nname = "sex"\\nlevels = ["F", "M"]').names
    ('sex',)
    """
    data = toml_of(text, where)
    try:
        if "table" in data:
            raise SchemaError("it describes linked tables ([[table]]); read it with read_linked_schema.")
        return schema_of(data, folder or Path())
    except (SchemaError, UnknownNameError) as problem:  # the latter: an impossible combination of unknown attributes
        raise SchemaError(f"{where}: {problem}") from None


def toml_of(text: str, where: str) -> dict[str, Any]:
    """What TOML text says, or what is wrong with it."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        line = "" if re.search(r"line \d+", str(problem)) else f" (line {len(text.splitlines())})"
        raise SchemaError(f"{where} is not valid TOML: {problem}{line}.") from None
    except ValueError:  # Python refuses to read a whole number of thousands of digits
        raise SchemaError(f"{where} is not a schema: it holds a number with too many digits.") from None
    except RecursionError:
        raise SchemaError(f"{where} is not a schema: its values are nested too deeply.") from None


def schema_of(data: Mapping[str, Any], folder: Path) -> Schema:
    """The schema of one table, from what its file says."""
    for key in data:
        if key not in TOP_KEYS:
            raise unknown_name("key", key, TOP_KEYS, error=SchemaError)
    if "version" not in data:
        raise SchemaError(f"the schema does not say its version; begin it with the line version = {VERSION}.")
    if data["version"] != VERSION or isinstance(data["version"], bool):
        raise SchemaError(f"version ({data['version']!r}) is not understood; this program reads version {VERSION}.")
    draft = data.get("draft", False)
    if not isinstance(draft, bool):
        raise SchemaError(f"draft ({draft!r}) must be true or false.")
    if draft:
        raise SchemaError(
            "this schema is a draft. Its levels and edges may have been learned from confidential data: a person must "
            "review each of them, replace what is not public knowledge, and then remove the line draft = true."
        )
    names: list[str] = []
    for table in tables_in(data, "ignore"):
        for key in table:
            if key != "columns":
                raise unknown_name("key of [[ignore]]", key, ["columns"], error=SchemaError)
        columns = table.get("columns")
        if not isinstance(columns, list) or not all(isinstance(column, str) for column in columns):
            raise SchemaError('[[ignore]]: columns must be a list of texts such as ["id", "name"].')
        names += columns
    return Schema(
        attributes=tuple(
            _attribute(table, number, folder) for number, table in enumerate(tables_in(data, "attribute"), 1)
        ),
        impossible=tuple(
            Impossible(conditions=conditions_of(table, "impossible combination"))
            for table in tables_in(data, "impossible")
        ),
        derived=tuple(_derived(table, number) for number, table in enumerate(tables_in(data, "derived"), 1)),
        rules=tuple(_rule(table, number) for number, table in enumerate(tables_in(data, "rule"), 1)),
        ignore=tuple(names),
        identifiers=tuple(_identifier(table, number) for number, table in enumerate(tables_in(data, "identifier"), 1)),
        workload=tuple(_need(table, number) for number, table in enumerate(tables_in(data, "workload"), 1)),
        file=read_file_format(data["file"]) if "file" in data else None,
        weight=read_weight(data["weight"]) if "weight" in data else None,
        design=read_design(data["design"]) if "design" in data else None,
    )


def _identifier(table: Mapping[str, Any], number: int) -> Identifier:
    for key in table:
        if key not in ("name", "fake"):
            raise unknown_name(f"identifier number {number}: key", key, ["name", "fake"], error=SchemaError)
    if "name" not in table:
        raise SchemaError(f"identifier number {number} has no name.")
    return Identifier(**table)


def _need(table: Mapping[str, Any], number: int) -> str:
    """What one [[workload]] asks for, as a question; a table is a cross-tabulation."""
    where = f"workload number {number}"
    for key in table:
        if key not in WORKLOAD_KEYS:
            raise unknown_name(f"{where}: key", key, WORKLOAD_KEYS, error=SchemaError)
    if len(table) != 1:
        raise SchemaError(
            f'{where} must have one of table = ["sex", "age"], question = "mean(age, where=sex == \'F\')" and '
            'predict = "income".'
        )
    ((key, value),) = table.items()
    if key == "table":
        if not isinstance(value, list) or not value or not all(isinstance(name, str) for name in value):
            raise SchemaError(f'{where}: table ({_shown(value)}) must be a list of attributes such as ["sex", "age"].')
        return f"crosstab({', '.join(map(quoted, value))})"
    if not isinstance(value, str):
        raise SchemaError(f"{where}: {key} ({_shown(value)}) must be a text.")
    return f"predict({quoted(value)})" if key == "predict" else value


def _rule(table: Mapping[str, Any], number: int) -> Rule:
    """One [[rule]]: who is asked, an order or a ratio."""
    where = f"rule number {number}"
    kind = next((key for key in RULE_KEYS if key in table), None)
    if kind is None:
        raise SchemaError(
            f'{where} must have asked = ["births"], order = ["start", "end"] or ratio = ["rent", "income"].'
        )
    for key in table:
        if key not in RULE_KEYS[kind]:
            raise unknown_name(f"{where}: key", key, RULE_KEYS[kind], error=SchemaError)
    names = [table[kind]] if isinstance(table[kind], str) else table[kind]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SchemaError(f"{where}: {kind} ({_shown(names)}) must be a list of names of attributes.")
    if kind == "order":
        return Order(attributes=tuple(names))
    if kind == "ratio":
        return Ratio(attributes=tuple(names), at_least=table.get("at_least"), at_most=table.get("at_most"))
    conditions, otherwise = table.get("asked_if"), table.get("otherwise")
    if not isinstance(conditions, dict):
        raise SchemaError(
            f'{where}: say who is asked, such as asked_if = {{ sex = "female", age = {{ above = 15 }} }}.'
        )
    if not isinstance(otherwise, str | None):
        raise SchemaError(f"{where}: otherwise ({_shown(otherwise)}) must be a text.")
    return Asked(
        attributes=tuple(names), conditions=conditions_of(conditions, where), otherwise=otherwise,
        if_missing=table.get("if_missing", "open"),
    )  # fmt: skip


def tables_in(data: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Every table that a file writes with two pairs of brackets under a key."""
    tables = data.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SchemaError(f"write [[{key}]] with two pairs of brackets, once for each.")
    return tables


def _attribute(table: dict[str, Any], number: int, folder: Path) -> Attribute:
    name = table.get("name")
    if not isinstance(name, str):
        said = "has no name" if name is None else f"has a name ({name!r}) that is not a text"
        raise SchemaError(f"attribute number {number} {said}.")
    for key, value in table.items():
        if key not in KIND_OF_KEY:
            raise unknown_name(f"attribute '{name}': key", key, KIND_OF_KEY, error=SchemaError)
        if not _fits(key, value):
            raise SchemaError(f"attribute '{name}': {key} ({_shown(value)}) must be {KIND_OF_KEY[key]}.")
    fields = dict(table)
    if "special" in fields:
        ends = (*fields.get("edges", ()), *fields.get("bounds", ()))
        dates = any(isinstance(edge, datetime.date) for edge in ends)
        fields["special"] = tuple((_code(name, key, dates), label) for key, label in fields["special"].items())
    if isinstance(fields.get("among"), str):
        if "parents" in fields:
            raise SchemaError(f"attribute '{name}': a classification file says the parents itself; leave parents out.")
        codes, parents = read_classification(name, folder, fields["among"])
        fields |= {"among": codes, "parents": parents}
    if "inside" in fields:
        fields["inside"] = tuple((start, share) for start, share in fields["inside"])
    return Attribute(**fields)


def _fits(key: str, value: object) -> bool:
    """Whether a value has the TOML type of its key; what it says is checked by the attribute itself."""
    if key in ("integer", "missing", "ordered", "always_measure", "heavy_tail", "found"):
        return isinstance(value, bool)
    if key in ("most_codes", "longest_code"):
        return type(value) is int and value != 0  # in Python, 0 is the default
    if key == "decimals":
        return type(value) is int
    if (key == "levels" and value == DISCOVER) or (key == "among" and isinstance(value, str)):
        return True
    if key in ("name", "outside", "label", "density", "measured_in", "clock"):
        return isinstance(value, str)
    if key == "scale":
        return isinstance(value, int | float) and not isinstance(value, bool)
    if key == "special":
        return isinstance(value, dict) and all(isinstance(label, str) for label in value.values())

    def edge(item: object) -> bool:
        return isinstance(item, int | float | datetime.date | datetime.time) and not isinstance(item, bool)

    accepted: dict[str, Callable[[object], bool]] = {
        "levels": lambda item: isinstance(item, str | int),
        "inside": lambda item: isinstance(item, list) and len(item) == 2 and all(map(edge, item)),
        **dict.fromkeys(("edges", "bounds", "spikes", "cuts"), edge),
        "prefixes": lambda item: type(item) is int,
        **dict.fromkeys(("level_labels", "among", "parents"), lambda item: isinstance(item, str)),
        "tree": lambda item: isinstance(item, str),
        "distances": lambda item: isinstance(item, list),
    }
    return isinstance(value, list) and all(map(accepted[key], value))


def _code(name: str, text: str, dates: bool) -> Special:
    """A special code: TOML keys are text, so the kind of the edges says what it means. What is no number is a text."""
    if dates:
        try:
            return datetime.date.fromisoformat(text)
        except ValueError:
            raise SchemaError(f"attribute '{name}': special code '{text}' must be a date such as 1900-01-01.") from None
    if as_number(text) is None:
        return text
    number = int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
    if isinstance(number, float) and not math.isfinite(number):
        raise SchemaError(f"attribute '{name}': special code '{text}' must be finite.")
    return number


def conditions_of(table: Mapping[str, Any], where: str) -> tuple[tuple[str, Condition], ...]:
    """Conditions on attributes, as pairs of a name and a condition."""
    conditions = []
    for name, value in table.items():
        if isinstance(value, dict):
            for key in value:
                if key not in CONDITION_KEYS:
                    raise unknown_name(f"{where}: key of '{name}'", key, CONDITION_KEYS, error=SchemaError)
            levels, bounds = value.get("levels", []), {k: v for k, v in value.items() if k != "levels"}
        else:
            levels, bounds = value if isinstance(value, list) else [value], {}
        if not isinstance(levels, list) or not all(isinstance(v, str | int | float | datetime.date) for v in levels):
            raise SchemaError(f"{where}: '{name}' must list values, or be {{ below = x }} or {{ above = x }}.")
        for word, bound in bounds.items():
            if not isinstance(bound, str | int | float | datetime.date) or isinstance(bound, bool):
                raise SchemaError(f"{where}: {word} of '{name}' ({_shown(bound)}) must be one value.")
        if not levels and not bounds:
            raise SchemaError(f"{where}: '{name}' has an empty condition; list values, or give below or above.")
        conditions.append((name, Condition(levels=tuple(levels), **bounds)))
    return tuple(conditions)


def _derived(table: dict[str, Any], number: int) -> Derived:
    name = table.get("name")
    if not isinstance(name, str):
        raise SchemaError(f"derived attribute number {number} needs a name that is a text.")
    where = f"derived attribute '{name}'"
    for key in table:
        if key not in DERIVED_KEYS:
            raise unknown_name(f"{where}: key", key, DERIVED_KEYS, error=SchemaError)
    for key, kind in {"from": list, "function": str, "label": str, "edges": list, "levels": list, "map": dict,
                      "cases": list}.items():  # fmt: skip
        if key in table and not isinstance(table[key], kind):
            raise SchemaError(f"{where}: {key} ({_shown(table[key])}) must be {DERIVED_KINDS[kind]}.")
    for key in ("from", "function"):
        if key not in table:
            raise SchemaError(f"{where} needs '{key}'.")
    sources = table["from"]
    if not all(isinstance(source, str) for source in sources):
        raise SchemaError(f"{where}: from must be a list of names of attributes.")
    numbers_or_dates = _fits("edges", table.get("edges", []))
    if not numbers_or_dates:
        raise SchemaError(f"{where}: edges must be {KIND_OF_KEY['edges']}.")
    fields = {DERIVED_KEYS[key]: value for key, value in table.items()}
    fields["cases"] = tuple(_case(case, f"{where}: case {i}") for i, case in enumerate(table.get("cases", []), 1))
    return Derived(**fields)


def _case(case: object, where: str) -> Case:
    if not isinstance(case, dict) or set(case) != {"when", "value"} or not isinstance(case["when"], dict):
        raise SchemaError(f'{where} must be like {{ when = {{ sex = "F" }}, value = "woman" }}.')
    return Case(when=conditions_of(case["when"], where), value=case["value"])


def write_schema(schema: Schema) -> str:
    """Write a schema as TOML text. Reading it back gives a schema with the same fingerprint.

    Parameters
    ----------
    schema
        The schema.

    Returns
    -------
    str
        The text of a schema file.

    Raises
    ------
    InputError
        If it is no schema.

    Examples
    --------
    >>> schema = Schema(attributes=(Attribute(name="sex", levels=("F", "M")),))
    >>> parse_schema(write_schema(schema), "text").fingerprint == schema.fingerprint
    True
    """
    if not isinstance(schema, Schema):
        raise InputError("write_schema needs a Schema.")
    lines = [f"version = {VERSION}"]
    if schema.file is not None:
        lines += file_lines(schema.file)
    for attribute in schema.attributes:
        lines += ["", "[[attribute]]", *attribute_lines(attribute)]
    for derived in schema.derived:
        lines += ["", "[[derived]]", *derived_lines(derived)]
    for rule in schema.impossible:
        lines += ["", "[[impossible]]", *condition_lines(rule)]
    for one in schema.rules:
        lines += ["", "[[rule]]", *rule_lines(one)]
    for need in schema.workload:
        lines += ["", "[[workload]]", f"question = {toml_value(need)}"]
    for identifier in schema.identifiers:
        lines += ["", "[[identifier]]", f"name = {toml_value(identifier.name)}"]
        lines += [f"fake = {toml_value(identifier.fake)}"] if identifier.fake else []
    lines += survey_lines(schema, toml_value, toml_key)
    if schema.ignore:
        lines += ["", "[[ignore]]", f"columns = {toml_value(list(schema.ignore))}"]
    return "\n".join(lines) + "\n"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _reason(problem: Exception) -> str:
    return (problem.strerror if isinstance(problem, OSError) else None) or type(problem).__name__
