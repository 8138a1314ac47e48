"""One confirmation: charge, then measure the table that decides the question, then make the next version.

The order is that of every run (release/run.py). The journal is made before the charge, the charge comes before the
first draw, and the noisy values are on the disk and known to the ledger before anybody uses them. A worker that was
killed takes the job up again from its journal: nothing is charged twice, and nothing is drawn twice. A charge whose
journal is lost is never drawn again; the job then fails, and its charge stands.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.core.counts import Source
from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.core.schema import Schema
from understudy.errors import BudgetError, InputError
from understudy.privacy.gate.gate import Gate
from understudy.privacy.gate.journal import Journal
from understudy.privacy.gate.measurement_steps import query_of
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.promise.plan import Plan
from understudy.privacy.randomness.sampler_health import require_healthy_samplers


class LostJournalError(InputError):
    """A charge whose journal is gone: what was drawn for it is not known, so nothing more is drawn."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Confirmation:
    """What the worker needs for one job."""

    job: str
    plan: Plan
    schema: Schema
    source: Source
    ledger: Ledger
    account: str
    stream: Stream
    folder: Path  # of the journals of all jobs

    def charge_and_measure(self) -> tuple[Measurement, Mapping[str, Any]]:
        """The noisy table and the ledger's entry for it. A refused charge leaves nothing behind."""
        if self.stream.secure:
            require_healthy_samplers()
        journal = self._journal()
        try:
            block = self._charged(journal)
        except BudgetError as problem:
            if self._was_charged():  # then it is not the budget: the journal is not the one that was charged
                raise LostJournalError(str(problem)) from None
            journal.discard()
            raise
        journal.follow(lambda known, head: self.ledger.advance(run=self.job, known=known, head=head))
        gate = Gate(source=self.source, schema=self.schema, plan=self.plan, stream=self.stream, journal=journal)
        (found,) = gate.measure([query_of(step) for step in self.plan.steps])
        return found, block

    def discard_journal(self) -> None:
        """After the answer is kept, nothing of the journal is needed any more."""
        if self._place.exists():
            Journal.open(self._place).discard()

    @property
    def _place(self) -> Path:
        return self.folder / self.job

    def _journal(self) -> Journal:
        if self._place.exists():
            journal = Journal.open(self._place)
            if journal.header.get("plan") != self.plan.to_json():
                raise InputError("the journal of this job is of another plan; it cannot be taken up.")
            return journal
        if self._was_charged():
            raise LostJournalError("the journal of a charged job is gone; nothing is drawn for it again.")
        return Journal.create(self._place, {"run": self.job, "plan": self.plan.to_json()})

    def _was_charged(self) -> bool:
        return any(entry.kind == "charge" and entry.run == self.job for entry in self.ledger.entries(self.account))

    def _charged(self, journal: Journal) -> Mapping[str, Any]:
        noted = [entry.payload["ledger"] for entry in journal.entries() if entry.kind == "charged"]
        plan = self.plan
        if noted:
            block: dict[str, Any] = noted[0]
        else:
            # The hash of the entry is published. Without random letters in it, the time of the charge could be found
            # by trying, and with it how busy the worker was.
            entry = self.ledger.reserve(
                self.account, run=self.job, plan_hash=plan.hash, unit=plan.unit, cost=plan.budget, method=plan.method,
                note=f"a confirmation that was asked for ({secrets.token_hex(16)})", journal=journal.head,
            )  # fmt: skip
            block = dict(entry.block)
            journal.append("charged", {"ledger": block})
        self.ledger.take_up(
            self.account, run=self.job, plan_hash=plan.hash, unit=plan.unit, cost=plan.budget, block=block,
            checksums=journal.checksums,
        )  # fmt: skip
        return block
