"""Weighted answers against R's package ``survey``: weights, strata, clusters and a finite population."""

from __future__ import annotations

import importlib.util
import json
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import understudy as us

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")

FOLDER = Path(__file__).parents[2] / "golden"
GOLDEN = json.loads((FOLDER / "survey.json").read_text(encoding="utf-8"))


@cache
def people() -> dict[str, np.ndarray]:
    spec = importlib.util.spec_from_file_location("make_survey", FOLDER / "make_survey.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.people()


def design_of(name: str, question: str) -> us.Design | None:
    if name == "strata":
        return us.Design(sampling_strata="region")
    if name == "finite":
        return us.Design(population=2 * len(people()["w"]))
    if name == "clusters":  # the factor that clusters have: R's own
        factor = np.mean([(own[1] / alone[1]) ** 2 for own, alone in zip(
            GOLDEN["clusters"][question], GOLDEN["weights"][question], strict=True)])  # fmt: skip
        return us.Design(clusters="cluster", design_effects={"*": float(factor)})
    return None


@cache
def release_of(design: us.Design | None) -> us.Release:
    schema = us.Schema(
        attributes=(
            us.Attribute(name="region", levels=("N", "M", "S")),
            us.Attribute(name="poor", levels=("no", "yes")),
            us.Attribute(name="score", edges=tuple(range(12)), integer=True),
        ),
        weight=us.Weight(column="w", edges=(0.999, 1.001, 2.999, 3.001, 9.999, 10.001)),
        design=design,
        ignore=() if design is not None and design.clusters else ("cluster",),
    )
    source = us.open_source(pa.table(people()), schema)
    return us.synthesize(source, budget=us.PureDP(epsilon=10**6), method="histogram", i_know=True)


CASES = [
    (name, question)
    for name, questions in GOLDEN.items()
    for question in questions
    # R's total of a sample from a finite population is not the size times a share, as ours is; in strata the sizes of
    # regions vary by the weights alone, which is asked by the share.
    if not question.startswith("count") or name == "weights"
]


@pytest.mark.parametrize(
    ("name", "question"),
    [
        case if case[0] in ("weights", "strata") and "~" not in case[1] else pytest.param(*case, marks=pytest.mark.full)
        for case in CASES
    ],
)
def test_estimates_and_standard_errors_are_those_of_r(name, question):
    release = release_of(design_of(name, question))
    answer = us.infer(release, question, rng=np.random.default_rng(1), event="yes" if "~" in question else None)
    for one, error, (value, golden) in zip(
        answer.estimates, answer.standard_errors, GOLDEN[name][question], strict=True
    ):
        assert one.value == pytest.approx(value, abs=0.15 * golden)
        assert error == pytest.approx(golden, rel=0.055)


def test_the_golden_values_tell_designs_apart():
    """A release that ignored strata, clusters or the population would fail the test above."""
    question = "proportion(region == 'S')"
    for name, times in (("strata", 0.65), ("clusters", 2.0), ("finite", 0.71)):
        found = GOLDEN[name][question][0][1] / GOLDEN["weights"][question][0][1]
        assert found == pytest.approx(times, abs=0.01)
