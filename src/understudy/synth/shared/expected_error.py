"""How wrong two-way tables will be: from sizes, expected counts, noise, and how far pairs are from independence.

The error of a table is its mean S_pMSE, the measure that releases are judged by: squared differences of counts over
their expectation, summed over cells and divided by the number of filled cells. The error of a pair is a sum of parts:

- the noise of its two one-way margins. A level that expects m people has error v / m by noise of variance v, and no
  more than a third of sqrt(v) where it expects fewer people than that;
- its departure from independence, if the pair is not measured: D;
- if it is measured, what noise leaves unknown of that. With D spread evenly over c cells in units of what a cell
  expects, r = D/c, a cell departs with variance r m, of which noise of variance v leaves the part v / (r m + v).

Nothing here looks at data: expected counts and departures are noisy or assumed. See docs/theory/one-look.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from math import gamma, log2, pi, sqrt
from statistics import fmean

import numpy as np

from understudy.core.arrays import Floats, Integers
from understudy.core.schema import Schema
from understudy.models.junction_tree import tree_cells
from understudy.models.nearest_table import lost_to_noise
from understudy.privacy.promise.definition import NonPrivate
from understudy.privacy.promise.event import GaussianNoise
from understudy.privacy.promise.plan import Plan
from understudy.synth.shared.margin_methods import is_public
from understudy.synth.shared.required_tables import LABEL

Fits = Callable[[Sequence[int]], bool]
IMPLIED = 0.85  # the part of the dependence implied by a chain of pairs that is counted: the chain is not all of it
WEIGHT = 10**6  # shares are whole numbers divided by their sum; a table gets at least one part in a million
SMALLEST, LARGEST = -20, 34  # powers of two between which the expected people of a cell are distinguished
BINS = LARGEST - SMALLEST + 1
SHARES = np.geomspace(1e-3, 0.5, 10)  # shares of the budget that are tried for a pair
LEAST = 1e-4  # the least share of a table during the search
STEP = 1.05  # the factor by which a share is changed to see the effect
ROUNDS, FEW_ROUNDS = 30, 3  # of the search for the best shares; few if it starts from those with one pair less
STRONG = 0.2  # how much less error a strong dependence has than its squared distance (all benchmark data)
UNSURE = 0.25  # uncertain part of what one-way noise explains of a distance: the explained part is only an average
OF_EMPTY = 0.4  # the part of the noise that is left on a level that seems to be empty
EMPTY = 3.0  # an empty level keeps about a third of a noise standard deviation, after the noise is made to add up


def powers(expected: Floats) -> Floats:
    """How many cells expect about 2^k people, for every k between the smallest and the largest."""
    logs = np.rint(np.log2(np.maximum(expected.ravel(), 2.0**SMALLEST))).astype(np.int64)
    return np.bincount(np.clip(logs, SMALLEST, LARGEST) - SMALLEST, minlength=BINS).astype(float)


def crossed(first: Floats, second: Floats, total: float) -> Floats:
    """The same for the cells of an independent pair, from those of its two attributes."""
    both = np.convolve(first, second)
    places = np.rint(np.arange(len(both)) + 2 * SMALLEST - log2(max(total, 1.0))).astype(np.int64)
    found = np.bincount(np.clip(places, SMALLEST, LARGEST) - SMALLEST, weights=both, minlength=len(first))
    return found.astype(np.float64, copy=False)


def squared_departure(distance: Floats, evenness: Floats) -> Floats:
    """The approximate error of independence, from the sum of absolute differences between a pair and independence.

    With normal differences in proportion to what cells expect it is pi/2 distance^2 / records. Where nearly
    everybody has one level, only few people can differ: for two attributes of two levels it is distance^2 / (records
    g h), g = 4p(1-p) for shares p and 1-p (``evenness`` is records g h, see :meth:`Independence.evenness`). Strong
    dependences come near the largest possible error, twice the distance.
    """
    return np.asarray(np.minimum(pi / 2 * distance**2 / (evenness + STRONG * distance + 1e-9), 2.0 * distance))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairChoice:
    """What is known when pairs are chosen, and the choice.

    ``one_powers``, ``pair_powers``: how many cells of each one-way and two-way table expect how many people (see
    :func:`powers`); no cells where an attribute is public. ``first``, ``known``: the precision with which one-way
    margins and pairs are known already. ``ends``: the two attributes of each pair, by number. ``departures``: how far
    each pair is from independence, in records (L1). ``most``: how far it could be. ``evenness``: the records among
    which a pair can differ (:func:`squared_departure`). ``noise``: the variance on a cell if one table got everything.
    ``concentrated``: whether shares are of rho. ``implied``: the part of the dependence of a chain that counts.
    ``held``: pairs that are in the model already; the departures of all others are then departures from that model.
    """

    one_powers: Floats
    first: Floats
    pair_powers: Floats
    known: Floats
    ends: Integers
    departures: Floats
    most: Floats
    evenness: Floats
    noise: float
    concentrated: bool
    implied: float = IMPLIED
    held: tuple[int, ...] = ()
    expects: Floats = field(init=False)  # people in a cell of each power
    filled: Floats = field(init=False)  # cells of each pair that are filled in at least one of two tables, minus one
    resting: Floats = field(init=False)  # the weight of the error of a one-way margin, over all pairs that use it

    def __post_init__(self) -> None:
        expects = 2.0 ** np.arange(SMALLEST, LARGEST + 1)
        filled = np.maximum(self.pair_powers @ -np.expm1(-2.0 * expects) - 1.0, 1.0)
        resting = np.zeros(len(self.one_powers))
        np.add.at(resting, self.ends.ravel(), np.repeat(1.0 / filled, 2))
        for name, value in (("expects", expects), ("filled", filled), ("resting", resting)):
            object.__setattr__(self, name, value)

    def choose(self, fits: Fits) -> list[int]:
        """The pairs that are worth their noise, best first; ``fits``: whether one model holds some pairs together."""
        chosen: list[int] = list(self.held)
        left = np.ones(len(self.ends), dtype=bool)
        left[chosen] = False
        shares, unexplained = self.best_shares(chosen), self._unexplained(chosen)
        gains, tried = self._gains(unexplained, left, chosen, shares)
        while left.any():
            best = int(np.argmax(np.where(left, gains, -np.inf)))
            if not left[best] or gains[best] <= 0:
                break
            left[best] = False
            if fits([*chosen, best]):
                chosen.append(best)
                shares = np.append(shares * (1.0 - tried[best]), tried[best])
                shares, unexplained = self.best_shares(chosen, shares, FEW_ROUNDS), self._unexplained(chosen)
                gains, tried = self._gains(unexplained, left, chosen, shares)
        return chosen

    def _sum(self, chosen: Sequence[int], shares: Floats) -> float:
        """The sum of errors over all pairs, if these are measured with some shares."""
        departure = squared_departure(self._unexplained(chosen), self.evenness) / self.filled
        left = float(departure.sum() - departure[list(chosen)].sum())
        return left + float(self._errors(chosen, shares)[0])

    def shares(self, chosen: Sequence[int]) -> list[Fraction]:
        """Shares of the one-way tables that are not public and then of the pairs, which add up to one."""
        counted = np.concatenate([self.one_powers.sum(axis=1) > 0, np.ones(len(chosen), dtype=bool)])
        parts = self.best_shares(chosen)[counted]
        weights = [max(1, round(WEIGHT * float(part / parts.sum()))) for part in parts]
        return [Fraction(weight, sum(weights)) for weight in weights]

    def error(self, chosen: Sequence[int], shares: Floats | None = None) -> float:
        """The mean expected error of all pairs, if these are measured with some shares (by default the best)."""
        return self._sum(chosen, self.best_shares(chosen) if shares is None else shares) / len(self.ends)

    def relied_on(self, chosen: Sequence[int]) -> tuple[float, float]:
        """The error that chains of chosen pairs are trusted to explain in other pairs, and the error from noise."""
        whole, left = (
            squared_departure(one, self.evenness) / self.filled for one in (self.departures, self._unexplained(chosen))
        )
        trusted = np.delete(whole - left, list(chosen))
        return float(trusted.sum()), float(self._errors(chosen, self.best_shares(chosen))[0])

    def _unexplained(self, chosen: Sequence[int]) -> Floats:
        """Departures less what chains of measured pairs imply, beyond what the model held already."""
        if self.implied == 0:
            return self.departures
        along = self.implied * (self._along(chosen) - self._along(self.held))
        return np.asarray(np.maximum(self.departures - along * self.most, 0.0))

    def _along(self, chosen: Sequence[int]) -> Floats:
        """How strongly the ends of every pair depend on one another along chains of some pairs; 0 to 1."""
        implied = np.eye(len(self.one_powers))
        strength = np.clip(self.departures / np.maximum(self.most, 1e-9), 0.0, 1.0)
        for number in chosen:
            first, second = self.ends[number]
            implied = _with_edge(implied, int(first), int(second), float(strength[number]))
        return np.asarray(implied[self.ends[:, 0], self.ends[:, 1]])

    def _variances(self, shares: Floats) -> Floats:
        return np.asarray(self.noise / np.maximum(shares, 1e-12) ** (1 if self.concentrated else 2))

    def _one_errors(self, variances: Floats) -> Floats:
        """Errors of each one-way margin at each noise, summed over the pairs that use it."""
        spread = variances[..., None]
        each = (self.one_powers * (spread / (self.expects + EMPTY * np.sqrt(spread)))).sum(axis=-1)
        return np.asarray(each * self.resting)

    def _pair_errors(self, numbers: Sequence[int] | Integers, departures: Floats, variances: Floats) -> Floats:
        """Errors of measured pairs at each noise; departures are squared."""
        cells = self.pair_powers[numbers]
        rate = (departures / np.maximum(cells.sum(axis=1), 1.0))[:, None]
        spread = (1.0 / (1.0 / variances + self.known[numbers]))[..., None]
        return np.asarray((cells * (rate * spread / (rate * self.expects + spread + 1e-12))).sum(axis=-1)
                          / self.filled[numbers])  # fmt: skip

    def _summed(self, chosen: Sequence[int]) -> Floats:
        """How many cells of each chosen pair make one cell of the one-way margin at each of its ends."""
        cells = self.one_powers.sum(axis=1)
        return np.asarray(self.pair_powers[list(chosen)].sum(axis=1)[:, None]
                          / np.maximum(cells[self.ends[list(chosen)]], 1.0))  # fmt: skip

    def _precisions(self, summed: Floats, shares: Floats) -> tuple[Floats, Floats]:
        """The precision that each table gives to one-way margins: its own, or those of both ends of a pair."""
        variances, count = self._variances(shares), len(self.one_powers)
        own = np.where(shares[..., :count] > 0, 1.0 / variances[..., :count], 0.0)
        return own, np.asarray(1.0 / (variances[..., count:, None] * summed))

    def _errors(self, chosen: Sequence[int], shares: Floats) -> Floats:
        """The sum of errors from noise; ``shares`` may have more rows, one for each trial."""
        own, ends = self._precisions(self._summed(chosen), shares)
        total = own + self.first
        for side in (0, 1):
            for place, number in enumerate(self.ends[list(chosen), side]):
                total[..., number] += ends[..., place, side]
        found = self._one_errors(1.0 / np.maximum(total, 1e-300)).sum(axis=-1)
        if chosen:
            departures = squared_departure(self.departures[list(chosen)], self.evenness[list(chosen)])
            variances = self._variances(shares[..., len(self.one_powers) :])
            found = found + self._pair_errors(list(chosen), departures, variances).sum(axis=-1)
        return np.atleast_1d(found)

    def _slopes(self, chosen: Sequence[int]) -> Callable[[Floats], Floats]:
        """How much the sum of errors falls as the share of each table grows: share times derivative, by shares."""
        numbers, count = list(chosen), len(self.one_powers)
        ends, summed = self.ends[numbers], self._summed(numbers)
        departures = squared_departure(self.departures[numbers], self.evenness[numbers])
        power = 1.0 if self.concentrated else 2.0

        def slopes(shares: Floats) -> Floats:
            own, both = self._precisions(summed, shares)
            total = np.maximum(own + self.first, 1e-300)  # public attributes have no noise, and nothing falls
            np.add.at(total, ends.ravel(), both.reshape(-1))
            variances = 1.0 / total
            now, then = self._one_errors(np.stack([variances, variances / STEP]))
            falls = (now - then) / (STEP - 1.0) / total
            found = power * falls * own
            if not numbers:
                return np.asarray(found)
            spread = self._variances(shares[count:])
            now, then = self._pair_errors(numbers, departures, np.stack([spread, spread / STEP]))
            pairs = power * ((now - then) / (STEP - 1.0) + (falls[ends] * both).sum(axis=1))
            return np.concatenate([found, pairs])

        return slopes

    def best_shares(self, chosen: Sequence[int], start: Floats | None = None, rounds: int = ROUNDS) -> Floats:
        """Shares with equal derivatives: one more part of the budget would help every table alike."""
        count = len(self.one_powers) + len(chosen)
        public = np.zeros(count, dtype=bool)
        public[: len(self.one_powers)] = self.one_powers.sum(axis=1) == 0
        shares = np.where(public, 0.0, 1.0 / max(count - int(public.sum()), 1)) if start is None else start
        slopes = self._slopes(chosen)
        for _ in range(rounds):
            slope = np.where(public, 0.0, np.maximum(slopes(shares), 0.0))
            wanted = np.sqrt(slope * shares) if self.concentrated else np.cbrt(slope * shares**2)
            # Half a step, because the derivative was taken at the old shares.
            wanted = np.sqrt(np.maximum(wanted / max(float(wanted.sum()), 1e-300), LEAST) * np.maximum(shares, LEAST))
            wanted = np.where(public, 0.0, wanted)
            shares = wanted / max(float(wanted.sum()), 1e-300)
        return np.asarray(shares)

    def _gains(
        self, unexplained: Floats, left: np.ndarray, chosen: Sequence[int], shares: Floats
    ) -> tuple[Floats, Floats]:
        """How much each further pair reduces the sum of errors, at the best of some shares for it, and that share."""
        costs = self._errors(chosen, shares * (1.0 - SHARES[:, None])) - self._errors(chosen, shares)
        departures = squared_departure(unexplained, self.evenness)
        most = departures / self.filled
        promising = np.flatnonzero(left & (most > costs.min()))
        found, best = np.full(len(self.ends), -np.inf), np.full(len(self.ends), SHARES[0])
        for share, cost in zip(SHARES, costs, strict=True):
            variance = np.full(len(promising), float(self._variances(np.array([share]))[0]))
            gain = most[promising] - self._pair_errors(promising, departures[promising], variance) - cost
            better = gain > found[promising]
            found[promising[better]], best[promising[better]] = gain[better], share
        return found, best


def _with_edge(implied: Floats, first: int, second: int, strength: float) -> Floats:
    """How strongly attributes depend on one another along the best path. Strengths multiply like correlations."""
    through = strength * np.outer(implied[:, first], implied[second])
    return np.maximum(implied, np.maximum(through, through.T))


def shrunk_departures(noisy: Floats, explained: Floats, variance: float, most: Floats) -> Floats:
    """Departures from noisy distances: without what the noise of one-way margins explains, and shrunk to the mean.

    The squares of departures and of errors of one-way margins add up. The noise of the distances is then removed by
    empirical Bayes, because the largest of many noisy numbers is large mostly by its noise. Pairs are assumed to have
    similar shares of their largest possible departure (``most``), so where little is possible little is expected.
    """
    found = np.sign(noisy) * np.sqrt(np.maximum(noisy**2 - explained**2, 0.0))  # signs keep the mean
    scale = np.maximum(most, 1e-9)
    spread = variance + (UNSURE * explained) ** 2
    weights = scale / (spread + 1e-9)
    usual = max(float((weights * found).sum() / (weights * scale).sum()), 0.0)
    rest = ((found - usual * scale) ** 2 - spread) * weights**2
    between = max(float(rest.sum() / (scale**2 * weights**2).sum()), 0.0) * scale**2
    kept = between / (between + spread + 1e-9)
    return np.asarray(np.clip(usual * scale + kept * (found - usual * scale), 0.0, most))


# How good a plan will be, before anything is spent: its expected error from public facts and an assumed dependence.
#
# Noise follows from the plan. The data are not known, so an assumption is made and stated: levels have shares in the
# ratio 1, 1/2, 1/3 and so on, and the dependence of pairs varies around a fifth of the largest possible one. The real
# files of the benchmarks have means of .21, .21, .26 and .48 of it. Nothing here reads data.


USUAL_RECORDS = 10_000  # where a plan does not say how many there are: it is made before the data are read
USUAL_STRENGTH = 0.2  # the mean over pairs, as a part of the largest possible departure from independence
# Of the Weibull law of strengths: their standard deviation is .68 of their mean. In the kinds of data of the benchmarks
# it was .21 (NLTCS), .40, .55, .70 (Adult), .78 (S7), .83 (MA 2019), .87 (proving ground), .96 (trees).
SHAPE = 1.5
# Weak to strong dependence, as parts of the largest possible one. Independent columns have none; the means of the kinds
# of data in the benchmarks are .04 to .23, and .5 for NLTCS.
STRENGTHS = (0.05, 0.1, 0.2, 0.35)
NEGLIGIBLE = 0.3  # an S_pMSE of a third of a sample's: below it no plan is called better than another
# A factor on the regret of choosing, or of one-way margins alone, where epsilon itself is divided. A look and a second
# measurement of one-way margins cost more there than the forecast says: methods with a forecast as good were a tenth
# better (33 settings of four to six attributes and 16 pure ones, drawn from seeds 34001 and 34003).
DIVIDED = 1.1
# People whom noise puts into empty cells harm most where levels are rarer than assumed: the error of full tables was .2
# to 7 times its forecast (36 settings). Factors of 4 to 6 chose best, and alike.
RARE = 5.0
MOST_FORECAST = 60  # attributes; with more, trying all pairs would take longer than the plan is worth
SAMPLED = 0.5  # of a sample's error, left in rounded rows of a model with many cells (six of the development settings)
LEAST_NOISE = 1e-9  # the variance of noise that is almost surely 0: no precision is infinite
HARDLY = 1e12  # a factor on the noise so large that nothing more is measured
GOLDEN, SILVER = (sqrt(5) - 1) / 2, sqrt(2) - 1  # multiples of them spread evenly, and not alike


def forecast(plan: Plan, schema: Schema, strength: float = USUAL_STRENGTH, *, rare: float = 1.0) -> float | None:
    """The expected mean S_pMSE of all two-way tables; None where a plan does not measure tables, or is too wide.

    Tables that the plan fixes are taken with their noise. Pairs that are chosen during the run are taken as the choice
    that ``one_look`` would make with the budget left for them, after a look with the noise that the plan states.
    ``rare`` is a factor on the harm of people whom noise puts into empty cells.
    """
    choice = assumed_choice(plan, schema, strength)
    if choice is None:
        return None
    if plan.method == "mst":
        return choice.error(*_tree(plan, choice))
    if plan.method == "histogram":
        return choice.error(list(range(len(choice.ends)))) + rare * _nobody(plan, choice)
    seen = _seen(plan, schema, choice)
    chosen = _measured(plan, schema, seen)
    return choice.error(chosen, seen.best_shares(chosen))


def least_regret(
    offered: Mapping[str, Plan], schema: Schema, *, prefer: Mapping[str, float] | None = None
) -> str | None:
    """The plan whose expected error is never far from the least, whether dependences are weak, usual or strong.

    Data may not be looked at, so no single strength can be assumed. A plan is judged by its worst ratio to the best of
    them, times a factor in ``prefer`` where it has one; errors far below that of a sample count as equal. None if one
    of them has no forecast (very many attributes).
    """
    errors: dict[str, list[float]] = {}
    for name, plan in offered.items():
        found = [forecast(plan, schema, strength, rare=RARE) for strength in STRENGTHS]
        errors[name] = [one + from_rows(plan, schema) for one in found if one is not None]
    if any(len(found) < len(STRENGTHS) for found in errors.values()):
        return None
    least = [max(min(column), NEGLIGIBLE) for column in zip(*errors.values(), strict=True)]

    def regret(name: str) -> float:
        plan = offered[name]
        worst: float = max(max(one / best, 1.0) for one, best in zip(errors[name], least, strict=True))
        dearer = plan.method in ("one_look", "mst", "independent") and divides_epsilon(plan)
        return worst * (DIVIDED if dearer else 1.0) * (prefer or {}).get(name, 1.0)

    return min(errors, key=regret)


def three_way_noise(plan: Plan, schema: Schema) -> float | None:
    """The mean S_pMSE that noise alone gives to the three-way tables that a plan fixes; None if it fixes none.

    What tables have in common is not counted, so it is at most this much.
    """
    records, found = float(plan.records or plan.rows or USUAL_RECORDS), []
    for step in plan.steps:
        if step.action == "measure" and len(step.margin) == 3 and step.standard_deviation is not None:
            expected = np.full((), records)
            for name in step.margin:
                expected = np.multiply.outer(expected, _levels(schema[name].size))
            off = step.standard_deviation**2 / (expected + EMPTY * step.standard_deviation + 1e-9)
            found.append(float(off.sum()) / max(float(-np.expm1(-2.0 * expected).sum()) - 1.0, 1.0))
    return fmean(found) if found else None


def with_forecast(plan: Plan, schema: Schema, *, counts_first: bool = False) -> Plan:
    """The plan with a sentence about its expected error, and what that assumes.

    ``counts_first``: whether a run without a stated number of records counts them before it plans.
    """
    error = forecast(plan, schema)
    if error is None:
        return plan
    rows = from_rows(plan, schema)
    error += rows
    weak, strong = (forecast(plan, schema, strength) or 0.0 for strength in (STRENGTHS[0], STRENGTHS[-1]))
    records = plan.records or plan.rows
    unsaid = "" if records else ", as the plan does not say how many there are"
    people = f"{records or USUAL_RECORDS:,} records{unsaid}"
    said = (
        f"Expected error of two-way tables: mean S_pMSE about {error:.2g} (1 is what a sample of the data has, below "
        f"10 is good, below 30 usable). This assumes {people}, and dependences as in usual surveys; "
        f"{weak + rows:.2g} where they are weak, {strong + rows:.2g} where they are strong. Data may lie outside."
    )
    if not records and counts_first:
        said += (
            " A run counts the records first, as their number is public, and `auto` may then take another method: say "
            "records in the plan to see what will run."
        )
    return replace(plan, notes=(*plan.notes, said))


def assumed_choice(plan: Plan, schema: Schema, strength: float) -> PairChoice | None:
    """What a plan knows of every pair before it chooses, under the assumptions above."""
    names = [name for name in schema.names if schema[name].size > 1]
    steps = [step for step in plan.steps if step.action == "measure" and step.standard_deviation is not None]
    in_rows = plan.options.get("must_rows", True) in (True, "true")
    told = [step for step in steps if step.margin and (in_rows or not step.label.startswith(LABEL))]
    if isinstance(plan.budget, NonPrivate) or not told or not 2 <= len(names) <= MOST_FORECAST:
        return None
    records = float(plan.records or plan.rows or USUAL_RECORDS)
    levels = {name: _levels(schema[name].size) for name in names}
    even = {name: (1.0 - float((one**2).sum())) * one.size / (one.size - 1) for name, one in levels.items()}
    place = {name: number for number, name in enumerate(names)}
    ones = np.array([powers(records * levels[name]) for name in names])
    pairs = list(combinations(names, 2))
    first, known = np.zeros(len(names)), np.zeros(len(pairs))
    for step in told:
        inside = [name for name in step.margin if name in place]
        variance = max((step.standard_deviation or 0.0) ** 2, LEAST_NOISE) * schema.cells(step.margin)
        for name in inside:
            first[place[name]] += schema[name].size / variance
        for number, pair in enumerate(pairs):
            if len(inside) > 1 and set(pair) <= set(inside):
                known[number] += schema[pair[0]].size * schema[pair[1]].size / variance
    least = min(max((step.standard_deviation or 0.0) ** 2, LEAST_NOISE) for step in told)
    most = np.array([2 * records * min(1.0 - float((levels[name] ** 2).sum()) for name in pair) for pair in pairs])
    protected = np.array([[0.0 if is_public(schema, (name,), plan.unit) else 1.0] for name in names])
    left = _left(plan)
    return PairChoice(
        one_powers=ones * protected,
        first=first,
        pair_powers=np.array([crossed(ones[place[a]], ones[place[b]], records) for a, b in pairs]),
        known=known,
        ends=np.array([[place[a], place[b]] for a, b in pairs]),
        departures=np.minimum(_strengths(len(pairs), strength) * most, most),
        most=most,
        evenness=np.array([records * even[a] * even[b] for a, b in pairs]),
        noise=HARDLY * least if left is None else max(left, LEAST_NOISE),
        concentrated=_concentrated(plan),
        implied=0.0,  # nobody knows which pairs others imply, so none are assumed to be
    )


def _nobody(plan: Plan, choice: PairChoice) -> float:
    """The error from people whom noise puts into cells of the full table that nobody is in.

    Counts are not negative, so noise does not cancel there. In every pair it is as if a part of the records had been
    spread evenly over all cells.
    """
    records = float(plan.records or plan.rows or USUAL_RECORDS)
    (table,) = [step for step in plan.steps if step.margin]
    cells = np.maximum(choice.pair_powers.sum(axis=1), 1.0)
    moved = lost_to_noise(records, table.cells, table.standard_deviation or 0.0) * (
        records / cells[:, None] - choice.expects
    )
    errors = (choice.pair_powers * moved**2 / (choice.expects + moved / 2.0)).sum(axis=1)
    return float((errors / np.maximum(cells - 1.0, 1.0)).mean())


def from_rows(plan: Plan, schema: Schema) -> float:
    """The error of the rows themselves, where 1 is that of a sample.

    Rows that are drawn independently are a sample. Rounded rows are exact if the model has few cells. If it has many
    more cells than there are rows, nearly every cell is rounded to none or one, and about half of a sample's error
    remains. The full table is drawn as it is. All margin methods share this, so nothing is chosen by it.
    """
    if plan.method == "histogram":
        return 0.0
    if plan.options.get("rows_by") == "multinomial":
        return 1.0
    cells = min(schema.cells(), int(plan.options.get("model_cells", 0) or 0) or schema.cells())
    rows = float(plan.rows or plan.records or USUAL_RECORDS)
    return SAMPLED * cells / (cells + rows)


def _seen(plan: Plan, schema: Schema, choice: PairChoice) -> PairChoice:
    """What a noisy look would show of the assumed departures: the choice rests on that, and the error on the truth.

    The noise of the look is one fixed set of normal quantiles, so that a forecast is the same every time.
    """
    from scipy.special import ndtri

    looks = [step for step in plan.steps if step.action == "compare" and step.standard_deviation is not None]
    if not looks:
        return choice
    names = [name for name in schema.names if schema[name].size > 1]
    records, errors = float(plan.records or plan.rows or USUAL_RECORDS), np.zeros(len(names))
    for number, name in enumerate(names):
        if choice.first[number] > 0 and choice.one_powers[number].sum() > 0:
            off = sqrt(2 / pi / choice.first[number])
            errors[number] = float(np.minimum(off, records * _levels(schema[name].size) + OF_EMPTY * off).sum())
    explained = np.hypot(*errors[choice.ends].T)
    count, deviation = len(choice.ends), float(looks[0].standard_deviation or 0.0)
    order = np.argsort(np.argsort((np.arange(1, count + 1) * SILVER) % 1.0))
    noisy = np.hypot(choice.departures, explained) + deviation * ndtri((order + 0.5) / count)
    return replace(choice, departures=shrunk_departures(noisy, explained, deviation**2, choice.most))


def _tree(plan: Plan, choice: PairChoice) -> tuple[list[int], Floats]:
    """The tree that noisy maxima would choose from the assumed departures, and the shares of its pairs.

    Of what is left for pairs, a pair gets a share by its cells. One-way margins get nothing more.
    """
    from scipy.special import ndtri

    count, left = len(choice.ends), _left(plan)
    choosing = [step for step in plan.steps if step.action == "select"]
    if not choosing or left is None:
        return [], np.zeros(len(choice.one_powers))
    cells = choice.pair_powers.sum(axis=1)
    each = left * choosing[0].repeats ** (1 if choice.concentrated else 2)
    order = np.argsort(np.argsort((np.arange(1, count + 1) * SILVER) % 1.0))
    scale = float(getattr(choosing[0].event, "scale", 0))
    score = choice.departures - sqrt(2 / pi * each) * cells + scale * ndtri((order + 0.5) / count)
    part, tree = list(range(len(choice.one_powers))), []
    for number in map(int, np.argsort(-score)):
        first, second = (part[end] for end in choice.ends[number])
        if first != second:
            tree.append(number)
            part = [first if one == second else one for one in part]
    wanted = cells[tree] ** (1 / 2 if choice.concentrated else 1 / 3)
    return tree, np.concatenate([np.zeros(len(choice.one_powers)), wanted / wanted.sum()])


def _measured(plan: Plan, schema: Schema, choice: PairChoice) -> list[int]:
    """The pairs that rows follow: those that a plan fixes, and those it would choose during the run."""
    fixed = [int(number) for number in np.flatnonzero(choice.known > 0)]
    if _left(plan) is None:
        return fixed
    names = [name for name in schema.names if schema[name].size > 1]
    sizes = {name: schema[name].size for name in names}
    limit = int(plan.options.get("model_cells", 0) or 0)

    def fits(numbers: Sequence[int]) -> bool:
        groups = [tuple(names[end] for end in choice.ends[number]) for number in numbers]
        return tree_cells(sizes, groups) <= limit

    held: list[int] = []
    for number in fixed:
        if fits([*held, number]):
            held.append(number)
    return replace(choice, held=tuple(held)).choose(fits)


def _left(plan: Plan) -> float | None:
    """The variance on a cell, if one table got all that a plan spends on tables chosen during the run."""
    for step in plan.steps:
        if step.action == "measure" and not step.margin and step.repeats > 1 and step.standard_deviation is not None:
            power = 1 if _concentrated(plan) else 2
            return float(step.standard_deviation**2 / step.repeats**power)
    return None


def noise_without_pairs(plan: Plan) -> float:
    """The variance on a level if everything is spent on one-way margins, first and last, in equal parts."""
    told = [step for step in plan.steps if step.margin and not step.label.startswith(LABEL)]
    left, precision = _left(plan), fmean(1.0 / max((step.standard_deviation or 0.0) ** 2, LEAST_NOISE) for step in told)
    if left is not None:
        power = 1 if _concentrated(plan) else 2
        precision += 1.0 / max(left * len(told) ** power, LEAST_NOISE)
    return 1.0 / precision


def _concentrated(plan: Plan) -> bool:
    """Whether noise on tables is Gaussian, so that its variance and not its scale is divided by a share."""
    return any(isinstance(step.event, GaussianNoise) for step in plan.steps if step.action == "measure")


def divides_epsilon(plan: Plan) -> bool:
    """Whether parts of epsilon itself are spent, under a pure budget or because nothing of a delta is used."""
    return not _concentrated(plan)


def _levels(size: int) -> np.ndarray:
    shares = 1.0 / np.arange(1, size + 1)
    return np.asarray(shares / shares.sum())


def _strengths(count: int, mean: float) -> np.ndarray:
    """Strengths from a Weibull law, strong and weak ones mixed over the pairs."""
    places = (np.arange(1, count + 1) * GOLDEN) % 1.0
    exponential = -np.log1p(-(np.argsort(np.argsort(places)) + 0.5) / count)
    return np.asarray(mean * exponential ** (1.0 / SHAPE) / gamma(1.0 + 1.0 / SHAPE))
