"""The person's part: people kept against people left out of the same refit, and the bound of the guarantee."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.core.phases import tell, told_to
from understudy.demo.people import make_people, small_schema
from understudy.errors import InputError
from understudy.evaluation import risk, taking_part
from understudy.evaluation.gains import FALSE_ALARM, gain_over_holdout, gain_over_refits, most_allowed, one_person_above
from understudy.evaluation.inputs.comparison import compare
from understudy.evaluation.risk import evaluate_risk
from understudy.evaluation.shared.attack import attacks
from understudy.evaluation.shared.attack_success import Tally
from understudy.evaluation.taking_part import person_part

SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="a", levels=tuple(range(12))),
        us.Attribute(name="b", levels=tuple(range(12))),
        us.Attribute(name="c", levels=tuple(range(12))),
    )
)


def table(rows: int, seed: int) -> pa.Table:
    draw = np.random.default_rng(seed)
    return pa.table({name: draw.integers(0, 12, rows) for name in "abc"})


def release_of(made: pa.Table, *, epsilon: float | None = None, unit: us.Unit | None = None) -> us.Release:
    """Somebody's table that says it had a guarantee."""
    release = us.wrap(made, SCHEMA)
    guarantee = us.NonPrivate() if epsilon is None else us.PureDP(epsilon=epsilon)
    return replace(release, statement=replace(release.statement, guarantee=guarantee, unit=unit or us.Unit()))


def compared(release, data, **settings):
    return compare(release, us.open_source(data, SCHEMA), **settings)


def rows_of(section) -> dict[tuple[str, str], dict]:
    return {(row["attack"], row["subject"]): row for row in section.frames["person_part"].to_pylist()}


def test_the_bound_is_the_greatest_chance_that_the_guarantee_allows():
    """Both inequalities hold with equality for randomized response, the worst mechanism of its epsilon."""
    for epsilon in (0.1, 1.0, 3.0):
        lie = 1 / (1 + math.exp(epsilon))
        assert most_allowed(lie, (epsilon, 0.0)) == pytest.approx(1 - lie)
        assert most_allowed(1 - lie, (epsilon, 0.0)) == pytest.approx(1 - lie * math.exp(-epsilon))
    assert most_allowed(0.2, (0.0, 0.1)) == pytest.approx(0.3)
    assert most_allowed(0.2, None) is None


def test_randomized_response_is_no_alarm_and_more_than_it_is():
    """The mechanism that meets its bound exactly: 200 times 10 refits, false alarms at most 1e-3 each.

    More than 3 have a probability below 1e-4. A mechanism of twice the epsilon is found in nine cases of ten.
    """
    draw = np.random.default_rng(1)
    alarms = {1.0: 0, 2.0: 0}
    for truth in alarms:
        lie = 1 / (1 + math.exp(truth))
        for _ in range(200):
            counts = [(draw.binomial(200, 1 - lie), 200, draw.binomial(200, lie), 200) for _ in range(10)]
            alarms[truth] += gain_over_refits(counts, (1.0, 0.0)).above_limit
    assert alarms[1.0] <= 3
    assert alarms[2.0] >= 180


@pytest.mark.parametrize("named", ["even", "few", "most", "lumps", "rarely all"])
def test_whoever_is_named_as_surely_as_the_promise_allows_raises_no_alarm(named):
    """Given what a refit shows, those it names are in it with odds e^epsilon, however many it names.

    Beside many people it may name hardly any or half of them, so answers come in clusters of all sizes. With odds of
    e^(3 epsilon) there is an alarm where many are named.
    """
    draw, people, refits = np.random.default_rng(list(named.encode())), 1000, 12
    share = {"even": 0.3, "few": 0.002, "most": 0.95, "lumps": 0.2, "rarely all": 0.05}[named]

    def counts(odds: float) -> list[tuple[int, int, int, int]]:
        found = []
        for _ in range(refits):
            rare = draw.uniform() < 0.1
            size = {"lumps": int(people * draw.beta(0.2, 0.8)), "rarely all": people // 2 * rare}
            shown = size.get(named, draw.binomial(people, share))
            more = odds / (1 + odds)
            # The others make up the rest, so that everybody is in with chance 1/2.
            if share <= 0.5:
                inside, rest = more, (0.5 - share * more) / (1 - share)
            else:
                inside, rest = (0.5 - (1 - share) * (1 - more)) / share, 1 - more
            right, wrong = draw.binomial(shown, inside), draw.binomial(people - shown, rest)
            found.append((right, right + wrong, shown - right, people - right - wrong))
        return found

    kept = [gain_over_refits(counts(np.e**0.5), (0.5, 0.0)).above_limit for _ in range(100)]
    assert not any(kept)  # stated: at most 1 in 1,000
    if named in ("even", "most"):
        assert all(gain_over_refits(counts(np.e**1.5), (0.5, 0.0)).above_limit for _ in range(20))


def test_certainty_in_every_refit_is_no_alarm_at_a_large_epsilon():
    assert not gain_over_refits([(40, 40, 2, 40)] * 20, (20.0, 0.0)).above_limit
    assert gain_over_refits([(40, 40, 2, 40)] * 20, (0.5, 0.0)).above_limit


@pytest.mark.parametrize(
    "unit", [us.Unit(), us.Unit(kind="add_remove"), us.Unit(kind="replace", fixed=("a",))], ids=["n", "coins", "fixed"]
)
def test_halves_are_neighbours_of_halves(unit):
    data = table(301, 2)
    made = compared(release_of(table(301, 3), epsilon=1, unit=unit), data)
    halves, compares = map(np.array, zip(*taking_part._halves(made, made.people.codes), strict=True))
    assert len(np.unique(halves, axis=0)) == taking_part.MOST_REFITS
    assert abs(halves.mean() - 0.5) < 0.02
    sizes = halves.sum(axis=1)
    if unit.kind == "add_remove":
        assert len(set(sizes)) > 5
        assert compares.all()
    elif unit.fixed:
        codes = made.people.codes[:, 0]
        for value in range(12):
            of_stratum = halves[:, codes == value].sum(axis=1)
            assert set(of_stratum) <= {np.sum(codes == value) // 2, -(-np.sum(codes == value) // 2)}
            inside, outside = ((one & compares)[:, codes == value].sum(axis=1) for one in (halves, ~halves))
            assert set(inside) == set(outside) == {np.sum(codes == value) // 2}
    else:
        assert set(sizes) == {150, 151}
        assert set((halves & compares).sum(axis=1)) == set((~halves & compares).sum(axis=1)) == {150}
    left = halves[~compares]  # whoever is set aside is kept as often as not
    assert unit.kind == "add_remove" or 0.25 < left.mean() < 0.75


def test_people_alone_in_what_is_public_raise_no_alarm():
    """Their place in the release is public, so it tells who was kept: for that the software was accused."""
    draw, towns = np.random.default_rng(31), tuple(range(60))
    levels = {"town": towns, "ill": ("no", "yes", "?"), "sex": ("F", "M")}
    schema = us.Schema(
        attributes=tuple(us.Attribute(name=name, levels=of, ordered=True) for name, of in levels.items())
    )
    data = pa.table({name: draw.choice(of, 100) for name, of in levels.items()})
    with warnings.catch_warnings(action="ignore"):
        release = us.synthesize(
            us.open_source(data, schema), method="independent", budget=us.PureDP(epsilon="0.5"),
            unit=us.Unit(fixed=("town",)),
        )  # fmt: skip
        found = us.attack(release, data)
    rows = found.frames["person_part"].to_pylist()
    assert len(rows) > 10
    assert not any(row["above_bound"] for row in rows)
    assert {row["light"] for row in rows} == {"green"}


def test_where_everybody_is_alone_in_what_is_public_nothing_is_measured():
    towns = tuple(range(18))
    schema = us.Schema(
        attributes=(us.Attribute(name="town", levels=towns), us.Attribute(name="ill", levels=("no", "yes")))
    )
    data = pa.table({"town": towns, "ill": ["no", "yes"] * 9})
    release = us.wrap(data, schema)
    release = replace(release, statement=replace(release.statement, unit=us.Unit(fixed=("town",))))
    made = compare(release, us.open_source(data, schema), refit=lambda rows, _: us.wrap(rows, schema))
    found = person_part(made, [])
    assert "alone in what is publicly known" in found.findings[0].title
    assert "person_part" not in found.frames


def test_a_synthesizer_that_copies_is_an_alarm_about_the_software():
    data = table(400, 4)
    copied = compared(release_of(data, epsilon=1), data, refit=lambda rows, _: us.wrap(rows, SCHEMA))
    found = person_part(copied, [])
    for who in ("the rarest people", "invented people"):
        member = rows_of(found)["membership", who]
        assert member["above_bound"]
        assert member["light"] == "red"
    problems = [finding for finding in found.findings if finding.severity == "problem"]
    assert "software" in problems[0].title


def test_a_synthesizer_that_ignores_its_data_gains_nothing():
    data = table(400, 5)
    blind = compared(
        release_of(table(400, 6), epsilon=1), data, refit=lambda _, number: us.wrap(table(200, number), SCHEMA)
    )
    found = person_part(blind, [])
    assert {row["above_bound"] for row in rows_of(found).values()} == {False}
    assert "red" not in {row["light"] for row in rows_of(found).values()}
    assert [finding for finding in found.findings if finding.severity != "info"] == []


def test_the_steps_of_one_refit_do_not_hide_how_far_all_of_them_are():
    """A terminal shows one bar: the steps of each fit took its place, and the time left began again."""

    def refit(_, number):
        tell("fitting the model", 1, 2)
        return us.wrap(table(60, number), SCHEMA)

    steps, far = [], []
    with told_to(lambda *step: steps.append(step)):
        data = table(120, 7)
        one = compared(release_of(data, epsilon=1), data, refit=refit)
        person_part(one, [], progress=lambda done, total: far.append((done, total)))
    assert steps == []
    assert [done for done, _ in far] == list(range(1, len(far) + 1))
    assert len(far) >= 4


DISTANT = ("closest_record", "uniqueness", "cell_counts", "singling_out", "rank_linkage")


def test_every_attack_compares_people_kept_with_people_left_out():
    """A copier tells every one of them; people left out are never told by an exact copy of somebody else."""
    data = table(300, 14)
    copied = compared(release_of(data, epsilon=1), data, refit=lambda rows, _: us.wrap(rows, SCHEMA))
    found = evaluate_risk(copied)
    lines = {row["name"]: row for row in found.frames["in_everyday_words"].to_pylist()}
    assert "not measured" not in {row["light"] for row in lines.values()}
    for attack in DISTANT:
        assert lines[attack]["light"] == "red", attack
        assert lines[attack]["in_the_data"] > 2 * lines[attack]["not_in_the_data"], attack
    alone = rows_of(found)["uniqueness", "all attributes, copy 1"]
    assert alone["inside"] > 0.98  # an invented person may have the same answers
    assert alone["outside"] < 0.02
    assert rows_of(found)["rank_linkage", "copy 1, sum"]["inside"] > 0.9


def test_what_refits_say_of_small_groups_and_statements_is_what_a_loop_over_people_says():
    data, made = table(120, 15), table(60, 16)
    whole = compared(release_of(made), data)
    kept = np.random.default_rng(17).random(120) < 0.5
    counted = np.random.default_rng(18).random(120) < 0.9
    part = whole.in_refit(asked=np.arange(120), kept=kept, compared=counted, tables=whole.tables, targets=("a",))
    rows = {
        (row["attack"], row["subject"]): row
        for name in ("cell_counts", "uniqueness")
        for row in attacks[name]().run(part).frames["attacks"].to_pylist()
    }
    people, synthetic = whole.people.codes, whole.tables[0].codes
    told = {person: [] for person in np.flatnonzero(counted)}  # of each small group of a person: is its size told?
    for person, groups in told.items():
        for pair in ([0, 1], [0, 2], [1, 2]):
            d, s = (int(np.sum((t[:, pair] == people[person, pair]).all(1))) for t in (people, synthetic))
            if d in (1, 2):
                groups.append(s == d)
    small = rows["cell_counts", "2-way cells of 1 or 2, copy 1"]
    for side, asked, right in ((True, "asked", "successes"), (False, "control_asked", "control_successes")):
        here = [groups for person, groups in told.items() if kept[person] == side and groups]
        assert small[asked] == len(here)  # each once, about one of their groups
        assert sum(map(all, here)) <= small[right] <= sum(map(any, here))
        assert any(any(groups) and not all(groups) for groups in here)
    alone = [
        [
            int(np.sum((synthetic == row).all(1))) == 1
            for row, is_kept, is_counted in zip(people, kept, counted, strict=True)
            if is_counted and is_kept == side and np.sum((people == row).all(1)) == 1
        ]
        for side in (True, False)
    ]
    unique = rows["uniqueness", "all attributes, copy 1"]
    assert [unique["asked"], unique["control_asked"]] == [len(alone[0]), len(alone[1])]
    assert [unique["successes"], unique["control_successes"]] == [sum(alone[0]), sum(alone[1])]


def test_invented_people_are_possible_and_behind_the_others():
    from understudy.demo.people import people_schema
    from understudy.evaluation.inputs.records import possible

    data, schema = make_people(300), people_schema()
    release = us.wrap(data.select(list(schema.names)), schema)
    made = compare(release, us.open_source(data, schema))
    rows, invented = taking_part._with_canaries(made)
    assert len(invented) == 15  # 5 percent
    assert possible(schema, invented.codes).all()
    coded = us.open_source(rows, schema).confidential_table()[0]  # the schema accepts every one of them
    assert np.array_equal(coded.columns["age"][300:], invented.codes[:, schema.names.index("age")])
    assert np.array_equal(coded.columns["age"][:300], made.people.codes[:, schema.names.index("age")])


def test_without_a_guarantee_no_bound_is_stated():
    data = table(300, 7)
    open_copy = compared(release_of(data), data, refit=lambda rows, _: us.wrap(rows, SCHEMA))
    found = person_part(open_copy, [])
    assert {row["most_allowed"] for row in rows_of(found).values()} == {None}
    assert {row["above_bound"] for row in rows_of(found).values()} == {False}
    assert rows_of(found)["membership", "everybody"]["light"] == "red"


def test_a_holdout_is_used_where_it_is_given():
    data, others = table(400, 8), table(400, 9)
    never = SimpleNamespace(__call__=None)
    made = compared(release_of(data), data, holdout=us.open_source(others, SCHEMA), refit=never)
    found = evaluate_risk(made)
    rows = found.frames["person_part"].to_pylist()
    assert {row["by"] for row in rows} == {"holdout"}
    best = max(rows, key=lambda row: row["gain_low"])
    assert best["light"] == "red"
    assert best["most_allowed"] is None


def test_a_release_that_cannot_be_made_again_says_so():
    data = make_people(200)
    release = us.wrap(data.select(list(small_schema().names)), small_schema())
    found = us.attack(release, data)
    assert "person_part" not in found.frames
    assert "not made here" in {one.code: one.title for one in found.findings}["risk.person.not_measured"]
    took_part, like_them, _ = (row["sentence"] for row in found.frames["first_screen"].to_pylist())
    assert "not made here" in took_part
    # The release is a copy: right about nearly everybody in the data, which says nothing about anybody else.
    assert "with or without" not in like_them
    assert "of other people was not measured" in like_them
    measured = us.attack(release, data, holdout=make_people(200, seed=7)).frames["first_screen"].to_pylist()[1]
    assert "with or without" in measured["sentence"]


def test_the_sentence_about_membership_calls_nobody_right_who_was_left_out():
    row = {"subject": "everybody", "by": "refits", "people": 300, "times": 12, "inside": 0.48, "outside": 0.46,
           "gain": 0.02, "gain_low": -0.01, "gain_high": 0.05, "most_allowed": 0.3, "light": "green"}  # fmt: skip
    said = risk._took_part([{**row, "attack": "membership"}], "")
    assert "says of 480 of 1,000 people in the data that they were in the data, and also of 460" in said["sentence"]
    assert said["first_means"] == "said anyway"
    assert "it was tried on 300 people" in said["sentence"]
    assert "right about 480" in risk._took_part([{**row, "attack": "matching"}], "")["sentence"]


def test_what_cannot_be_made_again_is_refused_or_told_before_it_costs():
    data = make_people(200)
    release = us.wrap(data.select(list(small_schema().names)), small_schema())
    with pytest.raises(InputError, match="cannot be"):
        us.attack(release, data, thorough=True)
    data = table(100, 3)

    def fails(rows, number):
        raise InputError("too few rows.")

    found = person_part(compared(release_of(data, epsilon=1), data, refit=fails), [])
    assert "half of the data (too few rows.)" in found.findings[0].title


@pytest.mark.full
def test_a_difference_that_may_be_chance_is_not_told_as_a_gain():
    row = {"attack": "matching", "subject": "everybody", "by": "refits", "people": 44, "times": 12, "inside": 0.093,
           "outside": 0.058, "gain": 0.035, "gain_low": -0.02, "gain_high": 0.092, "most_allowed": 0.1,
           "light": "green"}  # fmt: skip
    unsure, sure = risk._took_part([row], ""), risk._took_part([{**row, "gain_low": 0.01, "light": "amber"}], "")
    assert (unsure["second_means"], unsure["light"]) == ("more, perhaps by chance", "green")
    assert "35 more, perhaps by chance" in unsure["sentence"]
    assert (sure["second_means"], sure["light"]) == ("more because they took part", "amber")
    assert "35 more, because they took part (with 95 percent confidence between 10 and 92)" in sure["sentence"]


def test_refits_of_a_plan_keep_its_bound_and_say_the_same_twice():
    data, schema = make_people(600), small_schema()
    people = us.open_source(data, schema)
    with warnings.catch_warnings(action="ignore"):
        release = us.synthesize(people, method="independent", budget=us.PureDP(epsilon=1), copies=2)
        first, second = (us.attack(release, people).frames for _ in range(2))
    assert first["person_part"].to_pylist() == second["person_part"].to_pylist()
    rows = first["person_part"].to_pylist()
    assert {row["by"] for row in rows} == {"refits"}
    assert not any(row["above_bound"] for row in rows)
    assert all(row["most_allowed"] > row["gain"] for row in rows)
    named = [row for row in first["false_disclosures"].to_pylist() if row["attack"] == "membership"]
    inside = next(row["inside"] for row in rows if (row["attack"], row["subject"]) == ("membership", "everybody"))
    people = next(row["people"] for row in rows if (row["attack"], row["subject"]) == ("membership", "everybody"))
    assert (named[0]["subject"], named[0]["people"]) == ("everybody", 2 * people)
    assert abs(people - 300) < 10  # half of them, but for invented people in the other half
    assert named[0]["right"] == round(people * inside)
    three = first["first_screen"].to_pylist()
    assert [row["title"] for row in three] == [
        "Because somebody took part",
        "About people like them",
        "Told something false",
    ]
    assert "The guarantee allows at most" in three[0]["sentence"]


def test_the_dearest_attacks_are_left_out_where_time_is_short():
    """Membership is told whatever the others cost, as long as the release itself can be made often enough."""
    refits = taking_part._Refits(company=np.ones(3), canaries=0, seconds=12.0, making=4.0, each={"a": 6.0, "b": 2.0})
    refits.kept.append(np.ones(3, bool))
    assert refits.fit_into(30.0)  # 12 + 3 x 6
    assert refits.left_out == {"a"}
    assert refits.fit_into(24.0)  # 12 + 3 x 4
    assert refits.left_out == {"a", "b"}
    assert not refits.fit_into(23.0)
    assert taking_part._Refits(
        company=np.ones(3), canaries=0, seconds=12.0, making=4.0, each={"a": 6.0}, kept=[np.ones(3, bool)]
    ).fit_into(42.0)


def test_attacks_without_time_are_named_and_not_reported(monkeypatch):
    data = table(300, 18)
    slow = compared(release_of(data, epsilon=1), data, refit=lambda rows, _: us.wrap(rows, SCHEMA))

    def none_left(self, seconds):
        self.left_out.add("attribute_inference")
        return len(self) < 5

    monkeypatch.setattr(taking_part._Refits, "fit_into", none_left)
    found = person_part(slow, [])
    assert "attribute_inference" not in {attack for attack, _ in rows_of(found)}
    assert rows_of(found)["membership", "everybody"]["times"] == 5
    assert "attribute inference" in {one.code: one.title for one in found.findings}["risk.person.no_time"]


def test_many_comparisons_with_a_holdout_do_not_make_a_red_light():
    """Seventeen of twenty outliers against nine of twenty: one of 29 comparisons of an independent sample was red."""
    found, other = Tally(successes=17, guesses=20), Tally(successes=9, guesses=20)
    assert gain_over_holdout(found, other, None).light == "red"
    assert gain_over_holdout(found, other, None, compared=29).light == "green"
    certain, never = Tally(successes=20, guesses=20), Tally(successes=1, guesses=20)
    assert gain_over_holdout(certain, never, None, compared=29).light == "red"


def test_the_lights_of_independent_samples_are_not_red_with_a_holdout():
    """Both sides alike, 30 comparisons of 20 people or more. Without the rule 39 of 400 releases have a red light."""
    draw = np.random.default_rng(19)
    red = 0
    for _ in range(400):
        sizes = draw.choice([20, 60, 400], 30)
        chances = draw.uniform(0.05, 0.95, 30)
        red += any(
            gain_over_holdout(
                Tally(successes=int(draw.binomial(n, p)), guesses=int(n)),
                Tally(successes=int(draw.binomial(n, p)), guesses=int(n)),
                None,
                compared=30,
            ).light
            == "red"
            for n, p in zip(sizes, chances, strict=True)
        )
    assert red <= 5


def test_a_program_that_copies_one_certain_person_is_told_of(monkeypatch):
    """Shares of people do not show one of 120; sixty refits with and without that person do."""
    data = table(120, 51).append_column("d", pa.array(np.random.default_rng(52).uniform(size=120)))
    schema = us.Schema(attributes=(*SCHEMA.attributes, us.Attribute(name="d", edges=(0.0, 0.5, 1.0))))
    victim = data.to_pylist()[7]

    def copies(rows, number, *, leaks):
        draw = np.random.default_rng(number)
        made = table(60, 1000 + number).append_column("d", pa.array(draw.uniform(size=60))).to_pylist()
        return us.wrap(pa.Table.from_pylist([*made, *([victim] * (leaks and victim in rows.to_pylist()))]), schema)

    monkeypatch.setattr(taking_part, "USUAL_REFITS", 60)
    claims = us.wrap(data, schema)
    claims = replace(claims, statement=replace(claims.statement, guarantee=us.PureDP(epsilon=1), unit=us.Unit()))
    for leaks in (True, False):
        source = us.open_source(data, schema)
        made = compare(claims, source, refit=lambda rows, number, leaks=leaks: copies(rows, number, leaks=leaks))
        monkeypatch.setattr(taking_part, "_play", lambda *_: None)  # attacks one by one are tested elsewhere
        found = person_part(made, [])
        codes = {one.code: one.severity for one in found.findings}
        assert ("risk.person.one_above_bound" in codes) is leaks
        if leaks:
            assert found.frames["people_above_bound"]["record"].to_pylist() == [7]
            assert rows_of(found)["closest_record", "everybody"]["light"] == "red"


def test_the_test_of_one_person_has_few_false_alarms_where_the_bound_is_met():
    """Exactly: the chance of an alarm about one of 50 people, for randomized response at its epsilon."""
    from scipy.stats import binom

    for epsilon, refits in ((0.5, 12), (1.0, 30)):
        lie = 1 / (1 + math.exp(epsilon))
        pairs = np.array([[x, refits, y, refits] for x in range(refits + 1) for y in range(refits + 1)])
        alone = [np.vstack([pair, *[[0, refits, 0, refits]] * 49]) for pair in pairs[pairs[:, 0] > pairs[:, 2]]]
        alarmed = [rows[0] for rows in alone if one_person_above(rows, (epsilon, 0.0))[0]]
        chance = sum(binom.pmf(x, refits, 1 - lie) * binom.pmf(y, refits, lie) for x, _, y, _ in alarmed)
        assert chance * 50 < FALSE_ALARM
        assert alarmed or refits == 12  # it has power with enough refits
