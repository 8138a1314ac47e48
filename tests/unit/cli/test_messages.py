"""Messages a steward met in the first hour: each names the remedy that helps, in full, and none that was tried."""

from __future__ import annotations

import pytest


@pytest.fixture
def write(folder):
    def write(text, encoding="utf-8", name="people.csv"):
        (folder / name).write_bytes(text.encode(encoding))

    return write


def test_missing_texts_are_suggested(write, refused):
    write("id,sex,age,smokes\n1,F,NA,no\n")
    assert "--missing-text NA" in refused("schema check people.csv --schema people.toml")
    write("id,sex,age,smokes\n1,NA,40,no\n")
    assert "--missing-text NA" in refused("schema check people.csv --schema people.toml")


def test_decimal_commas_are_suggested_until_they_are_said(write, refused):
    write("id;sex;age;smokes\n1;F;4x;no\n")
    assert "--decimal ," in refused("schema check people.csv --schema people.toml --delimiter ;")
    assert "--decimal ," not in refused("schema check people.csv --schema people.toml --delimiter ; --decimal ,")


def test_a_remedy_is_not_cut(write, refused):
    more = [f"column_{number}" for number in range(30)]
    write(",".join(["id", "sex", "age", "smokes", *more]) + "\n" + ",".join(["1", "F", "40", "no", *["x"] * 30]) + "\n")
    said = " ".join(refused("schema check people.csv --schema people.toml").split())
    assert "..." not in said
    assert all(f'"{name}"' in said for name in more)


def test_overwriting_is_named(run, refused):
    run("synthesize people.csv --schema people.toml --epsilon 1 --out release")
    assert "--overwrite" in refused("synthesize people.csv --schema people.toml --epsilon 1 --out release")


def test_other_encodings_are_read_without_a_copy(folder, run, refused, write):
    schema = (folder / "people.toml").read_text().replace('"F", "M"', '"Fräulein", "M"')
    (folder / "people.toml").write_text(schema)
    rows = "id,sex,age,smokes\n" + "".join(f"{n},Fräulein,40,no\n" for n in range(5))
    for encoding in ("latin-1", "cp1252", "utf-16"):
        write(rows, encoding)
        run(f"schema check people.csv --schema people.toml --encoding {encoding}")
        assert {path.name for path in folder.iterdir()} == {"people.csv", "people.toml"}
    write(rows, "latin-1")
    assert "--encoding latin-1" in refused("schema check people.csv --schema people.toml")
    assert "usual ones" in refused("schema check people.csv --schema people.toml --encoding klingon")
    assert "not text in the encoding" in refused("schema check people.csv --schema people.toml --encoding utf-16")
    run("schema draft people.csv --out draft.toml --encoding latin-1")
    assert "Fräulein" in (folder / "draft.toml").read_text(encoding="utf-8")


def test_a_question_has_one_name_and_the_old_one_still_works(folder, run):
    run("synthesize people.csv --schema people.toml --method histogram --epsilon 1 --out release")
    for option in ("--question", "--ask"):
        run(f"report release --to {option}.html {option}", "proportion(sex == 'F')")
        assert "proportion(sex" in (folder / f"{option}.html").read_text()
    assert "--ask" not in run("report --help").stdout
