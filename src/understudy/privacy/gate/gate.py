"""The only way to touch counts.

A synthesizer never gets a table or a count: it gets this gate. Every call charges first (or raises), then counts,
then runs the mechanism, then journals the noisy values, then hands them out. A privacy review of the package is a
review of this folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from weakref import WeakKeyDictionary

import numpy as np

from understudy.core.arrays import Integers, Progress, Whole, narrowed
from understudy.core.counts import COVERS, Counts, Rereadable, Source, SparseCounts
from understudy.core.exact_numbers import to_text
from understudy.core.measurement import Draw, Measurement
from understudy.core.mechanism import Mechanism, SelectionLaw, Stream
from understudy.core.schema import Schema
from understudy.core.walsh import CONTRASTS, contrasts
from understudy.errors import DisclosureError, InputError, InternalError, UnsupportedError
from understudy.privacy.gate.charge_first import OTHER_DATA
from understudy.privacy.gate.cluster_counts import ClusterGate
from understudy.privacy.gate.journal import Journal, pack_array, unpack_array
from understudy.privacy.gate.table_draws import DrawingSource, TableMechanism, draw_strata, strata_domains
from understudy.privacy.mechanisms.dirichlet_draw import require_definition_6, row_unit
from understudy.privacy.mechanisms.draw_facts import TableFacts
from understudy.privacy.mechanisms.reviewed import NOISE_ON_TABLES, TABLE_DRAWS, require_reviewed
from understudy.privacy.promise.event import Event, GumbelMax, NoisyMax, Sensitivity, Strata
from understudy.privacy.promise.plan import Plan
from understudy.privacy.promise.sensitivity import comparison_sensitivity, margin_sensitivity, selection_sensitivity

Groups = Mapping[str, tuple[int, ...]]  # for each code of an attribute the code it is merged into
CELLS_AT_ONCE = 2**24  # of tables that are counted in one scan: an eighth of a gigabyte


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A margin to be measured. ``cells="first"``: one number of a two-cell table with a public total.
    ``cells="contrasts"``: its Fourier coefficients instead of its counts.

    ``groups``: for each code of a single attribute the public group it is counted in; ``cells`` is then ``classes``.
    """

    margin: tuple[str, ...]
    mechanism: Mechanism
    label: str
    cells: str = "all"
    groups: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class Candidate:
    """A margin to be chosen: score = weight x L1 distance between true and model counts, minus the offset.

    Everything is an integer, so scores are exact and their sensitivity is exact; nothing is divided by the
    confidential number of rows.
    """

    margin: tuple[str, ...]
    model: Integers | Whole
    weight: int = 1
    offset: int = 0


class Gate(ClusterGate):
    """The only way to the data: it charges, counts, adds noise and journals, in that order.

    Parameters
    ----------
    source
        The confidential table; ``None`` for a resumed run that has all its measurements.
    schema
        The public schema.
    plan
        What the run may do. Anything else is refused.
    stream
        The source of randomness.
    journal
        Where results are noted, so that a run can be resumed.
    progress
        Called while rows are read.
    """

    counts = "rows"
    instead = "; give rows, or measure a total"

    def __init__(
        self,
        *,
        source: Source | None,
        schema: Schema,
        plan: Plan,
        stream: Stream,
        journal: Journal | None = None,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(plan=plan, stream=stream, journal=journal)
        self._source = source
        self._schema = schema
        self._progress = progress
        self._counted: dict[tuple[str, ...], Whole] = {}  # narrow: there may be thousands
        self._sparse: dict[tuple[str, ...], SparseCounts] = {}
        self._public: dict[tuple[str, ...], Integers] = {}
        self._groups: Groups = {}
        self._sizes = dict(zip(schema.names, schema.shape(), strict=True))  # as measured: of merged codes, once merged
        self._distances: WeakKeyDictionary[Candidate, int] = WeakKeyDictionary()  # some are offered a hundred times
        for entry in journal.entries() if journal else ():
            if entry.kind == "public":
                self._public[tuple(entry.payload["margin"])] = unpack_array(entry.payload["values"])

    def _count_records(self) -> int:
        return int(self._open_source().total())

    def look_ahead(self) -> None:
        """Scan the data for what the plan announces, before anything is charged, so that bad data cost nothing.

        Nothing leaves the gate: the counts wait here until they are charged for. An adaptive plan does not say what
        it will look at; the one-way tables then serve as the check of every value. They do so too where what is
        announced is very large, as it is where bins will be merged. The number of rows, where it is public, is noted
        now, so that a run with all its measurements can be resumed without the data.

        Raises
        ------
        InputError
            If the data are not what the plan was made for, or hold values outside the schema.
        UnsupportedError
            If the plan finds bins or levels and the data cannot be counted so.
        """
        if self._plan.finding:
            self._rereadable()
        self.require_discoverable()
        self.require_clusters()
        if self.unit.public_total:
            expected, records = self._plan.records, self.records
            if expected is not None and expected != records:
                raise InputError(
                    f"the plan was made for {expected:,} records and the data have {records:,}; what a draw costs can "
                    "depend on it. Make the plan again, with the right number or without."
                )
        announced = list(dict.fromkeys(step.margin for step in self._plan.steps if step.action == "measure"))
        if self._plan.adaptive or self._plan.finding or self._many_cells(announced):
            announced = [(name,) for name in self._schema.names]
        self.count_ahead(announced)
        if self._plan.adaptive or self._plan.finding:
            return
        for margin in dict.fromkeys(step.margin for step in self._plan.steps if step.action == "draw"):
            if isinstance(self._source, DrawingSource):
                self._source.total()  # checks every value; the cells stay where they are
            else:
                self._filled_cells(margin)
            if self.unit.fixed:
                self.public(self._schema.margin(self.unit.fixed))

    def _many_cells(self, margins: Sequence[tuple[str, ...]]) -> bool:
        return sum(self._schema_of(margin).cells(margin) for margin in margins) > CELLS_AT_ONCE

    def count_ahead(self, margins: Iterable[tuple[str, ...]]) -> None:
        """Count many margins in one scan, to be measured or chosen among later. Nothing leaves the gate.

        Parameters
        ----------
        margins
            The margins.
        """
        missing = [margin for margin in dict.fromkeys(margins) if margin not in self._counted]
        if self._replay:
            return
        for part in self._scans(missing):
            for counts in self._scan(part):
                self._counted[counts.margin] = narrowed(self._merged(counts.values, counts.margin))

    def _scans(self, margins: Sequence[tuple[str, ...]]) -> Iterable[list[tuple[str, ...]]]:
        """One scan for all, or several if all tables as they are read would need too much memory."""
        part: list[tuple[str, ...]] = []
        cells = 0
        for margin in margins:
            cells += self._schema_of(margin).cells(margin)
            if part and cells > CELLS_AT_ONCE:
                yield part
                part, cells = [], self._schema_of(margin).cells(margin)
            part.append(margin)
        if part:
            yield part

    def merge(self, groups: Groups) -> None:
        """Merge codes of some attributes before anything more is measured or chosen.

        A row is in one merged cell as it was in one cell, so the sensitivity of a margin, and of a score by it, bounds
        that of the merged one. What is merged may depend on what was measured before, and on nothing else.

        Parameters
        ----------
        groups
            For each attribute the merged code of each of its codes.

        Raises
        ------
        InternalError
            If the groups are not those of the attribute, or codes are merged already.
        """
        for name, codes in groups.items():
            if len(codes) != self._schema[name].size or set(codes) != set(range(max(codes) + 1)):
                raise InternalError(f"'{name}' has {self._schema[name].size} codes; {len(codes)} cannot be merged.")
            if name in self.unit.fixed:
                raise InternalError(f"'{name}' is fixed; its counts are public as they are.")
        if self._groups:
            raise InternalError("codes are merged already.")
        self._groups = dict(groups)
        self._sizes |= {name: max(codes) + 1 for name, codes in groups.items()}
        self._distances.clear()
        self._counted = {
            margin: narrowed(self._merged(values.astype(np.int64), margin)) for margin, values in self._counted.items()
        }

    def adopt(self, schema: Schema) -> None:
        """Go on with another schema of the same columns, which follows from what was measured and from nothing else.

        From here on rows are counted by its codes. A row is in one cell of it as it was in one cell of the other, so
        what is measured costs what it would have cost with a schema that somebody wrote down.

        Parameters
        ----------
        schema
            The schema that was found.

        Raises
        ------
        InternalError
            If it is not a schema of the same attributes, or codes are merged already.
        UnsupportedError
            If the data cannot be counted a second time by other codes.
        """
        if schema.names != self._schema.names or self._groups:
            raise InternalError("a schema that was found has the attributes of the one it was found with.")
        if self._source is not None:
            self._source = self._rereadable().under(schema)
        self._schema = schema
        self._sizes = dict(zip(schema.names, schema.shape(), strict=True))
        self._counted.clear()
        self._sparse.clear()
        self._distances.clear()

    def _rereadable(self) -> Rereadable:
        """The data, if they can be counted by other codes: asked before the charge, so that no answer is lost."""
        if not isinstance(self._source, Rereadable):
            raise UnsupportedError(
                f"bins are found in data that can be counted twice, and {type(self._source).__name__} has no under(). "
                "Give edges for every attribute, or open the data with open_source."
            )
        return self._source

    def _merged(self, table: Integers, margin: tuple[str, ...]) -> Integers:
        for axis, name in enumerate(margin):
            if name in self._groups:
                table = merge_cells(table, axis, self._groups[name])
        return table

    def measure(self, queries: Sequence[Query]) -> list[Measurement]:
        """Measure noisy counts. All queries are charged before the first is drawn.

        Parameters
        ----------
        queries
            What to measure, each with its noise: exactly what the plan announced.

        Returns
        -------
        list[Measurement]
            The noisy counts of each query, which are public.

        Raises
        ------
        BudgetError
            If the plan does not allow it.
        """
        for query in queries:
            require_reviewed(query.mechanism, NOISE_ON_TABLES)
        for query in queries:
            self._charge("measure", query.label, query.margin, self._measure_event(query))
        self.count_ahead(query.margin for query in queries)
        last = len(queries)
        return [self._measure_one(query, more=number < last) for number, query in enumerate(queries, start=1)]

    def _measure_event(self, query: Query) -> Event:
        if query.groups is not None:
            # A row is in one group as it was in one cell, so the margin's sensitivity bounds that of its groups.
            (name,) = query.margin
            if len(query.groups) != self._sizes[name] or set(query.groups) != set(range(max(query.groups) + 1)):
                raise InternalError(f"'{name}' has {self._sizes[name]} codes; these are not groups of them.")
        cells = "all" if query.groups is not None else query.cells
        return self._noise_event(query.label, query.mechanism, self._sensitivity(query.margin, cells))

    def _sensitivity(self, margin: tuple[str, ...], cells: str) -> Sensitivity:
        """How far one unit can move a table: derived here, from the query and the unit."""
        return margin_sensitivity(self._schema, margin, self.unit, cells)

    def _schema_of(self, margin: tuple[str, ...]) -> Schema:  # noqa: ARG002 - linked tables have two
        """The schema that a table is counted by."""
        return self._schema

    def _measure_one(self, query: Query, *, more: bool) -> Measurement:
        remembered = self._remembered("measurement", query.label)
        if remembered is not None:
            same = remembered["margin"] == list(query.margin) and remembered["cells"] == query.cells
            self._require_charged(same and remembered["mechanism"] == query.mechanism.to_json())
            return Measurement(
                margin=query.margin, values=unpack_array(remembered["values"]), mechanism=query.mechanism,
                cells=query.cells, label=query.label,
            )  # fmt: skip
        allowed = self._schema_of(query.margin).allowed(query.margin) if query.margin else np.ones((), dtype=bool)
        allowed = self._merged(allowed.astype(np.int64), query.margin) > 0
        true = self._counts(query.margin)
        if query.groups is not None:
            allowed = merge_cells(allowed.astype(np.int64), 0, query.groups) > 0
            true = merge_cells(true, 0, query.groups)
        if query.cells == "first":
            values = query.mechanism.run(true[allowed][:1], self._stream).reshape(())
        elif query.cells == CONTRASTS:
            signed = contrasts(true)
            values = query.mechanism.run(signed.ravel(), self._stream).reshape(signed.shape)
        else:
            values = np.zeros(true.shape, dtype=np.int64)
            values[allowed] = query.mechanism.run(true[allowed], self._stream)
        self._write("measurement", {
            "label": query.label, "margin": list(query.margin), "cells": query.cells,
            "mechanism": query.mechanism.to_json(), "values": pack_array(values),
        }, more=more)  # fmt: skip
        return Measurement(
            margin=query.margin, values=values, mechanism=query.mechanism, cells=query.cells, label=query.label
        )

    def select(
        self, candidates: Sequence[Candidate], *, scale: Fraction, label: str, law: SelectionLaw = "exponential"
    ) -> int:
        """Choose the candidate with the greatest noisy score (OpenDP's noisy maximum).

        Parameters
        ----------
        candidates
            What to choose among: margins, and what the model says of each.
        scale
            The scale of the noise.
        label
            The label of the step in the plan.
        law
            The law of the noise: ``exponential`` or ``gumbel``.

        Returns
        -------
        int
            The number of the candidate that was chosen.

        Raises
        ------
        InputError
            If there is no candidate.
        """
        if not candidates:
            raise InputError("there is nothing to select from.")
        for candidate in candidates:
            self._check_candidate(candidate)
        sensitivity = selection_sensitivity([candidate.weight for candidate in candidates], self.unit)
        margin = candidates[0].margin if len(candidates) == 1 else ()
        event = NoisyMax if law == "exponential" else GumbelMax
        self._charge("select", label, margin, event(sensitivity=Fraction(sensitivity), scale=scale))
        self.count_ahead(candidate.margin for candidate in candidates)
        remembered = self._remembered("selection", label)
        noise = {"law": law, "scale": to_text(scale)}
        if remembered is not None:
            self._require_charged(remembered.get("noise", noise) == noise)  # early journals do not say
            return int(remembered["chosen"])
        scores = [candidate.weight * self._distance(candidate) - candidate.offset for candidate in candidates]
        chosen = self._stream.noisy_argmax(np.array(scores, dtype=np.int64), scale, law)
        self._write("selection", {"label": label, "chosen": int(chosen), "noise": noise})
        return int(chosen)

    def compare(self, candidates: Sequence[Candidate], *, mechanism: Mechanism, label: str) -> Integers:
        """Measure how far each margin is from what a model says of it: every distance with noise, all in one step.

        Parameters
        ----------
        candidates
            The margins, and what the model says of each. Offsets are left out: they are public.
        mechanism
            The noise on every distance.
        label
            The label of the step in the plan.

        Returns
        -------
        Integers
            A noisy distance for each candidate.

        Raises
        ------
        InputError
            If there is no candidate.
        InternalError
            If the mechanism does not say what it costs.
        """
        if not candidates:
            raise InputError("there is nothing to compare.")
        require_reviewed(mechanism, NOISE_ON_TABLES)
        for candidate in candidates:
            self._check_candidate(candidate)
        event = mechanism.event(comparison_sensitivity([candidate.weight for candidate in candidates], self.unit))
        if not isinstance(event, Event):
            raise InternalError(f"{mechanism.name} does not say what it costs.")
        self._charge("compare", label, (), event)
        self.count_ahead(candidate.margin for candidate in candidates)
        remembered = self._remembered("comparison", label)
        asked = {"margins": [list(one.margin) for one in candidates], "mechanism": mechanism.to_json()}
        if remembered is not None:
            self._require_charged({key: remembered[key] for key in asked} == asked)
            return unpack_array(remembered["values"])
        distances = [candidate.weight * self._distance(candidate) for candidate in candidates]
        noisy = mechanism.run(np.array(distances, dtype=np.int64), self._stream)
        self._write("comparison", {"label": label, **asked, "values": pack_array(noisy)})
        return noisy

    def _check_candidate(self, candidate: Candidate) -> None:
        """A table that is spread over another's cells would move a score by more than is charged."""
        shape = tuple(self._sizes[name] for name in candidate.margin)
        if candidate.model.shape != shape or candidate.model.dtype.kind != "i":
            raise InternalError(f"the model's {' x '.join(candidate.margin)} is no table of that margin.")

    def _distance(self, candidate: Candidate) -> int:
        if candidate not in self._distances:
            self._distances[candidate] = int(np.abs(self._counts(candidate.margin) - candidate.model).sum())
        return self._distances[candidate]

    def public(self, margin: tuple[str, ...]) -> Integers:
        """Give exact counts of a margin that no unit can move: of attributes that the unit calls ``fixed``.

        Parameters
        ----------
        margin
            Names of attributes.

        Returns
        -------
        Integers
            The counts.

        Raises
        ------
        DisclosureError
            If the counts are not public under the unit.
        """
        if margin_sensitivity(self._schema, margin, self.unit).l1 != 0:
            raise DisclosureError(f"the counts of {' x '.join(margin)} are not public under this unit.")
        if margin not in self._public:
            self._public[margin] = self._counts(margin)
            self._write("public", {"margin": list(margin), "values": pack_array(self._public[margin])})
        return self._public[margin]

    def draw(
        self,
        mechanisms: Sequence[TableMechanism],
        *,
        margin: tuple[str, ...],
        label: str,
        copy: int,
        strata: tuple[str, ...] = (),
    ) -> Draw:
        """Draw a synthetic table straight from the data, by a mechanism that is defined on the whole domain.

        The accountant counts one stratum per row where the unit has ``fixed`` attributes, which is right for strata of
        those alone.

        Parameters
        ----------
        mechanisms
            The mechanism; with ``strata`` one for each of their cells, in order.
        margin
            The attributes of the table.
        label
            The label of the step in the plan.
        copy
            The number of the copy.
        strata
            Attributes in whose cells the table is drawn separately. Cells of the result are numbered over the whole
            margin all the same.

        Returns
        -------
        Draw
            The synthetic table, which is public.

        Raises
        ------
        DisclosureError
            If one unit could move from one stratum to another.
        """
        if self.unit.fixed and not set(strata) <= set(self.unit.fixed):
            raise DisclosureError(
                f"strata by {' x '.join(strata)} are not fixed under this unit: one unit can move from one to another."
            )
        for mechanism in mechanisms:
            require_reviewed(mechanism, TABLE_DRAWS)
        facts = self._draw_facts(margin, strata)
        events = [mechanism.event_for(one) for mechanism, one in zip(mechanisms, facts, strict=True)]
        require_definition_6(mechanisms, facts)
        event = Strata(strata=tuple((one,) for one in events)) if strata else events[0]
        self._charge("draw", label, margin, event)
        remembered = self._remembered("draw", label)
        if remembered is None:
            cells, counts = self._draw(mechanisms, margin, strata, ("draw", label, copy))
            self._write("draw", {
                "label": label, "copy": copy, "facts": [one.to_json() for one in facts],
                "cells": pack_array(cells), "counts": pack_array(counts),
            })  # fmt: skip
        else:
            stated = [one.to_json() for one in facts]
            self._require_charged(remembered.get("facts", stated) == stated)  # early journals do not say
            cells, counts = unpack_array(remembered["cells"]), unpack_array(remembered["counts"])
        sizes = tuple(one.records for one in facts if one.records is not None) if strata else None
        return Draw(
            margin=margin, cells=cells, counts=counts, mechanisms=tuple(m.to_json() for m in mechanisms), label=label,
            sizes=sizes or None,
        )  # fmt: skip

    def _draw_facts(self, margin: tuple[str, ...], strata: tuple[str, ...]) -> list[TableFacts]:
        """What the cost of a draw rests on, stratum by stratum: the domains it is drawn over, and the public sizes."""
        domains = strata_domains(self._schema, strata, margin)
        if strata and self.unit.fixed:
            records: list[int | None] = [int(size) for size in self.public(strata).ravel()]
        else:
            records = [self.records if self.unit.public_total and not strata else None] * len(domains)
        unit = row_unit(self.unit, strata)
        return [
            TableFacts(unit=unit, cells=domain.possible, records=size, domain=domain)
            for domain, size in zip(domains, records, strict=True)
        ]

    def _draw(
        self,
        mechanisms: Sequence[TableMechanism],
        margin: tuple[str, ...],
        strata: tuple[str, ...],
        purpose: tuple[str | int, ...],
    ) -> tuple[Integers, Integers]:
        """Here, or where the rows are if the source can draw there: the same words, so the same tables."""
        source = self._open_source()
        if isinstance(source, DrawingSource):
            if any(mechanism.covers not in COVERS for mechanism in mechanisms):
                raise DisclosureError("a draw must cover the cells that are empty, or it shows which are not.")
            return source.draw_strata(mechanisms, margin=margin, strata=strata, stream=self._stream, purpose=purpose)
        return draw_strata(
            self._schema, self._filled_cells(margin), self._stream, *purpose, strata=strata, mechanisms=mechanisms
        )

    def _filled_cells(self, margin: tuple[str, ...]) -> SparseCounts:
        if margin not in self._sparse:
            self._sparse[margin] = self._open_source().count_sparse(margin)
        return self._sparse[margin]

    def _counts(self, margin: tuple[str, ...]) -> Integers:
        if margin not in self._counted:  # a resumed run that has used up what its journal remembers
            self._counted[margin] = narrowed(self._merged(self._scan([margin])[0].values, margin))
        return self._counted[margin].astype(np.int64)

    def _scan(self, margins: Sequence[tuple[str, ...]]) -> list[Counts]:
        return self._open_source().count(list(margins), progress=self._progress)

    def _open_source(self) -> Source:
        if self._source is None:
            raise InputError(
                "this run stopped before everything was measured. Give the same data again (--source FILE); what was "
                "charged already covers it, and values already measured are kept."
            )
        if self._unchecked:
            self._unchecked = False
            same = self._records is None or self._source.total() == self._records
            if not same or any(
                not np.array_equal(self._source.count([margin])[0].values, values)
                for margin, values in self._public.items()
            ):
                raise InputError(OTHER_DATA)
        return self._source


def merge_cells(table: Integers, axis: int, codes: Sequence[int]) -> Integers:
    """Counts with the codes of one axis merged: cells of the same new code are added up.

    >>> merge_cells(np.array([[1, 2, 3], [4, 5, 6]]), 1, (0, 0, 1)).tolist()
    [[3, 3], [9, 6]]
    """
    first = np.moveaxis(table, axis, 0)
    merged = np.zeros((max(codes) + 1, *first.shape[1:]), dtype=np.int64)
    np.add.at(merged, np.array(codes), first)
    return np.moveaxis(merged, 0, axis)
