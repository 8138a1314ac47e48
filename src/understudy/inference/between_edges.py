"""Shares and numbers of people with a bound that is not a bin edge, from the answers at the edges on both sides of it.

The smaller answer counts people who surely meet the condition, the larger one those who may. The truth lies between
the two true values. So the lower end of the smaller answer and the upper end of the larger one cover it at least as
often as stated. The estimate in between depends on the density inside the bin. See docs/theory/noise-aware.md.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import numpy as np

from understudy.core.questions import Question
from understudy.inference.answer import Answer
from understudy.inference.labels import RANGE, worst


def between_edges(question: Question, least: Answer | None, most: Answer) -> Answer:
    """The answer to a question with bounds inside bins; ``least`` is None if nobody surely meets it. The label is
    that of the worse answer, and at best ``range``."""
    # How far the estimate lies from the least to the largest answer: by the density of the people who may have the
    # value. Of people who may be in a subgroup it is open which way they move a share.
    parts = [
        1 - cut.part if place else cut.part
        for place, atom in enumerate(question.atoms)
        if atom.condition is not None
        for cut in atom.condition.cuts
    ]
    part = fmean(parts or [0.5])
    bins = ", ".join(sorted({cut.name for cut in question.cuts}))
    said = f"a bound lies inside a bin of {bins}: the interval allows for every position of people inside that bin"
    nobody = tuple(replace(one, value=0.0, low=0.0, high=0.0) for one in most.estimates)
    lower = nobody if least is None else least.estimates
    smaller = 0.0 if least is None or least.draws is None else least.draws
    return replace(
        most,
        question=question.text,
        estimates=tuple(
            replace(low, value=low.value + part * (high.value - low.value), high=max(low.high, high.high))
            for low, high in zip(lower, most.estimates, strict=True)
        ),
        standard_errors=tuple(map(max, (least or most).standard_errors, most.standard_errors)),
        information=(None,) * len(lower),
        labels=tuple(worst((*both, RANGE)) for both in zip((least or most).labels, most.labels, strict=True)),
        warnings=tuple(dict.fromkeys((*(least.warnings if least else ()), *most.warnings, said))),
        draws=None if most.draws is None else np.asarray(smaller + part * (most.draws - smaller)),
    )
