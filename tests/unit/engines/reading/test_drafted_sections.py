"""Drafts that write rules, sums and weights as sections; orders that are no chance; times and days in a draft."""

import numpy as np
import pyarrow as pa
import pytest

import understudy as us


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    rng, rows = np.random.default_rng(3), 600
    sex, age = rng.choice(["f", "m"], rows), rng.integers(0, 90, rows)
    wage, bonus = rng.integers(900, 4000, rows), rng.integers(0, 900, rows)
    begin = rng.integers(0, 900, rows)
    length = rng.integers(0, 40, rows)
    days = np.datetime64("2015-01-01") + begin.astype("timedelta64[D]")
    table = pa.table(
        {
            "sex": sex, "age": age, "births": pa.array(rng.integers(0, 4, rows), mask=(sex == "m") | (age < 15)),
            "wage": wage, "bonus": bonus, "total": wage + bonus, "weight": rng.integers(20, 900, rows),
            "start": [str(day).replace("-", "/") for day in days],
            "end": [str(day).replace("-", "/") for day in days + length.astype("timedelta64[D]")],
            "clock": [f"{7 + k % 9}:{k % 60:02d}" for k in range(rows)],
            "narrow": rng.normal(3, 0.4, rows).round(1), "wide": rng.normal(6, 0.4, rows).round(1),
        }
    )  # fmt: skip
    path = tmp_path_factory.mktemp("draft") / "people.csv"
    table.to_pandas().to_csv(path, index=False)
    return path


def test_sections_can_be_used_as_they_are(people, tmp_path):
    text = us.draft_schema(people, sections=True)
    file = tmp_path / "people.toml"
    file.write_text(text.replace("draft = true\n", ""))
    schema = us.read_schema(file)
    told = {rule.describe() for rule in schema.rules}
    assert told == {"births asked only if sex in (f) and age from 15", "start <= end"}
    assert [one.name for one in schema.derived] == ["total"]
    assert schema.weight.column == "weight"
    assert schema["clock"].clock == "minutes"
    assert schema["start"].kind == "date"
    assert us.check_data(people, schema) == 600


def test_without_sections_they_are_remarks_and_chance_is_no_order(people):
    text = us.draft_schema(people)
    assert "\n[[rule]]" not in text
    assert '# order = ["start", "end"]' in text
    assert "narrow <=" not in text


def test_a_draft_of_nothing_says_why(tmp_path):
    (tmp_path / "bad.csv").write_text("x\n" + "inf\n" * 5 + "3\n" * 50)
    with pytest.raises(us.errors.InputError, match="infinite values"):
        us.draft_schema(tmp_path / "bad.csv")
