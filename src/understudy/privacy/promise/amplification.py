"""Amplification by sampling: what a release promises to people of a population who may be in its sample.

The theorem and its proof are in docs/theory/survey-weights.md; for Poisson sampling under adding and removing a person
it is Theorem 8, for simple random sampling without replacement under replacing one it is Theorem 9 of Balle, Barthe and
Gaboardi (2018, arXiv:1807.01647). The noise of a release is not smaller for it: it is a second sentence about the same
release.
"""

from __future__ import annotations

from fractions import Fraction

from understudy.core.exact_numbers import show_up
from understudy.core.sampling_scheme import Sampling
from understudy.errors import InputError, UnsupportedError
from understudy.privacy.promise.definition import ApproxDP, Definition, PureDP

GRID = 10**12  # parts of one to which an amplified epsilon is rounded up
OF_POPULATION = "For everybody in the population"
MOST = 200  # an epsilon beyond which e to it is no number worth a sentence


def amplified(guarantee: Definition, rate: Fraction) -> PureDP | ApproxDP:
    """The guarantee for the population, of a release with this guarantee for a sample drawn at most at this rate.

    With rate q, epsilon' = log(1 + q (e^epsilon - 1)) and delta' = q delta.

    Parameters
    ----------
    guarantee
        What is promised for the people in the sample, pure or approximate.
    rate
        The largest probability with which anybody is drawn.

    Returns
    -------
    PureDP | ApproxDP
        What follows for everybody in the population, epsilon rounded up.

    Raises
    ------
    InputError
        If the rate is not between 0 and 1.
    UnsupportedError
        If the guarantee is of another form.

    Examples
    --------
    >>> print(amplified(PureDP(epsilon=1), Fraction(1, 100)))
    pure differential privacy (epsilon = 0.0170369)
    """
    if not 0 < rate <= 1:
        raise InputError(f"rate ({rate}) must be a probability above 0.")
    if not isinstance(guarantee, PureDP | ApproxDP):
        raise UnsupportedError(
            "amplification by sampling is stated for epsilon, or epsilon and delta; state the budget in that form."
        )
    epsilon = guarantee.epsilon if guarantee.epsilon > MOST else min(_log(guarantee.epsilon, rate), guarantee.epsilon)
    if isinstance(guarantee, PureDP):
        return PureDP(epsilon=epsilon)
    return ApproxDP(epsilon=epsilon, delta=guarantee.delta * rate)


def _log(epsilon: Fraction, rate: Fraction) -> Fraction:
    """log(1 + q (e^epsilon - 1)), rounded up in decimals of fifty digits."""
    from decimal import ROUND_CEILING, Context, Decimal

    up = Context(prec=50, rounding=ROUND_CEILING)

    def decimal(value: Fraction) -> Decimal:
        return up.divide(Decimal(value.numerator), Decimal(value.denominator))

    grown = up.subtract(up.exp(decimal(epsilon)), Decimal(1))  # correct to half a unit of its last digit,
    inside = up.add(Decimal(1), up.multiply(decimal(rate), grown))
    found = up.ln(inside)
    slack = Decimal(10) ** -40  # which this is larger than, many times
    return Fraction(int((found + slack) * GRID) + 1, GRID)


def said_of_population(guarantee: Definition, sampling: Sampling | None) -> str | None:
    """The second sentence: what the release promises to everybody who might have been drawn; none if nothing is
    claimed."""
    if sampling is None or not isinstance(guarantee, PureDP | ApproxDP):
        return None
    scheme = {"poisson": "Poisson sampling", "simple": "simple random sampling"}[sampling.scheme]
    return (
        f"{OF_POPULATION}, drawn or not, this release has {amplified(guarantee, sampling.rate)}: by "
        f"{scheme} at a rate of at most {show_up(sampling.rate)}, if nobody can know who is in the sample. Whoever is "
        "known to be in it is protected as stated above"
    )


def is_of_population(note: str) -> bool:
    """Whether a note of a release is that sentence. It holds for what the release was made of, and nothing that joins
    later."""
    return note.startswith(OF_POPULATION)
