"""A default release of a file with many columns: processor seconds and memory, in a process of its own.

Eight classes of people, each with its own shares in every attribute of 2 to 11 levels, so that all pairs depend on each
other a little: ``python benchmarks/measure_many_columns.py 150 80000``.
"""

from __future__ import annotations

import resource
import sys
import time
import warnings

import numpy as np
import pyarrow as pa

import understudy as us

CLASSES = 8
SEED = 5


def main(columns: int, rows: int) -> None:
    """Make one release by ``auto`` at (1, 1e-9), unit ``add_remove``, and say what it took."""
    rng = np.random.default_rng(SEED)
    kind = rng.integers(0, CLASSES, rows)
    people, attributes = {}, []
    for number, size in enumerate(rng.integers(2, 12, columns)):
        shares = rng.dirichlet(np.ones(size), CLASSES)
        people[f"a{number}"] = (rng.random(rows)[:, None] > shares[kind].cumsum(axis=1)[:, :-1]).sum(axis=1)
        attributes.append(us.Attribute(name=f"a{number}", levels=tuple(range(int(size)))))
    source = us.open_source(pa.table(people), us.Schema(attributes=tuple(attributes)))
    began = time.process_time()
    release = us.synthesize(source, budget=us.ApproxDP(epsilon=1, delta="1e-9"), unit="add_remove")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{columns} columns, {rows:,} rows: {release.provenance.method}, {len(release.measurements):,} tables, "
        f"{time.process_time() - began:.0f} CPU s, {peak:.0f} MB"
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(int(sys.argv[1]), int(sys.argv[2]))
