"""The proving ground knows the truth of its populations, counts what it finds, and its failing seeds stay mended."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import understudy as us

PROVING = Path(__file__).resolve().parents[2] / "benchmarks" / "proving"


@pytest.fixture(scope="module", autouse=True)
def on_path():
    sys.path.insert(0, str(PROVING))
    yield
    sys.path.remove(str(PROVING))
    for name in ("asked", "outside", "populations", "results", "settings"):  # names that others may have too
        sys.modules.pop(name, None)


def small_population():
    from populations import Population

    schema = us.Schema(
        attributes=(
            us.Attribute(name="sex", levels=("F", "M"), missing=True),
            us.Attribute(name="pay", edges=(0.0, 10.0, 100.0)),
        )
    )
    columns = {"sex": np.array([0, 0, 1, 1, -1]), "pay": np.array([1.0, 2.0, 3.0, 50.0, 7.0])}
    return Population(kind="by hand", schema=schema, columns=columns)


def test_truth_is_of_real_values_and_leaves_out_who_has_none():
    import asked

    people = small_population()
    rng = np.random.default_rng(1)
    seen = {}
    for _ in range(60):
        for one in asked.draw_questions(rng, people, 6):
            seen[one.kind, one.text] = one.true(None)
    assert seen["mean", "mean(pay)"] == pytest.approx([12.6])
    assert seen["proportion", "proportion(sex == 'M')"] == pytest.approx([0.5])
    assert seen["crosstab", "crosstab(sex, pay)"] == pytest.approx([0.5, 0.0, 0.25, 0.25])
    assert seen["linear", "pay ~ sex"] == pytest.approx([1.5, 25.0])
    assert seen["quantile", "quantile(pay, 0.5)"] == pytest.approx([3.0])


def test_a_seed_is_one_setting():
    import settings

    first, again, other = (settings.draw_setting(seed) for seed in (7, 7, 8))
    assert (first.records, first.method, first.epsilon) == (again.records, again.method, again.epsilon)
    assert first.population.schema == again.population.schema
    assert first.population.schema != other.population.schema


def test_the_page_counts_by_label_and_finds_what_lies_below_the_bar():
    import results

    def answer(label: str, hit: int) -> dict:
        return {"kind": "logit", "question": "q", "label": label, "labels": [label], "hits": [hit], "seconds": 0.1}

    answers = [answer("valid", int(k % 2 == 0)) for k in range(60)] + [answer("range", 1)]
    setting = {"records": 500, "epsilon": 1.0, "method": "ipf", "population": "copula"}
    found = [{"seed": 1, **setting, "answers": answers, "memory": 9}]
    text = results.page(found)
    assert "| valid | 60 | 0.500 |" in text
    assert "| range | 1 | 1.000 |" in text
    assert "- logit, under 1,000, epsilon 1, ipf: 0.500 of 60" in text
    assert results.failures([{"seed": 2, "records": 5, "answers": [{"question": "q", "failure": "broke"}]}])


def test_the_violation_of_no_interaction_is_nought_where_there_is_none_and_large_where_there_is():
    import asked
    import settings
    from populations import Population

    schema = us.Schema(attributes=tuple(us.Attribute(name=name, levels=("n", "y")) for name in "abc"))
    cells = np.indices((2, 2, 2)).reshape(3, -1)
    for effect, wide in ((0, False), (2, True)):
        counts = 10 * np.where(cells.sum(axis=0) % 2, 1, 1 + effect)  # an interaction of all three and of no two
        columns = {name: np.repeat(codes, counts) for name, codes in zip("abc", cells, strict=True)}
        people = Population(kind="by hand", schema=schema, columns=columns)
        of, among = columns["a"] == 1, (columns["b"] == 1) & (columns["c"] == 1)
        question = asked.Asked(
            kind="q", text="proportion(a == 'y', where=b == 'y' and c == 'y')", true=asked._share(of, among)
        )
        true, width = np.array([np.mean(of[among])]), np.array([0.2])
        (found,) = settings._violation(question, people, true, width, without_interactions=True)
        assert (found > 1) == wide
        assert wide or found < 1e-6
        assert settings._violation(question, people, true, width, without_interactions=False)[0] < 1e-6


def test_numbers_that_do_not_lie_in_their_bins_as_assumed_are_a_violation():
    import asked
    import settings
    from populations import Population

    schema = us.Schema(attributes=(us.Attribute(name="x", edges=(0, 10, 20)),))
    for at, wide in (((0.0, 10.0), False), ((0.0, 2.0), True)):
        inside = np.linspace(*at, 1000)
        people = Population(kind="by hand", schema=schema, columns={"x": np.concatenate([inside, 10 + inside])})
        question = asked.Asked(kind="q", text="mean(x)", true=lambda rows: np.zeros(1))
        true = np.array([people.columns["x"].mean()])
        (found,) = settings._violation(question, people, true, np.array([0.4]), without_interactions=False)
        assert (found > 1) == wide


def test_answers_about_one_release_are_worth_fewer_independent_ones():
    import results

    def rows(seeds):
        return [({"seed": seed}, {}, "valid", float(hit), 1.0, None) for seed, hit in seeds]

    alike = rows((seed, seed % 4 > 0) for seed in range(20) for _ in range(10))
    apart = rows((seed, (seed + k) % 4 > 0) for seed in range(20) for k in range(12))
    assert results.independent(alike) == pytest.approx(20, rel=0.1)
    assert results.independent(apart) == len(apart)


@pytest.mark.full
@pytest.mark.parametrize("place", [0, 1])
def test_posterior_copies_serve_models_of_another_package(place):
    """16 releases: three (two) coefficients each. At 95 percent fewer than 75 hold with a probability below 1e-4."""
    import outside

    found = outside.measure(outside.MODELS[place], 16, 5, 1.0)
    assert found["T_f*"][0] > 0.75
    assert found["mixture"][0] > 0.75
    assert found["one copy as records"][0] < min(found["T_f*"][0], found["mixture"][0])


@pytest.mark.full
def test_a_few_settings_run_without_failure():
    import settings

    for seed in (3, 6):
        found = settings.run(seed, most=1000, baseline=False)
        assert "failure" not in found
        assert all("failure" not in answer for answer in found["answers"])


@pytest.mark.full
def test_seeds_that_failed_before_do_not_fail_again():
    import settings

    for one in json.loads((PROVING / "failing.json").read_text()):
        if one.get("mended"):
            found = settings.run(one["seed"], most=one["records"], baseline=False)
            wrong = [each.get("failure", "") for each in (found, *found["answers"])]
            assert not [each for each in wrong if each and not any(slow in each for slow in settings.SLOW)], one
