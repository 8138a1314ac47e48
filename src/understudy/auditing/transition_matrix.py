"""Any transition matrix, for the audit, with a constructor by name for each protection that agencies use.

The laws themselves are in ``transition_laws``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy.auditing.bounded_noise import ExponentialCounts, TrimmedGaussian
from understudy.auditing.transition_laws import (
    AuditOnly,
    Coarsening,
    Law,
    MultiplicativeNoise,
    Pram,
    Shuffling,
    SubsamplePlusBinomial,
    Suppression,
    Swapping,
    Table,
    TopCoding,
    check_rate,
    check_stochastic,
)
from understudy.core.exact_numbers import Number, read_exact
from understudy.errors import InputError, UnsupportedError


@dataclass(frozen=True, slots=True, eq=False)
class Matrix(AuditOnly):
    """Any transition matrix: row i is the law of the output given input i, in lexicographic order of the tables.

    Raises
    ------
    InputError
        If a row does not add up to 1, or ``outputs`` does not name each column once.

    Examples
    --------
    >>> Matrix([[0.75, 0.25], [0.25, 0.75]]).P.shape
    (2, 2)
    """

    P: NDArray[np.float64]
    """The probabilities; each row adds up to 1."""
    outputs: tuple[Table, ...] | None = None
    """The tables that the columns stand for; by default the same as the inputs."""
    name: ClassVar[str] = "matrix"

    def __init__(self, P: ArrayLike, outputs: Sequence[Sequence[int]] | None = None) -> None:  # noqa: N803
        object.__setattr__(self, "P", check_stochastic(P, "P"))
        names = None if outputs is None else tuple(tuple(int(x) for x in table) for table in outputs)
        if names is not None and (len(names) != self.P.shape[1] or len(set(names)) != len(names)):
            raise InputError(f"P has {self.P.shape[1]} columns; outputs must name each of them once.")
        object.__setattr__(self, "outputs", names)

    def law(self, table: Table) -> Law:
        """Refuse: the law is ``P`` itself, and its rows are the audit's inputs.

        Parameters
        ----------
        table
            Not used.

        Returns
        -------
        Law
            Nothing; it always raises.

        Raises
        ------
        UnsupportedError
            Always.
        """
        del table
        raise UnsupportedError("a matrix has its law in P; its rows are the audit's inputs.")

    def to_json(self) -> dict[str, object]:
        """The mechanism as plain values.

        Returns
        -------
        dict[str, object]
            Its name and its matrix.
        """
        return {"mechanism": self.name, "P": self.P.tolist()}

    @staticmethod
    def swapping(rate: float, shape: tuple[int, int] = (2, 2)) -> Swapping:
        """Random swapping: each record is chosen with probability ``rate``; the chosen exchange their column values at
        random.

        Parameters
        ----------
        rate
            The probability with which a record is chosen.
        shape
            Rows and columns of the two-way table.

        Returns
        -------
        Swapping
            The law, for ``us.audit``.
        """
        return Swapping(rate=rate, shape=shape)

    @staticmethod
    def shuffling(shape: tuple[int, int] = (2, 2), prior: float = 0.0) -> Shuffling:
        """Data shuffling: each record draws a value from its own row; original values follow the order of the draws.

        Parameters
        ----------
        shape
            Rows and columns of the two-way table; the columns are the confidential values, in order.
        prior
            Records added to each cell of a row before its shares are taken.

        Returns
        -------
        Shuffling
            The law, for ``us.audit``.
        """
        return Shuffling(shape=shape, prior=prior)

    @staticmethod
    def top_coding(top: int) -> TopCoding:
        """Top coding: records above a highest value are counted there.

        Parameters
        ----------
        top
            The number of the highest cell that is published, from 0.

        Returns
        -------
        TopCoding
            The law, for ``us.audit``.
        """
        return TopCoding(top=top)

    @staticmethod
    def multiplicative_noise(
        factors: Mapping[Number, float] | Sequence[Mapping[Number, float]],
    ) -> MultiplicativeNoise:
        """Multiplicative noise infusion: each cell is multiplied by a random factor and rounded.

        Parameters
        ----------
        factors
            The public distribution of the factor: each factor with its probability. Or several such distributions,
            of which the true one is secret: for the intruder all of them are equally likely.

        Returns
        -------
        MultiplicativeNoise
            The law, for ``us.audit``.
        """
        several = [factors] if isinstance(factors, Mapping) else list(factors)
        return MultiplicativeNoise(
            distributions=tuple(
                tuple((read_exact(factor, "factor"), float(chance)) for factor, chance in one.items())
                for one in several
            )
        )

    @staticmethod
    def suppression(threshold: int) -> Suppression:
        """Primary suppression: counts from 1 to threshold - 1 are not published.

        Parameters
        ----------
        threshold
            The smallest count above zero that is published.

        Returns
        -------
        Suppression
            The law, for ``us.audit``.
        """
        return Suppression(threshold=threshold)

    @staticmethod
    def coarsening(partition: Sequence[Sequence[int]]) -> Coarsening:
        """Coarsening: cells of one group are published as one.

        Parameters
        ----------
        partition
            The groups; every cell number from 0 up is in exactly one.

        Returns
        -------
        Coarsening
            The law, for ``us.audit``.
        """
        return Coarsening(partition=tuple(tuple(group) for group in partition))

    @staticmethod
    def sampling(rate: float) -> SubsamplePlusBinomial:
        """Sampling: each record is kept with probability ``rate``.

        Parameters
        ----------
        rate
            The sampling fraction.

        Returns
        -------
        SubsamplePlusBinomial
            The law, for ``us.audit``.
        """
        return SubsamplePlusBinomial(rate=rate, trials=0, probability=0.0)

    @staticmethod
    def pram(matrix: ArrayLike) -> Pram:
        """Post-randomisation: the cell of each record is changed at random.

        Parameters
        ----------
        matrix
            Row i holds the probabilities with which cell i becomes each cell.

        Returns
        -------
        Pram
            The law, for ``us.audit``.
        """
        return Pram(matrix=check_stochastic(matrix, "matrix"))

    @staticmethod
    def randomised_response(truth: float, cells: int = 2) -> Pram:
        """Randomised response: each record is reported truthfully with probability ``truth``, else as a random cell.

        Parameters
        ----------
        truth
            The probability of telling the truth.
        cells
            How many answers there are.

        Returns
        -------
        Pram
            The law, for ``us.audit``.
        """
        share = (1 - check_rate(truth, "truth")) / cells
        return Pram(matrix=check_stochastic(np.full((cells, cells), share) + truth * np.eye(cells), "matrix"))

    @staticmethod
    def subsample_plus_binomial(rate: float, trials: int, probability: float) -> SubsamplePlusBinomial:
        """Sampling with noise: each record is kept with probability ``rate``, and each cell gains a binomial number.

        Parameters
        ----------
        rate
            The sampling fraction.
        trials
            The trials of the binomial noise.
        probability
            The probability of the binomial noise.

        Returns
        -------
        SubsamplePlusBinomial
            The law, for ``us.audit``.
        """
        return SubsamplePlusBinomial(rate=rate, trials=trials, probability=probability)

    @staticmethod
    def trimmed_gaussian(scale: float, bound: int) -> TrimmedGaussian:
        """Discrete Gaussian noise on each cell, given that it is at most ``bound`` away.

        Parameters
        ----------
        scale
            The parameter sigma of the law before it is trimmed.
        bound
            The largest noise.

        Returns
        -------
        TrimmedGaussian
            The law, for ``us.audit``.
        """
        return TrimmedGaussian(scale=scale, bound=bound)

    @staticmethod
    def exponential_counts(rate: float, top: int) -> ExponentialCounts:
        """The exponential mechanism on each count, with outputs from 0 to ``top``.

        Parameters
        ----------
        rate
            How fast probabilities fall with the distance from the count.
        top
            The largest count that is published.

        Returns
        -------
        ExponentialCounts
            The law, for ``us.audit``.
        """
        return ExponentialCounts(rate=rate, top=top)
