"""Exact formulas against brute force written from the definitions, without the package's own enumeration.

The law here is a product of urn draws, tables are tuples, neighbours are found by comparing every two tables.
"""

from __future__ import annotations

import math
from itertools import combinations, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy as us
from understudy.auditing.dirichlet_audit import breach
from understudy.auditing.exact_audit import Audit
from understudy.privacy.exact.dirichlet_breach import breach_union_bound, thresholds
from understudy.privacy.exact.dirichlet_profile import PriorShape, delta

EPSILONS = (0.0, 0.4, 1.0, 2.0, 3.5)
ERROR = 1e-9
UNITS = st.sampled_from(["replace", "add_remove"])


def all_tables(rows: int, cells: int) -> list[tuple[int, ...]]:
    return [table for table in product(range(rows + 1), repeat=cells) if sum(table) == rows]


def tables_for(unit: str, records: int, cells: int) -> list[tuple[int, ...]]:
    sizes = [records] if unit == "replace" else range(records + 1)
    return sorted(table for size in sizes for table in all_tables(size, cells))


def are_neighbours(one: tuple[int, ...], other: tuple[int, ...], unit: str) -> bool:
    moved = sum(abs(x - y) for x, y in zip(one, other, strict=True))
    return moved == (2 if unit == "replace" else 1) and (unit == "add_remove" or sum(one) == sum(other))


def urn(out: tuple[int, ...], table: tuple[int, ...], prior: tuple[float, ...]) -> float:
    """Rows drawn one after the other, each returned with a copy; any order has the same chance."""
    ways = math.factorial(sum(out)) // math.prod(map(math.factorial, out))
    chance, held = float(ways), [a + n for a, n in zip(prior, table, strict=True)]
    for cell, times in enumerate(out):
        for _ in range(times):
            chance *= held[cell] / sum(held)
            held[cell] += 1
    return chance


def plug_in(out: tuple[int, ...], table: tuple[int, ...], prior: tuple[float, ...]) -> float:
    ways = math.factorial(sum(out)) // math.prod(map(math.factorial, out))
    total = sum(prior) + sum(table)
    return ways * math.prod(((a + n) / total) ** m for a, n, m in zip(prior, table, out, strict=True))


class Brute:
    """Everything from the definitions, for one law."""

    def __init__(self, law, inputs, outputs, unit):
        self.inputs, self.unit = inputs, unit
        self.P = np.array([[law(out, table) for out in outputs] for table in inputs])
        self.pairs = [
            (i, j) for i, j in permutations(range(len(inputs)), 2) if are_neighbours(inputs[i], inputs[j], unit)
        ]

    def epsilon(self):
        return max((float(np.log(self.P[i] / self.P[j]).max()) for i, j in self.pairs), default=0.0)

    def delta(self, epsilon):
        gaps = (np.maximum(self.P[i] - math.exp(epsilon) * self.P[j], 0).sum() for i, j in self.pairs)
        return max(map(float, gaps), default=0.0)

    def definition_6(self, epsilon):
        worst = 0.0
        for number in range(len(self.inputs)):
            near = {number} | {j for i, j in self.pairs if i == number}
            bad = np.zeros(self.P.shape[1], dtype=bool)
            for i, j in self.pairs:
                if i in near and j in near:
                    bad |= np.log(self.P[i] / self.P[j]) > epsilon + 1e-12
            worst = max(worst, float(self.P[number][bad].sum()))
        return worst


@st.composite
def cases(draw, most_cells=4, most=6):
    cells = draw(st.integers(2, most_cells))
    most = min(most, {2: 6, 3: 6, 4: 4}[cells])
    size = st.one_of(st.sampled_from([0.02, 0.5, 1.0]), st.floats(0.01, 8).map(lambda x: round(x, 4)))
    prior = draw(st.lists(size, min_size=cells, max_size=cells))
    return tuple(prior), draw(st.integers(1, most)), draw(st.integers(1, most))


def brute(case, unit, law=urn):
    prior, records, rows = case
    outputs = all_tables(rows, len(prior))
    return Brute(lambda out, table: law(out, table, prior), tables_for(unit, records, len(prior)), outputs, unit)


@settings(max_examples=50, deadline=None)
@given(case=cases(), unit=UNITS)
def test_dirichlet_draw(case, unit):
    prior, records, rows = case
    exact = us.audit(us.DirichletMultinomial(prior=prior, rows=rows), records=records, unit=unit)
    truth = brute(case, unit)
    assert exact.inputs == truth.inputs
    assert np.abs(exact.matrix - truth.P).max() < ERROR
    assert exact.epsilon == pytest.approx(truth.epsilon(), abs=ERROR)
    assert exact.epsilon_any_size >= exact.epsilon - ERROR
    for epsilon in EPSILONS:
        assert exact.delta(epsilon) == pytest.approx(truth.delta(epsilon), abs=ERROR)
    witness = exact.witness
    shown = math.log(urn(witness.output, witness.likely, prior) / urn(witness.output, witness.unlikely, prior))
    assert shown == pytest.approx(exact.epsilon, abs=ERROR)
    assert are_neighbours(witness.likely, witness.unlikely, unit)


@settings(max_examples=15, deadline=None)
@given(case=cases(most_cells=3, most=4), unit=UNITS)
def test_definition_6_and_the_plug_in_by_enumeration(case, unit):
    prior, records, rows = case
    for kind, law in ((us.DirichletMultinomial, urn), (us.PosteriorMeanMultinomial, plug_in)):
        exact = us.audit(kind(prior=prior, rows=rows), records=records, unit=unit)
        truth = brute(case, unit, law)
        assert exact.epsilon == pytest.approx(truth.epsilon(), abs=ERROR)
        assert exact.epsilon_any_size >= exact.epsilon - ERROR
        for epsilon in EPSILONS:
            assert exact.delta(epsilon) == pytest.approx(truth.delta(epsilon), abs=ERROR)
            assert exact.breach_probability(epsilon) == pytest.approx(truth.definition_6(epsilon), abs=ERROR)


@settings(max_examples=25, deadline=None)
@given(
    prior=st.sampled_from([0.02, 0.1, 0.3, 0.5, 1.0, 2.5]),
    rows=st.integers(1, 3),
    records=st.integers(1, 4),
    epsilon=st.sampled_from(EPSILONS[1:]),
)
def test_definition_6_by_classes_of_equal_cells(prior, rows, records, epsilon):
    """More cells than rows: the convolution is exact, and the union bound is never below it."""
    cells = rows + 1
    truth = brute(((prior,) * cells, records, rows), "replace").definition_6(epsilon)
    found = breach(prior, cells, records, rows, epsilon)
    assert found.exact
    assert found == pytest.approx(truth, abs=ERROR)
    safe = thresholds(prior, records, rows, epsilon)
    assert breach_union_bound(prior, cells, records, rows, safe) >= truth - ERROR


def three_cells_for_definition_6(prior, cells, records, rows, epsilon):
    """The wrong formula: the worst single pair, which is right for delta and not for a union over all pairs."""
    truth = brute(((prior,) * cells, records, rows), "replace")
    return max(
        float(truth.P[i][np.abs(np.log(truth.P[i] / truth.P[j])) > epsilon + 1e-12].sum()) for i, j in truth.pairs
    )


@pytest.mark.parametrize(("cells", "one_pair", "union"), [(3, 0.0443, 0.0872), (4, 0.0360, 0.1055)])
def test_three_cells_are_wrong_for_definition_6(cells, one_pair, union):
    wrong = three_cells_for_definition_6(0.5, cells, 5, 5, 2)
    right = us.audit(us.DirichletMultinomial(prior=0.5, cells=cells, rows=5), records=5).breach_probability(2)
    assert wrong == pytest.approx(one_pair, abs=5e-5)
    assert right == pytest.approx(union, abs=5e-5)
    assert abs(wrong - right) > 0.04


@settings(max_examples=30, deadline=None)
@given(case=cases(most_cells=4, most=5))
def test_no_pair_of_cells_is_worse_than_two_empty_ones(case):
    """The complete scan beside the proof: every (i, j) and every number of other rows in them."""
    prior, records, rows = case
    shape = PriorShape.of(us.DirichletMultinomial(prior=prior, rows=rows))
    others = records - 1
    for epsilon in (0.3, 1.5):
        worst = delta(shape, records, us.Unit(), epsilon)
        for i, j in permutations(range(len(prior)), 2):
            for b_i in range(others + 1):
                for b_j in range(others - b_i + 1):
                    rest = sum(prior) - prior[i] - prior[j] + others - b_i - b_j
                    if len(prior) == 2 and b_i + b_j < others:
                        continue
                    sizes = (prior[i] + b_i, prior[j] + b_j, rest)
                    assert pair_delta(*sizes, rows, epsilon) <= worst + ERROR


def pair_delta(x, y, rest, rows, epsilon):
    total = 0.0
    for out in all_tables(rows, 3):
        base = (x, y, rest) if rest > 1e-12 else (x, y, 1e-300)
        likely = urn(out, (1, 0, 0), base)
        unlikely = urn(out, (0, 1, 0), base)
        total += max(0.0, likely - math.exp(epsilon) * unlikely)
    return total


@settings(max_examples=30, deadline=None)
@given(
    case=cases(most_cells=4, most=6),
    more=st.lists(st.sampled_from([0.0, 0.05, 1.0, 4.0]), min_size=4, max_size=4),
    fewer=st.integers(0, 3),
)
def test_a_larger_prior_or_fewer_rows_lose_no_more_under_replace(case, more, fewer):
    """Both are post-processing (docs/theory/dirichlet.md), so delta may only fall."""
    prior, records, rows = case
    larger = tuple(a + extra for a, extra in zip(prior, more, strict=False))
    before = us.audit(us.DirichletMultinomial(prior=prior, rows=rows), records=records)
    after = us.audit(us.DirichletMultinomial(prior=larger, rows=max(1, rows - fewer)), records=records)
    for epsilon in EPSILONS:
        assert after.delta(epsilon) <= before.delta(epsilon) + ERROR


NOISES = st.sampled_from([us.Geometric, us.DiscreteGaussian, us.RoundedLaplace])


@settings(max_examples=25, deadline=None)
@given(kind=NOISES, scale=st.sampled_from([0.2, 0.5, 1.0, 2.5]), unit=UNITS, epsilon=st.sampled_from(EPSILONS))
def test_independent_noise_against_a_grid(kind, scale, unit, epsilon):
    noise = kind(scale=scale)
    found = us.audit(noise, records=4, cells=3, unit=unit, clamped=False)
    reach = np.arange(-80, 81)
    here, up, down = (np.exp(noise.log_pmf(reach, np.full_like(reach, x))) for x in (0, 1, -1))
    if unit == "add_remove":
        truth = np.maximum(here - math.exp(epsilon) * up, 0).sum()
    else:
        truth = np.maximum(np.outer(here, here) - math.exp(epsilon) * np.outer(up, down), 0).sum()
    assert found.delta(epsilon) == pytest.approx(truth, abs=ERROR)


@settings(max_examples=15, deadline=None)
@given(case=cases(most_cells=2, most=4), unit=UNITS, epsilon=st.sampled_from(EPSILONS))
def test_two_copies_against_the_product_space(case, unit, epsilon):
    prior, records, rows = case
    truth = brute(case, unit)
    both = [
        np.maximum(np.outer(truth.P[i], truth.P[i]) - math.exp(epsilon) * np.outer(truth.P[j], truth.P[j]), 0).sum()
        for i, j in truth.pairs
    ]
    found = us.audit(us.DirichletMultinomial(prior=prior, rows=rows), records=records, unit=unit, copies=2)
    bounds = found.delta_bounds(epsilon)
    assert bounds.low - ERROR <= max(both) <= bounds.high + ERROR
    assert bounds.error < 5e-4


def audits() -> list[Audit]:
    return [
        us.audit(us.DirichletMultinomial(prior=(0.5, 0.2, 1), rows=4), records=3, unit="add_remove"),
        us.audit(us.DirichletMultinomial(prior=0.01, cells=10_000, rows=50), records=50),
        us.audit(us.PosteriorMeanMultinomial(prior=(0.5, 0.5), rows=5), records=5),
        us.audit(us.RoundedLaplace(scale=0.5), records=5),
        us.audit(us.DiscreteGaussian(scale=1.5), records=5),
        us.audit(us.Geometric(scale=1), records=5, copies=3),
        us.audit(us.Matrix.sampling(0.3), records=4),
        us.audit(us.Matrix.randomised_response(0.4, 3), records=3),
    ]


@pytest.mark.parametrize("exact", audits(), ids=str)
def test_the_profile_falls_and_is_convex_in_e_to_the_epsilon(exact):
    epsilons = np.log(np.linspace(1, 12, 45))
    deltas = np.array(exact.profile(epsilons)["delta"].to_pylist())
    assert (np.diff(deltas) <= ERROR).all()
    assert (np.diff(deltas, 2) >= -ERROR).all()
    assert deltas[0] > 0
    assert ((deltas >= 0) & (deltas <= 1)).all()


def test_every_pair_of_tables_is_looked_at():
    found = us.audit(us.DirichletMultinomial(prior=(1, 1, 1), rows=2), records=3)
    tables = all_tables(3, 3)
    expected = [(x, y) for x, y in combinations(tables, 2) if are_neighbours(x, y, "replace")]
    assert found.neighbours == expected
