"""The ledger's commands: what a review board reads, and what is noticed."""

from __future__ import annotations

import json
import shutil
import sqlite3

import pytest

DATA = "people.csv --schema people.toml"


def test_show_is_a_table_a_board_can_read(folder, run, ledger):
    run("ledger limit budget.db --account survey --epsilon 2 --delta 1e-9 --unit add_remove")
    run(f"synthesize {DATA} --method histogram --epsilon 0.3 --ledger budget.db --account people --out release")
    text = run("ledger show budget.db").stdout
    lines = {line.split()[0]: line.split() for line in text.splitlines() if line.strip()}
    assert lines["people"] == ["people", "replace", "epsilon", "1", "0.3", "0.7", "1"]
    assert lines["survey"] == ["survey", "add_remove", "epsilon", "2", "0", "2", "0"]
    assert lines["delta"] == ["delta", "1E-9", "0", "1E-9"]
    run_line = next(line for line in text.splitlines() if "histogram" in line)
    assert "epsilon 0.3" in run_line


def test_show_one_account(folder, run, refused, ledger):
    run("ledger limit budget.db --account survey --rho 0.5")
    shown = json.loads(run("ledger show budget.db --account survey --json").stdout)
    assert [account["account"] for account in shown["accounts"]] == ["survey"]
    refused("ledger show budget.db --account servey", says="did you mean 'survey'")


def test_an_account_without_a_guarantee_counts_nothing(folder, run):
    run("ledger create open.db --account test-data --guarantee none")
    run(f"synthesize {DATA} --guarantee none --ledger open.db --account test-data --out release")
    assert "not counted" in run("ledger show open.db").stdout


def test_limit_and_unit_are_fixed(folder, run, refused, ledger):
    refused("ledger limit budget.db --account people --epsilon 50", says="exists already")
    refused("ledger limit budget.db --account People --epsilon 50", says="exists already")
    refused("ledger create budget.db --account other --epsilon 50", says="already exists")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("ledger create new.db --account a --epsilon 0", "must be positive"),
        ("ledger create new.db --account a", "no budget was given"),
        ("ledger create new.db --epsilon 1", "name it with --account"),
        ("ledger create new.db --unit replace", "name it with --account"),
        ("ledger create new.db --account data/people.csv --epsilon 1", "looks like a path"),
        ("ledger create new.db --account a --epsilon 1 --delta 1e-9 --guarantee probabilistic", "ApproxDP"),
        ("ledger create no/such/new.db", "does not exist"),
        ("ledger limit absent.db --account a --epsilon 1", "does not exist"),
        ("ledger show absent.db", "does not exist"),
        ("ledger show people.csv", "not a ledger"),
        ("ledger show .", "not a file"),
        ("ledger verify absent.db", "does not exist"),
    ],
)
def test_what_is_refused_leaves_no_file(refused, line, says):
    refused(line, says=says)


def test_create_alone_says_what_comes_next(folder, run):
    assert "understudy ledger limit" in run("ledger create budget.db").stdout
    assert json.loads(run("ledger create other.db --json").stdout) == {"ledger": "other.db", "accounts": []}


def test_verify_notices_an_edited_row(folder, run, ledger):
    run(f"synthesize {DATA} --epsilon 0.3 --ledger budget.db --account people --out release")
    assert "in order" in run("ledger verify budget.db").stdout
    with sqlite3.connect(ledger) as connection:
        connection.execute("DROP TRIGGER entries_never_change")
        connection.execute("""UPDATE entries SET body = replace(body, '"0.3"', '"0.1"')""")
    connection.close()
    shown = run("ledger verify budget.db --json", code=2)
    assert json.loads(shown.stdout)["ok"] is False
    assert "was changed after it was written" in shown.stderr
    run(f"synthesize {DATA} --epsilon 0.1 --ledger budget.db --account people --out more", code=2)


def test_verify_against_notices_a_restored_backup(folder, run, refused, ledger):
    shutil.copy(ledger, folder / "backup.db")
    run(f"synthesize {DATA} --epsilon 1 --ledger budget.db --account people --out release")
    run("ledger verify budget.db --against release")
    run("ledger verify backup.db")
    refused("ledger verify backup.db --against release", says="cut, or restored from an older backup")


def test_verify_against_notices_a_release_that_states_something_else(folder, run, refused, ledger):
    """An edited manifest, with every hash in it as it was: epsilon 0.01 stated, 1 charged."""
    run(f"synthesize {DATA} --epsilon 1 --ledger budget.db --account people --out release")
    manifest = folder / "release" / "manifest.json"
    text = manifest.read_text()
    guarantee = json.loads(text)["guarantee"]
    edited = {**json.loads(text), "guarantee": {**guarantee, "epsilon": "0.01"}}
    manifest.write_text(json.dumps(edited))
    refused("ledger verify budget.db --against release", says="another guarantee than the release states")
    manifest.write_text(text)
    run("ledger verify budget.db --against release")


def test_verify_against_needs_a_release_of_a_ledger(folder, run, refused, ledger):
    run(f"synthesize {DATA} --epsilon 1 --out release")
    refused("ledger verify budget.db --against release", says="without a ledger")
    refused("ledger verify budget.db --against people.csv", says="not a release folder")
