"""The application of the studio, and the process that serves it to one browser of this machine."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from understudy.core.folders import explained_disk_errors
from understudy.errors import InputError, MissingExtraError
from understudy.serving.web.listening import LOOPBACK, NEEDED, free_port, listen

USUAL_PORT = 8450
LOCK = ".understudy-studio"  # in the folder, while a studio is open there
MOST_BODY = 512 * 1024  # a list of a thousand values with their meanings
REQUESTS_PER_MINUTE = 1200
WENT_WRONG = "something went wrong in the studio; the window where it runs says where. Nothing was spent by this page."


def make_application(folder: Path, *, port: int, say: Callable[[str], None]) -> tuple[Any, Any, Any]:
    """The ASGI application behind its guard, and the entry and the desk that it uses."""
    try:
        from starlette.applications import Starlette

        from understudy.studio import pages
    except ImportError:
        raise MissingExtraError(NEEDED) from None
    from understudy.serving.web.guarding import Guard
    from understudy.studio.desk import Desk
    from understudy.studio.entry import Entry

    entry, desk = Entry(port=port, say=say), Desk(folder)
    inside = Starlette(routes=pages.routes(desk, entry), exception_handlers={Exception: _bug})
    guarded = Guard(inside, requests_per_minute=REQUESTS_PER_MINUTE, most_body=MOST_BODY, hosts=entry.hosts)
    return guarded, entry, desk


async def _bug(_: Any, __: Exception) -> Any:
    """What is said of an error of ours; the guard tells where it was, on standard error."""
    from starlette.responses import PlainTextResponse

    return PlainTextResponse(WENT_WRONG, status_code=500)


def open_studio(
    folder: str | Path = ".",
    *,
    port: int = USUAL_PORT,
    say: Callable[[str], None],
    stop: threading.Event | None = None,
) -> None:
    """Serve the studio on this machine until interrupted.

    Parameters
    ----------
    folder
        Where files are listed, and where releases are written.
    port
        The port; 0 takes any that is free.
    say
        Told the address when the studio is ready: it holds a token that works once.
    stop
        Ends it when it is set.

    Raises
    ------
    InputError
        If the port is taken, or a studio is open in this folder already.
    MissingExtraError
        If the packages for pages are not installed.
    """
    place = Path(os.path.abspath(folder))
    if not place.is_dir():
        raise InputError(f"{folder} is not a folder; give the folder with the data.")
    number = port or free_port()
    application, entry, desk = make_application(place, port=number, say=say)
    with _alone(place):
        try:
            listen(application, host=LOOPBACK, port=number, ready=lambda: say(entry.address), stop=stop)
        except InputError as problem:
            raise InputError(
                f"{problem} Is a studio open there already? Choose another port with --port, or --port 0 for any."
            ) from None
        finally:
            if desk.working:
                desk.task.stop()
                desk.task.wait(30)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One studio in a folder: two would write the same names. The lock goes with the process, whatever ends it."""
    file = folder / LOCK
    with explained_disk_errors(file):
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"a studio is open in {folder} already. Use the page that you have, or end that studio with Ctrl-C."
            ) from None
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                file.unlink()
    finally:
        os.close(descriptor)
