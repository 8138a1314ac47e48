"""What pages and API share: who asks, and the steps from a question to a job. Nothing here can open the data."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from understudy.errors import InputError
from understudy.inference.answer import Answer
from understudy.privacy.ledger.ledger import Ledger
from understudy.serving.accounts import means_of, open_account
from understudy.serving.asking import Asked, sale_note, widths_sold
from understudy.serving.catalogue import Catalogue, Version, own_files
from understudy.serving.database.connecting import Database, Session
from understudy.serving.database.jobs import (
    APPROVED,
    DECLINED,
    DONE,
    SHARED,
    WAITING,
    Job,
    Left,
    Means,
    agreed_about,
    decide,
    due_times,
    find_job,
    job_name,
    jobs_of,
    left_of,
    request,
    require_about,
)
from understudy.serving.database.people import Person
from understudy.serving.database.workers import is_there
from understudy.serving.pricing import Price, already_answered, confirmation_plan, price
from understudy.serving.settings import Settings
from understudy.serving.web.taking_turns import Turns

COOKIE = "understudy_session"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Somebody who signed in. ``csrf`` is the word that forms of their session carry; none for a token."""

    person: Person
    csrf: str | None = None
    secret: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A price, what is left, and whether it is approved at once."""

    price: Price
    left: Left
    automatic: bool

    def to_json(self) -> dict[str, Any]:
        return {
            **self.price.to_json(),
            "percent_of_allowance": percent(self.price.rho, self.left.allowance),
            "percent_left": percent(self.left.automatic, self.left.allowance),
            "approved_at_once": self.automatic,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Deciding:
    """What is shown to people who decide about a job that waits."""

    left: Left
    share: float | None  # of what is left of the account, in percent
    width: float | None
    agreed: tuple[str, ...]
    four_eyes: bool


def percent(part: Fraction, whole: Fraction) -> float | None:
    """A part as a percentage, with three digits; none of nothing."""
    return float(f"{100 * float(part / whole):.3g}") if whole > 0 else None


def _foreign(person: Person, job: Job) -> bool:
    """Whether a job is that of another project than an analyst's own."""
    return person.role == "analyst" and job.project != person.project


class Site:
    """The server as the web process knows it."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.settings, self.database = settings, database
        self.catalogue = Catalogue(settings, database)
        self.turns = Turns()

    def check(self) -> None:
        """Says at the start what would fail later: the ledger of every data set can be read and counts zCDP."""
        for one in self.settings.datasets:
            open_account(self.settings, one)

    def means(self, dataset: str) -> Means:
        with own_files():
            return means_of(self.settings, self.settings.dataset(dataset), self.database)

    def answer(self, release: str, asked: Asked) -> tuple[Version, Answer]:
        """The free answer from the newest version that may be seen."""
        version = self.catalogue.newest(release)
        return version, self.catalogue.answer(version, asked)

    def kept(self, release: str, asked: Asked) -> bool:
        """Whether the free answer is known already."""
        return self.catalogue.kept(self.catalogue.newest(release), asked)

    def left(self, person: Person, dataset: str) -> Left:
        if person.project is None:
            raise InputError("only an analyst with a project has an allowance.")
        project, means = person.project, self.means(dataset)

        def work(session: Session) -> Left:
            require_about(session, project, dataset)
            return left_of(session, project, means)

        return self.database.read(work)

    def quote(self, person: Person, release: str, asked: Asked, width: float) -> Quote:
        """What a width costs, from public facts."""
        version = self.catalogue.newest(release)
        left = self.left(person, version.dataset)
        served = self.catalogue.release(version)
        found = price(served, asked, width, most=left.account)
        return Quote(price=found, left=left, automatic=found.rho <= left.automatic)

    def confirm(
        self, person: Person, release: str, asked: Asked, width: float, *, most: Fraction | None, once: str | None
    ) -> Job | Quote:
        """Ask the data. The price is computed again: one above ``most`` is refused, and what is free needs no job.

        A request that is sent twice is one job. It is looked up first: what it left of the account moves the price.
        """
        if once is not None:
            earlier = self.database.read(lambda session: find_job(session, job_name(person.name, once)))
            if earlier is not None:
                return earlier
        quote = self.quote(person, release, asked, width)
        if quote.price.free:
            return quote
        if most is not None and quote.price.rho > most:
            raise InputError("the price has changed since it was shown; ask for it again. Nothing was charged.")
        version = self.catalogue.newest(release)
        served = self.catalogue.release(version)
        word = once or secrets.token_urlsafe(16)
        plan = confirmation_plan(
            served.schema, served.statement.unit, quote.price.margin, quote.price.rho,
            label=f"confirmation {job_name(person.name, word)}: {' x '.join(quote.price.margin)}",
            notes=(sale_note(asked, width),),
        )  # fmt: skip
        return request(
            self.database, person=person, release=release, asked=asked, plan=plan, once=word,
            means=self.means(version.dataset), width=width,
        )  # fmt: skip

    def decide(self, person: Person, job: str, *, approve: bool) -> Job:
        found = self.database.read(lambda session: find_job(session, job))
        if found is None:
            raise InputError("there is no such job.")
        widths = widths_sold(found.asked, found.plan.notes)
        if approve and found.state == WAITING and widths:
            served = self.catalogue.release(self.catalogue.newest(found.release))
            if already_answered(served, found.asked, min(widths)):
                raise InputError(
                    "what joined the release while this waited answers it as narrowly as was asked, for free; decline "
                    "it. Nothing was charged."
                )
        return decide(
            self.database, person=person, job=job, approve=approve, four_eyes=self.settings.four_eyes,
            means=self.means(found.dataset),
        )  # fmt: skip

    def waiting(self) -> int:
        """How many jobs wait for approval."""
        return self.database.read(lambda session: len(jobs_of(session, state=WAITING)))

    def deciding(self, job: Job) -> Deciding:
        """What people need to know who decide about a job."""
        means = self.means(job.dataset)

        def work(session: Session) -> Deciding:
            left = left_of(session, job.project, means)
            widths = widths_sold(job.asked, job.plan.notes)
            return Deciding(
                left=left, share=percent(job.rho, left.account), width=min(widths, default=None),
                agreed=agreed_about(session, job.id), four_eyes=self.settings.four_eyes,
            )  # fmt: skip

        return self.database.read(work)

    def jobs(self, person: Person) -> list[Job]:
        """An analyst sees the jobs of the own project; stewards, approvers and auditors see all."""
        project = person.project if person.role == "analyst" else None
        if person.role == "analyst" and project is None:
            return []

        def work(session: Session) -> list[Job]:
            newest, waiting = jobs_of(session, project=project), jobs_of(session, project=project, state=WAITING)
            return list({one.id: one for one in (*newest, *waiting)}.values())  # what waits is listed however old it is

        return self.database.read(work)

    def job(self, person: Person, name: str) -> Job:
        """A job that this person may see; for others there is none.

        One that was approved can be followed by any analyst who knows its name: whoever asked the same has that job.
        """
        found = self.database.read(lambda session: find_job(session, name))
        if found is None or (_foreign(person, found) and found.state in (WAITING, DECLINED, SHARED)):
            raise InputError("there is no such job.")
        return found

    def record(self, name: str) -> dict[str, Any] | None:
        """The public record of a job, once its deadline has come."""
        found = self.database.read(lambda session: find_job(session, name))
        if found is None:
            return self.catalogue.record(name)
        if found.shown(time.time()) != DONE or found.record is None:
            return None
        return dict(found.record)

    def next_look(self, job: Job, now: float) -> float:
        """When the answer of an approved job can appear next."""
        pace = self.settings.pace
        due = self.database.read(lambda session: due_times(session, job.dataset, pace))
        return pace.next_look(due[job.id], now)

    def job_json(self, person: Person, job: Job) -> dict[str, Any]:
        """A job as this person may see it now; who asked is for the own project."""
        now = time.time()
        shown = job.shown(now)
        who = {} if _foreign(person, job) else {"project": job.project, "person": job.person}
        found: dict[str, Any] = {
            "id": job.id, "release": job.release, **who, "asked": job.asked.to_json(), "state": shown,
            "rho": f"{float(job.rho):.6g}",
        }  # fmt: skip
        if shown == APPROVED:
            found["answer_expected"] = self.next_look(job, now)
        if shown == DONE and job.record is not None:
            found["record"] = dict(job.record)
        if shown == SHARED and job.record is not None:
            found["answered_by"] = job.record["job"]
        return found

    def worker_is_there(self, dataset: str) -> bool:
        """Whether a worker said something lately."""

        return self.database.read(lambda session: is_there(session, dataset))

    def ledger(self, dataset: str) -> Ledger:
        with own_files():
            return open_account(self.settings, self.settings.dataset(dataset))[0]
