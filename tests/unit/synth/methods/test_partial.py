"""Partially synthetic and hybrid tables: what is kept, the law of what is drawn, rule T_p, and no guarantee."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom, chi2

import understudy as us
from understudy.core.domain import Domain
from understudy.errors import InputError, UnsupportedError
from understudy.inference.combining import combine
from understudy.privacy.mechanisms.partial_draw import PartialDraw
from understudy.privacy.randomness.draws import KeyedStream
from understudy.privacy.randomness.streams import SeededStream

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="age", edges=(0, 15, 40, 90), integer=True),
        us.Attribute(name="work", levels=("none", "part", "full")),
        us.Attribute(name="sex", levels=("F", "M")),
    ),
    impossible=(
        us.Impossible(conditions=(("age", us.Condition(below=15)), ("work", us.Condition(levels=("part", "full"))))),
    ),
)


@pytest.fixture
def source():
    rng = np.random.default_rng(3)
    ages = rng.integers(0, 90, 2000).tolist()
    work = ["none" if age < 15 else str(rng.choice(["none", "part", "full"])) for age in ages]
    sex = ["F" if one == "part" and rng.random() < 0.9 else "FM"[int(rng.integers(2))] for one in work]
    return us.open_source(pa.table({"age": ages, "work": work, "sex": sex}), SCHEMA)


def made(source, **options):
    return us.synthesize(source, method="partial", budget=us.NonPrivate(), stream=SeededStream(4), **options)


def counted(release, margin, copy=1):
    return release.coded(copy).counts(margin)


def test_kept_attributes_are_those_of_the_data_and_the_others_are_drawn_within_them(source):
    release = made(source, keep="age+sex", copies=2, prior="3")
    both, every = source.count([("age", "sex"), SCHEMA.names])
    for copy in (1, 2):
        assert (counted(release, ("age", "sex"), copy) == both.values).all()
        table = counted(release, SCHEMA.names, copy)
        assert (table != every.values).any()
        assert not table[~SCHEMA.allowed(SCHEMA.names)].any()


def test_real_records_stay_and_with_nothing_else_the_rest_is_drawn_from_everybody():
    schema = us.Schema(attributes=(us.Attribute(name="a", levels=tuple(range(5_000))),))
    counts = np.ones(5_000, dtype=np.int64)
    draw = PartialDraw(keep=(), prior=0, real=Fraction(3, 10))
    cells, times = draw.draw(np.arange(5_000), counts, Domain(schema=schema, margin=("a",)), SeededStream(1), "test")
    # The urn draws a person k times with probability 2^-(k+1), and each such row is itself kept real with 0.3. A person
    # is absent if not kept (0.7) and every row that repeats them is real: 0.7 (1/2) / (1 - 0.15).
    expected = 1 - 0.7 * 0.5 / 0.85
    assert times.sum() == 5_000
    assert binom.sf(len(cells), 5_000, expected - 0.05) < 1e-6
    assert binom.cdf(len(cells), 5_000, expected + 0.05) < 1e-6


def test_the_law_is_a_urn_in_each_group_and_the_test_has_power():
    schema = us.Schema(
        attributes=(us.Attribute(name="g", levels=(0, 1)), us.Attribute(name="x", levels=("a", "b", "c")))
    )
    domain, counts, repeats = Domain(schema=schema, margin=("g", "x")), np.array([1, 0, 1, 2, 1, 0]), 4_000
    filled, stream, seen = np.flatnonzero(counts), KeyedStream(key=bytes(range(32))), Counter()
    draw = PartialDraw(keep=("g",), prior=Fraction(3, 2), real=0)
    for repeat in range(repeats):
        cells, times = draw.draw(filled, counts[filled], domain, stream, "test", repeat)
        table = np.zeros(6, dtype=int)
        table[cells] = times
        assert (table.reshape(2, 3).sum(axis=1) == [2, 3]).all()
        seen[tuple(table[3:].tolist())] += 1

    def statistic(prior):
        law = us.DirichletMultinomial(prior=prior / 3, cells=3, rows=3)
        expected = repeats * np.exp(law.log_pmf(law.outputs(), counts[3:]))
        observed = np.array([seen[tuple(out.tolist())] for out in law.outputs()])
        return ((observed - expected) ** 2 / expected).sum()

    limit = chi2.isf(1e-6, 9)
    assert statistic(Fraction(3, 2)) < limit
    assert statistic(Fraction(3, 2) * Fraction(7, 10)) > limit
    assert statistic(Fraction(3, 2) * Fraction(14, 10)) > limit


def coverage(runs, *, real, rule="T_p", copies=5, people=400):
    """How often 95 percent intervals of P(x = 1) hold the truth: x depends on g, which is kept."""
    schema = us.Schema(attributes=(us.Attribute(name="g", levels=(0, 1)), us.Attribute(name="x", levels=(0, 1))))
    domain, rng = Domain(schema=schema, margin=("g", "x")), np.random.default_rng(11)
    draw = PartialDraw(keep=("g",), prior=0, real=real)
    chances, held = np.array([0.35, 0.15, 0.15, 0.35]), 0
    for run in range(runs):
        counts = rng.multinomial(people, chances)
        filled, shares = np.flatnonzero(counts), []
        for copy in range(copies):
            cells, times = draw.draw(filled, counts[filled], domain, SeededStream(1000 * run + copy), "test")
            shares.append(np.bincount(cells % 2, times, 2)[1] / people)
        q = np.array(shares)
        if rule == "as if real":
            half = 1.96 * np.sqrt(q[0] * (1 - q[0]) / people)
            held += abs(q[0] - 0.5) <= half
        else:
            low, high = combine(q, q * (1 - q) / people, rule=rule, kappa=1.0).interval(0.95)
            held += low <= 0.5 <= high
    return held / runs


@pytest.mark.full
@pytest.mark.parametrize("real", [0, Fraction(1, 2)])
def test_rule_t_p_covers_and_one_table_read_as_data_does_not(real):
    runs = 600
    held = coverage(runs, real=real)
    assert binom.ppf(5e-5, runs, 0.95) / runs <= held <= binom.ppf(1 - 5e-5, runs, 0.95) / runs
    assert binom.cdf(runs * coverage(runs, real=real, rule="as if real", copies=1), runs, 0.95) < 1e-4


def test_answers_are_by_t_p_and_counts_of_kept_values_are_exact(source):
    release = made(source, keep="age", copies=4)
    answer = us.infer(release, "proportion(sex == 'F')")
    assert "T_p" in answer.method
    assert answer.labels == ("valid",)
    (true,) = source.count([("age",)])
    (count,) = us.infer(release, "count(age < 15)").estimates
    assert count.low == count.value == count.high == true.values[0]
    with pytest.raises(UnsupportedError, match="T_p is"):
        us.infer(release, "proportion(sex == 'F')", rule="T_s")
    with pytest.raises(InputError, match="at least two"):
        us.infer(made(source, keep="age"), "proportion(sex == 'F')")
    with pytest.raises(UnsupportedError, match="one row for each record"):
        us.infer(made(source, keep="age", rows=500, copies=2), "proportion(sex == 'F')")


def test_what_it_cannot_do_is_refused_and_the_warning_travels(source, tmp_path):
    for options, what in (
        ({"keep": "age+age"}, "twice"),
        ({"keep": "age+work+sex"}, "would be the data"),
        ({"real": "1"}, "below 1"),
        ({"prior": "-1"}, "negative"),
        ({"unit": "add_remove"}, "say how many rows"),
    ):
        with pytest.raises(InputError, match=what):
            us.plan(SCHEMA, method="partial", budget=us.NonPrivate(), **options)
    with pytest.raises(UnsupportedError, match=r"partial.*none"):
        us.plan(SCHEMA, method="partial", budget=us.PureDP(epsilon=1))
    release = us.synthesize(source, method="partial", budget=us.NonPrivate(), keep="sex", out=tmp_path / "release")
    (warning,) = release.statement.warnings
    assert "NO GUARANTEE" in warning
    us.verify(tmp_path / "release")


def test_public_attributes_are_kept_with_a_guarantee_for_the_others(source):
    """The same shape of release under differential privacy: fixed attributes come out as they are."""
    release = us.synthesize(
        source, method="dirichlet", budget=us.PureDP(epsilon=1), unit=us.Unit(fixed=("age",)), stream=SeededStream(1)
    )
    (true,) = source.count([("age",)])
    assert (counted(release, ("age",)) == true.values).all()
