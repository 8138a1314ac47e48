"""Money is committed once, inside every limit, whoever asks how often and at the same time."""

from __future__ import annotations

import shutil
import threading
import time
from fractions import Fraction

import pytest

from tests.unit.serving.conftest import make_served
from understudy.errors import BudgetError, InputError
from understudy.serving.database.connecting import Database
from understudy.serving.database.jobs import APPROVED, DECLINED, WAITING, committed, find_job
from understudy.serving.database.log import entries, problems


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
    deadline = ended.approved + served.settings.answer_seconds
    wait = (ended.visible - ended.approved) / served.settings.answer_seconds
    assert wait == pytest.approx(round(wait))
    assert ended.visible >= deadline
    assert ended.shown(ended.visible - 0.01) == APPROVED
    assert ended.shown(ended.visible) == "done"
    newest = served.catalogue.versions
    assert len(newest("people")) == (1 if time.time() < ended.visible else 2)


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
