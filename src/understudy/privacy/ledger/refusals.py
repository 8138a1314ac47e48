"""What a ledger says when it refuses: what is wrong, what was expected, and how to go on."""

from __future__ import annotations

from pathlib import Path

from understudy.core.exact_numbers import show_down, show_up
from understudy.privacy.ledger.book import Account, Amounts
from understudy.privacy.promise.definition import Unit


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
