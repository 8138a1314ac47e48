"""Table measures: values worked out elsewhere, identities, null means by simulation, and what is refused.

Statistical bounds are on means of many tables; each is wider than six standard errors (false alarm < 1e-8), and the
same simulation rejects a table that is really different.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import ks_2samp, mannwhitneyu

from understudy.errors import InputError
from understudy.evaluation.shared import table_measures as tables

COUNTS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=2, max_size=30).filter(
    lambda pairs: sum(d for d, _ in pairs) > 0 and sum(s for _, s in pairs) > 0
)
FUNCTIONS = {
    name: getattr(tables, name)
    for name in (
        "s_pmse", "pmse", "voas_williamson", "freeman_tukey", "g", "jsd", "tvd", "mabsdd", "wmabsdd", "bhattacharyya",
        "po50", "specks", "mann_whitney",
    )
}  # fmt: skip


def rows_of(original, synthetic):
    """Propensity of every row, original first: the table as a classifier sees it."""
    d, s = np.ravel(original), np.ravel(synthetic)
    score = s / np.maximum(s + d, 1)
    return np.repeat(score, d), np.repeat(score, s)


def test_values_worked_out_by_hand():
    d, s = [10, 20, 30, 0], [30, 60, 20, 10]  # n = 60, k = 120, c = 2/3
    difference = np.array([10, 20, -40, 10])
    expected = np.array([80, 160, 100, 20]) / 3
    vw = float(np.sum(difference**2 / expected))
    assert tables.voas_williamson(d, s) == pytest.approx(vw)
    assert tables.degrees_of_freedom(d, s) == 3
    assert tables.s_pmse(d, s) == pytest.approx(vw / 3)
    assert tables.freeman_tukey(d, s) == pytest.approx(
        4 * ((30**0.5 - 20**0.5) ** 2 + (60**0.5 - 40**0.5) ** 2 + (20**0.5 - 60**0.5) ** 2 + 10)
    )
    assert tables.g(d, s) == pytest.approx(2 * (30 * math.log(1.5) + 60 * math.log(1.5) + 20 * math.log(1 / 3)))
    assert tables.tvd(d, s) == pytest.approx(1 / 12 + 1 / 6 + 1 / 12)
    assert tables.wmabsdd(d, s) == pytest.approx(
        float(np.sum(abs(difference) / expected**0.5)) / math.sqrt(2 / math.pi)
    )
    assert tables.po50(d, s) == pytest.approx(100 * (30 + 60 + 10 + 30) / 180 - 50)


def test_published_score():
    four, other = np.array([1, 1, 1, 1]), np.array([2, 0, 0, 1])  # {00,01,10,11} against {00,00,11} ...
    assert tables.k_marginal_score([tables.tvd(four, [3, 0, 0, 1])]) == pytest.approx(500)  # ... and {00,00,00,11}
    assert tables.tvd(four, other) == pytest.approx(0.5 * (5 / 12 + 1 / 4 + 1 / 4 + 1 / 12))


@given(COUNTS)
@settings(max_examples=80, deadline=None)
def test_a_table_is_a_classifier(pairs):
    """pMSE, SPECKS and U are those of the rows' propensity scores, whatever n and k are."""
    d, s = np.array(pairs).T
    original, synthetic = rows_of(d, s)
    c = len(synthetic) / (len(original) + len(synthetic))
    scores = np.concatenate([original, synthetic])
    assert tables.pmse(d, s) == pytest.approx(float(np.mean((scores - c) ** 2)), abs=1e-12)
    assert tables.specks(d, s) == pytest.approx(ks_2samp(original, synthetic).statistic, abs=1e-9)
    u = mannwhitneyu(synthetic, original, method="asymptotic").statistic
    assert tables.mann_whitney(d, s) == pytest.approx(u)
    assert tables.jsd(d, s) == pytest.approx(jensenshannon(d, s, base=2) ** 2, abs=1e-9)


@given(COUNTS, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_order_and_empty_cells_do_not_matter(pairs, random):
    d, s = np.array(pairs).T
    shuffled = list(pairs) + [(0, 0)] * 3
    random.shuffle(shuffled)
    again_d, again_s = np.array(shuffled).T
    for name, measure in FUNCTIONS.items():
        assert measure(d, s) == pytest.approx(measure(again_d, again_s), abs=1e-9), name
        assert measure(d[:, None], s[:, None]) == pytest.approx(measure(d, s), abs=1e-9)


@given(COUNTS)
@settings(max_examples=60, deadline=None)
def test_bounds_and_identities(pairs):
    d, s = np.array(pairs).T
    found = tables.measure_table(d, s)
    assert 0 <= found["jsd"] <= 1 + 1e-12
    assert 0 <= found["tvd"] <= 1
    assert 0 <= found["bhattacharyya"] <= 1
    assert found["mabsdd"] == pytest.approx(2 * found["tvd"])
    assert found["specks"] == found["tvd"]
    assert 0.5 - 1e-12 <= found["auc"] <= 1  # in sample the best classifier of a table is never worse than guessing
    if d.sum() == s.sum():
        assert found["po50"] == pytest.approx(50 * found["tvd"])
        assert found["s_pmse"] == pytest.approx(tables.s_pmse(s, d))
    for name, measure in FUNCTIONS.items():
        assert measure(d, s) == pytest.approx(found[name]), name


@pytest.mark.parametrize("times", [1, 2, 5])
def test_equal_proportions_are_no_distance(times):
    d = np.array([[3, 5], [7, 11]])
    for name in ("s_pmse", "voas_williamson", "freeman_tukey", "g", "jsd", "tvd", "wmabsdd", "bhattacharyya"):
        assert getattr(tables, name)(d, times * d) == pytest.approx(0, abs=1e-7), name


@pytest.mark.parametrize(("n", "k"), [(2000, 2000), (2000, 500), (1000, 5000)])
def test_a_correct_model_scores_one(n, k):
    """Rows drawn from the original proportions: standardised measures are 1 on average, also for k != n."""
    rng = np.random.default_rng(7)
    cells, runs = 20, 1500
    shares = rng.dirichlet(np.full(cells, 8.0))
    original = rng.multinomial(n, shares)
    drawn = rng.multinomial(k, original / n, size=runs)
    found = [tables.measure_table(original, one) for one in drawn]
    # The standard deviation of VW / df is sqrt(2 / 19) = 0.32, of the mean of 1,500 tables 0.0084.
    for name in ("s_pmse", "s_freeman_tukey", "s_g", "s_jsd"):
        assert np.mean([one[name] for one in found]) == pytest.approx(1, abs=0.06), name
    assert np.mean([one["s_wmabsdd"] for one in found]) == pytest.approx(1, abs=0.1)
    other = rng.multinomial(k, rng.dirichlet(np.full(cells, 8.0)), size=20)
    assert min(tables.s_pmse(original, one) for one in other) > 3


def test_the_widely_used_scale_of_the_divergence_is_wrong_for_unequal_sizes():
    rng = np.random.default_rng(8)
    original = rng.multinomial(2000, np.full(20, 0.05))
    drawn = rng.multinomial(500, original / 2000, size=800)
    wrong = np.mean([2 * 2500 / math.log(2) * tables.jsd(original, one) for one in drawn]) / 19
    right = np.mean([tables.measure_table(original, one)["s_jsd"] for one in drawn])
    assert right == pytest.approx(1, abs=0.08)
    assert abs(wrong - 1) > 0.5


def test_a_single_filled_cell_cannot_differ():
    found = tables.measure_table([5, 0], [9, 0])
    assert (found["df"], found["s_pmse"], found["s_g"], found["tvd"]) == (0, 0, 0, 0)


def test_disjoint_tables_are_as_far_as_can_be():
    found = tables.measure_table([5, 0], [0, 5])
    assert (found["tvd"], found["jsd"], found["bhattacharyya"], found["po50"], found["auc"]) == (1, 1, 1, 50, 1)
    assert found["g_cells_left_out"] == 2


@pytest.mark.parametrize(
    ("original", "synthetic", "says"),
    [
        ([1, 2], [1, 2, 3], "shapes"),
        ([1, 2], [0, 0], "synthetic table has no rows"),
        ([0, 0], [1, 0], "original table has no rows"),
        ([1, -1], [1, 1], "at least 0"),
        ([1, math.nan], [1, 1], "finite"),
        (["a", "b"], [1, 1], "numbers"),
    ],
)
def test_what_is_no_pair_of_tables_is_refused(original, synthetic, says):
    for measure in FUNCTIONS.values():
        with pytest.raises(InputError, match=says):
            measure(original, synthetic)
