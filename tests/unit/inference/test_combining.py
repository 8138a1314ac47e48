"""Combining rules: their formulas, that each covers on the data it is for, and that wrong ones are refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from understudy.errors import InputError, UnknownNameError, UnsupportedError
from understudy.inference.combining import combine, coverage_of_rule, wald_test

Q, V = np.array([0.5, 0.6, 0.7]), np.array([0.001, 0.002, 0.003])  # mean .6, v .002, b .01


def test_variances_and_degrees_of_freedom():
    fully = combine(Q, V, rule="T_f")
    assert float(fully.variance) == pytest.approx(4 / 3 * 0.01 - 0.002)
    assert float(fully.freedom) == pytest.approx(2 * (1 - 0.002 / (4 / 3 * 0.01)) ** 2)
    assert float(combine(Q, V, rule="T_f*", kappa=1).variance) == pytest.approx(4 / 3 * 0.01 - 0.002)
    partly = combine(Q, V, rule="T_p")
    assert float(partly.variance) == pytest.approx(0.01 / 3 + 0.002)
    assert float(partly.freedom) == pytest.approx(2 * (1 + 0.002 * 3 / 0.01) ** 2)
    assert float(combine(Q, V, rule="T_s", kappa=2).variance) == pytest.approx(0.002 * (2 + 1 / 3))
    assert float(combine(Q, V, rule="T_s_posterior", kappa=2).variance) == pytest.approx(0.002 * (2 + 3 / 3))
    assert np.isinf(combine(Q, V, rule="T_f", freedom="normal").freedom)


def test_interval_uses_t_or_the_normal():
    low, high = combine(Q, V, rule="T_s", kappa=1).interval()
    assert float(high - low) / 2 == pytest.approx(1.959964 * np.sqrt(0.002 * (1 + 1 / 3)), rel=1e-6)
    low, high = combine(Q, V, rule="T_p").interval()
    assert float(high - low) / 2 > 1.96 * np.sqrt(0.01 / 3 + 0.002)


def test_where_tables_agree_too_well_t_f_says_nothing_and_t_f_star_something():
    with pytest.raises(UnsupportedError, match="not positive"):
        combine([0.5, 0.5], [0.01, 0.01], rule="T_f")
    assert float(combine([0.5, 0.5], [0.01, 0.01], rule="T_f*", kappa=0.5).variance) == pytest.approx(0.005)


def test_one_table_is_enough_for_t_s_only():
    assert float(combine([0.5], [0.01], rule="T_s", kappa=1).variance) == pytest.approx(0.02)
    with pytest.raises(InputError, match="two synthetic tables"):
        combine([0.5], [0.01], rule="T_p")


@pytest.mark.parametrize(
    ("rule", "copies", "posterior"),
    [("T_s", 1, False), ("T_s", 5, False), ("T_s_posterior", 1, True), ("T_s_posterior", 5, True)],
)
def test_each_rule_covers_on_the_data_it_is_for(rule, copies, posterior):
    """95 percent within 1.5 points; a two-sided test at 1e-5 would pass at 95 and reject 92."""
    covered = coverage_of_rule(
        rule, share=0.3, records=1000, rows=1000, copies=copies, posterior=posterior, runs=20_000,
        rng=np.random.default_rng(1),
    )  # fmt: skip
    assert binomtest(round(covered * 20_000), 20_000, 0.95).pvalue > 1e-5 or abs(covered - 0.95) < 0.006
    assert abs(covered - 0.95) < 0.015


def test_plug_in_degrees_of_freedom_over_cover():
    """Measured: T_f* with its published degrees of freedom covers more than it says, from five tables on."""
    settings = {"share": 0.3, "records": 1000, "rows": 1000, "copies": 5, "runs": 20_000}
    assert coverage_of_rule("T_f*", **settings, rng=np.random.default_rng(2)) > 0.965


@pytest.mark.parametrize("rule", ["T_f*", "T_p", "T_s"])
def test_no_rule_covers_on_private_tables(rule):
    alpha = 1000 / np.expm1(1.0)
    covered = coverage_of_rule(
        rule, share=0.25, records=1000, rows=1000, copies=2, alpha=(alpha, alpha), rng=np.random.default_rng(3)
    )
    assert covered < 0.7


def test_rubin_is_always_refused_with_the_reason():
    with pytest.raises(UnsupportedError, match="missing data"):
        combine(Q, V, rule="rubin")


def test_wald_tests_have_their_level_and_power():
    """Simple synthesis of three quantities: rejections at 5 percent under the null, and of a wrong null."""
    rng = np.random.default_rng(4)
    n, m, truth = 400, 3, np.array([0.2, -0.1, 0.4])
    right = wrong = 0
    for _ in range(600):
        centre = truth + rng.normal(0, 1 / np.sqrt(n), 3)
        estimates = centre + rng.normal(0, 1 / np.sqrt(n), (m, 3))
        covariances = np.broadcast_to(np.eye(3) / n, (m, 3, 3))
        right += wald_test(estimates, covariances, truth, rule="T_s", kappa=1.0).p_value < 0.05
        wrong += wald_test(estimates, covariances, truth + 0.2, rule="T_s", kappa=1.0).p_value < 0.05
    assert 8 <= right <= 60  # 30 expected; both ends beyond 1e-5
    assert wrong > 500


def test_wald_test_of_one_quantity_is_its_interval():
    one = wald_test(Q[:, None], V[:, None, None], [0.5], rule="T_p")
    assert one.statistic == pytest.approx((0.1) ** 2 / (0.002 * (1 + 0.01 / 0.002 / 3)))
    assert one.numerator == 1
    assert 0 < one.p_value < 1
    fully = wald_test(Q[:, None], V[:, None, None], [0.6], rule="T_f")
    assert fully.p_value == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: combine(Q, V, rule="T_q"), UnknownNameError),
        (lambda: combine(Q, V, rule="T_s"), InputError),
        (lambda: combine(Q, -V, rule="T_p"), InputError),
        (lambda: combine(Q, V[:2], rule="T_p"), InputError),
        (lambda: combine(Q, V, rule="T_p", freedom="some"), UnknownNameError),
        (lambda: combine(Q, V, rule="T_p").interval(1.0), InputError),
        (lambda: wald_test(Q, V, [0.5], rule="T_p"), InputError),
    ],
)
def test_bad_input(call, error):
    with pytest.raises(error):
        call()
