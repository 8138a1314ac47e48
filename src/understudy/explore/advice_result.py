"""The result of ``advise``: a table, a curve, words. It is made from public facts, so anybody may see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from understudy.core.result import Finding
from understudy.explore.attacker_beliefs import PRIORS, Attacker
from understudy.explore.interval_widths import Width
from understudy.explore.population import DRAWN

if TYPE_CHECKING:
    import pyarrow

    from understudy.figures.drawing import Drawing


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Everything about one epsilon: widths by the number of copies, the best number, the attacker, the cells."""

    epsilon: float
    widths: Mapping[int, tuple[Width, ...]]
    best_copies: int
    attacker: Attacker
    cell_uncertainty: float | None

    @property
    def best(self) -> Width:
        """The quantity whose interval is widest relative to the real data, at the best number of copies."""
        return max(self.widths[self.best_copies], key=lambda one: (one.ratio or 0.0, one.width))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The smallest epsilon that keeps intervals within the target, with a number of copies; or why there is none."""

    copies: int
    epsilon: float | None
    ratio: float | None
    error: float | None
    reason: str = ""
    exact: bool = False  # whether nothing was simulated; the error of a single simulated release is 0 too


@dataclass(frozen=True, slots=True, kw_only=True)
class Classical:
    """Classical measures of rehearsed releases of a public look-alike, in percent of its people."""

    epsilon: float
    people: int
    releases: int
    scores: Mapping[str, float]  # UiO, repU, DiSCO, and the last two of independent columns (..._null)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Advice:
    """Advice before a release, made from public facts."""

    question: str
    """The question it is about."""
    method: str
    """The method that was rehearsed."""
    records: int
    """The number of records that was assumed."""
    unit: str
    """Who is protected: ``replace`` or ``add_remove``."""
    delta: float | None
    """The delta of the budgets; ``None``: pure."""
    level: float
    """The level of the intervals."""
    target: float
    """How many times as wide as the real data's an interval may be."""
    population: str
    """What was believed about the people, in words."""
    splits: bool
    """Whether copies split the budget."""
    names: tuple[str, ...]
    """The quantities that the question asks for."""
    rows: tuple[Row, ...]
    """What was found for each epsilon."""
    reach: tuple[Reach, ...]
    """The smallest epsilon within the target, for each number of copies."""
    classical: tuple[Classical, ...] = ()
    """Classical measures of risk, on a public look-alike."""
    rows_per_unit: int = 1
    """The most rows of one unit."""
    fixed: tuple[str, ...] = ()
    """Attributes that are not protected."""
    within: float | None = None
    """The share of the value that half an interval may have, where that was asked for instead of ``target``."""

    @property
    def best_copies(self) -> dict[float, int]:
        """For each epsilon the number of copies with the narrowest intervals."""
        return {row.epsilon: row.best_copies for row in self.rows}

    @property
    def epsilon(self) -> float | None:
        """The smallest epsilon found that keeps intervals within the target, with the copies that suit it."""
        reached = [one.epsilon for one in self.reach if one.epsilon is not None]
        return min(reached, default=None)

    @property
    def table(self) -> pyarrow.Table:
        """An Arrow table with a row for each epsilon."""
        import pyarrow as pa

        return pa.Table.from_pylist(self._rows())

    @property
    def widths(self) -> pyarrow.Table:
        """An Arrow table with a row for each epsilon, number of copies and quantity."""
        import pyarrow as pa

        return pa.Table.from_pylist(
            [
                {
                    "epsilon": row.epsilon,
                    "copies": copies,
                    "quantity": one.name,
                    "width": one.width,
                    "real_width": one.real,
                    "ratio": one.ratio,
                    "low": one.low,
                    "high": one.high,
                    "ratio_low": one.ratio_low,
                    "ratio_high": one.ratio_high,
                    "spread": one.spread,
                    "error": one.error,
                    "releases": one.releases,
                    "refused": one.refused,
                }
                for row in self.rows
                for copies, widths in row.widths.items()
                for one in widths
            ]
        )

    def _rows(self) -> list[dict[str, Any]]:
        classical = {one.epsilon: one for one in self.classical}
        rows = []
        for row in self.rows:
            best, known = row.best, classical.get(row.epsilon)
            line: dict[str, Any] = {
                "epsilon": row.epsilon,
                "best_copies": row.best_copies,
                "quantity": best.name,
                "width": best.width,
                "real_width": best.real,
                "ratio": best.ratio,
                "ratio_error": best.ratio_error,
                "low": best.low,
                "high": best.high,
                "ratio_low": best.ratio_low,
                "ratio_high": best.ratio_high,
                "odds": row.attacker.odds,
                **{f"belief_from_{prior:g}": row.attacker.belief(prior) for prior in PRIORS},
                "guess_bound": row.attacker.guess_bound,
                "guess_exact": row.attacker.guess_exact,
                "cell_uncertainty": row.cell_uncertainty,
            }
            if known is not None:
                line |= known.scores
            rows.append(line)
        return rows

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The advice as findings that may be shown to anybody."""
        found = [Finding(code="advice.width", title=line, value=None, audience="public") for line in self.lines if line]
        return tuple(found)

    @property
    def lines(self) -> tuple[str, ...]:
        """The advice in words."""
        known = [row for row in self.rows if row.best.ratio is not None]
        lines = [
            f"Computed from public facts alone: {self.records:,} records, {self.population}; no data were used.",
        ]
        if self.fixed:
            lines.append(f"Known for everybody and not protected: {', '.join(self.fixed)}.")
        if self.rows_per_unit > 1:
            lines.append(
                f"A unit has up to {self.rows_per_unit} rows, all protected together. Rehearsed rows are independent; "
                "if those of a unit are alike, intervals are too short, the real data's as well."
            )
        if known:
            first, last = known[0], known[-1]
            end = f" and {_ratio(last.best)} at epsilon {last.epsilon:g}" if len(known) > 1 else ""
            lines.append(
                f"{100 * self.level:g}% intervals are {_ratio(first.best)} as wide as the real data's at epsilon "
                f"{first.epsilon:g}{end}."
            )
        if DRAWN in self.population:
            lines.append(
                "Nothing was said of how many people are in each group, and an interval about a group of half as many "
                "is up to twice as wide. So the widths have a range. It is narrower if you give shares (--guess, "
                "guess=) or a public look-alike (--on, on=)."
            )
        for row in self.rows:
            if row.best.refused:
                lines.append(
                    f"At epsilon {row.epsilon:g}, {row.best.refused} of {row.best.refused + row.best.releases} "
                    "rehearsed releases could not answer the question; widths are of the others."
                )
        lines += [self._reached(one) for one in self.reach]
        if self.splits:
            best = ", ".join(f"{row.best_copies} at epsilon {row.epsilon:g}" for row in self.rows)
            lines.append(f"Copies split the budget. The best number of copies: {best}.")
        else:
            lines.append(
                "Copies share one set of noisy tables: they cost nothing and narrow no interval. One is enough for "
                "inference."
            )
        return tuple(lines)

    def _reached(self, one: Reach) -> str:
        copies = f" with {one.copies} {'copy' if one.copies == 1 else 'copies'}" if self.splits else ""
        if self.within is not None:
            asked = f"within {100 * self.within:g}%"
            if one.epsilon is None:
                return f"No epsilon{copies} makes answers right {asked}: {one.reason}."
            return f"Epsilon {one.epsilon:.3g}{copies} makes answers right {asked} ({100 * self.level:g}% intervals)."
        if one.epsilon is None:
            return f"No epsilon{copies} keeps intervals within {self.target:g} times the real data's: {one.reason}."
        error = " (exact)" if one.exact else f" (ratio {one.ratio:.3f} +- {one.error:.3f})"
        return f"Epsilon {one.epsilon:.3g}{copies} keeps intervals within {self.target:g} times the real data's{error}."

    @property
    def odds_in_words(self) -> tuple[str, ...]:
        """What an attacker who has every record but one can reach, for each epsilon."""
        return tuple(row.attacker.words for row in self.rows)

    def curve(self) -> Drawing:
        """Draw the width of intervals and an attacker's belief, both against epsilon.

        Returns
        -------
        Drawing
            The figure, with the table it shows.
        """
        from understudy.figures.exploration import advice_curve

        return advice_curve(
            self.widths,
            self.table,
            target=self.target,
            title=f"{self.question} ({self.method}, {self.records:,} records)",
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values for scripts.

        Returns
        -------
        dict[str, Any]
            The fields and tables.
        """
        return {
            "audience": "public",
            "question": self.question,
            "method": self.method,
            "records": self.records,
            "unit": self.unit,
            "rows_per_unit": self.rows_per_unit,
            "fixed": list(self.fixed),
            "delta": self.delta,
            "level": self.level,
            "target": self.target,
            "within": self.within,
            "population": self.population,
            "copies_split_the_budget": self.splits,
            "epsilon": self.epsilon,
            "reach": [
                {"copies": one.copies, "epsilon": one.epsilon, "ratio": one.ratio, "error": one.error,
                 "reason": one.reason}
                for one in self.reach
            ],
            "table": [{key: _plain(value) for key, value in row.items()} for row in self._rows()],
            "widths": [{key: _plain(value) for key, value in row.items()} for row in self.widths.to_pylist()],
            "attacker": [row.attacker.to_json() for row in self.rows],
            "words": [*self.lines, *self.odds_in_words],
        }  # fmt: skip

    def __repr__(self) -> str:
        return f"Advice({self.question}; {self.method}; {self.records:,} records; {len(self.rows)} epsilons)"


def _ratio(one: Width) -> str:
    """How many times as wide, with the range if there is one."""
    if one.ratio_low is None or one.ratio_high is None or f"{one.ratio_low:.2f}" == f"{one.ratio_high:.2f}":
        return f"{one.ratio:.2f} times"
    return f"{one.ratio:.2f} times ({one.ratio_low:.2f} to {one.ratio_high:.2f})"


def _plain(value: Any) -> Any:
    """JSON has no infinity."""
    return "infinite" if isinstance(value, float) and value in (float("inf"), float("-inf")) else value
