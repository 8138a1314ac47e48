"""The same attacks by anonymeter and SDMetrics on the same tables, where the definitions agree.

``make`` writes two tables and our numbers to a folder; ``compare`` reads them in an environment that has the peers, and
prints both. So the peers never meet this package's environment::

    python benchmarks/measure_risk_peers.py make /tmp/peers
    /tmp/peers-env/bin/python benchmarks/measure_risk_peers.py compare /tmp/peers

What agrees: residual risk and its interval from the same counts (anonymeter); linkability with one neighbour, where
there are no ties (anonymeter); correct attribution probability, an unmatched key counting 0 (SDMetrics'
CategoricalZeroCAP, which is 1 - DCAP). Singling out draws its statements at random, so it does not.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

ROWS = 400
COUNTS = ((60, 100, 20, 100), (5, 100, 0, 100), (300, 300, 10, 300))  # attack and control: successes, guesses
NUMBERS, LEVELS = ("a", "b", "c", "d"), ("sex", "region", "ill")


def make(folder: Path) -> None:
    import numpy as np
    import pyarrow as pa

    import understudy as us
    from understudy.evaluation.attacks.linkability import joined
    from understudy.evaluation.inputs.comparison import compare
    from understudy.evaluation.shared.attack_success import Tally, residual

    def table(seed: int) -> pa.Table:
        draw = np.random.default_rng(seed)
        shared = draw.normal(size=ROWS)
        columns: dict[str, Any] = {}
        for name in NUMBERS:
            values = shared + draw.normal(size=ROWS)
            columns[name] = (values - values.min()) / (values.max() - values.min())  # the ends of the range occur
        columns["sex"] = np.array(["F", "M"])[draw.integers(0, 2, ROWS)]
        columns["region"] = np.array(["N", "S", "E", "W"])[draw.integers(0, 4, ROWS)]
        columns["ill"] = np.array(["no", "yes"])[(draw.uniform(size=ROWS) < 0.2 + 0.3 * (shared > 0)).astype(int)]
        return pa.table(columns)

    schema = us.Schema(
        attributes=(
            *(us.Attribute(name=name, edges=(0.0, 0.25, 0.5, 0.75, 1.0)) for name in NUMBERS),
            us.Attribute(name="sex", levels=("F", "M")),
            us.Attribute(name="region", levels=("N", "S", "E", "W")),
            us.Attribute(name="ill", levels=("no", "yes")),
        )
    )
    data, made = table(1), table(2)
    noise = np.random.default_rng(3)
    for place, name in enumerate(NUMBERS):  # near enough to the data that some people can be linked
        moved = np.clip(data[name].to_numpy() + 0.03 * noise.normal(size=ROWS), 0, 1)
        made = made.set_column(place, name, pa.array(moved))
    release = us.wrap(made, schema)
    both = compare(release, us.open_source(data, schema))
    one, other = both.columns(NUMBERS[:2]), both.columns(NUMBERS[2:])
    told = us.attack(release, data, keys=("sex", "region"), targets=("ill",), only=("attribution",))
    estimates = [residual(Tally(successes=a, guesses=n), Tally(successes=c, guesses=m)) for a, n, c, m in COUNTS]
    ours = {
        "residual": [[one.value, one.low, one.high] for one in estimates],
        "linked": int(joined(both, both.people, both.tables[0], one, other)[0].sum()),
        "dcap": told.frames["attribution"].to_pylist()[0]["DCAP"] / 100,
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("data", data), ("made", made)):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, rows.column_names)
            writer.writeheader()
            writer.writerows(rows.to_pylist())
    (folder / "ours.json").write_text(json.dumps(ours))


def compare_with_peers(folder: Path) -> None:
    import pandas as pd
    from anonymeter.evaluators import LinkabilityEvaluator
    from anonymeter.stats.confidence import EvaluationResults
    from sdmetrics.single_table import CategoricalZeroCAP

    data, made = (pd.read_csv(folder / f"{name}.csv") for name in ("data", "made"))
    ours = json.loads((folder / "ours.json").read_text())
    for (attack, guesses, control, others), (value, low, high) in zip(COUNTS, ours["residual"], strict=True):
        theirs = EvaluationResults(
            n_attacks=guesses, n_success=attack, n_baseline=0, n_control=control * guesses // others
        ).risk()
        told = f"{attack}/{guesses} over {control}/{others}: {value:.6f} ({low:.6f}, {high:.6f})"
        print("residual risk", told, "; anonymeter", theirs)
    evaluator = LinkabilityEvaluator(
        ori=data[list(NUMBERS)], syn=made[list(NUMBERS)], aux_cols=(list(NUMBERS[:2]), list(NUMBERS[2:])),
        n_attacks=len(data), n_neighbors=1,
    ).evaluate(n_jobs=1)  # fmt: skip
    print("linked, of", len(data), ":", ours["linked"], "; anonymeter", evaluator.results().n_success)
    texts = list(LEVELS)
    score = CategoricalZeroCAP.compute(data[texts], made[texts], key_fields=["sex", "region"], sensitive_fields=["ill"])
    print(f"1 - DCAP: {1 - ours['dcap']:.6f}; SDMetrics CategoricalZeroCAP {score:.6f}")


if __name__ == "__main__":
    {"make": make, "compare": compare_with_peers}[sys.argv[1]](Path(sys.argv[2]))
