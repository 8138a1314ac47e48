"""Each test begins with noise of its own, of the right law, and the same noise whenever it runs."""

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from tests.repeatable import Repeatable
from understudy.privacy.randomness.streams import SecureStream

SCHEMA = us.Schema(attributes=(us.Attribute(name="a", levels=("x", "y", "z")),))


def release():
    rows = us.open_source(pa.table({"a": ["x"] * 50 + ["y"] * 30}), SCHEMA)
    made = us.synthesize(rows, budget=us.PureDP(epsilon=1), method="ipf")
    return made.frame(copy=1).to_pydict(), [one.values.tolist() for one in made.measurements]


@pytest.fixture
def begun(request):
    """Begins again as often as it is called, as if the test were run anew."""
    noise = Repeatable()
    with noise.installed():
        yield lambda name="one": noise.begin(name)


def test_a_test_that_runs_again_draws_again_what_it_drew(begun):
    begun()
    first, later = release(), release()
    begun()
    assert release() == first
    assert release() == later != first  # two releases of one test are two draws
    begun("another")
    assert release() != first


def test_a_release_says_what_it_says_to_users(begun):
    begun()
    made = us.synthesize(us.open_source(pa.table({"a": ["x"]}), SCHEMA), budget=us.PureDP(epsilon=1), method="ipf")
    assert made.statement.guarantee == us.PureDP(epsilon=1)


@pytest.mark.parametrize(
    "name", ["tests/statistical/test_samplers.py::one", "tests/unit/privacy/gate/test_gate.py::one"]
)
def test_tests_of_noise_keep_that_of_the_operating_system(begun, name):
    begun(name)
    first = SecureStream().discrete_laplace(1000, 50)
    begun(name)
    assert not np.array_equal(first, SecureStream().discrete_laplace(1000, 50))


def test_so_does_everything_that_is_proved(begun, monkeypatch):
    monkeypatch.setenv("PROVE", "1")
    begun()
    first = SecureStream().words(4, "a")
    begun()
    assert not np.array_equal(first, SecureStream().words(4, "a"))
