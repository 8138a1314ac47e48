"""A public prior that differs between cells: the law that is drawn, what it costs, and what is inferred from it."""

from __future__ import annotations

import warnings
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chi2

import understudy as us
from understudy.core.domain import Domain
from understudy.core.prior_weights import PriorWeights
from understudy.errors import BudgetError, InputError, UnsupportedError
from understudy.inference.evidence import prior_sizes
from understudy.privacy.mechanisms.dirichlet_draw import DirichletDraw, exact_loss, pure_loss, weighted_prior_for
from understudy.privacy.mechanisms.draw_facts import TableFacts
from understudy.privacy.randomness.draws import KeyedStream, polya_urn
from understudy.privacy.randomness.streams import SeededStream

SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="job", levels=("none", "farm", "mine")),
        us.Attribute(name="sick", levels=("no", "yes")),
    ),
    impossible=(
        us.Impossible(conditions=(("sex", us.Condition(levels=("F",))), ("job", us.Condition(levels=("mine",))))),
    ),
)
TEXT = "job = 4 0.5 1; sex = 1 3"
DOMAIN = Domain(schema=SCHEMA, margin=SCHEMA.names)
ROWS = pa.table({"sex": ["F"] * 25 + ["M"] * 15, "job": ["none"] * 40, "sick": ["no"] * 30 + ["yes"] * 10})
BUDGET = us.ApproxDP(epsilon=1, delta=Fraction(1, 1000))


def by_hand(schema=SCHEMA):
    """The weight of each cell as written, 0 where it is impossible, from the meaning of the text."""
    jobs, sexes = (Fraction(4), Fraction(1, 2), Fraction(1)), (Fraction(1), Fraction(3))
    found = []
    for cell, (sex, job, _) in enumerate(product(range(2), range(3), range(2))):
        possible = Domain(schema=schema, margin=schema.names).is_possible(np.array([cell]))[0]
        found.append(jobs[job] * sexes[sex] if possible else Fraction(0))
    return found


def make(**asked):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = us.open_source(ROWS, SCHEMA)
        return us.synthesize(source, method="dirichlet", stream=SeededStream(5), weights=TEXT, **asked)


def facts(unit=None, domain=DOMAIN, records=40):
    return TableFacts(unit=unit or us.Unit(), cells=domain.possible, records=records, domain=domain)


def test_weights_are_products_of_what_was_written():
    made = PriorWeights(text=TEXT).over(DOMAIN)
    drawn = np.bincount(made.cells_of(np.arange(made.total)), minlength=DOMAIN.size)
    assert [int(n) * made.part for n in drawn] == by_hand()
    assert [made.smallest_two[0] * made.part, made.smallest_two[1] * made.part] == sorted(filter(None, by_hand()))[:2]
    law = {"prior": "2", "weights": TEXT}
    for margin in ((), ("sick",), ("sex", "sick"), SCHEMA.names):
        axes = tuple(place for place, name in enumerate(SCHEMA.names) if name not in margin)
        expected = 2 * np.array([float(w) for w in by_hand()]).reshape(SCHEMA.shape()).sum(axis=axes).ravel()
        assert prior_sizes(law, SCHEMA, margin, np.ones(1, np.int64)).tolist() == pytest.approx(expected.tolist())


def test_a_public_table_may_name_its_attributes_in_any_order():
    one = PriorWeights(text="sex*job = 1 2 3 4 5 6").over(DOMAIN)
    other = PriorWeights(text="job*sex = 1 4 2 5 3 6").over(DOMAIN)
    assert (one.weights == other.weights).all()
    inside = Domain(schema=SCHEMA, margin=("job", "sick"), given=(("sex", 1),))
    assert PriorWeights(text="sex*job = 1 2 3 4 5 6").over(inside).weights.tolist() == [4, 5, 6]


def test_the_urn_has_the_law_of_the_weights_and_the_test_has_power():
    schema = us.Schema(attributes=(us.Attribute(name="cell", levels=(0, 1, 2)),))
    domain, counts, rows, repeats = Domain(schema=schema, margin=("cell",)), np.array([0, 2, 1]), 3, 6_000
    weights = PriorWeights(text="cell = 1 2.5 0.5").over(domain)
    prior = Fraction(3, 4)
    stream, seen = KeyedStream(key=bytes(range(32))), Counter()
    for repeat in range(repeats):
        cells, times = polya_urn(
            np.flatnonzero(counts), counts[counts > 0], domain, stream, "test", repeat, prior=prior * weights.part,
            rows=rows, weights=weights,
        )  # fmt: skip
        table = np.zeros(3, dtype=int)
        table[cells] = times
        seen[tuple(table.tolist())] += 1

    def statistic(*shares):
        law = us.DirichletMultinomial(prior=[prior * Fraction(share) for share in shares], rows=rows)
        expected = repeats * np.exp(law.log_pmf(law.outputs(), counts))
        observed = np.array([seen[tuple(out.tolist())] for out in law.outputs()])
        return ((observed - expected) ** 2 / expected).sum()

    limit = chi2.isf(1e-6, 9)
    assert statistic("1", "2.5", "0.5") < limit
    assert statistic("0.7", "1.75", "0.35") > limit
    assert statistic("1.4", "3.5", "0.7") > limit
    assert statistic("1", "0.5", "2.5") > limit


@pytest.mark.parametrize("text", [TEXT, "sex*job = 3 1 1 2 7 1", "sick = 0.1 5"])
def test_calibration_is_exact_by_brute_force(text):
    weights = PriorWeights(text=text)
    made, loss = weights.over(DOMAIN), exact_loss(Fraction(1), Fraction(1, 100))
    prior = weighted_prior_for(loss, made, facts=facts(records=12), rows=6)
    sizes = [size for size in prior_sizes({"prior": str(prior), "weights": text}, SCHEMA, SCHEMA.names, None) if size]

    def delta(times):
        law = us.DirichletMultinomial(prior=[Fraction(size) * times for size in sizes], rows=6)
        return us.audit(law, records=12).delta(1.0)

    assert delta(Fraction(1)) <= 0.01 < delta(Fraction(999, 1000))
    DirichletDraw(prior=prior, rows=6, loss=loss, weights=weights).event_for(facts(records=12))
    with pytest.raises(BudgetError):
        DirichletDraw(prior=prior * Fraction(99, 100), rows=6, loss=loss, weights=weights).event_for(facts(records=12))


@pytest.mark.parametrize("unit", [us.Unit(), us.Unit(kind="add_remove"), us.Unit(rows_per_unit=2)])
def test_a_pure_budget_sets_the_smallest_prior_by_theorem_4_1(unit):
    made = PriorWeights(text=TEXT).over(DOMAIN)
    prior = weighted_prior_for(pure_loss(Fraction(2)), made, facts=facts(unit), rows=10)
    smallest = float(prior * made.part) * made.smallest_two[0]
    assert unit.rows_per_unit * np.log1p(10 / smallest) == pytest.approx(2, rel=1e-4)
    draw = DirichletDraw(prior=prior, rows=10, loss=pure_loss(Fraction(2)), weights=PriorWeights(text=TEXT))
    draw.event_for(facts(unit))
    with pytest.raises(BudgetError):
        DirichletDraw(prior=prior / 2, rows=10, loss=pure_loss(Fraction(2)), weights=PriorWeights(text=TEXT)).event_for(
            facts(unit)
        )


@pytest.mark.parametrize("unit", [us.Unit(), us.Unit(fixed=("sex",))])
def test_a_release_states_its_weights_is_verified_and_answered(tmp_path, unit):
    release = make(budget=BUDGET, unit=unit)
    for law in release.provenance.draws[0]["mechanisms"]:
        assert law["weights"] == TEXT
    release.write(tmp_path / "release")
    us.verify(tmp_path / "release")  # which raises if a draw costs more than was charged
    again = us.read_release(tmp_path / "release")
    answer = us.infer(again, "proportion(sick == 'yes')")
    assert 0 <= answer.estimates[0].low < answer.estimates[0].value < answer.estimates[0].high < 1


def test_inference_knows_the_prior_it_was_drawn_with():
    """A heavy public prior on 'yes' pulls the rows there; the posterior takes it out again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = us.open_source(pa.concat_tables([ROWS] * 100), SCHEMA)
        release = us.synthesize(
            source, method="dirichlet", budget=us.PureDP(epsilon=3), stream=SeededStream(3), weights="sick = 1 20"
        )
    shown = release.frame(1)["sick"].to_pylist().count("yes") / 4000
    (found,) = us.infer(release, "proportion(sick == 'yes')").estimates
    assert shown > 0.3
    assert found.low < 0.25 < found.high


def test_what_cannot_be_weighted_is_refused_in_the_plan():
    def plan(weights, budget=BUDGET, **asked):
        return us.plan(SCHEMA, method="dirichlet", budget=budget, weights=weights, **asked)

    for wrong in ("sex", "sex = ", "sex = 1 0", "sex = 1 -2", "sex = 1 2; sex = 1 2", ";"):
        with pytest.raises(InputError):
            plan(wrong)
    with pytest.raises(InputError, match="have 3 numbers and must have 2"):
        plan("sex = 1 2 3")
    with pytest.raises(UnsupportedError, match="Definition 6"):
        plan(TEXT, us.ProbabilisticDP(epsilon=1, delta="1e-3"))
    with pytest.raises(BudgetError, match="costs epsilon"):
        plan(TEXT, us.PureDP(epsilon=1), prior="0.1", rows=40)
    assert plan(TEXT, us.PureDP(epsilon=9), prior="0.1", rows=40).budget.epsilon < 9
