"""Releases whose guarantee is Definition 6: what they state, who pays, and what verify notices."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import understudy as us
from understudy.auditing.dirichlet_audit import breach
from understudy.cli.main import app
from understudy.commutes.source.places_file import places_table
from understudy.core.exact_numbers import from_text, to_text
from understudy.core.places import make_places
from understudy.errors import BudgetError, UnsupportedError
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.mechanisms.dirichlet_draw import DirichletDraw, require_definition_6
from understudy.privacy.mechanisms.draw_facts import TableFacts
from understudy.privacy.promise.event import breach_loss
from understudy.privacy.promise.plan import plan_from_json

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")

BUDGET = us.ProbabilisticDP(epsilon=4, delta="1e-3")
SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="area", levels=("n", "s", "w")),
        us.Attribute(name="sick", levels=("no", "yes")),
        us.Attribute(name="age", levels=tuple("abcdefgh")),
    )
)
PEOPLE = pa.table({"area": ["n"] * 50 + ["s"] * 30, "sick": (["no"] * 7 + ["yes"]) * 10, "age": list("aabcdefghh" * 8)})


@pytest.fixture(scope="module")
def places():
    number = np.arange(40)
    return make_places(
        [f"p{n:02d}" for n in number], 41.0 + 0.02 * (number // 8), -71.0 + 0.03 * (number % 8),
        areas={"county": [f"c{n // 20}" for n in number], "row": [f"r{n // 8}" for n in number]},
        population=number + 3,
    )  # fmt: skip


@pytest.fixture(scope="module")
def commutes():
    rng = np.random.default_rng(5)
    pairs = [
        (f"p{origin:02d}", f"p{there:02d}")
        for there, count in ((0, 1), (3, 120), (7, 9), (11, 9), (20, 45))
        for origin in rng.integers(0, 40, size=count)
    ]
    return pa.table({"origin": [one for one, _ in pairs], "destination": [other for _, other in pairs]})


def failed(folder):
    return [check.name for check in us.verify(folder) if not check.passed]


def forge(folder, change):
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    manifest["plan_hash"] = plan_from_json(manifest["plan"]).hash
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return failed(folder)


def halve(text):
    return to_text(from_text(text, "prior") / 2)


def test_commutes_by_the_command_line(commutes, places, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(commutes, "od.parquet")
    pq.write_table(places_table(places), "places.parquet")
    options = "--method commute --places places.parquet --guarantee probabilistic --epsilon 4 --delta 1e-3"
    options += " --option mechanism=urn"  # the laws of the default are pure: nothing adds up
    Ledger.create(tmp_path / "budget.db").create_account(
        "jobs", limit=us.ApproxDP(epsilon=4, delta="1e-3"), unit=us.Unit(fixed=("destination",))
    )
    line = f"synthesize od.parquet {options} --ledger budget.db --account jobs --out release"
    result = CliRunner().invoke(app, line.split())
    assert result.exit_code == 0, result.output
    assert CliRunner().invoke(app, ["verify", "release"]).exit_code == 0
    release = us.read_release(tmp_path / "release")
    assert release.statement.guarantee == BUDGET
    assert "probability over the randomness of the draws alone" in (tmp_path / "release/README.md").read_text()
    assert any("add up to at most" in note for note in release.provenance.notes)
    # The whole account was spent: it is charged as the approximate privacy that it implies.
    again = CliRunner().invoke(app, line.replace("--out release", "--out more").split())
    assert again.exit_code == 3, again.output

    (draw,) = release.provenance.draws
    (law,) = draw["mechanisms"]
    epsilon = 4 * (1 - 0.05 - 0.03)
    total = 0.0
    for size, cells, prior in zip(law["sizes_from"], law["cells"], law["priors"], strict=True):
        times = {1: 1, 9: 2, 45: 1, 120: 1}[size]
        total += times * breach(float(from_text(prior, "prior")), cells, size, size, epsilon)
    assert 2e-4 < total <= 1e-3  # and delta is not left lying about

    def half_the_priors(manifest):
        law = manifest["draws"][0]["mechanisms"][0]
        law["priors"] = [halve(prior) for prior in law["priors"]]

    assert forge(tmp_path / "release", half_the_priors) == ["draws"]


@pytest.mark.parametrize("options", [{"coarsen": "area:county"}, {"coarsen": "areas:place:2,row"},
                                     {"cut_miles": "3", "mechanism": "urn"}])  # fmt: skip
def test_half_the_prior_of_one_destination_is_found_whatever_the_division(commutes, places, tmp_path, options):
    source = us.open_commutes(commutes, places=places)
    us.synthesize(source, method="commute", budget=BUDGET, copies=2, out=tmp_path / "r", **options)
    assert failed(tmp_path / "r") == []

    def half_of_the_largest(manifest):
        law = manifest["draws"][1]["mechanisms"][0]
        law["priors"][-1] = halve(law["priors"][-1])

    assert forge(tmp_path / "r", half_of_the_largest) == ["draws"]


@pytest.mark.parametrize("fixed", [(), ("area",)], ids=["whole", "strata"])
def test_tables_by_the_command_line(tmp_path, monkeypatch, fixed):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.toml").write_text(us.write_schema(SCHEMA))
    pq.write_table(PEOPLE, "people.parquet")
    line = "synthesize people.parquet --schema people.toml --method dirichlet --guarantee probabilistic --epsilon 4 "
    more = "".join(f"--fixed {name} " for name in fixed)
    result = CliRunner().invoke(app, f"{line} --delta 1e-3 {more} --copies 2 --out r".split())
    assert result.exit_code == 0, result.output
    assert failed(tmp_path / "r") == []
    release = us.read_release(tmp_path / "r")
    assert release.statement.guarantee == BUDGET
    parts = ((16, 50), (16, 30), (16, 0)) if fixed else ((48, 80),)
    for draw in release.provenance.draws:
        laws = zip(draw["mechanisms"], parts, strict=True)
        total = sum(
            breach(float(from_text(law["prior"], "prior")), cells, n, max(n, 1), 2.0) for law, (cells, n) in laws
        )
        assert total <= 5e-4  # half of delta for each of two copies

    def half_the_first(manifest):
        law = manifest["draws"][0]["mechanisms"][0]
        law["prior"] = halve(law["prior"])

    assert forge(tmp_path / "r", half_the_first) == ["draws"]


def test_strata_add_up():
    """Each keeps delta by itself; together they do not."""
    loss = breach_loss(Fraction(4), Fraction("1e-3"))
    facts = TableFacts(unit=us.Unit(), cells=40, records=60)
    prior = next(
        prior
        for prior in (Fraction(step, 2**8) for step in range(1, 2**10))
        if 3e-4 < breach(float(prior), 40, 60, 60, 4.0) < 9e-4
    )
    draws = [DirichletDraw(prior=prior, rows=60, loss=loss)] * 4
    assert draws[0].event_for(facts) == loss
    require_definition_6(draws[:1], [facts])
    with pytest.raises(BudgetError, match="add up"):
        require_definition_6(draws, [facts] * 4)
    with pytest.raises(BudgetError, match="costs more"):
        DirichletDraw(prior=prior / 4, rows=60, loss=loss).event_for(facts)


def test_a_guarantee_that_the_draw_was_not_set_for(tmp_path):
    """(epsilon, delta) does not give Definition 6 with the same numbers, and a manifest cannot say that it does."""
    source = us.open_source(PEOPLE, SCHEMA)
    us.synthesize(source, method="dirichlet", budget=us.ApproxDP(epsilon=4, delta="1e-3"), out=tmp_path / "r")

    def claim_more(manifest):
        manifest["guarantee"] = manifest["plan"]["budget"] = BUDGET.to_json()

    assert forge(tmp_path / "r", claim_more) == ["plan", "guarantee"]

    def as_if_set_for_it(manifest):
        claim_more(manifest)
        for event in (*manifest["events"], *(step["event"] for step in manifest["plan"]["steps"])):
            event["source"] = breach_loss(Fraction(1), Fraction("0.1")).source

    assert forge(tmp_path / "r", as_if_set_for_it) == ["draws"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"unit": "add_remove", "rows": 80}, "one row that is replaced"),
        ({"unit": us.Unit(rows_per_unit=2)}, "one row that is replaced"),
    ],
)
def test_tables_elsewhere_are_refused(asked, message):
    with pytest.raises(UnsupportedError, match=message):
        us.plan(SCHEMA, method="dirichlet", budget=BUDGET, **asked)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"unit": us.Unit()}, "fixed destination"),
        ({"unit": "add_remove"}, "fixed destination"),
        ({"unit": us.Unit(fixed=("destination",), rows_per_unit=2)}, "one job"),
        ({"rule": "accept_reject"}, "rule=exact"),
        ({"mechanism": "geometric"}, "mechanism=auto or urn"),
        ({"coarsen": "none", "shrink": "3:1,20:0.8"}, "without shrink"),
    ],
)
def test_commutes_elsewhere_are_refused(places, asked, message):
    with pytest.raises(UnsupportedError, match=message):
        us.plan(places, method="commute", budget=BUDGET, **asked)


def test_a_plan_says_what_it_costs_beside_approx():
    plan = us.plan(SCHEMA, method="dirichlet", budget=BUDGET, records=80)
    (note,) = [note for note in plan.notes if "Approx with the same" in note]
    prior, beside = (float(word.rstrip(".")) for word in note.split() if word[0].isdigit())
    assert beside < prior < 80 / np.expm1(4)
