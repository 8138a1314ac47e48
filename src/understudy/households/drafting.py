"""A draft of the schema of linked tables, of two files or of one, made by looking at them.

It is confidential until a person reviewed it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from understudy.core.linked_schema import CHILDREN, COMPOSITION, SIZE
from understudy.core.schema_lines import toml_value
from understudy.engines.reading.draft import AMOUNT_NAME, draft_schema, write_draft
from understudy.engines.reading.guessed_format import guess_encoding
from understudy.engines.systems.local.inputs import csv_paths, open_reader
from understudy.errors import InputError, unknown_name
from understudy.households.source import as_whole_numbers

Texts = dict[str, NDArray[Any]]
AGES = ("age", "alter", "edad", "idade", "eta", "leeftijd", "alder", "wiek", "vek", "ika")
MOST_ROLES = 30  # levels of a column of relationships
PARTNER_WORDS = (
    "partner",
    "spouse",
    "husband",
    "wife",
    "conjoint",
    "ehepartner",
    "ehegatte",
    "esposo",
    "esposa",
    "coniuge",
)
CHILD_WORDS = (
    "child",
    "son",
    "daughter",
    "kind",
    "sohn",
    "tochter",
    "enfant",
    "fils",
    "fille",
    "hijo",
    "hija",
    "figlio",
)
PARENT, MEMBER = "households", "members"  # what the two tables of a flat file are called
ROLES = """# '{column}' has the value {reference} exactly once for every row of {parent}: it seems to be the
# relationship to the reference person. Put its other values under partner and child; everybody else is 'other':
# {others}
# Without [roles] all members are alike.
[roles]
column = {column_text}
reference = [{reference_text}]
# partner = [{partner}]
# child = [{child}]"""
GAPS = """# With both, rules can say how much younger a child is than each of its parents, in every synthetic
# household. Give years that are known without the data (1: no child is as old as its parent), for example:
# [[rule]]
# order = [{child}, {reference}]
# by = 15
# [[rule]]
# order = [{child}, {partner}]
# by = 1"""
RULE = """# No column says who is partner or child. If members are people who live together, a public rule on their
# age can, for example:
# [roles]
# age = {age}
# adult = 18
# partner_within = 15
# child_younger = 15"""
DERIVED = """# Sums and means of members can be columns of '{parent}'; with edges they are counted, and infer takes
# questions about them, for example:
# [[derived]]
# name = {name}
# function = "sum"
# of = {of}
# edges = {edges}"""
# What a remark of a draft says of columns that a release looks into by itself, which linked tables do not offer.
OPEN = re.compile(
    r"(?:,|^#) or let a release find .*\n(?:# (?:\[\[attribute\]\]|name = .*|levels = \"discover\"|bounds = .*|"
    r"heavy_tail = true)(?:\n|$))+",
    re.MULTILINE,
)


def draft_linked_schema(
    data: Any, *, household: str | None = None, out: str | os.PathLike[str] | None = None, **reading: Any
) -> str:  # fmt: skip
    r"""Draft a commented schema of two linked tables. The draft is confidential, and refused until it was reviewed.

    Both tables are drafted as ``draft_schema`` drafts one. Of two files the key is the column of both that is unique in
    one of them, which is the table of households. In one flat file ``household`` is the key, and what is the same for
    all members of every household belongs to the household. The number of members, their numbers and their relationship
    are proposed.

    Parameters
    ----------
    data
        The two tables by name, such as ``{"households": "h.csv", "persons": "p.csv"}``; or one flat file or frame with
        a row for each member.
    household
        For one flat file: the column that says which rows belong together.
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
        If there are not two tables and no ``household``, or nothing links them.

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
    found = _of_two(data, reading) if household is None else _of_one(data, household, reading)
    members, (parent, child), key = found.members, (found.parent, found.child), found.key
    _, owner = np.unique(members[key], return_inverse=True)
    most = int(np.bincount(owner).max())
    number = _number(members, key, owner, most)
    relation = None if found.empty else _relation(members, {key, number}, owner)
    left_out = {key, number, relation[0]} if relation else {key, number}
    lines = [found.blocks[child][0]]
    # One description serves both files. Letters that one of them needs do no harm in the other, if that has none.
    files = [
        one for name in (child, parent) for one in found.blocks[name] if re.search(r"^\[file\]", one, re.MULTILINE)
    ]
    lines += sorted(files, key=lambda block: "\nencoding = " not in block)[:1]
    lines.append(f"[[table]]\nname = {toml_value(parent)}\nid = {toml_value(key)}")
    told = "# some have no row here, which at_least = 0 allows for.\n" if found.empty else ""
    told += f"[[table]]\nname = {toml_value(child)}\nparent = {toml_value(parent)}\n"
    told += f"id = {toml_value(number)}\n" if number else ""
    told += "at_least = 0\n" if found.empty else ""
    lines.append(f"# the largest has {most}; give a number that is known without the data.\n{told}at_most = {most}")
    made = {SIZE, COMPOSITION, *((CHILDREN,) if relation else ())}  # counted from the members, and passed by in files
    blocks = {
        table: {_name(block): block for block in found.blocks[table] if _name(block) in names - left_out}
        for table, names in ((parent, found.own[parent] - made), (child, found.own[child] - found.own[parent]))
    }
    ages = [name for name in blocks[child] if _is_age(name)]
    if relation:
        lines.append(_roles(relation, members[relation[0]], parent))
        whole = [name for name in ages if re.search(r"^integer = true$", blocks[child][name], re.MULTILINE)]
        lines += [_gaps(name) for name in whole[:1]]
    elif ages and not found.empty:
        lines.append(RULE.format(age=toml_value(ages[0])))
    for table in (parent, child):
        first = [name for name in blocks[table] if table == child and name in ages]
        for name in (*first, *(name for name in blocks[table] if name not in first)):
            block = blocks[table][name].replace("[[attribute]]", f"[[attribute]]\ntable = {toml_value(table)}", 1)
            if table == parent and found.household_file and name in found.own[child]:
                block = f"# also in '{child}', where it is passed by.\n{block}"
            if table == child and not ages and name == next(iter(blocks[child])):
                block = f"# put the attribute that ties members together first; age is a good one.\n{block}"
            lines.append(OPEN.sub("", block))
    lines += _sums(blocks[child], parent)
    lines += _ignored(
        (found.blocks[parent], found.blocks[child]), left_out | made | set(blocks[parent]) | set(blocks[child])
    )
    text = "\n\n".join(lines) + "\n"
    if out is not None:
        write_draft(text, out)
    return text


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Linked:
    """Two linked tables as they were found: their names, the key, the members as texts, what was drafted of each."""

    parent: str
    child: str
    key: str
    members: Texts
    blocks: Mapping[str, list[str]]
    own: Mapping[str, set[str]]
    empty: bool = False  # whether a household has no member
    household_file: bool = False  # whether households have a file of their own


def _of_two(data: Any, reading: Mapping[str, Any]) -> _Linked:
    """The tables of two files, and the column that links them."""
    if not isinstance(data, Mapping) or len(data) != 2:
        count = f"{len(data)} are named" if isinstance(data, Mapping) else "one file is given"
        raise InputError(
            f"two linked tables are offered; {count}. For one flat file say which column is the household."
        )
    texts = {name: _texts(one, reading) for name, one in data.items()}
    parent, child, key = _link(texts)
    blocks = {name: _blocks(draft_schema(one, **reading)) for name, one in data.items()}
    homes, theirs = (as_whole_numbers(texts[name][key]) for name in (parent, child))
    return _Linked(
        parent=parent, child=child, key=key, members=texts[child], blocks=blocks, household_file=True,
        own={name: {_name(block) for block in drafted if _name(block)} for name, drafted in blocks.items()},
        empty=bool(len(np.setdiff1d(homes, theirs))),
    )  # fmt: skip


def _of_one(data: Any, household: str, reading: Mapping[str, Any]) -> _Linked:
    """The tables of one flat file: what is the same in all rows of every household belongs to the household."""
    if isinstance(data, Mapping):
        raise InputError("two files are linked by a column of both; household is for one flat file, so leave it out.")
    members = _texts(data, reading)
    if household not in members:
        raise unknown_name("household: column", household, list(members))
    names, first, owner = np.unique(members[household], return_index=True, return_inverse=True)
    if len(names) == len(owner):
        raise InputError(f"every row has a value of its own in '{household}', so no rows belong together.")
    blocks = _blocks(draft_schema(data, **reading))
    drafted = {_name(block) for block in blocks if _name(block)}
    above = {name for name in drafted if (members[name] == members[name][first][owner]).all()} - {household}
    return _Linked(
        parent=PARENT, child=MEMBER, key=household, members=members, blocks={PARENT: blocks, MEMBER: blocks},
        own={PARENT: above, MEMBER: drafted - above},
    )  # fmt: skip


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
        keys = as_whole_numbers(first[key]), as_whole_numbers(second[key])
        alone = [len(np.unique(columns[key])) == len(columns[key]) for columns in (first, second)]
        if alone[0] != alone[1] and len(np.intersect1d(*keys)):
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
        numbers = len(np.unique(owner * len(levels) + codes)) == len(owner)  # it numbers members, such as visits
        if name in taken or numbers or not 2 <= len(levels) <= MOST_ROLES:
            continue
        for place, level in enumerate(levels):
            counts = np.bincount(owner[codes == place], minlength=homes)
            if (counts == 1).all():
                return name, str(level)
    return None


def _roles(relation: tuple[str, str], values: NDArray[Any], parent: str) -> str:
    column, reference = relation
    others = [str(one) for one in np.unique(values) if str(one) != reference]
    said = {
        role: ", ".join(toml_value(one) for one in others if _has_word(one, words)) or '"..."'
        for role, words in (("partner", PARTNER_WORDS), ("child", CHILD_WORDS))
    }
    return ROLES.format(
        column=column, reference=reference, parent=parent, others=", ".join(others), column_text=toml_value(column),
        reference_text=toml_value(reference), **said,
    )  # fmt: skip


def _gaps(age: str) -> str:
    """A remark on how much younger a child is than its parents."""
    return GAPS.format(**{role: toml_value(f"{role}.{age}") for role in ("child", "reference", "partner")})


def _sums(blocks: Mapping[str, str], parent: str) -> list[str]:
    """A remark on columns that could be derived: for the first amount of members."""
    for name, block in blocks.items():
        edges = re.search(r"^edges = (\[.*\])$", block, re.MULTILINE)
        if edges and AMOUNT_NAME.fullmatch(name):
            total = toml_value(f"total_{name}")
            return [DERIVED.format(parent=parent, name=total, of=toml_value(name), edges=edges.group(1))]
    return []


def _blocks(text: str) -> list[str]:
    return [block.strip("\n") for block in re.split(r"\n\s*\n", text.strip())]


def _name(block: str) -> str:
    """The name of the attribute that a block of a draft describes."""
    found = re.search(r"^\[\[attribute\]\]\nname = \"(.*)\"$", block, re.MULTILINE)
    return found.group(1) if found else ""


def _ignored(drafts: Sequence[list[str]], described: set[str]) -> list[str]:
    """The columns that are passed by, each once and with its reason."""
    found: dict[str, str] = {}
    for block in (one for blocks in drafts for one in blocks):
        columns = re.search(r"^\[\[ignore\]\]\ncolumns = \[\"(.*)\"\]$", block, re.MULTILINE)
        if columns and columns.group(1) not in described:
            found.setdefault(columns.group(1), OPEN.sub(".\n", block))
    return list(found.values())


def _is_age(name: str) -> bool:
    return _has_word(name, AGES)


def _has_word(text: str, words: Sequence[str]) -> bool:
    return any(part in words for part in re.split(r"[\W_\d]+", text.lower()))
