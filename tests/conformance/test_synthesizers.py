"""What every synthesizer must keep, whatever its method: run over the whole registry.

Each is tried with every guarantee it offers and both units: a plain run takes every guarantee and every unit of each
method, FULL=1 each of them with each other. A new method is tested here by existing.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.errors import BudgetError, InputError, UnderstudyError, UnsupportedError
from understudy.privacy.gate.gate import Gate
from understudy.privacy.gate.journal import Journal
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.mechanisms.noise import IntegerNoise
from understudy.privacy.promise.accountant import compose, satisfies
from understudy.privacy.promise.definition import GUARANTEES, Definition
from understudy.privacy.randomness.streams import SeededStream
from understudy.synth.shared.method import Request, configure, synthesizers

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")

UNITS = ("replace", "add_remove")
BUDGETS: dict[str, Definition] = {
    "pure": us.PureDP(epsilon=1),
    "approx": us.ApproxDP(epsilon=1, delta="1e-6"),
    "probabilistic": us.ProbabilisticDP(epsilon=1, delta="1e-6"),
    "zcdp": us.ZCDP(rho="0.1"),
    "none": us.NonPrivate(),
}


@dataclass(frozen=True)
class Case:
    """One synthesizer with one guarantee it offers and one unit."""

    method: str
    guarantee: str
    unit: str

    def __str__(self) -> str:
        return f"{self.method}-{self.guarantee}-{self.unit}"

    @property
    def budget(self) -> Definition:
        return BUDGETS[self.guarantee]

    @property
    def rows(self) -> int | None:
        """The number of rows to draw, named only where the method asks for it."""
        return 50 if asks_for_rows(self) else None

    @property
    def settings(self) -> dict[str, Any]:
        return {"method": self.method, "budget": self.budget, "unit": self.unit, "rows": self.rows}

    def plan(self, schema: us.Schema, **change: Any) -> us.Plan:
        return us.plan(schema, **{**self.settings, **change})

    def make(self, source: Any, *, seed: int = 1, **change: Any) -> us.Release:
        return us.synthesize(source, **{**self.settings, "stream": SeededStream(seed), **change})


@cache
def asks_for_rows(case: Case) -> bool:
    """Whether a method cannot tell the number of rows from public values, and says so."""
    one = us.Schema(attributes=(us.Attribute(name="x", levels=("a", "b", "c")),))
    try:
        us.plan(one, method=case.method, budget=case.budget, unit=case.unit)
    except InputError as refusal:
        return "rows" in str(refusal)
    return False


METHODS = list(synthesizers)
CASES = [
    Case(method, guarantee, unit)
    for method in METHODS
    for guarantee in synthesizers[method].guarantees
    for unit in UNITS
    if (guarantee, unit) != ("probabilistic", "add_remove")  # Definition 6 is proved for a row that is replaced
]


def parameters(cases: Iterable[Case]) -> list[Any]:
    """The cases for a test that runs the method; a plain run alternates between the units."""
    return [
        pytest.param(case, id=str(case), marks=() if case.unit in plain_units(case) else pytest.mark.full)
        for case in cases
    ]


def plain_units(case: Case) -> tuple[str, ...]:
    """The guarantees of a method take the units in turn, so that both are tried; a single guarantee takes both."""
    offered = synthesizers[case.method].guarantees
    return UNITS if len(offered) == 1 else (UNITS[offered.index(case.guarantee) % 2],)


FIRST = {method: BUDGETS[synthesizers[method].guarantees[0]] for method in METHODS}
PRIVATE = [case for case in CASES if case.guarantee != "none"]


def cell_counts(frame: pa.Table, schema: us.Schema) -> np.ndarray:
    """Counts of a synthetic table, by the engine that refuses any value outside the schema."""
    (counts,) = us.open_source(frame, schema).count([schema.names])
    return counts.values


@pytest.fixture
def source(people, schema):
    return us.open_source(people, schema)


def test_budgets_cover_every_guarantee():
    assert set(BUDGETS) == set(GUARANTEES)
    assert METHODS


@pytest.mark.parametrize("method", METHODS)
def test_a_plain_run_takes_every_guarantee_and_every_unit(method):
    mine = [case for case in CASES if case.method == method]
    plain = [case for case in mine if case.unit in plain_units(case)]
    assert {case.guarantee for case in plain} == {case.guarantee for case in mine}
    assert {case.unit for case in plain} == {case.unit for case in mine} == set(UNITS)


@pytest.mark.parametrize("method", METHODS)
def test_says_what_it_is(method):
    kind = synthesizers[method]
    assert kind.name == method
    assert kind.summary
    assert kind.guarantees
    assert set(kind.guarantees) <= set(GUARANTEES)


@pytest.fixture(scope="module")
def made(people, schema):
    """Releases of one copy by seed, each made once: nothing changes a release, so tests may share it."""
    return cache(lambda case, seed: case.make(us.open_source(people, schema), seed=seed))


@pytest.mark.parametrize("case", parameters(CASES))
def test_rows_lie_inside_the_schema_and_structural_zeros_stay_zero(made, schema, case):
    for seed in (1, 8, 9):
        release = made(case, seed)
        counts = cell_counts(release.frame(), schema)  # raises on anything outside the schema
        assert counts.sum() == release.frame().num_rows
        assert counts[~schema.allowed()].sum() == 0
        for measurement in release.measurements:
            impossible = ~schema.allowed(measurement.margin) if measurement.margin else np.zeros((), dtype=bool)
            if measurement.cells == "all":
                assert not measurement.values[impossible].any()


@pytest.mark.parametrize("case", parameters(CASES))
def test_spends_what_was_planned_and_no_more(source, schema, case):
    budget = case.budget
    plan = case.plan(schema)
    release = us.synthesize(source, plan=plan, stream=SeededStream(2))
    events = release.provenance.events
    assert events
    if plan.adaptive:
        assert len(events) <= len(plan.events)
    else:
        assert events == plan.events
    for charged in (plan.events, events):
        loss = compose(charged, plan.unit, by=plan.by)
        assert loss.unbounded == (case.guarantee == "none")
        assert satisfies(loss, budget)
    if case.guarantee != "none":  # and the charge means something: half of the budget would not have been enough
        halves = {name: getattr(budget, name) / 2 for name in budget.parameters if name != "delta"}
        small = type(budget)(**halves, **({"delta": budget.delta} if "delta" in budget.parameters else {}))
        assert not satisfies(compose(plan.events, plan.unit, by=plan.by), small)


@pytest.mark.parametrize("fixed", [(), ("sex",)], ids=["three_rows", "fixed"])
@pytest.mark.parametrize("case", parameters(PRIVATE))
def test_keeps_its_promise_for_other_units(source, schema, case, fixed):
    if fixed and case.unit == "add_remove":  # public strata would make somebody's presence public
        with pytest.raises(InputError, match="fixed"):
            us.Unit(kind=case.unit, fixed=fixed)
        return
    unit = us.Unit(kind=case.unit, fixed=fixed, rows_per_unit=1 if fixed else 3)
    if case.guarantee == "probabilistic" and not fixed:  # Definition 6 is proved for one row
        with pytest.raises(UnsupportedError, match="one row"):
            case.make(source, unit=unit)
        return
    release = case.make(source, unit=unit)
    assert release.statement.unit == unit
    assert satisfies(compose(release.provenance.events, unit, by=release.provenance.by), case.budget)
    assert cell_counts(release.frame(), schema)[~schema.allowed()].sum() == 0


@pytest.mark.parametrize("case", parameters(CASES))
def test_plan_is_a_function_of_public_facts(schema, case):
    """There is no way to hand data to a plan, and the same facts give the same plan."""
    assert not {"source", "data"} & set(inspect.signature(us.plan).parameters)
    assert list(inspect.signature(synthesizers[case.method].plan).parameters) == ["self", "schema", "request"]
    first, second = case.plan(schema), case.plan(schema)
    assert first.hash == second.hash
    json.dumps(first.to_json())
    assert case.plan(schema, rows=51).hash != first.hash


@pytest.mark.parametrize("case", parameters(PRIVATE))
def test_what_must_be_answerable_is_held_by_a_step_that_is_fixed_beforehand(schema, case):
    """Whatever a method chooses later, and inside the same budget."""
    first, second, third = schema.names[:3]
    plan = case.plan(schema, must=[f"crosstab({first}, {second})", f"crosstab({first}, {third})"])
    fixed = [set(step.margin) for step in plan.steps if step.repeats == 1 and step.action in ("measure", "draw")]
    assert any({first, second} <= margin for margin in fixed)
    assert any({first, third} <= margin for margin in fixed)
    assert satisfies(compose(plan.events, plan.unit, by=plan.by), plan.budget)
    assert configure(plan.method, plan.options).plan(schema, request_of(plan)).steps == plan.steps


def request_of(plan: us.Plan) -> Request:
    return Request(budget=plan.budget, unit=plan.unit, copies=plan.copies, rows=plan.rows, records=plan.records)


REFUSALS = {
    "a question outside the grammar": {"must": "tell me everything"},
    "a question about an unknown attribute": {"must": "crosstab(nowhere)"},
    "budget of another type": {"budget": 1.0},
    "no budget": {"budget": None},
    "unknown option": {"no_such_option": 1},
    "no rows": {"rows": 0},
    "too many rows": {"rows": 2**40},
    "rows that are no number": {"rows": "many"},
    "no copies": {"copies": 0},
    "too many copies": {"copies": 10**6},
    "unknown unit": {"unit": "household"},
    "unknown fixed attribute": {"unit": us.Unit(kind="replace", fixed=("nowhere",))},
    "unknown method": {"method": "histogran"},
    "account without ledger": {"account": "people"},
}


@pytest.mark.parametrize("change", REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize("case", parameters(PRIVATE))
def test_refuses_before_touching_data(raising_source, case, change):
    with pytest.raises(InputError):
        us.synthesize(raising_source, **{**case.settings, **change})


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("guarantee", sorted(BUDGETS))
def test_refuses_a_guarantee_it_does_not_offer_before_touching_data(raising_source, method, guarantee):
    if guarantee in synthesizers[method].guarantees:
        assert us.plan(raising_source.schema, method=method, budget=BUDGETS[guarantee], rows=50).steps
        return
    with pytest.raises(UnsupportedError, match=guarantee):
        us.synthesize(raising_source, method=method, budget=BUDGETS[guarantee])


@pytest.mark.parametrize("method", METHODS)
def test_refuses_a_plan_for_another_schema_before_touching_data(raising_source, method):
    other = us.Schema(attributes=(us.Attribute(name="x", levels=("a", "b", "c")),))
    plan = us.plan(other, method=method, budget=FIRST[method])
    with pytest.raises(InputError, match="schema"):
        us.synthesize(raising_source, plan=plan)


@pytest.mark.parametrize("method", METHODS)
def test_refuses_a_taken_folder_before_touching_data(raising_source, method, tmp_path):
    (tmp_path / "release").mkdir()
    with pytest.raises(InputError, match="exists"):
        us.synthesize(raising_source, method=method, budget=FIRST[method], out=tmp_path / "release")


@pytest.mark.parametrize("case", parameters(PRIVATE))
def test_an_exhausted_account_refuses_before_touching_data(source, raising_source, tmp_path, case):
    budget = case.budget
    limit = budget.implied() if isinstance(budget, us.ProbabilisticDP) else budget
    ledger = Ledger.create(tmp_path / "budget.db")
    ledger.create_account("people", unit=case.unit, limit=limit)
    settings = {**case.settings, "ledger": ledger.path, "account": "people"}
    release = us.synthesize(source, **settings)
    assert release.statement.ledger["account"] == "people"
    assert release.statement.guarantee == budget
    before = ledger.head()
    with pytest.raises(BudgetError):
        us.synthesize(raising_source, **settings)
    assert ledger.head() == before
    assert ledger.verify().ok
    assert {path.name for path in tmp_path.iterdir()} == {"budget.db"}, "a refused or finished run leaves no journal"


@pytest.mark.parametrize("method", METHODS)
def test_an_account_of_another_unit_refuses_before_touching_data(raising_source, tmp_path, method):
    ledger = Ledger.create(tmp_path / "budget.db")
    ledger.create_account("people", unit="add_remove", limit=FIRST[method])
    before = ledger.head()
    with pytest.raises(UnderstudyError, match="add_remove"):
        us.synthesize(
            raising_source,
            method=method,
            budget=FIRST[method],
            unit="replace",
            ledger=ledger.path,
            account="people",
        )
    assert ledger.head() == before


@pytest.mark.parametrize("case", parameters(case for case in CASES if case.unit == "add_remove"))
def test_the_chosen_number_of_rows_is_given_whoever_takes_part(people, schema, case):
    sizes = {case.make(us.open_source(table, schema), rows=40).frame().num_rows for table in (people, people.slice(1))}
    assert sizes == {40}


@pytest.mark.parametrize("case", [case for case in PRIVATE if case.unit == "add_remove"], ids=str)
def test_the_exact_number_of_rows_is_never_used(people, schema, monkeypatch, case):
    """With the noisy answers held equal, two sources that differ in one row give the same number of rows.

    (With equal noise the noisy total itself would differ by one: that is what was charged for.)
    """

    def deaf(self, values, stream):
        return 3 + self._draw(stream, np.asarray(values).size).reshape(np.asarray(values).shape)

    monkeypatch.setattr(IntegerNoise, "run", deaf)
    first, second = (case.make(us.open_source(table, schema)) for table in (people, people.slice(1)))
    assert first.frame().num_rows == second.frame().num_rows
    if first.measurements:  # then everything follows from them; a draw from the data themselves may differ
        assert first.frame().equals(second.frame())


@pytest.mark.parametrize("case", parameters(CASES))
def test_everything_follows_from_the_journalled_answers(people, schema, tmp_path, case):
    """A run replayed from its journal, without any source, gives the same tables: data enter through the gate alone."""
    plan = case.plan(schema, copies=2)
    synthesizer = configure(plan.method, plan.options)
    tables = []
    journal = Journal.create(tmp_path / "run", {})
    for source in (us.open_source(people, schema), None):
        stream = SeededStream(5)
        gate = Gate(source=source, schema=schema, plan=plan, stream=stream, journal=journal)
        synthesis = synthesizer.run(plan, schema, gate, stream)
        tables.append([table.columns for table in synthesis.tables])
        journal = Journal.open(tmp_path / "run")
    for first, second in zip(*tables, strict=True):
        assert all(np.array_equal(first[name], second[name]) for name in schema.names)
    kinds = {entry.kind for entry in journal.entries()}
    assert kinds
    if case.unit == "add_remove":
        assert "records" not in kinds


@pytest.mark.parametrize("case", parameters(CASES))
def test_tables_of_no_rows_and_of_one_row(people, schema, case):
    for rows in (0, 1):
        source = us.open_source(people.slice(0, rows), schema)
        if rows == 0 and case.unit == "replace":  # the number of rows is public, so a refusal tells nothing
            with pytest.raises(InputError, match="the data have no rows"):
                case.make(source)
            continue
        release = case.make(source)
        assert cell_counts(release.frame(), schema)[~schema.allowed()].sum() == 0
        if case.unit == "replace" and case.rows is None:
            assert release.frame().num_rows == rows


@pytest.mark.parametrize("case", parameters(CASES))
def test_an_attribute_of_one_level(case):
    schema = us.Schema(
        attributes=(us.Attribute(name="country", levels=("here",)), us.Attribute(name="sex", levels=("F", "M")))
    )
    table = pa.table({"country": ["here"] * 30, "sex": ["F", "M"] * 15})
    release = case.make(us.open_source(table, schema))
    assert set(release.frame()["country"].to_pylist()) <= {"here"}
    if case.unit == "replace" and case.rows is None:
        assert release.frame().num_rows == 30


@pytest.mark.parametrize("case", parameters(CASES))
def test_a_table_of_one_cell(case):
    """Under ``replace`` one possible cell says nothing about anybody: a method may refuse, and must say why."""
    schema = us.Schema(attributes=(us.Attribute(name="country", levels=("here",)),))
    source = us.open_source(pa.table({"country": ["here"] * 30}), schema)
    try:
        plan = case.plan(schema)
    except UnsupportedError:
        assert case.unit == "replace"
        with pytest.raises(UnsupportedError, match="protect"):
            case.make(source)
        return
    assert set(us.synthesize(source, plan=plan).frame()["country"].to_pylist()) <= {"here"}


@pytest.mark.parametrize("case", parameters(CASES))
def test_copies(source, made, schema, case):
    release = case.make(source, copies=3)
    assert release.copies == 3
    assert len({release.frame(copy).num_rows for copy in (1, 2, 3)}) == 1
    assert not release.frame(1).equals(release.frame(2))
    assert not release.frame(2).equals(release.frame(3))
    for copy in (1, 2, 3):
        assert cell_counts(release.frame(copy), schema)[~schema.allowed()].sum() == 0
    assert satisfies(compose(release.provenance.events, release.statement.unit, by=release.provenance.by), case.budget)
    single = made(case, 1)
    if release.provenance.copies_share_measurements:
        assert release.provenance.events == single.provenance.events
    else:
        assert len(release.provenance.events) > len(single.provenance.events)
    with pytest.raises(InputError, match="copy"):
        release.frame(4)


@pytest.mark.parametrize("case", parameters(CASES))
def test_randomness_comes_from_the_stream_alone(source, made, case):
    first, again, other = made(case, 8).frame(), case.make(source, seed=8).frame(), made(case, 9).frame()
    assert first.equals(again)
    assert not first.equals(other)


@pytest.mark.parametrize("case", parameters(CASES))
def test_a_release_made_with_test_randomness_promises_nothing(made, case):
    release = made(case, 1)
    assert release.statement.guarantee == us.NonPrivate()
    assert any("test randomness" in text for text in release.statement.warnings)


@pytest.mark.parametrize("case", parameters(CASES))
def test_a_written_release_reads_back_and_verifies(source, tmp_path, case):
    release = us.synthesize(source, **case.settings, out=tmp_path / "release")
    assert release.statement.guarantee == case.budget
    back = us.read_release(tmp_path / "release")
    assert back.frame().num_rows == release.frame().num_rows
    assert back.statement.guarantee == case.budget
    assert [check for check in us.verify(tmp_path / "release") if not check.passed] == []
    assert [path.name for path in tmp_path.iterdir()] == ["release"]


@pytest.mark.parametrize("method", METHODS)
def test_records_are_refused_where_they_are_not_public(schema, method):
    with pytest.raises(InputError, match="add_remove"):
        Request(budget=FIRST[method], unit=us.Unit(kind="add_remove"), records=60)
    with pytest.raises(InputError, match="add_remove"):
        us.plan(schema, method=method, budget=FIRST[method], unit="add_remove", records=60)


WEIGHTED = us.Schema(
    attributes=(us.Attribute(name="sex", levels=("F", "M")), us.Attribute(name="job", levels=("a", "b", "c"))),
    weight=us.Weight(column="w", edges=(1, 3, 9, 27, 50)),
)


@pytest.mark.parametrize(
    "method", [pytest.param(one, marks=pytest.mark.full if one in ("aim", "auto") else ()) for one in METHODS]
)
def test_every_method_keeps_the_budget_and_the_bounds_of_a_survey_weight(method):
    case = next(one for one in CASES if one.method == method)
    plan = case.plan(WEIGHTED)
    assert satisfies(compose(plan.events, plan.unit, by=plan.by), plan.budget)
    rng = np.random.default_rng(1)
    weights = np.exp(rng.uniform(0, np.log(50), 80)).clip(1, 50)
    people = {"sex": rng.choice(["F", "M"], 80), "job": rng.choice(["a", "b", "c"], 80), "w": weights}
    made = case.make(us.open_source(pa.table(people), WEIGHTED)).frame()
    written = made["w"].to_numpy()
    assert made.column_names == ["sex", "job", "w"]
    assert ((written >= 1) & (written <= 50)).all()
