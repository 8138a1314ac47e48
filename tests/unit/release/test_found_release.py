"""A schema that leaves bins open, from the plan to an answer: found inside the budget, said, and found again."""

from __future__ import annotations

import dataclasses
import json
import warnings

import numpy as np
import pandas as pd
import pytest

import understudy as us
from understudy.errors import UnsupportedError
from understudy.privacy.promise.accountant import compose, satisfies
from understudy.privacy.promise.plan import plan_from_json
from understudy.privacy.randomness.streams import SeededStream
from understudy.release.table_checks import found_again

SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="income", bounds=(0, 500_000), heavy_tail=True, measured_in="euro a year", missing=True),
        us.Attribute(name="age", bounds=(0, 110), integer=True),
    ),
    impossible=(us.Impossible(conditions=(("age", us.Condition(below=16)), ("income", us.Condition(above=1000)))),),
)
BUDGETS = (us.ApproxDP(epsilon=2, delta="1e-6"), us.PureDP(epsilon=2), us.ZCDP(rho="0.2"))


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(5)
    age = rng.integers(0, 100, 8000)
    income = np.where(age < 16, 0.0, np.exp(rng.normal(9 + age / 100, 0.6, 8000)).round(2))
    income[rng.random(8000) < 0.05] = np.nan
    return pd.DataFrame({"sex": rng.choice(["F", "M"], 8000), "income": income, "age": age})


@pytest.fixture(scope="module")
def folder(people, tmp_path_factory):
    out = tmp_path_factory.mktemp("found") / "release"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        us.synthesize(
            people, schema=SCHEMA, budget=BUDGETS[0], method="ipf", margins="sex, income+age", out=out,
            stream=SeededStream(7),
        )  # fmt: skip
    return out


@pytest.mark.full
@pytest.mark.parametrize("method", ["auto", "histogram", "one_look"])
@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.name)
@pytest.mark.parametrize("unit", ["replace", "add_remove"])
def test_finding_and_the_method_keep_one_budget(method, budget, unit):
    plan = us.plan(SCHEMA, method=method, budget=budget, unit=unit, rows=None if unit == "replace" else 8000)
    assert plan.finding == 6  # three levels of each
    assert satisfies(compose(plan.events, plan.unit, by=plan.by), budget)
    assert plan_from_json(json.loads(json.dumps(plan.to_json()))).hash == plan.hash


def test_few_tables_go_without_delta_where_that_leaves_less_noise(people, tmp_path):
    """A pure plan keeps an approximate guarantee too. With many tables noise by delta is smaller, and is taken."""
    two = us.Schema(attributes=(SCHEMA["sex"], SCHEMA["age"]))
    many = us.Schema(attributes=(*two.attributes, *(us.Attribute(name=f"x{n}", levels=tuple("abc")) for n in range(9))))
    budget, settings = us.ApproxDP(epsilon=1, delta="1e-9"), {"unit": "replace", "records": 8000}
    few, pure = (us.plan(two, budget=one, **settings) for one in (budget, us.PureDP(epsilon=1)))
    assert [step.standard_deviation for step in few.steps] == [step.standard_deviation for step in pure.steps]
    assert few.budget == budget
    assert any("No delta is used" in note for note in few.notes)
    assert us.plan(many, budget=budget, **settings).left.name != "pure"
    with warnings.catch_warnings(action="ignore"):
        us.synthesize(people[["sex", "age"]], schema=two, plan=few, out=tmp_path / "release")
    assert all(check.passed for check in us.verify(tmp_path / "release"))


def test_what_was_found_is_said_and_found_again(folder):
    release = us.read_release(folder)
    assert release.schema["income"].found
    assert not release.schema.open
    assert release.schema.declared.fingerprint == SCHEMA.fingerprint
    assert 16 in release.schema["age"].edges
    assert any("income (euro a year) has" in note for note in release.provenance.notes)
    assert all(check.passed for check in us.verify(folder))


def test_verify_refuses_bins_that_were_not_found(folder):
    release = us.read_release(folder)
    finding = tuple(dataclasses.replace(one, values=one.values[::-1]) for one in release.finding)
    changed = dataclasses.replace(release, finding=finding)
    assert "follow" in found_again(release)
    with pytest.raises(us.errors.InputError, match="not those that follow"):
        found_again(changed)


def test_amounts_are_right_and_rules_are_kept(folder, people):
    made = us.read_release(folder).to_pandas()
    assert made.income.mean() == pytest.approx(people.income.mean(), rel=0.05)
    assert made.income.quantile(0.99) == pytest.approx(people.income.quantile(0.99), rel=0.2)
    assert (made.income == 0).mean() == pytest.approx((people.income == 0).mean(), abs=0.02)
    assert not ((made.age < 16) & (made.income > 1000)).any()
    assert np.allclose(made.income.dropna(), made.income.dropna().round(2))


def test_everything_else_reads_the_bins_that_were_found(folder, people):
    release = us.read_release(folder)
    answer = us.infer(release, "mean(income)")
    assert answer.low < people.income.mean() < answer.high
    more = us.sample(release, rows=500)
    assert more.to_pandas().income.max() <= 500_000
    assert release.frame(1).num_rows == len(people)


def test_posterior_draws_and_copies_go_with_bounds(people):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = us.synthesize(
            people[["sex", "age"]], schema=us.Schema(attributes=(SCHEMA["sex"], SCHEMA["age"])), budget=BUDGETS[0],
            method="ipf", copies=2, draws="posterior",
        )  # fmt: skip
    assert release.copies == 2
    assert release.schema["age"].found


@pytest.mark.parametrize(
    ("budget", "unit", "said"),
    [
        (us.ProbabilisticDP(epsilon=1, delta="1e-6"), us.Unit(), "can be divided"),
        (us.NonPrivate(), us.Unit(), "can be divided"),
        (us.PureDP(epsilon=1), us.Unit(fixed=("income",)), "is fixed"),
    ],
)
def test_what_cannot_be_found_is_refused_by_the_plan(budget, unit, said):
    with pytest.raises(us.errors.UnderstudyError, match=said):
        us.plan(SCHEMA, budget=budget, unit=unit)


def test_a_column_of_nothing_but_missing_values_is_released(people):
    empty = people.assign(income=np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = us.synthesize(empty, schema=SCHEMA, budget=BUDGETS[0], method="independent")
    assert release.to_pandas().income.isna().mean() > 0.9


def test_values_outside_the_bounds_are_an_error_that_costs_nothing(people):
    with pytest.raises(us.errors.UnderstudyError, match="income"):
        us.synthesize(people.assign(income=1e308), schema=SCHEMA, budget=BUDGETS[0])
    with pytest.raises(us.errors.UnderstudyError, match="income"):
        us.synthesize(people.assign(income=np.inf), schema=SCHEMA, budget=BUDGETS[0])


def test_an_engine_that_cannot_count_twice_is_refused_before_the_charge(people, tmp_path):
    inner = us.open_source(people, SCHEMA)

    class Outside:
        """An engine of somebody else: it counts, knows its rows again, and has no ``under``."""

        schema, identify, fingerprint = inner.schema, inner.identify, inner.fingerprint
        count, count_sparse, total = inner.count, inner.count_sparse, inner.total

    ledger, out = tmp_path / "budget.db", tmp_path / "release"
    book = us.Ledger.create(ledger)
    book.create_account("people", unit="replace", limit=us.PureDP(epsilon=2))
    asked = {"method": "ipf", "margins": "sex, income+age", "budget": us.PureDP(epsilon=2)}
    with pytest.raises(UnsupportedError, match=r"Outside has no under\(\)\. Give edges"):
        us.synthesize(Outside(), **asked, ledger=ledger, account="people", out=out)
    assert book.account("people").runs == 0
    assert list(tmp_path.iterdir()) == [ledger]  # no release, and no folder of a run that would wait to be resumed
