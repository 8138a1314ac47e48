"""The registry of attacks: each takes a ``Comparison`` and gives a ``Section``. A new attack is one file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from understudy.core.registry import Registry
from understudy.core.result import Finding, Section
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.inputs.records import Records
from understudy.evaluation.shared.results import Collected, frame
from understudy.evaluation.shared.success import Outcome, Tally

# All that a new attack needs.
__all__ = ["Attack", "Comparison", "Records", "Scene", "Tally", "attacks", "frame", "play_scenes", "section_of"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Scene:
    """One attack to play: people who are attacked, and the tables the intruder has."""

    people: Records
    tables: tuple[Records, ...]


class Attack(Protocol):
    """One attack. ``needs`` names what it cannot run without: "holdout", "keys" or "synthesizer"."""

    name: ClassVar[str]
    summary: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]

    def run(self, comparison: Comparison) -> Section: ...


def section_of(
    *, outcomes: Iterable[Outcome] = (), frames: Mapping[str, Any] | None = None, findings: Iterable[Finding] = ()
) -> Section:
    """What an attack hands back: lines for the common table of attacks, tables of its own, findings of its own."""
    found = Collected(findings=list(findings), frames=dict(frames or {}))
    found.attack(outcomes)
    return found.section()


attacks: Registry[type[Attack]] = Registry("attack", "understudy.evaluation.attacks")


def play_scenes(comparison: Comparison, attack: str, game: Callable[[Scene], Mapping[str, Tally]]) -> list[Outcome]:
    """The game on every scene, put together by subject.

    The release against the people in the data; tables whose attributes are independent draws from the release's own
    one-way margins, against the same people (the baseline: what can be guessed from margins); and the release against
    a holdout, people who are not in the data (the control).
    """
    release = game(Scene(people=comparison.people, tables=comparison.tables))
    baseline = game(Scene(people=comparison.people, tables=comparison.independent_tables))
    control = None
    if comparison.outsiders is not None:
        control = game(Scene(people=comparison.outsiders, tables=comparison.tables))
    return [
        Outcome(
            attack=attack,
            subject=subject,
            release=tally,
            baseline=baseline[subject],
            control=None if control is None else control[subject],
        )
        for subject, tally in release.items()
    ]
