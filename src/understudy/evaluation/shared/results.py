"""The one shape in which measures and attacks hand back what they found: a ``Section`` of findings and tables.

Two tables are joined over all measures and attacks: ``omissions``, what was not computed and why (nothing is dropped
silently), and ``attacks``, a line for each attack and subject.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.core.arrays import Progress
from understudy.core.result import Finding, Section
from understudy.evaluation.shared.attack_success import Outcome

STEPS = 1_000  # of a whole evaluation
OMISSIONS = "omissions"
ATTACKS = "attacks"


@dataclass(slots=True)
class Collected:
    """A section that is being put together."""

    findings: list[Finding] = field(default_factory=list)
    """The findings so far."""
    frames: dict[str, Any] = field(default_factory=dict)
    """The tables so far, by name."""
    left_out: list[dict[str, str]] = field(default_factory=list)
    """What was not computed, and why."""
    attacked: list[dict[str, Any]] = field(default_factory=list)
    """Lines of the common table of attacks."""

    def omit(self, measure: str, what: str, reason: str) -> None:
        """Note what was not computed: nothing is dropped silently.

        Parameters
        ----------
        measure
            The name of the measure or attack.
        what
            What was not computed.
        reason
            Why.
        """
        self.left_out.append({"measure": measure, "what": what, "reason": reason})

    def attack(self, outcomes: Iterable[Outcome]) -> None:
        """Note what came of an attack, for the common table of attacks.

        Parameters
        ----------
        outcomes
            One for each subject.
        """
        self.attacked += [outcome.row() for outcome in outcomes]

    def add(self, section: Section) -> None:
        """Add everything of a section.

        Parameters
        ----------
        section
            The section.
        """
        self.findings += section.findings
        for name, table in section.frames.items():
            if name == OMISSIONS:
                self.left_out += table.to_pylist()
            elif name == ATTACKS:
                self.attacked += table.to_pylist()
            else:
                self.frames[name] = table

    def section(self) -> Section:
        """Give what was put together.

        Returns
        -------
        Section
            The section.
        """
        frames = dict(self.frames)
        if self.left_out:
            frames[OMISSIONS] = frame(self.left_out)
        if self.attacked:
            frames[ATTACKS] = frame(self.attacked)
        return Section(findings=tuple(self.findings), frames=frames)


def frame(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Make an Arrow table. NaN, which nobody can plot, becomes null.

    Parameters
    ----------
    rows
        The rows, with the same fields in the same order.

    Returns
    -------
    pa.Table
        The table.
    """
    names = list(rows[0]) if rows else []
    return pa.table({name: _column([row[name] for row in rows]) for name in names})


def _column(values: list[Any]) -> pa.Array:
    plain = [None if isinstance(value, float | np.floating) and not np.isfinite(value) else value for value in values]
    plain = [value.item() if isinstance(value, np.generic) else value for value in plain]
    if any(isinstance(value, int) and abs(value) >= 2**63 for value in plain):  # cells of a wide schema
        plain = [None if value is None else float(value) for value in plain]
    return pa.array(plain)


def label(margin: Iterable[str]) -> str:
    return " x ".join(margin)


def part_of(progress: Progress | None, begin: float, end: float) -> Progress | None:
    """Progress of a part of the work, as progress of the whole; ``begin`` and ``end`` are shares of the whole.

    >>> seen = []
    >>> part_of(lambda done, total: seen.append((done, total)), 0.5, 1.0)(1, 2)
    >>> seen
    [(750, 1000)]
    """
    if progress is None:
        return None

    def moved(done: int, total: int | None) -> None:
        share = min(done / total, 1.0) if total else 0.0
        progress(round(STEPS * (begin + (end - begin) * share)), STEPS)

    return moved
