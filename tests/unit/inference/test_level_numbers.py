"""Levels that are numbers: numbers of children, scores from 1 to 5. Questions take them as the numbers they are."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import understudy as us
from understudy.core.bins import bins_of
from understudy.core.questions import parse_question
from understudy.errors import InputError

SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="children", levels=(0, 1, 2, 5), missing=True),
        us.Attribute(name="age", levels=("17.5", "22.0", "30.0"), ordered=True),
        us.Attribute(name="region", levels=(11, 9, 3)),
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="code", levels=("1", "2")),
    )
)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(5)
    children = pd.Series(rng.choice([0, 1, 2, 5], 5000, p=[0.4, 0.3, 0.2, 0.1])).astype("Int64")
    children[rng.random(5000) < 0.1] = pd.NA
    return pd.DataFrame(
        {
            "children": children,
            "age": rng.choice(["17.5", "22.0", "30.0"], 5000),
            "region": rng.choice([11, 9, 3], 5000),
            "sex": rng.choice(["F", "M"], 5000),
            "code": rng.choice(["1", "2"], 5000),
        }
    )


@pytest.fixture(scope="module")
def release(people):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return us.synthesize(people, schema=SCHEMA, method="ipf", budget=us.PureDP(epsilon=1000), i_know=True)


@pytest.mark.parametrize(
    ("question", "truth"),
    [
        ("mean(children)", lambda d: d.children.mean()),
        ("sum(children)", lambda d: d.children.sum()),
        ("std(children)", lambda d: d.children.std(ddof=0)),
        ("quantile(children, .6)", lambda d: d.children.quantile(0.6)),
        ("mean(age)", lambda d: d.age.astype(float).mean()),
        ("mean(age, where=sex == 'F')", lambda d: d[d.sex == "F"].age.astype(float).mean()),
        ("proportion(children < 2)", lambda d: (d.children.dropna() < 2).mean()),
        ("proportion(children <= 2)", lambda d: (d.children.dropna() <= 2).mean()),
        ("proportion(children > 2)", lambda d: (d.children.dropna() > 2).mean()),
        ("proportion(children >= 1.5)", lambda d: (d.children.dropna() >= 1.5).mean()),
        ("proportion(age > 17.5)", lambda d: (d.age.astype(float) > 17.5).mean()),
        ("proportion(age == 22)", lambda d: (d.age == "22.0").mean()),
        ("correlation(children, age)", lambda d: d.children.astype(float).corr(d.age.astype(float))),
    ],
)
def test_without_much_noise_the_answer_is_that_of_the_data(release, people, question, truth):
    (estimate,) = us.infer(release, question).estimates
    assert estimate.value == pytest.approx(truth(people), rel=4e-3, abs=4e-3)


def test_a_linear_model_of_numbers_that_are_levels_is_that_of_least_squares(release, people):
    answer = us.infer(release, "children ~ sex", family="linear")
    known = people.dropna()
    men, women = (known[known.sex == sex].children.astype(float).mean() for sex in ("M", "F"))
    assert [one.value for one in answer.estimates] == pytest.approx([women, men - women], abs=0.02)


@pytest.mark.parametrize(
    ("formula", "columns"),
    [
        ("sex ~ I(age)", lambda d: [d.age.astype(float)]),
        ("sex ~ log(age) + I(children ** 2)", lambda d: [np.log(d.age.astype(float)), d.children.astype(float) ** 2]),
    ],
)
def test_levels_that_are_numbers_have_slopes_inside_functions(release, people, formula, columns):
    sm = pytest.importorskip("statsmodels.api")
    answer = us.infer(release, formula, event="M", rng=np.random.default_rng(1))
    known = people.dropna() if "children" in formula else people
    design = np.column_stack([np.ones(len(known)), *columns(known)])
    fit = sm.Logit((known.sex == "M").to_numpy(float), design).fit(disp=0)
    assert answer.names[1:] == tuple(formula.split(" ~ ")[1].split(" + "))
    assert [one.value for one in answer.estimates] == pytest.approx(list(fit.params), abs=0.25 * fit.bse.max())
    assert set(answer.labels) <= {"valid", "model-based"}


def test_levels_that_are_numbers_are_categories_by_their_name_alone(release):
    assert len(us.infer(release, "sex ~ age", event="M", draws=200).names) == 3
    with pytest.raises(InputError, match="whole numbers in increasing order"):
        us.infer(release, "sex ~ I(code)", event="M")


@pytest.mark.parametrize("question", ["mean(region)", "mean(sex)", "mean(code)"])
def test_levels_without_an_order_of_numbers_are_no_numbers(question):
    with pytest.raises(InputError, match="has levels, not numbers"):
        parse_question(question, SCHEMA)


def test_a_family_of_numbers_is_never_taken_by_itself():
    assert parse_question("children ~ sex", SCHEMA).atoms[0].kind == "multinomial"


def test_a_level_is_a_bin_of_one_value():
    bins = bins_of(SCHEMA["age"])
    assert bins.of_one_value
    assert bins.means().tolist() == [17.5, 22, 30]
    assert bins.share_below(np.array([[0.2, 0.3, 0.5]]), np.array([22.1])).tolist() == [0.5]
    assert bins_of(SCHEMA["children"]).means(np.square).tolist() == [0, 1, 4, 25]
