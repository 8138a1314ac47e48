"""The account of a data set, as the web process sees it: read only, and without the moments of the worker's charges."""

from __future__ import annotations

import os
from fractions import Fraction

from understudy.errors import InputError
from understudy.privacy.ledger.account_book import Account
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.promise.definition import ZCDP
from understudy.serving.database.connecting import Database
from understudy.serving.database.jobs import Means, job_runs
from understudy.serving.settings import BY_NAME, Dataset, Settings, ledger_target


def open_account(settings: Settings, dataset: Dataset, *, writable: bool = False) -> tuple[Ledger, Account]:
    """The ledger and the account of a data set; it must count zCDP, whose filter holds for concurrent jobs."""
    ledger = Ledger.open(ledger_target(settings, dataset), writable=writable)
    account = ledger.account(dataset.account)
    if not isinstance(account.limit, ZCDP):
        raise InputError(
            f"account '{account.name}' counts {account.limit.title}; a served account counts zero-concentrated "
            "differential privacy, whose filter allows questions that are chosen after answers were seen. Open one "
            "with: understudy ledger limit LEDGER --account NAME --guarantee zcdp --rho 0.5."
        )
    return ledger, account


def sharing(settings: Settings, dataset: Dataset) -> tuple[str, ...]:
    """The data sets that are about the same people and so have one account: this one, and perhaps others."""

    def account(one: Dataset) -> tuple[str, str]:
        target = ledger_target(settings, one)
        named = target.removeprefix(BY_NAME)
        return os.environ.get(named, "") if named != target else os.path.realpath(target), one.account

    return tuple(one.name for one in settings.datasets if account(one) == account(dataset))


def means_of(settings: Settings, dataset: Dataset, database: Database) -> Means:
    """What all jobs together may cost: the limit without what was charged to others than jobs.

    A job counts from its approval on, not from its charge: the moment of a charge tells how busy the worker was.
    """
    ledger, account = open_account(settings, dataset)
    # The ledger first: a job is in the database before it is charged, so no job is taken for somebody else.
    charges = [entry for entry in ledger.entries(account.name) if entry.kind == "charge"]
    together = sharing(settings, dataset)
    jobs = database.read(lambda session: {run for one in together for run in job_runs(session, one)})
    others = sum((entry.charged["rho"] for entry in charges if entry.run not in jobs), Fraction(0))
    limit: ZCDP = account.limit  # type: ignore[assignment]
    return Means(dataset=dataset.name, together=together, allowed=max(limit.rho - others, Fraction(0)))
