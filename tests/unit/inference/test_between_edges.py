"""Bounds that are no bin edge: where people lie inside the bin is part of the interval."""

from __future__ import annotations

import warnings
from datetime import date

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
        ("age == 31", lambda frame: frame.age == 31),
        ("age != 31", lambda frame: frame.age != 31),
        ("age in [3, 31]", lambda frame: frame.age.isin([3, 31])),
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
    ["mean(age, where=age < 31)", "crosstab(sex, where=age < 31)", "sex ~ age", "median(age, where=age == 31)"],
)
def test_other_quantities_of_a_subgroup_need_an_edge(people, question):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = us.synthesize(people, schema=EDGES, method="histogram", budget=us.PureDP(epsilon=3))
    with pytest.raises(us.errors.InputError, match=r"(Bounds can be|the edges) 0, 20, 40"):
        us.infer(made, question, where="age < 31" if "~" in question else None)


@pytest.mark.parametrize("text", ["proportion(sex == 'F', where=age < 31)", "proportion(age > 25, where=age < 31)"])
def test_a_share_of_a_subgroup_holds_whoever_is_in_it(text):
    """The ends are those of all ways to place the people of a bin; no release has a say in that."""
    question = parse_question(text, EDGES)
    rng = np.random.default_rng(5)
    sex, age = rng.integers(2, size=60), rng.integers(15, 45, size=60)
    codes = {"sex": sex, "age": np.digitize(age, [20, 40, 60])}
    shares = []
    for most in (False, True):
        atom = question.settled(most=most).atoms[0]
        inside, has = atom.where.truth(codes), atom.condition.truth(codes)
        shares.append((inside & has).sum() / inside.sum())
    placed = []
    for _ in range(400):  # the same bins, other ages inside them
        low = np.array([0, 20, 40, 60])[codes["age"]]
        own = low + rng.choice([0, 3, 10, 15, 19], 60)
        inside = own < 31
        placed.append(((sex == 0) if "sex" in text else own > 25)[inside].mean())
    assert shares[0] <= min(placed) <= max(placed) <= shares[1]
    least = np.where(sex == 0, 39, 20) if "sex" in text else np.full(60, 25)
    own = np.where(codes["age"] == 1, least, np.array([0, 20, 40, 60])[codes["age"]])
    inside = own < 31
    if inside.any():  # and the least is one that can be
        assert shares[0] == pytest.approx(((sex == 0) if "sex" in text else own > 25)[inside].mean())


def test_shares_of_subgroups_and_their_differences_hold_the_truth(release, people):
    known = people.dropna()
    young = known.age < 31
    women = known.sex == "F"
    one, two = women[young].mean(), women[~young].mean()
    text = "proportion(sex == 'F', where=age < 31)"
    other = "proportion(sex == 'F', where=age >= 31)"
    for question, truth in ((text, one), (f"{text} - {other}", one - two), (f"{text} / {other}", one / two)):
        answer = us.infer(release, question)
        assert answer.low - 0.02 <= truth <= answer.high + 0.02
        cut = bool(parse_question(question, release.schema).cuts)
        assert answer.validity == ("range" if cut else "valid")
        assert answer.low <= answer.value <= answer.high
    groups = us.infer(release, "count(age < 31, where=age >= 9, by=sex)")
    assert len(groups.estimates) == 2


def test_a_bin_of_one_value_is_known():
    schema = us.Schema(
        attributes=(
            us.Attribute(name="hours", edges=(0, 1, 10, 11, 40, 40), integer=True),
            us.Attribute(name="pay", edges=(0, 0.01, 10), decimals=2),
            us.Attribute(name="born", edges=(date(2000, 1, 1), date(2000, 1, 2), date(2010, 1, 1))),
        )
    )
    for condition in (
        "hours == 0",
        "hours == 10",
        "hours == 40",
        "pay == 0",
        "born == '2000-01-01'",
        "hours in [0, 40]",
    ):
        assert not parse_question(f"proportion({condition})", schema).cuts, condition
    for condition in ("hours == 5", "pay == 10", "pay == 5", "born == '2005-01-01'", "hours in [0, 5]", "hours != 5"):
        (cut,) = parse_question(f"proportion({condition})", schema).cuts
        assert cut.cut is not None, condition


def test_where_a_condition_holds_for_sure_and_where_it_may():
    question = parse_question("proportion(not (age < 31 or sex == 'F'))", EDGES)
    codes = {"age": np.array([0, 1, 2, 1]), "sex": np.array([1, 1, 1, 0])}
    sure, may = (question.settled(most=most).atoms[0].condition.truth(codes) for most in (False, True))
    assert sure.tolist() == [False, False, True, False]
    assert may.tolist() == [False, True, True, False]
    assert question.cuts[0].part == pytest.approx(9 / 20)  # of the bin, people of 31 and more


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
        us.infer(paid[1], "mean(coins, where=pay > 10)")
