"""HTTP/1.1 for those who say what they want in time: a connection that does not finish the head of a request is closed.

uvicorn waits for such a head without end, and every connection that waits takes one of the places. So a few hundred
connections that say nothing would keep everybody out. Bodies have a time of their own (``guarding.py``).
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0


class PromptRequests(H11Protocol):
    """uvicorn's own protocol, with a time in which the head of each request must arrive."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Nothing that arrives moves the end of the time, but a whole head."""
        if not self._waits_for_a_head():
            self._forget()
        elif self._late is None:
            self._late = self.loop.call_later(HEAD_SECONDS, self._close)

    def _waits_for_a_head(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _close(self) -> None:
        self._late = None
        if self._waits_for_a_head():
            self.transport.close()

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
