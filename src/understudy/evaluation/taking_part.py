"""The risk of taking part: what an intruder gains because somebody is in the data, beyond what holds for others too.

Attacks succeed on people in the data and on people like them who are not. Only the difference is due to taking part.
With a holdout it is measured on the release itself. Without one, the same plan is run again on random halves of the
data, inside the building and without a charge. Within each such refit the people kept are compared with the people
left out. Comparing the release with a refit instead would change many people at once, and no bound would hold.

Bound. A person of a refit is as likely to be kept as to be left out, and a refit with them and one with somebody else
in their place are neighbours in the sense of the guarantee. So for every attack whose success depends on the person and
the synthetic tables only, the probabilities p of success satisfy p_in <= e^epsilon p_out + delta and, for the failures,
1 - p_out <= e^epsilon (1 - p_in) + delta (docs/theory/risk.md has the proof). Refits are independent given the data, so
means over refits have Student intervals. Only a lower limit above the bound is an alarm, and it is one about the
software: no person's behaviour can cause it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.core.arrays import Flags, Floats, Integers, Progress
from understudy.core.phases import told_to
from understudy.core.result import Finding, Section
from understudy.core.rules import limits_of, linked_limits
from understudy.core.table import CodedTable
from understudy.errors import UnderstudyError
from understudy.evaluation.gains import (
    FALSE_ALARM,
    NOTABLE,
    Gain,
    gain_over_holdout,
    gain_over_refits,
    most_allowed,
    one_person_above,
)
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.inputs.records import Records, possible, records_of, with_nulls
from understudy.evaluation.shared.attack import attacks
from understudy.evaluation.shared.attack_success import Tally
from understudy.evaluation.shared.neighbours import Neighbours
from understudy.evaluation.shared.results import ATTACKS, Collected, frame

FEWEST_REFITS = 4
USUAL_REFITS = 12  # enough for an interval
MOST_REFITS = 60  # if a gain looks greater than the guarantee allows, or in a thorough evaluation
MOST_PEOPLE = 2_000  # who are attacked in the refits
MOST_TARGETS = 3  # the attributes that are guessed best
RARE = 0.05  # the share of people called rare: those farthest from anybody else
ENOUGH_PEOPLE = 50  # who were asked about; of fewer no gain that may be chance is told, and no lack of one
CANARIES = 40  # invented people who are added to the data of the refits
MOST_CANARIES = 0.05  # as a share of the people
EVERYBODY, RAREST, INVENTED = "everybody", "the rarest people", "invented people"
MEMBERSHIP, CLOSEST, OUTLIERS = "membership", "closest_record", "outliers"
PERSON_PART = "person_part"
ABOVE_BOUND = "people_above_bound"
# By attack and subject, for each refit: successes and people asked about, among those kept and those left out.
Counts = dict[tuple[str, str], list[tuple[int, int, int, int]]]


@dataclass(slots=True)
class _Refits:
    """The results of the refits so far."""

    company: Floats  # how far the nearest other person is from each person asked about
    canaries: int  # who come behind them
    people: Integers = field(default_factory=lambda: np.empty(0, np.int64))  # their numbers in the data
    counts: Counts = field(default_factory=dict)
    nearness: list[Floats] = field(default_factory=list)
    kept: list[Flags] = field(default_factory=list)
    compared: list[Flags] = field(default_factory=list)
    seconds: float = 0.0
    making: float = 0.0  # CPU seconds of the last refit without the attacks
    each: dict[str, float] = field(default_factory=dict)  # CPU seconds of the attacks in the last refit
    left_out: set[str] = field(default_factory=set)  # attacks there is no time for
    stopped: str = ""  # why no more could be made

    def __len__(self) -> int:
        return len(self.kept)

    @property
    def next_seconds(self) -> float:
        """CPU time of another refit: making it and taking distances, as the last time, and the attacks still played."""
        return self.making + sum(taken for name, taken in self.each.items() if name not in self.left_out)

    def fit_into(self, seconds: float) -> bool:
        """Whether there is time for another refit, and for as many as an interval needs.

        If not, the most expensive attacks are left out from now on, one after the other, and not reported.
        Membership stays, because it takes distances only.
        """
        needed = max(FEWEST_REFITS - len(self), 1)
        for name in sorted(self.each, key=lambda one: -self.each[one]):
            if self.seconds + needed * self.next_seconds <= seconds or len(self) >= FEWEST_REFITS:
                break
            self.left_out.add(name)
        return self.seconds + needed * self.next_seconds <= seconds

    @property
    def all_counts(self) -> Counts:
        """All counts, also of the attacks by distance, for which the distances are here already.

        Membership: a person is said to be in a refit if it is nearer to them than the others on average. The others are
        drawn independently of this one, so they are the same knowledge about people kept and people left out. Rare
        people are also counted alone, and so are the canaries. Closest record: a synthetic row of the refit is closer
        to a person than any other person in the data is.
        """
        if len(self) < 2:
            return self.counts
        nearness, kept, compared = np.array(self.nearness), np.array(self.kept), np.array(self.compared)
        accused = nearness > (nearness.sum(axis=0) - nearness) / (len(self) - 1)
        counts: Counts = dict(self.counts)
        real = len(self.company)
        rare = self.company >= np.quantile(self.company, 1 - RARE, method="higher")
        invented = np.repeat([False, True], [real, self.canaries])
        closer = -nearness < np.append(self.company, np.zeros(self.canaries))
        everybody, rarest = ~invented, np.append(rare, np.zeros(self.canaries, bool))
        for subject, said, whom in (
            ((MEMBERSHIP, EVERYBODY), accused, everybody),
            ((MEMBERSHIP, RAREST), accused, rarest),
            ((MEMBERSHIP, INVENTED), accused, invented),
            ((CLOSEST, EVERYBODY), closer, everybody),
            ((CLOSEST, OUTLIERS), closer, rarest),
        ):
            counts[subject] = _by_side(said, kept & compared & whom, ~kept & compared & whom)
        return counts

    def above_bound(self, claimed: tuple[float, float] | None) -> Integers:
        """The people to whom synthetic rows come so close, with them in the data only, as the guarantee forbids.

        Shares of many people do not show a program that copies one certain person.
        """
        if claimed is None or not len(self):
            return np.empty(0, np.int64)
        real = len(self.company)
        far = -np.array(self.nearness)[:, :real]
        kept, compared = np.array(self.kept)[:, :real], np.array(self.compared)[:, :real]
        sides = (kept & compared, ~kept & compared)
        counts = [
            np.column_stack([part.sum(axis=0) for side in sides for part in (found & side, side)])
            for found in (far == 0, far < self.company)  # copies, and rows closer than anybody else is
        ]
        above = one_person_above(np.concatenate(counts), claimed)
        return self.people[above[:real] | above[real:]]


def _by_side(said: Flags, inside: Flags, outside: Flags) -> list[tuple[int, int, int, int]]:
    """For each refit: how many people the attack named, and of how many, among those kept and those left out."""
    return [
        (int((one & inner).sum()), int(inner.sum()), int((one & outer).sum()), int(outer.sum()))
        for one, inner, outer in zip(said, inside, outside, strict=True)
        if inner.any() and outer.any()
    ]


def person_part(
    comparison: Comparison, attacked: Sequence[Mapping[str, Any]], *, progress: Progress | None = None
) -> Section:
    """The gain of every attack that has one, by the holdout if there is one, else by refits; or why there is none."""
    found = Collected()
    if comparison.outsiders is not None:
        rows = _by_holdout(comparison, attacked)
        how = "the people of the holdout"
    elif comparison.refit is None:
        return _not_measured(comparison.no_refit or "there is no holdout, and no way to make the release again")
    else:
        refits = _run(comparison, _told_best(comparison, attacked), progress)
        if len(refits) < FEWEST_REFITS and refits.stopped:
            return _not_measured(f"the release could not be made again from half of the data ({refits.stopped})")
        if len(refits) < FEWEST_REFITS:
            return _not_measured(
                f"making the release again takes about {refits.seconds / max(len(refits), 1):.0f} CPU seconds, and "
                f"{FEWEST_REFITS} times would take more than {comparison.seconds:.0f}; ask for a thorough evaluation, "
                "or give a holdout"
            )
        rows = _by_refits(comparison, refits)
        if not rows:
            return _not_measured("nearly everybody is alone in what is publicly known of them")
        how = f"{len(refits)} runs of the same plan on random halves of the data ({refits.seconds:.0f} CPU seconds)"
        found.findings += _no_time(refits)
        certain = refits.above_bound(comparison.claimed)
        if len(certain):
            found.findings.append(_certain(len(certain)))
            found.frames[ABOVE_BOUND] = frame([{"record": int(person)} for person in certain])
            rows = [
                {**row, "above_bound": True, "light": "red"}
                if (row["attack"], row["subject"]) == (CLOSEST, EVERYBODY)
                else row
                for row in rows
            ]
    found.frames[PERSON_PART] = frame(rows)
    found.findings += _findings(rows, how)
    return found.section()


def _certain(people: int) -> Finding:
    who = "1 person" if people == 1 else f"{people:,} people"
    title = (
        f"synthetic rows copy {who}, or come closer than anybody else, where these took part and not where they did "
        "not, more regularly than the guarantee allows: the software that made the release does not keep its "
        f"promise; do not publish it, and report this (who: table {ABOVE_BOUND})"
    )
    reference = f"false alarms below {FALSE_ALARM:g} for all people together"
    return Finding(
        code="risk.person.one_above_bound", title=title, value=people, severity="problem", reference=reference
    )


def _no_time(refits: _Refits) -> list[Finding]:
    if not refits.left_out:
        return []
    names = ", ".join(sorted(name.replace("_", " ") for name in refits.left_out))
    title = f"there was no time to run these attacks on people kept and people left out: {names}; --thorough has more"
    return [Finding(code="risk.person.no_time", title=title, value=len(refits.left_out))]


def _not_measured(reason: str) -> Section:
    title = f"what an intruder gains because somebody took part was not measured: {reason}"
    return Section(findings=(Finding(code="risk.person.not_measured", title=title, value=None),))


def _told_best(comparison: Comparison, attacked: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The attributes that the release reveals most about, beyond its margins."""
    told = {row["subject"]: row["residual"] for row in attacked if row["attack"] == "attribute_inference"}
    best = sorted(comparison.attacked, key=lambda name: -told.get(name, -1.0))[:MOST_TARGETS]
    return comparison.schema.margin(best)


def _run(comparison: Comparison, targets: tuple[str, ...], progress: Progress | None) -> _Refits:
    """As many refits as are useful and as the CPU budget allows."""
    people = comparison.some_people(len(comparison.people), MOST_PEOPLE, "refits")
    # Attacks that compare people with every record are asked about fewer of them.
    fewer = comparison.affordable_people(
        len(people), MOST_PEOPLE, "refits", differences=len(comparison.people) * len(comparison.names)
    )
    asked = people[fewer]
    rows, canaries = _with_canaries(comparison)
    refits = _Refits(company=_company(comparison, people), canaries=len(canaries), people=people)
    everybody = np.append(people, len(comparison.people) + np.arange(len(canaries)))
    positions = np.concatenate([comparison.people.positions[people], canaries.positions])
    started = time.process_time()
    codes = np.concatenate([comparison.people.codes, canaries.codes])
    for number, (kept, compared) in enumerate(_halves(comparison, codes)):
        try:
            tables = _refit(comparison, rows, kept, number)
        except UnderstudyError as problem:  # half of the data may be too few for the method
            refits.stopped = str(problem)
            break
        real = len(comparison.people)
        one = comparison.in_refit(
            asked=asked, kept=kept[:real], compared=compared[:real], tables=tables, targets=targets
        )
        if len(one.people) and one.outsiders is not None and len(one.outsiders):
            _play(one, refits)
        refits.nearness.append(_nearness(comparison, positions, tables))
        refits.kept.append(kept[everybody])
        refits.compared.append(compared[everybody])
        before, refits.seconds = refits.seconds, time.process_time() - started
        refits.making = max(refits.seconds - before - sum(refits.each.values()), 0.0)
        if progress is not None:
            affordable = max(int(comparison.seconds * len(refits) / refits.seconds), 1)
            few = min(MOST_REFITS if comparison.thorough else USUAL_REFITS, affordable)
            progress(number + 1, max(few, number + 1))
        if not refits.fit_into(comparison.seconds):
            break
        if not comparison.thorough and len(refits) >= USUAL_REFITS and not _suspicious(comparison, refits):
            break
    return refits


def _suspicious(comparison: Comparison, refits: _Refits) -> bool:
    """Whether some success is greater than the guarantee allows, so far.

    An alarm needs a lower limit above the bound, hence a mean above it. So stopping only if no mean is above it
    adds no false alarms.
    """
    for counts in filter(None, refits.all_counts.values()):
        inside, asked, outside, others = np.sum(counts, axis=0)
        limit = most_allowed(outside / others, comparison.claimed)
        if limit is not None and inside / asked > limit:
            return True
    return False


def _with_canaries(comparison: Comparison) -> tuple[pa.Table, Records]:
    """The rows with some invented people behind them, and the invented people.

    Each takes every value from another random person (public values all from the same one). So they are unlike anybody
    if attributes are associated. The schema must allow them.
    """
    rows = with_nulls(comparison.original, comparison.original_rows)
    count = len(comparison.people)
    wanted = min(CANARIES, int(MOST_CANARIES * count))
    generator = comparison.generator("canaries")
    taken = generator.integers(0, count, (20 * wanted, len(comparison.names)))
    public = comparison.columns(comparison.public)
    if public:
        taken[:, public] = taken[:, public[:1]]
    for limits in linked_limits(limits_of(comparison.schema)):  # values that obey a rule together stay together
        linked = comparison.columns(tuple(dict.fromkeys(name for one in limits for name in (one.small, one.large))))
        first = next((column for column in linked if column in public), linked[0])
        taken[:, linked] = taken[:, [first]]
    columns = np.arange(len(comparison.names))
    codes = comparison.people.codes[taken, columns]
    taken = taken[possible(comparison.schema, codes)][:wanted]
    people = comparison.people
    invented = Records(codes=people.codes[taken, columns], positions=people.positions[taken, columns])
    made = pa.table({name: rows[name].take(pa.array(taken[:, j])) for j, name in enumerate(rows.column_names)})
    return pa.concat_tables([rows, made]), invented


def _halves(comparison: Comparison, codes: Integers) -> Iterator[tuple[Flags, Flags]]:
    """Who is kept, and who is compared: exact halves of each cell of the public attributes, if sizes are public.

    So a half with a person, and one with somebody else in their place (or with nobody), are neighbours. In a cell with
    an odd number of people one of them, drawn anew each time, is set aside: kept or left out by a coin, and compared
    with nobody. Otherwise the size of the cell, which is public, would tell who is in it: above all of people who are
    alone in theirs. If sizes are not public, everybody has a fair coin of their own.
    """
    from understudy.evaluation.shared.neighbours import cell_numbers

    count = len(codes)
    coins = comparison.release.statement.unit.kind == "add_remove"
    columns = comparison.columns(comparison.public)
    (stratum,), strata = cell_numbers([codes], columns, comparison.schema.shape())
    for number in range(MOST_REFITS):
        generator = comparison.generator(f"half {number}")
        if coins:
            yield generator.uniform(size=count) < 0.5, np.ones(count, bool)
            continue
        order = np.lexsort((generator.uniform(size=count), stratum))
        sizes = np.bincount(stratum, minlength=strata)
        taken = (sizes + generator.integers(0, 2, strata)) // 2  # of an odd number the smaller or the larger half
        place = np.arange(count) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        kept, compared = np.empty(count, bool), np.empty(count, bool)
        kept[order] = place < np.repeat(taken, sizes)
        # The one set aside is the last of those kept, or the first of those left out: what is left are equal halves.
        compared[order] = (place != np.repeat(sizes // 2, sizes)) | (np.repeat(sizes, sizes) % 2 == 0)
        yield kept, compared


def _refit(comparison: Comparison, rows: pa.Table, kept: Flags, number: int) -> tuple[Records, ...]:
    assert comparison.refit is not None  # noqa: S101 - asked before
    with told_to(lambda *_: None):  # the steps of one refit would hide how far all of them are
        made = comparison.refit(rows.filter(pa.array(kept)), number)
    coded: list[CodedTable] = [made.coded(copy) for copy in range(1, made.copies + 1)]
    return tuple(records_of(codes, made.frame(copy), comparison.schema) for copy, codes in enumerate(coded, start=1))


def _play(one: Comparison, refits: _Refits) -> None:
    """Every attack on one person at a time, on the people kept and on the people left out."""
    refits.each = {}
    for name in attacks:
        attack = attacks[name]
        if name in refits.left_out or not getattr(attack, "of_one_person", False):
            continue
        started = time.process_time()
        for row in attack().run(one).frames.get("attacks", frame([])).to_pylist():
            if row["asked"] and row["control_asked"]:
                counts = (row["successes"], row["asked"], row["control_successes"], row["control_asked"])
                refits.counts.setdefault((name, row["subject"]), []).append(counts)
        refits.each[name] = time.process_time() - started


def _nearness(comparison: Comparison, positions: Floats, tables: tuple[Records, ...]) -> Floats:
    """How near the closest synthetic record is to each position; greater is nearer."""
    columns = list(range(len(comparison.names)))
    tree = Neighbours(
        np.concatenate([table.positions for table in tables]),
        nominal=comparison.nominal(columns),
        weights=comparison.spans(columns),
    )
    nearness: Floats = -tree.k_nearest(positions, 1)[:, 0]
    return nearness


def _company(comparison: Comparison, people: Integers) -> Floats:
    """How far the nearest other person in the data is; the people with the farthest neighbour are called rare."""
    columns = list(range(len(comparison.names)))
    tree = Neighbours(
        comparison.people.positions, nominal=comparison.nominal(columns), weights=comparison.spans(columns)
    )
    company: Floats = tree.k_nearest(comparison.people.positions[people], 2)[:, 1]  # the first is the person
    return company


def _by_refits(comparison: Comparison, refits: _Refits) -> list[dict[str, Any]]:
    found = {subject: counts for subject, counts in refits.all_counts.items() if len(counts) >= FEWEST_REFITS}
    return [
        {
            "attack": name, "subject": subject, "by": "refits", "times": len(counts),
            "people": round(float(np.mean([one[1] for one in counts]))),
            **_numbers(gain_over_refits(counts, comparison.claimed, compared=len(found))),
        }
        for (name, subject), counts in found.items()
    ]  # fmt: skip


def _by_holdout(comparison: Comparison, attacked: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For each attack and subject: success on people in the data and on the people of the holdout.

    Attacks without a control are played on the people of both sides together, if they are about one person each.
    """
    together = comparison.with_outsiders()
    alone = {row["attack"] for row in attacked if row["control_asked"] is None}
    again = [
        row
        for name in sorted(alone)
        if getattr(attacks[name], "of_one_person", False)
        for row in attacks[name]().run(together).frames.get(ATTACKS, frame([])).to_pylist()
    ]
    sides = [
        (row["attack"], row["subject"], _release_side(row), _control_side(row))
        for row in (*attacked, *again)
        if row["asked"] and row["control_asked"]
    ]
    sides += [
        (MEMBERSHIP, row["subject"], *_named(row)) for row in attacked if row["attack"] == MEMBERSHIP and row["asked"]
    ]
    return [
        {
            "attack": name, "subject": subject, "by": "holdout", "times": 1, "people": release.people,
            **_numbers(
                gain_over_holdout(
                    release, control, comparison.claimed, compared=len(sides), rows_together=comparison.rows_together
                )
            ),
        }
        for name, subject, release, control in sides
    ]  # fmt: skip


def _release_side(row: Mapping[str, Any]) -> Tally:
    return Tally(successes=row["successes"], guesses=row["guesses"], asked=row["asked"], independent=row["independent"])


def _control_side(row: Mapping[str, Any]) -> Tally:
    return Tally(
        successes=row["control_successes"],
        guesses=row["control_guesses"],
        asked=row["control_asked"],
        independent=row["control_independent"],
    )


def _named(row: Mapping[str, Any]) -> tuple[Tally, Tally]:
    """Of as many people in the data as in the holdout: those of either side who are said to be in the data."""
    people = row["asked"] // 2
    return (
        Tally(successes=row["claims_right"], guesses=people),
        Tally(successes=row["claims"] - row["claims_right"], guesses=people),
    )


def _numbers(gain: Gain) -> dict[str, Any]:
    return {
        "inside": gain.inside, "outside": gain.outside, "gain": gain.value, "gain_low": gain.low,
        "gain_high": gain.high, "most_allowed": None if gain.limit is None else gain.limit - gain.outside,
        "above_bound": gain.above_limit, "light": gain.light,
    }  # fmt: skip


def clearest(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The gain with the greatest lower limit; if none is above 0, the greatest one, from enough people if possible.

    >>> many, few = {"people": 200, "times": 12}, {"people": 4, "times": 12}
    >>> clearest([{"gain": 0.2, "gain_low": -0.1, **many}, {"gain": 0.1, "gain_low": -0.01, **many}])["gain"]
    0.2
    >>> clearest([{"gain": 0.2, "gain_low": -0.1, **few}, {"gain": 0.1, "gain_low": -0.01, **many}])["gain"]
    0.1
    >>> clearest([{"gain": 0.2, "gain_low": 0.1, **few}, {"gain": 0.1, "gain_low": 0.01, **many}])["gain"]
    0.2
    """
    sure = [row for row in rows if row["gain_low"] > 0]
    if sure:
        return max(sure, key=lambda row: (row["gain_low"], row["gain"]))
    return max([row for row in rows if told_by_enough(row)] or rows, key=lambda row: row["gain"])


def told_by_enough(row: Mapping[str, Any]) -> bool:
    """Whether a gain is sure, or so many people were asked about that its absence says something."""
    return bool(row["gain_low"] > 0 or row["people"] * row["times"] >= ENOUGH_PEOPLE)


def _findings(rows: Sequence[Mapping[str, Any]], how: str) -> list[Finding]:
    if not rows:
        return []
    worst = clearest(rows)
    bound = (
        "this release has no guarantee, so there is no bound"
        if worst["most_allowed"] is None
        else f"the guarantee allows at most {worst['most_allowed']:.3f}"
    )
    found = [
        Finding(
            code="risk.person",
            title=(
                f"the clearest gain because somebody took part: {worst['attack'].replace('_', ' ')} "
                f"[{worst['subject']}], {worst['gain']:.3f} ({worst['gain_low']:.3f} to {worst['gain_high']:.3f}) "
                f"by {how}; {bound}"
            ),
            value=worst["gain"],
            severity="warning" if worst["gain_low"] > NOTABLE else "info",
        )
    ]
    for row in rows:
        if row["above_bound"]:
            found.append(
                Finding(
                    code="risk.person.above_bound",
                    title=(
                        f"{row['attack'].replace('_', ' ')} [{row['subject']}] gains more than the guarantee allows: "
                        "the software that made the release does not keep its promise; do not publish it, and report "
                        "this"
                    ),
                    value=row["gain"],
                    severity="problem",
                    reference=f"false alarms below {FALSE_ALARM:g} for all comparisons together",
                )
            )
    return found
