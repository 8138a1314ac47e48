"""A plan as a TOML file: what a review board reads is what ``synthesize --plan`` runs.

The file carries the hash of the plan. A file that was edited after the review no longer has its hash and is refused,
so a signature on the hash is a signature on the run.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path

from understudy.core.folders import as_path
from understudy.errors import InputError
from understudy.privacy.promise.plan import Plan, plan_from_json

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
