"""The registry of attacks: each takes a ``Comparison`` and gives a ``Section``. A new attack is one file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from understudy.core.arrays import Flags
from understudy.core.registry import Registry
from understudy.core.result import Finding, Section
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.inputs.records import Records
from understudy.evaluation.shared.attack_success import Believed, Outcome, Tally
from understudy.evaluation.shared.results import Collected, frame

# All that a new attack needs.
__all__ = [
    "Attack",
    "Believed",
    "Comparison",
    "Records",
    "Scene",
    "Tally",
    "attacks",
    "frame",
    "play_scenes",
    "section_of",
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Scene:
    """One attack to play: people who are attacked, and the tables the intruder has."""

    people: Records
    """The people who are attacked."""
    tables: tuple[Records, ...]
    """The tables that the intruder has."""


class Attack(Protocol):
    """One attack on a release.

    Four attributes may be added. ``question``: the attack in everyday words. ``believed_by``: who could believe what
    it claims. ``of_one_person``: whether its success depends on the person, the data as a whole and the tables only, so
    that the bound of a guarantee holds for it (see ``evaluation/taking_part.py``). ``guesses_an_answer``: whether its
    subjects are attributes whose value it guesses.
    """

    name: ClassVar[str]
    """The name of the attack."""
    summary: ClassVar[str]
    """One line that says what the intruder does."""
    needs: ClassVar[tuple[str, ...]]
    """What it cannot run without: ``holdout``, ``keys`` or ``synthesizer``."""

    def run(self, comparison: Comparison) -> Section:
        """Attack the release.

        Parameters
        ----------
        comparison
            The release beside the confidential data.

        Returns
        -------
        Section
            What came of it: ``section_of`` makes it.
        """
        ...


def section_of(
    *, outcomes: Iterable[Outcome] = (), frames: Mapping[str, Any] | None = None, findings: Iterable[Finding] = ()
) -> Section:
    """Make what an attack hands back.

    Parameters
    ----------
    outcomes
        Lines for the common table of attacks.
    frames
        Tables of its own, by name.
    findings
        Findings of its own.

    Returns
    -------
    Section
        The section.
    """
    found = Collected(findings=list(findings), frames=dict(frames or {}))
    found.attack(outcomes)
    return found.section()


def side_of(comparison: Comparison, people: Records) -> Flags:
    """In a refit: who of those compared is on the same side as the people attacked, kept or left out."""
    if comparison.kept is None or comparison.compared is None:
        raise ValueError("only in a refit some people are kept and others left out")
    return comparison.compared & (comparison.kept if people is comparison.people else ~comparison.kept)


attacks: Registry[type[Attack]] = Registry("attack", "understudy.evaluation.attacks")


def play_scenes(
    comparison: Comparison, attack: str, game: Callable[[Scene], Mapping[str, Tally]], *, control: bool = True
) -> list[Outcome]:
    """Play a game on every scene, and put the results together by subject.

    The release is played against the people in the data. The baseline is tables whose attributes are independent draws
    from the release's own one-way margins, against the same people: what can be guessed from margins. The control is
    the release against a holdout: people who are not in the data.

    Parameters
    ----------
    comparison
        The release beside the confidential data.
    attack
        The name of the attack.
    game
        Plays one scene, and tallies the guesses for each subject.
    control
        Whether there is a control. Not where success depends on how many people there are: then a holdout of another
        size would differ for that reason alone. Such an attack is played on everybody together instead, if it says
        ``of_one_person`` (see ``Comparison.with_outsiders``).

    Returns
    -------
    list[Outcome]
        One outcome for each subject.
    """
    release = game(Scene(people=comparison.people, tables=comparison.tables))
    in_refit = comparison.whole is not None  # there people are compared with people, and guessing does not matter
    baseline = release if in_refit else game(Scene(people=comparison.people, tables=comparison.independent_tables))
    controls = None
    if control and comparison.outsiders is not None:
        controls = game(Scene(people=comparison.outsiders, tables=comparison.tables))
    return [
        Outcome(
            attack=attack,
            subject=subject,
            release=tally,
            baseline=baseline[subject],
            control=None if controls is None else controls[subject],
        )
        for subject, tally in release.items()
    ]
