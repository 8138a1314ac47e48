"""What two recordings say about the charge: every quantity of one table beside that of its neighbour."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from replaying import laws
from replaying.recording import Answers, Choice, Law, NoisyList, Passage, Recording, Run, ShrunkUrn, Urn
from understudy.core.measurement import NEIGHBOURS, SIZES
from understudy.core.places import DESTINATION
from understudy.privacy.promise.accountant import loss_of
from understudy.privacy.promise.definition import ZCDP, Definition, PureDP, Unit
from understudy.privacy.promise.event import (
    ApproxLoss,
    Event,
    ExponentialCounts,
    GaussianNoise,
    GeometricNoise,
    GumbelMax,
    NoisyMax,
    PureLoss,
    Strata,
    ThresholdedNoise,
    TrimmedGaussianNoise,
    promises_definition_6,
)

CLOSE = 1 + 1e-9  # of sums in floating point; every calibration keeps further away
LAWS = {
    GeometricNoise: "geometric",
    GaussianNoise: "discrete_gaussian",
    ThresholdedNoise: "discrete_gaussian",
}
BOUNDED = {
    "trimmed_gaussian": ("discrete_gaussian", (ApproxLoss, TrimmedGaussianNoise)),
    "exponential_counts": ("geometric", (ExponentialCounts,)),
}
CHOICES = {NoisyMax: "exponential", GumbelMax: "gumbel"}


@dataclass(kw_only=True)
class Tally:
    """How much was compared, and how near to the charge it came (1: the whole charge can be lost)."""

    compared: int = 0
    nearest: dict[str, float] = field(default_factory=dict)
    not_enumerated: int = 0

    def note(self, kind: str, share: float) -> None:
        self.compared += 1
        self.nearest[kind] = max(self.nearest.get(kind, 0.0), share)


@dataclass(frozen=True, kw_only=True)
class Judge:
    """Compares runs that were made under one unit and budget."""

    unit: Unit
    budget: Definition
    tally: Tally = field(default_factory=Tally)
    with_laws: bool = True  # where rows are drawn by other processes, the loops cannot be watched

    def alone(self, recording: Recording) -> Iterator[str]:
        """What one run shows by itself: the noise that was drawn is the noise that was charged, and all of it was."""
        yield from recording.outside
        for passage in recording.passages:
            if passage.kind in ("measure", "compare", "discover"):
                yield from self._runs_alone(passage)
            elif passage.kind == "select":
                yield from self._choice_alone(passage)
            else:
                yield from self._draw_alone(passage)
        charged = [event for passage in recording.passages for event in passage.charged]
        if tuple(charged) != recording.events:
            yield f"{len(recording.events)} events are stated, and {len(charged)} were charged at the gate"

    def _runs_alone(self, passage: Passage) -> Iterator[str]:
        if not len(passage.runs) == len(passage.asked) == len(passage.charged):
            yield (
                f"{len(passage.asked)} tables were asked for, {len(passage.runs)} were measured by a mechanism, "
                f"{len(passage.charged)} were charged"
            )
            return
        for asked, run, event in zip(passage.asked, passage.runs, passage.charged, strict=True):
            yield from self._noise(f"measured '{asked[0]}'", run, event)

    def _noise(self, what: str, run: Run, event: Event) -> Iterator[str]:
        if run.mechanism in BOUNDED:
            yield from self._bounded_noise(what, run, event)
            return
        law, scale = LAWS.get(type(event)), getattr(event, "scale", None)
        if law is None:
            yield f"{what}: charged as {type(event).__name__}, which says nothing of noise on counts"
            return
        drawn = [call for call in run.noise if call.law == law]
        if any(call.scale != scale for call in run.noise):
            yield f"{what}: noise of scale {_shown(run.noise)} was drawn and {float(scale):g} was charged"
        size = int(np.count_nonzero(run.truth)) if run.reported_above is not None else run.truth.size
        if sum(call.values.size for call in drawn) != size:
            yield f"{what}: {size} exact counts, but noise for {sum(call.values.size for call in drawn)} of them"
        elif run.codes is not None:
            noisy = run.truth + np.concatenate([call.values.ravel() for call in drawn]) if drawn else run.truth
            if isinstance(event, ThresholdedNoise) and run.reported_above != event.threshold - 1:
                yield f"{what}: told above {run.reported_above}, charged for a threshold of {int(event.threshold)}"
            if not np.array_equal(run.answer, np.where(noisy > run.reported_above, noisy, 0)):
                yield f"{what}: what was told is not the codes whose noisy count reaches the threshold"
        elif run.reported_above is None:
            noise = np.concatenate([call.values.ravel() for call in drawn]) if drawn else np.zeros(0, dtype=np.int64)
            if not np.array_equal(run.answer.ravel(), run.truth.ravel() + noise):
                yield f"{what}: what came out is not the counts plus the noise that was drawn"

    def _bounded_noise(self, what: str, run: Run, event: Event) -> Iterator[str]:
        """Noise that is drawn again where it does not fit: what came out is some of what was drawn, all of it fits."""
        law, charge = BOUNDED[run.mechanism]
        if type(event) not in charge:
            yield f"{what}: {run.mechanism} was charged as {type(event).__name__}"
        if {call.law for call in run.noise} != {law} or len({call.scale for call in run.noise}) != 1:
            yield f"{what}: {run.mechanism} drew noise of {_shown(run.noise)}"
        made = (run.answer - run.truth).ravel()
        drawn = np.concatenate([call.values.ravel() for call in run.noise])
        if drawn.size < made.size or not np.isin(made, drawn).all():
            yield f"{what}: what came out is not the counts plus noise that was drawn"
        fits = run.answer >= 0 if run.bound is None else np.abs(made) <= run.bound
        if not fits.all():
            yield f"{what}: noise beyond its bound came out"

    def _bounded_lost(self, what: str, run: Run, again: Run, event: Event | None) -> Iterator[str]:
        """The exact loss between two tables, from the scale that was drawn with, by listing outputs."""
        moved = [(int(a), int(b)) for a, b in zip(run.truth.ravel(), again.truth.ravel(), strict=True) if a != b]
        scale = float(run.noise[0].scale)
        if isinstance(event, ExponentialCounts):
            lost = sum(laws.exponential_loss(scale, one, other) for one, other in moved)
            charged, kind = float(loss_of(event, self.unit).epsilon or 0), "epsilon"
        elif isinstance(event, TrimmedGaussianNoise):
            if event.scale != run.noise[0].scale or event.bound != run.bound:
                yield f"{what}: noise of scale {scale:g} within {run.bound}, charged {event}"
            steps = [abs(other - one) for one, other in moved]
            lost = sum(laws.trimmed_tail(scale, int(event.bound), step) for step in steps)
            charged, kind = float(loss_of(event, self.unit).approx_delta), "delta of the ends"
        elif isinstance(event, ApproxLoss) and run.bound is not None:
            charged, kind = float(event.delta), "delta"
            lost = laws.trimmed_delta(scale, run.bound, [other - one for one, other in moved], float(event.epsilon))
        else:
            return
        self.tally.note(kind, lost / charged)
        if lost > charged * (1 + 1e-6):
            yield f"{what}: {kind} {lost:.6g} between neighbours, charged {charged:g}"

    def _choice_alone(self, passage: Passage) -> Iterator[str]:
        if len(passage.charged) != 1 or len(passage.choices) != 1:
            yield f"{len(passage.choices)} choices were made and {len(passage.charged)} were charged"
            return
        choice, event = passage.choices[0], passage.charged[0]
        if CHOICES.get(type(event)) != choice.law or choice.scale != getattr(event, "scale", None):
            yield f"a choice by {choice.law} noise of scale {float(choice.scale):g} was charged as {event}"

    def _draw_alone(self, passage: Passage) -> Iterator[str]:
        if len(passage.charged) != 1:
            yield f"a table was drawn and {len(passage.charged)} events were charged"
        elif self.with_laws:
            if not passage.laws:
                yield "a table was drawn by something that no loop under watch has done"
            for key, law in passage.laws.items():
                moves = self._records_moved(passage.charged[0], key)
                yield from self._worst(key, law, _loss_of(passage.charged[0], key), moves)
            yield from self._breaches(passage)

    def _breaches(self, passage: Passage) -> Iterator[str]:
        """Where Definition 6 is promised, the breach probabilities of all draws together stay within delta."""
        promised = [
            (law, loss)
            for key, law in passage.laws.items()
            if promises_definition_6(loss := _loss_of(passage.charged[0], key)) and isinstance(law, Urn)
        ]
        if not promised:
            return
        allowed = float(promised[0][1].delta)
        total = math.fsum(laws.breach_probability(law, float(loss.epsilon)) for law, loss in promised)
        self.tally.note("breach probability", total / allowed)
        if total > allowed * CLOSE:
            yield f"breach probabilities add up to {total:.6g} over {len(promised)} draws, charged {allowed:g}"

    def _worst(self, key: Any, law: Law, event: Event, moves: int) -> Iterator[str]:
        """The loss of one draw over every table that has its public sizes."""
        if isinstance(law, NoisyList) and not isinstance(event, PureLoss):
            if not isinstance(event, GeometricNoise) or law.scale != event.scale:
                yield f"the draw of {key}: noise of scale {float(law.scale):g} was charged as {event}"
            return
        if isinstance(law, ShrunkUrn) or getattr(law, "accepted", None) is not None:
            return  # neighbours are compared exactly; at worst by the theorem only
        if isinstance(event, PureLoss):
            both = self.unit.kind == "replace" or DESTINATION in self.unit.fixed
            lost = laws.worst_epsilon(law, moves, moved_counts=self.unit.rows_per_unit * (2 if both else 1))
            self.tally.note("epsilon of a draw at worst", lost / float(event.epsilon))
            if lost > float(event.epsilon) * CLOSE:
                yield f"the draw of {key}: epsilon {lost:.6g} at worst ({_told(law)}), charged {float(event.epsilon):g}"
        elif isinstance(event, ApproxLoss):
            public = self.unit.public_total if not _is_flow(key) else DESTINATION in self.unit.fixed
            lost = laws.worst_delta(law, self.unit, public_size=public, epsilon=float(event.epsilon))
            self.tally.note("delta of a draw at worst", lost / float(event.delta))
            if lost > float(event.delta) * CLOSE:
                yield (
                    f"the draw of {key}: delta {lost:.6g} at worst at epsilon {float(event.epsilon):g} ({_told(law)}), "
                    f"charged {float(event.delta):g}"
                )
        else:
            yield f"the draw of {key} was charged as {event}"

    def _records_moved(self, event: Event, key: Any) -> int:
        """How many records of this draw one unit may change under what the event is stated for."""
        if _is_flow(key):
            leaves_and_enters = self.unit.kind == "replace" and DESTINATION not in self.unit.fixed
            return self.unit.rows_per_unit * (2 if leaves_and_enters else 1)
        return 1 if isinstance(event, Strata) else self.unit.rows_per_unit

    # -- two runs ---------------------------------------------------------------------------------------------------

    def together(self, first: Recording, second: Recording) -> Iterator[str]:
        """What differs between a run and its replay on a neighbour, beside what was charged for it."""
        yield from self.alone(second)
        if first.public != second.public:
            yield f"public numbers differ between neighbours: {_first_difference(first.public, second.public)}"
        if len(first.passages) != len(second.passages):
            yield f"the gate was asked {len(first.passages)} times, and {len(second.passages)} times on the neighbour"
            return
        lost = Fraction(0)
        for one, other in zip(first.passages, second.passages, strict=True):
            if (one.kind, one.asked, one.charged) != (other.kind, other.asked, other.charged):
                yield f"what was asked of the gate ({one.kind}) differs between neighbours although all answers agree"
                continue
            for number, (run, again) in enumerate(zip(one.runs, other.runs, strict=True)):
                event = one.charged[number] if number < len(one.charged) else None
                if run.codes is not None:
                    yield from self._codes(f"found '{one.asked[number][0]}'", run, again, event)
                    continue
                yield from self._moved(f"measured '{one.asked[number][0]}'", run, again, event, self._most(one, number))
                if run.mechanism in BOUNDED:
                    yield from self._bounded_lost(f"measured '{one.asked[number][0]}'", run, again, event)
                lost += self._spent(run, again, event)
            for choice, again in zip(one.choices, other.choices, strict=True):
                yield from self._scores(choice, again, one.charged[0])
                lost += self._spent_choosing(choice, again)
            if self.with_laws and one.kind == "draw" and one.charged:
                yield from self._drawn(one, other)
        yield from self._total(lost)
        yield from _released(first, second)

    def _most(self, passage: Passage, number: int) -> int | None:
        """By how much one unit may move one number of a table; of clusters only their sum is bounded."""
        cells = passage.asked[number][2:3]
        if NEIGHBOURS in cells or SIZES in cells:
            return None
        # A distance, and a sum with signs, moves as often as rows enter and leave.
        twice = passage.kind == "compare" or "contrasts" in cells
        return self.unit.rows_per_unit * (2 if twice and self.unit.kind == "replace" else 1)

    def _moved(self, what: str, run: Run, again: Run, event: Event | None, most: int | None) -> Iterator[str]:
        if run.truth.shape != again.truth.shape:
            yield f"{what}: the number of cells differs between neighbours"
            return
        moved = np.abs(run.truth - again.truth)
        for charged, distance, kind in (
            (getattr(event, "l1", None), int(moved.sum()), "L1"),
            (getattr(event, "l2_squared", None), int((moved**2).sum()), "squared L2"),
        ):
            if charged is None:
                continue
            self.tally.note(kind if most is not None else f"{kind} of clusters", float(distance / charged))
            if distance > charged:
                yield f"{what}: {kind} distance {distance} between neighbours, charged {float(charged):g}"
        if most is None:
            return
        self.tally.note("Linf", float(moved.max(initial=0)) / most)
        if moved.max(initial=0) > most:
            yield f"{what}: one number moves by {int(moved.max())}, and a unit moves it by at most {most}"

    def _codes(self, what: str, run: Run, again: Run, event: Event | None) -> Iterator[str]:
        """Codes that both tables have move by what was charged; one that a table has alone is seen with its delta."""
        if not isinstance(event, ThresholdedNoise):
            yield f"{what}: charged as {type(event).__name__}"
            return
        tables = [dict(zip(one.codes or (), one.truth.tolist(), strict=True)) for one in (run, again)]
        both = set(tables[0]) & set(tables[1])
        distance = sum((tables[0][code] - tables[1][code]) ** 2 for code in both)
        self.tally.note("squared L2", float(distance / event.l2_squared))
        if distance > event.l2_squared:
            yield f"{what}: squared L2 distance {distance} between neighbours, charged {float(event.l2_squared):g}"
        charged = float(loss_of(event, self.unit).approx_delta)
        for table, other in (tables, tables[::-1]):
            alone = [int(event.threshold) - table[code] for code in set(table) - set(other)]
            seen = 1 - math.prod(1 - laws.gaussian_tail(event.scale, least) for least in alone)
            self.tally.note("delta of codes", seen / charged)
            if seen > charged * CLOSE:
                yield f"{what}: a code of one unit alone is seen with probability {seen:.6g}, charged {charged:g}"

    def _scores(self, choice: Choice, again: Choice, event: Event) -> Iterator[str]:
        if choice.scores.shape != again.scores.shape:
            yield "the number of candidates differs between neighbours"
            return
        moved, charged = int(np.abs(choice.scores - again.scores).max()), getattr(event, "sensitivity", Fraction(0))
        self.tally.note("score", float(moved / charged) if charged else math.inf)
        if moved > charged:
            yield f"a score moves by {moved} between neighbours, charged {float(charged):g}"

    def _drawn(self, one: Passage, other: Passage) -> Iterator[str]:
        event = one.charged[0]
        pairs, distance = [], 0
        if set(one.laws) != set(other.laws):
            yield "what is drawn at all differs between neighbours"
            return
        for key, law in one.laws.items():
            again = other.laws[key]
            if not _same_sizes(law, again):
                yield f"the draw of {key}: its size, prior or domain differs between neighbours"
                return
            if isinstance(law, NoisyList) and isinstance(again, NoisyList):
                distance += laws.moved(law, again)
                if isinstance(event, PureLoss) and law != again:
                    pairs.append((key, law, again))
            elif law.records != again.records:
                pairs.append((key, law, again))
        if isinstance(event, GeometricNoise):
            self.tally.note("L1", float(distance / event.l1))
            if distance > event.l1:
                yield f"noisy lists move by {distance} between neighbours, charged {float(event.l1):g}"
            return
        loss = _loss_of(event, pairs[0][0]) if pairs else None
        if isinstance(loss, PureLoss):
            times = self.unit.rows_per_unit if isinstance(event, Strata) else 1
            lost = math.fsum(laws.pure_epsilon(law, again) for _, law, again in pairs)
            self.tally.note("epsilon of a draw", lost / float(loss.epsilon * times))
            if lost > float(loss.epsilon * times) * CLOSE:
                yield f"draws of {_keys(pairs)}: epsilon {lost:.6g} between neighbours, charged {float(loss.epsilon):g}"
        elif isinstance(loss, ApproxLoss):
            yield from self._delta(pairs, loss)

    def _delta(self, pairs: list[tuple[Any, Any, Any]], loss: ApproxLoss) -> Iterator[str]:
        try:
            joint = laws.pair_of(*pairs[0][1:])
            for _, law, again in pairs[1:]:
                joint = joint.times(laws.pair_of(law, again))
        except laws.TooLargeError:
            self.tally.not_enumerated += 1
            return
        lost = joint.delta(float(loss.epsilon))
        self.tally.note("delta of a draw", lost / float(loss.delta))
        if lost > float(loss.delta) * CLOSE:
            yield (
                f"draws of {_keys(pairs)}: delta {lost:.6g} between neighbours at epsilon {float(loss.epsilon):g}, "
                f"charged {float(loss.delta):g}"
            )

    def _spent(self, run: Run, again: Run, event: Event | None) -> Fraction:
        """Epsilon or rho that this pair of tables can lose, by their true distance and the noise that was drawn."""
        if run.truth.shape != again.truth.shape or not run.noise or not run.noise[0].scale:
            return Fraction(0)
        moved, scale = np.abs(run.truth - again.truth), run.noise[0].scale
        if isinstance(event, GaussianNoise | TrimmedGaussianNoise):
            return Fraction(int((moved**2).sum())) / (2 * scale**2)
        epsilon = Fraction(int(moved.sum())) / scale
        return epsilon**2 / 2 if isinstance(self.budget, ZCDP) else epsilon

    def _spent_choosing(self, choice: Choice, again: Choice) -> Fraction:
        if choice.scores.shape != again.scores.shape:
            return Fraction(0)
        epsilon = 2 * Fraction(int(np.abs(choice.scores - again.scores).max())) / choice.scale
        return epsilon**2 / 8 if isinstance(self.budget, ZCDP) else epsilon

    def _total(self, lost: Fraction) -> Iterator[str]:
        """Under a pure or concentrated budget, losses of all measurements and choices add up to no more than it."""
        if isinstance(self.budget, PureDP | ZCDP):
            allowed = self.budget.epsilon if isinstance(self.budget, PureDP) else self.budget.rho
            self.tally.note("budget", float(lost / allowed))
            if float(lost) > float(allowed) * CLOSE:
                yield f"all answers together lose {float(lost):.6g} between neighbours; {float(allowed):g} is promised"


def _released(first: Recording, second: Recording) -> Iterator[str]:
    """With all answers equal, whatever else a release holds must be equal: nothing else may come from the data."""
    for name in sorted({*first.files, *second.files}):
        if first.files.get(name) != second.files.get(name):
            yield f"the release differs in {name} although every answer of the gate is the same"


def _loss_of(event: Event, key: Any) -> Event:
    """What one draw is charged; draws in strata are charged one by one."""
    return event.strata[int(key[-1])][0] if isinstance(event, Strata) else event


def _same_sizes(one: Law, other: Law) -> bool:
    def sizes(law: Law) -> Any:
        if isinstance(law, NoisyList):
            return law.scale, len(law.truth), law.balanced
        if isinstance(law, Answers):
            return law.cells, law.prior
        if isinstance(law, Urn):
            return law.cells, law.prior, law.rows, law.weights
        return law.keeps, law.elsewhere, law.prior, law.rows

    return type(one) is type(other) and sizes(one) == sizes(other)


def _is_flow(key: Any) -> bool:
    return isinstance(key, int)


def _keys(pairs: list[tuple[Any, Any, Any]]) -> str:
    return ", ".join(str(key) for key, _, _ in pairs)


def _told(law: Law) -> str:
    if isinstance(law, NoisyList):
        return f"{len(law.truth)} cells, noise of scale {float(law.scale):g}"
    if isinstance(law, Answers):
        return f"{law.cells} cells, answers with prior {float(law.prior):g}"
    assert isinstance(law, Urn)
    return f"{law.cells} cells, prior {float(law.prior):g}, {law.rows} rows, {law.size} records"


def _shown(noise: Any) -> str:
    return ", ".join(f"{float(call.scale):g}" for call in noise)


def _first_difference(one: list[tuple[str, Any]], other: list[tuple[str, Any]]) -> str:
    for before, after in zip(one, other, strict=False):
        if before != after:
            return before[0]
    return "how many there are"
