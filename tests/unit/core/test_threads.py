"""Work in threads: results in order, few of them waiting, errors where they are expected."""

from __future__ import annotations

import threading
import time

import pytest

from understudy.core.threads import in_order, processors


@pytest.mark.parametrize("threads", [1, 2, 5, None])
def test_results_come_in_the_order_of_the_work(threads):
    def slow_at_first(number):
        time.sleep(0.002 * (number % 3 == 0))
        return number

    assert list(in_order(slow_at_first, range(40), threads)) == list(range(40))


def test_work_is_not_taken_far_ahead_of_its_use():
    begun = []
    results = in_order(begun.append, range(100), threads=2)
    next(results)
    time.sleep(0.05)
    assert len(begun) <= 4
    results.close()
    assert len(begun) <= 4


def test_several_threads_work_at_the_same_time():
    together = threading.Barrier(2, timeout=10)
    list(in_order(lambda _: together.wait(), range(2), threads=2))


def test_an_error_is_raised_where_its_result_is_due():
    def fails(number):
        if number == 3:
            raise ValueError("third")
        return number

    results = in_order(fails, range(9), threads=2)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="third"):
        next(results)


def test_there_is_a_processor():
    assert processors() >= 1
