"""The exact audit against printed tables, closed forms and refusals."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest

import understudy as us
from understudy.errors import InputError, UnsupportedError
from understudy.privacy.promise.event import NoNoise, PureLoss, Sensitivity
from understudy.privacy.randomness.streams import SeededStream

# Abowd and Vilhuber (2008), Fig. 2 and Fig. 3, as printed.
FIGURE_2 = [
    [1.003353, 0.295930, 1.595212, 2.894495, 4.193778, 5.493061],
    [1.256572, 0.494432, 0.267708, 1.029848, 1.791988, 2.554128],
    [1.682361, 1.009417, 0.336472, 0.336472, 1.009417, 1.682361],
    [2.554128, 1.791988, 1.029848, 0.267708, 0.494432, 1.256572],
    [5.493061, 4.193778, 2.894495, 1.595212, 0.295930, 1.003353],
]
FIGURE_3_FIRST = [0.816060, 0.159046, 0.021525, 0.002913, 0.000394, 0.000062]


@pytest.fixture(scope="module")
def plug_in():
    return us.audit(us.PosteriorMeanMultinomial(prior=(0.5, 0.5), rows=5), records=5, unit="replace")


@pytest.fixture(scope="module")
def predictive():
    return us.audit(us.DirichletMultinomial(prior=(0.5, 0.5), rows=5), records=5, unit="replace")


def test_inputs_and_outputs_are_in_lexicographic_order(plug_in):
    assert plug_in.inputs == plug_in.outputs == [(i, 5 - i) for i in range(6)]
    three = us.audit(us.DirichletMultinomial(prior=(1, 1, 1), rows=2), records=3, unit="add_remove")
    assert three.inputs == sorted(three.inputs)
    assert three.outputs == sorted(three.outputs)
    assert {sum(table) for table in three.inputs} == {0, 1, 2, 3}


def test_the_printed_figures_are_the_plug_in(plug_in, predictive):
    assert np.abs(plug_in.log_odds - FIGURE_2).max() < 1e-6
    assert (plug_in.log_odds > 2).sum() == 8
    assert (predictive.log_odds > 2).sum() == 2
    assert predictive.epsilon == pytest.approx(math.log(11))
    laplace = us.audit(us.RoundedLaplace(scale=0.5), records=5)
    assert laplace.matrix[0] == pytest.approx(FIGURE_3_FIRST, abs=1e-6)
    assert laplace.epsilon == pytest.approx(2, abs=1e-12)
    assert laplace.breach_probability(2) == 0  # equal to 2 is not above 2


def test_three_conventions_give_three_numbers(plug_in, predictive):
    assert plug_in.breach_probability(2, "abowd_vilhuber") == pytest.approx(0.000623, abs=5e-7)
    assert plug_in.breach_probability(2) == pytest.approx(0.1035, abs=5e-5)
    assert predictive.breach_probability(2) == pytest.approx(0.0107, abs=5e-5)
    averaged = plug_in.breach_probability(2, "prior_averaged", prior="multinomial")
    by_hand = [math.comb(5, i) / 32 for i in range(6)]
    assert averaged == pytest.approx(plug_in.breach_probability(2, "prior_averaged", prior=by_hand))
    assert plug_in.breach_probability(2, "abowd_vilhuber") < averaged < plug_in.breach_probability(2)
    worst = [0.0] * 6
    worst[1] = 1.0
    assert plug_in.breach_probability(2, "prior_averaged", prior=worst) == pytest.approx(0.10351562)


def test_the_attackers_odds_move_by_the_likelihood_ratio(plug_in):
    prior = np.array([1, 5, 10, 10, 5, 1]) / 32
    before = prior[:-1] / prior[1:]
    after = plug_in.posterior_odds("multinomial")
    gain = np.abs(np.log(after / before[:, None]))
    assert np.abs(gain - plug_in.log_odds).max() < 1e-9


def test_beliefs_and_amplification(predictive):
    assert predictive.amplification == pytest.approx(11)
    assert predictive.worst_posterior(0.5) == pytest.approx(11 / 12)
    assert predictive.rho_breach(0.5, 11 / 12)
    assert not predictive.rho_breach(0.5, 0.92)
    assert us.audit(us.Matrix.sampling(0.1), records=3).worst_posterior(0.01) == 1


def test_row_measures_say_how_often_the_truth_survives(plug_in):
    rows = plug_in.row_measures
    assert rows.truth == pytest.approx(0.647228, abs=1e-6)
    assert rows.cell_uncertainty == pytest.approx(1 - 0.647228, abs=1e-6)
    swapped = us.audit(us.Matrix.swapping(0.0), records=2).row_measures
    assert swapped.cell_uncertainty == 0
    assert swapped.truth == 1
    with pytest.raises(UnsupportedError, match="other cells"):
        us.audit(us.Matrix.coarsening([[0, 1], [2]]), records=2).row_measures  # noqa: B018


@pytest.mark.parametrize(("truth", "cells"), [(0.5, 2), (0.2, 3), (0.8, 4)])
def test_randomised_response_has_its_textbook_loss(truth, cells):
    exact = us.audit(us.Matrix.randomised_response(truth, cells), records=2)
    other = (1 - truth) / cells
    assert exact.epsilon == pytest.approx(math.log((truth + other) / other))
    assert exact.epsilon_any_size == pytest.approx(exact.epsilon)
    single = us.audit(us.Matrix.randomised_response(truth, cells), records=1)
    assert single.delta(0) == pytest.approx(truth)


@pytest.mark.parametrize(
    "mechanism",
    [
        us.Matrix.swapping(0.3),
        us.Matrix.shuffling(prior=0.5),
        us.Matrix.suppression(3),
        us.Matrix.top_coding(1),
        us.Matrix.multiplicative_noise({"0.7": 0.5, "1.3": 0.5}),
        us.Matrix.multiplicative_noise([{"0.7": 0.5, "1.3": 0.5}, {"0.5": 0.5, "1.5": 0.5}]),
        us.Matrix.coarsening([[0], [1, 2]]),
        us.Matrix.sampling(0.1),
        us.Matrix.subsample_plus_binomial(0.5, 6, 0.5),
        us.Matrix.pram([[1, 0], [0.5, 0.5]]),
    ],
    ids=lambda mechanism: mechanism.name,
)
def test_infinite_loss_comes_with_its_witness(mechanism):
    exact = us.audit(mechanism, records=3)
    assert math.isinf(exact.epsilon)
    assert math.isinf(exact.epsilon_any_size)
    witness = exact.witness
    law = exact.matrix[:, exact.outputs.index(witness.output)]
    assert law[exact.inputs.index(witness.likely)] > 0
    assert law[exact.inputs.index(witness.unlikely)] == 0
    assert exact.delta(50) > 0
    assert exact.amplification == math.inf
    assert np.abs(exact.matrix.sum(axis=1) - 1).max() < 1e-12
    with pytest.raises(UnsupportedError, match="audit only"):
        mechanism.run(np.zeros(2, dtype=int), SeededStream(1))
    assert mechanism.event(Sensitivity(l1=2, l2_squared=2, linf=1)) == NoNoise()


def test_swapping_keeps_margins_and_suppression_marks_small_counts():
    swapped = us.audit(us.Matrix.swapping(0.5), records=4)
    for table, law in zip(swapped.inputs, swapped.matrix, strict=True):
        grid = np.reshape(table, (2, 2))
        for number in np.flatnonzero(law):
            out = np.reshape(swapped.outputs[number], (2, 2))
            assert (out.sum(axis=0) == grid.sum(axis=0)).all()
            assert (out.sum(axis=1) == grid.sum(axis=1)).all()
    assert us.Matrix.suppression(3).law((0, 1, 2, 3)) == {(0, -1, -1, 3): 1.0}
    assert us.Matrix.sampling(0.25).law((2, 0)) == pytest.approx({(0, 0): 9 / 16, (1, 0): 6 / 16, (2, 0): 1 / 16})


@pytest.mark.parametrize("prior", [0.0, 0.7])
@pytest.mark.parametrize("grid", [[[1, 1], [0, 2]], [[2, 0, 1], [0, 1, 0]]])
def test_shuffling_record_by_record(grid, prior):
    """Every list of draws, and every order of ties, written out for single records."""
    grid = np.array(grid)
    rows, columns = grid.shape
    records = [(row, value) for row in range(rows) for value in range(columns) for _ in range(grid[row, value])]
    originals = sorted(value for _, value in records)
    shares = (grid + prior) / (grid + prior).sum(axis=1, keepdims=True)
    expected = defaultdict(float)
    orders = list(permutations(range(len(records))))
    for draws in product(range(columns), repeat=len(records)):
        chance = math.prod(shares[row, draw] for (row, _), draw in zip(records, draws, strict=True))
        for tie_break in orders:
            ranked = sorted(range(len(records)), key=lambda i: (draws[i], tie_break[i]))
            out = np.zeros_like(grid)
            for place, record in enumerate(ranked):
                out[records[record][0], originals[place]] += 1
            expected[tuple(out.ravel().tolist())] += chance / len(orders)
    law = us.Matrix.shuffling(grid.shape, prior).law(tuple(grid.ravel().tolist()))
    assert law == pytest.approx({out: chance for out, chance in expected.items() if chance > 0})


def test_noise_infusion_with_a_public_and_with_a_secret_distribution():
    public = us.Matrix.multiplicative_noise({"0.5": 0.25, "1.5": 0.75})
    assert public.law((0, 3)) == pytest.approx({(0, 2): 0.25, (0, 5): 0.75})  # 1.5 and 4.5 are rounded up
    secret = us.Matrix.multiplicative_noise([{"0.5": 0.25, "1.5": 0.75}, {"1": 1.0}])
    both = secret.law((1, 3))
    assert both == pytest.approx({(1, 2): 1 / 32, (2, 2): 3 / 32, (1, 5): 3 / 32, (2, 5): 9 / 32, (1, 3): 0.5})
    # Secrecy makes claims less sure and changes nothing in the worst case: an empty cell stays empty.
    assert us.audit(secret, records=3, cells=2).epsilon == us.audit(public, records=3, cells=2).epsilon == math.inf
    assert us.audit(secret, records=3, cells=2).delta(2) <= us.audit(public, records=3, cells=2).delta(2)


def test_top_coding_counts_the_highest_together():
    assert us.Matrix.top_coding(1).law((3, 1, 0, 2)) == {(3, 3, 0, 0): 1.0}


def test_swapping_by_dealing_out_again():
    """Two records, always chosen: each order of the two column values has probability one half."""
    assert us.Matrix.swapping(1.0).law((1, 0, 0, 1)) == pytest.approx({(1, 0, 0, 1): 0.5, (0, 1, 1, 0): 0.5})
    one = us.Matrix.swapping(0.4).law((1, 0, 0, 1))
    assert one[(0, 1, 1, 0)] == pytest.approx(0.4**2 / 2)


def test_any_matrix_can_be_audited():
    keep = 0.75
    P = np.full((3, 3), (1 - keep) / 2) + (keep - (1 - keep) / 2) * np.eye(3)
    exact = us.audit(us.Matrix(P), records=2)
    assert exact.epsilon == pytest.approx(math.log(keep / 0.125))
    assert exact.delta(0) == pytest.approx(keep - 0.125)
    named = us.audit(us.Matrix([[0.5, 0.5], [0.4, 0.6], [0.3, 0.7]], outputs=[(1,), (0,)]), records=2)
    assert named.outputs == [(0,), (1,)]
    assert named.matrix[0].tolist() == pytest.approx([0.5, 0.5])
    with pytest.raises(UnsupportedError, match="no supremum"):
        exact.epsilon_any_size  # noqa: B018


def test_clamping_is_post_processing_and_keeps_the_worst_case():
    free = us.audit(us.Geometric(scale=2), records=6, noised="first")
    cut = us.audit(us.Geometric(scale=2), records=6, clamped=True)
    assert cut.epsilon == pytest.approx(free.epsilon) == pytest.approx(0.5)
    for epsilon in (0, 0.1, 0.3, 0.45):
        assert cut.delta(epsilon) <= free.delta(epsilon) + 1e-12
    three = us.audit(us.Geometric(scale=2), records=3, cells=3, clamped=True)
    assert three.epsilon == pytest.approx(1)
    assert np.abs(three.matrix.sum(axis=1) - 1).max() < 1e-12
    gauss = us.audit(us.DiscreteGaussian(scale=1), records=4, clamped=True)
    assert np.abs(gauss.matrix.sum(axis=1) - 1).max() < 1e-12
    assert math.isfinite(gauss.epsilon)
    assert math.isinf(gauss.epsilon_any_size)


def test_the_witness_of_independent_noise_shows_the_worst_case():
    for unit in ("replace", "add_remove"):
        for noise in (us.Geometric(scale=2), us.RoundedLaplace(scale=2)):
            exact = us.audit(noise, records=4, cells=3, unit=unit, clamped=False)
            witness = exact.witness
            out, likely, unlikely = (np.array(x) for x in (witness.output, witness.likely, witness.unlikely))
            shown = noise.log_pmf(out, likely).sum() - noise.log_pmf(out, unlikely).sum()
            assert shown == pytest.approx(exact.epsilon)
    with pytest.raises(UnsupportedError, match="without bound"):
        us.audit(us.DiscreteGaussian(scale=2), records=4).witness  # noqa: B018


def test_a_space_of_any_size_goes_by_structure():
    exact = us.audit(us.DirichletMultinomial(prior=(0.5,) * 100_000, rows=1000), records=1000)
    assert 0 < exact.delta(1) < 0.1
    assert exact.epsilon == pytest.approx(math.log1p(2000))
    bound = exact.breach_probability(2)
    assert bound.kind == "upper bound"
    assert not bound.exact
    fewer = us.audit(us.DirichletMultinomial(prior=0.05, cells=5000, rows=15), records=15).breach_probability(4)
    assert fewer.kind == "exact"
    with pytest.raises(UnsupportedError, match="enumeration is limited"):
        exact.matrix  # noqa: B018
    with pytest.raises(UnsupportedError, match="infinitely many"):
        us.audit(us.Geometric(scale=1), records=5).matrix  # noqa: B018


def test_several_copies_add_up_in_the_worst_case_and_less_in_delta():
    one = us.audit(us.DirichletMultinomial(prior=0.5, cells=40, rows=10), records=10)
    many = us.audit(us.DirichletMultinomial(prior=0.5, cells=40, rows=10), records=10, copies=4)
    assert many.epsilon == pytest.approx(4 * one.epsilon)
    bounds = many.delta_bounds(4.0)
    assert 0 < bounds.low <= many.delta(4.0) == bounds.high
    assert bounds.error < 2e-3
    finer = many.delta_bounds(4.0, step=0.002)
    assert bounds.low <= finer.high
    assert finer.low <= bounds.high
    assert bounds.high < 4 * one.delta(1.0)  # what splitting epsilon and adding deltas would claim
    with pytest.raises(UnsupportedError, match="single draw"):
        many.breach_probability(2)


def test_a_composition_of_infinite_losses():
    exact = us.audit(us.Matrix.sampling(0.1), records=2, copies=3)
    assert exact.delta(100.0) == pytest.approx(1 - 0.9**3)


def test_events_state_the_worst_case():
    sensitivity = Sensitivity(l1=2, l2_squared=2, linf=1)
    for mechanism in (
        us.DirichletMultinomial(prior=(0.5, 2), rows=5),
        us.PosteriorMeanMultinomial(prior=(0.5, 2), rows=5),
    ):
        event = mechanism.event(sensitivity)
        assert isinstance(event, PureLoss)
        exact = us.audit(mechanism, records=4).epsilon_any_size
        assert exact <= event.epsilon <= Fraction(exact) * (1 + Fraction(1, 10**12))
        with pytest.raises(UnsupportedError, match="one row per unit"):
            mechanism.event(Sensitivity(l1=4, l2_squared=8, linf=2))
    assert us.RoundedLaplace(scale=0.5).event(sensitivity).epsilon == 4
    with pytest.raises(UnsupportedError, match="audit only"):
        us.RoundedLaplace(scale=1).run(np.zeros(2, dtype=int), SeededStream(1))
    with pytest.raises(UnsupportedError, match="audit only"):
        us.PosteriorMeanMultinomial(prior=(1, 1), rows=2).run(np.zeros(2, dtype=int), SeededStream(1))


def test_one_cell_has_nothing_to_tell():
    for unit in ("replace", "add_remove"):
        exact = us.audit(us.DirichletMultinomial(prior=(1,), rows=3), records=2, unit=unit)
        assert exact.epsilon == exact.epsilon_any_size == exact.delta(0) == 0


DRAW = us.DirichletMultinomial(prior=(1, 1), rows=2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: us.DirichletMultinomial(prior=(0.5, 0), rows=5), "must be positive"),
        (lambda: us.DirichletMultinomial(prior=(0.5, -1), rows=5), "must be positive"),
        (lambda: us.DirichletMultinomial(prior=(0.5, math.nan), rows=5), "must be finite"),
        (lambda: us.DirichletMultinomial(prior=(0.5, math.inf), rows=5), "must be finite"),
        (lambda: us.DirichletMultinomial(prior=("x", 1), rows=5), "must be a number"),
        (lambda: us.DirichletMultinomial(prior=(), rows=5), "empty"),
        (lambda: us.DirichletMultinomial(prior=0.5, rows=5), "cells="),
        (lambda: us.DirichletMultinomial(prior=(1, 1), rows=5, cells=3), "agree"),
        (lambda: us.DirichletMultinomial(prior=(1, 1), rows=0), "rows"),
        (lambda: us.DirichletMultinomial(prior=(1, 1), rows=2.5), "rows"),
        (lambda: us.PosteriorMeanMultinomial(prior=(1, 1), rows=True), "rows"),
        (lambda: DRAW.log_pmf(np.array([1, 1, 0]), np.array([1, 1])), "each of 2 cells"),
        (lambda: DRAW.log_pmf(np.array([1, 1]), np.array([-1, 1])), "negative"),
        (lambda: us.audit(DRAW, records=0), "records"),
        (lambda: us.audit(DRAW, records=2, cells=3), "leave cells out"),
        (lambda: us.audit(DRAW, records=2, copies=0), "copies"),
        (lambda: us.audit(DRAW, records=2, unit="swap"), "unit"),
        (lambda: us.audit(DRAW, records=2, unit=us.Unit(rows_per_unit=2)), "one row at a time"),
        (lambda: us.audit(DRAW, records=2, clamped=True), "another kind"),
        (lambda: us.audit("dirichlet", records=2), "no law"),
        (lambda: us.audit(DRAW, records=2).delta(-1), "epsilon"),
        (lambda: us.audit(DRAW, records=2).delta(math.nan), "epsilon"),
        (lambda: us.audit(DRAW, records=2).breach_probability(1, "map"), "convention"),
        (lambda: us.audit(DRAW, records=2).breach_probability(1, prior="uniform"), "takes no prior"),
        (lambda: us.audit(DRAW, records=2).breach_probability(1, "prior_averaged"), "needs a prior"),
        (lambda: us.audit(DRAW, records=2).breach_probability(1, "prior_averaged", prior=[1, 0]), "each of the 3"),
        (lambda: us.audit(DRAW, records=2).breach_probability(1, "prior_averaged", prior=[2, 0, -1]), "add up to 1"),
        (lambda: us.audit(DRAW, records=2).posterior_odds("normal"), "multinomial"),
        (lambda: us.audit(DRAW, records=2).worst_posterior(1), "rho1"),
        (lambda: us.Matrix([[0.5, 0.6]]), "adds up to"),
        (lambda: us.Matrix([[0.5, math.nan]]), "finite"),
        (lambda: us.Matrix([[1.5, -0.5]]), "at least 0"),
        (lambda: us.Matrix([0.5, 0.5]), "matrix"),
        (lambda: us.Matrix([[1.0], [0.5, 0.5]]), "same length"),
        (lambda: us.Matrix([[0.5, 0.5]], outputs=[(0,)]), "name each"),
        (lambda: us.audit(us.Matrix([[1.0, 0], [0, 1]]), records=2), "one row for each"),
        (lambda: us.audit(us.Matrix([[1.0], [1], [1]]), records=2), "name its columns"),
        (lambda: us.Matrix.swapping(1.5), "rate"),
        (lambda: us.Matrix.shuffling((2,)), "two-way"),
        (lambda: us.Matrix.shuffling(prior=-1), "prior"),
        (lambda: us.Matrix.shuffling(prior=math.nan), "prior"),
        (lambda: us.Matrix.top_coding(-1), "cell"),
        (lambda: us.Matrix.top_coding(2).law((1, 2)), "0 to 1"),
        (lambda: us.Matrix.multiplicative_noise({}), "at least one"),
        (lambda: us.Matrix.multiplicative_noise({0.9: 0.5}), "add"),
        (lambda: us.Matrix.multiplicative_noise({-1: 1.0}), "factor"),
        (lambda: us.Matrix.swapping(0.5, shape=(2,)), "two-way"),
        (lambda: us.Matrix.suppression(1), "threshold"),
        (lambda: us.Matrix.coarsening([[0], [0, 1]]), "exactly once"),
        (lambda: us.audit(us.Matrix.pram([[0.5, 0.5], [0.5, 0.5]]), records=2, cells=3), "leave cells out"),
        (lambda: us.Matrix.pram([[0.5, 0.4], [0.5, 0.5]]), "adds up to"),
        (lambda: us.Matrix.subsample_plus_binomial(0.5, -1, 0.5), "trials"),
        (lambda: us.RoundedLaplace(scale=0), "scale"),
        (lambda: us.RoundedLaplace(scale=math.nan), "finite"),
        (lambda: us.audit(us.Geometric(scale=1), records=2, noised="second"), "noised"),
        (lambda: us.audit(us.Geometric(scale=1), records=2, cells=3, noised="first"), "two cells"),
        (lambda: us.audit(us.Geometric(scale=1), records=2, cells=1), "no row can change"),
        (lambda: us.audit(us.Matrix.sampling(0.5), records=10**6).epsilon, "limited"),
        (lambda: us.audit(us.PosteriorMeanMultinomial(prior=1, cells=50, rows=50), records=50).epsilon, "limited"),
    ],
)
def test_bad_input_is_refused_in_words(call, message):
    with pytest.raises(InputError, match=message):
        call()
