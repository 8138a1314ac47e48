"""Do fused answers hold the truth? Confirmations of a release on generated people, by seed, resumable.

    python benchmarks/bench_confirmations.py --sets 200 --out confirmations.json
    python benchmarks/bench_confirmations.py --choice kinds --first 3000 --sets 200 --out kinds.json
    python benchmarks/bench_confirmations.py --choice kinds --quick --first 15000 --sets 200 --out quick.json
    python benchmarks/bench_confirmations.py --choice shares --first 1000 --sets 200 --out chosen.json

For each data set, drawn from a population whose truth is known (a census of generated people), a release is made, one
question is confirmed with a fresh table, and the interval is compared with the truth: as the server gives it (release
and fresh table together where that helps, with its allowance) and from all tables without an allowance.

``--choice kinds``: for each of the twelve kinds of questions, ten to twenty of that kind are asked of the release. The
one with the answer that is farthest from the truth, in its standard errors, is confirmed: the worst choice there is.

``--choice shares``: two rules that choose a share. *Remarkable*: of five shares the one that is
farthest from a quarter in the release, which is what an analyst does who looks first. *Exaggerated*: of twenty shares
the one whose answer from the release is farthest from the truth in its standard errors, which is the worst choice there
is. The answer is taken as the server gives it, from all tables, and from the fresh table alone with its allowance. The
release has rho; the fresh table a tenth or all of it. Results are kept by cell and seed; a second run adds.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

import understudy as us
from understudy.core.table import CodedSource
from understudy.demo.people import make_people, small_schema
from understudy.errors import UnderstudyError
from understudy.inference.ask import ask
from understudy.inference.joined_tables import CONFIRMED, NEWEST, TOGETHER
from understudy.privacy.gate.gate import Gate
from understudy.privacy.gate.measurement_steps import query_of
from understudy.privacy.randomness.streams import SeededStream
from understudy.release.growing import add_measurement
from understudy.release.table_release import Release
from understudy.serving.asking import Asked
from understudy.serving.pricing import confirmation_plan, deciding_table

CENSUS, RECORDS = 200_000, 3000
RHOS = ("0.001", "0.01", "0.1")
QUESTIONS = (
    "proportion(smokes == 'yes')",
    "proportion(smokes == 'yes', where=sex == 'F')",
    "proportion(smokes == 'yes', where=sex == 'F') - proportion(smokes == 'yes', where=sex == 'M')",
    "proportion(smokes == 'yes', where=sex == 'F') / proportion(smokes == 'yes', where=sex == 'M')",
    "crosstab(sex, smokes)",
    "crosstab(sex, smokes, percent='row')",
    "proportion(sex == 'F', by=region)",
    "count(smokes == 'yes')",
    "median(age)",
    "mean(age)",
    "association(sex, smokes)",
    "smokes ~ sex",
)
LEVELS = tuple(
    f"proportion(smokes == 'yes', where=region == '{name}')" for name in ("Capital", "Coast", "East", "Lakes", "West")
)
TWENTY = (
    LEVELS
    + tuple(
        f"proportion(smokes == 'yes', where=education == '{one}')" for one in ("secondary", "vocational", "tertiary")
    )
    + tuple(
        f"proportion(education == '{one}', where=region == '{name}')"
        for name in ("Capital", "Coast", "East", "Lakes", "West")
        for one in ("secondary", "tertiary")
    )
    + tuple(f"proportion(smokes == 'yes', where=sex == '{one}')" for one in ("F", "M"))
)
AS_SERVED, ALL_TABLES, ALONE = "as served", "all tables", "fresh table alone"
LOOK = 300  # draws of the answers that only choose a question
ATTRIBUTES = ("region", "sex", "education", "smokes")
CONDITIONS = tuple(
    f"{name} == '{level}'"
    for name, levels in (
        ("region", ("Capital", "Coast", "East", "Highlands", "Lakes", "West")),
        ("sex", ("F", "M")),
        ("education", ("primary or less", "secondary", "vocational", "tertiary")),
        ("smokes", ("yes",)),
    )
    for level in levels
)
REGIONS = ("Capital", "Coast", "East", "Lakes", "West")
REGION_PAIRS = tuple((one, other) for one in REGIONS for other in REGIONS if one < other)
FAMILIES = {
    "share": tuple(f"proportion({one})" for one in CONDITIONS),
    "share in a group": TWENTY,
    "difference of shares": tuple(
        f"proportion({what}, where=region == '{one}') - proportion({what}, where=region == '{other}')"
        for one, other in REGION_PAIRS
        for what in ("smokes == 'yes'", "education == 'tertiary'")
    ),
    "ratio of shares": tuple(
        f"proportion({what}, where=region == '{one}') / proportion({what}, where=region == '{other}')"
        for one, other in REGION_PAIRS
        for what in ("smokes == 'yes'", "education == 'tertiary'")
    ),
    "crosstab": tuple(f"crosstab({one}, {other})" for one in ATTRIBUTES for other in ATTRIBUTES if one != other),
    "crosstab, percent of rows": tuple(
        f"crosstab({one}, {other}, percent='row')" for one in ATTRIBUTES for other in ATTRIBUTES if one != other
    ),
    "share by groups": tuple(
        f"proportion({one}, by={by})" for one in CONDITIONS[6:] for by in ("region", "education") if by not in one
    ),
    "count": tuple(f"count({one})" for one in CONDITIONS),
    "median": tuple(f"median(age, where={one})" for one in CONDITIONS),
    "mean": tuple(f"mean(age, where={one})" for one in CONDITIONS),
    "association": tuple(f"association({one}, {other})" for one in ATTRIBUTES for other in ATTRIBUTES if one < other),
    "regression": tuple(f"{one} ~ {other}" for one in ("smokes", "sex") for other in ATTRIBUTES if one != other),
}
# Two seconds of a processor for all of them; the five others take ten times as long.
QUICK = (
    "share", "share in a group", "difference of shares", "ratio of shares", "share by groups", "count", "regression",
)  # fmt: skip
BLOCK = {"account": "people", "run": "r", "head": "h", "sequence": 2}


def event_of(question: str) -> dict[str, str]:
    """What is the event of a regression."""
    return {"event": "yes" if question.startswith("smokes") else "M"} if "~" in question else {}


def asked(release: Release, question: str, seed: int, use: str = TOGETHER, draws: int | None = None):
    event = event_of(question)
    draws = draws or (1500 if "~" in question else 2000)
    return ask(release, question, draws=draws, rng=np.random.default_rng(seed), use=use, **event)


def confirmed(source: CodedSource, release: Release, question: str, rho: Fraction, seed: int) -> Release:
    """The release with one more table."""
    given = Asked(question=question, event=event_of(question).get("event"))
    margin = deciding_table(given, release)
    plan = confirmation_plan(release.schema, release.statement.unit, margin, rho, label="confirmation")
    gate = Gate(source=source, schema=release.schema, plan=plan, stream=SeededStream(seed))
    (fresh,) = gate.measure([query_of(plan.steps[0])])
    return add_measurement(release, fresh, plan=plan, ledger=BLOCK)


def truths(schema: us.Schema, census, questions: tuple[str, ...]) -> dict[str, list[float]]:
    """What the census says, which the records are a sample of."""
    whole = us.wrap(census, schema)
    found = {}
    for question in dict.fromkeys(questions):
        answer = us.infer(whole, question, synthesis="simple", records=CENSUS, **event_of(question))
        found[question] = [one.value for one in answer.estimates]
    return found


def made(schema: us.Schema, rho: str, seed: int, census):
    """One data set and its release: the people, their source, and all pairs of attributes with noise."""
    rng = np.random.default_rng(seed)
    people = census.take(rng.choice(CENSUS, RECORDS, replace=False))
    source = us.open_source(people, schema)
    # What a test stream makes promises nothing; here the plan's budget stands for the promise.
    with warnings.catch_warnings(action="ignore"):
        release = us.synthesize(source, method="ipf", margins="2", budget=us.ZCDP(rho=rho), stream=SeededStream(seed))
    return people, source, release


def real_values(truth: dict[str, list[float]], question: str, people) -> list[float]:
    """The truth of a question: that of the census, and for a number of records that of the sample."""
    if not question.startswith("count"):
        return truth[question]
    name, level = question.removeprefix("count(").removesuffix(")").split(" == ")
    return [float(sum(value == level.strip("'") for value in people[name].to_pylist()))]


def judged(tables: Release, question: str, seed: int, use: str, real: list[float]) -> list[list]:
    """For each estimate its label, whether its interval holds the truth, and its width; nothing if it is refused."""
    try:
        answer = asked(tables, question, seed, use)
    except UnderstudyError:
        return []
    return [
        [label, bool(one.low <= value <= one.high), one.high - one.low]
        for label, one, value in zip(answer.labels, answer.estimates, real, strict=True)
    ]


def one_set(schema: us.Schema, truth: dict[str, list[float]], rho: str, seed: int, census) -> dict[str, list[list]]:
    """One data set: twelve questions that were fixed beforehand."""
    people, source, release = made(schema, rho, seed, census)
    found: dict[str, list[list]] = {}
    for number, question in enumerate(QUESTIONS):
        joined = confirmed(source, release, question, Fraction(rho) / 10, 1000 * seed + number)
        real = real_values(truth, question, people)
        for how, use in ((AS_SERVED, CONFIRMED), (ALL_TABLES, TOGETHER)):
            found[f"{question}, {how}"] = judged(joined, question, seed, use, real)
    return found


def kinds_set(
    schema: us.Schema, truth: dict[str, list[float]], rho: str, seed: int, census, *, kinds: Sequence[str]
) -> dict[str, list[list]]:
    """One data set: of each kind the question whose answer in the release is farthest from the truth."""
    people, source, release = made(schema, rho, seed, census)
    found: dict[str, list[list]] = {}
    for number, (kind, family) in enumerate(FAMILIES.items()):
        if kind not in kinds:
            continue
        far: dict[str, float] = {}
        for question in family:
            try:
                answer = asked(release, question, seed, draws=LOOK)
            except UnderstudyError:
                continue
            errors = np.abs([one.value for one in answer.estimates] - np.array(real_values(truth, question, people)))
            with np.errstate(all="ignore"):
                z = errors / np.array(answer.standard_errors)
            far[question] = float(np.nanmax(z)) if np.isfinite(z).any() else 0.0
        if not far:
            continue
        chosen = max(far, key=lambda one: far[one])
        joined = confirmed(source, release, chosen, Fraction(rho) / 10, 1000 * seed + number)
        real = real_values(truth, chosen, people)
        for how, use in ((AS_SERVED, CONFIRMED), (ALL_TABLES, TOGETHER)):
            found[f"{kind}, {how}"] = judged(joined, chosen, seed, use, real)
    return found


def chosen_set(schema: us.Schema, truth: dict[str, list[float]], rho: str, seed: int, census) -> dict[str, list[list]]:
    """One data set: questions chosen after seeing the release; label, whether it holds the truth, and width."""
    _, source, release = made(schema, rho, seed, census)
    seen: dict[str, tuple[float, float]] = {}
    for question in TWENTY:
        try:
            one = asked(release, question, seed)
        except UnderstudyError:
            continue
        seen[question] = (one.value, one.standard_errors[0])
    found: dict[str, list[list]] = {}
    if not set(LEVELS) & set(seen):
        return found
    chosen = {
        "remarkable": max((one for one in LEVELS if one in seen), key=lambda one: abs(seen[one][0] - 0.25)),
        "exaggerated": max(seen, key=lambda one: abs(seen[one][0] - truth[one][0]) / seen[one][1]),
    }
    for (why, question), share in product(chosen.items(), (Fraction(1, 10), Fraction(1))):
        joined = confirmed(source, release, question, Fraction(rho) * share, 7000 + seed)
        for how, use in ((AS_SERVED, CONFIRMED), (ALL_TABLES, TOGETHER), (ALONE, NEWEST)):
            name = f"{why}, fresh rho {share} of the release's, {how}"
            found.setdefault(name, []).extend(judged(joined, question, seed, use, truth[question]))
    return found


def table(results: dict[str, dict[str, dict[str, list[list]]]]) -> str:
    """Coverage by question and rho: of what is `valid`, of ranges, and of everything else that had an answer."""
    lines = ["| question, answer | " + " | ".join(f"rho {rho}" for rho in RHOS) + " |", "|---" * (1 + len(RHOS)) + "|"]
    names = dict.fromkeys(name for by_seed in results.values() for one in by_seed.values() for name in one)
    totals = {how: f"all, {how}" for how in (AS_SERVED, ALL_TABLES)}
    for name in (*names, *totals.values()):
        cells = []
        for rho in RHOS:
            seen = [
                one
                for by_name in results.get(rho, {}).values()
                for key, listed in by_name.items()
                if key == name or (name in totals.values() and key.endswith(name.removeprefix("all")))
                for one in listed
            ]
            parts = []
            for label in dict.fromkeys(sorted(one[0] for one in seen)):
                held = [one[1] for one in seen if one[0] == label]
                parts.append(f"{label} {np.mean(held):.3f} of {len(held)}")
            width = f", {np.median([one[2] for one in seen]):.3g} wide" if seen and name in names else ""
            cells.append("; ".join(parts) + width or "none")
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=2, help="data sets for each rho")
    parser.add_argument("--minutes", type=float, default=1.0, help="processor time of this run")
    parser.add_argument("--out", type=Path, help="where results are kept, to be added to")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--choice", choices=("none", "kinds", "shares"), default="none", help="how questions are chosen"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="of --choice kinds those that take little time, with an --out of their own",
    )
    given = parser.parse_args()
    schema = small_schema()
    results = json.loads(given.out.read_text()) if given.out and given.out.exists() else {}
    census = make_people(CENSUS, seed=1).select(list(schema.names))
    work, questions = {
        "none": (one_set, QUESTIONS),
        "kinds": (
            partial(kinds_set, kinds=QUICK if given.quick else tuple(FAMILIES)),
            tuple(one for family in FAMILIES.values() for one in family),
        ),
        "shares": (chosen_set, (*LEVELS, *TWENTY)),
    }[given.choice]
    truth = truths(schema, census, questions)
    until = time.process_time() + 60 * given.minutes
    for seed in range(given.first, given.first + given.sets):
        for rho in RHOS:
            if str(seed) in results.get(rho, {}) or time.process_time() > until:
                continue
            results.setdefault(rho, {})[str(seed)] = work(schema, truth, rho, seed, census)
            if given.out:
                given.out.write_text(json.dumps(results))
    print(table(results))
    print(f"\n{ {rho: len(one) for rho, one in results.items()} } data sets of {RECORDS:,} people")


if __name__ == "__main__":
    main()
