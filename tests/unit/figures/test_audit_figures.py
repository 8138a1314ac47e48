"""Figures of the audit: each hands back the table it drew, and the same numbers give the same picture."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("matplotlib")

import understudy as us
from understudy.auditing.calibration import prior_table
from understudy.errors import InputError
from understudy.figures.promise import log_odds_map, prior_bars, privacy_curve


@pytest.fixture(scope="module")
def exact():
    return us.audit(us.DirichletMultinomial(prior=(0.5, 0.5), rows=5), records=5)


def test_the_heat_map_hands_back_its_table(exact, tmp_path):
    drawing = log_odds_map(exact.neighbours, exact.outputs, exact.log_odds, epsilon=2)
    assert drawing.table.num_rows == 30
    assert max(drawing.table["log_odds"].to_pylist()) == pytest.approx(math.log(11))
    assert drawing.table["pair"][0].as_py() == "(0,5) | (1,4)"
    assert "framed: above epsilon = 2" in drawing.svg
    again = log_odds_map(exact.neighbours, exact.outputs, exact.log_odds, epsilon=2)
    assert again.svg == drawing.svg
    for kind in ("svg", "png", "pdf"):
        assert drawing.save(tmp_path / f"map.{kind}").stat().st_size > 1000


def test_infinite_odds_are_drawn_too():
    swapped = us.audit(us.Matrix.suppression(2), records=2)
    drawing = log_odds_map(swapped.neighbours, swapped.outputs, swapped.log_odds, epsilon=None)
    assert math.isinf(max(drawing.table["log_odds"].to_pylist()))
    assert ">inf<" in drawing.svg


def test_the_curve_and_the_bars(exact):
    curve = privacy_curve(exact.profile([0, 1, 2, 3]), title="a title")
    assert curve.table["delta"].to_pylist() == [exact.delta(x) for x in (0, 1, 2, 3)]
    assert "a title" in curve.svg
    bars = prior_bars(prior_table(2, 1e-3, records=6, cells=50))
    assert bars.table.num_rows == 5
    assert "approximate, exact" in bars.svg


def test_what_cannot_be_read_is_refused(exact, tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        log_odds_map([((0,), (1,))] * 200, exact.outputs, np.zeros((200, 6)), epsilon=None)
    drawing = privacy_curve(exact.profile([0, 1]))
    with pytest.raises(InputError, match="must end in"):
        drawing.save(tmp_path / "x.gif")
    with pytest.raises(InputError, match="not a folder"):
        drawing.save(tmp_path / "none" / "x.svg")
