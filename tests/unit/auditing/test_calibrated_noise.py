"""Refusals of noise calibration, and what happens when the certified error is in the way."""

import numpy as np
import pytest

from understudy.auditing import calibration as calibrate_noise
from understudy.auditing.calibration import calibrated_noise
from understudy.auditing.transition_matrix import Matrix
from understudy.errors import InputError, UnsupportedError
from understudy.privacy.mechanisms.noise import DiscreteGaussian, Geometric
from understudy.privacy.promise.definition import ZCDP, ApproxDP, ProbabilisticDP, PureDP
from understudy.privacy.randomness.streams import SeededStream


def test_what_cannot_be_calibrated_is_refused_in_words():
    with pytest.raises(InputError, match="no margin"):
        calibrated_noise(Geometric, PureDP(epsilon=1), [])
    with pytest.raises(UnsupportedError, match="never purely"):
        calibrated_noise(DiscreteGaussian, PureDP(epsilon=1), [1])
    with pytest.raises(UnsupportedError, match="use DiscreteGaussian"):
        calibrated_noise(Geometric, ZCDP(rho=1), [1])
    with pytest.raises(UnsupportedError, match="use pure, approx or zcdp"):
        calibrated_noise(Geometric, ProbabilisticDP(epsilon=1, delta="1e-6"), [1])


def test_a_scale_that_is_not_certified_is_enlarged_or_refused(monkeypatch):
    budget = ApproxDP(epsilon=1, delta="1e-3")
    honest = calibrate_noise.composed_delta

    def careful(noise, moved, epsilon):
        return honest(noise, moved, epsilon) if float(noise.scale) > 1.5 else 1.0

    monkeypatch.setattr(calibrate_noise, "composed_delta", careful)
    noise, _ = calibrated_noise(Geometric, budget, [1])
    assert 1.5 <= float(noise.scale) < 1.6
    monkeypatch.setattr(calibrate_noise, "composed_delta", lambda *_: 1.0)
    with pytest.raises(UnsupportedError, match="fewer margins"):
        calibrated_noise(Geometric, budget, [1])


def test_a_matrix_is_for_audits_only():
    matrix = Matrix([[0.75, 0.25], [0.25, 0.75]])
    with pytest.raises(UnsupportedError, match="audit only"):
        matrix.run(np.array([1, 0]), SeededStream(1))
    with pytest.raises(UnsupportedError, match="its law in P"):
        matrix.law((1, 0))
    assert matrix.to_json()["P"] == [[0.75, 0.25], [0.25, 0.75]]
    with pytest.raises(InputError, match="name each of them once"):
        Matrix([[1.0, 0.0]], outputs=[(1,), (1,)])
