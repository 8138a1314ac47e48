"""Sums, differences and orders that hold in every row of some data: candidates for rules, for a draft and nothing else.

Only a person can say whether it is a rule. A draft shows what to write, commented out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from understudy.core.rules import Order, steps_of
from understudy.core.schema import Attribute
from understudy.engines.reading.encode import Encoder
from understudy.engines.reading.rule_values import in_steps
from understudy.engines.reading.values import values_of

MOST_ROWS = 100_000  # rows looked at
MOST_COLUMNS = 40  # numbers and dates that are compared with each other
LEAST_ROWS = 50  # with a value in both
MOST_PARTS = 4  # of a sum
OVERLAP = 0.2  # of the rows must have values that two columns share, or an order says nothing

Numbers = NDArray[np.float64]


def rule_candidates(batches: Iterable[pa.RecordBatch], attributes: Mapping[str, Attribute]) -> list[str]:
    """The lines of a schema for each rule that holds in all rows, each after a remark that says so."""
    chosen = dict(list(_comparable(attributes).items())[:MOST_COLUMNS])
    columns = _numbers(batches, chosen)
    totals = _sums({name: columns[name] for name, one in chosen.items() if one.kind == "numeric"}, chosen)
    found = [
        f"{total} = {' + '.join(parts)} in every row. If this is so by definition, leave out the attribute {total} and "
        f'write:\n[[derived]]\nname = {_quoted(total)}\nfrom = [{", ".join(map(_quoted, parts))}]\nfunction = "sum"'
        for total, parts in totals.items()
    ]
    for small, large in _orders(columns, chosen):
        if not any({small, large} <= {total, *parts} for total, parts in totals.items()):
            rule = Order(attributes=(small, large))
            found.append(
                f"{rule.describe()} in every row. If this must always hold, write:\n[[rule]]\n"
                f"order = [{_quoted(small)}, {_quoted(large)}]"
            )
    return found


def _comparable(attributes: Mapping[str, Attribute]) -> dict[str, Attribute]:
    return {
        name: one
        for name, one in attributes.items()
        if one.kind == "date" or (one.kind == "numeric" and (one.integer or one.decimals is not None))
    }


def _numbers(batches: Iterable[pa.RecordBatch], chosen: Mapping[str, Attribute]) -> dict[str, Numbers]:
    from understudy.core.schema import Schema

    if not chosen:
        return {}
    schema = Schema(attributes=tuple(chosen.values()))
    parts: dict[str, list[Numbers]] = {name: [] for name in chosen}
    encoder, rows = Encoder(schema, missing_text=""), 0
    for batch in batches:
        codes = encoder.encode(batch)
        for name, one in chosen.items():
            parts[name].append(in_steps(values_of(batch.column(name), codes[name], one), 10 ** steps_of(one)))
        rows += batch.num_rows
        if rows >= MOST_ROWS:
            break
    return {name: np.concatenate(found) if found else np.empty(0) for name, found in parts.items()}


def _sums(columns: Mapping[str, Numbers], chosen: Mapping[str, Attribute]) -> dict[str, tuple[str, ...]]:
    """Columns that are, in every row, the sum of two to four others with the same decimals."""
    found: dict[str, tuple[str, ...]] = {}
    for total, amounts in columns.items():
        others = [
            name
            for name in columns
            if name != total and name not in found and steps_of(chosen[name]) == steps_of(chosen[total])
        ]
        parts = next(
            (
                some
                for size in range(2, min(MOST_PARTS, len(others)) + 1)
                for some in combinations(others[: 12 if size > 2 else MOST_COLUMNS], size)
                if _adds_up(amounts, [columns[name] for name in some])
            ),
            None,
        )
        if parts is not None and not any(total in before for before in found.values()):
            found[total] = parts
    return found


def _adds_up(total: Numbers, parts: list[Numbers]) -> bool:
    known = ~np.isnan(total)
    for part in parts:
        if (known != ~np.isnan(part)).any() or not (part[known] != 0).any():
            return False
    head = np.flatnonzero(known)[:20]  # most candidates fail at once
    if len(head) < 20 or not np.array_equal(sum(part[head] for part in parts), total[head]):
        return False
    several = (np.column_stack([part[known] for part in parts]) != 0).sum(axis=1) > 1
    return bool(several.sum() >= 10 and np.array_equal(sum(part[known] for part in parts), total[known]))


def _orders(columns: Mapping[str, Numbers], chosen: Mapping[str, Attribute]) -> list[tuple[str, str]]:
    """Pairs of dates, or of numbers with the same decimals and overlapping ranges: one is never above the other."""
    found = []
    for one, other in combinations(columns, 2):
        if chosen[one].kind != chosen[other].kind:
            continue
        both = ~np.isnan(columns[one]) & ~np.isnan(columns[other])
        if both.sum() < LEAST_ROWS:
            continue
        first, second = columns[one][both], columns[other][both]
        overlap = (first >= second.min()) & (first <= second.max())
        if overlap.mean() < OVERLAP or not _alike(chosen[one], chosen[other]):
            continue
        if (first <= second).all() and (first < second).any():
            found.append((one, other))
        elif (second <= first).all() and (second < first).any():
            found.append((other, one))
    return found


def _alike(one: Attribute, other: Attribute) -> bool:
    """Whether two columns may measure the same: dates, or amounts with the same digits after the point."""
    return one.kind == "date" or steps_of(one) == steps_of(other)


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
