"""Reading and writing the parts [weight] and [design] of a schema file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from understudy.core.sampling_scheme import read_sampling, sampling_lines
from understudy.core.survey_design import BINS, Design, Total, Weight
from understudy.errors import SchemaError, unknown_name

if TYPE_CHECKING:
    from understudy.core.schema import Edge, Schema

WEIGHT_KEYS = ("column", "bounds", "edges", "origin", "total", "public_design", "outside", "sums_to", "bins",
               "decimals", "label", "other")  # fmt: skip
DESIGN_KEYS = ("sampling_strata", "clusters", "protects", "largest_cluster", "design_effects", "measure_effects",
               "measured_effects", "population", "populations", "replicate_weights", "sampling")  # fmt: skip


def read_weight(table: object, where: str = "[weight]") -> Weight:
    """The weight that a schema file describes."""
    if not isinstance(table, dict):
        raise SchemaError("write [weight] once, with one pair of brackets; further weights are [[weight.other]].")
    for key in table:
        if key not in WEIGHT_KEYS:
            raise unknown_name(f"key of {where}", key, WEIGHT_KEYS, error=SchemaError)
    if "column" not in table:
        raise SchemaError(f"{where} needs column, the name of the column that has the weights.")
    fields = dict(table)
    totals, other = fields.pop("total", []), fields.pop("other", [])
    for name, given in (("total", totals), ("other", other)):
        if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
            raise SchemaError(f"write [[weight.{name}]] with two pairs of brackets, once for each.")
    for one in totals:
        if set(one) != {"attribute", "totals"} or not isinstance(one["totals"], dict):
            raise SchemaError("[[weight.total]] needs attribute, and totals such as { F = 510, M = 490 }.")
    made = tuple(Total(attribute=one["attribute"], totals=one["totals"]) for one in totals)
    return Weight(**fields, totals=made, other=tuple(read_weight(one, "[[weight.other]]") for one in other))


def read_design(table: object) -> Design:
    """The design that a schema file describes."""
    if not isinstance(table, dict):
        raise SchemaError("write [design] once, with one pair of brackets.")
    for key in table:
        if key not in DESIGN_KEYS:
            raise unknown_name("key of [design]", key, DESIGN_KEYS, error=SchemaError)
    for key in ("design_effects", "measured_effects", "populations"):
        if not isinstance(table.get(key, {}), dict):
            raise SchemaError(f"[design]: {key} must be a table such as {{ North = 510 }}.")
    fields = dict(table)
    if "sampling" in fields:
        fields["sampling"] = read_sampling(fields["sampling"])
    return Design(**fields)


def survey_lines(schema: Schema, written: Any, key: Any) -> list[str]:
    """The lines of a schema file; ``written`` writes a TOML value, ``key`` a key."""
    lines: list[str] = []
    if schema.weight is not None:
        lines += ["", "[weight]", *_weight_lines(schema.weight, written)]
        for total in schema.weight.totals:
            lines += ["", "[[weight.total]]", f"attribute = {written(total.attribute)}"]
            lines.append(f"totals = {_pairs(total.totals, written, key)}")
        for other in schema.weight.other:
            lines += ["", "[[weight.other]]", *_weight_lines(other, written)]
    if schema.design is not None:
        lines += ["", "[design]"]
        usual = Design()
        for name in DESIGN_KEYS:
            value = getattr(schema.design, name)
            if value == getattr(usual, name) or name == "sampling":
                continue
            if name in ("design_effects", "measured_effects", "populations"):
                lines.append(f"{name} = {_pairs(value, written, key)}")
            else:
                lines.append(f"{name} = {written(list(value) if isinstance(value, tuple) else value)}")
        if schema.design.sampling is not None:
            lines += sampling_lines(schema.design.sampling, written)
    return lines


def _weight_lines(weight: Weight, written: Any) -> list[str]:
    lines = [f"column = {written(weight.column)}"]
    usual = replace(weight, origin="design", totals=(), public_design=False, outside="error", sums_to="population",
                    bins=BINS, decimals=None, label="", other=())  # fmt: skip
    for name in ("bounds", "edges", "origin", "public_design", "outside", "sums_to", "bins", "decimals", "label"):
        value = getattr(weight, name)
        if name in ("bounds", "edges"):
            lines += [f"{name} = {written(list(value))}"] if value else []
        elif value != getattr(usual, name):
            lines.append(f"{name} = {written(value)}")
    return lines


def _pairs(pairs: tuple[tuple[str, Edge], ...], written: Any, key: Any) -> str:
    return f"{{ {', '.join(f'{key(name)} = {written(value)}' for name, value in pairs)} }}"
