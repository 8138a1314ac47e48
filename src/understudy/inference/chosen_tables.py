"""The bias that a choice of tables can cause, and intervals that cover whatever was chosen.

``one_look`` and ``mst`` choose by noisy looks and measure afterwards, with fresh noise. So a choice can bias only
the sample of people. The noise of the looks bounds by how much: the log probability of a choice rises by at most a
known amount for each person that moves. So the choice moves the sampling error of an answer by at most a known number
of its standard deviations. An interval that is longer by that much at both ends covers as stated, for every choice
that is not rarer than ``RARE``. See docs/theory/selection.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import inf, log, sqrt

import numpy as np

from understudy.core.arrays import Floats
from understudy.core.measurement import Measurement
from understudy.inference.estimands import Estimand
from understudy.inference.noise_aware import influence, is_share
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
    if is_share(estimand) and not joined(everything, estimand.margin) and wanted <= names_in(margins):
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
    """The release with only the tables measured after all choices, if they hold a question; else None.

    A method that chooses and measures in turn has no such tables: the noise of one table influences the
    choice of the next.
    """
    return tables_after_choosing(release, estimand.margin)


def tables_after_choosing(release: Release, wanted: tuple[str, ...]) -> Release | None:
    """The same for a question about some attributes."""
    plan = release.provenance.plan
    if plan is None or not plan.adaptive or plan.options.get("refine") or plan.options.get("strata"):
        return None
    if not getattr(synthesizers[plan.method], "chooses_first", False):
        return None
    if any(one.label.startswith(AGAIN) for one in release.measurements):
        return None
    early = {id(one) for one in fixed_beforehand(release)}
    later = tuple(one for one in release.measurements if id(one) not in early and one.margin)
    names = {name for one in later for name in one.margin}
    if not set(wanted) <= names or not joined([one.margin for one in later], wanted):
        return None
    return replace(release, measurements=later)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice:
    """How a release chose its tables, and how its looks are related to an answer."""

    release: Release

    def exaggerated(self, estimand: Estimand, shares: Floats, records: float) -> Floats:
        """The most by which the choice can have moved each quantity, through the sample of people."""
        if len(estimand.margin) == 1 and self.measures_every_attribute:
            return np.zeros(len(estimand.names))  # measured whatever was chosen
        slopes = influence(estimand, shares)
        centred = slopes - shares @ slopes
        spread = np.sqrt(shares @ centred**2)
        pulls = self._pulls(estimand, centred / np.maximum(spread, np.finfo(float).tiny), records)
        moved = sum((_steepest(event, pulls) * repeats for event, repeats in self.looks()), np.zeros(len(spread)))
        return np.asarray(np.sqrt(moved) * spread / sqrt(max(records, 1.0)))

    def expected(self, estimand: Estimand, records: float) -> float:
        """The same in standard deviations of sampling, from public facts alone: all cells are taken as equally likely.

        For an answer with several quantities it is the median. Infinite if a quantity has no slope at that point.
        """
        if len(estimand.margin) == 1 and self.measures_every_attribute:
            return 0.0
        schema = self.release.schema
        allowed = schema.allowed(estimand.margin).reshape(-1)
        cells = allowed / allowed.sum()
        shares = np.asarray(np.bincount(estimand.labels, weights=cells, minlength=estimand.groups), np.float64)
        with np.errstate(all="ignore"):
            slopes = influence(estimand, shares)
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
