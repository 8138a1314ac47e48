"""From measurements to rows, for every method that measures margins: one model, or one for each stratum."""

from __future__ import annotations

from collections.abc import Sequence

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
) -> Synthesis:  # fmt: skip
    """Everything measured is fitted together, and the copies are drawn: post-processing."""
    law, public = rows_law(draws, rows_by), known or {}
    if strata.names:
        return synthesis_in_strata(
            plan, strata, measured, total=total, rows_by=law, stream=stream, known=public, notes=notes
        )
    return synthesis_from(
        plan, strata.schema, measured, total=total, rows_by=law, stream=stream, known=public, draws=draws, notes=notes
    )[0]
