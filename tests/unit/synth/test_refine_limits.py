"""Refinement at its edges: grids too large or too coarse, numbers that are none, strata of merged bins, dead runs."""

import warnings

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.errors import InputError, UnsupportedError
from understudy.privacy.randomness.sampler_health import require_healthy_samplers
from understudy.privacy.randomness.streams import SecureStream

EPSILON = us.PureDP(epsilon=1)
METHODS = ("ipf", "aim", "mst", "one_look")


def grid(name, bins):
    return us.Attribute(name=name, edges=tuple(range(bins + 1)))


def levels(name, count):
    return us.Attribute(name=name, levels=tuple(range(count)))


def schema_of(*attributes):
    return us.Schema(attributes=attributes)


SMALL = schema_of(grid("x", 30), levels("b", 3), levels("c", 2))


@pytest.mark.parametrize("method", [*METHODS, "auto"])
@pytest.mark.parametrize(
    ("refine", "message"),
    [
        ("x:\u00b2", "such as"),
        ("x:" + "9" * 5000, "such as"),
        ("x:", "such as"),
        (":4", "such as"),
        ("x:4, x:5", "names 'x' twice"),
        ("x:400", "at most 29"),
    ],
)
def test_numbers_that_are_none_and_names_given_twice_are_refused(method, refine, message):
    with pytest.raises(InputError, match=message):
        us.plan(SMALL, method=method, budget=EPSILON, refine=refine)


def test_a_grid_too_coarse_to_be_merged_is_refused_saying_what_to_do():
    for bins in (1, 2):
        with pytest.raises(InputError, match=r"too few to merge.*leave it out"):
            us.plan(schema_of(grid("x", bins), levels("b", 3)), method="ipf", budget=EPSILON, refine="x:2")


@pytest.mark.parametrize("method", [*METHODS, "auto"])
def test_a_margin_too_large_on_the_fine_grid_is_refused_when_it_is_planned(method):
    schema = schema_of(grid("x", 4000), grid("y", 4000), levels("b", 3))
    with pytest.raises(UnsupportedError, match=r"x x y has 16,000,000 cells on the fine grid.*wider bins"):
        us.plan(schema, method=method, budget=EPSILON, refine="x:5, y:5")


@pytest.mark.parametrize("method", ["aim", "mst"])
def test_margins_that_would_never_be_chosen_are_no_reason_to_refuse(method):
    """Two attributes of thousands of levels are no pair that either method would take, refined bins or not."""
    schema = schema_of(grid("x", 30), levels("b", 5000), levels("c", 5000))
    plan = us.plan(schema, method=method, budget=EPSILON, refine="x:5")
    assert plan.options["refine"] == "x:5"


def test_auto_does_not_say_that_there_are_too_many_pairs_where_there_is_none():
    plan = us.plan(schema_of(grid("x", 30)), budget=EPSILON, refine="x:5")
    assert plan.method == "ipf"


def die_after(draws, monkeypatch):
    """Secure noise that ends after so many draws, as a run does when the power goes."""
    left = iter(range(draws))

    def until_then(honest):
        def draw(*args):
            if next(left, None) is None:
                raise InputError("the power went.")
            return honest(*args)

        return draw

    for name in ("discrete_laplace", "noisy_argmax"):
        monkeypatch.setattr(SecureStream, name, until_then(getattr(SecureStream, name)))


@pytest.mark.parametrize(("method", "draws"), [("ipf", 1), ("ipf", 2), ("aim", 1), ("aim", 4), ("mst", 4)])
def test_a_run_that_died_amid_its_measurements_goes_on_in_the_same_bins(tmp_path, method, draws, monkeypatch):
    """Strata of merged bins whose fine grid has more cells than strata may have."""
    require_healthy_samplers()  # once in a process, and it draws noise: the power must not go there
    rng = np.random.default_rng(2)
    schema = schema_of(grid("x", 2500), grid("y", 20), levels("b", 3))
    rows = pa.table({"x": rng.integers(0, 50, 900), "y": rng.integers(0, 20, 900), "b": rng.integers(0, 3, 900)})
    asked = {"method": method, "refine": "x:5, y:4", "strata": "x", "budget": us.PureDP(epsilon=1000)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with monkeypatch.context() as patch:
            die_after(draws, patch)
            with pytest.raises(InputError, match="the power went"):
                us.synthesize(us.open_source(rows, schema), out=tmp_path / "release", **asked)
    (left,) = tmp_path.iterdir()
    release = us.resume(left, source=rows)
    assert all(check.passed for check in us.verify(tmp_path / "release"))
    made = release.frame().to_pandas()
    assert len(made) == 900
    assert made["x"].max() < 50  # the budget is so large that nobody is where nobody was
    (only,) = tmp_path.iterdir()
    assert only.name == "release"


@pytest.mark.parametrize("method", [*METHODS, "independent"])
@pytest.mark.parametrize("rows", [None, 7])
def test_fixed_strata_of_a_table_without_rows(tmp_path, method, rows):
    """Refused before the charge: after it, it would be a run that nothing can finish."""
    empty = pa.table({name: pa.array([], pa.int64()) for name in SMALL.names})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(InputError, match="no rows"):
            us.synthesize(
                us.open_source(empty, SMALL), method=method, budget=EPSILON, unit=us.Unit(fixed=("b",)), strata="b",
                rows=rows, out=tmp_path / "release",
            )  # fmt: skip
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("margins", ["\u00b2", "9" * 5000])
def test_a_number_of_ways_that_is_none_is_refused(margins):
    with pytest.raises(us.UnderstudyError):
        us.plan(SMALL, method="ipf", budget=EPSILON, margins=margins)


def test_more_margins_than_can_be_listed_are_refused_at_once():
    schema = schema_of(*(levels(f"x{i}", 2) for i in range(60)))
    with pytest.raises(UnsupportedError, match=r"all 30-way margins of 60 attributes are about 10\^17.*fewer ways"):
        us.plan(schema, method="ipf", budget=EPSILON, margins="30")
