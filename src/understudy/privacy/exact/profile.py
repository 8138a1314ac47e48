"""Privacy loss read off a transition law by enumeration: nothing is sampled, nothing is bounded that can be computed.

For a law given as log probabilities (inputs x outputs) and the pairs of neighbouring inputs:

* worst-case loss: the largest |ln P(m|n1) - ln P(m|n2)|, infinite where only one of the two can give m;
* delta(epsilon): the largest sum over m of (P(m|n1) - e^epsilon P(m|n2))+, the hockey-stick divergence, in both
  directions (Barthe and Olmedo 2013, Theorem 1): (epsilon, delta)-differential privacy holds with it and not below;
* the disclosure set of Machanavajjhala et al. (2008), Definitions 5 and 6.

See docs/theory/exact-audit.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats, Integers

Booleans = NDArray[np.bool_]
# Log odds this close above epsilon are equal to it: with exact arithmetic they often are (Abowd and Vilhuber, Fig. 4).
RESOLUTION = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """Two neighbouring tables and an output that tells them apart: ``likely`` makes it e^loss times likelier."""

    likely: tuple[int, ...]
    unlikely: tuple[int, ...]
    output: tuple[int, ...]
    loss: float


def signed_odds(log_law: Floats, pairs: Integers) -> Floats:
    """ln P(m | first) - ln P(m | second) for each pair and output; 0 where the output is impossible for both."""
    first, second = log_law[pairs[:, 0]], log_law[pairs[:, 1]]
    with np.errstate(invalid="ignore"):
        odds = first - second
    return np.where(np.isneginf(first) & np.isneginf(second), 0.0, odds)


def hockey_stick(log_law: Floats, pairs: Integers, epsilon: float) -> Floats:
    """The divergence of each pair, larger of the two directions.

    Each term is P (1 - e^(epsilon - loss)), computed where the loss exceeds epsilon: positive terms only, so that a
    delta of 1e-300 has as many good digits as one of 0.1.
    """
    odds = signed_odds(log_law, pairs)
    best = np.zeros(len(pairs))
    for side, loss in ((0, odds), (1, -odds)):
        over = loss > epsilon
        gain = np.where(over, -np.expm1(np.where(over, epsilon - loss, 0.0)), 0.0)
        best = np.maximum(best, (np.exp(log_law[pairs[:, side]]) * gain).sum(axis=1))
    return np.minimum(best, 1.0)


def exceeds(odds: Floats, epsilon: float) -> Booleans:
    """Whether log odds are above epsilon, by more than rounding can be."""
    return np.abs(odds) > epsilon + RESOLUTION * max(1.0, epsilon)


def disclosure_sets(log_law: Floats, inputs: Integers, pairs: Integers, epsilon: float) -> Booleans:
    """For each input D, the outputs of Disc(D, epsilon) (Machanavajjhala et al. 2008, Definition 5).

    An output is in it if some two neighbours X1, X2, each equal to D or a neighbour of D, have log odds above epsilon.
    """
    bad = exceeds(signed_odds(log_law, pairs), epsilon)
    near: list[set[int]] = [{number} for number in range(len(inputs))]
    for one, other in pairs.tolist():
        near[one].add(other)
        near[other].add(one)
    found = np.zeros(log_law.shape, dtype=bool)
    for number in np.flatnonzero(bad.any(axis=1)):
        one, other = pairs[number].tolist()
        found[sorted(near[one] & near[other])] |= bad[number]
    return found


def worst_witness(log_law: Floats, inputs: Integers, outputs: Integers, pairs: Integers) -> Witness | None:
    """The pair and output of the largest loss: the first in lexicographic order where several are equal."""
    if not len(pairs):
        return None
    odds = signed_odds(log_law, pairs)
    number, column = np.unravel_index(int(np.argmax(np.abs(odds))), odds.shape)
    loss = float(odds[number, column])
    likely, unlikely = pairs[number] if loss >= 0 else pairs[number][::-1]
    return Witness(
        likely=tuple(inputs[likely].tolist()),
        unlikely=tuple(inputs[unlikely].tolist()),
        output=tuple(outputs[column].tolist()),
        loss=abs(loss),
    )


def normalised(log_weights: Floats) -> Floats:
    """Log probabilities from log weights, over the last axis."""
    top = log_weights.max(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        total = np.log(np.exp(log_weights - top).sum(axis=-1, keepdims=True))
    return np.asarray(log_weights - top - total)


def log_multinomial_prior(inputs: Integers, shares: Floats) -> Floats:
    """Log prior over tables: each row falls into cell i with probability shares[i]; sizes are equally likely."""
    from scipy.special import gammaln

    totals = inputs.sum(axis=1)
    law = gammaln(totals + 1) - gammaln(inputs + 1).sum(axis=1) + (inputs * np.log(shares)).sum(axis=1)
    return np.asarray(law - math.log(len(np.unique(totals))))
