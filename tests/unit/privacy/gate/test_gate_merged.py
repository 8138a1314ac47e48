"""The gate with merged codes: what it keeps in memory, and what it refuses to score."""

import numpy as np
import pytest

import understudy as us
from understudy.core.table import CodedSource, CodedTable
from understudy.errors import InternalError
from understudy.privacy.gate import gate as gates
from understudy.privacy.gate.gate import Candidate, Gate
from understudy.privacy.gate.measurement_steps import query_of
from understudy.privacy.randomness.streams import SeededStream

SCHEMA = us.Schema(
    attributes=(
        *(us.Attribute(name=name, edges=tuple(range(41))) for name in "xyz"),
        us.Attribute(name="job", levels=(0, 1, 2)),
    )
)
RNG = np.random.default_rng(5)
TABLE = CodedTable(schema=SCHEMA, columns={name: RNG.integers(0, SCHEMA[name].size, 300) for name in SCHEMA.names})


class Watched(CodedSource):
    """Remembers which margins were counted together."""

    def count(self, margins, progress=None):
        self.scans = [*getattr(self, "scans", []), list(margins)]
        return super().count(margins, progress)


def made(method="ipf", **options):
    plan = us.plan(SCHEMA, method=method, budget=us.PureDP(epsilon=10**6), **options)
    source = Watched(TABLE)
    return Gate(source=source, schema=SCHEMA, plan=plan, stream=SeededStream(1)), plan, source


@pytest.mark.parametrize("at_once", [10**9, 3000, 10])
def test_fine_tables_are_merged_as_they_are_counted(monkeypatch, at_once):
    monkeypatch.setattr(gates, "CELLS_AT_ONCE", at_once)
    gate, plan, source = made(margins="2")
    gate.look_ahead()
    announced = [step.margin for step in plan.steps]
    looked = [margin for scan in source.scans for margin in scan]
    assert looked == (announced if at_once == 10**9 else [(name,) for name in SCHEMA.names])
    source.scans = []
    gate.merge({name: tuple(code // 10 for code in range(40)) for name in "xyz"})
    answers = gate.measure([query_of(step) for step in plan.steps])
    for scan in source.scans:
        assert len(scan) == 1 or sum(map(SCHEMA.cells, scan)) <= at_once
    for answer in answers:
        exact = TABLE.counts(answer.margin)
        for axis, name in enumerate(answer.margin):
            if name in "xyz":
                exact = np.add.reduceat(exact, range(0, 40, 10), axis=axis)
        assert answer.values.tolist() == exact.tolist()  # the noise is almost surely 0 at this budget


@pytest.mark.parametrize(("at_once", "scans"), [(10**9, 1), (3000, 3), (10, 6)])
def test_everything_is_counted_in_one_scan_unless_it_would_need_too_much_memory(monkeypatch, at_once, scans):
    monkeypatch.setattr(gates, "CELLS_AT_ONCE", at_once)
    gate, plan, source = made(margins="2")
    answers = gate.measure([query_of(step) for step in plan.steps])
    assert len(source.scans) == scans
    assert all(answer.values.tolist() == TABLE.counts(answer.margin).tolist() for answer in answers)


@pytest.mark.parametrize("merged", [False, True])
def test_a_model_of_another_shape_is_not_scored(merged):
    """A table of one cell, spread over all, would let one person move the score by as much as there are cells."""
    gate, plan, source = made("aim")
    if merged:
        gate.merge({"x": tuple(code // 10 for code in range(40))})
    size = 4 if merged else 40
    scale = next(step for step in plan.steps if step.action == "select").event.scale
    wrong = [np.zeros((1, 3), np.int64), np.zeros((44 - size, 3), np.int64), np.zeros((size, 1)), np.zeros((size, 3))]
    for model in wrong:
        with pytest.raises(InternalError, match="no table of that margin"):
            gate.select([Candidate(margin=("x", "job"), model=model)], scale=scale, label="choose")
    assert gate.events == ()
    assert not hasattr(source, "scans")
    right = Candidate(margin=("x", "job"), model=np.zeros((size, 3), np.int64))
    assert gate.select([right], scale=scale, label="choose") == 0
