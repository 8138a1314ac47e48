"""What is in a release folder, and what is refused when reading one back."""

import ast
import hashlib
import json
import re
import shutil
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.errors import DisclosureError, InputError, SchemaError
from understudy.privacy.randomness.streams import SeededStream
from understudy.release.manifest import read_manifest
from understudy.release.readme import codebook_text

SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M"), label="Sex at registration"),
        us.Attribute(name="grade", levels=(1, 2, 3), ordered=True, missing=True),
        us.Attribute(name="age", edges=(0, 30, 60, 100), integer=True),
    ),
    impossible=(us.Impossible(conditions=(("age", us.Condition(below=30)), ("grade", us.Condition(levels=(3,))))),),
)
ROWS = pa.table({"sex": ["F", "M"] * 40, "grade": [1, 2, None, 2] * 20, "age": [5, 35, 59, 100] * 20})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("made")
    ledger = us.Ledger.create(place / "budget.db")
    ledger.create_account("people", unit=us.Unit(fixed=("sex",)), limit=us.PureDP(epsilon=4))
    us.synthesize(
        us.open_source(ROWS, SCHEMA), method="histogram", budget=us.PureDP(epsilon=2), unit=us.Unit(fixed=("sex",)),
        copies=3, ledger=ledger.path, account="people", out=place / "release", csv=True,
    )  # fmt: skip
    return place / "release"


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "release")


def test_the_folder_holds_what_the_design_says_and_nothing_else(made):
    names = {"manifest.json", "schema.toml", "measurements.parquet", "README.md", "codebook.csv"}
    names |= {f"synthetic_{copy}.{ending}" for copy in (1, 2, 3) for ending in ("parquet", "csv")}
    assert {path.name for path in made.iterdir()} == names


def test_the_code_book_says_what_values_mean():
    schema = us.Schema(
        attributes=(
            us.Attribute(name="sex", levels=("F", "=M"), level_labels=("female", "male"), missing=True),
            us.Attribute(name="pay", label="Pay", edges=(0, 9.5), decimals=2, special=((-8, "refused"), ("N", "none"))),
        )
    )
    assert codebook_text(schema).splitlines() == [
        "column,label,kind,value,meaning",
        "sex,,level,F,female",
        "sex,,level,'=M,male",
        "sex,,missing,,no value",
        "pay,Pay,numbers,0 to 9.5,known by 1 bins with 2 decimals",
        "pay,Pay,special code,-8,refused",
        "pay,Pay,special code,N,none",
    ]


def test_a_code_book_of_another_schema_is_refused(folder):
    text = (folder / "codebook.csv").read_text() + "sex,,level,X,invented\n"
    (folder / "codebook.csv").write_text(text)
    files = json.loads((folder / "manifest.json").read_text())["files"]
    edit_manifest(folder, files={**files, "codebook.csv": hashlib.sha256(text.encode()).hexdigest()})
    with pytest.raises(InputError, match="code book"):
        us.read_release(folder)


def test_the_manifest_states_everything_with_fixed_first(made):
    manifest = json.loads((made / "manifest.json").read_text())
    assert next(iter(manifest["unit"])) == "fixed"
    assert manifest["unit"] == {"fixed": ["sex"], "kind": "replace", "rows_per_unit": 1, "unit_id": None}
    assert manifest["guarantee"] == {"guarantee": "pure", "epsilon": "2"}
    assert manifest["method"] == "histogram"
    assert manifest["schema_fingerprint"] == SCHEMA.fingerprint
    assert manifest["plan"]["options"] == {"rows_by": "rounding"}
    assert manifest["package_version"] == us.__version__
    assert "rounded" in manifest["rows_drawn"]
    assert manifest["copies_share_measurements"] is True
    assert manifest["ledger"]["tracked"] is True
    assert set(manifest["ledger"]) == {"tracked", "account", "run", "head", "sequence"}


def test_the_readme_says_what_an_analyst_must_know(made):
    text = (made / "README.md").read_text()
    for needed in ("too narrow", "pd.read_parquet", "epsilon = 2", "not protected: sex", "same noisy measurements"):
        assert needed in text


def test_a_round_trip_keeps_everything(made):
    release = us.read_release(made)
    assert release.schema == SCHEMA
    assert release.copies == 3
    assert release.statement.guarantee == us.PureDP(epsilon=2)
    (measured,) = release.measurements
    assert measured.values.shape == (2, 4, 3)
    assert np.count_nonzero(measured.values[:, 2, 0]) == 0
    frame = release.frame(2).to_pandas()
    assert frame["grade"].cat.ordered
    assert list(frame["sex"].cat.categories) == ["F", "M"]
    coded = release.coded(2)
    assert coded.counts(("age", "grade"))[0, 2] == 0


def test_csv_and_parquet_hold_the_same_rows(made):
    parquet = pq.read_table(made / "synthetic_1.parquet").to_pandas()
    text = pd.read_csv(made / "synthetic_1.csv", dtype=str, keep_default_na=False)
    assert text["sex"].tolist() == parquet["sex"].astype(str).tolist()
    assert text["age"].astype(int).tolist() == parquet["age"].tolist()


def test_verify_accepts_the_release(made):
    checks = us.verify(made)
    assert [check.name for check in checks] == [
        "files",
        "schema",
        "plan",
        "found",
        "measurements",
        "draws",
        "guarantee",
    ]
    assert all(check.passed for check in checks)


def edit_manifest(folder, **changes):
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest.update(changes)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def edit_measurement(folder, column, value):

    table = pq.read_table(folder / "measurements.parquet")
    place = table.column_names.index(column)
    pq.write_table(table.set_column(place, column, pa.array([value] * table.num_rows)), folder / "measurements.parquet")
    files = json.loads((folder / "manifest.json").read_text())["files"]
    digest = hashlib.sha256((folder / "measurements.parquet").read_bytes()).hexdigest()
    edit_manifest(folder, files={**files, "measurements.parquet": digest})


def failed(folder):
    return [check.name for check in us.verify(folder) if not check.passed]


def test_verify_notices_a_stronger_promise_than_was_paid_for(folder):
    edit_manifest(folder, guarantee={"guarantee": "pure", "epsilon": "1.9"})
    assert failed(folder) == ["guarantee"]


def test_verify_notices_another_unit(folder):
    edit_manifest(folder, unit={"fixed": [], "kind": "add_remove", "rows_per_unit": 1, "unit_id": None})
    assert "plan" in failed(folder)
    assert "measurements" in failed(folder)


def test_verify_notices_less_noise_than_charged(folder):

    table = pq.read_table(folder / "measurements.parquet")
    weaker = pa.array([text.replace('"1"', '"0.5"') for text in table["mechanism"].to_pylist()])
    pq.write_table(table.set_column(3, "mechanism", weaker), folder / "measurements.parquet")
    manifest = json.loads((folder / "manifest.json").read_text())
    digest = hashlib.sha256((folder / "measurements.parquet").read_bytes()).hexdigest()
    edit_manifest(folder, files={**manifest["files"], "measurements.parquet": digest})
    assert failed(folder) == ["measurements"]


def test_verify_notices_an_unannounced_event(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    edit_manifest(folder, events=manifest["events"] * 2)
    assert failed(folder) == ["plan", "guarantee"]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda f: (f / "notes.txt").write_text("hello"), "does not list"),
        (lambda f: (f / "synthetic_2.parquet").unlink(), "lacks the file"),
        (lambda f: (f / "synthetic_1.csv").write_text("sex\n"), "was changed"),
        (lambda f: (f / "manifest.json").unlink(), "not a release folder"),
        (lambda f: (f / "manifest.json").write_text("{"), "cannot be read as JSON"),
        (lambda f: (f / "manifest.json").write_bytes(b"\xff\xfe"), "cannot be read as JSON"),
        (lambda f: (f / "manifest.json").write_text("9" * 5000), "cannot be read as JSON"),
        (lambda f: (f / "manifest.json").write_text("[]"), "not the manifest"),
        (lambda f: edit_manifest(f, version=99), "version 99"),
        (lambda f: edit_manifest(f, files={"../../etc/passwd": "0"}), "does not list the files"),
        (lambda f: edit_manifest(f, plan_hash="0" * 64), "hash"),
        (lambda f: edit_manifest(f, schema_fingerprint="0" * 64), "not the one"),
        (lambda f: edit_manifest(f, guarantee={"guarantee": "perfect"}), "unknown"),
        (lambda f: edit_manifest(f, guarantee=None), "not a complete release"),
        (lambda f: edit_manifest(f, events=[{"event": "magic"}]), "unknown"),
        (lambda f: edit_measurement(f, "cell", 10**6), "not a complete release"),
        (lambda f: edit_measurement(f, "margin", "[]"), "not a complete release"),
    ],
)
def test_a_spoiled_folder_is_refused_with_a_reason(folder, spoil, words):
    spoil(folder)
    with pytest.raises(InputError, match=words):
        us.read_release(folder)


def test_a_listed_file_outside_the_folder_is_refused(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    edit_manifest(folder, files={**manifest["files"], "../secret": "0"})
    with pytest.raises(InputError, match="does not belong"):
        us.read_release(folder)


def test_a_link_in_place_of_a_file_is_refused(folder, tmp_path):
    (tmp_path / "elsewhere.parquet").write_bytes((folder / "synthetic_1.parquet").read_bytes())
    (folder / "synthetic_1.parquet").unlink()
    (folder / "synthetic_1.parquet").symlink_to(tmp_path / "elsewhere.parquet")
    with pytest.raises(InputError, match="not a plain file"):
        us.read_release(folder)


def test_not_a_folder(tmp_path):
    with pytest.raises(InputError, match="not a release folder"):
        us.read_release(tmp_path / "nothing")
    assert read_manifest.__doc__


def test_writing_twice_is_refused_unless_told(folder):
    release = us.read_release(folder)
    with pytest.raises(InputError, match="exists"):
        release.write(folder)
    release.write(folder, overwrite=True)
    assert not failed(folder)


def test_copies_are_numbered_from_one(made):
    release = us.read_release(made)
    for wrong in (0, 4):
        with pytest.raises(InputError, match="between 1 and 3"):
            release.frame(wrong)


@pytest.mark.parametrize("frame", [ROWS, ROWS.to_pandas(), pl.from_arrow(ROWS)], ids=["arrow", "pandas", "polars"])
def test_anybodys_table_can_be_wrapped_and_has_no_guarantee(frame, tmp_path):
    release = us.wrap(frame, SCHEMA)
    assert release.statement.guarantee == us.NonPrivate()
    assert "not made by understudy" in " ".join(release.statement.lines())
    release.write(tmp_path / "wrapped")
    again = us.read_release(tmp_path / "wrapped")
    assert again.provenance.method == "outside"
    assert again.coded().counts(("sex",)).tolist() == [40, 40]
    assert not failed(tmp_path / "wrapped")


def test_wrapping_refuses_what_does_not_fit():
    with pytest.raises(InputError, match="Arrow"):
        us.wrap({"sex": ["F"]}, SCHEMA)
    with pytest.raises(SchemaError):
        us.wrap(pa.table({"sex": ["X"], "grade": [1], "age": [50]}), SCHEMA)


def test_html_escapes_values():
    schema = us.Schema(attributes=(us.Attribute(name="x", levels=("<script>", "b")),))
    shown = us.wrap(pa.table({"x": ["<script>"]}), schema)._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_internal_findings_cannot_become_public():
    finding = us.Finding(code="x", title="X", value=1)
    assert finding.audience == "internal"
    from understudy.core.result import Section

    with pytest.raises(DisclosureError):
        us.Evaluation(utility=Section(findings=(finding,))).public()


def test_decoded_rows_repeat_with_the_stream():
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, two, other = (
            us.synthesize(us.open_source(ROWS, SCHEMA), budget=us.PureDP(epsilon=1), stream=SeededStream(seed)).frame()
            for seed in (1, 1, 2)
        )
    assert one.equals(two)
    assert not one.equals(other)


@pytest.mark.parametrize("budget", [us.PureDP(epsilon=1), us.ApproxDP(epsilon=1, delta="1e-3")], ids=["pure", "approx"])
def test_verify_recomputes_what_a_dirichlet_draw_costs(tmp_path, budget):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        us.synthesize(us.open_source(ROWS, SCHEMA), method="dirichlet", budget=budget, out=tmp_path / "r")
    assert not failed(tmp_path / "r")
    draws = json.loads((tmp_path / "r" / "manifest.json").read_text())["draws"]
    for spoiled in ({"prior": "0.5"}, {"rows": "many"}, {"prior": "0"}, {"mechanism": "another"}):
        edit_manifest(tmp_path / "r", draws=[{**draws[0], "mechanisms": [{**draws[0]["mechanisms"][0], **spoiled}]}])
        assert failed(tmp_path / "r") == ["draws"], spoiled
    without = {key: text for key, text in draws[0]["mechanisms"][0].items() if key != "prior"}
    edit_manifest(tmp_path / "r", draws=[{**draws[0], "mechanisms": [without]}])
    assert failed(tmp_path / "r") == ["draws"]


@pytest.mark.parametrize("value", [SCHEMA, us.plan(SCHEMA, budget=us.PureDP(epsilon=1))], ids=["schema", "plan"])
def test_main_values_show_themselves(value):
    shown = value._repr_html_()
    assert "grade" in shown
    assert "<table>" in shown


def test_the_odds_told_are_those_of_the_unit(tmp_path):
    """Under add_remove a value that changes is two steps: geometric noise attains the square between two values."""
    schema = us.Schema(attributes=(us.Attribute(name="sick", levels=("no", "yes")),))
    noise = us.Geometric(scale=1)  # epsilon = 1 for one person more or fewer
    absent, well, ill = np.array([5, 5]), np.array([6, 5]), np.array([5, 6])
    out = np.array([0, 20])
    loss = {name: noise.log_pmf(out, table).sum() for name, table in (("absent", absent), ("well", well), ("ill", ill))}
    assert loss["ill"] - loss["absent"] == pytest.approx(1)
    assert loss["ill"] - loss["well"] == pytest.approx(2)
    told = {}
    for unit in ("replace", "add_remove"):
        source = us.open_source(pa.table({"sick": ["no", "yes"] * 20}), schema)
        with pytest.warns(us.errors.UntrackedWarning):
            us.synthesize(source, method="histogram", budget=us.PureDP(epsilon=1), unit=unit, out=tmp_path / unit)
        told[unit] = (tmp_path / unit / "README.md").read_text()
    assert "e^1 times as likely with one set of values" in told["replace"]
    assert "square" not in told["replace"]
    assert "e^1 times as likely with a protected unit in the data as without" in told["add_remove"]
    assert "by at most its square" in told["add_remove"]


def test_the_readme_asks_a_question_that_is_answered(tmp_path):
    schema = us.Schema(
        attributes=(
            us.Attribute(name="born", edges=(date(1950, 1, 1), date(1980, 1, 1), date(2010, 1, 1)), missing=True),
            us.Attribute(name="sick", levels=(False, True)),
        )
    )
    rows = pa.table({"born": [date(1960, 5, 1), date(1990, 5, 1)] * 200, "sick": [True, False] * 200})
    with pytest.warns(us.errors.UntrackedWarning):
        us.synthesize(
            us.open_source(rows, schema), method="histogram", budget=us.PureDP(epsilon=1), out=tmp_path / "made"
        )
    told = (tmp_path / "made" / "README.md").read_text()
    assert "- `born` (dates from 1950-01-01 to 2010-01-01, known by 2 bins, or missing)" in told
    assert "e^1 is 2.72." in told
    (question,) = re.findall(r'understudy infer \. "(.*?)"', told)
    assert 0 < us.infer(us.read_release(tmp_path / "made"), question).value < 1


def test_the_lines_of_the_readme_are_python_whatever_the_names(tmp_path):
    name = 'say "sex" \\ or\'not'
    schema = us.Schema(attributes=(us.Attribute(name=name, levels=("F", "M")),))
    text = (us.wrap(pa.table({name: ["F"]}), schema).write(tmp_path / "r") / "README.md").read_text()
    code = text.partition("```python\n")[2].partition("```")[0]
    compile(code, "README.md", "exec")
    assert name in [node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)]
