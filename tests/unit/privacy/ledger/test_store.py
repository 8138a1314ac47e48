"""The file of a ledger: made whole, never overwritten, and clear words when it cannot be used."""

from __future__ import annotations

import contextlib
import os
import resource
import sqlite3
from pathlib import Path

import pytest

from understudy.errors import InputError
from understudy.privacy.ledger import store as ledger_store
from understudy.privacy.ledger.ledger import Entry, Ledger
from understudy.privacy.promise.definition import Definition, PureDP


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "budget.db")


def charge(ledger: Ledger, run: str, cost: Definition) -> Entry:
    return ledger.reserve("people", run=run, plan_hash="a" * 64, unit="replace", cost=cost, method="histogram")


def open_people(ledger: Ledger, limit: Definition) -> None:
    ledger.create_account("people", unit="replace", limit=limit)


def test_a_new_ledger_is_one_private_file(ledger: Ledger) -> None:
    assert [path.name for path in ledger.path.parent.iterdir()] == ["budget.db"]
    assert ledger.path.stat().st_mode & 0o777 == 0o600
    open_people(ledger, PureDP(epsilon=1))
    charge(ledger, "r1", PureDP(epsilon=1))
    assert [path.name for path in ledger.path.parent.iterdir()] == ["budget.db"]
    assert ledger.verify().ok
    assert Ledger.open(ledger.path).head() == ledger.head()


def test_two_ledgers_never_share_a_hash(ledger: Ledger, tmp_path: Path) -> None:
    assert Ledger.create(tmp_path / "other.db").head() != ledger.head()


@pytest.mark.parametrize("kind", ["ledger", "file", "folder", "dangling link"])
def test_creating_never_overwrites(ledger: Ledger, tmp_path: Path, kind: str) -> None:
    target = ledger.path if kind == "ledger" else tmp_path / "target"
    if kind == "file":
        target.write_text("mine")
    elif kind == "folder":
        target.mkdir()
    elif kind == "dangling link":
        target.symlink_to(tmp_path / "nowhere")
    before = ledger.path.read_bytes()
    with pytest.raises(InputError, match="already exists"):
        Ledger.create(target)
    assert ledger.path.read_bytes() == before
    if kind == "file":
        assert target.read_text() == "mine"


def test_creating_loses_to_a_faster_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "budget.db"
    monkeypatch.setattr(ledger_store.os.path, "lexists", lambda path: False)
    target.write_text("theirs")
    with pytest.raises(InputError, match="created by another process"):
        Ledger.create(target)
    assert target.read_text() == "theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["budget.db"]


def test_creating_in_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist; create it first"):
        Ledger.create(tmp_path / "no" / "budget.db")


def _other_version(path: Path) -> None:
    Ledger.create(path)
    with contextlib.closing(sqlite3.connect(path)) as raw:
        raw.execute("PRAGMA user_version=7")


def _other_database(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as raw:
        raw.execute("CREATE TABLE entries (x)")


def _without_table(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as raw:
        raw.execute(f"PRAGMA application_id={ledger_store.APPLICATION_ID}")
        raw.execute(f"PRAGMA user_version={ledger_store.VERSION}")


def _damaged(path: Path) -> None:
    Ledger.create(path)
    content = bytearray(path.read_bytes())
    content[100:3000] = bytes(2900)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "does not exist"),
        (Path.mkdir, "not a file"),
        (lambda path: path.write_text("name,age\nAnn,3\n" * 100), "not an SQLite database"),
        (lambda path: path.write_bytes(b""), "is not a ledger"),
        (_other_database, "is not a ledger"),
        (_other_version, "version 7; this program understands versions 1 to 2"),
        (_without_table, "no entries table"),
        (_damaged, "damaged"),
    ],
)
def test_what_cannot_be_opened_says_why(tmp_path: Path, make: object, words: str) -> None:
    make(tmp_path / "budget.db")
    with pytest.raises(InputError, match=words) as caught:
        Ledger.open(tmp_path / "budget.db")
    assert "Ann" not in str(caught.value)


def test_a_read_only_ledger_can_be_read_when_asked_so(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    open_people(ledger, PureDP(epsilon=1))
    monkeypatch.setattr(os, "access", lambda path, mode: mode == os.R_OK)
    with pytest.raises(InputError, match="is read-only"):
        Ledger.open(ledger.path)
    reader = Ledger.open(ledger.path, writable=False)
    assert reader.verify().ok
    with pytest.raises(InputError, match="is read-only; charges need permission"):
        charge(reader, "r1", PureDP(epsilon=1))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(InputError, match="cannot be read: permission is denied"):
        Ledger.open(ledger.path, writable=False)


def test_a_name_with_odd_characters(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "a?mode=memory#b %41.db")
    open_people(ledger, PureDP(epsilon=1))
    assert [path.name for path in tmp_path.iterdir()] == ["a?mode=memory#b %41.db"]
    assert Ledger.open(ledger.path).account("people").runs == 0


def test_a_busy_ledger_is_waited_for_and_then_refused(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    open_people(ledger, PureDP(epsilon=1))
    monkeypatch.setattr(ledger_store, "BUSY_SECONDS", 0.05)
    with contextlib.closing(sqlite3.connect(ledger.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(InputError, match="in use by another process"):
            charge(ledger, "r1", PureDP(epsilon=1))
    charge(ledger, "r1", PureDP(epsilon=1))


def test_durable_settings_are_in_force(ledger: Ledger) -> None:
    with ledger._file.transaction() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA: FULL and a sync of the folder
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        with contextlib.closing(sqlite3.connect(ledger.path, timeout=0)) as other:
            other.execute("SELECT * FROM entries").fetchall()  # readers are not shut out
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute("BEGIN IMMEDIATE")


def test_a_full_disk_charges_nothing(ledger: Ledger) -> None:
    open_people(ledger, PureDP(epsilon=1))
    size = ledger.path.stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    charged = 0
    problem = None
    try:
        while problem is None and charged < 100:
            try:
                charge(ledger, f"r{charged}", PureDP(epsilon="0.001"))
                charged += 1
            except InputError as refused:
                problem = str(refused)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert problem is not None
    assert "no space left" in problem or "the disk reported an error" in problem
    assert ledger.account("people").runs == charged < 100
    assert ledger.verify().ok
    charge(ledger, "afterwards", PureDP(epsilon="0.001"))
