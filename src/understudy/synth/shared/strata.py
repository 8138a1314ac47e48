"""Strata: one model for each cell of some attributes, all from the same measurements.

A table measured in every stratum is one table: the margin joined with the attributes that make the strata. Its
cells are disjoint, so one unit moves it exactly as far as a table without strata: under ``add_remove`` one cell of one
stratum (the maximum over strata), under ``replace`` two cells, which may lie in two strata (the sum of two). The gate
charges that; see docs/theory/margins.md. Everything below is post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

import numpy as np
from numpy.typing import NDArray

from understudy.core.apportion import apportion
from understudy.core.measurement import Measurement
from understudy.core.mechanism import SelectionLaw, Stream
from understudy.core.schema import Schema
from understudy.core.structural_zeros import Impossible
from understudy.core.table import CodedTable
from understudy.errors import InputError, UnsupportedError
from understudy.models.fit import Known, fit
from understudy.models.model import Model
from understudy.models.nearest_table import nearest_table
from understudy.models.published_model import Fitted, FittedPart
from understudy.models.sample import DESCRIPTIONS, draw_cells
from understudy.privacy.promise.definition import Unit
from understudy.privacy.promise.plan import Plan
from understudy.synth.shared.margin_methods import rows_law, synthesis_from
from understudy.synth.shared.method import MAX_ROWS, Synthesis

Margin = tuple[str, ...]
# A model of some measurements, given the number of their records and what is public; and a note on the fit.
Fitter = Callable[[Schema, Sequence[Measurement], float, Stream, Known], tuple[Model, str]]
MAX_STRATA = 2_000
NOTES = 20  # strata whose fit is described in the release


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratum:
    """One cell of the attributes that make the strata, and the schema of what varies inside it."""

    number: int
    codes: tuple[int, ...]
    schema: Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Strata:
    """How a table is divided. Without names it is not: one stratum, the whole schema."""

    schema: Schema
    names: Margin
    parts: tuple[Stratum, ...]

    @property
    def inner(self) -> Margin:
        """The attributes that vary inside a stratum."""
        return tuple(name for name in self.schema.names if name not in self.names)

    def joined(self, margin: Margin) -> Margin:
        """A margin inside the strata as the margin that is measured."""
        return self.schema.margin({*margin, *self.names})

    def joined_all(self, margins: Sequence[Margin]) -> list[Margin]:
        """The same for many, each once."""
        return list(dict.fromkeys(self.joined(margin) for margin in margins))

    def inside(self, margin: Margin) -> Margin:
        """What of a measured margin varies inside a stratum."""
        return tuple(name for name in margin if name not in self.names)

    def slice(self, values: NDArray[np.int64], margin: Margin, part: Stratum) -> NDArray[np.int64]:
        """The counts of one stratum."""
        place = dict(zip(self.names, part.codes, strict=True))
        index: tuple[int | slice, ...] = tuple(place[name] if name in place else slice(None) for name in margin)
        return np.asarray(values[index])

    def measured_in(self, part: Stratum, measured: Sequence[Measurement]) -> list[Measurement]:
        """What was measured about one stratum. The number of rows of the whole table says nothing about it."""
        return [
            Measurement(
                margin=self.inside(one.margin), values=self.slice(one.values, one.margin, part),
                mechanism=one.mechanism, label=one.label,
            )
            for one in measured
            if set(self.names) <= set(one.margin)
        ]  # fmt: skip

    def sizes(self, measured: Sequence[Measurement], total: float) -> NDArray[np.float64]:
        """How many records each stratum has, from noisy tables: averaged by precision, made to add up to the total."""
        summed, weight = np.zeros(len(self.parts)), 0.0
        for one in measured:
            if not set(self.names) <= set(one.margin):
                continue
            cells = prod(self.schema.shape(self.inside(one.margin)))
            precision = 1.0 / max(cells * one.mechanism.variance, 1e-9)
            found = np.array([float(self.slice(one.values, one.margin, part).sum()) for part in self.parts])
            summed, weight = summed + precision * found, weight + precision
        return nearest_table(summed / weight, max(total, 1.0))

    def rows(
        self, sizes: NDArray[np.float64], rows: int, by: str, stream: Stream, copy: int, *, public: bool
    ) -> NDArray[np.int64]:
        """How many rows each stratum gets: in proportion if its size is public, otherwise drawn like any other cell."""
        if public:
            return apportion(np.rint(sizes).astype(np.int64), rows)
        drawn = draw_cells(sizes, rows, by, stream, "strata", copy)
        return np.bincount(drawn, minlength=len(self.parts)).astype(np.int64)

    def together(self, tables: Sequence[CodedTable], stream: Stream, copy: int) -> CodedTable:
        """The rows of all strata as one table, in random order."""
        rows = [table.rows for table in tables]
        order = np.argsort(stream.words(sum(rows), "strata", "shuffle", copy), kind="stable")
        columns: dict[str, NDArray[np.integer]] = {}
        for name in self.schema.names:
            if name in self.names:
                at = self.names.index(name)
                kind = np.min_scalar_type(self.schema[name].size - 1)
                pieces = [
                    np.full(count, part.codes[at], dtype=kind) for part, count in zip(self.parts, rows, strict=True)
                ]
            else:
                pieces = [np.asarray(table.columns[name]) for table in tables]
            columns[name] = np.concatenate(pieces)[order]
        return CodedTable(schema=self.schema, columns=columns)


class StratumStream:
    """A stream of random words for one stratum, so that no two strata share their randomness."""

    def __init__(self, stream: Stream, number: int) -> None:
        self.secure = stream.secure
        self._stream = stream
        self._number = number

    def discrete_laplace(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        return self._stream.discrete_laplace(scale, size)

    def discrete_gaussian(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        return self._stream.discrete_gaussian(scale, size)

    def noisy_argmax(self, scores: NDArray[np.int64], scale: Fraction, law: SelectionLaw = "exponential") -> int:
        return self._stream.noisy_argmax(scores, scale, law)

    def words(self, count: int, *purpose: str | int) -> NDArray[np.uint64]:
        return self._stream.words(count, "stratum", self._number, *purpose)


def read_strata(schema: Schema, text: str) -> Strata:
    """Strata as a user writes them: attribute names joined by ``+`` or commas; nothing means no strata."""
    names = schema.margin(name.strip() for name in text.replace("+", ",").split(",") if name.strip())
    if not names:
        return Strata(schema=schema, names=(), parts=(Stratum(number=0, codes=(), schema=schema),))
    if len(names) == len(schema.names):
        raise InputError(f"strata ({text}) name every attribute; nothing is left to vary inside them.")
    if schema.cells(names) > MAX_STRATA:
        raise UnsupportedError(
            f"strata by {' x '.join(names)} are {schema.cells(names):,}; at most {MAX_STRATA:,} are modelled apart. "
            "Use fewer or coarser attributes."
        )
    cells = (tuple(int(code) for code in cell) for cell in np.ndindex(*schema.shape(names)))
    inner = [attribute for attribute in schema.attributes if attribute.name not in names]
    parts: list[Stratum] = []
    for codes in cells:
        rules = _rules_inside(schema, dict(zip(names, codes, strict=True)))
        if rules is not None:
            part = Schema(attributes=tuple(inner), impossible=tuple(rules))
            parts.append(Stratum(number=len(parts), codes=codes, schema=part))
    return Strata(schema=schema, names=names, parts=tuple(parts))


def _rules_inside(schema: Schema, place: dict[str, int]) -> list[Impossible] | None:
    """The structural zeros that remain in one stratum; None if they rule it out altogether."""
    kept = []
    for rule in schema.zeros:
        codes = rule.codes(schema)
        if any(name in codes and code not in codes[name] for name, code in place.items()):
            continue  # the rule speaks of other strata
        rest = tuple((name, condition) for name, condition in rule.conditions if name not in place)
        if not rest:
            return None
        kept.append(Impossible(conditions=rest))
    return kept


def sizes_are_public(strata: Strata, unit: Unit) -> bool:
    """Whether neighbours agree on everybody's stratum."""
    return bool(strata.names) and set(strata.names) <= set(unit.fixed)


def known_inside(
    strata: Strata, known: dict[Margin, NDArray[np.int64]]
) -> Iterator[tuple[Stratum, dict[Margin, NDArray[np.int64]]]]:
    """What is public about each stratum: counts of fixed attributes, where the strata are among them."""
    for part in strata.parts:
        yield (
            part,
            {
                strata.inside(margin): strata.slice(values, margin, part)
                for margin, values in known.items()
                if set(strata.names) <= set(margin) and strata.inside(margin)
            },
        )


def joint_fit(
    schema: Schema, measured: Sequence[Measurement], total: float, stream: Stream, known: Known
) -> tuple[Model, str]:
    """The regularised fit, with a prior strength of its own."""
    model, report = fit(schema, measured, total=max(total, 1.0), stream=stream, known=known)
    told = (
        f"shrunk towards independence by a prior worth {report.prior:g} records, {report.iterations} iterations, "
        f"largest remaining error {report.residual:.2g} standard deviations of the noise"
    )
    return model, " ".join([f"{told}.", *report.notes, *report.warnings]).rstrip(".")


def synthesis_in_strata(
    plan: Plan, strata: Strata, measured: Sequence[Measurement], *, total: float, rows_by: str, stream: Stream,
    known: dict[Margin, NDArray[np.int64]], fitter: Fitter = joint_fit, notes: tuple[str, ...] = (),
) -> Synthesis:  # fmt: skip
    """A model per stratum, each from its slice of the measurements, and rows from all of them."""
    public = sizes_are_public(strata, plan.unit) and bool(known)
    sizes = _public_sizes(strata, known) if public else strata.sizes(measured, total)
    models, told = [], []
    for (part, inside), size in zip(known_inside(strata, known), sizes, strict=True):
        own = StratumStream(stream, part.number) if strata.names else stream
        model, note = fitter(part.schema, strata.measured_in(part, measured), float(size), own, inside)
        models.append((part, model, own))
        told.append(f"stratum {part.number + 1}: {note}" if strata.names else note)
    rows = plan.rows if plan.rows is not None else min(max(round(total), 0), MAX_ROWS)
    tables = []
    for copy in range(1, plan.copies + 1):
        counts = strata.rows(sizes, rows, rows_by, stream, copy, public=public)
        drawn = [
            model.draw(part.schema, int(count), rows_by, own, "rows", copy)
            for (part, model, own), count in zip(models, counts, strict=True)
        ]
        tables.append(strata.together(drawn, stream, copy))
    shown = told if len(told) <= NOTES else [*told[:NOTES], f"and {len(told) - NOTES} more strata"]
    return Synthesis(
        tables=tuple(tables),
        measurements=tuple(measured),
        rows_drawn=DESCRIPTIONS[rows_by],
        copies_share_measurements=True,
        notes=(*notes, *(f"Fitted: {one}." for one in shown)),
        fitted=Fitted(
            rows_by=rows_by,
            strata=strata.names,
            public_sizes=public,
            parts=tuple(
                FittedPart(codes=part.codes, size=float(size), model=model)
                for (part, model, _), size in zip(models, sizes, strict=True)
            ),
        ),
    )


def _public_sizes(strata: Strata, known: dict[Margin, NDArray[np.int64]]) -> NDArray[np.float64]:
    margin, values = next((m, v) for m, v in known.items() if set(strata.names) <= set(m))
    return np.array([float(strata.slice(values, margin, part).sum()) for part in strata.parts])


# From measurements to rows, for every method that measures margins: one model, or one for each stratum.


def synthesis_of(
    plan: Plan, strata: Strata, measured: Sequence[Measurement], *, total: float, stream: Stream, draws: str,
    rows_by: str | None, known: dict[Margin, NDArray[np.int64]] | None = None, notes: tuple[str, ...] = (),
    modelled: Sequence[Measurement] | None = None,
) -> Synthesis:  # fmt: skip
    """Everything measured is fitted together, and the copies are drawn: post-processing.

    ``modelled``: what rows are fitted to, where no model holds everything that was measured for ``infer``.
    """
    law, public = rows_law(draws, rows_by), known or {}
    used = measured if modelled is None else modelled
    if len(used) < len(measured):
        notes = (*notes, f"Rows follow {len(used)} of the {len(measured)} measured tables; infer reads all of them.")
    if strata.names:
        made = synthesis_in_strata(
            plan, strata, used, total=total, rows_by=law, stream=stream, known=public, notes=notes
        )
    else:
        made, _ = synthesis_from(
            plan, strata.schema, used, total=total, rows_by=law, stream=stream, known=public, draws=draws, notes=notes
        )
    return replace(made, measurements=tuple(measured))
