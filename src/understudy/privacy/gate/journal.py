"""The journal of a run: every noisy answer, on the disk before anybody uses it, so that a crash costs nothing.

A run that dies after its charge is finished from its journal without drawing again what was drawn: the charge covers
one draw of each answer. What goes in: plans, noisy answers that left the gate, choices made from them. Never counts,
never a key or a seed of the noise. **One thing in a run folder is confidential**: the key of the run's data and, under
it, their fingerprint, by which a resumed run recognises them (``privacy.randomness.fingerprint``). The folder is for
its owner alone, and goes when the run ends.

The folder holds ``run.json`` (the header) and ``journal.jsonl`` (one line per entry). Each line carries its number and
a SHA-256 checksum over the previous checksum and its own text. A line cut short by a crash was never handed out, and is
dropped. Any other damage is an error.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import fcntl
import hashlib
import io
import json
import math
import os
import re
import shutil
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.folders import explained_disk_errors, publish_folder, scratch_path, sync_folder
from understudy.errors import InputError, InternalError
from understudy.privacy.ledger.store import Head

VERSION = 2
READABLE = (1, VERSION)  # version 1 had no key and no fingerprint of the data
HEADER_FILE = "run.json"
LINES_FILE = "journal.jsonl"
_PACKED = re.compile(r"int64:((?:\d{1,19}(?:x\d{1,19}){0,63})?):([A-Za-z0-9+/]*={0,2})")

Follower = Callable[[Head, Head], None]  # called with the head that it knew and the head now


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One line: ``sequence`` counts from 1."""

    sequence: int
    kind: str
    payload: Any


class Journal:
    """An append-only list of public values in a folder of their own. Made by :meth:`create` or :meth:`open`.

    Two processes that resume the same run cannot both append: a process that finds the file longer than it left it is
    refused. So only one draw of each answer is ever used. A copy of the folder is another file; what stops it is that
    an answer is handed out only after :meth:`confirm`, which asks the ledger.
    """

    def __init__(self, folder: Path, header: Mapping[str, Any], start: str) -> None:
        self.folder = folder
        self.header = header
        self._entries: list[JournalEntry] = []
        self._checksums = [start]
        self._follower: Follower | None = None
        self._confirmed = self.head  # as far as the follower knows the journal
        self._sound_bytes = 0  # up to here the file is good
        self._known_bytes = 0  # its length when last seen; more than the good part after a torn line

    @classmethod
    def create(cls, folder: Path, header: Mapping[str, Any]) -> Journal:
        """A new journal; the folder appears complete, for its owner alone, and must not exist."""
        folder = Path(os.path.abspath(folder))
        text = _canonical({"version": VERSION, "header": header, "checksum": _digest(_canonical(header))})

        def write(partial: Path) -> None:
            for name, content in ((HEADER_FILE, text + "\n"), (LINES_FILE, "")):
                descriptor = os.open(partial / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
                with os.fdopen(descriptor, "w", encoding="ascii") as file:
                    file.write(content)

        publish_folder(folder, write, private=True)
        return cls(folder, json.loads(text)["header"], _digest(text))

    @classmethod
    def open(cls, folder: Path) -> Journal:
        """An existing journal, checked from the first line to the last."""
        folder = Path(os.path.abspath(folder))
        try:
            text = (folder / HEADER_FILE).read_text(encoding="ascii").removesuffix("\n")
            lines = (folder / LINES_FILE).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(
                f"{folder} is not the folder of a run (it needs {HEADER_FILE} and {LINES_FILE}); check the name, or "
                "the run is finished already."
            ) from None
        except UnicodeDecodeError:
            raise InputError(f"{folder / HEADER_FILE} is damaged; this run cannot be resumed.") from None
        except OSError as problem:
            raise InputError(f"{folder} cannot be read ({problem.strerror}).") from None
        journal = cls(folder, _read_header(text, folder), _digest(text))
        journal._read(lines)
        return journal

    def entries(self) -> tuple[JournalEntry, ...]:
        """Everything that was appended, in order."""
        return tuple(self._entries)

    @property
    def checksums(self) -> tuple[str, ...]:
        """Over everything up to each entry; the first is that of the header."""
        return tuple(self._checksums)

    @property
    def head(self) -> Head:
        return Head(sequence=len(self._entries), hash=self._checksums[-1])

    def follow(self, follower: Follower) -> None:
        """From now on ask ``follower`` (the ledger) at each :meth:`confirm`; it knows the journal up to here."""
        self._follower, self._confirmed = follower, self.head

    def confirm(self) -> None:
        """Tell the follower how far the journal has come, before what was appended is handed out; it may refuse.

        Without a ledger there is no follower, and copies of the folder are not noticed.
        """
        if self._follower is not None:
            self._follower(self._confirmed, self.head)
            self._confirmed = self.head

    def append(self, kind: str, payload: Any) -> JournalEntry:
        """Add one entry; it is on the disk when this returns. On an error the journal is as it was."""
        sequence = len(self._entries) + 1
        content = _canonical({"kind": kind, "payload": payload, "sequence": sequence})
        checksum = _digest(f"{self._checksums[-1]}\n{content}")
        line = f'{{"checksum":"{checksum}","entry":{content}}}\n'.encode("ascii")
        path = self.folder / LINES_FILE
        with explained_disk_errors(self.folder):
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
            except FileNotFoundError:
                raise InputError(f"the journal {path} is gone; this run cannot go on.") from None
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)  # until closed, or the process dies
                if os.fstat(descriptor).st_size != self._known_bytes:
                    raise InputError(f"another process is using the run {self.folder}; wait for it, then resume.")
                if self._known_bytes != self._sound_bytes:
                    os.ftruncate(descriptor, self._sound_bytes)
                    self._known_bytes = self._sound_bytes
                self._write(descriptor, line)
            finally:
                os.close(descriptor)
        self._sound_bytes = self._known_bytes = self._sound_bytes + len(line)
        self._checksums.append(checksum)
        # Read back from the text, so that a resumed run sees the same values as the first.
        entry = JournalEntry(sequence=sequence, kind=kind, payload=json.loads(content)["payload"])
        self._entries.append(entry)
        return entry

    def discard(self) -> None:
        """Remove the folder, at the end of a run. A crash on the way leaves the whole journal or none of it."""
        aside = scratch_path(self.folder.parent)
        with explained_disk_errors(self.folder):
            try:
                os.rename(self.folder, aside)
            except FileNotFoundError:
                return
            sync_folder(self.folder.parent)
            shutil.rmtree(aside)

    def _write(self, descriptor: int, line: bytes) -> None:
        try:
            written = 0
            while written < len(line):
                written += os.write(descriptor, line[written:])
            os.fsync(descriptor)
        except BaseException:
            # What did get written must not become the beginning of the next line.
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, self._sound_bytes)
            with contextlib.suppress(OSError):
                self._known_bytes = os.fstat(descriptor).st_size
            raise

    def _read(self, lines: bytes) -> None:
        self._known_bytes = len(lines)
        for line in io.BytesIO(lines):
            last = self._sound_bytes + len(line) == len(lines)
            try:
                if not line.endswith(b"\n"):
                    raise ValueError
                data = json.loads(line)
            except ValueError:
                if last:
                    return  # torn by a crash: its fsync never returned, so nobody has seen it
                raise self._damaged() from None
            self._take(line, data)

    def _take(self, line: bytes, data: Any) -> None:
        try:
            content = _canonical(data["entry"])
            checksum = _digest(f"{self._checksums[-1]}\n{content}")
            entry = JournalEntry(**data["entry"])
            stated = data["checksum"]
        except (TypeError, KeyError, ValueError, InternalError):
            raise self._damaged() from None
        if stated != checksum or entry.sequence != len(self._entries) + 1:
            raise self._damaged()
        self._entries.append(entry)
        self._checksums.append(checksum)
        self._sound_bytes += len(line)

    def _damaged(self) -> InputError:
        return InputError(
            f"the journal {self.folder / LINES_FILE} is damaged at line {len(self._entries) + 1}; this run cannot be "
            "resumed. Its charge stands: start a new run."
        )


def _read_header(text: str, folder: Path) -> Mapping[str, Any]:
    try:
        data = json.loads(text)
        version, header = data["version"], data["header"]
        if not isinstance(header, dict) or data["checksum"] != _digest(_canonical(header)) or _canonical(data) != text:
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{folder / HEADER_FILE} is damaged; this run cannot be resumed.") from None
    if version not in READABLE:
        raise InputError(f"the run {folder} has version {version}; this program understands versions 1 to {VERSION}.")
    return header


def _canonical(data: Any) -> str:
    try:
        return json.dumps(data, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as problem:
        raise InternalError(f"a journal takes plain JSON values only ({type(problem).__name__}).") from None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def pack_array(values: NDArray[np.int64]) -> str:
    """A compact, lossless text of an integer array: its shape, then its bytes compressed.

    >>> unpack_array(pack_array(np.array([[1, -2], [3, 4]]))).tolist()
    [[1, -2], [3, 4]]
    """
    if values.dtype != np.int64:
        raise InternalError(f"pack_array takes int64, not {values.dtype}.")
    data = zlib.compress(np.ascontiguousarray(values, dtype="<i8").tobytes(), level=6)
    return f"int64:{'x'.join(map(str, values.shape))}:{base64.b64encode(data).decode('ascii')}"


def unpack_array(text: str) -> NDArray[np.int64]:
    """Read back what :func:`pack_array` wrote; anything else is an error, whatever its claimed size."""
    found = _PACKED.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise InputError("a packed array must read int64:SHAPE:DATA.")
    shape = tuple(int(size) for size in found[1].split("x")) if found[1] else ()
    size = 8 * math.prod(shape)
    try:
        packed = base64.b64decode(found[2], validate=True)
        # zlib packs at most 1032 to 1: a false shape or a bomb is noticed before any memory is taken for it.
        if size > 1032 * len(packed):
            raise ValueError
        reader = zlib.decompressobj()
        data = reader.decompress(packed, size + 1)
        if len(data) != size or not reader.eof or reader.unused_data:
            raise ValueError
        return np.frombuffer(data, dtype="<i8").astype(np.int64).reshape(shape)
    except (binascii.Error, zlib.error, ValueError):
        raise InputError("a packed array is damaged: its data do not fit its shape.") from None
