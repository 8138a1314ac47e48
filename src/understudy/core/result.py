"""Findings, estimates and evaluations: what the verbs hand back, each marked with who may see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal

from understudy.core.arrays import Progress
from understudy.errors import DisclosureError, InputError

INTERNAL = "INTERNAL, computed from confidential data: keep it inside the building"  # what such results begin with

Audience = Literal["public", "internal"]
Severity = Literal["info", "good", "warning", "problem"]
PARTS = ("utility", "risk")  # of an evaluation
WAYS = (1, 2, 3)  # of how many attributes the compared tables are


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One statement about a release. Anything computed from confidential data is ``internal``.

    Raises
    ------
    InputError
        If the audience or the severity is unknown.
    """

    code: str
    """A short name that programs can rely on."""
    title: str
    """The statement in words."""
    value: float | int | str | None
    """The number or text that was found; ``None`` if there is none."""
    severity: Severity = "info"
    """``info``, ``good``, ``warning`` or ``problem``."""
    audience: Audience = "internal"
    """``public`` or ``internal``. A public report refuses internal findings."""
    reference: str = ""
    """The paper, theorem or page behind it."""

    def __post_init__(self) -> None:
        if self.audience not in ("public", "internal"):
            raise InputError(f"audience ({self.audience!r}) must be 'public' or 'internal'.")
        if self.severity not in ("info", "good", "warning", "problem"):
            raise InputError(f"severity ({self.severity!r}) must be info, good, warning or problem.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number with its interval and the method that makes the interval valid.

    Raises
    ------
    InputError
        If the level is not between 0 and 1.
    """

    value: float
    """The estimate."""
    low: float
    """The lower end of the interval."""
    high: float
    """The upper end of the interval."""
    level: float
    """The probability with which the interval is to cover the truth, such as 0.95."""
    method: str
    """How the estimate and its interval were computed."""

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise InputError(f"level ({self.level}) must be between 0 and 1.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part of an evaluation: findings, and named tables (anything that speaks Arrow)."""

    findings: tuple[Finding, ...] = ()
    """The findings, in the order in which a report shows them."""
    frames: Mapping[str, Any] = field(default_factory=dict)
    """Tables by name; anything that speaks Arrow."""

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTable:
    """A table of an evaluation that a screen shows: its name in ``frames``, its heading and the columns that tell."""

    name: str
    heading: str
    columns: tuple[str, ...]
    worst: str = ""  # the column by which the worst rows come first; as they are without one
    in_short: bool = False  # whether it is shown where one screen has to do


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Evaluation:
    """Utility and risk of a release, measured against confidential data. It is internal."""

    utility: Section = field(default_factory=Section)
    """How useful the release is."""
    risk: Section = field(default_factory=Section)
    """What attacks on the release achieve."""

    def __repr__(self) -> str:
        parts = (("utility", self.utility), ("risk", self.risk))
        told = "; ".join(f"{name}: {len(one.findings)} findings, {len(one.frames)} tables" for name, one in parts)
        return f"Evaluation(internal; {told})"

    def _repr_html_(self) -> str:
        """For notebooks: the findings, the gravest first; every table is in ``frames``."""
        order = ("problem", "warning", "info", "good")
        rows = "".join(
            f"<tr><td>{part}</td><td>{one.severity}</td><td>{escape(one.title)}</td>"
            f"<td>{escape(_shown(one.value))}</td></tr>"
            for part, section in (("utility", self.utility), ("risk", self.risk))
            for one in sorted(section.findings, key=lambda finding: order.index(finding.severity))
        )
        tables = ", ".join(escape(name) for section in (self.utility, self.risk) for name in section.frames)
        return (
            f"<div><b>Evaluation</b> ({escape(INTERNAL)})<table><tr><th>part</th><th>severity</th><th>finding</th>"
            f"<th>value</th></tr>{rows}</table><p>Tables: {tables or 'none'}</p></div>"
        )

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of both parts, utility first."""
        return (*self.utility.findings, *self.risk.findings)

    def public(self) -> tuple[Finding, ...]:
        """The findings, if every one of them may be shown to anybody.

        Internal ones are not left out silently: a report would look complete.

        Returns
        -------
        tuple[Finding, ...]
            All findings.

        Raises
        ------
        DisclosureError
            If one of them is internal.
        """
        internal = [finding.code for finding in self.findings if finding.audience == "internal"]
        if internal:
            raise DisclosureError(
                f"{len(internal)} internal findings ({internal[0]}, ...) cannot go into a public report."
            )
        return self.findings


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRequest:
    """What an evaluation is asked for, under the names of ``understudy.evaluate``."""

    holdout: Any = None
    models: Sequence[str] = ()
    keys: Sequence[str] = ()
    targets: Sequence[str] = ()
    ways: Sequence[int] = WAYS
    parts: Sequence[str] = PARTS
    thorough: bool = False
    progress: Progress | None = None
    finished: Callable[[str, Section], None] | None = None

    @property
    def plain(self) -> bool:
        """Whether everything that is asked for exists for every kind of release, and not only for tables of people."""
        special = self.holdout is not None or self.models or self.keys or self.targets or tuple(self.ways) != WAYS
        return not special and "utility" in self.parts


def _shown(value: float | int | str | None) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
