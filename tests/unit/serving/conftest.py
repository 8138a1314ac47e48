"""A small server for the tests: made once, copied for each."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.demo.people import make_people, small_schema
from understudy.privacy.promise.plan import Plan
from understudy.release.table_release import Release
from understudy.serving.asking import Asked
from understudy.serving.catalogue import Catalogue, publish
from understudy.serving.database.connecting import Database
from understudy.serving.database.jobs import Job, request
from understudy.serving.database.people import Person, add_person, add_project, person_with
from understudy.serving.pricing import confirmation_plan
from understudy.serving.settings import Settings, read_settings
from understudy.serving.web.site import Site
from understudy.serving.worker.working import Worker

PEOPLE = 2000
LIMIT, SPENT = "0.5", "0.1"
SETTINGS = """
[server]
title = "Test office"
answer_seconds = 0.2
secure_cookies = false
requests_per_minute = 100000

[[dataset]]
name = "people"
ledger = "{ledger}"
account = "people"
data = "people.parquet"
"""
QUESTION = "proportion(smokes == 'yes', where=sex == 'F')"


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data, a ledger and a release that was charged to it."""
    folder = tmp_path_factory.mktemp("served")
    schema = small_schema()
    pq.write_table(make_people(PEOPLE).select(list(schema.names)), folder / "people.parquet")
    ledger = us.Ledger.create(folder / "budget.db")
    ledger.create_account("people", unit="replace", limit=us.ZCDP(rho=LIMIT))
    us.synthesize(
        us.open_source(str(folder / "people.parquet"), schema), method="independent", budget=us.ZCDP(rho=SPENT),
        ledger=folder / "budget.db", account="people", out=folder / "release",
    )  # fmt: skip
    return folder


@dataclass
class Served:
    """A server without its processes: what they would use."""

    folder: Path
    settings: Settings
    database: Database
    tokens: dict[str, str]

    @property
    def catalogue(self) -> Catalogue:
        return Catalogue(self.settings, self.database)

    @property
    def site(self) -> Site:
        return Site(self.settings, self.database)

    @property
    def release(self) -> Release:
        return self.catalogue.release(self.catalogue.newest("people"))

    @property
    def ledger(self) -> us.Ledger:
        return us.Ledger.open(self.folder / "budget.db")

    def person(self, name: str) -> Person:
        found = self.database.read(lambda session: person_with(session, self.tokens[name]))
        assert found is not None
        return found

    def plan(self, rho: str, label: str = "confirmation", margin: tuple[str, ...] = ("sex", "smokes")) -> Plan:
        release = self.release
        return confirmation_plan(release.schema, release.statement.unit, margin, Fraction(rho), label=label)

    def ask(self, rho: str, once: str, person: str = "ana", question: str = QUESTION, **more: Any) -> Job:
        """A job of a stated price, without the search for it."""
        return request(
            self.database, person=self.person(person), release="people", asked=Asked(question=question, **more),
            plan=self.plan(rho, f"confirmation {once}"), once=once, means=self.site.means("people"),
        )  # fmt: skip

    def appear(self) -> None:
        """Wait until everything that ended may be seen."""
        ended = "SELECT visible FROM jobs WHERE visible IS NOT NULL UNION SELECT visible FROM versions"
        rows = self.database.read(lambda session: session.rows(ended))
        time.sleep(max(0.0, max(row[0] for row in rows) - time.time()) + 0.01)

    def worker(self) -> Worker:
        self.settings.place("worker-people").mkdir(exist_ok=True)
        return Worker(self.settings, "people", self.database, say=lambda _: None)


def make_served(folder: Path, target: str) -> Served:
    (folder / "site.toml").write_text(SETTINGS.format(ledger="budget.db"))
    settings = read_settings(folder / "site.toml")
    database = Database.open(target, create=True)
    add_project(database, "labour", dataset="people", allowance=Fraction(1, 20))
    add_project(database, "health", dataset="people", allowance=Fraction(1, 2))
    publish(settings, database, folder / "release", name="people", dataset="people")
    people = {"ana": "analyst", "ben": "analyst", "sue": "steward", "app": "approver", "aud": "auditor"}
    projects = {"ana": "labour", "ben": "health"}
    tokens = {name: add_person(database, name, role=role, project=projects.get(name)) for name, role in people.items()}
    return Served(folder=folder, settings=settings, database=database, tokens=tokens)


@pytest.fixture
def served(template: Path, tmp_path: Path) -> Served:
    folder = tmp_path / "served"
    shutil.copytree(template, folder)
    return make_served(folder, str(folder / "server.db"))
