"""Texts in CSV files, so that no spreadsheet takes one for a formula.

A spreadsheet that opens a CSV file computes every cell that begins with =, +, - or @, and a formula can fetch a page or
start a program. Levels, labels, notes and column names are texts that somebody else may have written. Such a text gets
an apostrophe in front, as OWASP recommends ("CSV Injection"). A number is never changed: -5 stays -5.

One apostrophe more is also put before a text that begins with apostrophes and then such a character. So two different
texts stay different, and ``from_cell`` undoes ``as_cell`` for every text.
"""

from __future__ import annotations

import re

# The beginning of a formula. A tab or new line before it is dropped on import, and wide forms count as narrow ones.
BEGINS = "'*[=+\\-@\\t\\r\\n\uff1d\uff0b\uff0d\uff20]"  # also understood by RE2, which Arrow uses
NUMBER = "[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)([eE][+-]?[0-9]+)?"
_BEGINS, _NUMBER = re.compile(BEGINS), re.compile(NUMBER)


def as_cell(text: str) -> str:
    """A text as a CSV file holds it.

    >>> [as_cell(text) for text in ("=1+1", "-5", "- none", "F")]
    ["'=1+1", '-5', "'- none", 'F']
    """
    return f"'{text}" if _BEGINS.match(text) and not _NUMBER.fullmatch(text) else text


def from_cell(text: str) -> str:
    """The text that ``as_cell`` was given.

    >>> from_cell(as_cell("'=1+1"))
    "'=1+1"
    """
    return text[1:] if text.startswith("'") and _BEGINS.match(text) else text
