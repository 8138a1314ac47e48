from __future__ import annotations

import json
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

import pytest

from understudy.errors import BudgetError, InputError, UnsupportedError
from understudy.privacy.promise.accountant import (
    Accountant,
    Loss,
    compose,
    epsilon_at,
    loss_of,
    satisfies,
    satisfies_definition_6,
    state,
)
from understudy.privacy.promise.conversion import cdp_epsilon
from understudy.privacy.promise.definition import ZCDP, ApproxDP, Definition, NonPrivate, ProbabilisticDP, PureDP, Unit
from understudy.privacy.promise.event import (
    ApproxLoss,
    Event,
    GaussianNoise,
    GeometricNoise,
    GumbelMax,
    NoisyMax,
    NoNoise,
    PureLoss,
    Strata,
    breach_loss,
)
from understudy.privacy.randomness import streams

GOLDEN = json.loads((Path(__file__).parents[3] / "golden" / "accounting.json").read_text())
F = Fraction
REPLACE, ADD_REMOVE, FIXED = Unit(), Unit(kind="add_remove"), Unit(fixed=("area",))


PI = F(355, 113)  # rounded up


def pure(epsilon: str | int) -> PureLoss:
    return PureLoss(epsilon=F(epsilon), source="test")


def approx(epsilon: str | int, delta: str | int) -> ApproxLoss:
    return ApproxLoss(epsilon=F(epsilon), delta=F(delta), source="test")


def geometric(epsilon: str | int) -> GeometricNoise:
    return GeometricNoise(l1=F(1), scale=1 / F(epsilon))


def gaussian(rho: str | int) -> GaussianNoise:
    return GaussianNoise(l2_squared=2 * F(rho), scale=F(1))


def test_what_each_event_costs() -> None:
    one_by_one = (
        (GeometricNoise(l1=F(2), scale=F(5)), (F(2, 5), F(2, 25), PI / 8 * F(4, 5) ** 2)),
        (GaussianNoise(l2_squared=F(2), scale=F(5)), (None, F(1, 25), F(1, 10))),
        (GaussianNoise(l2_squared=F(2), scale=F(2)), (None, F(1, 4), None)),
        (NoisyMax(sensitivity=F(3), scale=F(12)), (F(1, 2), F(1, 8), PI / 8)),
        (GumbelMax(sensitivity=F(3), scale=F(12)), (F(1, 2), F(1, 32), PI / 8 * F(1, 2) ** 2)),
        (pure("0.2"), (F(1, 5), F(1, 50), PI / 8 * F(2, 5) ** 2)),
    )
    for event, (epsilon, rho, mu_squared) in one_by_one:
        loss = loss_of(event, REPLACE)
        assert (loss.epsilon, loss.rho, loss.mu_squared) == (epsilon, rho, mu_squared)
        assert loss.approx_delta == 0
        # Only noise and choices of bounded range may be composed by their losses.
        alone = mu_squared if isinstance(event, GaussianNoise) else 0 if isinstance(event, GumbelMax) else None
        assert loss.noise_mu_squared == alone
        assert (loss.choices, loss.widest) == ((1, F(1, 2)) if isinstance(event, GumbelMax) else (0, 0))
    explicit = Loss(approx_epsilon=F(1, 5), approx_delta=F(1, 10**6), noise_mu_squared=None)
    assert loss_of(approx("0.2", "1e-6"), REPLACE) == explicit
    assert loss_of(approx("0.2", 0), REPLACE) == loss_of(pure("0.2"), REPLACE)
    assert loss_of(NoNoise(), REPLACE).unbounded


@pytest.mark.parametrize("sensitivity", [1, 2, 7, 1000])
@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0, 12.5, 1e6])
def test_losses_equal_those_opendp_states(sensitivity: int, scale: float) -> None:
    """Asked of the very measurements that are run. Its maps round up in floating point; ours are exact."""
    laplace, normal = streams._laplace(scale), streams._gaussian(scale)
    choice, gumbel = streams._noisy_max(scale, "exponential"), streams._noisy_max(scale, "gumbel")
    exact = F(scale)
    pairs = (
        (choice.map(sensitivity), loss_of(NoisyMax(sensitivity=F(sensitivity), scale=exact), REPLACE).epsilon),
        (gumbel.map(sensitivity), loss_of(GumbelMax(sensitivity=F(sensitivity), scale=exact), REPLACE).rho),
        (laplace.map(sensitivity), loss_of(GeometricNoise(l1=F(sensitivity), scale=exact), REPLACE).epsilon),
        (
            normal.map(float(sensitivity)),
            loss_of(GaussianNoise(l2_squared=F(sensitivity) ** 2, scale=exact), REPLACE).rho,
        ),
    )
    for theirs, ours in pairs:
        assert ours is not None
        assert ours <= F(theirs) <= ours * (1 + F(1, 10**14))


def test_composition_is_exact() -> None:
    loss = compose([pure("0.1")] * 10, REPLACE)
    assert loss.epsilon == 1
    assert loss.rho == F(1, 20)
    mixed = compose([pure("0.1"), gaussian("0.3"), approx("0.5", "1e-7"), approx("0.25", "1e-7")], REPLACE)
    assert mixed == Loss(
        epsilon=None, rho=F(305, 1000), mu_squared=None, approx_epsilon=F(3, 4), approx_delta=F(2, 10**7),
        noise_mu_squared=None,
    )  # fmt: skip  # noise with rho = .3 is so little that there is no mu^2
    assert compose([], REPLACE) == Loss()
    assert compose([NoNoise(), pure(1)], REPLACE).unbounded
    assert Loss() + mixed == mixed


@pytest.mark.parametrize("case", GOLDEN["laplace"], ids=str)
def test_never_below_the_exact_loss_of_composed_laplace_noise(case: dict[str, str]) -> None:
    """dp-accounting's numerical composition is exact to its grid of 1e-4 per event's loss, rounded up."""
    events = [GeometricNoise(l1=F(1), scale=F(case["scale"]))] * int(case["times"])
    ours = epsilon_at(compose(events, REPLACE), F(case["delta"]))
    assert ours is not None
    theirs = float(case["epsilon"])
    assert theirs <= float(ours) + 1.01e-4
    assert float(ours) <= 1.4 * theirs


def test_epsilon_at_a_delta_takes_the_better_way_and_spends_explicit_deltas_first() -> None:
    delta = F(1, 10**6)
    few = compose([pure(1)], REPLACE)
    assert epsilon_at(few, delta) == 1
    many = compose([pure("0.01")] * 10_000, REPLACE)
    assert epsilon_at(many, delta) == cdp_epsilon(F(1, 2), delta) < 100
    both = compose([gaussian("0.1"), approx("0.5", "4e-7")], REPLACE)
    assert epsilon_at(both, delta) == cdp_epsilon(F(1, 10), F(6, 10**7)) + F(1, 2)
    exhausted = compose([pure(1), approx("0.5", "1e-6")], REPLACE)
    assert epsilon_at(exhausted, delta) == F(3, 2)
    assert epsilon_at(compose([gaussian("0.1"), approx("0.5", "1e-6")], REPLACE), delta) is None
    assert epsilon_at(compose([approx("0.5", "2e-6")], REPLACE), delta) is None
    assert epsilon_at(compose([NoNoise()], REPLACE), delta) is None


STRATA = Strata(
    strata=((geometric("0.5"),), (geometric("0.2"), geometric("0.1")), (gaussian("0.1"),), (approx("0.4", "1e-6"),))
)


def test_strata_cost_the_worst_ones_a_unit_can_touch() -> None:
    pure_only = Strata(strata=((geometric("0.5"),), (geometric("0.2"), geometric("0.2")), (geometric("0.1"),)))
    assert loss_of(pure_only, FIXED).epsilon == F(1, 2)
    assert loss_of(pure_only, ADD_REMOVE).epsilon == F(1, 2)
    assert loss_of(pure_only, REPLACE).epsilon == F(9, 10)
    assert loss_of(pure_only, REPLACE).rho == F(25, 200) + F(8, 200)
    mixed = loss_of(STRATA, REPLACE)
    assert mixed.epsilon is None
    assert mixed.rho == F(125, 1000) + F(100, 1000)
    assert (mixed.approx_epsilon, mixed.approx_delta) == (F(2, 5), F(1, 10**6))
    assert loss_of(Strata(strata=((NoNoise(),), ())), FIXED).unbounded
    assert loss_of(Strata(strata=()), REPLACE) == Loss(noise_mu_squared=None)  # of which nothing is claimed
    nested = Strata(strata=((pure_only,), (geometric("0.3"),)))
    assert loss_of(nested, FIXED).epsilon == F(1, 2)


def test_a_unit_of_several_rows_may_touch_several_strata() -> None:
    three = Unit(kind="add_remove", rows_per_unit=3)
    proved = Strata(strata=tuple((pure("0.1"),) for _ in range(5)))
    assert loss_of(proved, three).epsilon == F(3, 10)
    assert loss_of(proved, Unit(rows_per_unit=3)).epsilon == F(5, 10)
    assert loss_of(proved, Unit(rows_per_unit=3, fixed=("area",))).epsilon == F(3, 10)
    # Noise on counts: k of the b rows move a stratum's count by k only, so the shares add to one worst stratum.
    noise = Strata(strata=tuple((GeometricNoise(l1=F(3), scale=F(30)),) for _ in range(5)))
    assert loss_of(noise, three).epsilon == F(1, 10)
    for rows in ((3, 0, 0), (2, 1, 0), (1, 1, 1)):
        assert sum(F(count, 30) for count in rows) <= F(1, 10)


BREACH = breach_loss(F(1, 2), F(1, 10**9))


def test_definition_6_is_kept_by_pure_steps_and_by_draws_set_for_it_alone() -> None:
    """A conversion that gives (epsilon, delta)-privacy says nothing about the set of outputs that betray a row."""
    budget = ProbabilisticDP(epsilon=1, delta="1e-9")
    assert satisfies_definition_6([pure("0.5"), BREACH], REPLACE, budget)
    for event in (gaussian("1e-6"), approx("0.1", "1e-12"), NoNoise()):
        assert not satisfies_definition_6([event], REPLACE, budget)
        with pytest.raises(BudgetError):
            Accountant(unit=REPLACE, budget=budget).charge(event)
    assert not satisfies_definition_6([BREACH, BREACH], REPLACE, budget)  # deltas add
    assert not satisfies_definition_6([BREACH], replace(REPLACE, rows_per_unit=2), budget)
    assert not satisfies_definition_6([BREACH], Unit(kind="add_remove"), budget)
    assert satisfies_definition_6([Strata(strata=((BREACH,), (pure("0.5"),)))], replace(REPLACE, fixed=("x",)), budget)
    assert not satisfies_definition_6([Strata(strata=((BREACH,), (approx("0.1", "1e-12"),)))], REPLACE, budget)


@pytest.mark.parametrize(
    ("budget", "inside", "outside"),
    [
        (PureDP(epsilon=1), [pure("0.1")] * 10, [pure("0.1")] * 10 + [pure("1e-30")]),
        (PureDP(epsilon=1), [approx("0.5", 0)], [approx("0.5", "1e-30")]),
        (PureDP(epsilon=1), [], [gaussian("1e-9")]),
        (ZCDP(rho="0.5"), [pure(1)], [pure(1), gaussian("1e-30")]),
        (ZCDP(rho="0.5"), [gaussian("0.5")], [gaussian("0.4"), approx("0.1", "1e-9")]),
        (ApproxDP(epsilon=1, delta="1e-6"), [approx("0.5", "5e-7")] * 2, [approx("0.4", "6e-7")] * 2),
        (ApproxDP(epsilon=1, delta="1e-9"), [gaussian("0.0149")], [gaussian("0.0150")]),
        (ProbabilisticDP(epsilon=1, delta="1e-9"), [pure("0.5"), BREACH], [pure("0.5"), BREACH, pure("1e-30")]),
        (NonPrivate(), [NoNoise()], None),
        (PureDP(epsilon=10**9), [pure(5)], [NoNoise()]),
        (ZCDP(rho=10**9), [pure(5)], [NoNoise()]),
        (ApproxDP(epsilon=10**9, delta="0.9"), [pure(5)], [NoNoise()]),
    ],
)
def test_a_budget_is_kept_exactly(budget: Definition, inside: list[Event], outside: list[Event] | None) -> None:
    assert satisfies(compose(inside, REPLACE), budget)
    accountant = Accountant(unit=REPLACE, budget=budget)
    for event in inside:
        accountant.charge(event)
    assert accountant.events == tuple(inside)
    assert accountant.loss == compose(inside, REPLACE)
    if outside is None:
        return
    assert not satisfies(compose(outside, REPLACE), budget)
    accountant = Accountant(unit=REPLACE, budget=budget)
    for event in outside[:-1]:
        accountant.charge(event)
    before = accountant.loss
    with pytest.raises(BudgetError, match="Nothing was drawn"):
        accountant.charge(outside[-1])
    assert accountant.events == tuple(outside[:-1])
    assert accountant.loss == before


@dataclass(frozen=True, slots=True, kw_only=True)
class Mystery(Event):
    kind: ClassVar[str] = "mystery"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheaperGeometric(GeometricNoise):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class MysteryGuarantee(Definition):
    name: ClassVar[str] = "none"


@pytest.mark.parametrize("budget", [PureDP(epsilon=1), NonPrivate()])
def test_an_unknown_event_is_refused_before_anything_is_recorded(budget: Definition) -> None:
    unknown = (
        Mystery(),
        CheaperGeometric(l1=F(1), scale=F(10**6)),
        Strata(strata=((pure("0.1"),), (Mystery(),))),
    )
    for event in unknown:
        accountant = Accountant(unit=REPLACE, budget=budget)
        with pytest.raises(UnsupportedError, match="nothing was recorded"):
            accountant.charge(event)
        assert accountant.events == ()
        assert accountant.loss == compose([], REPLACE)
    with pytest.raises(UnsupportedError, match="MysteryGuarantee"):
        satisfies(Loss(), MysteryGuarantee())


@pytest.mark.parametrize(
    "event",
    [
        GeometricNoise(l1=F(-1), scale=F(1)),
        GeometricNoise(l1=F(1), scale=F(0)),
        GaussianNoise(l2_squared=F(1), scale=F(-1)),
        NoisyMax(sensitivity=F(-1), scale=F(1)),
        PureLoss(epsilon=F(-1), source="a loss that gives budget back"),
        ApproxLoss(epsilon=F(-1), delta=F(1, 10), source="likewise"),
        PureLoss(epsilon=0.1, source="not exact"),  # type: ignore[arg-type]
    ],
)
def test_no_event_can_give_budget_back(event: Event) -> None:
    with pytest.raises(InputError, match="of an event must be"):
        loss_of(event, REPLACE)


def test_the_guarantee_reached_is_rounded_up_but_not_past_a_kept_budget() -> None:
    third = compose([PureLoss(epsilon=F(1, 3), source="test")], REPLACE)
    assert state(third, PureDP(epsilon=1)) == PureDP(epsilon="0.333333333334")
    nearly = Loss(epsilon=F(1, 10) - F(1, 10**20), rho=F(1))
    assert state(nearly, PureDP(epsilon="0.1")) == PureDP(epsilon="0.1")
    assert state(third, PureDP(epsilon=F(1, 3))) == PureDP(epsilon=F(1, 3))
    over = Loss(epsilon=F(1, 10) + F(1, 10**20), rho=F(1))
    assert state(over, PureDP(epsilon="0.1")) == PureDP(epsilon="0.100000000001")
    assert state(compose([gaussian("0.25")], REPLACE), ZCDP(rho=1)) == ZCDP(rho="0.25")
    reached = state(compose([gaussian("0.01")], REPLACE), ApproxDP(epsilon=1, delta="1e-9"))
    assert isinstance(reached, ApproxDP)
    assert reached.delta == F(1, 10**9)
    assert 0 <= reached.epsilon - cdp_epsilon(F(1, 100), F(1, 10**9)) < F(1, 10**12)
    assert state(Loss(), PureDP(epsilon=1)) == PureDP(epsilon="1e-12")
    assert state(third, ProbabilisticDP(epsilon=1, delta="1e-9")).name == "approx"
    assert state(compose([approx(2, "1e-3")], REPLACE), ApproxDP(epsilon=1, delta="1e-9")) == ApproxDP(
        epsilon=2, delta="1e-3"
    )


def test_no_bound_is_stated_as_no_guarantee() -> None:
    for budget in (PureDP(epsilon=1), ZCDP(rho=1), ApproxDP(epsilon=1, delta="1e-9"), NonPrivate()):
        assert state(compose([NoNoise()], REPLACE), budget) == NonPrivate()
    assert state(compose([pure(1)], REPLACE), NonPrivate()) == NonPrivate()
    with pytest.raises(UnsupportedError, match="pure"):
        state(compose([gaussian(1)], REPLACE), PureDP(epsilon=1))
    with pytest.raises(UnsupportedError, match="zero-concentrated"):
        state(compose([approx(1, "1e-9")], REPLACE), ZCDP(rho=1))
