"""``understudy verify``: does a release folder hold together, and do its events add up to what it states?

It recomputes; it does not trust. Hashes detect corruption, not forgery by somebody who rewrites the whole folder; a
signature detects that too, if the public key came by another way than the release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.apportion import apportion
from understudy.core.folders import as_path
from understudy.engines.reading.encode import encode_table
from understudy.errors import BudgetError, InputError, UnderstudyError
from understudy.privacy.gate.table_draws import strata_domains
from understudy.privacy.mechanisms.dirichlet_draw import DirichletDraw, require_definition_6, row_unit
from understudy.privacy.mechanisms.draw_facts import TableFacts
from understudy.privacy.promise.definition import NonPrivate
from understudy.privacy.promise.event import ApproxLoss, NoNoise, PureLoss, Strata
from understudy.privacy.promise.plan import Plan
from understudy.privacy.promise.sensitivity import margin_sensitivity
from understudy.release.charge_checks import events_add_up, measurements_are_charged, plan_covers
from understudy.release.commute_checks import CHECKS as COMMUTE_CHECKS
from understudy.release.commutes import CommuteRelease
from understudy.release.folder import NOT_COMPLETE, build_release, check_files
from understudy.release.manifest import read_manifest
from understudy.release.signing import check_signature, read_public_key
from understudy.release.value import Release


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was checked."""

    name: str
    """What was checked."""
    passed: bool
    """Whether it is in order."""
    detail: str
    """What was found, in words."""


def verify(path: str | Path, *, key: str | Path | None = None) -> tuple[Check, ...]:
    """Check a release folder: everything that can be checked with nothing but the folder, and with a public key its
    signature.

    Parameters
    ----------
    path
        The release folder.
    key
        The file of a public key. A release without a signature then fails.

    Returns
    -------
    tuple[Check, ...]
        The checks. All must pass.

    Raises
    ------
    InputError
        If the folder is no release folder.

    Examples
    --------
    >>> import tempfile, understudy as us
    >>> from understudy.demo.people import make_people, small_schema
    >>> table = us.wrap(make_people(50).select(list(small_schema().names)), small_schema())
    >>> all(check.passed for check in us.verify(table.write(tempfile.mkdtemp() + "/release")))
    True
    """
    path = as_path(path, "the release")
    manifest = read_manifest(path)
    signature: tuple[Check, ...] = ()
    if key is not None:
        signature = (_check("signature", partial(check_signature, path, read_public_key(Path(key)))),)
    try:
        check_files(path, manifest)
        release = build_release(path, manifest)
    except UnderstudyError as problem:
        return (Check(name="files", passed=False, detail=str(problem)), *signature)
    return (
        Check(name="files", passed=True, detail=f"{len(manifest['files'])} files listed, no others, all hashes match"),
        *signature,
        *_checks(release),
    )


def _checks(release: Any) -> Iterator[Check]:
    of_commutes = isinstance(release, CommuteRelease)
    checks: tuple[tuple[str, Callable[[Any], str]], ...] = (
        COMMUTE_CHECKS
        if of_commutes
        else (
            ("schema", _rows_fit),
            ("plan", _plan_covers),
            ("measurements", _measurements_are_charged),
            ("draws", _draws_are_charged),
            ("guarantee", lambda one: events_add_up(one.provenance, one.statement)),
        )
    )
    for name, check in checks:
        yield _check(name, partial(check, release))


def _check(name: str, check: Callable[[], str]) -> Check:
    try:
        return Check(name=name, passed=True, detail=check())
    except UnderstudyError as problem:
        return Check(name=name, passed=False, detail=str(problem))
    except NOT_COMPLETE as problem:  # a record that says something else than a release does
        return Check(name=name, passed=False, detail=f"what is recorded cannot be read ({type(problem).__name__}).")


def _rows_fit(release: Release) -> str:
    for copy in range(1, release.copies + 1):
        release.check_rows(copy)
    return f"all rows of {release.copies} table(s) fit the schema and its structural zeros"


def _plan_covers(release: Release) -> str:
    plan = release.provenance.plan
    if plan is None:
        if not isinstance(release.statement.guarantee, NonPrivate):
            raise InputError("a guarantee is stated but there is no plan that says what was done for it.")
        return "no plan: the release was not made by understudy"
    fingerprint = release.schema.fingerprint
    return plan_covers(plan, release.provenance, release.statement, domain=fingerprint, named="another schema")


def _measurements_are_charged(release: Release) -> str:
    schema, unit = release.schema, release.statement.unit
    told = measurements_are_charged(
        release.measurements, release.provenance, lambda one: margin_sensitivity(schema, one.margin, unit, one.cells)
    )
    for one in release.measurements:
        if one.cells == "all" and one.margin and np.any(one.values[~schema.allowed(one.margin)]):
            raise InputError(f"the measurement '{one.label}' has a value where the schema allows none.")
    return told


def _draws_are_charged(release: Release) -> str:
    """What each draw's stated law loses is no more than the loss that was charged for it."""
    plan, draws = release.provenance.plan, release.provenance.draws
    steps = [step for step in plan.steps if step.action == "draw"] if plan is not None else []
    if len(steps) != len(draws):
        raise InputError(f"the plan announces {len(steps)} draw(s) and the release records {len(draws)}.")
    if plan is None or not draws:
        return "no draw straight from the data"
    for copy, (step, draw) in enumerate(zip(steps, draws, strict=True), start=1):
        strata = release.schema.margin(plan.unit.fixed) if isinstance(step.event, Strata) else ()
        losses = step.event.strata if isinstance(step.event, Strata) else ((step.event,),)
        if len(losses) != len(draw["mechanisms"]):
            raise InputError(f"the draw '{draw['label']}' does not have a mechanism for each stratum of its plan.")
        domains = strata_domains(release.schema, strata)
        records = _records(release, plan, draw) if strata else [release.provenance.records]
        asked: list[tuple[DirichletDraw, TableFacts]] = []
        for (loss,), stated, domain, size in zip(losses, draw["mechanisms"], domains, records, strict=True):
            if isinstance(loss, NoNoise):
                continue  # no guarantee is claimed for it
            if stated["mechanism"] != DirichletDraw.name or not isinstance(loss, PureLoss | ApproxLoss):
                raise InputError(
                    f"the draw '{draw['label']}' is charged with an event that a draw by '{stated['mechanism']}' "
                    "does not have."
                )
            mechanism = DirichletDraw.from_json(stated, loss)
            facts = TableFacts(unit=row_unit(plan.unit, strata), cells=domain.possible, records=size)
            asked.append((mechanism, facts))
        if asked:
            _require_drawn(release, copy, draw, strata, records)
        try:
            for mechanism, facts in asked:
                mechanism.event_for(facts)
            require_definition_6([mechanism for mechanism, _ in asked], [facts for _, facts in asked])
        except BudgetError:
            raise InputError(f"the draw '{draw['label']}' costs more than was charged for it.") from None
    return f"{len(draws)} draw(s), each charged with what its mechanism costs"


def _require_drawn(
    release: Release, copy: int, draw: Mapping[str, Any], strata: tuple[str, ...], records: list[int | None]
) -> None:
    """The rows that a draw states are those of the released table, and as many as the plan makes of the public sizes:
    a cost that rests on other numbers is the cost of another draw."""
    stated = [int(one["rows"]) for one in draw["mechanisms"]]
    found = [release.rows[copy - 1]]
    if strata:
        counts = np.zeros(release.schema.shape(strata), dtype=np.int64)
        for piece in release.batches(copy):
            counts += encode_table(piece, release.schema).counts(strata)
        found = counts.ravel().tolist()
    if stated != found:
        raise InputError(f"the draw '{draw['label']}' states other numbers of rows than its table has.")
    sizes = [size for size in records if size is not None]
    asked, plan = sizes or stated, release.provenance.plan
    if plan is not None and plan.rows is not None:
        asked = apportion(np.array(sizes), plan.rows).tolist() if strata else [plan.rows]
    if stated != asked:
        raise InputError(f"the draw '{draw['label']}' states other numbers of rows than its plan and records ask for.")


def _records(release: Release, plan: Plan, draw: Mapping[str, Any]) -> list[int | None]:
    """The public sizes of the strata that a copy was drawn from."""
    if "sizes" not in draw and plan.rows is None:  # early releases do not state them; they drew as many rows
        return [int(stated["rows"]) for stated in draw["mechanisms"]]
    if "sizes" not in draw or sum(draw["sizes"]) != release.provenance.records:
        raise InputError(f"the public sizes of the strata that '{draw['label']}' was drawn from are not recorded.")
    return [int(size) for size in draw["sizes"]]
