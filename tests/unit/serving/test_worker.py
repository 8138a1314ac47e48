"""Charge first, draw once: whatever dies when, no answer without a charge and no charge twice."""

from __future__ import annotations

import shutil
import time
from datetime import datetime
from fractions import Fraction

import numpy as np
import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.errors import InputError, UnavailableError
from understudy.privacy.gate.gate import Gate
from understudy.serving.catalogue import publish
from understudy.serving.database.jobs import find_job, retry
from understudy.serving.records import record_hash
from understudy.serving.worker import working
from understudy.serving.worker.confirming import Confirmation


class Killed(BaseException):
    """What a kill -9 looks like from inside: nothing catches it."""


def charges(served) -> list[str]:
    return [entry.run for entry in served.ledger.entries() if entry.kind == "charge"][1:]  # the first is the release's


def state(served, job: str) -> str:
    return served.database.read(lambda s: find_job(s, job)).state


def test_a_confirmation_is_charged_joins_the_release_and_is_recorded(served):
    job = served.ask("0.02", "a")
    assert served.worker().run_once()
    done = served.database.read(lambda s: find_job(s, job.id))
    assert done.state == "done"
    assert charges(served) == [job.id]
    assert served.ledger.account("people").spent["rho"] == Fraction("0.12")
    record = done.record
    assert record["hash"] == record_hash(record)
    assert record["answer"]["validity"] == "valid"
    assert record["answer"]["width"] < record["before"]["width"]
    folder = served.settings.releases / "people" / "2"
    assert all(check.passed for check in us.verify(folder)), us.verify(folder)
    assert us.verify_ledger(served.folder / "budget.db", against=folder).ok
    second = us.read_release(folder)
    assert str(second.statement.guarantee) == str(us.ZCDP(rho="0.12"))
    assert not list(served.settings.place("worker-people").glob(f"{job.id}*"))


def test_no_published_time_tells_when_the_worker_worked(served):
    """Manifest, files and the published hash of the charge: none of them lets anybody find the time of the work."""
    job = served.ask("0.02", "a")
    served.database.write(lambda s: s.run("UPDATE jobs SET approved = approved - 5000.25"))
    assert served.worker().run_once()
    folder = served.settings.releases / "people" / "2"
    approved = served.database.read(lambda s: find_job(s, job.id)).approved
    stated = datetime.fromisoformat(us.read_manifest(folder)["created"]).timestamp()
    assert stated == int(approved)
    assert {round(file.stat().st_mtime, 3) for file in folder.iterdir()} == {round(approved, 3)}
    notes = [entry.note for entry in served.ledger.entries() if entry.run == job.id]
    assert len(notes[0].partition("(")[2]) == 33  # 128 random bits in what is hashed


def test_the_worker_says_that_it_is_there_while_a_job_takes_long(served, monkeypatch):
    monkeypatch.setattr(working, "BEAT_SECONDS", 0.02)
    beats, worker = [], served.worker()
    monkeypatch.setattr(worker, "_beat", lambda: beats.append(None))
    monkeypatch.setattr(worker, "run_once", lambda: time.sleep(0.3) or True)
    worker.run(stop=lambda: len(beats) > 5)
    assert len(beats) > 5


@pytest.mark.parametrize("moment", ["before the charge", "after the charge", "after the draw", "before the end"])
def test_a_killed_worker_takes_the_job_up_without_a_second_charge_or_draw(served, monkeypatch, moment):
    job = served.ask("0.02", "a")
    drawn = []
    original = Gate.measure

    def measure(gate, queries):
        if moment == "after the charge":
            raise Killed
        found = original(gate, queries)
        drawn.append(found[0].values.copy())
        if moment == "after the draw":
            raise Killed
        return found

    def killed(*_, **__):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Gate, "measure", measure)
        if moment == "before the charge":
            patch.setattr(Confirmation, "_charged", killed)
        if moment == "before the end":
            patch.setattr(working, "add_version", killed)
        with pytest.raises(Killed):
            served.worker().run_once()
    assert state(served, job.id) == "approved"
    assert len(charges(served)) == (0 if moment == "before the charge" else 1)
    assert served.worker().run_once()
    assert state(served, job.id) == "done"
    assert charges(served) == [job.id]
    fresh = us.read_release(served.settings.releases / "people" / "2").measurements[-1]
    if moment in ("after the draw", "before the end"):
        assert np.array_equal(fresh.values, drawn[0])
    assert served.ledger.verify().ok


def test_a_charge_whose_journal_is_lost_is_never_drawn_again(served, monkeypatch):
    job = served.ask("0.02", "a")

    def killed(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Gate, "measure", killed)
        with pytest.raises(Killed):
            served.worker().run_once()
    shutil.rmtree(served.settings.place("worker-people") / job.id)
    assert served.worker().run_once()
    assert state(served, job.id) == "failed"
    retry(served.database, job.id)
    assert served.worker().run_once()
    assert state(served, job.id) == "failed"
    assert charges(served) == [job.id]
    assert not (served.settings.releases / "people" / "2").exists()


def test_what_fails_on_the_data_fails_after_the_charge_and_can_be_taken_up(served, monkeypatch):
    job = served.ask("0.02", "a")

    def broken(*_):
        raise ValueError("a confidential value: 4711")

    said = []
    with monkeypatch.context() as patch:
        patch.setattr(Gate, "_measure_one", lambda *_, **__: broken())
        worker = served.worker()
        worker._say = said.append
        assert worker.run_once()
    assert state(served, job.id) == "failed"
    assert charges(served) == [job.id]
    assert "4711" not in " ".join(said)
    with pytest.raises(InputError, match="no such job"):
        retry(served.database, "nothing")
    retry(served.database, job.id)
    assert served.worker().run_once()
    assert state(served, job.id) == "done"
    assert charges(served) == [job.id]


def test_a_job_that_the_account_no_longer_allows_is_refused_and_leaves_nothing(served):
    job = served.ask("0.05", "a")
    served.ledger.reserve(  # somebody else was first
        "people", run="other", plan_hash="a" * 64, unit="replace", cost=us.ZCDP(rho="0.39"), method="histogram"
    )
    assert served.worker().run_once()
    assert state(served, job.id) == "refused"
    assert job.id not in charges(served)
    assert not (served.settings.place("worker-people") / job.id).exists()


def test_two_workers_of_one_data_set_are_refused(served):
    with served.worker().alone(), pytest.raises(InputError, match="another worker"), served.worker().alone():
        pass


def test_a_worker_that_died_while_it_made_its_key_starts_again(served, monkeypatch):
    """The key that chooses rows of units appears whole or not at all, and stays the same."""
    worker = served.worker()

    def dies(*_: object) -> None:
        raise Killed

    with worker.alone():
        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", dies)
            with pytest.raises(Killed):
                worker._data_key()
        first = worker._data_key().to_text()
        assert served.worker()._data_key().to_text() == first


def test_bad_data_are_said_when_a_worker_starts_and_nothing_is_charged(served):
    (served.folder / "people.parquet").write_bytes(b"not a table")
    with pytest.raises(InputError):
        served.worker().check()
    assert charges(served) == []


def test_data_of_another_size_than_the_release_are_refused_at_the_start(served):
    table = pq.read_table(served.folder / "people.parquet")
    pq.write_table(table.slice(0, 1999), served.folder / "people.parquet")
    with pytest.raises(InputError, match="not the same data"):
        served.worker().check()


def test_a_database_that_is_away_fails_no_job(served, monkeypatch):
    """The job is taken up when it is back; nobody has to have it retried."""
    job = served.ask("0.01", "a")
    real, calls = working.open_account, []

    def away(*args, **kwargs):
        calls.append(1)
        if len(calls) < 3:
            raise UnavailableError("the ledger cannot be reached.")
        return real(*args, **kwargs)

    monkeypatch.setattr(working, "open_account", away)
    monkeypatch.setattr(working, "AWAY_SECONDS", 0.01)
    said: list[str] = []
    worker = working.Worker(served.settings, "people", served.database, say=said.append)
    with worker.alone():
        worker.run(stop=lambda: state(served, job.id) == "done", pause=0.01)
    assert charges(served) == [job.id]
    assert [text for text in said if "waits for it" in text] == [
        "the ledger cannot be reached. The worker waits for it."
    ]


def test_a_release_of_another_ledger_is_not_published(served, tmp_path):
    """The same account name in another ledger: what the release spent would not be counted."""
    other = us.Ledger.create(tmp_path / "other.db")
    other.create_account("people", unit="replace", limit=us.ZCDP(rho="0.5"))
    (served.folder / "budget.db").unlink()
    shutil.copy(tmp_path / "other.db", served.folder / "budget.db")
    with pytest.raises(InputError, match="does not hold what the release spent"):
        publish(served.settings, served.database, served.folder / "release", name="again", dataset="people")


def test_a_publication_that_was_interrupted_can_be_repeated(served):
    half = served.settings.releases / "second" / "1"
    half.mkdir(parents=True)
    (half / "manifest.json").write_text("{")
    publish(served.settings, served.database, served.folder / "release", name="second", dataset="people")
    assert all(check.passed for check in us.verify(half))
    with pytest.raises(InputError, match="served already"):
        publish(served.settings, served.database, served.folder / "release", name="second", dataset="people")
    assert not list(served.settings.releases.glob(".new-*"))
