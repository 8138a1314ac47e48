"""What the rows of a ledger say: accounts, charges, and whether they add up."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from understudy.core.exact_numbers import from_text, show_down, show_up, to_text
from understudy.errors import BudgetError, InputError, UnderstudyError, unknown_name
from understudy.privacy.ledger.store import Row, canonical
from understudy.privacy.promise.definition import (
    Definition,
    NonPrivate,
    ProbabilisticDP,
    PureDP,
    Unit,
    definition_from_json,
)

Amounts = Mapping[str, Fraction]


def cost_in(limit: Definition, cost: Definition) -> Amounts:
    """What a run with guarantee ``cost`` takes from an account whose limit is ``limit``.

    A pure account takes pure runs only. An approx account takes approx runs, pure ones with delta 0, and probabilistic
    ones as the approximate guarantee they imply (Gotz et al. 2012, Lemma 2). A zCDP account takes zCDP runs, and pure
    ones at rho = epsilon^2 / 2 (Bun and Steinke 2016, Proposition 1.4). An account opened without a guarantee takes
    anything and counts nothing. Everything else is refused: a conversion that needs a choice (such as a delta) is made
    by the accountant inside a run, where it is exact, and not here, where it would be paid again for every run.

    >>> from understudy.privacy.promise.definition import ApproxDP
    >>> cost_in(ApproxDP(epsilon=1, delta="1e-6"), PureDP(epsilon="0.5"))
    {'epsilon': Fraction(1, 2), 'delta': Fraction(0, 1)}
    """
    if isinstance(limit, NonPrivate):
        return {}
    if isinstance(cost, NonPrivate):
        raise BudgetError(
            f"a run without a guarantee cannot be charged to an account limited by {limit}; "
            "open an account of its own, with the limit 'none', and know that nothing is promised."
        )
    if isinstance(cost, ProbabilisticDP):
        cost = cost.implied()
    if cost.name == limit.name:
        return {key: getattr(cost, key) for key in limit.parameters}
    if isinstance(cost, PureDP) and limit.name == "approx":
        return {"epsilon": cost.epsilon, "delta": Fraction(0)}
    if isinstance(cost, PureDP) and limit.name == "zcdp":
        return {"rho": cost.epsilon**2 / 2}
    raise BudgetError(
        f"a run with {cost.title} cannot be charged to an account that counts {limit.title}; "
        f"plan the run with the guarantee '{limit.name}', or charge an account with a limit of the kind '{cost.name}'."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row of the ledger. All of it is public."""

    sequence: int
    """The number of the row, from 1."""
    previous: str
    """The hash of the row before."""
    hash: str
    """The hash of this row."""
    body: Mapping[str, Any]
    """What the row says."""

    @property
    def kind(self) -> str:
        """``ledger``, ``account``, ``charge`` or ``settle``."""
        return str(self.body["kind"])

    @property
    def time(self) -> str:
        """When it was written, UTC, ISO 8601."""
        return str(self.body["time"])

    @property
    def account(self) -> str | None:
        """The name of the account."""
        return self.body.get("account")

    @property
    def run(self) -> str | None:
        """The name of the run."""
        return self.body.get("run")

    @property
    def plan_hash(self) -> str | None:
        """The hash of the plan that was charged."""
        return self.body.get("plan_hash")

    @property
    def method(self) -> str | None:
        """The name of the method."""
        return self.body.get("method")

    @property
    def note(self) -> str:
        """One line for people to read."""
        return str(self.body.get("note", ""))

    @property
    def cost(self) -> Definition | None:
        """The guarantee of a charged run, as it was asked for."""
        return definition_from_json(self.body["cost"]) if "cost" in self.body else None

    @property
    def charged(self) -> Amounts:
        """What a charge takes from the account, in the account's currency."""
        return _read_amounts(self.body.get("charged", {}))

    @property
    def spent(self) -> Definition | None:
        """What a settled run used of its charge."""
        return definition_from_json(self.body["spent"]) if "spent" in self.body else None

    @property
    def left(self) -> Amounts:
        """What a settled run did not use of its charge. It is not given back."""
        return _read_amounts(self.body.get("left", {}))

    @property
    def journal(self) -> Mapping[str, object] | None:
        """Number and checksum with which the journal of a charged run began; none in early ledgers."""
        return self.body.get("journal")

    @property
    def unit(self) -> Unit | None:
        """Who is protected."""
        return Unit.from_json(self.body["unit"]) if "unit" in self.body else None

    @property
    def block(self) -> dict[str, object]:
        """What a manifest carries about a charge, so that truncation of the ledger can be noticed."""
        return {"account": self.account, "run": self.run, "head": self.hash, "sequence": self.sequence}

    def to_json(self) -> dict[str, object]:
        """The row as plain values.

        Returns
        -------
        dict[str, object]
            What the row says, with both hashes.
        """
        return {**self.body, "previous": self.previous, "hash": self.hash}


def entry_of(row: Row) -> Entry:
    return Entry(sequence=row.sequence, previous=row.previous, hash=row.hash, body=json.loads(row.body))


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The state of one account: the limit, what is spent and what remains, exact."""

    name: str
    """The steward's name for the data."""
    unit: Unit
    """Who is protected."""
    limit: Definition
    """How much may ever be spent."""
    opened: str
    """When it was opened, UTC, ISO 8601."""
    spent: Amounts
    """What the charges took, by parameter; exact."""
    runs: int = 0
    """How many runs were charged."""

    @property
    def remaining(self) -> Amounts:
        """What may still be spent, by parameter; exact."""
        return {key: getattr(self.limit, key) - self.spent[key] for key in self.limit.parameters}

    def fits(self, amounts: Amounts) -> bool:
        """Say whether a charge would stay within the limit.

        Parameters
        ----------
        amounts
            What the charge takes, by parameter.

        Returns
        -------
        bool
            Whether it fits.
        """
        return all(self.spent[key] + amounts[key] <= getattr(self.limit, key) for key in self.limit.parameters)

    def rows(self) -> list[tuple[str, str, str, str]]:
        """The state of the account as plain text, for any table.

        Returns
        -------
        list[tuple[str, str, str, str]]
            Parameter, limit, spent (rounded up) and remaining (rounded down).
        """
        return [
            (key, show_down(getattr(self.limit, key)), show_up(self.spent[key]), show_down(self.remaining[key]))
            for key in self.limit.parameters
        ]

    def to_json(self) -> dict[str, object]:
        """The account as plain values.

        Returns
        -------
        dict[str, object]
            The fields, and what remains.
        """
        return {
            "account": self.name,
            "unit": self.unit.to_json(),
            "guarantee": self.limit.name,
            "limit": self.limit.to_json(),
            "spent": {key: show_up(value) for key, value in self.spent.items()},
            "remaining": {key: show_down(value) for key, value in self.remaining.items()},
            "spent_exact": write_amounts(self.spent),
            "remaining_exact": write_amounts(self.remaining),
            "runs": self.runs,
            "opened": self.opened,
        }

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{word}</th>" for word in ("", "limit", "spent", "remaining"))
        lines = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in self.rows())
        title = html.escape(f"{self.name}: {self.limit.title}, {self.runs} runs")
        return f"<table><caption>{title}</caption><tr>{head}</tr>{lines}</table>"


def write_amounts(amounts: Amounts) -> dict[str, str]:
    return {key: to_text(value) for key, value in amounts.items()}


def _read_amounts(data: Mapping[str, str]) -> dict[str, Fraction]:
    return {key: from_text(text, key) for key, text in data.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a check of the whole ledger found; true if nothing is wrong."""

    problems: tuple[str, ...]
    """What is wrong, in words; empty if nothing is."""
    entries: int
    """How many entries were checked."""
    head: str
    """The hash of the last entry."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __bool__(self) -> bool:
        return self.ok

    def to_json(self) -> dict[str, object]:
        """The result as plain values.

        Returns
        -------
        dict[str, object]
            The fields.
        """
        return {"ok": self.ok, "problems": list(self.problems), "entries": self.entries, "head": self.head}


@dataclass(slots=True, kw_only=True)
class Book:
    """All rows, replayed from the first: what a ledger says, and where it contradicts itself."""

    entries: list[Entry] = field(default_factory=list)
    accounts: dict[str, Account] = field(default_factory=dict)
    charges: dict[str, Entry] = field(default_factory=dict)
    settled: dict[str, Entry] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def account(self, name: str) -> Account:
        if name not in self.accounts:
            raise unknown_name("account", name, self.accounts)
        return self.accounts[name]

    def charge(self, run: str) -> Entry:
        if run not in self.charges:
            raise unknown_name("run", run, self.charges)
        return self.charges[run]


def replay(rows: tuple[Row, ...]) -> Book:
    """Read rows and check that each was allowed when it was written; never raises."""
    book = Book()
    for row in rows:
        try:
            entry = entry_of(row)
            if canonical(entry.body) != row.body:  # such as a key given twice, which readers may take differently
                raise InputError("it is not in the form this program writes")
            _take(book, entry)
            book.entries.append(entry)
        except (UnderstudyError, KeyError, TypeError, ValueError, AttributeError) as problem:
            reason = str(problem) if isinstance(problem, UnderstudyError) else "it is not a complete entry"
            book.problems.append(f"entry {row.sequence} cannot be right: {reason}")
    return book


def _take(book: Book, entry: Entry) -> None:
    body = entry.body
    if body["sequence"] != entry.sequence:
        raise InputError("it carries another entry's number")
    if not isinstance(body["time"], str):
        raise InputError("it has no time")
    if (entry.kind == "ledger") != (entry.sequence == 1):
        raise InputError("a ledger starts with exactly one opening entry")
    if entry.kind == "account":
        limit = definition_from_json(body["limit"])
        name, unit = body["account"], Unit.from_json(body["unit"])
        if name in book.accounts:
            raise InputError(f"account '{name}' exists already")
        nothing = dict.fromkeys(limit.parameters, Fraction(0))
        book.accounts[name] = Account(name=name, unit=unit, limit=limit, opened=entry.time, spent=nothing)
    elif entry.kind == "charge":
        account = book.account(body["account"])
        run = body["run"]
        if run in book.charges:
            raise InputError(f"run '{run}' is charged already")
        if Unit.from_json(body["unit"]) != account.unit:
            raise InputError("its unit is not the account's")
        beginning = body.get("journal", {"sequence": 0, "hash": ""})
        if not isinstance(beginning["sequence"], int) or not isinstance(beginning["hash"], str):
            raise InputError("it does not say where its journal began")
        amounts = cost_in(account.limit, definition_from_json(body["cost"]))
        if amounts != entry.charged:
            raise InputError("the amounts charged are not those of its guarantee")
        if not account.fits(amounts):
            raise InputError("it is above the limit")
        book.charges[run] = entry
        book.accounts[account.name] = charged(account, amounts)
    elif entry.kind == "settle":
        charge = book.charge(body["run"])
        if charge.run in book.settled:
            raise InputError(f"run '{charge.run}' is settled already")
        if entry.account != charge.account or entry.left != left_of(book, charge, definition_from_json(body["spent"])):
            raise InputError("it does not agree with the charge")
        book.settled[str(charge.run)] = entry
    elif entry.kind != "ledger":
        raise InputError(f"its kind '{entry.kind}' is unknown")


def charged(account: Account, amounts: Amounts) -> Account:
    """The account after one more run."""
    spent = {key: account.spent[key] + amounts[key] for key in account.limit.parameters}
    return Account(
        name=account.name,
        unit=account.unit,
        limit=account.limit,
        opened=account.opened,
        spent=spent,
        runs=account.runs + 1,
    )


def left_of(book: Book, charge: Entry, spent: Definition) -> Amounts:
    """What a run left of its charge; a run that used more than it reserved is refused."""
    used = cost_in(book.account(str(charge.account)).limit, spent)
    left = {key: charge.charged[key] - used[key] for key in used}
    for key, amount in left.items():
        if amount < 0:
            raise BudgetError(
                f"run '{charge.run}' reports {key} = {show_up(used[key])} but reserved {show_up(charge.charged[key])}; "
                "a run never spends more than it reserved."
            )
    return left


def differences(charge: Entry, *, plan_hash: str | None, unit: Unit | None, cost: Definition | None) -> list[str]:
    """In what a run, or the release it made, is not what was charged; what is not known is not compared."""
    compared = {
        "plan": (charge.plan_hash, plan_hash), "unit": (charge.unit, unit), "guarantee": (charge.cost, cost),
    }  # fmt: skip
    return [name for name, (charged_for, found) in compared.items() if found not in (None, charged_for)]


def amounts_for(account: Account, unit: Unit, cost: Definition) -> Amounts:
    """What a run takes from an account; refused if they protect different units."""
    if unit != account.unit:
        raise BudgetError(
            f"account '{account.name}' protects another unit than this run, and their losses do not add. "
            f"The account: {say_unit(account.unit)}. The run: {say_unit(unit)}. Nothing was charged; plan the run with "
            "the account's unit, or open another account with the run's."
        )
    return cost_in(account.limit, cost)


# What a ledger says when it refuses: what is wrong, what was expected, and how to go on.


def no_charge(path: Path, run: str) -> str:
    return (
        f"the ledger {path} has no charge for run '{run}': it was restored from an older backup, or is another ledger. "
        "Nothing is published that no ledger holds. Put back the ledger that has the charge and resume again; if it is "
        "lost, delete the run folder and start a new run, which is charged anew."
    )


def moved_on(run: str) -> str:
    return (
        f"another copy of the folder of run '{run}' has gone on: the ledger knows answers that this one does not have. "
        "A charge covers one draw of each answer. Resume the copy that has gone on, and delete this one."
    )


def above_limit(account: Account, asked: Amounts) -> str:
    parts = [
        f"{key}: limit {show_down(getattr(account.limit, key))}, spent {show_up(account.spent[key])}, "
        f"remaining {show_down(account.remaining[key])}, asked {show_up(asked[key])}"
        for key in account.limit.parameters
    ]
    return (
        f"account '{account.name}' does not allow this run. {'; '.join(parts)}. "
        "Nothing was charged and nothing drawn; ask for at most what remains."
    )


def say_unit(unit: Unit) -> str:
    identified = f", identified by {unit.unit_id}" if unit.unit_id else ""
    fixed = f", fixed {' and '.join(unit.fixed)}" if unit.fixed else ""
    rows = "1 row" if unit.rows_per_unit == 1 else f"{unit.rows_per_unit} rows"
    return f"{unit.kind}, {rows} per unit{identified}{fixed}"
