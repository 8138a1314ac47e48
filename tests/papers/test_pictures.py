"""The figure of replicated uniques hands back its numbers and is the same file for the same numbers."""

import pyarrow as pa
import pytest

pytest.importorskip("matplotlib")

from papers.pictures import replicated_uniques

ROWS = [
    {"data_set": name, "epsilon": epsilon, "computed": value, "published": printed}
    for name, epsilon, value, printed in (
        ("S5", 0.1, 0.6, 0.56), ("S5", 1.0, 20.0, 19.2), ("S5", None, 24.0, None), ("S7", 1.0, 10.0, 9.66),
    )
]  # fmt: skip


def test_draws_every_point_and_keeps_the_table():
    table = pa.Table.from_pylist(ROWS)
    drawing = replicated_uniques(table, title="a title")
    assert drawing.table is table
    assert drawing.svg == replicated_uniques(table, title="a title").svg
    for text in ("a title", "S5, published", "S7", "no noise"):
        assert text in drawing.svg
    lines = drawing.figure.axes[0].get_lines()
    assert [len(line.get_xdata()) for line in lines[:4]] == [3, 2, 1, 1]
    assert max(lines[0].get_xdata()) == 10.0  # without noise: right of the largest epsilon
