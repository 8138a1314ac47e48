"""Attacks on a server that listens: races over HTTP, slow senders, stolen words, and what refusals could tell."""

from __future__ import annotations

import json
import shutil
import socket
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from starlette.testclient import TestClient

import understudy as us
from tests.unit.serving.conftest import QUESTION, Served, make_served
from understudy.errors import UnavailableError
from understudy.privacy.gate.gate import Gate
from understudy.serving.database.jobs import APPROVED, WAITING, committed, find_job, jobs_of
from understudy.serving.database.log import entries, problems
from understudy.serving.database.people import add_person, revoke
from understudy.serving.settings import Settings
from understudy.serving.web import guarding, pages, prompt_requests
from understudy.serving.web.application import make_application, serve
from understudy.serving.web.listening import free_port
from understudy.serving.web.site import COOKIE

BOTH_STORES = pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
Call = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def on_store(request, template, tmp_path, store) -> Served:
    """The small server, with its tables in a file or in a real PostgreSQL."""
    folder = tmp_path / "served"
    shutil.copytree(template, folder)
    target = str(folder / "server.db") if store == "sqlite" else request.getfixturevalue("postgres").fresh()
    return make_served(folder, target)


@contextmanager
def listening(served: Served, settings: Settings | None = None) -> Iterator[int]:
    """The web process, on a port of this machine."""
    port, ready, stop = free_port(), threading.Event(), threading.Event()
    web = threading.Thread(
        target=serve, args=(settings or served.settings, served.database), daemon=True,
        kwargs={"host": "127.0.0.1", "port": port, "ready": ready.set, "stop": stop},
    )  # fmt: skip
    web.start()
    assert ready.wait(240)
    try:
        yield port
    finally:
        stop.set()
        web.join(30)


def caller(served: Served, port: int) -> Call:
    def call(name: str, path: str, document: object = None) -> tuple[int, dict[str, Any]]:
        asked = urllib.request.Request(
            f"http://127.0.0.1:{port}{path}", data=None if document is None else json.dumps(document).encode(),
            headers={"authorization": f"Bearer {served.tokens[name]}", "content-type": "application/json"},
        )  # fmt: skip
        try:
            with urllib.request.urlopen(asked, timeout=120) as answer:  # noqa: S310 - our own server
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as problem:
            return problem.code, json.loads(problem.read())

    return call


def at_once(work: list[Callable[[], Any]]) -> list[Any]:
    """Everything at the same moment, as far as a machine can."""
    barrier = threading.Barrier(len(work))

    def one(job: Callable[[], Any]) -> Any:
        barrier.wait()
        return job()

    with ThreadPoolExecutor(len(work)) as threads:
        return list(threads.map(one, work))


@BOTH_STORES
def test_one_job_is_approved_once_however_many_say_so_at_the_same_moment(on_store):
    """With four eyes one person is one vote, however often it is sent. Two persons approve; it is charged once."""
    served = on_store
    served.tokens["sam"] = add_person(served.database, "sam", role="steward", project=None)
    job = served.ask("0.06", "a")
    with listening(served, replace(served.settings, four_eyes=True)) as port:
        call = caller(served, port)

        def say(name: str) -> tuple[int, dict[str, Any]]:
            return call(name, f"/api/jobs/{job.id}/decision", {"approve": True})

        codes = Counter(code for code, _ in at_once([lambda: say("sue")] * 6))
        assert codes == {200: 1, 400: 5}
        assert served.database.read(lambda s: find_job(s, job.id)).state == WAITING
        codes = Counter(code for code, _ in at_once([lambda name=name: say(name) for name in ("app", "sam") * 3]))
        assert codes == {200: 1, 400: 5}
    assert served.database.read(lambda s: find_job(s, job.id)).state == APPROVED
    assert served.database.read(lambda s: committed(s, dataset="people")) == job.rho
    assert Counter(one["event"] for one in served.database.read(entries))["approved"] == 2
    worker = served.worker()
    assert worker.run_once()
    assert not worker.run_once()
    assert [entry.run for entry in served.ledger.entries() if entry.kind == "charge"][1:] == [job.id]
    assert served.database.read(problems) == []


@BOTH_STORES
def test_approvals_that_race_never_exceed_the_account(on_store):
    """Six jobs of .15 wait, .4 is left, and three people approve all of them at once: two are approved."""
    served = on_store
    served.tokens["sam"] = add_person(served.database, "sam", role="steward", project=None)
    jobs = [served.ask("0.15", str(number)).id for number in range(6)]
    with listening(served) as port:
        call = caller(served, port)
        answers = at_once(
            [
                lambda name=name, job=job: call(name, f"/api/jobs/{job}/decision", {"approve": True})
                for name in ("sue", "app", "sam")
                for job in jobs
            ]
        )
    assert {code for code, _ in answers} == {200, 400, 409}
    assert sum(code == 200 for code, _ in answers) == 2
    states = Counter(one.state for one in served.database.read(jobs_of))
    assert states == {APPROVED: 2, WAITING: 4}
    assert served.database.read(lambda s: committed(s, dataset="people")) == Fraction("0.3")


@BOTH_STORES
def test_purchases_that_race_over_http_stay_inside_the_allowance(on_store):
    """Four purchases of a project at once, each sent twice: four jobs, and what is approved fits."""
    served = on_store
    wanted = [(f"proportion(smokes == 'yes', where=sex == '{one}')", 0.14) for one in "FM"]
    wanted += [(f"proportion(sex == 'F', where=smokes == '{one}')", 0.14) for one in ("yes", "no")]
    with listening(served) as port:
        call = caller(served, port)
        costs = [
            call("ana", "/api/releases/people/price", {"question": text, "width": width})[1] for text, width in wanted
        ]
        allowance = sum(Fraction(one["rho"]) for one in costs) / 2
        served.database.write(
            lambda s: s.run("UPDATE projects SET allowance = ? WHERE name = 'labour'", (str(allowance),))
        )
        answers = at_once(
            [
                lambda text=text, width=width: call(
                    "ana", "/api/releases/people/confirm", {"question": text, "width": width, "once": text}
                )
                for text, width in wanted * 2
            ]
        )
    assert {code for code, _ in answers} == {200}
    assert len({answer["id"] for _, answer in answers}) == len(wanted)
    states = Counter(one.state for one in served.database.read(jobs_of))
    assert states[APPROVED] >= 1
    assert states[WAITING] >= 1
    assert served.database.read(lambda s: committed(s, project="labour")) <= allowance
    assert served.database.read(problems) == []


def received(connection: socket.socket) -> bytes:
    """All that comes until the other side ends."""
    connection.settimeout(20)
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def test_who_sends_slowly_is_shown_the_door_and_holds_nobody_up(served, monkeypatch):
    monkeypatch.setattr(guarding, "BODY_SECONDS", 0.5)
    monkeypatch.setattr(prompt_requests, "HEAD_SECONDS", 1.0)
    head = b"POST /api/releases/people/ask HTTP/1.1\r\nhost: x\r\n"
    token = served.tokens["ana"].encode()
    with listening(served) as port:
        address = ("127.0.0.1", port)
        # Connections that say nothing, or never end their head, take all places there are.
        idle = [socket.create_connection(address) for _ in range(210)]
        for one in idle[::2]:
            one.sendall(head)
        for one in idle[:3]:
            assert received(one) == b""
        time.sleep(0.3)
        with socket.create_connection(address) as good:
            good.sendall(
                b"GET /api/me HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer " + token + b"\r\n\r\n"
            )
            assert b"200 OK" in received(good)
        # A body that stops in the middle.
        with socket.create_connection(address) as slow:
            slow.sendall(
                head + b"connection: close\r\nauthorization: Bearer " + token + b"\r\ncontent-length: 50\r\n\r\n{"
            )
            answer = received(slow)
        assert b"408" in answer.split(b"\r\n")[0]
        assert b"took too long" in answer
        # A second request on a connection whose first was fine.
        with socket.create_connection(address) as again:
            again.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
            assert b"200 OK" in again.recv(65536)
            again.sendall(b"GET /health HTT")
            received(again)  # ends: it is closed
        for one in idle:
            one.close()
    assert served.database.read(jobs_of) == []


def test_nobody_has_more_requests_by_naming_other_addresses(served):
    served.settings = replace(served.settings, requests_per_minute=3)
    with listening(served) as port:
        statuses = []
        for number in range(5):
            with socket.create_connection(("127.0.0.1", port)) as connection:
                said = (
                    f"x-forwarded-for: 10.0.0.{number}\r\nforwarded: for=10.0.0.{number}\r\nx-real-ip: 10.0.0.{number}"
                )
                connection.sendall(f"GET /api HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{said}\r\n\r\n".encode())
                statuses.append(received(connection).split(b" ")[1])
    assert statuses == [b"200"] * 3 + [b"429"] * 2


def test_a_word_of_another_session_or_a_made_up_cookie_opens_nothing(served):
    application = make_application(served.settings, served.database)

    def session(name: str) -> tuple[TestClient, str]:
        client = TestClient(application, follow_redirects=False)
        client.post("/sign-in", data={"token": served.tokens[name]})
        return client, client.get("/jobs").text.partition('name="csrf" value="')[2].partition('"')[0]

    job = served.ask("0.06", "a")
    (sue, own), (_, others) = session("sue"), session("app")
    path, form = f"/jobs/{job.id}/decision", {"decision": "approve"}
    assert sue.post(path, data={**form, "csrf": others}).status_code == 403
    assert served.database.read(lambda s: find_job(s, job.id)).state == WAITING
    forged = TestClient(application, follow_redirects=False)
    for secret in ("x", own, served.tokens["sue"], "' OR 1=1 --", "a" * 300):
        forged.cookies.set(COOKIE, secret)
        assert forged.get("/jobs").headers["location"] == "/sign-in"
        assert forged.post(path, data={**form, "csrf": own}).headers["location"] == "/sign-in"
    # A session is no token, and a token that was replaced is as unknown as one that never was.
    assert forged.get("/api/me", headers={"authorization": f"Bearer {sue.cookies[COOKIE]}"}).status_code == 401
    old = served.tokens["ben"]
    add_person(served.database, "ben", role="analyst", project="health")
    revoke(served.database, "aud")
    said = {
        forged.get("/api/me", headers={"authorization": f"Bearer {token}"}).text
        for token in (old, served.tokens["aud"], "never")
    }
    assert len(said) == 1
    assert sue.post(path, data={**form, "csrf": own}).status_code == 303


def test_the_web_process_answers_and_refuses_all_the_same_without_the_data(served):
    """So nothing that it says, refuses or takes time for can depend on them."""
    (served.folder / "people.parquet").unlink()
    client = TestClient(make_application(served.settings, served.database), follow_redirects=False)
    headers = {"authorization": f"Bearer {served.tokens['ana']}"}

    def status(path: str, **asked: object) -> int:
        return client.post(
            f"/api/releases/people/{path}", json={"question": QUESTION, **asked}, headers=headers
        ).status_code

    assert status("ask") == 200
    assert status("price", width=0.12) == 200
    assert status("price", width=1e-6) == 422
    assert status("price", width=-1) == 400
    assert status("confirm", width=0.12, most="1/1000000") == 400
    assert status("confirm", width=0.12) == 200


def test_done_failed_and_refused_look_the_same_until_they_are_due(served, monkeypatch):
    jobs = [served.ask("0.01", name) for name in ("done", "failed")]
    slow = replace(served.settings, answer_seconds=600.0, job_seconds=1.0)
    client = TestClient(make_application(slow, served.database), follow_redirects=False)
    client.post("/sign-in", data={"token": served.tokens["ana"]})
    headers = {"authorization": f"Bearer {served.tokens['ana']}"}

    def seen() -> list[str]:
        found = []
        for job in jobs:
            told = client.get(f"/api/jobs/{job.id}", headers=headers).json()
            page = client.get(f"/jobs/{job.id}").text
            for word in (job.id, str(told["answer_expected"])):
                page = page.replace(word, "")
            state = {key: told[key] for key in told if key not in ("id", "answer_expected")}
            found.append(json.dumps(state, sort_keys=True) + page)
        return [*found, client.get("/jobs").text, client.get("/api/jobs", headers=headers).text, client.get("/").text]

    monkeypatch.setattr(pages, "MOST_AGAIN", 5)  # how long a page waits before it looks again is not told by the clock
    worker = type(served.worker())(slow, "people", served.database, say=lambda _: None)
    with worker.alone():  # from here on it is there, and pages say so whatever it does
        before = seen()
        assert worker.run_once()
        with monkeypatch.context() as patch:
            patch.setattr(Gate, "measure", lambda *_: 1 / 0)
            assert worker.run_once()
    assert [served.database.read(lambda s, one=one: find_job(s, one.id)).state for one in jobs] == ["done", "failed"]
    assert seen() == before
    assert client.get(f"/records/{jobs[0].id}").status_code == 400
    third = served.ask("0.01", "refused")
    jobs.append(third)
    before = seen()
    served.ledger.reserve(
        "people", run="other", plan_hash="a" * 64, unit="replace", cost=us.ZCDP(rho="0.375"), method="histogram",
    )  # fmt: skip
    with worker.alone():
        assert worker.run_once()
    assert served.database.read(lambda s: find_job(s, third.id)).state == "refused"
    assert seen()[: len(jobs)] == before[: len(jobs)]


def test_an_address_without_a_page_leads_back(served):
    client = TestClient(make_application(served.settings, served.database), follow_redirects=False)
    for path in ("/nowhere", "/releases", "/releases/people/price"):
        page = client.get(path)
        assert page.status_code == 404
        assert "There is nothing under this address" in page.text
        assert "Back to the releases" in page.text
    assert client.get("/api/nowhere").json() == {"error": "there is nothing under this address."}


def test_a_database_that_goes_away_is_said_and_charges_nothing(served, monkeypatch):
    client = TestClient(make_application(served.settings, served.database), follow_redirects=False)

    def away(*_: object, **__: object) -> None:
        raise UnavailableError("the database cannot be used (no answer).")

    monkeypatch.setattr(type(served.database), "read", away)
    asked = client.get("/api/me", headers={"authorization": "Bearer x"})
    assert asked.status_code == 503
    assert "try again later" in asked.json()["error"]
    assert "cannot be used (no answer)" not in asked.text
    assert client.get("/health").status_code == 503
