"""Answers from tables that joined a release after everybody could see it.

Somebody saw the release, chose a question, and had its table measured. The noise of that table is fresh. The noise of
the release is not: a question that stood out there starts from an exaggerated value, and an answer from all tables
keeps part of it. So such a table answers by itself. What it shares with the release is the sample of people, and the
release shows that sample with noise. The interval is longer by what a choice among ``QUESTIONS`` can gain from this.
See docs/theory/validation.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import sqrt

import numpy as np
from scipy.special import ndtr, ndtri

from understudy.core.arrays import Floats
from understudy.core.measurement import Measurement
from understudy.inference.estimands import Estimand
from understudy.inference.noise_aware import influence
from understudy.release.table_release import Release

QUESTIONS = 20  # the chosen question may be any of so many: nothing is promised for one that is asked more rarely
NODES = 400  # of an average over what was seen
HALVINGS = 60
SHARES = 21  # values tried for the part of an error that was seen
MOST_SEEN = 1200  # numbers of the tables seen before; beyond, all of the sample counts as seen
APART, NEWEST, TOGETHER = "apart", "newest", "together"
USES = (APART, NEWEST, TOGETHER)
ANY_QUESTION = (
    "this uses tables that were measured after others could be seen; it holds only if the question was fixed before "
    "anybody looked at the release"
)


def joined_labels(release: Release) -> set[str]:
    """The labels of the measurements that joined a release."""
    return {step.label for one in release.provenance.added for step in one.plan.steps}


def as_first_made(release: Release) -> Release:
    """The release without what joined it."""
    later = joined_labels(release)
    if not later:
        return release
    return replace(
        release,
        measurements=tuple(one for one in release.measurements if one.label not in later),
        provenance=replace(release.provenance, added=()),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Joined:
    """One table that joined, and what could be seen when it was asked for."""

    release: Release
    fresh: Measurement
    earlier: tuple[Measurement, ...]

    @property
    def tables(self) -> Release:
        """The release with the fresh table alone."""
        return replace(self.release, measurements=(self.fresh,), provenance=replace(self.release.provenance, added=()))

    def seen(self, estimand: Estimand, shares: Floats, records: float) -> Floats:
        """How much of the variance of each quantity's sampling error the earlier tables show, between 0 and 1.

        It is the squared correlation of the sampling error with the noisy numbers of the earlier tables, all of
        them together, for large samples. Nothing is seen of a number of records: it has no sampling error.
        """
        everything = np.ones(len(estimand.names))
        if estimand.of_counts:
            return np.zeros(len(estimand.names))
        with np.errstate(all="ignore"):
            slopes = influence(estimand, shares)
        scores = (slopes - shares @ slopes)[estimand.labels]
        cells = np.bincount(estimand.labels, minlength=estimand.groups)
        chance = shares[estimand.labels] / cells[estimand.labels]
        shown = _shown(self.release, self.earlier, estimand)
        if not shown:
            return np.zeros(len(estimand.names))
        size = sum(int(places.max()) + 1 for places, _ in shown)
        if size > MOST_SEEN or not np.isfinite(scores).all():
            return everything
        columns = np.column_stack([np.eye(int(places.max()) + 1)[places] for places, _ in shown])
        noise = np.concatenate([variances for _, variances in shown]) / max(records, 1.0)
        means = chance @ columns
        spread = columns.T @ (chance[:, None] * columns) - np.outer(means, means) + np.diag(noise)
        together = columns.T @ (chance[:, None] * scores)
        whole = chance @ scores**2
        with np.errstate(all="ignore"):
            part = np.einsum("sq,sq->q", together, np.linalg.pinv(spread, hermitian=True) @ together) / whole
        return np.where(np.isfinite(part), np.clip(part, 0.0, 1.0), 1.0)

    def expected(self, estimand: Estimand, level: float, noise: Callable[[Release], float]) -> float:
        """Half an interval in standard errors of sampling, from public facts: all cells are taken as equally likely.

        ``noise``: the variance of the noise of some tables, in sampling variances.
        """
        seen = 1 / (1 + noise(replace(self.release, measurements=self.earlier))) if self.earlier else 0.0
        if estimand.of_counts:
            seen = 0.0
        own = sqrt(max(1 + noise(self.tables) - seen, 0.0))
        return float(half_width(np.array([own]), np.array([sqrt(seen)]), level)[0])


def _shown(release: Release, earlier: Sequence[Measurement], estimand: Estimand) -> list[tuple[np.ndarray, Floats]]:
    """What tables say about the attributes of a question: numbers of people, with the variance of their noise.

    For each set of attributes that tables share with the question: the number that each cell of the question counts
    to, and the variance of each. Tables of the same set are put together by precision. Where one holds the whole
    question, its groups are counted instead of its cells.
    """
    schema, wanted = release.schema, estimand.margin
    found: dict[tuple[str, ...], tuple[np.ndarray, Floats]] = {}
    for one in earlier:
        common = tuple(name for name in wanted if name in one.margin)
        if not common:
            continue
        if len(common) == len(wanted):
            places = estimand.labels
        else:
            codes = np.indices(schema.shape(wanted)).reshape(len(wanted), -1)
            kept = [codes[wanted.index(name)] for name in common]
            places = np.ravel_multi_index(kept, schema.shape(common))
        size = int(places.max()) + 1
        cells = schema.cells(one.margin) * np.bincount(places, minlength=size) / len(places)
        precision = 1.0 / np.maximum(float(one.mechanism.variance) * cells, np.finfo(float).tiny)
        known = found.get(common)
        found[common] = (places, precision if known is None else precision + known[1])
    return [(places, 1.0 / precision) for places, precision in found.values()]


def tables_that_joined(release: Release, wanted: tuple[str, ...]) -> list[Joined]:
    """The tables that joined and hold some attributes together, the newest first."""
    later = joined_labels(release)
    found = []
    for place, one in enumerate(release.measurements):
        if one.label in later and set(wanted) <= set(one.margin):
            found.append(Joined(release=release, fresh=one, earlier=release.measurements[:place]))
    return found[::-1]


def half_width(own: Floats, seen: Floats, level: float, questions: int = QUESTIONS) -> Floats:
    """Half of an interval that holds the truth although the question was chosen.

    The error is A + M. A is normal with standard deviation ``own`` and independent of what was seen. M is normal with
    standard deviation ``seen``, and a function of what was seen. Whatever rule chose the question: given a
    choice of probability 1 / ``questions`` or more, A + M is outside with probability at most 1 - ``level``. The worst
    rule chooses the question if abs(M) is among its largest.

    >>> half_width(np.array([1.0, 0.0, 0.6]), np.array([0.0, 1.0, 0.8]), 0.95).round(2).tolist()
    [1.96, 3.02, 2.97]
    """
    u = (np.arange(NODES) + 0.5) / NODES
    largest = seen * -ndtri(u / (2 * questions))[:, None]
    low = np.zeros(len(own))
    high = (own + seen) * -ndtri((1 - level) / (2 * questions)) + np.finfo(float).tiny
    room = np.maximum(own, 1e-9 * (own + seen) + np.finfo(float).tiny)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        missed = (ndtr((largest - middle) / room) + ndtr(-(largest + middle) / room)).mean(axis=0)
        low, high = np.where(missed > 1 - level, middle, low), np.where(missed > 1 - level, high, middle)
    return np.asarray(high)


def wrong_side(own: float, seen: float, margin: float, questions: int = QUESTIONS) -> float:
    """The largest probability that A + M is beyond a margin on one side, whatever rule chose the question.

    >>> round(wrong_side(1.0, 0.0, 1.645), 3), round(wrong_side(0.0, 1.0, 2.807), 3)
    (0.05, 0.05)
    """
    u = (np.arange(NODES) + 0.5) / NODES
    largest = seen * -ndtri(u / questions)
    return float(ndtr((largest - margin) / max(own, 1e-9 * seen, np.finfo(float).tiny)).mean())


@lru_cache
def narrowest_claim(level: float, wrong: float, questions: int = QUESTIONS) -> float:
    """Half an interval of some level, divided by the margin beyond which an error has probability ``wrong``: the
    smallest value, whatever part of the error was seen."""
    shares = np.linspace(0, 1, SHARES)
    halves = half_width(np.sqrt(1 - shares), np.sqrt(shares), level, questions)
    ratios: list[float] = []
    for share, half in zip(shares.tolist(), halves.tolist(), strict=True):
        low, high = 0.0, 2 * half
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            if wrong_side(sqrt(1 - share), sqrt(share), middle, questions) > wrong:
                low = middle
            else:
                high = middle
        ratios.append(half / high)
    return min(ratios)
