#!/usr/bin/env python3
"""From nothing to a first confirmed answer: a new environment, the installation, and the commands of the guide.

    python tools/first_answer.py

The commands are those of docs/guides/serving.md, from its section *From nothing to a first confirmed answer*, as
they stand there. What each part took is printed at the end. pip needs the network, or an index of the machine's own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GUIDE = ROOT / "docs" / "guides" / "serving.md"
SECTION = "## From nothing to a first confirmed answer"


def commands(page: str) -> str:
    """The commands of the section, as one script of the shell."""
    section = page.partition(SECTION)[2].partition("\n## ")[0]
    lines = []
    for kind, text in re.findall(r"```(console|sh)\n(.*?)```", section, flags=re.DOTALL):
        for line in text.splitlines():
            lines.append(line.removeprefix("$ ") if kind == "console" else line)
    if not lines:
        raise SystemExit(f"{GUIDE} has no commands under '{SECTION}'.")
    return "set -euo pipefail\n" + "\n".join(lines) + "\n"


def main() -> None:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="understudy-first-") as place:
        folder = Path(place)
        subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True)
        programs = folder / "env" / "bin"
        subprocess.run(
            [str(programs / "python"), "-m", "pip", "install", "--quiet", "--no-input", f"{ROOT}[serve]"], check=True
        )
        installed = time.monotonic()
        work = folder / "work"
        work.mkdir()
        environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
        environment.pop("PYTHONPATH", None)
        subprocess.run(["bash", "-c", commands(GUIDE.read_text())], check=True, cwd=work, env=environment)
    print(f"installation {installed - begun:.0f} s, from there to the answers {time.monotonic() - installed:.0f} s")


if __name__ == "__main__":
    main()
