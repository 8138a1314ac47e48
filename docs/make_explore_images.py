"""Makes the figures of the pages on advice, on the trade-off and on schemas, on people who do not exist.

Run it from the repository after a change of the figures: ``.venv/bin/python docs/make_explore_images.py``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

import understudy as us
from understudy.demo.people import make_people, small_schema
from understudy.figures.evaluation_figure import figures

IMAGES = Path(__file__).parent / "images"


def advice() -> None:
    schema = us.Schema(attributes=(us.Attribute(name="smokes", levels=("no", "yes")),))
    found = us.advise(
        schema,
        "proportion(smokes == 'yes')",
        records=100,
        method="dirichlet",
        guess={"smokes": (0.75, 0.25)},
    )
    found.curve().save(IMAGES / "advice.svg")


def tradeoff() -> None:
    schema = small_schema()
    people = us.open_source(make_people(1500).select(list(schema.names)), schema)
    found = us.tradeoff(on=people, methods=("histogram", "ipf", "dirichlet"), repeats=5)
    found.map().save(IMAGES / "tradeoff.svg")


def found_income() -> None:
    """Generated incomes, the synthetic ones, and the bins that were found."""
    rng = np.random.default_rng(1)
    income = np.exp(rng.normal(9.8, 0.7, 15_000)).clip(0, 499_999).round(2)
    income[rng.random(15_000) < 0.1] = 0
    rows = pa.table({"income": income})
    schema = us.Schema(attributes=(us.Attribute(name="income", bounds=(0, 500_000), heavy_tail=True, scale=100),))
    release = us.synthesize(rows, schema=schema, method="independent", budget=us.ApproxDP(epsilon=1, delta="1e-9"))
    frames = us.evaluate(release, confidential=rows, parts=("utility",)).utility.frames
    figures["densities"]({"histograms": frames["histograms"]}).save(IMAGES / "found_income.svg")


if __name__ == "__main__":
    advice()
    tradeoff()
    found_income()
