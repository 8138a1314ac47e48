"""Makes the figures of the pages on advice and on the trade-off, on people who do not exist.

Run it from the repository after a change of the figures: ``.venv/bin/python docs/make_explore_images.py``.
"""

from __future__ import annotations

from pathlib import Path

import understudy as us
from understudy.demo.people import make_people, small_schema

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


if __name__ == "__main__":
    advice()
    tradeoff()
