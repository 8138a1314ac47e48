"""``understudy infer``: questions to a release folder on the command line."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def released(folder, run):
    # So much budget that the noise is 0 with certainty enough for a test: a command has no seed.
    run("synthesize people.csv --schema people.toml --method histogram --epsilon 200 --out release")
    return folder / "release"


def test_an_answer_as_json(released, run):
    result = run("infer release", 'proportion(sex == "F")', "--json")
    answer = json.loads(result.stdout)
    assert answer["kind"] == "proportion"
    (one,) = answer["estimates"]
    assert one["low"] < 0.5 < one["high"]
    assert answer["estimate"] == one["estimate"]  # one estimate stands at the top too
    assert answer["records"] == 120
    assert answer["validity"] == "valid"


def test_an_answer_for_people(released, run):
    shown = run("infer release", "age ~ sex", "--where", "age >= 15", "--level", "0.9").stdout
    assert "sex[M]" in shown
    assert "90% from" in shown
    assert "not known" in shown  # a range, for ages inside bins, is worth no sample
    assert "like a sample of" in run("infer release", "proportion(sex == 'F')").stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("proportion(sexx == 'F')",), "did you mean 'sex'"),
        (("mean(age, where=age < 20)",), "cuts through a bin"),
        (("nonsense",), "not a question"),
        (("mean(age)", "--rule", "rubin"), "missing data"),
        (("mean(age)", "--rule", "T_s"), "Leave rule out"),
        (("mean(age)", "--synthesis", "simple", "--records", "5"), "leave out"),
        (("smokes ~ sex", "--event", "maybe"), "maybe"),
        (("proportion(sex == 'F', where=smokes == 'yes')",), "may not exist"),
    ],
)
def test_refusals_say_why(released, refused, arguments, says):
    refused("infer release", *arguments, says=says)


def test_a_folder_that_is_no_release(refused):
    refused("infer nowhere", "mean(age)", says="not a release folder")


def test_a_model_is_held_against_the_release(released, run):
    asked = ("age ~ sex", "--where", "age >= 15", "--check")
    found = json.loads(run("infer release", *asked, "--json").stdout)
    assert found["supported"] is True
    assert found["disagreements"] == []
    assert set(found) >= {"statistic", "freedom", "p_value", "worst"}
    assert "Support: the measured tables determine" in run("infer release", *asked).stdout


def test_what_is_no_model_cannot_be_checked(released, refused):
    refused("infer release", "mean(age)", "--check", says="no model")


def test_what_a_check_does_not_use_is_refused(released, refused):
    refused(
        "infer release", "smokes ~ sex", "--check", "--draws", "9", "--level", "0.9", says="leave out --draws, --level"
    )


def test_what_can_be_asked_and_answers_on_paper(released, run):
    listed = json.loads(run("infer release --list sex --json").stdout)
    assert all("sex" in one["attributes"] for one in listed["tables"])
    assert "at best" in run("infer release --list").stdout
    several = run("infer release", "crosstab(sex)", "proportion(sex == 'F')", "--format", "csv").stdout
    assert several.splitlines()[0].startswith("question,name,sex,estimate")
    assert len(json.loads(run("infer release", "crosstab(sex)", "proportion(sex == 'F')", "--json").stdout)) == 2


def test_a_refused_question_does_not_lose_the_answers_to_the_others(folder, run):
    run("synthesize people.csv --schema people.toml --method independent --epsilon 9 --out release")
    asked = ("age ~ sex + smokes", "proportion(sex == 'F')", "crosstab(sex)")
    result = run("infer release", *asked, code=2)
    assert "like a sample of" in result.stdout
    assert "1 of 3 questions" in result.stderr
    assert "age ~ sex + smokes: this release measured no table with both" in " ".join(result.stderr.split())
    *answers, refused = json.loads(run("infer release", *asked, "--json", code=2).stdout)
    assert [one["question"] for one in answers] == [*asked[1:]]
    assert refused["question"] == asked[0]
    assert "measured no table" in refused["refused"]
    only = run("infer release", "crosstab(sex, smokes)", asked[0], "--format", "csv", code=2)
    assert "sex,smokes" in only.stdout  # a range


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "--list"),
        (("crosstab(sex)", "crosstab(smokes)", "--plot", "figure.svg"), "one question"),
        (("age ~ sex", "--compare"), "two formulas"),
        (("age ~ sex", "age ~ sex", "--compare"), "every term"),
        (("crosstab(sex)", "--format", "word"), "format"),
        (("crosstab(sex)", "--event", "F"), "go with a formula"),
        (("age ~ sex", "--check", "--format", "csv"), "--format"),
    ],
)
def test_what_does_not_go_together(released, run, arguments, says):
    result = run("infer release", *arguments, code=2)
    assert says in result.stderr
