"""What a steward demands of a release before it is made: `[criteria]` of a plan, each with a name and a number.

Criteria are written down before the data are touched, from public facts and from what the release is for. They say
nothing about the data, so they are public, and the hash of the plan covers them: they cannot be fitted to what came
out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from understudy.errors import InputError, unknown_name

AT_MOST, AT_LEAST = "at_most", "at_least"
# The name of each criterion, and what is compared with its number.
CRITERIA: Mapping[str, str] = {
    "epsilon_at_most": "epsilon of the whole release",
    "delta_at_most": "delta of the whole release",
    "pairs_good_percent_at_least": "percent of the tables of two attributes that are good",
    "pairs_poor_percent_at_most": "percent of the tables of two attributes that are poor",
    "told_apart_percent_at_most": "percent of pairs of a real and a synthetic row that a classifier tells apart",
    "gain_per_1000_at_most": "people of 1,000 about whom an intruder is right because they took part (upper end)",
    "told_false_per_1000_at_most": "people of 1,000 about whom something false would be believed",
}


def checked_criteria(given: object) -> dict[str, float]:
    """The criteria, if each has a known name and a number that can be met.

    >>> checked_criteria({"epsilon_at_most": 2})
    {'epsilon_at_most': 2.0}
    """
    if not isinstance(given, Mapping):
        raise InputError("criteria must be a table of names and numbers, such as epsilon_at_most = 1.")
    found: dict[str, float] = {}
    for name, number in given.items():
        if name not in CRITERIA:
            raise unknown_name("criterion", str(name), CRITERIA)
        found[name] = _number(name, number)
    return found


def _number(name: str, number: Any) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number) or number < 0:
        raise InputError(f"criterion {name} ({number!r}) must be a number of at least 0.")
    limit = 100 if "percent" in name else 1000 if "per_1000" in name else math.inf
    if number > limit:
        raise InputError(f"criterion {name} ({number!r}) must be at most {limit}.")
    return float(number)
