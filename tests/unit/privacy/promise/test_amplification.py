"""Amplification by sampling: the bound holds by enumeration, and what does not fit the theorem is refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from math import exp, log

import pyarrow as pa
import pytest

import understudy as us
from understudy.core.sampling_scheme import Sampling
from understudy.errors import InputError, SchemaError, UnsupportedError
from understudy.privacy.gate.gate import Gate
from understudy.privacy.gate.measurement_steps import query_of
from understudy.privacy.promise.amplification import amplified
from understudy.privacy.randomness.streams import SecureStream
from understudy.release.growing import add_measurement
from understudy.serving.pricing import confirmation_plan

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
SECRET = {"secret_membership": True, "rates_from": "frame"}
OUTPUTS = range(-30, 40)


def noisy_count(ones: int, epsilon: float) -> list[float]:
    """The law of a count with two-sided geometric noise, for a change of one."""
    a = exp(-epsilon)
    return [(1 - a) / (1 + a) * a ** abs(k - ones) for k in OUTPUTS]


def mixed(laws: list[tuple[float, list[float]]]) -> list[float]:
    return [sum(chance * law[k] for chance, law in laws) for k in range(len(OUTPUTS))]


def by_poisson(people: tuple[int, ...], rate: float, epsilon: float) -> list[float]:
    laws = []
    for drawn in product((0, 1), repeat=len(people)):
        chance = rate ** sum(drawn) * (1 - rate) ** (len(people) - sum(drawn))
        laws.append((chance, noisy_count(sum(a * b for a, b in zip(people, drawn, strict=True)), epsilon)))
    return mixed(laws)


def by_simple(people: tuple[int, ...], size: int, epsilon: float) -> list[float]:
    samples = list(combinations(people, size))
    return mixed([(1 / len(samples), noisy_count(sum(one), epsilon)) for one in samples])


def largest(first: list[float], second: list[float]) -> float:
    return max(abs(log(a / b)) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
def test_poisson_sampling_by_enumeration(epsilon):
    rate = Fraction(1, 4)
    promised = float(amplified(us.PureDP(epsilon=str(epsilon)), rate).epsilon)
    found = max(
        largest(by_poisson((*rest, 1), float(rate), epsilon), by_poisson(rest, float(rate), epsilon))
        for rest in product((0, 1), repeat=3)
    )
    assert found <= promised + 1e-12
    assert found > 0.99 * promised  # the bound is met, so nothing smaller could be claimed


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
def test_simple_random_sampling_by_enumeration(epsilon):
    promised = float(amplified(us.PureDP(epsilon=str(epsilon)), Fraction(2, 5)).epsilon)
    found = max(
        largest(by_simple((*rest, 1), 2, epsilon), by_simple((*rest, 0), 2, epsilon))
        for rest in product((0, 1), repeat=4)
    )
    assert found <= promised + 1e-12
    assert found > 0.9 * promised


def test_known_numbers_are_rounded_up():
    one = amplified(us.ApproxDP(epsilon=1, delta="1e-6"), Fraction(1, 100))
    exact = log(1 + 0.01 * (exp(1) - 1))
    assert exact <= float(one.epsilon) <= exact + 2e-12
    assert one.delta == Fraction(1, 10**8)
    assert amplified(us.PureDP(epsilon=500), Fraction(1, 2)).epsilon == 500
    assert amplified(us.PureDP(epsilon=3), Fraction(1)).epsilon == 3
    with pytest.raises(UnsupportedError, match="epsilon"):
        amplified(us.ZCDP(rho=1), Fraction(1, 2))
    with pytest.raises(InputError, match="probability"):
        amplified(us.PureDP(epsilon=1), Fraction(0))


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"secret_membership": False}, "secret_membership = true"),
        ({"rates_from": "data"}, "depend on data"),
        ({"largest_rate": "1"}, "between 0 and 1"),
        ({"largest_rate": "many"}, "largest_rate"),
        ({"scheme": "systematic"}, "scheme"),
    ],
)
def test_what_the_theorem_does_not_cover_is_refused(given, match):
    with pytest.raises(SchemaError, match=match):
        Sampling(**{"scheme": "simple", "largest_rate": "0.1", **SECRET, **given})


SCHEMA = us.Schema(
    attributes=(us.Attribute(name="region", levels=("N", "S")), us.Attribute(name="poor", levels=("no", "yes"))),
    weight=us.Weight(column="w", edges=(1, 5, 10)),
    design=us.Design(
        sampling_strata="region", sampling=Sampling(scheme="simple", largest_rate="0.05", **SECRET)
    ),
)  # fmt: skip
PEOPLE = pa.table({"region": ["N", "S"] * 100, "poor": ["no", "yes", "yes", "no"] * 50, "w": [2.0, 7.0] * 100})


def test_clusters_and_adjusted_weights_are_refused():
    with pytest.raises(SchemaError, match="clusters are drawn as a whole"):
        replace(SCHEMA.design, clusters="household")
    with pytest.raises(SchemaError, match="adjusted weights"):
        replace(SCHEMA, weight=replace(SCHEMA.weight, origin="nonresponse"))
    with pytest.raises(SchemaError, match="adjusted weights"):  # each depends on who else was drawn
        replace(SCHEMA, weight=replace(SCHEMA.weight, sums_to="sample"))


@pytest.mark.parametrize(
    ("scheme", "unit", "match"),
    [
        ("simple", us.Unit(), "name 'region' as fixed"),
        ("simple", us.Unit(kind="add_remove"), "confidential"),
        ("simple", us.Unit(fixed=("region", "poor")), "poor as fixed"),
        ("simple", us.Unit(fixed=("region",), rows_per_unit=2), "several rows"),
        ("poisson", us.Unit(), "must not be public"),
    ],
)
def test_units_that_do_not_fit_are_refused_before_anything_is_charged(scheme, unit, match):
    design = replace(SCHEMA.design, sampling=replace(SCHEMA.design.sampling, scheme=scheme))
    with pytest.raises(InputError, match=match):
        us.plan(replace(SCHEMA, design=design), method="ipf", budget=us.PureDP(epsilon=1), unit=unit)


def test_a_unit_that_does_not_fit_is_refused_in_a_plan_that_was_changed_too():
    design = us.Design(clusters="home", protects="cluster")
    attributes = (us.Attribute(name="region", levels=("N", "S")), us.Attribute(name="poor", levels=("no", "yes")))
    schema = us.Schema(attributes=attributes, design=design)
    homes = PEOPLE.drop(["w"]).append_column("home", pa.array([f"{k // 2}" for k in range(200)]))
    plan = us.plan(schema, method="ipf", budget=us.PureDP(epsilon=1), unit=us.Unit(unit_id="home", rows_per_unit=2))
    assert us.synthesize(us.open_source(homes, schema, unit_id="home"), plan=plan)
    with pytest.raises(InputError, match="protects whole clusters"):  # although its steps are the same
        us.synthesize(us.open_source(homes, schema), plan=replace(plan, unit=us.Unit(rows_per_unit=2)))


def test_a_release_says_both_promises_and_a_schema_keeps_the_claim(tmp_path):
    (tmp_path / "s.toml").write_text(us.write_schema(SCHEMA))
    assert us.read_schema(tmp_path / "s.toml") == SCHEMA
    made = us.synthesize(us.open_source(PEOPLE, SCHEMA), budget=us.PureDP(epsilon=1), method="ipf",
                         unit=us.Unit(fixed=("region",)))  # fmt: skip
    assert str(made.statement.guarantee) == "pure differential privacy (epsilon = 1)"
    assert any("epsilon = 0.0824" in note and "rate of at most 0.05" in note for note in made.provenance.notes)
    without = replace(SCHEMA, design=us.Design(sampling_strata="region"))
    plain = us.synthesize(us.open_source(PEOPLE, without), budget=us.PureDP(epsilon=1), method="ipf")
    assert not any("drawn or not" in note for note in plain.provenance.notes)


def test_the_sentence_about_the_population_is_not_said_of_what_joined_later():
    source = us.open_source(PEOPLE, SCHEMA)
    made = us.synthesize(source, budget=us.PureDP(epsilon=1), method="ipf", unit=us.Unit(fixed=("region",)))
    plan = confirmation_plan(made.schema, made.statement.unit, ("poor", "w"), Fraction(1, 100), label="joined")
    gate = Gate(source=source, schema=made.schema, plan=plan, stream=SecureStream())
    (fresh,) = gate.measure([query_of(plan.steps[0])])
    block = {"account": "people", "run": "r", "head": "h", "sequence": 2}
    grown = add_measurement(made, fresh, plan=plan, ledger=block)
    assert grown.statement.guarantee != made.statement.guarantee
    assert not any("drawn or not" in note for note in grown.provenance.notes)
    assert len(grown.provenance.notes) == len(made.provenance.notes) - 1
