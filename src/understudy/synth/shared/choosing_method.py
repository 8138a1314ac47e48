"""Options that methods share; and, for methods that choose their tables, rows drawn again from the measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.core.schema import Schema
from understudy.errors import InputError
from understudy.privacy.promise.definition import Unit
from understudy.privacy.promise.plan import Option, Plan
from understudy.synth.shared.margin_methods import check_rows, drawn_option, rows_law, total_of
from understudy.synth.shared.merged_bins import Refined, check_refined, refuse_without_model
from understudy.synth.shared.method import Synthesis
from understudy.synth.shared.required_tables import Musts, Required
from understudy.synth.shared.strata import read_strata, synthesis_of

AGAIN = "again "  # the labels of tables that were chosen after others had been measured begin with this
FEWEST_CELLS, MOST_CELLS = 1_000, 20_000_000  # that a model may be limited to


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedMethod:
    """The options of every method that fits a model to noisy tables and draws rows from it."""

    rows_by: str | None = None
    """How synthetic rows are drawn from the model: ``rounding`` (low variance; the default) or ``multinomial``
    (independent rows; the default of ``draws = posterior``)."""
    strata: str = ""
    """Attributes whose combinations get a model each, for example ``region`` or ``region+sex``; empty: one model for
    all rows."""
    draws: str = "fit"
    """How copies differ: ``fit`` (all are drawn from one fitted model) or ``posterior`` (each is drawn from its own
    draw of the noise-aware posterior, so that the combining rule ``T_f*`` reads them; needs two copies or more)."""
    must: str = ""
    """What must be answerable, one item per line: questions such as ``crosstab(sex, age)``, formulas,
    ``predict(income)``. It is added to what the schema asks for."""
    must_share: str | None = None
    """The share of the budget that is set aside for the tables that this needs: by default 0.5, and 0.7 where the
    schema has a survey weight."""
    must_rows: bool = True
    """Whether rows follow these tables too, as far as a model holds them; ``false``: they are for ``infer`` alone,
    unless the method chooses them as well."""

    @property
    def _musts(self) -> Musts:
        return Musts(must=self.must, must_share=self.must_share, must_rows=self.must_rows)

    def _options_of_rows(self, required: Required) -> dict[str, Option]:
        """The options of a plan that say how rows are drawn and what must be answerable."""
        law = {"rows_by": rows_law(self.draws, self.rows_by), **drawn_option(self.draws)}
        return {**law, **self._musts.options(required)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RefiningMethod(FittedMethod):
    """The same for methods that can merge fine bins first.

    Raises
    ------
    InputError
        If an option is not what it should be, or options do not go together.
    """

    refine: str = ""
    """Numeric attributes whose fine public bins are merged by noisy counts, and into how many bins each: ``age:8,
    income:10``. A tenth of the budget pays for it."""

    def __post_init__(self) -> None:
        check_refined(self.refine, self.draws)
        check_rows(self.draws, self.rows_by)
        self._musts  # noqa: B018 - checks the options

    def _refined(self) -> Refined:
        method: Any = replace(self, refine="")
        return Refined(method=method, refine=self.refine)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoosingMethod(RefiningMethod):
    """The options of ``aim``, ``mst`` and ``one_look``. A method adds its own, and its own limit of the model.

    Raises
    ------
    InputError
        If an option is not what it should be, or options do not go together.
    """

    strata: str = ""
    """Attributes whose combinations get a model each, for example ``region`` or ``region+sex``; empty: one model for
    all rows. The same tables are chosen for all."""
    model_cells: int = 1_000_000
    """The largest model that may be fitted, in cells of all its tables together."""

    def __post_init__(self) -> None:
        RefiningMethod.__post_init__(self)  # super() does not work in a class with slots
        if self.draws == "posterior" and self.strata:
            raise InputError("draws = posterior is for one model of all rows; leave strata out.")
        if not FEWEST_CELLS <= self.model_cells <= MOST_CELLS:
            raise InputError(f"model_cells ({self.model_cells}) must be between {FEWEST_CELLS:,} and {MOST_CELLS:,}.")

    def _modelled(self, required: Required, unit: Unit, measured: Sequence[Measurement]) -> list[Measurement]:
        """The required tables that the model holds."""
        return required.in_model(measured, self.model_cells, [required.schema.margin(unit.fixed)])

    def redraw(
        self, plan: Plan, schema: Schema, measured: Sequence[Measurement], records: int | None, stream: Stream
    ) -> Synthesis:
        """Tables from the measurements. This is post-processing: it may be repeated, and costs no privacy."""
        refuse_without_model(self.refine)
        required = self._musts.read(schema, plan.unit)
        return synthesis_of(
            plan, read_strata(schema, self.strata), measured, total=total_of(schema, records, measured), stream=stream,
            draws=self.draws, rows_by=self.rows_by, modelled=self._modelled(required, plan.unit, measured),
        )  # fmt: skip
