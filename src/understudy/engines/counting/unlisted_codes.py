"""Columns with codes that nobody listed: texts counted as they are, and hashed so that rows can be recognised. What
engines do in the same way.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from understudy.core.arrays import Integers
from understudy.core.counts import CodeCounts
from understudy.core.discovered_codes import OTHER
from understudy.core.schema import MISSING, Attribute, Schema
from understudy.core.spreadsheet import as_cell
from understudy.engines.reading.values import canonical_texts, check_type, plain, readable_column


def open_codes(schema: Schema) -> tuple[str, ...]:
    """The attributes whose codes are to be found without a public list."""
    return tuple(one.name for one in schema.open if one.most_codes and not one.among)


class CodeTally:
    """Counts the texts of one column over all batches. Confidential."""

    def __init__(self, attribute: Attribute, missing_text: str | None, length: int | None) -> None:
        self._attribute = attribute
        self._missing_text = missing_text
        self._length = length
        self._counted: Counter[str] = Counter()

    def add(self, array: pa.Array, keep: NDArray[np.bool_]) -> None:
        """The rows of a batch that are kept."""
        with readable_column(self._attribute.name):
            texts = _texts(array, self._attribute.name).filter(pa.array(keep))
            for pair in pc.value_counts(texts).to_pylist():
                if (code := self._code(pair["values"])) is not None:
                    self._counted[code] += pair["counts"]

    def _code(self, text: str | None) -> str | None:
        """What a text is counted as; None if it is missing, too long, or cannot be a level."""
        if not text or text == self._missing_text or len(text) > self._attribute.longest_code:
            return None
        if self._length is not None:
            if len(text) <= self._length:
                return None
            text = text[: self._length]
        return text if _can_be_level(text) else None

    def texts_and_rows(self) -> tuple[tuple[str, ...], Integers]:
        """The texts that were seen, sorted, and how many rows have each."""
        codes = tuple(sorted(self._counted))
        return codes, np.array([self._counted[code] for code in codes], dtype=np.int64)

    def counts(self) -> CodeCounts:
        """The same, for the gate."""
        codes, values = self.texts_and_rows()
        return CodeCounts(margin=(self._attribute.name,), _codes=codes, _values=values)


def _can_be_level(text: str) -> bool:
    """False for texts with another meaning in a release, and for texts that two levels would share in a CSV file."""
    return text not in (OTHER, MISSING) and not (text.startswith("'") and as_cell(text[1:]) == text)


def text_words(raw: pa.RecordBatch, schema: Schema) -> list[Integers]:
    """For each column whose codes are to be found, a hash of the text of each row."""
    words = []
    for name in open_codes(schema):
        encoded = column_texts(raw, name).dictionary_encode()
        hashes = [_hash(text) for text in encoded.dictionary.to_pylist()] + [0]
        places = pc.fill_null(encoded.indices.cast(pa.int64()), len(hashes) - 1)
        words.append(np.array(hashes, dtype=np.int64)[places.to_numpy(zero_copy_only=False)])
    return words


def column_texts(raw: pa.RecordBatch, name: str) -> pa.Array:
    """A column as canonical texts; null where there is no value."""
    with readable_column(name):
        return _texts(raw.column(name), name)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 1


def _texts(array: pa.Array, name: str) -> pa.Array:
    array = plain(array)
    check_type(array.type, name)
    array.validate(full=True)
    if pa.types.is_dictionary(array.type):
        return _texts(plain(array.dictionary), name).take(array.indices)
    if pa.types.is_null(array.type):
        return array.cast(pa.large_string())
    return canonical_texts(array)


def with_codes(declared: Schema, found: Schema) -> Schema:
    """The declared schema with the codes that were found, where no public list had them."""
    if not open_codes(declared):
        return declared
    return replace(
        declared,
        attributes=tuple(found[one.name] if one.most_codes and not one.among else one for one in declared.attributes),
    )
