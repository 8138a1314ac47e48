"""Coverage and width of 95 percent intervals: what ``infer`` says, the naive analysis, and each combining rule.

    python benchmarks/bench_coverage.py run RESULTS.jsonl [--only 'ipf;mst'] [--data-sets 500] [--seconds 600]
    python benchmarks/bench_coverage.py count COUNTS.csv RESULTS.jsonl [MORE.jsonl ...]
    python benchmarks/bench_coverage.py table COUNTS.csv docs/coverage.md
    python benchmarks/bench_coverage.py chance RESULTS.jsonl
    python benchmarks/bench_coverage.py selection
    python benchmarks/bench_coverage.py copies
    python benchmarks/bench_coverage.py speed

``run`` is resumable: it skips what is in the file. A cell of the table (release, population, epsilon) ends when the 95
percent Wilson interval of everything read there is inside .94-.96 or, at 99.9 percent, outside of it, or at its last
data set. ``count`` adds up what was found to a small file (benchmarks/coverage.csv), from which ``table`` writes the
tables of a page anew, under its text. ``chance`` sets the share beside an interval by normal theory in the same data
sets, ``selection`` looks at what was chosen by the data. ``copies`` is the simulation behind "25 copies of five times
as many rows" in docs/theory/noise-aware.md, ``speed`` times sets of questions. Populations and releases are in
coverage_cases.py.
"""

from __future__ import annotations

import csv
import json
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np

import understudy as us
from coverage_cases import (
    CASES,
    EPSILONS,
    PEOPLE,
    QUESTIONS,
    chosen_difference,
    measured_only,
    one,
    population,
    share_by_hand,
)
from understudy.inference import judge
from understudy.inference.combining import combine

BATCH = 25
LEAST = 75  # data sets before a cell may end
GOAL = (0.94, 0.96)
CLAIMED_RULE = "T_f*, 5 n rows"
COLUMNS = ("release", "by", "question", "population", "epsilon", "asked", "answered", "held", "width")
Row = dict[str, str]


def wilson(share: float, runs: float, z: float = 1.959964) -> tuple[float, float]:
    centre = (share + z * z / (2 * runs)) / (1 + z * z / runs)
    half = z * np.sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs)) / (1 + z * z / runs)
    return float(centre - half), float(centre + half)


def settled(by: str, rows: Sequence[Sequence]) -> bool:
    """Whether the Wilson interval confirms the goal, or surely excludes it, or nothing was ever answered.

    Looking after every batch excludes too easily, so that takes 99.9 percent, and never ends what is called valid.
    """
    answered = [hit for hit, _, _ in rows if hit is not None]
    if len(rows) < LEAST:
        return False
    if not answered:
        return True
    share, runs = float(np.mean(answered)), len(answered)
    low, high = wilson(share, runs)
    surely_low, surely_high = wilson(share, runs, z=3.2905)
    excluded = surely_high < GOAL[0] or surely_low > GOAL[1]
    claimed = by == CLAIMED_RULE or any(said == "valid" for _, _, said in rows)
    return (excluded and not claimed) or (GOAL[0] <= low and high <= GOAL[1])


def read(paths: Sequence[Path]) -> dict[tuple[str, str, bool], dict[int, list[list]]]:
    """Batches of each cell; a batch that is in two files counts once."""
    found: dict[tuple[str, str, bool], dict[int, list[list]]] = {}
    for path in paths:
        for line in path.read_text().splitlines() if path.exists() else ():
            batch = json.loads(line)
            case, epsilon, outside, number = batch["key"]
            found.setdefault((case, epsilon, outside), {})[number] = batch["found"]
    return found


def by_reading(batches: dict[int, list[list]]) -> dict[tuple[str, str], list[list]]:
    result: dict[tuple[str, str], list[list]] = {}
    for batch in batches.values():
        for by, question, hit, width, said in batch:
            result.setdefault((by, question), []).append([hit, width, said])
    return result


def run(path: Path, only: str, most: int, seconds: float) -> None:
    """Everything not yet in the file, evenly over the cells, until it is done or so many CPU seconds are spent."""
    warnings.simplefilter("ignore")
    judge.disagreements = lambda _: ()  # a quarter of the time; it never moves an interval, and never speaks here
    done = read([path])
    names = only.split(";") if only else list(CASES)
    cells = [(case, epsilon, outside) for case in names for epsilon in EPSILONS for outside in (False, True)]
    work = [(number, cell) for cell in cells for number in range(min(most, CASES[cell[0]].most) // BATCH)]
    ended: set[tuple[str, str, bool]] = set()
    for number, cell in sorted(work, key=lambda item: item[0]):
        had = done.setdefault(cell, {})
        if cell in ended or number in had:
            continue
        if had and all(settled(by, rows) for (by, _), rows in by_reading(had).items()):
            ended.add(cell)
            continue
        if time.process_time() > seconds:
            return
        seeds = range(number * BATCH, (number + 1) * BATCH)
        found = [
            [f.by, f.question, f.hit, None if f.width is None else round(f.width, 4), f.said]
            for seed in seeds
            for f in one(*cell, seed)
        ]
        had[number] = found
        with path.open("a") as file:
            file.write(json.dumps({"key": (*cell, number), "found": found}) + "\n")


def count(target: Path, sources: Sequence[Path]) -> None:
    """How many intervals held the truth, and their median width, for each cell."""
    with target.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        found = read(sources)
        for case, epsilon, outside in sorted(found, key=lambda c: (list(CASES).index(c[0]), c[2], float(c[1]))):
            for (by, question), rows in by_reading(found[case, epsilon, outside]).items():
                answered = [row for row in rows if row[0] is not None]
                held = sum(row[0] for row in answered)
                width = f"{np.median([row[1] for row in answered]):.3f}" if answered else ""
                place = "outside" if outside else "inside"
                writer.writerow((case, by, question, place, epsilon, len(rows), len(answered), f"{held:g}", width))


def cell(row: Row) -> str:
    """Coverage with its Wilson interval, width and number of data sets."""
    answered, asked = int(row["answered"]), int(row["asked"])
    if not answered:
        return "refused"
    share = float(row["held"]) / answered
    low, high = wilson(share, answered)
    size = f"{answered:,}" if answered == asked else f"{answered:,} of {asked:,}"
    return f"{_short(share)} ({_short(low)}-{_short(high)}) ×{float(row['width']):.2f}, {size}"


def _short(share: float) -> str:
    return f"{share:.3f}".removeprefix("0")


def lines(path: Path) -> Iterator[str]:
    """A table for each way of making releases."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    cells = {tuple(row[name] for name in COLUMNS[:5]): row for row in rows}
    for case in CASES:
        own = [row for row in rows if row["release"] == case]
        if not own:
            continue
        yield f"\n## {case.replace(', rows', ': its rows')}\n"
        yield "| interval by | question | population | " + " | ".join(f"ε = {e}" for e in EPSILONS) + " |"
        yield "|---" * (3 + len(EPSILONS)) + "|"
        for by in dict.fromkeys(row["by"] for row in own):
            for question, place in product(QUESTIONS, ("inside", "outside")):
                found = [cells.get((case, by, question, place, epsilon)) for epsilon in EPSILONS]
                if any(found):
                    told = ["-" if row is None else cell(row) for row in found]
                    yield f"| {' | '.join((by, question, place, *told))} |"


def copies(cases: int = 20_000) -> None:
    """T_f* over copies of a posterior: coverage (published degrees of freedom / normal) and width over the posterior's.

    The truth q has an estimate with variance 1 + noise (in sampling variances), which is the variance W of its
    posterior too. A copy of k n rows estimates a draw of the posterior with variance 1/k, and reports 1/k.
    """
    rng = np.random.default_rng(20)
    noises = (0, 1, 4)
    print("| copies | rows / records | no noise | noise = sampling | noise = 4 sampling |\n|---|---|---|---|---|")
    for number in (5, 10, 20, 25, 40):
        for times in (1, 5):
            told = []
            for noise in noises:
                spread = np.sqrt(1 + noise)
                centre = rng.normal(0, spread, cases)
                drawn = centre + rng.normal(0, spread, (number, cases))
                estimates = drawn + rng.normal(0, np.sqrt(1 / times), drawn.shape)
                variances = np.full_like(estimates, 1 / times)
                held, widths = [], []
                for freedom in ("plug_in", "normal"):
                    both = combine(estimates, variances, rule="T_f*", kappa=times, freedom=freedom)
                    low, high = both.interval(0.95)
                    held.append(100 * float(np.mean((low <= 0) & (high >= 0))))
                    widths.append(float(np.median(high - low)) / (2 * 1.959964 * spread))
                told.append(f"{held[0]:.1f} / {held[1]:.1f}, {widths[0]:.2f}")
            print(f"| {number} | {times} | {' | '.join(told)} |")


def chance(path: Path, more: int = 10_000) -> None:
    """How far the data sets of ipf themselves are off: coverage of the share by normal theory, in them and in others.

    Where infer and the interval by hand miss the truth in the same data sets, and the latter covers what it should in
    many more, a deviation is of the data sets and not of the method.
    """
    print(
        "| population | ε | data sets | infer | by hand | both alike | by hand, others |\n|---|---|---|---|---|---|---|"
    )
    found = read([path])
    for place, epsilon in product((False, True), EPSILONS):
        held = {
            number * BATCH + seed: hit
            for number, rows in found.get(("ipf", epsilon, place), {}).items()
            for seed, hit in enumerate(row[2] for row in rows if row[1] == "proportion")
        }
        hand = {seed: abs(share_by_hand(epsilon, place, seed)) < 1.959964 for seed in held}
        others = [abs(share_by_hand(epsilon, place, seed)) < 1.959964 for seed in range(10_000, 10_000 + more)]
        alike = np.mean([bool(held[seed]) == hand[seed] for seed in held])
        shares = [_short(float(np.mean(list(one)))) for one in (held.values(), hand.values(), [alike], others)]
        print(f"| {'outside' if place else 'inside'} | {epsilon} | {len(held):,} | {' | '.join(shares)} |", flush=True)


def selection(first: int = 1000, size: int = 600) -> None:
    """What choosing tables by the data does to a difference: `mst`, outside, data sets that no table here counts."""
    print("| ε | answered | sample, mean z | answer, mean z | its sd | held |\n|---|---|---|---|---|---|")
    for epsilon in EPSILONS[::2]:
        found = [chosen_difference("mst", epsilon, True, seed) for seed in range(first, first + size)]
        known = np.array([one for one in found if one is not None], float)
        mean, spread = known.mean(axis=0), known.std(axis=0)
        shares = f"{mean[0]:+.2f} | {mean[1]:+.2f} | {spread[1]:.2f} | {_short(float(mean[2]))}"
        print(f"| {epsilon} | {len(known)} of {size} | {shares} |", flush=True)


ADULT = (
    ("proportion(sex == 1)", {}),
    ("proportion(`income>50K` == 1, where=sex == 1) - proportion(`income>50K` == 1, where=sex == 0)", {}),
    ("crosstab(`marital-status`, relationship)", {}),
    ("crosstab(age, `income>50K`)", {}),
    ("`income>50K` ~ relationship + sex", {"event": 1}),
    ("count(race == 2)", {}),
)


def speed() -> None:
    """CPU seconds of a question set: on the table above, and on an Adult-sized release by aim (14 attributes)."""
    warnings.simplefilter("ignore")
    shares = population(False)
    rng = np.random.default_rng(1)
    small = measured_only(rng.multinomial(PEOPLE, shares.ravel()).reshape(shares.shape), "1", rng)
    _timed("5 attributes, 6 tables, eps 1", small, tuple(QUESTIONS.values()))
    from margin_data import load

    schema, rows, _ = load("Adult")
    budget = us.ApproxDP(epsilon=1, delta="1e-9")
    release = us.synthesize(us.open_source(rows, schema), method="aim", budget=budget)
    _timed(f"Adult, {rows.num_rows:,} records, aim, {len(release.measurements)} tables", release, ADULT)


def _timed(name: str, release: us.Release, questions: tuple[tuple[str, dict], ...]) -> None:
    print(f"{name}: CPU seconds")
    for text, options in questions:
        start = time.process_time()
        answer = us.infer(release, text, rng=np.random.default_rng(1), **options)
        print(f"  {time.process_time() - start:>6.2f}  {text}  [{answer.method}]")


def main(arguments: list[str]) -> None:
    action, *rest = arguments
    if action == "run":
        settings = dict(zip(rest[1::2], rest[2::2], strict=True))
        limit = int(settings.get("--data-sets", 10**9))
        run(Path(rest[0]), settings.get("--only", ""), limit, float(settings.get("--seconds", "inf")))
    elif action == "count":
        count(Path(rest[0]), [Path(one) for one in rest[1:]])
    elif action == "table":
        page = Path(rest[1])
        text = page.read_text(encoding="utf-8").partition("\n## ")[0].rstrip("\n")
        page.write_text("\n".join([text, *lines(Path(rest[0])), ""]), encoding="utf-8")
    elif action == "chance":
        chance(Path(rest[0]))
    elif action == "selection":
        selection()
    elif action == "copies":
        copies()
    elif action == "speed":
        speed()
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
