"""When answers appear: from the times of approvals and the settings alone, never from how long the worker took."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, inf, log2

MOST_NOTING = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """An answer appears ``answer`` seconds after its approval, and ``job`` seconds after the answer before it."""

    answer: float
    job: float

    @property
    def noting(self) -> float:
        """Seconds in which it is surely noted that a job ended."""
        return min(MOST_NOTING, self.answer / 20)

    def due(self, approvals: Iterable[tuple[str, float]]) -> dict[str, float]:
        """When the answer of each job is due; jobs and their approvals, in the order in which the worker takes them.

        Jobs that were approved together get times one after the other, so that nobody waits for a job that takes long
        but for the time that every job is given.

        >>> Pace(answer=60, job=10).due([("a", 0), ("b", 0), ("c", 100)])
        {'a': 60, 'b': 70, 'c': 160}
        """
        found: dict[str, float] = {}
        last = -inf
        for name, approved in approvals:
            last = found[name] = max(approved + self.answer, last + self.job)
        return found

    def next_look(self, due: float, now: float) -> float:
        """When an answer can appear next. One that missed its time has the next chance after twice as long each time:
        how late it was then has few values, so it tells little.

        >>> pace = Pace(answer=60, job=10)
        >>> [pace.next_look(100, now) for now in (5, 100, 101, 161, 281)]
        [100, 100, 160, 280, 520]
        """
        if now <= due:
            return due
        missed = ceil(log2((now - due) / self.answer + 1))
        return due + self.answer * ((1 << missed) - 1)
