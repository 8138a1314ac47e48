"""The steps of the studio: their order, what a change takes back, and that nothing is spent twice or by accident."""

from __future__ import annotations

import re
import shlex
import threading

import pytest

import understudy as us
from tests.unit.studio.conftest import Walk, said_of
from understudy.cli.main import app
from understudy.privacy.gate.gate import Gate
from understudy.studio import desk as desks
from understudy.studio.tasks import FAILED, STOPPED


def test_a_file_becomes_a_signed_release_and_the_commands_say_the_same(walk):
    walk.to("review")
    assert walk.get("review").status_code == 200
    assert "people-release-unreviewed" in walk.get("spend").text
    walk.post("review")
    answer = walk.post("release", sign="new", new_key="agency.key")
    assert answer.headers["location"].endswith("/release")
    folder = walk.folder
    assert not (folder / "people-release-unreviewed").exists()
    checks = us.verify(folder / "people-release", key=folder / "agency.key.pub")
    assert all(check.passed for check in checks)
    assert us.verify_ledger(folder / "budget.db", against=folder / "people-release").ok
    plan = us.read_plan(folder / "people-release-plan.toml")
    assert us.read_release(folder / "people-release").provenance.plan.hash == plan.hash == walk.spent[0][1]
    script = (folder / "people-release-commands.sh").read_text()
    assert "understudy synthesize people.csv" in walk.get("release").text
    (words,) = [shlex.split(line) for line in script.splitlines() if line.startswith("understudy plan ")]
    schema = us.read_schema(folder / "people-release-schema.toml")
    assert words[1:4] == ["plan", "--schema", "people-release-schema.toml"]
    again = us.plan(schema, budget=us.ApproxDP(epsilon="1", delta="1e-9"), unit="replace")
    assert again.hash == plan.hash
    assert [one.name for one in app.registered_commands].count("studio") == 1


def test_steps_come_in_their_order(walk):
    for step in ("columns", "people", "budget", "account", "spend", "review", "release"):
        answer = walk.get(step)
        assert answer.headers["location"].endswith("/file")
        assert walk.post(step).status_code == 400
    assert not (walk.folder / "budget.db").exists()


def test_what_rests_on_a_change_is_taken_back(walk):
    walk.to("spend")
    once = walk.desk.once
    names = list(walk.desk.described.columns)
    walk.post(f"columns/{names.index('smokes')}", kind="levels", levels="no\nyes\nsometimes")
    assert walk.desk.open_steps() == ["file", "columns"]
    assert walk.desk.plan is None
    walk.post("spend", once=once, amount="1", name="people-release")
    assert walk.spent == []


def test_a_column_with_a_remark_must_be_looked_at(walk):
    walk.do_file()
    answer = walk.post("columns", public="yes")
    assert answer.status_code == 400
    assert "look at" in answer.text
    assert {"age", "name"} <= set(walk.desk.described.unread)


def test_a_form_without_an_answer_is_shown_again(walk):
    walk.do_file()
    answer = walk.post("columns/0", levels="a")
    assert answer.status_code == 400
    assert "say what is in it" in answer.text
    assert walk.post("columns/99", kind="left_out").status_code == 400
    assert walk.get("columns/99").status_code == 400


def test_the_description_must_be_called_public(walk):
    walk.do_file()
    for number in range(4):
        column = list(walk.desk.described.columns.values())[number]
        fields = said_of(column)
        walk.post(f"columns/{number}", **fields)
    assert "public knowledge" in walk.post("columns").text
    assert not walk.desk.done("columns")


def test_rows_that_do_not_fit_are_told_without_a_value(walk):
    walk.do_file()
    names = list(walk.desk.described.columns)
    for number, column in enumerate(list(walk.desk.described.columns.values())):
        walk.post(f"columns/{number}", **said_of(column))
    walk.post(
        f"columns/{names.index('age')}", kind="numbers", edges="16, 30, 50", integer="yes", special="999 | no answer"
    )
    walk.post("columns", public="yes")
    assert walk.desk.task.state == FAILED
    page = walk.get("working").text
    assert "age" in page
    assert re.search(r"\d+", walk.desk.task.problem)
    assert not walk.desk.done("columns")


@pytest.mark.parametrize("amount", ["", "2", "1.0001", "one", "10"])
def test_the_amount_must_be_named(walk, amount):
    walk.to("spend")
    answer = walk.post("spend", once=walk.desk.once, amount=amount, name="people-release")
    assert answer.status_code == 400
    assert "Nothing was spent" in answer.text
    assert walk.spent == []
    assert not list(walk.folder.glob("people-release*"))


def test_the_page_that_showed_the_amount_must_be_the_last_one(walk):
    walk.to("spend")
    old = walk.desk.once
    walk.post("budget", epsilon="2")
    walk.post("account", ledger="budget.db", account="people-2026")
    answer = walk.post("spend", once=old, amount="2", name="people-release")
    assert answer.status_code == 400
    assert walk.spent == []


def test_a_second_press_a_reload_and_a_second_tab_spend_once(walk):
    walk.to("spend")
    form = {"once": walk.desk.once, "amount": "1", "name": "people-release"}
    answers = []

    def press() -> None:
        other = {"csrf": walk.entry.csrf, **form}
        answers.append(walk.client.post(f"{walk.entry.room}/spend", data=other).status_code)

    presses = [threading.Thread(target=press) for _ in range(6)]
    for one in presses:
        one.start()
    for one in presses:
        one.join()
    walk.wait()
    assert set(answers) == {303}
    assert len(walk.spent) == 1
    walk.post("spend", **form)
    assert len(walk.spent) == 1
    assert walk.get("working").headers["location"].endswith("/review")


def test_nothing_before_the_charge_can_be_changed_after_it(walk):
    walk.to("review")
    for path, fields in (
        ("file", {"chosen": "people.csv"}),
        ("columns/0", {"kind": "left_out"}),
        ("questions", {"needs": ""}),
        ("people", {"who": "person", "records": "10"}),
        ("budget", {"epsilon": "2"}),
        ("account", {"ledger": "budget.db", "account": "people-2026"}),
    ):
        answer = walk.post(path, **fields)
        assert answer.status_code == 400, path
        assert "Begin another release" in answer.text
    assert walk.desk.release is not None
    assert len(walk.spent) == 1


def test_an_account_that_is_too_small_refuses_before_any_noise(walk):
    walk.to("account")
    answer = walk.post(
        "account", ledger="budget.db", account="new", name="people-2026", limit="0.5", limit_delta="1e-6"
    )
    assert answer.status_code == 400
    assert "epsilon" in answer.text
    assert walk.desk.account is None
    assert not (walk.folder / "budget.db").exists()  # a limit is for good, so none is set that helps nobody


def test_another_studio_that_spends_first_leaves_nothing_and_draws_nothing(walk, monkeypatch):
    walk.to("spend")
    ledger = us.Ledger.open(walk.folder / "budget.db")
    plan = walk.desk.plan
    ledger.reserve("people-2026", run="elsewhere", plan_hash="0" * 64, unit=plan.unit, method="x",
                   cost=us.ApproxDP(epsilon="1.5", delta="1e-9"))  # fmt: skip
    monkeypatch.setattr(Gate, "measure", lambda *_, **__: pytest.fail("noise was drawn"))
    answer = walk.post("spend", once=walk.desk.once, amount="1", name="people-release")
    assert answer.status_code == 400
    assert len(walk.spent) == 1  # the other's
    assert not list(walk.folder.glob("people-release*"))
    assert not walk.desk.started


def test_a_file_that_is_gone_or_changed_spends_nothing(walk):
    walk.to("spend")
    file = walk.folder / "people.csv"
    kept = file.read_bytes()
    file.unlink()
    answer = walk.post("spend", once=walk.desk.once, amount="1", name="people-release")
    assert answer.status_code == 400
    assert "is not there any more. Nothing was spent" in answer.text
    file.write_bytes(kept + b"P9,F,30,no\n")
    answer = walk.post("spend", once=walk.desk.once, amount="1", name="people-release")
    assert "was changed since it was read" in answer.text
    assert walk.spent == []


def test_a_file_that_goes_while_it_is_read_spends_nothing(walk, monkeypatch):
    walk.to("spend")
    real = us.synthesize

    def late(data, **how):
        (walk.folder / "people.csv").unlink()
        return real(data, **how)

    monkeypatch.setattr(us, "synthesize", late)
    walk.do_spend()
    assert walk.desk.task.state == FAILED
    assert "Nothing was spent" in walk.get("working").text
    assert walk.spent == []
    assert walk.desk.open_steps()[-1] == "spend"


def test_a_run_that_is_stopped_after_its_charge_is_finished_without_another(walk, monkeypatch):
    walk.to("spend")
    real = Gate.measure

    def stopped(self, *given, **how):
        walk.desk.task.stop()
        walk.desk.task.tell("measuring", 0, None)
        return real(self, *given, **how)

    monkeypatch.setattr(Gate, "measure", stopped)
    walk.do_spend()
    assert walk.desk.task.state == STOPPED
    page = walk.get("working").text
    assert "The account was charged before this happened" in page
    assert "at no cost" in page
    assert len(walk.spent) == 1
    monkeypatch.setattr(Gate, "measure", real)
    walk.post("resume")
    assert walk.desk.release is not None
    assert len(walk.spent) == 1
    assert walk.desk.kept_run is None


def test_a_run_that_is_stopped_before_its_charge_spends_nothing(walk, monkeypatch):
    walk.to("spend")
    real = us.synthesize

    def stopped(data, *, progress, **how):
        walk.desk.task.stop()
        progress(0, 1)
        return real(data, progress=progress, **how)

    monkeypatch.setattr(us, "synthesize", stopped)
    walk.do_spend()
    assert walk.desk.task.state == STOPPED
    assert walk.spent == []
    assert "Nothing was spent" in walk.get("working").text
    assert walk.desk.open_steps()[-1] == "spend"


def test_a_fault_of_ours_is_told_without_its_message(walk, monkeypatch, capsys):
    walk.to("spend")
    monkeypatch.setattr(us, "synthesize", lambda *_, **__: (_ for _ in ()).throw(RuntimeError("P1017 is 33")))
    walk.do_spend()
    page, told = walk.get("working").text, capsys.readouterr().err
    assert "a fault of the program" in page
    assert "P1017" not in page + told
    assert "RuntimeError at " in told
    assert walk.spent == []


def test_another_release_of_the_same_data_is_charged_to_the_same_account(walk):
    walk.to("review")
    walk.post("review")
    walk.post("release", sign="no")
    walk.post("again", same="yes")
    assert walk.desk.open_steps()[-1] == "budget"
    walk.post("budget/compare", guarantee="approx", delta="1e-9")
    walk.post("budget", epsilon="0.5")
    walk.post("account", ledger="budget.db", account="people-2026")
    taken = walk.post("spend", once=walk.desk.once, amount="0.5", name="people-release")
    assert "already exists" in taken.text
    walk.post("spend", once=walk.desk.once, amount="0.5", name="second")
    assert len(walk.spent) == 2
    assert (walk.folder / "second-unreviewed").is_dir()


def test_a_reviewed_schema_needs_no_draft(walk, monkeypatch):
    schema = us.Schema(
        attributes=(us.Attribute(name="sex", levels=("F", "M")), us.Attribute(name="smokes", levels=("no", "yes"))),
        ignore=("name", "age"), workload=("crosstab(sex, smokes)",),
    )  # fmt: skip
    (walk.folder / "known.toml").write_text(us.write_schema(schema))
    monkeypatch.setattr(desks.api, "draft_in_parts", lambda *_: pytest.fail("the data were looked at"))
    walk.post("file", path="people.csv", schema="known.toml")
    assert walk.desk.described.unread == []
    assert walk.desk.schema() == schema


def test_the_internal_report_stays_in_memory(walk):
    walk.to("review")
    before = sorted(path.name for path in walk.folder.iterdir())
    walk.desk.evaluation, walk.desk.report = None, "<!doctype html><p>internal</p>"
    answer = walk.get("report")
    assert answer.text == walk.desk.report
    assert answer.headers["content-security-policy"] == "sandbox allow-scripts"
    assert answer.headers["cache-control"] == "no-store"
    assert sorted(path.name for path in walk.folder.iterdir()) == before


def test_several_rows_of_a_person_are_protected_together(folder):
    walk = Walk(folder).enter().to("people")
    assert walk.post("people", who="several", records="400", rows_per_unit="x").status_code == 400
    walk.post("people", who="several", records="400", rows_per_unit="3", unit_id="name", hide_presence="yes")
    assert walk.desk.unit == us.Unit(kind="add_remove", rows_per_unit=3, unit_id="name")
    assert walk.get("budget").status_code == 200


def test_budgets_and_rehearsals_use_public_facts_alone(walk, monkeypatch):
    walk.to("people")
    (walk.folder / "people.csv").unlink()  # nothing of it is needed
    monkeypatch.setattr(us, "open_source", lambda *_, **__: pytest.fail("the data were opened"))
    monkeypatch.setattr(desks, "REPEATS", 2)
    walk.do_people()
    page = walk.get("budget").text
    assert "crosstab(sex, smokes)" in page
    assert "73" in page  # of 100 guesses, at epsilon 1
    walk.post("budget/compare", guarantee="pure", more="0.7")
    assert walk.desk.delta is None
    assert [float(row.budget.epsilon) for row in walk.desk.compared] == [0.25, 0.5, 0.7, 1, 2, 4]
    walk.post("budget/rehearse", question="proportion(smokes == 'yes')")
    assert walk.desk.advice is not None, walk.desk.task.problem
    assert "times as wide" in walk.get("budget").text
    walk.post("budget/rehearse", question="mean(nothing)")
    assert "nothing" in walk.desk.task.problem
    assert "Stop" not in walk.get("working").text
    walk.post("budget", epsilon="other", other="0.7")
    assert walk.desk.budget.words == "epsilon 0.7"
    assert walk.desk.plan.hash == us.plan(walk.desk.schema(), budget=us.PureDP(epsilon="0.7")).hash


@pytest.mark.parametrize(
    ("path", "fields", "said"),
    [
        ("questions", {"needs": "mean(nobody)"}, "nobody"),
        ("questions/add", {"what": "table", "table_first": "sex", "table_second": "sex"}, "choose the columns"),
        ("questions/add", {"needs": "", "what": "nonsense"}, "choose the columns"),
        ("people", {"who": "person", "records": "many"}, "whole number"),
        ("people", {"who": "nobody", "records": "9"}, "who is protected"),
        ("people", {"who": "several", "rows_per_unit": "2", "unit_id": "nothing", "records": "9"}, "no such column"),
    ],
)  # fmt: skip
def test_strange_answers_are_refused_and_kept_on_the_page(walk, path, fields, said):
    walk.to("people" if path == "people" else "questions")
    answer = walk.post(path, **fields)
    assert answer.status_code == 400
    assert said.lower() in answer.text.lower()
    assert 'role="alert"' in answer.text


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"ledger": "", "account": "new", "name": "x", "limit": "3"}, "name the file of the ledger"),
        ({"ledger": "budget.db", "account": "new", "name": "", "limit": "3"}, "name"),
        ({"ledger": "budget.db", "account": "new", "name": "x", "limit": ""}, "how much may ever be spent"),
        ({"ledger": "budget.db", "account": "new", "name": "x", "limit": "much"}, "epsilon"),
        ({"ledger": "people.csv", "account": "x"}, "ledger"),
        ({"ledger": "nowhere.db", "account": "x"}, "does not exist"),
    ],
)
def test_a_strange_account_makes_no_ledger(walk, fields, said):
    walk.to("account")
    answer = walk.post("account", **fields)
    assert answer.status_code == 400
    assert said.lower() in answer.text.lower()
    assert not (walk.folder / "budget.db").exists()


def test_an_account_of_another_unit_cannot_be_chosen(walk):
    walk.to("account")
    ledger = us.Ledger.create(walk.folder / "budget.db")
    ledger.create_account("others", unit="add_remove", limit=us.PureDP(epsilon=5))
    page = walk.get("account", params={"ledger": "budget.db"}).text
    assert re.search(r'value="others" disabled', page)
    answer = walk.post("account", ledger="budget.db", account="others")
    assert answer.status_code == 400
    assert walk.desk.account is None
