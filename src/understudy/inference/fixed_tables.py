"""Tables that were measured whatever a method chose: answers from them are free of selection.

A method that chooses on the way looks at the data, with noise, before it decides what to measure. Tables that its plan
names with their margin were measured in any case, with noise that the plan states. Their likelihood is that noise and
nothing else, so what follows from them alone is valid (docs/theory/required-tables.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from understudy.core.measurement import Measurement
from understudy.inference.estimands import Estimand
from understudy.inference.noise_aware import is_share
from understudy.models.effects import names_in
from understudy.release.table_release import Release

Margin = tuple[str, ...]


def fixed_beforehand(release: Release) -> tuple[Measurement, ...]:
    """The measurements that an adaptive plan names beforehand; none for a plan that is not adaptive."""
    plan = release.provenance.plan
    if plan is None or not plan.adaptive:
        return ()
    named = {
        (step.label, step.margin)
        for step in plan.steps
        if step.action == "measure" and step.repeats == 1 and (step.margin or step.cells)
    }
    return tuple(one for one in release.measurements if (one.label, one.margin) in named)


def without_selection(release: Release, estimand: Estimand) -> Release | None:
    """The release with the tables that were fixed beforehand, if they tell as much about a question; else None.

    They do in three cases. One of them holds all attributes of the question. Or no measured table does, and every pair
    of attributes is in one of them. Or a share is asked for and some pair is in no table at all, which leaves a range.
    """
    fixed = fixed_beforehand(release)
    margins = [one.margin for one in fixed]
    wanted = set(estimand.margin)
    if any(wanted <= set(margin) for margin in margins):
        return replace(release, measurements=fixed)
    chosen = any(wanted <= set(one.margin) for one in release.measurements)
    everything = [one.margin for one in release.measurements]
    if is_share(estimand) and not joined(everything, estimand.margin) and wanted <= names_in(margins):
        return replace(release, measurements=fixed)
    return replace(release, measurements=fixed) if not chosen and joined(margins, estimand.margin) else None


def joined(margins: Sequence[Margin], wanted: Margin) -> bool:
    """Whether some tables hold every two attributes of a question together."""
    return all(any(set(pair) <= set(margin) for margin in margins) for pair in combinations(wanted, 2))
