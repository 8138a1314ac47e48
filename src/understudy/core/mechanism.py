"""What a mechanism is: one frozen value that runs the noise, states its loss, and gives its exact law.

The same value is charged to the ledger, audited, and used as the likelihood by inference, so the three cannot drift
apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Integers

if TYPE_CHECKING:
    from fractions import Fraction

SelectionLaw = Literal["exponential", "gumbel"]


class Words(Protocol):
    """A source of uniform words, one substream for each purpose."""

    def words(self, count: int, *purpose: str | int) -> NDArray[np.uint64]:
        """Uniform 64-bit words of the substream named by ``purpose``; consecutive calls continue it."""
        ...


class Stream(Words, Protocol):
    """A source of randomness. ``secure`` says whether a privacy promise may rest on it."""

    secure: bool

    def discrete_laplace(self, scale: Fraction, size: int) -> Integers: ...

    def discrete_gaussian(self, scale: Fraction, size: int) -> Integers: ...

    def noisy_argmax(self, scores: Integers, scale: Fraction, law: SelectionLaw = "exponential") -> int: ...


@runtime_checkable
class Mechanism(Protocol):
    """Noise as a value. ``values`` are the confidential counts of one query."""

    name: ClassVar[str]

    @property
    def variance(self) -> float:
        """Of the noise on one cell."""
        ...

    def event(self, sensitivity: Any) -> Any:
        """What running this once costs, for a query of the given sensitivity (``privacy.promise.event``)."""
        ...

    def run(self, values: Integers, stream: Stream) -> Integers: ...

    def log_pmf(self, out: Integers, values: Integers) -> NDArray[np.float64]:
        """Exact log probability of each output cell given each input cell."""
        ...

    def to_json(self) -> dict[str, str]:
        """Public parameters, lossless, for manifests and plans."""
        ...
