"""The studio in a browser: from a messy file of fifteen columns to a signed release, by keyboard alone."""

from __future__ import annotations

import contextlib
import csv
import datetime
import os
import random
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import understudy as us
from understudy.studio.application import open_studio

COLUMNS = (
    "person_id", "sex", "age", "region", "education", "occupation_code", "income", "hours", "marital", "children",
    "birth_date", "smokes", "satisfaction", "dwelling_type", "comment",
)  # fmt: skip
WORDS = ("we", "moved", "here", "some", "years", "ago", "and", "like", "the", "garden", "but", "rents", "rise")


def write_messy(path: Path, rows: int = 1500) -> None:
    """Numbers, codes, dates, special codes, identifiers, spellings, missing values and free text."""
    draw = random.Random(7)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for number in range(rows):
            age = draw.randint(16, 95)
            works = 18 <= age <= 67 and draw.random() < 0.75
            income: object = int(draw.lognormvariate(7.4, 0.6)) if works else "N"
            writer.writerow(
                (
                    f"P{100_000 + 7 * number}",
                    draw.choice("FM") if draw.random() > 0.02 else "",
                    age,
                    draw.choice(("North", "South", "East", "West")),
                    draw.choice(("primary", "lower secondary", "upper secondary", "tertiary")),
                    draw.choice(("1110", "2120", "3340", "4150", "9999")),
                    99998 if works and draw.random() < 0.05 else income,
                    draw.choice((40, 40, 38, 30, 20, draw.randint(1, 59))) if works else -8,
                    draw.choice(("single", "married", "divorced", "widowed")),
                    draw.choice((0, 0, 1, 2, 3)),
                    datetime.date(2026 - age, draw.randint(1, 12), draw.randint(1, 28)).isoformat(),
                    draw.choice(("no", "no", "no", "yes", "Yes", "")),
                    draw.choice((1, 2, 3, 3, 4, 5, 9)),
                    draw.choice(("house", "flat", "shared")),
                    " ".join(draw.choices(WORDS, k=9)) if draw.random() < 0.5 else "",
                )
            )


class Running:
    """A studio that listens, and the addresses that it printed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.addresses: list[str] = []
        self._stop, ready = threading.Event(), threading.Event()

        def say(address: str) -> None:
            self.addresses.append(address)
            ready.set()

        self._thread = threading.Thread(
            target=lambda: open_studio(folder, port=0, say=say, stop=self._stop), daemon=True
        )
        self._thread.start()
        assert ready.wait(60)
        self.url = re.match(r"http://[^/]+", self.addresses[0])[0]

    def close(self) -> None:
        self._stop.set()
        self._thread.join(30)


@pytest.fixture
def studio(tmp_path) -> Iterator[Running]:
    write_messy(tmp_path / "people.csv")
    made = Running(tmp_path)
    yield made
    made.close()


@pytest.fixture
def open_page(browser, studio):
    """A new page that notes every error, and every address that is not the studio's."""
    contexts, problems = [], []

    def made(*, width=1280, height=900, touch=False, dark=False, scripts=True):
        context = browser.new_context(
            viewport={"width": width, "height": height}, has_touch=touch, is_mobile=touch,
            color_scheme="dark" if dark else "light", java_script_enabled=scripts,
        )  # fmt: skip
        page = context.new_page()
        page.set_default_timeout(240_000)
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda problem: problems.append(str(problem)))
        page.on("request", lambda one: None if one.url.startswith((studio.url, "data:")) else problems.append(one.url))
        contexts.append(context)
        return page

    yield made
    for context in contexts:
        context.close()
    assert problems == []


def focused(page) -> tuple[str, str]:
    """The id and the text of what has the focus."""
    from playwright.sync_api import Error as PlaywrightError

    what = "[document.activeElement.id || '', (document.activeElement.innerText || '').trim()]"
    try:
        found = page.evaluate(what)
    except PlaywrightError as problem:  # the next page came in between
        if "navigation" not in str(problem):
            raise
        page.wait_for_load_state()
        found = page.evaluate(what)
    return found[0], found[1]


def tab_to(page, target: str, most: int = 80) -> None:
    """Press Tab until the thing with this id or text has the focus, as somebody without a mouse does."""
    for _ in range(most):
        if target in focused(page):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"the keyboard does not reach '{target}'")


def fill(page, target: str, text: str) -> None:
    tab_to(page, target)
    page.keyboard.press("Control+a")
    page.keyboard.type(text)


def press(page, target: str, key: str = "Enter") -> None:
    tab_to(page, target)
    page.keyboard.press(key)


def choose(page, target: str, text: str) -> None:
    """Choose an option by typing how it begins."""
    tab_to(page, target)
    page.keyboard.type(text)


def heading(page, text: str) -> None:
    """Wait for the page with this heading, and for all of it: keys that come before its scripts are lost."""
    page.wait_for_selector(f'h1:text-is("{text}")')
    page.wait_for_load_state("load")


def next_heading(page, before: str) -> str:
    """Wait for a page with another heading than the one before, and say which."""
    wait_for(page, lambda: page.locator("h1").inner_text() != before)
    page.wait_for_load_state("load")
    return page.locator("h1").inner_text()


def wait_for(page, holds) -> None:
    """Look until something holds; the policy of the page lets no test code wait inside it."""
    for _ in range(600):
        with contextlib.suppress(Exception):  # between two pages
            if holds():
                page.wait_for_load_state("load")
                return
        page.wait_for_timeout(100)
    raise AssertionError(page.inner_text("main"))


class Pictures:
    """Kept for people who look, where a folder is named: each page on a desktop and on a phone, light and dark."""

    def __init__(self, page) -> None:
        self.page, self.folder, self.number = page, os.environ.get("UNDERSTUDY_PICTURES"), 0

    def of(self, page, name: str) -> None:
        if self.folder:
            page.screenshot(path=f"{self.folder}/{self.number:02}-{name}.png")

    def __call__(self, name: str) -> None:
        page = self.page
        wide = {"width": 1280, "height": 900}
        page.set_viewport_size({"width": 360, "height": 740})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, name
        if self.folder:
            self.number += 1
            page.screenshot(path=f"{self.folder}/{self.number:02}-{name}-phone.png", full_page=True)
        page.set_viewport_size(wide)
        if self.folder:
            page.screenshot(path=f"{self.folder}/{self.number:02}-{name}.png", full_page=True)
        unnamed = "[...document.querySelectorAll('input:not([type=hidden]), select, textarea')]"
        assert page.evaluate(f"{unnamed}.filter(one => !one.labels.length).map(one => one.id)") == [], name
        assert page.locator("h1").count() == 1


def understudy(folder: Path, *words: str) -> str:
    run = subprocess.run(
        [sys.executable, "-m", "understudy.cli", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.full
def test_fifteen_columns_to_a_signed_release_by_keyboard_alone(open_page, studio):
    page = open_page()
    shot = Pictures(page)
    page.goto(studio.addresses[0])
    heading(page, "Which file?")
    shot("file")
    tab_to(page, "people.csv\n" + page.locator("button.row .size").inner_text())
    page.keyboard.press("Enter")
    heading(page, "What is in each column?")
    shot("columns")
    describe(page, shot)
    heading(page, "What must be answerable?")
    choose(page, "table_first", "sex")
    choose(page, "table_second", "edu")
    press(page, "Add the table")
    wait_for(page, lambda: "crosstab" in page.input_value("#needs"))
    choose(page, "mean_first", "inc")
    choose(page, "mean_second", "sex")
    press(page, "Add the mean")
    wait_for(page, lambda: "mean" in page.input_value("#needs"))
    assert page.input_value("#needs") == "crosstab(sex, education)\nmean(income, by=sex)"
    shot("questions")
    press(page, "next")
    heading(page, "Who is protected?")
    fill(page, "records", "1500")
    shot("people")
    page.keyboard.press("Enter")
    heading(page, "How much may be spent?")
    shot("budget")
    if shot.folder:  # it is long, and has a test of its own
        press(page, "Rehearse one question with generated people")
        press(page, "Rehearse")
        page.wait_for_selector("caption")
        shot("rehearsal")
    tab_to(page, "epsilon-3")
    press(page, "Take this budget")
    heading(page, "Which account pays?")
    fill(page, "name", "people-2026")
    fill(page, "limit", "3")
    shot("account")
    press(page, "Use this account")
    heading(page, "Spend epsilon 1 and delta 1e-9?")
    fill(page, "amount", "1")
    shot("confirm")
    press(page, "Spend epsilon 1 and delta 1e-9 of people-2026")
    heading(page, "How good is it, and how safe?")
    shot("before-review")
    press(page, "Compare and attack")
    page.wait_for_selector(".said")
    page.wait_for_load_state("load")
    shot("review")
    with page.context.expect_page() as opened:
        press(page, "The whole internal report")
    report = opened.value
    report.wait_for_load_state()
    assert "INTERNAL" in report.inner_text("body")
    assert (
        report.evaluate("getComputedStyle(document.querySelector('.label')).borderTopWidth") == "6px"
    )  # its own style
    assert report.evaluate("window.origin") == "null"  # apart from the studio's pages
    shot.of(report, "report")
    report.close()
    press(page, "I have looked at it: go on")
    heading(page, "Write the release")
    shot("sign")
    press(page, "Write the release")
    heading(page, "The release is written")
    shot("release")
    check_release(studio.folder)
    no_harm(page, studio)


def describe(page, shot: Pictures) -> None:
    """Every column: what the remarks point at is put right."""
    press(page, page.locator("a.button").inner_text())
    seen = []
    name = "What is in each column?"
    while (name := next_heading(page, name)) != "What is in each column?":
        assert name not in seen
        seen.append(name)
        if name == "age":
            fill(page, "edges", "16, 25, 35, 45, 55, 65, 75, 85, 100")
        if name == "income":
            fill(page, "edges", "0, 500, 1000, 1500, 2000, 3000, 5000, 20000")
            fill(page, "special", "99998 | refused\nN | not applicable")
        if name == "hours":
            fill(page, "edges", "0, 10, 20, 30, 35, 41, 60")
            fill(page, "special", "-8 | not applicable")
        if name == "satisfaction":
            fill(page, "levels", "1 | very bad\n2 | bad\n3 | fair\n4 | good\n5 | very good\n9 | no answer")
        if name == "education":
            fill(page, "levels", "primary\nlower secondary\nupper secondary\ntertiary")
            press(page, "ordered", " ")
        if name in ("age", "income", "education", "person_id"):
            shot(f"column-{name}")
        press(page, "save")
    press(page, "public", " ")
    shot("columns-looked-at")
    press(page, "Check every row of the file")


def check_release(folder: Path) -> None:
    """The command line agrees: the signature, the plan, the account, and what the release says."""
    release, plan = us.read_release(folder / "people-release"), us.read_plan(folder / "people-release-plan.toml")
    understudy(folder, "verify", "people-release", "--key", "agency.key.pub")
    understudy(folder, "ledger", "verify", "budget.db", "--against", "people-release")
    assert release.provenance.plan.hash == plan.hash
    assert str(release.statement.guarantee) == "approximate differential privacy (epsilon = 1, delta = 1E-9)"
    text = (folder / "people-release-commands.sh").read_text()
    commands = [shlex.split(line) for line in text.splitlines() if line.startswith("understudy ")]
    assert [words[1] for words in commands] == ["schema", "ledger", "plan", "synthesize", "report", "sign", "verify"]
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    named = ("people.csv", "people-release-schema.toml", "people-release-plan.toml", "agency.key", "agency.key.pub")
    for name in named:
        (elsewhere / name).write_bytes((folder / name).read_bytes())
    (elsewhere / "agency.key").chmod(0o600)
    for words in commands:
        if words[1] != "report":  # it is long, and the same as the page
            understudy(elsewhere, *words[1:])
    again = us.read_release(elsewhere / "people-release")
    assert us.read_plan(elsewhere / "people-release-plan-again.toml").hash == plan.hash
    assert (again.statement.guarantee, again.statement.unit) == (release.statement.guarantee, release.statement.unit)
    assert again.schema.fingerprint == release.schema.fingerprint
    assert again.provenance.plan.hash == plan.hash
    whole = b"".join(path.read_bytes() for path in (folder / "people-release").rglob("*") if path.is_file())
    assert b"P100007" not in whole


def no_harm(page, studio: Running) -> None:
    """Back and forward, reloading, and a second tab: nothing more is spent."""
    spent = us.Ledger.open(studio.folder / "budget.db").account("people-2026").rows()
    for _ in range(8):
        page.go_back()
    page.reload()
    other = page.context.new_page()
    other.goto(re.sub(r"(http://[^/]+/[^/]+)/.*", r"\1/spend", page.url))
    assert other.locator("h1").inner_text() == "It is made"
    assert other.locator("button.spend").count() == 0
    assert us.Ledger.open(studio.folder / "budget.db").account("people-2026").rows() == spent


def test_a_phone_without_scripts_comes_to_the_columns(open_page, studio):
    page = open_page(width=360, height=740, touch=True, dark=True, scripts=False)
    page.goto(studio.addresses[0])
    page.tap("button.row")
    page.wait_for_selector("table.columns")  # the page looks again by itself
    page.wait_for_load_state("load")
    assert page.locator("table.columns tbody tr").count() == len(COLUMNS)
    page.tap("text=income")
    page.wait_for_selector("#special")
    page.wait_for_load_state("load")
    assert page.locator("#levels").is_visible()  # without scripts every field is there
    assert "99998" in page.inner_text(".remarks")
    assert "looks like an identifier" not in page.inner_text("main")


def test_the_address_works_once(open_page, studio):
    first, second = open_page(), open_page()
    first.goto(studio.addresses[0])
    heading(first, "Which file?")
    refused = second.request.get(studio.addresses[0])
    assert refused.status == 403
    assert len(studio.addresses) == 2  # a new one is printed, for whoever sees the window
    assert first.request.get(first.url).status == 200
