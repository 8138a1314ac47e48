"""The gate charges first, keeps to the plan, journals before it answers, and never tells the number of rows."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.core.counts import SparseCounts
from understudy.errors import BudgetError, DisclosureError, InputError
from understudy.privacy.gate.gate import Candidate, Gate, Query
from understudy.privacy.gate.journal import Journal
from understudy.privacy.gate.measurement_steps import measure_step, query_of
from understudy.privacy.mechanisms.dirichlet_draw import DirichletDraw
from understudy.privacy.mechanisms.noise import Geometric
from understudy.privacy.promise.calibrate import noise_for
from understudy.privacy.promise.event import ApproxLoss, NoisyMax
from understudy.privacy.promise.plan import Plan, Step
from understudy.privacy.promise.sensitivity import margin_sensitivity
from understudy.privacy.randomness.streams import SeededStream

SCHEMA = us.Schema(
    attributes=(us.Attribute(name="sex", levels=("F", "M")), us.Attribute(name="job", levels=("a", "b", "c"))),
    impossible=(
        us.Impossible(conditions=(("sex", us.Condition(levels=("F",))), ("job", us.Condition(levels=("c",))))),
    ),
)
ROWS = pa.table({"sex": ["F", "M", "M", "M", "F"], "job": ["a", "b", "c", "c", "b"]})


class Untouchable:
    """A source that must not be looked at."""

    schema = SCHEMA

    def total(self):
        raise AssertionError("the data were touched")

    count = count_sparse = bounded = lambda self, *args, **kwargs: self.total()


class SilentStream(SeededStream):
    """Counts how many noise values were drawn."""

    __slots__ = ("drawn",)

    def __init__(self):
        super().__init__(7)
        self.drawn = 0

    def discrete_laplace(self, scale, size):
        self.drawn += size
        return super().discrete_laplace(scale, size)


def make_plan(*margins, unit="replace", budget=None, adaptive=False, steps=None):
    unit = us.Unit(kind=unit)
    budget = budget or us.PureDP(epsilon=1)
    if steps is None:
        sensitivities = [margin_sensitivity(SCHEMA, margin, unit) for margin in margins]
        steps = tuple(
            measure_step(
                label=" x ".join(margin), margin=margin, noise=noise, sensitivity=s, cells=SCHEMA.cells(margin)
            )
            for margin, noise, s in zip(margins, noise_for(budget, sensitivities), sensitivities, strict=True)
        )
    return Plan(
        schema_fingerprint=SCHEMA.fingerprint, method="histogram", budget=budget, unit=unit, copies=1, rows=None,
        records=None, steps=steps, adaptive=adaptive,
    )  # fmt: skip


def make_gate(plan, source=None, **more):
    return Gate(
        source=source or us.open_source(ROWS, SCHEMA), schema=SCHEMA, plan=plan, **{"stream": SilentStream(), **more}
    )


def test_measured_values_are_counts_plus_noise_and_structural_zeros_are_untouched():
    plan = make_plan(("sex", "job"))
    stream = SilentStream()
    gate = make_gate(plan, stream=stream)
    (measured,) = gate.measure([query_of(step) for step in plan.steps])
    assert stream.drawn == 5  # six cells, one of them impossible
    assert measured.values[0, 2] == 0
    noise = SilentStream().discrete_laplace(plan.steps[0].event.scale, 5)
    assert measured.values[SCHEMA.allowed()].tolist() == (np.array([1, 1, 0, 1, 2]) + noise).tolist()
    assert gate.events == plan.events


def test_what_the_plan_does_not_announce_is_refused_before_data_and_noise():
    plan = make_plan(("sex",))
    stream = SilentStream()
    gate = make_gate(plan, Untouchable(), stream=stream)
    scale = plan.steps[0].event.scale
    for wrong in (
        Query(margin=("job",), mechanism=Geometric(scale=scale), label="sex"),
        Query(margin=("sex",), mechanism=Geometric(scale=scale / 2), label="sex"),
        Query(margin=("sex",), mechanism=Geometric(scale=scale), label="other"),
    ):
        with pytest.raises(BudgetError, match="not the next step"):
            gate.measure([wrong])
    assert stream.drawn == 0
    assert gate.events == ()


def test_a_plan_cannot_be_run_twice_through_one_gate():
    plan = make_plan(("sex",))
    gate = make_gate(plan)
    queries = [query_of(step) for step in plan.steps]
    gate.measure(queries)
    with pytest.raises(BudgetError):
        gate.measure(queries)


def test_an_adaptive_plan_is_bounded_by_its_budget():
    gate = make_gate(make_plan(adaptive=True, steps=()))
    query = Query(margin=("sex",), mechanism=Geometric(scale=4), label="sex")  # epsilon 1/2 each
    gate.measure([query])
    gate.measure([query])
    with pytest.raises(BudgetError):
        gate.measure([query])


def test_an_adaptive_plan_takes_no_step_with_a_delta_of_its_own():
    """Which deltas to add would depend on answers, and that sum is not proved to be a filter beside zCDP."""
    budget = us.ApproxDP(epsilon=10, delta="0.1")
    gate = make_gate(make_plan(adaptive=True, steps=(), budget=budget))
    loss = ApproxLoss(epsilon=Fraction(1), delta=Fraction(1, 100), source="a theorem")
    draw = DirichletDraw(prior=Fraction(100), rows=3, loss=loss)
    with pytest.raises(BudgetError, match="delta of its own"):
        gate.draw([draw], margin=SCHEMA.names, label="copy 1", copy=1)
    assert gate.events == ()
    step = Step(label="copy 1", margin=SCHEMA.names, action="draw", event=loss)
    fixed = make_gate(make_plan(steps=(step,), budget=budget))
    assert fixed.draw([draw], margin=SCHEMA.names, label="copy 1", copy=1).counts.sum() == 3


def test_the_number_of_rows_is_public_only_under_replace():
    assert make_gate(make_plan(("sex",))).records == 5
    with pytest.raises(DisclosureError, match="add_remove"):
        _ = make_gate(make_plan(("sex",), unit="add_remove")).records


def test_everything_is_journalled_before_it_is_answered_and_replayed_without_data(tmp_path):
    plan = make_plan(("sex",), ("job",))
    journal = Journal.create(tmp_path / "run", {})
    gate = make_gate(plan, journal=journal)
    queries = [query_of(step) for step in plan.steps]
    records, first = gate.records, gate.measure(queries)
    again = make_gate(plan, Untouchable(), journal=Journal.open(tmp_path / "run"), stream=SilentStream())
    assert again.records == records
    assert [m.values.tolist() for m in again.measure(queries)] == [m.values.tolist() for m in first]
    assert again.events == plan.events


def test_a_half_measured_run_keeps_what_it_has_and_needs_the_data_for_the_rest(tmp_path):
    plan = make_plan(("sex",), ("job",))
    queries = [query_of(step) for step in plan.steps]
    journal = Journal.create(tmp_path / "run", {})
    whole = make_gate(plan, journal=journal).measure(queries)
    lines = (tmp_path / "run" / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "run" / "journal.jsonl").write_bytes(lines[0])
    with pytest.raises(InputError, match="Give the same data again"):
        Gate(
            source=None, schema=SCHEMA, plan=plan, stream=SilentStream(), journal=Journal.open(tmp_path / "run")
        ).measure(queries)
    rest = make_gate(plan, journal=Journal.open(tmp_path / "run")).measure(queries)
    assert rest[0].values.tolist() == whole[0].values.tolist()


def test_a_journal_of_another_plan_is_refused(tmp_path):
    journal = Journal.create(tmp_path / "run", {})
    make_gate(make_plan(("sex",)), journal=journal).measure([query_of(s) for s in make_plan(("sex",)).steps])
    other = make_plan(("job",))
    with pytest.raises(InputError, match="does not match"):
        make_gate(other, journal=Journal.open(tmp_path / "run")).measure([query_of(s) for s in other.steps])


@pytest.mark.parametrize(("unit", "sensitivity"), [("replace", 6), ("add_remove", 3)])
def test_selection_scores_are_exact_and_charged_with_the_unit(unit, sensitivity):
    scale = Fraction(1, 1024)  # practically no noise
    step = Step(
        label="round 1", margin=(), action="select", event=NoisyMax(sensitivity=Fraction(sensitivity), scale=scale)
    )
    plan = make_plan(unit=unit, budget=us.PureDP(epsilon=10**6), steps=(step,))
    gate = make_gate(plan)
    # scores: 3 * (|2-0| + |3-0|) - 0 = 15; 1 * (1 + 2 + 2) - 0 = 5; 3 * 0 + 16 = 16
    candidates = [
        Candidate(margin=("sex",), model=np.array([0, 0]), weight=3),
        Candidate(margin=("job",), model=np.array([0, 0, 0]), weight=1),
        Candidate(margin=("sex",), model=np.array([2, 3]), weight=3, offset=-16),
    ]
    assert gate.select(candidates, scale=scale, label="round 1") == 2
    assert gate.events == (step.event,)


def test_nothing_to_select_from_is_refused():
    with pytest.raises(InputError, match="nothing to select"):
        make_gate(make_plan(("sex",))).select([], scale=Fraction(1), label="x")


def test_looking_ahead_finds_bad_data_and_charges_nothing():
    bad = us.open_source(pa.table({"sex": ["F", "X"], "job": ["a", "a"]}), SCHEMA)
    gate = make_gate(make_plan(("sex", "job")), bad)
    with pytest.raises(us.UnderstudyError) as caught:
        gate.look_ahead()
    assert "sex" in str(caught.value)
    assert "X" not in str(caught.value)
    assert gate.events == ()


def test_sparse_counts_open_only_for_mechanisms_that_cover_the_domain():
    counts = SparseCounts(margin=("sex",), domain_cells=2, _cells=np.array([0]), _values=np.array([3]))
    with pytest.raises(DisclosureError, match="reveals which cells"):
        counts.open_for(Geometric(scale=1))
    assert "3" not in repr(counts)


def test_an_answer_with_other_noise_than_is_charged_now_is_not_taken_from_a_journal(tmp_path):
    """A version that divides the budget in another way may have started the run: it drew what would not be charged."""
    plan = make_plan(adaptive=True, steps=(), budget=us.PureDP(epsilon=10))
    query = Query(margin=("sex",), mechanism=Geometric(scale=4), label="round 1")
    offered = [Candidate(margin=("sex",), model=np.array([2, 3])), Candidate(margin=("job",), model=np.zeros(3, int))]
    gate = make_gate(plan, journal=Journal.create(tmp_path / "run", {}))
    (first,) = gate.measure([query])
    chosen = gate.select(offered, scale=Fraction(2), label="choose")

    def resumed():
        return make_gate(plan, journal=Journal.open(tmp_path / "run"))

    with pytest.raises(InputError, match="other noise"):
        resumed().measure([replace(query, mechanism=Geometric(scale=8))])
    with pytest.raises(InputError, match="other noise"):
        resumed().measure([replace(query, margin=("job",))])
    for scale, law in ((Fraction(4), "exponential"), (Fraction(2), "gumbel")):
        again = resumed()
        assert again.measure([query])[0].values.tolist() == first.values.tolist()
        with pytest.raises(InputError, match="other noise"):
            again.select(offered, scale=scale, label="choose", law=law)
    again = resumed()
    again.measure([query])
    assert again.select(offered, scale=Fraction(2), label="choose") == chosen
    assert again.events == gate.events
