"""Every synthesizer is attacked: the sound one must pass, the same one with half its noise must be caught.

The attacker sees everything that is published: the rows of the release and the noisy measurements. The two inputs
are neighbours under the unit and differ in an otherwise empty cell, where an exact or a too precise count would show
most. The fault is one that accounting cannot see: the noise is drawn at half its scale while the full scale is
charged and stated (for draws from a posterior: a sixteenth of the prior, 2.7 times the loss).

A sound synthesizer is accused with probability at most 1e-4 per audit; the power against half the noise is printed
(``-rP`` shows it) and must be at least 0.99. Seeds are fixed, so that a result stays what it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import understudy as us
from understudy.auditing.sampled import SampledAudit, sampled_audit
from understudy.privacy.accountant import cdp_epsilon
from understudy.privacy.definition import Definition
from understudy.privacy.dirichlet_draw import DirichletDraw
from understudy.privacy.gate import Gate
from understudy.privacy.streams import SeededStream
from understudy.synth.base import configure, synthesizers

RUNS, FALSE_ALARM, FACTOR = 1600, 1e-4, 2.0
# Six cells, one of them impossible. Cell 5 is empty on side 0; one person is in it on side 1.
SCHEMA = us.Schema(
    attributes=(us.Attribute(name="a", levels=("x", "y")), us.Attribute(name="b", levels=("p", "q", "r"))),
    impossible=(us.Impossible(conditions=(("a", us.Condition(levels=("x",))), ("b", us.Condition(levels=("r",))))),),
)


@dataclass(frozen=True)
class Setting:
    """How a method is attacked: who is in the table on both sides, how many rows are drawn, and the fault.

    A draw from a posterior shows most when there are few people and a single row: with many rows the output that
    betrays somebody hardly ever comes.
    """

    common: tuple[int, ...] = (0, 0, 0, 0, 1, 1, 3, 3, 3, 4)
    rows: int | None = None
    smaller_prior: bool = False
    options: tuple[tuple[str, Any], ...] = ()
    runs: int = RUNS
    many_tables: bool = False
    divisor: int = 2  # of the noise in the faulty copy
    left: int = 4  # the cell the person in cell 5 is in on side 0, under replace
    full: bool = False  # too slow for every run of the tests

    def neighbours(self, unit: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        person = (self.left,) if unit == "replace" else ()
        return (*self.common, *person), (*self.common, 5)


SETTINGS = {
    "dirichlet": Setting(common=(0,), rows=1, smaller_prior=True),
    # A tenth of its budget pays for choices, which show little; and the parts spent on tables are spread, so it takes a
    # larger fault, and a person who differs in every attribute, to see it in this many runs.
    "aim": Setting(options=(("rounds", 2),), many_tables=True, divisor=8, left=0, full=True),
    "mst": Setting(many_tables=True, divisor=4, left=0, full=True),
    "independent": Setting(many_tables=True, divisor=4, left=0, full=True),
    "ipf": Setting(many_tables=True, full=True),
}
UNITS = ("replace", "add_remove")


@dataclass(frozen=True)
class Claim:
    """A budget, and the (epsilon, delta) it claims at which it is attacked."""

    budget: Definition
    epsilon: float
    delta: float = 0.0


# A Gaussian is told apart best at a large delta: there both the claim and the attack are close to what is possible.
CLAIMS = {
    "pure": Claim(budget=us.PureDP(epsilon="1.5"), epsilon=1.5),
    "approx": Claim(budget=us.ApproxDP(epsilon="1.5", delta="1e-6"), epsilon=1.5, delta=1e-6),
    "probabilistic": Claim(budget=us.ProbabilisticDP(epsilon="1.5", delta="1e-6"), epsilon=1.5, delta=1e-6),
    "zcdp": Claim(budget=us.ZCDP(rho="0.5"), epsilon=float(cdp_epsilon(Fraction(1, 2), Fraction(3, 10))), delta=0.3),
}


def cases() -> Iterator[Any]:
    """Every guarantee a method offers; those that come down to the noise of its pure version wait for a full run."""
    for method in synthesizers:
        offered = [guarantee for guarantee in synthesizers[method].guarantees if guarantee in CLAIMS]
        for guarantee in offered:
            again = guarantee in ("approx", "probabilistic") and "pure" in offered
            for unit in UNITS:
                name = f"{method}-{guarantee}-{unit}"
                long = again or SETTINGS.get(method, Setting()).full
                yield pytest.param(method, guarantee, unit, id=name, marks=[pytest.mark.full] if long else [])


class HalfTheNoise:
    """A stream that draws every noise at half the scale it is asked for (or less), and counts how often it did."""

    secure = False

    def __init__(self, stream: SeededStream, divisor: int) -> None:
        self.stream = stream
        self.divisor = divisor
        self.halved = 0

    def discrete_laplace(self, scale: Fraction, size: int) -> Any:
        self.halved += 1
        return self.stream.discrete_laplace(scale / self.divisor, size)

    def discrete_gaussian(self, scale: Fraction, size: int) -> Any:
        self.halved += 1
        return self.stream.discrete_gaussian(scale / self.divisor, size)

    def noisy_argmax(self, scores: Any, scale: Fraction, law: Any = "exponential") -> int:
        self.halved += 1
        return self.stream.noisy_argmax(scores, scale / self.divisor, law)

    def words(self, count: int, *purpose: str | int) -> Any:
        return self.stream.words(count, *purpose)


class SixteenthOfThePrior:
    """Lets draws from a posterior run with a sixteenth of their prior while the charge stays, and counts them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.weakened = 0
        honest = DirichletDraw.draw

        def draw(mechanism: DirichletDraw, *arguments: Any) -> Any:
            self.weakened += 1
            return honest(replace(mechanism, prior=mechanism.prior / 16), *arguments)

        patch.setattr(DirichletDraw, "draw", draw)


def aimed(measurements: Any, unit: str, left_cell: int) -> list[np.ndarray]:
    """What many tables say together about the person in cell 5: their noisy counts of it, each by its precision.

    For Gaussian noise this is the sufficient statistic. Under ``replace`` the cell that person left is subtracted.
    """
    person, left = np.unravel_index(5, SCHEMA.shape()), np.unravel_index(left_cell, SCHEMA.shape())
    total = 0.0
    for one in measurements:
        axes = [SCHEMA.names.index(name) for name in one.margin]
        gain = one.values[tuple(person[axis] for axis in axes)]
        if unit == "replace":
            gain = gain - one.values[tuple(left[axis] for axis in axes)]
        total += gain / one.mechanism.variance
    return [np.array([round(total, 6)])]


def attack(memory_source, method: str, guarantee: str, unit: str) -> Callable[..., SampledAudit]:
    claim, setting = CLAIMS[guarantee], SETTINGS.get(method, Setting())
    plan = us.plan(SCHEMA, method=method, budget=claim.budget, unit=unit, rows=setting.rows, **dict(setting.options))
    synthesizer = configure(plan.method, plan.options)
    sources = [memory_source(SCHEMA, cells) for cells in setting.neighbours(unit)]

    def observe(side: int, stream: Any) -> np.ndarray:
        gate = Gate(source=sources[side], schema=SCHEMA, plan=plan, stream=stream)
        synthesis = synthesizer.run(plan, SCHEMA, gate, stream)
        assert gate.events == plan.events or plan.adaptive  # the charge is the planned one, fault or not
        (table,) = synthesis.tables
        seen = [np.array([table.rows]), table.counts(SCHEMA.names).ravel()]
        if setting.many_tables:
            seen += aimed(synthesis.measurements, unit, setting.left)
        else:
            seen += [measurement.values.ravel() for measurement in synthesis.measurements]
        return np.concatenate(seen)

    def sound(side: int, seed: int) -> np.ndarray:
        return observe(side, SeededStream(seed))

    def faulty(side: int, seed: int) -> np.ndarray:
        stream = HalfTheNoise(SeededStream(seed), setting.divisor)
        seen = observe(side, stream)
        assert stream.halved or setting.smaller_prior, f"no fault is defined for '{method}': define one in SETTINGS"
        return seen

    def audit(*, with_fault: bool) -> SampledAudit:
        settings = {"claimed": claim.epsilon, "delta": claim.delta, "runs": setting.runs, "alpha": FALSE_ALARM}
        with pytest.MonkeyPatch.context() as patch:
            prior = SixteenthOfThePrior(patch) if with_fault and setting.smaller_prior else None
            result = sampled_audit(faulty if with_fault else sound, **settings, factor=FACTOR)
            assert prior is None or prior.weakened == 2 * setting.runs
        return result

    return audit


@pytest.mark.parametrize("setting", [Setting(), *SETTINGS.values()])
@pytest.mark.parametrize("unit", UNITS)
def test_the_inputs_are_neighbours_that_differ_in_an_empty_cell(setting, unit):
    first, second = setting.neighbours(unit)
    assert 5 not in first
    assert second.count(5) == 1
    assert len(second) - len(first) == (unit == "add_remove")
    changed = Counter(second) - Counter(first)
    assert changed == Counter([5])


@pytest.mark.parametrize(("method", "guarantee", "unit"), list(cases()))
def test_the_synthesizer_passes_and_half_its_noise_does_not(memory_source, method, guarantee, unit):
    audit = attack(memory_source, method, guarantee, unit)
    sound = audit(with_fault=False)
    print(f"{method}, {guarantee}, {unit}: {sound.describe()}")
    assert not sound.caught
    assert sound.power >= 0.99
    faulty = audit(with_fault=True)
    print(f"{method}, {guarantee}, {unit}, faulty: {faulty.describe()}")
    assert faulty.caught
