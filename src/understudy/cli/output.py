"""What the command line prints and where: results on standard output, everything else on standard error.

With ``--json`` standard output holds one JSON document and nothing more, so that a script can read it. Progress and
warnings go to standard error; progress is shown on a terminal only.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from understudy.core.phases import Listener, told_to

WIDTH_WITHOUT_TERMINAL = 120  # rich would assume 80 columns and fold tables that nobody is looking at in a terminal


def standard_output() -> Console:
    """Where results go. Made anew each time, because tests and pipes replace the stream."""
    console = Console(highlight=False, markup=False, emoji=False)
    return console if console.is_terminal else Console(highlight=False, markup=False, emoji=False, width=_width())


def standard_error() -> Console:
    """Where progress, warnings and errors go."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def _width() -> int:
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdigit() and int(columns) > 0 else WIDTH_WITHOUT_TERMINAL


def print_json(document: object) -> None:
    """One JSON document on standard output."""
    print(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def say(text: str = "", *, style: str = "") -> None:
    """A line of the result. Markup in it is shown as it is: names of a schema may hold brackets."""
    standard_output().print(Text(text, style=style), soft_wrap=True)


def show_command(command: str) -> None:
    """A command of a demonstration, as it would be typed."""
    say()
    say(f"$ understudy {command}", style="bold cyan")


def warn(text: str) -> None:
    """One warning on standard error."""
    standard_error().print(Text.assemble(("warning: ", "bold yellow"), text), soft_wrap=True)


def show_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()
) -> None:
    """A table for people; the columns in ``right`` are numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        numeric = column in right
        table.add_column(Text(column), justify="right" if numeric else "left", overflow="fold", no_wrap=numeric)
    for row in rows:
        table.add_row(*(value if isinstance(value, Text) else Text(_cell(value)) for value in row))
    console = standard_output()
    console.print(Text(f"\n{title}", style="bold"))
    console.print(table)


def show_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Names and values, one per line, aligned."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(Text(name, style="dim"), Text(_cell(value)))
    standard_output().print(table)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


@contextmanager
def working(text: str) -> Iterator[Callable[[int, int | None], None]]:
    """A progress bar on a terminal's standard error while something long runs; gives the function that moves it.

    Warnings of the package become lines of ours, once each and after the bar is gone.
    """
    reached: list[tuple[str, int, int | None]] = []

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            with _bar(text) as move:

                def heard(phase: str, done: int, total: int | None) -> None:
                    reached[:] = [(phase, done, total)]
                    move(phase, done, total)

                def moved(done: int, total: int | None) -> None:
                    heard(text, done, total)

                with told_to(heard):
                    yield moved
        except KeyboardInterrupt:
            if reached:
                phase, done, total = reached[0]
                warn(f"stopped while {phase}: {done:,}{'' if total is None else f' of {total:,}'} steps were done.")
            raise
        finally:
            for message in dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning)):
                warn(message)


@contextmanager
def _bar(text: str) -> Iterator[Listener]:
    console = standard_error()
    if not console.is_terminal:  # a disabled bar of rich's would still print an empty line
        yield lambda _phase, _done, _total: None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    # Steps can be minutes apart; from the last half minute alone there would often be no time left to tell.
    with Progress(*columns, console=console, transient=True, speed_estimate_period=600) as bar:
        tasks: dict[str, TaskID] = {}

        def move(phase: str, done: int, total: int | None) -> None:
            for other in [name for name in tasks if name != phase]:
                bar.remove_task(tasks.pop(other))  # each phase has its own speed, and so its own time left
            if phase not in tasks:
                tasks[phase] = bar.add_task(phase if phase == text else f"{text}: {phase}", total=total)
            bar.update(tasks[phase], completed=done, total=total)

        move(text, 0, None)
        yield move
