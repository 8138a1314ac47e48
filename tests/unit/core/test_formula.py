"""Formulas are read by a grammar; whatever else they hold is refused, and nothing is ever run."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.core.formula import Factor, parse_formula
from understudy.errors import InputError

NAMES = ["age", "sex", "income", "smokes", "odd name", "a.b"]


def terms(text: str) -> list[str]:
    return [":".join(map(str, term)) for term in parse_formula(text, NAMES).terms]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("income ~ age + sex", ["age", "sex"]),
        ("income ~ age*sex", ["age", "sex", "age:sex"]),
        ("income~age:sex + sex + age", ["sex", "age", "age:sex"]),
        (
            "income ~ age * sex * smokes",
            ["age", "sex", "smokes", "age:sex", "age:smokes", "sex:smokes", "age:sex:smokes"],
        ),
        ("income ~ log(age) + C(sex) + square(age)", ["log(age)", "C(sex)", "square(age)"]),
        ("income ~ `odd name` + a.b", ["odd name", "a.b"]),
        ("income ~ 1 + age + age", ["age"]),
        ("income ~ .", ["age", "sex", "smokes", "odd name", "a.b"]),
    ],
)
def test_terms(text, expected):
    assert terms(text) == expected


def test_outcomes():
    formula = parse_formula("sex == 'F' ~ age", NAMES)
    assert (formula.outcome, formula.level) == (Factor(name="sex"), "F")
    assert parse_formula('sex == "a ~ b" ~ age', NAMES).level == "a ~ b"
    assert parse_formula("sex == 3 ~ age", NAMES).level == "3"
    assert parse_formula("log(income) ~ age", NAMES).outcome == Factor(name="income", function="log")
    assert parse_formula("income ~ age*sex", NAMES).names == ("income", "age", "sex")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("income ~ agee", "did you mean 'age'"),
        ("income ~ exp(age)", "function 'exp' is unknown"),
        ("income ~ __import__('os')", "unknown"),
        ("income ~ age.__class__", "unknown"),
        ("income ~ I(age * sex)", "about one attribute"),
        ("income ~ I(__import__('os'))", "about one attribute"),
        ("income ~ I(open(age))", "may use"),
        ("income ~ I(age.real)", "may use"),
        ("income ~ I(age ** 99)", "powers"),
        ("income ~ I(age", "does not end"),
        ("income ~ bs(age)", "df=5"),
        ("income ~ bs(age, df=2)", "df=5"),
        ("income ~ bs(age, knots=[50, 30])", "rising order"),
        ("income ~ C(sex, Sum)", "Treatment"),
        ("income ~ age - sex", "only the intercept"),
        ("income ~ (age + sex)", "where an attribute was expected"),
        ("income ~ age:sex", "needs its main effects"),
        ("income ~ age*age", "names an attribute twice"),
        ("income ~ " + "*".join(["age"] * 900), "900 attributes in one term"),
        ("income ~ " + ":".join(["age", "sex"] * 5), "10 attributes in one term"),
        ("income ~ income", "both the outcome and a predictor"),
        ("income ~", "ends too early"),
        ("income", "ends too early"),
        ("", "ends too early"),
        ("~ age", "where an attribute was expected"),
        ("income ~ 1", "no predictor"),
        ("income ~ age; import os", "cannot be read"),
        ("income ~ age + sex ~ smokes", "expected"),
        ("income ~ log(age + sex)", "expected"),
        ("income ~ age : sex * smokes + age + sex + smokes", "mixes"),
        ("log(income) == 'x' ~ age", "belongs to an attribute"),
    ],
)
def test_what_is_refused(text, says):
    with pytest.raises(InputError, match=says):
        parse_formula(text, NAMES)


@given(st.text(alphabet="agesx ~+:*()`'\".=0-\n", max_size=30))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_or_refused(text):
    try:
        formula = parse_formula(text, ["age", "sex"])
    except InputError:
        return
    assert set(formula.names) <= {"age", "sex"}
