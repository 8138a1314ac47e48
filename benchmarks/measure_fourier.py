"""Noise on Fourier coefficients (Barak et al. 2007) beside noise on tables: S5, S7 and NLTCS.

All three methods end with the same joint fit, so the difference is in what was measured. NLTCS has attributes of two
levels, for which the coefficients were made; those of S5 and S7 have up to ten. Run it with ``python
benchmarks/measure_fourier.py [runs]``.
"""

from __future__ import annotations

import sys
import time
import warnings
from statistics import mean

from rich.console import Console
from rich.table import Table

import understudy as us
from margin_data import load, score
from understudy.privacy.randomness.streams import SeededStream

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
BUDGETS = {
    "0.5": us.PureDP(epsilon="0.5"),
    "1": us.PureDP(epsilon=1),
    "4": us.PureDP(epsilon=4),
    "(1, 1e-9)": us.ApproxDP(epsilon=1, delta="1e-9"),
}


def main() -> None:
    warnings.simplefilter("ignore")
    shown = Table("data", "budget", "method", "coefficients or cells", "two-way S_pMSE", "three-way", "CPU s a run")
    for name in ("S5", "S7", "nltcs"):
        schema, original, _ = load(name)
        source = us.open_source(original, schema)
        for told, budget in BUDGETS.items():
            for method in ("fourier", "ipf", "aim"):
                begun, found, measured = time.process_time(), [], 0
                for seed in range(RUNS):
                    release = us.synthesize(source, method=method, budget=budget, stream=SeededStream(seed))
                    found.append(score(schema, original, release.frame()))
                    measured = sum(one.values.size for one in release.measurements)
                spent = (time.process_time() - begun) / RUNS
                two, three = (mean(column) for column in zip(*found, strict=True))
                shown.add_row(name, told, method, f"{measured:,}", f"{two:.2f}", f"{three:.2f}", f"{spent:.1f}")
    Console(width=110).print(shown)


if __name__ == "__main__":
    main()
