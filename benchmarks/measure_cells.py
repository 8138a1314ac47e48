"""Single cells of large tables of few people under a pure epsilon: how often ``valid`` intervals hold, and how far off.

    python benchmarks/measure_cells.py --seed 1000 --releases 70

Each seed draws a table of two attributes (8 to 16 by 4 to 7 levels, most people in few or in many cells), beside it up
to three more attributes, 100 to 1,000 people, epsilon 0.5 to 2, a unit and ``ipf`` or ``histogram``. Truth is the law
that people are drawn from. *Farthest*: the distance of the farthest miss from its interval, in widths of that interval.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import understudy as us
from understudy.privacy.randomness.streams import SeededStream


@dataclass(frozen=True)
class Found:
    """What one release says about the cells of one table."""

    records: int
    method: str
    unit: str
    held: int
    valid: int
    farthest: float
    shortest: float  # interval, in standard deviations of the noise of a cell


def one_release(seed: int) -> Found | None:
    """The cells of one generated table; None if the question is refused."""
    rng = np.random.default_rng([seed, 2201])
    records, epsilon = int(rng.choice([100, 300, 1000])), float(rng.choice([0.5, 1, 2]))
    kind, width = str(rng.choice(["replace", "add_remove"])), int(rng.choice([2, 3, 5]))
    method = str(rng.choice(["ipf", "histogram"]))
    sizes = [int(rng.integers(8, 17)), int(rng.integers(4, 8)), 2, 3, 4][: 2 if method == "histogram" else width]
    law = rng.dirichlet(np.full(sizes[0] * sizes[1], float(rng.choice([0.1, 0.5, 2]))))
    cell = rng.choice(len(law), records, p=law)
    codes = [cell // sizes[1], cell % sizes[1]]
    codes += [rng.choice(size, records, p=rng.dirichlet(np.ones(size))) for size in sizes[2:]]
    names = [f"a{place}" for place in range(len(sizes))]
    schema = us.Schema(
        attributes=tuple(
            us.Attribute(name=name, levels=tuple(f"{name}{chr(97 + place)}" for place in range(size)))
            for name, size in zip(names, sizes, strict=True)
        )
    )
    table = {name: [schema[name].levels[one] for one in code] for name, code in zip(names, codes, strict=True)}
    release = us.synthesize(
        us.open_source(pa.table(table), schema), method=method, budget=us.PureDP(epsilon=epsilon),
        unit=us.Unit(kind=kind), rows=records if kind == "add_remove" else None,
        stream=SeededStream(int(rng.integers(2**62))),
    )  # fmt: skip
    try:
        answer = us.infer(release, "crosstab(a0, a1)", rng=np.random.default_rng([seed, 1]))
    except us.UnderstudyError:
        return None
    low, high = (np.array([getattr(one, end) for one in answer.estimates]) for end in ("low", "high"))
    valid = np.array([label == "valid" for label in answer.labels])
    if not valid.any():
        return None
    held = (low - 1e-9 <= law) & (law <= high + 1e-9)
    away = np.maximum(low - law, law - high) / (high - low)
    noise = next(one for one in release.measurements if set(one.margin) == {"a0", "a1"}).mechanism.variance
    return Found(
        records=records,
        method=method,
        unit=kind,
        held=int(held[valid].sum()),
        valid=int(valid.sum()),
        farthest=float(max(0.0, away[valid].max())),
        shortest=float((high - low)[valid].min() * records / float(noise) ** 0.5),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--releases", type=int, default=70)
    given = parser.parse_args()
    with warnings.catch_warnings(action="ignore"):
        found = [one_release(seed) for seed in range(given.seed, given.seed + given.releases)]
    kept = [one for one in found if one is not None]
    print("| | releases | cells | held | farthest | shortest |\n|---|---|---|---|---|---|")
    groups = [("all", kept)]
    for field in ("records", "method", "unit"):
        for value in sorted({getattr(one, field) for one in kept}):
            groups.append((f"{field} {value}", [one for one in kept if getattr(one, field) == value]))
    for name, own in groups:
        cells = sum(one.valid for one in own)
        print(
            f"| {name} | {len(own)} | {cells:,} | {sum(one.held for one in own) / cells:.3f} | "
            f"{max(one.farthest for one in own):.2f} | {min(one.shortest for one in own):.2f} |"
        )


if __name__ == "__main__":
    main()
