"""Who computes when: one free answer and one price at a time, and of each person one request at a time.

Answers and prices take from milliseconds to a minute. Whoever waits here holds no thread, so pages stay quick. A person
who sends many dear questions waits for the own ones, and others come in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from starlette.concurrency import run_in_threadpool

from understudy.errors import InputError
from understudy.serving.database.people import Person

ANSWERS, PRICES = "answers", "prices"
MOST_WAITING = 20  # requests of one person
T = TypeVar("T")


class Turns:
    """The places for what is dear to compute, and who waits for them."""

    def __init__(self) -> None:
        self._places = {one: asyncio.Lock() for one in (ANSWERS, PRICES)}
        self._persons: dict[tuple[str, str], asyncio.Lock] = {}
        self._waiting: dict[tuple[str, str], int] = {}

    async def take(self, person: Person, place: str, work: Callable[[], T]) -> T:
        """Carry out some work when it is this person's turn."""
        key = (person.name, place)
        if self._waiting.get(key, 0) >= MOST_WAITING:
            raise InputError(f"{MOST_WAITING} requests of yours are waiting already; let them be answered first.")
        own = self._persons.setdefault(key, asyncio.Lock())
        self._waiting[key] = self._waiting.get(key, 0) + 1
        try:
            async with own, self._places[place]:
                return await run_in_threadpool(work)
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key], self._persons[key]
