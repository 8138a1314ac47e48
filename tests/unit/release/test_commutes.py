"""A release of commutes on disk: it reads back as it was, and anything changed is refused."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.demo.gravity import make_world
from understudy.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")


@pytest.fixture(scope="module")
def world():
    return make_world("town", seed=8)


@pytest.fixture(scope="module")
def release(world, tmp_path_factory):
    source = us.open_commutes(world.flows_table(), places=world.places)
    return us.synthesize(source, method="commute", budget=us.ApproxDP(epsilon=2, delta="1e-5"), copies=2, cut_miles="4")


def test_a_release_without_a_folder_keeps_its_tables_and_can_be_written(release, tmp_path):
    folder = release.write(tmp_path / "r", csv=True)
    again = us.read_release(folder)
    assert again.places.fingerprint == release.places.fingerprint
    assert again.copies == 2
    for copy in (1, 2):
        assert again.flows(copy).equals(release.flows(copy))
        lines = (folder / f"synthetic_{copy}.csv").read_text().splitlines()
        assert lines[0].replace('"', "") == "origin,destination,jobs"
        assert len(lines) == again.flows(copy).num_rows + 1
    assert again.statement.guarantee == release.statement.guarantee
    assert [one.label for one in again.measurements] == ["jobs by distance"]
    assert np.array_equal(again.measurements[0].values, release.measurements[0].values)
    assert all(check.passed for check in us.verify(folder))
    with pytest.raises(InputError, match="copy"):
        again.flows(3)


def test_codes_and_texts_agree(release):
    origins, destinations, jobs = release.coded()
    table = release.flows()
    assert table["origin"].to_pylist()[:50] == release.places.id_texts(origins[:50])
    assert table["destination"].to_pylist()[:50] == release.places.id_texts(destinations[:50])
    assert jobs.sum() == sum(table["jobs"].to_pylist())


@pytest.mark.parametrize("damage", ["changed file", "other file", "smaller prior", "smaller events"])
def test_verify_notices(release, tmp_path, damage):
    folder = release.write(tmp_path / "r")
    manifest = json.loads((folder / "manifest.json").read_text())
    if damage == "changed file":
        pq.write_table(release.flows().slice(1), folder / "synthetic_1.parquet")
    elif damage == "other file":
        (folder / "notes.txt").write_text("x")
    elif damage == "smaller prior":
        mechanism = manifest["draws"][0]["mechanisms"][0]
        mechanism["priors"] = ["1/1024" for _ in mechanism["priors"]]
    else:
        manifest["events"] = manifest["events"][:1]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert not all(check.passed for check in us.verify(folder))
