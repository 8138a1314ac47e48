"""Bins and the density inside them from noisy counts: exact numbers where noise is small, sane ones where it is not."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from understudy import Attribute, Schema
from understudy.core.bins import bins_of, tilts_of
from understudy.core.table import CodedTable
from understudy.engines.reading.decode import decode
from understudy.models.found_bins import cell_counts, find_bins, levels_of, number_of_bins
from understudy.models.smooth_bins import moved_to_curve
from understudy.privacy.randomness.streams import SeededStream

INCOME = Attribute(name="income", bounds=(0, 500_000), heavy_tail=True)


def noisy_levels(attribute, values, deviation, seed):
    edges = np.array(attribute.edges, dtype=float)
    counts = np.histogram(values, edges)[0]
    rng = np.random.default_rng(seed)
    levels = levels_of(attribute)
    told = [
        np.bincount(np.array(level), counts) + np.rint(rng.normal(0, deviation, max(level) + 1)) for level in levels
    ]
    return counts, told, [deviation**2] * len(levels)


def incomes(size=15_000, seed=3):
    rng = np.random.default_rng(seed)
    amounts = np.exp(rng.normal(9.5, 0.7, size))
    return np.where(rng.random(size) < 0.3, 0.0, amounts).clip(0, 500_000)


def middles(attribute):
    edges = np.array(attribute.edges, dtype=float)
    return (edges[:-1] + edges[1:]) / 2


def test_every_code_is_in_one_group_of_every_level_and_zero_is_alone():
    for level in levels_of(
        Attribute(name="income", bounds=(0, 500_000), heavy_tail=True, missing=True, special={-8: "no"})
    ):
        assert set(level) == set(range(max(level) + 1))
        assert len(level) == INCOME.size + 2
        assert level.count(level[0]) == 1  # the cell of zero
        assert level.count(level[-1]) == level.count(level[-2]) == 1


@pytest.mark.parametrize(("deviation", "most"), [(0.1, 0.01), (25.0, 0.06)])
def test_the_mean_comes_out_however_wide_the_bounds(deviation, most):
    values = incomes()
    for seed in range(4):
        counts, told, variances = noisy_levels(INCOME, values, deviation, seed)
        found = cell_counts(INCOME, told, variances)
        assert abs(found @ middles(INCOME) / found.sum() / values.mean() - 1) < most
        assert abs(found[0] / counts[0] - 1) < 0.02


def test_uniform_bins_would_not_pass_the_same_test():
    """What the noisy counts themselves would say of the tail, without the curve."""
    values = incomes()
    wrong = []
    for seed in range(4):
        _, told, _ = noisy_levels(INCOME, values, 25.0, seed)
        raw = np.maximum(told[0], 0)
        wrong.append(abs(raw @ middles(INCOME) / raw.sum() / values.mean() - 1))
    assert max(wrong) > 0.06


def test_the_number_of_bins_does_not_depend_on_what_was_counted():
    wanted = number_of_bins(INCOME, 16)
    rng = np.random.default_rng(1)
    one = np.zeros(INCOME.bins)
    one[7] = 1
    for counts in (np.zeros(INCOME.bins), np.ones(INCOME.bins), one, rng.random(INCOME.bins) ** 9):
        found = find_bins(INCOME, counts, wanted)
        assert found.bins == wanted
        assert found.edges[:2] == INCOME.edges[:2]  # zero stays a bin of its own
        shares = np.array([share for _, share in found.inside])
        assert (shares >= 0).all()
        assert bins_of(found).shares.sum() == pytest.approx(wanted, rel=1e-6)  # in every bin something can be drawn


def test_means_and_quantiles_follow_the_density_that_was_found():
    values = incomes()
    counts, *_ = noisy_levels(INCOME, values, 0.1, 1)
    found = bins_of(find_bins(INCOME, counts.astype(float), 20))
    shares = np.histogram(values, [*found.low, 500_000])[0] / len(values)
    assert shares @ found.means() == pytest.approx(values.mean(), rel=0.01)
    for at in (0.5, 0.9, 0.99):
        assert found.quantiles(shares[None, :], at)[0] == pytest.approx(np.quantile(values, at), rel=0.05)


def test_days_of_the_week_and_months_are_kept():
    first = datetime.date(2022, 1, 1)
    attribute = Attribute(name="day", bounds=(first, datetime.date(2023, 12, 31)))
    rng = np.random.default_rng(2)
    days = [first + datetime.timedelta(days=int(day)) for day in rng.integers(0, 729, 40_000)]
    days = [day for day in days if day.weekday() < 5 or rng.random() < 0.2]
    days = [day for day in days if day.month != 8 or rng.random() < 0.3]
    cells = np.bincount([(day - first).days for day in days], minlength=attribute.bins)[: attribute.bins]
    levels = levels_of(attribute)
    told = [np.bincount(np.array(level), cells) + np.rint(rng.normal(0, 20, max(level) + 1)) for level in levels]
    counts = cell_counts(attribute, told, [400.0] * len(levels))
    weekend = np.array([(first + datetime.timedelta(days=day)).weekday() >= 5 for day in range(attribute.bins)])
    august = np.array([(first + datetime.timedelta(days=day)).month == 8 for day in range(attribute.bins)])
    for mask in (weekend, august):
        assert counts[mask].sum() / counts.sum() == pytest.approx(cells[mask].sum() / cells.sum(), abs=0.01)
    found = find_bins(attribute, counts, number_of_bins(attribute, 12))
    assert found.bins == 12
    assert all(edge.day == 1 for edge in found.edges[:-1])


def test_columns_in_which_there_is_nothing_have_bins_too():
    """Nothing but noise can leave the curve open (one of these draws does); a release must come out all the same."""
    attribute, rng = Attribute(name="income", bounds=(0, 1000)), np.random.default_rng(0)
    levels, bins = levels_of(attribute), number_of_bins(attribute, 16)
    for _ in range(12):
        told = [np.rint(rng.normal(0, 12, max(level) + 1)).astype(np.int64) for level in levels]
        counts = cell_counts(attribute, told, [144.0] * len(levels))
        assert np.isfinite(counts).all()
        assert find_bins(attribute, counts, bins).bins == bins


def test_an_empty_tail_does_not_turn_upwards():
    """A dozen rows at the upper bound would move the mean of these amounts by half."""
    amounts = Attribute(name="x", bounds=(0, 500_000), heavy_tail=True, decimals=2)
    levels = levels_of(amounts)
    middle = np.array([(low + high) / 2 for low, high in zip(amounts.edges[:-1], amounts.edges[1:], strict=True)])
    rng = np.random.default_rng(11)
    values = np.where(
        rng.random(15_000) < 0.97, np.exp(rng.normal(4, 1.3, 15_000)), 800 * (1 + rng.pareto(1.5, 15_000))
    )
    cells = np.histogram(values.clip(0.02, 110_000), amounts.edges)[0]
    far = []
    for seed in range(12):
        noise = np.random.default_rng(seed)
        told = [
            (np.bincount(level, cells) + noise.laplace(0, 40, max(level) + 1)).round().astype(np.int64)
            for level in levels
        ]
        counts = cell_counts(amounts, told, [2 * 40.0**2] * len(levels))
        far.append(counts[middle > 150_000].sum())
    assert max(far) < 4  # nobody is there


def test_a_hill_behind_a_gap_keeps_its_shape():
    """Beyond a gap without rows the density of a second hill was not allowed to rise again."""
    attribute = Attribute(name="pay", bounds=(0, 100_000), heavy_tail=True, integer=True)
    edges = np.array([float(edge) for edge in attribute.edges])
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.normal(300, 40, 3000), rng.normal(9000, 900, 6000)]).clip(1, 99_999)
    cells = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, attribute.bins - 1)
    levels = [np.array(level)[cells] for level in levels_of(attribute)]
    noisy = [
        np.bincount(level, minlength=max(groups) + 1)
        for level, groups in zip(levels, levels_of(attribute), strict=True)
    ]
    noisy = [counts + np.rint(rng.normal(0, 20, len(counts))).astype(int) for counts in noisy]
    counts = cell_counts(attribute, noisy, [400.0] * len(noisy))
    middle = (edges[:-1] + edges[1:]) / 2
    assert 0.9 < counts[(middle > 180) & (middle < 450)].sum() / 3000 < 1.1
    assert counts[middle < 100].sum() < 200


def test_a_tail_of_which_nothing_is_known_falls_inside_its_bin():
    """Spread evenly over its width, a dozen rows of such a bin made the mean of medical expenses 38 times too large."""
    attribute = Attribute(name="spent", bounds=(0, 1_000_000), heavy_tail=True, decimals=2)
    counts = np.where(np.array(attribute.edges[:-1]) < 500, 100.0, 0.0)
    last = bins_of(find_bins(attribute, counts, 20)).means()[-1]
    assert last < 20_000


def gamma(size, seed=5):
    return np.random.default_rng(seed).gamma(2, 9000, size).clip(0, 499_999)


def test_the_density_goes_on_inside_cells_so_that_a_mean_is_not_that_of_their_middles():
    """A cell is a tenth as wide as its amounts. Spread evenly in it, amounts of a falling density are too large."""
    values = gamma(400_000)
    counts = np.histogram(values, np.array(INCOME.edges, dtype=float))[0]
    exact = values.mean()
    found = bins_of(find_bins(INCOME, counts.astype(float), INCOME.bins))
    told = counts / counts.sum() @ found.means()
    even = counts / counts.sum() @ middles(INCOME)
    assert abs(told / exact - 1) < 0.0005
    assert abs(even / exact - 1) > 0.0015


def test_values_are_drawn_by_the_density_that_answers_use():
    found = find_bins(INCOME, np.histogram(gamma(400_000), np.array(INCOME.edges, dtype=float))[0].astype(float), 20)
    codes = np.random.default_rng(1).integers(0, found.bins, 200_000)
    drawn = decode(CodedTable(schema=Schema(attributes=(found,)), columns={"income": codes}), SeededStream(2), "d")
    values, means = drawn.column("income").to_numpy(), bins_of(found).means()
    ends = np.append(bins_of(found).low, 500_000)
    for number in range(found.bins - 1):
        own = values[codes == number]
        assert ((own >= ends[number]) & (own < ends[number + 1])).all()
        assert abs(own.mean() - means[number]) < 0.002 * (ends[number + 1] - ends[number]) + 0.01


def test_a_spike_does_not_tilt_the_cells_beside_it_and_one_value_is_even():
    counts = np.full(INCOME.bins, 100.0)
    counts[40] = 5000.0
    found = find_bins(INCOME, counts * np.diff(np.array(INCOME.edges, dtype=float)), 20)
    tilts = tilts_of(found)
    assert tilts[0] == 0  # the cell of zero
    assert abs(tilts[[38, 39, 40, 41, 42]]).max() < 1e-4


def sparse(seed):
    """Few have any, and nobody more than 30,000: behind it wide bins are empty."""
    rng = np.random.default_rng(seed)
    some = rng.random(12_000) < 0.09
    return np.where(some, rng.gamma(4, 1200, 12_000).clip(1, 30_000), 0.0)


def test_an_empty_tail_gets_hardly_any_rows_from_noise():
    """A table follows its noisy counts, but not below nothing, so that noise alone makes rows in bins of nobody."""
    moved, followed = [], []
    for seed in range(12):
        values = sparse(seed)
        counts = np.histogram(values, np.array(INCOME.edges, dtype=float))[0]
        found = find_bins(INCOME, counts + 0.5, 20)
        bins = bins_of(found)
        true = np.histogram(values, [*bins.low, 500_000])[0].astype(float)
        noisy = true + np.rint(np.random.default_rng(seed).laplace(0, 2.4, len(true)))
        more = noisy + moved_to_curve(found, noisy, 11.5, 12_000.0)
        assert more.min() >= 0
        assert more.sum() == pytest.approx(12_000, abs=0.5)
        full = true > 300
        assert abs(more - true)[full].max() < 12
        means = bins.means() / values.sum()
        moved.append(more @ means - true @ means)
        followed.append(np.maximum(noisy, 0) @ means - true @ means)
    assert np.mean(np.square(moved)) ** 0.5 < 0.75 * np.mean(np.square(followed)) ** 0.5


def test_nothing_moves_where_no_bin_is_hidden_by_noise_or_all_are():
    found = find_bins(INCOME, np.ones(INCOME.bins), 20)
    assert not moved_to_curve(found, np.full(found.bins, 5000.0), 11.5, 5000.0 * found.bins).any()
    assert not moved_to_curve(found, np.full(found.bins, 5.0), 11.5, 5.0 * found.bins).any()
    listed = Attribute(name="x", edges=(0, 1, 2, 3))
    assert not moved_to_curve(listed, np.array([900.0, 0.0, 1.0]), 11.5, 901.0).any()


def votes(size=20_000, seed=4):
    """Most are below fifty, and generous bounds would allow a million."""
    return np.exp(np.random.default_rng(seed).normal(3.5, 1.6, size)).round().clip(1, 150_000)


def test_bounds_may_be_generous_without_a_word_about_the_tail():
    """A hundred cells of equal width had all rows in the first: the mean was six times too large."""
    attribute, values = Attribute(name="votes", bounds=(0, 1_000_000), integer=True), votes()
    for seed in range(4):
        _, told, variances = noisy_levels(attribute, values, 40.0, seed)
        found = bins_of(find_bins(attribute, cell_counts(attribute, told, variances), 20))
        shares = np.histogram(values, [*found.low, 1_000_000])[0][None, :] / len(values)
        assert abs(shares[0] @ found.means() / values.mean() - 1) < 0.05
        assert abs(found.quantiles(shares, 0.5)[0] - np.median(values)) <= 2


def test_a_tail_falls_from_cell_to_cell():
    """Not only below the last cell that was clear: a curve that dives far below would go on level from there."""
    rng = np.random.default_rng(3)
    attribute = Attribute(name="x", bounds=(0, 100_000), heavy_tail=True, decimals=2)
    _, told, variances = noisy_levels(attribute, rng.normal(50, 4, 15_000), 20.0, 1)
    counts = cell_counts(attribute, told, variances)
    at = np.arcsinh(middles(attribute))
    beyond = np.flatnonzero(middles(attribute) > 150)
    density = counts[beyond] / np.diff(np.arcsinh(np.array(attribute.edges, dtype=float)))[beyond]
    fall = density[1:] / density[:-1] * np.exp(1.5 * np.diff(at[beyond]))
    assert fall.max() < 1.001


def test_rows_of_a_bin_that_was_almost_empty_are_spread_over_it():
    """Beside the sum of all shares its own were lost to rounding, and all rows fell into its last cell."""
    counts = np.where(np.array(INCOME.edges[:-1]) < 5000, 1000.0, 1e-18)
    found = find_bins(INCOME, counts, 12)
    last = bins_of(found)
    codes = np.full(2000, found.bins - 1)
    drawn = decode(CodedTable(schema=Schema(attributes=(found,)), columns={"income": codes}), SeededStream(2), "d")
    values = drawn.column("income").to_numpy()
    assert last.cells is not None
    assert (values < last.cells[-2]).mean() > 0.9
    assert abs(values.mean() / last.means()[-1] - 1) < 0.02


def test_a_tail_that_falls_steeply_does_not_bend_the_curve():
    """Log densities had a floor that is reached near zero; distances to the data were twice as large."""
    attribute, distances = Attribute(name="x", bounds=(0, 500_000), heavy_tail=True, decimals=2), []
    for seed in range(4):
        values = np.exp(np.random.default_rng(seed).normal(9.7, 0.8, 15_000)).clip(0, 500_000)
        counts, told, variances = noisy_levels(attribute, values, 57.0, seed)
        found = cell_counts(attribute, told, variances)
        off = np.cumsum(found * counts.sum() / found.sum()) - np.cumsum(counts)
        distances.append(np.abs(off) @ np.diff(np.array(attribute.edges, dtype=float)) / values.sum())
    assert np.mean(distances) < 0.02
