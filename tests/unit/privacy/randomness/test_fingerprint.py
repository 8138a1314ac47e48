"""The keyed sum over rows: no order, no parts, and any change seen."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from understudy.errors import DisclosureError, InputError
from understudy.privacy.randomness.draws import encrypted_blocks
from understudy.privacy.randomness.fingerprint import DataKey, RowSum
from understudy.privacy.randomness.streams import SecureStream, SeededStream

KEY = bytes(range(32))
ROWS = st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=12)


def summed(rows, key=KEY):
    sums = RowSum(key)
    sums.add([np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)])
    return sums.text


@given(ROWS, st.randoms(use_true_random=False), st.integers(0, 12))
@settings(max_examples=60, deadline=None)
def test_order_and_parts_do_not_matter(rows, chance, cut):
    shuffled = chance.sample(rows, len(rows))
    parts = RowSum(KEY)
    for part in (shuffled[:cut], shuffled[cut:]):
        if part:
            one = RowSum(KEY)
            one.add([np.array(column, dtype=np.int64) for column in zip(*part, strict=True)])
            parts.merge(one.parts)
    assert parts.text == summed(rows)


@given(ROWS, ROWS)
@settings(max_examples=60, deadline=None)
def test_other_rows_have_another_sum(first, second):
    """By chance they agree with probability of at most 2^-64."""
    assert (summed(first) == summed(second)) == (sorted(first) == sorted(second))


def test_neither_duplicates_nor_columns_cancel():
    texts = [
        summed([(1, 2, 0)]), summed([(1, 2, 0)] * 2), summed([(1, 2, 0)] * 3), summed([(2, 1, 0)]),
        summed([(1, 0, 2)]), summed([(0, 1, 2)]), summed([(1, 2, 0), (0, 0, 0)]),
        summed([(1, 2, 0), (1, 2, 0), (3, 4, 0), (3, 4, 0)]), summed([(1, 2, 0), (3, 4, 0)]),
    ]  # fmt: skip
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("words", [1, 2, 3, 4, 5])
def test_every_word_of_a_row_counts(words):
    row = [7] * words
    texts = [summed([tuple(row)])]
    for place in range(words):
        texts.append(summed([tuple(8 if number == place else 7 for number in range(words))]))
    assert len(set(texts)) == words + 1


def test_a_row_that_counts_several_times_is_as_many_rows():
    counted, single = RowSum(KEY), RowSum(KEY)
    counted.add([np.array([5, 6]), np.array([1, 2])], times=np.array([3, 2]))
    single.add([np.array([5, 6, 5, 6, 5]), np.array([1, 2, 1, 2, 1])])
    assert counted.text == single.text
    nothing = RowSum(KEY)
    nothing.add([np.array([5])], times=np.array([0]))
    assert nothing.parts == (0, 0)


def test_another_key_gives_another_sum():
    assert summed([(1, 2, 0)], bytes(32)) != summed([(1, 2, 0)])


def test_blocks_are_encrypted_one_by_one():
    """The example of FIPS 197, appendix C.3: AES-256 of 00112233...ff under 000102...1f."""
    block = np.frombuffer(bytes.fromhex("00112233445566778899aabbccddeeff"), dtype="<u8").reshape(1, 2)
    expected = bytes.fromhex("8ea2b7ca516745bfeafc49904b496089")
    found = encrypted_blocks(KEY, np.repeat(block, 3, axis=0))
    assert [row.astype("<u8").tobytes() for row in found] == [expected] * 3


def test_a_key_is_fresh_and_that_of_a_test_stream_repeats():
    assert DataKey.fresh().to_text() != DataKey.fresh().to_text()
    assert DataKey.beside(SecureStream()).to_text() != DataKey.beside(SecureStream()).to_text()
    assert DataKey.beside(SeededStream(1)).to_text() == DataKey.beside(SeededStream(1)).to_text()
    assert DataKey.beside(SeededStream(1)).to_text() != DataKey.beside(SeededStream(2)).to_text()


def test_the_key_of_a_folder_gives_the_same_words_and_the_same_fingerprint_key():
    key = DataKey.fresh()
    again = DataKey.from_text(key.to_text())
    assert_array_equal(key.bounding().words(5, "rows per unit", "a"), again.bounding().words(5, "rows per unit", "a"))
    assert key.fingerprint_key() == again.fingerprint_key()
    assert key.fingerprint_key().hex() != key.to_text()


def test_a_key_shows_nothing_and_is_not_saved():
    key = DataKey.fresh()
    assert repr(key) == "DataKey()"
    with pytest.raises(DisclosureError):
        pickle.dumps(key)
    for text in ("", "00", "zz" * 32, None, 7):
        with pytest.raises(InputError):
            DataKey.from_text(text)
