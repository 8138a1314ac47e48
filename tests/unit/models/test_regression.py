"""Regressions against statsmodels, and what cannot be estimated."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

import understudy as us
from understudy.core.formula import parse_formula
from understudy.engines.reading.encode import encode_table
from understudy.errors import InputError
from understudy.models.coded_regression import Rows, fit_linear, fit_logit, independent_columns, make_design

SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="y", levels=("no", "yes"), missing=True),
        us.Attribute(name="pay", edges=(0, 50_000, 1_000_000)),
        us.Attribute(name="age", edges=(0, 30, 60, 100)),
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="edu", levels=("a", "b", "c", "unused")),
    )
)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    rows = 800
    age, sex, edu = rng.uniform(0, 100, rows), rng.choice(["F", "M"], rows), rng.choice(["a", "b", "c"], rows)
    pay = 20_000 + 300 * age + 5_000 * (sex == "M") + rng.normal(0, 9_000, rows)
    chance = 1 / (1 + np.exp(1 - 0.02 * age - (edu == "b")))
    y = np.where(rng.random(rows) < chance, "yes", "no").astype(object)
    y[:25] = None
    return pd.DataFrame({"y": y, "pay": pay.clip(0, 1e6), "age": age, "sex": sex, "edu": edu})


def fitted(frame, text):
    codes = encode_table(pa.Table.from_pandas(frame, preserve_index=False), SCHEMA)
    formula = parse_formula(text, SCHEMA.names)
    design = make_design(SCHEMA, formula, [codes])
    values = {name: frame[name].to_numpy() for name in ("pay", "age")}
    return design, design.fit(Rows(codes=codes, values=values))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("pay ~ age + sex", "pay ~ age + sex"),
        ("pay ~ age * sex + edu", "pay ~ age + sex + edu + age:sex"),
        ("log(pay) ~ square(age) + C(age)", "np.log(pay) ~ I(age**2) + pd.cut(age, [-1, 29.9999999, 59.9999999, 101])"),
    ],
)
def test_least_squares(frame, ours, theirs):
    kept = frame[frame.pay > 0]
    design, fit = fitted(kept, ours)
    expected = smf.ols(theirs, kept).fit()
    order = [0, *range(1, len(design.labels))]
    assert len(expected.params) == len(order)
    assert np.allclose(sorted(fit.coefficients), sorted(expected.params), rtol=1e-6)
    assert np.allclose(sorted(fit.errors), sorted(expected.bse), rtol=1e-6)
    assert fit.freedom == expected.df_resid


def test_logit(frame):
    design, fit = fitted(frame, "y ~ age + edu")
    kept = frame.dropna()
    expected = smf.glm("I((y == 'yes').astype(int)) ~ age + edu", kept, family=sm.families.Binomial()).fit()
    assert fit.rows == len(kept)
    assert np.allclose(sorted(fit.coefficients), sorted(expected.params), rtol=1e-5)
    assert np.allclose(sorted(fit.errors), sorted(expected.bse), rtol=1e-5)
    assert (fit.converged, fit.separated) == (True, False)
    assert design.labels == ("(intercept)", "age", "edu[b]", "edu[c]")  # nobody has 'unused'


def test_rows_of_codes_alone_are_fitted_by_their_combinations(frame):
    design, fit = fitted(frame, "y ~ edu * sex")
    codes = encode_table(pa.Table.from_pandas(frame, preserve_index=False), SCHEMA)
    ((x, _, weights),) = design.blocks(Rows(codes=codes, values={}))()
    assert len(x) == 12  # 2 outcomes, 3 levels, 2 sexes
    assert weights.sum() == fit.rows == len(frame.dropna())
    grouped = design.fit(Rows(codes=codes, values={}))
    assert np.allclose(grouped.coefficients, fit.coefficients)
    assert np.allclose(grouped.errors, fit.errors)


def test_the_reference_occurs_in_every_table(frame):
    codes = [
        encode_table(pa.Table.from_pandas(part, preserve_index=False), SCHEMA)
        for part in (frame, frame[frame.edu != "a"])
    ]
    design = make_design(SCHEMA, parse_formula("pay ~ edu", SCHEMA.names), codes)
    assert design.labels == ("(intercept)", "edu[a]", "edu[c]")


def test_separation_is_noticed(frame):
    separated = frame.assign(y=np.where(frame.sex == "M", "yes", "no"))
    _, fit = fitted(separated, "y ~ sex + age")
    assert fit.separated


def test_dependent_columns_are_left_out():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(50, 3))
    x = np.column_stack([np.ones(50), x, x[:, 0] + x[:, 1], np.zeros(50)])
    assert independent_columns(x.T @ x).tolist() == [True, True, True, True, False, False]
    y = x @ np.array([1, 2, 3, 4, 0, 0]) + rng.normal(size=50)
    fit = fit_linear(lambda: iter([(x[:20], y[:20], np.ones(20)), (x[20:], y[20:], np.ones(30))]))
    expected = sm.OLS(y, x[:, :4]).fit()
    assert np.allclose(fit.coefficients[:4], expected.params)
    assert np.isnan(fit.coefficients[4:]).all()


def test_weights_are_repeated_rows():
    x = np.column_stack([np.ones(3), [0.0, 1.0, 2.0]])
    share, weight = np.array([0.2, 0.5, 0.75]), np.array([10.0, 20.0, 8.0])
    fit = fit_logit(lambda: iter([(x, share, weight)]))
    expected = sm.GLM(np.column_stack([share * weight, (1 - share) * weight]), x, family=sm.families.Binomial()).fit()
    assert np.allclose(fit.coefficients, expected.params)
    assert np.allclose(fit.errors, expected.bse)


def test_too_few_rows(frame):
    with pytest.raises(InputError, match="needs more than"):
        fitted(frame.iloc[100:102], "pay ~ age + sex")
    with pytest.raises(InputError, match="no row has a value"):
        fitted(frame.iloc[:5], "y ~ age")
