"""Releases of a survey: weights that agree with public totals, what is said of them, and rows that stand for people."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import understudy as us
from understudy.cli.main import app
from understudy.errors import InputError, SchemaError, UnsupportedError
from understudy.privacy.randomness.streams import SeededStream

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")

TOTALS = (
    us.Total(attribute="sex", totals={"F": 52000, "M": 48000}),
    us.Total(attribute="region", totals={"N": 70000, "S": 30000}),
)
SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="region", levels=("N", "S")),
        us.Attribute(name="works", levels=("no", "yes")),
    ),
    weight=us.Weight(column="w", bounds=(10, 500), decimals=1, origin="calibrated", totals=TOTALS),
    design=us.Design(clusters="household", replicate_weights=("r1",), design_effects={"*": 1.5}),
)


def people(n: int = 1500, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    weight = np.clip(np.exp(rng.normal(4, 0.8, n)), 10, 500).round(1)
    return pa.table(
        {
            "sex": np.where(rng.random(n) < 0.5, "F", "M"),
            "region": np.where(rng.random(n) < 0.6, "N", "S"),
            "works": np.where(rng.random(n) < 0.3 + 0.3 * (weight > 60), "yes", "no"),
            "w": weight,
            "household": rng.integers(0, 500, n),
            "r1": rng.random(n),
        }
    )


@pytest.fixture(scope="module")
def release() -> us.Release:
    return us.synthesize(
        us.open_source(people(), SCHEMA), budget=us.PureDP(epsilon=2), method="ipf", copies=2, stream=SeededStream(3)
    )


def sums(table: us.Release, name: str, copy: int = 1) -> dict[str, float]:
    return table.to_pandas(copy).groupby(name, observed=True)["w_calibrated"].sum().to_dict()


@pytest.mark.parametrize("copy", [1, 2])
def test_calibrated_weights_agree_with_public_totals(release, copy):
    assert sums(release, "sex", copy) == pytest.approx({"F": 52000, "M": 48000}, rel=1e-9)
    assert sums(release, "region", copy) == pytest.approx({"N": 70000, "S": 30000}, rel=1e-9)
    rows = release.to_pandas(copy)
    assert rows["w"].between(10, 500).all()


def test_adjusted_weights_are_said_to_be_taken_as_fixed(release):
    assert any("takes the weights of the others as fixed" in line for line in release.statement.lines())
    base = replace(SCHEMA, weight=replace(SCHEMA.weight, origin="design"))
    plain = us.synthesize(us.open_source(people(), base), budget=us.PureDP(epsilon=2), method="independent")
    assert not any("as fixed" in line for line in plain.statement.lines())
    assert sums(plain, "sex") == pytest.approx({"F": 52000, "M": 48000}, rel=1e-9)  # totals are public all the same
    scaled = replace(SCHEMA, weight=replace(base.weight, totals=(), sums_to="sample"))  # by everybody's mean
    plain = us.synthesize(us.open_source(people(), scaled), budget=us.PureDP(epsilon=2), method="independent")
    assert any("takes the weights of the others as fixed" in line for line in plain.statement.lines())


def test_a_sample_is_no_larger_than_its_population():
    small = us.Schema(attributes=SCHEMA.attributes[:3], weight=us.Weight(column="w", bounds=(10, 500)),
                      design=us.Design(population=100), ignore=("household", "r1"))  # fmt: skip
    with pytest.raises(InputError, match=r"population of 100, and the data have .* rows"):
        us.synthesize(us.open_source(people(), small), budget=us.PureDP(epsilon=2), method="ipf")


def test_plans_and_the_screen_say_so_too(release, capsys):
    from pathlib import Path

    from understudy.cli.synthesize import show_release

    for budget in (us.PureDP(epsilon=2), us.ApproxDP(epsilon=2, delta="1e-6")):
        plan = us.plan(SCHEMA, method="ipf", budget=budget)
        assert any("weights of the others as fixed" in text for text in us.plan_advice(plan, SCHEMA))
    base = replace(SCHEMA, weight=replace(SCHEMA.weight, origin="design"))
    assert not any("as fixed" in text for text in us.plan_advice(us.plan(base, method="ipf", budget=budget), base))
    show_release(release, Path("made"))
    assert "weights of the others as fixed" in " ".join(capsys.readouterr().out.split())


def test_a_folder_keeps_all_of_it(release, tmp_path):
    us.synthesize(us.open_source(people(), SCHEMA), budget=us.PureDP(epsilon=10), method="ipf", out=tmp_path / "made")
    read = us.read_release(tmp_path / "made")
    assert all(check.passed for check in us.verify(tmp_path / "made"))
    assert read.schema.weight == SCHEMA.weight
    assert read.schema.design == SCHEMA.design
    assert read.schema["w"].found
    assert sums(read, "region") == pytest.approx({"N": 70000, "S": 30000}, rel=1e-9)
    assert "weight" in (tmp_path / "made" / "README.md").read_text()
    assert us.infer(read, "proportion(works == 'yes')", weighted=False).validity == "valid"
    # Those above a weight of 60 work more often, all at once: that is seen, and the answer is not called valid.
    assert us.infer(read, "proportion(works == 'yes')").validity == "model-based"
    assert release.schema.columns == read.schema.columns


def test_more_rows_stand_for_as_many_people(release):
    assert sums(us.sample(release, rows=4000), "sex") == pytest.approx({"F": 52000, "M": 48000}, rel=1e-9)


def test_blocks_of_a_large_table_share_the_people(release):
    from understudy.release.sampling import sample_again

    large = sample_again(release, rows=3000, copies=1, stream=_fresh(), block_rows=1000, part_blocks=2)
    assert sums(large, "sex") == pytest.approx({"F": 52000, "M": 48000}, rel=1e-9)


def _fresh():
    from understudy.privacy.randomness.streams import SecureStream

    return SecureStream()


@pytest.mark.parametrize(
    "asked",
    [
        {"method": "mst"},
        {"method": "independent"},
        {"method": "histogram"},
        pytest.param({"method": "auto"}, marks=pytest.mark.full),
        pytest.param({"method": "aim"}, marks=pytest.mark.full),
        pytest.param({"method": "mst", "strata": "region"}, marks=pytest.mark.full),
        pytest.param({"method": "ipf", "draws": "posterior", "copies": 3}, marks=pytest.mark.full),
        pytest.param({"method": "ipf", "unit": "add_remove", "rows": 1500}, marks=pytest.mark.full),
    ],
    ids=str,
)
def test_every_way_of_making_a_release_has_weights(asked):
    made = us.synthesize(us.open_source(people(), SCHEMA), budget=us.ApproxDP(epsilon=3, delta="1e-5"), **asked)
    direct = np.average(people()["works"].to_numpy(zero_copy_only=False) == "yes", weights=people()["w"].to_numpy())
    rows = made.to_pandas()
    assert np.average(rows["works"] == "yes", weights=rows["w"]) == pytest.approx(direct, abs=0.2)
    if asked["method"] != "independent":  # which measures no pair
        answer = us.infer(made, "proportion(works == 'yes')")
        assert answer.value == pytest.approx(direct, abs=0.15)


def test_public_totals_are_the_answer(release):
    answer = us.infer(release, "count(sex == 'F')")
    assert (answer.value, answer.low, answer.high) == (52000, 52000, 52000)
    assert us.infer(release, "proportion(region == 'S')").value == pytest.approx(0.3)
    assert us.infer(release, "proportion(sex == 'F')", weighted=False).high > 0.5  # of the sample nothing is public


def test_a_row_for_each_person_of_the_population(release):
    assert us.population(release).rows == (100000, 100000)
    made = us.synthesize(us.open_source(people(), SCHEMA), budget=us.PureDP(epsilon=2), method="independent",
                         rows="population")  # fmt: skip
    assert made.rows == (100000,)
    assert made.schema.weight is None
    unknown = replace(SCHEMA, weight=us.Weight(column="w", bounds=(10, 500), decimals=1))
    with pytest.raises(InputError, match="is not declared"):
        us.synthesize(us.open_source(people(), unknown), budget=us.PureDP(epsilon=2), rows="population")


def test_rows_that_stand_for_people(release):
    found = us.population(release, rows=2000, stream=SeededStream(1))
    assert found.schema.names == ("sex", "region", "works")
    assert found.rows == (2000, 2000)
    for copy in (1, 2):
        shares = found.to_pandas(copy)["sex"].value_counts(normalize=True)
        assert shares["F"] == pytest.approx(0.52, abs=0.01)
    assert found.statement == release.statement
    with pytest.raises(UnsupportedError, match="neither noisy counts nor the law"):
        us.infer(found, "proportion(sex == 'F')")
    with pytest.raises(InputError, match="has no weight"):
        us.population(found, rows=10)
    with pytest.raises(InputError, match="whole number"):
        us.population(release, rows=0)


def test_the_command_line_takes_a_survey_from_file_to_answer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = CliRunner()
    (tmp_path / "s.toml").write_text(us.write_schema(SCHEMA))
    import pyarrow.parquet as pq

    pq.write_table(people(), tmp_path / "s.parquet")
    described = run.invoke(app, ["schema", "describe", "--schema", "s.toml"])
    assert described.exit_code == 0
    assert "replicate weights" in described.output
    made = run.invoke(app, ["synthesize", "s.parquet", "--schema", "s.toml", "--method", "mst", "--epsilon", "3",
                            "--out", "made"])  # fmt: skip
    assert made.exit_code == 0, made.output
    values = []
    for more in ([], ["--unweighted"], ["--weight", "w"]):
        asked = run.invoke(app, ["infer", "made", "proportion(works == 'yes')", "--json", *more])
        assert asked.exit_code == 0, asked.output
        values.append(json.loads(asked.stdout)["estimate"])
    assert values[0] > values[1]  # those who work have larger weights
    assert values[2] == pytest.approx(values[0], abs=0.02)
    assert run.invoke(app, ["infer", "made", "mean(w)", "--weight", "w", "--unweighted"]).exit_code == 2
    assert run.invoke(app, ["export", "made", "--to", "csv", "--population", "300", "--out", "p"]).exit_code == 0
    lines = (tmp_path / "p" / "synthetic_1.csv").read_text().splitlines()
    assert lines[0].replace('"', "") == "sex,region,works"
    assert len(lines) == 301


def test_bad_weights_are_refused_before_anything_is_charged(tmp_path):
    ledger = us.Ledger.create(tmp_path / "budget.db")
    ledger.create_account("survey", unit="replace", limit=us.PureDP(epsilon=1))
    bad = people().set_column(3, "w", pa.array([-1.0, *people()["w"].to_pylist()[1:]]))
    with pytest.raises(SchemaError, match="w: 1 row with a weight that is negative"):
        us.synthesize(
            us.open_source(bad, SCHEMA), budget=us.PureDP(epsilon=1), method="ipf", out=tmp_path / "made",
            ledger=tmp_path / "budget.db", account="survey",
        )  # fmt: skip
    assert not (tmp_path / "made").exists()
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []
    assert ledger.account("survey").spent["epsilon"] == 0
