"""One setting from one seed: people, a release of them by a drawn method and budget, and what ``infer`` makes of it."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
from asked import Asked, codes_of, draw_more, draw_questions
from populations import Population, draw_population

import understudy as us
from understudy.core.questions import parse_question
from understudy.errors import MissingExtraError
from understudy.inference.ask import ask, delta_method
from understudy.inference.estimands import make_estimand
from understudy.inference.labels import MODEL
from understudy.inference.regression import CERTAIN
from understudy.privacy.promise.definition import Definition
from understudy.privacy.randomness.streams import SeededStream

QUESTIONS = 20
ROUNDS = 30  # of proportional fitting
MORE = 4  # questions about numbers, beside those
ASIDE = 8  # of a seed: numbers that the questions do not depend on
SLOW = ("took too long", "of processor time")  # failures that say how busy or small a machine is
SECONDS = 10  # of processor time for one answer; more is recorded as a failure
MOST_GROUPS = 200  # of a question whose interval from the real records is computed beside
METHODS = ("auto", "ipf", "histogram", "dirichlet", "independent", "mst", "aim", "one_look")
OF_ODDS = ("logit", "probit", "multinomial", "ordered")
FAR = 3.0  # widths between a valid interval and the truth from which on a seed is kept as a failure


class OverTime(Exception):  # noqa: N818 - it is no error of anybody's
    """An answer took too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a seed stands for, apart from the people themselves."""

    seed: int
    population: Population
    records: int
    method: str
    budget: Definition
    epsilon: float
    unit: us.Unit
    rng: np.random.Generator


def draw_setting(
    seed: int,
    most: int = 100_000,
    *,
    method: str | None = None,
    epsilon: float | None = None,
    population: str | None = None,
) -> Setting:
    """The setting of a seed; few people are likelier than many, and most releases are made by the default method.

    ``method``, ``epsilon`` and ``population`` steer it: what is given is not drawn.
    """
    rng = np.random.default_rng(seed)
    attributes = int(rng.choice([3, 4, 5, 6, 8, 12, 20, 40], p=[0.2, 0.2, 0.2, 0.15, 0.12, 0.08, 0.03, 0.02]))
    people = draw_population(rng, attributes, population)
    sizes = [100, 300, 1000, 3000, 10_000, 30_000, 100_000]
    records = min(int(rng.choice(sizes, p=[0.12, 0.2, 0.33, 0.25, 0.07, 0.02, 0.01])), most)
    drawn_epsilon = float(rng.choice([0.5, 1.0, 2.0, 5.0, 10.0]))
    drawn_method = str(rng.choice(METHODS, p=[0.6, 0.1, 0.08, 0.04, 0.04, 0.07, 0.03, 0.04]))
    method, epsilon = method or drawn_method, epsilon or drawn_epsilon
    if method == "dirichlet":
        epsilon *= 4
    approx = method != "dirichlet" and rng.random() < 0.35
    budget = us.ApproxDP(epsilon=epsilon, delta=1e-6) if approx else us.PureDP(epsilon=epsilon)
    kind = "replace" if method == "dirichlet" or rng.random() < 0.7 else "add_remove"
    rows = 2 if rng.random() < 0.06 else 1
    levels = [one.name for one in people.schema.attributes if one.levels and not one.missing]
    fixed: tuple[str, ...] = ()
    if kind == "replace" and rows == 1 and levels and not people.schema.impossible and rng.random() < 0.06:
        fixed = (str(rng.choice(levels)),)
    unit = us.Unit(kind=kind, rows_per_unit=rows, fixed=fixed)
    return Setting(
        seed=seed,
        population=people,
        records=records,
        method=method,
        budget=budget,
        epsilon=epsilon,
        unit=unit,
        rng=rng,
    )


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raises ``OverTime`` after so much processor time; a compiled call ends first."""

    def stop(*_: object) -> None:
        raise OverTime

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def run(
    seed: int,
    *,
    most: int = 100_000,
    baseline: bool | None = None,
    only: Sequence[str] = (),
    steered: Mapping[str, Any] | None = None,
) -> dict[str, object]:
    """Everything one seed gives, as plain values. ``baseline``: also how useful its rows are; ``only``: kinds of
    questions to ask; ``steered``: the method, epsilon or population, if that is not to be drawn."""
    steered = dict(steered or {})
    setting = draw_setting(seed, most, **steered)
    rng, people = setting.rng, setting.population
    rows = rng.integers(people.size, size=-(-setting.records // setting.unit.rows_per_unit))
    rows = np.repeat(rows, setting.unit.rows_per_unit)[: setting.records]  # a unit's rows are alike, the hardest case
    found: dict[str, object] = {
        "seed": seed,
        "population": people.kind,
        "attributes": len(people.schema.names),
        "records": setting.records,
        "asked_method": setting.method,
        "epsilon": setting.epsilon,
        "budget": type(setting.budget).__name__,
        "unit": setting.unit.kind,
        "rows_per_unit": setting.unit.rows_per_unit,
        "fixed": bool(setting.unit.fixed),
        "zeros": bool(people.schema.impossible),
        "code": code_of_tree(),
        **({"steered": steered} if steered else {}),
        "answers": [],
    }
    began = time.process_time()
    try:
        with at_most(2 * SECONDS):
            release = _made(setting, rows, setting.method, int(rng.integers(2**62)))
    except us.UnderstudyError as error:
        return {**found, "refused": str(error)[:200]}
    except OverTime:
        return {**found, "failure": "the release took too long"}
    except Exception as error:  # whatever it is, it is a finding
        return {**found, "failure": f"release: {type(error).__name__}: {error}"[:300]}
    found["seconds"] = round(time.process_time() - began, 2)
    plan = release.provenance.plan
    found["method"] = setting.method if plan is None else plan.method
    compared = rng.random() < 0.1  # drawn in any case, so that a seed asks the same questions either way
    if compared if baseline is None else baseline:
        aside = np.random.default_rng([seed, ASIDE])
        other = _made(setting, rows, "independent", int(aside.integers(2**62)))
        names = people.schema.names
        picked = [tuple(str(one) for one in aside.choice(names, 2, replace=False)) for _ in range(min(10, len(names)))]
        source = us.wrap(people.frame(rows), people.schema)
        found["distance"] = _distance(source, release, picked)
        found["distance_independent"] = _distance(source, other, picked)
    shared: dict[object, object] = {}  # questions about the same attributes share their draws, as in a list for infer
    records = us.wrap(people.frame(rows), people.schema)
    answers = [
        _answer(release, asked, people, rows, records=records, rng=np.random.default_rng([seed, place]), shared=shared)
        for place, asked in enumerate(
            [
                *draw_questions(rng, people, QUESTIONS, only),
                *draw_more(np.random.default_rng([seed, ASIDE, MORE]), people, MORE, only),
            ]
        )
    ]
    found["answers"] = answers
    found["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return found


def _made(setting: Setting, rows: np.ndarray, method: str, stream: int) -> us.Release:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return us.synthesize(
            us.open_source(setting.population.frame(rows), setting.population.schema),
            method=method,
            budget=setting.budget,
            unit=setting.unit,
            rows=setting.records if setting.unit.kind == "add_remove" else None,
            stream=SeededStream(stream),
        )


def _distance(source: us.Release, release: us.Release, pairs: list[tuple[str, ...]]) -> float:
    """Mean total variation distance of two-way tables."""
    away = []
    for pair in pairs:
        margin = source.schema.margin(pair)
        true, made = (one.coded(1).counts(margin).astype(float) for one in (source, release))
        away.append(0.5 * np.abs(true / true.sum() - made / max(made.sum(), 1)).sum())
    return round(float(np.mean(away)), 4)


def _answer(
    release: us.Release,
    asked: Asked,
    people: Population,
    rows: np.ndarray,
    *,
    records: us.Release,
    rng: np.random.Generator,
    shared: dict[object, object],
) -> dict[str, object]:
    """What ``infer`` says to one question, held against the truth."""
    found: dict[str, object] = {"kind": asked.kind, "question": asked.text}
    began = time.process_time()
    try:
        with at_most(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = ask(release, asked.text, rng=rng, shared=shared, **asked.options)
    except us.UnderstudyError as error:
        kept = f"extra: {error}" if isinstance(error, MissingExtraError) else str(error)
        return {**found, "refused": kept[:160], "seconds": round(time.process_time() - began, 2)}
    except OverTime:
        return {**found, "failure": f"no answer in {SECONDS} s of processor time"}
    except Exception as error:  # whatever it is, it is a finding
        return {**found, "failure": f"{type(error).__name__}: {error}"[:300]}
    found["seconds"] = round(time.process_time() - began, 2)
    found["label"] = answer.validity
    found["labels"] = list(getattr(answer, "labels", ())) or [answer.validity] * len(answer.estimates)
    found["by"] = answer.method.split(" (")[0]
    if answer.validity != "valid":
        found["why"] = [text[:120] for text in answer.warnings]
    try:
        with np.errstate(all="ignore"):
            true = asked.true(rows if asked.of_records else None)
    except Exception as error:
        return {**found, "no_truth": f"{type(error).__name__}"}
    low, high, value = (np.array([getattr(one, part) for one in answer.estimates]) for part in ("low", "high", "value"))
    if len(true) != len(low):
        return {**found, "failure": f"{len(low)} estimates of {len(true)} quantities"}
    # A coefficient that even the population has no finite value of is no test of an interval.
    judged = np.isfinite(true) & (np.abs(true) < 1e6 * np.maximum(1, np.nanmax(np.abs(value), initial=1)))
    if asked.options.get("family") in OF_ODDS:  # where the search for it gave up on its way to infinity
        judged &= np.abs(true) < CERTAIN
    slack = 1e-9 * np.maximum(1, np.abs(true))
    found["hits"] = [
        int(lo - s <= t <= hi + s) if j else None
        for lo, hi, t, s, j in zip(low, high, true, slack, judged, strict=True)
    ]
    found["above"] = [int(t > hi + s) if j else None for hi, t, s, j in zip(high, true, slack, judged, strict=True)]
    found["true"] = [_short(one) for one in true[:12]]
    found["values"] = [_short(one) for one in value[:12]]
    found["low"] = [_short(one) for one in low[:12]]
    found["high"] = [_short(one) for one in high[:12]]
    width = _real_width(asked, records)
    if width is not None and len(width) == len(low):
        with np.errstate(all="ignore"):
            ratio = (high - low) / width
        found["width"] = [_short(one) if np.isfinite(one) else None for one in ratio]
        if answer.validity == MODEL:
            fitted = any("no interactions" in text for text in answer.warnings)
            found["violation"] = _violation(asked, people, np.asarray(true), width, without_interactions=fitted)
    far = judged & ~((low - FAR * (high - low) <= true) & (true <= high + FAR * (high - low)))
    if any(flag and label == "valid" for flag, label in zip(far, found["labels"], strict=True)):  # type: ignore[call-overload]
        found["failure"] = f"valid, and more than {FAR:g} widths away from the truth"
    return found


def _real_width(asked: Asked, records: us.Release) -> np.ndarray | None:
    """The width of a 95 percent interval from the records themselves, known by their bins; None where costly, and where
    a bound inside a bin leaves open who is meant."""
    question = parse_question(asked.text, records.schema, **asked.options)
    if question.cuts:
        return None
    estimand = make_estimand(question, records.schema)
    if estimand.groups > MOST_GROUPS or len(estimand.names) > 60:
        return None
    table = records.coded(1).counts(estimand.margin).reshape(-1)
    counts = np.bincount(estimand.labels, weights=table, minlength=estimand.groups)[None]
    try:
        with np.errstate(all="ignore"):
            variances = delta_method(estimand, counts, np.ones(estimand.groups, bool), int(table.sum()))[1][0]
    except (us.UnderstudyError, np.linalg.LinAlgError):
        return None
    return np.asarray(2 * 1.959964 * np.sqrt(variances))


def _violation(
    asked: Asked, people: Population, true: np.ndarray, width: np.ndarray, *, without_interactions: bool
) -> list[float | None]:
    """By how much the truth differs from that of a population of which the assumptions hold, in standard errors of
    records: numbers lie inside their bins as assumed, and there are no interactions of three attributes.

    That population has the same two-way tables (iterative proportional fitting, code by code, missing ones too), or the
    same table where the answer does not assume that there are none.
    """
    schema = people.schema
    estimand = make_estimand(parse_question(asked.text, schema, **asked.options), schema)
    margin = estimand.margin
    shape = schema.shape(margin)
    codes = [np.where(own < 0, schema[name].size - 1, own) for name in margin for own in [codes_of(people, name)[0]]]
    flat = np.ravel_multi_index([one.astype(np.int64) for one in codes], shape)
    real = np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape) / people.size
    fitted = real
    if without_interactions and len(margin) > 2:
        fitted = np.full(shape, 1 / real.size)
        pairs = [tuple(set(range(len(margin))) - set(pair)) for pair in combinations(range(len(margin)), 2)]
        for _ in range(ROUNDS):
            for others in pairs:
                wanted, own = (one.sum(axis=others, keepdims=True) for one in (real, fitted))
                fitted = fitted * np.where(own > 0, wanted / np.maximum(own, 1e-300), 0.0)
    grouped = np.bincount(estimand.labels, weights=fitted.ravel(), minlength=estimand.groups)
    try:
        with np.errstate(all="ignore"):
            away = np.abs(true - estimand.evaluate(grouped[None, :])[0]) / (width / (2 * 1.959964))
    except (us.UnderstudyError, np.linalg.LinAlgError, ValueError):
        return [None] * len(width)
    return [_short(one) if np.isfinite(one) else None for one in away]


@cache
def code_of_tree() -> str:
    """The commit whose code runs, with a plus if files were changed since; empty outside a repository."""
    try:
        said = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--abbrev=8"],
            cwd=os.path.dirname(os.path.abspath(__file__)),
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return ""
    return said.stdout.strip()


def _short(number: float) -> float:
    return float(f"{number:.5g}")


def fresh_seed() -> int:
    """A seed nobody has seen."""
    return int.from_bytes(os.urandom(6), "big")
