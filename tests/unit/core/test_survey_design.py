"""What a schema may say of weights and designs: what is kept, what is refused, and what stays as it was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import understudy as us
from understudy.core.raking import raked
from understudy.core.schema_file import parse_schema, write_schema
from understudy.core.survey_design import REPLICATES, check_unit, described
from understudy.core.workload import needs_of
from understudy.errors import InputError, SchemaError

START = """version = 1
[[attribute]]
name = "sex"
levels = ["F", "M"]
[[attribute]]
name = "region"
levels = ["N", "S"]
"""
WEIGHT = '[weight]\ncolumn = "w"\nbounds = [1, 50]\n'


def schema_with(text: str) -> us.Schema:
    return parse_schema(START + text)


def test_a_weight_is_one_more_attribute_with_bounds_on_a_logarithmic_grid():
    schema = schema_with(WEIGHT)
    weight = schema["w"]
    assert schema.names == ("sex", "region", "w")
    assert weight.open
    assert weight.always_measure
    steps = np.diff(np.log(weight.edges))
    assert steps[50:].max() < 1.05 * steps[50:].min()  # equal steps of the logarithm, away from the lowest weights
    assert [need.tables for need in needs_of(schema)] == [(("sex", "w"), ("region", "w"))]


def test_what_must_be_answerable_is_weighted():
    schema = schema_with(WEIGHT + '[[workload]]\ntable = ["sex", "region"]\n')
    assert needs_of(schema)[-1].tables == (("sex", "region", "w"),)


def test_a_schema_without_a_weight_is_what_it_was():
    plain = parse_schema(START)
    assert plain.weight is None
    assert plain.design is None
    assert "weight" not in plain.canonical()
    # Computed before weights existed: releases of that time are still read.
    assert plain.fingerprint == "e61d921681a88f8301122e0bdf14231ce3435c76790f35b36cf17a93494c4948"


def test_a_file_says_all_of_it_and_can_be_read_again():
    schema = schema_with(
        WEIGHT.replace("[1, 50]", "[1, 50]\norigin = 'calibrated'\noutside = 'clip'\nbins = 6\ndecimals = 2")
        + "[[weight.total]]\nattribute = 'sex'\ntotals = { F = 510, M = 490 }\n"
        + "[[weight.other]]\ncolumn = 'w2'\nedges = [1, 2, 4]\npublic_design = true\n"
        + "[design]\nsampling_strata = 'region'\nclusters = 'household'\nlargest_cluster = 9\n"
        + "design_effects = { sex = 0.8, '*' = 2.0 }\npopulations = { N = 400, S = 600 }\nreplicate_weights = ['r1']\n"
    )
    again = parse_schema(write_schema(schema))
    assert again == schema
    assert again.fingerprint == schema.fingerprint
    assert schema.ignore == ("household", "r1")
    assert schema.columns == ("sex", "region", "w", "w2", "w_calibrated")
    assert ("replicate weights", f"r1: {REPLICATES}") in described(schema)
    assert replace(schema, weight=replace(schema.weight, bins=5)).fingerprint != schema.fingerprint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[weight]\nbounds = [1, 50]\n", "needs column"),
        ('[weight]\ncolumn = "w"\n', "needs bounds"),
        ('[weight]\ncolumn = "w"\nbounds = [0, 50]\n', "must be a positive finite number"),
        ('[weight]\ncolumn = "w"\nbounds = [-1, 50]\n', "must be a positive finite number"),
        ('[weight]\ncolumn = "w"\nbounds = [1, inf]\n', "must be a positive finite number"),
        ('[weight]\ncolumn = "w"\nbounds = [50, 1]\n', "the smallest possible weight and then a larger one"),
        ('[weight]\ncolumn = "w"\nbounds = [1, 50]\nedges = [1, 50]\n', "one of the two"),
        (WEIGHT + "origin = 'magic'\n", "design, nonresponse"),
        (WEIGHT + "origin = 'calibrated'\n", "to which public totals"),
        (WEIGHT + "outside = 'missing'\n", "clip, error"),
        (WEIGHT + "sums_to = 'nothing'\n", "population, sample"),
        (WEIGHT + "bins = 1\n", "from 2 to 64"),
        (WEIGHT + "public_design = 1\n", "true or false"),
        (WEIGHT + "colour = 1\n", "key of \\[weight\\]"),
        (WEIGHT + "[[weight.total]]\nattribute = 'sex'\ntotals = { F = 5 }\n", "level 'M' has no total"),
        (WEIGHT + "[[weight.total]]\nattribute = 'sex'\ntotals = { F = 5, X = 5 }\n", "level 'X'|level: X|'X'"),
        (WEIGHT + "[[weight.total]]\nattribute = 'age'\ntotals = { F = 5 }\n", "'age'"),
        (WEIGHT + "[[weight.total]]\nattribute = 'sex'\ntotals = { F = 5, M = -5 }\n", "must be a positive finite"),
        (
            WEIGHT + "[[weight.total]]\nattribute = 'sex'\ntotals = { F = 5, M = 5 }\n"
            "[[weight.total]]\nattribute = 'region'\ntotals = { N = 5, S = 6 }\n",
            "contradict each other",
        ),
        (
            WEIGHT + "[[weight.total]]\nattribute = 'sex'\ntotals = { F = 5, M = 5 }\n[design]\npopulation = 12\n",
            "contradict each other",
        ),
        (
            WEIGHT + "[[weight.total]]\nattribute = 'region'\ntotals = { N = 5, S = 7 }\n"
            "[design]\nsampling_strata = 'region'\npopulations = { N = 7, S = 5 }\n",
            "total of 'N' is 5, and its population in the design is 7",
        ),
        (
            WEIGHT + "sums_to = 'sample'\n[[weight.total]]\nattribute = 'sex'\ntotals = { F = 5, M = 5 }\n",
            "go with sums_to",
        ),
        (WEIGHT + "[[weight.other]]\ncolumn = 'w'\nbounds = [1, 2]\n", "the same column"),
        (WEIGHT + "[[attribute]]\nname = 'w'\nlevels = ['a']\n", "do not say the same"),
        ("[design]\nsampling_strata = 'age'\n", "'age'"),
        ("[design]\npopulations = { N = 1, S = 1 }\n", "name that attribute"),
        ("[design]\nsampling_strata = 'region'\npopulations = { N = 1, S = 1 }\npopulation = 3\n", "contradict"),
        ("[design]\nprotects = 'cluster'\n", "needs clusters"),
        ("[design]\nprotects = 'nobody'\n", "cluster, person"),
        ("[design]\ndesign_effects = { sex = 0 }\n", "must be a positive finite"),
        ("[design]\ndesign_effects = { age = 1 }\n", "'age'"),
        ("[design]\ncolour = 1\n", "key of \\[design\\]"),
    ],
)
def test_what_contradicts_itself_is_refused(text, said):
    with pytest.raises(SchemaError, match=said):
        schema_with(text)


def test_a_unit_must_fit_the_clusters_and_the_weight():
    clusters = schema_with(WEIGHT + "[design]\nclusters = 'hh'\nprotects = 'cluster'\nlargest_cluster = 4\n")
    check_unit(clusters, unit_id="hh", rows_per_unit=4, fixed=())
    with pytest.raises(InputError, match="protects whole clusters"):
        check_unit(clusters, unit_id=None, rows_per_unit=4, fixed=())
    with pytest.raises(InputError, match="has up to 4 rows by the schema, and rows_per_unit is 3"):
        check_unit(clusters, unit_id="hh", rows_per_unit=3, fixed=())
    with pytest.raises(InputError, match="only if the design that gives it is public"):
        check_unit(schema_with(WEIGHT), unit_id=None, rows_per_unit=1, fixed=("w",))
    check_unit(schema_with(WEIGHT + "public_design = true\n"), unit_id=None, rows_per_unit=1, fixed=("w",))


def test_plans_refuse_such_a_unit_before_anything_is_charged():
    clusters = schema_with(WEIGHT + "[design]\nclusters = 'hh'\nprotects = 'cluster'\nlargest_cluster = 4\n")
    with pytest.raises(InputError, match="protects whole clusters"):
        us.plan(clusters, budget=us.PureDP(epsilon=1), method="ipf")


def test_raking_meets_every_total_and_keeps_odds_ratios():
    rng = np.random.default_rng(1)
    one, two = rng.integers(0, 2, 400), rng.integers(0, 3, 400)
    weights = rng.uniform(1, 9, 400)
    totals = np.array([700.0, 300.0]), np.array([500.0, 300.0, 200.0])
    found = raked(weights, [(one, totals[0]), (two, totals[1])])
    assert np.allclose(np.bincount(one, found), totals[0], rtol=1e-9)
    assert np.allclose(np.bincount(two, found), totals[1], rtol=1e-9)
    before, after = (np.array([[w[(one == a) & (two == b)].sum() for b in range(3)] for a in range(2)]) for w in
                     (weights, found))  # fmt: skip
    odds = [t[0, 0] * t[1, 1] / t[0, 1] / t[1, 0] for t in (before, after)]
    assert odds[0] == pytest.approx(odds[1])


def test_a_level_without_rows_leaves_the_other_totals_as_they_are():
    found = raked(np.ones(3), [(np.array([0, 0, 1]), np.array([4.0, 2.0, 5.0]))])
    assert found.tolist() == [2.0, 2.0, 2.0]
