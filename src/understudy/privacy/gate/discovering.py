"""The part of a gate that discovers codes: charge, count texts, add noise, apply the threshold, journal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from understudy.core.counts import Discoverable, Source
from understudy.core.measurement import CODES, Measurement
from understudy.core.schema import Schema
from understudy.errors import InternalError, UnsupportedError
from understudy.privacy.gate.charge_first import ChargingGate
from understudy.privacy.gate.journal import pack_array, unpack_array
from understudy.privacy.mechanisms.reviewed import CODES_FOUND, require_reviewed
from understudy.privacy.mechanisms.stability_threshold import StabilityThreshold
from understudy.privacy.promise.sensitivity import code_sensitivity


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeQuery:
    """An attribute whose codes are to be found; ``length``: how many first characters of each code, or None for all."""

    margin: tuple[str, ...]
    mechanism: StabilityThreshold
    label: str
    length: int | None = None


class DiscoveringGate(ChargingGate):
    """A gate to data whose schema may leave codes open."""

    _schema: Schema

    def discover(self, queries: Sequence[CodeQuery]) -> list[Measurement]:
        """Find the codes of attributes that the schema leaves open. All queries are charged before the first is drawn.

        Parameters
        ----------
        queries
            Which attributes, each with noise and threshold: exactly what the plan announced.

        Returns
        -------
        list[Measurement]
            The codes that reach the threshold with their noisy counts, which are public.

        Raises
        ------
        BudgetError
            If the plan does not allow it.
        InternalError
            If the schema does not leave the codes of the attribute open.
        UnsupportedError
            If the engine cannot count unlisted codes.
        """
        for query in queries:
            require_reviewed(query.mechanism, CODES_FOUND)
            if len(query.margin) != 1 or not self._schema[query.margin[0]].open:
                raise InternalError(f"the codes of '{query.margin[0]}' are not to be found.")
        for query in queries:
            sensitivity = code_sensitivity(self._schema, query.margin, self.unit)
            self._charge("discover", query.label, query.margin, query.mechanism.event(sensitivity))
        last = len(queries)
        return [self._discover_one(query, more=number < last) for number, query in enumerate(queries, start=1)]

    def _discover_one(self, query: CodeQuery, *, more: bool) -> Measurement:
        remembered = self._remembered("discovery", query.label)
        if remembered is not None:
            self._require_charged(remembered["mechanism"] == query.mechanism.to_json())
            codes, values = tuple(remembered["codes"]), unpack_array(remembered["values"])
        else:
            counted = self._discoverable().count_codes(query.margin[0], query.length)
            codes, values = query.mechanism.find(*counted.open_for(query.mechanism), self._stream)
            self._write("discovery", {
                "label": query.label, "mechanism": query.mechanism.to_json(), "codes": list(codes),
                "values": pack_array(values),
            }, more=more)  # fmt: skip
        return Measurement(
            margin=query.margin, values=values, mechanism=query.mechanism, cells=CODES, label=query.label, codes=codes
        )

    def _discoverable(self) -> Discoverable:
        source = self._open_source()
        if not isinstance(source, Discoverable):
            raise UnsupportedError(
                f"{type(source).__name__} cannot count unlisted codes. Give a public list of all codes "
                "(among), list the levels, or use the embedded engine."
            )
        return source

    def require_discoverable(self) -> None:
        """Refuse data whose codes cannot be counted, if the plan asks for that; before anything is charged."""
        if any(step.action == "discover" for step in self._plan.steps) and not self._replay:
            self._discoverable()

    def _open_source(self) -> Source:
        raise NotImplementedError
