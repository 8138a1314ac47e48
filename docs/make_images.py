"""Makes the pictures of the documentation: the demonstration as a terminal shows it.

Run it from the repository after a change of what the demonstration prints: ``.venv/bin/python docs/make_images.py``.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 112
TARGET = Path(__file__).parent / "images" / "demo.svg"
# The picture tells the story from the release on; the plan before it is in the README.
FIRST, LAST = "$ understudy synthesize", "$ understudy ledger show"


def demonstration() -> str:
    """What ``understudy demo`` prints on a colour terminal."""
    command = Path(sys.executable).parent / "understudy"
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            [str(command), "demo", "--out", "demo-output"],
            cwd=folder,
            env={**os.environ, "FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": str(WIDTH), "LINES": "200"},
            capture_output=True,
            check=True,
            text=True,
        )
    return run.stdout


def picture(shown: str) -> str:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    lines = Text.from_ansi(shown).split("\n")
    plain = [line.plain for line in lines]
    start = next(number for number, line in enumerate(plain) if line.startswith(FIRST))
    end = next(number for number, line in enumerate(plain) if line.startswith(LAST))
    for line in lines[start:end]:
        line.rstrip()
        console.print(line)
    drawn = console.export_svg(title="understudy demo", unique_id="demo")
    return re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)  # fonts that a viewer would fetch


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(picture(demonstration()), encoding="utf-8")
    print(f"wrote {TARGET.name}: {TARGET.stat().st_size / 1000:.0f} kB")
