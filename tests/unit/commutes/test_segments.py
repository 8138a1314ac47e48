"""Segments of jobs: a job is in one cell of every table of them, sums agree, bad partitions are refused."""

import itertools
import re
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.commutes import commute_kind
from understudy.commutes.commute_kind import segments_add_up
from understudy.commutes.map.commute_map import build_map
from understudy.commutes.shared.segment_jobs import drawn_segments, drawn_to_sizes, fitted
from understudy.commutes.shared.segments import measured_jointly, read_groups, read_segments, segment_designs
from understudy.core.flows import Partition
from understudy.core.places import make_places
from understudy.demo.lodes import SEGMENTS, write_state
from understudy.errors import DisclosureError, InputError, InternalError, UnsupportedError
from understudy.privacy.gate.flow_gate import FlowGate, FlowTable, flow_sensitivity
from understudy.privacy.gate.journal import Journal
from understudy.privacy.promise.definition import Unit
from understudy.privacy.randomness.streams import SeededStream

PLACES = make_places(["a", "b", "c"], [41.0, 41.1, 41.2], [-71.0] * 3, areas={"county": ["x", "x", "y"]})
SEGMENT = "kind=S0+S1"


def table_of(jobs):
    """Counted pairs with segments, from jobs as (origin, destination, segment)."""
    pairs = sorted({job[:2] for job in jobs})
    counts = {k: [sum(job == (*pair, k) for job in jobs) for pair in pairs] for k in (0, 1)}
    return pa.table({
        "origin": [o for o, _ in pairs], "destination": [d for _, d in pairs],
        "jobs": [a + b for a, b in zip(*counts.values(), strict=True)], "S0": counts[0], "S1": counts[1],
    })  # fmt: skip


def counts_of(jobs):
    source = us.open_commutes(table_of(jobs), places=PLACES)
    source.check_segments(read_groups(SEGMENT)[0])
    return [source.count_segments(table) for table in segment_designs(PLACES, SEGMENT, Unit())[0].tables]


@pytest.mark.parametrize("fixed", [(), ("destination",)])
@pytest.mark.parametrize("kind", ["replace", "add_remove"])
def test_sensitivities_hold_over_all_neighbours(kind, fixed):
    """Brute force: every job there is, put in place of every job of a small table, or added."""
    if kind == "add_remove" and fixed:
        pytest.skip("destinations cannot be fixed there")
    jobs = [("a", "b", 0), ("b", "b", 1), ("c", "a", 0)]
    every = list(itertools.product("abc", "abc", (0, 1)))
    unit = Unit(kind=kind, fixed=fixed)
    before = counts_of(jobs)
    if kind == "add_remove":
        neighbours = [[*jobs, one] for one in every]
    else:
        neighbours = [
            [*jobs[:n], one, *jobs[n + 1 :]] for n in range(3) for one in every if not fixed or one[1] == jobs[n][1]
        ]
    tables = segment_designs(PLACES, SEGMENT, unit)[0].tables
    moved = [[np.abs(new - old) for new, old in zip(counts_of(one), before, strict=True)] for one in neighbours]
    for number, table in enumerate(tables):
        stated = flow_sensitivity(table, unit)
        assert max(one[number].sum() for one in moved) == stated.l1
        assert max((one[number] ** 2).sum() for one in moved) == stated.l2_squared
        assert max(one[number].max() for one in moved) == stated.linf


def test_a_table_by_destination_and_segment_is_never_public():
    with pytest.raises(InternalError, match="not public"):
        FlowTable(label="x", cells=2, classify=lambda o, d: d, by_destination=True, segments=read_groups(SEGMENT)[0])


def test_segments_that_are_no_partition_are_refused_and_nothing_is_charged(tmp_path):
    bad = table_of([("a", "b", 0), ("b", "b", 1)]).set_column(3, "S0", pa.array([5, 0]))
    source = us.open_commutes(bad, places=PLACES)
    ledger = tmp_path / "budget.db"
    us.Ledger.create(ledger).create_account("jobs", limit=us.PureDP(epsilon=10), unit=Unit(fixed=("destination",)))
    with pytest.raises(InputError, match=r"columns S0, S1 of the commutes have 1 row\(s\) that do not add up"):
        us.synthesize(source, budget=us.PureDP(epsilon=1), segments=SEGMENT, ledger=ledger, account="jobs")
    us.synthesize(
        source, budget=us.PureDP(epsilon=10), method="commute_tree", ledger=ledger, account="jobs"
    )  # all is left
    workers = us.open_commutes(pa.table({"origin": ["a"], "destination": ["b"]}), places=PLACES)
    with pytest.raises(InputError, match="column 'kind' is not there"):
        us.synthesize(workers, budget=us.PureDP(epsilon=1), segments=SEGMENT)


@pytest.mark.parametrize("text", ["age,age", "x=A", "x=A+A", "x=A+B,y=B+C", "jobs=A+B", "destination=A+B"])
def test_partitions_are_named_once_and_have_several_columns(text):
    with pytest.raises(InputError, match="segments"):
        read_segments(text)


def test_the_fit_keeps_pairs_and_follows_both_margins():
    rng = np.random.default_rng(3)
    true = rng.integers(20, 200, (4, 5, 3)).astype(float)
    found = fitted(true.sum(axis=2), true.sum(axis=1), true.sum(axis=0))
    assert np.allclose(found.sum(axis=2), true.sum(axis=2))
    assert np.abs(found.sum(axis=1) - true.sum(axis=1)).max() < 0.02 * true.sum(axis=1).max()
    assert np.abs(found.sum(axis=0) - true.sum(axis=0)).max() < 0.02 * true.sum(axis=0).max()


def test_every_job_gets_one_segment_with_the_probability_of_its_areas():
    shares = np.array([[[1.0, 3.0]]])
    jobs = np.array([1, 2, 5])
    zero = np.zeros(3, dtype=np.int64)
    totals = np.zeros(2)
    for seed in range(200):
        found = drawn_segments(zero, zero, jobs, shares, SeededStream(seed), "x")
        assert (found.sum(axis=1) == jobs).all()
        totals += found[0]
    assert 0.15 < totals[0] / totals.sum() < 0.35  # one job 200 times; four standard errors are 0.12


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    main, aux, crosswalk = write_state(tmp_path_factory.mktemp("state"))
    return us.open_commutes([main, aux], places=crosswalk, outside="state")


@pytest.mark.parametrize("method", ["commute", "commute_tree"])
def test_a_release_has_segments_that_add_up_and_answers_about_them(state, method, tmp_path):
    with warnings.catch_warnings(action="ignore"):
        us.synthesize(
            state,
            method=method,
            budget=us.PureDP(epsilon=8),
            segments="age,earnings,industry",
            out=tmp_path / "out",
            csv=True,
        )
    release = us.read_release(tmp_path / "out")
    assert release.segments == SEGMENTS
    assert all(check.passed for check in us.verify(tmp_path / "out"))
    table = release.flows()
    jobs = table["jobs"].to_numpy()
    for k in range(3):
        assert (sum(table[name].to_numpy() for name in SEGMENTS[3 * k : 3 * k + 3]) == jobs).all()
    assert (tmp_path / "out" / "synthetic_1.csv").read_text().startswith('"origin","destination","jobs","SA01"')
    answer = us.infer(release, "count(work in tract 44001000001, segment SI01)")
    assert answer.labels == ("valid",)
    area = release.places.areas["tract"] == b"44001000001"
    true = state.count_segments(
        FlowTable(
            label="",
            cells=6,
            classify=lambda o, d: area[d].astype(int),
            segments=(Partition(name="industry", columns=SEGMENTS[6:]),),
        )
    )
    assert abs(answer.value - true[3]) < 8 * answer.standard_error
    with pytest.raises(UnsupportedError, match="not of both together"):
        us.infer(release, "count(home in tract 44001000002, work in tract 44001000001, segment SI01)")
    inside = release.places.id_texts(np.flatnonzero(area)[:1])[0]
    with pytest.raises(UnsupportedError, match="whole areas"):
        us.infer(release, f"count(work in place {inside}, segment SI01)")
    with pytest.raises(InputError, match="unknown"):
        us.infer(release, "count(segment SX01)")


def test_verify_sees_segments_that_do_not_add_up(state, tmp_path):
    with warnings.catch_warnings(action="ignore"):
        release = us.synthesize(
            state, method="commute_tree", budget=us.PureDP(epsilon=8), segments="age", out=tmp_path / "out"
        )
    file = tmp_path / "out" / "synthetic_1.parquet"
    table = pq.read_table(file)
    changed = table.set_column(3, "SA01", pa.array(table["SA01"].to_numpy() + 1))
    file.unlink()
    pq.write_table(changed, file)
    with pytest.raises(InputError, match="do not add up"):
        segments_add_up(release)


def test_partitions_are_fixed_only_with_the_destination_and_only_if_they_are_asked_for():
    def planned(fixed, segments):
        us.plan(PLACES, method="commute_tree", budget=us.PureDP(epsilon=1), unit=Unit(fixed=fixed), segments=segments)

    planned(("destination", "kind"), SEGMENT)
    with pytest.raises(InputError, match="only together with the destination"):
        planned(("kind",), SEGMENT)
    with pytest.raises(InputError, match="can be fixed, and partitions that segments names, not age"):
        planned(("destination", "age"), SEGMENT)
    with pytest.raises(InputError, match="not crossed"):
        planned(("destination", "kind"), f"{SEGMENT}*sex=F+M")


def test_public_segments_are_seen_only_where_the_unit_fixes_them():
    """The gate refuses to tell the segments of a destination that are not fixed, whatever a method asks."""
    source, (kind,) = us.open_commutes(table_of([("a", "b", 0), ("b", "b", 1)]), places=PLACES), read_segments(SEGMENT)
    for fixed, told in ((("destination",), False), (("destination", "kind"), True)):
        plan = us.plan(
            PLACES, method="commute_tree", budget=us.PureDP(epsilon=1), unit=Unit(fixed=fixed), segments=SEGMENT
        )
        gate = FlowGate(source=source, places=PLACES, plan=plan, stream=SeededStream(1))
        if told:
            assert gate.segment_sizes(kind).tolist() == [[0, 0], [1, 1], [0, 0]]
        else:
            with pytest.raises(DisclosureError, match="public only if the unit fixes"):
                gate.segment_sizes(kind)


@pytest.mark.parametrize("method", ["commute", "commute_tree"])
def test_fixed_segments_are_public_by_workplace_and_measured_by_home(state, method, tmp_path):
    unit = Unit(fixed=("destination", "age"))
    plan = us.plan(state.places, method=method, budget=us.PureDP(epsilon=4), unit=unit, segments="age,industry")
    labels = [step.label for step in plan.steps if step.label.startswith(("age", "industry"))]
    assert labels == ["age by home area", "industry by home area", "industry by work area"]
    assert any("each segment of age" in text for text in us.plan_advice(plan, state.places))
    with warnings.catch_warnings(action="ignore"):
        us.synthesize(
            state, method=method, budget=us.PureDP(epsilon=4), unit=unit, segments="age,industry", copies=2,
            out=tmp_path / "out",
        )  # fmt: skip
    assert all(check.passed for check in us.verify(tmp_path / "out"))
    release = us.read_release(tmp_path / "out")
    count = len(state.places)
    true = state.count_segments(
        FlowTable(
            label="", cells=3 * count, classify=lambda o, d: d.astype(int),
            segments=(Partition(name="age", columns=SEGMENTS[:3]),),
        )
    ).reshape(count, 3)  # fmt: skip
    for copy in (1, 2):
        table, at = release.flows(copy), np.asarray(release.coded(copy)[1])
        for number, name in enumerate(SEGMENTS[:3]):
            assert (np.bincount(at, table[name].to_numpy(), count) == true[:, number]).all()
    answer = us.infer(release, "count(work in tract 44001000001, segment SA02)")
    assert answer.low == answer.value == answer.high
    assert us.infer(release, "count(home in tract 44001000001, segment SA02)").low < answer.value * 100
    text = build_map([release], rings=[])
    assert "how many are in each segment of age" in text


def test_a_run_with_other_public_segments_is_not_resumed(tmp_path):
    plan = us.plan(
        PLACES, method="commute_tree", budget=us.PureDP(epsilon=1), unit=Unit(fixed=("destination", "kind")),
        segments=SEGMENT,
    )  # fmt: skip
    (kind,) = read_segments(SEGMENT)
    journal = Journal.create(tmp_path / "run", {})
    first = us.open_commutes(table_of([("a", "b", 0), ("b", "b", 1)]), places=PLACES)
    FlowGate(source=first, places=PLACES, plan=plan, stream=SeededStream(1), journal=journal).segment_sizes(kind)
    again = FlowGate(source=None, places=PLACES, plan=plan, stream=SeededStream(1), journal=journal)
    assert again.segment_sizes(kind).tolist() == [[0, 0], [1, 1], [0, 0]]
    other = us.open_commutes(table_of([("a", "b", 0), ("b", "b", 0)]), places=PLACES)
    gate = FlowGate(source=other, places=PLACES, plan=plan, stream=SeededStream(1), journal=journal)
    with pytest.raises(InputError, match="not the data the run was started with"):
        gate.segment_sizes(kind)


def test_jobs_are_drawn_to_public_sizes_with_the_odds_of_their_homes():
    """One workplace, homes of two kinds: all of it is met exactly, and the likelier home has the segment more often."""
    jobs, destinations = np.array([30, 30]), np.zeros(2, dtype=np.int64)
    shares, sizes = np.array([[0.8, 0.2], [0.2, 0.8]]), np.array([[20, 40]])
    first = []
    for seed in range(60):
        found = drawn_to_sizes(destinations, jobs, shares, sizes, SeededStream(seed), "x")
        assert found.sum(axis=0).tolist() == [20, 40]
        assert (found.sum(axis=1) == jobs).all()
        first.append(found[0, 0])
    # Odds 4 and 1/4 for 20 of 60 jobs; drawn without replacement, by weight, nearly all are of the first home.
    assert 14 < np.mean(first) < 20
    with pytest.raises(InternalError, match="do not add up"):
        drawn_to_sizes(destinations, jobs, shares, np.array([[20, 41]]), SeededStream(1), "x")


CROSSED = "age=young+old*sex=F+M"


def workers(jobs):
    """One row for each job: (origin, destination, age, sex)."""
    return pa.table(dict(zip(("origin", "destination", "age", "sex"), map(list, zip(*jobs, strict=True)), strict=True)))


def test_combinations_keep_sensitivities_over_all_neighbours():
    jobs = [("a", "b", "young", "F"), ("b", "b", "old", "M"), ("c", "a", "old", "F")]
    every = list(itertools.product("abc", "abc", ("young", "old"), "FM"))
    (group,) = read_groups(CROSSED)
    joint = segment_designs(PLACES, CROSSED, Unit())[1]
    assert joint.parts == (group,)

    def counts(jobs):
        source = us.open_commutes(workers(jobs), places=PLACES)
        source.check_segments(group)
        return [source.count_segments(table) for table in joint.tables]

    before = counts(jobs)
    assert [one.sum() for one in before] == [3, 3]
    for kind, neighbours in (
        ("replace", [[*jobs[:n], one, *jobs[n + 1 :]] for n in range(3) for one in every]),
        ("add_remove", [[*jobs, one] for one in every]),
    ):
        moved = [[np.abs(new - old) for new, old in zip(counts(one), before, strict=True)] for one in neighbours]
        for number, table in enumerate(joint.tables):
            assert max(one[number].sum() for one in moved) == flow_sensitivity(table, Unit(kind=kind)).l1


def test_the_design_is_the_one_with_the_least_expected_error_and_the_plan_says_so():
    """Under a pure epsilon two of two are nearer in one table (variance 2 against 4), under Gaussian noise two of nine
    are nearer apart (2 against 9)."""
    for budget, segments, joint in (
        (us.PureDP(epsilon=1), CROSSED, True),
        (us.ZCDP(rho="0.0001"), "a=A1+A2+A3+A4+A5+A6+A7+A8+A9*b=B1+B2+B3+B4+B5+B6+B7+B8+B9", False),
        (us.PureDP(epsilon=1), "a=A1+A2+A3+A4+A5+A6+A7+A8+A9*b=B1+B2+B3+B4+B5+B6+B7+B8+B9", False),
    ):
        plan = us.plan(PLACES, method="commute_tree", budget=budget, segments=segments)
        labels = [step.label for step in plan.steps]
        assert any("*" in label for label in labels) == joint
        (note,) = [one for one in plan.notes if one.startswith("Segments: ")]
        own, other = float(re.search(r"off by (\S+) jobs", note)[1]), float(re.search(r"would be (\S+)\.$", note)[1])
        assert own < other


@pytest.mark.parametrize("method", ["commute", "commute_tree"])
def test_a_release_of_combinations_adds_up_and_answers_about_each(method, tmp_path):
    rng = np.random.default_rng(4)
    jobs = [
        (*("abc"[k] for k in rng.integers(3, size=2)), ("young", "old")[int(rng.random() < 0.6)], "FM"[rng.integers(2)])
        for _ in range(900)
    ]
    source = us.open_commutes(workers(jobs), places=PLACES)
    with warnings.catch_warnings(action="ignore"):
        us.synthesize(
            source, method=method, budget=us.PureDP(epsilon=30), segments=CROSSED, out=tmp_path / "out",
            stream=SeededStream(3), i_know=True,
        )  # fmt: skip
    assert all(check.passed for check in us.verify(tmp_path / "out"))
    release = us.read_release(tmp_path / "out")
    assert release.segments == ("young", "old", "F", "M", "young*F", "young*M", "old*F", "old*M")
    table = {name: release.flows()[name].to_numpy() for name in ("jobs", *release.segments)}
    assert (table["young*F"] + table["young*M"] == table["young"]).all()
    assert (table["young"] + table["old"] == table["jobs"]).all()
    for segment, wanted in (("old", ("old",)), ("old*F", ("old", "F"))):
        true = sum(job[1] in "ab" and set(wanted) <= set(job) for job in jobs)
        answer = us.infer(release, f"count(work in county x, segment {segment})")
        assert abs(answer.value - true) <= 20  # noise of scale 2 in a cell
        assert answer.labels == ("valid",)
    broken = {**table, "young*F": table["young*F"] + 1, "young*M": table["young*M"] - 1}
    with pytest.raises(InputError, match="do not add up"):
        commute_kind._combinations_add_up(pa.table(broken), measured_jointly(read_groups(CROSSED)[0]))


def test_rows_of_single_jobs_with_other_segments_are_refused_with_their_number():
    source = us.open_commutes(workers([("a", "b", "young", "F"), ("a", "b", "7", "F")]), places=PLACES)
    with pytest.raises(InputError, match=r"column 'age' of the commutes has 1 row\(s\) with something else"):
        source.check_segments(read_groups(CROSSED)[0])
    counted = us.open_commutes(table_of([("a", "b", 0)]), places=PLACES)
    with pytest.raises(InputError, match="known only where a row is one job"):
        counted.check_segments(read_groups(f"{SEGMENT}*sex=F+M")[0])


@pytest.mark.parametrize("method", ["commute", "commute_tree"])
def test_a_run_that_died_while_segments_were_given_is_finished_without_data(state, method, tmp_path, monkeypatch):
    def dying(*_, **__):
        raise KeyboardInterrupt

    real = commute_kind.assign_segments
    monkeypatch.setattr(commute_kind, "assign_segments", dying)
    with warnings.catch_warnings(action="ignore"), pytest.raises(KeyboardInterrupt):
        us.synthesize(state, method=method, budget=us.PureDP(epsilon=8), segments="age", out=tmp_path / "out")
    monkeypatch.setattr(commute_kind, "assign_segments", real)
    (run,) = tmp_path.glob("out.partial-*")
    us.resume(run, places=state.places)
    assert all(check.passed for check in us.verify(tmp_path / "out"))
    assert us.read_release(tmp_path / "out").segments == SEGMENTS[:3]
