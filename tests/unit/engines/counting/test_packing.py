"""Rows as words: nothing lost, and ordered by what they say."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.core.schema import Attribute, Schema
from understudy.engines.counting.packing import pack, unpack, word_groups


@given(st.lists(st.integers(1, 2**20), min_size=1, max_size=8), st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_words_hold_every_code_and_their_order(sizes, seed):
    sizes = [min(size, 2000) if seed % 2 else size % 50 + 1 for size in sizes]
    schema = Schema(
        attributes=tuple(
            Attribute(name=f"a{number}", edges=tuple(range(size + 1))) for number, size in enumerate(sizes)
        )
    )
    rng = np.random.default_rng(seed)
    codes = {f"a{number}": rng.integers(0, size, 30) for number, size in enumerate(sizes)}
    words = pack(codes, schema)
    assert len(words) == len(word_groups(schema))
    assert all(word.min() >= 0 for word in words)
    back = unpack(words, schema)
    assert all(np.array_equal(back[name], codes[name]) for name in schema.names)
    rows = list(zip(*(codes[name] for name in schema.names), strict=True))
    by_words = sorted(range(30), key=lambda row: tuple(word[row] for word in words))
    assert [rows[row] for row in by_words] == sorted(rows)


def test_a_full_word_is_used_to_its_last_number():
    schema = Schema(attributes=tuple(Attribute(name=name, edges=tuple(range(2**9 + 1))) for name in "abcdefgh"))
    assert word_groups(schema) == (tuple("abcdefg"), ("h",))  # 9 x 7 = 63 bits
    codes = {name: np.array([2**9 - 1]) for name in "abcdefgh"}
    assert pack(codes, schema)[0][0] == 2**63 - 1
