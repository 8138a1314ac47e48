"""Golden values for the fit to noisy margins, from mbi 2.x (Apache-2.0): run where mbi is installed.

    python tests/golden/make_margins.py > tests/golden/margins.json

For each set of cliques: noisy whole numbers with their noise's standard deviation, and mbi's minimiser of the squared
error over all distributions, as the full table. Its models are exponential families over the measured margins, so the
minimiser of positive tables is unique and is what our fit must reach as the weight of independence goes to nothing.
"""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

SIZES = {"a": 2, "b": 3, "c": 2, "d": 3}
TOTAL = 2000.0
SETS: dict[str, list[tuple[str, ...]]] = {
    "tree": [("a", "b"), ("b", "c"), ("c", "d")],
    "cyclic": [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")],
    "overlapping": [("a", "b", "c"), ("b", "c", "d"), ("b", "c"), ("a", "d")],
    "singleton": [("a",), ("b",), ("c",), ("d",)],
    "full": [("a", "b", "c", "d")],
    "all pairs": list(itertools.combinations(SIZES, 2)),
}


def noisy_tables(cliques: list[tuple[str, ...]], seed: int) -> list[dict[str, Any]]:
    generator = np.random.default_rng(seed)
    chance = generator.dirichlet(np.full(36, 3.0)).reshape(tuple(SIZES.values()))
    names = tuple(SIZES)
    found = []
    for clique in cliques:
        outside = tuple(axis for axis, name in enumerate(names) if name not in clique)
        deviation = float(generator.integers(5, 20))
        values = np.rint(TOTAL * chance.sum(axis=outside) + generator.normal(0, deviation, [SIZES[n] for n in clique]))
        found.append({"margin": clique, "deviation": deviation, "values": values.astype(int).tolist()})
    return found


def main() -> None:
    import mbi
    from mbi import Domain, LinearMeasurement
    from mbi.estimation import LBFGS, MirrorDescent

    domain = Domain(tuple(SIZES), tuple(SIZES.values()))
    cases = []
    for seed, (name, cliques) in enumerate(SETS.items()):
        tables = noisy_tables(cliques, seed)
        measured = [
            LinearMeasurement(np.array(one["values"], float).ravel(), one["margin"], stddev=one["deviation"])
            for one in tables
        ]
        model = MirrorDescent().estimate(domain, measured, known_total=TOTAL, iters=20_000)
        model = LBFGS().estimate(domain, measured, known_total=TOTAL, iters=2_000, warm_start=model)
        joint = np.asarray(model.project(tuple(SIZES)).values, dtype=float)
        loss = 0.0
        for one in tables:
            outside = tuple(axis for axis, n in enumerate(SIZES) if n not in one["margin"])
            loss += float(
                ((joint.sum(axis=outside) - np.array(one["values"])) ** 2).sum() / (2 * one["deviation"] ** 2)
            )
        cases.append({"name": name, "tables": tables, "joint": joint.ravel().round(6).tolist(), "loss": loss})
    version = getattr(mbi, "__version__", "2.0.0")
    json.dump({"mbi": version, "sizes": SIZES, "total": TOTAL, "cases": cases}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
