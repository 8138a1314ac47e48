"""Printed numbers of published papers, computed again: what was printed, what comes out, and how it was read.

The printed numbers, with the reading under which each is computed, are data: they stand in ``items.toml``, one list
for all papers. A paper's file holds the computations alone. The two are joined here, and an item without a computation
or a computation without an item is our bug.

A verdict is

- ``pass``: the computed value rounds to the printed one or, for a mean over simulated runs, lies within what two such
  means differ by;
- ``misprint``: it rounds to another number, and the reading shows that this number was meant;
- ``differs``: it is what the reading expects, and not what was printed;
- ``fail``: it is neither. That is a bug of ours;
- ``cannot``: it could not be computed, with the reason.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from understudy.core.registry import Registry
from understudy.errors import InternalError, UnsupportedError
from understudy.figures.drawing import Drawing

Verdict = Literal["pass", "misprint", "differs", "fail", "cannot"]
VERDICTS: tuple[Verdict, ...] = ("pass", "misprint", "differs", "fail", "cannot")
WORSE: tuple[Verdict, ...] = ("cannot", "pass", "misprint", "differs", "fail")
Compute = Callable[[], "float | Simulated"]
Computations = Mapping[tuple[str, str], Compute]  # by item and cell
DATA_VARIABLE = "UNDERSTUDY_DATA"
DATA_FOLDER = Path("..") / "shared" / "data"

# One file per paper; each registers a function that gives its computations.
papers: Registry[Callable[[], Computations]] = Registry("paper", "papers.reproduced")

# Papers with a figure that is drawn again; a picture takes long computations only when asked for them.
pictures: dict[str, Callable[[bool], Drawing]] = {}
PAPER_RUNS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """A mean over simulated runs, to be compared with a printed mean of ``PAPER_RUNS`` runs.

    Two means of ten runs differ by more than 3 sqrt(2) deviation / sqrt(10) with probability 0.003 (normal errors).
    """

    mean: float
    deviation: float
    runs: int

    @property
    def tolerance(self) -> float:
        return 3 * math.sqrt(2 / PAPER_RUNS) * self.deviation


class CannotComputeError(Exception):
    """Something outside this package is needed and absent; the message is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One printed number, in one reading.

    ``expected`` is what the reading leads to, where that is not what is printed. ``misprint`` says that the reading
    shows how the printed number came from the expected one.
    """

    paper: str
    item: str
    cell: str
    published: float
    reading: str
    tolerance: float
    compute: Compute
    expected: float | None = None
    misprint: bool = False
    long: bool = False
    another_reading_of: Sequence[str] = ()  # item and cell of the line that reads the same printed number otherwise

    def outcome(self) -> Outcome:
        """Compute it and compare."""
        try:
            found = self.compute()
        except CannotComputeError as problem:
            return self._outcome(None, "cannot", str(problem))
        if isinstance(found, Simulated):
            computed, tolerance = found.mean, max(self.tolerance, found.tolerance)
        else:
            computed, tolerance = found, self.tolerance
        error = computed - self.published
        # A value that rounds to the printed digits is the printed value; the slack is for the binary form of .005.
        within = tolerance * (1 + 1e-9)
        if self.expected is None:
            if abs(error) <= within:
                return self._outcome(computed, "pass", error=error)
            return self._outcome(computed, "fail", f"is off {self.published:g} by more than {tolerance:g}", error=error)
        if abs(computed - self.expected) > within:
            return self._outcome(computed, "fail", f"is off {self.expected:g} by more than {tolerance:g}", error=error)
        return self._outcome(computed, "misprint" if self.misprint else "differs", error=error)

    def left_out(self) -> Outcome:
        return self._outcome(None, "cannot", "a long computation, left out of a quick run")

    def _outcome(
        self, computed: float | None, verdict: Verdict, reason: str = "", *, error: float | None = None
    ) -> Outcome:
        return Outcome(
            paper=self.paper,
            item=self.item,
            cell=self.cell,
            published=self.published,
            computed=computed,
            error=error,
            reading=self.reading,
            verdict=verdict,
            reason=reason,
            another_reading_of=self.another_reading_of,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One printed number beside the computed one. ``error`` is computed minus printed."""

    paper: str
    item: str
    cell: str
    published: float
    computed: float | None
    error: float | None
    reading: str
    verdict: Verdict
    reason: str = ""
    another_reading_of: Sequence[str] = ()

    def to_json(self) -> dict[str, object]:
        record: dict[str, object] = {
            "paper": self.paper,
            "item": self.item,
            "cell": self.cell,
            "published": self.published,
            "computed": self.computed,
            "error": self.error,
            "reading": self.reading,
            "verdict": self.verdict,
        }
        record |= {"reason": self.reason} if self.reason else {}
        return record | ({"another_reading_of": list(self.another_reading_of)} if self.another_reading_of else {})


def tally(outcomes: Iterable[Outcome]) -> Counter[Verdict]:
    """How many printed numbers have each verdict. One with several readings counts once, by the worst of them."""
    worst: dict[tuple[str, ...], Verdict] = {}
    for outcome in outcomes:
        number = (outcome.paper, *(outcome.another_reading_of or (outcome.item, outcome.cell)))
        worst[number] = max(worst.get(number, "cannot"), outcome.verdict, key=WORSE.index)
    return Counter(worst.values())


def listed_items() -> list[dict[str, Any]]:
    """The entries of ``items.toml``: single numbers as they stand, and every filled cell of its tables."""
    listed = tomllib.loads((Path(__file__).parent / "items.toml").read_text(encoding="utf-8"))
    return [*listed["item"], *(entry for table in listed["table"] for entry in _cells(table))]


def _cells(table: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One entry for each number of a printed table; an empty text is a cell that the paper leaves blank."""
    for row, numbers in table["rows"].items():
        for column, number in zip(table["columns"], numbers, strict=True):
            if number != "":
                yield {
                    "paper": table["paper"], "item": table["item"], "cell": f"{column} {row}", "published": number,
                    "tolerance": table["tolerance"], "reading": table["reading"],
                }  # fmt: skip


def items(paper: str) -> list[Item]:
    """Every printed number of a paper with its computation, in the order of the list."""
    computations = papers[paper]()
    listed = [entry for entry in listed_items() if entry["paper"] == paper]
    keys = [(entry["item"], entry["cell"]) for entry in listed]
    if len(set(keys)) != len(keys) or set(keys) != set(computations):
        odd = sorted(set(keys) ^ set(computations)) or sorted(key for key in keys if keys.count(key) > 1)
        raise InternalError(f"items.toml and the file of paper '{paper}' do not match at {odd[0]}.")
    return [Item(**entry, compute=computations[key]) for key, entry in zip(keys, listed, strict=True)]


def known_papers() -> tuple[str, ...]:
    return papers.names()


_long_allowed = False  # whether what is long is computed too, in this run


def long_allowed() -> bool:
    """Whether this run does long computations, for what can say more about a number that cannot be computed."""
    return _long_allowed


def run(papers: Iterable[str] | None = None, quick: bool = True) -> list[Outcome]:
    """Compute the printed numbers of some papers (all by default).

    ``quick`` leaves long computations out; their outcome says so.
    """
    global _long_allowed  # noqa: PLW0603 - one run at a time
    _long_allowed = not quick
    names = known_papers() if papers is None else tuple(papers)
    chosen = [item for name in names for item in items(name)]
    return [item.left_out() if quick and item.long else item.outcome() for item in chosen]


def draw(paper: str, *, full: bool) -> Drawing:
    """The figure of a paper, computed again; the drawing hands back its numbers."""
    papers[paper]
    if paper not in pictures:
        for name in papers:  # the file of a paper says whether it has a picture
            papers[name]
        raise UnsupportedError(
            f"paper '{paper}' has no figure that is drawn again; these have: {', '.join(sorted(pictures))}."
        )
    return pictures[paper](full)


def data_file(*parts: str) -> Path:
    """A file of the public data sets, which are not part of this package."""
    named = os.environ.get(DATA_VARIABLE)
    folder = Path(named) if named else DATA_FOLDER
    path = folder.joinpath(*parts)
    if not path.is_file():
        raise CannotComputeError(
            f"needs the public data set {'/'.join(parts)}; name the folder that holds it in {DATA_VARIABLE}"
        )
    return path
