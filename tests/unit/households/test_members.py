"""Tables of single members under the unit of a person, and what rests on them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import understudy as us
from understudy.cli.main import app
from understudy.core.linked_schema_file import parse_any_schema
from understudy.demo.families import FAMILIES_SCHEMA, make_families
from understudy.errors import InputError, SchemaError, UnsupportedError
from understudy.households.measures import _rows_of, _targets
from understudy.households.pair_tables import pair_tables, total_variation
from understudy.households.shared.alike import best_types
from understudy.privacy.randomness.streams import SeededStream

BUDGET = us.ApproxDP(epsilon=2, delta="1e-6")


def schema(text: str = FAMILIES_SCHEMA) -> us.LinkedSchema:
    found = parse_any_schema(text)
    assert isinstance(found, us.LinkedSchema)
    return found


@pytest.fixture(scope="module")
def source():
    return us.open_households(make_families(800, seed=8), schema())


@pytest.fixture(scope="module")
def release(source):
    return us.synthesize(source, budget=BUDGET, unit="person")


def distance(source, release) -> float:
    ours, theirs = source.confidential_families().persons(), release.linked().persons()
    names = ("role", "age", "sex", "works")
    return float(np.mean([total_variation(ours.counts(pair), theirs.counts(pair)) for pair in combinations(names, 2)]))


def test_tables_of_members_make_members_more_accurate(source, release):
    measured = [one.margin for one in release.measurements if release.schema.is_of_members(one.margin)]
    assert set(measured) == set(combinations(("role", "age", "sex", "works"), 2))
    without = us.synthesize(source, budget=BUDGET, unit="person", members=False)
    assert not any(release.schema.is_of_members(one.margin) for one in without.measurements)
    assert distance(source, release) < 0.75 * distance(source, without)


def test_what_is_known_of_households_stays(source, release):
    ours, theirs = source.confidential_families(), release.linked()
    for name in ("region", "income"):
        assert total_variation(ours.households.counts((name,)), theirs.households.counts((name,))) < 0.02
    assert abs(theirs.members.rows / ours.members.rows - 1) < 0.03


def test_the_promise_is_for_a_person_and_verified(release, tmp_path):
    assert "one person; identified by person" in release.statement.protected
    release.write(tmp_path / "r")
    assert all(check.passed for check in us.verify(tmp_path / "r"))
    again = us.read_release(tmp_path / "r")
    assert again.statement.protected == release.statement.protected
    more = us.sample(again, rows=500, copies=1)
    assert more.tables[0].households.num_rows == 500


def test_members_are_asked_about(source, release):
    answer = us.infer(release, "proportion(sex == 'F')", rng=np.random.default_rng(1))
    truth = float((source.confidential_families().members.columns["sex"] == 0).mean())
    one = answer.estimates[0]
    assert answer.labels == ("valid",)
    assert one.low < truth < one.high
    apart = us.infer(release, "mean(partner_age) - mean(reference_age, where=partner_age >= 0)")
    assert apart.labels == ("range",)
    household = us.synthesize(source, budget=BUDGET, unit="household")
    with pytest.raises(UnsupportedError, match="about single members"):
        us.infer(household, "proportion(sex == 'F')")
    with pytest.raises(InputError, match="unknown"):
        us.infer(household, "proportion(colour == 'F')")


@pytest.mark.full
def test_strata_and_posterior_draws(source, tmp_path):
    strata = us.synthesize(source, budget=BUDGET, unit="household", strata="region")
    assert any("region" in one.margin and "child_age" in one.margin for one in strata.measurements)
    drawn = us.synthesize(source, budget=BUDGET, unit="household", draws="posterior", copies=2)
    assert drawn.fitted is None
    for number, made in enumerate((strata, drawn)):
        made.write(tmp_path / str(number))
        assert all(check.passed for check in us.verify(tmp_path / str(number)))
    for given, told in (({"strata": "age"}, "attribute"), ({"strata": "region", "draws": "posterior"}, "posterior"),
                        ({"choose": "aim", "strata": "region"}, "choose = public")):  # fmt: skip
        with pytest.raises(InputError, match=told):
            us.plan(schema(), budget=BUDGET, copies=2, **given)


def test_nobody_is_guessed_who_must_be_missing(source):
    linked, one = source.confidential_families(), schema()
    assert not any("partner" in name or "child" in name for name in _targets(one, "households"))
    couples = _rows_of(linked, "partner")
    assert couples.rows == int((linked.by_role[:, 1] > 0).sum())
    assert all("none" not in attribute.code_names for attribute in couples.schema.attributes)
    assert set(_targets(one, "partner")) <= set(couples.schema.names)


def test_files_for_stata_and_spss(release, tmp_path):
    pyreadstat = pytest.importorskip("pyreadstat")
    us.export(release, to="sav", out=tmp_path / "s")
    members, meta = pyreadstat.read_sav(tmp_path / "s" / "persons_1.sav")
    homes, _ = pyreadstat.read_sav(tmp_path / "s" / "households_1.sav")
    assert len(members) == release.rows[0]
    assert set(members["household"]) == set(homes["household"])
    assert meta.variable_value_labels["role"][1.0] == "reference"
    us.export(release, to="dta", out=tmp_path / "d")
    assert (tmp_path / "d" / "joined_1.dta").exists()


def two_files(folder) -> list[str]:
    """Other names, codes and words than those of the demonstration."""
    frame = make_families(900, seed=5).to_pandas()
    codes = {"head": 1, "spouse": 2, "child": 3, "other": 9}
    people = frame.assign(lien=frame["relation"].map(codes)).rename(
        columns={"household": "idmen", "person": "noi", "age": "AGE", "sex": "sexe", "works": "emploi"}
    )
    people[["idmen", "noi", "lien", "sexe", "AGE", "emploi"]].to_csv(folder / "i.csv", sep=";", index=False)
    homes = frame.drop_duplicates("household").rename(columns={"household": "idmen", "region": "rég"})
    homes[["idmen", "rég", "income"]].to_csv(folder / "m.csv", sep=";", index=False, encoding="latin-1")
    return [f"ménages={folder / 'm.csv'}", f"individus={folder / 'i.csv'}"]


def test_two_files_go_from_a_draft_to_a_release(tmp_path):
    files, run = two_files(tmp_path), CliRunner()
    draft = tmp_path / "d.toml"
    told = run.invoke(app, ["schema", "draft", *files, "--out", str(draft)])
    assert told.exit_code == 0, told.output
    text = draft.read_text(encoding="utf-8")
    assert 'id = "idmen"' in text
    assert 'id = "noi"' in text
    assert 'column = "lien"\nreference = ["1"]' in text
    assert text.index('name = "AGE"') < text.index('name = "sexe"')  # what ties members together comes first
    assert "draft = true" in text
    text = text.replace("draft = true\n", "").replace('# partner = ["..."]', 'partner = ["2"]')
    draft.write_text(text.replace('# child = ["..."]', 'child = ["3"]'), encoding="utf-8")
    checked = run.invoke(app, ["schema", "check", *files, "--schema", str(draft)])
    assert checked.exit_code == 0, checked.output
    described = run.invoke(app, ["schema", "describe", "--schema", str(draft), "--json"])
    assert '"at_most": 6' in described.output
    planned = run.invoke(app, ["plan", "--schema", str(draft), "--unit", "person", "--epsilon", "2"])
    assert "one person; identified by noi" in " ".join(planned.output.split())


def test_files_that_nothing_links():
    one = pa.table({"a": ["x", "y"]})
    with pytest.raises(InputError, match="no column links"):
        us.draft_linked_schema({"homes": one, "people": pa.table({"b": ["x"]})})
    with pytest.raises(InputError, match="two linked tables"):
        us.draft_linked_schema({"homes": one})


ALIKE = """version = 1
[[table]]
name = "homes"
id = "home"
[[table]]
name = "people"
parent = "homes"
at_most = {most}
at_least = {least}
[[attribute]]
table = "homes"
name = "kind"
levels = ["a", "b"]
[[attribute]]
table = "people"
name = "mark"
levels = [0, 1, 2, 3]
ordered = true
[[attribute]]
table = "people"
name = "sick"
levels = ["no", "yes"]
"""


def alike(sizes: np.ndarray, *, seed: int, similar: float = 0.5) -> dict[str, pa.Table]:
    """Members of one home are similar to each other, and depend on its kind."""
    rng = np.random.default_rng(seed)
    kind, own = rng.integers(0, 2, len(sizes)), rng.normal(size=len(sizes))
    home = np.repeat(np.arange(len(sizes)), sizes)
    value = np.sqrt(similar) * own[home] + np.sqrt(1 - similar) * rng.normal(size=len(home))
    mark = np.clip(1.5 + kind[home] * 0.7 + value, 0, 3).astype(int)
    sick = rng.random(len(home)) < 0.2 + 0.15 * mark
    homes = pa.table({"home": np.arange(len(sizes)), "kind": np.array(["a", "b"])[kind]})
    told = np.array(["no", "yes"])[sick.astype(int)]
    return {"homes": homes, "people": pa.table({"home": home, "mark": mark, "sick": told})}


def released(sizes: np.ndarray, *, unit: str, seed: int, epsilon: int = 2, **how):
    text = ALIKE.format(most=max(int(sizes.max()), 1), least=min(int(sizes.min()), 1))
    source = us.open_households(alike(sizes, seed=seed, **how), schema(text))
    budget = us.ApproxDP(epsilon=epsilon, delta="1e-6")
    return source, us.synthesize(source, budget=budget, unit=unit, stream=SeededStream(seed))


def likeness(linked) -> float:
    """The correlation of the marks of two members of a home."""
    table = dict(pair_tables(linked, "members"))["mark", "mark"] / 1.0
    table /= table.sum()
    values = np.arange(4) - table.sum(axis=1) @ np.arange(4)
    return float(values @ table @ values / (table.sum(axis=1) @ values**2))


def test_many_members_without_roles():
    """Pupils in schools: up to 30 members, all alike. With 20 other seeds the distance was .008 to .025."""
    sizes = np.random.default_rng(3).integers(5, 31, 150)
    source, made = released(sizes, unit="person", seed=4)
    assert {("kind", "mark"), ("size", "mark"), ("one_mark", "other_mark")} <= {one.margin for one in made.measurements}
    ours, theirs = source.confidential_families(), made.linked()
    for margin in (("kind", "mark"), ("mark", "sick")):
        assert total_variation(ours.persons().counts(margin), theirs.persons().counts(margin)) < 0.03, margin
    assert abs(likeness(ours) - likeness(theirs)) < 0.12  # a chain from the first pupil would give about its square
    assert likeness(ours) > 0.4
    answer = us.infer(made, "proportion(mark == 3, where=size >= 20)", rng=np.random.default_rng(2))
    assert answer.estimates[0].low < answer.estimates[0].value < answer.estimates[0].high


def test_patients_some_of_whom_have_no_visit(tmp_path):
    sizes = np.minimum(np.random.default_rng(5).geometric(0.3, 600) - 1, 20)
    assert (sizes == 0).sum() > 100
    source, made = released(sizes, unit="person", seed=6)
    ours, theirs = source.confidential_families(), made.linked()
    counts = [np.bincount(one.by_role.sum(axis=1), minlength=21) for one in (ours, theirs)]
    assert np.abs(counts[0] - counts[1]).max() <= 3
    assert total_variation(ours.persons().counts(("kind", "mark")), theirs.persons().counts(("kind", "mark"))) < 0.04
    made.write(tmp_path / "r")
    assert all(check.passed for check in us.verify(tmp_path / "r"))
    assert us.read_release(tmp_path / "r").linked().households.rows == 600
    with pytest.raises(UnsupportedError, match="known and not protected"):
        us.infer(made, "proportion(size == 0)")
    frequent = us.infer(made, "proportion(mark == 3, where=size >= 5)", rng=np.random.default_rng(1)).estimates[0]
    persons = ours.persons().columns
    assert frequent.low < float((persons["mark"][persons["size"] >= 5] == 3).mean()) < frequent.high
    with pytest.raises(InputError, match="at_least = 0"):
        us.open_households(alike(sizes, seed=6), schema(ALIKE.format(most=20, least=1))).confidential_families()
    with pytest.raises(SchemaError, match="reference person"):
        schema(FAMILIES_SCHEMA.replace("at_most = 6", "at_most = 6\nat_least = 0"))


@pytest.mark.parametrize("size", [1, 2])
def test_homes_that_all_have_one_size(size):
    source, made = released(np.full(400, size), unit="person", seed=7)
    ours, theirs = source.confidential_families(), made.linked()
    assert (theirs.by_role == size).all()
    assert total_variation(ours.persons().counts(("kind", "mark")), theirs.persons().counts(("kind", "mark"))) < 0.06


def test_types_have_the_table_of_two_members():
    """Any two members have the table of two, and not only those who are drawn with the first."""
    shares, laws = np.array([0.3, 0.7]), np.array([[0.6, 0.3, 0.1, 0.0], [0.1, 0.2, 0.3, 0.4]])
    pairs = laws.T @ (shares[:, None] * laws)
    found, of = best_types(pairs, 0.0)
    assert np.abs(of.T @ (found[:, None] * of) - pairs).max() < 1e-3
    # What noise alone could be is not taken for likeness.
    rng = np.random.default_rng(1)
    alone = np.outer(laws[1], laws[1]) + rng.normal(0, 0.01, (4, 4))
    found, _ = best_types((alone + alone.T) / 2, 0.01)
    assert len(found) == 1


@pytest.mark.parametrize("unit", ["household", "person"])
def test_members_whose_first_attribute_can_be_missing(unit):
    text = ALIKE.format(most=6, least=1).replace("ordered = true", "ordered = true\nmissing = true")
    tables = alike(np.random.default_rng(2).integers(1, 7, 300), seed=2)
    marks = [None if place % 3 == 0 else mark for place, mark in enumerate(tables["people"]["mark"].to_pylist())]
    tables["people"] = tables["people"].set_column(1, "mark", pa.array(marks, pa.int64()))
    source = us.open_households(tables, schema(text))
    made = us.synthesize(source, budget=us.ApproxDP(epsilon=8, delta="1e-6"), unit=unit, stream=SeededStream(2))
    share = made.members()["mark"].null_count / made.members().num_rows
    assert 0.2 <= share <= 0.45
