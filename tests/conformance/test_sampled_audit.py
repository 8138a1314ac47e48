"""Every synthesizer is attacked: the sound one must pass, the same one with exactly half its noise must be caught.

The fault is one that accounting cannot see: every noise is drawn at half its scale (a draw from a posterior: with half
its prior) while the full scale is charged and stated. The attacker sees everything that is published.

Half the noise shows in thousands of trials at the least, and a whole run of a method per trial would take hours. So one
run serves many trials, with nothing of the method left out:

- *Canaries*, for methods that measure. Attribute ``a`` has two levels for every canary and a coin says in which of them
  the canary lives (``replace``), or a level of its own and a coin says whether it is there (``add_remove``). Whatever
  tables are measured, a canary has cells of its own in them, and the attack adds up the log likelihood ratios of those
  cells under the law that is *claimed*: the most powerful statistic, over all tables together. Given which tables were
  measured and how precisely, canaries are independent, because the noise on different cells is.
- *Copies*, for methods that draw straight from the data: each copy is a fresh draw with its own part of the budget,
  from the smallest table in which the draw reaches its loss.

The threshold is chosen on separate runs; Clopper and Pearson's bounds make the statement. Budgets are those at which
half the noise shows most. A sound synthesizer is accused with probability at most 1e-5 per audit, the conformance tests
together raise a false alarm with probability below 1e-3; the power against a loss of twice the claim is at least 0.99
and printed (``-rP`` shows it). Seeds are fixed, so that a result stays what it is.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import understudy as us
from understudy.auditing.sampled_audit import detection_power, epsilon_lower_bound
from understudy.core.walsh import CONTRASTS
from understudy.privacy.gate.gate import Gate
from understudy.privacy.gate.measurement_steps import query_of
from understudy.privacy.mechanisms.dirichlet_draw import DirichletDraw
from understudy.privacy.promise.accountant import cdp_epsilon
from understudy.privacy.promise.definition import Definition
from understudy.privacy.randomness.streams import SeededStream
from understudy.synth.shared.method import Synthesis, configure, synthesizers

PROVE = os.environ.get("PROVE") == "1"
FALSE_ALARM, FACTOR = 1e-5, 2.0
OTHER_ALARMS = 9 * 1e-5  # the audits of test_faults.py
CANARIES, COPIES = 400, 1000  # of one run
LEAST_ALARMS = 0.02
KNOWN = 5  # people in every cell, so that a table of counts is not mostly zeros
UNITS = ("replace", "add_remove")
DEAR = {"aim", "dirichlet", "fourier", "loglinear", "mst", "one_look"}  # some ten CPU seconds each: audited with FULL
GAUSSIAN = us.ZCDP(rho=1)  # told apart best at a large delta, where claim and attack are both near what is possible
AT_DELTA = Fraction(2, 5)


@dataclass(frozen=True)
class Claim:
    """A budget, and the (epsilon, delta) it claims at which it is attacked."""

    budget: Definition
    epsilon: float
    delta: float = 0.0


@dataclass(frozen=True)
class Setting:
    """How a method is attacked. By default through the cells of canaries, in what it measures."""

    options: tuple[tuple[str, Any], ...] = ()
    choose: int = 6  # runs that choose the threshold
    test: int = 14  # runs that test it
    copies: bool = False  # it draws from the data themselves: trials are copies, the fault is half the prior
    coefficients: bool = False  # one person moves everything that is measured: one trial for each run of the gate


SETTINGS = {
    # Whether somebody is there shows far less in one row drawn than where somebody lives.
    ("dirichlet", "replace"): Setting(copies=True, choose=1, test=2),
    ("dirichlet", "add_remove"): Setting(copies=True, choose=1, test=15),
    ("fourier", "replace"): Setting(coefficients=True),
    ("fourier", "add_remove"): Setting(coefficients=True),
    # A tenth of its budget pays for choices, which do not show in a cell; the rest is spread over several tables.
    ("aim", "replace"): Setting(options=(("rounds", 3),), choose=8, test=48),
    ("aim", "add_remove"): Setting(choose=12, test=40),
    ("mst", "replace"): Setting(choose=8, test=40),  # a sixth pays for choices
    ("mst", "add_remove"): Setting(choose=8, test=40),
    ("one_look", "replace"): Setting(choose=8, test=60),  # a look at all pairs is paid for too
}


def setting_of(method: str, unit: str) -> Setting:
    return SETTINGS.get((method, unit), Setting())


def claim_of(method: str, guarantee: str, unit: str) -> Claim:
    epsilon = float(cdp_epsilon(GAUSSIAN.rho, AT_DELTA))
    if setting_of(method, unit).copies:
        claims = {
            "pure": Claim(us.PureDP(epsilon=COPIES * Fraction(5, 4)), 1.25),
            "approx": Claim(us.ApproxDP(epsilon=COPIES * Fraction(5, 4), delta=Fraction(COPIES, 10**6)), 1.25, 1e-6),
            "probabilistic": Claim(
                us.ProbabilisticDP(epsilon=COPIES * Fraction(5, 4), delta=Fraction(COPIES, 10**6)), 1.25, 1e-6
            ),
        }
    else:
        approx = Claim(us.ApproxDP(epsilon=Fraction(epsilon), delta=AT_DELTA), epsilon, float(AT_DELTA))
        claims = {
            "pure": Claim(us.PureDP(epsilon="2.5"), 2.5),
            "approx": approx,
            "probabilistic": replace(approx, budget=us.ProbabilisticDP(epsilon=Fraction(epsilon), delta=AT_DELTA)),
            "zcdp": Claim(GAUSSIAN, epsilon, float(AT_DELTA)),
        }
    return claims[guarantee]


def cases() -> Iterator[tuple[str, str, str]]:
    """Every method, every guarantee it offers but none, and both units."""
    for method in synthesizers:
        for guarantee in synthesizers[method].guarantees:
            if guarantee != "none":
                for unit in UNITS:
                    if (guarantee, unit) != ("probabilistic", "add_remove"):  # refused: it is proved for replace
                        yield method, guarantee, unit


def marked() -> Iterator[Any]:
    """With FULL every guarantee and every unit of each method; with PROVE every guarantee under every unit.

    A plain run takes one guarantee under one unit, of the methods whose audit is cheap.

    Units take turns over the methods and their guarantees. A draw from the data themselves is audited under
    ``replace``, where it takes a fifth of the copies, and once under ``add_remove``.
    """
    seen: Counter[str] = Counter()
    for method, guarantee, unit in cases():
        turn = seen[method]
        seen[method] += 1
        copied = setting_of(method, unit).copies
        first = list(synthesizers).index(method)
        leading = turn == (0 if copied else first % len(UNITS))
        number = synthesizers[method].guarantees.index(guarantee)
        its_turn = UNITS[(first + number) % len(UNITS)] == unit
        wanted = leading or (unit == "replace" or guarantee == "pure" if copied else its_turn)
        if wanted or PROVE:
            yield pytest.param(method, guarantee, unit, id=f"{method}-{guarantee}-{unit}",
                               marks=[] if leading and method not in DEAR else [pytest.mark.full])  # fmt: skip


class HalfTheNoise:
    """A stream that draws every noise at half the scale it is asked for, and counts how often it did."""

    secure = False

    def __init__(self, stream: SeededStream) -> None:
        self.stream = stream
        self.halved = 0

    def discrete_laplace(self, scale: Fraction, size: int) -> Any:
        self.halved += 1
        return self.stream.discrete_laplace(scale / 2, size)

    def discrete_gaussian(self, scale: Fraction, size: int) -> Any:
        self.halved += 1
        return self.stream.discrete_gaussian(scale / 2, size)

    def noisy_argmax(self, scores: Any, scale: Fraction, law: Any = "exponential") -> int:
        self.halved += 1
        return self.stream.noisy_argmax(scores, scale / 2, law)

    def words(self, count: int, *purpose: str | int) -> Any:
        return self.stream.words(count, *purpose)

    def hand_out(self, *purpose: str | int) -> Any:
        return self.stream.hand_out(*purpose)


class HalfThePrior:
    """Lets draws from a posterior run with half their prior while the charge stays, and counts them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.halved = 0
        honest = DirichletDraw.draw

        def draw(mechanism: DirichletDraw, *arguments: Any) -> Any:
            self.halved += 1
            return honest(replace(mechanism, prior=mechanism.prior / 2), *arguments)

        patch.setattr(DirichletDraw, "draw", draw)


Scores = Callable[[int, Any], tuple[np.ndarray, np.ndarray]]  # (run, stream) -> which side each trial was on, its score


@dataclass(frozen=True)
class CanaryWorld:
    """Canaries with cells of their own in every table that has attribute ``a``, among people who are known."""

    unit: str

    @property
    def levels(self) -> int:
        return CANARIES * (2 if self.unit == "replace" else 1)

    @property
    def schema(self) -> us.Schema:
        a, b = tuple(f"a{level}" for level in range(self.levels)), ("p", "q", "r")
        never = us.Impossible(
            conditions=(("a", us.Condition(levels=("a0",))), ("b", us.Condition(levels=("r",)))),
        )
        return us.Schema(
            attributes=(us.Attribute(name="a", levels=a), us.Attribute(name="b", levels=b)), impossible=(never,)
        )

    def places(self, coins: np.ndarray) -> np.ndarray:
        """The levels of ``a`` in which canaries live: all of ``b = p``."""
        if self.unit == "replace":
            return 2 * np.arange(CANARIES) + coins
        return np.flatnonzero(coins)

    def people(self, coins: np.ndarray) -> list[int]:
        """Cells of the full table: known people in each that is possible, and the canaries."""
        known = np.repeat(np.flatnonzero(self.schema.allowed()), KNOWN)
        return [*known.tolist(), *(3 * self.places(coins)).tolist()]

    def scores(self, synthesis: Synthesis) -> np.ndarray:
        """The log likelihood ratio of a canary's cells, heads to tails, by the noise that is claimed."""
        total = np.zeros(CANARIES)
        for one in synthesis.measurements:
            if "a" not in one.margin:
                continue  # a canary has no cell of its own there
            with_b = "b" in one.margin
            values = one.values.reshape(self.levels, -1)[:, 0]
            known = np.full(self.levels, KNOWN * (1 if with_b else 3))
            known[0] -= 0 if with_b else KNOWN  # one cell of the first level is impossible
            present = one.mechanism.log_pmf(values, known + 1) - one.mechanism.log_pmf(values, known)
            total += present[1::2] - present[::2] if self.unit == "replace" else present
        return total

    def attack(self, method: str, claim: Claim, memory_source: Any) -> Scores:
        schema, setting = self.schema, setting_of(method, self.unit)
        plan = us.plan(schema, method=method, budget=claim.budget, unit=self.unit, **dict(setting.options))
        synthesizer = configure(plan.method, plan.options)

        def one_run(number: int, stream: Any) -> tuple[np.ndarray, np.ndarray]:
            coins = np.random.default_rng([number, 1]).integers(0, 2, CANARIES)
            gate = Gate(source=memory_source(schema, self.people(coins)), schema=schema, plan=plan, stream=stream)
            synthesis = synthesizer.run(plan, schema, gate, stream)
            assert gate.events == plan.events or plan.adaptive  # the charge is the planned one, fault or not
            assert synthesis.measurements, f"'{method}' measures nothing: say in SETTINGS how it is attacked"
            return coins.astype(bool), self.scores(synthesis)

        return one_run


@dataclass(frozen=True)
class CopiesWorld:
    """One row drawn from few people, again and again: there the posterior is as far from its neighbour as it gets.

    Under ``replace`` one person lives in one cell of two or in the other. Under ``add_remove`` four people live in one
    cell of two, and one more in the other or not.
    """

    unit: str
    schema = us.Schema(attributes=(us.Attribute(name="a", levels=("x", "y")),))

    def people(self, side: int) -> list[int]:
        return [side] if self.unit == "replace" else [0, 0, 0, 0, 1][: 4 + side]

    def attack(self, method: str, claim: Claim, memory_source: Any) -> Scores:
        plan = us.plan(self.schema, method=method, budget=claim.budget, unit=self.unit, rows=1, copies=COPIES)
        synthesizer = configure(plan.method, plan.options)

        def one_run(number: int, stream: Any) -> tuple[np.ndarray, np.ndarray]:
            sides, scores = [], []
            for side in (0, 1):
                # A source of its own for each side: the draws are repeatable, and must not be the same ones.
                own = stream if side == 0 else type(stream)(*_seeded(stream, number))
                source = memory_source(self.schema, self.people(side))
                gate = Gate(source=source, schema=self.schema, plan=plan, stream=own)
                tables = synthesizer.run(plan, self.schema, gate, own).tables
                assert gate.events == plan.events
                scores += [int(table.columns["a"][0]) for table in tables]
                sides += [bool(side)] * COPIES
            return np.array(sides), np.array(scores, dtype=float)

        return one_run


@dataclass(frozen=True)
class CoefficientsWorld:
    """One person in a table of two cells, or elsewhere, of whom every coefficient tells; known people besides."""

    unit: str
    schema = us.Schema(attributes=(us.Attribute(name="a", levels=("x", "y")),))

    def people(self, side: int) -> list[int]:
        return [0, 1, 1, side] if self.unit == "replace" else [0, 1, 1, 0][: 3 + side]

    def attack(self, method: str, claim: Claim, memory_source: Any) -> Scores:
        plan = us.plan(self.schema, method=method, budget=claim.budget, unit=self.unit)
        queries = [query_of(step, CONTRASTS if step.margin else "all") for step in plan.steps]
        sources = [memory_source(self.schema, self.people(side)) for side in (0, 1)]

        def one_run(_number: int, stream: Any) -> tuple[np.ndarray, np.ndarray]:
            sides = np.arange(CANARIES) % 2 == 1
            scores = np.zeros(CANARIES)
            for trial, side in enumerate(sides):
                gate = Gate(source=sources[int(side)], schema=self.schema, plan=plan, stream=stream)
                for one in gate.measure(queries):
                    there, here = (self._truth(number, one.margin) for number in (1, 0))
                    likelier = one.mechanism.log_pmf(one.values, there) - one.mechanism.log_pmf(one.values, here)
                    scores[trial] += float(likelier.sum())
                assert gate.events == plan.events
            return sides, scores

        return one_run

    def _truth(self, side: int, margin: tuple[str, ...]) -> np.ndarray:
        counts = np.bincount(self.people(side), minlength=2)
        return np.array([counts[0] - counts[1]]) if margin else np.array(counts.sum())


def _seeded(stream: Any, number: int) -> tuple[Any, ...]:
    other = SeededStream(1_000_000 + number)
    return (1_000_000 + number,) if isinstance(stream, SeededStream) else (other,)


@dataclass(frozen=True)
class Verdict:
    """What an attack of so many trials proves."""

    epsilon_low: float
    claim: Claim
    power: float
    counts: tuple[int, int, int, int]

    @property
    def caught(self) -> bool:
        return self.epsilon_low > self.claim.epsilon

    def describe(self) -> str:
        hits, positives, alarms, negatives = self.counts
        return (
            f"{'caught' if self.caught else 'not caught'}: epsilon at least {self.epsilon_low:.3f} (claimed "
            f"{self.claim.epsilon:.3f}, delta {self.claim.delta:g}); said yes in {hits} of {positives} and {alarms} of "
            f"{negatives} trials; power {self.power:.4f} against {FACTOR:g} times the claim"
        )


def counted(sides: np.ndarray, scores: np.ndarray, threshold: float) -> tuple[int, int, int, int]:
    yes = scores >= threshold
    return int(yes[sides].sum()), int(sides.sum()), int(yes[~sides].sum()), int((~sides).sum())


def audit(one_run: Scores, stream: Callable[[int], Any], setting: Setting, claim: Claim) -> Verdict:
    """Choose the threshold on the first runs, test it on the others."""
    trials = [one_run(number, stream(number)) for number in range(setting.choose + setting.test)]
    sides, scores = (np.concatenate(part) for part in zip(*trials[: setting.choose], strict=True))

    # Half-way between neighbouring values, so that rounding in the last digit cannot move a trial across.
    distinct = np.unique(np.round(scores, 6)) - 1e-4
    candidates = distinct[np.unique(np.linspace(0, len(distinct) - 1, 200).round().astype(int))]
    chosen = [counted(sides, scores, value) for value in candidates]
    bounds = np.array([epsilon_lower_bound(*counts, delta=claim.delta, alpha=0.05) for counts in chosen])
    hits, positives, alarms, negatives = np.array(chosen).T
    bounds += 1e-6 * (hits / positives - alarms / negatives)  # where all are 0, what tells the sides apart best
    if bounds.max() <= claim.epsilon:
        bounds[alarms < LEAST_ALARMS * negatives] = -1  # too few to prove anything by
    threshold = float(candidates[bounds.argmax()])
    counts = counted(*(np.concatenate(part) for part in zip(*trials[setting.choose :], strict=True)), threshold)
    rate = (counts[2] + 0.5) / (counts[3] + 1)
    smaller = min(counts[1], counts[3])
    power = detection_power(rate, smaller, claimed=claim.epsilon, delta=claim.delta, alpha=FALSE_ALARM, factor=FACTOR)
    low = epsilon_lower_bound(*counts, delta=claim.delta, alpha=FALSE_ALARM)
    return Verdict(low, claim, power, counts)


@pytest.mark.parametrize("unit", UNITS)
def test_the_sides_of_a_coin_are_neighbours(unit):
    heads = np.ones(CANARIES, dtype=np.int64)
    tails = heads.copy()
    tails[7] = 0
    canaries = CanaryWorld(unit)
    pairs = [(canaries.people(tails), canaries.people(heads))]
    pairs += [(world.people(0), world.people(1)) for world in (CopiesWorld(unit), CoefficientsWorld(unit))]
    for first, second in pairs:
        gone, come = Counter(first) - Counter(second), Counter(second) - Counter(first)
        assert come.total() == 1
        assert gone.total() == (unit == "replace")
    allowed = canaries.schema.allowed().ravel()
    assert all(allowed[cell] for people in pairs[0] for cell in people)


def test_the_whole_suite_seldom_raises_a_false_alarm():
    assert len(list(cases())) * FALSE_ALARM + OTHER_ALARMS <= 1e-3


@pytest.mark.parametrize(("method", "guarantee", "unit"), list(marked()))
def test_the_synthesizer_passes_and_half_its_noise_does_not(memory_source, monkeypatch, method, guarantee, unit):
    claim, setting = claim_of(method, guarantee, unit), setting_of(method, unit)
    world: Any = CopiesWorld(unit) if setting.copies else CanaryWorld(unit)
    world = CoefficientsWorld(unit) if setting.coefficients else world
    one_run = world.attack(method, claim, memory_source)
    sound = audit(one_run, SeededStream, setting, claim)
    print(f"{method}, {guarantee}, {unit}: {sound.describe()}")
    assert not sound.caught
    assert sound.power >= 0.99
    streams: list[HalfTheNoise] = []

    def faulty_stream(seed: int) -> Any:
        if setting.copies:
            return SeededStream(seed)
        streams.append(HalfTheNoise(SeededStream(seed)))
        return streams[-1]

    prior = HalfThePrior(monkeypatch) if setting.copies else None
    faulty = audit(one_run, faulty_stream, setting, claim)
    print(f"{method}, {guarantee}, {unit}, halved: {faulty.describe()}")
    assert all(stream.halved for stream in streams)
    assert prior is None or prior.halved == 2 * COPIES * (setting.choose + setting.test)
    assert faulty.caught
