"""Who may come in: whoever has the address that was printed, once; from then on the browser that opened it.

The address holds a token that works once. It gives a cookie for a path that nobody can guess: cookies know no port, so
another program on this machine would be sent a cookie for "/" if the same browser looked at its pages.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable

from understudy.serving.web.forms import same

COOKIE = "understudy_studio"


class Entry:
    """The tokens that were printed, and the one browser that is in."""

    def __init__(self, *, port: int, say: Callable[[str], None]) -> None:
        """``say`` prints an address where only the person who started the studio sees it."""
        self.port = port
        self.room = f"/{secrets.token_urlsafe(12)}"
        self.hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self._say = say
        self._lock = threading.Lock()
        self._token = secrets.token_urlsafe(24)
        self._used: list[str] = []
        self._session = ""
        self.csrf = ""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.room}/open?token={self._token}"

    def use(self, token: str) -> str | None:
        """The word for a new session, if the token is the one that was printed last; it is worthless from then on.

        A token that was used already is refused, and a new address is printed: whoever started the studio can read it,
        and whoever found the old address in a history cannot. A new session ends the one before.
        """
        with self._lock:
            if same(token, self._token):
                self._used = [*self._used[-20:], self._token]
                self._token = secrets.token_urlsafe(24)
                self._session, self.csrf = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
                return self._session
            known = any([same(token, one) for one in self._used])  # noqa: C419 - all of them, whatever is found
        if known:
            self._say(self.address)
        return None

    def knows(self, session: str) -> bool:
        """Whether this is the cookie of the browser that is in."""
        return bool(self._session) and same(session, self._session)

    def own_origin(self, origin: str) -> bool:
        """Whether a request says that it comes from a page of ours."""
        return origin in {f"http://{host}" for host in self.hosts}
