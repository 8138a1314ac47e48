"""Attribution by equal keys: cells of the keys in which all synthetic records share one value of the target.

With d counts of the original, s of the synthetic, keys q and target t, and ps = s_tq / s_.q: iS = people whose keys
occur in the synthetic table; DiS = people whose keys are held by one synthetic value only (a claim is made); DiSCO =
the claim is true; DiSDiO = it is also true of everybody with these keys in the data; DCAP = sum ps_tq d_tq. All in
percent of the people. TCAP has three published meanings, so each is printed under its own name.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from understudy.core.arrays import Flags, Integers
from understudy.core.result import Finding, Section
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.shared.attack import Scene, attacks, play_scenes, section_of
from understudy.evaluation.shared.attack_success import DECIDED, Tally, independent_guesses
from understudy.evaluation.shared.neighbours import cell_numbers
from understudy.evaluation.shared.results import frame


class Claims:
    """One key set against one target: what each person's keys say, and whether it is true."""

    def __init__(self, people_key: Integers, people: Integers, key: Integers, values: Integers, levels: int) -> None:
        """Keys are cell numbers shared by both tables; ``people`` and ``values`` are codes of the target."""
        cells = int(max(people_key.max(initial=-1), key.max(initial=-1))) + 1
        distinct, place = np.unique(
            np.concatenate([people_key * levels + people, key * levels + values]), return_inverse=True
        )
        own, other = place[: len(people)], place[len(people) :]
        d, s = np.bincount(own, minlength=len(distinct)), np.bincount(other, minlength=len(distinct))
        of_key = distinct // levels
        s_key, most = np.bincount(key, minlength=cells), np.zeros(cells, np.int64)
        np.maximum.at(most, of_key, s)
        d_key = np.bincount(people_key, minlength=cells)
        self.people = len(people)
        self.present = s_key[people_key] > 0
        self.claim = self.present & (most[people_key] == s_key[people_key])
        self.correct = self.claim & (s[own] == s_key[people_key])
        self.key = people_key
        self.certain = self.correct & (d[own] == d_key[people_key])
        with np.errstate(invalid="ignore", divide="ignore"):
            chance = s[own] / s_key[people_key]
        self.chance = np.where(self.present, chance, 0.0)
        shares = np.bincount(people, minlength=levels) / max(len(people), 1)
        self.base = float(np.sum(shares**2))

    def tally(self, undecided: Flags) -> Tally:
        """Claims about people whose value the public schema leaves open. Equal keys get the same claim."""
        claim = self.claim & undecided
        return Tally(
            successes=int(np.sum(self.correct & undecided)),
            guesses=int(claim.sum()),
            asked=int(undecided.sum()),
            independent=independent_guesses(np.bincount(self.key[claim])) if claim.any() else None,
            note="" if undecided.any() else DECIDED,
        )

    def measures(self) -> dict[str, float | None]:
        def percent(flags: Any) -> float:
            return 100 * float(np.sum(flags)) / self.people

        i_s, di_s, disco = percent(self.present), percent(self.claim), percent(self.correct)
        return {
            "iS": i_s,
            "DiS": di_s,
            "DiSCO": disco,
            "DiSDiO": percent(self.certain),
            "DCAP": percent(self.chance),
            "baseCAP": 100 * self.base,
            "TCAP_of_claims": 100 * disco / di_s if di_s else None,
            "TCAP_of_present": 100 * disco / i_s if i_s else None,
            "TCAP_of_all": disco,
            "false_claims": di_s - disco,
        }


@attacks.add
class Attribution:
    """DiSCO and its family for every target, with the claims that are true and those that are false."""

    name: ClassVar[str] = "attribution"
    summary: ClassVar[str] = "values told by equal keys: DiS, DiSCO, DiSDiO, DCAP and the three TCAPs"
    needs: ClassVar[tuple[str, ...]] = ()
    question: ClassVar[str] = "Read a missing answer where all synthetic rows with the same known answers agree"
    believed_by: ClassVar[str] = "whoever knows the other answers of a person and trusts rows that agree"
    of_one_person: ClassVar[bool] = True
    guesses_an_answer: ClassVar[bool] = True

    def run(self, comparison: Comparison) -> Section:
        rows: list[dict[str, Any]] = []
        levels: list[dict[str, Any]] = []

        def play(scene: Scene) -> dict[str, Tally]:
            kind = "release" if scene.tables is comparison.tables else "null"
            if scene.people is not comparison.people:
                kind = "holdout"
            tallies = {}
            for number, target, claims in _claims(comparison, scene):
                tally = claims.tally(comparison.undecided(scene.people, target))
                rows.append({
                    "tables": kind, "copy": number, "target": target, **claims.measures(),
                    "open": tally.people, "right": tally.successes, "wrong": tally.guesses - tally.successes,
                })  # fmt: skip
                tallies[f"{target}, copy {number}"] = tally
                if kind == "release":
                    levels.extend(_levels(comparison, scene, target, number, claims))
            return tallies

        outcomes = play_scenes(comparison, self.name, play)
        return section_of(
            outcomes=tuple(outcomes),
            frames={"attribution": frame(rows), "attribution_levels": frame(levels)},
            findings=tuple(_findings(rows)),
        )


def _claims(comparison: Comparison, scene: Scene) -> Any:
    """Every target of every copy; cells of the keys are numbered once for all targets that share them."""
    shape = comparison.schema.shape()
    for number, copy in enumerate(scene.tables, start=1):
        numbered: dict[tuple[str, ...], list[Integers]] = {}
        for target in comparison.attacked:
            keys, column = comparison.known(target), comparison.names.index(target)
            if not keys:
                continue
            if keys not in numbered:
                numbered = {
                    keys: cell_numbers([scene.people.codes, copy.codes], comparison.columns(keys), shape)[0]
                }  # one at a time: without given keys every target has its own
            people_key, key = numbered[keys]
            people, values = scene.people.codes[:, column], copy.codes[:, column]
            yield number, target, Claims(people_key, people, key, values, shape[column])


def _levels(comparison: Comparison, scene: Scene, target: str, copy: int, claims: Claims) -> list[dict[str, Any]]:
    attribute = comparison.schema[target]
    codes = scene.people.codes[:, comparison.names.index(target)]
    people, right = (
        np.bincount(codes, minlength=attribute.size),
        np.bincount(codes[claims.correct & comparison.undecided(scene.people, target)], minlength=attribute.size),
    )
    return [
        {"target": target, "level": level, "copy": copy, "people": int(people[code]), "disclosed": int(right[code])}
        for code, level in enumerate(attribute.code_names)
        if people[code]
    ]


def _findings(rows: list[dict[str, Any]]) -> list[Finding]:
    real = [row for row in rows if row["tables"] == "release"]
    if not real:
        return []
    worst = max(real, key=lambda row: _percent(row, "right"))
    same = [r for r in rows if (r["copy"], r["target"]) == (worst["copy"], worst["target"])]
    null = next((row for row in same if row["tables"] == "null"), None)
    if null is None:  # a refit has no baseline
        return []
    return [
        Finding(
            code="risk.attribution.DiSCO",
            title=(
                f"{worst['target']}: for {_percent(worst, 'right'):.2f}% of the people equal keys tell the true value, "
                f"for {_percent(worst, 'wrong'):.2f}% a false one; independent attributes: "
                f"{_percent(null, 'right'):.2f}% and {_percent(null, 'wrong'):.2f}%"
            ),
            value=_percent(worst, "right"),
            severity="info",
            reference="DiSCO of Raab, Nowok and Dibben 2024, without values that the public schema decides",
        )
    ]


def _percent(row: dict[str, Any], what: str) -> float:
    """A percentage of the people whose value is open."""
    return 100 * float(row[what]) / row["open"] if row["open"] else 0.0
