from __future__ import annotations

import copy
import os
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from understudy.errors import DisclosureError, InputError, InternalError
from understudy.privacy.randomness import draws
from understudy.privacy.randomness.draws import KeyedStream, accept_words, encode_purpose, keystream, uniform_below

KEY = bytes(range(32))


def test_nist_vectors_of_aes_256_counter_mode() -> None:
    """NIST SP 800-38A, F.5.5: ciphertext xor plaintext is the key stream."""
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    plain = bytes.fromhex(
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
        "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
    )
    cipher = bytes.fromhex(
        "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"
        "2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6"
    )
    first = int.from_bytes(bytes.fromhex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"), "big")
    assert keystream(key, first, 64) == bytes(a ^ b for a, b in zip(plain, cipher, strict=True))
    assert keystream(key, first + 2, 20) == bytes(a ^ b for a, b in zip(plain, cipher, strict=True))[32:52]


def test_words_are_the_key_stream_of_the_substream_key(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    real = keystream

    def spy(key: bytes, first: int, count: int) -> bytes:
        seen.append(key)
        return real(key, first, count)

    monkeypatch.setattr(draws, "keystream", spy)
    words = KeyedStream(key=KEY).words(4, "rows", 1)
    assert words.astype("<u8").tobytes() == real(seen[0], 0, 32)
    assert seen[0] != KEY


def test_consecutive_calls_continue_a_substream() -> None:
    whole = KeyedStream(key=KEY).words(100, "a")
    stream = KeyedStream(key=KEY)
    parts = [stream.words(count, "a") for count in (1, 2, 0, 3, 7, 50, 37)]
    assert np.array_equal(np.concatenate(parts), whole)


def test_substreams_do_not_depend_on_each_other() -> None:
    one, two = KeyedStream(key=KEY), KeyedStream(key=KEY)
    first = one.words(5, "a", 1), one.words(5, "a", 2)
    second = two.words(5, "a", 2), two.words(5, "a", 1)
    assert np.array_equal(first[0], second[1])
    assert np.array_equal(first[1], second[0])
    assert not set(first[0].tolist()) & set(first[1].tolist())


def test_purposes_never_read_the_same() -> None:
    purposes = [
        (), ("",), ("", ""), ("a",), ("a", "b"), ("ab",), ("a", ""), ("", "a"), (1,), ("1",), (11,), (1, 1), (-1,),
        ("s1:a",), ("a", "s1:b"), ("as1:b",), ("as:b",), ("a", "s:b"), ("é",), (10, "x"), (1, "0x"),
    ]  # fmt: skip
    assert len({encode_purpose(purpose) for purpose in purposes}) == len(purposes)
    assert encode_purpose((np.int64(3),)) == encode_purpose((3,))  # type: ignore[arg-type]
    with pytest.raises(InternalError):
        encode_purpose((1.5,))  # type: ignore[arg-type]
    with pytest.raises(InternalError):
        encode_purpose((True,))


def test_keys_are_fresh() -> None:
    assert not np.array_equal(KeyedStream().words(4, "a"), KeyedStream().words(4, "a"))


def test_only_an_own_key_is_secure() -> None:
    assert KeyedStream().secure
    assert not KeyedStream(key=KEY).secure
    with pytest.raises(InputError, match="32 bytes"):
        KeyedStream(key=b"short")


def test_the_key_cannot_get_out() -> None:
    stream = KeyedStream(key=KEY)
    for text in (repr(stream), str(stream), f"{stream}"):
        assert text == "KeyedStream(not secure)"
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(DisclosureError) as caught:
            leak(stream)
        assert KEY.hex() not in str(caught.value)
        assert repr(KEY) not in str(caught.value)
    assert not hasattr(stream, "__dict__")


def test_a_counter_that_would_repeat_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InternalError, match="overflow"):
        keystream(KEY, 2**128 - 1, 17)
    assert len(keystream(KEY, 2**128 - 1, 16)) == 16
    monkeypatch.setattr(draws, "SUBSTREAM_WORDS", 10)
    stream = KeyedStream(key=KEY)
    stream.words(10, "a")
    stream.words(10, "b")
    with pytest.raises(InternalError, match="limited"):
        stream.words(1, "a")
    with pytest.raises(InputError, match="negative"):
        stream.words(-1, "c")


def test_a_forked_child_cannot_repeat_its_parent() -> None:
    stream = KeyedStream()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            stream.words(1, "a")
        except InternalError:
            os.write(write, b"refused")
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read() == b"refused"
    assert len(stream.words(1, "a")) == 1


@pytest.mark.parametrize("bits", [3, 4, 5, 8])
def test_rejection_is_exactly_uniform_by_enumeration(bits: int) -> None:
    every_word = np.arange(1 << bits, dtype=np.uint64)
    for bound in range(1, (1 << bits) + 1):
        counts = np.bincount(accept_words(every_word, bound, bits=bits), minlength=bound)
        assert (counts == (1 << bits) // bound).all()


class Words:
    """A stream that hands out given words."""

    secure = False

    def __init__(self, words: list[int]) -> None:
        self.left = list(words)

    def words(self, count: int, *purpose: str | int) -> np.ndarray:
        taken, self.left = self.left[:count], self.left[count:]
        return np.array(taken, dtype=np.uint64)


def test_rejected_words_are_replaced_in_order() -> None:
    top = 2**64 - 1  # 2^64 = 1 modulo 3, 5 and 15: the last word is rejected
    words = [7, top, 9, top, top, 11, 4, 8]
    assert uniform_below(Words(words), 5, 4, "a").tolist() == [2, 4, 1, 4]  # type: ignore[arg-type]
    split = Words(words)
    parts = [uniform_below(split, 5, count, "a").tolist() for count in (1, 2, 1)]  # type: ignore[arg-type]
    assert [value for part in parts for value in part] == [2, 4, 1, 4]
    assert split.left == [8]


def test_bounds_of_uniform_draws() -> None:
    stream = KeyedStream(key=KEY)
    assert uniform_below(stream, 1, 5, "a").tolist() == [0] * 5
    assert uniform_below(stream, 7, 0, "a").tolist() == []
    high = uniform_below(stream, 2**63, 1000, "b")
    assert high.min() >= 0
    assert high.max() > 2**62
    for bound in (0, -1, 2**63 + 1):
        with pytest.raises(InputError, match="bound"):
            uniform_below(stream, bound, 1, "a")


def test_a_key_that_was_handed_out_draws_the_same_words_elsewhere_and_none_here():
    here, same = (KeyedStream(key=bytes(range(32))) for _ in range(2))
    key = here.hand_out("draw", 1)
    assert repr(key) == "TravellingKey()"
    there = pickle.loads(pickle.dumps(key)).stream()  # noqa: S301
    again = key.stream()
    expected = same.words(5, "draw", 1, "place")
    assert there.secure is False
    for stream in (there, again):
        assert np.array_equal(stream.words(5, "draw", 1, "place"), expected)
    with pytest.raises(InternalError, match="handed out"):
        here.words(1, "draw", 1, "place")
    assert len(here.words(1, "draw", 2)) == 1
    for purpose in (("draw",), ("draw", 1), ("draw", 1, "place"), ("draw", 2)):
        with pytest.raises(InternalError, match="before"):
            here.hand_out(*purpose)
    assert KeyedStream().hand_out("x").stream().secure is True


def test_threads_share_a_stream_without_sharing_words() -> None:
    """Every word of the substream is given once, whichever thread asked for it."""
    stream = KeyedStream(key=KEY)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            parts = list(pool.map(lambda _: stream.words(3, "shared"), range(4_000)))
    finally:
        sys.setswitchinterval(before)
    expected = KeyedStream(key=KEY).words(12_000, "shared")
    assert np.array_equal(np.sort(np.concatenate(parts)), np.sort(expected))
