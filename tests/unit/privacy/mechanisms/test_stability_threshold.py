"""Codes that occur and reach a threshold: the law by its frequencies, and an audit that finds a broken copy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from understudy.core.counts import CodeCounts
from understudy.errors import DisclosureError, InputError
from understudy.privacy.exact.epsilon_lower_bounds import epsilon_lower_bound
from understudy.privacy.mechanisms.noise import DiscreteGaussian, mechanism_from_json
from understudy.privacy.mechanisms.stability_threshold import StabilityThreshold
from understudy.privacy.randomness.streams import SeededStream

RUNS = 4000


def times_told(mechanism: StabilityThreshold, count: int, seed: int) -> int:
    codes = tuple(f"c{number}" for number in range(RUNS))
    return len(mechanism.find(codes, np.full(RUNS, count), SeededStream(seed))[0])


@pytest.mark.parametrize("count", [6, 10, 14])
def test_how_often_a_code_is_told(count):
    """Exact binomial tests; false alarm 1e-4 in all. The scale times 0.7 and 1.4 must be rejected."""
    values = np.arange(10, 200)

    def p_value(mechanism):
        law = StabilityThreshold(scale=4, threshold=10)
        chance = float(np.exp(law.log_pmf(values, np.array(count))).sum())
        return binomtest(times_told(mechanism, count, count), RUNS, chance).pvalue

    assert p_value(StabilityThreshold(scale=4, threshold=10)) > 1e-4 / 3
    if count != 10:  # at the threshold half are told, whatever the scale
        assert p_value(StabilityThreshold(scale="2.8", threshold=10)) < 1e-4
        assert p_value(StabilityThreshold(scale="5.6", threshold=10)) < 1e-4
    assert p_value(StabilityThreshold(scale=4, threshold=9)) < 1e-4


def test_an_audit_finds_a_threshold_that_is_too_low():
    """A code of one unit alone, told in one table and never in the other: an infinite loss beyond delta."""
    honest = StabilityThreshold(scale=4, threshold=10)
    event = honest.event(_sensitivity())
    delta = _delta(event)
    told = {
        name: times_told(one, 1, 3)
        for name, one in (("honest", honest), ("low", StabilityThreshold(scale=4, threshold=6)))
    }
    assert epsilon_lower_bound(told["honest"], RUNS, 0, RUNS, delta=delta) == 0
    assert epsilon_lower_bound(told["low"], RUNS, 0, RUNS, delta=delta) > 1


def _sensitivity():
    from understudy.privacy.promise.event import Sensitivity

    return Sensitivity(l1=2, l2_squared=2, linf=1)


def _delta(event) -> float:
    from understudy import Unit
    from understudy.privacy.promise.accountant import loss_of

    return float(loss_of(event, Unit()).approx_delta)


def test_what_is_told_is_in_the_order_of_texts_and_no_other_code():
    codes, values = StabilityThreshold(scale=1, threshold=20).find(
        ("b", "a", "c"), np.array([90, 80, 1]), SeededStream(1)
    )
    assert codes == ("a", "b")
    assert (values >= 20).all()


def test_a_code_that_does_not_occur_has_no_law():
    law = StabilityThreshold(scale=1, threshold=5)
    assert np.isneginf(law.log_pmf(np.arange(5, 30), np.array(0))).all()
    assert law.log_pmf(np.array(0), np.array(0)) == 0
    for count in (1, 4, 9):
        assert np.exp(law.log_pmf(np.array([0, *range(5, 60)]), np.array(count))).sum() == pytest.approx(1, abs=1e-8)
    assert np.isneginf(law.log_pmf(np.array([4]), np.array(90)))
    with pytest.raises(InputError, match="occur"):
        law.find(("a",), np.array([0]), SeededStream(1))


def test_it_comes_back_from_its_record():
    one = StabilityThreshold(scale="24.1", threshold=160)
    assert mechanism_from_json(one.to_json()) == one
    for broken in ({"threshold": "x"}, {"threshold": "1"}, {"scale": "1/3"}):
        with pytest.raises(InputError):
            mechanism_from_json({**one.to_json(), **broken})


def test_counts_of_codes_are_for_a_threshold_alone():
    counts = CodeCounts(margin=("job",), _codes=("a",), _values=np.array([3]))
    with pytest.raises(DisclosureError, match="which codes occur"):
        counts.open_for(DiscreteGaussian(scale=1))
    assert counts.open_for(StabilityThreshold(scale=1, threshold=5))[0] == ("a",)
    with pytest.raises(DisclosureError):
        counts.__reduce__()
