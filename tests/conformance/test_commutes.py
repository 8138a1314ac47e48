"""What every method for commutes must keep, on tiny worlds: charge before draw, resume, verify, and a sampled audit."""

from __future__ import annotations

import math
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import beta

import understudy as us
from understudy.commutes.commute_release import ParquetSink
from understudy.commutes.shared.flow_method import flow_synthesizers
from understudy.commutes.shared.laws import Budget
from understudy.core.places import make_places
from understudy.errors import BudgetError, DisclosureError, InputError
from understudy.privacy.gate.flow_gate import FlowGate
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.mechanisms.commute_prior import PriorRule, SizedPrior
from understudy.privacy.mechanisms.dirichlet_draw import round_prior
from understudy.privacy.mechanisms.flow_draws import Block, CellUrn, ShrunkUrn
from understudy.privacy.mechanisms.flow_variants import AcceptingUrn, gamma_for
from understudy.privacy.mechanisms.place_bands import PlaceBands
from understudy.privacy.mechanisms.shrinking import shrunk_prior
from understudy.privacy.promise.accountant import compose, satisfies
from understudy.privacy.promise.event import ApproxLoss
from understudy.privacy.randomness.streams import SeededStream

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")

BUDGET = us.ApproxDP(epsilon=2, delta="1e-5")
SETTINGS = {
    "by size": {},
    "by size, no model": {"blend": "none"},
    "rings": {"mechanism": "urn"},
    "cut": {"cut_miles": "6"},
    "areas": {"coarsen": "area:county"},
    "areas by distance": {"coarsen": "areas:place:2,row"},
    "areas by distance, cut": {"coarsen": "areas:place:1,block:3,row", "cut_miles": "6"},
    "accept_reject": {"rule": "accept_reject"},
    "theorem": {"rule": "theorem"},
    "geometric": {"mechanism": "geometric"},
    "shrunk": {"coarsen": "none", "shrink": "3:1,20:0.8", "budget": us.ApproxDP(epsilon=8, delta="1e-5")},
    "pure": {"budget": us.PureDP(epsilon=2), "mechanism": "urn"},
    "private destinations": {"budget": us.PureDP(epsilon=2), "unit": us.Unit(kind="replace")},
    "private destinations, approximate": {"unit": us.Unit(kind="replace")},
    "private destinations, urn": {"unit": us.Unit(kind="replace"), "mechanism": "urn"},
    "private destinations, areas": {"unit": us.Unit(kind="add_remove"), "coarsen": "area:county"},
    "add_remove": {"budget": us.PureDP(epsilon=2), "unit": "add_remove"},
    "three jobs": {"unit": us.Unit(kind="replace", fixed=("destination",), rows_per_unit=3)},
    "two copies": {"copies": 2},
    "probabilistic": {"budget": us.ProbabilisticDP(epsilon=4, delta="1e-3"), "copies": 2, "mechanism": "urn"},
    "probabilistic, by size": {"budget": us.ProbabilisticDP(epsilon=4, delta="1e-3")},
    "probabilistic, areas by distance": {
        "budget": us.ProbabilisticDP(epsilon=4, delta="1e-3"),
        "coarsen": "areas:place:2,row",
        "cut_miles": "6",
    },
}


@pytest.fixture(scope="module")
def places():
    number = np.arange(12)
    return make_places(
        [f"p{n:02d}" for n in number],
        41.0 + 0.03 * (number // 4),
        -71.0 + 0.05 * (number % 4),
        areas={
            "county": [f"c{n % 3}" for n in number],
            "row": [f"r{n // 4}" for n in number],
            "block": [f"b{n // 2}" for n in number],
        },
        population=number * 3,
    )


@pytest.fixture(scope="module")
def commutes():
    rng = np.random.default_rng(5)
    rows = {"origin": [], "destination": []}
    for destination, count in ((0, 1), (3, 40), (7, 9)):
        for origin in rng.integers(0, 12, size=count):
            rows["origin"].append(f"p{origin:02d}")
            rows["destination"].append(f"p{destination:02d}")
    return pa.table(rows)


@pytest.fixture
def source(commutes, places):
    return us.open_commutes(commutes, places=places)


def settings(name):
    return {"method": "commute", "budget": BUDGET, **SETTINGS[name]}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_release_keeps_its_plan_its_places_and_its_sizes(source, places, tmp_path, name):
    asked = settings(name)
    release = us.synthesize(source, out=tmp_path / "release", **asked)
    assert [check.name for check in us.verify(tmp_path / "release") if not check.passed] == []
    again = us.read_release(tmp_path / "release")
    plan = again.provenance.plan
    assert again.provenance.events == plan.events
    assert satisfies(compose(plan.events, plan.unit, by=plan.by), asked["budget"])
    halved = type(asked["budget"])(
        **{key: getattr(asked["budget"], key) / (2 if key == "epsilon" else 1) for key in asked["budget"].parameters}
    )
    assert not satisfies(compose(plan.events, plan.unit, by=plan.by), halved)
    for copy in range(1, asked.get("copies", 1) + 1):
        origins, destinations, jobs = again.coded(copy)
        assert (origins >= -1).all()
        assert (jobs >= 1).all()
        if "destination" in plan.unit.fixed:  # n(d) is public, and as many are drawn
            made = np.bincount(destinations, weights=jobs, minlength=len(places))
            assert made.tolist() == source.flows().sizes().tolist()
    assert release.copies == asked.get("copies", 1)
    assert not list(tmp_path.glob("*partial*"))


def test_every_method_for_commutes_says_what_it_is():
    for name in flow_synthesizers:
        kind = flow_synthesizers[name]
        assert kind.name == name
        assert kind.summary
        assert kind.guarantees


def test_nothing_is_drawn_that_the_ledger_refuses(source, tmp_path, monkeypatch):
    ledger = tmp_path / "budget.db"
    Ledger.create(ledger).create_account("jobs", limit=us.PureDP(epsilon=1), unit=us.Unit(fixed=("destination",)))
    drawn = []
    monkeypatch.setattr(FlowGate, "draw", lambda *a, **k: drawn.append(1))
    with pytest.raises(BudgetError):
        us.synthesize(source, out=tmp_path / "r", ledger=ledger, account="jobs", **settings("rings"))
    assert drawn == []
    assert not list(tmp_path.glob("r*"))


@pytest.mark.parametrize("dies_after", [0, 1])
def test_a_run_that_died_is_finished_without_drawing_twice(source, commutes, places, tmp_path, monkeypatch, dies_after):
    calls = []
    close = ParquetSink.close

    def dying(self):
        calls.append(self._path.name)
        if len(calls) > dies_after:
            raise KeyboardInterrupt
        return close(self)

    monkeypatch.setattr(ParquetSink, "close", dying)
    with pytest.raises(KeyboardInterrupt):
        us.synthesize(source, out=tmp_path / "r", **settings("two copies"))
    monkeypatch.setattr(ParquetSink, "close", close)
    (run,) = tmp_path.glob("r.partial-*")
    first = (run / "drawn_1.parquet").read_bytes() if dies_after else None
    with pytest.raises(InputError, match="places"):
        us.resume(run)
    with pytest.raises(InputError, match="--source"):
        us.resume(run, places=places)
    us.resume(run, places=places, source=commutes)
    assert [check.passed for check in us.verify(tmp_path / "r")] == [True] * 7
    if first is not None:  # what was answered is released as it was
        assert (tmp_path / "r" / "synthetic_1.parquet").read_bytes() == first
    assert not run.exists()


@pytest.mark.parametrize("change", ["fewer", "elsewhere", "from elsewhere"])
def test_other_commutes_do_not_finish_a_run(source, commutes, places, tmp_path, monkeypatch, change):
    """Priors were set for the public sizes of destinations; and a charge covers draws from one table alone."""

    def dying(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ParquetSink, "close", dying)
        with pytest.raises(KeyboardInterrupt):
            us.synthesize(source, out=tmp_path / "r", **settings("rings"))
    (run,) = tmp_path.glob("r.partial-*")
    moved = pa.array(["p03" if there == "p07" else there for there in commutes["destination"].to_pylist()])
    turned = pa.array(commutes["origin"].to_pylist()[1:] + commutes["origin"].to_pylist()[:1])
    other = {
        "fewer": commutes.slice(0, 20), "elsewhere": commutes.set_column(1, "destination", moved),
        "from elsewhere": commutes.set_column(commutes.column_names.index("origin"), "origin", turned),
    }[change]  # fmt: skip
    with pytest.raises(InputError, match="not the data the run was started with"):
        us.resume(run, places=places, source=other)
    us.resume(run, places=places, source=commutes)
    assert all(check.passed for check in us.verify(tmp_path / "r"))


def test_a_copied_run_folder_draws_no_second_table(source, commutes, places, tmp_path, monkeypatch):
    ledger = tmp_path / "budget.db"
    Ledger.create(ledger).create_account("jobs", limit=BUDGET, unit=us.Unit(fixed=("destination",)))

    def dying(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ParquetSink, "close", dying)
        with pytest.raises(KeyboardInterrupt):
            us.synthesize(
                source, out=tmp_path / "r", ledger=ledger, account="jobs", unit=us.Unit(fixed=("destination",)),
                **settings("rings"),
            )  # fmt: skip
    (run,) = tmp_path.glob("r.partial-*")
    copy = shutil.copytree(run, tmp_path / "copy")
    us.resume(run, places=places, source=commutes, out=tmp_path / "first")
    with pytest.raises(BudgetError, match="another copy"):
        us.resume(copy, places=places, source=commutes, out=tmp_path / "second")
    assert not (tmp_path / "second").exists()


def test_a_changed_table_of_a_run_is_not_drawn_again(source, commutes, places, tmp_path, monkeypatch):
    calls = []
    close = ParquetSink.close

    def dying(self):
        calls.append(1)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return close(self)

    monkeypatch.setattr(ParquetSink, "close", dying)
    with pytest.raises(KeyboardInterrupt):
        us.synthesize(source, out=tmp_path / "r", **settings("two copies"))
    monkeypatch.setattr(ParquetSink, "close", close)
    (run,) = tmp_path.glob("r.partial-*")
    with (run / "drawn_1.parquet").open("ab") as file:
        file.write(b"x")
    with pytest.raises(InputError, match="Start a new run"):
        us.resume(run, places=places, source=commutes)


def test_no_confidential_value_or_key_is_left_in_a_release(source, places, tmp_path):
    us.synthesize(source, out=tmp_path / "r", **settings("shrunk"))
    text = "".join(path.read_text(errors="replace") for path in (tmp_path / "r").iterdir() if path.suffix != ".parquet")
    for word in ("seed", "retained_domain", "key_"):
        assert word not in text.lower()


def test_flows_cannot_be_saved_or_opened_by_anything(source):
    import pickle

    with pytest.raises(DisclosureError):
        pickle.dumps(source.flows())
    with pytest.raises(DisclosureError, match="not empty"):
        source.flows().open_for(object())
    assert "confidential" in repr(source.flows())


def test_sizes_are_not_handed_out_for_private_destinations(source, places):
    plan = us.plan(places, method="commute", budget=us.PureDP(epsilon=1), unit=us.Unit())
    gate = FlowGate(source=source, places=places, plan=plan, stream=SeededStream(1))
    with pytest.raises(DisclosureError):
        gate.sizes()


def epsilon_seen(likely, unlikely, delta):
    """A lower bound of epsilon from two sets of yes-or-no runs (Clopper and Pearson)."""
    low = beta.ppf(1e-5, likely.sum(), len(likely) - likely.sum() + 1) if likely.any() else 0.0
    high = beta.ppf(1 - 1e-5, unlikely.sum() + 1, len(unlikely) - unlikely.sum())
    return math.log((low - delta) / high) if low > delta else -math.inf


def audited(kind, weaken):
    """A mechanism calibrated for three workers and (3, 1e-4), or with its prior divided; and its domain."""
    loss = ApproxLoss(epsilon=Fraction(3), delta=Fraction(1, 10_000), source="audit")
    keeps = Fraction(1, 2)
    if kind == "shrunk":
        prior = round_prior(
            Fraction(shrunk_prior(loss.epsilon, loss.delta, least_keep=keeps, records=3, rows=3)) / weaken
        )
    else:
        rule = PriorRule(loss=loss, rule="exact" if kind == "urn" else "accept_reject")
        prior = round_prior(rule.table(np.array([3]), cells=6).prior(3) / weaken)
    priors = SizedPrior(entries={3: (6, prior.numerator, prior.denominator.bit_length() - 1)})
    if kind == "shrunk":
        return ShrunkUrn(
            priors=priors, claim=loss,
            bands=PlaceBands(points=np.arange(18.0).reshape(6, 3), edges=np.array([np.inf])),
            keeps=np.array([2**31, 0], dtype=np.uint64), elsewhere=False,
        )  # fmt: skip
    urn = CellUrn(priors=priors, claim=loss)
    return urn if kind == "urn" else AcceptingUrn(urn=urn, gamma=gamma_for(loss.epsilon, loss.delta))


def outcomes(mechanism, cells, runs, seed):
    """How many rows fell into the last cell, in each run."""
    stream, rows = SeededStream(seed), np.array([3])
    found = np.empty(runs, dtype=int)
    for run in range(runs):
        block = Block(
            destinations=np.array([0]), starts=np.array([0, len(cells)]), cells=np.array(sorted(cells)),
            jobs=np.array([cells[cell] for cell in sorted(cells)], dtype=np.int32), rows=rows,
        )  # fmt: skip
        found[run] = (mechanism.draw(block, np.array([6]), stream, "audit", run) == 5).sum()
    return found


@pytest.mark.full
@pytest.mark.parametrize("kind", ["urn", "shrunk", "accept_reject"])
def test_sampled_audit(kind):
    """One worker moved into an empty cell: the promise holds, and a prior twenty times too small is seen."""
    runs = 8_000
    for weaken, kept in ((1, True), (20, False)):
        mechanism = audited(kind, weaken)
        moved = outcomes(mechanism, {0: 2, 5: 1}, runs, 1)
        stayed = outcomes(mechanism, {0: 2, 1: 1}, runs, 2)
        seen = max(epsilon_seen(moved >= least, stayed >= least, 1e-4) for least in (1, 2, 3))
        assert (seen <= 3.0) == kept


def test_the_release_folder_is_found_by_its_kind(source, tmp_path):
    release = us.synthesize(source, out=tmp_path / "r", **settings("cut"))
    assert type(us.read_release(tmp_path / "r")).__name__ == "CommuteRelease"
    assert "elsewhere" in set(release.flows()["origin"].to_pylist()) | {"elsewhere"}
    assert isinstance(Path(release.files[0]), Path)


HUGE = {
    "pure 60": {"budget": us.PureDP(epsilon=60)},
    "pure 5000": {"budget": us.PureDP(epsilon=5000)},
    "approx 100": {"budget": us.ApproxDP(epsilon=100, delta="1e-5")},
    "approx 2000": {"budget": us.ApproxDP(epsilon=2000, delta="1e-5")},
    "almost no delta left": {"budget": us.ApproxDP(epsilon=1, delta="0.999")},
    "probabilistic 800": {"budget": us.ProbabilisticDP(epsilon=800, delta="1e-5")},
    "private destinations": {"budget": us.ApproxDP(epsilon=3000, delta="1e-5"), "unit": us.Unit(kind="replace")},
    "accept_reject": {"budget": us.ApproxDP(epsilon=900, delta="1e-5"), "rule": "accept_reject"},
    "shrunk": {"budget": us.ApproxDP(epsilon=900, delta="1e-5"), "coarsen": "none", "shrink": "3:1,20:0.8"},
    "areas": {"budget": us.ApproxDP(epsilon=900, delta="1e-5"), "coarsen": "area:county"},
}


def account_of(path, budget, unit):
    limit = budget.implied() if isinstance(budget, us.ProbabilisticDP) else budget
    us.Ledger.create(path).create_account("jobs", unit=unit, limit=limit)
    return {"ledger": path, "account": "jobs"}


@pytest.mark.parametrize("name", HUGE)
def test_a_huge_epsilon_is_drawn_with_no_more_cells_than_places(source, places, tmp_path, name):
    """A budget that buys more than there is to buy must not end in an overflow after it was charged."""
    asked = {"unit": us.Unit(kind="replace", fixed=("destination",)), **HUGE[name]}
    account = account_of(tmp_path / "budget.db", asked["budget"], asked["unit"])
    us.synthesize(source, method="commute", out=tmp_path / "release", **account, **asked)
    assert [check for check in us.verify(tmp_path / "release") if not check.passed] == []
    (draw,) = us.read_release(tmp_path / "release").provenance.draws
    assert max(draw["mechanisms"][0]["cells"]) <= len(places)


@pytest.mark.parametrize("name", ["rings", "areas", "accept_reject", "theorem", "pure"])
def test_a_draw_that_would_cost_too_much_is_refused_before_the_charge(source, tmp_path, name, monkeypatch):
    honest = SizedPrior.of

    def a_quarter(self, sizes):
        cells, weights, shifts = honest(self, sizes)
        return cells, weights, shifts + 2

    monkeypatch.setattr(SizedPrior, "of", a_quarter)
    asked = settings(name)
    account = account_of(tmp_path / "budget.db", asked["budget"], us.Unit(kind="replace", fixed=("destination",)))
    with pytest.raises(BudgetError, match="costs more than"):
        us.synthesize(source, out=tmp_path / "release", **account, **asked)
    assert [path.name for path in tmp_path.iterdir()] == ["budget.db"]
    assert us.Ledger.open(tmp_path / "budget.db").account("jobs").spent["epsilon"] == 0


def test_a_mixture_that_would_cost_too_much_is_refused_before_the_charge(source, tmp_path, monkeypatch):
    honest = Budget.of.__func__
    monkeypatch.setattr(Budget, "of", classmethod(lambda kind, epsilon, **given: honest(kind, epsilon * 2, **given)))
    asked = settings("by size")
    account = account_of(tmp_path / "budget.db", asked["budget"], us.Unit(kind="replace", fixed=("destination",)))
    with pytest.raises(BudgetError, match="more than the"):
        us.synthesize(source, out=tmp_path / "release", **account, **asked)
    assert [path.name for path in tmp_path.iterdir()] == ["budget.db"]
    assert us.Ledger.open(tmp_path / "budget.db").account("jobs").spent["epsilon"] == 0
