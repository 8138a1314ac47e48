"""A folder appears whole or not at all, whoever else writes, whatever the disk does."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from understudy.core import folders
from understudy.core.folders import publish_folder
from understudy.errors import InputError

PUBLISHER = """
import sys, time
from pathlib import Path
from understudy.core.folders import publish_folder
from understudy.errors import InputError
final, go, who, overwrite = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4] == "overwrite"
print("ready", flush=True)
while not go.exists():
    time.sleep(0.001)
def write(folder):
    (folder / "manifest.json").write_text(who)
    for part in range(5):
        (folder / f"part{part}").write_text(who * 1000)
    print("written", flush=True)
    sys.stdin.readline()
try:
    publish_folder(final, write, replaces=(lambda folder: None) if overwrite else None)
    print("won")
except InputError as problem:
    print("lost", problem)
"""


def release(text: str = "new"):
    def write(folder: Path) -> None:
        (folder / "manifest.json").write_text(text)
        (folder / "inner").mkdir()
        (folder / "inner" / "rows").write_text(text)

    return write


def anything(folder: Path) -> None:
    """Any folder may be replaced."""


def nothing(folder: Path) -> None:
    raise InputError(f"{folder} holds something else.")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_appears_with_everything_in_it(tmp_path: Path) -> None:
    publish_folder(tmp_path / "release", release())
    assert names(tmp_path) == ["release"]
    assert (tmp_path / "release" / "inner" / "rows").read_text() == "new"


def test_the_final_name_does_not_exist_while_it_is_written(tmp_path: Path) -> None:
    seen = []

    def write(folder: Path) -> None:
        release()(folder)
        seen.append((folder.parent, (tmp_path / "release").exists()))

    publish_folder(tmp_path / "release", write)
    assert seen == [(tmp_path, False)]


def test_relative_names_and_closing_slashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    publish_folder(Path("release/"), release())
    assert names(tmp_path) == ["release"]


@pytest.mark.parametrize("private", [True, False])
def test_private_folders_are_for_their_owner_alone(tmp_path: Path, private: bool) -> None:
    before = os.umask(0o022)
    try:
        publish_folder(tmp_path / "release", release(), private=private)
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path, *tmp_path.rglob("*"))}
    assert modes["release"] == modes["inner"] == (0o700 if private else 0o755)
    assert modes["manifest.json"] == modes["rows"] == (0o600 if private else 0o644)


def test_every_file_and_folder_is_synced_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    fsync, rename = os.fsync, os.rename

    def spy_fsync(descriptor: int) -> None:
        name = Path(os.readlink(f"/proc/self/fd/{descriptor}")).name
        done.append("release" if name.startswith(folders.SCRATCH) else name)
        fsync(descriptor)

    def spy_rename(old: Path, new: Path) -> None:
        done.append("RENAME")
        rename(old, new)

    monkeypatch.setattr(os, "fsync", spy_fsync)
    monkeypatch.setattr(os, "rename", spy_rename)
    publish_folder(tmp_path / "release", release())
    at = done.index("RENAME")
    assert sorted(done[:at]) == ["inner", "manifest.json", "release", "rows"]
    assert done[at + 1 :] == [tmp_path.name]


@pytest.mark.parametrize("kind", ["folder", "empty", "file", "dangling link"])
def test_an_existing_target_is_refused_before_anything_is_written(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "release"
    if kind == "file":
        target.write_text("mine")
    elif kind == "dangling link":
        target.symlink_to(tmp_path / "nowhere")
    else:
        target.mkdir()
        if kind == "folder":
            (target / "manifest.json").write_text("mine")

    def write(folder: Path) -> None:
        raise AssertionError("must not be called")

    with pytest.raises(InputError, match="already exists"):
        publish_folder(target, write)
    assert names(tmp_path) == ["release"]


def test_a_folder_that_may_go_is_replaced(tmp_path: Path) -> None:
    publish_folder(tmp_path / "release", release("old"))
    publish_folder(tmp_path / "release", release("new"), replaces=anything)
    assert names(tmp_path) == ["release"]
    assert (tmp_path / "release" / "manifest.json").read_text() == "new"


@pytest.mark.parametrize("kind", ["folder", "empty", "file", "link to a release"])
def test_what_may_not_go_is_never_removed(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "photos"
    if kind == "file":
        target.write_text("mine")
    elif kind == "link to a release":
        publish_folder(tmp_path / "elsewhere", release("old"))
        target.symlink_to(tmp_path / "elsewhere")
    else:
        target.mkdir()
        if kind == "folder":
            (target / "cat.jpg").write_text("mine")
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    with pytest.raises(InputError, match=r"not replaced|holds something else"):
        publish_folder(target, release(), replaces=nothing)
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_what_came_in_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody saves a file into the old folder while it is being replaced: it stays, aside."""
    publish_folder(tmp_path / "release", release("old"))
    rename = os.rename

    def rename_and_save(old: Path, new: Path) -> None:
        rename(old, new)
        if ".replaced-" in Path(new).name:
            (Path(new) / "mine").write_text("mine")

    def only_ours(folder: Path) -> None:
        if (folder / "mine").exists():
            raise InputError("holds 'mine'")

    monkeypatch.setattr(os, "rename", rename_and_save)
    publish_folder(tmp_path / "release", release("new"), replaces=only_ours)
    assert (tmp_path / "release" / "manifest.json").read_text() == "new"
    (aside,) = (path for path in tmp_path.iterdir() if ".replaced-" in path.name)
    assert (aside / "mine").read_text() == "mine"


def test_what_is_set_aside_goes_when_the_new_one_stands(tmp_path: Path) -> None:
    publish_folder(tmp_path / "demo", release("old"))
    with folders.set_aside(tmp_path / "demo", anything):
        assert [name.partition("-")[0] for name in names(tmp_path)] == ["demo.replaced"]
        (tmp_path / "demo").mkdir()
        (tmp_path / "demo" / "manifest.json").write_text("new")
    assert names(tmp_path) == ["demo"]
    assert (tmp_path / "demo" / "manifest.json").read_text() == "new"


def test_what_is_set_aside_comes_back_if_the_new_one_fails(tmp_path: Path) -> None:
    publish_folder(tmp_path / "demo", release("old"))
    with pytest.raises(KeyboardInterrupt), folders.set_aside(tmp_path / "demo", anything):  # noqa: PT012
        (tmp_path / "demo").mkdir()
        (tmp_path / "demo" / "half").write_text("new")
        raise KeyboardInterrupt
    assert names(tmp_path) == ["demo"]
    assert names(tmp_path / "demo") == ["inner", "manifest.json"]


def test_nothing_is_set_aside_unasked(tmp_path: Path) -> None:
    publish_folder(tmp_path / "demo", release("old"))
    with pytest.raises(InputError, match="already exists"), folders.set_aside(tmp_path / "demo", None):
        pytest.fail("must not begin")
    with pytest.raises(InputError, match="something else"), folders.set_aside(tmp_path / "demo", nothing):
        pytest.fail("must not begin")
    assert names(tmp_path) == ["demo"]


def test_a_missing_parent_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist; create it first"):
        publish_folder(tmp_path / "no" / "release", release())
    assert names(tmp_path) == []


def test_writing_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing was written for .*release"):
        publish_folder(tmp_path / "release", lambda folder: None)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    "failure", [(errno.ENOSPC, "no space left"), (errno.EROFS, "read-only"), (errno.EACCES, "permission is denied")]
)
@pytest.mark.parametrize("where", ["mkdir", "write", "fsync", "rename"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_failing_disk_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: tuple[int, str], where: str, overwrite: bool
) -> None:
    code, words = failure
    if overwrite:
        publish_folder(tmp_path / "release", release("old"))

    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    def write(folder: Path) -> None:
        release()(folder)
        if where == "write":
            fail()
        if where in ("fsync", "rename"):
            monkeypatch.setattr(os, where, fail)

    if where == "mkdir":
        monkeypatch.setattr(os, "mkdir", fail)
    with pytest.raises(InputError, match=words):
        publish_folder(tmp_path / "release", write, replaces=anything if overwrite else None)
    monkeypatch.undo()
    assert names(tmp_path) == (["release"] if overwrite else [])
    if overwrite:
        assert (tmp_path / "release" / "manifest.json").read_text() == "old"


def test_the_old_release_comes_back_if_the_second_rename_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_folder(tmp_path / "release", release("old"))
    rename, calls = os.rename, []

    def second_fails(old: Path, new: Path) -> None:
        calls.append(Path(new).name)
        if len(calls) == 2:
            raise OSError(errno.EIO, "bad disk")
        rename(old, new)

    monkeypatch.setattr(os, "rename", second_fails)
    with pytest.raises(InputError, match="input/output error"):
        publish_folder(tmp_path / "release", release("new"), replaces=anything)
    assert len(calls) == 3
    assert names(tmp_path) == ["release"]
    assert (tmp_path / "release" / "manifest.json").read_text() == "old"


def test_a_death_between_the_renames_loses_nothing(tmp_path: Path) -> None:
    publish_folder(tmp_path / "release", release("old"))
    code = f"""
import os, signal
from pathlib import Path
from understudy.core.folders import publish_folder
rename = os.rename
def once(old, new):
    rename(old, new)
    os.kill(os.getpid(), signal.SIGKILL)
os.rename = once
publish_folder(Path({str(tmp_path / "release")!r}), lambda folder: (folder / "manifest.json").write_text("new"),
               replaces=lambda folder: None)
"""
    died = subprocess.run([sys.executable, "-c", code], check=False)
    assert died.returncode == -signal.SIGKILL
    found = {path.name.rpartition("-")[0]: (path / "manifest.json").read_text() for path in tmp_path.iterdir()}
    assert found == {"release.replaced": "old", folders.SCRATCH[:-1]: "new"}


def test_other_errors_of_the_writer_pass_and_leave_nothing(tmp_path: Path) -> None:
    def write(folder: Path) -> None:
        release()(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publish_folder(tmp_path / "release", write)
    assert names(tmp_path) == []


def test_a_rival_that_ignores_the_lock_still_wins_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the last look and the rename a foreign program may create the target: the kernel refuses the rename."""
    check = folders.check_target

    def check_then_rival(final: Path, replaces: object) -> object:
        found = check(final, replaces)
        if any(name.startswith(folders.SCRATCH) for name in os.listdir(tmp_path)):
            final.mkdir()
            (final / "theirs").write_text("theirs")
        return found

    monkeypatch.setattr(folders, "check_target", check_then_rival)
    with pytest.raises(InputError, match="created by another process"):
        publish_folder(tmp_path / "release", release())
    assert names(tmp_path) == ["release"]
    assert names(tmp_path / "release") == ["theirs"]


@pytest.mark.parametrize("mode", ["new", "overwrite"])
def test_of_many_processes_exactly_one_wins(tmp_path: Path, mode: str) -> None:
    final, go = tmp_path / "out" / "release", tmp_path / "go"
    final.parent.mkdir()
    if mode == "overwrite":
        publish_folder(final, release("old"))
    rivals = [
        subprocess.Popen(
            [sys.executable, "-c", PUBLISHER, str(final), str(go), str(who), mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for who in range(4)
    ]
    for rival in rivals:
        assert rival.stdout is not None
        assert rival.stdout.readline() == "ready\n"
    go.touch()
    for rival in rivals:  # all have written their temporary folder before any may rename it
        assert rival.stdout is not None
        assert rival.stdout.readline() == "written\n"
    answers = [""] * 4
    for rival in rivals:
        assert rival.stdin is not None
        rival.stdin.write("\n")
        rival.stdin.flush()
    for who, rival in enumerate(rivals):
        answers[who] = rival.communicate(timeout=60)[0]
    assert sorted(answer.split()[0] for answer in answers) == ["lost", "lost", "lost", "won"]
    winner = str(answers.index("won\n"))
    assert names(final.parent) == ["release"]
    assert (final / "manifest.json").read_text() == winner
    assert all((final / f"part{part}").read_text() == winner * 1000 for part in range(5))
