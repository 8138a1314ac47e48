"""plan, synthesize, resume: what they do, what they print, and what a plan file settles."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from fractions import Fraction

import pytest

from understudy.cli.synthesize import on_screen
from understudy.privacy.promise.plan import read_plan, write_plan

PAID = "--ledger budget.db --account people"
DATA = "people.csv --schema people.toml"


def test_json_is_one_document_and_nothing_more(folder, run, ledger):
    plan = json.loads(run("plan --schema people.toml --epsilon 0.5 --records 120 --json").stdout)
    assert plan["plan"]["budget"] == {"guarantee": "pure", "epsilon": "0.5"}
    made = json.loads(run(f"synthesize {DATA} --epsilon 0.5 {PAID} --out release --json").stdout)
    assert made["plan_hash"] == plan["hash"]
    assert made["rows"] == [120]
    assert made["ledger"]["account"] == "people"
    assert {name.name for name in folder.iterdir()} == {"people.csv", "people.toml", "budget.db", "release"}


def test_numbers_are_the_decimals_that_were_typed(folder, run, ledger):
    for number in range(10):
        run(f"synthesize {DATA} --epsilon 0.1 {PAID} --out release-{number}")
    (account,) = json.loads(run("ledger show budget.db --json").stdout)["accounts"]
    assert (account["spent_exact"], account["runs"]) == ({"epsilon": "1"}, 10)
    shown = run(f"synthesize {DATA} --epsilon 1e-10 {PAID} --out one-more", code=3).stderr
    assert "remaining 0" in shown
    assert not (folder / "one-more").exists()


def test_the_budget_refuses_before_anything_is_read_or_written(folder, refused, ledger):
    refused(f"synthesize {DATA} --epsilon 1.000000000000000000001 {PAID} --out release", code=3, says="budget refused")
    refused(f"synthesize {DATA} --epsilon 1 --unit add_remove {PAID} --out release", code=3, says="unit")
    refused(f"synthesize {DATA} --guarantee none {PAID} --out release", code=3, says="without a guarantee")
    refused(f"synthesize {DATA} --epsilon 1 --ledger budget.db --account peple --out release", says="'people'")


def test_questions_in_a_file_must_be_answerable(folder, run, refused):
    (folder / "questions.txt").write_text("# for the yearbook\ncrosstab(sex, smokes)\n", encoding="utf-8")
    asked = "--schema people.toml --method one_look --epsilon 1 --must questions.txt"
    made = json.loads(run(f"plan {asked} --records 120 --json").stdout)["plan"]
    assert made["options"]["must"] == "crosstab(sex, smokes)"
    assert any(step["label"] == "required: sex x smokes" for step in made["steps"])
    assert any("95% interval" in note for note in made["notes"])
    (folder / "questions.txt").write_text("crosstab(sex, smoke)\n", encoding="utf-8")
    refused(f"plan {asked}", says="did you mean 'smokes'")
    refused("plan --schema people.toml --epsilon 1 --must nowhere.txt", says="cannot be read")
    refused("plan --schema people.toml --epsilon 1 --option must=x", says="say --must")


@pytest.mark.parametrize("more", ["--ledger budget.db", "--account people"])
def test_a_ledger_needs_an_account_and_an_account_a_ledger(refused, ledger, more):
    refused(f"synthesize {DATA} --epsilon 1 --out release {more}", says="give both or neither")


def test_without_a_ledger_it_warns_and_says_so(folder, run):
    made = run(f"synthesize {DATA} --epsilon 1 --out release --json")
    assert "not tracked across runs" in made.stderr
    assert json.loads(made.stdout)["ledger"] == {"tracked": False}
    assert "not tracked across runs" in (folder / "release" / "manifest.json").read_text()


@pytest.mark.parametrize(
    ("options", "guarantee"),
    [
        ("--epsilon 1", {"guarantee": "pure", "epsilon": "1"}),
        ("--epsilon 1 --delta 1e-9", {"guarantee": "approx", "epsilon": "1", "delta": "1E-9"}),
        ("--rho 0.1", {"guarantee": "zcdp", "rho": "0.1"}),
        ("--guarantee none", {"guarantee": "none"}),
    ],
)
def test_the_guarantee_follows_from_what_was_given(folder, run, options, guarantee):
    made = json.loads(run(f"synthesize {DATA} {options} --out release --json").stdout)
    assert made["guarantee"] == guarantee
    run("verify release")


def test_no_guarantee_is_said_loudly(folder, run):
    assert "NO GUARANTEE" in run(f"synthesize {DATA} --guarantee none --out release").stdout


def test_unit_options_reach_the_plan(folder, run):
    line = "plan --schema people.toml --epsilon 1 --fixed sex,age --rows-per-unit 2 --unit-id id --json"
    unit = json.loads(run(line).stdout)["plan"]["unit"]
    assert unit == {"fixed": ["age", "sex"], "kind": "replace", "rows_per_unit": 2, "unit_id": "id"}
    unit = json.loads(run("plan --schema people.toml --epsilon 1 --unit add_remove --json").stdout)["plan"]["unit"]
    assert unit["kind"] == "add_remove"


def test_copies_rows_options_and_csv_reach_the_release(folder, run):
    line = f"synthesize {DATA} --method histogram --epsilon 1 --copies 2 --rows 50 --option rows_by=multinomial --csv"
    line += " --out release --json"
    assert json.loads(run(line).stdout)["rows"] == [50, 50]
    manifest = json.loads((folder / "release" / "manifest.json").read_text())
    assert manifest["plan"]["options"] == {"rows_by": "multinomial"}
    assert {"synthetic_1.csv", "synthetic_2.csv"} <= set(manifest["files"])


def test_several_files_are_one_table(folder, run):
    text = (folder / "people.csv").read_text()
    (folder / "more.csv").write_text(text)
    line = "synthesize people.csv more.csv --schema people.toml --epsilon 1 --out release --json"
    assert json.loads(run(line).stdout)["rows"] == [240]


def test_how_a_csv_is_read_can_be_said(folder, run):
    text = (folder / "people.csv").read_text().replace(",\n", ",NA\n").replace(",", ";")
    (folder / "other.csv").write_text(text)
    run("schema check other.csv --schema people.toml", "--delimiter", ";", "--missing-text", "NA")


def test_a_plan_file_runs_exactly_and_settles_everything(folder, run, refused, ledger):
    run("plan --schema people.toml --epsilon 0.4 --rows 30 --out plan.toml")
    stated = tomllib.loads((folder / "plan.toml").read_text())["hash"]
    line = f"synthesize {DATA} --plan plan.toml {PAID} --out release"
    for option in ("--epsilon 0.4", "--method histogram", "--rows 30", "--unit replace", "--option rows_by=rounding"):
        refused(f"{line} {option}", says="--plan settles everything")
    made = json.loads(run(f"{line} --json").stdout)
    assert (made["plan_hash"], made["rows"]) == (stated, [30])
    shown = json.loads(run("ledger show budget.db --json").stdout)
    assert shown["entries"][-1]["plan_hash"] == stated


def test_a_changed_plan_is_refused(folder, run, refused, ledger):
    run("plan --schema people.toml --epsilon 0.4 --out plan.toml")
    file = folder / "plan.toml"
    file.write_text(file.read_text().replace('epsilon = "0.4"', 'epsilon = "0.1"'))
    refused(f"synthesize {DATA} --plan plan.toml {PAID} --out release", says="was changed after it was written")


@pytest.mark.parametrize(
    "change",
    [
        lambda plan, step: {"steps": (replace(step, event=replace(step.event, scale=Fraction(1, 1000))),)},
        lambda plan, step: {"steps": (replace(step, event=replace(step.event, l1=Fraction(1, 10))),)},
        lambda plan, step: {"steps": (replace(step, margin=("sex",)),)},
        lambda plan, step: {"steps": ()},
        lambda plan, step: {"method": "histogran"},
        lambda plan, step: {"options": {"rows_bi": "rounding"}},
        lambda plan, step: {"copies": 0},
        lambda plan, step: {"rows": 10**12},
    ],
    ids=["scale", "sensitivity", "margin", "no steps", "method", "option", "copies", "rows"],
)
def test_a_plan_that_no_method_makes_is_refused_before_the_charge(folder, run, refused, ledger, change):
    run("plan --schema people.toml --epsilon 0.4 --out plan.toml")
    plan = read_plan("plan.toml")
    (folder / "forged.toml").write_text(write_plan(replace(plan, **change(plan, plan.steps[0]))))  # with its own hash
    refused(f"synthesize {DATA} --plan forged.toml {PAID} --out release")


def test_a_plan_for_another_schema_is_refused(folder, run, refused, ledger):
    run("plan --schema people.toml --epsilon 0.4 --out plan.toml")
    file = folder / "people.toml"
    file.write_text(file.read_text().replace("101]", "120]"))
    refused(f"synthesize {DATA} --plan plan.toml {PAID} --out release", says="another schema")


def test_a_plan_file_is_not_overwritten_unless_told(folder, run, refused):
    run("plan --schema people.toml --epsilon 0.4 --out plan.toml")
    refused("plan --schema people.toml --epsilon 0.5 --out plan.toml", says="already exists")
    run("plan --schema people.toml --epsilon 0.5 --out plan.toml --overwrite")
    assert 'epsilon = "0.5"' in (folder / "plan.toml").read_text()
    refused("plan --schema people.toml --epsilon 0.5 --out no/plan.toml", says="does not exist")
    (folder / "place").mkdir()
    refused("plan --schema people.toml --epsilon 0.5 --out place", says="is a folder")


def test_a_release_is_overwritten_only_when_told(folder, run, refused):
    run(f"synthesize {DATA} --epsilon 1 --out release")
    refused(f"synthesize {DATA} --epsilon 1 --out release", says="already exists")
    run(f"synthesize {DATA} --epsilon 1 --rows 7 --out release --overwrite")
    assert json.loads((folder / "release" / "manifest.json").read_text())["rows"] == [7]


def test_resume_refuses_what_is_not_a_run(folder, refused, run):
    refused("resume absent")
    refused("resume people.csv")
    run(f"synthesize {DATA} --epsilon 1 --out release")
    refused("resume release")


def test_a_run_that_died_before_it_measured_asks_for_the_data(folder, run, ledger, monkeypatch):
    from understudy.privacy.gate.gate import Gate

    def die(*_args: object, **_more: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(Gate, "measure", die)
        run(f"synthesize {DATA} --epsilon 1 {PAID} --out release", code=130)
    (kept,) = folder.glob("release.partial-*")
    assert "--source" in run(f"resume {kept.name}", code=2).stderr
    run(f"resume {kept.name} --source people.csv")
    run("verify release")
    (account,) = json.loads(run("ledger show budget.db --json").stdout)["accounts"]
    assert (account["spent"], account["runs"]) == ({"epsilon": "1"}, 1)


def test_a_resumed_run_reads_the_data_as_it_did_before(folder, run, monkeypatch):
    from understudy.privacy.gate.gate import Gate

    def die(*_args: object, **_more: object) -> None:
        raise KeyboardInterrupt

    schema = (folder / "people.toml").read_text()
    (folder / "no-id.toml").write_text(schema[: schema.index("[[ignore]]")])  # the unit's column need not be listed
    (folder / "other.csv").write_text((folder / "people.csv").read_text().replace(",\n", ",NA\n").replace(",", ";"))
    reading = ("--delimiter", ";", "--missing-text", "NA")
    with monkeypatch.context() as dying:
        dying.setattr(Gate, "measure", die)
        run("synthesize other.csv --schema no-id.toml --epsilon 1 --unit-id id --out release", *reading, code=130)
    (kept,) = folder.glob("release.partial-*")
    run(f"resume {kept.name} --source other.csv --out elsewhere", *reading)
    manifest = json.loads((folder / "elsewhere" / "manifest.json").read_text())
    assert manifest["unit"]["unit_id"] == "id"
    assert manifest["rows"] == [120]


def test_a_table_or_a_query_of_a_database(folder, run, refused):
    import duckdb

    with duckdb.connect("people.duckdb") as database:
        database.execute("CREATE TABLE people AS SELECT * FROM read_csv('people.csv', all_varchar=true)")
    run("synthesize people.duckdb --schema people.toml --table people --epsilon 1 --out release")
    assert json.loads((folder / "release" / "manifest.json").read_text())["rows"] == [120]
    query = "SELECT * FROM people WHERE sex = 'F'"
    assert "All 60 rows fit" in run("schema check people.duckdb --schema people.toml --query", query).stdout
    refused("schema check people.duckdb --schema people.toml --table peple")
    refused("schema check people.csv --schema people.toml --table people")


def test_a_note_about_hundreds_of_tables_is_cut_on_the_screen(folder):
    pairs = [f"v{number} x w" for number in range(300)]
    shown = on_screen(f"Pairs: {'; '.join(pairs)}.", folder / "release")
    assert shown == f"Pairs: {'; '.join(pairs[:12])}; and 288 more, all of them in {folder / 'release' / 'README.md'}."
    assert on_screen("The noise is small; see the plan.", folder) == "The noise is small; see the plan."
