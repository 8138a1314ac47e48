"""The least noise that keeps a promise: known values, both sides of the boundary, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

import understudy as us
from understudy.auditing.calibration import composed_delta, prior_table
from understudy.core.schema import Attribute, Schema
from understudy.errors import InputError, UnsupportedError
from understudy.privacy.promise.calibrate_dirichlet import (
    SmallBreach,
    exact_breach_prior,
    reference_sample,
    theorem_prior,
)

MAP = {"records": 15, "rows": 15, "cells": 233_726}
PURE = us.PureDP(epsilon=4.6)
APPROX = us.ApproxDP(epsilon=4.6, delta=1e-5)
BREACH = us.ProbabilisticDP(epsilon=4.6, delta=1e-5)


@pytest.mark.parametrize(
    ("budget", "rule", "prior", "digits"),
    [
        (PURE, "exact", 0.1523, 4),
        (BREACH, "theorem", 0.03852, 5),
        (BREACH, "union", 0.03046, 5),
        (BREACH, "exact", 0.03046, 5),
        (APPROX, "exact", 0.01229, 5),
    ],
)
def test_the_prior_of_the_commuting_example(budget, rule, prior, digits):
    found = us.calibrate(us.DirichletMultinomial, budget, **MAP, rule=rule)
    assert round(found.prior, digits) == prior
    assert float(found) == found.prior
    assert found.mechanism.cells == MAP["cells"]


@pytest.mark.full
def test_the_union_bound_is_tight_there_because_the_prior_sits_on_a_jump():
    exact = us.calibrate(us.DirichletMultinomial, BREACH, **MAP)
    union = us.calibrate(us.DirichletMultinomial, BREACH, **MAP, rule="union")
    assert exact.prior == union.prior == pytest.approx(3 / math.expm1(4.6), rel=1e-9)
    assert "exact" in exact.basis
    assert "upper bound" in union.basis


def test_theorem_4_4_as_printed():
    assert theorem_prior(4.6, 1e-5, 120_690, 12) == pytest.approx(0.039761, abs=5e-7)
    low = theorem_prior(4.6, 1e-5, 120_690, 12)
    allowed = 1e-5 * (math.exp(4.6) - 2) / (2 * 120_690 * math.exp(4.6))
    assert reference_sample(low * 1.0001, 120_690, 12, 4.6) < allowed < reference_sample(low * 0.9999, 120_690, 12, 4.6)


@pytest.mark.parametrize(
    "size",
    [
        {"records": 15, "rows": 15, "cells": 233_726},
        {"records": 100, "rows": 100, "cells": 10_000},
        {"records": 20, "rows": 7, "cells": 3},
        {"records": 30, "rows": 40, "cells": 2},
        {"records": 1, "rows": 5, "cells": 4},
    ],
    ids=str,
)
@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-3), (2, 1e-6)])
def test_an_exact_prior_keeps_its_promise_and_a_smaller_one_does_not(size, epsilon, delta):
    budget = us.ApproxDP(epsilon=epsilon, delta=delta)
    found = us.calibrate(us.DirichletMultinomial, budget, **size)
    assert us.audit(found, records=size["records"]).delta(epsilon) <= delta
    less = us.DirichletMultinomial(prior=found.prior * 0.999, rows=size["rows"], cells=size["cells"])
    assert us.audit(less, records=size["records"]).delta(epsilon) > delta
    more = us.DirichletMultinomial(prior=found.prior * 1.5, rows=size["rows"], cells=size["cells"])
    assert us.audit(more, records=size["records"]).delta(epsilon) <= delta


@pytest.mark.parametrize("unit", ["replace", "add_remove"])
def test_the_pure_prior_is_exact_under_replace_and_enough_for_any_size(unit):
    found = us.calibrate(us.DirichletMultinomial, us.PureDP(epsilon=2), records=5, rows=5, cells=3, unit=unit)
    exact = us.audit(found.mechanism, records=5, unit=unit)
    assert exact.epsilon <= exact.epsilon_any_size <= 2
    assert exact.epsilon_any_size == pytest.approx(2, abs=1e-8)


@pytest.mark.parametrize(("cells", "promise"), [(2, 0.3), (2, 0.1), (2, 0.02), (3, 0.1), (3, 0.02), (6, 0.05)])
def test_a_breach_prior_and_every_larger_one_keep_the_promise(cells, promise):
    """The breach probability is a saw-tooth in the prior: bisection would stop in a valley."""
    epsilon, records, rows = 2.0, 5, 5
    low, exact = exact_breach_prior(epsilon, promise, cells, records, rows)
    assert exact
    small = SmallBreach(cells, records, rows, epsilon)

    def breach(prior):
        return small.largest(prior, small.sets(prior))

    above = np.geomspace(low * (1 + 1e-9), 1.0, 40 if cells > 3 else 120)
    assert max(map(breach, above)) <= promise
    assert breach(low * (1 - 1e-6)) > promise
    union, _ = exact_breach_prior(epsilon, promise, cells, records, rows, bound=True)
    assert union >= low * (1 - 1e-9)


def test_the_saw_tooth_that_bisection_would_fall_into():
    small = SmallBreach(2, 5, 5, 2.0)
    values = [small.largest(prior, small.sets(prior)) for prior in (0.05, 0.075, 0.149)]
    assert values == pytest.approx([0.5687, 0.2921, 0.3055], abs=5e-5)
    assert values[0] > values[2] > values[1]  # it falls, and rises again
    low, _ = exact_breach_prior(2.0, 0.3, 2, 5, 5)
    assert low > 0.149  # though 0.3 is kept at 0.075


@pytest.mark.parametrize("unit", ["replace", "add_remove"])
@pytest.mark.parametrize("kind", [us.Geometric, us.DiscreteGaussian])
@pytest.mark.parametrize("margins", [1, 6])
def test_noise_over_several_margins(kind, margins, unit):
    found = us.calibrate(kind, us.ApproxDP(epsilon=1, delta=1e-4), margins=margins, unit=unit)
    moved = [2 if unit == "replace" else 1] * margins
    assert composed_delta(found.mechanism, moved, 1.0) <= 1e-4
    assert composed_delta(kind(scale=found.scale * 0.98), moved, 1.0) > 1e-4
    assert "exact" in found.basis
    if margins == 1:
        assert us.audit(found.mechanism, records=3, unit=unit).delta(1) <= 1e-4
    else:
        assert us.audit(found.mechanism, records=3, unit=unit, copies=margins).delta(1) <= 1e-4


def test_exact_composition_needs_five_less_variance_than_the_profile_of_normal_noise():
    """Two derivations of one thing: discrete losses composed numerically, and normal noise rounded at random."""
    from understudy.privacy.promise.calibrate import noise_for
    from understudy.privacy.promise.conversion import cdp_rho
    from understudy.privacy.promise.event import Sensitivity

    budget = us.ApproxDP(epsilon=1, delta=1e-6)
    tables = [Sensitivity(l1=2, l2_squared=2, linf=1)] * 10
    theorem = noise_for(budget, tables)[0]
    found = us.calibrate(us.DiscreteGaussian, budget, margins=10)
    assert found.mechanism.variance == pytest.approx(theorem.variance - 5, rel=1e-3)
    by_rho = noise_for(us.ZCDP(rho=cdp_rho(budget.epsilon, budget.delta)), tables)
    assert found.mechanism.variance < 0.9 * by_rho[0].variance


def test_noise_for_named_margins():
    schema = Schema(
        attributes=(
            Attribute(name="sex", levels=("F", "M")),
            Attribute(name="age", levels=("young", "old")),
            Attribute(name="area", levels=("N", "S")),
        )
    )
    margins = [("sex", "age"), ("area",)]
    all_free = us.calibrate(us.Geometric, us.PureDP(epsilon=1), margins=margins, schema=schema)
    assert all_free.scale == 4
    fixed = us.Unit(fixed=("area",))
    one_fixed = us.calibrate(us.Geometric, us.PureDP(epsilon=1), margins=margins, schema=schema, unit=fixed)
    assert one_fixed.scale == 2
    gauss = us.calibrate(us.DiscreteGaussian, us.ZCDP(rho=0.5), margins=2)
    assert gauss.scale == pytest.approx(2)


def test_many_rows_in_two_cells_are_calibrated_by_a_bound(monkeypatch):
    budget, size = us.ApproxDP(epsilon=1, delta=1e-6), {"records": 60, "rows": 60, "cells": 2}
    exact = us.calibrate(us.DirichletMultinomial, budget, **size)
    monkeypatch.setattr("understudy.privacy.promise.calibrate_dirichlet.LARGEST_TWO_CELL_SCAN", 1)
    bound = us.calibrate(us.DirichletMultinomial, budget, **size)
    assert "upper bound" in bound.basis
    assert exact.prior <= bound.prior < us.calibrate(us.DirichletMultinomial, us.PureDP(epsilon=1), **size).prior
    assert us.audit(bound.mechanism, records=60).delta(1) <= 1e-6
    monkeypatch.undo()
    large = us.calibrate(us.DirichletMultinomial, budget, records=50_000, rows=50_000, cells=2)
    with pytest.raises(UnsupportedError, match="scan"):
        us.audit(large.mechanism, records=50_000).delta(1)


def test_too_many_jumps_are_refused():
    with pytest.raises(UnsupportedError, match="jumps"):
        us.calibrate(us.DirichletMultinomial, BREACH, records=1000, rows=1000, cells=10_000)


@pytest.mark.full
def test_how_much_less_than_the_theorem():
    table = prior_table(4.6, 1e-5, records=15, cells=233_726)
    assert table["prior"].to_pylist() == sorted(table["prior"].to_pylist(), reverse=True)
    assert table["share"].to_pylist()[0] == 1
    assert table["share"].to_pylist()[-1] == pytest.approx(0.0807, abs=1e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: us.calibrate(us.DirichletMultinomial, PURE, rows=5), "give records, cells"),
        (lambda: us.calibrate(us.DirichletMultinomial, PURE, records=0, rows=5, cells=3), "records"),
        (lambda: us.calibrate(us.DirichletMultinomial, PURE, records=5, rows=0, cells=3), "rows"),
        (lambda: us.calibrate(us.DirichletMultinomial, PURE, **MAP, rule="union"), "has none"),
        (lambda: us.calibrate(us.DirichletMultinomial, PURE, **MAP, rule="best"), "rule"),
        (lambda: us.calibrate(us.DirichletMultinomial, APPROX, **MAP, rule="union"), "Definition 6"),
        (lambda: us.calibrate(us.DirichletMultinomial, us.ZCDP(rho=1), **MAP), "zero-concentrated"),
        (lambda: us.calibrate(us.DirichletMultinomial, APPROX, **MAP, unit="add_remove"), "not proved"),
        (lambda: us.calibrate(us.DirichletMultinomial, APPROX, **MAP, margins=2), "one whole table"),
        (lambda: us.calibrate(us.DirichletMultinomial, APPROX, **MAP, unit=us.Unit(rows_per_unit=2)), "one row"),
        (lambda: us.calibrate(us.DirichletMultinomial, 1.0, **MAP), "guarantee"),
        (
            lambda: us.calibrate(us.DirichletMultinomial, BREACH, records=5, rows=6, cells=9, rule="theorem"),
            "rows = records",
        ),
        (
            lambda: us.calibrate(
                us.DirichletMultinomial, us.ProbabilisticDP(epsilon=1, delta=0.1), **MAP, rule="theorem"
            ),
            "ln 3",
        ),
        (lambda: us.calibrate(us.DiscreteGaussian, PURE), "never purely"),
        (lambda: us.calibrate(us.Geometric, us.ZCDP(rho=1)), "DiscreteGaussian"),
        (lambda: us.calibrate(us.Geometric, BREACH), "probabilistic"),
        (lambda: us.calibrate(us.Geometric, PURE, margins=0), "margins"),
        (lambda: us.calibrate(us.Geometric, PURE, margins=[("a",)]), "schema"),
        (lambda: us.calibrate(us.Geometric, PURE, records=5), "any size"),
        (lambda: us.calibrate(us.RoundedLaplace, PURE), "mechanism"),
        (lambda: us.calibrate(us.Geometric, PURE).prior, "no prior"),
        (lambda: us.calibrate(us.DirichletMultinomial, PURE, **MAP).scale, "no scale"),
    ],
)
def test_bad_input_is_refused_in_words(call, message):
    with pytest.raises((InputError, UnsupportedError), match=message):
        call()
