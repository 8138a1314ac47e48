"""Reading linked tables: two files or one, roles, and everything that can be wrong with them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.core.household_roles import Roles
from understudy.core.linked_schema_file import parse_any_schema
from understudy.demo.families import FAMILIES_SCHEMA, make_families
from understudy.errors import DisclosureError, InputError, SchemaError, UnsupportedError
from understudy.households.source import impossible_households, roles_by_rule
from understudy.privacy.randomness.fingerprint import DataKey


def schema(text: str = FAMILIES_SCHEMA) -> us.LinkedSchema:
    found = parse_any_schema(text)
    assert isinstance(found, us.LinkedSchema)
    return found


def split(flat: pa.Table) -> dict[str, pa.Table]:
    frame = flat.to_pandas()
    homes = frame.drop_duplicates("household")[["household", "region", "income"]]
    people = frame[["household", "person", "relation", "age", "sex", "works"]]
    return {"households": pa.Table.from_pandas(homes, preserve_index=False),
            "persons": pa.Table.from_pandas(people, preserve_index=False)}  # fmt: skip


def total(data: object, one: us.LinkedSchema | None = None) -> int:
    return us.check_data(data, one or schema())


def test_one_flat_file_and_two_linked_files_are_the_same(tmp_path):
    flat = make_families(200, seed=3)
    for name, table in split(flat).items():
        table.to_pandas().sample(frac=1, random_state=1).to_csv(tmp_path / f"{name}.csv", index=False)
    files = [f"{name}={tmp_path / name}.csv" for name in ("households", "persons")]
    key = DataKey(bytes(32)).bounding
    one, two, three = (us.open_households(data, schema()).rows_of(key()) for data in (flat, split(flat), files))
    for other in (two, three):
        for name in one.schema.names:
            assert np.array_equal(one.table.columns[name], other.table.columns[name])
        for source in (one, other):
            source.identify(bytes(32))
        assert one.fingerprint() == other.fingerprint()
    assert one.total() == 200
    with pytest.raises(DisclosureError):
        one.__reduce__()


def edited(change) -> dict[str, pa.Table]:
    tables = {name: table.to_pandas() for name, table in split(make_families(50, seed=2)).items()}
    change(tables)
    return {name: pa.Table.from_pandas(frame, preserve_index=False) for name, frame in tables.items()}


def _orphan(tables):
    tables["persons"].loc[3, "household"] = 999


def _twice(tables):
    tables["households"].loc[1, "household"] = tables["households"].loc[0, "household"]


def _empty(tables):
    tables["households"].loc[len(tables["households"])] = [777, "North", "low"]


def _two_heads(tables):
    tables["persons"]["relation"] = "head"


def _same_person(tables):
    tables["persons"]["person"] = 1


def _old_child(tables):
    children = tables["persons"]["relation"] == "child"
    tables["persons"].loc[children, "age"] = 94


def _no_household(tables):
    tables["persons"]["household"] = tables["persons"]["household"].astype(object)
    tables["persons"].loc[0, "household"] = None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_orphan, "belong to a household that the table of households does not have"),
        (_twice, "have an id that another household has"),
        (_empty, r"1 household\(s\) have no member"),
        (_two_heads, "the roles contradict each other"),
        (_same_person, "have an id that another member of the same household has"),
        (_old_child, "impossible by the schema's rules across members"),
        (_no_household, "household"),
    ],
)
def test_bad_data_are_refused_and_no_value_is_told(change, told):
    with pytest.raises((InputError, SchemaError), match=told) as problem:
        total(edited(change))
    assert "999" not in str(problem.value)
    assert "777" not in str(problem.value)


def test_members_must_agree_on_their_household():
    frame = make_families(30, seed=1).to_pandas()
    many = frame.groupby("household").size()
    frame.loc[frame.index[frame["household"] == many.index[many > 1][0]][0], "region"] = "West"
    frame.loc[frame.index[frame["household"] == many.index[many > 1][0]][1], "region"] = "East"
    with pytest.raises(InputError, match="do not agree on the household's own attributes"):
        total(pa.Table.from_pandas(frame, preserve_index=False))


def test_a_household_beyond_at_most_is_an_error_or_is_sampled():
    small = FAMILIES_SCHEMA.replace("at_most = 6", "at_most = 3")
    flat = make_families(300, seed=4)
    with pytest.raises(InputError, match="have more members than the schema allows"):
        total(flat, schema(small))
    sampled = schema(small.replace("at_most = 3", 'at_most = 3\nbeyond = "sample"'))
    homes = us.open_households(flat, sampled).rows_of(DataKey(bytes(32)).bounding())
    assert homes.total() == 300
    assert homes.table.columns["size"].max() == 2  # the code of three members
    everyone = us.open_households(flat, schema()).confidential_families().by_role
    assert (homes._families.by_role[:, :2] == everyone[:, :2]).all()  # the reference person and the partner stay
    with pytest.raises(InputError, match="size is not fixed"):
        us.plan(sampled, budget=us.PureDP(epsilon=1), unit="person")


def test_columns_and_tables_that_are_not_there():
    flat = make_families(20)
    with pytest.raises(SchemaError, match="relation"):
        us.open_households(flat.drop_columns(["relation"]), schema())
    with pytest.raises(InputError, match="'persons' is missing"):
        us.open_households({"households": flat}, schema())
    with pytest.raises(InputError, match="table"):
        us.open_households({"homes": flat, "persons": flat}, schema())
    with pytest.raises(UnsupportedError, match="engine"):
        us.open_households(flat, schema(), engine="spark")
    with pytest.raises(InputError, match="no rows"):
        total(flat.slice(0, 0))


def slow_roles(roles: Roles, homes: list[list[tuple[float, int]]]) -> list[int]:
    """The rule, as it is written down."""
    found = []
    for members in homes:
        adults = [place for place, (age, _) in enumerate(members) if age >= roles.adult]
        head = adults[0] if adults else max(range(len(members)), key=lambda place: (members[place][0], -place))
        mate = next((place for place in adults if place != head
                     and abs(members[place][0] - members[head][0]) <= roles.partner_within
                     and (roles.partner_sex == "any" or members[place][1] != members[head][1])), None)  # fmt: skip
        for place, (age, _) in enumerate(members):
            young = members[head][0] - age >= roles.child_younger
            found.append(0 if place == head else 1 if place == mate else 2 if young else 3)
    return found


@pytest.mark.parametrize("partner_sex", ["any", "other"])
def test_roles_follow_the_rule(partner_sex):
    rng = np.random.default_rng(7)
    sex = {"partner_sex": "other", "sex": "sex"} if partner_sex == "other" else {}
    roles = Roles(age="age", **sex)
    homes = [
        [(float(rng.integers(0, 90)), int(rng.integers(2))) for _ in range(rng.integers(1, 7))] for _ in range(400)
    ]
    owner = np.repeat(np.arange(len(homes)), [len(one) for one in homes])
    age = np.array([member[0] for one in homes for member in one])
    codes = np.array([member[1] for one in homes for member in one])
    found = roles_by_rule(roles, age, codes if sex else None, owner, len(homes))
    assert found.tolist() == slow_roles(roles, homes)


def test_every_child_is_tried_in_the_slot():
    """A household is impossible if its second child is, whoever stands in the slot."""
    frame = make_families(40, seed=9).to_pandas()
    many = frame[frame["relation"] == "child"].groupby("household").size()
    home = many.index[many > 1][0]
    last = frame.index[(frame["household"] == home) & (frame["relation"] == "child")][-1]
    plain = schema(FAMILIES_SCHEMA.split("[[rule]]")[0])
    frame.loc[last, "age"] = 94
    table = us.open_households(pa.Table.from_pandas(frame, preserve_index=False), plain).confidential_families()
    assert impossible_households(table) == 0
    ruled = us.open_households(pa.Table.from_pandas(frame, preserve_index=False), schema()).confidential_families()
    assert impossible_households(ruled) == 1
