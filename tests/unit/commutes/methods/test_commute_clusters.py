"""Areas found from noisy counts, and long commutes modelled apart."""

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.commutes.methods import commute_clusters
from understudy.commutes.methods.commute_clusters import FLOWS, HOMES
from understudy.commutes.models.found_areas import clusters, small_cells
from understudy.core.places import make_places
from understudy.errors import InputError, UnknownNameError, UnsupportedError
from understudy.privacy.randomness.streams import SeededStream

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
TOWNS = ((41.0, -71.0), (41.0, -70.6), (41.9, -71.0))  # 21 and 62 miles apart
HARDLY = us.PureDP(epsilon=2_000)


@pytest.fixture(scope="module")
def places():
    """Three towns of 30 places each within a mile."""
    rng = np.random.default_rng(1)
    spots = np.concatenate([np.array(town) + 0.005 * rng.standard_normal((30, 2)) for town in TOWNS])
    return make_places(
        [f"p{n:02d}" for n in range(90)], spots[:, 0], spots[:, 1], areas={"half": [f"h{n % 2}" for n in range(90)]}
    )


@pytest.fixture(scope="module")
def source(places):
    """People work in the first two towns and live in theirs; one in ten of the first town comes from the third."""
    names = np.array([one.decode() for one in places.ids])
    origins, destinations = people()
    return us.open_commutes(pa.table({"origin": names[origins], "destination": names[destinations]}), places=places)


def people():
    rng = np.random.default_rng(2)
    work = rng.integers(0, 2, 3_000)
    home = np.where((work == 0) & (rng.random(3_000) < 0.1), 2, work)
    return tuple(30 * town + rng.integers(0, 30, 3_000) for town in (home, work))


def towns(origins, destinations, jobs=1):
    """Jobs by town of work and town of home."""
    found = np.zeros((3, 3))
    np.add.at(found, (destinations // 30, origins // 30), jobs)
    return found


def test_small_cells_are_halves_of_halves(places):
    cell_of, cells = small_cells(places, 16)
    assert cells == 16
    assert set(np.bincount(cell_of).tolist()) <= {5, 6}
    assert small_cells(places, 10**6)[1] == 90


def test_clusters_are_where_the_weight_is():
    rng = np.random.default_rng(3)
    middles = np.array([[0, 0, 0], [10, 0, 0], [0, 10, 0]])
    points = np.concatenate([middle + 0.2 * rng.standard_normal((50, 3)) for middle in middles])
    for more in range(3):  # weights that differ a little begin elsewhere
        found = clusters(points, np.ones(150) + 1e-9 * more, 3)
        assert all(len(set(found[part : part + 50].tolist())) == 1 for part in (0, 50, 100))
        assert len(set(found.tolist())) == 3
    assert len(set(clusters(points, np.zeros(150), 4).tolist())) == 4


@pytest.mark.parametrize("options", [{}, {"long_miles": "0"}, {"areas": "half", "long_miles": "40"}])
def test_a_release_has_the_sizes_the_promise_and_the_long_commutes(source, options, tmp_path):
    release = us.synthesize(
        source, method="commute_clusters", budget=HARDLY, out=tmp_path / "release", stream=SeededStream(1),
        **({"number": 6} if "areas" not in options else {}), **options,
    )  # fmt: skip
    us.verify(tmp_path / "release")
    origins, destinations, jobs = release.coded(1)
    assert np.bincount(destinations, jobs, 90).tolist() == source.flows().sizes().tolist()
    labels = [one.label for one in release.measurements]
    assert labels == ([FLOWS] if "areas" in options else [HOMES, FLOWS])
    true, made = towns(*people()), towns(origins, destinations, jobs)
    if "areas" not in options:
        assert np.abs(made - true).max() < 0.02 * true.sum()
    else:  # halves mix all towns, but long commutes are counted apart from short ones
        assert 0.7 * true[:, 2].sum() < made[:, 2].sum() < 1.3 * true[:, 2].sum()


def test_the_budget_is_divided_as_asked(places):
    plan = us.plan(places, method="commute_clusters", budget=us.PureDP(epsilon=1), areas_share="0.2", number=5)
    assert [(step.label, step.cells, 2 / step.event.scale) for step in plan.steps] == [
        (HOMES, 90, pytest.approx(0.2)), (FLOWS, 5 * 5 + 5 * 5, pytest.approx(0.8)),
    ]  # fmt: skip


def test_what_cannot_be_is_refused(places):
    for options, error in (
        ({"number": 1}, InputError),
        ({"areas_share": "0"}, InputError),
        ({"long_miles": "-1"}, InputError),
        ({"areas": "county"}, UnknownNameError),
    ):
        with pytest.raises(error):
            us.plan(places, method="commute_clusters", budget=us.PureDP(epsilon=1), **options)
    with pytest.raises(UnsupportedError, match="fixed=destination"):
        us.plan(places, method="commute_clusters", budget=us.PureDP(epsilon=1), unit=us.Unit(kind="add_remove"))


@pytest.mark.parametrize("options", [{"number": 6}, {"areas": "half", "long_miles": "40"}])
def test_a_run_that_died_after_its_measurements_finds_the_same_areas_again(
    source, places, options, tmp_path, monkeypatch
):
    made = []
    real = commute_clusters._Pairs.jobs

    def dying(pairs, *_):
        made.append(pairs)
        raise KeyboardInterrupt

    def living(pairs, *given):
        made.append(pairs)
        return real(pairs, *given)

    monkeypatch.setattr(commute_clusters._Pairs, "jobs", dying)
    with pytest.raises(KeyboardInterrupt):
        us.synthesize(
            source, method="commute_clusters", budget=us.PureDP(epsilon=15), out=tmp_path / "out", **options
        )  # fmt: skip
    monkeypatch.setattr(commute_clusters._Pairs, "jobs", living)
    (folder,) = tmp_path.glob("out.partial-*")
    us.resume(folder, places=places)
    before, after = made
    assert np.array_equal(before.area_of, after.area_of)
    assert np.array_equal(before.large_of, after.large_of)
