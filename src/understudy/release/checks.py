"""``understudy verify``: is a release folder consistent, and do its events add up to the guarantee that it states?

Everything is recomputed; nothing is trusted. Hashes detect corruption, but not forgery by somebody who rewrites the
whole folder. A signature detects forgery too, if the public key came by another way than the release. Each kind of
release names its checks. Those that all kinds share are here: plan, measurements and guarantee were charged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path

from understudy.core.folders import as_path
from understudy.core.measurement import Measurement
from understudy.errors import InputError, UnderstudyError
from understudy.privacy.ledger.account_book import Verification
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.promise.accountant import compose, satisfies, satisfies_definition_6, within
from understudy.privacy.promise.definition import ZCDP, Definition, NonPrivate, ProbabilisticDP, PureDP
from understudy.privacy.promise.event import Event, Sensitivity
from understudy.privacy.promise.plan import Plan
from understudy.release.folder import NOT_COMPLETE, build_release, check_files
from understudy.release.kind import AnyKind, AnyRelease, kind_stated
from understudy.release.manifest import read_manifest
from understudy.release.signing import check_signature, read_public_key
from understudy.release.statement import Provenance, Statement


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
        *_checks(kind_stated(manifest, path), release),
    )


def _checks(kind: AnyKind, release: AnyRelease) -> Iterator[Check]:
    for name, check in kind.checks():
        yield _check(name, partial(check, release))


def _check(name: str, check: Callable[[], str]) -> Check:
    try:
        return Check(name=name, passed=True, detail=check())
    except UnderstudyError as problem:
        return Check(name=name, passed=False, detail=str(problem))
    except NOT_COMPLETE as problem:  # a record that says something else than a release does
        return Check(name=name, passed=False, detail=f"what is recorded cannot be read ({type(problem).__name__}).")


def plan_covers(plan: Plan, provenance: Provenance, statement: Statement, *, domain: str, named: str) -> str:
    """The events are those the plan announces, for this domain (a fingerprint, and what it is called) and unit."""
    if plan.schema_fingerprint != domain:
        raise InputError(f"the plan was made for {named}.")
    if plan.unit != statement.unit:
        raise InputError("the plan protects a different unit from the one that the manifest states.")
    events = provenance.planned_events
    if not plan.adaptive and Counter(events) != Counter(plan.events):
        raise InputError("the events recorded are not those the plan announces.")
    loss = compose(events, plan.unit, by=plan.by)
    if not satisfies(loss, plan.budget):
        raise InputError("the events recorded cost more than the plan's budget.")
    if plan.by == "composed" and not within(loss, compose(plan.events, plan.unit, by=plan.by)):
        raise InputError("the events recorded have more noise or choices than the plan announces.")
    if isinstance(plan.budget, ProbabilisticDP) and not satisfies_definition_6(events, plan.unit, plan.budget):
        raise InputError("the events recorded do not keep Definition 6, which the plan's budget asks for.")
    return f"{len(events)} event(s), as planned"


def measurements_are_charged(
    measurements: Iterable[Measurement], provenance: Provenance, sensitivity_of: Callable[[Measurement], Sensitivity]
) -> str:
    """Each measurement has an event of its own, which is what its mechanism costs for its sensitivity."""
    charged, count = Counter(provenance.events), 0
    for count, one in enumerate(measurements, start=1):  # noqa: B007 - its last value is told
        event = one.mechanism.event(sensitivity_of(one))
        if not isinstance(event, Event) or charged[event] == 0:
            raise InputError(f"the measurement '{one.label}' was not charged as its mechanism and unit require.")
        charged[event] -= 1
    return f"{count} measurement(s), each charged with the noise it states"


def additions_are_planned(provenance: Provenance, statement: Statement) -> None:
    """Refuses additions that are not what their plans announce, or a guarantee that is not the sum of all budgets."""
    if provenance.plan is None:
        raise InputError("something joined a release that states no plan of its own.")
    for one in provenance.added:
        if one.plan.schema_fingerprint != provenance.plan.schema_fingerprint or one.plan.unit != statement.unit:
            raise InputError("something joined the release that was planned for another schema or unit.")
        if one.plan.adaptive or not satisfies(compose(one.plan.events, statement.unit), one.plan.budget):
            raise InputError("something that joined the release costs more than its plan's budget.")
    later = tuple(event for one in provenance.added for event in one.plan.events)
    if provenance.events[len(provenance.events) - len(later) :] != later:
        raise InputError("the events recorded are not those that the plans of the additions announce.")
    together = sum_of_budgets([provenance.plan.budget, *(one.plan.budget for one in provenance.added)])
    if statement.guarantee != together:
        raise InputError(f"the release and what joined it guarantee {together}, not {statement.guarantee}.")


def sum_of_budgets(budgets: Sequence[Definition]) -> ZCDP:
    """The guarantee of several runs together, each chosen after the results of those before: their rho add up.

    The filter of Feldman and Zrnic (2021, Theorem 3.1); docs/theory/validation.md. A pure run counts epsilon^2 / 2.

    >>> sum_of_budgets([ZCDP(rho="0.1"), PureDP(epsilon="0.2")])
    ZCDP(rho=Fraction(3, 25))
    """
    rho = Fraction(0)
    for budget in budgets:
        if isinstance(budget, ZCDP):
            rho += budget.rho
        elif isinstance(budget, PureDP):
            rho += budget.epsilon**2 / 2
        else:
            raise InputError(
                f"a release with {budget.title} cannot be added to: only zero-concentrated and pure guarantees add up "
                "over measurements that are chosen later. Make the release with --guarantee zcdp."
            )
    return ZCDP(rho=rho)


def charges_are_there(ledger: Ledger, release: AnyRelease, named: str) -> Verification:
    """Verify a ledger, and that it holds the charges of a release and of all that joined it, for what they state."""
    stated, plan = release.statement, release.provenance.plan
    if stated.ledger is None:
        raise InputError(f"{named} was made without a ledger (not tracked across runs); nothing to compare with.")
    if plan is None:
        raise InputError(f"{named} does not hold the plan it was made by; nothing to compare with.")
    added = release.provenance.added
    cost = plan.budget if added else stated.guarantee
    checked = ledger.verify_against(stated.ledger, plan_hash=plan.hash, unit=stated.unit, cost=cost)
    for one in added:
        later = ledger.verify_against(one.ledger, plan_hash=one.plan.hash, unit=stated.unit, cost=one.plan.budget)
        checked = replace(checked, problems=tuple(dict.fromkeys((*checked.problems, *later.problems))))
    return checked


def events_add_up(provenance: Provenance, statement: Statement) -> str:
    """The recorded events compose to no more than what is stated."""
    stated = statement.guarantee
    if isinstance(stated, NonPrivate):
        return "NO GUARANTEE is stated, so none is checked"
    if not provenance.events:
        raise InputError("a guarantee is stated but no event is recorded.")
    plan = provenance.plan
    if provenance.added:
        additions_are_planned(provenance, statement)
    elif plan is not None and plan.adaptive and stated != plan.budget:
        # What the run spent depends on its noisy answers, so a statement about it is not a guarantee.
        raise InputError(f"an adaptive run guarantees the budget of its plan, {plan.budget}, not {stated}.")
    if not satisfies(compose(provenance.events, statement.unit, by=provenance.by), stated):
        raise InputError(f"the recorded events cost more than the stated {stated}.")
    if isinstance(stated, ProbabilisticDP) and not satisfies_definition_6(provenance.events, statement.unit, stated):
        raise InputError(
            f"the recorded events do not add up to the stated {stated}: some of them cannot be part of it."
        )
    return f"the recorded events compose to within {stated}"
