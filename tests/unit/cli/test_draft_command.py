"""``understudy schema draft``, and that no other command takes a draft."""

from __future__ import annotations

import json
import stat

import pytest

TAKES_A_SCHEMA = (
    "schema check people.csv --schema draft.toml",
    "schema describe --schema draft.toml",
    "plan --schema draft.toml --epsilon 1",
    "synthesize people.csv --schema draft.toml --epsilon 1 --out release",
)


@pytest.mark.parametrize("line", TAKES_A_SCHEMA)
def test_a_draft_is_refused_until_it_was_reviewed(line, folder, run, refused):
    run("schema draft people.csv --out draft.toml")
    draft = folder / "draft.toml"
    assert stat.S_IMODE(draft.stat().st_mode) == 0o600
    refused(line, says="this schema is a draft")
    draft.write_text(draft.read_text().replace("draft = true\n", "", 1))
    run(line)


def test_the_draft_names_itself_after_the_data(folder, run, refused):
    (folder / "people.toml").unlink()
    result = run("schema draft people.csv")
    assert "confidential" in result.stdout
    assert "[[attribute]]" in (folder / "people.toml").read_text()
    refused("schema draft people.csv", says="already exists")
    assert json.loads(run("schema draft people.csv --out other.toml --json").stdout)["audience"] == "internal"


def test_what_was_left_out_is_said_with_its_reason_and_not_with_what_is_offered(folder, run):
    lines = "".join(f"shop {number % 700},{number % 2}\n" for number in range(2000))
    (folder / "shops.csv").write_text(f"shop,open\n{lines}")
    output = " ".join(run("schema draft shops.csv").stdout.split())
    assert "1 attribute(s), 0 remark(s) to read, 1 column(s) left out: 'shop' has 700 levels" in output
    assert 'levels = "discover"' not in output
    assert "write:" not in output


def test_drafts_that_are_refused(folder, run, refused):
    run("synthesize people.csv --schema people.toml --epsilon 1 --out release")
    refused("schema draft people.csv --out release/people.toml", code=4, says="stays out of it")
    refused("schema draft people.csv --out none/people.toml", says="create it first")
    refused("schema draft people.csv --out new.toml --decimal x", says="must be a point or a comma")
    refused("schema draft *.csv", says="--out NAME.toml")
    refused("schema draft nobody.csv --out new.toml", says="does not exist")


def test_decimal_commas(folder, run, refused):
    (folder / "wages.csv").write_text("wage;sex\n" + "".join(f"{n},5;F\n{n},25;M\n" for n in range(30)))
    run("schema draft wages.csv --delimiter ; --decimal , --out wages.toml")
    text = (folder / "wages.toml").read_text()
    (folder / "wages.toml").write_text(text.replace("draft = true\n", "", 1))
    run("schema check wages.csv --schema wages.toml --delimiter ; --decimal ,")
    run("schema check wages.csv --schema wages.toml")  # the draft says how the file is written
    assert 'decimal = ","' in text
    (folder / "plain.toml").write_text((folder / "wages.toml").read_text().replace('decimal = ","\n', ""))
    refused("schema check wages.csv --schema plain.toml", says="--decimal ,")
    refused("schema check wages.csv --schema plain.toml --decimal ,", says='write decimal = "," under [file]')
    refused("schema check wages.csv --schema wages.toml --delimiter |", says="not what the schema says under [file]")
    run("synthesize wages.csv --schema wages.toml --delimiter ; --decimal , --epsilon 1 --out release")
    refused("schema check people.csv --schema people.toml --decimal x", says="must be a point or a comma")


def test_derived_attributes_are_described(folder, run):
    with (folder / "people.toml").open("a") as schema:
        schema.write('[[derived]]\nname = "minor"\nfrom = ["age"]\nfunction = "recode"\n')
        schema.write('edges = [0, 15, 101]\nlevels = ["yes", "no"]\n')
    assert "recode of age" in run("schema describe --schema people.toml").stdout
    document = json.loads(run("schema describe --schema people.toml --json").stdout)
    assert document["derived"] == [{"name": "minor", "function": "recode", "from": ["age"], "label": ""}]
    run("synthesize people.csv --schema people.toml --epsilon 1 --out release")
    run("verify release")
