"""Accuracy and cost of the margin methods beside other projects: mean S_pMSE of all two-way / three-way tables.

    python benchmarks/bench_margins.py [--results FILE] [--seeds 10] [--at-once 1] [--only TEXT] [--peers | --ours]

Results are appended to FILE (one line of JSON per synthesis), runs already there are not repeated, and the tables are
printed from all of it: a long run can be stopped and continued. Seeds are the outermost loop, in steps of
``--at-once``, so every line has runs early. Unit ``add_remove``, as many rows as the data have, as a constant.

Other projects run in environments of their own, named by variables: UNDERSTUDY_PEER_MBI (a Python with mbi 2.x),
UNDERSTUDY_PEER_OPENDP (with opendp[mbi,polars]), UNDERSTUDY_PEER_DPMM (with dpmm), UNDERSTUDY_PEER_DPSYNTH (with
dpsynth of its public repository). One that is not named is left out, and the table says so. A peer that runs out of
time once (TIMEOUT CPU seconds) is not tried again on the same data.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

import understudy as us
from margin_data import DATA, load, score
from understudy.privacy.promise.conversion import cdp_rho
from understudy.privacy.randomness.streams import SecureStream

DELTA = Fraction(1, 10**9)
PEERS = {
    "mbi": "UNDERSTUDY_PEER_MBI", "opendp": "UNDERSTUDY_PEER_OPENDP", "dpmm": "UNDERSTUDY_PEER_DPMM",
    "dpsynth": "UNDERSTUDY_PEER_DPSYNTH",
}  # fmt: skip
OURS_TIMEOUT = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One line of the table. ``pure``: (epsilon, 0); else (epsilon, 1e-9)."""

    data: str
    method: str
    epsilon: str = "1"
    pure: bool = False

    @property
    def ours(self) -> bool:
        return self.method.split("-")[0] not in PEERS

    @property
    def rows_by(self) -> str:
        """How a peer draws the rows that ours are compared with."""
        return "rounding" if self.method.startswith("dpsynth") else "multinomial"

    @property
    def name(self) -> str:
        return f"{self.data} {self.method} {self.epsilon} {'pure' if self.pure else 'delta'}"


def cases() -> list[Case]:
    """Ours in every setting that has a target, and the peers where they can be compared like with like."""
    found = [
        Case(data=data, method="auto", epsilon=epsilon, pure=True)
        for data in ("S3", "S5", "S7")
        for epsilon in ("0.1", "0.5", "1", "2")
    ]
    found += [Case(data="S7", method=method) for method in ("auto", "aim", "mst")]
    found += [Case(data="NLTCS", method=method) for method in ("auto", "aim")]
    found += [Case(data=data, method=method) for data in ("Adult", "MA") for method in ("auto", "mst")]
    found += [Case(data=data, method="auto") for data in ("wide35", "wide50", "wide200")]
    found += [Case(data=data, method="mbi-pairs", pure=True) for data in ("S5", "S7")]
    found += [Case(data="S7", method=method) for method in ("mbi-pairs", "opendp-aim", "opendp-mst", "dpmm-mst")]
    found += [
        Case(data="NLTCS", method=method)
        for method in ("mbi-pairs", "opendp-mst", "opendp-aim", "dpmm-mst", "dpmm-aim")
    ]
    found += [
        Case(data=data, method=method)
        for data in ("Adult", "MA")
        for method in ("opendp-mst", "opendp-aim", "dpmm-mst", "dpmm-aim")
    ]
    found += [
        Case(data=data, method=method)
        for method in ("dpsynth-swift", "dpsynth-mst", "dpsynth-aim")
        for data in ("S7", "NLTCS", "Adult", "MA")
    ]
    return found


def run_ours(case: Case, folder: Path, seeds: list[int]) -> list[dict[str, Any]]:
    """In a process of its own, so that memory and libraries are its own too: both ways to draw rows.

    The first synthesis of the process loads what it needs; its CPU seconds include that.
    """
    schema, table, rows = load(case.data)
    found = []
    for seed in seeds:
        begin = time.process_time()
        release = _release(case, schema, table, rows, by="rounding")
        one: dict[str, Any] = {"seed": seed, "cpu": time.process_time() - begin}
        one["mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        plan = release.provenance.plan
        one["method"] = plan.method if plan is not None else case.method
        parquet.write_table(_plain(release.frame(1)), folder / f"rounding_{seed}.parquet")
        if release.fitted is not None:  # independent rows from the same model
            drawn = replace(release.fitted, rows_by="multinomial").draw(schema, rows, SecureStream(), "rows")
            independent = pa.table({name: pa.array(drawn.columns[name].astype("int64")) for name in schema.names})
        else:
            independent = _plain(_release(case, schema, table, rows, by="multinomial").frame(1))
        parquet.write_table(independent, folder / f"multinomial_{seed}.parquet")
        found.append(one)
    return found


def _release(case: Case, schema: us.Schema, table: pa.Table, rows: int, *, by: str) -> us.Release:
    epsilon = Fraction(case.epsilon)
    budget = us.PureDP(epsilon=epsilon) if case.pure else us.ApproxDP(epsilon=epsilon, delta=DELTA)
    source = us.open_source(table, schema)
    return us.synthesize(source, method=case.method, budget=budget, unit="add_remove", rows=rows, rows_by=by)


def _plain(table: pa.Table) -> pa.Table:
    columns = [column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
               for column in table.columns]  # fmt: skip
    return pa.table([column.cast(pa.int64()) for column in columns], names=table.column_names)


def peer_command(
    python: str, method: str, schema: us.Schema, table: pa.Table, folder: Path, *, epsilon: str, pure: bool, out: Path
) -> list[str]:
    """What runs a peer on a table, with as many rows as the table has."""
    parquet.write_table(table, folder / "data.parquet")
    (folder / "domain.json").write_text(json.dumps(dict(zip(schema.names, schema.shape(), strict=True))))
    rho = 0.0 if pure else float(cdp_rho(Fraction(epsilon), DELTA))
    return [python, str(Path(__file__).with_name("margin_peers.py")), method, str(folder / "data.parquet"),
            str(folder / "domain.json"), epsilon, str(rho), str(table.num_rows), str(out)]  # fmt: skip


def limited(command: list[str], limit: int) -> subprocess.CompletedProcess[str]:
    """A command on one core, ended after some CPU seconds."""
    one_core = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu",
                "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"}  # fmt: skip
    command = ["/bin/sh", "-c", f'ulimit -t {limit}; exec "$@"', "sh", *command]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=one_core)


def run_case(case: Case, folder: Path, seeds: list[int], patience: int) -> list[dict[str, Any]]:
    """Some syntheses in a child process, scored here; a failure is a result too."""
    schema, table, _ = load(case.data)
    if case.ours:
        wanted = [case.data, case.method, case.epsilon, case.pure, seeds]
        command = [sys.executable, __file__, "--one", json.dumps(wanted), "--folder", str(folder)]
        limit = OURS_TIMEOUT * len(seeds)
    else:
        python = os.environ.get(PEERS[case.method.split("-")[0]])
        if not python:
            return [{"seed": seeds[0], "absent": f"{PEERS[case.method.split('-')[0]]} is not set"}]
        seeds = seeds[:1]
        command = peer_command(python, case.method, schema, table, folder, epsilon=case.epsilon, pure=case.pure,
                               out=folder / f"{case.rows_by}_{seeds[0]}.parquet")  # fmt: skip
        limit = patience
    done = limited(command, limit)
    if done.returncode in (-signal.SIGKILL, -signal.SIGXCPU):
        return [{"seed": seeds[0], "failed": f"not finished after {limit} CPU s"}]
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        begin = max((at for at, line in enumerate(lines) if "Error" in line or "Exception" in line), default=0)
        return [{"seed": seeds[0], "failed": " ".join(lines[begin : begin + 4])[:300] or "no message"}]
    said = json.loads(done.stdout.strip().splitlines()[-1])
    found = said if isinstance(said, list) else [{"seed": seeds[0], **said}]
    for one in found:
        for by in ("rounding", "multinomial"):
            file = folder / f"{by}_{one['seed']}.parquet"
            if file.exists():
                one[f"u_{by}"] = score(schema, table, parquet.read_table(file))
    return list(found)


def _mean(values: list[float]) -> str:
    spread = f" ({statistics.stdev(values):.2f})" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.2f}{spread}"


def _both(runs: list[dict[str, Any]], by: str) -> str:
    found = [run[f"u_{by}"] for run in runs if f"u_{by}" in run]
    ways = [[pair[way] for pair in found] for way in (0, 1)]
    return " / ".join(_mean(values) for values in ways if values and not math.isnan(values[0]))


def show(results: list[dict[str, Any]]) -> None:
    """One Markdown line per case: means with standard deviations between syntheses in parentheses."""
    grouped: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for result in results:
        grouped[result["case"]].append(result)
    print("| data, method, eps, guarantee | runs | low-variance rows: U2 / U3 (sd) | independent rows | CPU s | MB |")
    print("|---|---|---|---|---|---|")
    for case in cases():
        runs = grouped.get(case.name, [])
        good = [run for run in runs if "mb" in run]
        if not good:
            why = next((run.get("failed") or run.get("absent") for run in runs), None)
            if why:
                print(f"| {case.name} | 0 | {why} | | | |")
            continue
        made = good[0].get("method", case.method)
        name = case.name if made == case.method else case.name.replace(case.method, f"{case.method} ({made})")
        print(
            f"| {name} | {len(good)} | {_both(good, 'rounding')} | {_both(good, 'multinomial')} "
            f"| {statistics.median(run['cpu'] for run in good):.1f} | {max(run['mb'] for run in good):.0f} |"
        )


def compare(results: list[dict[str, Any]]) -> None:
    """Ours less each peer's, as an upper limit of the difference of means (Welch, one-sided 95%).

    Rows are independent on both sides, or rounded on both where the peer rounds. Below 0: ours is better, established.
    A line is printed wherever both have two runs or more; a peer with one run stands in the table above, without an
    interval. ``behind`` says where our mean is the larger one.
    """
    from scipy.stats import t

    scores: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
    for result in results:
        for by in ("rounding", "multinomial"):
            if f"u_{by}" in result:
                scores[result["case"], by].append(result[f"u_{by}"])
    print("\n| comparison | runs | U2: difference (upper limit) | U3: difference (upper limit) | |")
    print("|---|---|---|---|---|")
    for peer in (case for case in cases() if not case.ours):
        mine, theirs = (scores[case.name, peer.rows_by] for case in (replace(peer, method="auto"), peer))
        if len(mine) < 2 or len(theirs) < 2:
            continue
        cells, limits, differences = [], [], []
        for way in (0, 1):
            one, other = ([run[way] for run in runs] for runs in (mine, theirs))
            parts = [statistics.variance(values) / len(values) for values in (one, other)]
            spread = sum(parts)
            freedom = spread**2 / sum(
                part**2 / (len(values) - 1) for part, values in zip(parts, (one, other), strict=True)
            )
            differences.append(statistics.fmean(one) - statistics.fmean(other))
            limits.append(differences[-1] + float(t.ppf(0.95, freedom)) * spread**0.5)
            cells.append(f"{differences[-1]:+.2f} ({limits[-1]:+.2f})")
        verdict = "better" if max(limits) < 0 else "**behind**" if max(differences) > 0 else "not shown"
        runs = f"{len(mine)}, {len(theirs)}"
        print(f"| {peer.data}: ours less {peer.method} | {runs} | {cells[0]} | {cells[1]} | {verdict} |")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--results", type=Path, default=Path("bench_margins.jsonl"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--at-once", type=int, default=1, help="syntheses of ours in one process")
    parser.add_argument("--only", default="", help="parts of names, separated by commas; run in this order")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--ours", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--beside", type=Path, action="append", default=[], help="more results to show")
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--patience", type=int, default=600, help="CPU seconds of one synthesis by a peer")
    parser.add_argument("--one")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.one:
        data, method, epsilon, pure, seeds = json.loads(given.one)
        print(json.dumps(run_ours(Case(data=data, method=method, epsilon=epsilon, pure=pure), given.folder, seeds)))
        return
    if not DATA.is_dir():
        print(f"skipped: no data at {DATA}; set UNDERSTUDY_DATA.")
        return
    results = [json.loads(line) for line in given.results.read_text().splitlines()] if given.results.exists() else []
    results += [json.loads(line) for file in given.beside for line in file.read_text().splitlines()]
    begin = time.monotonic()
    at_once = 1 if given.show else given.at_once
    wanted = [
        (place, case) for case in cases() for place, text in enumerate(given.only.split(",")) if text in case.name
    ]
    chosen = [case for _, case in sorted(wanted, key=lambda pair: pair[0])]
    for first in range(0, 0 if given.show else given.seeds, at_once):
        for case in chosen:
            if (given.peers and case.ours) or (given.ours and not case.ours):
                continue
            earlier = [run for run in results if run["case"] == case.name]
            gave_up = any("failed" in run or "absent" in run for run in earlier)
            done = {run["seed"] for run in earlier}
            seeds = [seed for seed in range(first, min(first + at_once, given.seeds)) if seed not in done]
            if gave_up or not seeds or time.monotonic() - begin > 60 * given.minutes:
                continue
            with tempfile.TemporaryDirectory() as folder:
                made = [{"case": case.name, **run} for run in run_case(case, Path(folder), seeds, given.patience)]
            results += made
            with given.results.open("a") as file:
                file.writelines(json.dumps(run) + "\n" for run in made)
            print(*(json.dumps(run) for run in made), sep="\n", file=sys.stderr, flush=True)
    show(results)
    compare(results)


if __name__ == "__main__":
    main()
