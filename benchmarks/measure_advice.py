"""Does `advise` keep its word? What it promises before a release against what the release then delivers.

``python benchmarks/measure_advice.py --seconds 250 --folder /tmp/advice`` draws settings of the proving ground (fresh
populations and public files) from consecutive seeds: people, a budget, questions. `advise` is asked with the schema and
the number of records alone, as a steward would who knows nothing else; then the release is made from the people, and
`infer` is asked the same. Compared are the widths of intervals, and how many times as wide as the real data's they
are: the second also depends on how rare in truth those are whom the question is about. One line for each setting goes
to a file of the folder, so that a run can be continued; the summary is printed at the end.

With ``--shares``, `advise` is also asked by a steward who knows from published statistics, to the nearest five percent,
how the people are spread over each attribute of the question (``guess``).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "proving"))
from asked import draw_questions
from populations import Population, draw_population

import understudy as us
from understudy.core.questions import parse_question
from understudy.explore.interval_widths import Asking, Rehearsals, Width
from understudy.explore.population import coded, read_population
from understudy.explore.rehearsal import Setup, published
from understudy.inference.estimands import make_estimand
from understudy.privacy.randomness.streams import SeededStream

QUESTIONS = 2
REPEATS = 12
FIRST_SEED = 20_261_117
KNOWN_TO = 0.05  # shares that are published, rounded; the rarest are known to be there


def published_shares(people: Population, names: Iterable[str]) -> dict[str, list[float]]:
    """How everybody is spread over some attributes, rounded."""
    everybody = coded(us.open_source(people.frame(np.arange(people.size)), people.schema), people.schema)
    shares = {name: everybody.counts((name,)).reshape(-1) / people.size for name in names}
    return {
        name: np.maximum(np.round(one / KNOWN_TO) * KNOWN_TO, KNOWN_TO / 5).tolist() for name, one in shares.items()
    }


def measure(seed: int, *, shares: bool) -> list[dict[str, object]]:
    """Promised and delivered widths of one setting, for each estimate of each question."""
    rng = np.random.default_rng(seed)
    people = draw_population(rng, int(rng.choice([3, 4, 5])))
    records = int(rng.choice([300, 1000]))
    epsilon = str(rng.choice(["0.5", "1", "2", "5"]))
    delta = "1e-6" if rng.random() < 0.5 else None
    frame = people.frame(rng.integers(people.size, size=records))
    budget = us.PureDP(epsilon=epsilon) if delta is None else us.ApproxDP(epsilon=epsilon, delta=delta)
    source = us.open_source(frame, people.schema)
    release = us.synthesize(source, budget=budget, stream=SeededStream(seed))
    table = coded(source, people.schema)
    found: list[dict[str, object]] = []
    for asked in draw_questions(rng, people, QUESTIONS):
        how = dict(asked.options)
        row = {"seed": seed, "population": people.kind, "records": records, "epsilon": epsilon, "delta": delta,
               "method": release.provenance.method, "question": asked.text}  # fmt: skip
        try:
            answer = us.infer(release, asked.text, **how)
            margin = make_estimand(parse_question(asked.text, people.schema, **how), people.schema).margin
            inside = us.infer(published(table, margin), asked.text, **how)
            question = parse_question(asked.text, people.schema, **how)
            rehearsals = Rehearsals(  # as `advise` makes them, without its search for the epsilon of a target
                population=read_population(people.schema),
                setup=Setup(
                    schema=people.schema, delta=None if delta is None else Fraction(delta), unit=us.Unit(),
                    records=records,
                ),
                estimand=make_estimand(question, people.schema), question=asked.text, asking=Asking(**how),
                records=records, level=0.95, repeats=REPEATS, seed=seed,
            )  # fmt: skip
            advice = rehearsals.widths(Fraction(epsilon))
            known: tuple[Width, ...] = ()
            if shares:
                guess = published_shares(people, margin)
                rehearsals = replace(rehearsals, population=read_population(people.schema, guess=guess))
                known = rehearsals.widths(Fraction(epsilon))
        except us.UnderstudyError as problem:
            found.append({**row, "refused": f"{type(problem).__name__}: {problem}"[:160]})
            continue
        promised = {one.name: one for one in advice}
        with_shares = {one.name: one for one in known}
        for name, label, one, real in zip(answer.names, answer.labels, answer.estimates, inside.estimates, strict=True):
            width, own = one.high - one.low, real.high - real.low
            said = promised.get(name)
            if said is None or said.ratio is None or own <= 0 or width <= 0:
                continue
            found.append({**row, "estimate": name, "label": label, "promised": said.ratio, "delivered": width / own,
                          "promised_width": said.width, "delivered_width": width,
                          "held": held(said, width, width / own),
                          "known_width": with_shares[name].width if name in with_shares else None,
                          "known_held": held(with_shares[name], width, width / own) if name in with_shares else None,
                          })  # fmt: skip
    return found


def held(said: Width, width: float, ratio: float) -> list[bool]:
    """Whether the promised ranges hold the delivered width, and the delivered ratio to the real data's."""
    return [said.low <= width <= said.high, said.ratio_low <= ratio <= said.ratio_high]


def summary(folder: Path) -> str:
    """The median and the tails of promised over delivered, one estimate of each question."""
    rows = [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()]
    first: dict[tuple[object, object], dict[str, object]] = {}
    for row in rows:
        if "promised" in row:
            first.setdefault((row["seed"], row["question"]), row)
    lines = [f"settings {len({row['seed'] for row in rows})}, questions {len(first)}, refused "
             f"{sum('refused' in row for row in rows)}"]  # fmt: skip
    groups = {"all": list(first.values())}
    for row in first.values():
        groups.setdefault(f"{row['population'].split()[0]}", []).append(row)
        groups.setdefault(f"label {row['label']}", []).append(row)
    compared = [(name, group, what) for name, group in groups.items() for what in ("_width", "")]
    for name, group, what in compared:
        ratios = np.array([row[f"promised{what}"] / row[f"delivered{what}"] for row in group])
        low, middle, high = np.quantile(ratios, [0.025, 0.5, 0.975])
        within = float(np.mean((ratios >= 0.5) & (ratios <= 2)))
        told = f"median {middle:.2f}  95% {low:.2f}-{high:.2f}  within 2: {within:.2f}"
        inside = float(np.mean([row["held"][0 if what else 1] for row in group]))
        lines.append(
            f"{name:28} {'width' if what else 'ratio to the real':18} n {len(ratios):4}  {told}  in range {inside:.2f}"
        )
    known = [row for row in first.values() if row.get("known_width")]
    if known:
        ratios = np.array([row["known_width"] / row["delivered_width"] for row in known])
        within = float(np.mean((ratios >= 0.5) & (ratios <= 2)))
        inside = float(np.mean([row["known_held"][0] for row in known]))
        lines.append(
            f"with published shares, width: n {len(ratios)}  median {np.median(ratios):.2f}  within 2: {within:.2f}  "
            f"in range {inside:.2f}"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure for a while, then say what all lines of the folder say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=250)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--first", type=int, default=FIRST_SEED)
    parser.add_argument("--shares", action="store_true")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    began, seed = time.process_time(), asked.first
    while time.process_time() - began < asked.seconds:
        place = asked.folder / f"{seed}.jsonl"
        if not place.exists():
            lines = "".join(json.dumps(row) + "\n" for row in measure(seed, shares=asked.shares))
            place.write_text(lines)
        seed += 1
    print(summary(asked.folder))


if __name__ == "__main__":
    main()
