"""Propensity scores: measures against scipy, nulls by simulation, and attributes that give themselves away.

Simulations average many pairs of tables; bounds are wider than five standard errors of the mean, with fixed seeds.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import ks_2samp, mannwhitneyu

import understudy as us
from understudy.evaluation.inputs.comparison import compare
from understudy.evaluation.measures.propensity import CLASSIFIERS, _permuted, score_measures
from understudy.evaluation.utility import evaluate_utility


def utility_of(release, source, *, families=None, **settings):
    return evaluate_utility(compare(release, source, **settings), families=families)


def test_measures_of_scores_agree_with_scipy():
    rng = np.random.default_rng(3)
    scores = np.round(rng.random(300), 2)  # with ties
    synthetic = rng.random(300) < 0.3 + 0.3 * scores
    found = score_measures(scores, synthetic)
    assert found["specks"] == pytest.approx(ks_2samp(scores[synthetic], scores[~synthetic]).statistic)
    u = mannwhitneyu(scores[synthetic], scores[~synthetic], method="asymptotic").statistic
    assert found["mann_whitney"] == pytest.approx(u)
    assert found["auc"] == pytest.approx(u / (synthetic.sum() * (~synthetic).sum()))
    assert found["pmse"] == pytest.approx(np.mean((scores - synthetic.mean()) ** 2))


def two_attributes(rows, seed):
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 4, rows)
    second = np.where(rng.random(rows) < 0.5, first, rng.integers(0, 4, rows))
    return pa.table({"first": pa.array(first), "second": pa.array(second)})


SCHEMA = us.Schema(
    attributes=(us.Attribute(name="first", levels=(0, 1, 2, 3)), us.Attribute(name="second", levels=(0, 1, 2, 3)))
)


@pytest.mark.parametrize("k", [600, 200])
def test_nulls_are_what_a_correct_model_gives(k):
    """Bootstrap copies of one original: the mean S_pMSE is 1, by formula (logit) and by permutation (CART)."""
    original = two_attributes(600, 1)
    source = us.open_source(original, SCHEMA)
    ratios: dict[str, list[float]] = {"logit": [], "CART": []}
    for seed in range(40):
        rng = np.random.default_rng(100 + seed)
        copy = original.take(pa.array(rng.integers(0, 600, k)))
        comparison = compare(us.wrap(copy, SCHEMA), source)
        labels = np.repeat([False, True], [600, k])
        c = k / (600 + k)
        scored = CLASSIFIERS["logit"](comparison, comparison.original, comparison.copies[0], None)
        expected = scored.coefficients * c * (1 - c) ** 2 / (600 + k)
        ratios["logit"].append(score_measures(scored.scores, labels)["pmse"] / expected)
        assert scored.coefficients == 15  # saturated: 16 cells
        tree = CLASSIFIERS["CART"]
        fits = [tree(comparison, comparison.original, comparison.copies[0], number) for number in (None, *range(5))]
        orders = [labels, *(_permuted(labels, number) for number in range(5))]
        first, *null = (score_measures(fit.scores, order)["pmse"] for fit, order in zip(fits, orders, strict=True))
        ratios["CART"].append(first / ((1 - c) * np.mean(null)))
    # S_pMSE of 15 degrees of freedom has standard deviation sqrt(2/15) = 0.37, of the mean of 40 0.06.
    assert np.mean(ratios["logit"]) == pytest.approx(1, abs=0.3)
    assert np.mean(ratios["CART"]) == pytest.approx(1, abs=0.35)


def test_the_saturated_logit_is_the_table():
    """With every interaction of two attributes the logit's pMSE is that of the two-way table."""
    original, copy = two_attributes(600, 1), two_attributes(400, 2)
    found = utility_of(us.wrap(copy, SCHEMA), us.open_source(original, SCHEMA), families=("margins", "propensity"))
    table = next(row for row in found.frames["tables"].to_pylist() if row["way"] == 2)
    logit = next(row for row in found.frames["propensity"].to_pylist() if row["classifier"] == "logit")
    for name in ("pmse", "s_pmse", "specks", "auc"):
        assert logit[name] == pytest.approx(table[name], rel=1e-6), name


def test_what_gives_synthetic_rows_away():
    original = two_attributes(800, 1)
    original = original.set_column(1, "second", two_attributes(800, 9)["second"])  # no dependence that could be lost
    copy = original.set_column(0, "first", pa.array(np.random.default_rng(2).choice(4, 800, p=[0.6, 0.2, 0.1, 0.1])))
    found = utility_of(us.wrap(copy, SCHEMA), us.open_source(original, SCHEMA), families=("propensity",))
    rows = found.frames["giveaways"].to_pylist()
    assert rows[0]["attribute"] == "first"
    assert rows[0]["excess"] > 3 * abs(rows[1]["excess"])


def test_a_wide_schema_leaves_the_interactions_out_and_says_so():
    attributes = tuple(us.Attribute(name=f"a{i}", levels=tuple(range(12))) for i in range(8))
    schema = us.Schema(attributes=attributes)
    rng = np.random.default_rng(5)
    tables = [pa.table({a.name: rng.integers(0, 12, 1500) for a in attributes}) for _ in range(2)]
    found = utility_of(
        us.wrap(tables[0], schema), us.open_source(tables[1], schema), families=("propensity",), permutations=2
    )
    logit = next(row for row in found.frames["propensity"].to_pylist() if row["classifier"] == "logit")
    assert logit["form"].startswith("main effects only")
    short = [table.slice(0, 200) for table in tables]
    found = utility_of(
        us.wrap(short[0], schema), us.open_source(short[1], schema), families=("propensity",), permutations=2
    )
    assert [(row["what"], "coefficients" in row["reason"]) for row in found.frames["omissions"].to_pylist()] == [
        ("logit", True)
    ]
