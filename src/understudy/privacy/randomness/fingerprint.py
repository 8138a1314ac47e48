"""How a resumed run recognises its data: a keyed sum over rows that does not depend on their order.

Law: F(table) = sum over rows of AES-CBC-MAC(key, row) in the group (Z mod 2^64)^2, each row as the words of its codes.
A sum has no order, so rows may be divided among files, batches and machines in any way, and sums of parts add up. Two
tables that differ, chosen without the key, have the same sum with probability of at most 2^-64, as long as no row
occurs 2^32 times (docs/theory/ledger.md, "The same data").

The key is one of its own, from the operating system's entropy. Noise is never drawn with it, so it may lie in the run
folder. Beside it the sum confirms guesses about the data: the two are confidential and stay in that folder.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Integers
from understudy.core.mechanism import Stream
from understudy.errors import DisclosureError, InputError
from understudy.privacy.randomness.draws import KEY_BYTES, WORD_BITS, KeyedStream, encrypted_blocks

MODULUS = 1 << WORD_BITS


class DataKey:
    """The key of a run for its data. It decides which rows of a unit are kept, and it keys the fingerprint, so a
    resumed run finds the same. It is written to the run folder and nowhere else."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise InputError(f"the key of a run's data must be {KEY_BYTES} bytes.")
        self._key = key

    @classmethod
    def fresh(cls) -> DataKey:
        """From the operating system's entropy."""
        return cls(os.urandom(KEY_BYTES))

    @classmethod
    def beside(cls, stream: Stream) -> DataKey:
        """A fresh key; for a test stream, which promises nothing, a key that can be repeated like its words."""
        if stream.secure:
            return cls.fresh()
        return cls(hashlib.sha256(stream.words(4, "data key").tobytes()).digest())

    @classmethod
    def from_text(cls, text: str) -> DataKey:
        """What :meth:`to_text` wrote into a run folder."""
        try:
            return cls(bytes.fromhex(text))
        except (TypeError, ValueError):
            raise InputError("the run folder is damaged: the key of its data cannot be read.") from None

    def to_text(self) -> str:
        return self._key.hex()

    def bounding(self) -> KeyedStream:
        """The words that choose which rows of a unit are kept (docs/theory/sensitivity.md says what rests on them)."""
        return KeyedStream(key=self._key)

    def fingerprint_key(self) -> bytes:
        return KeyedStream(key=self._key).derived_key("fingerprint of the data")

    def __repr__(self) -> str:
        return "DataKey()"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise DisclosureError("the key of a run's data stays in its run folder and cannot be saved elsewhere.")


class RowSum:
    """The running sum of keyed hashes of rows.

    >>> first, second = RowSum(bytes(32)), RowSum(bytes(32))
    >>> first.add([np.array([1, 2, 2])])
    >>> second.add([np.array([2, 1])], times=np.array([2, 1]))
    >>> first.text == second.text
    True
    """

    __slots__ = ("_key", "parts")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.parts = (0, 0)

    def add(self, words: Sequence[Integers], times: Integers | None = None) -> None:
        """Rows given by their words, the same number for every row of a run; row r counts ``times[r]`` times."""
        state: NDArray[np.uint64] | None = None
        for place in range(0, len(words), 2):
            block = np.zeros((len(words[0]), 2), dtype=np.uint64)
            for half, word in enumerate(words[place : place + 2]):
                block[:, half] = word
            state = encrypted_blocks(self._key, block if state is None else block ^ state)
        assert state is not None  # noqa: S101  (a row has a word)
        weighted = state if times is None else state * times.astype(np.uint64)[:, None]
        self.merge([int(weighted[:, half].sum(dtype=np.uint64)) for half in (0, 1)])

    def merge(self, parts: Sequence[int]) -> None:
        """Adds the sum of other rows."""
        low, high = ((mine + other) % MODULUS for mine, other in zip(self.parts, parts, strict=True))
        self.parts = (low, high)

    @property
    def text(self) -> str:
        """As it is written to the run folder."""
        return "".join(f"{part:016x}" for part in self.parts)
