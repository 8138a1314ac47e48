"""Descriptions for machines: Croissant, schema.org and DCAT, and the release beside them stays a release."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.demo.people import make_people, small_schema
from understudy.errors import InputError, UnknownNameError

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
SCHEMAS = Path(__file__).resolve().parents[2] / "golden" / "schemas"
NAMES = {"croissant": "croissant.json", "dcat": "dcat.jsonld"}


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    made = us.synthesize(
        make_people(300), schema=small_schema(), budget=us.PureDP(epsilon=1), method="independent", copies=2
    )
    return made.write(tmp_path_factory.mktemp("made") / "release")


@pytest.mark.parametrize("to", NAMES)
def test_a_description_has_its_form_and_says_that_the_data_are_synthetic(release, to, tmp_path):
    jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema: install the extra 'dev'")
    folder = us.export(release, to=to, out=tmp_path / to)
    told = json.loads((folder / NAMES[to]).read_text())
    schema = json.loads((SCHEMAS / f"{to}.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(told)
    broken = json.loads(json.dumps(told).replace("NO ROW IS A PERSON", "EVERY ROW IS A PERSON"))
    assert list(jsonschema.Draft202012Validator(schema).iter_errors(broken))
    assert all(check.passed for check in us.verify(folder / "release"))
    assert "NO ROW IS A PERSON" in (folder / "README.txt").read_text()


def test_every_file_is_listed_with_its_hash(release, tmp_path):
    folder = us.export(release, to="croissant", out=tmp_path / "c")
    told = json.loads((folder / "croissant.json").read_text())
    files = {one["name"]: one["sha256"] for one in told["distribution"]}
    assert set(files) == {file.name for file in release.iterdir()}
    stated = us.read_manifest(release)["files"]
    assert {name: digest for name, digest in files.items() if name in stated} == stated
    assert [one["name"] for one in told["recordSet"]] == ["synthetic_1", "synthetic_2"]


def test_mlcroissant_reads_the_description_and_the_rows(release, tmp_path):
    croissant = pytest.importorskip("mlcroissant", reason="needs mlcroissant: install the extra 'crosscheck'")
    folder = us.export(release, to="croissant", out=tmp_path / "c")
    found = croissant.Dataset(jsonld=str(folder / "croissant.json"))
    assert not found.metadata.issues.errors
    rows = list(itertools.islice(found.records("synthetic_1"), 5))
    first = us.read_release(release).frame(1).slice(0, 5).to_pylist()
    for row, ours in zip(rows, first, strict=True):
        assert row["synthetic_1/age"] == ours["age"]
        assert row["synthetic_1/sex"].decode() == ours["sex"]


def test_rdflib_reads_the_graph_of_dcat(release, tmp_path):
    rdflib = pytest.importorskip("rdflib", reason="needs rdflib: install the extra 'crosscheck'")
    folder = us.export(release, to="dcat", out=tmp_path / "d")
    graph = rdflib.Graph().parse(folder / "dcat.jsonld", format="json-ld")
    dcat = rdflib.Namespace("http://www.w3.org/ns/dcat#")
    (dataset,) = graph.subjects(rdflib.RDF.type, dcat.Dataset)
    assert (dataset, rdflib.RDF.type, rdflib.URIRef("https://schema.org/Dataset")) in graph
    assert len(list(graph.objects(dataset, dcat.distribution))) == len(list(release.iterdir()))


@pytest.mark.parametrize("to", ["csv", "dta", "sav", "r", "croissant", "dcat"])
def test_every_format_marks_the_data_as_synthetic(release, to, tmp_path):
    folder = us.export(release, to=to, out=tmp_path / to)
    texts = [file.read_bytes() for file in folder.rglob("*") if file.suffix in (".txt", ".json", ".jsonld")]
    assert any(b"NO ROW IS A PERSON" in text for text in texts)
    for file in (*folder.glob("*.dta"), *folder.glob("*.sav")):
        assert b"SYNTHETIC DATA" in file.read_bytes()


def test_parquet_files_with_rows_are_marked_as_synthetic(release, tmp_path):
    """Those of a release, and those of more rows drawn from it."""
    more = us.write_sample(us.read_release(release), tmp_path / "more", rows=50, copies=1)
    for file in (*release.glob("synthetic_*.parquet"), *more.glob("synthetic_*.parquet")):
        assert b"NO ROW IS A PERSON" in b" ".join(pq.read_schema(file).metadata.values()), file


def altered(release, tmp_path, change):
    """A release whose manifest was rewritten by somebody: its hashes match, its statement does not."""
    place = tmp_path / "altered"
    shutil.copytree(release, place)
    file = place / "manifest.json"
    manifest = json.loads(file.read_text())
    change(manifest)
    file.write_text(json.dumps(manifest))
    return place


@pytest.mark.parametrize("to", ["csv", "r", "croissant"])
def test_a_release_that_does_not_pass_verify_is_exported_only_if_asked(release, to, tmp_path):
    place = altered(release, tmp_path, lambda manifest: manifest["guarantee"].update(epsilon="0.001"))
    with pytest.raises(InputError, match=r"does not pass understudy verify \(.*--unverified"):
        us.export(place, to=to)
    assert not place.with_name(f"altered-{to}").exists()
    folder = us.export(place, to=to, unverified=True)
    assert "did not pass understudy verify" in (folder / "README.txt").read_text()
    if to == "r":
        assert json.loads((folder / "understudy-r.json").read_text())["verified"] is False


def test_a_changed_file_is_named(release, tmp_path):
    place = altered(release, tmp_path, lambda manifest: None)
    (place / "README.md").write_text("other words")
    with pytest.raises(InputError, match=r"'README.md' .* was changed"):
        us.export(place, to="r")


@pytest.mark.parametrize("to", ["r", "croissant"])
def test_a_file_that_disappears_meanwhile_leaves_nothing_behind(release, to, tmp_path, monkeypatch):
    from understudy.release import export as exporting

    place = altered(release, tmp_path, lambda manifest: None)
    opened = exporting.open_for_export(place, to=to, out=tmp_path / "out", unverified=False)
    for name in ("manifest.json", "synthetic_2.parquet"):
        (place / name).unlink()
    monkeypatch.setattr(exporting, "open_for_export", lambda *a, **k: opened)
    with pytest.raises(InputError, match=r"disappeared|removed or changed|not a release folder|lacks|has no manifest"):
        us.export(place, to=to, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert [file.name for file in tmp_path.iterdir()] == ["altered"]


def test_what_cannot_be_exported_is_refused(release, tmp_path):
    with pytest.raises(UnknownNameError, match="croissant"):
        us.export(release, to="croisant", out=tmp_path / "x")
    with pytest.raises(InputError, match="population goes with"):
        us.export(release, to="r", out=tmp_path / "x", population=10)
    for to in ("r", "croissant"):
        with pytest.raises(InputError, match="write the release first"):
            us.export(us.read_release(release), to=to, out=tmp_path / "x")
