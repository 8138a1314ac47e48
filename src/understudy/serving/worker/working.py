"""The worker of one data set: it alone opens the data, takes approved jobs one after the other, and answers them.

What goes wrong with the data is said on the worker's own standard error, by its kind alone; everybody else sees, at
the deadline, that the job failed and that its charge stands.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from understudy.core.counts import Source
from understudy.core.folders import write_private
from understudy.core.mechanism import Stream
from understudy.engines.opening import open_source
from understudy.errors import BudgetError, InputError, UnavailableError
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.randomness.fingerprint import DataKey
from understudy.privacy.randomness.streams import SecureStream
from understudy.release.folder import read_release, write_release
from understudy.release.growing import add_measurement
from understudy.release.table_release import Release
from understudy.serving.accounts import open_account
from understudy.serving.catalogue import Version, add_version, folder_of, versions_of
from understudy.serving.database.connecting import Database, Session
from understudy.serving.database.jobs import DONE, FAILED, REFUSED, Job, find_job, finish, next_approved
from understudy.serving.database.workers import say_that_it_is_there
from understudy.serving.records import make_record
from understudy.serving.settings import Settings
from understudy.serving.worker.confirming import Confirmation
from understudy.serving.worker.taking_back import keep_record, require_charged, take_back

KEY = "rows-of-units"  # a file of the state folder
NAME = "name"  # another one
BEAT_SECONDS = 5.0
AWAY_SECONDS = 1.0  # before a database that cannot be reached is tried again
Say = Callable[[str], None]


class Worker:
    """Takes jobs of one data set. ``say`` is the worker's own voice, inside the building."""

    def __init__(
        self, settings: Settings, dataset: str, database: Database, *, say: Say, stream: Stream | None = None
    ) -> None:
        self._settings, self._database, self._say = settings, database, say
        self._dataset = settings.dataset(dataset)
        self._stream = SecureStream() if stream is None else stream
        self._folder = settings.place(self._dataset.state)
        self._sources: dict[str, Source] = {}

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Holds the data set's place: a second worker is refused. The place is free as soon as a worker dies."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(f"another worker has the data set '{self._dataset.name}' already.") from None
            self._beat()  # one with another state folder, on another machine perhaps, is seen in the database
            yield
        finally:
            os.close(descriptor)

    def check(self) -> None:
        """Refuses to start with data, a ledger or releases that cannot be used: nothing is charged for that."""
        ledger, _ = open_account(self._settings, self._dataset, writable=True)
        names = self._database.read(
            lambda session: session.rows(
                "SELECT DISTINCT release FROM versions WHERE dataset = ?", (self._dataset.name,)
            )
        )
        for (name,) in names:
            self._take_back(name, ledger)
            release = self._newest(name)[1]
            require_charged(ledger, release, name)
            begun = time.monotonic()
            source = self._source(release)
            source.count([(one,) for one in release.schema.names])  # reads every value once
            if time.monotonic() - begun > self._settings.job_seconds:
                self._say(
                    "reading the data took longer than job_seconds, so answers may come late, and everybody sees that; "
                    "make job_seconds and answer_seconds longer."
                )
            stated = release.provenance.records
            if release.statement.unit.public_total and stated is not None and source.total() != stated:
                raise InputError(
                    f"the data have {source.total():,} rows, and the release '{name}' was made from {stated:,}: they "
                    "are not the same data, and a confirmation would be about other people. Nothing was charged."
                )

    def run(self, *, stop: Callable[[], bool], pause: float = 0.5) -> None:
        """Take jobs until told to stop."""
        ended = threading.Event()
        lost: list[InputError] = []  # why the data set is no longer this worker's

        def beat() -> None:
            # At its own pace, whatever the jobs do: how busy the worker is, is nobody's business.
            while not ended.is_set():
                try:
                    self._beat()
                except UnavailableError:  # a database that is away for a while
                    pass
                except InputError as problem:
                    lost.append(problem)
                    return
                ended.wait(BEAT_SECONDS)

        threading.Thread(target=beat, daemon=True).start()
        away = False
        try:
            while not stop():
                if lost:
                    raise lost[0]
                try:
                    if not self.run_once():
                        time.sleep(pause)
                    away = False
                except UnavailableError as problem:  # the job stays as it is, and is taken up when it is back
                    if not away:
                        self._say(f"{problem} The worker waits for it.")
                    away = True
                    time.sleep(max(pause, AWAY_SECONDS))
        finally:
            ended.set()

    def run_once(self) -> bool:
        """Carry out the job that waits longest; false if there is none."""
        job = self._database.read(lambda session: next_approved(session, self._dataset.name))
        if job is None:
            return False
        try:
            self._carry_out(job)
        except BudgetError:
            self._end(job, REFUSED)
        except UnavailableError:
            raise
        except Exception as problem:  # a bug, or the machine: it must end like any failure, at the deadline
            if os.environ.get("UNDERSTUDY_DEBUG") == "1":
                traceback.print_exception(problem)
            self._say(
                f"job {job.id} failed ({type(problem).__name__}). Its charge, if it was made, stands; `understudy "
                "serve retry` takes it up without another one. UNDERSTUDY_DEBUG=1 shows more, inside the building only"
            )
            self._end(job, FAILED)
        return True

    def _carry_out(self, job: Job) -> None:
        ledger, account = open_account(self._settings, self._dataset, writable=True)
        if self._take_back(job.release, ledger):
            return  # perhaps of this very job; if not, it is the next one again
        number, before = self._newest(job.release)
        confirmation = Confirmation(
            job=job.id, plan=job.plan, schema=before.schema, source=self._source(before), ledger=ledger,
            account=account.name, stream=self._stream, folder=self._folder,
        )  # fmt: skip
        fresh, block = confirmation.charge_and_measure()
        after = add_measurement(before, fresh, plan=job.plan, ledger=block, stream=self._stream)
        target = folder_of(self._settings, job.release, number + 1)
        # A worker that died here wrote the same tables; only the rows, which cost nothing, are drawn again.
        # The folder states the time of the approval: when it was written tells how long the job took.
        approved = datetime.fromtimestamp(job.approved or 0.0, UTC)
        write_release(after, target, overwrite=target.exists(), csv=False, created=approved)
        record = make_record(job, before=before, after=after, fresh=fresh, number=number + 1, ledger=block)
        keep_record(self._settings, job.release, record, moment=approved.timestamp())

        def work(session: Session) -> None:
            found = find_job(session, job.id)
            if found is None or found.state != job.state:
                return
            # A version holds all tables of those before it, so it is not shown before them.
            earlier = max(one.visible for one in versions_of(session, job.release))
            visible = finish(session, job, DONE, pace=self._settings.pace, record=record, not_before=earlier)
            add_version(
                session,
                Version(release=job.release, number=number + 1, dataset=job.dataset, job=job.id, visible=visible),
            )

        self._database.write(work)
        confirmation.discard_journal()
        self._say(f"job {job.id} is answered")

    def _end(self, job: Job, state: str) -> None:
        self._database.write(lambda session: finish(session, job, state, pace=self._settings.pace))

    def _newest(self, release: str) -> tuple[int, Release]:
        """The last version, also one that is not shown yet: what joined it stays in it."""
        known = self._database.read(lambda session: versions_of(session, release))
        if not known:
            raise InputError(f"no release '{release}' is served.")
        found = read_release(folder_of(self._settings, release, known[-1].number))
        if not isinstance(found, Release):
            raise InputError("only releases of tables can be served.")
        return known[-1].number, found

    def _source(self, release: Release) -> Source:
        """The data as a release counts them: its bins, also those that were found, and its bound on a unit's rows.

        A bound keeps the same rows for every job, whatever is asked: the key that chooses them is kept.
        """
        schema, unit = release.schema, release.statement.unit
        key = f"{schema.fingerprint} {unit}"
        if key not in self._sources:
            data = str(self._settings.place(self._dataset.data))
            source: Any = open_source(data, schema.declared, unit_id=unit.unit_id)
            if unit.unit_id is not None:
                source = source.bounded(unit, self._data_key().bounding())
            self._sources[key] = source if schema.declared is schema else source.under(schema)
        return self._sources[key]

    def _data_key(self) -> DataKey:
        """The key that chooses which rows of a unit are kept: for this worker alone, made once."""
        place = self._folder / KEY
        if not place.exists():  # nobody else makes it: the worker is alone with its folder
            write_private(place, DataKey.fresh().to_text())
        return DataKey.from_text(place.read_text(encoding="ascii"))

    def _take_back(self, release: str, ledger: Ledger) -> bool:
        taken = take_back(self._settings, self._database, release, ledger=ledger, journals=self._folder)
        for number in taken:
            self._say(
                f"version {number} of '{release}' was not in the database, which was restored from an older backup; it "
                "is in the catalogue again. Projects do not know what they paid for it."
            )
        return bool(taken)

    def _beat(self) -> None:
        dataset, worker = self._dataset.name, self._name()
        self._database.write(lambda session: say_that_it_is_there(session, dataset, worker))

    def _name(self) -> str:
        """What this worker calls itself: the same after a restart, and another one with another state folder."""
        place = self._folder / NAME
        if not place.exists():
            write_private(place, secrets.token_hex(16))
        return place.read_text(encoding="ascii")
