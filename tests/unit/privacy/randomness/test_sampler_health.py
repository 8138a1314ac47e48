"""The health check passes sound samplers, refuses faulty ones, and does so before anything is charged or left behind.

Sound samplers are refused with probability below 1e-9 (the stated bound, which a test below compares with exact
binomial tails). Each fault is put into a seeded stream, so those tests give the same answer every time.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

import understudy as us
from understudy.errors import DisclosureError, UntrackedWarning
from understudy.privacy.gate.gate import Gate
from understudy.privacy.randomness import sampler_health as health
from understudy.privacy.randomness.sampler_health import Tally, check_samplers, tallies
from understudy.privacy.randomness.streams import SecureStream, SeededStream

SCHEMA = us.Schema(attributes=(us.Attribute(name="sex", levels=("F", "M")),))
ROWS = pa.table({"sex": ["F", "M", "M"] * 20})
HALF = us.PureDP(epsilon="0.5")


class Faulty(SeededStream):
    """A seeded stream in which some samplers have a fault."""

    def __init__(self, *, laplace=1.0, gaussian=1.0, choice=1.0, biased=False, stuck=False):
        super().__init__(20261117)
        self.factors = {"laplace": laplace, "gaussian": gaussian, "choice": choice}
        self.biased, self.stuck = biased, stuck

    def _scale(self, scale, which):
        return Fraction(float(scale * Fraction(self.factors[which])))

    def discrete_laplace(self, scale, size):
        if self.stuck:
            return SeededStream(1).discrete_laplace(scale, size)
        noise = super().discrete_laplace(self._scale(scale, "laplace"), size)
        return favour_last_remainder(noise, scale.numerator) if self.biased and scale.denominator == 1 else noise

    def discrete_gaussian(self, scale, size):
        return super().discrete_gaussian(self._scale(scale, "gaussian"), size)

    def noisy_argmax(self, scores, scale, law="exponential"):
        return super().noisy_argmax(scores, self._scale(scale, "choice"), law)


def favour_last_remainder(noise, bound):
    """OpenDP 0.14.1's fault: the last number below a bound is drawn 1.18 times as often as each of the others.

    Draws with another remainder are thrown away with probability 1 - 1/1.18 and replaced by later ones.
    """
    rng = np.random.default_rng(5)
    kept = noise[(np.abs(noise) % bound == bound - 1) | (rng.random(len(noise)) < 1 / 1.18)]
    return np.resize(kept, len(noise))


def test_the_samplers_of_this_machine_pass():
    check_samplers(SecureStream())
    check_samplers(SeededStream(3))


def test_no_more_events_are_looked_at_than_the_bound_allows_for():
    counted = list(tallies(SeededStream(3)))
    assert 100 < len(counted) <= health.MOST_EVENTS
    assert all(count == 1 for count in Counter((one.sampler, one.event) for one in counted).values())


@pytest.mark.parametrize("factor", [0.7, 1.4])
@pytest.mark.parametrize("which", ["laplace", "gaussian", "choice"])
def test_a_wrong_scale_is_refused(which, factor):
    with pytest.raises(DisclosureError, match="choices" if which == "choice" else "noise of scale") as caught:
        check_samplers(Faulty(**{which: factor}))
    assert "Nothing was charged" in str(caught.value)
    assert "0.14.2" in str(caught.value)


def test_the_bias_of_an_early_opendp_is_refused():
    with pytest.raises(DisclosureError, match="geometric noise of scale 3 does not follow its law"):
        check_samplers(Faulty(biased=True))


def test_a_generator_that_starts_anew_at_each_call_is_refused():
    """Each call by itself follows the law."""
    with pytest.raises(DisclosureError, match="in two calls"):
        check_samplers(Faulty(stuck=True))


def test_words_without_randomness_are_refused():
    class Counting(SeededStream):
        def words(self, count, *purpose):
            return np.arange(count, dtype=np.uint64)

    with pytest.raises(DisclosureError, match="keyed stream"):
        check_samplers(Counting(1))


@pytest.mark.parametrize("probability", [0.001, 0.0625, 0.268, 0.5, 0.97])
@pytest.mark.parametrize("draws", [40, 2_000, 30_000])
def test_the_false_alarm_bound_holds(draws, probability):
    """The exact probability of n KL > t is at most 2 exp(-t), for thresholds from loose to the one in use."""
    observed = np.arange(draws + 1)
    exact = binom.pmf(observed, draws, probability)
    surprise = np.array(
        [Tally(sampler="", event="", observed=int(x), draws=draws, probability=probability).surprise for x in observed]
    )
    for level in (0.5, 1, 3, 10, health.TOO_SURPRISING):
        assert exact[surprise > level].sum() <= 2 * math.exp(-level)
    assert health.MOST_EVENTS * 2 * math.exp(-health.TOO_SURPRISING) <= health.FALSE_ALARM * (1 + 1e-12)
    below = surprise[observed < draws * probability]
    assert all(first > second for first, second in pairwise(below))  # the event "too surprising" is a tail


@pytest.fixture
def unchecked(monkeypatch):
    """A process that has not looked yet, with the fault of the early OpenDP in the secure samplers."""
    sound = SecureStream.discrete_laplace
    faulty = Faulty(biased=True)
    monkeypatch.setattr(health, "_passed", threading.Event())
    monkeypatch.setattr(SecureStream, "discrete_laplace", lambda _, scale, size: faulty.discrete_laplace(scale, size))
    return lambda: monkeypatch.setattr(SecureStream, "discrete_laplace", sound)


@pytest.fixture
def ledger(tmp_path):
    made = us.Ledger.create(tmp_path / "budget.db")
    made.create_account("people", unit="replace", limit=us.PureDP(epsilon=1))
    return made


def test_a_run_is_refused_before_the_charge_and_leaves_nothing(tmp_path, ledger, unchecked):
    source = us.open_source(ROWS, SCHEMA)
    asked = {"budget": HALF, "out": tmp_path / "release", "ledger": ledger.path, "account": "people"}
    for _ in range(2):  # a refusal is not remembered as a pass
        with pytest.raises(DisclosureError, match="does not follow its law"):
            us.synthesize(source, **asked)
    assert ledger.account("people").spent["epsilon"] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["budget.db"]
    unchecked()
    us.synthesize(source, **asked)
    assert ledger.account("people").spent["epsilon"] == HALF.epsilon


def test_a_test_stream_is_exempt(unchecked):
    with pytest.warns(UntrackedWarning):
        release = us.synthesize(us.open_source(ROWS, SCHEMA), budget=HALF, stream=SeededStream(1))
    assert isinstance(release.statement.guarantee, us.NonPrivate)


def test_a_resumed_run_is_refused_and_kept(tmp_path, ledger, monkeypatch):
    source = us.open_source(ROWS, SCHEMA)
    with monkeypatch.context() as broken:
        broken.setattr(Gate, "measure", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            us.synthesize(source, budget=HALF, out=tmp_path / "release", ledger=ledger.path, account="people")
    (folder,) = tmp_path.glob("*.partial-*")
    faulty = Faulty(biased=True)
    with monkeypatch.context() as broken:
        broken.setattr(health, "_passed", threading.Event())
        broken.setattr(SecureStream, "discrete_laplace", lambda _, scale, size: faulty.discrete_laplace(scale, size))
        with pytest.raises(DisclosureError, match="does not follow its law"):
            us.resume(folder, source=ROWS)
        assert folder.is_dir()
    assert us.resume(folder, source=ROWS).frame().num_rows == ROWS.num_rows


def test_a_process_looks_once(monkeypatch):
    looked = []
    monkeypatch.setattr(health, "_passed", threading.Event())
    monkeypatch.setattr(health, "check_samplers", looked.append)
    for _ in range(3):
        health.require_healthy_samplers()
    assert len(looked) == 1
    assert isinstance(looked[0], SecureStream)
