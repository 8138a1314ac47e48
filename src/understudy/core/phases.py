"""What a long computation is doing, for whoever watches: the phase, what is done of it, and of how much.

Inner loops (rounds, a fit, rows, attacks, an inference) report their progress with ``tell``. ``told_to`` sets a
listener. Without one nothing is reported, and the computation is the same. Only public numbers of steps are reported,
never a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str, int, int | None], None]  # the phase, done so far, and in all if that is known
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def told_to(listener: Listener) -> Iterator[None]:
    """While this lasts, ``listener`` is called with every phase and every step.

    >>> heard = []
    >>> with told_to(lambda *step: heard.append(step)):
    ...     tell("fitting", 1, 2)
    >>> tell("fitting", 2, 2)
    >>> heard
    [('fitting', 1, 2)]
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def tell(phase: str, done: int, total: int | None = None) -> None:
    """Says how far a phase is."""
    listener = _listener.get()
    if listener is not None:
        listener(phase, done, total)
