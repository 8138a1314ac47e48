"""What ``evaluate`` and ``attack`` share: how internal findings are shown, on the screen and as JSON."""

from __future__ import annotations

import math
from typing import Any

from understudy.api import finding_row
from understudy.cli.output import show_table
from understudy.core.result import Evaluation, Section


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
