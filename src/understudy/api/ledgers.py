"""The verb that checks a ledger; everything else about ledgers is a method of ``Ledger``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from understudy.errors import InputError

if TYPE_CHECKING:
    from understudy.privacy.ledger.ledger import Verification


def verify_ledger(ledger: str | Path, *, against: str | Path | None = None) -> Verification:
    """Compute the chain of entries again; with a release also that its charge is still there, and for what it says.

    Parameters
    ----------
    ledger
        The ledger file.
    against
        The folder of a release that was charged to it.

    Returns
    -------
    Verification
        Whether the ledger is in order, its entries, its head, and what is wrong.

    Raises
    ------
    InputError
        If the file is no ledger, or the release was made without one.

    Examples
    --------
    >>> import tempfile, understudy as us
    >>> file = tempfile.mkdtemp() + "/budget.db"
    >>> _ = us.Ledger.create(file)
    >>> us.verify_ledger(file).ok
    True
    """
    from understudy.privacy.ledger.ledger import Ledger
    from understudy.release import read_release

    opened = Ledger.open(ledger, writable=False)
    if against is None:
        return opened.verify()
    release = read_release(against)
    stated, plan = release.statement, release.provenance.plan
    if stated.ledger is None:
        raise InputError(f"{against} was made without a ledger (not tracked across runs); nothing to compare with.")
    if plan is None:
        raise InputError(f"{against} does not hold the plan it was made by; nothing to compare with.")
    return opened.verify_against(stated.ledger, plan_hash=plan.hash, unit=stated.unit, cost=stated.guarantee)
