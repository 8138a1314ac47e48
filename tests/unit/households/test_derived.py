"""Derived columns that are counted in bins: total and equivalised income, poverty, and what is asked about them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.core.linked_schema_file import parse_any_schema, write_linked_schema
from understudy.demo.families import FAMILIES_SCHEMA, make_families
from understudy.errors import SchemaError
from understudy.households.household_release import check_families
from understudy.households.pair_tables import total_variation
from understudy.privacy.randomness.streams import SeededStream

EARNED = """
[[attribute]]
table = "persons"
name = "earned"
edges = [0, 1, 1000, 2000, 3000, 4000, 6000]

[[derived]]
name = "total"
function = "sum"
of = "earned"
edges = [0, 1500, 3000, 4500, 6000, 9000, 18000]

[[derived]]
name = "equivalised"
function = "equivalised"
of = "earned"
age = "age"
edges = [0, 900, 1800, 2700, 6000]
"""
BUDGET = us.ApproxDP(epsilon=4, delta="1e-6")


def schema(more: str = EARNED) -> us.LinkedSchema:
    found = parse_any_schema(FAMILIES_SCHEMA + more)
    assert isinstance(found, us.LinkedSchema)
    return found


def people(seed: int, households: int = 1500) -> pa.Table:
    rng = np.random.default_rng(seed)
    table = make_families(households, seed=seed)
    works = np.array(table["works"].to_pylist()) == "yes"
    earned = np.where(works, np.clip(rng.gamma(4, 550, len(works)), 1, 5990), 0)
    return table.append_column("earned", pa.array(np.round(earned, 2)))


def truths(table: pa.Table) -> dict[str, float]:
    frame = table.to_pandas()
    homes = frame.groupby("household")
    total = homes["earned"].sum()
    young = homes["age"].apply(lambda ages: (ages < 14).sum())
    others = homes.size() - young
    scale = 1 + 0.5 * (others - 1) + 0.3 * young
    poor = total / scale < 900
    children = homes["relation"].apply(lambda found: (found == "child").sum())
    return {
        "rich": float((total >= 4500).mean()),
        "poor": float(poor.mean()),
        "poor children": float((children * poor).sum() / children.sum()),
        "mean": float(total.mean()),
    }


@pytest.fixture(scope="module")
def table():
    return people(3)


@pytest.fixture(scope="module")
def release(table):
    return us.synthesize(table, schema=schema(), budget=BUDGET, unit="household", stream=SeededStream(5))


def test_questions_about_what_is_derived(table, release):
    truth = truths(table)
    for question, name, weighted in (
        ("proportion(total >= 4500)", "rich", None),
        ("proportion(equivalised < 900)", "poor", None),
        ("proportion(equivalised < 900)", "poor children", "child"),
        ("mean(total)", "mean", None),
    ):
        answer = us.infer(release, question, weighted=weighted, rng=np.random.default_rng(1))
        one = answer.estimates[0]
        assert one.low < truth[name] < one.high, (question, weighted, one, truth[name])
    assert us.infer(release, "proportion(total >= 4500)").labels == ("valid",)
    assert us.infer(release, "mean(total)").labels == ("range",)


def test_synthetic_households_have_what_was_counted(table, release, tmp_path):
    check_families(release, 1)
    ours = us.open_households(table, schema()).confidential_families().derived_columns()
    theirs = release.linked().derived_columns()
    for name, most in (("total", 0.06), ("equivalised", 0.06)):
        counts = [np.bincount(one[name], minlength=8) for one in (ours, theirs)]
        assert total_variation(*counts) < most, name
    release.write(tmp_path / "r")
    assert all(check.passed for check in us.verify(tmp_path / "r"))


def test_a_schema_says_the_same_when_read_again():
    one = schema()
    assert parse_any_schema(write_linked_schema(one)).fingerprint == one.fingerprint
    assert {"total", "equivalised"} <= set(one.wide.names)
    with pytest.raises(SchemaError, match="rising"):
        schema(EARNED.replace("[0, 900, 1800, 2700, 6000]", "[0, 900, 800]"))


def test_numbers_of_the_data_decide_and_not_the_middles_of_bins(table):
    linked = us.open_households(table, schema()).confidential_families()
    frame = table.to_pandas()
    total = frame.groupby("household")["earned"].sum().sort_index(key=lambda ids: ids.astype(str)).to_numpy()
    edges = np.array([0, 1500, 3000, 4500, 6000, 9000, 18000])
    assert (linked.derived_columns()["total"] == np.clip(np.searchsorted(edges, total, side="right") - 1, 0, 5)).all()
