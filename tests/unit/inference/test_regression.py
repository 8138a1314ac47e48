"""Regressions on shares agree with statsmodels on the same rows, family by family."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.core.questions import parse_question
from understudy.errors import UnsupportedError
from understudy.inference.estimands import make_estimand
from understudy.inference.regression import Model

sm = pytest.importorskip("statsmodels.api")


def table(estimand, seed: int = 0) -> np.ndarray:
    """Counts of the groups of a regression, every cell filled."""
    rng = np.random.default_rng(seed)
    return np.concatenate([[0.0, 0.0], rng.integers(3, 60, estimand.parts[0].count - 2)])


def model_of(schema, text: str, **settings):
    estimand = make_estimand(parse_question(text, schema, **settings), schema)
    return estimand, estimand.parts[0].model


@pytest.mark.parametrize(
    ("text", "family"),
    [("age ~ sex + health", "linear"), ("smokes ~ log(age) * sex", "logit"), ("age ~ sex + smokes", "poisson")],
)
def test_one_number_outcomes(text, family, schema):
    estimand, model = model_of(schema, text, family=family)
    counts = table(estimand)[2:]
    kinds = {"linear": sm.families.Gaussian(), "logit": sm.families.Binomial(), "poisson": sm.families.Poisson()}
    peer = sm.GLM(model.outcome, model.design, family=kinds[family], freq_weights=counts).fit(tol=1e-12)
    assert model.fit(counts[None, :])[0] == pytest.approx(peer.params, rel=1e-6, abs=1e-8)
    both = model.fit(np.stack([counts, counts[::-1]]))
    assert both[0] == pytest.approx(peer.params, rel=1e-6, abs=1e-8)


def test_multinomial_outcome(schema):
    estimand, model = model_of(schema, "health ~ age + sex", family="multinomial")
    counts = table(estimand)[2:].astype(int)
    rows = np.repeat(np.arange(len(counts)), counts)
    peer = sm.MNLogit(model.outcome[rows], model.design[rows]).fit(disp=0, method="newton", tol=1e-12)
    assert model.fit(counts[None, :].astype(float))[0] == pytest.approx(np.asarray(peer.params).T.ravel(), abs=1e-6)


def test_ordered_outcome(schema):
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    estimand, model = model_of(schema, "health ~ age + sex", family="ordered")
    counts = table(estimand)[2:].astype(int)
    rows = np.repeat(np.arange(len(counts)), counts)
    scale = np.array([100.0, 1.0])
    peer = OrderedModel(model.outcome[rows], model.design[rows] / scale, distr="logit").fit(
        disp=0, method="bfgs", gtol=1e-10, maxiter=2000
    )
    slopes = np.asarray(peer.params)[:2] / scale
    cuts = peer.model.transform_threshold_params(peer.params)[1:-1]
    assert model.fit(counts[None, :].astype(float))[0] == pytest.approx([*slopes, *cuts], abs=2e-5)


def test_categories_of_bins_and_interactions_have_their_columns(schema):
    _, model = model_of(schema, "smokes ~ C(age) + sex")
    assert model.columns == ("(intercept)", "age[[28,42)]", "age[[42,54)]", "age[[54,64)]", "age[[64,97]]", "sex[M]")
    _, model = model_of(schema, "age ~ sex * health")
    assert model.columns[-2:] == ("sex[M]:health[fair]", "sex[M]:health[good]")


def test_separation_is_refused(schema):
    estimand, model = model_of(schema, "smokes ~ sex")
    counts = table(estimand)[2:]
    men_who_do_not = (model.design[:, 1] == 1) & (model.outcome == 0)
    model.check(counts)
    with pytest.raises(UnsupportedError, match="separation"):
        model.check(np.where(men_who_do_not, 0, counts))


def test_a_level_nobody_has_is_refused_by_name(schema):
    estimand, model = model_of(schema, "age ~ health")
    counts = table(estimand)[2:]
    with pytest.raises(UnsupportedError, match=r"health\[fair\]"):
        model.check(np.where(model.design[:, 1] == 1, 0.2, counts))


def test_terms_that_cannot_be_told_apart_are_refused(schema):
    estimand, model = model_of(schema, "age ~ sex + health")
    counts = table(estimand)[2:]
    same = (model.design[:, 1] == 1) == (model.design[:, 3] == 1)
    with pytest.raises(UnsupportedError, match=r"told apart|applies to no one"):
        model.check(np.where(same & (model.design[:, 2] == 0), counts, 0))


def test_an_outcome_that_never_has_a_level_is_refused(schema):
    estimand, model = model_of(schema, "health ~ sex", family="multinomial")
    with pytest.raises(UnsupportedError, match="never 'good'"):
        model.check(np.where(np.asarray(model.outcome) == 2, 0, table(estimand)[2:]))


def test_draws_of_many_levels_end_where_single_fits_do_and_have_no_score_left():
    """Draws that have arrived are left alone."""
    rng = np.random.default_rng(3)
    design = np.array([[1.0, a, b] for a in (0, 1) for b in (0, 1, 2) for _ in range(4)])
    outcome = np.tile(np.arange(4), 6)
    names = tuple(str(place) for place in range(9))
    model = Model(
        family="multinomial", names=names, design=design, outcome=outcome, columns=("i", "a", "b"), levels=tuple("pqrs")
    )
    tables = rng.dirichlet(np.full(24, 5.0), size=30)
    together = model.fit(tables)
    assert together == pytest.approx(np.concatenate([model.fit(row[None, :]) for row in tables]), abs=1e-6)
    left = model.residuals(together) * tables[:, :, None]
    assert np.abs(np.einsum("scl,cq->slq", left, design)).max() < 1e-7


def test_a_regression_that_would_take_minutes_is_refused_before_anything_is_drawn():
    levels = np.array([f"v{code}" for code in range(12)])
    sizes = {"a": 11, "b": 12, "c": 3}  # 140 coefficients: a fit of several levels takes more steps than others
    schema = us.Schema(
        attributes=tuple(us.Attribute(name=name, levels=tuple(levels[:size].tolist())) for name, size in sizes.items())
    )
    rng = np.random.default_rng(1)
    table = pa.table({name: levels[rng.integers(0, size, 200)] for name, size in sizes.items()})
    with warnings.catch_warnings(action="ignore"):
        release = us.synthesize(us.open_source(table, schema), method="histogram", budget=us.PureDP(epsilon=5))
    with pytest.raises(UnsupportedError, match="coefficients over so many cells"):
        us.infer(release, "a ~ b + c", family="multinomial")


def test_a_level_that_nearly_nobody_has_does_not_hold_the_other_coefficients_in_one_place():
    """Draws that began at a nearly separated fit never moved: intervals had no width."""
    design = np.array([[1.0, a] for a in (0, 1) for _ in range(3)])
    names = tuple(str(place) for place in range(4))
    model = Model(
        family="multinomial", names=names, design=design, outcome=np.tile(np.arange(3), 2), columns=("i", "a"),
        levels=tuple("pqr"),
    )  # fmt: skip
    tables = np.random.default_rng(3).dirichlet([40, 30, 20, 40, 30, 1e-9], size=50)
    spread = model.fit(tables).std(axis=0)
    assert spread[:2].min() > 0.05


def test_the_reach_of_a_linear_regression_is_that_of_every_corner_of_the_bins():
    """Brute force: coefficients are linear in the outcomes, so their extremes are at ends of bins."""
    rng = np.random.default_rng(4)
    group, bin_ = (each.ravel() for each in np.indices((3, 3)))
    design = np.column_stack([np.ones(9), group == 1, group == 2]).astype(float)
    least, most = np.array([0.0, 10.0, 40.0])[bin_], np.array([9.0, 39.0, 200.0])[bin_]
    model = Model(family="linear", names=("a", "b", "c"), design=design, outcome=least, columns=("a", "b", "c"))
    weights = rng.dirichlet(np.ones(9), 4)
    low, high = model.reach(weights, least, most)
    corners = np.array(list(product((0, 1), repeat=9)), bool)
    for row, lowest, highest in zip(weights, low, high, strict=True):
        found = [
            np.linalg.lstsq(design * np.sqrt(row)[:, None], np.where(at, most, least) * np.sqrt(row), rcond=None)[0]
            for at in corners
        ]
        assert lowest == pytest.approx(np.min(found, axis=0))
        assert highest == pytest.approx(np.max(found, axis=0))
