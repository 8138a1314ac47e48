"""The intruder games against their definitions, person by person."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import understudy as us
from understudy.evaluation.attacks.attribute_inference import infer
from understudy.evaluation.attacks.closest_record import ClosestRecord, outliers
from understudy.evaluation.attacks.linkability import joined
from understudy.evaluation.attacks.rank_attribution import Guesses, attack_attribute
from understudy.evaluation.attacks.rank_linkage import CRITERIA, RankLinkage
from understudy.evaluation.attacks.singling_out import multivariate, true_of, univariate
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.inputs.records import Records
from understudy.evaluation.shared import roc
from understudy.evaluation.shared.attack import Scene
from understudy.evaluation.shared.neighbours import nearest_without_each
from understudy.evaluation.shared.ranks import mid_ranks

SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="a", levels=(0, 1, 2)),
        us.Attribute(name="b", levels=(0, 1, 2, 3), ordered=True),
        us.Attribute(name="c", edges=(0, 2, 4, 8), integer=True),
    )
)
BINS = np.array([0, 0, 1, 1, 2, 2, 2, 2, 2])


def table(rows: int):
    columns = [arrays(np.int64, rows, elements=st.integers(0, most)) for most in (2, 3, 8)]
    return st.tuples(*columns).map(np.column_stack).map(_records)


def _records(values) -> Records:
    codes = values.copy()
    codes[:, 2] = BINS[values[:, 2]]
    return Records(codes=codes, positions=values.astype(float))


some = st.integers(2, 20).flatmap(table)
NOMINAL = np.array([True, False, False])
SPAN = np.array([1.0, 3.0, 8.0])


def apart(one: Records, other: Records, columns) -> np.ndarray:
    total = np.zeros((len(one), len(other)))
    for j in columns:
        gap = np.abs(one.positions[:, None, j] - other.positions[None, :, j])
        total = total + (np.where(gap > 0, 1.0, 0.0) if NOMINAL[j] else gap) * (1 / SPAN[j])
    return total


def of_records(schema, people, copies, **more) -> Comparison:
    """A comparison of records that were never in a file."""
    made = Comparison(release=SimpleNamespace(schema=schema), original=None, original_rows=None, copies=copies, **more)
    vars(made).update(people=people, tables=tuple(copies), independent_tables=tuple(copies))
    return made


def compared(people, *copies, **more) -> Comparison:
    return of_records(SCHEMA, people, copies, **more)


@settings(max_examples=60, deadline=None)
@given(people=some, copy=some, second=some)
def test_attribute_inference_takes_the_commonest_value_of_all_nearest(people, copy, second):
    game = compared(people, copy, second)
    chosen = np.arange(len(people))
    told = infer(game, Scene(people=game.people, tables=game.tables), SCHEMA.names, chosen)
    for j, target in enumerate(SCHEMA.names):
        assert told[target].people.tolist() == chosen.tolist()
        guess, agreed = told[target].guess, told[target].agreed
        known = [k for k in range(3) if k != j]
        codes = np.concatenate([copy.codes[:, j], second.codes[:, j]])
        distances = np.concatenate([apart(people, table, known) for table in (copy, second)], axis=1)
        for i in chosen:
            near = codes[distances[i] == distances[i].min()]
            assert guess[i] == np.bincount(near).argmax()
            assert agreed[i] == (len(set(near.tolist())) == 1)


@settings(max_examples=60, deadline=None)
@given(people=some, copy=some)
def test_linkability_joins_what_shares_a_nearest_record(people, copy):
    found, partner = joined(compared(people, copy), people, copy, [0, 2], [1])
    one, other = apart(people, copy, [0, 2]), apart(people, copy, [1])
    near_one, near_other = (part == part.min(axis=1, keepdims=True) for part in (one, other))
    shared = [[bool((mine & theirs).any()) for theirs in near_other] for mine in near_one]
    assert found.tolist() == [shared[i][i] for i in range(len(people))]
    for mine, told in zip(shared, partner, strict=True):  # a join that is believed leads to one person only
        assert told == (mine.index(True) if sum(mine) == 1 else -1)


@settings(max_examples=60, deadline=None)
@given(people=some, copy=some)
def test_closer_than_company(people, copy):
    rows = ClosestRecord().run(compared(people, copy)).frames["attacks"].to_pylist()
    outcome = {row["subject"]: row for row in rows}
    company = apart(people, people, [0, 1, 2])
    np.fill_diagonal(company, np.inf)
    company = company.min(axis=1)
    closest = apart(people, copy, [0, 1, 2]).min(axis=1)
    assert outcome["everybody, copy 1"]["successes"] == int(np.sum(closest < company))
    assert outcome["everybody, copy 1"]["claims"] == int(np.sum(closest < company))
    assert outcome["everybody, copy 1"]["claims_right"] == int(np.sum((closest < company) & (closest == 0)))
    assert outcome["outliers, copy 1"]["guesses"] == int(outliers(company).sum()) >= 1


@settings(max_examples=60, deadline=None)
@given(people=some, copy=some, seed=st.integers(0, 9))
def test_statements_are_true_of_one_synthetic_record_and_counted_right(people, copy, seed):
    statements = univariate(copy, NOMINAL) + multivariate(copy, NOMINAL, np.random.default_rng(seed))
    compare = {"=": np.equal, ">=": np.greater_equal, "<=": np.less_equal}
    for statement in statements:
        assert len(true_of(copy, statement)) == 1
        wanted = np.ones(len(people), bool)
        for column, comparison, value in statement:
            wanted &= compare[comparison](people.positions[:, column], value)
        assert np.array_equal(true_of(people, statement), np.flatnonzero(wanted))


def test_statements_need_records_that_differ():
    twins = _records(np.zeros((4, 3), np.int64))
    assert univariate(twins, NOMINAL) == []
    assert multivariate(twins, NOMINAL, np.random.default_rng(0)) == []


@settings(max_examples=60, deadline=None)
@given(tables=st.integers(2, 20).flatmap(lambda rows: st.tuples(table(rows), table(rows), table(rows))))
def test_rank_attribution_reads_the_linked_ranks_of_every_copy(tables):
    people, *copies = tables
    game = compared(people, *copies)
    for j, target in enumerate(SCHEMA.names):
        found = attack_attribute(game, Scene(people=game.people, tables=game.tables), target)
        known = [k for k in range(3) if k != j]
        pooled = np.zeros((len(people), SCHEMA[target].size), np.int64)
        for m, copy in enumerate(copies):
            gaps = sum(
                np.abs(mid_ranks(people.positions[:, k])[:, None] - mid_ranks(copy.positions[:, k])[None, :])
                for k in known
            )
            own = np.sort(people.positions[:, j])  # a synthetic rank stands for the original value that has it
            values = own[np.floor(mid_ranks(copy.positions[:, j])).astype(int) - 1]
            ranks = np.array([np.mean(np.flatnonzero(own == value) + 1) for value in values])
            codes = np.array([people.codes[people.positions[:, j] == value, j][0] for value in values])
            for i in range(len(people)):
                linked = np.flatnonzero(gaps[i] == gaps[i].min())
                assert found.low[m, i] == ranks[linked].min()
                assert found.high[m, i] == ranks[linked].max()
                assert found.hits[m, i] == (people.codes[i, j] in codes[linked])
                np.add.at(pooled[i], codes[linked], 1)
        assert np.array_equal(found.pooled, pooled)
        summary = found.summary()
        assert summary["claims"] == summary["correct"] + summary["false"]
        assert summary["narrowed"] == pytest.approx(summary["helped"] + summary["confused"])
        assert summary["hit_any_copy"] >= summary["hit_one_copy"]


@settings(max_examples=60, deadline=None)
@given(
    people=some, copy=some, known=st.sets(st.integers(0, 2)), criterion=st.sampled_from(("sum", "maximum", "minimum"))
)
def test_one_pass_finds_the_nearest_without_each_attribute(people, copy, known, criterion):
    """Against all pairs, with attributes that are not known, for every criterion."""
    scale = np.array([2.0 if j in known else -1.0 for j in range(3)])
    found = nearest_without_each(
        copy.positions,
        people.positions,
        [0, 1, 2],
        ranks=copy.positions,
        codes=copy.codes,
        levels=SCHEMA.shape(),
        weights=scale,
        criterion=criterion,
    )
    for j, told in enumerate(found):
        used = [k for k in sorted(known) if k != j]
        if not used:
            continue
        gaps = 2 * np.abs(people.positions[:, None, used] - copy.positions[None, :, used])
        gaps = {"sum": gaps.sum(axis=2), "maximum": gaps.max(axis=2), "minimum": gaps.min(axis=2)}[criterion]
        for i in range(len(people)):
            near = gaps[i] == gaps[i].min()
            assert (told.low[i], told.high[i]) == (copy.positions[near, j].min(), copy.positions[near, j].max())
            assert np.array_equal(told.table[i], np.bincount(copy.codes[near, j], minlength=SCHEMA.shape()[j]))


def test_copies_comfort_narrow_or_confuse():
    """Copies that agree comfort, and wrongly if they agree elsewhere; copies that have nothing in common confuse."""
    draw = np.random.default_rng(3)
    size = 400
    truth = draw.permutation(size) + 1.0

    def said(*middles):
        middle = np.array(middles)
        one = np.zeros(size, np.int64)
        guess = Guesses(
            people=np.arange(size), size=size, true_rank=truth, true_code=one, low=middle, high=middle,
            hits=np.ones(middle.shape, bool), pooled=np.ones((size, 2), np.int64), independent=1.0,
        )  # fmt: skip
        return guess.summary(), guess.by_person("a")

    near = [np.clip(truth + draw.integers(-4, 5, size), 1, size) for _ in range(3)]
    right, people = said(*near)
    assert right["copies_comforted"] > 0.9
    assert right["copies_comforted_wrongly"] < 0.5
    assert people["copies"].to_pylist().count("comforted") == round(right["copies_comforted"] * size)
    elsewhere = (truth + size / 2) % size
    wrong, _ = said(*(np.clip(elsewhere + draw.integers(-4, 5, size), 1, size) for _ in range(3)))
    assert wrong["copies_comforted_wrongly"] > 0.9
    unrelated, _ = said(*(draw.permutation(size) + 1.0 for _ in range(3)))
    assert unrelated["copies_comforted"] < 0.1  # 5 percent by chance
    assert 0.4 < unrelated["copies_confused"] < 0.6
    parts = sum(unrelated[f"copies_{name}"] for name in ("comforted", "narrowed", "confused"))
    assert parts == pytest.approx(1)
    assert said(truth)[0]["copies_confused"] is None  # one copy neither comforts nor confuses


def test_weights_of_ranks_decide_who_is_near():
    draw = np.random.default_rng(0)
    people = _records(np.column_stack([draw.integers(0, 3, 300), draw.integers(0, 4, 300), draw.integers(0, 9, 300)]))
    values = people.codes.copy()
    values[:, 1] = draw.integers(0, 4, 300)  # the second attribute is spoilt
    spoilt = _records(values)
    right = []
    for weights in ((1.0, 1.0, 1.0), (1.0, 0.0, 1.0)):
        game = compared(people, spoilt, rank_weights=weights)
        guess = attack_attribute(game, Scene(people=people, tables=(spoilt,)), "a")
        right.append(float(np.mean(guess.value == guess.true_code)))
        rows = RankLinkage().run(game).frames["rank_distances"].to_pylist()
        assert {row["criterion"] for row in rows} == set(CRITERIA)
    assert right[1] > right[0]


def test_levels_without_an_order_are_ranked_by_marginality():
    """Most people are nurses, so the level farthest from nurses is the most marginal, wherever the schema lists it."""
    names = ("actor", "nurse", "doctor")
    plain = us.Schema(attributes=(us.Attribute(name="job", levels=names), us.Attribute(name="b", levels=("x", "y"))))
    tree = us.Attribute(name="job", levels=names, tree=("arts/actor", "health/nurse", "health/doctor"), missing=True)
    told = us.Schema(attributes=(tree, plain["b"]))
    codes = np.array([[0, 0], [1, 0], [1, 1], [1, 0], [2, 1], [3, 1]])
    people = Records(codes=codes, positions=codes.astype(float))
    game = of_records(told, people, (people,))
    assert game.in_rank_order(people)[:, 0].tolist() == [2, 0, 0, 0, 1, 3]
    assert game.without_order == ()
    assert of_records(plain, people, (people,)).without_order == ("job",)
    assert of_records(plain, people, (people,)).in_rank_order(people) is people.positions
    assert people.positions[:, 0].tolist() == [0, 1, 1, 1, 2, 3]  # as they were


def test_chance_error_of_a_rank():
    """The mean distance of a rank to one drawn at random from 1 to n."""
    people = _records(np.column_stack([np.zeros(8), np.zeros(8), np.arange(8)]).astype(np.int64))
    found = attack_attribute(compared(people, people), Scene(people=people, tables=(people,)), "c")
    ranks = np.arange(1, 9)
    assert found.summary()["rank_error_chance"] == pytest.approx(np.abs(ranks[:, None] - ranks).mean() / 7)


scores = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=20).map(np.array)


@settings(max_examples=60, deadline=None)
@given(members=scores, others=scores)
def test_area_and_curve_are_those_of_all_pairs(members, others):
    wins = (members[:, None] > others[None, :]).mean() + (members[:, None] == others[None, :]).mean() / 2
    found = roc.area(members, others)
    assert found.value == pytest.approx(wins)
    assert found.low <= found.value <= found.high
    false, true = roc.curve(members, others)
    assert np.trapezoid(true, false) == pytest.approx(wins)
    for rate in (0.0, 0.1, 0.5):
        best = max(
            [0.0] + [np.mean(members >= t) for t in np.unique(np.r_[members, others]) if np.mean(others >= t) <= rate]
        )
        assert roc.true_positives_at(members, others, rate) == pytest.approx(best)


def test_area_intervals_cover_and_exclude():
    """Normal scores one deviation apart: the area is 0.7602. Of 400 intervals of 95% at least 350 must cover it."""
    draw = np.random.default_rng(0)
    covered = excluded = 0
    for _ in range(400):
        found = roc.area(draw.normal(1, 1, 80), draw.normal(0, 1, 80))
        covered += found.low <= 0.76025 <= found.high
        excluded += not found.low <= 0.6 <= found.high
    assert covered >= 350
    assert excluded >= 300


def test_guessing_is_tested_on_records_that_did_not_choose_the_threshold():
    draw = np.random.default_rng(0)
    noise = [roc.guess(draw.normal(size=40), draw.normal(size=40), draw).advantage for _ in range(400)]
    assert abs(np.mean(noise)) < 0.04  # choosing and testing on the same records would give about 0.2
    sure = roc.guess(np.ones(20), np.zeros(20), draw)
    assert sure.advantage == 1


def test_one_copy_narrows_nothing_and_three_that_agree_on_the_truth_help():
    draw = np.random.default_rng(0)
    people = _records(np.column_stack([draw.integers(0, 3, 200), draw.integers(0, 4, 200), draw.integers(0, 9, 200)]))
    noisy = []
    for _ in range(3):
        values = people.positions.astype(np.int64)
        moved = draw.uniform(size=200) < 0.3
        values[moved, 2] = draw.integers(0, 9, moved.sum())
        noisy.append(_records(values))
    alone = attack_attribute(compared(people, *noisy), Scene(people=people, tables=(noisy[0],)), "c").summary()
    assert (alone["narrowed"], alone["one_copy_width"]) == (0, alone["range_width"])
    three = attack_attribute(compared(people, *noisy), Scene(people=people, tables=tuple(noisy)), "c").summary()
    assert three["range_holds_truth"] > alone["range_holds_truth"]
    assert three["helped"] > three["confused"]
