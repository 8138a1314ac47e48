"""How well two neighbours can be told apart by all Gaussian measurements of a run, beside what was charged for them.

The mechanisms run on the exact counts that the gate hands them, many times over, with noise of the stream that releases
use. The same noise serves both neighbours, so that the distance of the two means has no error of its own.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from replaying.cases import Case
from replaying.recording import Recording
from replaying.replay import record
from understudy.privacy.mechanisms.noise import IntegerNoise
from understudy.privacy.promise.event import GaussianNoise
from understudy.privacy.randomness.streams import SecureStream

Integers = NDArray[np.int64]
RUNS = 10_000
Z = 4.27  # one-sided 1e-5
RELATIVE_ERROR = math.sqrt(1 / (2 * RUNS))  # of a standard deviation from so many Gaussian values


class CommonNoise:
    """Noise of the stream for releases; a second reader gets the same noise for the same requests."""

    secure = False

    def __init__(self) -> None:
        self._stream = SecureStream()
        self._kept: deque[tuple[str, Fraction, Integers]] = deque()
        self._again: deque[tuple[str, Fraction, Integers]] = deque()

    def rewind(self) -> None:
        self._again = self._kept.copy()

    def discrete_gaussian(self, scale: Fraction, size: int) -> Integers:
        return self._noise("discrete_gaussian", scale, size)

    def discrete_laplace(self, scale: Fraction, size: int) -> Integers:
        return self._noise("discrete_laplace", scale, size)

    def _noise(self, law: str, scale: Fraction, size: int) -> Integers:
        if self._again:
            kept = self._again.popleft()
            if (kept[0], kept[1], kept[2].size) == (law, scale, size):
                return kept[2]
        values: Integers = getattr(self._stream, law)(scale, size)
        self._kept.append((law, scale, values))
        return values


@dataclass(frozen=True, kw_only=True)
class Mu:
    """``found``: of the best test between two neighbours on what was measured. ``charged``: by the events.
    ``charged_for_tables``: without comparisons of tables with a model, whose sensitivity is a bound that these
    neighbours need not reach (docs/theory/one-look.md)."""

    found: float
    charged: float
    charged_for_tables: float
    measurements: int

    @property
    def share(self) -> float:
        return self.found / self.charged

    @property
    def share_of_tables(self) -> float:
        return self.found / self.charged_for_tables


@dataclass(kw_only=True)
class Batches:
    """Many answers of each measurement of a run, in the order in which they were made."""

    noise: CommonNoise
    many: list[Any] = field(default_factory=list)

    def record(self, case: Case, table: Any, earlier: Recording | None = None) -> Recording:
        honest = IntegerNoise.run

        def run(mechanism: Any, values: Any, stream: Any) -> Any:
            self.many.append(honest(mechanism, np.tile(np.ravel(values), (RUNS, 1)), self.noise))
            return honest(mechanism, values, stream)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(IntegerNoise, "run", run)
            return record(case, table, earlier)


def measure_mu(case: Case, neighbour: Any) -> Mu:
    """Runs a case and its replay on a neighbour: the choices and the queries are those of the first run."""
    noise = CommonNoise()
    first, second = Batches(noise=noise), Batches(noise=noise)
    one = first.record(case, case.table)
    noise.rewind()
    other = second.record(case, neighbour, one)
    runs = [
        (passage.kind, run, event)
        for passage in one.passages
        for run, event in zip(passage.runs, passage.charged, strict=False)
    ]
    again = [run for passage in other.passages for run in passage.runs]
    scores, charged, compared, count = [np.zeros(RUNS), np.zeros(RUNS)], Fraction(0), Fraction(0), 0
    for number, (kind, run, event) in enumerate(runs):
        if not isinstance(event, GaussianNoise):
            continue
        moved = (again[number].truth - run.truth).ravel() / float(event.scale) ** 2
        for side, batches in enumerate((first, second)):
            scores[side] += batches.many[number] @ moved  # the log likelihood ratio, but for a constant
        charged += event.l2_squared / event.scale**2
        compared += event.l2_squared / event.scale**2 if kind == "compare" else 0
        count += 1
    spread = math.sqrt((scores[0].var(ddof=1) + scores[1].var(ddof=1)) / 2)
    found = float(scores[1].mean() - scores[0].mean()) / spread if spread else math.inf
    return Mu(
        found=found,
        charged=math.sqrt(charged),
        charged_for_tables=math.sqrt(charged - compared),
        measurements=count,
    )
