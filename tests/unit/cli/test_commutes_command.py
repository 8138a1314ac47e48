"""Commutes on the command line: places instead of a schema."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from understudy.cli.main import app
from understudy.commutes.source.places_file import places_table
from understudy.demo.commuters import make_world

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("commutes")
    world = make_world(places=150, jobs=900, seed=4)
    pq.write_table(world.flows_table(), made / "od.parquet")
    pq.write_table(places_table(world.places), made / "places.parquet")
    return made


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_from_two_files_to_a_verified_release(folder):
    budget = ("--guarantee", "approx", "--epsilon", "8.6", "--delta", "1e-5")
    done = run(
        "synthesize", folder / "od.parquet", "--method", "commute", "--places", folder / "places.parquet", *budget,
        "--out", folder / "release", "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["method"] == "commute"
    assert document["guarantee"]["epsilon"] == "8.6"
    assert document["unit"]["fixed"] == ["destination"]
    assert run("verify", folder / "release").exit_code == 0


def test_a_plan_from_places_alone_is_run_as_it_is(folder):
    planned = run(
        "plan", "--places", folder / "places.parquet", "--method", "commute", "--epsilon", "2", "--delta", "1e-5",
        "--out", folder / "plan.toml",
    )  # fmt: skip
    assert planned.exit_code == 0, planned.output
    done = run(
        "synthesize", folder / "od.parquet", "--places", folder / "places.parquet", "--plan", folder / "plan.toml",
        "--out", folder / "planned",
    )  # fmt: skip
    assert done.exit_code == 0, done.output


def test_places_and_schema_exclude_each_other(folder):
    refused = run("plan", "--epsilon", "1")
    assert refused.exit_code == 2


def test_methods_are_listed(folder):
    assert "commute" in run("methods").output


@pytest.mark.parametrize("command", [("sample", "--rows", 10), ("export", "--to", "csv"), ("infer", "mean(jobs)")])
def test_what_is_for_tables_is_refused_with_a_reason(folder, command):
    if not (folder / "release").exists():
        test_from_two_files_to_a_verified_release(folder)
    verb, *rest = command
    refused = run(verb, folder / "release", *rest, *(("--out", folder / "x") if verb != "infer" else ()))
    assert refused.exit_code == 2, refused.output


def test_a_release_of_commutes_is_measured_and_reported(folder):
    if not (folder / "release").exists():
        test_from_two_files_to_a_verified_release(folder)
    measured = run("evaluate", folder / "release", "--confidential", folder / "od.parquet", "--json")
    assert measured.exit_code == 0, measured.output
    assert "commute_distance" in json.loads(measured.stdout)["utility"]["frames"]
    reported = run("report", folder / "release", "--to", folder / "report.html")
    assert reported.exit_code == 0, reported.output
    assert "Synthetic commutes" in (folder / "report.html").read_text()


def test_what_is_about_people_is_refused_for_commutes(folder):
    if not (folder / "release").exists():
        test_from_two_files_to_a_verified_release(folder)
    given = (folder / "release", "--confidential", folder / "od.parquet")
    for command in (
        ("evaluate", *given, "--keys", "origin"),
        ("evaluate", *given, "--part", "risk"),
        ("attack", *given),
    ):
        refused = run(*command)
        assert refused.exit_code == 2, refused.output
        assert "commutes" in refused.output


def test_an_option_that_is_given_twice_is_refused(folder):
    """Of two files of places only the last was read."""
    places = folder / "places.parquet"
    done = run("plan", "--places", places, "--places", places, "--epsilon", "1", "--delta", "1e-5")
    assert done.exit_code == 2
    assert "--places was given 2 times" in done.output
    assert run("ledger", "create", "x.db", "--account", "a", "--account", "b", "--epsilon", "1").exit_code == 2


def _with(table, name, change):
    values = [change(number, value) for number, value in enumerate(table[name].to_pylist())]
    return table.set_column(table.column_names.index(name), name, pa.array(values))


BAD_FILES = {
    "another vintage": ("od", lambda t: _with(t, "origin", lambda i, v: f"9{v}" if i % 2 else v), "HALF row(s)"),
    "absent from the crosswalk": ("places", lambda t: t.slice(1), "not among the places"),
    "a pair twice": ("od", lambda t: pa.concat_tables([t, t.slice(0, 3)]), "3 row(s)"),
    "negative counts": ("od", lambda t: _with(t, "jobs", lambda i, v: -v if i < 4 else v), "4 row(s)"),
    "swapped": (
        "places",
        lambda t: t.rename_columns({"latitude": "longitude", "longitude": "latitude"}),
        "swapped",
    ),
    "a place at the pole": ("places", lambda t: _with(t, "latitude", lambda i, v: 90.0 if i == 5 else v), "1 place(s)"),
}


@pytest.mark.parametrize("what", BAD_FILES)
def test_bad_files_are_refused_with_their_rows_and_nothing_is_charged(folder, tmp_path, what):
    which, change, says = BAD_FILES[what]
    files = {name: pq.read_table(folder / f"{name}.parquet") for name in ("od", "places")}
    half = str(files["od"].num_rows // 2)
    files[which] = change(files[which])
    for name, table in files.items():
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=100)  # rows are counted over all batches
    ledger = ("--ledger", tmp_path / "budget.db", "--account", "city")
    opened = run("ledger", "create", ledger[1], "--account", "city", "--epsilon", "3", "--fixed", "destination")
    assert opened.exit_code == 0
    before = run("ledger", "show", ledger[1], "--json").stdout
    refused = run(
        "synthesize", tmp_path / "od.parquet", "--method", "commute", "--places", tmp_path / "places.parquet",
        "--epsilon", "2", "--out", tmp_path / "release", *ledger,
    )  # fmt: skip
    assert refused.exit_code == 2, refused.output
    assert says.replace("HALF", half) in " ".join(refused.output.split())
    assert run("ledger", "show", ledger[1], "--json").stdout == before
    assert not (tmp_path / "release").exists()
