"""Times of day and durations, written as 8:30 or 08:30:15: whole minutes or seconds since 0:00, for an attribute with
``clock``.
"""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING

from understudy.errors import SchemaError

if TYPE_CHECKING:
    from understudy.core.schema import Attribute

CLOCKS = {"minutes": 60, "seconds": 1}  # how many seconds each counts
DAY_SECONDS = 24 * 60 * 60
PATTERN = re.compile(r"(\d{1,5}):([0-5]\d)(?::([0-5]\d)(?:[.,]\d+)?)?(?:\s*([AaPp])\.?[Mm]\.?)?", re.ASCII)


def clock_number(text: str, clock: str) -> int | None:
    """The minutes or seconds of a text; None if it is no time. What is smaller is left out, as the time of a date is.

    >>> clock_number("8:30 PM", "minutes"), clock_number("26:00:10", "seconds"), clock_number("8.30", "minutes")
    (1230, 93610, None)
    """
    found = PATTERN.fullmatch(text.strip())
    if found is None:
        return None
    hours, half = int(found[1]), found[4]
    if half is not None:
        if not 1 <= hours <= 12:
            return None
        hours = hours % 12 + 12 * (half in "Pp")
    return (3600 * hours + 60 * int(found[2]) + int(found[3] or 0)) // CLOCKS[clock]


def clock_text(number: int, clock: str) -> str:
    """The text of a number of minutes or seconds.

    >>> clock_text(510, "minutes"), clock_text(93610, "seconds")
    ('08:30', '26:00:10')
    """
    minutes, seconds = divmod(number * CLOCKS[clock], 60)
    text = f"{minutes // 60:02d}:{minutes % 60:02d}"
    return text if clock == "minutes" else f"{text}:{seconds:02d}"


def take_clock(attribute: Attribute) -> None:
    """Checks what an attribute says about its clock, and makes numbers of the times that it is described by."""
    where, clock = f"attribute '{attribute.name}'", attribute.clock
    parts = ("edges", "bounds", "spikes", "cuts")
    if not clock:
        if any(isinstance(one, datetime.time) for part in parts for one in getattr(attribute, part)):
            raise SchemaError(f'{where}: times such as 08:00:00 go with clock = "minutes" or clock = "seconds".')
        return
    if clock not in CLOCKS:
        raise SchemaError(f'{where}: clock ({clock!r}) must be "minutes" or "seconds".')
    object.__setattr__(attribute, "integer", True)
    for part in parts:
        object.__setattr__(attribute, part, tuple(_number(one, clock) for one in getattr(attribute, part)))
    ends = (*attribute.edges, *attribute.bounds)
    if not ends or not all(isinstance(one, int | float) and one >= 0 for one in ends):
        raise SchemaError(f"{where}: a clock needs edges or bounds that are times, or numbers of {clock} from 0 on.")


def _number(value: object, clock: str) -> object:
    if not isinstance(value, datetime.time):
        return value
    return (3600 * value.hour + 60 * value.minute + value.second) // CLOCKS[clock]
