"""What schemas can be served: bins and codes that were found, several rows of a person, fixed attributes, weights."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import understudy as us
from tests.unit.serving.conftest import SETTINGS
from understudy.errors import InputError, UnsupportedError
from understudy.serving.asking import Asked
from understudy.serving.catalogue import publish
from understudy.serving.database.connecting import Database
from understudy.serving.database.jobs import Job, find_job
from understudy.serving.database.people import Person, add_project
from understudy.serving.settings import read_settings
from understudy.serving.web.site import Site
from understudy.serving.wording import examples, written
from understudy.serving.worker.working import Worker

ROWS = 2000
PLAIN = """
version = 1
[[attribute]]
name = "sex"
levels = ["F", "M"]
[[attribute]]
name = "job"
levels = ["a", "b", "c"]
"""
BOUNDS = PLAIN + '[[attribute]]\nname = "income"\nbounds = [0, 100000]\n'
TOWNS = PLAIN + '[[attribute]]\nname = "town"\nlevels = "discover"\namong = "towns.csv"\n'
WEIGHT = PLAIN + '[weight]\ncolumn = "weight"\nbounds = [1, 50]\n'
ANA = Person(name="ana", role="analyst", project="labour")
SHARE = "proportion(job == 'a', where=sex == 'F')"


def served_with(folder: Path, schema: str, unit: us.Unit | str, rows: int | None = None) -> tuple[Site, Worker]:
    """A server of generated rows by a schema and a unit."""
    rng = np.random.default_rng(7)
    columns = {
        "sex": rng.choice(["F", "M"], ROWS),
        "job": rng.choice(["a", "b", "c"], ROWS),
        "income": rng.lognormal(7, 1, ROWS).round(),
        "town": rng.choice(["north", "south", "west"], ROWS, p=[0.5, 0.45, 0.05]),
        "weight": rng.uniform(1, 50, ROWS).round(2),
        "id": np.repeat(np.arange(ROWS // 4), 4),
    }
    (folder / "towns.csv").write_text("code\nnorth\nsouth\nwest\neast\n")
    (folder / "people.toml").write_text(schema)
    read = us.read_schema(folder / "people.toml")
    wanted = [name for name in columns if name in read.columns or name == getattr(unit, "unit_id", None)]
    pq.write_table(pa.table({name: pa.array(columns[name]) for name in wanted}), folder / "people.parquet")
    us.Ledger.create(folder / "budget.db").create_account("people", unit=unit, limit=us.ZCDP(rho=2))
    reading: dict[str, Any] = {"unit_id": unit.unit_id} if isinstance(unit, us.Unit) and unit.unit_id else {}
    us.synthesize(
        us.open_source(str(folder / "people.parquet"), read, **reading), method="independent", unit=unit, rows=rows,
        budget=us.ZCDP(rho="0.1"), ledger=folder / "budget.db", account="people", out=folder / "release",
    )  # fmt: skip
    (folder / "site.toml").write_text(SETTINGS.format(ledger="budget.db"))
    settings = read_settings(folder / "site.toml")
    database = Database.open(str(folder / "server.db"), create=True)
    add_project(database, "labour", dataset="people", allowance=Fraction(1))
    publish(settings, database, folder / "release", name="people", dataset="people")
    return Site(settings, database), Worker(settings, "people", database, say=lambda _: None)


@pytest.mark.parametrize(
    ("schema", "unit", "rows", "question"),
    [
        pytest.param(BOUNDS, "replace", None, "proportion(income < 100000, where=sex == 'F')", id="found bins"),
        pytest.param(TOWNS, "replace", None, "proportion(town == 'north', where=sex == 'F')", id="found codes"),
        pytest.param(PLAIN, us.Unit(rows_per_unit=2, unit_id="id"), None, SHARE, id="rows of a person"),
        pytest.param(
            PLAIN, us.Unit(kind="add_remove", rows_per_unit=2, unit_id="id"), 800, SHARE, id="rows, number unknown"
        ),
        pytest.param(PLAIN, us.Unit(fixed=("sex",)), None, SHARE, id="fixed"),
    ],
)
def test_a_schema_is_served_from_the_question_to_the_next_version(tmp_path, schema, unit, rows, question):
    site, worker = served_with(tmp_path, schema, unit, rows)
    release = site.catalogue.release(site.catalogue.newest("people"))
    if schema == BOUNDS:  # an edge in the middle
        middle = np.median(release.frame()["income"].to_numpy())
        edge = min(release.schema["income"].edges, key=lambda one: abs(float(one) - middle))
        question = question.replace("100000", str(edge))
    with worker.alone():
        worker.check()
        job = site.confirm(ANA, "people", Asked(question=question), 0.25, most=None, once=None)
        assert isinstance(job, Job)
        assert worker.run_once()
    done = site.database.read(lambda session: find_job(session, job.id))
    assert done.state == "done"
    assert done.record["answer"]["estimates"][0]["label"] in ("valid", "range")
    assert done.record["answer"]["width"] < 0.35
    folder = site.settings.releases / "people" / "2"
    assert all(check.passed for check in us.verify(folder)), us.verify(folder)
    assert us.verify_ledger(tmp_path / "budget.db", against=folder).ok
    assert us.read_release(folder).schema == release.schema


def test_the_rows_of_a_person_are_chosen_once_for_all_jobs(tmp_path):
    unit = us.Unit(rows_per_unit=1, unit_id="id")
    site, worker = served_with(tmp_path, PLAIN, unit)
    release = site.catalogue.release(site.catalogue.newest("people"))
    with worker.alone():
        kept = worker._source(release).count([("sex", "job")])[0].values
    assert kept.sum() == ROWS // 4
    another = Worker(site.settings, "people", site.database, say=lambda _: None)
    assert np.array_equal(another._source(release).count([("sex", "job")])[0].values, kept)
    key = site.settings.place("worker-people") / "rows-of-units"
    assert key.stat().st_mode & 0o077 == 0
    key.unlink()
    fresh = Worker(site.settings, "people", site.database, say=lambda _: None)
    assert not np.array_equal(fresh._source(release).count([("sex", "job")])[0].values, kept)


def test_a_weighted_question_that_would_stay_model_based_is_not_sold(tmp_path):
    site, _ = served_with(tmp_path, WEIGHT, "replace")
    with pytest.raises(UnsupportedError, match="would still be model-based"):
        site.quote(ANA, "people", Asked(question=SHARE), 0.3)


def test_a_release_with_a_delta_is_refused_when_it_is_published(tmp_path):
    schema = us.Schema(attributes=(us.Attribute(name="sex", levels=("F", "M")),))
    pq.write_table(pa.table({"sex": ["F", "M"] * 50}), tmp_path / "people.parquet")
    ledger = us.Ledger.create(tmp_path / "budget.db")
    limit = us.ApproxDP(epsilon=2, delta="1e-6")
    ledger.create_account("people", unit="replace", limit=limit)
    us.synthesize(
        us.open_source(str(tmp_path / "people.parquet"), schema), method="independent",
        budget=us.ApproxDP(epsilon=1, delta="1e-9"), ledger=tmp_path / "budget.db", account="people",
        out=tmp_path / "release",
    )  # fmt: skip
    (tmp_path / "site.toml").write_text(SETTINGS.format(ledger="budget.db"))
    settings = read_settings(tmp_path / "site.toml")
    database = Database.open(str(tmp_path / "server.db"), create=True)
    with pytest.raises(InputError, match="only zero-concentrated and pure guarantees add up"):
        publish(settings, database, tmp_path / "release", name="people", dataset="people")


@pytest.mark.parametrize(
    "schema",
    [
        PLAIN,
        WEIGHT,
        'version = 1\n[[attribute]]\nname = "class"\nlevels = ["it\'s", "a (b)", "c"]\n'
        '[[attribute]]\nname = "own car"\nlevels = [true, false]\n'
        '[[attribute]]\nname = "my age"\nedges = [0, 18, 65]\n',
        'version = 1\n[[attribute]]\nname = "age"\nedges = [0, 18, 65]\n',
        'version = 1\n[[attribute]]\nname = "born"\nedges = [1990-01-01, 2000-01-01, 2010-01-01]\n',
    ],
)
def test_examples_are_about_the_release_and_can_be_asked(tmp_path, schema):
    (tmp_path / "people.toml").write_text(schema)
    read = us.read_schema(tmp_path / "people.toml")
    found = examples(read)
    assert bool(found) == ("born" not in schema)
    for question in found:
        assert Asked(question=question).estimand(read).margin
    for name, levels in written(read).items():
        for level in levels:
            assert Asked(question=f"proportion({name} == {level})").estimand(read).margin


def test_with_a_weight_a_question_about_the_sample_is_sold_as_valid(tmp_path):
    site, worker = served_with(tmp_path, WEIGHT, "replace")
    asked = Asked(question=SHARE, weighted=False)
    assert asked.told == f"{SHARE}, about the sample, not weighted"
    assert asked.key != Asked(question=SHARE).key
    assert Asked.from_json(asked.to_json()) == asked
    assert site.quote(ANA, "people", asked, 0.25).price.margin == ("sex", "job")
    with worker.alone():
        job = site.confirm(ANA, "people", asked, 0.25, most=None, once=None)
        assert worker.run_once()
    found = site.database.read(lambda session: find_job(session, job.id)).record["answer"]
    assert found["estimates"][0]["label"] == "valid"
    assert found["width"] < 0.35
    with pytest.raises(InputError, match="weight 'salary' is unknown"):
        site.quote(ANA, "people", Asked(question=SHARE, weighted="salary"), 0.3)
