"""The validation server in a browser: by keyboard alone, on a phone, without script errors and without the network."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.api import serving
from understudy.demo.people import make_people, small_schema
from understudy.serving.database.connecting import Database
from understudy.serving.settings import database_target, read_settings
from understudy.serving.worker.working import Worker

QUESTION = "proportion(smokes == 'yes', where=sex == 'F')"
SETTINGS = """
[server]
title = "Test office"
answer_seconds = 1
secure_cookies = false
[[dataset]]
name = "people"
ledger = "budget.db"
account = "people"
data = "people.parquet"
"""


class Running:
    """A server that listens, and the tokens of its people."""

    def __init__(self, folder: Path) -> None:
        schema = small_schema()
        pq.write_table(make_people(2000).select(list(schema.names)), folder / "people.parquet")
        ledger = us.Ledger.create(folder / "budget.db")
        ledger.create_account("people", unit="replace", limit=us.ZCDP(rho="0.5"))
        us.synthesize(
            us.open_source(str(folder / "people.parquet"), schema), method="independent", budget=us.ZCDP(rho="0.1"),
            ledger=folder / "budget.db", account="people", out=folder / "release",
        )  # fmt: skip
        site = folder / "site.toml"
        site.write_text(SETTINGS)
        serving.serve_project(site, "labour", dataset="people", allowance="0.05")
        serving.serve_publish(site, folder / "release", name="people", dataset="people")
        self.tokens = {
            role: serving.serve_token(site, role, role=role, project="labour" if role == "analyst" else None)
            for role in serving.ROLES
        }
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.stop, ready = threading.Event(), threading.Event()
        self._web = threading.Thread(
            target=lambda: serving.serve_web(site, port=self.port, ready=ready.set, stop=self.stop), daemon=True
        )
        self._web.start()
        assert ready.wait(240)
        settings = read_settings(site)
        worker = Worker(settings, "people", Database.open(database_target(settings)), say=lambda _: None)
        settings.place("worker-people").mkdir()
        self._worker = threading.Thread(target=lambda: worker.run(stop=self.stop.is_set, pause=0.1), daemon=True)
        self._worker.start()

    def close(self) -> None:
        self.stop.set()
        self._web.join(20)
        self._worker.join(20)


@pytest.fixture(scope="module")
def running(tmp_path_factory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("server")
    before = os.environ.get("UNDERSTUDY_DATABASE")
    os.environ["UNDERSTUDY_DATABASE"] = "server.db"
    made = Running(folder)
    yield made
    made.close()
    if before is None:
        del os.environ["UNDERSTUDY_DATABASE"]
    else:
        os.environ["UNDERSTUDY_DATABASE"] = before


@pytest.fixture
def open_page(browser, running):
    """A new page that notes every error, and every address that is not the server's."""
    contexts, problems = [], []

    def made(*, width=1280, height=900, touch=False, dark=False):
        context = browser.new_context(
            viewport={"width": width, "height": height}, has_touch=touch, is_mobile=touch,
            color_scheme="dark" if dark else "light",
        )  # fmt: skip
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda problem: problems.append(str(problem)))
        page.on("request", lambda one: None if one.url.startswith(running.url) else problems.append(one.url))
        contexts.append(context)
        return page

    yield made
    for context in contexts:
        context.close()
    assert problems == []


def keyboard_to(page, text: str, most: int = 60) -> None:
    """Press Tab until the thing with this text or name has the focus, as somebody without a mouse does."""
    for _ in range(most):
        page.keyboard.press("Tab")
        found = page.evaluate("(document.activeElement.innerText || document.activeElement.id || '').trim()")
        if found == text:
            return
    raise AssertionError(f"the keyboard does not reach '{text}'")


def arrive(page, selector: str) -> None:
    """Wait for the next page: for something that the page before did not have, and for all of the page and its scripts.
    Keys that are pressed before a page is there go nowhere."""
    page.wait_for_selector(selector)
    page.wait_for_load_state("load")


def ready_to_ask(page) -> None:
    """The box for a question has the focus, and its help is there."""
    arrive(page, "#question:focus")
    page.wait_for_selector("#suggestions button")


def suggested(page, words: set[str]) -> None:
    """Wait until exactly these words are suggested."""
    for _ in range(200):
        found = set(page.locator("#suggestions button").all_inner_texts())
        if found == words:
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"suggested are {found}, not {words}")


def sign_in(page, running: Running, role: str) -> None:
    page.goto(running.url)
    page.wait_for_selector("#token:focus")
    page.keyboard.type(running.tokens[role])
    page.keyboard.press("Enter")
    page.wait_for_url(f"{running.url}/")
    arrive(page, "h1:text-is('Releases')")


def picture(page, name: str) -> None:
    """Kept for people who look, where a folder is named."""
    folder = os.environ.get("UNDERSTUDY_PICTURES")
    if folder:
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)


def test_a_confirmation_is_bought_by_keyboard_alone(open_page, running):
    page = open_page()
    sign_in(page, running, "analyst")
    picture(page, "catalogue")
    keyboard_to(page, "Ask a question")
    page.keyboard.press("Enter")
    ready_to_ask(page)
    page.keyboard.type("proportion(smo")
    suggested(page, {"smokes"})
    keyboard_to(page, "smokes")
    page.keyboard.press("Enter")
    assert page.input_value("#question") == "proportion(smokes"
    page.keyboard.type(" == ")
    suggested(page, {"no", "yes"})
    keyboard_to(page, "yes")
    page.keyboard.press("Enter")
    page.keyboard.type(", where=sex == 'F')")
    assert page.input_value("#question") == QUESTION
    page.keyboard.press("Enter")
    arrive(page, "#answer-title")
    picture(page, "answer")
    keyboard_to(page, "width")
    page.keyboard.press("Control+a")
    page.keyboard.type("0.15")
    page.keyboard.press("Enter")
    arrive(page, "dl")
    picture(page, "price")
    assert "percent of the project's allowance" in page.inner_text("dl")
    keyboard_to(page, "Pay and confirm on the data")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/*")
    arrive(page, "h1:text-is('Confirmation')")
    picture(page, "waiting")
    page.wait_for_selector("caption:has-text('Confirmed on the data')", timeout=240_000)  # it looks again by itself
    page.wait_for_load_state("load")
    picture(page, "confirmed")
    keyboard_to(page, "The record, to cite")
    page.keyboard.press("Enter")
    page.wait_for_url("**/records/*")
    arrive(page, "h1:has-text('Record ')")
    assert "SHA-256" in page.inner_text("main")
    picture(page, "record")


def test_a_phone_shows_everything_without_scrolling_sideways(open_page, running):
    page = open_page(width=360, height=740, touch=True, dark=True)
    sign_in(page, running, "steward")
    record = f"/releases/people/answers/1?question={QUESTION}"
    for path in ("/", "/releases/people", f"/releases/people/ask?question={QUESTION}", record, "/jobs", "/audit"):
        page.goto(running.url + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
        small = page.evaluate(
            "[...document.querySelectorAll('main button, main a.button')].filter(one => one.offsetHeight < 30).length"
        )
        assert small == 0, path
        picture(page, f"phone{path.split('?')[0].replace('/', '-')}")


def test_every_field_has_a_name_and_every_page_a_heading(open_page, running):
    page = open_page()
    sign_in(page, running, "steward")
    for path in ("/", "/releases/people", "/releases/people/ask", "/jobs", "/audit", "/nothing-here/../sign-in"):
        page.goto(running.url + path)
        assert page.locator("h1").count() == 1
        fields = "[...document.querySelectorAll('input:not([type=hidden]), select')]"
        assert page.evaluate(f"{fields}.filter(one => !one.labels.length).length") == 0, path


def test_a_claim_is_priced_by_keyboard_at_the_width_of_a_phone(open_page, running):
    page = open_page(width=360, height=740)
    sign_in(page, running, "analyst")
    page.goto(f"{running.url}/releases/people/ask?question={QUESTION}")
    keyboard_to(page, "Or ask whether a result holds")
    page.keyboard.press("Enter")
    keyboard_to(page, "at_least")
    page.keyboard.type("0.1")
    keyboard_to(page, "margin")
    page.keyboard.type("0.15")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    picture(page, "phone-claim")
    page.keyboard.press("Enter")
    arrive(page, "main h1:has-text('rice'), main h1:has-text('Nothing to buy')")
    assert "is it at least 0.1?" in page.inner_text("main")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    picture(page, "phone-claim-price")
