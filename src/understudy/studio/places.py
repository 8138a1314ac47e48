"""Files and folders that the studio shows and opens. Nothing here changes anything."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from understudy.errors import InputError

ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".pq", ".dta", ".sav", ".sas7bdat")
MOST_LISTED = 500
Seen = tuple[int, int, int]  # size, time of the last change, and which file it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One entry of a folder: a file that can be opened, or a folder."""

    name: str
    path: str  # from the folder where the studio was started
    folder: bool
    size: int = 0

    @property
    def shown_size(self) -> str:
        for unit, step in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
            if self.size >= step:
                return f"{self.size / step:.3g} {unit}"
        return f"{self.size} bytes"


def listing(root: Path, below: str = "") -> tuple[Listed, ...]:
    """What is in a folder below ``root``: folders first, then files that can be opened. Hidden ones are left out.

    Raises
    ------
    InputError
        If the folder is not below ``root``, also where a link leads out of it.
    """
    real = root.resolve()
    if "\0" in below or Path(below).is_absolute():
        raise InputError("only what is below the folder where the studio was started is listed.")
    folder = (real / below).resolve()
    if not folder.is_relative_to(real):
        raise InputError("only what is below the folder where the studio was started is listed.")
    if not folder.is_dir():
        raise InputError("this folder is not there any more.")
    found: list[Listed] = []
    try:
        entries = sorted(folder.iterdir(), key=lambda one: one.name.casefold())
    except OSError:
        raise InputError("this folder cannot be read.") from None
    for entry in entries[: 10 * MOST_LISTED]:
        if entry.name.startswith(".") or not _plain(entry.name) or not entry.resolve().is_relative_to(real):
            continue
        path = entry.relative_to(real).as_posix()
        if entry.is_dir() and not (entry / "manifest.json").exists():
            found.append(Listed(name=entry.name, path=path, folder=True))
        elif entry.is_file() and entry.name.lower().endswith(ENDINGS):
            found.append(Listed(name=entry.name, path=path, folder=False, size=entry.stat().st_size))
    return tuple(sorted(found, key=lambda one: not one.folder)[:MOST_LISTED])


def _plain(name: str) -> bool:
    """Whether a name can be written on a page; those of other systems may be no text."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def named_file(root: Path, text: str) -> Path:
    """The file that somebody typed or chose: from the folder of the studio, or a whole path.

    Raises
    ------
    InputError
        If there is no such file, or it is of a kind that the studio does not open.
    """
    plain = text.strip()
    if not plain or "\0" in plain:
        raise InputError("choose a file, or type its path.")
    path = root / Path(plain).expanduser()
    if path.is_dir():
        raise InputError(f"{plain} is a folder; choose a file in it.")
    if not path.is_file():
        raise InputError(f"{plain} is not there. Type its path from {root}, or the whole path.")
    if not path.name.lower().endswith(ENDINGS):
        raise InputError(f"{plain} is not a file that is opened here. These are: {', '.join(ENDINGS)}.")
    return path.resolve()


def seen(path: Path) -> Seen:
    """What tells that a file is still the same.

    Raises
    ------
    InputError
        If it is not there any more.
    """
    try:
        found = path.stat()
    except OSError:
        raise InputError(
            f"{path.name} is not there any more. Nothing was spent. Put it back, or choose another file."
        ) from None
    return found.st_size, found.st_mtime_ns, found.st_ino
