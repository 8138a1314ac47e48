"""What a choice of tables can have exaggerated: the bound holds, is not idle, and reaches the answers."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.core.questions import parse_question
from understudy.demo.people import make_people, small_schema
from understudy.inference.ask import ways_around_choice
from understudy.inference.chosen_tables import Choice, _steepest, measured_after_choosing, without_selection
from understudy.inference.estimands import make_estimand
from understudy.inference.joined_tables import half_width
from understudy.inference.labels import SELECTION, VALID
from understudy.privacy.promise.event import GaussianNoise, GeometricNoise, GumbelMax
from understudy.privacy.randomness.streams import SeededStream

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
SCHEMA = small_schema()
RUNS = 60_000


def release_of(method, *, epsilon=2, people=4000, seed=5, delta="1e-6", **settings):
    budget = us.ApproxDP(epsilon=epsilon, delta=delta) if delta else us.PureDP(epsilon=epsilon)
    with warnings.catch_warnings(action="ignore"):
        return us.synthesize(
            us.open_source(make_people(people, seed=2), SCHEMA),
            method=method,
            budget=budget,
            stream=SeededStream(seed),
            **settings,
        )


def estimand(question):
    return make_estimand(parse_question(question, SCHEMA), SCHEMA)


def chosen_pair(release):
    return next(
        one.margin for one in release.measurements if one.label.startswith(("table", "pair")) and len(one.margin) == 2
    )


def kept(event, pull, rng, chance):
    """Sampling errors of a table whose distance from a model was looked at, given that it was far enough."""
    error = rng.standard_normal(RUNS)
    distance = pull * np.abs(error + 0.2)
    if isinstance(event, GumbelMax):  # the larger of two noisy scores; the other one is fixed
        noise = rng.gumbel(size=(2, RUNS)) * float(event.scale)
        other = np.quantile(distance + noise[0] - noise[1], 1 - chance)
        return error[distance + noise[0] > other + noise[1]]
    scale = float(event.scale)
    noise = rng.normal(0, scale, RUNS) if isinstance(event, GaussianNoise) else rng.laplace(0, scale, RUNS)
    look = distance + noise
    return error[look > np.quantile(look, 1 - chance)]


@pytest.mark.parametrize(
    "event", [GaussianNoise(l2_squared=1, scale=10), GeometricNoise(l1=1, scale=10), GumbelMax(sensitivity=1, scale=10)]
)
@pytest.mark.parametrize("pull", [3.0, 10.0, 30.0])
@pytest.mark.parametrize("chance", [0.05, 0.3])
def test_an_interval_with_room_holds_given_the_choice(event, pull, chance):
    errors = kept(event, pull, np.random.default_rng(7), chance)
    room = float(np.sqrt(_steepest(event, np.array([[pull]]))[0]))
    held = np.mean(np.abs(errors) <= 1.96 + room)
    assert held > 0.95 - 4 * np.sqrt(0.05 * 0.95 / len(errors))


def test_without_room_it_does_not_hold_and_little_room_is_asked_for_little_exaggeration():
    rng = np.random.default_rng(7)
    sharp, blunt = GaussianNoise(l2_squared=1, scale=10), GaussianNoise(l2_squared=1, scale=1000)
    assert np.mean(np.abs(kept(sharp, 30.0, rng, 0.05)) <= 1.96) < 0.5
    assert np.mean(np.abs(kept(blunt, 30.0, rng, 0.05)) <= 1.96) > 0.93
    assert float(np.sqrt(_steepest(blunt, np.array([[30.0]]))[0])) < 0.1


@pytest.fixture(scope="module")
def looked():
    return release_of("one_look")


def test_an_answer_from_a_chosen_pair_is_valid_with_room(looked):
    first, second = chosen_pair(looked)
    text = f"crosstab({first}, {second})"
    used = measured_after_choosing(looked, estimand(text))
    assert {one.label.split()[0] for one in used.measurements} == {"table"}
    answer = us.infer(looked, text, draws=300, rng=np.random.default_rng(1))
    assert VALID in answer.labels
    room = Choice(release=looked).exaggerated(
        estimand(text), np.full(estimand(text).groups, 1 / estimand(text).groups), 4000
    )
    assert (room > 0).all()
    assert any("times as long" in one or "more than" in one for one in answer.warnings)


def test_what_is_measured_in_any_case_needs_no_room(looked):
    question = estimand("proportion(smokes == 'yes')")
    assert Choice(release=looked).exaggerated(question, np.array([0.7, 0.3]), 4000).tolist() == [0.0]
    answer = us.infer(looked, "proportion(smokes == 'yes')", rng=np.random.default_rng(1))
    assert answer.labels == (VALID,)
    first = us.infer(without_selection(looked, question), "proportion(smokes == 'yes')", rng=np.random.default_rng(1))
    assert answer.standard_errors[0] < first.standard_errors[0]  # not the first look alone


def test_which_tables_answer_is_decided_before_the_noise_is_seen():
    """The narrower of two valid intervals was given, which nothing showed to hold as often as it says."""
    release = release_of("one_look", must="pairs()")
    questions = [f"crosstab({', '.join(chosen_pair(release))})", "proportion(smokes == 'yes')", "crosstab(sex, smokes)"]
    rng = np.random.default_rng(3)
    orders = []
    for _ in range(6):
        moved = tuple(
            replace(one, values=np.maximum(0, one.values + rng.integers(-300, 300, one.values.shape)))
            for one in release.measurements
        )
        ways = [ways_around_choice(replace(release, measurements=moved), estimand(one), 0.95) for one in questions]
        orders.append([[choice is None for _, choice in way] for way in ways])
    assert all(order == orders[0] for order in orders)
    assert len(orders[0][0]) == 2  # there was something to decide


@pytest.mark.parametrize(("share", "first"), [("0.9", True), ("0.01", False)])
def test_the_tables_with_the_larger_part_of_the_budget_answer(share, first):
    release = release_of("one_look", epsilon=0.5, must="pairs()", must_share=share)
    ways = ways_around_choice(release, estimand(f"crosstab({', '.join(chosen_pair(release))})"), 0.95)
    assert (ways[0][1] is None) == first


def beyond(errors, seen, own, room, rng):
    """How often an interval with room is missed, if part of the error was seen when the table was chosen."""
    total = seen * errors + own * rng.standard_normal(len(errors))
    half = 1.96 * np.hypot(seen, own) + room
    return float(np.mean(np.abs(total) > half))


@pytest.mark.parametrize(("seen", "own"), [(1.0, 0.0), (1.0, 0.5), (1.0, 3.0)])
def test_the_room_for_any_choice_is_enough_for_the_sharpest_one_and_not_much_more(looked, seen, own):
    rng = np.random.default_rng(11)
    every = rng.standard_normal(40 * RUNS)
    worst = every[np.abs(every) > 1.95996]  # chosen with probability .05, by the sampling error itself
    spread = np.array([np.hypot(seen, own)])
    room = Choice(release=looked).for_any_choice(np.array([seen]), spread, 0.95, of_shares=False)[0]
    allowed = 4 * np.sqrt(0.05 * 0.95 / len(worst))
    assert beyond(worst, seen, own, room, rng) < 0.05 + allowed
    assert beyond(worst, seen, own, 0.7 * room, rng) > 0.05 + allowed
    assert beyond(worst, seen, own, 0.0, rng) > 0.08
    upper = every[every > 1.6449]  # an interval whose error is all at one end, and a choice that looks at that end
    one_sided = Choice(release=looked).for_any_choice(np.array([seen]), spread, 0.95, of_shares=True)[0]
    total = seen * upper + own * rng.standard_normal(len(upper))
    assert np.mean(total > 1.6449 * spread[0] + one_sided) < 0.05 + allowed
    assert np.mean(total > 1.6449 * spread[0] + 0.7 * one_sided) > 0.05 + allowed


def test_on_average_over_the_chosen_the_intervals_hold_however_rarely_each_is_chosen():
    """Of 100 tables that are all alike the two with the largest errors are chosen: each only once in 50 releases."""
    errors = np.sort(np.abs(np.random.default_rng(5).standard_normal((20_000, 100))), axis=1)[:, -2:]
    half = half_width(np.array([0.0]), np.array([1.0]), 0.95, 100 / 2)[0]
    assert np.mean(errors > half) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 20_000)
    assert np.mean(errors > half_width(np.array([0.0]), np.array([1.0]), 0.95, 20)[0]) > 0.1


def test_fewer_chosen_tables_of_many_get_more_room(looked):
    assert Choice(release=looked).questions == 20.0  # it chose more than one pair in twenty
    names = [f"a{place}" for place in range(9)]
    schema = us.Schema(attributes=tuple(us.Attribute(name=name, levels=("x", "y")) for name in names))
    table = pa.table({name: ["x", "y"] * 50 for name in names})
    release = us.synthesize(table, schema=schema, method="mst", budget=us.PureDP(epsilon=5), stream=SeededStream(1))
    assert Choice(release=release).questions == 20.0  # 8 of 36
    pair = next(one for one in release.measurements if len(one.margin) == 2)
    assert Choice(release=replace(release, measurements=(pair,))).questions == 36.0


def test_a_method_that_measures_between_choices_answers_from_the_first_table_that_holds_the_question():
    release = release_of("aim", rounds=2)
    rounds = [one for one in release.measurements if one.label.startswith("round")]
    first = next(one for one in rounds if len(one.margin) == 2)
    again = replace(first, label="round 99: again", values=first.values + 7)
    release = replace(release, measurements=(*release.measurements, again))
    text = f"crosstab({', '.join(first.margin)})"
    used = measured_after_choosing(release, estimand(text))
    assert [one.label for one in used.measurements] == [first.label]
    answer = us.infer(release, text, draws=300, rng=np.random.default_rng(1))
    assert VALID in answer.labels
    assert any("times as long" in one for one in answer.warnings)


def test_the_order_of_the_rounds_of_a_release_survives_its_folder(tmp_path):
    """Which table is the first one decides which answers."""
    release = release_of("aim", rounds=8)
    release.write(tmp_path / "release")
    assert [one.label for one in us.read_release(tmp_path / "release").measurements] == [
        one.label for one in release.measurements
    ]
    rounds = [
        int(one.label.split(":")[0].removeprefix("round ")) for one in release.measurements if "round" in one.label
    ]
    assert len(rounds) > 9  # as texts, 10 would come before 2
    assert rounds == sorted(rounds)


def test_strata_leave_answers_of_chosen_tables_valid():
    release = release_of("mst", epsilon=4, strata="sex")
    pair = next(one.margin for one in release.measurements if one.label.startswith("pair"))
    inside = [name for name in pair if name != "sex"]
    answer = us.infer(release, f"crosstab({', '.join(inside)})", draws=300, rng=np.random.default_rng(1))
    assert VALID in answer.labels
    assert SELECTION not in answer.labels


def test_the_sharpest_choice_makes_intervals_longer_and_not_worse_labels():
    release = release_of("mst", epsilon=50, delta=None)
    pair = chosen_pair(release)
    question = f"crosstab({', '.join(pair)})"
    answer = us.infer(release, question, draws=300, rng=np.random.default_rng(1))
    assert VALID in answer.labels
    assert SELECTION not in answer.labels
    choice = Choice(release=release)
    shares = np.full(estimand(question).groups, 1 / estimand(question).groups)
    spread = np.sqrt(shares * (1 - shares) / 4000)
    room = choice.room(estimand(question), shares, records=4000, sampling=spread, spread=spread, rows=1, level=0.95)
    assert (room < choice.exaggerated(estimand(question), shares, 4000)).all()
    assert np.allclose(room / spread, 1.162, atol=0.01)


def test_units_of_several_rows_have_room_for_rows_that_are_alike():
    text = "proportion(smokes == 'yes', where=sex == 'F')"
    unit = us.Unit(kind="replace", rows_per_unit=2)
    answer = us.infer(release_of("ipf", epsilon=40, unit=unit), text, rng=np.random.default_rng(1))
    single = us.infer(release_of("ipf", epsilon=40), text, rng=np.random.default_rng(1))
    assert answer.labels == (VALID,)
    assert 1.3 < (answer.high - answer.low) / (single.high - single.low) < 1.6
    assert any("up to 2 rows" in one for one in answer.warnings)
