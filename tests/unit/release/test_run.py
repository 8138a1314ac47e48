"""A run refuses early, charges once, and can be finished after any death."""

import json
import os
import warnings
from pathlib import Path

import pyarrow as pa
import pytest

import understudy as us
from understudy.errors import BudgetError, DisclosureError, InputError, UntrackedWarning
from understudy.kinds import tables
from understudy.privacy.gate.journal import Journal
from understudy.privacy.randomness.streams import SecureStream, SeededStream
from understudy.release.sampling import available_memory
from understudy.synth.methods.independent import Independent

SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="age", edges=(0, 30, 60, 100), integer=True),
    )
)
ROWS = pa.table({"sex": ["F", "M", "M", "F"] * 25, "age": [5, 35, 59, 99] * 25})
HALF = us.PureDP(epsilon="0.5")


@pytest.fixture
def source():
    return us.open_source(ROWS, SCHEMA)


@pytest.fixture
def ledger(tmp_path):
    made = us.Ledger.create(tmp_path / "budget.db")
    made.create_account("people", unit="replace", limit=us.PureDP(epsilon=1))
    return made


def paid(ledger):
    return {"ledger": ledger.path, "account": "people"}


def spent(ledger):
    return ledger.account("people").spent["epsilon"]


def test_two_runs_fit_and_the_third_is_refused_with_nothing_touched(tmp_path, source, ledger):
    for number in (1, 2):
        us.synthesize(source, budget=HALF, out=tmp_path / f"release{number}", **paid(ledger))
    before = sorted(path.name for path in tmp_path.iterdir())

    class Untouchable:
        schema = SCHEMA

        def __getattr__(self, name):
            raise AssertionError("the data were touched")

    with pytest.raises(BudgetError, match="remaining 0"):
        us.synthesize(Untouchable(), budget=HALF, out=tmp_path / "release3", **paid(ledger))
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert spent(ledger) == 1
    assert ledger.verify()
    for number in (1, 2):
        manifest = json.loads((tmp_path / f"release{number}" / "manifest.json").read_text())
        assert ledger.verify_against(manifest["ledger"])


@pytest.fixture
def plans(monkeypatch):
    """How often the method planned."""
    made = []
    plan = Independent.plan

    def counted(self, schema, request):
        made.append(request)
        return plan(self, schema, request)

    monkeypatch.setattr(Independent, "plan", counted)
    return made


def test_a_run_plans_once(source, plans):
    us.synthesize(source, budget=HALF, method="independent")
    assert len(plans) == 1


def test_a_reviewed_plan_is_made_once_more_to_see_that_it_is_the_same(source, plans):
    reviewed = us.plan(SCHEMA, budget=HALF, method="independent")
    plans.clear()
    us.synthesize(source, plan=reviewed)
    assert len(plans) == 1


def test_data_that_were_not_opened_come_with_their_schema(source):
    made = us.synthesize(ROWS.to_pandas(), schema=SCHEMA, budget=HALF, method="independent", rows=10)
    assert made.frame().num_rows == 10
    with pytest.raises(InputError, match="need their schema"):
        us.synthesize(ROWS, budget=HALF)
    with pytest.raises(InputError, match=r"type str.*read_schema"):
        us.synthesize(ROWS, schema="people.toml", budget=HALF)
    with pytest.raises(InputError, match="opened already"):
        us.synthesize(source, schema=SCHEMA, budget=HALF)


def test_bad_data_are_refused_before_the_charge(tmp_path, ledger):
    bad = us.open_source(pa.table({"sex": ["F", "secret-value"], "age": [1, 2]}), SCHEMA)
    with pytest.raises(us.UnderstudyError) as caught:
        us.synthesize(bad, budget=HALF, out=tmp_path / "release", **paid(ledger))
    assert "secret-value" not in str(caught.value)
    assert spent(ledger) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["budget.db"]


def test_an_existing_folder_is_refused_before_the_charge_and_overwritten_when_told(tmp_path, source, ledger):
    us.synthesize(source, budget=HALF, out=tmp_path / "release", **paid(ledger))
    with pytest.raises(InputError, match="already exists"):
        us.synthesize(source, budget=HALF, out=tmp_path / "release", **paid(ledger))
    assert spent(ledger) == HALF.epsilon
    us.synthesize(source, budget=HALF, out=tmp_path / "release", overwrite=True, **paid(ledger))
    assert spent(ledger) == 1


def test_a_folder_of_the_users_is_never_overwritten(tmp_path, source):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.txt").write_text("years of work")
    with pytest.raises(InputError, match="not a release folder"):
        synthesize_untracked(source, budget=HALF, out=tmp_path / "thesis", overwrite=True)
    assert (tmp_path / "thesis" / "chapter1.txt").read_text() == "years of work"


def test_a_place_that_is_not_free_is_refused_before_the_charge(tmp_path, source, ledger):
    us.synthesize(source, budget=HALF, out=tmp_path / "release", **paid(ledger))
    before = sorted(path.name for path in (tmp_path / "release").iterdir())
    with pytest.raises(InputError, match="lies in the release folder"):
        us.synthesize(source, budget=HALF, out=tmp_path / "release" / "second", **paid(ledger))
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="already exists"):
        us.synthesize(source, budget=HALF, out=tmp_path / "link", **paid(ledger))
    assert spent(ledger) == HALF.epsilon
    assert sorted(path.name for path in (tmp_path / "release").iterdir()) == before


def synthesize_untracked(source, **asked):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrackedWarning)
        return us.synthesize(source, **asked)


def test_without_a_ledger_there_is_a_warning_and_the_manifest_says_so(tmp_path, source):
    with pytest.warns(UntrackedWarning, match="not tracked across runs"):
        us.synthesize(source, budget=HALF, out=tmp_path / "release")
    manifest = json.loads((tmp_path / "release" / "manifest.json").read_text())
    assert manifest["ledger"] == {"tracked": False, "text": "not tracked across runs"}
    assert "not tracked across runs" in (tmp_path / "release" / "README.md").read_text()


def test_a_ledger_without_account_is_refused(source, ledger):
    with pytest.raises(InputError, match="needs an account"):
        us.synthesize(source, budget=HALF, ledger=ledger.path)


def test_a_plan_settles_everything(source):
    plan = us.plan(SCHEMA, budget=HALF)
    release = synthesize_untracked(source, plan=plan)
    assert release.provenance.plan == plan
    with pytest.raises(InputError, match="leave out copies"):
        synthesize_untracked(source, plan=plan, copies=2)
    other = us.plan(us.Schema(attributes=SCHEMA.attributes[:1]), budget=HALF)
    with pytest.raises(InputError, match="another schema"):
        synthesize_untracked(source, plan=other)


def test_test_randomness_has_no_guarantee_and_cannot_be_charged(tmp_path, source, ledger):
    release = synthesize_untracked(source, budget=HALF, stream=SeededStream(1), out=tmp_path / "release")
    assert release.statement.guarantee == us.NonPrivate()
    assert "no guarantee" in (tmp_path / "release" / "README.md").read_text()
    assert us.read_release(tmp_path / "release").statement.guarantee == us.NonPrivate()
    with pytest.raises(InputError, match="test stream"):
        us.synthesize(source, budget=HALF, stream=SeededStream(1), **paid(ledger))


def test_nonprivate_needs_an_account_opened_for_it(source, ledger):
    with pytest.raises(BudgetError, match="without a guarantee"):
        us.synthesize(source, budget=us.NonPrivate(), **paid(ledger))
    ledger.create_account("open data", unit="replace", limit=us.NonPrivate())
    release = us.synthesize(source, budget=us.NonPrivate(), ledger=ledger.path, account="open data")
    assert "no guarantee" in repr(release)


class Death(BaseException):
    """Stands for a power cut."""


def die_at(monkeypatch, kind, *, after):
    """Dies right before or right after the journal takes an entry of a kind."""
    append = Journal.append

    def dying(self, entry_kind, payload):
        if entry_kind == kind and not after:
            raise Death
        entry = append(self, entry_kind, payload)
        if entry_kind == kind:
            raise Death
        return entry

    monkeypatch.setattr(Journal, "append", dying)


@pytest.mark.parametrize(
    ("kind", "after", "needs_data"),
    [("charged", False, True), ("charged", True, True), ("measurement", False, True), ("measurement", True, False)],
)
def test_a_run_that_dies_after_its_charge_is_finished_without_a_second_one(
    tmp_path, source, ledger, monkeypatch, kind, after, needs_data
):
    with monkeypatch.context() as patch:
        die_at(patch, kind, after=after)
        with pytest.raises(Death):
            us.synthesize(source, budget=HALF, out=tmp_path / "release", copies=2, **paid(ledger))
    assert spent(ledger) == HALF.epsilon
    (run,) = tmp_path.glob("release.partial-*")
    kept = [e.payload["values"] for e in Journal.open(run).entries() if e.kind == "measurement"]
    if needs_data:
        with pytest.raises(InputError, match=r"same data again(.|\n)*understudy resume"):
            us.resume(run)
    release = us.resume(run, source=ROWS if needs_data else None)
    assert spent(ledger) == HALF.epsilon
    assert release.copies == 2
    assert not run.exists()
    assert all(check.passed for check in us.verify(tmp_path / "release"))
    if kept:
        from understudy.privacy.gate.journal import unpack_array

        assert (us.read_release(tmp_path / "release").measurements[0].values == unpack_array(kept[0])).all()


@pytest.mark.parametrize("other", ["fewer", "in other strata"])
def test_other_data_do_not_finish_a_run(tmp_path, monkeypatch, other):
    """The prior of a draw was set for the public sizes in the journal: from five records it would lose far more."""
    schema = us.Schema(
        attributes=(us.Attribute(name="area", levels=("n", "s")), us.Attribute(name="a", levels=tuple("abcd")))
    )
    table = pa.table({"area": ["n"] * 40 + ["s"] * 160, "a": list("abcd") * 50})
    unit = us.Unit(fixed=() if other == "fewer" else ("area",))
    budget = us.ApproxDP(epsilon=1, delta="1e-6")
    source = us.open_source(table, schema)
    with monkeypatch.context() as patch:
        die_at(patch, "charged", after=True)
        with pytest.raises(Death):
            synthesize_untracked(source, method="dirichlet", budget=budget, unit=unit, out=tmp_path / "release")
    (run,) = tmp_path.glob("release.partial-*")
    moved = table.set_column(0, "area", pa.array(["n"] * 5 + ["s"] * 195))
    with pytest.raises(InputError, match="not the data the run was started with"):
        us.resume(run, source=table.slice(0, 5) if other == "fewer" else moved)
    us.resume(run, source=table)
    assert all(check.passed for check in us.verify(tmp_path / "release"))


def test_a_run_that_used_up_the_account_and_died_around_its_charge_is_resumed(tmp_path, source, ledger, monkeypatch):
    with monkeypatch.context() as patch:
        die_at(patch, "charged", after=False)
        with pytest.raises(Death):
            us.synthesize(source, budget=us.PureDP(epsilon=1), out=tmp_path / "release", **paid(ledger))
    (run,) = tmp_path.glob("release.partial-*")
    us.resume(run, source=ROWS)
    assert spent(ledger) == 1
    assert all(check.passed for check in us.verify(tmp_path / "release"))


def test_a_run_that_died_after_publishing_is_simply_finished(tmp_path, source, ledger, monkeypatch):
    def dying(self):
        raise Death

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "discard", dying)
        with pytest.raises(Death):
            us.synthesize(source, budget=HALF, out=tmp_path / "release", **paid(ledger))
    before = us.read_release(tmp_path / "release").frame()
    (run,) = tmp_path.glob("release.partial-*")
    assert us.resume(run).frame().equals(before)
    assert not run.exists()
    assert spent(ledger) == HALF.epsilon


def test_a_release_that_cannot_be_written_is_kept_and_goes_elsewhere(tmp_path, source, ledger, monkeypatch):
    from understudy.release import folder

    def full_disk(*args, **kwargs):
        raise InputError("there is no space left on the disk")

    with monkeypatch.context() as patch:
        patch.setattr(folder, "publish_folder", full_disk)
        with pytest.raises(InputError, match=r"no space(.|\n)*understudy resume"):
            us.synthesize(source, budget=HALF, out=tmp_path / "release", **paid(ledger))
    (run,) = tmp_path.glob("release.partial-*")
    us.resume(run, out=tmp_path / "elsewhere")
    assert all(check.passed for check in us.verify(tmp_path / "elsewhere"))
    assert spent(ledger) == HALF.epsilon


def test_two_runs_for_one_folder_leave_one_release_and_one_run_to_resume(tmp_path, source, ledger, monkeypatch):
    """Both pass the early check; the slower one finds the folder taken when it publishes."""
    from understudy.release.run import Destination

    monkeypatch.setattr(Destination, "check_free", lambda self: None)
    us.synthesize(source, budget=HALF, out=tmp_path / "release", **paid(ledger))
    with pytest.raises(InputError, match="understudy resume"):
        us.synthesize(source, budget=HALF, out=tmp_path / "release", **paid(ledger))
    assert all(check.passed for check in us.verify(tmp_path / "release"))
    (run,) = tmp_path.glob("release.partial-*")
    monkeypatch.undo()
    us.resume(run, out=tmp_path / "second")
    assert all(check.passed for check in us.verify(tmp_path / "second"))
    assert spent(ledger) == 1


def test_a_read_only_place_is_refused_before_the_charge(source, ledger):
    with pytest.raises(InputError):
        us.synthesize(source, budget=HALF, out="/sys/understudy-release", **paid(ledger))
    assert spent(ledger) == 0


def test_a_missing_parent_folder_is_refused_before_the_charge(tmp_path, source, ledger):
    with pytest.raises(InputError):
        us.synthesize(source, budget=HALF, out=tmp_path / "no" / "such" / "release", **paid(ledger))
    assert spent(ledger) == 0


def test_a_release_beyond_the_memory_is_refused_before_the_charge(tmp_path, source, ledger, monkeypatch):
    monkeypatch.setattr(tables, "available_memory", lambda: 2**20)
    with pytest.raises(InputError, match=r"GB of memory(.|\n)*Nothing was charged"):
        us.synthesize(source, budget=HALF, rows=10**6, out=tmp_path / "release", **paid(ledger))
    assert spent(ledger) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["budget.db"]


def test_resuming_something_else_is_refused(tmp_path):
    with pytest.raises(InputError):
        us.resume(tmp_path / "nothing")
    Journal.create(tmp_path / "odd", {"run": "x"})
    with pytest.raises(InputError, match="not the folder of a run"):
        us.resume(tmp_path / "odd")


def test_no_key_or_seed_reaches_any_file(tmp_path, source, ledger, monkeypatch):
    """The key of the stream is recorded, and then looked for in every byte that was written."""
    keys = []
    urandom = os.urandom

    def watched(count):
        key = urandom(count)
        keys.append(key)
        return key

    monkeypatch.setattr(os, "urandom", watched)
    stream = SecureStream()
    us.synthesize(source, budget=HALF, out=tmp_path / "release", stream=stream, **paid(ledger))
    written = b"".join(path.read_bytes() for path in Path(tmp_path).rglob("*") if path.is_file())
    assert any(len(key) == 32 for key in keys)
    for key in keys:
        if len(key) == 32:
            assert key not in written
            assert key.hex().encode() not in written
    with pytest.raises(DisclosureError):
        stream.__reduce_ex__(4)


def test_available_memory_is_that_of_this_machine():
    assert 2**20 < available_memory() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
