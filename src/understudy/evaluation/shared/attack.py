"""What every attack is given and what it hands back. A new attack is one file that registers itself here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np

from understudy.core.arrays import Flags, Floats, Integers
from understudy.core.registry import Registry
from understudy.core.result import Finding
from understudy.core.schema import Schema
from understudy.evaluation.shared.success import Outcome, Tally


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Records:
    """Rows of a table twice over: as codes of the schema, and as positions on a line.

    The position of a number or date is its value, of a level its place in the schema (the stated order of a nominal
    attribute); special codes and the missing value stand above all values, one range apart.
    """

    codes: Integers
    positions: Floats

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: Integers) -> Records:
        return Records(codes=self.codes[rows], positions=self.positions[rows])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Scene:
    """One attack to play: people who are attacked, and the tables the intruder has."""

    people: Records
    copies: tuple[Records, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Material:
    """Everything an attack may use.

    Each attack is played on three scenes: the release against the people in the data; a null release, whose attributes
    are independent draws from the release's own one-way margins, against the same people (the baseline: what can be
    guessed from margins); and the release against a holdout, people who are not in the data (the control).
    """

    schema: Schema
    original: Records
    copies: tuple[Records, ...]
    null: tuple[Records, ...]
    holdout: Records | None = None
    keys: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    claimed: tuple[float, float] | None = None  # epsilon and delta that the release states
    synthesizer: Callable[[Any], Any] | None = None
    frame: Any = None  # the confidential rows, for a synthesizer of the caller's
    seed: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        return self.schema.names

    def columns(self, names: tuple[str, ...]) -> list[int]:
        return [self.names.index(name) for name in names]

    @property
    def attacked(self) -> tuple[str, ...]:
        """Attributes to be learned: the targets, or every attribute that is not a key."""
        return self.targets or tuple(name for name in self.names if name not in self.keys) or self.names

    def known(self, target: str) -> tuple[str, ...]:
        """What the intruder knows of a person: the keys, or everything but the target."""
        return tuple(name for name in self.keys or self.names if name != target)

    def nominal(self, columns: list[int]) -> Flags:
        return np.array([a.kind == "levels" and not a.ordered for a in self.schema.attributes])[columns]

    def spans(self, columns: list[int]) -> Floats:
        """Weights that make every attribute's range 1 (Gower 1971)."""
        return np.array([1 / span_of(self.schema.attributes[column]) for column in columns])

    @property
    def scenes(self) -> dict[str, Scene]:
        scenes = {
            "release": Scene(people=self.original, copies=self.copies),
            "baseline": Scene(people=self.original, copies=self.null),
        }
        if self.holdout is not None:
            scenes["control"] = Scene(people=self.holdout, copies=self.copies)
        return scenes

    def play(self, attack: str, game: Callable[[Scene], Mapping[str, Tally]]) -> list[Outcome]:
        """The game on every scene, put together by subject."""
        played = {name: game(scene) for name, scene in self.scenes.items()}
        return [
            Outcome(
                attack=attack,
                subject=subject,
                release=tally,
                baseline=played["baseline"][subject],
                control=played["control"][subject] if "control" in played else None,
            )
            for subject, tally in played["release"].items()
        ]

    def generator(self, purpose: str) -> np.random.Generator:
        """Repeatable choices of whom to attack: an evaluation run twice says the same. Nothing here is released."""
        return np.random.default_rng([self.seed, *purpose.encode()])

    def sample(self, count: int, most: int, purpose: str) -> Integers:
        """At most ``most`` of ``count`` records, in order."""
        if count <= most:
            return np.arange(count)
        return np.sort(self.generator(purpose).choice(count, most, replace=False))


def span_of(attribute: Any) -> float:
    """The length of an attribute's range of positions."""
    if attribute.kind == "levels":
        return 1.0 if not attribute.ordered else float(max(attribute.bins - 1, 1))
    first, last = attribute.edges[0], attribute.edges[-1]
    return float((last - first).days) if attribute.kind == "date" else float(last) - float(first)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What an attack hands back: outcomes for the common table, tables of its own, findings of its own."""

    outcomes: tuple[Outcome, ...] = ()
    frames: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # columns by name
    findings: tuple[Finding, ...] = ()


class Attack(Protocol):
    """One attack. ``needs`` names what it cannot run without: "holdout", "keys" or "synthesizer"."""

    name: ClassVar[str]
    summary: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]

    def run(self, material: Material) -> Found: ...


attacks: Registry[type[Attack]] = Registry("attack", "understudy.evaluation.attacks")


def columns_of(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Rows as columns, for an Arrow table."""
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else {})}
