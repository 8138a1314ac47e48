"""A whole evaluation: what is good scores well, what lost its dependences is flagged, nothing goes missing silently.

Tables and classifiers have fixed seeds, so a result never changes by chance; the null means themselves are tested by
simulation in ``test_tables.py`` and ``test_propensity.py``.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.core.result import Evaluation
from understudy.errors import DisclosureError, InputError, MissingExtraError, SchemaError
from understudy.evaluation.inputs.comparison import compare
from understudy.evaluation.shared.measure import measures
from understudy.evaluation.shared.table_measures import MEASURES
from understudy.evaluation.utility import against_epsilon, evaluate_utility


def utility_of(release, source, *, families=None, **settings):
    return evaluate_utility(compare(release, source, **settings), families=families)


def rows_of(section, name):
    return section.frames[name].to_pylist()


def by(section, name, key):
    return {row[key]: row for row in rows_of(section, name)}


@pytest.fixture(scope="session")
def copies(people, schema, source, kit):
    """Two bootstrap copies of other sizes than the original."""
    release = us.wrap([kit.bootstrap(people, 2000, 2), kit.bootstrap(people, 1200, 3)], schema)
    return utility_of(release, source, models=("income ~ age + sex", "smokes ~ edu * sex"), permutations=4)


@pytest.fixture(scope="session")
def lost(people, schema, source, kit):
    return utility_of(us.wrap(kit.shuffled_columns(people, 4), schema), source, permutations=4)


def test_every_family_answers_and_everything_is_internal(copies):
    assert {finding.audience for finding in copies.findings} == {"internal"}
    wanted = {
        "tables", "ways", "one_way", "two_way", "worst_tables", "propensity", "propensity_histogram", "giveaways",
        "associations", "numeric", "quantiles", "histograms", "impossible", "missing_patterns", "regressions",
        "regression_models", "prediction", "discrimination", "subgroups", "vanished", "invented", "cells",
    }  # fmt: skip
    assert wanted <= set(copies.frames)
    assert all(isinstance(frame, pa.Table) for frame in copies.frames.values())
    with pytest.raises(DisclosureError):
        Evaluation(utility=copies).public()


def test_tables_and_classifiers_lead(copies):
    assert [finding.code for finding in copies.findings[:2]] == ["utility.s_pmse.2", "utility.worst.2"]


def test_bootstrap_copies_score_about_one(copies):
    ways = by(copies, "ways", "way")
    assert {way: row["tables"] for way, row in ways.items()} == {1: 5, 2: 10, 3: 10}
    for row in ways.values():
        assert 0.4 < row["mean_s_pmse"] < 1.7
        assert row["expected_s_pmse"] == 1
        assert row["sd_between_copies"] is not None
        assert row["poor"] == 0
    propensity = by(copies, "propensity", "classifier")
    assert set(propensity) == {"CART", "logit", "boosting"}
    for row in propensity.values():
        assert 0.3 < row["s_pmse"] < 2
        assert row["band"] == "good"
    assert all(row["mean_overlap"] > 0.5 for row in rows_of(copies, "regression_models"))
    assert all(abs(row["difference"]) < 0.1 for row in rows_of(copies, "associations"))


def test_a_shuffle_is_flagged_although_its_one_way_tables_are_perfect(lost):
    ways = by(lost, "ways", "way")
    assert ways[1]["mean_s_pmse"] == 0
    assert ways[1]["k_marginal_score"] == 1000
    assert ways[2]["worst_s_pmse"] > 30
    assert ways[2]["mean_s_pmse"] > 5
    propensity = by(lost, "propensity", "classifier")
    assert propensity["CART"]["s_pmse"] > 3
    assert propensity["boosting"]["s_pmse"] > 10
    assert rows_of(lost, "giveaways")[0]["attribute"] in {"age", "income", "edu"}
    severities = {finding.code: finding.severity for finding in lost.findings}
    assert severities["utility.worst.2"] == "problem"
    assert severities["utility.s_pmse.1"] == "good"
    assert severities["utility.impossible"] == "problem"
    assert severities["utility.association.cramer"] == "warning"


def test_table_frames_hold_every_measure(copies):
    table = copies.frames["tables"]
    assert set(MEASURES) <= set(table.column_names)
    first = rows_of(copies, "tables")[0]
    assert first["copies"] == 2
    assert first["covered"] is None  # nobody knows how a wrapped table was made
    assert {row["table"] for row in rows_of(copies, "worst_tables")} <= {
        row["table"] for row in rows_of(copies, "tables")
    }


def test_the_order_of_rows_and_attributes_does_not_matter(people, schema, source, kit):
    copy = kit.bootstrap(people, 500, 5)
    turned = us.Schema(attributes=schema.attributes[::-1], impossible=schema.impossible)
    again = copy.take(pa.array(np.arange(500)[::-1])).select(list(turned.names))
    first = utility_of(us.wrap(copy, schema), source, families=("margins",))
    second = utility_of(us.wrap(again, turned), us.open_source(people, turned), families=("margins",))
    for way in (1, 2, 3):
        one, other = by(first, "ways", "way")[way], by(second, "ways", "way")[way]
        assert one["mean_s_pmse"] == pytest.approx(other["mean_s_pmse"])
        assert one["k_marginal_score"] == pytest.approx(other["k_marginal_score"])


def test_what_the_model_covers_is_marked(people, schema, source):
    release = us.synthesize(source, budget=us.PureDP(epsilon=5), unit="replace")
    found = utility_of(release, source, models=("smokes ~ edu",), families=("margins", "regressions"))
    assert {row["covered"] for row in rows_of(found, "tables")} == {True}
    assert rows_of(found, "regressions")[0]["covered"] is True


def test_a_margin_release_covers_only_its_margins(people, schema, source, kit):
    from dataclasses import replace

    from understudy.core.measurement import Measurement

    release = us.wrap(kit.bootstrap(people, 400, 6), schema)
    margins = (("sex", "smokes"), ("edu", "smokes"), ("sex", "edu"))
    measured = tuple(
        Measurement(margin=margin, values=np.zeros(schema.shape(margin), np.int64), mechanism=us.Geometric(scale=1))
        for margin in margins
    )
    release = replace(release, measurements=measured)
    comparison = compare(release, source)
    assert comparison.covered(("sex", "edu")) is True
    assert comparison.covered(("sex", "edu", "smokes")) is False
    models = ("smokes ~ sex + edu", "smokes ~ sex * edu", "smokes ~ age")
    found = utility_of(release, source, models=models, families=("margins", "regressions"))
    assert [row["covered"] for row in rows_of(found, "regression_models")] == [True, False, False]
    ways = by(found, "ways", "way")
    assert (ways[1]["covered_tables"], ways[2]["covered_tables"], ways[3]["covered_tables"]) == (3, 3, 0)
    assert {finding.code for finding in found.findings} >= {"utility.not_covered"}


def test_k_way_on_request(people, schema, source):
    found = utility_of(us.wrap(people, schema), source, ways=(4, 5, 6), families=("margins",))
    assert {row["way"]: row["tables"] for row in rows_of(found, "ways")} == {4: 5, 5: 1}
    assert "5 attributes only" in rows_of(found, "omissions")[0]["reason"]


@pytest.mark.parametrize("null", ["formula", "permutation", "copies"])
def test_nulls(people, schema, source, null, kit):
    release = us.wrap([kit.bootstrap(people, 1000, seed) for seed in (7, 8, 9)], schema)
    found = utility_of(release, source, null=null, permutations=3, families=("propensity",))
    rows = by(found, "propensity", "classifier")
    if null == "formula":
        assert rows["CART"]["s_pmse"] is None
        assert {row["what"] for row in rows_of(found, "omissions")} == {"S_pMSE of CART", "S_pMSE of boosting"}
        assert 0.5 < rows["logit"]["s_pmse"] < 1.8
    else:
        assert all(0.4 < row["s_pmse"] < 1.9 for row in rows.values())
        assert {row["null"] for row in rows.values()} == {null}


def test_a_missing_extra_is_stated_or_raised(people, schema, source, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "sklearn", None)
    release = us.wrap(people, schema)
    found = utility_of(release, source)
    reasons = {row["measure"]: row["reason"] for row in rows_of(found, "omissions")}
    assert "pip install 'understudy[evaluate]'" in reasons["propensity"]
    assert "pip install 'understudy[evaluate]'" in reasons["prediction"]
    assert "tables" in found.frames
    with pytest.raises(MissingExtraError, match="scikit-learn"):
        utility_of(release, source, families=("propensity",))


def test_impossible_combinations_of_others_are_counted(people, schema, source):
    bad = people.set_column(1, "age", pa.array(np.zeros(people.num_rows, np.int64)))
    found = utility_of(us.wrap(bad, schema), source, families=("patterns",))
    (rule,) = rows_of(found, "impossible")
    assert rule["synthetic_rows"] == people["edu"].to_pylist().count("high")
    assert rule["synthetic_rows"] > 100


def test_vanished_and_invented_groups(people, schema, source):
    kept = people.filter(pa.array([value != "high" for value in people["edu"].to_pylist()]))
    found = utility_of(us.wrap(kept, schema), source, families=("subgroups",))
    assert rows_of(found, "vanished")[0]["group"] == "high"
    back = utility_of(us.wrap(people, schema), us.open_source(kept, schema), families=("subgroups",))
    assert rows_of(back, "invented")[0]["group"] == "high"


def test_groups_that_chance_alone_would_lose():
    schema = us.Schema(attributes=(us.Attribute(name="g", levels=("a", "b", "c")),))
    data = pa.table({"g": ["a", "b", "b", "c", "c", "c", "c", "c"]})
    copy = pa.table({"g": ["c"] * 5})
    found = utility_of(us.wrap(copy, schema), us.open_source(data, schema), families=("subgroups",))
    rows = {row["people_in_group"]: row for row in rows_of(found, "subgroups")}
    assert rows["1-4"]["groups"] == 2
    assert rows["1-4"]["vanished_percent"] == 100
    assert rows["1-4"]["expected_vanished_percent"] == pytest.approx(100 * ((7 / 8) ** 5 + (6 / 8) ** 5) / 2)
    assert rows["5-9"]["expected_vanished_percent"] == pytest.approx(100 * (3 / 8) ** 5)
    assert rows["5-9"]["mean_absolute_error"] == pytest.approx(3)  # five of five, per eight rows


# Bad input: a clear error or a stated omission, never a crash.


def test_one_row_on_either_side(people, schema, source):
    one = people.slice(0, 1)
    found = utility_of(us.wrap(one, schema), source, models=("income ~ age",))
    assert {row["measure"] for row in rows_of(found, "omissions")} >= {"propensity", "prediction", "regressions"}
    assert rows_of(found, "ways")
    back = utility_of(us.wrap(people, schema), us.open_source(one, schema))
    assert rows_of(back, "ways")


def test_no_rows(people, schema, source):
    with pytest.raises(InputError, match="synthetic table 2 has no rows"):
        utility_of(us.wrap([people, people.slice(0, 0)], schema), source)
    with pytest.raises(InputError, match="the confidential data have no rows"):
        utility_of(us.wrap(people, schema), us.open_source(people.slice(0, 0), schema))


def test_all_missing_and_constant_columns(people, schema, source):
    rows = people.num_rows
    odd = people.set_column(3, "income", pa.nulls(rows, pa.float64())).set_column(0, "sex", pa.array(["F"] * rows))
    for release, confidential in (
        (us.wrap(odd, schema), source),
        (us.wrap(people, schema), us.open_source(odd, schema)),
        (us.wrap(odd, schema), us.open_source(odd, schema)),
    ):
        found = utility_of(release, confidential, models=("income ~ age", "smokes ~ sex + edu"), permutations=2)
        omitted = {(row["measure"], row["what"]) for row in rows_of(found, "omissions")}
        assert ("numeric", "income") in omitted
        assert any(measure == "regressions" for measure, _ in omitted)
        assert len(rows_of(found, "ways")) == 3


def test_a_numeric_column_as_text(people, schema, source):
    text = people.set_column(1, "age", people["age"].cast(pa.string()))
    found = utility_of(us.wrap(text, schema), source, families=("numeric", "margins"))
    assert by(found, "numeric", "attribute")["age"]["ks"] == 0
    assert rows_of(found, "ways")[0]["mean_s_pmse"] == 0


def test_other_columns_and_levels(people, schema, source, kit):
    other = us.Schema(attributes=schema.attributes[:-1], impossible=schema.impossible)
    with pytest.raises(SchemaError, match="'smokes' is in the confidential data only"):
        utility_of(us.wrap(people.drop_columns("smokes"), other), source)
    more = kit.make_schema(smokes=us.Attribute(name="smokes", levels=("no", "yes", "sometimes")))
    with pytest.raises(SchemaError, match="'smokes' has other levels"):
        utility_of(us.wrap(people, more), source)
    labelled = kit.make_schema(smokes=us.Attribute(name="smokes", levels=("no", "yes"), label="Smokes now"))
    assert utility_of(us.wrap(people, labelled), source, families=("cells",)).findings


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"ways": ()}, "ways"),
        ({"ways": (0,)}, "ways"),
        ({"null": "guess"}, "null"),
        ({"null": "copies"}, "this release has one"),
        ({"permutations": 1}, "permutations"),
        ({"families": ("margin",)}, "did you mean 'margins'"),
        ({"models": ("incom ~ age",)}, "did you mean 'income'"),
        ({"models": ("edu ~ age",)}, "say which one is the event"),
        ({"models": ("log(sex) ~ age",)}, "needs a numeric attribute"),
        ({"models": ("sex == 'X' ~ age",)}, "is not a level"),
    ],
)
def test_what_is_refused_before_anything_is_computed(people, schema, source, changes, says):
    with pytest.raises(InputError, match=says):
        utility_of(us.wrap(people, schema), source, **changes)


def test_a_source_is_needed(people, schema):
    with pytest.raises(InputError, match="open_source"):
        utility_of(us.wrap(people, schema), people)


def test_one_attribute_is_enough():
    schema = us.Schema(attributes=(us.Attribute(name="sex", levels=("F", "M")),))
    table = pa.table({"sex": ["F", "M"] * 60})
    found = utility_of(us.wrap(table, schema), us.open_source(table, schema))
    assert [row["way"] for row in rows_of(found, "ways")] == [1]
    assert {"associations", "prediction", "margins"} <= {row["measure"] for row in rows_of(found, "omissions")}


def test_names_may_hold_anything(kit):
    schema = us.Schema(
        attributes=(
            us.Attribute(name="a x b", levels=("<i>", "$x$")),
            us.Attribute(name="ü | ö", levels=("1", "2")),
        )
    )
    table = pa.table({"a x b": ["<i>", "$x$"] * 60, "ü | ö": ["1", "1", "2", "2"] * 30})
    found = utility_of(us.wrap(kit.shuffled_columns(table, 1), schema), us.open_source(table, schema))
    assert rows_of(found, "two_way")[0]["first"] == "a x b"


def test_measures_are_listed_without_scikit_learn():
    assert {"margins", "propensity", "regressions", "subgroups"} <= set(measures.names())
    assert not {"base", "evaluate", "tables", "counting", "numbers", "features"} & set(measures.names())


def test_utility_against_epsilon(people, schema, source):
    releases = [us.synthesize(source, budget=us.PureDP(epsilon=e)) for e in ("0.05", "5")]
    sections = [utility_of(release, source, families=("margins",)) for release in releases]
    table = against_epsilon([(f"r{n}", r, s) for n, (r, s) in enumerate(zip(releases, sections, strict=True))])
    low, high = table.to_pylist()
    assert (low["epsilon"], high["epsilon"]) == (0.05, 5)
    assert low["s_pmse_2"] > high["s_pmse_2"]
    wrapped = us.wrap(people, schema)
    other = utility_of(wrapped, source, families=("cells",))
    assert against_epsilon([("w", wrapped, other)]).to_pylist()[0]["epsilon"] is None


def test_the_verb(people, schema, source, kit):
    result = us.evaluate(us.wrap(kit.make_people(300, 9), schema), people, parts=("utility",), ways=(1, 2))
    assert {row["way"] for row in rows_of(result.utility, "ways")} == {1, 2}
    assert not result.risk.findings
    with pytest.raises(InputError, match="part of an evaluation"):
        us.evaluate(us.wrap(people, schema), people, parts=("use",))
    with pytest.raises(InputError, match="needs a release"):
        us.evaluate(people, people)


def test_tables_whose_names_read_the_same_are_told_apart():
    """Attributes 'a' and 'b x c', and 'a x b' and 'c', make two tables called 'a x b x c'."""
    names = ("a", "b x c", "a x b", "c")
    schema = us.Schema(attributes=tuple(us.Attribute(name=name, levels=("no", "yes")) for name in names))
    rng = np.random.default_rng(3)
    data = pa.table({name: rng.choice(["no", "yes"], 400) for name in names})
    broken = data.set_column(3, "c", data["a x b"])  # only this pair has lost its independence
    found = utility_of(us.wrap(broken, schema), us.open_source(data, schema), families=("margins",), ways=(2,))
    scores = {(row["first"], row["second"]): row["s_pmse"] for row in rows_of(found, "two_way")}
    assert len(scores) == 6
    assert max(scores, key=scores.get) == ("a x b", "c")
    cells = [row for row in rows_of(found, "worst_tables") if row["rank"] == 1]
    assert {row["cell"]: row["synthetic"] for row in cells if row["synthetic"]}.keys() == {"no | no", "yes | yes"}
