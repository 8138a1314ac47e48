"""The laws that a destination gets by its size: exactly what is claimed, in both directions, and no dearer."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import betabinom, chi2

from understudy.core.places import DESTINATION
from understudy.errors import BudgetError
from understudy.privacy.mechanisms.cell_estimates import CONCENTRATIONS, estimate, guesses, noise_law
from understudy.privacy.mechanisms.draw_facts import FlowFacts
from understudy.privacy.mechanisms.flow_draws import Block
from understudy.privacy.mechanisms.flow_mixture import ANSWERS, BALANCED, NOISE, MixedCells, SizedLaws
from understudy.privacy.mechanisms.ring_division import cell_shares
from understudy.privacy.promise.definition import Unit
from understudy.privacy.promise.event import PureLoss
from understudy.privacy.randomness.keyed_noise import ListedCells
from understudy.privacy.randomness.streams import SeededStream

LISTS, CELLS = 20_000, 3
SCALE, PRIOR = Fraction(3, 2), Fraction(3, 8)
REJECT = 1e-6
CLAIM = PureLoss(epsilon=Fraction(2), source="test")
FIXED = Unit(kind="replace", fixed=(DESTINATION,))


def p_value(outputs, law):
    """Chi-square of rows of whole numbers against a law, rare ones taken together."""
    rows, counts = np.unique(outputs, axis=0, return_counts=True)
    seen = {tuple(row): int(count) for row, count in zip(rows.tolist(), counts, strict=True)}
    listed = {key: chance * len(outputs) for key, chance in law.items() if chance * len(outputs) >= 8}
    observed = np.array([seen.get(key, 0) for key in listed] + [0.0])
    expected = np.array([*listed.values(), 0.0])
    observed[-1], expected[-1] = len(outputs) - observed.sum(), len(outputs) - expected.sum()
    kept = expected > 0
    return chi2.sf(((observed - expected)[kept] ** 2 / expected[kept]).sum(), kept.sum() - 1)


def balanced_law(scale, cells=CELLS, reach=40):
    lists = [(*free, -sum(free)) for free in itertools.product(range(-reach, reach + 1), repeat=cells - 1)]
    weights = {one: math.exp(-sum(map(abs, one)) / scale) for one in lists}
    total = sum(weights.values())
    return {one: weight / total for one, weight in weights.items()}


@pytest.fixture(scope="module")
def balanced_noise():
    listed = ListedCells(SeededStream(3), np.arange(LISTS), np.full(LISTS, CELLS))
    return listed.balanced(SCALE, "t").reshape(LISTS, CELLS)


@pytest.mark.parametrize(("times", "holds"), [(1, True), (0.7, False), (1.4, False)])
def test_balanced_noise_has_its_law(balanced_noise, times, holds):
    assert (balanced_noise.sum(axis=1) == 0).all()
    assert (p_value(balanced_noise, balanced_law(float(SCALE) * times)) > REJECT) == holds


def test_the_noise_of_a_list_does_not_depend_on_the_others(balanced_noise):
    some = ListedCells(SeededStream(3), np.arange(40, 60), np.full(20, CELLS)).balanced(SCALE, "t")
    assert np.array_equal(some.reshape(20, CELLS), balanced_noise[40:60])


def test_balanced_noise_loses_what_its_scale_says():
    """Every output, every pair of neighbours that have the same total: at most 2 / scale, and that is reached."""
    law = balanced_law(float(SCALE), reach=20)
    near = [one for one in law if max(map(abs, one)) <= 8]
    worst = max(
        abs(math.log(law[one] / law[moved]))
        for one in near
        for moved in [(one[0] + 1, one[1] - 1, one[2]), (one[0], one[1] + 1, one[2] - 1)]
    )
    assert worst == pytest.approx(2 / float(SCALE))


def mixture(law, **changed):
    given = {"laws": SizedLaws(entries={1: (law, CELLS)}), "prior": PRIOR, "scale": SCALE, "claim": CLAIM}
    return MixedCells(**given | changed)


def many(table):
    """The same records at many destinations."""
    filled = np.flatnonzero(table)
    return Block(
        destinations=np.arange(LISTS),
        starts=np.arange(LISTS + 1) * len(filled),
        cells=np.tile(filled, LISTS).astype(np.int64),
        jobs=np.tile(np.array(table, np.int32)[filled], LISTS),
        rows=np.full(LISTS, sum(table)),
    )


def answer_law(table, prior):
    """All tables of answers, each job by itself."""
    law: dict[tuple[int, ...], float] = {(0,) * CELLS: 1.0}
    for cell, count in enumerate(table):
        for _ in range(count):
            following: dict[tuple[int, ...], float] = {}
            for found, chance in law.items():
                for answer in range(CELLS):
                    ball = ((answer == cell) + prior) / (1 + CELLS * prior)
                    key = tuple(number + (at == answer) for at, number in enumerate(found))
                    following[key] = following.get(key, 0.0) + chance * ball
            law = following
    return law


@pytest.fixture(scope="module")
def answers():
    drawn = mixture(ANSWERS).draw(many((2, 0, 1)), np.full(LISTS, CELLS), SeededStream(5), "t")
    return np.stack([(drawn.reshape(LISTS, 3) == cell).sum(axis=1) for cell in range(CELLS)], axis=1)


@pytest.mark.parametrize(("times", "holds"), [(1, True), (0.7, False), (1.4, False)])
def test_answers_have_their_law(answers, times, holds):
    assert (p_value(answers, answer_law((2, 0, 1), float(PRIOR) * times)) > REJECT) == holds


def test_answers_lose_what_their_prior_says():
    """All tables of three jobs and all neighbours, by enumeration: at most ln(1 + 1/a), and that is reached."""
    tables = [table for table in itertools.product(range(4), repeat=CELLS) if sum(table) == 3]
    laws = {table: answer_law(table, float(PRIOR)) for table in tables}
    worst = max(
        abs(math.log(laws[one][output] / laws[other][output]))
        for one in tables
        for other in tables
        if sum(abs(a - b) for a, b in zip(one, other, strict=True)) == 2
        for output in laws[one]
    )
    assert worst == pytest.approx(math.log1p(1 / float(PRIOR)))


def facts(unit=FIXED, rows=(4, 9), records=(4, 9)):
    return FlowFacts(
        unit=unit, destinations=np.arange(len(rows)), rows=np.array(rows), cells=np.full(len(rows), CELLS),
        records=None if records is None else np.array(records),
    )  # fmt: skip


def test_the_dearest_law_is_what_is_charged():
    assert mixture(ANSWERS).event_for(facts()) == CLAIM  # ln(1 + 8/3) = 1.3
    assert mixture(BALANCED).event_for(facts()) == CLAIM
    cheaper = {
        ANSWERS: {"prior": Fraction(1, 8)},
        BALANCED: {"scale": Fraction(15, 16)},
        NOISE: {"scale": Fraction(15, 16)},
    }
    for law, less in cheaper.items():  # beside another law that keeps the claim
        other = BALANCED if law == ANSWERS else ANSWERS
        both = SizedLaws(entries={1: (other, CELLS), 9: (law, CELLS)})
        with pytest.raises(BudgetError, match="more than the 2"):
            mixture(law, laws=both, **less).event_for(facts())
    two_jobs = replace(FIXED, rows_per_unit=2)
    with pytest.raises(BudgetError):
        mixture(BALANCED).event_for(facts(two_jobs))
    with pytest.raises(BudgetError):
        mixture(ANSWERS).event_for(facts(two_jobs))


def test_what_tells_a_size_needs_it_to_be_public():
    private = facts(Unit(kind="replace"), records=None)
    assert mixture(NOISE).event_for(private) == CLAIM
    for law in (ANSWERS, BALANCED):
        with pytest.raises(BudgetError, match="must be public"):
            mixture(law).event_for(private)
    with pytest.raises(BudgetError, match="every job"):
        mixture(ANSWERS).event_for(facts(rows=(4, 8)))


def test_a_stated_mixture_is_read_back():
    made = mixture(BALANCED, laws=SizedLaws(entries={1: (ANSWERS, 3), 5: (BALANCED, 6), 40: (NOISE, 24)}))
    assert MixedCells.from_json(made.to_json(), CLAIM) == made


@pytest.mark.parametrize("share", [1 / 3, 0.1])
@pytest.mark.parametrize("balanced", [True, False])
def test_guesses_are_means_given_the_noisy_count(balanced, share):
    size, cells = 5, 3
    noise = noise_law(SCALE, cells, balanced)
    reach = len(noise) // 2
    if balanced:
        law = balanced_law(float(SCALE))
        alone = sum(chance for one, chance in law.items() if one[0] == 2)
        assert noise[reach + 2] == pytest.approx(alone, rel=1e-6)
    found = guesses(size, cells, SCALE, balanced, share)
    for number, concentration in enumerate(CONCENTRATIONS):
        prior = betabinom.pmf(np.arange(size + 1), size, concentration * share, concentration * (1 - share))
        for noisy in (-3, 0, 4):
            joint = np.array([prior[count] * noise[reach + noisy - count] for count in range(size + 1)])
            at = noisy - found.least
            assert found.likely[number, at] == pytest.approx(math.log(joint.sum()), abs=1e-9)
            assert found.expected[number, at] == pytest.approx((joint * np.arange(size + 1)).sum() / joint.sum())


def test_cells_of_graded_rings_are_guessed_by_their_own_share():
    """Noise that hides everything leaves the shares of the model; hardly any noise leaves the counts."""
    cells, rows = 14, np.array([200])
    shares = cell_shares(cells, True)
    counts = np.rint(rows[0] * shares[::-1]).astype(np.int64)
    starts = np.array([0, cells])
    hidden = estimate(counts, starts, rows, Fraction(1_000), balanced=False, graded=True)
    assert hidden == pytest.approx(shares, abs=0.002)
    told = estimate(counts, starts, rows, Fraction(1, 20), balanced=False, graded=True)
    assert told == pytest.approx(counts / counts.sum(), abs=0.002)
