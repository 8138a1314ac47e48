"""Numbers behind bins, whatever type or format holds them, and what an empty table gives."""

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from understudy.commutes.source.places_file import read_places
from understudy.core.file_format import FileFormat
from understudy.core.schema import Attribute, Schema
from understudy.core.schema_file import parse_schema, write_schema
from understudy.engines.reading.encode import encode_table
from understudy.engines.reading.values import canonical_texts, iso_day_number, values_of
from understudy.engines.systems.local.inputs import open_local
from understudy.errors import InputError, SchemaError

AGE = Attribute(name="age", edges=(0, 10, 20), outside="clip", missing=True, special=((-8, "refused"),))
DAY = Attribute(name="day", edges=(datetime.date(1960, 1, 1), datetime.date(1980, 1, 1)), missing=True)
EXPECTED = [3.5, 20.0, np.nan, np.nan, 0.0]


def read(attribute, column):
    table = pa.table({attribute.name: column})
    codes = encode_table(table, Schema(attributes=(attribute,))).columns[attribute.name]
    return values_of(table.column(attribute.name), codes, attribute)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([3.5, 1e300, -8, None, -7.5]),
        pa.array([" +3.5", "1e999", "-8", None, "-1E5 "]),
        pa.array(["3.5", "1e999", "-8", None, "-1"]).dictionary_encode(),
        pa.array([Decimal("3.5"), Decimal("99.0"), Decimal("-8.0"), None, Decimal("-1.5")]),
        pa.chunked_array([pa.array([3.5, 21.0]), pa.array([-8.0, None, -2.0])]),
    ],
)
def test_numbers_are_the_same_from_every_type(column):
    np.testing.assert_array_equal(read(AGE, column), EXPECTED)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([datetime.date(1969, 12, 31), None]),
        pa.array([" 1969-12-31", None]),
        pa.array([datetime.datetime(1969, 12, 31, 23, 59), None], pa.timestamp("us")),
    ],
)
def test_days_before_1970_are_not_rounded_up(column):
    np.testing.assert_array_equal(read(DAY, column), [-1.0, np.nan])


def test_a_column_that_is_all_missing_has_no_numbers():
    assert np.isnan(read(AGE, pa.array([None, None]))).all()
    assert np.isnan(read(DAY, pa.array([None, None]))).all()


def test_weeks_are_not_days_of_the_calendar():
    assert iso_day_number("1970-01-02") == 1
    assert iso_day_number("2026-W01-1") is None
    with pytest.raises(SchemaError, match="not a date") as refused:
        read(DAY, pa.array(["1970-W01-1"]))
    assert "W01" not in str(refused.value)


def test_minus_zero_is_zero():
    assert canonical_texts(pa.array([Decimal("-0.00"), Decimal("0.00"), Decimal("1.50")])).to_pylist() == [
        "0",
        "0",
        "1.5",
    ]


def test_a_table_without_rows_has_columns_without_values(tmp_path):
    schema = Schema(attributes=(AGE, Attribute(name="sex", levels=("F", "M"))))
    (tmp_path / "empty.csv").write_text("age,sex\n")
    for data in (
        tmp_path / "empty.csv",
        pa.table({"age": pa.array([], pa.float64()), "sex": pa.array([], pa.string())}),
    ):
        source = open_local(data, schema)
        codes, rows = source.confidential_table()
        assert rows.column_names == ["age", "sex"]
        assert rows.num_rows == codes.rows == source.confidential_codes().rows == 0


def test_a_file_of_no_places_is_refused(tmp_path):
    (tmp_path / "places.csv").write_text("id,latitude,longitude\n")
    with pytest.raises(InputError, match="no rows"):
        read_places(tmp_path / "places.csv")


def test_texts_among_numbers_and_dates_can_be_missing_values(tmp_path):
    path = tmp_path / "messy.csv"
    lines = ["pay,born", "12.5,2024-04-03T17:55:00", "refused,2024-02-31", "1_000,03.04.2024", "inf,2024-12-31 23:59Z"]
    path.write_text("\n".join(lines))
    attributes = (
        Attribute(name="pay", bounds=(0, 100), missing=True),
        Attribute(name="born", bounds=(datetime.date(2024, 1, 1), datetime.date(2024, 12, 31)), missing=True),
    )
    with pytest.raises(SchemaError, match="pay: 3 rows"):
        open_local(str(path), Schema(attributes=attributes)).total()
    schema = Schema(attributes=attributes, file=FileFormat(unreadable="missing"))
    codes = open_local(str(path), schema).confidential_codes()
    missing = [list(codes.columns[name] == schema[name].missing_code) for name in schema.names]
    assert missing == [[False, True, True, True], [False, True, True, False]]
    assert parse_schema(write_schema(schema)).file == schema.file
    with pytest.raises(SchemaError, match="unreadable"):
        FileFormat(unreadable="drop")  # type: ignore[arg-type]
