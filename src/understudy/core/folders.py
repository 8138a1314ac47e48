"""Folders that appear whole or not at all.

A folder is written under a temporary name beside its final one, forced to the disk, and renamed. Whoever looks at the
final name sees nothing or everything, also after a power cut. Of several processes that publish under the same name
exactly one succeeds.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from understudy.errors import InputError

RELEASE_MARK = "manifest.json"
# Raises an InputError, which names the obstacle, unless everything in the folder may be deleted.
MayReplace = Callable[[Path], None]
SIGNATURE = "signature.json"  # the one file of a release that its manifest cannot list
SCRATCH = ".understudy-scratch-"  # a crash may leave folders with such names; they can be deleted
_EXPLAINED = {
    errno.ENOSPC: "there is no space left on the disk; free some, or choose another disk.",
    errno.EDQUOT: "the disk quota is used up; free some space, or choose another disk.",
    errno.EROFS: "the disk is read-only; choose another place.",
    errno.EACCES: "permission is denied; choose a folder you may write to.",
    errno.EPERM: "permission is denied; choose a folder you may write to.",
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one.",
    errno.EIO: "the disk reported an input/output error; check the disk before trying again.",
    errno.ENOLCK: "its file system cannot lock files; choose a local disk.",
    errno.EFBIG: "a file would grow beyond what this disk allows; choose another disk.",
}


def disk_error(problem: OSError, path: Path) -> InputError | None:
    """What a failure of the disk means for the user; None if the disk did not cause it."""
    explained = _EXPLAINED.get(problem.errno or 0)
    return InputError(f"{path} cannot be written: {explained}") if explained else None


@contextlib.contextmanager
def explained_disk_errors(path: Path) -> Iterator[None]:
    """Turns a full disk, a read-only folder and the like into an ``InputError`` that names ``path``."""
    try:
        yield
    except OSError as problem:
        explained = disk_error(problem, path)
        if explained is None:
            raise
        raise explained from None


def as_path(value: object, what: str) -> Path:
    """A path from a user; anything else is refused with a clear message.

    >>> as_path(3, "the release")
    Traceback (most recent call last):
        ...
    understudy.errors.InputError: the release (a value of type int) must be a path: a text or a pathlib.Path.
    """
    if not isinstance(value, str | os.PathLike) or isinstance(os.fspath(value), bytes):
        raise InputError(f"{what} (a value of type {type(value).__name__}) must be a path: a text or a pathlib.Path.")
    return Path(value)


def output_path(path: str | os.PathLike[str]) -> Path:
    """An absolute path with a name of its own, so that a temporary folder can lie beside it."""
    absolute = Path(os.path.abspath(as_path(path, "the place to write to")))
    if not absolute.name:
        raise InputError(f"{path} cannot be written to; name a folder inside it.")
    return absolute


def sync_folder(folder: Path) -> None:
    """Forces the names in a folder to the disk; a file's own fsync does not make its name durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as problem:
        if problem.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems whose folders cannot be synced
            raise
    finally:
        os.close(descriptor)


def scratch_path(folder: Path) -> Path:
    """A new hidden name in a folder, for what is being written or removed."""
    return folder / f"{SCRATCH}{secrets.token_hex(8)}"


def write_private(target: Path, text: str) -> None:
    """A file for its owner alone (mode 0600), whatever the umask; one of that name is replaced when it is whole."""
    scratch = scratch_path(target.parent)
    try:
        descriptor = os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, target)
    finally:
        scratch.unlink(missing_ok=True)  # it is there only if something failed


def publish_folder(
    final: Path, write: Callable[[Path], None], *, replaces: MayReplace | None = None, private: bool = False
) -> None:
    """Let ``write`` fill a temporary folder, then make it appear as ``final`` in one step.

    An existing target is refused. With ``replaces`` a folder is replaced only if ``replaces`` accepts it, so that a
    mistyped path never deletes a user's files. The old folder is renamed aside before the new one is renamed in. It is
    removed only after that, and only if ``replaces`` still finds nothing else in it. A process that dies in between
    leaves both on the disk, the old one as ``NAME.replaced-*``. ``private`` folders are for their owner alone, and so
    is each file.

    Why a rename and no lock file: renaming onto a folder that is not empty fails in the kernel, so of several processes
    exactly one wins even without cooperation, and no lock can be left behind. An advisory lock on the parent folder,
    dropped by the kernel when a process dies, only orders the two renames of an overwrite.
    """
    final = Path(os.path.abspath(final))
    if not final.parent.is_dir():
        raise InputError(f"{final} cannot be written: the folder {final.parent} does not exist; create it first.")
    before = check_target(final, replaces)
    partial = scratch_path(final.parent)
    with explained_disk_errors(final):
        os.mkdir(partial, 0o700 if private else 0o777)
        try:
            write(partial)
            if not os.listdir(partial):  # an empty folder could replace, or be replaced by, another without an error
                raise InputError(f"nothing was written for {final}.")
            if private:
                _only_for_the_owner(partial)
            _sync_tree(partial)
            with _ordered(final.parent):
                if check_target(final, replaces) != before:
                    raise InputError(f"{final} was changed by another process in the meantime; nothing was written.")
                _move_into_place(partial, final, replaces if before is not None else None)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise


def check_target(final: Path, replaces: MayReplace | None) -> tuple[int, ...] | None:
    """Refuses a target that exists; with ``replaces`` only one that ``replaces`` refuses.

    Gives the identity of the existing folder, if any, so that a replacement by another process is noticed.
    """
    try:
        found = os.lstat(final)
    except FileNotFoundError:
        return None
    if replaces is None:
        raise InputError(
            f"{final} already exists; choose another name, or replace it with --overwrite (overwrite=True in Python)."
        )
    if final.is_symlink() or not final.is_dir():
        raise InputError(
            f"{final} is {'a link' if final.is_symlink() else 'a file'} and no folder, so it is not replaced; choose "
            "another name, or remove it yourself."
        )
    replaces(final)
    return found.st_dev, found.st_ino, found.st_mtime_ns


@contextlib.contextmanager
def set_aside(final: Path, replaces: MayReplace | None) -> Iterator[None]:
    """Make room for a folder that is written in place, step by step; the old folder is put back if that fails."""
    if check_target(final, replaces) is None:
        yield
        return
    assert replaces is not None  # noqa: S101 - else an existing target was refused
    aside = _aside(final)
    os.rename(final, aside)
    try:
        yield
    except BaseException:
        shutil.rmtree(final, ignore_errors=True)  # begun here a moment ago
        with contextlib.suppress(OSError):  # an old folder that cannot be put back keeps its other name
            os.rename(aside, final)
        raise
    _remove(aside, replaces)


def _aside(final: Path) -> Path:
    return final.with_name(f"{final.name}.replaced-{secrets.token_hex(4)}")


def _remove(aside: Path, replaces: MayReplace) -> None:
    """Delete what was replaced, unless something was added to it after it was checked."""
    with contextlib.suppress(InputError):
        replaces(aside)
        shutil.rmtree(aside, ignore_errors=True)


def _only_for_the_owner(folder: Path) -> None:
    """Protect each file too: a copy of a file takes the mode of the file along, not that of the folder."""
    for parent, _, files in os.walk(folder):
        for path in (parent, *(os.path.join(parent, name) for name in files)):
            os.chmod(path, os.stat(path).st_mode & 0o700)


@contextlib.contextmanager
def _ordered(parent: Path) -> Iterator[None]:
    descriptor = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # some network file systems cannot lock a folder; the rename still decides
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _move_into_place(partial: Path, final: Path, replaces: MayReplace | None) -> None:
    # Only the folder that was checked is moved away: one that appeared later makes the rename fail.
    aside = _aside(final)
    if replaces is not None:
        os.rename(final, aside)
    try:
        os.rename(partial, final)
    except BaseException as problem:
        if replaces is not None:
            with contextlib.suppress(OSError):  # an old release that cannot be put back keeps its other name
                os.rename(aside, final)
        if isinstance(problem, OSError) and problem.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            raise InputError(f"{final} was created by another process in the meantime; nothing was written.") from None
        raise
    sync_folder(final.parent)
    if replaces is not None:
        _remove(aside, replaces)


def _sync_tree(folder: Path) -> None:
    for parent, _, files in os.walk(folder, topdown=False):
        for name in files:
            descriptor = os.open(os.path.join(parent, name), os.O_RDONLY | os.O_NOFOLLOW)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_folder(Path(parent))


def release_above(path: Path) -> Path | None:
    """The release folder that a path is or lies in, if any: nothing but a release's own files may go there.

    Here the name of the manifest is enough: what looks like a release is left alone, whatever else it is.
    """
    absolute = Path(os.path.realpath(path))
    return next((folder for folder in (absolute, *absolute.parents) if (folder / RELEASE_MARK).is_file()), None)
