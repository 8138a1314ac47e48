"""Nothing of Python is in the hands of Arrow's reading threads: they may outlive the interpreter."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest

from understudy.engines.reading.readers import CsvReader

ROWS = b"sex,area\nF,a\nM,b\n"
FILES = (("rows.csv", ROWS), ("rows.csv.gz", gzip.compress(ROWS)))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """What Arrow's reader of CSV files was given: the file, and how to parse it."""
    seen: list[tuple[Any, Any]] = []
    original = pa.csv.open_csv

    def spy(file: Any, **options: Any) -> Any:
        seen.append((file, options["parse_options"]))
        return original(file, **options)

    monkeypatch.setattr(pa.csv, "open_csv", spy)
    return seen


@pytest.mark.parametrize(("name", "data"), FILES, ids=("plain", "packed"))
def test_arrow_opens_the_file_and_calls_nobody(tmp_path: Path, opened: list[Any], name: str, data: bytes) -> None:
    """A thread of Arrow that lets go of a Python object after the interpreter began to end aborts the process."""
    (tmp_path / name).write_bytes(data)
    reader = CsvReader([str(tmp_path / name)], delimiter=",")
    assert sum(batch.num_rows for batch in reader.batches(("sex", "area"))) == 2
    ((file, parsing),) = opened
    assert type(file) in (pa.OSFile, pa.CompressedInputStream)  # pa.PythonFile holds a Python object
    assert parsing.invalid_row_handler is None


@pytest.mark.parametrize(("name", "data"), FILES, ids=("plain", "packed"))
def test_the_file_is_closed_when_the_rows_end_or_are_left(
    tmp_path: Path, opened: list[Any], name: str, data: bytes
) -> None:
    (tmp_path / name).write_bytes(data)
    reader = CsvReader([str(tmp_path / name)], delimiter=",")
    list(reader.batches(("sex",)))
    left = reader.batches(("sex",))
    next(left)
    left.close()  # type: ignore[attr-defined]
    assert [file.closed for file, _ in opened] == [True, True]


def test_every_ragged_row_is_counted_and_none_is_shown(tmp_path: Path) -> None:
    from understudy.errors import InputError

    (tmp_path / "rows.csv").write_bytes(b'sex,area\nF,a\nM\n\n"F,x",b\nM,b,marker\n"two\nlines",b\n')
    reader = CsvReader([str(tmp_path / "rows.csv")], delimiter=",")
    with pytest.raises(InputError, match=r"2 row\(s\) do not have the 2 fields") as caught:
        list(reader.batches(("sex",)))
    assert "marker" not in str(caught.value)


def test_a_quotation_mark_is_looked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from understudy.engines.reading import readers

    (tmp_path / "rows.csv").write_bytes(ROWS)
    reader = CsvReader([str(tmp_path / "rows.csv")], delimiter=",")
    list(reader.batches(("sex",)))
    monkeypatch.setattr(readers, "_open", lambda path: pytest.fail(f"{path} was read again"))
    list(reader.batches(("sex",)))
