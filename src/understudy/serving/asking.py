"""A question as it travels: from a page or a client, through the queue, into a record."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from understudy.core.questions import parse_question
from understudy.core.schema import Schema
from understudy.errors import InputError
from understudy.inference.answer import Answer
from understudy.inference.ask import ask
from understudy.inference.estimands import Estimand, make_estimand
from understudy.inference.repeatable import generator_for
from understudy.privacy.ledger.store import canonical
from understudy.release.table_release import Release

LONGEST = 2000
LEVELS = (0.5, 0.999)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question in the grammar of ``infer``, with what goes with it."""

    question: str
    family: str | None = None
    event: str | None = None
    where: str | None = None
    by: str | None = None
    level: float = 0.95

    def __post_init__(self) -> None:
        for name in ("question", "family", "event", "where", "by"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or len(value) > LONGEST or "\x00" in value):
                raise InputError(f"{name} must be a text of at most {LONGEST:,} characters.")
        if not self.question.strip():
            raise InputError("ask a question, such as proportion(sex == 'F').")
        level = self.level
        if isinstance(level, bool) or not isinstance(level, int | float) or not LEVELS[0] <= level <= LEVELS[1]:
            raise InputError(f"level must be a number between {LEVELS[0]} and {LEVELS[1]}.")

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Asked:
        """Read what a client sent; unknown fields are refused."""
        unknown = set(data) - {"question", "family", "event", "where", "by", "level"}
        if unknown:
            raise InputError(f"a question has no field '{min(map(str, unknown))[:40]}'.")
        if not isinstance(data.get("question"), str):
            raise InputError("question must be a text.")
        given = {key: value for key, value in data.items() if value not in (None, "")}
        return cls(**{"question": "", **given})

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None}

    @property
    def key(self) -> str:
        """One text for each question."""
        return canonical(self.to_json())

    def estimand(self, schema: Schema) -> Estimand:
        """What is asked for, by the public schema; refused if it cannot be read."""
        question = parse_question(
            self.question, schema, family=self.family, event=self.event, where=self.where, by=self.by
        )
        return make_estimand(question.settled(most=True), schema)

    def answered(self, release: Release, *, draws: int | None = None) -> Answer:
        """The answer from a release. The same question to the same tables always has the same answer."""
        tables = hashlib.sha256(b"".join(one.values.tobytes() for one in release.measurements)).hexdigest()
        return ask(
            release,
            self.question,
            family=self.family,
            event=self.event,
            where=self.where,
            by=self.by,
            level=self.level,
            draws=draws,
            rng=generator_for(self.key, tables),
        )


def width_of(answer: Answer) -> float:
    """The width of an answer: that of its widest interval."""
    return max(one.high - one.low for one in answer.estimates)
