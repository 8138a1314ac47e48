"""Rules between columns: what they forbid, against brute force over every value."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import understudy as us
from understudy.core.rules import bin_ends, limits_of, lowest_pair
from understudy.core.schema_file import parse_schema, write_schema
from understudy.errors import SchemaError, UnderstudyError


def numbers(name, edges, **more):
    return us.Attribute(name=name, edges=edges, integer=True, **more)


def keeps(rule, values):
    """Whether values, by name, keep a rule."""
    if isinstance(rule, us.Order):
        listed = [values[name] for name in rule.attributes]
        return listed == sorted(listed)
    one, other = (values[name] for name in rule.attributes)
    low = rule.at_least is None or one * 1000 >= round(rule.at_least * 1000) * other
    return low and (rule.at_most is None or one * 1000 <= round(rule.at_most * 1000) * other)


SCHEMAS = {
    "an order": us.Schema(
        attributes=(numbers("a", (0, 3, 6, 10)), numbers("b", (0, 2, 7, 9), missing=True)),
        rules=(us.Order(attributes=("a", "b")),),
    ),
    "a chain": us.Schema(
        attributes=(numbers("a", (0, 3, 7)), numbers("b", (0, 4, 6)), numbers("c", (0, 2, 5))),
        rules=(us.Order(attributes=("a", "b", "c")),),
    ),
    "one below two": us.Schema(
        attributes=(numbers("a", (0, 3, 7)), numbers("b", (0, 4, 6)), numbers("c", (0, 2, 5))),
        rules=(us.Order(attributes=("a", "b")), us.Order(attributes=("a", "c"))),
    ),
    "a ratio below": us.Schema(
        attributes=(numbers("a", (0, 2, 5, 9)), numbers("b", (0, 3, 8))),
        rules=(us.Ratio(attributes=("a", "b"), at_most=0.4),),
    ),
    "a narrow ratio": us.Schema(
        attributes=(numbers("a", (0, 2, 5, 9)), numbers("b", (1, 3, 8, 12))),
        rules=(us.Ratio(attributes=("a", "b"), at_least=0.5, at_most=0.55),),
    ),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_cell_is_impossible_exactly_if_no_values_of_its_bins_keep_the_rules(name):
    schema = SCHEMAS[name]
    allowed = schema.allowed()
    ends = [bin_ends(attribute) for attribute in schema.attributes]
    for cell in product(*(range(attribute.bins) for attribute in schema.attributes)):
        ranges = [range(ends[place][code][0], ends[place][code][1] + 1) for place, code in enumerate(cell)]
        possible = any(
            all(keeps(rule, dict(zip(schema.names, values, strict=True))) for rule in schema.rules)
            for values in product(*ranges)
        )
        assert allowed[cell] == possible, cell


def test_what_is_missing_obeys_every_order():
    assert SCHEMAS["an order"].allowed()[:, -1].all()


def test_the_lowest_pair_is_the_lowest():
    rng = np.random.default_rng(3)
    for _ in range(60):
        low, high = sorted(rng.choice(np.arange(1, 40), 2, replace=False) / 20)
        rule = us.Ratio(attributes=("a", "b"), at_least=float(low), at_most=float(high))
        schema = us.Schema(attributes=(numbers("a", (0, 500)), numbers("b", (0, 500))), rules=(rule,))
        one, other = (tuple(sorted(map(int, rng.integers(0, 40, 2)))) for _ in range(2))
        pairs = [
            pair for pair in product(range(one[0], one[1] + 1), range(other[0], other[1] + 1))
            if keeps(rule, dict(zip("ab", pair, strict=True)))
        ]  # fmt: skip
        found = lowest_pair(one, other, limits_of(schema), ("a", "b"))
        assert found == ((min(a for a, _ in pairs), min(b for _, b in pairs)) if pairs else None)


def test_whoever_is_not_asked_has_no_value():
    schema = parse_schema(
        'version = 1\n[[attribute]]\nname = "sex"\nlevels = ["f", "m"]\n'
        '[[attribute]]\nname = "age"\nedges = [0, 20, 50]\ninteger = true\n'
        '[[attribute]]\nname = "births"\nlevels = [0, 1]\nmissing = true\n'
        '[[rule]]\nasked = "births"\nasked_if = { sex = "f", age = { above = 15 } }\n'
    )
    assert schema["age"].edges == (0, 15, 20, 50)  # a condition names any number
    allowed = schema.allowed()
    for sex, age, births in np.ndindex(*allowed.shape):
        assert allowed[sex, age, births] == (births == 2 or (sex == 0 and age > 0))
    assert parse_schema(write_schema(schema)).fingerprint == schema.fingerprint


@pytest.mark.parametrize("if_missing", ["open", "not asked"])
def test_who_was_not_asked_about_a_job_is_not_asked_about_its_wage(if_missing):
    schema = parse_schema(
        'version = 1\n[[attribute]]\nname = "job"\nlevels = ["no", "yes"]\nmissing = true\n'
        '[[attribute]]\nname = "wage"\nlevels = [0, 1]\nmissing = true\n'
        f'[[rule]]\nasked = "wage"\nasked_if = {{ job = "yes" }}\nif_missing = "{if_missing}"\n'
    )
    allowed = schema.allowed()
    for job, wage in np.ndindex(*allowed.shape):
        assert allowed[job, wage] == (wage == 2 or job == 1 or (job == 2 and if_missing == "open"))
    again = parse_schema(write_schema(schema))
    assert again == schema
    assert again.fingerprint == schema.fingerprint


def test_what_follows_from_a_missing_value_is_one_of_two():
    with pytest.raises(SchemaError, match="did you mean 'not asked'"):
        us.Asked(attributes="wage", conditions={"job": us.Condition(levels=("yes",))}, if_missing="not-asked")


def test_another_level_than_missing():
    schema = us.Schema(
        attributes=(
            us.Attribute(name="works", levels=("no", "yes")),
            us.Attribute(name="hours", edges=(0, 20, 60), integer=True, special={-8: "not asked"}),
        ),
        rules=(
            us.Asked(attributes="hours", conditions={"works": us.Condition(levels=("yes",))}, otherwise="not asked"),
        ),
    )
    assert schema.allowed().tolist() == [[False, False, True], [True, True, True]]


def test_rules_survive_a_file_and_change_the_fingerprint():
    for schema in SCHEMAS.values():
        again = parse_schema(write_schema(schema))
        assert again == schema
        assert again.fingerprint == schema.fingerprint != schema.without_rules.fingerprint
        assert [rule.describe() for rule in again.rules] == [rule.describe() for rule in schema.rules]


A, B, C = numbers("a", (0, 10)), numbers("b", (0, 10)), numbers("c", (0, 10))
WRONG = {
    "make 'a' and 'b' equal": ((A, B), (us.Order(attributes=("a", "b")), us.Order(attributes=("b", "a")))),
    "no values of 'a' and 'd' keep": ((A, numbers("d", (-9, -1))), (us.Order(attributes=("a", "d")),)),
    "contradict each other": (
        (A, B),
        (us.Ratio(attributes=("a", "b"), at_most=0.5), us.Order(attributes=("b", "a"))),
    ),
    "column 'z' is ignored": ((A, B), (us.Order(attributes=("a", "z")),)),
    "has levels": ((A, us.Attribute(name="l", levels=("x", "y"))), (us.Order(attributes=("a", "l")),)),
    "needs integer = true, or decimals": (
        (A, us.Attribute(name="r", edges=(0.0, 1.0))), (us.Order(attributes=("a", "r")),),
    ),
    "lies among its numbers": ((A, numbers("s", (0, 99), special={50: "x"})), (us.Order(attributes=("a", "s")),)),
    "cannot be negative": ((A, numbers("n", (-5, 5))), (us.Ratio(attributes=("a", "n"), at_most=2),)),
    "two rules limit a by b": ((A, B), (us.Order(attributes=("a", "b")), us.Ratio(attributes=("a", "b"), at_most=2))),
    "form a chain": ((A, B, C), (us.Ratio(attributes=("a", "b"), at_most=2), us.Order(attributes=("b", "c")))),
    "write missing = true": ((A, B), (us.Asked(attributes="a", conditions={"b": us.Condition(above=5)}),)),
    "on a condition about itself": (
        (numbers("m", (0, 9), missing=True),),
        (us.Asked(attributes="m", conditions={"m": us.Condition(above=5)}),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("says", WRONG)
def test_rules_that_cannot_be(says):
    attributes, rules = WRONG[says]
    with pytest.raises(SchemaError, match=says):
        us.Schema(attributes=attributes, rules=rules, ignore=("z",))


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('order = ["a", "q"]', "q"),
        ("order = 3", "list of names"),
        ('order = ["a"]', "at least two"),
        ('ratio = ["a", "b"]', "give at_least, at_most or both"),
        ('ratio = ["a", "b"]\nat_most = -1', "above 0"),
        ('ratio = ["a", "b"]\nat_most = 1\nat_least = 2', "at_least must be below at_most"),
        ('asked = "a"', "say who is asked"),
        ('sum = ["a"]', "must have asked"),
        ('order = ["a", "b"]\nat_most = 1', "at_most"),
    ],
)
def test_rules_that_cannot_be_read(table, says):
    attributes = "".join(f'[[attribute]]\nname = "{name}"\nedges = [0, 9]\ninteger = true\n' for name in "ab")
    with pytest.raises(UnderstudyError, match=says):
        parse_schema(f"version = 1\n{attributes}[[rule]]\n{table}\n")


def test_a_rule_that_no_values_within_the_bounds_can_obey_is_refused():
    low = us.Attribute(name="low", bounds=(0, 10), integer=True)
    both = (low, us.Attribute(name="high", bounds=(20, 30), integer=True))
    assert us.Schema(attributes=both, rules=(us.Order(attributes=("low", "high")),)).rules
    with pytest.raises(SchemaError, match="can never hold"):
        us.Schema(attributes=both, rules=(us.Order(attributes=("high", "low")),))
    with pytest.raises(SchemaError, match="can never hold"):
        us.Schema(attributes=both, rules=(us.Ratio(attributes=("high", "low"), at_most=1.5),))
