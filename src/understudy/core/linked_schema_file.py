"""Schema files with linked tables: ``[[table]]``, ``[roles]``, and attributes that say which table they belong to.

Everything about one table is written and read as in a file with one table (``core.schema_file``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from understudy.core import schema_file, schema_lines
from understudy.core.household_roles import ROLES, HouseholdDerived, Roles
from understudy.core.linked_rules import Gap
from understudy.core.linked_schema import COMPOSITION, SIZE, LinkedSchema
from understudy.core.linked_survey import linked_survey_lines, refuse_listed, weights_by_table
from understudy.core.schema import Schema
from understudy.core.structural_zeros import Impossible
from understudy.errors import SchemaError, UnknownNameError, UnsupportedError, unknown_name

TOP_KEYS = ("version", "draft", "file", "table", "roles", "attribute", "derived", "impossible", "rule", "ignore",
            "weight", "design")  # fmt: skip
TABLE_KEYS = ("name", "id", "parent", "at_least", "at_most", "beyond")
DERIVED_KEYS = ("table", "name", "function", "of", "age", "edges")
ROLE_KEYS = (
    "column", "reference", "partner", "child", "age", "sex", "adult", "partner_within", "partner_sex",
    "child_younger", "most",
)  # fmt: skip
SLOT_NAMES = (*ROLES, "member")


def read_any_schema(path: str | os.PathLike[str]) -> Schema | LinkedSchema:
    r"""Read a schema file, of one table or of linked tables.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    Schema or LinkedSchema
        A ``LinkedSchema`` if the file has ``[[table]]``.

    Raises
    ------
    InputError
        If there is no such file or it cannot be read.
    SchemaError
        If the file does not describe a schema.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "people.toml")
    >>> _ = file.write_text('version = 1\n[[attribute]]\nname = "sex"\nlevels = ["F", "M"]\n')
    >>> type(read_any_schema(file)).__name__
    'Schema'
    """
    text, where = schema_file.schema_text(path)
    return parse_any_schema(text, where, folder=Path(path).parent)


def parse_any_schema(text: str, where: str = "schema", *, folder: Path | None = None) -> Schema | LinkedSchema:
    """The schema written in TOML text, of one table or of linked tables."""
    data = schema_file.toml_of(text, where)
    if "table" not in data:
        return schema_file.parse_schema(text, where, folder=folder)
    try:
        return _linked(data, folder or Path())
    except (SchemaError, UnknownNameError) as problem:
        raise SchemaError(f"{where}: {problem}") from None


def read_linked_schema(path: str | os.PathLike[str]) -> LinkedSchema:
    r"""Read the schema of two linked tables, such as households and persons.

    Parameters
    ----------
    path
        The TOML file.

    Returns
    -------
    LinkedSchema
        The schema, checked.

    Raises
    ------
    InputError
        If there is no such file or it cannot be read.
    SchemaError
        If the file has no ``[[table]]``, or does not describe a schema.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "homes.toml")
    >>> _ = file.write_text('''version = 1
    ... [[table]]
    ... name = "households"
    ... id = "hid"
    ... [[table]]
    ... name = "persons"
    ... parent = "households"
    ... at_most = 4
    ... [[attribute]]
    ... table = "households"
    ... name = "tenure"
    ... levels = ["owner", "tenant"]
    ... [[attribute]]
    ... table = "persons"
    ... name = "sex"
    ... levels = ["F", "M"]
    ... ''')
    >>> read_linked_schema(file).wide.names
    ('tenure', 'size', 'composition', 'member_sex', 'fellow_sex')
    """
    schema = read_any_schema(path)
    if not isinstance(schema, LinkedSchema):
        raise SchemaError(f"{path} describes one table; a schema of linked tables has [[table]] twice.")
    return schema


def _linked(data: Mapping[str, Any], folder: Path) -> LinkedSchema:
    for key in data:
        if key not in TOP_KEYS:
            raise unknown_name("key", key, TOP_KEYS, error=SchemaError)
    parent, child = _two_tables(schema_file.tables_in(data, "table"))
    if not isinstance(child.get("at_most"), int):
        raise SchemaError(f"table '{child['name']}' needs at_most, the most rows that belong to one of its parent.")
    if "id" not in parent:
        raise SchemaError(f"table '{parent['name']}' needs id, the column that both tables are linked by.")
    own: dict[str, list[dict[str, Any]]] = {parent["name"]: [], child["name"]: []}
    for number, table in enumerate(schema_file.tables_in(data, "attribute"), 1):
        where = table.get("table")
        if where not in own:
            raise unknown_name(f"attribute number {number} ('{table.get('name')}'): table", str(where), list(own),
                               error=SchemaError)  # fmt: skip
        own[where].append({key: value for key, value in table.items() if key != "table"})
    for name, listed in own.items():
        if not listed:
            raise SchemaError(f"table '{name}' has no attribute; give at least one with table = \"{name}\".")
    rules = _rules(data, {name: {one.get("name") for one in listed} for name, listed in own.items()})
    listed_rules = schema_file.tables_in(data, "rule")
    ordered = [rule for rule in listed_rules if _is_order(rule)]
    orders = tuple(
        (str(rule["order"][0]).replace(".", "_", 1), str(rule["order"][1]).replace(".", "_", 1))
        for rule in ordered
        if "by" not in rule
    )
    others = [rule for rule in listed_rules if not _is_order(rule)]
    common = {key: data[key] for key in ("version", "draft", "file") if key in data}
    shared = {"ignore": data.get("ignore", [])}
    weights = weights_by_table(data, parent["name"], child["name"])
    survey = {name: {"weight": weights[name]} if name in weights else {} for name in own}
    if "design" in data:
        survey[parent["name"]]["design"] = data["design"]
    households = schema_file.schema_of(
        {**common, **shared, **survey[parent["name"]], "attribute": own[parent["name"]],
         "impossible": rules[parent["name"]]},
        folder,
    )  # fmt: skip
    members = schema_file.schema_of(
        {**common, **shared, **survey[child["name"]], "attribute": own[child["name"]],
         "impossible": rules[child["name"]], "rule": others},
        folder,
    )  # fmt: skip
    for one, where in ((households, parent["name"]), (members, child["name"])):
        refuse_listed(one, {table.get("name") for table in own[where]})
    return LinkedSchema(
        households=households,
        members=members,
        household_table=parent["name"],
        member_table=child["name"],
        household_id=parent["id"],
        member_id=child.get("id", ""),
        at_most=child["at_most"],
        at_least=child.get("at_least", 1),
        beyond=child.get("beyond", "error"),
        roles=_roles(data["roles"]) if "roles" in data else None,
        across=tuple(
            Impossible(conditions=schema_file.conditions_of(table, "impossible across members")) for table in rules[""]
        ),
        orders=orders,
        gaps=tuple(_gap(rule) for rule in ordered if "by" in rule),
        derived=tuple(_derived(table, parent["name"]) for table in schema_file.tables_in(data, "derived")),
    )


def _two_tables(tables: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The table of households and the table of members."""
    named: dict[str, dict[str, Any]] = {}
    for number, table in enumerate(tables, 1):
        for key in table:
            if key not in TABLE_KEYS:
                raise unknown_name(f"[[table]] number {number}: key", key, TABLE_KEYS, error=SchemaError)
        for key in ("name", "id", "parent", "beyond"):
            if key in table and (not isinstance(table[key], str) or not table[key]):
                raise SchemaError(f"[[table]] number {number}: {key} must be a text.")
        if "name" not in table:
            raise SchemaError(f"[[table]] number {number} has no name.")
        if table["name"] in named:
            raise SchemaError(f"two tables are called '{table['name']}'.")
        named[table["name"]] = table
    for table in tables:
        if "parent" in table and table["parent"] not in named:
            raise unknown_name(f"table '{table['name']}': parent", table["parent"], list(named), error=SchemaError)
    roots = [table for table in tables if "parent" not in table]
    for table in tables:
        seen, above = {table["name"]}, table
        while "parent" in above:
            above = named[above["parent"]]
            if above["name"] in seen:
                raise SchemaError(f"table '{table['name']}' is its own ancestor; parents must not form a cycle.")
            seen.add(above["name"])
    if len(tables) != 2 or len(roots) != 1:
        raise UnsupportedError(
            f"there are {len(tables)} tables, {len(roots)} without a parent; two linked tables are offered, and one of "
            "them is the parent of the other."
        )
    (child,) = (table for table in tables if "parent" in table)
    return roots[0], child


def _rules(data: Mapping[str, Any], names: Mapping[str, set[Any]]) -> dict[str, list[dict[str, Any]]]:
    """Every [[impossible]] under the table it speaks of; under '' what it says across members."""
    found: dict[str, list[dict[str, Any]]] = {**{name: [] for name in names}, "": []}
    for table in schema_file.tables_in(data, "impossible"):
        flat = _flat(table)
        home = next((name for name, own in names.items() if set(flat) <= own), "")
        found[home].append(flat)
    return found


def _flat(table: Mapping[str, Any]) -> dict[str, Any]:
    """TOML reads ``child.age = ...`` as a table in a table."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if key in SLOT_NAMES and isinstance(value, dict):
            flat |= {f"{key}_{name}": condition for name, condition in value.items()}
        else:
            flat[key] = value
    return flat


def _is_order(rule: Mapping[str, Any]) -> bool:
    names = rule.get("order")
    if not isinstance(names, list) or not any("." in str(name) for name in names):
        return False
    if len(names) != 2 or not set(rule) <= {"order", "by"}:
        raise SchemaError(
            'an order across members names two attributes: order = ["child.age", "reference.age"], with by = 15 if '
            "the first is at least 15 less."
        )
    return True


def _gap(rule: Mapping[str, Any]) -> Gap:
    (below, attribute), (above, other) = (str(name).split(".", 1) if "." in str(name) else ("", str(name))
                                          for name in rule["order"])  # fmt: skip
    if attribute != other:
        raise SchemaError(f"order with by compares one attribute of two roles, not '{attribute}' with '{other}'.")
    return Gap(attribute=attribute, below=below, above=above, by=rule["by"])


def _roles(table: object) -> Roles:
    if not isinstance(table, dict):
        raise SchemaError("write [roles] with one pair of brackets.")
    for key in table:
        if key not in ROLE_KEYS:
            raise unknown_name("[roles]: key", key, ROLE_KEYS, error=SchemaError)
    given = dict(table)
    for key in ("reference", "partner", "child"):
        if key in given:
            values = given[key] if isinstance(given[key], list) else [given[key]]
            given[key] = tuple(str(value) for value in values)
    if "most" in given and not isinstance(given["most"], dict):
        raise SchemaError("[roles]: most must be like { child = 6, other = 4 }.")
    return Roles(**given)


def _derived(table: Mapping[str, Any], households: str) -> HouseholdDerived:
    for key, value in table.items():
        if key not in DERIVED_KEYS:
            raise unknown_name("[[derived]] of linked tables: key", key, DERIVED_KEYS, error=SchemaError)
        if key == "edges" and not isinstance(value, list):
            raise SchemaError("[[derived]]: edges must be a list of numbers.")
        if key != "edges" and not isinstance(value, str):
            raise SchemaError(f"[[derived]]: {key} must be a text.")
    for key in ("name", "function", "of"):
        if key not in table:
            raise SchemaError(f"[[derived]] of linked tables needs {key}.")
    if table.get("table", households) != households:
        raise UnsupportedError(f"derived '{table['name']}': only columns of '{households}' are derived from members.")
    if table["name"] in (SIZE, COMPOSITION):
        raise SchemaError(f"'{table['name']}' is always there; leave it out of [[derived]].")
    given = {key: value for key, value in table.items() if key not in ("table", "edges")}
    return HouseholdDerived(**given, edges=tuple(table.get("edges", ())))


def write_linked_schema(schema: LinkedSchema) -> str:
    """Write a schema of linked tables as TOML text. Reading it back gives the same fingerprint.

    Parameters
    ----------
    schema
        The schema.

    Returns
    -------
    str
        The text of a schema file.

    Examples
    --------
    >>> from understudy.demo.families import FAMILIES_SCHEMA
    >>> schema = parse_any_schema(FAMILIES_SCHEMA)
    >>> parse_any_schema(write_linked_schema(schema)).fingerprint == schema.fingerprint
    True
    """
    text = schema_lines.toml_value
    lines = [f"version = {schema_file.VERSION}"]
    if schema.members.file is not None:
        lines += schema_lines.file_lines(schema.members.file)
    lines += ["", "[[table]]", f"name = {text(schema.household_table)}", f"id = {text(schema.household_id)}"]
    lines += ["", "[[table]]", f"name = {text(schema.member_table)}", f"parent = {text(schema.household_table)}"]
    lines += [f"id = {text(schema.member_id)}"] if schema.member_id else []
    lines += [] if schema.at_least else ["at_least = 0"]
    lines += [f"at_most = {schema.at_most}", f"beyond = {text(schema.beyond)}"]
    if schema.roles is not None:
        lines += ["", "[roles]", *_role_lines(schema.roles)]
    for name, one in ((schema.household_table, schema.households), (schema.member_table, schema.members)):
        for attribute in (one_of for one_of in one.attributes if one_of.name not in one.weights):
            lines += ["", "[[attribute]]", f"table = {text(name)}", *schema_lines.attribute_lines(attribute)]
    for rule in (*schema.households.impossible, *schema.members.impossible):
        lines += ["", "[[impossible]]", *schema_lines.condition_lines(rule)]
    for rule in schema.across:
        lines += ["", "[[impossible]]", *schema_lines.condition_lines(rule)]
    for one_rule in schema.members.rules:
        lines += ["", "[[rule]]", *schema_lines.rule_lines(one_rule)]
    for pair in schema.orders:
        dotted = [name.replace("_", ".", 1) for name in pair]
        lines += ["", "[[rule]]", f"order = {text(dotted)}"]
    for gap in schema.gaps:
        dotted = [f"{role}.{gap.attribute}" for role in (gap.below, gap.above)]
        lines += ["", "[[rule]]", f"order = {text(dotted)}", f"by = {gap.by}"]
    for derived in schema.derived:
        lines += ["", "[[derived]]", f"table = {text(schema.household_table)}"]
        fields = ("name", "function", "of", "age")
        lines += [f"{key} = {text(getattr(derived, key))}" for key in fields if getattr(derived, key)]
        lines += [f"edges = {text(list(derived.edges))}"] if derived.edges else []
    for name, one in ((schema.household_table, schema.households), (schema.member_table, schema.members)):
        lines += linked_survey_lines(name, one, text, schema_lines.toml_key)
    if schema.members.ignore:
        lines += ["", "[[ignore]]", f"columns = {text(list(schema.members.ignore))}"]
    return "\n".join(lines) + "\n"


def _role_lines(roles: Roles) -> list[str]:
    text = schema_lines.toml_value
    lines = []
    for key in ROLE_KEYS:
        value = getattr(roles, key)
        if key == "most":
            lines += [f"most = {{ {', '.join(f'{role} = {most}' for role, most in value)} }}"] if value else []
        elif isinstance(value, tuple):
            lines += [f"{key} = {text(list(value))}"] if value else []
        elif isinstance(value, int) or value:
            lines.append(f"{key} = {text(value)}")
    return lines
