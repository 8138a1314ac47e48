"""The gate of linked tables: tables of households, one row for each, of single members, and of pairs of members.

Everything is charged, counted, drawn and journaled as for one table. What differs is which of these tables a query is
counted in, and how many of its rows a unit can move (``linked_sensitivity``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeGuard

from understudy.core.arrays import Progress
from understudy.core.counts import Counts, Source
from understudy.core.linked_schema import LinkedSchema
from understudy.core.mechanism import Stream
from understudy.core.schema import Schema
from understudy.errors import InternalError
from understudy.privacy.gate.gate import Gate
from understudy.privacy.gate.journal import Journal
from understudy.privacy.promise.event import Sensitivity
from understudy.privacy.promise.plan import Plan
from understudy.privacy.promise.sensitivity import linked_sensitivity


class LinkedSource(Source, Protocol):
    """Households, one row for each, and their members."""

    @property
    def members(self) -> Source:
        """The table of members, each with the attributes of its household."""
        ...

    def pairs(self) -> Source:
        """Pairs of members who are alike, each member in at most one of them."""
        ...


def is_linked(source: object) -> TypeGuard[LinkedSource]:
    """Whether it is a source of linked tables. Told by its class: asking the object would already open it."""
    return all(hasattr(type(source), name) for name in ("members", "pairs"))


class LinkedGate(Gate):
    """The only way to linked tables: it charges, counts, adds noise and journals, in that order.

    Parameters
    ----------
    source
        The confidential households; ``None`` for a resumed run that has all its measurements.
    linked
        The public schema of both tables.
    plan
        What the run may do. Anything else is refused.
    stream
        The source of randomness.
    journal
        Where results are noted, so that a run can be resumed.
    progress
        Called while rows are read.
    """

    def __init__(
        self,
        *,
        source: LinkedSource | None,
        linked: LinkedSchema,
        plan: Plan,
        stream: Stream,
        journal: Journal | None = None,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(
            source=source, schema=linked.wide, plan=plan, stream=stream, journal=journal, progress=progress
        )
        self._linked = linked

    def _schema_of(self, margin: tuple[str, ...]) -> Schema:
        return self._linked.counted_in(margin)

    def _sensitivity(self, margin: tuple[str, ...], cells: str) -> Sensitivity:
        return linked_sensitivity(self._linked, margin, self.unit, cells)

    def _scan(self, margins: Sequence[tuple[str, ...]]) -> list[Counts]:
        linked = self._linked
        of_members = [margin for margin in margins if linked.is_of_members(margin)]
        of_pairs = [margin for margin in margins if linked.is_of_pairs(margin)]
        of_homes = [margin for margin in margins if linked.is_of_households(margin)]
        found = {one.margin: one for one in super()._scan(of_homes)}
        if of_members or of_pairs:
            source = self._open_source()
            if not is_linked(source):
                raise InternalError("members are counted in a source of linked tables.")
            found |= {one.margin: one for one in source.members.count(of_members)} if of_members else {}
            found |= {one.margin: one for one in source.pairs().count(of_pairs)} if of_pairs else {}
        return [found[margin] for margin in margins]
