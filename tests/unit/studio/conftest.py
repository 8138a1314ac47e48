"""A studio without a browser: its application, and the steps up to a point, on a small file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import understudy as us
from understudy.studio.application import make_application
from understudy.studio.column_form import Column, fields_of
from understudy.studio.desk import Desk
from understudy.studio.entry import Entry

PORT = 8450
ROWS = 400
SEXES, AGES = ("F", "M"), (15, 25, 45, 65)
STEPS = ("file", "columns", "questions", "people", "budget", "account", "spend", "review")


def write_small(path: Path) -> None:
    """Two columns of levels, one of numbers with a code, one identifier; small, so that every step is quick."""
    lines = ["name,sex,age,smokes"]
    for number in range(ROWS):
        age = 999 if number % 40 == 7 else 16 + (number * 7) % 60
        lines.append(f"P{1000 + 17 * number},{SEXES[number % 2]},{age},{('no', 'no', 'yes')[number % 3]}")
    path.write_text("\n".join(lines) + "\n")


def said_of(column: Column) -> dict[str, str]:
    """What the form of a column says at first, as a browser sends it."""
    return {key: text for key, text in fields_of(column).items() if text}


class Walk:
    """Somebody in front of the page. ``to`` does every step before the one that is named."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        application, entry, desk = make_application(folder, port=PORT, say=self.said.append)
        self.entry: Entry = entry
        self.desk: Desk = desk
        self.client = TestClient(application, base_url=f"http://127.0.0.1:{PORT}", follow_redirects=False)

    def enter(self) -> Walk:
        answer = self.client.get(self.entry.address.partition(str(PORT))[2])
        assert answer.status_code == 303
        return self

    def get(self, path: str, **how: Any) -> Any:
        return self.client.get(f"{self.entry.room}/{path}", **how)

    def post(
        self, path: str, /, *, headers: dict[str, str] | None = None, csrf: str | None = None, **fields: str
    ) -> Any:
        word = self.entry.csrf if csrf is None else csrf
        answer = self.client.post(f"{self.entry.room}/{path}", data={"csrf": word, **fields}, headers=headers)
        self.wait()
        return answer

    def wait(self) -> None:
        if self.desk.task is not None:
            self.desk.task.wait()

    def to(self, step: str) -> Walk:
        for name in STEPS[: STEPS.index(step)]:
            getattr(self, f"do_{name}")()
            assert self.desk.done(name), (name, self.desk.task and self.desk.task.problem)
        return self

    def do_file(self) -> None:
        self.post("file", chosen="people.csv")

    def do_columns(self) -> None:
        for number, column in enumerate(list(self.desk.described.columns.values())):
            self.post(f"columns/{number}", **said_of(column))
        self.post("columns", public="yes")

    def do_questions(self) -> None:
        self.post("questions", needs="crosstab(sex, smokes)")

    def do_people(self) -> None:
        self.post("people", who="person", records=str(ROWS))

    def do_budget(self) -> None:
        self.post("budget", epsilon="1")

    def do_account(self) -> None:
        self.post("account", ledger="budget.db", account="new", name="people-2026", limit="2", limit_delta="1e-6")

    def do_spend(self) -> None:
        self.post("spend", once=self.desk.once, amount="1", name="people-release")

    @property
    def spent(self) -> list[tuple[str, ...]]:
        """What was charged, run by run."""
        entries = us.Ledger.open(self.folder / "budget.db").entries("people-2026")
        return [(str(one.run), str(one.plan_hash)) for one in entries if one.kind == "charge"]


@pytest.fixture
def folder(tmp_path) -> Path:
    write_small(tmp_path / "people.csv")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    return tmp_path


@pytest.fixture
def walk(folder) -> Walk:
    return Walk(folder).enter()
