"""Derived attributes: what each function gives, what a rule may say, and the schema file."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from understudy.core.derived_attributes import Case, Derived
from understudy.core.schema import Attribute, Schema
from understudy.core.schema_file import parse_schema, write_schema
from understudy.core.structural_zeros import Condition
from understudy.errors import InputError, SchemaError

SEX = Attribute(name="sex", levels=("F", "M", "X"), missing=True)
AGE = Attribute(name="age", edges=(0, 6, 18, 65, 100), integer=True, missing=True, special={-8: "refused"})
KIDS = Attribute(name="kids", edges=(0, 2, 10), integer=True)
ADULTS = Attribute(name="adults", edges=(1, 3, 10), integer=True)
PLAIN = Schema(attributes=(SEX, AGE, KIDS, ADULTS))
TOML = """
version = 1
[[attribute]]
name = "sex"
levels = ["F", "M", "X"]
missing = true
[[attribute]]
name = "age"
edges = [0, 6, 18, 65, 100]
integer = true
missing = true
special = { -8 = "refused" }
[[attribute]]
name = "kids"
edges = [0, 2, 10]
integer = true
[[attribute]]
name = "adults"
edges = [1, 3, 10]
integer = true
[[derived]]
name = "sex in words"
label = "Sex"
from = ["sex"]
function = "recode"
map = { F = "woman", M = "man", "<missing>" = "unknown" }
default = "other"
[[derived]]
name = "stage"
from = ["age"]
function = "recode"
edges = [0, 18, 65, 100]
levels = ["child", "working age", "older"]
[[derived]]
name = "group"
from = ["sex", "age"]
function = "cross"
cases = [
    { when = { sex = "F", age = { below = 18 } }, value = 1 },
    { when = { age = { above = 65 } }, value = 3 },
    { when = { sex = ["F", "<missing>"] }, value = 2 },
]
default = 0
[[derived]]
name = "people"
from = ["kids", "adults"]
function = "sum"
"""


def with_rule(**rule):
    rule = {"name": "new", "function": "recode", "sources": ("sex",), **rule}
    return Schema(attributes=PLAIN.attributes, derived=(Derived(**rule),))


def codes(schema, **columns):
    (derived,) = schema.derived
    arrays = {name: np.array(values, np.uint8) for name, values in columns.items()}
    attribute = derived.attribute(schema)
    return [attribute.code_names[code] for code in derived.codes(schema, arrays)]


def test_recode_of_levels():
    schema = with_rule(mapping={"F": "woman", "M": "man"}, default="other")
    assert codes(schema, sex=[0, 1, 2, 3]) == ["woman", "man", "other", "<missing>"]
    schema = with_rule(mapping={"F": 1, "M": 1, "X": 2, "<missing>": 9})
    assert codes(schema, sex=[0, 1, 2, 3]) == ["1", "1", "2", "9"]
    assert not schema.derived[0].attribute(schema).missing


def test_recode_of_bins():
    schema = with_rule(sources=("age",), edges=(0, 18, 65, 100), levels=("child", "working", "older"))
    assert codes(schema, age=range(6)) == ["child", "child", "working", "older", "<missing>", "<missing>"]
    assert schema.derived[0].attribute(schema).ordered
    schema = with_rule(
        sources=("age",), edges=(0, 18, 65, 100), levels=("no", "yes", "no"), mapping={"refused": "unknown"}
    )
    assert codes(schema, age=range(6)) == ["no", "no", "yes", "no", "unknown", "<missing>"]
    assert not schema.derived[0].attribute(schema).ordered


def test_recode_of_dates():
    days = [datetime.date(year, 1, 1) for year in (1900, 1950, 2000, 2020)]
    schema = Schema(
        attributes=(Attribute(name="born", edges=days),),
        derived=(Derived(name="old", function="recode", sources=("born",), edges=days[::3], levels=("yes",)),),
    )
    assert codes(schema, born=[0, 1, 2]) == ["yes"] * 3


def test_the_first_case_wins():
    women, old = ("sex", Condition(levels=("F",))), ("age", Condition(above=65))
    for cases, expected in {
        (Case(when=(women,), value="w"), Case(when=(old,), value="o")): ["w", "w", "o", "rest"],
        (Case(when=(old,), value="o"), Case(when=(women,), value="w")): ["w", "o", "o", "rest"],
        (Case(when=(women, old), value="both"),): ["rest", "both", "rest", "rest"],
    }.items():
        schema = with_rule(function="cross", sources=("sex", "age"), cases=cases, default="rest")
        assert codes(schema, sex=[0, 0, 1, 3], age=[0, 3, 3, 5]) == expected


def test_sum_has_the_range_of_its_sources():
    schema = with_rule(function="sum", sources=("kids", "adults"))
    attribute = schema.derived[0].attribute(schema)
    assert (attribute.edges, attribute.integer, attribute.missing) == ((1, 20), True, False)
    assert with_rule(function="sum", sources=("kids", "age")).derived[0].attribute(PLAIN).missing
    with pytest.raises(InputError, match="has no codes"):
        schema.derived[0].codes(schema, {})


BAD = {
    "unknown function": ({"function": "mean"}, "function 'mean' is unknown"),
    "unknown source": ({"sources": ("sxe",)}, "did you mean 'sex'"),
    "no source": ({"sources": ()}, "must name attributes"),
    "a source twice": ({"function": "sum", "sources": ("kids", "kids")}, "each once"),
    "two sources of a recode": ({"sources": ("sex", "age")}, "recode is from one attribute"),
    "a level forgotten": ({"mapping": {"F": "w", "M": "m"}}, "level 'X' of 'sex' has no new level"),
    "an unknown level": ({"mapping": {"f": "w"}, "default": "m"}, "level of 'sex' 'f' is unknown"),
    "edges on levels": ({"edges": (0, 1), "levels": ("a",)}, "without edges"),
    "a bin cut": ({"sources": ("age",), "edges": (0, 7, 100), "levels": ("a", "b")}, "no bin is cut"),
    "not to the end": ({"sources": ("age",), "edges": (0, 18), "levels": ("a",)}, "no bin is cut"),
    "a level too few": ({"sources": ("age",), "edges": (0, 18, 100), "levels": ("a",)}, "one level for each bin"),
    "a bin in the map": (
        {"sources": ("age",), "edges": (0, 100), "levels": ("a",), "mapping": {"[0,6)": "b"}},
        "is unknown",
    ),
    "a default for bins": ({"sources": ("age",), "edges": (0, 100), "levels": ("a",), "default": "b"}, "leave out"),
    "mixed kinds": ({"mapping": {"F": 1, "M": "m", "X": 3}}, "all texts or all whole numbers"),
    "booleans": ({"mapping": {"F": True, "M": False, "X": False}}, "all texts or all whole numbers"),
    "a setting of another function": ({"function": "sum", "default": 1}, "'default' does not go with"),
    "a map of another function": ({"function": "sum", "mapping": {"F": 1}}, "'map' does not go with"),
    "cross without default": (
        {"function": "cross", "cases": (Case(when=(("sex", Condition(levels=("F",))),), value="w"),)},
        "needs cases and a default",
    ),
    "a case on another attribute": (
        {"function": "cross", "cases": (Case(when=(("age", Condition(above=18)),), value="w"),), "default": "m"},
        "case 1 must have conditions on",
    ),
    "a case that cuts a bin": (
        {
            "function": "cross",
            "sources": ("age",),
            "cases": (Case(when=(("age", Condition(above=7)),), value="w"),),
            "default": "m",
        },
        "case 1: above = 7 is not a bin edge",
    ),
    "sum of levels": ({"function": "sum"}, "integer = true or with decimals; 'sex' is not one"),
    "a taken name": ({"name": "age", "mapping": {"F": "w"}, "default": "m"}, "name of another"),
    "a name of nothing": ({"name": "", "mapping": {"F": "w"}, "default": "m"}, "non-empty text"),
}


@pytest.mark.parametrize("case", BAD)
def test_rules_that_cannot_be_carried_out(case):
    rule, message = BAD[case]
    with pytest.raises(SchemaError) as caught:
        with_rule(**rule)
    assert message in str(caught.value)
    assert "impossible" not in str(caught.value)


def test_names_and_chains():
    one = Derived(name="new", function="recode", sources=("sex",), mapping={"F": "w"}, default="m")
    with pytest.raises(SchemaError, match="name of another"):
        Schema(attributes=PLAIN.attributes, derived=(one, one))
    with pytest.raises(SchemaError, match="ignored"):
        Schema(attributes=PLAIN.attributes, derived=(one,), ignore=("new",))
    two = Derived(name="newer", function="recode", sources=("new",), mapping={"w": "x"}, default="y")
    with pytest.raises(SchemaError, match="is derived itself"):
        Schema(attributes=PLAIN.attributes, derived=(one, two))


def test_derived_columns_are_no_attributes():
    schema = parse_schema(TOML)
    assert schema.names == PLAIN.names
    assert schema.columns == (*PLAIN.names, "sex in words", "stage", "group", "people")
    assert schema.cells() == PLAIN.cells()
    with pytest.raises(InputError):
        schema.margin(["stage"])


def test_the_schema_file_keeps_every_rule():
    schema = parse_schema(TOML)
    again = parse_schema(write_schema(schema))
    assert again.derived == schema.derived
    assert again.fingerprint == schema.fingerprint
    assert write_schema(again) == write_schema(schema)


def test_fingerprints():
    """A schema without derived attributes keeps the fingerprint it had before there were any."""
    assert PLAIN.fingerprint == "cc3e4ea76028f414c1919c6848a4328955e4d7f1a09e21bd827d3a23a9a96754"
    schema = parse_schema(TOML)
    found = {PLAIN.fingerprint, schema.fingerprint}
    changes = [
        ("default = 0", "default = 5"),
        ('"working age"', '"working"'),
        ("value = 3", "value = 4"),
        ('label = "Sex"', 'label = "sex"'),
        ("above = 65", "above = 18"),
        ('M = "man"', 'M = "men"'),
        ('["kids", "adults"]', '["adults", "kids"]'),
    ]
    for old, new in changes:
        assert TOML.count(old) == 1
        found.add(parse_schema(TOML.replace(old, new)).fingerprint)
    assert len(found) == len(changes) + 2


BAD_FILES = {
    "unknown key": ('[[derived]]\nname = "n"\nform = ["sex"]', "did you mean 'from'"),
    "no name": ('[[derived]]\nfrom = ["sex"]', "number 1 needs a name"),
    "no from": ('[[derived]]\nname = "n"\nfunction = "sum"', "needs 'from'"),
    "no function": ('[[derived]]\nname = "n"\nfrom = ["sex"]', "needs 'function'"),
    "from is a text": ('[[derived]]\nname = "n"\nfrom = "sex"\nfunction = "sum"', "from ('sex') must be a list"),
    "from lists numbers": ('[[derived]]\nname = "n"\nfrom = [1]\nfunction = "sum"', "names of attributes"),
    "edges of texts": ('[[derived]]\nname = "n"\nfrom = ["age"]\nfunction = "recode"\nedges = ["a"]', "edges must be"),
    "levels are nested": ('[[derived]]\nname = "n"\nfrom = ["age"]\nfunction = "recode"\nlevels = [[1]]', "all texts"),
    "a case without value": (
        '[[derived]]\nname = "n"\nfrom = ["sex"]\nfunction = "cross"\ncases = [{ when = { sex = "F" } }]\ndefault = 1',
        "case 1 must be like",
    ),
    "an empty condition": (
        '[[derived]]\nname = "n"\nfrom = ["sex"]\nfunction = "cross"\n'
        "cases = [{ when = { sex = [] }, value = 1 }]\ndefault = 1",
        "empty condition",
    ),
    "one bracket": ('[derived]\nname = "n"', "two pairs of brackets"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_schema_files_that_are_refused(case):
    text, message = BAD_FILES[case]
    with pytest.raises(SchemaError) as caught:
        parse_schema(f"{TOML[: TOML.index('[[derived]]')]}{text}", "people.toml")
    assert message in str(caught.value)
    assert str(caught.value).startswith("people.toml: ")


def test_sources_that_are_one_text_are_refused():
    with pytest.raises(SchemaError, match="from must be a list"):
        Derived(name="adult", function="recode", sources="age")
