"""Draws whose output is itself a synthetic table, over the whole domain or stratum by stratum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from understudy.core.arrays import Integers
from understudy.core.counts import SparseCounts
from understudy.core.domain import Domain
from understudy.core.mechanism import Stream
from understudy.core.schema import Schema
from understudy.errors import InternalError
from understudy.privacy.mechanisms.draw_facts import TableFacts
from understudy.privacy.promise.event import Event


class TableMechanism(Protocol):
    """A mechanism that turns the non-empty cells of a table into the non-empty cells of a synthetic one."""

    name: ClassVar[str]
    covers: ClassVar[str]  # "whole_domain": empty cells are drawn too, so the list of non-empty ones stays secret

    def event_for(self, facts: TableFacts) -> Event:
        """What a draw with these facts costs; raises where it would cost more than it was set for."""
        ...

    def draw(
        self, cells: Integers, counts: Integers, domain: Domain, stream: Stream, *purpose: str | int
    ) -> tuple[Integers, Integers]: ...

    def to_json(self) -> dict[str, str]: ...


@runtime_checkable
class DrawingSource(Protocol):
    """A source that can draw tables where its rows are. Its draws are those of :func:`draw_strata`, word for word."""

    def total(self) -> int: ...

    def draw_strata(
        self,
        mechanisms: Sequence[TableMechanism],
        *,
        margin: tuple[str, ...],
        strata: tuple[str, ...],
        stream: Stream,
        purpose: tuple[str | int, ...],
    ) -> tuple[Integers, Integers]: ...


def draw_strata(
    schema: Schema,
    counts: SparseCounts,
    stream: Stream,
    *purpose: str | int,
    strata: tuple[str, ...],
    mechanisms: Sequence[TableMechanism],
) -> tuple[Integers, Integers]:
    """One draw per stratum, each from its own rows and its own substream; cells are numbered over the whole margin.

    The substream is named by the stratum's number, so a stratum's draw does not depend on the others.
    """
    if len(mechanisms) != schema.cells(strata):
        raise InternalError(f"{len(mechanisms)} mechanisms for {schema.cells(strata)} strata.")
    margin = counts.margin
    cells, values = counts.open_for(mechanisms[0])
    stratum, inner = split_strata(schema, margin, strata, cells)
    order = np.lexsort((inner, stratum))
    starts = np.searchsorted(stratum[order], np.arange(len(mechanisms) + 1))
    drawn: list[tuple[Integers, Integers]] = []
    for number, mechanism in enumerate(mechanisms):
        own = order[starts[number] : starts[number + 1]]
        drawn.append(draw_stratum(schema, margin, strata, number, mechanism, inner[own], values[own], stream, *purpose))
    flat = np.concatenate([cell for cell, _ in drawn])
    sort = np.argsort(flat, kind="stable")
    return flat[sort], np.concatenate([times for _, times in drawn])[sort]


def split_strata(
    schema: Schema, margin: tuple[str, ...], strata: tuple[str, ...], cells: Integers
) -> tuple[Integers, Integers]:
    """The stratum of each cell of a margin, and its number among the cells of its stratum."""
    rest = tuple(name for name in margin if name not in strata)
    codes = dict(zip(margin, np.unravel_index(cells, schema.shape(margin)), strict=True))
    return _number(schema, strata, codes, len(cells)), _number(schema, rest, codes, len(cells))


def draw_stratum(  # noqa: PLR0917 - what a stratum is, what is in it, and how it is drawn
    schema: Schema,
    margin: tuple[str, ...],
    strata: tuple[str, ...],
    number: int,
    mechanism: TableMechanism,
    inner: Integers,
    values: Integers,
    stream: Stream,
    *purpose: str | int,
) -> tuple[Integers, Integers]:
    """The draw of one stratum from its cells in increasing order; the result is numbered over the whole margin."""
    domain = _domain(schema, strata, number, margin)
    found, times = mechanism.draw(inner, values, domain, stream, *purpose, number)
    return _whole_number(schema, margin, domain.margin, found, dict(domain.given)), times


def strata_domains(schema: Schema, strata: tuple[str, ...], margin: tuple[str, ...] | None = None) -> list[Domain]:
    """The domain of each stratum, in the order of the strata's cells; one domain if there are no strata."""
    whole = schema.names if margin is None else margin
    return [_domain(schema, strata, number, whole) for number in range(schema.cells(strata))]


def _domain(schema: Schema, strata: tuple[str, ...], number: int, margin: tuple[str, ...]) -> Domain:
    codes = (int(code) for code in np.unravel_index(number, schema.shape(strata)))
    return Domain(
        schema=schema,
        margin=tuple(name for name in margin if name not in strata),
        given=tuple(zip(strata, codes, strict=True)),
    )


def _number(schema: Schema, names: tuple[str, ...], codes: dict[str, Integers], rows: int) -> Integers:
    """The flat number of each row's cell over some of the attributes."""
    if not names:
        return np.zeros(rows, dtype=np.int64)
    return np.ravel_multi_index([codes[name] for name in names], schema.shape(names)).astype(np.int64)


def _whole_number(
    schema: Schema, margin: tuple[str, ...], rest: tuple[str, ...], inner: Integers, given: dict[str, int]
) -> Integers:
    codes = dict(zip(rest, np.unravel_index(inner, schema.shape(rest)), strict=True))
    for name, code in given.items():
        codes[name] = np.full(len(inner), code)
    return _number(schema, margin, codes, len(inner))
