"""The proving ground: fresh settings, whole releases, every kind of question, and how often the answers are right.

    python benchmarks/proving run --minutes 20 [--folder DIR] [--most-records 100000] [--only sum ratio]
                                    [--method mst] [--epsilon 0.5] [--population scores]
    python benchmarks/proving seeds SEED [SEED ...] [--folder DIR]
    python benchmarks/proving page [--folder DIR] [--out docs/proving.md] [--remark TEXT]
    python benchmarks/proving keep [--folder DIR]

``run`` draws a seed for each setting until so much processor time is spent, and adds one line for each to a file in the
folder (or ``UNDERSTUDY_PROVING``; by default ``proving-results``, which is not in the repository). Stopping it loses
one setting. ``seeds`` runs given ones, by default those of ``failing.json``, where ``keep`` puts the seeds that failed.
``--method``, ``--epsilon`` and ``--population`` steer a run to strata with few answers; the page shows these apart.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from results import failures, load, page
from settings import METHODS, SLOW, fresh_seed, run

HERE = Path(__file__).resolve().parent
FAILING = HERE / "failing.json"
MOST_KEPT = 30
STEERING = ("method", "epsilon", "population")


def main() -> int:
    parser = argparse.ArgumentParser(prog="proving", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["run", "seeds", "page", "keep"])
    parser.add_argument("seeds", nargs="*", type=int)
    parser.add_argument("--minutes", type=float, default=20.0, help="of processor time")
    parser.add_argument("--folder", type=Path, default=Path(os.environ.get("UNDERSTUDY_PROVING", "proving-results")))
    parser.add_argument("--most-records", type=int, default=100_000)
    parser.add_argument("--only", nargs="*", default=[], help="kinds of questions to ask, such as sum ratio")
    parser.add_argument("--method", choices=METHODS, help="of every setting, instead of drawing it")
    parser.add_argument("--epsilon", type=float, help="of every setting, instead of drawing it")
    parser.add_argument("--population", choices=["scores"], help="of every setting, instead of drawing it")
    parser.add_argument("--remark", default="", help="a sentence for the page: of which code the results are")
    parser.add_argument("--out", type=Path, default=HERE.parents[1] / "docs" / "proving.md")
    parser.add_argument("--strict", action="store_true", help="end with 1 if a setting fails (too slow is no failure)")
    given = parser.parse_args()
    if given.what in ("run", "seeds"):
        given.folder.mkdir(parents=True, exist_ok=True)
    steered = {name: getattr(given, name) for name in STEERING if getattr(given, name) is not None}
    if given.what == "run":
        failed = _run(given.folder, given.minutes, given.most_records, given.only, steered)
        return int(given.strict and bool(failed))
    elif given.what == "seeds":
        # A setting is its seed, the most records it may have and how it was steered: a kept seed is run as it was.
        kept = {one["seed"]: one for one in json.loads(FAILING.read_text())}
        for seed in given.seeds or kept:
            one = kept.get(seed, {"records": given.most_records, "steered": steered})
            _store(given.folder, run(seed, most=one["records"], steered=one.get("steered")))
    elif given.what == "page":
        given.out.write_text(page(load(given.folder), given.remark))
    else:
        _keep(load(given.folder))
    return 0


def _run(
    folder: Path, minutes: float, most: int, only: list[str], steered: dict[str, object]
) -> list[dict[str, object]]:
    """Fresh settings, stored one by one; what failed, but for what was only slow."""
    wrong: list[dict[str, object]] = []
    began = time.process_time()
    spent = done = 0.0
    while spent < 60 * minutes:
        seed = fresh_seed()
        print(f" seed {seed}", end="", file=sys.stderr, flush=True)  # known too if the process is ended in this setting
        found = run(seed, most=most, only=only, steered=steered)
        _store(folder, found)
        wrong += [one for one in failures([found]) if not any(word in str(one["failure"]) for word in SLOW)]
        done += 1
        spent = time.process_time() - began
        print(f"\r{done:.0f} settings, {spent / 60:.1f} of {minutes:g} minutes", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    for one in wrong:
        print(f"seed {one['seed']}: {one['failure']}", file=sys.stderr)
    return wrong


def _store(folder: Path, found: dict[str, object]) -> None:
    with (folder / "results.jsonl").open("a") as file:
        file.write(json.dumps(found) + "\n")


def _keep(results: list[dict]) -> None:
    """Failing seeds join the list; one that no longer fails stays, as a test."""
    known = {one["seed"]: one for one in json.loads(FAILING.read_text())} if FAILING.exists() else {}
    for one in failures(results):
        known.setdefault(one["seed"], one)
    kept = list(known.values())[-MOST_KEPT:]
    FAILING.write_text(json.dumps(kept, indent=1) + "\n")
    print(f"{len(kept)} seeds in {FAILING.name}")


if __name__ == "__main__":
    raise SystemExit(main())
