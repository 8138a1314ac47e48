"""Pages and API: who may do what, and what strange requests get: an answer without a traceback, and no charge."""

from __future__ import annotations

import asyncio
import html
import json
import os
import re
import threading
from dataclasses import replace
from fractions import Fraction
from statistics import NormalDist
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.conftest import full_run
from tests.unit.serving.conftest import QUESTION, Served
from understudy.errors import InputError
from understudy.serving.database.jobs import committed
from understudy.serving.database.people import Person, revoke
from understudy.serving.records import record_hash
from understudy.serving.web.application import make_application
from understudy.serving.web.guarding import MOST_BODY, POLICY, Rates
from understudy.serving.web.taking_turns import ANSWERS, MOST_WAITING, PRICES, Turns

NASTY = ("' OR 1=1 --", "'; DROP TABLE jobs; --", "{{ 7*7 }}", "<script>alert(1)</script>", "../../etc/passwd", "\x00",
         "%00", "__import__('os').system('true')", "proportion(", "a" * 3000, "🧪" * 50, "${jndi:x}")  # fmt: skip


@pytest.fixture
def client(served: Served) -> TestClient:
    return TestClient(make_application(served.settings, served.database), follow_redirects=False)


def signed_in(client: TestClient, served: Served, name: str) -> str:
    """Sign in; the word that forms of this session carry."""
    answer = client.post("/sign-in", data={"token": served.tokens[name]})
    assert answer.status_code == 303
    page = client.get("/jobs")
    return re.search(r'name="csrf" value="([^"]+)"', page.text)[1]


def bearer(served: Served, name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {served.tokens[name]}"}


def spent(served: Served) -> Fraction:
    return served.database.read(lambda session: committed(session, dataset="people"))


def test_the_whole_way_on_pages(client, served):
    csrf = signed_in(client, served, "ana")
    for path in (
        "/",
        "/releases/people",
        "/releases/people/codebook",
        "/jobs",
        "/releases/people/files/1/manifest.json",
    ):
        answer = client.get(path)
        assert answer.status_code == 200, path
        assert answer.headers["content-security-policy"] == POLICY
    asked = {"csrf": csrf, "question": QUESTION, "width": "0.12"}
    price = client.post("/releases/people/price", data=asked)
    assert price.status_code == 200, price.text
    assert "percent of the project" in price.text
    assert "epsilon" not in price.text
    hidden = dict(re.findall(r'name="(most|once|width)" value="([^"]+)"', price.text))
    made = client.post("/releases/people/confirm", data={**asked, **hidden})
    assert made.status_code == 303
    again = client.post("/releases/people/confirm", data={**asked, **hidden})
    assert again.status_code == 303, again.text
    assert again.headers["location"] == made.headers["location"]
    assert spent(served) == Fraction(hidden["most"])
    job = made.headers["location"]
    assert "The answer can appear at" in client.get(job).text
    name = job.rpartition("/")[2]
    assert client.get(f"/records/{name}").status_code == 400  # not before its time
    served.worker().run_once()
    served.appear()
    page = client.get(job)
    assert "Confirmed on the data" in page.text
    client.cookies.clear()
    record = client.get(f"/records/{name}/record.json").json()  # public: it is there to be cited
    assert record["asked"]["question"] == QUESTION
    assert record["hash"][:16] in client.get(f"/records/{name}").text


def test_a_question_asked_twice_costs_nothing(client, served):
    asked = {"question": QUESTION, "width": 0.12}
    made = client.post("/api/releases/people/confirm", json=asked, headers=bearer(served, "ana")).json()
    assert made["free"] is False
    served.worker().run_once()
    served.appear()
    before = spent(served)
    for name in ("ana", "ben"):
        again = client.post("/api/releases/people/confirm", json=asked, headers=bearer(served, name)).json()
        assert again["free"] is True
    assert spent(served) == before


def test_a_free_answer_has_a_record_that_stays_the_same(client, served):
    signed_in(client, served, "ana")
    asked = {"question": "proportion(sex == 'F')", "where": "smokes == 'yes'"}
    page = client.get("/releases/people/ask", params=asked).text
    link = html.unescape(re.search(r'<a href="([^"]+)">A record of this answer, to cite', page)[1])
    cited = client.get(link).text
    file = html.unescape(re.search(r'<a href="([^"]+)" download', cited)[1])
    record = client.get(file).json()
    assert record["hash"] == record_hash(record)
    assert record["asked"] == {**asked, "level": 0.95}
    assert record["cost"]["rho"] == "0"
    assert record["answer"]["estimates"][0]["estimate"] is not None
    assert record["hash"][:16] in cited
    assert html.unescape(cited).count("proportion(sex == 'F'), where smokes == 'yes'") == 2
    served.ask("0.02", "a")
    assert served.worker().run_once()
    served.appear()
    assert client.get("/releases/people/ask", params=asked).text.count("answers/2?") == 1
    assert client.get(file).json() == record  # a version does not change when another joins
    assert client.get(file.replace("answers/1", "answers/9")).status_code == 400
    client.cookies.clear()
    assert client.get(file).headers["location"] == "/sign-in"


def test_two_projects_that_ask_the_same_at_the_same_time_pay_once(client, served):
    asked = {"question": QUESTION, "width": 0.12}
    first = client.post("/api/releases/people/confirm", json=asked, headers=bearer(served, "ana")).json()
    second = client.post("/api/releases/people/confirm", json=asked, headers=bearer(served, "ben")).json()
    assert second["id"] == first["id"]
    assert spent(served) == Fraction(str(first["rho"]))
    narrower = client.post(
        "/api/releases/people/confirm", json={**asked, "width": 0.11}, headers=bearer(served, "ben")
    ).json()
    assert narrower["id"] != first["id"]
    served.worker().run_once()
    served.appear()
    followed = client.get(f"/api/jobs/{first['id']}", headers=bearer(served, "ben")).json()
    assert followed["record"]["asked"]["question"] == QUESTION


def test_a_claim_is_verified_for_less_than_a_narrow_interval_costs(client, served):
    claim = {"question": QUESTION, "at_least": 0.1, "margin": 0.1}
    headers = bearer(served, "ana")
    cheap = client.post("/api/releases/people/price", json=claim, headers=headers).json()
    dear = client.post("/api/releases/people/price", json={"question": QUESTION, "width": 0.1}, headers=headers).json()
    assert 0 < Fraction(cheap["rho"]) < Fraction(dear["rho"])
    made = client.post("/api/releases/people/confirm", json=claim, headers=headers).json()
    served.worker().run_once()
    served.appear()
    answer = client.get(f"/api/jobs/{made['id']}", headers=headers).json()["record"]["answer"]
    verdict = answer["verdict"]
    said = client.get(f"/records/{made['id']}").text
    if answer["validity"] == "valid":
        assert verdict["holds"] is (answer["estimate"] >= 0.1)
        # Both parts of the error, and room for the choice of the claim: near what was asked for.
        assert NormalDist().cdf(-0.2 / answer["standard_error"]) < verdict["wrong_at_most"] < 0.08
        assert "is wrong with probability at most" in said
    else:  # the noise is random
        assert verdict["holds"] is None
        assert "no verdict" in said
    for wrong in ({"at_least": 0.1}, {"at_least": 0.1, "margin": 0}, {"at_least": "x", "margin": 1}):
        asked = client.post("/api/releases/people/price", json={"question": QUESTION, **wrong}, headers=headers)
        assert asked.status_code == 400


def test_nobody_comes_in_without_a_token_that_is_valid_now(client, served):
    assert client.get("/").headers["location"] == "/sign-in"
    assert client.post("/sign-in", data={"token": "guess"}).status_code == 401
    for header in ("", "Bearer", "Bearer x", "Basic " + served.tokens["ana"], "bearer " + served.tokens["ana"][:-1]):
        assert client.get("/api/me", headers={"authorization": header}).status_code == 401
    assert client.get("/api/me", headers=bearer(served, "ana")).json()["name"] == "ana"
    signed_in(client, served, "ana")
    cookie = dict(client.cookies)
    revoke(served.database, "ana")
    assert client.get("/api/me", headers=bearer(served, "ana")).status_code == 401
    client.cookies.update(cookie)
    assert client.get("/").status_code == 303  # a replayed cookie


def test_a_session_ends_when_its_person_signs_out(client, served):
    csrf = signed_in(client, served, "ana")
    cookie = dict(client.cookies)
    assert client.post("/sign-out", data={"csrf": csrf}).status_code == 303
    client.cookies.clear()
    client.cookies.update(cookie)
    assert client.get("/").status_code == 303


def test_a_form_from_another_site_is_refused(client, served):
    signed_in(client, served, "ana")
    asked = {"question": QUESTION, "width": "0.12", "most": "0.5", "once": "x"}
    for word in ("", "guess"):
        for path in ("/releases/people/price", "/releases/people/confirm", "/sign-out"):
            assert client.post(path, data={**asked, "csrf": word}).status_code == 403
    as_json = client.post("/releases/people/confirm", json={**asked, "csrf": ""})
    assert as_json.status_code == 400
    assert spent(served) == 0


@pytest.mark.parametrize("name", ["sue", "app", "aud"])
def test_only_analysts_ask_the_data(client, served, name):
    asked = {"question": QUESTION, "width": 0.12}
    for path in ("price", "confirm"):
        assert client.post(f"/api/releases/people/{path}", json=asked, headers=bearer(served, name)).status_code == 403


def test_an_analyst_sees_the_jobs_of_the_own_project_and_no_audit(client, served):
    job = served.ask("0.01", "a")
    assert client.get(f"/api/jobs/{job.id}", headers=bearer(served, "ana")).status_code == 200
    seen = client.get(
        f"/api/jobs/{job.id}", headers=bearer(served, "ben")
    ).json()  # approved: its record will be public
    assert not {"person", "project"} & set(seen)
    waits = served.ask("0.2", "b")
    assert client.get(f"/api/jobs/{waits.id}", headers=bearer(served, "ben")).status_code == 400
    assert client.get("/api/jobs", headers=bearer(served, "ben")).json() == {"jobs": []}
    for name, status in (("ana", 403), ("app", 403), ("sue", 200), ("aud", 200)):
        signed = TestClient(client.app, follow_redirects=False)
        signed.post("/sign-in", data={"token": served.tokens[name]})
        assert signed.get("/audit").status_code == status
    denied = client.post(f"/api/jobs/{job.id}/decision", json={"approve": True}, headers=bearer(served, "ana"))
    assert denied.status_code == 403


def test_people_who_decide_see_what_it_costs_and_what_is_left(client, served):
    job = served.ask("0.06", "a")
    csrf = signed_in(client, served, "app")
    assert "1 confirmation waits for approval" in client.get("/").text
    assert "1 waits for approval; open one to decide" in client.get("/jobs").text
    page = client.get(f"/jobs/{job.id}").text
    for told in ("ana, for project labour", "sex by smokes", "rho = 0.06, 15 percent", "rho = 0.05 of 0.05"):
        assert told in page, told
    assert "http-equiv" not in page  # nothing comes by itself before somebody decides
    decided = client.post(f"/jobs/{job.id}/decision", data={"csrf": csrf, "decision": "approve"})
    assert decided.status_code == 303
    assert re.search(r'http-equiv="refresh" content="\d+"', client.get(f"/jobs/{job.id}").text)
    assert "wait" not in client.get("/").text
    signed_in(client, served, "ana")
    assert "waits for approval" not in client.get("/").text


def test_what_waits_is_listed_however_much_came_after_it(client, served, monkeypatch):
    waits, later = served.ask("0.06", "a"), [served.ask("0.001", f"b{number}") for number in range(3)]
    monkeypatch.setattr("understudy.serving.database.jobs.MOST_LISTED", 2)
    for name in ("sue", "ana"):
        signed_in(client, served, name)
        listed = re.findall(r'href="/jobs/(\w+)"', client.get("/jobs").text)
        assert listed == [waits.id, later[2].id, later[1].id]


def test_what_cannot_be_paid_any_more_can_only_be_declined(client, served):
    waits, other = served.ask("0.25", "a"), served.ask("0.3", "b", person="ben")
    assert other.state == "approved"
    signed_in(client, served, "sue")
    page = client.get(f"/jobs/{waits.id}").text
    assert "it can only be declined" in page
    assert 'value="approve"' not in page
    assert 'value="decline"' in page


def test_what_stands_beside_a_question_goes_along_to_the_price(client, served):
    csrf = signed_in(client, served, "ana")
    page = client.get("/releases/people/ask", params={"question": QUESTION, "level": "0.8", "weighted": "False"}).text
    form = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.partition("/price")[2]))
    assert (form["level"], form["weighted"]) == ("0.8", "False")
    asked = {key: html.unescape(value) for key, value in form.items()} | {"csrf": csrf, "width": "0.12"}
    asked = {key: value for key, value in asked.items() if key not in ("at_least", "margin")}
    told = html.unescape(client.post("/releases/people/price", data=asked).text)
    assert f"{QUESTION}, about the sample, not weighted, intervals of 80%" in told
    assert 'name="level" value="0.8"' in told  # and from there to the purchase


def test_whoever_decides_or_cites_sees_all_that_was_asked(client, served):
    """Also what stands in fields of its own: without them the question would be another one."""
    csrf = signed_in(client, served, "ana")
    asked = {"csrf": csrf, "question": "proportion(smokes == 'yes')", "where": "sex == 'F'", "width": "0.12"}
    price = html.unescape(client.post("/releases/people/price", data=asked).text)
    assert "proportion(smokes == 'yes'), where sex == 'F'" in price
    assert "No worker has the data at the moment" in price
    more = {"where": "sex == 'F'", "by": "education", "level": 0.9}
    job = served.ask("0.01", "a", question="proportion(smokes == 'yes')", **more)
    waits = served.ask("0.2", "b", question="smokes ~ sex", event="yes")
    claim = served.ask("0.2", "c", at_least=0.25, margin=0.01)
    whole = "proportion(smokes == 'yes'), where sex == 'F', by education, intervals of 90%"
    signed_in(client, served, "sue")
    for path in (f"/jobs/{job.id}", "/jobs"):
        assert whole in html.unescape(client.get(path).text)
    assert "smokes ~ sex, event yes" in client.get(f"/jobs/{waits.id}").text
    assert "is it at least 0.25? (margin 0.01)" in client.get(f"/jobs/{claim.id}").text
    served.worker().run_once()
    served.appear()
    assert html.unescape(client.get(f"/records/{job.id}").text).count(whole) == 2  # where it is read, and cited


def test_with_four_eyes_a_page_says_who_has_agreed(served):
    four = make_application(replace(served.settings, four_eyes=True), served.database)
    client = TestClient(four, follow_redirects=False)
    job = served.ask("0.06", "a")
    csrf = signed_in(client, served, "app")
    assert "nobody; two persons must" in client.get(f"/jobs/{job.id}").text
    client.post(f"/jobs/{job.id}/decision", data={"csrf": csrf, "decision": "approve"})
    page = client.get(f"/jobs/{job.id}").text
    assert "app; two persons must" in page
    assert "You have agreed. Another person has to agree too." in page
    assert "Two persons, stewards or approvers, must agree" in page
    assert "/decision" not in page  # nobody decides twice
    signed_in(client, served, "sue")
    assert "/decision" in client.get(f"/jobs/{job.id}").text


def test_the_audit_says_what_every_project_has_committed(client, served):
    served.ask("0.03", "a")
    served.ask("0.06", "b")
    signed_in(client, served, "aud")
    row = re.search(r'<tr><th scope="row">labour</th>(.*?)</tr>', client.get("/audit").text)
    assert re.findall(r">([^<>]+)<", row[1]) == ["people", "0.05", "0.03", "1", "1"]


def test_nothing_is_offered_for_sale_that_cannot_be_read(client, served):
    signed_in(client, served, "ana")
    wrong = client.get("/releases/people/ask", params={"question": "proportion(sex == 'Q')"}).text
    assert "Level of 'sex': 'Q' is unknown" in html.unescape(wrong)
    assert "Confirm on the data" not in wrong
    right = client.get("/releases/people/ask", params={"question": "smokes ~ sex", "event": "yes"}).text
    assert "Confirm on the data" in right  # the release has no answer, the data have one


def test_a_refused_price_leads_back_to_the_question(client, served):
    csrf = signed_in(client, served, "ana")
    found = client.post("/releases/people/price", data={"csrf": csrf, "question": QUESTION, "width": "0.000001"})
    assert found.status_code == 422
    back = html.unescape(re.search(r'<a href="([^"]+)">Back to the question', found.text)[1])
    assert QUESTION in html.unescape(client.get(back).text)


def test_a_dearer_price_than_was_shown_is_not_charged(client, served):
    asked = {"question": QUESTION, "width": 0.12, "most": "1/1000000"}
    answer = client.post("/api/releases/people/confirm", json=asked, headers=bearer(served, "ana"))
    assert answer.status_code == 400
    assert "price has changed" in answer.json()["error"]
    assert spent(served) == 0


def test_an_impossible_width_says_what_can_be_had_from_public_facts(client, served):
    asked = {"question": QUESTION, "width": 1e-6}
    answer = client.post("/api/releases/people/price", json=asked, headers=bearer(served, "ana"))
    assert answer.status_code == 422
    assert "cannot be had" in answer.json()["error"]


def test_a_claim_is_priced_and_bought_on_pages(client, served):
    csrf = signed_in(client, served, "ana")
    claim = {"csrf": csrf, "question": QUESTION, "at_least": "0.1", "margin": "0.15"}
    priced = client.post("/releases/people/price", data=claim)
    assert "is it at least 0.1?" in priced.text
    hidden = dict(re.findall(r'name="([a-z_]+)" value="([^"]*)"', priced.text.partition('action="/releases')[2]))
    assert {"at_least", "margin", "most", "once"} <= set(hidden)
    assert "width" not in hidden
    made = client.post("/releases/people/confirm", data={**claim, "most": hidden["most"], "once": hidden["once"]})
    assert made.status_code == 303
    asked = client.get(f"/api{made.headers['location']}", headers=bearer(served, "ana")).json()["asked"]
    assert (asked["at_least"], asked["margin"]) == (0.1, 0.15)
    free = client.get("/releases/people/ask", params={"question": QUESTION, "at_least": "0.1", "margin": "0.5"})
    assert "The claim that it is at least 0.1" in free.text
    for wrong in ({"at_least": "x"}, {"margin": "-1"}, {"margin": "nan"}, {"at_least": "inf"}, {"margin": ""}):
        assert client.post("/releases/people/price", data=claim | wrong).status_code == 400


def test_a_foreign_page_cannot_sign_a_browser_in(client, served):
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 303), ("none", 303)):
        answer = client.post("/sign-in", data={"token": served.tokens["ben"]}, headers={"sec-fetch-site": site})
        assert answer.status_code == status


@pytest.mark.parametrize("field", ["question", "once", "where", "event", "x"])
def test_half_of_a_surrogate_pair_is_no_text(client, served, field):
    body = json.dumps({"question": QUESTION, "width": 0.12, field: "a\ud800"})
    for path in ("ask", "price", "confirm"):
        answer = client.post(f"/api/releases/people/{path}", content=body, headers=bearer(served, "ana"))
        assert answer.status_code == 400
    assert spent(served) == 0


def test_dear_questions_of_one_person_hold_nobody_up():
    """Whoever waits holds no thread, one is computed at a time, and another person comes in between."""
    ana, ben = (Person(name=name, role="analyst", project="labour") for name in ("ana", "ben"))
    order: list[str] = []
    running = most = 0
    all_asked = threading.Event()

    def work(name: str) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        all_asked.wait()
        order.append(name)
        running -= 1

    async def ask() -> None:
        turns = Turns()
        of_ana = [asyncio.create_task(turns.take(ana, PRICES, lambda: work("ana"))) for _ in range(MOST_WAITING)]
        await asyncio.sleep(0)  # they ask
        of_ben = asyncio.create_task(turns.take(ben, PRICES, lambda: work("ben")))
        try:
            with pytest.raises(InputError, match="waiting already"):
                await turns.take(ana, PRICES, lambda: work("ana"))
            await turns.take(ben, ANSWERS, lambda: order.append("free"))  # while ana's first still waits
        finally:
            all_asked.set()
        await asyncio.gather(*of_ana, of_ben)
        assert not turns._waiting
        assert not turns._persons

    asyncio.run(ask())
    assert most == 1
    assert order[0] == "free"
    assert order.index("ben") == 2


@pytest.mark.parametrize("width", [0, -1, "wide", None, True, [], 1e400, 10**400])
def test_a_strange_width_is_refused(client, served, width):
    body = json.dumps({"question": QUESTION, "width": width})
    answer = client.post("/api/releases/people/price", content=body, headers=bearer(served, "ana"))
    assert answer.status_code == 400


def test_injection_finds_nothing(client, served):
    csrf = signed_in(client, served, "ana")
    for text in NASTY:
        check_injection(client, served, csrf, text)
    assert spent(served) == 0
    assert served.catalogue.names() == ["people"]


def check_injection(client, served, csrf, text):
    for answer in (
        client.get("/releases/people/ask", params={"question": text, "where": text}),
        client.get(f"/releases/{quote(text, safe='')}"),
        client.get(f"/releases/people/files/1/{quote(text, safe='')}"),
        client.get(f"/releases/people/finished/{quote(text, safe='')}"),
        client.get(f"/jobs/{quote(text, safe='')}"),
        client.get(f"/records/{quote(text, safe='')}"),
        client.post("/sign-in", data={"token": text}),
        client.post("/releases/people/price", data={"csrf": csrf, "question": text, "width": "0.1"}),
        client.post("/api/releases/people/ask", json={"question": text}, headers=bearer(served, "ana")),
    ):
        assert answer.status_code < 500
        assert "Traceback" not in answer.text
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-type"] == "application/json" or "<script>alert" not in answer.text
        assert ">49<" not in answer.text
        assert "root:" not in answer.text


def test_paths_lead_nowhere_else(client, served):
    signed_in(client, served, "ana")
    for path in ("/releases/people/files/1/..%2f..%2f..%2fbudget.db", "/releases/people/files/1/%2e%2e/2/manifest.json",
                 "/releases/people/files/2/manifest.json", "/static/..%2fpages.py", "/static/../pages.py",
                 "/releases/people/finished/site.toml", "/releases/..%2f/files/1/manifest.json"):  # fmt: skip
        assert client.get(path).status_code in (303, 400, 404), path


def test_large_bodies_and_many_requests_are_refused(client, served):
    large = client.post("/api/releases/people/ask", content=b"x" * (MOST_BODY + 1), headers=bearer(served, "ana"))
    assert large.status_code == 413

    def pieces():
        for _ in range(40):
            yield b"y" * 4096

    streamed = client.post("/api/releases/people/ask", content=pieces(), headers=bearer(served, "ana"))
    assert streamed.status_code == 413
    rates = Rates(3)
    assert [rates.allow("a", now) for now in (0, 1, 2, 3, 61.5)] == [True, True, True, False, True]
    assert rates.allow("b", 3)


def test_the_api_describes_itself(client):
    described = client.get("/api").json()
    paths = {route.path for route in client.app._app.routes if route.path.startswith("/api/")}
    assert set(described["paths"]) == paths


def test_a_bug_is_answered_without_its_text(served, monkeypatch, capsys):
    application = make_application(served.settings, served.database)
    client = TestClient(application, raise_server_exceptions=False, follow_redirects=False)
    monkeypatch.setattr("understudy.serving.web.site.Site.answer", lambda *_: 1 / 0)
    answer = client.post("/api/releases/people/ask", json={"question": "secret"}, headers=bearer(served, "ana"))
    assert answer.status_code == 500
    assert "nothing was charged" in answer.json()["error"]
    assert "ZeroDivisionError" in capsys.readouterr().err


FUZZED = int(os.environ.get("FUZZED", "10000" if full_run() else "150"))
PATHS = ("/", "/sign-in", "/releases/people", "/releases/people/ask", "/releases/people/price", "/api/jobs",
         "/releases/people/confirm", "/api/releases/people/ask", "/api/releases/people/price",
         "/api/releases/people/confirm", "/jobs/x/decision", "/api/jobs/x/decision", "/records/x",
         "/audit")  # fmt: skip
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.text(max_size=60)
    | st.sampled_from((QUESTION, "mean(age)")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
DOCUMENTS = st.dictionaries(
    st.sampled_from(
        ("question", "where", "by", "family", "event", "level", "width", "most", "once", "approve", "csrf", "x")
    ),
    VALUES,
    max_size=6,
)


def test_fuzzed_requests_meet_no_traceback_and_charge_nothing(served):
    """Nothing random is a valid purchase: a charge needs a readable question and a possible width."""
    application = make_application(served.settings, served.database)
    client = TestClient(application, raise_server_exceptions=True, follow_redirects=False)
    signed_in(client, served, "sue")

    @settings(max_examples=FUZZED, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(path=st.sampled_from(PATHS), document=DOCUMENTS, form=st.booleans(), method=st.sampled_from(("GET", "POST")))
    def run(path, document, form, method):
        kwargs = {"params": {k: str(v)[:200] for k, v in document.items()}} if method == "GET" else {}
        if method == "POST":
            kwargs = (
                {"data": {key: str(value) for key, value in document.items()}}
                if form
                else {"content": json.dumps(document)}
            )
        answer = client.request(method, path, headers={} if form else bearer(served, "sue"), **kwargs)
        assert answer.status_code < 500
        assert "Traceback" not in answer.text

    run()
    assert spent(served) == 0


def test_fuzzed_purchases_are_charged_what_they_were_told_or_not_at_all(served):
    """An analyst who may buy, and whose requests are nearly right. What was charged is what the answers said."""
    application = make_application(served.settings, served.database)
    client = TestClient(application, raise_server_exceptions=True, follow_redirects=False)
    told: dict[str, float] = {}
    near = {
        "question": st.sampled_from((QUESTION, QUESTION.replace("'F'", "'M'"), "proportion(sex == 'Q')", "", "mean(")),
        "width": st.sampled_from((0.2, 0.3, 0.5, "0.2", 1e-9, -1, None, float("nan"))),
        "most": st.sampled_from((None, "1/10", "1e-9", 0.1, "x", "-1", "1/0")),
        "once": st.sampled_from((None, "a", "b", "", 7)),
        "level": st.sampled_from((0.95, 0.95, 0.9, 2)),
    }

    @settings(max_examples=max(FUZZED // 20, 10), deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(document=st.fixed_dictionaries(near), name=st.sampled_from(("ana", "ben", "sue")))
    def run(document, name):
        body = json.dumps({key: value for key, value in document.items() if value is not None})
        answer = client.post("/api/releases/people/confirm", content=body, headers=bearer(served, name))
        assert answer.status_code < 500
        assert "Traceback" not in answer.text
        found = answer.json()
        if answer.status_code == 200 and not found["free"]:
            assert found["state"] == "approved" or found["state"] == "waiting"
            told[found["id"]] = float(found["rho"]) if found["state"] == "approved" else 0.0

    run()
    assert float(spent(served)) == pytest.approx(sum(told.values()), rel=1e-4)
