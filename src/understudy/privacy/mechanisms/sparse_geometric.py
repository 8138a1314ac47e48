"""Geometric noise on every cell of a huge domain, of which only the cells above a threshold are written down.

What comes out is a function of the noisy table over the whole public domain, so it costs what that table costs and
the list of non-empty cells stays secret. What it takes to make it does not grow with the empty cells that stay below
the threshold (Cormode, Procopiuc, Srivastava and Tran 2012). See docs/theory/sparse-noise.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Integers
from understudy.core.exact_numbers import Number, from_text, to_text
from understudy.core.mechanism import Stream
from understudy.errors import InputError, InternalError
from understudy.privacy.mechanisms.noise import Geometric, read_scale
from understudy.privacy.promise.event import Event, GeometricNoise, Sensitivity
from understudy.privacy.randomness.draws import uniform_below
from understudy.privacy.randomness.keyed_noise import binomial, discrete_laplace, exceeding, geometric

LARGEST_DOMAIN = 2**62
PART_CELLS = 2**16  # at least so many cells are drawn together, under a substream of their own,
MOST_PARTS = 4096  # in at most so many parts


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseGeometric:
    """Two-sided geometric noise of ``scale`` on each of ``domain`` cells; values above ``threshold`` are reported.

    >>> mechanism = SparseGeometric(scale=1, threshold=6, domain=10**9)
    >>> round(mechanism.expected_empty)     # empty cells whose noise alone brings them above the threshold
    666639
    """

    scale: Fraction
    threshold: int
    domain: int
    name: ClassVar[str] = "sparse_geometric"
    covers: ClassVar[str] = "whole_domain"

    def __init__(self, *, scale: Number, threshold: int, domain: int) -> None:
        if threshold < 0:
            raise InputError(f"threshold ({threshold}) must not be negative: below it empty cells would be listed.")
        if not 1 <= domain <= LARGEST_DOMAIN:
            raise InputError(f"the domain ({domain} cells) must have between 1 and 2^62 cells.")
        object.__setattr__(self, "scale", read_scale(scale))
        object.__setattr__(self, "threshold", threshold)
        object.__setattr__(self, "domain", domain)

    def event(self, sensitivity: Sensitivity) -> Event:
        """What the whole noisy table would cost; leaving out cells by their noisy values is post-processing."""
        return GeometricNoise(l1=Fraction(sensitivity.l1), scale=self.scale)

    @property
    def variance(self) -> float:
        """Of the noise on one cell, reported or not."""
        return Geometric(scale=self.scale).variance

    @property
    def expected_empty(self) -> float:
        rate = 1 / float(self.scale)
        return self.domain * math.exp(-rate * (self.threshold + 1)) / (1 + math.exp(-rate))

    def run(self, values: Integers, stream: Stream) -> Integers:
        """Noisy values of all cells as a gate measures them; the threshold stands for a cell that is not reported."""
        flat = np.asarray(values, dtype=np.int64).ravel()
        if len(flat) != self.domain:
            raise InternalError("noise for a domain of another size.")
        filled = np.flatnonzero(flat)
        return self.dense(*self.draw_parts(filled, flat[filled], stream, self.name)).reshape(np.shape(values))

    def dense(self, cells: Integers, noisy: Integers) -> Integers:
        """Reported cells as a table of all cells; the threshold stands for a cell that is not reported."""
        out = np.full(self.domain, self.threshold, dtype=np.int64)
        out[cells] = noisy
        return out

    @property
    def part_cells(self) -> int:
        """Cells of a part of the domain that is drawn by itself: public, and the same wherever it is drawn."""
        return max(PART_CELLS, -(-self.domain // MOST_PARTS))

    @property
    def parts(self) -> int:
        return -(-self.domain // self.part_cells)

    def draw_parts(
        self, cells: Integers, counts: Integers, stream: Stream, *purpose: str | int
    ) -> tuple[Integers, Integers]:
        """All parts one after another: what tasks that draw some parts each find together, to the last value."""
        cuts = np.searchsorted(cells, np.arange(self.parts + 1) * self.part_cells)
        drawn = [
            self.draw_part(part, cells[first:last], counts[first:last], stream, *purpose)
            for part, (first, last) in enumerate(pairwise(cuts))
        ]
        return np.concatenate([found for found, _ in drawn]), np.concatenate([values for _, values in drawn])

    def draw_part(
        self, part: int, cells: Integers, counts: Integers, stream: Stream, *purpose: str | int
    ) -> tuple[Integers, Integers]:
        """The reported cells of one part, from its non-empty cells, under a substream named by the part."""
        start = part * self.part_cells
        size = min(self.part_cells, self.domain - start)
        found, values = self.draw(cells - start, counts, stream, *purpose, part, size=size)
        return found + start, values

    def draw(
        self, cells: Integers, counts: Integers, stream: Stream, *purpose: str | int, size: int | None = None
    ) -> tuple[Integers, Integers]:
        """The reported cells in order with their noisy values; ``cells`` are the non-empty ones, sorted.

        ``size`` is that of a part of the domain which is drawn by itself, under its own purpose.
        """
        space = self.domain if size is None else size
        noisy = counts + discrete_laplace(self.scale, len(cells), stream, *purpose, "filled")
        kept = noisy > self.threshold
        number = binomial(exceeding(self.scale, self.threshold), space - len(cells), stream, *purpose, "how many")
        empty = empty_cells(cells, space, number, stream, *purpose, "which")
        above = self.threshold + 1 + geometric(self.scale, number, stream, *purpose, "how far")
        found, values = np.concatenate([cells[kept], empty]), np.concatenate([noisy[kept], above])
        order = np.argsort(found)
        return found[order], values[order]

    def log_pmf(self, out: Integers, values: Integers) -> NDArray[np.float64]:
        """Log probability of what is reported of cells with these counts; ``out`` at the threshold or below it means
        that a cell is not reported."""
        noise = Geometric(scale=self.scale)
        reported = np.asarray(out) > self.threshold
        return np.where(reported, noise.log_pmf(out, values), self._log_unreported(np.asarray(values)))

    def _log_unreported(self, values: Integers) -> NDArray[np.float64]:
        """log P(count + noise <= threshold), by the tail that is small."""
        rate = 1 / float(self.scale)
        room = self.threshold - values.astype(np.float64)
        tail = -rate * np.where(room >= 0, room + 1, -room) - math.log1p(math.exp(-rate))
        with np.errstate(divide="ignore"):
            return np.where(room >= 0, np.log1p(-np.exp(tail)), tail)

    def to_json(self) -> dict[str, str]:
        return {
            "mechanism": self.name, "scale": to_text(self.scale), "threshold": str(self.threshold),
            "domain": str(self.domain),
        }  # fmt: skip

    def __str__(self) -> str:
        return f"{self.name}(scale = {float(self.scale):.6g}, reported above {self.threshold})"


def threshold_for(scale: Fraction, domain: int, most: int) -> int:
    """The smallest threshold at which not more than ``most`` empty cells are expected to be reported."""
    rate = 1 / float(scale)
    return max(0, math.ceil((math.log(domain / most) - math.log1p(math.exp(-rate))) / rate) - 1)


def empty_cells(cells: Integers, space: int, number: int, stream: Stream, *purpose: str | int) -> Integers:
    """``number`` different cells, uniform over the sets of that size among the cells that are not in ``cells``.

    Cells are drawn one after another and a repeated or non-empty one is drawn again, so each step is uniform over the
    empty cells not chosen yet.
    """
    chosen = np.empty(0, dtype=np.int64)
    while len(chosen) < number:
        tried = uniform_below(stream, space, number - len(chosen), *purpose)
        tried = tried[~_listed(tried, cells)]
        # Keep the first of each, in the order drawn: the set after each step is then what drawing one by one gives.
        joined = np.concatenate([chosen, tried])
        _, first = np.unique(joined, return_index=True)
        chosen = joined[np.sort(first)]
    return np.sort(chosen)


def _listed(tried: Integers, cells: Integers) -> NDArray[np.bool_]:
    place = np.searchsorted(cells, tried)
    inside = place < len(cells)
    inside[inside] = cells[place[inside]] == tried[inside]
    return inside


def read_sparse(data: Mapping[str, str]) -> SparseGeometric:
    """Read back what ``to_json`` wrote, bit for bit."""
    if set(data) != {"mechanism", "scale", "threshold", "domain"}:
        raise InputError("mechanism 'sparse_geometric' needs exactly a scale, a threshold and a domain.")
    scale = from_text(data["scale"], "scale")
    mechanism = SparseGeometric(scale=scale, threshold=_whole(data["threshold"]), domain=_whole(data["domain"]))
    if mechanism.scale != scale:
        raise InputError("the scale of mechanism 'sparse_geometric' is not the exact value of a 64-bit float.")
    return mechanism


def _whole(text: str) -> int:
    if not (isinstance(text, str) and text.isascii() and text.isdigit()):
        raise InputError("the threshold and domain of mechanism 'sparse_geometric' must be whole numbers.")
    return int(text)
