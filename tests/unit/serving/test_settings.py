"""Bad settings are said at the start, never by a traceback."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from understudy.errors import InputError
from understudy.serving.database.connecting import Database
from understudy.serving.settings import DATABASE, IN_FILE, database_target, read_settings

GOOD = '[[dataset]]\nname = "people"\nledger = "budget.db"\naccount = "people"\ndata = "people.parquet"\n'


def settings(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "site.toml"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "names no data set"),
        ("[server\n", "not valid TOML"),
        ("[servers]\n" + GOOD, "unknown part 'servers'"),
        ("[server]\ntitel = 'x'\n" + GOOD, "titel"),
        ("[server]\nanswer_seconds = 0\n" + GOOD, "answer_seconds"),
        ("[server]\nfour_eyes = 1\n" + GOOD, "true or false"),
        (GOOD + GOOD, "twice"),
        (GOOD + GOOD.replace('"people"', '"again"'), "are the same data"),
        (GOOD + GOOD.replace('"people"', '"again"').replace("people.par", "x/../people.par"), "are the same data"),
        (GOOD + GOOD.replace('"people"', '"b"').replace("people.", "b.") + 'state = "worker-people"\n', "state folder"),
        ("[server]\nanswer_seconds = 'x'\n" + GOOD, "answer_seconds"),
        ("[server]\njob_seconds = -1\n" + GOOD, "job_seconds"),
        (GOOD.replace('"people"', '"../people"', 1), "letters, digits"),
        (GOOD.replace('"budget.db"', '"postgresql://me:secret@here/db"'), "env:NAME"),
        (GOOD.replace('data = "people.parquet"', ""), "data of a data set"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, text, says):
    with pytest.raises(InputError, match=says):
        read_settings(settings(tmp_path, text))


def test_missing_settings_and_database_are_said(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="do not exist"):
        read_settings(tmp_path / "nowhere.toml")
    found = read_settings(settings(tmp_path, GOOD))
    monkeypatch.delenv(DATABASE, raising=False)
    monkeypatch.delenv(DATABASE + IN_FILE, raising=False)
    with pytest.raises(InputError, match=DATABASE):
        database_target(found)
    monkeypatch.setenv(DATABASE + IN_FILE, str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="cannot be read"):
        database_target(found)
    (tmp_path / "address").write_text("server.db\n")
    monkeypatch.setenv(DATABASE + IN_FILE, str(tmp_path / "address"))
    assert database_target(found) == str(tmp_path / "server.db")


def test_a_database_that_is_not_ours_or_of_another_version_is_refused(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        Database.open(str(tmp_path / "server.db"))
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE t (x)").connection.close()
    with pytest.raises(InputError, match="no tables of this server"):
        Database.open(str(tmp_path / "other.db"))
    made = Database.open(str(tmp_path / "server.db"), create=True)
    made.write(lambda session: session.run("UPDATE meta SET value = '0' WHERE name = 'version'"))
    with pytest.raises(InputError, match="version 0"):
        Database.open(str(tmp_path / "server.db"))
    with pytest.raises(InputError, match="cannot be used"):
        Database.open("postgresql://nobody@127.0.0.1:1/none")
