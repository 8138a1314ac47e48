"""A driver on a cluster, as a process of its own: reads commands as lines of JSON, answers each with a line of JSON.

Its memory can be looked at from outside while it waits for the next command. It never names the marker that is in the
data, and holds the key of its draws as a stream holds it.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import understudy as us
from understudy.privacy.gate.flow_blocks import LocalFlows
from understudy.privacy.gate.flow_gate import FlowTable
from understudy.privacy.mechanisms.sparse_geometric import SparseGeometric
from understudy.privacy.randomness.streams import SecureStream, SeededStream

warnings.simplefilter("ignore")
SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="place", levels=tuple(f"{number:03d}" for number in range(40))),
        us.Attribute(name="age", edges=(0, 15, 40, 90), integer=True),
    ),
    ignore=("person",),
)
UNIT = us.Unit(kind="replace", rows_per_unit=2, unit_id="person", fixed=("place",))
PARTS = 12


def fixed_stream() -> SecureStream:
    """Counts as secure, so that a ledger takes it, and repeatable, so that two runs can be compared."""
    stream = SecureStream()
    stream._words._key = bytes.fromhex(os.environ["TEST_KEY"])
    return stream


def digest(table: pa.Table) -> list[list[Any]]:
    return [column.to_pylist() for column in table.columns]


def counts(data: Any, **where: Any) -> dict[str, Any]:
    source = us.open_source(data, SCHEMA, **where).bounded(UNIT, SeededStream(3))
    found = source.count([("sex", "place"), ("age",), ()])
    return {"counts": [one.values.tolist() for one in found], "total": source.total()}


def release(source: Any, out: str, ledger: str) -> dict[str, Any]:
    made = us.synthesize(
        source,
        method="dirichlet",
        budget=us.PureDP(epsilon=1),
        unit=us.Unit(kind="replace", fixed=("place",)),
        ledger=ledger,
        account="people",
        out=out,
        stream=fixed_stream(),
    )
    return {"frame": digest(made.frame())}


def commutes(path: str, places: str, **where: Any) -> dict[str, Any]:
    """Commutes whose noise is drawn where the pairs are: on the cells of destinations, and sparse over all pairs.

    Areas as cells need no measurement, whose noise would be of the operating system and no two runs alike.
    """
    source = us.open_commutes(path, places=places, **where)
    count = len(source.places)
    made = us.synthesize(
        source, method="commute", budget=us.PureDP(epsilon=8), unit=us.Unit(fixed=("destination",)),
        mechanism="geometric", coarsen="area:tract", stream=fixed_stream(),
    )  # fmt: skip
    table = FlowTable(label="", cells=count**2, classify=lambda home, work: work.astype(np.int64) * count + home)
    noise = SparseGeometric(scale=1, threshold=5, domain=count**2)
    worker = source if where else LocalFlows(source.flows())
    cells, noisy = worker.draw_sparse(table, noise, fixed_stream(), ("sparse", "test"))
    return {"flows": digest(made.flows()), "cells": cells.tolist(), "noisy": noisy.tolist()}


def stumble(seen: str) -> None:
    """From now on, every task with a key fails once after it has drawn, and leaves a note of every attempt."""
    from pyspark import TaskContext

    from understudy.commutes.source import spark as spark_commutes
    from understudy.engines.systems.spark.source import closure

    def stumbling(task: Any, *, with_key: bool = False) -> Any:
        run = closure(task, with_key=with_key)

        def attempt(batches: Any) -> Any:
            context = TaskContext.get()
            Path(seen, f"{context.stageId()}-{context.partitionId()}-{context.attemptNumber()}").touch()
            yield from run(batches)
            if context.attemptNumber() == 0:
                raise RuntimeError

        return attempt if with_key else run

    spark_commutes.closure = stumbling


def slow_rows(path: str, seen: str) -> Any:
    """The rows of a file, in parts that each take a while and leave a note when they begin."""
    from understudy.engines.systems.spark.session import session_for

    def part(batches: Any) -> Any:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                Path(seen, f"{number}-{os.getppid()}-{time.time_ns()}").touch()
                time.sleep(0.5)
                yield pq.read_table(path).slice(number * 50, 50).to_batches()[0]

    session = session_for(os.environ["TEST_MASTER"])
    columns = "sex string, place string, age long, person string"
    return session.range(0, PARTS, 1, PARTS).mapInArrow(part, columns)


def leak(path: str) -> dict[str, Any]:
    """What must never happen: the rows come to the driver. Shows that a look at the memory would tell."""
    from understudy.engines.systems.spark.session import session_for

    kept = session_for(os.environ["TEST_MASTER"]).read.parquet(path).collect()
    globals()["LEAKED"] = kept
    return {"rows": len(kept)}


def answer(command: dict[str, Any]) -> dict[str, Any]:
    where = {"engine": "spark", "master": os.environ["TEST_MASTER"]}
    kind = command.pop("do")
    if kind == "commutes":
        stumble(command["seen"])
        return commutes(command["path"], command["places"], **where)
    if kind == "counts":
        return counts(command["path"], **where)
    if kind == "release":
        return release(us.open_source(command["path"], SCHEMA, **where), command["out"], command["ledger"])
    if kind == "slow release":
        source = us.open_source(slow_rows(command["path"], command["seen"]), SCHEMA)
        return release(source, command["out"], command["ledger"])
    return leak(command["path"])


def main() -> None:
    for line in sys.stdin:
        try:
            told = answer(json.loads(line))
        except Exception as problem:
            told = {"error": f"{type(problem).__name__}: {problem}"}
        print(json.dumps(told, default=np.ndarray.tolist), flush=True)


if __name__ == "__main__":
    main()
