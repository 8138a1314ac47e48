"""The desk: one piece of work from a file to a release, and the order of its steps. It knows nothing of pages.

Everything is done by the verbs. The state is in the memory of this process and nowhere else: what was read from the
file, the draft and the evaluation go to no disk. An earlier step that is changed takes back what rested on it. Once
the budget is being spent nothing before it can be changed any more.
"""

from __future__ import annotations

import glob
import os
import secrets
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import understudy as us
from understudy import api
from understudy.core.exact_numbers import read_exact
from understudy.core.schema import Schema
from understudy.errors import InputError, MissingExtraError, UnderstudyError
from understudy.studio.commands import require_free, write_files
from understudy.studio.description import Description
from understudy.studio.places import Seen, named_file, seen
from understudy.studio.tasks import RUNNING, Task

if TYPE_CHECKING:
    from understudy.api import BudgetRow
    from understudy.core.result import Evaluation
    from understudy.explore.advice_result import Advice
    from understudy.release.kind import AnyRelease

STEPS = {
    "file": "File",
    "columns": "Columns",
    "questions": "Questions",
    "people": "People",
    "budget": "Budget",
    "account": "Account",
    "spend": "Confirm",
    "review": "Review",
    "release": "Release",
}
USUAL_DELTA = "1e-9"
REPEATS = 3  # rehearsed releases for each epsilon: enough to see the order of magnitude
UNREVIEWED = "-unreviewed"  # the folder of a release until a person has looked at it
SETTLED = (
    "the budget of this release is spent, or is being spent, so nothing before it can be changed. Begin another "
    "release to do so."
)
OLD_PAGE = "something was changed since this page was shown. Look at the amount again; nothing was spent."


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What the release may cost: the guarantee that was chosen, as it was written."""

    epsilon: str
    delta: str | None

    @property
    def definition(self) -> api.Definition:
        if self.delta is None:
            return us.PureDP(epsilon=self.epsilon)
        return us.ApproxDP(epsilon=self.epsilon, delta=self.delta)

    @property
    def words(self) -> str:
        return f"epsilon {self.epsilon}" + ("" if self.delta is None else f" and delta {self.delta}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """An account that was opened here: its limit as it was written, and whether the ledger is new too."""

    epsilon: str
    delta: str | None
    new_ledger: bool

    @property
    def limit(self) -> api.Definition:
        return Budget(epsilon=self.epsilon, delta=self.delta).definition


class Desk:
    """What the steward has said and done so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.RLock()
        self.task: Task | None = None
        self._opened_here: dict[tuple[str, str], Opened] = {}  # by ledger and account
        self._forget()

    def _forget(self) -> None:
        self.data: Path | None = None
        self._seen: Seen | None = None
        self._described: Description | None = None
        self.checked: int | None = None  # rows that fit; confidential
        self.needs: tuple[str, ...] = ()
        self.asked = False
        self._forget_people()

    def _forget_people(self) -> None:
        self.unit: us.Unit | None = None
        self.records: int | None = None
        self.delta: str | None = USUAL_DELTA
        self._forget_budgets()

    def _forget_budgets(self) -> None:
        self.compared: tuple[BudgetRow, ...] = ()
        self.advice: Advice | None = None
        self._forget_choice()

    def _forget_choice(self) -> None:
        self.budget: Budget | None = None
        self.plan: us.Plan | None = None
        self._forget_account()

    def _forget_account(self) -> None:
        self.ledger: str = ""
        self.account: str | None = None
        self.opened: Opened | None = None  # if the account was opened here
        self.once = secrets.token_urlsafe(16)
        self.name = ""
        self.started = False
        self.charged = False
        self.release: AnyRelease | None = None
        self.evaluation: Evaluation | None = None
        self.report = ""
        self.looked = False
        self.written: dict[str, Path] = {}
        self.signed_by = ""
        self.key: Path | None = None  # where the private key lies

    # Steps.

    def done(self, step: str) -> bool:
        """Whether a step is finished."""
        return {
            "file": self._described is not None,
            "columns": self.checked is not None,
            "questions": self.asked,
            "people": self.unit is not None,
            "budget": self.plan is not None,
            "account": self.account is not None,
            "spend": self.release is not None,
            "review": self.looked,
            "release": bool(self.written),
        }[step]

    def open_steps(self) -> list[str]:
        """The steps that can be looked at: those that are finished, and the first that is not."""
        found = []
        for step in STEPS:
            found.append(step)
            if not self.done(step):
                break
        return found

    @contextmanager
    def changing(self, step: str) -> Iterator[None]:
        """Whoever changes something: one at a time, never while work goes on, never what is settled, never ahead."""
        with self._lock:
            if self.working:
                raise InputError("something is being worked on; wait until it is finished, or stop it.")
            if self.started and list(STEPS).index(step) <= list(STEPS).index("spend"):
                raise InputError(SETTLED)
            if step not in self.open_steps():
                raise InputError(f"finish the step '{STEPS[self.open_steps()[-1]]}' first.")
            yield

    @property
    def working(self) -> bool:
        return self.task is not None and self.task.state == RUNNING

    def _start(
        self, name: str, title: str, work: Callable[[Task], None], failed: Callable[[], None] | None = None
    ) -> None:
        self.task = Task(name=name, title=title)
        self.task.start(work, failed=failed)

    # The file.

    def choose_file(self, path: str, schema: str = "") -> None:
        """Draft a schema for a file, in the background; or take one that was reviewed already."""
        with self.changing("file"):
            data = named_file(self.folder, path)
            known = us.read_schema(self._beside(schema)) if schema.strip() else None

            def work(task: Task) -> None:
                task.phase = "reading the file"
                before = seen(data)
                found = (
                    Description.drafted(api.draft_in_parts(str(data))) if known is None else Description.reviewed(known)
                )
                with self._lock:
                    self._forget()
                    self.data, self._seen = data, before
                    self._described, self.needs = found, found.base.workload

            self._start("file", f"Reading {data.name}", work)

    def _beside(self, text: str) -> Path:
        return self.folder / Path(text.strip()).expanduser()

    def require_file(self) -> Path:
        """The file, if it is still the one that was read.

        Raises
        ------
        InputError
            If it is gone or was changed. Nothing was spent.
        """
        if self.data is None:
            raise InputError("choose a file first.")
        now = seen(self.data)
        if now != self._seen:
            raise InputError(
                f"{self.data.name} was changed since it was read. Nothing was spent. Choose it again, so that what is "
                "checked is what is used."
            )
        return self.data

    # The columns.

    @property
    def described(self) -> Description:
        """What is said of the columns.

        Raises
        ------
        InputError
            If there is no file yet.
        """
        if self._described is None:
            raise InputError("choose a file first.")
        return self._described

    def schema(self, *, needs: Sequence[str] | None = None) -> Schema:
        """The public schema as it stands, checked."""
        return self.described.schema(self.needs if needs is None else needs)

    def change_column(self, name: str, fields: Mapping[str, str]) -> None:
        with self.changing("columns"):
            before = self.described
            self._described = before.changed(name, fields)
            if self._described.columns[name].attribute != before.columns[name].attribute:
                self.checked, self.asked = None, False
                self._forget_people()

    def confirm_columns(self, *, public: bool, taken: Sequence[str] = ()) -> None:
        """The steward says that all of it is public knowledge; then every row of the file is held against it."""
        with self.changing("columns"):
            if unread := self.described.unread:
                raise InputError(f"look at '{unread[0]}' first: there is a remark about it.")
            if not public:
                raise InputError("confirm that everything here is public knowledge. The draft was made from the data.")
            settled = self.described.settled(taken)
            schema, data = settled.schema(()), self.require_file()

            def work(task: Task) -> None:
                task.phase = "checking every row"
                rows = api.check_data(str(data), schema)
                with self._lock:
                    if settled != self._described:
                        self.asked = False  # a rule may make a question void
                        self._forget_people()
                    self._described, self.checked = settled, rows

            self._start("columns", "Checking every row against the description", work)

    # What must be answerable.

    def state_needs(self, text: str) -> None:
        with self.changing("questions"):
            self._need(text)
            self.asked = True

    def add_need(self, question: str, text: str) -> None:
        """One question more than in the text; the step is not finished by it."""
        with self.changing("questions"):
            self._need(f"{text}\n{question}")

    def _need(self, text: str) -> None:
        lines = tuple(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))
        needs = api.read_workload(self.schema(needs=()), lines)
        if needs != self.needs:
            self.needs = needs
            self._forget_budgets()

    # Who is protected.

    def protect(self, unit: us.Unit, records: int) -> None:
        with self.changing("people"):
            if unit.unit_id is not None and unit.unit_id not in self.described.columns:
                raise InputError("there is no such column.")
            self.schema().margin(unit.fixed)
            if not 1 <= records <= 100_000_000:
                raise InputError("the number of rows must be between 1 and 100 million.")
            self._forget_people()
            self.unit, self.records = unit, records

    @property
    def rehearsed_unit(self) -> us.Unit:
        """Who is protected, without the column that says whose a row is: a rehearsal has no data."""
        assert self.unit is not None  # noqa: S101 - a step before
        return replace(self.unit, unit_id=None)

    # Budgets, from public facts.

    def compare(self, *, delta: str | None, more: str = "") -> None:
        with self.changing("budget"):
            schema, unit = self.schema(), self.unit
            assert unit is not None  # noqa: S101 - a step before
            listed = sorted(
                {*api.USUAL_EPSILONS, *([more] if more else [])}, key=lambda one: read_exact(one, "epsilon")
            )
            us.PureDP(epsilon="1") if delta is None else us.ApproxDP(epsilon="1", delta=delta)

            def work(task: Task) -> None:
                task.phase = "planning for each budget"
                rows = api.compare_budgets(schema, epsilons=listed, delta=delta, unit=unit, progress=task.progress)
                with self._lock:
                    self._forget_budgets()
                    self.delta, self.compared = delta, rows

            self._start("budget", "Comparing budgets, from public facts alone", work)

    def rehearse(self, question: str) -> None:
        """What the intervals of one question would be, from generated people."""
        with self.changing("budget"):
            schema, records, unit, delta = self.schema(), self.records, self.rehearsed_unit, self.delta
            assert records is not None  # noqa: S101 - a step before

            def work(task: Task) -> None:
                task.phase = "rehearsing with generated people"
                found = us.advise(
                    schema, question, records=records, epsilons=("0.5", "1", "2"), delta=delta, unit=unit, copies=(1,),
                    repeats=REPEATS, progress=task.progress,
                )  # fmt: skip
                with self._lock:
                    self.advice = found

            self._start("budget", "Rehearsing a release with generated people", work)

    def choose_budget(self, epsilon: str) -> None:
        with self.changing("budget"):
            assert self.unit is not None  # noqa: S101 - a step before
            chosen = Budget(epsilon=epsilon.strip(), delta=self.delta)
            made = us.plan(self.schema(), budget=chosen.definition, unit=self.unit)
            self._forget_choice()
            self.budget, self.plan = chosen, made

    # The account.

    def open_account(self, ledger: str, account: str, *, epsilon: str = "", delta: str = "") -> None:
        """Use an account, or open one with a limit that is fixed for good. Nothing is spent by either."""
        with self.changing("account"):
            assert self.unit is not None  # noqa: S101 - a step before
            assert self.budget is not None  # noqa: S101
            place = self.ledger_path(ledger)
            if epsilon.strip():
                exists = place.startswith("env:") or Path(place).exists()
                opened = Opened(epsilon=epsilon.strip(), delta=delta.strip() or None, new_ledger=not exists)
                _require_room(opened.limit, account, self.unit, self.budget.definition)
                book = us.Ledger.open(place) if exists else us.Ledger.create(place)
                try:
                    book.create_account(account, unit=self.unit, limit=opened.limit)
                except BaseException:
                    if not exists:
                        Path(place).unlink()  # a moment old, and empty
                    raise
                self._opened_here[place, account] = opened
            us.Ledger.open(place).check(account, unit=self.unit, cost=self.budget.definition)
            self._forget_account()
            self.ledger, self.account, self.opened = place, account, self._opened_here.get((place, account))

    def ledger_path(self, text: str) -> str:
        """Where a ledger is: a file, by default in this folder, or what the environment names."""
        if not text.strip():
            raise InputError("name the file of the ledger, such as budget.db.")
        return text.strip() if text.strip().startswith("env:") else str(self._beside(text))

    # The run.

    def _free_name(self, name: str) -> str:
        plain = name.strip()
        if not plain or plain != Path(plain).name or plain[0] in ".-" or "\0" in plain:
            raise InputError(
                "the name of the release must be a plain name, such as people-release: it is a folder here."
            )
        require_free(self.folder, plain, UNREVIEWED)
        return plain

    def spend(self, *, once: str, amount: str, name: str) -> None:
        """Charge the account and make the release, in the background. A second call does nothing.

        ``once`` is the word of the page that showed the amount, and ``amount`` the epsilon that the steward typed.
        """
        with self._lock:
            if self.started:  # a reload, a second tab, an impatient second press: the first one counts
                return
            with self.changing("spend"):
                if not secrets.compare_digest(once.encode(), self.once.encode()):
                    raise InputError(OLD_PAGE)
                plan, budget = self.plan, self.budget
                assert plan is not None  # noqa: S101 - steps before
                assert budget is not None  # noqa: S101
                _require_amount(budget, amount)
                data, schema, account = self.require_file(), self.schema(), self.account
                us.Ledger.open(self.ledger).check(str(account), unit=plan.unit, cost=plan.budget)
                self.name = self._free_name(name)
                out = self.folder / f"{self.name}{UNREVIEWED}"
                before = self._charges()

                def work(task: Task) -> None:
                    task.tell("reading and measuring", 0, None)
                    made = us.synthesize(
                        str(data), schema=schema, plan=plan, ledger=self.ledger, account=account, out=out,
                        progress=task.progress,
                    )  # fmt: skip
                    with self._lock:
                        self.release, self.charged = made, True

                def failed() -> None:
                    with self._lock:
                        self.charged = self._charged_since(before)
                        self.started = self.charged  # else nothing happened, and everything can be changed again
                        self.once = secrets.token_urlsafe(16)

                self.started = True
                self._start("spend", "Making the release", work, failed)

    def _charged_since(self, before: set[str]) -> bool:
        """Whether the account was charged; where that cannot be read any more, it may have been."""
        try:
            return self._charges() != before
        except UnderstudyError:
            return True

    def _charges(self) -> set[str]:
        """The runs that were charged to the account for this plan."""
        assert self.plan is not None  # noqa: S101 - steps before
        entries = us.Ledger.open(self.ledger, writable=False).entries(self.account)
        return {str(one.run) for one in entries if one.kind == "charge" and one.plan_hash == self.plan.hash}

    @property
    def kept_run(self) -> Path | None:
        """The folder of a run that was charged and did not come to its end."""
        found = sorted(self.folder.glob(f"{glob.escape(self.name)}{UNREVIEWED}.partial-*")) if self.name else []
        return found[-1] if found and self.charged and self.release is None else None

    def resume(self) -> None:
        """Finish a run that was stopped after its charge. Nothing is charged again."""
        with self._lock:
            run, data = self.kept_run, self.data
            if self.working:
                return
            if run is None or self.plan is None:
                raise InputError("there is no run to finish.")
            unit_id = self.plan.unit.unit_id

            def work(task: Task) -> None:
                task.tell("finishing what was charged", 0, None)
                made = us.resume(run, source=str(data), unit_id=unit_id, progress=task.progress)
                with self._lock:
                    self.release = made

            self._start("spend", "Finishing the release, without another charge", work)

    # Looking at it, and writing it.

    def evaluate(self) -> None:
        with self.changing("review"):
            data, release, schema = self.require_file(), self.release, self.schema()
            assert release is not None  # noqa: S101 - a step before

            def work(task: Task) -> None:
                def told(done: int, total: int | None) -> None:
                    task.tell("comparing and attacking", done, total)

                judged = us.evaluate(release, us.open_source(str(data), schema), progress=told)
                task.tell("drawing the report", 0, None)
                try:
                    page = api.report_page(release, judged, audience="internal", title=self.name)
                except MissingExtraError:  # what was found is shown without pictures
                    page = ""
                with self._lock:
                    self.evaluation, self.report = judged, page

            self._start("review", "Comparing with the data, and attacking the release", work)

    def approve(self) -> None:
        with self.changing("review"):
            self.looked = True

    def publish(self, *, key: str = "", new_key: bool = False) -> None:
        """Give the release its name, sign it if there is a key, and write down how to do it without the page."""
        with self.changing("release"):
            if self.written:
                return
            target, made = self.folder / self.name, self.folder / f"{self.name}{UNREVIEWED}"
            if target.exists():
                raise InputError(f"{target.name} already exists in this folder; move it away first.")
            if not made.is_dir():
                raise InputError(f"{made.name} is not in the folder any more; put it back.")
            self.key = private = self._beside(key) if key.strip() else None
            if private is not None and new_key:
                us.make_signing_key(private)
            files = write_files(self, key=private)  # what can fail comes first, and can be tried again
            signature = None if private is None else us.sign(made, key=private, ledger=self.ledger)
            os.rename(made, target)
            self.signed_by = "" if signature is None else signature.key_id
            self.written = files

    def begin_again(self, *, same_data: bool) -> None:
        """Another release: of the same description, or from the beginning. What was written stays."""
        with self._lock:
            if self.working:
                raise InputError("something is being worked on; wait until it is finished, or stop it.")
            if same_data and self._described is not None:
                self._forget_budgets()
            else:
                self._forget()


def _require_room(limit: api.Definition, account: str, unit: us.Unit, cost: api.Definition) -> None:
    """Refuse a limit that does not allow this release, before an account with it is opened for good."""
    with tempfile.TemporaryDirectory(prefix="understudy-") as place:
        trial = us.Ledger.create(Path(place) / "trial.db")
        trial.create_account(account, unit=unit, limit=limit)
        trial.check(account, unit=unit, cost=cost)


def _require_amount(budget: Budget, amount: str) -> None:
    """The confirmation names the amount: somebody has read it who can type it."""
    try:
        given = read_exact(amount.strip(), "epsilon")
    except InputError:
        given = None
    if given != read_exact(budget.epsilon, "epsilon"):
        raise InputError(f"type the epsilon that is spent, {budget.epsilon}, to confirm. Nothing was spent.")
