"""A table of the size of Raab's P7x: 1,035,201 people, seven attributes, 3,420,900 cells. Processor seconds and memory.

The extract is not public here, so the people are generated: independent attributes whose shares fall as 1, 1/2, 1/3.
Each release is made in a process of its own. Run it with ``python benchmarks/measure_census_size.py``.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
import warnings
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # papers/ is in the repository and not installed

import understudy as us
from papers.reproduced.raab import CENSUS, CENSUS_RECORDS, census_sizes
from understudy.core.table import CodedSource, CodedTable
from understudy.privacy.randomness.streams import SeededStream

WAYS: dict[str, dict[str, Any]] = {
    "making the people alone": {},
    "histogram": {"method": "histogram"},
    "ipf": {"method": "ipf"},
    "ipf, published, 20 sweeps": {"method": "ipf", "postprocess": "published", "sweeps": 20},
    "auto": {"method": "auto"},
}


def people() -> CodedTable:
    rng = np.random.default_rng(2022)
    sizes = census_sizes("P7x")
    schema = us.Schema(
        attributes=tuple(
            us.Attribute(name=name, levels=tuple(range(size)))
            for name, size in zip(list(CENSUS)[: len(sizes)], sizes, strict=True)
        )
    )
    columns = {}
    for name, size in zip(schema.names, sizes, strict=True):
        share = 1 / np.arange(1, size + 1)
        columns[name] = rng.choice(size, size=CENSUS_RECORDS["P"], p=share / share.sum()).astype(np.int64)
    return CodedTable(schema=schema, columns=columns)


def one(name: str) -> None:
    """Make one release, and print what it cost."""
    warnings.simplefilter("ignore")
    table = people()
    assert prod(table.schema.shape()) == 3_420_900
    begun = time.process_time()
    if WAYS[name]:
        us.synthesize(CodedSource(table), budget=us.PureDP(epsilon=1), stream=SeededStream(1), **WAYS[name])
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": time.process_time() - begun, "memory": memory}))


def main() -> None:
    if len(sys.argv) > 1:
        one(sys.argv[1])
        return
    shown = Table("method, epsilon 1", "CPU s", "largest memory, MB")
    for name in WAYS:
        done = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        shown.add_row(name, f"{found['seconds']:.0f}", f"{found['memory']:,.0f}")
    Console(width=80).print(shown)


if __name__ == "__main__":
    main()
