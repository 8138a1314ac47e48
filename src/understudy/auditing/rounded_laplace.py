"""Continuous Laplace noise rounded to a whole number: what Abowd and Vilhuber computed for their Fig. 3. Audit only.

A real sampler of this law would have to compute with real numbers; with floating-point ones it leaks (Mironov 2012).
Releases use ``Geometric``, which has the same worst case and is drawn exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Integers
from understudy.core.exact_numbers import Number, to_text
from understudy.core.mechanism import Stream
from understudy.errors import UnsupportedError
from understudy.privacy.mechanisms.noise import exact_scale
from understudy.privacy.promise.event import Event, PureLoss, Sensitivity


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedLaplace:
    """round(x + Laplace(scale)): P(0) = 1 - exp(-1/(2 s)), P(d) = exp(-|d|/s) sinh(1/(2 s)) at distance d.

    Rounding is post-processing, so a query with L1 sensitivity t is t/scale-differentially private (Dwork et al. 2006).

    Raises
    ------
    InputError
        If the scale is not between 2^-40 and 2^40.

    Examples
    --------
    >>> round(float(np.exp(RoundedLaplace(scale=0.5).log_pmf(np.array([1]), np.array([0])))[0]), 6)
    0.159046
    """

    scale: Fraction
    """The scale of the Laplace noise, exact."""
    name: ClassVar[str] = "rounded_laplace"

    def __init__(self, *, scale: Number) -> None:
        object.__setattr__(self, "scale", exact_scale(scale))

    def event(self, sensitivity: Sensitivity) -> Event:
        """State what running the noise once would cost.

        Parameters
        ----------
        sensitivity
            How far one unit can move the query.

        Returns
        -------
        Event
            The event.
        """
        return PureLoss(epsilon=Fraction(sensitivity.l1) / self.scale, source="Dwork et al. 2006, Proposition 1")

    def run(self, values: Integers, stream: Stream) -> NoReturn:
        """Refuse to draw: this law is for audit only.

        Parameters
        ----------
        values
            Not used.
        stream
            Not used.

        Raises
        ------
        UnsupportedError
            Always. Use ``Geometric``, which is drawn exactly.
        """
        del values, stream
        raise UnsupportedError("RoundedLaplace is for audit only; use Geometric, which is drawn exactly.")

    def log_pmf(self, out: Integers, values: Integers) -> NDArray[np.float64]:
        """Give the log probability of each output cell for each input cell.

        Parameters
        ----------
        out
            Noisy counts.
        values
            Exact counts; the arrays are broadcast.

        Returns
        -------
        NDArray[np.float64]
            One log probability for each pair.
        """
        distance = np.abs(np.asarray(out) - np.asarray(values)).astype(np.float64)
        rate = 1 / float(self.scale)
        # log sinh(r/2) = r/2 + log((1 - e^-r) / 2)
        away = rate / 2 + math.log(-math.expm1(-rate) / 2) - rate * distance
        return np.where(distance == 0, math.log(-math.expm1(-rate / 2)), away)

    def to_json(self) -> dict[str, str]:
        """The mechanism as plain values.

        Returns
        -------
        dict[str, str]
            Its name and its exact scale as texts.
        """
        return {"mechanism": self.name, "scale": to_text(self.scale)}

    def __str__(self) -> str:
        return f"{self.name}(scale = {float(self.scale):.6g})"
