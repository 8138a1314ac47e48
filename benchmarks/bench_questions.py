"""What the default release of a wide file answers: ordinary questions, by label, with coverage and the price for rows.

    python benchmarks/bench_questions.py --out questions.jsonl [--seed 1] [--releases 2] [--minutes 10] [--rows]
    python benchmarks/bench_questions.py --out questions.jsonl --show

Populations: Adult (12 attributes), the Massachusetts excerpt (24), NLTCS (16) and generated latent classes (14
attributes of 2 to 8 levels). People are drawn with replacement; questions are drawn from the seed about levels that at
least 5 percent of the people have: shares in subgroups, differences, cross-tabulations and logistic regressions of two
attributes, and shares of three. An answer counts by its worst label; *quantities* is the mean part of an answer's
quantities that is `valid`. Every release is a line; a second run adds.
``--rows``: also the mean S_pMSE of all pairs, divided by that of the same plan without tables for answers.
"""

from __future__ import annotations

import argparse
import json
import re
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import combinations, product
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import understudy as us
from margin_data import load
from understudy.errors import UnderstudyError
from understudy.evaluation.shared.table_measures import s_pmse
from understudy.inference.ask import ask
from understudy.privacy.randomness.streams import SeededStream

FILES = ("Adult", "MA", "NLTCS", "classes")
SIZES = (5000, 20_000)
BUDGETS: dict[str, Callable[[], object]] = {
    "(1, 1e-9)": lambda: us.ApproxDP(epsilon=1, delta="1e-9"),
    "pure 1": lambda: us.PureDP(epsilon=1),
}
TWO_WAY, THREE_WAY = 16, 6
LEAST = 0.05  # of the people have a level that is asked about
WITHOUT = ("fnlwgt", "native-country")  # of Adult, which has 12 attributes then
Columns = dict[str, np.ndarray]


def population(name: str, rng: np.random.Generator) -> tuple[us.Schema, Columns]:
    if name != "classes":
        schema, table, _ = load(name)
        names = [one for one in schema.names if one not in WITHOUT]
        plain = {one: re.sub(r"\W", "_", one) for one in names}
        attributes = tuple(us.Attribute(name=plain[one], levels=tuple(range(schema[one].size))) for one in names)
        return us.Schema(attributes=attributes), {plain[one]: table[one].to_numpy() for one in names}
    people, sizes = 40_000, [2, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 8, 8]
    of = rng.choice(5, people, p=rng.dirichlet(np.full(5, 4.0)))
    columns = {}
    for place, size in enumerate(sizes):
        law = rng.dirichlet(np.full(size, 1.5), 5).cumsum(axis=1)
        columns[f"a{place}"] = np.minimum((law[of] < rng.random(people)[:, None]).sum(axis=1), size - 1)
    schema = us.Schema(
        attributes=tuple(us.Attribute(name=f"a{place}", levels=tuple(range(size))) for place, size in enumerate(sizes))
    )
    return schema, columns


def questions(
    schema: us.Schema, columns: Columns, rng: np.random.Generator
) -> Iterator[tuple[str, str, dict[str, object], Callable[[Columns], float]]]:
    """Kind, text, options and what it is in a population, for questions with one quantity; a crosstab has its first."""
    common = {
        name: [code for code in range(schema[name].size) if np.mean(column == code) >= LEAST]
        for name, column in columns.items()
    }
    names = [name for name, codes in common.items() if len(codes) > 1]

    def level(name: str) -> tuple[int, object]:
        code = int(rng.choice(common[name]))
        return code, schema[name].levels[code]

    def said(value: object) -> str:
        return repr(value)

    for place in range(TWO_WAY):
        first, second = (str(one) for one in rng.choice(names, 2, replace=False))
        (a, has), (b, inside) = level(first), level(second)
        kind = ("share", "difference", "crosstab", "logit")[place % 4]
        share = f"proportion({first} == {said(has)}, where={second} == {said(inside)})"

        def of_group(people: Columns, first=first, a=a, second=second, code=b) -> float:
            return float(np.mean(people[first][people[second] == code] == a))

        if kind == "share":
            yield "two-way", share, {}, of_group
        elif kind == "difference":
            other = next(code for code in common[second] if code != b)
            text = (
                f"{share} - proportion({first} == {said(has)}, where={second} == {said(schema[second].levels[other])})"
            )
            yield "two-way", text, {}, lambda people, f=of_group, o=other: f(people) - f(people, code=o)
        elif kind == "crosstab":
            yield (
                "two-way",
                f"crosstab({first}, {second})",
                {},
                lambda people, f=first, s=second: float(np.mean((people[f] == 0) & (people[s] == 0))),
            )
        else:
            two = [name for name in names if schema[name].size == 2] or [first]
            outcome = str(rng.choice(two))
            term = str(rng.choice([name for name in names if name != outcome]))
            event = schema[outcome].levels[-1]

            def odds(people: Columns, outcome=outcome, term=term) -> float:
                wanted = people[outcome] == schema[outcome].size - 1
                inside = people[term] == 0
                p = float(np.mean(wanted[inside])) if inside.any() else np.nan
                with np.errstate(divide="ignore"):
                    return float(np.log(p / (1 - p))) if 0 < p < 1 else np.nan

            yield "two-way", f"{outcome} ~ {term}", {"event": event}, odds
    for _ in range(THREE_WAY):
        one, two, three = (str(name) for name in rng.choice(names, 3, replace=False))
        (a, x), (b, y), (c, z) = level(one), level(two), level(three)
        text = f"proportion({one} == {said(x)} and {two} == {said(y)} and {three} == {said(z)})"
        yield (
            "three-way",
            text,
            {},
            lambda people, at=((one, a), (two, b), (three, c)): float(
                np.mean(np.all([people[name] == code for name, code in at], axis=0))
            ),
        )


def distance(schema: us.Schema, columns: Columns, release: us.Release) -> float:
    """Mean S_pMSE of all pairs."""
    made = release.coded(1)
    found = []
    for pair in combinations(schema.names, 2):
        shape = schema.shape(pair)
        true = np.bincount(np.ravel_multi_index([columns[one] for one in pair], shape), minlength=int(np.prod(shape)))
        found.append(s_pmse(true, made.counts(pair).reshape(-1)))
    return float(np.mean(found))


def one_release(name: str, size: int, budget: str, seed: int, *, rows: bool) -> dict[str, object]:
    rng = np.random.default_rng([seed, FILES.index(name), size])
    schema, columns = population(name, rng)
    picked = rng.integers(len(next(iter(columns.values()))), size=size)
    table = pa.table({one: pa.array(column[picked].astype(np.int64)) for one, column in columns.items()})

    def made() -> us.Release:
        plan = us.plan(schema, budget=BUDGETS[budget](), records=size)
        return us.synthesize(us.open_source(table, schema), plan=plan, stream=SeededStream(seed))

    began = time.process_time()
    release = made()
    plan = release.provenance.plan
    found: dict[str, object] = {
        "file": name, "records": size, "budget": budget, "seed": seed, "method": plan.method,
        "required": sum(one.label.startswith("required") for one in release.measurements),
        "seconds": round(time.process_time() - began, 1), "answers": [],
    }  # fmt: skip
    answers = []
    for kind, text, options, truth in questions(schema, columns, rng):
        began = time.process_time()
        try:
            answer = ask(release, text, rng=np.random.default_rng(seed), **options)
        except UnderstudyError as problem:
            answers.append({"kind": kind, "text": text, "label": "refused", "why": str(problem)[:90]})
            continue
        true, first = truth(columns), answer.estimates[0]
        held = None if not np.isfinite(true) else bool(first.low - 1e-9 <= true <= first.high + 1e-9)
        answers.append({
            "kind": kind, "text": text, "label": answer.validity, "held": held, "first": answer.labels[0],
            "quantities": [len(answer.labels), sum(label == "valid" for label in answer.labels)],
            "width": first.high - first.low if np.isfinite(first.high - first.low) else None,
            "seconds": round(time.process_time() - began, 2),
        })  # fmt: skip
    found["answers"] = answers
    if rows:
        people = {one: column[picked] for one, column in columns.items()}
        with patch("understudy.synth.methods.auto.ordinary_needs", lambda *_, **__: ""):
            without = made()
        found["rows"] = distance(schema, people, release) / distance(schema, people, without)
    return found


def show(results: list[dict]) -> str:
    lines = [
        "| file | budget | records | tables for answers | two-way `valid` | quantities `valid` | two-way `range` | "
        "two-way refused | "
        "three-way `range` or `valid` | three-way refused | `valid` covered | rows |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, str, int], list[dict]] = defaultdict(list)
    for one in results:
        groups[one["file"], one["budget"], one["records"]].append(one)

    def part(answers: list[dict], kind: str, labels: tuple[str, ...]) -> float:
        own = [one for one in answers if one["kind"] == kind]
        return sum(one["label"] in labels for one in own) / max(len(own), 1)

    for (file, budget, records), found in sorted(groups.items()):
        answers = [one for each in found for one in each["answers"]]
        told = [one["quantities"] for one in answers if one["kind"] == "two-way" and "quantities" in one]
        parts = [best / all_of_them for all_of_them, best in told]
        held = [one["held"] for one in answers if one.get("first") == "valid" and one["held"] is not None]
        rows = [one["rows"] for one in found if "rows" in one]
        tables = "/".join(dict.fromkeys(str(one["required"]) for one in found))
        lines.append(
            f"| {file} | {budget} | {records:,} | {tables} | {part(answers, 'two-way', ('valid',)):.2f} | "
            f"{np.mean(parts) if parts else np.nan:.2f} | {part(answers, 'two-way', ('range',)):.2f} | "
            f"{part(answers, 'two-way', ('refused',)):.2f} | "
            f"{part(answers, 'three-way', ('valid', 'range')):.2f} | {part(answers, 'three-way', ('refused',)):.2f} | "
            f"{np.mean(held) if held else np.nan:.2f} of {len(held)} | "
            f"{np.mean(rows) if rows else np.nan:.2f} ({len(found)}) |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--releases", type=int, default=2, help="of each file, size and budget")
    parser.add_argument("--minutes", type=float, default=10.0, help="processor time of this run")
    parser.add_argument("--rows", action="store_true", help="also what tables for answers cost the rows")
    parser.add_argument("--show", action="store_true", help="only show what is there")
    parser.add_argument("--budgets", nargs="*", default=list(BUDGETS))
    parser.add_argument("--files", nargs="*", default=list(FILES))
    given = parser.parse_args()
    results = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    done = {(one["file"], one["records"], one["budget"], one["seed"]) for one in results}
    until = time.process_time() + 60 * given.minutes
    seeds = range(given.seed, given.seed + given.releases)
    for seed, name, size, budget in product(seeds, given.files, SIZES, given.budgets):
        if given.show or (name, size, budget, seed) in done or time.process_time() > until:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = one_release(name, size, budget, seed, rows=given.rows)
        results.append(found)
        with given.out.open("a") as file:
            file.write(json.dumps(found) + "\n")
    print(show(results))


if __name__ == "__main__":
    main()
