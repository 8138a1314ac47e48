#!/usr/bin/env python3
"""Prints the lock of the build: every package that the wheel needs, and every one that builds it, with its hash.

    python tools/lock.py > packaging/lock.txt

pip resolves them afresh for the machine and the Python that run it, so it needs the network. The committed lock is for
Linux on x86-64 with Python 3.11: ``make dist`` builds with exactly its build packages, the container installs exactly
its packages, and ``tools/sbom.py`` lists exactly these.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
SECTIONS = ("needed by the wheel", "needed to build it")


def resolved(requirements: list[str]) -> dict[str, tuple[str, str]]:
    """Version and SHA-256 of the file of every package that pip would install for some requirements, by normal name."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--report"]
        subprocess.run([*command, str(report), "--only-binary", ":all:", *requirements], check=True)
        found = json.loads(report.read_text())["install"]
    return {
        normal(one["metadata"]["name"]): (
            one["metadata"]["version"],
            one["download_info"]["archive_info"]["hashes"]["sha256"],
        )
        for one in found
    }


def normal(name: str) -> str:
    """A name as the package index writes it.

    >>> normal("Typing_Extensions")
    'typing-extensions'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    """Resolve both lists and print them in pip's own format."""
    text = tomllib.loads(PROJECT.read_text())
    wanted = (text["project"]["dependencies"], text["build-system"]["requires"])
    print("# The lock of the build, made by tools/lock.py. Do not edit it by hand.")
    for section, requirements in zip(SECTIONS, wanted, strict=True):
        print(f"\n# {section}")
        for name, (version, digest) in sorted(resolved(requirements).items()):
            print(f"{name}=={version} \\\n    --hash=sha256:{digest}")


if __name__ == "__main__":
    main()
