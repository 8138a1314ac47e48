from __future__ import annotations

import copy
import os
import pickle
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from understudy.errors import DisclosureError, InputError, InternalError
from understudy.privacy.randomness import streams
from understudy.privacy.randomness.streams import LARGEST_SCALE, SMALLEST_SCALE, SecureStream, SeededStream, exact_float

LAWS = ("discrete_laplace", "discrete_gaussian")


def test_what_may_carry_a_promise() -> None:
    assert SecureStream().secure
    assert not SeededStream(1).secure


def test_a_secure_stream_cannot_be_saved_or_read() -> None:
    stream = SecureStream()
    assert repr(stream) == "SecureStream()"
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(DisclosureError, match="key"):
            leak(stream)


@pytest.mark.parametrize("law", LAWS)
def test_a_secure_stream_never_repeats(law: str) -> None:
    first, second = (getattr(SecureStream(), law)(Fraction(1000), 50) for _ in range(2))
    assert not np.array_equal(first, second)
    assert first.dtype == np.int64
    assert not np.array_equal(SecureStream().words(4, "a"), SecureStream().words(4, "a"))


def in_child(action: Callable[[], bytes]) -> bytes:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, action())
        except InternalError:
            os.write(write, b"refused")
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as pipe:
        return pipe.read()


@pytest.mark.parametrize("law", LAWS)
def test_noise_is_not_repeated_in_a_forked_child(law: str) -> None:
    parent = SecureStream()
    scale = Fraction(2**30)
    getattr(parent, law)(scale, 10)  # the library's generator is in use before the fork
    assert in_child(lambda: getattr(parent, law)(scale, 10).tobytes()) == b"refused"
    assert in_child(lambda: bytes([parent.noisy_argmax(np.array([1, 2]), scale)])) == b"refused"
    theirs = np.frombuffer(in_child(lambda: getattr(SecureStream(), law)(scale, 20).tobytes()), dtype=np.int64)
    ours = getattr(parent, law)(scale, 20)
    assert len(theirs) == 20
    assert not set(ours.tolist()) & set(theirs.tolist())  # a chance meeting has probability below 1e-6


@pytest.mark.parametrize("law", LAWS)
def test_a_seeded_stream_repeats(law: str) -> None:
    first, second, other = (getattr(SeededStream(seed), law)(Fraction(1000), 50) for seed in (1, 1, 2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)
    assert np.array_equal(SeededStream(1).words(4, "a"), SeededStream(1).words(4, "a"))
    assert not np.array_equal(SeededStream(1).words(4, "a"), SeededStream(2).words(4, "a"))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("stream", [SecureStream(), SeededStream(3)], ids=["secure", "seeded"])
def test_extreme_scales(stream: SecureStream | SeededStream, law: str) -> None:
    assert getattr(stream, law)(SMALLEST_SCALE, 20).tolist() == [0] * 20
    assert np.abs(getattr(stream, law)(LARGEST_SCALE, 20)).max() > 2**36
    assert getattr(stream, law)(Fraction(1), 0).shape == (0,)
    for scale in (SMALLEST_SCALE / 2, LARGEST_SCALE * 2, Fraction(0), Fraction(-1)):
        with pytest.raises(InputError, match="between"):
            getattr(stream, law)(scale, 1)


def test_the_sampler_gets_exactly_the_scale_that_is_charged() -> None:
    assert exact_float(Fraction(0.1)) == 0.1
    with pytest.raises(InternalError, match="exact value"):
        exact_float(Fraction(1, 10))


def test_large_requests_are_drawn_in_parts_and_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "DRAWS_PER_CALL", 10)
    told: list[int] = []
    noise = SecureStream(progress=told.append).discrete_laplace(Fraction(10**6), 25)
    assert told == [10, 10, 5]
    assert len(np.unique(noise)) > 15  # every part was filled by its own draws


@pytest.mark.parametrize("fault", [2**62, -(2**62), 2**63 - 1, -(2**63)])
def test_a_saturated_draw_is_an_error(fault: int) -> None:
    with pytest.raises(InternalError, match="range"):
        SecureStream()._noise(lambda zeros: [fault] * len(zeros), 3)
    assert SecureStream()._noise(lambda zeros: [2**62 - 1] * len(zeros), 1).tolist() == [2**62 - 1]


@pytest.mark.parametrize("stream", [SecureStream(), SeededStream(3)], ids=["secure", "seeded"])
def test_noisy_argmax_with_little_noise_is_the_argmax(stream: SecureStream | SeededStream) -> None:
    scores = np.array([5, 900, -7, 899], dtype=np.int64)
    assert {stream.noisy_argmax(scores, Fraction(1, 2**10)) for _ in range(20)} == {1}
    assert stream.noisy_argmax(np.array([3]), Fraction(1)) == 0
    assert stream.noisy_argmax(np.array([-(2**63), 2**63 - 1]), Fraction(1)) == 1
    for bad in (np.array([], dtype=np.int64), np.array([1.5]), np.array([[1, 2]])):
        with pytest.raises(InputError, match="whole-number scores"):
            stream.noisy_argmax(bad, Fraction(1))
