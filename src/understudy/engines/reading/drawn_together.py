"""Where in their bins numbers lie: spread evenly, and those of one row together, so that a correlation does not end at
the edges of bins.

A coded row says in which bins its numbers lie. Drawn independently inside their bins, two numbers would be correlated
less than the bins say: with sixteen bins a correlation of .6 comes out as .58, and less where the bins are wide. Here
the places inside bins follow a normal copula. Its correlations are those of the bins themselves, corrected for what
binning takes away. Then the places are replaced by their ranks inside each bin, so every number alone has exactly the
law it would have had. Codes are public when they get here, so this is post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import pi, sqrt

import numpy as np
from scipy.special import ndtr, ndtri

from understudy.core.arrays import Floats
from understudy.core.mechanism import Stream
from understudy.core.rules import limits_of
from understudy.core.schema import Schema
from understudy.core.table import Codes
from understudy.privacy.randomness.draws import unit_interval

LEAST_ROWS = 200  # that a correlation is computed from
LEAST_BINS = 3
LEAST, MOST = 0.03, 0.95  # correlations below are left out, those above are cut
MOST_NUMBERS = 40  # that are drawn together; of more, those with the strongest correlations
ROUNDS = 2  # of drawing every number given the others, from the means of their bins
LEAST_ROOT = 0.02  # of the matrix of correlations, so that it can be inverted
EDGE = 1e-9  # probabilities nearer to 0 or 1 are taken for that


def places_together(
    schema: Schema, codes: Mapping[str, Codes], stream: Stream, *purpose: str | int
) -> dict[str, Floats]:
    """For attributes of numbers or dates: the place of every row inside its bin, from 0 to 1.

    The rows of a bin are spread evenly over it. Attributes in an order or a ratio are left out: their values are drawn
    again until the rule holds, by their own law.
    """
    ruled = {name for one in limits_of(schema) for name in (one.small, one.large)}
    names = [one.name for one in schema.attributes if not one.levels and one.name not in ruled]
    if not names or not len(codes[names[0]]):
        return {}
    numbers = {name: _Scored(np.asarray(codes[name], np.int64), schema[name].bins) for name in names}
    latent = _drawn_together(numbers, stream, *purpose)
    rows = len(codes[names[0]])
    return {
        name: _ranked(
            one,
            latent[name] if name in latent else unit_interval(stream, rows, *purpose, name, "order"),
            unit_interval(stream, rows, *purpose, name, "inside"),
        )
        for name, one in numbers.items()
    }


def _drawn_together(every: Mapping[str, _Scored], stream: Stream, *purpose: str | int) -> dict[str, Floats]:
    """A normal variable for every number that is correlated with another, given its bin and the other numbers."""
    names = [name for name, one in every.items() if one.bins >= LEAST_BINS]
    rows = len(next(iter(every.values())).codes)
    if len(names) < 2 or rows < LEAST_ROWS:
        return {}
    chosen, inverse = _inverse([every[name] for name in names])
    if len(chosen) < 2:
        return {}
    names = [names[place] for place in chosen]
    numbers = [every[name] for name in names]
    latent = np.column_stack([one.score for one in numbers])
    for number in range(ROUNDS):
        for place, one in enumerate(numbers):
            spread = 1 / sqrt(inverse[place, place])
            mean = latent[:, place] - (latent @ inverse[place]) / inverse[place, place]
            low, high = ndtr((one.low - mean) / spread), ndtr((one.high - mean) / spread)
            part = unit_interval(stream, rows, *purpose, names[place], "together", number)
            at = np.clip(low + (high - low) * part, EDGE, 1 - EDGE)
            latent[:, place] = np.where(one.there, np.clip(mean + spread * ndtri(at), one.low, one.high), 0.0)
    return {name: latent[:, place] for place, name in enumerate(names)}


class _Scored:
    """A column of bins on the scale of a normal variable: for every row the ends of its bin and the mean between."""

    def __init__(self, codes: np.ndarray, bins: int) -> None:
        self.bins = bins
        self.there = codes < bins
        self.codes = np.where(self.there, codes, 0)
        count = np.bincount(codes[self.there], minlength=bins)
        shares = count / max(count.sum(), 1)
        ends = np.clip(np.concatenate([[0.0], np.cumsum(shares)]), EDGE, 1 - EDGE)
        ends = ndtri(ends)
        heights = np.exp(-0.5 * ends**2) / sqrt(2 * pi)
        means = np.divide(-np.diff(heights), shares, out=np.zeros(bins), where=shares > 0)
        self.variance = float(shares @ means**2)
        self.low, self.high = ends[:-1][self.codes], ends[1:][self.codes]
        self.score = np.where(self.there, means[self.codes], 0.0)


def _inverse(numbers: list[_Scored]) -> tuple[list[int], Floats]:
    """The columns that are correlated with others, and the inverse of their correlations."""
    scores = np.column_stack([one.score for one in numbers])
    there = np.column_stack([one.there for one in numbers]).astype(float)
    both = there.T @ there
    kept = np.array([one.variance for one in numbers])
    scale = np.outer(kept, kept) * both
    found = np.divide(scores.T @ scores, scale, out=np.zeros_like(scale), where=(scale > 0) & (both >= LEAST_ROWS))
    found[np.abs(found) < LEAST] = 0.0
    found = np.clip(found, -MOST, MOST)
    np.fill_diagonal(found, 0.0)
    strongest = np.abs(found).max(axis=1)
    chosen = sorted(np.argsort(-strongest, kind="stable")[:MOST_NUMBERS].tolist())
    chosen = [place for place in chosen if strongest[place] > 0]
    matrix = found[np.ix_(chosen, chosen)] + np.eye(len(chosen))
    roots, vectors = np.linalg.eigh(matrix)
    matrix = (vectors * np.maximum(roots, LEAST_ROOT)) @ vectors.T
    size = np.sqrt(np.diag(matrix))
    return chosen, np.asarray(np.linalg.inv(matrix / np.outer(size, size)))


def _ranked(one: _Scored, latent: Floats, inside: Floats) -> Floats:
    """The rank of every row among those of its bin, spread evenly from 0 to 1."""
    order = np.lexsort((latent, one.codes, ~one.there))
    sorted_codes = one.codes[order] + (~one.there[order]) * (one.codes.max() + 1)
    begins = np.flatnonzero(np.diff(sorted_codes, prepend=-1))
    size = np.diff(np.append(begins, len(order)))
    rank = np.arange(len(order)) - np.repeat(begins, size)
    places = np.empty(len(order))
    places[order] = (rank + inside[order]) / np.repeat(size, size)
    return places
