"""Labels are earned: each fault that was once called valid is no longer, and what was right still is."""

from __future__ import annotations

import warnings
from statistics import NormalDist

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.errors import UnsupportedError
from understudy.inference.evidence import _Collapsed, _raw_of_counts
from understudy.inference.judge import Judged
from understudy.inference.regression import Model
from understudy.inference.without_prior import Raw, Settled, noise_of, sampled, settle
from understudy.privacy.randomness.streams import SeededStream

SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="age", levels=tuple("abcdef")),
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="edu", levels=tuple("pqrst")),
        us.Attribute(name="mar", levels=("x", "y", "z")),
        us.Attribute(name="inc", levels=("no", "yes")),
    )
)
MODEL = {"event": "yes", "rng": np.random.default_rng(1)}


def shares() -> np.ndarray:
    age, sex, edu, mar, inc = np.indices(SCHEMA.shape())
    log = -0.1 * (age - 2) ** 2 + 0.1 * sex - 0.2 * (edu - 1) ** 2 - 0.4 * mar + 0.2 * age * (mar == 1)
    log = log - 1.5 * inc + 0.25 * (age - 2) * inc + 0.7 * sex * inc + 0.4 * edu * inc + 0.15 * sex * (edu - 2) * inc
    weights = np.exp(log)
    return weights / weights.sum()


def release_of(method: str, people: int, epsilon: float, seed: int = 1, **settings) -> us.Release:
    drawn = np.random.default_rng(seed).multinomial(people, shares().ravel())
    codes = np.unravel_index(np.repeat(np.arange(drawn.size), drawn), SCHEMA.shape())
    table = pa.table({one.name: np.array(one.levels)[codes[k]] for k, one in enumerate(SCHEMA.attributes)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return us.synthesize(
            us.open_source(table, SCHEMA), method=method, budget=us.PureDP(epsilon=epsilon), stream=SeededStream(seed),
            **settings,
        )  # fmt: skip


def numbers_release(edges: tuple[int, ...], values: np.ndarray, epsilon: float = 5) -> us.Release:
    schema = us.Schema(
        attributes=(
            us.Attribute(name="amount", edges=edges, integer=True),
            us.Attribute(name="group", levels=("a", "b")),
        )
    )
    group = np.where(np.arange(len(values)) % 2, "a", "b")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return us.synthesize(
            us.open_source(pa.table({"amount": values, "group": group}), schema),
            method="histogram",
            budget=us.PureDP(epsilon=epsilon),
            stream=SeededStream(3),
        )


def test_a_slope_that_is_its_prior_is_not_called_valid():
    """360 noisy cells of 1,000 people: intervals covered .38 and were called valid."""
    answer = us.infer(release_of("histogram", 1000, 1), "inc ~ age + sex + edu", **MODEL)
    assert answer.validity == "model-based"
    assert any("depends on its prior" in text for text in answer.warnings)


def test_with_more_people_the_noisy_values_determine_the_same_slopes():
    release = release_of("histogram", 5000, 1)
    answer = us.infer(release, "inc ~ age + sex + edu", **MODEL)
    assert answer.validity == "valid"
    true = _truth("age", "sex", "edu")
    shrunk = us.infer(release, "inc ~ age + sex + edu", prior=20.0, **MODEL)
    assert abs(shrunk["edu[t]"].value) < 0.7 * abs(answer["edu[t]"].value)
    away = [
        (one.value - t) / error for one, t, error in zip(answer.estimates, true, answer.standard_errors, strict=True)
    ]
    assert np.abs(away).max() < 4


def _truth(*terms: str) -> np.ndarray:
    """Coefficients of the population's own regression of income."""
    grid = dict(zip(SCHEMA.names, (one.ravel() for one in np.indices(SCHEMA.shape())), strict=True))
    columns = [np.ones(shares().size)]
    for term in terms:
        columns += [(grid[term] == code).astype(float) for code in range(1, SCHEMA[term].size)]
    names = tuple(str(place) for place in range(len(columns)))
    design = np.stack(columns, axis=1)
    model = Model(family="logit", names=names, design=design, outcome=grid["inc"].astype(float), columns=names)
    return model.fit(shares().reshape(1, -1))[0]


@pytest.mark.parametrize("question", ["inc ~ age", "crosstab(age, edu)", "proportion(inc == 'yes', where=sex == 'F')"])
def test_two_way_questions_on_all_pairs_stay_valid(question):
    options = {"event": "yes"} if "~" in question else {}
    answer = us.infer(release_of("ipf", 3000, 1), question, rng=np.random.default_rng(1), **options)
    assert set(answer.labels) == {"valid"}


def test_an_interaction_that_no_table_holds_is_not_a_certain_zero():
    """It was 1.6e-16 with a standard error of 1.7e-15, worth all records."""
    answer = us.infer(release_of("ipf", 3000, 1), "inc ~ sex * mar", **MODEL)
    place = answer.names.index("sex[M]:mar[y]")
    assert answer.labels[place] == "not determined"
    assert np.isnan(answer.estimates[place].value)
    assert (answer.estimates[place].low, answer.estimates[place].high) == (-np.inf, np.inf)
    assert answer.information[place] is None
    assert any("needs one of sex x mar x inc" in text for text in answer.warnings)
    assert answer.to_json()["estimates"][place]["low"] is None


def three_binary(method: str, three_way: float, seed: int) -> tuple[us.Release, np.ndarray]:
    """A release of three attributes with two levels, hardly any noise, and the shares of the people in it."""
    schema = us.Schema(attributes=tuple(us.Attribute(name=name, levels=("n", "y")) for name in ("out", "x", "z")))
    out, x, z = np.indices((2, 2, 2))
    log = -0.3 * out + 1.2 * (x == 0) + 0.4 * z - 0.5 * out * x + three_way * out * x * z
    shares = np.exp(log) / np.exp(log).sum()
    drawn = np.random.default_rng(seed).multinomial(40_000, shares.ravel())
    codes = np.unravel_index(np.repeat(np.arange(8), drawn), (2, 2, 2))
    table = pa.table({one.name: np.array(one.levels)[code] for one, code in zip(schema.attributes, codes, strict=True)})
    with warnings.catch_warnings(action="ignore"):
        release = us.synthesize(
            us.open_source(table, schema), method=method, budget=us.PureDP(epsilon=20), stream=SeededStream(seed)
        )
    return release, drawn.reshape(2, 2, 2) / 40_000


def test_log_odds_of_attributes_that_no_table_holds_together_lie_between_the_bounds_of_their_shares():
    release, shares = three_binary("independent", 0.0, 1)
    answer = us.infer(release, "out ~ x", event="y", family="logit", rng=np.random.default_rng(1))
    event, first = shares[1].sum(), shares[:, 0].sum()
    ends = np.array([(event + first - 1) / first, event / first])  # Frechet
    assert 0 < ends[0] < ends[1] < 1
    assert answer.labels == ("range", "not determined")
    wanted = np.log(ends / (1 - ends))
    found = np.array([answer.estimates[0].low, answer.estimates[0].high])
    assert found == pytest.approx(wanted, abs=0.1)
    assert found[0] < wanted[0]
    assert found[1] > wanted[1]
    assert np.isneginf(answer.estimates[1].low)
    assert np.isposinf(answer.estimates[1].high)
    with pytest.raises(UnsupportedError, match="does not determine this"):  # every coefficient is open on both sides
        us.infer(release, "out ~ x * z", event="y", family="logit", rng=np.random.default_rng(1))


@pytest.mark.parametrize("three_way", [-2.0, 0.0, 2.0])
@pytest.mark.parametrize("family", ["logit", "probit"])
def test_coefficients_of_an_interaction_that_no_table_holds_have_ranges_around_every_possible_table(three_way, family):
    release, shares = three_binary("ipf", three_way, 2)
    answer = us.infer(release, "out ~ x * z", event="y", family=family, rng=np.random.default_rng(1))
    of = shares[1] / shares.sum(axis=0)
    link = NormalDist().inv_cdf if family == "probit" else lambda share: float(np.log(share / (1 - share)))
    effects = np.array([[link(float(one)) for one in row] for row in of])
    true = [effects[0, 0], effects[1, 0] - effects[0, 0], effects[0, 1] - effects[0, 0]]
    assert answer.labels[0] == answer.labels[2] == "range"  # those of x may be open: nearly nobody is in one group
    for one, value in zip(answer.estimates, true, strict=False):
        assert one.low <= value <= one.high
    assert answer.estimates[0].high - answer.estimates[0].low < 3


def test_a_share_in_a_cell_that_no_table_holds_is_a_range_around_every_possible_table():
    release = release_of("ipf", 3000, 2)
    answer = us.infer(
        release, "proportion(inc == 'yes', where=sex == 'F' and edu == 't')", rng=np.random.default_rng(1)
    )
    assert answer.validity == "range"
    table = shares().sum(axis=(0, 3))  # sex, edu, inc
    assert answer.low <= table[0, 4, 1] / table[0, 4].sum() <= answer.high
    assert any("(model-based)" in text for text in answer.warnings)
    assert answer.high - answer.low > 0.2


def test_where_in_its_bin_a_number_lies_is_part_of_the_interval():
    """Skewed amounts at the low end of wide bins: the interval around bin middles held the truth in 0 of 60."""
    values = np.random.default_rng(2).exponential(30, 4000).astype(int) % 1000
    release = numbers_release((0, 200, 1000), values)
    answer = us.infer(release, "mean(amount)", rng=np.random.default_rng(1))
    assert answer.validity == "range"
    assert answer.low <= values.mean() <= answer.high
    assert answer.low < 5
    middle = us.infer(release, "median(amount)", rng=np.random.default_rng(1))
    assert middle.validity == "range"
    assert middle.low == 0
    assert middle.high >= 199
    slope = us.infer(release, "amount ~ group", rng=np.random.default_rng(1))
    means = [values[rest::2].mean() for rest in (1, 0)]  # of the groups a and b
    assert slope.validity == "range"
    assert slope.estimates[0].low <= means[0] <= slope.estimates[0].high
    assert slope.estimates[1].low <= means[1] - means[0] <= slope.estimates[1].high
    other = us.infer(release, "group ~ amount", event="b", rng=np.random.default_rng(1))
    assert other.validity == "model-based"
    assert any("where in its bins amount lies" in text for text in other.warnings)


def test_bins_of_one_value_leave_a_mean_valid():
    values = np.minimum(np.random.default_rng(2).exponential(1.5, 4000).astype(int), 9)
    release = numbers_release(tuple(range(11)), values)  # the last bin holds 9 and 10, and hardly anybody
    assert us.infer(release, "mean(amount)", rng=np.random.default_rng(1)).validity == "valid"
    assert us.infer(release, "amount ~ group", rng=np.random.default_rng(1)).validity == "valid"


def test_near_empty_cells_hold_nobody_within_their_interval():
    """Prior counts in 12 cells put the interval of an empty cell above 0.01 percent: .00 held."""
    release = release_of("histogram", 2000, 1)
    rare = [us.infer(release, "crosstab(age, edu)", rng=np.random.default_rng(1))]
    table = shares().sum(axis=(1, 3, 4)).ravel()
    held = np.mean([one.low <= true <= one.high for one, true in zip(rare[0].estimates, table, strict=True)])
    assert held > 0.8
    smallest = int(np.argmin(table))
    assert rare[0].estimates[smallest].low < table[smallest]


def test_the_worth_of_a_slope_falls_with_its_standard_error():
    release = release_of("histogram", 1000, 1)
    answer = us.infer(release, "inc ~ age + sex + edu", **MODEL)
    wide = us.infer(release_of("histogram", 1000, 8), "inc ~ age + sex + edu", **MODEL)
    # A slope that is its prior's is worth no number of people at all.
    known = [one for one in answer.information if one is not None]
    assert len(known) < len(answer.information)
    assert max(known, default=0) < min(wide.information)


def test_a_question_that_would_take_gigabytes_is_refused_at_once():
    many = us.Schema(attributes=tuple(us.Attribute(name=f"a{k}", levels=tuple("abcdef")) for k in range(7)))
    drawn = np.random.default_rng(1).integers(0, 6, (500, 7))
    table = pa.table({f"a{k}": np.array(list("abcdef"))[drawn[:, k]] for k in range(7)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = us.synthesize(
            us.open_source(table, many), method="ipf", budget=us.PureDP(epsilon=5), stream=SeededStream(1)
        )
    with pytest.raises(UnsupportedError, match=r"too many to be drawn in seconds|parameters; at most|cells; at most"):
        us.infer(release, "a0 ~ a1 + a2 + a3 + a4 + a5 + a6", event="a")


def test_noise_that_puts_a_share_far_below_0_leaves_an_interval_with_width():
    """The posterior of a sparse prior had its upper end at 10^-20 there."""
    away = np.tile([[0.01, -0.01]], (300, 1)) * np.linspace(0.1, 2, 300)[:, None]
    raw = Raw(shares=np.array([-0.05, 1.05]), deviations=lambda size, _: away[:size], people=1e6)
    sparse = np.full(1, 1e-20)
    posterior = Settled(
        centre=sparse, low=sparse, high=sparse, spread=sparse, by_prior=np.zeros(1, bool), alone=np.zeros(1, bool)
    )
    found = settle(posterior, raw, lambda shares: shares[:, :1], (0.0, 1.0), level=0.95, rng=np.random.default_rng(1))
    assert found.alone[0]
    assert found.low[0] == 0
    assert 0.015 < found.high[0] < 0.02


def test_a_short_interval_of_a_skew_posterior_is_not_taken_for_that_of_the_noisy_values():
    """Its few far draws gave it a spread like that of the noise, while 95 percent of it was a sixth as long."""
    away = np.tile([[0.03, -0.03]], (300, 1)) * np.linspace(-1, 1, 300)[:, None]
    raw = Raw(shares=np.array([-0.003, 1.003]), deviations=lambda size, _: away[:size], people=1e6)
    nothing = np.zeros(1, bool)
    for longest, kept in ((0.005, False), (0.04, True)):
        posterior = Settled(
            centre=np.array([0.001]), low=np.zeros(1), high=np.array([longest]), spread=np.array([0.03]),
            by_prior=nothing, alone=nothing,
        )  # fmt: skip
        found = settle(
            posterior, raw, lambda shares: shares[:, :1], (0.0, 1.0), level=0.95, rng=np.random.default_rng(1)
        )
        assert found.alone[0] != kept
        assert found.high[0] > 0.02


def test_no_cell_of_a_large_noisy_table_has_an_interval_far_shorter_than_its_noise():
    """300 people in 84 cells under a pure epsilon of 1: intervals of 4 people, under noise of 9, were called valid."""
    rng = np.random.default_rng(3)
    sizes = {"a": 14, "b": 6, "c": 2, "d": 3, "e": 4}
    schema = us.Schema(
        attributes=tuple(us.Attribute(name=name, levels=tuple(range(size))) for name, size in sizes.items())
    )
    cells = rng.choice(84, 300, p=rng.dirichlet(np.full(84, 0.5)))
    codes = {"a": cells // 6, "b": cells % 6, **{name: rng.integers(sizes[name], size=300) for name in "cde"}}
    release = us.synthesize(
        us.open_source(pa.table(codes), schema), method="ipf", budget=us.PureDP(epsilon=1), rows=300,
        unit=us.Unit(kind="add_remove"), stream=SeededStream(5),
    )  # fmt: skip
    answer = us.infer(release, "crosstab(a, b)", rng=np.random.default_rng(1))
    table = next(one for one in release.measurements if one.margin == ("a", "b"))
    noise = float(table.mechanism.variance) ** 0.5 / 300
    assert set(answer.labels) == {"valid"}
    assert min(one.high - one.low for one in answer.estimates) > 1.5 * noise


def test_a_group_of_which_nobody_was_seen_may_have_somebody():
    """A noisy count of exactly 0 with hardly any noise had an interval of no width."""
    away = sampled(np.array([0.0, 0.4, 0.6]), 1000, 400, np.random.default_rng(1))
    assert np.quantile(np.abs(away[:, 0]), 0.95) >= 0.002


def judged(centre: float, half: float, label: str = "valid") -> Judged:
    one = np.array([centre])
    found = Settled(
        centre=one, low=one - half, high=one + half, spread=one * 0, by_prior=one > 9, alone=one > 9
    )  # fmt: skip
    return Judged.begin(("q",), found, ())


@pytest.mark.parametrize("half", [0.0, 1e-9, 0.004])
def test_a_population_is_known_no_better_than_its_records_tell_it(half):
    """Nothing kept a valid interval from having no width. Standard error of the records: .01."""
    share = judged(0.2, half)
    share.keep_width(np.array([0.01]), 0.95, (0.0, 1.0))
    assert share.labels == ["valid"]
    assert (share.high - share.low)[0] == pytest.approx(1.96 * 0.01, rel=1e-3)
    slope = judged(0.2, half)
    slope.keep_width(np.array([0.01]), 0.95, (-np.inf, np.inf))
    assert slope.labels == ["model-based"]
    assert any("narrower than one from the records" in one for one in slope.warnings)


def test_widths_that_noise_can_leave_stay_as_they_are():
    wide, fixed = judged(0.2, 0.011), judged(0.0, 0.0)
    wide.keep_width(np.array([0.01]), 0.95, (-np.inf, np.inf))
    fixed.keep_width(np.array([0.0]), 0.95, (0.0, 1.0))  # a rule says that nobody can be there
    assert wide.labels == fixed.labels == ["valid"]
    assert fixed.low == fixed.high == 0


@pytest.mark.parametrize("people", [0.5, 2, 8, 30])
def test_an_interval_of_a_share_ends_where_the_estimate_would_be_rejected(people):
    """The spread at an estimate of 0 says nothing about shares above it: 27 of 256 cells were missed, on one side."""
    records, rng, held = 1000, np.random.default_rng(4), []
    nothing = np.full(1, 1e-20)
    posterior = Settled(
        centre=nothing, low=nothing, high=nothing, spread=nothing, by_prior=np.zeros(1, bool), alone=np.zeros(1, bool)
    )
    true = people / records
    for seen in rng.binomial(records, true, 300) / records:
        # As if the cell were one of fifty: hardly anybody is added to those who were seen.
        def moved(size: int, rng: np.random.Generator, seen: float = seen) -> np.ndarray:
            around = max(seen, 0.5 / records)
            return (rng.binomial(records, around, size) / records - around)[:, None] * np.array([[1.0, -1.0]])

        raw = Raw(shares=np.array([seen, 1 - seen]), deviations=moved, people=records)
        found = settle(posterior, raw, lambda shares: shares[:, :1], (0.0, 1.0), level=0.95, rng=rng)
        held.append(found.low[0] <= true <= found.high[0])
    assert np.mean(held) > 0.92


def test_a_public_number_of_records_takes_its_part_of_the_noise_away():
    """A sum of many noisy cells is far from the records; dividing by it made shares of a table far from linear."""
    rng = np.random.default_rng(3)
    counts, noise = np.array([400, 300, 200, 80, 20]), us.Geometric(scale=40)
    found, spread = [], []
    for _ in range(300):
        collapsed = _Collapsed(
            groups=np.arange(5),
            noisy=counts + noise_of(noise, np.ones(5, np.int64), 1, rng)[0].astype(np.int64),
            cells=np.ones(5, np.int64),
            measured=np.ones(5, bool),
        )
        raw = _raw_of_counts([(collapsed, noise)], 1000, 5)
        assert raw.shares.sum() == pytest.approx(1)
        found.append(raw.shares)
        spread.append(raw.deviations(100, rng).std(axis=0))
    errors = np.array(found) - counts / 1000
    # 300 runs: the mean is within 4.5 of its standard errors, the spread (noise, and people beside) not below its own.
    assert (np.abs(errors.mean(axis=0)) < 4.5 * errors.std(axis=0) / np.sqrt(300)).all()
    assert (np.mean(spread, axis=0) > 0.9 * errors.std(axis=0)).all()
    assert errors.std(axis=0) == pytest.approx(np.full(5, np.sqrt(0.8 * noise.variance) / 1000), rel=0.2)
