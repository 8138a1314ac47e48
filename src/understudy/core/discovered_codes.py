"""Attributes with codes to discover (``levels = "discover"``): what a schema may say about them, and which level a code
gets once some codes were found.

A code that was not found gets its nearest parent that was found, and otherwise ``other``. Parents are prefixes of
public lengths, or come from a public classification.
"""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from understudy.errors import SchemaError

if TYPE_CHECKING:
    from understudy.core.schema import Attribute, Level

DISCOVER = "discover"
OTHER = "other"
MOST_CODES = 50
LONGEST_CODE = 32
LARGEST_NUMBER, LARGEST_LENGTH, LARGEST_LIST = 10_000, 1_000, 200_000


def taken_codes(attribute: Attribute) -> tuple[Level, ...]:
    """The checked levels of an attribute: as given, or those of the public list if codes are not found yet."""
    where = f"attribute '{attribute.name}'"
    given: object = attribute.levels
    if given != DISCOVER and not attribute.most_codes:
        if attribute.longest_code or attribute.prefixes or attribute.among or attribute.parents:
            raise SchemaError(f'{where}: most_codes, longest_code, prefixes, among and parents go with "discover".')
        return attribute.levels
    _set_defaults(attribute)
    _check_numbers(attribute, where)
    _check_list(attribute, where)
    if attribute.edges or attribute.bounds:
        raise SchemaError(f"{where} has levels to discover, and edges or bounds; codes are not numbers.")
    if attribute.ordered or attribute.level_labels or attribute.tree or attribute.distances:
        raise SchemaError(f"{where}: ordered, level_labels, tree and distances need levels that are listed.")
    if attribute.found:
        _check_found(attribute, where)
        return attribute.levels
    open_levels = attribute.among or (OTHER,)
    if given not in (DISCOVER, (), open_levels):
        raise SchemaError(f'{where} has levels and codes to discover; write levels = "discover", or list the levels.')
    return open_levels


def _set_defaults(attribute: Attribute) -> None:
    for part, default in (("most_codes", MOST_CODES), ("longest_code", LONGEST_CODE)):
        if not getattr(attribute, part):
            object.__setattr__(attribute, part, default)


def _check_numbers(attribute: Attribute, where: str) -> None:
    limits = (("most_codes", LARGEST_NUMBER), ("longest_code", LARGEST_LENGTH))
    numbers = [(part, getattr(attribute, part), most) for part, most in limits]
    numbers += [("prefixes", length, attribute.longest_code) for length in attribute.prefixes]
    for part, value, most in numbers:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise SchemaError(f"{where}: {part} ({value!r}) must be a whole number from 1 to {most:,}.")
    if list(attribute.prefixes) != sorted(set(attribute.prefixes)):
        raise SchemaError(f"{where}: prefixes must be lengths in increasing order, such as [1, 2].")


def _check_list(attribute: Attribute, where: str) -> None:
    """The public list that codes are found among, and their parents."""
    codes, parents = attribute.among, attribute.parents
    if not all(isinstance(code, str) and code.strip() for code in codes) or len(set(codes)) != len(codes):
        raise SchemaError(f"{where}: among must be a list of different texts.")
    if codes and not 2 <= len(codes) <= LARGEST_LIST:
        raise SchemaError(f"{where}: among has {len(codes):,} codes; a list has 2 to {LARGEST_LIST:,}.")
    if OTHER in codes:
        raise SchemaError(f"{where}: '{OTHER}' stands for codes that were not found; it cannot be one of them.")
    if not parents:
        return
    if attribute.prefixes or len(parents) != len(codes) or not all(isinstance(one, str) for one in parents):
        raise SchemaError(
            f'{where}: parents needs one text for each code of among, in order ("" for none), and no prefixes.'
        )
    above = dict(zip(codes, parents, strict=True))
    if strange := sorted({one for one in parents if one} - set(codes)):
        raise SchemaError(f"{where}: the parent {strange[0]!r} is not in the list; list groups as codes too.")
    for code in codes:
        steps, at = 0, code
        while at := above.get(at, ""):
            steps += 1
            if steps > len(codes):
                raise SchemaError(f"{where}: the parents of {code!r} form a circle.")


def _check_found(attribute: Attribute, where: str) -> None:
    if attribute.levels[-1:] != (OTHER,) or len(attribute.levels) > attribute.most_codes + 1:
        raise SchemaError(f"{where}: levels must be at most {attribute.most_codes} found codes, and then '{OTHER}'.")
    if not all(isinstance(level, str) and 1 <= len(level) <= attribute.longest_code for level in attribute.levels[:-1]):
        raise SchemaError(f"{where}: found codes must be texts of at most {attribute.longest_code} characters.")


def as_declared(attribute: Attribute) -> Attribute:
    """The attribute as it was before its codes were found."""
    return replace(attribute, found=False, levels=())


def parent_chain(attribute: Attribute, code: str) -> list[str]:
    """The parents of a code, the nearest first.

    >>> from understudy.core.schema import Attribute
    >>> parent_chain(Attribute(name="job", levels="discover", prefixes=(1, 2)), "2221")
    ['22', '2']
    """
    if attribute.prefixes:
        return [code[:length] for length in reversed(attribute.prefixes) if length < len(code)]
    if not attribute.parents:
        return []
    above, chain = dict(zip(attribute.among, attribute.parents, strict=True)), []
    while code := above.get(code, ""):
        chain.append(code)
    return chain


def generations(attribute: Attribute) -> list[dict[str, str]]:
    """For each level of a public list: what each code is counted as. The codes themselves come first.

    A code without a parent on a level stays what it was on the level below.
    """
    chains = {code: [code, *parent_chain(attribute, code)] for code in attribute.among}
    depth = max(map(len, chains.values()))
    return [{code: chain[min(level, len(chain) - 1)] for code, chain in chains.items()} for level in range(depth)]


class LevelFinder:
    """Finds the level of a text, for an attribute with discovered codes."""

    def __init__(self, attribute: Attribute) -> None:
        self._attribute = attribute
        self._places = {str(level): place for place, level in enumerate(attribute.levels)}
        self._listed = frozenset(attribute.among)
        self._above = dict(zip(attribute.among, attribute.parents, strict=True)) if attribute.parents else {}

    def place(self, text: str) -> int | None:
        """The code of the level; none if the text is not in the public list."""
        one = self._attribute
        if text in self._places:
            return self._places[text]
        if self._listed and text not in self._listed:
            return None
        if not one.found:
            return 0
        if len(text) <= one.longest_code:
            at = text
            while at := self._above.get(at, ""):
                if at in self._places:
                    return self._places[at]
            for length in reversed(one.prefixes):
                if length < len(text) and text[:length] in self._places:
                    return self._places[text[:length]]
        return self._places[OTHER]


def joined_codes(declared: Attribute, found: Attribute) -> NDArray[np.int64]:
    """The level of every code of a public list, then the missing value."""
    finder = LevelFinder(found)
    places = [finder.place(str(code)) for code in declared.levels]
    return np.array([*(place for place in places if place is not None), *range(found.bins, found.size)], np.int64)


def canonical_codes(attribute: Attribute) -> dict[str, object]:
    """What the schema says about codes to discover, for a fingerprint."""
    return {
        "discover": {
            "most_codes": attribute.most_codes,
            "longest_code": attribute.longest_code,
            "prefixes": list(attribute.prefixes),
            "among": list(attribute.among),
            "parents": list(attribute.parents),
            "found": attribute.found,
        }
    }


# A public classification of codes as a CSV file: occupations, diagnoses, postcodes, with their groups if there are
# any.


CODE, PARENT = "code", "parent"


def read_classification(name: str, folder: Path, path: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The codes of a file and the parent of each; no parents if the file has no such column.

    The file is UTF-8 text with a column ``code`` and possibly a column ``parent``; other columns are not read. It must
    be public: every code in it becomes part of the schema.
    """
    file = folder / path
    where = f"attribute '{name}': the classification {file}"
    try:
        with file.open(newline="", encoding="utf-8-sig") as handle:
            lines = csv.DictReader(handle)
            columns = lines.fieldnames or ()
            if CODE not in columns:
                raise SchemaError(f"{where} needs a line of column names with a column '{CODE}'.")
            rows = [(row[CODE] or "", (row.get(PARENT) or "")) for row in lines]
    except FileNotFoundError:
        raise SchemaError(f"{where} does not exist; its path is relative to the schema file.") from None
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise SchemaError(f"{where} cannot be read as UTF-8 CSV ({type(problem).__name__}).") from None
    codes = tuple(code.strip() for code, _ in rows)
    return codes, tuple(parent.strip() for _, parent in rows) if PARENT in columns else ()
