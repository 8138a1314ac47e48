"""Rank linkage and attribution with M = 1, 3 and 10 copies on two public tables, beside other protections.

Prints the tables of docs/theory/risk.md. The data are looked for in ``../shared/data`` or where UNDERSTUDY_DATA says.

    python benchmarks/measure_risk.py s7                # or adult
    python benchmarks/measure_risk.py s7 ipf copies     # of one method, one of the two tables: copies, beside
    python benchmarks/measure_risk.py copies 1000000    # section 4 of the paper: generated people, three copies
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

from pyarrow import parquet

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # papers/ is in the repository and not installed

import understudy as us
from papers.reproduced.raab import MISSING_TEXT, schema_of
from understudy.demo.people import make_people, small_schema
from understudy.evaluation.attacks import rank_attribution
from understudy.evaluation.inputs.comparison import compare
from understudy.evaluation.other_protections import PROTECTIONS
from understudy.evaluation.risk import evaluate_risk
from understudy.evaluation.shared.attack import Scene

DATA = Path(os.environ.get("UNDERSTUDY_DATA", "../shared/data"))
COPIES = (1, 3, 10)
PEOPLE = 5000  # attacked
NUMBERS = {"age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"}
SHOWN = ("hit_one_copy", "hit_any_copy", "rank_error_one_copy", "rank_error_all_copies", "rank_error_chance",
         "range_holds_truth", "range_width", "one_copy_width", "narrowed", "helped", "confused")  # fmt: skip


def s7() -> Any:
    schema = schema_of("S7")
    return us.open_source(DATA / "sd2011" / "S7.csv", schema, missing_text=MISSING_TEXT)


def adult() -> Any:
    sizes = json.loads((DATA / "adult" / "adult-domain.json").read_text())
    schema = us.Schema(
        attributes=tuple(
            us.Attribute(name=name, levels=tuple(range(size)), ordered=name in NUMBERS) for name, size in sizes.items()
        )
    )
    return us.open_source(parquet.read_table(DATA / "adult" / "adult.parquet").select(list(sizes)), schema)


def first(release: us.Release, copies: int) -> us.Release:
    from dataclasses import replace

    return replace(release, tables=release.tables[:copies])


def show_copies(source: Any, release: us.Release, targets: tuple[str, ...]) -> None:
    for copies in COPIES:
        only = ("rank_attribution",) if copies > 1 else ("rank_attribution", "rank_linkage", "uniqueness")
        found = evaluate_risk(compare(first(release, copies), source, targets=targets), only=only)
        for row in found.frames["rank_attribution"].to_pylist():
            people = row["people"]
            print(
                f"M={copies} {row['attribute']}:",
                " ".join(f"{name}={row[name]:.3f}" for name in SHOWN),
                f"correct={row['correct'] / people:.4f} false={row['false'] / people:.4f} people={people}",
                flush=True,
            )
        for row in found.frames["attacks"].to_pylist():
            if row["attack"] != "rank_attribution" and "copy 1" in row["subject"]:
                print(
                    f"   {row['attack']} {row['subject']}: success {row['success']:.3f} baseline {row['baseline']:.3f}"
                )


def show_beside(source: Any, release: us.Release, targets: tuple[str, ...]) -> None:
    print("Other protections at like utility:")
    found = us.attack(first(release, 1), source, targets=targets[:1], only=("matching",), beside=PROTECTIONS)
    for row in found.frames["beside"].to_pylist():
        if row["like_utility"] or row["note"]:
            print("  ", {name: round(value, 3) if isinstance(value, float) else value for name, value in row.items()})


def copies_say(records: int) -> None:
    """What three copies do to an intruder: comforted, narrowed or confused (``ipf`` at epsilon 1, generated people)."""
    import resource
    import time

    schema = small_schema()
    source = us.open_source(make_people(records).select(list(schema.names)), schema)
    release = us.synthesize(source, method="ipf", budget=us.PureDP(epsilon=1), copies=3)
    comparison = compare(release, source)
    scene = Scene(people=comparison.people, tables=comparison.tables)
    started = time.process_time()
    for target, guess in rank_attribution.attack_attributes(comparison, scene, comparison.attacked).items():
        told = guess.summary()
        names = [name for name in told if name.startswith("copies_")]
        print(
            f"{records:,} records, {target}: people={told['people']}",
            " ".join(f"{name}={told[name]:.3f}" for name in (*names, "range_holds_truth", "range_width")),
            f"correct={told['correct']} false={told['false']}",
            flush=True,
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"the attack took {time.process_time() - started:.0f} CPU seconds; peak memory of all {peak:.0f} MB")


RELEASES = {
    "s7": {"histogram": us.NonPrivate(), "ipf": us.PureDP(epsilon=1)},
    "adult": {"mst": us.ApproxDP(epsilon=1, delta="1e-9")},  # aim takes minutes there
}
TARGETS = {"s7": ("income", "edu"), "adult": ("education-num", "hours-per-week")}
PARTS = {"copies": show_copies, "beside": show_beside}


def main(which: str, only: str, part: str) -> None:
    rank_attribution.MOST_PEOPLE = PEOPLE
    source = s7() if which == "s7" else adult()
    for method, budget in RELEASES[which].items():
        if only in ("", method):
            release = us.synthesize(source, method=method, budget=budget, copies=10)
            print(f"\n### {which}, {method}, {budget}")
            for name, show in PARTS.items():
                if part in ("", name):
                    show(source, release, TARGETS[which])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    first_word, second, third, *_ = [*sys.argv[1:], "", "", ""]
    if first_word == "copies":
        copies_say(int(second))
    else:
        main(first_word or "s7", second, third)
