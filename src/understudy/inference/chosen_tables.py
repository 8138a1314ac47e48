"""The bias that a choice of tables can cause, and intervals that cover whatever was chosen.

``one_look`` and ``mst`` choose by noisy looks and measure afterwards, with fresh noise; ``aim`` chooses and measures in
turn, and the noise of the first table that holds a question is fresh. So a choice can bias only the sample of people.
Two facts bound by how much. Whatever was looked at, and however sharply: a choice of probability ``RARE`` cannot be
worse than one that depends on the sampling error itself. And the noise of the looks limits how fast the probability of
a choice rises with that error. An interval that is longer by the smaller of both covers as stated, for every choice
that is not rarer. See docs/theory/selection.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb, inf, log, sqrt
from statistics import NormalDist

import numpy as np

from understudy.core.arrays import Floats
from understudy.core.measurement import Measurement
from understudy.inference.estimands import Estimand
from understudy.inference.joined_tables import half_width
from understudy.inference.noise_aware import has_range, influence
from understudy.models.effects import names_in
from understudy.privacy.promise.event import Event, GaussianNoise, GeometricNoise, GumbelMax, NoisyMax
from understudy.release.table_release import Release
from understudy.synth.shared.choosing_method import AGAIN
from understudy.synth.shared.method import synthesizers

# Tables that were measured whatever a method chose: answers from them are free of selection.
#
# A method that chooses on the way looks at the data, with noise, before it decides what to measure. Tables that its
# plan names with their margin were measured in any case, with noise that the plan states. Their likelihood is that
# noise and nothing else, so what follows from them alone is valid (docs/theory/required-tables.md).


def fixed_beforehand(release: Release) -> tuple[Measurement, ...]:
    """The measurements that an adaptive plan names beforehand; none for a plan that is not adaptive.

    A table that joined the release later is not among them: whoever asked for it had seen the others
    (``joined_tables``).
    """
    plan = release.provenance.plan
    if plan is None or not plan.adaptive:
        return ()
    named = {
        (step.label, step.margin)
        for step in plan.steps
        if step.action == "measure" and step.repeats == 1 and (step.margin or step.cells)
    }
    return tuple(one for one in release.measurements if (one.label, one.margin) in named)


def without_selection(release: Release, estimand: Estimand) -> Release | None:
    """The release with the tables that were fixed beforehand, if they tell as much about a question; else None.

    They do in three cases. One of them holds all attributes of the question. Or no measured table does, and every pair
    of attributes is in one of them. Or a share is asked for and some pair is in no table at all, which leaves a range.
    """
    fixed = fixed_beforehand(release)
    margins = [one.margin for one in fixed]
    wanted = set(estimand.margin)
    if any(wanted <= set(margin) for margin in margins):
        return replace(release, measurements=fixed)
    chosen = any(wanted <= set(one.margin) for one in release.measurements)
    everything = [one.margin for one in release.measurements]
    if has_range(estimand) and not joined(everything, estimand.margin) and wanted <= names_in(margins):
        return replace(release, measurements=fixed)
    return replace(release, measurements=fixed) if not chosen and joined(margins, estimand.margin) else None


def joined(margins: Sequence[Margin], wanted: Margin) -> bool:
    """Whether some tables hold every two attributes of a question together."""
    return all(any(set(pair) <= set(margin) for margin in margins) for pair in combinations(wanted, 2))


RARE = 0.05  # nothing is promised for choices that are rarer than this
GAUSSIAN = 2.0627  # the mean of the largest 5 percent of a normal variable, in standard deviations
BOUNDED = sqrt(2 * log(1 / RARE))  # a bound on the same for any variable with normal tails
MOST_ROWS = 20_000  # synthetic rows that show how looks and answers vary together
MOST_PAIRS = 2000
Margin = tuple[str, ...]


def measured_after_choosing(release: Release, estimand: Estimand) -> Release | None:
    """The release with only tables whose noise no choice depends on, if they hold a question; else None."""
    return tables_after_choosing(release, estimand.margin)


def tables_after_choosing(release: Release, wanted: tuple[str, ...]) -> Release | None:
    """The same for a question about some attributes.

    Where all choices come first, these are all tables measured after the last one. Where a method chooses and measures
    in turn, the noise of one table influences the choice of the next. There it is the first table that holds the whole
    question: that it is measured at all was decided before its noise was drawn.
    """
    plan = release.provenance.plan
    if plan is None or plan.options.get("refine") or not _way_of_choosing(release):
        return None
    later = _chosen(release)
    if _way_of_choosing(release) == IN_TURN:
        later = tuple(one for one in later if set(wanted) <= set(one.margin))[:1]
    elif any(one.label.startswith(AGAIN) for one in later):  # a second look depends on what was measured before it
        later = tuple(one for one in later if one.label.startswith(AGAIN))
    names = {name for one in later for name in one.margin}
    if not set(wanted) <= names or not joined([one.margin for one in later], wanted):
        return None
    return replace(release, measurements=later)


FIRST, IN_TURN = "first", "in turn"


def _way_of_choosing(release: Release) -> str:
    """Whether a method makes all its choices first, or chooses and measures in turn; empty if it does neither."""
    plan = release.provenance.plan
    if plan is None or not plan.adaptive or plan.method not in synthesizers:
        return ""
    return str(getattr(synthesizers[plan.method], "chooses", ""))


def _chosen(release: Release) -> tuple[Measurement, ...]:
    """The tables that were not fixed beforehand, in the order in which they were measured."""
    early = {id(one) for one in fixed_beforehand(release)}
    return tuple(one for one in release.measurements if id(one) not in early and one.margin)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice:
    """How a release chose its tables, and how its looks are related to an answer."""

    release: Release

    def room(
        self, estimand: Estimand, shares: Floats, *, records: float, sampling: Floats, spread: Floats, rows: int,
        level: float,
    ) -> Floats:  # fmt: skip
        """By how much each interval has to reach further at both ends, so that it covers given the choice.

        ``spread``: the standard error of each quantity, and ``sampling`` the part of it that is due to the sampling of
        people, with ``rows`` rows of one unit that may all be alike.
        """
        if self.none_needed(estimand.margin):
            return np.zeros(len(estimand.names))
        moved = np.asarray(rows * self.exaggerated(estimand, shares, records))
        return np.minimum(moved, self.for_any_choice(sampling, spread, level, of_shares=_of_shares(estimand)))

    def none_needed(self, wanted: Margin) -> bool:
        """Whether the tables of a question are measured whatever is chosen."""
        return len(wanted) == 1 and self.measures_every_attribute

    @property
    def in_turn(self) -> bool:
        """Whether the noise of one table influences the choice of the next."""
        return _way_of_choosing(self.release) == IN_TURN

    @property
    def questions(self) -> float:
        """The room is for the choice of one in so many tables: one in 20, or fewer of more if fewer were chosen."""
        names = self.release.schema.names
        held = {pair for one in _chosen(self.release) for pair in combinations(sorted(one.margin), 2)}
        return max(1 / RARE, comb(len(names), 2) / max(len(held), 1))

    def for_any_choice(self, sampling: Floats, spread: Floats, level: float, *, of_shares: bool) -> Floats:
        """The room that is enough whatever was looked at: the worst rule chooses a table if the sampling error of the
        question is among its largest."""
        normal, questions = NormalDist(), self.questions
        spread = np.where(np.isfinite(spread), spread, sampling)
        seen = np.minimum(sampling, spread)
        own = np.sqrt(spread**2 - seen**2)
        room = half_width(own, seen, level, questions) - normal.inv_cdf((1 + level) / 2) * spread
        if of_shares:  # near 0 and 1 all of the error is at one end, and the worst rule looks at that end only
            room = np.maximum(room, half_width(own, seen, level, questions / 2) - normal.inv_cdf(level) * spread)
        return np.maximum(room, 0.0)

    def exaggerated(self, estimand: Estimand, shares: Floats, records: float) -> Floats:
        """The most by which the choice can have moved each quantity, by the noise of the looks; infinite where that
        is not known."""
        if self.none_needed(estimand.margin):
            return np.zeros(len(estimand.names))
        if not self.bounded_by_looks:
            return np.full(len(estimand.names), inf)
        slopes = influence(estimand.evaluate, shares)
        centred = slopes - shares @ slopes
        spread = np.sqrt(shares @ centred**2)
        pulls = self._pulls(estimand, centred / np.maximum(spread, np.finfo(float).tiny), records)
        moved = sum((_steepest(event, pulls) * repeats for event, repeats in self.looks()), np.zeros(len(spread)))
        return np.asarray(np.sqrt(moved) * spread / sqrt(max(records, 1.0)))

    def expected_room(self, estimand: Estimand, records: float, *, noise: float, rows: int, level: float) -> float:
        """The room in standard deviations of sampling, from public facts alone; ``noise``: the variance of the noise
        beside that of sampling."""
        moved = rows * self.expected(estimand, records)
        seen, spread = np.array([sqrt(rows)]), np.array([sqrt(rows + noise)])
        if self.none_needed(estimand.margin) or not np.isfinite(spread).all():
            return moved
        return min(moved, float(self.for_any_choice(seen, spread, level, of_shares=_of_shares(estimand))[0]))

    @property
    def bounded_by_looks(self) -> bool:
        """Whether the looks are all that the choice depends on, and each is of pairs alone."""
        plan = self.release.provenance.plan
        again = any(one.label.startswith(AGAIN) for one in self.release.measurements)
        return (
            plan is not None
            and _way_of_choosing(self.release) == FIRST
            and not plan.options.get("strata")
            and not again
        )

    def expected(self, estimand: Estimand, records: float) -> float:
        """The same in standard deviations of sampling, from public facts alone: all cells are taken as equally likely.

        For an answer with several quantities it is the median. Infinite if a quantity has no slope at that point.
        """
        if self.none_needed(estimand.margin):
            return 0.0
        if not self.bounded_by_looks:
            return inf
        schema = self.release.schema
        allowed = schema.allowed(estimand.margin).reshape(-1)
        cells = allowed / allowed.sum()
        shares = np.asarray(np.bincount(estimand.labels, weights=cells, minlength=estimand.groups), np.float64)
        with np.errstate(all="ignore"):
            slopes = influence(estimand.evaluate, shares)
            centred = slopes - shares @ slopes
            scores = centred / np.sqrt(shares @ centred**2)
        if not np.isfinite(scores).all():
            return inf
        own = (cells[:, None] * scores[estimand.labels]).reshape(*schema.shape(estimand.margin), -1)
        pulls = []
        for pair in combinations(schema.names, 2):
            others = tuple(place for place, name in enumerate(estimand.margin) if name not in pair)
            sums = own.sum(axis=others)
            pulls.append(np.abs(sums).reshape(-1, own.shape[-1]).sum(axis=0) * sqrt(records))
        steep = sum((_steepest(event, np.array(pulls)) * repeats for event, repeats in self.looks()), np.zeros(1))
        return float(np.median(np.sqrt(steep)))

    @property
    def measures_every_attribute(self) -> bool:
        """Whether one-way tables are measured after the choice in any case."""
        plan = self.release.provenance.plan
        return plan is not None and any(step.action == "compare" for step in plan.steps)

    def looks(self) -> Iterator[tuple[Event, int]]:
        plan = self.release.provenance.plan
        for step in () if plan is None else plan.steps:
            if step.action in ("compare", "select"):
                yield step.event, step.repeats

    def _pulls(self, estimand: Estimand, scores: Floats, records: float) -> Floats:
        """How far each table of a look moves (L1, in people) if the sampling error of a quantity is one standard
        deviation: (tables, outputs). It is read from the synthetic rows, which hold all attributes together."""
        schema = self.release.schema
        rows = self.release.coded(1).columns
        size = len(next(iter(rows.values())))
        taken = slice(None, None, max(1, size // MOST_ROWS))
        codes = {name: np.asarray(rows[name][taken], np.int64) for name in schema.names}
        count = len(next(iter(codes.values())))
        cell = np.ravel_multi_index([codes[name] for name in estimand.margin], schema.shape(estimand.margin))
        own = scores[estimand.labels[cell]]
        most = np.abs(own).mean(axis=0)  # no table moves by more than the full table
        pairs = list(combinations(schema.names, 2))
        found = np.empty((len(pairs), own.shape[1]))
        if len(pairs) > MOST_PAIRS or not count:
            found[:] = most
        else:
            for place, (first, second) in enumerate(pairs):
                wide = schema[second].size
                at = codes[first] * wide + codes[second]
                for output in range(own.shape[1]):
                    sums = np.bincount(at, weights=own[:, output], minlength=1)
                    found[place, output] = min(np.abs(sums).sum() / count, most[output])
        return np.asarray(found * sqrt(records))


def _of_shares(estimand: Estimand) -> bool:
    return estimand.bounds == (0.0, 1.0)


def noise_beside_sampling(release: Release, estimand: Estimand, records: float) -> float:
    """The noise variance of an answer divided by its sampling variance, from public facts alone.

    With equally likely cells, noise of variance v on each of c cells adds v c / n to a sampling variance of 1.
    If no table holds the whole question, the noisiest of the tables of its pairs counts.
    """

    def least(wanted: Margin) -> float:
        found = (
            float(one.mechanism.variance) * release.schema.cells(one.margin)
            for one in release.measurements
            if set(wanted) <= set(one.margin)
        )
        return min(found, default=inf)

    whole = least(estimand.margin)
    if whole == inf:
        whole = max((least(pair) for pair in combinations(estimand.margin, 2)), default=inf)
    return whole / max(records, 1.0)


def _steepest(event: Event, pulls: Floats) -> Floats:
    """The square of the steepest slope of the log probability of an event that one look decides, for each output.

    Over all results of the look the slope has mean 0. Given an event of probability ``RARE`` or more, its mean is at
    most ``GAUSSIAN`` or ``BOUNDED`` times its standard deviation.
    """
    if isinstance(event, GaussianNoise):  # every distance has noise of its own
        return np.asarray((GAUSSIAN / float(event.scale)) ** 2 * (pulls**2).sum(axis=0))
    if isinstance(event, GeometricNoise):
        together = BOUNDED * np.sqrt((pulls**2).sum(axis=0))
        return np.asarray((np.minimum(together, pulls.sum(axis=0)) / float(event.scale)) ** 2)
    if isinstance(event, GumbelMax):  # the chosen score against the mean of all
        return np.asarray((BOUNDED * pulls.max(axis=0) / float(event.scale)) ** 2)
    if isinstance(event, NoisyMax):
        return np.asarray((BOUNDED * 2 * pulls.max(axis=0) / float(event.scale)) ** 2)
    return np.full(pulls.shape[1], np.inf)
