"""Composed losses: certified from both sides, whichever way they are computed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from understudy.auditing import composed_loss as module
from understudy.auditing.composed_loss import LossDistribution, compose_losses
from understudy.errors import InputError

COIN = LossDistribution(losses=np.array([-1.0, 1.0]), probabilities=np.array([1, math.e]) / (1 + math.e))
ODD = LossDistribution(
    losses=np.array([-1.1, -0.37, 0.21, 0.9]), probabilities=np.array([0.1, 0.25, 0.3, 0.349]), infinite=0.001
)


def brute(parts, epsilon):
    losses, chances, finite = np.zeros(1), np.ones(1), 1.0
    for part, times in parts:
        for _ in range(times):
            losses = np.add.outer(losses, part.losses).ravel()
            chances = np.multiply.outer(chances, part.probabilities).ravel()
            finite *= 1 - part.infinite
    return float((chances * np.maximum(0, -np.expm1(epsilon - losses))).sum()) + 1 - finite


CASES = [[(COIN, 7)], [(ODD, 5)], [(COIN, 3), (ODD, 4)]]


@pytest.mark.parametrize("parts", CASES)
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_listing_all_combinations_is_exact(parts, epsilon):
    bounds = compose_losses(parts).bounds(epsilon)
    truth = brute(parts, epsilon)
    assert bounds.low <= truth <= bounds.high
    assert bounds.error < 1e-10


@pytest.mark.parametrize("parts", CASES)
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("step", [0.2, 0.01, 0.001])
def test_a_grid_holds_the_truth_between_its_bounds(parts, epsilon, step):
    bounds = compose_losses(parts, step=step).bounds(epsilon)
    truth = brute(parts, epsilon)
    assert bounds.low <= truth <= bounds.high
    assert bounds.error <= 12 * step


def test_losses_on_a_lattice_are_not_rounded(monkeypatch):
    monkeypatch.setattr(module, "FEW", 0)
    composed = compose_losses([(COIN, 40)])
    assert composed.step == 1.0
    bounds = composed.bounds(4.0)
    heads = np.arange(41)
    chances = np.array([math.comb(40, int(h)) for h in heads]) * COIN.probabilities[1] ** heads
    chances = chances * COIN.probabilities[0] ** (40 - heads)
    truth = float((chances * np.maximum(0, -np.expm1(4.0 - (2 * heads - 40)))).sum())
    assert bounds.low <= truth <= bounds.high
    assert bounds.error < 1e-10


def test_ends_that_are_cut_off_count_as_lost(monkeypatch):
    monkeypatch.setattr(module, "FEW", 0)
    monkeypatch.setattr(module, "FEWEST_TRIMMED", 4)
    for tail in (1e-4, 1e-8):
        bounds = compose_losses([(ODD, 6)], step=0.01, tail=tail).bounds(1.0)
        assert bounds.low <= brute([(ODD, 6)], 1.0) <= bounds.high


def test_bad_input():
    for parts in ([], [(COIN, 0)]):
        with pytest.raises(InputError, match="at least one"):
            compose_losses(parts)
    with pytest.raises(InputError, match="positive"):
        compose_losses([(COIN, 2)], step=-1.0)
    with pytest.raises(InputError, match="grid points"):
        compose_losses([(COIN, 2)], step=1e-9)


def test_the_worst_case_of_a_distribution():
    assert COIN.largest == 1
    assert ODD.largest == math.inf
