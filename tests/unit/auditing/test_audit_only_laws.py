"""Throwing draws away: what is good, what the lemma promises, and how the naive form fails."""

from __future__ import annotations

import math

import numpy as np
import pytest

import understudy as us
from understudy.auditing.audit_only_laws import AcceptReject
from understudy.errors import InputError, UnsupportedError
from understudy.privacy.exact.small_tables import tables_of
from understudy.privacy.promise.event import NoNoise, Sensitivity
from understudy.privacy.randomness.streams import SeededStream


def make(cells=3, rows=4, prior=1.0, gamma=1.5, keep="good"):
    generator = us.DirichletMultinomial(prior=prior, cells=cells, rows=rows)
    return AcceptReject(generator=generator, gamma=gamma, keep=keep)


def test_representative_and_good_by_hand():
    mechanism = make(cells=2, rows=2, prior=1.0, gamma=1.0)
    outputs = tables_of(2, 2)  # (0,2) (1,1) (2,0)
    # limits of (1, 1): one each. With a row moved, (2, 0): two and one.
    assert mechanism.representative(outputs, np.array([1, 1])).tolist() == [False, True, False]
    assert mechanism.good(outputs, np.array([1, 1])).tolist() == [True, True, True]
    assert mechanism.representative(outputs, np.array([0, 2])).tolist() == [True, True, False]
    assert mechanism.good(outputs, np.array([0, 2])).tolist() == [True, True, False]


CASES = [
    (3, 4, 4, 1.0, 1.5),
    (3, 4, 4, 1.0, 2.5),
    (2, 5, 5, 0.5, 3.0),
    (3, 3, 3, 0.7, 3.0),
    (4, 3, 3, 1.0, 2.0),
    (3, 5, 2, 0.4, 4.0),
]


@pytest.mark.parametrize(("cells", "records", "rows", "prior", "gamma"), CASES)
def test_lemma_5_2_with_the_derived_epsilon(cells, records, rows, prior, gamma):
    mechanism = make(cells, rows, prior, gamma)
    epsilon, p = mechanism.lemma(tables_of(records, cells))
    assert epsilon == pytest.approx(math.log((gamma + 1) / (1 - p)))
    assert us.audit(mechanism, records=records).breach_probability(epsilon) <= p + 1e-12


def test_without_the_division_the_lemma_is_false():
    mechanism = make(3, 4, 1.0, 1.5)
    _, p = mechanism.lemma(tables_of(4, 3))
    breach = us.audit(mechanism, records=4).breach_probability(math.log(2.5))
    assert p == pytest.approx(0.695, abs=5e-4)
    assert breach == pytest.approx(0.874, abs=5e-4)
    assert breach > p


def test_the_naive_form_breaks_differential_privacy():
    naive = us.audit(make(keep="rep"), records=4)
    assert math.isinf(naive.epsilon)
    law = naive.matrix[:, naive.outputs.index(naive.witness.output)]
    assert law[naive.inputs.index(naive.witness.likely)] > 0 == law[naive.inputs.index(naive.witness.unlikely)]
    epsilon, p = naive.mechanism.lemma(tables_of(4, 3))
    assert np.abs(naive.matrix.sum(axis=1) - 1).max() < 1e-12
    assert naive.breach_probability(epsilon) > p  # not even the probabilistic promise survives
    with pytest.raises(UnsupportedError, match="breaks"):
        naive.mechanism.run(np.array([1, 1, 2]), SeededStream(1))


def test_a_draw_is_good_and_says_nothing_of_the_tries():
    mechanism = make(prior=1.0, gamma=1.5)
    table = np.array([0, 1, 3])
    stream = SeededStream(3)
    for _ in range(30):
        drawn = mechanism.run(table, stream)
        assert isinstance(drawn, np.ndarray)
        assert drawn.shape == (3,)
        assert mechanism.good(drawn[None, :], table)[0]
    assert mechanism.event(Sensitivity(l1=2, l2_squared=2, linf=1)) == NoNoise()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make(gamma=0), "gamma"),
        (lambda: make(gamma=math.nan), "finite"),
        (lambda: make(keep="all"), "keep"),
        (lambda: AcceptReject(generator="x", gamma=1), "DirichletMultinomial"),
        (lambda: us.audit(make(gamma=0.1), records=4).epsilon, "so small"),
        (lambda: us.audit(make(), records=4, unit="add_remove").epsilon, "replace"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InputError, match=message):
        call()
