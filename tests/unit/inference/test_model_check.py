"""A model against a release: size and power of the fit, support, and tables that disagree beyond their noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

import understudy as us
from understudy.core.measurement import Measurement
from understudy.errors import InputError, UnsupportedError
from understudy.inference.agreement import FALSE_ALARM, _log_bound, disagreements
from understudy.inference.exact import SumOfNoise
from understudy.privacy.mechanisms.noise import DiscreteGaussian, Geometric
from understudy.release.statement import Provenance, Statement

SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="dose", levels=("0", "1", "2", "3")),
        us.Attribute(name="ill", levels=("no", "yes")),
    )
)
PEOPLE = 4000


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def population(bend: float) -> np.ndarray:
    """Illness depends on sex and dose by a logit without interaction; ``bend`` adds one."""
    sex, dose, ill = np.indices(SCHEMA.shape())
    eta = -0.6 + 0.5 * sex + np.array([0, 0.4, 0.2, 0.9])[dose] + bend * (sex - 0.5) * (dose - 1.5)
    base = np.exp(0.1 * dose - 0.2 * sex)
    chance = 1 / (1 + np.exp(-eta))
    shares = base * np.where(ill == 1, chance, 1 - chance)
    return shares / shares.sum()


def release_of(seed: int, bend: float = 0.0, noise=None, margins=None, unit="replace") -> us.Release:
    generator = rng(seed)
    noise = noise or Geometric(scale=8)
    counts = generator.multinomial(PEOPLE, population(bend).ravel()).reshape(SCHEMA.shape())
    found = []
    for margin in margins or (("sex", "dose", "ill"), ("sex", "ill"), ("dose", "ill")):
        others = tuple(place for place, name in enumerate(SCHEMA.names) if name not in margin)
        true = counts.sum(axis=others)
        if isinstance(noise, Geometric):
            stay = np.exp(-1 / float(noise.scale))
            drawn = generator.geometric(1 - stay, true.shape) - generator.geometric(1 - stay, true.shape)
        else:
            drawn = np.rint(generator.normal(0, float(noise.scale), true.shape)).astype(np.int64)
        found.append(Measurement(margin=margin, values=true + drawn, mechanism=noise))
    kind = us.Unit(kind=unit)
    plan = us.plan(SCHEMA, method="ipf", budget=us.PureDP(epsilon=1), unit=kind)
    return us.Release(
        schema=SCHEMA,
        tables=(pa.table({name: pa.array([], pa.string()) for name in SCHEMA.names}),),
        statement=Statement(unit=kind, guarantee=us.PureDP(epsilon=1)),
        provenance=Provenance(
            method="ipf", package_version="0", plan=plan, records=PEOPLE if unit == "replace" else None
        ),
        measurements=tuple(found),
    )


def test_a_true_model_is_rejected_as_often_as_it_should_be_and_a_false_one_always():
    """40 data sets, bounds at 1e-4 in each direction; a bend of 0.6 is always seen."""
    runs = 40
    found = [us.check_model(release_of(seed), "ill ~ dose + sex", event="yes", rng=rng(seed)) for seed in range(runs)]
    values = np.array([one.p_value for one in found])
    assert {one.freedom for one in found} == {3}
    assert (values < 0.05).sum() <= binom.ppf(1 - 1e-4, runs, 0.05)
    assert (values > 0.5).sum() >= binom.ppf(1e-4, runs, 0.5)
    bent = us.check_model(release_of(1, bend=0.6), "ill ~ dose + sex", event="yes", rng=rng())
    assert bent.p_value < 1e-4
    assert abs(bent.worst[0][1]) > 2
    with_interaction = us.check_model(release_of(1, bend=0.6), "ill ~ dose * sex", event="yes", rng=rng())
    assert with_interaction.p_value is None  # saturated: fitted by construction
    assert "nothing to test" in with_interaction.summary()


def test_noise_is_accounted_for():
    """The same bend, little people and much noise: what would be a rejection without noise is none with it."""
    loud = us.check_model(
        release_of(1, bend=0.3, noise=Geometric(scale=50)), "ill ~ dose + sex", event="yes", rng=rng()
    )
    assert loud.p_value > 0.01
    quiet = us.check_model(
        release_of(1, bend=0.3, noise=Geometric(scale=1)), "ill ~ dose + sex", event="yes", rng=rng()
    )
    assert quiet.p_value < 0.001


@pytest.mark.parametrize("family", ["linear", "poisson", "multinomial", "ordered"])
def test_every_family_is_checked(family):
    schema = us.Schema(
        attributes=(
            us.Attribute(name="sex", levels=("F", "M")),
            us.Attribute(name="ill", levels=("no", "yes")),
            us.Attribute(name="visits", edges=(0, 1, 2, 4), integer=True)
            if family in ("linear", "poisson")
            else us.Attribute(name="visits", levels=("none", "some", "many"), ordered=True),
        )
    )
    shares = np.array([[[5, 3, 2], [3, 3, 4]], [[5, 3, 2], [1, 2, 7]]], float)
    counts = rng(1).multinomial(PEOPLE, (shares / shares.sum()).ravel()).reshape(2, 2, 3)
    base = release_of(1)
    release = replace(
        base,
        schema=schema,
        tables=(pa.table({name: pa.array([], pa.string()) for name in schema.names}),),
        measurements=tuple(
            Measurement(margin=margin, values=values, mechanism=Geometric(scale=4))
            for margin, values in ((schema.names, counts), (("sex", "visits"), counts.sum(axis=1)))
        ),
    )
    checked = us.check_model(release, "visits ~ sex + ill", family=family, rng=rng())
    assert checked.supported
    assert checked.family == family
    assert checked.freedom >= 1
    assert 0 <= checked.p_value <= 1
    assert f"({family})" in checked.summary()


def test_support_says_what_rests_on_assumptions():
    pairs = (("sex", "dose"), ("sex", "ill"), ("dose", "ill"))
    plain = us.check_model(release_of(1, margins=pairs), "ill ~ dose + sex", event="yes", rng=rng())
    assert plain.supported
    crossed = us.check_model(release_of(1, margins=pairs), "ill ~ dose * sex", event="yes", rng=rng())
    assert not crossed.supported
    assert crossed.modelled > 0.01
    assert "assumption" in crossed.summary()


def test_bad_input():
    release = release_of(1)
    with pytest.raises(InputError, match="no model"):
        us.check_model(release, "proportion(ill == 'yes')")
    with pytest.raises(InputError, match="needs a release"):
        us.check_model("folder", "ill ~ sex")
    with pytest.raises(UnsupportedError, match="states no noise"):
        us.check_model(replace(release, measurements=()), "ill ~ sex", event="yes")
    with pytest.raises(UnsupportedError, match="no table with both"):
        us.check_model(
            release_of(1, margins=(("sex", "dose"), ("dose", "ill"))), "ill ~ dose + sex", event="yes", rng=rng()
        )


# Agreement of tables.


@pytest.mark.parametrize("noise", [Geometric(scale=8), DiscreteGaussian(scale=11)])
def test_honest_releases_are_not_flagged(noise):
    assert all(disagreements(release_of(seed, noise=noise)) == () for seed in range(100))


@pytest.mark.parametrize("noise", [Geometric(scale=8), DiscreteGaussian(scale=11)])
@pytest.mark.parametrize("unit", ["replace", "add_remove"])
def test_a_changed_table_is_flagged_and_no_answer_is_called_valid(noise, unit):
    release = release_of(1, noise=noise, unit=unit)
    table = release.measurements[1]
    values = table.values.copy()
    values[0, 1] += 400
    changed = replace(
        release, measurements=(release.measurements[0], replace(table, values=values), release.measurements[2])
    )
    found = disagreements(changed)
    assert found
    assert all(one.probability < FALSE_ALARM for one in found)
    assert "sex x ill" in str(found[0])
    answer = us.infer(changed, "proportion(ill == 'yes')", rng=rng())
    assert answer.validity == "model-based"
    assert any("DISAGREE" in text for text in answer.warnings)
    assert us.infer(release, "proportion(ill == 'yes')", rng=rng()).validity == "valid"
    assert "altered" in us.check_model(changed, "ill ~ sex", event="yes", rng=rng()).summary()


def test_the_bound_is_above_the_exact_tail_and_not_far():
    """Against the exact law of a sum of three geometric noises."""
    noise = Geometric(scale=5)
    law = SumOfNoise(mechanism=noise, count=3)
    support = np.arange(-600, 601)
    mass = np.exp(law.log_pmf(support))
    for distance in (20, 60, 120):
        exact = mass[np.abs(support) >= distance].sum()
        bound = float(np.exp(_log_bound(np.array([float(distance)]), [(noise, np.array([3.0]))])[0]))
        assert exact <= bound < 100 * exact
