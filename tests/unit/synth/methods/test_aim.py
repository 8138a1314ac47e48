"""aim spends in the currency that its plan names, whatever this version would choose for the budget."""

from __future__ import annotations

import pyarrow as pa
import pytest

import understudy as us
from understudy.privacy.gate.gate import Gate
from understudy.privacy.promise.accountant import compose, satisfies
from understudy.privacy.randomness.streams import SeededStream
from understudy.synth.methods.aim import Aim
from understudy.synth.shared.currency import Currency
from understudy.synth.shared.method import Request

SCHEMA = us.Schema(
    attributes=tuple(us.Attribute(name=name, levels=("no", "yes")) for name in ("smokes", "drinks", "works"))
)
ROWS = pa.table({"smokes": ["no", "yes"] * 40, "drinks": ["no", "yes"] * 40, "works": ["yes", "yes", "no", "no"] * 20})
BUDGET = us.ApproxDP(epsilon=1, delta="1e-6")


@pytest.mark.parametrize("bound", ["gaussian", "concentrated"])
def test_a_run_spends_what_its_plan_names(bound, monkeypatch):
    """A plan of before, which names no bound, is finished by zCDP: by mu^2 it would end beyond the budget it named."""
    method, request = Aim(rounds=4), Request(budget=BUDGET, unit=us.Unit(), copies=1)
    with monkeypatch.context() as before:
        if bound == "concentrated":
            before.setattr(Currency, "for_choosing", Currency.of)
        plan = method.plan(SCHEMA, request)
    assert plan.by == bound
    stream = SeededStream(5)
    gate = Gate(source=us.open_source(ROWS, SCHEMA), schema=SCHEMA, plan=plan, stream=stream)
    method.run(plan, SCHEMA, gate, stream)
    spent = compose(gate.events, plan.unit, by=bound)
    assert satisfies(spent, BUDGET)
    named = 2 * spent.rho if bound == "concentrated" else spent.mu_squared
    assert float(named) == pytest.approx(2 * float(Currency.named(BUDGET, bound).amount), rel=1e-6)
