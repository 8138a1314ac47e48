"""The default beside each of its own methods, on settings drawn from seeds: how far it is from the best of them.

    python benchmarks/bench_choice.py --results FILE [--file FILE | TEXT ...] [--runs 3] [--methods a,b] [--show]
    python benchmarks/bench_choice.py --results FILE --draw 40 --seed 7
    UNDERSTUDY_PEER_DPSYNTH=PYTHON python benchmarks/bench_choice.py --results FILE --methods auto,dpsynth-swift TEXT

Every line of results is one synthesis (JSON); those already there are not repeated, so a long run can be stopped and
continued. Noise is seeded, rows are drawn by rounding, unit ``add_remove``, delta 1e-9, as many rows as the data have.
``uniform``: rows drawn evenly over all cells, what no method may be worse than.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import tempfile
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import understudy as us
from bench_margins import PEERS, limited, peer_command
from choice_data import Setting, draw_settings, make, predicted, read_setting, score
from understudy.errors import UnderstudyError
from understudy.privacy.randomness.streams import SeededStream
from understudy.synth.methods.auto import MODEL_CELLS

METHODS = ("auto", "one_look", "mst", "aim", "ipf", "independent", "histogram", "uniform")
LEAST = 0.05  # an error of a twentieth of what a sample has is as good as none: ratios count it as that
FORECAST = re.compile(r"mean S_pMSE about ([0-9.e+-]+)")
PATIENCE = 90  # CPU seconds after which a method is not run again on a setting


def run(setting: Setting, method: str, seed: int, *, areas: bool = True) -> dict[str, Any]:
    """One synthesis and its errors; with the areas under the curve, which cost more than most syntheses."""
    schema, table = make(setting)
    begin, said = time.process_time(), {}
    if method.partition("-")[0] in PEERS:
        return run_peer(setting, method, schema, table)
    if method == "ipf" and schema.cells() > MODEL_CELLS:
        return {"refused": "auto offers no model of so many cells, and fitting it takes minutes"}
    if method == "uniform":
        rng = np.random.default_rng(seed)
        drawn = pa.table({
            name: rng.integers(0, size, table.num_rows) for name, size in zip(schema.names, schema.shape(), strict=True)
        })  # fmt: skip
    else:
        source = us.open_source(table, schema)
        try:
            release = us.synthesize(source, method=method, budget=setting.budget, unit="add_remove",
                                    rows=table.num_rows, stream=SeededStream(seed))  # fmt: skip
        except UnderstudyError as error:
            return {"refused": str(error)[:200]}
        frame = release.frame(1)
        drawn = pa.table({
            name: pa.array(np.asarray(frame[name].to_pylist(), dtype=np.int64)) for name in schema.names
        })  # fmt: skip
        plan = release.provenance.plan
        said = {
            "took": plan.method if plan is not None else method,
            "pairs": sum(len(one.margin) == 2 for one in release.measurements),
            "tables": len({one.margin for one in release.measurements}),
            "notes": [note[:200] for note in release.provenance.notes],
            "forecast": forecast_of(plan.notes) if plan is not None else None,
        }
    cpu = time.process_time() - begin
    two, three = score(schema, table, drawn)
    if areas:
        outcome, trees, logit = predicted(schema, table, drawn)
        said |= {"outcome": outcome, "auc_trees": trees, "auc_logit": logit}
    return {"u2": two, "u3": three, "cpu": cpu, **said}


def run_peer(setting: Setting, method: str, schema: us.Schema, table: pa.Table) -> dict[str, Any]:
    """One synthesis by another project, in its own environment (as in ``bench_margins``)."""
    named = PEERS[method.partition("-")[0]]
    python = os.environ.get(named)
    if not python:
        return {"refused": f"{named} is not set"}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.parquet"
        command = peer_command(python, method, schema, table, Path(folder), epsilon=setting.epsilon, pure=setting.pure,
                               out=out)  # fmt: skip
        done = limited(command, 600)
        if done.returncode:
            return {"refused": f"code {done.returncode}: {done.stderr[-200:]}"}
        two, three = score(schema, table, parquet.read_table(out))
    said = json.loads(done.stdout.strip().splitlines()[-1])
    return {"u2": two, "u3": three, "cpu": said["cpu"], "mb": said["mb"]}


def forecast_of(notes: tuple[str, ...]) -> float | None:
    """The expected error that a plan states."""
    found = [match for note in notes if (match := FORECAST.search(note))]
    return float(found[0][1]) if found else None


def show(lines: list[dict[str, Any]], order: list[str]) -> None:
    """A line for each setting: mean U2 of each method, what ``auto`` took, and its ratio to the best other."""
    grouped: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        grouped[line["setting"]][line["method"]].append(line)
    print(
        "Mean U2 / U3 / area under the curve of boosted trees, trained on synthetic and tested on real (CPU seconds)."
    )
    columns = [*METHODS, *sorted({one["method"] for one in lines} - set(METHODS))]
    print("| setting | " + " | ".join(columns) + " | auto / best own |")
    print("|---|" + "---|" * (len(columns) + 1))
    ratios = []
    for name in [one for one in order if one in grouped] if order else grouped:
        methods = grouped[name]
        means: dict[str, float] = {}
        shown = []
        for method in columns:
            good = [one for one in methods.get(method, []) if "u2" in one]
            if not good:
                shown.append("no" if any("refused" in one for one in methods.get(method, [])) else "")
                continue
            means[method] = statistics.fmean(one["u2"] for one in good)
            took = f" {'/'.join(sorted({one['took'] for one in good}))}" if method == "auto" else ""
            cpu = statistics.median(one["cpu"] for one in good)
            third = statistics.fmean(one["u3"] for one in good)
            area = statistics.fmean(one["auc_trees"] for one in good) if "auc_trees" in good[0] else float("nan")
            shown.append(f"{means[method]:.2f} / {third:.2f} / {area:.2f}{took} ({cpu:.1f})")
        others = [mean for method, mean in means.items() if method in METHODS and method != "auto"]
        if "auto" in means and others:
            ratios.append(max(means["auto"], LEAST) / max(min(others), LEAST))
            shown.append(f"{ratios[-1]:.2f}")
        print(f"| {name} | " + " | ".join(shown) + " |")
    if ratios:
        beyond = sum(one > 1.25 for one in ratios)
        print(f"\n{len(ratios)} settings: auto / best own {statistics.fmean(ratios):.3f} on average, at most "
              f"{max(ratios):.2f}, {beyond} beyond 1.25.")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("settings", nargs="*", help="settings, each in quotes")
    parser.add_argument("--file", type=Path, help="a file with a setting on every line")
    parser.add_argument("--draw", type=int, default=0, help="how many settings to draw")
    parser.add_argument("--seed", type=int, default=0, help="from which seed")
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--cpu", type=float, default=float("inf"), help="CPU seconds after which to stop")
    parser.add_argument("--no-areas", action="store_true", help="without areas under the curve, which take longest")
    parser.add_argument("--show", action="store_true", help="only print what is there")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    texts = list(asked.settings)
    if asked.file:
        texts += [line for line in asked.file.read_text().splitlines() if line.strip() and not line.startswith("#")]
    settings = [*map(read_setting, texts), *draw_settings(asked.seed, asked.draw)]
    done = [json.loads(line) for line in asked.results.read_text().splitlines()] if asked.results.exists() else []
    if not asked.show:
        for seed in range(asked.runs):
            for setting in settings:
                for method in asked.methods.split(","):
                    mine = [one for one in done if (one["setting"], one["method"]) == (setting.name, method)]
                    known = any(one["seed"] == seed or "refused" in one or one["cpu"] > PATIENCE for one in mine)
                    if known or time.process_time() > asked.cpu:
                        continue
                    made = run(setting, method, seed, areas=not asked.no_areas)
                    found = {"setting": setting.name, "method": method, "seed": seed, **made}
                    done.append(found)
                    with asked.results.open("a") as file:
                        file.write(json.dumps(found) + "\n")
    show(done, [one.name for one in settings])


if __name__ == "__main__":
    main()
