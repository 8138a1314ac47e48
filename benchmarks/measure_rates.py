"""How fast the error of each method falls with the number of people, beside the rates of Wasserman and Zhou (2010).

Three numbers between 0 and 1 with a smooth density that depends on all of them together, cut into n^(3/5) cells as
the perturbed histogram of Wasserman and Zhou wants it (r = 3). The error is that of the synthetic table against the
population itself: the largest difference of the distribution functions (Kolmogorov-Smirnov), and the squared L2
distance of the densities. Epsilon 1, pure, unit replace. Run it with ``python benchmarks/measure_rates.py run FILE
[seeds]``; results are added to FILE, line by line, and what is there is not computed again. ``draw FILE IMAGE`` draws
them; ``table FILE`` prints them.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

import understudy as us
from understudy.core.table import CodedSource, CodedTable
from understudy.figures.drawing import Canvas, Drawing, house_style
from understudy.privacy.gate.gate import Gate
from understudy.privacy.randomness.streams import SeededStream
from understudy.synth.shared.method import configure

WAYS = 3
PEOPLE = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
SEEDS = 5
# The density: 1 + sum of these coefficients times products of p(x) = 2x - 1 over the attributes named.
TERMS = {(0,): 0.2, (0, 1): 0.3, (1, 2): 0.2, (0, 1, 2): 0.2}
METHODS: dict[str, dict[str, Any] | None] = {
    "no noise": None,
    "histogram": {},
    "dirichlet": {},
    "independent": {},
    "ipf": {},
    "loglinear": {"rows_by": "multinomial"},
    "fourier": {},
    "mst": {},
    "aim": {},
    "auto": {},
}
GRID = np.linspace(0, 1, 33)


def bins_for(people: int) -> int:
    """Bins of each attribute: n^(1/5), so that there are n^(r / (2 + r)) cells."""
    return max(2, round(people ** (1 / (2 + WAYS))))


def people(count: int, seed: int) -> np.ndarray:
    """Draws from the population, by rejection."""
    rng = np.random.default_rng([2010, count, seed])
    most = 1 + sum(TERMS.values())
    kept: list[np.ndarray] = []
    left = count
    while left > 0:
        points = rng.random((2 * left + 100, WAYS))
        taken = points[rng.random(len(points)) * most < density(points)][:left]
        kept.append(taken)
        left -= len(taken)
    return np.concatenate(kept)


def density(points: np.ndarray) -> np.ndarray:
    return np.asarray(1 + sum(size * np.prod(2 * points[:, names] - 1, axis=1) for names, size in TERMS.items()))


def distribution(edges: np.ndarray) -> np.ndarray:
    """The distribution function on all combinations of some points: each term is a product of integrals."""
    plain, tilted = edges, edges**2 - edges
    found = _outer([plain] * WAYS)
    for names, size in TERMS.items():
        found = found + size * _outer([tilted if axis in names else plain for axis in range(WAYS)])
    return found


def _outer(factors: list[np.ndarray]) -> np.ndarray:
    return np.asarray(np.einsum("i,j,k->ijk", *factors))


def squared_density() -> float:
    """The integral of the squared density: 1 and p are orthogonal, and p has the mean square 1/3."""
    return 1 + sum(size**2 * 3.0 ** -len(names) for names, size in TERMS.items())


def errors(shares: np.ndarray) -> tuple[float, float]:
    """Kolmogorov-Smirnov and squared L2 distance of a table whose cells are even inside."""
    bins = len(shares)
    edges = np.linspace(0, 1, bins + 1)
    summed = shares
    for axis in range(WAYS):
        summed = np.insert(np.cumsum(summed, axis=axis), 0, 0.0, axis=axis)
    at = np.minimum((GRID * bins).astype(int), bins - 1)
    weight = GRID * bins - at
    between = summed
    for axis in range(WAYS):
        low, high = np.take(between, at, axis=axis), np.take(between, at + 1, axis=axis)
        shape = [-1 if one == axis else 1 for one in range(WAYS)]
        between = low + (high - low) * weight.reshape(shape)
    furthest = float(np.abs(between - distribution(GRID)).max())
    exact = distribution(edges)
    for axis in range(WAYS):
        exact = np.diff(exact, axis=axis)
    cells = shares.size
    return furthest, squared_density() - 2 * cells * float((shares * exact).sum()) + cells * float((shares**2).sum())


def measure(method: str, options: dict[str, Any] | None, count: int, seed: int) -> tuple[float, float]:
    bins = bins_for(count)
    codes = np.minimum((people(count, seed) * bins).astype(np.int64), bins - 1)
    levels = tuple(str(level) for level in range(bins))
    schema = us.Schema(
        attributes=tuple(us.Attribute(name=name, levels=levels, ordered=True) for name in ("x", "y", "z"))
    )
    table = CodedTable(schema=schema, columns={name: codes[:, place] for place, name in enumerate(schema.names)})
    if options is not None:
        plan = us.plan(schema, method=method, budget=us.PureDP(epsilon=1), unit="replace", records=count, **options)
        stream = SeededStream(seed)
        gate = Gate(source=CodedSource(table), schema=schema, plan=plan, stream=stream)
        (table,) = configure(plan.method, plan.options).run(plan, schema, gate, stream).tables
    counts = table.counts(schema.names)
    return errors(counts / counts.sum())


def run(path: Path, seeds: int) -> None:
    done = {(one["method"], one["people"], one["seed"]) for one in _read(path)}
    for count in PEOPLE:
        for seed in range(seeds if count <= 100_000 else min(seeds, 2)):
            for method, options in METHODS.items():
                if (method, count, seed) in done:
                    continue
                furthest, squared = measure(method, options, count, seed)
                line = {"method": method, "people": count, "seed": seed, "ks": furthest, "l2": squared}
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def means(path: Path, column: str) -> dict[str, list[tuple[int, float]]]:
    lines = _read(path)
    found: dict[str, list[tuple[int, float]]] = {}
    for method in METHODS:
        for count in PEOPLE:
            values = [one[column] for one in lines if one["method"] == method and one["people"] == count]
            if values:
                found.setdefault(method, []).append((count, mean(values)))
    return found


def slope(points: list[tuple[int, float]]) -> float:
    """The power of n by which the error falls over the upper half of the points."""
    upper = points[len(points) // 2 :]
    return float(np.polyfit(np.log([n for n, _ in upper]), np.log([e for _, e in upper]), 1)[0])


BOUNDS = {
    "ks": {"n to the -1/2: without privacy": (-1 / 2, "--"), "n to the -1/3: exponential mechanism": (-1 / 3, "-.")},
    "l2": {"n to the -2/5: perturbed histogram": (-2 / (2 + WAYS), "--")},
}


def draw(path: Path) -> Drawing:
    import pyarrow as pa

    titles = {"ks": "largest difference of distribution functions", "l2": "squared L2 distance of densities"}
    colours = (
        "#222222",
        "#00429d",
        "#b3491a",
        "#999999",
        "#3f7f4f",
        "#7a3b8f",
        "#c9a227",
        "#4aa5c9",
        "#c2517b",
        "#000080",
    )
    with house_style():
        canvas = Canvas(9.5, 4.2, columns=2)
        rows = []
        for axis, (column, title) in zip(canvas.axes[0], titles.items(), strict=True):
            for colour, (method, points) in zip(colours, means(path, column).items(), strict=True):
                style = ":" if method == "no noise" else "-"
                axis.plot(
                    [n for n, _ in points], [e for _, e in points], style, color=colour, label=method, linewidth=1
                )
                rows += [{"distance": column, "method": method, "people": n, "error": e} for n, e in points]
            start = max(points[0][1] for points in means(path, column).values())
            for name, (power, dashes) in BOUNDS[column].items():
                axis.plot(PEOPLE, [start * (n / PEOPLE[0]) ** power for n in PEOPLE], dashes, color="#777777",
                          linewidth=1, label=name)  # fmt: skip
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_xticks(PEOPLE[::2], [f"{count:,}" for count in PEOPLE[::2]], size=7)
            ticks = [tick for tick in (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0) if tick > min(axis.get_ylim())]
            axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks], size=7)
            axis.minorticks_off()
            axis.set_xlabel("people")
            axis.set_title(title)
            axis.legend(frameon=False, fontsize=6, loc="lower left")
        return canvas.finished(pa.Table.from_pylist(rows))


def table(path: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    for column in ("ks", "l2"):
        shown = Table("method", *(f"{count:,}" for count in PEOPLE), "slope", title=column)
        for method, points in means(path, column).items():
            values = dict(points)
            shown.add_row(
                method, *(f"{values[count]:.2g}" if count in values else "" for count in PEOPLE), f"{slope(points):.2f}"
            )
        Console(width=150).print(shown)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    command, where = sys.argv[1], Path(sys.argv[2])
    if command == "run":
        run(where, int(sys.argv[3]) if len(sys.argv) > 3 else SEEDS)
    elif command == "draw":
        draw(where).save(Path(sys.argv[3]))
    else:
        table(where)
