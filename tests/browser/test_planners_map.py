"""The map for planners: names, a drawn line, areas for false addresses, outlines and water, years, segments, phone."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import understudy as us
from understudy.demo.lodes import write_state

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def maps(tmp_path_factory):
    """The map of a generated state with segments and shapes, and one that compares two years."""
    folder = tmp_path_factory.mktemp("state")
    main, aux, crosswalk = write_state(folder)
    source = us.open_commutes([main, aux], places=crosswalk, outside="state")
    places = source.places
    later = us.open_commutes(list(write_state(folder, year=2020)[:2]), places=places)
    west, south = places.longitude[places.inside].min(), places.latitude[places.inside].min()
    east, north = places.longitude[places.inside].max(), places.latitude[places.inside].max()
    box = [[[west, south], [east, south], [east, north], [west, north], [west, south]]]
    outlines, base = folder / "county.geojson", folder / "base.geojson"
    half = [[[one, (south + north) / 2 if two == north else two] for one, two in box[0]]]
    shapes = [({"name": "Whole County"}, box), ({"name": "South Bank"}, half)]
    outlines.write_text(
        json.dumps({
            "type": "FeatureCollection",
            "features": [
                {"type": "Feature", "properties": told, "geometry": {"type": "Polygon", "coordinates": lines}}
                for told, lines in shapes
            ],
        })
    )  # fmt: skip
    base.write_text(feature({}, {"type": "Polygon", "coordinates": box}))
    with warnings.catch_warnings(action="ignore"):
        one = us.synthesize(source, budget=us.PureDP(epsilon=8), segments="age")
        two = us.synthesize(later, budget=us.PureDP(epsilon=8), method="commute_tree")
    us.commute_map(one, to=folder / "one.html", outlines=outlines, base=base)
    us.commute_map(two, to=folder / "two.html", compare=one)
    return folder, one


def feature(properties, geometry):
    found = {"type": "Feature", "properties": properties, "geometry": geometry}
    return json.dumps({"type": "FeatureCollection", "features": [found]})


def opened(visit, file, **how):
    page = visit(file, **how)
    page.wait_for_selector("body[data-drawn]")
    return page


def number(text):
    return int(text.split()[0].replace(",", ""))


def select(page, text):
    page.fill("#search", text)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")


def test_names_zips_and_cities_are_found_and_shown(maps, visit):
    folder, release = maps
    page = opened(visit, folder / "one.html")
    wanted = {"eastfield": "Eastfield town", "02801": "02801", "harbour point metro": "Harbour Point metro area"}
    for typed, found in wanted.items():
        page.fill("#search", typed)
        assert found in page.locator("#found li").first.inner_text()
    page.fill("#search", "massachusetts")
    assert page.locator("#found li").count() == 1  # on one level, not on all
    select(page, "eastfield")
    assert page.locator("#summary h2").inner_text() == "Where workers of Eastfield town live"
    told = [number(page.locator(f"#summary tr.flow-{i} td").inner_text()) for i in range(3)]
    asked = us.infer(release, "inflow_outflow(city Eastfield)").estimates
    assert told == [one.value for one in asked]
    shown = page.locator("#summary tr.flow-0 td small").inner_text().strip().replace(",", "")
    assert [float(end) for end in shown.split("–")] == pytest.approx([asked[0].low, asked[0].high], abs=2)
    assert "Not protected" in page.locator(".caution").inner_text()


def test_a_drawn_line_selects_what_is_inside_and_its_link_brings_it_back(maps, visit):
    folder, _ = maps
    page = opened(visit, folder / "one.html")
    page.locator("button.lasso").click()
    box = page.locator(".map").bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(middle[0] - 120, middle[1] - 120)
    page.mouse.down()
    for dx, dy in ((120, -120), (120, 120), (-120, 120), (-120, -110)):
        page.mouse.move(middle[0] + dx, middle[1] + dy, steps=12)
    page.mouse.up()
    page.wait_for_function("location.hash.startsWith('#dest-polygon=')")
    assert page.locator("#summary h2").inner_text() == "Where workers of the drawn area live"
    jobs = page.locator("#summary tr.jobs td").first.inner_text()
    assert 0 < number(jobs) < 6000
    again = opened(visit, folder / "one.html", fragment=page.evaluate("location.hash.slice(1)"))
    assert again.locator("#summary tr.jobs td").first.inner_text() == jobs


def test_close_by_there_are_areas_instead_of_dots(maps, visit):
    folder, _ = maps
    page = opened(visit, folder / "one.html")
    assert page.locator(".map").get_attribute("data-near") == "false"
    for _ in range(8):
        page.locator("button.in").click()
    page.wait_for_function("document.querySelector('.map').dataset.near === 'true'")
    assert page.locator(".legend .zoned").is_visible()
    assert page.locator(".legend .dot").is_hidden()
    assert page.locator(".legend .ticks").is_hidden()
    page.locator("#areas select").select_option(label="place")
    page.wait_for_timeout(100)
    assert page.evaluate(
        "understudy.maps[0].scene.zones.jobs.some((jobs) => jobs > 0)"
    )  # areas also if counted by place


def test_outlines_water_and_names_are_in_the_page(maps, visit):
    folder, _ = maps
    page = opened(visit, folder / "one.html")
    shapes = "[w.outlineNames[0].text, w.outlines.length, w.water.length]"
    assert page.evaluate(f"(() => {{ const w = understudy.world; return {shapes}; }})()") == ["Whole County", 2, 1]


def test_a_neighbourhood_is_found_by_the_name_of_its_outline(maps, visit):
    """The places inside it are selected; its link brings it back, and its jobs are those of the places there."""
    folder, release = maps
    page = opened(visit, folder / "one.html")
    page.fill("#search", "south b")
    assert page.locator("#found li").first.inner_text().startswith("South Bank")
    select(page, "south b")
    assert page.locator("#summary h2").inner_text() == "Where workers of South Bank live"
    assert page.evaluate("location.hash") == "#dest-outline=South%20Bank"
    places = release.places
    middle = (places.latitude[places.inside].min() + places.latitude[places.inside].max()) / 2
    inside = places.inside & (places.latitude < middle)
    _, at, jobs = (np.asarray(part) for part in release.coded(1))
    shown = number(page.locator("#summary tr.jobs td").first.inner_text())
    assert shown == pytest.approx(int(jobs[inside[at]].sum()), abs=60)  # a place on the line itself is on either side
    again = opened(visit, folder / "one.html", fragment="dest-outline=South%20Bank")
    assert number(again.locator("#summary tr.jobs td").first.inner_text()) == shown
    lost = opened(visit, folder / "one.html", fragment="dest-outline=Nowhere")
    assert "no outline" in lost.locator("#problem").inner_text()


def test_a_home_outside_is_listed_last_and_asks_where_its_people_work(maps, visit):
    folder, release = maps
    page = opened(visit, folder / "one.html")
    page.fill("#search", "massachusetts")
    assert "homes outside" in page.locator("#found li").first.inner_text()
    page.keyboard.press("Enter")
    assert page.locator("#summary h2").inner_text() == "Where people of Massachusetts work"
    origins, _, jobs = (np.asarray(part) for part in release.coded(1))
    away = release.places.groupings["state"] == b"25"
    assert number(page.locator("#summary tr.jobs td").first.inner_text()) == jobs[away[origins]].sum()
    page.fill("#search", "0280")
    assert "homes outside" not in page.locator("#found li").first.inner_text()


def test_those_who_live_where_they_work_have_one_range(maps, visit):
    """In the list of areas the selected one has the range that is beside "live and work here"."""
    folder, _ = maps
    page = opened(visit, folder / "one.html")
    page.locator("#areas select").select_option(label="city")
    select(page, "eastfield")
    own = page.locator("#areas tbody tr", has_text="Eastfield").first.locator("td").all_inner_texts()
    above = page.locator("#summary tr.flow-0 td").inner_text().split()
    assert own[1:] == above
    assert "beyond this map are not in its data" in page.locator("#summary .note").inner_text()


def test_two_years_have_a_difference_with_its_range_and_the_caveats_of_both(maps, visit):
    folder, _ = maps
    page = opened(visit, folder / "two.html")
    heads = page.locator("#areas thead th").all_inner_texts()
    assert heads[-2:] == ["A − B", "likely"]
    cells = page.locator("#areas tbody tr").first.locator("td").all_inner_texts()
    change = cells[5].replace("+", "").replace("−", "-").replace("±", "").replace(",", "")
    assert int(change) == number(cells[1]) - number(cells[3])
    note = page.locator("#summary .note").inner_text()
    assert note.startswith("A: ")
    assert " B: " in note


def test_segments_are_chosen_and_add_up(maps, visit):
    folder, release = maps
    page = opened(visit, folder / "one.html")
    jobs = []
    for place in range(3):
        page.select_option("#segment", str(place))
        jobs.append(number(page.locator("#summary tr.jobs td").first.inner_text()))
    assert jobs == [int(np.sum(release.flows()[name].to_numpy())) for name in release.segments]
    assert page.locator("#areas tbody td.likely").first.inner_text() == "?"
    page.select_option("#segment", "")
    assert number(page.locator("#summary tr.jobs td").first.inner_text()) == sum(jobs)


def test_on_a_phone_the_numbers_come_before_the_map(maps, visit):
    folder, _ = maps
    page = opened(visit, folder / "one.html", width=390, height=844)
    tops = [page.locator(part).bounding_box()["y"] for part in ("#controls", "#summary", "#areas", "#maps", "#charts")]
    assert tops == sorted(tops)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
