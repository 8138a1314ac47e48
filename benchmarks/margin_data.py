"""The public tables that margin methods are measured on, as codes, and the score they are measured by.

Looked for in ``../shared/data`` or where UNDERSTUDY_DATA says. S3, S5, S7, Adult and NLTCS come with their levels. The
SDNist excerpt is coded here by its data dictionary and by edges that are public: age in fives, income and poverty in
round numbers, industries in the groups of the Census code list. Nothing is learned from the rows.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # papers/ is in the repository and not installed

import understudy as us
from papers.reproduced.raab import MISSING_TEXT, schema_of
from understudy.core.table import CodedTable
from understudy.evaluation.inputs.counted_tables import count_together
from understudy.evaluation.shared.table_measures import s_pmse

DATA = Path(os.environ.get("UNDERSTUDY_DATA", "../shared/data"))
NOT_APPLICABLE = "N"
WIDE_ROWS, MOST_FOR_TRIPLES = 20_000, 30
INCOME = (-10_000, 0, 1, 5_000, 10_000, 15_000, 20_000, 30_000, 40_000, 50_000, 75_000, 100_000, 150_000, 2_000_000)
WEIGHT = (0, 1, 25, 50, 75, 100, 125, 150, 200, 300, 10_000)
# Major groups of the Census industry code list, in its order.
INDUSTRY = (0, 370, 570, 770, 1070, 4070, 4670, 6070, 6470, 6870, 7270, 7860, 7970, 8370, 8560, 8770, 9370, 9670, 9920,
            10_000)  # fmt: skip
EDGES: dict[str, tuple[float, ...]] = {
    "AGEP": tuple(range(0, 101, 5)),
    "NOC": (0, 1, 2, 3, 4, 20),
    "NPF": (2, 3, 4, 5, 6, 21),
    "DENSITY": (0, 1_500, 2_250, 2_500, 3_000, 60_000),
    "INDP": INDUSTRY,
    "PINCP": INCOME,
    "POVPIP": (0, 50, 100, 150, 200, 250, 300, 400, 500, 502),
    "PWGTP": WEIGHT,
    "WGTP": WEIGHT,
}
PUMAS = ("25-00503", "25-00703", "25-01000", "25-01300", "25-02800")  # of Massachusetts, in the data dictionary


def load(name: str) -> tuple[us.Schema, pa.Table, int]:
    """Schema, rows, and how many rows a synthetic table gets: a constant, as many as there are."""
    if name in ("S3", "S5", "S7"):
        schema = schema_of(name)
        coded = _coded(us.open_source(DATA / "sd2011" / f"{name}.csv", schema, missing_text=MISSING_TEXT))
    elif name == "MA":
        coded = _massachusetts()
    elif name.startswith("wide"):
        coded = _wide(int(name.removeprefix("wide")))
    else:
        sizes = json.loads((DATA / name.lower() / f"{name.lower()}-domain.json").read_text(encoding="utf-8"))
        rows = parquet.read_table(DATA / name.lower() / f"{name.lower()}.parquet").select(list(sizes))
        coded = {column: (rows[column].to_numpy(), size) for column, size in sizes.items()}
    plain = us.Schema(
        attributes=tuple(us.Attribute(name=column, levels=tuple(range(size))) for column, (_, size) in coded.items())
    )
    table = pa.table({column: pa.array(codes.astype(np.int64)) for column, (codes, _) in coded.items()})
    return plain, table, table.num_rows


def _coded(source: Any) -> dict[str, tuple[Any, int]]:
    """Codes in place of levels, missing included, so that peers see the same cells."""
    schema = source.schema
    (counts,) = source.count([schema.names])
    cells = np.unravel_index(np.repeat(np.arange(counts.values.size), counts.values.ravel()), counts.values.shape)
    return {name: (codes, schema[name].size) for name, codes in zip(schema.names, cells, strict=True)}


def _massachusetts() -> dict[str, tuple[Any, int]]:
    rows = parquet.read_table(DATA / "sdnist" / "ma2019.parquet")
    words = json.loads((DATA / "sdnist" / "data_dictionary.json").read_text(encoding="utf-8"))
    found = {}
    for name in rows.column_names:
        column = rows[name].to_numpy(zero_copy_only=False).astype(str)
        absent = column == NOT_APPLICABLE
        if name in EDGES:
            bins = len(EDGES[name]) - 1
            numbers = np.where(absent, str(EDGES[name][0]), column).astype(float)
            codes = np.where(absent, bins, np.searchsorted(EDGES[name], numbers, side="right") - 1)
            found[name] = (np.minimum(codes, bins), bins + 1)
        else:
            levels = PUMAS if name == "PUMA" else tuple(words[name]["values"])
            place = {level: code for code, level in enumerate(levels)}
            found[name] = (np.array([place[value] for value in column]), len(levels))
    return found


def _wide(attributes: int) -> dict[str, tuple[Any, int]]:
    """A generated table: attributes of 2 to 12 levels that all depend on one factor, 20,000 rows."""
    generator = np.random.default_rng(1)
    factor = generator.normal(size=WIDE_ROWS)
    sizes = generator.integers(2, 13, attributes)
    found = {}
    for number, size in enumerate(sizes):
        values = factor * generator.uniform(0.5, 1.5) + generator.normal(size=WIDE_ROWS)
        edges = np.sort(generator.normal(size=size - 1)) * 1.3
        found[f"x{number}"] = (np.searchsorted(edges, values), int(size))
    return found


def score(schema: us.Schema, original: pa.Table, synthetic: pa.Table) -> tuple[float, float]:
    """Mean S_pMSE over all two-way and all three-way tables (the latter for up to MOST_FOR_TRIPLES attributes)."""
    first, second = (
        CodedTable(schema=schema, columns={name: table[name].to_numpy().astype(np.int64) for name in schema.names})
        for table in (original, synthetic)
    )
    means = []
    for way in (2, 3):
        if way > len(schema.names) or (way > 2 and len(schema.names) > MOST_FOR_TRIPLES):
            means.append(float("nan"))
            continue
        margins = list(combinations(schema.names, way))
        means.append(float(np.mean([s_pmse(a, b) for _, a, (b,) in count_together(first, [second], margins)])))
    return means[0], means[1]
