"""The mean and the total of a derived sum or difference, from the table of its parts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import understudy as us
from understudy import Attribute, Derived, Schema
from understudy.core.survey_design import Weight

PARTS = (
    Attribute(name="wage", bounds=(0, 5), integer=True, missing=True),
    Attribute(name="rent", bounds=(0, 3), integer=True, special={-8: "refused"}),
    Attribute(name="sex", levels=("F", "M")),
)
TOTALS = (
    Derived(name="income", function="sum", sources=("wage", "rent")),
    Derived(name="gap", function="difference", sources=("wage", "rent")),
)


def people(size=4000):
    rng = np.random.default_rng(5)
    wage = rng.integers(0, 6, size).astype(float)
    rent = np.where(wage > 3, 3, rng.integers(0, 4, size))
    return pd.DataFrame(
        {
            "wage": np.where(rng.random(size) < 0.2, np.nan, wage),
            "rent": np.where(rng.random(size) < 0.1, -8, rent),
            "sex": rng.choice(["F", "M"], size),
        }
    )


def made(schema, frame):
    return us.synthesize(frame, schema=schema, budget=us.PureDP(epsilon=20), method="histogram")


@pytest.fixture(scope="module")
def released():
    frame = people()
    known = frame[frame.wage.notna() & (frame.rent >= 0)]
    return made(Schema(attributes=PARTS, derived=TOTALS), frame), known


@pytest.mark.parametrize(
    ("question", "sign"), [("mean(income)", 1), ("mean(gap)", -1), ("mean(income, where=sex == 'F')", 1)]
)
def test_a_mean_is_that_of_the_rows_in_which_all_parts_are_known(released, question, sign):
    release, known = released
    rows = known[known.sex == "F"] if "sex" in question else known
    total = rows.wage + sign * rows.rent
    answer = us.infer(release, question, rng=np.random.default_rng(1))
    assert answer.validity == "valid"
    assert answer.value == pytest.approx(total.mean(), abs=0.02)
    assert answer.high - answer.low == pytest.approx(3.92 * total.std() / len(total) ** 0.5, rel=0.25)
    if sign > 0:  # the parts by themselves are about other people
        assert abs(known.wage.mean() + sign * known.rent.mean() - answer.value) < 0.1


def test_by_groups_and_in_sum(released):
    release, known = released
    answer = us.infer(release, "mean(income, by=sex)", rng=np.random.default_rng(1))
    true = (known.wage + known.rent).groupby(known.sex).mean()
    assert [one.value for one in answer.estimates] == pytest.approx(true.tolist(), abs=0.03)
    total = us.infer(release, "sum(income)", rng=np.random.default_rng(1))
    assert total.value == pytest.approx((known.wage + known.rent).sum(), rel=0.02)
    assert us.infer(release, "sum(gap)", rng=np.random.default_rng(1)).low < (known.wage - known.rent).sum()


def test_places_inside_bins_are_in_the_interval():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"wage": rng.uniform(0, 100, 3000), "rent": rng.uniform(0, 10, 3000)})
    attributes = (Attribute(name="wage", edges=(0, 50, 100)), Attribute(name="rent", edges=(0, 5, 10)))
    schema = Schema(
        attributes=tuple(Attribute(name=one.name, edges=one.edges, decimals=2) for one in attributes),
        derived=(Derived(name="gap", function="difference", sources=("wage", "rent")),),
    )
    answer = us.infer(made(schema, frame.round(2)), "mean(gap)", rng=np.random.default_rng(1))
    assert answer.validity == "range"
    least = 50 * (frame.wage >= 50).mean() - (5 + 5 * (frame.rent >= 5).mean())
    assert answer.low == pytest.approx(least, abs=2)
    assert answer.high == pytest.approx(least + 55, abs=2)


def test_what_has_no_answer_says_what_has_one(released):
    release, _ = released
    with pytest.raises(us.errors.InputError, match=r"computed from wage, rent .*mean.* sum"):
        us.infer(release, "quantile(income, 0.5)")
    with pytest.raises(us.errors.UnsupportedError, match="cannot be negative"):
        us.infer(release, "mean(gap) / mean(wage)")
    apart = us.synthesize(
        people(), schema=Schema(attributes=PARTS, derived=TOTALS), budget=us.PureDP(epsilon=5), method="independent"
    )
    with pytest.raises(us.errors.UnsupportedError, match="both wage and rent"):
        us.infer(apart, "sum(income)")
    both, answer = people().dropna(), us.infer(apart, "mean(income)")  # a range: how parts go together is not known
    assert answer.validity == "range"
    assert answer.low < (both.wage + both.rent).mean() < answer.high


def test_a_weighted_total_is_refused_with_the_way_out():
    frame = people().assign(w=1.5)
    weight = Weight(column="w", bounds=(1, 4))
    release = made(Schema(attributes=PARTS, derived=TOTALS, weight=weight), frame)
    with pytest.raises(us.errors.UnsupportedError, match="one by one"):
        us.infer(release, "mean(income)")
