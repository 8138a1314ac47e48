"""Any program as the black box of a sampled audit: a command template, run once for each output."""

from __future__ import annotations

import csv
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from understudy.errors import InputError

PLACES = ("{input}", "{output}", "{seed}")


def command_runner(
    template: str, inputs: Sequence[str | Path], *, timeout: float = 600.0
) -> Callable[[int, int], NDArray[np.float64]]:
    """A ``run(side, seed)`` for :func:`sampled_audit` from a command such as ``mytool {input} {output} --seed {seed}``.

    ``inputs`` are two files with neighbouring data. The command must write the numbers that an attacker sees as one
    line or more of comma-separated values to ``{output}``; first lines that do not begin with a number are headers. No
    shell is used.
    """
    if "{input}" not in template or "{output}" not in template:
        raise InputError("the command template must hold {input} and {output}; {seed} is optional.")
    if len(inputs) != 2:
        raise InputError(f"an audit compares two neighbouring inputs; {len(inputs)} were given.")
    files = [Path(name) for name in inputs]
    for file in files:
        if not file.is_file():
            raise InputError(f"{file} does not exist; expected a file with one of two neighbouring data sets.")
    try:
        words = shlex.split(template)
    except ValueError:
        raise InputError("the command template has a quotation mark that is never closed.") from None

    def run(side: int, seed: int) -> NDArray[np.float64]:
        with tempfile.TemporaryDirectory(prefix="understudy-audit-") as folder:
            out = Path(folder) / "output.csv"
            values = {"{input}": str(files[side]), "{output}": str(out), "{seed}": str(seed)}
            command = [_fill(word, values) for word in words]
            try:
                done = subprocess.run(command, capture_output=True, timeout=timeout, check=False)
            except OSError as problem:
                raise InputError(f"{command[0]} could not be started: {problem.strerror}.") from None
            except subprocess.TimeoutExpired:
                raise InputError(f"{command[0]} took longer than {timeout:g} seconds.") from None
            if done.returncode != 0:
                raise InputError(f"{command[0]} ended with exit code {done.returncode}; an audit needs every run.")
            if not out.is_file():
                raise InputError(f"{command[0]} wrote nothing to {{output}}.")
            return read_numbers(out)

    return run


def read_numbers(path: Path) -> NDArray[np.float64]:
    """Every number of a CSV file, in order; lines before the first whose first field is a number are headers."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.reader(file) if row]
    except (UnicodeDecodeError, csv.Error):
        raise InputError("the output of the command is not a CSV file in UTF-8.") from None
    lines = [[_number(value) for value in row] for row in rows]
    first = next((place for place, line in enumerate(lines) if line[0] is not None), len(lines))
    found = [value for line in lines[first:] for value in line]
    if not found:
        raise InputError("the output of the command holds no number.")
    if None in found:
        raise InputError("the output of the command holds a value that is not a number.")
    return np.array(found, dtype=np.float64)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _fill(word: str, values: dict[str, str]) -> str:
    for place in PLACES:
        word = word.replace(place, values[place])
    return word
