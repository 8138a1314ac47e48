"""Counts of clusters: how far one unit moves them, by enumeration, and that the gate charges for exactly that."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.core.counts import Clustered
from understudy.engines.counting.cluster_counts import cluster_counts
from understudy.errors import InputError, LargeClustersWarning, SchemaError, UnsupportedError
from understudy.privacy.promise.definition import Unit
from understudy.privacy.promise.sensitivity import neighbours_sensitivity, sizes_sensitivity
from understudy.privacy.randomness.streams import SeededStream
from understudy.release.table_checks import found_again
from understudy.synth.shared.measured_effects import classes_of

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
LEVELS = 2
Rows = tuple[tuple[int, int], ...]  # pairs of a cluster and a level


class Order:
    """Words that put rows in a given order."""

    def __init__(self, order: tuple[int, ...]) -> None:
        self._order = order

    def words(self, count: int, *purpose: str | int) -> np.ndarray:
        assert count == len(self._order)
        return np.array(self._order, np.uint64)


def counted(rows: Rows, order: tuple[int, ...], largest: int = 9) -> tuple[np.ndarray, np.ndarray]:
    clusters = np.array([one for one, _ in rows], np.int64)
    codes = {"a": np.array([level for _, level in rows], np.int64)}
    found = cluster_counts(clusters, codes, {"a": tuple(range(LEVELS))}, largest=largest, stream=Order(order))
    return found.neighbours["a"], found.sizes


def by_hand(rows: Rows, order: tuple[int, ...], largest: int) -> tuple[list[int], list[int]]:
    """The same counts, written down once more: each row with the next of its cluster, in the order of the words."""
    table, squared = [0] * LEVELS**2, 0
    for cluster in {one for one, _ in rows}:
        own = sorted((place for place, row in enumerate(rows) if row[0] == cluster), key=lambda place: order[place])
        most = min(len(own), largest)
        squared += most * (most - 1)
        if len(own) > 1:
            for first, second in zip(own, [*own[1:], own[0]], strict=True):
                table[rows[first][1] * LEVELS + rows[second][1]] += 1
    return table, [squared, len(rows)]


def test_pairs_and_sizes_are_those_by_hand() -> None:
    rng = np.random.default_rng(3)
    for _ in range(60):
        count = int(rng.integers(0, 9))
        rows = tuple((int(rng.integers(4)), int(rng.integers(LEVELS))) for _ in range(count))
        order = tuple(int(one) for one in rng.permutation(count))
        table, sizes = counted(rows, order, largest=3)
        assert (table.tolist(), sizes.tolist()) == by_hand(rows, order, 3)


def moves(largest: int, others_at_most: int) -> dict[str, list[tuple[np.ndarray, np.ndarray]]]:
    """What one row more, or another row, changes: in all data of a few other rows in two clusters, in every order of
    the rows. The others keep their words."""
    found: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {"add_remove": [], "replace": []}
    kinds = list(product(range(2), range(LEVELS)))
    for count in range(others_at_most + 1):
        for rows in product(kinds, repeat=count):
            for order in permutations(range(count + 1)):
                others = tuple(int(one) for one in np.argsort(np.argsort(order[:-1])))
                without = counted(rows, others, largest)
                withs = [counted((*rows, own), order, largest) for own in kinds]
                found["add_remove"] += [(one[0] - without[0], one[1] - without[1]) for one in withs]
                found["replace"] += [(b[0] - a[0], b[1] - a[1]) for a, b in product(withs, repeat=2)]
    return found


@pytest.mark.parametrize("others", [3, pytest.param(4, marks=pytest.mark.full)])
def test_one_row_moves_pairs_and_sizes_by_no_more_than_is_charged(others: int) -> None:
    largest = others
    for form, changed in moves(largest, others).items():
        unit = Unit(kind=form)  # type: ignore[arg-type]
        for place, bound in ((0, neighbours_sensitivity(unit, "c")), (1, sizes_sensitivity(unit, "c", largest))):
            seen = np.array([one[place] for one in changed])
            l1, l2 = int(np.abs(seen).sum(axis=1).max()), int((seen**2).sum(axis=1).max())
            assert l1 <= bound.l1
            assert l2 <= bound.l2_squared
            assert int(np.abs(seen).max()) <= bound.linf
            if place == 1 or form == "add_remove":  # and not by much less: the bound is met
                assert (l1, l2) == (bound.l1, bound.l2_squared)


def test_a_whole_cluster_moves_only_its_own_pairs() -> None:
    unit = Unit(kind="replace", unit_id="c", rows_per_unit=3)
    pairs, sizes = neighbours_sensitivity(unit, "c"), sizes_sensitivity(unit, "c", 9)
    for before, after in product(product(range(LEVELS), repeat=3), repeat=2):
        old, new = (counted(tuple((0, level) for level in one), (0, 1, 2)) for one in (before, after))
        moved = new[0] - old[0]
        assert np.abs(moved).sum() <= pairs.l1
        assert (moved**2).sum() <= pairs.l2_squared
    alone, full = (counted(tuple((place, 0) for place in one), (0, 1, 2)) for one in ((0, 1, 2), (0, 0, 0)))
    assert abs(int(full[1][0] - alone[1][0])) == sizes.l1 == 6


def test_every_order_of_a_cluster_is_equally_likely() -> None:
    """Who follows whom in a cluster of three: two ways round. False alarm below 1e-6 (normal law, 5 deviations)."""
    clusters, codes = np.zeros(3, np.int64), {"a": np.arange(3)}
    seen: Counter[tuple[int, ...]] = Counter()
    for seed in range(2000):
        found = cluster_counts(clusters, codes, {"a": (0, 1, 2)}, largest=3, stream=SeededStream(seed))
        seen[tuple(found.neighbours["a"].tolist())] += 1
    assert len(seen) == 2
    assert abs(min(seen.values()) - 1000) < 5 * 22.4


def test_codes_are_put_into_few_classes() -> None:
    assert classes_of(us.Attribute(name="a", levels=("x", "y"))) == (0, 1)
    assert classes_of(us.Attribute(name="a", levels=tuple("abcdefghi"))) == (0, 0, 0, 1, 1, 2, 2, 3, 3)


def survey(**more: object) -> us.Schema:
    design: dict[str, object] = {"clusters": "c", "measure_effects": True, "largest_cluster": 4, **more}
    return us.Schema(
        attributes=(us.Attribute(name="a", levels=("x", "y")), us.Attribute(name="b", levels=("p", "q", "r"))),
        weight=us.Weight(column="w", bounds=(1, 20)),
        design=us.Design(**design),  # type: ignore[arg-type]
    )


def households(count: int = 1500) -> pa.Table:
    """Households of four who all say the same of ``a``, and what they like of ``b``."""
    rng = np.random.default_rng(1)
    rows = 4 * count
    return pa.table(
        {
            "a": np.repeat(rng.choice(["x", "y"], count), 4),
            "b": rng.choice(["p", "q", "r"], rows),
            "w": rng.uniform(1, 20, rows).round(2),
            "c": np.repeat(np.arange(count), 4),
        }
    )


def release(schema: us.Schema, table: pa.Table, **more: object) -> us.Release:
    given = {"budget": us.ApproxDP(epsilon=2, delta="1e-6"), "method": "ipf", "stream": SeededStream(5), **more}
    return us.synthesize(us.open_source(table, schema), **given)  # type: ignore[arg-type, return-value]


@pytest.fixture(scope="module")
def measured() -> us.Release:
    return release(survey(), households())


def test_effects_are_those_of_the_clusters(measured: us.Release) -> None:
    effects = dict(measured.schema.design.measured_effects)
    assert 3.6 < effects["a"] <= 4.5  # rows of a cluster are all alike: four times the variance
    assert 0.6 < effects["b"] < 1.9  # not alike at all, and one standard error is added
    assert measured.schema.declared.design.measured_effects == ()
    assert any("Measured design effects" in note for note in measured.provenance.notes)


def test_they_make_intervals_longer(measured: us.Release) -> None:
    plain = release(survey(measure_effects=False, design_effects={"*": 1.0}), households())
    asked = (us.infer(one, "proportion(a == 'x')", rng=np.random.default_rng(1)) for one in (measured, plain))
    wide, narrow = (one.high - one.low for one in asked)
    assert 1.5 < wide / narrow < 2.3


def test_declared_effects_are_not_measured() -> None:
    plan = us.plan(survey(design_effects={"a": 3.0}), budget=us.ApproxDP(epsilon=2, delta="1e-6"), method="ipf")
    labels = [step.label for step in plan.steps if step.label.startswith("clusters")]
    assert labels == ["clusters: neighbours by b", "clusters: sizes"]


@pytest.mark.parametrize("unit", ["replace", "add_remove"])
@pytest.mark.parametrize("budget", [us.PureDP(epsilon=2), us.ApproxDP(epsilon=2, delta="1e-6"), us.ZCDP(rho="0.1")])
def test_the_whole_way_is_charged_and_verified(unit: str, budget: object, tmp_path: object) -> None:
    folder = tmp_path / "out"  # type: ignore[operator]
    rows = None if unit == "replace" else 800
    made = release(survey(), households(200), budget=budget, unit=Unit(kind=unit), rows=rows, out=folder)  # type: ignore[arg-type]
    assert len(made.schema.design.measured_effects) == 2
    checks = us.verify(folder)
    assert all(one.passed for one in checks)
    assert any("design effect" in one.detail for one in checks)
    again = us.read_release(folder)
    assert again.schema.design == made.schema.design


def test_a_changed_effect_is_found_out(tmp_path: object) -> None:
    made = release(survey(), households(200))
    design = replace(made.schema.design, measured_effects=(("a", 1.1), ("b", 1.0)))
    forged = replace(made, schema=replace(made.schema, design=design))
    with pytest.raises(InputError, match="design effects"):
        found_again(forged)


def test_whole_clusters_can_be_protected() -> None:
    schema = survey(protects="cluster")
    unit = Unit(kind="replace", unit_id="c", rows_per_unit=4)
    made = us.synthesize(us.open_source(households(800), schema, unit_id="c"), unit=unit, method="ipf",
                         budget=us.ApproxDP(epsilon=4, delta="1e-6"), stream=SeededStream(2))  # fmt: skip
    assert dict(made.schema.design.measured_effects)["a"] > 3


def test_numbers_whose_bins_are_found_have_an_effect_too() -> None:
    table = households(600)
    income = np.repeat(np.random.default_rng(2).lognormal(10, 0.5, 600), 4)
    table = table.append_column("income", pa.array(np.minimum(income, 150000)))
    schema = survey()
    more = us.Attribute(name="income", bounds=(0, 150000), heavy_tail=True)
    schema = replace(schema, attributes=(*[one for one in schema.attributes if one.name != "w"], more))
    made = release(schema, table)
    assert dict(made.schema.design.measured_effects)["income"] > 2.5


def test_clusters_are_counted_within_strata() -> None:
    """A number of a cluster may come again in another stratum."""
    table = pa.table({"a": ["x", "y", "x", "y"], "b": ["p", "p", "q", "q"], "w": [1.0] * 4, "c": [1, 1, 1, 1]})
    source = us.open_source(table, survey())
    assert isinstance(source, Clustered)
    apart, together = (
        source.count_clusters("c", {"a": (0, 1)}, largest=4, within=one, stream=SeededStream(1)) for one in ("b", "")
    )
    assert apart.sizes.tolist() == [4, 4]
    assert together.sizes.tolist() == [12, 4]


def test_what_cannot_be_counted_is_refused() -> None:
    with pytest.raises(SchemaError, match="largest_cluster"):
        us.Design(clusters="c", measure_effects=True)
    with pytest.raises(SchemaError, match="largest_cluster"):
        us.Design(measure_effects=True, largest_cluster=4)
    table = households(50)
    with pytest.raises(InputError, match="column of clusters"):
        release(survey(), table.drop_columns(["c"]))
    gap = table.set_column(3, "c", pa.array([None, *range(199)], pa.int64()))
    with pytest.raises(InputError, match="1 row\\(s\\) have no 'c'"):
        release(survey(), gap)
    with pytest.raises(UnsupportedError, match="cannot count clusters"):
        us.synthesize(Other(us.open_source(table, survey())), budget=us.ApproxDP(epsilon=2, delta="1e-6"), method="ipf")


def test_clusters_larger_than_the_schema_says_are_counted_and_said() -> None:
    with pytest.warns(LargeClustersWarning, match="50 cluster\\(s\\) of 'c' have more than 3 rows"):
        release(survey(largest_cluster=3), households(50))


class Other:
    """A source that cannot count clusters."""

    def __init__(self, source: object) -> None:
        self._source = source
        self.schema = source.schema  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> object:
        if name in ("count_clusters", "require_clusters"):
            raise AttributeError(name)
        return getattr(self._source, name)

    def count_sparse(self, margin: tuple[str, ...]) -> object:
        return self._source.count_sparse(margin)  # type: ignore[attr-defined]
