"""Survey weights and designs of linked tables: what they may say, and how a schema file says it.

A weight belongs to households or to members. That of a household is an attribute of it and stands for all its members.
Its bins are public, and no totals are declared: calibrating households to totals of persons is not offered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from understudy.core.schema import Attribute, Schema
from understudy.core.survey_design import Weight
from understudy.core.survey_lines import survey_lines
from understudy.errors import SchemaError, UnsupportedError, unknown_name

TABLE = "table"


def check_surveys(households: Schema, members: Schema) -> None:
    """Refuses what linked tables do not offer: bins that are to be found, and some weights and designs."""
    for schema in (households, members):
        _check_survey(schema)
        if schema.open:
            raise SchemaError(
                f"'{schema.open[0].name}' leaves its bins or codes open, which linked tables do not offer; give edges "
                "or levels."
            )
    if members.design is not None:
        raise SchemaError("[design] says how households were sampled; members have no design of their own.")


def weight_of_members(households: Schema, members: Schema) -> Weight | None:
    """The weight of a member: its own, or else that of its household, which every member has."""
    of_homes = households.weight
    if members.weight is None or of_homes is None:
        return members.weight or of_homes
    return replace(members.weight, other=(*members.weight.other, replace(of_homes, other=()), *of_homes.other))


def _check_survey(schema: Schema) -> None:
    """Refuses what a weight or a design of linked tables may not say."""
    weights = () if schema.weight is None else (schema.weight, *schema.weight.other)
    for one in weights:
        if one.bounds:
            low, high = one.bounds
            steps = [low * (high / low) ** (place / one.bins) for place in range(one.bins + 1)]
            if any(f"{left:.4g}" == f"{right:.4g}" for left, right in pairwise(steps)):
                raise SchemaError(f"weight '{one.column}': its bounds are too close for {one.bins} bins; give edges.")
            raise SchemaError(
                f"weight '{one.column}' of linked tables needs public edges: its bins are not found inside the budget. "
                f"For example edges = [{', '.join(f'{step:.4g}' for step in steps)}]; best are edges between which "
                "about equally many households lie, by public knowledge."
            )
        if one.totals:
            raise SchemaError(
                f"weight '{one.column}': linked tables are not calibrated to public totals. Leave [[weight.total]] "
                'out; origin = "nonresponse" says that the weight was adjusted.'
            )
    design = schema.design
    if design is None:
        return
    for name, given in (("clusters", design.clusters), ("measure_effects", design.measure_effects),
                        ("sampling", design.sampling)):  # fmt: skip
        if given:
            raise SchemaError(
                f"[design]: {name} is not offered for linked tables. A household is one unit there; larger clusters "
                "have design_effects."
            )


def without_requirement(schema: Schema) -> tuple[Attribute, ...]:
    """The attributes, with no weight that has to be measured with every other column of a household."""
    return tuple(replace(one, always_measure=False) if one.name in schema.weights else one for one in schema.attributes)


def weights_by_table(data: Mapping[str, Any], parent: str, child: str) -> dict[str, dict[str, Any]]:
    """What a schema file says of weights, under the table that each belongs to: that of households if none is named."""
    given = data.get("weight", [])
    found: dict[str, dict[str, Any]] = {}
    for table in given if isinstance(given, list) else [given]:
        if not isinstance(table, dict):
            raise SchemaError("write [weight] with one pair of brackets, or [[weight]] once for each table.")
        where = table.get(TABLE, parent)
        if where not in (parent, child):
            raise unknown_name("table of [weight]:", str(where), (parent, child), error=SchemaError)
        if where in found:
            raise SchemaError(f"table '{where}' has two main weights; write further ones as [[weight.other]].")
        found[where] = {key: value for key, value in table.items() if key != TABLE}
    return found


def linked_survey_lines(name: str, schema: Schema, written: Any, key: Any) -> list[str]:
    """The lines of a schema file about the weights and the design of one table."""
    lines: list[str] = []
    for line in survey_lines(schema, written, key):
        lines += ["[[weight]]", f"{TABLE} = {written(name)}"] if line == "[weight]" else [line]
    return lines


def refuse_listed(schema: Schema, listed: set[Any]) -> None:
    """A weight is an attribute by itself, so it is not listed as one."""
    for name in schema.weights:
        if name in listed:
            raise UnsupportedError(f"column '{name}' is a weight and an attribute; leave out the [[attribute]].")
