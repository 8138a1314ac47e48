"""Statistical disclosure control of a table that was drawn without protection: replicated uniques are removed.

Law: a table is drawn by another mechanism without a guarantee. A row that is alone in its cell, while one record is
alone in the same cell, is taken out (synthpop's ``sdc`` with ``rm.replicated.uniques``). There is no guarantee: who is
missing depends on the data, so that a cell which is empty in many copies tells that somebody is alone there. It
charges an infinite loss, as it must, and takes only mechanisms that do so themselves: after a private draw it would
undo the promise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from understudy.core.arrays import Integers
from understudy.core.domain import Domain
from understudy.core.mechanism import Stream
from understudy.errors import DisclosureError
from understudy.privacy.mechanisms.cart_draw import CartDraw
from understudy.privacy.mechanisms.draw_facts import TableFacts
from understudy.privacy.mechanisms.partial_draw import PartialDraw
from understudy.privacy.mechanisms.plain_multinomial import PlainMultinomial
from understudy.privacy.mechanisms.reverse_draw import ReverseMappedDraw
from understudy.privacy.mechanisms.saturated_draw import SaturatedDraw
from understudy.privacy.promise.event import Event, NoNoise

Unprotected = CartDraw | PartialDraw | PlainMultinomial | ReverseMappedDraw | SaturatedDraw
UNPROTECTED = (CartDraw, PartialDraw, PlainMultinomial, ReverseMappedDraw, SaturatedDraw)


@dataclass(frozen=True, slots=True, kw_only=True)
class UniquesRemoved:
    """A draw without its replicated uniques. No guarantee."""

    drawn_by: Unprotected
    name: ClassVar[str] = "uniques_removed"
    covers: ClassVar[str] = "whole_domain"

    def __post_init__(self) -> None:
        if type(self.drawn_by) not in UNPROTECTED:
            raise DisclosureError(
                "replicated uniques are removed from tables without a guarantee only: who is removed depends on the "
                "data, which no guarantee covers."
            )

    def event_for(self, facts: TableFacts) -> Event:  # noqa: ARG002 - no guarantee, whatever is drawn
        return NoNoise()

    def draw(
        self, cells: Integers, counts: Integers, domain: Domain, stream: Stream, *purpose: str | int
    ) -> tuple[Integers, Integers]:
        drawn, times = self.drawn_by.draw(cells, counts, domain, stream, *purpose)
        replicated = (times == 1) & np.isin(drawn, cells[counts == 1])
        return drawn[~replicated], times[~replicated]

    def to_json(self) -> dict[str, str]:
        inner = {f"of_{name}": value for name, value in self.drawn_by.to_json().items()}
        return {"mechanism": self.name, **inner}
