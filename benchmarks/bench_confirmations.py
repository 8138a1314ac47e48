"""Do fused answers hold the truth? Confirmations of a release on generated people, by seed, resumable.

    python benchmarks/bench_confirmations.py --sets 200 --out confirmations.json
    python benchmarks/bench_confirmations.py --chosen --first 1000 --sets 200 --out chosen.json

For each data set, drawn from a population whose truth is known (a census of generated people), a release is made, one
question is confirmed with a fresh table, and the interval from all tables is compared with the truth.

``--chosen``: only questions that were chosen after seeing the release. *Remarkable*: of five shares the one that is
farthest from a quarter in the release, which is what an analyst does who looks first. *Exaggerated*: of twenty shares
the one whose answer from the release is farthest from the truth in its standard errors, which is the worst choice there
is. The answer is taken as the server gives it, from all tables, and from the fresh table without any allowance. The
release has rho; the fresh table a tenth or all of it. Results are kept by cell and seed; a second run adds.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np

import understudy as us
from understudy.core.table import CodedSource
from understudy.demo.people import make_people, small_schema
from understudy.errors import UnderstudyError
from understudy.inference.ask import ask
from understudy.inference.joined_tables import NEWEST, TOGETHER
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
AS_SERVED, ALL_TABLES, ALONE = "as served", "all tables", "fresh table, no allowance"
BLOCK = {"account": "people", "run": "r", "head": "h", "sequence": 2}


def asked(release: Release, question: str, seed: int, use: str = TOGETHER):
    event = {"event": "yes"} if "~" in question else {}
    draws = 1500 if "~" in question else 2000
    return ask(release, question, draws=draws, rng=np.random.default_rng(seed), use=use, **event)


def confirmed(
    source: CodedSource, release: Release, question: str, rho: Fraction, seed: int
) -> tuple[Release, Release]:
    """The release with one more table, and with that table alone."""

    given = Asked(question=question, event="yes" if "~" in question else None)
    margin = deciding_table(given, release.schema)
    plan = confirmation_plan(release.schema, release.statement.unit, margin, rho, label="confirmation")
    gate = Gate(source=source, schema=release.schema, plan=plan, stream=SeededStream(seed))
    (fresh,) = gate.measure([query_of(plan.steps[0])])
    joined = add_measurement(release, fresh, plan=plan, ledger=BLOCK)
    return joined, replace(joined, measurements=(fresh,))


def truths(schema: us.Schema) -> dict[str, list[float]]:
    """What the census says, which the records are a sample of."""
    census = make_people(CENSUS, seed=1).select(list(schema.names))
    whole = us.wrap(census, schema)
    found = {}
    for question in dict.fromkeys((*QUESTIONS, *LEVELS, *TWENTY)):
        event = {"event": "yes"} if "~" in question else {}
        answer = us.infer(whole, question, synthesis="simple", records=CENSUS, **event)
        found[question] = [one.value for one in answer.estimates]
    return found


def one_set(schema: us.Schema, truth: dict[str, list[float]], rho: str, seed: int, census) -> dict[str, list[list]]:
    """One data set: for each question the label of each estimate and whether its interval holds the truth."""
    rng = np.random.default_rng(seed)
    people = census.take(rng.choice(CENSUS, RECORDS, replace=False))
    source = us.open_source(people, schema)
    release = us.synthesize(source, method="ipf", margins="2", budget=us.ZCDP(rho=rho), stream=SeededStream(seed))
    # What a test stream makes promises nothing; here the plan's budget stands for the promise.
    found: dict[str, list[list]] = {}
    price = Fraction(rho) / 10

    def noted(name: str, question: str, tables: Release) -> None:
        try:
            answer = asked(tables, question, seed)
        except UnderstudyError:
            return
        real = truth[question]
        if question.startswith("count"):
            real = [float(sum(value == "yes" for value in people["smokes"].to_pylist()))]
        found.setdefault(name, []).extend(
            [label, bool(one.low <= value <= one.high)]
            for label, one, value in zip(answer.labels, answer.estimates, real, strict=True)
        )

    for number, question in enumerate(QUESTIONS):
        joined, _ = confirmed(source, release, question, price, 1000 * seed + number)
        noted(question, question, joined)
    return found


def chosen_set(schema: us.Schema, truth: dict[str, list[float]], rho: str, seed: int, census) -> dict[str, list[list]]:
    """One data set: questions chosen after seeing the release; label, whether it holds the truth, and width."""
    rng = np.random.default_rng(seed)
    people = census.take(rng.choice(CENSUS, RECORDS, replace=False))
    source = us.open_source(people, schema)
    release = us.synthesize(source, method="ipf", margins="2", budget=us.ZCDP(rho=rho), stream=SeededStream(seed))
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
        joined, alone = confirmed(source, release, question, Fraction(rho) * share, 7000 + seed)
        for how, tables, use in ((AS_SERVED, joined, NEWEST), (ALL_TABLES, joined, TOGETHER), (ALONE, alone, TOGETHER)):
            try:
                answer = asked(tables, question, seed, use)
            except UnderstudyError:
                continue
            held = bool(answer.low <= truth[question][0] <= answer.high)
            name = f"{why}, fresh rho {share} of the release's, {how}"
            found.setdefault(name, []).append([answer.validity, held, answer.high - answer.low])
    return found


def chosen_table(results: dict[str, dict[str, dict[str, list[list]]]]) -> str:
    """Coverage of questions that were chosen, whatever the label, with labels and widths beside."""
    lines = ["| question, fresh table, answer | " + " | ".join(f"rho {rho}" for rho in RHOS) + " |"]
    lines.append("|---" * (1 + len(RHOS)) + "|")
    for name in dict.fromkeys(name for by_seed in results.values() for one in by_seed.values() for name in one):
        cells = []
        for rho in RHOS:
            seen = [one for by_seed in results.get(rho, {}).values() for one in by_seed.get(name, [])]
            valid = sum(one[0] == "valid" for one in seen)
            held, width = (np.mean([one[place] for one in seen]) if seen else np.nan for place in (1, 2))
            cells.append(f"{held:.3f} of {len(seen)} ({valid} valid), {width:.3f} wide")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def table(results: dict[str, dict[str, dict[str, list[list]]]]) -> str:
    """Coverage of answers from all tables, for questions fixed beforehand, by question and rho.

    The server calls such answers *selection not modelled*, since it cannot know when a question was fixed.
    """
    lines = ["| question | " + " | ".join(f"rho {rho}" for rho in RHOS) + " |", "|---" * (1 + len(RHOS)) + "|"]
    names = dict.fromkeys(name for by_seed in results.values() for one in by_seed.values() for name in one)
    for name in names:
        cells = []
        for rho in RHOS:
            seen = [
                pair
                for one in results.get(rho, {}).values()
                for pair in one.get(name, [])
                if pair[0] in ("valid", "range", "selection not modelled")
            ]
            cells.append(f"{np.mean([hit for _, hit in seen]):.3f} of {len(seen)}" if seen else "none")
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=2, help="data sets for each rho")
    parser.add_argument("--minutes", type=float, default=1.0, help="processor time of this run")
    parser.add_argument("--out", type=Path, help="where results are kept, to be added to")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--chosen", action="store_true", help="questions chosen after seeing the release")
    given = parser.parse_args()
    schema = small_schema()
    results = json.loads(given.out.read_text()) if given.out and given.out.exists() else {}
    truth, census = truths(schema), make_people(CENSUS, seed=1).select(list(schema.names))
    until = time.process_time() + 60 * given.minutes
    for seed in range(given.first, given.first + given.sets):
        for rho in RHOS:
            if str(seed) in results.get(rho, {}) or time.process_time() > until:
                continue
            results.setdefault(rho, {})[str(seed)] = (chosen_set if given.chosen else one_set)(
                schema, truth, rho, seed, census
            )
            if given.out:
                given.out.write_text(json.dumps(results))
    print((chosen_table if given.chosen else table)(results))
    print(f"\n{ {rho: len(one) for rho, one in results.items()} } data sets of {RECORDS:,} people")


if __name__ == "__main__":
    main()
