"""The data sets of bench_coverage.py: populations, releases, questions, and every interval that one data set gives.

2,000 people in five attributes (240 cells), six two-way tables for ``ipf``, pure budgets, unit ``replace``. Inside: a
log-linear population with two-way interactions only. Outside: the same with three-way interactions and a pair that no
table measures. Truth is the population's. Every data set is a new sample of people with new noise, in every cell of the
table its own.

What only reads measurements does not need rows that are worth something, so the model that rows are drawn from is then
fitted without choosing its prior by the coupled bootstrap, which is nine tenths of the cost of a data set.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from unittest import mock

import numpy as np
import pyarrow as pa

import understudy as us
from understudy.core.measurement import Measurement
from understudy.core.questions import parse_question
from understudy.inference.ask import delta_method
from understudy.inference.combining import combine
from understudy.inference.estimands import Estimand, make_estimand
from understudy.inference.evidence import gather
from understudy.privacy.gate.measurement_steps import query_of
from understudy.privacy.promise.plan import Plan
from understudy.privacy.randomness.streams import SeededStream
from understudy.release.statement import Provenance, Statement
from understudy.synth.shared.method import Request, configure

PEOPLE = 2000
EPSILONS = ("0.5", "1", "2", "10")
COPIES, POSTERIOR_COPIES, TIMES = 5, 25, 5
DRAWS = 1000
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
QUESTIONS: dict[str, tuple[str, dict[str, str]]] = {
    "proportion": ("proportion(smokes == 'yes')", {}),
    "difference": (
        "proportion(smokes == 'yes', where=sex == 'F') - proportion(smokes == 'yes', where=sex == 'M')",
        {},
    ),
    "logit slope": ("smokes ~ age + sex", {"event": "yes"}),
}
RULES = ("T_p", "T_f*", "T_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One interval: the share of its quantities that hold their truth, and its width over the real data's."""

    by: str
    question: str
    hit: float | None  # None where the question was refused
    width: float | None
    said: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A way of making releases, what is read of them, and how many data sets at most."""

    number: int  # of its random numbers
    method: str
    options: Mapping[str, str] = field(default_factory=dict)
    reads: str = "measurements"  # or rows, both, copies
    most: int = 2000


IPF = {"margins": MARGINS}
CASES: dict[str, Case] = {
    "ipf": Case(number=1, method="ipf", options=IPF),
    "ipf, posterior draws": Case(number=2, method="ipf", options={**IPF, "draws": "posterior"}, reads="copies"),
    "independent": Case(number=3, method="independent"),
    "mst": Case(number=4, method="mst"),
    "aim": Case(number=5, method="aim"),
    "auto": Case(number=6, method="auto"),
    "histogram": Case(number=7, method="histogram", reads="both"),
    "dirichlet": Case(number=8, method="dirichlet", reads="both"),
    "ipf, rows": Case(number=9, method="ipf", options=IPF, reads="rows", most=500),
    "independent, rows": Case(number=10, method="independent", reads="rows", most=300),
    "mst, rows": Case(number=11, method="mst", reads="rows", most=300),
    "aim, rows": Case(number=12, method="aim", reads="rows", most=300),
}


@cache
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
    return np.asarray(shares / shares.sum())


@cache
def estimand_of(question: str) -> Estimand:
    text, options = QUESTIONS[question]
    return make_estimand(parse_question(text, SCHEMA, **options), SCHEMA)


def grouped(estimand: Estimand, tables: np.ndarray) -> np.ndarray:
    """Full tables (any number of them, first axis) as counts of the groups of a question."""
    others = tuple(place + 1 for place, name in enumerate(SCHEMA.names) if name not in estimand.margin)
    small = tables.sum(axis=others).reshape(len(tables), -1)
    return small @ np.eye(estimand.groups)[estimand.labels]


def slopes(question: str, values: np.ndarray) -> np.ndarray:
    """Without the intercept of a regression."""
    return values[..., 1:] if question == "logit slope" else values


@cache
def truth(question: str, outside: bool) -> np.ndarray:
    estimand = estimand_of(question)
    return slopes(question, estimand.evaluate(grouped(estimand, population(outside)[None]))[0])


@cache
def real_width(question: str, outside: bool) -> np.ndarray:
    """The width of an interval from the real data."""
    estimand = estimand_of(question)
    counts = grouped(estimand, PEOPLE * population(outside)[None])
    variances = delta_method(estimand, counts, np.ones(estimand.groups, bool), PEOPLE)[1][0]
    return slopes(question, 2 * 1.959964 * np.sqrt(variances))


def people(counts: np.ndarray) -> pa.Table:
    codes = np.unravel_index(np.repeat(np.arange(counts.size), counts.ravel()), SCHEMA.shape())
    values = {"age": np.array([16, 28, 42, 54, 64])}
    return pa.table(
        {
            one.name: values.get(one.name, np.array(one.levels))[codes[place]]
            for place, one in enumerate(SCHEMA.attributes)
        }
    )


@cache
def ipf_plan(epsilon: str) -> Plan:
    request = Request(budget=us.PureDP(epsilon=epsilon), unit=us.Unit(), records=PEOPLE)
    return configure("ipf", IPF).plan(SCHEMA, request)


def measured_only(counts: np.ndarray, epsilon: str, rng: np.random.Generator) -> us.Release:
    """What ``ipf`` measures, without rows: the same plan and noise at a tenth of the cost."""
    plan = ipf_plan(epsilon)
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


def made(case: Case, counts: np.ndarray, epsilon: str, rng: np.random.Generator) -> us.Release:
    """A release of one data set."""
    if case.method == "ipf" and case.reads == "measurements":
        return measured_only(counts, epsilon, rng)
    copies = {"copies": POSTERIOR_COPIES, "measurements": 1}.get(
        case.reads, 1 if case.method == "dirichlet" else COPIES
    )
    quickly: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
    if case.reads in ("measurements", "copies"):
        quickly = mock.patch("understudy.models.fit.choose_factor", return_value=1.0)
    with quickly:
        return us.synthesize(
            us.open_source(people(counts), SCHEMA), method=case.method, budget=us.PureDP(epsilon=epsilon),
            copies=copies, rows=TIMES * PEOPLE if case.reads == "copies" else None,
            stream=SeededStream(int(rng.integers(2**62))), **case.options,
        )  # fmt: skip


def judged(question: str, outside: bool, by: str, ends: tuple[np.ndarray, np.ndarray], said: str = "") -> Found:
    low, high = (slopes(question, np.asarray(end)) for end in ends)
    true = truth(question, outside)
    hit = float(((low <= true) & (true <= high)).mean())
    width = float(np.mean((high - low) / real_width(question, outside)))
    return Found(by=by, question=question, hit=hit, width=width, said=said)


def by_rules(
    tables: np.ndarray, question: str, outside: bool, rules: tuple[str, ...], note: str = ""
) -> Iterator[Found]:
    """Intervals of each rule over the copies, and of the first copy taken for real data."""
    estimand = estimand_of(question)
    counts = grouped(estimand, tables)
    values, variances = delta_method(estimand, counts, np.ones(estimand.groups, bool), PEOPLE)
    half = 1.959964 * np.sqrt(variances[0])
    yield judged(question, outside, f"naive{note}", (values[0] - half, values[0] + half))
    for rule in rules:
        name, _, reference = rule.partition(", ")
        kappa = counts[0].sum() / PEOPLE
        both = combine(values, variances, rule=name, kappa=kappa, freedom=reference or "plug_in")
        yield judged(question, outside, f"{rule}{note}", both.interval(0.95))


def asked(release: us.Release, question: str, outside: bool, rng: np.random.Generator) -> Found:
    """What ``infer`` says."""
    text, options = QUESTIONS[question]
    try:
        answer = us.infer(release, text, draws=DRAWS, rng=rng, **options)
    except us.UnderstudyError:
        return Found(by="infer", question=question, hit=None, width=None, said="refused")
    ends = tuple(np.array([getattr(one, side) for one in answer.estimates]) for side in ("low", "high"))
    return judged(question, outside, "infer", ends, answer.validity)


def sample(case: Case, epsilon: str, outside: bool, seed: int) -> tuple[np.random.Generator, np.ndarray]:
    """The random numbers of one data set, and its people."""
    rng = np.random.default_rng([case.number, EPSILONS.index(epsilon), int(outside), seed])
    shares = population(outside)
    return rng, rng.multinomial(PEOPLE, shares.ravel()).reshape(shares.shape)


def one(name: str, epsilon: str, outside: bool, seed: int) -> Iterator[Found]:
    """All intervals of one data set."""
    case = CASES[name]
    rng, counts = sample(case, epsilon, outside, seed)
    release = made(case, counts, epsilon, rng)
    tables = np.zeros((0, *SCHEMA.shape()))
    if case.reads != "measurements":
        tables = np.stack([release.coded(copy).counts(SCHEMA.names) for copy in range(1, release.copies + 1)])
    if case.reads == "copies":
        # n of 5 n independent rows are n independent rows, so both sizes are read from the same models.
        fewer = np.stack([rng.multivariate_hypergeometric(t.ravel().astype(np.int64), PEOPLE) for t in tables])
        fewer = fewer.reshape(tables.shape)
    for question in QUESTIONS:
        if case.reads in ("measurements", "both"):
            yield asked(release, question, outside, rng)
        if case.reads in ("rows", "both"):
            yield from by_rules(tables, question, outside, RULES if len(tables) > 1 else ("T_s",))
        if case.reads == "copies":
            both = ("T_f*", "T_f*, normal")
            yield from by_rules(tables, question, outside, both, f", {TIMES} n rows")
            yield from by_rules(fewer, question, outside, both, ", n rows")
        if name == "ipf, rows" and question != "logit slope":
            estimand = estimand_of(question)
            values = estimand.evaluate(gather(release, estimand).draws(DRAWS, rng).shares)
            ends = np.quantile(values, [0.025, 0.975], axis=0, method="weibull")
            yield judged(question, outside, "one table, exact", (ends[0], ends[1]))


def chosen_difference(name: str, epsilon: str, outside: bool, seed: int) -> tuple[float, float, bool] | None:
    """Where a difference was answered: how far the sample's own and the answer are from the truth, each in its own
    standard errors, and whether the interval holds the truth."""
    case = CASES[name]
    rng, counts = sample(case, epsilon, outside, seed)
    text, options = QUESTIONS["difference"]
    try:
        answer = us.infer(made(case, counts, epsilon, rng), text, draws=DRAWS, rng=rng, **options)
    except us.UnderstudyError:
        return None
    estimand, true = estimand_of("difference"), float(truth("difference", outside)[0])
    error = float(real_width("difference", outside)[0]) / (2 * 1.959964)
    own = float(estimand.evaluate(grouped(estimand, counts[None] / PEOPLE))[0, 0])
    return (own - true) / error, (answer.value - true) / answer.standard_error, answer.low <= true <= answer.high


def share_by_hand(epsilon: str, outside: bool, seed: int) -> float:
    """Standard errors between the share of smokers, found by normal theory, and the truth: for the data sets of ipf.

    Each table that holds smoking gives an estimate; they are weighted by the precision of their noise. Nothing of
    ``infer`` is used.
    """
    rng, counts = sample(CASES["ipf"], epsilon, outside, seed)
    estimates, precisions = [], []
    for one in measured_only(counts, epsilon, rng).measurements:
        if "smokes" in one.margin:
            place = one.margin.index("smokes")
            no, yes = np.moveaxis(one.values, place, 0).reshape(2, -1).sum(axis=1)
            estimates.append((yes - no + PEOPLE) / 2)
            precisions.append(4 / (one.values.size * float(one.mechanism.variance)))
    total = sum(precisions)
    share = float(np.clip(np.dot(precisions, estimates) / total / PEOPLE, 1e-6, 1 - 1e-6))
    error = np.sqrt(share * (1 - share) / PEOPLE + 1 / total / PEOPLE**2)
    return float((share - truth("proportion", outside)[0]) / error)
