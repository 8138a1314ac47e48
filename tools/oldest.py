#!/usr/bin/env python3
"""Prints constraints for pip that hold every dependency to the oldest version that pyproject.toml allows.

    python tools/oldest.py > constraints.txt

``make oldest`` runs the tests with them: a lower bound that nobody has tried is a promise that nobody has kept.
Tools of the developers (the extras ``dev`` and ``crosscheck``) are not held back; users never meet them.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
FOR_DEVELOPERS = ("dev", "crosscheck")
LOWER_BOUND = re.compile(r"(?P<name>[A-Za-z0-9_-]+)>=(?P<version>[0-9.]+)")


def oldest_versions(text: str) -> dict[str, str]:
    """The lower bound of every dependency in the text of a pyproject.toml, by name."""
    project = tomllib.loads(text)["project"]
    extras = project.get("optional-dependencies", {})
    wanted = [
        *project["dependencies"],
        *(line for extra, lines in extras.items() if extra not in FOR_DEVELOPERS for line in lines),
    ]
    return {found["name"]: found["version"] for line in wanted if (found := LOWER_BOUND.match(line))}


def main() -> None:
    for name, version in sorted(oldest_versions(PROJECT.read_text()).items()):
        print(f"{name}=={version}.*")


if __name__ == "__main__":
    main()
