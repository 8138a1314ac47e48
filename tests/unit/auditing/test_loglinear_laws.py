"""The posterior predictive of log-linear models: against simulation, closed forms and Dirichlet draws."""

import math

import numpy as np
import pytest

import understudy as us
from understudy.auditing.loglinear_laws import LogLinearPredictive
from understudy.errors import InputError


@pytest.mark.parametrize(
    "settings",
    [
        {"shape": (2, 2)},
        {"shape": (2, 3), "random_effect": 3.0},
        {"shape": (2, 2, 2), "effects": "chain"},
        {"shape": (2, 2, 2), "effects": "chain", "random_effect": 2.0},
    ],
)
def test_the_law_is_what_the_model_gives_when_it_is_simulated(settings):
    """Shares from the prior, weighted by the likelihood of the data, then rows: 40,000 draws, compared cell by cell."""
    law = LogLinearPredictive(rows=2, prior=4.0, **settings)
    data = np.zeros(law.cells, dtype=int)
    data[[0, 1, -1]] = (2, 1, 1)
    exact = law.law(tuple(data.tolist()))
    assert math.fsum(exact.values()) == pytest.approx(1, abs=1e-12)
    rng = np.random.default_rng(5)
    draws = 40_000
    shares = simulated_shares(rng, law, draws)
    if law.random_effect is not None:
        gammas = rng.gamma(np.maximum(law.random_effect * shares, 1e-9))
        shares = gammas / gammas.sum(axis=1, keepdims=True)
    weights = np.prod(shares**data, axis=1)
    for out, chance in exact.items():
        ways = math.factorial(law.rows) / math.prod(math.factorial(count) for count in out)
        terms = ways * np.prod(shares ** np.array(out), axis=1)
        mean = float((weights * terms).sum() / weights.sum())
        error = math.sqrt(float((weights**2 * (terms - mean) ** 2).sum())) / float(weights.sum())
        assert abs(mean - chance) < 5 * error + 1e-9


def simulated_shares(rng, law, draws):
    sizes = law.shape
    if law.effects == "main":
        parts = [rng.dirichlet([law.prior / size] * size, draws) for size in sizes]
        joint = parts[0]
        for part in parts[1:]:
            joint = (joint[:, :, None] * part[:, None, :]).reshape(draws, -1)
        return joint
    pair = rng.dirichlet([law.prior / (sizes[0] * sizes[1])] * (sizes[0] * sizes[1]), draws).reshape(draws, *sizes[:2])
    each = law.prior / (sizes[1] * sizes[2])
    given = rng.dirichlet([each] * sizes[2], (draws, sizes[1]))  # of the third attribute given the second
    return (pair[:, :, :, None] * given[:, None, :, :]).reshape(draws, -1)


def test_main_effects_have_the_epsilon_of_theorem_1():
    for shape, rows, prior in (((2, 2), 3, 4.0), ((2, 3), 2, 10.0), ((2, 2, 2), 2, 7.0)):
        law = LogLinearPredictive(shape=shape, rows=rows, prior=prior)
        assert us.audit(law, records=3).epsilon == pytest.approx(law.bound(3), abs=1e-9)


@pytest.mark.parametrize(
    ("shape", "rows", "prior", "records"),
    [
        ((2, 2, 2), 2, 0.1, 3), ((2, 2, 2), 3, 40.0, 3), ((2, 2, 2), 3, 0.5, 3), ((2, 2, 2), 4, 1.0, 2),
        ((2, 3, 2), 2, 0.2, 3), ((2, 2), 3, 1.0, 3),
    ],
)  # fmt: skip
def test_a_chain_of_three_has_the_epsilon_of_theorem_3(shape, rows, prior, records):
    law = LogLinearPredictive(shape=shape, rows=rows, prior=prior, effects="chain")
    assert us.audit(law, records=records).epsilon == pytest.approx(law.bound(records), abs=1e-9)


@pytest.mark.parametrize(
    ("settings", "room"),
    [
        ({"shape": (2, 2, 2, 2), "effects": "chain", "rows": 2, "prior": 20.0}, 0.6),
        ({"shape": (2, 2), "random_effect": 1.0, "rows": 3, "prior": 40.0}, 0.5),
        ({"shape": (2, 3), "random_effect": 4.0, "rows": 2, "prior": 3.0}, 4.0),
        ({"shape": (2, 2, 2), "effects": "chain", "random_effect": 2.0, "rows": 2, "prior": 5.0}, 4.0),
    ],
)
def test_other_models_lose_no_more_than_is_proved(settings, room):
    law = LogLinearPredictive(**settings)
    exact, proved = us.audit(law, records=2).epsilon, law.bound(2)
    assert exact <= proved + 1e-9
    assert proved - exact < room  # a bound of twice as many people, or of none, would be outside


def test_with_a_strong_prior_of_the_model_the_bound_is_that_of_a_dirichlet_draw():
    law = LogLinearPredictive(shape=(2, 3), rows=3, prior=1e9, random_effect=6.0)
    dirichlet = us.audit(us.DirichletMultinomial(prior=1, cells=6, rows=3), records=3).epsilon
    assert law.bound(3) == pytest.approx(dirichlet, abs=1e-6)


@pytest.mark.parametrize("settings", [{"random_effect": 3.0}, {"effects": "chain"}, {}])
def test_a_neighbour_counts_through_the_next_person_only(settings):
    """Theorem 2: the ratio of two neighbours is that of the next person's probabilities, with and without the rows."""
    law = LogLinearPredictive(shape=(2, 2), rows=2, prior=3.0, **settings)
    others = (1, 0, 2, 0)

    def weight(*tables):
        return law._log_weight(tuple(map(sum, zip(*tables, strict=True))))

    cell = np.eye(4, dtype=int).tolist()
    laws = [law.law(tuple(a + b for a, b in zip(others, one, strict=True))) for one in cell]
    for out in laws[0]:
        grown = [weight(others, out, one) - weight(others, out) - weight(others, one) + weight(others) for one in cell]
        for x, y in ((0, 1), (3, 2)):
            assert math.log(laws[x][out] / laws[y][out]) == pytest.approx(grown[x] - grown[y], abs=1e-9)


def test_a_pair_is_a_dirichlet_draw_and_free_cells_cost_more():
    chain = LogLinearPredictive(shape=(2, 2), rows=3, prior=4.0, effects="chain")
    plain = us.DirichletMultinomial(prior=1, cells=4, rows=3)
    assert us.audit(chain, records=3).epsilon == pytest.approx(us.audit(plain, records=3).epsilon, abs=1e-9)
    found = [
        us.audit(LogLinearPredictive(shape=(2, 2), rows=2, prior=4.0, random_effect=strength), records=3).epsilon
        for strength in (1.0, 10.0, 1e6)
    ]
    bound = LogLinearPredictive(shape=(2, 2), rows=2, prior=4.0).bound(3)
    assert found[0] > found[1] > found[2] == pytest.approx(bound, abs=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        {"shape": (2,)}, {"shape": (2, 1)}, {"rows": 0}, {"prior": 0.0}, {"effects": "pairs"}, {"random_effect": -1.0},
    ],
)  # fmt: skip
def test_what_is_no_model_is_refused(settings):
    with pytest.raises(InputError):
        LogLinearPredictive(**{"shape": (2, 2), "rows": 2, "prior": 1.0, **settings})
