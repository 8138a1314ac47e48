"""A holdout of any size: verdicts depend on who is in the data, and not on how many people each side has."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.demo.people import make_people, people_schema
from understudy.evaluation import risk
from understudy.evaluation.gains import gain_over_holdout
from understudy.evaluation.inputs.comparison import compare
from understudy.evaluation.risk import evaluate_risk
from understudy.evaluation.shared.attack import attacks
from understudy.evaluation.shared.attack_success import Tally
from understudy.households.measures import _members_together

SCHEMA = people_schema()
SIZES = ((600, 210), (210, 600))
TOGETHER = ("cell_counts", "rank_linkage", "singling_out")  # right or wrong depending on who else there is


def people(rows: int, seed: int) -> pa.Table:
    return make_people(rows, seed=seed).select(list(SCHEMA.names))


def judged(made: pa.Table, data: pa.Table, others: pa.Table) -> us.Section:
    return us.attack(us.wrap(made, SCHEMA), data, holdout=others)


def severe(section: us.Section) -> list[str]:
    return [one.code for one in section if one.severity in ("warning", "problem") and one.code != "risk.rank_order"]


@pytest.mark.parametrize(("size", "of_holdout"), SIZES)
def test_an_independent_sample_has_no_red_light_with_a_small_or_a_large_holdout(size, of_holdout):
    """When each side was attacked by itself, there were red lights: in a larger file fewer people are alone."""
    found = judged(people(size, 31), people(size, 32), people(of_holdout, 33))
    lines = {row["name"]: row["light"] for row in found.frames["in_everyday_words"].to_pylist()}
    assert {"rank_linkage", "singling_out", "membership"} <= {
        name for name, light in lines.items() if light in ("green", "amber")
    }
    assert "red" not in lines.values()
    assert severe(found) == []


@pytest.mark.parametrize(("size", "of_holdout"), SIZES)
def test_a_copy_is_red_with_a_small_or_a_large_holdout(size, of_holdout):
    data = people(size, 34)
    found = judged(data, data, people(of_holdout, 35))
    lines = {row["name"]: row for row in found.frames["in_everyday_words"].to_pylist()}
    for name in ("closest_record", "uniqueness", "singling_out", "rank_linkage", "membership"):
        assert lines[name]["light"] == "red", name
    assert "risk.person" in severe(found)
    frame = found.frames["attacks"].to_pylist()
    assert {row["attack"] for row in frame if row["control"] is None} >= set(TOGETHER)


def test_one_attack_alone_is_judged_with_a_holdout_too():
    data = people(300, 36)
    found = us.attack(us.wrap(data, SCHEMA), data, holdout=people(100, 37), only=["singling_out"])
    assert {row["attack"] for row in found.frames["person_part"].to_pylist()} == {"singling_out"}
    assert "risk.person" in severe(found)


def test_an_attack_on_hardly_anybody_is_neither_told_first_nor_called_safe():
    part = {"by": "holdout", "times": 1, "outside": 0.0, "most_allowed": None, "above_bound": False, "light": "green"}
    few = {**part, "attack": "cell_counts", "subject": "small", "people": 8, "inside": 0.75, "gain": 0.75,
           "gain_low": -0.1, "gain_high": 0.96}  # fmt: skip
    many = {**part, "attack": "matching", "subject": "copy 1", "people": 500, "inside": 0.02, "gain": 0.02,
            "gain_low": -0.01, "gain_high": 0.05}  # fmt: skip
    assert risk._took_part([few, many], "")["of_1000"] == 20
    lines = {row["name"]: row for row in risk._lines([], [few, many])}
    assert (lines["cell_counts"]["light"], lines["cell_counts"]["more"]) == ("not measured", None)
    assert (lines["matching"]["light"], lines["matching"]["more"]) == ("green", 20)
    sure = {**few, "gain_low": 0.3, "light": "red"}
    assert risk._lines([], [sure])[0]["light"] == "red"  # a high risk is not hidden


def test_the_second_sentence_says_what_the_intruder_knows():
    data, others = people(200, 41), people(100, 42)
    found = us.attack(us.wrap(data, SCHEMA), data, holdout=others, keys=["sex", "age", "region"])
    second = found.frames["first_screen"].to_pylist()[1]["sentence"]
    assert second.startswith("Whoever knows region, sex and age of a person guesses")


def test_rows_that_belong_together_count_as_one():
    inside, outside = Tally(successes=150, guesses=300), Tally(successes=90, guesses=300)
    third = [Tally(successes=side.successes // 3, guesses=100) for side in (inside, outside)]
    one, other = gain_over_holdout(inside, outside, None, rows_together=3), gain_over_holdout(*third, None)
    assert (one.low, one.high) == pytest.approx((other.low, other.high))
    assert one.low < gain_over_holdout(inside, outside, None).low
    release = us.wrap(people(60, 43), SCHEMA)
    unit = us.Unit(rows_per_unit=3, unit_id="person_id")
    several = replace(release, statement=replace(release.statement, unit=unit))
    data = us.open_source(people(60, 43), SCHEMA)
    assert [compare(one, data).rows_together for one in (release, several)] == [1, 3]
    assert compare(release, data, rows_together=2.5).rows_together == 2.5


def test_members_of_a_household_are_worth_fewer_than_they_are():
    assert _members_together(SimpleNamespace(owner=np.array([0, 0, 0, 1]))) == pytest.approx((9 + 1) / 4)


@pytest.mark.parametrize("with_holdout", [False, True])
def test_a_file_of_twins_is_attacked_with_and_without_a_holdout(with_holdout):
    """Nobody is alone in a file of one question, so nobody can have a double."""
    schema = us.Schema(attributes=(us.Attribute(name="ill", levels=("no", "yes")),))
    data, others = (pa.table({"ill": ["no", "yes"] * count}) for count in (80, 30))
    source = us.open_source(data, schema)
    refit = None if with_holdout else lambda rows, number: us.wrap(rows, schema)
    holdout = us.open_source(others, schema) if with_holdout else None
    found = evaluate_risk(compare(us.wrap(data, schema), source, holdout=holdout, refit=refit))
    rows = found.frames["person_part"].to_pylist()
    assert rows
    assert "rank_linkage" not in {row["attack"] for row in rows}


def test_public_groups_are_nobody_s_success():
    """Of a fixed attribute everybody knows who is alone in which group."""
    draw = np.random.default_rng(38)
    towns = tuple(range(60))
    schema = us.Schema(
        attributes=(
            us.Attribute(name="town", levels=towns),
            us.Attribute(name="street", levels=(0, 1, 2)),
            us.Attribute(name="ill", levels=(False, True)),
        )
    )
    data = pa.table(
        {
            "town": draw.integers(0, 60, 90),
            "street": draw.integers(0, 3, 90),
            "ill": draw.integers(0, 2, 90).astype(bool),
        }
    )
    # Town and street as they are, and everything else made up.
    made = us.wrap(data.set_column(2, "ill", pa.array(draw.integers(0, 2, 90).astype(bool))), schema)
    rates = {}
    for fixed in ((), ("town", "street")):
        release = replace(made, statement=replace(made.statement, unit=us.Unit(fixed=fixed)))
        comparison = compare(release, us.open_source(data, schema), keys=("town", "street"), targets=("ill",))
        found = evaluate_risk(comparison, only=("singling_out", "cell_counts", "uniqueness"))
        rates[fixed] = {
            (row["attack"], row["subject"]): row["successes"] for row in found.frames["attacks"].to_pylist()
        }
    assert rates[()]["singling_out", "one attribute, copy 1"] > 0
    assert rates["town", "street"]["singling_out", "one attribute, copy 1"] == 0
    assert ("uniqueness", "town x street, copy 1") in rates[()]
    assert ("uniqueness", "town x street, copy 1") not in rates["town", "street"]
    counts = [rates[fixed]["cell_counts", "2-way cells of 1 or 2, copy 1"] for fixed in rates]
    assert counts[1] < counts[0] / 2


def test_together_means_every_attack_that_has_no_control():
    data = people(80, 39)
    comparison = compare(
        us.wrap(data, SCHEMA), us.open_source(data, SCHEMA), holdout=us.open_source(people(40, 40), SCHEMA)
    )
    both = comparison.with_outsiders()
    assert (len(both.people), len(both.outsiders), len(both.reference)) == (80, 40, 120)
    for name in TOGETHER:
        rows = attacks[name]().run(both).frames["attacks"].to_pylist()
        assert all(row["control_asked"] is not None for row in rows), name
