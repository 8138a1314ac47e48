"""The map at its limits: nothing much to draw, places nobody knows, the date line, and a million dots."""

from __future__ import annotations

import numpy as np
import pytest


def ready(page):
    page.wait_for_selector("body[data-drawn]")
    return page


def test_places_without_coordinates_are_listed_beside_the_map(cities, tmp_path, visit):
    city = cities.City(
        places=cities.MapPlaces(
            ids=["a", "b", "c"],
            latitude=np.array([10.0, 10.1, np.nan]),
            longitude=np.array([20.0, 20.1, np.nan]),
            names=["Ana", "Bo", "Lost"],
        ),
        origin=np.array([0, 1, 2, 0]),
        destination=np.array([0, 0, 0, 2]),
        jobs=np.array([1, 2, 4, 3]),
    )
    page = ready(visit(city.write(tmp_path)))
    told = "Not on the map: 1 places without a point, such as other states"
    assert page.locator("#missing summary").inner_text() == told
    assert page.locator("#summary tr.unplaced td").inner_text() == "7"
    assert page.locator(".map").get_attribute("data-dots") == "6"
    page.locator("#missing button").click()
    assert page.locator("#summary h2").inner_text() == "Where workers of Lost live"
    assert page.locator("#summary tr.jobs td").inner_text() == "3"
    assert page.locator("#summary tr.mean td").inner_text() == "–"


@pytest.mark.full
def test_no_place_has_coordinates(cities, tmp_path, visit):
    nowhere = np.full(2, np.nan)
    city = cities.City(
        places=cities.MapPlaces(ids=["a", "b"], latitude=nowhere, longitude=nowhere),
        origin=np.array([0]),
        destination=np.array([1]),
        jobs=np.array([5]),
    )
    page = ready(visit(city.write(tmp_path)))
    assert page.locator("#summary tr.jobs td").inner_text() == "5"
    assert page.locator("#missing li").count() == 2


def test_one_destination_at_one_place(cities, tmp_path, visit):
    city = cities.City(
        places=cities.MapPlaces(ids=["only"], latitude=np.array([0.0]), longitude=np.array([0.0])),
        origin=np.array([0]),
        destination=np.array([0]),
        jobs=np.array([3]),
    )
    page = ready(visit(city.write(tmp_path)))
    box = page.locator(".map").bounding_box()
    view = page.locator(".map").get_attribute("data-view")
    left, top = cities.pixel_of(city, 0, view, box["width"], box["height"])
    page.mouse.click(box["x"] + left, box["y"] + top)
    page.wait_for_selector("text=Where workers of only live")
    assert page.locator("#summary tr.median td").inner_text() == "0.0 km"


def test_places_on_both_sides_of_the_date_line_are_neighbours(cities, tmp_path, visit):
    city = cities.City(
        places=cities.MapPlaces(
            ids=["west", "east"], latitude=np.array([-17.0, -17.0]), longitude=np.array([179.9, -179.9])
        ),
        origin=np.array([0, 1]),
        destination=np.array([1, 1]),
        jobs=np.array([4, 1]),
    )
    page = ready(visit(city.write(tmp_path)))
    assert page.locator("#summary tr.median td").inner_text() == f"{city.km()[0]:.1f} km"
    assert city.km()[0] < 25
    view = page.locator(".map").get_attribute("data-view")
    box = page.locator(".map").bounding_box()
    west, east = (cities.pixel_of(city, place, view, box["width"], box["height"]) for place in (0, 1))
    assert 0 < west[0] < east[0] < box["width"]
    assert float(view.split(",")[2]) > 10  # pixels per kilometre: the window is not the whole world
    page.get_by_role("button", name="Select what is in view").click()
    assert page.locator("#summary tr.jobs td").inner_text() == "5"


@pytest.mark.full
def test_outlines_lie_under_the_dots(cities, tmp_path, visit, screenshot):
    city = cities.small_city()
    ring = np.array([[41.7, -71.6], [41.7, -71.0], [42.05, -71.0], [42.05, -71.6], [41.7, -71.6]])
    page = ready(visit(city.write(tmp_path, rings=[ring])))
    plain = ready(visit(city.write(tmp_path)))
    with_outlines, without = screenshot(page.locator(".map")), screenshot(plain.locator(".map"))
    changed = np.abs(with_outlines.astype(int) - without).max(axis=2) > 4
    assert 0.2 < changed.mean() < 0.999


@pytest.mark.full
def test_the_page_works_without_webgl(cities, tmp_path, visit, screenshot):
    text = cities.small_city().write(tmp_path).read_text(encoding="utf-8")
    hidden = "HTMLCanvasElement.prototype.getContext = (get => function (kind, ...rest) "
    hidden += (
        "{ return kind === 'webgl' ? null : get.call(this, kind, ...rest); })(HTMLCanvasElement.prototype.getContext);"
    )
    file = tmp_path / "flat.html"
    file.write_text(text, encoding="utf-8")
    page = visit(file)
    page.add_init_script(hidden)
    page.reload()
    ready(page)
    page.locator("#flows").uncheck()
    coloured = 0
    for _ in range(100):
        drawn = screenshot(page.locator(".map")).reshape(-1, 3).astype(int)
        coloured = int((drawn.max(axis=1) - drawn.min(axis=1) > 60).sum())
        if coloured > 500:
            break
        page.wait_for_timeout(100)
    assert coloured > 500


def test_a_hundred_thousand_dots_are_all_painted(cities, tmp_path, visit):
    file = cities.large_city(100_000).write(tmp_path)
    assert file.stat().st_size < 2_000_000
    page = ready(visit(file))
    assert page.locator(".map").get_attribute("data-dots") == "100000"


@pytest.mark.full
@pytest.mark.parametrize(
    ("jobs", "dots", "stands_for"),
    [(1_000_000, 1_000_000, "1 synthetic job"), (1_500_000, 750_000, "2 synthetic jobs")],
)
def test_a_million_dots_and_every_second_beyond(cities, tmp_path, visit, jobs, dots, stands_for):
    city = cities.large_city(jobs)
    page = visit(city.write(tmp_path))
    page.wait_for_selector("body[data-drawn]", timeout=60_000)
    assert page.locator(".map").get_attribute("data-dots") == str(dots)
    assert f"1 dot = {stands_for}" in page.locator(".dot").inner_text()
    assert page.locator("#summary tr.jobs td").inner_text() == f"{jobs:,}"
    page.evaluate("location.hash = '#dest=000123'")
    page.wait_for_selector("text=Where workers of 000123 live", timeout=60_000)
    here = int((city.destination == 123).sum())
    assert page.locator("#summary tr.jobs td").inner_text() == f"{here:,}"
    page.wait_for_selector(f".map[data-dots='{here}']", timeout=60_000)  # a selection below the limit is not thinned
