"""Schemas of linked tables: what they say, and what they refuse."""

from __future__ import annotations

import pytest

import understudy as us
from understudy.core.linked_schema_file import parse_any_schema, write_linked_schema
from understudy.core.schema_file import parse_schema
from understudy.demo.families import FAMILIES_SCHEMA
from understudy.errors import SchemaError, UnsupportedError

DERIVED = '\n[[derived]]\ntable = "households"\nname = "oldest"\nfunction = "max"\nof = "age"\n'


def test_a_file_is_read_and_written_back():
    one = parse_any_schema(FAMILIES_SCHEMA + DERIVED)
    assert isinstance(one, us.LinkedSchema)
    again = parse_any_schema(write_linked_schema(one))
    assert again.fingerprint == one.fingerprint
    other = parse_any_schema(FAMILIES_SCHEMA.replace("at_most = 6", "at_most = 5"))
    assert other.fingerprint != one.fingerprint


def test_the_wide_schema_has_a_slot_for_each_role():
    wide = parse_any_schema(FAMILIES_SCHEMA).wide
    assert wide.names[:5] == ("region", "income", "size", "composition", "children")
    assert {"reference_age", "partner_age", "child_age", "other_age", "sibling_age"} <= set(wide.names)
    assert "sibling_sex" not in wide.names  # only what ties siblings together
    assert "none" not in wide["reference_age"].code_names  # a household always has one
    allowed = wide.allowed(("composition", "partner_age"))
    single = wide["composition"].code_names.index("single")
    none = wide["partner_age"].code_names.index("none")
    assert allowed[single].sum() == 1
    assert allowed[single, none]
    order = wide.allowed(("reference_age", "child_age"))
    names = wide["child_age"].code_names
    assert not order[4, names.index("[35,45)")]
    assert order[4, names.index("[6,12)")]
    assert wide.allowed(("reference_age", "sibling_age"))[4, names.index("[6,12)")]
    assert not wide.allowed(("reference_age", "sibling_age"))[4, names.index("[35,45)")]


def test_size_and_composition_agree():
    one = parse_any_schema(FAMILIES_SCHEMA)
    allowed = one.wide.allowed(("size", "composition"))
    for place, kind in enumerate(one.kinds):
        assert allowed[:, place].nonzero()[0].tolist() == [sum(kind) - 1]


def test_a_schema_of_one_table_stays_valid_and_says_what_it_is():
    plain = 'version = 1\n[[attribute]]\nname = "sex"\nlevels = ["F", "M"]\n'
    assert isinstance(parse_any_schema(plain), us.Schema)
    with pytest.raises(SchemaError, match="read_linked_schema"):
        parse_schema(FAMILIES_SCHEMA)


TABLES = '[[table]]\nname = "a"\nid = "i"\n{}\n[[table]]\nname = "b"\n{}\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (FAMILIES_SCHEMA.replace('id = "household"', 'id = "household"\nparent = "persons"'), "cycle"),
        (FAMILIES_SCHEMA.replace('parent = "households"', 'parent = "homes"'), "homes"),
        (FAMILIES_SCHEMA.replace('name = "persons"', 'name = "households"'), "two tables are called"),
        (FAMILIES_SCHEMA.replace("at_most = 6\n", ""), "at_most"),
        (FAMILIES_SCHEMA.replace("at_most = 6", "at_most = 0"), "at_most"),
        (FAMILIES_SCHEMA.replace('id = "household"\n', ""), "needs id"),
        (FAMILIES_SCHEMA.replace('name = "region"', 'name = "size"'), "'size' is a column that households always get"),
        (FAMILIES_SCHEMA + DERIVED.replace('"oldest"', '"income"'), "two columns called 'income'"),
        (FAMILIES_SCHEMA.replace('name = "region"', 'name = "sex"'), "attribute of both tables"),
        (FAMILIES_SCHEMA.replace('id = "person"\n', "").replace('id = "household"', 'id = "member"'), "numbers member"),
        (FAMILIES_SCHEMA.replace('partner = ["spouse"]', 'partner = ["head"]'), "under two roles"),
        (FAMILIES_SCHEMA.replace('column = "relation"', 'column = "relation"\nage = "age"'), "not both"),
        (FAMILIES_SCHEMA.replace("partner.age", "partner.height"), "partner_height"),
        (FAMILIES_SCHEMA.replace('"child.age", "reference.age"', '"child.sex", "reference.age"'), "must have edges"),
        (FAMILIES_SCHEMA.replace('levels = ["no", "yes"]', 'levels = ["none", "yes"]').replace('["yes"]', '["none"]'),
         "none"),
        (FAMILIES_SCHEMA + DERIVED.replace('"max"', '"most"'), "most"),
        (FAMILIES_SCHEMA + DERIVED.replace('of = "age"', 'of = "sex"'), "numeric"),
        (FAMILIES_SCHEMA + DERIVED.replace('"max"', '"equivalised"'), "age"),
        (FAMILIES_SCHEMA.replace('table = "households"\nname = "region"', 'name = "region"'), "table"),
        (FAMILIES_SCHEMA + "\n[[weight]]\n", "weight"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(text, told):
    with pytest.raises(SchemaError, match=told):
        parse_any_schema(text)


def test_three_tables_are_not_offered():
    third = '\n[[table]]\nname = "visits"\nparent = "persons"\nat_most = 3\n'
    with pytest.raises(UnsupportedError, match="two linked tables"):
        parse_any_schema(FAMILIES_SCHEMA + third)


def test_members_without_roles_are_alike():
    text = FAMILIES_SCHEMA.split("[roles]")[0] + "[[attribute]]" + FAMILIES_SCHEMA.split("[[attribute]]", 1)[1]
    text = text.split("[[impossible]]\npartner.age")[0]
    one = parse_any_schema(text)
    assert [slot.name for slot in one.slots] == ["member", "fellow"]
    assert one.composition_name(one.kinds[2]) == "3 members"
