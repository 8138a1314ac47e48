"""The ledger: how much of each data set's privacy is spent, over all runs and all users of it.

A run reserves the whole cost of its plan in one transaction before the first draw, or is refused. The limit is a
filter: it may be enforced on a running sum although later runs, and their budgets, are chosen after seeing earlier
results. For pure and approximate differential privacy this is basic composition as a filter (Rogers, Roth, Ullman and
Vadhan 2016, arXiv:1605.08294, section 3); for zero-concentrated differential privacy it is Feldman and Zrnic 2021
(arXiv:2008.11193, Theorem 3.1) and Whitehouse, Ramdas, Rogers and Wu 2023 (PMLR 202). docs/theory/ledger.md has a
short proof of all three. Sums are exact: amounts are stored as text and added as fractions.

Everything in a ledger is public or the steward's own words: never put a confidential value in a name or a note.
"""

from __future__ import annotations

import datetime
import os
import secrets
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path

from understudy.errors import BudgetError, InputError, UnsupportedError
from understudy.privacy.ledger.account_book import (
    Account,
    Book,
    Entry,
    Verification,
    above_limit,
    amounts_for,
    cost_in,
    differences,
    entry_of,
    left_of,
    moved_on,
    no_charge,
    replay,
    write_amounts,
)
from understudy.privacy.ledger.choosing import create_store, open_store
from understudy.privacy.ledger.store import (
    VERSION,
    Contents,
    Head,
    Store,
    Writing,
    chain_problems,
    head_problems,
)
from understudy.privacy.promise.definition import Definition, ProbabilisticDP, Unit, read_unit

__all__ = ["Account", "Entry", "Ledger", "Verification", "cost_in"]


class Ledger:
    """Accounts of privacy budgets in one file. Make one with :meth:`create`, or open one with :meth:`open`.

    Parameters
    ----------
    file
        The opened file; given by :meth:`create` and :meth:`open`.
    """

    def __init__(self, file: Store) -> None:
        self._file = file

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self._file.path

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Ledger:
        """Make a new, empty ledger that only its owner can read. An existing file is never overwritten.

        Its first entry holds a random name, so that no two ledgers share a hash.

        Parameters
        ----------
        path
            The new file; or ``env:NAME``, an environment variable that holds a ``postgresql://`` address.

        Returns
        -------
        Ledger
            The ledger, ready for accounts.
        """
        body = {"kind": "ledger", "version": VERSION, "name": secrets.token_hex(16), "time": _now()}
        return cls(create_store(path, body))

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, writable: bool = True) -> Ledger:
        """Open an existing ledger.

        Parameters
        ----------
        path
            The file; or ``env:NAME``, an environment variable that holds a ``postgresql://`` address.
        writable
            ``False`` is enough to show and verify a ledger, also on a read-only disk.

        Returns
        -------
        Ledger
            The ledger.
        """
        return cls(open_store(path, writable=writable))

    def create_account(self, name: str, *, unit: Unit | str, limit: Definition) -> Account:
        """Open an account: the steward's name for a data set, who is protected, and how much may ever be spent.

        All three are fixed for good: a limit that could be raised would not be a limit, and losses of different units
        do not add.

        Parameters
        ----------
        name
            The name of the account; it says nothing about files.
        unit
            Who is protected.
        limit
            How much may ever be spent.

        Returns
        -------
        Account
            The new account.

        Raises
        ------
        InputError
            If there is such an account, or the limit is no guarantee.
        UnsupportedError
            If the limit is of a kind that losses cannot be added up in.
        """
        name, unit = _name(name, "account"), read_unit(unit)
        if not isinstance(limit, Definition):
            raise InputError("limit must be a guarantee, such as PureDP(epsilon=1).")
        if isinstance(limit, ProbabilisticDP):
            raise UnsupportedError(
                "an account cannot be limited by probabilistic differential privacy, which later processing does not "
                "preserve; use ApproxDP with the same epsilon and delta, and probabilistic runs are charged as that."
            )
        with self._file.writing() as writing:
            book = _sound_book(writing, self.path)
            for known in book.accounts:
                # Two accounts for one data set would each allow the whole limit; near-identical names invite that.
                if known.casefold() == name.casefold():
                    raise InputError(
                        f"account '{known}' exists already; its unit and limit are fixed. Use it as it is."
                    )
            body = {
                "kind": "account",
                "account": name,
                "unit": unit.to_json(),
                "limit": limit.to_json(),
                "time": _now(),
            }
            writing.append(body)
        return self.account(name)

    def accounts(self) -> tuple[Account, ...]:
        """List every account, in the order of their opening.

        Returns
        -------
        tuple[Account, ...]
            The accounts, with what is spent.
        """
        return tuple(self._book().accounts.values())

    def account(self, name: str) -> Account:
        """Look up one account.

        Parameters
        ----------
        name
            Its name.

        Returns
        -------
        Account
            The account, with what is spent.
        """
        return self._book().account(_name(name, "account"))

    def reserve(
        self,
        account: str,
        *,
        run: str,
        plan_hash: str,
        unit: Unit | str,
        cost: Definition,
        method: str,
        note: str = "",
        journal: Head | None = None,
    ) -> Entry:
        """Charge a run's whole plan before its first draw, or refuse and charge nothing.

        Asking again for the same run with the same plan returns the first charge, so a run that died before it learnt
        the answer may ask again. That covers one run's draws: what it drew already it takes from its journal.

        Parameters
        ----------
        account
            The name of the account.
        run
            The name of the run.
        plan_hash
            The hash of the plan.
        unit
            Who is protected by the run.
        cost
            The guarantee of the run.
        method
            The name of the method.
        note
            One line for people to read.
        journal
            Where the run's journal stands now. From there the ledger follows it (:meth:`advance`).

        Returns
        -------
        Entry
            The charge.

        Raises
        ------
        BudgetError
            If the account does not allow it: too little remains, the unit differs, or the run was charged with another
            plan.
        """
        name, run, unit = _name(account, "account"), _name(run, "run"), read_unit(unit)
        plan_hash, method = _text(plan_hash, "plan_hash"), _text(method, "method")
        note = _text(note, "note", empty=True, longest=1000)
        with self._file.writing() as writing:
            book = _sound_book(writing, self.path)
            state = book.account(name)
            amounts = amounts_for(state, unit, cost)
            earlier = book.charges.get(run)
            if earlier is not None:
                if (earlier.account, earlier.plan_hash, earlier.cost) != (name, plan_hash, cost):
                    raise BudgetError(
                        f"run '{run}' was charged before for another plan, cost or account; one run has one plan. "
                        "Nothing was charged; start a new run."
                    )
                return earlier
            if not state.fits(amounts):
                raise BudgetError(above_limit(state, amounts))
            body = {
                "kind": "charge",
                "account": name,
                "run": run,
                "plan_hash": plan_hash,
                "unit": unit.to_json(),
                "cost": cost.to_json(),
                "charged": write_amounts(amounts),
                "method": method,
                "note": note,
                "time": _now(),
            }
            if journal is not None:
                body["journal"] = journal.to_json()
                writing.keep_heads()
                writing.start_head(run, journal)
            row = writing.append(body)
        return entry_of(row)

    def advance(self, *, run: str, known: Head, head: Head) -> None:
        """Note how far the journal of a run has come, before what it holds is handed out to anybody.

        The chain is not read: one row is compared and moved, whatever the ledger's size.

        Parameters
        ----------
        run
            The name of the run.
        known
            Where the caller last saw the journal here.
        head
            Where it stands now.

        Raises
        ------
        BudgetError
            If the run was never charged, or its journal is elsewhere: then another copy of the run folder has gone on.
        """
        with self._file.writing() as writing:
            found = writing.head_of(run)
            if found is None:
                raise BudgetError(no_charge(self.path, run))
            if found != known:
                raise BudgetError(moved_on(run))
            writing.move_head(run, head)

    def take_up(
        self,
        account: str,
        *,
        run: str,
        plan_hash: str,
        unit: Unit,
        cost: Definition,
        block: Mapping[str, object],
        checksums: Sequence[str],
    ) -> Entry:
        """Find the charge of a run that is resumed, if it is still there and the run folder is what was charged.

        Parameters
        ----------
        account
            The name of the account.
        run
            The name of the run.
        plan_hash
            The hash of the plan in the run folder.
        unit
            The unit in the run folder.
        cost
            The guarantee in the run folder.
        block
            :attr:`Entry.block` as the run folder noted it.
        checksums
            Those of the journal, from that of its beginning to that of its last entry. The ledger's head must be one of
            them, and moves to the last.

        Returns
        -------
        Entry
            The charge.

        Raises
        ------
        BudgetError
            If the charge is not there, or the run folder is another one.
        """
        with self._file.writing() as writing:
            book = _sound_book(writing, self.path)
            charge = book.charges.get(run)
            if charge is None:
                raise BudgetError(no_charge(self.path, run))
            other = differences(charge, plan_hash=plan_hash, unit=unit, cost=cost)
            if other or charge.account != account:
                raise BudgetError(
                    f"run '{run}' was charged for another {' and '.join(other) or 'account'} than its folder states: "
                    "the folder was changed. What it states now was never paid for; start a new run."
                )
            if charge.block != block:
                raise BudgetError(
                    f"run '{run}' was charged to another ledger than {self.path}, or this one was rewritten. Put back "
                    "the ledger it was charged to, and resume again."
                )
            writing.keep_heads()
            head = Head(sequence=len(checksums) - 1, hash=checksums[-1])
            known = writing.head_of(run)
            if known is None:  # charged by a version that did not follow journals
                writing.start_head(run, head)
            elif known.sequence >= len(checksums) or checksums[known.sequence] != known.hash:
                raise BudgetError(moved_on(run))
            elif known != head:
                writing.move_head(run, head)
        return charge

    def check(self, account: str, *, unit: Unit | str, cost: Definition) -> None:
        """Raise what :meth:`reserve` would raise now, and charge nothing: a refusal before the data are opened.

        Only a reservation binds; another run may still reserve first.

        Parameters
        ----------
        account
            The name of the account.
        unit
            Who is protected by the run.
        cost
            The guarantee of the run.

        Raises
        ------
        BudgetError
            If the account does not allow it.
        """
        state = self.account(account)
        amounts = amounts_for(state, read_unit(unit), cost)
        if not state.fits(amounts):
            raise BudgetError(above_limit(state, amounts))

    def settle(self, *, run: str, spent: Definition) -> Entry:
        """Write down what an adaptive run used of its charge and what it left. Nothing is given back.

        Why no refund: how much an adaptive run uses depends on its noisy results, and a statement about a loss known
        only afterwards is an odometer, not a filter. The plan's zCDP total converts to (epsilon, delta); a total that
        the results chose does not (Rogers et al. 2016 prove the gap). Besides, a budget that only falls can be checked
        by anybody who reads the rows, whatever crashed when.

        Parameters
        ----------
        run
            The name of the run.
        spent
            What it used.

        Returns
        -------
        Entry
            The entry that says so.

        Raises
        ------
        BudgetError
            If the run was never charged, or was settled with another amount.
        """
        with self._file.writing() as writing:
            book = _sound_book(writing, self.path)
            charge = book.charge(run)
            left = left_of(book, charge, spent)
            earlier = book.settled.get(run)
            if earlier is not None:
                if earlier.spent != spent:
                    raise BudgetError(f"run '{run}' was settled before with another amount; an entry is never changed.")
                return earlier
            body = {
                "kind": "settle",
                "account": charge.account,
                "run": run,
                "spent": spent.to_json(),
                "left": write_amounts(left),
                "time": _now(),
            }
            row = writing.append(body)
        return entry_of(row)

    def entries(self, account: str | None = None) -> tuple[Entry, ...]:
        """List every entry in order, or those of one account.

        Parameters
        ----------
        account
            The name of the account; all by default.

        Returns
        -------
        tuple[Entry, ...]
            The entries.
        """
        book = self._book()
        if account is None:
            return tuple(book.entries)
        name = book.account(_name(account, "account")).name
        return tuple(entry for entry in book.entries if entry.account == name)

    def head(self) -> str:
        """Give the hash of the last entry, which stands for everything before it.

        Returns
        -------
        str
            The hash, in hexadecimal.
        """
        return self._book().entries[-1].hash

    def verify(self) -> Verification:
        """Recompute the chain from the first entry and replay it: every charge allowed, nothing changed or missing.

        Detects an edited, removed, inserted or reordered entry. Entries cut off the end together with SQLite's own
        counter, or an older copy of the whole file, are consistent in themselves: see :meth:`verify_against`.

        Returns
        -------
        Verification
            What was found.
        """
        contents = self._file.read()
        rows, (_, problems) = contents.rows, _read_book(contents)
        if not rows:
            problems.append("there are no entries at all")
        return Verification(problems=tuple(problems), entries=len(rows), head=rows[-1].hash if rows else "")

    def verify_against(
        self,
        block: Mapping[str, object],
        *,
        plan_hash: str | None = None,
        unit: Unit | None = None,
        cost: Definition | None = None,
    ) -> Verification:
        """Verify, and check that the charge of a release is still where it was, and for what the release states.

        A truncated ledger, a restored backup or another ledger does not have that hash at that place. An edited
        manifest states what was not charged.

        Parameters
        ----------
        block
            The account, run, head and sequence that the manifest notes: :attr:`Entry.block` of the charge.
        plan_hash
            The hash of the plan of the release; not compared if left out.
        unit
            The unit of the release; not compared if left out.
        cost
            The guarantee of the release; not compared if left out.

        Returns
        -------
        Verification
            What was found.

        Raises
        ------
        InputError
            If the release does not say which entry it was charged to.
        """
        sequence, head = block.get("sequence"), block.get("head")
        if not isinstance(sequence, int) or not isinstance(head, str) or not {"account", "run"} <= block.keys():
            raise InputError("this release does not say which ledger entry it was charged to; nothing to compare with.")
        checked = self.verify()
        rows = self._file.read().rows
        run = block["run"]
        found = next((row for row in rows if row.sequence == sequence), None)
        problems = list(checked.problems)
        if found is None:
            problems.append(
                f"run '{run}' was entry {sequence}, but this ledger has {len(rows)} entries: it was cut, or restored "
                "from an older backup, or is another ledger"
            )
        elif found.hash != head:
            problems.append(
                f"entry {sequence} is not the charge of run '{run}': the ledger was rewritten or is another"
            )
        else:
            charge = replay(rows).charges.get(str(run))
            if charge is None or charge.sequence != sequence or charge.account != block["account"]:
                problems.append(f"entry {sequence} charges another run or account than the release says")
            elif other := differences(charge, plan_hash=plan_hash, unit=unit, cost=cost):
                problems.append(f"entry {sequence} charges another {' and '.join(other)} than the release states")
        return Verification(problems=tuple(problems), entries=checked.entries, head=checked.head)

    def _book(self) -> Book:
        return _checked(self._file.read(), self.path)


def _sound_book(writing: Writing, path: Path) -> Book:
    return _checked(writing.contents(), path)


def _read_book(contents: Contents) -> tuple[Book, list[str]]:
    book = replay(contents.rows)
    began = {run: charge.journal for run, charge in book.charges.items()}
    problems = contents.problems + chain_problems(contents.rows) + book.problems
    return book, problems + head_problems(contents.heads, began)


def _checked(contents: Contents, path: Path) -> Book:
    book, problems = _read_book(contents)
    if not book.entries and not problems:
        problems = ["there are no entries at all"]
    if problems:
        raise InputError(
            f"the ledger {path} was altered or damaged ({problems[0]}); nothing is charged to it. "
            "Verify it, and restore it from a backup."
        )
    return book


def _name(name: str, kind: str) -> str:
    name = unicodedata.normalize("NFC", _text(name, f"{kind} name", longest=100))
    if "/" in name or "\\" in name:
        raise InputError(f"{kind} name '{name}' looks like a path; use a name that says nothing about files.")
    return name


def _text(value: str, what: str, *, empty: bool = False, longest: int = 200) -> str:
    if not isinstance(value, str) or not value.isprintable() or value != value.strip() or len(value) > longest:
        raise InputError(f"{what} must be one line of at most {longest} characters, without blanks around it.")
    if not value and not empty:
        raise InputError(f"{what} must not be empty.")
    return value


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
