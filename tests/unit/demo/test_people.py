"""The demonstration population keeps its promises: shapes, gaps, impossibilities and true relations.

Statistical checks use 4.5 standard errors, a false alarm of 7e-6 each; with fixed seeds they pass or fail for good.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from understudy.core.schema import MISSING
from understudy.demo import people
from understudy.demo.people import TRUTH, make_people, people_schema, small_schema, true_value
from understudy.errors import InputError, UnknownNameError

WIDTH = 4.5  # standard errors


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return make_people()


def column(table: pa.Table, name: str) -> np.ndarray:
    return np.array(table[name].to_pylist(), dtype=object)


def design(table: pa.Table, relation: str, rows: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Indicator columns for the coefficients a relation names (all but thresholds and spreads)."""
    age = table["age"].to_numpy()
    groups = np.array([*people.AGE_GROUPS, "none"], dtype=object)[people.age_group(age)]
    names = [name for name in TRUTH[relation].coefficients if name != "sigma"]
    values = {"age": groups, "sex": column(table, "sex"), "education": column(table, "education")}
    parts = [
        np.ones(len(age)) if name == "intercept" else values[name.split("=")[0]] == name.split("=")[1] for name in names
    ]
    return np.stack(parts, axis=1).astype(float)[rows], names


def test_has_the_columns_of_the_schema_and_an_id_to_ignore(table):
    schema = people_schema()
    assert set(table.column_names) == {*schema.names, *schema.ignore}
    assert set(small_schema().names) | set(small_schema().ignore) == set(table.column_names)
    assert len(pc.unique(table["person_id"])) == table.num_rows == 100_000


def test_same_arguments_give_the_same_table_and_another_seed_another():
    assert make_people(500, 1).equals(make_people(500, 1))
    assert not make_people(500, 1).equals(make_people(500, 2))


def test_no_rows_and_one_row():
    assert make_people(0).schema == make_people(1).schema
    assert make_people(0).num_rows == 0
    with pytest.raises(InputError, match="rows"):
        make_people(-1)


@pytest.mark.parametrize("attribute", [a for a in people_schema().attributes if a.levels], ids=lambda a: a.name)
def test_every_level_occurs_and_nothing_else(table, attribute):
    seen = set(column(table, attribute.name))
    assert seen - {None} == set(attribute.levels)
    assert (None in seen) == attribute.missing


@pytest.mark.parametrize("attribute", [a for a in people_schema().attributes if a.edges], ids=lambda a: a.name)
def test_every_value_lies_inside_the_edges_and_every_bin_is_used(table, attribute):
    special = [code for code, _ in attribute.special]
    values = [v for v in column(table, attribute.name) if v is not None and v not in special]
    assert attribute.edges[0] <= min(values)
    assert max(values) <= attribute.edges[-1]
    bins = np.searchsorted(np.array(attribute.edges, dtype=object), values, side="right") - 1
    assert set(np.minimum(bins, attribute.bins - 1)) == set(range(attribute.bins))


def test_structural_zeros_hold(table):
    schema = people_schema()
    codes = {}
    for attribute in schema.attributes:
        values = column(table, attribute.name)
        names = {name: code for code, name in enumerate(attribute.code_names)}
        if attribute.levels:
            codes[attribute.name] = np.array([names[MISSING if v is None else v] for v in values])
            continue
        empty = np.array([v is None for v in values])
        special = {code: attribute.bins + i for i, (code, _) in enumerate(attribute.special)}
        filled = np.where(empty, attribute.edges[0], values)
        bins = np.minimum(np.searchsorted(np.array(attribute.edges, object), filled, "right") - 1, attribute.bins - 1)
        for value, code in special.items():
            bins[filled == value] = code
        codes[attribute.name] = np.where(empty, attribute.size - 1, bins)
    for rule in schema.impossible:
        meets = np.all([np.isin(codes[name], listed) for name, listed in rule.codes(schema).items()], axis=0)
        assert not meets.any(), rule.describe()
    # The rules bite: without children's constraint the same check would find somebody.
    assert np.isin(codes["marital"], (1, 2, 3)).any()
    assert (codes["age"] < 2).any()


def test_income_is_not_applicable_exactly_when_not_working(table):
    works = np.isin(column(table, "employment"), people.WORKING)
    income = column(table, "income")
    assert np.array_equal(income == people.NOT_APPLICABLE, ~works)


@pytest.mark.parametrize("name", sorted(people.UNANSWERED))
def test_shares_of_missing(table, name):
    asked = {
        "income": np.isin(column(table, "employment"), people.WORKING),
        "smokes": table["age"].to_numpy() >= 15,
        "health": np.ones(table.num_rows, dtype=bool),
    }[name]
    missing = np.array([value is None for value in column(table, name)])
    share = people.UNANSWERED[name]
    error = np.sqrt(share * (1 - share) / asked.sum())
    assert abs(missing[asked].mean() - share) < WIDTH * error
    assert abs(missing[asked].mean() - share * 1.2) > WIDTH * error  # power: a fifth more would be seen


@pytest.mark.parametrize("name", ["region", "sex"])
def test_shares_are_the_true_ones(table, name):
    values = column(table, name)
    for level, share in TRUTH[name].coefficients.items():
        assert abs((values == level).mean() - share) < WIDTH * np.sqrt(share * (1 - share) / len(values))


def test_smoking_is_the_true_logistic_model(table):
    answer = column(table, "smokes")
    rows = np.array([value is not None for value in answer])
    x, names = design(table, "smokes", rows)
    y = (answer[rows] == "yes").astype(float)
    beta = np.zeros(x.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-x @ beta))
        information = (x * (p * (1 - p))[:, None]).T @ x
        step = np.linalg.solve(information, x.T @ (y - p))
        beta += step
    assert np.abs(step).max() < 1e-9
    check_against_truth("smokes", names, beta, np.sqrt(np.diag(np.linalg.inv(information))))


def test_income_is_the_true_log_linear_model(table):
    income = column(table, "income")
    rows = np.array([value is not None and value > 0 for value in income])
    x, names = design(table, "income", rows)
    y = np.log(income[rows].astype(float))
    beta, *_ = np.linalg.lstsq(x, y, rcond=None)
    sigma = np.std(y - x @ beta, ddof=len(names))
    check_against_truth("income", names, beta, sigma * np.sqrt(np.diag(np.linalg.inv(x.T @ x))))
    assert abs(sigma - true_value("income/sigma")) < WIDTH * sigma / np.sqrt(2 * len(y))


def check_against_truth(relation, names, estimates, errors):
    for name, estimate, error in zip(names, estimates, errors, strict=True):
        truth = true_value(f"{relation}/{name}")
        assert abs(estimate - truth) < WIDTH * error, name
        assert abs(estimate - (truth + 0.3)) > WIDTH * error, f"{name}: no power"


def test_health_worsens_with_age_as_stated(table):
    age, health = table["age"].to_numpy(), column(table, "health")
    asked = np.array([value is not None for value in health])
    for at_most, name in enumerate(people.HEALTH[:-1]):
        worse = np.isin(health[asked], people.HEALTH[: at_most + 1])
        score = true_value(f"health/threshold={name}") + true_value("health/age/10") * age[asked] / 10
        p = 1 / (1 + np.exp(-score))
        for moment in (np.ones_like(p), age[asked]):  # both equations of the logistic likelihood hold at the truth
            residual, spread = moment @ (worse - p), np.sqrt(moment**2 @ (p * (1 - p)))
            assert abs(residual) < WIDTH * spread


def test_unknown_truth_names_the_nearest():
    with pytest.raises(UnknownNameError, match="smokes"):
        true_value("smoke/sex=M")
    with pytest.raises(UnknownNameError, match="sex=M"):
        true_value("smokes/sex=N")


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_written_files_fit_the_written_schema(tmp_path, form):
    from understudy.core.schema_file import read_schema
    from understudy.engines.systems.local.inputs import open_local

    data, described = people.write_people(tmp_path, rows=20_000, form=form)
    assert (data.name, described.name) == (f"people.{form}", "people.toml")
    schema = read_schema(described)
    assert schema.fingerprint == people_schema().fingerprint
    source = open_local(data, schema)
    assert source.total() == 20_000
    (by_sex,) = source.count([("sex",)])  # a scan checks every attribute and every structural zero, or raises
    assert by_sex.values.sum() == 20_000


def test_the_small_schema_counts_the_same_people():
    from understudy.engines.systems.local.inputs import open_local

    source = open_local(make_people(5_000), small_schema())
    (counts,) = source.count([small_schema().names])
    assert counts.values.sum() == 5_000
    assert counts.values[~small_schema().allowed()].sum() == 0
    assert (counts.values == 0).any()


def test_an_unknown_form_is_refused(tmp_path):
    with pytest.raises(UnknownNameError, match="csv"):
        people.write_people(tmp_path, form="cvs")
