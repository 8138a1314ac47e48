"""The web application, and the process that serves it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from understudy.errors import MissingExtraError
from understudy.serving.database.connecting import Database
from understudy.serving.settings import Settings

WENT_WRONG = "something went wrong in the server; nothing was charged by this request."
NEEDED = "the server needs starlette, uvicorn and jinja2: pip install 'understudy[serve]'."


def make_application(settings: Settings, database: Database) -> Any:
    """The ASGI application: pages and API behind the guard."""
    try:
        from starlette.applications import Starlette

        from understudy.serving.web import interface, pages
    except ImportError:
        raise MissingExtraError(NEEDED) from None
    from understudy.serving.web.guarding import Guard
    from understudy.serving.web.site import Site

    site = Site(settings, database)
    site.check()
    return Guard(
        Starlette(routes=[*interface.routes(site), *pages.routes(site)], exception_handlers={Exception: _bug}),
        requests_per_minute=settings.requests_per_minute,
    )


async def _bug(_: Any, __: Exception) -> Any:
    """What is said of an error of ours; the guard tells the operator where it was."""
    from starlette.responses import JSONResponse

    return JSONResponse({"error": WENT_WRONG}, status_code=500)


def serve(
    settings: Settings,
    database: Database,
    *,
    host: str,
    port: int,
    ready: Callable[[], None] | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Serve until interrupted, or until ``stop`` is set."""
    application = make_application(settings, database)
    from understudy.serving.web.listening import listen

    listen(application, host=host, port=port, ready=ready, stop=stop)
