"""What runs on executors, run here: tasks are plain callables over Arrow batches and need no Spark."""

from __future__ import annotations

import json
import pickle
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.engines.counting.packing import unpack
from understudy.engines.systems.local.inputs import open_local
from understudy.engines.systems.spark.keyed_tasks import DrawTask, KeepTask, UnitRowsTask
from understudy.engines.systems.spark.session import is_local, java_version
from understudy.engines.systems.spark.tasks import (
    COUNTS,
    NEWS,
    CountTask,
    EncodedRows,
    FileRows,
    FrameRows,
    Inline,
    News,
    NumberTask,
    Piece,
    TaskError,
    guarded,
    sum_messages,
)
from understudy.errors import InputError, SchemaError
from understudy.privacy.mechanisms.dirichlet_draw import DirichletDraw, pure_loss
from understudy.privacy.randomness.streams import SeededStream

KINDS = {"x": "bigint", "y": "string", "id": "string"}
MARKER = "Zorbl-7741"
SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="x", levels=tuple(range(40))),
        us.Attribute(name="y", levels=("a", "b", "c"), missing=True),
    ),
    ignore=("id",),
)


def people(rows: int, units: int, *, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    ids = np.where(rng.random(rows) < 0.4, 0, rng.integers(0, units, rows))  # unit 0 has almost half of the rows
    return pa.table(
        {
            "x": rng.integers(0, 40, rows),
            "y": pa.array(np.array(["a", "b", "c"])[rng.integers(0, 3, rows)], mask=rng.random(rows) < 0.1),
            "id": pa.array([f"{MARKER} {number}" for number in ids]),
        }
    )


def encoded(names=SCHEMA.names, unit_id=None, rows=None) -> EncodedRows:
    columns = (*names, *(() if unit_id is None else (unit_id,)))
    return EncodedRows(
        rows=rows or FrameRows(),
        schema=Inline(SCHEMA),
        names=names,
        columns=columns,
        missing_text=None,
        unit_id=unit_id,
    )


def count_task(margins, **settings) -> CountTask:
    return CountTask(scan=encoded(**settings), schema=Inline(SCHEMA), margins=Inline(margins))


def received(batches):
    """Counts as one array, and the merged news."""
    counts, news = {}, News()
    for batch in batches:
        for row in batch.to_pylist():
            if row["kind"] == COUNTS:
                counts[row["number"]] = np.frombuffer(row["data"], "<i8")
            else:
                news.add_json(json.loads(row["data"]))
    return counts, news


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_counts_of_parts_add_up_to_those_of_the_embedded_engine(parts):
    table = people(500, 30)
    margins = [("y", "x"), (), ("x",)]
    expected = np.concatenate([one.values.ravel() for one in open_local(table, SCHEMA).count(margins)])
    task = pickle.loads(pickle.dumps(count_task(margins)))  # noqa: S301 - how it travels
    size = -(-500 // parts)
    sent = [
        batch
        for part in range(parts)
        for batch in task(table.slice(part * size, size).select(["x", "y"]).to_batches(max_chunksize=31))
    ]
    sent += list(task([]))  # an empty partition
    counts, news = received(sum_messages(sent))
    np.testing.assert_array_equal(counts[0], expected)
    assert news.rows == 500
    assert not news.violations


def test_violations_of_all_parts_are_counted_and_no_value_is_sent():
    bad = pa.table({"x": pa.array(["1", MARKER, MARKER]), "y": pa.array(["a", "a", MARKER])})
    sent = list(count_task([("x",)])(bad.to_batches())) + list(count_task([("x",)])(bad.to_batches()))
    assert MARKER.encode() not in b"".join(row["data"] for batch in sent for row in batch.to_pylist())
    _, news = received(sent)
    with pytest.raises(SchemaError, match="x: 4 rows with a level that is not listed"):
        news.violations.check()


def test_a_problem_with_the_input_is_reported_in_its_own_words():
    damaged = pa.record_batch([pa.array([[MARKER]]), pa.array(["a"])], names=["x", "y"])
    sent = list(count_task([("x",)])([damaged]))
    assert [batch.column(0).to_pylist() for batch in sent] == [[NEWS]]
    with pytest.raises(SchemaError, match="column 'x' has the Arrow type list") as caught:
        received(sent)
    assert MARKER not in str(caught.value)


def test_any_other_failure_keeps_its_text_to_itself():
    def work():
        yield pa.record_batch([[1]], names=["x"])
        raise KeyError(MARKER)

    batches = guarded(work())
    next(batches)
    with pytest.raises(TaskError, match=r"^KeyError$") as caught:
        next(batches)
    assert caught.value.__suppress_context__


def test_files_are_read_piece_by_piece(tmp_path):
    table = people(100, 5)
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=20)
    path = str(tmp_path / "a.parquet")
    rows = FileRows(kind="parquet", pieces=Inline([[Piece(path, (0, 3))], [Piece(path, (1, 2, 4))], []]))
    sizes = [
        sum(batch.num_rows for batch in rows.batches([pa.record_batch([[number]], names=["id"])], ["x"]))
        for number in range(3)
    ]
    assert sizes == [40, 60, 0]
    assert rows.shape(path) == {"columns": ("x", "y", "id"), "groups": [20] * 5, "kinds": KINDS}
    with pytest.raises(InputError, match="does not exist on a worker"):
        rows.shape(str(tmp_path / "b.parquet"))


def test_numbers_are_answered_or_the_problem_is():
    def work(number):
        if number == 3:
            raise InputError("three is bad.")
        return {"double": 2 * number}

    (first,) = list(NumberTask(work=work)([pa.record_batch([[2]], names=["id"])]))
    assert json.loads(first.column(2)[0].as_py()) == {"double": 4}
    (second,) = list(NumberTask(work=work)([pa.record_batch([[3]], names=["id"])]))
    with pytest.raises(InputError, match="three is bad"):
        News().add_json(json.loads(second.column(2)[0].as_py()))


@pytest.mark.parametrize("parts", [1, 4])
def test_hashed_rows_of_parts_add_up_to_the_fingerprint_of_the_embedded_engine(parts):
    table, key = people(500, 30), bytes(range(32))
    here = open_local(table, SCHEMA)
    here.identify(key)
    made = CountTask(scan=encoded(), schema=Inline(SCHEMA), margins=Inline([("x",)]), fingerprint_key=key)
    assert key.hex() not in repr(made)
    assert repr(key) not in repr(made)
    task = pickle.loads(pickle.dumps(made))  # noqa: S301 - how it travels
    size = -(-500 // parts)
    sent = [
        batch
        for part in reversed(range(parts))
        for batch in task(table.slice(part * size, size).select(["x", "y"]).to_batches(max_chunksize=31))
    ]
    _, news = received(sent)
    assert news.hashed.text == here.fingerprint()
    _, silent = received(count_task([("x",)])(table.select(["x", "y"]).to_batches()))
    assert silent.hashed.parts == (0, 0)


@pytest.mark.parametrize("fixed", [(), ("y",)])
@pytest.mark.parametrize("batch_rows", [1, 13, 1000])
@pytest.mark.parametrize("held_rows", [3, 2**18], ids=["drawn_as_they_come", "held"])
def test_rows_of_units_are_kept_as_the_embedded_engine_keeps_them(batch_rows, held_rows, fixed):
    table, unit = people(600, 60), us.Unit(rows_per_unit=3, unit_id="id", fixed=fixed)
    expected = open_local(table, SCHEMA).bounded(unit, SeededStream(5)).count([("x", "y")])[0].values
    scan = encoded(unit_id="id")
    task = UnitRowsTask(scan=scan, unit_id="id", fixed=fixed)
    rows = pa.Table.from_batches(task(table.to_batches(max_chunksize=50)))
    in_order = rows.sort_by([("id", "ascending"), ("word_0", "ascending")])
    key = SeededStream(5).hand_out("rows per unit")
    task = KeepTask(key=key, limit=3, words=1, held_rows=held_rows)
    for _ in range(2):  # a task that is repeated draws the same
        kept = pa.Table.from_batches(task(in_order.to_batches(max_chunksize=batch_rows)))
        codes = unpack([kept["word_0"].to_numpy()], SCHEMA, fixed)
        found = np.zeros((40, 4), np.int64)
        np.add.at(found, (codes["x"], codes["y"]), 1)
        np.testing.assert_array_equal(found, expected)


def test_a_stratum_is_drawn_the_same_whatever_the_batches():
    schema = us.Schema(attributes=(us.Attribute(name="s", levels=(0, 1, 2)), us.Attribute(name="z", levels=(0, 1, 2))))
    mechanism = DirichletDraw(prior=Fraction(1), rows=20, loss=pure_loss(Fraction(1)))
    task = DrawTask(
        key=SeededStream(1).hand_out("draw"),
        schema=Inline(schema),
        mechanisms=Inline([mechanism] * 3),
        margin=("s", "z"),
        strata=("s",),
        purpose=("draw", "copy 1", 1),
    )
    cells = pa.table({"stratum": [0, 0, 0, 1, 2, 2], "inner": [-1, 0, 2, -1, -1, 1], "rows": [0, 5, 7, 0, 0, 9]})
    drawn = [pa.Table.from_batches(task(cells.to_batches(max_chunksize=size))).to_pylist() for size in (1, 2, 6)]
    assert drawn[0] == drawn[1] == drawn[2]
    assert sum(row["times"] for row in drawn[0]) == 60  # the stratum that holds nobody is drawn too


def test_what_is_local_and_which_java():
    assert is_local("local[*]")
    assert not is_local("spark://127.0.0.1:7077")
    assert java_version("nonsense") is None
