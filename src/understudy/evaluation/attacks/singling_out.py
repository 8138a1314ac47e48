"""Singling out: a statement that is true of exactly one person in the data, read off the synthetic table.

Univariate: one attribute and a value that one synthetic record has, or an extreme beyond which there is one. Several
attributes: conditions that one synthetic record satisfies, added in random order until no other record does (equal
for nominal attributes, at least or at most for ordered ones, after Giomi et al. 2023). A statement succeeds if it is
true of exactly one person, and what it says of public attributes is not: who is alone in a public group is known. In a
refit, and with a holdout, people are counted: those whom some statement singles out among everybody, kept or left out.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from understudy.core.arrays import Flags, Integers
from understudy.core.result import Section
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.inputs.records import Records
from understudy.evaluation.shared.attack import Scene, attacks, play_scenes, section_of, side_of
from understudy.evaluation.shared.attack_success import Believed, Tally

STATEMENTS = 500
FEWER = 200  # in a refit
Condition = tuple[int, str, float]  # attribute, comparison, position


@attacks.add
class SinglingOut:
    """Statements true of one synthetic record, tried on the data."""

    name: ClassVar[str] = "singling_out"
    summary: ClassVar[str] = "statements that are true of exactly one person, by one attribute and by several"
    needs: ClassVar[tuple[str, ...]] = ()
    question: ClassVar[str] = "Describe somebody so that exactly one person fits"
    believed_by: ClassVar[str] = "whoever looks for the one person whom a synthetic row describes"
    of_one_person: ClassVar[bool] = True

    def run(self, comparison: Comparison) -> Section:
        if comparison.whole is not None:
            singled = _singled_out(comparison)

            def by_person(scene: Scene) -> dict[str, Tally]:
                side = side_of(comparison, scene.people)
                return {
                    subject: Tally(successes=int(side[people].sum()), guesses=int(side.sum()))
                    for subject, people in singled.items()
                }

            return section_of(outcomes=play_scenes(comparison, self.name, by_person))

        def play(scene: Scene) -> dict[str, Tally]:
            return {
                subject: Tally(
                    successes=true,
                    guesses=len(statements),
                    asked=STATEMENTS,
                    believed=Believed(made=len(statements), right=true, people=0),
                )
                for subject, statements in _statements(comparison, scene.tables, STATEMENTS).items()
                for true in [len(_singled(comparison, scene.people, statements))]
            }

        return section_of(outcomes=tuple(play_scenes(comparison, self.name, play, control=False)))


def _statements(comparison: Comparison, tables: tuple[Records, ...], most: int) -> dict[str, list[list[Condition]]]:
    """By kind and copy, statements that are true of one synthetic record."""
    nominal = comparison.nominal(list(range(len(comparison.names))))
    found = {}
    for number, copy in enumerate(tables, start=1):
        for label, statements in (
            ("one attribute", univariate(copy, nominal)),
            ("several attributes", multivariate(copy, nominal, comparison.generator(f"singling_out {number}"), most)),
        ):
            rows = comparison.some_people(len(statements), most, f"statements {number}")
            found[f"{label}, copy {number}"] = [statements[row] for row in rows]
    return found


def _singled_out(comparison: Comparison) -> dict[str, Integers]:
    """By kind and copy, the numbers of the people whom a statement of the refit singles out among everybody."""
    most = STATEMENTS if comparison.once else FEWER
    return {
        subject: np.unique(_singled(comparison, comparison.reference, statements)).astype(int)
        for subject, statements in _statements(comparison, comparison.tables, most).items()
    }


def _singled(comparison: Comparison, people: Records, statements: list[list[Condition]]) -> list[int]:
    """For each statement that is true of one person, that person; not if public knowledge is true of nobody else."""
    public = set(comparison.columns(comparison.public))
    found = []
    for statement in statements:
        known = [condition for condition in statement if condition[0] in public]
        who = true_of(people, statement)
        if len(who) == 1 and not (known and len(true_of(people, known)) == 1):
            found.append(int(who[0]))
    return found


def univariate(copy: Records, nominal: Flags) -> list[list[Condition]]:
    """Values that occur once, and extremes that occur once."""
    statements: list[list[Condition]] = []
    for column in range(copy.positions.shape[1]):
        values, counts = np.unique(copy.positions[:, column], return_counts=True)
        statements += [[(column, "=", float(value))] for value in values[counts == 1]]
        if not nominal[column] and len(values) > 1:
            statements += [[(column, "<=", float(values[0]))]] if counts[0] == 1 else []
            statements += [[(column, ">=", float(values[-1]))]] if counts[-1] == 1 else []
    return statements


def multivariate(
    copy: Records, nominal: Flags, generator: np.random.Generator, most: int = STATEMENTS
) -> list[list[Condition]]:
    """Conditions that hold for one synthetic record; a record that no condition tells from its twins is passed over."""
    middle = np.median(copy.positions, axis=0)
    statements = []
    for record in generator.permutation(len(copy))[: 2 * most]:
        left = np.arange(len(copy))
        conditions: list[Condition] = []
        for column in generator.permutation(copy.positions.shape[1]):
            value = float(copy.positions[record, column])
            comparison = "=" if nominal[column] else (">=" if value >= middle[column] else "<=")
            kept = left[_holds(copy.positions[left, column], comparison, value)]
            if len(kept) < len(left):
                conditions.append((int(column), comparison, value))
                left = kept
            if len(left) == 1:
                statements.append(conditions)
                break
        if len(statements) == most:
            break
    return statements


def true_of(people: Records, conditions: list[Condition]) -> Integers:
    """The numbers of the people of whom a statement is true."""
    left: Any = slice(None)
    for column, comparison, value in conditions:
        values = people.positions[left, column]
        kept = np.flatnonzero(_holds(values, comparison, value))
        left = kept if isinstance(left, slice) else left[kept]
    return np.arange(len(people)) if isinstance(left, slice) else left


def _holds(values: Any, comparison: str, value: float) -> Flags:
    result: Flags = (
        values == value if comparison == "=" else (values >= value if comparison == ">=" else values <= value)
    )
    return result
