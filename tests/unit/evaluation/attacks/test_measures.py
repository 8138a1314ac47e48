"""Every measure of uniqueness, attribution and matching against a loop over people that says what it means."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import understudy as us
from understudy.evaluation.attacks import cell_counts
from understudy.evaluation.attacks.anonymity import anonymity
from understudy.evaluation.attacks.attribution import Claims
from understudy.evaluation.attacks.cell_counts import real_given_synthetic, tables
from understudy.evaluation.attacks.matching import match_counts, match_rates
from understudy.evaluation.attacks.uniqueness import Uniqueness, key_sets, uniqueness
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.inputs.records import Records
from understudy.evaluation.shared.attack_success import Outcome, Tally, residual
from understudy.evaluation.shared.neighbours import cell_numbers, numbers_of

LEVELS = (3, 2, 4)
SCHEMA = us.Schema(
    attributes=tuple(
        us.Attribute(name=f"v{j}", levels=tuple(range(size)), ordered=j == 2) for j, size in enumerate(LEVELS)
    )
)


def coded(rows: int):
    columns = [arrays(np.int64, rows, elements=st.integers(0, size - 1)) for size in LEVELS]
    return st.tuples(*columns).map(np.column_stack)


codes = st.integers(2, 25).flatmap(coded)


def records(table) -> Records:
    return Records(codes=table, positions=table.astype(float))


def of_records(schema, people, copies, **more) -> Comparison:
    """A comparison of records that were never in a file."""
    release = SimpleNamespace(schema=schema, statement=SimpleNamespace(unit=us.Unit()))
    made = Comparison(release=release, original=None, original_rows=None, copies=copies, **more)
    vars(made).update(people=people, tables=tuple(copies), independent_tables=tuple(copies))
    return made


def compared(people, copy, **more) -> Comparison:
    return of_records(SCHEMA, records(people), (records(copy),), **more)


@settings(max_examples=60, deadline=None)
@given(people=codes, copy=codes)
def test_claims_by_equal_keys(people, copy):
    (own, other), _ = cell_numbers([people, copy], [0, 1], LEVELS)
    found = Claims(own, people[:, 2], other, copy[:, 2], LEVELS[2]).measures()
    n = len(people)
    i_s = di_s = disco = disdio = dcap = 0.0
    for person in people:
        same = copy[(copy[:, :2] == person[:2]).all(axis=1)][:, 2]
        like = people[(people[:, :2] == person[:2]).all(axis=1)][:, 2]
        i_s += len(same) > 0
        claim = len(set(same.tolist())) == 1
        di_s += claim
        disco += claim and same[0] == person[2]
        disdio += claim and same[0] == person[2] and len(set(like.tolist())) == 1
        dcap += np.mean(same == person[2]) if len(same) else 0.0
    shares = np.bincount(people[:, 2]) / n
    for name, total in {"iS": i_s, "DiS": di_s, "DiSCO": disco, "DiSDiO": disdio, "DCAP": dcap}.items():
        assert found[name] == pytest.approx(100 * total / n), name
    assert found["baseCAP"] == pytest.approx(100 * np.sum(shares**2))
    assert found["TCAP_of_all"] == found["DiSCO"]
    assert found["TCAP_of_claims"] == (pytest.approx(100 * disco / di_s) if di_s else None)
    assert found["TCAP_of_present"] == (pytest.approx(100 * disco / i_s) if i_s else None)
    assert found["false_claims"] == pytest.approx(100 * (di_s - disco) / n)


@settings(max_examples=60, deadline=None)
@given(people=codes, copy=codes)
def test_replicated_uniques(people, copy):
    (own, other), cells = cell_numbers([people, copy], [0, 1, 2], LEVELS)
    found = uniqueness(np.bincount(own, minlength=cells), own, np.bincount(other, minlength=cells))
    d = np.array([np.sum((people == person).all(axis=1)) for person in people])
    s = np.array([np.sum((copy == person).all(axis=1)) for person in people])
    own_s = np.array([np.sum((copy == row).all(axis=1)) for row in copy])
    assert found["UiO"] == pytest.approx(100 * np.mean(d == 1))
    assert found["UiS"] == pytest.approx(100 * np.mean(own_s == 1))
    assert found["repU"] == pytest.approx(100 * np.mean((d == 1) & (s == 1)))


@settings(max_examples=30, deadline=None)
@given(people=codes, copy=codes)
def test_the_table_of_key_sets_and_the_records_at_risk(people, copy):
    found = Uniqueness().run(compared(people, copy, keys=("v0", "v1")))
    table = found.frames["uniqueness"]
    assert table["keys"].to_pylist() == ["v0 x v1 x v2", "v0 x v1", "v0", "v1"]
    d = np.array([np.sum((people == person).all(axis=1)) for person in people])
    s = np.array([np.sum((copy == person).all(axis=1)) for person in people])
    risky = np.flatnonzero((d == 1) & (s == 1))
    assert found.frames["records_at_risk"]["record"].to_pylist() == risky.tolist()
    assert table["repU"][0].as_py() == pytest.approx(100 * len(risky) / len(people))
    assert table["repU_null"] == table["repU"]  # here the null release is the release
    claims = found.frames["attacks"].to_pylist()[0]  # about whoever finds one synthetic row like a person
    assert (claims["claims"], claims["claims_right"]) == (int(np.sum(s == 1)), len(risky))
    assert claims["claims_of"] == len(people)
    levels = found.frames["levels_at_risk"].to_pydict()
    by_name = dict(
        zip(zip(levels["attribute"], levels["level"], strict=True), levels["replicated_uniques"], strict=True)
    )
    for (name, level), count in by_name.items():
        assert count == int(np.sum(people[risky, int(name[1])] == int(level)))


def test_key_sets_are_bounded():
    many = tuple(f"a{i}" for i in range(40))
    assert len(key_sets(many, ())) <= 201
    assert key_sets(many, ())[0] == many


@settings(max_examples=60, deadline=None)
@given(people=codes, copy=codes)
def test_match_rates(people, copy):
    c, m = match_counts(compared(people, copy, keys=("v0", "v1")), records(people), records(copy))
    for i, person in enumerate(people):
        same = (copy[:, :2] == person[:2]).all(axis=1)
        assert c[i] == same.sum()
        assert m[i] == (same & (copy[:, 2] == person[2])).sum()
    rates = match_rates(c, m)
    lone = c == 1
    assert rates["expected_match_rate"] == pytest.approx(
        np.mean([b / a if a else 0 for a, b in zip(c, m, strict=True)])
    )
    assert rates["true_match_rate"] == pytest.approx(np.mean(lone & (m == 1)))
    assert (rates["false_match_rate"] is None) == (not lone.any())
    if lone.any():
        assert rates["false_match_rate"] == pytest.approx(np.mean(m[lone] == 0))


@pytest.mark.parametrize("ordered", [False, True])
@settings(max_examples=40, deadline=None)
@given(table=codes)
def test_anonymity(ordered, table):
    attribute = us.Attribute(name="t", levels=(0, 1, 2, 3), ordered=ordered)
    (classes,), _ = cell_numbers([table], [0, 1], LEVELS)
    found = anonymity(classes, table[:, 2], attribute)
    groups = [table[classes == number][:, 2] for number in np.unique(classes)]
    whole = np.bincount(table[:, 2], minlength=4) / len(table)
    assert found["k"] == min(len(group) for group in groups)
    assert found["l_distinct"] == min(len(set(group.tolist())) for group in groups)
    distances, entropies = [], []
    for group in groups:
        share = np.bincount(group, minlength=4) / len(group)
        gap = share - whole
        distances.append(np.abs(np.cumsum(gap)[:-1]).sum() / 3 if ordered else np.abs(gap).sum() / 2)
        entropies.append(-np.sum(share[share > 0] * np.log(share[share > 0])))
    assert found["t"] == pytest.approx(max(distances))
    assert found["l_entropy"] == pytest.approx(np.exp(min(entropies)))
    assert found["below_5"] == pytest.approx(100 * sum(len(g) for g in groups if len(g) < 5) / len(table))


def test_tables_that_do_not_fit_are_left_out_and_told(monkeypatch):
    people = np.array([[0, 0, 0], [1, 1, 1], [2, 1, 3]])
    monkeypatch.setattr(cell_counts, "MOST_CELLS", 3 * 2 + 2 * 4)  # the second table, of 3 x 4 cells, has no room
    d, s = tables(compared(people, people), records(people), records(people), 2)
    assert len(d) == len(s) == 3 * 2 + 2 * 4
    told = {finding.code: finding.value for finding in cell_counts.CellCounts().run(compared(people, people)).findings}
    assert told["risk.cell_counts.left_out_2"] == 1
    assert told["risk.cell_counts.left_out_3"] == 1
    monkeypatch.undo()
    told = {finding.code for finding in cell_counts.CellCounts().run(compared(people, people)).findings}
    assert not any("left_out" in code for code in told)


@settings(max_examples=40, deadline=None)
@given(people=codes, copy=codes)
def test_real_counts_given_synthetic_counts(people, copy):
    d, s = tables(compared(people, copy), records(people), records(copy), 2)
    assert len(d) == 3 * 2 + 3 * 4 + 2 * 4
    assert d.sum() == 3 * len(people)
    assert s.sum() == 3 * len(copy)
    rows = {row["synthetic_count"]: row for row in real_given_synthetic(d, s)}
    assert rows["0"]["real_zero"] == pytest.approx(100 * np.mean(d[s == 0] == 0)) if (s == 0).any() else "0" not in rows
    if (s == 1).any():
        assert rows["1"]["median"] == np.median(d[s == 1])
    assert sum(row["cells"] for row in rows.values()) == len(d)


@settings(max_examples=40, deadline=None)
@given(one=codes, other=codes)
def test_cell_numbers_agree_with_equal_rows(one, other):
    for columns in ([0], [0, 2], [0, 1, 2]):
        (a, b), cells = cell_numbers([one, other], columns, LEVELS)
        assert max(a.max(), b.max()) < cells
        assert np.array_equal(a[:, None] == b[None, :], (one[:, None, columns] == other[None, :, columns]).all(axis=2))
        (a, b), _ = cell_numbers([one, other], columns, (2**40,) * 3)  # too many cells to number
        assert np.array_equal(a[:, None] == b[None, :], (one[:, None, columns] == other[None, :, columns]).all(axis=2))
    (a, b), count = numbers_of([one[:, []], other[:, []]])
    assert count == 1
    assert not a.any()
    assert not b.any()


def test_intervals_of_success():
    assert Tally(successes=0, guesses=0).rate.low == pytest.approx(0)
    assert Tally(successes=0, guesses=0).rate.high == pytest.approx(1)
    few, many = Tally(successes=3, guesses=6).rate, Tally(successes=300, guesses=600).rate
    assert few.high - few.low > many.high - many.low
    assert Tally(successes=1, guesses=3, asked=9).told == "3 guesses could be made of 9 asked for"
    with pytest.raises(us.UnderstudyError, match="successes"):
        Tally(successes=4, guesses=3)


def test_residual_risk_uses_the_control_where_there_is_one():
    attack, base, control = (Tally(successes=x, guesses=100) for x in (60, 40, 20))
    with_control = Outcome(attack="a", subject="s", release=attack, baseline=base, control=control)
    assert with_control.residual.value == pytest.approx(0.48828, abs=5e-6)
    assert with_control.row()["against"] == "control"
    without = Outcome(attack="a", subject="s", release=attack, baseline=base)
    assert without.residual == residual(attack, base)
    assert without.row()["against"] == "baseline"
