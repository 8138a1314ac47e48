"""What the paper says of ranks, and what the public schema decides: neither may be told as something else."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy as us
from understudy.demo.people import make_people, people_schema
from understudy.evaluation.inputs import records
from understudy.evaluation.inputs.comparison import compare
from understudy.evaluation.inputs.records import Records, decided_by_schema, null_copies, possible
from understudy.evaluation.risk import evaluate_risk

GRID = tuple(range(0, 1001, 50))
NUMBERS = us.Schema(attributes=tuple(us.Attribute(name=name, edges=GRID) for name in "abc"))
LEVELS = us.Schema(attributes=tuple(us.Attribute(name=name, levels=tuple(range(60)), ordered=True) for name in "abc"))
CHILDREN = us.Schema(
    attributes=(
        us.Attribute(name="age", edges=(0, 15, 40, 65, 100), integer=True),
        us.Attribute(name="region", levels=("north", "south")),
        us.Attribute(name="smokes", levels=("no", "yes", "not asked")),
    ),
    impossible=(
        us.Impossible(conditions=(("age", us.Condition(below=15)), ("smokes", us.Condition(levels=("no", "yes"))))),
        us.Impossible(conditions=(("age", us.Condition(above=15)), ("smokes", us.Condition(levels=("not asked",))))),
    ),
)


def risk(schema, synthetic, data, *, only=None, **settings):
    comparison = compare(us.wrap(synthetic, schema), us.open_source(data, schema), **settings)
    return evaluate_risk(comparison, only=only)


def children(rows: int, seed: int) -> pa.Table:
    """Half of the people are children, and nothing but the schema tells anything about smoking."""
    draw = np.random.default_rng(seed)
    age = np.where(draw.uniform(size=rows) < 0.5, draw.integers(0, 15, rows), draw.integers(15, 100, rows))
    smokes = np.where(age < 15, "not asked", np.where(draw.uniform(size=rows) < 0.5, "yes", "no"))
    return pa.table({"age": age, "region": np.array(["north", "south"])[draw.integers(0, 2, rows)], "smokes": smokes})


def numbers(rows: int = 300) -> np.ndarray:
    draw = np.random.default_rng(1)
    return np.column_stack([draw.permutation(rows) + 50.0 for _ in range(3)])


@pytest.mark.parametrize("transform", [lambda x: x, lambda x: np.sqrt(x) * 20, lambda x: x + 400, lambda x: 2 * x])
def test_a_monotone_transform_of_numbers_hides_nothing(transform):
    """Its permutation is the identity, so the attacker of the paper is perfect whatever the values are."""
    data = numbers()
    tables = [pa.table(dict(zip("abc", table.T, strict=True))) for table in (data, transform(data))]
    found = risk(NUMBERS, tables[1], tables[0], only=("rank_attribution",)).frames
    for row in found["rank_attribution"].to_pylist():
        assert (row["hit_one_copy"], row["claims"], row["correct"], row["false"]) == (1.0, 300, 300, 0)
        assert row["rank_error_one_copy"] == 0
    assert all(row["successes"] == 300 for row in found["attacks"].to_pylist())


def test_a_monotone_transform_of_levels_hides_nothing():
    draw = np.random.default_rng(2)
    one = draw.permutation(np.repeat(np.arange(30), 10))
    data = np.column_stack([one, (one * 7) % 30, (one * 11) % 30])  # each attribute tells the others
    tables = [pa.table(dict(zip("abc", table.T, strict=True))) for table in (data, 2 * data + 1)]
    found = risk(LEVELS, tables[1], tables[0], only=("rank_attribution",)).frames
    for row in found["rank_attribution"].to_pylist():
        assert (row["claims"], row["correct"], row["false"]) == (300, 300, 0)


def test_what_the_schema_decides_is_no_success_and_no_claim():
    """The release knows nothing beyond the schema: the same law, other people."""
    found = risk(CHILDREN, children(2000, 1), children(2000, 2))
    rows = {(row["attack"], row["subject"].split(",")[0]): row for row in found.frames["attacks"].to_pylist()}
    adults = int(np.sum(np.array(children(2000, 2)["age"]) >= 15))
    for attack in ("attribution", "attribute_inference", "rank_attribution"):
        row = rows[attack, "smokes"]
        assert row["asked"] <= adults, attack
        assert row["residual_low"] < 0 < row["residual_high"], attack
    worst = {finding.code: finding for finding in found.findings}["risk.rank_attribution.worst"]
    assert "smokes" not in worst.title or worst.value < 0.6


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1))
def test_what_the_schema_decides_is_found_through_what_is_not_known(seed):
    """Every completion of the known values that no rule excludes; a chain of rules was overlooked."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(2, 4, 4)
    attributes = tuple(
        us.Attribute(name=name, levels=tuple(range(size))) for name, size in zip("abcd", sizes, strict=True)
    )
    rules = []
    for _ in range(draw.integers(1, 7)):
        places = draw.choice(4, draw.integers(2, 4), replace=False)
        levels = [tuple(range(sizes[j]))[: draw.integers(1, sizes[j])] for j in places]
        levels = [tuple((level + 1) % sizes[j] for level in one) if draw.uniform() < 0.5 else one
                  for j, one in zip(places, levels, strict=True)]  # fmt: skip
        conditions = (("abcd"[j], us.Condition(levels=one)) for j, one in zip(places, levels, strict=True))
        rules.append(us.Impossible(conditions=tuple(conditions)))
    try:
        schema = us.Schema(attributes=attributes, impossible=tuple(rules))
    except us.UnderstudyError:  # nothing is left
        return
    rows = np.array(list(np.ndindex(*sizes)))
    rows = rows[possible(schema, rows)]
    target, known = "abcd"[draw.integers(4)], [name for name in "abcd" if draw.uniform() < 0.5]
    places = ["abcd".index(name) for name in known if name != target]
    by_hand = [
        len({other["abcd".index(target)] for other in rows if (other[places] == row[places]).all()}) <= 1
        for row in rows
    ]
    assert decided_by_schema(schema, rows, target, known).tolist() == by_hand
    with pytest.MonkeyPatch.context() as patch:  # and where the rules need several words
        patch.setattr(records, "RULES_IN_A_WORD", 2)
        assert decided_by_schema(schema, rows, target, known).tolist() == by_hand


def test_an_answer_that_follows_through_another_is_not_asked_about():
    """A child has no work, and without work there is no wage: whoever knows the age knows the wage."""
    child, idle = us.Condition(levels=("child",)), us.Condition(levels=("none",))
    schema = us.Schema(
        attributes=(
            us.Attribute(name="age", levels=("child", "adult"), ordered=True),
            us.Attribute(name="work", levels=("none", "some")),
            us.Attribute(name="wage", levels=("none", "low", "high"), ordered=True),
        ),
        impossible=(
            us.Impossible(conditions=(("age", child), ("work", us.Condition(levels=("some",))))),
            us.Impossible(conditions=(("work", idle), ("wage", us.Condition(levels=("low", "high"))))),
        ),
    )
    rows = [("child", "none", "none")] * 60 + [("adult", "some", "low"), ("adult", "none", "none")] * 20
    data = pa.table(dict(zip(schema.names, map(list, zip(*rows, strict=True)), strict=True)))
    found = risk(schema, data, data, keys=("age",), targets=("wage",), only=("attribution",)).frames
    assert {row["asked"] for row in found["attacks"].to_pylist()} == {40}


def test_the_baseline_obeys_the_schema_and_keeps_the_margins():
    synthetic = children(3000, 3)
    comparison = compare(us.wrap(synthetic, CHILDREN), us.open_source(children(500, 4), CHILDREN))
    (table,) = comparison.independent_tables
    child, not_asked = table.codes[:, 0] == 0, table.codes[:, 2] == 2
    assert np.array_equal(child, not_asked)
    assert abs(child.mean() - np.mean(np.array(synthetic["age"]) < 15)) < 0.05  # 5 standard errors of 3000 rows


@pytest.mark.parametrize("zeros", [False, True])
def test_the_baseline_knows_public_attributes_together(zeros):
    """It drew them one by one, so what is public of everybody counted as told by the release."""
    schema = CHILDREN if zeros else us.Schema(attributes=CHILDREN.attributes)
    draw = np.random.default_rng(12)
    codes = np.column_stack([draw.integers(0, 4, 4000), np.zeros(4000, int), draw.integers(0, 2, 4000)])
    codes[:, 1] = codes[:, 0] >= 2  # the region follows from the age
    codes[codes[:, 0] == 0, 2] = 2  # children are not asked
    (made,) = null_copies(schema, (Records(codes=codes, positions=codes.astype(float)),), 0, [0, 1])
    assert possible(schema, made.codes).all()
    assert np.array_equal(made.codes[:, 1], made.codes[:, 0] >= 2)
    for column in range(3):
        shares = [np.bincount(one[:, column], minlength=4) / 4000 for one in (codes, made.codes)]
        assert np.abs(shares[0] - shares[1]).max() < 0.05
    if not zeros:  # and the answer is as independent of them as before
        assert abs(np.mean(made.codes[made.codes[:, 0] == 0, 2] == 2) - np.mean(codes[:, 2] == 2)) < 0.05


def test_attributes_that_everybody_knows_are_not_learned():
    data = children(400, 5)
    with warnings.catch_warnings(action="ignore"):
        release = us.synthesize(
            us.open_source(data, CHILDREN), method="independent", budget=us.PureDP(epsilon=1),
            unit=us.Unit(kind="replace", fixed=("region",)),
        )  # fmt: skip
    comparison = compare(release, us.open_source(data, CHILDREN), keys=("age",))
    assert comparison.attacked == ("smokes",)
    assert comparison.known("smokes") == ("age", "region")


def test_a_true_correlation_is_no_warning():
    """An independent sample of the same population tells much about everybody and nothing about anybody."""
    draw = np.random.default_rng(6)

    def people(rows):
        one = draw.integers(0, 8, rows)
        return pa.table({"a": one, "b": (one + (draw.uniform(size=rows) < 0.1)) % 60, "c": draw.integers(0, 5, rows)})

    found = risk(LEVELS, people(1500), people(1500))
    assert [finding for finding in found.findings if finding.severity in ("warning", "problem")] == []
    assert max(row["success"] for row in found.frames["attacks"].to_pylist()) > 0.8  # and it is not hidden


def test_without_keys_the_usual_ones_are_chosen_and_said():
    data = children(500, 7)
    found = risk(CHILDREN, children(500, 8), data)
    tried = {row["attack"] for row in found.frames["attacks"].to_pylist()}
    assert "matching" in tried
    chosen = {finding.code: finding.title for finding in found.findings}["risk.keys"]
    assert "age, region" in chosen


def test_many_rows_under_many_structural_zeros_are_drawn():
    """Children differ from adults in six answers at once: drawn independently, hardly a row was possible."""
    schema = people_schema()
    coded = us.open_source(make_people(2_000, seed=31), schema).confidential_table()[0]
    codes = np.column_stack([coded.columns[name].astype(np.int64) for name in schema.names])
    many = np.repeat(codes, 10, axis=0)
    (made,) = null_copies(schema, (Records(codes=many, positions=many.astype(float)),), 0)
    assert len(made) == len(many)
    assert possible(schema, made.codes).all()
    for j, size in enumerate(schema.shape()):
        wanted, found = (np.bincount(one[:, j], minlength=size) / len(one) for one in (codes, made.codes))
        assert np.abs(found - wanted).max() < 0.03
