"""Rank linkage and attribution with M = 1, 3 and 10 copies on two public tables, beside other protections.

Prints the tables of docs/theory/risk.md. The data are looked for in ``../shared/data`` or where UNDERSTUDY_DATA says.
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
from understudy.evaluation.attacks import rank_attribution
from understudy.evaluation.beside import PROTECTIONS
from understudy.evaluation.inputs.comparison import compare
from understudy.evaluation.risk import evaluate_risk

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


def show(title: str, source: Any, release: us.Release, targets: tuple[str, ...]) -> None:
    print(f"\n### {title}")
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
    print("Other protections at like utility:")
    found = us.attack(first(release, 1), source, targets=targets[:1], only=("matching",), beside=PROTECTIONS)
    for row in found.frames["beside"].to_pylist():
        if row["like_utility"] or row["note"]:
            print("  ", {name: round(value, 3) if isinstance(value, float) else value for name, value in row.items()})


def main(which: str) -> None:
    warnings.simplefilter("ignore")
    rank_attribution.MOST_PEOPLE = PEOPLE
    if which == "s7":
        source = s7()
        for method, budget in (("histogram", us.NonPrivate()), ("ipf", us.PureDP(epsilon=1))):
            release = us.synthesize(source, method=method, budget=budget, copies=10)
            show(f"S7, {method}, {budget}", source, release, ("income", "edu"))
    else:
        source = adult()
        release = us.synthesize(source, method="aim", budget=us.ApproxDP(epsilon=1, delta="1e-9"), copies=10)
        show("Adult, aim, epsilon 1", source, release, ("education-num", "hours-per-week"))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "s7")
