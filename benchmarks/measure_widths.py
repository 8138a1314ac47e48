"""How wide the intervals of a default release are beside those of the best other method whose answer is valid too.

    python benchmarks/measure_widths.py --out widths.jsonl [--minutes 3] [--attributes 4 8 12]
    python benchmarks/measure_widths.py --out widths.jsonl --show

Every setting is new (populations and questions of the proving ground, 3,000 or 10,000 people, epsilon 1 or 5, with a
delta or without). Three releases of the same people at the same budget: ``auto``, all pairs by ``ipf``, and the full
table by ``histogram``; what a plan refuses is left out. For every question with a `valid` answer of another method,
the median width of the answer of ``auto`` is divided by the least of theirs. Where ``auto`` has no valid answer the
question counts as infinitely wide. A share that may be nearly anything is no answer. Truth is not looked at.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent / "proving"))

from asked import draw_questions
from populations import draw_population

import understudy as us
from understudy.errors import UnderstudyError
from understudy.inference.ask import ask
from understudy.inference.labels import VALID
from understudy.privacy.randomness.streams import SeededStream

METHODS = ("auto", "ipf", "histogram")
KINDS = ["proportion", "difference", "crosstab", "logit", "ratio", "mean"]
QUESTIONS = 8
OPEN = 0.9  # a share with a wider interval has no answer


def widths(seed: int, attributes: int) -> dict[str, object]:
    """The median width of each answer whose quantities are all valid, by method."""
    rng = np.random.default_rng(seed)
    people = draw_population(rng, attributes)
    records, epsilon = int(rng.choice([3000, 10_000])), float(rng.choice([1.0, 5.0]))
    budget = us.ApproxDP(epsilon=epsilon, delta=1e-6) if rng.random() < 0.5 else us.PureDP(epsilon=epsilon)
    frame = people.frame(rng.integers(people.size, size=records))
    asked = draw_questions(rng, people, QUESTIONS, KINDS)
    found: dict[str, object] = {
        "seed": seed, "population": people.kind, "attributes": len(people.schema.names), "records": records,
        "epsilon": epsilon, "budget": budget.name, "questions": [[one.kind, one.text] for one in asked], "widths": {},
    }  # fmt: skip
    for method in METHODS:
        try:
            release = us.synthesize(
                us.open_source(frame, people.schema), method=method, budget=budget, stream=SeededStream(seed)
            )
        except UnderstudyError:
            continue
        if method == "auto":
            found["chose"] = release.provenance.plan.method
        told: list[float | None] = []
        for one in asked:
            try:
                answer = ask(release, one.text, rng=np.random.default_rng(seed), **one.options)
            except UnderstudyError:
                told.append(None)
                continue
            wide = [end.high - end.low for end in answer.estimates]
            told.append(float(np.median(wide)) if answer.validity == VALID and np.isfinite(wide).all() else None)
        found["widths"][method] = told  # type: ignore[index]
    return found


def ratios(one: dict) -> list[tuple[str, float]]:
    """Of how many attributes a question is, and the width of ``auto`` over the least of the other methods, for
    questions that another method answers."""
    others = [one["widths"][method] for method in METHODS[1:] if method in one["widths"]]
    found = []
    for place, (kind, text) in enumerate(one["questions"]):
        most = OPEN if kind.startswith(("proportion", "crosstab")) else np.inf
        known = [each[place] for each in others if each[place] and each[place] < most]
        own = one["widths"].get("auto", [None] * len(one["questions"]))[place]
        if known:
            several = "three" if "3 attributes" in kind or "+" in text or "*" in text else "one or two"
            found.append((several, np.inf if own is None else own / min(known)))
    return found


def show(results: list[dict]) -> str:
    lines = [
        "| attributes | `auto` chose | questions about | questions | median ratio | nine tenths below | "
        "not valid by `auto` |",
        "|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for one in results:
        wide = "8 and more" if one["attributes"] >= 8 else "up to 7"
        for several, ratio in ratios(one):
            for key in ((wide, f"`{one.get('chose', '-')}`", several), ("all", "", several)):
                groups[key].append(ratio)
    for (wide, chose, several), some in sorted(groups.items()):
        lost = np.mean(np.isinf(some))
        middle, most = (f"{one:.2f}" for one in np.quantile(some, [0.5, 0.9], method="lower"))
        lines.append(f"| {wide} | {chose} | {several} | {len(some)} | {middle} | {most} | {lost:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--attributes", type=int, nargs="*", default=[4, 8, 12])
    parser.add_argument("--minutes", type=float, default=3.0, help="processor time of this run")
    parser.add_argument("--show", action="store_true", help="only show what is there")
    given = parser.parse_args()
    until, number = time.process_time() + 60 * given.minutes, 0
    while not given.show and time.process_time() < until:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = widths(int.from_bytes(os.urandom(6), "big"), given.attributes[number % len(given.attributes)])
        number += 1
        with given.out.open("a") as file:
            file.write(json.dumps(found) + "\n")
    results = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    print(show(results))


if __name__ == "__main__":
    main()
