"""A plan: everything a run will do to the data, written down and reviewable before the data are opened."""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from understudy.core.folders import as_path
from understudy.errors import InputError, unknown_name
from understudy.privacy.exact.gaussian_profile import Bound
from understudy.privacy.promise.definition import Definition, Unit, definition_from_json
from understudy.privacy.promise.event import Event, event_from_json

Option = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One use of the gate: its public label, the margin it looks at, and what it costs."""

    label: str
    """A public name of the step."""
    margin: tuple[str, ...]
    """The attributes it looks at."""
    action: str
    """``measure``, ``select``, ``compare`` or ``draw``."""
    event: Event
    """What it costs."""
    cells: int = 0
    """The number of cells of the table."""
    standard_deviation: float | None = None
    """Of the noise on one cell, for people to read."""
    repeats: int = 1
    """Adaptive methods make at most this many such steps."""

    def to_json(self) -> dict[str, object]:
        """The step as plain values, for plans and manifests.

        Returns
        -------
        dict[str, object]
            The fields.
        """
        return {
            "label": self.label,
            "margin": list(self.margin),
            "action": self.action,
            "event": self.event.to_json(),
            "cells": self.cells,
            "standard_deviation": self.standard_deviation,
            "repeats": self.repeats,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one run may do, written down before the data are opened. It is made from public facts only.

    Raises
    ------
    InputError
        If an adaptive plan does not name the one bound that keeps its budget.
    """

    schema_fingerprint: str
    """The hash of the schema that the plan is for."""
    method: str
    """The name of the method."""
    budget: Definition
    """The guarantee of the whole release."""
    unit: Unit
    """Who is protected."""
    copies: int
    """How many synthetic tables are made."""
    rows: int | None
    """The rows of each synthetic table; ``None``: the method chooses."""
    records: int | None
    """The public number of confidential rows, if it was given."""
    steps: tuple[Step, ...]
    """Every use of the gate, with its cost."""
    options: Mapping[str, Option] = field(default_factory=dict)
    """The options of the method."""
    adaptive: bool = False
    """Whether the run may spend less than the steps; otherwise it spends exactly them."""
    notes: tuple[str, ...] = ()
    """Remarks for the people who review the plan."""
    read_by: Bound = "concentrated"
    """For adaptive methods: the bound by which they keep (epsilon, delta)."""
    criteria: Mapping[str, float] = field(default_factory=dict)
    """What the steward demands of the release, written down beforehand: names and numbers. A report says of each
    whether it is met."""
    finding: int = 0
    """How many of the steps, the first ones, find bins that the schema leaves open."""
    left: Definition | None = None
    """What is left of the budget for the method, where something is found first."""
    record: str = "row"
    """What a record of the data is called, where the plan is put in words."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "criteria", checked_criteria(self.criteria))
        if self.adaptive and self.read_by == "least":
            raise InputError(
                "a plan that chooses on the way names the one bound that keeps its budget, 'concentrated', 'gaussian' "
                "or 'composed'; the least is for plans that are fixed in advance."
            )
        if not 0 <= self.finding <= len(self.steps) or bool(self.finding) != (self.left is not None):
            raise InputError("a plan that finds something says with how many of its steps, and what is then left.")

    @property
    def by(self) -> Bound:
        """By which bound the loss of its events may be read; what is fixed in advance may take the least."""
        return self.read_by if self.adaptive else "least"

    def to_json(self) -> dict[str, object]:
        """The plan as plain values, for files and manifests.

        Returns
        -------
        dict[str, object]
            The fields, with a version.
        """
        return {
            "version": 1,
            "schema_fingerprint": self.schema_fingerprint,
            "method": self.method,
            "budget": self.budget.to_json(),
            "unit": self.unit.to_json(),
            "copies": self.copies,
            "rows": self.rows,
            "records": self.records,
            "steps": [step.to_json() for step in self.steps],
            "options": dict(self.options),
            "adaptive": self.adaptive,
            "notes": list(self.notes),
            **({} if self.read_by == "concentrated" else {"read_by": self.read_by}),
            **({"criteria": dict(self.criteria)} if self.criteria else {}),
            **({} if self.left is None else {"finding": self.finding, "left": self.left.to_json()}),
            **({} if self.record == "row" else {"record": self.record}),
        }

    @property
    def hash(self) -> str:
        """A SHA-256 hash of everything in the plan; it goes into the ledger and the manifest."""
        text = json.dumps(self.to_json(), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(step.label)}</td><td>{step.action}</td><td>{escape(' x '.join(step.margin))}</td>"
            f"<td>{step.cells:,}</td>"
            f"<td>{'' if step.standard_deviation is None else f'{step.standard_deviation:.4g}'}</td></tr>"
            for step in self.steps[:50]
        )
        more = f"<p>... and {len(self.steps) - 50} more steps</p>" if len(self.steps) > 50 else ""
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        return (
            f"<div><b>Plan</b> for {escape(self.method)}: {escape(str(self.budget))}. "
            f"{escape(self.budget.protects(self.unit, self.record))}"
            "<table><tr><th>step</th><th>action</th><th>attributes</th><th>cells</th><th>noise sd</th></tr>"
            f"{rows}</table>{more}<ul>{notes}</ul><code>{self.hash}</code></div>"
        )

    @property
    def events(self) -> tuple[Event, ...]:
        """Every event the plan allows, repeats written out."""
        return tuple(step.event for step in self.steps for _ in range(step.repeats))


MOST_REPEATS = 1_000_000


def _check_kinds(data: Mapping[str, Any]) -> None:
    """Refuses a document whose parts are of other kinds than a plan's; a missing part is refused where it is read."""
    steps = data["steps"]
    wanted: list[tuple[object, type | tuple[type, ...], str]] = [
        (data["schema_fingerprint"], str, "schema_fingerprint"),
        (data["method"], str, "method"),
        (data.get("adaptive", False), bool, "adaptive"),
        (data.get("read_by", "concentrated"), str, "read_by"),
        *((data.get(name), (int, type(None)), name) for name in ("rows", "records")),
        (data["copies"], int, "copies"),
        (data.get("finding", 0), int, "finding"),
        *((value, (str, int, float, bool), f"option {name}") for name, value in data.get("options", {}).items()),
        *((note, str, "notes") for note in data.get("notes", ())),
        *((step["label"], str, "label") for step in steps),
        *((step["action"], str, "action") for step in steps),
        *((name, str, "margin") for step in steps for name in step["margin"]),
        *((step.get("cells", 0), int, "cells") for step in steps),
        *((step.get("repeats", 1), int, "repeats") for step in steps),
        *((step.get("standard_deviation"), (float, int, type(None)), "standard_deviation") for step in steps),
    ]
    for value, kind, name in wanted:
        if not isinstance(value, kind):
            raise InputError(f"this is not a plan: its {name} is of another kind than a plan's.")
    if data.get("read_by", "concentrated") not in ("concentrated", "gaussian", "composed"):
        raise InputError(f"this is not a plan: its loss cannot be read by '{data['read_by']}'.")
    if not all(1 <= step.get("repeats", 1) <= MOST_REPEATS for step in steps):
        raise InputError(f"this is not a plan: a step is repeated between 1 and {MOST_REPEATS:,} times.")


def plan_from_json(data: Mapping[str, Any]) -> Plan:
    """Read back what ``Plan.to_json`` wrote; anything missing or unknown is an error."""
    try:
        if data["version"] != 1:
            raise InputError(f"this plan has version {data['version']}; this program understands version 1.")
        _check_kinds(data)
        return Plan(
            schema_fingerprint=data["schema_fingerprint"],
            method=data["method"],
            budget=definition_from_json(data["budget"]),
            unit=Unit.from_json(data["unit"]),
            copies=data["copies"],
            rows=data.get("rows"),
            records=data.get("records"),
            options=dict(data.get("options", {})),
            adaptive=data.get("adaptive", False),
            notes=tuple(data.get("notes", ())),
            read_by=data.get("read_by", "concentrated"),
            criteria=data.get("criteria", {}),
            finding=data.get("finding", 0),
            left=definition_from_json(data["left"]) if "left" in data else None,
            record=str(data.get("record", "row")),
            steps=tuple(
                Step(
                    label=step["label"],
                    margin=tuple(step["margin"]),
                    action=step["action"],
                    event=event_from_json(step["event"]),
                    cells=step.get("cells", 0),
                    standard_deviation=step.get("standard_deviation"),
                    repeats=step.get("repeats", 1),
                )
                for step in data["steps"]
            ),
        )
    except InputError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as problem:
        raise InputError(f"this is not a complete plan ({type(problem).__name__}: {problem}).") from None


# What a steward demands of a release before it is made: `[criteria]` of a plan, each with a name and a number.
#
# Criteria are written down before the data are touched, from public facts and from what the release is for. They say
# nothing about the data, so they are public, and the hash of the plan covers them: they cannot be fitted to what came
# out.


AT_MOST, AT_LEAST = "at_most", "at_least"
# The name of each criterion, and what is compared with its number.
CRITERIA: Mapping[str, str] = {
    "epsilon_at_most": "epsilon of the whole release",
    "delta_at_most": "delta of the whole release",
    "pairs_good_percent_at_least": "percent of the tables of two attributes that are good",
    "pairs_poor_percent_at_most": "percent of the tables of two attributes that are poor",
    "told_apart_percent_at_most": "percent of pairs of a real and a synthetic row that a classifier tells apart",
    "gain_per_1000_at_most": "people of 1,000 about whom an intruder is right because they took part (upper end)",
    "told_false_per_1000_at_most": "people of 1,000 about whom something false would be believed",
}


def checked_criteria(given: object) -> dict[str, float]:
    """The criteria, if each has a known name and a number that can be met.

    >>> checked_criteria({"epsilon_at_most": 2})
    {'epsilon_at_most': 2.0}
    """
    if not isinstance(given, Mapping):
        raise InputError("criteria must be a table of names and numbers, such as epsilon_at_most = 1.")
    found: dict[str, float] = {}
    for name, number in given.items():
        if name not in CRITERIA:
            raise unknown_name("criterion", str(name), CRITERIA)
        found[name] = _number(name, number)
    return found


def _number(name: str, number: Any) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number) or number < 0:
        raise InputError(f"criterion {name} ({number!r}) must be a number of at least 0.")
    limit = 100 if "percent" in name else 1000 if "per_1000" in name else math.inf
    if number > limit:
        raise InputError(f"criterion {name} ({number!r}) must be at most {limit}.")
    return float(number)


# A plan as a TOML file: what a review board reads is what ``synthesize --plan`` runs.
#
# The file carries the hash of the plan. A file that was edited after the review no longer has its hash and is
# refused, so a signature on the hash is a signature on the run.


HEADER = """\
# The reviewed plan of one run. `understudy synthesize FILE --schema SCHEMA --plan THIS` does exactly this.
# Do not edit it: the hash below covers everything, and a changed plan is refused. Make another with `understudy plan`.
"""


def write_plan(plan: Plan) -> str:
    """Write a plan as TOML text; ``read_plan`` gives back an equal plan with the same hash.

    Parameters
    ----------
    plan
        The plan.

    Returns
    -------
    str
        The text of a plan file.

    Raises
    ------
    InputError
        If it is no plan.

    Examples
    --------
    >>> import understudy as us
    >>> schema = us.Schema(attributes=(us.Attribute(name="sex", levels=("F", "M")),))
    >>> "[budget]" in us.write_plan(us.plan(schema, budget=us.PureDP(epsilon=1)))
    True
    """
    if not isinstance(plan, Plan):
        raise InputError("write_plan needs a plan, which understudy.plan makes.")
    document = plan.to_json()
    tables = {key: document.pop(key) for key in ("budget", "unit", "options", "criteria") if key in document}
    steps = document.pop("steps")
    lines = [HEADER, f"hash = {_value(plan.hash)}", *_pairs(document)]
    for key, table in tables.items():
        lines += ["", f"[{key}]", *_pairs(table)]  # type: ignore[arg-type]
    for step in steps:  # type: ignore[attr-defined]
        lines += ["", "[[steps]]", *_pairs(step)]
    return "\n".join(lines) + "\n"


def parse_plan(text: str, where: str) -> Plan:
    """Read what ``write_plan`` wrote; a changed file is an error."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise InputError(f"{where} is not valid TOML: {problem}.") from None
    document.setdefault("steps", [])
    stated = document.pop("hash", None)
    plan = plan_from_json(document)
    if stated != plan.hash:
        raise InputError(
            f"{where} was changed after it was written: it states hash {str(stated)[:12]}..., and its contents have "
            f"{plan.hash[:12]}.... Make the plan again with `understudy plan`, and have it reviewed."
        )
    return plan


def read_plan(path: str | Path) -> Plan:
    """Read a plan file.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    Plan
        The plan.

    Raises
    ------
    InputError
        If the file cannot be read, is no plan, or was changed after it was written.

    Examples
    --------
    >>> import pathlib, tempfile, understudy as us
    >>> schema = us.Schema(attributes=(us.Attribute(name="sex", levels=("F", "M")),))
    >>> plan = us.plan(schema, budget=us.PureDP(epsilon=1))
    >>> file = pathlib.Path(tempfile.mkdtemp(), "plan.toml")
    >>> _ = file.write_text(us.write_plan(plan))
    >>> us.read_plan(file) == plan
    True
    """
    place = as_path(path, "the plan")
    if not place.is_file():
        raise InputError(f"{place} is not a file; expected a plan written by `understudy plan --out`.")
    try:
        return parse_plan(place.read_text(encoding="utf-8"), str(place))
    except UnicodeDecodeError:
        raise InputError(f"{place} is not UTF-8 text; expected a plan written by `understudy plan --out`.") from None


def _pairs(table: Mapping[str, object]) -> list[str]:
    # TOML has no null: what is absent reads back as None.
    return [f"{_key(key)} = {_value(value)}" for key, value in table.items() if value is not None]


def _key(key: str) -> str:
    bare = key.isascii() and key.replace("_", "").replace("-", "").isalnum()
    return key if bare else _value(key)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):  # a JSON string is a TOML basic string, but for the delete character
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(_pairs(value))} }}" if value else "{}"
    raise InputError(f"a plan cannot hold a {type(value).__name__}.")
