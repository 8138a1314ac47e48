"""Saturated count models beside differential privacy: replicated uniques and utility on S3, S5 and S7.

Jackson et al. (2022) make a table less disclosive by drawing each cell from a law that is more spread out. Here their
laws stand beside private releases of the same people, so that utility can be compared at a like share of replicated
uniques (ru, in percent of the people who are unique). Run it with ``python benchmarks/measure_saturated.py [runs]``.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # papers/ is in the repository and not installed

import understudy as us
from papers.reproduced.raab import DATA_SETS, people, score, synthesize, uniques
from understudy.core.table import CodedSource, CodedTable
from understudy.privacy.randomness.streams import SeededStream

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
SPREADS = (0.5, 2.0, 10.0)
EPSILONS = ("0.5", "1", "2", "10")


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
    return release.tables


def main() -> None:
    warnings.simplefilter("ignore")
    shown = Table("data", "synthesis", "ru, % of uniques", "two-way S_pMSE", "three-way S_pMSE")
    for data_set in DATA_SETS:
        ways = {"Poisson": saturated(data_set)}
        for law in ("negative_binomial", "inverse_gaussian"):
            ways |= {f"{law}, sigma {spread:g}": saturated(data_set, law=law, sigma=spread) for spread in SPREADS}
        for method in ("histogram", "ipf"):
            for epsilon in EPSILONS:
                budget = us.PureDP(epsilon=epsilon)
                copies = [synthesize(data_set, method, budget, seed=seed)[0] for seed in range(RUNS)]
                ways[f"{method}, epsilon {epsilon}"] = tuple(copies)
        for name, copies in ways.items():
            found = score(data_set, copies)
            ru = 100 * found.uniques.mean() / uniques(data_set) if uniques(data_set) else 0.0
            shown.add_row(
                data_set,
                name,
                f"{ru:.1f}",
                f"{found.mean_utility(2).mean():.2f}",
                f"{found.mean_utility(3).mean():.2f}",
            )
    Console(width=110).print(shown)


if __name__ == "__main__":
    main()
