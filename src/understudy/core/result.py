"""Findings, estimates and evaluations: what the verbs hand back, each marked with who may see it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from understudy.errors import DisclosureError, InputError

INTERNAL = "INTERNAL, computed from confidential data: keep it inside the building"  # what such results begin with

Audience = Literal["public", "internal"]
Severity = Literal["info", "good", "warning", "problem"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One statement about a release. Anything computed from confidential data is ``internal``."""

    code: str
    title: str
    value: float | int | str | None
    severity: Severity = "info"
    audience: Audience = "internal"
    reference: str = ""

    def __post_init__(self) -> None:
        if self.audience not in ("public", "internal"):
            raise InputError(f"audience ({self.audience!r}) must be 'public' or 'internal'.")
        if self.severity not in ("info", "good", "warning", "problem"):
            raise InputError(f"severity ({self.severity!r}) must be info, good, warning or problem.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number with its interval and the method that makes the interval valid."""

    value: float
    low: float
    high: float
    level: float
    method: str

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise InputError(f"level ({self.level}) must be between 0 and 1.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part of an evaluation: findings, and named tables (anything that speaks Arrow)."""

    findings: tuple[Finding, ...] = ()
    frames: Mapping[str, Any] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Utility and risk of a release, as measured against confidential data: internal by nature."""

    utility: Section = field(default_factory=Section)
    risk: Section = field(default_factory=Section)

    @property
    def findings(self) -> tuple[Finding, ...]:
        return (*self.utility.findings, *self.risk.findings)

    def public(self) -> tuple[Finding, ...]:
        """The findings, if every one of them may be shown to anybody.

        Raises ``DisclosureError`` if one is internal: leaving it out silently would make a report look complete.
        """
        internal = [finding.code for finding in self.findings if finding.audience == "internal"]
        if internal:
            raise DisclosureError(
                f"{len(internal)} internal findings ({internal[0]}, ...) cannot go into a public report."
            )
        return self.findings
