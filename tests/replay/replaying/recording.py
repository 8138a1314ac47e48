"""What one run did at the gate: every exact number that went into a mechanism, every law that ran, every answer.

Nothing here asks a mechanism what it would do. Exact counts are taken where a mechanism receives them, noise where the
stream hands it out, and sizes, priors and records of a draw where its loop receives them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.promise.event import Event
from understudy.privacy.randomness.streams import SeededStream

Integers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class NoiseCall:
    """One request for noise, as the source of randomness got it."""

    law: str
    scale: Fraction
    values: Integers


@dataclass(frozen=True, kw_only=True)
class Run:
    """One mechanism run on exact counts: what went in, what came out, which noise was drawn in between."""

    mechanism: str
    truth: Integers
    answer: Integers
    noise: tuple[NoiseCall, ...]
    reported_above: int | None = None  # cells with noisy values up to it are left out
    codes: tuple[str, ...] | None = None  # those that occur; the answer has a 0 where one is not told
    bound: int | None = None  # of noise that stays within it


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One noisy maximum: the exact score of every candidate."""

    scores: Integers
    scale: Fraction
    law: str
    chosen: int


@dataclass(frozen=True, kw_only=True)
class Urn:
    """A Dirichlet-multinomial draw by the numbers of its loop: ``cells`` cells of ``prior`` each, and the records.

    With ``weights`` the prior of a cell is its weight times ``prior``.
    """

    cells: int
    prior: Fraction
    rows: int
    records: Mapping[int, int]
    accepted: Any = None  # what decides whether a draw is kept, if anything does
    weights: Mapping[int, int] | None = None

    @property
    def size(self) -> int:
        return sum(self.records.values())

    def prior_of(self, cell: int) -> float:
        return float(self.prior) * (1 if self.weights is None else self.weights[cell])

    @property
    def whole_prior(self) -> float:
        return float(self.prior) * (self.cells if self.weights is None else sum(self.weights.values()))

    @property
    def smallest_two(self) -> tuple[float, float]:
        found = sorted(self.weights.values())[:2] if self.weights else [1, 1]
        return float(self.prior) * found[0], float(self.prior) * found[-1]


@dataclass(frozen=True, kw_only=True)
class ShrunkUrn:
    """The same over a random domain: a place without records is in it with the probability of its band.

    Cell ``len(keeps)`` is elsewhere, which is always in the domain.
    """

    keeps: tuple[Fraction, ...]
    elsewhere: bool
    prior: Fraction
    rows: int
    records: Mapping[int, int]


@dataclass(frozen=True, kw_only=True)
class NoisyList:
    """Geometric noise on every cell of one destination; if ``balanced``, given that it adds up to 0."""

    scale: Fraction
    truth: tuple[int, ...]
    balanced: bool = False


@dataclass(frozen=True, kw_only=True)
class Answers:
    """One row for every record of a destination, each from an urn with that record alone."""

    cells: int
    prior: Fraction
    records: Mapping[int, int]


Law = Urn | ShrunkUrn | NoisyList | Answers


@dataclass(kw_only=True)
class Passage:
    """One call at the gate: what was asked in public words, what it was charged, what ran, what was handed out."""

    kind: str  # measure, discover, compare, select, draw
    asked: Any
    charged: tuple[Event, ...] = ()
    runs: list[Run] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    laws: dict[Any, Law] = field(default_factory=dict)
    answer: Any = None


@dataclass(kw_only=True)
class Recording:
    """A whole run. ``outside`` names what happened beside the gate."""

    passages: list[Passage] = field(default_factory=list)
    public: list[tuple[str, Any]] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    events: tuple[Event, ...] = ()
    files: dict[str, bytes] = field(default_factory=dict)
    _open: Passage | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, kind: str, asked: Any) -> Passage:
        passage = Passage(kind=kind, asked=asked)
        self.passages.append(passage)
        self._open = passage
        return passage

    def end(self) -> None:
        self._open = None

    def add_run(self, run: Run) -> None:
        if self._open is None or self._open.kind not in ("measure", "compare", "discover"):
            self.outside.append(f"{run.mechanism} was run on exact counts beside the gate")
        else:
            self._open.runs.append(run)

    def add_choice(self, choice: Choice) -> None:
        if self._open is None or self._open.kind != "select":
            self.outside.append("something was chosen beside the gate")
        else:
            self._open.choices.append(choice)

    def add_law(self, key: Any, law: Law) -> None:
        """Blocks are drawn in threads, and a loop that runs out of words is run again with the same numbers."""
        with self._lock:
            if self._open is None or self._open.kind != "draw":
                self.outside.append("rows were drawn from the data beside the gate")
                return
            known = self._open.laws.setdefault(key, law)
            if _without_acceptance(known) != _without_acceptance(law):
                self.outside.append(f"the draw of {key} was repeated with other numbers")


def _without_acceptance(law: Law) -> Any:
    return (law.cells, law.prior, law.rows, law.records, law.weights) if isinstance(law, Urn) else law


class ReplayedStream:
    """The randomness of a run. In a replay it is that of the first run, and choices come out as they did there."""

    secure = False

    def __init__(self, seed: int, recording: Recording, choices: list[int] | None = None) -> None:
        self._stream = SeededStream(seed)
        self._recording = recording
        self._choices = None if choices is None else list(choices)
        self.calls: list[NoiseCall] = []

    def discrete_laplace(self, scale: Fraction, size: int) -> Integers:
        return self._noise("geometric", scale, self._stream.discrete_laplace(scale, size))

    def discrete_gaussian(self, scale: Fraction, size: int) -> Integers:
        return self._noise("discrete_gaussian", scale, self._stream.discrete_gaussian(scale, size))

    def _noise(self, law: str, scale: Fraction, values: Integers) -> Integers:
        self.calls.append(NoiseCall(law=law, scale=scale, values=values.copy()))
        return values

    def noisy_argmax(self, scores: Integers, scale: Fraction, law: str = "exponential") -> int:
        chosen = self._stream.noisy_argmax(scores, scale, law)
        if self._choices is not None:
            chosen = self._choices.pop(0) if self._choices else chosen
        self._recording.add_choice(
            Choice(scores=np.array(scores, dtype=np.int64), scale=scale, law=law, chosen=int(chosen))
        )
        return int(chosen)

    def words(self, count: int, *purpose: str | int) -> NDArray[np.uint64]:
        return self._stream.words(count, *purpose)

    def derived_key(self, *purpose: str | int) -> bytes:
        return self._stream.derived_key(*purpose)

    def hand_out(self, *purpose: str | int) -> Any:
        return self._stream.hand_out(*purpose)
