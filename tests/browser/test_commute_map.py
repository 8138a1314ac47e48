"""The map in a browser: what is drawn, what it says, and that its numbers are those computed here."""

from __future__ import annotations

import csv
from itertools import pairwise
from urllib.parse import quote

import numpy as np
import pytest

GROUND = (240, 242, 239)


@pytest.fixture(scope="module")
def city(cities):
    return cities.small_city()


@pytest.fixture(scope="module")
def file(city, tmp_path_factory):
    return city.write(tmp_path_factory.mktemp("map"))


def ready(page):
    page.wait_for_selector("body[data-drawn]")
    return page


def settled(page):
    """Waits until everything asked for is drawn: the last dots come when the window has been at rest for a while."""
    page.evaluate(
        "() => new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 200))"
    )
    return page


def view(page):
    """Middle (kilometres) and scale (pixels per kilometre) of the window, once it rests."""
    settled(page)
    return [float(part) for part in page.locator(".map").first.get_attribute("data-view").split(",")]


def number(text):
    return int(text.replace(",", ""))


def shown_jobs(page, column=0):
    return number(page.locator("#summary tr.jobs td").nth(column).inner_text())


def shown_mean(page):
    """The mean distance, without the range that is told beside it."""
    return page.locator("#summary tr.mean td").first.inner_text().partition(" likely")[0].strip()


def shown_histogram(page):
    rows = page.locator("#charts details tbody tr")
    return [number(text) for text in rows.locator("td:nth-child(2)").all_text_contents()]


def shown_areas(page):
    rows = page.locator("#areas tbody tr").all()
    return {
        row.locator("td").nth(0).inner_text().strip(): number(row.locator("td").nth(1).inner_text()) for row in rows
    }


def class_width(page):
    return float(page.locator("#charts details tbody td").first.text_content().split("–")[1])


def by_area(city, keep):
    names = [*city.places.areas["district"], "elsewhere"]
    counts = {}
    for origin, jobs in zip(city.origin[keep], city.jobs[keep], strict=True):
        counts[names[origin]] = counts.get(names[origin], 0) + int(jobs)
    return counts


def place_on_screen(cities, city, page, place):
    settled(page)
    box = page.locator(".map").first.bounding_box()
    view = page.locator(".map").first.get_attribute("data-view")
    left, top = cities.pixel_of(city, place, view, box["width"], box["height"])
    return box["x"] + left, box["y"] + top


def test_all_jobs_are_shown_first(city, file, visit):
    page = ready(visit(file))
    everybody = np.ones(len(city.jobs), dtype=bool)
    assert shown_jobs(page) == city.jobs.sum()
    assert shown_histogram(page) == city.histogram(everybody, class_width(page))
    assert shown_areas(page) == by_area(city, everybody)
    assert shown_mean(page) == f"{city.mean_km(everybody):.1f} km"
    on_map = city.origin < len(city.places)
    assert settled(page).locator(".map").get_attribute("data-dots") == str(city.jobs[on_map].sum())


@pytest.mark.parametrize("scale", [1, pytest.param(2, marks=pytest.mark.full)])
def test_dots_are_drawn_where_they_must_be_and_nowhere_else(cities, tmp_path, visit, screenshot, scale):
    """Four far places with many jobs each: a dot at each, its colour by distance, and plain ground between them."""
    corners = cities.City(
        places=cities.MapPlaces(
            ids=["sw", "se", "nw", "ne"],
            latitude=np.array([50.0, 50.1, 51.0, 51.3]),
            longitude=np.array([9.0, 11.0, 9.2, 11.3]),
        ),
        origin=np.array([0, 1, 2, 3]),
        destination=np.array([0, 0, 0, 0]),
        jobs=np.array([1, 1, 1, 1]),
    )
    page = ready(visit(corners.write(tmp_path), scale=scale))
    page.locator("#flows").uncheck()
    settled(page)
    drawn = screenshot(page)
    for place in range(4):
        left, top = (round(scale * value) for value in place_on_screen(cities, corners, page, place))
        dot = drawn[top, left].astype(int)
        assert np.abs(dot - GROUND).max() > 60, place
        assert np.abs(drawn[top, left + 30 * scale].astype(int) - GROUND).max() <= 2, place
    near, far = (
        drawn[tuple(reversed([round(scale * value) for value in place_on_screen(cities, corners, page, place)]))]
        for place in (0, 3)
    )
    assert near[1] > near[0] + 40  # green
    assert far.max() < 130  # dark violet
    assert far[2] > far[1] + 40


def test_a_click_selects_a_workplace_and_everything_follows(cities, city, file, visit):
    page = ready(visit(file))
    page.mouse.click(*place_on_screen(cities, city, page, 15))
    page.wait_for_selector("text=Where workers of Quarter 15 live")
    keep = city.destination == 15
    assert shown_jobs(page) == city.jobs[keep].sum() == 60
    assert shown_histogram(page) == city.histogram(keep, class_width(page))
    assert shown_areas(page) == by_area(city, keep)
    assert shown_mean(page) == f"{city.mean_km(keep):.1f} km"
    on_map = keep & (city.origin < len(city.places))
    assert settled(page).locator(".map").get_attribute("data-dots") == str(city.jobs[on_map].sum())
    assert page.evaluate("location.hash") == "#dest=p15"


@pytest.mark.full
def test_selected_dots_are_coloured_and_the_others_grey(cities, city, file, visit, screenshot):
    page = ready(visit(file, fragment="dest=p15"))
    page.locator("#flows").uncheck()
    settled(page)
    drawn = screenshot(page).astype(int)
    home = {place: int(city.jobs[(city.origin == place) & (city.destination == 15)].sum()) for place in range(40)}
    away = [place for place, jobs in home.items() if not jobs and (city.origin == place).any()]
    assert away
    for place in away:
        left, top = (round(value) for value in place_on_screen(cities, city, page, place))
        around = drawn[top - 4 : top + 5, left - 4 : left + 5].reshape(-1, 3)
        assert (around.max(axis=1) - around.min(axis=1)).max() < 90, place  # grey, but for a neighbour's rim


def test_the_reverse_shows_where_people_of_a_place_work(city, file, visit):
    page = ready(visit(file, fragment="home=p03"))
    keep = city.origin == 3
    assert page.locator("#summary h2").inner_text() == "Where people of Quarter 3 work"
    assert shown_jobs(page) == city.jobs[keep].sum()
    assert shown_histogram(page) == city.histogram(keep, class_width(page))
    assert page.locator("input[value=home]").is_checked()
    page.locator("text=Homes of workers").click()
    assert page.locator("#summary h2").inner_text() == "Where workers of Quarter 3 live"
    assert shown_jobs(page) == 0
    assert "does not mean" in page.locator("#summary .note").inner_text()


def test_dragging_selects_an_area(cities, city, file, visit):
    page = ready(visit(file))
    inside = [place for place in range(40) if city.places.areas["district"][place] == "District A"]
    spots = np.array([place_on_screen(cities, city, page, place) for place in inside])
    (left, top), (right, bottom) = spots.min(axis=0) - 3, spots.max(axis=0) + 3
    page.get_by_label("Drag to select an area").click()
    page.mouse.move(left, top)
    page.mouse.down()
    page.mouse.move(right, bottom, steps=4)
    assert page.locator(".band").is_visible()
    page.mouse.up()
    page.wait_for_selector("text=the selected box")
    keep = np.isin(city.destination, inside)
    assert 0 < city.jobs[keep].sum() < city.jobs.sum()
    assert shown_jobs(page) == city.jobs[keep].sum()
    assert page.locator(".band").is_hidden()
    box = page.evaluate("location.hash").removeprefix("#dest-box=").split(",")
    assert len(box) == 4


def test_moving_and_zooming_by_mouse(city, file, visit):
    page = ready(visit(file))
    start = view(page)
    page.mouse.move(800, 400)
    page.mouse.wheel(0, -400)
    assert view(page)[2] == pytest.approx(2 * start[2])
    before = view(page)
    page.mouse.down()
    page.mouse.move(900, 350, steps=3)
    page.mouse.up()
    moved = [before[0] - 100 / before[2], before[1] - 50 / before[2], before[2]]
    assert view(page) == pytest.approx(moved)
    assert page.locator("#summary h2").inner_text() == "Where all workers live"  # a drag is not a click
    page.get_by_label("Show the whole map").click()
    assert view(page) == pytest.approx(start)


def test_fingers_pan_pinch_and_tap(cities, city, file, visit):
    page = ready(visit(file, width=390, height=844, touch=True))
    page.locator(".map").scroll_into_view_if_needed()
    touch = page.context.new_cdp_session(page)

    def send(kind, *points):
        listed = [{"x": x, "y": y, "id": i} for i, (x, y) in enumerate(points)]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": listed})

    box = page.locator(".map").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    start = view(page)
    send("touchStart", (x - 30, y), (x + 30, y))
    send("touchMove", (x - 45, y), (x + 45, y))
    send("touchMove", (x - 60, y), (x + 60, y))
    send("touchEnd")
    assert view(page)[2] == pytest.approx(2 * start[2], rel=0.05)
    before = view(page)
    send("touchStart", (x, y))
    send("touchMove", (x + 20, y))
    send("touchMove", (x + 40, y))
    send("touchEnd")
    assert view(page)[0] < before[0]
    page.get_by_label("Show the whole map").tap()
    assert view(page) == pytest.approx(start)
    page.touchscreen.tap(*place_on_screen(cities, city, page, 22))
    page.wait_for_selector("text=Where workers of Quarter 22 live")


@pytest.mark.parametrize(
    ("typed", "finds"),
    [("p22", "Quarter 22"), ("quarter 7", "Quarter 7"), ("QUARTER 33", "Quarter 33"), ("district c", "District C")],
)
def test_search_finds_by_id_name_and_area(file, visit, typed, finds):
    page = ready(visit(file))
    page.locator("#search").fill(typed)
    page.locator("#found li").first.click()
    assert page.locator("#summary h2").inner_text() == f"Where workers of {finds} live"
    assert page.locator("#found").is_hidden()


@pytest.mark.full
def test_search_says_when_nothing_is_found(file, visit):
    page = ready(visit(file))
    page.locator("#search").fill("nowhere")
    assert page.locator("#found").inner_text() == "No place or area has this id or name."
    page.keyboard.press("Enter")
    assert page.locator("#summary h2").inner_text() == "Where all workers live"


def test_the_keyboard_alone_can_do_all_of_it(cities, city, file, visit, tmp_path):
    page = ready(visit(file))
    focus = lambda: page.evaluate("document.activeElement.id || document.activeElement.className")  # noqa: E731

    def tab_to(name, most=60):
        for _ in range(most):
            page.keyboard.press("Tab")
            if name in focus():
                outline = page.evaluate(
                    "getComputedStyle(document.activeElement.type === 'radio' ? document.activeElement."
                    "nextElementSibling : document.activeElement).outlineStyle"
                )
                assert outline == "solid", f"the focus on {name} cannot be seen"
                return
        raise AssertionError(f"Tab never reaches {name}")

    tab_to("search")
    page.keyboard.type("quarter 1")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    assert page.locator("#summary h2").inner_text() == "Where workers of Quarter 1 live"
    tab_to("map")
    page.keyboard.press("0")
    before = view(page)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("+")
    assert view(page)[2] == pytest.approx(1.5 * before[2])
    assert view(page)[0] > before[0]
    page.keyboard.press("Enter")
    nearest = page.locator("#summary h2").inner_text()
    assert nearest != "Where workers of Quarter 1 live"
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    assert focus() == "visible"
    page.keyboard.press("Enter")
    assert page.locator("#summary h2").inner_text() == "Where workers of the selected box live"
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert page.locator("#summary h2").inner_text() == "Where all workers live"
    page.evaluate("document.querySelector('input[name=side]').focus()")
    page.keyboard.press("ArrowRight")
    assert page.locator("#summary h2").inner_text() == "Where all residents work"
    tab_to("download")
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    assert download.value.suggested_filename == "synthetic-commutes.csv"


def test_the_file_of_counts_is_what_python_counts(city, file, visit, tmp_path):
    page = ready(visit(file, fragment="dest=p07"))
    with page.expect_download() as download:
        page.locator("#download").click()
    download.value.save_as(tmp_path / "counts.csv")
    lines = (tmp_path / "counts.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# Synthetic data: no row is a person."
    assert "ε = 2, δ = 0.00001" in lines[1]
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    keep = city.destination == 7
    ids = [*city.places.ids, "elsewhere"]
    expected = {ids[o]: int(j) for o, j in zip(city.origin[keep], city.jobs[keep], strict=True)}
    assert {row["home"]: int(row["jobs"]) for row in rows} == expected
    for row in rows:
        assert int(row["low"]) <= int(row["jobs"]) <= int(row["high"])


def test_links_lead_to_selections_and_back(file, visit):
    page = ready(visit(file, fragment=f"dest-area=district:{quote('District B')}"))
    assert page.locator("#summary h2").inner_text() == "Where workers of District B live"
    page.locator("#search").fill("p22")
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#dest=p22"
    page.go_back()
    page.wait_for_selector("text=Where workers of District B live")
    page.evaluate("location.hash = '#dest=unheard'")
    page.wait_for_selector("#problem:visible")
    assert page.locator("#problem").inner_text() == "This release has no place “unheard”."
    page.locator("#areas button").first.click()
    assert page.locator("#problem").is_hidden()


def test_hostile_names_are_text(cities, tmp_path, visit):
    names = [f"Quarter {i}" for i in range(40)]
    names[7] = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"
    names[15] = '@@data@@" onload="window.hacked = 3'
    names[22] = "\u202eevil\u0000 \U0001f600 <b>bold</b> &lt;"
    names[33] = '=HYPERLINK("http://127.0.0.1/")'
    city = cities.small_city(names)
    title = "<img src=x onerror='window.hacked = 4'>"
    page = ready(visit(city.write(tmp_path, title=title, warnings=("<script>window.hacked = 5</script>",))))
    assert page.locator("h1").inner_text() == title
    page.locator("#areas select").select_option("")
    for place in (7, 15, 22, 33):
        page.locator("#search").fill(f"p{place:02d}")
        page.keyboard.press("Enter")
        assert page.locator("#summary h2").text_content() == f"Where workers of {names[place]} live"
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img, main script, header img, header script").count() == 0


def test_the_policy_lets_nothing_out_and_nothing_in(file, visit):
    page = ready(visit(file))
    outcome = page.evaluate(
        """async () => {
          const tried = await fetch("http://127.0.0.1:9/x").then(() => "sent", () => "refused");
          const script = document.createElement("script");
          script.textContent = "window.hacked = 1";
          document.body.append(script);
          const image = new Image();
          const loaded = new Promise((done) => {
            image.onload = () => done("sent");
            image.onerror = () => done("refused");
          });
          image.src = "http://127.0.0.1:9/x.png";
          return [tried, await loaded, window.hacked ?? null];
        }"""
    )
    assert outcome == ["refused", "refused", None]
    assert visit.outside == []
    assert any("Content Security Policy" in problem for problem in visit.problems)
    visit.problems.clear()


@pytest.mark.parametrize(
    ("width", "height"), [(1440, 900), pytest.param(820, 1180, marks=pytest.mark.full), (390, 844)]
)
def test_promise_and_words_are_always_visible(file, visit, width, height):
    page = ready(visit(file, width=width, height=height))
    assert page.locator("#results").evaluate("e => { e.scrollTop = e.scrollHeight; return true; }")
    page.mouse.wheel(0, 5000)
    settled(page)
    for part in (".badge", ".promise", ".words .plain"):
        box = page.locator(part).first.bounding_box()
        assert box["y"] >= 0, part
        assert box["y"] + box["height"] <= height, part
        assert box["x"] + box["width"] <= width, part
    assert page.locator(".promise").inner_text() == "ε = 2, δ = 0.00001 protects the home behind any one job"
    assert "No dot is a person" in page.locator(".words").inner_text()
    assert "7.4-fold" in page.locator(".words .plain").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_ranges_of_small_counts_are_shown(city, file, visit):
    page = ready(visit(file, fragment="dest=p07"))
    likely = page.locator("#areas td.likely").all_inner_texts()
    assert likely
    for text in likely:
        low, high = (number(part) for part in text.split("–"))
        assert 0 <= low < high <= 60
    assert page.locator("#charts .range").count() > 0
    share = round(100 * 4 / 64)
    note = page.locator("#summary .note").inner_text()
    assert f"About {share}% of these jobs were drawn from that model" in note
    assert "tells 7 zones apart" in note


def test_a_release_that_states_no_law_says_that_small_counts_are_noise(cities, tmp_path, visit):
    page = ready(visit(cities.small_city(prior=None).write(tmp_path)))
    note = page.locator("#summary .note").inner_text()
    assert "Small counts are mostly noise" in note
    assert "There are no ranges here (?): nothing public says how far it is off." in note
    assert set(page.locator("#areas td.likely").all_inner_texts()) == {"?"}
    assert page.locator("#charts .range").count() == 0


def test_two_releases_side_by_side(cities, city, tmp_path, visit, screenshot):
    other = cities.City(
        places=city.places, origin=city.origin, destination=city.destination, jobs=2 * city.jobs, prior=1.0
    )
    page = ready(visit(city.write(tmp_path, other), fragment="dest=p15", width=1440))
    assert page.locator(".map").count() == 2
    assert [shown_jobs(page, column) for column in (0, 1)] == [60, 120]
    assert page.locator(".map .name").all_inner_texts() == [
        "A · commute, ε = 2, δ = 0.00001",
        "B · other, ε = 4, δ = 0.00001",
    ]
    heads = ["", "jobs A", "likely", "jobs B", "likely", "A − B", "likely"]
    assert page.locator("#areas thead th").all_inner_texts() == heads
    before = view(page)
    page.locator(".map").nth(1).locator("button.in").click()
    assert view(page)[2] == pytest.approx(1.5 * before[2])
    first, second = (page.locator(".map").nth(i).get_attribute("data-view") for i in (0, 1))
    assert first == second
    assert "A: " in page.locator(".words .plain").inner_text()


def test_paper_shows_map_numbers_and_promise_but_no_controls(file, visit):
    page = ready(visit(file, dark=True))
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    for part in ("#controls", ".tools", "#download"):
        assert page.locator(part).first.is_hidden(), part
    for part in (".promise", ".words .plain", ".map", "#summary", "#charts", "#areas", ".legend", ".scale", ".north"):
        assert page.locator(part).first.is_visible(), part
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


@pytest.mark.full
def test_light_and_dark_follow_the_device_and_the_choice(file, visit, screenshot):
    page = ready(visit(file, dark=True))
    assert screenshot(page)[0, 0].mean() < 60
    page.locator("#theme").select_option("light")
    assert screenshot(settled(page))[0, 0].mean() > 240


@pytest.mark.full
def test_distances_can_be_read_in_miles(city, file, visit):
    page = ready(visit(file))
    page.locator("#unit").select_option("mi")
    everybody = np.ones(len(city.jobs), dtype=bool)
    assert shown_mean(page) == f"{city.mean_km(everybody) / 1.609344:.1f} mi"
    assert shown_histogram(page) == city.histogram(everybody, class_width(page) * 1.609344)
    assert settled(page).locator(".length").inner_text().endswith(" mi")


def test_the_scale_bar_is_as_long_as_it_says(cities, city, file, visit):
    page = ready(visit(file))
    scale = float(page.locator(".map").get_attribute("data-view").split(",")[2])
    kilometres = float(page.locator(".length").inner_text().removesuffix(" km"))
    assert page.locator(".scale .bar").bounding_box()["width"] == pytest.approx(kilometres * scale, abs=1.5)


def test_everything_has_a_name_for_those_who_cannot_see_it(file, visit):
    page = ready(visit(file))
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, [role=img], [role=application]")].filter((one) =>
             !(one.getAttribute("aria-label") || one.textContent.trim() || one.labels?.length)).length"""
    )
    assert unnamed == 0
    assert page.locator("#summary").get_attribute("aria-live") == "polite"
    levels = [int(tag[1]) for tag in page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map(e => e.tagName)")]
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
