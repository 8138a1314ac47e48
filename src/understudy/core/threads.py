"""Work in threads whose results come in the order of the work, whatever the number of threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def processors() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(work: Callable[[Item], Result], items: Iterable[Item], threads: int | None = None) -> Iterator[Result]:
    """The results of ``work`` on each item, in the order of the items; by default one thread per processor.

    Only two results more than there are threads are ever waiting, so memory does not grow with the number of items. For
    work that gives up Python's lock: compiled loops, large arrays. With one thread nothing is started.

    >>> list(in_order(lambda number: number**2, range(4), threads=3))
    [0, 1, 4, 9]
    """
    count = threads or processors()
    if count == 1:
        yield from map(work, items)
        return
    pool = ThreadPoolExecutor(count, thread_name_prefix="understudy-draw")
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > count + 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
