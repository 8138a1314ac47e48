"""Tables that stay in their files: what is read when, what is refused, and that a large release needs little memory."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.errors import InputError
from understudy.release.folder import hash_file
from understudy.release.table_release import StoredTables

SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="age", edges=(0, 20, 90), integer=True),
        us.Attribute(name="income", edges=(0, 10, 100)),
    ),
)
GROUP, GROUPS = 250_000, 60
ALLOWED_MB = 300  # above a small release; pieces take about 120, the whole table as a frame about 900
PEAK = """
import re, sys
from pathlib import Path
import understudy as us
folder, verb = sys.argv[1:]
if verb == "verify":
    assert all(check.passed for check in us.verify(folder)), us.verify(folder)
elif verb == "batches":
    assert sum(piece.num_rows for piece in us.read_release(folder).batches()) == us.read_release(folder).rows[0]
else:
    us.read_release(folder).frame()
# Not the kernel's ru_maxrss: that counts what the parent held when it forked.
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024)
"""


def rows(count: int) -> pa.Table:
    rng = np.random.default_rng(1)
    return pa.table(
        {
            "sex": pa.array(np.array(["F", "M"])[rng.integers(0, 2, count)]),
            "age": rng.integers(0, 91, count),
            "income": rng.random(count) * 100,
        }
    )


def put_tables(folder: Path, table: pa.Table, groups: int, *, parts: int = 1) -> Path:
    """The release of a small table, its rows replaced by so many groups of others, in one file or in parts."""
    us.wrap(rows(10), SCHEMA).write(folder)
    (folder / "synthetic_1.parquet").unlink()
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["files"]["synthetic_1.parquet"]
    for part in range(parts):
        name = "synthetic_1.parquet" if parts == 1 else f"synthetic_1.part-{part:05d}.parquet"
        with pq.ParquetWriter(folder / name, table.schema) as writer:
            for _ in range(groups // parts):
                writer.write_table(table)
        manifest["files"][name] = hash_file(folder / name)
    manifest["rows"] = [table.num_rows * groups]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def peak_mb(folder: Path, verb: str) -> float:
    done = subprocess.run([sys.executable, "-c", PEAK, str(folder), verb], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    return put_tables(tmp_path_factory.mktemp("large") / "release", rows(GROUP), GROUPS)


@pytest.mark.full
def test_memory_does_not_grow_with_the_rows(large, tmp_path):
    """Six million rows; the last line shows that the limit would notice a table that is loaded whole."""
    small = peak_mb(put_tables(tmp_path / "small", rows(10), 1), "verify")
    assert peak_mb(large, "verify") < small + ALLOWED_MB
    assert peak_mb(large, "batches") < small + ALLOWED_MB
    assert peak_mb(large, "frame") > small + ALLOWED_MB


def test_a_release_is_opened_without_reading_its_tables(large, monkeypatch):
    monkeypatch.setattr(pq, "read_table", None)  # StoredTables reads whole tables with it
    tables = StoredTables([[large / "synthetic_1.parquet"]], [GROUP * GROUPS], SCHEMA)
    assert (len(tables), tables.rows) == (1, (GROUP * GROUPS,))
    with pytest.raises(TypeError):
        tables[0]


def test_pieces_are_the_frame(tmp_path):
    table = rows(1_000)
    release = us.read_release(put_tables(tmp_path / "release", table, 4, parts=2))
    assert release.rows == (4_000,)
    pieces = list(release.batches())
    assert pa.concat_tables(pieces).to_pylist() == release.frame().to_pylist() == table.to_pylist() * 4
    assert pieces[0].schema == release.frame().schema
    assert release.frame() is release.frame()
    assert [one.num_rows for one in release.tables[:1]] == [4_000]
    assert "4,000 rows" in repr(release)
    assert release._repr_html_().count("<tr>") == 6


def test_what_changed_after_opening_is_not_read(tmp_path):
    folder = put_tables(tmp_path / "release", rows(50), 1)
    for change in (lambda file: pq.write_table(rows(51), file), Path.unlink):
        release = us.read_release(folder)
        change(folder / "synthetic_1.parquet")
        with pytest.raises(InputError, match="removed or changed after its release was opened"):
            release.frame()
        with pytest.raises(InputError, match="removed or changed"):
            next(release.batches())
        if (folder / "synthetic_1.parquet").exists():
            manifest = json.loads((folder / "manifest.json").read_text())
            manifest["files"]["synthetic_1.parquet"] = hash_file(folder / "synthetic_1.parquet")
            manifest["rows"] = [51]
            (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("table", "stated", "words"),
    [
        (rows(5), 6, "has 5 rows, and its manifest states 6"),
        (rows(5).drop_columns("age"), 5, "no column for an attribute"),
        (rows(5).append_column("name", pa.array(["x"] * 5)), 5, "does not list"),
    ],
)
def test_another_table_than_the_manifest_states_is_refused(tmp_path, table, stated, words):
    folder = put_tables(tmp_path / "release", table, 1)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["rows"] = [stated]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=words):
        us.read_release(folder)
    assert not us.verify(folder)[0].passed


def test_damage_under_a_right_hash_is_told_without_a_traceback(tmp_path):
    folder = put_tables(tmp_path / "release", rows(5_000), 1)
    file = folder / "synthetic_1.parquet"
    content = bytearray(file.read_bytes())
    content[200:20_000] = bytes(19_800)
    file.write_bytes(content)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][file.name] = hash_file(file)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        us.read_release(folder).frame()
    assert [check.name for check in us.verify(folder) if not check.passed] == ["schema"]


def test_verify_finds_a_row_that_does_not_fit_in_a_late_batch(tmp_path):
    folder = put_tables(tmp_path / "release", rows(1_000), 1)
    wrong = pa.concat_tables([rows(400_000), rows(1).set_column(1, "age", pa.array([700]))])
    pq.write_table(wrong, folder / "synthetic_1.parquet")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["rows"] = [wrong.num_rows]
    manifest["files"]["synthetic_1.parquet"] = hashlib.sha256((folder / "synthetic_1.parquet").read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    failed = {check.name: check.detail for check in us.verify(folder) if not check.passed}
    assert list(failed) == ["schema"]
    assert "age" in failed["schema"]
