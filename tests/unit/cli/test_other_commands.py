"""verify, methods, schema, demo, reproduce."""

from __future__ import annotations

import dataclasses
import json
import os

import pytest

from papers import harness
from understudy.commutes.shared.flow_method import flow_synthesizers
from understudy.households.shared.family_method import family_synthesizers
from understudy.synth.methods.ipf import Ipf
from understudy.synth.shared.method import synthesizers

DATA = "people.csv --schema people.toml"


def test_verify_names_what_is_wrong(folder, run):
    run(f"synthesize {DATA} --epsilon 1 --out release")
    checks = json.loads(run("verify release --json").stdout)
    assert checks["passed"]
    (folder / "release" / "synthetic_1.parquet").write_bytes(b"")
    shown = run("verify release --json", code=2)
    assert json.loads(shown.stdout)["passed"] is False
    assert "does not pass: files" in shown.stderr
    assert "FAILED" in run("verify release", code=2).stdout


@pytest.mark.parametrize("target", ["absent", "people.csv", "."])
def test_verify_of_something_else(refused, target):
    refused(f"verify {target}", says="release folder")


def test_methods_are_those_of_the_registry(run):
    listed = json.loads(run("methods --json").stdout)
    assert [method["name"] for method in listed] == [*synthesizers, *flow_synthesizers, *family_synthesizers]
    table = run("methods").stdout
    assert all(method["name"] in table for method in listed)


def test_a_method_shows_its_options(run, refused):
    method = json.loads(run("methods ipf --json").stdout)
    assert [option["name"] for option in method["options"]] == [field.name for field in dataclasses.fields(Ipf)]
    assert all(option["description"] for option in method["options"])
    shown = run("methods commute").stdout
    assert "cut_miles" in shown
    assert "farther away" in shown
    refused("methods ipff", says="did you mean 'ipf'")


def test_schema_describe_is_public_until_data_are_given(folder, run):
    text = run("schema describe --schema people.toml").stdout
    assert "age below 15 and smokes in (no, yes)" in text
    assert "INTERNAL" not in text
    document = json.loads(run("schema describe --schema people.toml --json").stdout)
    assert (document["cells"], document["possible_cells"]) == (18, 14)
    assert "internal" not in document
    text = run("schema describe --schema people.toml people.csv").stdout
    assert "INTERNAL" in text
    document = json.loads(run("schema describe --schema people.toml people.csv --json").stdout)
    internal = document["internal"]
    assert internal["audience"] == "internal"
    assert (internal["rows"], internal["cells"], internal["cells_without_missing"]) == (120, 18, 12)
    assert (internal["filled_cells"], internal["uniques"], internal["uniques_percent"]) == (6, 0, 0)
    assert internal["empty_percent"] == pytest.approx(100 * 12 / 18)


def test_schema_describe_refuses_ways_of_reading_nothing(folder, refused):
    refused("schema describe --schema people.toml --delimiter ;", says="no data were named")


def test_schema_describe_shows_brackets_as_they_are(folder, run):
    text = (folder / "people.toml").read_text().replace('"F", "M"', '"[bold]F", "[/red]M"')
    (folder / "odd.toml").write_text(text)
    assert "[bold]F, [/red]M" in run("schema describe --schema odd.toml").stdout


def test_schema_check(folder, run):
    assert "All 120 rows fit" in run(f"schema check {DATA}").stdout
    assert json.loads(run(f"schema check {DATA} --json").stdout)["fits"] is True
    (folder / "people.csv").write_text("id,sex,age,smokes\n1,X,20,no\n2,F,200,no\n3,X,20,no\n")
    shown = run(f"schema check {DATA} --json", code=2)
    assert json.loads(shown.stdout)["fits"] is False
    assert "sex: 2 rows" in shown.stderr
    assert "age: 1 row" in shown.stderr


def test_demo_ends_in_a_refusal_and_replaces_only_itself(folder, run, refused):
    text = run("demo --rows 2000 --out shown").stdout
    for part in ("$ understudy plan", "INTERNAL", "budget refused", "exit code 3", "README.md"):
        assert part in text
    assert {path.name for path in (folder / "shown").iterdir()} == {
        *("ABOUT.txt", "budget.db", "confidential", "people.toml", "plan.toml", "release")
    }
    run("verify shown/release")
    refused("demo --rows 2000 --out shown", says="already exists")
    again = run("demo --rows 1000 --out shown --overwrite --json")
    document = json.loads(again.stdout)
    assert document["rows"] == 1000
    assert "does not allow this run" in document["refused"]
    assert os.getcwd() == str(folder)
    (folder / "mine").mkdir()
    (folder / "mine" / "ABOUT.txt").write_text("my own work")
    refused("demo --out mine --overwrite", says="was not made by")
    strangers = {
        "notes.txt": "holds 'notes.txt'",
        "confidential/more.parquet": "holds 'confidential/more.parquet'",
        "release/notes.txt": "holds 'notes.txt', which its manifest does not list",
        "commute/ABOUT.txt": "was not made by",
        "internal/mine.html": "holds 'internal/mine.html'",
    }
    for extra, said in strangers.items():
        path = folder / "shown" / extra
        new = not path.parent.exists()
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
        refused("demo --rows 1000 --out shown --overwrite", says=said)
        assert path.read_text() == "mine"
        path.unlink()
        if new:
            path.parent.rmdir()
    (folder / "shown" / "link").symlink_to(folder / "mine")
    refused("demo --rows 1000 --out shown --overwrite", says="holds 'link'")
    refused("demo --rows 0 --out new")


def test_reproduce_shows_every_item_with_its_verdict(run, monkeypatch):
    outcomes = [
        harness.Outcome(
            paper="p",
            item="Table 1",
            cell="a",
            published=1.5,
            computed=1.5,
            error=0.0,
            reading="as read",
            verdict="pass",
        )
    ]
    monkeypatch.setattr(harness, "run", lambda papers=None, quick=True: outcomes)
    assert json.loads(run("reproduce --json").stdout) == [outcomes[0].to_json()]
    said = run("reproduce").stdout
    assert "1 pass, 0 misprint" in said
    assert "0 cannot" in said
    outcomes.append(
        harness.Outcome(
            paper="p", item="Table 1", cell="b", published=1, computed=2, error=1, reading="as read", verdict="fail"
        )
    )
    assert "1 printed number(s) do not come out" in run("reproduce", code=1).stderr


def test_reproduce_refuses_an_unknown_paper(run):
    assert "did you mean 'raab'" in run("reproduce rab", code=2).stderr


def test_reproduce_draws_the_figure_of_one_paper_and_refuses_others(run, monkeypatch, tmp_path):
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("matplotlib")
    from papers.pictures import replicated_uniques

    rows = [{"data_set": "S5", "epsilon": 1.0, "computed": 20.0, "published": 19.2}]
    harness.papers["raab"]
    monkeypatch.setitem(harness.pictures, "raab", lambda full: replicated_uniques(pa.Table.from_pylist(rows)))
    assert json.loads(run(f"reproduce raab --plot {tmp_path / 'one.svg'} --json").stdout) == rows
    assert (tmp_path / "one.svg").read_text(encoding="utf-8").startswith("<?xml")
    assert "Drawn:" in run(f"reproduce raab --plot {tmp_path / 'again.svg'}").stdout
    assert "name that paper" in run(f"reproduce --plot {tmp_path / 'two.svg'}", code=2).stderr
    harness.papers["ruiz"]
    monkeypatch.delitem(harness.pictures, "ruiz", raising=False)
    refusal = run(f"reproduce ruiz --plot {tmp_path / 'two.svg'}", code=2).stderr
    assert "these have: av, charest, map, raab." in refusal
