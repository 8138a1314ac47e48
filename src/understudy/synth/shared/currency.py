"""What an adaptive method spends: epsilon under a pure budget, rho or mu^2 or both under the others."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from understudy.core.exact_numbers import float_up, sqrt_down
from understudy.core.mechanism import SelectionLaw
from understudy.core.schema import Schema
from understudy.errors import InputError, InternalError, UnsupportedError
from understudy.privacy.exact.choices_profile import composed_amount
from understudy.privacy.exact.gaussian_profile import Bound, gaussian_mu_squared, mu_squared_of_range
from understudy.privacy.mechanisms.noise import NoiseMechanism
from understudy.privacy.promise.calibrate import gaussian_noise, noise_for
from understudy.privacy.promise.conversion import cdp_rho
from understudy.privacy.promise.definition import ZCDP, ApproxDP, Definition, ProbabilisticDP, PureDP, Unit
from understudy.privacy.promise.event import Sensitivity
from understudy.privacy.promise.sensitivity import margin_sensitivity
from understudy.privacy.randomness.streams import LARGEST_SCALE, SMALLEST_SCALE

MOST_BY_PROFILE = Fraction(1, 4)  # up to this rho, less than a tenth of the variance of the usual noise is lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Currency:
    """An amount that can be divided at will: parts that add up to it stay within the budget."""

    amount: Fraction
    concentrated: bool  # Gaussian noise and Gumbel choices; else epsilon, geometric noise and exponential choices
    # What is charged: rho, half of mu^2 (``gaussian``), or half of mu^2 for noise and rho for choices (``composed``).
    bound: Bound = "concentrated"

    @classmethod
    def of(cls, budget: Definition) -> Currency:
        if isinstance(budget, PureDP):
            return cls(amount=budget.epsilon, concentrated=False)
        if isinstance(budget, ZCDP):
            return cls(amount=budget.rho, concentrated=True)
        if isinstance(budget, ApproxDP | ProbabilisticDP):
            return cls(amount=cdp_rho(budget.epsilon, budget.delta), concentrated=True)
        raise UnsupportedError(f"nothing can be spent step by step under {budget.title}.")

    @classmethod
    def for_choosing(cls, budget: Definition) -> Currency:
        """The same for a method that chooses during its run: half of mu^2 where that allows less noise than rho.

        Noise on counts is charged as if its variance were smaller by 5, which matters where there is little noise.
        Choices cost more of mu^2 than of rho, so this is for methods that spend most of it on measuring.
        """
        currency = cls.of(budget)
        if isinstance(budget, ApproxDP | ProbabilisticDP) and currency.amount <= MOST_BY_PROFILE:
            amount = gaussian_mu_squared(budget.epsilon, budget.delta) / 2
            return cls(amount=amount, concentrated=True, bound="gaussian")
        return currency

    @classmethod
    def with_choices(cls, budget: ApproxDP, choices: int, share: Fraction) -> Currency:
        """The same for a method that spends exactly this share on so many equal choices: docs/theory/accounting.md."""
        amount = composed_amount(budget.epsilon, budget.delta, choices, share)
        return cls(amount=amount, concentrated=True, bound="composed")

    @classmethod
    def named(cls, budget: Definition, bound: Bound) -> Currency:
        """What a plan with a named bound spends. A resumed run keeps to the plan that it was charged for."""
        return cls.for_choosing(budget) if bound == "gaussian" else cls.of(budget)

    @property
    def choosing(self) -> Fraction:
        """The part of a round that pays for its choice. A choice costs more of mu^2 than of rho: pi/2 as much."""
        return Fraction(1, 7) if self.bound == "gaussian" else Fraction(1, 10)

    def part(self, share: Fraction) -> PureDP | ZCDP:
        """A share of the amount as a budget of its own; of rho or epsilon."""
        if self.bound != "concentrated":
            raise InternalError("a share of mu^2 is no budget of its own.")
        return ZCDP(rho=self.amount * share) if self.concentrated else PureDP(epsilon=self.amount * share)

    @property
    def choice_law(self) -> SelectionLaw:
        return "gumbel" if self.concentrated else "exponential"

    def noise(self, part: Fraction, schema: Schema, margin: tuple[str, ...], unit: Unit) -> NoiseMechanism:
        """The noise on a margin that costs this part."""
        return self.noise_on(part, margin_sensitivity(schema, margin, unit))

    def noise_on(self, part: Fraction, sensitivity: Sensitivity) -> NoiseMechanism:
        """The noise on numbers of a sensitivity that costs this part."""
        if self.bound != "concentrated":
            return gaussian_noise(2 * part, sensitivity)
        budget = ZCDP(rho=part) if self.concentrated else PureDP(epsilon=part)
        (noise,) = noise_for(budget, [sensitivity])
        return noise

    def choice_scale(self, part: Fraction, sensitivity: Fraction) -> Fraction:
        """The scale of a noisy maximum that costs this part: epsilon = 2 s / scale, rho = epsilon^2 / 8, or
        mu^2 = (pi/8) epsilon^2.

        A scale that is too large to sample is refused here, so already when a plan is made. A scale is never below the
        smallest that can be sampled.
        """
        if self.bound == "gaussian":
            exact = 2 * sensitivity / sqrt_down(2 * part / mu_squared_of_range(Fraction(1)))
        else:
            exact = sensitivity / sqrt_down(2 * part) if self.concentrated else 2 * sensitivity / part
        if exact > LARGEST_SCALE:
            raise InputError(
                "a choice would need noise of a scale above 2^40 (about 1.1e12), the largest that is sampled here. Use "
                "a larger budget, fewer rounds, or a method that chooses nothing (ipf)."
            )
        return Fraction(float_up(max(exact, SMALLEST_SCALE)))
