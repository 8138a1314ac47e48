"""Bad settings are said at the start, never by a traceback."""

from __future__ import annotations

import socket
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

import understudy as us
from understudy.api import serving
from understudy.cli.main import app
from understudy.errors import InputError
from understudy.serving.database.connecting import Database
from understudy.serving.settings import DATABASE, IN_FILE, OPENID_SECRET, database_target, read_settings
from understudy.serving.web.listening import free_port

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
    (tmp_path / "text.db").write_text("no database, but long enough to have a header of one " * 4)
    with pytest.raises(InputError, match="another kind of file"):
        Database.open(str(tmp_path / "text.db"))
    with pytest.raises(InputError, match="cannot be reached") as told:
        Database.open("postgresql://nobody:secret@127.0.0.1:1/none")
    assert "secret" not in str(told.value)


BAD = (
    ("no variable", "no database is named: set UNDERSTUDY_DATABASE"),
    ("no file of the variable", "cannot be read"),
    ("no database", "does not exist"),
    ("older database", "has version 0"),
    ("no ledger", "budget.db does not exist"),
    ("another currency", "a served account counts zero-concentrated"),
    ("no account", "account 'nobody' is unknown"),
    ("no settings", "do not exist"),
)


@pytest.mark.parametrize(
    ("process", "change", "says"),
    [(process, *one) for process in ("web", "worker") for one in BAD]
    + [("web", "openid", "needs the secret of the client")],
)
def test_both_processes_say_at_their_start_what_is_wrong(served, monkeypatch, process, change, says):
    """Everything that can be wrong with a server, at the command line: one sentence and the code of bad input."""
    folder, site = served.folder, served.folder / "site.toml"
    monkeypatch.delenv(DATABASE + IN_FILE, raising=False)
    monkeypatch.setenv(DATABASE, "server.db")
    if change == "no variable":
        monkeypatch.delenv(DATABASE)
    elif change == "no file of the variable":
        monkeypatch.setenv(DATABASE + IN_FILE, str(folder / "nowhere"))
    elif change == "no database":
        monkeypatch.setenv(DATABASE, "other.db")
    elif change == "older database":
        served.database.write(lambda session: session.run("UPDATE meta SET value = '0' WHERE name = 'version'"))
    elif change == "no ledger":
        (folder / "budget.db").unlink()
    elif change == "another currency":
        us.Ledger.open(folder / "budget.db").create_account("pure", unit="replace", limit=us.PureDP(epsilon=1))
        site.write_text(site.read_text().replace('account = "people"', 'account = "pure"'))
    elif change == "no account":
        site.write_text(site.read_text().replace('account = "people"', 'account = "nobody"'))
    elif change == "no settings":
        site.unlink()
    else:
        pytest.importorskip("joserfc")
        provider = 'issuer = "https://id.example"\nclient_id = "x"\naddress = "https://server.example"'
        site.write_text(f"[openid]\n{provider}\n{site.read_text()}")
        monkeypatch.delenv(OPENID_SECRET, raising=False)
    port = ["--port", str(free_port())] if process == "web" else []
    result = CliRunner().invoke(app, ["serve", process, "--settings", str(site), *port])
    assert result.exit_code == 2, result.output
    assert says in result.stderr
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr


def test_a_port_that_is_taken_is_said(served, monkeypatch):
    monkeypatch.setenv(DATABASE, "server.db")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        result = CliRunner().invoke(
            app, ["serve", "web", "--settings", str(served.folder / "site.toml"), "--port", port]
        )
    assert result.exit_code == 2
    assert f"port {port} of 127.0.0.1 cannot be used" in result.stderr


def test_a_demonstration_that_runs_keeps_its_tokens(served, monkeypatch):
    """A second one of the same folder cannot have the port, so it changes nothing."""

    class Process:
        def terminate(self) -> None: ...

        def wait(self, timeout: float) -> None: ...

    monkeypatch.setattr(serving, "start_worker", lambda *_: Process())
    monkeypatch.setattr(serving.signal, "signal", lambda *_: None)  # these tests end as they did before
    monkeypatch.setenv(DATABASE, "server.db")
    monkeypatch.delenv(DATABASE + IN_FILE, raising=False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = CliRunner().invoke(
            app, ["serve", "--demo", "--out", str(served.folder), "--port", str(taken.getsockname()[1])]
        )
    assert result.exit_code == 2, result.output
    assert "it is taken" in result.stderr
    names = {row[0] for row in served.database.read(lambda s: s.rows("SELECT name FROM people"))}
    assert names == set(served.tokens)
