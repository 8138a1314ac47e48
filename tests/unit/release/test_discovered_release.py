"""Discovered codes, from the plan to an answer: found inside the budget, said, and found again."""

from __future__ import annotations

import dataclasses
import json
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import understudy as us
from understudy.core.table import CodedSource, CodedTable
from understudy.privacy.promise.accountant import compose, satisfies
from understudy.privacy.promise.plan import plan_from_json
from understudy.privacy.randomness.streams import SeededStream
from understudy.release.table_checks import every_measurement_is_charged, found_again
from understudy.synth.shared.found_columns import DELTA_SHARE

SEX = us.Attribute(name="sex", levels=("F", "M"))
JOB = us.Attribute(name="job", levels="discover", prefixes=(1,), longest_code=8, missing=True)
SCHEMA = us.Schema(attributes=(SEX, JOB))
BUDGET = us.ApproxDP(epsilon=2, delta="1e-6")
ROWS = 6000


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(3)
    many, rare = ["2221", "2310", "5120"], [f"7{number:03d}" for number in range(300)]
    job = np.where(rng.random(ROWS) < 0.7, rng.choice(many, ROWS, p=[0.5, 0.3, 0.2]), rng.choice(rare, ROWS))
    frame = pd.DataFrame({"sex": rng.choice(["F", "M"], ROWS), "job": job})
    frame.loc[:4, "job"] = "secret"  # five people
    frame.loc[5:400, "job"] = None
    frame.loc[401, "job"] = "x" * 10_000
    return frame


def made(people, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return us.synthesize(people, **{"schema": SCHEMA, "budget": BUDGET, "method": "ipf", **given})


@pytest.fixture(scope="module")
def folder(people, tmp_path_factory):
    out = tmp_path_factory.mktemp("codes") / "release"
    made(people, out=out)
    return out


def test_frequent_codes_are_levels_and_rare_ones_roll_up(folder, people):
    release = us.read_release(folder)
    assert release.schema["job"].levels == ("2221", "2310", "5120", "7", "other")
    assert release.schema["job"].found
    assert release.schema.declared.fingerprint == SCHEMA.fingerprint
    counts = release.to_pandas().job.value_counts()
    assert counts["2221"] == pytest.approx((people.job == "2221").sum(), abs=150)
    assert counts["7"] == pytest.approx(people.job.str.startswith("7").sum(), abs=150)
    assert release.to_pandas().job.isna().sum() == pytest.approx(people.job.isna().sum(), abs=150)
    assert any("Found: job has 4 code(s)" in note for note in release.provenance.notes)


def test_nothing_of_the_data_but_what_was_found_is_in_the_folder(folder):
    written = b"".join(file.read_bytes() for file in folder.iterdir() if file.suffix != ".parquet")
    assert b"secret" not in written
    assert b"xxxx" not in written
    for file in folder.glob("*.parquet"):
        assert "secret" not in pd.read_parquet(file).to_csv()


def test_it_is_verified_and_answers(folder, people):
    assert all(check.passed for check in us.verify(folder)), us.verify(folder)
    release = us.read_release(folder)
    answer = us.infer(release, "proportion(job == '2221')")
    assert answer.low < (people.job.dropna() == "2221").mean() < answer.high
    assert set(us.sample(release, rows=200).to_pandas().job.dropna()) <= set(release.schema["job"].levels)


def test_verify_refuses_codes_that_were_not_found(folder):
    release = us.read_release(folder)
    first, *rest = release.finding
    fewer = dataclasses.replace(first, codes=first.codes[1:], values=first.values[1:])
    with pytest.raises(us.errors.InputError, match="not those that follow"):
        found_again(dataclasses.replace(release, finding=(fewer, *rest)))
    low = dataclasses.replace(first, values=first.values * 0 + first.mechanism.threshold - 1)
    with pytest.raises(us.errors.InputError, match="below its threshold"):
        found_again(dataclasses.replace(release, finding=(low, *rest)))
    cheaper = dataclasses.replace(first.mechanism, scale=first.mechanism.scale, threshold=first.mechanism.threshold - 9)
    with pytest.raises(us.errors.InputError, match="not charged"):
        every_measurement_is_charged(
            dataclasses.replace(release, finding=(dataclasses.replace(first, mechanism=cheaper), *rest))
        )


@pytest.mark.parametrize("unit", [us.Unit(), us.Unit(rows_per_unit=4), us.Unit(kind="add_remove")], ids=str)
def test_the_plan_charges_delta_first_and_keeps_one_budget(unit):
    rows = None if unit.public_total else ROWS
    plan = us.plan(SCHEMA, method="mst", budget=BUDGET, unit=unit, rows=rows)
    assert [step.action for step in plan.steps[:2]] == ["discover", "discover"]
    assert plan.adaptive
    assert satisfies(compose(plan.events, unit, by=plan.by), BUDGET)
    assert 0 < compose(plan.events, unit).approx_delta <= BUDGET.delta * DELTA_SHARE
    assert all(step.event.rows == unit.rows_per_unit for step in plan.steps[:2])
    assert plan_from_json(json.loads(json.dumps(plan.to_json()))).hash == plan.hash


def test_every_code_above_the_printed_threshold_is_found_and_none_invented(people):
    schema = us.Schema(attributes=(SEX, dataclasses.replace(JOB, prefixes=())))
    plan = us.plan(schema, method="independent", budget=BUDGET)
    step = plan.steps[0]
    sure = int(step.event.threshold) + 3 * step.standard_deviation
    assert f"{round(sure):,} rows or more" in " ".join(plan.notes)
    counts = people.job.value_counts()
    for _ in range(3):
        found = set(made(people, schema=schema, method="independent").schema["job"].levels[:-1])
        assert set(counts.index[counts >= sure]) <= found <= set(counts.index)


def test_no_more_codes_than_the_schema_allows(people):
    schema = us.Schema(attributes=(SEX, dataclasses.replace(JOB, most_codes=2)))
    levels = made(people, schema=schema, method="independent").schema["job"].levels
    assert levels == ("2221", "7", "other")


@pytest.mark.parametrize(
    ("budget", "unit", "method", "said"),
    [
        (us.PureDP(epsilon=1), us.Unit(), "auto", "needs a delta"),
        (us.ZCDP(rho=1), us.Unit(), "auto", "needs a delta"),
        (us.NonPrivate(), us.Unit(), "auto", "can be divided"),
        (us.ProbabilisticDP(epsilon=1, delta="1e-6"), us.Unit(), "auto", "can be divided"),
        (BUDGET, us.Unit(fixed=("job",)), "auto", "fixed"),
        (BUDGET, us.Unit(rows_per_unit=20_000), "ipf", "at most 10,000 rows"),
        (BUDGET, us.Unit(), "dirichlet", "codes are found first.*is zero-concentrated.*List the levels"),
    ],
)
def test_what_cannot_be_found_is_refused_by_the_plan(budget, unit, method, said):
    with pytest.raises(us.errors.UnderstudyError, match=said):
        us.plan(SCHEMA, budget=budget, unit=unit, method=method)


@pytest.mark.parametrize("budget", [us.PureDP(epsilon=2), us.ZCDP(rho="0.1"), BUDGET], ids=lambda budget: budget.name)
def test_a_public_list_needs_no_delta(people, budget, tmp_path):
    codes = ["2", "2221", "2310", "5", "5120", "5121", "7", *(f"7{number:03d}" for number in range(300))]
    (tmp_path / "jobs.csv").write_text(
        "code,parent,label\n" + "".join(f"{code},{code[0] if len(code) > 1 else ''},x\n" for code in codes)
    )
    (tmp_path / "schema.toml").write_text(
        'version = 1\n[[attribute]]\nname = "sex"\nlevels = ["F", "M"]\n'
        '[[attribute]]\nname = "job"\nlevels = "discover"\namong = "jobs.csv"\nmissing = true\n'
    )
    schema = us.read_schema(tmp_path / "schema.toml")
    assert schema["job"].among == tuple(codes)
    known = people[people.job.isin([*codes, None])]
    release = made(
        known, schema=schema, budget=budget, method="independent", out=tmp_path / "release", stream=SeededStream(1)
    )
    assert release.schema["job"].levels == ("2221", "2310", "5120", "7", "other")
    assert all(check.passed for check in us.verify(tmp_path / "release"))
    assert compose(release.provenance.events, us.Unit()).approx_delta == 0
    with pytest.raises(us.errors.SchemaError, match="job"):  # a code that is not in the list
        made(people, schema=schema, budget=budget)


def test_codes_of_units_with_several_rows_and_strata(people):
    frame = people.assign(person=np.arange(ROWS) // 3)
    schema = us.Schema(attributes=(SEX, JOB), ignore=("person",))
    unit = us.Unit(rows_per_unit=2, unit_id="person")
    release = made(frame, schema=schema, unit=unit, method="ipf", strata="sex")
    assert "2221" in release.schema["job"].levels
    assert release.provenance.plan.steps[0].event.rows == 2
    assert release.provenance.plan.steps[0].event.l2_squared == Fraction(8)


@pytest.mark.parametrize("job", [None, "z"], ids=["all missing", "all alike"])
def test_columns_in_which_there_is_nothing_to_find(people, job):
    release = made(people.assign(job=job), method="ipf")
    assert release.schema["job"].levels == (("other",) if job is None else ("z", "other"))


def test_data_of_which_no_text_is_known_are_refused_before_the_charge():
    class Recounted(CodedSource):
        def under(self, schema):
            return self

    source = Recounted(CodedTable(schema=SCHEMA, columns={"sex": np.zeros(50, int), "job": np.zeros(50, int)}))
    with pytest.raises(us.errors.UnsupportedError, match="unlisted codes"):
        us.synthesize(source, budget=BUDGET, method="ipf", i_know=True)


def test_a_resumed_run_knows_codes_that_were_exchanged(people):
    """Rows are told apart by their texts, though no code has a number yet."""
    prints = []
    for frame in (people, people.iloc[::-1], people.assign(job=people.job.replace({"2221": "2222"}))):
        source = us.open_source(frame, SCHEMA)
        source.identify(bytes(32))
        prints.append(source.fingerprint())
    assert prints[0] == prints[1] != prints[2]


def test_whole_numbers_are_codes_too(people):
    frame = people.assign(job=pd.to_numeric(people.job, errors="coerce").astype("Int64"))
    assert "2221" in made(frame, method="independent").schema["job"].levels


def test_it_is_evaluated_by_what_was_found(people, folder):
    result = us.evaluate(us.read_release(folder), confidential=people, parts=("utility",))
    assert result.utility
