"""The lines of a schema file: each part of a schema as TOML that reads back as the same part."""

from __future__ import annotations

import datetime
import json
import re
from typing import Any

from understudy.core.derived_attributes import Derived
from understudy.core.discovered_codes import DISCOVER
from understudy.core.file_format import FileFormat
from understudy.core.rules import Order, Ratio, Rule
from understudy.core.schema import Attribute, Edge, Level
from understudy.core.structural_zeros import Condition, Impossible
from understudy.errors import SchemaError


def attribute_lines(attribute: Attribute) -> list[str]:
    """The lines of one [[attribute]]."""
    lines = [f"name = {toml_value(attribute.name)}"]
    if attribute.label:
        lines.append(f"label = {toml_value(attribute.label)}")
    lines += _bounds_lines(attribute) + _codes_lines(attribute)
    listed = () if attribute.open and attribute.most_codes else ("levels",)
    for key in (*listed, "level_labels", "tree", *(() if attribute.open else ("edges",))):
        if values := getattr(attribute, key):
            lines.append(f"{key} = {toml_value(list(values))}")
    if attribute.distances:
        lines.append(f"distances = [{', '.join(toml_value(list(row)) for row in attribute.distances)}]")
    if attribute.special:
        codes = ((code if isinstance(code, str) else toml_value(code), label) for code, label in attribute.special)
        lines.append(f"special = {{ {', '.join(f'{toml_key(code)} = {toml_value(label)}' for code, label in codes)} }}")
    lines += [f"{key} = true" for key in ("integer", "missing", "ordered", "always_measure") if getattr(attribute, key)]
    for key, usual in (("clock", ""), ("outside", "error"), ("decimals", None), ("density", "uniform")):
        if (value := getattr(attribute, key)) != usual:
            lines.append(f"{key} = {toml_value(value)}")
    return lines


def condition_lines(rule: Impossible) -> list[str]:
    """The lines of one [[impossible]]."""
    return [f"{toml_key(name)} = {_condition(condition)}" for name, condition in rule.conditions]


def file_lines(file: FileFormat) -> list[str]:
    """The lines of [file]."""
    lines = ["", "[file]"]
    for key in ("delimiter", "encoding", "decimal", "thousands", "dates", "unreadable"):
        if (value := getattr(file, key)) != getattr(_USUAL, key):
            lines.append(f"{key} = {toml_value(value)}")
    if file.missing_values:
        lines.append(f"missing_values = {toml_value(list(file.missing_values))}")
    lines += [f"{key} = true" for key in ("trim", "ignore_case") if getattr(file, key)]
    for name, column in file.columns:
        lines += ["", f"[file.columns.{toml_key(name)}]"]
        if column.missing_values:
            lines.append(f"missing_values = {toml_value(list(column.missing_values))}")
        if column.spellings:
            pairs = (f"{toml_key(text)} = {toml_value(level)}" for text, level in column.spellings)
            lines.append(f"spellings = {{ {', '.join(pairs)} }}")
        for key in ("decimal", "thousands", "dates", "unreadable"):
            if (value := getattr(column, key)) is not None:
                lines.append(f"{key} = {toml_value(value)}")
    return lines


_USUAL = FileFormat()


def _bounds_lines(attribute: Attribute) -> list[str]:
    if not attribute.bounds:
        return []
    lines = [f"bounds = {toml_value(list(attribute.bounds))}"]
    lines += [f"{key} = true" for key in ("heavy_tail", "found") if getattr(attribute, key)]
    if attribute.scale is not None:
        lines.append(f"scale = {toml_value(attribute.scale)}")
    if attribute.measured_in:
        lines.append(f"measured_in = {toml_value(attribute.measured_in)}")
    for key in ("spikes", "cuts"):
        if values := getattr(attribute, key):
            lines.append(f"{key} = {toml_value(list(values))}")
    if attribute.inside:
        lines.append(f"inside = {toml_value([list(pair) for pair in attribute.inside])}")
    return lines


def _codes_lines(attribute: Attribute) -> list[str]:
    if not attribute.most_codes:
        return []
    lines = ["found = true"] if attribute.found else [f"levels = {toml_value(DISCOVER)}"]
    lines += [f"{key} = {getattr(attribute, key)}" for key in ("most_codes", "longest_code")]
    for key in ("prefixes", "among", "parents"):
        lines += [f"{key} = {toml_value(list(values))}"] if (values := getattr(attribute, key)) else []
    return lines


def derived_lines(derived: Derived) -> list[str]:
    lines = [f"name = {toml_value(derived.name)}"]
    if derived.label:
        lines.append(f"label = {toml_value(derived.label)}")
    lines += [f"from = {toml_value(list(derived.sources))}", f"function = {toml_value(derived.function)}"]
    lines += [f"{key} = {toml_value(list(values))}" for key in ("edges", "levels") if (values := getattr(derived, key))]
    if derived.mapping:
        pairs = (f"{toml_key(text)} = {toml_value(level)}" for text, level in derived.mapping)
        lines.append(f"map = {{ {', '.join(pairs)} }}")
    if derived.cases:
        lines.append("cases = [")
        for case in derived.cases:
            when = ", ".join(f"{toml_key(name)} = {_condition(condition)}" for name, condition in case.when)
            lines.append(f"    {{ when = {{ {when} }}, value = {toml_value(case.value)} }},")
        lines.append("]")
    if derived.default is not None:
        lines.append(f"default = {toml_value(derived.default)}")
    return lines


def rule_lines(rule: Rule) -> list[str]:
    """The lines of one [[rule]]."""
    if isinstance(rule, Order):
        return [f"order = {toml_value(list(rule.attributes))}"]
    if isinstance(rule, Ratio):
        limits = {"at_least": rule.at_least, "at_most": rule.at_most}
        told = [f"{word} = {toml_value(limit)}" for word, limit in limits.items() if limit is not None]
        return [f"ratio = {toml_value(list(rule.attributes))}", *told]
    met = ", ".join(f"{toml_key(name)} = {_condition(condition)}" for name, condition in rule.conditions)
    lines = [f"asked = {toml_value(list(rule.attributes))}", f"asked_if = {{ {met} }}"]
    if rule.otherwise is not None:
        lines.append(f"otherwise = {toml_value(rule.otherwise)}")
    return lines if rule.if_missing == "open" else [*lines, f"if_missing = {toml_value(rule.if_missing)}"]


def _condition(condition: Condition) -> str:
    bounds = {"below": condition.below, "above": condition.above}
    parts = [f"{word} = {toml_value(bound)}" for word, bound in bounds.items() if bound is not None]
    if not parts:
        return toml_value(list(condition.levels))
    if condition.levels:
        parts.insert(0, f"levels = {toml_value(list(condition.levels))}")
    return f"{{ {', '.join(parts)} }}"


def toml_key(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z0-9_-]+", text) else toml_value(text)


def toml_value(value: Level | Edge | list[Any]) -> str:
    """One TOML value. JSON's escapes are a subset of TOML's, save that TOML also wants DEL escaped."""
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise SchemaError("the schema has a text that is not valid Unicode and cannot be written.") from None
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return value.isoformat() if isinstance(value, datetime.date) else repr(value)
