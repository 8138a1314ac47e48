"""What a mechanism really promises, computed exactly: `audit(mechanism, records=..., unit=...)`.

It takes a mechanism, never data. Small spaces are listed whole; Dirichlet-multinomial draws and independent noise are
audited by structure at any size. See docs/theory/exact-audit.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from understudy.auditing import dirichlet_audit
from understudy.auditing.calibration import Calibration
from understudy.auditing.composed_loss import ComposedLoss, DeltaBounds, LossDistribution, compose_losses
from understudy.auditing.dirichlet_audit import breach
from understudy.auditing.listed_space import (
    NOISES,
    Auditable,
    Noised,
    RowMeasures,
    Setting,
    Space,
    Table,
    Witness,
    build_space,
    hockey_stick,
    listed_losses,
    read_setting,
    row_measures,
    worst_witness,
)
from understudy.auditing.noise_losses import Noise, Shift, noise_epsilon, noise_losses
from understudy.auditing.transition_laws import Pram
from understudy.auditing.transition_matrix import Matrix
from understudy.core.arrays import Floats, Integers
from understudy.errors import InputError, UnsupportedError
from understudy.privacy.exact import dirichlet_profile
from understudy.privacy.exact.dirichlet_breach import Probability
from understudy.privacy.exact.small_tables import check_size, disclosure_sets, exceeds, signed_odds
from understudy.privacy.mechanisms.dirichlet_law import DirichletMultinomial, PosteriorMeanMultinomial
from understudy.privacy.promise.definition import Unit, read_unit

if TYPE_CHECKING:
    import pyarrow

    from understudy.figures.drawing import Drawing

CURVE_POINTS = 61
# The prior over tables, for an average over tables or the odds of an attacker.
Prior = Literal["multinomial", "uniform"] | ArrayLike
Convention = Literal["definition_6", "abowd_vilhuber", "prior_averaged"]
CONVENTIONS: tuple[str, ...] = ("definition_6", "abowd_vilhuber", "prior_averaged")
MOST_COMPOSED_PAIRS = 2_000


class Audit:
    """The exact privacy of one mechanism. Attributes are computed when asked for.

    ``inputs``, ``outputs``, ``matrix`` and ``log_odds`` exist for small spaces; ``epsilon``, ``delta(epsilon)`` and
    ``witness`` also at any size for Dirichlet-multinomial draws and independent noise. With ``copies`` = M the promise
    is that of M independent draws together.

    Parameters
    ----------
    mechanism
        What is audited.
    setting
        The size of the tables, the unit and how noise is cut.
    copies
        The number of independent draws that are released together.
    """

    def __init__(self, mechanism: Auditable, setting: Setting, copies: int) -> None:
        self.mechanism = mechanism
        self.setting = setting
        self.copies = copies

    @property
    def unit(self) -> Unit:
        """Who is protected."""
        return self.setting.unit

    @property
    def records(self) -> int:
        """The number of rows of a table."""
        return self.setting.records

    @property
    def cells(self) -> int:
        """The number of cells of a table."""
        return self.setting.cells

    def __repr__(self) -> str:
        return f"Audit({self.mechanism!s}, records={self.records}, unit={self.unit.kind!r}, copies={self.copies})"

    # The listed space.

    @cached_property
    def _space(self) -> Space:
        return build_space(self.mechanism, self.setting)

    @property
    def inputs(self) -> list[Table]:
        """Every table, in lexicographic order."""
        return [tuple(table) for table in self._space.inputs.tolist()]

    @property
    def outputs(self) -> list[Table]:
        """Every output, in lexicographic order."""
        return [tuple(table) for table in self._space.outputs.tolist()]

    @property
    def matrix(self) -> Floats:
        """P(output | input), inputs by outputs."""
        return np.exp(self._space.log_law)

    @property
    def neighbours(self) -> list[tuple[Table, Table]]:
        """The pairs of neighbouring inputs, in the order of the rows of ``log_odds``."""
        inputs = self.inputs
        return [(inputs[one], inputs[other]) for one, other in self._space.pairs.tolist()]

    @property
    def log_odds(self) -> Floats:
        """|ln P(m|n1) / P(m|n2)|, neighbouring pairs by outputs; 0 where neither can give m, infinite where one can."""
        return np.abs(signed_odds(self._space.log_law, self._space.pairs))

    # The worst case.

    @cached_property
    def epsilon(self) -> float:
        """The largest log odds of any output between any neighbours: pure differential privacy holds with this."""
        if isinstance(self.mechanism, DirichletMultinomial):
            return self.copies * dirichlet_audit.epsilon(self._shape, self.records, self.unit)
        if self._by_shift:
            return self.copies * noise_epsilon(self._noise, self._shift)
        return self.copies * float(self.log_odds.max(initial=0.0))

    @property
    def epsilon_any_size(self) -> float:
        """The supremum of epsilon over tables of every size (docs/theory/exact-audit.md).

        Raises
        ------
        UnsupportedError
            If no supremum is proved for the mechanism.
        """
        mechanism = self.mechanism
        if isinstance(mechanism, DirichletMultinomial):
            return self.copies * mechanism.epsilon
        if isinstance(mechanism, PosteriorMeanMultinomial):
            worst = mechanism.rows * math.log1p(1 / mechanism.smallest) if mechanism.cells > 1 else 0.0
            return self.copies * worst
        if isinstance(mechanism, NOISES):
            # Clamping to public bounds is post-processing; it reaches the worst case as soon as there are two rows.
            return self.copies * noise_epsilon(mechanism, self._shift)
        if isinstance(mechanism, Pram) and self.unit.kind == "replace":
            with np.errstate(divide="ignore"):
                logs = np.log(mechanism.matrix)
            spread = np.where(np.isneginf(logs.max(axis=0)), 0.0, logs.max(axis=0) - logs.min(axis=0))
            return self.copies * float(spread.max())
        if math.isinf(self.epsilon):
            return math.inf
        raise UnsupportedError(
            f"no supremum over all sizes is proved for {mechanism.name}; epsilon is for these records."
        )

    @cached_property
    def witness(self) -> Witness:
        """Two neighbouring tables and an output with the largest log odds (of one copy).

        Raises
        ------
        UnsupportedError
            If there are no two neighbouring tables.
        """
        if isinstance(self.mechanism, DirichletMultinomial) and self.cells > 1:
            return dirichlet_audit.witness(self.mechanism, self.records, self.unit)
        if self._by_shift:
            return self._noise_witness()
        found = worst_witness(self._space.log_law, self._space.inputs, self._space.outputs, self._space.pairs)
        if found is None:
            raise UnsupportedError("there are no two neighbouring tables: nothing can be told apart.")
        return found

    def _noise_witness(self) -> Witness:
        loss = noise_epsilon(self._noise, self._shift)
        others = (0,) * (self.cells - 2)
        if self.unit.kind == "add_remove":
            rest = (0,) * (self.cells - 1)
            likely, unlikely, output = (1, *rest), (0, *rest), (2, *rest)
        else:
            likely, unlikely = (1, self.records - 1, *others), (0, self.records, *others)
            output = (2, self.records - 2, *others)  # beyond the truth on both sides
        if math.isinf(loss):
            raise UnsupportedError("the loss of Gaussian noise grows without bound: no single output is the worst.")
        return Witness(likely=likely, unlikely=unlikely, output=output, loss=loss)

    # delta(epsilon).

    def delta(self, epsilon: float) -> float:
        """Compute delta at an epsilon: the exact hockey-stick divergence; for several copies the upper end of
        ``delta_bounds``.

        Parameters
        ----------
        epsilon
            The loss, a number of at least 0.

        Returns
        -------
        float
            The smallest delta for which (epsilon, delta)-differential privacy holds.
        """
        _check_epsilon(epsilon)
        if self.copies > 1:
            return self.delta_bounds(epsilon).high
        if isinstance(self.mechanism, DirichletMultinomial):
            return dirichlet_profile.delta(self._shape, self.records, self.unit, epsilon)
        if self._by_shift:
            return noise_losses(self._noise, self._shift).delta(epsilon)
        return float(hockey_stick(self._space.log_law, self._space.pairs, epsilon).max(initial=0.0))

    def delta_bounds(self, epsilon: float, step: float | None = None) -> DeltaBounds:
        """Compute delta at an epsilon between two bounds; their difference is the certified error.

        Parameters
        ----------
        epsilon
            The loss, a number of at least 0.
        step
            The width of the grid of losses, for several copies; chosen by the program if left out.

        Returns
        -------
        DeltaBounds
            The lower and the upper bound.
        """
        _check_epsilon(epsilon)
        if self.copies == 1:
            value = self.delta(epsilon)
            return DeltaBounds(low=value, high=value)
        found = [composed.bounds(epsilon) for composed in self._composed(step)]
        return DeltaBounds(low=max(bounds.low for bounds in found), high=max(bounds.high for bounds in found))

    def _composed(self, step: float | None) -> Sequence[ComposedLoss]:
        return [compose_losses([(losses, self.copies)], step=step) for losses in self._pair_losses()]

    def _pair_losses(self) -> list[LossDistribution]:
        """The loss distributions of which one is the worst, in both directions."""
        if isinstance(self.mechanism, DirichletMultinomial) and self.unit.kind == "replace":
            found = dirichlet_audit.loss_distributions(self._shape, self.records)
        elif self._by_shift:
            found = [noise_losses(self._noise, self._shift)]
        else:
            found = listed_losses(self._space)
        if len(found) > MOST_COMPOSED_PAIRS:
            raise UnsupportedError(
                f"{len(found):,} pairs are too many to compose (limit {MOST_COMPOSED_PAIRS:,}); use fewer records."
            )
        return found

    # Breach probabilities.

    def breach_probability(
        self, epsilon: float, convention: Convention = "definition_6", prior: Prior | None = None
    ) -> Probability:
        """Compute the probability of an output that discloses a row by more than e^epsilon, by a named convention.

        ``definition_6`` (Machanavajjhala et al. 2008): the largest P(m in Disc(n, epsilon)) over tables n; the set is a
        union over all neighbours. ``abowd_vilhuber``: the sum over neighbouring pairs and outputs with log odds above
        epsilon of P(n) P(m|n) for the less likely n of the two. ``prior_averaged``: P(m in Disc(n, epsilon)) averaged
        over n.

        Parameters
        ----------
        epsilon
            The loss, a number of at least 0.
        convention
            ``definition_6``, ``abowd_vilhuber`` or ``prior_averaged``.
        prior
            A distribution of tables, for the last two: ``multinomial`` (rows fall into all cells alike, Abowd and
            Vilhuber's choice), ``uniform`` over tables, or one probability for each of ``inputs``.

        Returns
        -------
        Probability
            The probability, and where it is attained.

        Raises
        ------
        InputError
            If the convention is unknown, or a prior is given where there is none.
        UnsupportedError
            If several copies are audited.
        """
        _check_epsilon(epsilon)
        if convention not in CONVENTIONS:
            raise InputError(f"convention ({convention!r}) must be one of {', '.join(CONVENTIONS)}.")
        if self.copies > 1:
            raise UnsupportedError("breach probabilities are of a single draw; audit one copy, or use delta(epsilon).")
        if convention == "definition_6":
            if prior is not None:
                raise InputError("Definition 6 is a worst case over tables and takes no prior.")
            return self._definition_6(epsilon)
        space = self._space
        weights = np.exp(
            space.log_law + log_prior(space.inputs, prior, required=convention == "prior_averaged")[:, None]
        )
        if convention == "prior_averaged":
            sets = disclosure_sets(space.log_law, space.inputs, space.pairs, epsilon)
            return Probability(math.fsum(weights[sets]), exact=True)
        odds = signed_odds(space.log_law, space.pairs)
        less = np.where(odds < 0, weights[space.pairs[:, 0]], weights[space.pairs[:, 1]])
        return Probability(math.fsum(less[exceeds(odds, epsilon)]), exact=True)

    def _definition_6(self, epsilon: float) -> Probability:
        mechanism = self.mechanism
        try:
            space = self._space
        except UnsupportedError:
            if isinstance(mechanism, DirichletMultinomial) and mechanism.symmetric and self.unit.kind == "replace":
                return breach(mechanism.smallest, mechanism.cells, self.records, mechanism.rows, epsilon)
            raise
        sets = disclosure_sets(space.log_law, space.inputs, space.pairs, epsilon)
        return Probability(float((np.exp(space.log_law) * sets).sum(axis=1).max()), exact=True)

    # What an attacker gains.

    def posterior_odds(self, prior: Prior = "multinomial") -> Floats:
        """Compute P(n1|m) / P(n2|m) for each neighbouring pair and output (Abowd and Vilhuber, eq. 4).

        Divided by the prior odds this is the likelihood ratio, whatever the prior.

        Parameters
        ----------
        prior
            The distribution of tables, as in ``breach_probability``.

        Returns
        -------
        Floats
            Neighbouring pairs by outputs.
        """
        logs = log_prior(self._space.inputs, prior)
        pairs = self._space.pairs
        odds = signed_odds(self._space.log_law, pairs)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(np.exp(odds + (logs[pairs[:, 0]] - logs[pairs[:, 1]])[:, None]))

    @property
    def amplification(self) -> float:
        """gamma: the largest likelihood ratio between neighbours (Evfimievski, Gehrke and Srikant 2003)."""
        return math.exp(self.epsilon) if self.epsilon < 700 else math.inf

    def worst_posterior(self, rho1: float) -> float:
        """Compute the largest belief in a property of one row, for an attacker who knows all other rows.

        Parameters
        ----------
        rho1
            The attacker's belief before the release.

        Returns
        -------
        float
            The belief after it.
        """
        _check_open("rho1", rho1)
        gamma = self.amplification
        return 1.0 if math.isinf(gamma) else rho1 * gamma / (1 - rho1 + rho1 * gamma)

    def rho_breach(self, rho1: float, rho2: float) -> bool:
        """Say whether a small belief can become a large one: a (rho1, rho2)-breach.

        Parameters
        ----------
        rho1
            The belief before the release.
        rho2
            The belief after it.

        Returns
        -------
        bool
            Whether a belief of at most rho1 can become one of at least rho2.
        """
        _check_open("rho2", rho2)
        return self.worst_posterior(rho1) >= rho2 * (1 - 1e-12)

    @property
    def row_measures(self) -> RowMeasures:
        """What happens to the truth in the rows of the matrix; says nothing about what an attacker learns."""
        return row_measures(self._space)

    def profile(self, epsilons: Sequence[float] | None = None) -> pyarrow.Table:
        """Compute the privacy profile: the exact delta at each epsilon.

        Parameters
        ----------
        epsilons
            The losses; a grid up to the largest if left out.

        Returns
        -------
        pyarrow.Table
            An Arrow table with the columns epsilon and delta.
        """
        import pyarrow as pa

        if epsilons is None:
            top = self.epsilon if math.isfinite(self.epsilon) else 10.0
            epsilons = np.linspace(0, max(top, 0.1), 41).tolist()
        return pa.table({"epsilon": list(map(float, epsilons)), "delta": [self.delta(float(e)) for e in epsilons]})

    def heat_map(self, epsilon: float | None = None) -> Drawing:
        """Draw the log odds of every pair of neighbours and every output.

        Parameters
        ----------
        epsilon
            Log odds above it are framed.

        Returns
        -------
        Drawing
            The figure, with the table it shows.
        """
        from understudy.figures.promise import log_odds_map

        return log_odds_map(self.neighbours, self.outputs, self.log_odds, epsilon=epsilon)

    def curve(self) -> Drawing:
        """Draw the exact delta against epsilon.

        Returns
        -------
        Drawing
            The figure, with the table it shows.
        """
        from understudy.figures.promise import privacy_curve

        top = self.epsilon if math.isfinite(self.epsilon) else 10.0
        points = [max(top, 0.1) * step / (CURVE_POINTS - 1) for step in range(CURVE_POINTS)]
        return privacy_curve(self.profile(points), title=str(self.mechanism))

    # Structure.

    @property
    def _by_shift(self) -> bool:
        return isinstance(self.mechanism, NOISES) and not self.setting.clamped

    @property
    def _noise(self) -> Noise:
        if not isinstance(self.mechanism, NOISES):
            raise UnsupportedError(f"{self.mechanism.name} is not noise that is independent by cell.")
        return self.mechanism

    @property
    def _shift(self) -> Shift:
        two = self.unit.kind == "replace" and self.setting.noised == "all" and self.cells > 1
        return Shift(moved=2 if two else 1)

    @property
    def _shape(self) -> dirichlet_profile.PriorShape:
        if not isinstance(self.mechanism, DirichletMultinomial):
            raise UnsupportedError(f"{self.mechanism.name} has no Dirichlet prior.")
        return dirichlet_profile.PriorShape.of(self.mechanism)


def audit(
    mechanism: Auditable | Calibration,
    *,
    records: int,
    unit: Unit | str = "replace",
    cells: int | None = None,
    copies: int = 1,
    clamped: bool | None = None,
    noised: Noised | None = None,
) -> Audit:
    """Compute exactly what a mechanism promises to one row, over all tables of a size. No data are used.

    Noise on counts that is ``clamped`` with two cells and a public total is what Abowd and Vilhuber show in Fig. 3;
    ``RoundedLaplace`` is clamped there by default.

    Parameters
    ----------
    mechanism
        What is audited: a mechanism, or the result of ``calibrate``.
    records
        The number of rows. Under ``add_remove`` tables have 0 to ``records`` rows.
    unit
        Who is protected.
    cells
        The number of cells, where the mechanism does not say it; 2 by default.
    copies
        The number of independent draws that are released together.
    clamped
        Whether noisy counts are cut to 0, ..., records.
    noised
        ``all`` cells, or the ``first`` of two with a public total; the second is then the rest.

    Returns
    -------
    Audit
        The exact privacy; its attributes are computed when they are asked for.

    Raises
    ------
    InputError
        If an argument is not what it should be.
    UnsupportedError
        If the audit is not made for this mechanism or unit.

    Examples
    --------
    >>> from understudy.privacy.mechanisms.dirichlet_law import DirichletMultinomial
    >>> result = audit(DirichletMultinomial(prior=(0.5, 0.5), rows=5), records=5)
    >>> round(result.epsilon, 6), round(result.delta(2), 6)
    (2.397895, 0.003526)
    """
    if isinstance(mechanism, Calibration):
        mechanism = mechanism.mechanism
    if not isinstance(mechanism, Auditable):
        raise InputError(
            f"mechanism ({type(mechanism).__name__}) has no law that can be audited exactly; use a mechanism such as "
            "DirichletMultinomial, Geometric or Matrix, or the sampled audit for anything that can be run."
        )
    who = read_unit(unit)
    if who.rows_per_unit != 1:
        raise UnsupportedError(
            f"an exact audit moves one row at a time; rows_per_unit is {who.rows_per_unit}. Audit one row and multiply "
            "epsilon (pure differential privacy of a group)."
        )
    setting = read_setting(mechanism, records=records, cells=cells, unit=who, clamped=clamped, noised=noised)
    result = Audit(mechanism, setting, check_size(copies, "copies"))
    if isinstance(mechanism, Matrix):
        result._space  # noqa: B018 - a matrix of the wrong shape is refused here and not at first use
    return result


def _check_epsilon(epsilon: float) -> None:
    if not epsilon >= 0 or math.isinf(epsilon):
        raise InputError(f"epsilon ({epsilon}) must be a finite number of at least 0.")


def _check_open(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise InputError(f"{name} ({value}) must be above 0 and below 1.")


def log_prior(inputs: Integers, prior: Prior | None, *, required: bool = False) -> Floats:
    """Log probability of each input: ``multinomial`` over equal cells unless another prior is given.

    ``required`` refuses the default: an average whose prior nobody chose says nothing.
    """
    if prior is None and required:
        raise InputError("an average over tables needs a prior: 'multinomial', 'uniform', or one number per input.")
    if prior is None or (isinstance(prior, str) and prior == "multinomial"):
        cells = inputs.shape[1]
        return _log_multinomial(inputs, np.full(cells, 1 / cells))
    if isinstance(prior, str):
        if prior != "uniform":
            raise InputError(f"prior ({prior!r}) must be 'multinomial', 'uniform', or one number per input.")
        return np.full(len(inputs), -math.log(len(inputs)))
    try:
        given = np.asarray(prior, dtype=float)
    except (TypeError, ValueError):
        raise InputError("prior must be 'multinomial', 'uniform', or one number per input.") from None
    if given.shape != (len(inputs),):
        raise InputError(f"prior must hold one probability for each of the {len(inputs)} inputs.")
    if not np.isfinite(given).all() or (given < 0).any() or abs(given.sum() - 1) > 1e-9:
        raise InputError("prior must hold probabilities that add up to 1.")
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(given))


def _log_multinomial(inputs: Integers, shares: Floats) -> Floats:
    """Log prior over tables: each row falls into cell i with probability shares[i]; sizes are equally likely."""
    from scipy.special import gammaln

    totals = inputs.sum(axis=1)
    law = gammaln(totals + 1) - gammaln(inputs + 1).sum(axis=1) + (inputs * np.log(shares)).sum(axis=1)
    return np.asarray(law - math.log(len(np.unique(totals))))
