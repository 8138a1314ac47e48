"""Shares of subgroups whose size noise hides: what is not rejected holds the truth, and is no wider than it must be."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import understudy as us
from understudy.core.questions import parse_question
from understudy.demo.people import make_people, small_schema
from understudy.inference.bounded_shares import effects_not_rejected, not_rejected
from understudy.inference.estimands import make_estimand
from understudy.inference.judge import Judged
from understudy.inference.noise_aware import is_quotient
from understudy.inference.without_prior import Raw, Settled, sampled, settle
from understudy.privacy.randomness.streams import SeededStream

SCHEMA = small_schema()
PEOPLE, NOISE, LITTLE = 2000, 25.0, 8.0
RUNS = 200
SHARE = "proportion(smokes == 'yes', where=region == 'North')"


def estimand(question):
    return make_estimand(parse_question(question, SCHEMA), SCHEMA)


def held(question, cells, truth, *, trusted=1.0, level=0.95):
    """How often the interval holds the truth, and its mean width. ``trusted``: the part of the noise that is known."""
    asked, rng = estimand(question), np.random.default_rng(1)
    hits, widths = [], []
    for _ in range(RUNS):
        seen = rng.multinomial(PEOPLE, cells) + rng.normal(0, NOISE, len(cells))
        shares = seen / PEOPLE

        def deviations(size, rng, shares=shares):
            noise = trusted * rng.normal(0, NOISE / PEOPLE, (size, len(shares)))
            return noise + sampled(shares, PEOPLE, size, rng)

        low, high, _ = not_rejected(asked, Raw(shares=shares, deviations=deviations, people=PEOPLE), level, rng)
        hits.append(low[0] <= truth <= high[0])
        widths.append(high[0] - low[0])
    return np.mean(hits), np.mean(widths)


def cells_of(question, inside, yes):
    """Shares of the groups of a share of a subgroup: those outside, those inside without and with the value."""
    member = estimand(question).members[0]
    outside = member[:, :2].sum(axis=1)
    return (1 - inside) * outside / outside.sum() + inside * (member[:, 2] * (1 - yes) + member[:, 3] * yes)


@pytest.mark.parametrize(("inside", "yes"), [(0.03, 0.3), (0.03, 0.95), (0.3, 0.4)])
def test_what_is_not_rejected_holds_the_truth(inside, yes):
    """60 people in a subgroup under noise of 25: a false alarm has a probability below 1e-4."""
    share, width = held(SHARE, cells_of(SHARE, inside, yes), yes)
    assert share > 0.89
    assert width < (0.2 if inside > 0.1 else 1.0)


@pytest.mark.parametrize("inside", [0.0, 0.002])
def test_a_share_of_nearly_nobody_is_left_open(inside):
    """Four people under noise of 25: what is not rejected was a sliver near 1 or 0 in some runs, and missed there."""
    asked, rng = estimand(SHARE), np.random.default_rng(2)
    cells, narrow = cells_of(SHARE, inside, 0.3), 0
    for _ in range(RUNS):
        shares = (rng.multinomial(PEOPLE, cells) + rng.normal(0, NOISE, len(cells))) / PEOPLE

        def deviations(size, rng, shares=shares):
            return rng.normal(0, NOISE / PEOPLE, (size, len(shares))) + sampled(shares, PEOPLE, size, rng)

        low, high, _ = not_rejected(asked, Raw(shares=shares, deviations=deviations, people=PEOPLE), 0.95, rng)
        narrow += high[0] - low[0] < 0.5
    assert narrow <= 0.05 * RUNS


def test_with_less_noise_than_there_is_it_would_not_hold():
    assert held(SHARE, cells_of(SHARE, 0.03, 0.3), 0.3, trusted=0.3)[0] < 0.8


def test_only_shares_and_means_their_differences_and_ratios_are_meant():
    other = "proportion(smokes == 'yes', where=region == 'West')"
    for text in (f"{SHARE} - {other}", f"{SHARE} / {other}", "crosstab(region, smokes, percent='row')"):
        assert is_quotient(estimand(text))
    assert is_quotient(estimand("mean(age, where=region == 'North')"))
    for text in ("sum(age)", "count(region == 'North')", "quantile(age, 0.5)", "std(age)"):
        assert not is_quotient(estimand(text))


SCORES = us.Schema(
    attributes=(
        us.Attribute(name="group", levels=("few", "many")),
        us.Attribute(name="score", levels=tuple(range(6))),
        us.Attribute(name="hours", edges=(0, 10, 20, 40, 80), integer=True),
    )
)
FEW = 0.04  # of the people are in the small group: 80 of them


def of_scores(text, name, options):
    """The estimand of a question about two attributes, and the shares of its groups of cells in a population."""
    asked = make_estimand(parse_question(text, SCORES, **options), SCORES)
    law = {"score": [0.35, 0.25, 0.2, 0.1, 0.06, 0.04], "hours": [0.1, 0.3, 0.5, 0.1]}[name]
    others = np.array(law)[::-1]
    cells = np.stack([FEW * np.array(law), (1 - FEW) * others])  # by group and by code
    return asked, np.bincount(asked.labels, weights=cells.ravel(), minlength=asked.groups)


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("mean(score, where=group == 'few')", "score", {}),
        ("mean(score, by=group)", "score", {}),
        ("mean(hours, where=group == 'few')", "hours", {}),
        ("mean(score, where=group == 'few') - mean(score, where=group == 'many')", "score", {}),
        ("mean(score, where=group == 'few') / mean(score, where=group == 'many')", "score", {}),
        ("proportion(score > 2, where=group == 'few') / proportion(score > 2, where=group == 'many')", "score", {}),
        ("score ~ group", "score", {"family": "linear"}),
        ("score ~ group", "score", {"family": "poisson"}),
        ("hours ~ group", "hours", {"family": "linear"}),
    ],
)
def test_means_ratios_and_effects_of_a_group_that_noise_hides_hold_the_truth(text, name, options):
    """80 people under noise of 8 in every cell: such answers were those of a prior, or refused."""
    asked, cells = of_scores(text, name, options)
    truth = asked.evaluate(cells[None, :])[0]
    lowest, highest = (end(cells[None, :])[0] if asked.binned else truth for end in (asked.lowest, asked.highest))
    rng, hits, closed = np.random.default_rng(9), [], []
    for _ in range(15):
        noisy = (rng.multinomial(PEOPLE, cells) + rng.normal(0, LITTLE, len(cells))) / PEOPLE

        def deviations(size, rng, noisy=noisy):
            return rng.normal(0, LITTLE / PEOPLE, (size, len(noisy))) + sampled(noisy, PEOPLE, size, rng)

        raw = Raw(shares=noisy, deviations=deviations, people=PEOPLE)
        if options:
            low, high, nothing = effects_not_rejected(asked, raw, 0.95, rng, which=np.ones(len(truth), bool))
        else:
            low, high, nothing = not_rejected(asked, raw, 0.95, rng)
        hits.append((low <= np.minimum(truth, lowest)) & (np.maximum(truth, highest) <= high))
        closed.append(~nothing)
    assert np.mean(hits) > 0.75  # of 15 runs: fewer have a probability below 1e-4
    assert np.mean(closed) > 0.5  # not because everything is left open


def test_a_difference_of_two_numbers_lies_between_the_ends_of_both():
    asked = make_estimand(parse_question("mean(hours) - mean(score)", SCORES), SCORES)
    assert asked.bounds == (-5.0, 80.0)
    assert make_estimand(parse_question("mean(hours)", SCORES), SCORES).bounds == (0.0, 80.0)


def test_with_less_noise_than_there_is_means_would_not_hold():
    asked, cells = of_scores("mean(score, where=group == 'few')", "score", {})
    truth, rng, hits = asked.evaluate(cells[None, :])[0], np.random.default_rng(9), []
    for _ in range(30):
        noisy = (rng.multinomial(PEOPLE, cells) + rng.normal(0, 3 * LITTLE, len(cells))) / PEOPLE

        def deviations(size, rng, noisy=noisy):
            return rng.normal(0, 0.05 * LITTLE / PEOPLE, (size, len(noisy)))

        raw = Raw(shares=noisy, deviations=deviations, people=1e9)
        low, high, _ = not_rejected(asked, raw, 0.95, rng)
        hits.append((low[0] <= truth[0]) & (truth[0] <= high[0]))
    assert np.mean(hits) < 0.9


@pytest.fixture(scope="module")
def one_way():
    """A release that measured nothing but single attributes, and the people behind it."""
    rng = np.random.default_rng(4)
    group = rng.choice(["few", "many"], 3000, p=[0.3, 0.7])
    score = rng.binomial(5, np.where(group == "few", 0.2, 0.5))
    frame = pd.DataFrame({"group": group, "score": score, "hours": rng.integers(0, 80, 3000)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = us.synthesize(
            frame, schema=SCORES, method="independent", budget=us.PureDP(epsilon=2), stream=SeededStream(3)
        )
    return frame, release


def test_the_mean_of_a_group_that_noise_hides_is_a_range():
    """150 people in a table whose cells have noise of 200: which scores people have is known for everybody."""
    rng = np.random.default_rng(6)
    group = np.where(np.arange(3000) < 150, "few", "many")
    frame = pd.DataFrame({"group": group, "score": rng.choice([0, 1], 3000), "hours": rng.integers(0, 80, 3000)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = us.synthesize(
            frame, schema=SCORES, method="ipf", budget=us.PureDP(epsilon="0.04"), stream=SeededStream(4)
        )
    answer = us.infer(release, "mean(score, by=group)", rng=np.random.default_rng(1))
    few = answer.estimates[0]
    assert answer.labels[0] == "range"
    assert few.low <= frame.score[frame.group == "few"].mean() <= few.high


@pytest.mark.parametrize(
    ("text", "true"),
    [
        ("mean(score, where=group == 'few')", lambda few, many: few.score.mean()),
        ("mean(hours, where=group == 'few')", lambda few, many: few.hours.mean()),
        ("mean(score, where=group == 'many') / mean(hours)", None),
        ("count(score > 2 and group == 'few')", lambda few, many: (few.score > 2).sum()),
        ("score ~ group", lambda few, many: few.score.mean()),
    ],
)
def test_means_and_numbers_of_people_that_no_table_tells_have_a_range(one_way, text, true):
    frame, release = one_way
    few, many = (frame[frame.group == name] for name in ("few", "many"))
    options = {"family": "linear"} if "~" in text else {}
    answer = us.infer(release, text, rng=np.random.default_rng(1), **options)
    first = answer.estimates[0]
    truth = many.score.mean() / frame.hours.mean() if true is None else true(few, many)
    assert set(answer.labels) == {"range"}
    assert first.low <= truth <= first.high
    # The range is what is possible, and no wider: a part of all values there can be.
    most = {"mean(s": 5, "mean(h": 80, "count(": 3000, "score ": 5}[text[:6]]
    assert first.high - first.low < 0.999 * most


def test_numbers_of_people_in_groups_that_no_table_tells(one_way):
    frame, release = one_way
    answer = us.infer(release, "count(score > 2, by=group)", rng=np.random.default_rng(1))
    for name, one in zip(("few", "many"), answer.estimates, strict=True):
        assert one.low <= ((frame.group == name) & (frame.score > 2)).sum() <= one.high
    assert set(answer.labels) == {"range"}


def test_every_value_there_can_be_is_a_range_whatever_was_chosen():
    asked = estimand("crosstab(sex, region)")
    size = len(asked.names)
    low, high = np.zeros(size), np.ones(size)
    high[1] = 0.9
    found = Settled(
        centre=np.full(size, 0.5), low=low, high=high, spread=np.ones(size), by_prior=np.zeros(size, bool),
        alone=np.zeros(size, bool),
    )  # fmt: skip
    judged = Judged.begin(asked.names, found, [])
    judged.lower(np.arange(size) < 2, "selection not modelled", "chosen")
    judged.whole_range(asked)
    assert judged.labels == ["range", "selection not modelled", *["range"] * (size - 2)]
    assert "every value" in judged.warnings[-1]


def test_a_coefficient_that_may_be_anything_is_a_range_without_ends():
    """Log odds from -240 to 240 were called valid."""
    schema = SCHEMA
    asked = make_estimand(parse_question("smokes ~ sex + region", schema, family="logit", event="yes"), schema)
    size = len(asked.names)
    found = Settled(
        centre=np.zeros(size), low=np.full(size, -1.0), high=np.append(np.full(size - 1, 30.0), 1.0),
        spread=np.ones(size), by_prior=np.zeros(size, bool), alone=np.zeros(size, bool),
    )  # fmt: skip
    found.low[1] = -30.0
    judged = Judged.begin(asked.names, found, [])
    judged.whole_range(asked)
    assert judged.labels == ["valid", "range", *["valid"] * (size - 2)]
    assert (judged.low[1], judged.high[1]) == (-np.inf, np.inf)
    assert judged.high[0] == 30.0


def test_an_answer_about_small_groups_is_valid_and_wide():
    """Called model-based before: a share by groups is far from linear where noise hides how large they are."""
    with warnings.catch_warnings(action="ignore"):
        release = us.synthesize(
            us.open_source(make_people(600, seed=3), SCHEMA), method="ipf", budget=us.PureDP(epsilon="1"),
            stream=SeededStream(8),
        )  # fmt: skip
    answer = us.infer(release, "crosstab(region, smokes, percent='row')", rng=np.random.default_rng(1))
    assert "model-based" not in answer.labels
    rows = np.array([one.high - one.low for one in answer.estimates])
    assert (rows > 0.05).all()
    assert (rows <= 1).all()


def test_a_very_negative_number_of_people_leaves_no_less_open_than_none():
    """29 people of 300 had a noisy number of -20, and an interval that ended below their share."""
    asked = estimand("proportion(smokes == 'yes')")
    member = asked.members[0][:, 2:]

    def interval(yes):
        shares = member @ np.array([1 - yes, yes])

        def deviations(size, rng):
            return rng.normal(0, 0.035, (size, 1)) * (member @ np.array([-1.0, 1.0]))

        raw = Raw(shares=shares, deviations=deviations, people=300.0)
        low, high, _ = not_rejected(asked, raw, 0.95, np.random.default_rng(3))
        return low[0], high[0]

    none, everybody = interval(0.0), interval(1.0)
    for beyond in (0.03, 0.1, 0.4):
        assert interval(-beyond) == pytest.approx(none)
        assert interval(1 + beyond) == pytest.approx(everybody)
    assert none[0] == 0
    assert 1.9 * 0.035 < none[1] < 2.7 * 0.035
    assert everybody[1] == 1
    assert everybody[0] == pytest.approx(1 - none[1], abs=0.003)


@pytest.mark.parametrize("people", [0, 8, 20, 60])
def test_a_rare_share_is_covered_as_often_as_stated_and_hardly_more(people):
    """All of the error is at the lower end where the upper one cannot miss: .975 was covered before."""
    rng, hits, runs, share = np.random.default_rng(people), 0, 400, people / 1000
    nothing = np.full(1, 1e-20)
    posterior = Settled(
        centre=nothing, low=nothing, high=nothing, spread=nothing, by_prior=np.zeros(1, bool), alone=np.zeros(1, bool)
    )
    for _ in range(runs):
        noisy = (rng.binomial(1000, share) + rng.normal(0, 15)) / 1000
        shares = np.array([noisy, 1 - noisy])

        def deviations(size, rng, shares=shares):
            noise = rng.normal(0, 0.015, (size, 1)) * np.array([1.0, -1.0])
            return noise + sampled(np.clip(shares, 0, 1), 1000, size, rng)

        raw = Raw(shares=shares, deviations=deviations, people=1000.0)
        found = settle(posterior, raw, lambda one: one[:, :1], (0.0, 1.0), level=0.95, rng=rng)
        hits += bool(found.low[0] <= share <= found.high[0])
    assert 0.905 < hits / runs < 0.985  # 4 standard errors below, 3 above


@pytest.mark.parametrize(("inside", "yes"), [((0.3, 0.02), (0.4, 0.1)), ((0.2, 0.03), (0.02, 0.5))])
def test_log_odds_of_small_groups_are_left_open_as_far_as_noise_hides_them(inside, yes):
    """A logit on groups of 40 to 600 people under noise of 8: coefficients were those of a prior."""
    asked = make_estimand(parse_question("smokes ~ region", SCHEMA, family="logit", event="yes"), SCHEMA)
    model, member = asked.parts[0].model, asked.members[0]
    patterns, place = model.saturated()
    sizes = np.full(len(patterns), (1 - sum(inside)) / (len(patterns) - 2))
    shares = np.full(len(patterns), 0.3)
    sizes[:2], shares[:2] = inside, yes
    cells = sizes[place] * np.where(np.asarray(model.outcome) == 1, shares[place], 1 - shares[place])
    truth = np.linalg.solve(patterns, np.log(shares / (1 - shares)))
    groups = member[:, 2:] @ cells
    rng, hits, finite = np.random.default_rng(5), [], []
    for _ in range(25):
        noisy = (rng.multinomial(PEOPLE, groups) + rng.normal(0, LITTLE, len(groups))) / PEOPLE

        def deviations(size, rng, noisy=noisy):
            return rng.normal(0, LITTLE / PEOPLE, (size, len(noisy))) + sampled(noisy, PEOPLE, size, rng)

        raw = Raw(shares=noisy, deviations=deviations, people=PEOPLE)
        low, high, _ = effects_not_rejected(asked, raw, 0.95, rng, which=np.ones(len(truth), bool))
        hits.append((low <= truth) & (truth <= high))
        finite.append(np.isfinite(low) | np.isfinite(high))
    assert np.mean(hits) > 0.9
    assert np.mean(finite) > 0.5  # not because everything is left open


def test_other_questions_have_no_such_effects():
    raw = Raw(shares=np.zeros(1), deviations=lambda size, _: np.zeros((size, 1)), people=1.0)
    for text in ("smokes ~ region + sex", SHARE):
        settings = {"family": "logit", "event": "yes"} if "~" in text else {}
        asked = make_estimand(parse_question(text, SCHEMA, **settings), SCHEMA)
        assert effects_not_rejected(asked, raw, 0.95, np.random.default_rng(1), which=np.ones(1, bool)) is None


def test_a_share_below_0_in_a_table_of_few_groups_reaches_as_far_as_from_0():
    """The posterior of a noisy number of -5 standard deviations ends long before where one of 0 would."""
    with warnings.catch_warnings(action="ignore"):
        release = us.synthesize(
            us.open_source(make_people(600, seed=3), SCHEMA), method="independent", budget=us.ZCDP(rho="0.005"),
            stream=SeededStream(8),
        )  # fmt: skip
    tables = []
    for one in release.measurements:
        values = one.values
        if one.margin == ("smokes",):
            far = round(5 * float(one.mechanism.variance) ** 0.5)
            values = np.where(np.arange(len(values)) == 0, 600 + far, 0) - np.where(np.arange(len(values)) == 1, far, 0)
        tables.append(replace(one, values=values))
    level = str(SCHEMA["smokes"].levels[1])
    moved = replace(release, measurements=tuple(tables))
    answer = us.infer(moved, f"proportion(smokes == '{level}')", rng=np.random.default_rng(1))
    noise = float(next(one for one in tables if one.margin == ("smokes",)).mechanism.variance) ** 0.5
    assert answer.low == 0
    assert answer.high > 0.9 * 1.96 * noise / 600 / 2**0.5


def test_a_row_of_few_people_has_an_interval_of_few_people():
    """Percentages by row, of rows with 20 to 60 people each and hardly any noise: where nobody was seen, the interval
    reaches as far as that of a sample of the row, and not of everybody."""
    rows, columns, people = 60, 12, 2400
    rng = np.random.default_rng(8)
    chance = rng.dirichlet(np.full(columns, 2.0), rows)
    row = rng.integers(rows, size=people)
    column = (rng.random(people)[:, None] > chance[row].cumsum(axis=1)).sum(axis=1)
    schema = us.Schema(
        attributes=(
            us.Attribute(name="row", levels=tuple(f"r{one}" for one in range(rows))),
            us.Attribute(name="column", levels=tuple(f"c{one}" for one in range(columns))),
        )
    )
    frame = pd.DataFrame({"row": [f"r{one}" for one in row], "column": [f"c{min(one, 11)}" for one in column]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = us.synthesize(
            frame, schema=schema, method="histogram", budget=us.PureDP(epsilon=10), stream=SeededStream(3)
        )
    for question, true, least in (
        ("crosstab(row, column, percent='row')", chance.ravel(), 0.96),
        ("proportion(column == 'c3', by=row)", chance[:, 3], 0.91),  # 60 of them
    ):
        answer = us.infer(release, question, rng=np.random.default_rng(1))
        low, high = (np.array([getattr(one, end) for one in answer.estimates]) for end in ("low", "high"))
        assert np.mean((low <= true) & (true <= high)) > least
        assert (true <= high + (high - low)).all()
