"""How long a map takes: writing the page, its size, the first picture, a selection and a full redraw, in software.

The ratios of one run are what counts: how the cost grows with the number of synthetic jobs. Chromium draws without a
graphics card here; a laptop with one is faster. Run: ``.venv/bin/python benchmarks/bench_map.py``.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from understudy.commutes.map.commute_map import Shown, render
from understudy.commutes.map.counts_law import urn_law
from understudy.commutes.map.page_arrays import MapFlows, MapPlaces
from understudy.privacy.promise.definition import ApproxDP, Unit
from understudy.release.statement import Statement

SIZES = (100_000, 300_000, 1_000_000, 2_000_000)
PLACES, DESTINATIONS = 20_000, 500
FLAGS = ("--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")


def page_of(jobs: int) -> str:
    """A disc of places; one pair for every job, so that nothing is saved by counting."""
    rng = np.random.default_rng(5)
    angle, radius = rng.uniform(0, 2 * np.pi, PLACES), 0.4 * np.sqrt(rng.random(PLACES))
    places = MapPlaces(
        ids=[f"{i:06d}" for i in range(PLACES)],
        latitude=46.0 + radius * np.sin(angle),
        longitude=8.0 + radius * np.cos(angle) / np.cos(np.radians(46)),
    )
    flows = MapFlows(
        origin=rng.integers(0, PLACES, jobs),
        destination=np.sort(rng.integers(0, DESTINATIONS, jobs)),
        jobs=np.ones(jobs, dtype=np.int64),
        law=urn_law(np.full(PLACES, 10), np.full(PLACES, 5.0), np.full(PLACES, 3)),
    )
    statement = Statement(unit=Unit(fixed=("destination",)), guarantee=ApproxDP(epsilon=2, delta="1e-5"))
    return render(places, [Shown(statement=statement, method="x", flows=flows)], rings=[], title="x", miles=False)


def measured(jobs: int, folder: Path, browser: object) -> dict[str, float]:
    start = time.process_time()
    text = page_of(jobs)
    written = time.process_time() - start
    file = folder / f"{jobs}.html"
    file.write_text(text, encoding="utf-8")
    page = browser.new_page(viewport={"width": 1280, "height": 800})  # type: ignore[attr-defined]
    page.goto(file.as_uri())
    page.wait_for_selector("body[data-drawn]", timeout=120_000)
    first = int(page.locator("body").get_attribute("data-drawn"))
    took = page.evaluate(
        """() => {
          const { understudy: page } = window;
          const gl = document.querySelector("canvas.dots").getContext("webgl");
          const pixel = new Uint8Array(4);
          const done = () => gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, pixel); // waits for the drawing
          const time = (act) => { const start = performance.now(); act(); done(); return performance.now() - start; };
          const select = time(() => page.select({ side: "dest", kind: "place", value: 123 }));
          page.moving = false;
          const redraw = time(() => page.drawNow());
          page.moving = true;
          const moving = time(() => page.drawNow());
          return { select, redraw, moving };
        }"""
    )
    dots = page.locator(".map").get_attribute("data-dots")
    page.close()
    return {"cpu": written, "MB": len(text) / 1e6, "first": first, "dots": int(dots), **took}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="*", default=SIZES)
    sizes = parser.parse_args().jobs
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        raise SystemExit("needs Chromium on the PATH")
    print("| synthetic jobs | page, MB | writing, CPU s | first picture, s | selecting, ms | redraw, ms | moving, ms |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, headless=True, args=list(FLAGS))
        for jobs in sizes:
            one = measured(jobs, Path(folder), browser)
            print(
                f"| {jobs:,} | {one['MB']:.1f} | {one['cpu']:.1f} | {one['first'] / 1000:.1f} | {one['select']:.0f} | "
                f"{one['redraw']:.0f} | {one['moving']:.0f} |"
            )
        browser.close()


if __name__ == "__main__":
    main()
