"""What must be answerable: lines become tables, and bad lines are named."""

from __future__ import annotations

import pytest

import understudy as us
from understudy.core.schema_file import parse_schema, write_schema
from understudy.core.workload import lines_of, needs_of, read_needs, required_tables
from understudy.errors import InputError, SchemaError, UnknownNameError

SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="age", edges=(0, 20, 40, 60, 80, 99)),
        us.Attribute(name="smokes", levels=("no", "yes")),
        us.Attribute(name="my region", levels=tuple("abcdefgh")),
    )
)
FILE = """version = 1
[[attribute]]
name = "sex"
levels = ["F", "M"]
always_measure = true
[[attribute]]
name = "my region"
levels = ["a", "b"]
[[attribute]]
name = "class"
levels = ["x", "y"]
[[workload]]
table = ["sex", "my region"]
[[workload]]
question = "proportion(sex == 'F', where=`class` == 'x')"
[[workload]]
predict = "class"
"""


def tables(*lines):
    return required_tables(SCHEMA, read_needs(SCHEMA, lines))


def test_a_question_needs_one_table_of_its_attributes():
    assert tables("mean(age, where=sex == 'F')") == (("sex", "age"),)
    assert tables("crosstab(smokes, sex)") == (("sex", "smokes"),)
    assert tables("proportion(sex == 'F') - proportion(smokes == 'yes')") == (("sex", "smokes"),)


def test_predicting_and_marking_mean_pairs_with_all_others():
    star = {("sex", "smokes"), ("age", "smokes"), ("smokes", "my region")}
    assert set(tables("predict(smokes)")) == star
    marked = us.Schema(
        attributes=tuple(
            us.Attribute(name=one.name, levels=one.levels, edges=one.edges, always_measure=one.name == "smokes")
            for one in SCHEMA.attributes
        )
    )
    assert set(required_tables(marked, needs_of(marked))) == star


def test_all_pairs():
    assert len(tables("pairs()")) == 6
    assert tables("pairs(sex, age)") == (("sex", "age"),)
    with pytest.raises(InputError, match="or several"):
        tables("pairs(sex)")


def test_a_table_is_spared_by_one_that_is_measured_and_not_by_one_that_is_spared_itself():
    """sex was left out for sex x smokes, which was left out for the table of three: four cells in each of its sums."""
    small = us.Schema(attributes=tuple(us.Attribute(name=name, levels=("x", "y")) for name in "abc"))
    lines = ["crosstab(a)", "crosstab(a, b)", "crosstab(a, b, c)"]
    assert required_tables(small, read_needs(small, lines)) == (("a",), ("a", "b", "c"))
    assert required_tables(small, read_needs(small, lines[:2])) == (("a", "b"),)


def test_a_linear_regression_of_large_attributes_needs_pairs_only():
    """The cross-products of its columns are sums over pairs; one table of everything would be noisier."""
    found = tables("age ~ `my region` + sex + smokes")
    assert set(found) == {
        ("sex", "age"), ("age", "smokes"), ("age", "my region"), ("sex", "smokes"), ("sex", "my region"),
        ("smokes", "my region"),
    }  # fmt: skip


def test_a_small_regression_needs_one_table():
    assert tables("smokes ~ sex") == (("sex", "smokes"),)
    small = us.Schema(attributes=tuple(us.Attribute(name=name, levels=("x", "y")) for name in "abc"))
    assert required_tables(small, read_needs(small, ["a ~ b + c"])) == (("a", "b", "c"),)


def test_the_score_of_a_logit_needs_how_predictors_go_together():
    found = tables("smokes ~ age + `my region`")
    assert any({"age", "my region"} <= set(table) for table in found)


def test_a_table_that_another_nearly_is_is_left_out():
    assert tables("crosstab(sex, age)", "proportion(age < 40)") == (("sex", "age"),)
    assert tables("crosstab(age, `my region`)", "proportion(age < 40)") == (("age", "my region"), ("age",))


def test_lines_have_remarks_and_are_read_once():
    assert lines_of("# yearbook\n\n a(b) \na(b)\n") == ("a(b)",)


@pytest.mark.parametrize(
    ("line", "error", "told"),
    [
        ("crosstab(sex, smoke)", UnknownNameError, "did you mean 'smokes'"),
        ("predict(sexx)", UnknownNameError, "did you mean 'sex'"),
        ("predict(sex, age)", InputError, "one outcome"),
        ("mean(sex)", InputError, "levels, not numbers"),
        ("the age of men", InputError, "cannot be read"),
        ("kurtosis(age)", UnknownNameError, "question"),
        ("age ~ height", InputError, "'height' is unknown"),
    ],
)
def test_a_bad_line_is_named(line, error, told):
    with pytest.raises(error, match=told) as problem:
        read_needs(SCHEMA, [line])
    assert line in str(problem.value)


def test_a_schema_file_says_what_must_be_answerable_and_is_written_back():
    schema = parse_schema(FILE)
    assert schema["sex"].always_measure
    assert set(required_tables(schema, needs_of(schema))) == {
        ("sex", "my region"), ("sex", "class"), ("my region", "class"),
    }  # fmt: skip
    assert parse_schema(write_schema(schema)).fingerprint == schema.fingerprint
    other = parse_schema(FILE.replace('predict = "class"', 'predict = "sex"'))
    assert other.fingerprint != schema.fingerprint


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (('table = ["sex", "my region"]', 'table = ["sex", "regio"]'), "regio"),
        (('table = ["sex", "my region"]', 'table = "sex"'), "list of attributes"),
        (('predict = "class"', "predict = 3"), "must be a text"),
        (('predict = "class"', 'predict = "class"\ntable = ["sex"]'), "must have one of"),
        (('predict = "class"', 'forecast = "class"'), "forecast"),
        (("always_measure = true", 'always_measure = "yes"'), "true or false"),
    ],
)
def test_a_bad_workload_is_refused_when_the_schema_is_read(change, told):
    with pytest.raises(SchemaError, match=told):
        parse_schema(FILE.replace(*change))
