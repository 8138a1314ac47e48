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
        """Draw uniform 64-bit words of one substream; consecutive calls continue it.

        Parameters
        ----------
        count
            How many words.
        *purpose
            What the words are for. Every purpose has a substream of its own.

        Returns
        -------
        NDArray[np.uint64]
            The words.
        """
        ...


class Stream(Words, Protocol):
    """A source of randomness."""

    secure: bool
    """Whether a privacy promise may rest on it. Streams with a seed, for tests, are not secure."""

    def discrete_laplace(self, scale: Fraction, size: int) -> Integers:
        """Draw discrete Laplace (two-sided geometric) noise.

        Parameters
        ----------
        scale
            The scale of the law, exact.
        size
            How many values.

        Returns
        -------
        Integers
            Whole numbers with mean zero.
        """
        ...

    def discrete_gaussian(self, scale: Fraction, size: int) -> Integers:
        """Draw discrete Gaussian noise.

        Parameters
        ----------
        scale
            The parameter sigma of the law, exact.
        size
            How many values.

        Returns
        -------
        Integers
            Whole numbers with mean zero.
        """
        ...

    def noisy_argmax(self, scores: Integers, scale: Fraction, law: SelectionLaw = "exponential") -> int:
        """Choose an index by the largest score after noise.

        Parameters
        ----------
        scores
            One whole number for each candidate.
        scale
            The scale of the noise, exact.
        law
            ``exponential`` or ``gumbel`` noise on each score.

        Returns
        -------
        int
            The index that was chosen.
        """
        ...


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
