"""Our fit against mbi 2.x, an independent implementation (tests/golden/make_margins.py)."""

import json
from pathlib import Path

import numpy as np
import pytest

import understudy as us
from understudy.core.measurement import Measurement
from understudy.models.fit import build_tree, layout, problem_for, tables_of
from understudy.models.model import Model
from understudy.privacy.mechanisms.noise import DiscreteGaussian

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "margins.json").read_text())
SCHEMA = us.Schema(
    attributes=tuple(us.Attribute(name=n, levels=tuple(range(size))) for n, size in GOLDEN["sizes"].items())
)


def squared_error(joint, tables):
    names = tuple(GOLDEN["sizes"])
    total = 0.0
    for one in tables:
        outside = tuple(axis for axis, name in enumerate(names) if name not in one["margin"])
        errors = joint.sum(axis=outside) - np.array(one["values"])
        total += float((errors**2).sum() / (2 * one["deviation"] ** 2))
    return total


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["name"])
def test_the_optimum_is_that_of_mbi_as_the_prior_vanishes(case):
    """Every cell of the full table of 2,000 records to a fiftieth of a count, and the squared error to 1e-4.

    mbi's squared error alone has no prior; ours is let go in steps, each starting from the one before.
    """
    measured = [
        Measurement(
            margin=tuple(one["margin"]),
            values=np.array(one["values"]),
            mechanism=DiscreteGaussian(scale=int(one["deviation"])),
        )
        for one in case["tables"]
    ]
    noisy = layout(tables_of(measured, {}))
    tree = build_tree(SCHEMA, noisy.margins)
    problem, start, distances = problem_for(SCHEMA, tree, noisy, GOLDEN["total"]), None, []
    golden = np.array(case["joint"]).reshape(SCHEMA.shape())
    for prior in (10.0, 1.0, 0.1):
        start, beliefs, _, residual, _ = problem.solve(
            noisy.values, noisy.noise, GOLDEN["total"], prior, start=start, tolerance=1e-4, max_iterations=3000
        )
        assert residual <= 1e-4
        joint = Model(tree=tree, beliefs=tuple(beliefs), total=GOLDEN["total"]).project(SCHEMA.names)
        distances.append(np.abs(joint - golden).max())
    assert distances[-1] < 0.02
    assert squared_error(joint, case["tables"]) == pytest.approx(case["loss"], abs=1e-4)
    if case["name"] != "singleton":  # there independence is the whole model
        assert distances[0] > 2 * distances[-1]
