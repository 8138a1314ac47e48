"""The grammar of questions: what it reads, what it refuses, and that it never runs anything."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

import understudy as us
from understudy.core.bins import bins_of
from understudy.core.derived_attributes import Derived
from understudy.core.questions import parse_question
from understudy.core.regression_terms import Factor
from understudy.errors import InputError, UnknownNameError, UnsupportedError
from understudy.inference.estimands import make_estimand


def truth(schema, condition: str) -> list[int]:
    """Which cells of its margin a condition holds for."""
    question = parse_question(f"count({condition})", schema)
    atom = question.atoms[0]
    grid = np.indices(schema.shape(schema.margin(atom.used)))
    codes = {name: grid[place].ravel() for place, name in enumerate(schema.margin(atom.used))}
    return np.flatnonzero(atom.condition.truth(codes)).tolist()


@pytest.mark.parametrize(
    ("condition", "cells"),
    [
        ("sex == 'F'", [0]),
        ("sex != 'F'", [1]),
        ("age < 42", [0, 1]),
        ("age <= 41", [0, 1]),
        ("age >= 42", [2, 3, 4]),
        ("age > 41", [2, 3, 4]),
        ("42 <= age", [2, 3, 4]),
        ("28 <= age < 54", [1, 2]),
        ("age <= 97", [0, 1, 2, 3, 4]),
        ("age < 16", []),
        ("age > 200", []),
        ("age == '[16,28)'", [0]),
        ("health < 'good'", [0, 1]),
        ("health >= 'fair'", [1, 2]),
        ("health in ['bad', 'good']", [0, 2]),
        ("health not in ('bad',)", [1, 2]),
        ("missing(smokes)", [2]),
        ("not missing(smokes)", [0, 1]),
        ("sex == 'F' and not health == 'bad'", [1, 2]),
        ("sex == 'F' or health == 'bad'", [0, 1, 2, 3]),
        ("`sex` == 'F'", [0]),
    ],
)
def test_conditions(condition, cells, schema):
    assert truth(schema, condition) == cells


@pytest.mark.parametrize(
    ("question", "kind", "used"),
    [
        ("proportion(sex == 'F')", "proportion", ("sex",)),
        ("count(age < 42, where=sex == 'F')", "count", ("age", "sex")),
        ("median(age)", "quantile", ("age",)),
        ("difference(mean(age, where=sex == 'F'), mean(age, where=sex == 'M'))", "difference", ("age", "sex")),
        ("proportion(sex == 'F') - proportion(health == 'bad')", "difference", ("sex", "health")),
        ("crosstab(sex, smokes)", "crosstab", ("sex", "smokes")),
        ("association(sex, smokes, where=age < 28)", "association", ("sex", "smokes", "age")),
        ("age ~ sex", "linear", ("age", "sex")),
        ("smokes ~ log(age) + sex", "logit", ("smokes", "age", "sex")),
        ("health ~ sex", "ordered", ("health", "sex")),
    ],
)
def test_questions(question, kind, used, schema):
    parsed = parse_question(question, schema)
    assert (parsed.kind, parsed.used) == (kind, used)


def test_a_subgroup_for_any_question(schema):
    parsed = parse_question("age ~ sex", schema, where="health == 'good'")
    assert set(parsed.used) == {"health", "age", "sex"}
    both = parse_question("mean(age, where=sex == 'F')", schema, where="health == 'good'")
    assert set(both.used) == {"age", "sex", "health"}


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ("", "must be a text"),
        ("proportion(", "a bracket is opened and not closed"),
        ("mean(age))", "a bracket is closed too often"),
        ("mean(age) where sex == 'F'", "cannot be read from 'where sex"),
        ("avg(age)", "it is called 'mean'"),
        ("prop(sex == 'F')", "it is called 'proportion'"),
        ("sex", "not a question"),
        ("proportoin(sex == 'F')", "did you mean 'proportion'"),
        ("proportion(sexx == 'F')", "did you mean 'sex'"),
        ("proportion(sex == 'W')", "Known: F, M"),
        ("proportion(sex == F)", "put levels in quotes, as in sex == 'F'"),
        ("proportion(sex == smokes)", "levels in quotes"),
        ("proportion(sex)", "a condition was expected"),
        ("mean(age, where=age < 30)", "cuts through a bin"),
        ("crosstab(sex, where=age == 30)", "single values"),
        ("proportion(age == 3000)", "lies between"),
        ("proportion(age == 30.5)", "no value that the schema allows"),
        ("proportion(age < 16)", "no value that the schema allows"),
        ("proportion(age < 'x')", "compared with a number"),
        ("proportion(sex < 'M')", "have no order"),
        ("proportion(missing(sex))", "no missing values"),
        ("proportion(smokes == '<missing>')", r"missing\(smokes\)"),
        ("mean(sex)", "has levels"),
        ("quantile(age)", "an attribute and a share"),
        ("quantile(age, 2)", "between 0 and 1"),
        ("mean(age, filter=sex == 'F')", "where and by only"),
        ("crosstab(sex, sex)", "different attributes"),
        ("association(sex)", "two different"),
        ("difference(mean(age), proportion(sex == 'F'))", "difference is between"),
        ("difference(crosstab(sex), crosstab(health))", "difference is between"),
        ("__import__('os').system('true')", "not a question"),
        ("proportion(open('x'))", "a condition was expected"),
        ("mean(age.__class__)", "the name of an attribute"),
        ("proportion(sex == (lambda: 'F')())", "a value was expected"),
        ("age ~ exec(sex)", "function"),
        ("age ~ sex + age", "both the outcome and a predictor"),
        ("age ~ nosuch", "nosuch"),
        ("sex ~ log(health)", "has levels"),
        ("x" * 6000, "at most"),
    ],
)
def test_what_is_refused(question, says, schema):
    with pytest.raises(InputError, match=says):
        make_estimand(parse_question(question, schema), schema)


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"family": "cauchit"}, UnknownNameError, "known|Known"),
        ({"family": "linear"}, UnsupportedError, "numeric outcome"),
        ({"family": "poisson"}, UnsupportedError, "numeric outcome"),
        ({"event": "perhaps"}, UnknownNameError, "perhaps"),
        ({"family": "multinomial", "event": "yes"}, InputError, "leave event out"),
        ({"family": "ordered"}, UnsupportedError, "order"),
        ({"where": "nosuch == 1"}, UnknownNameError, "nosuch"),
    ],
)
def test_what_is_refused_of_a_formula(settings, error, says, schema):
    with pytest.raises(error, match=says):
        parse_question("smokes ~ sex", schema, **settings)


def test_family_and_event_need_a_formula(schema):
    with pytest.raises(InputError, match="formula"):
        parse_question("mean(age)", schema, family="linear")


def test_dates_and_special_codes():
    schema = us.Schema(
        attributes=(
            us.Attribute(
                name="born", edges=(datetime.date(1950, 1, 1), datetime.date(1980, 1, 1), datetime.date(2010, 1, 1))
            ),
            us.Attribute(name="income", edges=(0, 1000, 9000), special={-8: "not applicable"}, missing=True),
        )
    )
    early = parse_question("proportion(born < '1980-01-01')", schema)
    assert early.atoms[0].condition.codes == (0,)
    none = parse_question("proportion(income == 'not applicable')", schema)
    assert none.atoms[0].condition.codes == (2,)
    assert parse_question("proportion(income == -8)", schema).atoms[0].condition.codes == (2,)
    estimand = make_estimand(parse_question("mean(income)", schema), schema)
    values = np.zeros((1, estimand.groups))
    values[0, estimand.labels[[0, 1]]] = 0.5  # half in each bin, nobody special
    assert estimand.evaluate(values)[0, 0] == pytest.approx(0.5 * 500 + 0.5 * 5000)
    assert len(estimand.losses) == 1
    with pytest.raises(InputError, match="dates"):
        parse_question("proportion(born < 1980)", schema)


def test_a_derived_column_names_its_sources(schema):
    young = Derived(name="young", function="recode", sources=("age",), edges=(16, 28, 97), levels=("yes", "no"))
    wider = us.Schema(attributes=schema.attributes, derived=(young,))
    with pytest.raises(InputError, match="computed from age"):
        parse_question("proportion(young == 'yes')", wider)


def test_bins_by_their_public_density():
    whole = bins_of(us.Attribute(name="a", edges=(0, 10, 20), integer=True))
    assert whole.means() == pytest.approx([4.5, 15.0])  # 0..9, and 10..20: the last edge is inside
    assert whole.last.tolist() == [9, 20]
    real = bins_of(us.Attribute(name="a", edges=(1.0, 10.0), density="log"))
    assert real.means()[0] == pytest.approx(9 / np.log(10), rel=1e-3)
    assert real.means(np.log)[0] == pytest.approx(np.log(10) / 2, rel=1e-6)
    half = np.array([[0.5, 0.5]])
    assert bins_of(us.Attribute(name="a", edges=(0.0, 1.0, 3.0))).quantiles(half, 0.75)[0] == pytest.approx(2.0)
    assert real.quantiles(np.ones((1, 1)), 0.5)[0] == pytest.approx(np.sqrt(10))
    with pytest.raises(InputError, match="positive values"):
        Factor(name="a", function="log").of(np.arange(5.0), (0, 5))


ODD = us.Schema(
    attributes=(
        us.Attribute(name="class", levels=("a", "b`c`d", "~")),
        us.Attribute(name="\u00b5g", levels=(1, 2)),  # the micro sign, which Python reads as the Greek letter
        us.Attribute(name="hours", edges=(0, 10, 20, 40), special=((-1, "refused"),), missing=True),
        us.Attribute(name="one", levels=("only",)),
        us.Attribute(name="born", edges=(datetime.date(2000, 1, 1), datetime.date(2010, 1, 1))),
    )
)


def test_odd_names_and_levels():
    assert truth(ODD, "`class` == 'b`c`d'") == [1]
    assert truth(ODD, "`class` in ['~', 'b`c`d']") == [1, 2]
    assert truth(ODD, "\u00b5g == 2") == truth(ODD, "`\u00b5g` == 2") == [1]
    with pytest.raises(InputError, match="backticks"):
        parse_question("proportion(class == 'a')", ODD)


@pytest.mark.parametrize(
    "text",
    [
        "proportion(" + "not " * 1200 + "one == 'only')",
        "proportion(" + "-" * 3000 + "1)",
        "proportion(one == " + "-" * 3000 + "1)",
    ],
)
def test_deep_nesting_is_refused_and_never_a_traceback(text):
    with pytest.raises(InputError, match=r"nested|cannot be read|expected"):
        make_estimand(parse_question(text, ODD), ODD)


def test_where_is_said_once():
    with pytest.raises(InputError, match="where twice"):
        parse_question("proportion(one == 'only', where=`class` == 'a', where=`class` == '~')", ODD)


def test_bins_as_categories_are_no_numbers():
    question = parse_question("C(hours) ~ `class`", ODD)
    assert question.kind == "multinomial"
    assert make_estimand(question, ODD).parts[0].model.levels == ("[0,10)", "[10,20)", "[20,40]", "refused")
    # A number's special codes are left out, and so are no levels of it.
    for family in ("multinomial", "ordered"):
        part = make_estimand(parse_question("hours ~ `class`", ODD, family=family), ODD).parts[0]
        assert part.model.levels == ("[0,10)", "[10,20)", "[20,40]")
        assert not part.losses
    with pytest.raises(UnsupportedError, match="special codes"):
        parse_question("C(hours) ~ `class`", ODD, family="ordered")
    with pytest.raises(UnsupportedError, match=r"C\(hours\) has levels"):
        parse_question("C(hours) ~ `class`", ODD, family="linear")


def test_nothing_goes_with_an_attribute_of_one_value():
    for text in ("association(one, `class`)", "association(`class`, one)"):
        with pytest.raises(InputError, match="'one' has only one value"):
            make_estimand(parse_question(text, ODD), ODD)


def test_dates_say_their_unit():
    for text in ("mean(born)", "median(born)", "born ~ `class`", "`class` == 'a' ~ born"):
        assert any("days since 1970" in loss for loss in make_estimand(parse_question(text, ODD), ODD).losses)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("proportion(sex = 'F')", "after 'sex' write == to compare"),
        ("mean(age, where=sex = 'F')", "after 'sex' write == to compare"),
        ("proportion(age < 2020-01-31)", "write the date 2020-01-31 in quotes"),
        ("proportion(age < 2020-12-31)", "a date is written in quotes"),
        ("proportion(sex == 'F'", "a bracket is opened and not closed"),
        ("proportion(sex == 'F') 7", "cannot be read from '7' on"),
        ("proportion(sx == 'F')", "did you mean 'sex'"),
    ],
)
def test_a_question_that_cannot_be_read_says_where_and_what_was_expected(schema, text, says):
    with pytest.raises(InputError) as caught:
        parse_question(text, schema)
    assert says in str(caught.value)
