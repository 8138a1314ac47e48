"""The Dirichlet synthesizer: calibration, strata, refusals."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.errors import BudgetError, DisclosureError, InputError, UnsupportedError
from understudy.privacy.gate.gate import Gate
from understudy.privacy.mechanisms.dirichlet_draw import DirichletDraw, prior_for, pure_loss, row_unit
from understudy.privacy.mechanisms.draw_facts import TableFacts
from understudy.privacy.mechanisms.preconditions import epsilon_of
from understudy.privacy.promise.calibrate_dirichlet import round_prior
from understudy.privacy.promise.event import PureLoss, Strata
from understudy.privacy.randomness.streams import SeededStream
from understudy.synth.shared.method import configure

SCHEMA = us.Schema(
    attributes=(us.Attribute(name="area", levels=("n", "s", "w")), us.Attribute(name="sick", levels=("no", "yes")))
)
ROWS = pa.table({"area": ["n"] * 50 + ["s"] * 30, "sick": ["no"] * 45 + ["yes"] * 5 + ["no"] * 30})


def make(seed=1, rows_of=ROWS, schema=SCHEMA, **asked):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = us.open_source(rows_of, schema)
        return us.synthesize(source, method="dirichlet", stream=SeededStream(seed), **asked)


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(7, 3), Fraction(20)])
@pytest.mark.parametrize("rows", [1, 100, 10**7])
@pytest.mark.parametrize("per_unit", [1, 3])
def test_the_prior_is_the_least_that_keeps_the_promise(epsilon, rows, per_unit):
    unit = us.Unit(rows_per_unit=per_unit)
    prior = prior_for(epsilon, rows, unit)
    assert per_unit * math.log1p(rows / float(prior)) <= float(epsilon) * (1 + 1e-15)
    assert per_unit * math.log1p(rows / (float(prior) * (1 - 2.0**-14))) > float(epsilon) * (1 - 1e-12)
    assert epsilon_of(prior, rows, unit) <= epsilon * (1 + Fraction(1, 2**47))


def test_charest_prior_is_recovered():
    """n = 100, epsilon 2, one copy: alpha = 100 / (e^2 - 1) = 15.65."""
    assert float(prior_for(Fraction(2), 100, us.Unit())) == pytest.approx(100 / math.expm1(2), rel=1e-4)
    assert round_prior(Fraction(3)) == 3


def test_copies_split_the_budget():
    plan = us.plan(SCHEMA, method="dirichlet", budget=us.PureDP(epsilon=2), copies=4)
    assert [event.epsilon for event in plan.events] == [Fraction(1, 2)] * 4
    release = make(budget=us.PureDP(epsilon=2), copies=4)
    assert sum(event.epsilon for event in release.provenance.events) == 2
    assert not release.provenance.copies_share_measurements
    assert release.measurements == ()


def test_strata_are_drawn_apart_only_where_they_are_fixed():
    fixed = us.Unit(fixed=("area",))
    plan = us.plan(SCHEMA, method="dirichlet", budget=us.PureDP(epsilon=1), unit=fixed)
    assert isinstance(plan.events[0], Strata)
    assert len(plan.events[0].strata) == 3
    release = make(budget=us.PureDP(epsilon=1), unit=fixed)
    assert release.coded().counts(("area",)).tolist() == [50, 30, 0]  # stratum sizes are public and kept
    halved = make(budget=us.PureDP(epsilon=1), unit=fixed, rows=40)
    assert halved.coded().counts(("area",)).tolist() == [25, 15, 0]
    whole = make(budget=us.PureDP(epsilon=1), unit=fixed, strata="none")
    assert isinstance(whole.provenance.events[0], PureLoss)
    assert make(budget=us.PureDP(epsilon=1)).frame().num_rows == 80


def test_structural_zeros_hold_within_strata():
    schema = us.Schema(
        attributes=SCHEMA.attributes,
        impossible=(
            us.Impossible(conditions=(("area", us.Condition(levels=("s",))), ("sick", us.Condition(levels=("yes",))))),
        ),
    )
    for unit in (us.Unit(), us.Unit(fixed=("area",))):
        for seed in range(5):
            got = make(seed, schema=schema, budget=us.PureDP(epsilon="0.1"), unit=unit).coded().counts(("area", "sick"))
            assert got[1, 1] == 0


def test_the_mean_of_many_releases_is_charests_shrunken_proportion():
    """E[synthetic share] = (alpha + n p) / (2 alpha + n) (Charest, Table 1), and not p."""
    schema = us.Schema(attributes=(us.Attribute(name="sick", levels=("no", "yes")),))
    table = pa.table({"sick": ["yes"] * 25 + ["no"] * 75})
    release = make(rows_of=table, schema=schema, budget=us.PureDP(epsilon=800), copies=400, rows=100)
    alpha = float(prior_for(Fraction(2), 100, us.Unit()))
    shares = [release.coded(copy).counts(("sick",))[1] / 100 for copy in range(1, 401)]
    expected = (alpha + 25) / (2 * alpha + 100)
    error = np.std(shares) / 20
    assert abs(np.mean(shares) - expected) < 5 * error
    assert abs(np.mean(shares) - 0.25) > 10 * error


def test_a_prior_of_ones_own_states_the_epsilon_it_implies():
    plan = us.plan(SCHEMA, method="dirichlet", budget=us.PureDP(epsilon=5), rows=5, prior="0.5")
    assert plan.budget.epsilon == pytest.approx(math.log(11), abs=1e-5)
    assert float(plan.budget.epsilon) >= math.log(11)
    assert any("2.3979" in note for note in plan.notes)


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"rows": 10**6, "prior": "0.5"}, BudgetError, r"costs epsilon = 14\.5"),
        ({"prior": "0.5"}, InputError, "how many rows"),
        ({"prior": "0"}, InputError, "must be positive"),
        ({"prior": "-1"}, InputError, "must be positive"),
        ({"prior": "abc"}, InputError, "must be a number"),
        ({"unit": "add_remove"}, InputError, "must be a constant"),
        ({"strata": "area"}, InputError, "'auto' or 'none'"),
        ({"unit": us.Unit(fixed=("area", "sick"))}, UnsupportedError, "every attribute is fixed"),
        ({"budget": us.ZCDP(rho=1)}, UnsupportedError, "does not offer"),
    ],
)
def test_bad_requests(asked, error, words):
    with pytest.raises(error, match=words):
        us.plan(SCHEMA, method="dirichlet", **{"budget": us.PureDP(epsilon=1), **asked})


def test_a_huge_domain_is_no_trouble():
    wide = us.Schema(attributes=tuple(us.Attribute(name=f"v{i}", levels=tuple(range(10))) for i in range(12)))
    table = pa.table({f"v{i}": list(range(10)) * 5 for i in range(12)})
    release = make(rows_of=table, schema=wide, budget=us.PureDP(epsilon=1))
    assert release.frame().num_rows == 50


def test_a_domain_beyond_64_bits_is_refused():
    wide = us.Schema(attributes=tuple(us.Attribute(name=f"v{i}", levels=tuple(range(10))) for i in range(20)))
    with pytest.raises(UnsupportedError, match="64-bit"):
        us.plan(wide, method="dirichlet", budget=us.PureDP(epsilon=1))


def test_rows_under_add_remove_are_the_constant():
    release = make(budget=us.PureDP(epsilon=1), unit="add_remove", rows=37)
    assert release.frame().num_rows == 37


def test_units_of_several_rows_in_strata_are_charged_once(tmp_path):
    """The accountant adds a unit's rows over strata, so a stratum's loss is one row's; prior and total must agree."""
    unit = us.Unit(fixed=("area",), rows_per_unit=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = us.synthesize(
            us.open_source(ROWS, SCHEMA), method="dirichlet", budget=us.PureDP(epsilon=3), unit=unit, out=tmp_path / "r"
        )
    loss = release.provenance.events[0].strata[0][0]
    assert loss.epsilon == 1
    prior = Fraction(release.provenance.draws[0]["mechanisms"][0]["prior"])
    assert prior == prior_for(Fraction(1), 50, us.Unit())
    assert all(check.passed for check in us.verify(tmp_path / "r"))


def test_a_plan_for_another_number_of_records_is_refused_before_the_charge(tmp_path):
    """With a prior of one's own and no rows, epsilon was worked out from the records that the plan names."""
    plan = us.plan(SCHEMA, method="dirichlet", budget=us.PureDP(epsilon=3), records=10, prior="1")
    assert float(plan.budget.epsilon) < math.log(1 + 80)  # what 80 records would cost
    ledger = us.Ledger.create(tmp_path / "budget.db")
    ledger.create_account("people", unit="replace", limit=us.PureDP(epsilon=10))
    before = ledger.head()
    with pytest.raises(InputError, match="10 records and the data have 80"):
        us.synthesize(us.open_source(ROWS, SCHEMA), plan=plan, ledger=ledger.path, account="people")
    assert ledger.head() == before
    right = us.plan(SCHEMA, method="dirichlet", budget=us.PureDP(epsilon=5), records=80, prior="1")
    us.synthesize(us.open_source(ROWS, SCHEMA), plan=right, ledger=ledger.path, account="people", out=tmp_path / "r")
    assert all(check.passed for check in us.verify(tmp_path / "r"))


def test_no_gate_draws_with_less_prior_than_the_charge_asks_for():
    """Also not for a run that died before it looked at the data, which is resumed without looking ahead."""
    plan = us.plan(SCHEMA, method="dirichlet", budget=us.PureDP(epsilon=3), records=10, prior="1")
    stream = SeededStream(1)
    gate = Gate(source=us.open_source(ROWS, SCHEMA), schema=SCHEMA, plan=plan, stream=stream)
    with pytest.raises(BudgetError, match="80 rows over 6 cells costs more"):
        configure(plan.method, plan.options).run(plan, SCHEMA, gate, stream)
    assert gate.events == ()


@pytest.mark.parametrize("per_unit", [1, 3])
@pytest.mark.parametrize("fixed", [(), ("area",)])
def test_what_the_prior_costs_is_checked_for_the_whole_unit(per_unit, fixed):
    unit = us.Unit(fixed=fixed, rows_per_unit=per_unit)
    made = row_unit(unit, fixed)
    prior = prior_for(Fraction(1), 50, made)
    facts = TableFacts(unit=made, cells=4, records=50)
    assert DirichletDraw(prior=prior, rows=50, loss=pure_loss(Fraction(1))).event_for(facts)
    for wrong in ({"prior": prior * Fraction(999, 1000)}, {"rows": 51}):
        draw = DirichletDraw(**{"prior": prior, "rows": 50, "loss": pure_loss(Fraction(1)), **wrong})
        with pytest.raises(BudgetError):
            draw.event_for(facts)


def test_strata_that_a_unit_can_leave_are_refused_by_the_gate():
    """``fixed`` makes the accountant count one stratum per unit, which is right for fixed strata alone."""
    unit = us.Unit(fixed=("area",))
    plan = us.plan(SCHEMA, method="dirichlet", budget=us.PureDP(epsilon=1), unit=unit)
    gate = Gate(source=us.open_source(ROWS, SCHEMA), schema=SCHEMA, plan=plan, stream=SeededStream(1))
    draws = [DirichletDraw(prior=Fraction(100), rows=10, loss=pure_loss(Fraction(1)))] * 2
    with pytest.raises(DisclosureError, match="sick are not fixed"):
        gate.draw(draws, margin=SCHEMA.names, label="copy 1", copy=1, strata=("sick",))
    assert gate.events == ()
