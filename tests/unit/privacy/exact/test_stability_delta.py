"""The delta of codes that occur, against every pair of small neighbouring tables written out."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from understudy import ApproxDP, Unit
from understudy.privacy.exact.stability_delta import gaussian_tail, least_threshold, stability_delta
from understudy.privacy.promise.accountant import loss_of, satisfies
from understudy.privacy.promise.event import ThresholdedNoise

SCALE, THRESHOLD, REACH = Fraction(3, 2), 5, 16
NOISE = np.arange(-40, 41)
LAW = np.exp(-((NOISE / float(SCALE)) ** 2) / 2)
LAW = LAW / LAW.sum()


def told(count: int) -> np.ndarray:
    """The law of what is told of a code: nothing, or a noisy count from the threshold on."""
    if count == 0:
        return np.array([1.0, *np.zeros(REACH)])
    seen = [LAW[value - count == NOISE].sum() for value in range(THRESHOLD, THRESHOLD + REACH)]
    return np.array([1 - sum(seen), *seen])


def joint(table: tuple[int, ...]) -> np.ndarray:
    law = np.ones(1)
    for count in table:
        law = np.outer(law, told(count)).ravel()
    return law


def noise_alone(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    """What the noise on the codes of both tables loses at epsilon 1, written out."""
    first, second = np.ones(1), np.ones(1)
    for a, b in zip(one, other, strict=True):
        if a and b:
            values = np.arange(-30, 40)
            first = np.outer(first, [LAW[value - a == NOISE].sum() for value in values]).ravel()
            second = np.outer(second, [LAW[value - b == NOISE].sum() for value in values]).ravel()
    return float(np.maximum(first - math.e * second, 0).sum())


def neighbours(rows: int, kind: str):
    """Tables of up to three codes that differ in the rows of one unit."""
    tables = list(product(range(4), repeat=3))
    for one in tables:
        for other in tables:
            gone = sum(max(a - b, 0) for a, b in zip(one, other, strict=True))
            come = sum(max(b - a, 0) for a, b in zip(one, other, strict=True))
            if kind == "replace" and gone == come and 0 < gone <= rows:
                yield one, other
            if kind == "add_remove" and 0 < gone + come <= rows and not (gone and come):
                yield one, other


@pytest.mark.parametrize("kind", ["replace", "add_remove"])
@pytest.mark.parametrize("rows", [1, 2, pytest.param(3, marks=pytest.mark.full)])
def test_no_pair_of_neighbours_loses_more_than_noise_and_delta(rows, kind):
    delta = float(stability_delta(SCALE, THRESHOLD, rows))
    worst, laws, noise = 0.0, {}, {}
    for one, other in neighbours(rows, kind):
        for table in (one, other):
            laws.setdefault(table, joint(table))
        pair = tuple(sorted((a, b) for a, b in zip(one, other, strict=True) if a and b and a != b))
        if pair not in noise:
            noise[pair] = noise_alone(*(zip(*pair, strict=True) if pair else ((), ())))
        lost = float(np.maximum(laws[one] - math.e * laws[other], 0).sum())
        assert lost <= noise[pair] + delta + 1e-12
        # with no bound on epsilon, only what one table alone can tell is lost: that is delta, and it is reached
        worst = max(worst, float(laws[one][laws[other] == 0].sum()))
    assert worst == pytest.approx(delta, rel=2e-5)


def test_a_delta_for_one_row_is_too_small_for_two():
    """So that the comparison above can fail."""
    assert float(stability_delta(SCALE, THRESHOLD, 1)) < 0.5 * float(stability_delta(SCALE, THRESHOLD, 2))


def divisions(rows: int, most: int | None = None):
    if rows == 0:
        yield ()
    for first in range(min(rows, most or rows), 0, -1):
        for rest in divisions(rows - first, first):
            yield (first, *rest)


@pytest.mark.parametrize(
    ("scale", "threshold"), [(Fraction(1), 9), (Fraction(3), 12), (Fraction(10), 40), (Fraction(40), 50)]
)
@pytest.mark.parametrize("rows", [1, 2, 5, 8])
def test_the_worst_way_to_divide_rows_among_codes(scale, threshold, rows):
    seen = {own: gaussian_tail(float(scale), threshold - own) for own in range(1, rows + 1)}
    worst = max(-math.expm1(math.fsum(math.log1p(-seen[own]) for own in parts)) for parts in divisions(rows))
    assert float(stability_delta(scale, threshold, rows)) == pytest.approx(worst, rel=2e-5)
    assert float(stability_delta(scale, threshold, rows)) >= worst * (1 - 1e-9)


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.9, 4.1, 24.0, 900.0])
@pytest.mark.parametrize("deviations", [0.5, 3.0, 6.4])
def test_the_tail_is_that_of_the_law_and_never_below(scale, deviations):
    least = max(math.ceil(deviations * scale), 1)
    steps = np.arange(-math.ceil(45 * scale) - 2, math.ceil(45 * scale) + 3)
    weights = np.exp(-((steps / scale) ** 2) / 2)
    exact = math.fsum(weights[steps >= least]) / math.fsum(weights)
    assert exact * (1 - 1e-12) <= gaussian_tail(scale, least) <= exact * (1 + 1e-8)


def test_a_tail_by_its_integral_is_above_the_sum():
    scale, least = 20_000.0, 100_000
    steps = np.arange(least, least + 45 * 20_000, dtype=float)
    exact = math.fsum(np.exp(-((steps / scale) ** 2) / 2)) / (math.sqrt(2 * math.pi) * scale)
    assert exact <= gaussian_tail(scale, least) <= 1.01 * exact


@pytest.mark.parametrize("rows", [1, 4])
def test_the_threshold_is_the_least_that_keeps_delta(rows):
    scale, delta = Fraction(24), Fraction(1, 10**10)
    threshold = least_threshold(scale, rows, delta)
    assert stability_delta(scale, threshold, rows) <= delta < stability_delta(scale, threshold - 1, rows)


def test_the_accountant_computes_delta_from_what_was_done():
    event = ThresholdedNoise(l2_squared=Fraction(2), scale=Fraction(24), threshold=Fraction(160), rows=Fraction(1))
    loss = loss_of(event, Unit())
    assert loss.approx_delta == stability_delta(Fraction(24), 160, 1)
    assert loss.rho == Fraction(2, 2 * 24**2)
    assert not satisfies(loss, ApproxDP(epsilon=5, delta=loss.approx_delta / 2))
    assert satisfies(loss, ApproxDP(epsilon=5, delta=loss.approx_delta * 2))
