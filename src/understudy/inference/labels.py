"""The labels of answers, from the best to the worst. The proving ground counts how often each holds the truth.

``valid``: meant so that 95 of 100 intervals hold the population's real value, for a question that was not chosen by its
answer; docs/proving.md says how often they did.
``range``: the interval holds every value that the release leaves open (where in its bin a number lies, what no measured
table tells); it covers at least what it says.
``selection not modelled``: as ``valid``, but the measured tables were chosen by noisy looks at the same records, or
some of them joined after others could be seen, and the question may have been chosen by looking at those.
``model-based``: rests on an assumption that the warnings name: a prior, no interactions beyond those measured, a
density inside bins, rows that are independent, or the word of whoever made the tables.
``not determined``: no measured table tells this quantity, and no bound on it is known.
"""

from __future__ import annotations

from collections.abc import Iterable

VALID = "valid"
RANGE = "range"
SELECTION = "selection not modelled"
MODEL = "model-based"
NOT_DETERMINED = "not determined"
REFUSED = "refused"
MEANINGS = {  # for people who read an answer
    VALID: "meant so that 95 of 100 such intervals hold the real value (or as many as the level says)",
    RANGE: "the interval holds every value that the noisy tables leave open, so it is wide",
    SELECTION: "as valid, but only if the question or the tables were not chosen by looking at these numbers",
    MODEL: "rests on an assumption, which a remark names; it can be wrong more often than stated",
    NOT_DETERMINED: "no noisy table tells this",
}
LABELS = (VALID, RANGE, SELECTION, MODEL, NOT_DETERMINED)


def worst(labels: Iterable[str]) -> str:
    """The lowest of several labels.

    >>> worst(["valid", "model-based", "range"])
    'model-based'
    """
    return max(labels, key=LABELS.index)
