"""The description of a file while a person works on it: from a draft, or from a schema, to the public schema."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from understudy.core.schema import Attribute, Schema, level_text
from understudy.core.schema_file import parse_schema, write_schema
from understudy.errors import InputError, SchemaError
from understudy.studio.column_form import Column, column_from

if TYPE_CHECKING:
    from understudy.core.file_format import FileFormat
    from understudy.engines.reading.draft_in_parts import Draft, Remark


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A rule that the draft offers, as lines of a schema; and whether the steward takes it."""

    text: str
    lines: str
    taken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What is said of each column, and the remarks on it. Confidential as long as it is a draft."""

    base: Schema  # what the form has no fields for: how the file is written, derived columns, weights
    columns: Mapping[str, Column]
    remarks: Mapping[str, tuple[Remark, ...]] = field(default_factory=dict)
    about_file: tuple[Remark, ...] = ()
    offers: Mapping[str, Offer] = field(default_factory=dict)

    @classmethod
    def drafted(cls, draft: Draft) -> Description:
        """From a draft: everything is still to be reviewed."""
        offered = [(f"{name}: ", one) for name, some in draft.remarks.items() for one in some]
        offered += [("", one) for one in draft.rules]
        rules = [(where, one) for where, one in offered if one.lines.startswith("[[rule]]")]
        return cls(
            base=draft.schema,
            columns=_columns(draft.schema, reviewed=False),
            remarks=draft.remarks,
            # What is said of a column is said again in its own remarks.
            about_file=tuple(one for one in draft.about_file if one.text.partition(":")[0] not in draft.schema.names),
            offers={
                str(number): Offer(text=f"{where}{one.text.partition('. If ')[0]}.", lines=one.lines)
                for number, (where, one) in enumerate(rules)
            },
        )

    @classmethod
    def reviewed(cls, schema: Schema) -> Description:
        """From a schema that a person has reviewed."""
        return cls(base=schema, columns=_columns(schema, reviewed=True))

    @property
    def unread(self) -> list[str]:
        """Columns with remarks that nobody has looked at."""
        return [name for name, one in self.columns.items() if not one.reviewed and self.remarks.get(name)]

    def following(self, after: str) -> str | None:
        """The next column that nobody has looked at; from the beginning again behind the last."""
        names = list(self.columns)
        start = names.index(after) + 1
        return next((name for name in names[start:] + names[:start] if not self.columns[name].reviewed), None)

    def changed(self, name: str, fields: Mapping[str, str]) -> Description:
        """With one column as its form says it."""
        if name not in self.columns:
            raise InputError("there is no such column.")
        return replace(self, columns={**self.columns, name: column_from(self.columns[name], fields)})

    def settled(self, taken: Sequence[str]) -> Description:
        """As a person confirms it: with the rules that they take, and every column looked at."""
        return replace(
            self,
            columns={name: replace(one, reviewed=True) for name, one in self.columns.items()},
            offers={key: replace(one, taken=key in taken) for key, one in self.offers.items()},
        )

    def schema(self, needs: Sequence[str]) -> Schema:
        """The public schema, checked.

        Raises
        ------
        SchemaError
            If its parts contradict each other.
        """
        kept = {one.name: one.attribute for one in self.columns.values() if one.attribute is not None}
        if not kept:
            raise SchemaError("every column is left out; describe at least one.")
        made = replace(
            self.base, attributes=tuple(kept.values()), file=_fitting(self.base.file, kept),
            ignore=tuple(name for name in self.columns if name not in kept), workload=tuple(needs),
        )  # fmt: skip
        rules = [_completed(one.lines, kept) for one in self.offers.values() if one.taken]
        return parse_schema("\n".join([write_schema(made), *rules]), "the description") if rules else made


def _columns(schema: Schema, *, reviewed: bool) -> dict[str, Column]:
    kept = {one.name: Column(name=one.name, attribute=one, reviewed=reviewed) for one in schema.attributes}
    return kept | {name: Column(name=name, attribute=None, reviewed=reviewed) for name in schema.ignore}


def _completed(lines: str, kept: Mapping[str, Attribute]) -> str:
    """The lines of a rule; where those who are not asked have a code such as N, with what that code means now."""
    (rule,) = tomllib.loads(lines)["rule"]
    asked = [kept[name] for name in rule.get("asked", ()) if name in kept]
    meanings = [meaning for one in asked if not one.missing for code, meaning in one.special if isinstance(code, str)]
    plain = "".join(line for line in lines.splitlines(keepends=True) if not line.startswith("otherwise"))
    return f"{plain}otherwise = {json.dumps(meanings[0], ensure_ascii=False)}\n" if meanings else plain


def _fitting(file: FileFormat | None, kept: Mapping[str, Attribute]) -> FileFormat | None:
    """How the file is written, for the columns and values that are still there."""
    if file is None:
        return None
    columns = []
    for name, column in file.columns:
        if name in kept:
            texts = {level_text(level) for level in kept[name].levels}
            pairs = tuple(pair for pair in column.spellings if pair[1] in texts and pair[0] not in texts)
            columns.append((name, replace(column, spellings=pairs)))
    return replace(file, columns=tuple(columns))
