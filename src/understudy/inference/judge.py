"""The label of each quantity of an answer, and the interval that deserves this label.

Every step can only lower a label and widen an interval. No step looks at anything but the release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from understudy.core.arrays import Flags, Floats
from understudy.core.questions import Question
from understudy.errors import UnsupportedError
from understudy.inference.agreement import disagreements
from understudy.inference.bounded_shares import (
    MOST_SHARES,
    can_be_bounded,
    effects_not_rejected,
    hidden_groups,
    identified_ranges,
    infinite_effects,
    larger_reference,
    not_rejected,
)
from understudy.inference.by_rule import SEVERAL_ROWS
from understudy.inference.chosen_tables import joined
from understudy.inference.estimands import Estimand
from understudy.inference.evidence import FEW_GROUPS, Drawn, Evidence, listed, nearest_question
from understudy.inference.joined_tables import QUESTIONS, half_width
from understudy.inference.labels import MODEL, NOT_DETERMINED, RANGE, SELECTION, VALID, worst
from understudy.inference.noise_aware import MODELLED, NoiseAware, is_quotient
from understudy.inference.validity import NOT_SHOWN, unproved
from understudy.inference.without_prior import (
    PAIRS,
    Quantity,
    Raw,
    Settled,
    ends_of,
    from_posterior,
    sampled,
    settle,
    unbiased_square,
    unshrunk,
)
from understudy.release.table_release import Release

OPEN = 0.5  # a quantity is not determined if more of its squared influence is outside the measured tables
BIN_SHARE = 0.1  # of an interval: bins that widen it by less leave it valid
SIMULATED = 200
LEAST_WIDTH = 0.5  # of the width of the interval from the records themselves
BOUNDLESS = 1e100  # the spread of a quantity that the release does not bound
USUAL_HALF = 1.96  # standard errors in half an interval
NOTICED = 1.005  # times its length, from which on an interval is said to be longer
MOST_SHOWN = 4  # estimates that a warning names
MOST_ROOM = 1.0  # half-widths by which an interval may grow at each end because of a choice of tables
BY_PRIOR = (
    "the noisy values alone do not determine this: it is far from linear over the range of noise and sampling, so the "
    "answer depends on its prior"
)
OPEN_REFERENCE = (
    "every coefficient compares with the reference level, and noise hides how many of its people have the event; with "
    "the largest group as reference they may be closed"
)
NOTHING = "noise leaves every value there can be open"
HIDDEN = "noise hides how many people this is about"
BELOW_NEAR_0 = "noise hides how small the number below the line is, so this ratio has no upper end"
ROUGH = "the posterior is too uneven for importance weights; its normal approximation is used"
TOO_THIN = "the interval is far narrower than one from the records themselves, which no noisy table can justify"
NO_FLOOR = "Cramer's V is not smooth at 0, so its interval is approximate; for two by two tables use the log odds ratio"


@dataclass(slots=True, kw_only=True, eq=False)
class Judged:
    """The intervals of an answer so far, with a label for each."""

    names: tuple[str, ...]
    centre: Floats
    low: Floats
    high: Floats
    spread: Floats
    labels: list[str]
    alone: Flags  # the interval is that of the noisy values alone
    by_prior: Flags  # the noisy values alone do not determine it
    earned: Flags  # the noisy values alone say the same, or bound it
    warnings: list[str]

    @classmethod
    def begin(cls, names: tuple[str, ...], found: Settled, warnings: Sequence[str]) -> Judged:
        return cls(
            names=names,
            centre=found.centre,
            low=found.low,
            high=found.high,
            spread=found.spread,
            labels=[VALID] * len(names),
            alone=found.alone,
            by_prior=found.by_prior,
            earned=np.zeros(len(names), bool),
            warnings=list(warnings),
        )

    def lower(self, which: Flags, label: str, why: str) -> None:
        """Give some quantities no better label than this one."""
        if not which.any():
            return
        self.labels = [worst((own, label)) if flag else own for own, flag in zip(self.labels, which, strict=True)]
        if why not in self.warnings:  # it was said of all of them already
            self.warnings.append(why if which.all() else f"{self._listed(which)}: {why}")

    def _listed(self, which: Flags) -> str:
        chosen = [name for name, flag in zip(self.names, which, strict=True) if flag]
        return ", ".join(chosen[:4]) + (f" and {len(chosen) - 4} more" if len(chosen) > 4 else "")

    def hold_against_noisy_values(
        self,
        estimand: Estimand,
        evidence: Evidence | NoiseAware,
        drawn: Drawn,
        level: float,
        rng: np.random.Generator,
    ) -> None:
        """Take the interval of the noisy values if the prior has moved that of the posterior (``settle``)."""
        if estimand.jumps:
            return  # a quantile jumps from bin to bin (``open_bins``)
        if estimand.groups == 1 and not estimand.of_counts:
            self.earned = np.ones(len(self.names), bool)  # it is the same for everybody, whatever the noise is
            return
        endless = infinite_effects(estimand, drawn)
        if isinstance(evidence, Evidence) and estimand.groups <= FEW_GROUPS and not endless.any():
            self._reach_past_bounds(estimand, evidence.raw, level, rng)  # the prior is only half a person each
            return
        found = Settled(
            centre=self.centre, low=self.low, high=self.high, spread=self.spread, by_prior=self.alone, alone=self.alone
        )
        inside: Floats | float = 1.0
        if evidence.raw is not None:
            shares = evidence.raw.shares[None, :]
            each = estimand.inside_groups(shares)  # the people of each group, or of each row or column of percentages
            inside = (estimand.inside(shares)[0] if each is None else each[0]) / estimand.variability
        quantity: Quantity = estimand.evaluate
        if estimand.of_counts and evidence.raw is not None:  # a sum over all records, of numbers known by many bins
            people = evidence.raw.people
            quantity = lambda shares: np.asarray(people * estimand.evaluate(shares))  # noqa: E731
        found = settle(found, evidence.raw, quantity, estimand.bounds, level=level, rng=rng, inside=inside)
        self.centre, self.low, self.high, self.spread = found.centre, found.low, found.high, found.spread
        self.alone, self.by_prior = found.alone, found.by_prior
        if evidence.raw is not None and is_quotient(estimand):
            self.by_prior = self.by_prior | hidden_groups(estimand, evidence.raw, level, rng)
            if 0 < self.by_prior.sum() <= MOST_SHARES:
                low, high, nothing = not_rejected(estimand, evidence.raw, level, rng, which=self.by_prior)
                hidden = self.by_prior & nothing
                if hidden.any() and isinstance(evidence, NoiseAware) and can_be_bounded(evidence.local, estimand):
                    # All bounds of sums hold together, whether or not noise hides a group, and so do the ends by them.
                    least, most = identified_ranges(evidence.local, estimand, level)
                    low, high = np.where(hidden, least, low), np.where(hidden, most, high)
                self._leave_open(low, high, nothing, estimand, level)
        self.by_prior = self.by_prior | endless
        if evidence.raw is not None and not is_quotient(estimand) and 0 < self.by_prior.sum() <= MOST_SHARES:
            ends = effects_not_rejected(estimand, evidence.raw, level, rng, which=self.by_prior)
            if ends is not None:
                self._leave_open(*ends, estimand, level)
                other = larger_reference(estimand, evidence.raw, *ends[:2])
                if other is not None:
                    self.warnings.append(f"{OPEN_REFERENCE}: {other}")
        self.earned = ~self.by_prior
        self.lower(self.by_prior, MODEL, BY_PRIOR)

    def _reach_past_bounds(self, estimand: Estimand, raw: Raw | None, level: float, rng: np.random.Generator) -> None:
        """Where noise makes a share smaller than 0 or larger than 1, let its interval reach as far as from 0 or 1.

        The posterior given such noise is short. It covers on average over all releases, but is far off if the noise
        was that large by chance.
        """
        alone = None if raw is None or estimand.bounds != (0.0, 1.0) else unshrunk(raw, estimand.evaluate, level, rng)
        if alone is None:
            return
        below, above = alone.determined & (alone.value < 0), alone.determined & (alone.value > 1)
        self.high = np.where(below, np.minimum(np.maximum(self.high, alone.half), 1.0), self.high)
        self.low = np.where(above, np.maximum(np.minimum(self.low, 1 - alone.half), 0.0), self.low)

    def _leave_open(self, low: Floats, high: Floats, nothing: Flags, estimand: Estimand, level: float) -> None:
        """For what depends on its prior: all values that the noisy values do not reject. ``nothing``: that is all."""
        which = self.by_prior
        self.low, self.high = np.where(which, low, self.low), np.where(which, high, self.high)
        self.centre = np.where(which, np.clip(self.centre, self.low, self.high), self.centre)
        z = NormalDist().inv_cdf((1 + level) / 2)
        spread = np.maximum(self.spread, (high - low) / (2 * z))
        self.spread = np.where(which, np.where(np.isfinite(spread), spread, np.nan), self.spread)
        self.alone, self.by_prior = self.alone | which, np.zeros_like(which)
        self.lower(which & nothing, RANGE, HIDDEN)
        if estimand.binned:  # every place of a number inside its bin is in it
            self.labels = [worst((own, RANGE)) if flag else own for own, flag in zip(self.labels, which, strict=True)]

    def hold_against_tables(
        self, estimand: Estimand, evidence: NoiseAware, drawn: Drawn, level: float, rng: np.random.Generator
    ) -> None:
        """Bound what no measured table determines, if that is possible; otherwise label it not determined."""
        if evidence.rough and estimand.of_counts:  # numbers of people are not compared with the noisy values
            self.lower(np.ones(len(self.names), bool), MODEL, ROUGH)
        beyond = np.asarray(evidence.modelled) > MODELLED
        if len(beyond) != len(self.names) or not beyond.any():
            return
        unbounded = beyond
        if can_be_bounded(evidence.local, estimand):
            unbounded = self._bounded(estimand, evidence, beyond, level)
        if joined(evidence.local.margins, estimand.margin):
            self._by_assumption(estimand, evidence, unbounded, drawn, rng)
            unknown = unbounded & (np.asarray(evidence.modelled) > OPEN)
        else:
            unknown = unbounded
        if not unknown.any():
            return
        tables = listed(margin for margin in evidence.local.margins if len(margin) > 1)
        needed = " x ".join(estimand.margin)
        if unknown.all():
            raise UnsupportedError(
                f"the release does not determine this: it follows from no measured table ({tables}). It needs a "
                f"table of {needed}. {nearest_question(evidence.local.margins, estimand.margin)}"
            )
        said = ", ".join(
            f"{name} {value:.3g}" for name, value, flag in zip(self.names, self.centre, unknown, strict=True) if flag
        )
        self.lower(
            unknown,
            NOT_DETERMINED,
            f"follows from no measured table ({tables}), and needs one of {needed}. If there were no interactions "
            f"beyond those measured: {said}",
        )
        self.low, self.high = np.where(unknown, -np.inf, self.low), np.where(unknown, np.inf, self.high)
        self.centre, self.spread = np.where(unknown, np.nan, self.centre), np.where(unknown, np.nan, self.spread)

    def _by_assumption(
        self, estimand: Estimand, evidence: NoiseAware, beyond: Flags, drawn: Drawn, rng: np.random.Generator
    ) -> None:
        """Label what depends on the assumption that there are no interactions beyond those measured."""
        if not beyond.any():
            return
        share = float(np.max(evidence.modelled))
        records = float(drawn.counts.sum(axis=1).mean())
        # The model's assumption must not make an answer more certain than the records themselves do.
        floor = spread_of_records(estimand, drawn, records, rng)
        with np.errstate(divide="ignore", invalid="ignore"):
            times = np.where(beyond & (self.spread > 0), np.maximum(1.0, floor / self.spread), 1.0)
        self.low = self.centre - times * (self.centre - self.low)
        self.high = self.centre + times * (self.high - self.centre)
        self.spread = times * self.spread
        self.lower(
            beyond,
            MODEL,
            f"the measured tables do not determine this: {share:.2g} of it, by squared influence, depends on the "
            "assumption that there are no interactions beyond those measured",
        )

    def _bounded(self, estimand: Estimand, evidence: NoiseAware, beyond: Flags, level: float) -> Flags:
        """Let intervals hold every value that the tables allow; returns for which quantities that is every number."""
        low, high = identified_ranges(evidence.local, estimand, level)
        unknown = np.asarray(beyond & np.isneginf(low) & np.isposinf(high))
        beyond = beyond & ~unknown
        if not beyond.any():
            return unknown
        shown = np.flatnonzero(beyond)[:MOST_SHOWN]
        inside = ", ".join(
            f"{self.names[one]} would be {self.centre[one]:.3g} [{self.low[one]:.3g}, {self.high[one]:.3g}]"
            for one in shown
        )
        self.low = np.where(beyond, np.minimum(low, self.low), self.low)
        self.high = np.where(beyond, np.maximum(high, self.high), self.high)
        apart = not joined(evidence.local.margins, estimand.margin)
        near = f". {nearest_question(evidence.local.margins, estimand.margin)}".rstrip(".") if apart else ""
        # Bounds come from the noisy tables without any prior, whatever the estimate inside depends on.
        self.labels = [RANGE if flag else own for own, flag in zip(self.labels, beyond, strict=True)]
        self.earned = self.earned | beyond
        self.lower(
            beyond,
            RANGE,
            "the measured tables do not determine this; the interval holds every value they allow. If there "
            f"were no interactions beyond those measured, {inside} (model-based){near}",
        )
        return unknown

    def open_bins(
        self, estimand: Estimand, raw: Raw | None, drawn: Drawn, level: float, rng: np.random.Generator
    ) -> None:
        """Let the interval, or otherwise the label, account for the unknown position of a number inside its bin."""
        everywhere = np.ones(len(self.names), bool)
        if estimand.assumed:
            self.lower(everywhere, MODEL, f"where in its bins {', '.join(estimand.assumed)} lies is assumed")
        if not estimand.binned:
            return
        low, _ = _ends(estimand.lowest, estimand, raw, drawn, level=level, rng=rng)
        _, high = _ends(estimand.highest, estimand, raw, drawn, level=level, rng=rng)
        before = self.high - self.low
        self.low, self.high = np.minimum(low, self.low), np.maximum(high, self.high)
        wide = ~((self.high - self.low) <= (1 + BIN_SHARE) * before)
        self.labels = [worst((own, RANGE)) if flag else own for own, flag in zip(self.labels, wide, strict=True)]

    def association(self, estimand: Estimand, raw: Raw | None, level: float, rng: np.random.Generator) -> None:
        """Cramer's V is the root of a sum of squares, and noise adds to it whatever the truth is. This addition is
        subtracted. The interval reaches down to 0 if nothing shows that there is an association."""
        if estimand.question.kind != "association":
            return
        first = np.arange(len(self.names)) == 0
        if raw is not None:
            found = unbiased_square(raw, lambda shares: estimand.evaluate(shares)[:, :1] ** 2, level, rng)
            if np.isfinite(found).all():
                value, low, high = (float(np.sqrt(np.clip(one[0], 0, 1))) for one in found)
                self.centre, self.low, self.high = (
                    np.where(first, new, old) for new, old in ((value, self.centre), (low, self.low), (high, self.high))
                )
        self.lower(first, MODEL, NO_FLOOR)

    def nobody_and_everybody(self, estimand: Estimand, drawn: Drawn, level: float) -> None:
        """The interval of a share reaches down to 0 if nobody may have the value, and up to 1 if everybody may."""
        if estimand.bounds != (0.0, 1.0):
            return
        seen = estimand.evaluate(drawn.counts.astype(np.float64))
        often = (1 - level) / 2
        self.low = np.where((seen <= 0).mean(axis=0) > often, 0.0, self.low)
        self.high = np.where((seen >= 1).mean(axis=0) > often, 1.0, self.high)

    def empty_groups(self, estimand: Estimand, drawn: Drawn, often: float) -> None:
        """A group of ``by`` that may be empty has no answer of its own."""
        inside = estimand.inside_groups(drawn.counts.astype(np.float64))
        if inside is None or estimand.of_counts:
            return
        empty = (inside < 1).mean(axis=0) > often
        if empty.all():
            raise UnsupportedError("in every group of this table there may be nobody. Ask about larger groups.")
        self.lower(empty, NOT_DETERMINED, "there may be nobody in it, given this release")
        self.low, self.high = np.where(empty, -np.inf, self.low), np.where(empty, np.inf, self.high)

    def whole_range(self, estimand: Estimand) -> None:
        """An interval of every value there can be holds the truth, whatever was chosen or assumed, and says nothing."""
        least, most = estimand.everything
        every = (self.low <= least) & (self.high >= most) & np.isfinite(least) & np.isfinite(most)
        every &= np.array([label != NOT_DETERMINED for label in self.labels])
        if not every.any():
            return
        if estimand.parts[0].model is not None:
            self.low, self.high = np.where(every, -np.inf, self.low), np.where(every, np.inf, self.high)
        self.labels = [RANGE if flag else own for own, flag in zip(self.labels, every, strict=True)]
        self.lower(every, RANGE, NOTHING)

    def keep_width(self, sampling: Floats, level: float, bounds: tuple[float, float]) -> None:
        """Do not let an interval be far narrower than one from the records themselves.

        Noise only takes information away, so such an interval is an accident of the noise or of a prior. The one of a
        share is made longer; any other quantity is not called valid. ``sampling``: the standard error of the records
        themselves. It is 0 for a share that a rule of the schema fixes; its interval may have no width.
        """
        least = LEAST_WIDTH * NormalDist().inv_cdf((1 + level) / 2) * np.where(np.isfinite(sampling), sampling, 0.0)
        with np.errstate(invalid="ignore"):
            half = (self.high - self.low) / 2
            thin = (half < least) | ((half <= 0) & ~(sampling <= 0))
        if bounds == (0.0, 1.0):
            self.low = np.where(thin, np.clip(self.centre - least, *bounds), self.low)
            self.high = np.where(thin, np.clip(self.centre + least, *bounds), self.high)
            thin = thin & (self.high <= self.low)
        self.lower(thin, MODEL, TOO_THIN)

    def several_rows(self, sampling: Floats, rows: int, bounds: tuple[float, float]) -> None:
        """Lengthen intervals for units of several rows, which may all be alike: the sampling variance is at most
        ``rows`` times that of independent rows. ``sampling``: the standard error of independent rows."""
        times = self.multiply_sampling(sampling, float(rows), bounds)
        self.warnings.append(
            f"a unit may have up to {rows} rows, which may all be alike: intervals are up to {times:.2f} times as long "
            "as for independent rows"
        )

    def multiply_sampling(self, sampling: Floats, factor: Floats | float, bounds: tuple[float, float]) -> float:
        """Let the sampling variance be a multiple of that of independent rows, whose standard error is ``sampling``.
        Returns by how many times intervals are longer at most."""
        with np.errstate(invalid="ignore", divide="ignore"):
            part = np.where(sampling == 0, 0.0, sampling / self.spread)  # what is the same for everybody has neither
            times = np.sqrt(np.maximum(1 + (factor - 1) * part**2, 0.0))
        unknown = ~np.isfinite(times)
        self.lower(unknown & np.isfinite(self.spread), MODEL, SEVERAL_ROWS)
        times = np.where(unknown, 1.0, times)
        low = np.maximum(self.centre - times * (self.centre - self.low), bounds[0])
        high = np.minimum(self.centre + times * (self.high - self.centre), bounds[1])
        self.low, self.high = np.where(unknown, self.low, low), np.where(unknown, self.high, high)
        self.spread = times * self.spread
        return float(times.max())

    def reach(self, below: Floats, above: Floats, bounds: tuple[float, float], why: str) -> None:
        """Lengthen intervals to either side. An answer that this changes by more than a tenth is not called valid."""
        with np.errstate(invalid="ignore"):
            much = (below + above) > BIN_SHARE * (self.high - self.low)
        self.low = np.maximum(self.low - below, bounds[0])
        self.high = np.minimum(self.high + above, bounds[1])
        self.lower(much, MODEL, why)

    def make_room(self, moved: Floats, bounds: tuple[float, float]) -> None:
        """Lengthen each interval by the largest bias that the choice of tables can cause, unless that is too much."""
        # An interval that ends at a bound is shorter than its error; its standard error is not.
        half = np.fmax((self.high - self.low) / 2, USUAL_HALF * self.spread)
        with np.errstate(invalid="ignore", divide="ignore"):
            times = np.where(half > 0, 1 + moved / half, 1.0)
        much = ~(times <= 1 + MOST_ROOM)
        self.lower(much, SELECTION, f"the choice of tables may bias this by more than {MOST_ROOM:g} half-widths")
        kept = ~much & (moved > 0)
        if not kept.any():
            return
        self.low = np.where(kept, np.maximum(self.low - moved, bounds[0]), self.low)
        self.high = np.where(kept, np.minimum(self.high + moved, bounds[1]), self.high)
        self.spread = np.where(kept, self.spread * times, self.spread)
        longest = float(times[kept].max())
        if longest < NOTICED:
            return
        self.warnings.append(
            "tables were chosen by noisy looks at the data: intervals are up to "
            f"{longest:.2f} times as long, to allow for the bias that such a choice can cause"
        )

    def allow_for_question(
        self,
        seen: Floats,
        level: float,
        bounds: tuple[float, float],
        *,
        together: bool,
        ends: tuple[float, float] | None = None,
        beside: bool = False,
    ) -> tuple[tuple[float, float], ...]:
        """Lengthen each interval for a question that was chosen after others had seen part of its error.

        ``seen``: the standard deviation of that part. ``together``: earlier tables are used too. ``ends``: of a ratio,
        between which all lies that is not rejected (``chosen_ratio``), instead of a longer interval, or ``beside`` it.
        Returns the standard deviations of both parts of each error: that which nobody could see, and that which was
        seen.
        """
        spread = np.where(self.spread < BOUNDLESS, self.spread, 0.0)  # an interval without end needs no more length
        seen = np.minimum(np.where(np.isfinite(seen), seen, spread), spread)
        own = np.sqrt(spread**2 - seen**2)
        z = NormalDist().inv_cdf((1 + level) / 2)
        moved = np.maximum(half_width(own, seen, level) - z * spread, 0.0)
        before = np.where((spread > 0) & (self.high > self.low), self.high - self.low, 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            times = np.where(spread > 0, 1 + moved / (z * spread), 1.0)
        if ends is None or beside:
            self.low = np.where(moved > 0, np.maximum(self.low - moved, bounds[0]), self.low)
            self.high = np.where(moved > 0, np.minimum(self.high + moved, bounds[1]), self.high)
        if ends is not None:
            self.low, self.high = np.minimum(self.low, ends[0]), np.maximum(self.high, ends[1])
            # A claim about a ratio is wrong where the far end misses, so its error is that of this end.
            half = half_width(own, seen, level)
            far = np.maximum(self.high - self.centre, self.centre - self.low)
            scale = np.where(np.isfinite(far) & (half > 0), np.maximum(far / np.where(half > 0, half, 1.0), 1.0), 1.0)
            own, seen = own * scale, seen * scale
            endless = ~np.isfinite(self.high)
            self.spread = np.where(endless, np.nan, self.spread)
            times = np.where((before > 0) & ~endless, np.maximum((self.high - self.low) / before, 1.0), 1.0)
            self.lower(endless, RANGE, BELOW_NEAR_0)
        self.spread = self.spread * times
        used = "a table that was measured after the question was asked"
        if together:
            used += ", together with tables that were fixed before"
        self.warnings.append(
            f"this is from {used}, and it holds for the choice of any "
            f"of {QUESTIONS} questions: its intervals are up to {float(times.max()):.2f} times as long for that"
        )
        return tuple(zip(own.tolist(), seen.tolist(), strict=True))

    def lower_all(self, release: Release, question: Question, status: str, *, plain: bool) -> None:
        """Lower all labels to the best that the method of the release allows."""
        everywhere = np.ones(len(self.names), bool)
        if unproved(question, plain=plain):
            self.lower(everywhere, MODEL, NOT_SHOWN)
        if status == SELECTION:
            self.labels = [worst((own, SELECTION)) for own in self.labels]
        for one in disagreements(release)[:1]:
            self.lower(
                everywhere,
                MODEL,
                f"THE MEASURED TABLES DISAGREE BEYOND THEIR NOISE, so the release may have been altered: {one}",
            )


def spread_of_records(estimand: Estimand, drawn: Drawn, records: float, rng: np.random.Generator) -> Floats:
    """The standard error of the records themselves, around the mean of the posterior."""
    centre = drawn.shares.mean(axis=0)
    possible = centre > 0
    moved = np.zeros((SIMULATED, len(centre)))
    moved[:, possible] = centre[possible] + sampled(centre[possible], max(records, 1.0), SIMULATED, rng)
    moved = np.maximum(moved, 0)
    with np.errstate(all="ignore"):
        try:
            values = estimand.evaluate(moved)
        except np.linalg.LinAlgError:
            return np.full(len(estimand.names), np.inf)
    # A regression has far outliers where a simulated sample nearly separates; they do not affect the middle half.
    low, high = np.nanquantile(values, [0.25, 0.75], axis=0)
    return np.asarray((high - low) / 1.349)


def _ends(
    quantity: Quantity, estimand: Estimand, raw: Raw | None, drawn: Drawn, *, level: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Ends of the interval of a quantity at one end of its bins, from the posterior and from the noisy values alone."""
    values = drawn.counts.astype(np.float64) if estimand.of_counts else drawn.shares
    found = from_posterior(quantity(values), level, robust=False)
    if raw is None or estimand.of_counts:
        return found.low, found.high
    if not estimand.jumps:
        found = settle(found, raw, quantity, (-np.inf, np.inf), level=level, rng=rng)
        return found.low, found.high
    away = raw.deviations(PAIRS, rng)
    values = quantity(np.concatenate([raw.shares + away, raw.shares - away]))
    low, high = ends_of(values, level)
    return np.minimum(found.low, low), np.maximum(found.high, high)
