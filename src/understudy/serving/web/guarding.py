"""What stands between the network and the pages: sizes, times, rates, headers, and errors without a traceback."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import defaultdict, deque
from collections.abc import Collection
from typing import Any

MOST_BODY = 64 * 1024  # bytes of a request
BODY_SECONDS = 10.0
MOST_ADDRESSES = 10_000
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
OWN_POLICY = "own-policy"  # in the scope's state: a finished page (a report, a map) that carries its own policy


class Rates:
    """How many requests an address made in the last minute. It is kept in memory: a restart forgets it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._seen: dict[str, deque[float]] = defaultdict(deque)

    def allow(self, address: str, now: float) -> bool:
        """Whether one more request is allowed now."""
        if len(self._seen) > MOST_ADDRESSES:
            self._seen.clear()
        times = self._seen[address]
        while times and times[0] < now - 60:
            times.popleft()
        if len(times) >= self._most:
            return False
        times.append(now)
        return True


class Guard:
    """An ASGI application around another one."""

    def __init__(
        self, app: Any, *, requests_per_minute: int, most_body: int = MOST_BODY, hosts: Collection[str] | None = None
    ) -> None:
        """``hosts``: the only names under which it answers, with their port; any name by default."""
        self._app = app
        self._rates = Rates(requests_per_minute)
        self._most_body = most_body
        self._hosts = None if hosts is None else {one.encode() for one in hosts}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                own = scope.get("state", {}).get(OWN_POLICY)
                kept = [pair for pair in HEADERS if not (own and pair[0] == b"content-security-policy")]
                message["headers"] = [*message.get("headers", []), *kept]
            await send(message)

        named = [value for name, value in scope.get("headers", []) if name == b"host"]
        if self._hosts is not None and (len(named) != 1 or named[0].lower() not in self._hosts):
            # A foreign page whose name was made to lead here (DNS rebinding) says its own name.
            await refuse(guarded, 421, "nothing is served here under this name.")
            return
        address = (scope.get("client") or ("unknown", 0))[0]
        if not self._rates.allow(address, time.monotonic()):
            await refuse(guarded, 429, "too many requests; wait a minute.")
            return
        try:
            body = await self._body(scope, receive)
        except TooLargeError:
            await refuse(guarded, 413, f"a request may have at most {self._most_body:,} bytes.")
            return
        except TimeoutError:
            await refuse(guarded, 408, "the request took too long to arrive.")
            return
        done = False

        async def whole() -> Any:
            nonlocal done
            if done:
                return await receive()  # a client that goes away
            done = True
            return {"type": "http.request", "body": body, "more_body": False}

        try:
            await self._app(scope, whole, guarded)
        except Exception as problem:  # a bug: its message may hold anything, so only its kind is told, and not outside
            report(scope.get("path", ""), problem)  # the application has answered already

    async def _body(self, scope: Any, receive: Any) -> bytes:
        length = dict(scope.get("headers", [])).get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._most_body:
            raise TooLargeError
        parts, size, deadline = [], 0, asyncio.get_running_loop().time() + BODY_SECONDS
        while True:
            left = deadline - asyncio.get_running_loop().time()
            message = await asyncio.wait_for(receive(), timeout=max(left, 0.001))
            if message["type"] != "http.request":
                raise TimeoutError
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._most_body:
                raise TooLargeError
            if not message.get("more_body"):
                return b"".join(parts)


class TooLargeError(Exception):
    """The body of a request is larger than allowed."""


async def refuse(send: Any, status: int, text: str) -> None:
    """A short answer in JSON, without anything that the request said."""
    body = json.dumps({"error": text}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def report(path: str, problem: Exception) -> None:
    """Tell the operator, on standard error, that there is a bug, and where; never what the values were."""
    import traceback

    frames = traceback.extract_tb(problem.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown place"
    tell_operator(path, f"{type(problem).__name__} at {where}")


def tell_operator(path: str, text: str) -> None:
    """One line on standard error."""
    sys.stderr.write(f"error in {path[:80]!r}: {text}\n")
