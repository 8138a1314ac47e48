"""Sweep epsilon, methods and copies on one table: utility, risk and interval width of each setting, and how much they
vary between releases.

On confidential data this is an internal exploration. Releases are rehearsed, measured and deleted. Nothing is charged,
because nothing is published: no synthetic row and, as long as the findings stay internal, no score. But no account
covers a choice that is made by these scores, and the result says so. On a public look-alike there is nothing to
protect. See docs/decisions/0012-exploration-is-not-charged.md.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from fractions import Fraction
from pathlib import Path
from typing import Any

from understudy.core.arrays import Progress
from understudy.core.counts import Source
from understudy.core.exact_numbers import Number, read_exact
from understudy.core.folders import explained_disk_errors, release_above
from understudy.core.schema import Schema
from understudy.core.table import CodedTable
from understudy.errors import DisclosureError, InputError
from understudy.explore.population import coded
from understudy.explore.rehearsal import check_level, check_whole, listed_names, unit_of_rehearsal
from understudy.explore.sweep import Measurer, Point, Sweep, check_questions
from understudy.explore.tradeoff_result import INTERNAL_NOTE, PUBLIC_NOTE, Tradeoff
from understudy.privacy.promise.definition import Unit
from understudy.synth.shared.method import synthesizers

EPSILONS: tuple[Number, ...] = ("0.1", "0.5", "1", "2", "5")
FEW_POINTS = 8  # that do not pay for starting further processes
MOST_POINTS = 100_000


def tradeoff(
    confidential: Any = None,
    *,
    on: Any = None,
    schema: Schema | None = None,
    epsilons: Sequence[Number] = EPSILONS,
    methods: Sequence[str] = ("auto",),
    copies: Sequence[int] = (1,),
    repeats: int = 5,
    delta: Number | None = None,
    unit: Unit | str = "replace",
    rows: int | None = None,
    questions: Sequence[str] = (),
    keys: Sequence[str] = (),
    targets: Sequence[str] = (),
    ways: Sequence[int] = (1, 2, 3),
    level: float = 0.95,
    reference: bool = True,
    out: str | Path | None = None,
    workers: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Tradeoff:
    """Sweep epsilon, methods and copies on one table: utility, risk and interval width, with their spread.

    Releases are rehearsed, measured and dropped. Nothing is charged, because neither a synthetic row nor a score
    leaves. Choosing epsilon by a confidential score is not covered by any ledger, and the result says so.

    Parameters
    ----------
    confidential
        The confidential data: a source, or with ``schema`` whatever ``open_source`` opens. Everything found is then
        internal.
    on
        A public look-alike instead. Everything found is then public.
    schema
        The public schema, if the data are not opened yet.
    epsilons
        The budgets to sweep.
    methods
        The methods to sweep.
    copies
        The numbers of copies to sweep.
    repeats
        Rehearsed releases for each combination.
    delta
        The delta that goes with each epsilon; without it the budgets are pure.
    unit
        Who is protected, as in a release, except ``unit_id``: no row is left out.
    rows
        Rows of each synthetic table; by default as many as records.
    questions
        Questions whose intervals are compared, as ``infer`` takes them.
    keys
        Attributes that an intruder knows.
    targets
        Attributes that an intruder wants to know.
    ways
        Of how many attributes the compared tables are.
    level
        The level of the intervals.
    reference
        Whether a release without a guarantee is measured too, to compare with.
    out
        A folder outside any release that keeps what is done; the same call continues where it was interrupted.
    workers
        How many processes share the work; all cores by default.
    seed
        Makes rehearsals repeatable.
    progress
        Called while it works, with what is done and what there is to do.

    Returns
    -------
    Tradeoff
        Every rehearsal, means with their spread, and a figure.

    Raises
    ------
    InputError
        If an argument is not what it should be.

    Examples
    --------
    >>> import understudy as us
    >>> from understudy.demo.people import make_people, small_schema
    >>> look_alike = us.open_source(make_people(300), small_schema())
    >>> found = us.tradeoff(on=look_alike, epsilons=[0.5, 2], methods=["independent"], repeats=1, ways=[1],
    ...                     reference=False, workers=1)
    >>> found.table.num_rows
    2
    """
    if (confidential is None) == (on is None):
        raise InputError("give either the confidential data or a public look-alike (on), exactly one of the two.")
    public = on is not None
    data = on if public else confidential
    if schema is None:
        if not isinstance(data, Source):
            raise InputError("give the schema of the data; read one with understudy.read_schema.")
        schema = data.schema
    table = coded(data, schema)
    if table.rows < 2:
        raise InputError("the table has fewer than two rows; there is nothing to compare.")
    methods, keys, targets, questions = (listed_names(one) for one in (methods, keys, targets, questions))
    if not methods:
        raise InputError("say which methods to sweep (methods).")
    for method in methods:
        synthesizers[method]
    who = unit_of_rehearsal(unit, schema)
    schema.margin(keys), schema.margin(targets)
    both = sorted(set(keys) & set(targets))
    if both:
        raise InputError(f"'{both[0]}' is both a key and a target; an intruder who knows it need not learn it.")
    numbers = [copies] if isinstance(copies, int) else list(copies)
    if not numbers:
        raise InputError("say which numbers of copies to sweep (copies), for example 1, 5.")
    if rows is not None:
        check_whole(rows, "rows", 1, 2**63)
    if workers is not None:
        check_whole(workers, "workers", 1, 1024)
    sweep = Sweep(
        schema=schema,
        methods=tuple(dict.fromkeys(methods)),
        epsilons=_epsilons(epsilons),
        copies=tuple(sorted({check_whole(number, "copies", 1, 1000) for number in numbers})),
        repeats=check_whole(repeats, "repeats", 1, 10_000),
        delta=None if delta is None else _text(delta, "delta"),
        unit=who,
        rows=rows,
        questions=check_questions(schema, questions),
        keys=tuple(keys),
        targets=tuple(targets),
        ways=tuple(check_whole(way, "ways", 1, 10) for way in ([ways] if isinstance(ways, int) else ways)),
        level=check_level(level),
        reference=reference,
        seed=check_whole(seed, "seed", 0, 2**63),
    )
    points = sweep.points()
    if not points or len(points) > MOST_POINTS:
        raise InputError(f"the sweep has {len(points):,} releases; it needs between 1 and {MOST_POINTS:,}.")
    note = PUBLIC_NOTE if public else INTERNAL_NOTE
    store = None
    if out is not None:
        request = {"version": 2, "public": public, **sweep.to_json(), "data": _digest(table)}
        store = SweepStore(Path(out), request, note=f"{note}\n")
    lines = {} if store is None else store.measured()
    left = [point for point in points if point not in lines]
    for line in _measured(sweep, table, left, workers):
        lines[Point(**{key: line[key] for key in ("method", "epsilon", "copies", "repeat")})] = line
        if store is not None:
            store.add(line)
        if progress is not None:
            progress(len(points) - len(left) + sum(point in lines for point in left), len(points))
    result = Tradeoff(sweep=sweep, records=table.rows, public=public, lines=tuple(lines[point] for point in points))
    if store is not None:
        result.write_into(store.folder)
    return result


def _epsilons(epsilons: Sequence[Number]) -> tuple[str, ...]:
    listed = [epsilons] if isinstance(epsilons, str | int | float | Fraction) else list(epsilons)
    exact = sorted({read_exact(epsilon, "epsilon") for epsilon in listed})
    if not exact:
        raise InputError("say which epsilons to sweep, for example 0.5, 1, 2.")
    for epsilon in exact:
        if epsilon <= 0:
            raise InputError(f"epsilon ({float(epsilon):g}) must be positive.")
    return tuple(str(epsilon) for epsilon in exact)


def _text(value: Number, name: str) -> str:
    exact = read_exact(value, name)
    if not 0 < exact < 1:
        raise InputError(f"{name} ({value}) must be above 0 and below 1.")
    return str(exact)


def _digest(table: CodedTable) -> str:
    """Whether a sweep goes on with the same rows; kept in the internal folder only."""
    digest = hashlib.blake2b(digest_size=16)
    for name, column in table.columns.items():
        digest.update(f"{name} {len(column)} {column.dtype}\n".encode())
        digest.update(memoryview(column.tobytes()))
    return digest.hexdigest()


def _measured(
    sweep: Sweep, table: CodedTable, points: Sequence[Point], workers: int | None
) -> Iterator[dict[str, Any]]:
    """The lines of the points, in any order, over as many processes as are worth it.

    New processes are spawned, never forked: the parent may have threads of its own.
    """
    if workers is None:
        workers = len(os.sched_getaffinity(0)) if len(points) > FEW_POINTS else 1
    if not points:
        return
    if workers == 1:
        measurer = Measurer(sweep, table)
        for point in points:
            yield measurer.measure(point)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        min(workers, len(points)), mp_context=context, initializer=_start_worker, initargs=(sweep, table)
    ) as pool:
        waiting = [pool.submit(_measure_in_worker, point) for point in points]
        try:
            for done in as_completed(waiting):
                yield done.result()
        except BrokenProcessPool:
            raise InputError(
                "a further process could not be started, or was ended from outside. A script that starts processes "
                "needs its calls under: if __name__ == '__main__'. Or give workers=1."
            ) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


_measurers: list[Measurer] = []  # of a worker process: made once, used for all its points


def _start_worker(sweep: Sweep, table: CodedTable) -> None:
    _measurers[:] = [Measurer(sweep, table)]


def _measure_in_worker(point: Point) -> dict[str, Any]:
    return _measurers[0].measure(point)


# Where a sweep keeps what it has measured, so that an interrupted one goes on where it stopped.
#
# The folder is internal: it is for its owner alone, says so in its README, and can never lie in a release.

REQUEST, MEASURED = "sweep.json", "measured.jsonl"
KEY = ("method", "epsilon", "copies", "repeat")


class SweepStore:
    """One folder: what was asked, and one line for each point that is done."""

    def __init__(self, folder: Path, request: Mapping[str, Any], *, note: str) -> None:
        self.folder = Path(os.path.abspath(folder))
        inside = release_above(self.folder)
        if inside is not None:
            raise DisclosureError(
                f"{folder} lies in the release folder {inside}; an exploration is internal. Choose a folder outside."
            )
        if not self.folder.parent.is_dir():
            raise InputError(f"{folder} cannot be written: {self.folder.parent} does not exist; create it first.")
        with explained_disk_errors(self.folder):
            if self.folder.exists():
                self._check_same(request)
            else:
                self.folder.mkdir(mode=0o700)
                (self.folder / "README.txt").write_text(note, encoding="utf-8")
                self._write(REQUEST, json.dumps(request, indent=2))

    def _check_same(self, request: Mapping[str, Any]) -> None:
        try:
            known = json.loads((self.folder / REQUEST).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise InputError(f"{self.folder} exists and is not the folder of a sweep; choose another folder.") from None
        if known != json.loads(json.dumps(request)):
            odd = [key for key in request if not isinstance(known, dict) or known.get(key) != request[key]]
            raise InputError(
                f"{self.folder} holds another sweep (it differs in {', '.join(odd) or 'its version'}); choose another "
                "folder, or ask for the same again to go on with it."
            )

    def _write(self, name: str, text: str) -> None:
        with open(self.folder / name, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    def measured(self) -> dict[Point, dict[str, Any]]:
        """What is done. A line that a crash cut short is measured again."""
        path = self.folder / MEASURED
        if not path.is_file():
            return {}
        found: dict[Point, dict[str, Any]] = {}
        for text in path.read_text(encoding="utf-8").splitlines():
            try:
                line = json.loads(text)
                found[Point(**{key: line[key] for key in KEY})] = line
            except (ValueError, KeyError, TypeError):
                continue
        return found

    def add(self, line: Mapping[str, Any]) -> None:
        with explained_disk_errors(self.folder):
            path = self.folder / MEASURED
            torn = path.is_file() and not path.read_bytes().endswith(b"\n")
            with open(path, "a", encoding="utf-8") as file:
                file.write(("\n" if torn else "") + json.dumps(line, allow_nan=False) + "\n")
                file.flush()
                os.fsync(file.fileno())
