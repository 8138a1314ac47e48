"""Schema files: every field, the round trip, and every way to get one wrong."""

from __future__ import annotations

import datetime
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.core.schema import Attribute, Schema
from understudy.core.schema_file import parse_schema, read_schema, write_schema
from understudy.core.structural_zeros import Condition, Impossible
from understudy.errors import InputError, SchemaError

DESIGN = """
version = 1
[[attribute]]
name = "sex"
levels = ["F", "M"]
label = "Sex at registration"
level_labels = ["female", "male"]
[[attribute]]
name = "age"
edges = [16, 28, 42, 54, 64, 97]
integer = true
outside = "clip"
missing = true
[[attribute]]
name = "income"
edges = [1.5, 860, 1200, 1500, 2000, 16000]
special = { -8 = "not applicable", "-7.5" = "refused" }
density = "log"
[[attribute]]
name = "marital"
levels = ["single", "married", "widowed"]
ordered = true
[[attribute]]
name = "born"
edges = [1930-01-01, 1980-01-01, 2010-12-31]
special = { 1900-01-01 = "unknown" }
outside = "missing"
missing = true
[[attribute]]
name = "children"
levels = [0, 1, 2]
[[attribute]]
name = "smokes"
levels = [false, true]
[[impossible]]
age = { below = 28 }
marital = ["widowed"]
[[impossible]]
age = "<missing>"
income = ["not applicable", -7.5]
born = { above = 1980-01-01 }
[[impossible]]
marital = { above = "married" }
children = { levels = [2] }
smokes = [true]
[[ignore]]
columns = ["hhid", "name"]
[[ignore]]
columns = ["street"]
"""


def test_every_field_of_the_design_is_read():
    schema = parse_schema(DESIGN)
    assert schema.names == ("sex", "age", "income", "marital", "born", "children", "smokes")
    assert schema["sex"] == Attribute(
        name="sex", levels=("F", "M"), label="Sex at registration", level_labels=("female", "male")
    )
    assert schema["age"] == Attribute(
        name="age", edges=(16, 28, 42, 54, 64, 97), integer=True, outside="clip", missing=True
    )
    assert schema["income"].special == ((-8, "not applicable"), (-7.5, "refused"))
    assert schema["income"].density == "log"
    assert schema["marital"].ordered
    assert schema["born"].edges[0] == datetime.date(1930, 1, 1)
    assert schema["born"].special == ((datetime.date(1900, 1, 1), "unknown"),)
    assert schema["born"].outside == "missing"
    assert schema["children"].levels == (0, 1, 2)
    assert schema["smokes"].levels == (False, True)
    assert schema.ignore == ("hhid", "name", "street")
    assert schema.impossible[0].codes(schema) == {"age": (0,), "marital": (2,)}
    assert schema.impossible[1].codes(schema) == {"age": (5,), "income": (5, 6), "born": (1,)}
    assert schema.impossible[2].codes(schema) == {"marital": (1, 2), "children": (2,), "smokes": (1,)}


def test_round_trip_of_the_design():
    schema = parse_schema(DESIGN)
    again = parse_schema(write_schema(schema))
    assert again == schema
    assert again.fingerprint == schema.fingerprint


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = texts.filter(lambda text: text and not text.startswith("<"))


@st.composite
def attributes(draw, name):
    missing = draw(st.booleans())
    common = {"name": name, "missing": missing, "label": draw(texts), "ordered": draw(st.booleans())}
    kind = draw(st.sampled_from(["text", "whole", "boolean", "real", "integer", "date"]))
    outside = draw(st.sampled_from(["error", "missing" if missing else "error"]))
    if kind in ("text", "whole", "boolean"):
        values = {"text": texts.filter(lambda t: t != "<missing>"), "whole": st.integers(-(2**63), 2**63 - 1)}
        levels = draw(st.lists(values.get(kind, st.booleans()), min_size=1, max_size=4, unique=True))
        labels = draw(st.sampled_from([(), tuple(f"label {i}" for i in range(len(levels)))]))
        return Attribute(**common, levels=tuple(levels), level_labels=labels, outside=outside)
    numbers = {
        "real": st.floats(allow_nan=False, allow_infinity=False, width=32),
        "integer": st.integers(-(2**53), 2**53),
        "date": st.dates(),
    }[kind]
    drawn = sorted(draw(st.lists(numbers, min_size=3, max_size=6, unique_by=lambda v: v or 0)))
    return Attribute(
        **common,
        edges=tuple(drawn[1:]),
        integer=kind == "integer",
        outside=draw(st.sampled_from([outside, "clip"])),
        special=((drawn[0], "special"),),
    )


@st.composite
def schemas(draw):
    chosen = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    parts = tuple(draw(attributes(name)) for name in chosen)
    rules = []
    first = parts[0]
    if draw(st.booleans()):
        listed = first.levels[:1] if first.levels else ("special",)
        bounds = {"below": first.edges[1], "above": first.edges[-2]} if first.edges and draw(st.booleans()) else {}
        rules.append(Impossible(conditions=((first.name, Condition(levels=listed, **bounds)),)))
    ignore = draw(st.lists(texts.filter(lambda text: text not in chosen), max_size=2))
    return Schema(attributes=parts, impossible=tuple(rules), ignore=tuple(ignore))


@given(schemas())
@settings(max_examples=150, deadline=None)
def test_round_trip_keeps_the_fingerprint(schema):
    again = parse_schema(write_schema(schema))
    assert again.fingerprint == schema.fingerprint
    assert again == schema


def one(lines: str) -> str:
    return f'version = 1\n[[attribute]]\nname = "age"\n{lines}\n'


BAD = {
    "no version": ('[[attribute]]\nname = "a"\nlevels = ["x"]', "version = 1"),
    "other version": ('version = 2\n[[attribute]]\nname = "a"\nlevels = ["x"]', "version (2)"),
    "version true": ('version = true\n[[attribute]]\nname = "a"\nlevels = ["x"]', "version (True)"),
    "draft": ('version = 1\ndraft = true\n[[attribute]]\nname = "a"\nlevels = ["x"]', "review"),
    "draft text": ('version = 1\ndraft = "yes"\n[[attribute]]\nname = "a"\nlevels = ["x"]', "draft ('yes')"),
    "no attribute": ("version = 1", "at least one attribute"),
    "typo in a top key": ("version = 1\n[[atribute]]", "did you mean 'attribute'?"),
    "typo in a key": (one('levls = ["a"]'), "attribute 'age': key 'levls' is unknown; did you mean 'levels'?"),
    "typo in outside": (one('edges = [0, 1]\noutside = "clp"'), "did you mean 'clip'?"),
    "typo in density": (one('edges = [1, 2]\ndensity = "logs"'), "did you mean 'log'?"),
    "typo in an impossible attribute": (one('levels = ["a"]') + '[[impossible]]\nagge = ["a"]', "did you mean 'age'?"),
    "typo in an impossible level": (
        one('levels = ["adult"]') + '[[impossible]]\nage = ["adlt"]',
        "did you mean 'adult'?",
    ),
    "typo in a bound": (one("edges = [0, 1]") + "[[impossible]]\nage = { bellow = 1 }", "did you mean 'below'?"),
    "bound outside the edges": (one("edges = [0, 10]") + "[[impossible]]\nage = { below = 15 }", "not a bin edge"),
    "bound of a wrong type": (one("edges = [0, 10]") + "[[impossible]]\nage = { below = [0] }", "below of 'age'"),
    "impossible list of lists": (one("edges = [0, 10]") + "[[impossible]]\nage = [[0]]", "must list values"),
    "typo in ignore": (one("edges = [0, 10]") + '[[ignore]]\ncolums = ["a"]', "did you mean 'columns'?"),
    "ignore text": (one("edges = [0, 10]") + '[[ignore]]\ncolumns = "a"', "list of texts"),
    "single brackets": ('version = 1\n[attribute]\nname = "a"', "two pairs of brackets"),
    "no name": ('version = 1\n[[attribute]]\nlevels = ["a"]', "attribute number 1 has no name"),
    "name a number": ('version = 1\n[[attribute]]\nname = 3\nlevels = ["a"]', "attribute number 1"),
    "levels text": (one('levels = "F"'), "attribute 'age': levels ('F') must be a list"),
    "levels floats": (one("levels = [1.5]"), "attribute 'age': levels"),
    "levels mixed": (one('levels = [1, "a"]'), "all strings, all integers or all booleans"),
    "levels huge": (one("levels = [9223372036854775808]"), "64 bits"),
    "edges text": (one('edges = ["0", "1"]'), "attribute 'age': edges"),
    "edges infinite": (one("edges = [0, inf]"), "finite"),
    "edges huge": (one(f"edges = [0, 1{'0' * 400}]"), "2^53"),
    "edges with time": (one("edges = [2020-01-01T00:00:00, 2021-01-01T00:00:00]"), "time of day"),
    "edges mixed": (one("edges = [2020-01-01, 3]"), "all numbers or all dates"),
    "missing text": (one('edges = [0, 1]\nmissing = "yes"'), "attribute 'age': missing ('yes') must be true or false"),
    "label number": (one("edges = [0, 1]\nlabel = 3"), "attribute 'age': label (3) must be a text"),
    "special list": (one("edges = [0, 1]\nspecial = [3]"), "attribute 'age': special"),
    "special label number": (one("edges = [0, 1]\nspecial = { -8 = 3 }"), "attribute 'age': special"),
    "special word with spaces": (one('edges = [0, 1]\nspecial = { " N" = "x" }'), "special code ' N' must be a text"),
    "special word of nothing": (one('edges = [0, 1]\nspecial = { "" = "x" }'), "special code '' must be a text"),
    "special word that is a number": (one('edges = [0, 1]\nspecial = { nan = "x" }'), "must be finite"),
    "too many digits": (f"version = {'9' * 5000}", "too many digits"),
    "edges too far apart": (one("edges = [-1e308, 1e308]"), "between -1e+300 and 1e+300"),
    "integer edges beyond whole doubles": (one("edges = [0, 1e300]\ninteger = true"), "2^53"),
    "integer with a broken special code": (one('edges = [0, 9]\ninteger = true\nspecial = { "-8.5" = "x" }'), "whole"),
    "special infinite": (one('edges = [0, 1]\nspecial = { inf = "x" }'), "finite"),
    "special not a date": (one('edges = [2020-01-01, 2021-01-01]\nspecial = { -8 = "x" }'), "must be a date"),
    "syntax": ('version = 1\n[[attribute]]\nname = "a\n', "line 3"),
    "syntax at the end": ("version = 1\n[[attribute]]\nlevels = [", "line 3"),
    "nested deeply": (f"version = {'[' * 5000}", "nested"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_schemas_say_what_is_wrong(case):
    text, message = BAD[case]
    with pytest.raises(SchemaError) as caught:
        parse_schema(text, "people.toml")
    assert message in str(caught.value)
    assert str(caught.value).startswith("people.toml")


def test_a_reviewed_draft_is_read():
    assert parse_schema('version = 1\ndraft = false\n[[attribute]]\nname = "a"\nlevels = ["x"]').names == ("a",)


def test_files(tmp_path):
    path = tmp_path / "people.toml"
    path.write_bytes(b"\xef\xbb\xbf" + DESIGN.encode())
    assert read_schema(path).fingerprint == parse_schema(DESIGN).fingerprint
    with pytest.raises(InputError, match="does not exist"):
        read_schema(tmp_path / "other.toml")
    with pytest.raises(InputError, match="is a directory"):
        read_schema(tmp_path)
    path.write_bytes(b"version = 1\nname = '\xff'")
    with pytest.raises(InputError, match=r"not UTF-8 text \(line 2\)"):
        read_schema(path)


def test_control_characters_survive():
    awkward = string.printable + "\x7f\x00\x1f\u2028é😀"
    schema = Schema(attributes=(Attribute(name=awkward, levels=(awkward, "b")),))
    assert parse_schema(write_schema(schema)) == schema


def test_text_that_is_not_unicode_cannot_be_written():
    with pytest.raises(SchemaError, match="not valid Unicode"):
        write_schema(Schema(attributes=(Attribute(name="a", levels=("\ud800",)),)))


def test_a_tree_or_distances_of_levels_are_read_written_and_checked():
    text = """version = 1
[[attribute]]
name = "job"
levels = ["nurse", "doctor", "actor"]
tree = ["health/nurse", "health/doctor", "arts/actor"]
[[attribute]]
name = "town"
levels = ["a", "b"]
distances = [[0, 2.5], [2.5, 0]]
"""
    schema = parse_schema(text)
    assert schema["job"].apart()[0] == (0.0, 2.0, 4.0)
    assert schema["town"].apart() == ((0.0, 2.5), (2.5, 0.0))
    assert parse_schema(write_schema(schema)).fingerprint == schema.fingerprint
    assert parse_schema(text.replace("arts/", "health/")).fingerprint != schema.fingerprint
    for old, new, says in (
        ('"arts/actor"]', '"x", "y"]', "a path"),
        ("2.5, 0]", "1.5, 0]", "the same both ways"),
        ("[[0, 2.5], [2.5, 0]]", "[[0, 2.5]]", "2 lists of 2"),
        ('"arts/actor"]', '"arts/actor"]\nordered = true', "not ordered"),
    ):
        with pytest.raises(SchemaError, match=says):
            parse_schema(text.replace(old, new))
