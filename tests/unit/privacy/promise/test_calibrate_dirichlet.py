"""The margin for rounding in a calibrated prior is as large as the rounding can be."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from understudy.privacy.exact.dirichlet_profile import PriorShape, delta, log_weights
from understudy.privacy.promise.calibrate_dirichlet import SAFETY, calibrated_prior, exact_approx_prior, safety
from understudy.privacy.promise.definition import ApproxDP, PureDP, Unit


@pytest.mark.parametrize(("size", "rows"), [(1e6, 10**6), (5e6, 10**6), (0.5, 10**6), (1e3, 10**4), (30.0, 100)])
def test_sums_of_logarithms_are_within_the_margin(size, rows):
    steps = np.arange(rows, dtype=float)
    exact = math.fsum(np.log((size + steps) / (steps + 1)))  # rounds once
    assert 4 * abs(log_weights(size, rows)[rows] - exact) <= safety(rows, size)


def test_the_margin_of_small_tables_would_not_do_for_large_ones():
    steps = np.arange(10**6, dtype=float)
    exact = math.fsum(np.log((5e6 + steps) / (steps + 1)))
    assert 4 * abs(log_weights(5e6, 10**6)[-1] - exact) > SAFETY


def test_a_calibrated_prior_keeps_its_promise_with_the_margin_to_spare():
    rows = 50_000
    prior = exact_approx_prior(1.0, 1e-6, 100, rows, rows)
    found = delta(PriorShape.symmetric(prior, 100, rows), rows, Unit(), 1.0)
    margin = safety(rows, 100 * prior + rows)
    assert 10 * SAFETY < margin < 1e-4
    assert 1e-6 * (1 - margin - 1e-6) < found <= 1e-6 * (1 - margin)


@pytest.mark.parametrize("budget", [PureDP(epsilon=900), ApproxDP(epsilon="1e299", delta="1e-5")])
def test_an_epsilon_whose_exponential_is_no_double_is_calibrated_like_a_smaller_one(budget):
    smaller = replace(budget, epsilon=Fraction(700))
    size = {"records": 40, "rows": 40, "cells": 6, "unit": Unit()}
    assert calibrated_prior(budget, **size) == calibrated_prior(smaller, **size)
