"""The loop that listens on a port, for the server and for the studio."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

from understudy.errors import InputError, MissingExtraError

NEEDED = "pages need starlette, uvicorn and jinja2: pip install 'understudy[serve]'."
LOOPBACK = "127.0.0.1"


def listen(
    application: Any,
    *,
    host: str,
    port: int,
    ready: Callable[[], None] | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Serve until interrupted, or until ``stop`` is set."""
    try:
        import uvicorn

        from understudy.serving.web.prompt_requests import PromptRequests
    except ImportError:
        raise MissingExtraError(NEEDED) from None
    config = uvicorn.Config(
        application, host=host, port=port, log_level="warning", access_log=False, server_header=False,
        limit_concurrency=200, timeout_keep_alive=10, h11_max_incomplete_event_size=16 * 1024, http=PromptRequests,
        proxy_headers=False,  # anybody can send X-Forwarded-For: whoever did had a limit of requests for each address
    )  # fmt: skip
    server = uvicorn.Server(config)

    def watch() -> None:
        while not server.started and not server.should_exit:
            threading.Event().wait(0.05)
        if server.started and ready is not None:
            ready()
        if stop is not None:
            stop.wait()
            server.should_exit = True

    threading.Thread(target=watch, daemon=True).start()
    try:
        server.run()
    except SystemExit:
        if server.started:  # told to end, by a signal that uvicorn passes on
            raise
        raise InputError(f"port {port} of {host} cannot be used; it is taken, or not allowed.") from None


def free_port() -> int:
    """A port of this machine that nobody uses now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
