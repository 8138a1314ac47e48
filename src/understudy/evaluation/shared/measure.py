"""The registry of measures: each takes a ``Comparison`` and gives a ``Section``.

What a measure cannot compute goes into the ``omissions`` of its section, with the reason, or it raises.
"""

from __future__ import annotations

from collections.abc import Callable

from understudy.core.registry import Registry
from understudy.core.result import Section
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.shared.results import Collected, frame

__all__ = ["Collected", "Comparison", "Measure", "frame", "measures"]  # all that a new measure needs

Measure = Callable[[Comparison], Section]
measures: Registry[Measure] = Registry("measure", "understudy.evaluation.measures")
