"""The method ``commute`` is attacked: sound it must pass, with exactly half its prior it must be caught.

Every destination is a trial. It has one job, and a coin says in which of two cells that worker lives: with one record
and one row drawn the Dirichlet draw reaches its loss, ln(1 + 1/a). The attacker knows everything but the coins, sees
the released table and guesses for each destination the cell in which its synthetic worker lives. Draws of different
destinations are independent, so one whole run of the method (plan, gate, measuring distances, drawing, placing, the
written table) gives thousands of trials. The fault, half the prior in every urn while all of it is charged and stated,
is one that accounting cannot see. A sound method is accused with probability at most 1e-5 in each test.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.auditing.sampled_audit import epsilon_lower_bound
from understudy.commutes.shared import laws
from understudy.core.places import make_places
from understudy.errors import BudgetError
from understudy.privacy.mechanisms import urn_compiled
from understudy.privacy.mechanisms.commute_prior import SizedPrior
from understudy.privacy.mechanisms.flow_mixture import LAWS
from understudy.privacy.randomness.keyed_noise import ListedCells
from understudy.privacy.randomness.streams import SeededStream

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
EPSILON, DELTA, FALSE_ALARM = 1.5, 1e-5, 1e-5
TRIALS = 6_000
FAR_HOMES = {"rings": 28}  # most of the farthest ring; an area holds the whole far side
NEAR_PEOPLE, FAR_PEOPLE = 27, 10_000  # with the fixed decay both sides pull about alike, and rings end between them
SETTINGS = {
    "areas": {"coarsen": "area:side"},
    "areas by distance": {"coarsen": "areas:side:3,half"},
    "rings": {"blend": "none", "decay_share": "0", "home_share": "0", "mechanism": "urn"},
    "pure": {"coarsen": "area:side", "budget": us.PureDP(epsilon="1.5")},
}


class World:
    """Destinations in the middle, and homes to the near side and to the far side of them, which may lie outside."""

    def __init__(self, *, surrounded: bool = False) -> None:
        near, far = np.arange(40), np.arange(40)
        latitude = np.concatenate([np.full(TRIALS, 41.0), 41.02 + near / 4000, 41.6 + far / 4000])
        longitude = np.concatenate([-71.0 + np.arange(TRIALS) / 4e6, np.full(80, -71.0)])
        count = len(latitude)
        self.ids = np.array([f"p{number:05d}" for number in range(count)])
        sides = ["s"] * (TRIALS + 40) + ["t"] * 40
        people = np.concatenate([np.zeros(TRIALS), np.full(40, NEAR_PEOPLE), np.full(40, FAR_PEOPLE)]).astype(np.int64)
        self.places = make_places(
            self.ids, latitude, longitude, areas={"half": ["w"] * (TRIALS + 40) + ["e"] * 40, "side": sides},
            population=people, outside=np.arange(count) >= TRIALS + 40 if surrounded else None,
        )  # fmt: skip
        self.coins = np.random.default_rng(17).integers(0, 2, TRIALS).astype(bool)
        homes = np.where(self.coins, TRIALS + 79, TRIALS)  # the farthest home of all, or the nearest
        pairs = {"origin": self.ids[homes], "destination": self.ids[:TRIALS], "jobs": np.ones(TRIALS, np.int64)}
        self.source = us.open_commutes(pa.table(pairs), places=self.places)

    def guesses(self, release, far_homes) -> np.ndarray:
        """Whether each destination's synthetic worker lives in one of so many farthest homes."""
        origins, destinations, jobs = release.coded(1)
        assert (jobs == 1).all()
        found = np.empty(TRIALS, bool)
        found[destinations] = origins >= TRIALS + 80 - far_homes
        return found


@pytest.fixture(scope="module")
def world():
    return World()


@pytest.fixture(scope="module")
def surrounded():
    return World(surrounded=True)


def shown(world, setting, seed):
    """A lower bound of epsilon from one run, whichever way round the guess tells more."""
    options = {"budget": us.ApproxDP(epsilon=str(EPSILON), delta=str(DELTA)), **SETTINGS[setting]}
    release = us.synthesize(world.source, method="commute", stream=SeededStream(seed), **options)
    guess, coins = world.guesses(release, FAR_HOMES.get(setting, 40)), world.coins
    hits, members = int(guess[coins].sum()), int(coins.sum())
    alarms, others = int(guess[~coins].sum()), int((~coins).sum())
    return epsilon_lower_bound(hits, members, alarms, others, delta=DELTA, alpha=FALSE_ALARM)


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_claim_survives_an_attack(world, setting):
    seen = shown(world, setting, 3)
    assert 0.5 < seen <= EPSILON  # the attack finds most of what is there, and no more than is claimed


@pytest.mark.parametrize("setting", SETTINGS)
def test_half_the_prior_in_the_urn_is_caught(world, setting, monkeypatch):
    """Everything that can be asked says the right prior; the loop that draws uses half of it."""
    honest = urn_compiled.urns

    def halved(starts, cells, prefix, domains, weights, shifts, *rest):  # a loop takes its arguments by position
        honest(starts, cells, prefix, domains, weights, shifts + 1, *rest)

    monkeypatch.setattr(urn_compiled, "urns", halved)
    seen = shown(world, setting, 4)
    assert EPSILON < seen <= math.log(2 * math.exp(EPSILON) - 1)  # what half the prior loses


BY_SIZE = ("answers", "balanced")


def forced(monkeypatch, law):
    """One law over two rings for all sizes, whatever is better."""
    monkeypatch.setattr(laws, "best_law", lambda size, budget: (LAWS.index(law), 2))
    monkeypatch.setitem(SETTINGS, law, {"blend": "none", "decay_share": "0", "home_share": "0"})
    monkeypatch.setitem(FAR_HOMES, law, 28)


@pytest.mark.parametrize("law", BY_SIZE)
def test_a_law_by_size_survives_an_attack(world, law, monkeypatch):
    forced(monkeypatch, law)
    assert 0.5 < shown(world, law, 5) <= EPSILON


@pytest.mark.parametrize("law", BY_SIZE)
def test_half_the_noise_of_a_law_by_size_is_caught(world, law, monkeypatch):
    """Stated and charged as it should be; what draws answers or noise takes half."""
    forced(monkeypatch, law)
    answers, balanced = urn_compiled.answers, ListedCells.balanced
    monkeypatch.setattr(
        urn_compiled,
        "answers",
        lambda a, b, c, d, weight, shift, *rest: answers(a, b, c, d, weight, shift + np.uint64(1), *rest),
    )
    monkeypatch.setattr(ListedCells, "balanced", lambda cells, scale, *purpose: balanced(cells, scale / 2, *purpose))
    assert EPSILON < shown(world, law, 6) <= 2 * EPSILON


OUTSIDE = ("answers", "urn")


def surrounded_setting(monkeypatch, law):
    """Some workers live outside, in cells beside the rings; the attacker looks whether a synthetic one lives there."""
    options = {"decay_share": "0", "home_share": "0", "blend": "none"}
    monkeypatch.setitem(SETTINGS, "outside", options if law == "answers" else {**options, "mechanism": "urn"})


@pytest.mark.parametrize("law", OUTSIDE)
def test_the_claim_survives_an_attack_on_homes_outside(surrounded, law, monkeypatch):
    surrounded_setting(monkeypatch, law)
    assert 1.0 < shown(surrounded, "outside", 7) <= EPSILON


@pytest.mark.parametrize("law", OUTSIDE)
def test_half_the_noise_is_caught_where_homes_are_outside(surrounded, law, monkeypatch):
    surrounded_setting(monkeypatch, law)
    answers, urns = urn_compiled.answers, urn_compiled.urns
    monkeypatch.setattr(
        urn_compiled,
        "answers",
        lambda a, b, c, d, weight, shift, *rest: answers(a, b, c, d, weight, shift + np.uint64(1), *rest),
    )
    monkeypatch.setattr(
        urn_compiled, "urns", lambda a, b, c, d, weights, shifts, *rest: urns(a, b, c, d, weights, shifts + 1, *rest)
    )
    assert EPSILON < shown(surrounded, "outside", 8) <= 2 * EPSILON


@pytest.mark.parametrize("setting", SETTINGS)
def test_half_the_prior_is_not_drawn_with(world, setting, monkeypatch):
    """A prior that was calibrated wrong is refused where it would be drawn with: its cost is that of the draw."""
    honest = SizedPrior.of

    def halved(self, sizes):
        cells, weights, shifts = honest(self, sizes)
        return cells, weights, shifts + 1

    monkeypatch.setattr(SizedPrior, "of", halved)
    with pytest.raises(BudgetError, match="costs more than"):
        shown(world, setting, 4)
