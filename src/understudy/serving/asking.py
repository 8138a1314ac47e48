"""A question as it travels: from a page or a client, through the queue, into a record."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from understudy.core.questions import parse_question
from understudy.core.schema import Schema
from understudy.errors import InputError
from understudy.inference.answer import Answer
from understudy.inference.ask import ask
from understudy.inference.estimands import Estimand, make_estimand
from understudy.inference.joined_tables import APART, narrowest_claim, wrong_side
from understudy.inference.labels import VALID
from understudy.inference.repeatable import generator_for
from understudy.privacy.ledger.store import canonical
from understudy.release.table_release import Release

LONGEST = 2000
LEVELS = (0.5, 0.999)
USUAL_LEVEL = 0.95
MOST = 1e300
LEAST_WRONG = 1e-4  # errors are about normal, and not known to be so farther out than this
WRONG = 0.05  # how often a verdict may be wrong if the truth is the margin away from the claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question in the grammar of ``infer``, with what goes with it."""

    question: str
    family: str | None = None
    event: str | None = None
    where: str | None = None
    by: str | None = None
    level: float = USUAL_LEVEL
    weighted: bool | str | None = None  # as for `infer`: false asks about the sample, a text names another weight
    at_least: float | None = None  # a claim to verify: the quantity is at least this
    margin: float | None = None  # from where on a wrong verdict shall be rare

    def __post_init__(self) -> None:
        for name in ("question", "family", "event", "where", "by", "weighted"):
            value = None if name == "weighted" and isinstance(self.weighted, bool) else getattr(self, name)
            if value is not None and (not isinstance(value, str) or len(value) > LONGEST or "\x00" in value):
                raise InputError(f"{name} must be a text of at most {LONGEST:,} characters.")
        if not self.question.strip():
            raise InputError("ask a question, such as proportion(sex == 'F').")
        level = self.level
        if isinstance(level, bool) or not isinstance(level, int | float) or not LEVELS[0] <= level <= LEVELS[1]:
            raise InputError(f"level must be a number between {LEVELS[0]} and {LEVELS[1]}.")
        if (self.at_least is None) != (self.margin is None):
            raise InputError("a claim has two numbers: at_least, and the margin from where on a wrong verdict is rare.")
        for name in ("at_least", "margin"):
            value = getattr(self, name)
            if value is not None:
                finite(value, name)
        if self.margin is not None and self.margin <= 0:
            raise InputError("margin must be positive.")

    @property
    def verified_width(self) -> float | None:
        """How wide an interval may be for its claim to be verified: then a verdict is wrong at most ``WRONG`` often."""
        if self.margin is None:
            return None
        return 2 * self.margin * narrowest_claim(self.level, WRONG)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Asked:
        """Read what a client sent; unknown fields are refused."""
        unknown = set(data) - {field.name for field in fields(cls)}
        if unknown:
            raise InputError(f"a question has no field '{min(map(str, unknown))[:40]}'.")
        if not isinstance(data.get("question"), str):
            raise InputError("question must be a text.")
        given = {key: value for key, value in data.items() if value not in (None, "")}
        return cls(**{"question": "", **given, **{"question": data["question"].strip()}})

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None}

    @property
    def told(self) -> str:
        """All that was asked, in one line: for people who decide about it, and who cite it.

        >>> Asked(question="mean(age)", where="sex == 'F'", by="region", level=0.9).told
        "mean(age), where sex == 'F', by region, intervals of 90%"
        >>> Asked(question="proportion(sex == 'F')", at_least=0.5, margin=0.02).told
        "proportion(sex == 'F'): is it at least 0.5? (margin 0.02)"
        """
        parts = [
            f"{word} {value}"
            for word, value in (("where", self.where), ("by", self.by), ("family", self.family), ("event", self.event))
            if value is not None
        ]
        if self.weighted is not None:
            by = "by the main weight" if self.weighted is True else f"by {self.weighted}"
            parts.append(f"weighted {by}" if self.weighted else "about the sample, not weighted")
        parts += [f"intervals of {100 * self.level:g}%"] if self.level != USUAL_LEVEL else []
        claim = "" if self.at_least is None else f": is it at least {self.at_least:g}? (margin {self.margin:g})"
        return ", ".join((self.question, *parts)) + claim

    @property
    def key(self) -> str:
        """One text for each question, whatever is claimed of its answer."""
        return canonical(replace(self, at_least=None, margin=None).to_json())

    def estimand(self, schema: Schema) -> Estimand:
        """What is asked for, by the public schema; refused if it cannot be read."""
        question = parse_question(
            self.question, schema, family=self.family, event=self.event, where=self.where, by=self.by
        )
        return make_estimand(question.settled(most=True), schema)

    def answered(self, release: Release, *, draws: int | None = None, use: str = APART) -> Answer:
        """The answer from a release. The same question to the same tables always has the same answer.

        ``use``: which of the tables that joined the release to use (``understudy.inference.joined_tables``).
        """
        tables = hashlib.sha256(b"".join(one.values.tobytes() for one in release.measurements)).hexdigest()
        return ask(
            release,
            self.question,
            family=self.family,
            event=self.event,
            where=self.where,
            by=self.by,
            level=self.level,
            weighted=self.weighted,
            draws=draws,
            rng=generator_for(self.key, tables),
            use=use,
        )


def sale_note(asked: Asked, width: float) -> str:
    """What the plan of a confirmation says about who asked for what, so that it is not sold a second time."""
    return f"Asked: {asked.key}; width {float(width)!r}"


def widths_sold(asked: Asked, notes: Sequence[str]) -> list[float]:
    """The widths for which this very question was confirmed before."""
    start = sale_note(asked, 0.0).removesuffix("0.0")
    return [float(note.removeprefix(start)) for note in notes if note.startswith(start)]


def finite(value: object, name: str) -> float:
    """A number that somebody sent."""
    if not isinstance(value, bool) and isinstance(value, int | float) and abs(value) <= MOST:
        return float(value)
    raise InputError(f"{name} must be a number.")


def width_of(answer: Answer) -> float:
    """The width of an answer: that of its widest interval."""
    return max(one.high - one.low for one in answer.estimates)


def verdict(asked: Asked, answer: Answer) -> dict[str, Any] | None:
    """Whether a claim holds, and how often such a verdict is wrong if the truth is at least the margin away from it.

    The rule: yes if the estimate is at least what is claimed. With a normal error of standard deviation s, a truth that
    is m or more on the other side is called wrongly with probability at most Phi(-m / s), for a claim that was fixed
    beforehand. The stated probability allows for a claim that was chosen by looking at the release.
    """
    if asked.at_least is None or asked.margin is None:
        return None
    said = {"claim": f"at least {asked.at_least:g}", "margin": asked.margin}
    if len(answer.estimates) != 1 or answer.validity != VALID:
        return {**said, "holds": None, "why": f"a verdict needs one estimate that is valid; this is {answer.validity}"}
    return {**said, "holds": answer.value >= asked.at_least, "wrong_at_most": wrong_verdict(asked, answer)}


def wrong_verdict(asked: Asked, answer: Answer) -> float:
    """How often a verdict about one valid estimate is wrong, at most. A claim is made by somebody who has seen the
    release, so all of the release's own error counts as seen."""
    own, seen = answer.parts[0] if answer.parts else (0.0, answer.standard_errors[0])
    return max(wrong_side(own, seen, asked.margin or 0.0), LEAST_WRONG) if max(own, seen) > 0 else 0.0
