"""What a draw costs is derived from the draw itself, and only reviewed mechanisms get counts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.commutes.commute_kind import draws_are_charged
from understudy.commutes.models.regions import AreaRegions, PlaceRegions, RingRegions
from understudy.core.places import make_places
from understudy.demo.commuters import make_world
from understudy.errors import BudgetError, DisclosureError, InputError, InternalError
from understudy.privacy.exact.dirichlet_profile import PriorShape, delta
from understudy.privacy.gate.flow_gate import FlowGate, FlowTable
from understudy.privacy.gate.gate import Gate, Query
from understudy.privacy.mechanisms import place_tree_compiled
from understudy.privacy.mechanisms.commute_prior import PriorRule
from understudy.privacy.mechanisms.flow_draws import CellUrn
from understudy.privacy.mechanisms.noise import Geometric
from understudy.privacy.mechanisms.place_bands import PlaceBands, beyond_cut, squared_edges
from understudy.privacy.mechanisms.ring_division import cells_of_first_division, rings_and_sectors, usable_cells
from understudy.privacy.promise.definition import Unit
from understudy.privacy.randomness.streams import SecureStream, SeededStream
from understudy.synth.methods import dirichlet as dirichlet_method

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
SCHEMA = us.Schema(
    attributes=(us.Attribute(name="a", levels=("x", "y")), us.Attribute(name="b", levels=("p", "q", "r")))
)
ROWS = pa.table({"a": ["x", "y", "y", "x"], "b": ["p", "q", "r", "p"]})


# -- the cells of the draw -------------------------------------------------------------------------------------------


def test_a_usable_number_of_cells_stays_as_it_is():
    asked = np.arange(1, 5_001)
    usable = usable_cells(asked)
    assert (usable <= asked).all()
    assert (usable_cells(usable) == usable).all()
    rings, sectors = rings_and_sectors(asked)
    assert (rings * sectors == usable).all()
    assert (usable >= asked * 0.8).all()
    once = cells_of_first_division(asked)
    assert (cells_of_first_division(once) != once).sum() > 50  # what was wrong


@pytest.fixture(scope="module")
def places():
    return make_world("town", seed=3).places


def town_of(places, jobs):
    """Every destination has so many jobs, all of them from the next places."""
    count = len(places)
    pairs = [(f, d) for d in range(0, count, 9) for f in range(d + 1, d + 1 + jobs)]
    ids = np.array([str(one, "utf-8") if isinstance(one, bytes) else str(one) for one in places.ids])
    return us.open_commutes(
        pa.table({
            "origin": ids[[f % count for f, _ in pairs]], "destination": ids[[d for _, d in pairs]],
        }), places=places,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("epsilon", "promise", "jobs"), [("4.5", ".01", 8), ("4", "1e-6", 56), ("8.6", "1e-5", 14), ("5", "1e-5", 30)]
)
def test_the_urn_has_the_cells_that_its_prior_was_set_for(places, epsilon, promise, jobs, monkeypatch):
    """The exact delta of the law that runs, from what reaches the urn and from nothing that is stated."""
    drawn = []
    honest = CellUrn.draw

    def watched(self, block, domains, stream, *purpose):
        drawn.extend(zip(block.rows.tolist(), domains.tolist(), self.priors.times_of(block.rows).tolist(), strict=True))
        drawn_with.add(self.priors.prior(jobs))
        return honest(self, block, domains, stream, *purpose)

    drawn_with = set()
    monkeypatch.setattr(CellUrn, "draw", watched)
    options = {"decay_share": "0", "home_share": "0", "blend": "none", "mechanism": "urn"}
    us.synthesize(
        town_of(places, jobs), method="commute", budget=us.ApproxDP(epsilon=epsilon, delta=promise),
        stream=SeededStream(1), **options,
    )  # fmt: skip
    assert len(set(drawn)) == len(drawn_with) == 1
    rows, cells, times = drawn[0]
    assert cells > 8
    shape = PriorShape.symmetric(float(next(iter(drawn_with))), cells, rows * times)
    assert delta(shape, rows, Unit(), float(epsilon)) <= float(promise)


class _SaysMore:
    """A division that says it has more cells than it has."""

    def __init__(self, regions):
        self.regions = regions

    def cells_of(self, destinations):
        return self.regions.cells_of(destinations) + 5

    def around(self, destinations):
        return self.regions.around(destinations)


def test_a_division_that_says_it_has_more_cells_is_not_drawn_over(places, monkeypatch):
    from understudy.commutes.methods import commute as method

    honest, drawn = method.build_mechanism, []

    def lying(*args, **kwargs):
        mechanism, regions, notes = honest(*args, **kwargs)
        return mechanism, _SaysMore(regions), notes

    monkeypatch.setattr(method, "build_mechanism", lying)
    monkeypatch.setattr(CellUrn, "draw", lambda *args: drawn.append(args))
    with pytest.raises(InternalError, match="other cells than the draw was charged for"):
        us.synthesize(
            town_of(places, 8), method="commute", budget=us.ApproxDP(epsilon=2, delta="1e-5"), stream=SeededStream(1)
        )
    assert drawn == []


def test_a_release_of_the_first_division_is_asked_for_the_cells_it_really_had(places):
    release = us.synthesize(
        town_of(places, 8), method="commute", budget=us.ApproxDP(epsilon="4.5", delta=".01"), stream=SeededStream(1),
        decay_share="0", home_share="0", blend="none", mechanism="urn",
    )  # fmt: skip
    assert draws_are_charged(release)
    (draw,) = release.provenance.draws
    loss = release.provenance.plan.steps[-1].event
    stated = CellUrn(priors=PriorRule(loss=loss).table(np.array([8]), cells=48), claim=loss).to_json()

    def with_division(**division):
        changed = {"label": draw["label"], **division, "mechanisms": [stated]}
        return replace(release, provenance=replace(release.provenance, draws=(changed,)))

    assert draws_are_charged(with_division(division=2))
    with pytest.raises(InputError, match="loses more than was charged"):
        draws_are_charged(with_division())


def test_a_prior_for_other_cells_is_refused_before_the_draw(monkeypatch):
    """What the method calibrated for does not matter; what the gate draws over does."""
    honest = dirichlet_method.exact_prior_for
    monkeypatch.setattr(
        dirichlet_method, "exact_prior_for", lambda loss, rows, records, cells: honest(loss, rows, records, cells * 50)
    )
    source = us.open_source(ROWS, SCHEMA)
    budget = us.ApproxDP(epsilon="0.5", delta="1e-3")
    with pytest.raises(BudgetError, match="over 6 cells costs more than the epsilon"):
        us.synthesize(source, method="dirichlet", budget=budget, stream=SeededStream(1))


# -- one definition of what is beyond the last distance --------------------------------------------------------------


def exactly_apart(places):
    """A destination, another place, and a distance in miles whose square is the squared distance of the two."""
    points = places.points()
    for one in range(len(points)):
        for other in range(len(points)):
            squared = place_tree_compiled.squared_distance(points[one], points[other])
            miles = float(np.sqrt(squared))
            if one != other and miles * miles == squared and repr(miles) == str(miles):
                yield one, other, miles


def test_a_place_exactly_at_the_last_distance_is_outside_with_and_without_a_worker():
    number = np.arange(12)
    places = make_places([f"p{n:02d}" for n in number], 41.0 + 0.03 * (number // 4), -71.0 + 0.05 * (number % 4))
    found = 0
    for one, other, miles in exactly_apart(places):
        starts, origin = np.array([0, 1]), np.array([other], dtype=np.int32)
        bands = PlaceBands(points=places.points(), edges=squared_edges([miles / 2, miles]))
        inside = bands.sizes(np.array([one]))[0, :2].sum()
        everyone = np.arange(12, dtype=np.int32)
        by_cut = ~beyond_cut(places.points(), np.array([one]), np.array([0, 12]), everyone, miles)
        assert by_cut.sum() == inside
        assert not by_cut[other]
        around = PlaceRegions(places=places, cut=miles).around(np.array([one]))
        assert around.encode(starts, origin)[0] == len(places)  # elsewhere
        found += 1
    assert found > 10


# -- only reviewed mechanisms ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class Honest(Geometric):
    """Charges like its parent and adds nothing."""

    def run(self, values, stream):
        return np.asarray(values)


def test_a_mechanism_that_lies_gets_no_counts():
    plan = us.plan(SCHEMA, method="histogram", budget=us.PureDP(epsilon=1))
    gate = Gate(source=us.open_source(ROWS, SCHEMA), schema=SCHEMA, plan=plan, stream=SeededStream(1))
    step = plan.steps[0]
    with pytest.raises(DisclosureError, match="Honest is not one of the reviewed mechanisms"):
        gate.measure([Query(margin=step.margin, mechanism=Honest(scale=step.event.scale), label=step.label)])
    assert gate.events == ()


def test_a_mechanism_that_lies_gets_no_commutes(places):
    plan = us.plan(places, method="commute", budget=us.PureDP(epsilon=1))
    gate = FlowGate(source=town_of(places, 2), places=places, plan=plan, stream=SeededStream(1))
    step = plan.steps[0]
    everywhere = FlowTable(label=step.label, cells=1, classify=lambda origins, _: np.zeros(len(origins), np.int64))
    with pytest.raises(DisclosureError, match="Honest is not one of the reviewed mechanisms"):
        gate.measure(everywhere, Honest(scale=step.event.scale))

    class Mine(CellUrn):
        __slots__ = ()

    rings = AreaRegions(places=places, level="tract")
    mine = Mine(priors=None, claim=plan.steps[-1].event)
    with pytest.raises(DisclosureError, match="Mine is not one of the reviewed mechanisms"):
        gate.draw(mine, rings, rows=gate.sizes(), label="copy 1", copy=1, sink=None)
    assert gate.events == ()


@pytest.mark.parametrize("kind", [SeededStream, SecureStream])
def test_a_stream_that_says_it_is_secure_is_not_believed(kind):
    class Mine(kind):
        def __init__(self):
            super().__init__(**({"seed": 1} if kind is SeededStream else {}))
            self.secure = True

    source = us.open_source(ROWS, SCHEMA)
    with pytest.raises(DisclosureError, match="Mine claims to be secure"):
        us.synthesize(source, method="histogram", budget=us.PureDP(epsilon=1), stream=Mine())


def test_cells_of_every_division_are_those_it_draws_over(places):
    ones = np.arange(0, len(places), 7)
    world = make_world("town", seed=3)
    cells = (np.arange(len(places)) % 60) + 2
    for cut in (None, 5.0):
        for regions in (
            AreaRegions(places=places, level="tract", cut=cut),
            PlaceRegions(places=places, cut=cut),
            RingRegions(
                tree=world.tree, decays=np.ones((1, 0)), groups=np.zeros(len(places), np.int64), cells=cells, cut=cut
            ),
        ):
            if isinstance(regions, RingRegions):
                expected = usable_cells(cells[ones]) + int(cut is not None)
                assert regions.cells_of(ones).tolist() == expected.tolist()
            else:
                assert regions.cells_of(ones).tolist() == regions.around(ones).domains.tolist()
