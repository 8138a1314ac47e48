"""The fitted model on disk: its clique tables in Parquet, its shape as JSON in the file's metadata. No pickle.

Public: it was fitted to noisy and public values only. Probabilities are stored as they are, so rows drawn from the file
have the law of the model that was fitted.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.core.schema import Schema
from understudy.errors import InputError
from understudy.models.fine_bins import FineBins
from understudy.models.fitted import Fitted, FittedPart
from understudy.models.junction_tree import JunctionTree
from understudy.models.model import Model
from understudy.models.sample import ROWS_BY

KEY, VERSION = b"understudy_model", 1
CLOSE = 1e-6  # clique tables add up to one


def write_model(fitted: Fitted, file: Path) -> None:
    """One row per cell with probability: part, clique, cell, probability."""
    schema = pa.schema(
        [("part", pa.int32()), ("clique", pa.int32()), ("cell", pa.int64()), ("probability", pa.float64())],
        metadata={KEY: json.dumps(_shape(fitted))},
    )
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for number, part in enumerate(fitted.parts):
            for place, belief in enumerate(part.model.beliefs):
                flat = belief.ravel()
                cells = np.flatnonzero(flat)
                writer.write_batch(
                    pa.RecordBatch.from_arrays(
                        [
                            pa.array(np.full(len(cells), number, np.int32)),
                            pa.array(np.full(len(cells), place, np.int32)),
                            pa.array(cells),
                            pa.array(flat[cells]),
                        ],
                        schema=schema,
                    )
                )


def _shape(fitted: Fitted) -> dict[str, Any]:
    return {
        "version": VERSION,
        "rows_by": fitted.rows_by,
        "strata": list(fitted.strata),
        "public_sizes": fitted.public_sizes,
        "fine": [{"name": one.name, "codes": list(one.codes), "counts": one.counts.tolist()} for one in fitted.fine],
        "parts": [
            {
                "codes": list(part.codes),
                "size": part.size,
                "total": part.model.total,
                "cliques": [list(clique) for clique in part.model.tree.cliques],
                "parents": list(part.model.tree.parents),
            }
            for part in fitted.parts
        ],
    }


def read_model(file: Path, schema: Schema) -> Fitted:
    """Read a model back; anything that is not one for this schema is refused."""
    table = pq.read_table(file)
    metadata = table.schema.metadata or {}
    if KEY not in metadata:
        raise InputError(f"{file} is not a fitted model.")
    shape = json.loads(metadata[KEY])
    if shape["version"] != VERSION:
        raise InputError(f"{file} has model version {shape['version']}; this program understands {VERSION}.")
    if shape["rows_by"] not in ROWS_BY:
        raise InputError(f"{file} draws rows in an unknown way.")
    fine = tuple(_fine_bins(file, one, schema) for one in shape.get("fine", ()))
    whole = Fitted(rows_by=shape["rows_by"], parts=(), public_sizes=bool(shape["public_sizes"]), fine=fine)
    schema = whole.modelled(schema)
    strata = schema.margin(shape["strata"])
    inner = [name for name in schema.names if name not in strata]
    sizes = {name: schema[name].size for name in inner}
    part_of, clique_of = table["part"].to_numpy(), table["clique"].to_numpy()
    cells, values = table["cell"].to_numpy(), table["probability"].to_numpy()
    parts = []
    for number, one in enumerate(shape["parts"]):
        tree = JunctionTree(
            sizes=sizes, cliques=tuple(schema.margin(clique) for clique in one["cliques"]),
            parents=tuple(int(parent) for parent in one["parents"]),
        )  # fmt: skip
        if {name for clique in tree.cliques for name in clique} != set(inner) or len(tree.parents) != len(tree.cliques):
            raise InputError(f"{file} is a model of other attributes than its schema has.")
        beliefs = []
        for place, clique in enumerate(tree.cliques):
            chosen = (part_of == number) & (clique_of == place)
            flat = np.zeros(int(np.prod(tree.shape(clique))))
            flat[cells[chosen]] = values[chosen]
            if not abs(float(flat.sum()) - 1) <= CLOSE or (flat < 0).any():
                raise InputError(f"{file} holds a table that is not a distribution.")
            beliefs.append(flat.reshape(tree.shape(clique)))
        model = Model(tree=tree, beliefs=tuple(beliefs), total=float(one["total"]))
        parts.append(FittedPart(codes=tuple(int(c) for c in one["codes"]), size=float(one["size"]), model=model))
    return replace(whole, parts=tuple(parts), strata=strata)


def _fine_bins(file: Path, told: dict[str, Any], schema: Schema) -> FineBins:
    """An attribute in merged bins: every merged bin next to the last, then every other code by itself."""
    attribute = schema[str(told["name"])]
    codes = np.array(told["codes"], dtype=np.int64)
    counts = np.array(told["counts"], dtype=np.int64)
    steps = np.diff(codes[: attribute.bins])
    apart = np.diff(codes[max(attribute.bins - 1, 0) :])
    if (
        codes.shape != (attribute.size,) or counts.shape != codes.shape or attribute.levels
        or codes[0] != 0 or not np.isin(steps, (0, 1)).all() or not (apart == 1).all()
    ):  # fmt: skip
        raise InputError(f"{file} merges the bins of '{attribute.name}' in a way that is none.")
    return FineBins(name=attribute.name, codes=tuple(codes.tolist()), counts=counts)
