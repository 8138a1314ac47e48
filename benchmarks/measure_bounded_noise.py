"""What noise with a bound costs on margins: `ipf` with its usual noise, trimmed Gaussian and exponential noise.

Mean S_pMSE of all two-way and all three-way tables of S5 and S7, all pairs measured, unit ``replace``. The bound is the
smallest that a plan takes. The exponential mechanism is fitted with the correction of its mean that a release uses, and
without. The data are looked for in ``../shared/data`` or where UNDERSTUDY_DATA says.

    python benchmarks/measure_bounded_noise.py 5    # five runs of each
"""

from __future__ import annotations

import sys
import warnings
from statistics import fmean, stdev
from typing import Any
from unittest.mock import patch

import numpy as np

import understudy as us
from margin_data import load, score
from understudy.privacy.mechanisms.bounded_noise import ExponentialNoise

DELTA = "1e-6"


def least_bound(schema: us.Schema, budget: us.ApproxDP, split: str) -> int:
    """The smallest bound that a plan takes, by halving."""
    low, high = 1, 3_000
    while high - low > 1:
        middle = (low + high) // 2
        try:
            us.plan(schema, method="ipf", budget=budget, noise="trimmed", bound=middle, split=split)
            high = middle
        except us.UnderstudyError:
            low = middle
    return high


def main(runs: int) -> None:
    warnings.simplefilter("ignore")
    for name in ("S5", "S7"):
        schema, table, _ = load(name)
        source = us.open_source(table, schema)

        def error(
            budget: Any, source: Any = source, schema: us.Schema = schema, table: Any = table, **options: Any
        ) -> tuple[float, float]:
            release = us.synthesize(source, method="ipf", budget=budget, **options)
            return score(schema, table, release.frame())

        def show(what: str, found: list[tuple[float, float]], name: str = name) -> None:
            spread = [f"{fmean(one):.2f} ({stdev(one):.2f})" for one in zip(*found, strict=True)]
            print(f"| {name} | {what} | {' / '.join(spread)} |", flush=True)

        for epsilon in (1, 4):
            approx, pure = us.ApproxDP(epsilon=epsilon, delta=DELTA), us.PureDP(epsilon=epsilon)
            cases: list[tuple[str, Any, dict[str, Any]]] = [
                (f"({epsilon}, {DELTA}), usual", approx, {}),
                (f"({epsilon}, {DELTA}), usual, equal shares", approx, {"split": "equal"}),
            ]
            for split in ("optimal", "equal"):
                bound = least_bound(schema, approx, split)
                options = {"noise": "trimmed", "bound": bound, "split": split}
                cases.append((f"({epsilon}, {DELTA}), trimmed at {bound}, {split} shares", approx, options))
            cases += [(f"{epsilon}, usual", pure, {}), (f"{epsilon}, exponential", pure, {"noise": "exponential"})]
            for what, budget, options in cases:
                show(what, [error(budget, **options) for _ in range(runs)])
            with patch.object(ExponentialNoise, "unbiased", lambda _, values: np.asarray(values)):
                show(f"{epsilon}, exponential, not corrected", [error(pure, noise="exponential") for _ in range(runs)])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
