"""One synthesis of numbers by dpmm, with its own private binning, in that project's own environment.

    PEER_PYTHON benchmarks/amount_peer.py DATA.csv LOW HIGH EPSILON DELTA OUT.csv

It imports nothing of ours. Bins are found by PrivTree with a tenth of epsilon (the default of its pipelines); MST gets
the rest. The bounds are public, as they are for us.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

warnings.simplefilter("ignore")
BINNING = 0.1  # of epsilon


def synthesized(frame: Any, low: float, high: float, epsilon: float, delta: float) -> Any:
    """As many rows as the frame has. Its MST needs two columns, so a column of one coin is beside a single number."""
    import numpy as np
    from dpmm.pipelines import MSTPipeline

    alone = frame.shape[1] == 1
    if alone:
        frame = frame.assign(coin=np.arange(len(frame)) % 2)
    numbers = [name for name in frame.columns if name != "coin"]
    domain: dict[str, Any] = {name: {"lower": low, "upper": high} for name in numbers}
    frame = frame.astype(dict.fromkeys(numbers, "float64"))
    if alone:
        frame["coin"] = frame["coin"].astype("category")
        domain["coin"] = {"categories": [0, 1]}
    pipeline = MSTPipeline(
        epsilon=epsilon * (1 - BINNING), delta=delta, proc_epsilon=epsilon * BINNING, compress=False, n_jobs=1
    )
    pipeline.fit(frame, domain)
    return pipeline.generate(n_records=len(frame))[numbers].astype("float64")


if __name__ == "__main__":
    import pandas as pd

    data, low, high, epsilon, delta, out = sys.argv[1:]
    made = synthesized(pd.read_csv(data), float(low), float(high), float(epsilon), float(delta))
    made.to_csv(out, index=False)
