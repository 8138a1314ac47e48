"""Bad input from the command line: refused in one screen, nothing written, nothing charged, no value shown."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MARKER = "ZQXMARKER"  # the confidential value that the fixture "run" looks for
HEADER = "id,sex,age,smokes"
GOOD = "1,F,20,no"
PAID = "--ledger budget.db --account people --out release"
COMMAND = f"synthesize bad.csv --schema people.toml --epsilon 1 {PAID}"


def spent(run) -> str:
    (account,) = json.loads(run("ledger show budget.db --json").stdout)["accounts"]
    return str(account["spent"]["epsilon"])


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([HEADER, GOOD, f"2,{MARKER},20,no"], "sex: 1 row with a level that is not listed"),
        ([HEADER, GOOD, "2,F,102,no", "3,F,-1,no"], "age: 2 rows with a value outside the edges"),
        ([HEADER, f"2,F,{MARKER},no"], "age: 1 row with a value that is not a number"),
        ([HEADER, "2,,20,no"], "sex: 1 row with a missing value where none is allowed"),
        ([HEADER, "2,F,3,yes"], "impossible (age below 15 and smokes in (no, yes)): 1 row"),
        ([f"{HEADER},extra", f"{GOOD},{MARKER}"], "[[ignore]]"),
        (["id,sex,sex,age,smokes", "1,F,F,20,no"], "column 'sex' occurs twice"),
        (["id,sex,aeg,smokes", GOOD], "age"),
        ([HEADER, GOOD, f"2,F,20,no,{MARKER}"], "bad.csv"),
        ([HEADER, GOOD, f"2,F,{MARKER}"], "bad.csv"),
        ([HEADER, GOOD, f'2,"{MARKER},20,no'], "bad.csv"),
        ([], "bad.csv is empty"),
    ],
    ids=[
        "unknown level", "out of range", "not a number", "missing", "structural zero", "unlisted column",
        "duplicate column", "misspelt column", "long row", "short row", "open quote", "empty file",
    ],
)  # fmt: skip
@pytest.mark.usefixtures("ledger")
def test_data_that_do_not_fit(folder, refused, run, lines, says):
    (folder / "bad.csv").write_text("".join(f"{line}\n" for line in lines))
    refused(COMMAND, says=says)
    refused("schema check bad.csv --schema people.toml", says=says)
    assert spent(run) == "0"


@pytest.mark.usefixtures("ledger")
def test_bytes_that_are_not_text(folder, refused):
    (folder / "bad.csv").write_bytes(f"{HEADER}\n1,F\xff{MARKER},20,no\n".encode("latin-1"))
    refused(COMMAND)


@pytest.mark.usefixtures("ledger")
def test_a_damaged_parquet_file_a_folder_and_nothing(folder, refused):
    (folder / "bad.parquet").write_text(f"PAR1{MARKER}")
    (folder / "somewhere").mkdir()
    for data, says in (("bad.parquet", "bad.parquet"), ("somewhere", "directory"), ("absent.csv", "does not exist")):
        refused(COMMAND.replace("bad.csv", data), says=says)
    (folder / "table.xlsx").write_text(MARKER)
    refused(COMMAND.replace("bad.csv", "table.xlsx"))


@pytest.mark.usefixtures("ledger")
def test_one_row_is_a_table_and_a_line_of_names_is_none(folder, run, refused):
    (folder / "one.csv").write_text(f"{HEADER}\n{GOOD}\n")
    shown = run(f"synthesize one.csv --schema people.toml --epsilon 0.1 {PAID}-one --json")
    assert json.loads(shown.stdout)["rows"] == [1]
    (folder / "none.csv").write_text(f"{HEADER}\n")
    refused(f"synthesize none.csv --schema people.toml --epsilon 0.1 {PAID}-none", says="no rows")
    refused("schema check none.csv --schema people.toml", says="no rows")


@pytest.mark.parametrize("command", [f"synthesize people.csv --schema people.toml {PAID}", "plan --schema people.toml"])
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--epsilon 0", "epsilon (0) must be positive"),
        ("--epsilon -1", "epsilon (-1) must be positive"),
        ("--epsilon NaN", "epsilon (NaN) must be finite"),
        ("--epsilon inf", "epsilon (inf) must be finite"),
        ("--epsilon abc", "epsilon ('abc') must be a number"),
        ("--epsilon 1e999999999", "epsilon (1e999999999)"),
        ("--epsilon 1e-390", "epsilon"),
        ("--epsilon 1 --delta 1", "delta (1) must be above 0 and below 1"),
        ("--epsilon 1 --delta 0", "delta (0) must be above 0 and below 1"),
        ("--rho -0.1", "rho (-0.1) must be positive"),
        ("--epsilon 1 --rho 1", "guarantee 'zcdp' needs --rho"),
        ("--delta 1e-9", "guarantee 'approx' needs --epsilon and --delta; --delta was given"),
        ("--epsilon 1 --guarantee approx", "needs --epsilon and --delta"),
        ("--epsilon 1 --guarantee none", "guarantee 'none' needs neither"),
        ("--epsilon 1 --guarantee prue", "did you mean 'pure'"),
        ("--epsilon 1 --delta 1e-9 --guarantee probabilistic", "does not offer the guarantee 'probabilistic'"),
        ("", "no budget was given"),
        ("--epsilon 1 --rows 0", "rows (0) must be between"),
        ("--epsilon 1 --rows -5", "rows (-5) must be between"),
        ("--epsilon 1 --rows 99999999999999999999", "rows (99999999999999999999) must be between"),
        ("--epsilon 1 --copies 0", "copies (0) must be between"),
        ("--epsilon 1 --copies 100000", "copies (100000) must be between"),
        ("--epsilon 1 --unit replce", "did you mean 'replace'"),
        ("--epsilon 1 --fixed sexx", "did you mean 'sex'"),
        ("--epsilon 1 --rows-per-unit 0", "rows_per_unit (0)"),
        ("--epsilon 1 --method histogran", "did you mean 'histogram'"),
        ("--epsilon 1 --option rows_bi=rounding", "did you mean 'rows_by'"),
        ("--epsilon 1 --option rows_by=rounded", "rows_by"),
        ("--epsilon 1 --option rows_by", "must look like key=value"),
        ("--epsilon 1 --option rows_by=rounding --option rows_by=multinomial", "was given twice"),
        ("--epsilon 1 --option rows=3", "say --rows"),
    ],
)
@pytest.mark.usefixtures("ledger")
def test_options_that_cannot_be(refused, command, options, says):
    refused(f"{command} {options}", says=says)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("levels", "levls"), "did you mean 'levels'"),
        (("[[attribute]]", "[[atribute]]"), "did you mean 'attribute'"),
        (("below = 15", "below = 1500"), "1500 is not a bin edge of 'age'"),
        (('["no", "yes"]\n[[ignore]]', '["no", "yess"]\n[[ignore]]'), "did you mean 'yes'"),
        (("version = 1", "version = 7"), "version"),
        (("edges = [0, 15", "edges = [15, 15"), "increasing order"),
        (("version = 1", "version = ="), "people.toml"),
    ],
    ids=["key", "table", "bound", "level", "version", "edges", "not TOML"],
)
@pytest.mark.usefixtures("ledger")
def test_a_schema_with_a_typo(folder, refused, change, says):
    text = (folder / "people.toml").read_text()
    assert change[0] in text
    (folder / "people.toml").write_text(text.replace(*change))
    refused(COMMAND.replace("bad.csv", "people.csv"), says=says)
    refused("plan --schema people.toml --epsilon 1", says=says)
    refused("schema describe --schema people.toml", says=says)


def test_a_cross_tabulation_that_is_too_large(folder, refused, run):
    many = "\n".join(f'[[attribute]]\nname = "a{n}"\nlevels = ["x", "y", "z"]' for n in range(60))
    (folder / "wide.toml").write_text(f"version = 1\n{many}\n")  # 3^60 cells: more than 64 bits hold
    command = "plan --schema wide.toml --method histogram --epsilon 1"
    message = refused(command, says="about 10^28 cells")
    assert "at most 10,000,000" in message
    shown = json.loads(run("schema describe --schema wide.toml --json").stdout)
    assert (shown["cells"], shown["possible_cells"]) == (3**60, None)


def test_ten_thousand_levels(folder, run):
    levels = ", ".join(f'"L{n}"' for n in range(10_000))
    (folder / "long.toml").write_text(f'version = 1\n[[attribute]]\nname = "code"\nlevels = [{levels}]\n')
    (folder / "long.csv").write_text("code\n" + "".join(f"L{n}\n" for n in range(0, 10_000, 100)))
    run("synthesize long.csv --schema long.toml --epsilon 1 --out release")
    assert "10,000" in run("schema describe --schema long.toml").stdout


@pytest.mark.parametrize(
    ("out", "says"),
    [
        ("people.csv", "already exists"),
        ("people.csv --overwrite", "is a file and no folder"),
        ("taken", "already exists"),
        ("taken --overwrite", "not a release folder"),
        ("no/such/place", "does not exist"),
        ("/ --overwrite", "name a folder inside it"),
        (". --overwrite", "not a release folder"),
    ],
)
@pytest.mark.usefixtures("ledger")
def test_a_place_that_cannot_be_written(folder, refused, run, out, says):
    (folder / "taken").mkdir()
    (folder / "taken" / "thesis.txt").write_text("years of work")
    command = COMMAND.replace("bad.csv", "people.csv").replace("--out release", "--out")
    refused(f"{command} {out}", says=says)
    assert spent(run) == "0"


@pytest.mark.usefixtures("ledger")
def test_a_read_only_folder(folder, refused, run, monkeypatch):
    real = os.mkdir

    def mkdir(path, *more, **named):  # chmod would not stop root
        if "locked" in str(path):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        real(path, *more, **named)

    (folder / "locked").mkdir()
    monkeypatch.setattr(os, "mkdir", mkdir)
    command = COMMAND.replace("bad.csv", "people.csv").replace("--out release", "--out locked/release")
    refused(command, says="permission is denied")
    assert spent(run) == "0"


@pytest.mark.usefixtures("ledger")
def test_a_disk_that_fills_up_after_the_charge_costs_no_second_charge(folder, run, monkeypatch):
    from understudy.core import folders

    real = folders._sync_tree

    def full(place: Path) -> None:  # there was room for the journal, but there is none for the release
        if (place / "manifest.json").exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        real(place)

    command = COMMAND.replace("bad.csv", "people.csv").replace("--epsilon 1", "--epsilon 0.75")
    with monkeypatch.context() as disk:
        disk.setattr(folders, "_sync_tree", full)
        shown = " ".join(run(command, code=2).stderr.split())
    assert "no space left on the disk" in shown
    assert not (folder / "release").exists()
    (kept,) = folder.glob("release.partial-*")
    assert f"understudy resume {kept}" in shown
    assert spent(run) == "0.75"
    (folder / "people.csv").unlink()  # everything was measured: no data are needed
    made = json.loads(run(f"resume {kept.name} --json").stdout)
    assert (made["release"], made["rows"]) == (str(folder / "release"), [120])
    assert spent(run) == "0.75"
    assert not kept.exists()
    run("verify release")
    run("ledger verify budget.db --against release")


@pytest.mark.full
def test_two_commands_writing_the_same_folder(folder, run):
    run("ledger create budget.db --account people --epsilon 2")
    command = [str(Path(sys.executable).parent / "understudy"), *COMMAND.replace("bad.csv", "people.csv").split()]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate()[1] for process in both]
    assert sorted(process.returncode for process in both) == [0, 2], said
    run("verify release")
    loser = said[0] if both[0].returncode else said[1]
    assert "Traceback" not in loser
    kept = list(folder.glob("release.partial-*"))
    assert spent(run) == str(1 + len(kept))  # refused before its charge, or kept to be finished elsewhere
    for number, place in enumerate(kept):
        run(f"resume {place.name} --out other-{number}")
        run(f"verify other-{number}")
    assert not list(folder.glob("*.partial-*"))
