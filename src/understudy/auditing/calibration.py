"""The least noise that keeps a promise: `calibrate(mechanism, budget, ...)`, and what a theorem would ask for.

Noise on several margins is calibrated by their exact composed loss. Every margin of a table moves in one cell when a
row comes or goes and in two when it changes. Their losses are independent, so the exact delta(epsilon) of all margins
is that of a sum (``composed_loss``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from understudy.auditing.composed_loss import compose_losses
from understudy.auditing.noise_losses import Shift, noise_losses
from understudy.core.exact_numbers import float_down, sqrt_up
from understudy.core.schema import Schema
from understudy.errors import InputError, UnsupportedError
from understudy.privacy.exact.small_tables import check_size
from understudy.privacy.mechanisms.dirichlet_law import DirichletMultinomial
from understudy.privacy.mechanisms.noise import DiscreteGaussian, Geometric, NoiseMechanism
from understudy.privacy.promise.calibrate_dirichlet import RULES, calibrated_prior
from understudy.privacy.promise.conversion import cdp_rho
from understudy.privacy.promise.definition import ZCDP, ApproxDP, Definition, ProbabilisticDP, PureDP, Unit, read_unit
from understudy.privacy.promise.sensitivity import margin_sensitivity

if TYPE_CHECKING:
    import pyarrow

Rule = Literal["exact", "theorem", "union"]
CLOSE = 1e-6  # relative width at which the search for a noise scale stops
Calibrated = DirichletMultinomial | Geometric | DiscreteGaussian


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A mechanism with the least noise for a promise."""

    mechanism: Calibrated
    """The mechanism."""
    budget: Definition
    """The promise that it keeps."""
    unit: Unit
    """Who is protected."""
    rule: str
    """How it was calibrated."""
    basis: str
    """What the promise rests on, in words."""

    @property
    def prior(self) -> float:
        """The prior strength of each cell, in records.

        Raises
        ------
        UnsupportedError
            If the mechanism has a scale and no prior.
        """
        if not isinstance(self.mechanism, DirichletMultinomial):
            raise UnsupportedError(f"{self.mechanism.name} has a scale and no prior.")
        return float(self.mechanism.prior[0])

    @property
    def scale(self) -> float:
        """The noise scale.

        Raises
        ------
        UnsupportedError
            If the mechanism has a prior and no scale.
        """
        if isinstance(self.mechanism, DirichletMultinomial):
            raise UnsupportedError("a Dirichlet draw has a prior and no scale.")
        return float(self.mechanism.scale)

    def __float__(self) -> float:
        return self.prior if isinstance(self.mechanism, DirichletMultinomial) else self.scale


def calibrate(
    mechanism: type[Calibrated],
    budget: Definition,
    *,
    records: int | None = None,
    rows: int | None = None,
    cells: int | None = None,
    unit: Unit | str = "replace",
    rule: Rule = "exact",
    margins: int | Sequence[Sequence[str]] = 1,
    schema: Schema | None = None,
) -> Calibration:
    """Find the least noise with which a mechanism keeps a promise. No data are used.

    ``DirichletMultinomial`` needs ``records``, ``rows`` and ``cells``. Its prior is the smallest symmetric one under
    ``PureDP`` (Theorem 4.1), ``ApproxDP`` (exact) or ``ProbabilisticDP`` (exact). ``Geometric`` and
    ``DiscreteGaussian`` need ``margins``.

    Parameters
    ----------
    mechanism
        The class: ``DirichletMultinomial``, ``Geometric`` or ``DiscreteGaussian``.
    budget
        The promise.
    records
        The public number of rows.
    rows
        The number of synthetic rows.
    cells
        The number of cells of the table.
    unit
        Who is protected.
    rule
        ``exact``; ``union`` for the union bound under ``ProbabilisticDP``; ``theorem`` for what Theorem 4.4 asks for.
    margins
        A number of tables that each count every row once, or names of margins with their ``schema``.
    schema
        The schema of named margins.

    Returns
    -------
    Calibration
        The mechanism, and what the promise rests on.

    Raises
    ------
    InputError
        If an argument is missing, or does not go with the mechanism.

    Examples
    --------
    >>> budget = ApproxDP(epsilon=4.6, delta=1e-5)
    >>> round(calibrate(DirichletMultinomial, budget, records=15, rows=15, cells=233_726).prior, 5)
    0.01229
    """
    if not isinstance(budget, Definition):
        raise InputError("the budget must be a guarantee such as PureDP(epsilon=1).")
    if rule not in RULES:
        raise InputError(f"rule ({rule!r}) must be one of {', '.join(RULES)}.")
    who = read_unit(unit)
    if mechanism is DirichletMultinomial:
        given = {"records": records, "rows": rows, "cells": cells}
        missing = [name for name, value in given.items() if value is None]
        if missing:
            raise InputError(f"a Dirichlet draw is calibrated for a size; give {', '.join(missing)}.")
        if margins != 1 or schema is not None:
            raise InputError("margins and schema are for noise on counts; a Dirichlet draw is of one whole table.")
        sizes = {name: check_size(value, name) for name, value in given.items() if value is not None}
        prior, basis = calibrated_prior(budget, **sizes, unit=who, rule=rule)
        drawn = DirichletMultinomial(prior=prior, rows=sizes["rows"], cells=sizes["cells"])
        return Calibration(mechanism=drawn, budget=budget, unit=who, rule=rule, basis=basis)
    if mechanism not in (Geometric, DiscreteGaussian):
        raise InputError("mechanism must be DirichletMultinomial, Geometric or DiscreteGaussian (the class itself).")
    if rule != "exact" or (records, rows, cells) != (None, None, None):
        raise InputError(
            "noise on counts is calibrated exactly and for any size; leave records, rows, cells and rule out."
        )
    noise, basis = calibrated_noise(mechanism, budget, _moved(margins, schema, who))
    return Calibration(mechanism=noise, budget=budget, unit=who, rule=rule, basis=basis)


def _moved(margins: int | Sequence[Sequence[str]], schema: Schema | None, unit: Unit) -> list[int]:
    """How many cells one row moves in each margin that it can move at all."""
    if unit.rows_per_unit != 1:
        raise UnsupportedError("noise is calibrated exactly for one row per unit.")
    if isinstance(margins, int):
        if schema is not None:
            raise InputError("with a schema, name the margins, such as margins=[('age', 'sex')].")
        return [2 if unit.kind == "replace" else 1] * check_size(margins, "margins")
    if schema is None:
        raise InputError("margins by name need their schema.")
    sizes = [margin_sensitivity(schema, margin, unit).l1 for margin in margins]
    return [size for size in sizes if size > 0]


def prior_table(epsilon: float, delta: float, *, records: int, cells: int) -> pyarrow.Table:
    """Compare how much prior each rule asks for, with as many synthetic rows as records, under ``replace``.

    Parameters
    ----------
    epsilon
        The loss that is allowed.
    delta
        The probability of the approximate and probabilistic guarantees.
    records
        The number of records.
    cells
        The number of cells of the table.

    Returns
    -------
    pyarrow.Table
        An Arrow table with a row for each rule: the prior of a cell, ``prior_rows`` (the prior of the whole table: how
        many invented people are mixed with the real ones) and the share of what Theorem 4.1 asks for.

    Examples
    --------
    >>> prior_table(2, 1e-3, records=6, cells=50)["rule"].to_pylist()[0]
    'pure, Theorem 4.1'
    """
    import pyarrow as pa

    pure, approx = PureDP(epsilon=epsilon), ApproxDP(epsilon=epsilon, delta=delta)
    breach = ProbabilisticDP(epsilon=epsilon, delta=delta)
    asked: list[tuple[str, Definition, str]] = [
        ("pure, Theorem 4.1", pure, "exact"),
        ("probabilistic, Theorem 4.4", breach, "theorem"),
        ("probabilistic, union bound", breach, "union"),
        ("probabilistic, exact", breach, "exact"),
        ("approximate, exact", approx, "exact"),
    ]
    unit = Unit(kind="replace")
    found: list[Fraction] = []
    basis: list[str] = []
    for _, budget, rule in asked:
        prior, why = calibrated_prior(budget, records=records, rows=records, cells=cells, unit=unit, rule=rule)
        found.append(prior)
        basis.append(why)
    return pa.table(
        {
            "rule": [name for name, _, _ in asked],
            "prior": [float(prior) for prior in found],
            "prior_rows": [float(prior * cells) for prior in found],
            "share": [float(prior / found[0]) for prior in found],
            "basis": basis,
        }
    )


def composed_delta(noise: NoiseMechanism, moved: Sequence[int], epsilon: float) -> float:
    """An upper bound on delta(epsilon) of one query per entry of ``moved``, tight to the certified error."""
    parts = [(noise_losses(noise, Shift(moved=cells)), moved.count(cells)) for cells in sorted(set(moved))]
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0].delta(epsilon)
    return compose_losses(parts).bounds(epsilon).high


def calibrated_noise(
    kind: Callable[..., NoiseMechanism], budget: Definition, moved: Sequence[int]
) -> tuple[NoiseMechanism, str]:
    """The least noise of a kind for one query per entry of ``moved`` (cells that one row moves), and why it is enough.

    A larger scale of geometric noise is a smaller one plus independent noise (docs/theory/exact-audit.md), so the
    search by halving finds the smallest. For the discrete Gaussian that is not proved: the promise is checked at the
    scale returned, and a smaller one may exist.
    """
    if not moved:
        raise InputError("there is no margin to calibrate noise for.")
    if isinstance(budget, PureDP):
        if kind is not Geometric:
            raise UnsupportedError("Gaussian noise is never purely differentially private; use Geometric or a delta.")
        return Geometric(scale=sum(moved) / budget.epsilon), "the worst case of all margins adds up to epsilon, exactly"
    if isinstance(budget, ZCDP):
        if kind is DiscreteGaussian:
            scale = sqrt_up(Fraction(sum(moved)) / (2 * budget.rho))
            return DiscreteGaussian(scale=scale), "s^2/(2 sigma^2) per margin (Canonne, Kamath and Steinke 2020)"
        raise UnsupportedError("geometric noise is not calibrated to zCDP here; use DiscreteGaussian.")
    if not isinstance(budget, ApproxDP):
        raise UnsupportedError(f"noise cannot be calibrated to {budget.title}; use pure, approx or zcdp.")
    epsilon, promise = float_down(budget.epsilon), float_down(budget.delta)

    def holds(scale: float) -> bool:
        return composed_delta(kind(scale=scale), moved, epsilon) <= promise

    high = _safe_scale(kind, budget, moved)
    if not holds(high):
        high = _first_good(holds, high)
    low = high / 2
    while holds(low):
        low, high = low / 2, low
    while high - low > CLOSE * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    how = "exact composed delta" if kind is Geometric else "exact composed delta, checked at this scale"
    return kind(scale=high), how


def _safe_scale(kind: Callable[..., NoiseMechanism], budget: ApproxDP, moved: Sequence[int]) -> float:
    """A scale that is known to be enough, to start from."""
    if kind is Geometric:
        return float(sum(moved) / budget.epsilon)
    return math.sqrt(sum(moved) / (2 * float(cdp_rho(budget.epsilon, budget.delta))))


def _first_good(holds: Callable[[float], bool], scale: float) -> float:
    """The certified error can refuse a scale that is enough; a little more noise is then accepted."""
    for _ in range(60):
        scale *= 1.02
        if holds(scale):
            return scale
    raise UnsupportedError("the composed loss could not be certified for this budget; use fewer margins.")
