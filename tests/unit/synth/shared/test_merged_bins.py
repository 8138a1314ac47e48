"""Bins merged by noisy counts: what is charged, what the gate merges, and that it is worth its share."""

from itertools import product

import numpy as np
import pytest

import understudy as us
from understudy.core.table import CodedSource, CodedTable
from understudy.errors import InputError, InternalError, UnknownNameError, UnsupportedError
from understudy.privacy.gate.gate import Candidate, Gate, merge_cells
from understudy.privacy.gate.journal import Journal
from understudy.privacy.gate.measurement_steps import query_of
from understudy.privacy.promise.accountant import compose, satisfies
from understudy.privacy.randomness.streams import SeededStream
from understudy.synth.shared.merged_bins import read_refinement
from understudy.synth.shared.method import configure

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


METHODS = ("ipf", "aim", "mst", "one_look")


def run(table, budget=None, unit="add_remove", seed=1, method="ipf", stream=None, **options):
    plan = us.plan(table.schema, method=method, budget=budget or us.PureDP(epsilon=1), unit=unit, **options)
    stream = stream or SeededStream(seed)
    gate = Gate(source=CodedSource(table), schema=table.schema, plan=plan, stream=stream)
    return plan, gate, configure(plan.method, plan.options).run(plan, table.schema, gate, stream)


@pytest.mark.parametrize("method", [*METHODS, "auto"])
@pytest.mark.parametrize("unit", ["replace", "add_remove"])
@pytest.mark.parametrize("budget", [us.PureDP(epsilon=1), us.ZCDP(rho="0.1"), us.ApproxDP(epsilon=1, delta="1e-6")])
def test_stays_within_the_budget_and_does_what_it_planned(budget, unit, method):
    plan, gate, synthesis = run(people(), budget, unit, method=method, refine="income:8", rows=3000)
    assert gate.events == plan.events or plan.adaptive
    assert satisfies(compose(gate.events, plan.unit, by=plan.by), budget)
    assert plan.options["refine"] == "income:8"
    made = synthesis.tables[0]
    assert made.schema == SCHEMA
    assert made.rows == 3000
    margins = [one.margin for one in synthesis.measurements]
    assert margins[0] == ("income",)
    assert all("income" not in margin for margin in margins[1:])  # those are in merged bins
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


CODES = tuple(min(code // 25, 4) for code in range(102))


def gate_of(table, budget, margins):
    """A gate for a plan that measures these margins."""
    listed = ", ".join("+".join(margin) for margin in margins)
    plan = us.plan(table.schema, method="ipf", budget=budget, margins=listed, rows=10)
    return Gate(source=CodedSource(table), schema=table.schema, plan=plan, stream=SeededStream(1)), plan


@pytest.mark.parametrize("counted_before", [True, False])
def test_the_gate_merges_before_the_noise(counted_before):
    table, margin = people(), ("sex", "income")
    gate, plan = gate_of(table, us.PureDP(epsilon=10**6), [margin])
    if counted_before:
        gate.count_ahead([margin])
    gate.merge({"income": CODES})
    (answer,) = gate.measure([query_of(step) for step in plan.steps])
    exact = np.stack([table.counts(margin)[:, np.array(CODES) == code].sum(axis=1) for code in range(5)], axis=1)
    assert answer.values.tolist() == exact.tolist()  # the noise is almost surely 0 at this budget
    assert merge_cells(np.array([1, 2, 4]), 0, (1, 0, 1)).tolist() == [2, 5]


@pytest.mark.parametrize("right", [1.0, 0.8, 1.25])
def test_noise_on_merged_cells_has_the_charged_scale(right):
    """The chi-square of 800 merged cells, with a standard deviation of a tenth, tells a scale that is a fifth off."""
    schema = us.Schema(
        attributes=(
            us.Attribute(name="x", edges=tuple(range(801))),
            us.Attribute(name="y", levels=tuple(range(400))),
        )
    )
    table = CodedTable(schema=schema, columns={"x": np.zeros(5, np.int64), "y": np.zeros(5, np.int64)})
    gate, plan = gate_of(table, us.ZCDP(rho="0.001"), [("x", "y")])
    gate.merge({"x": tuple(code // 400 for code in range(800))})
    query = query_of(plan.steps[0])
    (answer,) = gate.measure([query])
    noise = answer.values.astype(float)
    noise[0, 0] -= 5
    ratio = float((noise**2).mean() / (right**2 * query.mechanism.variance))
    spread = np.sqrt(2 / noise.size)
    assert (abs(ratio - 1) < 4 * spread) == (right == 1.0)


def test_the_gate_refuses_what_it_cannot_merge():
    gate, _ = gate_of(people(), us.PureDP(epsilon=1), [("sex", "income")])
    for wrong in (CODES[:-1], (*CODES[:-1], 9)):
        with pytest.raises(InternalError, match="cannot be merged"):
            gate.merge({"income": wrong})
    gate.merge({"income": CODES})
    with pytest.raises(InternalError, match="already"):
        gate.merge({"income": CODES})


class Overhears(SeededStream):
    """Keeps every score that a choice is made by."""

    def noisy_argmax(self, scores, scale, law="exponential"):
        self.heard = [*getattr(self, "heard", []), np.asarray(scores).copy()]
        return 0


@pytest.mark.parametrize("unit", ["replace", "add_remove"])
def test_scores_of_merged_margins_move_no_more_than_is_charged(unit):
    """One person moved to, or put into, every cell in turn, with the bins held: no score moves by more than charged."""
    rng = np.random.default_rng(3)
    columns = {"sex": rng.integers(0, 2, 40), "income": rng.integers(0, 102, 40), "job": rng.integers(0, 4, 40)}
    candidates = [
        Candidate(margin=margin, model=rng.integers(0, 9, shape), offset=offset)
        for margin, shape, offset in ((("sex", "income"), (2, 5), 3), (("income", "job"), (5, 4), 1))
    ]

    def scores(codes):
        table = CodedTable(schema=SCHEMA, columns=codes)
        plan = us.plan(SCHEMA, method="aim", budget=us.PureDP(epsilon=1), unit=unit)
        stream = Overhears(1)
        gate = Gate(source=CodedSource(table), schema=SCHEMA, plan=plan, stream=stream)
        gate.merge({"income": CODES})
        choice = next(step for step in plan.steps if step.action == "select")
        gate.select(candidates, scale=choice.event.scale, label="choose")
        return stream.heard[0], choice.event.sensitivity

    before, charged = scores(columns)
    by_hand = []
    for one in candidates:
        exact = CodedTable(schema=SCHEMA, columns=columns).counts(one.margin)
        merged = merge_cells(exact, one.margin.index("income"), CODES)
        by_hand.append(int(np.abs(merged - one.model).sum()) - one.offset)
    assert before.tolist() == by_hand
    largest = 0
    for sex, income, job in product((0, 1), (0, 24, 25, 99, 101), range(4)):
        new = {"sex": sex, "income": income, "job": job}
        if unit == "replace":
            codes = {name: np.concatenate([column[1:], [new[name]]]) for name, column in columns.items()}
        else:
            codes = {name: np.append(column, new[name]) for name, column in columns.items()}
        largest = max(largest, int(np.abs(scores(codes)[0] - before).max()))
    assert largest == charged  # reached, and not exceeded


def test_bins_and_strata_go_together():
    """Every stratum gets its own model over the same merged bins."""
    table = people()
    for method in METHODS:
        _, _, synthesis = run(table, us.PureDP(epsilon=50), method=method, refine="income:8", strata="job", rows=6000)
        made = synthesis.tables[0]
        for job in range(4):
            means = [one.columns["income"][(one.columns["job"] == job) & (one.columns["income"] < 100)].mean()
                     for one in (table, made)]  # fmt: skip
            assert means[1] == pytest.approx(means[0], rel=0.15)


@pytest.mark.parametrize("method", METHODS)
def test_a_run_is_finished_from_its_journal_without_the_data(tmp_path, method):
    table = people()
    plan = us.plan(SCHEMA, method=method, budget=us.PureDP(epsilon=1), refine="income:8", rows=500)
    made = []
    journal = Journal.create(tmp_path / "run", {})
    for source in (CodedSource(table), None):
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


@pytest.mark.parametrize(
    "method", [name if name == "ipf" else pytest.param(name, marks=pytest.mark.full) for name in METHODS]
)
def test_refined_bins_beat_the_fine_grid(method):
    """Eight bins where the people are, against a hundred measured one by one with the same budget (mean of 5 runs)."""
    table = people()

    def error(**options):
        runs = (
            run(table, us.PureDP(epsilon="0.3"), seed=seed, method=method, rows=6000, **options) for seed in range(5)
        )
        return np.mean([utility(table, synthesis) for _, _, synthesis in runs])

    assert error(refine="income:8") < 0.8 * error()


@pytest.mark.parametrize(
    ("refine", "error", "message"),
    [
        ("incme:8", UnknownNameError, "incme"),
        ("sex:2", InputError, "has levels"),
        ("income", InputError, "such as"),
        (" , ", InputError, "such as"),
        ("income:1", InputError, "at least 2"),
        ("income:100", InputError, "at most 99"),
    ],
)
def test_bad_refinements_are_refused(refine, error, message):
    for method in (*METHODS, "auto"):
        with pytest.raises(error, match=message):
            us.plan(SCHEMA, method=method, budget=us.PureDP(epsilon=1), refine=refine)


@pytest.mark.parametrize("method", ["histogram", "independent"])
def test_methods_without_refinement_say_so(method):
    with pytest.raises(UnknownNameError, match=f"option of {method}: 'refine' is unknown"):
        us.plan(SCHEMA, method=method, budget=us.PureDP(epsilon=1), refine="income:8")


def test_refused_beside_what_it_does_not_go_with():
    budget = us.PureDP(epsilon=1)
    for method, options, message in (
        ("ipf", {"postprocess": "published", "rows": 10}, "not what Raab published"),
        ("ipf", {"budget": us.NonPrivate()}, "under a guarantee"),
        ("auto", {"budget": us.NonPrivate()}, "under a guarantee"),
        *((method, {"draws": "posterior", "copies": 5}, "leave draws out") for method in (*METHODS, "auto")),
    ):
        with pytest.raises(InputError, match=message):
            us.plan(SCHEMA, method=method, **{"budget": budget, "refine": "income:8", **options})
    with pytest.raises(InputError, match="fixed"):
        us.plan(SCHEMA, method="ipf", budget=budget, refine="income:8", unit=us.Unit(fixed=("income",)))
    rule = us.Impossible(conditions=(("income", us.Condition(below=5)), ("job", us.Condition(levels=(3,)))))
    with pytest.raises(UnsupportedError, match="structural zero"):
        us.plan(
            us.Schema(attributes=SCHEMA.attributes, impossible=(rule,)), method="ipf", budget=budget, refine="income:8"
        )
