"""A table whose noisy total is far from what its cells say: the same posterior as by enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from understudy.inference.latent_table import Column, LatentTable


def laws(values, scale, most):
    x = np.arange(most + 1)
    return tuple(Column(start=0, log=-((x - one) ** 2) / (2.0 * scale**2)) for one in values)


@pytest.mark.parametrize("total", [6.0, 20.0, 60.0])
def test_an_unknown_total_far_away_is_as_by_enumeration(total):
    """Cells near 5, 7 and 8 by their own noise; totals from near to forty standard deviations away."""
    most, columns = 25, laws((5, 7, 8), 1.0, 25)

    def known(t):
        return -((t - total) ** 2) / (2 * 0.5**2)

    table = LatentTable(columns=columns, classes=np.arange(3), total_log=known)
    assert (table.tilt != 0) == (total != 20)
    cells = np.array(list(product(range(most + 1), repeat=3)))
    log = sum(column.log[cells[:, place]] for place, column in enumerate(columns)) + known(cells.sum(axis=1))
    weights = np.exp(log - log.max())
    assert table.log_evidence == pytest.approx(log.max() + np.log(weights.sum()), abs=1e-6)
    weights /= weights.sum()
    np.testing.assert_allclose(table.cell_means(), weights @ cells, atol=1e-6)
    drawn = table.draws(4000, np.random.default_rng(0))
    spread = np.sqrt(weights @ (cells - weights @ cells) ** 2)
    assert (np.abs(drawn.mean(axis=0) - weights @ cells) <= 5 * spread / 4000**0.5 + 1e-9).all()


def test_a_large_table_far_from_its_total_can_be_drawn():
    """Six hundred cells whose own sum is far above the noisy total: draws failed where the law was rounding noise."""
    columns = laws(tuple(range(30, 60)), 20.0, 400)
    table = LatentTable(
        columns=columns, classes=np.repeat(np.arange(30), 20), total_log=lambda t: -((t - 9000.0) ** 2) / (2 * 30.0**2)
    )
    drawn = table.draws(200, np.random.default_rng(0))
    assert (drawn >= 0).all()
    assert abs(drawn.sum(axis=1).mean() - 9000) < 200
