"""The result of ``tradeoff``: every measured release, means with standard deviations, and the risk-utility map."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.core.folders import release_above
from understudy.core.result import Audience, Finding
from understudy.errors import DisclosureError, MissingExtraError
from understudy.explore.sweep import NO_GUARANTEE, Sweep

if TYPE_CHECKING:
    import pyarrow

    from understudy.figures.drawing import Drawing

INTERNAL_NOTE = (
    "INTERNAL, computed from confidential data: keep it inside the building. The releases behind these numbers were "
    "rehearsed, measured and dropped; none was written and none was charged. Choosing epsilon, a method or the best of "
    "several charged runs by a score computed from confidential data is a use of these data that no ledger covers; "
    "to choose without it, run the sweep on a public look-alike (--on)."
)
PUBLIC_NOTE = "Computed from a public look-alike: nothing here was computed from confidential data."
FIXED = ("odds", "guess_bound", "UiO")  # the same in every repeat
SCORES = (
    "s_pmse_1", "s_pmse_2", "s_pmse_3", "k_marginal_2", "k_marginal_3", "repU", "repU_null", "DiSCO", "DiSCO_null",
    "width_ratio", "cell_uncertainty",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Tradeoff:
    """The outcome of a sweep. On confidential data everything in it is internal."""

    sweep: Sweep
    """What was swept."""
    records: int
    """The number of records."""
    public: bool
    """Whether a public look-alike was swept."""
    lines: tuple[Mapping[str, Any], ...]
    """Every rehearsed release, as plain values."""

    @property
    def audience(self) -> Audience:
        """``public`` or ``internal``."""
        return "public" if self.public else "internal"

    @property
    def note(self) -> str:
        """Who may see it, in words."""
        return PUBLIC_NOTE if self.public else INTERNAL_NOTE

    @property
    def runs(self) -> pyarrow.Table:
        """Every rehearsed release with its scores."""
        import pyarrow as pa

        columns = [*dict.fromkeys(key for line in self.lines for key in line)]
        return pa.table({column: [line.get(column) for line in self.lines] for column in columns})

    @property
    def table(self) -> pyarrow.Table:
        """A row for each epsilon, method and number of copies: means over repeats, and standard deviations (_sd)."""
        import pyarrow as pa

        rows = self._rows()
        columns = [*dict.fromkeys(key for row in rows for key in row)]
        return pa.table({column: [row.get(column) for row in rows] for column in columns})

    def _rows(self) -> list[dict[str, Any]]:
        groups: dict[tuple[str, str, int], list[Mapping[str, Any]]] = {}
        for line in self.lines:
            groups.setdefault((line["epsilon"], line["method"], line["copies"]), []).append(line)
        rows = [self._row(key, lines) for key, lines in groups.items()]
        return sorted(
            rows, key=lambda row: (row["epsilon"] is None, row["epsilon"] or 0.0, row["method"], row["copies"])
        )

    def _row(self, key: tuple[str, str, int], lines: list[Mapping[str, Any]]) -> dict[str, Any]:
        epsilon, method, copies = key
        measured = [line for line in lines if "refused" not in line]
        row: dict[str, Any] = {
            "epsilon": None if epsilon == NO_GUARANTEE else _decimal(epsilon),
            "method": method,
            "plan": measured[0]["plan"] if measured else None,
            "copies": copies,
            "releases": len(measured),
            "refused": len(lines) - len(measured),
            "reason": next((line["refused"] for line in lines if "refused" in line), None),
        }
        for name in FIXED:
            row[name] = measured[0].get(name) if measured else None
        of_ways = [f"{name}_{way}" for way in self.sweep.ways for name in ("s_pmse", "k_marginal")]
        for name in dict.fromkeys((*SCORES, *of_ways)):
            values = [line[name] for line in measured if line.get(name) is not None]
            row[name] = float(np.mean(values)) if values else None
            row[f"{name}_sd"] = float(np.std(values, ddof=1)) if len(values) > 1 else None
        row["unanswered"] = float(np.mean([line["unanswered"] for line in measured])) if measured else None
        for name in ("", "_sd", "_null"):  # Raab's Fig. 1 has percent of the unique people
            value = row[f"repU{name}"]
            row[f"repU_of_uniques{name}"] = 100 * value / row["UiO"] if row["UiO"] and value is not None else None
        return row

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every setting with its utility and risk, marked with who may see it."""
        found = [Finding(code="tradeoff.note", title=self.note, value=None, audience=self.audience, severity="warning")]
        for row in self._rows():
            if row["releases"]:
                epsilon = "no guarantee" if row["epsilon"] is None else f"epsilon {row['epsilon']:g}"
                found.append(
                    Finding(
                        code="tradeoff.setting",
                        title=f"{row['method']}, {epsilon}, copies {row['copies']}: mean S_pMSE of pairs, and repU "
                        f"{row['repU']:.3f}%",
                        value=row.get("s_pmse_2"),
                        audience=self.audience,
                    )
                )
        return tuple(found)

    def map(self) -> Drawing:
        """Draw risk against utility, risk against epsilon (Raab's Fig. 1) and width against epsilon.

        Returns
        -------
        Drawing
            The figure, with the table it shows.
        """
        from understudy.figures.exploration import risk_utility_map

        return risk_utility_map(self.table, note="" if self.public else "INTERNAL: computed from confidential data")

    def to_json(self) -> dict[str, Any]:
        """Plain values for scripts.

        Returns
        -------
        dict[str, Any]
            The tables and the note.
        """
        return {
            "audience": self.audience,
            "note": self.note,
            "records": self.records,
            "questions": list(self.sweep.questions),
            "table": [{key: _plain(value) for key, value in row.items()} for row in self._rows()],
            "runs": [{key: _plain(value) for key, value in line.items()} for line in self.lines],
        }

    def write_into(self, folder: Path) -> None:
        """Write the tables as CSV and the figure as SVG into a folder that is not a release.

        Parameters
        ----------
        folder
            The folder.

        Raises
        ------
        DisclosureError
            If the folder is or lies in a release.
        """
        from understudy.release.csv_file import write_csv

        inside = release_above(folder)
        if inside is not None:
            raise DisclosureError(f"{folder} lies in the release folder {inside}; an exploration is internal.")
        write_csv(self.table, folder / "tradeoff.csv")
        write_csv(self.runs, folder / "runs.csv")
        try:
            self.map().save(folder / "tradeoff.svg")
        except MissingExtraError:
            return  # the tables are there; the figure needs the extra 'report'

    def __repr__(self) -> str:
        return f"Tradeoff({len(self.lines)} rehearsed releases, {self.audience})"


def _decimal(text: str) -> float:
    from fractions import Fraction

    return float(Fraction(text))


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
