"""Makes the pictures of the documentation: the demonstration as a terminal shows it, the report, and two of the map.

Run it from the repository after a change of what they show: ``.venv/bin/python docs/make_images.py``. Report and map
need Chromium and playwright (extra ``dev``); releases are drawn anew, so dots and numbers are others every time.
"""

from __future__ import annotations

import io
import os
import re
import shutil
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


MAPS = {  # file: size of the window, whether dark, which workplace is selected (by its rank in jobs) or none
    "map.png": ((1200, 760), False, None),
    "map-selection.png": ((1200, 760), True, 40),
}


def photographs() -> dict[str, bytes]:
    """The report of ``understudy demo`` and the map of ``understudy demo commute``, photographed in Chromium."""
    from playwright.sync_api import sync_playwright
    from pyarrow import parquet

    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    command = str(Path(sys.executable).parent / "understudy")
    pictures = {}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:

        def run(*arguments: str) -> None:
            subprocess.run([command, *arguments], cwd=folder, capture_output=True, check=True)

        run("demo", "people", "--out", "people")
        run("report", "people/release", "--to", "report.html")
        run("demo", "commute", "--out", "shown")
        jobs = parquet.read_table(Path(folder) / "shown" / "release" / "synthetic_1.parquet")
        ranked = jobs.group_by("destination").aggregate([("jobs", "sum")]).sort_by([("jobs_sum", "descending")])
        flags = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
        browser = playwright.chromium.launch(executable_path=program, headless=True, args=flags)
        page = browser.new_page(viewport={"width": 1000, "height": 760}, color_scheme="light")
        page.goto((Path(folder) / "report.html").as_uri())
        pictures["report.png"] = packed(page.screenshot())
        for name, ((width, height), dark, rank) in MAPS.items():
            scheme = "dark" if dark else "light"
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            link = "" if rank is None else f"#dest={ranked['destination'][rank].as_py()}"
            page.goto((Path(folder) / "shown" / "map.html").as_uri() + link)
            page.wait_for_selector("body[data-drawn]")
            page.wait_for_timeout(800)
            pictures[name] = packed(page.screenshot())
        browser.close()
    return pictures


def packed(screenshot: bytes) -> bytes:
    """A picture in 256 colours, a third of the size."""
    from PIL import Image

    picture = Image.open(io.BytesIO(screenshot)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    out = io.BytesIO()
    picture.save(out, "png", optimize=True)
    return out.getvalue()


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(picture(demonstration()), encoding="utf-8")
    print(f"wrote {TARGET.name}: {TARGET.stat().st_size / 1000:.0f} kB")
    for name, content in photographs().items():
        TARGET.with_name(name).write_bytes(content)
        print(f"wrote {name}: {len(content) / 1000:.0f} kB")
