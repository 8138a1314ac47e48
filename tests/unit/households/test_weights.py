"""Survey weights of households and of members: schema, tables, answers about all members, and what is refused."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.core.linked_schema_file import parse_any_schema, write_linked_schema
from understudy.core.survey_design import OTHERS_FIXED
from understudy.core.table import CodedTable
from understudy.demo.families import FAMILIES_SCHEMA, make_families
from understudy.errors import InputError, SchemaError, UnsupportedError
from understudy.households.linked_table import LinkedTable
from understudy.households.methods.families import Families, public_tables
from understudy.households.shared.family_method import unit_of
from understudy.households.source import member_words
from understudy.privacy.promise.sensitivity import linked_sensitivity

WEIGHTS = np.array([100.0, 200.0, 400.0])
WEIGHT = """
[weight]
table = "households"
column = "hw"
edges = [99.5, 100.5, 199.5, 200.5, 399.5, 400.5]
origin = "nonresponse"
"""
BUDGET = us.ApproxDP(epsilon=2, delta="1e-6")


def schema(text: str = WEIGHT) -> us.LinkedSchema:
    found = parse_any_schema(FAMILIES_SCHEMA + text)
    assert isinstance(found, us.LinkedSchema)
    return found


def weighted_families(households: int, seed: int) -> pa.Table:
    """Families whose weight goes with income and size, so weighted and unweighted answers differ."""
    frame = make_families(households, seed=seed).to_pandas()
    size = frame.groupby("household")["person"].transform("size")
    place = np.minimum((frame["income"] == "low").astype(int) + (size >= 4).astype(int), 2)
    frame["hw"] = WEIGHTS[place]
    return pa.Table.from_pandas(frame, preserve_index=False)


@pytest.fixture(scope="module")
def precise():
    """So little noise that answers are those of the data."""
    table = weighted_families(800, 31)
    release = us.synthesize(
        table, schema=schema(), unit="household", budget=us.ApproxDP(epsilon=5000, delta="1e-6"), i_know=True
    )
    return table.to_pandas(), release


def test_a_weight_is_an_attribute_of_households_and_survives_writing():
    one = schema()
    assert one.households.names == ("region", "income", "hw")
    assert one.wide.weights == one.persons.weights == ("hw",)
    assert not one.wide["hw"].always_measure
    assert parse_any_schema(write_linked_schema(one)).fingerprint == one.fingerprint
    assert one.fingerprint != schema("").fingerprint


def test_both_levels_can_have_a_weight():
    text = WEIGHT.replace("[weight]", "[[weight]]") + (
        '\n[[weight]]\ntable = "persons"\ncolumn = "pw"\nedges = [50, 150, 450]\n'
    )
    one = schema(text)
    assert one.persons.weights == ("pw", "hw")
    assert one.wide.weights == ("hw",)
    assert "partner_pw" in one.wide.names
    assert parse_any_schema(write_linked_schema(one)).fingerprint == one.fingerprint
    tables = Families().plan(one, _request(one, "replace")).steps
    assert any(set(step.margin) >= {"hw", "size", "income"} for step in tables)


def _request(one, unit):
    from understudy.synth.shared.method import Request

    return Request(budget=BUDGET, unit=unit_of(one, unit), copies=1, rows=None, records=None)


def test_tables_hold_what_questions_about_members_of_weighted_households_need():
    tables = [set(table) for table in public_tables(schema(), 1_000_000)]
    assert {"income", "size", "hw"} in tables
    assert {"income", "children", "hw"} in tables
    assert {"hw", "partner_age"} in tables
    without = [set(table) for table in public_tables(schema(""), 1_000_000)]
    assert {"income", "size"} in without
    assert {"income", "children"} in without
    assert not any("hw" in table for table in without)


@pytest.mark.parametrize("choose", ["public", "aim", "mst"])
def test_every_way_of_choosing_measures_the_weight_with_income(choose):
    one = schema()
    plan = Families(choose=choose).plan(one, _request(one, "household"))
    assert any({"income", "hw"} <= set(step.margin) for step in plan.steps)


@pytest.mark.parametrize("weighted", [None, "child", "member"])
def test_weighted_answers_are_those_of_the_data(precise, weighted):
    frame, release = precise
    homes = frame.groupby("household").agg(income=("income", "first"), hw=("hw", "first"), size=("person", "size"))
    homes["child"] = frame[frame["relation"] == "child"].groupby("household").size().reindex(homes.index).fillna(0)
    count = {None: 1, "member": homes["size"], "child": homes["child"]}[weighted]
    people = homes["hw"] * count
    low = homes["income"] == "low"
    expected = float(people[low].sum() / people.sum())
    plain = float((low * count).sum() / (count * np.ones(len(low))).sum())
    assert abs(expected - plain) > 0.05  # the weight matters
    found = us.infer(release, "proportion(income == 'low')", weighted=weighted)
    assert found.estimates[0].value == pytest.approx(expected, abs=0.004)
    counted = us.infer(release, "count(income == 'low')", weighted=weighted)
    assert counted.estimates[0].value == pytest.approx(float(people[low].sum()), rel=0.02)
    assert found.labels[0] == "model-based"  # nobody has shown that such intervals cover


def test_the_sampling_error_of_members_of_weighted_households_counts_both(precise):
    """The linearised variance of a ratio, with the weight times the number of members as the weight of a row."""
    frame, release = precise
    homes = frame.groupby("household").agg(income=("income", "first"), hw=("hw", "first"), size=("person", "size"))
    people = (homes["hw"] * homes["size"]).to_numpy()
    low = (homes["income"] == "low").to_numpy()
    share = (people * low).sum() / people.sum()
    expected = np.sqrt((people**2 * (low - share) ** 2).sum()) / people.sum()
    found = us.infer(release, "proportion(income == 'low')", weighted="member").estimates[0]
    assert (found.high - found.low) / (2 * 1.96) == pytest.approx(expected, rel=0.15)


def test_an_adjusted_weight_is_told_with_the_guarantee(precise):
    _, release = precise
    assert OTHERS_FIXED in release.statement.warnings
    assert release.households()["hw"].to_numpy().min() > 0


def test_members_are_weighted_by_the_weight_of_their_household():
    one = schema(WEIGHT + "public_design = true\n")
    table = weighted_families(600, 32)
    release = us.synthesize(
        table, schema=one, unit="person", budget=us.ApproxDP(epsilon=5000, delta="1e-6"), i_know=True
    )
    frame = table.to_pandas()
    old = frame["age"] >= 65
    expected = float((frame["hw"] * old).sum() / frame["hw"].sum())
    assert abs(expected - old.mean()) > 0.02
    assert us.infer(release, "proportion(age >= 65)").estimates[0].value == pytest.approx(expected, abs=0.004)


def test_a_person_whose_weight_is_confidential_is_refused():
    with pytest.raises(InputError, match="public_design"):
        us.plan(schema(), budget=BUDGET, unit="person")


def test_the_weight_moves_with_its_household():
    one = schema()
    for unit, moved in (("household", 2), ("add_remove", 1)):
        assert linked_sensitivity(one, ("hw", "partner_age"), unit_of(one, unit)).l1 == moved
    public = schema(WEIGHT + "public_design = true\n")
    assert linked_sensitivity(public, ("hw",), unit_of(public, "person")).l1 == 0


SMALL = """version = 1
[[table]]
name = "homes"
id = "h"
[[table]]
name = "people"
parent = "homes"
at_most = 2
[[weight]]
table = "homes"
column = "hw"
edges = [1, 2, 3]
public_design = true
[[weight]]
table = "people"
column = "pw"
edges = [1, 2, 3]
[[attribute]]
table = "homes"
name = "tenure"
levels = ["owner", "tenant"]
[[attribute]]
table = "people"
name = "sex"
levels = ["F", "M"]
"""


@pytest.mark.parametrize("unit", ["household", "person", "add_remove"])
def test_brute_force_over_households_with_weights_reaches_what_the_gate_derives(unit):
    """All households of up to two members with all weights, and all neighbours of each."""
    one = parse_any_schema(SMALL)
    assert isinstance(one, us.LinkedSchema)
    who = unit_of(one, unit)
    people = list(product(range(2), repeat=2))  # sex and weight
    homes = [(own, hw, tuple(members)) for own, hw in product(range(2), repeat=2)
             for size in (1, 2) for members in product(people, repeat=size)]  # fmt: skip
    tables = [("hw",), ("tenure", "hw"), ("tenure", "size", "hw"), ("hw", "member_sex"), ("hw", "sex"), ("sex", "pw")]

    def counts(home, table):
        own, hw, members = home
        linked = LinkedTable(
            schema=one,
            households=CodedTable(schema=one.households, columns={"tenure": np.array([own]), "hw": np.array([hw])}),
            members=CodedTable(schema=one.members, columns={
                name: np.array([member[place] for member in members]) for place, name in enumerate(("sex", "pw"))}),
            owner=np.zeros(len(members), dtype=np.int64),
            role=np.zeros(len(members), dtype=np.int8),
        )  # fmt: skip
        words = member_words(linked, np.array([5], dtype=np.int64), bytes(32))
        return linked.persons().counts(table) if one.is_of_members(table) else linked.wide(words).counts(table)

    for table in tables:
        margin = one.counted_in(table).margin(table)
        made = {home: counts(home, margin) for home in homes}
        worst = [0, 0, 0]
        for before, after in [(home, None) for home in homes] if unit == "add_remove" else combinations(homes, 2):
            if unit == "person" and not (
                before[:2] == after[:2] and len(before[2]) == len(after[2])
                and sum(mine != other for mine, other in zip(before[2], after[2], strict=True)) == 1
            ):  # fmt: skip
                continue
            moved = np.abs(made[before] - (0 if after is None else made[after]))
            largest = int(moved.sum()), int((moved**2).sum()), int(moved.max())
            worst = [max(old, new) for old, new in zip(worst, largest, strict=True)]
        derived = linked_sensitivity(one, margin, who)
        assert (derived.l1, derived.l2_squared, derived.linf) == tuple(worst), margin


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (WEIGHT.replace("edges = [99.5, 100.5, 199.5, 200.5, 399.5, 400.5]", "bounds = [50, 800]"), "edges = \\[50, "),
        (WEIGHT + '[[weight.total]]\nattribute = "income"\ntotals = { low = 1, middle = 1, high = 1 }\n', "calibrated"),
        (WEIGHT + '[design]\nclusters = "village"\n', "clusters is not offered"),
        (WEIGHT.replace('"households"', '"villages"'), "villages"),
        (WEIGHT.replace("[weight]", "[[weight]]") * 2, "two main weights"),
    ],
)
def test_what_a_weight_of_linked_tables_may_not_say(text, said):
    with pytest.raises((SchemaError, UnsupportedError), match=said):
        schema(text)


def test_a_weight_that_is_listed_as_an_attribute_is_refused():
    text = FAMILIES_SCHEMA + WEIGHT + '[[attribute]]\ntable = "households"\nname = "hw"\nedges = [99.5, 400.5]\n'
    with pytest.raises((SchemaError, UnsupportedError)):
        parse_any_schema(text)


def test_a_weight_that_is_no_number_is_refused_before_anything_is_charged():
    table = weighted_families(60, 33).to_pandas()
    table.loc[0, "hw"] = -1.0
    with pytest.raises(InputError, match="hw"):
        us.synthesize(
            pa.Table.from_pandas(table[table["household"] != 2], preserve_index=False), schema=schema(),
            unit="household", budget=BUDGET,
        )  # fmt: skip


def test_a_question_about_children_says_how_it_is_asked_where_there_is_no_weight():
    release = us.synthesize(make_families(150, seed=5), schema=schema(""), unit="household", budget=BUDGET)
    with pytest.raises(InputError, match="--weight child"):
        us.infer(release, "proportion(income == 'low')", weighted=True)
