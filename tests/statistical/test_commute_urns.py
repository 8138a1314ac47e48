"""The urns of commutes against the exact law of the naive algorithms: chi-square tests that can fail both ways."""

from __future__ import annotations

import importlib.util
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

from understudy.privacy.mechanisms.commute_prior import SizedPrior
from understudy.privacy.mechanisms.flow_draws import Block, CellUrn, ShrunkUrn
from understudy.privacy.mechanisms.place_bands import PlaceBands
from understudy.privacy.promise.event import ApproxLoss
from understudy.privacy.randomness.streams import SeededStream

TRIALS = 6_000
REJECT = 1e-6  # probability of a false alarm of one test
LOSS = ApproxLoss(epsilon=Fraction(1), delta=Fraction(1, 100), source="test")


def by_force():
    path = Path(__file__).parents[1] / "property" / "test_shrinking.py"
    spec = importlib.util.spec_from_file_location("test_shrinking_law", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def statistic(outputs, law):
    """Chi-square of observed outputs against a law, small cells merged, and its p-value."""
    keys = sorted(law, key=lambda key: float(law[key]))
    counts = dict.fromkeys(keys, 0)
    for out in outputs:
        counts[out] += 1  # KeyError: an output that cannot occur
    observed, expected, o, e = [], [], 0.0, 0.0
    for key in keys:
        o += counts[key]
        e += float(law[key]) * len(outputs)
        if e >= 8:
            observed.append(o)
            expected.append(e)
            o = e = 0.0
    if e:
        observed[-1] += o
        expected[-1] += e
    observed, expected = np.array(observed), np.array(expected)
    return float(chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1))


def table_of(rows, cells):
    return tuple(np.bincount(rows, minlength=cells).tolist())


def block(table, rows):
    filled = np.flatnonzero(table)
    return Block(
        destinations=np.array([0]),
        starts=np.array([0, len(filled)]),
        cells=filled.astype(np.int64),
        jobs=np.array(table, dtype=np.int32)[filled],
        rows=np.array([rows]),
    )


def prior_of(prior: Fraction, cells: int, size: int) -> SizedPrior:
    return SizedPrior(entries={size: (cells, prior.numerator, prior.denominator.bit_length() - 1)})


@pytest.fixture(scope="module")
def plain_draws():
    urn = CellUrn(priors=prior_of(Fraction(3, 8), 3, 4), claim=LOSS)
    stream = SeededStream(11)
    one = block((2, 0, 1), 4)
    return [table_of(urn.draw(one, np.array([3]), stream, "t", trial), 3) for trial in range(TRIALS)]


def test_cells_have_the_law_of_the_dirichlet_multinomial(plain_draws):
    force = by_force()
    assert statistic(plain_draws, force.drawn((2, 0, 1), (0, 1, 2), Fraction(3, 8), 4)) > REJECT


@pytest.mark.parametrize("factor", [Fraction(7, 10), Fraction(14, 10)])
def test_another_prior_is_noticed(plain_draws, factor):
    force = by_force()
    assert statistic(plain_draws, force.drawn((2, 0, 1), (0, 1, 2), Fraction(3, 8) * factor, 4)) < REJECT


# Places 0 and 1 near the destination (place 0) always stay; 2 and 3 are in a band where one in four does.
POINTS = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [5.0, 0.0, 0.0], [0.0, 6.0, 0.0], [0.0, 0.0, 90.0]])
KEEPS = (Fraction(1), Fraction(1), Fraction(1, 4), Fraction(1, 4))


@pytest.fixture(scope="module")
def shrunk_draws():
    urn = ShrunkUrn(
        priors=prior_of(Fraction(1, 2), 5, 3),
        claim=LOSS,
        bands=PlaceBands(points=POINTS, edges=np.array([4.0, 100.0])),
        keeps=np.array([2**32, 2**30, 0], dtype=np.uint64),
        elsewhere=False,
    )
    stream = SeededStream(12)
    one = block((1, 0, 1, 0, 0), 3)
    return [table_of(urn.draw(one, np.array([5]), stream, "t", trial), 5) for trial in range(TRIALS)]


def shrunk_law(prior=Fraction(1, 2), keeps=KEEPS):
    law = by_force().shrunk_law((1, 0, 1, 0), keeps, prior, 3)
    return {(*out, 0): chance for out, chance in law.items()}  # the place beyond the cut is never drawn


def test_lazy_shrinking_has_the_law_of_the_naive_algorithm(shrunk_draws):
    assert statistic(shrunk_draws, shrunk_law()) > REJECT


@pytest.mark.parametrize(
    ("prior", "keeps"),
    [
        (Fraction(7, 20), KEEPS),
        (Fraction(7, 10), KEEPS),
        (Fraction(1, 2), (Fraction(1), Fraction(1), Fraction(1), Fraction(1, 2))),
        (Fraction(1, 2), (Fraction(1), Fraction(1, 4), Fraction(1, 4), Fraction(1, 4))),
    ],
)
def test_another_prior_or_another_probability_is_noticed(shrunk_draws, prior, keeps):
    assert statistic(shrunk_draws, shrunk_law(prior, keeps)) < REJECT


def test_a_destination_draws_the_same_whoever_else_is_drawn():
    urn = CellUrn(priors=prior_of(Fraction(1, 4), 6, 1), claim=LOSS)

    def both(destinations, starts, cells, jobs, rows):
        made = Block(
            destinations=np.array(destinations), starts=np.array(starts), cells=np.array(cells),
            jobs=np.array(jobs, dtype=np.int32), rows=np.array(rows),
        )  # fmt: skip
        return urn.draw(made, np.full(len(rows), 6), SeededStream(3), "same")

    together = both([4, 9], [0, 1, 3], [2, 0, 5], [5, 3, 1], [5, 4])
    alone = both([9], [0, 2], [0, 5], [3, 1], [4])
    assert together[5:].tolist() == alone.tolist()
