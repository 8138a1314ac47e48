"""Noise and choices composed by their losses: against enumerated runs, the worst offsets, and dp-accounting."""

import json
import math
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import understudy as us
from understudy.errors import BudgetError
from understudy.privacy.exact.choices_profile import composed_amount, composed_delta, composed_epsilon
from understudy.privacy.exact.gaussian_profile import gaussian_delta, mu_squared
from understudy.privacy.promise.accountant import Accountant, compose, epsilon_at, satisfies
from understudy.privacy.promise.conversion import cdp_rho
from understudy.privacy.promise.event import GaussianNoise, GumbelMax, PureLoss
from understudy.privacy.promise.plan import plan_from_json
from understudy.synth.shared.method import Request, configure

F = Fraction
UNIT = us.Unit(kind="add_remove")
GOLDEN = json.loads((Path(__file__).parents[3] / "golden" / "accounting.json").read_text())


def hockey_stick(first, second, epsilon):
    """Of two laws on the same outcomes, both ways round."""
    first, second = np.asarray(first), np.asarray(second)
    factor = math.exp(epsilon)
    return max(np.maximum(first - factor * second, 0).sum(), np.maximum(second - factor * first, 0).sum())


def chosen(scores, scale):
    """Probabilities of the exponential mechanism."""
    weights = np.exp((scores - scores.max()) / scale)
    return weights / weights.sum()


def transcripts(rng, order, sigma, scale):
    """The laws of everything a small adaptive run answers, for two neighbours.

    ``order``: N for a noisy count, C for a choice. Scores depend on all earlier answers and move by at most one.
    """
    reach = math.ceil(9 * sigma)
    noise = np.arange(-reach, reach + 1)
    law = np.exp(-(noise**2) / (2 * sigma**2))
    law /= law.sum()
    laws = [(np.ones(1), np.ones(1))]
    for step in order:
        grown = []
        for here, there in laws:
            # Every cell of what was answered so far has scores and a move of its own: the worst that can depend on it.
            if step == "N":
                for one, other in zip(here, there, strict=True):
                    grown.append((one * law, other * np.roll(law, 1)))
                continue
            many = len(here)
            base, moved = rng.normal(0, 2 * scale, (many, 3)), rng.uniform(-1, 1, (many, 3)).round(rng.integers(0, 2))
            for place in range(many):
                grown.append((here[place] * chosen(base[place], scale),
                              there[place] * chosen(base[place] + moved[place], scale)))  # fmt: skip
        laws = [(np.concatenate([one for one, _ in grown]), np.concatenate([other for _, other in grown]))]
    return laws[0]


@pytest.mark.parametrize("order", ["C", "CC", "NCC", "CNC", "CCN", "NC", "CCC", "CNCN"])
def test_no_enumerated_run_loses_more_than_the_bound(order):
    rng = np.random.default_rng(len(order))
    for _ in range(6 if order.count("N") < 2 else 2):
        sigma, scale = rng.choice([2.5, 3.0, 4.0]), rng.choice([1.0, 3.0, 10.0])
        first, second = transcripts(rng, order, sigma, scale)
        mu2 = order.count("N") * mu_squared(F(1), F(sigma))
        for epsilon in (0.05, 0.3, 1.0, 2.0):
            bound = composed_delta(mu2, 2 / F(scale), order.count("C"), F(epsilon))
            assert hockey_stick(first, second, epsilon) <= float(bound) * (1 + 1e-9)


def worst_offsets(epsilon, widest, choices, steps=160):
    """The least favourable adaptive choices alone, with offsets on a fine grid, by going through all of them."""
    if choices == 0:
        return max(0.0, -math.expm1(epsilon))
    if epsilon >= choices * widest:
        return 0.0
    if choices == 1:  # the larger loss t is all that counts, and its probability falls with t
        offsets = np.linspace(max(epsilon, 0.0), widest, 4000)
        chance = np.expm1(offsets - widest) / math.expm1(-widest)
        return float(max((chance * -np.expm1(epsilon - offsets)
                          + (1 - chance) * np.maximum(-np.expm1(epsilon - offsets + widest), 0)).max(),
                         -math.expm1(epsilon)))  # fmt: skip
    found = []
    for offset in np.linspace(0, widest, steps):
        chance = math.expm1(offset - widest) / math.expm1(-widest)
        found.append(chance * worst_offsets(epsilon - offset, widest, choices - 1, steps)
                     + (1 - chance) * worst_offsets(epsilon - offset + widest, widest, choices - 1, steps))  # fmt: skip
    return max(found)


@pytest.mark.parametrize(("widest", "choices"), [(0.1, 1), (0.5, 1), (2.0, 1), (0.3, 2), (1.0, 2)])
def test_the_bound_is_the_worst_offset_and_little_more(widest, choices):
    for part in (0.1, 0.4, 0.7):
        epsilon = part * widest * choices
        worst = worst_offsets(epsilon, widest, choices)
        bound = float(composed_delta(F(0), F(widest), choices, F(epsilon)))
        assert worst * (1 - 1e-9) <= bound <= 1.1 * worst


def test_one_choice_of_known_range_has_its_closed_form():
    """The worst offset of one choice is t = (epsilon + e)/2 (Dong, Durfee and Rogers, arXiv:1909.13830)."""
    widest, epsilon = 1.5, 0.4
    exact = math.expm1((epsilon - widest) / 2) ** 2 / -math.expm1(-widest)
    bound = float(composed_delta(F(0), F(widest), 1, F(epsilon)))
    assert exact <= bound <= 1.05 * exact


def test_a_wider_range_is_seen():
    """The enumeration would notice if choices cost twice what is charged."""
    scale, epsilon = 2.0, 0.8
    first, second = (chosen(np.array(scores), scale) for scores in ([0.0, 0.0], [1.0, -1.0]))
    doubled = np.outer(first, first).ravel(), np.outer(second, second).ravel()
    assert hockey_stick(*doubled, epsilon) > float(composed_delta(F(0), F(1, 2), 2, F(epsilon)))
    assert hockey_stick(*doubled, epsilon) <= float(composed_delta(F(0), F(1), 2, F(epsilon)))


@pytest.mark.parametrize("case", GOLDEN["noise and choices"])
def test_beside_dp_accounting_with_one_offset_for_all(case):
    """Its losses are on a grid of its own, rounded down and up; the offset is the same for all choices there, so that
    ours, which may follow earlier answers, is above it even without rounding."""
    found = float(composed_delta(F(case["mu_squared"]), F(case["range"]), case["choices"], F(case["epsilon"])))
    assert case["low"] * (1 - 1e-6) <= found <= 1.75 * case["high"]


def test_without_choices_it_is_the_profile_of_gaussian_noise():
    for mu2, epsilon in product((F(1, 100), F(1)), (F(1, 10), F(2))):
        assert composed_delta(mu2, F(0), 0, epsilon) == gaussian_delta(mu2, epsilon)
        nearly = float(composed_delta(mu2, F(1, 200), 3, epsilon))
        assert float(gaussian_delta(mu2, epsilon)) <= nearly <= 1.05 * float(gaussian_delta(mu2, epsilon)) + 1e-12


def test_more_of_anything_is_never_less():
    base = composed_delta(F(1, 40), F(1, 30), 5, F(1))
    assert composed_delta(F(1, 39), F(1, 30), 5, F(1)) > base
    assert composed_delta(F(1, 40), F(1, 29), 5, F(1)) > base
    assert composed_delta(F(1, 40), F(1, 30), 6, F(1)) > base
    assert composed_delta(F(1, 40), F(1, 30), 5, F(99, 100)) > base
    found = composed_epsilon(F(1, 40), F(1, 30), 5, F(1, 10**9))
    assert composed_delta(F(1, 40), F(1, 30), 5, found) <= F(1, 10**9)
    assert composed_delta(F(1, 40), F(1, 30), 5, found * F(999, 1000)) > F(1, 10**9)


@pytest.mark.parametrize(
    ("mu2", "widest", "choices"), [(F(65), F(1), 3), (F(1), F(9), 3), (F(1), F(1), 201), (F(1), F(1, 10**12), 2)]
)
def test_where_the_grid_ends_nothing_is_claimed(mu2, widest, choices):
    assert composed_delta(mu2, widest, choices, F(1)) == 1


@pytest.mark.parametrize("epsilon", ["0.1", "1", "10"])
@pytest.mark.parametrize("choices", [1, 6, 23, 150])
def test_an_amount_keeps_the_budget_and_gains(epsilon, choices):
    delta, share = F(1, 10**9), F(1, 6)
    amount = composed_amount(F(epsilon), delta, choices, share)
    assert 1.03 < amount / cdp_rho(F(epsilon), delta) < 1.13
    widest = F(math.sqrt(8 * amount * share / choices))
    assert composed_delta(2 * amount * (1 - share), widest, choices, F(epsilon)) <= delta


def test_the_accountant_adds_up_noise_and_choices_and_refuses_one_more():
    """Charged in any order; anything else than noise and choices has no such bound."""
    budget = us.ApproxDP(epsilon=1, delta="1e-9")
    amount = composed_amount(F(1), F(1, 10**9), 4, F(1, 6))
    choice = GumbelMax(sensitivity=F(1), scale=F(2 / math.sqrt(float(8 * amount / 6 / 4)) * (1 + 1e-9)))
    noise = GaussianNoise(l2_squared=F(1), scale=F(math.sqrt(float(2 / (2 * amount * F(5, 6)) + 5)) * (1 + 1e-9)))
    planned = (noise, noise, choice, choice, choice, choice)
    accountant = Accountant(unit=UNIT, budget=budget, by="composed", planned=planned)
    for event in (choice, noise, choice, choice, noise, choice):
        accountant.charge(event)
    with pytest.raises(BudgetError):
        accountant.charge(choice)
    # Each by itself: a choice less does not pay for more noise, nor for a choice of a wider range.
    for instead in (replace(noise, scale=noise.scale / 2), replace(choice, scale=choice.scale * F(99, 100))):
        other = Accountant(unit=UNIT, budget=budget, by="composed", planned=planned)
        other.charge(noise)
        with pytest.raises(BudgetError):
            other.charge(instead)
    too_much = Accountant(unit=UNIT, budget=us.ApproxDP(epsilon="0.99", delta="1e-9"), by="composed", planned=planned)
    with pytest.raises(BudgetError):
        too_much.charge(choice)
    assert not satisfies(compose(accountant.events, UNIT), budget)  # by zCDP the same costs more
    other = compose([*accountant.events[:2], PureLoss(epsilon=F(1, 100), source="test")], UNIT, by="composed")
    assert epsilon_at(other, F(1, 10**9)) is None


def test_a_tree_has_less_noise_and_its_plan_says_by_which_bound():
    schema = us.Schema(attributes=tuple(us.Attribute(name=f"a{one}", levels=(0, 1, 2)) for one in range(12)))
    request = Request(budget=us.ApproxDP(epsilon=1, delta="1e-9"), unit=UNIT, copies=1, rows=1000, records=None)
    plan = configure("mst", {}).plan(schema, request)
    assert plan.read_by == "composed"
    assert plan_from_json(plan.to_json()) == plan
    assert satisfies(compose(plan.events, UNIT, by=plan.by), plan.budget)
    rho = request.__class__(
        budget=us.ZCDP(rho=cdp_rho(F(1), F(1, 10**9))), unit=UNIT, copies=1, rows=1000, records=None
    )
    before = configure("mst", {}).plan(schema, rho)
    ratio = plan.steps[0].standard_deviation / before.steps[0].standard_deviation
    assert 0.94 < ratio < 0.97
