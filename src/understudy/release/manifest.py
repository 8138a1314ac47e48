"""The manifest of a release folder: what is promised, how it was made and which files there are, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from understudy.core.folders import RELEASE_MARK, as_path
from understudy.errors import InputError
from understudy.privacy.promise.definition import Unit, definition_from_json
from understudy.privacy.promise.event import event_from_json
from understudy.privacy.promise.plan import plan_from_json
from understudy.release.statement import NOT_TRACKED, Addition, Provenance, Statement

FORMAT, VERSION = "understudy release", 1
MANIFEST = RELEASE_MARK  # the file by which every command knows a release


def manifest_text(
    statement: Statement,
    provenance: Provenance,
    *,
    rows: Sequence[int],
    files: Mapping[str, str],
    domain: Mapping[str, str],
    created: datetime | None = None,
) -> str:
    """The manifest of a release; ``domain`` says what its tables are about (a schema or places, by fingerprint).

    ``created`` stands for now, where the moment of writing says something that nobody outside may know.
    """
    ledger: dict[str, Any] = {"tracked": False, "text": NOT_TRACKED}
    if statement.ledger is not None:
        ledger = {"tracked": True, **statement.ledger}
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "created": (created or datetime.now(UTC)).isoformat(timespec="seconds"),
        "package_version": provenance.package_version,
        "unit": statement.unit.to_json(),
        "unit_in_words": statement.protected,
        "guarantee": statement.guarantee.to_json(),
        "guarantee_in_words": str(statement.guarantee),
        "warnings": list(statement.warnings),
        "ledger": ledger,
        "method": provenance.method,
        "plan_hash": provenance.plan.hash if provenance.plan else None,
        "plan": provenance.plan.to_json() if provenance.plan else None,
        "events": [event.to_json() for event in provenance.events],
        "draws": [dict(draw) for draw in provenance.draws],
        "rows": list(rows),
        "records": provenance.records,
        "rows_drawn": provenance.rows_drawn,
        "copies_share_measurements": provenance.copies_share_measurements,
        "notes": list(provenance.notes),
        **({"added": [one.to_json() for one in provenance.added]} if provenance.added else {}),
        **domain,
        "files": dict(files),
    }
    return json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"


def read_manifest(path: str | Path) -> dict[str, Any]:
    """Read what a release says of itself, without opening its tables.

    Parameters
    ----------
    path
        The release folder.

    Returns
    -------
    dict[str, Any]
        The manifest, after its form was checked.

    Raises
    ------
    InputError
        If the folder is no release folder, or its manifest cannot be read.

    Examples
    --------
    >>> read_manifest("no-such-release")
    Traceback (most recent call last):
        ...
    understudy.errors.InputError: no-such-release is not a release folder.
    """
    path = as_path(path, "the release")
    if not path.is_dir():
        raise InputError(f"{path} is not a release folder.")
    file = path / MANIFEST
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path} has no {MANIFEST}; it is not a release folder.") from None
    except (OSError, ValueError, RecursionError):  # not JSON, not UTF-8, or a number of thousands of digits
        raise InputError(f"{file} cannot be read as JSON.") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError(f"{file} is not the manifest of an understudy release.")
    if manifest.get("version") != VERSION:
        raise InputError(f"{path} has format version {manifest.get('version')}; this program understands {VERSION}.")
    return manifest


# The functions below read a manifest that may say anything. A KeyError or TypeError means that it is not complete; the
# reader of the folder turns it into a message.


def statement_of(manifest: Mapping[str, Any], record: str = "row") -> Statement:
    """What a manifest promises; ``record`` is what a record of the data is called."""
    ledger = {key: value for key, value in manifest["ledger"].items() if key != "tracked"}
    return Statement(
        unit=Unit.from_json(manifest["unit"]),
        guarantee=definition_from_json(manifest["guarantee"]),
        ledger=ledger if manifest["ledger"]["tracked"] else None,
        warnings=tuple(text_in(warning) for warning in manifest["warnings"]),
        record=record,
    )


def provenance_of(
    path: Path, manifest: Mapping[str, Any], read_draw: Callable[[dict[str, Any]], dict[str, Any]]
) -> Provenance:
    """How a release was made; ``read_draw`` checks one recorded draw."""
    plan = plan_from_json(manifest["plan"]) if manifest["plan"] else None
    if plan is not None and plan.hash != manifest["plan_hash"]:
        raise InputError(f"the plan in {path} does not have the hash its manifest states.")
    return Provenance(
        method=text_in(manifest["method"]),
        package_version=text_in(manifest["package_version"]),
        plan=plan,
        events=tuple(event_from_json(event) for event in manifest["events"]),
        draws=tuple(read_draw(draw) for draw in manifest["draws"]),
        rows_drawn=text_in(manifest["rows_drawn"]),
        copies_share_measurements=bool(manifest["copies_share_measurements"]),
        notes=tuple(text_in(note) for note in manifest["notes"]),
        records=None if manifest.get("records") is None else whole_in(manifest["records"]),
        added=tuple(
            Addition(plan=plan_from_json(one["plan"]), ledger=dict(one["ledger"])) for one in manifest.get("added", ())
        ),
    )


def text_in(value: object) -> str:
    """What a manifest states as text."""
    if not isinstance(value, str):
        raise TypeError
    return value


def whole_in(value: object) -> int:
    """What a manifest states as a number of something."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError
    return value
