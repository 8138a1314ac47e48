"""Segments of jobs: a job is in one cell of every table of them, sums agree, bad partitions are refused."""

import itertools
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.commutes import commute_kind
from understudy.commutes.commute_kind import segments_add_up
from understudy.commutes.shared.segments import drawn_segments, fitted, read_segments, segment_tables
from understudy.core.places import make_places
from understudy.demo.lodes import SEGMENTS, write_state
from understudy.errors import InputError, InternalError, UnsupportedError
from understudy.privacy.gate.flow_gate import FlowTable, flow_sensitivity
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
    source.check_segments(("S0", "S1"))
    return [source.count_segments(table) for table in segment_tables(PLACES, SEGMENT)]


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
    tables = segment_tables(PLACES, SEGMENT)
    moved = [[np.abs(new - old) for new, old in zip(counts_of(one), before, strict=True)] for one in neighbours]
    for number, table in enumerate(tables):
        stated = flow_sensitivity(table, unit)
        assert max(one[number].sum() for one in moved) == stated.l1
        assert max((one[number] ** 2).sum() for one in moved) == stated.l2_squared
        assert max(one[number].max() for one in moved) == stated.linf


def test_a_table_by_destination_and_segment_is_never_public():
    with pytest.raises(InternalError, match="not public"):
        FlowTable(label="x", cells=2, classify=lambda o, d: d, by_destination=True, segments=("S0", "S1"))


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
    with pytest.raises(InputError, match="counted pairs"):
        us.synthesize(workers, budget=us.PureDP(epsilon=1), segments=SEGMENT)


@pytest.mark.parametrize("text", ["age,age", "x=A", "x=A+A", "x=A+B,y=B+C"])
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
        FlowTable(label="", cells=6, segments=SEGMENTS[6:], classify=lambda o, d: area[d].astype(int))
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


def test_segments_cannot_be_fixed(state):
    with pytest.raises(InputError, match="only 'destination' can be fixed"):
        us.synthesize(state, budget=us.PureDP(epsilon=1), unit=Unit(fixed=("destination", "age")), segments="age")


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
