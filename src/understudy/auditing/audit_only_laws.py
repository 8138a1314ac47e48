"""Laws that only an audit uses: draws that are repeated until they are accepted, and rounded Laplace noise.

No release is made with them: ``privacy/mechanisms/`` has the laws that see exact counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Flags, Floats, Integers
from understudy.core.exact_numbers import Number, read_exact, to_text
from understudy.core.mechanism import Stream
from understudy.errors import InputError, UnsupportedError
from understudy.privacy.exact.small_tables import RESOLUTION
from understudy.privacy.mechanisms.dirichlet_law import DirichletMultinomial
from understudy.privacy.mechanisms.noise import exact_scale
from understudy.privacy.promise.definition import Unit
from understudy.privacy.promise.event import Event, NoNoise, PureLoss, Sensitivity

Keep = Literal["good", "rep"]
MOST_TRIES = 100_000

# Rejecting unrepresentative draws without losing the privacy (Machanavajjhala et al. 2008, Section V-A).
#
# A draw m is gamma-representative of a table n if m_i <= gamma (a_i + max(n_i - 1, 0)) in every cell, and gamma-good if
# it is representative of n or of a neighbour of n. Drawing again until the result is representative (``keep="rep"``,
# the naive form) breaks differential privacy: two neighbours accept different sets, and an output that only one of
# them can give discloses the row. Drawing again until it is good (``keep="good"``) keeps a probabilistic guarantee,
# Lemma 5.2.
#
# The number of tries depends on the data and is never returned, logged or stored. See docs/theory/accept-reject.md.


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptReject:
    """A Dirichlet-multinomial draw, repeated until it is gamma-good (or, naively, gamma-representative)."""

    generator: DirichletMultinomial
    gamma: float
    keep: Keep = "good"
    name: ClassVar[str] = "accept_reject"

    def __init__(self, *, generator: DirichletMultinomial, gamma: Number, keep: Keep = "good") -> None:
        if not isinstance(generator, DirichletMultinomial):
            raise InputError("generator must be a DirichletMultinomial: Lemma 5.2 is about its draws.")
        level = float(read_exact(gamma, "gamma"))
        if level <= 0:
            raise InputError(f"gamma ({gamma}) must be positive.")
        if keep not in ("good", "rep"):
            raise InputError(f"keep ({keep!r}) must be 'good' or 'rep'.")
        object.__setattr__(self, "generator", generator)
        object.__setattr__(self, "gamma", level)
        object.__setattr__(self, "keep", keep)

    def representative(self, outputs: Integers, table: Integers) -> Flags:
        """Which outputs are gamma-representative of a table."""
        prior = np.array([float(value) for value in self.generator.prior])
        limit = self.gamma * (prior + np.maximum(np.asarray(table) - 1, 0))
        return np.asarray((outputs <= limit * (1 + RESOLUTION)).all(axis=-1))

    def good(self, outputs: Integers, table: Integers) -> Flags:
        """Which outputs are gamma-good for a table: representative of it, or of it with one row moved.

        Every single move is tried; those that raise no limit add nothing, and cost little.
        """
        table = np.asarray(table)
        found = self.representative(outputs, table)
        for loss in np.flatnonzero(table):
            for gain in range(len(table)):
                if gain != loss:
                    moved = table.copy()
                    moved[loss] -= 1
                    moved[gain] += 1
                    found |= self.representative(outputs, moved)
        return found

    def log_matrix(self, inputs: Integers, unit: Unit) -> Floats:
        """The log law over all outputs for each input: the generator's, on the accepted outputs, normalised."""
        if unit.kind != "replace":
            raise UnsupportedError("accept/reject is defined for neighbours with the same number of rows: use replace.")
        outputs = self.generator.outputs()
        accept = self.good if self.keep == "good" else self.representative
        laws = []
        for table in inputs:
            law = self.generator.log_pmf(outputs, table)
            kept = np.where(accept(outputs, table), law, -np.inf)
            total = math.fsum(np.exp(kept))
            if total <= 0:
                raise InputError(
                    f"gamma ({self.gamma:g}) is so small that no draw of {self.generator.rows} rows is accepted for "
                    "some table; use a larger gamma or prior."
                )
            laws.append(kept - math.log(total))
        return np.array(laws)

    def rejection(self, inputs: Integers) -> float:
        """p: the largest probability, over tables, that a draw is not gamma-representative."""
        outputs = self.generator.outputs()
        return max(
            math.fsum(np.exp(self.generator.log_pmf(outputs, table))[~self.representative(outputs, table)])
            for table in inputs
        )

    def lemma(self, inputs: Integers) -> tuple[float, float]:
        """Lemma 5.2: (epsilon, p)-probabilistic differential privacy with epsilon = ln((gamma + 1) / (1 - p)).

        The epsilon is lost in the paper's text; docs/theory/accept-reject.md derives it.
        """
        p = self.rejection(inputs)
        return (math.inf if p >= 1 else math.log1p(self.gamma) - math.log1p(-p)), p

    def event(self, sensitivity: Sensitivity) -> Event:
        """Charged as no protection: Lemma 5.2 needs p, which only an audit of all tables gives."""
        del sensitivity
        return NoNoise()

    def run(self, values: Integers, stream: Stream) -> Integers:
        """A good draw; how many were thrown away before it stays unknown."""
        if self.keep != "good":
            raise UnsupportedError("the naive form breaks differential privacy; it is for audit only.")
        for _ in range(MOST_TRIES):
            drawn = self.generator.run(values, stream)
            if self.good(drawn[None, :], np.asarray(values))[0]:
                return drawn
        raise UnsupportedError("no acceptable draw was found; use a larger gamma or prior.")

    def to_json(self) -> dict[str, object]:
        return {"mechanism": self.name, "generator": self.generator.to_json(), "gamma": self.gamma, "keep": self.keep}


# Continuous Laplace noise rounded to a whole number: what Abowd and Vilhuber computed for their Fig. 3. Audit only.
#
# A real sampler of this law would have to compute with real numbers; with floating-point ones it leaks (Mironov
# 2012). Releases use ``Geometric``, which has the same worst case and is drawn exactly.


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
