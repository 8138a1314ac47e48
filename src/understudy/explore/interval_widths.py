"""How wide the intervals of a release will be, before it is made: by an exact sum if that is short, else by rehearsal.

A rehearsal draws people from the public guess, makes a release from them by the plan, and asks ``infer`` the question.
The same question to the table of the same people gives the width to compare with: that of an analyst with the real
data. A share of two groups under a Dirichlet draw (Charest's setting) needs no rehearsal: the law of the release is
summed over all data sets and all outcomes, or simulated in one batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from understudy.core.arrays import Floats, Integers
from understudy.core.schema import Level
from understudy.core.table import CodedSource
from understudy.errors import UnsupportedError
from understudy.explore.population import Population
from understudy.explore.rehearsal import Setup, prior_of, published, rehearse, seeds
from understudy.inference.answer import Answer
from understudy.inference.ask import ask
from understudy.inference.estimands import FIRST, Estimand
from understudy.inference.evidence import possible_cells
from understudy.inference.exact import BetaBinomialPosterior, beta_binomial
from understudy.release.table_release import Release

MOST_EXACT = 250  # records and rows up to which every outcome is summed
MOST_BATCHED = 20_000  # records up to which a batch of two-group releases is simulated at once
SEEN = 1e-9  # outcomes that are less likely than this add nothing
BATCH = 8  # releases of a batch for every rehearsal asked for, in a small table: they cost less
REAL_POINTS = 15  # data sets whose own interval is computed if the table is large: widths hardly differ


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How a question is asked beside its text; see ``understudy.infer``."""

    family: str | None = None
    event: Level | None = None
    where: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Width:
    """The expected width of an interval and of the real data's, for one quantity of a question.

    ``spread`` is the standard deviation over releases, ``error`` the Monte Carlo standard error of ``width`` (0 if it
    is exact), ``ratio`` the width over that of the real data (none where the real data leave no doubt: counts).
    ``low`` and ``high`` are where 95 of 100 widths will be, as far as rehearsals tell: they differ by the noise and,
    where nobody said how people are spread, by how many are in each group. ``ratio_low``, ``ratio_high`` alike.
    """

    name: str
    width: float
    real: float
    spread: float
    error: float
    releases: int
    refused: int = 0
    value: float | None = None  # what the real data answer, on average
    low: float | None = None
    high: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None

    @property
    def half_share(self) -> float | None:
        """Half the width as a share of the value: within how many percent an answer is right."""
        return self.width / 2 / abs(self.value) if self.value else None

    @property
    def ratio(self) -> float | None:
        return self.width / self.real if self.real > 0 else None

    @property
    def ratio_error(self) -> float | None:
        return self.error / self.real if self.real > 0 else None

    @property
    def exact(self) -> bool:
        return self.releases == 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rehearsals:
    """Everything that predictions at several epsilons share: the guess, the question, how often, with which seed."""

    population: Population
    setup: Setup
    estimand: Estimand
    question: str
    asking: Asking
    records: int
    level: float
    repeats: int
    seed: int
    prior: float | None = None

    def widths(self, epsilon: Fraction, copies: int = 1) -> tuple[Width, ...]:
        """The widths at one epsilon; the same people and the same seeds at every epsilon, so that curves are smooth."""
        found = self._shares(epsilon, copies)
        return self._rehearsed(epsilon, copies) if found is None else (found,)

    # By rehearsal.

    def _rehearsed(self, epsilon: Fraction, copies: int) -> tuple[Width, ...]:
        plan = self.setup.plan(epsilon, copies)
        widths, real, values = [], [], []
        names: tuple[str, ...] = ()
        refused, reason = 0, ""
        for repeat in range(self.repeats):
            rng = np.random.default_rng(seeds(self.seed, repeat))
            people = self._people(repeat).draw(self.records, rng)
            release = rehearse(CodedSource(people), plan, seeds(self.seed, repeat, 1))
            try:
                answer = self._ask(release, rng)
                inside = self._ask(published(people, self.estimand.margin), rng)
            except UnsupportedError as problem:
                refused, reason = refused + 1, str(problem)
                continue
            names = answer.names
            widths.append([one.high - one.low for one in answer.estimates])
            real.append([one.high - one.low for one in inside.estimates])
            values.append([one.value for one in inside.estimates])
        if not widths:
            raise UnsupportedError(
                f"none of {self.repeats} rehearsed releases by '{plan.method}' at epsilon {float(epsilon):g} could "
                f"answer '{self.question}': {reason} Or leave this epsilon out."
            )
        table, own, truth = np.array(widths), np.array(real), np.array(values)
        return tuple(
            self._summed_up(name, table[:, place], own[:, place], truth[:, place], releases=len(table), refused=refused)
            for place, name in enumerate(names)
        )

    def _people(self, repeat: int) -> Population:
        """The population of one rehearsal: the same at every epsilon."""
        return self.population.imagined(np.random.default_rng(seeds(self.seed, repeat, 2)))

    def _summed_up(
        self, name: str, widths: Floats, real: Floats, values: Floats, *, releases: int, refused: int = 0
    ) -> Width:
        """The middle of several widths and their range.

        The middle is the mean if the populations are alike. If each rehearsal has its own, it is the median: a few
        populations with tiny groups have intervals of any width.
        """
        middle = np.mean if self.population.knows(self.estimand.margin) else np.median
        spread = float(widths.std(ddof=1)) if len(widths) > 1 and np.isfinite(widths).all() else 0.0
        low, high = likely_range(widths)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = widths / real
        ratio_low, ratio_high = likely_range(ratios) if (real > 0).all() else (None, None)
        return Width(
            name=name,
            width=float(middle(widths)),
            real=float(middle(real)),
            spread=spread,
            error=spread / float(np.sqrt(len(widths))) if releases else 0.0,
            releases=releases,
            refused=refused,
            value=float(middle(values)),
            low=low,
            high=high,
            ratio_low=ratio_low,
            ratio_high=ratio_high,
        )

    def _ask(self, release: Release, rng: np.random.Generator) -> Answer:
        asking = self.asking
        return ask(
            release,
            self.question,
            family=asking.family,
            event=asking.event,
            where=asking.where,
            level=self.level,
            prior=self.prior,
            rng=rng,
            weighted=False,
        )

    # A share of two groups under a Dirichlet draw.

    def _two_groups(self) -> Integers | None:
        """How many possible cells each of the two groups of a share has, if there are only two groups."""
        estimand = self.estimand
        if estimand.question.kind != "proportion" or len(estimand.parts) != 1 or self.records > MOST_BATCHED:
            return None
        possible = possible_cells(self.setup.schema, estimand.margin)
        cells = np.bincount(estimand.parts[0].groups, weights=possible, minlength=FIRST + 2).astype(np.int64)
        return None if cells[:FIRST].any() or (cells[FIRST:] == 0).any() else np.asarray(cells[FIRST:])

    def _share(self, population: Population) -> float:
        """The share that the question is about, in one population."""
        estimand = self.estimand
        cells = population.cell_shares(estimand.margin)
        return float(np.bincount(estimand.parts[0].groups, weights=cells, minlength=FIRST + 2)[FIRST + 1])

    def _shares(self, epsilon: Fraction, copies: int) -> Width | None:
        plan = self.setup.plan(epsilon, copies)
        # Where the number of records is not public, a Dirichlet draw answers nothing; a rehearsal says why.
        if not self.setup.splits(plan) or not self.setup.unit.public_total:
            return None
        cells = self._two_groups()
        if cells is None:
            return None
        nobody = self._people(0).draw(self.records, np.random.default_rng(self.seed))
        prior = prior_of(rehearse(CodedSource(nobody), plan, self.seed))
        if prior is None:
            return None
        each, rows = prior
        populations = 1 if self.population.knows(self.estimand.margin) else self.repeats
        # Of several populations each needs fewer releases: the middle of all is what is told.
        releases = max(2, (BATCH if self.records <= MOST_EXACT else 1) * self.repeats // populations)
        found = [
            share_width(
                share=self._share(self._people(repeat)),
                records=self.records,
                rows=rows,
                copies=copies,
                alpha=(each * int(cells[1]), each * int(cells[0])),
                prior=self.prior or 0.5,
                level=self.level,
                releases=releases,
                rng=np.random.default_rng(seeds(self.seed, repeat, 3)),
                name=self.estimand.names[0],
            )
            for repeat in range(populations)
        ]
        if populations == 1:
            return found[0]
        return self._summed_up(
            found[0].name,
            np.array([one.width for one in found]),
            np.array([one.real for one in found]),
            np.array([one.value for one in found]),
            releases=0 if found[0].exact else releases * populations,
        )


def likely_range(sizes: Floats, level: float = 0.95) -> tuple[float, float]:
    """Where the next of several sizes will be: Student's prediction interval of their logarithms.

    >>> [round(end, 2) for end in likely_range(np.array([0.8, 1.0, 1.25]))]
    [0.33, 3.03]
    """
    from scipy.stats import t

    known = np.log(sizes[np.isfinite(sizes) & (sizes > 0)])
    if not len(known):
        return float(np.min(sizes)), float(np.max(sizes))
    reach = 0.0
    if len(known) > 1:
        reach = t.ppf((1 + level) / 2, len(known) - 1) * known.std(ddof=1) * np.sqrt(1 + 1 / len(known))
    low, high = np.exp(known.mean() - reach), np.exp(known.mean() + reach)
    return (
        0.0 if (sizes <= 0).any() else float(low),
        float("inf") if np.isinf(sizes).any() else float(high),
    )


def share_width(
    *,
    share: float,
    records: int,
    rows: int,
    copies: int,
    alpha: tuple[float, float],
    prior: float = 0.5,
    level: float = 0.95,
    releases: int = 400,
    rng: np.random.Generator | None = None,
    name: str = "proportion",
    measure: Callable[[BetaBinomialPosterior], Floats] | None = None,
) -> Width:
    """The expected width of the interval of a share from Dirichlet copies of a binary table, and the real data's.

    One copy of a small table is summed exactly over every data set and outcome; else ``releases`` are simulated.
    ``measure`` takes another size of the posterior than the width (its standard deviation, for Charest's Figure 2).

    >>> width = share_width(share=0.25, records=100, rows=100, copies=1, alpha=(15.65, 15.65))
    >>> width.exact, round(width.width, 2), round(width.ratio, 2)
    (True, 0.34, 2.06)
    """
    size = measure or (lambda posterior: _interval_width(posterior, level))
    real = _real_width(share, records, prior, size)
    both = (prior, prior)
    if copies == 1 and max(records, rows) <= MOST_EXACT:
        chances = outcome_law(share, records, rows, alpha)
        seen = np.flatnonzero(chances > SEEN)
        sizes = size(beta_binomial(seen[:, None], rows=rows, records=records, alpha=alpha, prior=both))
        weights = chances[seen] / chances[seen].sum()
        mean = float(weights @ sizes)
        spread = float(np.sqrt(max(weights @ sizes**2 - mean**2, 0.0)))
        return Width(name=name, width=mean, real=real, spread=spread, error=0.0, releases=0, value=share)
    generator = np.random.default_rng(0) if rng is None else rng
    people = generator.binomial(records, share, releases)
    shares = generator.beta(alpha[0] + people, alpha[1] + (records - people), (copies, releases))
    drawn = generator.binomial(rows, shares).T.astype(np.int64)
    sizes = size(beta_binomial(drawn, rows=rows, records=records, alpha=alpha, prior=both))
    spread = float(sizes.std(ddof=1))
    return Width(
        name=name,
        width=float(sizes.mean()),
        real=real,
        spread=spread,
        error=spread / float(np.sqrt(releases)),
        releases=releases,
        value=share,
    )


def outcome_law(share: float, records: int, rows: int, alpha: tuple[float, float]) -> Floats:
    """P(released count) over data sets and draws: a binomial mixture of beta-binomials."""
    from scipy.stats import betabinom, binom

    people = np.arange(records + 1)
    given = betabinom.pmf(
        np.arange(rows + 1)[None, :], rows, alpha[0] + people[:, None], alpha[1] + (records - people)[:, None]
    )
    return np.asarray(binom.pmf(people, records, share) @ given)


def _real_width(share: float, records: int, prior: float, size: Callable[[BetaBinomialPosterior], Floats]) -> float:
    """The same size of the posterior that the data themselves give, on average over data sets."""
    from scipy.stats import binom

    people = np.arange(records + 1)
    chances = binom.pmf(people, records, share)
    seen = np.flatnonzero(chances > SEEN)
    if records > MOST_EXACT:
        seen = seen[:: max(1, len(seen) // REAL_POINTS)]
    known = np.zeros((len(seen), records + 1))
    known[np.arange(len(seen)), seen] = 1.0
    sizes = size(BetaBinomialPosterior(weights=known, prior=(prior, prior), log_evidence=np.zeros(len(seen))))
    return float(chances[seen] @ sizes / chances[seen].sum())


def _interval_width(posterior: BetaBinomialPosterior, level: float) -> Floats:
    ends = posterior.quantile([(1 - level) / 2, (1 + level) / 2])
    return np.asarray(ends[..., 1] - ends[..., 0])
