"""Requests that carry a secret: they go to the address that was named, and are never sent on to another one."""

from __future__ import annotations

import urllib.request
from typing import Any


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The address was checked, and the next one was not; the library would send the secret along."""

    def redirect_request(self, *_: Any) -> None:
        return None


def opened(request: urllib.request.Request, seconds: float) -> Any:
    """The answer to a request; one that leads elsewhere is an error of HTTP."""
    return urllib.request.build_opener(_NoRedirect).open(request, timeout=seconds)
