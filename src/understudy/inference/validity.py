"""Which questions have valid answers from which releases: the one list behind ``docs/inference-table.md``.

Every pair of a method of synthesis and a kind of question has an entry; the build fails if one is missing. Coverage is
of 95 percent intervals, measured by ``bench_inference.py`` and ``bench_coverage.py`` on generated populations.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from understudy.errors import InternalError
from understudy.inference.questions import KINDS
from understudy.release.table_release import Release

STATUSES = ("valid", "approximate", "refused")
OUTSIDE = "outside"
# Clauses of notes that explain the table; whether they apply to one answer, the answer itself says.
OF_THE_METHOD = (
    "from all measured tables together",
    "approximate where they do not determine the quantity, and refused where two of its attributes are in no table "
    "together",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """Whether answers to a kind of question from a method are valid; ``coverage`` in percent where measured."""

    status: str
    coverage: str = ""
    note: str = ""

    @property
    def of_an_answer(self) -> str:
        """The note without what explains the table alone.

        >>> Validity(status="valid", note="from all measured tables together; numbers are known by bins").of_an_answer
        'numbers are known by bins'
        """
        return "; ".join(clause for clause in self.note.split("; ") if clause not in OF_THE_METHOD)


@cache
def entries() -> dict[tuple[str, str], Validity]:
    """Every entry of ``validity.toml`` by method and kind of question."""
    listed = tomllib.loads(files("understudy.inference").joinpath("validity.toml").read_text(encoding="utf-8"))
    found = {}
    for method, kinds in listed.items():
        # Like another method: as valid, for the same reason, but not measured, except where it says so itself.
        for kind, entry in listed.get(kinds.get("like"), {}).items():
            found[method, kind] = replace(Validity(**entry), coverage="")
        for kind, entry in kinds.items():
            if kind != "like":
                found[method, kind] = Validity(**entry)
    return found


def validity_of(release: Release, kind: str, *, outside: bool = False) -> Validity:
    """The entry for a release; ``outside``: for one that says nothing about how it was made, whoever made it.

    A method that nobody has judged is refused.
    """
    plain = any(one["mechanism"] == "plain_multinomial" for d in release.provenance.draws for one in d["mechanisms"])
    method = f"{release.provenance.method}_plain" if plain else release.provenance.method
    entry = entries().get((method, kind))
    if outside and (entry is None or entry.status != "refused"):
        return entries()[OUTSIDE, kind]
    if entry is None:
        return Validity(status="refused", note="nobody has shown that its intervals cover")
    return entry


def check_table(methods: Sequence[str]) -> None:
    """Every pair of a method and a kind of question is there, and says something sensible."""
    for method in (*methods, OUTSIDE):
        for kind in KINDS:
            entry = entries().get((method, kind))
            if entry is None:
                raise InternalError(f"inference/validity.toml says nothing about {kind} from {method}.")
            if entry.status not in STATUSES or (entry.status == "approximate" and not (entry.coverage or entry.note)):
                raise InternalError(f"inference/validity.toml: the entry for {kind} from {method} is incomplete.")


def table_text(methods: Sequence[str]) -> str:
    """The page ``docs/inference-table.md``."""
    check_table(methods)
    listed = (*methods, *(name for name in ("histogram_plain", OUTSIDE) if name not in methods))
    lines = [
        "# Which questions have valid answers",
        "",
        "Generated from `inference/validity.toml` by `docs/make_inference_table.py`; a missing pair fails the build.",
        "Percentages are measured coverage of 95 percent intervals ([how](benchmarks.md), [in detail](coverage.md)).",
        "",
        "| question | " + " | ".join(listed) + " |",
        "|---" * (len(listed) + 1) + "|",
    ]
    notes: dict[str, int] = {}
    for kind in KINDS:
        cells = []
        for method in listed:
            entry = entries()[method, kind]
            mark = ""
            if entry.note:
                mark = f" ({notes.setdefault(entry.note, len(notes) + 1)})"
            cells.append(f"{entry.status}{f' {entry.coverage}%' if entry.coverage else ''}{mark}")
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    lines += ["", *(f"{number}. {note}." for note, number in notes.items()), ""]
    return "\n".join(lines)
