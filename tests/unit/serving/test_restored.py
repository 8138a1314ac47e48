"""What was restored from a backup, or is away: nothing is overwritten, spent twice, or told to people outside."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace
from fractions import Fraction

import pytest

import understudy as us
from understudy.errors import InputError, UnavailableError
from understudy.serving.accounts import means_of
from understudy.serving.asking import Asked
from understudy.serving.catalogue import publish
from understudy.serving.database.connecting import Database
from understudy.serving.database.jobs import find_job
from understudy.serving.database.log import entries
from understudy.serving.database.people import add_project
from understudy.serving.web.application import make_application
from understudy.serving.worker import working
from understudy.serving.worker.working import Worker

testclient = pytest.importorskip("starlette.testclient", exc_type=ImportError)


def backup(served, file: str) -> None:
    shutil.copy(served.folder / file, served.folder / f"{file}.old")


def restore(served, file: str) -> None:
    shutil.copy(served.folder / f"{file}.old", served.folder / file)


def client_of(served, who: str = "ana"):
    client = testclient.TestClient(make_application(served.settings, served.database), follow_redirects=False)
    client.headers["authorization"] = f"Bearer {served.tokens[who]}"
    return client


def hash_of(served, number: int) -> str:
    return hashlib.sha256((served.settings.releases / f"people/{number}/manifest.json").read_bytes()).hexdigest()


def run_all(served) -> list[str]:
    said: list[str] = []
    worker = Worker(served.settings, "people", served.database, say=said.append)
    with worker.alone():
        worker.check()
        while worker.run_once():
            pass
    return said


@pytest.mark.parametrize("asked_before_the_backup", [False, True])
def test_a_version_that_an_older_database_forgot_is_never_overwritten(served, asked_before_the_backup):
    job = served.ask("0.02", "a") if asked_before_the_backup else None
    backup(served, "server.db")
    job = job or served.ask("0.02", "a")
    run_all(served)
    record, made = served.database.read(lambda s: find_job(s, job.id)).record, hash_of(served, 2)
    restore(served, "server.db")
    later = served.ask("0.03", "b", question="proportion(sex == 'F')")
    assert any("version 2 of 'people'" in text for text in run_all(served))
    served.appear()
    rows = served.database.read(lambda s: s.rows("SELECT number, job FROM versions ORDER BY number"))
    assert rows == [(1, None), (2, job.id), (3, later.id)]
    assert hash_of(served, 2) == made
    assert len(served.release.provenance.added) == 2
    assert served.release.statement.guarantee == us.ZCDP(rho="0.15")
    assert [one.run for one in served.ledger.entries() if one.kind == "charge"][1:] == [job.id, later.id]
    assert client_of(served).get(f"/records/{job.id}/record.json").json() == record
    assert "taken back" in {one["event"] for one in served.database.read(entries)}


def test_a_forgotten_record_is_shown_when_its_version_is_and_not_before(served):
    backup(served, "server.db")
    job = served.ask("0.02", "a")
    run_all(served)
    restore(served, "server.db")
    slow = replace(served.settings, answer_seconds=600.0)
    with (worker := Worker(slow, "people", served.database, say=lambda _: None)).alone():
        worker.check()
    assert [one.number for one in served.catalogue.versions("people")] == [1]
    assert client_of(served).get(f"/records/{job.id}/record.json").status_code == 400


def test_folders_that_do_not_follow_each_other_are_said_and_stay(served):
    backup(served, "server.db")
    served.ask("0.02", "a")
    served.ask("0.02", "b", question="proportion(sex == 'F')")
    run_all(served)
    restore(served, "server.db")
    place = served.settings.releases / "people"
    shutil.rmtree(place / "2")
    (place / "3").rename(place / "2")
    with pytest.raises(InputError, match="is not the next version of 'people'"):
        run_all(served)
    assert served.release.provenance.added == ()


def test_a_server_that_lost_its_database_goes_on_where_it_was(served):
    """With the same release under the same name; another release cannot take its place."""
    job = served.ask("0.02", "a")
    run_all(served)
    made = hash_of(served, 2)
    (served.folder / "server.db").unlink()
    served.database = Database.open(str(served.folder / "server.db"), create=True)
    with pytest.raises(InputError, match="is another release"):
        publish(
            served.settings, served.database, served.settings.releases / "people/2", name="people", dataset="people"
        )
    publish(served.settings, served.database, served.folder / "release", name="people", dataset="people")
    run_all(served)
    served.appear()
    assert [(one.number, one.job) for one in served.catalogue.versions("people")] == [(1, None), (2, job.id)]
    assert hash_of(served, 2) == made
    assert served.database.read(means_of(served.settings, served.settings.datasets[0], served.database).left) == (
        Fraction("0.38")
    )


def test_a_ledger_that_forgot_a_charge_stops_the_worker(served):
    backup(served, "budget.db")
    served.ask("0.02", "a")
    run_all(served)
    restore(served, "budget.db")
    served.ask("0.3", "b", person="ben", question="proportion(sex == 'F')")
    with pytest.raises(InputError, match="budget would be spent twice"):
        run_all(served)
    assert len([one for one in served.ledger.entries() if one.kind == "charge"]) == 1


def test_a_worker_with_another_state_folder_is_refused_while_the_first_lives(served, monkeypatch):
    first = served.worker()
    (one,) = served.settings.datasets
    elsewhere = replace(served.settings, datasets=(replace(one, state="elsewhere"),))
    second = Worker(elsewhere, "people", served.database, say=lambda _: None)
    with first.alone():
        with pytest.raises(InputError, match="another state folder"), second.alone():
            pass
        # One that was silent for long is taken for dead; if it comes back, it ends.
        served.database.write(lambda s: s.run("UPDATE meta SET value = '0 dead' WHERE name = 'worker people'"))
        monkeypatch.setattr(working, "BEAT_SECONDS", 0.01)
        with second.alone(), pytest.raises(InputError, match="another state folder"):
            first.run(stop=lambda: False, pause=0.01)
    with second.alone():  # the same one again, however soon
        pass


def test_a_database_file_that_goes_away_is_waited_for_and_never_made_empty(served):
    file, job = served.folder / "server.db", served.ask("0.02", "a")
    aside = file.rename(served.folder / "aside.db")
    worker, said, turns = served.worker(), [], []
    worker._say = said.append

    def stop() -> bool:
        turns.append(len(said))
        if len(turns) == 3:
            assert not file.exists()
            aside.rename(file)
        return len(turns) > 20 or (file.exists() and state_of(served, job.id) == "done")

    client = client_of(served)
    for path in ("/", "/api/me", "/jobs"):
        assert client.get(path).status_code == 503
        assert str(served.folder) not in client.get(path).text
    worker.run(stop=stop, pause=0.01)
    assert state_of(served, job.id) == "done"
    assert "The worker waits for it." in said[0]


def state_of(served, job: str) -> str:
    return served.database.read(lambda s: find_job(s, job)).state


@pytest.mark.parametrize("gone", ["releases/people/1", "budget.db"])
def test_what_the_server_cannot_read_is_told_to_its_operator_alone(served, gone, capsys):
    client = client_of(served)
    (served.folder / gone).rename(served.folder / "aside")
    asked = {"question": "mean(age)", "width": 50}
    for answer in (
        client.post("/api/releases/people/price", json=asked),
        client.get("/releases/people") if gone != "budget.db" else client.get("/audit", headers=auditor(served)),
    ):
        assert answer.status_code == 503
        assert str(served.folder) not in answer.text
    assert str(served.folder) in capsys.readouterr().err


def auditor(served) -> dict[str, str]:
    return {"authorization": f"Bearer {served.tokens['aud']}"}


def test_a_database_that_lost_its_tables_is_said(tmp_path):
    made = Database.open(str(tmp_path / "server.db"), create=True)
    made.write(lambda session: session.run("DROP TABLE jobs"))
    with pytest.raises(UnavailableError, match="has lost its tables"):
        made.read(lambda session: session.rows("SELECT * FROM jobs"))


def test_two_data_sets_with_one_account_have_one_budget_and_no_clock(served):
    """A job counts from its approval on, for both: when the other worker charged it is seen nowhere."""
    (one,) = served.settings.datasets
    other = replace(one, name="visits", data="visits.parquet", state="worker-visits")
    settings = replace(served.settings, datasets=(one, other))
    add_project(served.database, "clinic", dataset="visits", allowance=Fraction(1, 5))
    served.database.write(lambda s: s.run("UPDATE people SET project = 'clinic' WHERE name = 'ben'"))
    with pytest.raises(InputError, match="about another data set than this release"):
        served.site.quote(served.person("ben"), "people", Asked(question="mean(age)"), 50)

    def left() -> list[Fraction]:
        return [
            served.database.read(means_of(settings, dataset, served.database).left) for dataset in settings.datasets
        ]

    assert left() == [Fraction("0.4")] * 2
    served.ask("0.02", "a")
    assert left() == [Fraction("0.38")] * 2
    run_all(served)
    assert left() == [Fraction("0.38")] * 2
    apart = replace(settings, datasets=(one, replace(other, account="visits")))
    served.ledger.create_account("visits", unit="replace", limit=us.ZCDP(rho="1"))
    assert served.database.read(means_of(apart, apart.datasets[1], served.database).left) == 1
