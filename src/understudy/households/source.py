"""Reading households: two linked files, or one file with the id of the household in every row of a member.

Opening checks the columns. The rows are read, linked and given roles when a run first needs them, before anything is
charged. Messages say how many households do not fit, and never which or how.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from understudy.core.arrays import Integers, Progress
from understudy.core.counts import Counts, SparseCounts
from understudy.core.household_roles import PARTNER, REFERENCE, Roles
from understudy.core.linked_schema import CHILDREN, COMPOSITION, ROLE, SIZE, LinkedSchema
from understudy.core.linked_survey import weight_of_members
from understudy.core.schema import Attribute, Schema
from understudy.core.table import CodedSource, CodedTable, Codes
from understudy.engines.counting.bounding import id_texts, refuse_missing_ids
from understudy.engines.counting.packing import hash_rows
from understudy.engines.reading.encode import Encoder, check_columns
from understudy.engines.reading.readers import Reader
from understudy.engines.systems.local.inputs import open_reader, told_format, written_columns
from understudy.errors import DisclosureError, InputError, SchemaError, UnsupportedError, unknown_name
from understudy.households.derived import kept_numbers, middles
from understudy.households.linked_table import LinkedTable, Words
from understudy.households.shared.gaps import too_near
from understudy.privacy.gate.linked_gate import LinkedSource
from understudy.privacy.randomness.draws import KeyedStream, encrypted_blocks
from understudy.privacy.randomness.fingerprint import RowSum

READING = ("missing_text", "delimiter", "decimal_comma", "encoding", "unit_id")


class HouseholdSource:
    """Confidential households with their members, behind their public schema.

    Parameters
    ----------
    schema
        The public schema of both tables.
    readers
        What reads each table; under an empty name the one flat table.
    missing_text
        The text that stands for a missing value in CSV files.
    """

    def __init__(self, schema: LinkedSchema, readers: Mapping[str, Reader], missing_text: str | None) -> None:
        self.schema = schema
        self._readers = readers
        self._missing_text = missing_text
        self._linked: LinkedTable | None = None
        self._ids: Integers | None = None

    def __repr__(self) -> str:
        return f"HouseholdSource({self.schema.household_table}, {self.schema.member_table}, confidential)"

    def __reduce__(self) -> tuple[object, ...]:
        raise DisclosureError("a source is confidential and cannot be saved; open it again where the data are.")

    def confidential_families(self) -> LinkedTable:
        """Every household with its members as codes, in memory: for evaluation inside the building.

        Returns
        -------
        LinkedTable
            The coded tables. Confidential.
        """
        return self.linked()[0]

    def linked(self) -> tuple[LinkedTable, Integers]:
        """The linked tables, and a hash of the id of each household.

        Returns
        -------
        tuple[LinkedTable, Integers]
            Both confidential.

        Raises
        ------
        InputError
            If households and members do not fit together.
        """
        if self._linked is None or self._ids is None:
            self._linked, self._ids = _read(self.schema, self._readers, self._missing_text)
        return self._linked, self._ids

    def rows_of(self, stream: KeyedStream) -> LinkedSource:
        """The row of each household, its members chosen and bounded by the words of a key.

        The words of a household's members depend on its id and on nothing else that is in the data.

        Parameters
        ----------
        stream
            The key of the run's data.

        Returns
        -------
        LinkedSource
            What the gate counts. Confidential.
        """
        return homes_of(*self.linked(), stream.derived_key("members of a household"))


def homes_of(linked: LinkedTable, ids: Integers, key: bytes) -> HomesSource:
    """The row of each household, its members chosen and bounded by the words of a key and of the household's id."""
    words = member_words(linked, ids, key)
    kept = bounded(linked, words)
    if kept is not None:
        linked, words = _only(linked, kept), words[kept]
    return HomesSource(linked, words, ids)


class HomesSource(CodedSource):
    """One row for each household, as the gate counts it. Confidential."""

    def __init__(self, linked: LinkedTable, words: Words, ids: Integers) -> None:
        super().__init__(linked.wide(words))
        self._families = linked
        self._words = words
        self._ids = ids
        self._key: bytes | None = None
        self._check_possible()

    def __repr__(self) -> str:
        return "HomesSource(confidential)"

    def __reduce__(self) -> tuple[object, ...]:
        raise DisclosureError("a source is confidential and cannot be saved; open it again where the data are.")

    def _check_possible(self) -> None:
        """Refuses households that the schema calls impossible, whoever of the members stands in a slot."""
        if wrong := impossible_households(self._families):
            raise SchemaError(
                f"{wrong:,} household(s) are impossible by the schema's rules across members. Correct the data, or the "
                "rules."
            )

    @cached_property
    def members(self) -> CodedSource:
        """The members that were kept, each with the attributes of its household. Confidential."""
        return CodedSource(self._families.persons())

    def pairs(self) -> CodedSource:
        """Pairs of members who are alike, each member in at most one of them. Confidential."""
        return CodedSource(self._families.pairs(self._words))

    def count(self, margins: Sequence[tuple[str, ...]], progress: Progress | None = None) -> list[Counts]:
        counted = super().count(margins, progress)
        if progress is not None:
            progress(self.table.rows, self.table.rows)
        return counted

    def count_sparse(self, margin: tuple[str, ...], progress: Progress | None = None) -> SparseCounts:
        return super().count_sparse(margin, progress)

    def identify(self, key: bytes) -> None:
        """Take this key for the fingerprint."""
        self._key = key

    def fingerprint(self) -> str:
        """A keyed sum over all households and all their members. Confidential."""
        if self._key is None:
            raise InputError("a source has a fingerprint only under a key; identify it first.")
        sums = RowSum(self._key)
        self.hash_into(sums)
        return sums.text

    def hash_into(self, sums: RowSum) -> None:
        """Adds all households and all their members to a keyed sum."""
        hash_rows(sums, self.table.columns, self.schema, [self._ids])
        members = self._families.members
        owner = self._ids[self._families.owner]
        hash_rows(sums, members.columns, members.schema, [owner, self._families.role.astype(np.int64)])


def open_households(data: Any, schema: LinkedSchema, **reading: Any) -> HouseholdSource:
    """Open households with their members: one flat file, or two linked files.

    Opening checks the columns and uses no value. Rows are read, linked and counted later, through the gate.

    Parameters
    ----------
    data
        A file or frame with one row for each member and the id of the household in it; or a mapping from the names of
        the two tables to a file or frame each, such as ``{"households": "h.csv", "persons": "p.csv"}``.
    schema
        The public schema of the linked tables.
    **reading
        How CSV files are written, as for ``open_source``: ``missing_text``, ``delimiter``, ``decimal_comma``,
        ``encoding``; ``engine``: ``local`` (the default) or ``spark``, then also ``master`` and
        ``allow_insecure_cluster``. Spark DataFrames need no ``engine``.

    Returns
    -------
    HouseholdSource
        The opened tables. Confidential.

    Raises
    ------
    SchemaError
        If the columns are not those of the schema.
    InputError
        If the data cannot be read.
    UnsupportedError
        If an option of reading is not offered for linked tables.

    Examples
    --------
    >>> import understudy as us
    >>> from understudy.core.linked_schema_file import parse_any_schema
    >>> from understudy.demo.families import FAMILIES_SCHEMA, make_families
    >>> us.open_households(make_families(100), parse_any_schema(FAMILIES_SCHEMA))
    HouseholdSource(households, persons, confidential)
    """
    if not isinstance(schema, LinkedSchema):
        raise InputError("open_households needs the schema of linked tables; read it with read_linked_schema(path).")
    given = {name: value for name, value in reading.items() if value not in (None, "", False) and name != "unit_id"}
    tables = _tables_of(data, schema)
    from understudy.engines.systems.spark.inputs import is_spark_frame

    if given.get("engine") == "spark" or any(is_spark_frame(one) for one in tables.values()):
        from understudy.households.spark_source import open_on_spark

        return open_on_spark(tables, schema, **given)
    given.pop("engine", None)
    for name in given:
        if name not in READING:
            raise UnsupportedError(
                f"{name} is not offered for linked tables; files and frames are read on this machine, or with engine "
                "'spark'."
            )
    readers = {name: _reader(tables[name], described, given) for name, described in parts_of(schema, tables).items()}
    for name, described in parts_of(schema, tables).items():
        check_columns(readers[name].columns, described)
        for column in _keys(schema, name, tables):
            if column not in readers[name].columns:
                raise unknown_name(f"{name or 'the data'} have no column", column, readers[name].columns,
                                   error=SchemaError)  # fmt: skip
    text_only = any(reader.text_only for reader in readers.values())
    return HouseholdSource(schema, readers, given.get("missing_text", "") if text_only else None)


FLAT = ""  # the one file of members and households together


def _tables_of(data: Any, schema: LinkedSchema) -> Mapping[str, Any]:
    names = (schema.household_table, schema.member_table)
    if isinstance(data, Mapping):
        for name in data:
            if name not in names:
                raise unknown_name("table", str(name), names, error=InputError)
        for name in names:
            if name not in data:
                raise InputError(f"the table '{name}' is missing; give {names[0]} and {names[1]}, or one flat file.")
        return dict(data)
    paths = data if isinstance(data, list | tuple) else [data]
    named = [str(path).partition("=") for path in paths if isinstance(path, str)]
    if named and len(named) == len(paths) and all(mark and name in names for name, mark, _ in named):
        found: dict[str, list[str]] = {}
        for name, _, path in named:
            found.setdefault(name, []).append(path)
        return _tables_of(found, schema)
    return {FLAT: data}


def parts_of(schema: LinkedSchema, tables: Mapping[str, Any]) -> dict[str, Schema]:
    """What each file holds: attributes to read, and columns to pass by."""
    derived = (SIZE, COMPOSITION, *((CHILDREN,) if schema.roles is not None else ()))
    derived += tuple(one.name for one in schema.derived)
    keys = [schema.household_id, ROLE, *([schema.member_id] if schema.member_id else [])]
    keys += [schema.roles.column] if schema.roles is not None and schema.roles.column else []
    if FLAT in tables:
        attributes = (*schema.households.attributes, *schema.members.attributes)
        passed = dict.fromkeys((*keys, *derived, *schema.households.ignore, *schema.members.ignore))
        zeros = (*schema.households.impossible, *schema.members.impossible)
        taken = {one.name for one in attributes}
        return {FLAT: Schema(attributes=attributes, ignore=tuple(name for name in passed if name not in taken),
                             impossible=zeros, rules=schema.members.rules, file=schema.members.file,
                             weight=weight_of_members(schema.households, schema.members))}  # fmt: skip
    found = {}
    # A file may repeat what belongs to the other table, such as the size of a school beside each of its pupils.
    for name, own, more in (
        (schema.household_table, schema.households, (schema.household_id, *derived, *schema.members.names)),
        (schema.member_table, schema.members, (*keys, *derived, *schema.households.names)),
    ):
        passed = dict.fromkeys((*more, *schema.households.ignore, *schema.members.ignore))
        found[name] = replace(own, ignore=tuple(one for one in passed if one not in own.names))
    return found


def _keys(schema: LinkedSchema, table: str, tables: Mapping[str, Any]) -> list[str]:
    keys = [schema.household_id]
    if table == schema.household_table and FLAT not in tables:
        return keys
    keys += [schema.member_id] if schema.member_id else []
    return keys + ([schema.roles.column] if schema.roles is not None and schema.roles.column else [])


def _reader(data: Any, schema: Schema, given: Mapping[str, Any]) -> Reader:
    how = {name: value for name, value in given.items() if name != "decimal_comma"}
    file = told_format(schema.file, **given)
    return open_reader(data, names=schema.names, written=written_columns(file, schema), declared=file, **how)


def _read(
    schema: LinkedSchema, readers: Mapping[str, Reader], missing_text: str | None
) -> tuple[LinkedTable, Integers]:
    """Both tables as codes, linked, and a hash of the id of each household."""
    above = None
    if FLAT not in readers:
        above = _codes(schema, schema.household_table, readers[schema.household_table], missing_text)
    name = FLAT if FLAT in readers else schema.member_table
    return link(schema, above, _codes(schema, name, readers[name], missing_text), missing_text)


Coded = tuple[dict[str, Any], pa.Table]  # the codes of attributes, and the columns that link, order and give roles


def link(
    schema: LinkedSchema, above: Coded | None, below: Coded, missing_text: str | None
) -> tuple[LinkedTable, Integers]:
    """Households and members brought together by the id of the household.

    Without a table of households (``above``), that of the members (``below``) has what households are in every row.
    """
    members, raw = below
    members = dict(members)
    if above is None:
        texts = _ids(raw, schema.household_id, missing_text)
        names, owner = np.unique(texts, return_inverse=True)
        first = np.full(len(names), -1, dtype=np.int64)
        first[owner[::-1]] = np.arange(len(owner))[::-1]
        own: dict[str, Any] = {}
        unlike = np.zeros(len(names), dtype=bool)
        for name in schema.households.names:
            codes = members.pop(name)
            own[name] = codes[first]
            unlike[owner[codes != codes[first][owner]]] = True
        if wrong := int(unlike.sum()):
            raise InputError(
                f"in {wrong:,} household(s) the rows of the members do not agree on the household's own attributes."
            )
    else:
        own, keys = above
        names, order = np.unique(_ids(keys, schema.household_id, missing_text), return_index=True)
        if wrong := keys.num_rows - len(names):
            raise InputError(f"{wrong:,} household(s) have an id that another household has; ids must differ.")
        own = {name: codes[order] for name, codes in own.items()}
        texts = _ids(raw, schema.household_id, missing_text)
        owner = np.minimum(np.searchsorted(names, texts), max(len(names) - 1, 0))
        if wrong := int((names[owner] != texts).sum()) if len(names) else len(texts):
            raise InputError(f"{wrong:,} member(s) belong to a household that the table of households does not have.")
        if wrong := int((np.bincount(owner, minlength=len(names)) < schema.at_least).sum()):
            raise InputError(
                f"{wrong:,} household(s) have no member; every household needs at least one (without [roles], at_least "
                "= 0 in the table of members allows for none)."
            )
    if not (len(owner) or (above is not None and len(names))):
        raise InputError("the data have no rows (is it a file with column names alone?); there is nothing to release.")
    place = _order(raw, schema, missing_text)
    order = np.lexsort((place, owner))
    members = {name: codes[order] for name, codes in members.items()}
    owner, raw = owner[order].astype(np.int64), raw.take(pa.array(order))
    table = LinkedTable(
        schema=schema,
        households=CodedTable(schema=schema.households, columns=own),
        members=CodedTable(schema=schema.members, columns=members),
        owner=owner,
        role=_roles(schema, raw, owner, members, missing_text, households=len(names)),
        numbers={
            name: _inside(schema.members[name], _numbers(raw, name, missing_text), members[name])
            for name in kept_numbers(schema)
        },
    )
    return table, np.array([_hash(str(name)) for name in names], dtype=np.int64)


def kept_columns(schema: LinkedSchema, table: str) -> list[str]:
    """The columns of a file that link, order and give roles, and those whose numbers are needed."""
    if table == schema.household_table:
        return [schema.household_id]
    roles = schema.roles
    keys = _keys(schema, table, {FLAT: None})
    keys += [roles.age] if roles is not None and roles.age else []
    return list(dict.fromkeys((*keys, *kept_numbers(schema))))


def _codes(schema: LinkedSchema, table: str, reader: Reader, missing_text: str | None) -> Coded:
    """The codes of one file, and the columns that link, order and give roles as they stand."""
    own = parts_of(schema, {FLAT: None} if table == FLAT else {})[table]
    commas = getattr(reader, "decimal_commas", False)
    encoder = Encoder(own, missing_text=missing_text if reader.text_only else None, decimal_commas=commas)
    keys = kept_columns(schema, table)
    parts, rows = [], []
    for batch in reader.batches(list(dict.fromkeys((*own.names, *keys)))):
        parts.append(encoder.encode(batch))
        rows.append(batch.select(keys))
    encoder.violations.check()
    if not rows:
        raise InputError("the data have no rows (is it a file with column names alone?); there is nothing to release.")
    codes = {name: np.concatenate([part[name] for part in parts]) for name in own.names}
    return codes, pa.Table.from_batches(rows)


def _ids(raw: pa.Table, column: str, missing_text: str | None) -> NDArray[Any]:
    texts = pa.chunked_array(
        [id_texts(chunk, column, missing_text) for chunk in raw.column(column).chunks], pa.large_string()
    )
    refuse_missing_ids(texts.null_count, column)
    return as_whole_numbers(np.asarray(texts.to_numpy(zero_copy_only=False), dtype=np.str_))


def as_whole_numbers(texts: NDArray[Any]) -> NDArray[Any]:
    """Ids that are all written like 17.0 as 17: a program that took them for measurements wrote one of the files."""
    bare = np.char.partition(texts, ".") if len(texts) else np.empty((0, 3), dtype=np.str_)
    whole = np.char.isdecimal(bare[:, 0]) & (bare[:, 1] == ".") & (np.char.strip(bare[:, 2], "0") == "")
    return np.asarray(bare[:, 0]) if whole.all() else texts


def _order(raw: pa.Table, schema: LinkedSchema, missing_text: str | None) -> Integers:
    """The order of members: by their id (shorter ones first, so that 9 is before 10), or as they stand."""
    if not schema.member_id:
        return np.arange(raw.num_rows)
    texts = _ids(raw, schema.member_id, missing_text)
    names, place = np.unique(texts, return_inverse=True)
    households = _ids(raw, schema.household_id, missing_text)
    _, owner = np.unique(households, return_inverse=True)
    if wrong := len(texts) - len(np.unique(owner.astype(np.int64) * len(names) + place)):
        raise InputError(f"{wrong:,} member(s) have an id that another member of the same household has.")
    ranked = np.empty(len(names), dtype=np.int64)
    ranked[np.lexsort((names, np.char.str_len(names)))] = np.arange(len(names))
    return ranked[place]


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 1


# Roles, from a column or by the public rule.


def _roles(
    schema: LinkedSchema, raw: pa.Table, owner: Integers, members: Mapping[str, Any], missing_text: str | None, *,
    households: int,
) -> NDArray[np.int8]:  # fmt: skip
    roles = schema.roles
    if roles is None:
        return np.zeros(len(owner), dtype=np.int8)
    if roles.column:
        found = _roles_of_column(roles, _texts(raw, roles.column, missing_text))
    else:
        sex = members[roles.sex] if roles.sex else None
        found = roles_by_rule(roles, _numbers(raw, roles.age, missing_text), sex, owner, households)
    for role, place in ((REFERENCE, 0), (PARTNER, 1)):
        count = np.bincount(owner[found == place], minlength=households)
        if wrong := int((count > 1).sum()) + (int((count == 0).sum()) if role == REFERENCE else 0):
            needed = "exactly one reference person" if role == REFERENCE else "at most one partner"
            raise InputError(f"the roles contradict each other in {wrong:,} household(s): each needs {needed}.")
    return found


def _texts(raw: pa.Table, column: str, missing_text: str | None) -> NDArray[Any]:
    texts = pa.chunked_array(
        [id_texts(chunk, column, missing_text) for chunk in raw.column(column).chunks], pa.large_string()
    )
    return np.asarray(pc.fill_null(texts, "").to_numpy(zero_copy_only=False), dtype=np.str_)


def _roles_of_column(roles: Roles, texts: NDArray[Any]) -> NDArray[np.int8]:
    found = np.full(len(texts), 3, dtype=np.int8)
    for place, values in enumerate((roles.reference, roles.partner, roles.child)):
        found[np.isin(texts, values)] = place
    return found


def _numbers(raw: pa.Table, column: str, missing_text: str | None) -> NDArray[np.float64]:
    """Ages as numbers; NaN where there is none."""
    texts = _texts(raw, column, missing_text)
    found = np.full(len(texts), np.nan)
    names, place = np.unique(texts, return_inverse=True)
    for number, name in enumerate(names):
        try:
            value = float(str(name).replace(",", "."))
        except ValueError:
            continue
        found[place == number] = value
    return found


def _inside(attribute: Attribute, values: NDArray[np.float64], codes: Codes) -> NDArray[np.float64]:
    """Numbers as the schema takes them: none where the code stands for something else, and none outside the bounds.

    A number that cannot be read, such as a date, stands in the middle of its bin.
    """
    first, last = float(attribute.edges[0]), float(attribute.edges[-1])  # type: ignore[arg-type]
    held = np.where(np.isnan(values), middles(attribute, codes), np.clip(values, first, last))
    return np.where(np.asarray(codes) < attribute.bins, held, np.nan)


def roles_by_rule(
    roles: Roles, age: NDArray[np.float64], sex: Any, owner: Integers, households: int
) -> NDArray[np.int8]:
    """The rule of :class:`~understudy.core.linked_schema.Roles`, for members in order within their households."""
    rows = np.arange(len(owner))
    adult = age >= roles.adult
    none = len(owner)
    reference = np.full(households, none)
    np.minimum.at(reference, owner[adult], rows[adult])
    oldest = np.lexsort((rows, -np.nan_to_num(age, nan=-np.inf), owner))
    first = np.flatnonzero(np.append(True, owner[oldest][1:] != owner[oldest][:-1]))
    eldest = np.full(households, none)
    eldest[owner[oldest[first]]] = oldest[first]
    reference = np.where(reference == none, eldest, reference)
    beside = reference[owner]
    gap = age[beside] - age
    fits = adult & (rows != beside) & (np.abs(gap) <= roles.partner_within)
    if sex is not None:
        fits &= sex != sex[beside]
    partner = np.full(households, none)
    np.minimum.at(partner, owner[fits], rows[fits])
    found = np.where(gap >= roles.child_younger, 2, 3).astype(np.int8)
    found[reference] = 0
    found[partner[partner < none]] = 1
    return found


# What is kept of large households, and who stands for the others.


def member_words(linked: LinkedTable, ids: Integers, key: bytes) -> Words:
    """One word for each member, from the household's id and the member's number in the order of its codes."""
    place = np.arange(len(linked.owner)) - np.searchsorted(linked.owner, linked.owner)
    blocks = np.stack([ids[linked.owner].astype(np.uint64), place.astype(np.uint64)], axis=1)
    return np.asarray(encrypted_blocks(key, blocks)[:, 0], dtype=np.uint64)


def bounded(linked: LinkedTable, words: Words) -> Integers | None:
    """The members that are kept, where households have more than the schema allows; None if all are.

    The reference person and the partner stay; of the others, those with the smallest words.
    """
    schema = linked.schema
    if not (linked.compositions < 0).any():
        return None
    if schema.beyond == "error":
        raise InputError(
            f"{int((linked.compositions < 0).sum()):,} household(s) have more members than the schema allows (at_most "
            f'= {schema.at_most}, and most of a role). Raise at_most, or write beyond = "sample", which leaves members '
            "out at random."
        )
    most = [schema.at_most if schema.roles is None else schema.roles.limit(role) for role in schema.role_names]
    kept = linked.numbered(words) < np.array(most)[linked.role]
    first = np.isin(linked.role, [0, 1]) if schema.roles is not None else np.zeros(len(words), dtype=bool)
    order = np.lexsort((words, ~first, ~kept, linked.owner))
    place = np.empty(len(words), dtype=np.int64)
    place[order] = np.arange(len(words)) - np.searchsorted(linked.owner, linked.owner[order])
    return np.flatnonzero(kept & (place < schema.at_most))


def _only(linked: LinkedTable, kept: Integers) -> LinkedTable:
    columns = {name: codes[kept] for name, codes in linked.members.columns.items()}
    members = CodedTable(schema=linked.members.schema, columns=columns)
    numbers = {name: values[kept] for name, values in linked.numbers.items()}
    return LinkedTable(schema=linked.schema, households=linked.households, members=members,
                       owner=linked.owner[kept], role=linked.role[kept], numbers=numbers)  # fmt: skip


def impossible_households(linked: LinkedTable) -> int:
    """How many households break a rule across members: every member is tried in the slot of its role."""
    schema, wrong = linked.schema, np.zeros(linked.households.rows, dtype=bool)
    for name in dict.fromkeys(gap.attribute for gap in schema.gaps):
        wrong |= too_near(linked, name, linked.numbers[name])
    rules = [rule for rule in schema.wide.zeros if not _is_built_in(rule.attributes)]
    place = linked.numbered(np.arange(len(linked.owner), dtype=np.uint64))
    counts = linked.by_role[linked.owner, linked.role]
    for turn in range(int(place.max(initial=0)) + 1 if rules else 0):
        row = linked.wide(np.asarray((place - turn) % counts, dtype=np.uint64))
        for rule in rules:
            codes = rule.codes(schema.wide)
            wrong |= np.logical_and.reduce([np.isin(row.columns[name], codes[name]) for name in rule.attributes])
    return int(wrong.sum())


def _is_built_in(names: tuple[str, ...]) -> bool:
    """Whether a structural zero only says which sizes and numbers a composition has."""
    return COMPOSITION in names and bool({SIZE, CHILDREN} & set(names))
