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
SIGNATURE = "signature.json"  # the one file of a release that its manifest cannot list
SCRATCH = ".understudy-scratch-"  # what a crash leaves under such a name may be deleted
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
    """What a failure of the disk means for the user, or nothing if it is not the disk's doing."""
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


def publish_folder(
    final: Path, write: Callable[[Path], None], overwrite: bool = False, *, private: bool = False
) -> None:
    """Let ``write`` fill a temporary folder, then make it appear as ``final`` in one step.

    An existing target is refused. With ``overwrite`` a release (a folder with a manifest.json) is replaced and anything
    else still refused: a mistyped path never costs a user's files. The old release is renamed aside before the new one
    is renamed in and removed only after that, so a process that dies in between leaves both on the disk, the
    old one as ``NAME.replaced-*``. ``private`` folders are for their owner alone (mode 0700).

    Why a rename and no lock file: renaming onto a folder that is not empty fails in the kernel, so of several processes
    exactly one wins even without cooperation, and no lock can be left behind. An advisory lock on the parent folder,
    dropped by the kernel when a process dies, only orders the two renames of an overwrite.
    """
    final = Path(os.path.abspath(final))
    if not final.parent.is_dir():
        raise InputError(f"{final} cannot be written: the folder {final.parent} does not exist; create it first.")
    before = check_target(final, overwrite)
    partial = scratch_path(final.parent)
    with explained_disk_errors(final):
        os.mkdir(partial, 0o700 if private else 0o777)
        try:
            write(partial)
            if not os.listdir(partial):  # an empty folder could replace, or be replaced by, another without an error
                raise InputError(f"nothing was written for {final}.")
            _sync_tree(partial)
            with _ordered(final.parent):
                if check_target(final, overwrite) != before:
                    raise InputError(f"{final} was changed by another process in the meantime; nothing was written.")
                _move_into_place(partial, final, replacing=before is not None)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise


def check_target(final: Path, overwrite: bool) -> tuple[int, ...] | None:
    """Refuses a target that is taken: anything at all, or with ``overwrite`` anything but a release.

    Says which folder stands there, if any: enough to notice that another process replaced it.
    """
    try:
        found = os.lstat(final)
    except FileNotFoundError:
        return None
    if not overwrite:
        raise InputError(f"{final} already exists; choose another name, or ask for it to be overwritten.")
    if final.is_symlink() or not final.is_dir() or not (final / RELEASE_MARK).is_file():
        raise InputError(
            f"{final} exists and is not a release folder (it has no {RELEASE_MARK}), so it is not overwritten; "
            "choose another name, or remove it yourself."
        )
    return found.st_dev, found.st_ino, found.st_mtime_ns


@contextlib.contextmanager
def _ordered(parent: Path) -> Iterator[None]:
    descriptor = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # some network file systems cannot lock a folder; the rename still decides
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _move_into_place(partial: Path, final: Path, *, replacing: bool) -> None:
    # Only what was looked at may go aside: a folder that appeared since then makes the rename fail instead.
    aside = final.with_name(f"{final.name}.replaced-{secrets.token_hex(4)}")
    if replacing:
        os.rename(final, aside)
    try:
        os.rename(partial, final)
    except BaseException as problem:
        if replacing:
            with contextlib.suppress(OSError):  # if the old release cannot go back it stays aside: never removed here
                os.rename(aside, final)
        if isinstance(problem, OSError) and problem.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            raise InputError(f"{final} was created by another process in the meantime; nothing was written.") from None
        raise
    sync_folder(final.parent)
    if replacing:
        shutil.rmtree(aside, ignore_errors=True)


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
    """The release folder that a path is or lies in, if any: nothing but a release's own files may go there."""
    absolute = Path(os.path.realpath(path))
    return next((folder for folder in (absolute, *absolute.parents) if (folder / RELEASE_MARK).is_file()), None)
