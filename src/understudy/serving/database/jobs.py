"""Jobs: confirmations that somebody asked for, from the request to the record.

    waiting --(people approve)--> approved --(the worker)--> done | failed | refused
       +------(people refuse)---> declined
       +--(the very same was approved for somebody else)--> shared

Money is committed at approval, in one serialisable transaction: what all approved jobs cost, and what the ledger holds
besides, never exceeds the account. The worker's charge to the ledger is the filter that binds; this is what keeps
promises to people. When a job ended inside the worker is nobody's business before its deadline (``visible``).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from understudy.core.exact_numbers import from_text, to_text
from understudy.errors import BudgetError, InputError
from understudy.privacy.promise.plan import Plan, plan_from_json
from understudy.serving.asking import Asked, widths_sold
from understudy.serving.database.connecting import Database, Session
from understudy.serving.database.log import note
from understudy.serving.database.people import Person, project_of
from understudy.serving.pacing import Pace

WAITING, APPROVED, DECLINED = "waiting", "approved", "declined"
SHARED = "shared"  # another job answers it, so this one is never charged; its record names the other
DONE, FAILED, REFUSED = "done", "failed", "refused"  # how a job ends in the worker
ENDED = (DONE, FAILED, REFUSED)
COMMITTED = (APPROVED, DONE, FAILED)  # a failed job was charged; a refused one was not
MOST_LISTED = 200
COLUMNS = "id, dataset, project, person, release, asked, plan, rho, state, created, approved, visible, record"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One confirmation."""

    id: str
    dataset: str
    project: str
    person: str
    release: str
    asked: Asked
    plan: Plan
    rho: Fraction
    state: str
    created: float
    approved: float | None
    visible: float | None
    record: Mapping[str, Any] | None

    def shown(self, now: float) -> str:
        """Its state as anybody may see it now: how it ended is told at a deadline, not before."""
        return APPROVED if self.state in ENDED and (self.visible is None or now < self.visible) else self.state


def due_times(session: Session, dataset: str, pace: Pace) -> dict[str, float]:
    """When the answer of each approved job of a data set is due."""
    found = session.rows(
        "SELECT id, approved FROM jobs WHERE dataset = ? AND approved IS NOT NULL ORDER BY approved, id", (dataset,)
    )
    return pace.due(found)


def job_of(row: tuple[Any, ...]) -> Job:
    return Job(
        id=row[0], dataset=row[1], project=row[2], person=row[3], release=row[4], asked=Asked(**json.loads(row[5])),
        plan=plan_from_json(json.loads(row[6])), rho=from_text(row[7], "rho"), state=row[8], created=row[9],
        approved=row[10], visible=row[11], record=None if row[12] is None else json.loads(row[12]),
    )  # fmt: skip


def find_job(session: Session, job: str) -> Job | None:
    found = session.rows(f"SELECT {COLUMNS} FROM jobs WHERE id = ?", (job,))
    return job_of(found[0]) if found else None


def jobs_of(
    session: Session, *, project: str | None = None, state: str | None = None, most: int | None = None
) -> list[Job]:
    """The newest jobs, of a project or in a state."""
    wanted = [(name, value) for name, value in (("project", project), ("state", state)) if value is not None]
    where = f" WHERE {' AND '.join(f'{name} = ?' for name, _ in wanted)}" if wanted else ""
    found = session.rows(
        f"SELECT {COLUMNS} FROM jobs{where} ORDER BY created DESC LIMIT ?",
        (*(value for _, value in wanted), most or MOST_LISTED),
    )
    return [job_of(row) for row in found]


def committed(session: Session, *, dataset: str | None = None, project: str | None = None) -> Fraction:
    """What approved jobs cost together, whether or not the worker has come to them.

    A job that the worker refused counts until that may be seen: before, what is left must not tell when it was.
    """
    name, value = ("dataset", dataset) if project is None else ("project", project)
    marks = ", ".join("?" for _ in COMMITTED)
    found = session.rows(
        f"SELECT rho FROM jobs WHERE {name} = ? AND (state IN ({marks}) OR (state = ? AND visible > ?))",
        (value, *COMMITTED, REFUSED, time.time()),
    )
    return sum((from_text(rho, "rho") for (rho,) in found), Fraction(0))


def job_runs(session: Session, dataset: str) -> set[str]:
    return {row[0] for row in session.rows("SELECT id FROM jobs WHERE dataset = ?", (dataset,))}


def job_name(person: str, once: str) -> str:
    """The name of a job: the same request sent twice is one job."""
    return hashlib.sha256(f"{person}\n{once}".encode()).hexdigest()[:20]


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What can be paid: the limit of the account without what others than jobs were charged."""

    dataset: str
    together: tuple[str, ...]  # the data sets of the account, this one too
    allowed: Fraction  # for all jobs of all of them

    def left(self, session: Session) -> Fraction:
        spent = sum((committed(session, dataset=one) for one in self.together), Fraction(0))
        return max(self.allowed - spent, Fraction(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What is left for a project: inside its allowance, and of the account at all."""

    allowance: Fraction
    automatic: Fraction
    account: Fraction


def left_of(session: Session, project: str, means: Means) -> Left:
    """A project's allowance is never more than what is left of the account."""
    found = project_of(session, project)
    account = means.left(session)
    free = max(found.allowance - committed(session, project=project), Fraction(0))
    return Left(allowance=found.allowance, automatic=min(free, account), account=account)


def require_about(session: Session, project: str, dataset: str) -> None:
    """Refuses a project that is about another data set."""
    if project_of(session, project).dataset != dataset:
        raise InputError(f"project '{project}' is about another data set than this release.")


def coming_twin(session: Session, release: str, asked: Asked, width: float, *, now: float, project: str) -> Job | None:
    """A job for the very same question, as narrow, whose answer is still to come: of anybody if it was approved, of the
    same project if it waits for approval (that it waits is told to nobody else).

    How a job ended is not known before its time, so one that failed is still to come until then, too.
    """
    marks = ", ".join("?" for _ in ENDED)
    found = session.rows(
        f"SELECT {COLUMNS} FROM jobs WHERE release = ? "
        f"AND (state = ? OR (state IN ({marks}) AND visible > ?) OR (state = ? AND project = ?)) "
        "ORDER BY CASE WHEN approved IS NULL THEN 1 ELSE 0 END, approved, created",
        (release, APPROVED, *ENDED, now, WAITING, project),
    )
    jobs = [one for one in map(job_of, found) if one.asked == asked]
    return next((one for one in jobs if _as_narrow(one, width)), None)


def share_with_waiting(session: Session, job: str) -> None:
    """Whoever waits for approval of the very same question, as wide or wider, has the answer of a job that was just
    approved: nothing is charged a second time."""
    made = find_job(session, job)
    if made is None or made.state != APPROVED:
        return
    found = session.rows(f"SELECT {COLUMNS} FROM jobs WHERE release = ? AND state = ?", (made.release, WAITING))
    for one in map(job_of, found):
        if one.asked == made.asked and _as_narrow(made, min(widths_sold(one.asked, one.plan.notes), default=0.0)):
            session.run(
                "UPDATE jobs SET state = ?, record = ? WHERE id = ? AND state = ?",
                (SHARED, json.dumps({"job": made.id}), one.id, WAITING),
            )
            note(session, "shared", job=one.id, answered_by=made.id)


def _as_narrow(job: Job, width: float) -> bool:
    return any(sold <= width for sold in widths_sold(job.asked, job.plan.notes))


def request(
    database: Database,
    *,
    person: Person,
    release: str,
    asked: Asked,
    plan: Plan,
    once: str,
    means: Means,
    width: float | None = None,
) -> Job:
    """Ask for a confirmation: approved at once inside the project's allowance, else it waits for people.

    If the very same was asked of the data by somebody and its answer is still to come, that job is theirs too. Nothing
    is charged a second time.
    """
    if not person.may_ask_the_data or person.project is None:
        raise InputError("only an analyst with a project can ask the data.")
    project, name = person.project, job_name(person.name, once)
    rho: Fraction = plan.budget.rho  # type: ignore[attr-defined]

    def work(session: Session) -> Job:
        earlier = find_job(session, name)
        if earlier is not None:
            return earlier
        require_about(session, project, means.dataset)
        now = time.time()
        twin = None if width is None else coming_twin(session, release, asked, width, now=now, project=project)
        if twin is not None:
            note(session, "joined", job=twin.id, person=person.name, project=project)
            return twin
        left = left_of(session, project, means)
        if rho > left.account:
            raise BudgetError("this costs more than is left of the data set's account. Nothing was charged.")
        state, approved = (APPROVED, now) if rho <= left.automatic else (WAITING, None)
        session.run(
            f"INSERT INTO jobs ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (name, means.dataset, project, person.name, release, json.dumps(asked.to_json()),
             json.dumps(plan.to_json()), to_text(rho), state, now, approved, None, None),
        )  # fmt: skip
        note(session, "requested", job=name, person=person.name, project=project, release=release,
             question=asked.to_json(), rho=to_text(rho), state=state)  # fmt: skip
        share_with_waiting(session, name)
        made = find_job(session, name)
        if made is None:
            raise InputError("the job was not kept; ask again.")
        return made

    return database.write(work)


def decide(database: Database, *, person: Person, job: str, approve: bool, four_eyes: bool, means: Means) -> Job:
    """A steward or an approver decides about a waiting job; with four eyes two of them must agree."""
    if not person.may_approve:
        raise InputError("only a steward or an approver decides about jobs.")

    def work(session: Session) -> Job:
        found = find_job(session, job)
        if found is None or found.dataset != means.dataset:
            raise InputError("there is no such job.")
        if found.state != WAITING:
            raise InputError(f"this job is {found.shown(time.time())} and waits for nobody.")
        if found.person == person.name:
            raise InputError("nobody decides about a job of their own.")
        if session.rows("SELECT 1 FROM approvals WHERE job = ? AND person = ?", (job, person.name)):
            raise InputError("you have decided about this job already; another person has to agree.")
        now = time.time()
        session.run("INSERT INTO approvals VALUES (?, ?, ?, ?)", (job, person.name, str(approve), now))
        note(session, "approved" if approve else "declined", job=job, person=person.name)
        if not approve:
            session.run("UPDATE jobs SET state = ? WHERE id = ?", (DECLINED, job))
        else:
            agreed = session.rows("SELECT person FROM approvals WHERE job = ? AND decision = 'True'", (job,))
            if len(agreed) >= (2 if four_eyes else 1):
                if found.rho > means.left(session):
                    raise BudgetError("this costs more than is left of the data set's account. Nothing was charged.")
                session.run("UPDATE jobs SET state = ?, approved = ? WHERE id = ?", (APPROVED, now, job))
                share_with_waiting(session, job)
        again = find_job(session, job)
        return again if again is not None else found

    return database.write(work)


def agreed_about(session: Session, job: str) -> tuple[str, ...]:
    """Who has agreed to a job so far."""
    found = session.rows("SELECT person FROM approvals WHERE job = ? AND decision = 'True' ORDER BY time", (job,))
    return tuple(row[0] for row in found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """A project, for stewards and auditors."""

    name: str
    dataset: str
    allowance: float
    committed: float
    answered: int
    waiting: int


def spending(session: Session) -> list[Spending]:
    """What every project may spend, has committed, and waits for."""
    found = []
    for name, dataset, allowance in session.rows("SELECT name, dataset, allowance FROM projects ORDER BY name"):
        states = [row[0] for row in session.rows("SELECT state FROM jobs WHERE project = ?", (name,))]
        one = Spending(
            name=name,
            dataset=dataset,
            allowance=float(from_text(allowance, "allowance")),
            committed=float(committed(session, project=name)),
            answered=sum(state in COMMITTED for state in states),
            waiting=states.count(WAITING),
        )
        found.append(one)
    return found


def next_approved(session: Session, dataset: str) -> Job | None:
    """The job that waits longest for the worker."""
    found = session.rows(
        f"SELECT {COLUMNS} FROM jobs WHERE dataset = ? AND state = ? ORDER BY approved, id LIMIT 1", (dataset, APPROVED)
    )
    return job_of(found[0]) if found else None


def finish(
    session: Session,
    job: Job,
    state: str,
    *,
    pace: Pace,
    record: Mapping[str, Any] | None = None,
    not_before: float = 0.0,
) -> float:
    """Note how a job ended; it is shown when it is due, which only approvals and the settings decide."""
    due = due_times(session, job.dataset, pace)[job.id]
    # Whoever ends so shortly before a look that the note of it may come after it, is shown at the next one.
    visible = max(pace.next_look(due, time.time() + pace.noting), not_before)
    session.run(
        "UPDATE jobs SET state = ?, visible = ?, record = ? WHERE id = ? AND state = ?",
        (state, visible, None if record is None else json.dumps(record), job.id, APPROVED),
    )
    note(session, state, job=job.id, visible=visible, late=visible > due)
    return visible


def end_as_done(session: Session, job: str, *, approved: float, visible: float, record: str) -> None:
    """A job that was answered, and of which an older backup of the database does not know that."""
    session.run(
        "UPDATE jobs SET state = ?, approved = coalesce(approved, ?), visible = ?, record = ? WHERE id = ?",
        (DONE, approved, visible, record, job),
    )


def retry(database: Database, job: str) -> None:
    """A failed job waits for the worker again. What was charged for it, and drawn, is in its journal and is used."""

    def work(session: Session) -> None:
        if not session.run(
            "UPDATE jobs SET state = ?, visible = NULL WHERE id = ? AND state = ?", (APPROVED, job, FAILED)
        ):
            raise InputError("there is no such job that failed.")
        note(session, "retried", job=job)

    database.write(work)
