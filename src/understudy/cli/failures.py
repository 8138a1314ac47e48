"""How a command ends when something goes wrong: one screen, an exit code, and no confidential value.

Errors of the package say what to do and carry their exit code. Any other exception is our bug: its message may hold
a value of the data, so only its type and place are printed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

import typer
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from understudy.cli.output import standard_error
from understudy.errors import BudgetError, ConvergenceError, DisclosureError, InternalError, UnderstudyError

BUG, INPUT, INTERRUPTED = 1, 2, 130
HEADINGS: tuple[tuple[type[UnderstudyError], str], ...] = (
    (BudgetError, "budget refused"),
    (DisclosureError, "disclosure refused"),
    (ConvergenceError, "not converged"),
    (InternalError, "this is a bug in understudy"),
    (UnderstudyError, "error"),
)
LEFT = (
    "nothing was left half-written. A run that was already charged left a folder NAME.partial-RUN beside the release; "
    "`understudy resume` finishes it without a new charge. A sweep with --out goes on where it stopped."
)
PACKAGE = Path(__file__).resolve().parent.parent


_interrupts: list[int] = []


def notice_interrupts() -> None:
    """Remember that somebody pressed Ctrl-C, whatever error comes of it later."""

    def interrupted(number: int, frame: Any) -> None:
        _interrupts.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, interrupted)


def was_interrupted() -> bool:
    """Whether Ctrl-C was pressed since the command began."""
    return bool(_interrupts)


class Command(TyperCommand):
    """A command that refuses an option that is given twice: of two values only the last would count."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))  # an option is there as often as it was given
        for option in self.params:
            single = option.param_type_name == "option" and not option.multiple and not option.is_flag  # type: ignore[attr-defined]
            if single and given.count(option) > 1:
                raise typer.BadParameter(f"{option.opts[-1]} was given {given.count(option)} times; give it once.")
        return super().parse_args(ctx, args)


class Commands(TyperGroup):
    """The group of all commands; every exception of a command ends here."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort):
            raise
        except BrokenPipeError:  # the reader of our output left, as `head` does; that is its right
            _forget_standard_output()
            raise typer.Exit(0) from None
        except KeyboardInterrupt:
            _tell("interrupted", LEFT)
            raise typer.Exit(INTERRUPTED) from None
        except Exception as problem:
            if was_interrupted():  # a library that was stopped in the middle may say it in an error of its own
                _tell("interrupted", LEFT)
                raise typer.Exit(INTERRUPTED) from None
            if callable(getattr(problem, "format_message", None)):  # a usage error: typer formats it and exits with 2
                raise
            raise typer.Exit(report(problem)) from None


def _forget_standard_output() -> None:
    """Send what is still buffered nowhere, so that the interpreter does not fail over it at exit."""
    with contextlib.suppress(OSError, ValueError):  # a standard output that is no file needs nothing
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def report(problem: Exception) -> int:
    """Tell what went wrong on standard error and return the exit code."""
    if os.environ.get("UNDERSTUDY_DEBUG") == "1":
        traceback.print_exception(problem)
    if isinstance(problem, UnderstudyError):
        heading = next(text for kind, text in HEADINGS if isinstance(problem, kind))
        _tell(heading, str(problem))
        return problem.exit_code
    if isinstance(problem, OSError) and problem.strerror:  # the system refuses: no permission, no space, no such file
        _tell("error", f"{problem.filename or 'a file'}: {problem.strerror}.")
        return INPUT
    if isinstance(problem, MemoryError):
        _tell(
            "error",
            "there is not enough memory for this. Ask for fewer rows, copies or attributes, or use a larger machine; a "
            "run that was already charged can be finished there with `understudy resume`.",
        )
        return INPUT
    _tell(
        "this is a bug in understudy",
        f"{type(problem).__name__} at {_place(problem)}. Its message is not shown, because it could hold confidential "
        "values; UNDERSTUDY_DEBUG=1 shows it with the traceback, for use inside the building only.",
    )
    return BUG


def _place(problem: Exception) -> str:
    """File and line of the innermost frame of this package: enough to find the bug, and no values."""
    frames = traceback.extract_tb(problem.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(PACKAGE)]
    if not own:
        return "an unknown place"
    return f"{Path(own[-1].filename).relative_to(PACKAGE.parent)}:{own[-1].lineno}"


def _tell(heading: str, text: str) -> None:
    printable = "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)
    standard_error().print(Text.assemble((f"{heading}: ", "bold red"), printable), soft_wrap=True)
