"""Charest (2010): every printed number comes out, or what it is instead."""

from __future__ import annotations

from collections import Counter

import pytest

from papers.harness import run
from papers.reproduced.charest import figure_2


@pytest.fixture(scope="module")
def outcomes():
    return {(outcome.item, outcome.cell): outcome for outcome in run(["charest"])}


def test_every_number_is_as_printed_or_as_read(outcomes):
    assert Counter(outcome.verdict for outcome in outcomes.values()) == {"pass": 31, "misprint": 1, "differs": 4}
    misprint = outcomes["Table 1", "eps=2 p=0.25 M=5"]
    assert (misprint.verdict, misprint.published) == ("misprint", 20.57)
    assert misprint.computed == pytest.approx(20.07, abs=0.01)


def test_charest_prints_another_rule_than_it_states(outcomes):
    for copies, stated in ((2, 127), (5, 276), (10, 527)):
        cell = f"eps=2 p=0.25 M={copies}"
        assert outcomes["Table 2 bias", cell].verdict == "pass"  # T = b - v
        other = outcomes["Table 2 stated rule", cell]
        assert other.verdict == "differs"
        assert other.computed == pytest.approx(stated, abs=2)


def test_more_copies_of_one_epsilon_make_the_posterior_wider():
    data, *released = (point["sd"] for point in figure_2())
    assert data == pytest.approx(0.043, abs=0.001)
    assert released == sorted(released)
    assert released == pytest.approx([0.087, 0.094, 0.116, 0.144], abs=0.003)
