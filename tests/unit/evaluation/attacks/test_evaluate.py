"""All attacks together: a null release gives about nothing, a leaked copy about everything, bad input is refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.errors import InputError, UnknownNameError
from understudy.evaluation.attacks.shadow_models import shadow_attack
from understudy.evaluation.inputs.comparison import compare
from understudy.evaluation.risk import LIKENESS, evaluate_risk
from understudy.evaluation.shared.attack import attacks

# Attacks whose success on a leaked copy is limited by the data, not by the release: other people share the keys.
LIMITED = {"attribute_inference": 0.3, "matching": 0.3, "rank_attribution": 0.3}
NO_CLAIMS = {"anonymity", "reverse_mapping"}  # measures beside the attacks, with no guess about anybody


def compared(release, data, *, holdout=None, **settings):
    people, others = (
        us.open_source(one, release.schema) if isinstance(one, pa.Table) else one for one in (data, holdout)
    )
    return compare(release, people, holdout=others, **settings)


def risk_of(release, data, *, only=None, **settings):
    return evaluate_risk(compared(release, data, **settings), only=only)


def run(schema, copies, data, **settings):
    return risk_of(us.wrap(copies, schema), data, **settings)


def told(section) -> list[str]:
    """What is a warning or a problem, but for the order of levels: that is about the schema, not about people."""
    codes = [finding.code for finding in section.findings if finding.severity != "info"]
    return [code for code in codes if code != "risk.rank_order"]


def outcomes(section) -> list[dict]:
    return section.frames["attacks"].to_pylist()


@pytest.fixture(scope="module")
def leaked(schema, tables):
    return run(schema, tables["data"], tables["data"], holdout=us.open_source(tables["holdout"], schema))


@pytest.fixture(scope="module")
def null(schema, tables):
    """Two copies, no holdout: the baseline alone must tell that nothing was learned."""
    return run(schema, [tables["null"], tables["null 2"]], tables["data"])


@pytest.fixture(scope="module")
def sibling(schema, tables):
    """Another sample of the same population: all that can be known of a person without their record."""
    return run(schema, tables["other"], tables["data"], holdout=us.open_source(tables["holdout"], schema))


def test_a_leaked_copy_is_found_by_every_attack(leaked):
    rows = outcomes(leaked)
    assert {row["attack"] for row in rows} >= set(attacks.names()) - {
        "anonymity",
        "reverse_mapping",
        "shadow_models",
    }
    best: dict[str, float] = {}
    for row in rows:
        best[row["attack"]] = max(best.get(row["attack"], -1), row["residual"])
        if row["attack"] not in LIMITED and "outliers" not in row["subject"]:
            assert row["residual_high"] > 0.8, row
    assert {name: value for name, value in best.items() if value < LIMITED.get(name, 0.9)} == {}
    codes = {finding.code: finding for finding in leaked.findings}
    assert codes["risk.closest_record"].severity == "warning"
    assert codes["risk.membership"].severity == "warning"
    assert leaked.frames["membership"].to_pylist()[0]["auc"] > 0.95


def test_every_attack_tells_what_it_claims_rightly_and_falsely(leaked, null, tables):
    for section in (leaked, null):
        rows = section.frames["false_disclosures"].to_pylist()
        assert {row["attack"] for row in rows} >= {row["attack"] for row in outcomes(section)}
        for row in rows:
            assert row["claims"] == row["right"] + row["wrong"]
            assert row["wrong"] >= 0
            assert row["people"] is None or row["claims"] <= row["people"]
            assert row["believed_by"]
    # A copy says hardly anything false where rows are taken for a person's own; tables that know nothing say it often.
    own = {"rank_linkage", "closest_record", "matching"}
    right = {row["attack"]: row["right"] for row in leaked.frames["false_disclosures"].to_pylist()}
    assert all(right[name] > 0 for name in own)
    assert all(row["wrong"] == 0 for row in leaked.frames["false_disclosures"].to_pylist() if row["attack"] in own)
    wrong = [row for row in null.frames["false_disclosures"].to_pylist() if row["attack"] in own]
    assert sum(row["wrong"] for row in wrong) > sum(row["right"] for row in wrong)


def test_the_third_sentence_does_not_hide_what_is_told_by_similar_rows(null):
    said = null.frames["first_screen"].to_pylist()[2]["sentence"]
    by_likeness = [row for row in outcomes(null) if row["attack"] in LIKENESS]
    most = max(round(1000 * (row["claims"] - row["claims_right"]) / row["claims_of"]) for row in by_likeness)
    assert most > 100
    assert said.endswith(f" for {most}.")


def test_a_null_release_gives_nothing_away(null):
    rows = outcomes(null)
    assert len(rows) > 20
    # Intervals of 95%: some of many miss 0 by a little; none may be far.
    assert [row for row in rows if row["residual_low"] > 0.15] == []
    assert np.mean([row["residual_low"] <= 0 for row in rows]) > 0.8
    big = [row["residual"] for row in rows if row["guesses"] >= 500]
    assert np.max(np.abs(big)) < 0.15
    assert told(null) == []


def test_another_sample_of_the_population_gives_nothing_beyond_the_control(sibling):
    rows = outcomes(sibling)
    assert np.mean([row["residual_low"] <= 0 for row in rows]) > 0.85
    assert told(sibling) == []
    (nearest, ratio) = sibling.frames["membership"].to_pylist()
    for score in (nearest, ratio):
        assert score["auc_low"] <= 0.55
        assert score["epsilon_low"] < 0.3


def test_everything_is_internal_and_in_arrow_tables(leaked, null):
    for section in (leaked, null):
        assert {finding.audience for finding in section.findings} == {"internal"}
        assert all(isinstance(frame, pa.Table) and frame.num_columns for frame in section.frames.values())
        for row in outcomes(section):
            assert row["guesses"] <= row["asked"]
            assert row["residual_low"] <= row["residual"] <= row["residual_high"]
            if row["guesses"] < row["asked"]:
                assert "could be made" in row["note"]


@pytest.mark.parametrize(
    ("knowledge", "warned"),
    [
        ({}, True),
        ({"ordered": True}, False),
        ({"tree": ("west/a", "west/b", "east/c")}, False),
        ({"distances": ((0, 1, 2), (1, 0, 2), (2, 2, 0))}, False),
    ],
)
def test_levels_whose_order_says_nothing_are_a_warning(knowledge, warned):
    """It was listed among the details, where a reader of the first page never saw it."""
    regions = us.Attribute(name="region", levels=("a", "b", "c"), **knowledge)
    schema = us.Schema(attributes=(regions, us.Attribute(name="age", edges=(0, 30, 60, 90))))
    draw = np.random.default_rng(8)
    rows = pa.table({"region": draw.choice(list("abc"), 60), "age": draw.integers(0, 90, 60)})
    found = [one for one in run(schema, rows, rows, only=("rank_linkage",)).findings if one.code == "risk.rank_order"]
    assert [(one.severity, "region" in one.title) for one in found] == ([("warning", True)] if warned else [])


def test_no_guess_is_no_success_rate():
    schema = us.Schema(attributes=tuple(us.Attribute(name=name, levels=("a", "b")) for name in ("key", "value")))
    data, made = (pa.table({"key": [key] * 40, "value": ["a", "b"] * 20}) for key in ("a", "b"))
    found = {finding.code: finding for finding in run(schema, made, data, keys=("key",)).findings}
    assert "no guess could be made" in found["risk.matching"].title
    assert found["risk.matching"].value is None


def test_what_could_not_be_tried_is_said(null):
    told = {finding.code: finding.title for finding in null.findings}
    assert "holdout" in told["risk.membership.not_run"]
    assert "synthesizer" in told["risk.shadow_models.not_run"]


def test_an_evaluation_run_twice_says_the_same(schema, tables):
    first, second = (
        run(schema, tables["small"], tables["data"], only=("linkability", "singling_out", "rank_linkage"))
        for _ in range(2)
    )
    assert first.frames["attacks"].equals(second.frames["attacks"])


def test_sizes_may_differ_and_copies_are_counted_apart(schema, tables):
    found = run(schema, [tables["small"], tables["other"]], tables["data"], keys=("region", "age"), targets=("smokes",))
    subjects = {row["subject"] for row in outcomes(found) if row["attack"] == "attribution"}
    assert subjects == {"smokes, copy 1", "smokes, copy 2"}
    (summary,) = found.frames["rank_attribution"].to_pylist()
    assert (summary["attribute"], summary["copies"]) == ("smokes", 2)
    assert found.frames["match_rates"].num_rows == 2
    assert {row["target"] for row in found.frames["anonymity"].to_pylist()} == {"smokes"}


def test_duplicates_and_one_attribute(schema):
    one = us.Schema(attributes=(us.Attribute(name="x", levels=("a", "b", "c")),))
    data = pa.table({"x": ["a", "a", "a", "b", "c", "c"]})
    found = run(one, data, data)
    assert found.frames["uniqueness"].to_pylist()[0]["repU"] == pytest.approx(100 / 6)


def test_text_columns_are_read_by_the_schema(schema, tables, tmp_path):
    from pyarrow import csv

    csv.write_csv(tables["data"], tmp_path / "data.csv")
    source = us.open_source(tmp_path / "data.csv", schema)
    wrapped = us.wrap(tables["other"], schema)
    from_text, from_arrow = (compared(wrapped, one).people for one in (source, tables["data"]))
    assert np.array_equal(from_text.codes, from_arrow.codes)
    assert np.array_equal(from_text.positions, from_arrow.positions)
    income = schema.names.index("income")
    special = from_text.codes[:, income] == 3
    assert special.any()
    assert np.all(from_text.positions[special, income] == 10_000)  # one range above the last edge


def test_dates_and_clipped_values_have_positions():
    import datetime

    day = datetime.date
    dated = us.Schema(
        attributes=(
            us.Attribute(name="born", edges=(day(2000, 1, 1), day(2010, 1, 1), day(2020, 1, 1)), missing=True),
            us.Attribute(name="x", edges=(0, 1, 2), outside="clip"),
        )
    )
    data = pa.table({"born": [day(2000, 1, 2), None, day(2019, 1, 1)], "x": [-5.0, 0.5, 9.0]})
    texts = pa.table({"born": ["2000-01-02", None, "2019-01-01"], "x": ["-5", "+0.5", "9"]})
    for table in (data, texts):
        found = compared(us.wrap(data, dated), table).people.positions
        assert found[:, 1].tolist() == [0.0, 0.5, 2.0]
        assert found[0, 0] == 10958.0
        assert found[1, 0] == 18262.0 + 7305.0


def test_a_holdout_that_overlaps_is_refused(schema, tables):
    data = tables["data"]
    half = pa.concat_tables([data.slice(0, 300), tables["holdout"].slice(0, 300)])
    for holdout in (data, data.slice(0, 200), half):
        with pytest.raises(InputError, match="overlaps"):
            run(schema, tables["other"], data, holdout=holdout)
    compared(us.wrap(tables["other"], schema), data, holdout=tables["holdout"])


def test_a_holdout_of_few_distinct_rows_is_accepted_unless_it_is_the_same():
    small = us.Schema(attributes=(us.Attribute(name="x", levels=("a", "b")),))
    data = pa.table({"x": ["a"] * 30 + ["b"] * 20})
    compared(us.wrap(data, small), data, holdout=pa.table({"x": ["a"] * 5 + ["b"] * 6}))
    with pytest.raises(InputError, match="overlaps"):
        compared(us.wrap(data, small), data, holdout=data)


def test_fair_holdouts_are_not_refused(schema, tables):
    """200 fair pairs at a false-alarm rate of at most 2e-4 each: more than 3 refusals have probability below 1e-7."""
    from understudy.evaluation.inputs.records import Records, refuse_overlap

    draw = np.random.default_rng(0)
    refused = 0
    for _ in range(200):
        cells = draw.geometric(0.05, size=(400, 1)).astype(float)
        one, other = (Records(codes=part.astype(np.int64), positions=part) for part in (cells[:250], cells[250:]))
        try:
            refuse_overlap(one, other)
        except InputError:
            refused += 1
    assert refused <= 3


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"keys": ("region",), "targets": ("region",)}, "both a key and a target"),
        ({"keys": "region"}, "list"),
        ({"keys": ("regoin",)}, "'region'"),
        ({"only": ("membership",)}, "needs a holdout"),
        ({"only": ("memberships",)}, "'membership'"),
    ],
)
def test_bad_settings_are_refused(schema, tables, settings, words):
    with pytest.raises(InputError, match=words):
        run(schema, tables["small"], tables["small"], **settings)


def test_too_few_records_are_refused(schema, tables):
    one = tables["data"].slice(0, 1)
    with pytest.raises(InputError, match="fewer than two"):
        run(schema, tables["small"], one)
    with pytest.raises(InputError, match="synthetic table has fewer"):
        run(schema, one, tables["small"])
    with pytest.raises(InputError, match="no control"):
        run(schema, tables["small"], tables["data"], holdout=one)
    with pytest.raises(InputError, match=r"us\.wrap"):
        compare(tables["small"], us.open_source(tables["data"], schema))


def test_another_schema_is_refused(schema, tables):
    other = us.Schema(attributes=schema.attributes[:4], ignore=("smokes",))
    with pytest.raises(InputError, match="'smokes' is in the release only"):
        risk_of(us.wrap(tables["small"], schema), us.open_source(tables["data"], other))


def test_keys_that_are_all_unique_are_told(tables):
    ids = us.Schema(
        attributes=(
            us.Attribute(name="id", levels=tuple(range(60))),
            us.Attribute(name="sex", levels=("F", "M")),
        )
    )
    data = pa.table({"id": np.arange(60), "sex": ["F", "M"] * 30})
    found = run(ids, data, data, keys=("id",))
    assert "different for every person" in {f.code: f.title for f in found.findings}["risk.uniqueness.keys"]


def test_an_unknown_attack_is_named():
    with pytest.raises(UnknownNameError, match="'linkability'"):
        attacks["linkabilty"]


def test_every_attack_says_what_it_is():
    for name in attacks:
        kind = attacks[name]
        assert kind.name == name
        assert name in NO_CLAIMS or (kind.question and kind.believed_by)
        assert kind.summary
        assert set(kind.needs) <= {"holdout", "keys", "synthesizer"}


@pytest.mark.parametrize("leaks", [True, False])
def test_shadow_models_catch_a_synthesizer_that_copies_and_not_one_that_ignores_the_data(schema, tables, leaks):
    """64 runs of each world, half of them tested; a coin reaches an area of 0.85 with probability below 1e-5."""
    data = tables["small"]
    constant = tables["other"].slice(0, 60)
    draw = np.random.default_rng(0)

    def synthesize(table: pa.Table) -> pa.Table:
        source = table if leaks else constant
        return source.take(pa.array(draw.permutation(source.num_rows)))

    game = compared(us.wrap(constant, schema), data, synthesizer=synthesize)
    row = shadow_attack(game, synthesize, 3, runs=64)["row"]
    if leaks:
        assert row["auc"] > 0.95
        assert row["epsilon_low"] > 1
    else:
        assert row["auc"] < 0.85
        assert row["epsilon_low"] < 1


def test_a_synthesizer_adds_the_shadow_attack(schema, tables):
    data = tables["small"]
    found = run(schema, data, data, synthesizer=lambda table: us.wrap(table, schema), only=("shadow_models",))
    assert found.frames["shadow_models"].num_rows == 2
    with pytest.raises(InputError, match="speaks Arrow"):
        run(schema, data, data, synthesizer=lambda table: [1], only=("shadow_models",))


def test_risk_against_epsilon_has_the_worst_subject_of_each_attack(schema, tables):
    from understudy.evaluation.risk import risk_against_epsilon

    release = us.wrap(tables["small"], schema)
    section = risk_of(release, tables["data"], only=("linkability", "attribution"))
    table = risk_against_epsilon([("one", release, section)]).to_pylist()
    assert {row["attack"] for row in table} == {"linkability", "attribution"}
    assert {row["epsilon"] for row in table} == {None}
    for row in table:
        same = [other["residual_low"] for other in outcomes(section) if other["attack"] == row["attack"]]
        assert row["residual_low"] == max(same)


def test_data_without_rows_are_refused_in_words(schema, tables):
    with pytest.raises(InputError, match="the confidential data have no rows"):
        run(schema, tables["data"], tables["data"].slice(0, 0))
