"""A draft of the schema of two linked files, made by looking at them. It is confidential until a person reviewed it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from understudy.core.schema_lines import toml_value
from understudy.engines.reading.draft import draft_schema, write_draft
from understudy.engines.reading.guessed_format import guess_encoding
from understudy.engines.systems.local.inputs import csv_paths, open_reader
from understudy.errors import InputError

Texts = dict[str, NDArray[Any]]
AGES = ("age", "alter", "edad", "idade", "eta", "leeftijd", "alder", "wiek", "vek", "ika")
MOST_ROLES = 30  # levels of a column of relationships
ROLES = """# '{column}' has the value {reference} exactly once in every {parent}: it seems to be the relationship to the
# reference person. Put its other values ({others}) under partner and child; everybody else is 'other'.
# Without [roles] all members are alike.
[roles]
column = {column_text}
reference = [{reference_text}]
# partner = ["..."]
# child = ["..."]"""


def draft_linked_schema(
    data: Mapping[str, Any], *, out: str | os.PathLike[str] | None = None, **reading: Any
) -> str:  # fmt: skip
    r"""Draft a commented schema of two linked tables. The draft is confidential, and refused until it was reviewed.

    Both tables are drafted as ``draft_schema`` drafts one. The key is the column of both that is unique in one of them,
    which is the table of households. The number of members, their numbers and their relationship are proposed.

    Parameters
    ----------
    data
        The two tables by name, such as ``{"households": "h.csv", "persons": "p.csv"}``.
    out
        Write the draft into this new file too.
    **reading
        How files are written, as for ``draft_schema``: ``missing_text``, ``delimiter``, ``decimal_comma``,
        ``encoding``, ``codebook``.

    Returns
    -------
    str
        The text of the draft, as TOML.

    Raises
    ------
    InputError
        If there are not two tables, or no column links them.

    Examples
    --------
    >>> import pyarrow as pa
    >>> homes = pa.table({"h": [f"a{k}" for k in range(300)], "tenure": ["owner", "tenant", "owner"] * 100})
    >>> people = pa.table({"h": [f"a{k // 2}" for k in range(600)], "sex": ["F", "M"] * 300})
    >>> print("\n".join(draft_linked_schema({"homes": homes, "people": people}).splitlines()[9:18]))
    [[table]]
    name = "homes"
    id = "h"
    <BLANKLINE>
    # the largest has 2; give a number that is known without the data.
    [[table]]
    name = "people"
    parent = "homes"
    at_most = 2
    """
    if len(data) != 2:
        raise InputError(f"two linked tables are offered; {len(data)} are named.")
    texts = {name: _texts(one, reading) for name, one in data.items()}
    parent, child, key = _link(texts)
    drafts = {name: _blocks(draft_schema(one, **reading)) for name, one in data.items()}
    own = {name: {_name(block) for block in blocks if _name(block)} for name, blocks in drafts.items()}
    members = texts[child]
    _, owner = np.unique(members[key], return_inverse=True)
    most = int(np.bincount(owner).max())
    number = _number(members, key, owner, most)
    relation = _relation(members, {key, number}, owner)
    left_out = {key, number, relation[0]} if relation else {key, number}
    doubled = sorted((own[parent] & own[child]) - left_out)
    lines = [drafts[child][0]]
    # One description serves both files. Letters that one of them needs do no harm in the other, if that has none.
    files = [one for name in (child, parent) for one in drafts[name] if re.search(r"^\[file\]", one, re.MULTILINE)]
    lines += sorted(files, key=lambda block: "\nencoding = " not in block)[:1]
    lines.append(f"[[table]]\nname = {toml_value(parent)}\nid = {toml_value(key)}")
    told = f"[[table]]\nname = {toml_value(child)}\nparent = {toml_value(parent)}\n"
    told += f"id = {toml_value(number)}\n" if number else ""
    lines.append(f"# the largest has {most}; give a number that is known without the data.\n{told}at_most = {most}")
    if relation:
        lines.append(_roles(relation, members[relation[0]], parent))
    for table, names in ((parent, own[parent]), (child, own[child] - set(doubled))):
        blocks = {_name(block): block for block in drafts[table] if _name(block) in names - left_out}
        first = [name for name in blocks if table == child and _is_age(name)]
        for name in (*first, *(name for name in blocks if name not in first)):
            lines.append(blocks[name].replace("[[attribute]]", f"[[attribute]]\ntable = {toml_value(table)}", 1))
        if table == child and not first:
            lines[-1] = "# put the attribute that ties members together first; age is a good one.\n" + lines[-1]
    ignored = _ignored(drafts[parent]) | _ignored(drafts[child]) | set(doubled)
    if ignored - left_out:
        why = f"# {', '.join(doubled)}: in both files; taken from '{parent}'.\n" if doubled else ""
        lines.append(f"{why}[[ignore]]\ncolumns = {toml_value(sorted(ignored - left_out))}")
    text = "\n\n".join(lines) + "\n"
    if out is not None:
        write_draft(text, out)
    return text


def _texts(data: Any, reading: Mapping[str, Any]) -> Texts:
    """Every column as texts."""
    how = {name: reading[name] for name in ("missing_text", "delimiter", "encoding") if reading.get(name) is not None}
    if "encoding" not in how and (paths := csv_paths(data)):
        how["encoding"] = guess_encoding(paths)
    reader = open_reader(data, names=(), **how)
    batches = list(reader.batches(list(reader.columns)))
    if not batches:
        raise InputError("the data have no rows, so there is nothing to draft a schema from.")
    table = pa.Table.from_batches(batches)
    return {
        name: np.asarray(table[name].cast(pa.string()).fill_null("").to_pylist(), dtype=np.str_)
        for name in table.column_names
        if not pa.types.is_nested(table[name].type)
    }


def _link(texts: Mapping[str, Texts]) -> tuple[str, str, str]:
    """The table of households, that of members, and the column that links them."""
    (one, first), (other, second) = texts.items()
    for key in first:
        if key not in second:
            continue
        alone = [len(np.unique(columns[key])) == len(columns[key]) for columns in (first, second)]
        if alone[0] != alone[1] and len(np.intersect1d(first[key], second[key])):
            return (one, other, key) if alone[0] else (other, one, key)
    raise InputError(
        f"no column links '{one}' and '{other}': expected one that both have, with a value of its own in every row of "
        "one of them."
    )


def _number(members: Texts, key: str, owner: NDArray[np.int64], most: int) -> str:
    """The column that numbers members within a household, if there is one."""
    for name, values in members.items():
        found, codes = np.unique(values, return_inverse=True)
        size = len(found)
        apart = len(np.unique(owner * size + codes)) == len(owner)
        # Two partners may always differ in their sex, which numbers nobody.
        numbers = size <= 2 * most and all(str(value).strip().isdecimal() for value in found)
        if name != key and apart and (numbers or size == len(owner)):
            return name
    return ""


def _relation(members: Texts, taken: set[str], owner: NDArray[np.int64]) -> tuple[str, str] | None:
    """A column and its value that every household has exactly once, and that not everybody has."""
    homes = int(owner.max()) + 1
    for name, values in members.items():
        levels, codes = np.unique(values, return_inverse=True)
        if name in taken or not 2 <= len(levels) <= MOST_ROLES:
            continue
        for place, level in enumerate(levels):
            counts = np.bincount(owner[codes == place], minlength=homes)
            if (counts == 1).all():
                return name, str(level)
    return None


def _roles(relation: tuple[str, str], values: NDArray[Any], parent: str) -> str:
    column, reference = relation
    others = [str(one) for one in np.unique(values) if str(one) != reference]
    return ROLES.format(
        column=column, reference=reference, parent=parent, others=", ".join(others), column_text=toml_value(column),
        reference_text=toml_value(reference),
    )  # fmt: skip


def _blocks(text: str) -> list[str]:
    return [block.strip("\n") for block in re.split(r"\n\s*\n", text.strip())]


def _name(block: str) -> str:
    """The name of the attribute that a block of a draft describes."""
    found = re.search(r"^\[\[attribute\]\]\nname = \"(.*)\"$", block, re.MULTILINE)
    return found.group(1) if found else ""


def _ignored(blocks: list[str]) -> set[str]:
    found = (re.search(r"^\[\[ignore\]\]\ncolumns = \[(.*)\]$", block, re.MULTILINE) for block in blocks)
    return {name for one in found if one for name in re.findall(r"\"(.*?)\"", one.group(1))}


def _is_age(name: str) -> bool:
    return any(part in AGES for part in re.split(r"[\W_\d]+", name.lower()))
