"""From merged bins back to the fine grid of a schema: what a model of merged bins needs to draw rows on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.core.mechanism import Stream
from understudy.core.schema import Attribute, Schema
from understudy.core.table import CodedTable
from understudy.models.sample import draw_given


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FineBins:
    """One attribute: the merged code of every code, and noisy counts on the fine grid. Both are public."""

    name: str
    codes: tuple[int, ...]
    counts: NDArray[np.int64]

    @property
    def shares(self) -> NDArray[np.float64]:
        """For each merged code the weights of the codes in it: by the noisy counts, evenly where those have nothing."""
        inside = np.zeros((max(self.codes) + 1, len(self.codes)))
        inside[np.array(self.codes), np.arange(len(self.codes))] = 1.0
        weighted = inside * np.maximum(self.counts.astype(np.float64), 0.0)
        empty = weighted.sum(axis=1) == 0
        weighted[empty] = inside[empty]
        return weighted


def merged_attribute(attribute: Attribute, bins: int) -> Attribute:
    """What a model sees of an attribute: as many levels as there are merged bins, then special codes and missing."""
    kept = [f"other {number}" for number in range(attribute.size - attribute.bins)]
    return Attribute(name=attribute.name, levels=(*(f"bin {number}" for number in range(bins)), *kept))


def merged_schema(schema: Schema, bins: dict[str, int]) -> Schema:
    """A schema with some attributes merged into so many bins, whichever they are."""
    return Schema(
        attributes=tuple(
            merged_attribute(one, bins[one.name]) if one.name in bins else one for one in schema.attributes
        ),
        impossible=schema.impossible,
    )


def spread(
    table: CodedTable, schema: Schema, fine: Sequence[FineBins], rows_by: str, stream: Stream, *purpose: str | int
) -> CodedTable:
    """Rows on the fine grid; within a merged bin an attribute's code does not depend on the other attributes."""
    columns = dict(table.columns)
    for one in fine:
        merged = np.asarray(table.columns[one.name], dtype=np.int64)
        drawn = draw_given(one.shares, merged, rows_by, stream, "refine", one.name, *purpose)
        columns[one.name] = drawn.astype(np.min_scalar_type(schema[one.name].size - 1))
    return CodedTable(schema=schema, columns=columns)
