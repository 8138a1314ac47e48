"""Tables that were fixed beforehand have valid answers, whatever a method chose later."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import understudy as us
from understudy.core.questions import parse_question
from understudy.demo.people import make_people, small_schema
from understudy.inference.chosen_tables import fixed_beforehand, without_selection
from understudy.inference.estimands import make_estimand
from understudy.inference.labels import VALID
from understudy.privacy.randomness.streams import SeededStream

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
SCHEMA = small_schema()


@pytest.fixture(scope="module")
def release():
    people = us.open_source(make_people(4000, seed=2), SCHEMA)
    budget = us.ApproxDP(epsilon=2, delta="1e-6")
    with warnings.catch_warnings(action="ignore"):
        return us.synthesize(
            people, method="aim", budget=budget, must="crosstab(sex, smokes)", stream=SeededStream(5), rounds=2
        )


def estimand(question):
    return make_estimand(parse_question(question, SCHEMA), SCHEMA)


def test_only_what_the_plan_names_is_fixed(release):
    fixed = fixed_beforehand(release)
    assert [one.margin for one in fixed] == [("sex", "smokes"), *((name,) for name in SCHEMA.names)]
    assert len(fixed) < len(release.measurements)


def test_an_answer_from_fixed_tables_is_valid_and_reads_nothing_else(release):
    question = "proportion(smokes == 'yes', where=sex == 'F')"
    used = without_selection(release, estimand(question))
    assert used.measurements == fixed_beforehand(release)
    answer = us.infer(release, question, rng=np.random.default_rng(1))
    assert answer.labels == (VALID,)
    alone = us.infer(used, question, rng=np.random.default_rng(1))
    assert alone.interval == answer.interval


def test_an_answer_that_needs_a_chosen_table_says_so(release):
    chosen = next(one for one in release.measurements if one.label.startswith("round") and len(one.margin) == 2)
    if set(chosen.margin) == {"sex", "smokes"}:
        pytest.skip("the only chosen pair is the fixed one")
    text = f"crosstab({', '.join(chosen.margin)})"
    assert without_selection(release, estimand(text)) is None
    answer = us.infer(release, text, draws=200, rng=np.random.default_rng(1))
    assert set(answer.labels) == {VALID}  # with room for the choice
    assert any("chosen by noisy looks" in one and "times as long" in one for one in answer.warnings)
