"""Noise with a bound, as releases run it: the law, the loss by brute force, and what is refused."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import understudy as us
from understudy.demo.people import make_people, small_schema
from understudy.errors import BudgetError, InputError, UnsupportedError
from understudy.privacy.exact.bounded_losses import outside_delta, trimmed_delta, trimmed_law
from understudy.privacy.mechanisms.bounded_noise import ExponentialNoise, TrimmedNoise
from understudy.privacy.mechanisms.noise import mechanism_from_json
from understudy.privacy.promise.accountant import compose
from understudy.privacy.promise.conversion import cdp_delta
from understudy.privacy.promise.event import Sensitivity
from understudy.privacy.randomness.streams import SeededStream

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
ONE, TWO = Sensitivity(l1=1, l2_squared=1, linf=1), Sensitivity(l1=2, l2_squared=2, linf=1)


@pytest.mark.parametrize(("scale", "bound", "epsilon"), [(2.0, 8, 1.0), (1.5, 5, 2.0), (4.0, 9, 0.1)])
def test_the_delta_is_that_of_all_outputs_of_one_and_of_two_cells(scale, bound, epsilon):
    values, chances = trimmed_law(scale, bound)
    law = dict(zip(values.astype(int).tolist(), chances.tolist(), strict=True))
    one = sum(max(law.get(z, 0) - math.exp(epsilon) * law.get(z - 1, 0), 0) for z in range(-bound, bound + 2))
    two = sum(
        max(law.get(x, 0) * law.get(y, 0) - math.exp(epsilon) * law.get(x - 1, 0) * law.get(y + 1, 0), 0)
        for x, y in product(range(-bound - 1, bound + 2), repeat=2)
    )
    assert trimmed_delta(scale, bound, epsilon, 1) == pytest.approx(one, rel=1e-9)
    assert trimmed_delta(scale, bound, epsilon, 2) == pytest.approx(two, rel=1e-9)
    with pytest.raises(UnsupportedError):
        trimmed_delta(scale, bound, epsilon, 3)


@pytest.mark.parametrize(("scale", "bound"), [(0.7, 3), (1.5, 5), (3.0, 6), (2.0, 12)])
@pytest.mark.parametrize("steps", [(1,), (1, 1), (2,), (2, 1), (3, 3)])
def test_tables_added_up_lose_no_more_than_rho_and_the_ends_say(scale, bound, steps):
    """Theorem 1 by listing: two tables of these moves have at most the delta that the accountant converts to."""
    values, chances = trimmed_law(scale, bound)
    law = dict(zip(values.astype(int).tolist(), chances.tolist(), strict=True))
    sensitivity = Sensitivity(l1=sum(steps), l2_squared=sum(step**2 for step in steps), linf=max(steps))
    noise = TrimmedNoise(scale=Fraction(scale), bound=bound)
    loss = compose([noise.event(sensitivity)] * 2, us.Unit())
    assert loss.rho == sensitivity.l2_squared / Fraction(scale) ** 2  # of two tables
    pairs = [(1.0, 1.0)]  # of what one and the other world give probability to
    for step in steps * 2:
        joined = {}
        for p, q in pairs:
            for z, chance in law.items():
                both = (p * chance, q * law.get(z - step, 0.0))
                # Only the ratio matters, so outputs of one ratio are put together: the listing stays small.
                key = round(math.log(both[0] / both[1]), 9) if both[1] else math.inf
                old = joined.get(key, (0.0, 0.0))
                joined[key] = (old[0] + both[0], old[1] + both[1])
        pairs = list(joined.values())
    infinite = math.fsum(p for p, q in pairs if not q)
    assert infinite <= float(loss.approx_delta) * (1 + 1e-9)
    for epsilon in (0.0, 0.3, 1.0, 2.5):
        exact = math.fsum(max(p - math.exp(epsilon) * q, 0.0) for p, q in pairs)
        stated = float(loss.approx_delta) + float(cdp_delta(loss.rho, Fraction(epsilon)))
        assert exact <= stated * (1 + 1e-9)


def test_the_ends_of_few_cells_that_move_far_are_the_worst():
    _, chances = trimmed_law(2.0, 6)
    for l1, linf in ((4, 2), (5, 2), (3, 3)):
        ways = [moves for moves in product(range(linf + 1), repeat=l1) if sum(moves) == l1]
        worst = max(sum(chances[:move].sum() for move in moves) for moves in ways)
        assert float(outside_delta(Fraction(2), 6, l1, linf)) == pytest.approx(worst, rel=1e-8)
    assert outside_delta(Fraction(2), 400, 2, 1) > 0  # although floats are 0 there
    with pytest.raises(UnsupportedError, match="stays within"):
        outside_delta(Fraction(2), 6, 7, 7)


def test_the_corrected_counts_are_right_on_average():
    for scale in (0.4, 1.0, 5.0):
        noise = ExponentialNoise(scale=Fraction(scale))
        outputs = np.arange(math.ceil(80 * scale) + 60)
        for count in (0, 1, 2, 7, 30):
            law = np.exp(noise.log_pmf(outputs, np.full(outputs.size, count)))
            assert law @ noise.unbiased(outputs) == pytest.approx(count, abs=1e-9)
        assert np.exp(noise.log_pmf(outputs, np.zeros(outputs.size, int))) @ outputs > 0.05


def test_a_scale_that_keeps_less_than_the_promise_is_not_run():
    noise = TrimmedNoise.keeping(Fraction(1), Fraction(1, 10**6), 60, 2)
    assert noise.event(TWO).delta == Fraction(1, 10**6)
    less = TrimmedNoise(scale=Fraction(noise.scale) * Fraction(98, 100), bound=60, epsilon=1, delta="1e-6")
    with pytest.raises(BudgetError, match="costs more"):
        less.event(TWO)
    assert less.event(ONE)  # one cell loses less
    exact = Fraction(trimmed_delta(float(noise.scale), 60, 1.0, 2))
    for part in (1 - Fraction(1, 10**8), 1 - Fraction(1, 10**10)):  # a delta that is hardly too small is too small
        with pytest.raises(BudgetError, match="costs more"):
            TrimmedNoise(scale=noise.scale, bound=60, epsilon=1, delta=exact * part).event(TWO)
    with pytest.raises(UnsupportedError, match="one row"):
        noise.event(Sensitivity(l1=4, l2_squared=8, linf=2))
    with pytest.raises(InputError, match=r"A bound of \d+ does"):
        TrimmedNoise.keeping(Fraction(1), Fraction(1, 10**6), 5, 2)


def test_the_exponential_mechanism_has_its_closed_loss_and_uses_the_budget_up():
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(3)):
        noise = ExponentialNoise.keeping(epsilon, 2)
        charged = compose([noise.event(TWO)], us.Unit()).epsilon
        assert epsilon * Fraction(999_999, 10**6) < charged <= epsilon
        far = math.ceil(60 * float(noise.scale))
        outputs = np.arange(far)
        laws = np.array([noise.log_pmf(outputs, np.full(far, count)) for count in range(12)])
        assert np.exp(laws[3]).sum() == pytest.approx(1)
        assert 2 * np.abs(np.diff(laws, axis=0)).max() == pytest.approx(float(charged), rel=1e-6)


@pytest.mark.parametrize(
    "noise", [TrimmedNoise.keeping(Fraction(1), Fraction(1, 1000), 14, 1), ExponentialNoise(scale=3)]
)
def test_what_is_drawn_has_the_law_and_other_scales_are_noticed(noise):
    """Chi-squared over 60,000 draws at a count of 2; false alarm 1e-5."""
    from scipy.stats import chi2

    drawn = noise.run(np.full(60_000, 2), SeededStream(5))
    cells = np.arange(-12, 17)

    def far(law):
        chances = np.exp(law.log_pmf(cells, np.full(len(cells), 2)))
        expected = np.append(chances, max(1 - chances.sum(), 0)) * len(drawn)
        found = np.array([*(np.sum(drawn == cell) for cell in cells), np.sum(~np.isin(drawn, cells))])
        few = expected < 5
        expected, found = (np.append(part[~few], part[few].sum()) for part in (expected, found))
        kept = expected > 0
        statistic = ((found - expected)[kept] ** 2 / expected[kept]).sum() + (np.inf if found[~kept].any() else 0)
        return statistic > chi2.isf(1e-5, kept.sum() - 1)

    assert not far(noise)
    for factor in (Fraction(7, 10), Fraction(14, 10)):
        other = ExponentialNoise(scale=noise.scale * factor)
        if isinstance(noise, TrimmedNoise):
            assert np.abs(drawn - 2).max() <= noise.bound
            other = TrimmedNoise(scale=noise.scale * factor, bound=14, epsilon=1, delta="1e-3")
        assert far(other)
    assert mechanism_from_json(noise.to_json()) == noise


@pytest.mark.parametrize(
    ("budget", "options"),
    [
        (us.ApproxDP(epsilon=2, delta="1e-6"), {"noise": "trimmed", "bound": 40}),
        (us.PureDP(epsilon=2), {"noise": "exponential"}),
    ],
)
def test_a_release_is_charged_verified_and_read_back(budget, options, tmp_path):
    source = us.open_source(make_people(2_000), small_schema())
    release = us.synthesize(
        source, method="histogram", budget=budget, stream=SeededStream(3), out=tmp_path / "release", **options
    )
    assert all(check.passed for check in us.verify(tmp_path / "release"))
    (measured,) = us.read_release(tmp_path / "release").measurements
    (true,) = source.count([small_schema().names])
    allowed = small_schema().allowed()
    assert measured.mechanism == release.measurements[0].mechanism
    if options["noise"] == "trimmed":
        assert np.abs(measured.values - true.values)[allowed].max() <= 40
        answer = us.infer(release, "proportion(smokes == 'no')")
        (smokes,) = source.count([("smokes",)])
        assert abs(answer.estimates[0].value - smokes.values[0] / smokes.values[:2].sum()) < 0.08
    else:
        assert measured.values.min() >= 0
        with pytest.raises(UnsupportedError, match="exponential mechanism"):
            us.infer(release, "proportion(smokes == 'no')")


@pytest.mark.parametrize(
    ("budget", "options"),
    [
        (us.ApproxDP(epsilon=2, delta="1e-6"), {"noise": "trimmed", "bound": 90}),
        (us.ApproxDP(epsilon=2, delta="1e-6"), {"noise": "trimmed", "bound": 90, "draws": "posterior", "copies": 2}),
        (us.ApproxDP(epsilon=2, delta="1e-6"), {"noise": "trimmed", "bound": 40, "margins": "age+education"}),
        (us.PureDP(epsilon=4), {"noise": "exponential"}),
    ],
)
def test_margins_are_charged_verified_and_near(budget, options, tmp_path):
    source = us.open_source(make_people(2_000), small_schema())
    release = us.synthesize(
        source, method="ipf", budget=budget, stream=SeededStream(3), out=tmp_path / "release", **options
    )
    assert all(check.passed for check in us.verify(tmp_path / "release"))
    for measured in us.read_release(tmp_path / "release").measurements:
        (true,) = source.count([measured.margin])
        if options["noise"] == "trimmed":
            assert np.abs(measured.values - true.values).max() <= options["bound"]
        else:
            assert measured.values.min() >= 0
    (smokes,) = source.count([("education",)])
    rows = us.open_source(release.frame(), small_schema()).count([("education",)])[0].values
    assert np.abs(rows - smokes.values).max() < 150
    if options["noise"] == "trimmed" and len(release.measurements) > 1:
        assert us.infer(release, "proportion(smokes == 'no')").validity == "valid"


def test_units_of_more_rows_move_further_and_cost_more():
    unit = us.Unit(rows_per_unit=2, unit_id="person")
    budget = us.ApproxDP(epsilon=2, delta="1e-6")
    one, two = (
        us.plan(small_schema(), method="ipf", budget=budget, unit=who, noise="trimmed", bound=400, records=2000)
        for who in (us.Unit(), unit)
    )
    assert two.steps[0].event.linf == 2
    assert two.steps[0].standard_deviation == pytest.approx(2 * one.steps[0].standard_deviation, rel=1e-3)


@pytest.mark.parametrize(
    ("budget", "options"),
    [
        (us.ApproxDP(epsilon=1, delta="1e-6"), {"noise": "trimmed", "bound": 30}),  # too near for ten tables
        (us.ApproxDP(epsilon=1, delta="1e-6"), {"noise": "trimmed", "bound": 300, "refine": "age:2"}),
        (us.ApproxDP(epsilon=1, delta="1e-6"), {"noise": "trimmed", "bound": 300, "postprocess": "published"}),
        (us.PureDP(epsilon=1), {"noise": "exponential", "draws": "posterior", "copies": 2}),
        (us.PureDP(epsilon=1), {"noise": "exponential", "must": "crosstab(sex, age)"}),
        (us.ZCDP(rho=1), {"noise": "trimmed", "bound": 300}),
    ],
)
def test_noise_on_margins_that_cannot_be_had_is_refused(budget, options):
    with pytest.raises((InputError, UnsupportedError)):
        us.plan(small_schema(), method="ipf", budget=budget, **options)


@pytest.mark.parametrize(
    ("budget", "unit", "options", "error"),
    [
        (us.PureDP(epsilon=1), "replace", {"noise": "trimmed", "bound": 30}, UnsupportedError),
        (us.ApproxDP(epsilon=1, delta="1e-6"), "replace", {"noise": "exponential"}, UnsupportedError),
        (us.PureDP(epsilon=1), "add_remove", {"noise": "exponential"}, UnsupportedError),
        (us.ApproxDP(epsilon=1, delta="1e-6"), "replace", {"noise": "trimmed"}, InputError),
        (us.ApproxDP(epsilon=1, delta="1e-6"), "replace", {"bound": 30}, InputError),
        (us.ApproxDP(epsilon=1, delta="1e-6"), us.Unit(rows_per_unit=2), {"noise": "trimmed", "bound": 3},
         us.UnderstudyError),
        (us.NonPrivate(), "replace", {"noise": "exponential"}, InputError),
        (us.PureDP(epsilon=1), "replace", {"noise": "laplace"}, us.UnderstudyError),
    ],
)  # fmt: skip
def test_noise_that_cannot_keep_the_promise_is_refused(budget, unit, options, error):
    with pytest.raises(error):
        us.plan(small_schema(), method="histogram", budget=budget, unit=unit, **options)
