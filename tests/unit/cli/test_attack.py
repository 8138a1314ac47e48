"""The command ``attack``: what it prints, writes and refuses."""

from __future__ import annotations

import json

import pytest

MAKE = "synthesize people.csv --schema people.toml --epsilon 1 --out release"
ATTACK = "attack release --confidential people.csv"


@pytest.fixture
def release(folder, run):
    run(MAKE)
    return folder / "release"


def test_it_prints_what_is_at_risk_and_that_it_is_internal(release, run):
    shown = run(f"{ATTACK} --keys sex,age --targets smokes").stdout
    assert "INTERNAL" in shown
    assert "Because somebody took part" in shown
    assert "Say of a person that they were in the data" in shown
    assert "residual" not in shown
    shown = run(f"{ATTACK} --keys sex,age --targets smokes --details").stdout
    assert "residual" in shown
    assert "rank_linkage" in shown


def test_json_is_one_document(release, run):
    document = json.loads(run(f"{ATTACK} --only uniqueness,attribution --json").stdout)
    assert document["audience"] == "internal"
    assert {row["attack"] for row in document["frames"]["attacks"]} == {"uniqueness", "attribution"}
    assert {finding["audience"] for finding in document["findings"]} == {"internal"}


def test_tables_and_figures_go_to_a_folder_outside_the_release(release, folder, run):
    run(f"{ATTACK} --out risk")
    written = {path.name for path in (folder / "risk").rglob("*") if path.is_file()}
    assert {"README.txt", "findings.csv", "attacks.csv", "uniqueness.csv"} <= written
    assert "INTERNAL" in (folder / "risk" / "README.txt").read_text()
    run(f"{ATTACK} --out risk", code=2)


@pytest.mark.parametrize("place", ["release", "release/risk", "release/deep/er"])
def test_output_inside_a_release_is_refused(release, run, place):
    before = sorted(path.name for path in release.iterdir())
    result = run(f"{ATTACK} --out {place}", code=4)
    assert "internal" in result.stderr
    assert sorted(path.name for path in release.iterdir()) == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--rank-weights age", "name=weight"),
        ("--rank-weights age=-1", "not negative"),
        ("--rank-weights agee=1", "'age'"),
        ("--keys sxe", "'sex'"),
        ("--keys sex --targets sex", "both a key and a target"),
        ("--only membership", "holdout"),
        ("--only linkabilty", "'linkability'"),
        ("--holdout people.csv", "overlaps"),
    ],
)
def test_mistakes_are_explained(release, run, options, words):
    assert words in run(f"{ATTACK} {options}", code=2).stderr


def test_anybodys_synthetic_table_can_be_attacked(folder, run):
    lines = (folder / "people.csv").read_text().splitlines()
    (folder / "made.csv").write_text("\n".join([lines[0], *lines[20:80]]) + "\n")
    shown = run("attack made.csv --schema people.toml --confidential people.csv --only closest_record").stdout
    assert "closest_record" in shown
    assert "--schema" in run("attack made.csv --confidential people.csv", code=2).stderr
