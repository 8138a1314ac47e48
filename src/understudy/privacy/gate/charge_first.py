"""What every gate does before it touches anything: charge what the plan announced, and remember what was answered."""

from __future__ import annotations

from collections import deque
from typing import Any, ClassVar

from understudy.core.mechanism import Mechanism, Stream
from understudy.errors import BudgetError, DisclosureError, InputError, InternalError
from understudy.privacy.gate.journal import Journal, JournalEntry
from understudy.privacy.mechanisms.reviewed import NOISE_ON_TABLES, require_reviewed
from understudy.privacy.promise.accountant import Accountant, loss_of
from understudy.privacy.promise.definition import Unit
from understudy.privacy.promise.event import Event, Sensitivity
from understudy.privacy.promise.plan import Plan, Step
from understudy.privacy.randomness.streams import SecureStream

ANSWERS = ("measurement", "discovery", "selection", "comparison", "draw")
PUBLIC = ("records", "public")  # sizes that the unit makes public, noted before anything is charged
OTHER_DATA = (
    "these are not the data the run was started with: their public sizes differ from those in its journal. Give the "
    "same data, or start a new run."
)


class ChargingGate:
    """Charges against a plan, journals answers, and hands out remembered ones when a run is resumed."""

    counts: ClassVar[str]  # what a record is called
    instead: ClassVar[str] = ""  # what to do where their number is not public

    def __init__(self, *, plan: Plan, stream: Stream, journal: Journal | None) -> None:
        if stream.secure and type(stream) is not SecureStream:  # the exact type is what was reviewed
            raise DisclosureError(
                f"{type(stream).__name__} claims to be secure, but only SecureStream is accepted as secure. Nothing "
                "was charged; leave the stream out."
            )
        self._plan = plan
        self._stream = stream
        self._journal = journal
        self._accountant = Accountant(unit=plan.unit, budget=plan.budget, by=plan.by, planned=plan.events)
        self._left: deque[Step] = deque(step for step in plan.steps for _ in range(step.repeats))
        remembered = journal.entries() if journal else ()
        known = [entry.payload["records"] for entry in remembered if entry.kind == "records"]
        self._records: int | None = int(known[0]) if known else None
        self._replay: deque[JournalEntry] = deque(entry for entry in remembered if entry.kind in ANSWERS)
        # What a draw costs may rest on public sizes, so data that are given again must have those of the journal.
        self._unchecked = any(entry.kind in PUBLIC for entry in remembered)

    @property
    def unit(self) -> Unit:
        """Who is protected by the run."""
        return self._plan.unit

    @property
    def records(self) -> int:
        """The number of records, where it is public; under ``add_remove`` it never is.

        Raises
        ------
        DisclosureError
            If the number of records is not public under the unit.
        """
        if not self.unit.public_total:
            raise DisclosureError(f"the number of {self.counts} is not public under add_remove{self.instead}.")
        if self._records is None:
            self._records = self._count_records()
            self._write("records", {"records": self._records})
        return self._records

    def _count_records(self) -> int:
        raise NotImplementedError

    @staticmethod
    def _noise_event(label: str, noise: Mechanism, sensitivity: Sensitivity) -> Event:
        """What reviewed noise on a table of counts costs."""
        require_reviewed(noise, NOISE_ON_TABLES)
        if sensitivity.l1 == 0:
            raise InternalError(f"'{label}' is public under this unit and needs no noise.")
        event = noise.event(sensitivity)
        if not isinstance(event, Event):
            raise InternalError(f"{noise.name} does not say what it costs.")
        return event

    @property
    def events(self) -> tuple[Event, ...]:
        """What has been charged so far."""
        return self._accountant.events

    def _charge(self, action: str, label: str, margin: tuple[str, ...], event: Event) -> None:
        """Charges one event, which must be one the plan announced."""
        wanted = (action, label, margin, event)
        finding = len(self._accountant.events) < self._plan.finding  # fixed beforehand, whatever the method does
        if self._plan.adaptive and not finding:
            if loss_of(event, self.unit).approx_delta > 0:
                # Beside zCDP, deltas add only where all parameters are fixed beforehand (docs/theory/accounting.md).
                raise BudgetError(
                    f"'{label}' has a delta of its own, which an adaptive plan cannot add up; nothing was drawn."
                )
            self._accountant.charge(event)
            return
        if (
            not self._left
            or (self._left[0].action, self._left[0].label, self._left[0].margin, self._left[0].event) != wanted
        ):
            raise BudgetError(f"'{label}' is not the next step of the plan; nothing was drawn.")
        self._accountant.charge(event)
        self._left.popleft()

    def _remembered(self, kind: str, label: str) -> dict[str, Any] | None:
        """The answer a journal holds for this call, if the run is being resumed."""
        if not self._replay:
            return None
        entry = self._replay.popleft()
        if entry.kind != kind or entry.payload["label"] != label:
            raise InputError("the journal of this run does not match its plan; it cannot be resumed.")
        payload: dict[str, Any] = entry.payload
        return payload

    def _require_charged(self, same: bool) -> None:
        """Refuses an answer that was not drawn as just charged, for example by another version of the program."""
        if not same:
            raise InputError(
                "the journal of this run holds an answer with other noise than this program would charge now. It "
                "cannot be resumed. Finish it with the version that started it."
            )

    def _write(self, kind: str, payload: dict[str, Any], *, more: bool = False) -> None:
        """On the disk when this returns, and confirmed by the ledger: an answer may be handed out after that.

        With ``more`` the ledger is asked later, with the last of the answers that are handed out together.
        """
        if self._journal is not None:
            self._journal.append(kind, payload)
            if kind in ANSWERS and not more:
                self._journal.confirm()
