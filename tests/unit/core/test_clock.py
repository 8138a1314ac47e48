"""Times of day and durations: read, drawn, asked about, and written as they were."""

import datetime

import pyarrow as pa
import pytest

import understudy as us
from understudy.core.schema_file import parse_schema, write_schema
from understudy.privacy.randomness.streams import SeededStream
from understudy.release.csv_file import csv_table

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
SCHEMA = parse_schema(
    """version = 1
[[attribute]]
name = "come"
clock = "minutes"
bounds = [06:00:00, 22:00:00]
[[attribute]]
name = "leave"
clock = "minutes"
bounds = [0, 3000]
special = { -8 = "unknown" }
[[rule]]
order = ["come", "leave"]
""",
    "a test",
)


def test_times_are_numbers_in_the_schema_and_come_back_from_its_file():
    assert SCHEMA["come"].bounds == (360, 1320)
    assert SCHEMA["come"].integer
    assert parse_schema(write_schema(SCHEMA), "a test") == SCHEMA


@pytest.mark.parametrize(
    "columns",
    [
        {"come": ["8:30", "9:00 PM"], "leave": ["10:15:59", "-8"]},
        {"come": pa.array([datetime.time(8, 30)] * 2), "leave": pa.array([datetime.timedelta(hours=30)] * 2)},
        {"come": [510, 511], "leave": [600, -8]},
    ],
    ids=["texts", "arrow", "numbers"],
)
def test_many_ways_to_write_a_time_are_read(columns):
    assert us.check_data(pa.table(columns), SCHEMA) == 2


@pytest.mark.parametrize(
    ("come", "problem"), [("8.30", "not a whole number"), ("23:00", "outside"), ("8:75", "not a number")]
)
def test_what_is_no_time_is_a_violation(come, problem):
    with pytest.raises(us.errors.SchemaError, match=problem):
        us.check_data(pa.table({"come": [come], "leave": ["23:30"]}), SCHEMA)


def test_a_release_keeps_the_rule_and_its_csv_has_times():
    rows = pa.table(
        {"come": [f"{7 + k % 9}:{k % 60:02d}" for k in range(600)], "leave": [f"{20 + k % 9}:00" for k in range(600)]}
    )
    made = us.synthesize(rows, schema=SCHEMA, budget=us.PureDP(epsilon=4), method="independent", stream=SeededStream(2))
    frame = made.to_pandas()
    there = frame.leave >= 0
    assert (frame.come[there] <= frame.leave[there]).all()
    assert 0.2 < us.infer(made, "proportion(come < '10:00')").estimate < 0.5
    written = csv_table(made.frame()).column("come").to_pylist()
    assert us.check_data(pa.table({"come": written, "leave": csv_table(made.frame()).column("leave")}), SCHEMA) == 600
    assert all(len(text) == 5 and text[2] == ":" for text in written)


@pytest.mark.parametrize(
    "more", ['clock = "hours"\nbounds = [0, 9]', 'clock = "minutes"\nbounds = [-5, 5]', "bounds = [08:00:00, 09:00:00]"]
)
def test_clocks_that_make_no_sense_are_refused(more):
    with pytest.raises(us.errors.SchemaError, match="clock"):
        parse_schema(f'version = 1\n[[attribute]]\nname = "x"\n{more}\n', "a test")
