"""The exact loss of the laws that ran, between two tables and at worst: from the recorded numbers of the loops alone.

Two Dirichlet-multinomial draws differ only through the cells whose records differ: all other cells can be merged into
one without loss (the likelihood ratio does not depend on how rows fall among them). What is left is small enough to be
enumerated; an epsilon needs no enumeration, for the largest log ratio is a sum over cells with a common number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from replaying.recording import Answers, Law, NoisyList, ShrunkUrn, Urn
from understudy.privacy.exact.dirichlet_breach import breach_of_table, thresholds
from understudy.privacy.exact.dirichlet_profile import PriorShape
from understudy.privacy.exact.dirichlet_profile import delta as profile_delta
from understudy.privacy.mechanisms.flow_draws import Block
from understudy.privacy.mechanisms.private_sizes import private_delta
from understudy.privacy.promise.definition import Unit

Floats = NDArray[np.float64]
MOST_TABLES = 400_000
CLOSE_TO_SAFE = 1 + 1e-12  # equality to rounding is no breach


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two laws as probabilities over the same outcomes; what is left out of both is nothing."""

    one: Floats
    other: Floats

    def times(self, more: Pair) -> Pair:
        """Both draws together, which are independent."""
        return Pair(
            one=np.multiply.outer(self.one, more.one).ravel(), other=np.multiply.outer(self.other, more.other).ravel()
        )

    def delta(self, epsilon: float) -> float:
        """The larger of the two hockey-stick divergences."""
        growth = math.exp(epsilon)
        first = np.maximum(self.one - growth * self.other, 0.0).sum()
        second = np.maximum(self.other - growth * self.one, 0.0).sum()
        return float(max(first, second))

    def epsilon(self) -> float:
        possible = (self.one > 0) | (self.other > 0)
        with np.errstate(divide="ignore"):
            ratio = np.log(self.one[possible]) - np.log(self.other[possible])
        return float(np.abs(ratio).max()) if len(ratio) else 0.0


class TooLargeError(Exception):
    """A law that cannot be enumerated here."""


def tables_of(rows: int, cells: int) -> NDArray[np.int64]:
    """All ways to put so many rows into so many cells.

    >>> tables_of(2, 2).tolist()
    [[0, 2], [1, 1], [2, 0]]
    """
    if math.comb(rows + cells - 1, cells - 1) > MOST_TABLES:
        raise TooLargeError(f"{rows} rows in {cells} cells")
    bars = np.array(list(combinations(range(rows + cells - 1), cells - 1)), dtype=np.int64).reshape(-1, cells - 1)
    edges = np.hstack([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), rows + cells - 1)])
    return np.asarray(np.diff(edges, axis=1) - 1)


def dirichlet_multinomial(sizes: list[float], tables: NDArray[np.int64]) -> Floats:
    """Probabilities of tables under an urn that starts with these sizes; a cell of size 0 stays empty."""
    from scipy.special import gammaln

    rows, total = int(tables[0].sum()), math.fsum(sizes)
    log = np.full(len(tables), gammaln(rows + 1) + gammaln(total) - gammaln(total + rows))
    for cell, size in enumerate(sizes):
        drawn = tables[:, cell]
        if size > 0:
            log += gammaln(size + drawn) - gammaln(size) - gammaln(drawn + 1)
        else:
            log[drawn > 0] = -np.inf
    return np.asarray(np.exp(log))


def differing(one: Mapping[int, int], other: Mapping[int, int]) -> list[int]:
    return sorted(cell for cell in {*one, *other} if one.get(cell, 0) != other.get(cell, 0))


def pair_of(one: Law, other: Law) -> Pair:
    """The two laws over the outcomes in which they differ."""
    if isinstance(one, Urn) and isinstance(other, Urn):
        return _accepted_pair(one, other) if one.accepted is not None else _urn_pair(one, other)
    if isinstance(one, ShrunkUrn) and isinstance(other, ShrunkUrn):
        return _shrunk_pair(one, other)
    raise TooLargeError("noise on cells is compared by its distance")


def _urn_pair(one: Urn, other: Urn) -> Pair:
    cells = differing(one.records, other.records)
    priors = [one.prior_of(cell) for cell in cells]
    tables = tables_of(one.rows, len(cells) + 1)

    def law(urn: Urn) -> Floats:
        own = [urn.records.get(cell, 0) for cell in cells]
        rest = max(urn.whole_prior - sum(priors), 0.0) + urn.size - sum(own)
        if len(cells) == urn.cells:
            rest = 0.0
        return dirichlet_multinomial([*(prior + count for prior, count in zip(priors, own, strict=True)), rest], tables)

    return Pair(one=law(one), other=law(other))


def _accepted_pair(one: Urn, other: Urn) -> Pair:
    """A draw that is repeated until it is acceptable, which depends on all cells: nothing can be merged."""
    tables = tables_of(one.rows, one.cells)

    def law(urn: Urn) -> Floats:
        sizes = [float(urn.prior) + urn.records.get(cell, 0) for cell in range(urn.cells)]
        chances = dirichlet_multinomial(sizes, tables)
        cells = np.array(sorted(urn.records), dtype=np.int64)
        block = Block(
            destinations=np.zeros(1, dtype=np.int64),
            starts=np.array([0, len(cells)]),
            cells=cells,
            jobs=np.array([urn.records[int(cell)] for cell in cells], dtype=np.int32),
            rows=np.array([urn.rows]),
        )
        numbers = np.arange(urn.cells)
        good = np.array([urn.accepted._good(block, 0, np.repeat(numbers, table)) for table in tables])
        kept = np.where(good, chances, 0.0)
        return np.asarray(kept / kept.sum())

    return Pair(one=law(one), other=law(other))


def _shrunk_pair(one: ShrunkUrn, other: ShrunkUrn) -> Pair:
    """Which other empty places were retained is told as well, which loses no less than what is released.

    A place without records is in the domain with its probability and else stays empty; a place with records is in it.
    """
    cells = differing(one.records, other.records)
    prior, places = float(one.prior), len(one.keeps)
    known = {cell for cell in {*one.records, *other.records} if cell not in cells}
    sure = len(known - {places}) + int(one.elsewhere and places not in cells)
    records = sum(count for cell, count in one.records.items() if cell in known)
    open_ones = [float(one.keeps[place]) for place in range(places) if place not in known and place not in cells]
    retained = np.ones(1)
    for keep in open_ones:
        retained = np.convolve(retained, [1 - keep, keep])
    tables = tables_of(one.rows, len(cells) + 1)

    def law(urn: ShrunkUrn, rest: float) -> Floats:
        total = np.zeros(len(tables))
        for subset in range(2 ** len(cells)):
            chance, sizes = 1.0, []
            for number, cell in enumerate(cells):
                inside, count = bool(subset >> number & 1), urn.records.get(cell, 0)
                certain = count > 0 or cell == places
                keep = 1.0 if certain else float(urn.keeps[cell])
                chance *= keep if inside else 1 - keep
                sizes.append(prior + count if inside else 0.0)
            if chance > 0:
                total += chance * dirichlet_multinomial([*sizes, rest], tables)
        return total

    rests = [(sure + number) * prior + records for number in range(len(retained))]
    return Pair(
        one=np.concatenate([share * law(one, rest) for share, rest in zip(retained, rests, strict=True)]),
        other=np.concatenate([share * law(other, rest) for share, rest in zip(retained, rests, strict=True)]),
    )


def pure_epsilon(one: Law, other: Law) -> float:
    """The largest absolute log ratio of two laws, whatever the number of rows and cells."""
    if isinstance(one, NoisyList) and isinstance(other, NoisyList):
        if one.balanced and sum(one.truth) != sum(other.truth):
            return math.inf  # noise that adds up to 0 tells the total
        return float(moved(one, other) / one.scale) if one.scale else math.inf
    if isinstance(one, Answers) and isinstance(other, Answers):
        if sum(one.records.values()) != sum(other.records.values()):
            return math.inf  # answers are as many as records
        cells = differing(one.records, other.records)
        changed = sum(abs(one.records.get(cell, 0) - other.records.get(cell, 0)) for cell in cells) / 2
        return changed * math.log1p(1 / float(one.prior)) if one.cells > 1 else 0.0
    assert isinstance(one, Urn)
    assert isinstance(other, Urn)
    return max(_largest_ratio(one, other), _largest_ratio(other, one))


def _largest_ratio(one: Urn, other: Urn) -> float:
    from scipy.special import gammaln

    rows = one.rows
    drawn = np.arange(rows + 1)
    best = np.full(rows + 1, -np.inf)  # of so many rows in the cells seen so far
    best[0] = 0.0

    def rising(size: float) -> Floats:
        return np.asarray(gammaln(size + drawn) - gammaln(size))

    for cell in differing(one.records, other.records):
        prior = one.prior_of(cell)
        own = rising(prior + one.records.get(cell, 0)) - rising(prior + other.records.get(cell, 0))
        best = np.array([max(best[before] + own[number - before] for before in range(number + 1)) for number in drawn])
    totals = [urn.whole_prior + urn.size for urn in (other, one)]
    constant = (gammaln(totals[0] + rows) - gammaln(totals[0])) - (gammaln(totals[1] + rows) - gammaln(totals[1]))
    elsewhere = one.cells > len(differing(one.records, other.records))
    return float((best if elsewhere else best[-1:]).max() + constant) if rows else 0.0


def worst_delta(law: Urn, unit: Unit, *, public_size: bool, epsilon: float) -> float:
    """The exact delta of this draw over all tables with its public size; for private sizes the bound of Theorem 6."""
    if law.cells < 2 or not law.rows:
        return 0.0
    prior = float(law.prior)
    if public_size:
        smallest, second = law.smallest_two
        shape = PriorShape(smallest=smallest, second=second, total=law.whole_prior, cells=law.cells, rows=law.rows)
        return profile_delta(shape, law.size, Unit(kind="replace"), epsilon)
    each = epsilon / 2 if unit.kind == "replace" else epsilon
    return private_delta(prior, prior * law.cells, law.rows, each)


def worst_epsilon(law: Law, moves: int, *, moved_counts: int = 0) -> float:
    """Theorem 4.1 for so many records, one after another; for noise, that of counts which move by so much in all."""
    if isinstance(law, NoisyList):
        return float(moved_counts / law.scale) if law.scale else math.inf
    if isinstance(law, Answers):
        return moves * math.log1p(1 / float(law.prior)) if law.cells > 1 else 0.0
    assert isinstance(law, Urn)
    return moves * math.log1p(law.rows / law.smallest_two[0]) if law.cells > 1 else 0.0


def breach_probability(law: Urn, epsilon: float) -> float:
    """Definition 6 for the table at hand: the probability of an output that some neighbour makes likelier, or less
    likely, by more. By enumeration; where there are too many outputs, a bound that takes every cell by itself."""
    if law.cells < 2 or not law.rows or not law.records:
        return 0.0
    prior = float(law.prior)
    try:
        tables = tables_of(law.rows, law.cells)
    except TooLargeError:
        counts = tuple(sorted(law.records.values(), reverse=True))
        return breach_of_table(counts, prior, law.cells, law.rows, thresholds(prior, law.size, law.rows, epsilon))
    records = [law.records.get(cell, 0) for cell in range(law.cells)]
    breach = np.zeros(len(tables), dtype=bool)
    for left, count in enumerate(records):  # one record leaves this cell
        for entered in range(law.cells):
            if count and entered != left:
                gain = np.log1p(tables[:, left] / (prior + count - 1))
                gain = gain - np.log1p(tables[:, entered] / (prior + records[entered]))
                breach |= np.abs(gain) > epsilon * CLOSE_TO_SAFE
    chances = dirichlet_multinomial([prior + count for count in records], tables)
    return float(chances[breach].sum())


def moved(one: NoisyList, other: NoisyList) -> int:
    """The L1 distance of the counts of one destination."""
    return int(np.abs(np.array(one.truth) - np.array(other.truth)).sum())


def gaussian_tail(scale: Fraction, least: int) -> float:
    """P(Z >= least) for discrete Gaussian noise, by adding up."""
    reach = math.ceil(40 * float(scale)) + abs(least)
    steps = np.arange(-reach, reach + 1)
    weights = np.exp(-((steps / float(scale)) ** 2) / 2)
    return float(weights[steps >= least].sum() / weights.sum())


def exponential_loss(scale: float, one: int, other: int) -> float:
    """The largest log ratio of two counts by the exponential mechanism on 0, 1, 2, ..., by listing outputs."""
    outputs = np.arange(max(one, other) + math.ceil(60 * scale) + 2)
    logs = []
    for count in (one, other):
        weights = np.exp(-np.abs(outputs - count) / scale)
        logs.append(-np.abs(outputs - count) / scale - math.log(float(weights.sum())))
    return float(np.abs(logs[0] - logs[1]).max())


def trimmed_tail(scale: float, bound: int, step: int) -> float:
    """The probability of noise within a bound that noise of a count that is ``step`` more cannot imitate."""
    values = np.arange(-bound, bound + 1)
    weights = np.exp(-(values.astype(float) ** 2) / (2 * scale**2))
    return float(weights[values < step - bound].sum() / weights.sum())


def trimmed_delta(scale: float, bound: int, steps: list[int], epsilon: float) -> float:
    """The delta of Gaussian noise within a bound, if cells move by these steps, by listing all outputs."""
    values = np.arange(-bound, bound + 1)
    weights = np.exp(-(values.astype(float) ** 2) / (2 * scale**2))
    law = dict(zip(values.tolist(), (weights / weights.sum()).tolist(), strict=True))
    pairs = [(1.0, 1.0)]
    for step in steps:
        cell = [(chance, law.get(value - step, 0.0)) for value, chance in law.items()]
        pairs = [(p * a, q * b) for p, q in pairs for a, b in cell]
    return math.fsum(max(p - math.exp(epsilon) * q, 0.0) for p, q in pairs)
