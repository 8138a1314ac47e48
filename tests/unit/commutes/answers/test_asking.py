"""Questions to releases of commutes: what they mean, their ranges, and what is refused."""

import json
import warnings

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.commutes.answers.asking import places_in
from understudy.commutes.answers.profiles import area_flows, area_profiles, bearings, directions
from understudy.commutes.answers.ranges import CountRanges
from understudy.demo.lodes import write_state
from understudy.errors import InputError, UnknownNameError, UnsupportedError


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    main, aux, crosswalk = write_state(tmp_path_factory.mktemp("state"))
    return us.open_commutes([main, aux], places=crosswalk, outside="state")


@pytest.fixture(scope="module")
def release(state):
    return us.synthesize(state, method="commute", budget=us.PureDP(epsilon=4))


@pytest.fixture(scope="module")
def flows(state):
    return us.synthesize(state, method="commute_tree", budget=us.PureDP(epsilon=4))


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings(action="ignore", category=us.errors.UntrackedWarning):
        yield


def truth(state, homes, works):
    origins, destinations, jobs = state.flows().confidential_pairs()
    return int(jobs[homes[origins] & works[destinations]].sum())


def test_counts_are_those_of_the_table_and_of_the_area_by_id_or_name(release):
    places = release.places
    for text in ("city 4400001", "city 'Eastfield town'", "city Eastfield", "city 'eastfield TOWN'"):
        assert (places_in(text, places) == (places.other_areas["city"] == b"4400001")).all()
    origins, destinations, jobs = release.coded()
    inside = places.other_areas["city"] == b"4400001"
    answer = us.infer(release, "count(home in city Eastfield, work in city 'Northport town')")
    there = places.other_areas["city"] == b"4400000"
    assert answer.value == jobs[inside[origins] & there[destinations]].sum()
    assert answer.low <= answer.value <= answer.high
    assert answer.labels == ("model-based",)


def test_jobs_of_residents_beyond_the_places_are_said_to_be_missing(release):
    """LODES counts them in the file of the other state: nobody of a whole state seems to work elsewhere."""
    whole = us.infer(release, "inflow_outflow(state 44)")
    assert whole.estimates[2].value == 0
    assert any("are not in its data" in warning for warning in whole.warnings)
    assert not any("are not in its data" in one for one in us.infer(release, "count(home in outside)").warnings)


def test_a_question_that_names_what_is_not_there_leaves_the_others_their_answers(release):
    asked = ["count(home in outside)", "mean_distance(work in zip 99999)", "inflow_outflow(nowhere)"]
    refused = {}
    (answer,) = us.infer(release, asked, refused=refused)
    assert answer.question == asked[0]
    assert list(refused) == asked[1:]
    with pytest.raises(UnknownNameError):
        us.infer(release, asked)
    with pytest.raises(InputError, match="between 0 and 1"):  # nothing is wrong with the questions
        us.infer(release, asked[:1] * 2, level=2, refused={})


def test_what_can_be_asked_is_listed_with_areas_of_the_release_and_can_be_asked(release):
    told = us.questions(release)
    assert len(told) == 0
    examples = [line.partition("  ")[0] for line in told.notes if "  " in line]
    assert len(examples) == 4
    for example in examples:
        assert us.infer(release, example).labels
    assert "count(home in outside)" in told.summary()
    assert "county (" in told.summary()
    with pytest.raises(us.errors.InputError, match="names of attributes are for releases of tables"):
        us.questions(release, "age")


def test_public_numbers_of_jobs_have_no_range(release, state):
    answer = us.infer(release, "count(work in county 44001)")
    assert answer.interval == (answer.value, answer.value)
    assert answer.value == state.total()
    assert answer.labels == ("valid",)


def test_workers_of_a_measured_home_area_are_the_noisy_count(release, state):
    answer = us.infer(release, "count(home in state Massachusetts)")
    homes = places_in("state 25", release.places)
    assert answer.labels == ("valid",)
    assert abs(answer.value - truth(state, homes, np.ones(len(homes), bool))) < 20 * answer.standard_error
    assert answer.high - answer.low > 2


def test_inflow_and_outflow_add_up_to_the_public_jobs(release):
    answer = us.infer(release, "inflow_outflow(city Eastfield)")
    here = us.infer(release, "count(work in city Eastfield)").value
    inside, only_work, _ = answer.estimates
    assert inside.value + only_work.value == here
    assert inside.high - inside.low == only_work.high - only_work.low > 0


def test_shares_and_distances(release):
    share = us.infer(release, "share(home in outside | work in city Eastfield)")
    assert 0 <= share.low < share.value < share.high <= 1
    back = us.infer(release, "share(work in city Eastfield | home in city Eastfield)")
    assert 0 <= back.low < back.value < back.high <= 1
    miles = us.infer(release, "mean_distance(work in city Eastfield)")
    ranges = CountRanges(release=release)
    works = places_in("city Eastfield", release.places)[ranges.pairs[1]] & np.isfinite(ranges.miles)
    assert miles.value == pytest.approx(np.average(ranges.miles[works], weights=ranges.pairs[2][works]))
    assert any("left out" in text for text in miles.warnings)


def test_another_level_is_narrower_and_several_questions_get_several_answers(release):
    wide, narrow = (us.infer(release, "mean_distance(work in city Eastfield)", level=level) for level in (0.95, 0.5))
    assert narrow.high - narrow.low < wide.high - wide.low
    assert len(us.infer(release, ["count(home in county 44001)", "mean_distance()"])) == 2


def test_change_between_two_releases(release, state):
    other = us.synthesize(state, method="commute", budget=us.PureDP(epsilon=4))
    question = "count(home in city Eastfield, work in city Northport)"
    change = us.infer(release, question, before=other)
    now, then = us.infer(release, question), us.infer(other, question)
    assert change.value == now.value - then.value
    assert max(now.high - now.value, then.value - then.low) <= change.high - change.value
    assert change.low < 0 < change.high  # the same jobs
    assert change.names == ("change of jobs",)


@pytest.mark.parametrize(
    ("question", "error", "words"),
    [
        ("howmany(home in county 44001)", InputError, "ask count, share"),
        ("count(home near county 44001)", InputError, "home in LEVEL AREA"),
        ("count(home in parish 44001)", UnknownNameError, "level of areas"),
        ("count(home in city Westfield)", UnknownNameError, "Westfield"),
        ("share(home in outside)", InputError, "a share is of something"),
        ("share(home in outside | home in county 44001)", InputError, "one of the home and one of the work"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(release, question, error, words):
    with pytest.raises(error, match=words):
        us.infer(release, question)


def test_options_of_tables_are_refused(release):
    with pytest.raises(InputError, match="prior: for releases of tables"):
        us.infer(release, "mean_distance()", prior=1)


def test_flows_between_areas_answer_for_whole_areas_only(flows):
    answer = us.infer(flows, "count(home in tract 44001000001, work in tract 44001000002)")
    assert answer.low <= answer.value <= answer.high
    inside = flows.places.id_texts(np.flatnonzero(flows.places.inside)[:1])[0]
    with pytest.raises(UnsupportedError, match="no range"):
        us.infer(flows, f"count(home in place {inside}, work in tract 44001000002)")
    with pytest.raises(UnsupportedError, match="no range"):
        us.infer(flows, "mean_distance()")


def test_ranges_hold_most_true_counts(release, state, flows):
    """95 of 100 are meant; of 10 tracts x 10 at least 85 of 100, which fails by chance less than once in 10,000."""
    places = release.places
    tracts = [name for name in np.unique(places.areas["tract"]).tolist() if len(name) > 2]
    for one in (release, flows):
        ranges, held = CountRanges(release=one), []
        for home in tracts:
            for work in tracts:
                homes, works = places.areas["tract"] == home, places.areas["tract"] == work
                found = ranges.count(homes, works)
                held.append(abs(found.value[0] - truth(state, homes, works)) <= found.reach()[0] + 0.5)
        assert np.mean(held) > 0.85


def test_profiles_agree_with_the_answers_to_questions(release):
    table = {row["area"]: row for row in area_profiles(release, "city").to_pylist()}
    row = table["4400001"]
    inside, only_work, only_live = us.infer(release, "inflow_outflow(city 4400001)").estimates
    for name, one in (("live_and_work", inside), ("work_only", only_work), ("live_only", only_live)):
        assert row[name] == one.value
        assert row[f"{name}_low"] == one.low
    assert row["workers"] == us.infer(release, "count(work in city 4400001)").value
    assert row["residents"] == us.infer(release, "count(home in city 4400001)").value
    assert row["mean_miles_of_workers_high"] == pytest.approx(
        us.infer(release, "mean_distance(work in city 4400001)").high
    )
    assert row["name"] == "Eastfield town"


def test_flows_and_directions_count_every_job_once(release, flows):
    origins, destinations, jobs = release.coded()
    places = release.places
    assert sum(area_flows(release, "tract")["jobs"].to_pylist()) == jobs.sum()
    at_home = places.miles(origins, destinations) == 0
    told = sum(directions(release, "tract")["jobs"].to_pylist())
    assert told == jobs[places.inside[origins]].sum()
    assert at_home.any()
    listed = area_flows(flows, "tract").to_pylist()
    assert all(row["jobs_low"] <= row["jobs"] <= row["jobs_high"] for row in listed)
    with pytest.raises(UnsupportedError, match="directions"):
        directions(flows, "tract")


def test_directions_are_seen_from_the_work():
    places = us.read_places(
        pa.table({"id": ["a", "n", "e", "s", "w"], "latitude": [41.0, 41.2, 41.0, 40.8, 41.0],
                                     "longitude": [-71.0, -71.0, -70.8, -71.0, -71.2]})
    )  # fmt: skip
    found = bearings(places, places.codes_of(["a"] * 4), places.codes_of(["n", "e", "s", "w"]))
    assert np.allclose(found, [0, 90, 180, 270], atol=0.2)


def test_export_by_area(release, tmp_path):
    folder = us.export(release, to="csv", by="city", out=tmp_path / "csv")
    assert {file.name for file in folder.iterdir()} == {
        "README.txt", "areas_city.csv", "flows_city.csv", "directions_city.csv",
    }  # fmt: skip
    assert "NO ROW IS A PERSON" in (folder / "README.txt").read_text()
    shape = {"type": "Polygon", "coordinates": [[[-71, 41], [-71, 42], [-70, 41], [-71, 41]]]}
    outlines = tmp_path / "towns.geojson"
    outlines.write_text(json.dumps({"type": "FeatureCollection", "features": [
        {"type": "Feature", "properties": {"GEOID": "4400001"}, "geometry": shape}]}))  # fmt: skip
    folder = us.export(release, to="geojson", by="city", out=tmp_path / "geo", outlines=outlines)
    features = json.loads((folder / "areas_city.geojson").read_text())["features"]
    found = {one["id"]: one for one in features}
    assert found["4400001"]["geometry"] == shape
    assert found["4400002"]["geometry"]["type"] == "Point"
    assert found["4400001"]["properties"]["live_and_work_low"] <= found["4400001"]["properties"]["live_and_work"]
    with pytest.raises(InputError, match="--by LEVEL"):
        us.export(release, to="csv", out=tmp_path / "x")
    with pytest.raises(UnknownNameError, match="format of commutes"):
        us.export(release, to="sav", by="city", out=tmp_path / "x")
    with pytest.raises(InputError, match="no outline has the id"):
        us.export(release, to="geojson", by="zip", out=tmp_path / "x", outlines=outlines)


def test_a_name_that_only_one_area_has_needs_no_level(release):
    """A state outside is an area of every level, always with the same places."""
    named, full = (us.infer(release, f"count(home in {area})") for area in ("Massachusetts", "state Massachusetts"))
    assert named.value == full.value
    assert (
        us.infer(release, "count(work in 'Eastfield')").value
        == us.infer(release, "count(work in city Eastfield)").value
    )
    with pytest.raises(InputError, match="2 areas are called 'Harbour Point'; say which: city 'Harbour Point town'"):
        us.infer(release, "count(home in Harbour Point)")


def test_all_who_work_somewhere_are_the_measured_residents(release):
    """Where everybody works is public, so that asking for an area of all workplaces tells nothing more."""
    here = release.places.groupings["state"] == b"44"
    ranges = CountRanges(release=release)
    both, alone = ranges.count(here, here), ranges.count(here, None)
    assert both.value == alone.value
    assert both.reach() == pytest.approx(alone.reach(), rel=0.5)


def test_profiles_have_segments_that_add_up_with_ranges_where_they_are_known(state):
    found = us.synthesize(state, method="commute_tree", budget=us.PureDP(epsilon=4), segments="age,earnings")
    columns = [name for name in found.segments if name.startswith("SA")]
    for level, told in (("tract", True), ("zip", False), ("county", True)):
        table = area_profiles(found, level)
        workers = sum(table[f"workers_{one}"].to_numpy() for one in columns)
        assert (workers == table["workers"].to_numpy()).all()
        low, value, high = (table[f"residents_SA01{end}"].to_pylist() for end in ("_low", "", "_high"))
        if level == "county":
            assert all(a <= b <= c for a, b, c in zip(low, value, high, strict=True))
        assert all((end is not None) == told for end in low[:1]) or level == "zip"
        if told:
            asked = us.infer(found, f"count(home in {level} {table['area'][0].as_py()}, segment SA01)")
            assert low[0] <= max(asked.low, 0)
            assert high[0] >= asked.high - 1


def test_private_destinations_leave_the_measured_residents(state):
    """Sizes of workplaces are noisy there, so ranges of flows are not known; the noisy count of a home area is."""
    found = us.synthesize(state, method="commute", unit=us.Unit(kind="replace"), budget=us.PureDP(epsilon=4))
    answer = us.infer(found, "count(home in state 44)")
    assert answer.labels == ("valid",)
    assert answer.low < answer.value < answer.high
    with pytest.raises(UnsupportedError, match="noisy themselves"):
        us.infer(found, "count(home in state 44, work in city Eastfield)")
    profile = area_profiles(found, "county")
    assert profile["work_only_low"].null_count == len(profile)
