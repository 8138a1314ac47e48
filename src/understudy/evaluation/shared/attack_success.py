"""How often an attack succeeds, against a baseline and a control, with intervals.

Wilson's interval is centred at (x + z^2/2) / (m + z^2), so few guesses give a wide interval and no guess gives (0, 1).
Of what guessing does not get, the attack gets a share: the residual risk R = (attack - control) / (1 - control)
(Giomi, Boenisch, Wehmeyer and Tasnádi 2023). Its error is propagated from both rates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from understudy.core.result import Estimate
from understudy.errors import InputError

LEVEL = 0.95
DECIDED = "the public schema decides it for everybody"  # so that nobody can learn it from a release
Z = 1.959963984540054


@dataclass(frozen=True, slots=True, kw_only=True)
class Believed:
    """What an intruder would take for certain: a claim that is false harms too (Raab)."""

    made: int
    """Claims that were made."""
    right: int
    """Those that are true."""
    people: int
    """People about whom a claim could be made; 0 where claims are about something else, such as cells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How often an attack guessed, and how often it was right.

    Raises
    ------
    InputError
        If there are more successes than guesses.
    """

    successes: int
    """Guesses that were right."""
    guesses: int
    """Guesses that were made."""
    asked: int | None = None
    """Guesses that were asked for, if fewer could be made."""
    note: str = ""
    """What a reader must know about it."""
    independent: float | None = None
    """The effective number of guesses (Kish), where they come in clusters."""
    believed: Believed | None = None
    """The claims, where they are not the guesses: an intruder need not believe every guess."""

    def __post_init__(self) -> None:
        if not 0 <= self.successes <= self.guesses:
            raise InputError(f"successes ({self.successes}) must lie between 0 and the guesses ({self.guesses}).")

    @property
    def rate(self) -> Estimate:
        """The success rate with Wilson's interval.

        >>> round(Tally(successes=300, guesses=300).rate.value, 9)
        0.993678514
        """
        return self.rate_at(LEVEL)

    def rate_at(self, level: float) -> Estimate:
        """The success rate with Wilson's interval at another level.

        Parameters
        ----------
        level
            The level, such as 0.99.

        Returns
        -------
        Estimate
            The rate.
        """
        centre, half = self._wilson(Z if level == LEVEL else NormalDist().inv_cdf((1 + level) / 2))
        return Estimate(
            value=centre, low=max(0.0, centre - half), high=min(1.0, centre + half), level=level, method="Wilson"
        )

    def _wilson(self, z: float = Z) -> tuple[float, float]:
        worth = 1.0 if self.independent is None or not self.guesses else self.independent / self.guesses
        x, m = self.successes * worth, self.guesses * worth
        spread = x * (m - x) / m if m else 0.0
        return (x + z**2 / 2) / (m + z**2), z / (m + z**2) * math.sqrt(spread + z**2 / 4)

    @property
    def people(self) -> int:
        """How many were asked about."""
        return self.guesses if self.asked is None else self.asked

    @property
    def claims(self) -> Believed:
        """What an intruder would believe: all guesses, unless the attack says which."""
        return self.believed or Believed(made=self.guesses, right=self.successes, people=self.people)

    @property
    def told(self) -> str:
        """What a reader must know about the number of guesses."""
        short = ""
        if self.asked is not None and self.guesses < self.asked:
            short = f"{self.guesses:,} guesses could be made of {self.asked:,} asked for"
        return "; ".join(text for text in (self.note, short) if text)


def residual(attack: Tally, against: Tally) -> Estimate:
    """The residual risk of an attack over a control.

    >>> found = residual(Tally(successes=60, guesses=100), Tally(successes=20, guesses=100))
    >>> round(found.value, 5), round(found.high - found.value, 5)
    (0.48828, 0.12973)
    """
    (a, error_a), (c, error_c) = attack._wilson(), against._wilson()
    value = (a - c) / (1 - c)
    error = math.hypot(error_a / (1 - c), error_c * (a - 1) / (1 - c) ** 2)
    return Estimate(
        value=value, low=max(-1.0, value - error) if value > -1 else value, high=min(1.0, value + error), level=LEVEL,
        method="propagated Wilson",
    )  # fmt: skip


def of_a_sample(asked: int, count: int) -> str:
    """The note where not everybody was asked about; the interval includes the sampling error that this adds.

    >>> of_a_sample(2_000, 100_000), of_a_sample(5, 5)
    ('2,000 of 100,000 people', '')
    """
    return f"{asked:,} of {count:,} people" if asked < count else ""


def independent_guesses(clusters: NDArray[np.int64]) -> float:
    """The number of independent guesses that guesses in clusters of these sizes are worth, at least (Kish 1965).

    >>> independent_guesses(np.array([1, 1, 1])), independent_guesses(np.array([9, 1]))
    (3.0, 1.2195121951219512)
    """
    total = float(clusters.sum())
    return total**2 / float(np.sum(clusters.astype(np.float64) ** 2)) if total else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One attack on one subject: what it achieves, what guessing achieves, and what it achieves on outsiders."""

    attack: str
    """The name of the attack."""
    subject: str
    """What was attacked, such as an attribute."""
    release: Tally
    """What the attack achieves."""
    baseline: Tally
    """What guessing from margins achieves."""
    control: Tally | None = None
    """What it achieves on people who are not in the data."""
    personal: bool = False
    """Whether the attack itself is about who was in the data, so that its baseline is a coin."""

    @property
    def residual(self) -> Estimate:
        """Against the control where there is one, else against the baseline."""
        return residual(self.release, self.control if self.control is not None else self.baseline)

    def row(self) -> dict[str, object]:
        """Give the line of the table ``attacks``.

        Returns
        -------
        dict[str, object]
            The line, by column.
        """
        attack, baseline, left = self.release.rate, self.baseline.rate, self.residual
        control = None if self.control is None else self.control.rate
        return {
            "attack": self.attack,
            "subject": self.subject,
            "successes": self.release.successes,
            "guesses": self.release.guesses,
            "asked": self.release.people,
            "claims": self.release.claims.made,
            "claims_right": self.release.claims.right,
            "claims_of": self.release.claims.people,
            "success": attack.value,
            "success_low": attack.low,
            "success_high": attack.high,
            "baseline": baseline.value,
            "baseline_guesses": self.baseline.guesses,
            "control": None if control is None else control.value,
            "control_successes": None if self.control is None else self.control.successes,
            "control_guesses": None if self.control is None else self.control.guesses,
            "control_asked": None if self.control is None else self.control.people,
            "independent": self.release.independent,
            "control_independent": None if self.control is None else self.control.independent,
            "residual": left.value,
            "residual_low": left.low,
            "residual_high": left.high,
            "against": "baseline" if self.control is None else "control",
            "personal": self.personal or self.control is not None,
            "note": self.release.told,
        }
