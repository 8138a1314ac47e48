"""Gaps between roles: every child younger than both parents, in the data, in bins and in years."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

import understudy as us
from understudy.core.linked_schema_file import parse_any_schema, write_linked_schema
from understudy.demo.families import FAMILIES_SCHEMA, make_families
from understudy.errors import SchemaError
from understudy.households.drafting import draft_linked_schema
from understudy.households.household_release import check_families
from understudy.households.source import impossible_households

PLAIN = FAMILIES_SCHEMA.split("[[rule]]")[0]
RULES = '[[rule]]\norder = ["child.age", "{}.age"]\nby = {}\n'
GAPS = PLAIN + RULES.format("reference", 15) + RULES.format("partner", 12)
BUDGET = us.ApproxDP(epsilon=1, delta="1e-6")


def people(count=600, seed=3):
    """Families whose partners keep the gap too, which those of the demonstration do with few exceptions."""
    frame = make_families(count, seed=seed).to_pandas()
    return frame[~frame["household"].isin(broken(frame, "relation", "spouse", 12))]


def broken(frame, column, role, by):
    """Households with a child that is not so much younger than the member of a role."""
    ages = frame[frame[column].astype(str) == role].set_index("household")["age"]
    children = frame[frame[column].astype(str) == "child"]
    gap = children["household"].map(ages) - children["age"]
    return children["household"][gap < by]


def table(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


def test_a_file_with_gaps_is_read_and_written_back():
    schema = parse_any_schema(GAPS)
    assert [(gap.columns, gap.by) for gap in schema.gaps] == [
        (("child_age", "reference_age"), 15), (("child_age", "partner_age"), 12)
    ]  # fmt: skip
    assert parse_any_schema(write_linked_schema(schema)).fingerprint == schema.fingerprint
    assert parse_any_schema(GAPS.replace("12", "11")).fingerprint != schema.fingerprint
    assert schema.without_rules.gaps == ()


@pytest.mark.parametrize("child", ["child_age", "sibling_age"])
def test_bins_are_impossible_exactly_where_no_two_ages_keep_the_gap(child):
    wide = parse_any_schema(GAPS).wide
    edges = [int(edge) for edge in wide["reference_age"].edges]
    years = [range(low, high + (high == edges[-1])) for low, high in itertools.pairwise(edges)]
    for parent, by in (("reference_age", 15), ("partner_age", 12)):
        allowed = wide.allowed((parent, child))
        for above, below in itertools.product(range(len(years)), repeat=2):
            if years[above][-1] >= 18 or parent == "reference_age":  # partners are adults by another rule
                possible = any(a - b >= by for a in years[above] for b in years[below])
                assert allowed[above, below] == possible, (parent, above, below)


@pytest.mark.parametrize(("unit", "seed"), [("household", 21), ("household", 29), ("person", 13)])
def test_no_synthetic_household_breaks_a_gap(unit, seed):
    """Nor are there no children at all, to which a fit that was stuck came with households of seeds 21 and 29."""
    release = us.synthesize(table(people(seed=seed)), schema=parse_any_schema(GAPS), unit=unit, budget=BUDGET)
    more = us.sample(release, rows=1500, copies=1)
    for one in (release, more):
        frame = one.frame().to_pandas()
        assert (frame["role"] == "child").sum() > 30
        assert broken(frame, "role", "reference", 15).empty
        assert broken(frame, "role", "partner", 12).empty
        assert check_families(one, 1) == one.households().num_rows


def test_without_the_rules_some_do():
    """Otherwise the test above could not fail."""
    release = us.synthesize(table(people(seed=11)), schema=parse_any_schema(PLAIN), unit="household", budget=BUDGET)
    frame = release.frame().to_pandas()
    assert not broken(frame, "role", "reference", 15).empty
    assert not broken(frame, "role", "partner", 12).empty


def test_households_of_the_data_that_break_a_gap_are_counted_and_refused():
    """In years, where the bins allow it, and by a second child too."""
    frame, schema = people().reset_index(drop=True), parse_any_schema(GAPS)
    heads = frame[frame["relation"] == "head"].set_index("household")["age"]
    many = frame[frame["relation"] == "child"].groupby("household").size()
    homes = [home for home in many.index[many > 1] if heads[home] in range(40, 45)][:2]
    for home in homes:
        last = frame.index[(frame["household"] == home) & (frame["relation"] == "child")][-1]
        frame.loc[last, "age"] = heads[home] - 14  # 26 to 30: some of this bin may be the child of some of that
    source = us.open_households(table(frame), schema)
    assert len(homes) == 2
    assert impossible_households(source.confidential_families()) == 2
    with pytest.raises(SchemaError, match=r"^2 household"):
        us.synthesize(table(frame), schema=schema, unit="household", budget=BUDGET)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PLAIN + RULES.format("reference", -1), "whole number from 0"),
        (PLAIN + RULES.format("parent", 15), "parent"),
        (PLAIN + RULES.format("child", 15), "both 'child'"),
        (GAPS + RULES.format("partner", 1).replace("partner", "other").replace("child", "partner"), "not offered"),
        (PLAIN.replace("integer = true\n", "") + RULES.format("reference", 15), "integer = true"),
        (PLAIN + RULES.format("reference", 15).replace("reference.age", "reference.sex"), "one attribute"),
        (PLAIN.replace("other = 1", "other = 2") + RULES.format("other", 15), "several of both"),
        (PLAIN.replace('column = "relation"', 'age = "age"').replace('reference = ["head"]\n', "")
         .replace('partner = ["spouse"]\nchild = ["child"]\n', "") + RULES.format("partner", 15), "child_younger"),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_exactly_is_refused(text, message):
    with pytest.raises(SchemaError, match=message):
        parse_any_schema(text)


def test_the_draft_proposes_gaps_to_both_parents():
    text = draft_linked_schema(make_families(600, seed=2), household="household")
    lines = text.replace("draft = true\n", "").splitlines()
    begin = lines.index('# partner = ["spouse"]')
    kept = [line[2:] if place >= begin and line.startswith(("# partner =", "# child =", "# [[rule]]", "# order =",
                                                            "# by =")) else line
            for place, line in enumerate(lines)]  # fmt: skip
    schema = parse_any_schema("\n".join(kept))
    assert [(gap.columns, gap.by) for gap in schema.gaps] == [
        (("child_age", "reference_age"), 15), (("child_age", "partner_age"), 1)
    ]  # fmt: skip
