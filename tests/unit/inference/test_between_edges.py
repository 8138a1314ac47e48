"""Bounds that are no bin edge: where people lie inside the bin is part of the interval."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import understudy as us
from understudy.core.questions import parse_question
from understudy.errors import InputError

EDGES = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="age", edges=(0, 20, 40, 60, 100), integer=True, missing=True),
    )
)
BOUNDS = us.Schema(attributes=(EDGES["sex"], us.Attribute(name="age", bounds=(0, 100), integer=True, missing=True)))


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(2)
    age = pd.Series(rng.beta(2, 4, 4000) * 100).astype(int).astype("Int64")
    age[rng.random(4000) < 0.1] = pd.NA
    return pd.DataFrame({"sex": rng.choice(["F", "M"], 4000), "age": age})


@pytest.fixture(scope="module", params=["edges", "bounds"])
def release(request, people):
    schema = EDGES if request.param == "edges" else BOUNDS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return us.synthesize(people, schema=schema, method="ipf", budget=us.ApproxDP(epsilon=3, delta="1e-6"))


@pytest.mark.parametrize(
    ("condition", "truth"),
    [
        ("age < 31", lambda frame: frame.age < 31),
        ("age <= 31", lambda frame: frame.age <= 31),
        ("age > 47", lambda frame: frame.age > 47),
        ("not age >= 31", lambda frame: frame.age < 31),
        ("sex == 'F' and 7 <= age < 31", lambda frame: (frame.sex == "F") & (frame.age >= 7) & (frame.age < 31)),
        ("age < 3", lambda frame: frame.age < 3),
        ("age > 98", lambda frame: frame.age > 98),
    ],
)
def test_the_interval_holds_every_place_inside_the_bin(release, people, condition, truth):
    known = people.dropna()
    share, number = truth(known).mean(), truth(known).sum()
    answer = us.infer(release, f"proportion({condition})")
    assert answer.low - 0.004 <= share <= answer.high + 0.004  # noise; the bin itself is wider
    assert answer.value == pytest.approx(share, abs=0.08)
    counted = us.infer(release, f"count({condition})")
    assert counted.low - 40 <= number <= counted.high + 40
    assert parse_question(f"proportion({condition})", release.schema).cuts or answer.validity == "valid"


def test_an_edge_is_answered_as_before(release):
    inside = us.infer(release, f"proportion(age < {release.schema['age'].edges[2]})")
    assert inside.validity == "valid"


def test_it_is_a_range_and_says_why(release):
    if not parse_question("proportion(age < 31)", release.schema).cuts:
        pytest.skip("an edge was found there")
    answer = us.infer(release, "proportion(age < 31)", level=0.9)
    assert answer.validity == "range"
    assert any("inside a bin of age" in warning for warning in answer.warnings)
    groups = us.infer(release, "proportion(age < 31)", by="sex")
    assert len(groups.estimates) == 2


@pytest.mark.parametrize(
    "question",
    [
        "mean(age, where=age < 31)",
        "proportion(sex == 'F', where=age < 31)",
        "proportion(age < 31) - proportion(age < 20)",
        "crosstab(sex, where=age < 31)",
    ],
)
def test_a_subgroup_still_needs_an_edge(people, question):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = us.synthesize(people, schema=EDGES, method="histogram", budget=us.PureDP(epsilon=3))
    with pytest.raises(us.errors.InputError, match="Bounds can be 0, 20, 40"):
        us.infer(made, question)


def test_where_a_condition_holds_for_sure_and_where_it_may():
    question = parse_question("proportion(not (age < 31 or sex == 'F'))", EDGES)
    codes = {"age": np.array([0, 1, 2, 1]), "sex": np.array([1, 1, 1, 0])}
    sure, may = (question.settled(most=most).atoms[0].condition.truth(codes) for most in (False, True))
    assert sure.tolist() == [False, False, True, False]
    assert may.tolist() == [False, True, True, False]
    assert question.cuts[0].part == pytest.approx(11 / 20)


SPIKE = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="pay", edges=(0, 10, 20, 50)),
        us.Attribute(name="coins", edges=(0, 0.01, 10), decimals=2),
    )
)


@pytest.fixture(scope="module")
def paid():
    """Many have nothing, or exactly 10, or the most there can be."""
    rng = np.random.default_rng(3)
    pay = rng.choice([0.0, 10.0, 50.0, 5.5, 15.5, 30.5], 4000)
    frame = pd.DataFrame({"sex": rng.choice(["F", "M"], 4000), "pay": pay, "coins": np.minimum(pay, 10)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return frame, us.synthesize(frame, schema=SPIKE, method="histogram", budget=us.PureDP(epsilon=5))


@pytest.mark.parametrize(
    ("condition", "truth"),
    [
        ("pay > 0", lambda frame: frame.pay > 0),
        ("pay <= 0", lambda frame: frame.pay <= 0),
        ("pay > 10", lambda frame: frame.pay > 10),
        ("pay <= 10", lambda frame: frame.pay <= 10),
        ("pay < 50", lambda frame: frame.pay < 50),
        ("pay >= 50", lambda frame: frame.pay >= 50),
        ("not pay > 0", lambda frame: frame.pay <= 0),
    ],
)
def test_people_exactly_at_an_edge_are_told_apart_by_no_bin(paid, condition, truth):
    frame, release = paid
    answer = us.infer(release, f"proportion({condition})", rng=np.random.default_rng(1))
    assert answer.low <= truth(frame).mean() <= answer.high
    assert answer.validity == "range"


@pytest.mark.parametrize(("condition", "share"), [("coins > 0", 5 / 6), ("coins <= 0", 1 / 6), ("pay <= 50", 1.0)])
def test_a_number_with_so_many_digits_has_a_next_one(paid, condition, share):
    answer = us.infer(paid[1], f"proportion({condition})", rng=np.random.default_rng(1))
    assert answer.validity == "valid"
    assert answer.value == pytest.approx(share, abs=0.03)


def test_what_holds_for_everybody_needs_no_evidence(paid):
    answer = us.infer(paid[1], "proportion(pay >= 0)", rng=np.random.default_rng(1))
    assert (answer.validity, answer.low, answer.high) == ("valid", 1.0, 1.0)


def test_a_subgroup_beyond_an_edge_says_what_to_write(paid):
    with pytest.raises(InputError, match="write >= 10"):
        us.infer(paid[1], "proportion(sex == 'F', where=pay > 10)")
