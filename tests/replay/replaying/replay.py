"""One case: run it, replay it on its neighbours, and say everything that the charge does not cover."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import understudy as us
from replaying.cases import Case
from replaying.recording import Recording
from replaying.verdict import Judge, Tally
from replaying.watching import watched
from understudy.errors import UntrackedWarning
from understudy.privacy.promise.plan import Plan

SEED = 20_080
Opener = Callable[[Case, Any], Any]


def open_embedded(case: Case, table: Any) -> Any:
    """The table as the embedded engine reads it."""
    if case.of_commutes:
        return us.open_commutes(table.arrow(), places=case.places)
    if case.of_homes:
        return us.open_households(table.arrow(), table.schema)
    return us.open_source(table.arrow(), table.schema)


def record(
    case: Case, table: Any, earlier: Recording | None = None, opener: Opener = open_embedded, plan: Plan | None = None
) -> Recording:
    """One run, from the charge to the files of the release; in a replay with the answers of the earlier run.

    A plan is made from the schema alone, so all runs of a case may be given one ``plan``.
    """
    with (
        watched(SEED, earlier) as watch,
        tempfile.TemporaryDirectory() as folder,
        warnings.catch_warnings(action="ignore", category=UntrackedWarning),
    ):
        release = us.synthesize(opener(case, table), plan=plan or case.plan(), stream=watch.stream, i_know=True)
        release.write(Path(folder) / "release")
        watch.recording.events = tuple(release.provenance.events)
        watch.recording.files = _contents(Path(folder) / "release")
    return watch.recording


def _contents(folder: Path) -> dict[str, bytes]:
    """The files of a release. The time at which a manifest was written is not one of its statements."""
    files = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    manifest = json.loads(files["manifest.json"])
    for key in ("created", "files"):
        manifest.pop(key)
    files["manifest.json"] = json.dumps(manifest, sort_keys=True).encode()
    return files


def replay(
    case: Case, *, opener: Opener = open_embedded, with_laws: bool = True, at_most: int | None = None,
    tally: Tally | None = None,
) -> list[str]:  # fmt: skip
    """Everything found, each with the neighbour that shows it. A sound method gives an empty list."""
    judge = Judge(unit=case.unit, budget=case.budget, with_laws=with_laws, tally=tally or Tally())
    try:
        plan = case.plan()
        first = record(case, case.table, opener=opener, plan=plan)
    except Exception as problem:
        return [f"[{case.id}] the run ended with {type(problem).__name__}: {problem}"]
    found = [f"[{case.id}] {problem}" for problem in judge.alone(first)]
    for name, table in list(case.neighbours())[:at_most]:
        try:
            second = record(case, table, first, opener, plan)
            problems = list(judge.together(first, second))
        except Exception as problem:
            problems = [f"the neighbour's run ended with {type(problem).__name__}: {problem}"]
        found += [f"[{case.id}; {name}] {problem}" for problem in problems]
    return list(dict.fromkeys(found))
