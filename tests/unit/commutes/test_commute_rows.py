"""``verify`` reads pairs of commutes piece by piece and sees one that is listed twice, or out of order."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.demo.commuters import make_world
from understudy.privacy.randomness.streams import SeededStream
from understudy.release.folder import hash_file

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")


@pytest.fixture(scope="module")
def made():
    world = make_world("town", seed=1)
    source = us.open_commutes(world.flows_table(), places=world.places)
    return us.synthesize(source, method="commute_tree", budget=us.PureDP(epsilon=4), stream=SeededStream(3))


def failed(folder, table: pa.Table) -> dict[str, str]:
    file = folder / "synthetic_1.parquet"
    pq.write_table(table, file)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][file.name], manifest["rows"] = hash_file(file), [table.num_rows]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return {check.name: check.detail for check in us.verify(folder) if not check.passed}


def test_every_pair_is_listed_once_and_in_order(made, tmp_path):
    folder, table = made.write(tmp_path / "release"), made.flows()
    assert failed(folder, table) == {}
    for wrong in (pa.concat_tables([table, table.slice(5, 1)]), table.take([1, 0, *range(2, table.num_rows)])):
        assert "not listed once each" in failed(folder, wrong)["places"]
    none = table.set_column(2, "jobs", pa.array([0] * table.num_rows))
    assert "has no jobs" in failed(folder, none)["places"]


def test_pieces_are_the_whole(made):
    whole = made.coded()
    pieces = list(made.coded_batches())
    for place in range(3):
        assert [value for piece in pieces for value in piece[place].tolist()] == whole[place].tolist()
