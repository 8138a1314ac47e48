"""Release and fresh measurement together: less noise than either, checked by verify, and paid for by the account."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import understudy as us
from understudy.core.measurement import Measurement
from understudy.demo.people import make_people, small_schema
from understudy.errors import InputError, UnsupportedError
from understudy.inference.ask import ask
from understudy.inference.evidence import gather
from understudy.privacy.gate.measurement_steps import query_of
from understudy.privacy.randomness.streams import SeededStream
from understudy.release.growing import add_measurement
from understudy.serving.asking import Asked, width_of
from understudy.serving.pricing import confirmation_plan, price

BLOCK = {"account": "people", "run": "r", "head": "h", "sequence": 2}
MARGIN = ("sex", "smokes")


def release_of(rho: str, method: str = "ipf", **options: object) -> us.Release:
    people = us.open_source(make_people(3000).select(list(small_schema().names)), small_schema())
    return us.synthesize(people, method=method, budget=us.ZCDP(rho=rho), stream=SeededStream(1), **options)


@pytest.fixture(scope="module")
def measured() -> us.Release:
    """One noisy table of sex and smokes, and others that say nothing about them together."""
    made = release_of("0.001", margins="sex+smokes, region, age, education")
    plan = replace(made.provenance.plan, budget=us.ZCDP(rho="0.001"))
    return replace(
        made,
        statement=replace(made.statement, guarantee=us.ZCDP(rho="0.001")),
        provenance=replace(made.provenance, plan=plan),
    )


def again(release: us.Release, number: int, times: int = 1) -> us.Release:
    """The release with its table measured once more with the same noise."""
    first = next(one for one in release.measurements if one.margin == MARGIN)
    for turn in range(times):
        plan = confirmation_plan(
            release.schema, release.statement.unit, MARGIN, Fraction(1, 1000), label=f"confirmation {number} {turn}"
        )
        plan = replace(plan, steps=(replace(plan.steps[0], event=release.provenance.events[0]),))
        noise = first.mechanism.run(np.zeros(first.values.shape, np.int64), SeededStream(100 * number + turn))
        true = us.open_source(make_people(3000).select(list(small_schema().names)), small_schema()).count([MARGIN])[0]
        table = Measurement(
            margin=MARGIN, values=true.values + noise, mechanism=first.mechanism, label=plan.steps[0].label
        )
        release = add_measurement(release, table, plan=plan, ledger=BLOCK)
    return release


def test_the_noise_of_two_equal_tables_is_at_most_052_of_one(measured):
    """Numbers of records have no sampling error: what is left of their variance is the privacy noise."""
    question = "count(smokes == 'yes', where=sex == 'F')"
    rng = np.random.default_rng(0)
    one = ask(measured, question, draws=20_000, rng=rng).standard_errors[0]
    answer = ask(again(measured, 1), question, draws=20_000, rng=rng, use="confirmed")
    assert answer.labels == ("valid",)
    own, seen = answer.parts[0]
    assert (own**2 + seen**2) / one**2 <= 0.52
    assert (own**2 + seen**2) / one**2 >= 0.45  # the noise of the second table is not forgotten
    assert own == pytest.approx(seen, rel=0.02)  # one of two equal noises was seen before
    together = ask(again(measured, 1), question, draws=20_000, rng=rng, use="together").standard_errors[0]
    assert np.hypot(own, seen) == pytest.approx(together, rel=0.03)


def test_the_exact_posterior_joins_tables_too(measured):
    from understudy.core.questions import parse_question
    from understudy.inference.estimands import make_estimand

    rng = np.random.default_rng(0)
    estimand = make_estimand(parse_question("count(smokes == 'yes')", measured.schema), measured.schema)
    spread = [
        float(estimand.evaluate(gather(one, estimand).draws(6000, rng).counts.astype(float)).std())
        for one in (measured, again(measured, 2), again(measured, 2, times=3))
    ]
    assert (spread[1] / spread[0]) ** 2 <= 0.54
    assert (spread[2] / spread[0]) ** 2 <= 0.29
    assert "discrete_gaussian" in gather(again(measured, 2), estimand).method


def test_a_grown_release_verifies_and_says_the_sum(measured, tmp_path):
    grown = again(measured, 3)
    assert grown.statement.guarantee == us.ZCDP(rho="0.002")
    folder = grown.write(tmp_path / "grown")
    checks = {check.name: check for check in us.verify(folder)}
    assert checks["guarantee"].passed, checks["guarantee"].detail
    assert checks["measurements"].passed
    assert us.read_release(folder).provenance.added == grown.provenance.added


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda m: m["guarantee"].update(rho="0.001"), "guarantee zero-concentrated"),
        (lambda m: m["added"][0]["plan"]["budget"].update(rho="0.0001"), "costs more than its plan"),
        (lambda m: m["added"].clear(), "not those the plan announces"),
        (lambda m: m["added"][0]["plan"].update(schema_fingerprint="0"), "another schema"),
    ],
)
def test_a_false_addition_is_found(measured, tmp_path, change, says):
    folder = again(measured, 4).write(tmp_path / "grown")
    file = folder / "manifest.json"
    manifest = json.loads(file.read_text())
    change(manifest)
    file.write_text(json.dumps(manifest))
    wrong = [check.detail for check in us.verify(folder) if not check.passed]
    assert any(says in detail for detail in wrong), wrong


def test_what_cannot_be_joined_is_refused():
    people = us.open_source(make_people(500).select(list(small_schema().names)), small_schema())
    for budget, method in ((us.ApproxDP(epsilon=1, delta="1e-9"), "independent"), (us.PureDP(epsilon=5), "dirichlet")):
        release = us.synthesize(people, method=method, budget=budget, stream=SeededStream(0))
        plan = confirmation_plan(release.schema, release.statement.unit, MARGIN, Fraction(1, 100), label="x")
        table = Measurement(
            margin=MARGIN, values=np.zeros((2, 3), np.int64), mechanism=query_of(plan.steps[0]).mechanism
        )
        with pytest.raises(InputError):
            add_measurement(release, table, plan=plan, ledger=BLOCK)


def test_a_narrower_interval_costs_more_and_the_width_comes_true(served):
    release, asked = served.release, Asked(question="proportion(smokes == 'yes', where=sex == 'F')")
    wide, narrow = (price(release, asked, width, most=Fraction(2, 5)) for width in (0.3, 0.15))
    assert 0 < wide.rho < narrow.rho
    assert narrow.margin == MARGIN
    for one in (wide, narrow):
        plan = confirmation_plan(release.schema, release.statement.unit, one.margin, one.rho, label="x")
        true = us.open_source(str(served.folder / "people.parquet"), release.schema).count([one.margin])[0].values
        mechanism = query_of(plan.steps[0]).mechanism
        table = Measurement(
            margin=one.margin, values=mechanism.run(true, SeededStream(5)), mechanism=mechanism, label="x"
        )
        found = asked.answered(add_measurement(release, table, plan=plan, ledger=BLOCK), use="newest")
        assert found.labels == ("valid",)
        assert 0.75 * one.width < width_of(found) < 1.1 * one.width


def test_prices_are_free_where_the_release_knows_and_refused_where_nothing_helps(served):
    release = served.release
    sex = Asked(question="proportion(sex == 'F')")
    assert price(release, sex, 0.5, most=Fraction(2, 5)).free
    with pytest.raises(UnsupportedError, match="cannot be had"):
        price(release, sex, 1e-5, most=Fraction(2, 5))
    with pytest.raises(UnsupportedError, match="nothing is left"):
        price(release, sex, 0.01, most=Fraction(0))


def test_everything_that_all_answers_reveal_together_stays_inside_the_account():
    """An exact audit of a small case: two analysts who collude, the second question and its price chosen by the answer
    to the first. Over every pair of answers, the Renyi divergence between neighbours is at most alpha times what the
    account was charged in the worst case; and it is not far below, so the charge is not idle."""
    schema = us.Schema(
        attributes=(us.Attribute(name="a", levels=("0", "1")), us.Attribute(name="b", levels=("0", "1")))
    )
    unit = us.Unit()
    first = Fraction("0.3")
    dearest = Fraction("0.5")

    def law(margin, rho, counts):
        """Log probabilities of all noisy tables on a grid that holds all but a negligible part."""
        step = confirmation_plan(schema, unit, margin, rho, label="x").steps[0]
        mechanism = query_of(step).mechanism
        reach = np.arange(-22, 26)
        one = mechanism.log_pmf(reach[:, None], np.array(counts)[None, :])
        return one[:, 0][:, None] + one[:, 1][None, :]

    # Neighbours under replace: one person of three moves from a = 0, b = 0 to a = 1, b = 1.
    tables = ({"a": (2, 1), "b": (2, 1)}, {"a": (1, 2), "b": (1, 2)})
    opening = [law(("a",), first, one["a"]) for one in tables]
    later = {}
    for name, rho in (("a", dearest), ("b", Fraction("0.2"))):
        later[name] = [law((name,), rho, one[name]) for one in tables]

    def divergence(p, q, alpha):
        return np.log(np.exp(alpha * p + (1 - alpha) * q).sum()) / (alpha - 1)

    for alpha in (1.5, 2.0, 4.0):
        # The second question depends on the first answer: dear and about a, or cheap and about b.
        inside = {name: divergence(*later[name], alpha) for name in later}
        dear = (np.indices(opening[0].shape).sum(axis=0) % 3) > 0
        weights = np.where(dear, inside["a"], inside["b"]) * (alpha - 1)
        together = np.log(np.exp(alpha * opening[0] + (1 - alpha) * opening[1] + weights).sum()) / (alpha - 1)
        charged = float(first + dearest)
        assert together <= alpha * charged * (1 + 1e-9)
        assert together >= 0.5 * alpha * charged
        # With a fifth of the charge the audit would fail: the test can fail.
        assert together > alpha * charged / 5


@pytest.mark.parametrize("share", [0.0, 0.6, 1.0])
def test_verdicts_of_the_most_daring_of_twenty_claims_are_wrong_as_rarely_as_they_say(share):
    """Twenty quantities that are all the margin below what is claimed of them; the claim is about the one that looked
    largest. ``share`` of the error's variance could be seen. The stated probability is that of this choice."""
    from understudy.core.result import Estimate
    from understudy.inference.answer import Answer
    from understudy.serving.asking import verdict

    asked = Asked(question="proportion(sex == 'F')", at_least=0.5, margin=0.04)
    own, seen = 0.02 * (1 - share) ** 0.5, 0.02 * share**0.5
    rng, runs = np.random.default_rng(0), 3000
    looked = seen * rng.standard_normal((runs, 20)).max(axis=1)
    wrong = 0
    for value in 0.46 + looked + own * rng.standard_normal(runs):
        estimate = Estimate(value=value, low=value, high=value, level=0.95, method="")
        answer = Answer(question="", kind="proportion", names=("p",), estimates=(estimate,), standard_errors=(0.02,),
                        information=(None,), records=None, method="", labels=("valid",),
                        parts=((own, seen),))  # fmt: skip
        found = verdict(asked, answer)
        wrong += found["holds"]
    stated = found["wrong_at_most"]
    assert wrong / runs <= stated + 5 * (stated / runs) ** 0.5
    assert wrong / runs >= 0.6 * stated  # it is not far from that of the worst choice
    weak = replace(answer, labels=("model-based",))
    assert verdict(asked, weak)["holds"] is None
    free = replace(answer, parts=())  # the answer of the release itself: the claim was chosen by it
    assert verdict(asked, free)["wrong_at_most"] >= stated - 1e-9
    far = replace(asked, margin=0.5)  # so far out nobody knows that errors are normal
    assert verdict(far, answer)["wrong_at_most"] == 1e-4


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 1.0])
def test_the_width_that_a_claim_needs_makes_wrong_verdicts_rare(share):
    from understudy.inference.joined_tables import half_width, wrong_side

    asked = Asked(question="proportion(sex == 'F')", at_least=0.5, margin=0.04)
    own, seen = (1 - share) ** 0.5, share**0.5
    half = float(half_width(np.array([own]), np.array([seen]), 0.95)[0])
    scale = asked.verified_width / (2 * half)
    assert wrong_side(own * scale, seen * scale, asked.margin) <= 0.0501
