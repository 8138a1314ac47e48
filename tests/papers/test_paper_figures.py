"""Figures of papers drawn again: the picture and the numbers in it."""

from xml.etree import ElementTree

import pytest

from papers import harness


@pytest.mark.full
@pytest.mark.parametrize(("paper", "rows"), [("av", 36 + 30 + 36 + 30), ("charest", 2 * 3 * 6 + 5)])
def test_a_papers_figures_are_drawn_again(paper, rows):
    drawing = harness.draw(paper, full=False)
    assert ElementTree.fromstring(drawing.svg).tag.endswith("svg")  # noqa: S314 - our own text
    assert drawing.table.num_rows == rows
    if paper == "av":
        for row in drawing.table.to_pylist():
            assert row["computed"] == pytest.approx(row["published"], abs=2e-3)
    else:
        by_copies = {row["copies"]: row for row in drawing.table.to_pylist() if row["figure"] == 2}
        assert by_copies[0]["sd"] < by_copies[1]["sd"] < by_copies[10]["sd"]
        assert all(row["coverage"] < 95 for row in drawing.table.to_pylist() if row["share"] == 0.25)


def test_tables_of_ruiz_are_drawn():
    drawing = harness.draw("ruiz", full=False)
    assert ElementTree.fromstring(drawing.svg).tag.endswith("svg")  # noqa: S314 - our own text
    rows = drawing.table.to_pylist()
    assert [sum(row["table"] == table for row in rows) for table in (2, 3, 4)] == [60, 20, 20]
    eighteenth = next(row for row in rows if (row["table"], row["record"]) == (3, 18))
    assert (eighteenth["low"], eighteenth["high"], eighteenth["holds_truth"]) == (3, 7, True)  # as the text says
