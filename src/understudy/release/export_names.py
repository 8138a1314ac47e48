"""Names and labels that fit Stata and SPSS."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Words of Stata and SPSS that cannot be the name of a variable, in lower case.
RESERVED = frozenset(
    {
        "_all",
        "_b",
        "_coef",
        "_cons",
        "_n",
        "_pi",
        "_pred",
        "_rc",
        "_skip",
        "byte",
        "double",
        "float",
        "if",
        "in",
        "int",
        "long",
        "strl",
        "using",
        "with",
        "all",
        "and",
        "by",
        "eq",
        "ge",
        "gt",
        "le",
        "lt",
        "ne",
        "not",
        "or",
        "to",
    }
)
RULE = (
    "A name keeps letters A-Z, digits and underscores; every other character becomes an underscore. A name that begins "
    "with anything but a letter, or is a word of Stata or SPSS, gets 'v_' in front. It is cut to {length} characters; "
    "if it is then taken (small and capital letters count as one) it ends in _2, _3 and so on."
)


def short_names(names: Sequence[str], length: int) -> dict[str, str]:
    """A name of its own for each column, valid in Stata and SPSS. Names that are valid already are never changed.

    >>> short_names(["age", "Age at death", "age-at-death", "9", "if"], 12)
    {'age': 'age', 'Age at death': 'Age_at_death', 'age-at-death': 'age_at_dea_2', '9': 'v_9', 'if': 'v_if'}
    """
    chosen = {name: name for name in names if _valid(name, length)}
    taken: dict[str, str] = {}
    for name in list(chosen):
        if name.lower() in taken:
            del chosen[name]  # differs from another valid name by its capitals only
        else:
            taken[name.lower()] = name
    for name in names:
        if name in chosen:
            continue
        cleaned = re.sub(r"[^A-Za-z0-9_]", "_", name)
        if not re.match(r"[A-Za-z]", cleaned) or _reserved(cleaned):
            cleaned = f"v_{cleaned}"
        candidate, number = cleaned[:length], 1
        while candidate.lower() in taken:
            number += 1
            ending = f"_{number}"
            candidate = cleaned[: length - len(ending)] + ending
        chosen[name] = candidate
        taken[candidate.lower()] = name
    return {name: chosen[name] for name in names}


def _valid(name: str, length: int) -> bool:
    return re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) is not None and len(name) <= length and not _reserved(name)


def _reserved(name: str) -> bool:
    return name.lower() in RESERVED or re.fullmatch(r"str\d+", name.lower()) is not None


def shortened(text: str, length: int) -> str:
    """The text cut to a number of UTF-8 bytes, with three points where something was left out.

    >>> shortened("Sex at registration", 10)
    'Sex at ...'
    """
    plain = " ".join(text.split())
    if len(plain.encode()) <= length:
        return plain
    return plain.encode()[: length - 3].decode(errors="ignore") + "..."
