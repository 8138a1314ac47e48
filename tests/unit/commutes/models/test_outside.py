"""Homes outside are cells of their own: who is counted where, where jobs are placed, and what is expected there."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.commutes.models.gravity import GravityTree, default_decay
from understudy.commutes.models.outside import OutsideHomes, likely_counts, parts_from
from understudy.commutes.models.regions import RingRegions
from understudy.commutes.shared.laws import Budget
from understudy.core.places import make_places
from understudy.demo.commuters import make_world
from understudy.errors import InputError, InternalError
from understudy.privacy.mechanisms.cell_estimates import Beside, OutsideShares, answered, estimate
from understudy.privacy.mechanisms.flow_mixture import SizedLaws

KEY = bytes(range(32))


@pytest.fixture(scope="module")
def places():
    inside = make_world("town", seed=4).places
    away = ["x1", "x2", "x3"]
    return make_places(
        [one.decode() for one in inside.ids.tolist()] + away,
        np.concatenate([inside.latitude, inside.latitude.mean() + np.array([0.3, 1.0, 2.0])]),
        np.concatenate([inside.longitude, np.full(3, inside.longitude.mean())]),
        areas={level: [one.decode() for one in ids.tolist()] + away for level, ids in inside.areas.items()},
        outside=np.repeat([False, True], [len(inside), 3]),
    )


def around(places, *, cells, beyond, part=0.6):
    workers = np.zeros(len(places))
    workers[np.flatnonzero(places.outside)] = [10, 70, 20]
    away = OutsideHomes.of(places, workers, np.full(len(places), part))
    everywhere = np.ones(len(places), dtype=np.int64)
    return RingRegions(
        tree=GravityTree(places), decays=default_decay()[None, :], groups=0 * everywhere, cells=cells * everywhere,
        beyond=beyond * everywhere, away=away,
    )  # fmt: skip


@pytest.mark.parametrize("cells", [2, 5, 24])
@pytest.mark.parametrize("beyond", [1, 2, 3])
def test_every_home_is_in_one_cell_and_those_outside_in_the_last(places, cells, beyond):
    regions = around(places, cells=cells, beyond=beyond)
    inside = np.flatnonzero(places.inside)
    seen = regions.around(inside[:3])
    assert seen.domains.tolist() == regions.cells_of(inside[:3]).tolist() == [cells + beyond] * 3
    everybody = np.tile(np.arange(len(places), dtype=np.int32), 3)
    found = seen.encode(np.arange(4) * len(places), everybody).reshape(3, -1)
    assert (found[:, inside] < cells).all()
    order = [1, 2, 0]  # by their workers
    ranks = np.array([order.index(number) for number in range(3)])
    assert found[:, ~places.inside].tolist() == [(cells + np.minimum(ranks, beyond - 1)).tolist()] * 3


@pytest.mark.parametrize("cells", [4, 24])
def test_jobs_are_placed_in_the_cell_that_they_were_drawn_in(places, cells):
    regions = around(places, cells=cells, beyond=2)
    here = np.flatnonzero(places.inside)[:6]
    seen, rows = regions.around(here), np.full(6, 40)
    starts = np.concatenate(([0], np.cumsum(rows)))
    drawn = np.sort(np.random.default_rng(1).integers(0, cells + 2, (6, 40)), axis=1).ravel()
    homes = seen.place(starts, drawn, KEY)
    outside = (drawn >= cells).reshape(6, -1).sum(axis=1)
    assert (~places.inside[homes]).reshape(6, -1).sum(axis=1).tolist() == outside.tolist()
    largest = np.flatnonzero(places.outside)[1]
    assert (homes == largest).reshape(6, -1).sum(axis=1).tolist() == (drawn == cells).reshape(6, -1).sum(
        axis=1
    ).tolist()
    again = seen.encode(starts, homes)
    assert (again >= cells).sum() == (drawn >= cells).sum()


def test_few_rows_are_rounded_by_chance_to_the_right_number(places):
    regions = around(places, cells=2, beyond=1)
    here = np.flatnonzero(places.inside)
    seen, starts = regions.around(here), np.arange(len(here) + 1)
    drawn = np.tile(np.repeat([0, 1, 2], [10, 9, 45]), len(here))  # 45 of 64 parts of one job each are outside
    homes = seen.place(starts, drawn, KEY, 64 * starts)
    away = (~places.inside[homes]).mean()
    assert abs(away - 45 / 64) < 4 * (0.25 / len(here)) ** 0.5


def test_nobody_drawn_inside_leaves_the_rest_to_the_model(places):
    regions = around(places, cells=2, beyond=1)
    here = np.flatnonzero(places.inside)[:1]
    believed = np.full(len(places), 0.5)
    half = RingRegions(
        **{name: getattr(regions, name) for name in RingRegions.__dataclass_fields__} | {"believed": believed}
    )
    homes = half.around(here).place(np.array([0, 1000]), np.full(1000, 2), KEY)
    assert (~places.inside[homes]).sum() in {800, 801}  # half believed: all outside; half the model: 0.6 of them
    assert len(np.unique(homes[places.inside[homes]])) > 20


def test_parts_come_from_groups_and_lean_on_the_whole():
    groups, rows = np.repeat([0, 1], 5), np.full(10, 1000)
    found = parts_from(np.array([1000.0, 4000.0]), groups, rows, 0.5)
    assert found[[0, 9]] == pytest.approx([0.2, 0.8], abs=0.01)
    leaning = parts_from(np.array([1000.0, 4000.0]), groups, rows, 5000.0, every=(5000.0, 1.0))
    assert leaning[0] == pytest.approx(leaning[9], abs=0.15)
    assert leaning.mean() == pytest.approx(0.5, abs=0.05)


def test_a_count_far_above_the_noise_is_itself_and_none_is_negative():
    found = likely_counts(np.array([1000, 5, -8]), 10.0)
    assert found[0] == pytest.approx(1000, abs=1)
    assert 0 < found[2] < found[1] < 20


def test_large_homes_outside_get_cells_where_there_are_jobs_enough():
    budget = Budget.of(Fraction(2), jobs=1, moved=2, places=500, answers=True, outside=0.5, homes=(0.6, 0.3, 0.1))
    assert [budget.cells_outside(size) for size in (1, 10, 40, 1000)] == [1, 1, 3, 3]
    assert Budget.of(Fraction(2), jobs=1, moved=2, places=500, answers=True).cells_outside(1000) == 0


SHARES = OutsideShares.of(np.full(4, 0.7), np.array([0.8, 0.2]))


def test_an_answer_is_weighed_by_what_is_expected_of_its_cell():
    """Every job by Bayes: enumerated here for one job over two rings and one cell outside."""
    prior = Fraction(1, 2)
    beside = Beside(shares=SHARES, cells=np.array([1]), level=np.array([0]))
    model = np.array([0.15, 0.15, 0.7])
    for said in range(3):
        found = answered(np.array([said]), np.array([0, 3]), np.array([1]), prior, beside)
        chance = (0.5 + (np.arange(3) == said)) / 2.5  # of saying that, by the true cell
        assert found == pytest.approx(model * chance / (model * chance).sum())


def test_noise_leaves_what_is_expected_and_jobs_leave_what_they_are():
    beside = Beside(shares=SHARES, cells=np.array([2, 2]), level=np.array([0, 0]))
    noisy, starts = np.array([3, 3, 11, 3, 20, 0, 0, 0]), np.array([0, 4, 8])
    exact = estimate(noisy, starts, np.array([20, 20]), Fraction(1, 20), balanced=False, graded=True, beside=beside)
    assert exact[:4] == pytest.approx(np.array([3, 3, 11, 3]) / 20, abs=0.01)
    vague = estimate(noisy, starts, np.array([20, 20]), Fraction(500), balanced=False, graded=True, beside=beside)
    assert vague[4:] == pytest.approx([0.15, 0.15, 0.56, 0.14], abs=0.03)


def test_laws_state_their_cells_outside():
    laws = SizedLaws(entries={1: (0, 3), 10: (2, 8)}, outside={1: 1, 10: 4})
    assert SizedLaws.from_json(laws.to_json()) == laws
    assert laws.outside_of(np.array([1, 9, 10, 500])).tolist() == [1, 1, 4, 4]
    with pytest.raises(InputError):
        SizedLaws.from_json(laws.to_json() | {"cells_outside": [0, 4]})


LONG = ({"mechanism": "geometric"}, {"cut_miles": "10"}, {"flow_share": "0.3"}, {"decay_share": "0", "home_share": "0"})


@pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
@pytest.mark.parametrize(
    "options", [{}, {"mechanism": "urn"}, *(pytest.param(one, marks=pytest.mark.full) for one in LONG)]
)
def test_every_law_keeps_the_jobs_and_can_be_verified(places, options, tmp_path):
    rng = np.random.default_rng(2)
    inside, outside = np.flatnonzero(places.inside), np.flatnonzero(places.outside)
    origins = np.where(
        rng.random(3000) < 0.6, outside[rng.choice(3, 3000, p=[0.1, 0.7, 0.2])], rng.choice(inside, 3000)
    )
    destinations = rng.choice(inside[:60], 3000)
    rows = {"origin": places.id_texts(origins), "destination": places.id_texts(destinations)}
    source = us.open_commutes(pa.table(rows), places=places)
    budget = us.ApproxDP(epsilon=4, delta="1e-5")
    release = us.synthesize(source, method="commute", budget=budget, out=tmp_path / "r", **options)
    assert [check.name for check in us.verify(tmp_path / "r") if not check.passed] == []
    homes, there, jobs = release.coded()
    assert np.bincount(there, jobs, len(places)).tolist() == np.bincount(destinations, minlength=len(places)).tolist()
    away = jobs[(homes >= 0) & ~places.inside[homes]].sum() / 3000
    # The prior of an urn is the same in every cell, so it draws towards as many jobs outside as there are cells.
    assert abs(away - 0.6) < (0.25 if "mechanism" in options else 0.1)


@pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
def test_a_division_that_does_not_count_its_cells_outside_draws_nothing(places, monkeypatch):
    """A prior for fewer cells than are drawn over would promise too much."""
    inside = np.flatnonzero(places.inside)
    rows = {"origin": places.id_texts(inside[:40]), "destination": places.id_texts(inside[40:80])}
    source = us.open_commutes(pa.table(rows), places=places)
    counted = RingRegions.cells_of
    monkeypatch.setattr(RingRegions, "cells_of", lambda self, there: counted(self, there) - self.beyond[there])
    with pytest.raises(InternalError, match="other cells than the draw was charged for"):
        us.synthesize(source, method="commute", budget=us.ApproxDP(epsilon=4, delta="1e-5"), mechanism="urn")
