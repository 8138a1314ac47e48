"""A model that is updated after every measurement, only as accurately as the choice of the next one needs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from understudy.core.arrays import Floats
from understudy.core.measurement import Measurement
from understudy.core.schema import Schema
from understudy.models.fit import Known, build_tree, layout, problem_for, structural_groups, tables_of
from understudy.models.junction_tree import Margin, cells_with
from understudy.models.model import Model

ROUGHLY = 0.2  # noise standard deviations: what is left of a table then adds a twenty-fifth to its noise
MOST_ITERATIONS = 100  # of one refit: nearly always far fewer, as it starts from where it was


class Tracker:
    """The current model of an adaptive method; ``prior`` is the prior strength, in records, while choosing."""

    def __init__(
        self, schema: Schema, measured: Sequence[Measurement], *, known: Known, total: float, prior: float
    ) -> None:
        self._schema = schema
        self._measured = list(measured)
        self._known = known
        self._total = total
        self._prior = prior
        self._sizes = dict(zip(schema.names, schema.shape(), strict=True))
        self._margins: tuple[Margin, ...] = ()
        self._effects: dict[Margin, Floats] = {}
        self._cells: dict[Margin, float] = {}
        self._refit()

    @property
    def model(self) -> Model:
        return self._model

    def add(self, measurement: Measurement) -> None:
        known = measurement.margin in self._margins
        self._measured.append(measurement)
        if not known:
            self._cells = {}
        self._refit()

    def cells_with(self, margins: Sequence[Margin]) -> Floats:
        """Cells of the model if one of these margins were added, for each of them."""
        unknown = [margin for margin in margins if margin not in self._cells]
        apart = []
        for margin in unknown:
            if self._model.tree.host(margin) is None:
                apart.append(margin)
            else:  # its attributes share a clique already
                self._cells[margin] = float(self._model.tree.cells)
        self._cells.update(zip(apart, cells_with(self._sizes, self._groups(), apart), strict=True))
        return np.array([self._cells[margin] for margin in margins])

    def _groups(self) -> list[Margin]:
        return [*self._margins, *structural_groups(self._schema)]

    def _refit(self) -> None:
        noisy = layout(tables_of(self._measured, self._known))
        tree = build_tree(self._schema, noisy.margins)
        problem = problem_for(self._schema, tree, noisy)
        solved = problem.solve(
            noisy.values, noisy.noise, self._total, self._prior, start=problem.vector(self._effects),
            tolerance=ROUGHLY, max_iterations=MOST_ITERATIONS, settled=ROUGHLY,
        )  # fmt: skip
        self._margins, self._effects = noisy.margins, problem.effects(solved.vector)
        self._model = Model(tree=tree, beliefs=tuple(solved.beliefs), total=self._total)
