"""Trends of ordered attributes: followed where they stand clear of the noise, left to the prior where they do not."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize

import understudy as us
from understudy.core.measurement import Measurement
from understudy.models.contrasts import from_effects, to_effects
from understudy.models.fit import build_tree, fit, layout, one_way_shares, problem_for, tables_of
from understudy.models.trends import Penalty, Relieved, part_to_relieve, ranks, trends
from understudy.privacy.mechanisms.noise import DiscreteGaussian

PEOPLE = 15_000
AGES, INCOMES = tuple(range(0, 90, 10)), tuple(range(0, 80, 10))
AGE = us.Attribute(name="age", edges=AGES)
INCOME = us.Attribute(name="income", edges=INCOMES, special={-8: "not asked"}, missing=True)
SCHEMA = us.Schema(attributes=(AGE, INCOME))


def table_of(correlation: float) -> np.ndarray:
    """Counts of two bins of a normal pair, and of people without an income."""
    generator = np.random.default_rng(5)
    one, other = generator.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], PEOPLE).T
    counts = np.zeros((AGE.size, INCOME.size), np.int64)
    ages = np.clip(((one + 2.5) / 5 * AGE.bins).astype(int), 0, AGE.bins - 1)
    incomes = np.clip(((other + 2.5) / 5 * INCOME.bins).astype(int), 0, INCOME.bins - 1)
    incomes[::20], incomes[1::20] = INCOME.bins, INCOME.bins + 1
    np.add.at(counts, (ages, incomes), 1)
    return counts


def measured(counts: np.ndarray, deviation: float, seed: int) -> list[Measurement]:
    noise = np.rint(np.random.default_rng(seed).normal(0, deviation, counts.shape)).astype(np.int64)
    return [
        Measurement(
            margin=("age", "income"), values=counts + noise, mechanism=DiscreteGaussian(scale=deviation), label="both"
        )
    ]


def rank_correlation(table: np.ndarray) -> float:
    """Of the people who have an income."""
    shares = table[:, : INCOME.bins] / table[:, : INCOME.bins].sum()
    scores = [np.cumsum(margin) - margin / 2 for margin in (shares.sum(axis=1), shares.sum(axis=0))]
    centred = [score - 0.5 for score in scores]
    spread = [
        margin @ score**2 for margin, score in zip((shares.sum(axis=1), shares.sum(axis=0)), centred, strict=True)
    ]
    return float(centred[0] @ shares @ centred[1] / np.sqrt(spread[0] * spread[1]))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_strong_prior_does_not_weaken_a_trend_that_was_measured(seed, monkeypatch):
    counts = table_of(0.6)
    data = measured(counts, 12.0, seed)
    true = rank_correlation(counts)
    kept, _ = fit(SCHEMA, data, total=PEOPLE, prior=5000.0)
    assert rank_correlation(kept.project(("age", "income"))) == pytest.approx(true, abs=0.04)
    monkeypatch.setattr("understudy.models.fit.trends", lambda *_: [])
    shrunk, _ = fit(SCHEMA, data, total=PEOPLE, prior=5000.0)
    assert rank_correlation(shrunk.project(("age", "income"))) < true - 0.1
    errors = [np.abs(one.project(("age", "income")) - counts).sum() for one in (kept, shrunk)]
    assert errors[0] < errors[1]


def test_a_trend_that_may_be_noise_stays_with_the_prior():
    """Among 300 people with this noise a trend of nothing at all passes now and then, and then only in part."""
    generator = np.random.default_rng(8)
    counts = generator.multinomial(300, np.full(AGE.size * INCOME.size, 1 / (AGE.size * INCOME.size)))
    found = []
    for seed in range(40):
        data = measured(counts.reshape(AGE.size, INCOME.size), 12.0, seed)
        noisy = layout(tables_of(data, {}))
        problem = problem_for(SCHEMA, build_tree(SCHEMA, noisy.margins), noisy, 300.0)
        target, _ = problem._merged(noisy.values, noisy.noise)
        relieved = problem._relieved(target, noisy.noise, 300.0)
        found.append(relieved[0].part if relieved else 0.0)
    assert np.mean(found) < 0.3
    assert np.mean(np.array(found) == 0) > 0.4


def test_the_fit_is_the_least_of_the_penalised_objective():
    """An independent derivation: dense, by another optimiser, with the relief written as a matrix."""
    counts, prior, deviation = table_of(0.5), 800.0, 10.0
    data = measured(counts, deviation, 4)
    noisy = layout(tables_of(data, {}))
    problem = problem_for(SCHEMA, build_tree(SCHEMA, noisy.margins), noisy, PEOPLE)
    solved = problem.solve(
        noisy.values, noisy.noise, PEOPLE, np.full(noisy.values.size, prior), tolerance=1e-5, max_iterations=5000
    )
    shares = one_way_shares(SCHEMA, noisy, PEOPLE)
    base = np.add.outer(shares["age"], shares["income"])
    [(_, product)] = trends(SCHEMA, noisy.margins, shares)
    along = to_effects(product)
    along[0], along[:, 0] = 0.0, 0.0
    along /= np.linalg.norm(along)
    values = noisy.tables[0]
    departure = float((along * to_effects(values - PEOPLE * np.exp(base))).sum())
    part = part_to_relieve(departure, noisy.variances[0])
    weight = prior * noisy.variances[0] / PEOPLE

    cells = from_effects(along)
    # The constant of theta moves nothing but the sum of the noisy counts, which is not the number of people.
    values = values + (PEOPLE - values.sum()) / values.size

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        theta = flat.reshape(values.shape)
        logs = base + theta
        top = logs.max()
        expected = np.exp(logs - top)
        total = expected.sum()
        own = to_effects(theta)
        trend = float((along * own).sum())
        centred = theta - theta.mean()
        from_trend = part * trend * cells
        penalty = 0.5 * weight * (float((centred**2).sum()) - part * trend**2)
        slope = PEOPLE * expected / total - values + weight * (centred - from_trend)
        return float(PEOPLE * (np.log(total) + top) - (theta * values).sum() + penalty), slope.ravel()

    best = minimize(
        objective,
        np.zeros(values.size),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 20_000, "ftol": 1e-15, "gtol": 1e-9},
    )
    logs = base + best.x.reshape(values.shape)
    expected = np.exp(logs - logs.max())
    assert part > 0.9
    assert solved.beliefs[0] == pytest.approx(expected / expected.sum(), abs=2e-6)


def test_ranks_have_mean_nought_and_codes_have_none():
    shares = np.array([0.1, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1])
    scores = ranks(INCOME, shares)
    assert scores @ shares == pytest.approx(0)
    assert (scores[INCOME.bins :] == 0).all()
    assert all(one < other for one, other in pairwise(scores[: INCOME.bins]))


@pytest.mark.parametrize(
    "attribute",
    [
        us.Attribute(name="job", levels=("a", "b", "c", "d")),
        us.Attribute(name="asked", levels=("no", "yes"), ordered=True),
        us.Attribute(name="old", edges=(0, 65, 120)),
    ],
    ids=["no order", "two levels", "two bins"],
)
def test_what_has_no_trend(attribute):
    assert ranks(attribute, np.full(attribute.size, 1 / attribute.size)) is None


def test_a_part_of_a_penalty_is_that_of_the_whole():
    generator = np.random.default_rng(1)
    direction = generator.normal(size=4)
    one = Relieved(
        pair=("a", "b"), places=np.array([3, 4, 5, 6]), direction=direction / np.linalg.norm(direction), part=0.7
    )
    weights = np.array([1.0, 2, 3, 5, 5, 5, 5, 4])
    whole = Penalty(weights=weights, relieved=(one,))
    vector, places = generator.normal(size=8), np.array([6, 0, 5, 3, 4])
    part = whole.part(("a", "b", "c"), places)
    assert part.pull(vector[places]) == pytest.approx(whole.pull(vector)[places])
    assert not whole.part(("a", "c"), np.array([0, 1])).relieved
    along = one.direction @ vector[one.places]
    assert one.direction @ whole.pull(vector)[one.places] == pytest.approx(0.3 * 5 * along)
