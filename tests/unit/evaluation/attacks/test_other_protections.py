"""Other protections keep what they promise to keep, and stand beside a release at its utility."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.errors import InputError, UnknownNameError, UnsupportedError
from understudy.evaluation.inputs.comparison import compare
from understudy.evaluation.other_protections import (
    IPF,
    IPF_CELLS,
    LIKE,
    PROTECTIONS,
    _groups,
    _own_record,
    _Search,
    _utility,
    margins_of_ipf,
    protect,
)
from understudy.evaluation.shared.ranks import mid_rank_matrix, order_ranks
from understudy.models.junction_tree import tree_cells

MASKS = tuple(name for name in PROTECTIONS if name != IPF)
NOTHING = {name: 1.0 if name == "microaggregation" else 0.0 for name in MASKS}
MORE = {name: (2.0, 8.0, 60.0) if name == "microaggregation" else (0.05, 0.3, 1.0) for name in MASKS}


@pytest.fixture(scope="module")
def material(schema, tables):
    return compare(us.wrap(tables["other"], schema), us.open_source(tables["data"], schema))


def utility(material, records):
    return _utility(material, (records,))


@pytest.mark.parametrize("protection", MASKS)
def test_no_strength_changes_nothing_and_more_moves_more(material, protection):
    original = material.people
    same = protect(original, protection, NOTHING[protection], 1)
    assert np.array_equal(same.codes, original.codes)
    assert np.array_equal(same.positions, original.positions)
    distances = [utility(material, protect(original, protection, s, 1)) for s in MORE[protection]]
    assert distances == sorted(distances)
    assert distances[0] > 0


@pytest.mark.parametrize("protection", ["noise", "swap"])
def test_margins_are_restored_exactly(material, protection):
    made = protect(material.people, protection, 0.2, 1)
    assert np.array_equal(np.sort(made.positions, axis=0), np.sort(material.people.positions, axis=0))


def test_swapped_ranks_stay_in_their_window(material):
    made = protect(material.people, "swap", 0.1, 1)
    for j in range(made.positions.shape[1]):
        order = np.argsort(material.people.positions[:, j], kind="stable")
        values = np.sort(material.people.positions[:, j])
        place = order_ranks(material.people.positions[:, j])[order]
        window = int(np.ceil(0.1 * len(order)))
        low = values[np.maximum(place - 1 - window, 0)]
        high = values[np.minimum(place - 1 + window, len(values) - 1)]
        moved = made.positions[order, j]
        assert np.all((low <= moved) & (moved <= high))


@pytest.mark.parametrize("size", [1.0, 1.5, 3.0, 3.7, 20.0])
def test_groups_have_the_least_size_and_are_halved_while_they_can_be(size):
    ranks = np.random.default_rng(3).uniform(size=(500, 3))
    sizes = np.bincount(_groups(ranks, size, np.random.default_rng(0)))
    assert sizes.sum() == 500
    assert sizes.min() >= np.floor(size)
    assert sizes.max() < 2 * (np.floor(size) + 1)
    if size % 1 == 0:
        assert sizes.max() < 2 * size


def test_a_group_gets_its_middle_or_its_most_frequent_level(material):
    nominal = material.nominal(list(range(len(material.names))))
    size = float(len(material.people))
    made = protect(material.people, "microaggregation", size, 1, nominal)
    for j, unordered in enumerate(nominal):
        assert len(np.unique(made.codes[:, j])) == 1
        codes = material.people.codes[:, j]
        if unordered:
            assert made.codes[0, j] == np.bincount(codes).argmax()
        else:
            assert made.positions[0, j] == np.sort(material.people.positions[:, j])[(len(codes) - 1) // 2]


def test_the_strength_is_found(material):
    def make(strength):
        return (protect(material.people, "pram", strength, material.seed),)

    wanted = utility(material, make(0.25)[0])
    search = _Search(comparison=material, make=make, ends=(0.1, 1e-4, 1.0))
    strength = search.strength(wanted, LIKE)
    assert search.visited[strength] == pytest.approx(wanted, rel=LIKE)


def test_own_records_are_found_as_a_loop_finds_them(material):
    made = protect(material.people, "microaggregation", 3.0, 1)
    people, ranks = mid_rank_matrix(material.people.positions), mid_rank_matrix(made.positions)
    chances = []
    for i in range(40):
        apart = np.abs(people[i] - ranks).sum(axis=1)
        nearest = np.flatnonzero(apart == apart.min())
        chances.append(1 / len(nearest) if i in nearest else 0.0)
    assert _own_record(people, ranks, np.arange(40)) == pytest.approx(np.mean(chances))
    assert 0 < np.mean(chances) < 1


@pytest.mark.parametrize("others", [("noise",), pytest.param(("noise", *PROTECTIONS[1:]), marks=pytest.mark.full)])
def test_protections_stand_at_the_utility_of_the_release(schema, tables, others):
    source = us.open_source(tables["data"], schema)
    found = us.attack(us.wrap(tables["other"], schema), source, targets=["school"], only=["matching"], beside=others)
    rows = found.frames["beside"].to_pylist()
    assert list(dict.fromkeys(row["method"] for row in rows)) == ["the release, one copy", *others]
    for method in others:
        curve = [row for row in rows if row["method"] == method]
        assert sum(row["like_utility"] for row in curve) >= 1 or curve[0]["note"]
        assert len(curve) > 1
        scores = [row["mean_s_pmse"] for row in curve]
        assert scores == sorted(scores)
    noise = [row for row in rows if row["method"] == "noise"]
    like = next(row for row in noise if row["like_utility"])
    assert like["mean_s_pmse"] == pytest.approx(rows[0]["mean_s_pmse"], rel=LIKE)
    # Masked records are somebody's; the more useful they are, the easier the person is found.
    assert noise[0]["own_record"] > noise[-1]["own_record"]
    assert rows[0]["own_record"] is None
    assert any(finding.code == "risk.beside" for finding in found.findings)


def test_an_unknown_protection_is_named_before_anything_is_read(schema, tables):
    release = us.wrap(tables["other"], schema)
    with pytest.raises(UnknownNameError, match="'noisy' is unknown"):
        us.attack(release, "no such file.csv", beside=["noisy"])
    with pytest.raises(InputError, match="must be a list"):
        us.attack(release, "no such file.csv", beside="noise")


def test_one_attribute_alone_is_refused(schema, tables):
    alone = us.Schema(attributes=(schema["school"],))
    made, data = (tables[name].select(["school"]) for name in ("other", "data"))
    with pytest.raises(InputError, match="one attribute only"):
        us.attack(us.wrap(made, alone), us.open_source(data, alone), only=["cell_counts"], beside=["noise"])


def wide(names):
    """Many attributes of which the first two agree, in the data and in the release."""
    schema = us.Schema(attributes=tuple(us.Attribute(name=name, levels=tuple(range(12))) for name in names))
    draws = [np.random.default_rng(seed).integers(0, 12, (200, len(names))) for seed in (1, 2)]
    data, made = ({name: rows[:, max(j, 1)] for j, name in enumerate(names)} for rows in draws)
    return us.wrap(pa.table(made), schema), us.open_source(pa.table(data), schema)


def test_ipf_measures_the_pairs_that_depend_most_where_a_model_cannot_hold_all():
    release, rows = wide([f"x{j}" for j in range(25)])
    margins, note = margins_of_ipf(compare(release, rows))
    chosen = [tuple(margin.split("+")) for margin in margins.split(", ")]
    assert chosen[0] == ("x0", "x1")
    assert set().union(*chosen) == set(release.schema.names)
    assert tree_cells(dict.fromkeys(release.schema.names, 12), chosen) <= IPF_CELLS
    pairs = [margin for margin in chosen if len(margin) == 2]
    assert note.startswith(f"{len(pairs)} of 300 two-way tables are measured")
    assert len(pairs) > 24
    few, whole = wide(["x0", "x1", "x2"])
    assert margins_of_ipf(compare(few, whole)) == ("2", "")


def test_ipf_that_cannot_be_run_is_refused_before_the_work():
    release, rows = wide(["x,0", *(f"x{j}" for j in range(1, 25))])  # a list of margins has no such name
    with pytest.raises(UnsupportedError, match="'ipf' cannot be put beside this release"):
        us.attack(release, rows, beside=["ipf"])
