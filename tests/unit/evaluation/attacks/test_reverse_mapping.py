"""Reverse mapping: Ruiz et al.'s Table 2 exactly, and the law of the procedure on any data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from papers.reproduced.ruiz import TABLE_2
from understudy.errors import InputError
from understudy.evaluation.attacks.reverse_mapping import reverse_map


@pytest.mark.parametrize("copy", [1, 2, 3])
def test_table_2_exactly(copy):
    """The printed values are rounded, so ties hide the order: the printed ranks say which was greater."""
    synthetic, ranks, mapped, noises = (np.array(TABLE_2[f"{name} {copy}"]) for name in ("Y", "rank", "Z", "noise"))
    values, noise, permutation = reverse_map(TABLE_2["X"], synthetic, ranks=ranks)
    assert values.tolist() == mapped.tolist()
    assert noise.tolist() == noises.tolist()
    assert np.array(TABLE_2["X"])[permutation].tolist() == mapped.tolist()
    assert sorted(permutation) == list(range(20))


tables = st.tuples(st.integers(1, 30), st.integers(1, 30), st.integers(1, 3)).flatmap(
    lambda shape: st.tuples(
        arrays(np.int64, (shape[0], shape[2]), elements=st.integers(-4, 4)),
        arrays(np.int64, (shape[1], shape[2]), elements=st.integers(-9, 9)),
    )
)


@settings(max_examples=100, deadline=None)
@given(tables=tables, seed=st.integers(0, 3))
def test_the_law_of_the_procedure(tables, seed):
    original, synthetic = tables
    values, noise, permutation = reverse_map(original, synthetic, seed=seed)
    assert values.shape == original.shape
    assert np.array_equal(np.sort(values, axis=0), np.sort(original, axis=0))  # the margins are the original's
    assert np.array_equal(np.take_along_axis(original, permutation, axis=0), values)
    made = values + noise
    pool = {tuple(row) for row in synthetic.tolist()}
    assert {tuple(row) for row in made.tolist()} <= pool  # the sampled synthetic rows, whole
    for j in range(original.shape[1]):  # ranks are kept: a greater synthetic value never maps to a smaller one
        order = np.argsort(made[:, j], kind="stable")
        assert np.all(np.diff(values[order, j]) >= 0)


def test_a_copy_of_the_data_has_no_noise_and_permutes_nothing():
    x = np.array([3.5, 1.0, 2.0, 2.0])
    values, noise, permutation = reverse_map(x, x)
    assert values.tolist() == x.tolist()
    assert not noise.any()
    assert permutation.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("original", "synthetic", "ranks", "words"),
    [
        ([1, 2], [[1], [2]], None, "same attributes"),
        (["a", "b"], [1, 2], None, "numbers"),
        ([], [], None, "at least one"),
        ([1.0, np.inf], [1.0, 2.0], None, "finite"),
        ([1, 2], [1, 2], [1, 1], "each once"),
        ([1, 2], [1, 2, 3], [1, 2], "each once"),
    ],
)
def test_bad_input_is_refused(original, synthetic, ranks, words):
    with pytest.raises(InputError, match=words):
        reverse_map(np.array(original), np.array(synthetic), ranks=ranks)


def test_differences_of_unsigned_numbers_do_not_wrap_around():
    x, y = np.array([10, 20, 30], np.uint8), np.array([7, 25, 30], np.uint8)
    assert reverse_map(x, y).noise.tolist() == [-3, 5, 0]
    assert reverse_map(x, y, ranks=[1.0, 2.0, 3.0]).noise.tolist() == [-3, 5, 0]
