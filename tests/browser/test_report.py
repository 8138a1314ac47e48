"""The report in a browser: readable in three sizes, light and dark, on paper, and nothing in it can run or call out."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import understudy as us

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
NASTY = "<script>window.broken = true</script>"
SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="answer", levels=("no", NASTY), label="<b>bold</b>"),
        us.Attribute(name="age", edges=(0, 20, 40, 60, 90), integer=True),
    )
)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    rng = np.random.default_rng(4)
    table = pa.table(
        {
            "sex": rng.choice(["F", "M"], 400),
            "answer": rng.choice(["no", NASTY], 400),
            "age": rng.integers(0, 90, 400),
        }
    )
    people = us.open_source(table, SCHEMA)
    release = us.synthesize(people, method="ipf", budget=us.ApproxDP(epsilon=1, delta="1e-6"))
    found = us.evaluate(release, people, ways=(1, 2))
    answer = us.infer(release, "proportion(sex == 'F')")
    return {
        "internal": us.report(release, found, answer, to=folder / "internal.html"),
        "public": us.report(release, answer, audience="public", to=folder / "public.html"),
    }


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (820, 1180), (390, 844)])
@pytest.mark.parametrize("which", ["internal", "public"])
def test_it_fits_three_sizes(visit, pages, which, width, height):
    page = visit(pages[which], width=width, height=height, touch=width < 500)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    label = page.locator("#label")
    assert label.bounding_box()["y"] < height / 2
    if width >= 800:  # one screen says it all
        assert label.bounding_box()["y"] + label.bounding_box()["height"] <= height
    assert page.locator("#label h3").count() == 3
    details = page.locator("nav").bounding_box()["y"]
    assert details <= 4 * height  # what a board reads before the details
    assert page.locator("#protected").evaluate("one => one.open") == (width > 830)
    assert page.locator("main > details").count() == page.locator("main > details:not([open])").count() >= 6
    assert page.evaluate("[...document.images].every(one => one.complete && one.naturalWidth > 0)")


def test_values_are_text_and_nothing_runs(visit, pages):
    page = visit(pages["internal"])
    assert page.evaluate("window.broken") is None
    assert page.locator("td b").count() == 0
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert page.get_by_text("<b>bold</b>", exact=True).count() >= 1
    assert page.locator("script").count() == 1


def test_every_figure_hands_out_its_table_and_its_picture(visit, pages):
    page = visit(pages["internal"])
    page.evaluate("document.querySelectorAll('main > details').forEach(one => one.open = true)")
    figures = page.locator("figure")
    assert figures.count() >= 6
    for number in range(figures.count()):
        one = figures.nth(number)
        assert one.locator("a.download[download$='.csv']").count() == 1
        assert one.locator("img").get_attribute("src") == one.locator("a.picture").get_attribute("href")
    first = page.locator("#figure-noise")
    first.locator("summary").click()
    with page.expect_download() as waiting:
        first.locator("a.download[download$='.csv']").click()
    assert waiting.value.suggested_filename == "noise.csv"
    with page.expect_download() as waiting:
        page.locator("#registry a.download").click()
    assert waiting.value.suggested_filename == "registry.json"


def luminance(colour):
    """Relative luminance plus the glare WCAG allows for."""
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    return 0.05 + float(linear @ (0.2126, 0.7152, 0.0722))


def test_light_and_dark_differ_and_both_can_be_read(visit, pages, screenshot):
    shown = {}
    for dark in (False, True):
        page = visit(pages["public"], dark=dark)
        shown[dark] = screenshot(page).astype(float).mean()
        colours = page.evaluate(
            "[getComputedStyle(document.querySelector('#label')).backgroundColor,"
            " getComputedStyle(document.body).color].map(colour => colour.match(/\\d+/g).slice(0, 3).map(Number))"
        )
        light = [luminance(np.array(colour) / 255) for colour in colours]
        assert max(light) / min(light) >= 7  # WCAG AAA
    assert shown[False] > 200
    assert shown[True] < 60


def test_internal_pages_are_marked_on_screen_and_on_every_sheet(visit, pages, tmp_path):
    page = visit(pages["internal"])
    assert page.locator(".mark").is_visible()
    page.evaluate("document.querySelectorAll('main > details').forEach(one => one.open = true)")
    page.evaluate("scrollTo({top: 4000, behavior: 'instant'})")
    assert page.evaluate("scrollY") > 1000
    assert page.locator(".mark").bounding_box()["y"] == 0
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.querySelector('.mark')).position") == "fixed"
    assert page.evaluate("getComputedStyle(document.querySelector('.watermark')).position") == "fixed"
    assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    page.set_viewport_size({"width": 718, "height": 1000})  # a sheet of A4 between its margins
    assert page.evaluate("document.documentElement.scrollWidth") <= 718  # paper cannot be scrolled
    sheets = page.pdf(format="A4", print_background=True)
    assert sheets.startswith(b"%PDF")
    other = visit(pages["public"])
    assert other.locator(".mark, .watermark").count() == 0


def test_a_link_opens_what_it_points_at(visit, pages):
    page = visit(pages["public"])
    page.evaluate("location.hash = 'pyramid'")
    page.wait_for_function("document.getElementById('pyramid').open")
    assert not page.locator("#registry").evaluate("one => one.open")
