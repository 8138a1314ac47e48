"""How plans and releases look on the screen and in JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.cli.output import say, show_facts, show_table

if TYPE_CHECKING:
    from understudy.privacy.promise.plan import Plan
    from understudy.release.kind import AnyRelease


def show_plan(plan: Plan) -> None:
    """What a run will cost and what noise it will add, for a review board."""
    say("Plan (made without touching data)", style="bold")
    show_facts(
        [
            ("method", plan.method),
            ("guarantee", str(plan.budget)),
            ("unit", plan.budget.protects(plan.unit)),
            ("copies", plan.copies),
            ("synthetic rows", "chosen by the method" if plan.rows is None else plan.rows),
            ("options", ", ".join(f"{key} = {value}" for key, value in plan.options.items() if value != "") or "none"),
            ("hash", plan.hash),
        ]
    )
    show_table(
        "Steps",
        ("step", "action", "attributes", "cells", "noise sd", "times"),
        [
            (
                step.label,
                step.action,
                " x ".join(step.margin) or ("(total)" if step.cells else "(chosen during the run)"),
                step.cells or None,
                step.standard_deviation,
                f"up to {step.repeats}" if plan.adaptive else step.repeats,
            )
            for step in plan.steps
        ],
        right=("cells", "noise sd", "times"),
    )
    for note in plan.notes:
        say(note)


def plan_document(plan: Plan) -> dict[str, Any]:
    """The plan for ``--json``."""
    return {"hash": plan.hash, "plan": plan.to_json()}


def show_release(release: AnyRelease, folder: Path) -> None:
    """What was made, what it promises, what to do next."""
    statement = release.statement
    say(f"Release written to {folder}", style="bold")
    show_facts(
        [
            ("tables", ", ".join(f"{rows:,} rows" for rows in release.rows)),
            ("method", release.provenance.method),
            ("guarantee", "NO GUARANTEE" if statement.protects_nobody else str(statement.guarantee)),
            ("unit", statement.protected),
            ("account", "not tracked across runs" if statement.ledger is None else statement.ledger["account"]),
            *([("run", statement.ledger["run"])] if statement.ledger is not None else []),
            *(("note", note) for note in release.provenance.notes),
        ]
    )
    say(f"Check it with: understudy verify {folder}")


def release_document(release: AnyRelease, folder: Path) -> dict[str, Any]:
    """The release for ``--json``: what its manifest says, without opening it."""
    statement, provenance = release.statement, release.provenance
    return {
        "release": str(folder),
        "method": provenance.method,
        "guarantee": statement.guarantee.to_json(),
        "unit": statement.unit.to_json(),
        "ledger": {"tracked": False} if statement.ledger is None else {"tracked": True, **statement.ledger},
        "plan_hash": provenance.plan.hash if provenance.plan else None,
        "rows": list(release.rows),
        "warnings": list(statement.warnings),
        "notes": list(provenance.notes),
    }
