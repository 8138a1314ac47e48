"""A release beside the confidential data: read once, checked once, and given to every measure and every attack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.core.arrays import Flags, Floats, Integers
from understudy.core.counts import Source
from understudy.core.formula import parse_formula
from understudy.core.result import Section
from understudy.core.schema import Schema
from understudy.core.table import CodedTable
from understudy.errors import InputError, UnsupportedError
from understudy.evaluation.inputs.checks import check_measures, check_names, require_same_codes, weights_of_ranks
from understudy.evaluation.inputs.records import (
    Records,
    decided_by_schema,
    null_copies,
    places_by_marginality,
    records_of,
    refuse_overlap,
    span_of,
    usual_keys,
)
from understudy.models.coded_regression import check_functions
from understudy.privacy.promise.conversion import cdp_epsilon
from understudy.privacy.promise.definition import ZCDP, ApproxDP, ProbabilisticDP, PureDP
from understudy.privacy.randomness.streams import SeededStream
from understudy.release import Release

DELTA_OF_ZCDP = Fraction(1, 10**6)  # at which a concentrated guarantee is read as an approximate one
MOST_LEARNT, WIDE = 10_000, 12  # rows a classifier learns from; fewer, where there are more attributes than this
PERMUTATIONS, FEW_PERMUTATIONS = 10, 3  # of the labels that a classifier learns; the fewer, where there are as many
DIFFERENCES = 4e8  # differences between values that an attack computes for one table: some CPU seconds
THOROUGH = 10.0  # times as many in a thorough evaluation
FEWEST_ASKED = 500  # people, whatever it takes
REFIT_SECONDS, THOROUGH_SECONDS = 30.0, 450.0  # CPU time for making the release again


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Comparison:
    """A release beside the confidential data it is measured against, all as codes of one schema. Confidential.

    Measures read the tables (``original``, ``copies``, ``holdout``). Attacks read the same rows as records with
    positions (``people``, ``tables``, ``outsiders``), made when first asked for.
    """

    release: Release
    """The release."""
    original: CodedTable
    """The confidential rows, as codes."""
    original_rows: pa.Table
    """The same rows as they stand in the data."""
    copies: tuple[CodedTable, ...]
    """The synthetic tables, as codes."""
    holdout: CodedTable | None = None
    """People of the same population who were not used, as codes."""
    holdout_rows: pa.Table | None = None
    """The same people as they stand in the data."""
    models: tuple[str, ...] = ()
    """Regressions to compare."""
    ways: tuple[int, ...] = (1, 2, 3)
    """The numbers of attributes of the compared tables."""
    null: str = "auto"
    """How propensity scores are standardised."""
    permutations: int = PERMUTATIONS
    """How many permutations, where they are standardised so."""
    largest: int = MOST_LEARNT
    """Rows of each side that a classifier learns from."""
    keys: tuple[str, ...] = ()
    """What an intruder knows."""
    targets: tuple[str, ...] = ()
    """What an intruder wants to know."""
    synthesizer: Callable[[Any], Any] | None = None
    """Makes a synthetic Arrow table from one, for the shadow-model attack."""
    refit: Callable[[pa.Table, int], Release] | None = None
    """Runs the plan of the release on other rows; the number decides the draws."""
    no_refit: str = ""
    """Why it cannot be run again."""
    thorough: bool = False
    """Whether such runs may take longer, and more people are attacked."""
    rank_weights: tuple[float, ...] = ()
    """How much each attribute counts where ranks are compared; empty: all alike."""
    seed: int = 0
    """Decides which people are attacked, where not all are."""
    rows_together: float = 1.0
    """How many rows are in the data, or in the holdout, together: they are worth one in an interval over a holdout."""
    finished: Callable[[str, Section], None] | None = None
    """Called with a name and what was found, whenever a measure or an attack is finished."""
    whole: Comparison | None = None
    """In a refit: the comparison that it is a part of."""
    kept: Flags | None = None
    """In a refit: who of everybody was kept."""
    compared: Flags | None = None
    """In a refit: who of everybody is compared; the others make the halves equal."""
    once: bool = False
    """Whether kept and left out mean in the data and in the holdout, compared once, in the release itself."""

    @property
    def schema(self) -> Schema:
        """The schema of the release."""
        return self.release.schema

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all attributes."""
        return self.schema.names

    @cached_property
    def people(self) -> Records:
        """The people in the data."""
        return records_of(self.original, self.original_rows, self.schema)

    @cached_property
    def tables(self) -> tuple[Records, ...]:
        """The synthetic tables."""
        return tuple(
            records_of(coded, self.release.frame(copy), self.schema) for copy, coded in enumerate(self.copies, start=1)
        )

    @cached_property
    def independent_tables(self) -> tuple[Records, ...]:
        """As many tables of the same sizes that know the release's own margins and what is public, and nothing else."""
        return null_copies(self.schema, self.tables, self.seed, self.columns(self.public))

    @cached_property
    def outsiders(self) -> Records | None:
        """The people of the holdout: of the same kind, and not in the data."""
        if self.holdout is None or self.holdout_rows is None:
            return None
        return records_of(self.holdout, self.holdout_rows, self.schema)

    def in_refit(
        self, *, asked: Integers, kept: Flags, compared: Flags, tables: tuple[Records, ...], targets: tuple[str, ...]
    ) -> Comparison:
        """Put the same people beside other tables: some as people in the data, others as people who are not.

        Parameters
        ----------
        asked
            Numbers of the people who are attacked one by one.
        kept
            Who of everybody was kept; the others were left out.
        compared
            Who of everybody is compared; nobody else is attacked.
        tables
            The synthetic tables of the refit.
        targets
            What an intruder wants to know.

        Returns
        -------
        Comparison
            A part of this one.
        """
        part = replace(self, whole=self, kept=kept, compared=compared, targets=targets, refit=None, finished=None)
        asked = asked[compared[asked]]
        people, outsiders = (self.people.take(asked[side]) for side in (kept[asked], ~kept[asked]))
        vars(part).update(people=people, outsiders=outsiders, tables=tables)
        return part

    def with_outsiders(self) -> Comparison:
        """Put people in the data and people of the holdout together beside the release, as a refit does.

        Some attacks are right about a person or not depending on who else there is: whether somebody is alone in their
        group, or has a double. If each side were attacked by itself, the one with fewer people would differ from the
        other for that reason alone. Among all of them together a person has the same company on either side.

        Returns
        -------
        Comparison
            Everybody of both sides; those in the data are kept, the others left out.
        """
        outsiders = self.outsiders
        assert outsiders is not None  # noqa: S101 - asked before
        both = (self.people, outsiders)
        everybody = replace(self, once=True, holdout=None, holdout_rows=None)
        vars(everybody).update(
            people=Records(
                codes=np.concatenate([one.codes for one in both]),
                positions=np.concatenate([one.positions for one in both]),
            )
        )
        kept = np.repeat([True, False], [len(one) for one in both])
        return everybody.in_refit(
            asked=np.arange(len(kept)),
            kept=kept,
            compared=np.ones(len(kept), bool),
            tables=self.tables,
            targets=self.targets,
        )

    @property
    def reference(self) -> Records:
        """Those among whom people are ranked and counted: the data, or in a refit everybody who might be in it."""
        return self.people if self.whole is None else self.whole.people

    @property
    def seconds(self) -> float:
        """CPU time for making the release again."""
        return THOROUGH_SECONDS if self.thorough else REFIT_SECONDS

    @property
    def claimed(self) -> tuple[float, float] | None:
        """Epsilon and delta that the release states or that follow from what it states."""
        stated = self.release.statement.guarantee
        if isinstance(stated, PureDP):
            return float(stated.epsilon), 0.0
        if isinstance(stated, ProbabilisticDP):
            stated = stated.implied()
        if isinstance(stated, ApproxDP):
            return float(stated.epsilon), float(stated.delta)
        if isinstance(stated, ZCDP):
            return float(cdp_epsilon(stated.rho, DELTA_OF_ZCDP)), float(DELTA_OF_ZCDP)
        return None

    def covered(self, *margins: Iterable[str]) -> bool | None:
        """Say whether the model behind the release contains margins (Raab's compatibility).

        A measured or drawn margin fixes every table within it; a dependence outside all of them is left to chance.

        Parameters
        ----------
        *margins
            The margins.

        Returns
        -------
        bool | None
            Whether it contains all of them; ``None``: it is not known.
        """
        if not self._known_tables:
            return None
        return all(any(set(margin) <= one for one in self._known_tables) for margin in margins)

    @cached_property
    def _known_tables(self) -> frozenset[frozenset[str]]:
        """The measured and drawn margins that lie within no other: thousands of tables are looked up in them."""
        drawn = [draw["margin"] for draw in self.release.provenance.draws]
        known = {frozenset(margin) for margin in (*(one.margin for one in self.release.measurements), *drawn)}
        return frozenset(one for one in known if not any(one < other for other in known))

    def margins(self, way: int) -> list[tuple[str, ...]]:
        """List every table of a number of attributes, in the schema's order.

        Parameters
        ----------
        way
            How many attributes.

        Returns
        -------
        list[tuple[str, ...]]
            The margins.
        """
        return list(combinations(self.names, way))

    def some_rows(self, table: CodedTable, most: int, purpose: str) -> Integers:
        """Choose which rows of a table a measure uses.

        Parameters
        ----------
        table
            The table.
        most
            How many rows at most.
        purpose
            What is chosen; the same choice every time for one purpose.

        Returns
        -------
        Integers
            All rows, or ``most`` chosen at random, the same ones every time.
        """
        if table.rows <= most:
            return np.arange(table.rows)
        return np.sort(shuffled(table.rows, purpose)[:most])

    @property
    def public(self) -> tuple[str, ...]:
        """Attributes that are known of everybody, by the unit of the guarantee: nobody need learn them."""
        return tuple(name for name in self.names if name in self.release.statement.unit.fixed)

    @property
    def attacked(self) -> tuple[str, ...]:
        """Attributes to be learned: the targets, or every attribute that is neither a key nor public."""
        left = tuple(name for name in self.names if name not in self.keys and name not in self.public)
        return self.targets or left or self.names

    def known(self, target: str) -> tuple[str, ...]:
        """Say what the intruder knows of a person: the keys and what is public, or everything but the target.

        Parameters
        ----------
        target
            What the intruder wants to know.

        Returns
        -------
        tuple[str, ...]
            Names of attributes.
        """
        wanted = self._given if self.keys else set(self.names)
        return tuple(name for name in self.names if name in wanted and name != target)

    def knows(self, *targets: str) -> str:
        """Say in words what the intruder knows of a person.

        Parameters
        ----------
        *targets
            What the intruder wants to know.

        Returns
        -------
        str
            Such as ``sex, age and region``.
        """
        *most, last = [name for name in self.names if self.keys and name in self._given and name not in targets] or [
            "all other answers"
        ]
        return f"{', '.join(most)} and {last}" if most else last

    @property
    def _given(self) -> set[str]:
        return {*self.keys, *self.public}

    @cached_property
    def matching_keys(self) -> tuple[str, ...]:
        """The keys, or those that others usually know of a person, going by the names of the attributes."""
        return self.keys or usual_keys(self.schema, self.public)

    def undecided(self, people: Records, target: str) -> Flags:
        """Tell for whom the public schema leaves the target open, given what the intruder knows.

        Parameters
        ----------
        people
            The people who are attacked.
        target
            What the intruder wants to know.

        Returns
        -------
        Flags
            One for each person.
        """
        return ~decided_by_schema(self.schema, people.codes, target, self.known(target))

    def columns(self, names: tuple[str, ...]) -> list[int]:
        """Find the columns of some attributes.

        Parameters
        ----------
        names
            Names of attributes.

        Returns
        -------
        list[int]
            Their places in the schema, from 0.
        """
        return [self.names.index(name) for name in names]

    def nominal(self, columns: list[int]) -> Flags:
        """Say which columns have no order.

        Parameters
        ----------
        columns
            Places of attributes in the schema.

        Returns
        -------
        Flags
            One flag for each column.
        """
        return np.array([a.kind == "levels" and not a.ordered for a in self.schema.attributes])[columns]

    def spans(self, columns: list[int]) -> Floats:
        """Give weights that make every attribute's range 1 (Gower 1971).

        Parameters
        ----------
        columns
            Places of attributes in the schema.

        Returns
        -------
        Floats
            One weight for each column.
        """
        return np.array([1 / span_of(self.schema.attributes[column]) for column in columns])

    def generator(self, purpose: str) -> np.random.Generator:
        """Give repeatable randomness for choices of whom to attack. Nothing here is released.

        Parameters
        ----------
        purpose
            What is chosen; the same choice every time for one purpose.

        Returns
        -------
        np.random.Generator
            The generator.
        """
        return np.random.default_rng([self.seed, *purpose.encode()])

    def some_people(self, count: int, most: int, purpose: str) -> Integers:
        """Choose the people for an attack.

        Parameters
        ----------
        count
            How many people there are.
        most
            How many are attacked at most.
        purpose
            What is chosen; the same choice every time for one purpose.

        Returns
        -------
        Integers
            Their numbers, in order.
        """
        if count <= most:
            return np.arange(count)
        return np.sort(self.generator(purpose).choice(count, most, replace=False))

    def affordable_people(self, count: int, most: int, purpose: str, *, differences: int) -> Integers:
        """Choose the people for an attack that looks at every record: as many as time allows.

        Parameters
        ----------
        count
            How many people there are.
        most
            How many are attacked at most, unless the evaluation is thorough.
        purpose
            What is chosen; the same choice every time for one purpose.
        differences
            How many differences between values are computed for one person.

        Returns
        -------
        Integers
            Their numbers, in order.
        """
        more = THOROUGH if self.thorough else 1.0
        affordable = max(FEWEST_ASKED, round(more * DIFFERENCES / max(differences, 1)))
        return self.some_people(count, min(round(more * most), affordable), purpose)

    def in_rank_order(self, records: Records) -> Floats:
        """Give the positions by which records are ranked.

        Parameters
        ----------
        records
            The records.

        Returns
        -------
        Floats
            The positions, records by attributes. Unordered levels of which the schema says how far apart they are
            stand at their marginality: their distance to everybody's level (Domingo-Ferrer, Sánchez and
            Rufian-Torrell 2013). Other unordered levels stand as the schema lists them.
        """
        if not self._marginality:
            return records.positions
        positions = records.positions.copy()
        for column, places in self._marginality.items():
            positions[:, column] = places[records.codes[:, column]]
        return positions

    @cached_property
    def _marginality(self) -> dict[int, Floats]:
        """By column: the place of each code, from the least marginal level on; equals as listed, missing last."""
        if self.whole is not None:
            return self.whole._marginality
        return places_by_marginality(self.schema, self.people.codes)

    @property
    def without_order(self) -> tuple[str, ...]:
        """Attributes with three levels or more whose order says nothing, without a tree or distances."""
        return tuple(
            one.name
            for one in self.schema.attributes
            if one.kind == "levels" and not (one.ordered or one.tree or one.distances) and len(one.levels) > 2
        )


def shuffled(count: int, purpose: str | int, *more: str | int) -> Integers:
    """A random order of 0 .. count-1, the same every time it is asked for: evaluations can be repeated."""
    words = SeededStream(2026).words(count, "utility", purpose, *more)
    return np.argsort(words, kind="stable")


def compare(
    release: Release,
    confidential: Source,
    *,
    holdout: Source | None = None,
    models: Sequence[str] = (),
    ways: Sequence[int] = (1, 2, 3),
    null: str = "auto",
    permutations: int | None = None,
    keys: Sequence[str] = (),
    targets: Sequence[str] = (),
    synthesizer: Callable[[Any], Any] | None = None,
    refit: Callable[[pa.Table, int], Release] | None = None,
    no_refit: str = "",
    thorough: bool = False,
    rank_weights: Mapping[str, float] | None = None,
    seed: int = 0,
    rows_together: float | None = None,
    finished: Callable[[str, Section], None] | None = None,
) -> Comparison:
    """Read the data once, and refuse what cannot be compared before anything long is computed.

    ``models`` are regressions such as "income ~ age + sex". ``ways`` are the numbers of attributes of the compared
    tables. ``null`` is how propensity scores are standardised: by formula, by ``permutations``, by pairs of copies, or
    (auto) as fits the classifier. ``keys`` are what an intruder knows and ``targets`` what they want to learn; by
    default each attribute is a target and all others are keys. ``synthesizer`` (a callable from an Arrow table to a
    synthetic one) adds the shadow-model attack. ``refit`` runs the plan of the release on other rows, given the number
    of the run. Without it ``no_refit`` says why. ``thorough`` gives refits more time and attacks more people.
    ``rank_weights`` says how much attributes count where ranks are compared; those not named count 1. ``seed`` decides
    which people are attacked where not all are. ``rows_together`` says how many rows at most belong together, such as
    members of a household; by default those that one person may have by the unit of the release. ``finished`` is called
    with everything that was found as it comes.
    """
    if not isinstance(release, Release):
        raise InputError(f"a release is needed, not a {type(release).__name__}; wrap any synthetic table with us.wrap.")
    schema = release.schema
    width = len(schema.names)
    chosen_ways = check_measures(release, ways, null, permutations)
    chosen_models = (models,) if isinstance(models, str) else tuple(models)
    for model in chosen_models:
        check_functions(schema, parse_formula(model, schema.names))
    check_names(release, keys, targets)
    if thorough and holdout is None and refit is None and no_refit:
        raise UnsupportedError(
            f"a thorough evaluation makes the release again, and this one cannot be: {no_refit}. Give a holdout, or do "
            "not ask for a thorough one."
        )
    copies = tuple(release.coded(copy) for copy in range(1, release.copies + 1))
    for number, copy in enumerate(copies, start=1):
        if not copy.rows:
            raise InputError(f"synthetic table {number} has no rows; there is nothing to compare.")
    original, original_rows = _read(confidential, schema, "the confidential data")
    outside, outside_rows = (None, None) if holdout is None else _read(holdout, schema, "the holdout data")
    comparison = Comparison(
        release=release,
        original=original,
        original_rows=original_rows,
        copies=copies,
        holdout=outside,
        holdout_rows=outside_rows,
        models=chosen_models,
        ways=chosen_ways,
        null=null,
        permutations=permutations or (PERMUTATIONS if thorough or width <= WIDE else FEW_PERMUTATIONS),
        largest=MOST_LEARNT if thorough else round(MOST_LEARNT * min(1.0, WIDE / width) ** 1.5),
        keys=schema.margin(keys),
        targets=schema.margin(targets),
        synthesizer=synthesizer,
        refit=refit,
        no_refit=no_refit,
        thorough=thorough,
        rank_weights=weights_of_ranks(schema, rank_weights),
        seed=seed,
        rows_together=float(release.statement.unit.rows_per_unit) if rows_together is None else rows_together,
        finished=finished,
    )
    if comparison.outsiders is not None:
        refuse_overlap(comparison.people, comparison.outsiders)
    return comparison


def _read(source: Any, schema: Schema, what: str) -> tuple[CodedTable, pa.Table]:
    """Codes and rows from one reading."""
    if not isinstance(source, Source) or not hasattr(source, "confidential_table"):
        raise InputError(f"{what} must be a source; open them with understudy.open_source(data, release.schema).")
    require_same_codes(source.schema, schema, what)
    table, rows = source.confidential_table()
    if not table.rows:
        raise InputError(f"{what} have no rows; there is nothing to compare.")
    return CodedTable(schema=schema, columns=table.columns), rows
