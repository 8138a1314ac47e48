"""What an adaptive method spends: epsilon under a pure budget, rho under the others."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from understudy.core.exact import float_up, sqrt_down
from understudy.core.mechanism import SelectionLaw
from understudy.core.schema import Schema
from understudy.errors import InputError, UnsupportedError
from understudy.privacy.calibrate import noise_for
from understudy.privacy.conversion import cdp_rho
from understudy.privacy.definition import ZCDP, ApproxDP, Definition, ProbabilisticDP, PureDP, Unit
from understudy.privacy.noise import NoiseMechanism
from understudy.privacy.sensitivity import margin_sensitivity
from understudy.privacy.streams import LARGEST_SCALE, SMALLEST_SCALE


@dataclass(frozen=True, slots=True, kw_only=True)
class Currency:
    """An amount that can be divided at will: parts that add up to it stay within the budget."""

    amount: Fraction
    concentrated: bool  # rho, by Gaussian noise and Gumbel choices; else epsilon, by geometric and exponential ones

    @classmethod
    def of(cls, budget: Definition) -> Currency:
        if isinstance(budget, PureDP):
            return cls(amount=budget.epsilon, concentrated=False)
        if isinstance(budget, ZCDP):
            return cls(amount=budget.rho, concentrated=True)
        if isinstance(budget, ApproxDP | ProbabilisticDP):
            return cls(amount=cdp_rho(budget.epsilon, budget.delta), concentrated=True)
        raise UnsupportedError(f"nothing can be spent step by step under {budget.title}.")

    def part(self, share: Fraction) -> PureDP | ZCDP:
        """A share of the amount as a budget of its own."""
        return ZCDP(rho=self.amount * share) if self.concentrated else PureDP(epsilon=self.amount * share)

    @property
    def choice_law(self) -> SelectionLaw:
        return "gumbel" if self.concentrated else "exponential"

    def noise(self, part: Fraction, schema: Schema, margin: tuple[str, ...], unit: Unit) -> NoiseMechanism:
        """The noise on a margin that costs this part."""
        budget = ZCDP(rho=part) if self.concentrated else PureDP(epsilon=part)
        (noise,) = noise_for(budget, [margin_sensitivity(schema, margin, unit)])
        return noise

    def choice_scale(self, part: Fraction, sensitivity: Fraction) -> Fraction:
        """The scale of a noisy maximum that costs this part: rho = s^2 / (2 scale^2), or epsilon = 2 s / scale.

        Refused here, and so when a plan is made, where it is too large to sample; never below the least that is.
        """
        exact = sensitivity / sqrt_down(2 * part) if self.concentrated else 2 * sensitivity / part
        if exact > LARGEST_SCALE:
            raise InputError(
                "a choice would need noise of a scale above 2^40 (about 1.1e12), the largest that is sampled here. Use "
                "a larger budget, fewer rounds, or a method that chooses nothing (ipf)."
            )
        return Fraction(float_up(max(exact, SMALLEST_SCALE)))
