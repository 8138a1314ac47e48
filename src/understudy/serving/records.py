"""Records that can be cited: question, answer, guarantee, cost, version and hash.

That of a confirmation is public. That of a free answer can be made again by everybody who has the release.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from understudy.core.exact_numbers import to_text
from understudy.core.measurement import Measurement
from understudy.errors import UnderstudyError
from understudy.inference.answer import Answer
from understudy.inference.joined_tables import APART, CONFIRMED, TOGETHER
from understudy.privacy.ledger.store import canonical
from understudy.release.table_release import Release
from understudy.serving.asking import Asked, verdict, width_of
from understudy.serving.database.jobs import Job

FORMAT, FREE = "understudy confirmation", "understudy answer"
FREE_VERSION = 1
VERSION = 3  # `answer`: in version 1 of all tables without room for a choice, in version 2 of the fresh one alone


def make_record(
    job: Job, *, before: Release, after: Release, fresh: Measurement, number: int, ledger: Mapping[str, Any]
) -> dict[str, Any]:
    """The record of a job from public values alone: the answer of the fresh table, with the release where that helps
    and with room for the choice of the question; that of the release before; and that of all tables, for a question
    that was fixed beforehand."""
    body: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "id": job.id,
        "release": job.release,
        "release_version": number,
        "asked": job.asked.to_json(),
        "answer": _answer(job.asked, after, use=CONFIRMED),
        "before": _answer(job.asked, before),
        "all_tables": _answer(job.asked, after, use=TOGETHER),
        "table": list(fresh.margin),
        "noise": fresh.mechanism.to_json(),
        "cost": {"guarantee": "zcdp", "rho": to_text(job.rho)},
        "guarantee": after.statement.guarantee.to_json(),
        "guarantee_in_words": str(after.statement.guarantee),
        "protected": after.statement.protected,
        "ledger": dict(ledger),
        "plan_hash": job.plan.hash,
        "approved": _time(job.approved),
    }
    return {**body, "hash": record_hash(body)}


def answer_record(asked: Asked, answer: Answer, release: Release, *, name: str, number: int) -> dict[str, Any]:
    """The record of a free answer. It holds no time: the same question to the same version has the same record."""
    body: dict[str, Any] = {
        "format": FREE,
        "version": FREE_VERSION,
        "release": name,
        "release_version": number,
        "asked": asked.to_json(),
        "answer": _values(asked, answer),
        "cost": {"guarantee": "zcdp", "rho": "0"},
        "guarantee": release.statement.guarantee.to_json(),
        "guarantee_in_words": str(release.statement.guarantee),
        "protected": release.statement.protected,
    }
    return {**body, "hash": record_hash(body)}


def record_hash(record: Mapping[str, Any]) -> str:
    """SHA-256 of a record without its hash."""
    body = {key: value for key, value in record.items() if key != "hash"}
    return hashlib.sha256(canonical(body).encode()).hexdigest()


def _answer(asked: Asked, release: Release, *, use: str = APART) -> dict[str, Any]:
    """An answer as plain values; a question without one says why. Both follow from public values."""
    try:
        return _values(asked, asked.answered(release, use=use))
    except UnderstudyError as problem:
        return {"refused": str(problem)}


def _values(asked: Asked, found: Answer) -> dict[str, Any]:
    width, held = width_of(found), verdict(asked, found)
    said = {} if held is None else {"verdict": held}
    return {**found.to_json(), "width": width if isfinite(width) else None, **said}


def _time(moment: float | None) -> str | None:
    return None if moment is None else datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")
