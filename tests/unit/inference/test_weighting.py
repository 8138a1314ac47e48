"""Weighted questions: against a survey package, against brute force, and what the design does to intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.core.bins import bins_of
from understudy.core.questions import parse_question
from understudy.errors import InputError, UnknownNameError, UnsupportedError
from understudy.inference.estimands import make_estimand
from understudy.inference.noisy_scores import noise_inside
from understudy.inference.weighting import weighted as population_of
from understudy.inference.weighting import weighting_of
from understudy.privacy.randomness.streams import SeededStream

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")

# Made with svy 0.35.0 (PyPI), Taylor linearisation: svy.Sample(frame, svy.Design(wgt="w")) for SURVEY, and with
# psu="cluster" for CLUSTERED; estimation.mean, .total and .mean(by="sex"), and glm.fit(family="binomial").
SURVEY = {
    "proportion(poor == 'yes')": ((0.3934372256365233, 0.010226902597218332),),
    "mean(score)": ((4.664672958735733, 0.04990446049252762),),
    "count(poor == 'yes')": ((7170.0, 217.4939100302029),),
    "proportion(poor == 'yes', by=sex)": (
        (0.3455485611510791, 0.01430880016163596),
        (0.4391080617495712, 0.014479990231896212),
    ),
    "poor ~ sex": ((-0.6386642001916221, 0.06327274884502192), (0.3938814737739312, 0.0863708913617774)),
}
CLUSTERED = {
    "proportion(poor == 'yes')": (0.3934372256365233, 0.014251421348796086),
    "mean(score)": (4.664672958735733, 0.0856876146072567),
}
ALMOST_EXACT = us.PureDP(epsilon=10**6)


def survey(n: int = 4000, seed: int = 5) -> dict[str, np.ndarray]:
    """The people for whom the survey package was asked."""
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(n // 4), 4)
    w = np.array([1.0, 3.0, 10.0])[rng.integers(0, 3, n // 4)][cluster]
    base = rng.normal(0, 1, n // 4)[cluster]
    sex = rng.integers(0, 2, n)
    poor = (base + rng.normal(0, 1, n) + 0.3 * np.log(w) + 0.3 * sex) > 1.2
    score = np.clip(np.floor(5 + 2 * base + rng.normal(0, 1.5, n)), 0, 9).astype(int)
    return {
        "sex": np.where(sex, "M", "F"), "poor": np.where(poor, "yes", "no"), "score": score, "w": w, "cluster": cluster,
    }  # fmt: skip


def schema_of(**more: object) -> us.Schema:
    return us.Schema(
        attributes=(
            us.Attribute(name="sex", levels=("F", "M")),
            us.Attribute(name="poor", levels=("no", "yes")),
            us.Attribute(name="score", edges=(*range(10), 9.5)),
        ),
        # Three weights and nothing between them, so that bins lose nothing.
        weight=us.Weight(column="w", edges=(0.999, 1.001, 2.999, 3.001, 9.999, 10.001), **more),
        ignore=("cluster",),
    )


def numbers_alone(schema: us.Schema) -> us.Schema:
    """The same with whole scores, one in each bin."""
    score = us.Attribute(name="score", edges=tuple(range(12)), integer=True)
    return replace(schema, attributes=tuple(score if one.name == "score" else one for one in schema.attributes))


def release_of(schema: us.Schema, people: dict[str, np.ndarray] | None = None) -> us.Release:
    source = us.open_source(pa.table(people or survey()), schema)
    return us.synthesize(source, budget=ALMOST_EXACT, method="histogram", i_know=True)


@pytest.fixture(scope="module")
def release() -> us.Release:
    return release_of(numbers_alone(schema_of()))


@pytest.mark.parametrize("question", SURVEY)
def test_estimates_and_standard_errors_are_those_of_a_survey_package(release, question):
    answer = us.infer(release, question, rng=np.random.default_rng(1), event="yes" if "~" in question else None)
    for one, error, (value, golden) in zip(answer.estimates, answer.standard_errors, SURVEY[question], strict=True):
        assert one.value == pytest.approx(value, abs=0.08 * golden)
        assert error == pytest.approx(golden, rel=0.07)


@pytest.mark.parametrize("question", CLUSTERED)
def test_a_declared_design_effect_gives_the_standard_error_of_clusters(question):
    value, golden = CLUSTERED[question]
    factor = (golden / SURVEY[question][0][1]) ** 2
    design = us.Design(clusters="cluster", design_effects={"*": factor})
    answer = us.infer(release_of(replace(numbers_alone(schema_of()), design=design)), question,
                      rng=np.random.default_rng(1))  # fmt: skip
    assert answer.value == pytest.approx(value, abs=0.08 * golden)
    assert answer.standard_error == pytest.approx(golden, rel=0.1)


def test_without_a_weight_the_answer_is_about_the_sample(release):
    people = survey()
    answer = us.infer(release, "proportion(poor == 'yes')", weighted=False)
    assert answer.value == pytest.approx(float(np.mean(people["poor"] == "yes")), abs=0.001)
    assert not any("weighted" in text for text in answer.warnings)
    assert any("weighted by w" in text for text in us.infer(release, "proportion(poor == 'yes')").warnings)


def test_clusters_without_a_design_effect_are_not_called_valid():
    schema = replace(numbers_alone(schema_of()), design=us.Design(clusters="cluster"))
    answer = us.infer(release_of(schema), "proportion(poor == 'yes')")
    assert answer.validity == "model-based"
    assert any("declares no design effect" in text for text in answer.warnings)


def test_a_finite_population_makes_intervals_shorter(release):
    schema = replace(numbers_alone(schema_of()), design=us.Design(population=8000))
    half = us.infer(release_of(schema), "proportion(poor == 'yes')", rng=np.random.default_rng(1))
    whole = us.infer(release, "proportion(poor == 'yes')", rng=np.random.default_rng(1))
    assert half.standard_error == pytest.approx(whole.standard_error * np.sqrt(0.5), rel=0.1)


def test_a_whole_population_leaves_the_noise_of_the_release_in_the_interval():
    """Everybody is in the file, so nothing is left to sampling; the noise is still there."""
    people = {name: values[:1000] for name, values in survey().items()}
    schema = replace(numbers_alone(schema_of()), design=us.Design(population=1000))
    source = us.open_source(pa.table(people), schema)
    made = us.synthesize(source, budget=us.PureDP(epsilon=1), method="ipf", stream=SeededStream(3))
    answer = us.infer(made, "proportion(sex == 'M')", rng=np.random.default_rng(1))
    assert 0.002 < answer.standard_error < 0.1
    assert answer.high - answer.low > 3 * answer.standard_error


def test_the_noise_in_the_mean_weight_is_part_of_an_estimated_number_of_people():
    rng = np.random.default_rng(3)
    w = np.exp(rng.normal(3, 0.8, 900)).clip(2, 200)
    schema = us.Schema(
        attributes=(us.Attribute(name="sex", levels=("F", "M")),), weight=us.Weight(column="w", bounds=(1, 250))
    )
    known = replace(schema, design=us.Design(population=float(w.sum())))
    table = pa.table({"sex": rng.choice(["F", "M"], 900), "w": w})
    errors = []
    for one in (schema, known):
        made = us.synthesize(
            us.open_source(table, one), budget=us.PureDP(epsilon=1), method="ipf", stream=SeededStream(2)
        )
        answer = us.infer(made, "count(sex == 'F')", rng=np.random.default_rng(1))
        errors.append(answer.standard_error / answer.value)
    assert errors[0] > 1.5 * errors[1]


def test_numbers_of_people_need_to_know_how_many_there_are(release):
    direct = us.infer(release, "count(poor == 'yes')")
    assert direct.validity == "model-based"  # the sum of the weights is itself estimated
    known = replace(numbers_alone(schema_of()), design=us.Design(population=18224))
    answer = us.infer(release_of(known), "count(poor == 'yes')")
    assert answer.value == pytest.approx(18224 * SURVEY["proportion(poor == 'yes')"][0][0], rel=0.01)
    assert answer.validity == "valid"
    with pytest.raises(UnsupportedError, match="declares no population"):
        us.infer(release_of(numbers_alone(schema_of(sums_to="sample"))), "count(poor == 'yes')")


def test_which_weight_is_asked_for(release):
    with pytest.raises(UnknownNameError):
        us.infer(release, "mean(score)", weighted="sex")
    with pytest.raises(InputError, match="true, false or the column"):
        us.infer(release, "mean(score)", weighted=3)
    plain = us.Schema(attributes=(us.Attribute(name="sex", levels=("F", "M")),))
    unweighted = us.synthesize(
        us.open_source(pa.table({"sex": ["F", "M"] * 50}), plain), budget=ALMOST_EXACT, i_know=True
    )
    with pytest.raises(InputError, match=r"declares no \[weight\]"):
        us.infer(unweighted, "proportion(sex == 'F')", weighted=True)


def test_another_weight_gives_another_answer():
    people = survey()
    people["w2"] = np.where(people["sex"] == "F", 1.0, 3.0)
    other = us.Weight(column="w2", edges=(0.999, 1.001, 2.999, 3.001))
    release = release_of(numbers_alone(schema_of(other=(other,))), people)
    direct = np.average(people["poor"] == "yes", weights=people["w2"])
    assert us.infer(release, "proportion(poor == 'yes')", weighted="w2").value == pytest.approx(direct, abs=0.001)


def test_a_design_of_few_weights_keeps_its_thin_tail():
    """Nearly all rows have one weight; a tenth has up to five times as much, few rows in each cell of the grid."""
    from understudy.models.found_bins import cell_counts, levels_of

    attribute = us.Schema(
        attributes=(us.Attribute(name="sex", levels=("F",)),), weight=us.Weight(column="w", bounds=(30, 154))
    )["w"]
    edges = np.array(attribute.edges, float)
    weights = np.repeat([30.7, 38.4, 51.2, 76.8, 116.2, 153.6], [3050, 164, 96, 54, 95, 20])
    cells = np.searchsorted(edges, weights, side="right") - 1
    middle = (edges[:-1] + edges[1:]) / 2
    levels = [np.array(one) for one in levels_of(attribute)]
    found: dict[bool, list[float]] = {False: [], True: []}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        noisy = [np.rint(np.bincount(level[cells]) + rng.normal(0, 29, level.max() + 1)) for level in levels]
        for weight, means in found.items():
            counts = cell_counts(attribute, noisy, [29**2] * len(levels), weight=weight)
            means.append(float(counts @ middle / counts.sum() / weights.mean()))
    assert np.mean(found[False]) < 0.9  # as the tail of an amount, which falls
    assert 0.92 < np.mean(found[True]) < 1.05


def test_empty_bins_beside_a_frequent_weight_have_no_slope():
    from understudy.core.bins import bins_of
    from understudy.inference.weighting import scores_of

    attribute = us.Attribute(name="w", edges=(1, 1.02, 1.04, 1.06, 5), density="log")
    scores, mean, _ = scores_of(bins_of(attribute), np.array([0.001, 0.878, 0.001, 0.12]))
    assert scores[2] == pytest.approx(bins_of(attribute).means()[2] / mean, rel=0.02)
    assert scores[1] < 0.95 * bins_of(attribute).means()[1] / mean  # the slope is that to the frequent weight


@pytest.mark.parametrize("shares", [(0.2, 0.2, 0.2, 0.2, 0.2), (0.05, 0.15, 0.4, 0.3, 0.1)])
def test_an_answer_linear_in_the_logarithm_of_the_weight_is_exact(shares):
    """Inside bins too, although only bins are known: brute force over points of every bin."""
    from understudy.inference.weighting import scores_of

    attribute = us.Attribute(name="w", edges=(1, 2, 3, 6, 20, 50), density="log")
    bins, mass = bins_of(attribute), np.array(shares)
    scores, mean, second = scores_of(bins, mass)
    total = answered = squares = by_bin = 0.0
    for number, share in enumerate(mass):
        points, inside = bins.nodes(number)
        chance = 0.1 + 0.2 * np.log(points)
        total += share * inside @ points
        squares += share * inside @ points**2
        answered += share * inside @ (points * chance)
        by_bin += share * scores[number] * (inside @ chance)
    assert scores @ mass == pytest.approx(1)
    assert (mean, second) == pytest.approx((total, squares))
    assert by_bin == pytest.approx(answered / total, rel=1e-3)
    plain = np.array([inside @ points for points, inside in map(bins.nodes, range(5))])
    missed = sum(share * w * (bins.nodes(k)[1] @ (0.1 + 0.2 * np.log(bins.nodes(k)[0])))
                 for k, (share, w) in enumerate(zip(mass, plain, strict=True)))  # fmt: skip
    assert abs(missed / total - answered / total) > 0.005  # mean weights of bins alone would not do


def test_weights_of_found_bins_are_like_those_of_the_data():
    people = survey(8000)
    rng = np.random.default_rng(3)
    people["w"] = np.clip(np.exp(rng.normal(0, 0.8, 8000)) * 100, 20, 1000)
    schema = us.Schema(attributes=schema_of().attributes[:2], weight=us.Weight(column="w", bounds=(20, 1000)))
    table = {name: people[name] for name in ("sex", "poor", "w")}
    release = us.synthesize(us.open_source(pa.table(table), schema), budget=us.PureDP(epsilon=5), method="ipf")
    found = weighting_of(release, "w")
    assert release.schema["w"].bins == us.Weight(column="w", bounds=(1, 2)).bins
    assert found.mean == pytest.approx(people["w"].mean(), rel=0.05)
    assert found.spread == pytest.approx(np.mean(people["w"] ** 2) / people["w"].mean() ** 2, rel=0.15)
    written = release.to_pandas()["w"]
    assert written.mean() == pytest.approx(people["w"].mean(), rel=0.05)


def test_the_noise_in_the_scores_of_a_weight_is_part_of_the_interval():
    """The mean weights of bins come from noisy counts. Where an answer goes with the weight, their errors are errors of
    the answer: as large as is said, over releases of the same people."""
    rng = np.random.default_rng(6)
    w = np.exp(rng.normal(3, 0.8, 2500)).clip(2, 200)
    poor = rng.random(2500) < 1 / (1 + np.exp(-1.5 * (np.log(w) - 3)))
    schema = us.Schema(
        attributes=(us.Attribute(name="poor", levels=("no", "yes")),), weight=us.Weight(column="w", bounds=(2, 200))
    )
    source = us.open_source(pa.table({"poor": np.where(poor, "yes", "no"), "w": w}), schema)
    told, values = [], []
    for seed in range(8):
        release = us.synthesize(source, budget=us.PureDP(epsilon=1), method="ipf", stream=SeededStream(seed))
        weighting, bins = weighting_of(release, "w"), bins_of(release.schema["w"])
        question = parse_question("proportion(poor == 'yes')", release.schema)
        asked = population_of(make_estimand(question, release.schema), release, weighting)
        code = np.searchsorted(bins.high, w, side="right").clip(max=len(bins.low) - 1)
        counts = np.bincount(asked.labels[np.ravel_multi_index((poor.astype(int), code), (2, len(bins.low)))],
                             minlength=asked.groups)  # fmt: skip
        shares = counts / counts.sum()  # of the people themselves: all that is left is the noise in the scores
        told.append(noise_inside(asked, release, shares)[0])
        values.append(asked.evaluate(shares[None, :])[0, 0])
    assert 0.5 < np.sqrt(np.mean(np.square(told))) / np.std(values) < 2


@pytest.mark.parametrize(("sums_to", "population", "said"), [("sample", None, True), ("population", 18000.0, False),
                                                             ("population", 4000.0, True)])  # fmt: skip
def test_weights_that_add_up_to_something_else_than_was_declared(sums_to, population, said):
    design = None if population is None else us.Design(population=population)
    made = release_of(replace(schema_of(sums_to=sums_to), design=design))
    answer = us.infer(made, "proportion(poor == 'yes')", rng=np.random.default_rng(1))
    assert any("weights add up to about 18," in text for text in answer.warnings) == said


@pytest.mark.parametrize(("slope", "label"), [(0.0, "valid"), (2.0, "model-based")])
def test_an_answer_that_goes_strongly_with_the_weight_is_not_called_valid(slope, label):
    rng = np.random.default_rng(4)
    w = np.exp(rng.uniform(0, np.log(50), 20000)).clip(1, 50)
    poor = rng.random(20000) < 1 / (1 + np.exp(-slope * (np.log(w) - 2)))
    schema = us.Schema(
        attributes=(us.Attribute(name="poor", levels=("no", "yes")),),
        weight=us.Weight(column="w", bounds=(1, 50)),
    )
    release = release_of(schema, {"poor": np.where(poor, "yes", "no"), "w": w})
    answer = us.infer(release, "proportion(poor == 'yes')", rng=np.random.default_rng(1))
    assert answer.validity == label
    assert any("goes strongly with the weight" in text for text in answer.warnings) == (label != "valid")


def test_public_bins_of_a_weight_do_not_say_where_weights_lie_in_them():
    """In wide public bins the mean weight is not known: the interval holds every one that there can be."""
    rng = np.random.default_rng(6)
    w = np.exp(rng.normal(1.2, 0.5, 4000)).clip(1, 50)
    white = np.where(rng.random(4000) < 1 / (1 + np.exp(-2 * (np.log(w) - 1.2))), "yes", "no")
    truth = float(np.average(white == "yes", weights=w))
    widths, said = [], []
    for how in ({"edges": (1, 3, 50)}, {"bounds": (1, 50)}, {"edges": tuple(np.geomspace(1, 50, 17).round(4))}):
        schema = us.Schema(
            attributes=(us.Attribute(name="white", levels=("no", "yes")),), weight=us.Weight(column="w", **how)
        )
        answer = us.infer(
            release_of(schema, {"white": white, "w": w}), "proportion(white == 'yes')", rng=np.random.default_rng(1)
        )
        assert answer.low < truth < answer.high
        widths.append(answer.high - answer.low)
        said.append(any("public bins" in text for text in answer.warnings))
    assert said == [True, False, True]
    assert widths[0] > widths[2] > widths[1]


def test_weights_that_add_up_to_the_rows_are_said_to(release):
    w = np.tile([0.5, 1.5], 2000)
    schema = us.Schema(
        attributes=(us.Attribute(name="sex", levels=("F", "M")),),
        weight=us.Weight(column="w", edges=(0.49, 0.51, 1.49, 1.51)),
    )
    scaled = release_of(schema, {"sex": survey()["sex"], "w": w})
    assert any("were scaled" in text for text in us.infer(scaled, "proportion(sex == 'M')").warnings)
    assert not any("were scaled" in text for text in us.infer(release, "proportion(sex == 'M')").warnings)


def test_the_poverty_rate_is_that_of_the_people_themselves():
    rng = np.random.default_rng(2)
    income = np.exp(rng.normal(9.8, 0.6, 20000)).round()
    people = {"income": np.minimum(income, 200000), "w": np.where(income > 15000, 3.0, 1.0)}
    edges = tuple(int(one) for one in np.linspace(0, 200000, 401))
    schema = us.Schema(
        attributes=(us.Attribute(name="income", edges=edges, integer=True),),
        weight=us.Weight(column="w", edges=(0.999, 1.001, 2.999, 3.001)),
    )
    release = release_of(schema, people)
    for weights, weighted in ((people["w"], None), (np.ones(len(income)), False)):
        order = np.argsort(income)
        median = income[order][np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)]
        truth = np.average(income < 0.6 * median, weights=weights)
        answer = us.infer(release, "poverty_rate(income)", weighted=weighted, draws=200)
        assert answer.value == pytest.approx(truth, abs=0.004)
        assert answer.validity == "model-based"
    lower = us.infer(release, "poverty_rate(income, 0.4)", weighted=False, draws=200)
    assert lower.value < answer.value


@pytest.mark.parametrize("question", ["poverty_rate(income, 2)", "poverty_rate(income, 0.6, 1)", "poverty_rate(sex)"])
def test_poverty_rates_that_cannot_be_read(question):
    from understudy.core.questions import parse_question

    schema = us.Schema(
        attributes=(us.Attribute(name="income", edges=(0, 10)), us.Attribute(name="sex", levels=("F", "M")))
    )
    with pytest.raises(InputError):
        parse_question(question, schema)


def test_a_better_label_is_not_sought_in_noisier_tables():
    """Beside the tables that are fixed beforehand a method measures others after its looks, with far more noise: there
    an answer that goes with the weight looks like one that does not, because its interval is long."""
    rng = np.random.default_rng(8)
    weight = np.exp(rng.normal(3, 0.8, 6000)).clip(2, 200)
    works = rng.random(6000) < 1 / (1 + np.exp(1.2 * np.log(weight / 20)))
    more = {name: rng.choice(["a", "b", "c"], 6000) for name in ("x", "y", "z")}
    table = pa.table({"works": np.where(works, "yes", "no"), **more, "w": weight})
    schema = us.Schema(
        attributes=(us.Attribute(name="works", levels=("no", "yes")),
                    *(us.Attribute(name=name, levels=("a", "b", "c")) for name in more)),
        weight=us.Weight(column="w", bounds=(2, 200)),
    )  # fmt: skip
    budget = us.ApproxDP(epsilon=4, delta="1e-6")
    for seed in range(2):
        release = us.synthesize(
            us.open_source(table, schema), budget=budget, method="one_look", stream=SeededStream(seed)
        )
        answer = us.infer(release, "proportion(works == 'yes')", rng=np.random.default_rng(seed))
        assert answer.high - answer.low < 0.12
        assert not any("chosen by noisy looks" in one for one in answer.warnings)
