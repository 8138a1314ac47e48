"""Drafts of linked tables from files that nobody tidied."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.core.linked_schema_file import parse_any_schema
from understudy.demo.families import make_families
from understudy.errors import InputError, UnknownNameError
from understudy.households.drafting import draft_linked_schema
from understudy.households.source import open_households


def reviewed(text: str):
    return parse_any_schema(text.replace("draft = true\n", ""))


def test_one_flat_file_becomes_two_tables():
    text = draft_linked_schema(make_families(600, seed=2), household="household")
    schema = reviewed(text)
    assert schema.households.names == ("region", "income")
    assert schema.members.names == ("age", "sex", "works")
    assert schema.member_id == "person"
    assert '# partner = ["spouse"]\n# child = ["child"]' in text
    assert open_households(make_families(600, seed=2), schema).confidential_families().households.rows == 600


def test_a_flat_file_says_which_column_is_the_household():
    people = make_families(50, seed=2)
    with pytest.raises(UnknownNameError, match="household"):
        draft_linked_schema(people, household="hid")
    with pytest.raises(InputError, match="which column is the household"):
        draft_linked_schema(people)
    with pytest.raises(InputError, match="no rows belong together"):
        draft_linked_schema(pa.table({"id": [str(k) for k in range(60)], "sex": ["F", "M"] * 30}), household="id")
    with pytest.raises(InputError, match="leave it out"):
        draft_linked_schema({"a": people, "b": people}, household="household")


def patients() -> dict[str, pa.Table]:
    """Two files: ids as measurements in one of them, patients without a visit, a column in both, sizes in the first."""
    rng = np.random.default_rng(4)
    count = rng.integers(0, 5, 300)
    whose = np.repeat(np.arange(300), count)
    ward = np.array(["a", "b"])[rng.integers(0, 2, 300)]
    visit = np.arange(len(whose)) - np.repeat(np.cumsum(count) - count, count)
    above = pa.table({"patient": np.arange(300), "ward": ward, "size": count})
    below = pa.table({
        "row": np.arange(len(whose)).astype(str), "patient": [f"{one}.0" for one in whose], "ward": ward[whose],
        "visit": visit.astype(str), "cost": np.round(rng.gamma(2, 900, len(whose)) ** 1.5, 2),
    })  # fmt: skip
    return {"patients": above, "visits": below}


def test_two_files_that_nobody_tidied():
    text = draft_linked_schema(patients())
    assert "at_least = 0" in text  # some patients have no visit
    assert "[roles]" not in text  # a number of visits is no relationship
    assert "release find" not in text  # what linked tables do not offer
    assert '# of = "cost"' in text
    schema = reviewed(text)
    assert schema.households.names == ("ward",)  # the size is counted from the members
    assert us.check_data(patients(), schema) == 300


def test_what_households_always_get_is_passed_by():
    schema = reviewed(draft_linked_schema(make_families(200, seed=3), household="household"))
    people = make_families(200, seed=3)
    more = people.append_column("size", pa.array([1] * people.num_rows))
    assert us.check_data(more, schema) == 200
