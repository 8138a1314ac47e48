"""Bins merged by noisy counts: what is charged, what the gate merges, and that it is worth its share."""

from dataclasses import replace

import numpy as np
import pytest

import understudy as us
from understudy.core.table import CodedTable
from understudy.errors import InputError, InternalError, UnknownNameError, UnsupportedError
from understudy.privacy.accountant import compose, satisfies
from understudy.privacy.gate import Gate, merge_cells
from understudy.privacy.journal import Journal
from understudy.privacy.steps import query_of
from understudy.privacy.streams import SeededStream
from understudy.reproduce.raab_syntheses import PublicTable
from understudy.synth.base import configure
from understudy.synth.refine import read_refinement

EDGES = tuple(range(0, 101))  # a hundred bins of one
SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="income", edges=EDGES, special={-8: "none"}, missing=True),
        us.Attribute(name="job", levels=(0, 1, 2, 3)),
    )
)


def people(rows=6000, seed=0):
    """Incomes crowd at the low end and differ by job; some are missing or not applicable."""
    rng = np.random.default_rng(seed)
    job = rng.integers(0, 4, rows)
    income = np.minimum(rng.gamma(1.5, 2.0 * (1 + job), rows).astype(np.int64), 99)
    income = np.where(rng.random(rows) < 0.05, 100 + rng.integers(0, 2, rows), income)
    return CodedTable(schema=SCHEMA, columns={"sex": rng.integers(0, 2, rows), "income": income, "job": job})


def run(table, budget=None, unit="add_remove", seed=1, **options):
    plan = us.plan(table.schema, method="ipf", budget=budget or us.PureDP(epsilon=1), unit=unit, **options)
    stream = SeededStream(seed)
    gate = Gate(source=PublicTable(table), schema=table.schema, plan=plan, stream=stream)
    return plan, gate, configure(plan.method, plan.options).run(plan, table.schema, gate, stream)


@pytest.mark.parametrize("unit", ["replace", "add_remove"])
@pytest.mark.parametrize("budget", [us.PureDP(epsilon=1), us.ZCDP(rho="0.1"), us.ApproxDP(epsilon=1, delta="1e-6")])
def test_stays_within_the_budget_and_does_what_it_planned(budget, unit):
    plan, gate, synthesis = run(people(), budget, unit, refine="income:8", rows=3000)
    assert gate.events == plan.events
    assert satisfies(compose(gate.events, plan.unit), budget)
    made = synthesis.tables[0]
    assert made.schema == SCHEMA
    assert made.rows == 3000
    assert [one.margin for one in synthesis.measurements] == [("income",)]
    assert any("Bins merged" in note for note in synthesis.notes)
    missing = made.counts(("income",))[100:].sum() / made.rows
    assert missing == pytest.approx(0.05, abs=0.03)


def test_merged_bins_hold_about_equal_shares_and_never_none():
    table = people()
    refinement = read_refinement(SCHEMA, "income:8")
    codes = np.array(refinement.groups({"income": table.counts(("income",))})["income"])
    assert (np.diff(codes) >= 0).all()
    assert set(codes.tolist()) == set(range(10))
    shares = merge_cells(table.counts(("income",)), 0, codes)[:8] / table.rows
    assert shares.max() < 3 * shares.min()
    for noisy in (np.zeros(102, dtype=np.int64), np.full(102, -50), np.eye(102, dtype=np.int64)[0] * 1000):
        degenerate = refinement.groups({"income": noisy})["income"]
        assert set(degenerate) == set(range(10))


def test_the_gate_merges_before_the_noise_and_refuses_what_it_cannot_merge():
    table = people()
    plan, _, _ = run(table, us.PureDP(epsilon=10**6), refine="income:8")
    stream = SeededStream(1)
    gate = Gate(source=PublicTable(table), schema=SCHEMA, plan=plan, stream=stream)
    gate.measure([query_of(plan.steps[0])])
    step = next(step for step in plan.steps if step.margin == ("sex", "income"))
    before = [one for one in plan.steps[1:] if plan.steps.index(one) < plan.steps.index(step)]
    gate.measure([query_of(one) for one in before])
    codes = tuple(min(code // 25, 4) for code in range(102))
    for groups in ({"job": (0, 0, 1, 1)}, {"income": codes[:-1]}):
        with pytest.raises(InternalError, match="merges codes"):
            gate.measure([replace(query_of(step), groups=groups)])
    (answer,) = gate.measure([replace(query_of(step), groups={"income": codes})])
    exact = np.stack([table.counts(step.margin)[:, np.array(codes) == code].sum(axis=1) for code in range(5)], axis=1)
    assert answer.values.tolist() == exact.tolist()  # the noise is almost surely 0 at this budget
    assert merge_cells(np.array([1, 2, 4]), 0, (1, 0, 1)).tolist() == [2, 5]


def test_a_run_is_finished_from_its_journal_without_the_data(tmp_path):
    table = people()
    plan = us.plan(SCHEMA, method="ipf", budget=us.PureDP(epsilon=1), refine="income:8", rows=500)
    made = []
    journal = Journal.create(tmp_path / "run", {})
    for source in (PublicTable(table), None):
        stream = SeededStream(4)
        gate = Gate(source=source, schema=SCHEMA, plan=plan, stream=stream, journal=journal)
        made.append(configure(plan.method, plan.options).run(plan, SCHEMA, gate, stream).tables[0])
        journal = Journal.open(tmp_path / "run")
    assert all(np.array_equal(made[0].columns[name], made[1].columns[name]) for name in SCHEMA.names)


def utility(table, synthesis):
    """Mean absolute error of the shares below some incomes, in each job."""
    errors = []
    for job in range(4):
        for bound in (3, 6, 12, 25):
            shares = []
            for one in (table, synthesis.tables[0]):
                inside = (one.columns["job"] == job) & (one.columns["income"] < 100)
                shares.append(float((one.columns["income"][inside] < bound).mean()))
            errors.append(abs(shares[0] - shares[1]))
    return float(np.mean(errors))


def test_refined_bins_beat_the_fine_grid():
    """Eight bins where the people are, against a hundred measured one by one with the same budget (mean of 5 runs)."""
    table = people()
    budget = us.PureDP(epsilon="0.3")
    refined = np.mean(
        [utility(table, run(table, budget, seed=seed, refine="income:8", rows=6000)[2]) for seed in range(5)]
    )
    fine = np.mean([utility(table, run(table, budget, seed=seed, rows=6000)[2]) for seed in range(5)])
    assert refined < 0.8 * fine


@pytest.mark.parametrize(
    ("refine", "error", "message"),
    [
        ("incme:8", UnknownNameError, "incme"),
        ("sex:2", InputError, "has levels"),
        ("income", InputError, "such as"),
        ("income:1", InputError, "at least 2"),
        ("income:100", InputError, "at most 99"),
    ],
)
def test_bad_refinements_are_refused(refine, error, message):
    with pytest.raises(error, match=message):
        us.plan(SCHEMA, method="ipf", budget=us.PureDP(epsilon=1), refine=refine)


@pytest.mark.parametrize("method", ["aim", "mst", "independent"])
def test_methods_without_refinement_say_so(method):
    with pytest.raises(UnknownNameError, match=f"option of {method}: 'refine' is unknown"):
        us.plan(SCHEMA, method=method, budget=us.PureDP(epsilon=1), refine="income:8")


def test_refused_beside_what_it_does_not_go_with():
    budget = us.PureDP(epsilon=1)
    for options in ({"strata": "sex"}, {"postprocess": "published", "rows": 10}, {"budget": us.NonPrivate()}):
        with pytest.raises(InputError):
            us.plan(SCHEMA, method="ipf", **{"budget": budget, "refine": "income:8", **options})
    with pytest.raises(InputError, match="fixed"):
        us.plan(SCHEMA, method="ipf", budget=budget, refine="income:8", unit=us.Unit(fixed=("income",)))
    rule = us.Impossible(conditions=(("income", us.Condition(below=5)), ("job", us.Condition(levels=(3,)))))
    with pytest.raises(UnsupportedError, match="structural zero"):
        us.plan(
            us.Schema(attributes=SCHEMA.attributes, impossible=(rule,)), method="ipf", budget=budget, refine="income:8"
        )
