"""Bounds that are no bin edge: where people lie inside the bin is part of the interval."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import understudy as us
from understudy.core.questions import parse_question

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
