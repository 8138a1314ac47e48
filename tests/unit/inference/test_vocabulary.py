"""The words of a statistics package, against statsmodels, patsy and numpy on tables without noise."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import understudy as us
from understudy.core.bins import bins_of
from understudy.core.questions import parse_question
from understudy.errors import InputError, UnsupportedError
from understudy.inference.estimands import make_estimand
from understudy.inference.inside_bins import gini_of, variance_of
from understudy.privacy.randomness.streams import SeededStream

sm = pytest.importorskip("statsmodels.api")
patsy = pytest.importorskip("patsy")

SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="age", edges=tuple(range(20, 31)), integer=True),
        us.Attribute(name="visits", edges=tuple(range(1, 11)), integer=True),
        us.Attribute(name="region", levels=("N", "S", "W"), missing=True),
        us.Attribute(name="ill", levels=("no", "yes")),
    )
)


@pytest.fixture(scope="module")
def rows() -> dict[str, np.ndarray]:
    """3,000 people with codes, one bin for each number. Nobody is in a last bin, which holds two numbers."""
    rng = np.random.default_rng(3)
    size = 3000
    sex, age = rng.integers(0, 2, size), rng.integers(0, 9, size)
    visits = np.minimum(rng.poisson(1 + 0.2 * age), 5)
    region = rng.choice(4, size, p=[0.4, 0.3, 0.2, 0.1])
    ill = (rng.random(size) < 1 / (1 + np.exp(1 - 0.2 * age + 0.4 * sex))).astype(int)
    return {"sex": sex, "age": age, "visits": visits, "region": region, "ill": ill}


def asked(rows, text: str, **settings):
    """The value of a question on the very table of the rows."""
    estimand = make_estimand(parse_question(text, SCHEMA, **settings), SCHEMA)
    codes = [rows[name] for name in estimand.margin]
    flat = np.ravel_multi_index(codes, SCHEMA.shape(estimand.margin))
    counts = np.bincount(flat, minlength=len(estimand.labels)).astype(float)
    return estimand, estimand.evaluate(np.bincount(estimand.labels, weights=counts, minlength=estimand.groups)[None])[0]


def test_numbers_of_one_attribute(rows):
    age = 20.0 + rows["age"]
    gini = np.abs(age[:, None] - age).mean() / (2 * age.mean())
    for text, expected in {
        "sum(age)": age.sum(),
        "std(age)": age.std(),
        "variance(age)": age.var(),
        "gini(age)": gini,
        "correlation(age, visits)": np.corrcoef(age, rows["visits"])[0, 1],
        "quantile(age, 0.9) / quantile(age, 0.1)": np.quantile(age, 0.9) / np.quantile(age, 0.1),
        "ratio(mean(age, where=sex == 'F'), mean(age, where=sex == 'M'))": age[rows["sex"] == 0].mean()
        / age[rows["sex"] == 1].mean(),
        "proportion(ill == 'yes', where=sex == 'F') / proportion(ill == 'yes', where=sex == 'M')": rows["ill"][
            rows["sex"] == 0
        ].mean()
        / rows["ill"][rows["sex"] == 1].mean(),
    }.items():
        # A quantile of whole numbers is read inside its bin, up to one away.
        assert asked(rows, text)[1][0] == pytest.approx(expected, rel=0.05 if "quantile" in text else 1e-9), text


def test_one_call_for_a_whole_table(rows):
    estimand, values = asked(rows, "proportion(ill == 'yes', by=[sex, region])")
    assert estimand.names[:2] == ("sex=F, region=N", "sex=F, region=S")
    for name, value in zip(estimand.names, values, strict=True):
        sex, region = ("FM".index(name[4]), "NSW".index(name[-1]))
        who = (rows["sex"] == sex) & (rows["region"] == region)
        assert value == pytest.approx(rows["ill"][who].mean())
    assert np.array_equal(asked(rows, "proportion(ill == 'yes')", by=["sex", "region"])[1], values)
    assert asked(rows, "sum(visits, by=sex)")[1].sum() == pytest.approx(asked(rows, "sum(visits)")[1][0])


@pytest.mark.parametrize(
    ("ours", "theirs", "family"),
    [
        ("ill ~ age + C(region, Treatment('S'))", "age + C(region, Treatment('S'))", "logit"),
        ("ill ~ age + sex", "age + sex", "probit"),
        ("ill ~ region + age - 1", "region + age - 1", "logit"),
        ("visits ~ 0 + sex + age", "0 + sex + age", "linear"),
        ("visits ~ age + I(age ** 2) + I(age >= 25)", "age + I(age ** 2) + I((age >= 25) * 1.0)", "linear"),
        ("log(visits) ~ I((age - 25) / 10) * sex", "I((age - 25) / 10) * sex", "linear"),
        ("visits ~ bs(age, knots=[23, 27])", "bs(age, knots=[23, 27], lower_bound=20, upper_bound=30)", "poisson"),
        (
            "visits ~ bs(age, df=5, degree=2)",
            "bs(age, knots=[22.5, 25, 27.5], degree=2, lower_bound=20, upper_bound=30)",
            "linear",
        ),
    ],
)
def test_terms_of_a_formula(rows, ours, theirs, family):
    estimand, values = asked(rows, ours, family=family)
    data = {
        "age": 20.0 + rows["age"],
        "visits": 1.0 + rows["visits"],
        "ill": rows["ill"].astype(float),
        "sex": np.array(["F", "M"])[rows["sex"]],
        "region": np.array(["N", "S", "W", "?"])[rows["region"]],
    }
    if "region" in ours:  # people without a value are left out of questions about it alone
        data = {name: column[rows["region"] < 3] for name, column in data.items()}
    design = patsy.dmatrix(theirs, data)
    kinds = {
        "linear": sm.families.Gaussian(),
        "poisson": sm.families.Poisson(),
        "logit": sm.families.Binomial(),
        "probit": sm.families.Binomial(link=sm.families.links.Probit()),
    }
    outcome = data["ill"] if family in ("logit", "probit") else data["visits"]
    outcome = np.log(outcome) if ours.startswith("log") else outcome
    peer = sm.GLM(outcome, np.asarray(design), family=kinds[family]).fit(tol=1e-12)
    assert len(values) == len(peer.params)
    # patsy puts columns of levels first
    assert np.sort(values) == pytest.approx(np.sort(peer.params), rel=1e-5, abs=1e-6)
    assert estimand.assumed == ()


@pytest.mark.parametrize("kind", ["variance", "gini"])
def test_bounds_inside_bins_are_attained_and_hold_everything(kind):
    """Against placements of people: a fine search finds none outside, and comes near to both ends."""
    bins = bins_of(us.Attribute(name="x", edges=(0.0, 2.0, 5.0, 11.0)))
    found = {"variance": variance_of, "gini": gini_of}[kind](bins)
    rng = np.random.default_rng(1)
    for shares in rng.dirichlet(np.ones(3), 3):
        low, high = found.lowest(shares[None])[0], found.highest(shares[None])[0]
        seen = []
        for _ in range(2500):
            two = np.sort(rng.choice([0, 0.25, 0.5, 0.75, 1.0, rng.random()], (3, 2)), axis=1)
            split = rng.random(3)
            x = np.concatenate([bins.low + (bins.high - bins.low) * two[:, side] for side in (0, 1)])
            w = np.concatenate([shares * split, shares * (1 - split)])
            mean = w @ x
            spread = w @ (x - mean) ** 2 if kind == "variance" else w @ np.abs(x[:, None] - x) @ w / (2 * mean)
            seen.append(spread)
        assert low - 1e-9 <= min(seen)
        assert max(seen) <= high + 1e-9
        assert max(seen) > high - 0.1 * (high - low)
        assert min(seen) < low + 0.1 * (high - low)
        assert low <= found.value(shares[None])[0] <= high


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("correlation(age, sex)", InputError, "has levels"),
        ("sum(sex)", InputError, "has levels"),
        ("crosstab(sex, ill, by=region)", InputError, "by goes with"),
        ("mean(age, by=age)", InputError, "not about"),
        ("mean(age, by=sex) - mean(age, by=sex)", InputError, "one quantity"),
        ("mean(age) - sum(age)", InputError, "one kind"),
        ("count(sex == 'F') / mean(age)", InputError, "of the records"),
        ("correlation(age, visits) / correlation(age, visits)", UnsupportedError, "negative"),
        ("ill ~ I(sex + 1)", InputError, "numeric attribute"),
        ("ill ~ C(region, Treatment('E'))", InputError, "'E'"),
        ("visits ~ bs(age, knots=[10])", InputError, "public bounds"),
    ],
)
def test_what_is_refused(text, error, says):
    with pytest.raises(error, match=says):
        make_estimand(parse_question(text, SCHEMA), SCHEMA)


def test_a_sum_of_numbers_in_many_bins_is_not_drawn_to_its_prior():
    """Eighty bins under heavy noise: the posterior was near that of equal bins, and its interval far too short."""
    ages = np.clip(np.random.default_rng(5).normal(30, 6, 1500).astype(int), 16, 95)
    schema = us.Schema(attributes=(us.Attribute(name="age", edges=tuple(range(16, 97)), integer=True),))
    with warnings.catch_warnings(action="ignore"):
        release = us.synthesize(
            us.open_source(pa.table({"age": ages}), schema), method="histogram", budget=us.ZCDP(rho="0.0008"),
            stream=SeededStream(3),
        )  # fmt: skip
    answer = us.infer(release, "sum(age)", rng=np.random.default_rng(1))
    mean = us.infer(release, "mean(age)", rng=np.random.default_rng(1))
    assert answer.low <= ages.sum() <= answer.high
    assert answer.high - answer.low >= 0.75 * 1500 * (mean.high - mean.low)


@pytest.mark.parametrize("seed", range(4))
def test_a_correlation_lies_in_its_range_wherever_in_their_bins_numbers_lie(seed):
    """Any place inside bins, ends included, against the bounds by angles."""
    rng = np.random.default_rng(seed)
    schema = us.Schema(
        attributes=(
            us.Attribute(name="pay", edges=(0.0, 10.0, 15.0, 40.0, 100.0)),
            us.Attribute(name="rent", edges=(0.0, 5.0, 20.0, 30.0)),
        )
    )
    estimand = make_estimand(parse_question("correlation(pay, rent)", schema), schema)
    table = rng.dirichlet(np.full(12, 0.5)).reshape(4, 3)
    counts = rng.multinomial(400, table.ravel()).reshape(4, 3)
    weights = np.bincount(estimand.labels, weights=counts.ravel(), minlength=estimand.groups)[None].astype(float)
    low, high = float(estimand.lowest(weights)[0, 0]), float(estimand.highest(weights)[0, 0])
    value = float(estimand.evaluate(weights)[0, 0])
    assert low <= value <= high
    assert high - low < 2
    places = np.repeat(np.indices((4, 3)).reshape(2, -1), counts.ravel(), axis=1)
    found = []
    for sort in range(60):
        drawn = []
        for name, codes in zip(("pay", "rent"), places, strict=True):
            edges = np.array(schema[name].edges)
            if sort % 3 == 0:
                part = rng.random(len(codes))
            elif sort % 3 == 1:
                part = rng.integers(0, 2, len(codes)).astype(float)
            else:  # all of a cell at the same end: the most a cell can do
                part = rng.integers(0, 2, (4, 3))[places[0], places[1]].astype(float)
            drawn.append(edges[codes] + part * np.diff(edges)[codes])
        found.append(np.corrcoef(*drawn)[0, 1])
    assert low - 1e-9 <= min(found)
    assert max(found) <= high + 1e-9


def test_bins_of_one_value_leave_a_correlation_as_it_is(rows):
    estimand, value = asked(rows, "correlation(age, visits)")
    weights = np.ones((1, estimand.groups))
    assert estimand.lowest(weights)[0, 0] <= estimand.highest(weights)[0, 0]
    assert value[0] == pytest.approx(np.corrcoef(rows["age"], rows["visits"])[0, 1])


def test_a_logit_with_one_coefficient_for_each_kind_of_people_is_that_of_statsmodels(rows):
    dummies = [(rows["region"] == code).astype(float) for code in (1, 2)]
    known = rows["region"] < 3
    design = np.column_stack([np.ones(known.sum()), *(one[known] for one in dummies)])
    for family, fit in (("logit", sm.Logit), ("probit", sm.Probit)):
        expected = fit(rows["ill"][known], design).fit(disp=0).params
        estimand, found = asked(rows, "ill ~ region", family=family, event="yes")
        assert estimand.parts[0].model.saturated() is not None
        assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("family", "kind"), [("linear", sm.families.Gaussian()), ("poisson", sm.families.Poisson())])
@pytest.mark.parametrize("terms", ["region", "region * sex"])
def test_means_of_each_kind_of_people_are_those_of_statsmodels(rows, family, kind, terms):
    known = rows["region"] < 3
    data = {"region": np.array(["N", "S", "W", "?"])[rows["region"]][known], "sex": rows["sex"][known].astype(float)}
    design = patsy.dmatrix(terms, data)
    expected = sm.GLM(1.0 + rows["visits"][known], np.asarray(design), family=kind).fit(tol=1e-12).params
    estimand, found = asked(rows, f"visits ~ {terms}", family=family)
    assert estimand.parts[0].model.saturated() is not None
    assert np.sort(found) == pytest.approx(np.sort(expected), abs=1e-6)


def test_how_two_attributes_go_together_is_as_in_statsmodels(rows):
    counts = np.zeros((2, 2))
    np.add.at(counts, (rows["sex"], rows["ill"]), 1)
    table = sm.stats.Table2x2(counts, shift_zeros=False)
    _, found = asked(rows, "association(sex, ill)")
    assert found[1] == pytest.approx(table.log_oddsratio)
    assert found[0] == pytest.approx(np.sqrt(table.chi2_contribs.sum() / counts.sum()))
    _, ratio = asked(rows, "proportion(ill == 'yes', where=sex == 'F') / proportion(ill == 'yes', where=sex == 'M')")
    flipped = sm.stats.Table2x2(
        counts[:, ::-1], shift_zeros=False
    )  # statsmodels divides the shares of the first column
    assert ratio[0] == pytest.approx(flipped.riskratio)


def test_standard_errors_without_noise_are_those_of_statsmodels(rows):
    """A release that is the full table, without a guarantee: only the sampling of people is left."""
    known = rows["region"] < 3
    visits, sex, ill = 1.0 + rows["visits"], rows["sex"], rows["ill"].astype(float)
    frame = pd.DataFrame(
        {
            "sex": np.array(["F", "M"])[sex], "age": 20 + rows["age"], "visits": 1 + rows["visits"],
            "region": np.where(known, np.array(["N", "S", "W", "?"])[rows["region"]], None),
            "ill": np.array(["no", "yes"])[rows["ill"]],
        }
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = us.synthesize(frame, schema=SCHEMA, method="histogram", budget=us.PureDP(epsilon=1000))

    def robust(outcome, columns, kind):
        design = np.column_stack([np.ones(len(outcome)), *columns])
        return sm.GLM(outcome, design, family=kind).fit(cov_type="HC0").bse

    def of_means(values, groups):
        return np.sqrt(sum(values[groups == one].var() / (groups == one).sum() for one in (0, 1)))

    log_risk = np.sqrt(sum((1 - ill[sex == one].mean()) / ill[sex == one].sum() for one in (0, 1)))
    risk = "proportion(ill == 'yes', where=sex == 'F') / proportion(ill == 'yes', where=sex == 'M')"
    cases = {
        "proportion(ill == 'yes')": [np.sqrt(ill.var() / len(ill))],
        "mean(visits)": [visits.std() / np.sqrt(len(ill))],
        "mean(visits, where=sex == 'F') - mean(visits, where=sex == 'M')": [of_means(visits, sex)],
        risk: [log_risk * ill[sex == 0].mean() / ill[sex == 1].mean()],
        "ill ~ sex": robust(ill, [sex], sm.families.Binomial()),
        "visits ~ sex": robust(visits, [sex], sm.families.Gaussian()),
    }
    for text, expected in cases.items():
        options = {"family": "linear"} if text.startswith("visits") else {}
        answer = us.infer(release, text, rng=np.random.default_rng(2), **options)
        assert set(answer.labels) == {"valid"}, text
        assert answer.standard_errors == pytest.approx(expected, rel=0.12), text  # of 1,500 draws or more


@pytest.mark.parametrize(("percent", "axis"), [("row", 1), ("column", 0), ("", None)])
def test_tables_and_their_percentages_are_those_of_statsmodels(rows, percent, axis):
    known = rows["region"] < 3
    counts = np.zeros((3, 2))
    np.add.at(counts, (rows["region"][known], rows["ill"][known]), 1)
    expected = sm.stats.Table(counts, shift_zeros=False).table / counts.sum(axis=axis, keepdims=axis is not None)
    _, found = asked(rows, f"crosstab(region, ill{', percent=' + repr(percent) if percent else ''})")
    assert found.reshape(3, 2) == pytest.approx(expected)


def test_a_ratio_of_quantiles_that_may_divide_by_nothing_has_no_upper_end():
    """Its end was no number, and it was called valid."""
    schema = us.Schema(attributes=(us.Attribute(name="pay", edges=(0.0, 10.0, 20.0, 90.0)), SCHEMA["sex"]))
    rng = np.random.default_rng(2)
    table = pa.table({"pay": rng.uniform(0, 60, 300), "sex": rng.choice(["F", "M"], 300)})
    with warnings.catch_warnings(action="ignore"):
        release = us.synthesize(
            us.open_source(table, schema), method="independent", budget=us.PureDP(epsilon=1), stream=SeededStream(2)
        )
    answer = us.infer(release, "quantile(pay, 0.9) / quantile(pay, 0.1)", rng=rng)
    assert answer.validity == "range"
    assert answer.high == np.inf
    assert answer.low > 0


def test_a_difference_and_a_large_table_that_no_table_holds_have_a_range():
    """Both were refused. All that is known are both columns: bounds of Frechet, and every joint table inside them."""
    rng = np.random.default_rng(4)
    schema = us.Schema(
        attributes=(
            us.Attribute(name="job", levels=tuple(f"j{n}" for n in range(40))),
            us.Attribute(name="town", levels=tuple(f"t{n}" for n in range(12))),
        )
    )
    job = np.minimum(rng.geometric(0.2, 4000) - 1, 39)
    town = np.where(rng.random(4000) < 0.6, job % 12, rng.integers(0, 12, 4000))
    names = {"job": [f"j{n}" for n in job], "town": [f"t{n}" for n in town]}
    with warnings.catch_warnings(action="ignore"):
        release = us.synthesize(
            us.open_source(pa.table(names), schema), method="independent", budget=us.PureDP(epsilon=5),
            stream=SeededStream(3),
        )  # fmt: skip
    for order in ("job, town", "town, job"):
        answer = us.infer(release, f"crosstab({order})", rng=np.random.default_rng(1))
        assert set(answer.labels) == {"range"}
        true = np.zeros((40, 12))
        np.add.at(true, (job, town), 1 / 4000)
        true = true if order.startswith("job") else true.T
        ends = np.array([(one.low, one.high) for one in answer.estimates])
        assert (ends[:, 0] <= true.ravel()).all()
        assert (true.ravel() <= ends[:, 1]).all()
        assert ends[:, 1].max() < 0.3  # no cell is more than its row
    text = "proportion(town == 't0', where=job == 'j0') - proportion(town == 't0', where=job == 'j1')"
    answer = us.infer(release, text, rng=np.random.default_rng(1))
    value = (town[job == 0] == 0).mean() - (town[job == 1] == 0).mean()
    assert answer.validity == "range"
    assert answer.low <= value <= answer.high
    assert answer.high - answer.low < 2
