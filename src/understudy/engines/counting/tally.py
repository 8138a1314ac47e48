"""Dense counts of many margins from a stream of coded batches, in one pass over each batch.

*Fewer tables than margins.* Every two-way margin of a few small attributes is a sum of their joint table. So margins
are covered by joint tables that still fit a processor's cache, rows are added to those alone, and margins are summed
from them at the end: integers, so exactly. For all 45 two-way margins of ten columns this takes 9 tables instead of 45
and a quarter of the time.

*Threads.* A batch goes to one thread, which adds it to tables of its own with 32-bit counts. Those are added to the
64-bit totals at the end, and before a thread has counted so many rows that a count could overflow. Tables too large to
have once per thread exist once, with 64 bits, and are locked while a batch is added.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from math import prod
from types import TracebackType

import numpy as np

from understudy.core.arrays import Integers
from understudy.core.table import Codes
from understudy.core.threads import processors
from understudy.engines.counting.kernel import Kernel, Layout, kernel_for

# Cells of a joint table that covers several margins: 128 KB of counts. On ten columns of 2 to 100 codes the time per
# row fell up to here (23 ns without covering, 9.5 at 2^10, 5.8 at 2^15) and no further.
JOINT_CELLS = 2**15
CELLS_PER_THREAD = 2**22  # 16 MB of 32-bit counts; beyond it tables are shared
FLUSH_ROWS = 2**31  # rows a thread may count before its 32-bit counts are added to the totals
MOST_THREADS = 4  # reading is the slower half and has its own thread
PIECE_ROWS = 2**18  # rows counted at a time, which bounds the copy that a kernel makes of them


def covering(
    sizes: Sequence[int], margins: Sequence[tuple[int, ...]], limit: int = JOINT_CELLS
) -> list[tuple[int, ...]]:
    """Joint tables of at most ``limit`` cells (or of one margin) such that every margin lies within one of them.

    Greedy, from the largest margin down: a table takes in the attribute that completes most margins still open, the
    smallest of those, while it fits. The fewest tables would be a covering design; any covering gives exact counts.

    >>> covering([2, 3, 4, 5], [(0, 1), (0, 2), (1, 2), (2, 3)], limit=30)
    [(2, 3), (0, 1, 2)]
    """
    if all(len(margin) <= 1 for margin in margins):
        return _covering_columns(sizes, {column for margin in margins for column in margin}, limit)
    member = np.zeros((len(sizes), len(margins)), np.int16)
    for number, margin in enumerate(margins):
        member[list(margin), number] = 1
    cells = [prod(sizes[column] for column in margin) for margin in margins]
    lengths = member.sum(axis=0, dtype=np.int16)
    is_open = lengths > 0
    tables = []
    for number in sorted(range(len(margins)), key=lambda n: -cells[n]):
        if not is_open[number]:
            continue
        inside, size = set(margins[number]), cells[number]
        lacking = lengths - member[list(inside)].sum(axis=0, dtype=np.int16)
        while True:
            completes = member[:, is_open & (lacking == 1)].sum(axis=1)
            gains = [
                (completes[column], -sizes[column], column)
                for column in np.flatnonzero(completes).tolist()
                if column not in inside and size * sizes[column] <= limit
            ]
            if not gains:
                break
            best = max(gains)[2]
            inside.add(best)
            size *= sizes[best]
            lacking -= member[best]
        is_open &= lacking > 0
        tables.append(tuple(sorted(inside)))
    return tables


def _covering_columns(sizes: Sequence[int], columns: set[int], limit: int) -> list[tuple[int, ...]]:
    """The same of single columns, without looking at each again for every table: there may be thousands."""
    waiting = deque(sorted(columns, key=lambda column: (-sizes[column], column)))
    tables = []
    while waiting:
        inside = [waiting.popleft()]
        size = sizes[inside[0]]
        while waiting and size * sizes[waiting[-1]] <= limit:
            size *= sizes[waiting[-1]]
            inside.append(waiting.pop())
        tables.append(tuple(sorted(inside)))
    return tables


class _Counter:
    """One thread's own tables."""

    def __init__(self, cells: int) -> None:
        self.counts = np.zeros(cells, np.uint32)
        self.rows = 0


class Tally:
    """Counts of ``margins`` (of column numbers) over columns with so many codes each. ``add`` batches, then ``tables``.

    A context manager: leaving it waits for its threads. ``rows``, if known beforehand, and ``kernel`` help to choose
    the kernel; ``threads`` is by default one per processor, up to four.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        margins: Sequence[tuple[int, ...]],
        *,
        rows: int | None = None,
        kernel: str | None = None,
        threads: int | None = None,
        flush_rows: int = FLUSH_ROWS,
        cells_per_thread: int = CELLS_PER_THREAD,
    ) -> None:
        self._sizes = tuple(sizes)
        self._margins = [tuple(margin) for margin in margins]
        self._expected = rows or 0
        self._choice = kernel
        self._threads = threads or min(MOST_THREADS, processors())
        self._flush_rows = flush_rows
        own: list[tuple[int, ...]] = []
        shared: list[tuple[int, ...]] = []
        room = cells_per_thread
        for table in sorted(covering(self._sizes, self._margins), key=self._cells):
            room -= self._cells(table)
            (own if room >= 0 else shared).append(table)
        self._own = Layout.of(self._sizes, own)
        self._shared = Layout.of(self._sizes, shared)
        self._totals = np.zeros(self._own.cells, np.int64)
        self._shared_counts = np.zeros(self._shared.cells, np.int64)
        self._rows = 0
        self._idle: deque[_Counter] = deque()
        self._lock, self._shared_lock = threading.Lock(), threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._running: deque[Future[None]] = deque()

    def __enter__(self) -> Tally:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def add(self, columns: Sequence[Codes]) -> None:
        """Count a batch: now, or in a thread if the kernel lets threads run. Few batches wait, so memory is bounded."""
        self._rows += len(columns[0])
        tables = len(self._own.tables) + len(self._shared.tables)
        kernel = kernel_for(max(self._rows, self._expected) * tables, self._choice)
        if not kernel.releases_gil or self._threads == 1:
            self._count(columns, kernel)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="understudy-count")
        while len(self._running) > self._threads:
            self._running.popleft().result()
        self._running.append(self._pool.submit(self._count, columns, kernel))

    def tables(self) -> list[Integers]:
        """One array per margin, with an axis per column in the order asked for."""
        while self._running:
            self._running.popleft().result()
        while self._idle:
            self._flush(self._idle.pop())
        joint = [
            (table, counts[layout.offsets[number] : layout.offsets[number + 1]].reshape(self._shape(table)))
            for layout, counts in ((self._own, self._totals), (self._shared, self._shared_counts))
            for number, table in enumerate(layout.tables)
        ]
        return [self._sum(joint, margin) for margin in self._margins]

    def _count(self, columns: Sequence[Codes], kernel: Kernel) -> None:
        step = min(self._flush_rows, PIECE_ROWS)
        for start in range(0, len(columns[0]), step):
            piece = [codes[start : start + step] for codes in columns]
            if self._own.tables:
                with self._lock:
                    counter = self._idle.pop() if self._idle else _Counter(self._own.cells)
                if counter.rows + len(piece[0]) > self._flush_rows:
                    self._flush(counter)
                kernel.add(self._own, piece, counter.counts)
                counter.rows += len(piece[0])
                with self._lock:
                    self._idle.append(counter)
            if self._shared.tables:
                with self._shared_lock:
                    kernel.add(self._shared, piece, self._shared_counts)

    def _flush(self, counter: _Counter) -> None:
        with self._lock:
            self._totals += counter.counts
        counter.counts[:] = 0
        counter.rows = 0

    def _sum(self, joint: Sequence[tuple[tuple[int, ...], Integers]], margin: tuple[int, ...]) -> Integers:
        if not margin:
            return np.array(self._rows, np.int64)
        within = [(table, counts) for table, counts in joint if set(margin) <= set(table)]
        table, counts = min(within, key=lambda pair: pair[1].size)
        others = tuple(axis for axis, column in enumerate(table) if column not in margin)
        summed = counts.sum(axis=others) if others else counts  # a sum over no axis would copy the table
        left = sorted(margin)
        return np.ascontiguousarray(np.transpose(summed, [left.index(column) for column in margin]))

    def _shape(self, table: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(self._sizes[column] for column in table)

    def _cells(self, table: tuple[int, ...]) -> int:
        return prod(self._shape(table))
