"""What ``evaluate`` and ``attack`` share: reading a release, and showing and writing what is internal."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy import api
from understudy.cli.options import read_output_path
from understudy.cli.output import show_table, warn
from understudy.core.folders import release_above
from understudy.core.result import INTERNAL, Evaluation, Finding, Section
from understudy.core.schema import Schema
from understudy.errors import DisclosureError, InputError

if TYPE_CHECKING:
    from understudy.release import CommuteRelease, Release


def target_folder(out: Path) -> Path:
    """Refused before anything is computed: a release holds nothing that was computed from confidential data."""
    inside = release_above(out)
    if inside is not None:
        raise DisclosureError(
            f"{out} lies in the release folder {inside}; an evaluation is internal. Choose a folder outside."
        )
    target = read_output_path(out)
    if target.exists():
        raise InputError(f"{target} already exists; choose another folder.")
    if not target.parent.is_dir():
        raise InputError(f"{target} cannot be written: the folder {target.parent} does not exist; create it first.")
    return target


def read_synthetic(path: Path, schema: Schema | None, reading: Mapping[str, Any]) -> Release | CommuteRelease:
    """The release in a folder, or a file with anybody's synthetic rows as one."""
    from understudy.release import Release, read_release, wrap

    if path.is_dir():
        release: Release | CommuteRelease = read_release(path)
        own = release.schema.fingerprint if isinstance(release, Release) else None  # commutes have places instead
        if schema is not None and schema.fingerprint != own:
            raise InputError(f"--schema is not the schema of {path}; leave it out to use the release's own.")
        return release
    if schema is None:
        raise InputError(
            f"{path} is not a release folder; to evaluate a file with synthetic rows give its --schema too."
        )
    return wrap(api.synthetic_table(str(path), schema, **reading), schema)


def write_internal(place: Path) -> None:
    """The mark that every folder of internal results has."""
    (place / "README.txt").write_text(f"{INTERNAL}.\n", encoding="utf-8")


def write_findings(findings: Iterable[Finding], place: Path) -> None:
    import pyarrow as pa

    from understudy.release.csv_file import write_csv

    write_csv(pa.Table.from_pylist([finding_row(finding) for finding in findings]), place / "findings.csv")


def write_frames(frames: Mapping[str, Any], place: Path) -> None:
    """Every table that has columns as CSV, in a folder that is made if there is one."""
    from understudy.release.csv_file import write_csv

    for title, frame in frames.items():
        if frame.num_columns:
            place.mkdir(exist_ok=True)
            write_csv(frame, place / f"{title}.csv")


def draw(frames: Mapping[str, Any], place: Path) -> None:
    from understudy.figures.evaluation.base import drawable, figures

    names = drawable(frames)
    if names and importlib.util.find_spec("matplotlib") is None:
        warn("figures were left out, they need matplotlib; install it with: pip install 'understudy[report]'")
        return
    if names:
        place.mkdir(exist_ok=True)
    for name in names:
        figures[name](frames).save(place / f"{name}.svg")


def finding_row(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "severity": finding.severity,
        "title": finding.title,
        "value": None if finding.value is None else str(finding.value),
        "audience": finding.audience,
        "reference": finding.reference,
    }


def document(name: str, evaluation: Evaluation) -> dict[str, Any]:
    return {
        "audience": "internal",
        "release": name,
        **{
            part: {
                "findings": [{**finding_row(finding), "value": _plain(finding.value)} for finding in section.findings],
                "frames": {title: plain_rows(frame) for title, frame in section.frames.items()},
            }
            for part, section in (("utility", evaluation.utility), ("risk", evaluation.risk))
        },
    }


def plain_rows(frame: Any) -> list[dict[str, Any]]:
    """The rows of a frame as JSON can hold them."""
    return [{key: _plain(value) for key, value in row.items()} for row in frame.to_pylist()]


def _plain(value: Any) -> Any:
    """JSON has no NaN and no dates."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int | bool | list) else str(value)


def show_findings(heading: str, section: Section) -> None:
    order = ("problem", "warning", "info", "good")
    listed = sorted(section.findings, key=lambda finding: order.index(finding.severity))
    if listed:
        show_table(
            heading,
            ("severity", "finding", "value"),
            [(finding.severity, finding.title, finding.value) for finding in listed],
            right=("value",),
        )
