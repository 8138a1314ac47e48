"""Work in the background: one piece at a time, with progress, and with a way to stop it."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from understudy.core.phases import told_to
from understudy.errors import UnderstudyError

RUNNING, DONE, FAILED, STOPPED = "running", "done", "failed", "stopped"
OURS = "this is a fault of the program, not of what you gave it; the window where the studio runs says where it is."


class StoppedError(Exception):
    """Somebody pressed stop. It is raised where the work says how far it is."""


@dataclass(slots=True, eq=False)
class Task:
    """One piece of work. Its numbers are written by its own thread and read by pages."""

    name: str
    title: str
    state: str = RUNNING
    phase: str = ""
    done: int = 0
    total: int | None = None
    problem: str = ""
    began: float = field(default_factory=time.monotonic)
    ended: float | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    @property
    def seconds(self) -> int:
        return int((self.ended or time.monotonic()) - self.began)

    @property
    def percent(self) -> int | None:
        return None if not self.total else min(100, 100 * self.done // self.total)

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name, "state": self.state, "phase": self.phase, "percent": self.percent,
            "seconds": self.seconds, "stopping": self.stopping,
        }  # fmt: skip

    def stop(self) -> None:
        """Ask it to stop; it does at its next step."""
        self._stop.set()

    def wait(self, seconds: float = 600) -> None:
        """For tests and for the end of the program."""
        if self._thread is not None:
            self._thread.join(seconds)

    def progress(self, done: int, total: int | None) -> None:
        """The ``progress`` of the verbs."""
        self.tell(self.phase, done, total)

    def tell(self, phase: str, done: int, total: int | None = None) -> None:
        self.phase, self.done, self.total = phase, done, total
        if self._stop.is_set():
            raise StoppedError

    def start(self, work: Callable[[Task], None], *, failed: Callable[[], None] | None = None) -> None:
        """Run ``work`` in a thread; ``failed`` is called after it failed or was stopped, before anybody is told."""

        def run() -> None:
            state = DONE
            try:
                with told_to(self.tell):
                    work(self)
            except StoppedError:
                state = STOPPED
            except UnderstudyError as problem:
                state, self.problem = FAILED, str(problem)
            except Exception as problem:  # a bug: its message may hold anything, so only its kind and place are told
                state, self.problem = FAILED, OURS
                frames = traceback.extract_tb(problem.__traceback__)
                where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown place"
                sys.stderr.write(f"error in '{self.name}': {type(problem).__name__} at {where}\n")
            if state != DONE and failed is not None:
                failed()
            self.ended = time.monotonic()
            self.state = state

        self._thread = threading.Thread(target=run, name=f"studio-{self.name}", daemon=True)
        self._thread.start()
