"""From measurements to rows, for every method that measures margins: one model, or one for each stratum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.privacy.promise.plan import Plan
from understudy.synth.shared.margins import Margin, rows_law, synthesis_from
from understudy.synth.shared.method import Synthesis
from understudy.synth.shared.strata import Strata, synthesis_in_strata


def synthesis_of(
    plan: Plan, strata: Strata, measured: Sequence[Measurement], *, total: float, stream: Stream, draws: str,
    rows_by: str | None, known: dict[Margin, NDArray[np.int64]] | None = None, notes: tuple[str, ...] = (),
    modelled: Sequence[Measurement] | None = None,
) -> Synthesis:  # fmt: skip
    """Everything measured is fitted together, and the copies are drawn: post-processing.

    ``modelled``: what rows are fitted to, where no model holds everything that was measured for ``infer``.
    """
    law, public = rows_law(draws, rows_by), known or {}
    used = measured if modelled is None else modelled
    if len(used) < len(measured):
        notes = (*notes, f"Rows follow {len(used)} of the {len(measured)} measured tables; infer reads all of them.")
    if strata.names:
        made = synthesis_in_strata(
            plan, strata, used, total=total, rows_by=law, stream=stream, known=public, notes=notes
        )
    else:
        made, _ = synthesis_from(
            plan, strata.schema, used, total=total, rows_by=law, stream=stream, known=public, draws=draws, notes=notes
        )
    return replace(made, measurements=tuple(measured))
