"""Opening commutes: records or counted pairs, any order, LODES' names; bad input never shows a value."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import understudy as us
from understudy.cli.main import app
from understudy.commutes.source import local as module
from understudy.commutes.source import places_file
from understudy.commutes.source.places_compiled import codes_of
from understudy.commutes.source.places_file import places_table, read_places, texts
from understudy.core.places import make_places
from understudy.errors import DisclosureError, InputError

PLACES = make_places(["10", "11", "12", "13"], [41.0, 41.1, 41.2, 41.3], [-71.0] * 4, areas={"county": list("abab")})
PAIRS = {"origin": ["13", "10", "10", "12"], "destination": ["11", "12", "11", "11"], "jobs": [2, 1, 4, 3]}


def flows(table, places=PLACES):
    found = us.open_commutes(pa.table(table), places=places).flows()
    return {
        (int(d), int(o)): int(found._jobs[p])
        for d in range(len(places))
        for p in range(found._starts[d], found._starts[d + 1])
        for o in [found._origins[p]]
    }


TRUTH = {(1, 0): 4, (1, 2): 3, (1, 3): 2, (2, 0): 1}


def test_pairs_are_sorted_by_destination():
    assert flows(PAIRS) == TRUTH


def test_a_counted_pair_given_twice_is_refused_with_the_number_of_rows_of_all_batches(tmp_path):
    twice = {name: values * 3 for name, values in PAIRS.items()}
    with pytest.raises(InputError, match=r"^8 row\(s\) of the commutes give jobs for a pair"):
        us.open_commutes(pa.table(twice), places=PLACES).total()
    pq.write_table(pa.table(twice), tmp_path / "od.parquet", row_group_size=2)
    with pytest.raises(InputError, match=r"^8 row\(s\)"):
        us.open_commutes(tmp_path / "od.parquet", places=PLACES).total()
    workers = {name: values for name, values in twice.items() if name != "jobs"}
    assert us.open_commutes(pa.table(workers), places=PLACES).total() == 12


def test_records_numbers_and_lodes_names_mean_the_same():
    records = {
        "origin": [o for o, j in zip(PAIRS["origin"], PAIRS["jobs"], strict=True) for _ in range(j)],
        "destination": [d for d, j in zip(PAIRS["destination"], PAIRS["jobs"], strict=True) for _ in range(j)],
    }
    lodes = {"w_geocode": PAIRS["destination"], "h_geocode": PAIRS["origin"], "S000": PAIRS["jobs"]}
    numbers = {k: [int(v) for v in values] for k, values in PAIRS.items()}
    floats = {**PAIRS, "jobs": [2.0, 1.0, 4.0, 3.0]}
    zero = {k: [*values, extra] for (k, values), extra in zip(PAIRS.items(), ("12", "13", 0), strict=True)}
    for table in (records, lodes, numbers, floats, zero):
        assert flows(table) == TRUTH


def test_files_of_any_size_are_read_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "KEPT_ROWS", 1)
    pq.write_table(pa.table(PAIRS), tmp_path / "od.parquet", row_group_size=1)
    pq.write_table(places_table(PLACES), tmp_path / "places.parquet")
    source = us.open_commutes(tmp_path / "od.parquet", places=tmp_path / "places.parquet")
    assert source.total() == 10
    assert source.flows().sizes().tolist() == [0, 9, 1, 0]
    (tmp_path / "od.csv").write_text("origin,destination,jobs\n13,11,5\n10,12,1\n10,11,4\n")
    assert us.open_commutes(tmp_path / "od.csv", places=PLACES).flows().sizes().tolist() == [0, 9, 1, 0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"origin": ["99", "10", "10", "13"]}, "column 'origin' of the commutes has 1 row"),
        ({"destination": ["11", None, "11", "11"]}, "without a place"),
        ({"jobs": [1, -1, 2, 3]}, "negative"),
        ({"jobs": [1.5, 1, 2, 3]}, "not whole"),
        ({"jobs": [None, 1, 2, 3]}, "without a number"),
        ({"jobs": ["many", "1", "2", "3"]}, "no number"),
        ({"jobs": [2**40, 1, 2, 3]}, "more than"),
        ({"origin": [1.5, 2.5, 3.5, 4.5]}, "text or whole"),
    ],
)
def test_bad_rows_are_refused_without_showing_values(change, says):
    with pytest.raises(InputError, match=says) as refusal:
        flows({**PAIRS, **change})
    assert "99" not in str(refusal.value)


def test_bad_rows_are_counted_over_the_whole_table(tmp_path):
    """Each row is a batch of its own; the problems of all of them are told at once."""
    bad = {"origin": ["99", "10", None, "98"], "destination": ["11", "12", "11", "97"], "jobs": [-1, 1, -2, 3]}
    pq.write_table(pa.table(bad), tmp_path / "od.parquet", row_group_size=1)
    with pytest.raises(InputError) as refusal:
        us.open_commutes(tmp_path / "od.parquet", places=PLACES).total()
    for told in (
        "'origin' of the commutes has 2 row(s) with a place that is not among the places",
        "'origin' of the commutes has 1 row(s) without a place",
        "'destination' of the commutes has 1 row(s) with a place that is not",
        "'jobs' of the commutes has 2 row(s) with negative numbers of jobs",
    ):
        assert told in str(refusal.value)


@pytest.mark.parametrize("engine", ["local", None])
def test_the_embedded_engine_has_the_name_it_has_everywhere(engine):
    assert us.open_commutes(pa.table(PAIRS), places=PLACES, engine=engine).total() == 10
    with pytest.raises(InputError, match="local"):
        us.open_commutes(pa.table(PAIRS), places=PLACES, engine="duckdb")


def test_numbers_in_any_order_are_found_and_unknown_ones_counted():
    """The search starts where the last one ended: forwards, backwards, before the first and beyond the last key."""
    rng = np.random.default_rng(3)
    keys = np.unique(rng.integers(0, 10**15, size=500))
    codes = rng.permutation(len(keys)).astype(np.int32)
    wanted = rng.integers(0, len(keys), size=4_000)
    found, unknown = codes_of(keys[wanted], keys, codes)
    assert unknown == 0
    assert (found == codes[wanted]).all()
    strange = keys[wanted].copy()
    strange[::400] = [-1, 10**16, keys[0] + 1, keys[-1] + 1, -5, 0, 1, 10**15, keys[7] - 1, keys[7] + 1]
    assert codes_of(strange, keys, codes)[1] == (~np.isin(strange, keys)).sum()
    assert codes_of(np.array([5, 4]), np.array([5]), np.array([0], np.int32))[1] == 1


@pytest.mark.parametrize("ids", [["a", "bcd", "ef"], ["abc", "def"], ["\u00e9", "zz"]])
def test_texts_of_any_length_become_a_column(ids):
    values = np.array([text.encode() for text in ids])
    assert texts(values).to_pylist() == ids
    assert texts(values[1:][::-1]).to_pylist() == ids[1:][::-1]
    assert texts(values[:0]).to_pylist() == []


def test_very_long_columns_of_text_have_wide_offsets(monkeypatch):
    monkeypatch.setattr(places_file, "MOST_TEXT", 8)
    values = np.array([b"abc", b"d", b"efg", b"hij"])
    assert texts(values).to_pylist() == ["abc", "d", "efg", "hij"]


def test_missing_and_doubled_columns_are_named():
    with pytest.raises(InputError, match="origin"):
        flows({"destination": ["11"]})
    with pytest.raises(InputError, match="both"):
        flows({**PAIRS, "h_geocode": PAIRS["origin"]})
    with pytest.raises(InputError, match="latitude"):
        read_places(pa.table({"id": ["a"], "longitude": [1.0]}))
    with pytest.raises(InputError, match="no latitude"):
        read_places(
            pa.table({"id": ["a"], "latitude": [None], "longitude": [1.0]}, schema=None).cast(
                pa.schema([("id", pa.string()), ("latitude", pa.float64()), ("longitude", pa.float64())])
            )
        )


def test_nothing_of_a_source_can_be_saved():
    source = us.open_commutes(pa.table(PAIRS), places=PLACES)
    with pytest.raises(DisclosureError):
        source.__reduce__()
    assert "confidential" in repr(source)


def test_an_empty_table_has_no_flows():
    empty = pa.table(PAIRS).slice(0, 0)
    assert us.open_commutes(empty, places=PLACES).total() == 0


def test_places_survive_a_file(tmp_path):
    places = make_places(
        ["long-id", "x"], [1.0, 2.0], [3.0, 4.0], areas={"county": ["aa", "b"]}, population=[1, 2], names=["A", "B"]
    )
    pq.write_table(places_table(places), tmp_path / "p.parquet")
    again = read_places(tmp_path / "p.parquet")
    assert again.fingerprint == places.fingerprint
    assert again.names.tolist() == ["A", "B"]
    assert np.array_equal(again.area("county"), places.area("county"))


@pytest.mark.parametrize(
    ("latitude", "says"),
    [
        ([41.0, -71.0, 41.2, -71.3], "2 of 4 place"),  # swapped in some rows only
        ([-71.0, -71.1, -71.2, -71.3], "4 of 4 place"),
        ([41.0, 90.0, 41.2, 41.3], "1 place.*Pole"),
        ([41.0, 91.0, 41.2, 41.3], "outside -90 to 90"),
    ],
)
def test_places_that_cannot_be_where_they_are_said_to_be(latitude, says):
    with pytest.raises(InputError, match=says):
        make_places(["10", "11", "12", "13"], latitude, [-71.0] * 4)


def a_state(tmp_path):
    from understudy.demo.lodes import write_state

    return write_state(tmp_path)


def test_a_state_is_read_as_it_is_published(tmp_path):
    main, aux, crosswalk = a_state(tmp_path)
    source = us.open_commutes([main, aux], places=crosswalk, outside="state")
    published = [pa.csv.read_csv(file) for file in (main, aux)]
    assert source.total() == sum(int(pa.compute.sum(one["S000"]).as_py()) for one in published)
    places = source.places
    assert list(places.areas) == ["state", "county", "tract"]
    assert set(places.other_areas) == {"metro", "city", "zip", "ring"}
    ring = {code: places.other_areas["ring"][places.codes_of([code])[0]] for code in ("25", "36", "06")}
    assert [places.area_names["ring"][one.decode()] for one in ring.values()] == [
        "outside, 0 to 50 miles", "outside, 100 to 250 miles", "outside, beyond 1000 miles"
    ]  # fmt: skip
    assert (places.other_areas["ring"][places.inside] == b"").all()
    assert places.area_names["metro"] == {"39300": "Harbour Point metro area"}
    assert places.area_names["state"]["25"] == "Massachusetts"
    assert (places.other_areas["city"] == b"").any()  # all nines: in no city
    origins, destinations, jobs = source.flows().confidential_pairs()
    away = {code: int(jobs[origins == places.codes_of([code])[0]].sum()) for code in ("25", "09", "36", "06")}
    texts_of = [str(home).zfill(15)[:2] for home in published[1]["h_geocode"].to_pylist()]
    counted = dict.fromkeys(away, 0)
    for code, number in zip(texts_of, published[1]["S000"].to_pylist(), strict=True):
        counted[code] += number
    assert away == counted
    assert not places.outside[destinations].any()
    again = read_places(places_table(places))
    assert again.fingerprint == places.fingerprint
    assert {
        level: {k: v for k, v in names.items() if v} for level, names in again.area_names.items()
    } == places.area_names


def test_homes_in_other_states_are_refused_unless_they_are_asked_for(tmp_path):
    main, aux, crosswalk = a_state(tmp_path)
    with pytest.raises(InputError, match=r"say outside=state \(--outside state\)"):
        us.open_commutes([main, aux], places=crosswalk).total()
    with pytest.raises(InputError, match=r"outside .* must be 'state'"):
        us.open_commutes([main, aux], places=crosswalk, outside="ring")
    with pytest.raises(InputError, match="begin with the code of a state"):
        us.read_places(PLACES, outside="state")


def test_numbers_of_homes_outside_keep_their_leading_zeros():
    places = make_places(
        ["440010001", "440010002", "06", "25"], [41.0, 41.1, 35.0, 42.0], [-71.0, -71.1, -119.0, -71.0],
        outside=[False, False, True, True],
    )  # fmt: skip
    table = pa.table({"origin": [60371234, 250010001, 440010002], "destination": [440010001] * 3, "jobs": [1, 2, 3]})
    origins, _, jobs = us.open_commutes(table, places=places).flows().confidential_pairs()
    assert dict(zip(places.id_texts(origins), jobs.tolist(), strict=True)) == {"06": 1, "25": 2, "440010002": 3}
    gone = pa.table({"origin": [360010001], "destination": [440010001], "jobs": [1]})
    with pytest.raises(InputError, match=r"1 row\(s\) with a place that is not among"):
        us.open_commutes(gone, places=places).total()
    works = pa.table({"origin": ["440010001"], "destination": ["25"], "jobs": [1]})
    with pytest.raises(InputError, match=r"1 row\(s\) with a workplace outside"):
        us.open_commutes(works, places=places).total()


def test_homes_outside_that_are_one_place_are_added_up_and_pairs_inside_are_not():
    places = make_places(["44001", "44002", "25"], [41.0, 41.1, 42.0], [-71.0] * 3, outside=[False, False, True])
    rows = {"origin": ["25001", "25002", "44002"], "destination": ["44001"] * 3, "jobs": [1, 2, 3]}
    assert flows(rows, places) == {(1, 0): 3, (1, 2): 3}
    twice = {name: [*values, values[-1]] for name, values in rows.items()}
    with pytest.raises(InputError, match=r"^1 row\(s\) of the commutes give jobs for a pair"):
        flows(twice, places)


def test_places_outside_are_checked():
    with pytest.raises(InputError, match="must have one length"):
        make_places(["1", "25", "250"], [41.0] * 3, [-71.0] * 3, outside=[False, True, True])
    with pytest.raises(InputError, match="somebody must work inside"):
        make_places(["1"], [41.0], [-71.0], outside=[True])


@pytest.mark.full
def test_one_command_reads_the_district_of_columbia(tmp_path):
    folder = Path(os.environ.get("UNDERSTUDY_DATA", Path(__file__).resolve().parents[5] / "shared" / "data")) / "lodes"
    files = [folder / f"dc_od_{part}_JT00_2019.csv.gz" for part in ("main", "aux")]
    if not all(file.exists() for file in files):
        pytest.skip("the public files of the District of Columbia are not here (UNDERSTUDY_DATA)")
    made = CliRunner().invoke(
        app,
        ["synthesize", *map(str, files), "--places", str(folder / "dc_xwalk.csv.gz"), "--outside", "state", "--method",
         "commute_tree", "--epsilon", "2", "--option", "segments=age", "--out", str(tmp_path / "dc")],
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    answer = us.infer(us.read_release(tmp_path / "dc"), "count(home in state Maryland, work in tract 11001000101)")
    assert answer.low <= answer.value <= answer.high
