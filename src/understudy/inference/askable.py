"""What a release can be asked: its tables, with the best label an answer can have, and how wide one will be.

Widths are computed beforehand, from the noise that the release states. A width is half the interval of a share of
1 / (number of cells), with noise and the sampling of people. An answer uses all tables together, so its interval is
mostly a little shorter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from math import isfinite, sqrt
from typing import Any

import numpy as np

from understudy.core.schema import Schema
from understudy.core.workload import quoted
from understudy.errors import InputError, MissingExtraError, UnsupportedError, unknown_name
from understudy.inference.chosen_tables import Choice, fixed_beforehand, joined, tables_after_choosing
from understudy.inference.evidence import (
    is_partial,
    is_plain,
    nothing_known,
    possible_cells,
    public_records,
    whole_prior,
    without_coefficients,
)
from understudy.inference.joined_tables import as_first_made, tables_that_joined
from understudy.inference.labels import LABELS, RANGE, REFUSED, SELECTION, VALID
from understudy.inference.noise_aware import estimated_records
from understudy.inference.validity import validity_of
from understudy.release.kind import AnyRelease
from understudy.release.table_release import Release, asked_table

Z, LEVEL = 1.96, 0.95
SHOWN = 40
Margin = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Askable:
    """One table from which questions are answered."""

    question: str
    """A question about it."""
    attributes: tuple[str, ...]
    """Its attributes."""
    label: str
    """The best that an answer from it can be called."""
    width: float | None
    """Half the 95 percent interval of the share of one of its cells; ``None``: not known beforehand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Askables:
    """Everything that a release can be asked, by tables."""

    tables: tuple[Askable, ...]
    """One entry for each table of one or two attributes, and for each larger one that was measured."""
    unasked: tuple[tuple[str, str], ...]
    """Pairs of attributes that no table holds together: a share has a range, other questions are refused."""
    triples: int
    """Sets of three attributes that have a range: every two of them are in a table, and no table has all three."""
    notes: tuple[str, ...] = ()
    """What else can be asked, and what to beware of."""

    def __iter__(self) -> Iterator[Askable]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def about(self, *names: str) -> Askables:
        """Only tables that have all of some attributes.

        Parameters
        ----------
        *names
            The attributes.

        Returns
        -------
        Askables
            The same, with fewer tables.
        """
        wanted = set(names)
        return Askables(
            tables=tuple(one for one in self.tables if wanted <= set(one.attributes)),
            unasked=tuple(pair for pair in self.unasked if wanted & {*pair}),
            triples=self.triples,
            notes=self.notes,
        )

    def to_frame(self) -> Any:
        """The tables as a pandas frame.

        Returns
        -------
        Any
            One row for each table.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtraError("to_frame() needs pandas: pip install 'understudy[infer]'.") from None
        return pd.DataFrame(
            {
                "question": [one.question for one in self.tables],
                "attributes": [one.attributes for one in self.tables],
                "label": [one.label for one in self.tables],
                "width": [one.width for one in self.tables],
            }
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values for scripts.

        Returns
        -------
        dict[str, Any]
            The fields.
        """
        return {
            "tables": [
                {"question": one.question, "attributes": list(one.attributes), "label": one.label, "width": one.width}
                for one in self.tables
            ],
            "unasked": [list(pair) for pair in self.unasked],
            "triples": self.triples,
            "notes": list(self.notes),
        }

    def summary(self) -> str:
        """What can be asked, in words and a table of text.

        Returns
        -------
        str
            Several lines.
        """
        shown = self.tables[:SHOWN]
        width = max([10, *(len(one.question) for one in shown)])
        head = [f"{'question':<{width}}  {'at best':<24}share of a cell within", "-" * (width + 50)]
        lines = head if self.tables else []
        for one in shown:
            told = "-" if one.width is None else f"+/- {one.width:.2g}"
            lines.append(f"{one.question:<{width}}  {one.label:<24}{told}")
        if len(self.tables) > len(shown):
            lines.append(f"and {len(self.tables) - len(shown):,} more; name attributes to see those with them.")
        if self.unasked:
            some = "; ".join(" x ".join(pair) for pair in self.unasked[:8])
            more = f" and {len(self.unasked) - 8:,} more" if len(self.unasked) > 8 else ""
            told = f"shares have a {RANGE}, and other questions about both are refused"
            lines.append(f"No table holds these together; {told}: {some}{more}.")
        return "\n".join([*lines, *self.notes])

    def __repr__(self) -> str:
        return self.summary()


def askable(release: AnyRelease, *names: str) -> Askables:
    """What a release can be asked; see ``understudy.questions``."""
    release = asked_table(release)
    if not isinstance(release, Release):
        raise InputError("questions needs a release; read one with understudy.read_release.")
    release = without_coefficients(release)
    schema = release.schema
    for name in names:
        if name not in schema.names:
            raise unknown_name("attribute", str(name), schema.names)
    if not release.provenance.draws and not release.measurements:
        raise UnsupportedError(nothing_known(release))
    allowed = validity_of(release)
    if allowed.status == REFUSED:
        raise UnsupportedError(f"nothing can be asked of method '{release.provenance.method}': {allowed.note}.")
    wanted: list[Margin] = [(name,) for name in schema.names]
    wanted += list(combinations(schema.names, 2))
    margins = list(dict.fromkeys(one.margin for one in release.measurements if one.margin))
    wanted += [one for one in margins if len(one) > 2]
    held = [one for one in wanted if release.provenance.draws or any(set(one) <= set(margin) for margin in margins)]
    tables = [
        Askable(
            question=f"crosstab({', '.join(quoted(name) for name in one)})",
            attributes=one,
            label=_label(release, one, allowed.status),
            width=_width(release, one),
        )
        for one in held
    ]
    triples = 0
    if not release.provenance.draws:
        triples = sum(
            joined(margins, three) and not any(set(three) <= set(margin) for margin in margins)
            for three in combinations(schema.names, 3)
        )
    tables.sort(key=lambda one: (LABELS.index(one.label), len(one.attributes)))
    found = Askables(
        tables=tuple(tables),
        unasked=tuple((one[0], one[1]) for one in wanted if len(one) == 2 and one not in held),
        triples=triples,
        notes=_notes(release, triples),
    )
    return found.about(*names) if names else found


def _notes(release: Release, triples: int) -> tuple[str, ...]:
    notes = ["From each table: shares, numbers, differences, ratios, associations and regressions."]
    if any(one.edges for one in release.schema.attributes):
        notes.append(f"Means and quantiles of numbers known by bins are a {RANGE}; slopes on them are model-based.")
    if release.schema.weight is not None:
        notes.append(
            f"Answers are weighted by {release.schema.weight.column}, unless that is declined: a weighted answer needs "
            "a table of its attributes and the weight. Labels and widths above are of unweighted answers."
        )
    if triples:
        notes.append(
            f"{triples:,} sets of three attributes, of which every two share a table, have shares with a {RANGE}, and "
            "regressions that assume no interaction beyond those measured."
        )
    return tuple(notes)


def _label(release: Release, wanted: Margin, status: str) -> str:
    if status != SELECTION:
        return status
    fixed = any(set(wanted) <= set(one.margin) for one in fixed_beforehand(release))
    later = tables_that_joined(release, wanted)
    return VALID if fixed or later or tables_after_choosing(as_first_made(release), wanted) is not None else SELECTION


def _width(release: Release, wanted: Margin) -> float | None:
    """Half the interval of the share of one cell of a table, with noise, the sampling of people, and room for the
    choice of the table where only that makes an answer valid."""
    records = public_records(release)
    schema = release.schema
    share = 1 / max(_possible(schema, wanted), 2)
    chance = share * (1 - share)
    if release.provenance.draws:
        if not records:
            return None
        if is_plain(release) or is_partial(release):
            return Z * sqrt(chance * (1 / records + 1 / sum(release.rows)))
        copies = [draw["mechanisms"][0] for draw in release.provenance.draws]
        noise = 0.0
        for law, rows in zip(copies, release.rows, strict=True):
            whole = whole_prior(law, schema)
            noise += chance * (1 / max(rows, 1) + 1 / (whole + records)) * ((whole + records) / records) ** 2
        return Z * sqrt(noise / len(copies) ** 2 + chance / records)
    people = float(records) if records else estimated_records(release)
    if people <= 0:
        return None
    cells = _possible(schema, wanted)
    found = []
    for tables, choice in _ways(release, wanted):
        precision = 0.0
        for one in tables.measurements:
            variance = float(one.mechanism.variance)
            if one.margin and set(wanted) <= set(one.margin) and variance > 0:
                precision += cells / (variance * int(schema.allowed(one.margin).sum()))
        noise = 1 / precision if precision else 0.0
        sampling, spread = sqrt(chance / people), sqrt(noise / people**2 + chance / people)
        room = 0.0
        if choice is not None and not choice.none_needed(wanted):
            most = choice.for_any_choice(np.array([sampling]), np.array([spread]), LEVEL, of_shares=True)
            room = float(most[0])
        found.append(Z * spread + room)
    return min(found) if isfinite(min(found)) else None


def _ways(release: Release, wanted: Margin) -> list[tuple[Release, Choice | None]]:
    """The tables that an answer may come from; with a choice if its interval has to make room for that."""
    first = as_first_made(release)
    if validity_of(release).status != SELECTION or tables_that_joined(release, wanted):
        return [(release, None)]
    found: list[tuple[Release, Choice | None]] = []
    fixed = tuple(one for one in fixed_beforehand(release) if set(wanted) <= set(one.margin))
    if fixed:
        found.append((replace(release, measurements=fixed), None))
    later = tables_after_choosing(first, wanted)
    if later is not None:
        found.append((later, Choice(release=first)))
    return found or [(release, None)]


def _possible(schema: Schema, margin: tuple[str, ...]) -> int:
    """How many cells of a margin rules allow; rules that reach far beyond it count only inside it."""
    try:
        return int((possible_cells(schema, margin) > 0).sum())
    except UnsupportedError:
        return int(schema.allowed(margin).sum())
