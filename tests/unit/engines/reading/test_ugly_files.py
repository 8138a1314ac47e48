"""Files as agencies export them: drafted, read by the draft with nothing else said, and no column is absurd."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.core.schema_file import parse_schema
from understudy.engines.reading.draft import draft_schema
from understudy.errors import InputError, SchemaError

ROWS = 600


def german(number):
    return f"{number:,.2f}".replace(",", "_").replace(".", ",").replace("_", ".")


def payroll(rng):
    """Semicolons, latin-1, decimal commas, points between thousands, days first, spellings, a sum and an order."""
    lines = ["Nr;Geschlecht;Eintritt;Austritt;Lohn;Zulage;Brutto;Klasse"]
    for number in range(ROWS):
        start = datetime.date(2000, 1, 1) + datetime.timedelta(days=int(rng.integers(0, 8000)))
        end = start + datetime.timedelta(days=int(rng.exponential(900)))
        wage, bonus = round(float(np.exp(rng.normal(7.8, 0.4))), 2), round(float(rng.uniform(1, 900)), 2)
        sex = rng.choice(["weiblich", "Weiblich", "männlich", "männlich ", "k.A."], p=[0.4, 0.1, 0.3, 0.1, 0.1])
        cells = [f"P{1000 + number}", sex, f"{start:%d.%m.%Y}", f"{end:%d.%m.%Y}" if rng.random() < 0.6 else ""]
        cells += [german(wage), german(bonus), german(wage + bonus), str(rng.choice(["1", "2", "3", "NA"]))]
        lines.append(";".join(cells))
    return "\r\n".join(lines).encode("latin-1")


def stays(rng):
    """A byte-order mark, a key of households, codes for no answer, a question for some, a comma in a header."""
    lines = ['patient_id,household,sex,age,ward,"length, days",births,smoker']
    for _ in range(ROWS):
        sex = rng.choice(["male", "Male", "female", "F"], p=[0.4, 0.1, 0.4, 0.1])
        age = int(rng.integers(0, 100)) if rng.random() > 0.05 else 999
        births = "" if sex[0] in "mM" else str(rng.integers(0, 4))
        lines.append(
            f"{rng.integers(70_000, 70_400)},H{rng.integers(0, 250):05},{sex},{age},{rng.integers(1, 9):02},"
            f"{rng.geometric(0.2)},{births},{rng.choice(['y', 'n', '.'])}"
        )
    return b"\xef\xbb\xbf" + "\n".join(lines).encode()


def survey(rng):
    """Tabs, mixed line ends, months first, apostrophes between thousands, a code close to the largest amount."""
    out = b"no\tworks\thours\tincome\tspent\tzip\tday\r\n"
    for number in range(ROWS):
        works = str(rng.choice(["yes", "no"]))
        income = int(np.exp(rng.normal(10, 0.9)))
        known = rng.random() > 0.1
        cells = [str(number + 1), works, str(rng.integers(1, 80)) if works == "yes" else ""]
        cells += [
            f"{income if known else 999_999:,}".replace(",", "'"),
            str(int(income * rng.random())) if known else ".",
        ]
        cells += [str(rng.choice([20001, 20010, 20593])), f"{rng.integers(1, 13)}/{rng.integers(1, 29)}/2024"]
        out += "\t".join(cells).encode() + (b"\r\n" if number % 3 else b"\n")
    return out


FILES = {"payroll.csv": payroll, "stays.csv": stays, "survey.tsv": survey}


@pytest.fixture(scope="module", params=FILES)
def drafted(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("ugly") / request.param
    path.write_bytes(FILES[request.param](np.random.default_rng(8)))
    text = draft_schema(path)
    return request.param, path, text, parse_schema(text.replace("draft = true\n", "", 1))


def test_the_draft_reads_its_file_and_says_how(drafted):
    name, path, text, schema = drafted
    assert us.check_data(path, schema) == ROWS
    for line in schema.file.said():
        assert f"# {line}.\n" in text
    file = schema.file
    if name == "payroll.csv":
        assert (file.delimiter, file.encoding, file.decimal, file.thousands, file.dates) == (
            ";",
            "latin-1",
            ",",
            ".",
            "dmy",
        )
        assert file.missing_values == ("NA",)
        assert file.trim
        assert schema["Geschlecht"].levels == ("k.A.", "männlich", "weiblich")
        assert schema["Lohn"].decimals == schema["Brutto"].decimals == 2
        assert (schema["Eintritt"].kind, schema["Austritt"].missing) == ("date", True)
    elif name == "stays.csv":
        assert set(schema.ignore) == {"patient_id", "household"}
        assert "looks like a key" in text
        assert schema["age"].special == ((999, "code 999"),)
        assert schema["ward"].levels[0] == "01"
        assert schema["smoker"].levels == ("n", "y")
        assert "'F' may be short for 'female'" in text
    else:
        assert (file.thousands, file.dates, file.missing_values) == ("'", "mdy", (".",))
        assert schema["income"].special == ((999_999, "code 999999"),)
        assert schema["zip"].levels == (20001, 20010, 20593)
        assert schema["spent"].kind == "numeric"


def test_rules_that_hold_are_shown_and_can_be_copied(drafted):
    name, path, text, _ = drafted
    shown = {
        "payroll.csv": ['function = "sum"', 'order = ["Eintritt", "Austritt"]'],
        "stays.csv": ['asked_if = { sex = ["F", "female"] }'],
        "survey.tsv": ['asked_if = { works = ["yes"] }', 'order = ["spent", "income"]'],
    }[name]
    for line in shown:
        assert f"# {line}\n" in text
    lines = text.replace("draft = true\n", "", 1).splitlines()
    starts = [place for place, line in enumerate(lines) if line == "# [[rule]]"]
    copied = []
    for place in starts:
        copied.append("[[rule]]")
        copied += [line[2:] for line in lines[place + 1 : place + 3] if " = " in line and line.startswith("# ")]
    with_rules = parse_schema("\n".join(lines + copied) + "\n")
    assert with_rules.rules
    assert us.check_data(path, with_rules) == ROWS


def test_a_file_that_changes_its_delimiter_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a;b\n" + "1;2\n" * 50 + "3,4\n" * 3)
    schema = us.Schema(
        attributes=tuple(us.Attribute(name=name, levels=(1, 2, 3, 4)) for name in "ab"),
        file=us.FileFormat(delimiter=";"),
    )
    with pytest.raises(InputError, match=r"3 row\(s\) do not have the 2 fields"):
        us.check_data(path, schema)


def test_days_and_months_that_cannot_be_told_apart_are_said(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("day,sex\n" + "".join(f"{k % 12 + 1:02}/{k % 11 + 1:02}/2024,{'FM'[k % 2]}\n" for k in range(300)))
    text = draft_schema(path)
    assert "days and months may be confused" in text
    assert 'dates = "dmy"' in text


def test_namibia_is_no_missing_value(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("country,age\n" + "".join(f"{['NA', 'ZA', 'BW', 'DE'][k % 4]},{k % 90}\n" for k in range(400)))
    schema = parse_schema(draft_schema(path).replace("draft = true\n", "", 1))
    assert schema["country"].levels == ("BW", "DE", "NA", "ZA")
    assert us.check_data(path, schema) == 400


def test_wide_files_and_long_fields(tmp_path):
    path = tmp_path / "a.csv"
    names = [f"c{number}" for number in range(2000)]
    path.write_text(
        ",".join(names) + "\n" + ",".join(["1"] * 1999 + ["x" * 1_000_000]) + "\n" + ",".join(["2"] * 2000) + "\n"
    )
    schema = us.Schema(attributes=(us.Attribute(name="c0", levels=(1, 2)),), ignore=tuple(names[1:]))
    assert us.check_data(path, schema) == 2
    with pytest.raises(SchemaError, match="level that is not listed") as caught:
        us.check_data(
            path,
            us.Schema(attributes=(us.Attribute(name="c1999", levels=(1, 2)),), ignore=tuple(names[:-1])),
        )
    assert len(str(caught.value)) < 1000


def test_a_balanced_panel_has_a_key_whatever_its_name():
    """As many rows of each value: no answer of people is spread like that. With one row more it may be an answer."""
    person = [number for number in range(1, 211) for _ in range(4)]
    choices = {"mode": [1, 2, 3, 4] * 210}
    panel = us.draft_schema(pa.table({"individual": person, **choices}))
    assert "'individual' looks like a key: 210 different values" in panel
    assert 'columns = ["individual"]' in panel
    ages = us.draft_schema(pa.table({"individual": [*person[:-1], 1], **choices}))
    assert "'individual' looks like a key" not in ages


def test_a_score_without_gaps_is_no_key():
    """Whole numbers from 350 to 950, each in some rows: a key has as many rows for large ones as for middle ones."""
    rng = np.random.default_rng(2)
    score = np.clip(np.round(rng.normal(650, 130, 6000)), 350, 950).astype(int)
    household = np.repeat(np.arange(1, 3001), rng.integers(1, 4, 3000))[:6000]
    text = us.draft_schema(pa.table({"score": score[: len(household)], "household": household}))
    assert "'household' looks like a key" in text
    assert "'score' looks like a key" not in text
