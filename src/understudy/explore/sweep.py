"""One point of a sweep: a release rehearsed on a table, and everything that is measured of it in one line.

Rows are drawn from the table itself, with randomness that protects nobody, and are deleted as soon as their scores are
known. No synthetic row of a sweep can be kept, and nothing is charged because nothing is published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from understudy.core.questions import parse_question
from understudy.core.schema import Schema, level_text
from understudy.core.table import CodedSource, CodedTable
from understudy.errors import UnderstudyError
from understudy.explore.attacker_beliefs import attacker_at
from understudy.explore.rehearsal import Setup, published, rehearse, seeds
from understudy.explore.release_scores import cell_uncertainty, risk_scores, utility_scores
from understudy.inference.ask import ask
from understudy.inference.estimands import make_estimand
from understudy.privacy.promise.definition import Unit
from understudy.release.table_release import Release

MOST_QUESTIONS = 8
NO_GUARANTEE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One release of a sweep; ``epsilon`` is the decimal as it was written, or "none"."""

    method: str
    epsilon: str
    copies: int
    repeat: int

    @property
    def exact(self) -> Fraction | None:
        return None if self.epsilon == NO_GUARANTEE else Fraction(self.epsilon)

    def to_json(self) -> dict[str, Any]:
        return {"method": self.method, "epsilon": self.epsilon, "copies": self.copies, "repeat": self.repeat}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What is swept, and what is measured at every point."""

    schema: Schema
    methods: tuple[str, ...]
    epsilons: tuple[str, ...]
    copies: tuple[int, ...] = (1,)
    repeats: int = 5
    delta: str | None = None
    unit: Unit = field(default_factory=Unit)
    rows: int | None = None
    questions: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    ways: tuple[int, ...] = (1, 2, 3)
    level: float = 0.95
    reference: bool = True
    seed: int = 0

    def points(self) -> list[Point]:
        """Every release to rehearse: first all settings once, then again, so that early results have all settings."""
        settings = list(product(self.methods, self.epsilons, self.copies))
        if self.reference:
            settings.append(("histogram", NO_GUARANTEE, 1))
        return [
            Point(method=method, epsilon=epsilon, copies=copies, repeat=repeat)
            for repeat in range(self.repeats)
            for method, epsilon, copies in settings
        ]

    def setup(self, point: Point, records: int) -> Setup:
        return Setup(
            schema=self.schema,
            method=point.method,
            delta=None if self.delta is None else Fraction(self.delta),
            unit=self.unit,
            records=records,
            rows=self.rows,
        )

    def to_json(self) -> dict[str, Any]:
        """Everything that decides what a sweep finds, to see whether a folder holds the same one."""
        return {
            "schema": self.schema.fingerprint,
            "methods": list(self.methods),
            "epsilons": list(self.epsilons),
            "copies": list(self.copies),
            "repeats": self.repeats,
            "delta": self.delta,
            "unit": self.unit.to_json(),
            "rows": self.rows,
            "questions": list(self.questions),
            "keys": list(self.keys),
            "targets": list(self.targets),
            "ways": list(self.ways),
            "level": self.level,
            "reference": self.reference,
            "seed": self.seed,
        }


def usual_questions(schema: Schema) -> tuple[str, ...]:
    """A share for each of the first attributes: of its first level, or of the lower half of its bins.

    >>> from understudy.core.schema import Attribute
    >>> usual_questions(Schema(attributes=(Attribute(name="sex", levels=("F", "M")),
    ...                                    Attribute(name="age", edges=(0, 18, 65, 99)))))
    ("proportion(`sex` == 'F')", 'proportion(`age` < 18)')
    """
    found = []
    for attribute in schema.attributes:
        if "`" in attribute.name:  # cannot be written in a question
            continue
        if attribute.levels and len(attribute.levels) > 1:
            first = attribute.levels[0]
            value = repr(level_text(first)) if isinstance(first, str) else repr(first)
            found.append(f"proportion(`{attribute.name}` == {value})")
        elif attribute.bins > 1:
            middle = attribute.edges[attribute.bins // 2]
            value = repr(str(middle)) if attribute.kind == "date" else level_text(middle)
            found.append(f"proportion(`{attribute.name}` < {value})")
    return tuple(found[:MOST_QUESTIONS])


class Measurer:
    """Measures the points of one sweep on one table; what the points share is computed once."""

    def __init__(self, sweep: Sweep, table: CodedTable) -> None:
        self._sweep = sweep
        self._table = table
        self._real = {question: self._real_widths(question) for question in sweep.questions}

    def _real_widths(self, question: str) -> list[float] | None:
        """Widths of the table's own intervals; nothing where it has no answer itself. Why not is not said: the table
        may be confidential, and the reason would speak of its counts."""
        estimand = make_estimand(parse_question(question, self._sweep.schema), self._sweep.schema)
        try:
            return self._widths(published(self._table, estimand.margin), question, 0)
        except UnderstudyError:
            return None

    def _widths(self, release: Release, question: str, seed: int) -> list[float]:
        answer = ask(release, question, level=self._sweep.level, rng=np.random.default_rng(seed), weighted=False)
        return [one.high - one.low for one in answer.estimates]

    def measure(self, point: Point) -> dict[str, Any]:
        """One line: the point, and its scores; or why it has none."""
        line: dict[str, Any] = point.to_json()
        try:
            return line | self._scores(point)
        except UnderstudyError as problem:
            return line | {"refused": str(problem)}

    def _scores(self, point: Point) -> dict[str, Any]:
        sweep, table = self._sweep, self._table
        setup = sweep.setup(point, table.rows)
        seed = seeds(sweep.seed, point.repeat, *f"{point.method} {point.epsilon} {point.copies}".encode())
        release = rehearse(CodedSource(table), setup.plan(point.exact, point.copies), seed)
        scores: dict[str, Any] = utility_scores(release, table, sweep.ways)
        scores |= risk_scores(release, table, keys=sweep.keys, targets=sweep.targets)
        scores |= self._intervals(release, seed)
        scores["plan"] = release.provenance.method
        if point.exact is not None:
            bound = attacker_at(float(point.exact), delta=float(Fraction(sweep.delta or 0)), unit=sweep.unit)
            scores["cell_uncertainty"] = cell_uncertainty(release, table.rows)
            scores["odds"] = bound.odds if np.isfinite(bound.odds) else None
            scores["guess_bound"] = bound.guess_bound
        return scores

    def _intervals(self, release: Release, seed: int) -> Mapping[str, Any]:
        """The mean width over that of the table itself (geometric, over all questions), and how many were answered."""
        ratios: list[float] = []
        unanswered = 0
        for question, real in self._real.items():
            if real is None:
                unanswered += 1
                continue
            try:
                widths = self._widths(release, question, seed)
            except UnderstudyError:
                unanswered += 1
                continue
            ratios += [width / own for width, own in zip(widths, real, strict=True) if own > 0 and width > 0]
        mean = float(np.exp(np.mean(np.log(ratios)))) if ratios else None
        return {"width_ratio": mean, "unanswered": unanswered}


def check_questions(schema: Schema, questions: Sequence[str]) -> tuple[str, ...]:
    """Questions that the schema can be asked; the usual ones where none are given."""
    for question in questions:
        make_estimand(parse_question(question, schema), schema)
    return tuple(questions) or usual_questions(schema)
