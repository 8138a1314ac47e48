"""What synthetic commutes cost: the urns against the naive algorithm, and a generated country from file to file.

python benchmarks/bench_commute.py kernel            # 233,726 places: naive against lazy shrinking, workers per second
python benchmarks/bench_commute.py country state     # a generated country (town, city, state, nation), file to file
"""

from __future__ import annotations

import random
import resource
import sys
import tempfile
import threading
import time
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np

PLACES, KEEP, WORKERS = 233_726, 0.0378, 15


def naive(points: np.ndarray, table: np.ndarray, prior: float, rng: np.random.Generator) -> np.ndarray:
    """Algorithms 2 and 1 as written: a coin for each empty place, a Gamma for each retained one, then the rows."""
    retained = (table > 0) | (rng.random(len(points)) < KEEP)
    shares = rng.gamma(np.where(retained, prior + table, 1.0)) * retained
    return rng.multinomial(int(table.sum()), shares / shares.sum())


def as_written(points: np.ndarray, table: np.ndarray, prior: float, rng: random.Random) -> list[int]:
    """The same as a plain loop over the places, which is how the paper prints it."""
    shares = []
    for place in range(len(points)):
        retained = table[place] > 0 or rng.random() < KEEP
        shares.append(rng.gammavariate(prior + table[place], 1.0) if retained else 0.0)
    return rng.choices(range(len(points)), weights=shares, k=int(sum(table)))


def kernel() -> None:
    from understudy.privacy.commute_prior import PriorRule, SizedPrior
    from understudy.privacy.event import ApproxLoss
    from understudy.privacy.flow_draws import Block, CellUrn, ShrunkUrn
    from understudy.privacy.streams import SecureStream

    rng = np.random.default_rng(1)
    points = np.concatenate([rng.uniform(-100, 100, size=(PLACES, 2)), np.zeros((PLACES, 1))], axis=1)
    loss = ApproxLoss(epsilon=Fraction("4.6"), delta=Fraction(1, 10**5), source="benchmark")
    prior = Fraction(631, 2**14)  # 0.0385, Theorem 4.4's for 15 workers
    stream = SecureStream()

    def block(destinations: int) -> Block:
        cells = np.sort(rng.integers(0, PLACES, size=(destinations, WORKERS)), axis=1)
        return Block(
            destinations=np.arange(destinations), starts=np.arange(destinations + 1) * WORKERS,
            cells=cells.ravel(), jobs=np.ones(destinations * WORKERS, dtype=np.int32),
            rows=np.full(destinations, WORKERS),
        )  # fmt: skip

    urn = ShrunkUrn(
        priors=SizedPrior(entries={1: (PLACES, prior.numerator, 14)}), event=loss, points=points,
        edges=np.array([np.inf]), keeps=np.array([int(KEEP * 2**32), 0], dtype=np.uint64), elsewhere=False,
    )  # fmt: skip
    rule = PriorRule(loss=loss)
    plain = CellUrn(priors=rule.table(np.array([WORKERS])), event=loss)
    cells = int(plain.priors.of(np.array([WORKERS]))[0][0])
    for mechanism, one in ((urn, block(2)), (plain, block(2))):
        mechanism.draw(one, np.full(2, PLACES), stream, "compile")

    table = np.zeros(PLACES)
    table[rng.integers(0, PLACES, size=WORKERS)] += 1
    start = time.process_time()
    for _ in range(20):
        naive(points, table, float(prior), rng)
    slow = (time.process_time() - start) / 20
    start = time.process_time()
    as_written(points, table.astype(int).tolist(), float(prior), random.Random(1))
    printed = time.process_time() - start
    many = block(20_000)
    sizes = urn.sizes(many.destinations)  # public, and the same for every copy
    start = time.process_time()
    urn.draw_in(many, sizes, stream, "run")
    quick = (time.process_time() - start) / 20_000
    print(
        f"per destination: {printed * 1e3:.1f} ms as printed, {slow * 1e3:.2f} ms with arrays, {quick * 1e6:.2f} us "
        f"lazily: {printed / quick:,.0f} and {slow / quick:,.0f} times less"
    )
    print(f"lazy shrinking: {WORKERS / quick / 1e6:.2f}M workers per CPU second (f = {KEEP}, {PLACES:,} places)")
    many = block(400_000)
    many = Block(
        destinations=many.destinations, starts=many.starts, cells=many.cells % cells, jobs=many.jobs, rows=many.rows
    )
    start = time.process_time()
    plain.draw(many, np.full(400_000, cells), stream, "plain")
    spent = time.process_time() - start
    print(f"urn over {cells} cells (no shrinking): {400_000 * WORKERS / spent / 1e6:.2f}M workers per CPU second")


def peak_of(work: threading.Event, found: list[int]) -> None:
    """The largest resident memory while the work goes on, in bytes."""
    page = resource.getpagesize()
    while not work.is_set():
        found[0] = max(found[0], int(Path("/proc/self/statm").read_text().split()[1]) * page)
        time.sleep(0.05)


def country(size: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    import understudy as us
    from understudy.demo.gravity import make_world
    from understudy.engines.places_file import places_table

    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = time.perf_counter()
        world = make_world(size, seed=1)
        pq.write_table(places_table(world.places), folder / "places.parquet")
        schema = pa.schema([("origin", pa.int64()), ("destination", pa.int64()), ("jobs", pa.int32())])
        numbers = world.places.ids.astype(np.int64)
        with pq.ParquetWriter(str(folder / "od.parquet"), schema) as writer:
            for origins, destinations, jobs in world.codes():
                columns = [pa.array(numbers[origins]), pa.array(numbers[destinations]), pa.array(jobs)]
                writer.write_table(pa.Table.from_arrays(columns, schema=schema))
        print(f"generated {world} in {time.perf_counter() - start:.0f} s", flush=True)
        total, count = int(world.jobs.sum()), len(world.places)
        del world, numbers
        done, peak = threading.Event(), [0]
        watch = threading.Thread(target=peak_of, args=(done, peak))
        watch.start()
        wall, cpu = time.perf_counter(), time.process_time()
        source = us.open_commutes(folder / "od.parquet", places=folder / "places.parquet")
        source.flows()
        read = time.perf_counter() - wall
        us.synthesize(source, method="commute", budget=us.ApproxDP(epsilon=2, delta="1e-5"), out=folder / "release")
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        done.set()
        watch.join()
        print(
            f"{total:,} workers, {count:,} places, file to file: {wall:.0f} s ({cpu:.0f} CPU s, reading {read:.0f} s), "
            f"peak {peak[0] / 2**30:.2f} GB, {total / cpu / 1e6:.2f}M workers per CPU second"
        )


if __name__ == "__main__":
    kernel() if sys.argv[1] == "kernel" else country(sys.argv[2])
