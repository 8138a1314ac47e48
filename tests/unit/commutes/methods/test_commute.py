"""The method commute: its settings, what it refuses, and what its divisions and priors are."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.commutes.models.decay import BANDS, band_middles, band_of, fit_decays
from understudy.commutes.models.gravity import GravityTree, decay_from, knots
from understudy.commutes.models.nested_areas import AreaStep, NestedAreas
from understudy.commutes.models.regions import AreaRegions, PlaceRegions, RingRegions
from understudy.commutes.shared import area_flows
from understudy.commutes.shared.area_flows import FLOWS_LABEL
from understudy.core.places import make_places
from understudy.demo.commuters import make_world
from understudy.errors import BudgetError, InputError, UnderstudyError, UnsupportedError
from understudy.privacy.exact.dirichlet_profile import PriorShape, delta
from understudy.privacy.mechanisms.commute_prior import PriorRule, SizedPrior, size_step
from understudy.privacy.mechanisms.ring_division import usable_cells
from understudy.privacy.promise.definition import Unit
from understudy.privacy.promise.event import ApproxLoss, PureLoss
from understudy.privacy.randomness.streams import SeededStream

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
BUDGET = us.ApproxDP(epsilon=2, delta="1e-5")
LOSS = ApproxLoss(epsilon=Fraction(2), delta=Fraction(1, 10**5), source="test")


@pytest.fixture(scope="module")
def world():
    return make_world("town", seed=2)


def make(source, **change):
    return us.synthesize(source, **{"method": "commute", "budget": BUDGET, "stream": SeededStream(1), **change})


def commutes(places, pairs):
    columns = {"origin": [], "destination": [], "jobs": []}
    for origin, destination, jobs in pairs:
        columns["origin"].append(places.ids[origin].decode())
        columns["destination"].append(places.ids[destination].decode())
        columns["jobs"].append(jobs)
    return us.open_commutes(pa.table(columns), places=places)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"coarsen": "squares"}, "coarsen"),
        ({"rule": "guess"}, "rule"),
        ({"mechanism": "magic"}, "mechanism"),
        ({"coarsen": "none", "shrink": "10:0"}, "above 0"),
        ({"coarsen": "none", "shrink": "10:1.5"}, "at most 1"),
        ({"coarsen": "none", "shrink": "10:-1"}, "above 0"),
        ({"coarsen": "none", "shrink": "10"}, "pairs"),
        ({"coarsen": "none", "shrink": "10:1,5:0.5"}, "increase"),
        ({"shrink": "10:0.5"}, "single places"),
        ({"coarsen": "none", "shrink": "10:0.5", "rule": "accept_reject"}, "no guarantee together"),
        ({"coarsen": "none", "mechanism": "geometric"}, "hide everything"),
        ({"cut_miles": "-3"}, "positive"),
        ({"decay_share": "1"}, "below 1"),
        ({"decay_share": "0.6", "home_share": "0.4"}, "must leave something of 1 for the draw"),
        ({"decay_share": "0.4", "home_share": "0.4", "unit": us.Unit()}, "leave nothing for the draws"),
        ({"decay_share": "0.4", "flow_share": "0.6"}, "must leave something of 1 for the draw"),
        ({"flow_share": "0.3", "coarsen": "area:tract"}, "coarsen=rings"),
        ({"flow_share": "0.3", "rule": "theorem", "budget": us.NonPrivate()}, "leave flow_share out"),
        ({"coarsen": "area:village"}, "level"),
        ({"coarsen": "areas:place:2,village"}, "level"),
        ({"coarsen": "areas:tract:2,place"}, "finest"),
        ({"coarsen": "areas:"}, "LEVEL:MILES"),
        ({"coarsen": "areas:place,tract"}, "LEVEL:MILES"),
        ({"coarsen": "areas:place:1,tract:4"}, "LEVEL:MILES"),
        ({"coarsen": "areas::1,tract"}, "LEVEL:MILES"),
        ({"coarsen": "areas:tract"}, "area:tract"),
        ({"coarsen": "areas:place:4,tract:4,county"}, "increase"),
        ({"coarsen": "areas:place:0,tract"}, "positive"),
        ({"coarsen": "areas:place:x,tract"}, "distance of coarsen"),
        ({"coarsen": "areas:county:1,tract"}, "one area only"),
        ({"coarsen": "areas:tract:1,tract"}, "once"),
        ({"coarsen": "areas:place:1,tract", "rule": "theorem"}, "rule=exact"),
        ({"decay_level": "village"}, "level"),
        ({"suppress_as_published": True}, "no theorem covers"),
        ({"budget": us.NonPrivate()}, "rule=theorem"),
        ({"budget": us.ZCDP(rho=1)}, "does not offer"),
        ({"rows": 5}, "leave rows out"),
        ({"unit": us.Unit(fixed=("origin",))}, "destination"),
        ({"unit": us.Unit(), "rule": "theorem"}, "private destinations"),
        ({"unit": us.Unit(), "coarsen": "none", "shrink": "10:0.5"}, "private destinations"),
        ({"unit": us.Unit(rows_per_unit=2, fixed=("destination",)), "coarsen": "none", "shrink": "9:1"}, "one job"),
        ({"no_such": 1}, "option"),
    ],
)
def test_settings_that_cannot_be_kept_are_refused_when_planning(world, options, says):
    with pytest.raises(UnderstudyError, match=says):
        us.plan(world.places, **{"method": "commute", "budget": BUDGET, **options})


def test_a_plan_is_made_from_places_alone_and_names_the_unit(world):
    plan = us.plan(world.places, method="commute", budget=BUDGET)
    assert plan.hash == us.plan(world.places, method="commute", budget=BUDGET).hash
    assert plan.unit.fixed == ("destination",)
    assert any("unit is a job" in note for note in plan.notes)
    assert [step.action for step in plan.steps] == ["measure", "measure", "measure", "draw"]


def test_flows_need_areas_and_not_too_many_pairs(world, monkeypatch):
    bare = make_places(["a", "b", "c"], [41.0, 41.1, 41.2], [-71.0, -71.1, -71.2])
    with pytest.raises(InputError, match="no areas"):
        us.plan(bare, method="commute", budget=BUDGET, flow_share="0.2")
    monkeypatch.setattr(area_flows, "DENSE_CELLS", 3)
    with pytest.raises(UnsupportedError, match="too many for flow_share"):
        us.plan(world.places, method="commute", budget=BUDGET, flow_share="0.2")


def test_measured_flows_come_back_in_the_release(world, tmp_path):
    """Homes of the workers of an area are where they were measured, beside what the rings of each workplace say."""
    places = world.places
    _, tract = np.unique(places.areas["tract"], return_inverse=True)
    source = us.open_commutes(world.flows_table(), places=places)

    def flows(pairs):
        return np.bincount(tract[pairs[0]] * len(tract) + tract[pairs[1]], pairs[2], len(tract) ** 2)

    true = flows(source.flows().confidential_pairs())
    off = {}
    for part in ("0", "0.4"):
        release = make(source, flow_share=part, out=tmp_path / part, budget=us.PureDP(epsilon=6))
        assert [check.name for check in us.verify(tmp_path / part) if not check.passed] == []
        assert [one.label == FLOWS_LABEL for one in release.measurements].count(True) == int(part != "0")
        drawn = release.coded()
        assert np.bincount(drawn[1], drawn[2], len(places)).tolist() == source.flows().sizes().tolist()
        off[part] = np.abs(flows(drawn) - true).sum() / 2 / true.sum()
    assert off["0.4"] < off["0"]


@pytest.mark.parametrize("jobs", [1, 2, 5_000_000])
def test_destinations_of_any_size(jobs):
    places = make_places(
        [f"{n:02d}" for n in range(30)], 41 + np.arange(30) * 0.01, [-71.0] * 30, areas={"county": ["a", "b"] * 15}
    )
    release = make(commutes(places, [(3, 4, jobs)]), decay_share="0")
    assert release.coded()[2].sum() == jobs


def test_no_jobs_at_all_gives_an_empty_table():
    places = make_places(["a", "b", "c"], [41.0, 41.1, 41.2], [-71.0] * 3)
    assert make(commutes(places, [(0, 1, 0)])).flows().num_rows == 0


def test_an_impossible_shrinking_is_refused_before_the_charge(world, tmp_path):
    source = us.open_commutes(world.flows_table(), places=world.places)
    with pytest.raises((UnsupportedError, BudgetError)):
        us.synthesize(
            source, method="commute", budget=us.ApproxDP(epsilon="0.5", delta="1e-5"), out=tmp_path / "r",
            coarsen="none", shrink="50:0.01",
        )  # fmt: skip
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_the_published_method_runs_without_a_guarantee_and_says_what_it_claims(world):
    source = us.open_commutes(world.flows_table().slice(0, 300), places=world.places)
    release = make(
        source, budget=us.NonPrivate(), rule="theorem", coarsen="none", shrink="3:1,8:0.0378",
        suppress_as_published=True,
    )  # fmt: skip
    assert any("8.569" in note for note in release.provenance.notes)
    origins, destinations, _ = release.coded()
    assert (origins >= 0).all()
    assert world.places.miles(origins, destinations).max() <= 8.01


def test_workers_beyond_the_cut_are_elsewhere(world):
    release = make(us.open_commutes(world.flows_table(), places=world.places), cut_miles="3")
    origins, destinations, jobs = release.coded()
    inside = origins >= 0
    assert world.places.miles(origins[inside], destinations[inside]).max() < 6  # a node's places, not its centre
    assert 0 < jobs[~inside].sum() < jobs.sum()
    assert "elsewhere" in release.flows()["origin"].to_pylist()


# -- priors ----------------------------------------------------------------------------------------------------------


def test_steps_of_sizes_cover_every_size_once():
    ends = 0
    while ends < 3000:
        least, most = size_step(ends + 1)
        assert least == ends + 1
        assert size_step(most) == (least, most)
        assert most <= least * 1.04 + 1
        ends = most


@pytest.mark.parametrize("size", [1, 2, 3, 7, 30, 200, 5000])
def test_the_prior_of_a_size_keeps_delta_for_the_whole_step(size):
    priors = PriorRule(loss=LOSS, usable=lambda cells: int(usable_cells(np.array([cells]))[0])).table(np.array([size]))
    cells = int(priors.of(np.array([size]))[0][0])
    prior = float(priors.prior(size))
    times = int(priors.times_of(np.array([size]))[0])
    for records in size_step(size):
        assert delta(PriorShape.symmetric(prior, cells, records * times), records, Unit(), 2.0) <= 1e-5
    assert delta(PriorShape.symmetric(prior / 1.5, cells, size * times), size, Unit(), 2.0) > 1e-5
    assert cells * prior <= size / 4 * 1.01 or cells == 2 or (cells == 3 and cells * prior <= size * 2 / 3)


def test_a_pure_prior_is_theorem_4_1():
    rule = PriorRule(loss=PureLoss(epsilon=Fraction(2), source="test"))
    assert float(rule.table(np.array([10])).prior(10)) == pytest.approx(10 / np.expm1(2), rel=1e-4)


def test_priors_survive_a_manifest():
    priors = PriorRule(loss=LOSS).table(np.array([1, 4, 90]))
    again = SizedPrior.from_json(priors.to_json())
    assert again.entries == dict(priors.entries)
    assert again.times_of(np.array([4, 90])).tolist() == priors.times_of(np.array([4, 90])).tolist() == [1, 2]


# -- divisions and decays --------------------------------------------------------------------------------------------


def test_rings_divide_everybody_and_have_equal_pull(world):
    tree = GravityTree(world.places)
    decay = decay_from(np.array([0.1, 100.0]), np.array([1.0, 0.5]))
    one_group = np.zeros(len(world.places), dtype=np.int64)
    regions = RingRegions(tree=tree, decays=decay[None, :], groups=one_group, cells=one_group + 5)
    everyone = np.arange(len(world.places), dtype=np.int32)
    cells = regions.around(np.array([7])).encode(np.array([0, len(everyone)]), everyone)
    assert set(cells) == set(range(5))
    masses = np.bincount(cells, weights=world.places.mass)
    assert masses.max() < 2.0 * masses.min()
    distances = world.places.miles(everyone, np.full(len(everyone), 7))
    order = [distances[cells == ring].mean() for ring in range(5)]
    assert order == sorted(order)


def test_placed_workers_are_in_their_cell(world):
    tree = GravityTree(world.places)
    one_group = np.zeros(len(world.places), dtype=np.int64)
    regions = RingRegions(tree=tree, decays=np.ones((1, len(knots()))), groups=one_group, cells=one_group + 6)
    drawn = np.repeat(np.arange(6), 50)
    starts = np.array([0, len(drawn)])
    around = regions.around(np.array([9]))
    homes = around.place(starts, drawn, bytes(32))
    again = around.encode(starts, homes)
    assert (np.abs(again - drawn) <= 1).mean() > 0.85
    assert (again == drawn).mean() > 0.6


def test_areas_and_places_are_their_own_cells(world):
    areas = AreaRegions(places=world.places, level="tract", cut=4.0)
    everyone = np.arange(len(world.places), dtype=np.int32)
    starts = np.array([0, len(everyone)])
    around = areas.around(np.array([0]))
    cells = around.encode(starts, everyone)
    homes = around.place(starts, cells, bytes(32))
    assert (around.encode(starts, np.maximum(homes, 0))[homes >= 0] >= 0).all()
    assert (areas.area_of[homes[homes >= 0]] == cells[homes >= 0]).all()
    assert ((homes < 0) == (cells == areas.cells)).all()
    single = PlaceRegions(places=world.places)
    assert single.around(np.array([0])).encode(starts, everyone).tolist() == everyone.tolist()


def test_a_partition_with_one_area_is_refused():
    places = make_places(["a", "b"], [41.0, 41.1], [-71.0, -71.0], areas={"all": ["x", "x"]})
    with pytest.raises(InputError, match="one area"):
        AreaRegions(places=places, level="all")


def test_a_fitted_decay_expects_what_was_counted(world):
    """Jobs drawn from a known decay: the fitted one expects the same shares by distance."""
    tree = GravityTree(world.places)
    jobs = np.zeros(len(world.places), dtype=np.int64)
    jobs[::17] = 100
    destinations = np.flatnonzero(jobs)
    squared = ((world.places.points()[destinations][:, None] - world.places.points()[None]) ** 2).sum(axis=2)
    truth = np.exp(-np.sqrt(squared) / 3.0) * world.places.mass
    truth /= truth.sum(axis=1, keepdims=True)
    counts = np.zeros((1, BANDS))
    np.add.at(counts[0], band_of(squared).ravel(), (truth * 100).ravel())
    decay = fit_decays(tree, counts, np.zeros(len(world.places), dtype=np.int64), jobs, noise=1.0, cut=None)[0]
    pulled = np.exp(np.interp(np.log(np.maximum(np.sqrt(squared), 0.05)), np.log(knots()), np.log(decay)))
    pulled *= world.places.mass
    pulled /= pulled.sum(axis=1, keepdims=True)
    found = np.zeros(BANDS)
    np.add.at(found, band_of(squared).ravel(), (pulled * 100).ravel())
    assert np.abs(found - counts[0]).sum() / counts.sum() < 0.12
    assert len(band_middles()) == BANDS


@pytest.mark.full
def test_a_small_epsilon_at_a_large_destination_is_planned_for():
    """Two cells and many rows: calibrated by a bound, not refused after the charge."""
    loss = ApproxLoss(epsilon=Fraction(3, 10), delta=Fraction(1, 10**6), source="test")
    assert 0 < PriorRule(loss=loss).prior_for(2100, 2100, 2) <= 2100 / np.expm1(0.3) * 1.001


def test_more_rows_are_drawn_only_where_epsilon_is_large():
    small = ApproxLoss(epsilon=Fraction(1, 10), delta=Fraction(1, 10**6), source="test")
    assert [PriorRule(loss=LOSS).times_for(size) for size in (10, 50, 500)] == [1, 2, 4]
    assert PriorRule(loss=small).times_for(500) == 1


def test_definition_6_is_reported_for_destinations_of_every_size(world):
    everywhere = [(0, 1, 3), (1, 1, 500), (5, 9, 40_000), (2, 7, 70)]
    notes = make(commutes(world.places, everywhere), coarsen="area:tract").provenance.notes
    (said,) = (note for note in notes if "Definition 6" in note)
    assert "for one destination" in said
    assert "not included" not in said


def test_a_division_with_other_cells_for_each_destination_keeps_the_prior_of_the_fewest(world):
    """The prior of a size is exact for the destination with fewest cells; the others have more, and lose less."""
    source = commutes(world.places, [(0, 0, 12), (150, 150, 12), (390, 390, 12), (3, 50, 90)])
    release = make(source, coarsen="areas:place:0.4,tract")
    (drawn,) = release.provenance.draws[0]["mechanisms"]
    steps = (AreaStep(level="tract", miles=0.4), AreaStep(level="place", miles=0.0))
    cells = NestedAreas(places=world.places, steps=steps).cells_of(np.array([0, 150, 390, 50]))
    assert len(set(cells[:3].tolist())) > 1
    assert drawn["sizes_from"][0] == 12
    assert drawn["cells"][0] == cells[:3].min()
    prior = float(Fraction(drawn["priors"][0]))
    budget = next(step.event for step in release.provenance.plan.steps if step.action == "draw")
    losses = [
        delta(PriorShape.symmetric(prior, int(count), 12), 12, us.Unit(), float(budget.epsilon))
        for count in sorted(set(cells[:3].tolist()))
    ]
    assert losses[0] <= budget.delta
    assert losses[0] > 0.9 * float(budget.delta)  # not larger than it need be
    assert losses == sorted(losses, reverse=True)
