"""R says what Python says: to 1e-8 where there is a formula, up to the randomness of posterior draws otherwise."""

from __future__ import annotations

import hashlib
import json
import shutil

import numpy as np
import pytest

import understudy as us
from tests.r.asking import run_r
from understudy.core.questions import parse_question
from understudy.demo.people import make_people, small_schema
from understudy.inference.chosen_tables import Choice, measured_after_choosing, without_selection
from understudy.inference.estimands import make_estimand
from understudy.inference.exact import SumOfNoise, dirichlet_multinomial, noisy_table
from understudy.inference.noise_aware import group_matrix, local_model, raw_shares

pytestmark = [pytest.mark.r, pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")]
EXACT = 1e-8
SEEDS = 3
# Ends of intervals from 4,000 draws vary by about .04 standard errors from seed to seed, and those of the noisy values
# alone (300 pairs) by up to .08. Means of three seeds of each hardly ever differ by more than this.
MONTE_CARLO = 0.25
SHORT = (
    "proportion(sex == 'F', where=education == 'tertiary')",
    "mean(age)",
)
QUESTIONS = (
    *SHORT,
    "proportion(sex == 'F', by=education)",
    "mean(age, where=not sex == 'F')",
    "crosstab(sex, education, percent='column')",
    "difference(proportion(education == 'tertiary', where=sex == 'F'), proportion(education == 'tertiary', "
    "where=sex == 'M'))",
    "mean(age, where=sex == 'F') - mean(age, where=sex == 'M')",
    "proportion(30 <= age < 60)",
)


def people_of(*names: str) -> us.Schema:
    schema = small_schema()
    kept = tuple(one for one in schema.attributes if one.name in names)
    rules = tuple(one for one in schema.impossible if set(one.attributes) <= set(names))
    ignored = sorted(set(make_people(10).column_names) - set(names))
    return us.Schema(attributes=kept, impossible=rules, ignore=tuple(ignored))


THREE = ("sex", "age", "education")
KINDS = {
    "noisy": {"schema": people_of(*THREE), "method": "histogram", "budget": us.PureDP(epsilon=2)},
    "unknown size": {
        "schema": people_of(*THREE), "method": "histogram", "budget": us.ZCDP(rho="0.5"), "unit": "add_remove",
    },
    "much noise": {"schema": people_of(*THREE), "method": "histogram", "budget": us.PureDP(epsilon="0.1")},
    "several tables": {"schema": small_schema(), "method": "ipf", "budget": us.PureDP(epsilon=2)},
    "several, unknown size": {
        "schema": small_schema(), "method": "ipf", "budget": us.ZCDP(rho="0.1"), "unit": "add_remove",
    },
    "chosen tables": {
        "schema": small_schema(), "method": "one_look", "budget": us.ApproxDP(epsilon=4, delta=1e-9),
    },
    "chosen in turn": {
        "schema": small_schema(), "method": "aim", "budget": us.ApproxDP(epsilon=4, delta=1e-9),
    },
    "drawn": {"schema": people_of("sex", "education"), "method": "dirichlet", "budget": us.PureDP(epsilon=3)},
    "drawn in strata": {
        "schema": people_of("sex", "education"), "method": "dirichlet", "budget": us.PureDP(epsilon=3),
        "unit": us.Unit(kind="replace", fixed=("sex",)), "copies": 2,
    },
    "without noise": {
        "schema": people_of(*THREE), "method": "histogram", "budget": us.NonPrivate(), "copies": 3,
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def release_of(tmp_path_factory):
    made = {}

    def make(kind):
        if kind not in made:
            folder = tmp_path_factory.mktemp("release") / "release"
            us.synthesize(make_people(3000), **KINDS[kind]).write(folder)
            us.export(folder, to="r")
            made[kind] = folder
        return made[kind]

    return make


ASK = """
release <- suppressWarnings(read_release(given$folder))
found <- lapply(given$questions, function(question) lapply(given$seeds, function(seed) {
  set.seed(seed)
  answer <- infer(release, question)
  rows <- answer$estimates
  list(centre = I(rows$estimate), low = I(rows$low), high = I(rows$high), error = I(rows$standard_error),
       label = I(rows$label), name = I(rows$name), method = answer$method)
}))
"""


def ask_r(folder, questions, tmp_path, seeds=(1,)):
    return run_r(ASK, tmp_path, folder=f"{folder}-r", questions=list(questions), seeds=list(seeds))


def numbers(answer):
    ends = [[one.value for one in answer.estimates], [one.low for one in answer.estimates]]
    return np.array([*ends, [one.high for one in answer.estimates]])


def asked(kind):
    return [one for one in QUESTIONS if "age" not in one] if kind.startswith("drawn") else list(QUESTIONS)


def compare(folder, questions, tmp_path):
    """The largest difference of means over seeds, in standard errors, and the labels that never agree."""
    release = us.read_release(folder)
    worst, labels = 0.0, []
    for question, of_r in zip(questions, ask_r(folder, questions, tmp_path, range(1, SEEDS + 1)), strict=True):
        answers = [us.infer(release, question, rng=np.random.default_rng(seed)) for seed in range(SEEDS)]
        ours = np.mean([numbers(one) for one in answers], axis=0)
        theirs = np.mean([[one["centre"], one["low"], one["high"]] for one in of_r], axis=0)
        errors = np.mean([one.standard_errors for one in answers], axis=0)
        assert of_r[0]["name"] == list(answers[0].names), question
        kinds = {one.method.partition("(")[0] for one in answers}
        assert {one["method"].partition("(")[0] for one in of_r} <= kinds, question
        worst = max(worst, float((np.abs(ours - theirs) / np.maximum(errors, 1e-12)).max()))
        for place in range(len(answers[0].names)):
            possible = {one.labels[place] for one in answers}
            if not {one["label"][place] for one in of_r} & possible:
                labels.append((question, place, possible))
    return worst, labels


@pytest.mark.parametrize("kind", ["noisy"])
def test_answers_are_the_same_up_to_the_randomness_of_draws(kind, release_of, tmp_path):
    worst, labels = compare(release_of(kind), SHORT, tmp_path)
    assert worst < MONTE_CARLO
    assert labels == []


@pytest.mark.full
@pytest.mark.parametrize("kind", [one for one in KINDS if one not in ("without noise", "chosen tables", "much noise")])
def test_every_kind_of_release_and_question_has_the_same_answers(kind, release_of, tmp_path):
    worst, labels = compare(release_of(kind), asked(kind), tmp_path)
    assert worst < MONTE_CARLO
    assert labels == []


@pytest.mark.full
def test_answers_of_a_method_that_chooses_are_the_same(release_of, tmp_path):
    """About single attributes, whose tables it measures whatever it chooses; for others see the next test."""
    worst, labels = compare(release_of("chosen tables"), ["mean(age)", "proportion(sex == 'F')"], tmp_path)
    assert worst < MONTE_CARLO
    assert labels == []


CHOICE = """
release <- read_release(given$folder)
found <- lapply(given$questions, function(question) {
  estimand <- make_estimand(release, read_question(release, list(question = question)))
  shares <- seq_len(estimand$groups) / sum(seq_len(estimand$groups))
  tables <- function(kept) I(vapply(if (is.null(kept)) list() else kept, function(one) one$table, 0))
  sampling <- rep(0.01, length(estimand$names))
  spread <- seq(0.01, 0.03, length.out = length(estimand$names))
  list(moved = I(bias_of_choice(release, estimand, shares, 3000)), expected = expected_bias(release, estimand, 3000),
       room = I(room_of_choice(release, estimand, shares, 3000, sampling, spread, 2, 0.9)),
       likely = expected_room(release, estimand, 3000, 0.5, 2, 0.9),
       fixed = tables(fixed_tables(release, estimand)), later = tables(later_tables(release, estimand)))
})
"""


@pytest.mark.parametrize("kind", ["chosen tables", pytest.param("chosen in turn", marks=pytest.mark.full)])
def test_the_bias_that_a_choice_can_cause_is_equal(kind, release_of, tmp_path):
    folder = release_of(kind)
    release = us.read_release(folder)
    questions = ["proportion(sex == 'F', by=education)", "mean(age, where=smokes == 'yes')", "proportion(sex == 'F')"]
    numbered = {id(one): number for number, one in enumerate(release.measurements, start=1)}
    for question, of_r in zip(
        questions, run_r(CHOICE, tmp_path, folder=f"{folder}-r", questions=questions), strict=True
    ):
        estimand = make_estimand(parse_question(question, release.schema), release.schema)
        shares = np.arange(1, estimand.groups + 1) / np.arange(1, estimand.groups + 1).sum()
        choice = Choice(release=release)
        for one in ("moved", "expected"):  # an infinite number comes as null or as a text
            of_r[one] = np.nan_to_num(np.array(of_r[one], float), nan=np.inf)
        assert of_r["moved"] == pytest.approx(choice.exaggerated(estimand, shares, 3000.0), abs=EXACT)
        assert of_r["expected"] == pytest.approx(choice.expected(estimand, 3000.0), abs=EXACT)
        size = len(estimand.names)
        room = choice.room(
            estimand, shares, records=3000.0, sampling=np.full(size, 0.01), spread=np.linspace(0.01, 0.03, size),
            rows=2, level=0.9,
        )  # fmt: skip
        assert of_r["room"] == pytest.approx(room, abs=EXACT)
        likely = choice.expected_room(estimand, 3000.0, noise=0.5, rows=2, level=0.9)
        assert of_r["likely"] == pytest.approx(likely, abs=EXACT)
        for name, made in (("fixed", without_selection), ("later", measured_after_choosing)):
            ours = made(release, estimand)
            assert of_r[name] == ([] if ours is None else [numbered[id(one)] for one in ours.measurements])


@pytest.mark.full
@pytest.mark.parametrize("times", [0.7, 1.0, 1.4])
def test_another_scale_of_the_noise_would_be_seen(times, release_of, tmp_path):
    """Where noise is most of the error; with the right scale the answers are the same there, too."""
    folder = release_of("much noise")
    moved = tmp_path / "moved"
    shutil.copytree(folder, moved)
    shutil.copytree(f"{folder}-r", f"{moved}-r")
    index = tmp_path / "moved-r" / "understudy-r.json"
    about = json.loads(index.read_text())
    about["noisy_tables"][0]["scale"] *= times
    about["noisy_tables"][0]["variance"] *= times**2
    index.write_text(json.dumps(about))
    digest = hashlib.md5(index.read_bytes(), usedforsecurity=False).hexdigest()
    index.with_suffix(".md5").write_text(f"{digest}  {index.name}\n")
    worst, _ = compare(moved, ["proportion(sex == 'F')"], tmp_path)
    assert (worst > MONTE_CARLO) is (times != 1.0)


def test_answers_by_a_formula_are_equal(release_of, tmp_path):
    folder = release_of("without noise")
    release = us.read_release(folder)
    for question, (of_r,) in zip(QUESTIONS, ask_r(folder, QUESTIONS, tmp_path), strict=True):
        answer = us.infer(release, question)
        assert np.array([of_r["centre"], of_r["low"], of_r["high"]]) == pytest.approx(numbers(answer), abs=EXACT)
        assert of_r["error"] == pytest.approx(answer.standard_errors, abs=EXACT)
        assert of_r["label"] == list(answer.labels)


POSTERIORS = """
of <- function(values) as.numeric(unlist(values))
laws <- lapply(given$laws, function(one) {
  table <- list(law = one$law, scale = one$scale)
  I(sum_of_noise(table, one$count)$log_pmf(0:200))
})
noisy <- lapply(given$noisy, function(one) {
  values <- of(one$values)
  made <- noisy_posterior(values, list(law = one$law, scale = one$scale), one$records, 0.5, of(one$cells),
                          rep(TRUE, length(values)), NULL)
  law <- if (is.null(one$records)) list(x = 0, law = 1) else cell_law(made, 2)
  list(evidence = made$log_evidence, x = I(law$x), law = I(law$law))
})
drawn <- draws_posterior(rbind(of(given$released[[1]]), of(given$released[[2]])), 60, matrix(1.5, 2, 3), 0.5)
law <- cell_law(drawn, 1)
found <- list(laws = laws, noisy = noisy, drawn = list(evidence = drawn$log_evidence, x = I(law$x), law = I(law$law)))
"""


def test_exact_posteriors_and_laws_of_noise_are_equal(tmp_path):
    mechanisms = {"geometric": us.Geometric, "discrete_gaussian": us.DiscreteGaussian}
    laws = [(law, scale, count) for law in mechanisms for scale in (0.75, 6.5, 1300.0) for count in (1, 2, 40)]
    cases = [
        {"law": law, "scale": 3.25, "values": values, "cells": [1, 6, 6, 2], "records": records}
        for law in mechanisms
        for records, values in ((100, [31, -4, 77, 5]), (40_000, [31_000, -4, 8_890, 101]), (None, [31, -4, 77, 5]))
    ]  # fmt: skip
    released = [[10, 20, 30], [12, 25, 23]]
    given = [{"law": law, "scale": scale, "count": count} for law, scale, count in laws]
    found = run_r(POSTERIORS, tmp_path, laws=given, noisy=cases, released=released)
    for (law, scale, count), of_r in zip(laws, found["laws"], strict=True):
        ours = SumOfNoise(mechanism=mechanisms[law](scale=scale), count=count).log_pmf(np.arange(201))
        seen = ours > ours[0] - 15  # far below it a transform has fewer digits
        assert np.array(of_r)[seen] == pytest.approx(ours[seen], abs=EXACT)
    for case, of_r in zip(cases, found["noisy"], strict=True):
        ours = noisy_table(
            case["values"], mechanism=mechanisms[case["law"]](scale=3.25), records=case["records"], prior=0.5,
            cells=case["cells"],
        )  # fmt: skip
        assert of_r["evidence"] == pytest.approx(ours.log_evidence, abs=EXACT)
        if case["records"] is not None:
            assert np.array(of_r["law"]) == pytest.approx(ours.cell_weights(1)[of_r["x"]], abs=EXACT)
    ours = dirichlet_multinomial(released, records=60, alpha=1.5, prior=0.5)
    assert found["drawn"]["evidence"] == pytest.approx(ours.log_evidence, abs=EXACT)
    assert np.array(found["drawn"]["law"]) == pytest.approx(ours.cell_weights(0)[found["drawn"]["x"]], abs=EXACT)


MODEL = """
release <- read_release(given$folder)
found <- lapply(given$questions, function(question) {
  estimand <- make_estimand(release, read_question(release, list(question = question)))
  local <- local_model(release, release$tables, estimand)
  post <- make_posterior(local)
  member <- group_matrix(local, estimand)
  at_mode <- post$shares(matrix(post$mode, 1))
  list(shares = I(as.numeric(at_mode %*% member)), raw = I(raw_shares(local, post, member)$shares),
       density = post$log_density(matrix(post$mode, 1)), volume = as.numeric(determinant(post$spread)$modulus))
})
"""


@pytest.mark.parametrize("kind", ["several tables", "several, unknown size"])
def test_the_model_of_several_tables_has_the_same_mode(kind, release_of, tmp_path):
    folder = release_of(kind)
    release = us.read_release(folder)
    questions = ["crosstab(sex, education)", "mean(age, where=smokes == 'yes')", "proportion(age >= 45, by=region)"]
    for question, of_r in zip(
        questions, run_r(MODEL, tmp_path, folder=f"{folder}-r", questions=questions), strict=True
    ):
        estimand = make_estimand(parse_question(question, release.schema), release.schema)
        local = local_model(release, estimand.margin, estimand)
        mode, spread = local.posterior.mode()
        member = group_matrix(local, estimand)
        shares = (local.posterior.shares(mode[None, :]) @ member)[0]
        assert of_r["shares"] == pytest.approx(shares, abs=EXACT)
        assert of_r["raw"] == pytest.approx(raw_shares(local, member).shares, abs=EXACT)
        assert of_r["density"] == pytest.approx(float(local.posterior.log_density(mode[None, :])[0]), abs=1e-6)
        assert of_r["volume"] == pytest.approx(float(np.linalg.slogdet(spread)[1]), abs=1e-6)


COUNTS = """
release <- suppressWarnings(read_release(given$folder))
found <- lapply(release$names, function(name) I(counts_of(release, 1, name)))
"""


@pytest.mark.parametrize("kind", ["noisy", "several tables"])
def test_rows_have_the_same_codes(kind, release_of, tmp_path):
    release = us.read_release(release_of(kind))
    counts = run_r(COUNTS, tmp_path, folder=f"{release_of(kind)}-r")
    for name, of_r in zip(release.schema.names, counts, strict=True):
        assert of_r == release.coded(1).counts((name,)).tolist()
