"""What verify notices of a release of tables whose manifest was changed and made to fit again."""

import json
from fractions import Fraction

import pyarrow as pa
import pytest

import understudy as us
from understudy.core.exact_numbers import from_text, to_text
from understudy.privacy.promise.plan import plan_from_json

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")

SCHEMA = us.Schema(
    attributes=(us.Attribute(name="area", levels=("n", "s", "w")), us.Attribute(name="sick", levels=("no", "yes")))
)
ROWS = pa.table({"area": ["n"] * 50 + ["s"] * 30, "sick": ["no"] * 45 + ["yes"] * 5 + ["no"] * 30})
PURE, APPROX = us.PureDP(epsilon=1), us.ApproxDP(epsilon=1, delta="1e-4")


def made(tmp_path, **asked):
    us.synthesize(us.open_source(ROWS, SCHEMA), out=tmp_path / "r", **asked)
    assert failed(tmp_path / "r") == []
    return tmp_path / "r"


def failed(folder):
    return [check.name for check in us.verify(folder) if not check.passed]


def forge(folder, change):
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    if manifest["plan"] is not None:
        manifest["plan_hash"] = plan_from_json(manifest["plan"]).hash
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return failed(folder)


@pytest.mark.parametrize("budget", [PURE, APPROX], ids=["pure", "approx"])
@pytest.mark.parametrize("fixed", [(), ("area",)], ids=["whole", "strata"])
def test_half_the_prior_of_a_draw(tmp_path, budget, fixed):
    folder = made(tmp_path, method="dirichlet", budget=budget, unit=us.Unit(fixed=fixed))

    def halve(manifest):
        for mechanism in manifest["draws"][0]["mechanisms"]:
            mechanism["prior"] = to_text(from_text(mechanism["prior"], "prior") / 2)

    assert forge(folder, halve) == ["draws"]


@pytest.mark.parametrize("fixed", [(), ("area",)], ids=["whole", "strata"])
@pytest.mark.parametrize("rows", [None, 100], ids=["as many", "more"])
def test_fewer_rows_than_the_table_has(tmp_path, fixed, rows):
    """With few rows a small prior costs little, so the rows that a draw states must be those that were drawn."""
    folder = made(tmp_path, method="dirichlet", budget=PURE, unit=us.Unit(fixed=fixed), rows=rows)

    def shrink(manifest):
        for mechanism in manifest["draws"][0]["mechanisms"]:
            mechanism.update(prior="1", rows="1")

    assert forge(folder, shrink) == ["draws"]


def test_more_records_than_the_draw_was_set_for(tmp_path):
    folder = made(tmp_path, method="dirichlet", budget=APPROX)
    assert forge(folder, lambda manifest: manifest.update(records=1_000_000)) == ["draws"]


def test_the_exact_delta_of_one_row_does_not_speak_for_a_unit_of_three(tmp_path):
    folder = made(tmp_path, method="dirichlet", budget=APPROX)

    def three_rows(manifest):
        for unit in (manifest["unit"], manifest["plan"]["unit"]):
            unit["rows_per_unit"] = 3

    assert forge(folder, three_rows) == ["draws"]


def test_a_copy_that_was_not_charged(tmp_path):
    folder = made(tmp_path, method="dirichlet", budget=PURE, copies=2)

    def one_charge(manifest):
        manifest["events"], manifest["plan"]["steps"] = manifest["events"][:1], manifest["plan"]["steps"][:1]

    assert forge(folder, one_charge) == ["draws"]


def test_draws_that_are_not_told(tmp_path):
    folder = made(tmp_path, method="dirichlet", budget=PURE)
    assert forge(folder, lambda manifest: manifest.update(draws=[])) == ["draws"]


def test_a_guarantee_without_a_plan_or_without_events(tmp_path):
    folder = made(tmp_path, method="histogram", budget=PURE)
    assert forge(folder, lambda manifest: manifest.update(events=[])) == ["plan", "measurements", "guarantee"]
    us.wrap(ROWS, SCHEMA).write(tmp_path / "outside")
    assert failed(tmp_path / "outside") == []
    claim = {"guarantee": PURE.to_json(), "events": [{"event": "pure", "epsilon": "1", "source": "trust me"}]}
    assert forge(tmp_path / "outside", lambda manifest: manifest.update(claim)) == ["plan"]


def test_a_smaller_sensitivity_than_the_unit_has(tmp_path):
    """Charged as if one row could move one cell: half of what a replaced row costs."""
    folder = made(tmp_path, method="histogram", budget=PURE)

    def one_cell(manifest):
        for event in (*manifest["events"], *(step["event"] for step in manifest["plan"]["steps"])):
            event["l1"] = "1"
        for guarantee in (manifest["guarantee"], manifest["plan"]["budget"]):
            guarantee["epsilon"] = to_text(Fraction(1, 2))

    assert forge(folder, one_cell) == ["measurements"]


def test_what_a_run_that_chooses_happened_to_spend_is_no_guarantee(tmp_path):
    """Its answers chose how much that was, and by which bound: only the budget of its plan was kept beforehand."""
    folder = made(tmp_path, method="aim", budget=APPROX)
    for stated in (us.ZCDP(rho=1), us.ApproxDP(epsilon=2, delta="1e-3"), us.ApproxDP(epsilon=1, delta="1e-3")):
        assert forge(folder, lambda manifest, new=stated: manifest.update(guarantee=new.to_json())) == ["guarantee"]
    assert forge(folder, lambda manifest: manifest.update(guarantee=APPROX.to_json())) == []
    assert forge(folder, lambda manifest: manifest.update(guarantee=us.NonPrivate().to_json())) == []


def test_an_empty_stratum_with_a_prior_of_many_digits_is_drawn(tmp_path):
    """Nobody is in the west; a ball of the prior is then 2^-70 of a row, and no row is drawn."""
    made(tmp_path, method="dirichlet", budget=us.PureDP(epsilon=50), unit=us.Unit(fixed=("area",)))
