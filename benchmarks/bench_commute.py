"""What synthetic commutes cost: the urns against the naive algorithm, and a generated country from file to file.

python benchmarks/bench_commute.py kernel            # 233,726 places: naive against lazy shrinking, workers per second
python benchmarks/bench_commute.py country state     # a generated country (town to nation, or a tenth), file to file
python benchmarks/bench_commute.py country nation FOLDER   # its files are kept in FOLDER and made only once
python benchmarks/bench_commute.py country state FOLDER 8.6   # at another epsilon than 2
"""

from __future__ import annotations

import os
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
    from understudy.privacy.mechanisms.commute_prior import PriorRule, SizedPrior
    from understudy.privacy.mechanisms.flow_draws import Block, CellUrn, ShrunkUrn
    from understudy.privacy.mechanisms.place_bands import PlaceBands
    from understudy.privacy.promise.event import ApproxLoss
    from understudy.privacy.randomness.streams import SecureStream

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

    def shrunk(miles: tuple[float, ...], keeps: tuple[float, ...]) -> ShrunkUrn:
        return ShrunkUrn(
            priors=SizedPrior(entries={1: (PLACES, prior.numerator, 14)}), claim=loss,
            bands=PlaceBands(points=points, edges=np.array(miles) ** 2),
            keeps=np.array([*(int(keep * 2**32) for keep in keeps), 0], dtype=np.uint64), elsewhere=False,
        )  # fmt: skip

    urn = shrunk((np.inf,), (KEEP,))
    banded = shrunk((5.0, 20.0, 60.0, 300.0), (1.0, 0.5, 0.1, KEEP))
    rule = PriorRule(loss=loss)
    plain = CellUrn(priors=rule.table(np.array([WORKERS])), claim=loss)
    cells = int(plain.priors.of(np.array([WORKERS]))[0][0])
    for mechanism, one in ((urn, block(2)), (banded, block(2)), (plain, block(2))):
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
    start = time.process_time()
    urn.draw(many, np.full(20_000, PLACES), stream, "run")
    quick = (time.process_time() - start) / 20_000
    print(
        f"per destination: {printed * 1e3:.1f} ms as printed, {slow * 1e3:.2f} ms with arrays, {quick * 1e6:.2f} us "
        f"lazily: {printed / quick:,.0f} and {slow / quick:,.0f} times less"
    )
    print(f"lazy shrinking: {WORKERS / quick / 1e6:.2f}M workers per CPU second (f = {KEEP}, {PLACES:,} places)")
    start = time.process_time()
    banded.draw(many, np.full(20_000, PLACES), stream, "bands")
    slower = (time.process_time() - start) / 20_000
    print(f"four bands of distance: {slower * 1e6:.1f} us per destination, {WORKERS / slower / 1e6:.2f}M workers per s")
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


def country_files(size: str, folder: Path) -> None:
    """The places and counted pairs of a generated country as Parquet files, made once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from understudy.commutes.source.places_file import places_table
    from understudy.demo.commuters import SIZES, make_world

    if (folder / "od.parquet").exists():
        return
    start = time.perf_counter()
    if size == "tenth":
        places, jobs = SIZES["nation"]
        world = make_world("nation", places=places // 10, jobs=jobs // 10, seed=1)
    else:
        world = make_world(size, seed=1)
    pq.write_table(places_table(world.places), folder / "places.parquet")
    schema = pa.schema([("origin", pa.int64()), ("destination", pa.int64()), ("jobs", pa.int32())])
    numbers = world.places.ids.astype(np.int64)
    unfinished = folder / "od.unfinished"
    with pq.ParquetWriter(str(unfinished), schema) as writer:
        for origins, destinations, jobs in world.codes():
            columns = [pa.array(numbers[origins]), pa.array(numbers[destinations]), pa.array(jobs)]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
    unfinished.rename(folder / "od.parquet")
    print(f"generated {world} in {time.perf_counter() - start:.0f} s", flush=True)


class Stopwatch:
    """Wall and CPU seconds of the parts of a run, with the load of the machine at the end of each."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()
        self.begin = self.wall, self.cpu

    def part(self, name: str) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        load = os.getloadavg()[0]
        print(f"  {name}: {wall - self.wall:.1f} s ({cpu - self.cpu:.1f} CPU s; load {load:.1f})", flush=True)
        self.wall, self.cpu = wall, cpu


def country(size: str, kept: str | None = None, epsilon: str = "2") -> None:
    import understudy as us

    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(kept or name)
        folder.mkdir(parents=True, exist_ok=True)
        country_files(size, folder)
        done, peak = threading.Event(), [0]
        threading.Thread(target=peak_of, args=(done, peak), daemon=True).start()
        watch = Stopwatch()
        source = us.open_commutes(folder / "od.parquet", places=folder / "places.parquet")
        watch.part("opening, reading places")
        total, count = source.total(), len(source.places)
        watch.part("reading commutes")
        drawn = [0]

        def progress(done: int, _: int | None) -> None:
            if not drawn[0]:
                watch.part("calibrating, measuring distances, first block")
            drawn[0] = done
            if done == total:
                watch.part("drawing, placing, Parquet")

        out = Path(name) / "release"
        us.synthesize(source, method="commute", budget=us.PureDP(epsilon=epsilon), out=out, progress=progress)
        watch.part("finishing, hashes, release")
        wall, cpu = time.perf_counter() - watch.begin[0], time.process_time() - watch.begin[1]
        done.set()
        size_out = (out / "synthetic_1.parquet").stat().st_size
        print(
            f"{total:,} workers, {count:,} places, epsilon {epsilon}, file to file: {wall:.0f} s ({cpu:.0f} CPU s), "
            f"peak {peak[0] / 1e9:.2f} GB, {total / cpu / 1e6:.2f}M workers per CPU second, {size_out / 1e6:.0f} MB out"
        )


if __name__ == "__main__":
    kernel() if sys.argv[1] == "kernel" else country(*sys.argv[2:])
