"""The regularised fit: its optimum, its limits, and the rule that sets its weight."""

import numpy as np
import pytest
from scipy.optimize import minimize

import understudy as us
from understudy.core.measurement import Measurement
from understudy.errors import InputError, UnsupportedError
from understudy.models import fit as fitting
from understudy.models.fit import fit, layout, one_way_shares, tables_of
from understudy.privacy.mechanisms.noise import DiscreteGaussian, Geometric
from understudy.privacy.randomness.streams import SeededStream

SIZES = {"a": 2, "b": 3, "c": 2}
SCHEMA = us.Schema(attributes=tuple(us.Attribute(name=n, levels=tuple(range(s))) for n, s in SIZES.items()))
GENERATOR = np.random.default_rng(1)
AXES = {("a", "b"): 2, ("b", "c"): 0, ("a", "c"): 1}
WEIGHTS = (10_000.0, 3_000.0, 1_000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0)
TRUE = GENERATOR.multinomial(1000, GENERATOR.dirichlet(np.ones(12))).reshape(2, 3, 2)


def measured(margin, mechanism, stream=None, table=TRUE):
    names = tuple(SIZES)
    counts = table.sum(axis=tuple(i for i, name in enumerate(names) if name not in margin))
    return Measurement(margin=margin, values=mechanism.run(counts, stream or SeededStream(2)), mechanism=mechanism)


@pytest.mark.parametrize("margins", [[("a", "b"), ("b", "c")], [("a", "b"), ("b", "c"), ("a", "c")], [("a",), ("b",)]])
@pytest.mark.parametrize("prior", [5.0, 300.0])
def test_the_optimum_equals_that_of_a_general_solver_on_the_full_table(margins, prior):
    noise = Geometric(scale=8)
    data = [measured(margin, noise) for margin in margins]
    model, report = fit(SCHEMA, data, total=1000.0, prior=prior, tolerance=1e-4)
    noisy = layout(tables_of(data, {}))
    base = one_way_shares(SCHEMA, noisy, 1000.0)
    log_base = base["a"][:, None, None] + base["b"][None, :, None] + base["c"][None, None, :]
    names = tuple(SIZES)

    def full(vector):
        log, start = log_base, 0
        for margin, table in zip(noisy.margins, noisy.tables, strict=True):
            part = vector[start : start + table.size].reshape(table.shape)
            log = log + part.reshape([SIZES[n] if n in margin else 1 for n in names])
            start += table.size
        top = log.max()
        weights = np.exp(log - top)
        return weights / weights.sum(), float(np.log(weights.sum()) + top)

    def objective(vector):
        _, log_z = full(vector)
        return 1000 * log_z - vector @ noisy.values + 0.5 * prior / 1000 * (noisy.noise * vector) @ vector

    found = minimize(objective, np.zeros(len(noisy.values)), method="BFGS", options={"gtol": 1e-6, "maxiter": 5000})
    joint, _ = full(found.x)
    assert np.allclose(model.project(names), 1000 * joint, atol=0.02)
    assert report.residual <= 1e-4


def test_without_noise_and_prior_the_margins_come_back():
    noise = DiscreteGaussian(scale="0.01")
    data = [measured(("a", "b"), noise), measured(("b", "c"), noise)]
    model, _ = fit(SCHEMA, data, total=1000.0, prior=1.0, tolerance=0.4)
    for one in data:
        assert np.abs(model.project(one.margin) - one.values).max() < 0.5


def test_with_all_weight_on_independence_nothing_else_is_left():
    noise = Geometric(scale=50)
    model, _ = fit(SCHEMA, [measured(("a", "b"), noise)], total=1000.0, prior=1e9)
    table = model.project(("a", "b")) / 1000
    assert np.allclose(table, np.outer(table.sum(axis=1), table.sum(axis=0)), atol=1e-4)


def test_structural_zeros_are_exact_also_across_cliques():
    schema = us.Schema(
        attributes=SCHEMA.attributes,
        impossible=(us.Impossible(conditions=(("a", us.Condition(levels=(0,))), ("c", us.Condition(levels=(1,))))),),
    )
    noise = Geometric(scale=20)
    data = [measured(("a", "b"), noise), measured(("b", "c"), noise)]
    model, _ = fit(schema, data, total=1000.0, prior=50.0)
    assert model.project(("a", "c"))[0, 1] == 0
    rows = model.draw(schema, 5000, "multinomial", SeededStream(1), "t")
    assert rows.counts(("a", "c"))[0, 1] == 0
    assert model.project(("a", "b", "c")).sum() == pytest.approx(1000)


def test_a_structural_zero_too_large_for_a_model_is_named():
    wide = us.Schema(
        attributes=tuple(us.Attribute(name=f"v{i}", levels=tuple(range(100))) for i in range(4)),
        impossible=(us.Impossible(conditions=tuple((f"v{i}", us.Condition(levels=(0,))) for i in range(4))),),
    )
    with pytest.raises(UnsupportedError, match="v0 x v1 x v2 x v3"):
        fitting.build_tree(wide, [])


def test_margins_that_cannot_agree_are_fitted_in_between():
    noise = Geometric(scale=5)
    data = [measured(("a", "b"), noise), measured(("a", "b"), noise, SeededStream(9), TRUE[::-1])]
    model, report = fit(SCHEMA, data, total=1000.0, prior=1.0)
    middle = (data[0].values + data[1].values) / 2
    assert np.abs(model.project(("a", "b")) - middle).max() < 5
    assert report.residual < 0.1


def test_public_margins_are_followed_exactly():
    noise = Geometric(scale=200)
    known = {("a",): TRUE.sum(axis=(1, 2))}
    model, _ = fit(SCHEMA, [measured(("a", "b"), noise)], total=1000.0, prior=100.0, known=known)
    assert np.abs(model.project(("a",)) - known["a",]).max() < 1


@pytest.mark.parametrize("mechanism", [Geometric(scale=30), DiscreteGaussian(scale=30)])
def test_the_chosen_weight_is_near_the_best_on_average(mechanism):
    """Over independent noise, the rule predicts the measured tables about as well as the best fixed weight, which only
    an oracle knows. (Tables nobody measured are not what it aims at.)"""
    margins = [("a", "b"), ("b", "c"), ("a", "c")]

    def error(model):
        return sum(((model.project(m) - TRUE.sum(axis=AXES[m])) ** 2).sum() for m in margins)

    rule, fixed = [], {prior: [] for prior in WEIGHTS}
    for seed in range(12):
        stream = SeededStream(seed)
        data = [measured(margin, mechanism, stream) for margin in margins]
        chosen, report = fit(SCHEMA, data, total=1000.0, stream=stream)
        assert report.factor in fitting.FACTORS
        rule.append(error(chosen))
        for prior in WEIGHTS:
            model, _ = fit(SCHEMA, data, total=1000.0, prior=prior)
            fixed[prior].append(error(model))
    best = min(np.mean(errors) for errors in fixed.values())
    worst = max(np.mean(errors) for errors in fixed.values())
    assert np.mean(rule) < 1.3 * best
    assert worst > 2.5 * best  # so the choice matters


def test_bad_input():
    with pytest.raises(InputError, match="total"):
        fit(SCHEMA, [measured(("a",), Geometric(scale=1))], total=0.0, prior=1.0)
    with pytest.raises(InputError, match="stream"):
        fit(SCHEMA, [measured(("a",), Geometric(scale=1))], total=10.0)


def test_all_rows_identical():
    table = np.zeros((2, 3, 2), dtype=int)
    table[1, 2, 0] = 500
    noise = Geometric(scale=2)
    data = [measured(margin, noise, SeededStream(3), table) for margin in (("a", "b"), ("b", "c"))]
    model, _ = fit(SCHEMA, data, total=500.0, stream=SeededStream(4))
    assert model.project(tuple(SIZES))[1, 2, 0] > 450
