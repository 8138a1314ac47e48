"""Drafts of public files at hand and of a messy one: released as they are drafted, no attribute is absurd."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from understudy.core.schema_file import parse_schema
from understudy.engines.reading.decode import decode
from understudy.engines.reading.draft import draft_schema
from understudy.engines.systems.local.inputs import open_local
from understudy.privacy.randomness.streams import SeededStream

DATA = Path(os.environ.get("UNDERSTUDY_DATA", Path(__file__).resolve().parents[5] / "shared" / "data"))
FILES = (
    "eusilc/eusilc.parquet", "sdnist/ma2019.parquet", "adult/adult.parquet", "nltcs/nltcs.parquet",
    "sd2011/S7.csv", "sd2011/S5.csv", "sd2011/S3.csv", "sd2011/S7.parquet", "sd2011/S5.parquet", "sd2011/S3.parquet",
    "lodes/ri_blocks.parquet", "lodes/ri_od_2019.parquet", "lodes/dc_xwalk.csv.gz",
    pytest.param("lodes/dc_od_main_JT00_2019.csv.gz", marks=pytest.mark.full),
    pytest.param("lodes/dc_od_aux_JT00_2019.csv.gz", marks=pytest.mark.full),
)  # fmt: skip
MOST_IN_ONE_BIN = 0.6  # of the rows that are filled, unless they all have one value


def found(name):
    if not (DATA / name).is_file():
        pytest.skip(f"{DATA / name} is not there; set UNDERSTUDY_DATA to a folder with it")
    return DATA / name


def approved(text):
    return parse_schema(text.replace("draft = true\n", "", 1))


def check(data, schema, rows, column):
    """Every row fits; no bin swallows an amount; what is released looks like what went in."""
    source = open_local(data, schema)
    table, _ = source.confidential_table()
    assert table.rows == rows
    made = decode(table, SeededStream(1), "decode", 1)
    for attribute in schema.attributes:
        codes = np.asarray(table.columns[attribute.name])
        if attribute.levels:
            assert attribute.size < rows / 5, attribute.name
            continue
        amounts = pd.to_numeric(pd.Series(column(attribute.name)), errors="coerce").to_numpy(float)
        in_bins = codes < attribute.bins
        shares = np.bincount(codes[in_bins].astype(int), minlength=attribute.bins) / in_bins.sum()
        fullest = int(shares.argmax())
        kinds = len(np.unique(amounts[codes == fullest]))
        assert shares[fullest] <= MOST_IN_ONE_BIN or kinds == 1, (attribute.name, shares.round(2))
        again = pd.to_numeric(pd.Series(made.column(attribute.name).to_pylist()), errors="coerce").to_numpy(float)
        spread = np.std(amounts[in_bins])
        assert abs(np.median(again[in_bins]) - np.median(amounts[in_bins])) <= 0.5 * spread + 1
        assert abs(np.mean(again[in_bins]) - np.mean(amounts[in_bins])) <= 0.2 * spread, attribute.name


@pytest.mark.parametrize("name", FILES)
def test_a_public_file_released_as_drafted(name):
    path = found(name)
    frame = pd.read_csv(path, keep_default_na=False) if ".csv" in path.name else pq.read_table(path).to_pandas()
    check(path, approved(draft_schema(path)), len(frame), lambda column: frame[column])


def test_what_is_said_of_european_households():
    schema = approved(text := draft_schema(found("eusilc/eusilc.parquet")))
    assert {"db030", "rb030"} <= set(schema.ignore)
    assert "unit_id" in text
    assert schema["eqIncome"].edges
    assert schema["age"].integer
    assert "never filled where age is below 16" in text


def test_what_is_said_of_american_people():
    schema = approved(text := draft_schema(found("sdnist/ma2019.parquet")))
    assert schema["INDP"].levels  # codes of industries are no amounts
    assert schema["PINCP"].special == (("N", "code N"),)
    assert schema["POVPIP"].special == (("N", "code N"),)
    assert schema["DENSITY"].levels
    assert "survey weight" in text
    assert "never filled where AGEP is below" in text


ROWS = 2000
RNG = np.random.default_rng(11)
MESSY = pd.DataFrame(
    {
        "household": np.repeat(np.arange(1, ROWS // 2 + 1), 2),
        "person_id": RNG.permutation(np.arange(10**6, 10**6 + ROWS)),
        "wage": RNG.integers(100_000, 999_999, ROWS),
        "income": np.where(RNG.random(ROWS) < 0.1, "N", np.exp(RNG.normal(9, 1.5, ROWS)).astype(int).astype(str)),
        "zip": RNG.choice(RNG.integers(10_000, 99_999, 30), ROWS),
        "industry_code": RNG.choice(np.arange(170, 9990, 100), ROWS),
        "sex": RNG.choice(["Male", "male", "MALE ", "Female", "NA"], ROWS),
        "hours": np.where(RNG.random(ROWS) < 0.6, 40, RNG.integers(0, 80, ROWS)).astype(str),
        "pregnant": "no",
    }
)
MESSY["pregnant"] = np.where(MESSY["sex"].str.lower().str.startswith("m"), "", RNG.choice(["no", "yes"], ROWS))


@pytest.fixture(scope="module")
def messy(tmp_path_factory):
    path = tmp_path_factory.mktemp("messy") / "messy.csv"
    MESSY.to_csv(path, index=False)
    return path


def test_a_messy_file_released_as_drafted(messy):
    text = draft_schema(messy)
    schema = approved(text)
    check(messy, schema, ROWS, lambda column: MESSY[column])
    assert set(schema.ignore) == {"household", "person_id"}  # a key and an identifier, and the wage is neither
    assert schema["wage"].kind == "numeric"
    assert schema["income"].special == (("N", "code N"),)
    assert schema["income"].integer
    assert len(schema["zip"].levels) == len(MESSY["zip"].unique())
    assert schema["industry_code"].levels
    assert "spellings are read as one level" in text
    assert schema.file.missing_values == ("NA",)
    assert "density" in text
    assert "never filled where sex is" in text


def test_a_draft_without_such_faults_remarks_on_none():
    clean = pd.DataFrame({"sex": ["F", "M"] * 300, "age": RNG.integers(16, 90, 600)})
    text = draft_schema(clean)
    for word in ("spellings", "missing-text", "never filled", "key", "weight", "special"):
        assert word not in text.partition("draft = true")[2]


def test_who_is_asked_shows_although_many_do_not_answer():
    rng = np.random.default_rng(5)
    sex, age = rng.choice(["f", "m"], 900), rng.integers(0, 90, 900)
    births = np.where((sex == "m") | (rng.random(900) < 0.3), None, rng.choice(["no", "yes"], 900))
    job = np.where((age < 16) | (rng.random(900) < 0.3), None, rng.choice(["office", "farm"], 900))
    chance = np.where(rng.random(900) < 0.3, None, "said")
    text = draft_schema(pd.DataFrame({"sex": sex, "age": age, "births": births, "job": job, "chance": chance}))
    assert "never filled where sex is m" in text
    assert "never filled where age is below 16" in text
    assert text.count("never filled") == 2
