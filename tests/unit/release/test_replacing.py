"""``overwrite`` replaces what is wholly a release, by its format and the files it lists, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import understudy as us
from understudy.errors import InputError

SCHEMA = us.Schema(attributes=(us.Attribute(name="sex", levels=("F", "M")),))
RELEASE = us.wrap(pa.table({"sex": ["F", "M", "M"]}), SCHEMA)


def everything(place: Path) -> dict[str, bytes | None]:
    found = {}
    for path in sorted(place.rglob("*")):
        found[str(path.relative_to(place))] = path.read_bytes() if path.is_file() else None
    return found


def edit_manifest(folder: Path, **changes: object) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | changes))


def list_a_stranger(folder: Path) -> None:
    """A manifest that claims the user's file as its own."""
    (folder / "thesis.docx").write_text("mine")
    files = json.loads((folder / "manifest.json").read_text())["files"]
    edit_manifest(folder, files=files | {"thesis.docx": "0" * 64})


def linked(folder: Path) -> None:
    (folder / "README.md").rename(folder.parent / "README.md")
    (folder / "README.md").symlink_to(folder.parent / "README.md")


def test_a_project_with_a_manifest_of_its_own_is_untouched(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".git" / "objects").mkdir(parents=True)
    (project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (project / "src").mkdir()
    (project / "src" / "main.js").write_text("work of years")
    (project / "manifest.json").write_text('{"name": "an extension", "version": 1}')
    before = everything(tmp_path)
    with pytest.raises(InputError, match="is not the manifest of an understudy release"):
        RELEASE.write(project, overwrite=True)
    assert everything(tmp_path) == before


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda folder: (folder / "notes.txt").write_text("mine"), "holds 'notes.txt'"),
        (lambda folder: (folder / ".hidden").write_text("mine"), "holds '.hidden'"),
        (lambda folder: (folder / ".git").mkdir(), "holds '.git'"),
        (lambda folder: (folder / "synthetic_2.parquet").write_text("mine"), "holds 'synthetic_2.parquet'"),
        (linked, "'README.md' in .* is not a plain file"),
        (list_a_stranger, "lists 'thesis.docx', which does not belong"),
        (lambda folder: edit_manifest(folder, version=99), "format version 99"),
        (lambda folder: edit_manifest(folder, format="another"), "not the manifest of an understudy release"),
        (lambda folder: edit_manifest(folder, files=["README.md"]), "does not list the files"),
        (lambda folder: (folder / "manifest.json").write_text("{"), "cannot be read as JSON"),
        (lambda folder: (folder / "manifest.json").unlink(), "has no manifest.json"),
    ],
)
def test_a_release_with_anything_else_is_refused(tmp_path: Path, change: Callable[[Path], object], named: str) -> None:
    folder = RELEASE.write(tmp_path / "release")
    change(folder)
    before = everything(tmp_path)
    with pytest.raises(InputError, match=f"is not replaced, for it is not wholly a release: .*{named}"):
        RELEASE.write(folder, overwrite=True)
    assert everything(tmp_path) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: None,
        lambda folder: (folder / "README.md").write_text("edited"),
        lambda folder: (folder / "synthetic_1.parquet").write_bytes(b"damaged"),
        lambda folder: (folder / "measurements.parquet").unlink(),
    ],
    ids=("whole", "edited", "damaged", "one file lost"),
)
def test_a_release_is_replaced_also_if_its_own_files_were_changed(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    folder = RELEASE.write(tmp_path / "release", csv=True)
    change(folder)
    RELEASE.write(folder, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["release"]
    assert not (folder / "synthetic_1.csv").exists()
    us.read_release(folder)


def test_a_run_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    folder = RELEASE.write(tmp_path / "release")
    (folder / "notes.txt").write_text("mine")
    ledger = us.Ledger.create(tmp_path / "budget.db")
    ledger.create_account("people", unit=us.Unit(), limit=us.PureDP(epsilon=1))
    source = us.open_source(RELEASE.frame(), SCHEMA)
    with pytest.raises(InputError, match=r"holds 'notes\.txt'"):
        us.synthesize(
            source, budget=us.PureDP(epsilon=1), ledger=ledger.path, account="people", out=folder, overwrite=True
        )
    assert (folder / "notes.txt").read_text() == "mine"
    us.synthesize(source, budget=us.PureDP(epsilon=1), ledger=ledger.path, account="people", out=tmp_path / "new")


@pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
def test_samples_and_commutes_are_protected_alike(tmp_path: Path) -> None:
    from understudy.demo.commuters import make_world

    mine = RELEASE.write(tmp_path / "release")
    (mine / "notes.txt").write_text("mine")
    made = us.synthesize(us.open_source(RELEASE.frame(), SCHEMA), budget=us.PureDP(epsilon=1))
    city = make_world(places=200, jobs=500)
    commutes = us.synthesize(
        us.open_commutes(city.flows_table(), places=city.places), budget=us.ApproxDP(epsilon=2, delta="1e-5")
    )
    for write in (
        lambda: us.write_sample(made, mine, rows=5, overwrite=True),
        lambda: commutes.write(mine, overwrite=True),
    ):
        with pytest.raises(InputError, match=r"holds 'notes\.txt'"):
            write()
    assert (mine / "notes.txt").read_text() == "mine"
    (mine / "notes.txt").unlink()
    us.read_release(commutes.write(mine, overwrite=True))
