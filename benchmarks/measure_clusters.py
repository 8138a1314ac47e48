"""Areas found by private clustering beside public areas, and long commutes modelled apart (``commute_clusters``).

Rhode Island 2019 and a generated state. Printed: mean absolute error of the average commute of workplaces, the share
of jobs in the wrong pair of areas (tracts, or what the generated state has), and the share of very long commutes
beside the true one. Nothing was tuned on the generated state. Run it with ``python benchmarks/measure_clusters.py
FILE [seeds]``; results are added to FILE and not computed again.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # papers/ is in the repository and not installed

import numpy as np

import understudy as us
from papers.harness import data_file
from understudy.commutes.methods.commute_clusters import MOST_AREAS
from understudy.demo.commuters import make_world
from understudy.privacy.randomness.streams import SeededStream

EPSILONS = ("0.5", "2")
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "found areas": ("commute_clusters", {}),
    "found areas, long commutes not apart": ("commute_clusters", {"long_miles": "0"}),
    "200 found areas": ("commute_clusters", {"number": 200}),
    "200 found areas, long commutes not apart": ("commute_clusters", {"number": 200, "long_miles": "0"}),
    "coarse public areas": ("commute_clusters", {"areas": "COARSE"}),
    "fine public areas": ("commute_clusters", {"areas": "FINE"}),
    "fine public areas, long commutes not apart": ("commute_clusters", {"areas": "FINE", "long_miles": "0"}),
    "commute_tree": ("commute_tree", {}),
    "commute": ("commute", {}),
}


def worlds() -> dict[str, Any]:
    state = make_world("state", places=20_000, jobs=200_000, seed=33)
    return {
        "Rhode Island": us.open_commutes(
            str(data_file("lodes", "ri_od_2019.parquet")), places=str(data_file("lodes", "ri_blocks.parquet"))
        ),
        "generated state": us.open_commutes(state.flows_table(), places=state.places),
    }


def run(path: Path, seeds: int) -> None:
    done = {(one["world"], one["epsilon"], one["method"], one["seed"]) for one in _read(path)}
    for seed in range(seeds):
        for world, source in worlds().items():
            sizes = {level: len(np.unique(values)) for level, values in source.places.areas.items()}
            levels = [level for level, size in sizes.items() if 2 <= size <= MOST_AREAS]
            for epsilon in EPSILONS:
                for told, (method, options) in METHODS.items():
                    if (world, epsilon, told, seed) in done:
                        continue
                    chosen = {
                        name: levels[0] if value == "COARSE" else levels[-1] if value == "FINE" else value
                        for name, value in options.items()
                    }
                    release = us.synthesize(
                        source, method=method, budget=us.PureDP(epsilon=epsilon), stream=SeededStream(seed), **chosen
                    )
                    frames = us.evaluate(release, source).utility.frames
                    rows = {(row["commutes"], row["workers"]): row for row in frames["commute_distance"].to_pylist()}
                    long = frames["long_commutes"].to_pylist()[0]
                    flows = frames["flows"].to_pylist()
                    line = {
                        "world": world, "epsilon": epsilon, "method": told, "seed": seed,
                        "miles": rows["all", "all"]["mean_absolute_error"], "flows": flows[-2]["misplaced"],
                        "between": flows[-2]["between"], "long": long["synthetic_share"], "true": long["true_share"],
                    }  # fmt: skip
                    with path.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(line) + "\n")


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def show(path: Path) -> None:
    lines = _read(path)
    for world in dict.fromkeys(one["world"] for one in lines):
        for epsilon in EPSILONS:
            for told in METHODS:
                own = [one for one in lines if (one["world"], one["epsilon"], one["method"]) == (world, epsilon, told)]
                if own:
                    miles, flows, long, true = (
                        mean(one[name] for one in own) for name in ("miles", "flows", "long", "true")
                    )
                    print(
                        f"{world:16} {epsilon:>4} {told:43} {miles:6.2f} {flows:.3f} ({own[0]['between']}) "
                        f"{long:.4f} of {true:.4f} {len(own)}"
                    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    run(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3)
    show(Path(sys.argv[1]))
