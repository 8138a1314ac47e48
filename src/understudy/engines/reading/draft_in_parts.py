"""A draft of a schema in parts: what it drafts, and which remark is about which column. For forms, not for files.

The remarks of a draft are comments of its text. This reads them back, so that a form and the file say the same. Like
the draft itself, all of it is confidential until a person has reviewed it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from understudy.core.schema import Schema
from understudy.core.schema_file import parse_schema
from understudy.core.schema_lines import toml_value
from understudy.errors import InputError, SchemaError

MARK = "draft = true\n"
OFFER = "write:"  # how a remark ends that offers lines for the schema
LINE = re.compile(r'\[\[?\w|[\w"-]+ = ')
SECTIONS = ("[[rule]]", "[[derived]]", "[weight]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """A remark of a draft; ``lines`` are those that it offers for the schema, as TOML."""

    text: str
    lines: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What was drafted, and the remarks: by column, about the file, and about rules between columns."""

    schema: Schema
    remarks: Mapping[str, tuple[Remark, ...]]
    about_file: tuple[Remark, ...] = ()
    rules: tuple[Remark, ...] = ()


def read_draft(text: str) -> Draft:
    """The parts of the text that ``draft_schema`` gives.

    Raises
    ------
    InputError
        If the text is no draft.
    """
    head, mark, rest = text.partition(MARK)
    if not mark:
        raise InputError("this is no draft of a schema: it has no line draft = true.")
    schema = parse_schema(head + rest, "the draft")
    remarks: dict[str, tuple[Remark, ...]] = {}
    about_file: tuple[Remark, ...] = ()
    rules: tuple[Remark, ...] = ()
    waiting: list[str] = []
    owned: list[str] = []
    for line in rest.splitlines():
        if line.startswith("#"):
            waiting.append(line[1:].strip())
        elif line in ("[[attribute]]", "[[ignore]]"):
            owned, waiting = waiting, []
        elif line == "[file]":
            about_file, waiting = _grouped(waiting[1:]), []  # the first line is a heading
        elif owned and line.startswith(("name = ", "columns = ")):
            (value,) = tomllib.loads(line).values()
            remarks[value if isinstance(value, str) else value[0]] = _grouped(owned)
            owned = []
        elif not line and waiting:  # between the columns: rules, under a heading
            rules, waiting = (*rules, *_grouped(waiting[1:])), []
    return Draft(
        schema=schema, remarks=remarks, about_file=about_file, rules=(*rules, *_grouped(waiting[1:])),
    )  # fmt: skip


def _grouped(lines: Iterable[str]) -> tuple[Remark, ...]:
    found: list[Remark] = []
    for line in lines:
        if found and found[-1].text.endswith(OFFER) and LINE.match(line):
            found[-1] = replace(found[-1], lines=f"{found[-1].lines}{line}\n")
        elif line:
            found.append(Remark(text=line))
    return tuple(found)


def with_sections(text: str) -> str:
    """The draft, with the rules, sums and weights that its remarks offer as sections, for a person to strike out.

    An attribute that such a section stands for, a total or a weight, goes. An offer that would contradict an earlier
    one stays a remark.
    """
    draft = read_draft(text)
    for remark in (*(one for found in draft.remarks.values() for one in found), *draft.rules):
        if not remark.lines.startswith(SECTIONS):
            continue
        replaced = tomllib.loads(remark.lines)
        names = [one["name"] for one in replaced.get("derived", ())]
        names += [replaced["weight"]["column"]] if "weight" in replaced else []
        offered = "".join(f"# {line}\n" for line in (remark.text, *remark.lines.splitlines()))
        blocks = [
            block
            for block in text.replace(f"#\n{offered}", "", 1).replace(offered, "", 1).rstrip("\n").split("\n\n")
            if not any(f"[[attribute]]\nname = {toml_value(name)}\n" in f"{block}\n" for name in names)
        ]
        told = remark.text.partition(" If ")[0]
        candidate = "\n\n".join([*blocks, f"# {told}\n{remark.lines}"])
        try:
            parse_schema(candidate.replace(MARK, "", 1), "the draft")
        except SchemaError:
            continue
        text = candidate
    return text
