"""The harness of the reproductions, and the first paper's items."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from papers import harness
from papers.harness import CannotComputeError, Item, Simulated, items, listed_items, papers, run
from understudy.errors import InternalError, UnknownNameError

KEYS = ["paper", "item", "cell", "published", "computed", "error", "reading", "verdict"]


def item(compute, **change) -> Item:
    settings = {"paper": "p", "item": "Table 1", "cell": "a", "published": 6.74, "tolerance": 0.005, "reading": "r"}
    return Item(**{**settings, **change}, compute=compute)


def test_every_listed_item_has_a_computation_and_the_other_way_round():
    listed = [(entry["paper"], entry["item"], entry["cell"]) for entry in listed_items()]
    computed = [(name, *key) for name in papers.names() for key in papers[name]()]
    assert sorted(listed) == sorted(computed)
    assert len(set(listed)) == len(listed)


def test_a_printed_number_that_is_read_twice_counts_once_and_by_its_worse_reading():
    read = {"another_reading_of": ["Table 1", "a"], "cell": "a, otherwise"}
    lines = [item(lambda: 6.74), item(lambda: 9.1, expected=9.1, **read), item(lambda: 6.74, cell="b")]
    assert harness.tally(line.outcome() for line in lines) == {"differs": 1, "pass": 1}
    assert harness.tally([lines[0].outcome(), lines[2].left_out()]) == {"pass": 1, "cannot": 1}
    assert lines[1].outcome().to_json()["another_reading_of"] == ["Table 1", "a"]


def test_other_readings_are_of_the_same_printed_number():
    listed = {(entry["paper"], entry["item"], entry["cell"]): entry for entry in listed_items()}
    again = [entry for entry in listed.values() if "another_reading_of" in entry]
    for entry in again:
        first = listed[(entry["paper"], *entry["another_reading_of"])]
        assert first["published"] == entry["published"]
        assert "another_reading_of" not in first
    two = [cell for _, _, cell in listed if cell.endswith(("(prior 0)", "(prior 1)"))]
    assert len([entry for entry in again if entry["paper"] == "raab"]) == len(two) / 2 > 100


@pytest.mark.parametrize("name", papers.names())
def test_items_of_every_paper_are_complete(name):
    for entry in items(name):
        assert entry.reading
        assert entry.tolerance >= 0


def test_a_list_that_does_not_match_is_our_bug(monkeypatch):
    listed = [entry for entry in listed_items() if entry["paper"] == "raab"]
    for wrong in (listed[1:], [*listed, listed[0]]):
        monkeypatch.setattr(harness, "listed_items", lambda wrong=wrong: wrong)
        with pytest.raises(InternalError, match=listed[0]["cell"]):
            items("raab")


@pytest.mark.parametrize(("computed", "verdict"), [(6.7351, "pass"), (6.745, "pass"), (6.7460, "fail"), (6.73, "fail")])
def test_verdict_is_about_the_printed_digits(computed, verdict):
    outcome = item(lambda: computed).outcome()
    assert outcome.verdict == verdict
    assert outcome.error == pytest.approx(computed - 6.74)
    assert bool(outcome.reason) == (verdict == "fail")


@pytest.mark.parametrize(("misprint", "verdict"), [(True, "misprint"), (False, "differs")])
def test_what_is_not_as_printed_is_never_called_a_pass(misprint, verdict):
    outcome = item(lambda: 68.2333, published=6.23, expected=68.23, misprint=misprint).outcome()
    assert (outcome.published, outcome.verdict) == (6.23, verdict)
    assert outcome.error == pytest.approx(62.0033)
    neither = item(lambda: 68.24, published=6.23, expected=68.23, misprint=misprint).outcome()
    assert (neither.verdict, "68.23" in neither.reason) == ("fail", True)


def test_a_printed_table_gives_one_item_for_each_filled_cell():
    table = {"paper": "p", "item": "Table 9", "columns": ["a", "b"], "tolerance": 0, "reading": "r",
             "rows": {"x": [1, ""], "y": [2, 3]}}  # fmt: skip
    assert [(entry["cell"], entry["published"]) for entry in harness._cells(table)] == [
        ("a x", 1),
        ("a y", 2),
        ("b y", 3),
    ]


def test_expected_numbers_are_not_the_printed_ones():
    """An item whose expected number is what was printed would be a pass under another name."""
    for entry in listed_items():
        if "expected" in entry:
            assert abs(entry["expected"] - entry["published"]) > entry["tolerance"], entry["cell"]
        else:
            assert "misprint" not in entry, entry["cell"]


def test_what_cannot_be_computed_says_why():
    def compute() -> float:
        raise CannotComputeError("needs a table nobody printed")

    outcome = item(compute).outcome()
    assert (outcome.verdict, outcome.computed, outcome.error) == ("cannot", None, None)
    assert outcome.to_json() == {
        **dict(zip(KEYS, ["p", "Table 1", "a", 6.74, None, None, "r", "cannot"], strict=True)),
        "reason": "needs a table nobody printed",
    }


def test_the_record_has_its_keys_in_order():
    record = item(lambda: 6.74).outcome().to_json()
    assert list(record) == KEYS
    json.dumps(record)


def test_a_quick_run_names_the_long_items_it_leaves_out(monkeypatch):
    calls = []
    long = item(lambda: calls.append(1) or 6.74, long=True)
    monkeypatch.setattr(harness, "items", lambda paper: [long])
    assert [outcome.verdict for outcome in run(["p"], quick=True)] == ["cannot"]
    assert "quick" in run(["p"])[0].reason
    assert calls == []
    assert [outcome.verdict for outcome in run(["p"], quick=False)] == ["pass"]


def test_an_unknown_paper_names_the_nearest():
    with pytest.raises(UnknownNameError, match="'raab'"):
        run(["rab"])


def test_without_the_data_the_counts_cannot_be_computed_and_the_cells_can(monkeypatch, tmp_path):
    from papers.reproduced import raab

    raab.cross_tabulation.cache_clear()
    monkeypatch.setenv(harness.DATA_VARIABLE, str(tmp_path))
    verdicts = {outcome.cell: outcome for outcome in run(["raab"])}
    assert {outcome.verdict for cell, outcome in verdicts.items() if cell.endswith(" k")} == {"pass"}
    assert sum(cell.endswith(" k") for cell in verdicts) == 10
    others = [outcome for cell, outcome in verdicts.items() if not cell.endswith(" k")]
    assert {outcome.verdict for outcome in others} == {"cannot"}
    told = (harness.DATA_VARIABLE, "quick run", "not public")
    assert all(any(words in outcome.reason for words in told) for outcome in others)
    assert not any(str(tmp_path) in outcome.reason for outcome in others)


def outcomes_of_raab(data_folder, monkeypatch, wanted):
    from papers.reproduced import raab

    raab.cross_tabulation.cache_clear()
    monkeypatch.setenv(harness.DATA_VARIABLE, str(data_folder))
    return {
        (entry.item, entry.cell): entry.outcome()
        for entry in items("raab")
        if wanted(entry.item, entry.cell, entry.long)
    }


def test_raab_table_1(data_folder: Path, monkeypatch):
    outcomes = outcomes_of_raab(data_folder, monkeypatch, lambda item, _cell, _long: item == "Table 1")
    ours = {cell: outcome.verdict for (_, cell), outcome in outcomes.items() if cell.startswith("S")}
    assert {cell for cell, verdict in ours.items() if verdict != "pass"} == {"S5 p0"}
    assert ours["S5 p0"] == "misprint"
    computed = {cell: outcome.computed for (_, cell), outcome in outcomes.items()}
    assert computed["S5 p1"] == pytest.approx(100 * 337 / 5000)
    assert computed["S7 p1"] == pytest.approx(100 * 1792 / 5000)
    assert computed["S5 p0"] == pytest.approx(100 * (3000 - 953) / 3000)


@pytest.mark.full
def test_raab_small_tables(data_folder: Path, monkeypatch):
    """The smallest data set: every printed number comes out, with either prior count."""
    outcomes = outcomes_of_raab(data_folder, monkeypatch, lambda _item, cell, _long: cell.startswith("S3 "))
    verdicts = {key: outcome.verdict for key, outcome in outcomes.items()}
    assert {item for (item, _), verdict in verdicts.items() if verdict == "differs"} == {"Section 5.2"}
    assert set(verdicts.values()) == {"pass", "differs"}
    assert {cell.rpartition("(")[2] for item, cell in outcomes if item == "Table 3"} == {"prior 0)", "prior 1)"}


@pytest.mark.full
def test_raab_without_the_largest_data_set(data_folder: Path, monkeypatch):
    """Everything a quick run does: nothing fails, also of what the paper marks with a star."""
    outcomes = outcomes_of_raab(data_folder, monkeypatch, lambda _item, _cell, long: not long)
    assert [key for key, outcome in outcomes.items() if outcome.verdict == "fail"] == []
    stars = [
        outcome.verdict
        for (item, cell), outcome in outcomes.items()
        if cell.startswith("S5 eps=0.01") and item == "Table 3"
    ]
    assert stars == ["pass"] * 10
    assert {cell[0] for (_, cell), outcome in outcomes.items() if outcome.verdict == "cannot"} == {"P"}


def test_means_of_simulated_runs_are_compared_by_their_spread():
    """3 sqrt(2) sd / sqrt(10), as two means of ten runs differ; but never finer than the printed digits."""
    close, far = (Simulated(mean=6.74 + off, deviation=0.5, runs=30) for off in (0.67, 0.68))
    assert item(lambda: close).outcome().verdict == "pass"
    assert item(lambda: far).outcome().verdict == "fail"
    assert item(lambda: Simulated(mean=6.7351, deviation=0.0, runs=30)).outcome().verdict == "pass"
    assert item(lambda: far).outcome().computed == pytest.approx(7.42)


def test_ruiz():
    outcomes = run(["ruiz"])
    assert [outcome for outcome in outcomes if outcome.verdict == "fail"] == []
    assert {outcome.item for outcome in outcomes if outcome.verdict == "pass"} == {"Table 2", "Table 3"}
    assert [outcome.cell for outcome in outcomes if outcome.verdict == "cannot"] == ["record 1 set 1", "record 2 set 1"]


def test_no_second_attribute_gives_the_links_that_ruiz_prints():
    from papers.reproduced.ruiz import TABLE_2, TABLE_3, TABLE_4, consistent_second_attributes

    # The three cells, and the ranks of the two people they are about.
    assert (TABLE_3[16][2][0], TABLE_4[0][0], TABLE_4[16][0]) == ((15,), (15, 1), (1,))
    assert (TABLE_3[0][1], TABLE_2["rank"][16], TABLE_3[16][1]) == (2, 6, 20)
    found = consistent_second_attributes()
    assert found == {"each cell of Table 4 by itself": 7678, "both of them": 10, "with the cell of Table 3": 0}


@pytest.mark.full
def test_the_search_for_a_second_attribute_refuses_nothing_that_exists():
    """Random ranks of twenty people and records, and the three cells that they really give."""
    from papers.reproduced.ruiz import consistent_second_attributes

    draw = np.random.default_rng(0)
    tried = 0
    while tried < 3:
        people, records = (np.column_stack([draw.permutation(20) + 1 for _ in range(3)]) for _ in range(2))
        without_1 = np.abs(people[:, None, 1:] - records[None, :, 1:]).sum(axis=2)
        without_3 = np.abs(people[:, None, :2] - records[None, :, :2]).sum(axis=2)
        nearest = without_1.argmin(axis=1)
        alone = (without_1 == without_1.min(axis=1, keepdims=True)).sum(axis=1) == 1
        sure = (without_3 == without_3.min(axis=1, keepdims=True)).sum(axis=1) == 1
        pairs = [
            (i, j)
            for i in range(20)
            for j in range(20)
            if i != j and alone[j] and sure[j] and without_1[i, nearest[j]] == without_1[i].min()
        ]
        if not pairs:
            continue
        i, j = pairs[0]
        found = consistent_second_attributes(
            one=int(people[i, 2]),
            other=(int(people[j, 0]), int(people[j, 2])),
            nearest=int(records[nearest[j], 0]),
            nearest_in_3=int(records[without_3[j].argmin(), 2]),
            enough=1,
        )
        assert found["with the cell of Table 3"] > 0
        tried += 1
