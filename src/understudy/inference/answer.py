"""What ``infer`` hands back: estimates with intervals, how much was learned, by what method, and what to beware of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from understudy.core.arrays import Floats
from understudy.core.result import Estimate
from understudy.errors import InputError, MissingExtraError
from understudy.inference.labels import worst

Generator = np.random.Generator  # posterior draws compute; they protect nobody


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Answer:
    """One or more estimates with intervals. A question that cannot be answered has no answer but an error."""

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
    """The size of a sample that would be worth as much as the release, for each estimate; ``None``: not known."""
    records: int | None
    """The number of confidential rows, if it is public."""
    method: str
    """How it was computed."""
    labels: tuple[str, ...]
    """What each may be called: valid, range, selection not modelled, model-based or not determined."""
    warnings: tuple[str, ...] = ()
    """What to beware of."""
    excluded: float | None = None
    """About how many records the question leaves out, because a value is missing."""
    draws: Floats | None = field(default=None)
    """Draws of the posterior, one column for each estimate; ``None`` if there is a formula."""

    @property
    def validity(self) -> str:
        """The least that is promised of any of the estimates."""
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
        for row in self._rows():
            worth = "-" if row["information"] is None else f"{row['information']:,.0f}"
            rows.append(
                f"{row['name']:<{width}}{row['estimate']:>12.6g}{row['standard_error']:>12.4g}{row['low']:>12.6g}"
                f"{row['high']:>12.6g}{worth:>12}{'  ' + row['label'] if several else ''}"
            )
        notes = [f"[{number}] {text}." for number, text in enumerate(self.warnings, start=1)]
        return "\n".join([*head, *rows, line, *notes])

    def __repr__(self) -> str:
        if len(self.estimates) == 1:
            one = self.estimates[0]
            return f"Answer({self.question}: {one.value:.6g}, {100 * one.level:g}% [{one.low:.6g}, {one.high:.6g}])"
        return f"Answer({self.question}: {len(self.estimates)} estimates)"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.summary())}</pre>"
