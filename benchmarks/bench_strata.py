"""Strata: Raab's comparison of one model for all areas with one per area, on the SDNist excerpt of Massachusetts.

Seven attributes, the public use microdata area (PUMA) among them, as Raab's P7x; the same table with the areas as
strata, as her Ps7. Same total epsilon, neighbours add or remove a person, rows = 7,634 as a constant. Utility is the
mean S_pMSE of two-way tables: of the whole table, and inside the areas.

    python benchmarks/bench_strata.py [--seeds 3]
"""

from __future__ import annotations

import argparse
import platform
import time
from itertools import combinations

import numpy as np

import understudy as us
from margin_data import load
from understudy.core.table import CodedSource, CodedTable
from understudy.evaluation.inputs.counted_tables import count_together
from understudy.evaluation.shared.table_measures import s_pmse
from understudy.privacy.gate.gate import Gate
from understudy.privacy.randomness.streams import SeededStream
from understudy.synth.shared.method import configure

AREA, AGE, YEARS = "PUMA", "AGEP", 4  # ages in twenties: four of the five-year bins together
NAMES = (AREA, "SEX", AGE, "MSP", "HISP", "RAC1P", "EDU")
EPSILONS = ("0.1", "0.5", "1", "2", "10")
METHODS = {
    "published": {"postprocess": "published"},
    "joint fit": {"rows_by": "multinomial"},
}


def people() -> CodedTable:
    schema, rows, _ = load("MA")
    columns = {name: rows[name].to_numpy().astype(np.int64) for name in NAMES}
    columns[AGE] = columns[AGE] // YEARS
    sizes = {name: schema[name].size for name in NAMES} | {AGE: (schema[AGE].size - 1) // YEARS + 1}
    attributes = tuple(us.Attribute(name=name, levels=tuple(range(sizes[name]))) for name in NAMES)
    return CodedTable(schema=us.Schema(attributes=attributes), columns=columns)


def utility(first: CodedTable, second: CodedTable) -> float:
    pairs = list(combinations(first.schema.names, 2))
    return float(np.mean([s_pmse(a, b) for _, a, (b,) in count_together(first, [second], pairs)]))


def inside(first: CodedTable, second: CodedTable) -> float:
    """The mean over areas of the two-way utility of the other attributes; both sides scaled to the area's own size."""
    rest = us.Schema(attributes=tuple(one for one in first.schema.attributes if one.name != AREA))
    found = []
    for area in range(first.schema[AREA].size):
        parts = [
            CodedTable(schema=rest, columns={n: t.columns[n][t.columns[AREA] == area] for n in rest.names})
            for t in (first, second)
        ]
        found.append(utility(*parts))
    return float(np.mean(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    seeds = parser.parse_args().seeds
    table = people()
    print(f"Machine: {platform.machine()}, Python {platform.python_version()}; {seeds} seeds.\n")
    print("| epsilon | method | areas | all two-way tables | two-way tables inside areas | CPU s |")
    print("|---|---|---|---|---|---|")
    for epsilon in EPSILONS:
        for method, options in METHODS.items():
            for strata in ("", AREA):
                plan = us.plan(
                    table.schema, method="ipf", budget=us.PureDP(epsilon=epsilon), unit="add_remove",
                    rows=table.rows, strata=strata, **options,
                )  # fmt: skip
                scores, start = [], time.process_time()
                for seed in range(seeds):
                    stream = SeededStream(seed)
                    gate = Gate(source=CodedSource(table), schema=table.schema, plan=plan, stream=stream)
                    made = configure(plan.method, plan.options).run(plan, table.schema, gate, stream)
                    scores.append((utility(table, made.tables[0]), inside(table, made.tables[0])))
                cost = (time.process_time() - start) / seeds
                whole, within = np.mean(scores, axis=0)
                where = "strata" if strata else "an attribute"
                print(f"| {epsilon} | {method} | {where} | {whole:.2f} | {within:.2f} | {cost:.1f} |", flush=True)


if __name__ == "__main__":
    main()
