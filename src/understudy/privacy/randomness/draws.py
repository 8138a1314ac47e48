"""A cryptographic stream of words, for the draws whose randomness is the privacy and which OpenDP does not offer.

Words are the key stream of AES-256 in counter mode. Each stream has a fresh 256-bit key from the operating system;
each purpose (say ``("rows", copy, stratum)``) has its own substream under its own key, HMAC-SHA256(key, purpose), so
that no two purposes ever share a counter block and output does not depend on the order in which substreams are read.
See docs/theory/keyed-stream.md.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import threading
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from understudy.core.domain import Domain
from understudy.core.prior_weights import WeightedCells
from understudy.errors import DisclosureError, InputError, InternalError

if TYPE_CHECKING:
    from understudy.core.mechanism import Stream, Words

KEY_BYTES = 32
BLOCK_BYTES = 16
WORD_BYTES = 8
WORD_BITS = 64
# 2^39 blocks under one key: the best distinguisher of a permutation from a function then has advantage below 2^-51.
SUBSTREAM_WORDS = 2**40


class KeyedStream:
    """Uniform 64-bit words from AES-256-CTR, one substream per purpose.

    A key may be injected by a test; the stream then says ``secure = False`` and no privacy promise may rest on it.
    The key cannot be read, shown or saved. Python cannot promise to erase it from memory.

    A forked child holds a copy of the key and would repeat its parent's words, so a stream works only in the process
    that made it. It raises instead of taking a new key silently: a new key would be safe, but would quietly lose the
    property that output does not depend on how the work was divided. Threads of that process may share it: no word is
    given twice. (A child checks its process before it takes the lock, which may never be released there.)

    >>> KeyedStream().words(2, "example").dtype
    dtype('uint64')
    """

    __slots__ = ("_handed_out", "_key", "_lock", "_pid", "_used", "secure")

    def __init__(self, *, key: bytes | None = None) -> None:
        if key is not None and (not isinstance(key, bytes) or len(key) != KEY_BYTES):
            raise InputError(f"an injected key must be {KEY_BYTES} bytes.")
        self.secure = key is None
        self._key = os.urandom(KEY_BYTES) if key is None else key
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._used: dict[bytes, int] = {}
        self._handed_out: list[bytes] = []

    def require_own_process(self) -> None:
        """Raises in a forked child."""
        if os.getpid() != self._pid:
            raise InternalError("a random stream cannot be used in a forked process; make a new stream there.")

    def words(self, count: int, *purpose: str | int) -> NDArray[np.uint64]:
        """The next ``count`` words of the substream named by ``purpose``."""
        self.require_own_process()
        if count < 0:
            raise InputError(f"the number of words ({count}) must not be negative.")
        name = encode_purpose(purpose)
        with self._lock:
            self._require_here(name)
            start = self._used.get(name, 0)
            if start + count > SUBSTREAM_WORDS:
                raise InternalError(f"a substream is limited to {SUBSTREAM_WORDS} words; use more purposes.")
            self._used[name] = start + count
        block, skip = divmod(start * WORD_BYTES, BLOCK_BYTES)
        substream_key = hmac.new(self._key, name, hashlib.sha256).digest()
        raw = keystream(substream_key, block, skip + count * WORD_BYTES)
        return np.frombuffer(raw, dtype="<u8", offset=skip, count=count).astype(np.uint64, copy=False)

    def derived_key(self, *purpose: str | int) -> bytes:
        """A key of its own for ``indexed_words``, the same at every call and unlike the key of any substream."""
        self.require_own_process()
        name = encode_purpose(purpose)
        with self._lock:
            self._require_here(name)
            self._used.setdefault(name, 0)
        return hmac.new(self._key, b"understudy-derived-key-1" + name, hashlib.sha256).digest()

    def hand_out(self, *purpose: str | int) -> TravellingKey:
        """The key, for tasks in other processes that draw the substreams whose names begin with ``purpose``.

        A purpose is handed out once and never drawn here, so that each word exists in one place. Who takes it must
        give every substream to one task and start it anew whenever the task is run again: a repeated task then draws
        the same words, and two versions of one draw cannot exist.
        """
        self.require_own_process()
        name = encode_purpose(purpose)
        with self._lock:
            if any(used.startswith(name) or name.startswith(used) for used in (*self._used, *self._handed_out)):
                raise InternalError("these words were drawn or handed out before; use another purpose.")
            self._handed_out.append(name)
        return TravellingKey(self._key, self.secure)

    def _require_here(self, name: bytes) -> None:
        if any(name.startswith(given) for given in self._handed_out):
            raise InternalError("these words were handed out to other processes; they cannot be drawn here too.")

    def __repr__(self) -> str:
        return "KeyedStream()" if self.secure else "KeyedStream(not secure)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise DisclosureError("a random stream cannot be saved or copied: its key would undo the privacy.")


class TravellingKey:
    """The key of a stream on its way into the closure of a task: the one thing about a stream that can be serialized.

    It can only be made into a stream where it arrives. Whoever sends it is responsible for the transport: an encrypted
    network, and never a file.
    """

    __slots__ = ("_key", "_secure")

    def __init__(self, key: bytes, secure: bool) -> None:
        self._key, self._secure = key, secure

    def stream(self) -> KeyedStream:
        """A stream at the beginning of every substream; a task makes one each time it runs."""
        stream = KeyedStream(key=self._key)
        stream.secure = self._secure
        return stream

    def __repr__(self) -> str:
        return "TravellingKey()"

    def __reduce__(self) -> tuple[type[TravellingKey], tuple[bytes, bool]]:
        return TravellingKey, (self._key, self._secure)


def keystream(key: bytes, first_block: int, count: int) -> bytes:
    """``count`` bytes of AES-CTR key stream; the counter is the whole 128-bit block, starting at ``first_block``."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import CTR

    blocks = -(-count // BLOCK_BYTES)
    if first_block < 0 or first_block + blocks > 1 << 128:
        raise InternalError("the AES counter would overflow and repeat.")
    counter = first_block.to_bytes(BLOCK_BYTES, "big")
    return Cipher(AES(key), CTR(counter)).encryptor().update(bytes(count))


def indexed_words(
    key: bytes, indices: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The first ``counts[i]`` words (rounded up to even) of the substream numbered ``indices[i]``, and where each
    begins.

    The counter block is the index in its upper half and the number of the block in its lower, so substreams never share
    a block, and the words of an index do not depend on which others are asked for. This is counter mode with the index
    as nonce, for millions of short substreams at once; deriving a key for each would cost more than the draws.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import ECB

    if len(key) != KEY_BYTES or (len(indices) and int(indices.min()) < 0):
        raise InternalError("indexed words need a key of 32 bytes and indices of at least 0.")
    blocks = (counts + 1) // 2
    ends = np.cumsum(blocks)
    total = int(ends[-1]) if len(ends) else 0
    counters = np.empty((total, 2), dtype=">u8")
    counters[:, 0] = np.repeat(indices, blocks)
    counters[:, 1] = np.arange(total) - np.repeat(ends - blocks, blocks)
    raw = Cipher(AES(key), ECB()).encryptor().update(counters.tobytes())  # noqa: S305 - of counters: this is CTR
    return np.frombuffer(raw, dtype="<u8").astype(np.uint64, copy=False), 2 * (ends - blocks)


def encrypted_blocks(key: bytes, blocks: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Each row of two words under AES-256: a keyed permutation of blocks, for hashing and not for secrecy."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import ECB

    plain = np.ascontiguousarray(blocks, dtype="<u8").data.cast("B") if blocks.size else b""
    raw = Cipher(AES(key), ECB()).encryptor().update(plain)  # noqa: S305 - as above
    return np.frombuffer(raw, dtype="<u8").astype(np.uint64, copy=False).reshape(-1, 2)


def encode_purpose(purpose: tuple[str | int, ...]) -> bytes:
    """An encoding that differs for different purposes: each part with its type and length.

    >>> encode_purpose(("a", "b")) == encode_purpose(("ab",))
    False
    >>> encode_purpose((1,)) == encode_purpose(("1",))
    False
    """
    parts = [b"understudy-substream-1"]
    for part in purpose:
        if isinstance(part, bool) or not isinstance(part, int | str | np.integer):
            raise InternalError("the purpose of a substream is made of texts and whole numbers.")
        kind, text = ("s", part) if isinstance(part, str) else ("i", str(int(part)))
        raw = text.encode()
        parts.append(f"{kind}{len(raw)}:".encode() + raw)
    return b"".join(parts)


def unit_interval(stream: Words, count: int, *purpose: str | int) -> NDArray[np.float64]:
    """Uniform multiples of 2^-53 in [0, 1), for draws on which no privacy rests (placing values, drawing rows)."""
    return (stream.words(count, *purpose) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def uniform_below(stream: Stream, bound: int, count: int, *purpose: str | int) -> NDArray[np.int64]:
    """``count`` whole numbers, exactly uniform on 0, ..., bound - 1.

    By rejection: words from the incomplete last run of ``bound`` are thrown away. Exactly as many words are read as
    are needed, in order, so two calls give what one call for their sum would.
    """
    if not 1 <= bound <= 2**63:
        raise InputError(f"the bound ({bound}) of a uniform draw must be between 1 and 2^63.")
    drawn = np.empty(count, dtype=np.int64)
    filled = 0
    while filled < count:
        values = accept_words(stream.words(count - filled, *purpose), bound)
        drawn[filled : filled + len(values)] = values
        filled += len(values)
    return drawn


def accept_words(words: NDArray[np.uint64], bound: int, *, bits: int = WORD_BITS) -> NDArray[np.int64]:
    """The accepted words, reduced modulo ``bound``.

    Of the 2^bits words the first ``bound * (2^bits // bound)`` are accepted, so each residue has exactly
    ``2^bits // bound`` of them. ``bits`` is smaller than 64 only where the claim is checked by enumeration.
    """
    last_accepted = (1 << bits) - (1 << bits) % bound - 1
    return (words[words <= np.uint64(last_accepted)] % np.uint64(bound)).astype(np.int64)


def uniform_below_each(stream: Stream, bounds: NDArray[np.uint64], *purpose: str | int) -> NDArray[np.uint64]:
    """One whole number per bound, each exactly uniform on 0, ..., bound - 1, by rejection as above."""
    drawn = np.empty(len(bounds), dtype=np.uint64)
    waiting = np.arange(len(bounds))
    while len(waiting):
        words, bound = stream.words(len(waiting), *purpose), bounds[waiting]
        # 2^64 mod bound words at the top would favour small values: (2^64 - bound) mod bound in 64-bit arithmetic.
        surplus = (np.uint64(0) - bound) % bound
        accepted = words <= ~surplus
        drawn[waiting[accepted]] = words[accepted] % bound[accepted]
        waiting = waiting[~accepted]
    return drawn


def polya_urn(
    cells: NDArray[np.int64],
    counts: NDArray[np.int64],
    domain: Domain,
    stream: Stream,
    *purpose: str | int,
    prior: Fraction,
    rows: int,
    weights: WeightedCells | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The posterior-predictive draw of a multinomial with a Dirichlet prior: cells drawn, and how often.

    An urn starts with ``prior`` balls for each possible cell and one for each record; each row draws a ball, notes its
    cell and returns it with one more of that cell. The noted cells have exactly the Dirichlet-multinomial law
    (Blackwell and MacQueen 1973). One whole number per row decides everything: with prior = p/q and K possible cells
    it is uniform below K p + (n + rows drawn so far) q. Work is in the rows drawn; the number of cells does not
    matter. With ``weights`` a cell of weight w starts with w times the prior, and K is the sum of all weights. See
    docs/theory/urn.md.
    """
    weight, unit = prior.numerator, prior.denominator
    of_prior, records = (domain.possible if weights is None else weights.total) * weight, int(counts.sum())
    if rows and of_prior + records == 0:
        raise InputError("the table is empty and no cell has a prior; no rows can be drawn.")
    from_prior, from_record, number = _balls(of_prior, records, unit, rows, stream, *purpose)
    drawn = np.empty(rows, dtype=np.int64)
    if weights is None:
        drawn[from_prior] = _possible_cells(number[from_prior], weight, domain, stream, *purpose)
    else:
        drawn[from_prior] = weights.cells_of((number[from_prior] // weight).astype(np.int64))
    drawn[from_record] = cells[np.searchsorted(np.cumsum(counts), number[from_record], side="right")]
    # The rest repeat an earlier row, which may itself be a repetition: follow each chain to its first row.
    origin = np.arange(rows)
    repeated = ~(from_prior | from_record)
    origin[repeated] = number[repeated]
    while True:
        further = origin[origin]
        if (further == origin).all():
            break
        origin = further
    return np.unique(drawn[origin], return_counts=True)


def _balls(
    of_prior: int, records: int, unit: int, rows: int, stream: Stream, *purpose: str | int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[Any]]:
    """The ball of each row: whether it is of the prior, of a record or of an earlier row, and its number there."""
    first = of_prior + records * unit
    if first + max(rows, 1) * unit < 2**63:
        steps = np.arange(rows, dtype=np.uint64)
        bounds = np.uint64(first) + steps * np.uint64(unit)
        ball: NDArray[Any] = uniform_below_each(stream, bounds, *purpose, "ball").astype(np.int64)
    else:  # the same urn with numbers of any size: exact too, only slower
        ball = np.array(
            [_big_uniform(stream, first + step * unit, *purpose, "ball") for step in range(rows)], dtype=object
        )
    from_prior = ball < of_prior
    from_record = ~from_prior & (ball < first)
    number = np.where(from_prior, ball, np.where(from_record, (ball - of_prior) // unit, (ball - first) // unit))
    return from_prior.astype(bool), from_record.astype(bool), number


def _big_uniform(stream: Stream, bound: int, *purpose: str | int) -> int:
    """A whole number exactly uniform below any bound, from as many words as it takes, by rejection."""
    bits = bound.bit_length()
    while True:
        value = 0
        for word in stream.words(-(-bits // WORD_BITS), *purpose):
            value = value << WORD_BITS | int(word)
        value &= (1 << bits) - 1
        if value < bound:
            return value


def _possible_cells(
    balls: NDArray[Any], weight: int, domain: Domain, stream: Stream, *purpose: str | int
) -> NDArray[np.int64]:
    """The possible cell of each ball of the prior; every cell has ``weight`` balls.

    Without structural zeros the balls are simply divided. With them, a cell drawn uniformly from the whole domain and
    rejected while impossible is uniform over the possible ones, and independent of the ball.
    """
    if domain.possible == domain.size:
        return np.asarray(balls // weight, dtype=np.int64)
    return uniform_possible(domain, len(balls), stream, *purpose, "cell")


def uniform_possible(domain: Domain, count: int, stream: Stream, *purpose: str | int) -> NDArray[np.int64]:
    """``count`` cells, exactly uniform over the possible cells of a domain."""
    found = np.empty(count, dtype=np.int64)
    waiting = np.arange(count)
    while len(waiting):
        tried = uniform_below(stream, domain.size, len(waiting), *purpose)
        good = domain.is_possible(tried)
        found[waiting[good]] = tried[good]
        waiting = waiting[~good]
    return found
