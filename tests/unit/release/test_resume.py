"""A resumed run is the one that was charged, with the data it was started with, and draws each answer once."""

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.errors import BudgetError, InputError, UnsupportedError, UntrackedWarning
from understudy.privacy.gate.gate import Gate
from understudy.privacy.gate.journal import Journal, unpack_array
from understudy.privacy.ledger.ledger import Ledger

SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="age", edges=(0, 30, 60, 100), integer=True),
        us.Attribute(name="area", levels=("n", "s", "w")),
    ),
    ignore=("person",),
)
COST = us.PureDP(epsilon="0.5")


def people(rows=120, seed=1):
    chance = random.Random(seed)
    return pa.table({
        "sex": [chance.choice("FM") for _ in range(rows)],
        "age": [chance.randrange(100) for _ in range(rows)],
        "area": [chance.choice("nsw") for _ in range(rows)],
        "person": [chance.randrange(rows // 6) for _ in range(rows)],
    })  # fmt: skip


ROWS = people()


class Death(BaseException):
    """Stands for a power cut."""


@pytest.fixture
def ledger(tmp_path):
    return us.Ledger.create(tmp_path / "budget.db")


def die_at_entry(monkeypatch, kind, number=1, *, after=False):
    """Dies before or after the journal takes the entry of a kind with a number."""
    append, seen = Journal.append, []

    def dying(self, entry_kind, payload):
        seen.append(entry_kind)
        last = entry_kind == kind and seen.count(kind) == number
        if last and not after:
            raise Death
        entry = append(self, entry_kind, payload)
        if last:
            raise Death
        return entry

    monkeypatch.setattr(Journal, "append", dying)


def start(tmp_path, ledger, monkeypatch, *, kind="charged", number=1, after=True, table=ROWS, unit="replace", **asked):
    """A run that dies; its folder."""
    if ledger is not None:
        if not ledger.accounts():
            ledger.create_account("people", unit=unit, limit=us.PureDP(epsilon=1))
        asked |= {"ledger": ledger.path, "account": "people"}
    source = us.open_source(table, SCHEMA, unit_id=unit.unit_id if isinstance(unit, us.Unit) else None)
    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrackedWarning)
        die_at_entry(patch, kind, number, after=after)
        patch.setattr(Journal, "discard", lambda self: None)  # a power cut tidies nothing up
        with pytest.raises(Death):
            us.synthesize(source, budget=COST, unit=unit, out=tmp_path / "release", **{"method": "histogram", **asked})
    (run,) = tmp_path.glob("release.partial-*")
    return run


def answers(folder):
    return [entry.payload["values"] for entry in Journal.open(folder).entries() if entry.kind == "measurement"]


def rewrite(folder, change):
    """The folder as somebody would write it who knows the format: a new header, and every checksum recomputed."""
    old = Journal.open(folder)
    header = json.loads(json.dumps(old.header))
    change(header)
    shutil.rmtree(folder)
    new = Journal.create(folder, header)
    for entry in old.entries():
        new.append(entry.kind, entry.payload)


# The rows of a unit.


@pytest.mark.parametrize(
    ("method", "rows", "kind"), [("dirichlet", 1, "charged"), ("ipf", 2, "charged"), ("ipf", 2, "measurement")]
)
def test_a_run_with_crowded_units_and_fixed_attributes_is_resumed(tmp_path, ledger, monkeypatch, method, rows, kind):
    """Twenty units of six rows: that other words keep as many rows in each of three areas has a chance below 0.1."""
    unit = us.Unit(rows_per_unit=rows, unit_id="person", fixed=("area",))
    run = start(tmp_path, ledger, monkeypatch, kind=kind, unit=unit, method=method)
    shuffled = ROWS.take(np.random.default_rng(5).permutation(ROWS.num_rows))
    us.resume(run, source=shuffled, unit_id="person")
    assert all(check.passed for check in us.verify(tmp_path / "release"))
    assert ledger.account("people").spent["epsilon"] == COST.epsilon


def test_a_resumed_run_keeps_the_same_rows_of_every_unit(tmp_path, ledger, monkeypatch):
    """Three hundred units of six rows: that other words keep as many in each area has a chance below 1e-2, and the
    exact table of what is kept, far below 1e-6."""
    table, unit = people(1800), us.Unit(rows_per_unit=1, unit_id="person", fixed=("area",))
    counted = []
    look_ahead = Gate.look_ahead

    def watched(self):
        look_ahead(self)
        counted.append(self._source.count([SCHEMA.names])[0].values)

    monkeypatch.setattr(Gate, "look_ahead", watched)
    run = start(tmp_path, ledger, monkeypatch, table=table, unit=unit, method="dirichlet")
    draw = Gate._draw

    def drawing(self, *given):
        counted.append(self._source.count([SCHEMA.names])[0].values)
        return draw(self, *given)

    monkeypatch.setattr(Gate, "_draw", drawing)
    us.resume(run, source=table, unit_id="person")
    before, after = counted
    np.testing.assert_array_equal(before, after)


# The plan.


def test_an_edited_plan_is_not_what_was_charged(tmp_path, ledger, monkeypatch):
    run = start(tmp_path, ledger, monkeypatch)
    dear = us.plan(SCHEMA, budget=us.PureDP(epsilon=50))

    def make_it_dear(header):
        header["plan"] = json.loads(json.dumps(dear.to_json()))

    rewrite(run, make_it_dear)
    with pytest.raises(BudgetError, match=r"charged for another plan and guarantee(.|\n)*start a new run"):
        us.resume(run, source=ROWS)
    assert not (tmp_path / "release").exists()


def test_another_unit_is_not_what_was_charged(tmp_path, ledger, monkeypatch):
    run = start(tmp_path, ledger, monkeypatch)
    other = us.plan(SCHEMA, budget=COST, unit=us.Unit(rows_per_unit=2))
    rewrite(run, lambda header: header.update(plan=json.loads(json.dumps(other.to_json()))))
    with pytest.raises(BudgetError, match="another plan and unit"):
        us.resume(run, source=ROWS)


def test_a_run_folder_cannot_lose_its_ledger(tmp_path, ledger, monkeypatch):
    run = start(tmp_path, ledger, monkeypatch)
    rewrite(run, lambda header: header["destination"].update(ledger=None, account=None))
    with pytest.raises(BudgetError, match="whether it has a ledger"):
        us.resume(run, source=ROWS)


def test_another_schema_than_the_plans_is_refused(tmp_path, ledger, monkeypatch):
    run = start(tmp_path, ledger, monkeypatch)
    rewrite(run, lambda header: header.update(schema=header["schema"].replace("30", "31")))
    with pytest.raises(InputError, match="schema or places are not those its plan was made for"):
        us.resume(run, source=ROWS)


# The ledger.


@pytest.mark.parametrize("kind", ["charged", "measurement"])
def test_after_a_backup_was_restored_nothing_is_published_that_no_ledger_holds(tmp_path, ledger, monkeypatch, kind):
    ledger.create_account("people", unit="replace", limit=us.PureDP(epsilon=1))
    shutil.copy(ledger.path, tmp_path / "backup.db")
    run = start(tmp_path, ledger, monkeypatch, kind=kind)
    kept = tmp_path / "newest.db"
    shutil.copy(ledger.path, kept)
    shutil.copy(tmp_path / "backup.db", ledger.path)
    with pytest.raises(BudgetError, match=r"no charge for run(.|\n)*Put back the ledger(.|\n)*start a new run"):
        us.resume(run, source=ROWS)
    assert not (tmp_path / "release").exists()
    shutil.copy(kept, ledger.path)
    us.resume(run, source=ROWS)
    assert ledger.verify_against(us.read_release(tmp_path / "release").statement.ledger)


def test_another_ledger_with_the_same_charge_is_refused(tmp_path, ledger, monkeypatch):
    run = start(tmp_path, ledger, monkeypatch)
    name, plan = (
        Journal.open(run).header["run"],
        us.plan(SCHEMA, method="histogram", budget=COST),
    )
    os.unlink(ledger.path)
    other = us.Ledger.create(ledger.path)
    other.create_account("people", unit="replace", limit=us.PureDP(epsilon=1))
    other.reserve("people", run=name, plan_hash=plan.hash, unit=plan.unit, cost=COST, method=plan.method)
    with pytest.raises(BudgetError, match="charged to another ledger"):
        us.resume(run, source=ROWS)


def test_a_ledger_replaced_while_a_run_goes_on_stops_it(tmp_path, ledger, monkeypatch):
    ledger.create_account("people", unit="replace", limit=us.PureDP(epsilon=1))
    shutil.copy(ledger.path, tmp_path / "backup.db")
    append = Journal.append

    def restoring(self, kind, payload):
        if kind == "measurement":
            shutil.copy(tmp_path / "backup.db", ledger.path)
        return append(self, kind, payload)

    monkeypatch.setattr(Journal, "append", restoring)
    with pytest.raises(BudgetError, match="no charge for run"):
        us.synthesize(
            us.open_source(ROWS, SCHEMA),
            method="histogram",
            budget=COST,
            out=tmp_path / "release",
            ledger=ledger.path,
            account="people",
        )
    assert not (tmp_path / "release").exists()


# Copies of a run folder, and crashes around an answer.


def snapshot(run, name="copy"):
    return shutil.copytree(run, run.with_name(f"release.partial-{name}"))


@pytest.mark.parametrize("number", [1, 2, 3])
def test_of_two_copies_of_a_run_folder_one_draws_the_next_answer(tmp_path, ledger, monkeypatch, number):
    run = start(tmp_path, ledger, monkeypatch, kind="measurement", number=number, after=False, method="ipf")
    copy = snapshot(run)
    assert len(answers(copy)) == number - 1
    us.resume(run, source=ROWS, out=tmp_path / "first")
    with pytest.raises(BudgetError, match="another copy"):
        us.resume(copy, source=ROWS, out=tmp_path / "second")
    assert len(answers(copy)) == number - 1  # nothing was drawn
    assert not (tmp_path / "second").exists()


def test_a_copy_that_has_every_answer_gives_the_same_answers(tmp_path, ledger, monkeypatch):
    run = start(tmp_path, ledger, monkeypatch, kind="measurement")
    copy = snapshot(run)
    first, second = us.resume(run), us.resume(copy, out=tmp_path / "second")
    assert np.array_equal(first.measurements[0].values, second.measurements[0].values)


@pytest.mark.parametrize("first", ["original", "copy"])
@pytest.mark.parametrize("after", [False, True], ids=["before the ledger knows", "after the ledger knows"])
def test_a_crash_around_the_ledger_loses_nothing_and_hands_out_one_answer(tmp_path, ledger, monkeypatch, after, first):
    """The copy is of a moment before the answer. The original died with the answer in its journal."""
    copies, advance = [], Ledger.advance
    append = Journal.append

    def watched(self, kind, payload):
        if kind == "measurement":
            copies.append(snapshot(self.folder))
        return append(self, kind, payload)

    def dying(self, **given):
        if after:
            advance(self, **given)
        raise Death

    ledger.create_account("people", unit="replace", limit=us.PureDP(epsilon=1))
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "append", watched)
        patch.setattr(Ledger, "advance", dying)
        with pytest.raises(Death):
            us.synthesize(
                us.open_source(ROWS, SCHEMA), method="histogram", budget=COST, out=tmp_path / "release",
                ledger=ledger.path, account="people",
            )  # fmt: skip
    (copy,) = copies
    (run,) = set(tmp_path.glob("release.partial-*")) - {copy}
    kept = answers(run)
    assert len(kept) == 1
    assert answers(copy) == []
    order = [run, copy] if first == "original" else [copy, run]
    finished, refused = [], []
    for place in order:
        try:
            us.resume(place, source=ROWS, out=tmp_path / f"release-{place.name}")
            finished.append(place)
        except BudgetError:
            refused.append(place)
    # The copy may go on only if nobody has seen an answer and nobody was faster.
    assert finished == ([run] if after or first == "original" else [copy])
    assert len(refused) == 1
    if finished == [run]:
        made = us.read_release(tmp_path / f"release-{run.name}").measurements[0]
        assert np.array_equal(made.values, unpack_array(kept[0]))
    assert ledger.verify()


COPY = """
import sys, time, understudy as us
from pathlib import Path
run, data, go, out = map(Path, sys.argv[1:])
print("ready", flush=True)
while not go.exists():
    time.sleep(0.001)
try:
    us.resume(run, source=data, out=out)
    print("finished")
except us.UnderstudyError as problem:
    print("refused" if "another copy" in str(problem) else problem)
"""


@pytest.mark.full
def test_of_several_copies_resumed_at_once_one_finishes(tmp_path, ledger, monkeypatch):
    copies = 4  # each is a start of Python
    run = start(tmp_path, ledger, monkeypatch)
    pq.write_table(ROWS, tmp_path / "people.parquet")
    folders = [run, *(snapshot(run, f"copy{number}") for number in range(1, copies))]
    go = tmp_path / "go"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", COPY, str(folder), str(tmp_path / "people.parquet"), str(go),
             str(tmp_path / f"release{number}")],
            stdout=subprocess.PIPE, text=True,
        )
        for number, folder in enumerate(folders)
    ]  # fmt: skip
    for process in started:
        assert process.stdout.readline() == "ready\n"
    go.touch()
    said = sorted(process.communicate(timeout=300)[0].strip() for process in started)
    assert said == ["finished", *["refused"] * (copies - 1)]
    assert len([path for path in tmp_path.glob("release?") if path.is_dir()]) == 1


def test_a_batch_of_measurements_asks_the_ledger_once(tmp_path, ledger, monkeypatch):
    ledger.create_account("people", unit="replace", limit=us.PureDP(epsilon=1))
    advance, seen = Ledger.advance, []

    def counted(self, **given):
        seen.append(given["head"].sequence - given["known"].sequence)
        advance(self, **given)

    monkeypatch.setattr(Ledger, "advance", counted)
    release = us.synthesize(
        us.open_source(ROWS, SCHEMA), method="ipf", budget=COST, ledger=ledger.path, account="people"
    )
    assert len(release.measurements) > 1
    assert seen == [len(release.measurements) + 1]  # and the entry that notes the charge


# The data.


def other_rows(change):
    if change == "one value":
        ages = ROWS["age"].to_pylist()
        return ROWS.set_column(1, "age", pa.array([(ages[0] + 50) % 100, *ages[1:]]))
    if change == "two values swapped":  # the same one-way counts
        areas = ROWS["area"].to_pylist()
        place = next(
            number for number, area in enumerate(areas) if area != areas[0] and ROWS["sex"][number] != ROWS["sex"][0]
        )
        areas[0], areas[place] = areas[place], areas[0]
        return ROWS.set_column(2, "area", pa.array(areas))
    return people(seed=2)


@pytest.mark.parametrize("kind", ["replace", "add_remove"])
@pytest.mark.parametrize("change", ["one value", "two values swapped", "everything"])
@pytest.mark.parametrize("tracked", [True, False], ids=["with a ledger", "without"])
def test_other_data_of_the_same_size_do_not_finish_a_run(tmp_path, ledger, monkeypatch, kind, change, tracked):
    asked = {"rows": 100} if kind == "add_remove" else {}
    run = start(tmp_path, ledger if tracked else None, monkeypatch, unit=kind, **asked)
    with pytest.raises(InputError, match="not the data the run was started with"):
        us.resume(run, source=other_rows(change))
    us.resume(run, source=ROWS)
    assert all(check.passed for check in us.verify(tmp_path / "release"))


@pytest.mark.parametrize("way", ["another order", "two files", "csv", "frame"])
def test_the_same_data_in_another_shape_finish_a_run(tmp_path, ledger, monkeypatch, way):
    run = start(tmp_path, ledger, monkeypatch)
    data = tmp_path / "data"
    data.mkdir()
    if way == "another order":
        given = ROWS.take(np.random.default_rng(3).permutation(ROWS.num_rows))
    elif way == "two files":
        pq.write_table(ROWS.slice(50), data / "a.parquet", row_group_size=7)
        pq.write_table(ROWS.slice(0, 50), data / "b.parquet")
        given = str(data / "*.parquet")
    elif way == "csv":
        pyarrow.csv.write_csv(ROWS, data / "people.csv")
        given = data / "people.csv"
    else:
        given = ROWS.to_pandas()
    us.resume(run, source=given)
    assert all(check.passed for check in us.verify(tmp_path / "release"))


def test_a_run_that_died_before_its_charge_is_not_charged_for_other_data(tmp_path, ledger, monkeypatch):
    run = start(tmp_path, ledger, monkeypatch, kind="data", after=True)
    with pytest.raises(InputError, match="not the data"):
        us.resume(run, source=people(seed=2))
    assert ledger.account("people").spent["epsilon"] == 0
    us.resume(run, source=ROWS)
    assert ledger.account("people").spent["epsilon"] == COST.epsilon


def test_the_fingerprint_is_noted_before_the_charge_and_stays_in_the_folder(tmp_path, ledger, monkeypatch, capfd):
    run = start(tmp_path, ledger, monkeypatch, kind="measurement", unit="add_remove", rows=50)
    journal = Journal.open(run)
    kinds = [entry.kind for entry in journal.entries()]
    assert kinds.index("data") < kinds.index("charged")
    secrets = [journal.header["data_key"], *(e.payload["fingerprint"] for e in journal.entries() if e.kind == "data")]
    assert [len(secret) for secret in secrets] == [64, 32]
    assert run.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in run.iterdir()} == {0o600}
    with pytest.raises(InputError) as refused:
        us.resume(run, source=people(seed=2))
    us.resume(run, source=ROWS)
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    written += (str(refused.value) + "".join(capfd.readouterr())).encode()
    for secret in secrets:
        assert secret.encode() not in written
        assert bytes.fromhex(secret) not in written


def test_the_key_of_the_data_is_not_that_of_the_noise(tmp_path, ledger, monkeypatch):
    from understudy.privacy.randomness.streams import SecureStream

    ledger.create_account("people", unit="replace", limit=us.PureDP(epsilon=1))
    stream = SecureStream()
    with monkeypatch.context() as patch:
        die_at_entry(patch, "charged")
        with pytest.raises(Death):
            us.synthesize(
                us.open_source(ROWS, SCHEMA), method="histogram", budget=COST, out=tmp_path / "release",
                ledger=ledger.path, account="people", stream=stream,
            )  # fmt: skip
    (run,) = tmp_path.glob("release.partial-*")
    noise = stream._words._key
    for path in run.iterdir():
        assert noise not in path.read_bytes()
        assert noise.hex().encode() not in path.read_bytes()


def test_a_source_that_cannot_be_known_again_is_refused_before_the_charge(tmp_path, ledger):
    opened = us.open_source(ROWS, SCHEMA)

    class Old:
        schema, total, count, count_sparse = SCHEMA, opened.total, opened.count, opened.count_sparse

    ledger.create_account("people", unit="replace", limit=us.PureDP(epsilon=1))
    with pytest.raises(UnsupportedError, match="know its data again"):
        us.synthesize(Old(), budget=COST, out=tmp_path / "release", ledger=ledger.path, account="people")
    assert ledger.account("people").spent["epsilon"] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["budget.db"]


# Runs of earlier versions.


def canonical(data):
    return json.dumps(data, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def as_version_1(run, ledger):
    """The folder as version 1 would have left it: no key, no fingerprint, and a charge that knows no journal."""
    journal = Journal.open(run)
    header = {key: value for key, value in journal.header.items() if key != "data_key"}
    text = canonical({"version": 1, "header": header, "checksum": digest(canonical(header))})
    checksum, lines = digest(text), []
    kept = [(entry.kind, entry.payload) for entry in journal.entries() if entry.kind not in ("data", "charged")]
    plan = us.plan(SCHEMA, method="histogram", budget=COST)
    charge = ledger.reserve(
        "people", run=header["run"], plan_hash=plan.hash, unit=plan.unit, cost=COST, method=plan.method
    )
    for number, (kind, payload) in enumerate([*kept, ("charged", {"ledger": charge.block})], start=1):
        entry = canonical({"kind": kind, "payload": payload, "sequence": number})
        checksum = digest(f"{checksum}\n{entry}")
        lines.append(f'{{"checksum":"{checksum}","entry":{entry}}}\n')
    (run / "run.json").write_text(text + "\n")
    (run / "journal.jsonl").write_text("".join(lines))


def test_a_run_of_an_earlier_version_is_still_finished_and_followed_from_there(tmp_path, ledger, monkeypatch):
    run = start(tmp_path, ledger, monkeypatch, kind="data")
    as_version_1(run, ledger)
    copy = snapshot(run)
    us.resume(run, source=ROWS, out=tmp_path / "first")
    assert all(check.passed for check in us.verify(tmp_path / "first"))
    with pytest.raises(BudgetError, match="another copy"):
        us.resume(copy, source=ROWS, out=tmp_path / "second")
