"""The part of a gate that counts clusters: charge, count pairs of neighbours and sizes, add noise, journal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.counts import ClusterCounts, Clustered
from understudy.core.measurement import NEIGHBOURS, SIZES, Measurement
from understudy.core.mechanism import Mechanism
from understudy.errors import InternalError, UnsupportedError
from understudy.privacy.gate.discovering import DiscoveringGate
from understudy.privacy.gate.journal import pack_array, unpack_array
from understudy.privacy.promise.event import Sensitivity
from understudy.privacy.promise.sensitivity import clusters_sensitivity


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQuery:
    """What is counted of clusters: rows and their neighbours in classes of one attribute, or, without one, sizes.

    ``classes``: for each code of the attribute the public class it is counted in.
    """

    margin: tuple[str, ...]
    mechanism: Mechanism
    label: str
    classes: tuple[int, ...] = ()

    @property
    def cells(self) -> str:
        """What the values are, as a measurement says it."""
        return NEIGHBOURS if self.margin else SIZES


class ClusterGate(DiscoveringGate):
    """A gate to data whose rows come in clusters."""

    _clusters: ClusterCounts | None = None

    def count_clusters(self, queries: Sequence[ClusterQuery]) -> list[Measurement]:
        """Measure neighbours in clusters, and their sizes. All queries are charged before the first is drawn.

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
        InternalError
            If the classes are not those of the attribute.
        """
        for query in queries:
            if query.margin:
                (name,) = query.margin
                groups = query.classes
                if len(groups) != self._schema[name].size or set(groups) != set(range(max(groups) + 1)):
                    raise InternalError(f"'{name}' has {self._schema[name].size} codes; these are not classes of them.")
        for query in queries:
            event = self._noise_event(query.label, query.mechanism, self._sensitivity_in_clusters(query.cells))
            self._charge("measure", query.label, query.margin, event)
        last = len(queries)
        return [
            self._count_of_clusters(query, queries, more=number < last) for number, query in enumerate(queries, start=1)
        ]

    def require_clusters(self) -> None:
        """Refuse data whose clusters cannot be counted, if the plan asks for that; before anything is charged.

        Raises
        ------
        UnsupportedError
            If the engine cannot count clusters.
        """
        design = self._schema.design
        asked = design is not None and design.measure_effects and self._plan.finding
        if asked and design is not None and not self._replay:
            self._clustered().require_clusters(design.clusters)

    def _sensitivity_in_clusters(self, cells: str) -> Sensitivity:
        return clusters_sensitivity(self._schema.design, self.unit, cells)

    def _count_of_clusters(self, query: ClusterQuery, queries: Sequence[ClusterQuery], *, more: bool) -> Measurement:
        remembered = self._remembered("measurement", query.label)
        if remembered is not None:
            same = remembered["margin"] == list(query.margin) and remembered["cells"] == query.cells
            self._require_charged(same and remembered["mechanism"] == query.mechanism.to_json())
            values = unpack_array(remembered["values"])
        else:
            if self._clusters is None:
                design = self._schema.design
                assert design is not None  # noqa: S101 - the sensitivity was derived from it
                classes = {one.margin[0]: one.classes for one in queries if one.margin}
                self._clusters = self._clustered().count_clusters(
                    design.clusters, classes, largest=design.largest_cluster, within=design.sampling_strata,
                    stream=self._stream,
                )  # fmt: skip
            counted = self._clusters
            true = counted.neighbours[query.margin[0]] if query.margin else counted.sizes
            values = query.mechanism.run(np.asarray(true, np.int64), self._stream)
            self._write("measurement", {
                "label": query.label, "margin": list(query.margin), "cells": query.cells,
                "mechanism": query.mechanism.to_json(), "values": pack_array(values),
            }, more=more)  # fmt: skip
        return Measurement(
            margin=query.margin, values=values, mechanism=query.mechanism, cells=query.cells, label=query.label
        )

    def _clustered(self) -> Clustered:
        source = self._open_source()
        if not isinstance(source, Clustered):
            raise UnsupportedError(
                f"{type(source).__name__} cannot count clusters. Declare design_effects instead of measure_effects, or "
                "use the embedded engine."
            )
        return source
