"""Tables of the ages of two members, smooth along their difference."""

from __future__ import annotations

import numpy as np
import pytest

import understudy as us
from understudy.core.linked_schema_file import parse_any_schema
from understudy.core.measurement import Measurement
from understudy.demo.families import FAMILIES_SCHEMA
from understudy.households.pair_tables import total_variation
from understudy.households.shared.differences import by_difference, smooth_pairs, smoothed

MIDDLES = np.arange(5.0, 105.0, 10.0)


def couples(count: float) -> np.ndarray:
    """A table of ages of partners, about as old as each other."""
    apart = MIDDLES[None, :] - MIDDLES[:, None]
    table = np.exp(-(((MIDDLES[:, None] - 50) / 25) ** 2) - (apart / 9) ** 2)
    return table * (count / table.sum())


@pytest.mark.parametrize("deviation", [5.0, 20.0])
def test_the_smooth_table_is_nearer_and_says_how_near(deviation):
    rng, true = np.random.default_rng(3), couples(2500)
    possible = np.ones(true.shape, dtype=bool)
    before, after, said, left = [], [], [], []
    for _ in range(10):
        noisy = true + rng.normal(0, deviation, true.shape)
        table, variance = by_difference(noisy, deviation**2, MIDDLES, possible)
        before.append(total_variation(np.maximum(noisy, 0), true))
        after.append(total_variation(np.maximum(table, 0), true))
        said.append(variance)
        left.append(float(((table - true) ** 2).mean()))
    assert np.mean(after) <= 0.7 * np.mean(before)
    assert 0.4 <= np.mean(said) / np.mean(left) <= 1.5


def test_what_stands_clear_of_noise_stays():
    rng, true = np.random.default_rng(4), couples(40_000)
    true[1, 8] += 3000  # nothing of their difference says so
    noisy = true + rng.normal(0, 2, true.shape)
    table, _ = by_difference(noisy, 4.0, MIDDLES, np.ones(true.shape, dtype=bool))
    assert abs(table[1, 8] - true[1, 8]) <= 20


def test_impossible_cells_stay_empty():
    true = couples(1000)
    possible = np.abs(MIDDLES[None, :] - MIDDLES[:, None]) <= 30
    noisy = np.where(possible, true + np.random.default_rng(5).normal(0, 9, true.shape), 0.0)
    table, _ = by_difference(noisy, 81.0, MIDDLES, possible)
    assert not table[~possible].any()


def test_only_tables_of_the_first_attribute_of_two_members_change():
    schema = parse_any_schema(FAMILIES_SCHEMA)
    noise = us.DiscreteGaussian(scale=9)
    rng = np.random.default_rng(6)

    def measured(*names: str) -> Measurement:
        margin = schema.wide.margin(names)
        shape = schema.wide.shape(margin)
        values = np.where(schema.wide.allowed(margin), rng.integers(0, 60, shape), 0)
        return Measurement(margin=margin, values=values, mechanism=noise, label="-")

    ages, other = measured("reference_age", "partner_age"), measured("reference_age", "reference_works")
    found = smoothed(schema, [ages, other])
    assert found[1] is other
    assert found[0].mechanism.variance < noise.variance
    none = schema.none_code("age")
    assert (found[0].values[:, none] == ages.values[:, none]).all()  # whoever has no partner is counted as before
    assert (found[0].values != ages.values).any()


def test_pairs_of_members_are_the_same_from_both_sides():
    text = (
        FAMILIES_SCHEMA[: FAMILIES_SCHEMA.index("[roles]")] + FAMILIES_SCHEMA[FAMILIES_SCHEMA.index("[[attribute]]") :]
    )
    schema = parse_any_schema(text[: text.index("[[impossible]]")])
    values = np.rint(couples(900) + np.random.default_rng(7).normal(0, 6, (10, 10))).astype(np.int64)
    pairs = Measurement(margin=schema.pairs.names, values=values, mechanism=us.DiscreteGaussian(scale=6), label="-")
    table, variance = smooth_pairs(schema, pairs)
    assert np.allclose(table, table.T, rtol=0.05, atol=1.0)
    assert variance < 18.0
    assert (table >= 0).all()
