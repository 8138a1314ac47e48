"""The browser of the tests works, draws with WebGL, and would notice a request or an error."""

from __future__ import annotations

import numpy as np

PAGE = """<!doctype html><meta charset="utf-8"><title>x</title><style>body{margin:0}canvas{display:block}</style>
<canvas id="c" width="40" height="30"></canvas><script>
const gl = document.getElementById("c").getContext("webgl2", {preserveDrawingBuffer: true});
gl.clearColor(0, 0, 1, 1); gl.clear(gl.COLOR_BUFFER_BIT);</script>"""


def test_a_page_is_drawn_with_webgl(visit, screenshot, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(PAGE)
    page = visit(file, width=200, height=100)
    drawn = screenshot(page.locator("#c"))
    assert drawn.shape == (30, 40, 3)
    assert np.array_equal(np.unique(drawn.reshape(-1, 3), axis=0), [[0, 0, 255]])


def test_the_colour_scheme_and_the_fragment_are_the_page_s(visit, tmp_path):
    file = tmp_path / "page.html"
    file.write_text("<!doctype html><meta charset='utf-8'><title>x</title>")
    page = visit(file, fragment="dest=A", dark=True)
    assert page.evaluate("location.hash") == "#dest=A"
    assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")


def test_requests_and_errors_are_noticed(visit, tmp_path):
    file = tmp_path / "page.html"
    file.write_text("<!doctype html><meta charset='utf-8'><title>x</title>")
    visit(file)
    assert (visit.outside, visit.problems) == ([], [])
    file.write_text("<!doctype html><img src='http://127.0.0.1:9/x.png'><script>throw new Error('no')</script>")
    visit(file).wait_for_load_state("load")
    assert visit.outside == ["http://127.0.0.1:9/x.png"]
    assert "error: no" in visit.problems
    visit.asked.clear()
    visit.problems.clear()
