"""What ``evaluate`` and ``attack`` share: how internal findings are shown, on the screen and as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from understudy.api import UNFINISHED, finding_row, forget_finished, write_finished
from understudy.cli.output import say, show_table
from understudy.core.result import INTERNAL, Evaluation, Section


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


@contextmanager
def kept_when_stopped(folder: Path | None) -> Iterator[Callable[[str, Section], None]]:
    """Keeps what is finished: tables are written as they come, and Ctrl-C tells what there is.

    Tables go to a folder beside ``folder``, which is removed when the whole has been written there.
    """
    done: list[tuple[str, Section]] = []

    def finished(name: str, section: Section) -> None:
        done.append((name, section))
        if folder is not None:
            write_finished(folder, name, section)

    try:
        yield finished
    except KeyboardInterrupt:
        if done:
            say(INTERNAL, style="bold red")
            say(f"Stopped. Finished before: {', '.join(name.replace('_', ' ') for name, _ in done)}.")
            for _, section in done:
                for finding in section.findings:
                    if finding.severity in ("problem", "warning"):
                        say(f"{finding.severity}: {finding.title}")
            if folder is not None:
                say(f"Their tables are in {folder}{UNFINISHED}")
            else:
                say("Their tables are kept with --out FOLDER.")
        raise
    if folder is not None:
        forget_finished(folder)


LIGHTS = {"red": "red", "amber": "yellow", "green": "green"}
LINE = ("light", "attack", "in_the_data", "not_in_the_data", "more", "most_allowed", "told_false")
GROUPS = ("first", "second", "third")
DOTS = 50  # of 20 people each


def show_first_screen(section: Section, *, most: int) -> None:
    """Three sentences with small pictures, then a line for each attack in everyday words, the lights first."""
    if "first_screen" not in section.frames:
        return
    for row in section.frames["first_screen"].to_pylist():
        say(f"\n{row['title']}", style="bold")
        say(row["sentence"])
        if row["of_1000"] is not None:
            say(_dots(row))
    lines = section.frames["in_everyday_words"].to_pylist()
    more = f" (first {most} of {len(lines)}; --details shows all)" if len(lines) > most else ""
    show_table(
        f"Every attack: so many of 1,000 people it is right about{more}",
        [name.replace("_", " ") for name in LINE],
        [tuple(_light(row[name]) if name == "light" else row[name] for name in LINE) for row in lines[:most]],
        right=[name.replace("_", " ") for name in LINE[2:]],
    )
    if "not measured" in {row["light"] for row in lines[:most]}:
        say("Not measured: what taking part adds is told by a --holdout, or by making the release again.")


def _light(light: str) -> Any:
    from rich.text import Text

    return Text(light, style=LIGHTS.get(light, "dim"))


def _dots(row: Mapping[str, Any]) -> str:
    """Fifty signs for a thousand people, and what the signs mean."""
    groups = [(sign, row[name], row[f"{name}_means"]) for sign, name in zip("#+o", GROUPS, strict=True)]
    drawn = "".join(sign * (count and max(1, round(count * DOTS / 1000))) for sign, count, _ in groups)
    legend = ", ".join(f"{sign} {meaning}" for sign, count, meaning in groups if count)
    return f"{drawn[:DOTS]:.<{DOTS}}  {legend}".rstrip()


def show_findings(
    heading: str, section: Section, *, only: tuple[str, ...] = ("problem", "warning", "info", "good")
) -> None:
    wanted = [finding for finding in section.findings if finding.severity in only]
    listed = sorted(wanted, key=lambda finding: only.index(finding.severity))
    if listed:
        show_table(
            heading,
            ("severity", "finding", "value"),
            [(finding.severity, finding.title, finding.value) for finding in listed],
            right=("value",),
        )
