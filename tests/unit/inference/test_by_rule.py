"""Combining rules through ``infer``: what they are told, what they refuse, and when they may be called valid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import understudy as us
from understudy.errors import InputError, UnsupportedError

SHARE = "proportion(sex == 'F')"


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def copies(sample, make_release) -> us.Release:
    """Copies of the posterior, of five times as many rows as there are records, whose number is not public."""
    options = {"method": "ipf", "draws": "posterior", "margins": "sex+smokes, smokes+health, sex+age"}
    return make_release(sample, copies=4, unit="add_remove", rows=10_000, **options)


def test_exact_margins_without_a_guarantee_are_like_anybodys_tables(sample, make_release):
    """The method's entry speaks of noisy tables, and this release holds none."""
    release = make_release(sample, method="ipf", budget=us.NonPrivate(), copies=2, margins="sex+smokes")
    assert not release.measurements
    answer = us.infer(release, SHARE, synthesis="simple", records=2000)
    assert answer.validity == "model-based"


def test_a_method_without_a_rule_stays_refused(sample, make_release):
    release = make_release(sample, method="reverse_mapped", budget=us.NonPrivate())
    with pytest.raises(UnsupportedError, match="no rule of inference fits"):
        us.infer(release, SHARE)
    release = replace(release, provenance=replace(release.provenance, draws=()))
    with pytest.raises(UnsupportedError, match="no rule of inference fits"):
        us.infer(release, SHARE, synthesis="simple", records=2000)


@pytest.mark.parametrize("records", ["many", 2.5, 0, True, None])
def test_the_number_of_records_is_a_whole_number(sample, schema, records):
    with pytest.raises(InputError, match="whole number"):
        us.infer(us.wrap([sample], schema), SHARE, synthesis="simple", records=records)


def test_a_rule_has_no_prior_and_draws_nothing(sample, schema, make_release, copies):
    plain = make_release(sample, budget=us.NonPrivate())
    for release, settings in (
        (us.wrap([sample], schema), {"synthesis": "simple", "records": 2000}),
        (plain, {}),
        (copies, {"rule": "T_f*"}),
    ):
        with pytest.raises(InputError, match="no prior"):
            us.infer(release, SHARE, prior=1.0, **settings)
        with pytest.raises(InputError, match="draws nothing"):
            us.infer(release, SHARE, draws=500, **settings)


def test_tables_without_noise_need_a_public_number_of_records(sample, make_release):
    hidden = make_release(sample, budget=us.NonPrivate(), unit="add_remove", rows=500)
    with pytest.raises(UnsupportedError, match="not public"):
        us.infer(hidden, SHARE)
    known = make_release(sample, budget=us.NonPrivate())
    nobody = replace(known, provenance=replace(known.provenance, records=0))
    with pytest.raises(InputError, match="no records"):
        us.infer(nobody, SHARE)


def test_tables_of_different_sizes_are_refused(sample, schema):
    release = us.wrap([sample, sample.slice(0, 500)], schema)
    with pytest.raises(UnsupportedError, match="between 500 and 2,000 rows"):
        us.infer(release, SHARE, synthesis="simple", records=2000)


def test_few_rows_are_never_called_valid(sample, make_release):
    release = make_release(sample.slice(0, 20), budget=us.NonPrivate())
    answer = us.infer(release, SHARE)
    assert answer.validity == "model-based"
    assert us.infer(make_release(sample, budget=us.NonPrivate()), SHARE).validity == "valid"


def test_rare_values_are_never_called_valid(sample, make_release):
    """Simulated below: with 2 expected rows a 95 percent interval of T_s covers 72 percent."""
    generator = rng(1)
    people = generator.binomial(1000, 0.002, 20_000)
    drawn = generator.binomial(1000, people / 1000)
    near = (drawn + 0.5) / 1001
    half = 1.96 * np.sqrt(2 * near * (1 - near) / 1000)
    covered = np.mean(np.abs(drawn / 1000 - 0.002) <= half)
    assert 0.68 < covered < 0.76  # ten standard errors either side
    release = make_release(sample.take(list(range(0, 2000, 4))), budget=us.NonPrivate())
    old = "age >= 64 and health == 'good'"
    rows = release.coded().counts(("age", "health"))[-1, -1]
    assert 0 <= rows < 20
    for question in (f"proportion({old})", f"count({old})", f"proportion(not ({old}))", "crosstab(age, health)"):
        answer = us.infer(release, question)
        assert answer.validity == "model-based"
        assert any("72 to 90 percent" in text for text in answer.warnings)
    for question in (SHARE, "crosstab(sex)"):
        assert us.infer(release, question).validity == "valid"
    assert us.infer(release, "mean(age)").validity == "model-based"  # where in its bin an age lies is assumed


def test_copies_of_the_posterior_do_not_count_records_that_are_not_public(copies):
    """They have as many rows as were asked for; a count of them was five times too large."""
    with pytest.raises(UnsupportedError, match="not public"):
        us.infer(copies, "count(sex == 'F')", rule="T_f*")
    answer = us.infer(copies, SHARE, rule="T_f*")
    assert answer.records is None
    by_tables = us.infer(copies, SHARE, rng=rng())
    assert abs(answer.value - by_tables.value) < 4 * by_tables.standard_error
    assert us.infer(copies, "count(sex == 'F')", rng=rng()).high < 2000


def test_several_rows_of_a_unit_are_called_valid_only_with_room_for_them(sample, make_release):
    unit = us.Unit(kind="add_remove", rows_per_unit=3)
    noisy = make_release(sample, unit=unit, budget=us.PureDP(epsilon=20))
    plain = make_release(sample, budget=us.NonPrivate())
    plain = replace(plain, statement=replace(plain.statement, unit=us.Unit(rows_per_unit=3)))
    answer = us.infer(noisy, SHARE, rng=rng())
    assert answer.validity == "valid"
    assert any("up to 3 rows" in text for text in answer.warnings)
    by_copies = us.infer(plain, SHARE, rng=rng())  # a rule for copies has no such room
    assert by_copies.validity == "model-based"
    assert any("several rows" in text for text in by_copies.warnings)


def test_few_copies_or_rows_are_not_said_to_cover_more(sample, make_release):
    options = {"method": "ipf", "draws": "posterior", "margins": "sex+smokes"}
    for copies, rows, says in ((2, 2000, "down to 77"), (5, 1000, "down to 77"), (5, 2000, "95 to 99 percent")):
        answer = us.infer(make_release(sample, copies=copies, rows=rows, **options), SHARE, rule="T_f*")
        assert answer.validity == "model-based"
        assert any(says in text for text in answer.warnings)
