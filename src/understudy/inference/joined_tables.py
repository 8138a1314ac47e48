"""Answers from tables that joined a release after everybody could see it.

Somebody saw the release, chose a question, and had its table measured. The noise of that table is fresh. The noise of
the release is not, and neither is the sample of people: a question that stood out there starts from an exaggerated
value. So the error of an answer has two parts: one that nobody could see, and one that is a function of what was seen.
The interval is longer by what a choice among ``QUESTIONS`` can gain from the second part. This holds for the fresh
table by itself, and for the fresh table put together with tables that were fixed beforehand (``beside``), where more
was seen and less noise is left. See docs/theory/validation.md.
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
from understudy.inference.evidence import public_records
from understudy.inference.noise_aware import influence
from understudy.inference.without_prior import Quantity
from understudy.release.table_release import Release

QUESTIONS = 20  # the chosen question may be any of so many: nothing is promised for one that is asked more rarely
NODES = 400  # of an average over what was seen
HALVINGS = 60
SHARES = 21  # values tried for the part of an error that was seen
MOST_SEEN = 1200  # numbers of the tables seen before; beyond, all of the sample counts as seen
MOST_CELLS = 600  # of a question whose fresh table is put together with earlier ones
TOTAL, RESOLVED, TINY = 1e4, 1e-12, 1e-12  # the weight of a public total; what counts as 0
LONGER = 0.2  # of the part of the noise that goes when tables are put together: so much longer an interval may be
APART, CONFIRMED, NEWEST, TOGETHER = "apart", "confirmed", "newest", "together"
USES = (APART, CONFIRMED, NEWEST, TOGETHER)
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
    beside: tuple[Measurement, ...] = ()  # of the earlier ones: those that the fresh table is put together with

    @property
    def tables(self) -> Release:
        """The release with the fresh table alone, or with those that it is put together with."""
        if self.beside:
            return replace(self.release, measurements=(*self.beside, self.fresh))
        return replace(self.release, measurements=(self.fresh,), provenance=replace(self.release.provenance, added=()))

    def put_together(self, fixed: Sequence[Measurement], wanted: tuple[str, ...]) -> Joined | None:
        """The fresh table with those that were fixed beforehand, and with those that joined before it.

        None if none of them holds all attributes of a question, or if they are too many to say what they show.
        """
        later = joined_labels(self.release)
        beside = tuple(one for one in self.earlier if one in fixed or one.label in later)
        if not any(set(wanted) <= set(one.margin) for one in beside):
            return None
        return replace(self, beside=beside) if self.release.schema.cells(wanted) <= MOST_CELLS else None

    def unseen(
        self, estimand: Estimand, shares: Floats, records: float, *, plain: bool, slopes: Floats | None = None
    ) -> Floats:
        """The part of each error's variance that nobody could see, between 0 and 1, of an answer from ``tables``.

        For large samples the answer is the least-squares one. Its error is the sampling error and the noise of each
        table, times a weight; of the fresh table all noise is unseen. What was seen of the rest is its regression on
        all earlier tables. ``plain``: rows are independent; otherwise all of the sample counts as seen. ``slopes``: of
        other quantities of the same groups, instead of those that the question asks about.
        """
        if slopes is None:
            slopes = slopes_of(estimand.evaluate, shares)
        if not estimand.of_counts:
            slopes = slopes - shares @ slopes
        if not np.isfinite(slopes).all():
            return np.zeros(slopes.shape[1])
        goal = slopes[estimand.labels] / max(records, 1.0)
        beside, fresh = (
            _numbers(_shown(self.release, some, estimand, grouped=False)) for some in (self.beside, (self.fresh,))
        )
        known = np.concatenate([1 / beside[1], 1 / fresh[1]])
        columns = np.column_stack([beside[0], fresh[0]])
        information = (columns * known) @ columns.T
        if public_records(self.release) is not None:  # the sum of all numbers is known
            information += TOTAL * known.max()
        solved = np.linalg.pinv(information, rcond=RESOLVED, hermitian=True) @ goal
        noise = np.einsum("cq,cq->q", goal, solved)
        weights = (fresh[0].T @ solved) / fresh[1][:, None]
        own = np.einsum("mq,mq->q", weights**2, np.broadcast_to(fresh[1][:, None], weights.shape))
        whole = noise
        if not estimand.of_counts:
            chance = _chance(estimand, shares)
            shown = _numbers(_shown(self.release, self.earlier, estimand, grouped=False))
            whole = whole + _varies(goal, chance, records)
            if plain and shown[0].shape[1] <= MOST_SEEN:
                own = own + _left(fresh[0] @ weights, shown, chance, records)
        with np.errstate(all="ignore"):
            part = own / whole
        return np.where(np.isfinite(part), np.clip(part, 0.0, 1.0), 0.0)

    def seen(self, estimand: Estimand, shares: Floats, records: float, *, slopes: Floats | None = None) -> Floats:
        """How much of the variance of each quantity's sampling error the earlier tables show, between 0 and 1.

        It is the squared correlation of the sampling error with the noisy numbers of the earlier tables, all of
        them together, for large samples. Nothing is seen of a number of records: it has no sampling error. ``slopes``:
        as for ``unseen``.
        """
        if slopes is None:
            slopes = slopes_of(estimand.evaluate, shares)
        everything = np.ones(slopes.shape[1])
        if estimand.of_counts:
            return np.zeros(len(everything))
        scores = (slopes - shares @ slopes)[estimand.labels]
        chance = _chance(estimand, shares)
        shown = _shown(self.release, self.earlier, estimand)
        if not shown:
            return np.zeros(len(everything))
        size = sum(int(places.max()) + 1 for places, _ in shown)
        if size > MOST_SEEN or not np.isfinite(scores).all():
            return everything
        whole = _varies(scores, chance, max(records, 1.0))
        with np.errstate(all="ignore"):
            part = 1 - _left(scores, _numbers(shown), chance, max(records, 1.0)) / whole
        return np.where(np.isfinite(part), np.clip(part, 0.0, 1.0), 1.0)

    def weight(self, estimand: Estimand, noise: Callable[[Sequence[Measurement]], float]) -> float:
        """The weight of the fresh table by least squares, from public facts. The noise of all tables together is so
        many times that of the fresh one."""
        before = sum(1 / max(noise((one,)), TINY) for one in self.beside if set(estimand.margin) <= set(one.margin))
        return 1 / (1 + noise((self.fresh,)) * before)

    def expected(self, estimand: Estimand, level: float, noise: Callable[[Sequence[Measurement]], float]) -> float:
        """Half an interval in standard errors of sampling, from public facts: all cells are taken as equally likely.

        ``noise``: the variance of the noise of some tables, in sampling variances.
        """
        people = 0.0 if estimand.of_counts else 1.0
        seen = people / (1 + noise(self.earlier)) if self.earlier else 0.0
        fresh, weight = noise((self.fresh,)), self.weight(estimand, noise)
        own = weight**2 * (fresh + people - seen)
        left = people + weight * fresh - own
        return float(half_width(np.array([sqrt(max(own, 0.0))]), np.array([sqrt(max(left, 0.0))]), level)[0])


def ways_to_confirm(
    one: Joined, fixed: Sequence[Measurement], estimand: Estimand, level: float, noise: Callable[..., float]
) -> list[tuple[float, Joined]]:
    """A table that joined, alone and put together with earlier ones, with what half an interval is expected to be.

    Put together is the first choice unless alone is much narrower: less of its error is noise, whatever was chosen.
    How much longer its interval may be grows with the noise that goes; a tenth where half of it does.
    """
    alone = (one.expected(estimand, level, noise), one)
    both = one.put_together(fixed, estimand.margin)
    if both is None:
        return [alone]
    together = (both.expected(estimand, level, noise), both)
    longer = 1 + LONGER * (1 - both.weight(estimand, noise))
    return [together, alone] if together[0] <= longer * alone[0] else [alone, together]


Shown = tuple[np.ndarray, Floats]  # the cells that each number counts, and the variance of the noise of each


def _numbers(shown: Sequence[Shown]) -> Shown:
    """What tables say, as one matrix of cells by numbers, and the noise variance of each number."""
    columns = np.column_stack([np.eye(int(places.max()) + 1)[places] for places, _ in shown])
    return columns, np.concatenate([variances for _, variances in shown])


def slopes_of(quantity: Quantity, shares: Floats) -> Floats:
    """How each quantity changes with the share of each group; not finite where it has no slope."""
    with np.errstate(all="ignore"):
        return influence(quantity, shares)


def sampling_variance(estimand: Estimand, slopes: Floats, shares: Floats, records: float) -> Floats:
    """The sampling variance of quantities with these slopes, of independent rows."""
    slopes = slopes - shares @ slopes
    with np.errstate(all="ignore"):
        return _varies(slopes[estimand.labels] / max(records, 1.0), _chance(estimand, shares), max(records, 1.0))


def _chance(estimand: Estimand, shares: Floats) -> Floats:
    """The share of each cell of a question, alike inside a group."""
    cells = np.bincount(estimand.labels, minlength=estimand.groups)
    return np.asarray(shares[estimand.labels] / cells[estimand.labels])


def _varies(slopes: Floats, chance: Floats, records: float) -> Floats:
    """The sampling variance of sums of numbers of people, each times a slope."""
    return np.asarray(records * (chance @ slopes**2 - (chance @ slopes) ** 2))


def _left(slopes: Floats, shown: Shown, chance: Floats, records: float) -> Floats:
    """What is left of the same variance for those who have seen noisy numbers of people."""
    columns, noise = shown
    means = chance @ columns
    spread = records * (columns.T @ (chance[:, None] * columns) - np.outer(means, means)) + np.diag(noise)
    across = records * (columns.T @ (chance[:, None] * slopes) - np.outer(means, chance @ slopes))
    known = np.einsum("sq,sq->q", across, np.linalg.pinv(spread, hermitian=True) @ across)
    return np.asarray(np.maximum(_varies(slopes, chance, records) - known, 0.0))


def _shown(
    release: Release, earlier: Sequence[Measurement], estimand: Estimand, *, grouped: bool = True
) -> list[Shown]:
    """What tables say about the attributes of a question: numbers of people, with the variance of their noise.

    For each set of attributes that tables share with the question: the number that each cell of the question counts
    to, and the variance of each. Tables of the same set are put together by precision. ``grouped``: where one holds the
    whole question, its groups are counted instead of its cells.
    """
    schema, wanted = release.schema, estimand.margin
    found: dict[tuple[str, ...], Shown] = {}
    for one in earlier:
        common = tuple(name for name in wanted if name in one.margin)
        if not common:
            continue
        if grouped and len(common) == len(wanted):
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


def half_width(own: Floats, seen: Floats, level: float, questions: float = QUESTIONS) -> Floats:
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
