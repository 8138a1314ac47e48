"""What every family of measures is given, and the registry they are found in.

A measure takes a :class:`Comparison` and gives a ``Section``: findings and named Arrow tables. It never drops anything
silently: what it cannot compute goes into the ``omissions`` of its section, with the reason, or it raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.core.arrays import Integers, Progress
from understudy.core.registry import Registry
from understudy.core.result import Finding, Section
from understudy.core.schema import Schema
from understudy.core.table import CodedTable
from understudy.errors import MissingExtraError
from understudy.privacy.randomness.streams import SeededStream
from understudy.release import Release

OMISSIONS = "omissions"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Comparison:
    """A release beside the confidential data it is measured against, all as codes of one schema. Confidential."""

    release: Release
    original: CodedTable
    copies: tuple[CodedTable, ...]
    original_rows: Callable[[], pa.Table]
    holdout: CodedTable | None = None
    models: tuple[str, ...] = ()
    ways: tuple[int, ...] = (1, 2, 3)
    null: str = "auto"
    permutations: int = 10
    largest: int = 10_000  # rows of each side that a classifier learns from
    progress: Progress | None = None

    @property
    def schema(self) -> Schema:
        return self.original.schema

    @property
    def names(self) -> tuple[str, ...]:
        return self.schema.names

    def covered(self, *margins: Iterable[str]) -> bool | None:
        """Does the model behind the release contain these margins (Raab's compatibility)? None: it is not known.

        A measured or drawn margin fixes every table within it; a dependence outside all of them is left to chance.
        """
        known = [frozenset(one.margin) for one in self.release.measurements]
        known += [frozenset(draw["margin"]) for draw in self.release.provenance.draws]
        if not known:
            return None
        return all(any(set(margin) <= one for one in known) for margin in margins)

    def margins(self, way: int) -> list[tuple[str, ...]]:
        """Every table of so many attributes, in the schema's order."""
        return list(combinations(self.names, way))

    def sample(self, table: CodedTable, limit: int, purpose: str) -> Integers:
        """Which rows to use: all of them, or ``limit`` chosen at random, the same ones every time."""
        if table.rows <= limit:
            return np.arange(table.rows)
        return np.sort(shuffled(table.rows, purpose)[:limit])


Measure = Callable[[Comparison], Section]
measures: Registry[Measure] = Registry("measure", "understudy.evaluation.measures")


@dataclass(slots=True)
class Collected:
    """A section that is being put together."""

    findings: list[Finding] = field(default_factory=list)
    frames: dict[str, Any] = field(default_factory=dict)
    left_out: list[dict[str, str]] = field(default_factory=list)

    def omit(self, measure: str, what: str, reason: str) -> None:
        self.left_out.append({"measure": measure, "what": what, "reason": reason})

    def add(self, section: Section) -> None:
        self.findings += section.findings
        for name, frame in section.frames.items():
            if name == OMISSIONS:
                self.left_out += frame.to_pylist()
            else:
                self.frames[name] = frame

    def section(self) -> Section:
        frames = dict(self.frames)
        if self.left_out:
            frames[OMISSIONS] = frame(self.left_out)
        return Section(findings=tuple(self.findings), frames=frames)


def frame(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """An Arrow table of rows that have the same fields in the same order; NaN, which nobody can plot, becomes null."""
    names = list(rows[0]) if rows else []
    return pa.table({name: _column([row[name] for row in rows]) for name in names})


def _column(values: list[Any]) -> pa.Array:
    plain = [None if isinstance(value, float | np.floating) and not np.isfinite(value) else value for value in values]
    plain = [value.item() if isinstance(value, np.generic) else value for value in plain]
    if any(isinstance(value, int) and abs(value) >= 2**63 for value in plain):  # cells of a wide schema
        plain = [None if value is None else float(value) for value in plain]
    return pa.array(plain)


def shuffled(count: int, purpose: str | int, *more: str | int) -> Integers:
    """A random order of 0 .. count-1, the same every time it is asked for: evaluations can be repeated."""
    words = SeededStream(2026).words(count, "utility", purpose, *more)
    return np.argsort(words, kind="stable")


def label(margin: Iterable[str]) -> str:
    return " x ".join(margin)


def blocks(count: int, size: int) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def missing_extra(what: str, package: str, extra: str) -> MissingExtraError:
    return MissingExtraError(f"{what} needs {package}; install it with: pip install 'understudy[{extra}]'")
