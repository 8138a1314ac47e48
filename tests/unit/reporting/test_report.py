"""The report: what it says, what it refuses, and that no value in it can become markup."""

from __future__ import annotations

import base64
import json
import math
import re
from dataclasses import replace
from fractions import Fraction
from html import escape

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.core.places import make_places
from understudy.core.result import Evaluation, Finding, Section
from understudy.errors import DisclosureError, InputError, UnknownNameError
from understudy.privacy.promise.accountant import compose, satisfies
from understudy.reporting.build import build_report, pyramid, summary_of
from understudy.reporting.deployments_registry import TO_FILL_IN, registry_fields
from understudy.reporting.judgement import judgement_of
from understudy.reporting.promise_in_words import beliefs_of, exact_lines, label_of, limits_of, odds_of, profile_of
from understudy.reporting.sections import grid, shown_value

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
NASTY = "<script>alert(1)</script>"
SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="a & b", levels=("no", NASTY), label='"><img src=x onerror=alert(2)>'),
        us.Attribute(name="age", edges=(0, 40, 90), integer=True),
    )
)
PURE = us.PureDP(epsilon=1)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(1)
    table = pa.table(
        {
            "sex": rng.choice(["F", "M"], 300),
            "a & b": rng.choice(["no", NASTY], 300),
            "age": rng.integers(0, 90, 300),
        }
    )
    return us.open_source(table, SCHEMA)


def made(people, method="histogram", budget=PURE, **more):
    return us.synthesize(people, method=method, budget=budget, **more)


@pytest.fixture(scope="module")
def release(people):
    return made(people)


@pytest.fixture(scope="module")
def evaluation(people, release):
    return us.evaluate(release, people, ways=(1, 2))


KINDS = [
    ("histogram", PURE, {}),
    ("histogram", us.ZCDP(rho="0.1"), {"unit": "add_remove"}),
    ("ipf", us.ApproxDP(epsilon=1, delta="1e-6"), {"copies": 2}),
    ("mst", us.ZCDP(rho="0.1"), {}),
    ("dirichlet", us.PureDP(epsilon=20), {"copies": 2}),
    ("dirichlet", us.PureDP(epsilon=20), {"unit": us.Unit(kind="replace", fixed=("sex",))}),
    ("reverse_mapped", us.NonPrivate(), {}),
]


@pytest.mark.parametrize(
    ("method", "budget", "more"), KINDS, ids=[f"{m}-{b.name}-{n}" for n, (m, b, _) in enumerate(KINDS)]
)
def test_every_kind_of_release_has_a_public_report(people, tmp_path, method, budget, more):
    made_now = made(people, method, budget, **more)
    page = us.report(made_now, audience="public", to=tmp_path / "report.html").read_text()
    assert str(made_now.statement.guarantee).split(" (")[0] in page
    assert "INTERNAL" not in page
    fields = json.loads((tmp_path / "report-registry.json").read_text())
    assert (fields["status"], fields["tier"]) == ("Draft", 3)
    deployment = fields["deployment"]
    assert deployment["privacy_loss"]["privacy_parameters"] == {
        name: float(getattr(budget, name)) for name in budget.parameters
    }
    downloads = re.findall(r'href="data:text/csv;base64,([^"]+)"', page)
    assert downloads
    assert all(base64.b64decode(one).decode() for one in downloads)


def test_an_outside_table_has_a_report_that_promises_nothing(tmp_path):
    table = us.wrap(pa.table({"sex": ["F"], "a & b": ["no"], "age": [3]}), SCHEMA)
    page = us.report(table, audience="public", to=tmp_path / "r.html").read_text()
    assert "No guarantee" in page
    assert "nothing claimed" in page
    assert "Not made by understudy" in page
    assert "No row is a person" not in page  # nobody knows that


def test_nothing_is_said_of_tables_that_somebody_else_made():
    subject = summary_of(us.wrap(pa.table({"sex": ["F"], "a & b": ["no"], "age": [3]}), SCHEMA))
    for evaluated in (False, True):
        blocks = pyramid(subject, evaluated=evaluated)
        assert not any(block.status == "claimed" for block in blocks)
        told = " ".join(f"{block.claim} {block.evidence}" for block in blocks)
        assert "OpenDP" not in told
        assert "plan" not in told
        assert ("were measured" in told) == evaluated
    record = json.dumps(registry_fields(subject))
    assert "OpenDP" not in record
    assert "Central" not in record
    assert [name for name, _ in exact_lines(subject)] == ["Guarantee", "Composed from", "Privacy account"]


def test_an_epsilon_whose_exponential_is_no_double_promises_nothing(people):
    subject = summary_of(made(people, budget=us.PureDP(epsilon=400), unit="add_remove", rows=20))
    assert "at most any factor" in " ".join(label_of(subject).learned)  # e^800 between two values
    assert math.isinf(odds_of(us.PureDP(epsilon=800)).factor)
    assert odds_of(us.PureDP(epsilon=800)).belief(0.01) == 1
    assert len({row["epsilon"] for row in profile_of(summary_of(made(people, budget=us.PureDP(epsilon="1e-6"))))}) == 61


def test_values_stay_text(release, evaluation):
    page = build_report(release, evaluation).html
    assert NASTY not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "<img src=x" not in page
    assert len(re.findall("<script>", page)) == 1


def test_an_internal_report_says_so_and_stays_outside(release, evaluation, people, tmp_path):
    page = us.report(release, evaluation, to=tmp_path / "board.html").read_text()
    assert page.count("INTERNAL") >= 3
    assert not (tmp_path / "board-registry.json").exists()
    for heading in ("Utility: what", "Risk: what", "Every pair of attributes", "Attacks: success"):
        assert heading in page
    for in_short in ("tables of two attributes", "What the release does to 1,000 people", "Told something false"):
        assert in_short in page
    made(people, out=tmp_path / "release")
    with pytest.raises(DisclosureError, match="release folder"):
        us.report(release, evaluation, to=tmp_path / "release" / "board.html")
    with pytest.raises(InputError, match="sealed"):
        us.report(release, audience="public", to=tmp_path / "release" / "report.html")


def test_a_public_report_refuses_anything_internal(release, evaluation, tmp_path):
    frames = Evaluation(risk=Section(frames={"attacks": pa.table({"x": [1]})}))
    finding = Evaluation(utility=Section(findings=(Finding(code="u", title="a secret", value=1.0),)))
    for internal in (evaluation, frames, finding):
        with pytest.raises(DisclosureError):
            us.report(release, internal, audience="public", to=tmp_path / "r.html")
    assert not list(tmp_path.iterdir())
    public = Finding(code="u", title="a public fact", value=1.0, audience="public", severity="warning")
    page = us.report(
        release, Evaluation(utility=Section(findings=(public,))), audience="public", to=tmp_path / "r.html"
    ).read_text()
    assert "A public fact" in page


CRITERIA = {
    "epsilon_at_most": 1,
    "pairs_poor_percent_at_most": 100,
    "told_apart_percent_at_most": 50,
    "gain_per_1000_at_most": 1000,
    "told_false_per_1000_at_most": 1000,
}


def test_criteria_of_the_plan_are_judged_one_by_one(people, evaluation, tmp_path):
    plan = us.plan(SCHEMA, method="histogram", budget=PURE, criteria=CRITERIA)
    assert us.read_plan(write(tmp_path / "plan.toml", us.write_plan(plan))) == plan
    release = us.synthesize(people, plan=plan, out=tmp_path / "release")
    assert us.read_release(tmp_path / "release").provenance.plan.criteria == CRITERIA
    judged = judgement_of(summary_of(release), evaluation)
    told = 100 * next(
        row["auc"] for row in evaluation.utility.frames["propensity"].to_pylist() if row["classifier"] == "boosting"
    )
    expected = ["met", "met", "met" if told <= 50 else "not met", "met", "met"]
    assert [one.status for one in judged.criteria] == expected
    assert judged.headline.startswith("Not fit" if "not met" in expected else "Fit for release: all 5")
    outside = judgement_of(summary_of(release), None)  # nothing of the data is in a public report
    assert [one.status for one in outside.criteria] == ["met", *["judged in the internal report"] * 4]
    assert "Not fit" not in outside.headline
    stricter = replace(plan, criteria={"epsilon_at_most": 0.5})
    assert stricter.hash != plan.hash
    judged = judgement_of(summary_of(us.synthesize(people, plan=stricter)), evaluation)
    assert (judged.headline, judged.tone) == ("Not fit for release: 1 of 1 criteria not met.", "problem")


def write(path, text):
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("criteria", "message"),
    [
        ({"epsilon": 1}, "epsilon"),
        ({"epsilon_at_most": "1"}, "number"),
        ({"gain_per_1000_at_most": 1001}, "1000"),
        (5, "table"),
    ],
)
def test_criteria_that_cannot_be(criteria, message, tmp_path):
    with pytest.raises((InputError, UnknownNameError), match=message):
        us.plan(SCHEMA, budget=PURE, criteria=criteria)
    plan = us.write_plan(us.plan(SCHEMA, budget=PURE, criteria={"epsilon_at_most": 1}))
    with pytest.raises(InputError, match="changed after"):
        us.read_plan(write(tmp_path / "plan.toml", plan.replace("epsilon_at_most = 1.0", "epsilon_at_most = 2.0")))


def test_without_criteria_the_question_stays_open(release, evaluation):
    judged = judgement_of(summary_of(release), evaluation)
    assert "No criteria were written beforehand" in judged.headline
    assert [card.title for card in judged.cards] == ["The promise", "Usefulness", "Risk"]
    assert judged.cards[0].number == "× 2.72"
    row = next(one for one in evaluation.utility.frames["ways"].to_pylist() if one["way"] == 2)
    assert judged.cards[1].number == f"{row['good']} of {row['tables']}"


def test_the_card_of_risk_tells_of_the_attack_of_the_first_sentence(release, evaluation):
    """It took another attack's limit: "allows 0 more" above "allows at most 254 more"."""
    rows = [
        {
            "subject": "everybody",
            "gain": 0.001,
            "gain_low": -0.01,
            "gain_high": 0.02,
            "most_allowed": 0.0,
            "light": "green",
        },
        {
            "subject": "smokes",
            "gain": 0.007,
            "gain_low": -0.03,
            "gain_high": 0.04,
            "most_allowed": 0.25,
            "light": "green",
        },
        {
            "subject": "invented people",
            "gain": 0.5,
            "gain_low": 0.4,
            "gain_high": 0.6,
            "most_allowed": 0.9,
            "light": "red",
        },
    ]
    rows = [{**row, "people": 300, "times": 12} for row in rows]
    frames = {**evaluation.risk.frames, "person_part": pa.Table.from_pylist(rows)}
    first = evaluation.risk.frames["first_screen"].to_pylist()
    first[0]["of_1000"] = 7
    frames["first_screen"] = pa.Table.from_pylist(first)
    shown = replace(evaluation, risk=replace(evaluation.risk, frames=frames))
    card = judgement_of(summary_of(release), shown).cards[2]
    assert "allows 250 more at most" in card.sentence
    assert card.tone == "problem"  # a red light anywhere is not hidden
    assert (card.unit, "No attack gains for certain." in card.sentence) == ("of 1,000 people, perhaps by chance", True)
    rows[1]["gain_low"] = 0.001
    frames["person_part"] = pa.Table.from_pylist(rows)
    card = judgement_of(summary_of(release), replace(evaluation, risk=replace(evaluation.risk, frames=frames))).cards[2]
    assert (card.unit, "No attack" in card.sentence) == ("of 1,000 people, because they took part", False)


@pytest.mark.parametrize("epsilon", [0.3, 1, 2.5])
def test_the_card_and_the_text_beside_it_state_one_limit_and_never_a_lower_one(people, epsilon):
    subject = summary_of(made(people, budget=us.PureDP(epsilon=str(epsilon))))
    limit = 1000 / (1 + math.exp(-epsilon))
    card = int(judgement_of(subject, None).cards[2].number)
    (text,) = re.findall(r"right one at most ([\d.]+) in 100", " ".join(label_of(subject).learned))
    assert card == round(10 * float(text))
    assert limit <= card < limit + 1


def test_every_attack_has_a_line_with_its_light_before_the_details(release, evaluation):
    """A board reads it without opening anything; the names of the literature stay in the details."""
    page = build_report(release, evaluation).html
    top = page.partition('aria-label="Details"')[0]
    for row in evaluation.risk.frames["in_everyday_words"].to_pylist():
        words = escape(row["attack"]).replace("&#x27;", "&#39;")
        line = re.search(rf"<tr>(?:(?!</tr>).)*{re.escape(words)}.*?</tr>", top, re.DOTALL)
        assert line is not None
        assert f">{row['light']}<" in line[0]
        assert row["name"] not in line[0]
        numbers = re.findall(r'class="number">([\d,]*)<', line[0])
        assert numbers[0] == shown_value(row["in_the_data"])
        assert numbers[4] == shown_value(row["told_false"])
        if row["more"] is not None and row["more"] >= 0:
            assert int(numbers[0].replace(",", "")) - int(numbers[1].replace(",", "")) == int(numbers[2])
    for term in ("TCAP", "DiSCO", "repU", "residual", "S_pMSE", "singling out"):
        assert term not in top.partition('id="people"')[2].partition("</section>")[0]


def test_what_was_said_at_the_top_is_not_said_again(release):
    warned = tuple(
        Finding(code=f"u{n}", title=f"warning number {n} of them", value=None, severity="warning") for n in range(7)
    )
    page = build_report(release, Evaluation(utility=Section(findings=warned))).html
    assert [page.lower().count(f"warning number {n} of them") for n in range(7)] == [1] * 7
    assert "2 more of the evaluation" in page


def test_the_plan_is_shown_in_full_also_where_tables_are_chosen_on_the_way(people):
    chosen = made(people, "aim", us.ApproxDP(epsilon=1, delta="1e-6"))
    page = build_report(chosen, audience="public").html
    assert "the most the run was allowed to do" in page
    assert "What was measured, table by table" in page
    for step in chosen.provenance.plan.steps:
        assert step.label.replace("&", "&amp;") in page
    assert "mu^2" not in page.partition('aria-label="Details"')[0]


def test_answers_are_shown(release, tmp_path):
    answer = us.infer(release, "proportion(sex == 'F')")
    page = us.report(release, answer, audience="public", to=tmp_path / "r.html").read_text()
    assert "proportion(sex == &#39;F&#39;)" in page
    assert answer.information_text() in page


def test_bad_input(release, evaluation, tmp_path):
    with pytest.raises(InputError, match="audience"):
        us.report(release, audience="everybody", to=tmp_path / "r.html")
    with pytest.raises(InputError, match="evaluation"):
        us.report(release, evaluation, evaluation, to=tmp_path / "r.html")
    with pytest.raises(InputError, match="evaluation"):
        us.report(release, "text", to=tmp_path / "r.html")
    with pytest.raises(InputError, match="release"):
        us.report("release", to=tmp_path / "r.html")
    with pytest.raises(InputError, match="html"):
        us.report(release, to=tmp_path / "r.pdf")
    with pytest.raises(InputError, match="folder"):
        us.report(release, to=tmp_path / "nowhere" / "r.html")


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 12.0])
def test_odds_are_bayes(epsilon):
    odds = odds_of(us.PureDP(epsilon=epsilon))
    for prior in (0.001, 0.3, 0.9):
        before, after = prior / (1 - prior), odds.belief(prior) / (1 - odds.belief(prior))
        assert after / before == pytest.approx(math.exp(epsilon))
    assert odds_of(us.NonPrivate()).belief(0.01) == 1


def test_the_profile_is_what_the_events_prove(people):
    """At every epsilon the accountant agrees that the delta shown is enough, and a little less is not."""
    budgets = (PURE, us.ZCDP(rho="0.1"), us.ApproxDP(epsilon=1, delta="1e-4"))
    for budget in budgets:
        one = made(people, "ipf", budget)
        loss = compose(one.provenance.events, one.statement.unit, by=one.provenance.by)
        points = profile_of(summary_of(one))
        deltas = [point["delta"] for point in points]
        assert deltas == sorted(deltas, reverse=True)
        for point in points[5::9]:
            if not 1e-9 < point["delta"] < 0.2 or budget is PURE:
                continue
            enough = us.ApproxDP(epsilon=Fraction(point["epsilon"]), delta=Fraction(point["delta"] * 1.001))
            short = us.ApproxDP(epsilon=Fraction(point["epsilon"]), delta=Fraction(point["delta"] * 0.9))
            assert satisfies(loss, enough)
            assert not satisfies(loss, short)
    pure = profile_of(summary_of(made(people, "ipf", PURE)))
    assert 0.3 < pure[0]["delta"] <= math.tanh(0.5)  # the advantage of randomised response, the worst there is
    assert all(point["delta"] == 0 for point in pure if point["epsilon"] >= 1)
    assert profile_of(summary_of(made(people, "reverse_mapped", us.NonPrivate()))) == []


@pytest.mark.parametrize("method", ["aim", "mst"])
@pytest.mark.parametrize(
    "budget", [us.ApproxDP(epsilon=1, delta="1e-6"), us.ZCDP(rho="0.1"), PURE], ids=["approx", "zcdp", "pure"]
)
def test_the_profile_of_a_run_that_chooses_is_that_of_its_budget(people, method, budget):
    """Had it stopped earlier, its answers would have told it to: that proves nothing better."""
    one = made(people, method, budget)
    fewer = replace(one, provenance=replace(one.provenance, events=one.provenance.events[:1]))
    whole, early = profile_of(summary_of(one)), profile_of(summary_of(fewer))
    assert [point["delta"] for point in early] == pytest.approx([point["delta"] for point in whole], rel=1e-6)
    if budget.name == "approx" and method == "aim":  # mst adds up epsilons for so few attributes
        at_budget = next(point["delta"] for point in whole if point["epsilon"] >= 1)
        assert 1e-7 < at_budget <= 1.001e-6


def test_the_label_changes_with_the_promise(people):
    strong, weak, none = (
        label_of(summary_of(made(people, method, budget)))
        for method, budget in (
            ("histogram", PURE), ("histogram", us.PureDP(epsilon=6)), ("reverse_mapped", us.NonPrivate()),
        )
    )  # fmt: skip
    assert (strong.tone, weak.tone, none.tone) == ("good", "warning", "problem")
    assert "2.72 to 1" in strong.learned[0]
    assert none.protected.startswith("Nobody")
    added = label_of(summary_of(made(people, budget=PURE, unit="add_remove")))
    assert any("7.39" in line for line in added.learned)  # a value is one person less and another more
    fixed = label_of(summary_of(made(people, "ipf", PURE, unit=us.Unit(kind="replace", fixed=("sex",)))))
    assert "sex" in fixed.not_protected[0]


def test_warnings_come_first(release, people):
    limits = limits_of(summary_of(made(people, "reverse_mapped", us.NonPrivate())))
    assert limits[0][0] == "problem"
    assert any("not tracked" in text for _, text in limits_of(summary_of(release)))
    assert [row["before"] for row in beliefs_of(summary_of(release))] == sorted(
        row["before"] for row in beliefs_of(summary_of(release))
    )


def test_every_level_of_the_pyramid_says_something(release, people):
    for one in (release, made(people, "reverse_mapped", us.NonPrivate())):
        levels = pyramid(summary_of(one), evaluated=False)
        assert [level.name for level in levels] == [
            "ε and the other privacy parameters", "Unit of privacy", "Utility", "Bias", "Algorithms and correctness",
            "Query model", "Threat model", "Side channels", "Security", "Access control", "Data collection exposure",
        ]  # fmt: skip
        assert all(level.claim and level.evidence for level in levels)
        assert levels[-1].status.startswith("for the agency")
    fields = registry_fields(summary_of(release))
    assert fields["deployment"]["basic"]["intended_use"] == TO_FILL_IN
    assert fields["deployment"]["deployment_model"]["model_name"] == "Central"


def test_tables_are_safe_to_open():
    one = grid("t", "t", [{"name": "=1+1", "value": 1.5}, {"name": "b", "value": None}])
    text = base64.b64decode(one.csv.split(",")[1]).decode()
    assert "'=1+1" in text
    assert one.right == (False, True)
    assert [shown_value(v) for v in (None, True, math.inf, math.nan, 0.123456, 12345.0, 1234, ("a", 1))] == [
        "", "yes", "∞", "", "0.1235", "12,345", "1,234", "a, 1",
    ]  # fmt: skip
    few = grid("t", "t", [{"a": 1, "b": 2, "c": 3}], chosen=("c", "a", "z"))
    assert (few.columns, few.rows) == (("c", "a"), (("3", "1"),))
    assert few.note == "The download has all 3 columns."
    assert base64.b64decode(few.csv.split(",")[1]).decode().split() == ["a,b,c", "1,2,3"]
    assert grid("t", "t", ({"x": n} for n in range(7000))).note.startswith("The download has the first 5,000")


def test_commutes_have_a_shorter_report(tmp_path):
    number = np.arange(12)
    places = make_places([f"p{n:02d}" for n in number], 41 + 0.03 * (number // 4), -71 + 0.05 * (number % 4))
    trips = pa.table({"origin": ["p01", "p05"], "destination": ["p03", "p03"], "jobs": [30, 10]})
    source = us.open_commutes(trips, places=places)
    commutes = us.synthesize(source, method="commute", budget=us.PureDP(epsilon=8))
    page = us.report(commutes, audience="public", to=tmp_path / "commutes.html").read_text()
    assert "Synthetic commutes between 12 places" in page
    assert "Questions are not asked" in page
    assert json.loads((tmp_path / "commutes-registry.json").read_text())["deployment"]["dp_variant"][
        "data_domain"
    ].endswith("144 cells in all.")
    assert us.report_release(commutes, to=tmp_path / "again.html").read_text().count("Synthetic commutes") > 0
    with pytest.raises(InputError, match="only tables are compared and asked"):
        us.report_release(commutes, to=tmp_path / "no.html", confidential=source)
    with pytest.raises(InputError, match="only tables are compared and asked"):
        us.report_release(commutes, to=tmp_path / "no.html", questions=["count()"])
    (advice,) = us.plan_advice(commutes.provenance.plan, places)
    assert "jobs at every workplace is published as it is" in advice
    judged = us.evaluate(commutes, source)
    assert us.compare_evaluations([("one", commutes, judged), ("two", commutes, judged)]) == {}


@pytest.mark.full
def test_a_wide_release_makes_a_file_that_can_be_mailed(tmp_path):
    """24 attributes: well below 5 MB, every table and picture in it."""
    schema = us.Schema(
        attributes=tuple(us.Attribute(name=f"question {n}", levels=("a", "b", "c", "d")) for n in range(24))
    )
    rng = np.random.default_rng(2)
    table = pa.table({name: rng.choice(["a", "b", "c", "d"], 200) for name in schema.names})
    source = us.open_source(table, schema)
    wide = us.synthesize(source, method="independent", budget=PURE)
    found = us.evaluate(wide, source, ways=(1, 2), parts=("utility",))
    path = us.report(wide, found, to=tmp_path / "wide.html")
    assert path.stat().st_size < 5_000_000
