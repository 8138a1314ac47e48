"""Where a sweep keeps what it has measured, so that an interrupted one goes on where it stopped.

The folder is internal: it is for its owner alone, says so in its README, and can never lie in a release.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from understudy.core.folders import explained_disk_errors, release_above
from understudy.errors import DisclosureError, InputError
from understudy.explore.sweep import Point

REQUEST, MEASURED = "sweep.json", "measured.jsonl"
KEY = ("method", "epsilon", "copies", "repeat")


class SweepStore:
    """One folder: what was asked, and one line for each point that is done."""

    def __init__(self, folder: Path, request: Mapping[str, Any], *, note: str) -> None:
        self.folder = Path(os.path.abspath(folder))
        inside = release_above(self.folder)
        if inside is not None:
            raise DisclosureError(
                f"{folder} lies in the release folder {inside}; an exploration is internal. Choose a folder outside."
            )
        if not self.folder.parent.is_dir():
            raise InputError(f"{folder} cannot be written: {self.folder.parent} does not exist; create it first.")
        with explained_disk_errors(self.folder):
            if self.folder.exists():
                self._check_same(request)
            else:
                self.folder.mkdir(mode=0o700)
                (self.folder / "README.txt").write_text(note, encoding="utf-8")
                self._write(REQUEST, json.dumps(request, indent=2))

    def _check_same(self, request: Mapping[str, Any]) -> None:
        try:
            known = json.loads((self.folder / REQUEST).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise InputError(f"{self.folder} exists and is not the folder of a sweep; choose another folder.") from None
        if known != json.loads(json.dumps(request)):
            odd = [key for key in request if not isinstance(known, dict) or known.get(key) != request[key]]
            raise InputError(
                f"{self.folder} holds another sweep (it differs in {', '.join(odd) or 'its version'}); choose another "
                "folder, or ask for the same again to go on with it."
            )

    def _write(self, name: str, text: str) -> None:
        with open(self.folder / name, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    def measured(self) -> dict[Point, dict[str, Any]]:
        """What is done. A line that a crash cut short is measured again."""
        path = self.folder / MEASURED
        if not path.is_file():
            return {}
        found: dict[Point, dict[str, Any]] = {}
        for text in path.read_text(encoding="utf-8").splitlines():
            try:
                line = json.loads(text)
                found[Point(**{key: line[key] for key in KEY})] = line
            except (ValueError, KeyError, TypeError):
                continue
        return found

    def add(self, line: Mapping[str, Any]) -> None:
        with explained_disk_errors(self.folder):
            path = self.folder / MEASURED
            torn = path.is_file() and not path.read_bytes().endswith(b"\n")
            with open(path, "a", encoding="utf-8") as file:
                file.write(("\n" if torn else "") + json.dumps(line, allow_nan=False) + "\n")
                file.flush()
                os.fsync(file.fileno())
