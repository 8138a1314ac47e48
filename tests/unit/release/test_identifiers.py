"""Identifiers and free text: never read, said in the release, and faked by a public pattern on request."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import understudy as us
from understudy.core.schema_file import parse_schema, write_schema
from understudy.errors import SchemaError

SCHEMA = us.Schema(
    attributes=(us.Attribute(name="sex", levels=("F", "M")),),
    derived=(us.Derived(name="who", sources=("sex",), function="recode", mapping={"F": "woman", "M": "man"}),),
    identifiers=(us.Identifier(name="hhid", fake="H-###@"), us.Identifier(name="remarks")),
)
PURE = us.PureDP(epsilon=1)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(1)
    who = [f"person {number}" for number in range(300)]
    return pd.DataFrame({"sex": rng.choice(["F", "M"], 300), "hhid": who, "remarks": [f"text of {one}" for one in who]})


@pytest.fixture(scope="module")
def folder(people, tmp_path_factory):
    out = tmp_path_factory.mktemp("identifiers") / "release"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        us.synthesize(people, schema=SCHEMA, budget=PURE, out=out, csv=True)
    return out


def test_fakes_have_the_pattern_and_differ(folder):
    release = us.read_release(folder)
    frame = release.to_pandas()
    assert list(frame.columns) == ["sex", "who", "hhid"]
    assert frame.hhid.str.fullmatch(r"H-\d{3}[A-Z]").all()
    assert frame.hhid.is_unique
    assert all(check.passed for check in us.verify(folder))
    assert us.sample(release, rows=20).to_pandas().hhid.is_unique


def test_the_release_says_what_was_left_out_and_holds_nothing_of_it(folder):
    readme = (folder / "README.md").read_text()
    assert "Left out, as identifiers or free text, and not read: `remarks`." in readme
    assert "fakes by the pattern" in readme
    assert "hhid,,fake,H-###@" in (folder / "codebook.csv").read_text()
    for file in folder.iterdir():
        assert b"person 1" not in file.read_bytes()


def test_fakes_do_not_depend_on_the_data(people, folder):
    other = people.assign(hhid="somebody", remarks=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = us.synthesize(other, schema=SCHEMA, budget=PURE)
        without = us.synthesize(people[["sex"]], schema=SCHEMA, budget=PURE)
    for release in (again, without):
        assert release.to_pandas().hhid.tolist() == us.read_release(folder).to_pandas().hhid.tolist()


def test_everything_else_goes_on(people, folder, tmp_path):
    release = us.read_release(folder)
    assert us.infer(release, "proportion(sex == 'F')").low > 0
    us.evaluate(release, confidential=people, parts=("utility",))
    us.export(folder, to="csv", out=tmp_path / "export")
    assert "hhid" not in pd.read_csv(tmp_path / "export" / "synthetic_1.csv").columns


def test_the_file_says_the_same():
    again = parse_schema(write_schema(SCHEMA))
    assert again == SCHEMA
    assert again.fingerprint == SCHEMA.fingerprint
    assert us.Schema(attributes=SCHEMA.attributes, derived=SCHEMA.derived).fingerprint != SCHEMA.fingerprint


@pytest.mark.parametrize(("pattern", "rows"), [("#", 25), ("@@@@@@@@@@", 50), ("x#", 10), ("#" * 18, 1000)])
def test_fakes_differ_as_far_as_the_pattern_goes(pattern, rows):
    made = us.Identifier(name="id", fake=pattern).fakes(rows)
    assert len(set(made)) == min(rows, us.Identifier(name="id", fake=pattern).different)
    assert {len(one) for one in made} == {len(pattern)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[identifier]]\nname = "sex"', "no other column"),
        ('[[identifier]]\nname = "a"\nfake = "abc"', "needs a #"),
        ('[[identifier]]\nname = "a"\nfake = "###################"', "different texts"),
        ('[[identifier]]\nfake = "#"', "has no name"),
        ('[[identifier]]\nname = "a"\npattern = "#"', "pattern"),
        ('[[identifier]]\nname = 3', "non-empty text"),
        ('[[identifier]]\nname = "a"\n[[identifier]]\nname = "a"', "no other column"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(text, said):
    with pytest.raises(SchemaError, match=said):
        parse_schema('version = 1\n[[attribute]]\nname = "sex"\nlevels = ["F", "M"]\n' + text)
