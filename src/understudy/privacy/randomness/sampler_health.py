"""Do the samplers of this machine follow the laws that are charged? Asked once per process, before the first charge.

A promise rests on the sampler that is installed, and a package manager may install one that is wrong: OpenDP up to
0.14.1 drew whole numbers below a bound with a bias, so that discrete Laplace noise of scale 3 had the remainder 2
(after division by 3) one time in eight too often. The check draws noise on zeros through the mechanisms that a release
uses, counts how often each of some events happens, and compares with the probability that the law gives the event.

**False alarms.** If X of n independent draws have an event of probability p, then P(X/n >= q) <= exp(-n KL(q, p)) for
q >= p, and the same below (Chernoff 1952; KL is the relative entropy of two coins). So n KL(X/n, p) exceeds t with
probability at most 2 exp(-t). With at most m events and t = ln(2 m / FALSE_ALARM) all of them stay below t with
probability at least 1 - FALSE_ALARM. This is a bound for every n and p, not an approximation, and events may depend on
each other.

What the check can and cannot see, with its measured power: docs/theory/sampler-health.md.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, version

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Integers
from understudy.core.mechanism import SelectionLaw, Stream
from understudy.errors import DisclosureError
from understudy.privacy.mechanisms.noise import DiscreteGaussian, Geometric, NoiseMechanism
from understudy.privacy.randomness.draws import WORD_BITS
from understudy.privacy.randomness.keyed_noise import discrete_laplace
from understudy.privacy.randomness.streams import SecureStream

FALSE_ALARM = 1e-9
MOST_EVENTS = 400  # that are looked at; a test counts them
TOO_SURPRISING = math.log(2 * MOST_EVENTS / FALSE_ALARM)
# The noise that is drawn and how often. Scale 3 shows a biased draw below 3 best, and so does a Gaussian of scale 2,
# which is made from Laplace noise of scale 3; these have most draws. The others look for a wrong scale.
NOISE: tuple[tuple[NoiseMechanism, int], ...] = (
    (Geometric(scale=3), 30_000),
    (Geometric(scale=0.7), 2_000),
    (Geometric(scale=45.3), 2_000),
    (DiscreteGaussian(scale=2), 8_000),
    (DiscreteGaussian(scale=3.3), 2_000),
)
# Noise that we draw ourselves from the keyed stream; arrays, so it costs little.
KEYED_SCALES = (Fraction(3), Fraction(7, 10))
KEYED_DRAWS = 20_000
WORDS = 4096
# A choice costs a hundred times as much as a draw of noise; among many candidates each choice tells most.
CHOICES = 600
CANDIDATES, BEST, GAP = 32, 20, 20
CHOICE_SCALE = Fraction(6)
LAWS: tuple[SelectionLaw, ...] = ("exponential", "gumbel")
# An event that nearly always or nearly never happens says nothing in so few draws.
RAREST = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How often an event happened in the draws of one sampler, and its probability under the stated law."""

    sampler: str
    event: str
    observed: int
    draws: int
    probability: float

    @property
    def surprise(self) -> float:
        """n KL(X/n, p), in nats: above t with probability at most 2 exp(-t), whatever n and p are.

        >>> round(Tally(sampler="coin", event="heads", observed=700, draws=1000, probability=0.5).surprise, 1)
        82.3
        """
        share = self.observed / self.draws
        pairs = ((share, self.probability), (1 - share, 1 - self.probability))
        return self.draws * sum(seen * math.log(seen / stated) for seen, stated in pairs if seen > 0)


def require_healthy_samplers() -> None:
    """Refuses, before anything is charged, samplers that do not follow their laws. Looks once per process."""
    with _lock:
        if not _passed.is_set():
            check_samplers(SecureStream())
            _passed.set()


_lock = threading.Lock()
_passed = threading.Event()


def check_samplers(stream: Stream) -> None:
    """Draws from every sampler of a stream and raises at the first event that is too surprising for its law."""
    for one in tallies(stream):
        if one.surprise > TOO_SURPRISING:
            raise DisclosureError(
                f"the sampler of {one.sampler} does not follow its law, so noise from it would not protect as "
                f"promised: in {one.draws:,} draws it gave {one.event} {one.observed:,} times, where about "
                f"{one.draws * one.probability:,.0f} are expected. (A sound machine is refused with probability below "
                f"{FALSE_ALARM:g}.) Nothing was charged, and nothing was drawn for the data. The installed opendp is "
                f"{_opendp_version()}: install opendp 0.14.2 or later; if it is, do not release from this machine, "
                "and report this."
            )


def tallies(stream: Stream) -> Iterator[Tally]:
    """Every event of every sampler, counted in fresh draws; words come first, because a sampler could wait for a word
    for ever."""
    yield from _word_tallies(stream.words(WORDS, "health", "words"))
    for mechanism, draws in NOISE:
        half = np.zeros(draws // 2, dtype=np.int64)
        parts = mechanism.run(half, stream), mechanism.run(half, stream)
        yield from noise_tallies(f"{mechanism.name.replace('_', ' ')} noise", mechanism, parts)
    for scale in KEYED_SCALES:
        parts = (
            discrete_laplace(scale, KEYED_DRAWS // 2, stream, "health", str(scale), 1),
            discrete_laplace(scale, KEYED_DRAWS // 2, stream, "health", str(scale), 2),
        )
        yield from noise_tallies("geometric noise from the keyed stream", Geometric(scale=scale), parts)
    for law in LAWS:
        yield from _choice_tallies(stream, law)


def noise_tallies(name: str, mechanism: NoiseMechanism, parts: tuple[Integers, Integers]) -> Iterator[Tally]:
    """Events of single draws, and of pairs: neighbours within a call, and the same place in two calls."""
    scale = float(mechanism.scale)
    reach = math.ceil(45 * scale) + 5  # what lies beyond has probability below exp(-45)
    support = np.arange(-reach, reach + 1)
    mass = np.exp(mechanism.log_pmf(support, np.zeros_like(support)))
    drawn = np.concatenate(parts)
    sampler = f"{name} of scale {scale:g}"

    def tally(event: str, happened: NDArray[np.bool_], probability: float) -> Iterator[Tally]:
        if RAREST < probability < 1 - RAREST:
            yield Tally(
                sampler=sampler, event=event, observed=int(happened.sum()), draws=len(happened), probability=probability
            )

    for (event, happened), (_, likely) in zip(_events(scale, drawn), _events(scale, support), strict=True):
        yield from tally(event, happened, float(mass[likely].sum()))
    even = 2 * (len(parts[0]) // 2)
    pairs = {"in two calls": parts, "beside each other": (parts[0][0:even:2], parts[0][1:even:2])}
    for where, (first, second) in pairs.items():
        yield from tally(f"equal draws {where}", first == second, float((mass**2).sum()))
        yield from tally(
            f"draws of one sign {where}", np.sign(first) * np.sign(second) > 0, 2 * float(mass[support > 0].sum()) ** 2
        )


def _events(scale: float, x: Integers) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """What may happen to one draw, and to which of these it did: single values, both tails, remainders of the size.

    A sampler makes a draw from a uniform number below some bound, so a fault of that shows in remainders; a wrong scale
    shows in the tails.
    """
    size = np.abs(x)
    for value in range(-3, 4):
        yield f"the value {value}", x == value
    for end in _ends(scale, (-3, -2, -1.5, -1, -0.5, -0.25, 0, 0.25, 0.5, 1, 1.5, 2)):
        yield f"a value of at most {end}", x <= end
    for end in _ends(scale, (0.5, 1, 1.5, 2, 3)):
        yield f"a value of more than {end} in size", size > end
    for divisor in (2, 3, 5):
        for left in range(divisor):
            yield f"a size with remainder {left} after division by {divisor}", size % divisor == left


def _ends(scale: float, multiples: tuple[float, ...]) -> list[int]:
    return sorted({math.floor(scale * times) for times in multiples})


def _word_tallies(words: NDArray[np.uint64]) -> Iterator[Tally]:
    sampler = "words of the keyed stream"
    ones = int(np.bitwise_count(words).sum())
    yield Tally(sampler=sampler, event="a bit 1", observed=ones, draws=WORD_BITS * len(words), probability=0.5)
    for name, shift in (("first", 60), ("last", 0)):
        digits = np.bincount((words >> np.uint64(shift)).astype(np.int64) & 15, minlength=16)
        for digit, observed in enumerate(digits.tolist()):
            yield Tally(
                sampler=sampler, event=f"the {name} hexadecimal digit {digit:x}", observed=observed, draws=len(words),
                probability=1 / 16,
            )  # fmt: skip


def _choice_tallies(stream: Stream, law: SelectionLaw) -> Iterator[Tally]:
    """One candidate has the best score; all others lie ``GAP`` below it and are alike."""
    scores = np.zeros(CANDIDATES, dtype=np.int64)
    scores[BEST] = GAP
    kept = math.exp(-GAP / float(CHOICE_SCALE))
    if law == "exponential":
        # Permute and flip: the best is chosen if none of the J before it stops; J is uniform on 0, ..., candidates - 1.
        best = (1 - (1 - kept) ** CANDIDATES) / (CANDIDATES * kept)
    else:
        best = 1 / (1 + (CANDIDATES - 1) * kept)
    chosen = np.array([stream.noisy_argmax(scores, CHOICE_SCALE, law) for _ in range(CHOICES)])
    sampler = f"choices by the noisy maximum ({law} noise)"
    half = CANDIDATES // 2
    for event, happened, probability in (
        ("the best candidate", chosen == BEST, best),
        ("a candidate of the first half", chosen < half, (1 - best) * half / (CANDIDATES - 1)),
    ):
        observed = int(happened.sum())
        yield Tally(sampler=sampler, event=event, observed=observed, draws=CHOICES, probability=probability)


def _opendp_version() -> str:
    try:
        return version("opendp")
    except PackageNotFoundError:
        return "of an unknown version"
