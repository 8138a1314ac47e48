"""Data that do not fit their schema: counted over the whole source, reported once, and never quoted."""

from __future__ import annotations

from collections import Counter
from typing import Any

from understudy.errors import SchemaError

# A value that has no code gets one of these marks instead; codes themselves are never negative.
UNKNOWN, OUTSIDE, MISSING, NOT_NUMBER, NOT_WHOLE, NOT_DATE, DISAGREES, NO_WEIGHT = -1, -2, -3, -4, -5, -6, -7, -8
WORDS = {
    UNKNOWN: "a level that is not listed",
    OUTSIDE: "a value outside the edges",
    MISSING: "a missing value where none is allowed",
    NOT_NUMBER: "a value that is not a number",
    NOT_WHOLE: "a value that is not a whole number",
    NOT_DATE: "a value that is not a date (YYYY-MM-DD)",
    DISAGREES: "a value that disagrees with its rule",
    NO_WEIGHT: "a weight that is negative, zero, missing or infinite",
}
WRITTEN_MISSING = "if a CSV writes missing values as a text such as NA, say so (--missing-text NA)"
DECIMAL_COMMAS = "for a CSV with decimal commas say decimal_comma=True (--decimal ,)"
ADVICE = {
    UNKNOWN: f'list the level, or say outside = "missing"; {WRITTEN_MISSING}',
    OUTSIDE: 'widen the public edges or bounds, or say outside = "clip" or "missing" (a weight is never missing)',
    MISSING: "say missing = true if a missing value is possible",
    NOT_NUMBER: (
        f"numbers are written 1234.5; {WRITTEN_MISSING}; a text that stands beside numbers is a special code, as in "
        'special = { N = "not applicable" }'
    ),
    DISAGREES: "correct the rule of the derived attribute, or leave the column out of the data",
    NO_WEIGHT: "every row needs a positive finite weight: leave out rows of people who did not take part",
    NOT_DATE: (
        "dates are written with the year first, or in the one order that dates (dmy, mdy) under [file] says; convert "
        "the others where they come from"
    ),
}


class Violations:
    """How many rows break the schema, by attribute and kind. Row counts and public names only, never a value."""

    def __init__(self, *, commas_possible: bool = True) -> None:
        self._commas_possible = commas_possible  # whether decimal commas might be why numbers cannot be read
        self._values: Counter[tuple[str, int]] = Counter()
        self._rules: Counter[str] = Counter()

    def add_value(self, attribute: str, mark: int, rows: int) -> None:
        self._values[attribute, mark] += rows

    def add_rule(self, description: str, rows: int) -> None:
        """Rows in a combination that a structural zero says cannot occur, or that a rule forbids."""
        self._rules[description] += rows

    def to_json(self) -> dict[str, list[list[str | int]]]:
        """What was found, for another process to add to its own."""
        return {
            "values": [[name, mark, rows] for (name, mark), rows in self._values.items()],
            "rules": [[rule, rows] for rule, rows in self._rules.items()],
        }

    def add_json(self, found: dict[str, list[list[Any]]]) -> None:
        for name, mark, rows in found["values"]:
            self.add_value(name, mark, rows)
        for rule, rows in found["rules"]:
            self.add_rule(rule, rows)

    def __bool__(self) -> bool:
        return bool(self._values.total() or self._rules.total())

    def check(self) -> None:
        """Raise one error about everything that was found, if anything was."""
        if not self:
            return
        lines = [
            f"  {name}: {_rows(rows)} with {WORDS[mark]}" for (name, mark), rows in sorted(self._values.items()) if rows
        ]
        lines += [f"  {rule}: {_rows(rows)}" for rule, rows in sorted(self._rules.items()) if rows]
        marks = sorted({mark for (_, mark), rows in self._values.items() if rows and mark in ADVICE}, reverse=True)
        told = [ADVICE[mark] for mark in marks]
        if NOT_NUMBER in marks and self._commas_possible:
            told.append(DECIMAL_COMMAS)
        advice = "; ".join(dict.fromkeys("; ".join(told).split("; ")))  # each remedy once
        raise SchemaError(
            "the data do not fit the schema (values are confidential and not shown):\n"
            + "\n".join(lines)
            + f"\nCorrect the data, or the schema{f': {advice}' if advice else ''}."
        )


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"
