"""Money is committed once, inside every limit, whoever asks how often and at the same time."""

from __future__ import annotations

import shutil
import threading
import time
from dataclasses import replace
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import log2

import pytest

import understudy as us
from tests.unit.serving.conftest import QUESTION, make_served
from understudy.errors import BudgetError, InputError, UnavailableError
from understudy.serving.asking import Asked, sale_note
from understudy.serving.catalogue import versions_of
from understudy.serving.database.connecting import Database
from understudy.serving.database.jobs import (
    APPROVED,
    DECLINED,
    DONE,
    FAILED,
    REFUSED,
    SHARED,
    WAITING,
    committed,
    due_times,
    find_job,
    finish,
    request,
)
from understudy.serving.database.log import entries, problems
from understudy.serving.pacing import Pace
from understudy.serving.worker.working import Worker


def test_inside_the_allowance_a_job_is_approved_at_once_and_beyond_it_waits(served):
    assert served.ask("0.03", "a").state == APPROVED
    assert served.ask("0.03", "b").state == WAITING
    assert served.ask("0.02", "c").state == APPROVED
    with pytest.raises(BudgetError, match="more than is left of the data set's account"):
        served.ask("0.4", "d")


def test_the_same_request_sent_twice_is_one_job(served):
    first, second = served.ask("0.03", "once"), served.ask("0.03", "once")
    assert first.id == second.id
    assert served.database.read(lambda s: committed(s, project="labour")) == Fraction(3, 100)


def test_only_others_with_the_role_decide_and_each_once(served):
    job = served.ask("0.06", "a")
    site = served.site
    for name, says in (("ana", "only a steward"), ("aud", "only a steward"), ("ben", "only a steward")):
        with pytest.raises(InputError, match=says):
            site.decide(served.person(name), job.id, approve=True)
    assert site.decide(served.person("sue"), job.id, approve=True).state == APPROVED
    with pytest.raises(InputError, match="waits for nobody"):
        site.decide(served.person("sue"), job.id, approve=True)
    other = served.ask("0.06", "b")
    assert site.decide(served.person("app"), other.id, approve=False).state == DECLINED
    assert served.database.read(lambda s: committed(s, project="labour")) == Fraction(6, 100)


def test_four_eyes_are_two_persons(served):
    from dataclasses import replace

    site = served.site
    site.settings = replace(site.settings, four_eyes=True)
    job = served.ask("0.06", "a")
    assert site.decide(served.person("sue"), job.id, approve=True).state == WAITING
    with pytest.raises(InputError, match="another person has to agree"):
        site.decide(served.person("sue"), job.id, approve=True)
    assert site.decide(served.person("app"), job.id, approve=True).state == APPROVED


def test_an_approval_beyond_the_account_is_refused(served):
    """Colluding projects gain nothing: what counts is the sum over all of them."""
    first, second = served.ask("0.25", "a"), served.ask("0.25", "b")
    assert served.ask("0.1", "c", person="ben").state == APPROVED
    site = served.site
    assert site.decide(served.person("sue"), first.id, approve=True).state == APPROVED
    with pytest.raises(BudgetError):
        site.decide(served.person("sue"), second.id, approve=True)
    assert served.database.read(lambda s: find_job(s, second.id)).state == WAITING
    left = site.left(served.person("ben"), "people")
    assert left.account == Fraction("0.4") - Fraction("0.35")
    assert left.automatic == left.account < left.allowance


def waiting_twins(served, first: str = "ana", second: str = "ben"):
    """Two people ask the very same for more than their allowances: both wait for approval."""
    served.database.write(lambda s: s.run("UPDATE projects SET allowance = '1/1000000'"))
    asked = Asked(question=QUESTION)
    return [
        served.site.confirm(served.person(name), "people", asked, width, most=None, once=str(width))
        for name, width in ((first, 0.2), (second, 0.25))
    ]


def test_two_identical_jobs_that_both_wait_are_charged_once(served):
    narrow, wide = waiting_twins(served)
    assert (narrow.state, wide.state) == (WAITING, WAITING)
    assert narrow.id != wide.id  # another project is not told that this waits
    assert served.site.decide(served.person("sue"), narrow.id, approve=True).state == APPROVED
    shared = served.site.job(served.person("ben"), wide.id)
    assert shared.state == SHARED
    assert served.database.read(lambda s: committed(s, dataset="people")) == narrow.rho
    assert served.site.job_json(served.person("ben"), shared)["answered_by"] == narrow.id
    assert served.site.job(served.person("ben"), narrow.id).state == APPROVED  # and may be followed
    with pytest.raises(InputError, match="waits for nobody"):
        served.site.decide(served.person("sue"), wide.id, approve=True)
    worker = served.worker()
    assert worker.run_once()
    assert not worker.run_once()
    assert "shared" in {one["event"] for one in served.database.read(entries)}
    assert served.database.read(problems) == []


def test_a_client_whose_job_is_shared_has_the_answer_of_the_other(monkeypatch):
    from understudy.serving.client import Server

    answer = {
        "question": QUESTION, "level": 0.95, "method": "m", "warnings": [],
        "estimates": [{"name": "p", "estimate": 0.3, "low": 0.2, "high": 0.4, "label": "valid"}],
    }  # fmt: skip
    said = {
        "/api/releases/people/confirm": {"free": False, "id": "mine"},
        "/api/jobs/mine": {"state": "shared", "answered_by": "theirs"},
        "/api/jobs/theirs": {"state": "done", "record": {"answer": answer, "release": "people", "release_version": 2}},
    }
    monkeypatch.setattr(Server, "_call", lambda self, method, path, body=None: said[path])
    found = Server("http://localhost", "token").infer(QUESTION, width=0.2, release="people")
    assert (found.interval, found.version) == ((0.2, 0.4), 2)


def test_a_client_waits_for_a_server_that_starts_again(monkeypatch):
    """What was paid for is not lost because a process was away for a moment."""
    from understudy.serving import client

    answer = {"question": QUESTION, "level": 0.95, "method": "m", "warnings": [], "estimates": []}
    done = {"state": "done", "record": {"answer": answer, "release": "people", "release_version": 2}}
    said = [{"free": False, "id": "mine"}, UnavailableError("away"), UnavailableError("away"), done]

    def call(self, method, path, body=None):
        found = said.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(client.Server, "_call", call)
    monkeypatch.setattr(client, "AWAY_SECONDS", 0.001)
    server = client.Server("http://localhost", "token")
    assert server.infer(QUESTION, width=0.2, release="people").version == 2
    said += [{"free": False, "id": "mine"}, UnavailableError("away")]
    with pytest.raises(UnavailableError):
        server.infer(QUESTION, width=0.2, release="people", wait=0)


@pytest.mark.parametrize("url", ["http://validation.example.org", "ftp://127.0.0.1", "validation.example.org", ""])
def test_a_token_goes_over_no_line_that_others_can_read(url):
    with pytest.raises(InputError, match="is not the address of a server"):
        us.connect(url, token=QUESTION)


def test_a_token_is_not_sent_on_to_another_address():
    heard, letters = [], "token"

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append((self.path, self.headers["authorization"]))
            self.send_response(302 if self.path == "/api/releases" else 200)
            self.send_header("location", f"http://localhost:{self.server.server_port}/other")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as there:
        threading.Thread(target=there.serve_forever, daemon=True).start()
        server = us.connect(f"http://127.0.0.1:{there.server_port}", token=letters)
        with pytest.raises(InputError, match="leads to another address"):
            server.releases()
        there.shutdown()
    assert heard == [("/api/releases", "Bearer token")]


def test_a_wider_answer_is_not_taken_for_a_narrow_one_that_waits(served):
    narrow, wide = waiting_twins(served)
    served.site.decide(served.person("sue"), wide.id, approve=True)
    assert served.database.read(lambda s: find_job(s, narrow.id)).state == WAITING
    worker = served.worker()
    assert worker.run_once()
    served.appear()
    assert served.site.decide(served.person("sue"), narrow.id, approve=True).state == APPROVED


def test_one_project_waits_once_for_the_very_same(served):
    narrow, wide = waiting_twins(served, second="ana")
    assert narrow.id == wide.id
    assert served.database.read(lambda s: s.rows("SELECT count(*) FROM jobs"))[0][0] == 1


def test_what_became_free_while_it_waited_is_not_charged(served):
    """Another project's answer was bought and shown before the approval of a job that does not share it."""
    narrow, wide = waiting_twins(served)
    served.database.write(lambda s: s.run("UPDATE jobs SET release = 'hidden' WHERE id = ?", (wide.id,)))
    served.site.decide(served.person("sue"), narrow.id, approve=True)
    assert served.worker().run_once()
    served.appear()
    served.database.write(lambda s: s.run("UPDATE jobs SET release = 'people' WHERE id = ?", (wide.id,)))
    with pytest.raises(InputError, match="for free; decline it"):
        served.site.decide(served.person("sue"), wide.id, approve=True)
    assert served.database.read(lambda s: committed(s, dataset="people")) == narrow.rho


def race(served) -> list[str]:
    """Eight people at once ask for more than the allowance allows."""
    states, barrier = [], threading.Barrier(8)

    def ask(number: int) -> None:
        barrier.wait()
        for turn in range(3):
            try:
                states.append(served.ask("0.012", f"{number}-{turn}").state)
            except BudgetError:
                states.append("refused")

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return states


def check_race(served) -> None:
    states = race(served)
    assert len(states) == 24
    assert states.count(APPROVED) == 4  # 0.048 of an allowance of 0.05
    assert served.database.read(lambda s: committed(s, project="labour")) == Fraction("0.048")
    assert served.database.read(problems) == []


def test_a_race_never_exceeds_the_allowance(served):
    check_race(served)


@pytest.mark.postgres
def test_a_race_never_exceeds_the_allowance_on_postgres(template, tmp_path, postgres):
    folder = tmp_path / "served"
    shutil.copytree(template, folder)
    check_race(make_served(folder, postgres.fresh()))


def test_how_a_job_ended_is_told_at_its_deadline_and_not_before(served):
    job = served.ask("0.01", "a")
    worker = served.worker()
    assert worker.run_once()
    ended = served.database.read(lambda s: find_job(s, job.id))
    assert ended.state == "done"
    # Due after one answer time, or so much later as a power of two less one.
    wait = (ended.visible - ended.approved) / served.settings.answer_seconds
    assert log2(wait) == pytest.approx(round(log2(wait)), abs=1e-4)  # times are seconds since 1970, rounded
    assert ended.shown(ended.visible - 0.01) == APPROVED
    assert ended.shown(ended.visible) == "done"
    newest = served.catalogue.versions
    assert len(newest("people")) == (1 if time.time() < ended.visible else 2)


@pytest.mark.parametrize("how", [DONE, FAILED, REFUSED])
def test_asking_again_or_looking_at_what_is_left_does_not_tell_how_a_job_ended(served, how):
    """What somebody else sees is the same before the worker had it, and after it until the answer is due."""
    asked, means = Asked(question=QUESTION), served.site.means("people")
    plan = replace(served.plan("0.01"), notes=(sale_note(asked, 0.2),))

    def ask(name, once):
        return request(
            served.database, person=served.person(name), release="people", asked=asked, plan=plan, once=once,
            means=means, width=0.25,
        )  # fmt: skip

    def seen():
        again = ask("ben", str(time.time_ns()))
        return again.id, *(served.site.left(served.person(name), "people") for name in ("ana", "ben"))

    job = ask("ana", "first")
    assert job.state == APPROVED
    before = seen()
    assert before[0] == job.id
    pace = Pace(answer=60, job=10)
    visible = served.database.write(lambda s: finish(s, job, how, pace=pace))
    assert visible > time.time() + 50
    assert seen() == before
    assert served.database.read(lambda s: find_job(s, job.id)).shown(time.time()) == APPROVED


def test_answers_are_due_in_the_order_of_approvals_whatever_the_worker_did(served):
    """Three jobs approved together: due one after the other. A late one does not let a later version out before it."""
    jobs = [served.ask("0.01", name) for name in "abc"]
    now = time.time()
    for place, job in enumerate(jobs):
        served.database.write(
            lambda s, job=job, place=place: s.run(
                "UPDATE jobs SET approved = ? WHERE id = ?", (now - 2000 + 1200 * place, job.id)
            )
        )
    pace = Pace(answer=600, job=200)
    due = served.database.read(lambda s: due_times(s, "people", pace))
    assert [due[job.id] - now for job in jobs] == pytest.approx([-1400, -200, 1000])
    slow = replace(served.settings, answer_seconds=600.0, job_seconds=200.0)
    worker = Worker(slow, "people", served.database, say=lambda _: None)
    with worker.alone():
        for _ in jobs:
            assert worker.run_once()
    seen = [served.database.read(lambda s, job=job: find_job(s, job.id)).visible - now for job in jobs]
    assert seen[0] == pytest.approx(400)  # missed -1400 and -800: the next is 1800 after it was due
    assert seen[1] == pytest.approx(400)  # missed -200; not before the version that it holds
    assert seen[2] == pytest.approx(1000)
    shown = served.database.read(lambda s: versions_of(s, "people"))
    assert [one.visible - now for one in shown[1:]] == pytest.approx(seen)
    entries_of_log = served.database.read(entries)
    late = {one["job"]: one["late"] for one in entries_of_log if one["event"] == "done"}
    assert [late[job.id] for job in jobs] == [True, True, False]


@pytest.mark.parametrize(("before", "looks"), [(30.0, 0), (0.5, 1)])
def test_a_job_that_ends_just_before_a_look_is_shown_at_the_next_one(served, before, looks):
    """Its note may come after the look, and then the moment when it ended would be seen."""
    pace = Pace(answer=60, job=10)
    job = served.ask("0.01", "a")
    due = time.time() + before
    served.database.write(lambda s: s.run("UPDATE jobs SET approved = ?", (due - pace.answer,)))
    visible = served.database.write(lambda s: finish(s, job, "failed", pace=pace))
    assert visible == pytest.approx(due + looks * pace.answer)


def test_the_log_cannot_be_changed_and_an_edited_file_is_noticed(served, tmp_path):
    served.ask("0.01", "a")
    for statement in (
        "UPDATE log SET body = 'x'",
        "DELETE FROM log",
        "INSERT OR REPLACE INTO log VALUES (1, 'a', 'b', 'c')",
    ):
        with pytest.raises(InputError, match="append-only"):
            served.database.write(lambda s, text=statement: s.run(text))
    events = [one["event"] for one in served.database.read(entries)]
    assert {"requested", "token", "project", "published"} <= set(events)
    served.database.write(lambda s: s.run("DROP TRIGGER log_never_changes"))
    served.database.write(lambda s: s.run("UPDATE log SET body = replace(body, 'ana', 'eve') WHERE sequence > 3"))
    assert served.database.read(problems)


@pytest.mark.postgres
def test_the_log_is_append_only_on_postgres(postgres):
    from understudy.serving.database.log import note

    database = Database.open(postgres.fresh(), create=True)
    database.write(lambda s: note(s, "begun"))
    for statement in ("UPDATE log SET body = 'x'", "DELETE FROM log", "TRUNCATE log"):
        with pytest.raises(InputError, match="append-only"):
            database.write(lambda s, text=statement: s.run(text))
    assert database.read(problems) == []
