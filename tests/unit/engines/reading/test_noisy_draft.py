"""A private draft: classes row by row, and a schema from noisy counts alone."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.core.file_format import FileFormat
from understudy.core.schema_file import parse_schema
from understudy.engines.reading.draft_classes import (
    FORMS,
    PLACES,
    class_names,
    class_schema,
    class_table,
    form_of,
    place_of,
)
from understudy.engines.reading.noisy_draft import Column, noisy_draft
from understudy.engines.reading.readers import ArrowReader
from understudy.errors import BudgetError, InputError


def people(rows: int, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    income = np.where(rng.random(rows) < 0.1, 99998, np.exp(rng.normal(9.5, 0.6, rows)).round())
    start = [datetime.date(1990, 1, 1) + datetime.timedelta(days=int(day)) for day in rng.integers(0, 7000, rows)]
    return pa.table(
        {
            "person_id": np.arange(rows),
            "sex": rng.choice(["F", "M"], rows),
            "income": [f"{value:,.0f}" for value in income],
            "children": rng.integers(0, 4, rows),
            "start": [day.strftime("%d.%m.%Y") for day in start],
            "rate": rng.random(rows).round(2),
            "flag": rng.random(rows) < 0.3,
            "year": rng.integers(1950, 2020, rows),
            "name": [f"Zaphod {number}" for number in range(rows)],
            "empty": pa.nulls(rows, pa.string()),
        }
    )


@pytest.mark.parametrize(
    ("text", "form", "number"),
    [
        ("12", "number: point, 0 decimals", 12.0),
        ("12.50", "number: point, 2 decimals", 12.5),
        ("1,234", "number: point, thousands by comma, 0 decimals", 1234.0),
        ("1.234,5", "number: comma, thousands by point, 1 decimals", 1234.5),
        ("2 574,41", "number: comma, thousands by blank, 2 decimals", 2574.41),
        ("0,5", "number: comma, 1 decimals", 0.5),
        ("3e-07", "number: point, 4 decimals", 3e-7),
        ("007", "a short text", None),
        ("1e999", "a short text", None),
        ("2024-04-03T17:55:00", "day", None),
        ("31.12.2024", "day.month.year", None),
        ("12/31/2024", "month/day/year", None),
        ("2024-02-31", "a short text", None),
        ("N/A", "a text such as NA", None),
        ("x" * 40, "a long text", None),
    ],
)
def test_forms(text: str, form: str, number: float | None) -> None:
    assert form_of(text) == (form, number)
    assert form in FORMS
    assert place_of(text, form, number) in PLACES


def classes(table: pa.Table) -> pa.Table:
    return class_table(ArrowReader(table), table.column_names, None, told=FileFormat())


def test_a_class_depends_on_its_own_row_alone() -> None:
    table = people(300)
    order = np.random.default_rng(3).permutation(300)
    whole = classes(table).to_pandas()
    assert whole.iloc[order].reset_index(drop=True).equals(classes(table.take(order)).to_pandas())
    other = pa.concat_tables([table.slice(0, 299), people(1, seed=9)])
    changed = (classes(other).to_pandas().astype(str) != whole.astype(str)).any(axis=1)
    assert not changed[:299].any()


def test_a_missing_value_makes_no_other_class_of_large_whole_numbers() -> None:
    """pandas makes floats of them all."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(7)
    numbers = [*(10**power + 1 for power in range(1, 19)), *rng.integers(-(2**62), 2**62, 50).tolist(), 0, -8, 99998]
    whole, floats = (pa.Table.from_pandas(pd.DataFrame({"a": one})) for one in (numbers, [*numbers, None]))
    assert whole.schema.types != floats.schema.types
    assert classes(floats).slice(0, len(numbers)).to_pylist() == classes(whole).to_pylist()


def test_every_class_is_a_level_of_the_public_schema() -> None:
    table = people(200)
    schema = class_schema(range(table.num_columns))
    assert us.check_data(classes(table), schema) == 200


def counted(table: pa.Table) -> list[Column]:
    """The counts without noise, as if it were small."""
    found = classes(table).to_pandas()
    columns = []
    for number, name in enumerate(table.column_names):
        forms, places = class_names(number)
        columns.append(
            Column(
                name=name,
                forms=np.array([(found[forms] == level).sum() for level in FORMS], float),
                places=np.array([(found[places] == level).sum() for level in PLACES], float),
                spread=20.0,
            )
        )
    return columns


def test_the_schema_follows_from_the_counts_and_fits_the_data() -> None:
    table = people(20_000)
    text = noisy_draft(counted(table), ignored={}, text_file=True, told=FileFormat(), head=["Made for a test."])
    schema = parse_schema(text)
    assert schema["sex"].levels == ("other",)
    assert schema["sex"].open
    assert schema["flag"].levels == (False, True)
    assert schema["income"].heavy_tail
    assert schema["income"].special == ((99998, "code 99998"),)
    assert schema["income"].bounds[0] == 0
    assert 100_000 <= schema["income"].bounds[1] <= 1_000_000
    assert schema["children"].bounds == (0, 6)
    assert schema["year"].bounds == (1000, 5000)
    assert schema["start"].bounds == (datetime.date(1990, 1, 1), datetime.date(2009, 12, 31))
    assert schema["rate"].decimals == 2
    assert schema.file is not None
    assert (schema.file.dates, schema.file.thousands, schema.file.unreadable) == ("dmy", ",", "missing")
    assert set(schema.ignore) == {"person_id", "name", "empty"}
    assert "Zaphod" not in text


def test_nothing_is_drafted_from_noise() -> None:
    rng = np.random.default_rng(4)
    noise = [
        Column(name="x", forms=rng.laplace(0, 100, len(FORMS)), places=rng.laplace(0, 100, len(PLACES)), spread=1e4)
    ]
    with pytest.raises(InputError, match="no column is clear of the noise"):
        noisy_draft(noise, ignored={}, text_file=False, told=FileFormat(), head=[])


def test_a_private_draft_is_charged_and_used_as_it_is(tmp_path) -> None:
    table, book, out = people(6000).drop_columns(["name"]), tmp_path / "budget.db", tmp_path / "people.toml"
    us.Ledger.create(book).create_account("people", unit=us.Unit(), limit=us.ApproxDP(epsilon=2, delta="1e-8"))
    budget = us.ApproxDP(epsilon=1, delta="1e-9")
    data = tmp_path / "people.csv"
    table.to_pandas().to_csv(data, index=False)
    text = us.draft_privately(data, budget=budget, ledger=book, account="people", out=out)
    assert out.read_text() == text
    assert "charged to the account 'people'" in text
    assert us.check_data(data, us.read_schema(out)) == 6000
    assert us.Ledger.open(book).account("people").spent != 0
    with pytest.raises(InputError, match="already exists"):
        us.draft_privately(data, budget=budget, ledger=book, account="people", out=out)


def test_a_draft_that_noise_would_hide_is_refused_before_the_charge(tmp_path) -> None:
    book = tmp_path / "budget.db"
    us.Ledger.create(book).create_account("people", unit=us.Unit(), limit=us.PureDP(epsilon=1))
    before = us.Ledger.open(book).account("people")
    with pytest.raises(InputError, match="Nothing was charged"):
        us.draft_privately(people(200), budget=us.PureDP(epsilon="0.1"), ledger=book, account="people")
    assert us.Ledger.open(book).account("people") == before
    with pytest.raises(BudgetError):
        us.draft_privately(people(20_000), budget=us.PureDP(epsilon=2), ledger=book, account="people")


def test_a_unit_with_several_rows_is_bounded(tmp_path) -> None:
    rng = np.random.default_rng(5)
    table = pa.table({"owner": rng.integers(0, 3000, 9000), "pay": rng.lognormal(7, 1, 9000).round(2)})
    unit = us.Unit(kind="replace", rows_per_unit=3, unit_id="owner")
    book = tmp_path / "budget.db"
    us.Ledger.create(book).create_account("pay", unit=unit, limit=us.PureDP(epsilon=3))
    text = us.draft_privately(table, budget=us.PureDP(epsilon=2), ledger=book, account="pay", unit=unit)
    assert parse_schema(text).names == ("pay",)
    assert "3 row(s) of a unit" in text


def test_too_many_columns_are_refused_before_the_charge(tmp_path) -> None:
    book = tmp_path / "budget.db"
    us.Ledger.create(book).create_account("wide", unit=us.Unit(), limit=us.PureDP(epsilon=1))
    wide = pa.table({f"c{number}": [1, 2] for number in range(1001)})
    with pytest.raises(InputError, match="too many for a private draft"):
        us.draft_privately(wide, budget=us.PureDP(epsilon=1), ledger=book, account="wide")
