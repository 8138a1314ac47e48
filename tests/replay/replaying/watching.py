"""Puts the recorder between a run and the gate, its mechanisms and its loops; takes it away again afterwards.

Mechanisms are found by looking through the folder that holds them, so a new one is watched without being named here.
"""

from __future__ import annotations

import importlib
import pkgutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import understudy.privacy.mechanisms
from replaying.recording import Answers, NoiseCall, NoisyList, Recording, ReplayedStream, Run, ShrunkUrn, Urn
from understudy.privacy.gate.flow_gate import FlowGate
from understudy.privacy.gate.gate import Gate
from understudy.privacy.mechanisms import dirichlet_draw, sparse_geometric, urn_compiled
from understudy.privacy.mechanisms.place_tree_compiled import squared_distance
from understudy.privacy.randomness.keyed_noise import ListedCells

FOLDER = understudy.privacy.mechanisms


@cache
def _modules() -> tuple[ModuleType, ...]:
    found = pkgutil.iter_modules(FOLDER.__path__, f"{FOLDER.__name__}.")
    return tuple(importlib.import_module(module.name) for module in found)


def mechanism_classes() -> Iterator[type]:
    """Every class that a module of the folder of mechanisms defines."""
    for module in _modules():
        yield from (
            kind for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == module.__name__
        )


def mechanism_named(name: str) -> type:
    """The one mechanism of a name, in whatever file it lies."""
    (found,) = [kind for kind in mechanism_classes() if kind.__name__ == name]
    return found


@dataclass(frozen=True, kw_only=True)
class Watch:
    """One recorded run under way. ``earlier`` is the run whose answers are handed out again."""

    recording: Recording
    stream: ReplayedStream
    earlier: Recording | None

    def answered(self, kind: str) -> Any:
        """What the earlier run handed out at the same call; none in a first run."""
        if self.earlier is None:
            return None
        number = len(self.recording.passages) - 1
        if number >= len(self.earlier.passages) or self.earlier.passages[number].kind != kind:
            raise AssertionError(f"call {number + 1} of the gate is a {kind}, which it was not in the first run")
        return self.earlier.passages[number].answer


@contextmanager
def watched(seed: int, earlier: Recording | None = None) -> Iterator[Watch]:
    """A recording stream, and the gate and all mechanisms under watch while the block runs."""
    recording = Recording()
    choices = None
    if earlier is not None:
        choices = [choice.chosen for passage in earlier.passages for choice in passage.choices]
    watch = Watch(recording=recording, stream=ReplayedStream(seed, recording, choices), earlier=earlier)
    with pytest.MonkeyPatch.context() as patch:
        _watch_gates(patch, watch)
        _watch_mechanisms(patch, watch)
        _watch_loops(patch, watch)
        yield watch


def _watch_gates(patch: pytest.MonkeyPatch, watch: Watch) -> None:
    recording = watch.recording

    def passing(gate: Any, kind: str, asked: Any, call: Callable[[], Any]) -> tuple[Any, Any]:
        passage, before = recording.begin(kind, asked), len(gate.events)
        answer = watch.answered(kind)
        try:
            made = call()
        finally:
            passage.charged = gate.events[before:]
            recording.end()
        passage.answer = made if answer is None else answer
        return passage, made

    table_measure, table_select, table_draw = Gate.measure, Gate.select, Gate.draw
    table_compare, table_discover, table_clusters = Gate.compare, Gate.discover, Gate.count_clusters
    flow_measure, flow_draw = FlowGate.measure, FlowGate.draw

    def measure(gate: Gate, queries: Any) -> Any:
        asked = [(query.label, query.margin, query.cells, query.mechanism.to_json()) for query in queries]
        passage, _ = passing(gate, "measure", asked, lambda: tuple(table_measure(gate, queries)))
        return list(passage.answer)  # a method may add to its list

    def discover(gate: Gate, queries: Any) -> Any:
        asked = [(query.label, query.margin, query.length, query.mechanism.to_json()) for query in queries]
        return list(passing(gate, "discover", asked, lambda: tuple(table_discover(gate, queries)))[0].answer)

    def count_clusters(gate: Gate, queries: Any) -> Any:
        if not queries:
            return table_clusters(gate, queries)
        asked = [(one.label, one.margin, one.cells, one.mechanism.to_json(), one.classes) for one in queries]
        return list(passing(gate, "measure", asked, lambda: tuple(table_clusters(gate, queries)))[0].answer)

    def measure_flows(gate: FlowGate, table: Any, noise: Any) -> Any:
        asked = [(table.label, table.cells, noise.to_json())]
        return passing(gate, "measure", asked, lambda: flow_measure(gate, table, noise))[0].answer

    def select(gate: Gate, candidates: Any, **named: Any) -> Any:
        asked = [(one.margin, one.weight, one.offset, one.model.tolist()) for one in candidates]
        return passing(gate, "select", asked, lambda: table_select(gate, candidates, **named))[1]

    def compare(gate: Gate, candidates: Any, *, mechanism: Any, label: str) -> Any:
        told = [(one.margin, one.weight, one.model.tolist()) for one in candidates]
        call = lambda: table_compare(gate, candidates, mechanism=mechanism, label=label)  # noqa: E731
        return passing(gate, "compare", [(label, told, mechanism.to_json())], call)[0].answer

    def draw(gate: Gate, mechanisms: Any, **named: Any) -> Any:
        passage, made = passing(gate, "draw", (sorted(named.items())), lambda: table_draw(gate, mechanisms, **named))
        # Parameters are released as this run found them, rows as they came out in the first run.
        return replace(passage.answer, mechanisms=made.mechanisms)

    def draw_flows(gate: FlowGate, mechanism: Any, regions: Any, *, sink: Any, **named: Any) -> None:
        public = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in named.items()}
        kept = KeptBlocks()

        def call() -> KeptBlocks:
            flow_draw(gate, mechanism, regions, sink=kept, **named)
            return kept

        passage, _ = passing(gate, "draw", (mechanism.to_json(), sorted(public.items())), call)
        sink.open(named["copy"])
        for block in passage.answer.blocks:
            sink.add(*block)
        sink.close()

    patch.setattr(Gate, "measure", measure)
    patch.setattr(Gate, "discover", discover)
    patch.setattr(Gate, "count_clusters", count_clusters)
    patch.setattr(Gate, "select", select)
    patch.setattr(Gate, "compare", compare)
    patch.setattr(Gate, "draw", draw)
    patch.setattr(FlowGate, "measure", measure_flows)
    patch.setattr(FlowGate, "draw", draw_flows)
    for kind, name in ((Gate, "public"), (FlowGate, "sizes")):
        patch.setattr(kind, name, _noting(recording, name, getattr(kind, name)))
    for kind in (Gate, FlowGate):
        get = kind.records.fget  # their own, or that of the gate they are kinds of
        patch.setattr(kind, "records", property(_noting(recording, "records", get)))


def _noting(recording: Recording, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def noted(gate: Any, *given: Any) -> Any:
        value = call(gate, *given)
        recording.public.append((f"{name}{given or ''}", np.asarray(value).tolist()))
        return value

    return noted


class KeptBlocks:
    """A sink that keeps what is put into it."""

    def __init__(self) -> None:
        self.blocks: list[tuple[Any, Any, Any]] = []

    def remembered(self, copy: int, note: dict[str, Any]) -> bool:
        return False

    def open(self, copy: int) -> None:
        self.blocks = []

    def add(self, origins: Any, destinations: Any, jobs: Any) -> None:
        self.blocks.append((origins.copy(), destinations.copy(), jobs.copy()))

    def close(self) -> dict[str, Any]:
        return {}


def _watch_mechanisms(patch: pytest.MonkeyPatch, watch: Watch) -> None:
    """Whatever is run on counts: the counts, the noise that the stream gave meanwhile, and what came out."""
    busy = threading.local()

    def outermost(kind: type, name: str, record: Callable[..., Run]) -> None:
        original = kind.__dict__[name]

        def run(mechanism: Any, *given: Any) -> Any:
            if getattr(busy, "depth", 0):
                return original(mechanism, *given)
            busy.depth, before = 1, len(watch.stream.calls)
            try:
                made = original(mechanism, *given)
            finally:
                busy.depth = 0
            watch.recording.add_run(record(mechanism, given, made, tuple(watch.stream.calls[before:])))
            return made

        patch.setattr(kind, name, run)

    def of_dense(mechanism: Any, given: Any, made: Any, noise: tuple[NoiseCall, ...]) -> Run:
        return Run(
            mechanism=mechanism.name, truth=np.array(given[0]), answer=np.array(made), noise=noise,
            bound=getattr(mechanism, "bound", None),
        )  # fmt: skip

    def of_sparse(mechanism: Any, given: Any, made: Any, noise: tuple[NoiseCall, ...]) -> Run:
        truth = np.zeros(mechanism.domain, dtype=np.int64)
        truth[given[0]] = given[1]
        return Run(
            mechanism=mechanism.name, truth=truth, answer=mechanism.dense(*made), noise=noise,
            reported_above=mechanism.threshold,
        )  # fmt: skip

    def of_codes(mechanism: Any, given: Any, made: Any, noise: tuple[NoiseCall, ...]) -> Run:
        told = dict(zip(made[0], made[1].tolist(), strict=True))
        answer = np.array([told.get(code, 0) for code in given[0]])
        return Run(
            mechanism=mechanism.name, truth=np.array(given[1]), answer=answer, noise=noise,
            reported_above=mechanism.threshold - 1, codes=tuple(given[0]),
        )  # fmt: skip

    for kind in mechanism_classes():
        if "run" in kind.__dict__ and hasattr(kind, "log_pmf"):  # noise that knows its law
            outermost(kind, "run", of_dense)
        if getattr(kind, "covers", None) == "codes_that_occur":
            outermost(kind, "find", of_codes)
    outermost(sparse_geometric.SparseGeometric, "draw_parts", of_sparse)

    keyed = sparse_geometric.discrete_laplace
    tail = sparse_geometric.geometric

    def keyed_laplace(scale: Fraction, size: int, stream: Any, *purpose: Any) -> Any:
        values = keyed(scale, size, stream, *purpose)
        watch.stream.calls.append(NoiseCall(law="geometric", scale=scale, values=values.copy()))
        return values

    def keyed_tail(scale: Fraction, size: int, stream: Any, *purpose: Any) -> Any:
        values = tail(scale, size, stream, *purpose)
        watch.stream.calls.append(NoiseCall(law="tail", scale=scale, values=values.copy()))
        return values

    patch.setattr(sparse_geometric, "discrete_laplace", keyed_laplace)
    patch.setattr(sparse_geometric, "geometric", keyed_tail)


def _watch_loops(patch: pytest.MonkeyPatch, watch: Watch) -> None:
    """Whatever is drawn over a domain: the numbers that the drawing loop itself receives."""
    here = threading.local()
    recording = watch.recording
    polya = dirichlet_draw.polya_urn

    def polya_urn(
        cells: Any,
        counts: Any,
        domain: Any,
        stream: Any,
        *purpose: Any,
        prior: Fraction,
        rows: int,
        weights: Any = None,
    ) -> Any:
        records = {int(cell): int(count) for cell, count in zip(cells, counts, strict=True) if count}
        each = None
        if weights is not None:  # by the cells that its balls fall into
            found, times = np.unique(weights.cells_of(np.arange(weights.total)), return_counts=True)
            each = dict(zip(found.tolist(), times.tolist(), strict=True))
        law = Urn(cells=domain.possible, prior=prior, rows=rows, records=records, weights=each)
        recording.add_law(purpose, law)
        return polya(cells, counts, domain, stream, *purpose, prior=prior, rows=rows, weights=weights)

    patch.setattr(dirichlet_draw, "polya_urn", polya_urn)

    cell_urn, accepting, noisy = (mechanism_named(name) for name in ("CellUrn", "AcceptingUrn", "NoisyCells"))
    mixed = mechanism_named("MixedCells")
    mixed_counts, mixed_answers, answer_loop = mixed._noisy, mixed._answers, urn_compiled.answers
    listed_balanced = ListedCells.balanced
    draw_cells, draw_accepted, noisy_counts = cell_urn.draw, accepting.draw, noisy._noisy
    loop, shrunk_loop, listed_noise = urn_compiled.urns, urn_compiled.shrunk_urns, ListedCells.discrete_laplace

    def in_cells(urn: Any, block: Any, *given: Any) -> Any:
        here.destinations = block.destinations
        return draw_cells(urn, block, *given)

    def accepted(urn: Any, *given: Any) -> Any:
        here.accepting = urn
        try:
            return draw_accepted(urn, *given)
        finally:
            here.accepting = None

    def urns(starts: Any, cells: Any, prefix: Any, domains: Any, weights: Any, shifts: Any, rows: Any, *rest: Any):
        for number, destination in enumerate(here.destinations):
            recording.add_law(
                int(destination),
                Urn(
                    cells=int(domains[number]),
                    prior=Fraction(int(weights[number]), 2 ** int(shifts[number])),
                    rows=int(rows[number]),
                    records=_records(starts, cells, prefix, number),
                    accepted=getattr(here, "accepting", None),
                ),
            )
        return loop(starts, cells, prefix, domains, weights, shifts, rows, *rest)

    def shrunk_urns(starts: Any, cells: Any, prefix: Any, destinations: Any, points: Any, edges: Any, *rest: Any):
        _, _, _, inside, tables, bounds, extra, weights, shifts, rows = rest[:10]
        chances = [_kept(inside[band], tables[band], bounds[band]) for band in range(len(inside))]
        for number, destination in enumerate(destinations):
            squares = [squared_distance(points[destination], there) for there in points]
            recording.add_law(
                int(destination),
                ShrunkUrn(
                    keeps=tuple(chances[urn_compiled.band_of(square, edges)] for square in squares),
                    elsewhere=bool(extra),
                    prior=Fraction(int(weights[number]), 2 ** int(shifts[number])),
                    rows=int(rows[number]),
                    records=_records(starts, cells, prefix, number),
                ),
            )
        return shrunk_loop(starts, cells, prefix, destinations, points, edges, *rest)

    def listed(cells: Any, scale: Fraction, *purpose: Any) -> Any:
        here.scale, here.noise = scale, listed_noise(cells, scale, *purpose)
        return here.noise.copy()

    def noisy_of(mechanism: Any, block: Any, domains: Any, first: int, last: int, *given: Any) -> Any:
        here.scale, here.noise = Fraction(0), 0  # what stays if no noise is asked for
        made = noisy_counts(mechanism, block, domains, first, last, *given)
        truth = np.split(made - here.noise, np.cumsum(domains[first:last])[:-1])
        for destination, own in zip(block.destinations[first:last], truth, strict=True):
            recording.add_law(int(destination), NoisyList(scale=here.scale, truth=tuple(own.tolist())))
        return made

    def balanced(cells: Any, scale: Fraction, *purpose: Any) -> Any:
        made = listed_balanced(cells, scale, *purpose)
        here.scale, here.noise, here.balanced = scale, made, True  # after the draws that it is made of
        return made.copy()

    def mixed_of(mechanism: Any, block: Any, domains: Any, *given: Any, **said: Any) -> Any:
        here.scale, here.noise, here.balanced = Fraction(0), 0, False
        made = mixed_counts(mechanism, block, domains, *given, **said)
        truth = np.split(made - here.noise, np.cumsum(domains)[:-1])
        for destination, own in zip(block.destinations, truth, strict=True):
            law = NoisyList(scale=here.scale, truth=tuple(own.tolist()), balanced=here.balanced)
            recording.add_law(int(destination), law)
        return made

    def answers_of(mechanism: Any, block: Any, *given: Any) -> Any:
        here.destinations = block.destinations
        return mixed_answers(mechanism, block, *given)

    def answers(starts: Any, cells: Any, jobs: Any, domains: Any, weight: Any, shift: Any, *rest: Any) -> Any:
        prefix = np.concatenate(([0], np.cumsum(jobs)))
        for number, destination in enumerate(here.destinations):
            recording.add_law(
                int(destination),
                Answers(
                    cells=int(domains[number]),
                    prior=Fraction(int(weight), 2 ** int(shift)),
                    records=_records(starts, cells, prefix, number),
                ),
            )
        return answer_loop(starts, cells, jobs, domains, weight, shift, *rest)

    patch.setattr(mixed, "_noisy", mixed_of)
    patch.setattr(mixed, "_answers", answers_of)
    patch.setattr(urn_compiled, "answers", answers)
    patch.setattr(ListedCells, "balanced", balanced)
    patch.setattr(cell_urn, "draw", in_cells)
    patch.setattr(accepting, "draw", accepted)
    patch.setattr(noisy, "_noisy", noisy_of)
    patch.setattr(urn_compiled, "urns", urns)
    patch.setattr(urn_compiled, "shrunk_urns", shrunk_urns)
    patch.setattr(ListedCells, "discrete_laplace", listed)


def _records(starts: Any, cells: Any, prefix: Any, number: int) -> dict[int, int]:
    """Records by cell as the loop finds them."""
    found: dict[int, int] = {}
    for pair in range(int(starts[number]), int(starts[number + 1])):
        jobs = int(prefix[pair + 1] - prefix[pair])
        found[int(cells[pair])] = found.get(int(cells[pair]), 0) + jobs
    return found


def _kept(inside: bool, table: Any, bounds: Any) -> Fraction:
    """The probability that one empty place of a band is retained, from the table for a single place."""
    if not inside:
        return Fraction(0)
    low, high, least = (int(value) for value in bounds[0])
    if low == high:
        return Fraction(least)
    return 1 - Fraction(int(table[low]), 2**64)
