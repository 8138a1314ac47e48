"""What is not known of weights inside their bins, and how far that may move a weighted answer.

A release knows in which bin a weight is. Where the weights of a group lie inside is an assumption: it is held against
the tables, which must follow it from bin to bin, and what may be wrong goes into the interval and the label. See
docs/theory/survey-weights.md.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from understudy.core.arrays import Floats
from understudy.inference.estimands import Estimand

MOST_MOVED = 0.5  # standard errors by which the trend inside bins may change a quantity that is called valid
GOES_WITH = (
    "the answer goes strongly with the weight: what is assumed about weights inside their bins changes it by more than "
    "half a standard error"
)
CURVED = 1 / 8  # of what the trend inside bins changes: so much it may be off, because answers do not rise evenly
MOST_ROUGH = 0.3  # roughness of a table with the weight, up to which a quantity is called valid
ROUGH = (
    "how answers go with the weight is not smooth, so what holds inside bins of the weight is not known: the interval "
    "reaches up to the answers by other assumptions (independent inside bins, or as dependent as possible)"
)
PUBLIC_BINS = (
    "where weights lie inside their public bins was not measured: the interval holds every mean weight between the "
    "ends of each bin. With bounds instead of edges a release measures it"
)


def goes_with_weights(estimand: Estimand, shares: Floats) -> tuple[Floats, Floats, Floats]:
    """By how much each quantity is changed by what is assumed about weights inside their bins, and how much lower and
    higher it may be because that does not hold: a part of it always, more where tables are seen not to follow it."""
    weighting = estimand.weighting
    assert weighting is not None  # noqa: S101 - the caller looked
    straight = not weighting.strongly  # a trend inside bins, and no law of a number and the weight
    laws = [one for one in (weighting.plainly, weighting.strongly) if one]
    with np.errstate(all="ignore"):
        value = estimand.evaluate(shares[None, :])[0]
        away = [replace(estimand, members=one).evaluate(shares[None, :])[0] - value for one in laws]
    away = [np.where(np.isfinite(one), one, np.inf) for one in away] or [np.zeros(len(value))]
    if straight:  # without a strongest dependence the truth may be as far on the other side
        away.append(-away[0])
    lower = weighting.rough * np.minimum(np.min(away, axis=0), 0.0)
    upper = weighting.rough * np.maximum(np.max(away, axis=0), 0.0)
    off = CURVED * np.abs(away[0]) * straight
    return np.abs(away[0]), np.nan_to_num(np.maximum(-lower, off)), np.nan_to_num(np.maximum(upper, off))


def anywhere_in_bins(estimand: Estimand, shares: Floats) -> tuple[Floats, Floats]:
    """How much lower and higher each quantity may be because the mean weights of public bins are not known, to first
    order: each bin by itself takes the mean weight that moves the quantity most."""
    weighting, none = estimand.weighting, np.zeros(len(estimand.names))
    if weighting is None or weighting.ends is None or weighting.bin is None:
        return none, none
    below, above = none, none
    with np.errstate(all="ignore"):
        value = estimand.evaluate(shares[None, :])[0]
        for place in np.unique(weighting.bin):
            moved = [none]
            for end in weighting.ends:
                times = np.where(weighting.bin == place, end[place], 1.0)[:, None]
                other = replace(estimand, members=tuple(member * times for member in estimand.members))
                moved.append(other.evaluate(shares[None, :])[0] - value)
            found = np.where(np.isfinite(moved), moved, 0.0)
            below, above = below - found.min(axis=0), above + found.max(axis=0)
    return below, above
