"""Replay on Spark: one case of every method. Counts, choices and public sizes are watched as they reach the driver.

Rows are drawn by worker processes, where no loop can be watched. So the release must be, to the byte, the one that the
embedded engine makes with the same key, whose loops are watched.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.commutes.shared.flow_method import flow_synthesizers
from understudy.synth.shared.method import synthesizers

HELPERS = str(Path(__file__).parent.parent / "replay")
if HELPERS not in sys.path:
    sys.path.insert(0, HELPERS)

from replaying.cases import Case, offered, possible_cases  # noqa: E402
from replaying.commutes import town  # noqa: E402
from replaying.replay import record, replay  # noqa: E402

NEIGHBOURS = 6 if os.environ.get("PROVE") == "1" else 2
METHODS = [
    name
    for registry in (synthesizers, flow_synthesizers)
    for name in registry
    if set(registry[name].guarantees) != {"none"}
]


@pytest.fixture
def opener(spark: Any, tmp_path: Path) -> Callable[[Case, Any], Any]:
    def opened(case: Case, table: Any) -> Any:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.parquet"
        pq.write_table(table.arrow(), path, row_group_size=7)
        frame = spark.read.parquet(str(path))
        return us.open_commutes(frame, places=town()) if case.of_commutes else us.open_source(frame, table.schema)

    return opened


@pytest.mark.full
@pytest.mark.parametrize("method", METHODS)
def test_nothing_moves_by_more_than_was_charged(method, opener):
    mine = [case for case in possible_cases() if case.method == method and not case.options and case.copies == 1]
    cases = [case for case in mine if offered(case)]
    case = next((case for case in cases if case.unit.unit_id is not None), cases[0])
    assert replay(case, opener=opener, with_laws=False, at_most=NEIGHBOURS) == []
    assert record(case, case.table, opener=opener).files == record(case, case.table).files
