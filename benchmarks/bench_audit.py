"""What exact audits and calibrations cost: CPU seconds and peak memory, each in a process of its own.

The target of the first line, a million cells with 10,000 records and 10,000 rows drawn, is 2 CPU seconds and 500 MB.
CPU seconds are user and system time after loading the libraries, the least of some repetitions. Nothing here is a test.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

import understudy as us
from understudy.privacy.promise.calibrate_dirichlet import exact_breach_prior

DOCS = Path(__file__).parent.parent / "docs" / "benchmarks" / "machine.md"
HEADING = "## Exact audit and calibration"


def _draw(prior: float, cells: int, size: int) -> us.DirichletMultinomial:
    return us.DirichletMultinomial(prior=(prior,) * cells, rows=size)


def _delta(prior: float, cells: int, size: int, unit: str = "replace", copies: int = 1) -> float:
    return us.audit(_draw(prior, cells, size), records=size, unit=unit, copies=copies).delta(2.0)


def _prior(cells: int, size: int, epsilon: float, delta: float) -> float:
    budget = us.ApproxDP(epsilon=epsilon, delta=delta)
    return us.calibrate(us.DirichletMultinomial, budget, records=size, rows=size, cells=cells).prior


STEPS: dict[str, Callable[[], float]] = {
    "delta(2), n = m = 10,000, a million cells, prior 0.5": lambda: _delta(0.5, 1_000_000, 10_000),
    "delta(2), n = m = 10,000, a million cells, prior 0.01": lambda: _delta(0.01, 1_000_000, 10_000),
    "delta(2), n = m = 10,000, three cells, prior 0.5": lambda: _delta(0.5, 3, 10_000),
    "delta(2), n = m = 10,000, two cells (all splits scanned)": lambda: _delta(0.5, 2, 10_000),
    "delta(2), up to 10,000 rows, add_remove (all sizes scanned)": lambda: _delta(0.5, 1_000_000, 10_000, "add_remove"),
    "delta(2) of 10 copies, n = m = 100, 10,000 cells": lambda: _delta(2.0, 10_000, 100, copies=10),
    "exact prior, (1, 1e-9), n = m = 10,000, a million cells": lambda: _prior(1_000_000, 10_000, 1, 1e-9),
    "exact prior, (4.6, 1e-5), n = m = 15, 233,726 cells": lambda: _prior(233_726, 15, 4.6, 1e-5),
    "breach prior, every jump, (4.6, 1e-5), n = m = 15, 233,726 cells": lambda: exact_breach_prior(
        4.6, 1e-5, 233_726, 15, 15
    )[0],
    "Gaussian scale, 45 margins, (1, 1e-9)": lambda: (
        us.calibrate(us.DiscreteGaussian, us.ApproxDP(epsilon=1, delta=1e-9), margins=45).scale
    ),
}


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run_here(step: str, repeats: int) -> dict[str, float]:
    us.audit(us.DirichletMultinomial(prior=(1, 1, 1), rows=2), records=2).delta(1.0)  # loads the libraries
    spent = []
    value = 0.0
    for _ in range(repeats):
        start = cpu()
        value = STEPS[step]()
        spent.append(cpu() - start)
    return {"value": value, "cpu": min(spent), "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def run_apart(step: str, repeats: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--step", step, "--repeats", str(repeats)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def markdown(results: dict[str, dict[str, float]]) -> str:
    lines = [
        HEADING,
        "",
        "`benchmarks/bench_audit.py`: CPU seconds (least of some repetitions, libraries loaded) and peak memory of the "
        "whole process. Target of the first line: 2 CPU seconds, 500 MB.",
        "",
        f"Machine: {platform.machine()}, Python {platform.python_version()}.",
        "",
        "| step | result | CPU seconds | MB |",
        "|---|---|---|---|",
        *(
            f"| {step} | {cost['value']:.6g} | {cost['cpu']:.3f} | {cost['memory']:.0f} |"
            for step, cost in results.items()
        ),
    ]
    return "\n".join(lines) + "\n"


def write_docs(section: str) -> None:
    """Replace this benchmark's section of the page and leave the others."""
    start = "# Benchmarks\n\nEach section is the output of one `make bench` script.\n"
    page = DOCS.read_text() if DOCS.exists() else start
    before, _, rest = page.partition(HEADING + "\n")
    after = rest[rest.index("\n## ") + 1 :] if "\n## " in rest else ""
    DOCS.write_text(f"{before.rstrip()}\n\n{section}" + (f"\n{after}" if after else ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/benchmarks/machine.md")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        print(json.dumps(run_here(options.step, options.repeats)))
        return
    results = {step: run_apart(step, options.repeats) for step in STEPS}
    table = Table("step", "result", "CPU s", "MB")
    for step, cost in results.items():
        table.add_row(step, f"{cost['value']:.6g}", f"{cost['cpu']:.3f}", f"{cost['memory']:.0f}")
    Console(width=130).print(table)
    if options.write_docs:
        write_docs(markdown(results))


if __name__ == "__main__":
    main()
