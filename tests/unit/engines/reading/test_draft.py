"""Drafts: what they list, what they flag, that they are private and refused, and that a reviewed one fits the data."""

from __future__ import annotations

import datetime
import json
import os
import re
import stat

import numpy as np
import pandas as pd
import pyarrow as pa
import pyreadstat
import pytest

from understudy.core.bins import level_numbers
from understudy.core.schema_file import parse_schema, read_schema
from understudy.engines.reading import drafted_column as profile
from understudy.engines.reading.draft import HEAD, draft_schema, write_draft
from understudy.engines.systems.local.inputs import open_local
from understudy.errors import DisclosureError, InputError, SchemaError

ROWS = 600
RNG = np.random.default_rng(5)
FRAME = pd.DataFrame(
    {
        "pid": np.arange(ROWS) + 1000,
        "name": [f"person {number}" for number in range(ROWS)],
        "sex": ["F", "M"] * (ROWS // 2),
        "age": RNG.integers(16, 97, ROWS),
        "income": np.where(np.arange(ROWS) % 10 == 0, 99998, np.exp(RNG.normal(7, 1, ROWS)).astype(int).clip(1, 60000)),
        "wage": np.where(np.arange(ROWS) % 9 == 0, -8, np.round(RNG.normal(20, 4, ROWS).clip(1, 39), 2)),
        "kids": RNG.integers(0, 6, ROWS),
        "grade": [f"{number % 12:02d}" for number in range(ROWS)],
        "born": [datetime.date(1930, 3, 1) + datetime.timedelta(days=41 * number) for number in range(ROWS)],
        "note": [f"a long remark about somebody and about the number {number % 90}" for number in range(ROWS)],
        "always": ["x"] * ROWS,
        "rare": ["common"] * (ROWS - 3) + ["uncommon"] * 3,
        "gaps": [None if number % 7 else "a" for number in range(ROWS)],
        "flag": [True, False] * (ROWS // 2),
        "empty": pd.array([None] * ROWS, "string"),
    }
)


def reviewed(text):
    assert text.splitlines()[0] == HEAD.splitlines()[0]
    assert "CONFIDENTIAL" in text.splitlines()[0]
    with pytest.raises(SchemaError, match="is a draft"):
        parse_schema(text)
    return parse_schema(text.replace("draft = true\n", "", 1))


def remarks(text, name):
    """The comments above what the draft says about a column."""
    block = next(part for part in text.split("\n\n") if f'name = "{name}"' in part or f'columns = ["{name}"]' in part)
    return " ".join(line for line in block.splitlines() if line.startswith("#"))


@pytest.mark.parametrize("kind", ["frame", "csv", "parquet"])
def test_a_draft_describes_the_data_and_fits_them_once_reviewed(kind, tmp_path):
    data = FRAME
    if kind == "csv":
        data = tmp_path / "people.csv"
        FRAME.to_csv(data, index=False)
    elif kind == "parquet":
        data = tmp_path / "people.parquet"
        FRAME.to_parquet(data)
    text = draft_schema(data)
    schema = reviewed(text)
    assert set(schema.ignore) == {"pid", "name", "note", "empty"}
    assert schema["sex"].levels == ("F", "M")
    assert schema["kids"].levels == (0, 1, 2, 3, 4, 5)
    assert schema["grade"].levels[:3] == ("00", "01", "02")
    assert schema["age"].edges == (10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
    assert schema["age"].integer
    assert not schema["wage"].integer
    assert schema["income"].special == ((99998, "code 99998"),)
    assert schema["wage"].special == ((-8, "code -8"),)
    assert schema["born"].edges[0] == datetime.date(1930, 1, 1)
    assert 'seen in the data and rounded: replace them with public ones.\n[[attribute]]\nname = "born"' in text
    assert schema["gaps"].missing
    assert not schema["sex"].missing
    for attribute in schema.attributes:
        if attribute.edges:
            assert 1 <= attribute.bins <= 10
    source = open_local(data, schema)
    assert source.total() == ROWS
    assert source.count([("sex", "kids")])[0].values.sum() == ROWS


def test_remarks():
    text = draft_schema(FRAME)
    assert "identifier" in remarks(text, "pid")
    assert "identifier" in remarks(text, "name")
    assert "free text" in remarks(text, "note")
    assert "never filled" in remarks(text, "empty")
    assert "constant" in remarks(text, "always")
    assert "rare: 1 of 2 levels" in remarks(text, "rare")
    assert "uncommon" not in remarks(text, "rare")
    assert "probable codes" in remarks(text, "income")
    assert "rounded" in remarks(text, "age")
    assert remarks(text, "sex") == ""


def test_a_column_with_too_many_levels():
    values = [f"place {number % 1100}" for number in range(4400)]
    text = draft_schema(pd.DataFrame({"place": values, "sex": ["F", "M"] * 2200}))
    assert "has 1,100 levels" in remarks(text, "place")
    assert reviewed(text).ignore == ("place",)


def test_columns_with_more_values_than_are_told_apart(monkeypatch):
    monkeypatch.setattr(profile, "MOST_DISTINCT", 50)
    frame = pd.DataFrame(
        {
            "id": [f"k{number}" for number in range(400)],
            "place": [f"p{number % 60}" for number in range(400)],
            "amount": np.arange(400) * 1.5 - 3,
            "sex": ["F", "M"] * 200,
        }
    )
    frame["place"] = ["p0"] * 200 + list(frame["place"][:200])
    text = draft_schema(frame)
    assert "identifier" in remarks(text, "id")
    assert "has more than 50 levels" in remarks(text, "place")
    schema = reviewed(text)
    assert schema["amount"].edges[0] == -100
    assert open_local(frame, schema).total() == 400


@pytest.mark.parametrize("ending", ["sav", "dta"])
def test_labels_of_the_file_go_into_the_draft(ending, tmp_path):
    path = tmp_path / f"a.{ending}"
    frame = pd.DataFrame(
        {
            "sex": [*([1.0, 2.0] * 30)[:59], 7.0],
            "income": [-8.0, *np.arange(59) * 10.5],
            "place": ["a", "", "b"] * 20,
            "answer": ([1.0, 2.0, 9.0] * 20),
        }
    )
    options = {
        "column_labels": {"sex": "Sex at birth"},
        "variable_value_labels": {
            "sex": {1: "male", 2: "female", 3: "other"},
            "income": {-8: "refused"},
            "answer": {1: "yes", 2: "no", 9: "no answer"},
        },
    }
    if ending == "sav":
        pyreadstat.write_sav(frame, path, missing_ranges={"answer": [9]}, **options)
    else:
        pyreadstat.write_dta(frame, path, **options)
    text = draft_schema(path)
    schema = reviewed(text)
    assert schema["sex"].label == "Sex at birth"
    assert schema["sex"].levels == (1, 2, 3, 7)  # 3 is labelled and does not occur, 7 occurs and is not labelled
    assert schema["sex"].level_labels == ("male", "female", "other", "")
    assert "1 level(s) have no label" in remarks(text, "sex")
    assert schema["income"].special == ((-8, "refused"),)
    assert schema["place"].levels == ("a", "b")
    assert schema["place"].missing
    declared = ending == "sav"
    assert schema["answer"].levels == ((1, 2) if declared else (1, 2, 9))
    assert schema["answer"].missing == declared
    assert open_local(path, schema).total() == 60


def test_decimal_commas(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("wage;size\n" + "".join(f"{number},25;{number % 3}\n" for number in range(40)))
    schema = reviewed(draft_schema(path, delimiter=";", decimal_comma=True))
    assert schema["wage"].kind == "numeric"
    assert schema["size"].levels == (0, 1, 2)
    assert open_local(path, schema, delimiter=";", decimal_comma=True).total() == 40
    guessed = reviewed(draft_schema(path))
    assert (guessed.file.delimiter, guessed.file.decimal) == (";", ",")
    assert open_local(path, guessed).total() == 40
    with pytest.raises(InputError, match="goes with CSV"):
        draft_schema(FRAME, decimal_comma=True)


def test_decimal_commas_with_a_question_asked_of_some_people(tmp_path):
    rows = "".join(
        f"{k % 90};{'' if k % 90 < 16 else f'{k * 3.55 if k % 2 == 0 else 0:.2f}'.replace('.', ',')}\n"
        for k in range(900)
    )
    path = tmp_path / "a.csv"
    path.write_text("age;pay\n" + rows)
    text = draft_schema(path, decimal_comma=True)
    assert "never filled where age is below 16" in text
    pay = parse_schema(text.replace("draft = true\n", ""), "draft")["pay"]
    assert pay.decimals == 2
    assert pay.edges[:2] == (0, 0.01)


def test_what_is_written_otherwise_is_guessed_and_said(tmp_path):
    path = tmp_path / "a.csv"
    rows = "".join(f'{k % 28 + 1:02}.{k % 12 + 1:02}.20{k % 20:02},"{k},5",{k % 3}\n' for k in range(600))
    path.write_text("day,cost,group\n" + rows)
    text = draft_schema(path)
    assert "# days stand before months.\n" in text
    assert "# numbers have a decimal comma.\n" in text
    schema = reviewed(text)
    assert (schema["day"].kind, schema["cost"].decimals) == ("date", 1)
    assert open_local(path, schema).total() == 600


def test_what_is_written_in_two_ways_is_left_out_and_said_so(tmp_path):
    path = tmp_path / "a.csv"
    days = ["13.05.2020", "05/14/2020"]
    path.write_text(
        "day,cost,sex\n" + "".join(f'{days[k % 2]},"{k}{",."[k % 5 < 2]}25",{"FM"[k % 2]}\n' for k in range(600))
    )
    text = draft_schema(path)
    assert "'day' holds dates that are not all written in one way" in text
    assert "'cost' holds numbers with a decimal comma and others" in text


def test_codes_of_countries_are_no_amounts():
    text = draft_schema(pa.table({"native-country": [k % 40 for k in range(4000)], "sex": ["F", "M"] * 2000}))
    assert "edges" not in text.partition("draft = true")[2]


def test_missing_texts(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\nNA,1\nx,NA\ny,2\n")
    schema = reviewed(draft_schema(path, missing_text="NA"))
    assert schema["a"].levels == ("x", "y")
    assert schema["b"].levels == (1, 2)
    assert schema["a"].missing
    assert open_local(path, schema, missing_text="NA").total() == 3


def test_odd_columns():
    table = pa.table(
        {
            "list": [[1], [2]],
            "<odd": ["a", "b"],
            "mark": ["<missing>", "b"],
            "huge": [2**60, 1],
            "endless": [float("inf"), 1.0],
            "same": [2.5, 2.5],
            'quo"te\n[[x]]': ["a", 'b"\n'],
        }
    )
    text = draft_schema(table)
    schema = reviewed(text)
    assert set(schema.ignore) == {"list", "<odd", "mark", "huge", "endless"}
    assert schema.names == ("same", 'quo"te\n[[x]]')
    assert "constant" in remarks(text, "same")
    assert open_local(table, schema).total() == 2


def test_nothing_to_draft_from(tmp_path):
    with pytest.raises(InputError, match="no rows"):
        draft_schema(FRAME.iloc[:0])
    with pytest.raises(InputError, match="no column of the data"):
        draft_schema(FRAME[["pid", "name"]])
    with pytest.raises(InputError, match="same name"):
        draft_schema(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]))
    with pytest.raises(InputError, match="does not exist"):
        draft_schema(tmp_path / "none.csv")


def test_a_draft_is_for_its_owner_alone(tmp_path):
    path = write_draft(draft_schema(FRAME[["sex"]]), tmp_path / "people.toml")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    with pytest.raises(SchemaError, match="is a draft"):
        read_schema(path)
    before = path.read_bytes()
    with pytest.raises(InputError, match="already exists"):
        write_draft("other", path)
    assert path.read_bytes() == before
    with pytest.raises(InputError, match="does not exist"):
        write_draft("other", tmp_path / "none" / "people.toml")
    (tmp_path / "release").mkdir()
    (tmp_path / "release" / "manifest.json").write_text("{}")
    with pytest.raises(DisclosureError, match="confidential and stays out"):
        write_draft("other", tmp_path / "release" / "people.toml")
    assert os.listdir(tmp_path / "release") == ["manifest.json"]


def test_few_numbers_are_levels_that_questions_take_as_numbers(tmp_path):
    rng = np.random.default_rng(3)
    kids, age = rng.integers(0, 4, 400).astype(float), rng.choice([17.5, 22, 30], 400)
    frame = pd.DataFrame({"kids": kids, "age": age})
    frame.loc[::9, "kids"] = np.nan  # so that a data frame writes 2.0
    frame.to_csv(tmp_path / "few.csv", index=False)
    schema = reviewed(draft_schema(tmp_path / "few.csv"))
    assert schema["kids"].levels == (0, 1, 2, 3)
    assert schema["age"].levels == ("17.5", "22.0", "30.0")
    assert level_numbers(schema["age"]) == (17.5, 22, 30)


@pytest.mark.parametrize(
    "name", ["weight", "WTMEC2YR", "PWGTP", "fnlwgt", "pspwght", "perwt", "pw", "Gewicht", "poids"]
)
def test_a_survey_weight_is_proposed_with_the_section_that_declares_it(name, tmp_path):
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({name: np.round(rng.lognormal(6, 1, 300), 2) + 1, "sex": rng.choice(["F", "M"], 300)})
    frame.to_csv(tmp_path / "survey.csv", index=False)
    text = draft_schema(tmp_path / "survey.csv")
    block = next(part for part in text.split("\n\n") if f'name = "{name}"' in part)
    section = "\n".join(
        line[2:] for line in block.splitlines() if line.startswith(("# [weight]", "# column", "# bounds"))
    )
    as_told = text.replace(block, section).replace("draft = true\n", "", 1)
    schema = parse_schema(as_told)
    assert schema.weight.column == name
    assert schema.weight.bounds[0] <= frame[name].min()
    assert frame[name].max() <= schema.weight.bounds[1] <= 10 * frame[name].max()


def test_what_says_how_a_sample_was_drawn_is_known_by_its_name():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "SDMVSTRA": rng.integers(1, 9, 900), "psu": rng.integers(1, 3, 900), "status": rng.choice(["a", "b"], 900),
            "weight": np.tile([0.25, 1.0, 1.75], 300),
        }
    )  # fmt: skip
    text = draft_schema(frame)
    assert 'sampling_strata = "SDMVSTRA" under [design]' in text
    assert 'clusters = "psu" under [design]' in text
    assert text.count("by its name it may be") == 2
    assert '# sums_to = "sample"' in text  # three weights, which add up to the number of rows
    assert "sums_to" not in draft_schema(frame.assign(weight=3 * frame["weight"]))


@pytest.mark.parametrize("name", ["height", "growth", "width", "two"])
def test_other_amounts_are_not_taken_for_weights(name):
    frame = pd.DataFrame({name: np.random.default_rng(4).lognormal(6, 1, 300)})
    assert "survey weight" not in draft_schema(frame)


def test_the_weight_of_a_body_is_no_survey_weight(tmp_path):
    frame = pd.DataFrame({"wt71": np.random.default_rng(4).normal(70, 12, 400).round(2), "sex": ["F", "M"] * 200})
    pyreadstat.write_sav(frame, tmp_path / "body.sav", column_labels={"wt71": "WEIGHT IN KILOGRAMS IN 1971"})
    pyreadstat.write_sav(frame, tmp_path / "survey.sav", column_labels={"wt71": "Weight of the first wave"})
    assert "survey weight" not in draft_schema(tmp_path / "body.sav")
    assert "survey weight" in draft_schema(tmp_path / "survey.sav")


def test_what_fills_a_field_of_six_digits_is_a_code_if_nothing_comes_near():
    rng = np.random.default_rng(3)
    liquid, lines = rng.lognormal(4, 1, 1500).round(2), rng.integers(0, 60, 1500).astype(float)
    liquid[:9], lines[0] = 1_000_000, 999_999.375
    close = rng.lognormal(12, 1, 1500).clip(0, 900_000).round(2)
    close[:9] = 1_000_000  # others come near: an amount
    text = draft_schema(pd.DataFrame({"liquid": liquid, "lines": lines, "close": close}))
    schema = reviewed(text)
    assert schema["liquid"].special == ((1_000_000, "code 1000000"),)
    assert schema["lines"].special == ((999_999.375, "code 999999.375"),)
    assert not schema["close"].special
    assert schema["liquid"].edges[-1] < 20_000
    assert schema["lines"].edges[-1] == 60


def test_values_near_the_top_of_their_range_are_told_apart(tmp_path):
    """Scores of 60 to 100, mostly above 90, and logs of incomes with a few low ones: no bin takes most of the rows."""
    rng = np.random.default_rng(6)
    score = 100 - rng.exponential(6, 4000).clip(0, 40).astype(int)
    logs = np.where(rng.random(4000) < 0.05, rng.uniform(0, 6, 4000), rng.normal(8.8, 0.5, 4000)).round(4)
    frame = pd.DataFrame({"score": score, "logs": logs})
    text = draft_schema(frame)
    schema = reviewed(text)
    for name in frame:
        shares = np.histogram(frame[name], schema[name].edges)[0] / len(frame)
        assert shares.max() <= 0.4, (name, schema[name].edges, shares)
    assert "heavy_tail" not in remarks(text, "score")
    fields = {"fields": [{"name": "score", "type": "integer", "constraints": {"minimum": -100, "maximum": 100}}]}
    (tmp_path / "book.json").write_text(json.dumps(fields))  # bounds that nobody comes near make no tail either
    assert "heavy_tail" not in remarks(draft_schema(frame, codebook=tmp_path / "book.json"), "score")
    assert "most values are small" not in text


def test_a_rule_about_who_is_asked_can_be_taken_as_it_is_offered():
    number = np.arange(600)
    births = np.where(number % 2 == 0, "N", (number % 40).astype(str))
    text = draft_schema(pd.DataFrame({"sex": np.where(number % 2 == 0, "m", "f"), "births": births}))
    offered = [line[2:] for line in text.splitlines() if line.startswith(("# [[rule]]", "# asked", "# otherwise"))]
    schema = parse_schema(text.replace("draft = true\n", "", 1) + "\n" + "\n".join(offered))
    assert len(schema.rules) == 1


def test_codes_and_amounts_may_be_left_to_the_release():
    rng = np.random.default_rng(8)
    income = np.where(rng.random(4000) < 0.1, 99998, rng.lognormal(10.3, 0.9, 4000).round())
    icd = np.where(rng.random(4000) < 0.7, "I10", [f"Z{number:03d}" for number in rng.integers(0, 400, 4000)])
    visit = [f"2024-03-{day:02d}T08:{minute:02d}" for day, minute in rng.integers(1, 29, (4000, 2))]
    text = draft_schema(pa.table({"income": income, "icd": icd, "visit": visit, "small": rng.exponential(1e-5, 4000)}))
    schema = parse_schema(text.replace("draft = true\n", "", 1))
    assert schema["income"].special == ((99998, "code 99998"),)
    assert schema["visit"].kind == "date"
    assert '# name = "icd"\n# levels = "discover"' in text
    assert "# heavy_tail = true" in text


@pytest.mark.parametrize("nested", [True, False])
def test_a_question_about_the_answer_to_another(nested):
    """Nobody without a job is asked about its wage; the draft says so only where the data do."""
    rng = np.random.default_rng(6)
    age = rng.integers(0, 90, 900)
    job = np.where((age < 9) | (age > 80), None, rng.choice(["none", "office", "farm"], 900))
    wage = np.where((job == "none") | (age < 9) | (nested & (age > 80)), None, rng.choice(["low", "high"], 900))
    text = draft_schema(pd.DataFrame({"age": age, "job": job, "wage": wage}))
    assert "never filled where job is none" in remarks(text, "wage")
    assert ('# if_missing = "not asked"' in remarks(text, "wage")) == nested


def test_a_rule_about_who_is_asked_names_an_answer_and_nobodys_amount():
    """Hours were asked of people with a job, and not of children, of whom nothing is known; wages say so by chance."""
    rng = np.random.default_rng(2)
    job = rng.choice(np.array(["yes", "no", None], dtype=object), 3000, p=[0.4, 0.4, 0.2])
    wage = np.where(job == "yes", rng.lognormal(7.4, 0.6, 3000).clip(238.35).round(2), 0)
    hours = np.where(job == "yes", rng.integers(5, 60, 3000), np.nan)
    text = draft_schema(pd.DataFrame({"job": job, "wage": wage, "hours": hours}))
    said = remarks(text, "hours")
    assert "never filled where job is no." in said
    assert 'if_missing = "not asked"' in said
    said = remarks(draft_schema(pd.DataFrame({"wage": wage, "hours": hours})), "hours")
    (bound,) = re.findall(r"wage = { above = (\S+) }", said)
    assert 0 < float(bound) < wage[wage > 0].min()
    assert "238.35" not in said
