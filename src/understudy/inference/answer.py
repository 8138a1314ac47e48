"""What ``infer`` hands back: estimates with intervals, how much was learned, by what method, and what to beware of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from itertools import product
from typing import Any

import numpy as np

from understudy.core.arrays import Floats
from understudy.core.questions import FAMILIES
from understudy.core.result import Estimate
from understudy.errors import InputError, MissingExtraError, UnsupportedError
from understudy.inference.labels import NOT_DETERMINED, worst
from understudy.inference.regression import INTERCEPT

NEGLIGIBLE = 1e-9  # as a share of the largest eigenvalue: nothing varies in directions below it
Generator = np.random.Generator  # for posterior draws, which protect nobody


@dataclass(frozen=True, slots=True, kw_only=True)
class WaldTest:
    """A test that some estimates are 0 together."""

    names: tuple[str, ...]
    """The estimates."""
    statistic: float
    """The statistic: chi-square distributed if all are 0, with noise and sampling accounted for."""
    freedom: int
    """Its degrees of freedom."""
    p_value: float
    """The p-value: the probability of a statistic at least as large if all are 0."""
    label: str
    """The lowest label of the estimates. If it is model-based, the test is only as good as the assumption."""

    def summary(self) -> str:
        """The test in words.

        Returns
        -------
        str
            One line.
        """
        return (
            f"chi-square {self.statistic:.1f} on {self.freedom} degrees of freedom, p = {self.p_value:.3g} (Wald, "
            f"noise and sampling accounted for; {self.label})"
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Answer:
    """One or more estimates with intervals. A question that cannot be answered raises an error instead."""

    question: str
    """The question, as it was asked."""
    kind: str
    """What was estimated, such as ``proportion`` or ``logit``."""
    names: tuple[str, ...]
    """The name of each estimate."""
    estimates: tuple[Estimate, ...]
    """The estimates with their intervals."""
    standard_errors: tuple[float, ...]
    """The standard error of each estimate."""
    information: tuple[float | None, ...]
    """The size of a sample that would be worth as much as the release, for each estimate; ``None``: not known,
    or there is no such size, as for a range."""
    records: int | None
    """The number of confidential rows, if it is public."""
    method: str
    """How it was computed."""
    labels: tuple[str, ...]
    """The label of each estimate: valid, range, selection not modelled, model-based or not determined."""
    warnings: tuple[str, ...] = ()
    """What to beware of."""
    excluded: float | None = None
    """About how many records the question leaves out, because a value is missing."""
    draws: Floats | None = field(default=None)
    """Draws of the posterior, one column for each estimate; ``None`` if there is a formula."""
    axes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The attributes of a table with their levels, in the order of the estimates; empty for other answers."""
    parts: tuple[tuple[float, float], ...] = ()
    """For an answer from a table that joined a release: two standard deviations of each error, of the part that nobody
    could see when the question was asked, and of the part that was seen."""

    @property
    def validity(self) -> str:
        """The lowest label of all estimates."""
        return worst(self.labels)

    def _one(self) -> Estimate:
        if len(self.estimates) != 1:
            raise InputError(f"this answer has {len(self.estimates)} estimates; use estimates, or to_frame().")
        return self.estimates[0]

    @property
    def value(self) -> float:
        """The estimate. For an answer with one estimate."""
        return self._one().value

    @property
    def estimate(self) -> float:
        """The estimate; another name of ``value``. For an answer with one estimate."""
        return self._one().value

    @property
    def interval(self) -> tuple[float, float]:
        """Both ends of the interval. For an answer with one estimate."""
        return self._one().low, self._one().high

    @property
    def low(self) -> float:
        """The lower end of the interval. For an answer with one estimate."""
        return self._one().low

    @property
    def high(self) -> float:
        """The upper end of the interval. For an answer with one estimate."""
        return self._one().high

    @property
    def standard_error(self) -> float:
        """The standard error. For an answer with one estimate."""
        self._one()
        return self.standard_errors[0]

    def information_text(self, place: int = 0) -> str:
        """Say in words how much of the information in the records is left.

        Parameters
        ----------
        place
            The number of the estimate, from 0.

        Returns
        -------
        str
            For example ``like a sample of 80,071 of 100,000``.
        """
        worth = self.information[place]
        if worth is None:
            return "not known"
        of = "" if self.records is None else f" of {self.records:,}"
        return f"like a sample of {worth:,.0f}{of}"

    def rounded(self) -> tuple[tuple[str, str, str, str], ...]:
        """Say each estimate in as many digits as its interval supports.

        Returns
        -------
        tuple[tuple[str, str, str, str], ...]
            Estimate, standard error and both ends of the interval, as texts.
        """
        from understudy.inference.printing import in_digits, short

        texts = []
        for one, error in zip(self.estimates, self.standard_errors, strict=True):
            value, low, high = in_digits(one)
            texts.append((value, short(error), low, high))
        return tuple(texts)

    def __getitem__(self, name: str) -> Estimate:
        if name not in self.names:
            raise InputError(f"this answer has no '{name}'; it has {', '.join(self.names[:20])}.")
        return self.estimates[self.names.index(name)]

    def to_frame(self) -> Any:
        """The estimates as a pandas frame.

        Returns
        -------
        Any
            One row for each estimate.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtraError("to_frame() needs pandas: pip install 'understudy[infer]'.") from None
        return pd.DataFrame(self._rows()).set_index("name")

    def covariance(self) -> Floats:
        """The covariance matrix of the estimates: noise and sampling together.

        Returns
        -------
        numpy.ndarray
            One row and one column for each estimate; ``nan`` where one is not determined.

        Raises
        ------
        InputError
            If the answer has no draws.
        """
        if self.draws is None:
            raise InputError("this answer was made by a combining rule, which gives no covariances.")
        errors = np.where([label == NOT_DETERMINED for label in self.labels], np.nan, self.standard_errors)
        with np.errstate(divide="ignore", invalid="ignore"):
            together = np.nan_to_num(np.atleast_2d(np.corrcoef(self.draws, rowvar=False)))
        np.fill_diagonal(together, 1.0)
        return np.asarray(together * np.outer(errors, errors))

    @property
    def p_values(self) -> tuple[float | None, ...]:
        """Two-sided p-values for an estimate of 0 in the population; ``None`` where the estimate is not determined.

        Noise and sampling are accounted for, and the posterior is taken as normal. The p-value of a model-based
        estimate is only as good as the assumption.
        """
        spreads = np.sqrt(np.diag(self.covariance()))
        return tuple(
            None if not np.isfinite(spread) or spread <= 0 else math.erfc(abs(one.value) / spread / math.sqrt(2))
            for one, spread in zip(self.estimates, spreads, strict=True)
        )

    def wald(self, *terms: str) -> WaldTest:
        """Test that several estimates are 0 together, with noise and sampling accounted for.

        Parameters
        ----------
        *terms
            Names of estimates, or of terms of a formula: ``education`` stands for all its levels. By default every
            estimate but the intercept.

        Returns
        -------
        WaldTest
            The statistic, its degrees of freedom and its p-value.

        Raises
        ------
        InputError
            If there is no such term, or the answer has no draws.
        UnsupportedError
            If an estimate among them is not determined.
        """
        places = self._places(terms)
        covariance = self.covariance()[np.ix_(places, places)]
        if not np.isfinite(covariance).all():
            raise UnsupportedError("not all of these estimates are determined by the release, so nothing is tested.")
        values = np.array([self.estimates[place].value for place in places])
        scale = np.sqrt(np.diag(covariance))
        sizes, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
        kept = sizes > NEGLIGIBLE * sizes.max()
        along = (values / scale) @ vectors[:, kept]
        statistic, freedom = float((along**2 / sizes[kept]).sum()), int(kept.sum())
        from scipy.stats import chi2

        return WaldTest(
            names=tuple(self.names[place] for place in places),
            statistic=statistic,
            freedom=freedom,
            p_value=float(chi2.sf(statistic, freedom)),
            label=worst(self.labels[place] for place in places),
        )

    def _places(self, terms: tuple[str, ...]) -> list[int]:
        if not terms:
            return [place for place, name in enumerate(self.names) if not name.endswith(INTERCEPT)]
        found: list[int] = []
        for term in terms:
            mine = [
                place
                for place, name in enumerate(self.names)
                if name == term or name.rpartition(": ")[2] == term or name.rpartition(": ")[2].startswith(f"{term}[")
            ]
            if not mine:
                raise InputError(f"this answer has no '{term}'; it has {', '.join(self.names[:20])}.")
            found += [place for place in mine if place not in found]
        return found

    def tidy(self) -> list[dict[str, Any]]:
        """One row for each estimate, with the levels of its attributes in columns of their own.

        Returns
        -------
        list[dict[str, Any]]
            Plain values.
        """
        levels = list(product(*(levels for _, levels in self.axes))) if self.axes else [()] * len(self.names)
        return [
            {**dict(zip((name for name, _ in self.axes), place, strict=True)), **row, "level": one.level}
            for place, row, one in zip(levels, self._rows(), self.estimates, strict=True)
        ]

    def to_text(self, form: str = "text") -> str:
        """The answer as it is printed: cross-tabulations as tables, digits that the interval supports, each note once.

        Parameters
        ----------
        form
            ``text``, ``latex``, ``html`` or ``csv`` (tidy: one line for each estimate).

        Returns
        -------
        str
            The table.
        """
        from understudy.inference.printing import printed

        return printed([self], form)

    def plot(self) -> Any:
        """A forest picture: every estimate with its interval.

        Returns
        -------
        Any
            A drawing with ``svg``, ``save(path)`` and the ``table`` that it shows.
        """
        from understudy.figures.answers_forest import forest

        return forest(
            self.names,
            [(one.value, one.low, one.high) for one in self.estimates],
            self.labels,
            title=self.question,
            zero=self.kind in (*FAMILIES, "difference", "correlation"),
        )

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {
                "name": name,
                "estimate": one.value,
                "standard_error": error,
                "low": one.low,
                "high": one.high,
                "information": worth,
                "label": label,
            }
            for name, one, error, worth, label in zip(
                self.names, self.estimates, self.standard_errors, self.information, self.labels, strict=True
            )
        ]

    def to_json(self) -> dict[str, Any]:
        """Plain values for scripts. What is not finite becomes null.

        Returns
        -------
        dict[str, Any]
            The fields, without the draws.
        """
        rows = [
            {key: value if not isinstance(value, float) or math.isfinite(value) else None for key, value in row.items()}
            for row in self._rows()
        ]
        single = {key: value for key, value in rows[0].items() if key != "name"} if len(rows) == 1 else {}
        return {
            "question": self.question,
            "kind": self.kind,
            "level": self.estimates[0].level,
            **single,
            "estimates": rows,
            "records": self.records,
            "excluded": self.excluded,
            "method": self.method,
            "validity": self.validity,
            "warnings": list(self.warnings),
        }

    def to_arviz(self) -> Mapping[str, Mapping[str, Floats]]:
        """The draws as ``arviz.from_dict`` takes them.

        Returns
        -------
        Mapping[str, Mapping[str, Floats]]
            One chain of independent draws for each estimate.

        Raises
        ------
        InputError
            If the answer has no draws.
        """
        if self.draws is None:
            raise InputError("this answer was made by a combining rule and has no posterior draws.")
        return {"posterior": {name: self.draws[None, :, place] for place, name in enumerate(self.names)}}

    def summary(self) -> str:
        """The answer as a table of text, in the manner of statsmodels.

        Returns
        -------
        str
            Several lines.
        """
        level = self.estimates[0].level
        low, high = f"[{(1 - level) / 2:.3f}", f"{(1 + level) / 2:.3f}]"
        width = max([12, *(len(name) for name in self.names)])
        line = "=" * (width + 60)
        head = [
            line,
            f"{'Question:':<14}{self.question}",
            f"{'Method:':<14}{self.method}",
            f"{'Validity:':<14}{self.validity}",
            f"{'Records:':<14}{'not public' if self.records is None else f'{self.records:,}'}",
        ]
        if self.excluded is not None and self.excluded >= 0.5:
            head.append(f"{'Left out:':<14}about {self.excluded:,.0f} records with a missing value")
        several = len(set(self.labels)) > 1
        rows = [line, f"{'':<{width}}{'coef':>12}{'std err':>12}{low:>12}{high:>12}{'worth':>12}", "-" * len(line)]
        for row, texts in zip(self._rows(), self.rounded(), strict=True):
            worth = "-" if row["information"] is None else f"{row['information']:,.0f}"
            numbers = "".join(f"{text:>12}" for text in texts)
            rows.append(f"{row['name']:<{width}}{numbers}{worth:>12}{'  ' + row['label'] if several else ''}")
        notes = [f"[{number}] {text}." for number, text in enumerate(self.warnings, start=1)]
        return "\n".join([*head, *rows, line, *notes])

    def __repr__(self) -> str:
        if len(self.estimates) == 1:
            one = self.estimates[0]
            return f"Answer({self.question}: {one.value:.6g}, {100 * one.level:g}% [{one.low:.6g}, {one.high:.6g}])"
        return f"Answer({self.question}: {len(self.estimates)} estimates)"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.summary())}</pre>"
