"""A fitted model as it is published: everything needed to draw rows, and nothing that was not noisy or public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.core.apportion import apportion
from understudy.core.mechanism import Stream
from understudy.core.schema import Attribute, Schema
from understudy.core.table import CodedTable
from understudy.models.junction_tree import Margin
from understudy.models.model import Model
from understudy.models.nearest_table import nearest_table
from understudy.models.sample import draw_cells, draw_inside

# From merged bins back to the fine grid of a schema: what a model of merged bins needs to draw rows on it.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FineBins:
    """One attribute: the merged code of every code, and the weight of every code within it. Both are public."""

    name: str
    codes: tuple[int, ...]
    weights: NDArray[np.float64]


def weights_within(codes: Sequence[int], noisy: NDArray[np.int64], variance: float) -> NDArray[np.float64]:
    """How the rows of each merged code are distributed over its codes, from noisy counts and the noise variance.

    Let a merged bin have k bins, and let their noisy counts y have mean m and sample variance s^2. The counts are
    estimated by m + b (y - m) with b = max(1 - variance / s^2, 0): Stein's rule, which removes the scatter that the
    noise explains. Negative counts are then removed. If nothing is left, all bins get equal shares. Only noisy values
    are used: this is post-processing.

    >>> weights_within((0, 0, 0, 1), np.array([110, 90, 100, 7]), 1.0).tolist()
    [109.9, 90.1, 100.0, 7.0]
    >>> weights_within((0, 0, 0, 1), np.array([110, 90, 100, -7]), 1000.0).tolist()
    [100.0, 100.0, 100.0, 1.0]
    """
    weights = np.ones(len(codes))
    merged = np.array(codes)
    for code in range(max(codes) + 1):
        inside = merged == code
        counts = noisy[inside].astype(np.float64)
        total = float(counts.sum())
        if total > 0:
            scatter = float(counts.var(ddof=1)) if len(counts) > 1 else 0.0
            kept = max(0.0, 1.0 - variance / scatter) if scatter > 0 else 0.0
            weights[inside] = nearest_table(counts.mean() + kept * (counts - counts.mean()), total)
    return weights


def merged_attribute(attribute: Attribute, bins: int) -> Attribute:
    """What a model sees of an attribute: as many levels as there are merged bins, then special codes and missing."""
    kept = [f"other {number}" for number in range(attribute.size - attribute.bins)]
    return Attribute(name=attribute.name, levels=(*(f"bin {number}" for number in range(bins)), *kept))


def merged_schema(schema: Schema, bins: dict[str, int]) -> Schema:
    """A schema in which some attributes have been merged into the given number of bins, whichever bins they are."""
    return Schema(
        attributes=tuple(
            merged_attribute(one, bins[one.name]) if one.name in bins else one for one in schema.attributes
        ),
        impossible=schema.zeros,
    )


def spread(
    table: CodedTable, schema: Schema, fine: Sequence[FineBins], rows_by: str, stream: Stream, *purpose: str | int
) -> CodedTable:
    """Rows on the fine grid; within a merged bin an attribute's code does not depend on the other attributes."""
    columns = dict(table.columns)
    for one in fine:
        merged = np.asarray(table.columns[one.name], dtype=np.int64)
        codes = np.array(one.codes, dtype=np.int64)
        drawn = draw_inside(codes, one.weights, merged, rows_by, stream, "refine", one.name, *purpose)
        columns[one.name] = drawn.astype(np.min_scalar_type(schema[one.name].size - 1))
    return CodedTable(schema=schema, columns=columns)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FittedPart:
    """The model of one stratum: the codes of the attributes that define the strata, and the number of records."""

    codes: tuple[int, ...]
    size: float
    model: Model


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fitted:
    """A fitted model as it is published: one for all rows, or one for each stratum."""

    rows_by: str
    """How rows are drawn from it: ``rounding`` or ``multinomial``."""
    parts: tuple[FittedPart, ...]
    """The model of each stratum."""
    strata: Margin = ()
    """The attributes that define the strata."""
    public_sizes: bool = False
    """Whether the sizes of strata are exact and public. If so, rows are allocated in proportion to them; otherwise the
    number of rows of each stratum is drawn."""
    fine: tuple[FineBins, ...] = ()
    """Attributes whose bins the models have merged."""

    def modelled(self, schema: Schema) -> Schema:
        """The schema of the models: the release's, with merged bins.

        Parameters
        ----------
        schema
            The schema of the release.

        Returns
        -------
        Schema
            The schema that the models have.
        """
        bins = {one.name: len(set(one.codes[: schema[one.name].bins])) for one in self.fine}
        return merged_schema(schema, bins) if bins else schema

    def draw(self, schema: Schema, rows: int, stream: Stream, *purpose: str | int) -> CodedTable:
        """Rows with the law the release states, from words that ``purpose`` names.

        Parameters
        ----------
        schema
            The schema of the release.
        rows
            How many rows are drawn.
        stream
            The source of randomness.
        *purpose
            What the draw is for; every purpose has a substream of its own.

        Returns
        -------
        CodedTable
            The rows, as codes of the schema.
        """
        table = self._draw(self.modelled(schema), rows, stream, *purpose)
        return spread(table, schema, self.fine, self.rows_by, stream, *purpose) if self.fine else table

    def _draw(self, schema: Schema, rows: int, stream: Stream, *purpose: str | int) -> CodedTable:
        if not self.strata:
            return self.parts[0].model.draw(schema, rows, self.rows_by, stream, *purpose)
        inner = Schema(attributes=tuple(one for one in schema.attributes if one.name not in self.strata))
        sizes = np.array([part.size for part in self.parts])
        if self.public_sizes:
            counts = apportion(np.rint(sizes).astype(np.int64), rows)
        else:
            drawn = draw_cells(sizes, rows, self.rows_by, stream, *purpose, "strata")
            counts = np.bincount(drawn, minlength=len(self.parts)).astype(np.int64)
        tables = [
            part.model.draw(inner, int(count), self.rows_by, stream, *purpose, "stratum", number)
            for number, (part, count) in enumerate(zip(self.parts, counts, strict=True))
        ]
        order = np.argsort(stream.words(rows, *purpose, "shuffle"), kind="stable")
        columns: dict[str, NDArray[np.integer]] = {}
        for name in schema.names:
            if name in self.strata:
                codes = np.array([part.codes[self.strata.index(name)] for part in self.parts])
                whole = np.repeat(codes, counts).astype(np.min_scalar_type(schema[name].size - 1))
            else:
                whole = np.concatenate([np.asarray(table.columns[name]) for table in tables])
            columns[name] = whole[order]
        return CodedTable(schema=schema, columns=columns)
