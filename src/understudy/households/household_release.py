"""A release of synthetic households: two linked tables for each copy, and what they promise."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from understudy.core.folders import as_path
from understudy.core.household_roles import CHILD, MEMBER, HouseholdDerived
from understudy.core.linked_schema import CHILDREN, COMPOSITION, ROLE, SIZE, LinkedSchema
from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.core.schema import Attribute
from understudy.engines.reading.decode import decode
from understudy.engines.reading.encode import encode_table
from understudy.errors import InputError
from understudy.figures.drawing import Drawing
from understudy.figures.families import families
from understudy.households.linked_table import LinkedTable
from understudy.households.shared.ages_by_rule import ages_by_rule
from understudy.households.shared.family_method import base_method
from understudy.households.source import impossible_households
from understudy.models.published_model import Fitted
from understudy.privacy.randomness.draws import KeyedStream
from understudy.release.folder import write_release
from understudy.release.readme import code, markdown
from understudy.release.statement import Provenance, Statement
from understudy.release.table_release import Release

NUMBER = "member"  # the number of a member in its household, where members have no id
TEXT = pa.dictionary(pa.int32(), pa.string())
CHILD_AGE = 14  # the modified OECD scale counts younger members less
FIRST, ADULT, YOUNG = 1.0, 0.5, 0.3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FamilyTables:
    """The two synthetic tables of a copy, linked by the id of the household."""

    households: pa.Table
    members: pa.Table


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HouseholdRelease:
    """Synthetic households with their members, and their promise. All of it is public."""

    schema: LinkedSchema
    """The public schema of both tables."""
    tables: tuple[FamilyTables, ...]
    """The two tables of each copy."""
    statement: Statement
    """What is promised, and to whom."""
    provenance: Provenance
    """How the tables were made."""
    measurements: tuple[Measurement, ...] = ()
    """The noisy counts behind the tables, over the wide schema."""
    fitted: Fitted | None = None
    """The model behind all copies, to draw more households from."""

    @property
    def copies(self) -> int:
        """How many copies of the two tables there are."""
        return len(self.tables)

    @property
    def rows(self) -> tuple[int, ...]:
        """The members of each copy."""
        return tuple(one.members.num_rows for one in self.tables)

    def _copy(self, copy: int) -> FamilyTables:
        if not 1 <= copy <= self.copies:
            raise InputError(f"copy ({copy}) must be between 1 and {self.copies}.")
        return self.tables[copy - 1]

    def households(self, copy: int = 1) -> pa.Table:
        """Give the synthetic households.

        Parameters
        ----------
        copy
            The number of the copy, from 1.

        Returns
        -------
        pa.Table
            A row for each household: its id, attributes, size, composition, and what is computed from its members.
        """
        return self._copy(copy).households

    def members(self, copy: int = 1) -> pa.Table:
        """Give the synthetic members.

        Parameters
        ----------
        copy
            The number of the copy, from 1.

        Returns
        -------
        pa.Table
            A row for each member: the id of the household, a number, the role, and the attributes.
        """
        return self._copy(copy).members

    def frame(self, copy: int = 1) -> pa.Table:
        """Give both tables joined: a row for each member, with the columns of its household.

        Parameters
        ----------
        copy
            The number of the copy, from 1.

        Returns
        -------
        pa.Table
            An Arrow table.
        """
        both = self._copy(copy)
        place = pc.index_in(both.members[self.schema.household_id], both.households[self.schema.household_id])
        joined = both.members
        for name in both.households.column_names[1:]:
            joined = joined.append_column(both.households.schema.field(name), both.households[name].take(place))
        return joined

    def linked(self, copy: int = 1) -> LinkedTable:
        """Give one copy as codes.

        Parameters
        ----------
        copy
            The number of the copy, from 1.

        Returns
        -------
        LinkedTable
            Households and members as codes of the schema.

        Raises
        ------
        InputError
            If the two tables do not fit together.
        """
        return linked_of(self.schema, self._copy(copy))

    @cached_property
    def homes(self) -> Release:
        """One row for each household, as a release of a table: its slots as columns, for questions and measures.

        The member in a slot is chosen at random among those of its role, by words that everybody can repeat.
        """
        schema = self.schema
        numbers = {MEMBER: (SIZE, tuple(range(1, schema.at_most + 1)))}
        if children := schema.numbers_of(CHILD):
            numbers[CHILD] = (CHILDREN, tuple(range(max(children) + 1)))
        return Release(
            schema=schema.wide,
            tables=tuple(_wide_frame(self.linked(copy), copy) for copy in range(1, self.copies + 1)),
            measurements=self.measurements,
            statement=self.statement,
            provenance=replace(self.provenance, method=base_method(self.provenance.plan)),
            fitted=self.fitted,
            numbers=numbers,
        )

    def draw(
        self, households: int = 24, *, copy: int = 1, age: str | None = None, letter: str | None = None
    ) -> Drawing:
        """Draw some synthetic households as rows of people.

        Parameters
        ----------
        households
            How many, from the first on.
        copy
            The number of the copy, from 1.
        age
            The attribute with the age; by default the first numeric one.
        letter
            An attribute whose first letter stands beside the age, such as the sex.

        Returns
        -------
        Drawing
            The picture; ``save`` writes it, ``table`` has its numbers.

        Raises
        ------
        InputError
            If no attribute of members is a number.
        """
        members = self.schema.members
        numeric = [one.name for one in members.attributes if one.kind == "numeric"]
        if age is None and not numeric:
            raise InputError("no attribute of members is a number; a picture of households needs their ages.")
        both, found = self._copy(copy), []
        rows = both.members.slice(0, households * self.schema.at_most).to_pylist()
        texts = both.households.slice(0, households).column(COMPOSITION).to_pylist()
        for number, text in enumerate(texts, start=1):
            people = [row for row in rows if row[self.schema.household_id] == number]
            found.append((text, [
                (row[ROLE], float(row[age or numeric[0]] or 0), str(row[letter] or "")[:1].upper() if letter else "")
                for row in people
            ]))  # fmt: skip
        return families(found, title=f"{len(found)} synthetic households; nobody in them exists")

    def write(self, path: str | Path, *, overwrite: bool = False, csv: bool = False) -> Path:
        """Write the release folder. It is there whole or not at all.

        Parameters
        ----------
        path
            The new folder.
        overwrite
            Replace an earlier release.
        csv
            Write CSV files too.

        Returns
        -------
        Path
            Where the folder is.

        Raises
        ------
        InputError
            If the folder exists, or cannot be written.
        """
        return write_release(self, as_path(path, "the release folder"), overwrite=overwrite, csv=csv)

    def __repr__(self) -> str:
        made = f"{self.copies} x {self.tables[0].households.num_rows:,} households"
        return f"HouseholdRelease({self.provenance.method}; {self.statement.guarantee}; {made})"


def public_words() -> Any:
    """Words that anybody can repeat, for a choice that protects nobody: which child stands in a row."""
    return KeyedStream(key=hashlib.sha256(b"rows of a release of households").digest())


def _wide_frame(linked: LinkedTable, copy: int) -> pa.Table:
    stream = public_words()
    return decode(linked.wide(stream.words(len(linked.owner), "homes", copy)), stream, "homes", copy)


def family_tables(linked: LinkedTable, stream: Stream, *purpose: str | int) -> FamilyTables:
    """Values for both tables; what is derived is computed from them."""
    schema = linked.schema
    members = decode(linked.members, stream, *purpose, "members")
    households = decode(linked.households, stream, *purpose, "households")
    members = _with_ages(linked, members, stream, *purpose, "ages")
    ids = np.arange(1, linked.households.rows + 1)
    number = np.arange(len(linked.owner)) - np.searchsorted(linked.owner, linked.owner) + 1
    names = pa.array(schema.role_names, pa.string())
    role = pa.DictionaryArray.from_arrays(pa.array(linked.role.astype(np.int32)), names)
    keys = {schema.household_id: pa.array(ids[linked.owner]), schema.member_id or NUMBER: pa.array(number), ROLE: role}
    for place, (name, column) in enumerate(keys.items()):
        members = members.add_column(place, name, column)
    households = households.add_column(0, schema.household_id, pa.array(ids))
    for name, column in derived_columns(linked, members).items():
        households = households.append_column(name, column)
    return FamilyTables(households=households, members=members)


def _with_ages(linked: LinkedTable, members: pa.Table, stream: Stream, *purpose: str | int) -> pa.Table:
    """Members whose ages agree with the rule that gave them their roles, where ages are whole years."""
    roles = linked.schema.roles
    if roles is None or not roles.age or not linked.schema.members[roles.age].integer:
        return members
    column = members[roles.age]
    if not pa.types.is_integer(column.type):
        return members
    filled = pc.fill_null(column, 0).to_numpy().astype(np.int64)
    years = ages_by_rule(linked, filled, stream, *purpose)
    array = pa.array(years, column.type, mask=column.is_null().to_numpy(zero_copy_only=False))
    return members.set_column(members.column_names.index(roles.age), members.schema.field(roles.age), array)


def derived_columns(linked: LinkedTable, members: pa.Table) -> dict[str, pa.Array]:
    """Size, composition, and what the schema derives, from the members of each household."""
    schema, codes = linked.schema, linked.compositions
    names = pa.array([schema.composition_name(kind) for kind in schema.kinds], pa.string())
    found = {
        SIZE: pa.array(linked.by_role.sum(axis=1)),
        COMPOSITION: pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), names),
    }
    for one in schema.derived:
        found[one.name] = pa.array(_derived(one, linked, members))
    return found


def _derived(one: HouseholdDerived, linked: LinkedTable, members: pa.Table) -> NDArray[np.float64]:
    count = linked.households.rows
    values = numbers(linked.schema.members[one.of], members[one.of], linked.members.columns[one.of])
    known = ~np.isnan(values)
    owner = linked.owner
    total = np.bincount(owner[known], weights=values[known], minlength=count)
    if one.function == "sum":
        return np.asarray(np.round(total, 2))
    if one.function == "equivalised":
        age = numbers(linked.schema.members[one.age], members[one.age], linked.members.columns[one.age])
        first = np.append(True, owner[1:] != owner[:-1])
        weight = np.where(first, FIRST, np.where(age < CHILD_AGE, YOUNG, ADULT))
        return np.asarray(np.round(total / np.bincount(owner, weights=weight, minlength=count), 2))
    if one.function == "mean":
        there = np.bincount(owner[known], minlength=count)
        return np.asarray(np.round(np.divide(total, there, out=np.full(count, np.nan), where=there > 0), 2))
    largest = one.function == "max"
    found = np.full(count, -np.inf if largest else np.inf)
    (np.maximum if largest else np.minimum).at(found, owner[known], values[known])
    return np.where(np.isfinite(found), found, np.nan)


def numbers(attribute: Attribute, column: pa.ChunkedArray, codes: NDArray[np.integer]) -> NDArray[np.float64]:
    """The numbers of a column; NaN for special codes and missing values."""
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        values = column.to_numpy().astype(np.float64)
    else:
        values = np.array([_number(text) for text in column.cast(pa.string()).to_pylist()])
    return np.where(np.asarray(codes) < attribute.bins, values, np.nan)


def _number(text: str | None) -> float:
    try:
        return float(text or "nan")
    except ValueError:
        return float("nan")


def linked_of(schema: LinkedSchema, tables: FamilyTables) -> LinkedTable:
    """Both tables as codes. They must fit together: ids, roles, sizes and everything derived."""
    households, members = tables.households, tables.members
    derived = [one.name for one in schema.derived]
    expected = [schema.household_id, *schema.households.names, SIZE, COMPOSITION, *derived]
    if households.column_names != expected:
        raise InputError("the table of households does not have the columns of its schema.")
    if members.column_names != [schema.household_id, schema.member_id or NUMBER, ROLE, *schema.members.names]:
        raise InputError("the table of members does not have the columns of its schema.")
    ids = households[schema.household_id].to_numpy()
    if not np.array_equal(ids, np.arange(1, len(ids) + 1)):
        raise InputError("households are not numbered from 1 on.")
    owner = members[schema.household_id].to_numpy().astype(np.int64) - 1
    if len(owner) and not 0 <= owner.min() <= owner.max() < len(ids):
        raise InputError("a member belongs to a household that is not there.")
    if (np.diff(owner) < 0).any() or (np.bincount(owner, minlength=len(ids)) == 0).any():
        raise InputError("members do not stand by household, or a household has none.")
    place = pc.index_in(members[ROLE].cast(pa.string()), pa.array(schema.role_names))
    if place.null_count:
        raise InputError("a member has a role that the schema does not have.")
    linked = LinkedTable(
        schema=schema,
        households=encode_table(households.select(list(schema.households.names)), schema.households),
        members=encode_table(members.select(list(schema.members.names)), schema.members),
        owner=owner,
        role=place.to_numpy().astype(np.int8),
    )
    if (linked.compositions < 0).any():
        raise InputError("a household has more members, or members of other roles, than the schema allows.")
    return linked


def check_families(release: HouseholdRelease, copy: int) -> int:
    """Refuses a copy whose tables contradict each other or the schema; says how many households there are."""
    tables, linked = release.tables[copy - 1], release.linked(copy)
    for name, column in derived_columns(linked, tables.members).items():
        stated = tables.households[name]
        same = _same(stated, column)
        if not same:
            raise InputError(f"'{name}' of some household is not what follows from its members.")
    if wrong := impossible_households(linked):
        raise InputError(f"{wrong:,} synthetic household(s) are impossible by the schema.")
    return linked.households.rows


def _same(stated: pa.ChunkedArray, computed: pa.Array) -> bool:
    if pa.types.is_dictionary(computed.type):
        return bool(stated.cast(pa.string()).to_pylist() == computed.cast(pa.string()).to_pylist())
    ours, theirs = (np.asarray(one.to_numpy(zero_copy_only=False), dtype=np.float64) for one in
                    (pa.chunked_array([computed]).combine_chunks(), stated.combine_chunks()))  # fmt: skip
    return len(ours) == len(theirs) and bool(np.allclose(ours, theirs, rtol=1e-6, atol=0.02, equal_nan=True))


def readme_text(release: HouseholdRelease, rows: Sequence[int]) -> str:
    """What the release folder says of itself."""
    schema = release.schema
    promise = "\n".join(f"- {markdown(line)}" for line in release.statement.lines())
    notes = "".join(f"- {markdown(note)}\n" for note in release.provenance.notes)
    counts = ", ".join(
        f"{one.households.num_rows:,} households with {count:,} members"
        for one, count in zip(release.tables, rows, strict=True)
    )
    return f"""# Synthetic households

{len(rows)} copies ({counts}) made by the method {code(release.provenance.method)} of understudy
{markdown(release.provenance.package_version)}. No row is a person, and no household is one that exists.
Rows: {markdown(release.provenance.rows_drawn)}.

## What it promises

{promise}

## Reading it

```python
import pandas as pd

households = pd.read_parquet("households_1.parquet")
members = pd.read_parquet("synthetic_1.parquet")
print(members.merge(households, on={schema.household_id!r}).groupby("composition", observed=True).size())
```

Both tables are linked by {code(schema.household_id)}. `size`, `composition` and derived columns are computed from the
members. Members of one household belong together: partners, parents and children, brothers and sisters.

## Files

- `households_*.parquet`: a row for each household. `synthetic_*.parquet`: a row for each member.
- `schema.toml`: the public schema of both tables. `measurements.parquet`: the noisy counts. `model.parquet`: the model
  of a household. `manifest.json`: guarantee, plan, charge, hashes; `understudy verify .` checks them.

## Notes

{notes}"""


def no_draw(draw: Mapping[str, Any]) -> dict[str, Any]:
    """No method for households draws straight from the data, so a release that records a draw is not one."""
    raise InputError(f"a draw is recorded ({type(draw).__name__}), which no release of households makes.")
