"""Bins that follow the data, privately: a fine public grid is merged into a few bins of about equal noisy mass.

The schema has the fine grid. A part of the budget measures each refined attribute's one-way margin on it; the bins are
merged by these noisy counts alone; everything else is measured on merged bins (the gate adds cells up before the
noise); rows get their fine bin back by the noisy one-way margin. See docs/theory/margins.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from understudy.core.mechanism import Stream
from understudy.core.schema import Attribute, Schema
from understudy.core.table import CodedTable
from understudy.errors import InputError, UnsupportedError
from understudy.models.project import nearest_table
from understudy.models.sample import draw_given
from understudy.privacy.gate import Groups

SHARE = Fraction(1, 10)  # of the budget, for all fine one-way margins together
LEAST, MOST = 2, 200  # merged bins of one attribute


@dataclass(frozen=True, slots=True, kw_only=True)
class Refinement:
    """Which attributes are refined, and into how many bins each."""

    schema: Schema
    bins: Mapping[str, int]

    @property
    def coarse(self) -> Schema:
        """The schema that the model sees: as many levels as there will be merged bins, whichever they are."""
        attributes = []
        for one in self.schema.attributes:
            if one.name not in self.bins:
                attributes.append(one)
                continue
            kept = [f"other {number}" for number in range(one.size - one.bins)]
            merged = [f"bin {number}" for number in range(self.bins[one.name])]
            attributes.append(Attribute(name=one.name, levels=(*merged, *kept)))
        return Schema(attributes=tuple(attributes), impossible=self.schema.impossible)

    def groups(self, fine: Mapping[str, NDArray[np.int64]]) -> Groups:
        """For each code of a refined attribute its merged code, from noisy counts."""
        return {name: self._merge(self.schema[name], fine[name], count) for name, count in self.bins.items()}

    def _merge(self, attribute: Attribute, noisy: NDArray[np.int64], count: int) -> tuple[int, ...]:
        """Neighbouring bins merged at the quantiles of the noisy counts; every merged bin has at least one."""
        inside = noisy[: attribute.bins]
        mass = np.cumsum(nearest_table(inside, max(float(inside.sum()), 1.0)))
        cuts: list[int] = []
        for number in range(1, count):
            nearest = int(np.argmin(np.abs(mass - mass[-1] * number / count))) + 1
            least, most = (cuts[-1] if cuts else 0) + 1, attribute.bins - (count - number)
            cuts.append(min(max(nearest, least), most))
        merged = np.searchsorted(cuts, np.arange(attribute.bins), side="right")
        rest = range(count, count + attribute.size - attribute.bins)
        return (*(int(code) for code in merged), *rest)

    def expand(
        self, table: CodedTable, groups: Groups, fine: Mapping[str, NDArray[np.int64]], *, rows_by: str,
        stream: Stream, copy: int,
    ) -> CodedTable:  # fmt: skip
        """Rows on the fine grid: within a merged bin by the noisy one-way margin, evenly where that has nothing."""
        columns = dict(table.columns)
        for name, codes in groups.items():
            attribute = self.schema[name]
            noisy = np.maximum(fine[name].astype(np.float64), 0.0)
            shares = np.zeros((max(codes) + 1, attribute.size))
            shares[np.array(codes), np.arange(attribute.size)] = 1.0
            weighted = shares * noisy
            empty = weighted.sum(axis=1) == 0
            weighted[empty] = shares[empty]
            state = np.asarray(table.columns[name], dtype=np.int64)
            drawn = draw_given(weighted, state, rows_by, stream, "refine", name, copy)
            columns[name] = drawn.astype(np.min_scalar_type(attribute.size - 1))
        return CodedTable(schema=self.schema, columns=columns)

    def describe(self, groups: Groups) -> str:
        """The merged bins, for the release's notes: they follow from noisy counts and are public."""
        told = []
        for name, codes in groups.items():
            edges, bins = self.schema[name].edges, self.schema[name].bins
            starts = [edges[bin_] for bin_ in range(bins) if bin_ == 0 or codes[bin_] != codes[bin_ - 1]]
            told.append(f"{name} at {', '.join(str(edge) for edge in (*starts, edges[-1]))}")
        return f"Bins merged by noisy counts: {'; '.join(told)}."


def read_refinement(schema: Schema, text: str) -> Refinement | None:
    """``age:8, income:10``: numeric attributes and how many bins each is to have; nothing means none."""
    bins: dict[str, int] = {}
    for part in (one.strip() for one in text.split(",")):
        if not part:
            continue
        name, _, number = part.partition(":")
        attribute = schema[name.strip()]
        if not number.strip().isdigit():
            raise InputError(f'refine ({text}) must name attributes and numbers of bins, such as "age:8, income:10".')
        count = int(number)
        if attribute.levels:
            raise InputError(f"refine merges bins, and '{attribute.name}' has levels; leave it out.")
        if not LEAST <= count <= min(MOST, attribute.bins - 1):
            raise InputError(
                f"refine: '{attribute.name}' has {attribute.bins} bins; merge them into at least {LEAST} and at most "
                f"{min(MOST, attribute.bins - 1)} ({count} were asked for)."
            )
        if any(attribute.name in rule.attributes for rule in schema.impossible):
            raise UnsupportedError(
                f"a structural zero speaks of '{attribute.name}', whose merged bins might cut through it; leave it out "
                "of refine."
            )
        bins[attribute.name] = count
    return Refinement(schema=schema, bins=bins) if bins else None
