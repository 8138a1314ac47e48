"""What every audit from observed runs ends with: a claim, a lower bound, and the power of the attempt."""

from __future__ import annotations

import math
from dataclasses import dataclass

from understudy.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """With probability at least ``1 - alpha`` the true epsilon (at ``delta``) is at least ``epsilon_low``.

    So a sound mechanism is caught with probability at most ``alpha``. ``power`` is the probability that the same
    attempt would catch a mechanism whose epsilon is ``factor`` times the claim.
    """

    epsilon_low: float
    claimed: float
    delta: float
    alpha: float
    power: float
    factor: float

    @property
    def caught(self) -> bool:
        return self.epsilon_low > self.claimed

    def _described(self, evidence: str) -> str:
        verdict = "caught" if self.caught else "not caught"
        return (
            f"{verdict}: epsilon at least {self.epsilon_low:.3f} (claimed {self.claimed:g}, delta {self.delta:g}) with "
            f"confidence {1 - self.alpha:g} from {evidence}; "
            f"power {self.power:.3f} against {self.factor:g} times the claim"
        )


def check_claim(claimed: float, factor: float) -> None:
    """Refuses a claim that nothing could refute, and a factor that means no fault."""
    if not claimed > 0 or not math.isfinite(claimed):
        raise InputError(f"claimed ({claimed}) must be a positive epsilon.")
    if not factor > 1:
        raise InputError(f"factor ({factor}) must be above 1.")
