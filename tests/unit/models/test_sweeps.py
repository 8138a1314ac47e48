"""Sweeps over noisy tables: near-deterministic sequences are fitted, whatever the budget and the number of people."""

import numpy as np
import pytest

import understudy as us
from understudy.core.measurement import Measurement
from understudy.models import fit as fitting
from understudy.models.fit import ACCEPTED, build_tree, fit, layout, problem_for, tables_of
from understudy.models.sweeps import _change
from understudy.privacy.mechanisms.noise import DiscreteGaussian
from understudy.privacy.randomness.streams import SeededStream

COLUMNS, LEVELS = 16, 18
NAMES = tuple(f"v{place:02}" for place in range(COLUMNS))
SCHEMA = us.Schema(attributes=tuple(us.Attribute(name=name, levels=tuple(range(LEVELS))) for name in NAMES))


def expected_pairs():
    """Shares of all pairs one and two steps apart, of a chain that stays where it is or ends, and then stays ended."""
    generator = np.random.default_rng(3)
    step = 0.6 * np.eye(LEVELS - 1) + 0.4 * generator.dirichlet(np.full(LEVELS - 1, 0.2), LEVELS - 1)
    ends = generator.uniform(0.1, 0.6, LEVELS - 1)
    law = np.zeros((LEVELS, LEVELS))
    law[:-1, :-1], law[:-1, -1], law[-1, -1] = step * (1 - ends)[:, None], ends, 1.0
    now = np.append(generator.dirichlet(np.full(LEVELS - 1, 0.5)), 0.0)
    found = {}
    for place in range(COLUMNS - 1):
        found[NAMES[place : place + 2]] = now[:, None] * law
        if place < COLUMNS - 2:
            found[NAMES[place], NAMES[place + 2]] = now[:, None] * (law @ law)
        now = now @ law
    return found


def measured(people, deviation, seed):
    generator = np.random.default_rng(seed)
    noise = DiscreteGaussian(scale=deviation)
    found = []
    for margin, share in expected_pairs().items():
        counts = np.rint(people * share).astype(np.int64)
        noisy = counts + np.rint(generator.normal(0, deviation, counts.shape)).astype(np.int64)
        found.append(Measurement(margin=margin, values=noisy, mechanism=noise, label=" x ".join(margin)))
    return found


# Twenty-nine tables under epsilon 1, 10 and 100 with delta 1e-9: deviations of about 30, 4 and 0.7.
@pytest.mark.parametrize(
    ("people", "deviation"),
    [(100_000, 30), (1_000_000, 30), (100_000, 4), pytest.param(1_000_000, 0.7, marks=pytest.mark.full)],
)
def test_near_deterministic_sequences_are_fitted(people, deviation):
    data = measured(people, deviation, seed=people)
    model, report = fit(SCHEMA, data, total=float(people), stream=SeededStream(1))
    assert report.settled or report.residual <= ACCEPTED
    assert not report.warnings
    assert report.stronger == 1
    assert report.iterations <= 100
    shares = expected_pairs()
    errors = [np.abs(model.project(margin) / people - share).sum() / 2 for margin, share in shares.items()]
    independent = [
        np.abs(share - np.outer(share.sum(axis=1), share.sum(axis=0))).sum() / 2 for share in shares.values()
    ]
    assert max(errors) < 0.05
    assert max(independent) > 0.3  # so there was something to fit


@pytest.mark.full
def test_a_weight_too_small_to_fit_with_is_raised_and_that_is_said(monkeypatch):
    data = measured(1_000_000, 4.0, seed=5)[:7]
    model, report = fit(SCHEMA, data, total=1e6, prior=3.0, settled=0.0)
    assert report.stronger > 1
    assert report.prior == pytest.approx(3.0 * report.stronger, rel=0.01)
    assert report.residual <= ACCEPTED or report.warnings
    assert report.notes
    assert model.project(NAMES[:1]).sum() == pytest.approx(1e6)
    monkeypatch.setattr(fitting, "MOST_STRONGER", 0)
    _, stopped = fit(SCHEMA, data, total=1e6, prior=3.0, settled=0.0)
    assert stopped.residual > ACCEPTED
    assert stopped.warnings


def test_one_sweep_fits_tables_of_a_tree_that_agree():
    neighbours = [NAMES[place : place + 2] for place in range(COLUMNS - 1)]
    noise, shares = DiscreteGaussian(scale=1), expected_pairs()
    exact = [
        Measurement(margin=pair, values=np.rint(1e9 * shares[pair]).astype(np.int64), mechanism=noise, label="a pair")
        for pair in neighbours
    ]
    noisy = layout(tables_of(exact, {}))
    problem = problem_for(SCHEMA, build_tree(SCHEMA, noisy.margins), noisy, 1e9)
    beliefs = problem.solve(noisy.values, noisy.noise, 1e9, 1.0, max_iterations=5).beliefs
    found = problem.expected(beliefs)
    assert np.abs(found - noisy.values / 1e9).max() < 1e-6


def test_the_step_solves_its_equation_and_keeps_the_number_of_records():
    expected, pulled = np.array([3.0, 50.0, 1e-3, 2.0, 0.0]), np.array([7.0, 44.0, 4.0, -90.0, 5.0])
    change = _change(expected, pulled, 2.0)
    assert (expected * np.exp(change)).sum() == pytest.approx(expected.sum())
    shift = pulled[:3] - (expected[:3] * np.exp(change[:3]) + 2.0 * change[:3])
    assert np.ptp(shift) == pytest.approx(0.0, abs=1e-6)
    assert change[3] == -30.0  # as far as one step goes; the rest is for the next
    assert change[4] == 0.0  # structural zeros stay
