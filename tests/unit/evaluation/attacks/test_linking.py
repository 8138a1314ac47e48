"""Links and neighbours are what comparing every pair gives, ties included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from understudy.errors import InputError, UnknownNameError, UnsupportedError
from understudy.evaluation.attacks.rank_linkage import mutual
from understudy.evaluation.shared import neighbours
from understudy.evaluation.shared import rank_linking as linking
from understudy.evaluation.shared.neighbours import Neighbours, distinct_rows, nearest_without_each
from understudy.evaluation.shared.rank_linking import link
from understudy.evaluation.shared.ranks import mid_rank_matrix, mid_ranks, order_ranks, same_size


def matrices(width: int, most: int = 40, values: int = 6):
    """Few values make many ties and duplicates."""
    return st.integers(1, most).flatmap(
        lambda rows: arrays(np.float64, (rows, width), elements=st.integers(0, values).map(float))
    )


pairs = st.integers(1, 4).flatmap(lambda width: st.tuples(matrices(width), matrices(width)))


def every_pair(original, synthetic, criterion, weights=None):
    apart = np.abs(original[:, None, :] - synthetic[None, :, :])
    if criterion == "weighted sum":
        total = np.zeros(apart.shape[:2])
        for j, weight in enumerate(weights):  # in the order of the attributes, as the product adds them
            total = total + apart[:, :, j] * weight
        return total
    return {"sum": apart.sum(axis=2), "maximum": apart.max(axis=2), "minimum": apart.min(axis=2)}[criterion]


def check(links, distances):
    best = distances.min(axis=1)
    assert np.array_equal(links.distances, best)
    expected = [np.flatnonzero(row == least) for row, least in zip(distances, best, strict=True)]
    for record, (found, wanted) in enumerate(zip(links.indices, expected, strict=True)):
        assert np.array_equal(found, wanted)
        assert np.array_equal(links.of(record), wanted)
    assert np.array_equal(links.sizes(), [len(wanted) for wanted in expected])


@pytest.mark.parametrize("criterion", ["sum", "maximum", "minimum"])
@settings(max_examples=60, deadline=None)
@given(tables=pairs)
def test_links_are_those_of_the_definition(criterion, tables):
    original, synthetic = tables
    check(link(original, synthetic, criterion), every_pair(original, synthetic, criterion))


@settings(max_examples=60, deadline=None)
@given(tables=pairs, data=st.data())
def test_weighted_links_are_those_of_the_definition(tables, data):
    original, synthetic = tables
    weight = st.floats(0, 3, allow_subnormal=False)
    weights = data.draw(st.lists(weight, min_size=original.shape[1], max_size=original.shape[1]).filter(any))
    found = link(original, synthetic, "weighted sum", weights=weights)
    check(found, every_pair(original, synthetic, "weighted sum", weights))


def test_larger_tables_with_ranks_and_many_nodes():
    generator = np.random.default_rng(1)
    for width in (2, 5, 10):
        original, synthetic = (
            mid_rank_matrix(np.round(generator.normal(size=(rows, width)), 1)) for rows in (500, 700)
        )
        for criterion in ("sum", "maximum", "minimum"):
            check(link(original, synthetic, criterion), every_pair(original, synthetic, criterion))


def test_groups_are_kept_by_distinct_vectors_so_memory_stays_linear():
    """100,000 records on eight cells: every pair of equal records would be more than a thousand million."""
    codes = np.random.default_rng(0).integers(0, 2, (100_000, 3)).astype(float)
    found = link(codes, codes)
    assert len(found.members) == 8
    assert found.offsets.tolist() == list(range(9))
    assert found.sizes().sum() > 10**9
    record = np.flatnonzero((codes == codes[7]).all(axis=1))
    assert np.array_equal(found.of(7), record)


def test_loops_in_parts_say_what_one_loop_says(monkeypatch):
    """Ctrl-C waits for a compiled loop to end: long ones are divided."""
    draw = np.random.default_rng(8)
    table, asked = draw.integers(0, 5, (300, 4)).astype(float), draw.integers(0, 5, (200, 4)).astype(float)

    def answers():
        tree = Neighbours(table)
        groups = tree.nearest(asked)
        codes = table[:, [1]].astype(np.int64)
        (told,) = nearest_without_each(table, asked, [1], ranks=table[:, [1]], codes=codes, levels=[5])
        return groups.distances, groups.ties, tree.k_nearest(asked, 3), told.low, told.high, told.first, told.table

    whole = answers()
    monkeypatch.setattr(neighbours, "DIFFERENCES_AT_ONCE", 7 * table.size)
    assert len(list(neighbours.interruptible(np.arange(20), table.size))) == 3
    for one, in_parts in zip(whole, answers(), strict=True):
        assert np.array_equal(one, in_parts)


def test_too_many_ties_are_not_expanded(monkeypatch):
    monkeypatch.setattr(linking, "MOST_MEMBERS", 2)
    table = np.array([[0.0], [1.0], [2.0]])
    for criterion in ("sum", "minimum"):
        with pytest.raises(UnsupportedError, match="one record"):
            _ = link(table, table, criterion).indices


def test_several_copies_give_several_links():
    original = np.array([[1.0, 2.0], [2.0, 1.0]])
    copies = np.array([[[1.0, 2.0], [2.0, 2.0]], [[2.0, 1.0], [2.0, 1.0]]])
    for given_as in (copies, list(copies), tuple(copies)):
        first, second = link(original, given_as)
        assert [group.tolist() for group in first.indices] == [[0], [1]]
        assert [group.tolist() for group in second.indices] == [[0, 1], [0, 1]]


@pytest.mark.parametrize(
    ("original", "synthetic", "settings", "words"),
    [
        ([[1.0]], [[1.0, 2.0]], {}, "attributes"),
        ([1.0, 2.0], [[1.0]], {}, "matrix"),
        ([[1.0]], np.zeros((0, 1)), {}, "shape"),
        ([[float("nan")]], [[1.0]], {}, "finite"),
        ([["a"]], [[1.0]], {}, "numbers"),
        ([[1.0]], [[1.0]], {"criterion": "weighted sum"}, "needs them"),
        ([[1.0]], [[1.0]], {"weights": [1.0]}, "weighted sum"),
        ([[1.0]], [[1.0]], {"criterion": "weighted sum", "weights": [-1.0]}, "negative"),
        ([[1.0]], [[1.0]], {"criterion": "weighted sum", "weights": [0.0]}, "all 0"),
        ([[1.0]], [[1.0]], {"criterion": "weighted sum", "weights": [1.0, 1.0]}, "1 numbers"),
    ],
)
def test_bad_ranks_are_refused(original, synthetic, settings, words):
    with pytest.raises(InputError, match=words):
        link(original, np.array(synthetic), **settings)


def test_a_list_of_no_copies_is_refused():
    with pytest.raises(InputError, match="empty"):
        link(np.ones((2, 2)), [])


def test_an_unknown_criterion_names_the_nearest():
    with pytest.raises(UnknownNameError, match="'maximum'"):
        link([[1.0]], np.array([[1.0]]), "maxinum")


spaces = st.integers(1, 3).flatmap(
    lambda width: st.tuples(
        matrices(width),
        matrices(width),
        arrays(np.bool_, width),
        arrays(np.float64, width, elements=st.floats(0.1, 2)),
        st.sampled_from(["sum", "maximum"]),
    )
)


def all_distances(one, other, nominal, weights, criterion):
    apart = np.abs(one[:, None, :] - other[None, :, :])
    apart = np.where(nominal, apart > 0, apart) * weights
    if criterion == "maximum":
        return apart.max(axis=2)
    total = np.zeros(apart.shape[:2])
    for j in range(len(weights)):
        total = total + apart[:, :, j]
    return total


@settings(max_examples=80, deadline=None)
@given(space=spaces, k=st.integers(1, 4))
def test_the_k_nearest_are_those_of_the_definition(space, k):
    points, queries, nominal, weights, criterion = space
    tree = Neighbours(points, nominal=nominal, weights=weights, criterion=criterion)
    wanted = np.sort(all_distances(queries, points, nominal, weights, criterion), axis=1)[:, :k]
    found = tree.k_nearest(queries, k)
    assert np.array_equal(found[:, : wanted.shape[1]], wanted)
    assert np.all(np.isinf(found[:, wanted.shape[1] :]))
    groups = tree.nearest(queries)
    assert np.array_equal(groups.distances[groups.queries.point_of], wanted[:, 0])


@settings(max_examples=60, deadline=None)
@given(space=spaces)
def test_a_record_is_not_its_own_neighbour_but_its_twin_is(space):
    points, _, nominal, weights, criterion = space
    distances = all_distances(points, points, nominal, weights, criterion)
    np.fill_diagonal(distances, np.inf)
    tree = Neighbours(points, nominal=nominal, weights=weights, criterion=criterion)
    assert np.array_equal(tree.k_nearest(points, 1, themselves=True)[:, 0], distances.min(axis=1))


@settings(max_examples=60, deadline=None)
@given(tables=pairs, criterion=st.sampled_from(["sum", "maximum", "minimum"]))
def test_mutual_links_are_those_of_the_definition(tables, criterion):
    original, synthetic = tables
    distances = every_pair(original, synthetic, criterion)
    count = 0
    for i in range(len(original)):
        nearest = np.flatnonzero(distances[i] == distances[i].min())
        if len(nearest) == 1:
            back = distances[:, nearest[0]]
            count += np.flatnonzero(back == back.min()).tolist() == [i]
    assert mutual(original, synthetic, criterion) == count
    parts = [np.arange(0, len(original), 2), np.arange(1, len(original), 2)]
    assert sum(mutual(original, synthetic, criterion, part) for part in parts if len(part)) == count


@settings(max_examples=40, deadline=None)
@given(table=matrices(3))
def test_distinct_rows_hold_every_record_once(table):
    found = distinct_rows(table)
    assert np.array_equal(found.points[found.point_of], table)
    assert sorted(found.records.tolist()) == list(range(len(table)))
    for point in range(len(found.points)):
        records = found.records[found.offsets[point] : found.offsets[point + 1]]
        assert np.all(found.point_of[records] == point)


@settings(max_examples=40, deadline=None)
@given(values=st.lists(st.integers(-3, 3), min_size=1, max_size=30))
def test_ranks(values):
    given_values = np.array(values)
    ranks = order_ranks(given_values)
    assert sorted(ranks) == list(range(1, len(values) + 1))
    assert np.array_equal(given_values[np.argsort(ranks)], np.sort(given_values))
    below = (given_values[None, :] < given_values[:, None]).sum(axis=1)
    equal = (given_values[None, :] == given_values[:, None]).sum(axis=1)
    assert np.array_equal(mid_ranks(given_values), below + (equal + 1) / 2)


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(1, 20), wanted=st.integers(1, 20), seed=st.integers(0, 5))
def test_equal_sizes(rows, wanted, seed):
    chosen = same_size(rows, wanted, seed)
    assert len(chosen) == wanted
    if rows >= wanted:
        assert len(set(chosen.tolist())) == wanted
    else:
        assert set(chosen.tolist()) == set(range(rows))
