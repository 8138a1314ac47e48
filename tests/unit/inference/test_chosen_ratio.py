"""Ratios that were chosen by looking: every ratio that is not rejected, with no upper end where noise hides the side
below. And ends of ratios of numbers of people."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import understudy as us
from understudy.demo.people import make_people, small_schema
from understudy.inference.ask import ask
from understudy.inference.chosen_ratio import ratios_not_rejected
from understudy.inference.joined_tables import half_width
from understudy.inference.judge import BELOW_NEAR_0
from understudy.privacy.gate.gate import Gate
from understudy.privacy.gate.measurement_steps import query_of
from understudy.privacy.randomness.streams import SeededStream
from understudy.release.growing import add_measurement
from understudy.serving.pricing import confirmation_plan

RUNS, TRUTH = 3000, np.array([0.25, 0.25])
BLOCK = {"account": "people", "run": "r", "head": "h", "sequence": 2}
QUESTION = "proportion(smokes == 'yes', where=region == 'East') / proportion(smokes == 'yes', where=region == 'West')"


def alike(deviation: float, unseen: float):
    """Variances of sums of two sides whose errors are independent and have the same standard deviation."""

    def variances(weights):
        whole = deviation**2 * (weights**2).sum(axis=0)
        return whole, unseen * whole

    return variances


def worst_of_twenty(deviation: float, unseen: float) -> np.ndarray:
    """Both sides, for twenty pairs of which somebody who knows the truth takes the worst by what was seen."""
    rng = np.random.default_rng(28)
    seen = (1 - unseen) ** 0.5 * deviation * rng.standard_normal((RUNS, 20, 2))
    worst = np.abs(seen[..., 0] - seen[..., 1]).argmax(axis=1)
    return TRUTH + seen[np.arange(RUNS), worst] + unseen**0.5 * deviation * rng.standard_normal((RUNS, 2))


def around_the_estimate(sides: np.ndarray, deviation: float, unseen: float) -> np.ndarray:
    """The intervals of normal errors, with the same allowance."""
    ratios = sides[:, 0] / sides[:, 1]
    half = half_width(np.array([unseen**0.5]), np.array([(1 - unseen) ** 0.5]), 0.95)
    half = half * deviation * np.hypot(1, ratios) / np.abs(sides[:, 1])
    return np.stack([ratios - half, ratios + half], axis=1)


@pytest.mark.parametrize("unseen", [0.2, 0.5])
def test_the_ratios_not_rejected_hold_the_truth_where_normal_errors_do_not(unseen):
    deviation = 0.05  # a fifth of the side below
    sides = worst_of_twenty(deviation, unseen)
    usual = around_the_estimate(sides, deviation, unseen)
    assert ((usual[:, 0] > 1) | (usual[:, 1] < 1)).mean() > 0.07
    assert (usual[:, 1] < 1).sum() > 10 * (usual[:, 0] > 1).sum()  # nearly all on one side
    ends = np.array([ratios_not_rejected(one, alike(deviation, unseen), 0.95) for one in sides])
    missed = ((ends[:, 0] > 1) | (ends[:, 1] < 1)).mean()
    assert 0.03 < missed < 0.05 + 4 * (0.05 * 0.95 / RUNS) ** 0.5


def test_where_the_side_below_is_clear_of_its_noise_the_interval_is_that_of_normal_errors():
    sides = np.array([0.2, 0.25])
    ends = ratios_not_rejected(sides, alike(0.002, 0.5), 0.95)
    assert np.allclose(ends, around_the_estimate(sides[None, :], 0.002, 0.5)[0], atol=0.001)


@pytest.mark.parametrize(("below", "endless"), [(0.06, True), (-0.2, True), (0.5, False)])
def test_there_is_an_upper_end_only_if_the_side_below_stands_out(below, endless):
    low, high = ratios_not_rejected(np.array([0.2, below]), alike(0.03, 0.5), 0.95)
    assert np.isinf(high) == endless
    assert 0 < low < 0.2 / max(below, 0.03) < high


def test_fewer_than_nobody_above_the_line_leaves_0():
    low, high = ratios_not_rejected(np.array([-0.3, 0.4]), alike(0.01, 0.5), 0.95)
    assert low == 0 < high < 0.2


@pytest.mark.parametrize(("rho", "label"), [("0.1", "valid"), ("0.00025", "range")])
def test_a_confirmed_ratio_is_valid_only_with_an_upper_end(rho, label):
    source = us.open_source(make_people(3000).select(list(small_schema().names)), small_schema())
    release = us.synthesize(source, method="ipf", margins="2", budget=us.ZCDP(rho=rho), stream=SeededStream(1))
    margin = ("region", "smokes")
    plan = confirmation_plan(release.schema, release.statement.unit, margin, Fraction(rho) / 10, label="joined")
    (fresh,) = Gate(source=source, schema=release.schema, plan=plan, stream=SeededStream(2)).measure(
        [query_of(plan.steps[0])]
    )
    joined = add_measurement(release, fresh, plan=plan, ledger=BLOCK)
    answer = ask(joined, QUESTION, rng=np.random.default_rng(0), use="confirmed")
    assert answer.labels == (label,)
    assert np.isfinite(answer.estimates[0].high) == (label == "valid")
    assert (BELOW_NEAR_0 in answer.warnings) == (label == "range")
    if label == "valid":  # a verdict about a claim uses the error of the farther end
        (one,), ((own, seen),) = answer.estimates, answer.parts
        half = float(half_width(np.array([own]), np.array([seen]), 0.95)[0])
        assert half == pytest.approx(max(one.high - one.value, one.value - one.low))


def test_a_ratio_of_numbers_of_people_does_not_end_at_whole_numbers():
    people = make_people(2000).select(list(small_schema().names))
    release = us.synthesize(
        us.open_source(people, small_schema()),
        method="ipf",
        margins="2",
        budget=us.ZCDP(rho="0.01"),
        stream=SeededStream(1),
    )
    question = "count(smokes == 'yes') / count(sex == 'F', where=smokes == 'yes')"
    (one,) = ask(release, question, rng=np.random.default_rng(0)).estimates
    (other,) = ask(release, "count(sex == 'F') / count(sex == 'M')", rng=np.random.default_rng(0)).estimates
    for found in (one, other):
        assert found.low < found.value < found.high
        assert found.low % 1 > 0 < found.high % 1
