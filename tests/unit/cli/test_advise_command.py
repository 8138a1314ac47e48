"""``understudy advise``: public facts in, advice out."""

from __future__ import annotations

import json

ASK = ("--epsilon", "1,4", "--method", "histogram", "--repeats", "3")


def test_advice_for_people(folder, run):
    shown = run("advise", "proportion(sex == 'F')", "--schema", "people.toml", "--records", "200", *ASK).stdout
    assert "no data were used" in shown
    assert "What an attacker with every record but one gets" in shown
    assert "to 1" in shown


def test_advice_as_json_with_a_figure(folder, run):
    result = run(
        "advise", "proportion(sex == 'F')", "--schema", "people.toml", "--records", "200", *ASK, "--json",
        "--plot", "advice.svg", "--guess", "sex=0.6,0.4",
    )  # fmt: skip
    advice = json.loads(result.stdout)
    assert advice["audience"] == "public"
    assert [row["epsilon"] for row in advice["table"]] == [1.0, 4.0]
    assert advice["table"][0]["odds"] > 2.7
    assert "shares of sex as guessed" in advice["population"]
    assert (folder / "advice.svg").read_text().startswith("<?xml")


def test_the_unit_may_have_several_rows_and_known_attributes(folder, run):
    result = run(
        "advise", "proportion(sex == 'F')", "--schema", "people.toml", "--records", "200", *ASK, "--json",
        "--rows-per-unit", "2", "--fixed", "sex",
    )  # fmt: skip
    advice = json.loads(result.stdout)
    assert (advice["rows_per_unit"], advice["fixed"]) == (2, ["sex"])


def test_bad_input_is_refused(refused):
    start = ("--schema", "people.toml")
    refused("advise", "proportion(sex == 'F')", *start, "--records", "0", code=2, says="records")
    refused("advise", "nonsense", *start, "--records", "10", code=2, says="not a question")
    refused("advise", "mean(age)", *start, "--records", "10", "--guess", "sex", code=2, says="must look like")
    refused("advise", "mean(age)", *start, "--records", "10", "--epsilon", ",", code=2, says="numbers such as")
    refused("advise", "mean(age)", *start, "--records", "10", "--copies", "one", code=2, says="whole numbers")
    refused("advise", "mean(age)", *start, "--records", "10", "--fixed", "nose", code=2, says="nose")
    refused("advise", "mean(age)", *start, "--records", "10", "--rows-per-unit", "0", code=2, says="rows_per_unit")
    refused("advise", "mean(age)", *start, "--records", "10", "--on", "nowhere.csv", code=2, says="nowhere.csv")


def test_how_exact_an_answer_shall_be(folder, run, refused):
    asked = "--schema people.toml --records 2000 --method independent --epsilon 1 --repeats 2"
    shown = json.loads(run(f"advise {asked} --json --for", "proportion(sex == 'F') within 10%").stdout)
    assert shown["within"] == 0.1
    assert shown["question"] == "proportion(sex == 'F')"
    refused(f"advise {asked}", says="one of them")
    refused(f"advise {asked} --for mean(age)", says="how exact")
    refused(f"advise mean(age) {asked} --for", "mean(age) within 3%", says="one of them")
