"""``understudy evaluate``: what it prints, what it writes, and what it refuses."""

from __future__ import annotations

import json
import re

import pytest


@pytest.fixture
def release(folder, run):
    run("synthesize people.csv --schema people.toml --epsilon 2 --copies 2 --out release")
    return folder / "release"


def test_it_prints_tables_and_says_internal(release, run):
    text = run("evaluate release --confidential people.csv --part utility --details --model", "age ~ sex").stdout
    assert text.startswith("INTERNAL")
    for heading in ("S_pMSE of tables", "Worst tables", "Can a classifier tell?", "Regressions"):
        assert heading in text


@pytest.mark.parametrize("columns", ["80", "140"])
def test_by_default_it_is_one_screen(release, run, monkeypatch, columns):
    """With 80 characters to a line the words of an attack had a column of three, and there were over 90 lines."""
    monkeypatch.setenv("COLUMNS", columns)
    text = run("evaluate release --confidential people.csv --model", "age ~ sex").stdout
    assert len(text.splitlines()) <= 40
    assert re.search(r"(green|amber|red) +(\w+ ){3}", text)
    for words in ("how useful", "Because somebody took part", "About people like them", "Told something false"):
        assert words in text
    assert "The guarantee allows at most" in text
    assert "residual" not in text


def test_json_is_one_document(release, run):
    document = json.loads(run("evaluate release --confidential people.csv --ways 1,2 --json").stdout)
    assert document["audience"] == "internal"
    assert [row["way"] for row in document["utility"]["frames"]["ways"]] == [1, 2]
    assert {finding["audience"] for finding in document["utility"]["findings"]} == {"internal"}
    assert document["risk"]["frames"]["attacks"]


def test_it_writes_tables_and_figures(release, folder, run):
    run("evaluate release --confidential people.csv --out evaluation --part utility --model", "smokes ~ sex")
    written = folder / "evaluation"
    assert "INTERNAL" in (written / "README.txt").read_text()
    assert written.stat().st_mode & 0o077 == 0
    assert (written / "utility" / "tables.csv").read_text().startswith('"way","table"')
    assert (written / "findings.csv").is_file()
    assert {"two_way.svg", "one_way.svg"} <= {file.name for file in (written / "figures").iterdir()}
    before = (written / "findings.csv").read_bytes()
    run("evaluate release --confidential people.csv --out evaluation", code=2)
    assert (written / "findings.csv").read_bytes() == before


def test_without_matplotlib_the_tables_are_written_and_the_omission_is_told(release, folder, run, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = run("evaluate release --confidential people.csv --ways 2 --part utility --out evaluation")
    assert "figures were left out" in result.stderr
    assert (folder / "evaluation" / "utility" / "ways.csv").is_file()
    assert not (folder / "evaluation" / "figures").exists()


@pytest.mark.parametrize("target", ["release", "release/evaluation", "release/a/b", "link/evaluation"])
def test_nothing_goes_into_a_release(release, folder, refused, target):
    (folder / "link").symlink_to(release)
    refused(f"evaluate release --confidential people.csv --out {target}", code=4, says="outside")


def test_several_releases_are_compared_by_epsilon(release, folder, run):
    run("synthesize people.csv --schema people.toml --epsilon 0.1 --out noisy")
    line = "evaluate release noisy --confidential people.csv --part utility --ways 2 --out both --json"
    document = json.loads(run(line).stdout)
    assert (folder / "both" / "tradeoff.svg").is_file()
    assert (folder / "both" / "noisy" / "utility" / "ways.csv").is_file()
    assert [row["epsilon"] for row in document["tradeoff"]] == [2.0, 0.1]


def test_anybodys_synthetic_file(folder, run):
    rows = [f"{'FM'[n % 2]},{(11 * n) % 100},{'' if n % 5 == 0 else 'no'}" for n in range(90)]
    (folder / "other.csv").write_text("\n".join(["sex,age,smokes", *rows]) + "\n")
    line = "evaluate other.csv --schema people.toml --confidential people.csv --part utility --json"
    document = json.loads(run(line).stdout)
    codes = {finding["code"]: finding for finding in document["utility"]["findings"]}
    assert codes["utility.impossible"]["severity"] == "problem"  # some are below 15 and say that they do not smoke


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("evaluate nowhere --confidential people.csv", "give its --schema too"),
        ("evaluate release --confidential nowhere.csv", "does not exist"),
        ("evaluate release --confidential people.csv --ways one", "--ways"),
        ("evaluate release --confidential people.csv --part use", "Known: risk, utility"),
        ("evaluate release --confidential people.csv --model smoke~age", "did you mean 'smokes'"),
        ("evaluate release --confidential people.csv --schema other.toml", "not the schema of"),
        ("evaluate release --confidential people.csv --out nowhere/here", "create it first"),
    ],
)
def test_mistakes(release, folder, run, line, says):
    (folder / "other.toml").write_text((folder / "people.toml").read_text().replace('"no", "yes"', '"no", "yes", "x"'))
    result = run(line, code=2)
    assert says in " ".join(result.stderr.split())
