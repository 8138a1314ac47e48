"""Commands about the ledger: the file that keeps every account's budget."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import understudy as us
from understudy.cli.bundles import Identified, Limit, bundled
from understudy.cli.options import AsJson
from understudy.cli.output import print_json, say, show_table
from understudy.core.exact_numbers import show_down, show_up
from understudy.errors import InputError

if TYPE_CHECKING:
    from understudy.privacy.ledger.ledger import Account, Entry

app = typer.Typer(help="Create, read and check the ledger of privacy budgets.", no_args_is_help=True)
LedgerFile = Annotated[Path, typer.Argument(metavar="LEDGER", help="The ledger file.", show_default=False)]
AccountHelp = "Your name for the data set: never a path or anything computed from the data."


@app.command()
@bundled
def create(
    *,
    ledger: LedgerFile,
    account: Annotated[str | None, typer.Option(help=f"Open a first account. {AccountHelp}")] = None,
    amounts: Limit,
    who: Identified,
    as_json: AsJson = False,
) -> None:
    """Create a ledger, and with --account its first account.

    Example: `understudy ledger create budget.db --account people-2026 --epsilon 3`
    """
    limit = amounts.read_if_given() if account is None else amounts.read()
    asked = who.read()
    if account is None and (limit is not None or asked is not None):
        raise InputError("a limit and a unit belong to an account; name it with --account.")
    made = us.Ledger.create(ledger)
    if account is not None and limit is not None:
        try:
            opened = made.create_account(account, unit=asked or us.Unit(), limit=limit)
        except BaseException:
            ledger.unlink()  # made a moment ago by this command and still empty
            raise
        _show_accounts(ledger, [opened], as_json=as_json)
    elif as_json:
        print_json({"ledger": str(ledger), "accounts": []})
    else:
        say(f"Created {ledger}. Open an account with: understudy ledger limit {ledger} --account NAME --epsilon 3")


@app.command()
@bundled
def limit(
    *,
    ledger: LedgerFile,
    account: Annotated[str, typer.Option(help=AccountHelp, show_default=False)],
    amounts: Limit,
    who: Identified,
    as_json: AsJson = False,
) -> None:
    """Open an account with its limit. Limit and unit are fixed for good: a limit that can be raised is none.

    Example: `understudy ledger limit budget.db --account survey-2027 --epsilon 2 --delta 1e-9`
    """
    wanted, unit = amounts.read(), who.read() or us.Unit()
    opened = us.Ledger.open(ledger).create_account(account, unit=unit, limit=wanted)
    _show_accounts(ledger, [opened], as_json=as_json)


@app.command()
def show(
    *,
    ledger: LedgerFile,
    account: Annotated[str | None, typer.Option(help="Show this account only.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show every account with its limit, what is spent and what remains, and every run in order of time.

    Example: `understudy ledger show budget.db`

    Spent amounts are rounded up and remaining ones down; the sums behind them are exact.
    """
    opened = us.Ledger.open(ledger, writable=False)
    accounts = [known for known in opened.accounts() if account is None or known == opened.account(account)]
    entries = opened.entries(account)
    runs = [entry for entry in entries if entry.kind == "charge"]
    left = {entry.run: entry for entry in entries if entry.kind == "settle"}
    if as_json:
        print_json(
            {
                "ledger": str(ledger),
                "head": opened.head(),
                "accounts": [known.to_json() for known in accounts],
                "entries": [entry.to_json() for entry in entries],
            }
        )
        return
    _show_accounts(ledger, accounts, as_json=False)
    if runs:
        show_table(
            "Runs, in order of time",
            ("entry", "time (UTC)", "account", "run", "method", "charged", "left unused", "plan"),
            [_run_row(entry, left.get(entry.run)) for entry in runs],
            right=("entry",),
        )
    else:
        say("Nothing was charged so far.")
    say(f"Head of the chain: {opened.head()}")


@app.command()
def verify(
    *,
    ledger: LedgerFile,
    against: Annotated[
        Path | None, typer.Option(metavar="RELEASE", help="A release that was charged to this ledger.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Recompute the chain of entries; with --against also that a release's charge is still there, and for what it says.

    Example: `understudy ledger verify budget.db --against release/`

    Alone it finds an edited, removed or inserted entry. A truncated ledger or a restored backup is consistent in
    itself; the head hash inside a release gives it away. Plan, unit and guarantee of the release are compared too.
    """
    found = us.verify_ledger(ledger, against=against)
    if as_json:
        print_json({"ledger": str(ledger), "against": None if against is None else str(against), **found.to_json()})
    elif found.ok:
        say(f"{ledger} is in order: {found.entries} entries, head {found.head}")
    if not found.ok:
        raise InputError(f"{ledger} is not in order: {'; '.join(found.problems)}.")


def _show_accounts(ledger: Path, accounts: list[Account], *, as_json: bool) -> None:
    if as_json:
        print_json({"ledger": str(ledger), "accounts": [account.to_json() for account in accounts]})
        return
    rows = []
    for account in accounts:
        amounts = account.rows() or [("no guarantee", "none", "not counted", "-")]
        for number, (currency, limit, spent, remaining) in enumerate(amounts):
            first = number == 0
            who = (account.name, _unit(account.unit)) if first else ("", "")
            rows.append((*who, currency, limit, spent, remaining, account.runs if first else ""))
    show_table(
        f"Accounts of {ledger}",
        ("account", "unit", "currency", "limit", "spent", "remaining", "runs"),
        rows,
        right=("limit", "spent", "remaining", "runs"),
    )


def _unit(unit: us.Unit) -> str:
    fixed = f", fixed: {', '.join(unit.fixed)}" if unit.fixed else ""
    rows = "" if unit.rows_per_unit == 1 else f", {unit.rows_per_unit} rows"
    return f"{unit.kind}{rows}{f' per {unit.unit_id}' if unit.unit_id else ''}{fixed}"


def _run_row(charge: Entry, settled: Entry | None) -> tuple[object, ...]:
    amounts = ", ".join(f"{key} {show_up(value)}" for key, value in charge.charged.items()) or "no guarantee"
    unused = ", ".join(f"{key} {show_down(value)}" for key, value in settled.left.items()) if settled else ""
    time = charge.time.replace("T", " ").removesuffix("+00:00")
    plan = (charge.plan_hash or "")[:12]
    return (charge.sequence, time, charge.account, charge.run, charge.method, amounts, unused, plan)
