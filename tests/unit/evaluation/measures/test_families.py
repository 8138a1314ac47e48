"""Each family against an independent computation of the same number."""

from __future__ import annotations

import datetime
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp, spearmanr
from scipy.stats.contingency import association

import understudy as us
from understudy.core.table import CodedTable
from understudy.errors import InputError
from understudy.evaluation.inputs.comparison import compare
from understudy.evaluation.inputs.counted_tables import count_together
from understudy.evaluation.measures.associations import cramers_v, spearman
from understudy.evaluation.measures.cells import describe_cells
from understudy.evaluation.measures.numeric import kolmogorov_smirnov
from understudy.evaluation.measures.regressions import interval_overlap
from understudy.evaluation.utility import evaluate_utility

TABLE = st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=2, max_size=5)


def utility_of(release, source, *, families=None, **settings):
    return evaluate_utility(compare(release, source, **settings), families=families)


@given(TABLE)
@settings(max_examples=60, deadline=None)
def test_associations_agree_with_scipy(rows):
    table = np.array(rows)
    v, rho = cramers_v(table), spearman(table)
    used = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    if min(used.shape) < 2:
        assert v is None
        assert rho is None
        return
    assert v == pytest.approx(association(used, method="cramer", correction=False), abs=1e-9)
    first, second = np.nonzero(table)
    times = table[first, second]
    assert rho == pytest.approx(spearmanr(np.repeat(first, times), np.repeat(second, times)).statistic, abs=1e-9)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=40), st.lists(st.integers(0, 20), min_size=1, max_size=40))
@settings(max_examples=60, deadline=None)
def test_kolmogorov_smirnov_agrees_with_scipy(first, second):
    expected = ks_2samp(first, second).statistic
    assert kolmogorov_smirnov(np.array(first, float), np.array(second, float)) == pytest.approx(expected, abs=1e-9)


def test_interval_overlap():
    assert interval_overlap((0, 4), (1, 3)) == 0.75
    assert interval_overlap((0, 1), (2, 3)) == -1
    assert interval_overlap((0, 1), (0, 1)) == 1
    with pytest.raises(InputError):
        interval_overlap((1, 1), (0, 1))


@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 60))
@settings(max_examples=20, deadline=None)
def test_counting_together_is_counting_apart(seed, n, k):
    schema = us.Schema(attributes=tuple(us.Attribute(name=f"a{i}", levels=tuple(range(2 + i))) for i in range(4)))
    rng = np.random.default_rng(seed)
    tables = [
        CodedTable(
            schema=schema, columns={a.name: rng.integers(0, a.size, rows).astype(np.uint8) for a in schema.attributes}
        )
        for rows in (n, k, k)
    ]
    margins = [("a0",), ("a1", "a3"), ("a0", "a2", "a3"), schema.names]
    for margin, original, copies in count_together(tables[0], tables[1:], margins):
        assert np.array_equal(original.reshape(schema.shape(margin)), tables[0].counts(margin))
        for copy, table in zip(copies, tables[1:], strict=True):
            assert np.array_equal(copy.reshape(schema.shape(margin)), table.counts(margin))


def test_a_huge_table_is_counted_by_its_filled_cells(monkeypatch):
    from understudy.evaluation.inputs import counted_tables as counting

    schema = us.Schema(attributes=tuple(us.Attribute(name=f"a{i}", levels=tuple(range(50))) for i in range(3)))
    rng = np.random.default_rng(1)
    tables = [
        CodedTable(schema=schema, columns={name: rng.integers(0, 50, 400).astype(np.uint8) for name in schema.names})
        for _ in range(2)
    ]
    ((_, dense, (other,)),) = count_together(tables[0], tables[1:], [schema.names])
    monkeypatch.setattr(counting, "DENSE_CELLS", 10)
    ((_, sparse, (other_sparse,)),) = count_together(tables[0], tables[1:], [schema.names])
    filled = (dense + other) > 0
    assert len(sparse) == filled.sum()
    assert np.array_equal(dense[filled], sparse)
    assert np.array_equal(other[filled], other_sparse)


def test_cells_of_a_domain_too_large_to_number():
    schema = us.Schema(attributes=tuple(us.Attribute(name=f"a{i}", levels=tuple(range(100))) for i in range(12)))
    rng = np.random.default_rng(2)
    columns = {name: rng.integers(0, 2, 50).astype(np.uint8) for name in schema.names}
    table = CodedTable(schema=schema, columns={name: np.append(column, column[:1]) for name, column in columns.items()})
    found = describe_cells(table)
    expected = pd.DataFrame(table.columns).value_counts()
    assert found["cells"] == 100**12
    assert (found["filled_cells"], found["uniques"]) == (len(expected), int((expected == 1).sum()))
    release = us.wrap(pa.table({name: pa.array(table.columns[name].astype(int)) for name in schema.names}), schema)
    source = us.open_source(release.frame(), schema)
    found = utility_of(release, source, ways=(1, 12), families=("cells", "margins"))
    assert [row["mean_s_pmse"] for row in found.frames["ways"].to_pylist()] == [0, 0]


def test_numbers_dates_and_special_codes():
    day = datetime.date
    schema = us.Schema(
        attributes=(
            us.Attribute(name="day", edges=(day(2020, 1, 1), day(2020, 7, 1), day(2021, 1, 1)), missing=True),
            us.Attribute(name="pay", edges=(0, 10, 20), outside="clip", special=((-8, "none"),)),
        )
    )
    days = [day(2020, 1, 1), day(2020, 3, 1), None, day(2020, 12, 31)]
    pay = ["5", "+25", "-8", " 7.5 "]
    original = pa.table({"day": days, "pay": pay})
    found = utility_of(us.wrap(original, schema), us.open_source(original, schema), families=("numeric",))
    rows = {row["attribute"]: row for row in found.frames["numeric"].to_pylist()}
    assert rows["pay"]["mean_original"] == pytest.approx((5 + 20 + 7.5) / 3)
    assert rows["day"]["mean_original"] == pytest.approx(np.mean([18262, 18322, 18627]))
    assert rows["day"]["ks"] == 0


def test_missing_values_together_or_apart():
    attributes = tuple(us.Attribute(name=name, levels=("a", "b"), missing=True) for name in ("x", "y"))
    schema = us.Schema(attributes=attributes)
    together = pa.table({"x": ["a", None] * 100, "y": ["b", None] * 100})
    apart = pa.table({"x": ["a", None] * 100, "y": [None, "b"] * 100})
    found = utility_of(us.wrap(apart, schema), us.open_source(together, schema), families=("patterns",))
    shares = {row["missing"]: row["original_percent"] for row in found.frames["missing_patterns"].to_pylist()}
    assert shares == {"none": 50, "x, y": 50, "x": 0, "y": 0}
    (finding,) = [finding for finding in found.findings if finding.code == "utility.missing"]
    assert finding.severity == "problem"


def test_train_on_synthetic_test_on_holdout(kit, people, schema, source):
    holdout = us.open_source(kit.make_people(600, 12), schema)
    release = us.wrap(kit.shuffled_columns(people, 1), schema)
    found = utility_of(release, source, holdout=holdout, families=("prediction",))
    rows = {row["target"]: row for row in found.frames["prediction"].to_pylist()}
    assert {row["tested_on"] for row in rows.values()} == {"holdout"}
    assert rows["age"]["test_rows"] == 600
    assert rows["age"]["trained_on_real"] > rows["age"]["trained_on_synthetic"] + 0.05
    assert rows["age"]["gain_kept"] < 0.5
    areas = found.frames["discrimination"].to_pylist()
    best = max(rows.values(), key=lambda row: row["trained_on_real"] - row["guessing"])["target"]
    assert [(row["target"], row["model"]) for row in areas] == [(best, "boosted trees"), (best, "logit")]
    assert all(row["trained_on_real"] > 0.65 for row in areas)
    assert (
        areas[0]["difference"] < -0.1
    )  # shuffled columns say nothing of one another; a straight line may hit by chance


def test_outcomes_that_the_workload_predicts_are_judged_by_their_curve(kit, people, schema):
    named = replace(schema, workload=("predict(smokes)", "crosstab(sex, age)"))
    found = utility_of(us.wrap(people, named), us.open_source(people, named), families=("prediction",))
    areas = found.frames["discrimination"].to_pylist()
    assert {row["target"] for row in areas} == {"smokes"}
    assert all(abs(row["difference"]) < 0.1 for row in areas)  # the data themselves are as good as the data


def test_the_same_values_in_other_types():
    """Missing values and numbers of every kind pandas and Arrow know, on either side."""
    day = datetime.date
    schema = us.Schema(
        attributes=(
            us.Attribute(name="flag", levels=(False, True), missing=True),
            us.Attribute(name="grade", levels=(1, 2, 3), missing=True),
            us.Attribute(name="day", edges=(day(2020, 1, 1), day(2021, 1, 1), day(2022, 1, 1)), missing=True),
            us.Attribute(name="size", edges=(0, 1.5, 10), outside="missing", missing=True),
            us.Attribute(name="count", edges=(0, 5, 10), integer=True, missing=True),
        )
    )
    rng = np.random.default_rng(0)
    rows = 200
    frame = pd.DataFrame(
        {
            "flag": pd.array(rng.random(rows) < 0.5, dtype="boolean"),
            "grade": rng.integers(1, 4, rows).astype(float),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, rows), "D"),
            "size": np.round(rng.random(rows) * 12, 3),
            "count": pd.array(rng.integers(0, 10, rows), dtype="Int64"),
        }
    )
    frame.loc[:20, "flag"], frame.loc[10:30, "grade"], frame.loc[5:9, "day"] = pd.NA, np.nan, pd.NaT
    frame.loc[40:44, "count"], frame.loc[3, "size"] = pd.NA, np.inf
    other = pa.table(
        {
            "flag": pa.array([None if pd.isna(value) else bool(value) for value in frame["flag"]]),
            "grade": pa.array([None if pd.isna(value) else str(int(value)) for value in frame["grade"]]),
            "day": pa.array([None if pd.isna(value) else value.date() for value in frame["day"]]),
            "size": pa.array([None if np.isinf(value) else Decimal(str(value)) for value in frame["size"]]),
            "count": pa.array([None if pd.isna(value) else f" +{value}" for value in frame["count"]]),
        }
    )
    models = ("size ~ flag + grade + day + count", "flag ~ C(size) + count")
    found = utility_of(
        us.wrap(other, schema),
        us.open_source(frame, schema),
        models=models,
        families=("margins", "numeric", "patterns", "regressions"),
    )
    assert {row["mean_s_pmse"] for row in found.frames["ways"].to_pylist()} == {0}
    assert [row["ks"] for row in found.frames["numeric"].to_pylist()] == [0, 0, 0]
    assert all(row["overlap"] == pytest.approx(1) for row in found.frames["regressions"].to_pylist())
    assert {row["difference"] for row in found.frames["missing_patterns"].to_pylist()} == {0}
