"""Versions that lie among the releases, and that the database does not know: it was restored from an older backup.

What is in such a version was charged and told to people, so its number is never given to another one. It is put into
the catalogue again, with its record. A version whose journal is still there is another thing: its job was not finished,
and the worker that takes the job up writes it anew.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from understudy.core.folders import scratch_path
from understudy.errors import InputError
from understudy.privacy.ledger.ledger import Ledger
from understudy.release.checks import charges_are_there
from understudy.release.folder import read_release
from understudy.release.manifest import read_manifest
from understudy.release.table_release import Release
from understudy.serving.catalogue import Version, add_version, folder_of, record_file, versions_of
from understudy.serving.database.connecting import Database, Session
from understudy.serving.database.jobs import end_as_done, find_job
from understudy.serving.database.log import note
from understudy.serving.settings import Settings


def keep_record(settings: Settings, release: str, record: Mapping[str, Any], *, moment: float) -> None:
    """Keep a record beside the versions: who cited it finds it also after the database was restored from a backup."""
    target = record_file(settings, release, str(record["id"]))
    target.parent.mkdir(exist_ok=True)
    scratch = scratch_path(target.parent)
    try:
        scratch.write_text(json.dumps(record), encoding="utf-8")
        os.utime(scratch, (moment, moment))  # like the files of the version: nothing says when the worker worked
        os.replace(scratch, target)
    finally:
        scratch.unlink(missing_ok=True)


def take_back(settings: Settings, database: Database, release: str, *, ledger: Ledger, journals: Path) -> list[int]:
    """Put forgotten versions of a release into the catalogue again; their numbers."""
    taken: list[int] = []
    while True:
        known = database.read(lambda session: versions_of(session, release))
        number = known[-1].number + 1
        folder = folder_of(settings, release, number)
        if not folder.exists():
            return taken
        found, before = read_release(folder), read_release(folder_of(settings, release, known[-1].number))
        if not isinstance(found, Release) or not isinstance(before, Release):
            raise InputError("only releases of tables can be served.")
        added = [str(one.ledger.get("run")) for one in found.provenance.added]
        if added and (journals / added[-1]).exists():
            return taken
        if added[:-1] != [str(one.ledger.get("run")) for one in before.provenance.added] or not added:
            raise InputError(
                f"{folder} is not the next version of '{release}' for this database: they were not restored together. "
                "Restore a newer database, or set that folder aside if nobody has seen it."
            )
        require_charged(ledger, found, release)
        approved = datetime.fromisoformat(read_manifest(folder)["created"]).timestamp()
        visible = max(time.time(), approved + settings.answer_seconds, known[-1].visible)
        kept = record_file(settings, release, added[-1])
        record = kept.read_text(encoding="utf-8") if kept.is_file() else None
        version = Version(release=release, number=number, dataset=known[-1].dataset, job=added[-1], visible=visible)

        def work(
            session: Session, version: Version = version, record: str | None = record, approved: float = approved
        ) -> None:
            job = "" if version.job is None else version.job
            if record is not None and find_job(session, job) is not None:
                end_as_done(session, job, approved=approved, visible=version.visible, record=record)
            add_version(session, version)
            note(session, "taken back", release=version.release, version=version.number, job=job)

        database.write(work)
        taken.append(number)


def require_charged(ledger: Ledger, found: Release, release: str) -> None:
    """Refuses a ledger that does not hold what a release and all that joined it were charged."""
    charged = charges_are_there(ledger, found, f"the release '{release}'")
    if not charged.ok:
        raise InputError(
            f"the ledger does not hold all that the release '{release}' was charged ({charged.problems[0].rstrip('.')}"
            "). With it, budget would be spent twice: restore the newest ledger. Nothing was charged."
        )
