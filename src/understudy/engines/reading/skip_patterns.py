"""Questions that were asked of some people only, found in the data for the draft of a schema and nothing else.

A column that is never filled where another has a certain value is usually so by design: women are asked about births,
people of working age about their job. The schema can say it with ``asked_if``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from understudy.core.schema import Attribute, level_text
from understudy.engines.reading.values import as_numpy, canonical_texts, parse_numbers, plain

MOST_ROWS = 100_000  # rows looked at; a rule of the questionnaire shows in fewer
MOST_LEVELS = 12  # of a column that decides who is asked
LEAST_ROWS = 30  # rows that a rule must speak of
EXPLAINS = 0.8  # of the rows without a value
STILL_MISSING = 0.2  # at most, among those who are asked

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """Where a column is never filled, in words, and who is asked as a line of the schema."""

    explains: int
    words: str
    condition: str


def skip_patterns(
    batches: Iterable[pa.RecordBatch], attributes: Mapping[str, Attribute], unfilled: Mapping[str, set[str]]
) -> dict[str, str]:
    """A remark for each column that is never filled where one other column has a certain value.

    ``unfilled`` gives for each column the texts that are no value, beside nulls.
    """
    columns: dict[str, list[pa.Array]] = {name: [] for name in attributes}
    rows = 0
    for batch in batches:
        for name, parts in columns.items():
            parts.append(canonical_texts(_decoded(batch.column(name))))
        rows += batch.num_rows
        if rows >= MOST_ROWS:
            break
    texts = {name: pa.chunked_array(parts, pa.large_string()).combine_chunks() for name, parts in columns.items()}
    empty = {name: _is_empty(texts[name], unfilled[name]) for name in attributes}
    asked = {name: flags for name, flags in empty.items() if LEAST_ROWS <= flags.sum() <= rows - LEAST_ROWS}
    found: dict[str, str] = {}
    for name, flags in asked.items():
        rules = [
            rule
            for other, attribute in attributes.items()
            if other != name and (rule := _rule(attribute, texts[other], empty[other], flags)) is not None
        ]
        if rules:
            best = max(rules, key=lambda rule: rule.explains)
            found[name] = (
                f"never filled where {best.words}. If the questionnaire says so, write:\n[[rule]]\n"
                f"asked = {json.dumps([name], ensure_ascii=False)}\nasked_if = {{ {best.condition} }}"
            )
    return found


def _rule(attribute: Attribute, texts: pa.Array, empty: Flags, flags: Flags) -> _Rule | None:
    if attribute.levels:
        return _by_level(attribute, texts, flags) if attribute.bins <= MOST_LEVELS else None
    return _by_bound(attribute, texts, empty, flags) if attribute.kind == "numeric" else None


def _by_level(attribute: Attribute, texts: pa.Array, flags: Flags) -> _Rule | None:
    never = np.zeros(len(flags), bool)
    levels = []
    for level in attribute.levels:
        here = as_numpy(pc.fill_null(pc.equal(texts, level_text(level)), False))
        if here.sum() >= LEAST_ROWS and flags[here].all():
            never |= here
            levels.append(level_text(level))
    if not levels or len(levels) == attribute.bins or not _convinces(never, flags):
        return None
    asked = [level_text(level) for level in attribute.levels if level_text(level) not in levels]
    return _Rule(
        explains=int(never.sum()),
        words=f"{attribute.name} is {', '.join(levels)}",
        condition=f"{_key(attribute.name)} = {json.dumps(asked, ensure_ascii=False)}",
    )


def _by_bound(attribute: Attribute, texts: pa.Array, empty: Flags, flags: Flags) -> _Rule | None:
    numbers = np.full(len(flags), np.nan)
    numbers[~empty] = as_numpy(parse_numbers(texts.filter(pa.array(~empty))))
    filled = numbers[~flags & ~empty]
    if not len(filled):
        return None
    low, high = filled.min(), filled.max()
    for never, words, condition in (
        (numbers < low, f"is below {low:g}", f"{_key(attribute.name)} = {{ above = {low:g} }}"),
        (numbers > high, f"is above {high:g}", f"{_key(attribute.name)} = {{ below = {_after(attribute, high)} }}"),
    ):
        if _convinces(never, flags):
            return _Rule(explains=int(never.sum()), words=f"{attribute.name} {words}", condition=condition)
    return None


def _after(attribute: Attribute, high: float) -> str:
    """The first round number above the largest, as a bound that is not reached itself."""
    return f"{high + 1:g}" if attribute.integer else f"{np.nextafter(high, np.inf):.6g}"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _convinces(never: Flags, flags: Flags) -> bool:
    """Whether the rule speaks of many rows and explains nearly all that are not filled."""
    asked = ~never
    return bool(
        never.sum() >= LEAST_ROWS
        and asked.sum() >= LEAST_ROWS
        and never.sum() >= EXPLAINS * flags.sum()
        and flags[asked].mean() <= STILL_MISSING
    )


def _decoded(array: pa.Array) -> pa.Array:
    array = plain(array)
    return plain(array.dictionary_decode()) if pa.types.is_dictionary(array.type) else array


def _is_empty(texts: pa.Array, unfilled: set[str]) -> Flags:
    listed = pa.array(sorted(unfilled), pa.large_string())
    flags: Flags = as_numpy(texts.is_null()) | as_numpy(pc.is_in(pc.utf8_trim_whitespace(texts), listed))
    return flags
