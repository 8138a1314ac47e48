"""A fitted model as it is published: everything needed to draw rows, and nothing that was not noisy or public."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.core.apportion import apportion
from understudy.core.mechanism import Stream
from understudy.core.schema import Schema
from understudy.core.table import CodedTable
from understudy.models.fine_bins import FineBins, merged_schema, spread
from understudy.models.junction_tree import Margin
from understudy.models.model import Model
from understudy.models.sample import draw_cells


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
