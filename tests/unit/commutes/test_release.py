"""A release of commutes on disk: it reads back as it was, and anything changed is refused."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.commutes.shared import laws
from understudy.core.exact_numbers import from_text, to_text
from understudy.core.places import make_places
from understudy.demo.commuters import make_world
from understudy.errors import InputError
from understudy.privacy.mechanisms.flow_mixture import ANSWERS
from understudy.privacy.promise.plan import plan_from_json
from understudy.release.folder import hash_file

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")


@pytest.fixture(scope="module")
def world():
    return make_world("town", seed=8)


@pytest.fixture(scope="module")
def release(world, tmp_path_factory):
    source = us.open_commutes(world.flows_table(), places=world.places)
    return us.synthesize(
        source, method="commute", budget=us.ApproxDP(epsilon=2, delta="1e-5"), copies=2, cut_miles="4", mechanism="urn"
    )


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
    planned = [step.label for step in release.provenance.plan.steps if step.action == "measure"]
    assert "jobs by distance" in planned
    assert [one.label for one in again.measurements] == planned
    assert np.array_equal(again.measurements[0].values, release.measurements[0].values)
    assert all(check.passed for check in us.verify(folder))
    with pytest.raises(InputError, match="copy"):
        again.flows(3)


def resealed(folder, name):
    """A folder whose manifest has the hash of a file that was changed."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][name] = hash_file(folder / name)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_the_layout_of_early_releases_is_read_and_verified(release, tmp_path):
    """They had label, mechanism, cell and value for each noisy count, and nothing else."""
    folder = release.write(tmp_path / "r")
    file = folder / "measurements.parquet"
    table = pq.read_table(file)
    early = {name: table[name].cast(pa.string()) for name in ("label", "mechanism")}
    pq.write_table(pa.table({**early, "cell": table["cell"], "value": table["value"]}), file)
    resealed(folder, file.name)
    again = us.read_release(folder)
    assert [one.label for one in again.measurements] == [one.label for one in release.measurements]
    for one, before in zip(again.measurements, release.measurements, strict=True):
        assert np.array_equal(one.values, before.values)
        assert one.mechanism == before.mechanism
    assert all(check.passed for check in us.verify(folder))


@pytest.mark.parametrize("kind", ["trips", 5, None])
def test_a_folder_of_an_unknown_kind_is_refused(release, tmp_path, kind):
    folder = release.write(tmp_path / "r")
    manifest = json.loads((folder / "manifest.json").read_text()) | {"kind": kind}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="of a kind that this program does not know"):
        us.read_release(folder)


def test_the_unit_is_called_a_job(world, tmp_path):
    source = us.open_commutes(world.flows_table(), places=world.places)
    made = us.synthesize(source, budget=us.ApproxDP(epsilon=2, delta="1e-5"), out=tmp_path / "r")
    told = json.loads((tmp_path / "r" / "manifest.json").read_text())["unit_in_words"]
    assert "one unit (one job; assumed, not enforced)" in told
    assert "The number of jobs is public" in told
    assert told in (tmp_path / "r" / "README.md").read_text().replace("\\", "")
    for statement in (made.statement, us.read_release(tmp_path / "r").statement):
        assert statement.protected == told
    page = us.report(made, audience="public", to=tmp_path / "report.html").read_text()
    assert "one person, with one job" in page


def test_codes_and_texts_agree(release):
    origins, destinations, jobs = release.coded()
    table = release.flows()
    assert table["origin"].to_pylist()[:50] == release.places.id_texts(origins[:50])
    assert table["destination"].to_pylist()[:50] == release.places.id_texts(destinations[:50])
    assert jobs.sum() == sum(table["jobs"].to_pylist())


@pytest.mark.parametrize(
    "damage",
    ["changed file", "other file", "smaller prior", "smaller events", "no draw", "no prior", "draws of numbers"],
)
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
    elif damage == "no draw":
        manifest["draws"] = []
    elif damage == "no prior":
        del manifest["draws"][0]["mechanisms"][0]["priors"]
    elif damage == "draws of numbers":
        manifest["draws"] = [1]
    else:
        manifest["events"] = manifest["events"][:1]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert not all(check.passed for check in us.verify(folder))


BUDGETS = {
    "rings": ({"mechanism": "urn"}, us.ApproxDP(epsilon=2, delta="1e-5")),
    "pure": ({"mechanism": "urn"}, us.PureDP(epsilon=2)),
    "by size, noise": ({}, us.ApproxDP(epsilon=2, delta="1e-5")),
    "by size, answers": ({}, us.PureDP(epsilon=2)),
    "accept_reject": ({"rule": "accept_reject", "coarsen": "area:county"}, us.ApproxDP(epsilon=3, delta="1e-3")),
    "shrunk": ({"coarsen": "none", "shrink": "1:1,20:0.8"}, us.ApproxDP(epsilon=8, delta="1e-5")),
    "geometric": ({"mechanism": "geometric"}, us.ApproxDP(epsilon=2, delta="1e-5")),
}


@pytest.fixture(scope="module")
def village():
    number = np.arange(12)
    places = make_places(
        [f"p{n:02d}" for n in number], 41.0 + 0.03 * (number // 4), -71.0 + 0.05 * (number % 4),
        areas={"county": [f"c{n % 3}" for n in number]}, population=number * 3,
    )  # fmt: skip
    rows = [(origin, 3) for origin in number] * 4 + [(origin, 7) for origin in number[:9]]
    flows = {"origin": [f"p{o:02d}" for o, _ in rows], "destination": [f"p{d:02d}" for _, d in rows]}
    return us.open_commutes(pa.table(flows), places=places)


@pytest.mark.parametrize("kind", BUDGETS)
def test_verify_notices_half_the_protection_of_every_draw(village, tmp_path, kind, monkeypatch):
    """Everything else fits: the fault is one that events and plan cannot show."""
    if kind == "by size, answers":  # the village has no destination that is small enough
        monkeypatch.setattr(laws, "best_law", lambda size, budget: (ANSWERS, 3))
    options, budget = BUDGETS[kind]
    us.synthesize(village, method="commute", budget=budget, out=tmp_path / "r", **options)
    assert all(check.passed for check in us.verify(tmp_path / "r"))
    manifest = json.loads((tmp_path / "r" / "manifest.json").read_text())
    (mechanism,) = manifest["draws"][0]["mechanisms"]
    if kind == "geometric":
        mechanism["scale"] = str(float(mechanism["scale"]) / 2)
    elif kind.startswith("by size"):
        half = "scale_of_noise" if kind.endswith("noise") else "prior_of_an_answer"
        mechanism[half] = to_text(from_text(mechanism[half], half) / 2)
    else:
        mechanism["priors"] = [to_text(from_text(text, "prior") / 2) for text in mechanism["priors"]]
    (tmp_path / "r" / "manifest.json").write_text(json.dumps(manifest))
    assert [check.name for check in us.verify(tmp_path / "r") if not check.passed] == ["draws"]


def _forged(folder, change):
    """A release whose manifest was changed and whose hashes were made to fit again, plan included."""
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    manifest["plan_hash"] = plan_from_json(manifest["plan"]).hash
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return [check.name for check in us.verify(folder) if not check.passed]


def test_verify_notices_a_draw_or_a_measurement_that_nobody_charged(village, tmp_path):
    us.synthesize(village, method="commute", budget=us.PureDP(epsilon=2), out=tmp_path / "r")

    def nothing_charged(manifest):
        manifest["events"], manifest["plan"]["steps"], manifest["draws"] = [], [], []

    def only_measured(manifest):
        measured = sum(step["action"] == "measure" for step in manifest["plan"]["steps"])
        for part, name in ((manifest, "events"), (manifest["plan"], "steps")):
            part[name] = part[name][:measured]

    def no_draws(manifest):
        manifest["draws"] = []

    def unknown_law(manifest):
        manifest["draws"][0]["mechanisms"][0]["mechanism"] = "something_else"

    for change, noticed in (
        (nothing_charged, ["measurements", "guarantee"]),
        (only_measured, ["draws"]),
        (no_draws, ["draws"]),
        (unknown_law, ["draws"]),
    ):
        copy = tmp_path / change.__name__
        shutil.copytree(tmp_path / "r", copy)
        assert _forged(copy, change) == noticed


@pytest.mark.parametrize("mechanism", ['{"mechanism": "exact"}', '{"mechanism": "discrete_gaussian", "scale": "4"}'])
def test_verify_notices_a_measurement_of_another_law(village, tmp_path, mechanism):
    folder = tmp_path / "r"
    us.synthesize(village, method="commute", budget=us.PureDP(epsilon=2), out=folder)
    table = pq.read_table(folder / "measurements.parquet")
    column = pa.array([mechanism] * table.num_rows)
    pq.write_table(
        table.set_column(table.column_names.index("mechanism"), "mechanism", column), folder / "measurements.parquet"
    )

    def rehash(manifest):
        manifest["files"]["measurements.parquet"] = hash_file(folder / "measurements.parquet")

    assert _forged(folder, rehash) == ["measurements"]


FALSE_DRAWS = {
    "no mechanism": lambda draw: draw.update(mechanisms=[]),
    "no rows for a job": lambda draw: draw["mechanisms"][0].update(
        rows_per_job=[0, 0], priors=["0.0009765625", "0.0009765625"]
    ),
    "no prior": lambda draw: draw["mechanisms"][0].update(sizes_from=[], cells=[], priors=[], rows_per_job=[]),
    "a prior that no urn has": lambda draw: draw["mechanisms"][0].update(priors=["1000000/3", "1000000/3"]),
}


@pytest.mark.parametrize("change", FALSE_DRAWS.values(), ids=FALSE_DRAWS)
def test_a_draw_that_does_not_say_how_it_was_made(village, tmp_path, change):
    budget = us.ApproxDP(epsilon=2, delta="1e-5")
    folder = us.synthesize(village, method="commute", budget=budget, mechanism="urn").write(tmp_path / "r")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert len(manifest["draws"][0]["mechanisms"][0]["sizes_from"]) == 2
    change(manifest["draws"][0])
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert [check.name for check in us.verify(folder) if not check.passed] == ["draws"]


NO_PRIOR = {"theorem": us.ApproxDP(epsilon=1, delta="1e-5"), "accept_reject": us.ApproxDP(epsilon="0.1", delta="0.2")}


@pytest.mark.parametrize("rule", NO_PRIOR)
def test_a_rule_that_has_no_prior_for_a_budget_is_refused_before_the_charge(village, tmp_path, rule):
    ledger, unit = us.Ledger.create(tmp_path / "l.db"), us.Unit(fixed=("destination",))
    ledger.create_account("a", unit=unit, limit=us.ApproxDP(epsilon=9, delta="0.5"))
    with pytest.raises(us.errors.UnsupportedError):
        us.synthesize(
            village, method="commute", budget=NO_PRIOR[rule], unit=unit, rule=rule, out=tmp_path / "r",
            ledger=tmp_path / "l.db", account="a",
        )  # fmt: skip
    assert ledger.account("a").runs == 0
