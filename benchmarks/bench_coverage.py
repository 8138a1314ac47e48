"""Coverage and width of 95 percent intervals from margin-based releases: noise-aware, naive, and each combining rule.

    python benchmarks/bench_coverage.py run RESULTS.jsonl [--share 1] [--seconds 600] [--only ipf/0.5/inside] [--from 0]
    python benchmarks/bench_coverage.py table RESULTS.jsonl
    python benchmarks/bench_coverage.py speed

The first is resumable (it skips what is in the file), the second prints the table of docs/benchmarks.md.

2,000 people in five attributes (240 cells), six two-way tables for ``ipf``, pure budgets, unit ``replace``. Inside: a
log-linear population with two-way interactions only. Outside: the same with three-way interactions and a pair that no
table measures. Truth is the population's. Every data set is a new sample of people with new noise.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import understudy as us
from understudy.core.measurement import Measurement
from understudy.inference.ask import _delta_method
from understudy.inference.combining import combine
from understudy.inference.estimands import Estimand, make_estimand
from understudy.inference.evidence import gather
from understudy.inference.questions import parse_question
from understudy.privacy.steps import query_of
from understudy.privacy.streams import SeededStream
from understudy.release.value import Provenance, Statement
from understudy.synth.base import Request, configure

PEOPLE = 2000
EPSILONS = ("0.5", "1", "2", "10")
COPIES, POSTERIOR_COPIES = 5, 20
SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="age", edges=(16, 28, 42, 54, 64, 97), integer=True),
        us.Attribute(name="smokes", levels=("no", "yes")),
        us.Attribute(name="health", levels=("bad", "fair", "good"), ordered=True),
        us.Attribute(name="region", levels=("N", "E", "S", "W")),
    )
)
MARGINS = "sex+age, sex+smokes, age+smokes, age+health, smokes+health, health+region"
QUESTIONS = {
    "proportion": ("proportion(smokes == 'yes')", {}),
    "difference": (
        "proportion(smokes == 'yes', where=sex == 'F') - proportion(smokes == 'yes', where=sex == 'M')",
        {},
    ),
    "logit slope": ("smokes ~ age + sex", {"event": "yes"}),
}
# What is run: method, its options, whether copies are posterior draws, and data sets per population and epsilon.
CASES: dict[str, tuple[str, dict[str, str], int]] = {
    "ipf": ("ipf", {"margins": MARGINS}, 2000),
    "ipf, posterior draws": ("ipf", {"margins": MARGINS, "draws": "posterior"}, 300),
    "ipf, posterior draws, 5 n rows": ("ipf", {"margins": MARGINS, "draws": "posterior"}, 300),
    "mst": ("mst", {}, 400),
    "aim": ("aim", {}, 300),
    "independent": ("independent", {}, 400),
}
REAL: dict[str, np.ndarray] = {}  # widths of intervals from the real data, which are known for these populations
TABLES = 300  # data sets of ipf whose synthetic tables are analysed too
BATCH = 25


def population(outside: bool) -> np.ndarray:
    """The share of every cell."""
    sex, age, smokes, health, region = np.indices(SCHEMA.shape())
    log = 0.1 * sex - 0.12 * (age - 2) ** 2 - 0.9 * smokes + 0.5 * smokes * sex - 0.2 * (age - 2) * smokes
    log = log + np.array([-0.6, 0.1, 0.4])[health] - 0.25 * (age - 2) * (health - 1) - 0.4 * smokes * (health - 1)
    log = log + 0.2 * (region - 1.5) * (health - 1) - 0.2 * (region == 3) + 0.1 * sex * (age - 2)
    if outside:
        log = log + 0.5 * (sex - 0.5) * (age - 2) * (smokes - 0.5) + 0.4 * (sex - 0.5) * (health - 1)
        log = log + 0.3 * (smokes - 0.5) * (health - 1) * (age - 2)
    shares = np.exp(log)
    return shares / shares.sum()


def people(counts: np.ndarray) -> pa.Table:
    codes = np.unravel_index(np.repeat(np.arange(counts.size), counts.ravel()), SCHEMA.shape())
    values = {"age": np.array([16, 28, 42, 54, 64])}
    return pa.table(
        {
            one.name: values.get(one.name, np.array(one.levels))[codes[place]]
            for place, one in enumerate(SCHEMA.attributes)
        }
    )


def estimands() -> dict[str, Estimand]:
    return {kind: make_estimand(parse_question(text, SCHEMA, **o), SCHEMA) for kind, (text, o) in QUESTIONS.items()}


def truth(estimand: Estimand, shares: np.ndarray) -> np.ndarray:
    others = tuple(place for place, name in enumerate(SCHEMA.names) if name not in estimand.margin)
    groups = np.bincount(estimand.labels, weights=shares.sum(axis=others).ravel(), minlength=estimand.groups)
    return estimand.evaluate(groups[None, :])[0]


def slopes(kind: str, values: np.ndarray) -> np.ndarray:
    """Without the intercept of a regression."""
    return values[..., 1:] if kind == "logit slope" else values


def measured_only(counts: np.ndarray, margins: str, epsilon: str, rng: np.random.Generator) -> us.Release:
    """What ``ipf`` measures, without rows: the same plan and noise at a tenth of the cost."""
    request = Request(budget=us.PureDP(epsilon=epsilon), unit=us.Unit(), records=PEOPLE)
    plan = configure("ipf", {"margins": margins}).plan(SCHEMA, request)
    found = []
    for query in (query_of(step) for step in plan.steps):
        true = counts.sum(axis=tuple(place for place, name in enumerate(SCHEMA.names) if name not in query.margin))
        stay = np.exp(-1 / float(query.mechanism.scale))
        noise = rng.geometric(1 - stay, true.shape) - rng.geometric(1 - stay, true.shape)
        found.append(Measurement(margin=query.margin, values=true + noise, mechanism=query.mechanism))
    return us.Release(
        schema=SCHEMA,
        tables=(pa.table({name: pa.array([], pa.string()) for name in SCHEMA.names}),),
        statement=Statement(unit=us.Unit(), guarantee=plan.budget),
        provenance=Provenance(method="ipf", package_version=us.__version__, plan=plan, records=PEOPLE),
        measurements=tuple(found),
    )


def by_rules(
    release: us.Release, estimand: Estimand, rules: tuple[str, ...]
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Intervals of each rule over the copies, and of the first copy taken for real data."""
    counts = np.stack(
        [
            np.bincount(
                estimand.labels,
                weights=release.coded(copy).counts(estimand.margin).ravel(),
                minlength=estimand.groups,
            )
            for copy in range(1, release.copies + 1)
        ]
    )
    values, variances = _delta_method(estimand, counts, np.ones(estimand.groups, bool), PEOPLE)
    half = 1.959964 * np.sqrt(variances[0])
    yield "naive", values[0] - half, values[0] + half
    for rule in rules:
        name, _, reference = rule.partition(", ")
        both = combine(
            values, variances, rule=name, kappa=release.tables[0].num_rows / PEOPLE, freedom=reference or "plug_in"
        )
        yield rule, *both.interval(0.95)


def entry(
    question: str, true: np.ndarray, by: str, ends: tuple[np.ndarray, np.ndarray], *, cpu: float, said: str = ""
) -> dict[str, object]:
    """Whether an interval holds the truth, and its width over that of the real data's interval."""
    low, high = (slopes(question, np.asarray(end)) for end in ends)
    hit = float(((low <= true) & (true <= high)).mean())
    width = float(np.mean((high - low) / REAL[question]))
    return {"question": question, "by": by, "hit": hit, "width": width, "cpu": cpu, "said": said}


def one(case: str, epsilon: str, outside: bool, seed: int) -> Iterator[dict[str, object]]:
    """All intervals of one data set: hits and widths."""
    method, options, _ = CASES[case]
    rng = np.random.default_rng([seed, int(outside)])
    shares = population(outside)
    counts = rng.multinomial(PEOPLE, shares.ravel()).reshape(shares.shape)
    posterior = options.get("draws") == "posterior"
    with_tables = posterior or (case == "ipf" and seed < TABLES)
    copies = POSTERIOR_COPIES if posterior else COPIES if with_tables else 1
    start = time.process_time()
    if case == "ipf" and not with_tables:
        release = measured_only(counts, options["margins"], epsilon, rng)
    else:
        release = us.synthesize(
            us.open_source(people(counts), SCHEMA), method=method, budget=us.PureDP(epsilon=epsilon), copies=copies,
            rows=5 * PEOPLE if case.endswith("5 n rows") else None, stream=SeededStream(seed), **options,
        )  # fmt: skip
    making = time.process_time() - start
    for kind, estimand in estimands().items():
        true = slopes(kind, truth(estimand, shares))

        if with_tables:
            rules = ("T_f*", "T_f*, normal") if posterior else ("T_p", "T_f*", "T_s")
            for by, low, high in by_rules(release, estimand, rules):
                yield entry(kind, true, by, (low, high), cpu=making)
        if posterior:
            continue
        start = time.process_time()
        text, asked = QUESTIONS[kind]
        try:
            answer = us.infer(release, text, draws=1000, rng=rng, **asked)
        except us.UnderstudyError as problem:
            said = str(problem)[:60]
            yield {"question": kind, "by": "noise-aware", "hit": None, "width": None, "cpu": 0.0, "said": said}
            continue
        low, high = (np.array([getattr(e, side) for e in answer.estimates]) for side in ("low", "high"))
        spent = time.process_time() - start
        yield entry(kind, true, "noise-aware", (low, high), cpu=spent, said=answer.validity)
        if case == "ipf" and seed < TABLES and kind != "logit slope":
            values = estimand.evaluate(gather(release, estimand).draws(1000, rng).shares)
            ends = np.quantile(values, [0.025, 0.975], axis=0)
            yield entry(kind, true, "one table, exact", (ends[0], ends[1]), cpu=0.0)


def real_widths() -> None:
    rng = np.random.default_rng(1)
    shares = population(False)
    for kind, estimand in estimands().items():
        others = tuple(place for place, name in enumerate(SCHEMA.names) if name not in estimand.margin)
        counts = rng.multinomial(PEOPLE, shares.sum(axis=others).ravel(), 20).astype(float)
        groups = np.stack([np.bincount(estimand.labels, weights=c, minlength=estimand.groups) for c in counts])
        variances = _delta_method(estimand, groups, np.ones(estimand.groups, bool), PEOPLE)[1].mean(axis=0)
        found = slopes(kind, 2 * 1.959964 * np.sqrt(variances))
        REAL[kind] = found


def run(path: Path, share: float, seconds: float, only: str, first: int) -> None:
    """Everything not yet in the file, until it is done or so many CPU seconds are spent.

    ``only`` is one cell, such as "ipf/0.5/inside"; ``first`` the first data set.
    """
    warnings.simplefilter("ignore")
    real_widths()
    done = set()
    if path.exists():
        done = {tuple(json.loads(line)["key"]) for line in path.read_text().splitlines() if line}
    work = [
        (case, epsilon, outside, batch)
        for case, (_, _, runs) in CASES.items()
        for outside in (False, True)
        for epsilon in EPSILONS
        for batch in range(int(np.ceil(runs * share / BATCH)))
    ]
    work.sort(key=lambda item: item[3] / CASES[item[0]][2])  # evenly: a run that was cut short still has all rows
    for case, epsilon, outside, batch in work:
        key = (case, epsilon, outside, batch)
        cell = f"{case}/{epsilon}/{'outside' if outside else 'inside'}"
        if key in done or batch * BATCH < first or only not in ("", cell):
            continue
        if time.process_time() > seconds:
            return
        rows = [row for seed in range(batch * BATCH, (batch + 1) * BATCH) for row in one(case, epsilon, outside, seed)]
        with path.open("a") as file:
            file.write(json.dumps({"key": key, "rows": rows}) + "\n")


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
    small = measured_only(rng.multinomial(PEOPLE, shares.ravel()).reshape(shares.shape), MARGINS, "1", rng)
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


def wilson(share: float, runs: int) -> tuple[float, float]:
    z = 1.959964
    centre = (share + z * z / (2 * runs)) / (1 + z * z / runs)
    half = z * np.sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs)) / (1 + z * z / runs)
    return centre - half, centre + half


def table(path: Path, out: Callable[[str], None] = print) -> None:
    found: dict[tuple[str, str, str, bool, str], list[dict]] = {}
    for line in path.read_text().splitlines():
        batch = json.loads(line)
        case, epsilon, outside, _ = batch["key"]
        for row in batch["rows"]:
            found.setdefault((case, row["by"], row["question"], outside, epsilon), []).append(row)
    names = list(dict.fromkeys(key[:4] for key in found))
    out("| release | interval by | question | population | " + " | ".join(f"eps {e}" for e in EPSILONS) + " |")
    out("|---" * (4 + len(EPSILONS)) + "|")
    for name in sorted(names, key=lambda n: (list(CASES).index(n[0]), n[1], n[2], n[3])):
        cells = []
        for epsilon in EPSILONS:
            rows = found.get((*name, epsilon), [])
            answered = [row for row in rows if row["hit"] is not None]
            if not answered:
                cells.append("refused" if rows else "-")
                continue
            share, size = float(np.mean([row["hit"] for row in answered])), len(answered)
            low, high = wilson(share, size)
            width = float(np.median([row["width"] for row in answered]))
            valid = [row["said"] for row in answered].count("valid") / size
            note = f" {valid:.0%} valid" if 0 < valid < 1 else ""
            asked = f" of {len(rows)}" if len(rows) > size else ""
            cells.append(f"{share:.3f} ({low:.3f}-{high:.3f}) x{width:.2f}, {size}{asked}{note}")
        case, by, question, outside = name
        out(f"| {case} | {by} | {question} | {'outside' if outside else 'inside'} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    action, where = sys.argv[1], Path(sys.argv[2] if len(sys.argv) > 2 else "")
    settings = dict(zip(sys.argv[3::2], sys.argv[4::2], strict=True))
    if action == "run":
        run(
            where,
            float(settings.get("--share", 1)),
            float(settings.get("--seconds", "inf")),
            settings.get("--only", ""),
            int(settings.get("--from", 0)),
        )
    elif action == "speed":
        speed()
    else:
        table(where)
