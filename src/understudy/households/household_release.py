"""A release of synthetic households: two linked tables for each copy, and what they promise."""

from __future__ import annotations

import hashlib
import math
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
from understudy.core.household_roles import CHILD, MEMBER
from understudy.core.linked_schema import CHILDREN, COMPOSITION, ROLE, SIZE, LinkedSchema
from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.core.questions import parse_question
from understudy.core.schema import Attribute
from understudy.engines.reading.decode import decode
from understudy.engines.reading.encode import encode_table
from understudy.errors import InputError, UnsupportedError
from understudy.figures.drawing import Drawing
from understudy.figures.families import families
from understudy.households.derived import derived_values, kept_numbers
from understudy.households.linked_table import LinkedTable
from understudy.households.shared.ages_by_rule import ages_by_rule
from understudy.households.shared.family_method import base_method
from understudy.households.shared.gaps import with_gaps
from understudy.households.source import impossible_households
from understudy.models.published_model import Fitted
from understudy.privacy.randomness.draws import KeyedStream
from understudy.release.folder import write_release
from understudy.release.readme import code, markdown
from understudy.release.statement import Provenance, Statement
from understudy.release.table_release import Release

NUMBER = "member"  # the number of a member in its household, where members have no id
TEXT = pa.dictionary(pa.int32(), pa.string())


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
        numbers = {MEMBER: (SIZE, tuple(schema.size_range))}
        if children := schema.numbers_of(CHILD):
            numbers[CHILD] = (CHILDREN, tuple(range(max(children) + 1)))
        return Release(
            schema=schema.wide,
            tables=tuple(_wide_frame(self.linked(copy), copy) for copy in range(1, self.copies + 1)),
            measurements=tuple(one for one in self.measurements if schema.is_of_households(one.margin)),
            statement=self.statement,
            provenance=replace(self.provenance, method=base_method(self.provenance.plan)),
            fitted=self.fitted,
            numbers=numbers,
            linked=True,
        )

    @cached_property
    def people(self) -> Release:
        """One row for each member with the attributes of its household, as a release of a table.

        Members of a household may be alike. So intervals are as long as if those of a household of mean size (each
        member counted) were all the same; the number of members is taken from the noisy tables.
        """
        schema = self.schema
        copies = [self.linked(copy) for copy in range(1, self.copies + 1)]
        sizes = np.concatenate([one.by_role.sum(axis=1) for one in copies]).astype(np.float64)
        alike = max(1, math.ceil((sizes**2).sum() / max(sizes.sum(), 1.0)))
        unit = replace(self.statement.unit, kind="add_remove", fixed=(), rows_per_unit=alike)
        stream = public_words()
        return Release(
            schema=schema.persons,
            tables=tuple(decode(one.persons(), stream, "people", place) for place, one in enumerate(copies)),
            measurements=tuple(one for one in self.measurements if schema.is_of_members(one.margin)),
            statement=replace(self.statement, unit=unit),
            provenance=replace(self.provenance, method=base_method(self.provenance.plan)),
            linked=True,
        )

    def table_for(self, question: str, **how: Any) -> Release:
        """Give the table that a question is about: of households, or of single members.

        Parameters
        ----------
        question
            The question.
        **how
            What belongs to it: ``family``, ``event``, ``where``, ``by``.

        Returns
        -------
        Release
            ``homes`` or ``people``.

        Raises
        ------
        UnsupportedError
            If it is about single members, and no table of them was measured.
        """
        try:
            parse_question(question, self.schema.wide, **how)
        except InputError as problem:
            try:
                parse_question(question, self.schema.persons, **how)
            except InputError:
                raise problem from None
            if not self.people.measurements:
                raise UnsupportedError(
                    "this question is about single members, and no table of them was measured: under this unit one "
                    f"household would move up to {self.schema.at_most} of its rows. Ask about a role, such as "
                    f"{self.schema.slots[0].column(self.schema.anchor)}; about attributes of households with weighted "
                    '= "member"; or make a release with unit = "person".'
                ) from None
            return self.people
        if self.homes.measurements or not self.measurements:
            return self.homes
        # Without roles nothing is measured of households for a person: all that they are is known.
        names = (*self.schema.households.names, SIZE)
        raise UnsupportedError(
            f"this question is about households, and no table of them was measured: under the unit of a person "
            f"{', '.join(names)} are known and not protected, so count them in the confidential table, or, up to "
            "rounding, in households() of the release. Ask about single members instead, with where= about households."
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
    for name in dict.fromkeys(gap.attribute for gap in schema.gaps):
        values = numbers(schema.members[name], members[name], linked.members.columns[name])
        members = _with_whole(members, name, with_gaps(linked, name, values, stream, *purpose, "gaps", name))
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
    return _with_whole(members, roles.age, ages_by_rule(linked, filled, stream, *purpose))


def _with_whole(members: pa.Table, name: str, values: NDArray[np.number]) -> pa.Table:
    """Members with other whole numbers in a column; what is missing, or no number, stays."""
    column = members[name]
    old = pc.fill_null(column, 0).to_numpy()
    whole = np.where(np.isnan(values), old, values).astype(np.int64)
    array = pa.array(whole, column.type, mask=column.is_null().to_numpy(zero_copy_only=False))
    return members.set_column(members.column_names.index(name), members.schema.field(name), array)


def derived_columns(linked: LinkedTable, members: pa.Table) -> dict[str, pa.Array]:
    """Size, composition, and what the schema derives, from the members of each household."""
    schema, codes = linked.schema, linked.compositions
    names = pa.array([schema.composition_name(kind) for kind in schema.kinds], pa.string())
    found = {
        SIZE: pa.array(linked.by_role.sum(axis=1)),
        COMPOSITION: pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), names),
    }
    named = dict.fromkeys(name for one in schema.derived for name in (one.of, one.age) if name)
    values = {name: numbers(schema.members[name], members[name], linked.members.columns[name]) for name in named}
    for one in schema.derived:
        found[one.name] = pa.array(derived_values(one, values, linked.owner, linked.households.rows))
    return found


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
    if (np.diff(owner) < 0).any() or (np.bincount(owner, minlength=len(ids)) < schema.at_least).any():
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
    linked = replace(linked, numbers={
        name: numbers(schema.members[name], members[name], linked.members.columns[name])
        for name in kept_numbers(schema)
    })  # fmt: skip
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
