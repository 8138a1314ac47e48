"""What a map says about its promise, and that nothing in it is taken for markup."""

from __future__ import annotations

import pytest

from understudy.commutes.map.map_wording import (
    explanation_html,
    part_words,
    plain_words,
    promise_html,
    promise_text,
    unit_text,
)
from understudy.privacy.promise.definition import ZCDP, ApproxDP, NonPrivate, ProbabilisticDP, PureDP, Unit
from understudy.release.statement import Statement

APPROX = ApproxDP(epsilon="4.6", delta="1e-5")


def statement(guarantee=APPROX, unit=None, **more):
    return Statement(unit=unit or Unit(fixed=("destination",)), guarantee=guarantee, **more)


@pytest.mark.parametrize(
    ("unit", "says"),
    [
        (Unit(fixed=("destination",)), "protects the home behind any one job"),
        (Unit(), "protects home and workplace of any one job"),
        (Unit(rows_per_unit=3, unit_id="person"), "protects home and workplace of any 3 jobs of one person"),
    ],
)
def test_the_unit_is_named(unit, says):
    assert unit_text(statement(unit=unit)) == says


@pytest.mark.parametrize(
    ("guarantee", "says"),
    [
        (PureDP(epsilon=1), "at most 2.8-fold."),
        (APPROX, "at most 100-fold, except for a probability of 0.00001 (delta)."),
        (ProbabilisticDP(epsilon="8.57", delta="0.01"), "at most 5,300-fold, except for a probability of 0.01"),
        (PureDP(epsilon=20), "at most e^20-fold"),
        (ZCDP(rho="0.1"), "hardly more about any one worker"),
        (NonPrivate(), "no privacy guarantee"),
    ],
)
def test_numbers_become_words_that_never_flatter(guarantee, says):
    words = plain_words({"": statement(guarantee)})
    assert words.startswith("No dot is a person")
    assert says in words


def test_under_add_remove_two_homes_are_two_steps_apart():
    words = plain_words({"": statement(PureDP(epsilon=1), Unit(kind="add_remove"))})
    assert "in the data at most 2.8-fold, and between two values of one worker at most 7.4-fold." in words


def test_two_releases_are_told_apart_only_where_they_differ():
    assert "A:" not in plain_words({"A": statement(APPROX), "B": statement(APPROX)})
    both = plain_words({"A": statement(APPROX), "B": statement(PureDP(epsilon=1))})
    assert both.count("No dot is a person") == 1
    assert "A: For somebody" in both
    assert "B: For somebody" in both


def test_the_promise_has_its_numbers_and_its_warnings_and_no_markup_of_others():
    text = promise_text(statement())
    assert text == "ε = 4.6, δ = 0.00001 (approximate differential privacy); protects the home behind any one job"
    html = promise_html(statement(warnings=("<b>made with test randomness</b>",)), "A")
    assert "&lt;b&gt;made" in html
    assert '<span class="key">A</span>' in html
    assert "no guarantee" in promise_html(statement(NonPrivate()), "")


def test_the_explanation_states_limit_and_method():
    html = explanation_html([statement()], ["<commute>"], 1_000_000)
    assert "At most 1,000,000 dots" in html
    assert "made by the method &lt;commute&gt;" in html
    assert "Privacy account: not tracked" in html
    assert "A: made by" in explanation_html([statement()] * 2, ["x", "y"], 1)


def test_a_map_of_a_part_says_so_first():
    assert part_words("county=44007") == "Only jobs at workplaces in county=44007 are shown. "
    assert part_words(None) == ""
