"""What was appended is on the disk, once, and damage is noticed."""

from __future__ import annotations

import base64
import errno
import json
import os
import resource
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from understudy.errors import InputError, InternalError
from understudy.privacy.gate.journal import Journal, pack_array, unpack_array

HEADER = {"run": "r1", "plan": {"method": "histogram", "note": "é\n"}}


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal.create(tmp_path / "run", HEADER)


def lines_of(journal: Journal) -> Path:
    return journal.folder / "journal.jsonl"


def read(journal: Journal) -> list[tuple[int, str, object]]:
    return [(entry.sequence, entry.kind, entry.payload) for entry in Journal.open(journal.folder).entries()]


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """The kernel refuses to let a file grow beyond ``size``: a real short write, like that of a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_new_journal_is_complete_and_private(journal: Journal) -> None:
    assert journal.folder.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in journal.folder.iterdir()} == {
        "run.json": 0o600,
        "journal.jsonl": 0o600,
    }
    assert [path.name for path in journal.folder.parent.iterdir()] == ["run"]
    opened = Journal.open(journal.folder)
    assert opened.header == HEADER == journal.header
    assert opened.entries() == () == journal.entries()


def test_an_existing_folder_is_refused(journal: Journal, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="already exists"):
        Journal.create(journal.folder, HEADER)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="already exists"):
        Journal.create(tmp_path / "empty", HEADER)


def test_entries_come_back_in_order(journal: Journal) -> None:
    journal.append("measure", {"values": [1, 2], "label": "a × b"})
    entry = journal.append("select", ("x", "y"))
    assert entry.payload == ["x", "y"]  # as a resumed run would see it
    assert read(journal) == [(1, "measure", {"values": [1, 2], "label": "a × b"}), (2, "select", ["x", "y"])]
    assert Journal.open(journal.folder).entries() == journal.entries()


def test_an_opened_journal_goes_on(journal: Journal) -> None:
    journal.append("measure", 1)
    opened = Journal.open(journal.folder)
    assert opened.append("measure", 2).sequence == 2
    assert read(journal) == [(1, "measure", 1), (2, "measure", 2)]


def test_an_entry_is_synced_before_append_returns(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    fsync = os.fsync

    def spy(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_size)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    journal.append("measure", 1)
    assert synced == [lines_of(journal).stat().st_size]


def test_a_torn_last_line_is_dropped_at_every_byte_and_the_run_goes_on(journal: Journal) -> None:
    journal.append("measure", 1)
    whole = lines_of(journal).stat().st_size
    journal.append("measure", {"text": "ab\\ncd"})
    content = lines_of(journal).read_bytes()
    for cut in range(whole, len(content)):
        lines_of(journal).write_bytes(content[:cut])
        opened = Journal.open(journal.folder)
        assert [entry.payload for entry in opened.entries()] == [1]
    assert opened.append("measure", 3).sequence == 2
    assert read(journal) == [(1, "measure", 1), (2, "measure", 3)]


def test_a_last_line_of_zeros_is_torn_too(journal: Journal) -> None:
    """After a power cut a file may have its new length but not its new content."""
    journal.append("measure", 1)
    with lines_of(journal).open("ab") as file:
        file.write(b"\0" * 50 + b'"}}\n')
    assert read(journal) == [(1, "measure", 1)]


def test_damage_elsewhere_is_an_error(journal: Journal) -> None:
    for value in (10, 20, 30):
        journal.append("measure", value)
    content = lines_of(journal).read_bytes()
    lines = content.splitlines(keepends=True)
    damaged = {
        "changed": content.replace(b":20", b":21"),
        "changed at the end": content.replace(b":30", b":31"),
        "changed at the start": content.replace(b":10", b":11"),
        "removed": lines[0] + lines[2],
        "first removed": lines[1] + lines[2],
        "swapped": lines[0] + lines[2] + lines[1],
        "doubled": lines[0] + lines[1] + lines[1],
        "torn in the middle": lines[0] + lines[1][:-9] + b"\n" + lines[2],
        "not an object": lines[0] + b"[]\n" + lines[1],
        "without checksum": lines[0] + b'{"entry":{"kind":"a","payload":1,"sequence":2}}\n',
        "not ASCII": lines[0] + b"\xff\n" + lines[1],
    }
    for how, text in damaged.items():
        assert text != content, how
        lines_of(journal).write_bytes(text)
        with pytest.raises(InputError, match="damaged at line"):
            Journal.open(journal.folder)
    lines_of(journal).write_bytes(content)
    assert len(Journal.open(journal.folder).entries()) == 3


@pytest.mark.parametrize("entries", [0, 1])
def test_a_changed_header_is_noticed(journal: Journal, entries: int) -> None:
    for _ in range(entries):
        journal.append("measure", 1)
    header = journal.folder / "run.json"
    text = header.read_text()
    for changed in (text.replace("histogram", "histogran"), text[:-5], "", "[]", "{}", text.replace(":", ": "), "\xff"):
        header.write_text(changed)
        with pytest.raises(InputError, match="damaged"):
            Journal.open(journal.folder)
    header.write_text(text.replace('"version":2', '"version":3'))
    with pytest.raises(InputError, match="version 3; this program understands versions 1 to 2"):
        Journal.open(journal.folder)


def test_what_is_not_a_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    for name in ("missing", "file", "empty"):
        with pytest.raises(InputError, match="not the folder of a run"):
            Journal.open(tmp_path / name)


def test_two_processes_that_resume_one_run_cannot_both_append(journal: Journal) -> None:
    journal.append("measure", 1)
    first, second = Journal.open(journal.folder), Journal.open(journal.folder)
    first.append("measure", "first draw")
    with pytest.raises(InputError, match="another process is using the run"):
        second.append("measure", "second draw")
    assert read(journal) == [(1, "measure", 1), (2, "measure", "first draw")]


def test_a_short_write_leaves_the_journal_as_it_was(journal: Journal) -> None:
    journal.append("measure", 1)
    before = lines_of(journal).read_bytes()
    with largest_file(len(before) + 20), pytest.raises(InputError, match="cannot be written"):
        journal.append("measure", "x" * 1000)
    assert lines_of(journal).read_bytes() == before
    journal.append("measure", 2)
    assert read(journal) == [(1, "measure", 1), (2, "measure", 2)]


@pytest.mark.parametrize("where", ["write", "fsync"])
def test_a_full_disk_that_cannot_even_be_cleaned_up(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    journal.append("measure", 1)
    write = os.write

    def full(descriptor: int, data: bytes = b"") -> int:
        if where == "write":
            write(descriptor, data[:30])
        raise OSError(errno.ENOSPC, "No space left on device")

    def stuck(descriptor: int, length: int) -> None:
        raise OSError(errno.EIO, "bad disk")

    monkeypatch.setattr(os, where, full)
    monkeypatch.setattr(os, "ftruncate", stuck)
    with pytest.raises(InputError, match="no space left"):
        journal.append("measure", "lost")
    monkeypatch.undo()
    journal.append("measure", 2)
    assert read(journal) == [(1, "measure", 1), (2, "measure", 2)]


def test_a_full_disk_at_creation_leaves_nothing(tmp_path: Path) -> None:
    with largest_file(10), pytest.raises(InputError, match="cannot be written"):
        Journal.create(tmp_path / "run", HEADER)
    assert list(tmp_path.iterdir()) == []


def test_discard_removes_the_folder(journal: Journal, tmp_path: Path) -> None:
    journal.append("measure", 1)
    journal.discard()
    assert list(tmp_path.iterdir()) == []
    journal.discard()
    with pytest.raises(InputError, match="is gone"):
        journal.append("measure", 2)


@pytest.mark.parametrize("payload", [float("nan"), np.int64(3), {1: object()}])
def test_only_plain_json_goes_in(journal: Journal, payload: object) -> None:
    with pytest.raises(InternalError, match="plain JSON"):
        journal.append("measure", payload)
    assert read(journal) == []


@settings(max_examples=60, deadline=None)
@given(arrays(np.int64, array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)))
def test_arrays_are_packed_without_loss(values: np.ndarray) -> None:
    text = pack_array(values)
    back = unpack_array(json.loads(json.dumps(text)))
    assert back.dtype == np.int64
    assert back.shape == values.shape
    assert np.array_equal(back, values)


def test_packing_is_compact_and_takes_views() -> None:
    noisy = np.zeros((300, 300), dtype=np.int64)
    assert len(pack_array(noisy)) < 1000
    view = np.arange(12, dtype=np.int64).reshape(3, 4).T
    assert np.array_equal(unpack_array(pack_array(view)), view)
    extremes = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max])
    assert np.array_equal(unpack_array(pack_array(extremes)), extremes)


def test_only_int64_is_packed() -> None:
    for dtype in (np.int32, np.float64, np.uint64):
        with pytest.raises(InternalError, match="int64"):
            pack_array(np.zeros(3, dtype=dtype))


def _packed(shape: str, data: bytes) -> str:
    return f"int64:{shape}:{base64.b64encode(data).decode()}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "int64:2",
        "float64:2:",
        "int64:-1:" + base64.b64encode(zlib.compress(b"")).decode(),
        _packed("2", b""),
        _packed("2", zlib.compress(bytes(8))),
        _packed("2", zlib.compress(bytes(24))),
        _packed("2", zlib.compress(bytes(16))[:-1]),
        _packed("2", zlib.compress(bytes(16)) + b"more"),
        _packed("9999999999999999999", zlib.compress(bytes(16))),
        _packed("0x9999999999999999999x9999999999999999999", zlib.compress(b"")),
        _packed("1", zlib.compress(bytes(10**7))),
        "int64:2:!!!!",
        "int64:2:AAA",
        None,
        7,
    ],
)
def test_a_damaged_array_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="packed array"):
        unpack_array(text)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="int64:x0123456789AQeJy=/+", max_size=60))
def test_no_text_breaks_unpacking(text: str) -> None:
    try:
        unpack_array(text)
    except InputError:
        return
    assert text.startswith("int64:")
