"""Disclosure sets read off a transition law by enumeration (Machanavajjhala et al. 2008, Definitions 5 and 6).

The law is given as log probabilities (inputs x outputs), with the pairs of neighbouring inputs. Nothing is sampled. See
docs/theory/exact-audit.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats, Integers

Booleans = NDArray[np.bool_]
# Log odds this close above epsilon are equal to it: with exact arithmetic they often are (Abowd and Vilhuber, Fig. 4).
RESOLUTION = 1e-12


def signed_odds(log_law: Floats, pairs: Integers) -> Floats:
    """ln P(m | first) - ln P(m | second) for each pair and output; 0 where the output is impossible for both."""
    first, second = log_law[pairs[:, 0]], log_law[pairs[:, 1]]
    with np.errstate(invalid="ignore"):
        odds = first - second
    return np.where(np.isneginf(first) & np.isneginf(second), 0.0, odds)


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
