"""Answers about pairs that a method chose by looking at the records: how often their intervals hold.

    python benchmarks/measure_chosen_tables.py --out chosen.jsonl --method mst --epsilon 10 --records 2000 [--minutes 2]
    python benchmarks/measure_chosen_tables.py --out chosen.jsonl --show

The hard case: eight attributes of three levels, of which four pairs depend weakly and all others not at all, so that
which pair is chosen hangs on the sample. Each data set is new. A difference of two shares is asked for every pair that
was chosen. Truth is the law that people are drawn from. Beside the answer stands the one from the same tables without
room for the choice. Every data set is a line; a second run adds.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections import defaultdict
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import understudy as us
from understudy.errors import UnderstudyError
from understudy.inference.ask import ask
from understudy.inference.chosen_tables import Choice
from understudy.privacy.randomness.streams import SeededStream

ATTRIBUTES, LEVELS = 8, 3
WEAK = 0.04  # by which the shares of a dependent pair differ from independence
NAMES = [f"a{place}" for place in range(ATTRIBUTES)]
SCHEMA = us.Schema(attributes=tuple(us.Attribute(name=name, levels=("x", "y", "z")) for name in NAMES))


def law_of(first: int, second: int) -> np.ndarray:
    """The shares of two attributes together: (3, 3)."""
    table = np.full((LEVELS, LEVELS), 1 / LEVELS**2)
    if first // 2 == second // 2:
        table = table + WEAK / LEVELS * (np.eye(LEVELS) - 1 / LEVELS)
    return table


def people(rng: np.random.Generator, size: int) -> pa.Table:
    columns = {}
    for place in range(0, ATTRIBUTES, 2):
        cells = rng.choice(LEVELS**2, size, p=law_of(place, place + 1).ravel())
        for name, codes in zip(NAMES[place : place + 2], divmod(cells, LEVELS), strict=True):
            columns[name] = np.array(["x", "y", "z"])[codes]
    return pa.table(columns)


def one(method: str, epsilon: float, delta: float, records: int, seed: int) -> list[dict[str, object]]:
    rng = np.random.default_rng(seed)
    budget = us.ApproxDP(epsilon=epsilon, delta=delta) if delta else us.PureDP(epsilon=epsilon)
    release = us.synthesize(
        us.open_source(people(rng, records), SCHEMA), method=method, budget=budget, stream=SeededStream(seed)
    )
    chosen = sorted({one.margin for one in release.measurements if len(one.margin) == 2})
    found: list[dict[str, object]] = []
    for first, second in chosen:
        level = int(rng.integers(LEVELS))
        text = " - ".join(
            f"proportion({first} == '{'xyz'[level]}', where={second} == '{group}')"
            for group in ("xyz"[level], "xyz"[(level + 1) % LEVELS])
        )
        table = law_of(NAMES.index(first), NAMES.index(second))
        shares = table / table.sum(axis=0)
        truth = float(shares[level, level] - shares[level, (level + 1) % LEVELS])
        told: dict[str, object] = {"pair": [first, second]}
        for name, room in (("with", None), ("without", 0.0)):
            without = patch.object(Choice, "room", lambda *_, **__: np.zeros(1))
            with without if room == 0.0 else warnings.catch_warnings():
                try:
                    answer = ask(release, text, rng=np.random.default_rng(seed), draws=1000)
                except UnderstudyError as error:
                    told["refused"] = str(error)[:80]
                    break
            told[name] = [answer.labels[0], bool(answer.low <= truth <= answer.high), answer.high - answer.low]
        found.append(told)
    return found


def show(results: list[dict]) -> str:
    lines = [
        "| method, budget, records | answers | label | held | without room | width over without |",
        "|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, ...], list[dict]] = defaultdict(list)
    for one in results:
        for answer in one["answers"]:
            if "without" in answer:
                delta = f", {one['delta']:g}" if one["delta"] else ""
                key = (one["method"], f"({one['epsilon']:g}{delta})", f"{one['records']:,}", answer["with"][0])
                groups[key].append(answer)
    for (method, budget, records, label), answers in sorted(groups.items()):
        held = [np.mean([one[name][1] for one in answers]) for name in ("with", "without")]
        wider = np.median([one["with"][2] / one["without"][2] for one in answers])
        shown = f"{len(answers)} | {label} | {held[0]:.3f} | {held[1]:.3f} | {wider:.2f}"
        lines.append(f"| `{method}`, {budget}, {records} | {shown} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--method", default="mst")
    parser.add_argument("--epsilon", type=float, default=10.0)
    parser.add_argument("--delta", type=float, default=0.0)
    parser.add_argument("--records", type=int, default=2000)
    parser.add_argument("--minutes", type=float, default=2.0, help="processor time of this run")
    parser.add_argument("--show", action="store_true", help="only show what is there")
    given = parser.parse_args()
    until = time.process_time() + 60 * given.minutes
    while not given.show and time.process_time() < until:
        seed = int.from_bytes(os.urandom(6), "big")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answers = one(given.method, given.epsilon, given.delta, given.records, seed)
        told = {"seed": seed, "method": given.method, "epsilon": given.epsilon, "delta": given.delta}
        with given.out.open("a") as file:
            file.write(json.dumps({**told, "records": given.records, "answers": answers}) + "\n")
    results = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    print(show(results))


if __name__ == "__main__":
    main()
