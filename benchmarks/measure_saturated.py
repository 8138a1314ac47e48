"""Saturated count models beside differential privacy: replicated uniques and utility on S3, S5 and S7.

Jackson et al. (2022) make a table less disclosive by drawing each cell from a law that is more spread out. Here their
laws stand beside private releases of the same people, so that utility can be compared at a like share of replicated
uniques (ru, in percent of the people who are unique). Run it with ``python benchmarks/measure_saturated.py run FILE
[runs]``; results are added to FILE and not computed again. ``table FILE`` prints them, ``draw FILE IMAGE`` draws them.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # papers/ is in the repository and not installed

import understudy as us
from papers.reproduced.raab import DATA_SETS, people, score, synthesize, uniques
from understudy.core.table import CodedSource, CodedTable
from understudy.figures.drawing import Canvas, Drawing, house_style
from understudy.privacy.randomness.streams import SeededStream

RUNS = int(sys.argv[3]) if sys.argv[1:2] == ["run"] and len(sys.argv) > 3 else 5
SPREADS = (0.2, 0.5, 2.0, 10.0, 50.0)
ADDED = (0.001, 0.01, 0.1, 1.0)  # records added to every possible cell before Poisson draws
EPSILONS = ("0.1", "0.25", "0.5", "1", "2", "4", "10")


def saturated(data_set: str, **options: Any) -> tuple[CodedTable, ...]:
    original = people(data_set)
    release = us.synthesize(
        CodedSource(original),
        method="saturated",
        budget=us.NonPrivate(),
        copies=RUNS,
        stream=SeededStream(1),
        **options,
    )
    return tuple(release.coded(copy) for copy in range(1, RUNS + 1))


def settings(data_set: str) -> dict[tuple[str, str], Callable[[], tuple[CodedTable, ...]]]:
    """Ways to make tables, by family and setting."""
    ways: dict[tuple[str, str], Callable[[], tuple[CodedTable, ...]]] = {}
    ways["Poisson", "0"] = partial(saturated, data_set)
    for added in ADDED:
        ways["Poisson", f"{added:g}"] = partial(saturated, data_set, alpha=added)
    for law in ("negative_binomial", "inverse_gaussian"):
        for spread in SPREADS:
            ways[law.replace("_", " "), f"{spread:g}"] = partial(saturated, data_set, law=law, sigma=spread)
    for method in ("histogram", "ipf"):
        for epsilon in EPSILONS:
            ways[method, epsilon] = partial(private, data_set, method, epsilon)
    return ways


def private(data_set: str, method: str, epsilon: str) -> tuple[CodedTable, ...]:
    budget = us.PureDP(epsilon=epsilon)
    return tuple(synthesize(data_set, method, budget, seed=seed)[0] for seed in range(RUNS))


def run(path: Path) -> None:
    done = {(one["data"], one["family"], one["setting"]) for one in _read(path)}
    for data_set in DATA_SETS:
        for (family, setting), make in settings(data_set).items():
            if (data_set, family, setting) in done:
                continue
            found = score(data_set, make())
            ru = 100 * float(found.uniques.mean()) / uniques(data_set) if uniques(data_set) else 0.0
            two, three = (float(found.mean_utility(way).mean()) for way in (2, 3))
            line = {"data": data_set, "family": family, "setting": setting, "ru": ru, "two": two, "three": three}
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def table(path: Path) -> None:
    shown = Table("data", "family", "setting", "ru, % of uniques", "two-way S_pMSE", "three-way S_pMSE")
    for one in _read(path):
        numbers = f"{one['ru']:.1f}", f"{one['two']:.2f}", f"{one['three']:.2f}"
        shown.add_row(one["data"], one["family"], one["setting"], *numbers)
    Console(width=110).print(shown)


def draw(path: Path) -> Drawing:
    """One panel for each data set that has uniques: utility by the share of uniques that are repeated."""
    import pyarrow as pa

    rows = [one for one in _read(path) if one["data"] != "S3"]  # nobody is unique there
    families = list(dict.fromkeys(one["family"] for one in rows))
    colours = ("#999999", "#b3491a", "#c9a227", "#00429d", "#3f7f4f")
    with house_style():
        canvas = Canvas(9.0, 3.8, columns=2)
        for axis, data_set in zip(canvas.axes[0], ("S5", "S7"), strict=True):
            for colour, family in zip(colours, families, strict=True):
                own = [one for one in rows if one["data"] == data_set and one["family"] == family]
                private_one = family in ("histogram", "ipf")
                axis.plot([one["ru"] for one in own], [one["three"] for one in own], "o-" if private_one else "s--",
                          color=colour, markersize=3, linewidth=1, label=family)  # fmt: skip
                for one in own:
                    axis.text(one["ru"], one["three"], f" {one['setting']}", size=5, color=colour)
            axis.set_yscale("log")
            ticks = [tick for tick in (1, 3, 10, 30, 100, 300) if tick < max(one["three"] for one in rows)]
            axis.set_yticks(ticks, [f"{tick}" for tick in ticks], size=7)
            axis.minorticks_off()
            axis.set_xlabel("replicated uniques, % of uniques")
            axis.set_title(f"{data_set}: mean three-way S_pMSE (1 is perfect)")
        canvas.axes[0, 0].legend(frameon=False, fontsize=6)
        return canvas.finished(pa.Table.from_pylist(rows))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    where = Path(sys.argv[2])
    if sys.argv[1] == "run":
        run(where)
    elif sys.argv[1] == "draw":
        draw(where).save(Path(sys.argv[3]))
    else:
        table(where)
