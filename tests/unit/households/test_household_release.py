"""A release of households from end to end: run, folder, verify, resume, sample, export, questions, evaluation."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.core.linked_schema_file import parse_any_schema
from understudy.demo.families import FAMILIES_SCHEMA, make_families
from understudy.errors import InputError, UnsupportedError
from understudy.evaluation.risk import joined_board_frames
from understudy.households.household_release import HouseholdRelease, check_families
from understudy.households.methods.families import public_tables
from understudy.households.pair_tables import pair_tables, total_variation
from understudy.release.folder import hash_file

DERIVED = """
[[derived]]
name = "oldest"
function = "max"
of = "age"

[[derived]]
name = "years"
function = "equivalised"
of = "age"
age = "age"
"""
BUDGET = us.ApproxDP(epsilon=16, delta="1e-5")


def schema() -> us.LinkedSchema:
    found = parse_any_schema(FAMILIES_SCHEMA + DERIVED)
    assert isinstance(found, us.LinkedSchema)
    return found


def made(**how) -> HouseholdRelease:
    with warnings.catch_warnings(action="ignore"):
        return us.synthesize(make_families(800, seed=1), schema=schema(), budget=BUDGET, **how)


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> HouseholdRelease:
    return made(unit="household", copies=2, out=tmp_path_factory.mktemp("homes") / "release", csv=True)


@pytest.fixture(scope="module")
def folder(release, tmp_path_factory):
    return release.write(tmp_path_factory.mktemp("again") / "release")


def test_whole_households_that_fit_together(release, folder):
    assert all(check.passed for check in us.verify(folder)), us.verify(folder)
    again = us.read_release(folder)
    assert isinstance(again, HouseholdRelease)
    assert again.frame(2).equals(release.frame(2)) or again.frame(2).num_rows == release.frame(2).num_rows
    for copy in (1, 2):
        members, households = again.members(copy).to_pandas(), again.households(copy).to_pandas()
        assert len(households) == 800
        counted = members.groupby("household").size()
        assert (counted.to_numpy() == households["size"].to_numpy()).all()
        heads = members[members["role"] == "reference"].set_index("household")["age"]
        assert len(heads) == 800
        for _, child in members[members["role"] == "child"].iterrows():
            assert child["age"] < heads[child["household"]]
        assert (members.groupby("household")["age"].max().to_numpy() == households["oldest"].to_numpy()).all()


def test_members_belong_together(release):
    truth = us.open_households(make_families(800, seed=1), schema()).confidential_families()
    alone = np.random.default_rng(0).permutation(len(truth.owner))
    mixed = truth.members.columns["age"][alone]
    ages = {kind: dict(pair_tables(truth, kind))["age", "age"] for kind in ("partners", "parent and child", "siblings")}
    shuffled = type(truth)(
        schema=truth.schema, households=truth.households, owner=truth.owner, role=truth.role,
        members=type(truth.members)(
            schema=truth.members.schema, columns={**truth.members.columns, "age": mixed}
        ),
    )  # fmt: skip
    for kind, table in ages.items():
        ours = total_variation(table, dict(pair_tables(release.linked(), kind))["age", "age"])
        theirs = total_variation(table, dict(pair_tables(shuffled, kind))["age", "age"])
        assert ours < 0.6 * theirs, kind


def test_a_changed_folder_fails(folder, tmp_path):
    def spoilt(change) -> list[str]:
        import json
        import shutil

        place = tmp_path / f"spoilt{len(list(tmp_path.iterdir()))}"
        shutil.copytree(folder, place)
        table = pq.read_table(place / "synthetic_1.parquet").to_pandas()
        kept = pq.read_schema(place / "synthetic_1.parquet")
        change(table)
        pq.write_table(pa.Table.from_pandas(table, schema=kept.remove_metadata(), preserve_index=False),
                       place / "synthetic_1.parquet")  # fmt: skip
        manifest = json.loads((place / "manifest.json").read_text())
        manifest["files"]["synthetic_1.parquet"] = hash_file(place / "synthetic_1.parquet")
        (place / "manifest.json").write_text(json.dumps(manifest))
        return [check.name for check in us.verify(place) if not check.passed]

    def older(table):
        table.loc[table["role"] == "child", "age"] = 94

    def moved(table):
        table.loc[0, "household"] = 2

    def renamed(table):
        table["role"] = "child"

    assert spoilt(older) == ["households"]
    assert spoilt(moved) == ["households"]
    assert spoilt(renamed) == ["households"]


@pytest.mark.parametrize("unit", ["person", "add_remove"])
def test_other_units(unit):
    found = made(unit=unit)
    assert found.statement.unit.unit_id == ("person" if unit == "person" else "household")
    if unit == "person":
        assert found.statement.unit.fixed == ("income", "region", "size")
        truth = us.open_households(make_families(800, seed=1), schema()).confidential_families()
        sizes = np.bincount(truth.by_role.sum(axis=1), minlength=7)
        assert np.abs(np.bincount(found.households().column("size").to_numpy(), minlength=7) - sizes).max() <= 25
        assert "region" in found.statement.protected
    else:
        assert found.provenance.records is None
    assert check_families(found, 1) == found.households().num_rows


def test_a_run_that_died_is_resumed_without_the_data(tmp_path, monkeypatch):
    from understudy.households.methods import families

    whole = families.draw_families

    def die(*_args, **_how):
        raise InputError("the power went off.")

    monkeypatch.setattr(families, "draw_families", die)
    ledger = tmp_path / "budget.db"
    us.Ledger.create(ledger).create_account("homes", unit=us.Unit(unit_id="household"), limit=BUDGET)
    with pytest.raises(InputError, match="understudy resume"):
        made(unit="household", out=tmp_path / "release", ledger=ledger, account="homes")
    monkeypatch.setattr(families, "draw_families", whole)
    (run,) = tmp_path.glob("release.partial-*")
    found = us.resume(run)
    assert isinstance(found, HouseholdRelease)
    assert all(check.passed for check in us.verify(tmp_path / "release"))
    assert us.verify_ledger(ledger, against=tmp_path / "release").ok


def test_sample_and_export(release, folder, tmp_path):
    larger = us.sample(release, rows=1500)
    assert larger.households().num_rows == 1500
    assert check_families(larger, 1) == 1500
    assert all(check.passed for check in us.verify(us.write_sample(release, tmp_path / "more", rows=100)))
    out = us.export(folder, to="csv", out=tmp_path / "csv")
    names = sorted(file.name for file in out.iterdir())
    assert names == ["README.txt", *(f"{part}_{copy}.csv" for part in ("households", "joined", "persons")
                                     for copy in (1, 2))]  # fmt: skip
    with pytest.raises(UnsupportedError, match="csv"):
        us.export(release, to="r", out=tmp_path / "r")
    with pytest.raises(InputError, match="rows"):
        us.sample(release, rows=0)


def test_questions_about_households_and_about_members(release):
    alone = us.infer(release, "proportion(size == 1)")
    assert alone.labels == ("valid",)
    one = alone.estimates[0]
    assert 0.2 < one.low < one.value < one.high < 0.5
    truth = us.open_households(make_families(800, seed=1), schema()).confidential_families()
    low = truth.households.columns["income"] == 0
    counts = {None: np.ones(800), "member": truth.by_role.sum(axis=1), "child": truth.by_role[:, 2]}
    values = []
    for kind, count in counts.items():
        found = us.infer(release, "proportion(income == 'low')", weighted=kind).estimates[0]
        # The interval is for the population, so its width bounds the noise: three widths are over ten deviations.
        assert abs(found.value - (count * low).sum() / count.sum()) < 3 * (found.high - found.low)
        values.append(found.value)
    assert len(set(values)) == 3
    with pytest.raises(InputError, match="member"):
        us.infer(release, "proportion(income == 'low')", weighted="aunt")
    assert us.questions(release, "reference_age", "partner_age")


def test_evaluation_at_both_levels(release):
    found = us.evaluate(release, make_families(800, seed=1), parts=["utility"])
    kinds = set(found.utility.frames["belonging"]["kind"].to_pylist())
    assert {"partners", "parent and child", "siblings"} <= kinds
    assert set(found.utility.frames["levels"]["level"].to_pylist()) == {"households", "members"}
    assert all(one.audience == "internal" for one in found.utility.findings)
    assert next(one for one in found.utility.findings if one.code == "impossible_households").value == 0
    for row in found.utility.frames["correlations"].to_pylist():
        if row["kind"] == "partners":
            assert abs(row["confidential"] - row["synthetic"]) < 0.4
    with pytest.raises(InputError, match="homes"):
        us.evaluate(release, make_families(10), keys=["age"])


@pytest.mark.full
def test_attacks_at_both_levels(release):
    found = us.evaluate(release, make_families(800, seed=1), parts=["risk"], holdout=make_families(300, seed=2))
    names = set(found.risk.frames)
    assert {"households_attacks", "members_attacks"} <= names
    assert all(one.audience == "internal" for one in found.risk.findings)
    three = found.risk.frames["first_screen"].to_pylist()
    assert three[0]["title"] == "Because somebody took part"
    assert all(row["sentence"].startswith("Asked about ") for row in three)
    assert "The guarantee allows at most" in three[0]["sentence"]
    lines = found.risk.frames["in_everyday_words"].to_pylist()
    assert {"single members", "whole households"} <= {line["attack"].rsplit("(", 1)[1].rstrip(")") for line in lines}


def test_one_first_screen_for_households_and_members():
    """The sentence of the part where more is found, and no 'no guarantee' where there is one for another unit."""
    found = {}
    for name, data, made in (("single members", 1, 1), ("whole households", 1, 2)):
        people, others = (_people(seed) for seed in (data, 3))
        table = us.wrap(_people(made), SMALL)
        found[name] = us.attack(table, people, holdout=others)
    board = joined_board_frames(found, {"single members": "ONE"})
    first = board["first_screen"].to_pylist()
    assert first[0]["sentence"].startswith("Asked about single members: ")  # they are copied, the others are not
    assert first[0]["sentence"].endswith("ONE")
    assert {row["part"] for row in board["person_part"].to_pylist()} == set(found)
    lights = [line["light"] for line in board["in_everyday_words"].to_pylist()]
    assert lights[0] == "red"
    assert len(lights) == sum(one.frames["in_everyday_words"].num_rows for one in found.values())


SMALL = us.Schema(
    attributes=(
        us.Attribute(name="a", levels=tuple(range(8)), ordered=True),
        us.Attribute(name="b", levels=tuple(range(9)), ordered=True),
        us.Attribute(name="c", levels=tuple(range(10)), ordered=True),
        us.Attribute(name="d", levels=tuple(range(11)), ordered=True),
    )
)


def _people(seed):
    draw = np.random.default_rng(seed)
    return pa.table({one.name: draw.integers(0, one.size, 150) for one in SMALL.attributes})


def test_units_and_options_that_are_refused():
    one = schema()
    with pytest.raises(InputError, match="household"):
        us.plan(one, budget=BUDGET, unit=us.Unit(rows_per_unit=2))
    with pytest.raises(InputError, match="what members are is protected"):
        us.plan(one, budget=BUDGET, unit=us.Unit(fixed=("partner_age",)))
    with pytest.raises(InputError, match="choose"):
        us.plan(one, budget=BUDGET, choose="luck")
    with pytest.raises(InputError, match="person"):
        us.plan(one, budget=BUDGET, unit="neighbour")
    with pytest.raises(InputError, match="pairs"):
        us.plan(one, budget=BUDGET, pairs=False)
    with pytest.raises(InputError, match="model_cells"):
        us.plan(one, budget=BUDGET, choose="independent", model_cells=10)
    with pytest.raises(UnsupportedError, match="no guarantee"):
        us.plan(one, budget=us.NonPrivate())


def test_tables_are_chosen_by_public_facts_alone():
    one = schema()
    tables = public_tables(one, 1_000_000)
    assert ("composition",) in tables
    assert ("reference_age", "partner_age") in tables
    assert {name for table in tables for name in table} == set(one.wide.names)
    few = public_tables(one, 2_000)
    assert len(few) < len(tables)
    assert {name for table in few for name in table} == set(one.wide.names)


@pytest.mark.parametrize("count", [2, 8, 15, 40])
def test_people_of_a_picture_stand_side_by_side(count, monkeypatch, tmp_path):
    from matplotlib.axes import Axes
    from matplotlib.patches import Polygon

    from understudy.figures.families import families

    bodies, add = [], Axes.add_patch

    def noted(axes, patch):
        if isinstance(patch, Polygon):
            bodies.append(patch.get_xy()[:, 0])
        return add(axes, patch)

    monkeypatch.setattr(Axes, "add_patch", noted)
    families([("all", [("member", 30.0, "")] * count)], title="one household").save(tmp_path / "one.svg")
    assert len(bodies) == count
    assert all(one.max() < other.min() for one, other in pairwise(bodies))
