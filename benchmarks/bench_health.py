"""What the health check of the samplers costs, and how often it finds a wrong scale.

CPU seconds, least of some repetitions, libraries loaded. The ratio says how much noise a release could draw in the same
time: machines differ, and ratios within one run differ least. Nothing here is a test.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from rich.console import Console
from rich.table import Table

from understudy.core.mechanism import Integers, SelectionLaw
from understudy.errors import DisclosureError
from understudy.privacy.randomness.sampler_health import check_samplers
from understudy.privacy.randomness.streams import SecureStream

DOCS = Path(__file__).parent.parent / "docs" / "benchmarks" / "machine.md"
HEADING = "## Health check of the samplers"
NOISE = 100_000


class Rescaled(SecureStream):
    """The secure samplers, asked for another scale than the one that is charged."""

    __slots__ = ("_factor",)

    def __init__(self, factor: float) -> None:
        super().__init__()
        self._factor = Fraction(factor)

    def discrete_laplace(self, scale: Fraction, size: int) -> Integers:
        return super().discrete_laplace(Fraction(float(scale * self._factor)), size)

    def discrete_gaussian(self, scale: Fraction, size: int) -> Integers:
        return super().discrete_gaussian(Fraction(float(scale * self._factor)), size)

    def noisy_argmax(self, scores: Integers, scale: Fraction, law: SelectionLaw = "exponential") -> int:
        return super().noisy_argmax(scores, Fraction(float(scale * self._factor)), law)


def cpu_of(step: Callable[[], object], repeats: int) -> float:
    spent = []
    for _ in range(repeats):
        start = time.process_time()
        step()
        spent.append(time.process_time() - start)
    return min(spent)


def refused(factor: float) -> bool:
    try:
        check_samplers(Rescaled(factor))
    except DisclosureError:
        return True
    return False


def measure(repeats: int) -> tuple[list[tuple[str, float]], list[tuple[float, int]]]:
    stream = SecureStream()
    stream.discrete_laplace(Fraction(3), 10)  # loads the library
    costs = [
        ("health check, once per process", cpu_of(lambda: check_samplers(SecureStream()), repeats)),
        (f"Laplace noise on {NOISE:,} cells", cpu_of(lambda: stream.discrete_laplace(Fraction(5), NOISE), repeats)),
        (f"Gaussian noise on {NOISE:,} cells", cpu_of(lambda: stream.discrete_gaussian(Fraction(5), NOISE), repeats)),
    ]
    return costs, [(factor, sum(refused(factor) for _ in range(repeats))) for factor in (0.7, 0.9, 1.0, 1.1, 1.4)]


def markdown(costs: list[tuple[str, float]], found: list[tuple[float, int]], repeats: int) -> str:
    lines = [
        HEADING,
        "",
        "`benchmarks/bench_health.py`: CPU seconds, least of some repetitions, libraries loaded; the ratio is to the "
        "health check. Limit: 2 CPU seconds.",
        "",
        f"Machine: {platform.machine()}, Python {platform.python_version()}.",
        "",
        "| step | CPU seconds | ratio |",
        "|---|---|---|",
        *(f"| {step} | {cpu:.2f} | {cpu / costs[0][1]:.2f} |" for step, cpu in costs),
        "",
        "| samplers draw with the scale times | refused |",
        "|---|---|",
        *(f"| {factor:g} | {count} of {repeats} |" for factor, count in found),
    ]
    return "\n".join(lines) + "\n"


def write_docs(section: str) -> None:
    """Replace this benchmark's section of the page and leave the others."""
    before, _, rest = DOCS.read_text().partition(HEADING + "\n")
    after = rest[rest.index("\n## ") + 1 :] if "\n## " in rest else ""
    DOCS.write_text(f"{before.rstrip()}\n\n{section}" + (f"\n{after}" if after else ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--write-docs", action="store_true", help="put the tables into docs/benchmarks/machine.md")
    options = parser.parse_args()
    costs, found = measure(options.repeats)
    table = Table("step", "CPU s", "ratio")
    for step, cpu in costs:
        table.add_row(step, f"{cpu:.2f}", f"{cpu / costs[0][1]:.2f}")
    Console().print(table)
    power = Table("scale times", "refused")
    for factor, count in found:
        power.add_row(f"{factor:g}", f"{count} of {options.repeats}")
    Console().print(power)
    if options.write_docs:
        write_docs(markdown(costs, found, options.repeats))


if __name__ == "__main__":
    main()
