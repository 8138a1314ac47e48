"""The generated country: nested ids, jobs that add up, near homes likelier than far ones, all from a seed."""

import numpy as np
import pytest

from understudy.demo.commuters import make_world
from understudy.errors import InputError


def test_a_seed_makes_the_same_country_and_its_parts_nest():
    one, other = make_world("town", seed=3), make_world("town", seed=3)
    assert one.places.fingerprint == other.places.fingerprint
    assert one.jobs.tolist() == other.jobs.tolist()
    assert make_world("town", seed=4).places.fingerprint != one.places.fingerprint
    for level, width in (("state", 2), ("county", 5), ("tract", 11)):
        assert all(
            i.startswith(a) and len(a) == width for i, a in zip(one.places.ids, one.places.area(level), strict=True)
        )


def test_jobs_add_up_whatever_the_batches():
    world = make_world("town", seed=5)
    for batch in (500, 10**6):
        parts = list(world.codes(batch))
        found = np.zeros(len(world.places), dtype=int)
        for _, destinations, jobs in parts:
            np.add.at(found, destinations, jobs)
        assert found.tolist() == world.jobs.tolist()
    assert len(list(world.codes(500))) > 5


def test_people_live_nearer_to_their_work_than_at_random():
    world = make_world(places=8_000, jobs=20_000, seed=6)
    origins, destinations, jobs = next(world.codes())
    commutes = world.places.miles(origins, destinations)
    shuffled = world.places.miles(np.random.default_rng(1).permutation(origins), destinations)
    assert np.average(commutes, weights=jobs) < 0.9 * np.average(shuffled, weights=jobs)


def test_an_unknown_size_is_refused():
    with pytest.raises(InputError):
        make_world("village")
    with pytest.raises(InputError):
        make_world(places=0)
