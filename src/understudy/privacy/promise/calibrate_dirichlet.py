"""The smallest symmetric prior with which a Dirichlet-multinomial draw keeps a promise, and what the theorems ask for.

``PureDP``: Theorem 4.1 is exact. ``ApproxDP``: under replace a larger prior is post-processing of a smaller one
(docs/theory/dirichlet.md), so delta falls with the prior and bisection is sound. ``ProbabilisticDP``: the breach
probability is a saw-tooth in the prior, because the disclosure set changes by jumps and Definition 6 is not closed
under post-processing; the smallest prior is sought such that it *and every larger one* keep the promise, interval by
interval between the jumps, each one certified. Theorem 4.4 is offered by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np

from understudy.core.arrays import Flags, Floats, Integers
from understudy.core.exact_numbers import float_down, show_up
from understudy.errors import InputError, UnsupportedError
from understudy.privacy.exact.dirichlet_breach import (
    breach_exact,
    breach_union_bound,
    exact_is_feasible,
    thresholds,
)
from understudy.privacy.exact.dirichlet_profile import PriorShape, delta
from understudy.privacy.exact.small_tables import disclosure_sets, how_many, neighbours, tables_of
from understudy.privacy.mechanisms.dirichlet_law import DirichletMultinomial
from understudy.privacy.promise.definition import ApproxDP, Definition, ProbabilisticDP, PureDP, Unit

DIGITS = 10  # of a calibrated prior, rounded up: few enough for the urn's whole numbers
CLOSE = 1e-9  # relative width at which a bisection stops
FINEST = 1e-9  # relative width at which an interval that cannot be certified counts as failing
SAFETY = 1e-9  # relative: computed probabilities are held at least this far below the promise, for rounding
SMALLEST = 1e-12
LARGEST_EXPONENT = 700.0
PRIOR_BITS = 16  # a prior larger than needed by at most 2^-15 of itself, for an urn that fits in 64 bits
LARGEST_TWO_CELL_SCAN = 4_000_000  # records times rows
LARGEST_SMALL = 60_000  # inputs x outputs, worked through once for each jump
MOST_JUMPS = 40_000  # records times rows: there are no more jumps than that


def pure_prior(epsilon: float, rows: int) -> float:
    """Theorem 4.1: ln((rows + a) / a) <= epsilon iff a >= rows / (e^epsilon - 1); for either unit and any size.

    >>> round(pure_prior(4.6, 15), 4)
    0.1523
    """
    return rows / math.expm1(epsilon)


def round_prior(least: Fraction) -> Fraction:
    """The smallest prior with few binary digits that is not below ``least``: more prior means more privacy.

    >>> round_prior(Fraction(1, 3)) >= Fraction(1, 3), round_prior(Fraction(1, 2))
    (True, Fraction(1, 2))
    """
    exponent = math.frexp(float(least))[1] - PRIOR_BITS
    step = Fraction(2) ** exponent
    return math.ceil(least / step) * step


def reference_sample(prior: float, cells: int, records: int, epsilon: float) -> float:
    """The reference 0-sample of Definition 7 with rows = records, alpha_1 = prior, alpha_2 the rest of the prior."""
    from scipy.special import gammaln

    here = np.arange(records, dtype=float)
    rest = prior * (cells - 1)
    drawn = np.minimum(records, math.expm1(epsilon) * (prior + np.maximum(here - 1, 0)))
    total = 2 * records + prior * cells
    logs = (
        gammaln(records + 1)
        - gammaln(drawn + 1)
        - gammaln(records - drawn + 1)
        + gammaln(records + prior * cells)
        - gammaln(here + prior)
        - gammaln(records - here + rest)
        + gammaln(here + drawn + prior)
        + gammaln(2 * records - here - drawn + rest)
        - gammaln(total)
    )
    return float(np.exp(logs.max()))


def require_theorem_4_4(epsilon: float) -> None:
    """Refuses what Theorem 4.4 does not cover."""
    if epsilon <= math.log(3):
        raise UnsupportedError(f"Theorem 4.4 is stated for epsilon above ln 3 = 1.0986; epsilon is {epsilon:g}.")


@lru_cache(maxsize=4096)
def theorem_prior(epsilon: float, promise: float, cells: int, records: int) -> float:
    """Theorem 4.4, rows = records: the smallest prior with reference 0-sample at most delta (e^eps - 2) / (2 k e^eps).

    The reference 0-sample is continuous in the prior but nothing says that it falls, so the last failing prior below
    Theorem 4.1's is sought on a fine grid and then narrowed down.

    >>> round(theorem_prior(4.6, 1e-5, 120_690, 12), 5)
    0.03976
    """
    require_theorem_4_4(epsilon)
    allowed = promise * (math.exp(epsilon) - 2) / (2 * cells * math.exp(epsilon))
    top = pure_prior(epsilon, records)
    grid = np.geomspace(top, max(top * 1e-6, SMALLEST), 6_000)

    def holds(prior: float) -> bool:
        return reference_sample(prior, cells, records, epsilon) <= allowed

    good = top
    for prior in grid[1:].tolist():
        if not holds(prior):
            return _bisect(holds, prior, good)
        good = prior
    return good


def safety(rows: int, size: float) -> float:
    """How far below the promise a delta of ``rows`` rows from an urn of ``size`` is held, relative, for rounding.

    A probability is the exponential of four sums of ``rows`` logarithms, each sum at most that of the norm, S = ln of
    size (size + 1) ... (size + rows - 1) / rows!. Adding one after another rounds by at most rows 2^-53 S; twice that
    leaves room for the logarithms themselves.

    >>> safety(100, 1_000.0), round(safety(1_000_000, 1e6), 5)
    (1e-09, 0.00123)
    """
    largest = math.lgamma(size + rows) - math.lgamma(size) - math.lgamma(rows + 1)
    return max(SAFETY, 8 * rows * 2.0**-53 * (abs(largest) + math.log1p(rows)))


def exact_approx_prior(epsilon: float, promise: float, cells: int, records: int, rows: int) -> float:
    """The smallest prior with delta(epsilon) <= promise, under replace (for many rows in two cells, an upper bound)."""
    bounded = bounds_two_cells(cells, records, rows)

    def shape(prior: float) -> PriorShape:
        return PriorShape.bound_for_two_cells(prior, rows) if bounded else PriorShape.symmetric(prior, cells, rows)

    return scaled_prior(shape, epsilon, promise, records, top=pure_prior(epsilon, rows))


def scaled_prior(
    shape: Callable[[float], PriorShape], epsilon: float, promise: float, records: int, *, top: float
) -> float:
    """The smallest prior with delta(epsilon) <= promise under replace; ``shape`` says what a prior makes of all cells,
    each of which grows with it, and ``top`` is one that is enough."""
    unit = Unit(kind="replace")

    def holds(prior: float) -> bool:
        made = shape(prior)
        return delta(made, records, unit, epsilon) <= promise * (1 - safety(made.rows, made.total + records))

    low = top
    while holds(low):
        low /= 4
        if low < SMALLEST:
            return low
    return _bisect(holds, low, min(top, low * 4))


def bounds_two_cells(cells: int, records: int, rows: int) -> bool:
    """Whether two cells are calibrated by a bound instead of a scan of all splits for every prior tried."""
    return cells == 2 and records * rows > LARGEST_TWO_CELL_SCAN


def is_small(cells: int, records: int, rows: int) -> bool:
    """Whether listing everything again at each jump is feasible."""
    unit = Unit(kind="replace")
    return how_many(records, cells, unit) * how_many(rows, cells, unit) <= LARGEST_SMALL and records * rows <= 200


class SmallBreach:
    """All tables and outputs of a small space, and the breach probability as the prior moves.

    For few cells, where Theorem 4.3 is not exact. With no more cells than rows an output may leave no cell empty, and
    whether it discloses a row depends on two cells at once: (1 + m_i/(a + b_i)) / (1 + m_j/(a + b_j)) > e^epsilon, b
    the table without the row. The disclosure sets change at the positive roots, in the prior a, of (a + b_i + m_i)(a +
    b_j) = e^epsilon (a + b_i)(a + b_j + m_j).
    """

    def __init__(self, cells: int, records: int, rows: int, epsilon: float) -> None:
        self.cells, self.records, self.rows, self.epsilon = cells, records, rows, epsilon
        self.inputs: Integers = tables_of(records, cells)
        self.outputs: Integers = tables_of(rows, cells)
        self.pairs = neighbours(self.inputs, Unit(kind="replace"))

    def log_law(self, prior: float) -> Floats:
        mechanism = DirichletMultinomial(prior=prior, cells=self.cells, rows=self.rows)
        return mechanism.log_pmf(self.outputs[None, :, :], self.inputs[:, None, :])

    def sets(self, prior: float) -> Flags:
        """The disclosure sets at a prior, one row for each table."""
        return disclosure_sets(self.log_law(prior), self.inputs, self.pairs, self.epsilon)

    def largest(self, prior: float, sets: Flags) -> float:
        """The largest probability of given sets over all tables."""
        return float((np.exp(self.log_law(prior)) * sets).sum(axis=1).max())

    def jumps(self) -> set[float]:
        """Every positive prior at which some disclosure set can change."""
        counts = np.arange(self.records)
        drawn = np.arange(self.rows + 1)
        b_i, m_i, b_j, m_j = (grid.ravel().astype(float) for grid in np.meshgrid(counts, drawn, counts, drawn))
        kept = (b_i + b_j <= self.records - 1) & (m_i + m_j <= self.rows) & (m_i > 0)
        b_i, m_i, b_j, m_j = b_i[kept], m_i[kept], b_j[kept], m_j[kept]
        growth = math.exp(self.epsilon)
        # (1 - g) a^2 + (b_i + m_i + b_j - g (b_i + b_j + m_j)) a + (b_i + m_i) b_j - g b_i (b_j + m_j) = 0
        square = np.full(len(b_i), 1 - growth)
        linear = b_i + m_i + b_j - growth * (b_i + b_j + m_j)
        constant = (b_i + m_i) * b_j - growth * b_i * (b_j + m_j)
        inside = linear**2 - 4 * square * constant
        root = np.sqrt(np.maximum(inside, 0))
        both = np.concatenate([(-linear + root)[inside >= 0], (-linear - root)[inside >= 0]])
        divided = both / (2 * np.concatenate([square[inside >= 0]] * 2))
        return {float(value) for value in divided if value > 0}


def exact_breach_prior(
    epsilon: float, promise: float, cells: int, records: int, rows: int, *, bound: bool = False
) -> tuple[float, bool]:
    """The smallest prior such that it and every larger one have breach probability at most ``promise``.

    Between two jumps the disclosure sets are fixed. There, for every table, P_a(m) is a product of rising factorials
    of the prior, which grow with it, over one of the total, so on [low, high]

        P_a(set) <= P_high(set) * prod_{r < rows} (k high + n + r) / (k low + n + r).

    An interval is certified when that is at most the promise, and halved when it is not. Returns the prior and whether
    it is exact: with too many tables to list, or with ``bound``, the union bound is certified instead.
    """
    if records * rows > MOST_JUMPS:
        raise UnsupportedError(
            f"{records:,} records and {rows:,} rows make too many jumps to check one by one (their product is limited "
            f"to {MOST_JUMPS:,}). Use ApproxDP, which is exact at any size, or rule='theorem'."
        )
    exact = not bound and (exact_is_feasible(cells, records, rows) or is_small(cells, records, rows))
    small = SmallBreach(cells, records, rows, epsilon) if exact and not cells > rows else None
    jumps = small.jumps() if small else _threshold_jumps(epsilon, records, rows)
    allowed = promise * (1 - SAFETY)
    high = pure_prior(epsilon, rows)  # from here on there is no breach at all
    for jump in [*sorted((value for value in jumps if SMALLEST < value < high), reverse=True), SMALLEST]:
        inside = math.sqrt(jump * high)
        if small:
            value: Callable[[float], float] = partial(small.largest, sets=small.sets(inside))
        else:
            safe = thresholds(inside, records, rows, epsilon)
            of = breach_exact if exact else breach_union_bound
            value = partial(of, cells=cells, records=records, rows=rows, safe=safe)
        failing = _last_failing(value, jump, high, allowed=allowed, cells=cells, records=records, rows=rows)
        if failing is not None:
            return failing, exact
        high = jump
    return high, exact


def _threshold_jumps(epsilon: float, records: int, rows: int) -> set[float]:
    """Priors at which a threshold (e^epsilon - 1)(a + count) passes a whole number up to ``rows``."""
    growth = math.expm1(epsilon)
    return {
        drawn / growth - count for drawn in range(1, rows + 1) for count in range(records) if drawn / growth > count
    }


def _last_failing(
    value: Callable[[float], float],
    low: float,
    high: float,
    *,
    allowed: float,
    cells: int,
    records: int,
    rows: int,
) -> float | None:
    """The infimum of the priors above which [., high] is certified, or None if all of [low, high] is."""
    if low >= high:
        return None
    steps = np.arange(rows)

    def certified(left: float, right: float, at_right: float) -> bool:
        growth = np.log((cells * right + records + steps) / (cells * left + records + steps)).sum()
        return at_right * math.exp(growth) <= allowed

    right, at_right, width = high, value(high), (high - low)
    while right > low:
        left = max(low, right - width)
        if certified(left, right, at_right):
            right, at_right, width = left, value(left), width * 4
            continue
        width = (right - left) / 4
        if width < FINEST * right:
            return right
    return None


def _bisect(holds: Callable[[float], bool], low: float, high: float) -> float:
    """``holds`` fails at low and is true at high: the end of the true side, to a relative width of ``CLOSE``."""
    while high - low > CLOSE * high:
        middle = (low + high) / 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def _epsilon(budget: PureDP | ApproxDP | ProbabilisticDP) -> float:
    """Epsilon as a float, no larger than what its exponential can show: a prior for a smaller one protects more."""
    return min(float_down(budget.epsilon), LARGEST_EXPONENT)


RULES = ("exact", "theorem", "union")


def calibrated_prior(
    budget: Definition, *, records: int, rows: int, cells: int, unit: Unit, rule: str = "exact"
) -> tuple[Fraction, str]:
    """The smallest symmetric prior that keeps a promise, rounded up, and what it rests on."""
    if rule not in RULES:
        raise InputError(f"rule ({rule!r}) must be one of {', '.join(RULES)}.")
    if unit.rows_per_unit != 1:
        raise UnsupportedError("a Dirichlet draw is calibrated for one row per unit.")
    if isinstance(budget, PureDP):
        if rule == "union":
            raise InputError("rule 'union' bounds a breach probability; pure differential privacy has none.")
        prior = pure_prior(_epsilon(budget), rows) * (1 + 2.0**-50)
        return _rounded(prior), "Theorem 4.1, which is exact"
    if not isinstance(budget, ApproxDP | ProbabilisticDP):
        raise UnsupportedError(f"a Dirichlet draw cannot be calibrated to {budget.title}; use pure or approx.")
    if unit.kind != "replace":
        raise UnsupportedError(
            "under add_remove it is not proved that a larger prior protects better; calibrate to PureDP, whose prior "
            "holds for any size, or use replace."
        )
    epsilon, promise = _epsilon(budget), float_down(budget.delta)
    if cells == 1:
        return _rounded(SMALLEST), "one cell: the output is known beforehand"
    if rule == "theorem":
        if rows != records:
            raise UnsupportedError(f"Theorem 4.4 is stated for rows = records; they are {rows} and {records}.")
        return _rounded(theorem_prior(epsilon, promise, cells, records)), "Theorem 4.4"
    if isinstance(budget, ApproxDP):
        if rule == "union":
            raise InputError("rule 'union' bounds the breach probability of Definition 6; ask for ProbabilisticDP.")
        bounded = bounds_two_cells(cells, records, rows)
        how = "upper bound on delta (two cells, many rows)" if bounded else "exact delta"
        return _rounded(exact_approx_prior(epsilon, promise, cells, records, rows)), f"{how}, by bisection"
    prior, exact = exact_breach_prior(epsilon, promise, cells, records, rows, bound=rule == "union")
    what = "exact breach probability" if exact else "upper bound (union) on the breach probability"
    return _rounded(prior), f"{what}, every jump checked"


def _rounded(prior: float) -> Fraction:
    return Fraction(show_up(Fraction(prior), DIGITS))
